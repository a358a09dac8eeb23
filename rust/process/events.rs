// SPDX-License-Identifier: GPL-2.0

//! The events of a process: creation, signalling by CPU and GPU, waiting.
//!
//! An event is a flag with an age. The GPU signals an event by writing its id into the slot of the
//! signal page with that index and raising an interrupt that carries the id; the CPU by
//! `SET_EVENT`. The driver signals memory and hardware exception events, which carry data. Ids
//! below [`SIGNAL_LIMIT`] are slots of the signal page (id 0 is reserved: the firmware sends it
//! for a packet without an event), the others start at `KFD_FIRST_NONSIGNAL_EVENT_ID`.
//!
//! One spinlock guards all events of a process. It is a leaf: no lock is taken, no user memory is
//! accessed and nothing is allocated under it.

mod table;
mod types;
mod wait;
mod waiters;

pub(crate) use self::{
    table::{EventMemory, Events},
    types::{
        EventKind, EventPayload, HwException, MemoryException, SignalPage, SIGNAL_LIMIT, UNSIGNALED,
    },
    wait::{WaitOutcome, WaitRequest},
};
