// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks events against a map, and waits in every order of threads.

use std::collections::BTreeMap;

use kernel::{
    alloc::{failing, Fail, KBox},
    init::build,
    model,
    prelude::*,
    sync::{Arc, Mutex},
};

use super::{
    table::{EventMemory, Events},
    types::{EventKind, SignalPage, FIRST_OTHER_ID, SIGNAL_LIMIT},
    wait::{WaitOutcome, WaitRequest},
};

/// Memory that the GPU writes ids of events to.
#[derive(Clone)]
struct Slots {
    words: Arc<std::sync::Mutex<Vec<u64>>>,
    /// Taken for the slots that threads share, so that their order is explored.
    shared: Arc<Mutex<()>>,
}

impl Slots {
    fn with<T>(&self, slot: u32, f: impl FnOnce(&mut u64) -> T) -> T {
        let _order = (slot == 1).then(|| self.shared.lock());
        f(&mut self.words.lock().expect("not poisoned")[slot as usize])
    }
}

impl SignalPage for Slots {
    fn load(&self, slot: u32) -> u64 {
        self.with(slot, |word| *word)
    }

    fn store(&self, slot: u32, value: u64) {
        self.with(slot, |word| *word = value);
    }
}

fn events() -> (Arc<Events>, Slots) {
    let events = build(Events::new().expect("memory")).unwrap_or_else(|never| match never {});
    let slots = Slots {
        words: Arc::new(std::sync::Mutex::new(vec![0; SIGNAL_LIMIT as usize])),
        shared: Arc::new(Mutex::of(())),
    };
    let page: Box<dyn SignalPage> = Box::new(slots.clone());
    let bytes = SIGNAL_LIMIT as usize * 8;
    events
        .set_page(KBox::from(page), bytes, 1)
        .expect("the first page");
    (Arc::new(events), slots)
}

fn create(events: &Events, kind: EventKind, auto_reset: bool) -> Result<u32> {
    let memory = EventMemory::new().expect("memory");
    events
        .create(memory, kind, auto_reset)
        .map(|event| event.id)
}

fn signal(events: &Events, auto_reset: bool) -> u32 {
    create(events, EventKind::SIGNAL, auto_reset).expect("an id")
}

/// Waits, without a limit or not at all. Returns whether the wait is complete.
fn wait(events: &Events, ids: &[u32], all: bool, poll: bool) -> Result<bool> {
    let last_age = 0;
    let requests: Vec<_> = ids
        .iter()
        .map(|id| WaitRequest { id: *id, last_age })
        .collect();
    let mut timeout = if poll { 0 } else { u32::MAX };
    match events.wait(&requests, all, &mut timeout)? {
        WaitOutcome::Complete(payloads) => {
            assert_eq!(payloads.len(), ids.len());
            Ok(true)
        }
        WaitOutcome::Timeout => Ok(false),
    }
}

#[derive(Clone, Copy)]
struct Expected {
    auto_reset: bool,
    signaled: bool,
}

/// Returns the result of a poll, and consumes what it consumes.
fn poll(model: &mut BTreeMap<u32, Expected>, ids: &[u32], all: bool) -> Result<bool> {
    if ids.iter().any(|id| !model.contains_key(id)) {
        return Err(EINVAL);
    }
    let mut complete = 0;
    for id in ids {
        let event = model.get_mut(id).expect("checked above");
        complete += usize::from(event.signaled);
        event.signaled &= !event.auto_reset;
    }
    Ok(if all {
        complete == ids.len()
    } else {
        complete > 0
    })
}

/// All sequences of four operations on two events, one of them with automatic reset.
#[test]
fn short_sequences() {
    const OPS: u32 = 11;
    for mut code in 0..OPS.pow(4) {
        let (events, slots) = events();
        let mut model = BTreeMap::new();
        for (id, auto_reset) in [(1, true), (2, false)] {
            assert_eq!(create(&events, EventKind::SIGNAL, auto_reset), Ok(id));
            let signaled = false;
            model.insert(
                id,
                Expected {
                    auto_reset,
                    signaled,
                },
            );
        }
        for _ in 0..4 {
            let op = code % OPS;
            code /= OPS;
            // Of event 1 or 2.
            let id = 1 + op % 2;
            match op {
                0 | 1 => {
                    let known = model.get_mut(&id).map(|event| event.signaled = true);
                    assert_eq!(events.set(id), known.ok_or(EINVAL));
                }
                2 | 3 => {
                    let known = model.get_mut(&id).map(|event| event.signaled = false);
                    assert_eq!(events.reset(id), known.ok_or(EINVAL));
                }
                4 | 5 => {
                    // Names the event, or only its low bit, or nothing.
                    slots.store(id, id.into());
                    events.signal_interrupt(id, if op == 4 { 8 } else { 0 });
                    if let Some(event) = model.get_mut(&id) {
                        event.signaled = true;
                    }
                }
                6 | 7 => {
                    let known = model.remove(&id).map(|_| ());
                    assert_eq!(events.destroy(id), known.ok_or(EINVAL));
                }
                8 => {
                    let lowest = (1..).find(|id| !model.contains_key(id)).expect("an id");
                    assert_eq!(create(&events, EventKind::DEBUG, false), Ok(lowest));
                    // `SET_EVENT` does not accept it.
                    assert_eq!(events.set(lowest), Err(EINVAL));
                    assert_eq!(events.destroy(lowest), Ok(()));
                }
                _ => {
                    let all = op == 10;
                    let expected = poll(&mut model, &[1, 2], all);
                    assert_eq!(wait(&events, &[1, 2], all, true), expected);
                }
            }
        }
        for id in [1, 2] {
            let expected = poll(&mut model, &[id], false);
            assert_eq!(wait(&events, &[id], false, true), expected);
        }
        assert_eq!(events.count(), model.len());
    }
}

/// The ids of both ranges, up to the last.
#[test]
fn ids_are_the_lowest_until_there_are_none() {
    let (events, _) = events();
    for id in 1..SIGNAL_LIMIT {
        assert_eq!(create(&events, EventKind::SIGNAL, false), Ok(id));
    }
    assert_eq!(create(&events, EventKind::SIGNAL, false), Err(ENOSPC));
    for n in 0..SIGNAL_LIMIT {
        assert_eq!(
            create(&events, EventKind::MEMORY, false),
            Ok(FIRST_OTHER_ID + n)
        );
    }
    assert_eq!(create(&events, EventKind::MEMORY, false), Err(ENOSPC));
    for id in [17, 4095, 1, FIRST_OTHER_ID + 3] {
        assert_eq!(events.destroy(id), Ok(()));
    }
    for id in [1, 17, 4095] {
        assert_eq!(create(&events, EventKind::DEBUG, false), Ok(id));
    }
    assert_eq!(
        create(&events, EventKind::HW_EXCEPTION, false),
        Ok(FIRST_OTHER_ID + 3)
    );
    events.clear();
    assert_eq!(events.count(), 0);
    assert_eq!(
        create(&events, EventKind::SIGNAL, false),
        Err(ENOMEM),
        "no signal page"
    );
}

/// A wait that fails for lack of memory consumes no signal, and leaves nothing in the lists.
#[test]
fn failing_allocations() {
    for all in [false, true] {
        for n in 0.. {
            let (events, _) = events();
            let ids = [signal(&events, true), signal(&events, true)];
            if all {
                events.set(ids[0]).expect("an event");
            }
            let poll = || wait(&events, &ids, all, true);
            let (result, failed) = failing(Fail::Once(n), poll);
            if !failed {
                assert_eq!(result, Ok(false));
                break;
            }
            assert_eq!(result, Err(ENOMEM));
            assert_eq!(wait(&events, &ids[..1], false, true), Ok(all), "a signal");
            // With a waiter in its list an event with automatic reset would not stay signalled.
            events.set(ids[1]).expect("an event");
            assert_eq!(wait(&events, &ids[1..], false, true), Ok(true), "a waiter");
        }
    }
}

/// A wait ends when its event is signalled, whenever that is.
#[test]
fn a_signal_ends_a_wait() {
    for auto_reset in [false, true] {
        model::explore(move || {
            let (events, _) = events();
            let id = signal(&events, auto_reset);
            let other = events.clone();
            let signaler = model::thread::spawn(move || other.set(id).expect("an event"));
            assert_eq!(wait(&events, &[id], false, false), Ok(true));
            signaler.join().expect("the other thread");
            // The waiter has consumed the signal.
            assert_eq!(wait(&events, &[id], false, true), Ok(!auto_reset));
        });
    }
}

/// The GPU writes the slot, then sends the interrupt.
#[test]
fn an_interrupt_ends_a_wait() {
    model::explore(|| {
        let (events, slots) = events();
        let id = signal(&events, true);
        let other = events.clone();
        let gpu = model::thread::spawn(move || {
            slots.store(id, id.into());
            other.signal_interrupt(id, 0);
        });
        assert_eq!(wait(&events, &[id], false, false), Ok(true));
        gpu.join().expect("the GPU");
    });
}

/// A wait for two events ends when the second one is signalled.
#[test]
fn a_wait_for_all_ends() {
    model::explore(|| {
        let (events, _) = events();
        let ids = [signal(&events, true), signal(&events, false)];
        let other = events.clone();
        let signaler = model::thread::spawn(move || {
            for id in ids {
                other.set(id).expect("an event");
            }
        });
        assert_eq!(wait(&events, &ids, true, false), Ok(true));
        signaler.join().expect("the other thread");
    });
}

/// A wait ends with `EIO` when its event is destroyed, or with `EINVAL` if that was before.
#[test]
fn a_destroyed_event_ends_a_wait() {
    model::explore(|| {
        let (events, _) = events();
        let id = signal(&events, false);
        let other = events.clone();
        let destroyer = model::thread::spawn(move || {
            other.destroy(id).expect("an event");
            // The id is used again: not by the wait.
            assert_eq!(signal(&other, false), id);
        });
        match wait(&events, &[id], false, true) {
            Ok(false) | Err(_) => {}
            Ok(true) => panic!("an event that was not signalled"),
        }
        destroyer.join().expect("the other thread");
        assert_eq!(wait(&events, &[id], false, true), Ok(false));
    });
    model::explore(|| {
        let (events, _) = events();
        let id = signal(&events, false);
        let other = events.clone();
        let destroyer = model::thread::spawn(move || other.destroy(id).expect("an event"));
        let result = wait(&events, &[id], false, false);
        assert!(result == Err(EIO) || result == Err(EINVAL), "{result:?}");
        destroyer.join().expect("the other thread");
    });
}
