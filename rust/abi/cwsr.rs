// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Compute wave save and restore: sizes and header of the area that a queue is preempted into.
//!
//! Sources: `amdkfd/kfd_queue.c` (`kfd_queue_ctx_save_restore_size`),
//! `include/uapi/linux/kfd_ioctl.h` (`struct kfd_context_save_area_header`). Sizes in bytes.

/// Bytes of the header in front of the control stack.
pub const HEADER_SIZE: u32 = 40;
/// Control stack bytes per wave on gfx9.
pub const CNTL_STACK_BYTES_PER_WAVE_GFX9: u32 = 8;
/// Control stack bytes per wave from gfx10 on.
pub const CNTL_STACK_BYTES_PER_WAVE_GFX10: u32 = 12;
/// Control stack bytes on top of the waves'.
pub const CNTL_STACK_TAIL: u32 = 8;
/// Waves per CU on gfx9 that the area is sized for.
pub const WAVES_PER_CU_GFX9: u32 = 40;
/// Waves per shader engine that the area is sized for.
pub const WAVES_PER_SE: u32 = 512;
/// VGPRs of one CU on gfx90a, gfx942 and gfx950.
pub const VGPR_SIZE_PER_CU_GFX942: u32 = 0x80000;
/// SGPRs of one CU.
pub const SGPR_SIZE_PER_CU: u32 = 0x4000;
/// LDS of one CU.
pub const LDS_SIZE_PER_CU: u32 = 0x10000;
/// Hardware registers of one CU.
pub const HWREG_SIZE_PER_CU: u32 = 0x1000;
/// Debugger memory per wave.
pub const DEBUGGER_BYTES_PER_WAVE: u32 = 32;
/// Alignment of the debugger memory.
pub const DEBUGGER_ALIGN: u32 = 64;

/// Header: u32, where the control stack starts.
pub const CONTROL_STACK_OFFSET: usize = 0;
/// Header: u32, bytes of the control stack.
pub const CONTROL_STACK_SIZE: usize = 4;
/// Header: u32, end of the wave state.
pub const WAVE_STATE_OFFSET: usize = 8;
/// Header: u32, bytes of the wave state.
pub const WAVE_STATE_SIZE: usize = 12;
/// Header: u32, where the debugger's memory starts.
pub const DEBUG_OFFSET: usize = 16;
/// Header: u32, bytes of the debugger's memory.
pub const DEBUG_SIZE: usize = 20;
/// Header: u64, where an error's payload goes.
pub const ERR_PAYLOAD_ADDR: usize = 24;
/// Header: u32, the event to signal.
pub const ERR_EVENT_ID: usize = 32;

/// Bytes of the page-aligned pair of trap handler code and its memory (`KFD_CWSR_TBA_TMA_SIZE`).
pub const TBA_TMA_SIZE: usize = 8192;
/// Offset of the trap handler's memory in it (`KFD_CWSR_TMA_OFFSET`).
pub const TMA_OFFSET: usize = 4096 + 2048;
