// SPDX-License-Identifier: GPL-2.0

//! Performance counters of a process: the profiler lock of a device, and counting of the waves of
//! all its queues.

use kernel::prelude::*;

use super::kfd_process::Process;
use crate::gpu::Gpu;

impl Process {
    /// Returns the number that stands for the process in a profiler lock.
    fn key(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Takes or releases the profiler lock of a device and sets whether performance counters count
    /// the waves of all queues on a node of it. Queues that are created while the lock is held are
    /// counted. `EINVAL` without such a GPU, and to release a lock that the process does not hold;
    /// `EALREADY` if the process holds it, `EBUSY` if another one does; `EIO` or `ETIME` when the
    /// scheduler fails.
    pub(crate) fn profile(&self, gpu_id: u32, lock: bool, count: bool) -> Result {
        let _state = self.lock()?;
        let device = self.device(gpu_id)?;
        let profiler = device.gpu().profiler();
        if lock {
            profiler.take(self.key())?;
        } else {
            profiler.release(self.key())?;
        }
        device.node().dqm().set_perfcount(count)
    }

    /// Releases the profiler locks of the process, of one device if `only` is given.
    pub(super) fn end_profile(&self, only: Option<&Gpu>) {
        let devices = self.devices().iter();
        for device in devices.filter(|d| only.is_none_or(|gpu| d.node().is_of(gpu))) {
            if device.gpu().profiler().release(self.key()).is_err() {
                continue;
            }
            let nodes = self.devices().iter().map(|d| d.node());
            for node in nodes.filter(|node| node.is_of(device.gpu())) {
                // A scheduler that fails is reported where it does.
                let _ = node.dqm().set_perfcount(false);
            }
        }
    }
}
