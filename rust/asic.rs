// SPDX-License-Identifier: GPL-2.0

//! Register access, IP discovery, per-chip numbers and the firmware file format: everything below
//! the hardware abstraction in [`crate::hw`].

pub(crate) mod caps;
pub(crate) mod config;
pub(crate) mod discovery;
pub(crate) mod firmware;
pub(crate) mod fru;
pub(crate) mod mmio;
pub(crate) mod partition;
pub(crate) mod vbios;
pub(crate) mod xcc;

/// Returns `N` bytes of a table from byte `at` on, `None` beyond its end.
pub(crate) fn array_at<const N: usize>(table: &[u8], at: usize) -> Option<[u8; N]> {
    table.get(at..at.checked_add(N)?)?.try_into().ok()
}
