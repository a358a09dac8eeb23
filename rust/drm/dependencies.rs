// SPDX-License-Identifier: GPL-2.0

//! The fences that a job depends on, each once.

use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::aref::ARef,
};

use crate::kapi::fence::Fence;

/// A set of fences.
///
/// A job depends on the fences of all its buffers, of which many may have the same fence. Adding a
/// dependency to a job takes time linear in those that it has, so duplicates are dropped before.
pub(super) struct Dependencies(RBTree<usize, ARef<Fence>>);

impl Dependencies {
    /// Returns an empty set.
    pub(super) fn new() -> Self {
        Self(RBTree::new())
    }

    /// Adds a fence, unless it is in the set. `ENOMEM` without memory.
    pub(super) fn add(&mut self, fence: ARef<Fence>) -> Result {
        let key = core::ptr::from_ref(&*fence).addr();
        if self.0.get(&key).is_none() {
            self.0.insert(RBTreeNode::new(key, fence, GFP_KERNEL)?);
        }
        Ok(())
    }

    /// Returns the fences.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ARef<Fence>> {
        self.0.values()
    }
}
