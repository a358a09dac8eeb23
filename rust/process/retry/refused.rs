// SPDX-License-Identifier: GPL-2.0

//! Retry faults that could not be handled, and which of them is that of an access.
//!
//! A pending fault may be stale: its access has succeeded since, and the process has unmapped the
//! page. The hardware does not repeat it. A fault is known to be that of an access if it is
//! repeated while the memory of the process is unchanged, or if it is one more than can have been
//! pending when the memory was last changed or a fault was handled.

use kernel::prelude::*;

/// A fault that could not be handled.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Refused {
    page: u64,
    /// The state of the memory of the process ([`crate::svm::Svm::changes`]).
    changes: u64,
}

/// Faults that could not be handled.
pub(super) struct Refusals {
    /// One per page, as many as can be pending.
    records: KVVec<Refused>,
    /// The record that is replaced next, if there are as many.
    oldest: usize,
    /// The last state of the memory.
    changes: u64,
    /// Refused faults since that changed or a fault was handled.
    in_a_row: usize,
}

impl Refusals {
    /// Returns none, for faults of which at most `pending` are pending at a time.
    pub(super) fn new(pending: usize) -> Result<Self> {
        Ok(Self {
            records: KVVec::with_capacity(pending, GFP_KERNEL)?,
            oldest: 0,
            changes: 0,
            in_a_row: 0,
        })
    }

    /// Records that the fault of a page could not be handled with the memory of the process in
    /// state `changes`. Returns whether it is that of an access.
    pub(super) fn refuse(&mut self, page: u64, changes: u64) -> bool {
        if self.changes != changes {
            self.changes = changes;
            self.in_a_row = 0;
        }
        self.in_a_row += 1;
        let repeated = self.record(Refused { page, changes });
        repeated || self.in_a_row > self.records.capacity()
    }

    /// Adds a record, in place of that of the same page. Returns whether that was the same.
    fn record(&mut self, new: Refused) -> bool {
        if let Some(old) = self.records.iter_mut().find(|old| old.page == new.page) {
            return core::mem::replace(old, new) == new;
        }
        if self.records.push_within_capacity(new).is_err() {
            if let Some(old) = self.records.get_mut(self.oldest) {
                *old = new;
            }
            self.oldest = (self.oldest + 1) % self.records.len().max(1);
        }
        false
    }

    /// Removes the record of a page, whose fault was handled.
    pub(super) fn forget(&mut self, page: u64) {
        self.in_a_row = 0;
        let found = self.records.iter().position(|record| record.page == page);
        let Some(at) = found else { return };
        // The last record takes its place.
        if let Some(last) = self.records.pop() {
            if let Some(record) = self.records.get_mut(at) {
                *record = last;
            }
        }
    }
}
