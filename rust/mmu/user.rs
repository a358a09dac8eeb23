// SPDX-License-Identifier: GPL-2.0

//! Userptr BOs: validity and refresh.

use kernel::{
    prelude::*,
    sync::{atomic::Relaxed, Arc},
};

use super::{
    bo::Bo,
    inner::BoInner,
    placement::Placement,
    userptr::{Found, UserMemory, UserPages, UserptrSeq},
};

/// Number of attempts to fault in the pages before a refresh fails.
const RETRIES: u32 = 4;

/// A userptr BO. Holds no reference to the BO.
#[derive(Clone)]
pub(crate) struct UserBuffer {
    bo: Arc<BoInner>,
    memory: Arc<UserMemory>,
}

impl UserBuffer {
    /// Returns the userptr part of `bo`, or `None` if it is not a userptr BO.
    pub(crate) fn of(bo: &Bo) -> Option<Self> {
        let bo = bo.inner();
        Some(Self {
            bo: bo.clone(),
            memory: bo.user()?.clone(),
        })
    }

    fn seq(&self) -> &UserptrSeq {
        self.memory.watch()
    }

    /// Returns whether the BO has to be refreshed. The caller holds the notifier's lock.
    pub(crate) fn is_invalid(&self) -> bool {
        let seq = self.seq();
        seq.good.load(Relaxed) != seq.changes() + 1
    }

    /// Returns whether a refresh is pointless: the BO is valid, or there was no memory and no
    /// invalidation since. The caller holds the notifier's lock.
    pub(crate) fn is_settled(&self) -> bool {
        let seq = self.seq();
        !self.is_invalid() || seq.missing.load(Relaxed) == seq.changes() + 1
    }

    /// Returns the number of invalidations.
    pub(crate) fn changes(&self) -> u64 {
        self.seq().changes()
    }

    /// Records that [`Self::refresh`], called after `changes` invalidations, found no memory. The
    /// caller holds the notifier's lock.
    pub(crate) fn note_missing(&self, changes: u64) {
        self.seq().missing.store(changes + 1, Relaxed);
    }

    /// Marks the BO valid for the pages of [`Self::refresh`]. Returns false after an invalidation
    /// since. The caller holds the notifier's lock.
    pub(crate) fn confirm(&self, found: Found) -> bool {
        self.seq().good.store(found.0 + 1, Relaxed);
        !self.is_invalid()
    }

    /// Returns whether `seq` is that of this BO.
    pub(crate) fn has(&self, seq: &UserptrSeq) -> bool {
        core::ptr::eq(self.seq(), seq)
    }

    /// Zaps all PTEs of the BO. Called from the MMU notifier.
    pub(crate) fn zap(&self) {
        self.bo.zap();
    }

    /// Sets whether the BO is on the notifier's list. The caller holds the notifier's lock.
    pub(crate) fn set_registered(&self, registered: bool) {
        self.seq().registered.store(registered, Relaxed);
    }

    /// Returns whether both are the same BO.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.bo, &other.bo)
    }

    /// Faults the pages in and maps them in all page tables, unless they change meanwhile.
    ///
    /// After an error the PTEs are zapped: `EFAULT` without memory, `EPERM` without write
    /// permission, `EBUSY` when invalidations do not stop, `ESRCH` when the process is exiting.
    /// After `ENOMEM` they may be zapped.
    pub(crate) fn refresh(&self) -> Result<Found> {
        let found = self
            .fault()
            .and_then(|pages| Ok(Arc::new(pages, GFP_KERNEL)?));
        let (placement, result) = match found {
            Ok(pages) => {
                let at = pages.found();
                (Placement::User(pages), Ok(at))
            }
            Err(e) => (Placement::Nowhere, Err(e)),
        };
        self.bo.map_user(placement).and(result)
    }

    /// Faults the pages in. `EBUSY` after [`RETRIES`] invalidations.
    fn fault(&self) -> Result<UserPages> {
        for _ in 0..RETRIES {
            let at = self.seq().changes();
            let pages = self.memory.fault(self.bo.gpu().dma())?;
            // The fault itself may have invalidated some, as when it broke COW.
            if self.seq().changes() == at {
                return Ok(UserPages::new(pages, at));
            }
        }
        Err(EBUSY)
    }
}
