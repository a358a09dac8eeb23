// SPDX-License-Identifier: GPL-2.0

//! Queues off the GPUs while memory of their process changes that they use.
//!
//! Buffers may show memory of the process (`USERPTR`), which is not pinned. Before the kernel changes
//! such pages it says so: the queues of the process are taken off all its GPUs. A worker looks for the
//! pages that are there afterwards, rewrites the page tables, and puts the queues back if nothing has
//! changed again meanwhile. As in the C driver, memory that has gone for good does not keep the queues
//! off: page tables show nothing there.

use kernel::{
    impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        lock::mutex::MutexGuard,
        Arc, Mutex,
    },
    time::{delay::fsleep, Delta},
    workqueue::{Work, WorkItem},
};

use super::smi::{self, Trigger};
use crate::{
    dqm::{GpuDqm, ProcessSlot},
    gpu::{
        account::{self, Kind},
        Gpu,
    },
    kapi::{global::global_mutex, hmm::Mark, task::NoReclaim, workqueue::UnboundQueue},
    mmu::{Bo, BoFlags, Keeper, UserBuffer, Validity},
    trace,
};

/// How long after an invalidation the worker looks for the pages.
const DELAY: Delta = Delta::from_millis(1);
/// How often in a row the worker looks at buffers that have changed again.
const ROUNDS: u32 = 4;
/// How often pages are looked for that change each time before it gives up, for a new buffer.
const TRIES: u32 = 10;

global_mutex! {
    /// Where the workers run.
    QUEUE: Option<UnboundQueue> = None;
    init init
}

/// Queues are put back while this exists; dropping it waits for the workers.
pub(super) struct RefreshQueue(());

impl RefreshQueue {
    pub(super) fn new() -> Result<Self> {
        *QUEUE.lock() = Some(UnboundQueue::freezable(c"rkfd_userptr")?);
        Ok(Self(()))
    }
}

impl Drop for RefreshQueue {
    fn drop(&mut self) {
        let queue = QUEUE.lock().take();
        drop(queue);
    }
}

/// A GPU of the process.
struct Place {
    process: Arc<ProcessSlot>,
    /// The queues were taken off here.
    off: bool,
}

struct State {
    places: KVec<Place>,
    buffers: KVVec<UserBuffer>,
    /// Invalidations since the queues were taken off; 0 if they are not.
    invalidations: u64,
}

/// What a process shows of its memory to its GPUs.
#[pin_data]
pub(crate) struct UserMemory {
    /// Taken by invalidations: by all with [`NoReclaim`].
    #[pin]
    state: Mutex<State>,
    /// How often in a row the worker has failed.
    failures: Atomic<u64>,
    #[pin]
    work: Work<UserMemory>,
}

impl_has_work! {
    impl HasWork<Self> for UserMemory { self.work }
}

/// The lock is left before memory may be waited for again.
struct Guard<'a> {
    // Field order.
    state: MutexGuard<'a, State>,
    _no_reclaim: NoReclaim,
}

/// What buffers call.
struct Caller(Arc<UserMemory>);

impl Keeper for Caller {
    fn invalidate(&self, validity: &Validity, mark: Mark<'_>) {
        let mut guard = self.0.lock();
        let state: &mut State = &mut guard.state;
        mark.set();
        validity.count();
        if !validity.is_known() {
            // No GPU has seen these pages.
            return;
        }
        state.invalidations += 1;
        let first = state.invalidations == 1;
        if first {
            state.places.iter_mut().for_each(Place::take_off);
        }
        // Jobs of the render node may use the address space, too.
        if let Some(buffer) = state.buffers.iter().find(|b| b.has(validity)) {
            buffer.hide();
        }
        drop(guard);
        if first {
            self.0.schedule();
        }
    }
}

impl Place {
    /// Takes the queues off. If the GPU does not let go of them it is cut off from memory.
    fn take_off(&mut self) {
        if self.off {
            return;
        }
        let Ok(dqm) = self.process.gpu().dqm() else {
            return;
        };
        self.off = true;
        smi::evicted(self.process.gpu(), self.process.pid(), Trigger::Userptr);
        if let Err(e) = dqm.evict(&self.process) {
            pr_err!(
                "process {}: queues were not taken off GPU {:#x}: {e:?}\n",
                self.process.pid(),
                self.process.gpu().id()
            );
        }
        trace::process(
            self.process.pid(),
            self.process.pasid(),
            c"userptr invalidated",
        );
    }

    /// Puts the queues back. `ENOMEM` if that has to be tried again.
    fn put_back(&mut self) -> Result {
        if !self.off {
            return Ok(());
        }
        let restored = self
            .process
            .gpu()
            .dqm()
            .and_then(|dqm| dqm.restore(&self.process));
        match restored {
            Err(e) if e == ENOMEM => return Err(e),
            Err(e) => pr_err!(
                "process {}: queues stay off GPU {:#x}: {e:?}\n",
                self.process.pid(),
                self.process.gpu().id()
            ),
            Ok(()) => {}
        }
        self.off = false;
        smi::restored(self.process.gpu(), self.process.pid(), false);
        trace::process(
            self.process.pid(),
            self.process.pasid(),
            c"userptr restored",
        );
        Ok(())
    }
}

impl UserMemory {
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(
                    State {
                        places: KVec::new(),
                        buffers: KVVec::new(),
                        invalidations: 0,
                    },
                    "rkfd_userptr"
                ),
                failures: Atomic::new(0),
                work <- new_work!("rkfd_userptr"),
            }),
            GFP_KERNEL,
        )
    }

    fn lock(&self) -> Guard<'_> {
        let state = self.state.lock();
        Guard {
            state,
            _no_reclaim: NoReclaim::new(),
        }
    }

    fn schedule(self: &Arc<Self>) {
        if let Some(queue) = &*QUEUE.lock() {
            // Not again if it waits for its turn already.
            let _ = queue.enqueue(self.clone());
        }
    }

    /// The process may have queues on a GPU from now on.
    pub(super) fn join(&self, process: &Arc<ProcessSlot>) -> Result {
        let mut guard = self.lock();
        let state: &mut State = &mut guard.state;
        let mut place = Place {
            process: process.clone(),
            off: false,
        };
        state.places.reserve(1, GFP_KERNEL)?;
        if state.invalidations > 0 {
            place.take_off();
        }
        state.places.push_within_capacity(place)?;
        Ok(())
    }

    /// The process has no queues on a GPU any more, and gets none.
    pub(super) fn part(&self, process: &Arc<ProcessSlot>) {
        let mut guard = self.lock();
        let places = &mut guard.state.places;
        let at = places.iter().position(|p| Arc::ptr_eq(&p.process, process));
        let gone = at.and_then(|at| places.remove(at).ok());
        drop(guard);
        drop(gone);
    }

    /// Makes a buffer of the `size` bytes at `start` of the current process, which has to be this
    /// one. Touches user memory.
    ///
    /// `EFAULT` if there is no memory, `EPERM` if it may not be written, `EOVERFLOW` if there are no
    /// such addresses, `EAGAIN` if it does not hold still.
    pub(super) fn create(
        self: &Arc<Self>,
        gpu: &Arc<Gpu>,
        start: u64,
        size: u64,
        flags: BoFlags,
    ) -> Result<(Bo, Known)> {
        let reservation = account::reserve(gpu, Kind::User, size)?;
        let caller = Arc::new(Caller(self.clone()), GFP_KERNEL)?;
        let bo = Bo::user(gpu, start, size, flags, caller, reservation)?;
        let buffer = UserBuffer::of(&bo).ok_or(EINVAL)?;
        for _ in 0..TRIES {
            let found = match buffer.refresh() {
                Err(e) if e == EBUSY => return Err(EAGAIN),
                other => other?,
            };
            let mut guard = self.lock();
            if !buffer.confirm(found) {
                continue;
            }
            guard.state.buffers.push(buffer.clone(), GFP_KERNEL)?;
            buffer.set_known(true);
            drop(guard);
            let known = Known {
                all: self.clone(),
                buffer,
            };
            return Ok((bo, known));
        }
        Err(EAGAIN)
    }

    /// The buffers that `pick` takes of those that are known; `None` if the queues are where they
    /// belong.
    fn select(&self, pick: fn(&UserBuffer) -> bool) -> Result<Option<KVVec<UserBuffer>>> {
        let mut list = KVVec::new();
        loop {
            let guard = self.lock();
            if guard.state.invalidations == 0 {
                return Ok(None);
            }
            let picked = || guard.state.buffers.iter().filter(|b| pick(b));
            let count = picked().count();
            if count <= list.capacity() {
                for buffer in picked() {
                    list.push_within_capacity(buffer.clone())?;
                }
                return Ok(Some(list));
            }
            drop(guard);
            list.reserve(count, GFP_KERNEL)?;
        }
    }

    /// Refreshes all buffers and puts the queues back. False if that has to be tried again.
    fn restore(&self) -> Result<bool> {
        // Memory may have come back without a word.
        let mut pick: fn(&UserBuffer) -> bool = UserBuffer::is_invalid;
        for _ in 0..ROUNDS {
            let Some(list) = self.select(pick)? else {
                return Ok(true);
            };
            for buffer in &list {
                let changes = buffer.changes();
                match buffer.refresh() {
                    Ok(found) => {
                        let _guard = self.lock();
                        buffer.confirm(found);
                    }
                    // The GPU faults when it goes there: better than to wait for ever.
                    Err(e) if e == EFAULT => {
                        let _guard = self.lock();
                        buffer.note_missing(changes);
                    }
                    // The process is ending.
                    Err(e) if e == ESRCH => return Ok(true),
                    Err(e) if e == EIO || e == ENODEV => return Err(e),
                    // It is looked at again; the others need not wait for it.
                    Err(_) => {}
                }
            }
            // The buffers may be the last of their kind: not under the lock.
            drop(list);
            if self.put_back()? {
                return Ok(true);
            }
            pick = |buffer| !buffer.is_settled();
        }
        Ok(false)
    }

    /// Puts the queues back if all buffers are as they should be.
    fn put_back(&self) -> Result<bool> {
        let mut guard = self.lock();
        let state: &mut State = &mut guard.state;
        if !state.buffers.iter().all(UserBuffer::is_settled) {
            return Ok(false);
        }
        for place in state.places.iter_mut() {
            place.put_back()?;
        }
        state.invalidations = 0;
        Ok(true)
    }
}

impl WorkItem for UserMemory {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let failures = this.failures.load(Relaxed);
        fsleep(DELAY * (1i64 << failures.min(5)));
        match this.restore() {
            Ok(true) => this.failures.store(0, Relaxed),
            Err(e) if e == EIO || e == ENODEV => this.failures.store(0, Relaxed),
            Ok(false) | Err(_) => {
                this.failures.store(failures + 1, Relaxed);
                for place in &this.lock().state.places {
                    smi::restored(place.process.gpu(), place.process.pid(), true);
                }
                this.schedule();
            }
        }
    }
}

/// A buffer is known as long as this lives.
pub(super) struct Known {
    all: Arc<UserMemory>,
    buffer: UserBuffer,
}

impl Drop for Known {
    fn drop(&mut self) {
        let mut guard = self.all.lock();
        self.buffer.set_known(false);
        let buffers = &mut guard.state.buffers;
        let mut gone = None;
        if let Some(at) = buffers.iter().position(|b| b.is(&self.buffer)) {
            let last = buffers.len() - 1;
            buffers.swap(at, last);
            gone = buffers.pop();
        }
        drop(guard);
        drop(gone);
    }
}
