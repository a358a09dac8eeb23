// SPDX-License-Identifier: GPL-2.0

//! Interrupts and resets of GPUs: signals events and evicts queues of the processes concerned.

use kernel::{prelude::*, sync::Arc};

use super::{
    events::{HwException, MemoryException},
    exceptions::{Exceptions, QueueException},
    kfd_process::Process,
    pdd::ProcessDevice,
    smi, table,
};
use crate::{
    dqm::GpuDqm,
    gpu::{irq, Gpu},
    hw::{SqSender, VmFault},
    kapi::{global::global_mutex, workqueue::OrderedQueue},
    trace,
};

/// Valid low bits of an event id in interrupts of the packet processor, DMA engine and shaders.
const CP_ID_BITS: u32 = 32;
const SDMA_ID_BITS: u32 = 28;
const SQ_ID_BITS: u32 = 24;

global_mutex! {
    /// Where faults are handled: taking queues off the hardware may take seconds, which the
    /// interrupt thread does not have.
    FAULTS: Option<OrderedQueue> = None;
    init init
}

/// Faults are handled while this exists; dropping it waits for those that are.
pub(super) struct FaultWorkqueue(());

impl FaultWorkqueue {
    pub(super) fn new() -> Result<Self> {
        *FAULTS.lock() = Some(OrderedQueue::new(c"rkfd_faults")?);
        Ok(Self(()))
    }
}

impl Drop for FaultWorkqueue {
    fn drop(&mut self) {
        let queue = FAULTS.lock().take();
        drop(queue);
    }
}

/// The receiver of all GPUs' events.
pub(crate) struct Sink;

/// The one that `driver` registers.
pub(crate) static SINK: Sink = Sink;

fn signal(gpu: &Gpu, pasid: u32, id: u32, bits: u32) {
    // The process may have ended meanwhile.
    if let Some((process, _)) = table::by_pasid(gpu, pasid) {
        trace::event(process.pid(), id, c"interrupt");
        process.events().signal_interrupt(id, bits);
    }
}

impl irq::Sink for Sink {
    fn cp_eop(&self, gpu: &Gpu, pasid: u32, ctx0: u32) {
        signal(gpu, pasid, ctx0, CP_ID_BITS);
    }

    fn sdma_trap(&self, gpu: &Gpu, pasid: u32, ctx0: u32) {
        signal(gpu, pasid, ctx0 & ((1 << SDMA_ID_BITS) - 1), SDMA_ID_BITS);
    }

    fn sq_msg(&self, gpu: &Gpu, pasid: u32, data: u32, from: SqSender) {
        let Some((process, device)) = table::by_pasid(gpu, pasid) else {
            return;
        };
        let signal = move |process: &Process| {
            let id = data & ((1 << SQ_ID_BITS) - 1);
            trace::event(process.pid(), id, c"interrupt");
            process.events().signal_interrupt(id, SQ_ID_BITS);
        };
        let SqSender::TrapHandler(report) = from else {
            return signal(&process);
        };
        // Either the trap handler of the runtime reports an exception, or it signals as any program may.
        QueueException {
            process,
            device,
            doorbell: report.doorbell,
            exceptions: Exceptions(report.exceptions),
        }
        .send(signal);
    }

    /// The firmware also reports it in the queue's own error signal, which runtimes look at that did
    /// not enable exceptions.
    fn bad_opcode(&self, gpu: &Gpu, pasid: u32, doorbell: u32, code: u32) {
        let found = table::by_pasid(gpu, pasid);
        if let (Some((process, device)), Some(exceptions)) = (found, Exceptions::of_packet(code)) {
            QueueException {
                process,
                device,
                doorbell,
                exceptions,
            }
            .send(|_| {});
        }
    }

    fn vm_fault(&self, gpu: &Gpu, pasid: u32, fault: &VmFault) {
        let Some((process, device)) = table::by_pasid(gpu, pasid) else {
            return;
        };
        let what = MemoryException {
            not_present: fault.not_present,
            read_only: fault.no_write,
            no_execute: false,
            va: fault.addr,
            gpu_id: gpu.id(),
        };
        // A faulting wave faults again and again: one fault is handled, the rest is the same news.
        if !device.begin_fault() {
            return;
        }
        let faulted = device.clone();
        let queue = FAULTS.lock();
        let spawned = queue
            .as_ref()
            .map(|q| q.try_spawn(GFP_KERNEL, move || stop(&process, &device, &what)));
        if !matches!(spawned, Some(Ok(()))) {
            faulted.end_fault();
            pr_err!("cannot handle a VM fault of PASID {pasid}\n");
        }
    }

    fn queue_reset(&self, gpu: &Gpu, pasid: u32) {
        if let Some((process, _)) = table::by_pasid(gpu, pasid) {
            process
                .events()
                .hw_exception(&HwException::gpu_lost(gpu.id()));
            trace::process(process.pid(), pasid, c"queue reset");
        }
    }

    fn gpu_reset(&self, gpu: &Gpu) {
        let data = HwException::gpu_lost(gpu.id());
        smi::gpu_lost(gpu);
        let processes = match table::snapshot() {
            Ok(processes) => processes,
            Err(e) => {
                dev_err!(
                    gpu.dev(),
                    "hang of GPU {:#x} is not signalled to processes: {e:?}\n",
                    gpu.id()
                );
                return;
            }
        };
        for process in &processes {
            if process.devices().iter().any(|d| d.id() == gpu.id()) {
                process.events().hw_exception(&data);
                trace::process(process.pid(), 0, c"GPU hang");
            }
        }
    }

    fn gpu_back(&self, gpu: &Gpu) {
        smi::gpu_back(gpu);
    }
}

/// Takes the queues of a process that touched what it must not off the GPU and tells it so. They
/// stay off: the process is expected to end.
fn stop(process: &Arc<Process>, device: &Arc<ProcessDevice>, what: &MemoryException) {
    let evicted = device
        .slot()
        .and_then(|slot| device.gpu().dqm()?.evict(&slot));
    if let Err(e) = evicted {
        pr_err!(
            "process {}: cannot stop its queues after a fault: {e:?}\n",
            process.pid()
        );
    }
    trace::process(process.pid(), device.pasid(), c"VM fault");
    smi::vm_fault(device.gpu(), process.leader());
    if !process.events().memory_exception(what) {
        pr_warn!(
            "process {}: memory access fault at {:#x} on GPU {:#x} that it does not wait for\n",
            process.pid(),
            what.va,
            what.gpu_id
        );
    }
}
