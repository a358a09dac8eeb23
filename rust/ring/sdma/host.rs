// SPDX-License-Identifier: GPL-2.0

//! Interface of the SDMA rings to the device above them.

use kernel::prelude::*;

/// Device that the rings belong to.
pub(crate) trait SdmaHost: Send + Sync {
    /// Unmaps all user queues, until [`SdmaHost::resume_user_queues`]. Called while an engine
    /// hangs: user queues on that engine may not be preemptible, and are lost then. `ETIME` when
    /// the scheduler does not respond, `EIO` when the GPU is hung.
    fn suspend_user_queues(&self) -> Result;

    /// Undoes [`SdmaHost::suspend_user_queues`]. Same errors.
    fn resume_user_queues(&self) -> Result;

    /// Reads and dispatches all entries of the IH ring. `ENODEV` when the device is unplugged.
    fn drain_interrupts(&self) -> Result;
}
