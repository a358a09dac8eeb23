// SPDX-License-Identifier: GPL-2.0

//! The address space of a process on one GPU.

use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{AtomicFlag, Relaxed},
        Arc, Mutex,
    },
};

use super::{
    bo::BoRef,
    pasid::Pasid,
    pgtable::{Tree, Update},
    tlb,
};
use crate::{gpu::Gpu, hw::FlushType, trace};

/// A buffer object in the address space.
struct Mapping {
    va: u64,
    len: u64,
    /// Users that need the mapping where it is.
    pins: u32,
    /// Keeps the memory while the GPU can reach it.
    _bo: BoRef,
}

struct Inner {
    tree: Tree,
    /// Sorted by address, without overlap.
    mappings: KVVec<Mapping>,
}

/// An address space.
#[pin_data]
pub(crate) struct Vm {
    #[pin]
    inner: Mutex<Inner>,
    pasid: Pasid,
    gpu: Arc<Gpu>,
    root: u64,
    /// A process computes in it.
    claimed: AtomicFlag,
}

impl Vm {
    /// Makes an empty address space with a PASID of its own.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Arc<Self>> {
        gpu.mmio()?;
        let pasid = Pasid::alloc()?;
        let tree = Tree::new(gpu)?;
        let root = gpu.generation().gmc.root(tree.root_pa(gpu));
        gpu.hub().hdp_flush()?;
        Arc::pin_init(
            pin_init!(Self {
                inner <- new_mutex!(Inner {
                    tree,
                    mappings: KVVec::new(),
                }),
                pasid,
                gpu: gpu.clone(),
                root,
                claimed: AtomicFlag::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// The PASID.
    pub(crate) fn pasid(&self) -> u32 {
        self.pasid.get()
    }

    /// The page table base with its flags, as MAP_PROCESS wants it. It stays the same for the
    /// life of the address space.
    pub(crate) fn root(&self) -> u64 {
        self.root
    }

    /// Makes it the address space of a process; false if it is one already.
    pub(crate) fn claim(&self) -> bool {
        !self.claimed.xchg(true, Relaxed)
    }

    fn check_range(&self, va: u64, len: u64) -> Result<u64> {
        let page = PAGE_SIZE as u64;
        let end = va.checked_add(len).ok_or(EINVAL)?;
        let top = 1u64 << (self.gpu.generation().caps.va_bits - 1);
        if len == 0 || va % page != 0 || len % page != 0 || end > top {
            return Err(EINVAL);
        }
        Ok(end)
    }

    /// Maps `len` bytes of `bo` from `offset` on at `va`. `EINVAL` when something is mapped there.
    /// The GPU sees the mapping when this returns.
    pub(crate) fn map(&self, va: u64, bo: &BoRef, offset: u64, len: u64) -> Result {
        let end = self.check_range(va, len)?;
        let bo_end = offset.checked_add(len).ok_or(EINVAL)?;
        if offset % PAGE_SIZE as u64 != 0 || bo_end > bo.size() {
            return Err(EINVAL);
        }
        self.gpu.mmio()?;
        let mut inner = self.inner.lock();
        let at = inner.mappings.partition_point(|m| m.va + m.len <= va);
        if inner.mappings.get(at).is_some_and(|m| m.va < end) {
            return Err(EINVAL);
        }
        inner.mappings.reserve(1, GFP_KERNEL)?;
        let mut update = Update::new(&self.gpu);
        let done = inner.tree.map(&mut update, va, bo, offset, len);
        if let Err(e) = done {
            // What was written so far must not stay.
            inner.tree.unmap(&mut update, va, len)?;
            self.finish(update, FlushType::Heavyweight)?;
            return Err(e);
        }
        self.finish(update, FlushType::Legacy)?;
        let new = Mapping {
            va,
            len,
            pins: 0,
            _bo: bo.clone(),
        };
        inner
            .mappings
            .insert_within_capacity(at, new)
            .map_err(|_| ENOMEM)?;
        trace::vm_map(self.gpu.id(), self.pasid(), va, len, 0, true);
        Ok(())
    }

    /// Takes the mapping of exactly this range away; `EINVAL` when there is none, `EBUSY` when it
    /// is pinned. The GPU cannot reach the memory any more when this returns.
    pub(crate) fn unmap(&self, va: u64, len: u64) -> Result {
        self.check_range(va, len)?;
        let mut inner = self.inner.lock();
        let at = inner
            .mappings
            .iter()
            .position(|m| m.va == va && m.len == len)
            .ok_or(EINVAL)?;
        if inner.mappings.get(at).is_some_and(|m| m.pins > 0) {
            return Err(EBUSY);
        }
        let mut update = Update::new(&self.gpu);
        if self.gpu.mmio().is_ok() {
            inner.tree.unmap(&mut update, va, len)?;
            self.finish(update, FlushType::Heavyweight)?;
        }
        let gone = inner.mappings.remove(at);
        drop(inner);
        drop(gone);
        trace::vm_map(self.gpu.id(), self.pasid(), va, len, 0, false);
        Ok(())
    }

    /// Makes the change visible and frees tables that are not needed any more.
    fn finish(&self, update: Update<'_>, kind: FlushType) -> Result {
        self.gpu.hub().hdp_flush()?;
        tlb::flush_pasid(&self.gpu, self.pasid(), kind)?;
        drop(update);
        Ok(())
    }

    /// Keeps the mapping that starts at `va` from being taken away. It has to be `len` bytes long,
    /// or of any length if `len` is 0; `EINVAL` when there is none.
    pub(crate) fn pin(self: &Arc<Self>, va: u64, len: u64) -> Result<Pin> {
        let mut inner = self.inner.lock();
        let mapping = inner
            .mappings
            .iter_mut()
            .find(|m| m.va == va && (len == 0 || m.len == len))
            .ok_or(EINVAL)?;
        mapping.pins += 1;
        Ok(Pin {
            vm: self.clone(),
            va,
        })
    }
}

/// Keeps a mapping in place.
pub(crate) struct Pin {
    vm: Arc<Vm>,
    va: u64,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut inner = self.vm.inner.lock();
        if let Some(mapping) = inner.mappings.iter_mut().find(|m| m.va == self.va) {
            mapping.pins -= 1;
        }
    }
}
