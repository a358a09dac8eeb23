// SPDX-License-Identifier: GPL-2.0

//! The VRAM allocator: the frame buffer BAR and the buddy allocator over it.

use core::{ops::Range, slice};

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

/// Pieces of VRAM, in the order in which they back a range: offset and size.
enum Pieces {
    One((u64, u64)),
    Many {
        all: KVVec<(u64, u64)>,
        /// End of each piece in the range.
        ends: KVVec<u64>,
    },
}

impl Pieces {
    /// Returns the first `size` bytes of `blocks`. `ENOMEM` if they have fewer, or without memory.
    fn new(blocks: &AllocatedBlocks, size: u64) -> Result<Self> {
        let mut left = size;
        let mut last = (0, 0);
        // Those before the last one.
        let mut before: Option<KVVec<(u64, u64)>> = None;
        for block in blocks.iter() {
            let len = block.size().min(left);
            left -= len;
            if last.0 + last.1 == block.offset() && last.1 != 0 {
                last.1 += len;
                continue;
            }
            if last.1 != 0 {
                before
                    .get_or_insert_with(KVVec::new)
                    .push(last, GFP_KERNEL)?;
            }
            last = (block.offset(), len);
        }
        if left > 0 {
            return Err(ENOMEM);
        }
        let Some(mut all) = before else {
            return Ok(Self::One(last));
        };
        all.push(last, GFP_KERNEL)?;
        let mut ends = KVVec::with_capacity(all.len(), GFP_KERNEL)?;
        let mut end = 0;
        for (_, len) in &all {
            end += len;
            ends.push_within_capacity(end)?;
        }
        Ok(Self::Many { all, ends })
    }

    fn as_slice(&self) -> &[(u64, u64)] {
        match self {
            Self::One(piece) => slice::from_ref(piece),
            Self::Many { all, .. } => all,
        }
    }

    /// Returns the piece with byte `at` of the range, and the bytes from there to its end; `None`
    /// beyond the end.
    fn find(&self, at: u64) -> Option<((u64, u64), u64)> {
        let (piece, end) = match self {
            Self::One(piece) => (*piece, piece.1),
            Self::Many { all, ends } => {
                let i = ends.partition_point(|end| *end <= at);
                (*all.get(i)?, *ends.get(i)?)
            }
        };
        Some((piece, end.checked_sub(at).filter(|left| *left != 0)?))
    }
}

/// Blocks of VRAM as the buddy allocator returned them. Dropping them frees them uncleared.
pub(super) struct Blocks {
    pool: Arc<VramPool>,
    blocks: Pin<KBox<AllocatedBlocks>>,
    pieces: Pieces,
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
        let pieces = Pieces::new(&blocks, size)?;
        self.taken.fetch_add(size, Relaxed);
        self.partitions
            .iter()
            .for_each(|memory| memory.take(pieces.as_slice()));
        self.held.set(pieces.as_slice());
        Ok(Blocks {
            pool: self.clone(),
            blocks,
            pieces,
            size,
        })
    }
}

impl Blocks {
    /// Returns offset and size of each piece.
    pub(super) fn pieces(&self) -> &[(u64, u64)] {
        self.pieces.as_slice()
    }

    /// Returns the offset in VRAM of byte `at`, and the bytes that follow it in one piece; `None`
    /// beyond the end.
    pub(super) fn run(&self, at: u64) -> Option<(u64, u64)> {
        let ((start, len), left) = self.pieces.find(at)?;
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
        self.pool.held.unset(self.pieces());
        let partitions = self.pool.partitions.iter();
        partitions.for_each(|memory| memory.give_back(self.pieces()));
        self.pool.taken.fetch_sub(self.size, Relaxed);
    }
}
