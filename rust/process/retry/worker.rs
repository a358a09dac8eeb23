// SPDX-License-Identifier: GPL-2.0

//! Handling of retry faults: a worker per process maps the pages, then acknowledges the faults.
//!
//! Faults of pages that were mapped meanwhile, with another fault, are only acknowledged. A fault
//! that cannot be handled becomes a memory exception of the process, once.

use core::ops::Range;

use kernel::{
    page::PAGE_SHIFT,
    prelude::*,
    sync::{atomic::Relaxed, Arc},
    time::{delay::fsleep, Delta, Instant, Monotonic},
    workqueue::WorkItem,
};

use super::pending::RetryFaults;
use crate::{
    hw::{AccessKind, VmFault},
    kapi::{
        global::global_mutex,
        static_queue::Installed,
        workqueue::{Builder, OwnedQueue},
    },
    process::{
        kfd_process::{Process, RETRY_WORK},
        pdd::ProcessDevice,
        smi,
        vm_fault::report_fault,
    },
    svm::{FaultReport, Svm},
    trace,
};

/// Delay after which an access is repeated whose page keeps changing, or has to be provided by
/// another thread of the process (userfaultfd).
const REPEAT_DELAY: Delta = Delta::from_millis(1);

global_mutex! {
    /// Work queue of the workers; frozen during suspend.
    QUEUE: Option<OwnedQueue> = None;
    init init
}

/// Creates the work queue.
pub(crate) fn create_workqueue() -> Result<Installed> {
    Ok(QUEUE.install(Builder::unbound().freezable().build(c"rkfd_retry")?))
}

/// Schedules the handling of a retry fault of the process on a GPU. Returns false if it has no
/// address space there. Called by the interrupt thread.
pub(crate) fn schedule(process: Arc<Process>, device: &ProcessDevice, fault: &VmFault) -> bool {
    if !device
        .retry_faults()
        .is_some_and(|faults| faults.add(fault))
    {
        return false;
    }
    QUEUE.enqueue::<_, RETRY_WORK>(process)
}

/// SMI events of the handling of a fault.
struct Events<'a> {
    process: &'a Process,
    device: &'a ProcessDevice,
    page: u64,
    write: bool,
}

impl FaultReport for Events<'_> {
    fn has_userptr(&self, pages: Range<u64>) -> bool {
        self.process.user_memory().overlaps(&pages)
    }

    fn begin(&self) {
        smi::page_fault_start(self.device.id(), self.process.pids(), self.page, self.write);
    }

    fn end(&self, moved: bool) {
        smi::page_fault_end(self.device.id(), self.process.pids(), self.page, moved);
    }
}

impl WorkItem<RETRY_WORK> for Process {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // Of the first fault that was postponed and not acknowledged yet.
        let mut since: Option<Instant<Monotonic>> = None;
        for (index, device) in this.devices().iter().enumerate() {
            let Some(faults) = device.retry_faults() else {
                continue;
            };
            let mut next = 0;
            while let Some(fault) = faults.take(next).or_else(|| faults.take(0)) {
                next = fault.cam as usize + 1;
                trace::svm(this.pid(), device.id(), c"fault", fault.addr, 0);
                match recover(&this, index, device, faults, &fault) {
                    Then::Later if faults.postpone(&fault) => {
                        since.get_or_insert_with(Instant::now);
                    }
                    _ => acknowledge(&this, device, &fault),
                }
                // Others may fault without a pause.
                if since.is_some_and(|since| since.elapsed() >= REPEAT_DELAY) {
                    acknowledge_postponed(&this);
                    since = None;
                }
            }
        }
        if since.is_some() {
            fsleep(REPEAT_DELAY);
            acknowledge_postponed(&this);
        }
    }
}

/// When an access is to be repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// At once.
    Now,
    /// After [`REPEAT_DELAY`]: its page is not there yet.
    Later,
}

/// Makes the GPU repeat the access of a fault.
fn acknowledge(process: &Process, device: &ProcessDevice, fault: &VmFault) {
    device.gpu().acknowledge(fault);
    trace::svm(process.pid(), device.id(), c"acknowledged", fault.addr, 0);
}

/// Makes the GPUs repeat the accesses of all postponed faults.
fn acknowledge_postponed(process: &Process) {
    for device in process.devices() {
        let Some(faults) = device.retry_faults() else {
            continue;
        };
        while let Some(fault) = faults.take_postponed() {
            acknowledge(process, device, &fault);
        }
    }
}

/// Handles a fault of the process on its GPU number `index`. Returns when its access is to be
/// repeated.
///
/// An IH entry may be stale: the access has succeeded since, because the page was mapped for
/// another fault, and the process has unmapped the memory. A stale fault is not repeated by the
/// hardware. A fault that cannot be handled is therefore reported only if it repeats while the
/// memory of the process is unchanged.
fn recover(
    process: &Arc<Process>,
    index: usize,
    device: &ProcessDevice,
    faults: &RetryFaults,
    fault: &VmFault,
) -> Then {
    if device.has_fault() {
        // The queues are being evicted permanently.
        return Then::Now;
    }
    let page = fault.addr >> PAGE_SHIFT;
    let events = Events {
        process,
        device,
        page,
        write: fault.kind == AccessKind::Write,
    };
    let changes = process.svm().changes();
    let served = Svm::fault(process.svm(), index, device.id(), page, fault.kind, &events);
    if served != Err(ESRCH) {
        device.counters().faults.fetch_add(1, Relaxed);
    }
    match served {
        Ok(()) => faults.forget(page),
        Err(e) if e == EAGAIN => {
            faults.forget(page);
            return Then::Later;
        }
        // The process is ending, or the GPU is unplugged.
        Err(e) if e == ESRCH || e == ENODEV => {}
        Err(_) if !faults.refuse(page, changes) => {}
        Err(e) => {
            trace::process(process.pid(), device.pasid(), c"retry fault not served");
            dev_dbg!(
                device.gpu().dev(),
                "process {}: retry fault at {:#x} not served: {e:?}\n",
                process.pid(),
                fault.addr
            );
            // Make the access fault without retry.
            if let Ok(vm) = device.vm() {
                let _ = vm.refuse(fault.addr);
            }
            report_fault(process, device, device, fault);
        }
    }
    Then::Now
}
