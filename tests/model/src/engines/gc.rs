// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The graphics core around the command processor: GRBM selection, per-VMID SH_MEM configuration,
//! CU harvesting, RLC.

use std::sync::Mutex;

use gpu_regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc, smuio_14_0_2 as smuio, Field, Reg};

use crate::chips::{Chip, GcInfo, Generation};
use crate::engines::firmware::Port;
use crate::gpu::Gpu;
use crate::regs::{Ip, RegId, Selector, Slot};
use crate::strict;

/// Number of registers with one copy per VMID.
const BANKED: usize = 19;
/// Of these, the addresses of watchpoints: a write sets all copies.
const WATCH_ADDRESSES: std::ops::Range<usize> = 7..15;

/// Register positions and bits that differ between generations.
struct Ids {
    per_vmid: [RegId; BANKED],
    gfx_cntl: RegId,
    gfx_index: RegId,
    cc_array: RegId,
    user_array: RegId,
    safe_mode: Reg,
    capture: RegId,
    clock_lsb: RegId,
    clock_msb: RegId,
    inactive: Field,
    /// `GRBM_SOFT_RESET`; gfx12 only.
    soft_reset: Option<RegId>,
    /// Microcode ports of XCC 0, address and data; gfx9 only.
    ports: &'static [(RegId, RegId, Port)],
    rlc_cntl: Reg,
}

const fn id(reg: Reg) -> RegId {
    RegId::new(reg.seg, reg.off)
}

macro_rules! ids {
    ($gc:ident, $inactive:ident, $soft_reset:expr, $ports:expr) => {
        Ids {
            per_vmid: [
                id($gc::regSH_MEM_BASES),
                id($gc::regSH_MEM_CONFIG),
                id($gc::regSQ_SHADER_TBA_LO),
                id($gc::regSQ_SHADER_TBA_HI),
                id($gc::regSQ_SHADER_TMA_LO),
                id($gc::regSQ_SHADER_TMA_HI),
                id($gc::regSPI_GDBG_PER_VMID_CNTL),
                id($gc::regTCP_WATCH0_ADDR_L),
                id($gc::regTCP_WATCH0_ADDR_H),
                id($gc::regTCP_WATCH1_ADDR_L),
                id($gc::regTCP_WATCH1_ADDR_H),
                id($gc::regTCP_WATCH2_ADDR_L),
                id($gc::regTCP_WATCH2_ADDR_H),
                id($gc::regTCP_WATCH3_ADDR_L),
                id($gc::regTCP_WATCH3_ADDR_H),
                id($gc::regTCP_WATCH0_CNTL),
                id($gc::regTCP_WATCH1_CNTL),
                id($gc::regTCP_WATCH2_CNTL),
                id($gc::regTCP_WATCH3_CNTL),
            ],
            gfx_cntl: id($gc::regGRBM_GFX_CNTL),
            gfx_index: id($gc::regGRBM_GFX_INDEX),
            cc_array: id($gc::regCC_GC_SHADER_ARRAY_CONFIG),
            user_array: id($gc::regGC_USER_SHADER_ARRAY_CONFIG),
            safe_mode: $gc::regRLC_SAFE_MODE,
            capture: id($gc::regRLC_CAPTURE_GPU_CLOCK_COUNT),
            clock_lsb: id($gc::regRLC_GPU_CLOCK_COUNT_LSB),
            clock_msb: id($gc::regRLC_GPU_CLOCK_COUNT_MSB),
            inactive: $gc::$inactive,
            soft_reset: $soft_reset,
            ports: $ports,
            rlc_cntl: $gc::regRLC_CNTL,
        }
    };
}

static GFX9: Ids = ids!(
    gc,
    CC_GC_SHADER_ARRAY_CONFIG__INACTIVE_CUS,
    None,
    &[
        (
            id(gc::regRLC_GPM_UCODE_ADDR),
            id(gc::regRLC_GPM_UCODE_DATA),
            Port::Rlc(0)
        ),
        (
            id(gc::regCP_MEC_ME1_UCODE_ADDR),
            id(gc::regCP_MEC_ME1_UCODE_DATA),
            Port::Mec1(0)
        ),
    ]
);
static GFX12: Ids = ids!(
    gc12,
    CC_GC_SHADER_ARRAY_CONFIG__INACTIVE_WGPS,
    Some(id(gc12::regGRBM_SOFT_RESET)),
    &[]
);

/// The reference clock of gfx12, in SMUIO.
const TSC_LOWER: RegId = id(smuio::regGOLDEN_TSC_COUNT_LOWER);
const TSC_UPPER: RegId = id(smuio::regGOLDEN_TSC_COUNT_UPPER);

impl Ids {
    fn of(generation: Generation) -> &'static Self {
        match generation {
            Generation::Gfx9 => &GFX9,
            Generation::Gfx12 => &GFX12,
        }
    }

    fn role(&self, ip: Ip, reg: RegId) -> Option<Role> {
        if ip == Ip::Smuio {
            return match reg {
                TSC_LOWER => Some(Role::TscLower),
                TSC_UPPER => Some(Role::TscUpper),
                _ => None,
            };
        }
        let single = [
            (self.gfx_cntl, Role::GfxCntl),
            (self.gfx_index, Role::GfxIndex),
            (self.cc_array, Role::CcArray),
            (self.user_array, Role::UserArray),
            (self.safe_mode.into(), Role::SafeMode),
            (self.capture, Role::Capture),
            (self.clock_lsb, Role::ClockLsb),
            (self.clock_msb, Role::ClockMsb),
        ];
        if Some(reg) == self.soft_reset {
            return Some(Role::SoftReset);
        }
        for (address, data, port) in self.ports {
            if reg == *address {
                return Some(Role::PortAddress(*port));
            }
            if reg == *data {
                return Some(Role::PortData(*port));
            }
        }
        let banked = self.per_vmid.iter().position(|id| *id == reg);
        let found = single.iter().find(|(id, _)| *id == reg);
        banked.map(Role::PerVmid).or(found.map(|(_, role)| *role))
    }
}

/// Kind of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Index into the bank of a VMID.
    PerVmid(usize),
    GfxCntl,
    GfxIndex,
    CcArray,
    UserArray,
    SafeMode,
    Capture,
    ClockLsb,
    ClockMsb,
    TscLower,
    TscUpper,
    SoftReset,
    PortAddress(Port),
    PortData(Port),
}

/// Returns whether this engine handles `reg` of block `ip`.
pub fn handles(generation: Generation, ip: Ip, reg: RegId) -> bool {
    let smuio = ip == Ip::Smuio && generation == Generation::Gfx12;
    (smuio || ip == Ip::Gc) && Ids::of(generation).role(ip, reg).is_some()
}

struct State {
    per_vmid: [[u32; BANKED]; 16],
    /// Fused-off CUs and those that the driver disabled, by shader array.
    cc_array: Vec<u32>,
    user_array: Vec<u32>,
    gfx_cntl: u32,
    gfx_index: u32,
    clock: u64,
}

/// State of the graphics core of an XCC.
pub struct Gc {
    xcc: u8,
    ids: &'static Ids,
    info: GcInfo,
    state: Mutex<State>,
}

/// Returns the register in which the RLC of gfx12 reports that it has given all firmware to the
/// engines.
pub fn bootload_status(gpu: &Gpu) -> Option<&Slot> {
    let reg = gc12::regRLC_RLCS_BOOTLOAD_STATUS;
    gpu.regs.by_id(gpu.chip, Ip::Gc, reg)
}

/// Returns whether the RLC of an XCC has entered safe mode and has not left it.
pub fn in_safe_mode(gpu: &Gpu, xcc: u8) -> bool {
    let reg = Ids::of(gpu.chip.generation).safe_mode;
    let slot = gpu.regs.of(gpu.chip, Ip::Gc, xcc, reg);
    slot.is_some_and(|slot| {
        let entered = gc::RLC_SAFE_MODE__MESSAGE.get(slot.get()) != 0;
        entered && !gpu.awaits_response(slot)
    })
}

impl Gc {
    /// Returns the power-on state of `xcc`.
    pub fn new(xcc: u8, chip: &Chip) -> Self {
        let ids = Ids::of(chip.generation);
        Self {
            xcc,
            ids,
            info: chip.gc,
            state: Mutex::new(Self::power_on(ids, chip.gc.inactive(xcc))),
        }
    }

    fn power_on(ids: &Ids, inactive: &[u32]) -> State {
        State {
            per_vmid: [[0; BANKED]; 16],
            cc_array: inactive.iter().map(|m| ids.inactive.put(*m)).collect(),
            user_array: vec![0; inactive.len()],
            gfx_cntl: 0,
            gfx_index: 0xe000_0000,
            clock: 0,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Resets to power-on state.
    pub fn reset(&self) {
        *self.lock() = Self::power_on(self.ids, self.info.inactive(self.xcc));
    }

    /// Disables the RLC.
    pub fn stop_rlc(&self, gpu: &Gpu) {
        if let Some(slot) = gpu.regs.of(gpu.chip, Ip::Gc, self.xcc, self.ids.rlc_cntl) {
            slot.set(slot.get() & !gc::RLC_CNTL__RLC_ENABLE_F32.mask);
        }
    }

    /// Returns whether the RLC is enabled, and that of gfx12 has given all firmware to the engines.
    pub fn rlc_enabled(&self, gpu: &Gpu) -> bool {
        let slot = gpu.regs.of(gpu.chip, Ip::Gc, self.xcc, self.ids.rlc_cntl);
        let enabled = slot.is_some_and(|slot| gc::RLC_CNTL__RLC_ENABLE_F32.is_set(slot.get()));
        let complete = |slot: &Slot| {
            !gpu.awaits_response(slot)
                && gc12::RLC_RLCS_BOOTLOAD_STATUS__BOOTLOAD_COMPLETE.is_set(slot.get())
        };
        let is_gfx12 = gpu.chip.generation == Generation::Gfx12;
        enabled && (!is_gfx12 || bootload_status(gpu).is_some_and(complete))
    }

    /// Returns the bank that `GRBM_GFX_CNTL` selects.
    pub fn selector(&self) -> Selector {
        let value = self.lock().gfx_cntl;
        Selector {
            me: gc::GRBM_GFX_CNTL__MEID.get(value) as u8,
            pipe: gc::GRBM_GFX_CNTL__PIPEID.get(value) as u8,
            queue: gc::GRBM_GFX_CNTL__QUEUEID.get(value) as u8,
            vmid: gc::GRBM_GFX_CNTL__VMID.get(value) as u8,
        }
    }

    /// Returns the shader engine that `GRBM_GFX_INDEX` selects; `None`: all.
    pub fn selected_engine(&self) -> Option<u32> {
        let index = self.lock().gfx_index;
        let all = gc::GRBM_GFX_INDEX__SE_BROADCAST_WRITES.is_set(index);
        (!all).then(|| gc::GRBM_GFX_INDEX__SE_INDEX.get(index))
    }

    /// Returns a per-VMID register (`SH_MEM_*`, `SQ_SHADER_TBA/TMA_*`, `SPI_GDBG_PER_VMID_CNTL`) of
    /// `vmid`, for the command processor and the shaders. The constant of either generation names
    /// it.
    pub fn vmid_reg(&self, vmid: u8, reg: impl Into<RegId>) -> u32 {
        match Self::bank(reg.into()) {
            Some(index) => self.lock().per_vmid[usize::from(vmid & 15)][index],
            None => 0,
        }
    }

    /// Sets a per-VMID register, as scheduler firmware does when it assigns a VMID to a process.
    pub fn set_vmid_reg(&self, vmid: u8, reg: impl Into<RegId>, value: u32) {
        if let Some(index) = Self::bank(reg.into()) {
            self.lock().per_vmid[usize::from(vmid & 15)][index] = value;
        }
    }

    fn bank(reg: RegId) -> Option<usize> {
        let tables = [&GFX9, &GFX12];
        tables
            .iter()
            .find_map(|ids| ids.per_vmid.iter().position(|id| *id == reg))
    }

    /// Returns the shader arrays selected by `GRBM_GFX_INDEX` = `index`.
    fn arrays(&self, index: u32) -> Result<Vec<usize>, u32> {
        let se_all = gc::GRBM_GFX_INDEX__SE_BROADCAST_WRITES.is_set(index);
        let sh_all = gc::GRBM_GFX_INDEX__SH_BROADCAST_WRITES.is_set(index);
        let se = gc::GRBM_GFX_INDEX__SE_INDEX.get(index);
        let sh = gc::GRBM_GFX_INDEX__SH_INDEX.get(index);
        if (!se_all && se >= self.info.num_se) || (!sh_all && sh >= self.info.sh_per_se) {
            return Err(index);
        }
        let mut arrays = Vec::new();
        for i in 0..self.info.num_se {
            for j in 0..self.info.sh_per_se {
                if (se_all || i == se) && (sh_all || j == sh) {
                    arrays.push((i * self.info.sh_per_se + j) as usize);
                }
            }
        }
        Ok(arrays)
    }

    /// Handles a register read.
    pub fn reg_read(&self, gpu: &Gpu, slot: &Slot) -> u32 {
        let vmid = self.selector().vmid;
        let state = self.lock();
        let Some(role) = self.ids.role(slot.ip, slot.id) else {
            return slot.get();
        };
        match role {
            Role::PerVmid(index) => state.per_vmid[usize::from(vmid)][index],
            Role::GfxCntl => state.gfx_cntl,
            Role::GfxIndex => state.gfx_index,
            Role::ClockLsb => state.clock as u32,
            Role::ClockMsb => (state.clock >> 32) as u32,
            Role::TscLower => gpu.clock() as u32,
            Role::TscUpper => (gpu.clock() >> 32) as u32,
            Role::CcArray | Role::UserArray => match self.arrays(state.gfx_index) {
                Ok(arrays) => {
                    let values = match role {
                        Role::CcArray => &state.cc_array,
                        _ => &state.user_array,
                    };
                    // A broadcast read returns the first instance.
                    arrays.first().map_or(0, |a| values[*a])
                }
                Err(index) => {
                    strict!(
                        gpu.strict,
                        "gc",
                        "{} read with GRBM_GFX_INDEX {index:#x}: no such array",
                        slot.name
                    );
                    0
                }
            },
            Role::PortData(_) => {
                strict!(
                    gpu.strict,
                    "gc",
                    "read of {}: the port is write-only",
                    slot.name
                );
                0
            }
            Role::SafeMode | Role::Capture | Role::SoftReset | Role::PortAddress(_) => slot.get(),
        }
    }

    /// Handles a register write.
    pub fn reg_write(&self, gpu: &Gpu, slot: &Slot, value: u32) {
        let vmid = self.selector().vmid;
        let mut state = self.lock();
        let Some(role) = self.ids.role(slot.ip, slot.id) else {
            slot.set(value);
            return;
        };
        let instances = [
            gc::GRBM_GFX_INDEX__SE_BROADCAST_WRITES,
            gc::GRBM_GFX_INDEX__SH_BROADCAST_WRITES,
            gc::GRBM_GFX_INDEX__INSTANCE_BROADCAST_WRITES,
        ];
        let index = state.gfx_index;
        if matches!(role, Role::PerVmid(_)) && instances.iter().any(|all| !all.is_set(index)) {
            strict!(
                gpu.strict,
                "gc",
                "{} = {value:#x} with GRBM_GFX_INDEX {index:#x}: some instances keep their value",
                slot.name
            );
        }
        match role {
            Role::PerVmid(index) if WATCH_ADDRESSES.contains(&index) => {
                state
                    .per_vmid
                    .iter_mut()
                    .for_each(|bank| bank[index] = value);
            }
            Role::PerVmid(index) => state.per_vmid[usize::from(vmid)][index] = value,
            Role::GfxCntl => state.gfx_cntl = value,
            Role::GfxIndex => state.gfx_index = value,
            Role::SafeMode => {
                drop(state);
                let before = slot.get();
                if gpu.awaits_response(slot) && gc::RLC_SAFE_MODE__MESSAGE.get(before) != 0 {
                    strict!(
                        gpu.strict,
                        "gc",
                        "{} = {value:#x} before the RLC has responded to {before:#x}",
                        slot.name
                    );
                }
                let enters = gc::RLC_SAFE_MODE__MESSAGE.get(value) != 0;
                if enters && gpu.knobs.rlc_silent.take() {
                    slot.set(value);
                    return;
                }
                if gpu.rlc_runs(self.xcc) {
                    // Completed when the command bit reads 0; the rest is kept.
                    slot.set(value);
                    gpu.respond_slowly(slot, value & !gc::RLC_SAFE_MODE__CMD.mask);
                    return;
                }
                slot.set(value);
                strict!(
                    gpu.strict,
                    "gc",
                    "{} = {value:#x}: the RLC does not run and does not respond",
                    slot.name
                );
            }
            Role::PortAddress(port) => {
                drop(state);
                slot.set(value);
                gpu.firmware.port_address(gpu, port.on(self.xcc));
            }
            Role::PortData(port) => {
                drop(state);
                gpu.firmware.port_data(gpu, port.on(self.xcc));
            }
            Role::SoftReset => {
                let engines = [
                    gc12::GRBM_SOFT_RESET__SOFT_RESET_SDMA0,
                    gc12::GRBM_SOFT_RESET__SOFT_RESET_SDMA1,
                ];
                let rising = value & !slot.get();
                let chosen = |n: usize| u32::from(engines[n].is_set(rising)) << n;
                slot.set(value);
                drop(state);
                let mask = chosen(0) | chosen(1);
                if mask != 0 {
                    gpu.sdma.soft_reset(gpu, mask);
                }
            }
            Role::Capture => {
                if gc::RLC_CAPTURE_GPU_CLOCK_COUNT__CAPTURE.is_set(value) {
                    state.clock = gpu.clock();
                }
            }
            Role::ClockLsb | Role::ClockMsb | Role::TscLower | Role::TscUpper => {
                strict!(gpu.strict, "gc", "write of {value:#x} to {}", slot.name);
            }
            Role::CcArray => {
                strict!(
                    gpu.strict,
                    "gc",
                    "write of {value:#x} to the fuse copy {}",
                    slot.name
                );
            }
            Role::UserArray => match self.arrays(state.gfx_index) {
                Ok(arrays) => {
                    for array in arrays {
                        state.user_array[array] = value & slot.mask;
                    }
                }
                Err(index) => strict!(
                    gpu.strict,
                    "gc",
                    "{} written with GRBM_GFX_INDEX {index:#x}: no such array",
                    slot.name
                ),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks fields that are read with one generation's constants for both.
    #[test]
    fn selection_matches_on_both_generations() {
        for (ours, theirs) in [
            (gc::GRBM_GFX_CNTL__MEID, gc12::GRBM_GFX_CNTL__MEID),
            (gc::GRBM_GFX_CNTL__PIPEID, gc12::GRBM_GFX_CNTL__PIPEID),
            (gc::GRBM_GFX_CNTL__QUEUEID, gc12::GRBM_GFX_CNTL__QUEUEID),
            (gc::GRBM_GFX_CNTL__VMID, gc12::GRBM_GFX_CNTL__VMID),
            (
                gc::GRBM_GFX_INDEX__SE_BROADCAST_WRITES,
                gc12::GRBM_GFX_INDEX__SE_BROADCAST_WRITES,
            ),
            (
                gc::GRBM_GFX_INDEX__SH_BROADCAST_WRITES,
                gc12::GRBM_GFX_INDEX__SA_BROADCAST_WRITES,
            ),
            (gc::RLC_SAFE_MODE__CMD, gc12::RLC_SAFE_MODE__CMD),
            (gc::RLC_CNTL__RLC_ENABLE_F32, gc12::RLC_CNTL__RLC_ENABLE_F32),
            (
                gc::RLC_CAPTURE_GPU_CLOCK_COUNT__CAPTURE,
                gc12::RLC_CAPTURE_GPU_CLOCK_COUNT__CAPTURE,
            ),
        ] {
            assert_eq!(ours, theirs);
        }
        // gfx12 has fewer bits of these.
        for (ours, theirs) in [
            (gc::GRBM_GFX_INDEX__SH_INDEX, gc12::GRBM_GFX_INDEX__SA_INDEX),
            (gc::GRBM_GFX_INDEX__SE_INDEX, gc12::GRBM_GFX_INDEX__SE_INDEX),
        ] {
            assert_eq!(ours.shift, theirs.shift);
        }
    }
}
