// SPDX-License-Identifier: GPL-2.0

//! The mappings that `GEM_VA` made in a file's address space.

use core::ops::Range;

use kernel::{
    prelude::*,
    sync::{aref::ARef, Mutex},
};

use super::userq::UserQueues;
use crate::{
    kapi::{fence::Timeout, resv::Usage},
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
    /// Permissions.
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

/// All mappings that `GEM_VA` made in an address space.
pub(super) struct Mappings(KVec<Mapping>);

impl Mappings {
    /// Returns an empty list.
    pub(super) const fn new() -> Self {
        Self(KVec::new())
    }

    /// Adds a mapping. `ENOMEM` without memory, else the error of [`Vm::map`].
    pub(super) fn map(&mut self, vm: &Vm, new: Mapping) -> Result {
        self.0.reserve(1, GFP_KERNEL)?;
        vm.map(new.va, new.object.bo(), new.offset, new.len, new.access)?;
        // Reserved above.
        self.0.push_within_capacity(new)?;
        Ok(())
    }

    /// Removes the mapping at index `at`. User queues that use it are stopped.
    fn remove(&mut self, vm: &Vm, queues: &Mutex<UserQueues>, at: usize) -> Result {
        let mapping = self.0.get(at).ok_or(ENOENT)?;
        let mut queues = queues.lock();
        queues.stop_users(mapping.va);
        // No queue is created with the mapping meanwhile.
        vm.unmap(mapping.va, mapping.len)?;
        drop(queues);
        self.0.remove(at).map_err(|_| ENOENT)?;
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
        let at = self
            .0
            .iter()
            .position(|m| m.va == va && m.object.key() == object.key())
            .ok_or(ENOENT)?;
        self.remove(vm, queues, at)
    }

    /// Removes all mappings in a range; the caller has waited for the jobs that use them. Parts of
    /// mappings outside of the range stay. `ENOMEM` without memory: a part of the range may be
    /// cleared.
    ///
    /// A mapping of user memory that exceeds the range is removed as a whole, and its parts outside
    /// are mapped again; they are lost if that fails.
    pub(super) fn clear(
        &mut self,
        vm: &Vm,
        queues: &Mutex<UserQueues>,
        range: &Range<u64>,
    ) -> Result {
        let mut result = Ok(());
        while let Some(at) = self.0.iter().position(|m| m.overlaps(range)) {
            let whole = self.0.get(at).ok_or(ENOENT)?.clone();
            let below = whole.part(whole.va, range.start);
            let above = whole.part(range.end, whole.end());
            let is_within = below.is_none() && above.is_none();
            let rest = Iterator::chain(below.into_iter(), above);
            if is_within || whole.object.bo().is_user() {
                self.remove(vm, queues, at)?;
                for part in rest {
                    result = result.and(self.map(vm, part));
                }
            } else {
                self.cut(vm, queues, at, range, rest)?;
            }
        }
        result
    }

    /// Unmaps the part of the mapping at index `at` in a range; `rest` is what stays. User queues
    /// that use the mapping are stopped.
    fn cut(
        &mut self,
        vm: &Vm,
        queues: &Mutex<UserQueues>,
        at: usize,
        range: &Range<u64>,
        rest: impl Iterator<Item = Mapping>,
    ) -> Result {
        self.0.reserve(1, GFP_KERNEL)?;
        let whole = self.0.get(at).ok_or(ENOENT)?;
        let part = range.start.max(whole.va)..range.end.min(whole.end());
        let mut queues = queues.lock();
        queues.stop_users(whole.va);
        // No queue is created with the mapping meanwhile.
        vm.cut(whole.va, whole.end(), whole.object.bo(), &part)?;
        drop(queues);
        self.0.remove(at).map_err(|_| ENOENT)?;
        for mapping in rest {
            // Reserved above.
            self.0.push_within_capacity(mapping)?;
        }
        Ok(())
    }

    /// Returns the buffers that are mapped in a range.
    pub(super) fn objects(&self, range: &Range<u64>) -> Result<KVec<ARef<Object>>> {
        let mut objects = KVec::new();
        for mapping in self.0.iter().filter(|m| m.overlaps(range)) {
            objects.push(mapping.object.clone(), GFP_KERNEL)?;
        }
        Ok(objects)
    }

    /// Removes all mappings of an object whose last handle in the file is closed.
    pub(super) fn remove_object(&mut self, vm: &Vm, queues: &Mutex<UserQueues>, object: usize) {
        while let Some(at) = self.0.iter().position(|m| m.object.key() == object) {
            if let Err(e) = self.remove(vm, queues, at) {
                // A queue still uses the mapping, which stays until the address space is destroyed.
                pr_debug!("mapping of a closed buffer not removed: {e:?}\n");
                if self.0.remove(at).is_err() {
                    return;
                }
            }
        }
    }

    /// Returns an object if it is mapped.
    pub(super) fn find(&self, object: usize) -> Option<ARef<Object>> {
        let mapping = self.0.iter().find(|m| m.object.key() == object)?;
        Some(mapping.object.clone())
    }
}

/// Waits for all submitted jobs that use a buffer, which end by their timeout at the latest.
/// `ERESTARTSYS` if `interruptible` and a signal arrives.
pub(super) fn wait_for_jobs(object: &Object, interruptible: bool) -> Result {
    let resv = object.bo().resv();
    resv.wait(Usage::Bookkeep, interruptible, Timeout::FOREVER)?;
    Ok(())
}
