// SPDX-License-Identifier: GPL-2.0

//! Process address space ids: the number by which all GPUs know an address space. Not the IOMMU's:
//! these never leave the GPUs.

use kernel::prelude::*;

use crate::kapi::global::global_mutex;

/// PASIDs are 16 bits wide; 0 means none.
const COUNT: usize = 1 << 16;

/// Which ids are taken. Ids are given out in turn, so that a late interrupt of a process that has
/// ended does not meet its successor.
struct Table {
    used: KVVec<u64>,
    next: usize,
}

global_mutex! {
    TABLE: Option<Table> = None;
    init init
}

/// A PASID. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Pasid(u32);

impl Pasid {
    /// Takes a free one.
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

    /// The number.
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

/// Frees the table; called at module unload, when no PASID is left.
pub(crate) fn exit() {
    *TABLE.lock() = None;
}
