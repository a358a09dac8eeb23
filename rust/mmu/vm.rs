// SPDX-License-Identifier: GPL-2.0

//! Handles of address spaces, held by processes and jobs.

use core::ops::Range;

use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

use super::{
    bo::{self, Bo},
    inner::{EvictionHandler, QueueOwner},
    peer::PeerUse,
    pgtable::Spare,
    placement::{Access, BoKind, Placement, SystemPages},
    space::{Inner, Mapping, Removed, Space},
};
use crate::{
    card::gart::GartMapping,
    gpu::Gpu,
    ring::sdma::JobVm,
    trace, //
};

/// Closes an address space when it is dropped.
struct Closer(Arc<Space>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// An address space. Dropping the last reference frees it.
pub(crate) struct Vm {
    pub(super) space: Arc<Space>,
    /// Until the drop.
    closer: Option<Arc<Closer>>,
    root: u64,
}

impl Vm {
    /// Returns an empty address space with a PASID of its own, of a memory partition. `ENODEV` when
    /// the device is unplugged, `ENOMEM` without memory, `ENOSPC` without a PASID.
    pub(crate) fn new(gpu: &Arc<Gpu>, memory: Option<u32>) -> Result<Arc<Self>> {
        gpu.check_plugged()?;
        let (space, root) = Space::new(gpu, memory)?;
        let closer = Some(Arc::new(Closer(space.clone()), GFP_KERNEL)?);
        let vm = Self {
            space,
            closer,
            root,
        };
        Ok(Arc::new(vm, GFP_KERNEL)?)
    }

    /// Returns the PASID.
    pub(crate) fn pasid(&self) -> u32 {
        self.space.pasid()
    }

    /// Returns whether it is an address space of this card.
    pub(crate) fn is_of(&self, gpu: &Gpu) -> bool {
        core::ptr::eq(&*self.space.gpu, gpu)
    }

    /// Returns the card.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.space.gpu
    }

    /// Returns the address space for a job, with a reference to it.
    pub(crate) fn job_vm(self: &Arc<Self>) -> JobVm {
        JobVm {
            pasid: self.pasid(),
            root: self.root,
            _vm: self.clone(),
        }
    }

    /// Returns the page table base with its flags, as MAP_PROCESS takes it. Constant.
    pub(crate) fn root(&self) -> u64 {
        self.root
    }

    /// Makes it the address space of user queues, which `handler` unmaps before a BO mapped here
    /// moves. `EINVAL` if it is one of this kind of owner already, `EINTR` after a signal.
    pub(crate) fn claim(&self, owner: QueueOwner, handler: Arc<dyn EvictionHandler>) -> Result {
        // Wait for moves that began before: no queue may be created during those. They may wait for
        // jobs of others.
        self.for_each_bo(|bo| bo.resv().lock_interruptible().map(drop))?;
        if !self.space.set_handler(owner, handler) {
            return Err(EINVAL);
        }
        // For those that began meanwhile: the handler cannot be removed after a signal.
        self.for_each_bo(|bo| {
            drop(bo.resv().lock());
            Ok(())
        })
    }

    /// Calls `f` for the BO of each mapping, until it returns an error.
    fn for_each_bo(&self, f: impl Fn(&Bo) -> Result) -> Result {
        let mut next = Some(0);
        while let Some((bo, after)) = next.and_then(|va| self.space.mapping_from(va)) {
            f(&bo)?;
            next = after;
        }
        Ok(())
    }

    /// Maps `len` bytes of `bo` from `offset` on at `va`. Visible to the GPU on return.
    ///
    /// `EINVAL` when the range is bad or mapped already, or for VRAM or registers of another card,
    /// `ENOMEM` without memory, `ENODEV` when the device is unplugged, `EINTR` after a signal.
    pub(crate) fn map(&self, va: u64, bo: &Bo, offset: u64, len: u64, access: Access) -> Result {
        self.space.check_range(va, len)?;
        self.map_checked(va, bo, offset, len, access)
    }

    /// As [`Self::map`] for the first `len` bytes of memory of the driver, in the upper half of the
    /// address space, which programs cannot map. It stays mapped.
    pub(crate) fn map_reserved(&self, va: u64, bo: &Bo, len: u64, access: Access) -> Result {
        self.map_checked(va, bo, 0, len, access)
    }

    /// Returns the error of [`Self::map`], apart from `ENOMEM` and `EINTR`, after the mappings at
    /// addresses for which `is_replaced` is true are removed.
    pub(crate) fn check_replace(
        &self,
        va: u64,
        bo: &Bo,
        offset: u64,
        len: u64,
        is_replaced: impl Fn(u64) -> bool,
    ) -> Result {
        self.space.check_range(va, len)?;
        self.check_bo(bo, offset, len)?;
        if self.space.maps_only(&(va..va + len), is_replaced) {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// Returns `EBUSY` when a mapping in `range` has more pins than `known` returns for its
    /// address; `None`: it does not matter. It may be pinned later, unless the caller excludes
    /// that.
    pub(crate) fn check_unpinned(
        &self,
        range: &Range<u64>,
        known: impl Fn(u64) -> Option<u32>,
    ) -> Result {
        match self.space.has_pins(range, known) {
            true => Err(EBUSY),
            false => Ok(()),
        }
    }

    fn check_bo(&self, bo: &Bo, offset: u64, len: u64) -> Result {
        let gpu = &self.space.gpu;
        let bo_end = offset.checked_add(len).ok_or(EINVAL)?;
        if offset % PAGE_SIZE as u64 != 0 || bo_end > bo.size() {
            return Err(EINVAL);
        }
        let in_system = matches!(bo.preferred(), BoKind::Gtt | BoKind::User);
        if !core::ptr::eq(&**gpu, &**bo.inner().gpu()) && !in_system {
            // As the C driver without CONFIG_HSA_AMD_P2P, or if the BAR is not accessible.
            return Err(EINVAL);
        }
        gpu.check_plugged()
    }

    fn map_checked(&self, va: u64, bo: &Bo, offset: u64, len: u64, access: Access) -> Result {
        self.check_bo(bo, offset, len)?;
        let gpu = &self.space.gpu;
        // The reservation excludes a move until the mapping is in the BO's list.
        let _held = bo.resv().lock_interruptible()?;
        if self.space.has_queues() {
            // User queues do not validate it later.
            bo::validate(bo)?;
        } else {
            gpu.lru().touch(&**bo.inner());
        }
        let placement = bo.inner().placement();
        bo.inner().add_mapping(self.space.clone(), va)?;
        let new = Mapping::new(va, len, bo, offset, access);
        let mut spare = Spare::default();
        let mapped = gpu.alloc_or_evict(self.space.memory(), || {
            self.space.map(&new, &placement, &mut spare)
        });
        if mapped.is_err() {
            bo.inner().remove_mapping(&*self.space, va);
        }
        mapped?;
        trace::vm_map(gpu.id(), self.pasid(), va, len, 0, true);
        Ok(())
    }

    /// Unmaps exactly this range. The GPU cannot access the memory on return. `EINVAL` when it is
    /// not a mapping, `EBUSY` when it is pinned.
    pub(crate) fn unmap(&self, va: u64, len: u64) -> Result {
        self.unmap_both([Some((va, len)), None])
    }

    /// Unmaps ranges as [`Vm::unmap`], with one flush of the TLBs. When one is not a mapping, or is
    /// pinned, the other one stays mapped throughout.
    pub(crate) fn unmap_both(&self, ranges: [Option<(u64, u64)>; 2]) -> Result {
        let removed = self.space.unmap(ranges)?;
        for mapping in removed.into_iter().flatten() {
            self.forget(mapping);
        }
        Ok(())
    }

    /// Drops a mapping that was removed from the page tables.
    fn forget(&self, removed: Removed) {
        let (va, mapping) = removed.to_key_value();
        let len = mapping.len();
        mapping.bo.inner().remove_mapping(&*self.space, va);
        drop(mapping);
        trace::vm_map(self.space.gpu.id(), self.pasid(), va, len, 0, false);
    }

    /// Unmaps ranges as [`Vm::unmap`], with one flush of the TLBs. Returns the first error; ranges
    /// that failed stay mapped.
    pub(crate) fn unmap_all(&self, ranges: &[(u64, u64)]) -> Result {
        let Ok(mut removed) = KVec::with_capacity(ranges.len(), GFP_KERNEL) else {
            let each = ranges.iter().map(|(va, len)| self.unmap(*va, *len));
            return each.fold(Ok(()), Result::and);
        };
        let result = self.space.unmap_all(ranges, &mut removed);
        for mapping in removed {
            self.forget(mapping);
        }
        result
    }

    /// Unmaps ranges as [`Vm::unmap_all`]; those that are pinned, and nothing pins again, when the
    /// last pin is dropped.
    pub(crate) fn close_all(&self, ranges: &[(u64, u64)]) -> Result {
        self.space.close_mappings(ranges);
        self.unmap_all(ranges)
    }

    /// Unmaps `part` of the mapping of `bo` from `va` to `end`, which is not user memory; the rest
    /// stays mapped. The GPU cannot access the part on return. `EINVAL` without such a mapping,
    /// `EBUSY` when it is pinned, `ENOMEM` without memory, `EINTR` after a signal: nothing has
    /// changed.
    pub(crate) fn cut(&self, va: u64, end: u64, bo: &Bo, part: &Range<u64>) -> Result {
        let gpu = &self.space.gpu;
        // The memory does not move meanwhile.
        let _held = bo.resv().lock_interruptible()?;
        let placement = bo.inner().placement();
        let above = part.end < end;
        if above {
            bo.inner().add_mapping(self.space.clone(), part.end)?;
        }
        let cut = gpu.alloc_or_evict(self.space.memory(), || {
            self.space.cut(va, bo.inner(), &placement, part)
        });
        if let Err(e) = cut {
            if above {
                bo.inner().remove_mapping(&*self.space, part.end);
            }
            return Err(e);
        }
        if part.start == va {
            bo.inner().remove_mapping(&*self.space, va);
        }
        trace::vm_map(
            gpu.id(),
            self.pasid(),
            part.start,
            part.end - part.start,
            0,
            false,
        );
        Ok(())
    }

    /// Returns the BO of the first mapping at or above `va`, and the address from which to search
    /// for the next one.
    pub(super) fn mapping_from(&self, va: u64) -> Option<(Bo, Option<u64>)> {
        self.space.mapping_from(va)
    }

    /// Reads the qword at `va`, in a kernel thread, without waiting for a move or faulting pages
    /// in. `EINVAL` if it is not mapped, or not in system memory, otherwise the errors of
    /// [`Interval::peek64`](crate::kapi::hmm::Interval::peek64).
    pub(crate) fn peek64(&self, va: u64) -> Result<u64> {
        let (bo, at) = {
            let guard = self.space.inner.lock();
            let inner: &Option<Inner> = &guard;
            let mapping = inner.as_ref().and_then(|all| all.covering(va));
            let mapping = mapping.ok_or(EINVAL)?;
            (mapping.bo.clone(), mapping.offset + (va - mapping.va))
        };
        match bo.inner().placement() {
            Placement::System(memory) => memory.pages().read64(usize::try_from(at)?),
            Placement::User(_) => {
                let memory = bo.inner().user().ok_or(EINVAL)?;
                memory.peek64(usize::try_from(at)?)
            }
            _ => Err(EINVAL),
        }
    }

    /// Pins the mapping that covers the `len` bytes at `va`: it cannot be unmapped while the result
    /// exists. `EINVAL` when there is none, or it is closed.
    pub(crate) fn pin_covering(self: &Arc<Self>, va: u64, len: u64) -> Result<Pin> {
        let end = va.checked_add(len).ok_or(EINVAL)?;
        let mut guard = self.space.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let inner = inner.as_mut().ok_or(EINVAL)?;
        let covering = inner
            .covering(va)
            .filter(|m| end <= m.va + m.len() && !m.closed);
        let at = covering.ok_or(EINVAL)?.va;
        let mapping = inner.mappings.get_mut(&at).ok_or(EINVAL)?;
        mapping.pins += 1;
        Ok(Pin {
            vm: self.clone(),
            va: mapping.va,
        })
    }

    /// Pins the mapping that starts at `va`: it cannot be unmapped while the result exists.
    /// `EINVAL` when there is none of `len` bytes, or of any length if `len` is 0, or it is closed.
    pub(crate) fn pin(self: &Arc<Self>, va: u64, len: u64) -> Result<Pin> {
        let mut guard = self.space.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let mapping = inner
            .as_mut()
            .and_then(|all| all.mappings.get_mut(&va))
            .filter(|m| (len == 0 || m.len() == len) && !m.closed)
            .ok_or(EINVAL)?;
        mapping.pins += 1;
        Ok(Pin {
            vm: self.clone(),
            va,
        })
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // The last reference may be that of a completed job: no locks here.
        if let Some(closer) = self.closer.take() {
            self.space.gpu.vram().drop_after(closer, KVec::new());
        }
    }
}

/// Keeps a mapping from being unmapped.
pub(crate) struct Pin {
    vm: Arc<Vm>,
    va: u64,
}

/// A page of a BO mapped in VMID 0.
pub(crate) struct KernelPage {
    // Field order: unmapped before the memory is unmapped for the device and freed.
    mapping: GartMapping,
    _peer: Option<Arc<PeerUse>>,
    _memory: Arc<SystemPages>,
}

impl KernelPage {
    /// Returns the address in VMID 0.
    pub(crate) fn addr(&self) -> u64 {
        self.mapping.addr()
    }
}

impl Pin {
    /// Returns the first address of the mapping.
    pub(crate) fn va(&self) -> u64 {
        self.va
    }

    /// Returns what `f` returns for the mapping. `EINVAL` after the address space was closed.
    fn mapping<R>(&self, f: impl FnOnce(&Mapping) -> R) -> Result<R> {
        let guard = self.vm.space.inner.lock();
        let inner: &Option<Inner> = &guard;
        inner
            .as_ref()
            .and_then(|all| all.mappings.get(&self.va))
            .map(f)
            .ok_or(EINVAL)
    }

    /// Returns the size of the BO in bytes. `EINVAL` after the address space was closed.
    pub(crate) fn bo_size(&self) -> Result<u64> {
        self.mapping(|mapping| mapping.bo.size())
    }

    /// Maps the first page in VMID 0 until the result is dropped. `EPERM` for userptr BOs, `EINVAL`
    /// for BOs that are not, or may not stay, in system memory, `ENOMEM` when the GART is full.
    pub(crate) fn map_to_kernel(&self) -> Result<KernelPage> {
        let (bo, offset, peer) =
            self.mapping(|mapping| (mapping.bo.clone(), mapping.offset, mapping.peer.clone()))?;
        if bo.inner().user().is_some() {
            return Err(EPERM);
        }
        // A BO that prefers VRAM moves back.
        if bo.preferred() != BoKind::Gtt {
            return Err(EINVAL);
        }
        let Placement::System(memory) = bo.inner().placement() else {
            return Err(EINVAL);
        };
        let (gpu, len) = (&self.vm.space.gpu, PAGE_SIZE as u64);
        let mapping = match &peer {
            Some(peer) => gpu.map_pages(peer.mapping(), offset, len)?,
            None => gpu.map_pages(memory.pages(), offset, len)?,
        };
        Ok(KernelPage {
            mapping,
            _peer: peer,
            _memory: memory,
        })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(mapping) = self.vm.space.unpin(self.va) {
            self.vm.forget(mapping);
        }
    }
}
