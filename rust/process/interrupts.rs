// SPDX-License-Identifier: GPL-2.0

//! Interrupts and resets of GPUs: signals events and evicts queues of the processes concerned.
//!
//! IH entries are handled in the interrupt thread, without allocation and without waiting for the
//! hardware.

use kernel::prelude::*;
use rkfd_abi::ih::event_bits::{CP_END_OF_PIPE, SDMA_TRAP, SQ_MSG};

use super::{
    events::{HwException, MemoryException},
    exceptions, invalid_packets,
    kfd_process::Process,
    retry, smi,
    table::{self, Interrupted},
    vm_fault::report_fault,
};
use crate::{
    card::health::Cause,
    gpu::{EventSink, Gpu, Origin},
    hw::{SqSender, VmFault},
    kapi::task,
    queue::Exceptions,
    trace, uapi,
};

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
            signal(&process, ctx0, CP_END_OF_PIPE);
        }
    }

    fn sdma_trap(&self, gpu: &Gpu, origin: &Origin, ctx0: u32) {
        if let Some(Interrupted { process, .. }) = table::by_interrupt(gpu, origin) {
            signal(&process, ctx0 & ((1 << SDMA_TRAP) - 1), SDMA_TRAP);
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
        signal(&process, data & ((1 << SQ_MSG) - 1), SQ_MSG);
    }

    /// Without an enabled runtime, the error signal of the queue, which the firmware writes, is the
    /// only report.
    fn bad_opcode(&self, gpu: &Gpu, origin: &Origin, doorbell: u32, code: u32) {
        let found = table::by_interrupt(gpu, origin);
        let exceptions = Exceptions::of_code(code).filter(|e| e.has(Exceptions::OF_PACKETS));
        if let (Some(found), Some(exceptions)) = (found, exceptions) {
            exceptions::raise(&found.process, &found.on, doorbell, exceptions);
            invalid_packets::schedule(&found.process, &found.on, doorbell, exceptions);
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
        report_fault(&process, &device, &on, fault);
    }

    fn retry_fault(&self, gpu: &Gpu, origin: &Origin, fault: &VmFault) -> bool {
        // The pdd with the PASID: the address space of the fault.
        table::by_interrupt(gpu, origin)
            .is_some_and(|found| retry::worker::schedule(found.process, &found.device, fault))
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
        on.set_poisoned();
        trace::process(pid, origin.pasid, c"poison");
        dev_warn!(
            gpu.dev(),
            "process {pid}: IH client {client} consumed poison; sending SIGBUS\n"
        );
        task::send_sigbus(process.leader());
        gpu.health().set_cause(Cause::Memory);
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
        // Also called by the job timeout handler, in the fence signalling path: does not copy the
        // list, which allocates.
        table::for_each(|process| {
            let devices = || process.devices().iter().filter(|d| d.node().is_of(gpu));
            // Also after poison, except for the process that consumed it, which keeps its report:
            // the C driver does not set `sram_ecc_flag` on gfx942.
            let is_reported = devices().filter(|d| d.take_poisoned()).count() != 0;
            for device in devices() {
                if !is_reported {
                    process
                        .events()
                        .hw_exception(&HwException::gpu_lost(device.id()));
                }
                trace::process(process.pid(), 0, c"GPU hang");
            }
        });
    }

    fn gpu_back(&self, gpu: &Gpu) {
        smi::gpu_back(gpu);
    }
}
