// SPDX-License-Identifier: GPL-2.0

//! Process address space ids (PASIDs): identify an address space on all GPUs. Unrelated to PASIDs
//! of the IOMMU.

use kernel::prelude::*;

use crate::kapi::global::global_mutex;

/// Number of PASIDs: 16 bits; 0 means none.
const COUNT: usize = 1 << 16;

/// Allocated PASIDs. They are allocated cyclically, so that a late interrupt of a process that has
/// exited is not attributed to a new one.
struct Table {
    used: KVVec<u64>,
    next: usize,
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
            let mut used = KVVec::from_elem(0u64, COUNT / 64, GFP_KERNEL)?;
            used[0] = 1;
            *guard = Some(Table { used, next: 1 });
        }
        let table = guard.as_mut().ok_or(ENOMEM)?;
        for step in 0..COUNT {
            let id = (table.next + step) % COUNT;
            if table.used[id / 64] & (1 << (id % 64)) == 0 {
                table.used[id / 64] |= 1 << (id % 64);
                table.next = id + 1;
                return Ok(Self(id as u32));
            }
        }
        Err(ENOSPC)
    }

    /// Returns the number.
    pub(crate) fn get(&self) -> u32 {
        self.0
    }
}

impl Drop for Pasid {
    fn drop(&mut self) {
        let id = self.0 as usize;
        if let Some(table) = TABLE.lock().as_mut() {
            table.used[id / 64] &= !(1 << (id % 64));
        }
    }
}

/// Frees the table. Called at module unload, without any PASIDs allocated.
pub(crate) fn exit() {
    *TABLE.lock() = None;
}
