// SPDX-License-Identifier: GPL-2.0

//! Delivery of queue exceptions to the runtime (`kfd_send_exception_to_runtime()`).
//!
//! A runtime that called `RUNTIME_ENABLE` keeps, in the header of each queue's context save area, the
//! address of the queue's exception payload and the event to be set. The driver writes the payload as
//! the process itself would, from a worker: access to user memory may block, for instance on
//! userfaultfd, which then blocks this process only. DESTROY_QUEUE waits for a delivery in progress,
//! because the runtime frees that memory afterwards.

use kernel::{
    prelude::*,
    sync::{lock::mutex::MutexGuard, Arc},
    time::{delay::fsleep, Delta},
    uaccess::{UserPtr, UserSlice},
};
use rkfd_abi::cwsr;

use super::{kfd_process::Process, pdd::ProcessDevice};
use crate::{
    kapi::{global::global_mutex, task, workqueue::UnboundQueue},
    trace, uapi,
};

/// Poll interval of DESTROY_QUEUE while a delivery is in progress.
const POLL_INTERVAL: Delta = Delta::from_millis(1);

global_mutex! {
    /// Work queue of the deliveries.
    QUEUE: Option<UnboundQueue> = None;
    init init
}

/// The work queue of deliveries; dropping it waits for the workers.
pub(super) struct ExceptionWorkqueue(());

impl ExceptionWorkqueue {
    /// Creates the work queue.
    pub(super) fn new() -> Result<Self> {
        *QUEUE.lock() = Some(UnboundQueue::new(c"rkfd_exceptions")?);
        Ok(Self(()))
    }
}

impl Drop for ExceptionWorkqueue {
    fn drop(&mut self) {
        let queue = QUEUE.lock().take();
        drop(queue);
    }
}

/// Exceptions: bit n - 1 for `EC_*` number n (`KFD_EC_MASK()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceptions(pub(crate) u64);

impl Exceptions {
    /// Exceptions of queues (`KFD_EC_MASK_QUEUE`): of waves, of packets, of the scheduler.
    const OF_QUEUES: Self = Self(
        Self::range(
            uapi::EC_QUEUE_WAVE_ABORT,
            uapi::EC_QUEUE_WAVE_APERTURE_VIOLATION,
        )
        .0 | Self::OF_PACKETS.0
            | Self::range(uapi::EC_QUEUE_PREEMPTION_ERROR, uapi::EC_QUEUE_NEW).0,
    );

    /// Exceptions of packets (`KFD_EC_MASK_PACKET`).
    const OF_PACKETS: Self = Self::range(
        uapi::EC_QUEUE_PACKET_DISPATCH_DIM_INVALID,
        uapi::EC_QUEUE_PACKET_VENDOR_UNSUPPORTED,
    );

    const fn range(first: u32, last: u32) -> Self {
        Self((1 << last) - (1 << (first - 1)))
    }

    /// Returns the exception with number `code`, if it is one of packets.
    pub(super) fn of_packet(code: u32) -> Option<Self> {
        let bit = code.checked_sub(1).and_then(|n| 1u64.checked_shl(n))?;
        (bit & Self::OF_PACKETS.0 != 0).then_some(Self(bit))
    }
}

/// Exceptions of a queue to be delivered.
pub(super) struct QueueException {
    pub(super) process: Arc<Process>,
    pub(super) device: Arc<ProcessDevice>,
    /// Number of the queue's doorbell within the slice of the process.
    pub(super) doorbell: u32,
    pub(super) exceptions: Exceptions,
}

impl QueueException {
    /// Passes the exceptions on, later. `otherwise` is called if the runtime does not want to know.
    pub(super) fn send(self, otherwise: impl FnOnce(&Process) + Send + 'static) {
        let pid = self.process.pid();
        let queue = QUEUE.lock();
        let spawned = queue.as_ref().map(|queue| {
            queue.try_spawn(GFP_KERNEL, move || {
                if !self.deliver() {
                    otherwise(&self.process);
                }
            })
        });
        if !matches!(spawned, Some(Ok(()))) {
            pr_err!("an exception of process {pid} is lost\n");
        }
    }

    /// True if there is a queue whose runtime wants to know, whether it could be told or not.
    fn deliver(&self) -> bool {
        let _delivering = self.process.delivering.lock();
        let Some(area) = self.save_area() else {
            return false;
        };
        let told = self
            .process
            .with_memory(|| add_to_payload(area, self.exceptions))
            .and_then(|event| self.process.events().set(event));
        trace::process(self.process.pid(), self.device.pasid(), c"exception");
        if let Err(e) = told {
            pr_debug!(
                "process {} was not told of exceptions {:#x}: {e:?}\n",
                self.process.pid(),
                self.exceptions.0
            );
        }
        true
    }

    /// Where the context save area of the queue is; `None` if it is not for the runtime.
    fn save_area(&self) -> Option<u64> {
        let state = self.process.lock().ok()?;
        if !state.runtime_enabled || self.exceptions.0 & Exceptions::OF_QUEUES.0 == 0 {
            return None;
        }
        let queues = &state.queues;
        let (_, queue) = queues.iter().find(|(_, queue)| {
            queue.gpu().id() == self.device.id() && queue.doorbell_id() == self.doorbell
        })?;
        Some(queue.spec().cwsr_va)
    }
}

/// Reads a value of the process.
fn read<T: kernel::transmute::FromBytes>(addr: u64) -> Result<T> {
    let ptr = UserPtr::from_addr(usize::try_from(addr)?);
    UserSlice::new(ptr, size_of::<T>()).reader().read()
}

/// Adds exceptions to those that the runtime has not seen yet. Returns the event to set: it is set also where the
/// exceptions cannot be read or written, as in the C driver (`send_exception_work_handler`), for which nothing
/// to be read is 0.
fn add_to_payload(area: u64, exceptions: Exceptions) -> u32 {
    let payload: u64 = read(area.wrapping_add(cwsr::ERR_PAYLOAD_ADDR as u64)).unwrap_or(0);
    let sum = read::<u64>(payload).unwrap_or(0) | exceptions.0;
    let written = UserSlice::new(UserPtr::from_addr(payload as usize), size_of::<u64>())
        .writer()
        .write(&sum);
    if written.is_err() {
        pr_debug!("exceptions {sum:#x} have no place at {payload:#x}\n");
    }
    read(area.wrapping_add(cwsr::ERR_EVENT_ID as u64)).unwrap_or(0)
}

impl Process {
    /// Runs `f` as if the process itself accessed its memory. `ESRCH` if that is gone.
    fn with_memory<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
        task::with_memory_of(self.leader(), self.mm(), f)
    }

    /// Waits until no exceptions are on their way, and keeps it so. `ERESTARTSYS` after a signal.
    pub(crate) fn hold_exceptions(&self) -> Result<MutexGuard<'_, ()>> {
        loop {
            if let Some(held) = self.delivering.try_lock() {
                return Ok(held);
            }
            if kernel::current!().signal_pending() {
                return Err(ERESTARTSYS);
            }
            fsleep(POLL_INTERVAL);
        }
    }
}
