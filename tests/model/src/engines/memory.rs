// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory partitions: the NPS mode, its registers, and the switch by a reset of the card.
//!
//! VRAM is one range (NPS1), or one for each AID (NPS4). The PSP records a mode that a driver
//! requests, `PARTITION_MEM_STATUS.CHANGE_STATUE` reports the request, and the next mode-1 reset
//! sets the mode (`nbio_v7_9_is_nps_switch_requested`, `gmc_v9_0_need_reset_on_init`). Which resets
//! keep a mode is documented nowhere; here mode 1 does, and power-on sets NPS1.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use gpu_regs::{nbio_7_9_0 as nbio, Reg};

use crate::chips::{Chip, Generation};
use crate::gpu::{Gpu, Reset};
use crate::regs::{Ip, Slot};
use crate::{event, strict};

/// `CHANGE_STATUE` while a switch is requested.
const REQUESTED: u32 = 8;

/// The memory partitions of a mode.
#[derive(Debug, Clone, Copy)]
pub struct MemoryPartitions {
    /// NPS mode: number of partitions.
    pub mode: u32,
    /// Offset of VRAM in the memory of the hive.
    pub start: u64,
    /// Bytes of VRAM.
    pub vram: u64,
}

impl MemoryPartitions {
    /// Returns the addresses of each partition.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let size = self.vram / u64::from(self.mode);
        let at = move |n| self.start + n * size;
        (0..u64::from(self.mode)).map(move |n| at(n)..at(n + 1))
    }
}

#[derive(Debug)]
struct State {
    mode: u32,
    requested: Option<u32>,
}

/// The memory partition mode.
#[derive(Debug)]
pub struct Memory(Mutex<State>);

impl Default for Memory {
    fn default() -> Self {
        Self(Mutex::new(State {
            mode: 1,
            requested: None,
        }))
    }
}

/// Returns the NPS modes of a card: bit n - 1 is mode n.
pub fn modes(chip: &Chip) -> u32 {
    match chip.instances(Ip::Mmhub).count() {
        4 if chip.generation == Generation::Gfx9 => 0b1001,
        _ => 1,
    }
}

/// Returns whether a division into `count` compute partitions is possible in an NPS mode: none of
/// them has XCCs at several memory partitions (`__aqua_vanjaram_get_px_mode_info`).
pub fn serves(mode: u32, count: u32) -> bool {
    count % mode == 0
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the mode.
    pub fn mode(&self) -> u32 {
        self.lock().mode
    }

    /// Returns the partitions; `None` for a card with one mode.
    pub fn partitions(&self, gpu: &Gpu) -> Option<MemoryPartitions> {
        (modes(gpu.chip) != 1).then(|| MemoryPartitions {
            mode: self.mode(),
            start: gpu.placement.offset(),
            vram: gpu.vram.len(),
        })
    }

    /// Requests a mode. Returns false if the card does not have it.
    pub fn request(&self, gpu: &Gpu, mode: u32) -> bool {
        if !(1..=32).contains(&mode) || modes(gpu.chip) & 1 << (mode - 1) == 0 {
            return false;
        }
        let mut state = self.lock();
        state.requested = Some(mode).filter(|mode| *mode != state.mode);
        publish(gpu, &state);
        true
    }

    /// Sets the state after a reset of the card, whose registers are at their power-on values.
    pub fn reset(&self, gpu: &Gpu, kind: Reset) {
        if gpu.chip.generation != Generation::Gfx9 {
            return;
        }
        let mut state = self.lock();
        match kind {
            Reset::PowerOn => {
                *state = State {
                    mode: 1,
                    requested: None,
                }
            }
            Reset::Mode1 => {
                if let Some(mode) = state.requested.take() {
                    event!(gpu.trace, "memory", "mode", "nps={mode}");
                    state.mode = mode;
                }
            }
            Reset::Flr => {}
        }
        publish(gpu, &state);
    }

    /// Reports a scheduler that is set up in a compute partition mode that the memory partition
    /// mode excludes.
    pub fn check(&self, gpu: &Gpu) {
        let count = (gpu.xccs.len() / gpu.partition_size()) as u32;
        let mode = self.mode();
        if !serves(mode, count) {
            strict!(
                gpu.strict,
                "memory",
                "an HIQ with {count} compute partitions in mode NPS{mode}"
            );
        }
    }
}

fn publish(gpu: &Gpu, state: &State) {
    let pending = state.requested.map_or(0, |_| REQUESTED);
    let status = nbio::BIF_BX_PF0_PARTITION_MEM_STATUS__NPS_MODE.put(1 << (state.mode - 1))
        | nbio::BIF_BX_PF0_PARTITION_MEM_STATUS__CHANGE_STATUE.put(pending);
    put(gpu, nbio::regBIF_BX_PF0_PARTITION_MEM_STATUS, status);
    put(gpu, nbio::regBIF_BX_PF0_PARTITION_MEM_CAP, modes(gpu.chip));
}

fn put(gpu: &Gpu, reg: Reg, value: u32) {
    if let Some(slot) = gpu.regs.by_id(gpu.chip, Ip::Nbif, reg) {
        Slot::set(slot, value);
    }
}
