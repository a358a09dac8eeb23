// SPDX-License-Identifier: GPL-2.0

//! VRAM: who has which part of it, and the CPU's window to it.

use kernel::{
    device::Core,
    gpu::buddy::{
        AllocatedBlocks, GpuBuddy, GpuBuddyAllocFlag, GpuBuddyAllocFlags, GpuBuddyAllocMode,
        GpuBuddyParams,
    },
    pci,
    prelude::*,
    ptr::Alignment,
    sizes::*, //
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, //
    },
};

use crate::kapi::iomem::WcBar;

/// The BAR of the frame buffer.
const BAR: u32 = 0;

/// What is kept free at the end of VRAM: the discovery table and, on a board whose security
/// processor runs, its memory region. Firmware does not say how large that region is before its
/// own interface is up; this is what open drivers for these boards set aside.
const RESERVED_TOP: u64 = 384 * SZ_1M as u64;

/// The VRAM of a GPU.
pub(crate) struct Vram {
    bar: WcBar,
    buddy: GpuBuddy,
    size: u64,
    usable: u64,
    used: Atomic<u64>,
}

/// Part of VRAM, in one piece or several.
pub(crate) struct VramRange {
    vram: Arc<Vram>,
    blocks: Pin<KBox<AllocatedBlocks>>,
    /// Offset and size of each piece, in the order in which they back the range.
    pieces: KVVec<(u64, u64)>,
    size: u64,
}

impl Vram {
    /// Maps the frame buffer BAR of a device with `size` bytes of VRAM.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>, bar: WcBar, size: u64) -> Result<Self> {
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
        Ok(Self {
            bar,
            buddy,
            size,
            usable,
            used: Atomic::new(0),
        })
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

    /// Bytes that the CPU reaches.
    pub(crate) fn visible(&self) -> u64 {
        (self.bar.size() as u64).min(self.size)
    }

    /// The CPU's window.
    pub(crate) fn bar(&self) -> &WcBar {
        &self.bar
    }

    /// Allocates `size` bytes; with `contiguous` in one piece. The content is what the former
    /// owner left: see [`VramRange::clear`].
    pub(crate) fn alloc(self: &Arc<Self>, size: u64, contiguous: bool) -> Result<VramRange> {
        let size = size
            .checked_next_multiple_of(SZ_4K as u64)
            .filter(|s| *s > 0 && *s <= self.usable)
            .ok_or(ENOMEM)?;
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
        self.used.fetch_add(size, Relaxed);
        Ok(VramRange {
            vram: self.clone(),
            blocks,
            pieces,
            size,
        })
    }
}

impl VramRange {
    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Offset in VRAM of the first byte.
    pub(crate) fn start(&self) -> u64 {
        self.pieces.first().map_or(0, |p| p.0)
    }

    /// The offset in VRAM of byte `at` of the range, and how many bytes follow there in one piece.
    pub(crate) fn run(&self, at: u64) -> Result<(u64, u64)> {
        let mut skip = at;
        for (start, len) in self.pieces.iter() {
            if skip < *len {
                return Ok((start + skip, len - skip));
            }
            skip -= len;
        }
        Err(EINVAL)
    }

    /// Fills the range with zeroes through the BAR.
    pub(crate) fn clear(&self) -> Result {
        for (start, len) in self.pieces.iter() {
            self.vram
                .bar
                .zero(usize::try_from(*start)?, usize::try_from(*len)?)?;
        }
        Ok(())
    }

    /// The VRAM it is part of.
    pub(crate) fn vram(&self) -> &Arc<Vram> {
        &self.vram
    }
}

impl Drop for VramRange {
    fn drop(&mut self) {
        debug_assert!(!self.blocks.is_empty());
        self.vram.used.fetch_sub(self.size, Relaxed);
    }
}
