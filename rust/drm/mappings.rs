// SPDX-License-Identifier: GPL-2.0

//! The mappings that `GEM_VA` made in a file's address space.

use core::ops::Range;

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::{aref::ARef, Mutex},
};

use super::userq::UserQueues;
use crate::{
    kapi::{fence::Timeout, resv::Usage, task},
    mmu::{gem::Object, Access, Vm},
};

/// A mapping of a part of a buffer.
#[derive(Clone)]
pub(super) struct Mapping {
    /// Address in bytes.
    pub(super) va: u64,
    /// Bytes.
    pub(super) len: u64,
    /// Offset into the buffer, in bytes.
    pub(super) offset: u64,
    /// Permissions and caching.
    pub(super) access: Access,
    /// The GEM object of the buffer.
    pub(super) object: ARef<Object>,
}

impl Mapping {
    fn end(&self) -> u64 {
        self.va + self.len
    }

    /// Returns the part from `start` to `end`, both within the mapping; `None` if that is empty.
    fn part(&self, start: u64, end: u64) -> Option<Self> {
        (start < end).then(|| Self {
            va: start,
            len: end - start,
            offset: self.offset + (start - self.va),
            ..self.clone()
        })
    }

    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.va < range.end && range.start < self.end()
    }
}

/// Mappings that are removed together, with one flush of the TLBs.
const BATCH: usize = 32;

/// Memory for a mapping in [`Mappings`].
struct Nodes {
    mapping: RBTreeNodeReservation<u64, Mapping>,
    object: RBTreeNodeReservation<(usize, u64), ()>,
}

impl Nodes {
    fn new() -> Result<Self> {
        Ok(Self {
            mapping: RBTreeNodeReservation::new(GFP_KERNEL)?,
            object: RBTreeNodeReservation::new(GFP_KERNEL)?,
        })
    }
}

/// All mappings that `GEM_VA` made in an address space, by address. They do not overlap.
pub(super) struct Mappings {
    all: RBTree<u64, Mapping>,
    /// Keys of objects, and addresses of their mappings.
    of_objects: RBTree<(usize, u64), ()>,
    /// Memory of the last mapping that was removed, for the next one.
    kept: Option<Nodes>,
}

impl Mappings {
    /// Returns none.
    pub(super) fn new() -> Self {
        Self {
            all: RBTree::new(),
            of_objects: RBTree::new(),
            kept: None,
        }
    }

    /// Returns memory for a mapping. `ENOMEM` without it.
    fn nodes(&mut self) -> Result<Nodes> {
        self.kept.take().map_or_else(Nodes::new, Ok)
    }

    fn insert(&mut self, nodes: Nodes, mapping: Mapping) {
        let (va, object) = (mapping.va, mapping.object.key());
        self.of_objects
            .insert(nodes.object.into_node((object, va), ()));
        self.all.insert(nodes.mapping.into_node(va, mapping));
    }

    /// Removes a mapping from the list. Returns the memory for another one.
    fn take(&mut self, va: u64) -> Option<Nodes> {
        let object = self.all.get(&va)?.object.key();
        let object = self.of_objects.remove_node(&(object, va))?;
        let mapping = self.all.remove_node(&va)?;
        Some(Nodes {
            mapping: mapping.into_reservation(),
            object: object.into_reservation(),
        })
    }

    /// Returns the first mapping that overlaps a range.
    fn first_in(&self, range: &Range<u64>) -> Option<&Mapping> {
        let (below, at) = match self.all.cursor_lower_bound(&range.start) {
            Some(next) => (next.peek_prev().map(|(va, _)| *va), Some(*next.current().0)),
            None => (self.all.cursor_back().map(|last| *last.current().0), None),
        };
        let mut found = [below, at].into_iter().flatten();
        found.find_map(|va| self.all.get(&va).filter(|m| m.overlaps(range)))
    }

    /// Returns the first mapping of an object at or above an address.
    fn first_of(&self, object: usize, from: u64) -> Option<&Mapping> {
        let first = self.of_objects.cursor_lower_bound(&(object, from))?;
        let (key, va) = *first.current().0;
        self.all.get(&va).filter(|_| key == object)
    }

    /// Adds a mapping. `ENOMEM` without memory, else the error of [`Vm::map`].
    pub(super) fn map(&mut self, vm: &Vm, new: Mapping) -> Result {
        let nodes = self.nodes()?;
        self.map_in(vm, nodes, new)
    }

    /// Adds a mapping in place of those in its range, see [`Self::clear`]. After the errors of
    /// [`Vm::check_replace`], and `EBUSY` of one that is pinned, none is removed.
    pub(super) fn replace(&mut self, vm: &Vm, queues: &Mutex<UserQueues>, new: Mapping) -> Result {
        let nodes = Nodes::new()?;
        let is_replaced = |va| self.all.get(&va).is_some();
        vm.check_replace(new.va, new.object.bo(), new.offset, new.len, is_replaced)?;
        self.clear(vm, queues, &(new.va..new.end()))?;
        self.map_in(vm, nodes, new)
    }

    fn map_in(&mut self, vm: &Vm, nodes: Nodes, new: Mapping) -> Result {
        vm.map(new.va, new.object.bo(), new.offset, new.len, new.access)?;
        self.insert(nodes, new);
        Ok(())
    }

    /// Returns `EBUSY` when a mapping in a range is pinned by other users than user queues, which
    /// are stopped before it is removed.
    fn check_unpinned(&self, vm: &Vm, queues: &UserQueues, range: &Range<u64>) -> Result {
        vm.check_unpinned(range, |va| self.all.get(&va).map(|_| queues.pins(va)))
    }

    /// Removes the mapping at `va`. User queues that use it are stopped. `EBUSY` when others use
    /// it: none is stopped.
    fn remove(&mut self, vm: &Vm, queues: &Mutex<UserQueues>, va: u64) -> Result {
        let mapping = self.all.get(&va).ok_or(ENOENT)?;
        let mut queues = queues.lock();
        self.check_unpinned(vm, &queues, &(va..mapping.end()))?;
        queues.stop_users(va);
        // No queue is created with the mapping meanwhile.
        vm.unmap(va, mapping.len)?;
        drop(queues);
        self.kept = self.take(va);
        Ok(())
    }

    /// Removes the mapping of `object` that starts at `va`; `ENOENT` if there is none.
    pub(super) fn unmap(
        &mut self,
        vm: &Vm,
        queues: &Mutex<UserQueues>,
        object: &Object,
        va: u64,
    ) -> Result {
        // As the C driver.
        let va = va / PAGE_SIZE as u64 * PAGE_SIZE as u64;
        let mapping = self.all.get(&va);
        mapping
            .filter(|m| m.object.key() == object.key())
            .ok_or(ENOENT)?;
        self.remove(vm, queues, va)
    }

    /// Removes all mappings in a range; the caller has waited for the jobs that use them. Parts of
    /// mappings outside of the range stay. `EBUSY` when one is pinned: nothing has changed, and no
    /// queue was stopped. `ENOMEM` without memory: a part of the range may be cleared.
    ///
    /// A mapping of user memory that exceeds the range is removed as a whole, and its parts outside
    /// are mapped again; they are lost if that fails.
    pub(super) fn clear(
        &mut self,
        vm: &Vm,
        queues: &Mutex<UserQueues>,
        range: &Range<u64>,
    ) -> Result {
        self.check_unpinned(vm, &queues.lock(), range)?;
        let mut result = Ok(());
        loop {
            self.clear_whole(vm, queues, range)?;
            let Some(whole) = self.first_in(range).cloned() else {
                break;
            };
            let below = whole.part(whole.va, range.start);
            let above = whole.part(range.end, whole.end());
            let rest = Iterator::chain(below.into_iter(), above);
            if whole.object.bo().is_user() {
                self.remove(vm, queues, whole.va)?;
                for part in rest {
                    result = result.and(self.map(vm, part));
                }
            } else {
                self.cut(vm, queues, &whole, range, rest)?;
            }
        }
        result
    }

    /// Removes the mappings in a range up to the first that exceeds it. `EINTR` after SIGKILL.
    fn clear_whole(&mut self, vm: &Vm, queues: &Mutex<UserQueues>, range: &Range<u64>) -> Result {
        loop {
            if task::fatal_signal_pending() {
                return Err(EINTR);
            }
            let mut batch = [(0, 0); BATCH];
            let mut count = 0;
            let mut rest = range.clone();
            for out in &mut batch {
                let next = self.first_in(&rest);
                let whole = next.filter(|m| range.start <= m.va && m.end() <= range.end);
                let Some(mapping) = whole else {
                    break;
                };
                *out = (mapping.va, mapping.len);
                rest.start = mapping.end();
                count += 1;
            }
            let batch = batch.get(..count).unwrap_or_default();
            if batch.is_empty() {
                return Ok(());
            }
            let removed = Self::unmap_batch(vm, queues, batch, Vm::unmap_all);
            for (va, len) in batch {
                if removed.is_ok() || !vm.maps(*va, *len) {
                    self.take(*va);
                }
            }
            removed?;
        }
    }

    /// Unmaps a batch by `unmap`, and stops the user queues that use one of it. Errors of `unmap`.
    fn unmap_batch(
        vm: &Vm,
        queues: &Mutex<UserQueues>,
        batch: &[(u64, u64)],
        unmap: impl FnOnce(&Vm, &[(u64, u64)]) -> Result,
    ) -> Result {
        let mut queues = queues.lock();
        batch.iter().for_each(|(va, _)| queues.stop_users(*va));
        // No queue is created with the mappings meanwhile.
        unmap(vm, batch)
    }

    /// Unmaps the part of a mapping in a range; `rest` are the parts that stay mapped. User queues
    /// that use the mapping are stopped.
    fn cut(
        &mut self,
        vm: &Vm,
        queues: &Mutex<UserQueues>,
        whole: &Mapping,
        range: &Range<u64>,
        rest: impl Iterator<Item = Mapping>,
    ) -> Result {
        let more = Nodes::new()?;
        let part = range.start.max(whole.va)..range.end.min(whole.end());
        let mut queues = queues.lock();
        queues.stop_users(whole.va);
        // No queue is created with the mapping meanwhile.
        vm.cut(whole.va, whole.end(), whole.object.bo(), &part)?;
        drop(queues);
        let nodes = [self.take(whole.va).ok_or(ENOENT)?, more];
        for (nodes, mapping) in nodes.into_iter().zip(rest) {
            self.insert(nodes, mapping);
        }
        Ok(())
    }

    /// Returns the buffers that are mapped in a range.
    pub(super) fn objects(&self, range: &Range<u64>) -> Result<KVVec<ARef<Object>>> {
        let mut objects = KVVec::new();
        let mut next = self.first_in(range);
        while let Some(mapping) = next {
            objects.push(mapping.object.clone(), GFP_KERNEL)?;
            next = self.first_in(&(mapping.end()..range.end));
        }
        Ok(objects)
    }

    /// Removes all mappings of an object whose last handle in the file is closed.
    pub(super) fn remove_object(&mut self, vm: &Vm, queues: &Mutex<UserQueues>, object: usize) {
        loop {
            let mut batch = [(0, 0); BATCH];
            let count = self.some_of(object, &mut batch);
            let batch = batch.get(..count).unwrap_or_default();
            if batch.is_empty() {
                return;
            }
            // Those that a queue of KFD uses stay until it is destroyed.
            if let Err(e) = Self::unmap_batch(vm, queues, batch, Vm::close_all) {
                pr_debug!("mappings of a closed buffer not removed: {e:?}\n");
            }
            for (va, _) in batch {
                self.take(*va);
            }
        }
    }

    /// Stores address and size of the first mappings of an object. Returns their number.
    fn some_of(&self, object: usize, out: &mut [(u64, u64)]) -> usize {
        let mut from = 0;
        let mut count = 0;
        for out in out {
            let Some(mapping) = self.first_of(object, from) else {
                break;
            };
            *out = (mapping.va, mapping.len);
            from = mapping.end();
            count += 1;
        }
        count
    }

    /// Returns an object if it is mapped.
    pub(super) fn find(&self, object: usize) -> Option<ARef<Object>> {
        Some(self.first_of(object, 0)?.object.clone())
    }
}

/// Waits for all submitted jobs that use a buffer, which end by their timeout at the latest.
/// `ERESTARTSYS` if `interruptible` and a signal arrives.
pub(super) fn wait_for_jobs(object: &Object, interruptible: bool) -> Result {
    let resv = object.bo().resv();
    resv.wait(Usage::Bookkeep, interruptible, Timeout::FOREVER)?;
    Ok(())
}
