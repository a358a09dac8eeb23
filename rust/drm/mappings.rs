// SPDX-License-Identifier: GPL-2.0

//! The mappings that `GEM_VA` made in a file's address space.

use kernel::{prelude::*, sync::aref::ARef};

use crate::{
    kapi::{fence::Timeout, resv::Usage},
    mmu::{gem::Object, Access, Vm},
};

/// A mapping that was made here.
#[derive(Clone)]
pub(super) struct Mapping {
    pub(super) va: u64,
    pub(super) len: u64,
    pub(super) offset: u64,
    pub(super) access: Access,
    pub(super) object: ARef<Object>,
}

impl Mapping {
    fn end(&self) -> u64 {
        self.va + self.len
    }

    /// The part from `start` to `end`, which lie in it; `None` if that is nothing.
    fn part(&self, start: u64, end: u64) -> Option<Self> {
        (start < end).then(|| Self {
            va: start,
            len: end - start,
            offset: self.offset + (start - self.va),
            ..self.clone()
        })
    }

    fn touches(&self, range: &Range) -> bool {
        self.va < range.end && range.start < self.end()
    }
}

/// Addresses.
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// The mappings that were made here.
pub(super) struct Mappings(KVec<Mapping>);

impl Mappings {
    pub(super) const fn new() -> Self {
        Self(KVec::new())
    }

    pub(super) fn map(&mut self, vm: &Vm, new: Mapping) -> Result {
        self.0.reserve(1, GFP_KERNEL)?;
        vm.map(new.va, new.object.bo(), new.offset, new.len, new.access)?;
        // There is room: it was reserved above.
        self.0.push_within_capacity(new)?;
        Ok(())
    }

    /// Ends the mapping at index `at`.
    fn end(&mut self, vm: &Vm, at: usize) -> Result {
        let mapping = self.0.get(at).ok_or(ENOENT)?;
        vm.unmap(mapping.va, mapping.len)?;
        self.0.remove(at).map_err(|_| ENOENT)?;
        Ok(())
    }

    /// Ends the mapping of `object` that starts at `va`.
    pub(super) fn unmap(&mut self, vm: &Vm, object: &Object, va: u64) -> Result {
        let at = self
            .0
            .iter()
            .position(|m| m.va == va && m.object.key() == object.key())
            .ok_or(ENOENT)?;
        self.end(vm, at)
    }

    /// Ends what is mapped in a range. What lies outside of it is mapped again, because page tables know only whole
    /// mappings: jobs that use it have been waited for. If there is no memory for that it is lost, and the error says
    /// so; the range is cleared nevertheless.
    pub(super) fn clear(&mut self, vm: &Vm, range: &Range) -> Result {
        let mut result = Ok(());
        while let Some(at) = self.0.iter().position(|m| m.touches(range)) {
            let whole = self.0.get(at).ok_or(ENOENT)?.clone();
            self.end(vm, at)?;
            let below = whole.part(whole.va, range.start);
            let above = whole.part(range.end, whole.end());
            for part in Iterator::chain(below.into_iter(), above) {
                result = result.and(self.map(vm, part));
            }
        }
        result
    }

    /// The buffers in a range.
    pub(super) fn objects(&self, range: &Range) -> Result<KVec<ARef<Object>>> {
        let mut objects = KVec::new();
        for mapping in self.0.iter().filter(|m| m.touches(range)) {
            objects.push(mapping.object.clone(), GFP_KERNEL)?;
        }
        Ok(objects)
    }

    /// Ends all mappings of an object that the file has no handle of any more.
    pub(super) fn forget(&mut self, vm: &Vm, object: usize) {
        while let Some(at) = self.0.iter().position(|m| m.object.key() == object) {
            if let Err(e) = self.end(vm, at) {
                // A queue still uses it: it stays until the address space goes.
                pr_debug!("mapping of a closed buffer stays: {e:?}\n");
                if self.0.remove(at).is_err() {
                    return;
                }
            }
        }
    }

    /// A mapping of an object.
    pub(super) fn find(&self, object: usize) -> Option<ARef<Object>> {
        let mapping = self.0.iter().find(|m| m.object.key() == object)?;
        Some(mapping.object.clone())
    }
}

/// Waits until no job that was submitted uses a buffer. Jobs end, at the latest when they have taken too long.
pub(super) fn wait_for_jobs(object: &Object, interruptible: bool) -> Result {
    let resv = object.bo().resv();
    resv.wait(Usage::Bookkeep, interruptible, Timeout::FOREVER)?;
    Ok(())
}
