// SPDX-License-Identifier: GPL-2.0

//! The VRAM allocator: the frame buffer BAR and the buddy allocator over it.

use core::ops::Range;

use kernel::{
    gpu::buddy::{
        AllocatedBlocks, GpuBuddy, GpuBuddyAllocFlag, GpuBuddyAllocFlags, GpuBuddyAllocMode,
        GpuBuddyParams,
    },
    new_mutex,
    prelude::*,
    ptr::Alignment,
    rbtree::RBTree,
    sizes::*, //
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
        Mutex, //
    },
};

use super::{memory::MemoryPartition, page_map::PageMap};
use crate::kapi::iomem::WcBar;

/// The allocatable part of VRAM.
#[pin_data]
pub(super) struct VramPool {
    bar: WcBar,
    buddy: GpuBuddy,
    usable: u64,
    /// Bytes that cannot be allocated: in use, or waiting to be cleared.
    taken: Atomic<u64>,
    partitions: KVec<Arc<MemoryPartition>>,
    /// Pages in use or waiting to be cleared.
    #[pin]
    held: PageMap,
    /// Pages that are out of use, by offset.
    #[pin]
    retired: Mutex<RBTree<u64, Pin<KBox<AllocatedBlocks>>>>,
}

/// Blocks of VRAM as the buddy allocator returned them. Dropping them frees them uncleared.
pub(super) struct Blocks {
    pool: Arc<VramPool>,
    blocks: Pin<KBox<AllocatedBlocks>>,
    /// Offset and size of each piece, in the order in which they back the range.
    pieces: KVVec<(u64, u64)>,
    /// End of each piece in the range.
    ends: KVVec<u64>,
    size: u64,
}

impl VramPool {
    /// Returns a pool over the first `usable` bytes of VRAM, with these memory partitions. `ENOMEM`
    /// without memory.
    pub(super) fn new(
        bar: WcBar,
        usable: u64,
        partitions: KVec<Arc<MemoryPartition>>,
    ) -> Result<Arc<Self>> {
        let buddy = GpuBuddy::new(GpuBuddyParams {
            base_offset: 0,
            size: usable,
            chunk_size: Alignment::new::<SZ_4K>(),
        })?;
        let held = PageMap::new(usable)?;
        Arc::pin_init(
            try_pin_init!(Self {
                bar,
                buddy,
                usable,
                taken: Atomic::new(0),
                partitions,
                held <- held,
                retired <- new_mutex!(RBTree::new(), "rkfd_retired"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the CPU mapping of VRAM.
    pub(super) fn bar(&self) -> &WcBar {
        &self.bar
    }

    /// Returns the bytes that can be allocated when nothing is.
    pub(super) fn usable(&self) -> u64 {
        self.usable
    }

    /// Returns the memory partitions, at least one.
    pub(super) fn partitions(&self) -> &[Arc<MemoryPartition>] {
        &self.partitions
    }

    /// Returns the bytes that can be allocated now, in a memory partition or anywhere.
    pub(super) fn free(&self, memory: Option<&MemoryPartition>) -> u64 {
        match memory {
            Some(memory) => memory.free(),
            None => self.usable.saturating_sub(self.taken.load(Relaxed)),
        }
    }

    /// Returns offset and size of everything that is allocated or not cleared yet.
    pub(super) fn held(&self) -> Result<KVVec<(u64, u64)>> {
        self.held.pieces()
    }

    /// Retires pages permanently; their contents are not touched. Returns false if they were
    /// retired before. `EBUSY` when one is allocated, `ENOMEM` without memory.
    pub(super) fn retire(&self, pages: Range<u64>) -> Result<bool> {
        let mut retired = self.retired.lock();
        if retired.get(&pages.start).is_some() {
            return Ok(false);
        }
        let (first, bytes) = (pages.start, pages.end - pages.start);
        let block = KBox::pin_init(
            self.buddy.alloc_blocks(
                GpuBuddyAllocMode::Range(pages),
                bytes,
                Alignment::new::<SZ_4K>(),
                GpuBuddyAllocFlags::default(),
            ),
            GFP_KERNEL,
        );
        let block = block.map_err(|e| if e == ENOSPC { EBUSY } else { e })?;
        retired.try_create_and_insert(first, block, GFP_KERNEL)?;
        self.taken.fetch_add(bytes, Relaxed);
        let partitions = self.partitions.iter();
        partitions.for_each(|memory| memory.take(&[(first, bytes)]));
        Ok(true)
    }

    /// Allocates `size` bytes, a multiple of the page size, with `contiguous` in one piece, in a
    /// range of VRAM. The contents are undefined. `ENOMEM` when there is no room.
    pub(super) fn alloc(
        self: &Arc<Self>,
        size: u64,
        contiguous: bool,
        within: &Range<u64>,
    ) -> Result<Blocks> {
        let mode = if *within == (0..self.usable) {
            GpuBuddyAllocMode::Simple
        } else {
            GpuBuddyAllocMode::Range(within.clone())
        };
        let flags = if contiguous {
            GpuBuddyAllocFlags::from(GpuBuddyAllocFlag::Contiguous)
        } else {
            GpuBuddyAllocFlags::default()
        };
        // 2 MiB blocks where the size permits, so that page tables get PDE-as-PTE entries.
        let big = SZ_2M as u64;
        let min_block = if !contiguous && size % big == 0 {
            Alignment::new::<SZ_2M>()
        } else {
            Alignment::new::<SZ_4K>()
        };
        let try_alloc = |min_block| {
            KBox::pin_init(
                self.buddy
                    .alloc_blocks(mode.clone(), size, min_block, flags),
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
        let mut ends = KVVec::with_capacity(pieces.len(), GFP_KERNEL)?;
        let mut end = 0;
        for (_, len) in &pieces {
            end += len;
            ends.push_within_capacity(end)?;
        }
        self.taken.fetch_add(size, Relaxed);
        self.partitions
            .iter()
            .for_each(|memory| memory.take(&pieces));
        self.held.set(&pieces);
        Ok(Blocks {
            pool: self.clone(),
            blocks,
            pieces,
            ends,
            size,
        })
    }
}

impl Blocks {
    /// Returns offset and size of each piece.
    pub(super) fn pieces(&self) -> &[(u64, u64)] {
        &self.pieces
    }

    /// Returns the offset in VRAM of byte `at`, and the bytes that follow it in one piece; `None`
    /// beyond the end.
    pub(super) fn run(&self, at: u64) -> Option<(u64, u64)> {
        let piece = self.ends.partition_point(|end| *end <= at);
        let left = self.ends.get(piece)? - at;
        let (start, len) = self.pieces.get(piece)?;
        Some((start + len - left, left))
    }

    /// Returns the size of all pieces in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        debug_assert!(!self.blocks.is_empty());
        self.pool.held.unset(&self.pieces);
        let partitions = self.pool.partitions.iter();
        partitions.for_each(|memory| memory.give_back(&self.pieces));
        self.pool.taken.fetch_sub(self.size, Relaxed);
    }
}
