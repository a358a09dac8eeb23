// SPDX-License-Identifier: GPL-2.0

//! Data fabric (DF): HAL trait.

use kernel::prelude::*;

use crate::asic::mmio::Mmio;

/// Data fabric. Register accesses return `ENODEV` after unbind.
pub(crate) trait DfHal: Sync {
    /// Makes the fabric forward atomic operations on system memory to the bus, which completes
    /// them. Without it they are atomic with respect to the card only. Resets undo it.
    fn forward_atomics(&self, mmio: &Mmio) -> Result;
}
