// SPDX-License-Identifier: GPL-2.0

//! Interrupt handler: decodes entries of the interrupt ring and dispatches them to the SDMA rings
//! or to the event sink.

use kernel::prelude::*;

use super::{Gpu, Origin};
use crate::{
    card::ih::LogKind,
    hw::{AccessKind, IhEntry, IhEvent, VmFault},
    kapi::irq::Handler,
    trace,
};

impl Gpu {
    /// Reads and dispatches all entries of the interrupt ring. `ENODEV` when the driver was
    /// unbound.
    pub(super) fn drain_ih(&self) -> Result {
        self.ih()
            .drain(self.doorbells(), |entry| self.dispatch(entry))
    }

    /// Dispatches a decoded IH entry.
    fn dispatch(&self, entry: &IhEntry) {
        let pasid = u32::from(entry.pasid);
        trace::ih(
            self.id(),
            u32::from(entry.node),
            u32::from(entry.client),
            u32::from(entry.source),
            u32::from(entry.ring),
            u32::from(entry.vmid),
            pasid,
            entry.ctx0,
        );
        let origin = Origin {
            ih_node: entry.node.into(),
            vmid: entry.vmid.into(),
            pasid,
        };
        if let IhEvent::CpEop { ctx0 } = entry.event {
            self.user_doorbells().fence_interrupt(ctx0);
        }
        let user = origin.vmid >= self.generation().caps.first_user_vmid && pasid != 0;
        let sink = self.sink();
        match entry.event {
            IhEvent::SdmaTrap {
                ctx0,
                engine,
                kernel: true,
            } => {
                if let Ok(sdma) = self.sdma() {
                    sdma.trap(engine, ctx0);
                }
            }
            IhEvent::Smu(what, data) => {
                let throttled = self
                    .smu()
                    .zip(self.mmio().ok())
                    .and_then(|(smu, mmio)| smu.interrupt(mmio, what, data));
                if let Some((reasons, count)) = throttled {
                    dev_warn!(self.dev(), "the GPU is throttled (reasons {reasons:#x})\n");
                    sink.throttled(self, reasons, count);
                }
            }
            IhEvent::Poison if user => sink.poison(self, &origin, entry.client.into()),
            IhEvent::VmFault(fault) if fault.retry && self.generation().caps.retries => {
                if !user || !sink.retry_fault(self, &origin, &fault) {
                    self.vm_fault(entry, &fault, user.then_some(&origin));
                    self.acknowledge(&fault);
                }
            }
            IhEvent::RetryRing => {
                let read = self
                    .ih()
                    .drain_retry(self.doorbells(), |entry| self.dispatch(entry));
                if let Err(e) = read {
                    dev_err!(self.dev(), "interrupt ring 1: {e:?}\n");
                }
            }
            IhEvent::VmFault(fault) => self.vm_fault(entry, &fault, user.then_some(&origin)),
            IhEvent::CpEop { ctx0 } if user && (self.generation().caps.is_event_context)(ctx0) => {
                sink.cp_eop(self, &origin, ctx0)
            }
            IhEvent::SdmaTrap { ctx0, .. } if user => sink.sdma_trap(self, &origin, ctx0),
            IhEvent::SqMessage { data, from } if user => sink.sq_msg(self, &origin, data, from),
            IhEvent::CpBadOpcode { doorbell, code } if user => {
                if self.ih().may_log(LogKind::Packet) {
                    dev_err!(
                        self.dev(),
                        "bad packet in the queue of PASID {pasid} with doorbell {doorbell:#x}, error {code}\n"
                    );
                }
                self.user_doorbells().fault(pasid, doorbell);
                sink.bad_opcode(self, &origin, doorbell, code);
            }
            IhEvent::CpBadOpcode { doorbell, code } => {
                if self.ih().may_log(LogKind::Packet) {
                    dev_err!(
                        self.dev(),
                        "bad packet in a kernel queue, doorbell {doorbell:#x}, error {code}\n"
                    );
                }
            }
            IhEvent::CpPrivileged { doorbell } => {
                if self.ih().may_log(LogKind::Privileged) {
                    dev_err!(
                        self.dev(),
                        "privileged access by a queue (PASID {pasid}, VMID {})\n",
                        entry.vmid
                    );
                }
                if user {
                    self.user_doorbells().fault(pasid, doorbell);
                }
            }
            _ => {}
        }
    }

    /// Acknowledges a retry fault, after it was handled: the access is repeated.
    pub(crate) fn acknowledge(&self, fault: &VmFault) {
        // Not needed for an unplugged GPU.
        let _ = self.ih().acknowledge(self.doorbells(), fault.cam);
    }

    fn vm_fault(&self, entry: &IhEntry, fault: &VmFault, user: Option<&Origin>) {
        let status = self
            .mmio()
            .and_then(|m| {
                self.generation()
                    .gmc
                    .fault_status(m, fault.gfx, u32::from(entry.node))
            })
            .unwrap_or(0);
        if self.ih().may_log(LogKind::Fault) {
            self.report_fault(entry, fault, status);
        }
        if let Some(origin) = user {
            self.sink().vm_fault(self, origin, fault);
        } else if let Ok(sdma) = self.sdma() {
            // A job of a kernel ring: it ends with an error.
            let hal = self.generation().sdma;
            let node = u32::from(entry.node);
            let engines = self
                .mmio()
                .map_or(0, |mmio| hal.fault_engines(mmio, status, node));
            sdma.fault(engines, entry.vmid.into());
        }
    }

    fn report_fault(&self, entry: &IhEntry, fault: &VmFault, status: u32) {
        let (vmid, pasid, node) = (entry.vmid, entry.pasid, entry.node);
        let hub = if fault.gfx { "graphics" } else { "memory" };
        let access = match fault.kind {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
            AccessKind::Execute => "fetch",
        };
        let retry = if fault.retry { ", retry" } else { "" };
        let why = match (fault.not_present, fault.no_read, fault.no_write) {
            (true, _, _) => "not mapped",
            (_, true, _) => "no read permission",
            (_, _, true) => "no write permission",
            _ => "not permitted",
        };
        let addr = fault.addr;
        dev_err!(
            self.dev(),
            "VM fault: {hub} hub, node {node}, VMID {vmid}, PASID {pasid}, address {addr:#014x}, {access}{retry}: {why}, status {status:#010x}\n"
        );
    }
}

impl Handler for Gpu {
    fn handle(&self) {
        if let Err(e) = self.drain_ih() {
            // Unplugged, or being reset.
            if e != ENODEV && e != EIO {
                dev_err!(self.dev(), "interrupt ring: {e:?}\n");
            }
        }
    }
}
