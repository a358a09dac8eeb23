// SPDX-License-Identifier: GPL-2.0

//! `DBG_TRAP`: operations of a debugger on a process, and `RUNTIME_ENABLE`.

use core::mem::{offset_of, size_of};

use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    sync::{lock::mutex::MutexGuard, Arc},
    task::Pid,
    transmute::AsBytes,
};
use rkfd_abi::doorbell::PER_PROCESS;

use super::{
    event::memory_data,
    user::{self, args},
};
use crate::{
    dqm::DqmQueue,
    hw::{QueueFormat, TRAPS},
    kapi::{file::Notified, task, uaccess},
    process::{
        debug::{ExceptionInfo, Interrupted, Runtime},
        table, Process, ProcessDevice, ProcessState,
    },
    queue::{Exceptions, Queue, QueueKind, SavedWords},
    topology,
    uapi::*,
};

/// In a queue id: the queue does not exist, is new, or is being destroyed.
const INVALID: u32 = 1 << KFD_DBG_QUEUE_INVALID_BIT;
/// In a queue id: the scheduler failed.
const ERROR: u32 = 1 << KFD_DBG_QUEUE_ERROR_BIT;

/// Modes of SET_WAVE_LAUNCH_MODE.
const LAUNCH_MODES: [u32; 3] = [
    KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL,
    KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT,
    KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG,
];

type State<'a> = MutexGuard<'a, ProcessState>;

/// Returns the runtime in the format of the ioctls.
fn runtime_info(runtime: Runtime) -> kfd_runtime_info {
    kfd_runtime_info {
        r_debug: runtime.r_debug,
        runtime_state: if runtime.enabled {
            DEBUG_RUNTIME_STATE_ENABLED
        } else {
            DEBUG_RUNTIME_STATE_DISABLED
        },
        ttmp_setup: runtime.ttmp_setup.into(),
    }
}

/// Passes the state of the runtime to the schedulers of all GPUs that the process uses.
fn set_runtime_on_gpus(process: &Process, enabled: bool) -> Result {
    for device in process.devices() {
        let Ok(slot) = device.slot() else {
            continue;
        };
        device.node().dqm().set_runtime(&slot, enabled)?;
    }
    Ok(())
}

/// `RUNTIME_ENABLE`. `EBUSY` if it is enabled already, `EEXIST` if the process has queues. With a
/// debugger, waits for its reply: `EINTR` after a signal; another call continues the wait.
pub(super) fn runtime_enable(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_runtime_enable_args,
) -> Result {
    let state = process.lock()?;
    let interrupted = process.interrupted_runtime();
    let session = if args.mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK == 0 {
        let notify = !matches!(interrupted, Interrupted::Waiting(_));
        let session = process.set_runtime(&state, Runtime::default(), notify);
        set_runtime_on_gpus(process, false)?;
        session
    } else if let Interrupted::Waiting(session) = interrupted {
        Some(session)
    } else {
        if process.runtime_enabled() {
            return match interrupted {
                Interrupted::Over => Ok(()),
                _ => Err(EBUSY),
            };
        }
        if !state.queues.is_empty() {
            return Err(EEXIST);
        }
        set_runtime_on_gpus(process, true).inspect_err(|_| {
            // Only clears flags, also on GPUs that were not reached.
            let _ = set_runtime_on_gpus(process, false);
        })?;
        let runtime = Runtime {
            r_debug: args.r_debug,
            enabled: true,
            ttmp_setup: args.mode_mask & KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK != 0,
        };
        process.set_runtime(&state, runtime, true)
    };
    drop(state);
    if let Some(session) = session {
        process.wait_for_debugger(session)?;
    }
    Ok(())
}

/// `DBG_TRAP`. `EOPNOTSUPP` for a secondary process, `ESRCH` without such a process or if it does
/// not use GPUs, `EPERM` if the caller is not its tracer or debugger or the operation needs a
/// runtime, `EINVAL` without a session or for an unknown operation.
pub(super) fn debug_trap(process: &Arc<Process>, data: &mut [u8]) -> Result<isize> {
    if !process.is_primary() {
        return Err(EOPNOTSUPP);
    }
    let (head, data) = data
        .split_at_mut_checked(offset_of!(kfd_ioctl_dbg_trap_args, __bindgen_anon_1))
        .ok_or(EINVAL)?;
    let [pid, op] = *args::<[u32; 2]>(head)?;
    let is_enable = op == KFD_IOC_DBG_TRAP_ENABLE;

    let target = find_target(pid, is_enable)?;
    if !target.may_be_debugged_by(process) {
        pr_debug!("process {pid} is not traced and cannot be debugged\n");
        return Err(EPERM);
    }
    if is_enable {
        return enable(process, &target, args(data)?).map(|()| 0);
    }
    // The state may change before the operation, which checks it again.
    drop(lock(&target, op)?);
    match op {
        KFD_IOC_DBG_TRAP_SUSPEND_QUEUES => suspend(&target, op, args(data)?),
        KFD_IOC_DBG_TRAP_RESUME_QUEUES => resume(&target, op, args(data)?),
        _ => execute(&target, op, data).map(|()| 0),
    }
}

/// Returns the process with a PID, also that of a program that the caller has started as its
/// debugger, for which it is created. `ESRCH` if there is none.
fn find_target(pid: u32, is_enable: bool) -> Result<Arc<Process>> {
    let task = task::find(Pid::from_ne_bytes(pid.to_ne_bytes())).ok_or(ESRCH)?;
    match table::by_task(&task) {
        Some(target) => Ok(target),
        None if is_enable && task::is_traced_by_current(&task) => table::open_for(&task),
        None => Err(ESRCH),
    }
}

/// Executes an operation other than ENABLE, SUSPEND_QUEUES and RESUME_QUEUES.
fn execute(target: &Arc<Process>, op: u32, data: &mut [u8]) -> Result {
    match op {
        KFD_IOC_DBG_TRAP_DISABLE => {
            let state = lock(target, op)?;
            target.detach_debugger(&state);
            Ok(())
        }
        KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT => {
            let args: &mut kfd_ioctl_dbg_trap_send_runtime_event_args = args(data)?;
            let exceptions = Exceptions(args.exception_mask);
            let state = lock(target, op)?;
            target.send_to_runtime(&state, args.gpu_id, args.queue_id, exceptions)
        }
        KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED => {
            let args: &mut kfd_ioctl_dbg_trap_set_exceptions_enabled_args = args(data)?;
            let state = lock(target, op)?;
            target.enable_exceptions(&state, Exceptions(args.exception_mask));
            Ok(())
        }
        KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE => set_launch_override(target, op, args(data)?),
        KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE => set_launch_mode(target, op, args(data)?),
        KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH => set_watchpoint(target, op, args(data)?),
        KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH => clear_watchpoint(target, op, args(data)?),
        KFD_IOC_DBG_TRAP_SET_FLAGS => set_flags(target, op, args(data)?),
        KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT => query_event(target, op, args(data)?),
        KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO => exception_info(target, op, args(data)?),
        KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT => queue_snapshot(target, op, args(data)?),
        KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT => device_snapshot(target, op, args(data)?),
        _ => Err(EINVAL),
    }
}

/// `EINVAL` for an unknown mode, otherwise as [`lock`].
fn set_launch_mode(
    target: &Process,
    op: u32,
    args: &mut kfd_ioctl_dbg_trap_set_wave_launch_mode_args,
) -> Result {
    // C: an u8.
    let [mode, ..] = args.launch_mode.to_le_bytes();
    if !LAUNCH_MODES.contains(&mode.into()) {
        return Err(EINVAL);
    }
    let state = lock(target, op)?;
    target.change_waves(&state, |waves| waves.launch_mode = mode)
}

/// `ENODEV` without such a GPU.
fn set_watchpoint(
    target: &Process,
    op: u32,
    args: &mut kfd_ioctl_dbg_trap_set_node_address_watch_args,
) -> Result {
    let _state = lock(target, op)?;
    let device = target.device(args.gpu_id).map_err(|_| ENODEV)?;
    let slot = device.slot()?;
    let dqm = device.node().dqm();
    args.id = dqm.set_watchpoint(&slot, args.address, args.mask, args.mode)?;
    Ok(())
}

/// `ENODEV` without such a GPU.
fn clear_watchpoint(
    target: &Process,
    op: u32,
    args: &mut kfd_ioctl_dbg_trap_clear_node_address_watch_args,
) -> Result {
    let _state = lock(target, op)?;
    let device = target.device(args.gpu_id).map_err(|_| ENODEV)?;
    let slot = device.slot()?;
    device.node().dqm().clear_watchpoint(&slot, args.id)
}

/// `EAGAIN` without an event.
fn query_event(
    target: &Process,
    op: u32,
    args: &mut kfd_ioctl_dbg_trap_query_debug_event_args,
) -> Result {
    let clear = Exceptions(args.exception_mask);
    let state = lock(target, op)?;
    (args.exception_mask, args.queue_id, args.gpu_id) = (0, 0, 0);
    let event = target.take_event(&state, clear)?;
    args.exception_mask = event.exceptions.0;
    args.queue_id = event.queue;
    args.gpu_id = event.gpu;
    Ok(())
}

/// Returns whether an operation changes the hardware, which needs a runtime.
fn needs_runtime(op: u32) -> bool {
    [
        KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE,
        KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE,
        KFD_IOC_DBG_TRAP_SUSPEND_QUEUES,
        KFD_IOC_DBG_TRAP_RESUME_QUEUES,
        KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH,
        KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH,
        KFD_IOC_DBG_TRAP_SET_FLAGS,
    ]
    .contains(&op)
}

/// Locks the target of an operation other than ENABLE. `ESRCH` if it has ended, `EINVAL` without a
/// session, `EPERM` if the operation needs a runtime.
fn lock(target: &Process, op: u32) -> Result<State<'_>> {
    let state = target.lock().map_err(|_| ESRCH)?;
    if !target.is_debugged() {
        return Err(EINVAL);
    }
    if needs_runtime(op) && !target.runtime_enabled() {
        return Err(EPERM);
    }
    Ok(state)
}

/// Writes bytes to the caller, as many as fit.
fn write_part(at: u64, size: u32, bytes: &[u8]) -> Result {
    uaccess::write(at, bytes.get(..u32_as_usize(size)).unwrap_or(bytes))
}

/// ENABLE. `EALREADY` if there is a session, `EBADF` without such a file, `EFAULT` if the runtime
/// cannot be written.
fn enable(
    debugger: &Process,
    target: &Arc<Process>,
    args: &mut kfd_ioctl_dbg_trap_enable_args,
) -> Result {
    let file = Notified::from_fd(args.dbg_fd);
    let (session, runtime) = {
        let state = target.lock().map_err(|_| ESRCH)?;
        if target.is_debugged() {
            return Err(EALREADY);
        }
        let enabled = Exceptions(args.exception_mask);
        let session = target.attach_debugger(&state, debugger, file?, enabled)?;
        (session, target.runtime())
    };
    let size = args.rinfo_size;
    args.rinfo_size = u32::try_from(size_of::<kfd_runtime_info>())?;
    write_part(args.rinfo_ptr, size, runtime_info(runtime).as_bytes()).inspect_err(|_| {
        // Not one that was started after the end of this one.
        if let Ok(state) = target.lock() {
            if target.session() == Some(session) {
                target.detach_debugger(&state);
            }
        }
    })
}

/// QUERY_EXCEPTION_INFO, see [`Process::take_exception`]. `EINVAL` without a buffer, `EFAULT` if
/// the data cannot be written: the exception stays raised.
fn exception_info(
    target: &Process,
    op: u32,
    args: &mut kfd_ioctl_dbg_trap_query_exception_info_args,
) -> Result {
    if args.info_ptr == 0 {
        return Err(EINVAL);
    }
    let (code, source) = (args.exception_code, args.source_id);
    let taken = {
        let state = lock(target, op)?;
        target.take_exception(&state, code, source, args.clear_exception != 0)?
    };
    let size = args.info_size;
    let written = match taken.info() {
        ExceptionInfo::None => Ok(0),
        ExceptionInfo::Runtime(runtime) => {
            let info = runtime_info(runtime);
            write_part(args.info_ptr, size, info.as_bytes()).map(|()| size_of_val(&info))
        }
        ExceptionInfo::Memory(fault) => {
            let info = memory_data(&fault);
            write_part(args.info_ptr, size, info.as_bytes()).map(|()| size_of_val(&info))
        }
    };
    if written.is_err() {
        target.put_back(taken);
    }
    args.info_size = u32::try_from(written?)?;
    Ok(())
}

/// SET_WAVE_LAUNCH_OVERRIDE. Returns the traps enabled before, and the supported ones. `EPERM` for
/// an unknown mode, `EACCES` if a requested trap is not supported.
fn set_launch_override(
    target: &Process,
    op: u32,
    args: &mut kfd_ioctl_dbg_trap_set_wave_launch_override_args,
) -> Result {
    let state = lock(target, op)?;
    let (enable, request) = (args.enable_mask, args.support_request_mask);
    let replace = match args.override_mode {
        KFD_DBG_TRAP_OVERRIDE_OR => false,
        KFD_DBG_TRAP_OVERRIDE_REPLACE => true,
        _ => return Err(EPERM),
    };
    args.support_request_mask = TRAPS;
    if request & !TRAPS != 0 {
        return Err(EACCES);
    }
    target.change_waves(&state, |waves| {
        args.enable_mask = waves.traps;
        waves.traps = enable & request | waves.traps & !request;
        waves.replace = replace;
    })
}

/// SET_FLAGS. Returns the flags before, which the GPUs have again after an error. `EACCES` if a GPU
/// does not support one.
fn set_flags(target: &Process, op: u32, args: &mut kfd_ioctl_dbg_trap_set_flags_args) -> Result {
    let state = lock(target, op)?;
    let flags = core::mem::replace(&mut args.flags, target.debug_flags());
    for device in target.devices() {
        let caps = device.gpu().generation().caps.debug_capability;
        let needed = [
            (
                KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP,
                caps & HSA_CAP_TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED != 0,
            ),
            (
                KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP,
                caps & HSA_CAP_TRAP_DEBUG_PRECISE_ALU_OPERATIONS_SUPPORTED != 0,
            ),
            // No generation supports it.
            (KFD_DBG_TRAP_FLAG_LDS_OUT_OF_ADDR_RANGE, false),
        ];
        if needed.iter().any(|(flag, has)| flags & flag != 0 && !has) {
            return Err(EACCES);
        }
    }
    let set = |flags: u32| {
        target.change_waves(&state, |waves| {
            waves.single_memop = flags & KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP != 0;
            waves.single_alu_op = flags & KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP != 0;
        })
    };
    if let Err(e) = set(flags) {
        // The GPUs before the one that failed have the new flags. That one may fail again.
        let _ = set(args.flags);
        return Err(e);
    }
    target.set_debug_flags(flags);
    Ok(())
}

/// Reads the queue ids of SUSPEND_QUEUES and RESUME_QUEUES, and marks them as invalid. `EINVAL` for
/// too many, `EFAULT` if they cannot be read.
fn read_ids(at: u64, count: u32) -> Result<KVec<u32>> {
    if u32_as_usize(count) > PER_PROCESS || at == 0 && count != 0 {
        return Err(EINVAL);
    }
    let mut ids = user::read_u32s(at, u32_as_usize(count))?;
    for id in &mut ids {
        *id |= INVALID;
    }
    Ok(ids)
}

/// Returns the first place of a queue in an array of ids.
fn place(ids: &mut [u32], queue: u32) -> Option<&mut u32> {
    ids.iter_mut().find(|id| **id & !INVALID == queue)
}

/// Writes queue ids back with the outcome of each. An error is the caller's.
fn write_ids(at: u64, ids: &[u32]) {
    if let Err(e) = user::write_u32s(at, ids) {
        pr_debug!("queue ids at {at:#x} were not written: {e:?}\n");
    }
}

/// SUSPEND_QUEUES. Returns the number of queues that are suspended.
fn suspend(
    target: &Arc<Process>,
    op: u32,
    args: &mut kfd_ioctl_dbg_trap_suspend_queues_args,
) -> Result<isize> {
    let mut ids = read_ids(args.queue_array_ptr, args.num_queues)?;
    let state = lock(target, op)?;
    let mut parts = KVec::new();
    for device in target.devices() {
        parts.push(Part::new(device, &state, &mut ids)?, GFP_KERNEL)?;
    }
    // From here on a failure concerns single queues: it is reported in the array of ids.
    let mut suspended = 0;
    for part in &parts {
        suspended += part.suspend(&mut ids, args);
    }
    let mut saved = Ok(KVec::new());
    if suspended > 0 {
        saved = saved_waves(&state);
    }
    drop(parts);
    drop(state);
    match saved.and_then(|saved| target.write(saved)) {
        Err(e) if e == ERESTARTSYS => return Err(e),
        Err(e) => pr_debug!(
            "save areas of process {} not written: {e:?}\n",
            target.pid()
        ),
        Ok(()) => {}
    }
    write_ids(args.queue_array_ptr, &ids);
    Ok(suspended)
}

/// Queues on one GPU to be suspended.
struct Part<'a> {
    device: &'a ProcessDevice,
    queues: KVec<(u32, &'a Queue)>,
    all: KVec<Arc<DqmQueue>>,
}

impl<'a> Part<'a> {
    /// Selects those queues of `ids` that may be suspended.
    fn new(device: &'a ProcessDevice, state: &'a State<'_>, ids: &mut [u32]) -> Result<Self> {
        let here = |queue: &Queue| queue.node().id() == device.id();
        let (mut queues, mut all) = (KVec::new(), KVec::new());
        for (id, queue) in state.queues.iter().filter(|(_, queue)| here(queue)) {
            if place(ids, id).is_some() && queue.may_be_suspended() {
                queues.push((id, queue), GFP_KERNEL)?;
                all.push(queue.hw().clone(), GFP_KERNEL)?;
            }
        }
        Ok(Self {
            device,
            queues,
            all,
        })
    }

    /// Suspends the queues, and marks in `ids` whether they are. Returns their number.
    fn suspend(&self, ids: &mut [u32], args: &kfd_ioctl_dbg_trap_suspend_queues_args) -> isize {
        let result = self.device.suspend(&self.all, args.grace_period);
        if let Err(e) = result {
            dev_err!(
                self.device.gpu().dev(),
                "queues were not suspended for a debugger: {e:?}\n"
            );
        }
        let mut suspended = 0;
        for (id, queue) in &self.queues {
            if let Some(place) = place(ids, *id) {
                *place &= !INVALID;
                if result.is_err() {
                    *place |= ERROR;
                } else {
                    queue.exceptions().clear(Exceptions(args.exception_mask));
                    suspended += 1;
                }
            }
        }
        suspended
    }
}

/// Returns the headers of the save areas of all queues that are not mapped, and control stacks, by
/// queue.
fn saved_waves(state: &State<'_>) -> Result<KVec<KVec<SavedWords>>> {
    let mut saved = KVec::new();
    for (_, queue) in state.queues.iter().filter(|(_, q)| !q.hw().is_active()) {
        if let Ok(waves) = queue.wave_state(queue.spec().cwsr_va) {
            saved.push(waves.words, GFP_KERNEL)?;
        }
    }
    Ok(saved)
}

/// RESUME_QUEUES, of all queues without an array. Returns the number of queues that are not
/// suspended; those that are lost as they are resumed do not count.
fn resume(
    target: &Process,
    op: u32,
    args: &mut kfd_ioctl_dbg_trap_resume_queues_args,
) -> Result<isize> {
    let is_all = args.queue_array_ptr == 0;
    let mut ids = if is_all {
        KVec::new()
    } else {
        read_ids(args.queue_array_ptr, args.num_queues)?
    };
    let state = lock(target, op)?;
    let mut parts = KVec::new();
    for device in target.devices() {
        let mut queues = KVec::new();
        let mut suspended = KVec::new();
        for (id, queue) in state.queues.iter() {
            if queue.node().id() == device.id() && (is_all || place(&mut ids, id).is_some()) {
                let resumes = queue.hw().is_suspended();
                queues.push((id, queue, resumes), GFP_KERNEL)?;
                if resumes {
                    suspended.push(queue.hw().clone(), GFP_KERNEL)?;
                }
            }
        }
        parts.push((device, queues, suspended), GFP_KERNEL)?;
    }
    // From here on a failure concerns single queues.
    let mut resumed = 0;
    for (device, queues, suspended) in parts {
        let result = device.resume(&suspended);
        if let Err(e) = result {
            dev_err!(
                device.gpu().dev(),
                "queues were not resumed for a debugger: {e:?}\n"
            );
        }
        for (id, queue, resumes) in queues {
            let failed = result.is_err() || resumes && queue.hw().is_lost();
            if !failed {
                resumed += 1;
            }
            if let Some(place) = place(&mut ids, id) {
                *place &= !INVALID;
                if failed {
                    *place |= ERROR;
                }
            }
        }
    }
    drop(state);
    target.queues_resumed().notify_all();
    if !is_all {
        write_ids(args.queue_array_ptr, &ids);
    }
    Ok(resumed)
}

/// Returns the queue type of CREATE_QUEUE.
fn queue_type(queue: &Queue) -> u32 {
    match (queue.kind(), queue.spec().format) {
        (QueueKind::Compute, QueueFormat::Pm4) => KFD_IOC_QUEUE_TYPE_COMPUTE,
        (QueueKind::Compute, QueueFormat::Aql) => KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
        (QueueKind::Sdma, _) => KFD_IOC_QUEUE_TYPE_SDMA,
        (QueueKind::SdmaXgmi, _) => KFD_IOC_QUEUE_TYPE_SDMA_XGMI,
    }
}

/// Returns a queue for GET_QUEUE_SNAPSHOT, and clears some of its exceptions.
fn queue_entry(id: u32, queue: &Queue, clear: Exceptions) -> kfd_queue_snapshot_entry {
    let spec = queue.spec();
    kfd_queue_snapshot_entry {
        exception_status: queue.exceptions().clear(clear).0,
        ring_base_address: spec.ring_va,
        write_pointer_address: spec.wptr_va,
        read_pointer_address: spec.rptr_va,
        ctx_save_restore_address: spec.cwsr_va,
        queue_id: id,
        gpu_id: queue.node().id(),
        ring_size: spec.ring_size,
        queue_type: queue_type(queue),
        ctx_save_restore_area_size: spec.cwsr_size,
        reserved: 0,
    }
}

/// Writes entries to an array of the caller with elements of `stride` bytes. Returns the number of
/// those written, and `EFAULT` if the next one cannot be written.
fn write_entries<'a, T: AsBytes + 'a>(
    at: u64,
    stride: u32,
    entries: impl Iterator<Item = &'a T>,
) -> (usize, Result) {
    let (mut at, mut count) = (at, 0);
    for entry in entries {
        if let Err(e) = write_part(at, stride, entry.as_bytes()) {
            return (count, Err(e));
        }
        at = at.wrapping_add(stride.into());
        count += 1;
    }
    (count, Ok(()))
}

/// GET_QUEUE_SNAPSHOT. `EINVAL` for entries of 0 bytes, `EFAULT` if one cannot be written:
/// exceptions of that queue and later ones stay raised, and the number of queues is that of those
/// before.
fn queue_snapshot(
    target: &Process,
    op: u32,
    args: &mut kfd_ioctl_dbg_trap_queue_snapshot_args,
) -> Result {
    let room = u32_as_usize(core::mem::take(&mut args.num_queues));
    let stride = args.entry_size;
    if stride == 0 {
        return Err(EINVAL);
    }
    let state = lock(target, op)?;
    let session = target.session();
    let clear = Exceptions(args.exception_mask);
    // Exceptions are cleared below: no failure from there on.
    let mut entries = KVec::with_capacity(room.min(state.queues.iter().count()), GFP_KERNEL)?;
    for (id, queue) in state.queues.iter() {
        if entries.len() < room {
            entries.push_within_capacity((queue_entry(id, queue, clear), queue.hw().clone()))?;
        }
        args.num_queues += 1;
    }
    drop(state);
    args.entry_size = stride.min(u32::try_from(size_of::<kfd_queue_snapshot_entry>())?);
    let all = entries.iter().map(|(entry, _)| entry);
    let (count, written) = write_entries(args.snapshot_buf_ptr, stride, all);
    if written.is_err() {
        args.num_queues = u32::try_from(count)?;
        // Queues and session may have ended meanwhile.
        if let Some(state) = target.lock().ok().filter(|_| target.session() == session) {
            for (entry, hw) in entries.iter().skip(count) {
                let queue = state.queues.get(entry.queue_id);
                if let Some(queue) = queue.filter(|queue| Arc::ptr_eq(queue.hw(), hw)) {
                    let cleared = Exceptions(entry.exception_status & clear.0);
                    queue.exceptions().put_back(cleared);
                }
            }
        }
    }
    written
}

/// Returns a GPU for GET_DEVICE_SNAPSHOT, without its exceptions. `EINVAL` if it is not in the
/// topology.
fn device_entry(
    device: &ProcessDevice,
    nodes: &[Arc<topology::Node>],
) -> Result<kfd_dbg_device_info_entry> {
    let node = nodes.iter().find(|node| node.gpu_id == device.id());
    let node = node.ok_or(EINVAL)?;
    let (lines, gpu) = (&node.lines, node.gpu_lines.as_ref().ok_or(EINVAL)?);
    let apertures = device.apertures();
    let pci = &device.gpu().config().pci;
    Ok(kfd_dbg_device_info_entry {
        exception_status: 0,
        lds_base: apertures.lds_base,
        lds_limit: apertures.lds_limit,
        scratch_base: apertures.scratch_base,
        scratch_limit: apertures.scratch_limit,
        gpuvm_base: apertures.gpuvm_base,
        gpuvm_limit: apertures.gpuvm_limit,
        gpu_id: device.id(),
        location_id: lines.location_id,
        vendor_id: lines.vendor_id,
        device_id: lines.device_id,
        revision_id: pci.revision.into(),
        subsystem_vendor_id: pci.subsystem_vendor.into(),
        subsystem_device_id: pci.subsystem.into(),
        fw_version: gpu.fw_version,
        gfx_target_version: lines.gfx_target_version,
        simd_count: lines.simd_count,
        max_waves_per_simd: lines.max_waves_per_simd,
        // Of one XCC, unlike the line in sysfs.
        array_count: lines.array_count / gpu.num_xcc.max(1),
        simd_arrays_per_engine: lines.simd_arrays_per_engine,
        num_xcc: gpu.num_xcc,
        capability: gpu.capability,
        debug_prop: gpu.debug_prop,
        capability2: gpu.capability2,
        pad: 0,
    })
}

/// GET_DEVICE_SNAPSHOT. `EINVAL` without a buffer, `EFAULT` if an entry cannot be written:
/// exceptions of that GPU and later ones stay raised.
fn device_snapshot(
    target: &Process,
    op: u32,
    args: &mut kfd_ioctl_dbg_trap_device_snapshot_args,
) -> Result {
    if args.snapshot_buf_ptr == 0 {
        return Err(EINVAL);
    }
    let clear = Exceptions(args.exception_mask);
    let devices = target.devices();
    let (room, stride) = (u32_as_usize(args.num_devices), args.entry_size);
    args.num_devices = u32::try_from(devices.len())?;
    args.entry_size = stride.min(u32::try_from(size_of::<kfd_dbg_device_info_entry>())?);
    let nodes = topology::nodes()?;
    let mut entries = KVec::new();
    let state = lock(target, op)?;
    let session = target.session().ok_or(EINVAL)?;
    for device in devices.iter().take(room) {
        entries.push(device_entry(device, &nodes)?, GFP_KERNEL)?;
    }
    for entry in &mut entries {
        entry.exception_status = target.take_device_status(entry.gpu_id, clear).0;
    }
    drop(state);
    let (count, written) = write_entries(args.snapshot_buf_ptr, stride, entries.iter());
    if written.is_err() {
        for entry in entries.iter().skip(count) {
            let cleared = Exceptions(entry.exception_status & clear.0);
            target.put_back_status(session, entry.gpu_id, cleared);
        }
    }
    written
}
