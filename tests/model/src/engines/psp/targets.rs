// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Types of LOAD_IP_FW: the engine of each, and the kind of its container in the firmware files of
//! the chip.

use rkfd_abi::psp::fw_type as ty;

use crate::chips::Generation;
use crate::engines::firmware::Fw;
use crate::engines::sdma::layout::PER_AID;
use crate::gpu::Gpu;

/// Target of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The engine; `None` for types without a modelled engine.
    pub piece: Option<Fw>,
    /// Kinds of containers.
    pub kinds: &'static [u16],
    /// Initial contents of data memory, of which the container is the start.
    pub data: bool,
}

const fn to(piece: Fw, kinds: &'static [u16]) -> Target {
    Target {
        piece: Some(piece),
        kinds,
        data: false,
    }
}

const fn kept(kinds: &'static [u16]) -> Target {
    Target {
        piece: None,
        kinds,
        data: false,
    }
}

const fn data(piece: Fw, kinds: &'static [u16]) -> Target {
    Target {
        piece: Some(piece),
        kinds,
        data: true,
    }
}

/// Types that the RLC of gfx12 needs to start the graphics core: those that `psp_load_non_psp_fw`
/// has loaded when it sends AUTOLOAD_RLC, RLC_G being the last.
pub const AUTOLOADED: &[u32] = &[
    ty::SMU,
    ty::SDMA_UCODE_TH0,
    ty::RS64_PFP,
    ty::RS64_ME,
    ty::RS64_MEC,
    ty::RS64_PFP_P0_STACK,
    ty::RS64_ME_P0_STACK,
    ty::RS64_MEC_P0_STACK,
    ty::RS64_MEC_P1_STACK,
    ty::CP_MES,
    ty::MES_STACK,
    ty::CP_MES_KIQ,
    ty::MES_KIQ_STACK,
    ty::IMU_I,
    ty::IMU_D,
    ty::RLC_RESTORE_LIST_GPM_MEM,
    ty::RLC_RESTORE_LIST_SRM_MEM,
    ty::RLC_IRAM,
    ty::RLC_DRAM_BOOT,
    ty::RLC_G,
];

/// Returns the target of type `fw`.
pub fn of(gpu: &Gpu, fw: u32) -> Option<Target> {
    match gpu.chip.generation {
        Generation::Gfx9 => gfx9(gpu, fw),
        Generation::Gfx12 => gfx12(fw),
    }
}

fn gfx9(gpu: &Gpu, fw: u32) -> Option<Target> {
    // The engines of further AIDs have no images of their own.
    let own = gpu.sdma.count().min(PER_AID.into()) as u32;
    let sdma = |n: u32| (n < own).then_some(to(Fw::Sdma(n as u8), &[0x2025]));
    match fw {
        ty::CP_MEC => Some(to(Fw::Mec1(0), &[0x2004])),
        ty::CP_MEC_ME1 => Some(to(Fw::Mec1Jt(0), &[0x2005])),
        ty::RLC_G => Some(to(Fw::Rlc(0), &[0x2009])),
        ty::SDMA0 | ty::SDMA1 => sdma(fw - ty::SDMA0),
        ty::SDMA2..=ty::SDMA7 => sdma(fw - ty::SDMA2 + 2),
        ty::RLC_RESTORE_LIST_GPM_MEM => Some(kept(&[0x200b])),
        ty::RLC_RESTORE_LIST_SRM_MEM => Some(kept(&[0x200c])),
        ty::RLC_RESTORE_LIST_SRM_CNTL => Some(kept(&[0x200d])),
        ty::REG_LIST => Some(kept(&[0x135])),
        ty::P2S_TABLE => Some(kept(&[0x1d2])),
        _ => None,
    }
}

/// The types of GC 12.0.1 (`amdgpu_psp_get_fw_type`, `gfx_v12_0_init_microcode`). The MEC has one
/// data memory for each pipe; the second stands for the jump table of gfx9, without which it does
/// not start either. `uni_mes` has one image for both pipes of MES.
fn gfx12(fw: u32) -> Option<Target> {
    Some(match fw {
        ty::SMU => kept(&[0x1001]),
        ty::IMU_I => kept(&[0x203b]),
        ty::IMU_D => kept(&[0x203c]),
        ty::RS64_PFP => to(Fw::Pfp, &[0x2044]),
        ty::RS64_ME => to(Fw::Me, &[0x2046]),
        ty::RS64_MEC => to(Fw::Mec1(0), &[0x2048]),
        ty::RS64_PFP_P0_STACK => data(Fw::Pfp, &[0x2045]),
        ty::RS64_ME_P0_STACK => data(Fw::Me, &[0x2047]),
        ty::RS64_MEC_P0_STACK => data(Fw::Mec1(0), &[0x2049]),
        ty::RS64_MEC_P1_STACK => data(Fw::Mec1Jt(0), &[0x2049]),
        ty::CP_MES => to(Fw::Mes(0), &[0x2007]),
        ty::MES_STACK => data(Fw::MesData(0), &[0x2008]),
        ty::CP_MES_KIQ => to(Fw::Mes(1), &[0x2007, 0x2042]),
        ty::MES_KIQ_STACK => data(Fw::MesData(1), &[0x2008, 0x2043]),
        ty::RLC_RESTORE_LIST_GPM_MEM => kept(&[0x200b]),
        ty::RLC_RESTORE_LIST_SRM_MEM => kept(&[0x200c]),
        ty::RLC_IRAM => kept(&[0x2016]),
        ty::RLC_DRAM_BOOT => kept(&[0x2017]),
        ty::RLC_G => to(Fw::Rlc(0), &[0x2009]),
        ty::SDMA_UCODE_TH0 => to(Fw::Sdma(0), &[0x2025]),
        ty::REG_LIST => kept(&[0x135]),
        _ => return None,
    })
}
