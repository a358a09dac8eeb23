// SPDX-License-Identifier: GPL-2.0

//! The compute core: defaults of address spaces, MECs, counters, dumps.

use kernel::{prelude::*, time::delay::fsleep, time::Delta};
use rkfd_abi::{
    discovery::hwid,
    regs::{gc_9_4_3 as gc, Reg},
};

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
    gc::regCP_STAT,
    gc::regCP_CPF_STATUS,
    gc::regCP_CPC_STATUS,
    gc::regGB_ADDR_CONFIG,
];

const VMIDS: u32 = 16;
const FIRST_USER_VMID: u32 = 3;
/// Unaligned access, for every address space.
const ALIGNMENT_UNALIGNED: u32 = 3;
/// Where LDS and scratch appear in a space that no process has set up: the top 16 bits.
const DEFAULT_SH_MEM_BASE: u32 = 0x6000;
/// Where LDS and scratch appear for VMIDs of the kernel: the top 16 bits.
const KERNEL_SHARED_BASE: u32 = 0x2000;
const KERNEL_PRIVATE_BASE: u32 = 0x1000;
/// The layout of addresses for tiled memory; user space asks for it.
const GOLDEN_GB_ADDR_CONFIG: u32 = 0x2a11_4042;

pub(super) fn block(mmio: &Mmio, xcc: u32) -> Result<Block<'_>> {
    mmio.block(hwid::GC, xcc as u8)
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

const NO_SLOT: HqdSlot = HqdSlot {
    me: 0,
    pipe: 0,
    queue: 0,
};

fn sh_mem_config_base() -> u32 {
    gc::SH_MEM_CONFIG__ALIGNMENT_MODE.put(ALIGNMENT_UNALIGNED)
}

/// The message of the request for safe mode: in it, or out of it.
const SAFE_MODE_ENTER: u32 = 1;
/// A spare field of the vector caches' TLBs that AMD wants set.
const GOLDEN_TCP_SPARE: u32 = 1;

/// The first MEC firmware that sees to it itself that a wave which may not retry is not asked to.
const CHAINING_MEC_FW: u32 = 184;

/// The firmware scheduler and the shader core settle between them which waves retry.
pub(super) fn chains_xnack(config: &Config) -> bool {
    config.mec_fw >= CHAINING_MEC_FW
}

/// While `f` runs, the run list controller does not switch clocks or power of the core.
pub(super) fn in_safe_mode<R>(b: Block<'_>, f: impl FnOnce() -> Result<R>) -> Result<R> {
    b.wr(
        gc::regRLC_SAFE_MODE,
        gc::RLC_SAFE_MODE__CMD.put(1) | gc::RLC_SAFE_MODE__MESSAGE.put(SAFE_MODE_ENTER),
    )?;
    b.poll(gc::regRLC_SAFE_MODE, 0, |v| {
        !gc::RLC_SAFE_MODE__CMD.is_set(v)
    })?;
    let result = f();
    b.wr(gc::regRLC_SAFE_MODE, gc::RLC_SAFE_MODE__CMD.put(1))?;
    result
}

/// Lets the MECs go on after [`GfxHal::start`]: their first queue is there.
pub(super) fn release(mmio: &Mmio, xcc: u32) -> Result {
    let b = block(mmio, xcc)?;
    b.wr(gc::regCP_MEC_CNTL, 0)?;
    fsleep(Delta::from_micros(50));
    Gfx.start_interrupts(mmio, b)?;
    Gfx.report_idle(b, true)
}

impl Gfx {
    /// Interrupts by which the core tells the power management that it is idle or busy.
    fn report_idle(&self, b: Block<'_>, on: bool) -> Result {
        use gc::*;
        let fields = [
            CP_INT_CNTL_RING0__CNTX_BUSY_INT_ENABLE,
            CP_INT_CNTL_RING0__CNTX_EMPTY_INT_ENABLE,
            CP_INT_CNTL_RING0__CMP_BUSY_INT_ENABLE,
        ]
        .map(|field| (field, u32::from(on)));
        b.set(regCP_INT_CNTL_RING0, &fields)
    }

    /// Defaults of all address spaces; those of processes are set again when they are mapped.
    fn start_vmids(&self, mmio: &Mmio, b: Block<'_>) -> Result {
        for vmid in 0..VMIDS {
            let user = vmid >= FIRST_USER_VMID;
            let (config, bases) = if user {
                (
                    sh_mem_config_base(),
                    gc::SH_MEM_BASES__PRIVATE_BASE.put(DEFAULT_SH_MEM_BASE)
                        | gc::SH_MEM_BASES__SHARED_BASE.put(DEFAULT_SH_MEM_BASE),
                )
            } else {
                let bases = if vmid == 0 {
                    0
                } else {
                    gc::SH_MEM_BASES__PRIVATE_BASE.put(KERNEL_PRIVATE_BASE)
                        | gc::SH_MEM_BASES__SHARED_BASE.put(KERNEL_SHARED_BASE)
                };
                (
                    sh_mem_config_base() | gc::SH_MEM_CONFIG__RETRY_DISABLE.put(1),
                    bases,
                )
            };
            with_bank(mmio, b, NO_SLOT, vmid, || {
                b.wr(gc::regSH_MEM_CONFIG, config)?;
                b.wr(gc::regSH_MEM_BASES, bases)?;
                if user {
                    b.set(
                        gc::regSPI_GDBG_PER_VMID_CNTL,
                        &[(gc::SPI_GDBG_PER_VMID_CNTL__TRAP_EN, 1)],
                    )?;
                }
                Ok(())
            })?;
            if vmid > 0 {
                b.wr_at(gc::regGDS_VMID0_BASE, 2 * vmid, 0)?;
                b.wr_at(gc::regGDS_VMID0_SIZE, 2 * vmid, 0)?;
                b.wr_at(gc::regGDS_GWS_VMID0, vmid, 0)?;
                b.wr_at(gc::regGDS_OA_VMID0, vmid, 0)?;
            }
        }
        Ok(())
    }

    /// Interrupts of the pipes that run user queues.
    fn start_interrupts(&self, mmio: &Mmio, b: Block<'_>) -> Result {
        for pipe in 0..super::CAPS.pipes_per_mec {
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
    /// driver. The MECs are halted, so that no queue would go of its own accord.
    fn clear_slots(&self, mmio: &Mmio, b: Block<'_>) -> Result {
        const MECS: u32 = 2;
        /// Resets the queue instead of saving it.
        const DEQUEUE_RESET: u32 = 2;
        for me in 1..=MECS {
            for pipe in 0..super::CAPS.pipes_per_mec {
                for queue in 0..super::CAPS.queues_per_pipe {
                    with_bank(mmio, b, HqdSlot { me, pipe, queue }, 0, || {
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
        }
        Ok(())
    }
}

impl GfxHal for Gfx {
    fn start_rlc(&self, mmio: &Mmio, xcc: u32) -> Result {
        let b = block(mmio, xcc)?;
        b.poll(gc::regRLC_CNTL, 0, |v| {
            gc::RLC_CNTL__RLC_ENABLE_F32.is_set(v)
        })?;
        in_safe_mode(b, || {
            // No clock gating.
            b.wr(gc::regRLC_CGCG_CGLS_CTRL, 0)?;
            b.set(gc::regRLC_SRM_CNTL, &[(gc::RLC_SRM_CNTL__SRM_ENABLE, 1)])
        })
    }

    fn partition_xccs(&self, mmio: &Mmio, xcc: u32) -> Result<u32> {
        let control = block(mmio, xcc)?.rd(gc::regCP_HYP_XCP_CTL)?;
        Ok(gc::CP_HYP_XCP_CTL__NUM_XCC_IN_XCP.get(control))
    }

    fn read_config(&self, mmio: &Mmio, config: &mut Config) -> Result {
        config.cu_total = 0;
        let all = (1u32 << config.cu_per_sh) - 1;
        for xcc in 0..config.num_xcc {
            let b = block(mmio, xcc)?;
            let _guard = mmio.lock_bank();
            for se in 0..config.num_se {
                for sh in 0..config.sh_per_se {
                    b.wr(
                        gc::regGRBM_GFX_INDEX,
                        gc::GRBM_GFX_INDEX__INSTANCE_BROADCAST_WRITES.put(1)
                            | gc::GRBM_GFX_INDEX__SE_INDEX.put(se)
                            | gc::GRBM_GFX_INDEX__SH_INDEX.put(sh),
                    )?;
                    let off = b.rd(gc::regCC_GC_SHADER_ARRAY_CONFIG)?
                        | b.rd(gc::regGC_USER_SHADER_ARRAY_CONFIG)?;
                    let on = !gc::CC_GC_SHADER_ARRAY_CONFIG__INACTIVE_CUS.get(off) & all;
                    config.cu_total += on.count_ones();
                    config.cu_bitmap.push(on, GFP_KERNEL)?;
                }
            }
            b.wr(
                gc::regGRBM_GFX_INDEX,
                gc::GRBM_GFX_INDEX__INSTANCE_BROADCAST_WRITES.put(1)
                    | gc::GRBM_GFX_INDEX__SE_BROADCAST_WRITES.put(1)
                    | gc::GRBM_GFX_INDEX__SH_BROADCAST_WRITES.put(1),
            )?;
        }
        config.gb_addr_config = GOLDEN_GB_ADDR_CONFIG;
        Ok(())
    }

    fn start(&self, mmio: &Mmio, xcc: u32, config: &Config) -> Result {
        let b = block(mmio, xcc)?;
        b.wr(gc::regGB_ADDR_CONFIG, GOLDEN_GB_ADDR_CONFIG)?;
        b.set(
            gc::regTCP_UTCL1_CNTL2,
            &[(gc::TCP_UTCL1_CNTL2__SPARE, GOLDEN_TCP_SPARE)],
        )?;
        self.start_vmids(mmio, b)?;
        if chains_xnack(config) {
            b.set(
                gc::regSQ_CONFIG1,
                &[(gc::SQ_CONFIG1__DISABLE_XNACK_CHECK_IN_RETRY_DISABLE, 1)],
            )?;
        }
        self.report_idle(b, false)?;
        // The security processor loaded the code into a region of its own, which the MECs reach
        // without translation: how they fetch it stays as it is. They run when they have a KIQ.
        self.halt(mmio, xcc)
    }

    fn halt(&self, mmio: &Mmio, xcc: u32) -> Result {
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
        let value = bits.iter().fold(0, |v, bit| v | bit.put(1));
        let b = block(mmio, xcc)?;
        b.wr(regCP_MEC_CNTL, value)?;
        fsleep(Delta::from_micros(50));
        self.clear_slots(mmio, b)
    }

    fn clock_counter(&self, mmio: &Mmio) -> Result<u64> {
        let b = block(mmio, 0)?;
        // One capture at a time.
        let _guard = mmio.lock_bank();
        b.wr(gc::regRLC_CAPTURE_GPU_CLOCK_COUNT, 1)?;
        let lsb = b.rd(gc::regRLC_GPU_CLOCK_COUNT_LSB)?;
        let msb = b.rd(gc::regRLC_GPU_CLOCK_COUNT_MSB)?;
        Ok(u64::from(msb) << 32 | u64::from(lsb))
    }

    fn sh_mem_config(&self, xnack: bool) -> u32 {
        sh_mem_config_base()
            | gc::SH_MEM_CONFIG__F8_MODE.put(1)
            | gc::SH_MEM_CONFIG__RETRY_DISABLE.put((!xnack).into())
    }

    fn sh_mem_bases(&self, lds_base: u64, scratch_base: u64) -> u32 {
        gc::SH_MEM_BASES__PRIVATE_BASE.put((scratch_base >> 48) as u32)
            | gc::SH_MEM_BASES__SHARED_BASE.put((lds_base >> 48) as u32)
    }

    fn dump_hqd(&self, mmio: &Mmio, xcc: u32, slot: HqdSlot) -> Result<HqdDump> {
        let b = block(mmio, xcc)?;
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

    fn user_register(&self, mmio: &Mmio, address: u32) -> Result<Option<u32>> {
        let b = block(mmio, 0)?;
        for &reg in USER_REGISTERS {
            if b.address(reg, 0)? == address {
                return b.rd(reg).map(Some);
            }
        }
        Ok(None)
    }
}
