// SPDX-License-Identifier: GPL-2.0

//! Mirrors: user memory that an address space maps at its own addresses, block by block.
//!
//! The page table of a block of 2 MiB is pinned while a [`Mirror`] of it exists. The owner of the
//! mirror writes and zaps its PTEs under a lock of its own, without that of the page tables, and
//! without allocation: an MMU notifier may do it.

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    rbtree::{RBTreeNode, RBTreeNodeReservation},
    sync::Arc,
};

use super::{
    pages::{MirrorOwner, Mirrored, Pages, BLOCK_BYTES, BLOCK_PAGES},
    pgtable::Update,
    pte::{self, Row, Span, Writer, ENTRY_BYTES},
    space::{Before, Inner},
    tlb,
    vm::Vm,
};
use crate::{
    gpu::Gpu,
    hw::{FlushType, PteAttrs},
};

impl Vm {
    /// Sets the owner of the mirrors. Returns false if there is one already.
    pub(crate) fn set_mirror_owner(&self, owner: Arc<dyn MirrorOwner>) -> bool {
        self.space.mirror_owner.populate(owner)
    }

    /// Returns whether a BO is mapped at any of `len` bytes at `va`.
    pub(crate) fn maps(&self, va: u64, len: u64) -> bool {
        let guard = self.space.inner.lock();
        guard
            .as_ref()
            .is_some_and(|inner| inner.maps(va, len.min(u64::MAX - va)))
    }

    /// Returns a mirror of the block at `va`, without valid PTEs, for a node with a memory
    /// partition. `EADDRINUSE` if a 2 MiB page of a BO is mapped there, `EBUSY` if the block has a
    /// mirror, `EINVAL` outside of the address space, `ENOMEM` without memory.
    pub(crate) fn mirror(self: &Arc<Self>, va: u64, memory: u32) -> Result<Arc<Mirror>> {
        self.space.check_range(va, BLOCK_BYTES)?;
        let gpu = &self.space.gpu;
        gpu.check_plugged()?;
        let table = gpu.alloc_or_evict(self.space.memory(), || self.pin_table(va))?;
        let mirror = Mirror {
            vm: self.clone(),
            va,
            memory,
            table,
        };
        Ok(Arc::new(mirror, GFP_KERNEL)?)
    }

    fn pin_table(&self, va: u64) -> Result<u64> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut guard = self.space.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let inner = inner.as_mut().ok_or(EINVAL)?;
        let mut update = Update::by_cpu(&self.space.gpu);
        let table = inner.tree.pin(&mut update, va)?;
        let owned = Pages::NONE;
        let node: RBTreeNode<u64, Mirrored> = node.into_node(va, Mirrored { owned });
        inner.mirrored.insert(node);
        let finished = self
            .space
            .finish(&mut inner.tree, &mut update, Before::Invalid);
        drop(update);
        let mut removed = None;
        if finished.is_err() {
            removed = inner.mirrored.remove_node(&va);
            // Does not fail on a card that was wedged, which is not flushed; the page tables of an
            // unplugged one are not used any more.
            let _ = self.unpin(inner, va);
        }
        drop(guard);
        drop(removed);
        finished.map(|()| table)
    }

    /// Makes accesses to the page at `va` fault without retry, if no BO is mapped there. Errors as
    /// [`Self::mirror`].
    pub(crate) fn refuse(&self, va: u64) -> Result {
        let page = PAGE_SIZE as u64;
        let va = va / page * page;
        self.space.check_range(va, page)?;
        let gpu = &self.space.gpu;
        gpu.check_plugged()?;
        gpu.alloc_or_evict(self.space.memory(), || {
            let mut guard = self.space.inner.lock();
            let inner: &mut Option<Inner> = &mut guard;
            let inner = inner.as_mut().ok_or(EINVAL)?;
            if inner.maps(va, page) {
                return Err(EADDRINUSE);
            }
            self.space.set_refused();
            let mut update = Update::by_cpu(gpu);
            inner.tree.refuse(&mut update, va)?;
            self.space
                .finish(&mut inner.tree, &mut update, Before::Valid)
        })
    }

    fn unpin_table(&self, va: u64) -> Result {
        let mut guard = self.space.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let Some(inner) = inner.as_mut() else {
            return Ok(());
        };
        let removed = inner.mirrored.remove_node(&va);
        let unpinned = match self.space.gpu.is_unplugged() {
            true => Ok(()),
            false => self.unpin(inner, va),
        };
        drop(guard);
        drop(removed);
        unpinned
    }

    fn unpin(&self, inner: &mut Inner, va: u64) -> Result {
        let mut update = Update::by_cpu(&self.space.gpu);
        inner.tree.unpin(&mut update, va)?;
        self.space
            .finish(&mut inner.tree, &mut update, Before::Invalid)
    }
}

/// A block of user memory in an address space.
///
/// The owner serializes [`Self::write`] and [`Self::clear`], and zaps all PTEs before it drops the
/// mirror.
pub(crate) struct Mirror {
    vm: Arc<Vm>,
    va: u64,
    /// Memory partition of the node. That of the address space is of its file, which may be one of
    /// another node.
    memory: u32,
    /// Offset of the page table in VRAM.
    table: u64,
}

impl Mirror {
    /// Returns the card.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.vm.space.gpu
    }

    /// Returns the address that PTEs use for VRAM of the card at `offset`, and whether that is in
    /// the memory partition of the node.
    pub(crate) fn vram(&self, offset: u64) -> (u64, bool) {
        let gpu = self.gpu();
        let near = gpu.vram().usable_range(Some(self.memory));
        let local = near.contains(&offset);
        (gpu.vram_pa(offset), local)
    }

    /// Adds pages that BOs must not be mapped at, except for those at which one is. Returns the
    /// latter.
    pub(crate) fn claim(&self, pages: Pages) -> Result<Pages> {
        let mut guard = self.vm.space.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let inner = inner.as_mut().ok_or(EINVAL)?;
        let owned = inner.mirrored.get(&self.va).ok_or(EINVAL)?.owned;
        let va = |page: usize| self.va + (page * PAGE_SIZE) as u64;
        let maps = |first, end| inner.maps(va(first), va(end) - va(first));
        let mut taken = Pages::NONE;
        pages.without(owned).runs(|first, end| {
            if maps(first, end) {
                let pages = (first..end).filter(|page| maps(*page, page + 1));
                pages.for_each(|page| taken.add(page));
            }
            Ok(())
        })?;
        let mirrored = inner.mirrored.get_mut(&self.va).ok_or(EINVAL)?;
        mirrored.owned = owned.or(pages.without(taken));
        Ok(taken)
    }

    /// Returns the pages that BOs must not be mapped at.
    pub(crate) fn claimed(&self) -> Pages {
        let guard = self.vm.space.inner.lock();
        let mirrored = guard.as_ref().and_then(|i| i.mirrored.get(&self.va));
        mirrored.map_or(Pages::NONE, |mirrored| mirrored.owned)
    }

    /// Releases pages of [`Self::claim`] that are not among `pages`.
    pub(crate) fn keep(&self, pages: Pages) {
        let mut guard = self.vm.space.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let mirrored = inner.as_mut().and_then(|i| i.mirrored.get_mut(&self.va));
        if let Some(mirrored) = mirrored {
            mirrored.owned = mirrored.owned.and(pages);
        }
    }

    /// Writes the PTEs of `count` pages from page `first` on, with consecutive addresses from
    /// `addr` on. Calls `fragment` with the first page of each fragment. `EINVAL` beyond the block.
    /// Visible to the GPU after [`Self::finish`].
    pub(crate) fn write(
        &self,
        first: usize,
        count: usize,
        addr: u64,
        attrs: PteAttrs,
        mut fragment: impl FnMut(usize),
    ) -> Result {
        if first + count > BLOCK_PAGES {
            return Err(EINVAL);
        }
        let gpu = self.gpu();
        let gmc = gpu.generation().gmc;
        let flags = gmc.pte_flags(attrs);
        let mut writer = Writer::new(gpu, 0);
        let mut rows = writer.rows(self.ptes(first, count))?;
        let page = |at: u64| (at - self.va) as usize / PAGE_SIZE;
        let va = |page: usize| self.va + (page * PAGE_SIZE) as u64;
        pte::for_fragments(va(first)..va(first + count), addr, |at, pa, order| {
            fragment(page(at));
            rows.push(&Row::pages(pa, order, gmc.leaf(0, 0, flags, order)))
        })?;
        rows.write_batch()
    }

    /// Returns the PTEs of `count` pages from page `first` on.
    fn ptes(&self, first: usize, count: usize) -> Span {
        let empty = self.gpu().generation().gmc.empty(0);
        Span::new(self.table + (first * ENTRY_BYTES) as u64, count, empty)
    }

    /// Zaps the PTEs of `pages`. Does not allocate. Complete after [`Self::flush`].
    pub(crate) fn clear(&self, pages: Pages) -> Result {
        let gpu = self.gpu();
        pages.runs(|first, end| self.ptes(first, end - first).clear(gpu))
    }

    /// Makes written PTEs visible to the GPU.
    pub(crate) fn finish(&self) -> Result {
        self.gpu().hub().hdp_flush()
    }

    /// Returns whether a page was ever refused ([`Vm::refuse`]): TLBs may cache its PTE.
    pub(crate) fn has_refused(&self) -> bool {
        self.vm.space.has_refused()
    }

    /// Completes [`Self::clear`], for all mirrors of the address space: the GPU does not access the
    /// pages any more. Wedges the card on an error.
    pub(crate) fn flush(&self) {
        let (gpu, pasid) = (self.gpu(), self.vm.pasid());
        let flushed = tlb::flush_pasid(gpu, pasid, FlushType::Heavyweight);
        if flushed.is_err() && gpu.check_usable().is_ok() {
            gpu.wedge("page tables were not updated");
        }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if let Err(e) = self.vm.unpin_table(self.va) {
            dev_err!(self.gpu().dev(), "a page table was not freed: {e:?}\n");
        }
    }
}
