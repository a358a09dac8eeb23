// SPDX-License-Identifier: GPL-2.0

//! Ioctls about the process as a whole and its settings on a GPU.

use kernel::{
    prelude::*,
    sync::Arc,
    time::{BootTime, ClockSource},
    transmute::AsBytes,
    uaccess::{UserPtr, UserSlice},
};

use crate::{
    dqm::GpuDqm,
    kapi::task,
    process::{Device, Process},
    topology,
    uapi::*,
};

/// The interface that user space may count on; `Documentation/abi.rst` says what each step brought.
const VERSION: (u32, u32) = (1, 17);

/// Ticks per second of the clock that `system_clock_counter` counts: it is in nanoseconds.
const SYSTEM_CLOCK_HZ: u64 = 1_000_000_000;

/// Entries of the tables of tiling modes that the interface has room for.
const TILE_MODES: u32 = 32;
const MACRO_TILE_MODES: u32 = 16;

/// The GPU half and the id half of a handle.
pub(super) fn device_of_handle(process: &Process, handle: u64) -> Result<(&Arc<Device>, u32)> {
    let device = process.device((handle >> 32) as u32)?;
    Ok((device, handle as u32))
}

pub(super) fn get_version(_: &Arc<Process>, args: &mut kfd_ioctl_get_version_args) -> Result {
    (args.major_version, args.minor_version) = VERSION;
    Ok(())
}

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
    // Caching is a matter of page table entries on this hardware: there is no alternate aperture
    // and no policy register to set.
    process.device(args.gpu_id)?.slot().map_err(|_| ESRCH)?;
    Ok(())
}

pub(super) fn get_clock_counters(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_get_clock_counters_args,
) -> Result {
    args.gpu_clock_counter = match process.device(args.gpu_id) {
        Ok(device) => device.gpu().clock_counter()?,
        Err(_) => 0,
    };
    args.cpu_clock_counter = task::ktime_get_raw_ns();
    args.system_clock_counter = BootTime::ktime_get() as u64;
    args.system_clock_freq = SYSTEM_CLOCK_HZ;
    Ok(())
}

fn apertures_of(device: &Device) -> kfd_process_device_apertures {
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

pub(super) fn get_apertures_new(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_get_process_apertures_new_args,
) -> Result {
    let devices = process.devices();
    if args.num_of_nodes == 0 {
        args.num_of_nodes = devices.len() as u32;
        return Ok(());
    }
    if args.num_of_nodes as usize > topology::nodes()?.len() {
        return Err(EINVAL);
    }
    let count = devices.len().min(args.num_of_nodes as usize);
    let size = core::mem::size_of::<kfd_process_device_apertures>();
    let array = UserPtr::from_addr(args.kfd_process_device_apertures_ptr as usize);
    let mut writer = UserSlice::new(array, count * size).writer();
    args.num_of_nodes = count as u32;
    for device in devices.iter().take(count) {
        writer.write(&apertures_of(device))?;
    }
    Ok(())
}

pub(super) fn set_scratch_backing_va(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_set_scratch_backing_va_args,
) -> Result {
    let _state = process.lock()?;
    // The firmware takes the base from each AQL queue's descriptor; nothing is programmed.
    process.device(args.gpu_id)?.vm()?;
    Ok(())
}

pub(super) fn set_trap_handler(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_set_trap_handler_args,
) -> Result {
    let _state = process.lock()?;
    let device = process.device(args.gpu_id)?;
    device.slot().map_err(|_| ESRCH)?;
    // Waves that come by see the change at once.
    device.set_trap_handler(args.tba_addr, args.tma_addr)
}

fn write_zeroes(addr: u64, words: u32) -> Result {
    let zeroes = [0u32; TILE_MODES as usize];
    let words = zeroes.get(..words as usize).ok_or(EINVAL)?;
    let bytes = AsBytes::as_bytes(words);
    UserSlice::new(UserPtr::from_addr(addr as usize), bytes.len())
        .writer()
        .write_slice(bytes)
}

pub(super) fn get_tile_config(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_get_tile_config_args,
) -> Result {
    let device = process.device(args.gpu_id)?;
    args.gb_addr_config = device.gpu().config().gb_addr_config;
    // Tables of tiling modes, banks and ranks belong to older hardware; here they are zero.
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

pub(super) fn set_xnack_mode(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_set_xnack_mode_args,
) -> Result {
    let state = process.lock()?;
    if args.xnack_enabled < 0 {
        args.xnack_enabled = 0;
        return Ok(());
    }
    if !state.queues.is_empty() {
        return Err(EBUSY);
    }
    // Retry faults are never on.
    if args.xnack_enabled == 0 {
        Ok(())
    } else {
        Err(EPERM)
    }
}

pub(super) fn runtime_enable(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_runtime_enable_args,
) -> Result {
    let mut state = process.lock()?;
    if args.mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK == 0 {
        state.runtime_enabled = false;
        return tell_schedulers(process, false);
    }
    if state.runtime_enabled {
        return Err(EBUSY);
    }
    if !state.queues.is_empty() {
        return Err(EEXIST);
    }
    tell_schedulers(process, true)?;
    state.runtime_enabled = true;
    Ok(())
}

/// Tells the schedulers of all GPUs that the process uses that its runtime is there, or not.
fn tell_schedulers(process: &Process, enabled: bool) -> Result {
    for device in process.devices() {
        let Ok(slot) = device.slot() else {
            continue;
        };
        device.gpu().dqm()?.set_runtime(&slot, enabled)?;
    }
    Ok(())
}
