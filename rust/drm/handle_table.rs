// SPDX-License-Identifier: GPL-2.0

//! Handles of an open file: the lowest free number from 1 on, as `xa_alloc()` with
//! `XA_FLAGS_ALLOC1` in the C driver.

use kernel::{alloc::flags::__GFP_NOWARN, id_pool::IdPool, prelude::*};

/// Values by handle.
///
/// Ids come from an [`IdPool`]. The values are in a vector instead of an `XArray`, whose binding
/// neither allocates ids nor iterates.
pub(super) struct HandleTable<T> {
    /// Id 0 is never acquired.
    ids: IdPool,
    /// The value of each id that was ever in use; `None` if the id is free.
    slots: KVVec<Option<T>>,
    /// All ids from 1 up to this one, exclusive, are in use.
    first_free: usize,
}

impl<T> HandleTable<T> {
    /// Returns an empty table.
    pub(super) fn new() -> Self {
        Self {
            ids: IdPool::new(),
            slots: KVVec::new(),
            first_free: 1,
        }
    }

    /// Stores `value` and returns its handle, the lowest that is free. `ENOMEM` without memory,
    /// `EBUSY` if all handles are in use.
    pub(super) fn add(&mut self, value: T) -> Result<u32> {
        if self.slots.is_empty() {
            self.slots.push(None, GFP_KERNEL)?;
        }
        let id = loop {
            // The search must start below the capacity.
            let start = self.first_free;
            let found = if start < self.ids.capacity() {
                self.ids.find_unused_id(start)
            } else {
                None
            };
            if let Some(id) = found {
                break id;
            }
            let request = self.ids.grow_request().ok_or(EBUSY)?;
            // User space controls the size: suppress the allocation warning.
            self.ids.grow(request.realloc(GFP_KERNEL | __GFP_NOWARN)?);
        };
        let handle = id.as_u32();
        match self.slots.get_mut(id.as_usize()) {
            Some(slot) => *slot = Some(value),
            // All lower ids have a slot, so this is the next one.
            None => self.slots.push(Some(value), GFP_KERNEL | __GFP_NOWARN)?,
        }
        self.first_free = id.acquire() + 1;
        Ok(handle)
    }

    /// Returns the handle that [`Self::add`] will return, unless it fails.
    pub(super) fn next_handle(&self) -> u32 {
        let free = |handle: &u32| self.get(*handle).is_none();
        let first = u32::try_from(self.first_free).unwrap_or(u32::MAX);
        (first..).find(free).unwrap_or(u32::MAX)
    }

    /// Returns the value of a handle.
    pub(super) fn get(&self, handle: u32) -> Option<&T> {
        self.slots.get(usize::try_from(handle).ok()?)?.as_ref()
    }

    /// Replaces the value of a handle and returns the old one, or `value` if the handle is free.
    pub(super) fn replace(&mut self, handle: u32, value: T) -> Result<T, T> {
        let id = usize::try_from(handle).ok();
        match id.and_then(|id| self.slots.get_mut(id)) {
            Some(Some(old)) => Ok(core::mem::replace(old, value)),
            _ => Err(value),
        }
    }

    /// Frees a handle and returns its value.
    pub(super) fn remove(&mut self, handle: u32) -> Option<T> {
        let id = usize::try_from(handle).ok()?;
        let value = self.slots.get_mut(id)?.take()?;
        self.ids.release_id(id);
        self.first_free = self.first_free.min(id);
        Some(value)
    }

    /// As [`Self::next`], to be changed.
    pub(super) fn next_mut(&mut self, from: u32) -> Option<(u32, &mut T)> {
        let slots = self.slots.get_mut(usize::try_from(from).ok()?..)?;
        let values = (from..).zip(slots);
        values
            .filter_map(|(handle, slot)| Some((handle, slot.as_mut()?)))
            .next()
    }

    /// Returns the first value whose handle is at least `from`, with its handle.
    pub(super) fn next(&self, from: u32) -> Option<(u32, &T)> {
        let slots = self.slots.get(usize::try_from(from).ok()?..)?;
        let values = (from..).zip(slots);
        values
            .filter_map(|(handle, slot)| Some((handle, slot.as_ref()?)))
            .next()
    }
}
