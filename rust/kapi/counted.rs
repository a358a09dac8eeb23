// SPDX-License-Identifier: GPL-2.0

//! A map that counts how often each key was added. One entry needs no memory; that of others is
//! allocated outside of the lock of the map.

use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::Mutex,
};

/// A value and its count.
struct Counted<V> {
    value: V,
    count: usize,
}

/// A map whose entries stay until they were removed as often as added.
pub(crate) struct CountedMap<K, V> {
    first: Option<(K, Counted<V>)>,
    /// The others.
    entries: RBTree<K, Counted<V>>,
    len: usize,
}

impl<K: Ord + Copy, V> CountedMap<K, V> {
    /// Returns an empty map.
    pub(crate) fn new() -> Self {
        Self {
            first: None,
            entries: RBTree::new(),
            len: 0,
        }
    }

    /// Returns the number of different keys.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn get_mut(&mut self, key: &K) -> Option<&mut Counted<V>> {
        match &mut self.first {
            Some((first, counted)) if *first == *key => Some(counted),
            _ => self.entries.get_mut(key),
        }
    }

    /// Returns whether there is an entry.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.first.as_ref().is_some_and(|(first, _)| first == key)
            || self.entries.get(key).is_some()
    }

    /// Returns the keys with their values, in order apart from the first one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let first = self.first.iter().map(|(key, counted)| (key, counted));
        let all = Iterator::chain(first, self.entries.iter());
        all.map(|(key, counted)| (key, &counted.value))
    }

    /// Adds an entry, or counts one that is there. `ENOMEM` without memory.
    pub(crate) fn add(this: &Mutex<Self>, key: K, value: V) -> Result
    where
        Self: Unpin,
    {
        let added = this.lock().try_add(key, value);
        let Err(value) = added else { return Ok(()) };
        let memory = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut map = this.lock();
        // Others may have added or removed entries meanwhile.
        if let Err(value) = map.try_add(key, value) {
            let counted = Counted { value, count: 1 };
            map.entries.insert(memory.into_node(key, counted));
            map.len += 1;
        }
        Ok(())
    }

    /// Adds an entry, or counts one that is there. Returns the value if that needs memory.
    fn try_add(&mut self, key: K, value: V) -> Result<(), V> {
        if let Some(known) = self.get_mut(&key) {
            known.count += 1;
            return Ok(());
        }
        if self.first.is_some() {
            return Err(value);
        }
        self.first = Some((key, Counted { value, count: 1 }));
        self.len += 1;
        Ok(())
    }

    /// Undoes [`Self::add`]. Returns the value if that was the last one.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let known = self.get_mut(key)?;
        known.count -= 1;
        if known.count > 0 {
            return None;
        }
        self.len -= 1;
        let removed = match self.first.take_if(|(first, _)| first == key) {
            Some((_, counted)) => Some(counted),
            None => self.entries.remove(key),
        };
        removed.map(|counted| counted.value)
    }
}
