// SPDX-License-Identifier: GPL-2.0

//! Buffers that show the memory of a process, as it is and as it changes.
//!
//! The pages are not pinned. When they are about to change a [`Keeper`] is told, who sees to it that the
//! GPU does not access them any more; some time later [`UserBuffer::refresh`] looks for the pages that are
//! there now and rewrites the page tables.

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, AtomicFlag, Relaxed},
        Arc,
    },
};

use super::{
    bo::Bo,
    store::{Place, Store},
};
use crate::kapi::hmm::{Interval, Mapped, Mark, Watch};

/// How often pages are looked for that change meanwhile.
const LOOKS: u32 = 4;

/// Who keeps the GPU away from pages that go.
pub(crate) trait Keeper: Send + Sync {
    /// Pages of `validity`'s buffer are about to change: takes the lock that guards the counts of invalidations,
    /// marks and counts this one, and returns when no queue accesses the pages any more. Called as
    /// [`Watch::invalidate`].
    fn invalidate(&self, validity: &Validity, mark: Mark<'_>);
}

/// Pages as they were found.
pub(super) struct UserPages {
    pages: Mapped,
    /// After so many changes.
    at: u64,
}

impl UserPages {
    /// See [`Mapped::dma_run`].
    pub(super) fn dma_run(&self, page: usize) -> Result<(u64, usize)> {
        self.pages.dma_run(page)
    }

    /// Nothing is about to change, or has changed, since the pages of `memory` were looked for.
    pub(super) fn are_current(&self, memory: &UserMemory) -> bool {
        memory.watch().changes() == self.at
    }
}

/// That pages were found, and after how many changes.
#[derive(Clone, Copy)]
pub(crate) struct Found(u64);

/// Whether the GPU's page tables show what the process has.
pub(crate) struct Validity {
    keeper: Arc<dyn Keeper>,
    /// How often pages were about to change. Grows under the keeper's lock only.
    changes: Atomic<u64>,
    /// Up to which change the GPU's page tables are known to be right, and 1 more. Likewise.
    good: Atomic<u64>,
    /// After which change there was no memory, and 1 more. Likewise.
    missing: Atomic<u64>,
    /// The keeper knows the buffer. Changes likewise.
    known: AtomicFlag,
}

impl Validity {
    /// Counts a change.
    pub(crate) fn count(&self) {
        self.changes.fetch_add(1, Relaxed);
    }

    /// How often pages were about to change.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// The keeper knows the buffer.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Relaxed)
    }
}

#[vtable]
impl Watch for Validity {
    fn invalidate(&self, mark: Mark<'_>) {
        self.keeper.invalidate(self, mark);
    }
}

/// Memory of a process that a buffer shows.
pub(super) type UserMemory = Interval<Validity>;

/// Watches the `len` bytes at `start` of the current process; both are multiples of the page size.
pub(super) fn watch(start: u64, len: u64, keeper: Arc<dyn Keeper>) -> Result<Arc<UserMemory>> {
    let validity = Validity {
        keeper,
        changes: Atomic::new(0),
        // Nothing was looked at yet.
        good: Atomic::new(0),
        missing: Atomic::new(0),
        known: AtomicFlag::new(false),
    };
    Interval::new(usize::try_from(start)?, usize::try_from(len)?, validity)
}

/// The memory of a buffer that shows user memory. Does not keep the buffer.
#[derive(Clone)]
pub(crate) struct UserBuffer {
    store: Arc<Store>,
    memory: Arc<UserMemory>,
}

impl UserBuffer {
    /// Of a buffer of that kind.
    pub(crate) fn of(bo: &Bo) -> Option<Self> {
        let store = bo.store();
        Some(Self {
            store: store.clone(),
            memory: store.user()?.clone(),
        })
    }

    fn validity(&self) -> &Validity {
        self.memory.watch()
    }

    /// It has to be refreshed. The keeper's lock is held.
    pub(crate) fn is_invalid(&self) -> bool {
        let validity = self.validity();
        validity.good.load(Relaxed) != validity.changes() + 1
    }

    /// There is nothing to be found by looking again: it is valid, or there was no memory and nothing
    /// has changed since. The keeper's lock is held.
    pub(crate) fn is_settled(&self) -> bool {
        let validity = self.validity();
        !self.is_invalid() || validity.missing.load(Relaxed) == validity.changes() + 1
    }

    /// How often pages were about to change.
    pub(crate) fn changes(&self) -> u64 {
        self.validity().changes()
    }

    /// [`Self::refresh`], called after so many changes, has found no memory. The keeper's lock is
    /// held.
    pub(crate) fn note_missing(&self, changes: u64) {
        self.validity().missing.store(changes + 1, Relaxed);
    }

    /// What [`Self::refresh`] has found is what is there, if nothing has changed since. The
    /// keeper's lock is held.
    pub(crate) fn confirm(&self, found: Found) -> bool {
        self.validity().good.store(found.0 + 1, Relaxed);
        !self.is_invalid()
    }

    /// Is it the buffer that is called?
    pub(crate) fn has(&self, validity: &Validity) -> bool {
        core::ptr::eq(self.validity(), validity)
    }

    /// Lets all entries of page tables lead nowhere. For those who are called.
    pub(crate) fn hide(&self) {
        self.store.hide();
    }

    /// The keeper knows the buffer, or does not any more. Its lock is held.
    pub(crate) fn set_known(&self, known: bool) {
        self.validity().known.store(known, Relaxed);
    }

    /// Is it the same buffer?
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
    }

    /// Looks for the pages, brings them in, and lets all page tables show them, if they do not change
    /// meanwhile.
    ///
    /// If the pages cannot be had, page tables show nothing: `EFAULT` if there is no memory, `EPERM` if
    /// it may not be written, `EBUSY` if it does not hold still, `ESRCH` if the process is ending. With
    /// `ENOMEM` page tables may show nothing, too.
    pub(crate) fn refresh(&self) -> Result<Found> {
        let found = self
            .look()
            .and_then(|pages| Ok(Arc::new(pages, GFP_KERNEL)?));
        let (place, result) = match found {
            Ok(pages) => {
                let at = Found(pages.at);
                (Place::User(pages), Ok(at))
            }
            Err(e) => (Place::Nowhere, Err(e)),
        };
        self.store.show(place).and(result)
    }

    fn look(&self) -> Result<UserPages> {
        for _ in 0..LOOKS {
            let at = self.validity().changes();
            let pages = self.memory.fault(self.store.gpu().dev())?;
            // To bring pages in may itself have changed some, as when they were shared.
            if self.validity().changes() == at {
                return Ok(UserPages { pages, at });
            }
        }
        Err(EBUSY)
    }
}
