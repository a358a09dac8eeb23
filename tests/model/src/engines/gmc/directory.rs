// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The cache of page directory entries of a hub, in adversarial mode: a walk continues from valid
//! entries that were read before, until an invalidation request names their level.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

/// Directory entries by VMID, level, and the bits of the page number above the level's index.
type Entries = HashMap<(u8, u8, u64), u64>;

/// See the module documentation.
#[derive(Default)]
pub struct Directories(Mutex<Entries>);

impl Directories {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the entries of one VMID.
    pub fn of(&self, vmid: u8) -> Cache<'_> {
        Cache { all: self, vmid }
    }

    /// Drops the entries of a VMID of the levels in the mask.
    pub fn drop_levels(&self, vmid: u8, levels: u8) {
        self.lock()
            .retain(|(of, level, _), _| *of != vmid || levels >> level & 1 == 0);
    }

    /// Drops all entries.
    pub fn drop_all(&self) {
        self.lock().clear();
    }
}

/// The cached entries of one VMID.
pub struct Cache<'a> {
    all: &'a Directories,
    vmid: u8,
}

impl Cache<'_> {
    /// Returns the entry of `level` whose page numbers begin with `prefix`.
    pub fn find(&self, level: u8, prefix: u64) -> Option<u64> {
        self.all.lock().get(&(self.vmid, level, prefix)).copied()
    }

    /// Caches an entry.
    pub fn insert(&self, level: u8, prefix: u64, entry: u64) {
        self.all.lock().insert((self.vmid, level, prefix), entry);
    }
}
