// SPDX-License-Identifier: GPL-2.0

//! VRAM of a card: allocation, zeroed on return and on allocation, and the accounts of its users.

use core::ops::Range;

use kernel::{
    device::{self, Core},
    pci,
    prelude::*,
    sizes::*, //
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, //
    },
};
use rkfd_abi::{mmio::BAR_VRAM, pte::PAGE_SIZE};

use super::{
    clear::{ClearEngine, Clearing},
    memory::MemoryPartition,
    pool::{Blocks, VramPool},
};
use crate::{
    asic::caps::Caps,
    kapi::{fence::Fence, iomem::WcBar, workqueue::Delayed},
};

/// The VRAM of a card.
#[pin_data]
pub(crate) struct Vram {
    pool: Arc<VramPool>,
    clearing: Arc<Delayed<Clearing>>,
    size: u64,
    /// Bytes at the end that belong to the boot firmware.
    firmware: u64,
    /// Bytes allocated by each [`VramUser`].
    by_user: [Atomic<u64>; VramUser::ALL.len()],
}

/// Use of an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum VramUser {
    /// The driver: GART, scratch page. Never moves.
    Driver,
    /// MQDs and control stacks of user queues. Never move.
    Mqd,
    /// Page tables. Never move.
    Table,
    /// Evictable BOs of `/dev/kfd`.
    Process,
    /// Evictable BOs of render nodes.
    Render,
    /// Migrated pages of shared virtual memory.
    Svm,
    /// Bad pages, which are never used again.
    Retired,
    /// Firmware, in addition to the reservation of the VBIOS. Never freed.
    Firmware,
}

impl VramUser {
    /// All of them, in the order of their values.
    const ALL: [Self; 8] = [
        Self::Driver,
        Self::Mqd,
        Self::Table,
        Self::Process,
        Self::Render,
        Self::Svm,
        Self::Retired,
        Self::Firmware,
    ];

    /// Returns the name in debugfs.
    const fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Mqd => "mqds",
            Self::Table => "page_tables",
            Self::Process => "kfd_bos",
            Self::Render => "render_bos",
            Self::Svm => "svm",
            Self::Retired => "retired",
            Self::Firmware => "firmware",
        }
    }
}

/// A range of VRAM, in one piece or several. Dropping it zeroes and frees it.
pub(crate) struct VramRange {
    vram: Arc<Vram>,
    /// `Some` until drop.
    blocks: Option<Blocks>,
    size: u64,
    user: VramUser,
}

impl Vram {
    /// Returns the VRAM of a card with `size` bytes behind `bar`.
    ///
    /// `ranges` are those of its memory partitions, `reserved` the bytes at the end that belong to
    /// the boot firmware. VRAM beyond the BAR stays unused, with a warning. `ENOSPC` when nothing
    /// is left.
    pub(crate) fn new(
        pdev: &pci::Device<Core<'_>>,
        bar: WcBar,
        size: u64,
        ranges: KVec<Range<u64>>,
        reserved: u64,
        caps: &Caps,
    ) -> Result<Arc<Self>> {
        let visible = (bar.size() as u64).min(size);
        if visible < size {
            dev_warn!(
                pdev,
                "only {} MiB of {} MiB VRAM are in the BAR; the rest stays unused (enable resizable BARs)\n",
                visible / SZ_1M as u64,
                size / SZ_1M as u64
            );
        }
        let usable = size.checked_sub(reserved).ok_or(ENOSPC)?.min(visible);
        let usable = usable / SZ_2M as u64 * SZ_2M as u64;
        if usable == 0 {
            return Err(ENOSPC);
        }
        let mut partitions = KVec::new();
        for (index, range) in (0..).zip(ranges) {
            partitions.push(MemoryPartition::new(index, range, usable)?, GFP_KERNEL)?;
        }
        let pool = VramPool::new(bar, usable, partitions)?;
        let clearing = Clearing::new(&pool, caps)?;
        Arc::pin_init(
            pin_init!(Self {
                pool,
                clearing,
                size,
                firmware: reserved,
                by_user: VramUser::ALL.map(|_| Atomic::new(0)),
            }),
            GFP_KERNEL,
        )
    }

    /// Maps the frame buffer BAR, before the size of VRAM is known.
    pub(crate) fn map_bar(pdev: &pci::Device<Core<'_>>) -> Result<WcBar> {
        WcBar::new(pdev, BAR_VRAM, c"rkfd/vram")
    }

    /// Returns the size of VRAM in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the bytes that can be allocated when nothing is.
    pub(crate) fn usable(&self) -> u64 {
        self.pool.usable()
    }

    /// Returns the memory partitions, at least one.
    pub(crate) fn partitions(&self) -> &[Arc<MemoryPartition>] {
        self.pool.partitions()
    }

    /// Returns a memory partition; `None` if `memory` is `None` or does not exist.
    fn partition(&self, memory: Option<u32>) -> Option<&MemoryPartition> {
        Some(self.partitions().get(memory? as usize)?)
    }

    /// Returns the allocatable range of a memory partition, or that of all VRAM if it does not
    /// exist.
    pub(crate) fn usable_range(&self, memory: Option<u32>) -> Range<u64> {
        self.partition(memory)
            .map_or(0..self.usable(), |partition| partition.usable().clone())
    }

    /// Returns the bytes allocated by page tables, in a memory partition or anywhere.
    fn tables(&self, memory: Option<&MemoryPartition>) -> u64 {
        match memory {
            Some(memory) => memory.tables.load(Relaxed),
            None => self.used_by(VramUser::Table),
        }
    }

    /// Returns the bytes allocated.
    pub(crate) fn used(&self) -> u64 {
        VramUser::ALL.map(|user| self.used_by(user)).iter().sum()
    }

    /// Returns the bytes that are reserved for firmware, or beyond the BAR.
    pub(crate) fn reserved(&self) -> u64 {
        self.size - self.usable()
    }

    /// Returns the bytes that are not free. As in the C driver, this includes the reservation of
    /// firmware.
    pub(crate) fn used_or_reserved(&self) -> u64 {
        self.used() + self.reserved()
    }

    /// Returns the bytes that a kind of user has allocated.
    pub(crate) fn used_by(&self, user: VramUser) -> u64 {
        self.by_user[user as usize].load(Relaxed)
    }

    /// Returns the name and the bytes of each user of VRAM. Without concurrent changes the sum is
    /// [`Vram::used`] and [`Vram::reserved`].
    pub(crate) fn ledger(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let users = VramUser::ALL.iter();
        Iterator::chain(
            core::iter::once(("reserved", self.reserved())),
            users.map(|user| (user.name(), self.used_by(*user))),
        )
    }

    /// Returns the bytes that were freed and are not cleared yet.
    pub(crate) fn uncleared(&self) -> u64 {
        let taken = self.usable().saturating_sub(self.pool.free(None));
        taken.saturating_sub(self.used())
    }

    /// Returns offset and size of everything that is allocated or not cleared yet.
    pub(crate) fn held(&self) -> Result<KVVec<(u64, u64)>> {
        self.pool.held()
    }

    /// Returns the bytes that the CPU can access through the BAR.
    pub(crate) fn visible(&self) -> u64 {
        (self.bar().size() as u64).min(self.size)
    }

    /// Returns the CPU mapping.
    pub(crate) fn bar(&self) -> &WcBar {
        self.pool.bar()
    }

    /// Zeroes freed memory by `engine` from now on, see [`Clearing::attach`].
    pub(crate) fn attach(&self, engine: Arc<dyn ClearEngine>) -> Result {
        self.clearing.attach(engine)
    }

    /// Ends [`Vram::attach`], see [`Clearing::detach`].
    pub(crate) fn detach(&self, dev: &device::Device) {
        self.clearing.detach(dev);
    }

    /// Drops `memory` when all fences have signaled.
    pub(crate) fn drop_after(&self, memory: Arc<dyn Send + Sync>, until: KVec<ARef<Fence>>) {
        Clearing::drop_after(&self.clearing, memory, until);
    }

    /// Waits until some freed memory was cleared and can be allocated. Returns false when all freed
    /// memory is still in use, `ERESTARTSYS` after a signal.
    pub(crate) fn wait_for_cleared(&self) -> Result<bool> {
        self.clearing.wait_for_batch(false)
    }

    /// As [`Self::wait_for_cleared`], also for memory that the GPU uses.
    pub(crate) fn wait_for_freed(&self) -> Result<bool> {
        self.clearing.wait_for_batch(true)
    }

    /// See [`Clearing::begin_loss`].
    pub(crate) fn begin_loss(&self) {
        self.clearing.begin_loss();
    }

    /// See [`Clearing::end_loss`].
    pub(crate) fn end_loss(&self) {
        self.clearing.end_loss();
    }

    /// Returns the bytes that never move, other than page tables.
    fn fixed(&self) -> u64 {
        let users = [
            VramUser::Driver,
            VramUser::Mqd,
            VramUser::Retired,
            VramUser::Firmware,
        ];
        users.map(|user| self.used_by(user)).iter().sum()
    }

    /// Returns the bytes of which processes can reserve nothing, wherever they are: as the C driver
    /// does with all pinned memory, each node deducts them from its share.
    pub(super) fn deducted(&self) -> u64 {
        self.firmware + self.fixed()
    }

    /// Returns the bytes that can be reserved in a partition when page tables need `tables` bytes
    /// there. Memory of the driver may be in any partition.
    fn reservable(&self, memory: &MemoryPartition, tables: u64) -> u64 {
        (memory.usable().end - memory.usable().start)
            .saturating_sub(self.fixed())
            .saturating_sub(tables.max(self.tables(Some(memory))))
    }

    /// Returns the bytes that can still be reserved in a partition when every BO takes whole blocks
    /// of 2 MiB and page tables need `tables` bytes.
    pub(super) fn unreserved(&self, memory: &MemoryPartition, tables: u64) -> u64 {
        self.reservable(memory, tables)
            .saturating_sub(memory.reserved.lock().in_blocks())
    }

    /// Reserves `bytes` of a partition for a BO of a process. `ENOMEM` when less is left; other
    /// than [`Vram::unreserved`] this counts bytes, not blocks.
    pub(super) fn reserve(&self, memory: &MemoryPartition, bytes: u64, tables: u64) -> Result {
        let all = self.reservable(memory, tables);
        memory.reserved.lock().add(bytes, all)
    }

    /// Retires the page at an offset permanently. Returns false for a page that is beyond the
    /// usable VRAM, or retired already. `EBUSY` when it is allocated, `ENOMEM` without memory.
    pub(crate) fn retire(&self, page: u64) -> Result<bool> {
        let new = page < self.usable() && self.pool.retire(page..page + PAGE_SIZE)?;
        if new {
            self.by_user[VramUser::Retired as usize].fetch_add(PAGE_SIZE, Relaxed);
        }
        Ok(new)
    }

    /// Reserves a range for firmware permanently, as far as it is usable. Errors as
    /// [`Vram::retire`].
    pub(crate) fn leave_to_firmware(&self, range: &Range<u64>) -> Result {
        // In this order: the range is a value of the firmware, which may be any.
        let end = range.end.min(self.usable()).next_multiple_of(PAGE_SIZE);
        let start = range.start / PAGE_SIZE * PAGE_SIZE;
        if start < end && self.pool.retire(start..end)? {
            self.by_user[VramUser::Firmware as usize].fetch_add(end - start, Relaxed);
        }
        Ok(())
    }

    /// Allocates `size` zeroed bytes in one piece, which never move. The HDP is not flushed.
    /// `ENOMEM` when there is no room, `EIO` when a card reset does not end, `ERESTARTSYS` after a
    /// signal.
    pub(crate) fn alloc(self: &Arc<Self>, size: u64, user: VramUser) -> Result<VramRange> {
        self.take(size, true, user, None)
    }

    /// Allocates a page table of `size` bytes in a memory partition, or anywhere. Errors as
    /// [`Vram::alloc`].
    pub(crate) fn alloc_table(
        self: &Arc<Self>,
        size: u64,
        memory: Option<u32>,
    ) -> Result<VramRange> {
        self.take(size, true, VramUser::Table, memory)
    }

    /// Allocates evictable memory in a memory partition, or anywhere, with `contiguous` in one
    /// piece if there is one (`amdgpu_vram_mgr_new`). Errors as [`Vram::alloc`]; `ENOMEM` also when
    /// page tables could not grow to `tables` bytes there afterwards.
    pub(crate) fn alloc_evictable(
        self: &Arc<Self>,
        user: VramUser,
        size: u64,
        contiguous: bool,
        tables: u64,
        memory: Option<u32>,
    ) -> Result<VramRange> {
        let partition = self.partition(memory);
        let reserved = tables.saturating_sub(self.tables(partition));
        if size
            .checked_add(reserved)
            .is_none_or(|all| all > self.pool.free(partition))
        {
            return Err(ENOMEM);
        }
        match self.take(size, contiguous, user, memory) {
            Err(e) if e == ENOMEM && contiguous => self.take(size, false, user, memory),
            other => other,
        }
    }

    fn take(
        self: &Arc<Self>,
        size: u64,
        contiguous: bool,
        user: VramUser,
        memory: Option<u32>,
    ) -> Result<VramRange> {
        let size = size
            .checked_next_multiple_of(PAGE_SIZE)
            .filter(|s| *s > 0 && *s <= self.usable())
            .ok_or(ENOMEM)?;
        let within = self.usable_range(memory);
        let blocks = self.pool.alloc(size, contiguous, &within)?;
        let range = VramRange {
            vram: self.clone(),
            blocks: Some(blocks),
            size,
            user,
        };
        for counter in range.counters() {
            counter.fetch_add(size, Relaxed);
        }
        self.clearing.make_clean(range.pieces())?;
        Ok(range)
    }
}

impl VramRange {
    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns start and bytes of its contiguous parts.
    pub(crate) fn pieces(&self) -> &[(u64, u64)] {
        self.blocks.as_ref().map_or(&[], |b| b.pieces())
    }

    /// Returns the counters of its size. A page table is in one memory partition.
    fn counters(&self) -> impl Iterator<Item = &Atomic<u64>> {
        let mut partitions = self.vram.partitions().iter();
        let tables = match self.user {
            VramUser::Table => partitions
                .find(|memory| memory.usable().contains(&self.start()))
                .map(|memory| &memory.tables),
            _ => None,
        };
        let of_user = &self.vram.by_user[self.user as usize];
        Iterator::chain(core::iter::once(of_user), tables)
    }

    /// Returns whether a piece of it is in `range` of VRAM.
    pub(crate) fn overlaps(&self, range: &Range<u64>) -> bool {
        let mut pieces = self.pieces().iter();
        pieces.any(|(start, len)| *start < range.end && range.start < start + len)
    }

    /// Returns the offset of the first byte in VRAM.
    pub(crate) fn start(&self) -> u64 {
        self.pieces().first().map_or(0, |p| p.0)
    }

    /// Returns the offset in VRAM of byte `at` of the range, and the bytes that follow it in one
    /// piece. `EINVAL` beyond the end.
    pub(crate) fn run(&self, at: u64) -> Result<(u64, u64)> {
        let blocks = self.blocks.as_ref().ok_or(EINVAL)?;
        blocks.run(at).ok_or(EINVAL)
    }

    /// Returns the VRAM that the range is part of.
    pub(crate) fn vram(&self) -> &Arc<Vram> {
        &self.vram
    }
}

impl Drop for VramRange {
    fn drop(&mut self) {
        for counter in self.counters() {
            counter.fetch_sub(self.size, Relaxed);
        }
        if let Some(blocks) = self.blocks.take() {
            Clearing::free(&self.vram.clearing, blocks);
        }
    }
}
