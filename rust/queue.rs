// SPDX-License-Identifier: GPL-2.0

//! User queues: validation, buffer pinning, doorbells, MQD creation and the queues of a process.
//!
//! A queue pins the mappings of all buffers that the hardware accesses: ring, read and write
//! pointer, end-of-pipe buffer and context save area. It is owned by the [`QueueTable`] of its
//! process.

mod buffers;
mod cu_mask;
mod exceptions;
mod request;
mod table;
mod user_queue;

pub(crate) use self::{
    buffers::{SharedMemory, RING_ALIGN},
    exceptions::{ExceptionTable, Exceptions},
    request::{QueueEngine, QueueKind, QueueRequest, QueueUpdate},
    table::{QueueTable, NO_ID},
    user_queue::{Queue, QueueTarget, SavedWords},
};
