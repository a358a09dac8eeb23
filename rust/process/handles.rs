// SPDX-License-Identifier: GPL-2.0

//! Handles of the buffers of a process on one GPU.
//!
//! The lowest free handle is allocated first, as `idr_alloc()` does for the C driver. The kernel's
//! `IdPool` would need one contiguous bitmap, which ends at some 33 million handles, and a scan
//! of it for each allocation; the Rust `XArray` cannot allocate an index.

use kernel::{num::casts::u32_as_usize, prelude::*};

/// Handles are positive 32-bit numbers.
// CAST: Positive.
const MAX_HANDLES: u32 = i32::MAX as u32;

/// Returns the handle of buffer `id` of a GPU in ioctls (`MAKE_HANDLE()`).
pub(crate) fn make_handle(gpu_id: u32, id: u32) -> u64 {
    u64::from(gpu_id) << 32 | u64::from(id)
}

/// Returns GPU id and buffer id of a handle (`GET_GPU_ID()`, `GET_IDR_HANDLE()`).
pub(super) fn split_handle(handle: u64) -> (u32, u32) {
    // CAST: The halves of the word.
    ((handle >> 32) as u32, handle as u32)
}

/// Values by handle.
///
/// # Invariants
///
/// No slot below `lowest` is free.
pub(super) struct HandleTable<T> {
    slots: KVVec<Option<T>>,
    lowest: u32,
}

impl<T> HandleTable<T> {
    /// Returns an empty table.
    pub(super) const fn new() -> Self {
        Self {
            slots: KVVec::new(),
            lowest: 0,
        }
    }

    /// Returns the lowest free handle, or `ENOSPC` if there is none.
    fn lowest_free(&self) -> Result<u32> {
        (self.lowest..MAX_HANDLES)
            .find(|id| self.get(*id).is_none())
            .ok_or(ENOSPC)
    }

    /// Stores a value under the lowest free handle and returns that. `ENOSPC` if there is none,
    /// `ENOMEM` if there is no memory for the table.
    pub(super) fn insert(&mut self, value: T) -> Result<u32> {
        let id = self.lowest_free()?;
        match self.slots.get_mut(u32_as_usize(id)) {
            Some(slot) => *slot = Some(value),
            // The first slot behind the end.
            None => self.slots.push(Some(value), GFP_KERNEL)?,
        }
        // INVARIANT: All slots up to `id` are taken.
        self.lowest = id + 1;
        Ok(id)
    }

    /// Returns the value under a handle.
    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.slots.get(u32_as_usize(id))?.as_ref()
    }

    /// Returns the value under a handle.
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.slots.get_mut(u32_as_usize(id))?.as_mut()
    }

    /// Removes and returns the value under a handle.
    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let value = self.slots.get_mut(u32_as_usize(id))?.take()?;
        self.lowest = self.lowest.min(id);
        Some(value)
    }

    /// Iterates over all values.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(Option::as_ref)
    }

    /// Iterates over all values.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(Option::as_mut)
    }

    /// Removes and returns any value; `None` if the table is empty.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.lowest = 0;
        loop {
            if let Some(value) = self.slots.pop()? {
                return Some(value);
            }
        }
    }
}
