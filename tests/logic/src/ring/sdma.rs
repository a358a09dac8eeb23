// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/ring/sdma`.

#[allow(clippy::all)]
#[path = "../../../../rust/ring/sdma/vmid.rs"]
mod vmid;
#[cfg(test)]
mod vmid_check;

/// `rust/ring/sdma/ring.rs`.
mod ring {
    /// Jobs on a ring.
    pub(super) const JOBS: u32 = 8;
}

/// Page table entries to write, as in `rust/ring/sdma/client.rs`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PteRun {
    /// MC address of the first entry.
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
