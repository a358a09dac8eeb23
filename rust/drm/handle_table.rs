// SPDX-License-Identifier: GPL-2.0

//! What an open file knows by numbers of its own: the lowest free number from 1 on.

use kernel::prelude::*;

/// A table of things with numbers.
pub(super) struct HandleTable<T> {
    slots: KVVec<Option<T>>,
    /// No slot below is free.
    full_below: usize,
}

impl<T> HandleTable<T> {
    pub(super) const fn new() -> Self {
        Self {
            slots: KVVec::new(),
            full_below: 0,
        }
    }

    /// Gives `value` the lowest number that is free.
    pub(super) fn add(&mut self, value: T) -> Result<u32> {
        let rest = self.slots.get(self.full_below..).unwrap_or_default();
        let at = rest.iter().position(Option::is_none);
        let at = self.full_below + at.unwrap_or(rest.len());
        let id = u32::try_from(at + 1).map_err(|_| EBUSY)?;
        match self.slots.get_mut(at) {
            Some(slot) => *slot = Some(value),
            None => self.slots.push(Some(value), GFP_KERNEL)?,
        }
        self.full_below = at + 1;
        Ok(id)
    }

    fn slot(&mut self, id: u32) -> Option<(usize, &mut Option<T>)> {
        let at = (id as usize).checked_sub(1)?;
        self.slots.get_mut(at).map(|slot| (at, slot))
    }

    /// What has the number `id`.
    pub(super) fn get(&self, id: u32) -> Option<&T> {
        let at = (id as usize).checked_sub(1)?;
        self.slots.get(at)?.as_ref()
    }

    /// Puts `value` in place of what has the number `id`, which is handed out; gives `value` back if nothing has.
    pub(super) fn replace(&mut self, id: u32, value: T) -> Result<T, T> {
        match self.slot(id) {
            Some((_, Some(old))) => Ok(core::mem::replace(old, value)),
            _ => Err(value),
        }
    }

    /// Takes what has the number `id` out.
    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let (at, slot) = self.slot(id)?;
        let value = slot.take()?;
        self.full_below = self.full_below.min(at);
        Some(value)
    }

    /// Everything in the table.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }
}
