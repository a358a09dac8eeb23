// SPDX-License-Identifier: GPL-2.0

//! A table of small ids, the lowest free one given out first.

use kernel::prelude::*;

/// Values under ids.
///
/// # Invariants
///
/// No slot below `lowest` is free.
pub(crate) struct Table<T> {
    slots: KVVec<Option<T>>,
    lowest: usize,
    limit: usize,
}

impl<T> Table<T> {
    /// An empty table whose ids stay below `limit`.
    pub(crate) const fn new(limit: usize) -> Self {
        Self {
            slots: KVVec::new(),
            lowest: 0,
            limit,
        }
    }

    /// The id that the next [`Self::insert`] gives, or `None` if the table is full.
    fn free_id(&self) -> Option<usize> {
        let id = self
            .slots
            .iter()
            .skip(self.lowest)
            .position(Option::is_none)
            .map_or(self.slots.len(), |at| self.lowest + at);
        (id < self.limit).then_some(id)
    }

    /// Stores a value under the lowest free id. Fails with `ENOSPC` when there is none.
    pub(crate) fn insert(&mut self, value: T) -> Result<u32> {
        let id = self.free_id().ok_or(ENOSPC)?;
        match self.slots.get_mut(id) {
            Some(slot) => *slot = Some(value),
            None => self.slots.push(Some(value), GFP_KERNEL)?,
        }
        // INVARIANT: Every slot up to `id` was found or is now taken.
        self.lowest = id + 1;
        Ok(id as u32)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.slots.get(id as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.slots.get_mut(id as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let value = self.slots.get_mut(id as usize)?.take()?;
        self.lowest = self.lowest.min(id as usize);
        Some(value)
    }

    /// All values with their ids, in the order of the ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(id, slot)| slot.as_ref().map(|value| (id as u32, value)))
    }

    /// All values, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(Option::as_mut)
    }

    /// Takes any value out, until there is none.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.lowest = 0;
        loop {
            if let Some(value) = self.slots.pop()? {
                return Some(value);
            }
        }
    }
}
