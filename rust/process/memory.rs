// SPDX-License-Identifier: GPL-2.0

//! The memory of a process: buffers under handles, and where GPUs see them.
//!
//! A buffer has one address, the same on every GPU, chosen by user space when it is allocated. It
//! is freed only when no GPU maps it, and unmapped only when no queue needs it there.

use kernel::{page::PAGE_SIZE, pr_warn_once, prelude::*, sync::Arc};

use super::{
    events::{SignalPage, UNSIGNALED},
    userptr::{Known, UserMemory},
    Device, Process,
};
use crate::{
    gpu::account::{self, Kind},
    kapi::{dmabuf::DmaBuf, task},
    mmu::{gem::Gem, Access, Bo, BoFlags, BoRef, CpuAccess, Vm},
    uapi,
};

/// The `KFD_IOC_ALLOC_MEM_FLAGS_*` of a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Flags(pub(crate) u32);

impl Flags {
    pub(crate) const fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    pub(crate) const fn is_vram(self) -> bool {
        self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
    }

    pub(crate) const fn is_aql(self) -> bool {
        self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM)
    }

    /// Memory of the process itself.
    pub(crate) const fn is_user(self) -> bool {
        self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
            && !self.is_vram()
            && !self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_GTT)
    }

    fn bo_flags(self) -> BoFlags {
        BoFlags {
            uncached: self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED),
            coherent: self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_COHERENT),
            ext_coherent: self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT),
            contiguous: self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS),
            cpu_access: if self.is_vram() && self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC) {
                CpuAccess::Required
            } else {
                CpuAccess::Possible
            },
            explicit_sync: false,
        }
    }

    /// What the GPU may do where the buffer is mapped.
    const fn access(self) -> Access {
        Access {
            read: true,
            write: self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE),
            exec: self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE),
        }
    }
}

/// A buffer.
pub(crate) struct Mem {
    /// Nobody refreshes it any more when this is gone.
    _user: Option<Known>,
    gem: Gem,
    va: u64,
    /// Bytes of memory; an AQL ring of the old kind shows them twice in a row.
    size: u64,
    flags: Flags,
    /// Somebody else allocated it.
    imported: bool,
    /// GPUs that map the buffer.
    mapped: KVec<u32>,
}

/// A buffer in system memory as the page of signal slots.
pub(super) struct Slots(BoRef);

impl Slots {
    /// `EINVAL` if the kernel cannot reach the memory.
    pub(super) fn new(bo: BoRef) -> Result<Self> {
        bo.read64(0)?;
        Ok(Self(bo))
    }
}

impl SignalPage for Slots {
    fn load(&self, slot: u32) -> u64 {
        // The slots are inside the buffer, which was checked to be system memory.
        self.0.read64(slot as usize * 8).unwrap_or(UNSIGNALED)
    }

    fn store(&self, slot: u32, value: u64) {
        if self.0.write64(slot as usize * 8, value).is_err() {
            pr_warn_once!("signal slot {slot} is out of reach\n");
        }
    }
}

impl Mem {
    /// A buffer that somebody else allocated, to be mapped at `va`.
    pub(super) fn imported(gem: Gem, va: u64, flags: Flags) -> Self {
        Self {
            _user: None,
            va,
            size: gem.bo().size(),
            gem,
            flags,
            imported: true,
            mapped: KVec::new(),
        }
    }

    /// The buffer as a file.
    pub(super) fn export(&self) -> Result<DmaBuf> {
        self.gem.export(self.flags.access().write)
    }

    fn bo(&self) -> &BoRef {
        self.gem.bo()
    }

    fn map_at(&self, va: u64, vm: &Vm) -> Result {
        vm.map(va, self.bo(), 0, self.size, self.flags.access())
    }

    fn map(&mut self, device: &Device, vm: &Arc<Vm>) -> Result {
        if self.mapped.contains(&device.id()) {
            return Ok(());
        }
        self.mapped.reserve(1, GFP_KERNEL)?;
        self.map_at(self.va, vm)?;
        if self.flags.is_aql() {
            if let Err(e) = self.map_at(self.va + self.size, vm) {
                vm.unmap(self.va, self.size)?;
                return Err(e);
            }
        }
        self.mapped.push_within_capacity(device.id())?;
        Ok(())
    }

    /// Fails with `EINVAL` if the GPU does not map the buffer, `EBUSY` if a queue needs it.
    fn unmap(&mut self, device: &Device, vm: &Arc<Vm>) -> Result {
        let at = self
            .mapped
            .iter()
            .position(|id| *id == device.id())
            .ok_or(EINVAL)?;
        // Both halves of an AQL ring's buffer or none.
        let aql = self.flags.is_aql();
        if aql {
            vm.unmap(self.va + self.size, self.size)?;
        }
        if let Err(e) = vm.unmap(self.va, self.size) {
            if aql {
                self.map_at(self.va + self.size, vm)?;
            }
            return Err(e);
        }
        self.mapped.remove(at).map_err(|_| EINVAL)?;
        Ok(())
    }
}

/// A request for a buffer.
pub(crate) struct Request {
    pub(crate) va: u64,
    pub(crate) size: u64,
    pub(crate) flags: Flags,
    /// For user memory: where it is.
    pub(crate) user_va: u64,
}

/// A new buffer.
pub(crate) struct Allocated {
    pub(crate) id: u32,
    /// Where in the render node the CPU finds it.
    pub(crate) mmap_offset: u64,
}

/// Makes the memory that `request` describes, with the errors of the C driver in their order.
fn create_bo(
    device: &Device,
    user: &Arc<UserMemory>,
    request: &Request,
) -> Result<(Bo, Option<Known>)> {
    let flags = request.flags;
    let gpu = device.gpu();
    let is_gtt = flags.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_GTT);
    let is_doorbell = flags.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL);
    if !flags.is_vram() && !is_gtt {
        let is_io = is_doorbell || flags.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP);
        let is_user = flags.is_user() && request.user_va != 0;
        if !is_user && (!is_io || request.size > u64::from(u32::MAX)) {
            return Err(EINVAL);
        }
    }
    let size = if flags.is_aql() {
        request.size / 2
    } else {
        request.size
    };
    // A size so large that its pages are too many to count is none either.
    let size = size
        .checked_next_multiple_of(PAGE_SIZE as u64)
        .filter(|size| *size > 0)
        .ok_or(EINVAL)?;
    let attrs = flags.bo_flags();
    if flags.is_user() {
        let start = task::untagged_addr(request.user_va);
        let (bo, known) = user.create(gpu, start, size, attrs)?;
        return Ok((bo, Some(known)));
    }
    let bo = if flags.is_vram() {
        let reservation = account::reserve(gpu, Kind::Vram, size)?;
        Bo::vram(gpu, size, attrs, reservation)?
    } else if is_gtt {
        let reservation = account::reserve(gpu, Kind::Gtt, size)?;
        Bo::gtt(gpu, size, attrs, Some(reservation))?
    } else if is_doorbell {
        Bo::doorbell(&device.doorbells()?, attrs)?
    } else {
        Bo::mmio_remap(gpu, attrs)?
    };
    Ok((bo, None))
}

impl Device {
    /// Makes a buffer. The file of `ACQUIRE_VM` may map it. Touches user memory if it shows some.
    pub(crate) fn create(&self, user: &Arc<UserMemory>, request: &Request) -> Result<Mem> {
        let file = self.file()?;
        let (bo, known) = create_bo(self, user, request)?;
        let size = bo.size();
        let gem = Gem::new(Arc::new(bo, GFP_KERNEL)?, &file)?;
        Ok(Mem {
            _user: known,
            gem,
            va: request.va,
            size,
            flags: request.flags,
            imported: false,
            mapped: KVec::new(),
        })
    }

    /// Gives a buffer a handle.
    pub(crate) fn insert(&self, mem: Mem) -> Result<Allocated> {
        let mmap_offset = mem.gem.mmap_offset();
        let vram = mem.flags.is_vram().then_some(mem.size);
        let id = self.memory().lock().insert(mem).map_err(|_| EFAULT)?;
        if let Some(size) = vram {
            self.account_vram(size, 1);
        }
        Ok(Allocated { id, mmap_offset })
    }

    /// Frees a buffer that no GPU maps.
    pub(crate) fn free(&self, id: u32) -> Result {
        let mut memory = self.memory().lock();
        let mem = memory.get(id).ok_or(EINVAL)?;
        if !mem.mapped.is_empty() {
            return Err(EBUSY);
        }
        let mem = memory.remove(id).ok_or(EINVAL)?;
        drop(memory);
        self.forget(mem);
        Ok(())
    }

    /// Lets go of a buffer. Mappings of the CPU that exist keep the memory until they go.
    fn forget(&self, mem: Mem) {
        if mem.flags.is_vram() && !mem.imported {
            self.account_vram(mem.size, -1);
        }
    }

    /// Whether a handle names a buffer of this GPU.
    pub(crate) fn has_memory(&self, id: u32) -> bool {
        self.memory().lock().get(id).is_some()
    }

    /// The memory of a buffer.
    pub(super) fn bo(&self, id: u32) -> Option<BoRef> {
        self.memory().lock().get(id).map(|mem| mem.bo().clone())
    }

    /// Maps a buffer of this GPU on `on`.
    pub(crate) fn map(&self, id: u32, on: &Device) -> Result {
        let vm = on.vm()?;
        let mut memory = self.memory().lock();
        let mem = memory.get_mut(id).ok_or(ENOMEM)?;
        mem.map(on, &vm)
    }

    /// Takes the mapping of a buffer of this GPU on `on` away.
    pub(crate) fn unmap(&self, id: u32, on: &Device) -> Result {
        let vm = on.vm().map_err(|_| EINVAL)?;
        let mut memory = self.memory().lock();
        let mem = memory.get_mut(id).ok_or(ENOMEM)?;
        mem.unmap(on, &vm)
    }
}

impl Process {
    /// Takes all mappings on `device` away, of whichever GPU's buffers, then frees the buffers of
    /// `device`. Its queues are gone.
    pub(super) fn release_memory(&self, device: &Device) {
        for owner in &self.devices {
            let mut memory = owner.memory().lock();
            memory
                .values_mut()
                .for_each(|mem| unmap_for_good(mem, device));
        }
        loop {
            let Some(mut mem) = device.memory().lock().pop() else {
                break;
            };
            for peer in &self.devices {
                unmap_for_good(&mut mem, peer);
            }
            device.forget(mem);
        }
    }
}

fn unmap_for_good(mem: &mut Mem, device: &Device) {
    let Ok(vm) = device.vm() else { return };
    if !mem.mapped.contains(&device.id()) {
        return;
    }
    if let Err(e) = mem.unmap(device, &vm) {
        pr_err!(
            "GPU {:#x}: buffer at {:#x} stays mapped until its address space goes: {e:?}\n",
            device.id(),
            mem.va
        );
    }
}
