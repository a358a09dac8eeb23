// SPDX-License-Identifier: GPL-2.0

//! VM faults of a process: eviction of its queues, memory exceptions.

use kernel::{prelude::*, sync::Arc, workqueue::WorkItem};

use super::{
    events::MemoryException,
    kfd_process::{Process, FAULT_WORK},
    pdd::ProcessDevice,
    smi,
};
use crate::{
    card::ih::LogKind,
    hw::VmFault,
    kapi::{
        global::global_mutex,
        static_queue::Installed,
        workqueue::{Builder, OwnedQueue},
    },
    trace, uapi,
};

global_mutex! {
    /// Work queue of VM faults. Evicting queues may take seconds, in which the faults of other
    /// processes are handled: there is one item per process.
    FAULTS: Option<OwnedQueue> = None;
    init init
}

/// Creates the work queue of VM faults.
pub(super) fn create_workqueue() -> Result<Installed> {
    Ok(FAULTS.install(Builder::unbound().mem_reclaim().build(c"rkfd_faults")?))
}

/// Reports a VM fault in the address space of `device`, on the node of `on`, to the debugger or the
/// process.
pub(super) fn report_fault(
    process: &Arc<Process>,
    device: &ProcessDevice,
    on: &ProcessDevice,
    fault: &VmFault,
) {
    let fault = MemoryException {
        not_present: fault.not_present,
        read_only: fault.no_write,
        no_execute: false,
        va: fault.addr,
        gpu_id: on.id(),
        imprecise: false,
        error: uapi::KFD_MEM_ERR_NO_RAS,
    };
    if process.raise_fault(on, fault) {
        smi::vm_fault(fault.gpu_id, process.pids(), process.leader());
        return;
    }
    schedule_fault(process.clone(), device, fault);
}

/// Schedules the handling of a VM fault. A faulting wave repeats its access: only the first fault
/// is handled.
pub(super) fn schedule_fault(
    process: Arc<Process>,
    device: &ProcessDevice,
    fault: MemoryException,
) {
    if !device.record_fault(fault) {
        return;
    }
    FAULTS.enqueue::<_, FAULT_WORK>(process);
}

impl WorkItem<FAULT_WORK> for Process {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        for device in this.devices() {
            if let Some(fault) = device.take_fault() {
                handle_fault(&this, device, fault);
            }
        }
    }
}

/// Evicts the queues of a process permanently after a VM fault, and signals its memory exception
/// events.
fn handle_fault(process: &Process, device: &ProcessDevice, fault: &MemoryException) {
    let gpu = device.gpu();
    let evicted = device
        .slot()
        .and_then(|slot| device.node().dqm().evict(&slot));
    match evicted {
        // The process has ended since, or the GPU is unplugged: there are no queues.
        Err(e) if e != ENODEV && gpu.ih().may_log(LogKind::Unhandled) => dev_err!(
            gpu.dev(),
            "process {}: queues were not evicted after a VM fault: {e:?}\n",
            process.pid()
        ),
        _ => {}
    }
    trace::process(process.pid(), device.pasid(), c"VM fault");
    smi::vm_fault(fault.gpu_id, process.pids(), process.leader());
    if !process.events().memory_exception(fault) && gpu.ih().may_log(LogKind::Unhandled) {
        dev_warn!(
            gpu.dev(),
            "process {}: no handler registered for the VM fault at {:#x} on GPU {:#x}\n",
            process.pid(),
            fault.va,
            fault.gpu_id
        );
    }
}
