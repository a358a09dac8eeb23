// SPDX-License-Identifier: GPL-2.0

//! Userptr BOs: validity and refresh.

use core::ops::Range;

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    bo::Bo,
    inner::BoInner,
    placement::Placement,
    userptr::{Invalidations, UserMemory, UserPages, UserptrSeq},
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

    /// Returns the number of invalidations, which may grow unless the notifier's lock is held.
    pub(crate) fn invalidations(&self) -> Invalidations {
        self.seq().count()
    }

    /// See [`UserptrSeq::key`].
    pub(crate) fn key(&self) -> usize {
        self.seq().key()
    }

    /// Returns whether the BO is mapped, and any of `pages` is one of it.
    pub(crate) fn overlaps(&self, pages: &Range<u64>) -> bool {
        let own = self.memory.pages();
        own.start < pages.end && pages.start < own.end && self.bo.is_mapped()
    }

    /// Zaps all PTEs of the BO. Called from the MMU notifier.
    pub(crate) fn zap(&self) {
        self.bo.zap();
    }

    /// Zaps all PTEs of the BO for good: [`UserBuffer::refresh`] fails with `ENOENT` from now on.
    /// The caller holds the lock that the notifier takes.
    pub(crate) fn end(&self) {
        self.seq().end();
        self.bo.zap();
    }

    /// Faults the pages in and maps them in all page tables, unless they change meanwhile. Returns
    /// the number of invalidations before they were read.
    ///
    /// After an error the PTEs are zapped: `EFAULT` without memory, `EPERM` without write
    /// permission, `EBUSY` when invalidations do not stop, `ENOENT` after [`UserBuffer::end`],
    /// `ESRCH` when the process is exiting. After `ENOMEM` they may be zapped.
    pub(crate) fn refresh(&self) -> Result<Invalidations> {
        let (placement, result) = match self.fault() {
            Ok(pages) => {
                let at = pages.read_at();
                (Placement::User(pages), Ok(at))
            }
            Err(e) => (Placement::Nowhere, Err(e)),
        };
        self.bo.map_user(placement).and(result)
    }

    /// Faults the pages in. `EBUSY` after [`RETRIES`] invalidations, `ENOENT` if the address space
    /// of the process has ended.
    fn fault(&self) -> Result<Arc<UserPages>> {
        for _ in 0..RETRIES {
            let at = self.invalidations();
            if at.is_last() {
                return Err(ENOENT);
            }
            let pages = self.memory.fault(self.bo.gpu().dma())?;
            // The fault itself may have invalidated some, as when it broke COW.
            if self.invalidations() == at {
                return UserPages::new(pages, at);
            }
        }
        Err(EBUSY)
    }
}
