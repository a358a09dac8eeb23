// SPDX-License-Identifier: GPL-2.0

//! Registers of GFXHUB and MMHUB 4.1.0: start, TLB flushes, status of faults.
//!
//! MMHUB loses invalidation ACKs when it is power gated: invalidation takes a semaphore there.

use kernel::prelude::*;
use rkfd_abi::{
    discovery::hwid,
    pte,
    regs::{gc_12_0_0 as gc, mmhub_4_1_0 as mm, name, Value},
};

use crate::{
    asic::mmio::{Block, Mmio},
    hw::gmc::{hub_names, FlushType, GmcVersion, Hub, HubNames, HubNumbers, Hubs, CPU_ENGINE},
    kapi::{global::global_spinlock, log_limit::LogLimit},
};

/// The hubs and page table format of gfx12.
pub(super) struct Gmc;

static NUMBERS: HubNumbers = HubNumbers {
    l1_tlb: &[(gc::GCMC_VM_MX_L1_TLB_CNTL__ECO_BITS, 0)],
    l2_cntl: &[
        (gc::GCVM_L2_CNTL__ENABLE_L2_FRAGMENT_PROCESSING, 0),
        (
            gc::GCVM_L2_CNTL__ENABLE_DEFAULT_PAGE_OUT_TO_SYSTEM_MEMORY,
            1,
        ),
    ],
    context0: &[],
    bank_select: 9,
    big_fragment: 6,
    depth: pte::LEVELS - 1,
    block_size: pte::LEVEL_BITS - 9,
    retry: false,
};

/// GFXHUB.
pub(super) static GFX: Hub = Hub {
    names: hub_names!(gc, GC),
    fault_status: gc::regGCVM_L2_PROTECTION_FAULT_STATUS_LO32,
    l2_cntl3: Value::new(0x8012_0007),
    numbers: &NUMBERS,
};

static MEM: Hub = Hub {
    names: hub_names!(mm, MM),
    fault_status: mm::regMMVM_L2_PROTECTION_FAULT_STATUS_LO32,
    l2_cntl3: Value::new(0x8010_0007),
    numbers: &NUMBERS,
};

/// Default of VM_L2_CNTL5 (`regGCVM_L2_CNTL5_DEFAULT`, `gfxhub_v12_0.c`).
const L2_CNTL5: Value<name::VM_L2_CNTL5> = Value::new(0x0000_3fe0);

global_spinlock! {
    /// Rate limit of [`report_semaphore`].
    LOG: LogLimit = LogLimit::new();
    init init_log
}

/// Reports that the semaphore is not granted.
fn report_semaphore(b: Block<'_>) {
    let Some(suppressed) = LOG.lock().allows() else {
        return;
    };
    if suppressed > 0 {
        dev_err!(
            b.dev(),
            "{suppressed} messages about the semaphore of MMHUB were suppressed\n"
        );
    }
    dev_err!(
        b.dev(),
        "MMHUB does not grant the semaphore of invalidation engine {CPU_ENGINE}; \
         invalidating without it\n"
    );
}

/// Invalidates a VMID in MMHUB, which supports legacy invalidation only. `ETIMEDOUT` when the ACK
/// does not come.
fn flush_memory_hub(b: Block<'_>, vmid: u32) -> Result {
    let sem = MEM.names.VM_INVALIDATE_ENG0_SEM;
    match b.poll(sem, CPU_ENGINE, |sem| sem.raw() & 1 != 0) {
        Err(e) if e == ETIMEDOUT => report_semaphore(b),
        granted => {
            granted?;
        }
    }
    let done = MEM.names.invalidate(b, vmid, FlushType::Legacy);
    b.wr_at(sem, CPU_ENGINE, 0)?;
    done?;
    // Requests do not reach the private cache of reserved CID 2 (`gmc_v12_0_flush_vm_hub`).
    b.set(
        mm::regMMVM_L2_BANK_SELECT_RESERVED_CID2,
        &[(
            mm::MMVM_L2_BANK_SELECT_RESERVED_CID2__RESERVED_CACHE_PRIVATE_INVALIDATION,
            1,
        )],
    )?;
    // The read back waits for the invalidation.
    b.rd(mm::regMMVM_L2_BANK_SELECT_RESERVED_CID2)?;
    Ok(())
}

impl GmcVersion for Gmc {
    const GFX: &'static Hub = &GFX;
    const MEM: &'static Hub = &MEM;

    fn fb_offset(mmio: &Mmio) -> Result<u32> {
        let b = mmio.block(hwid::MMHUB, 0)?;
        b.rd(mm::regMMMC_VM_FB_OFFSET).map(Value::raw)
    }

    fn start_hub(b: Block<'_>, hub: &Hub) -> Result {
        let value = gc::GCVM_L2_CNTL5__L2_CACHE_SMALLK_FRAGMENT_SIZE.set(L2_CNTL5, 0);
        b.wr(hub.names.VM_L2_CNTL5, value)
    }

    fn started(mmio: &Mmio) -> Result {
        init_log();
        // UTCL1 faults do not halt the CP (`gfxhub_v12_0.c`: CPG_UTCL1_ERROR_HALT_DISABLE).
        for b in mmio.blocks(hwid::GC) {
            b.set(
                gc::regCP_DEBUG,
                &[(gc::CP_DEBUG__CPG_UTCL1_ERROR_HALT_DISABLE, 1)],
            )?;
        }
        Ok(())
    }

    fn flush_vmid(mmio: &Mmio, set: Hubs, vmid: u32, kind: FlushType) -> Result {
        if set != Hubs::Memory {
            for b in mmio.blocks(hwid::GC) {
                GFX.names.invalidate(b, vmid, kind)?;
            }
        }
        if set != Hubs::Core {
            for b in mmio.blocks(hwid::MMHUB) {
                flush_memory_hub(b, vmid)?;
            }
        }
        Ok(())
    }

    fn faulting(mmio: &Mmio, gfx: bool, _inst: u32) -> Result<(Block<'_>, &'static Hub)> {
        if !gfx {
            return Ok((mmio.block(hwid::MMHUB, 0)?, &MEM));
        }
        let b = mmio.block(hwid::GC, 0)?;
        // The first read waits until the register is up to date (`gmc_v12_0_process_interrupt`).
        b.rd(GFX.fault_status)?;
        Ok((b, &GFX))
    }
}
