// SPDX-License-Identifier: GPL-2.0

//! Structs and constants of the user space interface, generated from the kernel's headers.
//!
//! Values are validated in `ioctl` and `drm`.
//!
//! C headers: [`include/uapi/linux/kfd_ioctl.h`](srctree/include/uapi/linux/kfd_ioctl.h),
//! [`include/uapi/linux/kfd_sysfs.h`](srctree/include/uapi/linux/kfd_sysfs.h),
//! [`include/uapi/drm/amdgpu_drm.h`](srctree/include/uapi/drm/amdgpu_drm.h)

#![allow(dead_code, unused_imports)]

use kernel::transmute::{AsBytes, FromBytes};

pub(crate) use crate::bindings::*;

/// Declares structs of integers without padding: all bytes may be copied from and to user space.
macro_rules! plain {
    ($($name:ident: $size:literal,)*) => {$(
        const _: () = assert!(core::mem::size_of::<$name>() == $size);
        // SAFETY: The struct has integers and arrays of them, valid for all bit patterns.
        unsafe impl FromBytes for $name {}
        // SAFETY: The header pads explicitly: the size, asserted above, is the sum of the fields',
        // so that there are no uninitialized bytes.
        unsafe impl AsBytes for $name {}
    )*};
}

plain! {
    drm_amdgpu_bo_list_entry: 8,
    drm_amdgpu_bo_list_in: 24,
    drm_amdgpu_cs_chunk: 16,
    drm_amdgpu_cs_chunk_cp_gfx_shadow: 32,
    drm_amdgpu_cs_chunk_dep: 24,
    drm_amdgpu_cs_chunk_fence: 8,
    drm_amdgpu_cs_chunk_ib: 32,
    drm_amdgpu_cs_chunk_sem: 4,
    drm_amdgpu_cs_chunk_syncobj: 16,
    drm_amdgpu_fence: 24,
    drm_amdgpu_gem_create_in: 32,
    drm_amdgpu_gem_list_handles: 16,
    drm_amdgpu_gem_list_handles_entry: 40,
    drm_amdgpu_gem_op: 24,
    drm_amdgpu_gem_userptr: 24,
    drm_amdgpu_gem_va: 64,
    drm_amdgpu_gem_vm_entry: 32,
    drm_amdgpu_heap_info: 32,
    drm_amdgpu_info_device: 440,
    drm_amdgpu_info_firmware: 8,
    drm_amdgpu_info_gds: 32,
    drm_amdgpu_info_gpuvm_fault: 16,
    drm_amdgpu_info_num_handles: 8,
    drm_amdgpu_info_vbios: 200,
    drm_amdgpu_info_vce_clock_table: 104,
    drm_amdgpu_info_vram_gtt: 24,
    drm_amdgpu_memory_info: 96,
    drm_amdgpu_query_fw: 16,
    drm_amdgpu_userq_fence_info: 16,
    drm_amdgpu_userq_mqd_compute_gfx11: 8,
    kfd_context_save_area_header: 40,
    kfd_context_save_area_header__bindgen_ty_1: 16,
    kfd_dbg_device_info_entry: 128,
    kfd_hsa_hw_exception_data: 16,
    kfd_hsa_memory_exception_data: 32,
    kfd_hsa_signal_event_data: 8,
    kfd_ioctl_acquire_vm_args: 8,
    kfd_ioctl_alloc_memory_of_gpu_args: 40,
    kfd_ioctl_alloc_queue_gws_args: 16,
    kfd_ioctl_create_event_args: 32,
    kfd_ioctl_create_queue_args: 96,
    kfd_ioctl_dbg_address_watch_args: 16,
    kfd_ioctl_dbg_register_args: 8,
    kfd_ioctl_dbg_trap_clear_node_address_watch_args: 8,
    kfd_ioctl_dbg_trap_device_snapshot_args: 24,
    kfd_ioctl_dbg_trap_enable_args: 24,
    kfd_ioctl_dbg_trap_query_debug_event_args: 16,
    kfd_ioctl_dbg_trap_query_exception_info_args: 24,
    kfd_ioctl_dbg_trap_queue_snapshot_args: 24,
    kfd_ioctl_dbg_trap_resume_queues_args: 16,
    kfd_ioctl_dbg_trap_send_runtime_event_args: 16,
    kfd_ioctl_dbg_trap_set_exceptions_enabled_args: 8,
    kfd_ioctl_dbg_trap_set_flags_args: 8,
    kfd_ioctl_dbg_trap_set_node_address_watch_args: 24,
    kfd_ioctl_dbg_trap_set_wave_launch_mode_args: 8,
    kfd_ioctl_dbg_trap_set_wave_launch_override_args: 16,
    kfd_ioctl_dbg_trap_suspend_queues_args: 24,
    kfd_ioctl_dbg_unregister_args: 8,
    kfd_ioctl_dbg_wave_control_args: 16,
    kfd_ioctl_destroy_event_args: 8,
    kfd_ioctl_destroy_queue_args: 8,
    kfd_ioctl_export_dmabuf_args: 16,
    kfd_ioctl_free_memory_of_gpu_args: 8,
    kfd_ioctl_get_available_memory_args: 16,
    kfd_ioctl_get_clock_counters_args: 40,
    kfd_ioctl_get_dmabuf_info_args: 32,
    kfd_ioctl_get_process_apertures_args: 400,
    kfd_ioctl_get_process_apertures_new_args: 16,
    kfd_ioctl_get_queue_wave_state_args: 24,
    kfd_ioctl_get_tile_config_args: 40,
    kfd_ioctl_get_version_args: 8,
    kfd_ioctl_import_dmabuf_args: 24,
    kfd_ioctl_map_memory_to_gpu_args: 24,
    kfd_ioctl_pmc_settings: 12,
    kfd_ioctl_ptl_control: 8,
    kfd_ioctl_reset_event_args: 8,
    kfd_ioctl_runtime_enable_args: 16,
    kfd_ioctl_set_cu_mask_args: 16,
    kfd_ioctl_set_event_args: 8,
    kfd_ioctl_set_memory_policy_args: 32,
    kfd_ioctl_set_scratch_backing_va_args: 16,
    kfd_ioctl_set_trap_handler_args: 24,
    kfd_ioctl_set_xnack_mode_args: 4,
    kfd_ioctl_smi_events_args: 8,
    kfd_ioctl_svm_attribute: 8,
    kfd_ioctl_unmap_memory_from_gpu_args: 24,
    kfd_ioctl_update_queue_args: 24,
    kfd_ioctl_wait_events_args: 24,
    kfd_memory_exception_failure: 16,
    kfd_process_device_apertures: 56,
    kfd_queue_snapshot_entry: 64,
    kfd_runtime_info: 16,
}

/// Declares structs and unions of integers with padding: they are copied from user space, or are
/// views of a buffer that is initialized.
macro_rules! input {
    ($($name:ident: $size:literal,)*) => {$(
        const _: () = assert!(core::mem::size_of::<$name>() == $size);
        // SAFETY: The type has integers, arrays and unions of them, valid for all bit patterns.
        unsafe impl FromBytes for $name {}
    )*};
}

input! {
    drm_amdgpu_bo_list: 24,
    drm_amdgpu_cs: 24,
    drm_amdgpu_ctx: 16,
    drm_amdgpu_fence_to_handle: 32,
    drm_amdgpu_gem_create: 32,
    drm_amdgpu_gem_metadata: 288,
    drm_amdgpu_gem_mmap: 8,
    drm_amdgpu_gem_wait_idle: 16,
    drm_amdgpu_info: 32,
    drm_amdgpu_userq: 72,
    drm_amdgpu_userq_signal: 48,
    drm_amdgpu_userq_wait: 72,
    drm_amdgpu_wait_cs: 32,
    drm_amdgpu_wait_fences: 24,
    kfd_event_data: 48,
    kfd_ioctl_criu_args: 56,
    kfd_ioctl_dbg_trap_args: 32,
    kfd_ioctl_profiler_args: 16,
    kfd_ioctl_svm_args: 24,
}

/// Defines accessors of members of unions of integers, all bytes of which are initialized.
macro_rules! members {
    ($($(#[$attr:meta])* $name:ident: $of:ty => $($field:ident).+: $to:ty,)*) => {$(
        $(#[$attr])*
        pub(crate) fn $name(of: &$of) -> &$to {
            // SAFETY: The member has integers only. All bytes of the union are initialized: it was
            // copied from user space, or zeroed.
            unsafe { of.$($field).+.as_ref() }
        }
    )*};
}

members! {
    /// Returns the request of `BO_LIST`.
    bo_list_in: drm_amdgpu_bo_list => in_: drm_amdgpu_bo_list_in,
    /// Returns the request of `CS`.
    cs_in: drm_amdgpu_cs => in_: drm_amdgpu_cs_in,
    /// Returns the request of `CTX`.
    ctx_in: drm_amdgpu_ctx => in_: drm_amdgpu_ctx_in,
    /// Returns the request of `FENCE_TO_HANDLE`.
    fence_to_handle_in: drm_amdgpu_fence_to_handle => in_: drm_amdgpu_fence_to_handle__bindgen_ty_1,
    /// Returns the request of `WAIT_CS`.
    wait_cs_in: drm_amdgpu_wait_cs => in_: drm_amdgpu_wait_cs_in,
    /// Returns the request of `WAIT_FENCES`.
    wait_fences_in: drm_amdgpu_wait_fences => in_: drm_amdgpu_wait_fences_in,
    /// Returns the request of `GEM_CREATE`.
    gem_create_in: drm_amdgpu_gem_create => in_: drm_amdgpu_gem_create_in,
    /// Returns the request of `GEM_MMAP`.
    gem_mmap_in: drm_amdgpu_gem_mmap => in_: drm_amdgpu_gem_mmap_in,
    /// Returns the request of `GEM_WAIT_IDLE`.
    gem_wait_idle_in: drm_amdgpu_gem_wait_idle => in_: drm_amdgpu_gem_wait_idle_in,
    /// Returns the request of `USERQ`.
    userq_in: drm_amdgpu_userq => in_: drm_amdgpu_userq_in,
    /// Returns the block argument of an `INFO` query.
    info_hw_ip: drm_amdgpu_info => __bindgen_anon_1.query_hw_ip:
        drm_amdgpu_info__bindgen_ty_1__bindgen_ty_2,
    /// Returns the registers argument of an `INFO` query.
    info_read_mmr_reg: drm_amdgpu_info => __bindgen_anon_1.read_mmr_reg:
        drm_amdgpu_info__bindgen_ty_1__bindgen_ty_3,
    /// Returns the VBIOS argument of an `INFO` query.
    info_vbios: drm_amdgpu_info => __bindgen_anon_1.vbios_info:
        drm_amdgpu_info__bindgen_ty_1__bindgen_ty_4,
    /// Returns the sensor argument of an `INFO` query.
    info_sensor: drm_amdgpu_info => __bindgen_anon_1.sensor_info:
        drm_amdgpu_info__bindgen_ty_1__bindgen_ty_5,
    /// Returns the firmware argument of an `INFO` query.
    info_query_fw: drm_amdgpu_info => __bindgen_anon_1.query_fw: drm_amdgpu_query_fw,
}

/// Defines constructors of replies: unions of integers with some members set and all other bytes
/// zero.
macro_rules! replies {
    ($(
        $(#[$attr:meta])*
        $name:ident($($value:ident: $ty:ty),*): $of:ty => $($field:ident).+;
    )*) => {$(
        $(#[$attr])*
        pub(crate) fn $name($($value: $ty),*) -> $of {
            let mut all = <$of>::default();
            // SAFETY: The member has integers only, and `default()` zeroes all bytes of the union.
            let out = unsafe { replies!(@member all, $($field).+) };
            $(out.$value = $value;)*
            all
        }
    )*};
    (@member $all:ident, out) => { $all.out.as_mut() };
    (@member $all:ident, out.$inner:ident) => { $all.out.as_mut().$inner.as_mut() };
}

replies! {
    /// Returns the reply of `BO_LIST`.
    bo_list_out(list_handle: u32): drm_amdgpu_bo_list => out;
    /// Returns the reply of `CS`.
    cs_out(handle: u64): drm_amdgpu_cs => out;
    /// Returns the reply of `CTX` to `AMDGPU_CTX_OP_ALLOC_CTX`.
    ctx_alloc_out(ctx_id: u32): drm_amdgpu_ctx => out.alloc;
    /// Returns the reply of `CTX` to `AMDGPU_CTX_OP_QUERY_STATE`.
    ctx_state_out(flags: u64, reset_status: u32): drm_amdgpu_ctx => out.state;
    /// Returns the reply of `CTX` to `AMDGPU_CTX_OP_GET_STABLE_PSTATE`.
    ctx_pstate_out(flags: u32): drm_amdgpu_ctx => out.pstate;
    /// Returns the reply of `FENCE_TO_HANDLE`.
    fence_to_handle_out(handle: u32): drm_amdgpu_fence_to_handle => out;
    /// Returns the reply of `GEM_CREATE`.
    gem_create_out(handle: u32): drm_amdgpu_gem_create => out;
    /// Returns the reply of `GEM_MMAP`.
    gem_mmap_out(addr_ptr: u64): drm_amdgpu_gem_mmap => out;
    /// Returns the reply of `GEM_WAIT_IDLE`.
    gem_wait_idle_out(status: u32): drm_amdgpu_gem_wait_idle => out;
    /// Returns the reply of `USERQ`.
    userq_out(queue_id: u32): drm_amdgpu_userq => out;
    /// Returns the reply of `WAIT_CS`.
    wait_cs_out(status: u64): drm_amdgpu_wait_cs => out;
    /// Returns the reply of `WAIT_FENCES`.
    wait_fences_out(status: u32, first_signaled: u32): drm_amdgpu_wait_fences => out;
}

/// Returns the bytes of a reply that has padding at its end, which is zero here.
pub(crate) fn hw_ip_bytes(
    info: &drm_amdgpu_info_hw_ip,
) -> [u8; size_of::<drm_amdgpu_info_hw_ip>()] {
    let mut bytes = [0; size_of::<drm_amdgpu_info_hw_ip>()];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    macro_rules! fields {
        ($($field:ident),*) => {$(
            put(core::mem::offset_of!(drm_amdgpu_info_hw_ip, $field), &info.$field.to_ne_bytes());
        )*};
    }
    fields!(
        hw_ip_version_major,
        hw_ip_version_minor,
        capabilities_flags,
        ib_start_alignment,
        ib_size_alignment,
        available_rings,
        ip_discovery_version,
        userq_num_slots
    );
    bytes
}

/// Exception codes, without the prefix of their enum.
pub(crate) use crate::bindings::{
    kfd_dbg_trap_exception_code_EC_DEVICE_MEMORY_VIOLATION as EC_DEVICE_MEMORY_VIOLATION,
    kfd_dbg_trap_exception_code_EC_DEVICE_NEW as EC_DEVICE_NEW,
    kfd_dbg_trap_exception_code_EC_DEVICE_QUEUE_DELETE as EC_DEVICE_QUEUE_DELETE,
    kfd_dbg_trap_exception_code_EC_PROCESS_DEVICE_REMOVE as EC_PROCESS_DEVICE_REMOVE,
    kfd_dbg_trap_exception_code_EC_PROCESS_RUNTIME as EC_PROCESS_RUNTIME,
    kfd_dbg_trap_exception_code_EC_QUEUE_NEW as EC_QUEUE_NEW,
    kfd_dbg_trap_exception_code_EC_QUEUE_PACKET_DISPATCH_DIM_INVALID as EC_QUEUE_PACKET_DISPATCH_DIM_INVALID,
    kfd_dbg_trap_exception_code_EC_QUEUE_PACKET_VENDOR_UNSUPPORTED as EC_QUEUE_PACKET_VENDOR_UNSUPPORTED,
    kfd_dbg_trap_exception_code_EC_QUEUE_PREEMPTION_ERROR as EC_QUEUE_PREEMPTION_ERROR,
    kfd_dbg_trap_exception_code_EC_QUEUE_WAVE_ABORT as EC_QUEUE_WAVE_ABORT,
    kfd_dbg_trap_exception_code_EC_QUEUE_WAVE_APERTURE_VIOLATION as EC_QUEUE_WAVE_APERTURE_VIOLATION,
};

/// Operations of DBG_TRAP, without the prefix of their enum.
pub(crate) use crate::bindings::{
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH as KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_DISABLE as KFD_IOC_DBG_TRAP_DISABLE,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_ENABLE as KFD_IOC_DBG_TRAP_ENABLE,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT as KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT as KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT as KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO as KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_RESUME_QUEUES as KFD_IOC_DBG_TRAP_RESUME_QUEUES,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT as KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED as KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SET_FLAGS as KFD_IOC_DBG_TRAP_SET_FLAGS,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH as KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE as KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE as KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE,
    kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SUSPEND_QUEUES as KFD_IOC_DBG_TRAP_SUSPEND_QUEUES,
};

/// States of the runtime, without the prefix of their enum.
pub(crate) use crate::bindings::{
    kfd_dbg_runtime_state_DEBUG_RUNTIME_STATE_DISABLED as DEBUG_RUNTIME_STATE_DISABLED,
    kfd_dbg_runtime_state_DEBUG_RUNTIME_STATE_ENABLED as DEBUG_RUNTIME_STATE_ENABLED,
};

/// Settings of waves of DBG_TRAP, without the prefixes of their enums.
pub(crate) use crate::bindings::{
    kfd_dbg_trap_flags_KFD_DBG_TRAP_FLAG_LDS_OUT_OF_ADDR_RANGE as KFD_DBG_TRAP_FLAG_LDS_OUT_OF_ADDR_RANGE,
    kfd_dbg_trap_flags_KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP as KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP,
    kfd_dbg_trap_flags_KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP as KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP,
    kfd_dbg_trap_override_mode_KFD_DBG_TRAP_OVERRIDE_OR as KFD_DBG_TRAP_OVERRIDE_OR,
    kfd_dbg_trap_override_mode_KFD_DBG_TRAP_OVERRIDE_REPLACE as KFD_DBG_TRAP_OVERRIDE_REPLACE,
    kfd_dbg_trap_wave_launch_mode_KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG as KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG,
    kfd_dbg_trap_wave_launch_mode_KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT as KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT,
    kfd_dbg_trap_wave_launch_mode_KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL as KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL,
};
