// SPDX-License-Identifier: GPL-2.0

//! Ioctls of `/dev/kfd`: dispatch table, copying of arguments.
//!
//! A command is identified by its number. Its size may differ from the driver's in both directions,
//! because argument structs grow: missing bytes are zero, excess bytes are copied back unchanged.
//! The arguments are copied out also if the ioctl failed, as WAIT_EVENTS requires.

use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    transmute::AsBytes,
    uaccess::{UserPtr, UserSlice},
};

use crate::{
    process::KfdFile,
    trace::IoctlTimer,
    uapi::{self, *},
};

mod debug;
mod dmabuf;
mod event;
mod memory;
mod process;
mod profiler;
mod queue;
mod smi;
mod svm;
mod unsupported;
mod user;

/// Arguments up to this size in bytes are kept on the stack.
const STACK_SIZE: usize = 128;

/// One ioctl.
struct Entry {
    /// Command word of the UAPI header.
    cmd: u32,
    /// Handler: file, arguments, bytes of arguments that the caller passed. Returns the result of
    /// the ioctl.
    run: fn(&KfdFile, &mut [u8], usize) -> Result<isize>,
    /// Requires `CAP_CHECKPOINT_RESTORE` or `CAP_SYS_ADMIN`.
    privileged: bool,
}

macro_rules! table {
    ($($cmd:ident: $ty:ty => $run:path,)*) => {
        [$(Entry {
            cmd: uapi::$cmd,
            run: |file, data, _| $run(file.process(), user::args::<$ty>(data)?).map(|()| 0),
            privileged: false,
        },)*]
    };
}

/// Ioctls with a fixed argument struct.
const TABLE: &[Entry] = &table! {
    AMDKFD_IOC_GET_VERSION: kfd_ioctl_get_version_args => process::get_version,
    AMDKFD_IOC_CREATE_QUEUE: kfd_ioctl_create_queue_args => queue::create,
    AMDKFD_IOC_DESTROY_QUEUE: kfd_ioctl_destroy_queue_args => queue::destroy,
    AMDKFD_IOC_SET_MEMORY_POLICY: kfd_ioctl_set_memory_policy_args => process::set_memory_policy,
    AMDKFD_IOC_GET_CLOCK_COUNTERS: kfd_ioctl_get_clock_counters_args => process::get_clock_counters,
    AMDKFD_IOC_GET_PROCESS_APERTURES: kfd_ioctl_get_process_apertures_args
        => process::get_apertures,
    AMDKFD_IOC_UPDATE_QUEUE: kfd_ioctl_update_queue_args => queue::update,
    AMDKFD_IOC_CREATE_EVENT: kfd_ioctl_create_event_args => event::create,
    AMDKFD_IOC_DESTROY_EVENT: kfd_ioctl_destroy_event_args => event::destroy,
    AMDKFD_IOC_SET_EVENT: kfd_ioctl_set_event_args => event::set,
    AMDKFD_IOC_RESET_EVENT: kfd_ioctl_reset_event_args => event::reset,
    AMDKFD_IOC_WAIT_EVENTS: kfd_ioctl_wait_events_args => event::wait,
    AMDKFD_IOC_DBG_REGISTER_DEPRECATED: kfd_ioctl_dbg_register_args => unsupported::debugger,
    AMDKFD_IOC_DBG_UNREGISTER_DEPRECATED: kfd_ioctl_dbg_unregister_args => unsupported::debugger,
    AMDKFD_IOC_DBG_ADDRESS_WATCH_DEPRECATED: kfd_ioctl_dbg_address_watch_args
        => unsupported::debugger,
    AMDKFD_IOC_DBG_WAVE_CONTROL_DEPRECATED: kfd_ioctl_dbg_wave_control_args
        => unsupported::debugger,
    AMDKFD_IOC_SET_SCRATCH_BACKING_VA: kfd_ioctl_set_scratch_backing_va_args
        => process::set_scratch_backing_va,
    AMDKFD_IOC_GET_TILE_CONFIG: kfd_ioctl_get_tile_config_args => process::get_tile_config,
    AMDKFD_IOC_SET_TRAP_HANDLER: kfd_ioctl_set_trap_handler_args => process::set_trap_handler,
    AMDKFD_IOC_GET_PROCESS_APERTURES_NEW: kfd_ioctl_get_process_apertures_new_args
        => process::get_apertures_new,
    AMDKFD_IOC_ACQUIRE_VM: kfd_ioctl_acquire_vm_args => memory::acquire_vm,
    AMDKFD_IOC_ALLOC_MEMORY_OF_GPU: kfd_ioctl_alloc_memory_of_gpu_args => memory::alloc,
    AMDKFD_IOC_FREE_MEMORY_OF_GPU: kfd_ioctl_free_memory_of_gpu_args => memory::free,
    AMDKFD_IOC_MAP_MEMORY_TO_GPU: kfd_ioctl_map_memory_to_gpu_args => memory::map,
    AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU: kfd_ioctl_unmap_memory_from_gpu_args => memory::unmap,
    AMDKFD_IOC_SET_CU_MASK: kfd_ioctl_set_cu_mask_args => queue::set_cu_mask,
    AMDKFD_IOC_GET_QUEUE_WAVE_STATE: kfd_ioctl_get_queue_wave_state_args => queue::get_wave_state,
    AMDKFD_IOC_GET_DMABUF_INFO: kfd_ioctl_get_dmabuf_info_args => dmabuf::get_info,
    AMDKFD_IOC_IMPORT_DMABUF: kfd_ioctl_import_dmabuf_args => dmabuf::import,
    AMDKFD_IOC_ALLOC_QUEUE_GWS: kfd_ioctl_alloc_queue_gws_args => queue::alloc_gws,
    AMDKFD_IOC_SMI_EVENTS: kfd_ioctl_smi_events_args => smi::events,
    AMDKFD_IOC_SET_XNACK_MODE: kfd_ioctl_set_xnack_mode_args => process::set_xnack_mode,
    AMDKFD_IOC_AVAILABLE_MEMORY: kfd_ioctl_get_available_memory_args => memory::available,
    AMDKFD_IOC_EXPORT_DMABUF: kfd_ioctl_export_dmabuf_args => dmabuf::export,
    AMDKFD_IOC_RUNTIME_ENABLE: kfd_ioctl_runtime_enable_args => debug::runtime_enable,
};

/// Ioctls with variable arguments.
const RAW: &[Entry] = &[
    Entry {
        cmd: uapi::AMDKFD_IOC_SVM,
        run: |file, data, given| svm::svm(file.process(), data, given).map(|()| 0),
        privileged: false,
    },
    Entry {
        cmd: uapi::AMDKFD_IOC_CRIU_OP,
        run: |_, _, _| unsupported::criu().map(|()| 0),
        privileged: true,
    },
    Entry {
        cmd: uapi::AMDKFD_IOC_DBG_TRAP,
        run: |file, data, _| debug::debug_trap(file.process(), data),
        privileged: false,
    },
    Entry {
        cmd: uapi::AMDKFD_IOC_CREATE_PROCESS,
        run: |file, _, _| file.create_process().map(|()| 0),
        privileged: false,
    },
    Entry {
        cmd: uapi::AMDKFD_IOC_PROFILER,
        run: |file, data, _| profiler::profiler(file.process(), data).map(|()| 0),
        privileged: false,
    },
];

/// Entries by command number; all 256 numbers of an `_IOC` type.
static BY_NR: [Option<&Entry>; 1 << 8] = by_nr(&[TABLE, RAW]);

const fn by_nr(tables: &[&'static [Entry]]) -> [Option<&'static Entry>; 1 << 8] {
    let mut all = [None; 1 << 8];
    let mut of = 0;
    while of < tables.len() {
        let mut i = 0;
        while i < tables[of].len() {
            let entry = &tables[of][i];
            let slot = &mut all[Command(entry.cmd).nr() as usize];
            assert!(slot.is_none(), "two entries of one number");
            *slot = Some(entry);
            i += 1;
        }
        of += 1;
    }
    all
}

/// The `_IOC` fields of a command word.
struct Command(u32);

impl Command {
    /// Returns the number.
    const fn nr(&self) -> u8 {
        self.0 as u8
    }

    /// Returns the size of the arguments in bytes.
    fn size(&self) -> usize {
        u32_as_usize(self.0 >> 16 & 0x3fff)
    }

    /// Returns whether arguments are copied in.
    fn is_in(&self) -> bool {
        self.0 >> 30 & 1 != 0
    }

    /// Returns whether arguments are copied out.
    fn is_out(&self) -> bool {
        self.0 >> 31 & 1 != 0
    }
}

/// Runs the ioctl with command word `cmd` whose argument is at user address `arg`.
///
/// `ENOTTY` for an unknown number, `EBADF` if the caller is not the process that opened the file,
/// `EACCES` without the required capability, `EFAULT` if the arguments cannot be copied.
pub(crate) fn dispatch(file: &KfdFile, cmd: u32, arg: usize) -> Result<isize> {
    let process = file.process();
    let timer = IoctlTimer::start();
    let given = Command(cmd);
    let result = run(file, &given, arg);
    let ret = match &result {
        Ok(n) => i64::try_from(*n).unwrap_or(0),
        Err(e) => e.to_errno().into(),
    };
    timer.end(process.pid(), given.nr().into(), ret);
    if ret < 0 {
        pr_debug!(
            "process {}: ioctl {:#x} failed: {ret}\n",
            process.pid(),
            given.nr()
        );
    }
    result
}

fn run(file: &KfdFile, given: &Command, arg: usize) -> Result<isize> {
    let entry = BY_NR[usize::from(given.nr())].ok_or(ENOTTY)?;
    file.process().check_caller()?;
    if entry.privileged && !user::may_checkpoint() {
        return Err(EACCES);
    }
    let known = Command(entry.cmd);
    let size = given.size().max(known.size());

    let mut small = [0u64; STACK_SIZE / 8];
    // Dropping an empty vector is a call of the allocator.
    let mut large = None;
    let words: &mut [u64] = if size <= STACK_SIZE {
        &mut small
    } else {
        large.insert(KVec::from_elem(0, size.div_ceil(8), GFP_KERNEL)?)
    };
    // Words, for the alignment of the arguments.
    let data = AsBytes::as_bytes_mut(words).get_mut(..size).ok_or(EINVAL)?;

    let (mut reader, mut writer) =
        UserSlice::new(UserPtr::from_addr(arg), given.size()).reader_writer();
    if known.is_in() {
        reader.read_slice(data.get_mut(..given.size()).ok_or(EINVAL)?)?;
    }
    let result = (entry.run)(file, data, given.size());
    if known.is_out() {
        writer.write_slice(data.get(..given.size()).ok_or(EINVAL)?)?;
    }
    result
}
