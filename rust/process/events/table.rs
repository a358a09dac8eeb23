// SPDX-License-Identifier: GPL-2.0

//! The events of a process and their ids; signalling.

use kernel::{
    id_pool::IdPool,
    new_spinlock,
    num::casts::u32_as_usize,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::SpinLock,
};

use super::{
    types::{
        CreatedEvent, EventKind, EventPayload, HwException, MemoryException, SignalPage,
        FIRST_OTHER_ID, PAGE_SIZE_MIN, SIGNAL_LIMIT, UNSIGNALED,
    },
    waiters::Waiters,
};

/// With fewer events than this, checking the slot of each is cheaper than checking all slots.
const FEW_EVENTS: u32 = SIGNAL_LIMIT / 64;

/// An event.
pub(super) struct Event {
    kind: EventKind,
    /// The signal is consumed by the first waiter.
    pub(super) auto_reset: bool,
    signaled: bool,
    /// Starts at 1. Wraps to 2, as 0 means that ages are not used, and 1 a new event.
    age: u64,
    /// Unique in the process, as opposed to the id, which is reused.
    pub(super) serial: u64,
    memory: MemoryException,
    hw: HwException,
    pub(super) waiters: Waiters,
}

impl Event {
    fn new(kind: EventKind, auto_reset: bool, serial: u64) -> Self {
        Self {
            kind,
            auto_reset,
            signaled: false,
            age: 1,
            serial,
            memory: Default::default(),
            hw: Default::default(),
            waiters: Waiters::new(),
        }
    }

    /// Signals the event and wakes all waiters. An auto-reset event does not stay signalled if it
    /// has a waiter that an earlier signal has not woken.
    pub(super) fn set(&mut self) {
        self.signaled = !self.auto_reset || !self.waiters.has_pending();
        self.age = match self.age.wrapping_add(1) {
            0 => 2,
            age => age,
        };
        self.waiters.activate();
    }

    /// Returns whether a wait for the event completes at once.
    pub(super) fn is_signaled_for(&self, last_age: u64) -> bool {
        self.signaled || (self.uses_age(last_age) && self.age != last_age)
    }

    /// Starts a wait and consumes the signal of an auto-reset event. Returns whether the wait
    /// completes at once.
    pub(super) fn begin_wait(&mut self, last_age: u64) -> bool {
        let complete = self.is_signaled_for(last_age);
        self.signaled = self.signaled && !self.auto_reset;
        complete
    }

    /// Returns whether the caller compares ages.
    fn uses_age(&self, last_age: u64) -> bool {
        self.kind == EventKind::SIGNAL && last_age != 0
    }

    /// Returns the data for a waiter.
    pub(super) fn payload(&self, last_age: u64) -> EventPayload {
        match self.kind {
            EventKind::MEMORY => EventPayload::Memory(self.memory),
            EventKind::HW_EXCEPTION => EventPayload::Hw(self.hw),
            _ if self.uses_age(last_age) => EventPayload::Age(self.age),
            _ => EventPayload::None,
        }
    }
}

/// The signal page.
struct Page {
    slots: KBox<dyn SignalPage>,
    /// Handle of the buffer, which `FREE_MEMORY_OF_GPU` does not free (`EPERM`).
    handle: u64,
}

/// The state of [`Events`] under its lock.
pub(super) struct EventTable {
    pub(super) events: RBTree<u32, Event>,
    page: Option<Page>,
    /// Ids of events with a slot; id 0 is always taken.
    slot_ids: IdPool,
    /// Ids of the other events, relative to [`FIRST_OTHER_ID`].
    other_ids: IdPool,
    /// Events with a slot.
    slot_count: u32,
    serial: u64,
}

impl EventTable {
    fn new() -> Result<Self> {
        let ids = || IdPool::with_capacity(u32_as_usize(SIGNAL_LIMIT), GFP_KERNEL);
        let mut slot_ids = ids()?;
        if let Some(reserved) = slot_ids.find_unused_id(0) {
            reserved.acquire();
        }
        Ok(Self {
            events: RBTree::new(),
            page: None,
            slot_ids,
            // As many as signal events, so that the pool does not grow under the lock.
            other_ids: ids()?,
            slot_count: 0,
            serial: 0,
        })
    }

    /// Allocates the lowest free id. `ENOSPC` if there is none, `ENOMEM` for an event with a slot
    /// before there is a signal page.
    fn alloc_id(&mut self, kind: EventKind) -> Result<u32> {
        if !kind.has_slot() {
            let unused = self.other_ids.find_unused_id(0).ok_or(ENOSPC)?;
            let id = FIRST_OTHER_ID + unused.as_u32();
            unused.acquire();
            return Ok(id);
        }
        let page = self.page.as_ref().ok_or(ENOMEM)?;
        let unused = self.slot_ids.find_unused_id(0).ok_or(ENOSPC)?;
        let id = unused.as_u32();
        unused.acquire();
        self.slot_count += 1;
        page.slots.store(id, UNSIGNALED);
        Ok(id)
    }

    fn release_id(&mut self, id: u32, kind: EventKind) {
        if kind.has_slot() {
            self.slot_count -= 1;
            self.slot_ids.release_id(u32_as_usize(id));
        } else {
            self.other_ids.release_id(u32_as_usize(id - FIRST_OTHER_ID));
        }
    }

    /// Reads a slot of the signal page.
    fn slot(&self, id: u32) -> u64 {
        self.page.as_ref().map_or(UNSIGNALED, |p| p.slots.load(id))
    }

    /// Returns the event whose slot is signalled and whose id has `id` in its low `bits` bits.
    fn find_signaled(&self, id: u32, bits: u32) -> Option<u32> {
        if self.page.is_none() || id >= SIGNAL_LIMIT {
            return None;
        }
        if bits > 31 || (1u32 << bits) >= SIGNAL_LIMIT {
            return self.is_slot_signaled(id).then_some(id);
        }
        (id..SIGNAL_LIMIT)
            .step_by(1usize << bits)
            .find(|&id| self.is_slot_signaled(id))
    }

    /// Returns whether the event exists and the GPU has written its slot.
    fn is_slot_signaled(&self, id: u32) -> bool {
        self.slot(id) != UNSIGNALED && self.events.get(&id).is_some()
    }

    /// Clears the slot of an event and signals it.
    fn set_from_interrupt(&mut self, id: u32) {
        let Self { events, page, .. } = self;
        if let (Some(event), Some(page)) = (events.get_mut(&id), page) {
            if event.kind.has_slot() {
                page.slots.store(id, UNSIGNALED);
                event.set();
            }
        }
    }

    /// Calls `f` on every event of a kind. Returns whether there was one.
    fn for_kind(&mut self, kind: EventKind, mut f: impl FnMut(&mut Event)) -> bool {
        let mut found = false;
        for (_, event) in self.events.iter_mut().filter(|(_, e)| e.kind == kind) {
            f(event);
            found = true;
        }
        found
    }
}

/// Memory for a new event.
pub(crate) struct EventMemory(RBTreeNodeReservation<u32, Event>);

impl EventMemory {
    /// Allocates it. `ENOMEM` without memory.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(RBTreeNodeReservation::new(GFP_KERNEL)?))
    }
}

/// The events of a process.
#[pin_data]
pub(crate) struct Events {
    #[pin]
    pub(super) table: SpinLock<EventTable>,
}

impl Events {
    /// Returns an initializer without events.
    pub(crate) fn new() -> Result<impl PinInit<Self>> {
        let table = EventTable::new()?;
        Ok(pin_init!(Self {
            table <- new_spinlock!(table, "rkfd_events"),
        }))
    }

    /// Returns the number of events.
    pub(crate) fn count(&self) -> usize {
        self.table.lock().events.iter().count()
    }

    /// Returns whether there is a signal page.
    pub(crate) fn has_page(&self) -> bool {
        self.table.lock().page.is_some()
    }

    /// Returns the handle of the buffer of the signal page.
    pub(crate) fn page_handle(&self) -> Option<u64> {
        self.table.lock().page.as_ref().map(|p| p.handle)
    }

    /// Sets the signal page, `size` bytes long, and clears its slots. `EINVAL` if it is too small,
    /// `EBUSY` if there is one already.
    pub(crate) fn set_page(&self, slots: KBox<dyn SignalPage>, size: usize, handle: u64) -> Result {
        if size < PAGE_SIZE_MIN {
            return Err(EINVAL);
        }
        let mut table = self.table.lock();
        if table.page.is_some() {
            // `slots` is dropped after the lock is released.
            drop(table);
            return Err(EBUSY);
        }
        for slot in 0..SIGNAL_LIMIT {
            slots.store(slot, UNSIGNALED);
        }
        table.page = Some(Page { slots, handle });
        Ok(())
    }

    /// Creates an event under the lowest free id of its range. `ENOSPC` if there is none, `ENOMEM`
    /// for an event with a slot before there is a signal page.
    pub(crate) fn create(
        &self,
        memory: EventMemory,
        kind: EventKind,
        auto_reset: bool,
    ) -> Result<CreatedEvent> {
        let mut table = self.table.lock();
        let id = table.alloc_id(kind)?;
        table.serial += 1;
        let event = Event::new(kind, auto_reset, table.serial);
        table.events.insert(memory.0.into_node(id, event));
        Ok(CreatedEvent {
            id,
            has_slot: kind.has_slot(),
        })
    }

    /// Destroys an event; its waiters fail with `EIO`. `EINVAL` without such an event.
    pub(crate) fn destroy(&self, id: u32) -> Result {
        let mut table = self.table.lock();
        let event = table.events.get(&id).ok_or(EINVAL)?;
        event.waiters.fail();
        let kind = event.kind;
        let node = table.events.remove_node(&id);
        table.release_id(id, kind);
        drop(table);
        drop(node);
        Ok(())
    }

    /// Destroys all events and drops the signal page.
    pub(crate) fn clear(&self) {
        let mut guard = self.table.lock();
        let table: &mut EventTable = &mut guard;
        let events = core::mem::take(&mut table.events);
        for (id, event) in &events {
            event.waiters.fail();
            table.release_id(*id, event.kind);
        }
        let page = table.page.take();
        drop(guard);
        drop((events, page));
    }

    /// Signals an event (`SET_EVENT`). `EINVAL` without such an event or if it is no signal event.
    pub(crate) fn set(&self, id: u32) -> Result {
        self.with_cpu_event(id, Event::set)
    }

    /// Resets an event (`RESET_EVENT`). `EINVAL` as for [`Self::set`].
    pub(crate) fn reset(&self, id: u32) -> Result {
        self.with_cpu_event(id, |event| event.signaled = false)
    }

    fn with_cpu_event(&self, id: u32, f: impl FnOnce(&mut Event)) -> Result {
        let mut table = self.table.lock();
        let event = table.events.get_mut(&id).ok_or(EINVAL)?;
        if !event.kind.is_cpu_signaled() {
            return Err(EINVAL);
        }
        f(event);
        Ok(())
    }

    /// Handles an interrupt of the GPU that carries the low `bits` bits of an event id
    /// (`kfd_signal_event_interrupt()`).
    ///
    /// If the bits do not match an event whose slot was written, for instance because an earlier
    /// interrupt signalled both, all slots are checked; with few events only theirs.
    pub(crate) fn signal_interrupt(&self, partial_id: u32, bits: u32) {
        let mut table = self.table.lock();
        let named = if bits == 0 {
            None
        } else {
            table.find_signaled(partial_id, bits)
        };
        if let Some(id) = named {
            table.set_from_interrupt(id);
            return;
        }
        if table.page.is_none() {
            return;
        }
        if table.slot_count >= FEW_EVENTS {
            for id in 1..SIGNAL_LIMIT {
                if table.slot(id) != UNSIGNALED {
                    table.set_from_interrupt(id);
                }
            }
            return;
        }
        let mut ids = [0; u32_as_usize(FEW_EVENTS)];
        // Events with a slot have the lowest ids.
        let events = table.events.keys().take_while(|id| **id < SIGNAL_LIMIT);
        let mut count = 0;
        for (to, id) in ids.iter_mut().zip(events) {
            *to = *id;
            count += 1;
        }
        for id in &ids[..count] {
            if table.slot(*id) != UNSIGNALED {
                table.set_from_interrupt(*id);
            }
        }
    }

    /// Signals all memory exception events with `data`. Returns whether there is one.
    pub(crate) fn memory_exception(&self, data: &MemoryException) -> bool {
        self.table.lock().for_kind(EventKind::MEMORY, |event| {
            event.memory = *data;
            event.set();
        })
    }

    /// Signals all hardware exception events with `data`. Returns whether there is one.
    pub(crate) fn hw_exception(&self, data: &HwException) -> bool {
        self.table
            .lock()
            .for_kind(EventKind::HW_EXCEPTION, |event| {
                event.hw = *data;
                event.set();
            })
    }

    /// Signals all signal events, as the GPU will not signal them any more.
    pub(crate) fn terminate(&self) {
        self.table.lock().for_kind(EventKind::SIGNAL, Event::set);
    }
}
