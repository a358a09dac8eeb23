// SPDX-License-Identifier: GPL-2.0

//! How user queues get onto the hardware, and what the kernel's rings to the scheduler need of a
//! generation.

use kernel::prelude::*;
use rkfd_abi::regs::{name, Value};

use super::gfx::{HqdDump, HqdSlot};
use crate::asic::{config::Config, mmio::Mmio};

/// How user queues get onto the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedKind {
    /// A runlist of MAP_PROCESS and MAP_QUEUES packets on the HIQ; needs [`super::generation::Generation::kiq`].
    Runlist,
    /// ADD_QUEUE and REMOVE_QUEUE for each queue on the ring of a scheduler with a processor of
    /// its own; needs [`super::generation::Generation::mes`].
    Mes,
}

/// What MAP_PROCESS tells the scheduler of a process.
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
    /// First-level trap handler, 0 for none.
    pub(crate) tba: u64,
    /// Memory of the trap handler.
    pub(crate) tma: u64,
    /// Global wave sync entries.
    pub(crate) num_gws: u32,
    /// Active queues.
    pub(crate) num_queues: u32,
}

/// What takes a runlist: the kernel's queues to the firmware scheduler, and the packets whose form
/// differs between generations.
pub(crate) trait KiqHal: Sync {
    /// The 64-bit doorbell index of the KIQ.
    fn doorbell(&self) -> u32;

    /// Where the HIQ lives.
    fn hiq_slot(&self) -> HqdSlot;

    /// Takes over into the KIQ's MQD what its slot's registers hold besides the driver's fields.
    fn merge(&self, mmio: &Mmio, xcc: u32, mqd: &mut [u32]) -> Result;

    /// Loads the KIQ's MQD by registers and activates it, while the MECs are halted, then lets these go.
    fn start(&self, mmio: &Mmio, xcc: u32, doorbell: u32, mqd: &[u32]) -> Result;

    /// Dequeues the KIQ by registers.
    fn stop(&self, mmio: &Mmio, xcc: u32) -> Result;

    /// The register that ring tests write, as packets address it.
    fn scratch_packet_reg(&self, mmio: &Mmio, xcc: u32) -> Result<u32>;

    /// Writes the ring tests' register.
    fn write_scratch(&self, mmio: &Mmio, xcc: u32, value: u32) -> Result;

    /// Reads the ring tests' register.
    fn read_scratch(&self, mmio: &Mmio, xcc: u32) -> Result<u32>;

    /// The register and value that shorten the wait between two tries to dequeue a queue, as
    /// packets address it.
    fn dequeue_wait(&self, mmio: &Mmio, xcc: u32) -> Result<(u32, u32)>;

    /// The word of the HIQ's MQD in which the scheduler names the doorbell of a queue that did
    /// not let itself be preempted.
    fn hung_doorbell_dword(&self) -> usize;

    /// The doorbell of the user queue in a slot, if there is one: index of the 32-bit word in the
    /// doorbell BAR.
    fn doorbell_in(&self, mmio: &Mmio, xcc: u32, slot: HqdSlot) -> Result<Option<u32>>;

    /// Throws the user queue out of a slot, which the scheduler has asked to leave in vain.
    fn reset_slot(&self, mmio: &Mmio, xcc: u32, slot: HqdSlot) -> Result;

    /// 32-bit words of MAP_PROCESS.
    fn map_process_dwords(&self) -> usize;

    /// Writes MAP_PROCESS.
    fn map_process(&self, process: &MapProcess, out: &mut [u32]) -> Result;

    /// The SET_RESOURCES field that lets processes with and without retry faults share a chained
    /// runlist.
    fn xnack_chain(&self, config: &Config) -> bool;
}

/// Rings of the scheduler with a processor of its own: each has a pipe of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MesPipe {
    /// Where user queues are added and removed.
    Scheduler = 0,
    /// Where the other ring is mapped, registers are accessed and TLBs invalidated.
    Kiq = 1,
}

/// What the scheduler's firmware says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MesVersion {
    /// The firmware.
    pub(crate) scheduler: u32,
    /// The frames that it knows.
    pub(crate) api: u32,
    /// Its features.
    pub(crate) feature: u32,
}

/// What SET_HW_RSRC lets the scheduler hand out, and where it finds registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct MesResources {
    /// VMIDs of the memory hub.
    pub(crate) vmid_mask_mmhub: u32,
    /// VMIDs of the graphics hub.
    pub(crate) vmid_mask_gfxhub: u32,
    /// Queues of each compute pipe.
    pub(crate) compute_hqd_mask: [u32; 8],
    /// Queues of each graphics pipe.
    pub(crate) gfx_hqd_mask: [u32; 2],
    /// Queues of each SDMA engine.
    pub(crate) sdma_hqd_mask: [u32; 2],
    /// Dword addresses of the segments of the compute core's registers.
    pub(crate) gc_base: [u32; 8],
    /// The same of the memory hub.
    pub(crate) mmhub_base: [u32; 8],
    /// The same of the interrupt handler.
    pub(crate) osssys_base: [u32; 8],
}

/// Priorities for which there is an aggregated doorbell each, lowest first.
pub(crate) const MES_PRIORITIES: usize = 5;

/// The scheduler with a processor of its own.
pub(crate) trait MesHal: Sync {
    /// Says in one line what keeps the scheduler from being used, if anything does.
    fn check_alive(&self, mmio: &Mmio) -> Result<Option<&'static str>>;

    /// Says which pipe is the KIQ's and lets both run.
    fn start(&self, mmio: &Mmio) -> Result;

    /// Halts both pipes.
    fn halt(&self, mmio: &Mmio) -> Result;

    /// The 64-bit doorbell index of a pipe's ring.
    fn doorbell(&self, pipe: MesPipe) -> u32;

    /// Loads the MQD of a pipe's ring by registers and activates it.
    fn load_ring(&self, mmio: &Mmio, pipe: MesPipe, mqd: &[u32]) -> Result;

    /// Dequeues a pipe's ring by registers, whether it was loaded or mapped.
    fn unload_ring(&self, mmio: &Mmio, pipe: MesPipe) -> Result;

    /// Reads what a pipe's firmware says of itself.
    fn version(&self, mmio: &Mmio, pipe: MesPipe) -> Result<MesVersion>;

    /// Lets the scheduler hear of doorbells of queues that are not on the hardware.
    fn hear_unmapped_doorbells(&self, mmio: &Mmio) -> Result;

    /// Tells the doorbells that stand for all queues of a priority: indices of 32-bit words in the
    /// doorbell BAR.
    fn set_aggregated_doorbells(&self, mmio: &Mmio, doorbells: &[u32; MES_PRIORITIES]) -> Result;

    /// What the scheduler may hand out.
    fn resources(&self, mmio: &Mmio) -> Result<MesResources>;

    /// The context control word of the address space of a user process.
    fn vm_context_control(&self) -> u32;

    /// Dumps the registers of a pipe and the slot of its ring, for debugfs.
    fn dump(&self, mmio: &Mmio, pipe: MesPipe) -> Result<HqdDump>;
}
