// SPDX-License-Identifier: GPL-2.0

//! Who is on the hardware: one device queue manager per GPU.
//!
//! It knows the processes of the GPU and their queues and lets a [`Policy`] put the active ones
//! on the hardware. All changes happen under one lock, which is held across preemption, as in the
//! C driver: at most one preemption time-out of 9 seconds.

use core::ops::{Deref, DerefMut};

use kernel::{
    fmt, new_mutex,
    prelude::*,
    sync::{
        lock::mutex::MutexGuard,
        Arc,
        Mutex, //
    },
    task::Pid,
    time::Instant,
};

use crate::{
    gpu::{Gpu, UserQueues},
    hw::{MapProcess, QueueSpec, SchedKind},
    kapi::task::NoReclaim,
};

mod cpsch;
mod mes;
mod queues;
mod runlist;
mod sched;
mod sdma;
mod slots;

pub(crate) use self::{
    queues::{HwQueue, ProcessSlot},
    sdma::{Slot as SdmaSlot, Wanted as SdmaWanted},
};

use self::{
    queues::Queues,
    sched::{Needs, SchedOps, Scope},
};

/// Queues that a GPU can have in all.
const MAX_QUEUES: usize = 4096;

struct Inner {
    sched: KBox<dyn SchedOps>,
    queues: Queues,
    running: bool,
    /// How often all queues were taken off without being put back, see [`UserQueues::suspend`].
    suspended: u32,
}

/// The manager.
#[pin_data]
pub(crate) struct Dqm {
    gpu: Arc<Gpu>,
    #[pin]
    inner: Mutex<Inner>,
    needs: Needs,
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

impl Dqm {
    /// Returns the manager of a device and starts its scheduler. `ETIME` when that does not respond,
    /// `ENOMEM` without memory.
    pub(crate) fn start(gpu: &Arc<Gpu>) -> Result<Arc<Self>> {
        let sched: KBox<dyn SchedOps> = match gpu.generation().sched {
            SchedKind::Runlist => KBox::new(cpsch::Cpsch::new(), GFP_KERNEL)?,
            SchedKind::Mes => KBox::new(mes::Mes::new(), GFP_KERNEL)?,
        };
        let places = sdma::Places::new(gpu.config(), gpu.generation().caps)?;
        let dqm = Arc::pin_init(
            pin_init!(Dqm {
                gpu: gpu.clone(),
                needs: sched.needs(),
                inner <- new_mutex!(Inner {
                    sched,
                    queues: Queues::new(places),
                    running: false,
                    suspended: 0,
                }),
            }),
            GFP_KERNEL,
        )?;
        {
            let mut inner = dqm.lock();
            inner.sched.start(gpu)?;
            inner.running = true;
        }
        gpu.set_user_queues(Some(dqm.clone()));
        Ok(dqm)
    }

    /// Stops the scheduler for good, see [`Dqm::stop`].
    pub(crate) fn end(&self) -> Result {
        let result = self.stop();
        self.gpu.set_user_queues(None);
        result
    }

    /// Unmaps all queues and stops the scheduler. `ETIME` when it does not respond.
    pub(crate) fn stop(&self) -> Result {
        let mut inner = self.lock();
        if !inner.running {
            return Ok(());
        }
        inner.running = false;
        let Inner { sched, queues, .. } = &mut *inner;
        sched.stop(&self.gpu, queues)
    }

    /// Starts the scheduler of a device that was brought up again, after [`Dqm::stop`], and maps all
    /// active queues. `ETIME` when it does not respond.
    pub(crate) fn restart(&self) -> Result {
        let mut inner = self.lock();
        if inner.running {
            return Ok(());
        }
        inner.sched.start(&self.gpu)?;
        inner.running = true;
        self.map(&mut inner, Scope::All)
    }

    /// Marks all queues of all processes as lost, before a card reset. Processes keep everything
    /// else; those that had no queues may create some afterwards.
    pub(crate) fn abandon_queues(&self) {
        self.lock().queues.abandon();
    }

    /// Returns the qpd of a process, to be registered by [`Dqm::register_process`]. `ENOMEM` without
    /// memory.
    pub(crate) fn new_process(
        &self,
        pid: Pid,
        map: MapProcess,
        xnack: bool,
    ) -> Result<Arc<ProcessSlot>> {
        ProcessSlot::new(&self.gpu, pid, map, xnack, self.needs.process)
    }

    /// Returns a queue with its MQD, to be added by [`Dqm::add`]. `ENOMEM` without memory.
    pub(crate) fn new_queue(
        &self,
        process: &Arc<ProcessSlot>,
        qid: u32,
        spec: QueueSpec,
    ) -> Result<Arc<HwQueue>> {
        HwQueue::new(process, qid, spec, self.needs.queue)
    }

    /// Makes the hardware's state follow lists that may have grown. With too little memory all is
    /// as it was.
    fn execute(&self, inner: &mut Inner, scope: Scope<'_>) -> Result {
        self.reserve(inner)?;
        self.execute_less(inner, scope)
    }

    /// The same after lists got shorter, for which there is memory.
    fn execute_less(&self, inner: &mut Inner, scope: Scope<'_>) -> Result {
        self.unmap(inner, scope)?;
        self.map(inner, scope)
    }

    fn reserve(&self, inner: &mut Inner) -> Result {
        inner.sched.reserve(&self.gpu, &inner.queues)
    }

    fn unmap(&self, inner: &mut Inner, scope: Scope<'_>) -> Result {
        if !inner.running {
            return Ok(());
        }
        self.gpu.check_usable()?;
        let Inner { sched, queues, .. } = inner;
        sched.unmap(&self.gpu, queues, scope, false)
    }

    fn map(&self, inner: &mut Inner, scope: Scope<'_>) -> Result {
        let idle = inner.queues.active == 0 || inner.queues.processes.is_empty();
        if !inner.running || inner.suspended > 0 || idle {
            return Ok(());
        }
        self.gpu.check_usable()?;
        let Inner { sched, queues, .. } = inner;
        sched.map(&self.gpu, queues, scope)
    }

    /// The scheduler reads write pointers: it wants to be told where they are in the kernel's
    /// address space.
    pub(crate) fn reads_wptr(&self) -> bool {
        self.needs.wptr
    }

    /// Makes a process known. From now on it may have queues.
    pub(crate) fn register_process(&self, slot: &Arc<ProcessSlot>) -> Result {
        let mut inner = self.lock();
        self.gpu.mmio()?;
        inner.queues.processes.push(slot.clone(), GFP_KERNEL)?;
        Ok(())
    }

    /// Forgets a process: its queues go off the hardware and are given up.
    ///
    /// The process is gone afterwards whatever the result; an error says that the hardware did
    /// not let go of its queues in time.
    pub(crate) fn unregister(&self, slot: &Arc<ProcessSlot>) -> Result {
        let mut inner = self.lock();
        {
            let state = slot.state.lock();
            for queue in state.queues.iter() {
                inner.queues.deactivate(queue);
            }
        }
        let position = inner
            .queues
            .processes
            .iter()
            .position(|p| Arc::ptr_eq(p, slot));
        let Some(at) = position else {
            return Ok(());
        };
        let unmapped = self.unmap(&mut inner, Scope::Process(slot));
        // Only now: a queue that does not stop is looked for in the lists.
        let queues = core::mem::take(&mut slot.state.lock().queues);
        inner.queues.total -= queues.len();
        let process = inner.queues.processes.remove(at);
        let result = unmapped.and_then(|()| self.map(&mut inner, Scope::Process(slot)));
        drop(inner);
        // Images and slot go without the lock.
        drop(process);
        drop(queues);
        result
    }

    fn check_total(&self, inner: &Inner) -> Result {
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
    pub(crate) fn take_sdma(&self, wanted: SdmaWanted) -> Result<SdmaSlot> {
        let inner = self.lock();
        self.check_total(&inner)?;
        inner.queues.sdma.take(wanted).inspect_err(|_| {
            dev_dbg!(&self.gpu.dev(), "no SDMA queue left for {wanted:?}\n");
        })
    }

    /// Adds a queue and, when it is runnable, puts it on the hardware. `EPERM` when the GPU has
    /// too many, `EIO` when the process has lost all its queues to a reset of the GPU.
    pub(crate) fn add(&self, queue: &Arc<HwQueue>) -> Result {
        let mut inner = self.lock();
        self.gpu.check_usable()?;
        if queue.process.state.lock().lost {
            return Err(EIO);
        }
        self.check_total(&inner)?;
        {
            let mut slot = queue.process.state.lock();
            slot.queues.push(queue.clone(), GFP_KERNEL)?;
            queue.state.lock().evicted = slot.evicted > 0;
        }
        inner.queues.total += 1;
        if inner.queues.activate_if_runnable(queue) {
            if let Err(e) = self.execute(&mut inner, Scope::Queue(queue)) {
                inner.queues.deactivate(queue);
                inner.queues.total -= 1;
                queue.process.forget(queue);
                // The queues that were there before go on without it, if that is possible at all.
                if let Err(again) = self.map(&mut inner, Scope::All) {
                    dev_err!(&self.gpu.dev(), "queues stay off the hardware: {again:?}\n");
                }
                return Err(e);
            }
        }
        Ok(())
    }

    /// Takes a queue off the hardware and forgets it. The queue is gone afterwards whatever the
    /// result.
    pub(crate) fn remove(&self, queue: &Arc<HwQueue>) -> Result {
        let mut inner = self.lock();
        if !queue.process.has(queue) {
            return Err(EINVAL);
        }
        let result = if inner.queues.deactivate(queue) {
            self.execute_less(&mut inner, Scope::Queue(queue))
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
    pub(crate) fn update(&self, queue: &Arc<HwQueue>, spec: QueueSpec) -> Result {
        self.change(queue, spec.is_runnable(), |queue| {
            queue.mqd.update(&spec)?;
            queue.state.lock().spec = spec;
            Ok(())
        })
    }

    /// Restricts a queue to some compute units, see [`Mqd::set_cu_mask`].
    pub(crate) fn set_cu_mask(&self, queue: &Arc<HwQueue>, masks: &[KVec<u32>]) -> Result {
        self.change(queue, false, |queue| queue.mqd.set_cu_mask(masks))
    }

    /// Takes a queue off, changes it, and puts it back. `runs`: it may be active afterwards.
    fn change(
        &self,
        queue: &Arc<HwQueue>,
        runs: bool,
        f: impl FnOnce(&HwQueue) -> Result,
    ) -> Result {
        let mut inner = self.lock();
        self.gpu.check_usable()?;
        // Memory first, for the lists as they will be.
        let counted = runs & inner.queues.activate(queue);
        let reserved = self.reserve(&mut inner);
        if counted {
            inner.queues.deactivate(queue);
        }
        reserved?;
        let scope = Scope::Queue(queue);
        let unmapped = self.unmap(&mut inner, scope);
        if queue.process.state.lock().has_reset_queue {
            // The others go on.
            return unmapped
                .and_then(|()| self.map(&mut inner, scope))
                .and(Err(EACCES));
        }
        unmapped?;
        let changed = f(queue);
        inner.queues.deactivate(queue);
        inner.queues.activate_if_runnable(queue);
        let mapped = self.map(&mut inner, scope);
        changed.and(mapped)
    }

    /// Takes a process's queues off the hardware until [`Dqm::restore`]. Nests.
    pub(crate) fn evict(&self, slot: &Arc<ProcessSlot>) -> Result {
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
        self.execute_less(&mut inner, Scope::Process(slot))
    }

    /// Undoes one [`Dqm::evict`]; `EINVAL` when there is none. With `ENOMEM` it is not undone.
    pub(crate) fn restore(&self, slot: &Arc<ProcessSlot>) -> Result {
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
        self.execute_less(&mut inner, Scope::Process(slot))
    }

    /// The runtime of a process has announced itself, before its first queue, or has left.
    pub(crate) fn set_runtime(&self, slot: &Arc<ProcessSlot>, enabled: bool) -> Result {
        let mut inner = self.lock();
        if enabled & inner.running {
            self.gpu.check_usable()?;
            inner.sched.set_runtime(&self.gpu, slot)?;
        }
        slot.state.lock().runtime = enabled;
        Ok(())
    }

    /// A process leaves the GPU for good; it has no queues any more.
    pub(crate) fn leave(&self, slot: &Arc<ProcessSlot>) -> Result {
        let mut inner = self.lock();
        if !inner.running || self.gpu.check_usable().is_err() {
            return Ok(());
        }
        inner.sched.leave(&self.gpu, slot)
    }

    /// Numbers for debugfs.
    pub(crate) fn counts(&self) -> Counts {
        let inner = self.lock();
        Counts {
            processes: inner.queues.processes.len(),
            queues: inner.queues.total,
            active: inner.queues.active,
            runlists: inner.sched.runlists(),
        }
    }

    /// The words of the last runlist.
    pub(crate) fn runlist_words(&self) -> Result<KVec<u32>> {
        self.lock().sched.runlist_words()
    }

    /// What the scheduler's own ring is called.
    pub(crate) fn scheduler_ring(&self) -> &'static str {
        self.lock().sched.scheduler_ring()
    }

    /// Prints the scheduler's own ring, unless it is one of the GPU's.
    pub(crate) fn show_ring(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().sched.show_ring(f)
    }

    /// The words of the scheduler's own MQD.
    pub(crate) fn scheduler_mqd(&self) -> Result<KVec<u32>> {
        self.gpu.mmio()?;
        self.lock().sched.scheduler_mqd(&self.gpu)
    }
}

impl UserQueues for Dqm {
    fn suspend(&self) -> Result {
        let mut inner = self.lock();
        inner.suspended += 1;
        if !inner.running {
            return Ok(());
        }
        self.gpu.check_usable()?;
        let Inner { sched, queues, .. } = &mut *inner;
        sched.unmap(&self.gpu, queues, Scope::All, true)
    }

    fn resume(&self) -> Result {
        let mut inner = self.lock();
        inner.suspended = inner.suspended.saturating_sub(1);
        if inner.suspended > 0 || !inner.running {
            return Ok(());
        }
        self.gpu.check_usable()?;
        if inner.queues.sdma.find_held(&self.gpu, 0)?.is_some() {
            self.gpu
                .wedge("a queue outlived the reset of its SDMA engine");
            return Err(EIO);
        }
        self.map(&mut inner, Scope::All)
    }
}
