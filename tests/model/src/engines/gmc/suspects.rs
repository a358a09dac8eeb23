// SPDX-License-Identifier: GPL-2.0 OR MIT

//! PTEs of a hub whose fragment has other neighbours. During an update of the group that is not an
//! error: a PTE is reported if it and its neighbour are still the same later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::walk::{Disagreement, Place};

/// Time between two checks.
const INTERVAL: Duration = Duration::from_millis(50);
/// Number of checks that must find the same.
const CHECKS: u32 = 4;
/// PTEs that are checked at the same time; others are not.
const LIMIT: usize = 64;

/// A PTE to be checked again.
#[derive(Clone, Copy)]
pub struct Suspect {
    /// VMID of the walk.
    pub vmid: u8,
    /// Address of the walk.
    pub va: u64,
    /// Location of the PTE.
    pub place: Place,
    /// The PTE.
    pub pte: u64,
    /// The neighbour.
    pub neighbour: Disagreement,
}

struct Entry {
    suspect: Suspect,
    due: Instant,
    checks: u32,
}

/// See the module documentation.
#[derive(Default)]
pub struct Suspects {
    entries: Mutex<Vec<Entry>>,
    /// Whether there are any. Accesses read only this flag if not.
    any: AtomicBool,
}

impl Suspects {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Adds a PTE, unless it is there.
    pub fn add(&self, suspect: Suspect) {
        let mut entries = self.lock();
        let same = |entry: &Entry| entry.suspect.place == suspect.place;
        if entries.len() < LIMIT && !entries.iter().any(same) {
            entries.push(Entry {
                suspect,
                due: Instant::now() + INTERVAL,
                checks: 0,
            });
            self.any.store(true, Ordering::Release);
        }
    }

    /// Checks the PTEs whose time has come by `still`, and returns one for which it was true each
    /// time.
    #[inline]
    pub fn confirmed(&self, still: impl Fn(&Suspect) -> bool) -> Option<Suspect> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut entries = self.lock();
        let now = Instant::now();
        entries.retain_mut(|entry| {
            if entry.due > now {
                return true;
            }
            entry.due = now + INTERVAL;
            entry.checks += 1;
            still(&entry.suspect)
        });
        let found = entries.iter().position(|entry| entry.checks >= CHECKS);
        let found = found.map(|index| entries.swap_remove(index).suspect);
        self.any.store(!entries.is_empty(), Ordering::Release);
        found
    }

    /// Drops the PTEs of a VMID.
    pub fn drop_vmid(&self, vmid: u8) {
        let mut entries = self.lock();
        entries.retain(|entry| entry.suspect.vmid != vmid);
        self.any.store(!entries.is_empty(), Ordering::Release);
    }

    /// Drops all PTEs.
    pub fn clear(&self) {
        self.lock().clear();
        self.any.store(false, Ordering::Release);
    }
}
