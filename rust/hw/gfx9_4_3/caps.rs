// SPDX-License-Identifier: GPL-2.0

//! Capabilities of GC 9.4.3: sizes, limits, doorbell assignments and flags of the topology.

use rkfd_abi::{doorbell as db, mmio, pte};

use super::trap::FIRST_LEVEL;
use crate::{asic::caps::Caps, hw::gfx::WATCHPOINTS, uapi};

/// Bits of an address that the mask of a watchpoint may ignore, from the lowest to the highest
/// (`HSA_DBG_WATCH_ADDR_MASK_*_BIT*`, `kfd_topology.h`).
const WATCH_MASK_LOWEST_BIT: u32 = 7;
const WATCH_MASK_HIGHEST_BIT: u32 = 30;

/// Returns whether a card has HBM3E, by its PCI device id (`gmc_v9_0_init_vram_info`).
pub(super) const fn has_hbm3e(device: u16) -> bool {
    device & 0xf == 5
}

/// Numbers of the generation.
pub(super) static CAPS: Caps = Caps {
    retries: true,
    trap_handler: &FIRST_LEVEL,
    debug_capability: uapi::HSA_CAP_TRAP_DEBUG_SUPPORT
        | uapi::HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED
        | uapi::HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_MODE_SUPPORTED
        | uapi::HSA_CAP_TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED
        | uapi::HSA_CAP_WATCH_POINTS_SUPPORTED
        | WATCHPOINTS.ilog2() << uapi::HSA_CAP_WATCH_POINTS_TOTALBITS_SHIFT,
    debug_prop: WATCH_MASK_LOWEST_BIT
        | WATCH_MASK_HIGHEST_BIT << uapi::HSA_DBG_WATCH_ADDR_MASK_HI_BIT_SHIFT
        | uapi::HSA_DBG_DISPATCH_INFO_ALWAYS_VALID,
    gfx_target_version: 90402,
    drm_family: uapi::AMDGPU_FAMILY_AI,
    external_rev: 0x46,
    vram_type: |device| {
        if has_hbm3e(device) {
            uapi::AMDGPU_VRAM_TYPE_HBM3E
        } else {
            uapi::AMDGPU_VRAM_TYPE_HBM
        }
    },
    vram_width: 8192,
    reserved_vram: 280 << 20,
    dma_bits: 48,
    va_bits: pte::VA_BITS,
    first_user_vmid: 3,
    // The firmware sends 0 for packets without an interrupt request (event_interrupt_isr_v9()).
    is_event_context: |context| context != 0,
    pipes_per_mec: 4,
    queues_per_pipe: 8,
    kernel_queues_per_pipe: 2,
    process_queues: 255,
    non_cp_doorbells: (db::layout1::FIRST_NON_CP, db::layout1::LAST_NON_CP),
    doorbell_mirror: db::MIRROR,
    hdp_remap: mmio::REMAP_OFFSET,
    ih_doorbell: db::layout1::IH,
    sdma_doorbell: db::layout1::SDMA_ENGINE_START,
    sdma_doorbell_stride: db::layout1::SDMA_ENGINE_STRIDE,
    sdma_doorbell_block: 4,
    max_kernel_doorbell: db::layout1::MAX_ASSIGNMENT,
    sdma_queues_per_engine: 8,
    sdma_reserved_queues: 0,
    sdma_pcie_engines: 2,
    user_queues: None,
    sdma_secure: false,
    sdma_in_l2: false,
    partitions: true,
    simd_per_cu: 4,
    cu_group: 1,
    num_gws: 64,
    control_stack_in_mqd: true,
    waves_per_cu: 40,
    waves_per_se: Some(512),
    // `amdgpu_device_ip_early_init`.
    first_rev: 1,
    resets_pipe: true,
    // `sdma_v4_4_2_update_reset_mask`.
    sdma_reset_mec_fw: 0xb0,
    cwsr_stack_per_wave: 8,
    cwsr_vgpr_per_cu: 0x80000,
    cwsr_sgpr_per_cu: 0x4000,
    cwsr_hwreg_per_cu: 0x1000,
    tlb_extra_flush: true,
    no_atomic_mec_fw: 0,
    clock_hz: 100_000_000,
};
