// SPDX-License-Identifier: GPL-2.0

//! Making room in VRAM: buffers that were not used for the longest time move to system memory, and
//! come back when they are used.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
    time::{delay::fsleep, Delta},
};

use super::{
    bo::{BoKind, BoRef},
    store::{Place, Store, System},
};
use crate::{
    gpu::{memory::VramRange, Gpu},
    kapi::{fence::Timeout, resv::Usage},
};

/// What buffers leave free for page tables: one byte for so many bytes of VRAM, and this much at
/// least.
const VRAM_PER_TABLE_BYTE: u64 = 1 << 14;
const TABLES_MIN: u64 = 8 << 20;

/// How often all buffers are asked again when some were in use.
const ROUNDS: u32 = 50;
/// How long between the rounds.
const PAUSE: Delta = Delta::from_millis(10);

/// Who must not notice that memory moves which his address space maps: the queues of a process
/// access it without asking.
pub(crate) trait Owner: Send + Sync {
    /// Takes everything off the GPU that could access `what`, until that is in VRAM and stays
    /// there. Called with the lock of the buffer's reservation held; twice is as good as once.
    fn quiesce(&self, what: Away) -> Result;
}

/// Memory that had to leave VRAM.
pub(crate) struct Away(Arc<Store>);

impl Away {
    /// Both are the same memory.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Brings the memory back. `ENOMEM` if there is still no room.
    pub(crate) fn bring_back(&self) -> Result {
        let _held = self.0.resv().lock();
        if self.0.is_retired() || self.0.is_in_vram() {
            return Ok(());
        }
        return_to_vram(&self.0)
    }
}

/// Which buffers may be moved to make room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Victims {
    /// All.
    All,
    /// Those that no [`Owner`] maps.
    Unowned,
}

/// The buffers of a GPU that can be moved out of its VRAM.
#[pin_data]
pub(crate) struct Evictable {
    #[pin]
    list: Mutex<KVVec<Arc<Store>>>,
    clock: Atomic<u64>,
    moved: Atomic<u64>,
    evictions: Atomic<u64>,
}

impl Evictable {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(KVVec::new(), "rkfd_evictable"),
            clock: Atomic::new(1),
            moved: Atomic::new(0),
            evictions: Atomic::new(0),
        })
    }

    /// Bytes that were moved, in either direction.
    pub(crate) fn bytes_moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    /// How often a buffer had to leave.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Relaxed)
    }

    pub(super) fn add(&self, store: &Arc<Store>) -> Result {
        self.touch(store);
        self.list.lock().push(store.clone(), GFP_KERNEL)?;
        Ok(())
    }

    pub(super) fn remove(&self, store: &Arc<Store>) {
        let mut list = self.list.lock();
        let gone = match list.iter().position(|s| Arc::ptr_eq(s, store)) {
            Some(at) => {
                let last = list.len() - 1;
                list.swap(at, last);
                list.pop()
            }
            None => None,
        };
        drop(list);
        drop(gone);
    }

    /// The buffer was used just now.
    pub(super) fn touch(&self, store: &Store) {
        store.stamp.store(self.clock.fetch_add(1, Relaxed), Relaxed);
    }

    /// Of the buffers in VRAM that were used after `after`, the one that was used first.
    fn pick(&self, after: u64, victims: Victims) -> Option<Arc<Store>> {
        self.list
            .lock()
            .iter()
            .filter(|s| s.is_in_vram() && s.stamp.load(Relaxed) > after)
            .filter(|s| victims == Victims::All || !s.is_owned())
            .min_by_key(|s| s.stamp.load(Relaxed))
            .cloned()
    }

    fn count_move(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Relaxed);
    }
}

/// Bytes of VRAM that are kept free for page tables.
fn set_aside(gpu: &Gpu) -> u64 {
    (gpu.vram().size() / VRAM_PER_TABLE_BYTE).max(TABLES_MIN)
}

/// Allocates VRAM for a buffer, from other buffers if there is no other way.
pub(super) fn alloc(
    gpu: &Arc<Gpu>,
    size: u64,
    contiguous: bool,
    victims: Victims,
) -> Result<VramRange> {
    let leave = set_aside(gpu);
    if size.saturating_add(leave) > gpu.vram().usable() {
        return Err(ENOMEM);
    }
    make_room_from(gpu, victims, || {
        gpu.vram().alloc_for_buffer(size, contiguous, leave)
    })
}

/// Calls `alloc` until it finds room, and moves buffers away in between.
pub(crate) fn make_room<T>(gpu: &Gpu, alloc: impl FnMut() -> Result<T>) -> Result<T> {
    make_room_from(gpu, Victims::All, alloc)
}

fn make_room_from<T>(
    gpu: &Gpu,
    victims: Victims,
    mut alloc: impl FnMut() -> Result<T>,
) -> Result<T> {
    for round in 0.. {
        let mut after = 0;
        let mut busy = false;
        loop {
            match alloc() {
                Err(e) if e == ENOMEM => {}
                other => return other,
            }
            if gpu.vram().wait_for_cleared()? {
                continue;
            }
            let Some(victim) = gpu.evictable().pick(after, victims) else {
                break;
            };
            after = victim.stamp.load(Relaxed);
            match evict(&victim) {
                Err(e) if e == ERESTARTSYS => return Err(e),
                Err(e) if e == EBUSY => busy = true,
                _ => {}
            }
        }
        // Of those that are in use the caller himself may have some, when he prepares a job.
        if !busy || round == ROUNDS || victims == Victims::Unowned {
            break;
        }
        fsleep(PAUSE);
    }
    Err(ENOMEM)
}

/// Moves a buffer to system memory. `EBUSY` when it is in use.
fn evict(store: &Arc<Store>) -> Result {
    let gpu = store.gpu();
    gpu.check_usable()?;
    let _held = store.resv().try_lock().ok_or(EBUSY)?;
    if !store.is_in_vram() || store.is_retired() {
        return Ok(());
    }
    let system = System::new(gpu, store.size())?;
    quiesce(store)?;
    wait_for_users(store)?;
    store.relocate(Place::System(system))?;
    gpu.evictable().count_move(store.size());
    gpu.evictable().evictions.fetch_add(1, Relaxed);
    Ok(())
}

/// Takes the queues of all processes off the GPU that map the memory: of more than one when it is
/// shared. The lock of its reservation keeps new mappings away.
fn quiesce(store: &Arc<Store>) -> Result {
    for owner in store.owners()? {
        owner.quiesce(Away(store.clone()))?;
    }
    Ok(())
}

/// Waits until no job uses the memory any more. The lock of its reservation keeps new ones away.
fn wait_for_users(store: &Store) -> Result {
    store.resv().wait(Usage::Bookkeep, true, Timeout::FOREVER)?;
    Ok(())
}

/// Moves a buffer back, whose lock is held.
fn return_to_vram(store: &Arc<Store>) -> Result {
    let gpu = store.gpu();
    gpu.check_usable()?;
    let range = alloc(
        gpu,
        store.size(),
        store.flags().contiguous,
        Victims::Unowned,
    )?;
    // Who mapped it while it was away computes with it where it is.
    quiesce(store)?;
    wait_for_users(store)?;
    store.relocate(Place::Vram(Arc::new(range, GFP_KERNEL)?))?;
    gpu.evictable().touch(store);
    gpu.evictable().count_move(store.size());
    Ok(())
}

/// Prepares a buffer for being used by a job: if it belongs to VRAM and there is room, or buffers
/// that are used less, it goes there. The caller holds the lock of its reservation, and keeps it
/// until the job's fence is in it.
pub(crate) fn validate(bo: &BoRef) -> Result {
    let store = bo.store();
    store.gpu().evictable().touch(store);
    if store.preferred() != BoKind::Vram || store.is_in_vram() {
        return Ok(());
    }
    match return_to_vram(store) {
        // It can be used where it is.
        Err(e) if e != ERESTARTSYS && e != ENODEV && e != EIO => Ok(()),
        other => other,
    }
}
