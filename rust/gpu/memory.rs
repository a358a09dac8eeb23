// SPDX-License-Identifier: GPL-2.0

//! VRAM: who has which part of it, and the CPU's window to it.
//!
//! Whoever allocates gets zeroes. What is given back is cleared before it is free again, see
//! [`super::clear`]; a page of which that is not known is cleared when it is allocated.

use kernel::{
    device::Core,
    gpu::buddy::{
        AllocatedBlocks, GpuBuddy, GpuBuddyAllocFlag, GpuBuddyAllocFlags, GpuBuddyAllocMode,
        GpuBuddyParams,
    },
    impl_has_work,
    new_spinlock,
    new_work,
    pci,
    prelude::*,
    ptr::Alignment,
    sizes::*, //
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
        SpinLock, //
    },
    workqueue::Work,
};

use super::{
    account::VRAM_BLOCK,
    clear::{Clearing, PageMap},
};
use crate::kapi::iomem::WcBar;

/// The BAR of the frame buffer.
const BAR: u32 = 0;

/// What is kept free at the end of VRAM: the discovery table and, on a board whose security
/// processor runs, its memory region. Firmware does not say how large that region is before its
/// own interface is up; this is what open drivers for these boards set aside.
const RESERVED_TOP: u64 = 384 * SZ_1M as u64;

/// Unit of allocation.
pub(super) const PAGE: u64 = SZ_4K as u64;

/// The VRAM of a GPU.
#[pin_data]
pub(crate) struct Vram {
    bar: WcBar,
    buddy: GpuBuddy,
    size: u64,
    usable: u64,
    /// Bytes that belong to somebody.
    used: Atomic<u64>,
    /// Bytes that cannot be allocated: those in use and those that are being cleared.
    taken: Atomic<u64>,
    /// Bytes in use by buffers that could be moved away.
    buffers: Atomic<u64>,
    /// Bytes in use by page tables.
    tables: Atomic<u64>,
    #[pin]
    promised: SpinLock<Promised>,
    /// Pages that are known to hold zeroes.
    #[pin]
    pub(super) clean: PageMap,
    /// The card is being reset, see [`Vram::begin_loss`].
    pub(super) lost: Atomic<bool>,
    /// Pages that somebody has, or had and that are not cleared yet.
    #[pin]
    held: PageMap,
    #[pin]
    pub(super) clearing: Clearing,
    #[pin]
    pub(super) work: Work<Vram>,
}

impl_has_work! {
    impl HasWork<Self> for Vram { self.work }
}

/// What was promised to buffers of processes, wherever they are.
#[derive(Clone, Copy, Default)]
struct Promised {
    bytes: u64,
    /// As if every buffer took whole blocks.
    in_blocks: u64,
}

/// Who has a part of VRAM.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    /// The driver and the hardware's firmware, as long as they want.
    Kernel,
    /// A page table.
    Table,
    /// A buffer, which could be moved away.
    Buffer,
}

/// Blocks of VRAM, as the allocator gave them.
pub(super) struct Blocks {
    vram: Arc<Vram>,
    blocks: Pin<KBox<AllocatedBlocks>>,
    /// Offset and size of each piece, in the order in which they back the range.
    pieces: KVVec<(u64, u64)>,
    size: u64,
}

/// Part of VRAM, in one piece or several. Dropping it has it cleared and gives it back.
pub(crate) struct VramRange {
    vram: Arc<Vram>,
    /// There until the drop.
    blocks: Option<Blocks>,
    size: u64,
    user: User,
}

impl Vram {
    /// Maps the frame buffer BAR of a device with `size` bytes of VRAM.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>, bar: WcBar, size: u64) -> Result<Arc<Self>> {
        let visible = (bar.size() as u64).min(size);
        if visible < size {
            dev_warn!(
                pdev,
                "only {} MiB of {} MiB VRAM are in the BAR; the rest stays unused (enable resizable BARs)\n",
                visible / SZ_1M as u64,
                size / SZ_1M as u64
            );
        }
        let usable = size.checked_sub(RESERVED_TOP).ok_or(ENOSPC)?.min(visible);
        let usable = usable / SZ_2M as u64 * SZ_2M as u64;
        if usable == 0 {
            return Err(ENOSPC);
        }
        let buddy = GpuBuddy::new(GpuBuddyParams {
            base_offset: 0,
            size: usable,
            chunk_size: Alignment::new::<SZ_4K>(),
        })?;
        // What whoever had the card before left in it is nobody's business.
        let clean = PageMap::new(usable)?;
        let held = PageMap::new(usable)?;
        Arc::pin_init(
            try_pin_init!(Self {
                bar,
                buddy,
                size,
                usable,
                used: Atomic::new(0),
                taken: Atomic::new(0),
                buffers: Atomic::new(0),
                tables: Atomic::new(0),
                promised <- new_spinlock!(Promised::default(), "rkfd_promised"),
                clean <- clean,
                lost: Atomic::new(false),
                held <- held,
                clearing <- Clearing::new(),
                work <- new_work!("rkfd_clear"),
            }),
            GFP_KERNEL,
        )
    }

    /// Maps the BAR; what is needed before the size of VRAM is known.
    pub(crate) fn map_bar(pdev: &pci::Device<Core<'_>>) -> Result<WcBar> {
        WcBar::new(pdev, BAR, c"rkfd/vram")
    }

    /// Bytes of VRAM.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that can be allocated when nothing is.
    pub(crate) fn usable(&self) -> u64 {
        self.usable
    }

    /// Bytes that are allocated.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Offset and size of everything that belongs to somebody.
    pub(super) fn held(&self) -> Result<KVVec<(u64, u64)>> {
        self.held.pieces()
    }

    /// Bytes that the CPU reaches.
    pub(crate) fn visible(&self) -> u64 {
        (self.bar.size() as u64).min(self.size)
    }

    /// The CPU's window.
    pub(crate) fn bar(&self) -> &WcBar {
        &self.bar
    }

    /// What can be promised in all when page tables are to have `tables` bytes.
    fn promisable(&self, tables: u64) -> u64 {
        let has_tables = self.tables.load(Relaxed);
        let kernel = self
            .used()
            .saturating_sub(self.buffers.load(Relaxed))
            .saturating_sub(has_tables);
        self.usable
            .saturating_sub(kernel)
            .saturating_sub(tables.max(has_tables))
    }

    /// Bytes that can still be promised, if every buffer takes whole blocks and page tables are to
    /// have `tables` bytes.
    pub(super) fn unpromised(&self, tables: u64) -> u64 {
        self.promisable(tables)
            .saturating_sub(self.promised.lock().in_blocks)
    }

    /// Promises `bytes` to a buffer of a process; `ENOMEM` if there is not so much, as in
    /// [`Vram::unpromised`], but counted in bytes.
    pub(super) fn promise(&self, bytes: u64, tables: u64) -> Result {
        let all = self.promisable(tables);
        let mut promised = self.promised.lock();
        let sum = promised.bytes.checked_add(bytes).filter(|s| *s <= all);
        promised.bytes = sum.ok_or(ENOMEM)?;
        promised.in_blocks += bytes.next_multiple_of(VRAM_BLOCK);
        Ok(())
    }

    /// Undoes a [`Self::promise`].
    pub(super) fn take_promise_back(&self, bytes: u64) {
        let mut promised = self.promised.lock();
        promised.bytes -= bytes;
        promised.in_blocks -= bytes.next_multiple_of(VRAM_BLOCK);
    }

    /// Allocates `size` zeroed bytes; with `contiguous` in one piece. The host data path is not
    /// flushed.
    pub(crate) fn alloc(self: &Arc<Self>, size: u64, contiguous: bool) -> Result<VramRange> {
        self.take(size, contiguous, User::Kernel)
    }

    /// As [`Vram::alloc`], for a page table of `size` bytes.
    pub(crate) fn alloc_table(self: &Arc<Self>, size: u64) -> Result<VramRange> {
        self.take(size, true, User::Table)
    }

    /// As [`Vram::alloc`], for a buffer that could be moved away. `ENOMEM` also if page tables could not
    /// have `tables` bytes afterwards, together with those that they have.
    pub(crate) fn alloc_for_buffer(
        self: &Arc<Self>,
        size: u64,
        contiguous: bool,
        tables: u64,
    ) -> Result<VramRange> {
        let free = self.usable.saturating_sub(self.taken.load(Relaxed));
        let leave = tables.saturating_sub(self.tables.load(Relaxed));
        if size.checked_add(leave).is_none_or(|all| all > free) {
            return Err(ENOMEM);
        }
        self.take(size, contiguous, User::Buffer)
    }

    fn take(self: &Arc<Self>, size: u64, contiguous: bool, user: User) -> Result<VramRange> {
        let size = size
            .checked_next_multiple_of(PAGE)
            .filter(|s| *s > 0 && *s <= self.usable)
            .ok_or(ENOMEM)?;
        let blocks = self.take_blocks(size, contiguous)?;
        self.used.fetch_add(size, Relaxed);
        if let Some(counter) = self.counter(user) {
            counter.fetch_add(size, Relaxed);
        }
        let range = VramRange {
            vram: self.clone(),
            blocks: Some(blocks),
            size,
            user,
        };
        self.make_clean(range.pieces())?;
        Ok(range)
    }

    /// Where the bytes of some users are counted besides.
    fn counter(&self, user: User) -> Option<&Atomic<u64>> {
        match user {
            User::Kernel => None,
            User::Table => Some(&self.tables),
            User::Buffer => Some(&self.buffers),
        }
    }

    fn take_blocks(self: &Arc<Self>, size: u64, contiguous: bool) -> Result<Blocks> {
        let flags = if contiguous {
            GpuBuddyAllocFlags::from(GpuBuddyAllocFlag::Contiguous)
        } else {
            GpuBuddyAllocFlags::default()
        };
        // Blocks of 2 MiB where the size allows it, so that page tables get large pages.
        let big = SZ_2M as u64;
        let min_block = if !contiguous && size % big == 0 {
            Alignment::new::<SZ_2M>()
        } else {
            Alignment::new::<SZ_4K>()
        };
        let try_alloc = |min_block| {
            KBox::pin_init(
                self.buddy
                    .alloc_blocks(GpuBuddyAllocMode::Simple, size, min_block, flags),
                GFP_KERNEL,
            )
        };
        let blocks = try_alloc(min_block)
            .or_else(|_| try_alloc(Alignment::new::<SZ_4K>()))
            .map_err(|_| ENOMEM)?;
        let mut pieces: KVVec<(u64, u64)> = KVVec::new();
        let mut left = size;
        for block in blocks.iter() {
            let len = block.size().min(left);
            let start = block.offset();
            left -= len;
            match pieces.last_mut() {
                Some((s, l)) if *s + *l == start => *l += len,
                _ => pieces.push((start, len), GFP_KERNEL)?,
            }
        }
        if left > 0 {
            return Err(ENOMEM);
        }
        self.taken.fetch_add(size, Relaxed);
        self.held.set(&pieces);
        Ok(Blocks {
            vram: self.clone(),
            blocks,
            pieces,
            size,
        })
    }
}

impl Blocks {
    /// Offset and size of each piece.
    pub(super) fn pieces(&self) -> &[(u64, u64)] {
        &self.pieces
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        debug_assert!(!self.blocks.is_empty());
        self.vram.held.unset(&self.pieces);
        self.vram.taken.fetch_sub(self.size, Relaxed);
    }
}

impl VramRange {
    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    fn pieces(&self) -> &[(u64, u64)] {
        self.blocks.as_ref().map_or(&[], |b| b.pieces())
    }

    /// Offset in VRAM of the first byte.
    pub(crate) fn start(&self) -> u64 {
        self.pieces().first().map_or(0, |p| p.0)
    }

    /// The offset in VRAM of byte `at` of the range, and how many bytes follow there in one piece.
    pub(crate) fn run(&self, at: u64) -> Result<(u64, u64)> {
        let mut skip = at;
        for (start, len) in self.pieces() {
            if skip < *len {
                return Ok((start + skip, len - skip));
            }
            skip -= len;
        }
        Err(EINVAL)
    }

    /// The VRAM it is part of.
    pub(crate) fn vram(&self) -> &Arc<Vram> {
        &self.vram
    }
}

impl Drop for VramRange {
    fn drop(&mut self) {
        self.vram.used.fetch_sub(self.size, Relaxed);
        if let Some(counter) = self.vram.counter(self.user) {
            counter.fetch_sub(self.size, Relaxed);
        }
        if let Some(blocks) = self.blocks.take() {
            self.vram.clear_and_free(blocks);
        }
    }
}
