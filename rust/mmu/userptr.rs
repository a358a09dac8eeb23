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
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use super::peer::{PeerMemory, Peers};
use crate::kapi::{
    dma::{self, PeerMapping, Runs},
    hmm::{Faulted, Interval, Invalidation, Mark, Watch},
};

/// Stops GPU access to userptr pages that are about to change.
pub(crate) trait UserptrNotifier: Send + Sync {
    /// Handles an MMU notifier invalidation of the BO of `seq`: takes the lock that guards the
    /// sequence counts, marks and counts the invalidation, and returns when no queue accesses the
    /// pages any more. Called as [`Watch::invalidate`].
    fn invalidate(&self, seq: &UserptrSeq, mark: Mark<'_>);
}

/// The number of invalidations of a userptr BO at some time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Invalidations(u64);

impl Invalidations {
    /// No invalidation follows, see [`UserptrSeq::end`].
    const ENDED: u64 = 1 << 63;

    pub(super) fn is_last(self) -> bool {
        self.0 & Self::ENDED != 0
    }
}

/// Pages of a userptr BO as HMM returned them.
#[pin_data]
pub(super) struct UserPages {
    #[pin]
    peers: Peers,
    pages: Faulted,
    /// Invalidations before they were read.
    at: Invalidations,
}

impl UserPages {
    /// Returns the pages in `pages`, read after `at` invalidations.
    pub(super) fn new(pages: Faulted, at: Invalidations) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                peers <- Peers::new(),
                pages,
                at,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the number of invalidations before the pages were read.
    pub(super) fn read_at(&self) -> Invalidations {
        self.at
    }

    /// See [`Runs::dma_run`].
    pub(super) fn dma_run(&self, page: usize) -> Result<(u64, usize)> {
        self.pages.dma_run(page)
    }

    /// Returns the pages with their DMA addresses.
    pub(super) fn runs(&self) -> &dyn Runs {
        &self.pages
    }

    /// Marks the pages as dirty. They are current, and the lock is held with which their PTEs are
    /// zapped.
    pub(super) fn mark_dirty(&self) {
        self.pages.mark_dirty();
    }

    /// Returns whether there was no invalidation since the pages of `memory` were read.
    pub(super) fn are_current(&self, memory: &UserMemory) -> bool {
        memory.watch().count() == self.at
    }
}

impl PeerMemory for UserPages {
    fn peers(&self) -> &Peers {
        &self.peers
    }

    fn map_for(&self, device: &Arc<dma::Device>) -> Result<PeerMapping> {
        self.pages.map_for(device)
    }
}

/// The invalidations of a userptr BO, which are counted under the notifier's lock only.
pub(crate) struct UserptrSeq {
    notifier: Arc<dyn UserptrNotifier>,
    count: Atomic<u64>,
}

impl UserptrSeq {
    /// Counts an invalidation.
    pub(crate) fn increment(&self) {
        self.count.fetch_add(1, Relaxed);
    }

    /// Counts the last invalidation, once: nothing refreshes the BO from now on.
    pub(super) fn end(&self) {
        self.count.fetch_add(Invalidations::ENDED, Relaxed);
    }

    /// Returns the number of invalidations.
    pub(super) fn count(&self) -> Invalidations {
        Invalidations(self.count.load(Relaxed))
    }

    /// Returns a number that no other userptr BO has at the same time.
    pub(crate) fn key(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }
}

#[vtable]
impl Watch for UserptrSeq {
    fn invalidate(&self, what: Invalidation<'_>) {
        self.notifier.invalidate(self, what.mark);
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
        count: Atomic::new(0),
    };
    Interval::new(usize::try_from(start)?, usize::try_from(len)?, seq)
}
