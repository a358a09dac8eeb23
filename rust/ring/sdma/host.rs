// SPDX-License-Identifier: GPL-2.0

//! Interface of the SDMA rings to the device above them.

use kernel::prelude::*;

/// Device that the rings belong to.
pub(crate) trait SdmaHost: Send + Sync {
    /// Calls `f`, which resets SDMA engine `engine`, with all user queues unmapped. Called while it
    /// hangs: user queues on it may not be preemptible, and are lost then. Reports schedulers that
    /// do not respond.
    fn without_user_queues(&self, engine: u32, f: &mut dyn FnMut());

    /// Reads and dispatches all entries of the IH ring. `ENODEV` when the device is unplugged.
    fn drain_interrupts(&self) -> Result;
}
