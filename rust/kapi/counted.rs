// SPDX-License-Identifier: GPL-2.0

//! A map that counts how often each key was added. The caller allocates and frees the memory of
//! entries, outside of its lock.

use kernel::rbtree::{Entry, RBTree, RBTreeNode, RBTreeNodeReservation};

/// A value and its count.
pub(crate) struct Counted<V> {
    value: V,
    count: usize,
}

/// Memory of an entry.
pub(crate) type Memory<K, V> = RBTreeNodeReservation<K, Counted<V>>;

/// A map whose entries stay until they were removed as often as added.
pub(crate) struct CountedMap<K, V> {
    entries: RBTree<K, Counted<V>>,
    len: usize,
}

impl<K: Ord, V> CountedMap<K, V> {
    /// Returns an empty map.
    pub(crate) fn new() -> Self {
        Self {
            entries: RBTree::new(),
            len: 0,
        }
    }

    /// Returns the number of different keys.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is an entry.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.entries.get(key).is_some()
    }

    /// Returns the keys with their values, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let entries = self.entries.iter();
        entries.map(|(key, counted)| (key, &counted.value))
    }

    /// Adds an entry, or counts one that is there. Returns the memory if it was not used.
    pub(crate) fn add(&mut self, key: K, value: V, memory: Memory<K, V>) -> Option<Memory<K, V>> {
        match self.entries.entry(key) {
            Entry::Occupied(mut known) => {
                known.get_mut().count += 1;
                Some(memory)
            }
            Entry::Vacant(entry) => {
                entry.insert(Counted { value, count: 1 }, memory);
                self.len += 1;
                None
            }
        }
    }

    /// Undoes [`Self::add`]. Returns the entry if that was the last one.
    pub(crate) fn remove(&mut self, key: &K) -> Option<RBTreeNode<K, Counted<V>>> {
        let known = self.entries.get_mut(key)?;
        known.count -= 1;
        if known.count > 0 {
            return None;
        }
        self.len -= 1;
        self.entries.remove_node(key)
    }
}
