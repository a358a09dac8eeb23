// SPDX-License-Identifier: GPL-2.0

//! Occupancy of compute units by a process (`cu_occupancy` in sysfs).

use kernel::prelude::*;

use super::{queues::DqmProcess, slots, Dqm};
use crate::hw::QueueFormat;

impl Dqm {
    /// Returns how many compute units the waves of a process would fill. They are counted on the
    /// first XCC of the node; AQL dispatches are distributed over all, and count as often.
    ///
    /// `EIO` when the GPU is hung, `ENODEV` when it is unplugged.
    pub(crate) fn cu_occupancy(&self, process: &DqmProcess) -> Result<u64> {
        if process.state.lock().queues.is_empty() {
            return Ok(0);
        }
        let gpu = &self.gpu;
        gpu.check_usable()?;
        let (hal, mmio, config) = (gpu.generation().gfx, gpu.mmio()?, gpu.config());
        let caps = gpu.generation().caps;
        let xccs = &self.node.xccs;
        let xcc = *xccs.iter().next().ok_or(EINVAL)?;
        let busy = hal.wave_queues(mmio, xcc, config.num_se)?;
        let mut waves = 0;
        for slot in slots::queue_slots(caps) {
            if busy >> (slot.pipe * caps.queues_per_pipe + slot.queue) & 1 == 0 {
                continue;
            }
            let count = u64::from(hal.wave_count(mmio, xcc, config.num_se, slot)?);
            let Some(doorbell) = hal.doorbell_in(mmio, xcc, slot)? else {
                continue;
            };
            waves += match process.format_of(doorbell) {
                Some(QueueFormat::Aql) => count * xccs.iter().count() as u64,
                Some(QueueFormat::Pm4) => count,
                None => 0,
            };
        }
        let per_cu = config.simd_per_cu * config.waves_per_simd;
        Ok(waves.div_ceil(per_cu.max(1).into()))
    }
}
