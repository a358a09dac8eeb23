// SPDX-License-Identifier: GPL-2.0

//! The device: a card with the kernel's rings running on it, its health, its evictable BOs and its
//! address spaces.
//!
//! [`Gpu`] dereferences to its [`Card`]: functions that need no ring take a [`Card`].

use core::ops::Deref;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, AtomicFlag, Relaxed},
        lock::mutex::MutexGuard,
        Arc, Mutex, SetOnce,
    },
};

use crate::{
    asic::{
        config::Config,
        fru::Product,
        partition::ComputePartition,
        xcc::{XccList, MAX_XCCS},
    },
    card::{gart::Buffer, vram::VramUser, Card},
    hw::{self, FlushType, MesVersion, SqSender, VmFault},
    kapi::{devmem::Region, irq::Irq, workqueue::Delayed},
    ring::{kiq::Kiqs, mes::Mes, sdma::Sdma},
};

mod bad_pages;
mod bring_up;
mod coredump;
pub(crate) mod dma;
pub(crate) mod dump;
mod image;
mod interrupts;
pub(crate) mod lru;
mod migrate;
pub(crate) mod migrated;
mod product;
mod profiler;
mod reset;
pub(crate) mod spaces;
mod suspend;
pub(crate) mod user_doorbells;

use coredump::Coredump;
use image::VramImage;
use lru::{EvictionLru, Victims};
use migrated::Migrated;
use profiler::ProfilerLock;
use spaces::SpaceList;
use user_doorbells::UserDoorbells;

/// Origin of an interrupt of a user queue.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    /// IH node id.
    pub(crate) ih_node: u32,
    /// VMID.
    pub(crate) vmid: u32,
    /// PASID, not 0.
    pub(crate) pasid: u32,
}

/// Receives the events of a device. Called in the interrupt thread unless stated otherwise; may
/// sleep. Interrupts whose node id and VMID match no node are ignored.
pub(crate) trait EventSink: Send + Sync {
    /// A CP end-of-pipe interrupt; `ctx0` is the packet's data, an event id for KFD.
    fn cp_eop(&self, gpu: &Gpu, origin: &Origin, ctx0: u32);

    /// A VM fault.
    fn vm_fault(&self, gpu: &Gpu, origin: &Origin, fault: &VmFault);

    /// A retry fault: the access is repeated until [`Gpu::acknowledge`] is called. Returns false if
    /// no process handles it.
    fn retry_fault(&self, gpu: &Gpu, origin: &Origin, fault: &VmFault) -> bool;

    /// A bad packet in the compute queue with this doorbell (offset in the slice) on the node of
    /// the interrupt; `code` is the CP's.
    fn bad_opcode(&self, gpu: &Gpu, origin: &Origin, doorbell: u32, code: u32);

    /// An SQ interrupt message of a shader.
    fn sq_msg(&self, gpu: &Gpu, origin: &Origin, data: u32, from: SqSender);

    /// A queue of a process read data with an uncorrectable error; `client` is the IH client that
    /// reports it.
    fn poison(&self, gpu: &Gpu, origin: &Origin, client: u32);

    /// Power firmware throttles the card: bits of `SMU_THROTTLER_*`, number of interrupts so far.
    fn throttled(&self, gpu: &Gpu, reasons: u64, count: u64);

    /// A trap of an SDMA user queue.
    fn sdma_trap(&self, gpu: &Gpu, origin: &Origin, ctx0: u32);

    /// The process lost a queue. Locks as below.
    fn queue_reset(&self, gpu: &Gpu, pasid: u32);

    /// The device hangs and all its queues are lost. Called with scheduler locks held: may only
    /// set events and schedule work.
    fn gpu_reset(&self, gpu: &Gpu);

    /// The device was reset and works again.
    fn gpu_back(&self, gpu: &Gpu);
}

/// Schedules the reset of a device that hangs, and reports of resets of queues.
pub(crate) trait ResetHandler: Send + Sync {
    /// Called with any locks held: may only schedule work.
    fn schedule_reset(&self);

    /// Schedules a report of the reset of a queue to user space. Called as `schedule_reset`.
    fn report_queue_reset(&self);
}

/// User queues on the SDMA engines that the kernel's rings share.
pub(crate) trait UserQueues: Send + Sync {
    /// Unmaps all user queues. An SDMA engine that does not release its queue is reset. Nests.
    fn suspend(&self) -> Result;

    /// Undoes one [`UserQueues::suspend`].
    fn resume(&self) -> Result;

    /// Makes the value of [`Gpu::isolation`] effective.
    fn isolate(&self) -> Result;
}

/// The user queues of each node.
type AllUserQueues = [Option<Arc<dyn UserQueues>>; MAX_XCCS];

/// Calls `f` with the user queues of each node. Returns the first error, after all calls.
fn for_each(all: &AllUserQueues, f: impl Fn(&dyn UserQueues) -> Result) -> Result {
    let mut result = Ok(());
    for queues in all.iter().flatten() {
        result = result.and(f(&**queues));
    }
    result
}

/// Isolation of the processes of a partition (`enum amdgpu_enforce_isolation_mode`).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Processes have queues on the hardware at the same time.
    #[default]
    None,
    /// Queues of one process at a time.
    Processes,
    /// Only jobs of the compute core are isolated, of which there are none.
    Jobs,
    /// The same without the cleaner shader.
    JobsUncleaned,
}

/// A device.
#[pin_data]
pub(crate) struct Gpu {
    card: Arc<Card>,
    sink: &'static dyn EventSink,
    #[pin]
    irq: Mutex<Option<Irq<Gpu>>>,
    /// The KIQs while they run; the lock is that of their rings.
    #[pin]
    kiqs: Mutex<Kiqs>,
    /// The rings of MES from [`Gpu::start`] on, if MES is the scheduler.
    mes: SetOnce<Pin<KBox<Mes>>>,
    /// The kernel's SDMA rings from [`Gpu::start`] on.
    sdma: SetOnce<KBox<Sdma>>,
    /// The product data from [`Gpu::start`] on, if the board has a FRU EEPROM.
    product: SetOnce<KBox<Product>>,
    /// Number of records in the table of bad pages, from [`Gpu::start`] on, if the card has one.
    bad_pages: SetOnce<u32>,
    /// A leaf.
    #[pin]
    reset_handler: Mutex<Option<Arc<dyn ResetHandler>>>,
    /// A leaf.
    #[pin]
    user_queues: Mutex<AllUserQueues>,
    /// Number of resets of compute queues by MES.
    queue_resets: Atomic<u32>,
    /// Number of compute partitions.
    partitions: Atomic<u32>,
    /// By partition. A leaf.
    #[pin]
    isolation: Mutex<[Isolation; MAX_XCCS]>,
    #[pin]
    profiler: ProfilerLock,
    #[pin]
    lru: EvictionLru,
    /// VRAM that processes have mapped as their memory.
    migrated: Arc<Region<Migrated>>,
    /// No memory is migrated to VRAM any more.
    no_migration: AtomicFlag,
    #[pin]
    spaces: SpaceList,
    user_doorbells: Arc<UserDoorbells>,
    /// Contents of VRAM while the device is suspended.
    #[pin]
    image: Mutex<Option<VramImage>>,
    coredump: Arc<Delayed<Coredump>>,
}

impl Deref for Gpu {
    type Target = Card;

    fn deref(&self) -> &Card {
        &self.card
    }
}

impl Gpu {
    /// Returns the device of a card that was identified. Nothing runs on it yet. `sink` receives
    /// its events; `make_id` returns the gpu_id of its first node. Errors as [`Card::new`].
    pub(crate) fn new(
        pdev: &kernel::pci::Device<kernel::device::Core<'_>>,
        sink: &'static dyn EventSink,
        make_id: impl FnOnce(&Config, &XccList) -> u32,
    ) -> Result<Arc<Self>> {
        let card = Card::new(pdev, make_id)?;
        let unused = card.clone();
        let stop = |_: &Error| unused.close_bus();
        let mode = initial_mode(&card).inspect_err(stop)?;
        let partitions = mode.partitions(card.xccs().count());
        let migrated = Region::new().inspect_err(stop)?;
        let coredump = Coredump::new(card.dev()).inspect_err(stop)?;
        let user_doorbells = UserDoorbells::new().inspect_err(stop)?;
        let gpu = Arc::pin_init(
            pin_init!(Self {
                card,
                sink,
                irq <- new_mutex!(None),
                kiqs <- new_mutex!(Kiqs::stopped()),
                mes: SetOnce::new(),
                sdma: SetOnce::new(),
                product: SetOnce::new(),
                bad_pages: SetOnce::new(),
                reset_handler <- new_mutex!(None, "rkfd_reset_handler"),
                user_queues <- new_mutex!(AllUserQueues::default(), "rkfd_user_queues"),
                queue_resets: Atomic::new(0),
                partitions: Atomic::new(partitions),
                profiler <- ProfilerLock::new(),
                isolation <- new_mutex!([Isolation::None; MAX_XCCS], "rkfd_isolation"),
                lru <- EvictionLru::new(),
                migrated,
                no_migration: AtomicFlag::new(false),
                spaces <- SpaceList::new(),
                user_doorbells,
                image <- new_mutex!(None),
                coredump,
            }),
            GFP_KERNEL,
        );
        gpu.inspect_err(stop)
    }

    /// Returns the card.
    pub(crate) fn card(&self) -> &Arc<Card> {
        &self.card
    }

    /// Returns the receiver of events.
    pub(crate) fn sink(&self) -> &'static dyn EventSink {
        self.sink
    }

    /// Sets the handler that schedules a reset after a hang; `None`: the device stays hung.
    pub(crate) fn set_reset_handler(&self, handler: Option<Arc<dyn ResetHandler>>) {
        let before = core::mem::replace(&mut *self.reset_handler.lock(), handler);
        drop(before);
    }

    fn reset_handler(&self) -> Option<Arc<dyn ResetHandler>> {
        self.reset_handler.lock().clone()
    }

    /// Sets the owner of the user queues of node `index` on the SDMA engines; `None`: there are
    /// none.
    pub(crate) fn set_user_queues(&self, index: u32, queues: Option<Arc<dyn UserQueues>>) {
        let mut all = self.user_queues.lock();
        let Some(owner) = all.get_mut(index as usize) else {
            return;
        };
        let before = core::mem::replace(owner, queues);
        drop(all);
        drop(before);
    }

    /// Returns the user queues of each node.
    fn all_user_queues(&self) -> AllUserQueues {
        self.user_queues.lock().clone()
    }

    /// Returns the profiler lock.
    pub(crate) fn profiler(&self) -> &ProfilerLock {
        &self.profiler
    }

    /// Returns the isolation of the processes of partition `index`.
    pub(crate) fn isolation(&self, index: u32) -> Isolation {
        let all = self.isolation.lock();
        all.get(index as usize).copied().unwrap_or_default()
    }

    /// Sets the isolation of the first partitions. `EIO`, `ETIME` or `ETIMEDOUT` when a scheduler
    /// does not respond: it is set at its next start. `EOPNOTSUPP`, and no change, when its
    /// firmware is too old.
    pub(crate) fn isolate(&self, new: &[Isolation]) -> Result {
        let mes = self.mes.as_ref();
        let too_old = mes.is_some_and(|mes| !mes.can_limit_processes());
        if new.contains(&Isolation::Processes) && too_old {
            return Err(EOPNOTSUPP);
        }
        for (to, new) in self.isolation.lock().iter_mut().zip(new) {
            *to = *new;
        }
        for_each(&self.all_user_queues(), |queues| queues.isolate())
    }

    /// Returns the compute partition mode in which the device starts. `EINVAL` without one for its
    /// memory partitions.
    pub(crate) fn initial_mode(&self) -> Result<ComputePartition> {
        initial_mode(&self.card)
    }

    /// Returns the number of compute partitions.
    pub(crate) fn partitions(&self) -> u32 {
        self.partitions.load(Relaxed)
    }

    /// Returns the KIQs, locked.
    pub(crate) fn kiqs(&self) -> MutexGuard<'_, Kiqs> {
        self.kiqs.lock()
    }

    /// Returns the rings of MES. `ENODEV` when the device is unplugged or MES is not the scheduler,
    /// `EIO` when the device is hung.
    pub(crate) fn mes(&self) -> Result<&Mes> {
        self.check_usable()?;
        self.mes.as_ref().map(|mes| &**mes).ok_or(ENODEV)
    }

    /// Returns the versions of MES, constant from [`Gpu::start`] on, also on a hung card; 0 if MES
    /// is not the scheduler.
    pub(crate) fn mes_version(&self) -> MesVersion {
        self.mes
            .as_ref()
            .map(|mes| mes.version())
            .unwrap_or_default()
    }

    /// Returns the kernel's SDMA rings. `ENODEV` when the device is unplugged, `EIO` when it is
    /// hung.
    pub(crate) fn sdma(&self) -> Result<&Sdma> {
        self.check_usable()?;
        self.sdma.as_ref().map(|sdma| &**sdma).ok_or(ENODEV)
    }

    /// Reverts [`Sdma::pause`], also on a hung card.
    pub(crate) fn unpause_sdma(&self) {
        if let Some(sdma) = self.sdma.as_ref() {
            sdma.unpause();
        }
    }

    /// Flushes the TLBs of a process in all VMIDs that the firmware assigned to it, on all XCCs.
    /// Complete on return. `ETIMEDOUT` when a KIQ or MES does not respond, `EIO` when the device is
    /// hung.
    pub(crate) fn invalidate_pasid(&self, pasid: u32, kind: FlushType) -> Result {
        {
            let mut kiqs = self.kiqs.lock();
            if kiqs.is_running() {
                return kiqs.invalidate_tlbs(self, pasid, kind);
            }
        }
        let Ok(mes) = self.mes() else {
            return Ok(());
        };
        if let Some(done) = mes.invalidate_tlbs(self, pasid, kind) {
            return done;
        }
        // The firmware does not report the VMID of a process: flush all that it assigns.
        (self.generation().caps.first_user_vmid..hw::VMIDS)
            .try_for_each(|vmid| self.hub().flush_vmid(vmid, kind))
    }

    /// Returns the evictable BOs.
    pub(crate) fn lru(&self) -> &EvictionLru {
        &self.lru
    }

    /// Returns the doorbells of user queues of the render node.
    pub(crate) fn user_doorbells(&self) -> &Arc<UserDoorbells> {
        &self.user_doorbells
    }

    /// Returns the address spaces.
    pub(crate) fn spaces(&self) -> &SpaceList {
        &self.spaces
    }

    /// Calls `alloc`, which allocates VRAM in a memory partition or anywhere, and evicts BOs from
    /// there as long as it returns `ENOMEM`, see [`EvictionLru::alloc_or_evict`].
    pub(crate) fn alloc_or_evict<T>(
        &self,
        memory: Option<u32>,
        alloc: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let range = self.vram().usable_range(memory);
        self.lru
            .alloc_or_evict(self.vram(), Victims::All, &range, alloc)
    }

    /// Allocates a zeroed buffer for `user` in VRAM, which never moves, with eviction of others.
    /// Errors as [`Gpu::alloc_or_evict`].
    pub(crate) fn vram_buffer(&self, size: usize, user: VramUser) -> Result<Buffer> {
        self.alloc_or_evict(None, || {
            Buffer::vram(
                self.hub(),
                self.vram(),
                self.layout().vram_start,
                size,
                user,
            )
        })
    }
}

/// Returns the compute partition mode in which a card starts, see [`Gpu::initial_mode`].
fn initial_mode(card: &Card) -> Result<ComputePartition> {
    let memory = card.vram().partitions().len();
    ComputePartition::initial(card.xccs().count(), u32::try_from(memory)?)
        .ok_or(EINVAL)
        .inspect_err(|_| {
            dev_err!(
                card.dev(),
                "no compute partition mode for {memory} memory partitions\n"
            );
        })
}
