// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `kernel::rbtree`, on the map of the standard library.

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    ops::Bound::{Included, Unbounded},
};

use crate::{
    alloc::{allocate, Flags},
    error::Result,
};

/// A sorted map whose nodes the caller allocates.
pub struct RBTree<K, V>(BTreeMap<K, V>);

/// Memory of a node.
pub struct RBTreeNodeReservation<K, V>(PhantomData<(K, V)>);

/// A node that is in no tree.
pub struct RBTreeNode<K, V>(K, V);

impl<K, V> RBTreeNodeReservation<K, V> {
    /// Allocates the memory of a node.
    pub fn new(flags: Flags) -> Result<Self> {
        allocate(flags)?;
        Ok(Self(PhantomData))
    }

    /// Fills it.
    pub fn into_node(self, key: K, value: V) -> RBTreeNode<K, V> {
        RBTreeNode(key, value)
    }
}

impl<K, V> RBTreeNode<K, V> {
    /// Drops the contents and returns the memory.
    pub fn into_reservation(self) -> RBTreeNodeReservation<K, V> {
        RBTreeNodeReservation(PhantomData)
    }
}

impl<K: Ord, V> Default for RBTree<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V> RBTree<K, V> {
    /// Returns an empty tree.
    pub fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Returns whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a node and returns the one of its key before.
    pub fn insert(&mut self, node: RBTreeNode<K, V>) -> Option<RBTreeNode<K, V>>
    where
        K: Clone,
    {
        let key = node.0.clone();
        let old = self.0.insert(node.0, node.1)?;
        Some(RBTreeNode(key, old))
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    /// Returns the value of a key.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    /// Removes a node.
    pub fn remove_node(&mut self, key: &K) -> Option<RBTreeNode<K, V>> {
        let (key, value) = self.0.remove_entry(key)?;
        Some(RBTreeNode(key, value))
    }

    /// Iterates in the order of the keys.
    pub fn iter(&self) -> std::collections::btree_map::Iter<'_, K, V> {
        self.0.iter()
    }

    /// As [`Self::iter`], to change values.
    pub fn iter_mut(&mut self) -> std::collections::btree_map::IterMut<'_, K, V> {
        self.0.iter_mut()
    }

    /// Returns a cursor at the first node whose key is not below `key`.
    pub fn cursor_lower_bound(&self, key: &K) -> Option<Cursor<'_, K, V>> {
        let mut range = self.0.range((Included(key), Unbounded));
        range.next().map(|(key, value)| Cursor(key, value))
    }

    /// Iterates over the keys.
    pub fn keys(&self) -> std::collections::btree_map::Keys<'_, K, V> {
        self.0.keys()
    }
}

/// A node of a tree.
pub struct Cursor<'a, K, V>(&'a K, &'a V);

impl<K, V> Cursor<'_, K, V> {
    /// Returns the key and the value.
    pub fn current(&self) -> (&K, &V) {
        (self.0, self.1)
    }
}

impl<'a, K, V> IntoIterator for &'a RBTree<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = std::collections::btree_map::Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
