// SPDX-License-Identifier: GPL-2.0

//! Who is on the hardware: one device queue manager per GPU.
//!
//! It knows the processes of the GPU and their queues and lets a [`Policy`] put the active ones
//! on the hardware. All changes happen under one lock, which is held across preemption, as in the
//! C driver: at most one preemption time-out of 9 seconds.

use core::{
    any::Any,
    ops::{Deref, DerefMut},
};

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        lock::mutex::MutexGuard,
        Arc,
        Mutex, //
    },
    task::Pid,
    time::{Instant, Monotonic},
};

use crate::{
    gpu::Gpu,
    hw::{MapProcess, QueueSpec, SchedKind, SdmaPlace},
    kapi::task::NoReclaim,
    mqd::Mqd,
    ring,
};

mod cpsch;
mod runlist;
mod sdma;

pub(crate) use self::sdma::{Slot as SdmaSlot, Wanted as SdmaWanted};

/// Queues that a GPU can have in all.
const MAX_QUEUES: usize = 4096;

/// What MAP_PROCESS needs of a process on one GPU, and the process's queues there.
#[pin_data]
pub(crate) struct ProcessSlot {
    gpu: Arc<Gpu>,
    pid: Pid,
    pasid: u32,
    evicted_ms: Atomic<u64>,
    #[pin]
    state: Mutex<SlotState>,
}

/// What changes in the life of a [`ProcessSlot`]. The lock is inside that of the manager.
struct SlotState {
    map: MapProcess,
    xnack: bool,
    /// How often the process was evicted without being restored.
    evicted: u32,
    /// Since when.
    since: Option<Instant<Monotonic>>,
    queues: KVec<Arc<HwQueue>>,
    /// A queue of the process was reset: nothing of the process may change any more.
    has_reset_queue: bool,
}

impl ProcessSlot {
    /// Makes the slot of a process. It is not known to the manager until
    /// [`DqmRef::register_process`].
    pub(crate) fn new(gpu: &Arc<Gpu>, pid: Pid, map: MapProcess, xnack: bool) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                gpu: gpu.clone(),
                pid,
                pasid: map.pasid,
                evicted_ms: Atomic::new(0),
                state <- new_mutex!(SlotState {
                    map,
                    xnack,
                    evicted: 0,
                    since: None,
                    queues: KVec::new(),
                    has_reset_queue: false,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// The GPU.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The process, for messages.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// The PASID.
    pub(crate) fn pasid(&self) -> u32 {
        self.pasid
    }

    /// Milliseconds for which the queues were off, all evictions that have ended taken together.
    pub(crate) fn evicted_ms(&self) -> u64 {
        self.evicted_ms.load(Relaxed)
    }

    /// Sets the first trap handler and its memory; takes effect when the process is mapped the next time.
    pub(crate) fn set_trap_handler(&self, tba: u64, tma: u64) {
        let mut state = self.state.lock();
        state.map.tba = tba;
        state.map.tma = tma;
    }

    /// The first trap handler, 0 for none.
    pub(crate) fn trap_handler(&self) -> u64 {
        self.state.lock().map.tba
    }
}

/// A user queue as the hardware knows it.
#[pin_data]
pub(crate) struct HwQueue {
    process: Arc<ProcessSlot>,
    qid: u32,
    mqd: Mqd,
    #[pin]
    state: Mutex<QueueState>,
}

/// What changes in the life of a [`HwQueue`]. The lock is inside that of the process's slot.
struct QueueState {
    spec: QueueSpec,
    /// Counted as active: on the hardware, or as soon as the runlist is sent.
    active: bool,
    /// It was counted as one that owns the global wave sync.
    gws: bool,
    evicted: bool,
    reset: bool,
}

impl HwQueue {
    /// Builds the image of a queue; it is not known to the manager until [`DqmRef::add`].
    pub(crate) fn new(process: &Arc<ProcessSlot>, qid: u32, spec: QueueSpec) -> Result<Arc<Self>> {
        let mqd = Mqd::new(process.gpu(), &spec)?;
        Arc::pin_init(
            pin_init!(Self {
                process: process.clone(),
                qid,
                mqd,
                state <- new_mutex!(QueueState {
                    spec,
                    active: false,
                    gws: false,
                    evicted: false,
                    reset: false,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// The process.
    pub(crate) fn slot(&self) -> &Arc<ProcessSlot> {
        &self.process
    }

    /// The queue's id within the process.
    pub(crate) fn qid(&self) -> u32 {
        self.qid
    }

    /// Where it is on an SDMA engine, if it is.
    fn sdma_place(&self) -> Option<SdmaPlace> {
        self.state.lock().spec.sdma
    }

    /// The image.
    pub(crate) fn mqd(&self) -> &Mqd {
        &self.mqd
    }

    /// On the hardware, or waiting for a slot.
    pub(crate) fn is_active(&self) -> bool {
        self.state.lock().active
    }
}

/// How queues get onto the hardware and off it. Called with the manager's lock held.
pub(super) trait Policy: Send + Sync {
    /// Brings the scheduler up.
    fn start(&mut self, gpu: &Gpu) -> Result;

    /// Takes everything off the hardware and the scheduler down.
    fn stop(&mut self, gpu: &Gpu, queues: &mut Queues) -> Result;

    /// Gets the memory that [`Policy::map`] takes for `queues`. Nothing has changed after an error.
    fn reserve(&mut self, gpu: &Gpu, queues: &Queues) -> Result;

    /// Takes all queues off the hardware. A queue that an SDMA engine does not let go of is lost;
    /// with `then_reset` that is all, as the engine is about to be reset.
    fn unmap(&mut self, gpu: &Gpu, queues: &mut Queues, then_reset: bool) -> Result;

    /// Puts the active queues of all processes on the hardware. Needs no memory but what was
    /// reserved for these or for more queues.
    fn map(&mut self, gpu: &Gpu, queues: &Queues) -> Result;

    /// The words of the last runlist, for debugfs.
    fn runlist_words(&self) -> Result<KVec<u32>>;

    /// The words of the scheduler's own MQD, for debugfs.
    fn scheduler_mqd(&self, gpu: &Gpu) -> Result<KVec<u32>>;
}

/// The processes and the counts of their queues.
pub(super) struct Queues {
    processes: KVec<Arc<ProcessSlot>>,
    /// Places on the SDMA engines.
    sdma: Arc<sdma::Places>,
    /// Active queues of all processes.
    active: usize,
    /// Of these, those that take a slot of the firmware's, which SDMA queues do not.
    compute: usize,
    /// Of these, those that own the global wave sync.
    gws: usize,
    /// Queues of all processes, active or not.
    total: usize,
}

struct Inner {
    policy: KBox<dyn Policy>,
    queues: Queues,
    running: bool,
    /// How often all queues were taken off without being put back, see [`DqmRef::suspend`].
    suspended: u32,
}

/// The manager.
#[pin_data]
pub(crate) struct Dqm {
    #[pin]
    inner: Mutex<Inner>,
    /// Runlists sent, for debugfs.
    runlists: Atomic<u64>,
}

/// The lock of the manager. Invalidations of user memory take it: nobody waits for memory under it.
struct Guard<'a> {
    // Field order: it is left first.
    inner: MutexGuard<'a, Inner>,
    _no_reclaim: NoReclaim,
}

impl Deref for Guard<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Dqm {
    fn lock(&self) -> Guard<'_> {
        let inner = self.inner.lock();
        Guard {
            inner,
            _no_reclaim: NoReclaim::new(),
        }
    }
}

/// Numbers for debugfs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Processes.
    pub(crate) processes: usize,
    /// Queues.
    pub(crate) queues: usize,
    /// Active queues.
    pub(crate) active: usize,
    /// Runlists that were sent.
    pub(crate) runlists: u64,
}

/// The manager together with its GPU: what [`GpuDqm::dqm`] gives.
#[derive(Clone, Copy)]
pub(crate) struct DqmRef<'a> {
    gpu: &'a Gpu,
    dqm: &'a Dqm,
}

/// Gives a GPU its manager: `gpu.dqm()`.
pub(crate) trait GpuDqm {
    /// The manager; `ENODEV` when it was never started.
    fn dqm(&self) -> Result<DqmRef<'_>>;
}

impl GpuDqm for Gpu {
    fn dqm(&self) -> Result<DqmRef<'_>> {
        let any: &dyn Any = self.scheduler().ok_or(ENODEV)?;
        let dqm = any.downcast_ref::<Dqm>().ok_or(ENODEV)?;
        Ok(DqmRef { gpu: self, dqm })
    }
}

/// The user queues on the engines of the kernel's SDMA rings.
struct UserQueues;

impl ring::sdma::UserQueues for UserQueues {
    fn suspend(&self, gpu: &Gpu) -> Result {
        gpu.dqm().map_or(Ok(()), DqmRef::suspend)
    }

    fn resume(&self, gpu: &Gpu) -> Result {
        gpu.dqm().map_or(Ok(()), DqmRef::resume)
    }
}

/// Makes the manager of a GPU and brings its scheduler up.
pub(crate) fn start(gpu: &Gpu) -> Result {
    let policy: KBox<dyn Policy> = match gpu.generation().sched {
        SchedKind::Runlist => KBox::new(cpsch::Cpsch::new(), GFP_KERNEL)?,
        SchedKind::Mes => return Err(ENODEV),
    };
    ring::sdma::set_user_queues(&UserQueues);
    let places = sdma::Places::new(gpu.config(), gpu.generation().caps)?;
    let dqm = Arc::pin_init(
        pin_init!(Dqm {
            inner <- new_mutex!(Inner {
                policy,
                queues: Queues {
                    processes: KVec::new(),
                    sdma: places,
                    active: 0,
                    compute: 0,
                    gws: 0,
                    total: 0,
                },
                running: false,
                suspended: 0,
            }),
            runlists: Atomic::new(0),
        }),
        GFP_KERNEL,
    )?;
    {
        let mut inner = dqm.lock();
        inner.policy.start(gpu)?;
        inner.running = true;
    }
    gpu.set_scheduler(dqm)
}

/// Takes all queues off the hardware and the scheduler down.
pub(crate) fn stop(gpu: &Gpu) -> Result {
    let Ok(dqm) = gpu.dqm() else {
        return Ok(());
    };
    let mut inner = dqm.dqm.lock();
    if !inner.running {
        return Ok(());
    }
    inner.running = false;
    let Inner { policy, queues, .. } = &mut *inner;
    policy.stop(gpu, queues)
}

impl<'a> DqmRef<'a> {
    fn lock(self) -> Guard<'a> {
        self.dqm.lock()
    }

    /// Makes the hardware's state follow lists that may have grown. With too little memory all is
    /// as it was.
    fn execute(self, inner: &mut Inner) -> Result {
        self.reserve(inner)?;
        self.unmap(inner)?;
        self.map(inner)
    }

    /// The same after lists got shorter, for which there is memory.
    fn execute_less(self, inner: &mut Inner) -> Result {
        self.unmap(inner)?;
        self.map(inner)
    }

    fn reserve(self, inner: &mut Inner) -> Result {
        inner.policy.reserve(self.gpu, &inner.queues)
    }

    fn unmap(self, inner: &mut Inner) -> Result {
        if !inner.running {
            return Ok(());
        }
        self.gpu.check_usable()?;
        inner.policy.unmap(self.gpu, &mut inner.queues, false)
    }

    fn map(self, inner: &mut Inner) -> Result {
        let idle = inner.queues.active == 0 || inner.queues.processes.is_empty();
        if !inner.running || inner.suspended > 0 || idle {
            return Ok(());
        }
        self.gpu.check_usable()?;
        self.dqm.runlists.fetch_add(1, Relaxed);
        inner.policy.map(self.gpu, &inner.queues)
    }

    /// Makes a process known. From now on it may have queues.
    pub(crate) fn register_process(self, slot: &Arc<ProcessSlot>) -> Result {
        let mut inner = self.lock();
        self.gpu.mmio()?;
        inner.queues.processes.push(slot.clone(), GFP_KERNEL)?;
        Ok(())
    }

    /// Forgets a process: its queues go off the hardware and are given up.
    ///
    /// The process is gone afterwards whatever the result; an error says that the hardware did
    /// not let go of its queues in time.
    pub(crate) fn unregister(self, slot: &Arc<ProcessSlot>) -> Result {
        let mut inner = self.lock();
        let queues = core::mem::take(&mut slot.state.lock().queues);
        for queue in queues.iter() {
            inner.queues.deactivate(queue);
            inner.queues.total -= 1;
        }
        let Some(at) = inner
            .queues
            .processes
            .iter()
            .position(|p| Arc::ptr_eq(p, slot))
        else {
            return Ok(());
        };
        let process = inner.queues.processes.remove(at);
        let result = self.execute_less(&mut inner);
        drop(inner);
        // Images and slot go without the lock.
        drop(process);
        drop(queues);
        result
    }

    fn check_total(self, inner: &Inner) -> Result {
        if inner.queues.total >= MAX_QUEUES {
            dev_warn!(
                self.gpu.dev(),
                "no further queue: {MAX_QUEUES} were already created\n"
            );
            return Err(EPERM);
        }
        Ok(())
    }

    /// Takes a place for a queue on an SDMA engine: `ENOMEM` when there is none left, `EPERM` when
    /// the GPU has too many queues.
    pub(crate) fn take_sdma(self, wanted: SdmaWanted) -> Result<SdmaSlot> {
        let inner = self.lock();
        self.check_total(&inner)?;
        inner.queues.sdma.take(wanted).inspect_err(|_| {
            dev_dbg!(self.gpu.dev(), "no SDMA queue left for {wanted:?}\n");
        })
    }

    /// Adds a queue and, when it is runnable, puts it on the hardware. `EPERM` when the GPU has
    /// too many.
    pub(crate) fn add(self, queue: &Arc<HwQueue>) -> Result {
        let mut inner = self.lock();
        self.gpu.check_usable()?;
        self.check_total(&inner)?;
        {
            let mut slot = queue.process.state.lock();
            slot.queues.push(queue.clone(), GFP_KERNEL)?;
            queue.state.lock().evicted = slot.evicted > 0;
        }
        inner.queues.total += 1;
        if inner.queues.activate_if_runnable(queue) {
            if let Err(e) = self.execute(&mut inner) {
                inner.queues.deactivate(queue);
                inner.queues.total -= 1;
                queue.process.forget(queue);
                // The queues that were there before go on without it, if that is possible at all.
                if let Err(again) = self.map(&mut inner) {
                    dev_err!(self.gpu.dev(), "queues stay off the hardware: {again:?}\n");
                }
                return Err(e);
            }
        }
        Ok(())
    }

    /// Takes a queue off the hardware and forgets it. The queue is gone afterwards whatever the
    /// result.
    pub(crate) fn remove(self, queue: &Arc<HwQueue>) -> Result {
        let mut inner = self.lock();
        if !queue.process.has(queue) {
            return Err(EINVAL);
        }
        let result = if inner.queues.deactivate(queue) {
            self.execute_less(&mut inner)
        } else {
            Ok(())
        };
        // Only now: a queue that does not stop is looked for in the lists.
        queue.process.forget(queue);
        inner.queues.total -= 1;
        result
    }

    /// Gives a queue new properties. `EACCES` when the process has a queue that was reset. After
    /// an error the queue has its old ones.
    pub(crate) fn update(self, queue: &Arc<HwQueue>, spec: QueueSpec) -> Result {
        self.change(queue, spec.is_runnable(), |queue| {
            queue.mqd.update(&spec)?;
            queue.state.lock().spec = spec;
            Ok(())
        })
    }

    /// Restricts a queue to some compute units, see [`Mqd::set_cu_mask`].
    pub(crate) fn set_cu_mask(self, queue: &Arc<HwQueue>, masks: &[KVec<u32>]) -> Result {
        self.change(queue, false, |queue| queue.mqd.set_cu_mask(masks))
    }

    /// Takes all off, changes a queue, and puts all back. `runs`: it may be active afterwards.
    fn change(
        self,
        queue: &Arc<HwQueue>,
        runs: bool,
        f: impl FnOnce(&HwQueue) -> Result,
    ) -> Result {
        let mut inner = self.lock();
        self.gpu.check_usable()?;
        // Memory first, for the lists as they will be.
        let counted = runs && inner.queues.activate(queue);
        let reserved = self.reserve(&mut inner);
        if counted {
            inner.queues.deactivate(queue);
        }
        reserved?;
        let unmapped = self.unmap(&mut inner);
        if queue.process.state.lock().has_reset_queue {
            // The others go on.
            return unmapped
                .and_then(|()| self.map(&mut inner))
                .and(Err(EACCES));
        }
        unmapped?;
        let changed = f(queue);
        inner.queues.deactivate(queue);
        inner.queues.activate_if_runnable(queue);
        let mapped = self.map(&mut inner);
        changed.and(mapped)
    }

    /// Takes a process's queues off the hardware until [`DqmRef::restore`]. Nests.
    pub(crate) fn evict(self, slot: &Arc<ProcessSlot>) -> Result {
        let mut inner = self.lock();
        {
            let mut state = slot.state.lock();
            state.evicted += 1;
            if state.evicted > 1 {
                return Ok(());
            }
            state.since = Some(Instant::now());
            let mut ran = false;
            for queue in state.queues.iter() {
                queue.state.lock().evicted = true;
                ran |= inner.queues.deactivate(queue);
            }
            if !ran {
                return Ok(());
            }
        }
        self.execute_less(&mut inner)
    }

    /// Undoes one [`DqmRef::evict`]; `EINVAL` when there is none. With `ENOMEM` it is not undone.
    pub(crate) fn restore(self, slot: &Arc<ProcessSlot>) -> Result {
        let mut inner = self.lock();
        let mut state = slot.state.lock();
        match state.evicted {
            0 => return Err(EINVAL),
            1 => {}
            _ => {
                state.evicted -= 1;
                return Ok(());
            }
        }
        let mut runs = false;
        for queue in state.queues.iter() {
            queue.state.lock().evicted = false;
            runs |= inner.queues.activate_if_runnable(queue);
        }
        if !runs {
            slot.end_eviction(&mut state);
            return Ok(());
        }
        if let Err(e) = self.reserve(&mut inner) {
            for queue in state.queues.iter() {
                inner.queues.deactivate(queue);
                queue.state.lock().evicted = true;
            }
            return Err(e);
        }
        slot.end_eviction(&mut state);
        drop(state);
        self.execute_less(&mut inner)
    }

    /// Takes the queues of all processes off the hardware until [`DqmRef::resume`], as an SDMA
    /// engine is about to be reset: queues that it does not let go of are lost. Nests; queues that
    /// are made or changed meanwhile wait.
    pub(crate) fn suspend(self) -> Result {
        let mut inner = self.lock();
        inner.suspended += 1;
        if !inner.running {
            return Ok(());
        }
        self.gpu.check_usable()?;
        let Inner { policy, queues, .. } = &mut *inner;
        policy.unmap(self.gpu, queues, true)
    }

    /// Undoes one [`DqmRef::suspend`].
    pub(crate) fn resume(self) -> Result {
        let mut inner = self.lock();
        inner.suspended = inner.suspended.saturating_sub(1);
        if inner.suspended > 0 || !inner.running {
            return Ok(());
        }
        self.gpu.check_usable()?;
        if inner.queues.sdma.find_held(self.gpu, 0)?.is_some() {
            self.gpu
                .declare_hung("a queue outlived the reset of its SDMA engine");
            return Err(EIO);
        }
        self.map(&mut inner)
    }

    /// Numbers for debugfs.
    pub(crate) fn counts(self) -> Counts {
        let inner = self.lock();
        Counts {
            processes: inner.queues.processes.len(),
            queues: inner.queues.total,
            active: inner.queues.active,
            runlists: self.dqm.runlists.load(Relaxed),
        }
    }

    /// The words of the last runlist.
    pub(crate) fn runlist_words(self) -> Result<KVec<u32>> {
        self.lock().policy.runlist_words()
    }

    /// The words of the scheduler's own MQD.
    pub(crate) fn scheduler_mqd(self) -> Result<KVec<u32>> {
        self.gpu.mmio()?;
        self.lock().policy.scheduler_mqd(self.gpu)
    }
}

impl ProcessSlot {
    fn end_eviction(&self, state: &mut SlotState) {
        state.evicted = 0;
        if let Some(since) = state.since.take() {
            let ms = since.elapsed().as_millis().max(0) as u64;
            self.evicted_ms.fetch_add(ms, Relaxed);
        }
    }

    /// Is the queue on the list?
    fn has(&self, queue: &Arc<HwQueue>) -> bool {
        let state = self.state.lock();
        state.queues.iter().any(|q| Arc::ptr_eq(q, queue))
    }

    /// Takes a queue off the list, if it is there.
    fn forget(&self, queue: &Arc<HwQueue>) {
        self.state.lock().queues.retain(|q| !Arc::ptr_eq(q, queue));
    }
}

impl Queues {
    /// Counts the queue as active when it can run. Returns whether it was not active before.
    fn activate_if_runnable(&mut self, queue: &HwQueue) -> bool {
        queue.state.lock().spec.is_runnable() && self.activate(queue)
    }

    /// The same for a queue that will be able to run as far as its properties matter.
    fn activate(&mut self, queue: &HwQueue) -> bool {
        let mut state = queue.state.lock();
        if state.active || state.evicted || state.reset {
            return false;
        }
        state.active = true;
        self.active += 1;
        self.compute += usize::from(state.spec.sdma.is_none());
        state.gws = state.spec.gws;
        self.gws += usize::from(state.gws);
        true
    }

    /// A queue was lost: it never runs again, its process may change no queue any more and is told.
    fn lose(&mut self, gpu: &Gpu, queue: &HwQueue) {
        dev_err!(
            gpu.dev(),
            "queue {} of process {} (PASID {}) is lost\n",
            queue.qid(),
            queue.slot().pid(),
            queue.slot().pasid()
        );
        self.deactivate(queue);
        queue.process.state.lock().has_reset_queue = true;
        queue.state.lock().reset = true;
        gpu.queue_was_reset(queue.process.pasid);
    }

    /// Does not count the queue as active any more. Returns whether it was.
    fn deactivate(&mut self, queue: &HwQueue) -> bool {
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
}
