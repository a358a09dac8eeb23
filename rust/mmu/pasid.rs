// SPDX-License-Identifier: GPL-2.0

//! Process address space ids (PASIDs): identify an address space on all GPUs. Unrelated to PASIDs
//! of the IOMMU.

use kernel::{id_pool::IdPool, prelude::*};

use crate::kapi::global::global_mutex;

/// Number of PASIDs: 16 bits.
const COUNT: usize = 1 << 16;
/// The first PASID; 0 means none.
const FIRST: usize = 1;

/// Allocated PASIDs. They are allocated cyclically, so that a late interrupt of a process that has
/// exited is not attributed to a new one.
struct Table {
    ids: IdPool,
    /// Start of the next search: [`FIRST`] or more, below [`COUNT`].
    next: usize,
    /// Number of PASIDs in use.
    used: usize,
}

global_mutex! {
    TABLE: Option<Table> = None;
    init init
}

/// A PASID. Freed on drop.
#[derive(Debug)]
pub(crate) struct Pasid(u32);

impl Pasid {
    /// Allocates a PASID. `ENOSPC` when none is free, `ENOMEM` without memory.
    pub(crate) fn alloc() -> Result<Self> {
        let mut guard = TABLE.lock();
        if guard.is_none() {
            *guard = Some(Table {
                ids: IdPool::with_capacity(COUNT, GFP_KERNEL)?,
                next: FIRST,
                used: 0,
            });
        }
        let table = guard.as_mut().ok_or(ENOMEM)?;
        let id = match table.ids.find_unused_id(table.next) {
            Some(id) => id.acquire(),
            None => table.ids.find_unused_id(FIRST).ok_or(ENOSPC)?.acquire(),
        };
        table.used += 1;
        table.next = if id + 1 < COUNT { id + 1 } else { FIRST };
        Ok(Self(id as u32))
    }

    /// Returns the number.
    pub(crate) fn get(&self) -> u32 {
        self.0
    }
}

impl Drop for Pasid {
    fn drop(&mut self) {
        if let Some(table) = TABLE.lock().as_mut() {
            table.ids.release_id(self.0 as usize);
            table.used -= 1;
        }
    }
}

/// Returns the number of PASIDs in use.
pub(crate) fn in_use() -> usize {
    TABLE.lock().as_ref().map_or(0, |table| table.used)
}

/// Frees the table. Called at module unload, without any PASIDs allocated.
pub(crate) fn exit() {
    *TABLE.lock() = None;
}
