// SPDX-License-Identifier: GPL-2.0

//! What a process has on one GPU: its address space there, doorbells, memory.

use kernel::{
    fs::File,
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, AtomicFlag, Relaxed},
        Arc, Mutex, SetOnce,
    },
    task::Pid,
};

use super::{
    apertures::Apertures,
    evict::{Evictor, Tenant},
    handles::HandleTable,
    memory::Mem,
    smi,
    trap::TrapHandler,
    userptr::UserMemory,
};
use crate::{doorbell::Slice, dqm::ProcessSlot, gpu::Gpu, hw::MapProcess, mmu::vm::Vm};

/// What `ACQUIRE_VM` made of a render node file.
struct Bound {
    /// Keeps the file open; a second `ACQUIRE_VM` must name the same one.
    file: ARef<File>,
    vm: Arc<Vm>,
    slot: Arc<ProcessSlot>,
    trap: TrapHandler,
}

/// A process on a GPU.
///
/// The locks in it are taken inside the process lock and are never nested, but for `memory`, which
/// is held while page tables change. `doorbells` is also taken by `mmap`.
#[pin_data]
pub(crate) struct Device {
    gpu: Arc<Gpu>,
    apertures: Apertures,
    /// The PASID of the address space, 0 while there is none; interrupts look for it.
    pasid: Atomic<u32>,
    /// Bytes of VRAM that the process has, for sysfs.
    vram_usage: Atomic<u64>,
    /// Set when the GPU was taken away or the process ended.
    gone: AtomicFlag,
    /// A fault has stopped the queues.
    faulted: AtomicFlag,
    /// Comes with the address space.
    evictor: SetOnce<Arc<Evictor>>,
    #[pin]
    bound: Mutex<Option<Bound>>,
    #[pin]
    doorbells: Mutex<Option<Arc<Slice>>>,
    #[pin]
    memory: Mutex<HandleTable<Mem>>,
}

impl Device {
    pub(super) fn new(gpu: Arc<Gpu>) -> Result<Arc<Self>> {
        let apertures = Apertures::new(gpu.generation().caps);
        Arc::pin_init(
            pin_init!(Self {
                gpu,
                apertures,
                pasid: Atomic::new(0),
                vram_usage: Atomic::new(0),
                gone: AtomicFlag::new(false),
                faulted: AtomicFlag::new(false),
                evictor: SetOnce::new(),
                bound <- new_mutex!(None),
                doorbells <- new_mutex!(None),
                memory <- new_mutex!(HandleTable::new()),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    pub(crate) fn id(&self) -> u32 {
        self.gpu.id()
    }

    pub(crate) fn apertures(&self) -> &Apertures {
        &self.apertures
    }

    pub(crate) fn pasid(&self) -> u32 {
        self.pasid.load(Relaxed)
    }

    pub(crate) fn vram_usage(&self) -> u64 {
        self.vram_usage.load(Relaxed)
    }

    pub(super) fn account_vram(&self, bytes: u64, sign: i64) {
        if sign > 0 {
            self.vram_usage.fetch_add(bytes, Relaxed);
        } else {
            self.vram_usage.fetch_sub(bytes, Relaxed);
        }
    }

    /// Milliseconds that the queues were kept off the GPU to make room, so far.
    pub(crate) fn evicted_ms(&self) -> u64 {
        self.evictor.as_ref().map_or(0, |e| e.evicted_ms())
    }

    /// True for the first fault.
    pub(super) fn begin_fault(&self) -> bool {
        !self.faulted.xchg(true, Relaxed)
    }

    /// The fault could not be handled: the next one is the first again.
    pub(super) fn end_fault(&self) {
        self.faulted.store(false, Relaxed);
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Makes the address space of a render node file the process's on this GPU.
    ///
    /// `open` finds the address space behind the file. The same file may come again; another one
    /// is refused with `EBUSY`.
    pub(crate) fn acquire_vm(
        &self,
        pid: Pid,
        user: &UserMemory,
        file: ARef<File>,
        open: impl FnOnce(&File) -> Result<Arc<Vm>>,
    ) -> Result {
        let mut bound = self.bound.lock();
        if let Some(bound) = &*bound {
            return if core::ptr::eq(&*bound.file, &*file) {
                Ok(())
            } else {
                Err(EBUSY)
            };
        }
        let vm = open(&file)?;
        let trap = TrapHandler::new(&self.gpu, &vm)?;
        let slot = ProcessSlot::new(&self.gpu, pid, self.map_process(&vm), false)?;
        let evictor = Evictor::new(&slot)?;
        if !vm.claim(Tenant::new(&evictor)?) {
            // Another process's.
            return Err(EINVAL);
        }
        self.evictor.populate(evictor);
        user.join(&slot)?;
        self.pasid.store(vm.pasid(), Relaxed);
        *bound = Some(Bound {
            file,
            vm,
            slot,
            trap,
        });
        smi::process(&self.gpu, kernel::current!().group_leader(), true);
        Ok(())
    }

    /// What the scheduler has to know. No trap handler is enabled until user space names one: then the
    /// firmware itself tells the queue's owner what a wave did, instead of nobody.
    fn map_process(&self, vm: &Vm) -> MapProcess {
        let gfx = self.gpu.generation().gfx;
        MapProcess {
            pasid: vm.pasid(),
            root: vm.root(),
            sh_mem_config: gfx.sh_mem_config(false),
            sh_mem_bases: gfx.sh_mem_bases(self.apertures.lds_base, self.apertures.scratch_base),
            ..MapProcess::default()
        }
    }

    /// Enables the driver's trap handler, which goes on to the one at `tba`; `ENODEV` before `ACQUIRE_VM`.
    pub(crate) fn set_trap_handler(&self, tba: u64, tma: u64) -> Result {
        let bound = self.bound.lock();
        let Bound { slot, trap, .. } = bound.as_ref().ok_or(ENODEV)?;
        trap.set_second(tba, tma)?;
        slot.set_trap_handler(trap.tba(), trap.tma());
        Ok(())
    }

    /// The address space; `ENODEV` before `ACQUIRE_VM` and after the end.
    pub(crate) fn vm(&self) -> Result<Arc<Vm>> {
        self.bound
            .lock()
            .as_ref()
            .map(|b| b.vm.clone())
            .ok_or(ENODEV)
    }

    /// The file of `ACQUIRE_VM`; `ENODEV` as [`Self::vm`].
    pub(super) fn file(&self) -> Result<ARef<File>> {
        self.bound
            .lock()
            .as_ref()
            .map(|b| b.file.clone())
            .ok_or(ENODEV)
    }

    /// What the scheduler knows of the process; `ENODEV` as [`Self::vm`].
    pub(crate) fn slot(&self) -> Result<Arc<ProcessSlot>> {
        self.bound
            .lock()
            .as_ref()
            .map(|b| b.slot.clone())
            .ok_or(ENODEV)
    }

    /// The doorbells, taken at first use.
    pub(crate) fn doorbells(&self) -> Result<Arc<Slice>> {
        let mut doorbells = self.doorbells.lock();
        if self.is_gone() {
            return Err(ENODEV);
        }
        if let Some(slice) = &*doorbells {
            return Ok(slice.clone());
        }
        let slice = Slice::new(&self.gpu)?;
        *doorbells = Some(slice.clone());
        Ok(slice)
    }

    pub(super) fn memory(&self) -> &Mutex<HandleTable<Mem>> {
        &self.memory
    }

    /// Nothing new may be made any more.
    pub(super) fn mark_gone(&self) {
        self.gone.store(true, Relaxed);
        if let Some(evictor) = self.evictor.as_ref() {
            evictor.end();
        }
    }

    /// Lets go of everything but the GPU. Queues and mappings are gone already.
    pub(super) fn release(&self) {
        self.mark_gone();
        self.pasid.store(0, Relaxed);
        let doorbells = self.doorbells.lock().take();
        drop(doorbells);
        // Closing the file may free the address space: not under the lock.
        let bound = self.bound.lock().take();
        drop(bound);
    }
}
