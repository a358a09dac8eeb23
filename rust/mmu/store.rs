// SPDX-License-Identifier: GPL-2.0

//! The memory of a buffer object: where it is, who maps it, and how it moves.
//!
//! The lock of the reservation ([`Resv`]) guards where the memory is. Whoever holds it may rely on
//! the place; who moves the memory holds it throughout. A move takes the CPU's mappings away first
//! (who touches them waits for the lock in the fault handler), waits for the GPU's users, copies,
//! and points the page tables of all address spaces to the new place, before the old one is given
//! back.

use core::any::Any;

use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{Atomic, AtomicFlag, Relaxed},
        Arc, Mutex, SetOnce,
    },
};

use super::{
    bo::{BoFlags, BoKind, CpuCache},
    evict::{self, Owner},
    user::{UserMemory, UserPages},
    vm::{Access, Follow, Space},
};
use crate::{
    doorbell::Slice,
    gpu::{account::Reservation, dma, gart::Window, memory::VramRange, Gpu},
    hw::PteAttrs,
    kapi::{
        dma::Pages,
        fence::Timeout,
        gem::View,
        resv::{Resv, Usage},
        task::NoReclaim,
    },
    trace,
};

/// System memory of a buffer, counted as such.
pub(super) struct System {
    // Field order: the window goes before the memory.
    window: SetOnce<Window>,
    pages: Pages,
    gpu: Arc<Gpu>,
    bytes: u64,
}

impl System {
    /// Allocates `bytes` of zeroed system memory.
    pub(super) fn new(gpu: &Arc<Gpu>, bytes: u64) -> Result<Arc<Self>> {
        gpu.take_gtt(bytes)?;
        let pages = usize::try_from(bytes)
            .map_err(Error::from)
            .and_then(|bytes| Pages::new(gpu.dev(), bytes))
            .inspect_err(|_| gpu.gtt_given_back(bytes))?;
        let system = Self {
            window: SetOnce::new(),
            pages,
            gpu: gpu.clone(),
            bytes,
        };
        Ok(Arc::new(system, GFP_KERNEL)?)
    }

    /// The pages.
    pub(super) fn pages(&self) -> &Pages {
        &self.pages
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.gpu.gtt_given_back(self.bytes);
    }
}

/// Where the memory is.
#[derive(Clone)]
pub(super) enum Place {
    Vram(Arc<VramRange>),
    System(Arc<System>),
    Doorbell(Arc<Slice>),
    MmioRemap,
    /// Pages of a process.
    User(Arc<UserPages>),
    /// Pages of a process that are not known.
    Nowhere,
}

impl Place {
    /// For the trace.
    fn name(&self) -> &'static CStr {
        match self {
            Self::Vram(_) => c"VRAM",
            Self::System(_) => c"GTT",
            Self::Doorbell(_) | Self::MmioRemap => c"registers",
            Self::User(_) | Self::Nowhere => c"user",
        }
    }

    /// The address that page tables of `gpu`, whose memory this is, use for byte `at`, and how
    /// many bytes follow in one piece.
    pub(super) fn run(&self, gpu: &Gpu, at: u64) -> Result<(u64, u64)> {
        Ok(match self {
            Self::Vram(range) => {
                let (offset, len) = range.run(at)?;
                (gpu.vram_pa(offset), len)
            }
            Self::System(system) => {
                let (dma, count) = system.pages.dma_run(usize::try_from(at)? / PAGE_SIZE)?;
                (dma, (count * PAGE_SIZE) as u64)
            }
            Self::Doorbell(slice) => (slice.phys() + at, (slice.size() as u64).saturating_sub(at)),
            Self::MmioRemap => (gpu.hdp_remap_phys() + at, PAGE_SIZE as u64 - at),
            Self::User(pages) => {
                let (dma, count) = pages.dma_run(usize::try_from(at)? / PAGE_SIZE)?;
                (dma, (count * PAGE_SIZE) as u64)
            }
            Self::Nowhere => return Err(EFAULT),
        })
    }
}

/// The memory of a buffer object.
#[pin_data(PinnedDrop)]
pub(super) struct Store {
    gpu: Arc<Gpu>,
    size: u64,
    flags: BoFlags,
    /// Where the owner wants it.
    preferred: BoKind,
    resv: Arc<Resv>,
    /// Changes under the lock of `resv` only; this lock is for those who just look.
    #[pin]
    place: Mutex<Place>,
    /// Memory that never moves, for those who cannot take a lock.
    fixed: Option<Arc<System>>,
    /// The pages of a process that it shows.
    user: Option<Arc<UserMemory>>,
    /// Who maps it and where: at least all who do.
    #[pin]
    mappings: Mutex<KVVec<(Arc<Space>, u64)>>,
    /// The CPU's mappings.
    view: SetOnce<View>,
    /// What was set aside for it. Lives as long as the memory, whoever shares that.
    _reservation: Option<Reservation>,
    /// When it was used last, see [`super::evict::Evictable`].
    pub(super) stamp: Atomic<u64>,
    in_vram: AtomicFlag,
    retired: AtomicFlag,
}

impl Store {
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        size: u64,
        flags: BoFlags,
        preferred: BoKind,
        place: Place,
        reservation: Option<Reservation>,
    ) -> Result<Arc<Self>> {
        Self::with(gpu, size, flags, preferred, place, reservation, None)
    }

    /// The memory of a buffer that shows user memory.
    pub(super) fn of_user(
        gpu: &Arc<Gpu>,
        size: u64,
        flags: BoFlags,
        memory: Arc<UserMemory>,
        reservation: Reservation,
    ) -> Result<Arc<Self>> {
        let (place, reservation) = (Place::Nowhere, Some(reservation));
        Self::with(
            gpu,
            size,
            flags,
            BoKind::User,
            place,
            reservation,
            Some(memory),
        )
    }

    fn with(
        gpu: &Arc<Gpu>,
        size: u64,
        flags: BoFlags,
        preferred: BoKind,
        place: Place,
        reservation: Option<Reservation>,
        user: Option<Arc<UserMemory>>,
    ) -> Result<Arc<Self>> {
        let fixed = match &place {
            Place::System(system) if preferred == BoKind::Gtt => Some(system.clone()),
            _ => None,
        };
        let in_vram = matches!(place, Place::Vram(_));
        Arc::pin_init(
            pin_init!(Self {
                gpu: gpu.clone(),
                size,
                flags,
                preferred,
                resv: Resv::new()?,
                place <- new_mutex!(place),
                fixed,
                user,
                mappings <- new_mutex!(KVVec::new()),
                view: SetOnce::new(),
                _reservation: reservation,
                stamp: Atomic::new(0),
                in_vram: AtomicFlag::new(in_vram),
                retired: AtomicFlag::new(false),
            }? Error),
            GFP_KERNEL,
        )
    }

    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn flags(&self) -> BoFlags {
        self.flags
    }

    pub(super) fn preferred(&self) -> BoKind {
        self.preferred
    }

    pub(super) fn resv(&self) -> &Arc<Resv> {
        &self.resv
    }

    pub(super) fn fixed(&self) -> Option<&Pages> {
        self.fixed.as_ref().map(|s| s.pages())
    }

    /// The user memory that it shows.
    pub(super) fn user(&self) -> Option<&Arc<UserMemory>> {
        self.user.as_ref()
    }

    /// A process whose queues run without asking maps it.
    pub(super) fn is_owned(&self) -> bool {
        self.mappings
            .lock()
            .iter()
            .any(|(s, _)| s.owner().is_some())
    }

    /// Those processes, each once.
    pub(super) fn owners(&self) -> Result<KVVec<Arc<dyn Owner>>> {
        let mut owners: KVVec<Arc<dyn Owner>> = KVVec::new();
        loop {
            let mappings = self.mappings.lock();
            if owners.capacity() < mappings.len() {
                let len = mappings.len();
                drop(mappings);
                owners.reserve(len, GFP_KERNEL)?;
                continue;
            }
            for owner in mappings.iter().filter_map(|(s, _)| s.owner()) {
                if !owners.iter().any(|o| Arc::ptr_eq(o, owner)) {
                    owners.push_within_capacity(owner.clone())?;
                }
            }
            return Ok(owners);
        }
    }

    /// Says how the CPU's mappings are taken away. `EEXIST` if that was said before.
    pub(super) fn set_view(&self, view: View) -> Result {
        if self.view.populate(view) {
            Ok(())
        } else {
            Err(EEXIST)
        }
    }

    /// Where the memory is; it stays there while the lock of the reservation is held.
    pub(super) fn place(&self) -> Place {
        self.place.lock().clone()
    }

    /// It is in VRAM at the moment.
    pub(super) fn is_in_vram(&self) -> bool {
        self.in_vram.load(Relaxed)
    }

    /// The buffer is gone: nobody should go to lengths for its memory any more.
    pub(super) fn retire(&self) {
        self.retired.store(true, Relaxed);
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Relaxed)
    }

    /// What a mapping of the memory in `place` may do.
    pub(super) fn attrs(&self, place: &Place, access: Access) -> PteAttrs {
        let io = matches!(place, Place::Doorbell(_) | Place::MmioRemap);
        PteAttrs {
            system: !matches!(place, Place::Vram(_)),
            read: access.read,
            write: access.write,
            exec: access.exec,
            uncached: self.flags.uncached || io,
            ext_coherent: self.flags.ext_coherent,
            io,
        }
    }

    /// The CPU physical address of page `page` of memory in `place`, and how the CPU has to map it.
    pub(super) fn phys(&self, place: &Place, page: usize) -> Result<(u64, CpuCache)> {
        let at = (page * PAGE_SIZE) as u64;
        if at >= self.size {
            return Err(EINVAL);
        }
        // A page of a device that has been left must not get new users.
        if !matches!(place, Place::System(_)) {
            self.gpu.mmio()?;
        }
        Ok(match place {
            Place::System(system) => (system.pages.phys(page)?, CpuCache::Cached),
            Place::Vram(range) => (
                self.gpu.vram().bar().phys() + range.run(at)?.0,
                CpuCache::WriteCombined,
            ),
            Place::Doorbell(slice) => (slice.phys() + at, CpuCache::Uncached),
            Place::MmioRemap => (self.gpu.hdp_remap_phys(), CpuCache::Uncached),
            // The process has a mapping of its own.
            Place::User(_) | Place::Nowhere => return Err(EINVAL),
        })
    }

    /// The address of the first page for kernel queues (VMID 0), as long as the memory stays where
    /// it is.
    pub(super) fn kernel_addr(&self) -> Result<u64> {
        match self.place() {
            Place::Vram(range) => Ok(self.gpu.vram_mc(range.start())),
            Place::System(system) => {
                if system.window.as_ref().is_none() {
                    let window = self.gpu.window(&system.pages, 0, PAGE_SIZE as u64)?;
                    system.window.populate(window);
                }
                system.window.as_ref().map(Window::addr).ok_or(EINVAL)
            }
            Place::Doorbell(_) | Place::MmioRemap | Place::User(_) | Place::Nowhere => Err(EINVAL),
        }
    }

    /// Notes that `space` maps the memory at `va`. The lock of the reservation is held.
    pub(super) fn add_mapping(&self, space: &Arc<Space>, va: u64) -> Result {
        let mut mappings = self.mappings.lock();
        // Invalidations take the lock.
        let _no_reclaim = NoReclaim::new();
        mappings.push((space.clone(), va), GFP_KERNEL)?;
        Ok(())
    }

    /// Undoes [`Self::add_mapping`].
    pub(super) fn remove_mapping(&self, space: &Arc<Space>, va: u64) {
        let mut mappings = self.mappings.lock();
        let at = mappings
            .iter()
            .position(|(s, v)| Arc::ptr_eq(s, space) && *v == va);
        let gone = at.and_then(|at| mappings.remove(at).ok());
        drop(mappings);
        drop(gone);
    }

    /// Who maps it and where.
    fn mapped_by(&self) -> Result<KVVec<(Arc<Space>, u64)>> {
        let mut spaces: KVVec<(Arc<Space>, u64)> = KVVec::new();
        loop {
            let mappings = self.mappings.lock();
            if spaces.capacity() >= mappings.len() {
                for (space, va) in mappings.iter() {
                    spaces.push_within_capacity((space.clone(), *va))?;
                }
                return Ok(spaces);
            }
            let len = mappings.len();
            drop(mappings);
            spaces.reserve(len, GFP_KERNEL)?;
        }
    }

    /// What it takes to let all page tables follow a move to `place`.
    fn followers(&self, place: &Place) -> Result<KVVec<Follow>> {
        let spaces = self.mapped_by()?;
        let mut out = KVVec::with_capacity(spaces.len(), GFP_KERNEL)?;
        for (space, va) in spaces {
            if let Some(follow) = space.prepare_follow(va, self, place)? {
                out.push(follow, GFP_KERNEL)?;
            }
        }
        Ok(out)
    }

    /// Moves the memory to VRAM or system memory that was allocated for it. The lock of the
    /// reservation is held and nobody but processes' queues uses the memory. After an error it is
    /// where it was.
    pub(super) fn relocate(&self, to: Place) -> Result {
        let from = self.place();
        let (vram, system, way) = match (&from, &to) {
            (Place::Vram(vram), Place::System(system)) => (vram, system, dma::Way::ToSystem),
            (Place::System(system), Place::Vram(vram)) => (vram, system, dma::Way::ToVram),
            _ => return Err(EINVAL),
        };
        let followers = self.followers(&to)?;
        if let Some(view) = self.view.as_ref() {
            view.zap();
        }
        // What the CPU wrote must be there before it is read.
        self.gpu.hub().hdp_flush()?;
        dma::transfer(&self.gpu, vram, &system.pages, self.size, way)?;
        trace::bo_move(self.gpu.id(), from.name(), to.name(), self.size);
        self.in_vram.store(way == dma::Way::ToVram, Relaxed);
        *self.place.lock() = to;
        for follow in followers {
            if let Err(e) = follow.run(self) {
                // The entries that still lead to the old place must go before it is given away.
                dev_err!(
                    self.gpu.dev(),
                    "a mapping did not follow its buffer: {e:?}\n"
                );
                self.gpu.declare_hung("page tables could not be updated");
            }
        }
        drop(from);
        Ok(())
    }
}

impl Store {
    /// Lets all entries of page tables lead nowhere: pages of the process are about to go.
    pub(super) fn hide(&self) {
        for (space, va) in self.mappings.lock().iter() {
            space.hide(*va);
        }
    }

    /// Lets all page tables show other pages of the process, or nothing. After an error some may
    /// show nothing.
    pub(super) fn show(&self, to: Place) -> Result {
        let _held = self.resv.lock();
        let spaces = self.mapped_by()?;
        let from = core::mem::replace(&mut *self.place.lock(), to.clone());
        let mut result = Ok(());
        for (space, va) in spaces {
            let shown = evict::make_room(&self.gpu, || space.show(va, self, &to));
            result = result.and(shown);
        }
        drop(from);
        result
    }
}

#[pinned_drop]
impl PinnedDrop for Store {
    fn drop(self: Pin<&mut Self>) {
        let memory: Arc<dyn Any + Send + Sync> = match &*self.place.lock() {
            Place::Vram(range) => range.clone(),
            Place::System(system) => system.clone(),
            Place::User(pages) => pages.clone(),
            Place::Doorbell(_) | Place::MmioRemap | Place::Nowhere => return,
        };
        // Nobody maps it any more, but jobs may be on their way that use it.
        match self.resv.fences(Usage::Bookkeep) {
            Ok(fences) if fences.is_empty() => {}
            Ok(fences) => self.gpu.vram().drop_after(memory, fences),
            Err(_) => {
                // No memory for the list: then it takes as long as it takes.
                let _ = self.resv.wait(Usage::Bookkeep, false, Timeout::FOREVER);
            }
        }
    }
}
