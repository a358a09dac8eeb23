// SPDX-License-Identifier: GPL-2.0

//! Address spaces: page tables and mappings, and their updates when BOs move.
//!
//! Mappings are always valid: when a BO moves, the PTEs of all address spaces that map it are
//! updated before the old memory is freed.

use core::{iter, mem, ops::Range};

use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation},
    sync::{
        atomic::{AtomicFlag, Relaxed},
        Arc, Mutex, SetOnce,
    },
};

use super::{
    addresses,
    bo::Bo,
    inner::{BoInner, BoMapper, EvictionHandler, QueueOwner, QUEUE_OWNERS},
    pages::{MirrorOwner, Mirrored, Pages, BLOCK_BYTES},
    pasid::Pasid,
    peer::PeerUse,
    pgtable::{Spare, Tree, Update},
    placement::{Access, Placement},
    pte::Span,
    source::Target,
    tlb,
    userptr::UserMemory,
};
use crate::{
    gpu::{dma, spaces::PageTables, Gpu},
    hw::FlushType,
    kapi::sched_mm::NoReclaim,
};

/// A mapping of a BO.
pub(super) struct Mapping {
    pub(super) va: u64,
    len: u64,
    /// Users that keep the mapping from being unmapped.
    pub(super) pins: u32,
    /// Its owner has unmapped it: it goes with the last pin, and gets no further one.
    pub(super) closed: bool,
    pub(super) offset: u64,
    access: Access,
    /// Use of the current memory of a BO of another device. Dropped after the flush of the TLBs.
    pub(super) peer: Option<Arc<PeerUse>>,
    /// Keeps the memory while the GPU can access it.
    pub(super) bo: Bo,
}

impl Mapping {
    /// Returns a mapping of `len` bytes of `bo` from `offset` on at `va`.
    pub(super) fn new(va: u64, len: u64, bo: &Bo, offset: u64, access: Access) -> Self {
        Self {
            va,
            len,
            pins: 0,
            closed: false,
            offset,
            access,
            peer: None,
            bo: bo.clone(),
        }
    }

    /// Returns the length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the mapping of a part of the addresses, not pinned; `None` if that is empty.
    fn part(&self, range: Range<u64>) -> Option<Self> {
        (range.start < range.end).then(|| {
            let (len, offset) = (range.end - range.start, range.start - self.va);
            Self {
                peer: self.peer.clone(),
                ..Self::new(
                    range.start,
                    len,
                    &self.bo,
                    self.offset + offset,
                    self.access,
                )
            }
        })
    }
}

/// A mapping that was removed from the page tables.
pub(super) type Removed = RBTreeNode<u64, Mapping>;

/// Former state of changed PTEs. TLBs cache valid entries only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// Invalid, or flushed since.
    Invalid,
    /// Valid.
    Valid,
}

pub(super) struct Inner {
    pub(super) tree: Tree,
    /// By VA, without overlap.
    pub(super) mappings: RBTree<u64, Mapping>,
    /// Blocks with a pinned page table, by VA.
    pub(super) mirrored: RBTree<u64, Mirrored>,
}

/// The page tables and mappings of an address space.
#[pin_data]
pub(super) struct Space {
    /// `None` after [`Space::close`].
    #[pin]
    pub(super) inner: Mutex<Option<Inner>>,
    /// Of the user queues in this address space, by [`QueueOwner`].
    handlers: [SetOnce<Arc<dyn EvictionHandler>>; QUEUE_OWNERS],
    /// There may be entries of [`Tree::refuse`], which TLBs cache, where nothing is mapped.
    refused: AtomicFlag,
    /// Informed when the PTEs of mirrored memory are lost.
    pub(super) mirror_owner: SetOnce<Arc<dyn MirrorOwner>>,
    /// Valid PTEs of userptr mappings, by VA of the mapping. Written under this lock only, and
    /// zapped by MMU notifiers: no allocation under it.
    #[pin]
    mapped: Mutex<RBTree<u64, KVVec<Span>>>,
    pasid: Pasid,
    /// Memory partition of its owner, which has the page tables; `None` for one without.
    memory: Option<u32>,
    pub(super) gpu: Arc<Gpu>,
}

impl Space {
    /// Returns an empty address space of a memory partition with its root page table, and the
    /// root's address for MAP_PROCESS and VM contexts. `ENOMEM` without VRAM, `ENOSPC` without a
    /// PASID.
    pub(super) fn new(gpu: &Arc<Gpu>, memory: Option<u32>) -> Result<(Arc<Self>, u64)> {
        let rewrites = gpu.spaces().rewrites();
        let pasid = Pasid::alloc()?;
        let tree = gpu.alloc_or_evict(memory, || Tree::new(gpu, memory))?;
        let root = gpu.generation().gmc.root(tree.root_pa(gpu));
        let space = Arc::pin_init(
            pin_init!(Self {
                inner <- new_mutex!(Some(Inner {
                    tree,
                    mappings: RBTree::new(),
                    mirrored: RBTree::new(),
                }), "rkfd_vm"),
                handlers: [const { SetOnce::new() }; QUEUE_OWNERS],
                refused: AtomicFlag::new(false),
                mirror_owner: SetOnce::new(),
                mapped <- new_mutex!(RBTree::new(), "rkfd_vm_shown"),
                pasid,
                memory,
                gpu: gpu.clone(),
            }),
            GFP_KERNEL,
        )?;
        // No HDP flush: the first mapping makes one, and each job before its IB.
        gpu.spaces().add(space.clone(), rewrites)?;
        Ok((space, root))
    }

    /// Frees page tables and mappings. Nothing accesses the address space any more.
    pub(super) fn close(self: &Arc<Self>) {
        let tables: Arc<dyn PageTables> = self.clone();
        self.gpu.spaces().remove(&tables);
        let inner = self.inner.lock().take();
        let Some(inner) = inner else { return };
        // The page tables are freed: no MMU notifier may write to them any more.
        let mapped = core::mem::replace(&mut *self.mapped.lock(), RBTree::new());
        drop(mapped);
        for mapping in inner.mappings.values() {
            mapping.bo.inner().remove_mapping(&**self, mapping.va);
        }
        dma::drop_owner(&self.gpu, self.pasid.get());
        drop(inner);
    }

    /// Returns the PASID.
    pub(super) fn pasid(&self) -> u32 {
        self.pasid.get()
    }

    /// Sets the eviction handler of an owner. Returns false if there is one already.
    pub(super) fn set_handler(&self, owner: QueueOwner, handler: Arc<dyn EvictionHandler>) -> bool {
        self.handlers[owner as usize].populate(handler)
    }

    /// Returns whether an owner of user queues has claimed it.
    pub(super) fn has_queues(&self) -> bool {
        self.eviction_handlers().iter().any(Option::is_some)
    }

    /// Returns the BO of the first mapping at or above `va`, and the address from which to search
    /// for the next one.
    pub(super) fn mapping_from(&self, va: u64) -> Option<(Bo, Option<u64>)> {
        let guard = self.inner.lock();
        let inner: &Option<Inner> = &guard;
        let next = inner.as_ref()?.mappings.cursor_lower_bound(&va)?;
        let (_, mapping) = next.current();
        Some((mapping.bo.clone(), mapping.va.checked_add(1)))
    }

    /// Returns `EINVAL` unless the range is page aligned, not empty and among the [`addresses`] of
    /// programs, without sign extension.
    pub(super) fn check_range(&self, va: u64, len: u64) -> Result {
        let page = PAGE_SIZE as u64;
        let end = va.checked_add(len).ok_or(EINVAL)?;
        if len == 0 || va % page != 0 || len % page != 0 || end > addresses::END {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Returns the memory partition of the page tables; `None`: any.
    pub(super) fn memory(&self) -> Option<u32> {
        self.memory
    }

    /// Returns the use of a BO's memory in `placement` by this device, if it is another device's.
    /// Errors as [`Placement::map_for`].
    fn peer_use(&self, bo: &BoInner, placement: &Placement) -> Result<Option<Arc<PeerUse>>> {
        let peer = placement.map_for(&self.gpu, bo.gpu())?;
        Ok(peer.map(|peer| Arc::new(peer, GFP_KERNEL)).transpose()?)
    }

    /// Adds a mapping of a BO in `placement`. `EINVAL` when the range is mapped already, `ENOMEM`
    /// without memory: `spare` has the page tables for a repetition.
    pub(super) fn map(&self, new: &Mapping, placement: &Placement, spare: &mut Spare) -> Result {
        let (va, len, bo) = (new.va, new.len, &new.bo);
        let peer = self.peer_use(bo.inner(), placement)?;
        let mut guard = self.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let inner = inner.as_mut().ok_or(EINVAL)?;
        if inner.maps(va, len) || inner.mirrors(va, len) {
            return Err(EINVAL);
        }
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        if !matches!(placement, Placement::Nowhere) {
            let target = Target {
                placement,
                peer: peer.as_deref(),
                attrs: bo.inner().attrs(placement, new.access, self.memory),
                offset: new.offset,
            };
            let tree = &mut inner.tree;
            match bo.inner().user() {
                Some(memory) => self.write_user(tree, (va, len), &target, memory, spare)?,
                None => self.write(tree, (va, len), &target, spare)?,
            }
        }
        let new = Mapping {
            peer,
            ..Mapping::new(va, len, bo, new.offset, new.access)
        };
        inner.mappings.insert(node.into_node(va, new));
        Ok(())
    }

    /// Writes the PTEs of a mapping where none are valid; after an error none are, and `spare` has
    /// the page tables for a repetition.
    fn write(
        &self,
        tree: &mut Tree,
        (va, len): (u64, u64),
        target: &Target<'_>,
        spare: &mut Spare,
    ) -> Result {
        let mut update = Update::with_spare(&self.gpu, len, mem::take(spare));
        if let Err(e) = tree.map(&mut update, va, len, target) {
            // PTEs written so far must not stay.
            update.discard_rows();
            tree.unmap(&mut update, va, len)?;
            self.finish(tree, &mut update, Before::Valid)?;
            *spare = tree.spare_of(update);
            return Err(e);
        }
        self.finish(tree, &mut update, Before::Invalid)
    }

    /// Writes the PTEs of a userptr mapping if its pages are still current; else, and after an
    /// error, zaps them. `spare` has the page tables for a repetition.
    fn write_user(
        &self,
        tree: &mut Tree,
        (va, len): (u64, u64),
        target: &Target<'_>,
        memory: &UserMemory,
        spare: &mut Spare,
    ) -> Result {
        // Valid PTEs may lie in page tables that this update frees.
        let before = match self.zap_mapped(va)? {
            true => Before::Valid,
            false => Before::Invalid,
        };
        let mut update = Update::deferred(&self.gpu, mem::take(spare));
        let mapped = tree.map(&mut update, va, len, target);
        let written = mapped.and_then(|()| self.write_if_current(&mut update, va, target, memory));
        match written {
            Ok(true) => self.finish(tree, &mut update, before),
            Ok(false) => {
                // The notifier schedules another refresh.
                self.clear(tree, va, len).map(drop)
            }
            Err(e) => {
                *spare = self.clear(tree, va, len)?;
                spare.add(tree.spare_of(update));
                Err(e)
            }
        }
    }

    /// Maps the pages in `placement`, or none, at `va` if `bo` is mapped there. `ENOMEM` without
    /// memory: `spare` has the page tables for a repetition.
    fn try_map_user(
        &self,
        va: u64,
        bo: &BoInner,
        placement: &Placement,
        peer: Option<&Arc<PeerUse>>,
        spare: &mut Spare,
    ) -> Result {
        let mut guard = self.inner.lock();
        let Some(inner) = &mut *guard else {
            return Ok(());
        };
        let Some(mapping) = inner.find_mut(va, bo) else {
            return Ok(());
        };
        let len = mapping.len;
        let target = Target {
            placement,
            peer: peer.map(|peer| &**peer),
            attrs: bo.attrs(placement, mapping.access, self.memory),
            offset: mapping.offset,
        };
        // Dropped, and with it the former pages unmapped, when no PTE points there any more.
        let _before = mem::replace(&mut mapping.peer, peer.cloned());
        let tree = &mut inner.tree;
        match bo.user() {
            Some(memory) if !matches!(placement, Placement::Nowhere) => {
                self.write_user(tree, (va, len), &target, memory, spare)
            }
            _ => self.clear(tree, va, len).map(drop),
        }
    }

    /// Writes the PTEs of `update` unless the pages of `memory` were invalidated. Returns whether
    /// it did.
    fn write_if_current(
        &self,
        update: &mut Update<'_>,
        va: u64,
        target: &Target<'_>,
        memory: &UserMemory,
    ) -> Result<bool> {
        let node = RBTreeNode::new(va, update.spans()?, GFP_KERNEL)?;
        let mut valid = self.mapped.lock();
        let _no_reclaim = NoReclaim::new();
        let pages = match target.placement {
            Placement::User(pages) if pages.are_current(memory) => pages,
            _ => return Ok(false),
        };
        if target.attrs.write {
            pages.mark_dirty();
        }
        // Zapped by invalidations from here on.
        valid.insert(node);
        update.write_all()?;
        Ok(true)
    }

    /// Zaps the PTEs of the userptr mapping at `va`. The caller flushes the TLBs. Returns whether
    /// any were valid.
    fn zap_mapped(&self, va: u64) -> Result<bool> {
        // Held throughout: the page tables exist as long as the spans are in the list.
        let mut valid = self.mapped.lock();
        let Some(spans) = valid.remove(&va) else {
            return Ok(false);
        };
        if !self.gpu.is_unplugged() {
            spans.iter().try_for_each(|span| span.clear(&self.gpu))?;
        }
        Ok(true)
    }

    /// Invalidates all PTEs of a mapping; the caller flushes the TLBs.
    fn invalidate(&self, tree: &mut Tree, update: &mut Update<'_>, mapping: &Mapping) -> Result {
        let is_user = mapping.bo.is_user();
        update.set_zapped(is_user && self.zap_mapped(mapping.va)?);
        tree.unmap(update, mapping.va, mapping.len)
    }

    /// Invalidates all PTEs of a range and flushes the TLBs. Returns the page tables that became
    /// empty.
    fn clear(&self, tree: &mut Tree, va: u64, len: u64) -> Result<Spare> {
        let mut update = Update::new(&self.gpu, len);
        update.set_zapped(self.zap_mapped(va)?);
        tree.unmap(&mut update, va, len)?;
        self.finish(tree, &mut update, Before::Valid)?;
        Ok(tree.spare_of(update))
    }

    /// Returns whether nothing is mapped in a range but BOs at addresses for which `is_known` is
    /// true.
    pub(super) fn maps_only(&self, range: &Range<u64>, is_known: impl Fn(u64) -> bool) -> bool {
        let guard = self.inner.lock();
        let Some(inner) = &*guard else {
            return false;
        };
        inner.within(range).all(|mapping| is_known(mapping.va))
            && !inner.mirrors(range.start, range.end - range.start)
    }

    /// See [`Vm::check_unpinned`](super::vm::Vm::check_unpinned).
    pub(super) fn has_pins(&self, range: &Range<u64>, known: impl Fn(u64) -> Option<u32>) -> bool {
        let guard = self.inner.lock();
        let Some(inner) = &*guard else {
            return false;
        };
        let mut pinned = inner.within(range).filter(|mapping| mapping.pins > 0);
        pinned.any(|mapping| known(mapping.va).is_some_and(|pins| mapping.pins > pins))
    }

    /// Unmaps exactly these ranges, with one flush of the TLBs. `EINVAL` when one is not a mapping,
    /// `EBUSY` when one is pinned: nothing has changed.
    pub(super) fn unmap(&self, ranges: [Option<(u64, u64)>; 2]) -> Result<[Option<Removed>; 2]> {
        let mut guard = self.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let Inner { tree, mappings, .. } = inner.as_mut().ok_or(EINVAL)?;
        let all = || ranges.iter().flatten();
        for (va, len) in all() {
            let mapping = mappings.get(va).filter(|m| m.len == *len);
            if mapping.ok_or(EINVAL)?.pins > 0 {
                return Err(EBUSY);
            }
        }
        if !self.gpu.is_unplugged() {
            let mut update = Update::new(&self.gpu, all().map(|(_, len)| len).sum());
            let mut all = all().filter_map(|(va, _)| mappings.get(va));
            let done = all.try_for_each(|mapping| self.invalidate(tree, &mut update, mapping));
            let finished = self.finish(tree, &mut update, Before::Valid);
            done.and(finished)?;
        }
        Ok(ranges.map(|range| range.and_then(|(va, _)| mappings.remove_node(&va))))
    }

    /// Unmaps ranges as [`Space::unmap`], with one flush of the TLBs, and adds the mappings to
    /// `removed`, which has capacity for them. Returns the first error; ranges that failed stay
    /// mapped.
    pub(super) fn unmap_all(&self, ranges: &[(u64, u64)], removed: &mut KVec<Removed>) -> Result {
        let mut guard = self.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let inner = inner.as_mut().ok_or(EINVAL)?;
        self.unmap_each(inner, ranges, |mapping| {
            Ok(removed.push_within_capacity(mapping)?)
        })
    }

    /// See [`Space::unmap_all`].
    fn unmap_each(
        &self,
        inner: &mut Inner,
        ranges: &[(u64, u64)],
        mut removed: impl FnMut(Removed) -> Result,
    ) -> Result {
        let Inner { tree, mappings, .. } = inner;
        let usable = !self.gpu.is_unplugged();
        let mut update = Update::new(&self.gpu, ranges.iter().map(|(_, len)| len).sum());
        let mut result = Ok(());
        for (va, len) in ranges {
            let mapping = mappings.get(va).filter(|m| m.len == *len);
            let done = match mapping {
                None => Err(EINVAL),
                Some(mapping) if mapping.pins > 0 => Err(EBUSY),
                Some(mapping) if usable => self.invalidate(tree, &mut update, mapping),
                Some(_) => Ok(()),
            };
            if done.is_ok() {
                if let Some(mapping) = mappings.remove_node(va) {
                    removed(mapping)?;
                }
            }
            result = result.and(done);
        }
        if usable {
            result = result.and(self.finish(tree, &mut update, Before::Valid));
        }
        result
    }

    /// Drops a pin of the mapping at `va`. Unmaps a [closed](Mapping::closed) mapping with its last
    /// pin, and returns it.
    pub(super) fn unpin(&self, va: u64) -> Option<Removed> {
        let mut guard = self.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let inner = inner.as_mut()?;
        let mapping = inner.mappings.get_mut(&va)?;
        mapping.pins -= 1;
        if mapping.pins > 0 || !mapping.closed {
            return None;
        }
        let range = (va, mapping.len);
        let mut last = None;
        let unmapped = self.unmap_each(inner, &[range], |mapping| {
            last = Some(mapping);
            Ok(())
        });
        if let Err(e) = unmapped {
            pr_debug!("closed mapping at {va:#x}: {e:?}\n");
        }
        last
    }

    /// Marks mappings as [`Mapping::closed`].
    pub(super) fn close_mappings(&self, ranges: &[(u64, u64)]) {
        let mut guard = self.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let Some(Inner { mappings, .. }) = inner else {
            return;
        };
        for (va, len) in ranges {
            if let Some(mapping) = mappings.get_mut(va).filter(|m| m.len == *len) {
                mapping.closed = true;
            }
        }
    }

    /// Unmaps `part` of the mapping of `bo` at `va`; the rest, which there is, stays mapped. The
    /// caller holds the reservation of the BO, which is not user memory, in `placement`. `EINVAL`
    /// without such a mapping, `EBUSY` when it is pinned, `ENOMEM` without memory: nothing has
    /// changed.
    pub(super) fn cut(
        &self,
        va: u64,
        bo: &BoInner,
        placement: &Placement,
        part: &Range<u64>,
    ) -> Result {
        let has_ptes = !matches!(placement, Placement::Nowhere) && !self.gpu.is_unplugged();
        let mut tables = 0;
        if has_ptes {
            let guard = self.inner.lock();
            let tree = &guard.as_ref().ok_or(EINVAL)?.tree;
            for edge in [part.start, part.end] {
                tables += usize::from(edge % BLOCK_BYTES != 0 && tree.is_block(edge)?);
            }
        }
        let spare = Spare::new(&self.gpu, self.memory, tables)?;
        let nodes = [
            RBTreeNodeReservation::new(GFP_KERNEL)?,
            RBTreeNodeReservation::new(GFP_KERNEL)?,
        ];
        let mut guard = self.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let inner = inner.as_mut().ok_or(EINVAL)?;
        let whole = inner.find(va, bo).ok_or(EINVAL)?;
        if whole.pins > 0 {
            return Err(EBUSY);
        }
        let parts = [
            whole.part(whole.va..part.start),
            whole.part(part.end..whole.va + whole.len),
        ];
        if has_ptes {
            let mut update = Update::with_spare(&self.gpu, whole.len, spare);
            // Written again, as their fragments become smaller.
            let written = parts.iter().flatten().try_for_each(|rest| {
                let target = Target {
                    placement,
                    peer: rest.peer.as_deref(),
                    attrs: bo.attrs(placement, rest.access, self.memory),
                    offset: rest.offset,
                };
                inner.tree.map(&mut update, rest.va, rest.len, &target)
            });
            let len = part.end - part.start;
            let done = written.and_then(|()| inner.tree.unmap(&mut update, part.start, len));
            done.and(self.finish(&mut inner.tree, &mut update, Before::Valid))?;
        }
        let old = inner.mappings.remove(&va);
        for (rest, node) in parts.into_iter().flatten().zip(nodes) {
            inner.mappings.insert(node.into_node(rest.va, rest));
        }
        drop(guard);
        drop(old);
        Ok(())
    }

    /// Records that a page is about to be refused.
    pub(super) fn set_refused(&self) {
        self.refused.store(true, Relaxed);
    }

    /// Returns whether a page was refused, also if something is mapped there now.
    pub(super) fn has_refused(&self) -> bool {
        self.refused.load(Relaxed)
    }

    /// Makes an update visible to the GPU and frees page tables that became empty.
    pub(super) fn finish(
        &self,
        tree: &mut Tree,
        update: &mut Update<'_>,
        before: Before,
    ) -> Result {
        tree.write_out(update)?;
        if before == Before::Valid || update.has_garbage() || self.has_refused() {
            tlb::flush_pasid(&self.gpu, self.pasid.get(), FlushType::Heavyweight)?;
        } else {
            self.gpu.hub().hdp_flush()?;
        }
        tree.end(update);
        Ok(())
    }
}

impl PageTables for Space {
    fn rewrite(&self) -> Result {
        let mut guard = self.inner.lock();
        let Some(inner) = &mut *guard else {
            return Ok(());
        };
        inner.tree.rewrite(&self.gpu)?;
        for mapping in inner.mappings.values() {
            let (va, len, peer) = (mapping.va, mapping.len, mapping.peer.as_deref());
            let bo = mapping.bo.inner();
            let placement = bo.placement();
            // With new pages of a userptr BO, `map_user()` follows.
            let current = placement.is_mapped_by(&self.gpu, bo.gpu(), peer);
            if matches!(placement, Placement::Nowhere) || !current {
                continue;
            }
            let target = Target {
                placement: &placement,
                peer,
                attrs: bo.attrs(&placement, mapping.access, self.memory),
                offset: mapping.offset,
            };
            if let Some(memory) = bo.user() {
                let (tree, mut spare) = (&mut inner.tree, Spare::default());
                self.write_user(tree, (va, len), &target, memory, &mut spare)?;
                continue;
            }
            // The page tables exist: this only writes entries.
            let mut update = Update::by_cpu(&self.gpu);
            inner.tree.map(&mut update, va, len, &target)?;
            inner.tree.write_out(&mut update)?;
        }
        if let Some(owner) = self.mirror_owner.as_ref() {
            owner.lost(&self.gpu);
        }
        let handlers = self.eviction_handlers();
        handlers.iter().flatten().for_each(|h| h.restore_later());
        Ok(())
    }

    fn zap_again(&self) -> Result {
        let mut guard = self.inner.lock();
        let Some(inner) = &mut *guard else {
            return Ok(());
        };
        for mapping in inner.mappings.values() {
            let is_valid = || self.mapped.lock().get(&mapping.va).is_some();
            if mapping.bo.inner().user().is_some() && !is_valid() {
                let mut update = Update::by_cpu(&self.gpu);
                inner.tree.unmap(&mut update, mapping.va, mapping.len)?;
                self.finish(&mut inner.tree, &mut update, Before::Invalid)?;
            }
        }
        drop(guard);
        if let Some(owner) = self.mirror_owner.as_ref() {
            owner.restored(&self.gpu);
        }
        self.gpu.hub().hdp_flush()
    }
}

impl BoMapper for Space {
    fn eviction_handlers(&self) -> [Option<&Arc<dyn EvictionHandler>>; QUEUE_OWNERS] {
        self.handlers.each_ref().map(SetOnce::as_ref)
    }

    fn zap(&self, va: u64) {
        let zapped = self.zap_mapped(va).and_then(|any| {
            if !any {
                return Ok(());
            }
            tlb::flush_pasid(&self.gpu, self.pasid.get(), FlushType::Heavyweight)
        });
        if zapped.is_err() && self.gpu.check_usable().is_ok() {
            self.gpu.wedge("page tables were not updated");
        }
    }

    fn map_user(&self, va: u64, bo: &BoInner, placement: &Placement) -> Result {
        let nowhere = Placement::Nowhere;
        let (placement, peer, usable) = match self.peer_use(bo, placement) {
            Ok(peer) => (placement, peer, Ok(())),
            Err(e) => (&nowhere, None, Err(e)),
        };
        let mut spare = Spare::default();
        let mapped = self.gpu.alloc_or_evict(self.memory, || {
            self.try_map_user(va, bo, placement, peer.as_ref(), &mut spare)
        });
        mapped.and(usable)
    }

    fn prepare_update(&self, va: u64, bo: &BoInner, to: &Placement) -> Result<Option<Spare>> {
        let guard = self.inner.lock();
        let Some(inner) = &*guard else {
            return Ok(None);
        };
        let Some(mapping) = inner.find(va, bo) else {
            return Ok(None);
        };
        let target = (to, mapping.offset);
        let tables = inner.tree.splits(&self.gpu, va, mapping.len, target)?;
        drop(guard);
        Spare::new(&self.gpu, self.memory, tables).map(Some)
    }

    fn update(&self, va: u64, bo: &BoInner, spare: Spare) -> Result {
        let mut guard = self.inner.lock();
        let Some(inner) = &mut *guard else {
            return Ok(());
        };
        let Some(mapping) = inner.find(va, bo) else {
            return Ok(());
        };
        let placement = bo.placement();
        // BOs of other devices do not move.
        let target = Target {
            placement: &placement,
            peer: None,
            attrs: bo.attrs(&placement, mapping.access, self.memory),
            offset: mapping.offset,
        };
        let len = mapping.len;
        let mut update = Update::with_spare(&self.gpu, len, spare);
        let done = inner.tree.map(&mut update, va, len, &target);
        if update.has_garbage() {
            return done.and(self.finish(&mut inner.tree, &mut update, Before::Valid));
        }
        done.and(inner.tree.write_out(&mut update))
    }

    fn flush(&self) -> Result {
        tlb::flush_pasid(&self.gpu, self.pasid.get(), FlushType::Heavyweight)
    }
}

impl Inner {
    /// Returns the last mapping that starts below `va`.
    fn last_below(&self, va: u64) -> Option<&Mapping> {
        let last = match self.mappings.cursor_lower_bound(&va) {
            Some(next) => next.peek_prev().map(|(at, _)| *at),
            None => self.mappings.cursor_back().map(|last| *last.current().0),
        };
        self.mappings.get(&last?)
    }

    /// Returns the mappings in a range, the last one first.
    fn within(&self, range: &Range<u64>) -> impl Iterator<Item = &Mapping> {
        let (start, mut end) = (range.start, range.end);
        iter::from_fn(move || {
            let last = self.last_below(end)?;
            end = last.va;
            (start < last.va + last.len).then_some(last)
        })
    }

    /// Returns the mapping that covers `va`.
    pub(super) fn covering(&self, va: u64) -> Option<&Mapping> {
        let last = self.last_below(va.checked_add(1)?);
        last.filter(|m| va < m.va + m.len)
    }

    /// Returns whether a BO is mapped between `va` and `va + len`, which does not overflow.
    pub(super) fn maps(&self, va: u64, len: u64) -> bool {
        self.last_below(va + len).is_some_and(|m| va < m.va + m.len)
    }

    /// Returns whether a mirror owns a page between `va` and `va + len`, which does not overflow.
    pub(super) fn mirrors(&self, va: u64, len: u64) -> bool {
        let end = va + len;
        let mut from = va / BLOCK_BYTES * BLOCK_BYTES;
        while let Some(at) = self.mirrored.cursor_lower_bound(&from) {
            let (block, mirrored) = at.current();
            if *block >= end {
                break;
            }
            let page = |at: u64| (at.clamp(*block, *block + BLOCK_BYTES) - *block) as usize;
            let first = page(va) / PAGE_SIZE;
            let pages = Pages::range(first, page(end).div_ceil(PAGE_SIZE));
            if !pages.and(mirrored.owned).is_empty() {
                return true;
            }
            from = *block + BLOCK_BYTES;
        }
        false
    }

    fn find(&self, va: u64, bo: &BoInner) -> Option<&Mapping> {
        let mapping = self.mappings.get(&va)?;
        core::ptr::eq(&**mapping.bo.inner(), bo).then_some(mapping)
    }

    fn find_mut(&mut self, va: u64, bo: &BoInner) -> Option<&mut Mapping> {
        let mapping = self.mappings.get_mut(&va)?;
        core::ptr::eq(&**mapping.bo.inner(), bo).then_some(mapping)
    }
}
