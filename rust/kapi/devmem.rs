// SPDX-License-Identifier: GPL-2.0

//! Device memory that processes map as their own, by device-private pages: its `struct page`s, and
//! their callbacks.
//!
//! Such a page stands in the CPU page tables for memory that the CPU cannot access; an access of
//! the CPU calls [`Owner::cpu_fault`], which migrates it to system memory ([`super::migrate`]).
//! `struct page`s are added in chunks when memory is first used this way ([`Region::cover`]), and
//! removed with the region.
//!
//! C headers: [`include/linux/memremap.h`](srctree/include/linux/memremap.h),
//! [`include/linux/hmm.h`](srctree/include/linux/hmm.h)
//!
//! # Examples
//!
//! ```ignore
//! let region = Region::<Migrated>::new()?;
//! region.cover(vram.start(), vram.size())?;
//! let block = Filling::new(Migrated { region, vram })?;
//! // Pages of it are taken by `migrate::ToDevice`. The last one that is freed drops the block.
//! ```

use core::{marker::PhantomData, mem::ManuallyDrop, ops::Deref, ptr, ptr::NonNull};

use kernel::{
    bindings,
    error::from_err_ptr,
    impl_has_work, new_mutex, new_work,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{ordering, Atomic, AtomicFlag, Full, Relaxed},
        Arc, Mutex,
    },
    types::Opaque,
    workqueue::{Work, WorkItem},
};

use super::{
    hmm::{FoundPage, Key},
    module_use::ModuleUse,
    sched::Reaper,
    vma::LockedArea,
};
use crate::bindings as ours;

/// Bytes of a chunk: 4 MiB of `struct page`s.
const CHUNK: u64 = 256 << 20;
/// NUMA node of the `struct page`s: that of the caller.
const NO_NODE: c_int = -1;

/// The owner of device memory that is mapped by processes.
pub(crate) trait Owner: Sized + Send + Sync + 'static {
    /// Handles an access of the CPU to a page of the block: migrates it to system memory. The
    /// process gets `SIGBUS` after an error.
    ///
    /// Called with the mmap lock held, and the page locked.
    fn cpu_fault(this: &Arc<Block<Self>>, fault: &CpuFault<'_>) -> Result;

    /// All pages of the block are free. Called on a work queue.
    fn released(this: &Arc<Block<Self>>);
}

/// An access of the CPU to a device-private page.
pub(crate) struct CpuFault<'a> {
    pub(super) area: LockedArea<'a>,
    pub(super) addr: usize,
    pub(super) page: NonNull<bindings::page>,
}

impl CpuFault<'_> {
    /// Returns the area of the address.
    pub(crate) fn area(&self) -> &LockedArea<'_> {
        &self.area
    }

    /// Returns the address.
    pub(crate) fn addr(&self) -> usize {
        self.addr
    }
}

/// Device memory that is allocated as a whole, and used by pages.
///
/// # Invariants
///
/// `users` is the number of [`Use`]s, one of which is in the [`Filling`] if there is one, plus that
/// of pages with a pointer to the block as their data. While it is not 0 there is a reference to
/// the block that nobody else drops.
#[pin_data]
pub(crate) struct Block<T: Owner> {
    #[pin]
    work: Work<Self>,
    users: Atomic<usize>,
    /// There is a [`Filling`].
    filling: AtomicFlag,
    queue: Reaper,
    item: T,
}

impl_has_work! {
    impl{T: Owner} HasWork<Self> for Block<T> { self.work }
}

impl<T: Owner> Deref for Block<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T: Owner> WorkItem for Block<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        T::released(&this);
    }
}

impl<T: Owner> Block<T> {
    /// Returns whether pages of the block are in use.
    pub(crate) fn is_used(&self) -> bool {
        self.users() != 0
    }

    /// Returns the number of pages of the block that are in use, and of [`Use`]s.
    pub(crate) fn users(&self) -> usize {
        self.users.load(Relaxed)
    }

    /// Returns whether the block gets its pages: they are not to be locked. It does not get any
    /// after that.
    pub(crate) fn is_filling(&self) -> bool {
        self.filling.load(ordering::Acquire)
    }

    /// Returns a use of the block, which is not released before that was dropped. `None` if all
    /// pages are free: others may use its memory.
    pub(crate) fn hold(this: &Arc<Self>) -> Option<Use<T>> {
        let mut users = this.users();
        while users != 0 {
            match this.users.cmpxchg(users, users + 1, Full) {
                // INVARIANT: Added above, while there were others.
                Ok(_) => return Some(Use(this.clone())),
                Err(now) => users = now,
            }
        }
        None
    }

    /// Ends a use. Does not sleep.
    ///
    /// # Safety
    ///
    /// `this` is a block with a use that the caller holds; it is not used after the call.
    unsafe fn put(this: NonNull<Self>) {
        // SAFETY: The block exists by its invariant.
        if unsafe { this.as_ref() }.users.fetch_sub(1, Full) != 1 {
            return;
        }
        // SAFETY: This was the last use: the reference of the users is taken over, once.
        let this = unsafe { Arc::from_raw(this.as_ptr()) };
        // SAFETY: The queue is used to enqueue one item, which holds the object.
        let queue = unsafe { this.queue.queue() };
        // An error would return the reference; the item is queued once.
        let _ = queue.enqueue(this);
    }
}

/// A use of a block.
///
/// # Invariants
///
/// It is one of the users of the block.
pub(crate) struct Use<T: Owner>(Arc<Block<T>>);

impl<T: Owner> Drop for Use<T> {
    fn drop(&mut self) {
        // SAFETY: The use is that of this object by its invariant.
        unsafe { Block::put(NonNull::from(&*self.0)) }
    }
}

/// A block that gets its pages. It is released after this was dropped and all pages are free.
pub(crate) struct Filling<T: Owner>(Use<T>);

impl<T: Owner> Filling<T> {
    /// Returns a block without pages. `ENOMEM` without memory, `ENODEV` when the module is about to
    /// exit.
    pub(crate) fn new(item: T) -> Result<Self> {
        let block = Arc::pin_init(
            try_pin_init!(Block {
                work <- new_work!("rkfd_devmem"),
                users: Atomic::new(1),
                filling: AtomicFlag::new(true),
                queue: Reaper::new()?,
                item,
            }),
            GFP_KERNEL,
        )?;
        // INVARIANT: The reference that is given up here is that of the users, of which the object
        // is the first one.
        let _ = Arc::into_raw(block.clone());
        Ok(Self(Use(block)))
    }
}

impl<T: Owner> Deref for Filling<T> {
    type Target = Arc<Block<T>>;

    fn deref(&self) -> &Arc<Block<T>> {
        &self.0 .0
    }
}

impl<T: Owner> Drop for Filling<T> {
    fn drop(&mut self) {
        // The pages that it has got are not locked any more.
        self.filling.store(false, ordering::Release);
    }
}

/// A page of a region that a walk has found. Unless it was not invalidated since, it may be free,
/// or in use by another block or process.
///
/// # Invariants
///
/// `pfn` is that of a page of a region that exists during `'a`.
pub(crate) struct Located<'a, T: Owner> {
    pfn: c_ulong,
    at: u64,
    _region: PhantomData<&'a Region<T>>,
}

impl<T: Owner> Located<'_, T> {
    /// Returns the offset in the memory.
    pub(crate) fn offset(&self) -> u64 {
        self.at
    }

    /// Returns the result of `f` for the block of the page; `None` if the page is free.
    pub(crate) fn with_block<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        // SAFETY: By the type invariant the PFN is that of a device private page of a chunk that is
        // registered.
        let page = unsafe { ours::rkfd_helper_device_page_get(self.pfn) };
        let page = NonNull::new(page)?;
        // SAFETY: The page is one of the region by the type invariant. It is in use as long as it
        // has the reference.
        let result = unsafe { Region::block_of(page, f) };
        // SAFETY: The reference is that of above, and given up once.
        unsafe { ours::rkfd_helper_put_page(page.as_ptr()) };
        result
    }

    /// Returns whether no other process maps the page: it does not have to be copied before a
    /// write. It stays so until an invalidation.
    pub(crate) fn is_exclusive(&self) -> bool {
        // SAFETY: By the type invariant the PFN is that of a device private page of a chunk that is
        // registered.
        unsafe { ours::rkfd_helper_device_page_is_exclusive(self.pfn) }
    }
}

/// `struct page`s of a part of a region.
///
/// # Invariants
///
/// `map` is registered by `memremap_pages()` with the addresses of `resource`, which this object
/// requested.
struct Chunk {
    /// First byte of the memory.
    base: u64,
    /// PFN of that byte.
    first: c_ulong,
    map: Pin<KBox<Opaque<bindings::dev_pagemap>>>,
    resource: NonNull<bindings::resource>,
    // The operations of the map are part of the module.
    _use: ModuleUse,
}

// SAFETY: The object may be dropped by any task that can sleep.
unsafe impl Send for Chunk {}

impl Chunk {
    const PAGES: c_ulong = (CHUNK / PAGE_SIZE as u64) as c_ulong;

    fn new<T: Owner>(base: u64, key: Key) -> Result<Self> {
        let token = ModuleUse::new()?;
        let map = KBox::pin_init(
            Opaque::ffi_init(|slot: *mut bindings::dev_pagemap| {
                // SAFETY: The slot is memory for the object, for which zeroes are valid.
                unsafe { ptr::write_bytes(slot, 0, 1) }
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The resource tree of memory exists always; the name is static.
        let resource = from_err_ptr(unsafe {
            bindings::request_free_mem_region(
                &raw mut bindings::iomem_resource,
                CHUNK as c_ulong,
                c"rkfd".as_char_ptr(),
            )
        })?;
        let resource = NonNull::new(resource).ok_or(ENOMEM)?;
        let raw = map.get();
        // SAFETY: The resource is this function's. Nobody else uses the map yet.
        let first = unsafe {
            let range = (*raw).__bindgen_anon_1.range.as_mut();
            range.start = (*resource.as_ptr()).start;
            range.end = range.start + CHUNK - 1;
            (*raw).nr_range = 1;
            (*raw).type_ = bindings::memory_type_MEMORY_DEVICE_PRIVATE;
            (*raw).ops = const { &Region::<T>::OPS };
            (*raw).owner = key.0;
            (range.start / PAGE_SIZE as u64) as c_ulong
        };
        // SAFETY: The map has operations, an owner, and a range that is free.
        let mapped = from_err_ptr(unsafe { bindings::memremap_pages(raw, NO_NODE) });
        if let Err(e) = mapped {
            // SAFETY: The resource is not used.
            unsafe { ours::rkfd_helper_release_mem_region(resource.as_ptr()) };
            return Err(e);
        }
        // INVARIANT: Registered above.
        Ok(Self {
            base,
            first,
            map,
            resource,
            _use: token,
        })
    }

    /// Returns the PFN of the page of the memory at `at`; `None` if it is not part of the chunk.
    fn pfn(&self, at: u64) -> Option<c_ulong> {
        let skip = at.checked_sub(self.base).filter(|skip| *skip < CHUNK)?;
        Some(self.first + (skip / PAGE_SIZE as u64) as c_ulong)
    }

    /// Returns the offset in the memory of the page with a PFN; `None` if it is not part of the
    /// chunk.
    fn offset(&self, pfn: c_ulong) -> Option<u64> {
        let skip = pfn
            .checked_sub(self.first)
            .filter(|skip| *skip < Self::PAGES)?;
        Some(self.base + skip as u64 * PAGE_SIZE as u64)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the map is registered, and is removed once. The call waits
        // until the pages are free. Then nothing uses the addresses.
        unsafe {
            bindings::memunmap_pages(self.map.get());
            ours::rkfd_helper_release_mem_region(self.resource.as_ptr());
        }
    }
}

/// Device memory with `struct page`s, as far as they are needed.
///
/// The blocks hold the region: all pages are free when it is dropped.
#[pin_data]
pub(crate) struct Region<T: Owner> {
    /// Held while a chunk is added. Outside of `chunks`.
    #[pin]
    growing: Mutex<()>,
    /// In the order of their memory. A leaf, taken with pages locked. Pages that are taken are
    /// locked under it: nobody else locks them, see [`Block::is_filling`].
    #[pin]
    chunks: Mutex<KVVec<Chunk>>,
    _owner: PhantomData<fn(T)>,
}

impl<T: Owner> Region<T> {
    const OPS: bindings::dev_pagemap_ops = bindings::dev_pagemap_ops {
        folio_free: Some(Self::folio_free),
        migrate_to_ram: Some(Self::migrate_to_ram),
        memory_failure: None,
        folio_split: None,
    };

    /// Returns a region without `struct page`s.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                growing <- new_mutex!((), "rkfd_devmem_growing"),
                chunks <- new_mutex!(KVVec::new(), "rkfd_devmem"),
                _owner: PhantomData,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the owner key of its pages (`dev_pagemap.owner`).
    pub(crate) fn key(&self) -> Key {
        Key(ptr::from_ref(self).cast_mut().cast())
    }

    /// Adds `struct page`s for `len` bytes of the memory from `at` on, unless they have some.
    /// `ENOMEM` without memory, or an error of `memremap_pages()`.
    ///
    /// Takes the lock of memory hotplug, under which pages may be locked: not to be called with
    /// locked pages.
    pub(crate) fn cover(&self, at: u64, len: u64) -> Result {
        let mut base = at / CHUNK * CHUNK;
        while base < at + len {
            let growing = self.growing.lock();
            // Changed under the other lock only.
            let old = self.chunks.lock();
            let index = old.partition_point(|chunk| chunk.base < base);
            let known = old.get(index).is_some_and(|chunk| chunk.base == base);
            let count = old.len();
            drop(old);
            if !known {
                let mut more = KVVec::with_capacity(count + 1, GFP_KERNEL)?;
                let chunk = Chunk::new::<T>(base, self.key())?;
                let mut chunks = self.chunks.lock();
                for chunk in chunks.drain_all() {
                    more.push_within_capacity(chunk)?;
                }
                more.push_within_capacity(chunk)?;
                more[index..].rotate_right(1);
                core::mem::swap(&mut *chunks, &mut more);
                drop(chunks);
                drop(more);
            }
            drop(growing);
            base += CHUNK;
        }
        Ok(())
    }

    /// Returns the first result of `f` other than `None`, and caches that chunk in `last`, which is
    /// tried first. `None` if there is none.
    fn find<'a, R>(
        chunks: &'a [Chunk],
        last: &mut Option<&'a Chunk>,
        f: impl Fn(&Chunk) -> Option<R>,
    ) -> Option<R> {
        if let Some(found) = last.and_then(&f) {
            return Some(found);
        }
        chunks.iter().find_map(|chunk| {
            let found = f(chunk)?;
            *last = Some(chunk);
            Some(found)
        })
    }

    /// Calls `f` with the PFN of the page of the memory at each of `at`. Errors as of `f`, `EINVAL`
    /// for memory without `struct page`s. Chunks are not removed while the region exists.
    pub(super) fn for_pfns(
        &self,
        at: impl Iterator<Item = u64>,
        mut f: impl FnMut(c_ulong) -> Result,
    ) -> Result {
        let chunks = self.chunks.lock();
        let mut last = None;
        for at in at {
            f(Self::find(&chunks, &mut last, |chunk| chunk.pfn(at)).ok_or(EINVAL)?)?;
        }
        Ok(())
    }

    /// Calls `f` with the index of each found page that belongs to the region.
    pub(crate) fn locate(&self, found: &[FoundPage], mut f: impl FnMut(usize, &Located<'_, T>)) {
        let chunks = self.chunks.lock();
        // PFNs below that of the lowest chunk are of system memory.
        let Some(lowest) = chunks.iter().map(|chunk| chunk.first).min() else {
            return;
        };
        let mut last = None;
        for (index, page) in found.iter().enumerate() {
            let pfn = page.pfn();
            if !page.is_some() || pfn < lowest {
                continue;
            }
            if let Some(at) = Self::find(&chunks, &mut last, |chunk| chunk.offset(pfn)) {
                // INVARIANT: The PFN is one of a chunk, which exists as long as the region.
                let located = Located {
                    pfn,
                    at,
                    _region: PhantomData,
                };
                f(index, &located);
            }
        }
    }

    /// Calls `f` with the offset in the memory of the page with each of `pfns`. `EINVAL` for a PFN
    /// that is not one of the region, otherwise errors as of `f`.
    pub(super) fn locate_pfns(
        &self,
        pfns: impl Iterator<Item = c_ulong>,
        mut f: impl FnMut(u64) -> Result,
    ) -> Result {
        let chunks = self.chunks.lock();
        let mut last = None;
        for pfn in pfns {
            f(Self::find(&chunks, &mut last, |chunk| chunk.offset(pfn)).ok_or(EINVAL)?)?;
        }
        Ok(())
    }

    /// Returns the result of `f` for the block of a page; `None` if the page is free.
    ///
    /// # Safety
    ///
    /// The page is one of a region of such blocks, and its use does not end during the call.
    pub(super) unsafe fn block_of<R>(
        page: NonNull<bindings::page>,
        f: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        // SAFETY: The page exists.
        let data = unsafe { ours::rkfd_helper_page_device_data(page.as_ptr()) };
        let block = NonNull::new(data.cast::<Block<T>>())?;
        // SAFETY: The data are a block by the safety requirement, whose user the page is.
        Some(f(unsafe { &block.as_ref().item }))
    }

    /// Takes the page of the memory at each of `at`, locked and with one reference, and calls
    /// `taken` with its number and PFN. Pages in use are left out: those of a block that has given
    /// up its memory. `EINVAL` for memory without `struct page`s; those before it are taken.
    pub(super) fn take(
        &self,
        block: &Filling<T>,
        at: impl Iterator<Item = (usize, u64)>,
        mut taken: impl FnMut(usize, c_ulong),
    ) -> Result {
        // The lock serializes calls for the same page.
        let chunks = self.chunks.lock();
        let mut last = None;
        let data = Arc::as_ptr(&block.0 .0).cast_mut().cast();
        for (index, at) in at {
            let pfn = Self::find(&chunks, &mut last, |chunk| chunk.pfn(at)).ok_or(EINVAL)?;
            // INVARIANT: The block gets a user before the page has it as its data.
            block.users.fetch_add(1, Relaxed);
            // SAFETY: The chunk of the page is registered. Calls are serialized, and the page is
            // taken only if it is free.
            if !unsafe { ours::rkfd_helper_device_page_init(pfn, data) } {
                block.users.fetch_sub(1, Relaxed);
                continue;
            }
            taken(index, pfn);
        }
        Ok(())
    }

    /// # Safety
    ///
    /// Called by the kernel for a page of a chunk with these operations, without references.
    unsafe extern "C" fn folio_free(folio: *mut bindings::folio) {
        // SAFETY: The folio exists. Its data are those of `take()`: pages are allocated by it only.
        let data = unsafe { ours::rkfd_helper_folio_take_device_data(folio) };
        if let Some(block) = NonNull::new(data.cast::<Block<T>>()) {
            // SAFETY: The page holds a use, which ends here: the kernel frees the page once.
            unsafe { Block::put(block) }
        }
    }

    /// # Safety
    ///
    /// Called by the kernel with a fault at a page of a chunk with these operations, which is
    /// locked and has a reference of the caller, and with the mmap lock held.
    unsafe extern "C" fn migrate_to_ram(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
        // SAFETY: The fault exists during the call.
        let (raw, area, addr) = unsafe {
            let at = (*vmf).__bindgen_anon_1;
            ((*vmf).page, at.vma, at.address)
        };
        let Some(page) = NonNull::new(raw) else {
            return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
        };
        // SAFETY: The page exists; it has data, as it has references.
        let data = unsafe { ours::rkfd_helper_page_device_data(raw) };
        if data.is_null() {
            return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
        }
        // SAFETY: The data are a block with users, since the page is not free; the reference is not
        // dropped here.
        let block = ManuallyDrop::new(unsafe { Arc::from_raw(data.cast_const().cast()) });
        let fault = CpuFault {
            // SAFETY: The area exists and the mmap lock is held during the call.
            area: unsafe { LockedArea::from_raw(area) },
            addr,
            page,
        };
        match T::cpu_fault(&block, &fault) {
            Ok(()) => 0,
            Err(_) => bindings::vm_fault_reason_VM_FAULT_SIGBUS,
        }
    }
}
