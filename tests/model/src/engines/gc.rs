// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The graphics core around the command processor: register banks, per-VMID shader memory
//! configuration, CU straps, RLC.

use std::sync::Mutex;

use rkfd_abi::regs::gc_9_4_3 as gc;

use crate::chips::GcInfo;
use crate::gpu::Gpu;
use crate::regs::{RegId, Selector, Slot};
use crate::strict;

/// Registers with one copy per VMID.
const PER_VMID: [u32; 7] = [
    gc::regSH_MEM_BASES.off,
    gc::regSH_MEM_CONFIG.off,
    gc::regSQ_SHADER_TBA_LO.off,
    gc::regSQ_SHADER_TBA_HI.off,
    gc::regSQ_SHADER_TMA_LO.off,
    gc::regSQ_SHADER_TMA_HI.off,
    gc::regSPI_GDBG_PER_VMID_CNTL.off,
];

const CC_ARRAY: RegId = RegId::new(
    gc::regCC_GC_SHADER_ARRAY_CONFIG.seg,
    gc::regCC_GC_SHADER_ARRAY_CONFIG.off,
);
const USER_ARRAY: RegId = RegId::new(
    gc::regGC_USER_SHADER_ARRAY_CONFIG.seg,
    gc::regGC_USER_SHADER_ARRAY_CONFIG.off,
);
const SAFE_MODE: RegId = RegId::new(gc::regRLC_SAFE_MODE.seg, gc::regRLC_SAFE_MODE.off);
const CAPTURE: RegId = RegId::new(
    gc::regRLC_CAPTURE_GPU_CLOCK_COUNT.seg,
    gc::regRLC_CAPTURE_GPU_CLOCK_COUNT.off,
);
const CLOCK_LSB: RegId = RegId::new(
    gc::regRLC_GPU_CLOCK_COUNT_LSB.seg,
    gc::regRLC_GPU_CLOCK_COUNT_LSB.off,
);
const CLOCK_MSB: RegId = RegId::new(
    gc::regRLC_GPU_CLOCK_COUNT_MSB.seg,
    gc::regRLC_GPU_CLOCK_COUNT_MSB.off,
);
const GFX_CNTL: RegId = RegId::new(gc::regGRBM_GFX_CNTL.seg, gc::regGRBM_GFX_CNTL.off);
const GFX_INDEX: RegId = RegId::new(gc::regGRBM_GFX_INDEX.seg, gc::regGRBM_GFX_INDEX.off);

/// Whether this engine handles `reg`.
pub fn handles(reg: RegId) -> bool {
    (reg.seg == 0 && PER_VMID.contains(&reg.off))
        || [
            CC_ARRAY, USER_ARRAY, SAFE_MODE, CAPTURE, CLOCK_LSB, CLOCK_MSB, GFX_CNTL, GFX_INDEX,
        ]
        .contains(&reg)
}

struct State {
    per_vmid: [[u32; PER_VMID.len()]; 16],
    /// Fused-off CUs and those that the driver switched off, by array.
    cc_array: Vec<u32>,
    user_array: Vec<u32>,
    gfx_cntl: u32,
    gfx_index: u32,
    clock: u64,
}

/// See the module.
pub struct Gc {
    info: GcInfo,
    state: Mutex<State>,
}

impl Gc {
    /// Power-on state of a core with that layout.
    pub fn new(info: GcInfo) -> Self {
        Self {
            info,
            state: Mutex::new(Self::power_on(&info)),
        }
    }

    fn power_on(info: &GcInfo) -> State {
        let inactive = gc::CC_GC_SHADER_ARRAY_CONFIG__INACTIVE_CUS;
        State {
            per_vmid: [[0; PER_VMID.len()]; 16],
            cc_array: info.inactive_cus.iter().map(|m| inactive.put(*m)).collect(),
            user_array: vec![0; info.inactive_cus.len()],
            gfx_cntl: 0,
            gfx_index: 0xe000_0000,
            clock: 0,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Power-on state.
    pub fn reset(&self) {
        *self.lock() = Self::power_on(&self.info);
    }

    /// The bank that `GRBM_GFX_CNTL` selects.
    pub fn selector(&self) -> Selector {
        let value = self.lock().gfx_cntl;
        Selector {
            me: gc::GRBM_GFX_CNTL__MEID.get(value) as u8,
            pipe: gc::GRBM_GFX_CNTL__PIPEID.get(value) as u8,
            queue: gc::GRBM_GFX_CNTL__QUEUEID.get(value) as u8,
            vmid: gc::GRBM_GFX_CNTL__VMID.get(value) as u8,
        }
    }

    /// A per-VMID register (`SH_MEM_*`, `SQ_SHADER_TBA/TMA_*`, `SPI_GDBG_PER_VMID_CNTL`) of
    /// `vmid`, for the command processor and the shaders.
    pub fn vmid_reg(&self, vmid: u8, reg: impl Into<RegId>) -> u32 {
        let reg = reg.into();
        match Self::bank(reg) {
            Some(index) => self.lock().per_vmid[usize::from(vmid & 15)][index],
            None => 0,
        }
    }

    /// Sets a per-VMID register, as scheduler firmware does for MAP_PROCESS.
    pub fn set_vmid_reg(&self, vmid: u8, reg: impl Into<RegId>, value: u32) {
        if let Some(index) = Self::bank(reg.into()) {
            self.lock().per_vmid[usize::from(vmid & 15)][index] = value;
        }
    }

    fn bank(reg: RegId) -> Option<usize> {
        PER_VMID
            .iter()
            .position(|off| reg.seg == 0 && *off == reg.off)
    }

    /// The arrays that an access with `GRBM_GFX_INDEX` = `index` means.
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

    /// A register was read.
    pub fn reg_read(&self, gpu: &Gpu, slot: &Slot) -> u32 {
        let vmid = self.selector().vmid;
        let state = self.lock();
        match slot.id {
            GFX_CNTL => state.gfx_cntl,
            GFX_INDEX => state.gfx_index,
            CLOCK_LSB => state.clock as u32,
            CLOCK_MSB => (state.clock >> 32) as u32,
            CC_ARRAY | USER_ARRAY => match self.arrays(state.gfx_index) {
                Ok(arrays) => {
                    let values = match slot.id {
                        CC_ARRAY => &state.cc_array,
                        _ => &state.user_array,
                    };
                    // A broadcast read answers from the first instance.
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
            id => match Self::bank(id) {
                Some(index) => state.per_vmid[usize::from(vmid)][index],
                None => slot.get(),
            },
        }
    }

    /// A register was written.
    pub fn reg_write(&self, gpu: &Gpu, slot: &Slot, value: u32) {
        let vmid = self.selector().vmid;
        let mut state = self.lock();
        match slot.id {
            GFX_CNTL => state.gfx_cntl = value,
            GFX_INDEX => state.gfx_index = value,
            // The request is carried out at once: the command bit reads 0, the rest stays.
            SAFE_MODE => slot.set(value & !gc::RLC_SAFE_MODE__CMD.mask),
            CAPTURE => {
                if gc::RLC_CAPTURE_GPU_CLOCK_COUNT__CAPTURE.is_set(value) {
                    state.clock = gpu.clock();
                }
            }
            CLOCK_LSB | CLOCK_MSB => {
                strict!(gpu.strict, "gc", "write of {value:#x} to {}", slot.name);
            }
            CC_ARRAY => {
                strict!(
                    gpu.strict,
                    "gc",
                    "write of {value:#x} to the fuse copy {}",
                    slot.name
                );
            }
            USER_ARRAY => match self.arrays(state.gfx_index) {
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
            id => match Self::bank(id) {
                Some(index) => state.per_vmid[usize::from(vmid)][index] = value,
                None => slot.set(value),
            },
        }
    }
}
