// SPDX-License-Identifier: GPL-2.0

//! The events of one process: creation, signalling by CPU and GPU, waiting.
//!
//! An event is a flag with an age. The GPU signals one by writing its id into the slot of the signal
//! page that the id names and raising an interrupt with the id in it; the CPU by `SET_EVENT`; the
//! driver itself signals memory and hardware exceptions, which carry data. Ids below
//! [`SIGNAL_LIMIT`] are slots of the signal page (id 0 is never given out: firmware sends it when
//! it has nothing to say), the others start at [`FIRST_OTHER_ID`].
//!
//! One spinlock guards all events of a process. It is a leaf: nothing else is taken under it, no
//! user memory is touched and nothing is allocated under it. The sleeping side is in [`wait`].

use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::SpinLock,
};

use crate::uapi;

pub(crate) mod wait;

pub(crate) use self::wait::{Outcome, Payload, Request};

/// Number of slots in the signal page, and thereby of signal events (slot 0 is never used).
pub(crate) const SIGNAL_LIMIT: u32 = uapi::KFD_SIGNAL_EVENT_LIMIT;
/// Bytes that the signal page has at least.
pub(crate) const PAGE_SIZE_MIN: usize = SIGNAL_LIMIT as usize * 8;
/// First id of events that have no slot.
pub(crate) const FIRST_OTHER_ID: u32 = (i32::MAX as u32 >> 1) + 1;
/// Last id of events that have no slot.
pub(crate) const LAST_OTHER_ID: u32 = i32::MAX as u32;
/// With fewer signal events than these it is less work to look for each than to look at all slots.
const FEW: u32 = SIGNAL_LIMIT / 64;
/// What a slot holds while nobody has signalled.
pub(crate) const UNSIGNALED: u64 = u64::MAX;

/// The signal page as the kernel sees it: memory that the GPU writes event ids into.
pub(crate) trait SignalPage: Send {
    /// Reads a slot, once.
    fn load(&self, slot: u32) -> u64;
    /// Writes a slot, once.
    fn store(&self, slot: u32, value: u64);
}

/// What kind of thing an event reports; the numbers are user space's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind(pub(crate) u32);

impl Kind {
    pub(crate) const SIGNAL: Self = Self(uapi::KFD_IOC_EVENT_SIGNAL);
    pub(crate) const HW_EXCEPTION: Self = Self(uapi::KFD_IOC_EVENT_HW_EXCEPTION);
    pub(crate) const DEBUG: Self = Self(uapi::KFD_IOC_EVENT_DEBUG_EVENT);
    pub(crate) const MEMORY: Self = Self(uapi::KFD_IOC_EVENT_MEMORY);

    /// Has a slot in the signal page and may be signalled by the GPU.
    fn has_slot(self) -> bool {
        self == Self::SIGNAL || self == Self::DEBUG
    }

    /// May be set and reset by `SET_EVENT` and `RESET_EVENT`.
    fn is_cpu_signaled(self) -> bool {
        self == Self::SIGNAL
    }
}

/// What a memory exception event tells.
#[derive(Clone, Copy, Default)]
pub(crate) struct MemoryException {
    pub(crate) not_present: bool,
    pub(crate) read_only: bool,
    pub(crate) no_execute: bool,
    pub(crate) va: u64,
    pub(crate) gpu_id: u32,
}

/// What a hardware exception event tells: the whole GPU is lost, and why.
#[derive(Clone, Copy, Default)]
pub(crate) struct HwException {
    pub(crate) cause: u32,
    pub(crate) memory_lost: bool,
    pub(crate) gpu_id: u32,
}

/// What `CREATE_EVENT` answers.
pub(crate) struct Created {
    pub(crate) id: u32,
    /// The event has a slot in the signal page; its index equals the id.
    pub(crate) has_slot: bool,
}

struct Event {
    kind: Kind,
    auto_reset: bool,
    signaled: bool,
    /// Starts at 1; 0 and 1 never come back after a wrap, as they mean "no age" and "new".
    age: u64,
    /// Tells this event from a later one with the same id.
    serial: u64,
    memory: MemoryException,
    hw: HwException,
    waiters: wait::List,
}

impl Event {
    fn new(kind: Kind, auto_reset: bool, serial: u64) -> Self {
        Self {
            kind,
            auto_reset,
            signaled: false,
            age: 1,
            serial,
            memory: Default::default(),
            hw: Default::default(),
            waiters: wait::List::new(),
        }
    }

    /// Signals the event: everybody who waits for it wakes; an auto-reset event that woke somebody
    /// is not signalled any more.
    fn set(&mut self) {
        self.signaled = !self.auto_reset || self.waiters.is_empty();
        self.age = match self.age.wrapping_add(1) {
            0 => 2,
            age => age,
        };
        self.waiters.activate();
    }
}

struct Page {
    slots: KBox<dyn SignalPage>,
    /// Handle of the buffer; `FREE_MEMORY_OF_GPU` must not take it.
    handle: u64,
}

struct Inner {
    events: RBTree<u32, Event>,
    page: Option<Page>,
    /// Signal events plus one for the reserved id 0.
    signal_count: u32,
    /// The other events.
    other_count: u32,
    /// No id below these is free in its range.
    free_signal: u32,
    free_other: u32,
    serial: u64,
}

impl Inner {
    /// The lowest free id in `hint..=last`.
    fn lowest_free(&self, hint: u32, last: u32) -> Option<u32> {
        (hint..=last).find(|id| self.events.get(id).is_none())
    }

    fn alloc_id(&mut self, kind: Kind) -> Result<u32> {
        if !kind.has_slot() {
            // As many as signal events: what is looked for under the lock stays short.
            if self.other_count >= SIGNAL_LIMIT {
                return Err(ENOSPC);
            }
            let id = self
                .lowest_free(self.free_other, LAST_OTHER_ID)
                .ok_or(ENOSPC)?;
            self.free_other = id + 1;
            self.other_count += 1;
            return Ok(id);
        }
        if self.page.is_none() {
            return Err(ENOMEM);
        }
        if self.signal_count >= SIGNAL_LIMIT {
            return Err(ENOSPC);
        }
        let id = self
            .lowest_free(self.free_signal, SIGNAL_LIMIT - 1)
            .ok_or(ENOSPC)?;
        self.free_signal = id + 1;
        self.signal_count += 1;
        if let Some(page) = &self.page {
            page.slots.store(id, UNSIGNALED);
        }
        Ok(id)
    }

    fn release_id(&mut self, id: u32, kind: Kind) {
        if kind.has_slot() {
            self.signal_count -= 1;
            self.free_signal = self.free_signal.min(id);
        } else {
            self.other_count -= 1;
            self.free_other = self.free_other.min(id);
        }
    }

    fn slot(&self, id: u32) -> u64 {
        self.page.as_ref().map_or(UNSIGNALED, |p| p.slots.load(id))
    }

    /// The event that an interrupt with the low `bits` bits of an id means, if its slot says so.
    fn find_signaled(&self, id: u32, bits: u32) -> Option<u32> {
        if self.page.is_none() || id >= SIGNAL_LIMIT {
            return None;
        }
        if bits > 31 || (1u32 << bits) >= SIGNAL_LIMIT {
            return (self.slot(id) != UNSIGNALED && self.events.get(&id).is_some()).then_some(id);
        }
        (id..SIGNAL_LIMIT)
            .step_by(1usize << bits)
            .find(|&id| self.slot(id) != UNSIGNALED && self.events.get(&id).is_some())
    }

    fn set_from_interrupt(&mut self, id: u32) {
        let Self { events, page, .. } = self;
        if let (Some(event), Some(page)) = (events.get_mut(&id), page) {
            if event.kind.has_slot() {
                page.slots.store(id, UNSIGNALED);
                event.set();
            }
        }
    }

    /// Calls `f` on every event of a kind; true if there was one.
    fn for_kind(&mut self, kind: Kind, mut f: impl FnMut(&mut Event)) -> bool {
        let mut found = false;
        for (_, event) in self.events.iter_mut().filter(|(_, e)| e.kind == kind) {
            f(event);
            found = true;
        }
        found
    }
}

/// All events of a process.
#[pin_data]
pub(crate) struct Events {
    #[pin]
    inner: SpinLock<Inner>,
}

impl Events {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_spinlock!(
                Inner {
                    events: RBTree::new(),
                    page: None,
                    signal_count: 1,
                    other_count: 0,
                    free_signal: 1,
                    free_other: FIRST_OTHER_ID,
                    serial: 0,
                },
                "rkfd_events"
            ),
        })
    }

    /// Whether a signal page was given already.
    pub(crate) fn has_page(&self) -> bool {
        self.inner.lock().page.is_some()
    }

    /// The handle of the signal page's buffer.
    pub(crate) fn page_handle(&self) -> Option<u64> {
        self.inner.lock().page.as_ref().map(|p| p.handle)
    }

    /// Takes the signal page, `size` bytes long, and clears its slots.
    pub(crate) fn set_page(&self, slots: KBox<dyn SignalPage>, size: usize, handle: u64) -> Result {
        if size < PAGE_SIZE_MIN {
            return Err(EINVAL);
        }
        let mut inner = self.inner.lock();
        if inner.page.is_some() {
            // The caller's page is dropped after the lock.
            drop(inner);
            return Err(EBUSY);
        }
        for slot in 0..SIGNAL_LIMIT {
            slots.store(slot, UNSIGNALED);
        }
        inner.page = Some(Page { slots, handle });
        Ok(())
    }

    pub(crate) fn create(&self, kind: Kind, auto_reset: bool) -> Result<Created> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut inner = self.inner.lock();
        let id = inner.alloc_id(kind)?;
        inner.serial += 1;
        let event = Event::new(kind, auto_reset, inner.serial);
        inner.events.insert(node.into_node(id, event));
        Ok(Created {
            id,
            has_slot: kind.has_slot(),
        })
    }

    /// Destroys an event; who waits for it wakes and fails.
    pub(crate) fn destroy(&self, id: u32) -> Result {
        let mut inner = self.inner.lock();
        let event = inner.events.get(&id).ok_or(EINVAL)?;
        event.waiters.fail();
        let kind = event.kind;
        let node = inner.events.remove_node(&id);
        inner.release_id(id, kind);
        drop(inner);
        drop(node);
        Ok(())
    }

    /// Destroys all events and lets go of the signal page.
    pub(crate) fn clear(&self) {
        let mut inner = self.inner.lock();
        for event in inner.events.values() {
            event.waiters.fail();
        }
        let events = core::mem::take(&mut inner.events);
        let page = inner.page.take();
        inner.signal_count = 1;
        inner.other_count = 0;
        inner.free_signal = 1;
        inner.free_other = FIRST_OTHER_ID;
        drop(inner);
        drop((events, page));
    }

    /// Signals an event on behalf of the CPU.
    pub(crate) fn set(&self, id: u32) -> Result {
        self.with_cpu_event(id, Event::set)
    }

    /// Takes the signal of an event back.
    pub(crate) fn reset(&self, id: u32) -> Result {
        self.with_cpu_event(id, |event| event.signaled = false)
    }

    fn with_cpu_event(&self, id: u32, f: impl FnOnce(&mut Event)) -> Result {
        let mut inner = self.inner.lock();
        let event = inner.events.get_mut(&id).ok_or(EINVAL)?;
        if !event.kind.is_cpu_signaled() {
            return Err(EINVAL);
        }
        f(event);
        Ok(())
    }

    /// An interrupt of the GPU, carrying the low `bits` bits of an event id.
    ///
    /// If they do not name an event whose slot was written (as that of an earlier interrupt was for both), the slots of
    /// all events are looked at; of all that there can be when there are many.
    pub(crate) fn signal_interrupt(&self, partial_id: u32, bits: u32) {
        let mut inner = self.inner.lock();
        let named = if bits == 0 {
            None
        } else {
            inner.find_signaled(partial_id, bits)
        };
        if let Some(id) = named {
            inner.set_from_interrupt(id);
            return;
        }
        if inner.page.is_none() {
            return;
        }
        if inner.signal_count >= FEW {
            for id in 1..SIGNAL_LIMIT {
                if inner.slot(id) != UNSIGNALED {
                    inner.set_from_interrupt(id);
                }
            }
            return;
        }
        let mut ids = [0; FEW as usize];
        // Those with a slot come first.
        let events = inner.events.keys().take_while(|id| **id < SIGNAL_LIMIT);
        let mut count = 0;
        for (to, id) in ids.iter_mut().zip(events) {
            *to = *id;
            count += 1;
        }
        for id in &ids[..count] {
            if inner.slot(*id) != UNSIGNALED {
                inner.set_from_interrupt(*id);
            }
        }
    }

    /// The GPU touched memory it must not: every memory event fires with `data`.
    pub(crate) fn memory_exception(&self, data: &MemoryException) -> bool {
        self.inner.lock().for_kind(Kind::MEMORY, |event| {
            event.memory = *data;
            event.set();
        })
    }

    /// The GPU hung or was reset: every hardware event fires with `data`.
    pub(crate) fn hw_exception(&self, data: &HwException) -> bool {
        self.inner.lock().for_kind(Kind::HW_EXCEPTION, |event| {
            event.hw = *data;
            event.set();
        })
    }

    /// Wakes whoever waits for a signal, because no signal will come any more.
    pub(crate) fn terminate(&self) {
        self.inner.lock().for_kind(Kind::SIGNAL, Event::set);
    }
}
