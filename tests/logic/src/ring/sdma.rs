// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/ring/sdma`.

#[allow(clippy::all)]
#[path = "../../../../rust/ring/sdma/pte_run.rs"]
mod pte_run;
#[allow(clippy::all)]
#[path = "../../../../rust/ring/sdma/vmid.rs"]
mod vmid;
#[cfg(test)]
mod vmid_check;

pub(crate) use pte_run::PteRun;

/// `rust/ring/sdma/ring.rs`.
mod ring {
    /// Jobs on a ring.
    pub(super) const JOBS: u32 = 8;
}
