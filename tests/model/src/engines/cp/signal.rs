// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Notifications to user space: completion signals, the queue's inactive signal, and interrupts of
//! shaders.

use std::fmt::Display;

use gpu_wave::Stop;
use rkfd_abi::aql::{queue as amd_queue, signal};
use rkfd_abi::ih::{client as ih_client, soc21, source, sq, sq_v11};

use super::dispatch::{Job, WaveMessage};
use super::engine::Engine;
use super::env::{client, vm_fault};
use super::error::ec;
use super::queue::{Halt, Queue, Work};
use super::shared::Space;
use crate::chips::Generation;
use crate::engines::gmc::{Rmw, VmFault};
use crate::engines::ih::Entry;
use crate::{event, strict};

/// Codes that the packet processor writes to the inactive signal, as ROCr decodes them.
pub mod inactive {
    /// Not enough scratch memory for a wave64 kernel.
    pub const SCRATCH: u64 = 1;
    /// Invalid dimensions or grid size.
    pub const DIMENSIONS: u64 = 2;
    /// Invalid group segment (LDS) size.
    pub const GROUP_SEGMENT: u64 = 4;
    /// Invalid kernel object.
    pub const CODE: u64 = 8;
    /// Invalid packet format.
    pub const FORMAT: u64 = 32;
    /// Invalid workgroup size.
    pub const WORKGROUP: u64 = 64;
    /// Invalid register counts.
    pub const VGPRS: u64 = 128;
    /// Invalid vendor packet.
    pub const VENDOR: u64 = 256;
    /// Scratch of a single dispatch can be reclaimed.
    pub const SCRATCH_DONE: u64 = 512;
    /// Not enough scratch memory for a wave32 kernel.
    pub const SCRATCH_WAVE32: u64 = 1024;
    /// A wave violated its aperture.
    pub const APERTURE: u64 = 0x2000_0000;
    /// Illegal instruction.
    pub const ILLEGAL: u64 = 0x4000_0000;
    /// `s_trap` without a trap handler.
    pub const TRAP: u64 = 0x8000_0000;
}

/// Returns the exception code (`kfd_dbg_trap_exception_code`) for an inactive code of a packet.
fn exception_of(code: u64) -> Option<u32> {
    Some(match code {
        inactive::DIMENSIONS => 16,
        inactive::GROUP_SEGMENT => 17,
        inactive::CODE => 18,
        inactive::WORKGROUP => 21,
        inactive::VGPRS => 22,
        inactive::VENDOR => 23,
        inactive::FORMAT => ec::PACKET_UNSUPPORTED,
        // Raised by a wave: the packet is valid.
        _ => return None,
    })
}

impl Engine<'_> {
    /// Returns the address of the queue's `amd_queue_t`, if it has one.
    pub(super) fn amd_queue(queue: &Queue) -> Option<u64> {
        match &queue.work {
            Work::Aql(aql) => aql.amd_queue,
            Work::Pm4(_) => None,
        }
    }

    fn profiling(&self, queue: &Queue) -> Result<bool, VmFault> {
        let Some(at) = Self::amd_queue(queue) else {
            return Ok(false);
        };
        let properties = self.env.read32(
            queue.config.vmid,
            at.wrapping_add(amd_queue::QUEUE_PROPERTIES as u64),
        )?;
        Ok(amd_queue::PROPERTIES_ENABLE_PROFILING.is_set(properties))
    }

    /// Completes a packet: time stamps, decrement, mailbox, interrupt, in that order.
    pub(super) fn complete(
        &mut self,
        queue: &mut Queue,
        at: u64,
        times: (u64, u64),
    ) -> Result<(), VmFault> {
        if at == 0 {
            return Ok(());
        }
        let vmid = queue.config.vmid;
        let field = |offset: usize| at.wrapping_add(offset as u64);
        let kind = self.env.read64(vmid, field(signal::KIND))? as i64;
        if at % signal::SIZE as u64 != 0 || kind != signal::KIND_USER {
            strict!(
                self.env.strict(),
                "aql",
                "queue {} pasid {}: completion signal {at:#x} of kind {kind}",
                queue.slot,
                queue.pasid
            );
        }
        if self.profiling(queue)? {
            self.env.write64(vmid, field(signal::START_TS), times.0)?;
            self.env.write64(vmid, field(signal::END_TS), times.1)?;
        }
        let rmw = match queue.config.bus_atomics {
            true => Rmw::Request,
            false => Rmw::ReadWrite,
        };
        let less = &mut |v: u64| v.wrapping_sub(1);
        let old = self.env.atomic(vmid, field(signal::VALUE), 8, rmw, less)?;
        event!(
            self.env.trace(),
            "aql",
            "signal",
            "xcc={} queue={} va={at:#x} value={} start={} end={}",
            self.env.xcc(),
            queue.slot,
            old.wrapping_sub(1) as i64,
            times.0,
            times.1
        );
        self.notify(queue, at)
    }

    /// Writes the event mailbox and raises the interrupt of a signal with an event.
    fn notify(&self, queue: &Queue, at: u64) -> Result<(), VmFault> {
        let vmid = queue.config.vmid;
        let mailbox = self
            .env
            .read64(vmid, at.wrapping_add(signal::EVENT_MAILBOX_PTR as u64))?;
        if mailbox == 0 {
            return Ok(());
        }
        let id = self
            .env
            .read32(vmid, at.wrapping_add(signal::EVENT_ID as u64))?;
        event!(
            self.env.trace(),
            "aql",
            "mailbox",
            "xcc={} queue={} va={mailbox:#x} event={id}",
            self.env.xcc(),
            queue.slot
        );
        // The driver reads the slot in the interrupt handler, so the slot is written first.
        self.env.write64(vmid, mailbox, id.into())?;
        self.post(queue, source::CP_END_OF_PIPE, [id, 0]);
        Ok(())
    }

    /// Stores `code` to the queue's inactive signal. `None`: it has none.
    pub(super) fn set_inactive(&self, queue: &Queue, code: u64) -> Result<Option<u64>, VmFault> {
        let Some(at) = Self::amd_queue(queue) else {
            return Ok(None);
        };
        let vmid = queue.config.vmid;
        let at = self.env.read64(
            vmid,
            at.wrapping_add(amd_queue::QUEUE_INACTIVE_SIGNAL as u64),
        )?;
        if at == 0 {
            return Ok(None);
        }
        event!(
            self.env.trace(),
            "aql",
            "inactive_signal",
            "xcc={} queue={} pasid={} va={at:#x} code={code:#x}",
            self.env.xcc(),
            queue.slot,
            queue.pasid
        );
        self.env
            .write64(vmid, at.wrapping_add(signal::VALUE as u64), code)?;
        self.notify(queue, at)?;
        Ok(Some(at))
    }

    /// Stops an AQL queue with an error.
    pub(super) fn aql_error(&mut self, queue: &mut Queue, code: u64, error: &dyn Display) {
        strict!(
            self.env.strict(),
            "aql",
            "queue {} pasid {} packet {:#x}: {error} (error {code:#x})",
            queue.slot,
            queue.pasid,
            queue.rptr
        );
        queue.halt = Halt::Error;
        // The error is reported twice: through the inactive signal, and, if the runtime enabled
        // exceptions, through the driver.
        if let Err(fault) = self.set_inactive(queue, code) {
            self.fault(queue, &fault, client::CPC);
        }
        if let Some(exception) = exception_of(code) {
            let ctx = queue.config.doorbell_id() | exception << 10;
            self.post(queue, source::CP_BAD_OPCODE, [ctx, 0]);
        }
    }

    /// Polls whether a scratch request was granted.
    pub(super) fn scratch_granted(&mut self, queue: &mut Queue, at: u64) -> bool {
        match self
            .env
            .read64(queue.config.vmid, at.wrapping_add(signal::VALUE as u64))
        {
            Ok(value) => value == 0,
            Err(fault) => {
                self.fault(queue, &fault, client::CPC);
                false
            }
        }
    }

    /// Posts the interrupt of an error of a wave (gfx9).
    pub(super) fn sq_error(&self, queue: &Queue, error: u32) {
        let data = error << sq::ERROR_TYPE_SHIFT;
        let mut words = [0; 8];
        sq::ENCODING.set(&mut words, sq::ENCODING_ERROR);
        sq::DATA_HI.set(&mut words, data >> 16 & 0xff);
        let Space { xcc, vmid } = self.space(queue);
        self.env.interrupt(Entry {
            client_id: ih_client::SE0SH as u8,
            source_id: source::SQ_INTERRUPT_MSG as u8,
            ring_id: queue.slot.ring_id(),
            vmid,
            mm_hub: false,
            node_id: self.node_of(xcc),
            ctx: [words[4], words[5], 0, 0],
        });
    }

    fn sq_interrupt(&self, queue: &Queue, message: &WaveMessage) {
        let Space { xcc, vmid } = message.space;
        let (encoding, data) = (sq::ENCODING_INST, message.m0 & 0xff_ffff);
        let privileged = message.privileged;
        let mut words = [0; 8];
        if self.generation() == Generation::Gfx12 {
            sq_v11::ENCODING.set(&mut words, encoding);
            sq_v11::DATA.set(&mut words, data);
            sq_v11::PRIV.set(&mut words, u32::from(privileged));
            self.env.interrupt(Entry {
                client_id: soc21::GFX as u8,
                source_id: source::SQ_INTERRUPT_MSG as u8,
                ring_id: queue.slot.ring_id(),
                vmid,
                mm_hub: false,
                node_id: self.node_of(xcc),
                ctx: [words[4], words[5], 0, 0],
            });
            return;
        }
        sq::ENCODING.set(&mut words, encoding);
        sq::DATA.set(&mut words, data & 0xfff);
        sq::DATA_MID.set(&mut words, data >> 12 & 0xf);
        sq::DATA_HI.set(&mut words, data >> 16 & 0xff);
        sq::PRIV.set(&mut words, u32::from(privileged));
        self.env.interrupt(Entry {
            client_id: ih_client::SE0SH as u8,
            source_id: source::SQ_INTERRUPT_MSG as u8,
            ring_id: queue.slot.ring_id(),
            vmid,
            mm_hub: false,
            node_id: self.node_of(xcc),
            ctx: [words[4], words[5], 0, 0],
        });
    }

    /// Posts pending `s_sendmsg MSG_INTERRUPT` of waves or their trap handlers.
    pub(super) fn shader_messages(&self, queue: &Queue) {
        for job in queue.work.jobs() {
            self.messages_of(queue, &job);
        }
    }

    /// Posts the pending messages of one job, which may have completed.
    pub(super) fn messages_of(&self, queue: &Queue, job: &Job) {
        for message in job.take_messages() {
            let WaveMessage { m0, privileged, .. } = message;
            event!(
                self.env.trace(),
                "sq",
                "message",
                "queue={} pasid={} job={} m0={m0:#x} privileged={}",
                queue.slot,
                queue.pasid,
                job.id,
                u8::from(privileged)
            );
            self.sq_interrupt(queue, &message);
        }
    }

    /// Handles a workgroup that stopped with an error.
    pub(super) fn shader_failed(&mut self, queue: &mut Queue, job: &Job, stop: &Stop) {
        event!(
            self.env.trace(),
            "cp",
            "dispatch_failed",
            "xcc={} queue={} pasid={} job={} {stop}",
            self.env.xcc(),
            queue.slot,
            queue.pasid,
            job.id
        );
        // Without a trap handler, or inside it.
        let code = match stop {
            Stop::Fault { fault, write, .. } => {
                let cid = match fault.kind {
                    gpu_wave::FaultKind::Execute => client::SQC_INST,
                    _ => client::TCP,
                };
                let space = job.failed_in().unwrap_or_else(|| self.space(queue));
                let fault = vm_fault(space, fault, *write);
                self.fault(queue, &fault, cid);
                return;
            }
            Stop::IllegalInstruction { .. } => inactive::ILLEGAL,
            Stop::Trap { .. } => inactive::TRAP,
            Stop::Violation { .. } => inactive::APERTURE,
            Stop::BadDispatch(_) => inactive::WORKGROUP,
            Stop::Message(_) | Stop::Halted { .. } | Stop::Saved | Stop::Interrupted => {
                // The wave hangs, and the queue with it.
                queue.halt = Halt::Error;
                return;
            }
        };
        self.aql_error(queue, code, stop);
    }
}
