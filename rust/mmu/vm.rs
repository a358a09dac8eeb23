// SPDX-License-Identifier: GPL-2.0

//! The address space of a process on one GPU.
//!
//! Mappings are always valid: when a buffer moves, the entries of all address spaces that map it
//! follow, see [`Follow`].

use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{Arc, Mutex, SetOnce},
};

use super::{
    bo::{BoKind, BoRef},
    evict::{self, Owner},
    pasid::Pasid,
    pgtable::{Span, Spare, Target, Tree, Update},
    store::{Place, Store, System},
    tlb,
    user::UserMemory,
};
use crate::{
    gpu::{dma, gart::Window, Gpu},
    hw::FlushType,
    kapi::task::NoReclaim,
    trace,
};

/// What a mapping may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) exec: bool,
}

/// A buffer object in the address space.
struct Mapping {
    va: u64,
    len: u64,
    /// Users that need the mapping where it is.
    pins: u32,
    offset: u64,
    access: Access,
    /// Keeps the memory while the GPU can reach it.
    bo: BoRef,
}

/// What changed addresses led to before. TLBs keep what they have found, never that there was nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing, or the TLBs were flushed since.
    Empty,
    /// Memory.
    Translated,
}

struct Inner {
    tree: Tree,
    /// Sorted by address, without overlap.
    mappings: KVVec<Mapping>,
}

/// What buffers know of an address space that maps them.
#[pin_data]
pub(super) struct Space {
    /// `None` at the end.
    #[pin]
    inner: Mutex<Option<Inner>>,
    /// The process that computes in it.
    owner: SetOnce<Arc<dyn Owner>>,
    /// Entries that lead to pages of a process, by the address of their mapping. They are written
    /// under this lock only, and cleared by invalidations: nobody waits for memory under it.
    #[pin]
    shown: Mutex<KVVec<(u64, KVVec<Span>)>>,
    pasid: Pasid,
    gpu: Arc<Gpu>,
}

/// The address spaces of a GPU.
#[pin_data]
pub(crate) struct Spaces {
    /// For a look or a change: nobody waits under the lock.
    #[pin]
    list: Mutex<KVVec<Arc<Space>>>,
}

impl Spaces {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(KVVec::new(), "rkfd_spaces"),
        })
    }

    fn remove(&self, space: &Arc<Space>) {
        let mut list = self.list.lock();
        let at = list.iter().position(|s| Arc::ptr_eq(s, space));
        let gone = at.and_then(|at| {
            let last = list.len() - 1;
            list.swap(at, last);
            list.pop()
        });
        drop(list);
        drop(gone);
    }
}

/// Writes the page tables of all address spaces of a GPU once more, as VRAM was lost. Nobody but the
/// caller may use the GPU. The TLBs are not flushed: there is nothing in them.
pub(crate) fn rewrite_tables(gpu: &Gpu) -> Result {
    for at in 0.. {
        let Some(space) = gpu.spaces().list.lock().get(at).cloned() else {
            break;
        };
        space.rewrite()?;
    }
    gpu.hub().hdp_flush()
}

/// Ends an address space when it is dropped.
struct Closer(Arc<Space>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.gpu.spaces().remove(&self.0);
        let inner = self.0.inner.lock().take();
        let Some(inner) = inner else { return };
        // The tables go: nobody may write to them any more.
        let shown = core::mem::take(&mut *self.0.shown.lock());
        drop(shown);
        for mapping in &inner.mappings {
            mapping.bo.store().remove_mapping(&self.0, mapping.va);
        }
        dma::forget(&self.0.gpu, self.0.pasid.get());
        drop(inner);
    }
}

/// An address space.
pub(crate) struct Vm {
    space: Arc<Space>,
    closer: Arc<Closer>,
    root: u64,
}

impl Vm {
    /// Makes an empty address space with a PASID of its own.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Arc<Self>> {
        gpu.mmio()?;
        let pasid = Pasid::alloc()?;
        let tree = evict::make_room(gpu, || Tree::new(gpu))?;
        let root = gpu.generation().gmc.root(tree.root_pa(gpu));
        gpu.hub().hdp_flush()?;
        let space = Arc::pin_init(
            pin_init!(Space {
                inner <- new_mutex!(Some(Inner {
                    tree,
                    mappings: KVVec::new(),
                }), "rkfd_vm"),
                owner: SetOnce::new(),
                shown <- new_mutex!(KVVec::new(), "rkfd_vm_shown"),
                pasid,
                gpu: gpu.clone(),
            }),
            GFP_KERNEL,
        )?;
        gpu.spaces().list.lock().push(space.clone(), GFP_KERNEL)?;
        let closer = Arc::new(Closer(space.clone()), GFP_KERNEL)?;
        let vm = Self {
            space,
            closer,
            root,
        };
        Ok(Arc::new(vm, GFP_KERNEL)?)
    }

    /// The PASID.
    pub(crate) fn pasid(&self) -> u32 {
        self.space.pasid.get()
    }

    /// The page table base with its flags, as MAP_PROCESS wants it. It stays the same for the
    /// life of the address space.
    pub(crate) fn root(&self) -> u64 {
        self.root
    }

    /// Makes it the address space of a process, which is asked before memory moves that is mapped
    /// here; false if it is one already.
    pub(crate) fn claim(&self, owner: Arc<dyn Owner>) -> bool {
        if !self.space.owner.populate(owner) {
            return false;
        }
        // What is moving just now did not ask: no queue may come before it is done.
        let mut next = Some(0);
        while let Some((bo, after)) = next.and_then(|va| self.space.mapping_from(va)) {
            drop(bo.resv().lock());
            next = after;
        }
        true
    }

    /// Maps `len` bytes of `bo` from `offset` on at `va`. `EINVAL` when something is mapped there.
    /// The GPU sees the mapping when this returns.
    pub(crate) fn map(&self, va: u64, bo: &BoRef, offset: u64, len: u64, access: Access) -> Result {
        let gpu = &self.space.gpu;
        self.space.check_range(va, len)?;
        let bo_end = offset.checked_add(len).ok_or(EINVAL)?;
        if offset % PAGE_SIZE as u64 != 0 || bo_end > bo.size() {
            return Err(EINVAL);
        }
        let in_system = matches!(bo.preferred(), super::BoKind::Gtt | super::BoKind::User);
        if !core::ptr::eq(&**gpu, &**bo.store().gpu()) && !in_system {
            // Peers reach each other's VRAM over the bus, which is not there yet.
            return Err(EOPNOTSUPP);
        }
        gpu.mmio()?;
        // The memory stays where it is until the mapping is known to it.
        let _held = bo.resv().lock();
        if self.space.owner().is_some() {
            // Nobody but jobs would bring it back later.
            evict::validate(bo)?;
        }
        let place = bo.store().place();
        bo.store().add_mapping(&self.space, va)?;
        let mapped = evict::make_room(gpu, || self.space.map(va, bo, &place, offset, len, access));
        if mapped.is_err() {
            bo.store().remove_mapping(&self.space, va);
        }
        mapped?;
        gpu.evictable().touch(bo.store());
        trace::vm_map(gpu.id(), self.pasid(), va, len, 0, true);
        Ok(())
    }

    /// Takes the mapping of exactly this range away; `EINVAL` when there is none, `EBUSY` when it
    /// is pinned. The GPU cannot reach the memory any more when this returns.
    pub(crate) fn unmap(&self, va: u64, len: u64) -> Result {
        self.space.check_range(va, len)?;
        let gone = self.space.unmap(va, len)?;
        gone.bo.store().remove_mapping(&self.space, va);
        drop(gone);
        trace::vm_map(self.space.gpu.id(), self.pasid(), va, len, 0, false);
        Ok(())
    }

    /// Keeps the mapping that starts at `va` from being taken away. It has to be `len` bytes long,
    /// or of any length if `len` is 0; `EINVAL` when there is none.
    pub(crate) fn pin(self: &Arc<Self>, va: u64, len: u64) -> Result<Pin> {
        let mut guard = self.space.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let mapping = inner
            .as_mut()
            .ok_or(EINVAL)?
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

impl Drop for Vm {
    fn drop(&mut self) {
        // The last user may be a job that has ended: nobody may wait for a lock there.
        let vram = self.space.gpu.vram();
        vram.drop_after(self.closer.clone(), KVec::new());
    }
}

impl Space {
    /// The process that computes in it.
    pub(super) fn owner(&self) -> Option<&Arc<dyn Owner>> {
        self.owner.as_ref()
    }

    /// The buffer of the first mapping at or behind `va`, and where to look for the next one.
    fn mapping_from(&self, va: u64) -> Option<(BoRef, Option<u64>)> {
        let guard = self.inner.lock();
        let inner: &Option<Inner> = &guard;
        let mappings = &inner.as_ref()?.mappings;
        let mapping = mappings.get(mappings.partition_point(|m| m.va < va))?;
        Some((mapping.bo.clone(), mapping.va.checked_add(1)))
    }

    /// Writes all tables once more.
    fn rewrite(&self) -> Result {
        let mut guard = self.inner.lock();
        let Some(inner) = &mut *guard else {
            return Ok(());
        };
        inner.tree.rewrite(&self.gpu)?;
        for at in 0..inner.mappings.len() {
            let mapping = &inner.mappings[at];
            let (va, len, offset) = (mapping.va, mapping.len, mapping.offset);
            let (bo, access) = (mapping.bo.clone(), mapping.access);
            let store = bo.store();
            let place = store.place();
            if matches!(place, Place::Nowhere) {
                continue;
            }
            let target = Target {
                place: &place,
                attrs: store.attrs(&place, access),
                offset,
            };
            if let Some(memory) = store.user() {
                self.write_user(inner, va, len, &target, memory)?;
                continue;
            }
            // The tables are there: this only writes entries.
            let mut update = Update::by_cpu(&self.gpu);
            inner.tree.map(&mut update, va, len, &target)?;
        }
        Ok(())
    }

    fn check_range(&self, va: u64, len: u64) -> Result {
        let page = PAGE_SIZE as u64;
        let end = va.checked_add(len).ok_or(EINVAL)?;
        let top = 1u64 << (self.gpu.generation().caps.va_bits - 1);
        if len == 0 || va % page != 0 || len % page != 0 || end > top {
            return Err(EINVAL);
        }
        Ok(())
    }

    fn map(
        &self,
        va: u64,
        bo: &BoRef,
        place: &Place,
        offset: u64,
        len: u64,
        access: Access,
    ) -> Result {
        let mut guard = self.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let inner = inner.as_mut().ok_or(EINVAL)?;
        let at = inner.mappings.partition_point(|m| m.va + m.len <= va);
        if inner.mappings.get(at).is_some_and(|m| m.va < va + len) {
            return Err(EINVAL);
        }
        inner.mappings.reserve(1, GFP_KERNEL)?;
        if !matches!(place, Place::Nowhere) {
            let target = Target {
                place,
                attrs: bo.store().attrs(place, access),
                offset,
            };
            match bo.store().user() {
                Some(memory) => self.write_user(inner, va, len, &target, memory)?,
                None => self.write(inner, va, len, &target)?,
            }
        }
        let new = Mapping {
            va,
            len,
            pins: 0,
            offset,
            access,
            bo: bo.clone(),
        };
        inner
            .mappings
            .insert_within_capacity(at, new)
            .map_err(|_| ENOMEM)
    }

    /// Writes the entries of a mapping where there are none; after an error there are none.
    fn write(&self, inner: &mut Inner, va: u64, len: u64, target: &Target<'_>) -> Result {
        let mut update = Update::new(&self.gpu, len);
        if let Err(e) = inner.tree.map(&mut update, va, len, target) {
            // What was written so far must not stay.
            update.give_up();
            inner.tree.unmap(&mut update, va, len)?;
            self.finish(&mut inner.tree, update, Before::Translated)?;
            return Err(e);
        }
        self.finish(&mut inner.tree, update, Before::Empty)
    }

    /// Lets the entries of the mapping of `store` at `va`, if there is one, lead to other pages of
    /// a process, or nowhere. After an error they lead nowhere.
    pub(super) fn show(&self, va: u64, store: &Store, place: &Place) -> Result {
        let mut guard = self.inner.lock();
        let Some(inner) = &mut *guard else {
            return Ok(());
        };
        let Some(mapping) = inner.find(va, store) else {
            return Ok(());
        };
        let len = mapping.len;
        let memory = store.user().filter(|_| !matches!(place, Place::Nowhere));
        let Some(memory) = memory else {
            return self.clear(inner, va, len);
        };
        let target = Target {
            place,
            attrs: store.attrs(place, mapping.access),
            offset: mapping.offset,
        };
        self.write_user(inner, va, len, &target, memory)
    }

    /// Lets the entries of a mapping of pages of a process lead to them, if they are still there;
    /// else, and after an error, nowhere.
    fn write_user(
        &self,
        inner: &mut Inner,
        va: u64,
        len: u64,
        target: &Target<'_>,
        memory: &UserMemory,
    ) -> Result {
        // What is still shown there may not be in these tables afterwards.
        let before = match self.clear_shown(va)? {
            true => Before::Translated,
            false => Before::Empty,
        };
        let mut update = Update::put_off(&self.gpu);
        let mapped = inner.tree.map(&mut update, va, len, target);
        let written = mapped.and_then(|()| self.show_if_current(&mut update, va, target, memory));
        match written {
            Ok(true) => self.finish(&mut inner.tree, update, before),
            Ok(false) => {
                // Who tells of the change sees to it that it is tried again.
                self.clear(inner, va, len)
            }
            Err(e) => {
                self.clear(inner, va, len)?;
                Err(e)
            }
        }
    }

    fn show_if_current(
        &self,
        update: &mut Update<'_>,
        va: u64,
        target: &Target<'_>,
        memory: &UserMemory,
    ) -> Result<bool> {
        let spans = update.spans()?;
        let mut shown = self.shown.lock();
        let _no_reclaim = NoReclaim::new();
        if !matches!(target.place, Place::User(pages) if pages.are_current(memory)) {
            return Ok(false);
        }
        shown.reserve(1, GFP_KERNEL)?;
        // From here on they are cleared when the pages go.
        shown.push_within_capacity((va, spans))?;
        update.write_all()?;
        Ok(true)
    }

    /// Lets the entries of the mapping at `va`, if they lead to pages of a process, lead nowhere.
    /// Without waiting for memory; complete on return.
    pub(super) fn hide(&self, va: u64) {
        let hidden = self.clear_shown(va).and_then(|any| {
            if !any {
                return Ok(());
            }
            self.gpu.hub().hdp_flush()?;
            tlb::flush_pasid(&self.gpu, self.pasid.get(), FlushType::Heavyweight)
        });
        if hidden.is_err() && self.gpu.check_usable().is_ok() {
            self.gpu.declare_hung("page tables could not be updated");
        }
    }

    /// Lets the entries of the mapping at `va` that lead to pages of a process lead nowhere, before
    /// the TLBs are flushed. Returns whether there were any.
    fn clear_shown(&self, va: u64) -> Result<bool> {
        // Held throughout: the tables exist as long as the spans are in the list.
        let mut shown = self.shown.lock();
        let Some(at) = shown.iter().position(|(at, _)| *at == va) else {
            return Ok(false);
        };
        let last = shown.len() - 1;
        shown.swap(at, last);
        let Some((_, spans)) = shown.pop() else {
            return Ok(false);
        };
        if self.gpu.mmio().is_ok() {
            spans.iter().try_for_each(|span| span.clear(&self.gpu))?;
        }
        Ok(true)
    }

    /// Lets all entries from `va` on lead nowhere.
    fn clear(&self, inner: &mut Inner, va: u64, len: u64) -> Result {
        self.clear_shown(va)?;
        let mut update = Update::new(&self.gpu, len);
        inner.tree.unmap(&mut update, va, len)?;
        self.finish(&mut inner.tree, update, Before::Translated)
    }

    fn unmap(&self, va: u64, len: u64) -> Result<Mapping> {
        let mut guard = self.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let inner = inner.as_mut().ok_or(EINVAL)?;
        let at = inner
            .mappings
            .iter()
            .position(|m| m.va == va && m.len == len)
            .ok_or(EINVAL)?;
        if inner.mappings.get(at).is_some_and(|m| m.pins > 0) {
            return Err(EBUSY);
        }
        if self.gpu.mmio().is_ok() {
            self.clear(inner, va, len)?;
        }
        inner.mappings.remove(at).map_err(|_| EINVAL)
    }

    /// Makes the change visible and frees tables that are not needed any more.
    fn finish(&self, tree: &mut Tree, mut update: Update<'_>, before: Before) -> Result {
        update.write_out()?;
        self.gpu.hub().hdp_flush()?;
        if before == Before::Translated || update.has_garbage() {
            tlb::flush_pasid(&self.gpu, self.pasid.get(), FlushType::Heavyweight)?;
        }
        tree.end(update);
        Ok(())
    }

    /// Gets ready for a move of `store`, which is mapped at `va`, to `place`. `None` if it is not
    /// mapped there any more.
    pub(super) fn prepare_follow(
        self: Arc<Self>,
        va: u64,
        store: &Store,
        place: &Place,
    ) -> Result<Option<Follow>> {
        let guard = self.inner.lock();
        let Some(inner) = &*guard else {
            return Ok(None);
        };
        let Some(mapping) = inner.find(va, store) else {
            return Ok(None);
        };
        let tables = match place {
            Place::System(_) => inner.tree.blocks(va, mapping.len),
            _ => 0,
        };
        drop(guard);
        let spare = Spare::new(&self.gpu, tables)?;
        Ok(Some(Follow {
            space: self,
            va,
            spare,
        }))
    }
}

impl Inner {
    fn find(&self, va: u64, store: &Store) -> Option<&Mapping> {
        self.mappings
            .iter()
            .find(|m| m.va == va && core::ptr::eq(&**m.bo.store(), store))
    }
}

/// Lets the entries of one mapping follow a buffer that has moved.
pub(super) struct Follow {
    space: Arc<Space>,
    va: u64,
    spare: Spare,
}

impl Follow {
    /// Points the entries to where the memory is now. The GPU sees that when this returns.
    pub(super) fn run(self, store: &Store) -> Result {
        let space = &self.space;
        let mut guard = space.inner.lock();
        let Some(inner) = &mut *guard else {
            return Ok(());
        };
        let Some(mapping) = inner.find(self.va, store) else {
            return Ok(());
        };
        let place = store.place();
        let target = Target {
            place: &place,
            attrs: store.attrs(&place, mapping.access),
            offset: mapping.offset,
        };
        let len = mapping.len;
        let mut update = Update::with_spare(&space.gpu, len, self.spare);
        let done = inner.tree.map(&mut update, self.va, len, &target);
        done.and(space.finish(&mut inner.tree, update, Before::Translated))
    }
}

/// Keeps a mapping in place.
pub(crate) struct Pin {
    vm: Arc<Vm>,
    va: u64,
}

/// A page of a buffer that kernel queues see.
pub(crate) struct KernelPage {
    // Field order: the window goes before the memory.
    window: Window,
    _memory: Arc<System>,
}

impl KernelPage {
    /// Its address for kernel queues (VMID 0).
    pub(crate) fn addr(&self) -> u64 {
        self.window.addr()
    }
}

impl Pin {
    /// Shows the first page to kernel queues, as long as the result lives. `EPERM` for memory of a
    /// process, `EINVAL` for what is not, or may not stay, in system memory.
    pub(crate) fn show_to_kernel(&self) -> Result<KernelPage> {
        let (bo, offset) = {
            let guard = self.vm.space.inner.lock();
            let inner: &Option<Inner> = &guard;
            let mapping = inner
                .as_ref()
                .and_then(|i| i.mappings.iter().find(|m| m.va == self.va))
                .ok_or(EINVAL)?;
            (mapping.bo.clone(), mapping.offset)
        };
        if bo.store().user().is_some() {
            return Err(EPERM);
        }
        // What belongs into VRAM goes back there some day.
        if bo.preferred() != BoKind::Gtt {
            return Err(EINVAL);
        }
        let Place::System(memory) = bo.store().place() else {
            return Err(EINVAL);
        };
        Ok(KernelPage {
            window: self
                .vm
                .space
                .gpu
                .window(memory.pages(), offset, PAGE_SIZE as u64)?,
            _memory: memory,
        })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut guard = self.vm.space.inner.lock();
        let inner: &mut Option<Inner> = &mut guard;
        let mapping = inner
            .as_mut()
            .and_then(|i| i.mappings.iter_mut().find(|m| m.va == self.va));
        if let Some(mapping) = mapping {
            mapping.pins -= 1;
        }
    }
}
