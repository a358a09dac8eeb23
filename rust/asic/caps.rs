// SPDX-License-Identifier: GPL-2.0

//! Constants per generation.

/// VMIDs of a hub, in all generations.
pub(crate) const VMIDS: u32 = 16;

/// Versions of firmware.
pub(crate) struct UserQueueFirmware {
    /// ME.
    pub(crate) me: u32,
    /// PFP.
    pub(crate) pfp: u32,
    /// MEC.
    pub(crate) mec: u32,
    /// MES.
    pub(crate) mes: u32,
}

/// Constants of a generation.
pub(crate) struct Caps {
    /// Waves can wait for a page, selected per process (XNACK).
    pub(crate) retries: bool,
    /// First-level trap handler of every process: code for one page, whose second half is the
    /// handler's memory (TMA).
    pub(crate) trap_handler: &'static [u32],
    /// Debugger capabilities `HSA_CAP_*` of the topology.
    pub(crate) debug_capability: u32,
    /// Debugger properties `HSA_DBG_*` of the topology.
    pub(crate) debug_prop: u32,
    /// `gfx_target_version` of the topology.
    pub(crate) gfx_target_version: u32,
    /// `AMDGPU_FAMILY_*`.
    pub(crate) drm_family: u32,
    /// Offset of `external_rev` from the silicon revision.
    pub(crate) external_rev: u32,
    /// Returns `AMDGPU_VRAM_TYPE_*` of the card with a PCI device id.
    pub(crate) vram_type: fn(device: u16) -> u32,
    /// Bits of the VRAM interface, 0 where only the VBIOS has them.
    pub(crate) vram_width: u32,
    /// Bytes at the end of VRAM reserved for the boot firmware, if no VBIOS states their number
    /// (`amdgpu_ttm_init_fw_resv_region`).
    pub(crate) reserved_vram: u64,
    /// DMA address width in bits.
    pub(crate) dma_bits: u32,
    /// Size of the GPU virtual address space in bytes, as a power of two.
    pub(crate) va_bits: u32,
    /// The first VMID that belongs to user processes; all up to 15 do.
    pub(crate) first_user_vmid: u32,
    /// Returns whether an end-of-pipe interrupt with this context is an event of a user process.
    pub(crate) is_event_context: fn(u32) -> bool,
    /// Compute pipes of a MEC.
    pub(crate) pipes_per_mec: u32,
    /// Queues of a compute pipe.
    pub(crate) queues_per_pipe: u32,
    /// Queues of each pipe reserved for the kernel.
    pub(crate) kernel_queues_per_pipe: u32,
    /// Queues that a process may have on one GPU (`pqm_create_queue`).
    pub(crate) process_queues: usize,
    /// First and last 64-bit doorbell index of the non-CP window; it repeats at
    /// [`Caps::doorbell_mirror`].
    pub(crate) non_cp_doorbells: (u32, u32),
    /// Distance of the mirror of that window in 64-bit doorbell indices.
    pub(crate) doorbell_mirror: u32,
    /// Byte offset of the remapped HDP flush page in the register BAR: a page without other
    /// registers.
    pub(crate) hdp_remap: u32,
    /// The 64-bit doorbell index of the interrupt ring.
    pub(crate) ih_doorbell: u32,
    /// The 64-bit doorbell index of the first SDMA engine.
    pub(crate) sdma_doorbell: u32,
    /// Distance to that of the next engine.
    pub(crate) sdma_doorbell_stride: u32,
    /// Alignment of an engine's first user doorbell after the engine's base: NBIO routes blocks of
    /// this many doorbells.
    pub(crate) sdma_doorbell_block: u32,
    /// The highest 64-bit doorbell index that the kernel's own engines use.
    pub(crate) max_kernel_doorbell: u32,
    /// SDMA queues of one engine besides the kernel's ring.
    pub(crate) sdma_queues_per_engine: u32,
    /// Of these, the number reserved from the first on.
    pub(crate) sdma_reserved_queues: u32,
    /// SDMA engines that user space counts as PCIe engines; further ones are xGMI engines.
    pub(crate) sdma_pcie_engines: u32,
    /// User queues of the render node, with the oldest firmware that has them.
    pub(crate) user_queues: Option<UserQueueFirmware>,
    /// SDMA executes secure IBs (`secure_submission_supported` of its kernel rings).
    pub(crate) sdma_secure: bool,
    /// SDMA reaches VRAM through the L2 cache of the GPU (GL2), the CPU does not.
    pub(crate) sdma_in_l2: bool,
    /// The card is divided into partitions, even if that is one (`xcp_mgr`).
    pub(crate) partitions: bool,
    /// SIMDs of a CU.
    pub(crate) simd_per_cu: u32,
    /// CUs of a group that a CU mask enables or disables together.
    pub(crate) cu_group: u32,
    /// Global wave sync entries.
    pub(crate) num_gws: u32,
    /// The control stack of a compute queue follows its MQD, in VRAM; else an MQD is a page of
    /// system memory.
    pub(crate) control_stack_in_mqd: bool,
    /// Wave slots of a CU, for the size of the CWSR area.
    pub(crate) waves_per_cu: u32,
    /// Maximum waves of a shader engine, if less than the wave slots of its CUs.
    pub(crate) waves_per_se: Option<u32>,
    /// First supported revision of the silicon.
    pub(crate) first_rev: u32,
    /// The reset of a compute queue resets its pipe if the queue stays active.
    pub(crate) resets_pipe: bool,
    /// First version of the MEC firmware with which SDMA queues are reset one by one.
    pub(crate) sdma_reset_mec_fw: u32,
    /// Bytes of a wave on the control stack of the CWSR area.
    pub(crate) cwsr_stack_per_wave: u32,
    /// Bytes of a CU's VGPRs in the CWSR area.
    pub(crate) cwsr_vgpr_per_cu: u32,
    /// Bytes of a CU's SGPRs in the CWSR area.
    pub(crate) cwsr_sgpr_per_cu: u32,
    /// Bytes of a CU's hardware registers in the CWSR area.
    pub(crate) cwsr_hwreg_per_cu: u32,
    /// A TLB flush must be preceded by a heavyweight one: it races with accesses to the same cache
    /// line.
    pub(crate) tlb_extra_flush: bool,
    /// First MEC firmware that runs without AtomicOp requests to system memory; 0: all do.
    pub(crate) no_atomic_mec_fw: u32,
    /// Ticks per second of the GPU clock counter.
    pub(crate) clock_hz: u64,
}
