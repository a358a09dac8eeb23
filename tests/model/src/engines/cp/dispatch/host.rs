// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The host interface of a running workgroup: messages, faults and context save of its waves, and
//! when the worker proceeds to another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpu_regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc};
use gpu_wave::{Fault, FaultKind, Gws, GwsReply, Host, Message, WaveStart, Where};

use super::super::env::{client, vm_fault, Env};
use super::{lock, Generation, Job, Mailbox, Pool, Space, Wake, WaveMessage};
use crate::{event, strict};

/// Pause of the worker of a wave whose access has to be retried.
const NACK_POLL: Duration = Duration::from_micros(50);

/// Values of `SPI_GDBG_PER_VMID_CNTL.LAUNCH_MODE`.
const LAUNCH_HALT: u32 = 1;
const LAUNCH_KILL: u32 = 2;
const LAUNCH_SINGLE_STEP: u32 = 3;

/// The host interface of a running workgroup.
pub(super) struct WorkerHost<'a> {
    pub(super) env: &'a dyn Env,
    /// The XCC that runs it.
    pub(super) on: &'a dyn Env,
    pub(super) pool: &'a Pool,
    pub(super) job: &'a Job,
    pub(super) mail: &'a Mailbox<Wake>,
    pub(super) space: Space,
    /// Index of the workgroup.
    pub(super) index: u64,
    /// SAVECTX is raised in its waves.
    pub(super) is_saving: bool,
    /// End of the time slice.
    pub(super) deadline: Instant,
    pub(super) turn: Instant,
    /// A wave waits for others of its dispatch.
    pub(super) waits: AtomicBool,
    /// A wave waits for a page.
    pub(super) nacked: AtomicBool,
}

impl Host for WorkerHost<'_> {
    fn message(&self, message: &Message) -> bool {
        // MSG_INTERRUPT; the engine adds the queue's doorbell.
        if message.id == 1 {
            lock(&self.job.messages).push(WaveMessage {
                m0: message.m0,
                privileged: message.privileged,
                space: self.space,
            });
            self.mail.send(Wake::Job(self.job.id));
        }
        message.id == 1
    }

    fn wave_start(&self) -> WaveStart {
        // The fields are at the same positions in both generations.
        let reg = match self.on.generation() {
            Generation::Gfx9 => gc::regSPI_GDBG_PER_VMID_CNTL,
            Generation::Gfx12 => gc12::regSPI_GDBG_PER_VMID_CNTL,
        };
        let value = self.on.vmid_reg(self.space.vmid, reg);
        let mode = gc::SPI_GDBG_PER_VMID_CNTL__LAUNCH_MODE.get(value);
        let end = gc::SPI_GDBG_PER_VMID_CNTL__TRAP_ON_END.is_set(value);
        if end || mode == LAUNCH_KILL || gc::SPI_GDBG_PER_VMID_CNTL__STALL_VMID.is_set(value) {
            strict!(
                self.env.strict(),
                "sq",
                "SPI_GDBG_PER_VMID_CNTL = {value:#x}: not modelled"
            );
        }
        WaveStart {
            halted: mode == LAUNCH_HALT,
            single_step: mode == LAUNCH_SINGLE_STEP,
            exceptions: gc::SPI_GDBG_PER_VMID_CNTL__EXCP_EN.get(value),
            replace: gc::SPI_GDBG_PER_VMID_CNTL__EXCP_REPLACE.is_set(value),
            trap_on_start: gc::SPI_GDBG_PER_VMID_CNTL__TRAP_ON_START.is_set(value),
            ecc_error: false,
        }
    }

    fn late(&self) -> Option<u64> {
        self.env.late()
    }

    fn trapped(&self, at: &Where, why: &str) {
        event!(
            self.env.trace(),
            "sq",
            "trap",
            "job={} why={why:?} {at}",
            self.job.id
        );
    }

    fn nack(&self, fault: &Fault, write: bool) {
        let client = match fault.kind {
            FaultKind::Execute => client::SQC_INST,
            _ => client::TCP,
        };
        self.on
            .raise_retry(&vm_fault(self.space, fault, write), client);
        self.nacked.store(true, Ordering::Relaxed);
    }

    fn gws(&self, request: &Gws) -> Option<GwsReply> {
        let share = self.job.gws.as_ref()?;
        if u32::from(request.resource) >= share.size {
            return None;
        }
        let reply = share.resources.execute(request.resource.into(), request);
        if let Some(GwsReply::Wait(_)) = reply {
            self.waits.store(true, Ordering::Relaxed);
        }
        reply
    }

    fn gws_over(&self, ticket: u64) -> bool {
        let share = self.job.gws.as_ref();
        let over = share.is_none_or(|share| share.resources.over(ticket));
        if !over {
            self.waits.store(true, Ordering::Relaxed);
        }
        over
    }

    fn cancel_gws(&self, ticket: u64) -> bool {
        let share = self.job.gws.as_ref();
        share.is_some_and(|share| share.resources.cancel(ticket))
    }

    fn save_waves(&self, _: [u32; 3], waves: &[u32]) -> Option<Vec<u64>> {
        let (saving, first) = lock(&self.job.state).saving.clone()?;
        let place = self.job.place_of(self.index);
        let dispatch = &self.job.shares[place].dispatch;
        let records = saving.push(first + place, dispatch, (self.job.id, self.index), waves);
        if records.is_none() {
            self.waits.store(true, Ordering::Relaxed);
        }
        records
    }

    fn realtime(&self) -> u64 {
        self.env.clock()
    }

    fn shader_clock(&self) -> u64 {
        // The shader clock runs at 2.1 GHz: 21 times the reference.
        self.env.clock().wrapping_mul(21)
    }

    fn poll(&self) -> bool {
        if self.job.stop.load(Ordering::Acquire) {
            return true;
        }
        if self.job.saves.load(Ordering::Acquire) && !self.is_saving {
            return true;
        }
        if self.nacked.swap(false, Ordering::Relaxed) {
            std::thread::sleep(NACK_POLL);
            if self.job.has_work() {
                return true;
            }
        }
        if self.waits.load(Ordering::Relaxed) {
            if self.job.has_work() {
                return true;
            }
            self.waits.store(false, Ordering::Relaxed);
            std::thread::yield_now();
        }
        let now = Instant::now();
        (now >= self.deadline && self.pool.others_wait(self.job.id))
            || (now >= self.turn && self.job.has_work())
    }
}
