// SPDX-License-Identifier: GPL-2.0 OR MIT

//! AQL queues: 64-byte packets, processed in order, several dispatches in flight.
//!
//! Workgroups of a queue start in the order of its packets: a packet is processed when those of all
//! dispatches before it have started, and a dispatch when there are wave slots for one of its
//! workgroups. Nothing else limits the number of dispatches in flight.
//!
//! A packet is *taken* once its header is not INVALID, the barrier bit allows it and, for a barrier
//! packet, its dependency signals are zero. It is *retired* when it and all packets before it are
//! complete: its header is set to INVALID and the read index passes it.

mod packet;
mod vendor;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_wave::abi::{AbiError, KernelDescriptor, Launch};
use gpu_wave::{Dispatch, Isa, Scope};
use rkfd_abi::aql::{self, barrier, header, kernel_dispatch as kd, queue as amd_queue, signal};
use rkfd_abi::ih::sq;

use super::dispatch::{fits, Job, Progress, WAVES};
use super::engine::{Engine, RETRY_POLL};
use super::env::{client, vm_fault, ShaderMemory};
use super::exec::POLL;
use super::fence::release_scope;
use super::queue::{Config, Halt, Pm4, Queue, Step, Work};
use super::scratch::Need;
use super::signal::inactive;
use crate::chips::{Cu, Generation};
use crate::engines::gmc::VmFault;
use crate::event;
use packet::{check_dispatch, AqlError, Bytes};

/// Packets of one queue per turn.
const BURST: usize = 16;
/// Shortest and longest poll interval for a packet that waits; the interval grows while it waits.
const POLL_RANGE: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];

/// A packet in flight.
pub struct Flight {
    index: u64,
    signal: u64,
    release: Scope,
    job: Option<Arc<Job>>,
    scratch: bool,
    done: bool,
}

/// State of an AQL queue besides its pointers.
pub struct Aql {
    /// Index of the next packet to take.
    next: u64,
    flights: VecDeque<Flight>,
    /// Completion signals of ended packets that are not written yet, with the dispatch's times.
    owed: VecDeque<(u64, (u64, u64))>,
    /// Address of the `amd_queue_t` that contains the queue's indices.
    pub amd_queue: Option<u64>,
    /// State of PM4 in vendor packets.
    pub pm4: Pm4,
    /// The IB of a vendor packet is being executed.
    in_vendor: bool,
    /// When the next packet, or the queue, began to wait for a change in memory.
    waiting: Option<Instant>,
}

impl Aql {
    /// Returns the state of a queue with nothing in flight.
    pub fn new(config: &Config, rptr: u64) -> Self {
        let read = amd_queue::READ_DISPATCH_ID as u64;
        let write = amd_queue::WRITE_DISPATCH_ID as u64;
        let base = config.rptr_report.wrapping_sub(read);
        // ROCr passes the addresses of the two indices in its amd_queue_t. Other producers have
        // none.
        let is_amd =
            base % amd_queue::ALIGN as u64 == 0 && config.wptr_poll == base.wrapping_add(write);
        Self {
            next: rptr,
            flights: VecDeque::new(),
            owed: VecDeque::new(),
            amd_queue: is_amd.then_some(base),
            pm4: Pm4::default(),
            in_vendor: false,
            waiting: None,
        }
    }

    /// Returns when to poll memory again.
    fn poll_again(&mut self) -> Step {
        let waited = self.waiting.get_or_insert_with(Instant::now).elapsed();
        Step::Poll((waited / 8).clamp(POLL_RANGE[0], POLL_RANGE[1]))
    }

    /// Returns the dispatches in flight.
    pub fn jobs(&self) -> Vec<Arc<Job>> {
        let own = self.flights.iter().filter(|f| !f.done);
        own.filter_map(|f| f.job.clone())
            .chain(self.pm4.jobs.iter().cloned())
            .collect()
    }

    /// Returns whether a packet is taken and not retired.
    pub fn in_flight(&self) -> bool {
        !self.flights.is_empty()
            || !self.owed.is_empty()
            || self.in_vendor
            || !self.pm4.jobs.is_empty()
    }
}

/// Result of processing a packet.
enum PacketStep {
    /// Taken; it may be complete already.
    Taken,
    /// Not taken yet.
    Later(Step),
    /// The queue stops.
    Error(AqlError),
}

/// Returns when to poll the memory that a queue waits for.
pub(super) fn poll_again(queue: &mut Queue) -> Step {
    aql_mut(queue).map_or(Step::Poll(POLL), Aql::poll_again)
}

fn aql_mut(queue: &mut Queue) -> Option<&mut Aql> {
    match &mut queue.work {
        Work::Aql(aql) => Some(aql),
        Work::Pm4(_) => None,
    }
}

impl Engine<'_> {
    /// Processes packets of an AQL queue.
    pub(super) fn step_aql(&mut self, queue: &mut Queue) -> Step {
        self.reap_aql(queue);
        for _ in 0..BURST {
            if matches!(&queue.work, Work::Aql(aql) if !aql.owed.is_empty()) {
                return match queue.halt {
                    Halt::No => Step::Poll(RETRY_POLL),
                    _ => Step::Idle,
                };
            }
            if queue.halt != Halt::No {
                // A pending scratch request is polled.
                return match queue.halt {
                    Halt::Scratch(_) => poll_again(queue),
                    _ => Step::Idle,
                };
            }
            match self.process_packet(queue) {
                Ok(PacketStep::Taken) => self.reap_aql(queue),
                Ok(PacketStep::Later(step)) => return step,
                Ok(PacketStep::Error(error)) => self.aql_error(queue, error.code(), &error),
                Err(fault) if fault.retry => {
                    return self.fault_or_retry(queue, &fault, client::CPF);
                }
                Err(fault) => self.fault(queue, &fault, client::CPF),
            }
        }
        Step::Busy
    }

    fn process_packet(&mut self, queue: &mut Queue) -> Result<PacketStep, VmFault> {
        if matches!(&queue.work, Work::Aql(aql) if aql.in_vendor) {
            return Ok(self.step_vendor(queue));
        }
        let Some(aql) = aql_mut(queue) else {
            return Ok(PacketStep::Later(Step::Idle));
        };
        let (next, flights) = (aql.next, aql.flights.len());
        // A worker wakes the engine when the last workgroup has started.
        let launched = aql.jobs().iter().all(|job| job.is_launched());
        let full = next.wrapping_sub(queue.rptr) >= queue.config.capacity();
        if next == queue.wptr || full || !launched || queue.stalled {
            return Ok(PacketStep::Later(Step::Idle));
        }
        let at = self.packet_address(queue, next);
        let mut bytes = Bytes([0; aql::PACKET_SIZE]);
        self.env.read(queue.config.vmid, at, &mut bytes.0)?;
        let head = bytes.header();
        let kind = header::TYPE.get(head);
        if kind == header::TYPE_INVALID {
            return Ok(PacketStep::Later(Step::Idle));
        }
        if header::BARRIER.is_set(head) && flights != 0 {
            return Ok(PacketStep::Later(Step::Idle));
        }
        let acquire = header::ACQUIRE_FENCE_SCOPE.get(head);
        let release = header::RELEASE_FENCE_SCOPE.get(head);
        if head & header::RESERVED != 0 || acquire == 3 || release == 3 {
            return Ok(PacketStep::Error(AqlError::Header { head }));
        }
        match kind {
            header::TYPE_KERNEL_DISPATCH => self.kernel_dispatch(queue, next, at, &bytes),
            header::TYPE_BARRIER_AND => self.barrier(queue, next, &bytes, true),
            header::TYPE_BARRIER_OR => self.barrier(queue, next, &bytes, false),
            header::TYPE_VENDOR_SPECIFIC => self.vendor(queue, next, &bytes),
            _ => Ok(PacketStep::Error(AqlError::Type { kind })),
        }
    }

    fn packet_address(&self, queue: &Queue, index: u64) -> u64 {
        let slot = index % queue.config.capacity();
        queue
            .config
            .base
            .wrapping_add(slot * aql::PACKET_SIZE as u64)
    }

    fn begin(queue: &mut Queue, flight: Flight) {
        if let Some(aql) = aql_mut(queue) {
            aql.next = flight.index.wrapping_add(1);
            aql.waiting = None;
            aql.flights.push_back(flight);
        }
    }

    fn kernel_dispatch(
        &mut self,
        queue: &mut Queue,
        index: u64,
        at: u64,
        p: &Bytes,
    ) -> Result<PacketStep, VmFault> {
        if let Err(error) = check_dispatch(p) {
            return Ok(PacketStep::Error(error));
        }
        let vmid = queue.config.vmid;
        let private = p.u32(kd::PRIVATE_SEGMENT_SIZE);
        if private != 0 {
            // Scratch is not shared, and the runtime locates the packet by the read index.
            if matches!(&queue.work, Work::Aql(aql) if !aql.flights.is_empty()) {
                return Ok(PacketStep::Later(Step::Idle));
            }
        }
        let object = p.u64(kd::KERNEL_OBJECT);
        let mut kernel = [0; KernelDescriptor::SIZE];
        self.env.read(vmid, object, &mut kernel)?;
        let kernel = match KernelDescriptor::parse(&kernel) {
            Ok(kernel) => kernel,
            Err(error) => return Ok(PacketStep::Error(AqlError::Kernel { error })),
        };
        let (scratch, descriptor) =
            match self.scratch(queue, index, &kernel, &Need::of(p, &kernel))? {
                Some(found) => found,
                None => {
                    let code = match kernel.wave32() {
                        true => inactive::SCRATCH_WAVE32,
                        false => inactive::SCRATCH,
                    };
                    if let Some(signal) = self.set_inactive(queue, code)? {
                        queue.halt = Halt::Scratch(signal);
                        return Ok(PacketStep::Later(poll_again(queue)));
                    }
                    return Ok(PacketStep::Error(AqlError::Scratch { private }));
                }
            };
        let size = |n: usize| p.u16(kd::WORKGROUP_SIZE_X + 2 * n);
        let grid = |n: usize| p.u32(kd::GRID_SIZE_X + 4 * n);
        let launch = Launch {
            isa: self.isa(),
            kernel_object: object,
            grid: [grid(0), grid(1), grid(2)],
            workgroup: [size(0), size(1), size(2)],
            group_segment_size: p.u32(kd::GROUP_SEGMENT_SIZE),
            private_segment_size: private,
            kernarg: p.u64(kd::KERNARG_ADDRESS),
            packet: at,
            queue: Self::amd_queue(queue).unwrap_or(0),
            dispatch_id: index,
            scratch_descriptor: descriptor,
            scratch,
            apertures: Default::default(),
            xcc_id: 0,
        };
        if launch.group_segment_size < kernel.group_segment_fixed_size {
            let size = launch.group_segment_size;
            return Ok(PacketStep::Error(AqlError::GroupSegment { size }));
        }
        self.acquire(queue, p.header());
        let memory = ShaderMemory::new(self.env, vmid);
        let sites = self.sites(queue);
        let mut on = Vec::with_capacity(sites.len());
        for site in &sites {
            let mut launch = launch.clone();
            self.place_scratch(&mut launch, site.space.xcc);
            launch.xcc_id = site.space.xcc.into();
            launch.apertures = self.apertures(site.space);
            let mut dispatch = match launch.dispatch(&kernel, &memory) {
                Ok(dispatch) => dispatch,
                Err(AbiError::Fault(fault)) => {
                    return Err(vm_fault(self.space(queue), &fault, false));
                }
                Err(error) => return Ok(PacketStep::Error(AqlError::Kernel { error })),
            };
            dispatch.trap = self.trap_handler(queue, site.space);
            dispatch.doorbell_id = queue.config.doorbell_id();
            if !fits(&dispatch) {
                let waves = dispatch.waves_per_workgroup();
                let vgprs = dispatch.vgprs();
                return Ok(PacketStep::Error(AqlError::Vgprs { waves, vgprs }));
            }
            on.push((dispatch, site.cus.clone()));
        }
        let slots = WAVES * sites.iter().map(|site| site.cus.len() as u64).sum::<u64>();
        let jobs = aql_mut(queue).map(|aql| aql.jobs()).unwrap_or_default();
        let live: u64 = jobs.iter().map(|job| job.live_waves()).sum();
        let waves = |(d, _): &(Dispatch, Arc<[Cu]>)| u64::from(d.waves_per_workgroup());
        if live != 0 && live + on.first().map_or(0, waves) > slots {
            return Ok(PacketStep::Later(poll_again(queue)));
        }
        let chunk = queue.shared.map_or(1, |mapping| mapping.chunk);
        let job = Job::spread(self.new_job_id(), on, chunk, queue.gws.clone());
        event!(
            self.env.trace(),
            "aql",
            "kernel_dispatch",
            "xcc={} queue={} pasid={} vmid={vmid} packet={index:#x} job={} header={:#x} grid={:?} \
             workgroup={:?} workgroups={} kernel={object:#x} kernarg={:#x} signal={:#x}",
            self.env.xcc(),
            queue.slot,
            queue.pasid,
            job.id,
            p.header(),
            launch.grid,
            launch.workgroup,
            job.total,
            launch.kernarg,
            p.signal()
        );
        let priority = queue.config.priority;
        Self::begin(
            queue,
            Flight {
                index,
                signal: p.signal(),
                release: release_scope(p.header()),
                job: Some(job.clone()),
                scratch: private != 0,
                done: false,
            },
        );
        if self.env.knobs().smu_throttle.take() {
            self.env.throttle();
        }
        if self.env.knobs().cp_poison.reach() {
            self.sq_error(queue, sq::ERROR_FATAL_DATA);
            return Ok(PacketStep::Taken);
        }
        self.pool.submit(&job, &sites, priority);
        Ok(PacketStep::Taken)
    }

    pub(super) fn isa(&self) -> Isa {
        match self.generation() {
            Generation::Gfx9 => Isa::Gfx942,
            Generation::Gfx12 => Isa::Gfx1201,
        }
    }

    fn barrier(
        &mut self,
        queue: &mut Queue,
        index: u64,
        p: &Bytes,
        all: bool,
    ) -> Result<PacketStep, VmFault> {
        if p.u16(barrier::RESERVED0) != 0 || p.u32(barrier::RESERVED1) != 0 {
            return Ok(PacketStep::Error(AqlError::BarrierReserved));
        }
        let (mut given, mut zero) = (0, 0);
        for n in 0..barrier::DEP_SIGNALS {
            let at = p.u64(barrier::DEP_SIGNAL + 8 * n);
            if at == 0 {
                continue;
            }
            given += 1;
            let value = self
                .env
                .read64(queue.config.vmid, at.wrapping_add(signal::VALUE as u64))?;
            zero += usize::from(value == 0);
        }
        let met = match all {
            true => zero == given,
            false => zero != 0 || given == 0,
        };
        if !met {
            return Ok(PacketStep::Later(poll_again(queue)));
        }
        event!(
            self.env.trace(),
            "aql",
            "barrier",
            "xcc={} queue={} pasid={} packet={index:#x} all={} signals={given} signal={:#x}",
            self.env.xcc(),
            queue.slot,
            queue.pasid,
            u8::from(all),
            p.signal()
        );
        self.acquire(queue, p.header());
        Self::begin(queue, Flight::instant(index, p));
        Ok(PacketStep::Taken)
    }

    /// Retires completed packets in order and signals their completion.
    pub(super) fn reap_aql(&mut self, queue: &mut Queue) {
        let slot = queue.slot;
        let Some(aql) = aql_mut(queue) else {
            return;
        };
        let now = self.env.clock();
        let mut signals = VecDeque::new();
        let mut failed = None;
        let mut once = false;
        let mut scope = Scope::Wave;
        let mut ended = Vec::new();
        // The packet that owns the executing IB is the last one taken.
        let vendor = aql
            .flights
            .back()
            .map(|f| f.index)
            .filter(|_| aql.in_vendor);
        for flight in &mut aql.flights {
            let times = match (&flight.job, flight.done) {
                (_, true) => continue,
                (None, false) if vendor == Some(flight.index) => continue,
                (None, false) => (now, now),
                (Some(job), false) => match job.progress() {
                    Progress::Going => continue,
                    Progress::Failed(stop) => {
                        failed = Some((job.clone(), stop));
                        break;
                    }
                    Progress::Done => {
                        event!(
                            self.env.trace(),
                            "aql",
                            "dispatch_end",
                            "xcc={} queue={slot} job={} packet={:#x}",
                            self.env.xcc(),
                            job.id,
                            flight.index
                        );
                        ended.push(job.clone());
                        job.times()
                    }
                },
            };
            flight.done = true;
            once |= flight.scratch;
            scope = scope.max(flight.release);
            signals.push_back((flight.signal, times));
        }
        // Messages of a job are complete once it is. Post them before its signal or its error.
        for job in &ended {
            self.messages_of(queue, job);
        }
        self.shader_messages(queue);
        self.release(queue, scope);
        let Some(aql) = aql_mut(queue) else {
            return;
        };
        let mut retired = Vec::new();
        while aql.flights.front().is_some_and(|f| f.done) {
            retired.extend(aql.flights.pop_front().map(|f| f.index));
        }
        aql.owed.append(&mut signals);
        match self.retire(queue, &retired) {
            Ok(()) => {}
            // In the next turn.
            Err(fault) if fault.retry => return self.env.raise_retry(&fault, client::CPC),
            Err(fault) => return self.fault(queue, &fault, client::CPC),
        }
        if once && queue.halt == Halt::No {
            if let Err(fault) = self.return_scratch(queue) {
                self.fault(queue, &fault, client::CPC);
            }
        }
        if let (Some((job, stop)), Halt::No) = (failed, &queue.halt) {
            self.shader_failed(queue, &job, &stop);
        }
    }

    fn retire(&mut self, queue: &mut Queue, retired: &[u64]) -> Result<(), VmFault> {
        for &index in retired {
            let at = self.packet_address(queue, index);
            let invalid = (header::TYPE_INVALID as u16).to_le_bytes();
            self.env.write(queue.config.vmid, at, &invalid)?;
            queue.rptr = index.wrapping_add(1);
        }
        if !retired.is_empty() {
            self.report_rptr(queue);
        }
        while let Some((signal, times)) = aql_mut(queue).and_then(|aql| aql.owed.front().copied()) {
            self.complete(queue, signal, times)?;
            aql_mut(queue).and_then(|aql| aql.owed.pop_front());
        }
        Ok(())
    }

    /// Returns scratch that the runtime has assigned for a single dispatch.
    fn return_scratch(&mut self, queue: &mut Queue) -> Result<(), VmFault> {
        let Some(at) = Self::amd_queue(queue) else {
            return Ok(());
        };
        let vmid = queue.config.vmid;
        let properties = self
            .env
            .read32(vmid, at.wrapping_add(amd_queue::QUEUE_PROPERTIES as u64))?;
        if amd_queue::PROPERTIES_USE_SCRATCH_ONCE.is_set(properties) {
            if let Some(signal) = self.set_inactive(queue, inactive::SCRATCH_DONE)? {
                queue.halt = Halt::Scratch(signal);
            }
        }
        Ok(())
    }
}

impl Flight {
    /// Returns the flight of a packet without a dispatch.
    fn instant(index: u64, p: &Bytes) -> Self {
        Self {
            index,
            signal: p.signal(),
            release: release_scope(p.header()),
            job: None,
            scratch: false,
            done: false,
        }
    }
}
