// SPDX-License-Identifier: GPL-2.0

//! Fences of user queues. A queue writes its position to its slot of a page in system memory
//! (PROTECTED_FENCE_SIGNAL), and raises an interrupt. A fence has the write pointer at its creation
//! as seqno, and is signaled once the position has reached it. Other queues may poll the slot.

use kernel::{
    new_mutex,
    num::casts::usize_as_u64,
    page::PAGE_SIZE,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
    time::{Delta, Instant, Monotonic},
    workqueue::new_delayed_work,
};

use crate::{
    dqm::{DqmQueue, LostQueue},
    gpu::{user_doorbells::DoorbellOwner, Gpu},
    kapi::{
        fence::{
            hw::{HwFence, Timeline, UnusedFence},
            Fence,
        },
        sched_mm::NoReclaim,
        workqueue::{Builder, Delayed, DelayedItem, OwnedQueue},
    },
    mmu::{Access, Bo, BoFlags, BoRef, KernelAddr, Vm},
    node::Node,
    process::Quiesce,
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
    bo: BoRef,
    number: usize,
    #[pin]
    used: Mutex<[bool; SLOTS]>,
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
        let index = used.iter().position(|used| !used)?;
        used[index] = true;
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
        self.page.used.lock()[self.index] = false;
    }
}

/// The fences of all user queues of a device.
#[pin_data]
pub(super) struct FencePool {
    #[pin]
    pages: Mutex<KVec<Arc<FencePage>>>,
    /// Those of queues that exist.
    #[pin]
    queues: Mutex<KVVec<Arc<Delayed<UserFences>>>>,
    /// Work queue of the detection of hangs.
    hangs: OwnedQueue,
}

impl FencePool {
    /// Returns an empty pool. `ENOMEM` without memory.
    pub(super) fn new() -> Result<Arc<Self>> {
        let hangs = Builder::ordered().build(c"rkfd_userq")?;
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
        let bo = Arc::new(
            Bo::gtt(gpu, usize_as_u64(PAGE_SIZE), flags, None)?,
            GFP_KERNEL,
        )?;
        let addr = bo.kernel_addr()?;
        let page = Arc::pin_init(
            pin_init!(FencePage {
                addr,
                bo,
                number,
                used <- new_mutex!([false; SLOTS], "rkfd_fence_page"),
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
        };
        let pages = self.pages.lock();
        for page in pages.iter().skip(*mapped) {
            vm.map_reserved(page.va(), &page.bo, usize_as_u64(PAGE_SIZE), ACCESS)?;
            *mapped += 1;
        }
        Ok(())
    }

    /// Returns the fences of the queue whose one has this context.
    pub(super) fn find(&self, context: u64) -> Option<Arc<Delayed<UserFences>>> {
        let queues = self.queues.lock();
        let found = queues.iter().find(|q| q.timeline.context() == context);
        found.cloned()
    }
}

/// A fence that is not signaled.
struct Pending {
    since: Instant<Monotonic>,
    fence: HwFence,
    /// Slots for which packets before it may wait.
    _uses: KVVec<Arc<Delayed<UserFences>>>,
}

struct State {
    /// In the order of their seqnos.
    pending: KVVec<Pending>,
    /// The queue does not run any more: new fences fail.
    ended: bool,
    /// Slots for which packets behind the last fence may wait.
    uses: KVVec<Arc<Delayed<UserFences>>>,
    /// The queue, until it is freed.
    queue: Option<(Arc<Node>, Arc<DqmQueue>)>,
}

/// The fences of a user queue.
#[pin_data]
pub(super) struct UserFences {
    pool: Arc<FencePool>,
    place: Slot,
    timeline: Timeline,
    /// Taken by the interrupt thread, and inside the lock of the device queue manager: no fence is
    /// signaled or dropped, and no memory reclaimed under it.
    #[pin]
    state: Mutex<State>,
}

impl UserFences {
    /// Returns the fences of a new queue. Errors as [`FencePool::take`].
    pub(super) fn new(pool: &Arc<FencePool>, gpu: &Arc<Gpu>) -> Result<Arc<Delayed<Self>>> {
        let place = pool.take(gpu)?;
        let fences = pin_init!(Self {
            pool: pool.clone(),
            place,
            timeline: Timeline::new(c"userq"),
            state <- new_mutex!(
                State {
                    pending: KVVec::new(),
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
        pool.queues.lock().push(this.clone(), GFP_KERNEL)?;
        Ok(this)
    }

    /// Returns the address of the slot in VMID 0.
    pub(super) fn addr(&self) -> u64 {
        self.place.addr()
    }

    /// Returns the address of the slot in address spaces.
    pub(super) fn va(&self) -> u64 {
        self.place.va()
    }

    /// Sets the queue, which a hang stops.
    pub(super) fn set_queue(&self, node: Arc<Node>, queue: Arc<DqmQueue>) {
        self.state.lock().queue = Some((node, queue));
    }

    /// Keeps a slot allocated until the next fence is signaled. `ENOMEM` without memory.
    pub(super) fn use_slot(&self, other: Arc<Delayed<Self>>) -> Result {
        let mut state = self.state.lock();
        let _no_reclaim = NoReclaim::new();
        Ok(state.uses.push(other, GFP_KERNEL)?)
    }

    /// Returns a new fence for the write pointer `wptr`. `ENOMEM` without memory.
    pub(super) fn emit(this: &Arc<Delayed<Self>>, wptr: u64) -> Result<ARef<Fence>> {
        let memory = UnusedFence::new()?;
        let mut state = this.state.lock();
        let _no_reclaim = NoReclaim::new();
        state.pending.reserve(1, GFP_KERNEL)?;
        let fence = this.timeline.emit_at(memory, wptr);
        let out = fence.fence().clone();
        if state.ended {
            drop(state);
            fence.fail(ECANCELED);
            return Ok(out);
        }
        let _uses = core::mem::take(&mut state.uses);
        // Reserved above.
        let pending = Pending {
            since: Instant::now(),
            fence,
            _uses,
        };
        state.pending.push_within_capacity(pending)?;
        drop(state);
        this.check();
        // Fails if it is queued already.
        let _ = this
            .pool
            .hangs
            .enqueue_delayed(this.clone(), hang_timeout());
        Ok(out)
    }

    /// Removes the first fence if its seqno is not above `position`.
    fn pop(&self, position: u64) -> Option<Pending> {
        let mut state = self.state.lock();
        let first = state.pending.first()?;
        if first.fence.fence().seqno() > position {
            return None;
        }
        state.pending.remove(0).ok()
    }

    /// Signals the fences that the queue has reached.
    fn check(&self) {
        let Ok(position) = self.place.read() else {
            return;
        };
        while let Some(pending) = self.pop(position) {
            pending.fence.signal();
        }
    }

    /// Ends the queue: all fences fail, as do those to come. Queues that wait for them go on.
    pub(super) fn end(&self) {
        let last = {
            let mut state = self.state.lock();
            state.ended = true;
            let last = state.pending.last();
            last.map(|pending| pending.fence.fence().seqno())
        };
        if let Some(last) = last {
            // An unplugged device has no queues that wait.
            let _ = self.place.write(last);
        }
        while let Some(pending) = self.pop(u64::MAX) {
            pending.fence.fail(ECANCELED);
        }
    }

    /// Waits for the last fence. Not interruptible: a hang ends it.
    pub(super) fn wait(&self) {
        let last = {
            let state = self.state.lock();
            let last = state.pending.last();
            last.map(|pending| pending.fence.fence().clone())
        };
        if let Some(last) = last {
            last.wait();
        }
    }

    /// The queue is freed: it is off the hardware.
    pub(super) fn free(this: &Arc<Delayed<Self>>) {
        let queue = this.state.lock().queue.take();
        drop(queue);
        this.end();
        this.pool
            .queues
            .lock()
            .retain(|other| !Arc::ptr_eq(other, this));
        this.flush();
    }
}

/// Returns the time that a queue may take for a fence.
fn hang_timeout() -> Delta {
    Delta::from_millis(crate::module_parameters::lockup_timeout.value().into())
}

impl DelayedItem for UserFences {
    /// Stops the queue if its first fence is not signaled in time.
    fn run(this: Arc<Delayed<Self>>) {
        let (since, queue) = {
            let state = this.state.lock();
            let Some(first) = state.pending.first() else {
                return;
            };
            (first.since, state.queue.clone())
        };
        let left = hang_timeout() - since.elapsed();
        if left > Delta::ZERO {
            let _ = this.pool.hangs.enqueue_delayed(this.clone(), left);
            return;
        }
        if let Some((node, queue)) = queue {
            dev_err!(
                node.gpu().dev(),
                "a user queue of PASID {} has not signaled its fence, stopping it\n",
                queue.slot().pasid()
            );
            // An error is reported: the queue is off the hardware, or the card is wedged.
            let _ = node.dqm().stop_queue(&queue);
        }
        this.end();
    }
}

impl DoorbellOwner for Delayed<UserFences> {
    fn fence_interrupt(&self) {
        self.check();
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

    /// Removes those of a queue.
    pub(super) fn remove(&self, fences: &Arc<Delayed<UserFences>>) {
        self.list.lock().retain(|other| !Arc::ptr_eq(other, fences));
    }
}

impl Quiesce for FileFences {
    fn wait(&self) {
        let mut at = 0;
        loop {
            let Some(fences) = self.list.lock().get(at).cloned() else {
                return;
            };
            fences.wait();
            at += 1;
        }
    }
}
