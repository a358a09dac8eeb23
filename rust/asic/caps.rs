// SPDX-License-Identifier: GPL-2.0

//! Per-generation constants that are numbers, not behaviour.

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
