// SPDX-License-Identifier: GPL-2.0

//! A process on one GPU (pdd): address space, doorbells, buffers.

use kernel::{
    fs::File,
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, AtomicFlag, Relaxed},
        Arc, Mutex, SetOnce,
    },
};
use rkfd_abi::doorbell::PER_PROCESS;

use super::{
    apertures::Apertures,
    buffer::Buffer,
    events::MemoryException,
    evict::{Evictor, VmEvictor},
    retry::pending::RetryFaults,
    smi,
    svm::Counters,
    trap::TrapHandler,
    userptr::UserMemory,
};
use crate::{
    card::account::Share,
    doorbell::Slice,
    dqm::{DqmProcess, DqmQueue},
    gpu::Gpu,
    hw::{MapProcess, WaveDebug},
    kapi::{handle_table::HandleTable, task::Pids, workqueue::Delayed},
    mmu::{QueueOwner, Vm},
    node::Node,
    queue::ExceptionTable,
};

/// The address space of a render node file, and the partition for which its memory is allocated.
pub(crate) struct FileVm {
    /// The address space.
    pub(crate) vm: Arc<Vm>,
    /// The share of VRAM of the partition; `None` if the current mode does not have it.
    pub(crate) memory: Option<Arc<Share>>,
    /// Index of the partition; `None` for a file of a primary node.
    pub(crate) partition: Option<u32>,
}

/// The result of `ACQUIRE_VM`.
struct AcquiredVm {
    /// Keeps the render node file open; a second `ACQUIRE_VM` has to name it again.
    file: ARef<File>,
    vm: Arc<Vm>,
    memory: Arc<Share>,
    partition: Option<u32>,
    slot: Arc<DqmProcess>,
    trap: TrapHandler,
}

/// The render node file of `ACQUIRE_VM`, for which buffers are allocated.
pub(super) struct BufferOwner {
    /// The file.
    pub(super) file: ARef<File>,
    /// The share of VRAM that is charged for buffers: that of the file's partition.
    pub(super) memory: Arc<Share>,
    /// The file's partition, or the first one.
    pub(super) partition: u32,
}

/// A process on a GPU.
///
/// Its locks are taken inside the process lock and are not nested, except that `buffers` is held
/// while page tables are written. `doorbells` is also taken by mmap().
#[pin_data]
pub(crate) struct ProcessDevice {
    node: Arc<Node>,
    apertures: Apertures,
    /// PASID of the address space, 0 while there is none. Read by the interrupt thread.
    pasid: Atomic<u32>,
    counters: Arc<Counters>,
    /// The GPU is being unplugged or the process has ended.
    detached: AtomicFlag,
    /// The first VM fault, after which the queues stay evicted.
    fault: SetOnce<MemoryException>,
    /// The fault was handled.
    fault_handled: AtomicFlag,
    /// The process consumed poison on this GPU; its event says that the card will be reset.
    poisoned: AtomicFlag,
    /// Exceptions of queues. Set by `ACQUIRE_VM`.
    exceptions: SetOnce<Arc<ExceptionTable>>,
    /// Retry faults to be handled. Set by `ACQUIRE_VM`.
    retries: SetOnce<Arc<RetryFaults>>,
    /// Set by `ACQUIRE_VM`.
    evictor: SetOnce<Arc<Delayed<Evictor>>>,
    #[pin]
    acquired: Mutex<Option<AcquiredVm>>,
    #[pin]
    doorbells: Mutex<Option<Arc<Slice>>>,
    #[pin]
    buffers: Mutex<HandleTable<Buffer>>,
}

impl ProcessDevice {
    /// Returns the process on a GPU, without address space.
    pub(super) fn new(node: Arc<Node>) -> Result<Arc<Self>> {
        let apertures = Apertures::new(node.gpu().generation().caps);
        let counters = Counters::new()?;
        Arc::pin_init(
            pin_init!(Self {
                node,
                apertures,
                pasid: Atomic::new(0),
                counters,
                detached: AtomicFlag::new(false),
                fault: SetOnce::new(),
                fault_handled: AtomicFlag::new(false),
                poisoned: AtomicFlag::new(false),
                exceptions: SetOnce::new(),
                retries: SetOnce::new(),
                evictor: SetOnce::new(),
                acquired <- new_mutex!(None),
                doorbells <- new_mutex!(None),
                buffers <- new_mutex!(HandleTable::new(0)),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the GPU.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        self.node.gpu()
    }

    /// Records that the process consumed poison here: it has been told of the card reset.
    pub(super) fn set_poisoned(&self) {
        self.poisoned.store(true, Relaxed);
    }

    /// Returns whether the process consumed poison here since the last call.
    pub(super) fn take_poisoned(&self) -> bool {
        self.poisoned.xchg(false, Relaxed)
    }

    /// Returns the node.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Returns the id of the GPU (`gpu_id`).
    pub(crate) fn id(&self) -> u32 {
        self.node.id()
    }

    /// Returns the apertures.
    pub(crate) fn apertures(&self) -> &Apertures {
        &self.apertures
    }

    /// Returns the PASID, 0 before `ACQUIRE_VM` and after the end.
    pub(crate) fn pasid(&self) -> u32 {
        self.pasid.load(Relaxed)
    }

    /// Returns the numbers of faults and migrations.
    pub(super) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Returns the VRAM usage in bytes.
    pub(super) fn vram_usage(&self) -> u64 {
        self.counters.vram.load(Relaxed)
    }

    /// Adds to the VRAM usage, in bytes.
    pub(super) fn add_vram_usage(&self, bytes: u64) {
        self.counters.vram.fetch_add(bytes, Relaxed);
    }

    /// Subtracts from the VRAM usage, in bytes.
    pub(super) fn sub_vram_usage(&self, bytes: u64) {
        self.counters.vram.fetch_sub(bytes, Relaxed);
    }

    /// Returns for how many ms the queues have been evicted.
    pub(super) fn evicted_ms(&self) -> u64 {
        self.evictor.as_ref().map_or(0, |e| e.evicted_ms())
    }

    /// Returns how many compute units the waves of the process would fill. 0 without an address
    /// space, errors as [`Dqm::cu_occupancy`](crate::dqm::Dqm::cu_occupancy).
    pub(super) fn cu_occupancy(&self) -> Result<u64> {
        let Ok(slot) = self.slot() else { return Ok(0) };
        self.node.dqm().cu_occupancy(&slot)
    }

    /// Returns the retry faults to be handled; `None` before `ACQUIRE_VM`.
    pub(super) fn retry_faults(&self) -> Option<&Arc<RetryFaults>> {
        self.retries.as_ref()
    }

    /// Sets whether the waves of the process wait for pages. No error before `ACQUIRE_VM`.
    pub(super) fn set_xnack(&self, xnack: bool) {
        if let Ok(slot) = self.slot() {
            let config = self.gpu().generation().gfx.sh_mem_config(xnack);
            self.node.dqm().set_xnack(&slot, xnack, config);
        }
    }

    /// Records a VM fault. Returns whether it is the first one, which has to be handled.
    pub(super) fn record_fault(&self, fault: MemoryException) -> bool {
        self.fault.populate(fault)
    }

    /// Returns whether a VM fault was recorded.
    pub(super) fn has_fault(&self) -> bool {
        self.fault.as_ref().is_some()
    }

    /// Returns the VM fault if it was recorded and not returned before.
    pub(super) fn take_fault(&self) -> Option<&MemoryException> {
        let fault = self.fault.as_ref()?;
        (!self.fault_handled.xchg(true, Relaxed)).then_some(fault)
    }

    /// Returns the exceptions of queues; `None` before `ACQUIRE_VM`.
    pub(crate) fn exceptions(&self) -> Option<&Arc<ExceptionTable>> {
        self.exceptions.as_ref()
    }

    /// Returns whether the process is detached from the GPU: the GPU is being unplugged or the
    /// process has ended.
    pub(crate) fn is_detached(&self) -> bool {
        self.detached.load(Relaxed)
    }

    /// Makes the address space of a render node file that of the process on this GPU.
    ///
    /// `open` returns the address space of the file. Idempotent for one file; `EBUSY` for another
    /// one, `EINVAL` if the address space belongs to another process.
    pub(crate) fn acquire_vm(
        &self,
        pids: Pids,
        user: &UserMemory,
        xnack: bool,
        file: ARef<File>,
        open: impl FnOnce(&File) -> Result<FileVm>,
    ) -> Result {
        let mut acquired = self.acquired.lock();
        if let Some(acquired) = &*acquired {
            return if core::ptr::eq(&*acquired.file, &*file) {
                Ok(())
            } else {
                Err(EBUSY)
            };
        }
        let FileVm {
            vm,
            memory,
            partition,
        } = open(&file)?;
        let trap = TrapHandler::new(self.gpu())?;
        let slot = self
            .node
            .dqm()
            .new_process(pids, self.map_process(&vm, &trap, xnack), xnack)?;
        let evictor = Evictor::new(&self.node, &slot, None)?;
        let owner = VmEvictor::new(&evictor)?;
        let retries = RetryFaults::new(self.gpu())?;
        let exceptions = ExceptionTable::new(PER_PROCESS)?;
        user.join(&self.node, &slot)?;
        // The address space outlives a failed call: a claim cannot be undone and comes last.
        let claimed = trap.map(&vm).and_then(|()| {
            vm.claim(QueueOwner::Process, owner)
                .inspect_err(|_| trap.unmap(&vm))
        });
        if let Err(e) = claimed {
            user.part(&slot);
            return Err(e);
        }
        self.retries.populate(retries);
        self.evictor.populate(evictor);
        self.exceptions.populate(exceptions);
        self.pasid.store(vm.pasid(), Relaxed);
        *acquired = Some(AcquiredVm {
            file,
            vm,
            memory: memory.unwrap_or_else(|| self.node.memory().clone()),
            partition,
            slot,
            trap,
        });
        smi::process(self.id(), pids, kernel::current!().group_leader(), true);
        Ok(())
    }

    /// Returns the contents of MAP_PROCESS. The first-level trap handler is always enabled, since
    /// it saves the waves.
    fn map_process(&self, vm: &Vm, trap: &TrapHandler, xnack: bool) -> MapProcess {
        let gfx = self.gpu().generation().gfx;
        MapProcess {
            pasid: vm.pasid(),
            root: vm.root(),
            sh_mem_config: gfx.sh_mem_config(xnack),
            sh_mem_bases: gfx.sh_mem_bases(self.apertures.lds_base, self.apertures.scratch_base),
            tba: trap.tba(),
            tma: trap.tma(),
            ..MapProcess::default()
        }
    }

    /// Sets the second-level trap handler. `ENODEV` before `ACQUIRE_VM`.
    pub(crate) fn set_trap_handler(&self, tba: u64, tma: u64) -> Result {
        let acquired = self.acquired.lock();
        let AcquiredVm { trap, .. } = acquired.as_ref().ok_or(ENODEV)?;
        trap.set_second_level(tba, tma)
    }

    /// Suspends queues of the process on this GPU for a debugger, see
    /// [`Dqm::suspend_queues`](crate::dqm::Dqm::suspend_queues).
    pub(crate) fn suspend(&self, queues: &[Arc<DqmQueue>], grace: u32) -> Result {
        self.node.dqm().suspend_queues(queues, grace)
    }

    /// Undoes [`Self::suspend`].
    pub(crate) fn resume(&self, queues: &[Arc<DqmQueue>]) -> Result {
        self.node.dqm().resume_queues(queues)
    }

    /// Sets how waves start. No error before `ACQUIRE_VM`.
    pub(super) fn set_wave_debug(&self, debug: WaveDebug) -> Result {
        match self.slot() {
            Ok(slot) => self.node.dqm().set_wave_debug(&slot, debug),
            Err(_) => Ok(()),
        }
    }

    /// Clears all settings of a debugger. No error before `ACQUIRE_VM`.
    pub(super) fn reset_wave_debug(&self) -> Result {
        match self.slot() {
            Ok(slot) => self.node.dqm().reset_wave_debug(&slot),
            Err(_) => Ok(()),
        }
    }

    /// Sets whether the trap handler reports to a debugger. No error before `ACQUIRE_VM`.
    pub(super) fn set_debugged(&self, debugged: bool) -> Result {
        match &*self.acquired.lock() {
            Some(AcquiredVm { trap, .. }) => trap.set_debugged(debugged),
            None => Ok(()),
        }
    }

    fn acquired<T>(&self, f: impl FnOnce(&AcquiredVm) -> T) -> Result<T> {
        self.acquired.lock().as_ref().map(f).ok_or(ENODEV)
    }

    /// Returns `ENODEV` before `ACQUIRE_VM` and after the end.
    pub(crate) fn check_acquired(&self) -> Result {
        self.acquired(|_| ())
    }

    /// Returns the address space; `ENODEV` before `ACQUIRE_VM` and after the end.
    pub(crate) fn vm(&self) -> Result<Arc<Vm>> {
        self.acquired(|acquired| acquired.vm.clone())
    }

    /// Returns the render node file; `ENODEV` as [`Self::vm`].
    pub(super) fn file(&self) -> Result<ARef<File>> {
        self.acquired(|acquired| acquired.file.clone())
    }

    /// Returns what buffers are allocated for; `ENODEV` as [`Self::vm`].
    pub(super) fn owner(&self) -> Result<BufferOwner> {
        self.acquired(|acquired| BufferOwner {
            file: acquired.file.clone(),
            memory: acquired.memory.clone(),
            partition: acquired.partition.unwrap_or(0),
        })
    }

    /// Returns the process in the device queue manager; `ENODEV` as [`Self::vm`].
    pub(crate) fn slot(&self) -> Result<Arc<DqmProcess>> {
        self.acquired(|acquired| acquired.slot.clone())
    }

    /// Returns the doorbells, allocated by the first call. `ENODEV` once detached, `ENOMEM` if the
    /// BAR has no free slice.
    pub(crate) fn doorbells(&self) -> Result<Arc<Slice>> {
        let mut doorbells = self.doorbells.lock();
        if self.is_detached() {
            return Err(ENODEV);
        }
        if let Some(slice) = &*doorbells {
            return Ok(slice.clone());
        }
        let slice = Slice::new(self.gpu().card())?;
        *doorbells = Some(slice.clone());
        Ok(slice)
    }

    /// Returns the buffers, by handle.
    pub(super) fn buffers(&self) -> &Mutex<HandleTable<Buffer>> {
        &self.buffers
    }

    /// Marks the process as detached from the GPU: new queues, doorbells and buffers fail.
    pub(super) fn set_detached(&self) {
        self.detached.store(true, Relaxed);
    }

    /// Ends evictions and restores. The queues are destroyed: evicting a BO does not wait for them
    /// any more.
    pub(super) fn end_evictions(&self) {
        if let Some(evictor) = self.evictor.as_ref() {
            evictor.end();
        }
    }

    /// Releases doorbells and address space. The queues are unmapped and the buffers freed.
    pub(super) fn release(&self) {
        self.pasid.store(0, Relaxed);
        let doorbells = self.doorbells.lock().take();
        drop(doorbells);
        // Closing the file may free the address space: not under the lock.
        let acquired = self.acquired.lock().take();
        drop(acquired);
    }
}
