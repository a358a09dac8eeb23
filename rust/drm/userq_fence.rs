// SPDX-License-Identifier: GPL-2.0

//! Fences of user queues. A queue writes its position to its slot of a page in system memory
//! (PROTECTED_FENCE_SIGNAL), and raises an interrupt. A fence has the write pointer at its creation
//! as seqno, and is signaled once the position has reached it. Other queues may poll the slot.

use kernel::{
    bitmap::BitmapVec,
    new_mutex,
    num::casts::usize_as_u64,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
    time::{Delta, Instant, Monotonic},
    workqueue::new_delayed_work,
};

use crate::{
    dqm::{DqmQueue, LostQueue},
    gpu::{user_doorbells::DoorbellOwner, Gpu},
    hw::Mtype,
    kapi::{
        fence::{
            hw::{HwFence, Timeline, UnusedFence},
            Fence,
        },
        workqueue::{Builder, Delayed, DelayedItem, OwnedQueue},
    },
    mmu::{Access, Bo, BoFlags, KernelAddr, Vm},
    node::Node,
    process::Quiesce,
    ring::lockup_ms,
};

/// Bytes of a slot.
const SLOT: usize = 8;
/// Slots of a page.
const SLOTS: usize = PAGE_SIZE / SLOT;
/// First address of the pages in each address space, and their bytes
/// (`AMDGPU_VA_RESERVED_SEQ64_START`, `AMDGPU_VA_RESERVED_SEQ64_SIZE`).
const BASE: u64 = (1 << 48) - (4 << 20);
const BYTES: u64 = 2 << 20;
/// Upper bits of canonical addresses.
const SIGN: u64 = !0 << 48;

/// A page of slots.
#[pin_data]
struct FencePage {
    // Field order: the address goes before the BO.
    addr: KernelAddr,
    bo: Bo,
    number: usize,
    #[pin]
    used: Mutex<BitmapVec>,
}

/// A slot. Dropping it frees it.
struct Slot {
    page: Arc<FencePage>,
    index: usize,
}

impl FencePage {
    /// Returns a free slot.
    fn take(self: &Arc<Self>) -> Option<Slot> {
        let mut used = self.used.lock();
        let index = used.next_zero_bit(0)?;
        used.set_bit(index);
        Some(Slot {
            page: self.clone(),
            index,
        })
    }

    /// Returns the address in address spaces.
    fn va(&self) -> u64 {
        BASE + usize_as_u64(self.number * PAGE_SIZE)
    }
}

impl Slot {
    fn at(&self) -> usize {
        self.index * SLOT
    }

    /// Returns the address in address spaces, in canonical form.
    fn va(&self) -> u64 {
        SIGN | (self.page.va() + usize_as_u64(self.at()))
    }

    /// Returns the address in VMID 0.
    fn addr(&self) -> u64 {
        self.page.addr.get() + usize_as_u64(self.at())
    }

    fn read(&self) -> Result<u64> {
        self.page.bo.read64(self.at())
    }

    fn write(&self, value: u64) -> Result {
        self.page.bo.write64(self.at(), value)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.page.used.lock().clear_bit(self.index);
    }
}

/// The fences of all user queues of a device.
#[pin_data]
pub(super) struct FencePool {
    #[pin]
    pages: Mutex<KVec<Arc<FencePage>>>,
    /// Those of queues that exist, in the order of their fence contexts.
    #[pin]
    queues: Mutex<KVVec<Arc<Delayed<UserFences>>>>,
    /// Work queue of the detection of hangs.
    hangs: OwnedQueue,
}

impl FencePool {
    /// Returns an empty pool. `ENOMEM` without memory.
    pub(super) fn new() -> Result<Arc<Self>> {
        let hangs = Builder::ordered()
            .mem_reclaim()
            .freezable()
            .build(c"rkfd_userq")?;
        Arc::pin_init(
            pin_init!(Self {
                pages <- new_mutex!(KVec::new(), "rkfd_fence_pages"),
                queues <- new_mutex!(KVVec::new(), "rkfd_user_fences"),
                hangs,
            }),
            GFP_KERNEL,
        )
    }

    /// Allocates a slot. `ENOSPC` when all are in use, `ENOMEM` without memory.
    fn take(&self, gpu: &Arc<Gpu>) -> Result<Slot> {
        let mut pages = self.pages.lock();
        if let Some(slot) = pages.iter().find_map(FencePage::take) {
            slot.write(0)?;
            return Ok(slot);
        }
        let number = pages.len();
        if usize_as_u64((number + 1) * PAGE_SIZE) > BYTES {
            return Err(ENOSPC);
        }
        let flags = BoFlags {
            uncached: true,
            ..BoFlags::default()
        };
        let bo = Bo::gtt(gpu, usize_as_u64(PAGE_SIZE), flags, None)?;
        let addr = bo.kernel_addr()?;
        let used = BitmapVec::new(SLOTS, GFP_KERNEL)?;
        let page = Arc::pin_init(
            pin_init!(FencePage {
                addr,
                bo,
                number,
                used <- new_mutex!(used, "rkfd_fence_page"),
            }),
            GFP_KERNEL,
        )?;
        let slot = page.take().ok_or(ENOSPC)?;
        pages.push(page, GFP_KERNEL)?;
        Ok(slot)
    }

    /// Maps all pages to an address space that has the first `mapped`, which is updated. Errors as
    /// [`Vm::map`].
    pub(super) fn map(&self, vm: &Vm, mapped: &mut usize) -> Result {
        const ACCESS: Access = Access {
            read: true,
            write: false,
            exec: false,
            mtype: Mtype::NonCoherent,
        };
        loop {
            // Not under the lock: a map may evict, and wait for fences.
            let Some(page) = self.pages.lock().get(*mapped).cloned() else {
                return Ok(());
            };
            vm.map_reserved(page.va(), &page.bo, usize_as_u64(PAGE_SIZE), ACCESS)?;
            *mapped += 1;
        }
    }

    /// Returns the fences of the queue with this fence context.
    pub(super) fn find(&self, context: u64) -> Option<Arc<Delayed<UserFences>>> {
        let queues = self.queues.lock();
        find_index(&queues, context)
            .ok()
            .map(|at| queues[at].clone())
    }
}

/// Returns the index of the fences of a queue, or the index at which to insert them.
fn find_index(queues: &[Arc<Delayed<UserFences>>], context: u64) -> Result<usize, usize> {
    queues.binary_search_by_key(&context, |fences| fences.timeline.context())
}

/// A fence that is not signaled.
struct Pending {
    since: Instant<Monotonic>,
    fence: HwFence,
    /// Fences of other queues that packets before it may poll.
    uses: KVVec<Arc<Delayed<UserFences>>>,
    next: Option<KBox<Pending>>,
}

/// The pending fences of a queue, in the order of their seqnos. No operation allocates.
#[derive(Default)]
struct Fifo {
    /// From the first on.
    output: Option<KBox<Pending>>,
    /// The fences after those of `output`, from the last on.
    input: Option<KBox<Pending>>,
}

impl Fifo {
    fn push(&mut self, mut last: KBox<Pending>) {
        last.next = self.input.take();
        self.input = Some(last);
    }

    fn first(&mut self) -> Option<&Pending> {
        if self.output.is_none() {
            while let Some(mut last) = self.input.take() {
                self.input = last.next.take();
                last.next = self.output.take();
                self.output = Some(last);
            }
        }
        self.output.as_deref()
    }

    fn pop(&mut self) -> Option<KBox<Pending>> {
        self.first()?;
        let mut first = self.output.take()?;
        self.output = first.next.take();
        Some(first)
    }
}

impl Drop for Fifo {
    /// Not recursive.
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// A queue and its node.
type QueueOfNode = (Arc<Node>, Arc<DqmQueue>);

struct State {
    pending: Fifo,
    /// The last fence: no later one has a lower seqno.
    last: Option<ARef<Fence>>,
    /// Time at which a fence was signaled last.
    progress: Instant<Monotonic>,
    /// Time of the first fault of the queue since then.
    fault: Option<Instant<Monotonic>>,
    /// The queue does not run any more: new fences fail.
    ended: bool,
    /// Fences of other queues that packets behind the last one may poll, without duplicates.
    uses: KVVec<Arc<Delayed<UserFences>>>,
    /// The queue, until it is freed.
    queue: Option<QueueOfNode>,
}

/// The fences of a user queue.
#[pin_data]
pub(super) struct UserFences {
    pool: Arc<FencePool>,
    fence_slot: Slot,
    timeline: Timeline,
    /// Number of pending fences.
    count: Atomic<u32>,
    /// Held while a fence is removed from the pending ones and signaled, by any of several tasks: a
    /// fence is not signaled before an earlier one. Taken where `state` is, outside of that.
    #[pin]
    signaling: Mutex<()>,
    /// Taken by the interrupt thread, and inside the lock of the device queue manager: no fence is
    /// signaled or dropped, and no memory allocated under it.
    #[pin]
    state: Mutex<State>,
}

impl UserFences {
    /// Returns the fences of a new queue. Errors as [`FencePool::take`].
    pub(super) fn new(pool: &Arc<FencePool>, gpu: &Arc<Gpu>) -> Result<Arc<Delayed<Self>>> {
        let fence_slot = pool.take(gpu)?;
        let fences = pin_init!(Self {
            pool: pool.clone(),
            fence_slot,
            timeline: Timeline::new(c"userq"),
            count: Atomic::new(0),
            signaling <- new_mutex!((), "rkfd_userq_signaling"),
            state <- new_mutex!(
                State {
                    pending: Fifo::default(),
                    last: None,
                    progress: Instant::now(),
                    fault: None,
                    ended: false,
                    uses: KVVec::new(),
                    queue: None,
                },
                "rkfd_userq_fences"
            ),
        });
        let this = Arc::pin_init(
            Delayed::new(new_delayed_work!("rkfd_userq"), fences),
            GFP_KERNEL,
        )?;
        let mut queues = pool.queues.lock();
        queues.reserve(1, GFP_KERNEL)?;
        let (Ok(at) | Err(at)) = find_index(&queues, this.timeline.context());
        queues.insert_within_capacity(at, this.clone())?;
        drop(queues);
        Ok(this)
    }

    /// Returns the address of the slot in VMID 0.
    pub(super) fn addr(&self) -> u64 {
        self.fence_slot.addr()
    }

    /// Returns the address of the slot in address spaces.
    pub(super) fn va(&self) -> u64 {
        self.fence_slot.va()
    }

    /// Sets the queue, which is stopped when it hangs.
    pub(super) fn set_queue(&self, node: Arc<Node>, queue: Arc<DqmQueue>) {
        self.state.lock().queue = Some((node, queue));
    }

    /// Keeps the slot of another queue allocated until the next fence is signaled, as packets of
    /// this queue poll it. `ENOMEM` without memory.
    pub(super) fn use_slot(this: &Arc<Delayed<Self>>, other: &Arc<Delayed<Self>>) -> Result {
        if Arc::ptr_eq(this, other) {
            return Ok(());
        }
        let mut spare = KVVec::new();
        loop {
            let mut state = this.state.lock();
            if state.ended || state.uses.iter().any(|known| Arc::ptr_eq(known, other)) {
                return Ok(());
            }
            if state.uses.len() == state.uses.capacity() {
                let room = 2 * state.uses.len() + 4;
                if spare.capacity() < room {
                    drop(state);
                    spare.reserve(room, GFP_KERNEL)?;
                    continue;
                }
                for known in state.uses.drain_all() {
                    spare.push_within_capacity(known)?;
                }
                core::mem::swap(&mut state.uses, &mut spare);
            }
            return Ok(state.uses.push_within_capacity(other.clone())?);
        }
    }

    /// Returns a new fence for the write pointer `wptr`, or for that of the last fence if it is
    /// higher. `ENOMEM` without memory.
    pub(super) fn emit(this: &Arc<Delayed<Self>>, wptr: u64) -> Result<ARef<Fence>> {
        let memory = UnusedFence::new()?;
        let room = KBox::new_uninit(GFP_KERNEL)?;
        let mut state = this.state.lock();
        let seqno = state
            .last
            .as_ref()
            .map_or(wptr, |last| last.seqno().max(wptr));
        let fence = this.timeline.emit_at(memory, seqno);
        let out = fence.fence().clone();
        let pending = Pending {
            since: Instant::now(),
            fence,
            uses: core::mem::take(&mut state.uses),
            next: None,
        };
        state.pending.push(KBox::write(room, pending));
        let before = state.last.replace(out.clone());
        this.count.fetch_add(1, Relaxed);
        if let Some(timeout) = hang_timeout().filter(|_| !state.ended) {
            // Fails if it is queued already. Not after `end()`, which is followed by a cancel.
            let _ = this.pool.hangs.enqueue_delayed(this.clone(), timeout);
        }
        drop(state);
        drop(before);
        this.check();
        Ok(out)
    }

    /// Removes the first fence if its seqno is not above `position`, or if the queue has ended:
    /// then the second value is `true`. The caller holds `signaling`.
    fn pop(&self, position: u64) -> Option<(KBox<Pending>, bool)> {
        let mut state = self.state.lock();
        let ended = state.ended;
        let first = state.pending.first()?;
        if !ended && first.fence.fence().seqno() > position {
            return None;
        }
        state.progress = Instant::now();
        state.fault = None;
        self.count.fetch_sub(1, Relaxed);
        Some((state.pending.pop()?, ended))
    }

    /// Signals the first fence if the queue has reached `position` and that is enough for it, or if
    /// the queue has ended, which is an error. Returns whether it did.
    fn signal_first(&self, position: u64) -> bool {
        let signaling = self.signaling.lock();
        let Some((pending, ended)) = self.pop(position) else {
            return false;
        };
        if ended {
            pending.fence.fail(ECANCELED);
        } else {
            pending.fence.signal();
        }
        // What the fence holds is dropped without the lock.
        drop(signaling);
        true
    }

    /// Signals the fences that the queue has reached, all if it has ended.
    fn check(&self) {
        // An unplugged device has no queue that is at a position.
        let position = self.fence_slot.read().unwrap_or(0);
        while self.signal_first(position) {}
    }

    /// Ends the queue: fences that it has not reached, and later ones, fail. Writes the last seqno
    /// to the slot, so that queues that poll it continue.
    pub(super) fn end(&self) {
        self.check();
        let (last, uses) = {
            let mut state = self.state.lock();
            state.ended = true;
            state.fault = None;
            let last = state.last.as_ref().map(|last| last.seqno());
            (last, core::mem::take(&mut state.uses))
        };
        drop(uses);
        if let Some(last) = last {
            // An unplugged device has no queues that poll.
            let position = self.fence_slot.read().unwrap_or(0);
            let _ = self.fence_slot.write(position.max(last));
        }
        self.check();
    }

    /// Returns whether a fence is not signaled.
    fn is_pending(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Waits for the last fence. Not interruptible: a hang ends it.
    pub(super) fn wait(&self) {
        let last = self.state.lock().last.clone();
        if let Some(last) = last {
            last.wait();
        }
    }

    /// Ends the queue, which is freed and unmapped, and removes its fences from the pool.
    pub(super) fn free(this: &Arc<Delayed<Self>>) {
        let queue = this.state.lock().queue.take();
        drop(queue);
        this.end();
        let mut queues = this.pool.queues.lock();
        if let Ok(at) = find_index(&queues, this.timeline.context()) {
            // Cannot fail: it is there.
            let _ = queues.remove(at);
        }
        drop(queues);
        Delayed::cancel(this);
    }
}

/// Returns the time that a queue may take for a fence; `None` without a limit.
fn hang_timeout() -> Option<Delta> {
    Some(Delta::from_millis(lockup_ms()?.into()))
}

/// Factor of the timeout for fences of a queue that polls fences of other queues.
const POLL_FACTOR: i64 = 4;

impl UserFences {
    /// Returns the time left for the first fence, or after a fault, and the queue to stop; `None`
    /// without either, or without a limit. The time of a fence begins when the one before is
    /// signaled.
    fn time_left(&self) -> Option<(Delta, Option<QueueOfNode>)> {
        let timeout = hang_timeout()?;
        let mut state = self.state.lock();
        let progress = state.progress.elapsed();
        let of_fault = state.fault.map(|since| timeout - since.elapsed());
        let of_fence = state.pending.first().map(|first| {
            let age = first.since.elapsed();
            let left = timeout - age.min(progress);
            // Do not stop a queue because of a hang of the queue that it waits for.
            let polls = first.uses.iter().any(|other| other.is_pending());
            if left <= Delta::ZERO && polls && age < timeout * POLL_FACTOR {
                timeout
            } else {
                left
            }
        });
        let left = [of_fence, of_fault].into_iter().flatten().min()?;
        Some((left, state.queue.clone()))
    }
}

impl DelayedItem for UserFences {
    /// Stops the queue if its first fence, or the next one after a fault, is not signaled in time.
    fn run(this: Arc<Delayed<Self>>) {
        this.check();
        let Some((left, queue)) = this.time_left() else {
            return;
        };
        if left > Delta::ZERO {
            let state = this.state.lock();
            if !state.ended {
                let _ = this.pool.hangs.enqueue_delayed(this.clone(), left);
            }
            return;
        }
        if let Some((node, queue)) = queue {
            dev_err!(
                node.gpu().dev(),
                "a user queue of PASID {} hangs, stopping it\n",
                queue.slot().pasid()
            );
            // An error is reported: the queue is off the hardware, or the card is wedged.
            if node.dqm().stop_queue(&queue) == Ok(true) {
                node.gpu().queue_was_reset();
            }
        }
        this.end();
    }
}

impl DoorbellOwner for Delayed<UserFences> {
    fn fence_interrupt(&self) {
        self.check();
    }

    /// The queue is stopped after the timeout of a fence, unless it signals one before.
    fn fault(self: Arc<Self>) {
        let Some(timeout) = hang_timeout() else {
            return;
        };
        let mut state = self.state.lock();
        if !state.ended {
            state.fault.get_or_insert_with(Instant::now);
            // Fails if it is queued already. Not after `end()`, which is followed by a cancel.
            let _ = self.pool.hangs.enqueue_delayed(self.clone(), timeout);
        }
    }
}

impl LostQueue for Delayed<UserFences> {
    fn lost(&self) {
        self.end();
    }
}

/// The fences of the queues of a file.
#[pin_data]
pub(super) struct FileFences {
    #[pin]
    list: Mutex<KVVec<Arc<Delayed<UserFences>>>>,
}

impl FileFences {
    /// Returns an empty list. `ENOMEM` without memory.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                list <- new_mutex!(KVVec::new(), "rkfd_file_fences"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds those of a queue. `ENOMEM` without memory.
    pub(super) fn add(&self, fences: &Arc<Delayed<UserFences>>) -> Result {
        Ok(self.list.lock().push(fences.clone(), GFP_KERNEL)?)
    }

    /// Removes those of all queues.
    pub(super) fn clear(&self) {
        let list = core::mem::take(&mut *self.list.lock());
        drop(list);
    }

    /// Removes those of a queue.
    pub(super) fn remove(&self, fences: &Arc<Delayed<UserFences>>) {
        self.list.lock().retain(|other| !Arc::ptr_eq(other, fences));
    }
}

impl Quiesce for FileFences {
    fn wait(&self) {
        loop {
            let list = self.list.lock();
            let found = list.iter().find(|fences| fences.is_pending()).cloned();
            drop(list);
            let Some(fences) = found else { return };
            fences.wait();
        }
    }
}
