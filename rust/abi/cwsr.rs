// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Compute wave save and restore (CWSR): sizes and header of a queue's save area.
//!
//! Sources: `amdkfd/kfd_queue.c` (`kfd_queue_ctx_save_restore_size`),
//! `include/uapi/linux/kfd_ioctl.h` (`struct kfd_context_save_area_header`). Sizes are in bytes.

/// Size of the header in front of the control stack (`SIZEOF_HSA_USER_CONTEXT_SAVE_AREA_HEADER`).
pub const HEADER_SIZE: u32 = 40;
/// Control stack bytes per wave on gfx9 (`CNTL_STACK_BYTES_PER_WAVE`).
pub const CNTL_STACK_BYTES_PER_WAVE_GFX9: u32 = 8;
/// Control stack bytes per wave from gfx10 on (`CNTL_STACK_BYTES_PER_WAVE`).
pub const CNTL_STACK_BYTES_PER_WAVE_GFX10: u32 = 12;
/// Control stack bytes added to those of the waves.
pub const CNTL_STACK_TAIL: u32 = 8;
/// VGPR bytes of one CU on gfx90a, gfx942 and gfx950 (`kfd_get_vgpr_size_per_cu`).
pub const VGPR_SIZE_PER_CU_GFX942: u32 = 0x80000;
/// SGPR bytes of one CU (`kfd_get_sgpr_size_per_cu`).
pub const SGPR_SIZE_PER_CU: u32 = 0x4000;
/// LDS bytes of one CU (`kfd_get_lds_size_per_cu`).
pub const LDS_SIZE_PER_CU: u32 = 0x10000;
/// Hardware register bytes of one CU (`kfd_get_hwreg_size_per_cu`).
pub const HWREG_SIZE_PER_CU: u32 = 0x1000;
/// Debugger memory per wave (`DEBUGGER_BYTES_PER_WAVE`).
pub const DEBUGGER_BYTES_PER_WAVE: u32 = 32;
/// Alignment of the debugger memory (`DEBUGGER_BYTES_ALIGN`).
pub const DEBUGGER_ALIGN: u32 = 64;

/// Header: u32, offset of the control stack.
pub const CONTROL_STACK_OFFSET: usize = 0;
/// Header: u32, size of the control stack.
pub const CONTROL_STACK_SIZE: usize = 4;
/// Header: u32, offset of the end of the wave state.
pub const WAVE_STATE_OFFSET: usize = 8;
/// Header: u32, size of the wave state.
pub const WAVE_STATE_SIZE: usize = 12;
/// Header: u32, offset of the debugger memory.
pub const DEBUG_OFFSET: usize = 16;
/// Header: u32, size of the debugger memory.
pub const DEBUG_SIZE: usize = 20;
/// Header: u64, address of the error payload.
pub const ERR_PAYLOAD_ADDR: usize = 24;
/// Header: u32, id of the event to signal on an error.
pub const ERR_EVENT_ID: usize = 32;

/// Size of the TBA/TMA pair: trap handler code and its memory (`KFD_CWSR_TBA_TMA_SIZE`).
pub const TBA_TMA_SIZE: usize = 8192;
/// Offset of the TMA in the pair (`KFD_CWSR_TMA_OFFSET`).
pub const TMA_OFFSET: usize = 4096 + 2048;
