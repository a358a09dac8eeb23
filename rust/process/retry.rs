// SPDX-License-Identifier: GPL-2.0

//! Retry faults: the pending ones of a process on a GPU, those that could not be handled, and the
//! worker that maps their pages.

pub(super) mod pending;
mod refused;
pub(super) mod worker;
