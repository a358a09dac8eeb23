// SPDX-License-Identifier: GPL-2.0

//! Interface of the SDMA rings to the device above them.

use kernel::prelude::*;

/// Device that the rings belong to.
pub(crate) trait SdmaHost: Send + Sync {
    /// Calls `f`, which resets an SDMA engine, with all user queues unmapped. Called while the
    /// engine hangs: user queues on it may not be preemptible; they are lost then, and it is reset
    /// before the call. Reports schedulers that do not respond.
    fn without_user_queues(&self, f: &mut dyn FnMut());

    /// Reads and dispatches all entries of the IH ring. `ENODEV` when the device is unplugged.
    fn drain_interrupts(&self) -> Result;
}
