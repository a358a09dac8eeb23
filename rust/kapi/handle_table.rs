// SPDX-License-Identifier: GPL-2.0

//! Values by handle, of which the lowest free one is allocated first, as `idr_alloc()` and
//! `xa_alloc()` do.
//!
//! The kernel's `IdPool` needs one contiguous bitmap, which ends at some 33 million handles, and a
//! scan of it for each allocation; the Rust `XArray` cannot allocate an index.

use kernel::{
    alloc::flags::__GFP_NOWARN,
    num::casts::u32_as_usize,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
};

/// Handles are positive 32-bit numbers.
// CAST: Positive.
const MAX_HANDLES: u32 = i32::MAX as u32;

/// A value, and the memory to note its handle as free.
struct Taken<T> {
    value: T,
    node: RBTreeNodeReservation<u32, ()>,
}

/// Values by handle.
pub(crate) struct HandleTable<T> {
    /// The lowest handle.
    first: u32,
    /// Slots of the handles from `first` on.
    slots: KVVec<Option<Taken<T>>>,
    /// Indices of free slots.
    free: RBTree<u32, ()>,
}

impl<T> HandleTable<T> {
    /// Returns an empty table of handles from `first` on.
    pub(crate) fn new(first: u32) -> Self {
        Self {
            first,
            slots: KVVec::new(),
            free: RBTree::new(),
        }
    }

    fn index(&self, handle: u32) -> Option<usize> {
        handle.checked_sub(self.first).map(u32_as_usize)
    }

    /// Returns the handle of a slot; all have one.
    fn handle(&self, index: usize) -> u32 {
        u32::try_from(index).map_or(u32::MAX, |index| self.first.saturating_add(index))
    }

    /// Stores a value under the lowest free handle and returns that. `ENOSPC` if there is none,
    /// `ENOMEM` if there is no memory for the table.
    pub(crate) fn insert(&mut self, value: T) -> Result<u32> {
        let lowest = self.free.keys().next().copied();
        if let Some(index) = lowest {
            let node = self.free.remove_node(&index).ok_or(ENOSPC)?;
            let node = node.into_reservation();
            let slot = self.slots.get_mut(u32_as_usize(index)).ok_or(ENOSPC)?;
            *slot = Some(Taken { value, node });
            return Ok(self.handle(u32_as_usize(index)));
        }
        let handle = self.handle(self.slots.len());
        if handle >= MAX_HANDLES {
            return Err(ENOSPC);
        }
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        // User space controls the size: suppress the allocation warning.
        let flags = GFP_KERNEL | __GFP_NOWARN;
        self.slots.push(Some(Taken { value, node }), flags)?;
        Ok(handle)
    }

    /// Returns the handle that [`Self::insert`] will return, unless it fails.
    pub(crate) fn next_handle(&self) -> u32 {
        let free = self.free.keys().next();
        self.handle(free.map_or(self.slots.len(), |index| u32_as_usize(*index)))
    }

    /// Returns the value under a handle.
    pub(crate) fn get(&self, handle: u32) -> Option<&T> {
        let slot = self.slots.get(self.index(handle)?)?.as_ref();
        slot.map(|taken| &taken.value)
    }

    /// Returns the value under a handle.
    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        let index = self.index(handle)?;
        let slot = self.slots.get_mut(index)?.as_mut();
        slot.map(|taken| &mut taken.value)
    }

    /// Replaces the value of a handle and returns the old one, or `value` if the handle is free.
    pub(crate) fn replace(&mut self, handle: u32, value: T) -> Result<T, T> {
        match self.get_mut(handle) {
            Some(old) => Ok(core::mem::replace(old, value)),
            None => Err(value),
        }
    }

    /// Removes and returns the value under a handle.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<T> {
        let index = self.index(handle)?;
        let taken = self.slots.get_mut(index)?.take()?;
        // CAST: The difference of two handles.
        self.free.insert(taken.node.into_node(index as u32, ()));
        Some(taken.value)
    }

    /// Returns the first value whose handle is at least `from`, with its handle.
    pub(crate) fn next(&self, from: u32) -> Option<(u32, &T)> {
        let start = u32_as_usize(from.saturating_sub(self.first));
        let mut slots = self.slots.get(start..)?.iter().enumerate();
        slots.find_map(|(n, slot)| Some((self.handle(start + n), &slot.as_ref()?.value)))
    }

    /// Iterates over all values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        let taken = self.slots.iter().filter_map(Option::as_ref);
        taken.map(|taken| &taken.value)
    }

    /// Iterates over all values.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let taken = self.slots.iter_mut().filter_map(Option::as_mut);
        taken.map(|taken| &mut taken.value)
    }

    /// Removes and returns any value; `None` if the table is empty.
    pub(crate) fn pop(&mut self) -> Option<T> {
        loop {
            let Some(last) = self.slots.pop() else {
                self.free = RBTree::new();
                return None;
            };
            if let Some(taken) = last {
                return Some(taken.value);
            }
            // CAST: The difference of two handles.
            self.free.remove_node(&(self.slots.len() as u32));
        }
    }
}
