// SPDX-License-Identifier: GPL-2.0

//! The compute core: defaults of address spaces, the MEC, working compute units, the clock, dumps.

use kernel::{prelude::*, time::delay::fsleep, time::Delta};
use rkfd_abi::{
    discovery::hwid,
    doorbell::navi10 as db,
    regs::{gc_12_0_0 as gc, mp_14_0_2 as mp, smuio_14_0_2 as smuio, Field, Reg},
};

use super::CAPS;
use crate::{
    gpu::{
        config::Config,
        mmio::{Block, Mmio},
    },
    hw::{GfxHal, HqdDump, HqdSlot},
};

/// See the file.
pub(super) struct Gfx;

/// Registers that user space may read through the render node: what is busy, and the address layout.
const USER_REGISTERS: &[Reg] = &[
    gc::regGRBM_STATUS,
    gc::regGRBM_STATUS2,
    gc::regGRBM_STATUS_SE0,
    gc::regGRBM_STATUS_SE1,
    gc::regGRBM_STATUS_SE2,
    gc::regGRBM_STATUS_SE3,
    gc::regSDMA0_STATUS_REG,
    gc::regSDMA1_STATUS_REG,
    gc::regCP_STAT,
    gc::regCP_CPF_STATUS,
    gc::regCP_CPC_STATUS,
    gc::regGB_ADDR_CONFIG,
];

const VMIDS: u32 = 16;
/// Unaligned access, for every address space.
const ALIGNMENT_UNALIGNED: u32 = 3;
/// How far instructions are fetched ahead where a wave starts.
const INITIAL_INST_PREFETCH: u32 = 3;
/// Where LDS and scratch appear in a space that no process has set up: the top 16 bits.
const DEFAULT_SHARED_BASE: u32 = 1;
const DEFAULT_PRIVATE_BASE: u32 = 2;
/// Where LDS and scratch appear for VMIDs of the kernel: the top 16 bits.
const KERNEL_SHARED_BASE: u32 = 0x2000;
const KERNEL_PRIVATE_BASE: u32 = 0x1000;
/// Compute units of a workgroup processor, which are there or not together.
const CUS_PER_WGP: u32 = 2;
/// How long the MEC takes to stop or start.
const MEC_US: i64 = 50;

const NO_SLOT: HqdSlot = HqdSlot {
    me: 0,
    pipe: 0,
    queue: 0,
};

/// The core's registers.
pub(super) fn block(mmio: &Mmio) -> Result<Block<'_>> {
    mmio.block(hwid::GC, 0)
}

/// Makes banked registers show one queue slot or VMID while `f` runs.
pub(super) fn with_bank<R>(
    mmio: &Mmio,
    b: Block<'_>,
    slot: HqdSlot,
    vmid: u32,
    f: impl FnOnce() -> Result<R>,
) -> Result<R> {
    let _guard = mmio.lock_bank();
    b.wr(
        gc::regGRBM_GFX_CNTL,
        gc::GRBM_GFX_CNTL__MEID.put(slot.me)
            | gc::GRBM_GFX_CNTL__PIPEID.put(slot.pipe)
            | gc::GRBM_GFX_CNTL__QUEUEID.put(slot.queue)
            | gc::GRBM_GFX_CNTL__VMID.put(vmid),
    )?;
    let result = f();
    b.wr(gc::regGRBM_GFX_CNTL, 0)?;
    result
}

fn sh_mem_config() -> u32 {
    gc::SH_MEM_CONFIG__ALIGNMENT_MODE.put(ALIGNMENT_UNALIGNED)
        | gc::SH_MEM_CONFIG__INITIAL_INST_PREFETCH.put(INITIAL_INST_PREFETCH)
}

fn bases(shared: u32, private: u32) -> u32 {
    gc::SH_MEM_BASES__PRIVATE_BASE.put(private) | gc::SH_MEM_BASES__SHARED_BASE.put(shared)
}

/// What the MEC's control register has besides the halt bit, and whether it is set for it to run.
const MEC_FIELDS: &[(Field, bool)] = &[
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

impl Gfx {
    /// Defaults of all address spaces; those of processes are set again when their queues are mapped.
    fn start_vmids(&self, mmio: &Mmio, b: Block<'_>) -> Result {
        for vmid in 0..VMIDS {
            let user = vmid >= CAPS.first_user_vmid;
            with_bank(mmio, b, NO_SLOT, vmid, || {
                b.wr(gc::regSH_MEM_CONFIG, sh_mem_config())?;
                if user {
                    b.wr(
                        gc::regSH_MEM_BASES,
                        bases(DEFAULT_SHARED_BASE, DEFAULT_PRIVATE_BASE),
                    )?;
                    b.set(
                        gc::regSPI_GDBG_PER_VMID_CNTL,
                        &[(gc::SPI_GDBG_PER_VMID_CNTL__TRAP_EN, 1)],
                    )?;
                } else if vmid != 0 {
                    b.wr(
                        gc::regSH_MEM_BASES,
                        bases(KERNEL_SHARED_BASE, KERNEL_PRIVATE_BASE),
                    )?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn run_mec(&self, b: Block<'_>, run: bool) -> Result {
        let mut value = b.rd(gc::regCP_MEC_RS64_CNTL)?;
        for (field, set_to_run) in MEC_FIELDS {
            value = field.set(value, (*set_to_run == run).into());
        }
        b.wr(gc::regCP_MEC_RS64_CNTL, value)?;
        fsleep(Delta::from_micros(MEC_US));
        Ok(())
    }

    /// Interrupts of the pipes that run user queues.
    fn start_interrupts(&self, mmio: &Mmio, b: Block<'_>) -> Result {
        for pipe in 0..CAPS.pipes_per_mec {
            let slot = HqdSlot {
                me: 1,
                pipe,
                queue: 0,
            };
            with_bank(mmio, b, slot, 0, || {
                b.wr(
                    gc::regCPC_INT_CNTL,
                    gc::CPC_INT_CNTL__TIME_STAMP_INT_ENABLE.put(1)
                        | gc::CPC_INT_CNTL__OPCODE_ERROR_INT_ENABLE.put(1),
                )
            })?;
        }
        Ok(())
    }

    /// Throws out queues that somebody left on the hardware: a scheduler that hung, or another
    /// driver. The MEC is halted, so that no queue would go of its own accord.
    fn clear_slots(&self, mmio: &Mmio, b: Block<'_>) -> Result {
        /// Resets the queue instead of saving it.
        const DEQUEUE_RESET: u32 = 2;
        for pipe in 0..CAPS.pipes_per_mec {
            for queue in 0..CAPS.queues_per_pipe {
                let slot = HqdSlot { me: 1, pipe, queue };
                with_bank(mmio, b, slot, 0, || {
                    if gc::CP_HQD_ACTIVE__ACTIVE.get(b.rd(gc::regCP_HQD_ACTIVE)?) == 0 {
                        return Ok(());
                    }
                    b.wr(gc::regCP_HQD_DEQUEUE_REQUEST, DEQUEUE_RESET)?;
                    b.wr(gc::regSPI_COMPUTE_QUEUE_RESET, 1)?;
                    b.wr(gc::regCP_HQD_ACTIVE, 0)?;
                    b.wr(gc::regCP_HQD_PQ_DOORBELL_CONTROL, 0)?;
                    b.wr(gc::regCP_HQD_DEQUEUE_REQUEST, 0)
                })?;
            }
        }
        Ok(())
    }
}

/// The compute units that work, of workgroup processors that do not.
fn active_cus(inactive_wgps: u32, cu_per_sh: u32) -> u32 {
    let mut cus = 0;
    for wgp in 0..cu_per_sh / CUS_PER_WGP {
        if inactive_wgps >> wgp & 1 == 0 {
            cus |= ((1 << CUS_PER_WGP) - 1) << (wgp * CUS_PER_WGP);
        }
    }
    cus
}

impl GfxHal for Gfx {
    fn check_alive(&self, mmio: &Mmio) -> Result<Option<&'static str>> {
        let psp = mmio.block(hwid::MP0, 0)?;
        if psp.rd(mp::regMPASP_SMN_C2PMSG_81)? == 0 {
            return Ok(Some(
                "the security processor has not booted its OS and rkfd cannot load firmware yet; \
                 let the platform's firmware or amdgpu bring the card up first",
            ));
        }
        Ok(None)
    }

    fn start_rlc(&self, mmio: &Mmio, _xcc: u32) -> Result {
        let b = block(mmio)?;
        b.poll(gc::regRLC_RLCS_BOOTLOAD_STATUS, 0, |v| {
            gc::RLC_RLCS_BOOTLOAD_STATUS__BOOTLOAD_COMPLETE.is_set(v)
        })?;
        b.poll(gc::regRLC_CNTL, 0, |v| {
            gc::RLC_CNTL__RLC_ENABLE_F32.is_set(v)
        })?;
        Ok(())
    }

    fn partition_xccs(&self, _mmio: &Mmio, _xcc: u32) -> Result<u32> {
        Ok(1)
    }

    fn read_config(&self, mmio: &Mmio, config: &mut Config) -> Result {
        config.cu_total = 0;
        let b = block(mmio)?;
        let no_arrays = gc::GRBM_CC_GC_SA_UNIT_DISABLE__SA_DISABLE
            .get(b.rd(gc::regGRBM_CC_GC_SA_UNIT_DISABLE)?)
            | gc::GRBM_GC_USER_SA_UNIT_DISABLE__SA_DISABLE
                .get(b.rd(gc::regGRBM_GC_USER_SA_UNIT_DISABLE)?);
        let _guard = mmio.lock_bank();
        for se in 0..config.num_se {
            for sh in 0..config.sh_per_se {
                b.wr(
                    gc::regGRBM_GFX_INDEX,
                    gc::GRBM_GFX_INDEX__INSTANCE_BROADCAST_WRITES.put(1)
                        | gc::GRBM_GFX_INDEX__SE_INDEX.put(se)
                        | gc::GRBM_GFX_INDEX__SA_INDEX.put(sh),
                )?;
                let off = b.rd(gc::regCC_GC_SHADER_ARRAY_CONFIG)?
                    | b.rd(gc::regGC_USER_SHADER_ARRAY_CONFIG)?;
                let off = gc::CC_GC_SHADER_ARRAY_CONFIG__INACTIVE_WGPS.get(off);
                let on = if no_arrays >> (se * config.sh_per_se + sh) & 1 != 0 {
                    0
                } else {
                    active_cus(off, config.cu_per_sh)
                };
                config.cu_total += on.count_ones();
                config.cu_bitmap.push(on, GFP_KERNEL)?;
            }
        }
        b.wr(
            gc::regGRBM_GFX_INDEX,
            gc::GRBM_GFX_INDEX__INSTANCE_BROADCAST_WRITES.put(1)
                | gc::GRBM_GFX_INDEX__SE_BROADCAST_WRITES.put(1)
                | gc::GRBM_GFX_INDEX__SA_BROADCAST_WRITES.put(1),
        )?;
        config.gb_addr_config = b.rd(gc::regGB_ADDR_CONFIG)?;
        Ok(())
    }

    fn start(&self, mmio: &Mmio, _xcc: u32, _config: &Config) -> Result {
        let b = block(mmio)?;
        self.start_vmids(mmio, b)?;
        // Doorbells of the kernel's queues, in bytes.
        b.wr(gc::regCP_MEC_DOORBELL_RANGE_LOWER, db::KIQ * 2 * 4)?;
        b.wr(
            gc::regCP_MEC_DOORBELL_RANGE_UPPER,
            db::USERQUEUE_END * 2 * 4,
        )?;
        // The command processor translates like everyone else.
        b.set(
            gc::regCPC_PSP_DEBUG,
            &[(gc::CPC_PSP_DEBUG__GPA_OVERRIDE, 1)],
        )?;
        self.halt(mmio, 0)?;
        self.run_mec(b, true)?;
        self.start_interrupts(mmio, b)?;
        b.set(
            gc::regCP_PQ_STATUS,
            &[(gc::CP_PQ_STATUS__DOORBELL_ENABLE, 1)],
        )
    }

    fn halt(&self, mmio: &Mmio, _xcc: u32) -> Result {
        let b = block(mmio)?;
        self.run_mec(b, false)?;
        self.clear_slots(mmio, b)
    }

    fn clock_counter(&self, mmio: &Mmio) -> Result<u64> {
        let b = mmio.block(hwid::SMUIO, 0)?;
        let upper = || b.rd(smuio::regGOLDEN_TSC_COUNT_UPPER);
        let lower = || b.rd(smuio::regGOLDEN_TSC_COUNT_LOWER);
        let before = upper()?;
        let mut lo = lower()?;
        let hi = upper()?;
        if before != hi {
            // It ran over in between.
            lo = lower()?;
        }
        Ok(u64::from(hi) << 32 | u64::from(lo))
    }

    fn sh_mem_config(&self, _xnack: bool) -> u32 {
        // Faults are never retried.
        sh_mem_config()
    }

    fn sh_mem_bases(&self, lds_base: u64, scratch_base: u64) -> u32 {
        bases((lds_base >> 48) as u32, (scratch_base >> 48) as u32)
    }

    fn dump_hqd(&self, mmio: &Mmio, _xcc: u32, slot: HqdSlot) -> Result<HqdDump> {
        dump_slot(mmio, slot)
    }

    fn user_register(&self, mmio: &Mmio, address: u32) -> Result<Option<u32>> {
        let b = block(mmio)?;
        for &reg in USER_REGISTERS {
            if b.address(reg, 0)? == address {
                return b.rd(reg).map(Some);
            }
        }
        Ok(None)
    }
}

/// Dumps a queue slot's registers.
pub(super) fn dump_slot(mmio: &Mmio, slot: HqdSlot) -> Result<HqdDump> {
    let b = block(mmio)?;
    let mut out = HqdDump::new();
    with_bank(mmio, b, slot, 0, || {
        for reg in [
            gc::regCP_HQD_ACTIVE,
            gc::regCP_HQD_VMID,
            gc::regCP_MQD_BASE_ADDR,
            gc::regCP_MQD_BASE_ADDR_HI,
            gc::regCP_HQD_PERSISTENT_STATE,
            gc::regCP_HQD_PQ_BASE,
            gc::regCP_HQD_PQ_BASE_HI,
            gc::regCP_HQD_PQ_CONTROL,
            gc::regCP_HQD_PQ_RPTR,
            gc::regCP_HQD_PQ_WPTR_LO,
            gc::regCP_HQD_PQ_WPTR_HI,
            gc::regCP_HQD_PQ_RPTR_REPORT_ADDR,
            gc::regCP_HQD_PQ_RPTR_REPORT_ADDR_HI,
            gc::regCP_HQD_PQ_WPTR_POLL_ADDR,
            gc::regCP_HQD_PQ_WPTR_POLL_ADDR_HI,
            gc::regCP_HQD_PQ_DOORBELL_CONTROL,
            gc::regCP_HQD_EOP_BASE_ADDR,
            gc::regCP_HQD_EOP_BASE_ADDR_HI,
            gc::regCP_HQD_EOP_CONTROL,
            gc::regCP_HQD_DEQUEUE_REQUEST,
            gc::regCP_HQD_CTX_SAVE_BASE_ADDR_LO,
            gc::regCP_HQD_CTX_SAVE_BASE_ADDR_HI,
        ] {
            out.push((reg.name, b.rd(reg)?), GFP_KERNEL)?;
        }
        Ok(())
    })?;
    Ok(out)
}
