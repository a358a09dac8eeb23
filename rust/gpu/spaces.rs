// SPDX-License-Identifier: GPL-2.0

//! The address spaces of a card, as far as a card reset needs them.

use core::ptr;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

use crate::kapi::room::lock_with_room;

/// An address space whose page tables can be rewritten.
pub(crate) trait PageTables: Send + Sync {
    /// Writes all page tables again, after VRAM was lost. TLBs are not flushed.
    fn rewrite(&self) -> Result;

    /// Zaps the PTEs of user memory again that are zapped, after VRAM was restored from a copy that
    /// may be older. TLBs are not flushed.
    fn zap_again(&self) -> Result;
}

struct Inner {
    list: KVVec<Arc<dyn PageTables>>,
    /// Incremented by each [`SpaceList::rewrite_all`].
    rewrites: u64,
}

/// The address spaces of a card.
#[pin_data]
pub(crate) struct SpaceList {
    /// Held for lookups and changes; never across a wait.
    #[pin]
    inner: Mutex<Inner>,
}

impl SpaceList {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_mutex!(Inner { list: KVVec::new(), rewrites: 0 }, "rkfd_spaces"),
        })
    }

    /// Returns the number of rewrites so far, to be read before page tables are allocated.
    pub(crate) fn rewrites(&self) -> u64 {
        self.inner.lock().rewrites
    }

    /// Adds an address space whose page tables were allocated after [`SpaceList::rewrites`]
    /// returned `rewrites`. A card reset since then has lost them: they are written again. `ENOMEM`
    /// without memory, `ENODEV` after unbind; it is not in the list then.
    pub(crate) fn add(&self, space: Arc<dyn PageTables>, rewrites: u64) -> Result {
        let stale = {
            let mut inner = self.inner.lock();
            inner.list.push(space.clone(), GFP_KERNEL)?;
            inner.rewrites != rewrites
        };
        if stale {
            space.rewrite().inspect_err(|_| self.remove(&space))?;
        }
        Ok(())
    }

    /// Removes an address space.
    pub(crate) fn remove(&self, space: &Arc<dyn PageTables>) {
        let mut inner = self.inner.lock();
        let at = inner
            .list
            .iter()
            .position(|s| ptr::addr_eq(&raw const **s, &raw const **space));
        let removed = at.and_then(|at| {
            let last = inner.list.len() - 1;
            inner.list.swap(at, last);
            inner.list.pop()
        });
        drop(inner);
        drop(removed);
    }

    /// Rewrites the page tables of all address spaces. The caller alone uses the card.
    pub(super) fn rewrite_all(&self) -> Result {
        self.snapshot(1)?
            .iter()
            .try_for_each(|space| space.rewrite())
    }

    /// Repeats in all address spaces what MMU notifiers have zapped, see [`PageTables::zap_again`].
    /// The caller alone uses the card.
    pub(super) fn zap_all_again(&self) -> Result {
        self.snapshot(0)?
            .iter()
            .try_for_each(|space| space.zap_again())
    }

    /// Returns all address spaces, and adds `rewrites` to the number of rewrites.
    ///
    /// An address space that is removed meanwhile must not shift others past the iteration. Those
    /// added after the snapshot are rewritten by [`SpaceList::add`].
    fn snapshot(&self, rewrites: u64) -> Result<KVVec<Arc<dyn PageTables>>> {
        let (mut inner, mut spaces) =
            lock_with_room(|| self.inner.lock(), |inner| inner.list.len())?;
        for space in inner.list.iter() {
            spaces.push_within_capacity(space.clone())?;
        }
        inner.rewrites += rewrites;
        Ok(spaces)
    }
}
