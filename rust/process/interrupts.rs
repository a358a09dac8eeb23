// SPDX-License-Identifier: GPL-2.0

//! Interrupts and resets of GPUs: signals events and evicts queues of the processes concerned.
//!
//! IH entries are handled in the interrupt thread, without allocation and without waiting for the
//! hardware.

use core::mem;

use kernel::{prelude::*, sync::Arc, workqueue::WorkItem};

use super::{
    events::{HwException, MemoryException},
    exceptions,
    kfd_process::{Process, FAULT_WORK},
    pdd::ProcessDevice,
    smi,
    table::{self, Interrupted},
    workqueue::WorkqueueGuard,
};
use crate::{
    gpu::{EventSink, Gpu, Origin},
    hw::{SqSender, VmFault},
    kapi::{
        global::global_mutex,
        task,
        workqueue::{Builder, OwnedQueue},
    },
    queue::Exceptions,
    trace, uapi,
};

/// Bits of the event id in interrupts of CP, SDMA and SQ.
const CP_ID_BITS: u32 = 32;
const SDMA_ID_BITS: u32 = 28;
const SQ_ID_BITS: u32 = 24;

global_mutex! {
    /// Work queue of VM faults: evicting queues may take seconds.
    FAULTS: Option<OwnedQueue> = None;
    init init
}

/// Creates the work queue of VM faults.
pub(super) fn create_workqueue() -> Result<WorkqueueGuard> {
    let queue = Builder::ordered().mem_reclaim().build(c"rkfd_faults")?;
    Ok(WorkqueueGuard::new(queue, |queue| {
        mem::replace(&mut *FAULTS.lock(), queue)
    }))
}

/// Receives the events of all GPUs.
pub(crate) struct Sink;

/// The receiver to be registered with the GPUs.
pub(crate) static SINK: Sink = Sink;

/// Signals the event with this id in its low `bits` bits.
fn signal(process: &Process, id: u32, bits: u32) {
    trace::event(process.pid(), id, c"interrupt");
    process.events().signal_interrupt(id, bits);
}

impl EventSink for Sink {
    fn cp_eop(&self, gpu: &Gpu, origin: &Origin, ctx0: u32) {
        // Without a process, it has ended.
        if let Some(Interrupted { process, .. }) = table::by_interrupt(gpu, origin) {
            signal(&process, ctx0, CP_ID_BITS);
        }
    }

    fn sdma_trap(&self, gpu: &Gpu, origin: &Origin, ctx0: u32) {
        if let Some(Interrupted { process, .. }) = table::by_interrupt(gpu, origin) {
            signal(&process, ctx0 & ((1 << SDMA_ID_BITS) - 1), SDMA_ID_BITS);
        }
    }

    fn sq_msg(&self, gpu: &Gpu, origin: &Origin, data: u32, from: SqSender) {
        let Some(Interrupted { process, on, .. }) = table::by_interrupt(gpu, origin) else {
            return;
        };
        if let SqSender::TrapHandler(report) = from {
            // Any shader may send such a message to signal an event.
            let exceptions = Exceptions(report.exceptions);
            if exceptions::raise(&process, &on, report.doorbell, exceptions) {
                return;
            }
        }
        signal(&process, data & ((1 << SQ_ID_BITS) - 1), SQ_ID_BITS);
    }

    /// Without an enabled runtime, the error signal of the queue, which the firmware writes, is the
    /// only report.
    fn bad_opcode(&self, gpu: &Gpu, origin: &Origin, doorbell: u32, code: u32) {
        let found = table::by_interrupt(gpu, origin);
        let exceptions = Exceptions::of_code(code).filter(|e| e.has(Exceptions::OF_PACKETS));
        if let (Some(found), Some(exceptions)) = (found, exceptions) {
            exceptions::raise(&found.process, &found.on, doorbell, exceptions);
        }
    }

    fn vm_fault(&self, gpu: &Gpu, origin: &Origin, fault: &VmFault) {
        let found = table::by_interrupt(gpu, origin);
        let Some(Interrupted {
            process,
            device,
            on,
        }) = found
        else {
            return;
        };
        let fault = MemoryException {
            not_present: fault.not_present,
            read_only: fault.no_write,
            no_execute: false,
            va: fault.addr,
            gpu_id: on.id(),
            imprecise: false,
            error: uapi::KFD_MEM_ERR_NO_RAS,
        };
        if process.raise_fault(&on, fault) {
            smi::vm_fault(fault.gpu_id, process.leader());
            return;
        }
        schedule_fault(process, &device, fault);
    }

    /// Signals the process, once, and resets the card (`event_interrupt_poison_consumption_v9`).
    fn poison(&self, gpu: &Gpu, origin: &Origin, client: u32) {
        let Some(Interrupted { process, on, .. }) = table::by_interrupt(gpu, origin) else {
            return;
        };
        if !process.set_poisoned() {
            return;
        }
        let (pid, id) = (process.pid(), on.id());
        let data = MemoryException::memory_error(id, uapi::KFD_MEM_ERR_POISON_CONSUMED);
        process
            .events()
            .hw_exception(&HwException::memory_error(id));
        process.events().memory_exception(&data);
        trace::process(pid, origin.pasid, c"poison");
        dev_warn!(
            gpu.dev(),
            "process {pid}: IH client {client} consumed poison; sending SIGBUS\n"
        );
        task::send_sigbus(process.leader());
        gpu.health().set_memory_error();
        gpu.wedge("poison consumed");
    }

    fn throttled(&self, gpu: &Gpu, reasons: u64, count: u64) {
        smi::throttled(gpu, reasons, count);
    }

    fn queue_reset(&self, gpu: &Gpu, pasid: u32) {
        if let Some((process, device)) = table::by_pasid(gpu, pasid) {
            process
                .events()
                .hw_exception(&HwException::gpu_lost(device.id()));
            trace::process(process.pid(), pasid, c"queue reset");
        }
    }

    fn gpu_reset(&self, gpu: &Gpu) {
        smi::gpu_lost(gpu);
        // The handler of a job timeout comes here, in the fence signalling path: no copy of the
        // list.
        table::for_each(|process| {
            for device in process.devices().iter().filter(|d| d.node().is_of(gpu)) {
                let data = match gpu.health().has_memory_error() {
                    true => HwException::memory_error(device.id()),
                    false => HwException::gpu_lost(device.id()),
                };
                process.events().hw_exception(&data);
                // A process that consumed poison keeps its report.
                if gpu.health().has_memory_error() && !process.is_poisoned() {
                    let data =
                        MemoryException::memory_error(device.id(), uapi::KFD_MEM_ERR_SRAM_ECC);
                    process.events().memory_exception(&data);
                }
                trace::process(process.pid(), 0, c"GPU hang");
            }
        });
    }

    fn gpu_back(&self, gpu: &Gpu) {
        smi::gpu_back(gpu);
    }
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
    if let Some(queue) = &*FAULTS.lock() {
        // Fails if it is queued already.
        let _ = queue.enqueue::<Arc<Process>, FAULT_WORK>(process);
    }
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

/// Evicts the queues of a process after a VM fault, for good, and signals its memory exception
/// events.
fn handle_fault(process: &Process, device: &ProcessDevice, fault: &MemoryException) {
    let gpu = device.gpu();
    let evicted = device
        .slot()
        .and_then(|slot| device.node().dqm().evict(&slot));
    if let Err(e) = evicted {
        dev_err!(
            gpu.dev(),
            "process {}: queues were not evicted after a VM fault: {e:?}\n",
            process.pid()
        );
    }
    trace::process(process.pid(), device.pasid(), c"VM fault");
    smi::vm_fault(fault.gpu_id, process.leader());
    if !process.events().memory_exception(fault) {
        dev_warn!(
            gpu.dev(),
            "process {}: no handler registered for the VM fault at {:#x} on GPU {:#x}\n",
            process.pid(),
            fault.va,
            fault.gpu_id
        );
    }
}
