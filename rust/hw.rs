// SPDX-License-Identifier: GPL-2.0

//! Hardware generations: one descriptor each, made of small traits and plain data, chosen once
//! from what IP discovery reports.
//!
//! Each block of the GPU has a room with three things: the trait by which the driver uses it (`*Hal`),
//! what a version of it has to say (`*Version`), and what all versions do, which makes the one of the
//! other. Everything that differs by number is in [`Caps`] or a constant of the version.
//! No other folder (besides `abi/`) names a generation.

use kernel::prelude::*;

use crate::gpu::{discovery::Discovery, mmio::Version};

mod dma;
mod gfx;
mod gfx12;
mod gfx9_4_3;
mod gmc;
mod ih;
mod mqd;
mod names;
mod nbio;
pub(crate) mod psp;
mod sched;
mod sdma;
mod sdma_queue;

pub(crate) use dma::{DmaPacket, DmaPacketHal, DMA_PACKET_DWORDS};
pub(crate) use gfx::{GfxHal, HqdDump, HqdSlot};
pub(crate) use gmc::{FlushType, GmcHal, HubSetup, Level, McLayout, PteAttrs};
pub(crate) use ih::{IhEntry, IhEvent, IhHal, IhSetup, SqSender, VmFault, IH_ENTRY_DWORDS};
pub(crate) use mqd::{MqdContext, MqdHal, MqdKind, QueueFormat, QueueSpec, Words};
pub(crate) use nbio::NbioHal;
pub(crate) use psp::{FirmwareFile, PspHal};
pub(crate) use sched::{
    KiqHal, MapProcess, MesHal, MesPipe, MesResources, MesVersion, SchedKind, MES_PRIORITIES,
};
pub(crate) use sdma::{HdpFlush, RegValue, SdmaHal, SdmaRing, VmSwitch};
pub(crate) use sdma_queue::{SdmaPlace, SdmaQueueHal};

/// VMIDs of the hardware, of all generations.
pub(crate) const VMIDS: u32 = 16;

/// Numbers of a generation.
pub(crate) struct Caps {
    /// The first trap handler of every process: code for one page, whose second half is the handler's
    /// memory.
    pub(crate) trap_handler: &'static [u32],
    /// What user space calls the instruction set: `gfx_target_version` of the topology.
    pub(crate) gfx_target_version: u32,
    /// What libdrm calls the family (`AMDGPU_FAMILY_*`).
    pub(crate) drm_family: u32,
    /// What libdrm adds to the silicon's revision.
    pub(crate) external_rev: u32,
    /// What libdrm calls the kind of video memory (`AMDGPU_VRAM_TYPE_*`).
    pub(crate) vram_type: u32,
    /// Bits of the interface of video memory, 0 where only the card's BIOS knows them.
    pub(crate) vram_width: u32,
    /// Width of the addresses that the device can put on the bus.
    pub(crate) dma_bits: u32,
    /// Size of the GPU virtual address space in bytes, as a power of two.
    pub(crate) va_bits: u32,
    /// The first VMID that belongs to user processes; all up to 15 do.
    pub(crate) first_user_vmid: u32,
    /// Compute pipes of a MEC.
    pub(crate) pipes_per_mec: u32,
    /// Queues of a compute pipe.
    pub(crate) queues_per_pipe: u32,
    /// Queues of each pipe that the firmware scheduler may not use.
    pub(crate) kernel_queues_per_pipe: u32,
    /// Bytes of a process's doorbell slice.
    pub(crate) doorbell_slice: u32,
    /// First and last 64-bit doorbell index of the window that the bus interface routes to
    /// engines other than the CP; it repeats at [`Caps::doorbell_mirror`].
    pub(crate) non_cp_doorbells: (u32, u32),
    /// Distance of the mirror of that window in 64-bit doorbell indices.
    pub(crate) doorbell_mirror: u32,
    /// Byte offset in the register BAR at which user space finds the HDP flush registers: a page
    /// that holds no other register.
    pub(crate) hdp_remap: u32,
    /// The 64-bit doorbell index of the interrupt ring.
    pub(crate) ih_doorbell: u32,
    /// The 64-bit doorbell index of the first SDMA engine.
    pub(crate) sdma_doorbell: u32,
    /// Distance to that of the next.
    pub(crate) sdma_doorbell_stride: u32,
    /// Doorbells of user queues start at a multiple of this many behind an engine's first: the bus
    /// tells engines apart by blocks of so many.
    pub(crate) sdma_doorbell_block: u32,
    /// The highest 64-bit doorbell index that the kernel's own engines use.
    pub(crate) max_kernel_doorbell: u32,
    /// SDMA queues of one engine besides the kernel's ring.
    pub(crate) sdma_queues_per_engine: u32,
    /// Of these, how many, from the first on, no user gets.
    pub(crate) sdma_reserved_queues: u32,
    /// SDMA engines that user space counts as PCIe engines; further ones are xGMI engines.
    pub(crate) sdma_pcie_engines: u32,
    /// SIMDs of a CU.
    pub(crate) simd_per_cu: u32,
    /// CUs that only work together: a mask of CUs has all of them or none.
    pub(crate) cu_group: u32,
    /// Global wave sync entries.
    pub(crate) num_gws: u32,
    /// The control stack of a compute queue lies behind its MQD, which is in VRAM then; else an MQD
    /// is a page of system memory.
    pub(crate) control_stack_in_mqd: bool,
    /// Wave slots of a CU, the number that sizes the context save area.
    pub(crate) waves_per_cu: u32,
    /// Waves that a shader engine can have in flight, if that are less than its CUs have slots for.
    pub(crate) waves_per_se: Option<u32>,
    /// Bytes of a wave on the control stack of the context save area.
    pub(crate) cwsr_stack_per_wave: u32,
    /// Bytes of a CU's vector registers in the context save area.
    pub(crate) cwsr_vgpr_per_cu: u32,
    /// Bytes of a CU's scalar registers in the context save area.
    pub(crate) cwsr_sgpr_per_cu: u32,
    /// Bytes of a CU's hardware registers in the context save area.
    pub(crate) cwsr_hwreg_per_cu: u32,
    /// A TLB invalidation races with accesses to the same line unless a heavyweight one precedes.
    pub(crate) tlb_extra_flush: bool,
    /// Ticks per second of the GPU clock counter.
    pub(crate) clock_hz: u64,
}

/// A generation.
pub(crate) struct Generation {
    /// Its name for messages.
    pub(crate) name: &'static str,
    /// Its numbers.
    pub(crate) caps: &'static Caps,
    /// How queues are scheduled.
    pub(crate) sched: SchedKind,
    /// Queue images.
    pub(crate) mqd: &'static dyn MqdHal,
    /// User queues of the SDMA engines.
    pub(crate) sdma_queue: &'static dyn SdmaQueueHal,
    /// Memory hubs and page tables.
    pub(crate) gmc: &'static dyn GmcHal,
    /// Interrupts.
    pub(crate) ih: &'static dyn IhHal,
    /// Compute core.
    pub(crate) gfx: &'static dyn GfxHal,
    /// DMA engines.
    pub(crate) sdma: &'static dyn SdmaHal,
    /// Bus interface.
    pub(crate) nbio: &'static dyn NbioHal,
    /// The security processor, if the driver brings it up; else all firmware has to run already.
    pub(crate) psp: Option<&'static dyn PspHal>,
    /// What takes a runlist, if that is how queues are scheduled.
    pub(crate) kiq: Option<&'static dyn KiqHal>,
    /// The scheduler with a processor of its own, if it has one.
    pub(crate) mes: Option<&'static dyn MesHal>,
}

impl Generation {
    /// What takes a runlist; `ENODEV` if queues are scheduled in another way.
    pub(crate) fn need_kiq(&self) -> Result<&'static dyn KiqHal> {
        self.kiq.ok_or(ENODEV)
    }

    /// The scheduler with a processor of its own; `ENODEV` if there is none.
    pub(crate) fn need_mes(&self) -> Result<&'static dyn MesHal> {
        self.mes.ok_or(ENODEV)
    }
}

/// Chooses the generation that drives the compute core of this version.
pub(crate) fn select(discovery: &Discovery) -> Result<&'static Generation> {
    let gc: Version = discovery.gc_version().ok_or(ENODEV)?;
    let all = Iterator::chain(gfx9_4_3::GENERATIONS.iter(), gfx12::GENERATIONS);
    all.into_iter()
        .find(|(v, _)| *v == gc)
        .map(|(_, g)| *g)
        .ok_or(ENODEV)
}

/// Says in the module's own header which firmware files it may ask for.
pub(crate) struct ModInfo<const N: usize>;

impl<const N: usize> ModInfo<N> {
    /// Makes the entries.
    pub(crate) const fn create(
        module: &'static kernel::str::CStr,
    ) -> kernel::firmware::ModInfoBuilder<N> {
        let mut builder = kernel::firmware::ModInfoBuilder::new(module);
        let mut i = 0;
        while i < gfx9_4_3::FIRMWARE.len() {
            builder = builder.new_entry().push(gfx9_4_3::FIRMWARE[i]);
            i += 1;
        }
        builder
    }
}
