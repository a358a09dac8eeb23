// SPDX-License-Identifier: GPL-2.0

//! Graphics core of GC 9.4.3: VMID defaults, MECs, clock counter.

use kernel::{prelude::*, time::delay::fsleep, time::Delta};
use rkfd_abi::{
    bits::join,
    regs::{gc_9_4_3 as gc, name, Field, Reg, Untyped, Value},
};

pub(super) use crate::hw::gfx::block;
use crate::{
    asic::{
        caps::Caps,
        config::Config,
        mmio::{Block, Mmio},
        xcc::Xcc,
    },
    hw::gfx::{gfx_names, halt, start_interrupts, start_vmids, ArrayFields, GfxNames, GfxVersion},
};

/// The graphics core of GC 9.4.3.
pub(super) struct Gfx;

/// SH_MEM_ALIGNMENT_MODE_UNALIGNED (`DEFAULT_SH_MEM_CONFIG`, `soc15.h` and `gfx_v12_0.c`).
const ALIGNMENT_UNALIGNED: u32 = 3;
/// Address layout of tiled memory, reported to user space (`GOLDEN_GB_ADDR_CONFIG`,
/// `gfx_v9_4_3.c`).
const GOLDEN_GB_ADDR_CONFIG: u32 = 0x2a11_4042;

fn sh_mem_config_base() -> Value<name::SH_MEM_CONFIG> {
    gc::SH_MEM_CONFIG__ALIGNMENT_MODE.put(ALIGNMENT_UNALIGNED)
}

/// Time that the RLC takes to start (`gfx_v9_4_3_xcc_rlc_start`).
const RLC_START: Delta = Delta::from_micros(50);

/// TCP_UTCL1_CNTL2.SPARE (`gfx_v9_4_3_init_golden_registers`).
const GOLDEN_TCP_SPARE: u32 = 1;

/// First MEC firmware that supports XNACK per process in a chained runlist
/// (`gfx_v9_4_3_constants_init`).
const CHAINING_MEC_FW: u32 = 184;

/// Returns whether processes with and without XNACK can share a chained runlist.
pub(super) fn chains_xnack(config: &Config) -> bool {
    config.mec_fw >= CHAINING_MEC_FW
}

/// Unhalts the MECs after [`GfxVersion::start`], when the KIQ is loaded.
pub(super) fn release(mmio: &Mmio, xcc: Xcc) -> Result {
    let b = mmio.xcc(xcc)?;
    b.wr(gc::regCP_MEC_CNTL, 0)?;
    fsleep(Delta::from_micros(50));
    start_interrupts::<Gfx>(mmio, b)?;
    report_idle(b, true)
}

/// Enables or disables GUI idle interrupts (`gfx_v9_4_3_xcc_enable_gui_idle_interrupt`).
fn report_idle(b: Block<'_>, on: bool) -> Result {
    use gc::*;
    let fields = [
        CP_INT_CNTL_RING0__CNTX_BUSY_INT_ENABLE,
        CP_INT_CNTL_RING0__CNTX_EMPTY_INT_ENABLE,
        CP_INT_CNTL_RING0__CMP_BUSY_INT_ENABLE,
    ]
    .map(|field| (field, u32::from(on)));
    b.set(regCP_INT_CNTL_RING0, &fields)
}

/// Disables relaunch and dispatch by harvested CUs, for an XCC whose shader engines have the same
/// number of CUs (`gfx_v9_4_3_get_cu_info`).
fn disable_harvesting(b: Block<'_>) -> Result {
    use gc::*;
    let fields = [
        CP_CPC_DEBUG__CPC_HARVESTING_RELAUNCH_DISABLE,
        CP_CPC_DEBUG__CPC_HARVESTING_DISPATCH_DISABLE,
    ];
    b.set(regCP_CPC_DEBUG, &fields.map(|field| (field, 1)))
}

impl GfxVersion for Gfx {
    const NAMES: &'static GfxNames = &gfx_names!(gc);
    const CAPS: &'static Caps = &super::caps::CAPS;
    // `soc15_allowed_read_registers`, `soc15.c`, and `soc24_allowed_read_registers`, `soc24.c`.
    const USER_REGISTERS: &'static [Reg<Untyped>] = &[
        gc::regGRBM_STATUS.untyped(),
        gc::regGRBM_STATUS2.untyped(),
        gc::regGRBM_STATUS_SE0.untyped(),
        gc::regGRBM_STATUS_SE1.untyped(),
        gc::regGRBM_STATUS_SE2.untyped(),
        gc::regGRBM_STATUS_SE3.untyped(),
        gc::regCP_STAT.untyped(),
        gc::regCP_CPF_STATUS.untyped(),
        gc::regCP_CPC_STATUS.untyped(),
        gc::regGB_ADDR_CONFIG.untyped(),
    ];
    const PIPE_INT_CNTL: &'static [Reg<name::CP_ME1_PIPE0_INT_CNTL>] = &[
        gc::regCP_ME1_PIPE0_INT_CNTL,
        gc::regCP_ME1_PIPE1_INT_CNTL,
        gc::regCP_ME1_PIPE2_INT_CNTL,
        gc::regCP_ME1_PIPE3_INT_CNTL,
    ];
    const FENCE_INTERRUPTS: &'static [Field<name::CP_ME1_PIPE0_INT_CNTL>] = &[];
    const ARRAY: ArrayFields = ArrayFields {
        index: gc::GRBM_GFX_INDEX__SH_INDEX,
        broadcast: gc::GRBM_GFX_INDEX__SH_BROADCAST_WRITES,
    };
    const DEFAULT_BASES: (u32, u32) = (0x6000, 0x6000);
    const VMID0_BASES: Option<(u32, u32)> = Some((0, 0));

    fn start_rlc(b: Block<'_>) -> Result {
        let enable = gc::RLC_CNTL__RLC_ENABLE_F32;
        // amdgpu stops the RLC when it is unbound (`smu_disable_dpms`).
        if !enable.is_set(b.rd(gc::regRLC_CNTL)?) {
            b.set(gc::regRLC_CNTL, &[(enable, 1)])?;
            fsleep(RLC_START);
        }
        b.poll(gc::regRLC_CNTL, 0, |v| enable.is_set(v))?;
        Self::NAMES.in_safe_mode(b, || {
            // No clock gating.
            b.wr(gc::regRLC_CGCG_CGLS_CTRL, 0)?;
            b.set(gc::regRLC_SRM_CNTL, &[(gc::RLC_SRM_CNTL__SRM_ENABLE, 1)])
        })
    }

    fn partition_xccs(b: Block<'_>) -> Result<u32> {
        let control = b.rd(gc::regCP_HYP_XCP_CTL)?;
        Ok(gc::CP_HYP_XCP_CTL__NUM_XCC_IN_XCP.get(control))
    }

    fn working_cus(off: Value<name::CC_GC_SHADER_ARRAY_CONFIG>, cu_per_sh: u32) -> u32 {
        let all = (1u32 << cu_per_sh) - 1;
        !gc::CC_GC_SHADER_ARRAY_CONFIG__INACTIVE_CUS.get(off) & all
    }

    fn gb_addr_config(_b: Block<'_>) -> Result<u32> {
        Ok(GOLDEN_GB_ADDR_CONFIG)
    }

    fn default_sh_mem_config(user: bool) -> Value<name::SH_MEM_CONFIG> {
        sh_mem_config_base() | gc::SH_MEM_CONFIG__RETRY_DISABLE.put((!user).into())
    }

    fn start_vmid(b: Block<'_>, vmid: u32) -> Result {
        if vmid == 0 {
            return Ok(());
        }
        b.wr_at(gc::regGDS_VMID0_BASE, 2 * vmid, 0)?;
        b.wr_at(gc::regGDS_VMID0_SIZE, 2 * vmid, 0)?;
        b.wr_at(gc::regGDS_GWS_VMID0, vmid, 0)?;
        b.wr_at(gc::regGDS_OA_VMID0, vmid, 0)
    }

    fn start(mmio: &Mmio, xcc: Xcc, config: &Config) -> Result {
        let b = mmio.xcc(xcc)?;
        b.wr(gc::regGB_ADDR_CONFIG, GOLDEN_GB_ADDR_CONFIG)?;
        b.set(
            gc::regTCP_UTCL1_CNTL2,
            &[(gc::TCP_UTCL1_CNTL2__SPARE, GOLDEN_TCP_SPARE)],
        )?;
        start_vmids::<Self>(mmio, b)?;
        if chains_xnack(config) {
            b.set(
                gc::regSQ_CONFIG1,
                &[(gc::SQ_CONFIG1__DISABLE_XNACK_CHECK_IN_RETRY_DISABLE, 1)],
            )?;
        }
        if config.is_symmetric(xcc) {
            disable_harvesting(b)?;
        }
        // PSP loaded the MEC firmware into the TMR, which the MECs fetch untranslated:
        // CP_CPC_IC_BASE stays as it is. The MECs stay halted until the KIQ is loaded.
        halt::<Self>(b)
    }

    fn stop_mecs(b: Block<'_>) -> Result {
        report_idle(b, false)?;
        use gc::*;
        let bits = [
            CP_MEC_CNTL__MEC_INVALIDATE_ICACHE,
            CP_MEC_CNTL__MEC_ME1_PIPE0_RESET,
            CP_MEC_CNTL__MEC_ME1_PIPE1_RESET,
            CP_MEC_CNTL__MEC_ME1_PIPE2_RESET,
            CP_MEC_CNTL__MEC_ME1_PIPE3_RESET,
            CP_MEC_CNTL__MEC_ME2_PIPE0_RESET,
            CP_MEC_CNTL__MEC_ME2_PIPE1_RESET,
            CP_MEC_CNTL__MEC_ME1_HALT,
            CP_MEC_CNTL__MEC_ME2_HALT,
        ];
        let value = bits.iter().fold(Value::ZERO, |v, bit| v | bit.put(1));
        b.wr(regCP_MEC_CNTL, value)?;
        fsleep(Delta::from_micros(50));
        Ok(())
    }

    fn clock_counter(mmio: &Mmio) -> Result<u64> {
        let b = block(mmio)?;
        // Serialises captures.
        let _guard = mmio.lock_bank();
        b.wr(gc::regRLC_CAPTURE_GPU_CLOCK_COUNT, 1)?;
        let lsb = b.rd(gc::regRLC_GPU_CLOCK_COUNT_LSB)?;
        let msb = b.rd(gc::regRLC_GPU_CLOCK_COUNT_MSB)?;
        Ok(join(lsb.raw(), msb.raw()))
    }

    fn sh_mem_config(xnack: bool) -> Value<name::SH_MEM_CONFIG> {
        sh_mem_config_base()
            | gc::SH_MEM_CONFIG__F8_MODE.put(1)
            | gc::SH_MEM_CONFIG__RETRY_DISABLE.put((!xnack).into())
    }
}
