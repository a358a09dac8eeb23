// SPDX-License-Identifier: GPL-2.0

//! The user memory of a process that its GPUs share: attributes and GPUs.
//!
//! [`Svm::state`] guards the attributes, and that a block has at most one mirror on a GPU. It is
//! held while pages are faulted in and page tables are allocated, and taken by no MMU notifier.
//! Those take the lock of a window, see there, and inside it those of [`Queues`].

use core::ops::Range;

use kernel::{
    mm::{virt::flags, Mm, MmWithUser, MmWithUserAsync, MmapReadGuard},
    new_mutex,
    page::PAGE_SHIFT,
    prelude::*,
    rbtree::RBTree,
    sync::{
        aref::ARef,
        atomic::{ordering, Atomic, AtomicFlag, Relaxed},
        lock::mutex::MutexGuard,
        Arc, Mutex,
    },
    workqueue::new_delayed_work,
};

use super::{
    attributes::{AttributeMap, AttributeRange, Attributes, Change, Summary},
    window::{Owner, UnmapTrigger, WindowRef, BLOCKS, WINDOW_BYTES},
};
use crate::{
    card::account::{Share, UserBytes},
    gpu::{migrated::MoveReport, Gpu},
    kapi::{hmm, sched_mm::NoReclaim, workqueue::Delayed},
    mmu::{Mirror, MirrorOwner, Pages, Vm, BLOCK_PAGES},
};

/// Maximum number of GPUs: bits of a mask.
pub(crate) const MAX_GPUS: usize = u64::BITS as usize;

/// The user queues of the process. The methods are called by MMU notifiers: they do not allocate.
pub(crate) trait Queues: Send + Sync {
    /// Evicts the queues, unless they are evicted, and counts. Returns whether it is the first
    /// eviction of a batch.
    fn evict(&self) -> bool;

    /// Returns the number of evictions of the batch; 0 if the queues are not evicted.
    fn batch(&self) -> u64;

    /// Restores the queues and ends the batch if it still has `batch` evictions; else returns
    /// false. `ENOMEM` if that has to be tried again.
    fn restore(&self, batch: u64) -> Result<bool>;

    /// The restore is tried again later.
    fn postponed(&self);

    /// Evicts the queues permanently: a queue cannot run without memory that was unmapped.
    fn stop(&self);

    /// Pages were unmapped from GPUs.
    fn unmapped(&self, gpus: u64, pages: &Range<u64>, why: UnmapTrigger);

    /// Pages were mapped on GPUs.
    fn mapped(&self, gpus: u64, pages: &Range<u64>);
}

/// A GPU of the process as a location of memory.
pub(super) struct Location {
    /// Index in the process.
    pub(super) index: usize,
    /// The id of the GPU.
    pub(super) id: u32,
    /// Address space.
    pub(super) vm: Arc<Vm>,
    /// Share of VRAM.
    pub(super) share: Arc<Share>,
}

impl Location {
    /// Returns the card.
    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        self.vm.gpu()
    }

    /// Returns the memory partition of the node, whatever the file of the address space is.
    pub(super) fn memory(&self) -> u32 {
        self.share.memory().index()
    }
}

/// A GPU of the process.
#[derive(Default)]
struct Member {
    vm: Option<Arc<Vm>>,
    /// The id of the GPU, and its share of VRAM.
    node: Option<(u32, Arc<Share>)>,
    /// Has left, and does not join again.
    left: bool,
}

/// Memory that a queue cannot run without, by the mask of the GPU's index.
struct Vital {
    pages: Range<u64>,
    users: u32,
}

/// Attributes, and the memory accounted for them.
pub(super) struct State {
    pub(super) attributes: AttributeMap,
    pub(super) charged: UserBytes,
    /// Number of windows.
    pub(super) windows: u64,
    /// Blocks of a window may be unused, see [`Svm::collect`].
    pub(super) stale: bool,
    ended: bool,
}

/// Memory shared between a process and its GPUs.
#[pin_data]
pub(crate) struct Svm {
    mm: ARef<Mm>,
    /// GPUs of the process.
    gpus: usize,
    queues: Arc<dyn Queues>,
    moves: Arc<dyn MoveReport>,
    /// GPUs repeat accesses to memory that is not mapped (XNACK).
    retries: AtomicFlag,
    #[pin]
    pub(super) state: Mutex<State>,
    /// By number. Held for lookups and changes.
    #[pin]
    pub(super) windows: Mutex<RBTree<u64, WindowRef>>,
    /// Held for lookups.
    #[pin]
    members: Mutex<KVec<Member>>,
    /// GPUs that have left, for checks with the lock of a window.
    left: Atomic<u64>,
    /// GPUs whose page tables were lost.
    pub(super) lost: Atomic<u64>,
    /// Taken by MMU notifiers: nothing is allocated under it.
    #[pin]
    vital: Mutex<KVec<Vital>>,
    /// Number of unmaps by the process and changes of attributes.
    changes: Atomic<u64>,
    /// The process has unmapped memory since [`Self::reap`]. Set after the pages are added to their
    /// windows, and cleared before they are taken.
    any_gone: AtomicFlag,
    /// Failed runs of the worker in a row.
    pub(super) failures: Atomic<u64>,
    /// Runs of the worker in a row that left pages that could not be faulted in.
    pub(super) refused_runs: Atomic<u64>,
    /// The worker is scheduled for such pages only.
    pub(super) waits_for_refused: AtomicFlag,
}

/// The side of [`Svm`] that windows and address spaces use.
pub(super) struct Handle(Arc<Delayed<Svm>>);

impl Handle {
    /// Returns that of `svm`.
    pub(super) fn new(svm: &Arc<Delayed<Svm>>) -> Self {
        Self(svm.clone())
    }
}

impl Owner for Handle {
    fn retries(&self) -> bool {
        self.0.retries()
    }

    fn evict(&self) {
        if self.0.queues.evict() {
            Svm::schedule(&self.0);
        }
    }

    fn gone(&self, pages: &Range<u64>) {
        let overlaps =
            |vital: &Vital| vital.pages.start < pages.end && pages.start < vital.pages.end;
        self.0.changes.fetch_add(1, Relaxed);
        // The lock of the window is held: whoever takes it after this was cleared has the pages.
        self.0.any_gone.store(true, ordering::Release);
        // They count for limits that other processes have, too.
        Svm::schedule(&self.0);
        let _no_reclaim = NoReclaim::new();
        if self.0.vital.lock().iter().any(overlaps) {
            self.0.queues.stop();
        }
    }

    fn unmapped(&self, gpus: u64, pages: &Range<u64>, why: UnmapTrigger) {
        self.0.queues.unmapped(gpus, pages, why);
    }
}

impl MirrorOwner for Handle {
    fn lost(&self, gpu: &Gpu) {
        let lost = self.0.members_of(gpu);
        let mut old = self.0.lost.load(Relaxed);
        while let Err(now) = self.0.lost.cmpxchg(old, old | lost, ordering::Full) {
            old = now;
        }
        if lost != 0 {
            Svm::schedule(&self.0);
        }
    }

    fn restored(&self, gpu: &Gpu) {
        let members = self.0.members_of(gpu);
        self.0.for_windows(|window| {
            for index in 0..BLOCKS {
                for member in (0..MAX_GPUS).filter(|member| members >> member & 1 != 0) {
                    let Some(mirror) = Svm::mirror(window, index, member) else {
                        continue;
                    };
                    // Not under the lock of the window, which MMU notifiers take.
                    let claimed = mirror.claimed();
                    let mut state = window.watch().lock();
                    if let Some(map) = state.block(index).and_then(|block| block.map(member)) {
                        map.zap_again(claimed);
                    }
                }
            }
        });
    }
}

impl Svm {
    /// Returns that of a process, which has `gpus` GPUs, with or without retry faults.
    pub(crate) fn new(
        mm: &Mm,
        gpus: usize,
        retries: bool,
        queues: Arc<dyn Queues>,
        moves: Arc<dyn MoveReport>,
    ) -> Result<Arc<Delayed<Self>>> {
        let mut members = KVec::new();
        for _ in 0..gpus {
            members.push(Member::default(), GFP_KERNEL)?;
        }
        let svm = pin_init!(Self {
            mm: mm.into(),
            gpus,
            queues,
            moves,
            retries: AtomicFlag::new(retries),
            state <- new_mutex!(
                State {
                    attributes: AttributeMap::new(),
                    charged: UserBytes::new(),
                    windows: 0,
                    stale: false,
                    ended: false,
                },
                "rkfd_svm"
            ),
            windows <- new_mutex!(RBTree::new(), "rkfd_svm_windows"),
            members <- new_mutex!(members, "rkfd_svm_members"),
            left: Atomic::new(0),
            lost: Atomic::new(0),
            vital <- new_mutex!(KVec::new(), "rkfd_svm_vital"),
            changes: Atomic::new(0),
            any_gone: AtomicFlag::new(false),
            failures: Atomic::new(0),
            refused_runs: Atomic::new(0),
            waits_for_refused: AtomicFlag::new(false),
        });
        Arc::pin_init(Delayed::new(new_delayed_work!("rkfd_svm"), svm), GFP_KERNEL)
    }

    /// Returns the number of GPUs.
    pub(super) fn gpus(&self) -> usize {
        self.gpus
    }

    /// Returns the mask of all GPUs.
    fn all_gpus(&self) -> u64 {
        u64::MAX
            .checked_shr((MAX_GPUS - self.gpus) as u32)
            .unwrap_or(0)
    }

    /// Returns the queues.
    pub(super) fn queues(&self) -> &dyn Queues {
        &*self.queues
    }

    /// Returns the receiver of migrations.
    pub(super) fn moves(&self) -> &Arc<dyn MoveReport> {
        &self.moves
    }

    /// Returns whether GPUs repeat accesses to memory that is not mapped.
    pub(crate) fn retries(&self) -> bool {
        self.retries.load(Relaxed)
    }

    /// Returns how often memory was unmapped or its attributes were changed: a retry fault may be
    /// older than that.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Returns the address space of the process. `ESRCH` if it is being torn down.
    pub(crate) fn user(&self) -> Result<ARef<MmWithUserAsync>> {
        hmm::user_of(&self.mm)
    }

    /// Adds a GPU, by its index in the process, with its id and share of VRAM.
    pub(crate) fn join(
        this: &Arc<Delayed<Self>>,
        gpu: usize,
        (id, share): (u32, &Arc<Share>),
        vm: &Arc<Vm>,
    ) -> Result {
        let handle = Arc::new(Handle::new(this), GFP_KERNEL)?;
        let mut members = this.members.lock();
        let member = members.get_mut(gpu).ok_or(EINVAL)?;
        if member.left {
            return Err(ENODEV);
        }
        if !vm.set_mirror_owner(handle) {
            return Err(EINVAL);
        }
        member.vm = Some(vm.clone());
        member.node = Some((id, share.clone()));
        Ok(())
    }

    /// Removes a GPU on which the process has no queues any more, permanently.
    pub(crate) fn leave(&self, gpu: usize) {
        let mut members = self.members.lock();
        let vm = members.get_mut(gpu).and_then(|member| {
            member.left = true;
            member.vm.take()
        });
        // Changed under this lock only.
        self.left.store(self.left.load(Relaxed) | 1 << gpu, Relaxed);
        drop(members);
        drop(vm);
        // A block that is being mapped checks this under the lock of its window.
        self.for_windows(|window| {
            for index in 0..BLOCKS {
                let map = window.watch().lock().remove_gpu(index, gpu);
                drop(map);
            }
        });
    }

    /// Returns a block of a window on a GPU, if it is there.
    pub(super) fn mirror(window: &WindowRef, index: usize, gpu: usize) -> Option<Arc<Mirror>> {
        let mut state = window.watch().lock();
        let map = state.block(index).and_then(|block| block.map(gpu))?;
        Some(map.mirror().clone())
    }

    /// Returns the mask of the GPUs that have left.
    pub(super) fn left(&self) -> u64 {
        self.left.load(Relaxed)
    }

    /// Returns whether a GPU has left.
    pub(super) fn has_left(&self, gpu: usize) -> bool {
        self.left() >> gpu & 1 != 0
    }

    /// Returns the address space on a GPU.
    pub(super) fn vm(&self, gpu: usize) -> Option<Arc<Vm>> {
        self.members.lock().get(gpu)?.vm.clone()
    }

    /// Returns a GPU as a location of memory; `None` if it has no address space.
    pub(super) fn location_at(&self, index: usize) -> Option<Location> {
        let members = self.members.lock();
        let member = members.get(index)?;
        let (id, share) = member.node.as_ref()?;
        Some(Location {
            index,
            id: *id,
            vm: member.vm.clone()?,
            share: share.clone(),
        })
    }

    /// Returns the GPU with an id as a location of memory; `None` if it has no address space.
    pub(super) fn location(&self, id: u32) -> Option<Location> {
        (0..self.gpus).find_map(|index| self.location_at(index).filter(|at| at.id == id))
    }

    /// Returns whether a GPU has joined.
    pub(crate) fn has(&self, gpu: usize) -> bool {
        self.vm(gpu).is_some()
    }

    /// Returns the mask of the GPUs with an address space.
    pub(super) fn joined(&self) -> u64 {
        let members = self.members.lock();
        let members = members.iter().enumerate();
        members.fold(0, |sum, (gpu, member)| {
            sum | u64::from(member.vm.is_some()) << gpu
        })
    }

    /// Returns the mask of the GPUs with an address space that are not unplugged.
    pub(super) fn present(&self) -> u64 {
        let members = self.members.lock();
        let members = members.iter().enumerate();
        members.fold(0, |sum, (at, member)| {
            let vm = member.vm.as_ref();
            sum | u64::from(vm.is_some_and(|vm| !vm.gpu().is_unplugged())) << at
        })
    }

    /// Returns the mask of the GPUs of a card.
    pub(super) fn members_of(&self, gpu: &Gpu) -> u64 {
        let members = self.members.lock();
        let members = members.iter().enumerate();
        members.fold(0, |sum, (at, member)| {
            let here = member.vm.as_ref().is_some_and(|vm| vm.is_of(gpu));
            sum | u64::from(here) << at
        })
    }

    /// Releases everything when the address space is released. The queues are unmapped.
    pub(crate) fn release(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        state.attributes.clear();
        state.windows = 0;
        // Cannot fail: it becomes less.
        let _ = state.charged.set(0);
        drop(state);
        let windows = core::mem::take(&mut *self.windows.lock());
        drop(windows);
    }

    /// Locks the attributes. `ESRCH` after [`Self::release`].
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        if state.ended {
            return Err(ESRCH);
        }
        Ok(state)
    }

    /// Returns `EFAULT` unless all pages from `first` to below `end` are mapped by the process as
    /// memory, and `EADDRINUSE` if a BO is mapped at one of them on a GPU.
    fn check(&self, mm: &MmapReadGuard<'_>, first: u64, end: u64) -> Result {
        let mut at = usize::try_from(first << PAGE_SHIFT)?;
        let stop = usize::try_from(end << PAGE_SHIFT)?;
        while at < stop {
            let area = mm.vma_lookup(at).ok_or(EFAULT)?;
            if area.flags() & (flags::IO | flags::PFNMAP | flags::MIXEDMAP) != 0 {
                return Err(EFAULT);
            }
            at = area.end();
        }
        let (va, len) = (first << PAGE_SHIFT, (end - first) << PAGE_SHIFT);
        for gpu in 0..self.gpus {
            if self.vm(gpu).is_some_and(|vm| vm.maps(va, len)) {
                return Err(EADDRINUSE);
            }
        }
        Ok(())
    }

    /// Returns the page after the last one. `EINVAL` for no pages, `EOVERFLOW` beyond the end.
    fn end(first: u64, pages: u64) -> Result<u64> {
        if pages == 0 {
            return Err(EINVAL);
        }
        let bytes = pages.checked_mul(1 << PAGE_SHIFT).ok_or(EOVERFLOW)?;
        let end = (first << PAGE_SHIFT).checked_add(bytes);
        Ok(end.ok_or(EOVERFLOW)? >> PAGE_SHIFT)
    }

    /// Removes pages that the process has unmapped from the attributes. `ENOMEM` without memory.
    ///
    /// With the mmap lock held, notifiers of earlier unmaps have run wherever there is memory, and
    /// those of others run meanwhile: munmap() calls them with the lock held for reading.
    fn reap(&self, state: &mut State) -> Result {
        let mut result = Ok(());
        if !self.any_gone.xchg(false, ordering::Full) {
            return result;
        }
        self.for_windows(|window| {
            let window = window.watch();
            if result.is_err() || !window.lock().take_any_gone() {
                return;
            }
            state.stale = true;
            for index in 0..BLOCKS {
                let base = window.first() + (index * BLOCK_PAGES) as u64;
                // A notifier may add pages at any time.
                let gone = window.lock().take_gone(index);
                let removed = gone.runs(|first, end| {
                    let (first, end) = (base + first as u64, base + end as u64);
                    state.attributes.remove(first, end)
                });
                if removed.is_err() {
                    window.lock().add_gone(index, gone);
                }
                result = result.and(removed);
            }
        });
        if result.is_err() {
            self.any_gone.store(true, ordering::Release);
        }
        result
    }

    /// Accounts for the windows, and for the registered memory and `new` bytes more of it if they
    /// are to be present all the time.
    fn charge(&self, state: &mut State, new: u64) -> Result {
        let bytes = if self.retries() {
            0
        } else {
            state.attributes.bytes() + new
        };
        state.charged.set(bytes + state.windows * WINDOW_BYTES)
    }

    /// Removes pages that the process has unmapped, and unused blocks and windows.
    pub(super) fn tidy(&self, state: &mut State, mm: &MmWithUser) -> Result {
        let locked = mm.mmap_read_lock();
        self.reap(state)?;
        drop(locked);
        self.collect(state);
        self.charge(state, 0)
    }

    /// Returns the attributes of pages that are not registered.
    pub(super) fn default(&self) -> Attributes {
        Attributes::new(if self.retries() { self.all_gpus() } else { 0 })
    }

    /// Returns the attributes of `pages` pages from page `first` on. Errors as [`Self::set`].
    pub(crate) fn get(&self, first: u64, pages: u64) -> Result<Summary> {
        let end = Self::end(first, pages)?;
        let mm = self.user()?;
        let mut state = self.state.lock();
        let locked = mm.mmap_read_lock();
        self.check(&locked, first, end)?;
        self.reap(&mut state)?;
        drop(locked);
        self.collect(&mut state);
        self.charge(&mut state, 0)?;
        let ranges = state.attributes.overlapping(first, end);
        let summary = Summary::new(ranges, &self.default());
        Ok(summary)
    }

    /// Changes attributes of `pages` pages from page `first` on, and maps them accordingly.
    ///
    /// `EINVAL` for no pages, or before the process has an address space on a GPU, or on one with
    /// access; `EOVERFLOW` beyond the end of the address space; `EFAULT` if the process does not
    /// map them as memory; `EADDRINUSE` if a BO is mapped there; `ENOMEM` without memory, with
    /// nothing changed. After an error of the mapping (`EFAULT`, `EPERM`, `EAGAIN` if they keep
    /// changing, ...) the attributes are set.
    pub(crate) fn set(
        this: &Arc<Delayed<Self>>,
        first: u64,
        pages: u64,
        changes: &[Change],
    ) -> Result {
        if this.joined() == 0 {
            return Err(EINVAL);
        }
        let end = Self::end(first, pages)?;
        let mm = this.user()?;
        this.changes.fetch_add(1, Relaxed);
        let mut guard = this.lock()?;
        let state: &mut State = &mut guard;
        let mut old = KVVec::new();
        let mut added = Ok(());
        if this.missing_windows(first, end) != 0 {
            // There may be a million of them.
            this.admit(state, &mm.mmap_read_lock(), first, end)?;
            added = Self::add_windows(this, state, &mm, first, end);
        }
        let changed = added.and_then(|()| {
            let locked = mm.mmap_read_lock();
            // After windows were created: they report what is unmapped from here on.
            this.admit(state, &locked, first, end)?;
            let before = state.attributes.overlapping(first, end);
            for range in before {
                old.push(range, GFP_KERNEL)?;
            }
            let attributes = &mut state.attributes;
            attributes.change(first, end, &this.default(), changes)
        });
        if changed.is_err() {
            this.suspect(state, first, end);
        }
        this.collect(state);
        if changed.is_err() {
            // Cannot fail: it becomes less.
            let _ = this.charge(state, 0);
        }
        changed?;
        this.apply(&mm, state, &old, first..end, changes)
    }

    /// Checks pages that are to be registered, and accounts for them. Errors as [`Self::set`].
    fn admit(&self, state: &mut State, mm: &MmapReadGuard<'_>, first: u64, end: u64) -> Result {
        self.check(mm, first, end)?;
        self.reap(state)?;
        let new = (end - first - state.attributes.pages(first, end)) << PAGE_SHIFT;
        self.charge(state, new)
    }

    /// Returns whether any of the pages from `first` to below `end` is registered. `ENOMEM` without
    /// memory.
    pub(crate) fn overlaps(&self, first: u64, end: u64) -> Result<bool> {
        // Not by the list of windows: the mirrors of one that is removed from it are dropped later,
        // under this lock.
        if self.state.lock().windows == 0 {
            return Ok(false);
        }
        let mm = self.user()?;
        let mut state = self.state.lock();
        self.tidy(&mut state, &mm)?;
        Ok(state.attributes.has_any(first, end))
    }

    /// Frees the addresses of pages that the process has unmapped. Errors as [`Self::overlaps`].
    pub(crate) fn free_unmapped(&self) -> Result {
        self.overlaps(0, 0).map(|_| ())
    }

    /// Takes the lock of the attributes, to change [`Self::retries`], and removes pages that the
    /// process has unmapped. `ENOMEM` without memory, `ESRCH` if the process is ending.
    pub(crate) fn lock_retries(&self) -> Result<RetriesGuard<'_>> {
        let mm = self.user()?;
        let mut state = self.lock()?;
        self.tidy(&mut state, &mm)?;
        Ok(RetriesGuard { svm: self, state })
    }

    /// Pins memory that a queue on a GPU cannot run without: if the process unmaps it, the queues
    /// are evicted permanently. `EINVAL` unless all of it is mapped on the GPU and stays mapped.
    pub(crate) fn pin(
        this: &Arc<Delayed<Self>>,
        gpu: usize,
        va: u64,
        bytes: u64,
    ) -> Result<SvmPin> {
        let pages = va >> PAGE_SHIFT..(va >> PAGE_SHIFT) + (bytes >> PAGE_SHIFT);
        loop {
            let no_reclaim = NoReclaim::new();
            let mut vital = this.vital.lock();
            if let Some(known) = vital.iter_mut().find(|vital| vital.pages == pages) {
                known.users += 1;
                break;
            }
            let new = Vital {
                pages: pages.clone(),
                users: 1,
            };
            if vital.push_within_capacity(new).is_ok() {
                break;
            }
            let count = vital.len();
            drop(vital);
            drop(no_reclaim);
            let mut more = KVec::with_capacity(count * 2 + 4, GFP_KERNEL)?;
            let no_reclaim = NoReclaim::new();
            let mut vital = this.vital.lock();
            if more.capacity() > vital.len() {
                for known in vital.drain_all() {
                    more.push_within_capacity(known)?;
                }
                core::mem::swap(&mut *vital, &mut more);
            }
            drop(vital);
            drop(no_reclaim);
            drop(more);
        }
        let pin = SvmPin {
            svm: this.clone(),
            pages,
        };
        // After it is known as vital: it may be unmapped at any time.
        let mut at = pin.pages.start;
        while at < pin.pages.end {
            let window = this.window(at).ok_or(EINVAL)?;
            let offset = (at - window.watch().first()) as usize;
            let first = offset % BLOCK_PAGES;
            let end = ((pin.pages.end - at) as usize + first).min(BLOCK_PAGES);
            let wanted = Pages::range(first, end);
            let mut state = window.watch().lock();
            let block = state.block(offset / BLOCK_PAGES).ok_or(EINVAL)?;
            // Pages that the worker maps again count.
            let shown = block.map(gpu).map(|map| map.valid()).ok_or(EINVAL)?;
            let kept = block.always().and(shown.or(block.invalid()));
            if !wanted.without(kept).is_empty() {
                return Err(EINVAL);
            }
            at += (end - first) as u64;
        }
        Ok(pin)
    }

    /// Calls `f` with each range.
    pub(crate) fn for_ranges(&self, mut f: impl FnMut(&AttributeRange)) {
        let state = self.state.lock();
        state.attributes.all().for_each(|range| f(&range));
    }

    /// Returns the number of pages mapped on a GPU.
    pub(crate) fn mapped_pages(&self, gpu: usize) -> usize {
        let mut sum = 0;
        self.for_windows(|window| {
            let mut state = window.watch().lock();
            let maps = state.blocks().filter_map(|(_, block)| block.map(gpu));
            sum += maps.map(|map| map.valid().count()).sum::<usize>();
        });
        sum
    }
}

/// The lock that is held while [`Svm::retries`] changes.
pub(crate) struct RetriesGuard<'a> {
    svm: &'a Svm,
    state: MutexGuard<'a, State>,
}

impl RetriesGuard<'_> {
    /// Sets whether GPUs repeat accesses to memory that is not mapped. The process has no queues.
    /// `ENOMEM` if the registered memory exceeds the limit.
    pub(crate) fn set(&mut self, retries: bool) -> Result {
        let svm = self.svm;
        svm.retries.store(retries, Relaxed);
        svm.charge(&mut self.state, 0).inspect_err(|_| {
            svm.retries.store(!retries, Relaxed);
        })
    }
}

/// Memory that a queue cannot run without.
pub(crate) struct SvmPin {
    svm: Arc<Delayed<Svm>>,
    pages: Range<u64>,
}

impl Drop for SvmPin {
    fn drop(&mut self) {
        let _no_reclaim = NoReclaim::new();
        let mut vital = self.svm.vital.lock();
        if let Some(at) = vital.iter().position(|vital| vital.pages == self.pages) {
            let last = vital.len() - 1;
            if let Some(known) = vital.get_mut(at) {
                known.users -= 1;
                if known.users == 0 {
                    vital.swap(at, last);
                    let _ = vital.pop();
                }
            }
        }
    }
}
