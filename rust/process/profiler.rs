// SPDX-License-Identifier: GPL-2.0

//! Performance counters of a process: the profiler lock of a device, and counting of the waves of
//! all queues on it.

use kernel::prelude::*;

use super::kfd_process::Process;
use crate::gpu::Gpu;

impl Process {
    /// Returns the number that stands for the process in a profiler lock.
    fn key(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Sets whether the waves of all queues on the nodes of a device are counted. Nodes that the
    /// process may not use keep theirs.
    fn count_waves(&self, gpu: &Gpu, count: bool) -> Result {
        let nodes = self.devices().iter().map(|d| d.node());
        let changed = nodes.filter(|node| node.is_of(gpu));
        changed
            .map(|node| node.dqm().set_perfcount(count))
            .fold(Ok(()), Result::and)
    }

    /// Takes or releases the profiler lock of a device and sets whether performance counters count
    /// the waves of all its queues. Queues that are created while the lock is held are counted.
    /// `EINVAL` without such a GPU, and to release a lock that the process does not hold;
    /// `EALREADY` if the process holds it, `EBUSY` if another one does; `EIO` or `ETIME` when the
    /// scheduler fails.
    pub(crate) fn profile(&self, gpu_id: u32, lock: bool, count: bool) -> Result {
        let _state = self.lock()?;
        let gpu = self.device(gpu_id)?.gpu();
        let change = || self.count_waves(gpu, count);
        if lock {
            gpu.profiler().take(self.key(), change)
        } else {
            gpu.profiler().release(self.key(), change)
        }
    }

    /// Releases the profiler locks of the process, of one device if `only` is given. It is detached
    /// from the GPUs.
    pub(super) fn end_profile(&self, only: Option<&Gpu>) {
        let devices = self.devices().iter();
        for device in devices.filter(|d| only.is_none_or(|gpu| d.node().is_of(gpu))) {
            let gpu = device.gpu();
            // Errors are reported by the scheduler.
            let _ = gpu
                .profiler()
                .release(self.key(), || self.count_waves(gpu, false));
        }
    }
}
