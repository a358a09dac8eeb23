// SPDX-License-Identifier: GPL-2.0

//! Userptr: the interval notifier of a BO over user memory, and the pages found there.
//!
//! The pages are not pinned. An invalidation calls the [`UserptrNotifier`], which stops GPU access;
//! later [`UserBuffer::refresh`] reads the current pages and rewrites the page tables.
//!
//! [`UserBuffer::refresh`]: super::user::UserBuffer::refresh

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, AtomicFlag, Relaxed},
        Arc,
    },
};

use crate::kapi::hmm::{Interval, Mapped, Mark, Watch};

/// Stops GPU access to userptr pages that are about to change.
pub(crate) trait UserptrNotifier: Send + Sync {
    /// Handles an MMU notifier invalidation of the BO of `seq`: takes the lock that guards the
    /// sequence counts, marks and counts the invalidation, and returns when no queue accesses the
    /// pages any more. Called as [`Watch::invalidate`].
    fn invalidate(&self, seq: &UserptrSeq, mark: Mark<'_>);
}

/// Pages of a userptr BO as HMM returned them.
pub(super) struct UserPages {
    pages: Mapped,
    /// Invalidations before they were read.
    at: u64,
}

impl UserPages {
    /// See [`Mapped::dma_run`].
    pub(super) fn dma_run(&self, page: usize) -> Result<(u64, usize)> {
        self.pages.dma_run(page)
    }

    /// Returns whether there was no invalidation since the pages of `memory` were read.
    pub(super) fn are_current(&self, memory: &UserMemory) -> bool {
        memory.watch().changes() == self.at
    }
}

/// The invalidation count of pages that were read.
#[derive(Clone, Copy)]
pub(crate) struct Found(pub(super) u64);

/// Invalidation counts of a userptr BO: the current one, and those of its PTEs.
pub(crate) struct UserptrSeq {
    notifier: Arc<dyn UserptrNotifier>,
    /// Invalidations. Changes under the notifier's lock only, as all below.
    changes: Atomic<u64>,
    /// 1 + the count for which the page tables are valid.
    pub(super) good: Atomic<u64>,
    /// 1 + the count for which there was no memory.
    pub(super) missing: Atomic<u64>,
    /// The BO is on the notifier's list.
    pub(super) registered: AtomicFlag,
}

impl UserptrSeq {
    /// Counts an invalidation.
    pub(crate) fn count(&self) {
        self.changes.fetch_add(1, Relaxed);
    }

    /// Returns the number of invalidations.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Returns whether the BO is on the notifier's list.
    pub(crate) fn is_registered(&self) -> bool {
        self.registered.load(Relaxed)
    }
}

#[vtable]
impl Watch for UserptrSeq {
    fn invalidate(&self, mark: Mark<'_>) {
        self.notifier.invalidate(self, mark);
    }
}

/// The range of user memory of a userptr BO.
pub(super) type UserMemory = Interval<UserptrSeq>;

/// Registers an interval notifier for `len` bytes at `start` of the current process, both multiples
/// of the page size. `EINVAL` for a bad range, `ENOMEM` without memory.
pub(super) fn watch(
    start: u64,
    len: u64,
    notifier: Arc<dyn UserptrNotifier>,
) -> Result<Arc<UserMemory>> {
    let seq = UserptrSeq {
        notifier,
        changes: Atomic::new(0),
        // No pages were read yet.
        good: Atomic::new(0),
        missing: Atomic::new(0),
        registered: AtomicFlag::new(false),
    };
    Interval::new(usize::try_from(start)?, usize::try_from(len)?, seq)
}

impl UserPages {
    /// Returns the pages in `pages`, read after `at` invalidations.
    pub(super) fn new(pages: Mapped, at: u64) -> Self {
        Self { pages, at }
    }

    /// Returns the invalidation count of the pages.
    pub(super) fn found(&self) -> Found {
        Found(self.at)
    }
}
