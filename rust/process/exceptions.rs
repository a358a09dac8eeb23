// SPDX-License-Identifier: GPL-2.0

//! Delivery of queue exceptions to the runtime (`kfd_send_exception_to_runtime()`).
//!
//! A runtime that called `RUNTIME_ENABLE` keeps, in the header of each queue's context save area,
//! the address of the queue's exception payload and the event to be set. The driver writes the
//! payload as the process itself would, from a worker: access to user memory may block, for
//! instance on userfaultfd, which then blocks this process only. DESTROY_QUEUE waits for a delivery
//! in progress, because the runtime frees that memory afterwards.

use kernel::{
    num::casts::usize_as_u64,
    prelude::*,
    sync::{lock::mutex::MutexGuard, Arc},
    time::{delay::fsleep, Delta},
    transmute::AsBytes,
    workqueue::WorkItem,
};
use rkfd_abi::cwsr;

use super::{
    kfd_process::{Process, EXCEPTION_WORK},
    pdd::ProcessDevice,
};
use crate::{
    kapi::{sched_mm, uaccess},
    queue::{ExceptionTable, Exceptions},
    trace,
};

/// Poll interval of DESTROY_QUEUE while a delivery is in progress.
const POLL_INTERVAL: Delta = Delta::from_millis(1);

/// Reports exceptions of the queue with a doorbell to the debugger, or schedules their delivery to
/// the runtime. Returns false if the debugger has not enabled them and the runtime is not enabled,
/// they are no exceptions of queues, or no queue has the doorbell.
///
/// Called by the interrupt thread: allocates nothing. Exceptions of a queue that are raised before
/// the worker runs are delivered together.
pub(super) fn raise(
    process: &Arc<Process>,
    device: &ProcessDevice,
    doorbell: u32,
    exceptions: Exceptions,
) -> bool {
    if process.raise_of_queue(device, doorbell, exceptions) {
        return true;
    }
    process.runtime_enabled()
        && exceptions.has(Exceptions::OF_QUEUES)
        && schedule(process, device, doorbell, exceptions)
}

/// Schedules the delivery of exceptions to the runtime. Returns false if no queue has the doorbell.
pub(super) fn schedule(
    process: &Arc<Process>,
    device: &ProcessDevice,
    doorbell: u32,
    exceptions: Exceptions,
) -> bool {
    let raised = device
        .exceptions()
        .is_some_and(|table| table.raise(doorbell, exceptions));
    if raised {
        process
            .place()
            .enqueue::<_, EXCEPTION_WORK>(process.clone());
    }
    raised
}

impl WorkItem<EXCEPTION_WORK> for Process {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        for device in this.devices() {
            let Some(table) = device.exceptions() else {
                continue;
            };
            for doorbell in table.pending() {
                deliver(&this, device, table, doorbell);
            }
        }
    }
}

/// Delivers the pending exceptions of a queue.
fn deliver(process: &Process, device: &ProcessDevice, table: &ExceptionTable, doorbell: u32) {
    // Before the exceptions are taken: the queue is not destroyed from here on.
    let _delivering = process.delivering().lock();
    let exceptions = table.take(doorbell);
    let Some(area) = save_area(process, device, doorbell) else {
        return;
    };
    if exceptions.is_empty() {
        return;
    }
    let delivered = process
        .with_memory(|| add_to_payload(area, exceptions))
        .and_then(|event| process.events().set(event));
    trace::process(process.pid(), device.pasid(), c"exception");
    if let Err(e) = delivered {
        pr_debug!(
            "process {}: exceptions {:#x} not delivered: {e:?}\n",
            process.pid(),
            exceptions.0
        );
    }
}

/// Returns the address of the context save area of the queue with a doorbell; `None` if there is no
/// such queue or the runtime is not enabled any more.
fn save_area(process: &Process, device: &ProcessDevice, doorbell: u32) -> Option<u64> {
    let state = process.lock().ok()?;
    if !process.runtime_enabled() {
        return None;
    }
    let queue = state.queues.by_doorbell(device.node(), doorbell)?;
    Some(queue.spec().cwsr_va)
}

/// Adds exceptions to the payload of the queue with this context save area. Returns the id of the
/// event to be set. As in the C driver (`send_exception_work_handler()`) the event is set also if
/// the payload cannot be accessed, and values that cannot be read count as 0.
fn add_to_payload(area: u64, exceptions: Exceptions) -> u32 {
    let payload: u64 =
        uaccess::read(area.wrapping_add(usize_as_u64(cwsr::ERR_PAYLOAD_ADDR))).unwrap_or(0);
    let sum = uaccess::read::<u64>(payload).unwrap_or(0) | exceptions.0;
    if uaccess::write(payload, AsBytes::as_bytes(&sum)).is_err() {
        pr_debug!("exception payload at {payload:#x} is not writable\n");
    }
    uaccess::read(area.wrapping_add(usize_as_u64(cwsr::ERR_EVENT_ID))).unwrap_or(0)
}

impl Process {
    /// Runs `f` with the memory of the process as user memory. `ESRCH` if the address space
    /// is being torn down.
    pub(super) fn with_memory<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T> {
        // Not that of the leader, which may have exited before other threads.
        let user = self.svm().user()?;
        sched_mm::with_memory(&user, f)
    }

    /// Waits for a delivery in progress and blocks further ones until the guard is dropped.
    /// `ERESTARTSYS` after a signal.
    pub(crate) fn hold_exceptions(&self) -> Result<MutexGuard<'_, ()>> {
        loop {
            if let Some(held) = self.delivering().try_lock() {
                return Ok(held);
            }
            if kernel::current!().signal_pending() {
                return Err(ERESTARTSYS);
            }
            fsleep(POLL_INTERVAL);
        }
    }
}
