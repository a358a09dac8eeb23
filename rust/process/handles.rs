// SPDX-License-Identifier: GPL-2.0

//! Handles of the buffers of a process on one GPU.
//!
//! The lowest free handle is allocated first, as `idr_alloc()` does for the C driver. The kernel's
//! `IdPool` would need one contiguous bitmap, which ends at some 33 million handles, and a scan
//! of it for each allocation; the Rust `XArray` cannot allocate an index.

use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
};

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

/// A value, and the memory to note its handle as free.
struct Taken<T> {
    value: T,
    node: RBTreeNodeReservation<u32, ()>,
}

/// Values by handle.
pub(super) struct HandleTable<T> {
    slots: KVVec<Option<Taken<T>>>,
    /// Handles of free slots.
    free: RBTree<u32, ()>,
}

impl<T> HandleTable<T> {
    /// Returns an empty table.
    pub(super) fn new() -> Self {
        Self {
            slots: KVVec::new(),
            free: RBTree::new(),
        }
    }

    /// Stores a value under the lowest free handle and returns that. `ENOSPC` if there is none,
    /// `ENOMEM` if there is no memory for the table.
    pub(super) fn insert(&mut self, value: T) -> Result<u32> {
        let lowest = self.free.keys().next().copied();
        if let Some(id) = lowest {
            let node = self.free.remove_node(&id).ok_or(ENOSPC)?;
            let node = node.into_reservation();
            let slot = self.slots.get_mut(u32_as_usize(id)).ok_or(ENOSPC)?;
            *slot = Some(Taken { value, node });
            return Ok(id);
        }
        let id = u32::try_from(self.slots.len());
        let id = id.ok().filter(|id| *id < MAX_HANDLES).ok_or(ENOSPC)?;
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        self.slots.push(Some(Taken { value, node }), GFP_KERNEL)?;
        Ok(id)
    }

    /// Returns the value under a handle.
    pub(super) fn get(&self, id: u32) -> Option<&T> {
        let slot = self.slots.get(u32_as_usize(id))?.as_ref();
        slot.map(|taken| &taken.value)
    }

    /// Returns the value under a handle.
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let slot = self.slots.get_mut(u32_as_usize(id))?.as_mut();
        slot.map(|taken| &mut taken.value)
    }

    /// Removes and returns the value under a handle.
    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let taken = self.slots.get_mut(u32_as_usize(id))?.take()?;
        self.free.insert(taken.node.into_node(id, ()));
        Some(taken.value)
    }

    /// Iterates over all values.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        let taken = self.slots.iter().filter_map(Option::as_ref);
        taken.map(|taken| &taken.value)
    }

    /// Iterates over all values.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let taken = self.slots.iter_mut().filter_map(Option::as_mut);
        taken.map(|taken| &mut taken.value)
    }

    /// Removes and returns any value; `None` if the table is empty.
    pub(super) fn pop(&mut self) -> Option<T> {
        loop {
            let Some(last) = self.slots.pop() else {
                self.free = RBTree::new();
                return None;
            };
            if let Some(taken) = last {
                return Some(taken.value);
            }
            // CAST: Handles are 32-bit numbers.
            self.free.remove_node(&(self.slots.len() as u32));
        }
    }
}
