// SPDX-License-Identifier: GPL-2.0

//! Amounts of system memory.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)

use kernel::bindings;

/// System memory in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Memory that the kernel manages.
    pub(crate) total: u64,
    /// Free memory.
    pub(crate) free: u64,
}

/// Returns the amounts of system memory (`si_meminfo()`).
pub(crate) fn memory() -> Memory {
    let mut info = bindings::sysinfo::default();
    // SAFETY: The function writes the fields of the struct that it is passed, a local.
    unsafe { bindings::si_meminfo(&raw mut info) };
    let unit = info.mem_unit as usize;
    Memory {
        total: (info.totalram * unit) as u64,
        free: (info.freeram * unit) as u64,
    }
}

/// Returns the memory that is available without swapping, in bytes (`MemAvailable`).
pub(crate) fn available() -> u64 {
    // SAFETY: The function sums up counters, in any context.
    let pages = unsafe { bindings::si_mem_available() };
    u64::try_from(pages).unwrap_or(0) * kernel::page::PAGE_SIZE as u64
}
