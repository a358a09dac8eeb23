// SPDX-License-Identifier: GPL-2.0

//! User memory that a device accesses without pinning it (HMM): interval notifiers, and faulting in
//! and mapping the pages of a range.
//!
//! C headers: [`include/linux/hmm.h`](srctree/include/linux/hmm.h),
//! [`include/linux/mmu_notifier.h`](srctree/include/linux/mmu_notifier.h)
//!
//! # Examples
//!
//! ```ignore
//! struct Userptr { state: Mutex<State> }
//!
//! #[vtable]
//! impl hmm::Watch for Userptr {
//!     fn invalidate(&self, what: hmm::Invalidation<'_>) {
//!         let mut state = self.state.lock();
//!         what.mark.set();
//!         state.valid = false;
//!         state.zap_ptes();
//!     }
//! }
//!
//! let interval = hmm::Interval::new(addr, len, userptr)?;
//! let pages = interval.fault(dma)?;
//! let state = interval.watch().state.lock();
//! // If nothing was invalidated since before the fault: use `pages` under the lock.
//! ```

use core::{ops::Range, ptr};

use kernel::{
    bindings,
    error::to_result,
    mm::{Mm, MmWithUser, MmWithUserAsync},
    num::casts::u32_as_usize,
    page::PAGE_SIZE,
    prelude::*,
    sync::{aref::ARef, Arc},
    time::{Instant, Monotonic},
    types::Opaque,
};

use super::{
    dma::{self, DmaRuns, Mapping, PeerMapping, Run, Runs},
    module_use::ModuleUse,
    sched_mm,
    task, //
};
use crate::bindings as ours;

/// Timeout in ms for the walk of a chunk that is repeated because of invalidations.
const FAULT_TIMEOUT_MS: u32 = 1000;
/// Pages of one walk. Faulting pages in may itself invalidate the range (copy-on-write after a
/// fork), and the walk is repeated: it should be short.
const CHUNK: usize = 1 << 9;

/// The page is present; in a request: fault it in.
const PFN_VALID: c_ulong = 1 << ours::HMM_PFN_VALID_BIT;
/// The page is writable; in a request: make it writable.
const PFN_WRITE: c_ulong = 1 << ours::HMM_PFN_WRITE_BIT;
/// A page that has to be waited for; no result of a walk.
const AWAITED: c_ulong = PFN_WRITE | 1;
/// A page that cannot be had; no result of a walk.
const REFUSED: c_ulong = PFN_WRITE | 2;
/// The bits of the PFN.
const PFN_MASK: c_ulong = (1 << ours::HMM_PFN_BITS) - 1;
/// The bits above them: log2 of the pages that the CPU's entry maps (`hmm_pfn_to_map_order()`).
const PFN_ORDER_MASK: c_ulong = 0x1f;

/// Operations of an interval notifier (`struct mmu_interval_notifier_ops`).
#[vtable]
pub(crate) trait Watch: Send + Sync + 'static {
    /// Called before pages of the range change. When this returns the device must not access them
    /// any more.
    ///
    /// Called with locks of the memory management held, and in reclaim: it must not allocate
    /// memory, wait for a thread that does outside of a [`super::sched_mm::NoReclaim`], or access
    /// user memory. The mark must be set under the lock that users of the pages hold.
    fn invalidate(&self, what: Invalidation<'_>);
}

/// Reason of an invalidation (`enum mmu_notifier_event`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The addresses are unmapped, or moved away from by `mremap()`.
    Unmap,
    /// The pages are migrated.
    Migrate,
    /// The address space is torn down.
    Release,
    /// Other changes: the addresses stay mapped.
    Change,
}

/// The argument of [`Watch::invalidate`].
pub(crate) struct Invalidation<'a> {
    /// Addresses, within those of the notifier.
    pub(crate) range: Range<usize>,
    /// Reason of the change.
    pub(crate) reason: Reason,
    /// Marks the range as changed.
    pub(crate) mark: Mark<'a>,
}

/// Marks the range of a notifier as changed.
pub(crate) struct Mark<'a> {
    notifier: &'a Opaque<bindings::mmu_interval_notifier>,
    seq: c_ulong,
}

impl Mark<'_> {
    /// Makes walks that are in progress start again (`mmu_interval_set_seq()`).
    pub(crate) fn set(self) {
        // SAFETY: The value is only made by `invalidate`, from its notifier and sequence number,
        // and does not outlive the call.
        unsafe { ours::rkfd_helper_mmu_interval_set_seq(self.notifier.get(), self.seq) }
    }
}

/// An interval notifier: a range of the memory of a process.
///
/// # Invariants
///
/// The notifier is registered, with `Self::OPS`, from [`Self::new`] to `Drop`, and `start + len`
/// does not overflow.
#[pin_data(PinnedDrop)]
pub(crate) struct Interval<T: Watch> {
    // Field order: `invalidate` may be called before the init of the notifier has returned.
    watch: T,
    start: usize,
    len: usize,
    // Until the notifier is removed the module cannot be unloaded: `OPS` is part of it.
    _use: ModuleUse,
    #[pin]
    notifier: Opaque<bindings::mmu_interval_notifier>,
}

// SAFETY: The notifier may be removed by any task that can sleep; `T` is `Send`.
unsafe impl<T: Watch> Send for Interval<T> {}
// SAFETY: The functions that use the notifier lock or use its sequence count; `T` is `Sync`.
unsafe impl<T: Watch> Sync for Interval<T> {}

impl<T: Watch> Interval<T> {
    const OPS: bindings::mmu_interval_notifier_ops = bindings::mmu_interval_notifier_ops {
        invalidate: Some(Self::invalidate),
        ..pin_init::zeroed()
    };

    /// Registers a notifier for `bytes` bytes at address `first` of the current process, both page
    /// aligned, whether mapped or not. `EOVERFLOW` for a range that wraps, `EFAULT` for one that
    /// ends at the last address, which no process has, `EINVAL` in a kernel thread, `ENOMEM`
    /// without memory, `ENODEV` when the module is about to exit.
    ///
    /// May take the mmap lock for writing.
    pub(crate) fn new(first: usize, bytes: usize, watch: T) -> Result<Arc<Self>> {
        let current = kernel::current!();
        let mm = current.mm().ok_or(EINVAL)?;
        Self::new_in(mm, first, bytes, watch)
    }

    /// As [`Self::new`], for addresses of another process.
    pub(crate) fn new_in(
        mm: &MmWithUser,
        first: usize,
        bytes: usize,
        watch: T,
    ) -> Result<Arc<Self>> {
        let mm = mm.as_raw();
        let last = bytes.checked_sub(1).and_then(|n| first.checked_add(n));
        if last.ok_or(EOVERFLOW)? == usize::MAX {
            return Err(EFAULT);
        }
        // INVARIANT: The end of the range was checked above.
        Arc::pin_init(
            try_pin_init!(Self {
                watch,
                start: first,
                len: bytes,
                _use: ModuleUse::new()?,
                notifier <- Opaque::try_ffi_init(|slot: *mut bindings::mmu_interval_notifier| {
                    // SAFETY: The slot is uninitialized pinned memory. The mm has users by
                    // its type. The fields that `invalidate` reads are initialized
                    // before.
                    unsafe {
                        slot.write(pin_init::zeroed());
                        to_result(bindings::mmu_interval_notifier_insert(
                            slot,
                            mm,
                            first,
                            bytes,
                            const { &Self::OPS },
                        ))
                    }
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Waits until the notifier is called for each invalidation that begins: the kernel does not
    /// call one that was registered during an invalidation until that has ended. The caller holds
    /// neither the mmap lock nor locks of [`Watch::invalidate`].
    pub(crate) fn wait_until_active(&self) {
        // SAFETY: The notifier is registered by the type invariant.
        let _ = unsafe { bindings::mmu_interval_read_begin(self.notifier.get()) };
    }

    /// Returns the operations' data.
    pub(crate) fn watch(&self) -> &T {
        &self.watch
    }

    /// Returns the page numbers of its addresses.
    pub(crate) fn pages(&self) -> Range<u64> {
        let page = |addr: usize| (addr / PAGE_SIZE) as u64;
        page(self.start)..page(self.start + self.len)
    }

    fn mm(&self) -> &Mm {
        // SAFETY: By the type invariant the notifier is registered, so it holds the `mm_struct`.
        unsafe { Mm::from_raw((*self.notifier.get()).mm) }
    }

    /// Reads the qword at byte `at` of the range, without faulting its page in: `EFAULT` if it is
    /// not there. `EINVAL` beyond the range, or unless called by a kernel thread without user
    /// memory, `ESRCH` if the process is exiting.
    pub(crate) fn peek64(&self, at: usize) -> Result<u64> {
        let mut value = 0u64;
        let size = size_of::<u64>();
        if at.checked_add(size).is_none_or(|end| end > self.len) {
            return Err(EINVAL);
        }
        let from = self.start + at;
        let user = user_of(self.mm())?;
        let left = sched_mm::with_memory(&user, || {
            // SAFETY: The buffer has this size, and the function checks the user address.
            unsafe {
                bindings::copy_from_user_nofault(
                    ptr::from_mut(&mut value).cast(),
                    from as *const core::ffi::c_void,
                    size,
                )
            }
        })?;
        if left == 0 {
            Ok(value)
        } else {
            Err(EFAULT)
        }
    }

    /// Faults all pages in for writing, and maps them for `dma`.
    ///
    /// The result is valid if the range was not invalidated since before the call. `EFAULT` if the
    /// range is not mapped, `EPERM` if it is not writable, `EBUSY` if it keeps being invalidated,
    /// `ESRCH` if the process is exiting, `ENOMEM` without memory, `ENODEV` after the unbind. Takes
    /// the mmap lock.
    pub(crate) fn fault(&self, dma: &Arc<dma::Device>) -> Result<Faulted> {
        let user = user_of(self.mm())?;
        let pages = self.len / PAGE_SIZE;
        let mut pfns = KVVec::<c_ulong>::zeroed(pages.min(CHUNK), GFP_KERNEL)?;
        let mut runs = KVVec::new();
        let mut done = 0;
        while done < pages {
            let chunk = pfns.get_mut(..(pages - done).min(CHUNK)).ok_or(EINVAL)?;
            if done != 0 {
                chunk.fill(0);
            }
            self.fault_pages(&user, done, chunk, Wanted::Write, None, false)?;
            append(&mut runs, chunk)?;
            done += chunk.len();
        }
        // SAFETY: The walk found the pages. The notifier stops accesses before they are freed.
        let mapped = Mapped(unsafe { Mapping::new(dma, &runs)? });
        Ok(Faulted { mapped, runs })
    }

    /// Faults the pages of `mm` from page `first` of the range on in, as far as they are `wanted`,
    /// one for each element of `found`. Device-private pages of `owner` are found where they are,
    /// also if they are read-only; others are migrated to system memory.
    ///
    /// In a kernel thread, pages that cannot be found are marked, see [`FoundPage::error`]; for a
    /// user task the first of them is an error, and pages of a userfaultfd are waited for.
    ///
    /// The result is valid if the pages were not invalidated since before the call. `EINVAL` beyond
    /// the range, or if `mm` is not that of the interval, otherwise as [`Self::fault`]. The caller
    /// does not hold the mmap lock.
    pub(crate) fn find_pages(
        &self,
        mm: &MmWithUser,
        first: usize,
        found: &mut [FoundPage],
        wanted: Wanted,
        owner: Option<Key>,
    ) -> Result {
        let is_within = first + found.len() <= self.len / PAGE_SIZE;
        if !is_within || mm.as_raw() != self.mm().as_raw() {
            return Err(EINVAL);
        }
        for (i, chunk) in found.chunks_mut(CHUNK).enumerate() {
            chunk.fill(FoundPage::NONE);
            // SAFETY: The type is transparent, and stands for what the walk fills the array with;
            // requests are left in it by errors only, after which it is cleared.
            let pfns = unsafe { &mut *(ptr::from_mut(chunk) as *mut [c_ulong]) };
            let walked = self.fault_pages(mm, first + i * CHUNK, pfns, wanted, owner, true);
            if walked.is_err() {
                chunk.fill(FoundPage::NONE);
            }
            walked?;
        }
        Ok(())
    }

    /// Walks `pfns.len()` pages from page `first` on, [`CHUNK`] at most. `mm` is that of the
    /// interval.
    ///
    /// A user task waits for pages that another one provides (userfaultfd), until `SIGKILL`. A
    /// kernel thread, which nothing interrupts, does not: `EAGAIN`, or with `marks` such pages are
    /// marked, and those that cannot be had.
    fn fault_pages(
        &self,
        mm: &MmWithUser,
        first: usize,
        pfns: &mut [c_ulong],
        wanted: Wanted,
        owner: Option<Key>,
        marks: bool,
    ) -> Result {
        let start = self.start + first * PAGE_SIZE;
        let wanted = match wanted {
            Wanted::Write => PFN_VALID | PFN_WRITE,
            Wanted::Read => PFN_VALID,
            Wanted::Nothing => 0,
        };
        let mut range = ours::hmm_range {
            notifier: self.notifier.get(),
            start,
            end: start + pfns.len() * PAGE_SIZE,
            hmm_pfns: pfns.as_mut_ptr(),
            default_flags: wanted,
            dev_private_owner: owner.map_or(ptr::null_mut(), |key| key.0),
            ..pin_init::zeroed()
        };
        if task::is_kthread() {
            return self.fault_locked(mm, &mut range, pfns.len(), wanted, marks);
        }
        // SAFETY: The array has an entry for each page of the range, which is part of the
        // notifier's; its mm has users by its type. The timeout is in jiffies.
        let result = unsafe {
            let timeout = bindings::__msecs_to_jiffies(FAULT_TIMEOUT_MS);
            ours::hmm_range_fault_unlocked_timeout(&mut range, timeout)
        };
        to_result(result)
    }

    /// Walks a range of `len` pages with the mmap lock held throughout; see
    /// [`Self::fault_pages`].
    fn fault_locked(
        &self,
        mm: &MmWithUser,
        range: &mut ours::hmm_range,
        len: usize,
        wanted: c_ulong,
        marks: bool,
    ) -> Result {
        let started = Instant::<Monotonic>::now();
        // SAFETY: The array has an entry for each page of the range, which is part of the
        // notifier's. The mmap lock is held at each call below.
        let walk = |range: &mut ours::hmm_range| to_result(unsafe { ours::hmm_range_fault(range) });
        let mut singly = false;
        loop {
            // SAFETY: The notifier is registered by the type invariant.
            range.notifier_seq = unsafe { bindings::mmu_interval_read_begin(range.notifier) };
            let locked = mm.mmap_read_lock();
            // SAFETY: The mm is valid, and its mmap lock held.
            let armed =
                unsafe { ours::rkfd_helper_userfaultfd_armed(mm.as_raw(), range.start, range.end) };
            let mut result = Ok(());
            let mut missing = Missing::default();
            let probed = wanted != 0 && (armed || singly);
            range.default_flags = wanted;
            range.pfn_flags_mask = 0;
            if probed {
                range.default_flags = 0;
                result = walk(range);
                range.pfn_flags_mask = wanted;
                // SAFETY: The array has an entry for each page of the range.
                let pfns = unsafe { core::slice::from_raw_parts_mut(range.hmm_pfns, len) };
                if result.is_ok() {
                    result = self.probe(range.start, pfns, wanted, marks, &mut missing);
                }
            }
            if result.is_ok() {
                result = walk(range);
            }
            drop(locked);
            if result.is_ok() {
                // SAFETY: The array has an entry for each page of the range.
                missing.mark(unsafe { core::slice::from_raw_parts_mut(range.hmm_pfns, len) });
            }
            let refused = result == Err(EFAULT) || result == Err(EPERM);
            if refused && marks && !probed && !singly {
                // One page fails the walk of all.
                singly = true;
                continue;
            }
            let is_late = started.elapsed().as_millis() >= i64::from(FAULT_TIMEOUT_MS);
            if result != Err(EBUSY) || is_late {
                return result;
            }
        }
    }

    /// Replaces the results of a walk that faulted no page in by requests, without pages that
    /// cannot be faulted in without waiting. Adds those to `missing` with `marks`; without, a page
    /// that has to be waited for is `EAGAIN`, and others are left to the walk. The mmap lock is
    /// held.
    ///
    /// Pages in swap or in the page cache have no valid PTE, but are not missing, and those shared
    /// after a fork are not writable, but not protected. A fault in the walk that cannot wait for
    /// the userfaultfd is a warning of the debug kernel.
    fn probe(
        &self,
        start: usize,
        pfns: &mut [c_ulong],
        wanted: c_ulong,
        marks: bool,
        missing: &mut Missing,
    ) -> Result {
        let write = wanted & PFN_WRITE != 0;
        for (page, pfn) in pfns.iter_mut().enumerate() {
            let is_there = *pfn & wanted == wanted;
            *pfn = wanted;
            if is_there {
                continue;
            }
            let addr = start + page * PAGE_SIZE;
            // SAFETY: The mm is valid, and its mmap lock held.
            let count = unsafe { ours::rkfd_helper_fault_nowait(self.mm().as_raw(), addr, write) };
            match count {
                1.. => continue,
                0 if marks => missing.awaited.add(page),
                0 => return Err(EAGAIN),
                _ if !marks => continue,
                // Without memory the page may be there later.
                _ => match to_result(count as c_int) {
                    Err(e) if e == ENOMEM => return Err(e),
                    _ => missing.refused.add(page),
                },
            }
            *pfn = 0;
        }
        Ok(())
    }

    /// # Safety
    ///
    /// Called by the kernel with a notifier that is part of a `Self`.
    unsafe extern "C" fn invalidate(
        notifier: *mut bindings::mmu_interval_notifier,
        range: *const bindings::mmu_notifier_range,
        seq: c_ulong,
    ) -> bool {
        // SAFETY: The kernel passes a range that is valid during the call.
        if !unsafe { ours::rkfd_helper_range_is_blockable(range) } {
            return false;
        }
        let notifier = notifier.cast::<Opaque<bindings::mmu_interval_notifier>>();
        // SAFETY: The notifier is part of a `Self` by the safety requirement. It is not freed
        // before the notifier is removed, which waits for this call.
        let this = unsafe { &*kernel::container_of!(notifier, Self, notifier) };
        // SAFETY: The kernel passes a range that is valid during the call.
        let (start, end, event) = unsafe { ((*range).start, (*range).end, (*range).event) };
        this.watch.invalidate(Invalidation {
            range: start.max(this.start)..end.min(this.start + this.len),
            reason: match event {
                bindings::mmu_notifier_event_MMU_NOTIFY_UNMAP => Reason::Unmap,
                bindings::mmu_notifier_event_MMU_NOTIFY_MIGRATE => Reason::Migrate,
                bindings::mmu_notifier_event_MMU_NOTIFY_RELEASE => Reason::Release,
                _ => Reason::Change,
            },
            mark: Mark {
                notifier: &this.notifier,
                seq,
            },
        });
        true
    }
}

#[pinned_drop]
impl<T: Watch> PinnedDrop for Interval<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant the notifier is registered; it is removed once, here. The
        // function waits for callbacks that run.
        unsafe { bindings::mmu_interval_notifier_remove(self.notifier.get()) }
    }
}

/// Returns a reference that keeps an address space from being torn down. `ESRCH` if that has begun.
/// It is dropped asynchronously (`mmput_async()`): a synchronous last drop would call the notifiers
/// in the context of the caller.
pub(crate) fn user_of(mm: &Mm) -> Result<ARef<MmWithUserAsync>> {
    let user = mm.mmget_not_zero().ok_or(ESRCH)?;
    Ok(MmWithUser::into_mmput_async(user))
}

/// Identifies the owner of device-private pages; only compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(pub(super) *mut core::ffi::c_void);

/// Access that the pages of a walk have to permit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Writing.
    Write,
    /// Reading.
    Read,
    /// None: pages are not faulted in.
    Nothing,
}

/// Pages of one walk.
#[derive(Default)]
struct Chunk([u64; CHUNK / 64]);

impl Chunk {
    fn add(&mut self, page: usize) {
        if let Some(word) = self.0.get_mut(page / 64) {
            *word |= 1 << (page % 64);
        }
    }

    /// Replaces the results of the pages by `mark`.
    fn mark(&self, pfns: &mut [c_ulong], mark: c_ulong) {
        let words = pfns.chunks_mut(64).zip(self.0);
        for (pfns, word) in words.filter(|(_, word)| *word != 0) {
            for (at, pfn) in pfns.iter_mut().enumerate() {
                if word >> at & 1 != 0 {
                    *pfn = mark;
                }
            }
        }
    }
}

/// Pages that a walk leaves out.
#[derive(Default)]
struct Missing {
    /// They have to be waited for.
    awaited: Chunk,
    /// They cannot be had.
    refused: Chunk,
}

impl Missing {
    /// Replaces the results of the pages by marks.
    fn mark(&self, pfns: &mut [c_ulong]) {
        self.awaited.mark(pfns, AWAITED);
        self.refused.mark(pfns, REFUSED);
    }
}

/// A page that [`Interval::find_pages`] found, or none.
#[derive(Clone, Copy, Default, Zeroable)]
#[repr(transparent)]
pub(crate) struct FoundPage(c_ulong);

impl FoundPage {
    /// No page.
    pub(crate) const NONE: Self = Self(0);

    /// Returns whether there is a page.
    pub(crate) fn is_some(self) -> bool {
        self.0 & PFN_VALID != 0
    }

    /// Returns whether the page may be written to.
    pub(crate) fn is_writable(self) -> bool {
        self.is_some() && self.0 & PFN_WRITE != 0
    }

    /// Marks the writable ones of `found` pages as dirty, as far as they are in system memory, and
    /// anonymous or of shmem: the kernel drops clean ones when it reclaims memory, and writes of
    /// devices are not recorded in PTEs of the CPU.
    ///
    /// To be called before a device may write to them, with the lock held that the [`Watch`] takes,
    /// if they were not invalidated since before they were found.
    pub(crate) fn mark_dirty<'a>(found: impl Iterator<Item = &'a Self>) {
        let mut last: Option<Run> = None;
        for page in found.filter(|page| page.is_writable()) {
            match &mut last {
                Some(run) if page.addr() == run.addr_of(u32_as_usize(run.count)) => run.count += 1,
                _ => {
                    let run = Run {
                        first: 0,
                        count: 1,
                        addr: page.addr(),
                    };
                    mark_dirty(last.replace(run).as_slice());
                }
            }
        }
        mark_dirty(last.as_slice());
    }

    /// Returns why a kernel thread did not find the page: `EAGAIN` if it has to be waited for,
    /// `EFAULT` if it cannot be had.
    pub(crate) fn error(self) -> Option<Error> {
        match self.0 {
            AWAITED => Some(EAGAIN),
            REFUSED => Some(EFAULT),
            _ => None,
        }
    }

    /// Returns the physical address.
    fn addr(self) -> u64 {
        (self.pfn() * PAGE_SIZE) as u64
    }

    /// Returns the PFN.
    pub(super) fn pfn(self) -> c_ulong {
        self.0 & PFN_MASK
    }
}

/// Pages of a process, mapped for a device in both directions until the unbind. The pages are not
/// pinned.
pub(crate) struct Mapped(Mapping);

impl Mapped {
    /// Returns that of a mapping.
    pub(super) fn from_mapping(mapping: Mapping) -> Self {
        Self(mapping)
    }

    /// Maps pages that an interval's [`find_pages`](Interval::find_pages) found, without those that
    /// are none, for `dma`. The interval exists as long as the result, and its [`Watch`] stops
    /// accesses. `ENOMEM` without memory, `ENODEV` after the unbind.
    pub(crate) fn new<'a>(
        dma: &Arc<dma::Device>,
        found: impl Iterator<Item = &'a FoundPage>,
    ) -> Result<Self> {
        let mut runs = KVVec::new();
        for page in found.filter(|page| page.is_some()) {
            append(&mut runs, core::slice::from_ref(&page.0))?;
        }
        // SAFETY: The walk found the pages. The notifier stops accesses before they are freed.
        unsafe { Mapping::new(dma, &runs) }.map(Self)
    }
}

impl Runs for Mapped {
    fn dma_run(&self, page: usize) -> Result<(u64, usize)> {
        self.0.dma_run(page)
    }

    fn dma_runs(&self, pages: Range<usize>) -> Result<DmaRuns<'_>> {
        self.0.dma_runs(pages)
    }
}

/// Pages that [`Interval::fault`] found, mapped for a device as [`Mapped`], and to be mapped for
/// others.
pub(crate) struct Faulted {
    mapped: Mapped,
    /// At physical addresses.
    runs: KVVec<Run>,
}

impl Faulted {
    /// Maps the pages for another device, too. As those of this object they may have been freed
    /// since: the caller checks for invalidations before it uses the result. Errors as those of
    /// [`Interval::fault`].
    pub(crate) fn map_for(&self, device: &Arc<dma::Device>) -> Result<PeerMapping> {
        // SAFETY: The walk found the pages, and a `struct page` outlives the use of its page. The
        // notifier stops accesses before they are freed.
        let mapping = unsafe { Mapping::new(device, &self.runs)? };
        Ok(PeerMapping::new(mapping, None))
    }

    /// Marks the pages as dirty, see [`FoundPage::mark_dirty`].
    pub(crate) fn mark_dirty(&self) {
        mark_dirty(&self.runs);
    }
}

impl Runs for Faulted {
    fn dma_run(&self, page: usize) -> Result<(u64, usize)> {
        self.mapped.dma_run(page)
    }

    fn dma_runs(&self, pages: Range<usize>) -> Result<DmaRuns<'_>> {
        self.mapped.dma_runs(pages)
    }
}

/// Marks pages that a walk found as dirty, see [`FoundPage::mark_dirty`].
fn mark_dirty(runs: &[Run]) {
    // SAFETY: The runs exist. The function takes a reference to each page that is in use, whoever
    // uses it.
    unsafe { ours::rkfd_helper_mark_dirty(runs.as_ptr(), runs.len()) }
}

/// Appends the pages of `pfns` to `runs`. `EFAULT` if a page is not present, `ENOMEM` without
/// memory.
fn append(runs: &mut KVVec<Run>, pfns: &[c_ulong]) -> Result {
    let mut first = runs.last().map_or(0, |last| last.first + last.count);
    let mut rest = pfns;
    while let Some(pfn) = rest.first() {
        if pfn & PFN_VALID == 0 {
            return Err(EFAULT);
        }
        // An entry of the CPU maps pages that follow each other, aligned to their number: those
        // behind the first one need no look.
        let mapped = 1 << (pfn >> ours::HMM_PFN_BITS & PFN_ORDER_MASK);
        let pfn = pfn & PFN_MASK;
        let len = (mapped - (pfn & (mapped - 1))).min(rest.len());
        let count = len as u32;
        let end = first.checked_add(count).ok_or(ENOMEM)?;
        let addr = (pfn * PAGE_SIZE) as u64;
        match runs.last_mut() {
            Some(last) if last.addr_of(u32_as_usize(last.count)) == addr => last.count += count,
            _ => {
                if runs.len() == runs.capacity() {
                    // For all that follow, if these are single pages.
                    let more = if mapped == 1 { rest.len() } else { 1 };
                    runs.reserve(more, GFP_KERNEL)?;
                }
                runs.push_within_capacity(Run { first, count, addr })?;
            }
        }
        first = end;
        rest = &rest[len..];
    }
    Ok(())
}
