// SPDX-License-Identifier: GPL-2.0

//! Uevents of devices that were wedged.
//!
//! C header: [`include/drm/drm_drv.h`](srctree/include/drm/drm_drv.h)

use core::ptr;

use kernel::{bindings, error::to_result, prelude::*, sync::atomic::Relaxed};

use super::Device;

/// Ways to recover a device that was wedged (`DRM_WEDGE_RECOVERY_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wedged {
    /// It works again.
    Recovered,
    /// Unbind and bind of the driver, with a reset of the bus between them if that does not help.
    Lost,
}

impl Wedged {
    fn methods(self) -> c_ulong {
        match self {
            Self::Recovered => 1 << 0,
            Self::Lost => 1 << 1 | 1 << 2,
        }
    }
}

impl Device {
    /// Sends the uevent of a device that was wedged (`drm_dev_wedged_event()`). No effect before it
    /// is registered.
    pub(crate) fn report_wedged(&self, how: Wedged) {
        if self.registered.load(Relaxed) == 0 {
            return;
        }
        // SAFETY: The device is initialized by its type invariant. Its primary minor and the device
        // of that exist until it is freed. There is no information about a task.
        let sent = unsafe {
            bindings::drm_dev_wedged_event(self.raw.get(), how.methods(), ptr::null_mut())
        };
        if let Err(e) = to_result(sent) {
            dev_warn!(self.parent(), "failed to send the WEDGED uevent: {e:?}\n");
        }
    }
}
