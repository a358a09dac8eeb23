// SPDX-License-Identifier: GPL-2.0

//! BO lists: the buffers that a submission uses, in a list that many submissions may name.

use kernel::{prelude::*, sync::Arc};

use crate::mmu::Bo;

/// Entry of a [`BoList`].
pub(super) struct Entry {
    /// The buffer.
    pub(super) bo: Bo,
    /// Buffers of a higher priority are validated later.
    pub(super) priority: u32,
}

/// A list of buffers without duplicates. Immutable: an update replaces the list.
pub(super) struct BoList {
    /// In the order of ascending priority.
    entries: KVVec<Entry>,
}

impl BoList {
    /// Returns a list without buffers.
    pub(super) fn empty() -> Result<Arc<Self>> {
        let entries = KVVec::new();
        Ok(Arc::new(Self { entries }, GFP_KERNEL)?)
    }

    /// Returns a list of the buffers of `entries`, each once, with the lowest of its priorities.
    pub(super) fn new(mut entries: KVVec<Entry>) -> Result<Arc<Self>> {
        entries.sort_unstable_by_key(|entry| (entry.bo.key(), entry.priority));
        let mut last = 0;
        entries.retain(|entry| {
            let bo = entry.bo.key();
            core::mem::replace(&mut last, bo) != bo
        });
        entries.sort_unstable_by_key(|entry| entry.priority);
        Ok(Arc::new(Self { entries }, GFP_KERNEL)?)
    }

    /// Returns the buffers, each once, in the order of ascending priority.
    pub(super) fn bos(&self) -> impl Iterator<Item = &Bo> {
        self.entries.iter().map(|entry| &entry.bo)
    }
}
