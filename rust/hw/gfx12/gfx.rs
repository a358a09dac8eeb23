// SPDX-License-Identifier: GPL-2.0

//! Graphics core of GC 12.0: VMID defaults, MEC, active CUs, clock counter.

use kernel::{
    io::poll::read_poll_timeout,
    prelude::*,
    time::{delay::fsleep, Delta},
};
use rkfd_abi::{
    bits::{hi32, join, lo32},
    discovery::hwid,
    doorbell::navi10 as db,
    regs::{gc_12_0_0 as gc, name, smuio_14_0_2 as smuio, Field, Reg, Untyped, Value},
};

pub(super) use crate::hw::gfx::block;
use crate::{
    asic::{
        caps::Caps,
        config::Config,
        mmio::{Block, Mmio},
        xcc::Xcc,
    },
    hw::gfx::{
        gfx_names, halt, start_interrupts, start_vmids, ArrayFields, GfxNames, GfxVersion, HqdSlot,
        RegisterDump,
    },
};

/// The graphics core of GC 12.0.
pub(super) struct Gfx;

/// SH_MEM_ALIGNMENT_MODE_UNALIGNED (`DEFAULT_SH_MEM_CONFIG`, `soc15.h` and `gfx_v12_0.c`).
const ALIGNMENT_UNALIGNED: u32 = 3;
/// Instruction prefetch depth at wave start (`DEFAULT_SH_MEM_CONFIG`, `gfx_v12_0.c`).
const INITIAL_INST_PREFETCH: u32 = 3;
/// CUs of a WGP; both are active or neither.
const CUS_PER_WGP: u32 = 2;
/// Timeout of the autoload: three times that of [`Block::poll`], since a reset is not repeated.
const AUTOLOAD_TIMEOUT: Delta = Delta::from_millis(1000);
/// Timeout of register reads (`gfx_v12_0_constants_init`).
const READ_TIMEOUT: u32 = 0xff;
/// Settle time of the MEC after halt or start, in us (`gfx_v12_0_cp_compute_enable`).
const MEC_US: i64 = 50;

/// Dumps the registers of an HQD slot. `ENOMEM` for the list.
pub(super) fn dump_slot(mmio: &Mmio, slot: HqdSlot, extra: usize) -> Result<RegisterDump> {
    Gfx::NAMES.dump_slot(mmio, block(mmio)?, slot, extra)
}

fn sh_mem_config() -> Value<name::SH_MEM_CONFIG> {
    gc::SH_MEM_CONFIG__ALIGNMENT_MODE.put(ALIGNMENT_UNALIGNED)
        | gc::SH_MEM_CONFIG__INITIAL_INST_PREFETCH.put(INITIAL_INST_PREFETCH)
}

/// Fields of CP_MEC_RS64_CNTL and whether they are set while the MEC runs
/// (`gfx_v12_0_cp_compute_enable`).
const MEC_FIELDS: &[(Field<name::CP_MEC_RS64_CNTL>, bool)] = &[
    (gc::CP_MEC_RS64_CNTL__MEC_INVALIDATE_ICACHE, false),
    (gc::CP_MEC_RS64_CNTL__MEC_PIPE0_RESET, false),
    (gc::CP_MEC_RS64_CNTL__MEC_PIPE1_RESET, false),
    (gc::CP_MEC_RS64_CNTL__MEC_PIPE2_RESET, false),
    (gc::CP_MEC_RS64_CNTL__MEC_PIPE3_RESET, false),
    (gc::CP_MEC_RS64_CNTL__MEC_PIPE0_ACTIVE, true),
    (gc::CP_MEC_RS64_CNTL__MEC_PIPE1_ACTIVE, true),
    (gc::CP_MEC_RS64_CNTL__MEC_PIPE2_ACTIVE, true),
    (gc::CP_MEC_RS64_CNTL__MEC_PIPE3_ACTIVE, true),
    (gc::CP_MEC_RS64_CNTL__MEC_HALT, false),
];

/// Resets of the pipes of the MEC.
pub(super) const MEC_RESETS: [Field<name::CP_MEC_RS64_CNTL>; 4] = [
    gc::CP_MEC_RS64_CNTL__MEC_PIPE0_RESET,
    gc::CP_MEC_RS64_CNTL__MEC_PIPE1_RESET,
    gc::CP_MEC_RS64_CNTL__MEC_PIPE2_RESET,
    gc::CP_MEC_RS64_CNTL__MEC_PIPE3_RESET,
];

fn run_mec(b: Block<'_>, run: bool) -> Result {
    let mut value = b.rd(gc::regCP_MEC_RS64_CNTL)?;
    for (field, set_to_run) in MEC_FIELDS {
        value = value.set(*field, (*set_to_run == run).into());
    }
    b.wr(gc::regCP_MEC_RS64_CNTL, value)?;
    fsleep(Delta::from_micros(MEC_US));
    Ok(())
}

/// Sets the entry point of the MEC, in bytes, and resets its pipes (`gfx_v12_0_config_gfx_rs64`).
fn enter_mec(mmio: &Mmio, b: Block<'_>, entry: u64) -> Result {
    for pipe in 0..MEC_RESETS.len() {
        let slot = HqdSlot {
            me: 1,
            pipe: u32::try_from(pipe)?,
            queue: 0,
        };
        Gfx::NAMES.with_bank(mmio, b, slot, 0, || {
            b.wr(gc::regCP_MEC_RS64_PRGRM_CNTR_START, lo32(entry >> 2))?;
            b.wr(gc::regCP_MEC_RS64_PRGRM_CNTR_START_HI, hi32(entry >> 2))
        })?;
    }
    for reset in [1, 0] {
        b.set(
            gc::regCP_MEC_RS64_CNTL,
            &MEC_RESETS.map(|field| (field, reset)),
        )?;
    }
    Ok(())
}

/// Returns the mask of active CUs from the mask of inactive WGPs.
fn active_cus(inactive_wgps: u32, cu_per_sh: u32) -> u32 {
    let mut cus = 0;
    for wgp in 0..cu_per_sh / CUS_PER_WGP {
        if inactive_wgps >> wgp & 1 == 0 {
            cus |= ((1 << CUS_PER_WGP) - 1) << (wgp * CUS_PER_WGP);
        }
    }
    cus
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
        gc::regSDMA0_STATUS_REG.untyped(),
        gc::regSDMA1_STATUS_REG.untyped(),
        gc::regCP_STAT.untyped(),
        gc::regCP_CPF_STATUS.untyped(),
        gc::regCP_CPC_STATUS.untyped(),
        gc::regGB_ADDR_CONFIG.untyped(),
    ];
    const PIPE_INT_CNTL: &'static [Reg<name::CP_ME1_PIPE0_INT_CNTL>] =
        &[gc::regCP_ME1_PIPE0_INT_CNTL, gc::regCP_ME1_PIPE1_INT_CNTL];
    const FENCE_INTERRUPTS: &'static [Field<name::CP_ME1_PIPE0_INT_CNTL>] = &[
        gc::CP_ME1_PIPE0_INT_CNTL__TIME_STAMP_INT_ENABLE,
        gc::CP_ME1_PIPE0_INT_CNTL__GENERIC0_INT_ENABLE,
    ];
    const ARRAY: ArrayFields = ArrayFields {
        index: gc::GRBM_GFX_INDEX__SA_INDEX,
        broadcast: gc::GRBM_GFX_INDEX__SA_BROADCAST_WRITES,
    };
    const DEFAULT_BASES: (u32, u32) = (1, 2);
    const VMID0_BASES: Option<(u32, u32)> = None;

    fn start_rlc(b: Block<'_>) -> Result {
        // `gfx_v12_0_wait_for_rlc_autoload_complete`
        let is_loaded = || {
            let is_idle = b.rd(gc::regCP_STAT)?.raw() == 0;
            let status = b.rd(gc::regRLC_RLCS_BOOTLOAD_STATUS)?;
            Ok(is_idle && gc::RLC_RLCS_BOOTLOAD_STATUS__BOOTLOAD_COMPLETE.is_set(status))
        };
        read_poll_timeout(
            is_loaded,
            |loaded| *loaded,
            Delta::from_micros(1),
            AUTOLOAD_TIMEOUT,
        )
        .map(drop)
    }

    fn arrays_off(b: Block<'_>) -> Result<u32> {
        let off = gc::GRBM_CC_GC_SA_UNIT_DISABLE__SA_DISABLE
            .get(b.rd(gc::regGRBM_CC_GC_SA_UNIT_DISABLE)?);
        let by_user = gc::GRBM_GC_USER_SA_UNIT_DISABLE__SA_DISABLE
            .get(b.rd(gc::regGRBM_GC_USER_SA_UNIT_DISABLE)?);
        Ok(off | by_user)
    }

    fn working_cus(off: Value<name::CC_GC_SHADER_ARRAY_CONFIG>, cu_per_sh: u32) -> u32 {
        let off = gc::CC_GC_SHADER_ARRAY_CONFIG__INACTIVE_WGPS.get(off);
        active_cus(off, cu_per_sh)
    }

    fn gb_addr_config(b: Block<'_>) -> Result<u32> {
        b.rd(gc::regGB_ADDR_CONFIG).map(Value::raw)
    }

    fn default_sh_mem_config(_user: bool) -> Value<name::SH_MEM_CONFIG> {
        sh_mem_config()
    }

    fn start(mmio: &Mmio, xcc: Xcc, config: &Config) -> Result {
        let b = mmio.xcc(xcc)?;
        enter_mec(mmio, b, config.entries.mec)?;
        b.set(
            gc::regGRBM_CNTL,
            &[(gc::GRBM_CNTL__READ_TIMEOUT, READ_TIMEOUT)],
        )?;
        start_vmids::<Self>(mmio, b)?;
        // Doorbell ranges of kernel queues, in bytes (`gfx_v12_0_cp_set_doorbell_range`). At reset
        // that of the graphics rings, of which there are none, has the rings of MES.
        b.wr(gc::regCP_RB_DOORBELL_RANGE_LOWER, db::GFX_RING0 * 2 * 4)?;
        b.wr(
            gc::regCP_RB_DOORBELL_RANGE_UPPER,
            db::GFX_USERQUEUE_END * 2 * 4,
        )?;
        b.wr(gc::regCP_MEC_DOORBELL_RANGE_LOWER, db::KIQ * 2 * 4)?;
        b.wr(
            gc::regCP_MEC_DOORBELL_RANGE_UPPER,
            db::USERQUEUE_END * 2 * 4,
        )?;
        halt::<Self>(b)?;
        run_mec(b, true)?;
        start_interrupts::<Self>(mmio, b)
    }

    fn stop_mecs(b: Block<'_>) -> Result {
        run_mec(b, false)
    }

    fn clock_counter(mmio: &Mmio) -> Result<u64> {
        let b = mmio.block(hwid::SMUIO, 0)?;
        let upper = || b.rd(smuio::regGOLDEN_TSC_COUNT_UPPER).map(Value::raw);
        let lower = || b.rd(smuio::regGOLDEN_TSC_COUNT_LOWER).map(Value::raw);
        let before = upper()?;
        let mut lo = lower()?;
        let hi = upper()?;
        if before != hi {
            // The low half wrapped in between.
            lo = lower()?;
        }
        Ok(join(lo, hi))
    }

    fn sh_mem_config(_xnack: bool) -> Value<name::SH_MEM_CONFIG> {
        // Retry faults are not supported.
        sh_mem_config()
    }
}
