// SPDX-License-Identifier: GPL-2.0

//! `CREATE_EVENT`, `DESTROY_EVENT`, `SET_EVENT`, `RESET_EVENT`, `WAIT_EVENTS`.

use core::mem::{offset_of, size_of};

use kernel::{
    num::casts::{u32_as_usize, usize_as_u64},
    prelude::*,
    sync::Arc,
};

use crate::{
    kapi::uaccess::user_slice,
    process::{
        events::{
            EventKind, EventMemory, EventPayload, HwException, MemoryException, WaitOutcome,
            WaitRequest, SIGNAL_LIMIT,
        },
        mmap, Process,
    },
    trace,
    uapi::{self, *},
};

/// Bytes of an entry of the array of WAIT_EVENTS.
const ENTRY: usize = size_of::<kfd_event_data>();
/// Byte offset of the event id in an entry.
const ENTRY_ID: usize = offset_of!(kfd_event_data, event_id);
// The payload of all event types starts at offset 0; that of signal events is the age.

/// `CREATE_EVENT`. Also sets the signal page, if its handle is given, see
/// [`Process::set_event_page`]; otherwise errors as `Events::create`.
pub(super) fn create(process: &Arc<Process>, args: &mut kfd_ioctl_create_event_args) -> Result {
    // Before the page is set, which a call that fails with ENOMEM does not do.
    let memory = EventMemory::new()?;
    if args.event_page_offset != 0 {
        process.set_event_page(args.event_page_offset)?;
    }
    args.event_page_offset = 0;
    let kind = EventKind(args.event_type);
    let created = process
        .events()
        .create(memory, kind, args.auto_reset != 0)?;
    if created.has_slot {
        args.event_page_offset = mmap::TYPE_EVENTS;
        args.event_slot_index = created.id;
    }
    args.event_id = created.id;
    args.event_trigger_data = created.id;
    trace::event(process.pid(), created.id, c"create");
    Ok(())
}

/// `DESTROY_EVENT`. `EINVAL` without such an event.
pub(super) fn destroy(process: &Arc<Process>, args: &mut kfd_ioctl_destroy_event_args) -> Result {
    trace::event(process.pid(), args.event_id, c"destroy");
    process.events().destroy(args.event_id)
}

/// `SET_EVENT`. `EINVAL` without such an event or if it is no signal event.
pub(super) fn set(process: &Arc<Process>, args: &mut kfd_ioctl_set_event_args) -> Result {
    trace::event(process.pid(), args.event_id, c"set");
    process.events().set(args.event_id)
}

/// `RESET_EVENT`. `EINVAL` without such an event or if it is no signal event.
pub(super) fn reset(process: &Arc<Process>, args: &mut kfd_ioctl_reset_event_args) -> Result {
    trace::event(process.pid(), args.event_id, c"reset");
    process.events().reset(args.event_id)
}

/// `WAIT_EVENTS`. `ENOMEM` for too many events, `EFAULT` if the array cannot be accessed, otherwise
/// as `Events::wait`.
pub(super) fn wait(process: &Arc<Process>, args: &mut kfd_ioctl_wait_events_args) -> Result {
    let result = do_wait(process, args);
    args.wait_result = match &result {
        Ok(WaitOutcome::Complete(_)) => uapi::KFD_IOC_WAIT_RESULT_COMPLETE,
        Ok(WaitOutcome::Timeout) => uapi::KFD_IOC_WAIT_RESULT_TIMEOUT,
        Err(_) => uapi::KFD_IOC_WAIT_RESULT_FAIL,
    };
    result.map(|_| ())
}

fn do_wait(process: &Arc<Process>, args: &mut kfd_ioctl_wait_events_args) -> Result<WaitOutcome> {
    if args.num_events > SIGNAL_LIMIT {
        return Err(ENOMEM);
    }
    let requests = read_requests(args.events_ptr, u32_as_usize(args.num_events))?;
    let outcome = process
        .events()
        .wait(&requests, args.wait_for_all != 0, &mut args.timeout)?;
    if let WaitOutcome::Complete(payloads) = &outcome {
        write_payloads(args.events_ptr, payloads)?;
        for request in &requests {
            trace::event(process.pid(), request.id, c"wake");
        }
    }
    Ok(outcome)
}

/// Reads `count` entries of the array.
fn read_requests(array: u64, count: usize) -> Result<KVec<WaitRequest>> {
    let mut requests = KVec::with_capacity(count, GFP_KERNEL)?;
    let mut reader = user_slice(array, count * ENTRY).reader();
    for _ in 0..count {
        let last_age: u64 = reader.read()?;
        reader.skip(ENTRY_ID - size_of::<u64>())?;
        let id: u32 = reader.read()?;
        reader.skip(ENTRY - ENTRY_ID - size_of::<u32>())?;
        requests.push(WaitRequest { id, last_age }, GFP_KERNEL)?;
    }
    Ok(requests)
}

/// Writes a payload to each entry of the array.
fn write_payloads(array: u64, payloads: &[EventPayload]) -> Result {
    for (index, payload) in payloads.iter().enumerate() {
        let at = array.checked_add(usize_as_u64(index * ENTRY));
        let mut writer = user_slice(at.ok_or(EFAULT)?, ENTRY).writer();
        match payload {
            EventPayload::None => {}
            EventPayload::Age(age) => writer.write(age)?,
            EventPayload::Memory(what) => writer.write(&memory_data(what))?,
            EventPayload::Hw(what) => writer.write(&hw_data(what))?,
        }
    }
    Ok(())
}

/// Returns the data of a memory exception in the format of the ioctls.
pub(super) fn memory_data(what: &MemoryException) -> kfd_hsa_memory_exception_data {
    kfd_hsa_memory_exception_data {
        failure: kfd_memory_exception_failure {
            NotPresent: what.not_present.into(),
            ReadOnly: what.read_only.into(),
            NoExecute: what.no_execute.into(),
            imprecise: what.imprecise.into(),
        },
        va: what.va,
        gpu_id: what.gpu_id,
        ErrorType: what.error,
    }
}

fn hw_data(what: &HwException) -> kfd_hsa_hw_exception_data {
    kfd_hsa_hw_exception_data {
        reset_type: uapi::KFD_HW_EXCEPTION_WHOLE_GPU_RESET,
        reset_cause: what.cause,
        memory_lost: what.memory_lost.into(),
        gpu_id: what.gpu_id,
    }
}
