// SPDX-License-Identifier: GPL-2.0

//! Processes and queues of the DQM, and counts of active queues.

use kernel::{
    fmt, new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
        Mutex, //
    },
    task::Pid,
    time::{Instant, Monotonic},
};

use super::{
    sdma,
    slots::{self, Vmids},
    watch::Watch,
};
use crate::{
    card::gart::Buffer,
    gpu::{dump, Gpu},
    hw::{MapProcess, QueueFormat, QueueSpec},
    kapi::{log_limit::LogLimit, task::Pids},
    mmu::{QueueOwner, Vm},
    mqd::{Mqd, QueuePlace},
};

/// Value of the parameter `sched_policy` that turns oversubscription off
/// (`KFD_SCHED_POLICY_HWS_NO_OVERSUBSCRIPTION`).
const NO_OVERSUBSCRIPTION: i32 = 1;

/// A process on one GPU: parameters of MAP_PROCESS and its queues (qpd).
#[pin_data]
pub(crate) struct DqmProcess {
    gpu: Arc<Gpu>,
    pids: Pids,
    pasid: u32,
    /// A process of `/dev/kfd`, or a file of the render node.
    owner: QueueOwner,
    evicted_ms: Atomic<u64>,
    /// Process context of the scheduler, if it needs one.
    context: Option<Buffer>,
    #[pin]
    pub(super) state: Mutex<SlotState>,
}

/// Mutable state of a [`DqmProcess`]. Its lock is nested in that of the DQM.
pub(super) struct SlotState {
    /// Parameters of MAP_PROCESS.
    pub(super) map: MapProcess,
    /// Retry faults are enabled.
    pub(super) xnack: bool,
    /// RUNTIME_ENABLE was called.
    pub(super) runtime: bool,
    /// Passing settings of a debugger on has failed: the scheduler may have others.
    pub(super) debug_failed: bool,
    /// Bits of the watchpoints of the process.
    pub(super) watchpoints: u32,
    /// Which start of the scheduler has state of the process, counted from 1; 0 for none.
    pub(super) in_scheduler: u32,
    /// Nesting depth of evictions.
    pub(super) evicted: u32,
    /// Start of the eviction.
    pub(super) since: Option<Instant<Monotonic>>,
    pub(super) queues: KVec<Arc<DqmQueue>>,
    /// A queue of the process was reset: its queues can no longer be changed.
    pub(super) has_reset_queue: bool,
    /// It had queues when the GPU was reset.
    pub(super) lost: bool,
}

fn context(gpu: &Gpu, size: usize) -> Result<Option<Buffer>> {
    (size > 0).then(|| gpu.system_buffer(size)).transpose()
}

impl DqmProcess {
    /// Returns the qpd of a process, or of a file of the render node, with a context of
    /// `context_bytes` for the scheduler. `ENOMEM` without memory.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        pids: Pids,
        owner: QueueOwner,
        map: MapProcess,
        xnack: bool,
        context_bytes: usize,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                context: context(gpu, context_bytes)?,
                gpu: gpu.clone(),
                pids,
                owner,
                pasid: map.pasid,
                evicted_ms: Atomic::new(0),
                state <- new_mutex!(SlotState {
                    map,
                    xnack,
                    runtime: false,
                    debug_failed: false,
                    watchpoints: 0,
                    in_scheduler: 0,
                    evicted: 0,
                    since: None,
                    queues: KVec::new(),
                    has_reset_queue: false,
                    lost: false,
                }),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Returns the GPU.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Returns the id of the process in the initial PID namespace, for messages.
    pub(crate) fn pid(&self) -> Pid {
        self.pids.global
    }

    /// Returns the ids of the process.
    pub(crate) fn pids(&self) -> Pids {
        self.pids
    }

    /// Returns the PASID.
    pub(crate) fn pasid(&self) -> u32 {
        self.pasid
    }

    /// Returns whether it is a process of KFD or a file of the render node.
    pub(crate) fn owner(&self) -> QueueOwner {
        self.owner
    }

    /// Returns whether it is a file of the render node.
    pub(super) fn is_file(&self) -> bool {
        self.owner == QueueOwner::File
    }

    /// Returns the GPU address of the scheduler's process context; 0 if there is none.
    pub(super) fn context(&self) -> u64 {
        self.context.as_ref().map_or(0, Buffer::gpu_addr)
    }

    /// Returns the time for which the queues were evicted, in ms, without an eviction in progress.
    pub(crate) fn evicted_ms(&self) -> u64 {
        self.evicted_ms.load(Relaxed)
    }

    /// Returns the packet format of the queue with this doorbell; `None` if it has none.
    pub(super) fn format_of(&self, doorbell: u32) -> Option<QueueFormat> {
        let state = self.state.lock();
        state.queues.iter().find_map(|queue| {
            let spec = &queue.state.lock().spec;
            (spec.doorbell == doorbell).then_some(spec.format)
        })
    }

    /// Returns the address of the first-level trap handler, 0 for none.
    pub(crate) fn trap_handler(&self) -> u64 {
        self.state.lock().map.tba
    }
}

/// The owner of a queue of a file.
pub(crate) trait LostQueue: Send + Sync {
    /// The queue does not run any more. Called with the lock of the device queue manager.
    fn lost(&self);
}

/// A user queue of a process.
#[pin_data]
pub(crate) struct DqmQueue {
    pub(super) process: Arc<DqmProcess>,
    qid: u32,
    pub(super) mqd: Arc<Mqd>,
    /// Queue context of the scheduler, if it needs one.
    context: Option<Buffer>,
    /// Owner of a queue of a file.
    owner: Option<Arc<dyn LostQueue>>,
    /// Address space of the process.
    pub(super) vm: Arc<Vm>,
    #[pin]
    pub(super) state: Mutex<QueueState>,
    /// A leaf.
    #[pin]
    pub(super) watch: Mutex<Watch>,
}

/// Mutable state of a [`DqmQueue`]. Its lock is nested in that of the process.
pub(super) struct QueueState {
    pub(super) spec: QueueSpec,
    /// Counted as active: mapped, or to be mapped by the scheduler.
    pub(super) active: bool,
    /// The queue was added to a scheduler that adds queues one by one.
    pub(super) mapped: bool,
    /// Counted as an owner of the global wave sync (GWS).
    gws: bool,
    pub(super) evicted: bool,
    /// A debugger has suspended the queue.
    pub(super) suspended: bool,
    /// It has an invalid packet, for which it was unmapped.
    pub(super) invalid: bool,
    /// The queue is lost: it was not preempted or not mapped.
    reset: bool,
}

impl DqmQueue {
    /// Builds the MQDs of a queue at `place`, with a context of `context_bytes` for the scheduler.
    /// `ENOMEM` without memory.
    pub(super) fn new(
        process: &Arc<DqmProcess>,
        vm: &Arc<Vm>,
        place: QueuePlace<'_>,
        qid: u32,
        spec: QueueSpec,
        context_bytes: usize,
        owner: Option<Arc<dyn LostQueue>>,
    ) -> Result<Arc<Self>> {
        let mqd = Arc::new(Mqd::new(process.gpu(), place, &spec)?, GFP_KERNEL)?;
        let context = context(process.gpu(), context_bytes)?;
        Arc::pin_init(
            pin_init!(Self {
                process: process.clone(),
                qid,
                mqd,
                context,
                owner,
                vm: vm.clone(),
                watch <- new_mutex!(Watch::default(), "rkfd_queue_watch"),
                state <- new_mutex!(QueueState {
                    spec,
                    active: false,
                    mapped: false,
                    gws: false,
                    evicted: false,
                    suspended: false,
                    invalid: false,
                    reset: false,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the qpd of the process.
    pub(crate) fn slot(&self) -> &Arc<DqmProcess> {
        &self.process
    }

    /// Returns the queue id within the process.
    pub(crate) fn qid(&self) -> u32 {
        self.qid
    }

    /// Returns the GPU address of the scheduler's queue context; 0 if there is none.
    pub(super) fn context(&self) -> u64 {
        self.context.as_ref().map_or(0, Buffer::gpu_addr)
    }

    /// Returns the MQD.
    pub(crate) fn mqd(&self) -> &Mqd {
        &self.mqd
    }

    /// Prints a line.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let flags = [
            (state.active, " active"),
            (state.evicted, " evicted"),
            (state.suspended, " suspended"),
            (state.invalid, " with an invalid packet"),
            (state.reset, " lost"),
        ];
        write!(
            f,
            "  process {}, PASID {}, queue {}, doorbell {:#x}, ring {:#x} of {} bytes,",
            self.process.pid(),
            self.process.pasid(),
            self.qid,
            state.spec.doorbell,
            state.spec.ring_va,
            state.spec.ring_size
        )?;
        match state.spec.sdma {
            Some(place) => write!(f, " SDMA engine {} RLC {}", place.engine, place.queue)?,
            None => write!(f, " compute")?,
        }
        for (_, name) in flags.iter().filter(|(is_set, _)| *is_set) {
            write!(f, "{name}")?;
        }
        writeln!(f)
    }

    /// Prints the queue, which failed, and its MQDs.
    fn show_failed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nFailed queue")?;
        self.show(f)?;
        for xcc in 0..self.mqd.count() {
            writeln!(f, "  MQD of inst {xcc}")?;
            dump::dwords_or_error(f, self.mqd.words(xcc))?;
        }
        Ok(())
    }

    /// Returns whether a debugger has suspended the queue.
    pub(crate) fn is_suspended(&self) -> bool {
        self.state.lock().suspended
    }

    /// Returns whether the queue is lost: it never runs again.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.lock().reset
    }

    /// Returns the description that the MQD was last written from.
    pub(crate) fn spec(&self) -> QueueSpec {
        self.state.lock().spec
    }

    /// Returns [`Self::spec`] of an active queue.
    pub(super) fn active_spec(&self) -> Option<QueueSpec> {
        let state = self.state.lock();
        state.active.then_some(state.spec)
    }

    /// Returns whether the queue is mapped or waits for a slot.
    pub(crate) fn is_active(&self) -> bool {
        self.state.lock().active
    }
}

/// Processes and queue counts.
pub(super) struct Queues {
    pub(super) processes: KVec<Arc<DqmProcess>>,
    /// SDMA queue slots.
    pub(super) sdma: Arc<sdma::SdmaQueueIds>,
    /// Active queues of all processes.
    pub(super) active: usize,
    /// Of these, compute queues: they take a queue slot of the firmware, SDMA queues do not.
    pub(super) compute: usize,
    /// Of these, queues that own the global wave sync (GWS).
    pub(super) gws: usize,
    /// Queues of all processes, active or not.
    pub(super) total: usize,
    /// Queues of one process only are mapped at a time.
    pub(super) single_process: bool,
    refusals: LogLimit,
}

impl DqmProcess {
    pub(super) fn end_eviction(&self, state: &mut SlotState) {
        state.evicted = 0;
        if let Some(since) = state.since.take() {
            let ms = since.elapsed().as_millis().max(0) as u64;
            self.evicted_ms.fetch_add(ms, Relaxed);
        }
    }

    /// Returns whether the queue is registered.
    pub(super) fn has(&self, queue: &Arc<DqmQueue>) -> bool {
        let state = self.state.lock();
        state.queues.iter().any(|q| Arc::ptr_eq(q, queue))
    }

    /// Removes a queue, if it is registered.
    pub(super) fn remove_queue(&self, queue: &Arc<DqmQueue>) {
        self.state.lock().queues.retain(|q| !Arc::ptr_eq(q, queue));
    }
}

impl Queues {
    /// Returns a list without processes.
    pub(super) fn new(sdma: Arc<sdma::SdmaQueueIds>) -> Self {
        Self {
            processes: KVec::new(),
            sdma,
            active: 0,
            compute: 0,
            gws: 0,
            total: 0,
            single_process: false,
            refusals: LogLimit::new(),
        }
    }

    /// Fails with `EPERM` when the GPU has the maximum number of queues.
    pub(super) fn check_total(&mut self, gpu: &Gpu) -> Result {
        let limit = crate::module_parameters::max_num_of_queues_per_device.value();
        if self.total >= limit as usize {
            if self.refusals.allows().is_some() {
                dev_warn!(
                    gpu.dev(),
                    "cannot create another queue: limit of {limit} reached\n"
                );
            }
            return Err(EPERM);
        }
        Ok(())
    }

    /// Fails with `EPERM` if a queue cannot be added: for a compute queue if oversubscription is
    /// off, and as many processes have queues as there are VMIDs, or as many queues are active as
    /// firmware has slots (`pqm_create_queue`).
    pub(super) fn check_subscription(&self, queue: &DqmQueue, vmids: Vmids) -> Result {
        if crate::module_parameters::sched_policy.value() != NO_OVERSUBSCRIPTION
            || queue.state.lock().spec.sdma.is_some()
        {
            return Ok(());
        }
        let has_queues = |process: &Arc<DqmProcess>| {
            Arc::ptr_eq(process, &queue.process) || !process.state.lock().queues.is_empty()
        };
        let processes = self.processes.iter().filter(|p| has_queues(p)).count();
        let slots = slots::max_queues(queue.process.gpu.generation().caps) as usize;
        if processes >= vmids.count() as usize || self.active >= slots {
            return Err(EPERM);
        }
        Ok(())
    }

    /// Counts a runnable queue as active. Returns whether it was not active before.
    pub(super) fn activate_if_runnable(&mut self, queue: &DqmQueue) -> bool {
        queue.state.lock().spec.is_runnable() && self.activate(queue)
    }

    /// As [`Queues::activate_if_runnable`], for a queue whose new properties make it runnable.
    pub(super) fn activate(&mut self, queue: &DqmQueue) -> bool {
        let mut state = queue.state.lock();
        if state.active || state.evicted || state.suspended || state.invalid || state.reset {
            return false;
        }
        state.active = true;
        self.active += 1;
        self.compute += usize::from(state.spec.sdma.is_none());
        state.gws = state.spec.gws;
        self.gws += usize::from(state.gws);
        true
    }

    /// Marks a queue as lost, unless it is already: it never runs again, the queues of its process
    /// can no longer be changed, and the process is notified. Returns whether it was not lost
    /// before.
    pub(super) fn mark_lost(&mut self, gpu: &Gpu, queue: &DqmQueue) -> bool {
        if core::mem::replace(&mut queue.state.lock().reset, true) {
            return false;
        }
        dev_err!(
            gpu.dev(),
            "queue {} of process {} (PASID {}) is lost\n",
            queue.qid(),
            queue.slot().pid(),
            queue.slot().pasid()
        );
        self.deactivate(queue);
        if let Some(owner) = &queue.owner {
            owner.lost();
            return true;
        }
        queue.process.state.lock().has_reset_queue = true;
        gpu.sink().queue_reset(gpu, queue.process.pasid);
        true
    }

    /// Records a coredump of a node, by its gpu_id, with the MQDs of the queue that failed, all
    /// queues, the runlist and what `ring` prints about the scheduler's ring.
    pub(super) fn record_coredump(
        &self,
        (gpu, node): (&Gpu, u32),
        why: &str,
        failed: Option<&DqmQueue>,
        runlist: &[u32],
        ring: impl Fn(&mut fmt::Formatter<'_>) -> fmt::Result,
    ) {
        let failed = |f: &mut fmt::Formatter<'_>| {
            writeln!(f, "gpu_id: {node:#x}")?;
            match failed {
                Some(queue) => queue.show_failed(f),
                None => Ok(()),
            }
        };
        gpu.record_coredump(why, failed, |f| {
            writeln!(f, "\nQueues")?;
            for process in &self.processes {
                for queue in &process.state.lock().queues {
                    queue.show(f)?;
                }
            }
            writeln!(f, "\nRunlist")?;
            dump::dwords(f, runlist)?;
            writeln!(f, "\nScheduler ring")?;
            ring(f)
        });
    }

    /// Returns all queues. `ENOMEM` without memory.
    pub(super) fn all(&self) -> Result<KVec<Arc<DqmQueue>>> {
        let mut all = KVec::with_capacity(self.total, GFP_KERNEL)?;
        for process in &self.processes {
            for queue in &process.state.lock().queues {
                all.push(queue.clone(), GFP_KERNEL)?;
            }
        }
        Ok(all)
    }

    /// Calls `f` with each process, until it fails.
    pub(super) fn for_each_process(
        &mut self,
        mut f: impl FnMut(&mut Self, &DqmProcess) -> Result,
    ) -> Result {
        let mut at = 0;
        while let Some(process) = self.processes.get(at).cloned() {
            f(self, &process)?;
            at += 1;
        }
        Ok(())
    }

    /// Marks all queues as lost, with a message per process, and drops the scheduler's state of
    /// queues and processes.
    pub(super) fn abandon(&mut self) {
        let mut at = 0;
        while let Some(process) = self.processes.get(at).cloned() {
            let mut state = process.state.lock();
            state.in_scheduler = 0;
            let is_lost = |queue: &Arc<DqmQueue>| queue.state.lock().reset;
            if !state.queues.iter().all(is_lost) {
                dev_err!(
                    process.gpu.dev(),
                    "the queues of process {} (PASID {}) are lost\n",
                    process.pid(),
                    process.pasid
                );
            }
            // A file may create queues again.
            if !state.queues.is_empty() && !process.is_file() {
                state.has_reset_queue = true;
                state.lost = true;
            }
            for queue in state.queues.iter() {
                self.deactivate(queue);
                let mut state = queue.state.lock();
                state.reset = true;
                state.mapped = false;
                drop(state);
                if let Some(owner) = &queue.owner {
                    owner.lost();
                }
            }
            at += 1;
        }
    }

    /// Calls [`LostQueue::lost`] for all queues of files: they do not run any more.
    pub(super) fn end_files(&self) {
        for process in self.processes.iter().filter(|p| p.is_file()) {
            for queue in &process.state.lock().queues {
                if let Some(owner) = &queue.owner {
                    owner.lost();
                }
            }
        }
    }

    /// Counts a queue as inactive. Returns whether it was active before.
    pub(super) fn deactivate(&mut self, queue: &DqmQueue) -> bool {
        let mut state = queue.state.lock();
        if !state.active {
            return false;
        }
        state.active = false;
        self.active -= 1;
        self.compute -= usize::from(state.spec.sdma.is_none());
        self.gws -= usize::from(state.gws);
        true
    }

    /// Returns the queue with this doorbell.
    pub(super) fn find_doorbell(&self, doorbell: u32) -> Option<Arc<DqmQueue>> {
        self.processes.iter().find_map(|p| {
            let state = p.state.lock();
            state
                .queues
                .iter()
                .find(|q| q.state.lock().spec.doorbell == doorbell)
                .cloned()
        })
    }
}
