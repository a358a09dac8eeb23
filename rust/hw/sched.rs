// SPDX-License-Identifier: GPL-2.0

//! Queue scheduling: HAL traits of KIQ, HIQ and MES.

use kernel::prelude::*;
use rkfd_abi::regs::{name, Value};

use super::gfx::{HqdSlot, RegisterDump, WaveDebug};
use crate::asic::{config::Config, mmio::Mmio, xcc::Xcc};

/// How user queues are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedKind {
    /// Runlist of MAP_PROCESS and MAP_QUEUES packets on the HIQ; needs `Generation::kiq`.
    Runlist,
    /// MES ADD_QUEUE and REMOVE_QUEUE; needs `Generation::mes`.
    Mes,
}

/// Parameters of MAP_PROCESS.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MapProcess {
    /// PASID of the process.
    pub(crate) pasid: u32,
    /// Page table root with flags.
    pub(crate) root: u64,
    /// See [`super::gfx::GfxHal::sh_mem_config`].
    pub(crate) sh_mem_config: Value<name::SH_MEM_CONFIG>,
    /// See [`super::gfx::GfxHal::sh_mem_bases`].
    pub(crate) sh_mem_bases: Value<name::SH_MEM_BASES>,
    /// First-level trap handler (TBA), 0 for none.
    pub(crate) tba: u64,
    /// Trap handler memory (TMA).
    pub(crate) tma: u64,
    /// Global wave sync entries.
    pub(crate) num_gws: u32,
    /// Active queues.
    pub(crate) num_queues: u32,
    /// Settings of a debugger.
    pub(crate) debug: WaveDebug,
}

/// KIQ and HIQ, and packets whose form depends on the generation. Register accesses return `ENODEV`
/// after unbind or for a missing XCC.
pub(crate) trait KiqHal: Sync {
    /// Returns the 64-bit doorbell index of the KIQ of an XCC.
    fn doorbell(&self, xcc: Xcc) -> u32;

    /// Returns the HQD slot of the HIQ.
    fn hiq_slot(&self) -> HqdSlot;

    /// Merges register values of the KIQ's slot into its MQD, outside of the driver's fields.
    /// `EINVAL` for a short MQD.
    fn merge(&self, mmio: &Mmio, xcc: Xcc, mqd: &mut [u32]) -> Result;

    /// Loads the KIQ's MQD by registers while the MECs are halted, then starts the MECs. `EINVAL`
    /// for a short MQD, `ETIMEDOUT` when an old KIQ does not dequeue.
    fn start(&self, mmio: &Mmio, xcc: Xcc, doorbell: u32, mqd: &[u32]) -> Result;

    /// Dequeues the KIQ by registers. `ETIMEDOUT` when it stays active.
    fn stop(&self, mmio: &Mmio, xcc: Xcc) -> Result;

    /// Returns the scratch register of ring tests, as a dword address for packets.
    fn scratch_packet_reg(&self, mmio: &Mmio) -> Result<u32>;

    /// Writes the scratch register of ring tests.
    fn write_scratch(&self, mmio: &Mmio, xcc: Xcc, value: u32) -> Result;

    /// Reads the scratch register of ring tests.
    fn read_scratch(&self, mmio: &Mmio, xcc: Xcc) -> Result<u32>;

    /// Returns the register (dword address for packets) and value that shorten the dequeue wait
    /// (CP_IQ_WAIT_TIME2, `kgd_gfx_v9_build_dequeue_wait_counts_packet_info`).
    fn dequeue_wait(&self, mmio: &Mmio, xcc: Xcc) -> Result<(u32, u32)>;

    /// Returns the value of that register in which waves get a grace period, in units of 1024 clock
    /// cycles, before they are preempted. With 0, it is 1 if the firmware takes 0 as an endless
    /// one, else that of `value`.
    fn with_grace(&self, value: u32, grace: u32, mec_fw: u32) -> u32;

    /// Returns the dword of the HIQ's MQD where firmware reports the doorbell of a queue that
    /// failed to preempt.
    fn hung_doorbell_dword(&self) -> usize;

    /// Returns the doorbell of the active queue in a slot, as dword index in the doorbell BAR.
    /// `ETIMEDOUT` when the RLC does not respond.
    fn doorbell_in(&self, mmio: &Mmio, xcc: Xcc, slot: HqdSlot) -> Result<Option<u32>>;

    /// Resets the queues in slots, one of each XCC, after a failed preemption: all at a time.
    /// `ETIMEDOUT` when one stays active.
    fn reset_slots(&self, mmio: &Mmio, slots: &[(Xcc, HqdSlot)]) -> Result;

    /// Returns the dwords of MAP_PROCESS.
    fn map_process_dwords(&self) -> usize;

    /// Writes MAP_PROCESS to `out`. `EINVAL` for a wrong length.
    fn map_process(&self, process: &MapProcess, out: &mut [u32]) -> Result;

    /// Returns the SET_RESOURCES field for chained runlists that mix processes with and without
    /// XNACK.
    fn xnack_chain(&self, config: &Config) -> bool;
}

/// MES pipes, with one ring each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MesPipe {
    /// Adds and removes user queues.
    Scheduler = 0,
    /// Replaces the KIQ: maps the other ring, accesses registers, invalidates TLBs.
    Kiq = 1,
}

/// Version of the MES firmware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MesVersion {
    /// Scheduler version.
    pub(crate) scheduler: u32,
    /// API version.
    pub(crate) api: u32,
    /// Feature version.
    pub(crate) feature: u32,
}

/// Parameters of SET_HW_RSRC.
#[derive(Clone, Debug, Default)]
pub(crate) struct MesResources {
    /// Mask of MMHUB VMIDs that MES may assign.
    pub(crate) vmid_mask_mmhub: u32,
    /// Mask of GFXHUB VMIDs that MES may assign.
    pub(crate) vmid_mask_gfxhub: u32,
    /// Masks of HQDs of the compute pipes.
    pub(crate) compute_hqd_mask: [u32; 8],
    /// Masks of HQDs of the graphics pipes.
    pub(crate) gfx_hqd_mask: [u32; 2],
    /// Masks of queues of the SDMA engines.
    pub(crate) sdma_hqd_mask: [u32; 2],
    /// Dword base addresses of the GC register segments.
    pub(crate) gc_base: [u32; 8],
    /// The same of MMHUB.
    pub(crate) mmhub_base: [u32; 8],
    /// The same of OSSSYS.
    pub(crate) osssys_base: [u32; 8],
}

impl MesResources {
    /// Returns the number of slots that MES may assign.
    pub(crate) fn hqds(&self) -> usize {
        let count =
            |masks: &[u32]| -> usize { masks.iter().map(|mask| mask.count_ones() as usize).sum() };
        count(&self.compute_hqd_mask) + count(&self.gfx_hqd_mask) + count(&self.sdma_hqd_mask)
    }
}

/// Number of priorities with an aggregated doorbell.
pub(crate) const MES_PRIORITIES: usize = 5;

/// MES. Register accesses return `ENODEV` after unbind.
pub(crate) trait MesHal: Sync {
    /// Programs the KIQ's pipe and starts both pipes at the byte address `entry`.
    fn start(&self, mmio: &Mmio, entry: u64) -> Result;

    /// Halts both pipes.
    fn halt(&self, mmio: &Mmio) -> Result;

    /// Returns the 64-bit doorbell index of a pipe's ring.
    fn doorbell(&self, pipe: MesPipe) -> u32;

    /// Loads the MQD of a pipe's ring by registers. `EINVAL` for a short MQD.
    fn load_ring(&self, mmio: &Mmio, pipe: MesPipe, mqd: &[u32]) -> Result;

    /// Reads the firmware version of a pipe.
    fn version(&self, mmio: &Mmio, pipe: MesPipe) -> Result<MesVersion>;

    /// Enables reports of doorbells of unmapped queues to MES.
    fn enable_unmapped_doorbells(&self, mmio: &Mmio) -> Result;

    /// Programs the aggregated doorbells, lowest priority first: dword indices in the doorbell BAR.
    fn set_aggregated_doorbells(&self, mmio: &Mmio, doorbells: &[u32; MES_PRIORITIES]) -> Result;

    /// Returns the parameters of SET_HW_RSRC.
    fn resources(&self, mmio: &Mmio) -> Result<MesResources>;

    /// Resets the compute queue in an HQD slot by registers; if it stays active, its pipe with all
    /// queues that are mapped there. `ETIMEDOUT` when it is active even then.
    fn reset_queue(&self, mmio: &Mmio, pipe: u32, queue: u32) -> Result;

    /// Returns VM_CONTEXTn_CNTL of user VMIDs.
    fn vm_context_control(&self) -> u32;

    /// Dumps the registers of a pipe and its ring's HQD slot, for debugfs. `ENOMEM` for the list.
    fn dump(&self, mmio: &Mmio, pipe: MesPipe) -> Result<RegisterDump>;
}
