// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/hw/gfx.rs`.

/// Watchpoints of a VMID.
pub(crate) const WATCHPOINTS: usize = 4;
