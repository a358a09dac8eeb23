// SPDX-License-Identifier: GPL-2.0

//! Hardware generations: one descriptor each, made of small traits and plain data, chosen once
//! from what IP discovery reports.
//!
//! Everything that differs by number is in [`Caps`], what differs by sequence is a trait method.
//! No other folder (besides `abi/`) names a generation.

use kernel::prelude::*;

use crate::gpu::{
    config::Config,
    discovery::Discovery,
    mmio::{Mmio, Version}, //
};

mod dma;
mod gfx12;
mod gfx9_4_3;
pub(crate) mod psp;
mod sched;

pub(crate) use dma::{DmaPacket, DmaPacketHal, DMA_PACKET_DWORDS};
pub(crate) use psp::{FirmwareFile, PspHal};
pub(crate) use sched::{
    KiqHal, MapProcess, MesHal, MesPipe, MesResources, MesVersion, SchedKind, MES_PRIORITIES,
};

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

/// The packet processor of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueFormat {
    /// Rings of PM4 packets; pointers count dwords.
    Pm4,
    /// Rings of 64-byte AQL packets; pointers count packets.
    Aql,
}

/// The place of a user queue on an SDMA engine. Unlike compute queues, which the scheduler puts
/// wherever there is room, it has its own for life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SdmaPlace {
    /// The engine.
    pub(crate) engine: u32,
    /// Its queue.
    pub(crate) queue: u32,
}

/// What the hardware has to know of a user queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueSpec {
    /// Who reads the ring of a compute queue.
    pub(crate) format: QueueFormat,
    /// Where the queue is if an SDMA engine reads its ring, with pointers in bytes.
    pub(crate) sdma: Option<SdmaPlace>,
    /// GPU virtual address of the ring.
    pub(crate) ring_va: u64,
    /// Bytes of the ring, a power of two; 0 keeps the queue inactive.
    pub(crate) ring_size: u32,
    /// Where the CP reports its read pointer.
    pub(crate) rptr_va: u64,
    /// Where user space keeps the write pointer.
    pub(crate) wptr_va: u64,
    /// The write pointer in the kernel's address space (VMID 0); 0 if no scheduler reads it.
    pub(crate) wptr_kernel: u64,
    /// The end-of-pipe buffer, 0 for none.
    pub(crate) eop_va: u64,
    /// Bytes of the end-of-pipe buffer.
    pub(crate) eop_size: u32,
    /// The context save area of the queue, 0 for none.
    pub(crate) cwsr_va: u64,
    /// Bytes of the context save area of one XCC.
    pub(crate) cwsr_size: u32,
    /// Bytes of the control stack in it.
    pub(crate) ctl_stack_size: u32,
    /// Address of the trap handler, 0 for none.
    pub(crate) tba: u64,
    /// Priority as user space gives it, 0 to 15.
    pub(crate) priority: u8,
    /// Share in percent; 0 keeps the queue inactive.
    pub(crate) percent: u8,
    /// Absolute doorbell: index of the 32-bit word in the doorbell BAR.
    pub(crate) doorbell: u32,
    /// The queue owns the global wave sync resource.
    pub(crate) gws: bool,
    /// XCC of the partition that runs PM4 packets without a predicate.
    pub(crate) pm4_target_xcc: u8,
}

impl QueueSpec {
    /// The queue has all that it takes to run.
    pub(crate) fn is_runnable(&self) -> bool {
        self.ring_size > 0 && self.ring_va != 0 && self.percent > 0
    }
}

/// What kind of queue an MQD describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MqdKind {
    /// A compute queue of a user process.
    User,
    /// The queue through which the kernel feeds the firmware scheduler.
    Hiq,
    /// The queue through which the kernel maps the HIQ and programs registers.
    Kiq,
    /// A ring of the scheduler with a processor of its own.
    Mes,
}

/// What goes into an MQD besides the [`QueueSpec`].
pub(crate) struct MqdContext {
    /// The queue's kind.
    pub(crate) kind: MqdKind,
    /// Address of the MQD for the CP.
    pub(crate) addr: u64,
    /// Logical number of the XCC within the partition.
    pub(crate) xcc: u32,
    /// XCCs of the partition.
    pub(crate) num_xcc: u32,
    /// Bytes from the MQD of one XCC to that of the next.
    pub(crate) stride: u32,
}

/// Registers of one queue slot for `hqds` in debugfs: register name and value.
pub(crate) type HqdDump = KVec<(&'static str, u32)>;

/// The words of an image: one that is being built, or one where the hardware finds it, where reads are slow.
pub(crate) trait Words {
    /// Reads a word.
    fn get(&mut self, dword: usize) -> u32;

    /// Writes a word.
    fn set(&mut self, dword: usize, value: u32);
}

impl<const N: usize> Words for [u32; N] {
    fn get(&mut self, dword: usize) -> u32 {
        self[dword]
    }

    fn set(&mut self, dword: usize, value: u32) {
        self[dword] = value;
    }
}

/// The image of a queue in memory.
pub(crate) trait MqdHal: Sync {
    /// 32-bit words of an MQD.
    fn dwords(&self) -> usize;

    /// Fills a zeroed image for a new queue. `EINVAL` for a kind that the generation has not.
    fn init(&self, cx: &MqdContext, spec: &QueueSpec, image: &mut [u32]) -> Result;

    /// Changes the fields of an image that may change in the life of a queue.
    fn update(&self, cx: &MqdContext, spec: &QueueSpec, image: &mut dyn Words);

    /// Sets the compute units that an XCC's part of the queue may use, one word per shader engine.
    fn set_cu_mask(&self, masks: &[u32], image: &mut dyn Words) -> Result;
}

/// User queues of the SDMA engines.
pub(crate) trait SdmaQueueHal: Sync {
    /// 32-bit words of an MQD.
    fn dwords(&self) -> usize;

    /// Fills a zeroed image for a new queue at `place`, or changes the fields of one that may
    /// change in the life of a queue.
    fn update(&self, place: SdmaPlace, spec: &QueueSpec, image: &mut [u32]) -> Result;

    /// The doorbell of the queue that the engine holds at this place, if it does: index of the
    /// 32-bit word in the doorbell BAR.
    fn held_doorbell(&self, mmio: &Mmio, place: SdmaPlace) -> Result<Option<u32>>;

    /// Dumps the registers of a place, if a queue is there.
    fn dump(&self, mmio: &Mmio, place: SdmaPlace) -> Result<Option<HqdDump>>;
}

/// Addresses of the memory hubs, from the registers that firmware set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct McLayout {
    /// Where VRAM starts in the hubs' address space.
    pub(crate) fb_start: u64,
    /// The last byte of the frame buffer aperture.
    pub(crate) fb_end: u64,
    /// The physical address of the first byte of VRAM as page tables want it.
    pub(crate) vram_offset: u64,
}

/// What the hubs need for VMID 0 and as defaults.
pub(crate) struct HubSetup {
    /// The layout that [`GmcHal::layout`] returned.
    pub(crate) layout: McLayout,
    /// Physical address of the GART page table in VRAM.
    pub(crate) gart_table: u64,
    /// First byte of the GART aperture.
    pub(crate) gart_start: u64,
    /// Last byte of the GART aperture.
    pub(crate) gart_end: u64,
    /// Physical address in VRAM of a page that stray system aperture accesses may hit.
    pub(crate) scratch_pa: u64,
    /// Bus address of a page that faulting accesses may hit.
    pub(crate) dummy_dma: u64,
}

/// Level of a page table: 0 holds the entries of pages, 3 is the root.
pub(crate) type Level = u32;

/// What a mapping may do, independent of the entry's format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PteAttrs {
    /// The address is a bus address and not in VRAM.
    pub(crate) system: bool,
    /// The GPU may read. Always set by KFD mappings.
    pub(crate) read: bool,
    /// The GPU may write.
    pub(crate) write: bool,
    /// Shaders may be fetched from it.
    pub(crate) exec: bool,
    /// Caching was switched off by the owner.
    pub(crate) uncached: bool,
    /// Coherence across devices was asked for.
    pub(crate) ext_coherent: bool,
    /// The address is device registers (doorbells, remapped MMIO).
    pub(crate) io: bool,
}

/// The type of a TLB invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushType {
    /// Drop translations.
    Legacy = 0,
    /// Drop translations and wait for requests that use them.
    Heavyweight = 2,
}

/// Memory hubs and the format of page tables.
pub(crate) trait GmcHal: Sync {
    /// Reads where firmware has put VRAM.
    fn layout(&self, mmio: &Mmio) -> Result<McLayout>;

    /// Programs apertures, caches, VMID 0 and the fixed part of the other VMIDs in every hub.
    fn start(&self, mmio: &Mmio, setup: &HubSetup) -> Result;

    /// Switches all translation off.
    fn stop(&self, mmio: &Mmio) -> Result;

    /// Invalidates one VMID's translations in every hub by registers.
    fn flush_vmid(&self, mmio: &Mmio, vmid: u32, kind: FlushType) -> Result;

    /// An address translation failed with these flags: what the hub's status register says;
    /// clears it.
    fn fault_status(&self, mmio: &Mmio, gfx: bool, inst: u32) -> Result<u32>;

    /// The PTE flags of a page.
    fn pte_flags(&self, attrs: PteAttrs) -> u64;

    /// The flags of GART entries.
    fn gart_flags(&self) -> u64;

    /// The entry of a table at `level` for a page or block at `addr`; `fragment` is the log2 of
    /// the number of pages that are contiguous around it.
    fn leaf(&self, level: Level, addr: u64, flags: u64, fragment: u32) -> u64;

    /// The entry of a table at `level` that points to a table at `addr`.
    fn table(&self, level: Level, addr: u64) -> u64;

    /// What an entry of a table at `level` holds when nothing is mapped.
    fn empty(&self, level: Level) -> u64;

    /// The value of the page table base registers, and of MAP_PROCESS, for a root at `addr`.
    fn root(&self, addr: u64) -> u64;
}

/// How the interrupt ring is set up.
pub(crate) struct IhSetup {
    /// Bus address of the ring.
    pub(crate) ring: u64,
    /// Bytes of the ring, a power of two.
    pub(crate) size: u32,
    /// Bus address to which the hardware writes its write pointer.
    pub(crate) wptr: u64,
    /// The ring's doorbell: index of the 32-bit word in the doorbell BAR.
    pub(crate) doorbell: u32,
    /// Bus address of the page that a dummy read of the bus interface may hit.
    pub(crate) dummy_dma: u64,
}

/// The read-permission facts of a VM fault entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VmFault {
    /// The faulting page's address.
    pub(crate) addr: u64,
    /// From the graphics hub; else from a memory hub.
    pub(crate) gfx: bool,
    /// The access was a write.
    pub(crate) write: bool,
    /// The hardware retries the access until the page is there.
    pub(crate) retry: bool,
    /// The page has no valid mapping.
    pub(crate) not_present: bool,
    /// The page's mapping lacks the permission to read.
    pub(crate) no_read: bool,
    /// The page's mapping lacks the permission to write.
    pub(crate) no_write: bool,
}

/// Who sends messages of shaders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqSender {
    /// An instruction of a program.
    Program,
    /// An instruction of a trap handler.
    TrapHandler(Report),
    /// The hardware, as a wave did something that it cannot.
    Error,
    /// The hardware, for other reasons.
    Hardware,
}

/// What a trap handler says about its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Which of the process's doorbells the queue has.
    pub(crate) doorbell: u32,
    /// What happened, bit n for the `EC_*` n + 1 of the user space interface.
    pub(crate) exceptions: u64,
}

/// What an interrupt entry tells.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IhEvent {
    /// End of pipe: a release packet or the signal of an AQL packet.
    CpEop {
        /// Data of the packet, for KFD the event id.
        ctx0: u32,
    },
    /// The CP met a packet that it does not know.
    CpBadOpcode {
        /// Which of the process's doorbells, or of the kernel's, the queue has.
        doorbell: u32,
        /// What is wrong, an `EC_*` of the user space interface.
        code: u32,
    },
    /// A queue touched a privileged register or used a privileged instruction.
    CpPrivileged,
    /// A shader sent a message.
    SqMessage {
        /// 24 bits.
        data: u32,
        /// Who sent it.
        from: SqSender,
    },
    /// An SDMA queue trapped.
    SdmaTrap {
        /// Data of the packet.
        ctx0: u32,
        /// The engine.
        engine: u32,
        /// By the kernel's ring of the engine, or an indirect buffer that it called.
        kernel: bool,
    },
    /// Address translation failed.
    VmFault(VmFault),
    /// Nothing that the driver handles.
    Other,
}

/// A decoded interrupt entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IhEntry {
    /// Who raised it.
    pub(crate) client: u8,
    /// Why.
    pub(crate) source: u8,
    /// Engine and queue encoding of the client.
    pub(crate) ring: u8,
    /// The address space.
    pub(crate) vmid: u8,
    /// The process's PASID, 0 for none.
    pub(crate) pasid: u16,
    /// The die that raised it.
    pub(crate) node: u8,
    /// First context word, for the trace.
    pub(crate) ctx0: u32,
    /// What it means.
    pub(crate) event: IhEvent,
}

/// 32-bit words of an entry of the interrupt ring.
pub(crate) const IH_ENTRY_DWORDS: usize = 8;

/// The interrupt ring.
pub(crate) trait IhHal: Sync {
    /// Programs and enables the ring.
    fn start(&self, mmio: &Mmio, setup: &IhSetup) -> Result;

    /// Disables the ring.
    fn stop(&self, mmio: &Mmio) -> Result;

    /// Splits a write pointer (shadow or register) into byte offset and overflow.
    fn wptr(&self, raw: u32) -> (u32, bool);

    /// Reads the write pointer register.
    fn read_wptr(&self, mmio: &Mmio) -> Result<u32>;

    /// Acknowledges an overflow.
    fn clear_overflow(&self, mmio: &Mmio) -> Result;

    /// Decodes an entry.
    fn decode(&self, entry: &[u32; IH_ENTRY_DWORDS]) -> IhEntry;
}

/// A slot that holds a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HqdSlot {
    /// 1 or 2.
    pub(crate) me: u32,
    /// Pipe of the MEC.
    pub(crate) pipe: u32,
    /// Queue of the pipe.
    pub(crate) queue: u32,
}

/// The compute core: shader and queue registers.
pub(crate) trait GfxHal: Sync {
    /// Says in one line what keeps the core from being used, if anything does. For cards whose
    /// firmware this driver cannot load.
    fn check_alive(&self, mmio: &Mmio) -> Result<Option<&'static str>> {
        let _ = mmio;
        Ok(None)
    }

    /// Waits until the firmware of the run list controller runs, which the core cannot do without,
    /// and brings it into the state that this driver wants. `ETIMEDOUT` when it does not run.
    fn start_rlc(&self, mmio: &Mmio, xcc: u32) -> Result;

    /// How many XCCs are in the partition of this one.
    fn partition_xccs(&self, mmio: &Mmio, xcc: u32) -> Result<u32>;

    /// Completes the configuration from registers: working compute units, address layout.
    fn read_config(&self, mmio: &Mmio, config: &mut Config) -> Result;

    /// Programs defaults of the VMIDs of user processes, and lets the MECs run; but where the first
    /// queue is loaded through registers they stay halted until it is, see [`KiqHal::start`].
    fn start(&self, mmio: &Mmio, xcc: u32, config: &Config) -> Result;

    /// Stops the MECs and throws out all queues, the kernel's included.
    fn halt(&self, mmio: &Mmio, xcc: u32) -> Result;

    /// Reads the clock counter.
    fn clock_counter(&self, mmio: &Mmio) -> Result<u64>;

    /// The SH_MEM_CONFIG of a user process.
    fn sh_mem_config(&self, xnack: bool) -> u32;

    /// The SH_MEM_BASES of a user process, from the bases of the LDS and scratch apertures.
    fn sh_mem_bases(&self, lds_base: u64, scratch_base: u64) -> u32;

    /// Dumps a queue slot's registers.
    fn dump_hqd(&self, mmio: &Mmio, xcc: u32, slot: HqdSlot) -> Result<HqdDump>;

    /// Reads the register at dword `address` if user space may know it.
    fn user_register(&self, mmio: &Mmio, address: u32) -> Result<Option<u32>>;
}

/// The bus interface.
pub(crate) trait NbioHal: Sync {
    /// Opens memory, doorbell and HDP flush paths; `remap` is the byte offset in the register BAR
    /// at which user space gets the HDP flush registers.
    fn start(&self, mmio: &Mmio, remap: u32) -> Result;

    /// Reads the revision of the silicon.
    fn rev_id(&self, mmio: &Mmio) -> Result<u32>;

    /// Lets doorbells of the interrupt ring and the SDMA engines through.
    fn route_doorbells(&self, mmio: &Mmio, caps: &Caps) -> Result;

    /// Closes the doorbell path.
    fn stop(&self, mmio: &Mmio) -> Result;

    /// Makes writes of the CPU to VRAM visible to the GPU.
    fn hdp_flush(&self, mmio: &Mmio, remap: u32) -> Result;
}

/// Where the kernel's ring of an SDMA engine is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SdmaRing {
    /// Address of the ring for the engine (VMID 0).
    pub(crate) base: u64,
    /// Bytes of the ring, a power of two.
    pub(crate) size: u32,
    /// Where the engine reports its read pointer.
    pub(crate) rptr: u64,
    /// Where the driver keeps the write pointer.
    pub(crate) wptr: u64,
    /// The doorbell: index of the 32-bit word in the doorbell BAR.
    pub(crate) doorbell: u32,
}

/// A register as packets of a DMA engine address it, and what belongs into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegValue {
    /// Its dword address.
    pub(crate) reg: u32,
    /// The value, or the bits that are waited for.
    pub(crate) value: u32,
}

/// What a DMA engine does to run in an address space of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VmSwitch {
    /// Registers to write, in this order: page table root, PASID for interrupts, and last the
    /// request to drop the VMID's translations.
    pub(crate) writes: [RegValue; 4],
    /// The register whose bits say that they are dropped.
    pub(crate) done: RegValue,
}

/// How a DMA engine flushes what the CPU wrote to VRAM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HdpFlush {
    /// Dword address of the register that takes the request.
    pub(crate) request: u32,
    /// Dword address of the register that says that it is done.
    pub(crate) done: u32,
    /// The engine's bit in both.
    pub(crate) mask: u32,
}

/// The DMA engines.
pub(crate) trait SdmaHal: Sync {
    /// Starts the kernel's ring of an engine, empty, with its pointers at 0.
    fn start(&self, mmio: &Mmio, engine: u32, ring: &SdmaRing) -> Result;

    /// Takes the kernel's ring off the engine. What it executes at the moment goes on.
    fn stop(&self, mmio: &Mmio, engine: u32) -> Result;

    /// The engine is at work on the kernel's ring.
    fn is_selected(&self, mmio: &Mmio, engine: u32) -> Result<bool>;

    /// The engine has nothing to do.
    fn is_idle(&self, mmio: &Mmio, engine: u32) -> Result<bool>;

    /// Resets an engine through the management firmware and waits until it runs again. Its
    /// queues are gone then.
    fn reset(&self, mmio: &Mmio, engine: u32) -> Result;

    /// What an engine has to do before it may use a VMID.
    fn vm_switch(
        &self,
        mmio: &Mmio,
        engine: u32,
        vmid: u32,
        root: u64,
        pasid: u32,
    ) -> Result<VmSwitch>;

    /// How an engine flushes what the CPU wrote to VRAM.
    fn hdp_flush(&self, mmio: &Mmio, engine: u32) -> Result<HdpFlush>;

    /// The engine whose access the fault status of a memory hub reports, if it was one.
    fn fault_engine(&self, status: u32, node: u32) -> Option<u32>;

    /// The packets that the engines know.
    fn packets(&self) -> &'static dyn DmaPacketHal;

    /// Registers of an engine, for debugfs.
    fn dump(&self, mmio: &Mmio, engine: u32) -> Result<HqdDump>;
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
