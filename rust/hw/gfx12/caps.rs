// SPDX-License-Identifier: GPL-2.0

//! Capabilities of GC 12.0: sizes, limits, doorbell assignments and flags of the topology.

use rkfd_abi::{doorbell as db, mmio, pte};

use super::trap::FIRST_LEVEL;
use crate::{
    asic::caps::{Caps, UserQueueFirmware},
    hw::gfx::WATCHPOINTS,
    uapi,
};

/// Bits of an address that the mask of a watchpoint may ignore, from the lowest to the highest
/// (`HSA_DBG_WATCH_ADDR_MASK_*_BIT*`, `kfd_topology.h`).
const WATCH_MASK_LOWEST_BIT: u32 = 7;
const WATCH_MASK_HIGHEST_BIT: u32 = 29;

/// `AMDGPU_FENCE_MES_QUEUE_FLAG`: marks the contexts of the kernel's fences on queues of MES, see
/// `event_interrupt_isr_v11()`.
const MES_QUEUE_FENCE: u32 = 1 << 24;

/// `no_atomic_fw_version` (`kfd_device_info_init`, `kfd_device.c`).
const NO_ATOMIC_MEC_FW: u32 = 2090;

/// Capabilities of the generation.
pub(super) static CAPS: Caps = Caps {
    retries: false,
    trap_handler: &FIRST_LEVEL,
    debug_capability: uapi::HSA_CAP_TRAP_DEBUG_SUPPORT
        | uapi::HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED
        | uapi::HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_MODE_SUPPORTED
        | uapi::HSA_CAP_TRAP_DEBUG_PRECISE_ALU_OPERATIONS_SUPPORTED
        | uapi::HSA_CAP_WATCH_POINTS_SUPPORTED
        | WATCHPOINTS.ilog2() << uapi::HSA_CAP_WATCH_POINTS_TOTALBITS_SHIFT,
    debug_prop: WATCH_MASK_LOWEST_BIT
        | WATCH_MASK_HIGHEST_BIT << uapi::HSA_DBG_WATCH_ADDR_MASK_HI_BIT_SHIFT
        | uapi::HSA_DBG_DISPATCH_INFO_ALWAYS_VALID,
    gfx_target_version: 120001,
    drm_family: uapi::AMDGPU_FAMILY_GC_12_0_0,
    external_rev: 0x50,
    vram_type: |_| uapi::AMDGPU_VRAM_TYPE_GDDR6,
    vram_width: 0,
    reserved_vram: rkfd_abi::discovery::TMR_OFFSET,
    dma_bits: 44,
    va_bits: pte::VA_BITS,
    first_user_vmid: 8,
    is_event_context: |context| context & MES_QUEUE_FENCE == 0,
    pipes_per_mec: 2,
    queues_per_pipe: 4,
    kernel_queues_per_pipe: 2,
    process_queues: 127,
    non_cp_doorbells: (db::navi10::FIRST_NON_CP, db::navi10::LAST_NON_CP),
    doorbell_mirror: db::MIRROR,
    hdp_remap: mmio::REMAP_OFFSET_NBIF_6_3_1,
    ih_doorbell: db::navi10::IH,
    sdma_doorbell: db::navi10::SDMA_ENGINE0,
    sdma_doorbell_stride: db::navi10::SDMA_ENGINE_STRIDE,
    sdma_doorbell_block: 1,
    max_kernel_doorbell: db::navi10::MAX_ASSIGNMENT,
    sdma_queues_per_engine: 8,
    sdma_reserved_queues: 2,
    sdma_pcie_engines: 2,
    // `gfx_v12_0_sw_init`.
    user_queues: Some(UserQueueFirmware {
        me: 3090,
        pfp: 3190,
        mec: 3450,
        mes: 147,
    }),
    sdma_secure: true,
    sdma_in_l2: true,
    partitions: false,
    simd_per_cu: 2,
    cu_group: 2,
    num_gws: 64,
    control_stack_in_mqd: false,
    waves_per_cu: 32,
    waves_per_se: None,
    first_rev: 0,
    resets_pipe: false,
    sdma_reset_mec_fw: 0,
    cwsr_stack_per_wave: 12,
    cwsr_vgpr_per_cu: 0x60000,
    cwsr_sgpr_per_cu: 0x4000,
    cwsr_hwreg_per_cu: 0x1000,
    tlb_extra_flush: false,
    no_atomic_mec_fw: NO_ATOMIC_MEC_FW,
    clock_hz: 100_000_000,
};
