// SPDX-License-Identifier: GPL-2.0

//! What the manager knows of processes and queues, and the counts of those that are active.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
        Mutex, //
    },
    task::Pid,
    time::{Instant, Monotonic},
};

use super::sdma;
use crate::{
    card::gart::Buffer,
    gpu::Gpu,
    hw::{MapProcess, QueueSpec},
    mqd::Mqd,
};

/// What MAP_PROCESS needs of a process on one GPU, and the process's queues there.
#[pin_data]
pub(crate) struct ProcessSlot {
    gpu: Arc<Gpu>,
    pid: Pid,
    pasid: u32,
    evicted_ms: Atomic<u64>,
    /// What the scheduler keeps of the process, if it wants memory for that.
    context: Option<Buffer>,
    #[pin]
    pub(super) state: Mutex<SlotState>,
}

/// What changes in the life of a [`ProcessSlot`]. The lock is inside that of the manager.
pub(super) struct SlotState {
    pub(super) map: MapProcess,
    pub(super) xnack: bool,
    /// The runtime of the process has announced itself.
    pub(super) runtime: bool,
    /// A scheduler that keeps something of processes was told of this one.
    pub(super) known: bool,
    /// How often the process was evicted without being restored.
    pub(super) evicted: u32,
    /// Since when.
    pub(super) since: Option<Instant<Monotonic>>,
    pub(super) queues: KVec<Arc<HwQueue>>,
    /// A queue of the process was reset: nothing of the process may change any more.
    pub(super) has_reset_queue: bool,
    /// It had queues when the whole GPU was reset.
    pub(super) lost: bool,
}

fn context(gpu: &Gpu, size: usize) -> Result<Option<Buffer>> {
    (size > 0).then(|| gpu.system_buffer(size)).transpose()
}

impl ProcessSlot {
    /// Returns the qpd of a process with a context of `context_bytes` for the scheduler. `ENOMEM`
    /// without memory.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        pid: Pid,
        map: MapProcess,
        xnack: bool,
        context_bytes: usize,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                context: context(gpu, context_bytes)?,
                gpu: gpu.clone(),
                pid,
                pasid: map.pasid,
                evicted_ms: Atomic::new(0),
                state <- new_mutex!(SlotState {
                    map,
                    xnack,
                    runtime: false,
                    known: false,
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

    /// Where the scheduler keeps what it knows of the process; 0 if it does not want that.
    pub(super) fn context(&self) -> u64 {
        self.context.as_ref().map_or(0, Buffer::gpu_addr)
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
    pub(super) process: Arc<ProcessSlot>,
    qid: u32,
    pub(super) mqd: Mqd,
    /// What the scheduler keeps of the queue, if it wants memory for that.
    context: Option<Buffer>,
    #[pin]
    pub(super) state: Mutex<QueueState>,
}

/// What changes in the life of a [`HwQueue`]. The lock is inside that of the process's slot.
pub(super) struct QueueState {
    pub(super) spec: QueueSpec,
    /// Counted as active: on the hardware, or as soon as the policy puts it there.
    pub(super) active: bool,
    /// A scheduler that is told of each queue was told of this one.
    pub(super) mapped: bool,
    /// It was counted as one that owns the global wave sync.
    gws: bool,
    pub(super) evicted: bool,
    reset: bool,
}

impl HwQueue {
    /// Builds the MQD of a queue with a context of `context_bytes` for the scheduler. `ENOMEM` without
    /// memory.
    pub(super) fn new(
        process: &Arc<ProcessSlot>,
        qid: u32,
        spec: QueueSpec,
        context_bytes: usize,
    ) -> Result<Arc<Self>> {
        let mqd = Mqd::new(process.gpu(), &spec)?;
        let context = context(process.gpu(), context_bytes)?;
        Arc::pin_init(
            pin_init!(Self {
                process: process.clone(),
                qid,
                mqd,
                context,
                state <- new_mutex!(QueueState {
                    spec,
                    active: false,
                    mapped: false,
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

    /// Where the scheduler keeps what it knows of the queue; 0 if it does not want that.
    pub(super) fn context(&self) -> u64 {
        self.context.as_ref().map_or(0, Buffer::gpu_addr)
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

/// The processes and the counts of their queues.
pub(super) struct Queues {
    pub(super) processes: KVec<Arc<ProcessSlot>>,
    /// Places on the SDMA engines.
    pub(super) sdma: Arc<sdma::Places>,
    /// Active queues of all processes.
    pub(super) active: usize,
    /// Of these, those that take a slot of the firmware's, which SDMA queues do not.
    pub(super) compute: usize,
    /// Of these, those that own the global wave sync.
    pub(super) gws: usize,
    /// Queues of all processes, active or not.
    pub(super) total: usize,
}

impl ProcessSlot {
    pub(super) fn end_eviction(&self, state: &mut SlotState) {
        state.evicted = 0;
        if let Some(since) = state.since.take() {
            let ms = since.elapsed().as_millis().max(0) as u64;
            self.evicted_ms.fetch_add(ms, Relaxed);
        }
    }

    /// Is the queue on the list?
    pub(super) fn has(&self, queue: &Arc<HwQueue>) -> bool {
        let state = self.state.lock();
        state.queues.iter().any(|q| Arc::ptr_eq(q, queue))
    }

    /// Takes a queue off the list, if it is there.
    pub(super) fn forget(&self, queue: &Arc<HwQueue>) {
        self.state.lock().queues.retain(|q| !Arc::ptr_eq(q, queue));
    }
}

impl Queues {
    /// No processes yet.
    pub(super) fn new(sdma: Arc<sdma::Places>) -> Self {
        Self {
            processes: KVec::new(),
            sdma,
            active: 0,
            compute: 0,
            gws: 0,
            total: 0,
        }
    }

    /// Counts the queue as active when it can run. Returns whether it was not active before.
    pub(super) fn activate_if_runnable(&mut self, queue: &HwQueue) -> bool {
        queue.state.lock().spec.is_runnable() && self.activate(queue)
    }

    /// The same for a queue that will be able to run as far as its properties matter.
    pub(super) fn activate(&mut self, queue: &HwQueue) -> bool {
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
    pub(super) fn lose(&mut self, gpu: &Gpu, queue: &HwQueue) {
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
        gpu.sink().queue_reset(gpu, queue.process.pasid);
    }

    /// All queues are lost, with whatever a scheduler knew of them and their processes.
    pub(super) fn abandon(&mut self) {
        let mut at = 0;
        while let Some(process) = self.processes.get(at).cloned() {
            let mut state = process.state.lock();
            state.known = false;
            if !state.queues.is_empty() {
                state.has_reset_queue = true;
                state.lost = true;
            }
            for queue in state.queues.iter() {
                self.deactivate(queue);
                let mut state = queue.state.lock();
                state.reset = true;
                state.mapped = false;
            }
            at += 1;
        }
    }

    /// Does not count the queue as active any more. Returns whether it was.
    pub(super) fn deactivate(&mut self, queue: &HwQueue) -> bool {
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

    /// The queue with this doorbell.
    pub(super) fn find_doorbell(&self, doorbell: u32) -> Option<Arc<HwQueue>> {
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
