// SPDX-License-Identifier: GPL-2.0

//! Ioctls about the process as a whole and its settings on a GPU.

use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    sync::Arc,
    time::{BootTime, ClockSource},
    transmute::AsBytes,
};

use crate::{
    kapi::{
        timekeeping,
        uaccess::{self, user_slice},
    },
    process::{Process, ProcessDevice},
    topology,
    uapi::*,
};

/// Version of the interface, `KFD_IOCTL_MAJOR_VERSION` and the minor one. `Documentation/abi.rst`
/// lists the changes.
const VERSION: (u32, u32) = (1, 23);

/// Frequency in Hz of `system_clock_counter`, which counts ns.
const SYSTEM_CLOCK_HZ: u64 = 1_000_000_000;

/// Maximum numbers of tiling modes in GET_TILE_CONFIG.
const TILE_MODES: u32 = 32;
const MACRO_TILE_MODES: u32 = 16;

/// `GET_VERSION`.
pub(super) fn get_version(_: &Arc<Process>, args: &mut kfd_ioctl_get_version_args) -> Result {
    (args.major_version, args.minor_version) = VERSION;
    Ok(())
}

/// `SET_MEMORY_POLICY`. `EINVAL` for an unknown policy or GPU, `ESRCH` before `ACQUIRE_VM`.
pub(super) fn set_memory_policy(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_set_memory_policy_args,
) -> Result {
    let known = [
        KFD_IOC_CACHE_POLICY_COHERENT,
        KFD_IOC_CACHE_POLICY_NONCOHERENT,
    ];
    if !known.contains(&args.default_policy) || !known.contains(&args.alternate_policy) {
        return Err(EINVAL);
    }
    let _state = process.lock()?;
    // PTEs determine the caching on this hardware; there is neither an alternate aperture nor a
    // policy register.
    process.device(args.gpu_id)?.slot().map_err(|_| ESRCH)?;
    Ok(())
}

/// `GET_CLOCK_COUNTERS`. The counter of an unknown GPU is 0.
pub(super) fn get_clock_counters(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_get_clock_counters_args,
) -> Result {
    args.gpu_clock_counter = match process.device(args.gpu_id) {
        Ok(device) => device.gpu().clock_counter()?,
        Err(_) => 0,
    };
    args.cpu_clock_counter = timekeeping::ktime_get_raw_ns();
    args.system_clock_counter = u64::try_from(BootTime::ktime_get())?;
    args.system_clock_freq = SYSTEM_CLOCK_HZ;
    Ok(())
}

/// Returns the apertures in the format of the ioctls.
fn apertures_of(device: &ProcessDevice) -> kfd_process_device_apertures {
    let apertures = device.apertures();
    kfd_process_device_apertures {
        lds_base: apertures.lds_base,
        lds_limit: apertures.lds_limit,
        scratch_base: apertures.scratch_base,
        scratch_limit: apertures.scratch_limit,
        gpuvm_base: apertures.gpuvm_base,
        gpuvm_limit: apertures.gpuvm_limit,
        gpu_id: device.id(),
        pad: 0,
    }
}

/// `GET_PROCESS_APERTURES`.
pub(super) fn get_apertures(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_get_process_apertures_args,
) -> Result {
    args.num_of_nodes = 0;
    let _state = process.lock()?;
    for (to, device) in args.process_apertures.iter_mut().zip(process.devices()) {
        *to = apertures_of(device);
        args.num_of_nodes += 1;
    }
    Ok(())
}

/// `GET_PROCESS_APERTURES_NEW`; returns the number of GPUs only if `num_of_nodes` is 0. `EINVAL` if
/// it exceeds the number of topology nodes, `EFAULT` if the array cannot be written.
pub(super) fn get_apertures_new(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_get_process_apertures_new_args,
) -> Result {
    let devices = process.devices();
    if args.num_of_nodes == 0 {
        args.num_of_nodes = u32::try_from(devices.len())?;
        return Ok(());
    }
    if u32_as_usize(args.num_of_nodes) > topology::count() {
        return Err(EINVAL);
    }
    let count = devices.len().min(u32_as_usize(args.num_of_nodes));
    let size = core::mem::size_of::<kfd_process_device_apertures>();
    let mut writer = user_slice(args.kfd_process_device_apertures_ptr, count * size).writer();
    args.num_of_nodes = u32::try_from(count)?;
    for device in devices.iter().take(count) {
        writer.write(&apertures_of(device))?;
    }
    Ok(())
}

/// `SET_SCRATCH_BACKING_VA`. `EINVAL` without such a GPU, `ENODEV` before `ACQUIRE_VM`.
pub(super) fn set_scratch_backing_va(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_set_scratch_backing_va_args,
) -> Result {
    let _state = process.lock()?;
    // No register to program: the firmware takes the base from the amd_queue_t of each AQL queue.
    process.device(args.gpu_id)?.vm()?;
    Ok(())
}

/// `SET_TRAP_HANDLER`. `EINVAL` without such a GPU, `ESRCH` before `ACQUIRE_VM`.
pub(super) fn set_trap_handler(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_set_trap_handler_args,
) -> Result {
    let _state = process.lock()?;
    let device = process.device(args.gpu_id)?;
    device.slot().map_err(|_| ESRCH)?;
    // Takes effect for running waves at once.
    device.set_trap_handler(args.tba_addr, args.tma_addr)
}

/// Writes zeroes to user memory. `EFAULT` if that fails.
fn write_zeroes(addr: u64, words: u32) -> Result {
    let zeroes = [0u32; u32_as_usize(TILE_MODES)];
    let words = zeroes.get(..u32_as_usize(words)).ok_or(EINVAL)?;
    uaccess::write(addr, AsBytes::as_bytes(words))
}

/// `GET_TILE_CONFIG`. `EINVAL` without such a GPU, `EFAULT` if the arrays cannot be written.
pub(super) fn get_tile_config(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_get_tile_config_args,
) -> Result {
    let device = process.device(args.gpu_id)?;
    args.gb_addr_config = device.gpu().config().core().gb_addr_config;
    // Tiling modes, banks and ranks exist on older hardware only: all zero.
    args.num_banks = 0;
    args.num_ranks = 0;
    args.num_tile_configs = args.num_tile_configs.min(TILE_MODES);
    if let Err(e) = write_zeroes(args.tile_config_ptr, args.num_tile_configs) {
        args.num_tile_configs = 0;
        return Err(e);
    }
    args.num_macro_tile_configs = args.num_macro_tile_configs.min(MACRO_TILE_MODES);
    if let Err(e) = write_zeroes(args.macro_tile_config_ptr, args.num_macro_tile_configs) {
        args.num_macro_tile_configs = 0;
        return Err(e);
    }
    Ok(())
}

/// `SET_XNACK_MODE`, or with a negative mode GET. `EBUSY` if the process has queues, `EPERM` to
/// enable XNACK on GPUs without retry faults, `ENOMEM` to disable it if shared virtual memory
/// exceeds the limit then, `ESRCH` if the process is ending.
pub(super) fn set_xnack_mode(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_set_xnack_mode_args,
) -> Result {
    if args.xnack_enabled < 0 {
        let _state = process.lock()?;
        args.xnack_enabled = i32::from(process.svm().retries());
        return Ok(());
    }
    let mut retries = process.svm().lock_retries()?;
    let state = process.lock()?;
    if !state.queues.is_empty() {
        return Err(EBUSY);
    }
    process.set_xnack(&mut retries, args.xnack_enabled != 0)
}
