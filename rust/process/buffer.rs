// SPDX-License-Identifier: GPL-2.0

//! One buffer of a process and its mappings on GPUs.
//!
//! A buffer has the same virtual address on all GPUs, chosen by user space when it is allocated.

use kernel::{num::casts::u32_as_usize, pr_warn_once, prelude::*};

use super::{
    events::{SignalPage, UNSIGNALED},
    userptr::UserptrRegistration,
};
use crate::{
    hw::Mtype,
    kapi::dmabuf::DmaBuf,
    mmu::{gem::Gem, Access, Bo, BoFlags, CpuAccess, Vm},
    uapi,
};

/// `KFD_IOC_ALLOC_MEM_FLAGS_*` of a buffer.
#[derive(Clone, Copy)]
pub(crate) struct AllocFlags(pub(crate) u32);

impl AllocFlags {
    /// Returns whether a flag is set.
    pub(crate) const fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    /// Returns whether the buffer is in VRAM.
    pub(crate) const fn is_vram(self) -> bool {
        self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
    }

    /// Returns whether the buffer is mapped twice in a row, as the ring of an AQL queue.
    pub(crate) const fn is_aql(self) -> bool {
        self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM)
    }

    /// Returns whether the buffer is a userptr.
    pub(crate) const fn is_user(self) -> bool {
        self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
            && !self.is_vram()
            && !self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_GTT)
    }

    /// Returns the flags of the BO.
    pub(super) fn bo_flags(self) -> BoFlags {
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
            memory: None,
            explicit_sync: false,
        }
    }

    /// Returns the access rights of the GPU.
    pub(super) const fn access(self) -> Access {
        Access {
            read: true,
            write: self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE),
            exec: self.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE),
            mtype: Mtype::NonCoherent,
        }
    }
}

/// Ids of GPUs that map a buffer, without an allocation for the first one.
#[derive(Default)]
struct MappedOn {
    first: Option<u32>,
    /// `None`: the drop of an empty list calls the allocator, too.
    more: Option<KVec<u32>>,
}

impl MappedOn {
    fn more(&self) -> &[u32] {
        self.more.as_deref().unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.first.is_none() && self.more().is_empty()
    }

    fn contains(&self, id: u32) -> bool {
        self.first == Some(id) || self.more().contains(&id)
    }

    /// Makes room for an id. `ENOMEM` without memory.
    fn reserve(&mut self) -> Result {
        if self.first.is_some() {
            let more = self.more.get_or_insert_with(KVec::new);
            more.reserve(1, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// Adds an id. `ENOMEM` without room.
    fn add(&mut self, id: u32) -> Result {
        if self.first.is_none() {
            self.first = Some(id);
            return Ok(());
        }
        let more = self.more.as_mut().ok_or(ENOMEM)?;
        Ok(more.push_within_capacity(id)?)
    }

    /// Removes an id. Returns whether it was there.
    fn remove(&mut self, id: u32) -> bool {
        if self.first == Some(id) {
            self.first = None;
            return true;
        }
        let at = self.more().iter().position(|other| *other == id);
        let more = self.more.as_mut();
        at.zip(more)
            .is_some_and(|(at, more)| more.remove(at).is_ok())
    }
}

/// A buffer with its mappings on GPUs.
pub(crate) struct Buffer {
    /// Of a userptr buffer.
    _userptr: Option<UserptrRegistration>,
    gem: Gem,
    /// GPU virtual address on all GPUs.
    va: u64,
    /// Size in bytes; an AQL ring is mapped twice in a row.
    size: u64,
    flags: AllocFlags,
    /// Imported from a dma-buf: not counted as VRAM usage of the process.
    imported: bool,
    mapped: MappedOn,
}

/// The signal page in a buffer.
pub(super) struct BufferSlots(Bo);

impl BufferSlots {
    /// Returns the signal page in `bo`. `EINVAL` if the CPU cannot access the memory.
    pub(super) fn new(bo: Bo) -> Result<Self> {
        bo.read64(0)?;
        Ok(Self(bo))
    }
}

impl SignalPage for BufferSlots {
    fn load(&self, slot: u32) -> u64 {
        // Cannot fail: the slots are inside of the buffer, which the CPU can access.
        self.0
            .read64(u32_as_usize(slot) * size_of::<u64>())
            .unwrap_or(UNSIGNALED)
    }

    fn store(&self, slot: u32, value: u64) {
        if self
            .0
            .write64(u32_as_usize(slot) * size_of::<u64>(), value)
            .is_err()
        {
            pr_warn_once!("signal slot {slot} is not writable\n");
        }
    }
}

impl Buffer {
    /// Returns an allocated buffer of a GPU that is mapped nowhere yet.
    pub(super) fn new(
        gem: Gem,
        userptr: Option<UserptrRegistration>,
        va: u64,
        flags: AllocFlags,
    ) -> Self {
        Self {
            _userptr: userptr,
            va,
            size: gem.bo().size(),
            gem,
            flags,
            imported: false,
            mapped: MappedOn::default(),
        }
    }

    /// Returns an imported buffer that is to be mapped at `va`.
    pub(super) fn imported(gem: Gem, va: u64, flags: AllocFlags) -> Self {
        Self {
            imported: true,
            ..Self::new(gem, None, va, flags)
        }
    }

    /// Exports the buffer as a dma-buf.
    pub(super) fn export(&self) -> Result<DmaBuf> {
        self.gem.export(self.flags.access().write)
    }

    /// Returns the BO.
    pub(super) fn bo(&self) -> &Bo {
        self.gem.bo()
    }

    /// Returns the mmap offset in the render node.
    pub(super) fn mmap_offset(&self) -> u64 {
        self.gem.mmap_offset()
    }

    /// Returns the bytes that count as VRAM usage of the process.
    pub(super) fn vram_usage(&self) -> u64 {
        if self.flags.is_vram() && !self.imported {
            self.size
        } else {
            0
        }
    }

    /// Returns whether a GPU maps the buffer.
    pub(super) fn is_mapped(&self) -> bool {
        !self.mapped.is_empty()
    }

    /// Returns whether the GPU with this id maps the buffer.
    pub(super) fn is_mapped_on(&self, gpu_id: u32) -> bool {
        self.mapped.contains(gpu_id)
    }

    fn map_at(&self, va: u64, vm: &Vm) -> Result {
        vm.map(va, self.bo(), 0, self.size, self.flags.access())
    }

    /// Maps the buffer in the address space of a GPU. Does nothing if it is mapped there. `EINVAL`
    /// if the address range is taken, or the buffer was allocated without an address.
    pub(super) fn map(&mut self, gpu_id: u32, vm: &Vm) -> Result {
        if self.is_mapped_on(gpu_id) {
            return Ok(());
        }
        if self.va == 0 {
            return Err(EINVAL);
        }
        self.mapped.reserve()?;
        self.map_at(self.va, vm)?;
        if self.flags.is_aql() {
            if let Err(e) = self.map_at(self.va + self.size, vm) {
                // Its error would hide the first one.
                let _ = vm.unmap(self.va, self.size);
                return Err(e);
            }
        }
        self.mapped.add(gpu_id)
    }

    /// Returns the ranges at which a GPU maps the buffer, with their sizes: the caller unmaps them.
    /// The buffer counts as unmapped there.
    pub(super) fn take_mapped(&mut self, gpu_id: u32) -> [Option<(u64, u64)>; 2] {
        match self.mapped.remove(gpu_id) {
            true => self.ranges(),
            false => [None; 2],
        }
    }

    /// Returns the ranges at which a GPU maps the buffer, with their sizes.
    fn ranges(&self) -> [Option<(u64, u64)>; 2] {
        let second = self
            .flags
            .is_aql()
            .then_some((self.va + self.size, self.size));
        [Some((self.va, self.size)), second]
    }

    /// Unmaps the buffer. `EINVAL` if the GPU does not map it, `EBUSY` if a queue has pinned a
    /// mapping: both of an AQL ring stay.
    pub(super) fn unmap(&mut self, gpu_id: u32, vm: &Vm) -> Result {
        if !self.is_mapped_on(gpu_id) {
            return Err(EINVAL);
        }
        vm.unmap_both(self.ranges())?;
        self.mapped.remove(gpu_id);
        Ok(())
    }
}
