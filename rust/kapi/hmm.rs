// SPDX-License-Identifier: GPL-2.0

//! Memory of a process that a device sees without pinning it.
//!
//! The kernel tells when pages of a range are about to change ([`Interval`]); they are found, and brought
//! in if need be, by walking the process's page tables ([`Interval::fault`]).

use kernel::{
    bindings, device,
    error::to_result,
    mm::Mm,
    page::PAGE_SIZE,
    prelude::*,
    sync::{aref::ARef, Arc},
    types::Opaque,
};

use super::raw_device;
use crate::bindings as ours;

/// How long a chunk may change again and again while it is looked at, in milliseconds.
const FAULT_TIMEOUT_MS: u32 = 1000;
/// Pages that are looked up at a time. To bring some in may itself change what others see (after a
/// fork each write makes a copy), then the walk begins anew: it should not be long.
const CHUNK: usize = 1 << 9;

/// The page is there; asked for: it shall be.
const PFN_VALID: c_ulong = 1 << ours::HMM_PFN_VALID_BIT;
/// The page may be written; asked for: it shall be possible.
const PFN_WRITE: c_ulong = 1 << ours::HMM_PFN_WRITE_BIT;
/// What is the number of the page.
const PFN_MASK: c_ulong = (1 << ours::HMM_PFN_BITS) - 1;

/// Who watches a range.
pub(crate) trait Watch: Send + Sync + 'static {
    /// Pages of the range are about to change. When this returns the device must not access them any more.
    ///
    /// Runs with locks of the memory management held, and when memory is short: it must not allocate
    /// memory, nor wait for whoever does without a [`super::task::NoReclaim`], nor touch user memory.
    /// `mark` has to be called under the lock that those take who rely on the pages.
    fn invalidate(&self, mark: Mark<'_>);
}

/// Lets those who look at the range know that it changes.
pub(crate) struct Mark<'a> {
    notifier: &'a Opaque<bindings::mmu_interval_notifier>,
    seq: c_ulong,
}

impl Mark<'_> {
    /// Does it.
    pub(crate) fn set(self) {
        // SAFETY: The notifier is the one that is being called with this number.
        unsafe { ours::rkfd_helper_mmu_interval_set_seq(self.notifier.get(), self.seq) }
    }
}

/// A range of the memory of a process that is watched.
///
/// # Invariants
///
/// The notifier is in the kernel's tree, with `Self::OPS`, from its making to [`Drop`].
#[pin_data(PinnedDrop)]
pub(crate) struct Interval<T: Watch> {
    // Field order: the notifier may be called before its making has returned.
    watch: T,
    start: usize,
    len: usize,
    #[pin]
    notifier: Opaque<bindings::mmu_interval_notifier>,
}

// SAFETY: The notifier is used by functions that any task may call.
unsafe impl<T: Watch> Send for Interval<T> {}
// SAFETY: As above; they synchronize.
unsafe impl<T: Watch> Sync for Interval<T> {}

impl<T: Watch> Interval<T> {
    const OPS: bindings::mmu_interval_notifier_ops = bindings::mmu_interval_notifier_ops {
        invalidate: Some(Self::invalidate),
        ..pin_init::zeroed()
    };

    /// Watches the `bytes` at `first`, both whole pages, of the current process. `EOVERFLOW` if there
    /// are no such addresses; what is mapped there does not matter.
    ///
    /// May take the mmap lock for writing.
    pub(crate) fn new(first: usize, bytes: usize, watch: T) -> Result<Arc<Self>> {
        let mm = kernel::current!().mm().ok_or(EINVAL)?.as_raw();
        Arc::pin_init(
            try_pin_init!(Self {
                watch,
                start: first,
                len: bytes,
                notifier <- Opaque::try_ffi_init(|slot: *mut bindings::mmu_interval_notifier| {
                    // SAFETY: The slot is pinned memory that is not used otherwise; the mm has users: it is that
                    // of the current task. The fields that `invalidate` looks at are initialized.
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

    /// Who watches.
    pub(crate) fn watch(&self) -> &T {
        &self.watch
    }

    fn mm(&self) -> &Mm {
        // SAFETY: By the type invariant the notifier holds the mm.
        unsafe { Mm::from_raw((*self.notifier.get()).mm) }
    }

    /// Brings all pages in, as a write of the CPU would, and maps them for `dev`.
    ///
    /// They are what the process has if nothing was invalidated since before the call. `EFAULT` if there is
    /// no memory, `EPERM` if it may not be written, `EBUSY` if it does not hold still, `ESRCH` if the
    /// process is ending. Takes the mmap lock; touches user memory.
    pub(crate) fn fault(&self, dev: &device::Device) -> Result<Mapped> {
        super::dma::check_mask(dev)?;
        let user = self.mm().mmget_not_zero().ok_or(ESRCH)?;
        // The last user's end would call us: not from here.
        let _user = kernel::mm::MmWithUser::into_mmput_async(user);
        let pages = self.len / PAGE_SIZE;
        let mut pfns = KVVec::with_capacity(pages.min(CHUNK), GFP_KERNEL)?;
        let mut mapped = Mapped::new(dev);
        let mut done = 0;
        while done < pages {
            let count = (pages - done).min(CHUNK);
            pfns.clear();
            for _ in 0..count {
                pfns.push_within_capacity(0)?;
            }
            self.fault_pages(done, &mut pfns)?;
            mapped.append(&pfns)?;
            done += count;
        }
        mapped.finish()?;
        Ok(mapped)
    }

    /// Looks up so many pages as there is room for, from page `first` on.
    fn fault_pages(&self, first: usize, pfns: &mut [c_ulong]) -> Result {
        let start = self.start + first * PAGE_SIZE;
        let mut range = ours::hmm_range {
            notifier: self.notifier.get(),
            start,
            end: start + pfns.len() * PAGE_SIZE,
            hmm_pfns: pfns.as_mut_ptr(),
            default_flags: PFN_VALID | PFN_WRITE,
            ..pin_init::zeroed()
        };
        // SAFETY: Waits are in jiffies; there is room for all pages of the range, which is watched by the
        // notifier, whose mm has a user: the caller.
        let result = unsafe {
            let timeout = bindings::__msecs_to_jiffies(FAULT_TIMEOUT_MS);
            ours::hmm_range_fault_unlocked_timeout(&mut range, timeout)
        };
        to_result(result)
    }

    /// # Safety
    ///
    /// Called by the kernel with a notifier that is part of a `Self`.
    unsafe extern "C" fn invalidate(
        notifier: *mut bindings::mmu_interval_notifier,
        range: *const bindings::mmu_notifier_range,
        seq: c_ulong,
    ) -> bool {
        // SAFETY: The kernel passes a valid range.
        if !unsafe { ours::rkfd_helper_range_is_blockable(range) } {
            return false;
        }
        let notifier = notifier.cast::<Opaque<bindings::mmu_interval_notifier>>();
        // SAFETY: By the caller it is part of a `Self`, which is not freed before it is removed, which waits
        // for this call.
        let this = unsafe { &*kernel::container_of!(notifier, Self, notifier) };
        this.watch.invalidate(Mark {
            notifier: &this.notifier,
            seq,
        });
        true
    }
}

#[pinned_drop]
impl<T: Watch> PinnedDrop for Interval<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant it is in the tree. This waits for calls that run.
        unsafe { bindings::mmu_interval_notifier_remove(self.notifier.get()) }
    }
}

/// Pages that follow each other in memory, mapped for a device.
struct Run {
    first: usize,
    count: usize,
    dma: u64,
}

/// Pages of a process, mapped for a device in both directions. They are not kept from going.
///
/// # Invariants
///
/// Every run is mapped for `dev`; the runs together hold the pages from 0 to `pages`, in order.
pub(crate) struct Mapped {
    dev: ARef<device::Device>,
    runs: KVVec<Run>,
    pages: usize,
    /// Pages at the end that are not mapped yet: the first, and how many follow.
    pending: Option<(c_ulong, usize)>,
}

// SAFETY: Mappings can be used and undone by any task.
unsafe impl Send for Mapped {}
// SAFETY: A shared reference only reads addresses.
unsafe impl Sync for Mapped {}

/// Pages of a run at most: 1 GiB.
const MAX_RUN: usize = 1 << 18;

impl Mapped {
    fn new(dev: &device::Device) -> Self {
        Self {
            dev: dev.into(),
            runs: KVVec::new(),
            pages: 0,
            pending: None,
        }
    }

    fn append(&mut self, pfns: &[c_ulong]) -> Result {
        for pfn in pfns {
            if pfn & PFN_VALID == 0 {
                return Err(EFAULT);
            }
            let pfn = pfn & PFN_MASK;
            match &mut self.pending {
                Some((first, count)) if *first + *count == pfn && *count < MAX_RUN => *count += 1,
                _ => {
                    self.finish()?;
                    self.pending = Some((pfn, 1));
                }
            }
        }
        Ok(())
    }

    /// Maps what is pending.
    fn finish(&mut self) -> Result {
        let Some((pfn, count)) = self.pending.take() else {
            return Ok(());
        };
        self.runs.reserve(1, GFP_KERNEL)?;
        // SAFETY: The device is valid, the pages are memory that the walk has found.
        let dma = unsafe {
            bindings::dma_map_page_attrs(
                raw_device(&self.dev),
                ours::rkfd_helper_hmm_pfn_to_page(pfn),
                0,
                count * PAGE_SIZE,
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                0,
            )
        };
        // SAFETY: The device is valid; `dma` is what was returned for it.
        if unsafe { ours::rkfd_helper_dma_mapping_error(raw_device(&self.dev), dma) } {
            return Err(ENOMEM);
        }
        let first = self.pages;
        self.runs.push_within_capacity(Run { first, count, dma })?;
        self.pages += count;
        Ok(())
    }

    /// The device address of page `page` and how many pages follow it (itself included) contiguously.
    pub(crate) fn dma_run(&self, page: usize) -> Result<(u64, usize)> {
        let at = self.runs.partition_point(|run| run.first <= page);
        let run = at.checked_sub(1).and_then(|at| self.runs.get(at));
        let run = run.filter(|_| page < self.pages).ok_or(EINVAL)?;
        let skip = page - run.first;
        Ok((run.dma + (skip * PAGE_SIZE) as u64, run.count - skip))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        for run in &self.runs {
            // SAFETY: By the type invariant the run is mapped.
            unsafe {
                bindings::dma_unmap_page_attrs(
                    raw_device(&self.dev),
                    run.dma,
                    run.count * PAGE_SIZE,
                    bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                    0,
                )
            };
        }
    }
}
