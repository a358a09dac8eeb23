// SPDX-License-Identifier: GPL-2.0

//! The device queue manager (DQM) of a GPU.
//!
//! Tracks the processes of the GPU and their queues, and has a scheduler ([`SchedOps`]) map the
//! active ones. All changes happen under one lock, which is held across preemption and resets of
//! queues, as in the C driver; their bounds are in Documentation/dataflow.rst.

use kernel::{
    fmt, new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
        Mutex, //
    },
    time::Instant,
};

use rkfd_abi::regs::{name, Value};

use crate::{
    gpu::{Gpu, UserQueues},
    hw::{MapProcess, QueueSpec, SchedKind, WATCHPOINTS},
    kapi::{
        sched_mm::{NoReclaimGuard, NoReclaimMutex},
        task::Pids,
    },
    mmu::{QueueOwner, Vm},
    mqd::{QueuePlace, SavedWaves},
};

mod cpsch;
mod debug;
mod file;
mod mes;
mod occupancy;
mod queues;
mod runlist;
mod sched;
mod sdma;
mod slots;
mod user_queues;
mod watch;
mod watchdog;

pub(crate) use self::{
    queues::{DqmProcess, DqmQueue, LostQueue},
    sched::NodeResources,
    sdma::{SdmaEngineChoice, SdmaEngines, SdmaQueueSlot},
    slots::Vmids,
};

use self::{
    queues::Queues,
    sched::{Needs, SchedOps, Scope},
    watchdog::{QueueCheck, Suspect, Watchdog},
};

struct Inner {
    sched: KBox<dyn SchedOps>,
    queues: Queues,
    running: bool,
    /// No more queues are added, see [`Dqm::end`].
    ended: bool,
    /// Nesting depth of [`UserQueues::suspend`].
    suspended: u32,
    /// Bits of the watchpoints in use.
    watchpoints: u32,
    /// Their addresses.
    watched: [u64; WATCHPOINTS],
}

/// The device queue manager of a node.
#[pin_data]
pub(crate) struct Dqm {
    gpu: Arc<Gpu>,
    node: NodeResources,
    /// Taken by MMU notifiers.
    #[pin]
    inner: NoReclaimMutex<Inner>,
    needs: Needs,
    /// Until [`Dqm::end`]. A leaf.
    #[pin]
    watchdog: Mutex<Option<Watchdog>>,
    /// Counts compute queues, to spread their first workgroups over the XCCs (C:
    /// `current_logical_xcc_start`).
    next_share: Atomic<u32>,
}

/// Counters for debugfs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Registered processes.
    pub(crate) processes: usize,
    /// Queues, active or not.
    pub(crate) queues: usize,
    /// Active queues.
    pub(crate) active: usize,
    /// Runlists sent.
    pub(crate) runlists: u64,
}

impl Dqm {
    fn lock(&self) -> NoReclaimGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Returns the manager of a node and starts its scheduler. `ETIME` when that does not respond,
    /// `ENOMEM` without memory.
    pub(crate) fn start(gpu: &Arc<Gpu>, node: &NodeResources) -> Result<Arc<Self>> {
        let sched: KBox<dyn SchedOps> = match gpu.generation().sched {
            SchedKind::Runlist => KBox::new(cpsch::Cpsch::new(node), GFP_KERNEL)?,
            SchedKind::Mes => KBox::new(mes::Mes::new(), GFP_KERNEL)?,
        };
        let per_engine = gpu.config().sdma_queues_per_engine;
        let places = sdma::SdmaQueueIds::new(node.sdma, per_engine, gpu.generation().caps)?;
        let dqm = Arc::pin_init(
            pin_init!(Dqm {
                gpu: gpu.clone(),
                node: *node,
                needs: sched.needs(),
                watchdog <- new_mutex!(None, "rkfd_watchdog"),
                next_share: Atomic::new(0),
                inner <- NoReclaimMutex::new(new_mutex!(Inner {
                    sched,
                    queues: Queues::new(places),
                    running: false,
                    ended: false,
                    suspended: 0,
                    watchpoints: 0,
                    watched: [0; WATCHPOINTS],
                })),
            }),
            GFP_KERNEL,
        )?;
        let watchdog = Watchdog::new(dqm.clone())?;
        {
            let mut inner = dqm.lock();
            let Inner { sched, queues, .. } = &mut *inner;
            sched.start(gpu, queues)?;
            inner.running = true;
        }
        *dqm.watchdog.lock() = Some(watchdog);
        gpu.set_user_queues(node.index, Some(dqm.clone()));
        if let Err(e) = dqm.isolate() {
            dev_err!(gpu.dev(), "processes are not isolated: {e:?}\n");
        }
        Ok(dqm)
    }

    /// Stops the scheduler for good, see [`Dqm::stop`]. `ETIME` when it does not respond.
    pub(crate) fn end(&self) -> Result {
        let result = self.stop();
        {
            let mut inner = self.lock();
            // Ioctls of the render nodes may be on their way to `add`.
            inner.ended = true;
            inner.queues.end_files();
        }
        let watchdog = self.watchdog.lock().take();
        if let Some(watchdog) = watchdog {
            watchdog.end();
        }
        self.gpu.set_user_queues(self.node.index, None);
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

    /// Starts the scheduler of a device that was brought up again, after [`Dqm::stop`], with the
    /// watchpoints, and maps all active queues. `ETIME` when it does not respond.
    pub(crate) fn restart(&self) -> Result {
        let mut inner = self.lock();
        if inner.running {
            return Ok(());
        }
        for id in (0..WATCHPOINTS).filter(|id| inner.watchpoints >> id & 1 != 0) {
            self.set_watch_address(id, inner.watched[id])?;
        }
        // A change may have failed because the card hung.
        inner.queues.single_process = self.isolates();
        let Inner { sched, queues, .. } = &mut *inner;
        sched.start(&self.gpu, queues)?;
        inner.running = true;
        self.map(&mut inner, Scope::All)
    }

    /// Marks all queues of all processes as lost, before a card reset. Processes keep all other
    /// state; those without queues may create queues afterwards.
    pub(crate) fn abandon_queues(&self) {
        self.lock().queues.abandon();
    }

    /// Returns the qpd of a process, which its first queue registers. `ENOMEM` without memory.
    pub(crate) fn new_process(
        &self,
        pids: Pids,
        map: MapProcess,
        xnack: bool,
    ) -> Result<Arc<DqmProcess>> {
        DqmProcess::new(
            &self.gpu,
            pids,
            QueueOwner::Process,
            map,
            xnack,
            self.needs.process,
        )
    }

    /// Returns a queue with its MQD, one of a file if it has an owner, to be added by [`Dqm::add`].
    /// `ENOMEM` without memory.
    pub(crate) fn new_queue(
        &self,
        process: &Arc<DqmProcess>,
        vm: &Arc<Vm>,
        qid: u32,
        spec: QueueSpec,
        owner: Option<Arc<dyn LostQueue>>,
    ) -> Result<Arc<DqmQueue>> {
        let first_share = match spec.sdma {
            None => self.next_share.fetch_add(1, Relaxed),
            Some(_) => 0,
        };
        let place = QueuePlace {
            xccs: &self.node.xccs,
            first_share,
        };
        DqmQueue::new(process, vm, place, qid, spec, self.needs.queue, owner)
    }

    /// Unmaps and maps the queues in `scope`. Needs no memory: [`Dqm::reserve`] was called after
    /// the last queue or process was added.
    fn execute(&self, inner: &mut Inner, scope: Scope<'_>) -> Result {
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
        sched.unmap(&self.gpu, queues, scope)
    }

    fn map(&self, inner: &mut Inner, scope: Scope<'_>) -> Result {
        let idle = inner.queues.active == 0 || inner.queues.processes.is_empty();
        if !inner.running || inner.suspended > 0 || idle {
            return Ok(());
        }
        self.gpu.check_usable()?;
        let Inner { sched, queues, .. } = inner;
        sched.map(&self.gpu, queues, scope)?;
        self.schedule_check();
        Ok(())
    }

    /// Returns whether the scheduler reads write pointers through a mapping in VMID 0.
    pub(crate) fn reads_wptr(&self) -> bool {
        self.needs.wptr
    }

    /// Registers a process before its first queue. `ENOMEM` without memory, `ENODEV` when the
    /// device is unplugged.
    fn register(&self, process: &Arc<DqmProcess>) -> Result {
        let mut inner = self.lock();
        self.gpu.mmio()?;
        inner.queues.processes.push(process.clone(), GFP_KERNEL)?;
        let reserved = self.reserve(&mut inner);
        if reserved.is_err() {
            inner.queues.processes.pop();
        }
        reserved
    }

    /// Unregisters a process, if it is registered: unmaps and drops its queues.
    ///
    /// The process is unregistered despite an error: `ETIME` when its queues were not preempted in
    /// time, `EIO` when the GPU is hung.
    pub(crate) fn unregister(&self, slot: &Arc<DqmProcess>) -> Result {
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
        // After unmapping, which looks up unresponsive queues by doorbell in the lists.
        let queues = core::mem::take(&mut slot.state.lock().queues);
        inner.queues.total -= queues.len();
        let process = inner.queues.processes.remove(at);
        let result = unmapped.and_then(|()| self.map(&mut inner, Scope::Process(slot)));
        drop(inner);
        // MQDs and the qpd are freed without the lock.
        drop(process);
        drop(queues);
        result
    }

    /// Allocates an SDMA queue slot for a user queue. `EINVAL` without such an engine, `ENOMEM`
    /// when none is free, `EPERM` when the GPU has the maximum number of queues.
    pub(crate) fn take_sdma(&self, wanted: SdmaEngineChoice) -> Result<SdmaQueueSlot> {
        let mut inner = self.lock();
        inner.queues.check_total(&self.gpu)?;
        inner.queues.sdma.take(wanted).inspect_err(|_| {
            dev_dbg!(&self.gpu.dev(), "no SDMA queue slot free for {wanted:?}\n");
        })
    }

    /// Adds a queue and maps it if it is runnable; the first one of a process registers that.
    /// `EPERM` when the GPU has the maximum number of queues, or would be oversubscribed and must
    /// not, `EIO` when the process lost all its queues to a GPU reset or the GPU is hung, `ENOMEM`
    /// without memory, `ENODEV` when the device is unplugged, `ETIME` when the scheduler does not
    /// respond. The caller excludes other calls for the process.
    pub(crate) fn add(&self, queue: &Arc<DqmQueue>) -> Result {
        let is_first = queue.process.state.lock().queues.is_empty();
        if is_first {
            self.register(&queue.process)?;
        }
        self.add_queue(queue).inspect_err(|_| {
            if is_first {
                // Cannot fail: the process has no queue on the hardware.
                let _ = self.unregister(&queue.process);
            }
        })
    }

    fn add_queue(&self, queue: &Arc<DqmQueue>) -> Result {
        let mut inner = self.lock();
        self.gpu.check_usable()?;
        if inner.ended {
            return Err(ENODEV);
        }
        if queue.process.state.lock().lost {
            return Err(EIO);
        }
        inner.queues.check_total(&self.gpu)?;
        inner.queues.check_subscription(queue, self.node.vmids)?;
        if !queue.process.is_file() && self.gpu.profiler().is_held() {
            queue.mqd.set_perfcount(true)?;
        }
        {
            let mut slot = queue.process.state.lock();
            slot.queues.push(queue.clone(), GFP_KERNEL)?;
            queue.state.lock().evicted = slot.evicted > 0;
        }
        inner.queues.total += 1;
        let runs = inner.queues.activate_if_runnable(queue);
        // Also for a queue that is not runnable yet.
        let mut added = self.reserve(&mut inner);
        if runs && added.is_ok() {
            added = self.execute(&mut inner, Scope::Queue(queue));
        }
        if added.is_err() {
            inner.queues.deactivate(queue);
            inner.queues.total -= 1;
            queue.process.remove_queue(queue);
            // Map the other queues again, as far as that is still possible.
            if let Err(again) = self.map(&mut inner, Scope::All) {
                dev_err!(&self.gpu.dev(), "queues were not mapped again: {again:?}\n");
            }
        }
        added
    }

    /// Unmaps and removes a queue; the last one of a process unregisters that. It is removed
    /// despite an error. `EINVAL` for a queue that was not added, `ETIME` when the scheduler does
    /// not respond. The caller excludes other calls for the process.
    pub(crate) fn remove(&self, queue: &Arc<DqmQueue>) -> Result {
        if !queue.process.has(queue) {
            return Err(EINVAL);
        }
        if queue.process.state.lock().queues.len() == 1 {
            return self.unregister(&queue.process);
        }
        let mut inner = self.lock();
        let result = if inner.queues.deactivate(queue) {
            self.execute(&mut inner, Scope::Queue(queue))
        } else {
            Ok(())
        };
        // After unmapping, which looks up unresponsive queues by doorbell in the lists.
        queue.process.remove_queue(queue);
        inner.queues.total -= 1;
        result
    }

    /// Updates the properties of a queue; they are unchanged after an error, unless the GPU is
    /// hung. `EACCES` when the process has a queue that was reset, `EIO` when the GPU is hung,
    /// `ETIME` when the scheduler does not respond, `ETIMEDOUT` when MES rejects the queue.
    pub(crate) fn update(&self, queue: &Arc<DqmQueue>, spec: QueueSpec) -> Result {
        let old = queue.spec();
        let set = |queue: &DqmQueue, spec: &QueueSpec| -> Result {
            queue.mqd.update(spec)?;
            queue.state.lock().spec = *spec;
            Ok(())
        };
        self.change(
            queue,
            spec.is_runnable(),
            |queue| set(queue, &spec),
            |queue| set(queue, &old),
        )
    }

    /// Sets the CU mask of a queue, see [`crate::mqd::Mqd::set_cu_mask`]. `ENOMEM` without memory,
    /// otherwise errors as [`Dqm::update`].
    pub(crate) fn set_cu_mask(&self, queue: &Arc<DqmQueue>, masks: &[KVec<u32>]) -> Result {
        // Without the lock: the caller excludes other changes.
        let old = match self.needs.undo {
            true => queue.mqd.cu_masks()?,
            false => KVec::new(),
        };
        self.change(
            queue,
            false,
            |queue| queue.mqd.set_cu_mask(masks),
            |queue| queue.mqd.set_cu_mask(&old),
        )
    }

    /// Sets whether performance counters count the waves of all queues of processes. `EIO` when the
    /// GPU is hung, `ETIME` when the scheduler does not respond.
    pub(crate) fn set_perfcount(&self, enable: bool) -> Result {
        let mut inner = self.lock();
        let unmapped = self.unmap(&mut inner, Scope::All);
        let mut result = Ok(());
        for process in inner.queues.processes.iter().filter(|p| !p.is_file()) {
            for queue in &process.state.lock().queues {
                result = result.and(queue.mqd.set_perfcount(enable));
            }
        }
        unmapped?;
        self.map(&mut inner, Scope::All).and(result)
    }

    /// Returns the saved waves of a queue by XCC. `EINVAL` if it is active, `ENOMEM` without
    /// memory. A queue that becomes active meanwhile has a mixture of old and new ones.
    pub(crate) fn saved_waves(&self, queue: &DqmQueue) -> Result<KVec<SavedWaves>> {
        {
            // A change in progress is complete.
            let _inner = self.lock();
            if queue.is_active() {
                return Err(EINVAL);
            }
        }
        // Without the lock, as in the C driver: reads of VRAM are slow.
        queue.mqd.saved_waves()
    }

    /// Unmaps a queue, changes it by `f` and maps it again. `runs`: it may be active afterwards.
    /// `undo` reverts `f` for a queue that the scheduler rejects, which is lost if it is rejected
    /// again.
    fn change(
        &self,
        queue: &Arc<DqmQueue>,
        runs: bool,
        f: impl FnOnce(&DqmQueue) -> Result,
        undo: impl FnOnce(&DqmQueue) -> Result,
    ) -> Result {
        let mut inner = self.lock();
        self.gpu.check_usable()?;
        if queue.process.state.lock().has_reset_queue {
            return Err(EACCES);
        }
        // Reserve memory first, for the queues that will be active.
        let counted = runs && inner.queues.activate(queue);
        let reserved = self.reserve(&mut inner);
        if counted {
            inner.queues.deactivate(queue);
        }
        reserved?;
        let scope = Scope::Queue(queue);
        let unmapped = self.unmap(&mut inner, scope);
        if queue.process.state.lock().has_reset_queue {
            // The change has found a queue that hangs. Map the other queues again.
            return unmapped
                .and_then(|()| self.map(&mut inner, scope))
                .and(Err(EACCES));
        }
        unmapped?;
        let changed = f(queue);
        inner.queues.deactivate(queue);
        inner.queues.activate_if_runnable(queue);
        let mapped = self.map(&mut inner, scope);
        if mapped == Err(ETIMEDOUT) && !self.gpu.is_hung() {
            let undone = undo(queue);
            inner.queues.deactivate(queue);
            inner.queues.activate_if_runnable(queue);
            let again = undone.and_then(|()| self.map(&mut inner, scope));
            if again.is_err() && !self.gpu.is_hung() {
                inner.queues.mark_lost(&self.gpu, queue);
            }
        }
        changed.and(mapped)
    }

    /// Evicts the queues of a process until [`Dqm::restore`]. Nests. `ETIME` when the scheduler
    /// does not respond, `EIO` when the GPU is hung.
    pub(crate) fn evict(&self, slot: &Arc<DqmProcess>) -> Result {
        let mut inner = self.lock();
        {
            let mut state = slot.state.lock();
            // Each object that stops queues for good leaves them evicted once more.
            state.evicted = state.evicted.saturating_add(1);
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
        self.execute(&mut inner, Scope::Process(slot))
    }

    /// Undoes one [`Dqm::evict`]. `ENOMEM` without memory; the process stays evicted then.
    ///
    /// It does not when the scheduler fails, which is logged; queues that MES rejects are lost.
    pub(crate) fn restore(&self, slot: &Arc<DqmProcess>) -> Result {
        let mut inner = self.lock();
        let mut state = slot.state.lock();
        match state.evicted {
            0 => return Ok(()),
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
        let reserved = self.reserve(&mut inner);
        if reserved == Err(ENOMEM) {
            for queue in state.queues.iter() {
                inner.queues.deactivate(queue);
                queue.state.lock().evicted = true;
            }
            return reserved;
        }
        slot.end_eviction(&mut state);
        drop(state);
        let scope = Scope::Process(slot);
        if let Err(e) = reserved.and_then(|()| self.execute(&mut inner, scope)) {
            dev_err!(
                self.gpu.dev(),
                "queues of process {} were not mapped again: {e:?}\n",
                slot.pid()
            );
        }
        Ok(())
    }

    /// Unmaps an active queue with an invalid packet, until it is destroyed. With runlists it stays
    /// mapped. `ETIMEDOUT` when MES does not respond, `EIO` when the GPU is hung.
    pub(crate) fn stop_invalid(&self, queue: &Arc<DqmQueue>) -> Result {
        let mut inner = self.lock();
        if !inner.running || !queue.process.has(queue) || !queue.is_active() {
            return Ok(());
        }
        self.gpu.check_usable()?;
        let Inner { sched, queues, .. } = &mut *inner;
        sched.remove_invalid(&self.gpu, queues, queue)
    }

    /// Handles RUNTIME_ENABLE of a process, before its first queue, and RUNTIME_DISABLE. `EIO` when
    /// the GPU is hung.
    pub(crate) fn set_runtime(&self, slot: &Arc<DqmProcess>, enabled: bool) -> Result {
        let mut inner = self.lock();
        if enabled && inner.running {
            self.gpu.check_usable()?;
            inner.sched.set_runtime(&self.gpu, slot)?;
        }
        slot.state.lock().runtime = enabled;
        Ok(())
    }

    /// Sets whether the waves of a process wait for pages, before its first queue.
    pub(crate) fn set_xnack(
        &self,
        slot: &Arc<DqmProcess>,
        xnack: bool,
        config: Value<name::SH_MEM_CONFIG>,
    ) {
        let _inner = self.lock();
        let mut state = slot.state.lock();
        state.xnack = xnack;
        state.map.sh_mem_config = config;
    }

    /// Releases the scheduler's state of a process, which has no queues any more. Errors of
    /// [`SchedOps::release_process`].
    pub(crate) fn release_process(&self, slot: &Arc<DqmProcess>) -> Result {
        let mut inner = self.lock();
        let owned = core::mem::take(&mut slot.state.lock().watchpoints);
        inner.watchpoints &= !owned;
        if !inner.running || self.gpu.check_usable().is_err() {
            return Ok(());
        }
        inner.sched.release_process(&self.gpu, slot)
    }

    /// Returns the counters for debugfs.
    pub(crate) fn counts(&self) -> Counts {
        let inner = self.lock();
        Counts {
            processes: inner.queues.processes.len(),
            queues: inner.queues.total,
            active: inner.queues.active,
            runlists: inner.sched.runlists(),
        }
    }

    /// Returns the dwords of the last runlist. `ENOMEM` without memory.
    pub(crate) fn runlist_words(&self) -> Result<KVec<u32>> {
        self.lock().sched.runlist_words()
    }

    /// Returns the name of the scheduler's ring.
    pub(crate) fn scheduler_ring(&self) -> &'static str {
        self.lock().sched.scheduler_ring()
    }

    /// Prints the scheduler's ring, unless the device prints it.
    pub(crate) fn show_ring(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().sched.show_ring(f)
    }

    /// Returns the dwords of the scheduler's MQD on the XCC with this index in the node. `ENODEV`
    /// when the device is unplugged, `ENOMEM` without memory, `EINVAL` without such an XCC.
    pub(crate) fn scheduler_mqd(&self, index: usize) -> Result<KVec<u32>> {
        self.gpu.mmio()?;
        self.lock().sched.scheduler_mqd(&self.gpu, index)
    }
}

impl QueueCheck for Dqm {
    fn check_queues(&self) -> bool {
        // The holder of the lock may wait for the hardware.
        let Some(inner) = self.inner.try_lock() else {
            return true;
        };
        if !inner.running || inner.queues.active == 0 {
            // The next queue schedules a check.
            return false;
        }
        let all = inner.queues.all();
        drop(inner);
        // Declared before the lock is taken: their queues are freed without it.
        let suspects = all.and_then(Suspect::find_all).unwrap_or_default();
        if suspects.is_empty() {
            return true;
        }
        if let Some(inner) = self.inner.try_lock().filter(|inner| inner.running) {
            // Fails with the GPU, which is reported.
            let _ = self.gpu.check_usable().and_then(|()| {
                let Inner { sched, queues, .. } = &*inner;
                watchdog::check(&self.gpu, &self.node, &**sched, queues, &suspects)
            });
        }
        true
    }

    fn schedule_check(&self) {
        if let Some(watchdog) = &*self.watchdog.lock() {
            watchdog.schedule();
        }
    }
}
