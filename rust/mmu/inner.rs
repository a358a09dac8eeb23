// SPDX-License-Identifier: GPL-2.0

//! The memory of a BO: its placement, the address spaces that map it, and moves.
//!
//! The reservation ([`Resv`]) guards the placement: it does not change while the reservation is
//! locked. A move zaps the CPU mappings (faults wait for the reservation), waits for the users on
//! the GPU, copies, and updates the PTEs of all address spaces before the old memory is freed.

use core::{ops::Range, ptr};

use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{Atomic, AtomicFlag, Relaxed},
        Arc, Mutex, Refcount, SetOnce,
    },
};

use super::{
    pgtable::Spare,
    placement::{Access, BoFlags, BoKind, CpuCache, KernelAddr, Placement, SystemPages},
    userptr::UserMemory,
};
use crate::{
    card::{account::Reservation, vram::VramUser},
    gpu::{
        dma::{self, Direction},
        lru::QueueUse,
        Gpu,
    },
    hw::PteAttrs,
    kapi::{
        counted::CountedMap,
        dma::Pages,
        fence::Timeout,
        gem::{Frame, RemoteAccess, View},
        resv::{Resv, Usage},
        room::lock_with_room,
    },
    trace,
};

/// Returns whether both are the same object; ignores vtables.
fn same<T: ?Sized>(a: &T, b: &T) -> bool {
    ptr::addr_eq(ptr::from_ref(a), ptr::from_ref(b))
}

/// User queues of a process that access a BO without fences.
pub(crate) trait EvictionHandler: Send + Sync {
    /// Unmaps all user queues of the process, until `bo` is back in VRAM and stays there. Called
    /// before the BO moves, with its reservation locked. Idempotent.
    ///
    /// An error of the queue manager, or `ENOMEM`; the BO stays where it is then.
    fn evict_queues(&self, bo: EvictedBo) -> Result;

    /// The card is being reset: evicted BOs may move back to VRAM again afterwards. Does not sleep
    /// for long.
    fn restore_later(&self);
}

/// Owner of user queues in an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueOwner {
    /// A process, with queues of `/dev/kfd`.
    Process,
    /// A file of the render node.
    File,
}

/// Number of [`QueueOwner`]s.
pub(super) const QUEUE_OWNERS: usize = 2;

/// A BO that was evicted from VRAM.
#[derive(Clone)]
pub(crate) struct EvictedBo(pub(super) Arc<BoInner>);

impl EvictedBo {
    /// Returns a number unique to the BO.
    pub(crate) fn key(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Returns whether the BO was freed.
    pub(crate) fn is_freed(&self) -> bool {
        self.0.is_retired()
    }
}

/// An address space as far as the BOs it maps need it.
pub(super) trait BoMapper: Send + Sync {
    /// Returns the handlers of the user queues in this address space, by [`QueueOwner`].
    fn eviction_handlers(&self) -> [Option<&Arc<dyn EvictionHandler>>; QUEUE_OWNERS];

    /// Zaps the PTEs of the userptr mapping at `va`, without allocation. Complete on return.
    fn zap(&self, va: u64);

    /// Maps other pages of a process at `va`, or none, if `bo` is mapped there, with eviction from
    /// VRAM for page tables. After an error the PTEs are zapped.
    fn map_user(&self, va: u64, bo: &BoInner, placement: &Placement) -> Result;

    /// Allocates the memory that [`BoMapper::update`] needs for a move of `bo` to `to`. `None` if
    /// it is not mapped at `va` any more. `ENOMEM` without memory.
    fn prepare_update(&self, va: u64, bo: &BoInner, to: &Placement) -> Result<Option<Spare>>;

    /// Points the PTEs of `bo` at `va`, if it is mapped there, to its current placement. TLBs are
    /// flushed by [`BoMapper::flush`], which follows.
    fn update(&self, va: u64, bo: &BoInner, spare: Spare) -> Result;

    /// Flushes the TLBs. Updates are visible to the GPU on return.
    fn flush(&self) -> Result;
}

/// Address of a [`BoMapper`], and a VA.
type MappingKey = (usize, u64);

fn mapping_key(space: &dyn BoMapper, va: u64) -> MappingKey {
    (ptr::from_ref(space).addr(), va)
}

/// The pending update of the PTEs of one mapping.
struct PteUpdate {
    space: Arc<dyn BoMapper>,
    va: u64,
    spare: Spare,
}

/// The memory of a BO. An `Arc<BoInner>` is no reference to the BO.
#[pin_data(PinnedDrop)]
pub(super) struct BoInner {
    /// Number of references to the BO: the memory is [retired](Self::retire) with the last one.
    pub(super) refs: Refcount,
    gpu: Arc<Gpu>,
    size: u64,
    flags: BoFlags,
    /// Preferred placement.
    preferred: BoKind,
    resv: Arc<Resv>,
    /// Changes only with `resv` locked; this lock suffices for reading.
    #[pin]
    placement: Mutex<Placement>,
    /// Memory that never moves, for access without a lock.
    fixed: Option<Arc<SystemPages>>,
    /// The user memory of a userptr BO.
    user: Option<Arc<UserMemory>>,
    /// Address spaces that map it, and the VA: a superset.
    #[pin]
    mappings: Mutex<CountedMap<MappingKey, Arc<dyn BoMapper>>>,
    /// CPU mappings.
    view: SetOnce<View>,
    user_of_vram: VramUser,
    /// Returned with the memory, not with the handle, unless that is out of VRAM.
    #[pin]
    reservation: Mutex<Option<Reservation>>,
    /// See [`EvictableBo::stamp`](crate::gpu::lru::EvictableBo::stamp).
    pub(super) stamp: Atomic<u64>,
    in_vram: AtomicFlag,
    retired: AtomicFlag,
}

impl BoInner {
    /// Returns the memory of a BO in `placement`. `ENOMEM` without memory.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        size: u64,
        flags: BoFlags,
        preferred: BoKind,
        placement: Placement,
        reservation: Option<Reservation>,
    ) -> Result<Arc<Self>> {
        Self::with(gpu, size, flags, preferred, placement, reservation, None)
    }

    /// Returns the memory of a userptr BO, without valid pages.
    pub(super) fn of_user(
        gpu: &Arc<Gpu>,
        size: u64,
        flags: BoFlags,
        memory: Arc<UserMemory>,
        reservation: Reservation,
    ) -> Result<Arc<Self>> {
        let (placement, reservation) = (Placement::Nowhere, Some(reservation));
        Self::with(
            gpu,
            size,
            flags,
            BoKind::User,
            placement,
            reservation,
            Some(memory),
        )
    }

    fn with(
        gpu: &Arc<Gpu>,
        size: u64,
        flags: BoFlags,
        preferred: BoKind,
        placement: Placement,
        reservation: Option<Reservation>,
        user: Option<Arc<UserMemory>>,
    ) -> Result<Arc<Self>> {
        let fixed = match &placement {
            Placement::System(system) if preferred == BoKind::Gtt => Some(system.clone()),
            _ => None,
        };
        let in_vram = matches!(placement, Placement::Vram(_));
        Arc::pin_init(
            pin_init!(Self {
                refs: Refcount::new(1),
                gpu: gpu.clone(),
                size,
                flags,
                preferred,
                resv: Resv::new()?,
                placement <- new_mutex!(placement),
                fixed,
                user,
                mappings <- new_mutex!(CountedMap::new()),
                view: SetOnce::new(),
                // Only BOs of processes have one.
                user_of_vram: match reservation {
                    Some(_) => VramUser::Process,
                    None => VramUser::Render,
                },
                reservation <- new_mutex!(reservation),
                stamp: Atomic::new(0),
                in_vram: AtomicFlag::new(in_vram),
                retired: AtomicFlag::new(false),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Returns the device.
    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Returns the size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the allocation flags.
    pub(super) fn flags(&self) -> BoFlags {
        self.flags
    }

    /// Returns the preferred placement.
    pub(super) fn preferred(&self) -> BoKind {
        self.preferred
    }

    /// Returns the reservation.
    pub(super) fn resv(&self) -> &Arc<Resv> {
        &self.resv
    }

    /// Returns the [`VramUser`] to which its VRAM is accounted.
    pub(super) fn vram_user(&self) -> VramUser {
        self.user_of_vram
    }

    /// Returns the pages of a BO that never leaves system memory.
    pub(super) fn fixed(&self) -> Option<&Pages> {
        self.fixed.as_ref().map(|s| s.pages())
    }

    /// Returns the user memory of a userptr BO.
    pub(super) fn user(&self) -> Option<&Arc<UserMemory>> {
        self.user.as_ref()
    }

    /// Returns the eviction handlers of all processes with user queues that map the BO, each once.
    /// `ENOMEM` without memory.
    pub(super) fn eviction_handlers(&self) -> Result<KVVec<Arc<dyn EvictionHandler>>> {
        let (mappings, mut handlers): (_, KVVec<Arc<dyn EvictionHandler>>) = lock_with_room(
            || self.mappings.lock(),
            |mappings| mappings.len() * QUEUE_OWNERS,
        )?;
        let all = mappings.iter().flat_map(|(_, s)| s.eviction_handlers());
        for handler in all.flatten() {
            if !handlers.iter().any(|h| same(&**h, &**handler)) {
                handlers.push_within_capacity(handler.clone())?;
            }
        }
        Ok(handlers)
    }

    /// Returns the user queues that access the BO through its mappings.
    pub(super) fn queue_use(&self) -> QueueUse {
        let mappings = self.mappings.lock();
        let uses = mappings.iter().map(|(_, s)| match s.eviction_handlers() {
            [Some(_), _] if self.vram_user() == VramUser::Process => QueueUse::Processes,
            [Some(_), _] | [None, Some(_)] => QueueUse::Files,
            [None, None] => QueueUse::Unused,
        });
        uses.max().unwrap_or(QueueUse::Unused)
    }

    /// Sets how CPU mappings are zapped. `EEXIST` if it was set before.
    pub(super) fn set_view(&self, view: View) -> Result {
        if self.view.populate(view) {
            Ok(())
        } else {
            Err(EEXIST)
        }
    }

    /// Returns the placement, which does not change while the reservation is locked.
    pub(super) fn placement(&self) -> Placement {
        self.placement.lock().clone()
    }

    /// Returns whether the memory is in VRAM.
    pub(super) fn in_vram(&self) -> bool {
        self.in_vram.load(Relaxed)
    }

    /// Returns whether a piece of the memory is in `range` of VRAM.
    pub(super) fn overlaps(&self, range: &Range<u64>) -> bool {
        match &*self.placement.lock() {
            Placement::Vram(memory) => memory.overlaps(range),
            _ => false,
        }
    }

    /// Marks the BO as freed: its memory is not moved any more.
    pub(super) fn retire(&self) {
        self.retired.store(true, Relaxed);
        if self.preferred == BoKind::Vram && !self.in_vram() {
            let reservation = self.reservation.lock().take();
            drop(reservation);
        }
    }

    /// Returns whether the BO was freed.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Relaxed)
    }

    /// Returns the PTE attributes of a mapping of the memory in `placement`, in an address space of
    /// memory partition `memory`.
    pub(super) fn attrs(
        &self,
        placement: &Placement,
        access: Access,
        memory: Option<u32>,
    ) -> PteAttrs {
        let system = !matches!(placement, Placement::Vram(_));
        PteAttrs {
            system,
            local: !system && self.flags.memory == memory,
            read: access.read,
            write: access.write,
            exec: access.exec,
            uncached: self.flags.uncached,
            mtype: access.mtype,
            ext_coherent: self.flags.ext_coherent,
        }
    }

    /// Returns page `page` of memory in `placement` for CPU mappings, and its caching. `EINVAL`
    /// beyond the end or for user memory, `ENODEV` when the device is unplugged.
    pub(super) fn frame<'a>(
        &self,
        placement: &'a Placement,
        page: usize,
    ) -> Result<(Frame<'a>, CpuCache)> {
        let at = (page * PAGE_SIZE) as u64;
        if at >= self.size {
            return Err(EINVAL);
        }
        // No new mappings of BARs after an unbind.
        if !matches!(placement, Placement::System(_)) {
            self.gpu.check_plugged()?;
        }
        Ok(match placement {
            Placement::System(system) => (system.frame(page)?, CpuCache::Cached),
            Placement::Vram(range) => (
                Frame::of_bar(self.gpu.vram().bar().phys() + range.run(at)?.0),
                CpuCache::WriteCombined,
            ),
            Placement::Doorbell(pages) => (Frame::of_bar(pages.phys() + at), CpuCache::Uncached),
            Placement::MmioRemap => (Frame::of_bar(self.gpu.hdp_remap_phys()), CpuCache::Uncached),
            // The process has mappings of its own.
            Placement::User(_) | Placement::Nowhere => return Err(EINVAL),
        })
    }

    /// Reads or writes the bytes at `at` of memory in `placement`, within one page. `EIO` for other
    /// memory than VRAM and system memory, `EINVAL` beyond the end, `ENODEV` when the device is
    /// unplugged.
    pub(super) fn access(
        &self,
        placement: &Placement,
        at: usize,
        data: &mut RemoteAccess<'_>,
    ) -> Result {
        match placement {
            Placement::System(system) => match data {
                RemoteAccess::Read(to) => system.pages().read(at, to),
                RemoteAccess::Write(from) => system.pages().write(at, from),
            },
            Placement::Vram(range) => {
                // VRAM is allocated by pages.
                let (start, _) = range.run(at as u64)?;
                let (bar, start) = (self.gpu.vram().bar(), usize::try_from(start)?);
                match data {
                    RemoteAccess::Read(to) => bar.read(start, to),
                    RemoteAccess::Write(from) => {
                        bar.write(start, from)?;
                        self.gpu.hub().hdp_flush()
                    }
                }
            }
            _ => Err(EIO),
        }
    }

    /// Returns the address of the first page in VMID 0, valid for the current placement. `EINVAL`
    /// for other memory than VRAM and system memory, `ENOMEM` when the GART is full.
    pub(super) fn kernel_addr(&self) -> Result<KernelAddr> {
        match self.placement() {
            Placement::Vram(range) => Ok(KernelAddr::of_vram(self.gpu.vram_mc(range.start()))),
            Placement::System(system) => system.map_first(),
            _ => Err(EINVAL),
        }
    }

    /// Records that `space` maps the BO at `va`. The caller holds the reservation. `ENOMEM` without
    /// memory.
    pub(super) fn add_mapping(&self, space: Arc<dyn BoMapper>, va: u64) -> Result {
        let key = mapping_key(&*space, va);
        CountedMap::add(&self.mappings, key, space)
    }

    /// Undoes [`Self::add_mapping`].
    pub(super) fn remove_mapping(&self, space: &dyn BoMapper, va: u64) {
        let removed = self.mappings.lock().remove(&mapping_key(space, va));
        drop(removed);
    }

    /// Returns a copy of the list of mappings. `ENOMEM` without memory.
    fn mapped_by(&self) -> Result<KVVec<(Arc<dyn BoMapper>, u64)>> {
        let (mappings, mut spaces) =
            lock_with_room(|| self.mappings.lock(), |mappings| mappings.len())?;
        for ((_, va), space) in mappings.iter() {
            spaces.push_within_capacity((space.clone(), *va))?;
        }
        Ok(spaces)
    }

    /// Prepares the updates of all PTEs for a move to `to`. `ENOMEM` without memory.
    fn prepare_updates(&self, to: &Placement) -> Result<KVVec<PteUpdate>> {
        let mut spaces = self.mapped_by()?;
        // By address space: `update_all` flushes the TLBs of each once.
        spaces.sort_unstable_by_key(|(space, va)| mapping_key(&**space, *va));
        let mut out = KVVec::with_capacity(spaces.len(), GFP_KERNEL)?;
        for (space, va) in spaces {
            if let Some(spare) = space.prepare_update(va, self, to)? {
                out.push(PteUpdate { space, va, spare }, GFP_KERNEL)?;
            }
        }
        Ok(out)
    }

    /// Moves the memory to VRAM or system memory that was allocated for it. The caller holds the
    /// reservation, and no jobs use the memory. After an error, as of [`dma::transfer`], it stays
    /// where it is.
    pub(super) fn relocate(&self, to: Placement) -> Result {
        let from = self.placement();
        let (vram, system, direction) = match (&from, &to) {
            (Placement::Vram(vram), Placement::System(system)) => {
                (vram, system, Direction::ToSystem)
            }
            (Placement::System(system), Placement::Vram(vram)) => (vram, system, Direction::ToVram),
            _ => return Err(EINVAL),
        };
        let updates = self.prepare_updates(&to)?;
        // Before the copy: the drop of system memory zaps too, but that is too late for the data.
        if let Some(view) = self.view.as_ref() {
            view.zap();
        }
        dma::transfer(&self.gpu, vram, system.pages(), self.size, direction)?;
        trace::bo_move(self.gpu.id(), from.name(), to.name(), self.size);
        self.in_vram.store(direction == Direction::ToVram, Relaxed);
        *self.placement.lock() = to;
        if let Err(e) = self.update_all(updates) {
            // PTEs may still point to the old memory, which is about to be freed.
            dev_err!(
                self.gpu.dev(),
                "PTEs of a moved BO were not updated: {e:?}\n"
            );
            self.gpu.wedge("page tables were not updated");
        }
        drop(from);
        Ok(())
    }

    /// Updates the PTEs of all mappings, by address space. Returns the first error.
    fn update_all(&self, updates: KVVec<PteUpdate>) -> Result {
        let mut result = Ok(());
        let mut last: Option<Arc<dyn BoMapper>> = None;
        for PteUpdate { space, va, spare } in updates {
            if let Some(last) = last.as_ref().filter(|last| !Arc::ptr_eq(last, &space)) {
                result = result.and(last.flush());
            }
            result = result.and(space.update(va, self, spare));
            last = Some(space);
        }
        result.and(last.map_or(Ok(()), |last| last.flush()))
    }
}

impl BoInner {
    /// Returns whether the BO is mapped on a GPU.
    pub(super) fn is_mapped(&self) -> bool {
        self.mappings.lock().len() != 0
    }

    /// Zaps all PTEs of a userptr BO. Called from the MMU notifier.
    pub(super) fn zap(&self) {
        for ((_, va), space) in self.mappings.lock().iter() {
            space.zap(*va);
        }
    }

    /// Maps other pages of a process, or none, in all page tables. After an error some PTEs may be
    /// zapped.
    pub(super) fn map_user(&self, to: Placement) -> Result {
        let _held = self.resv.lock();
        let spaces = self.mapped_by()?;
        let from = core::mem::replace(&mut *self.placement.lock(), to.clone());
        let mut result = Ok(());
        for (space, va) in spaces {
            let mapped = space.map_user(va, self, &to);
            result = result.and(mapped);
        }
        drop(from);
        result
    }
}

#[pinned_drop]
impl PinnedDrop for BoInner {
    fn drop(self: Pin<&mut Self>) {
        let memory: Arc<dyn Send + Sync> = match &*self.placement.lock() {
            Placement::Vram(range) => range.clone(),
            Placement::System(system) => system.clone(),
            Placement::User(pages) => pages.clone(),
            Placement::Doorbell(_) | Placement::MmioRemap | Placement::Nowhere => return,
        };
        // It is not mapped any more, but queued jobs may use it.
        match self.resv.fences(Usage::Bookkeep) {
            Ok(fences) if fences.is_empty() => {}
            Ok(fences) => self.gpu.vram().drop_after(memory, fences),
            Err(_) => {
                // No memory for the list of fences: wait for all.
                let _ = self.resv.wait(Usage::Bookkeep, false, Timeout::FOREVER);
            }
        }
    }
}
