// SPDX-License-Identifier: GPL-2.0

//! A run of page table entries that SDMA writes.

/// Page table entries to write: entry i is `(addr + i * incr) | flags`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PteRun {
    /// Address of the first entry.
    pub(crate) pe: u64,
    /// Address in the first entry.
    pub(crate) addr: u64,
    /// Other bits of all entries.
    pub(crate) flags: u64,
    /// Address increment per entry.
    pub(crate) incr: u64,
    /// Number of entries.
    pub(crate) count: u32,
}
