// SPDX-License-Identifier: GPL-2.0

//! Shared virtual memory: attributes of ranges of user memory, and their mapping on GPUs.
//!
//! Independent of the ioctls and of the owner of the queues. `Documentation/dataflow.rst` has the
//! locks.

mod apply;
mod attributes;
mod block;
mod fault;
mod map;
mod migrate;
mod restore;
mod shared;
mod window;
mod windows;

pub(crate) use self::{
    attributes::{Change, Summary},
    fault::FaultReport,
    restore::{create_workqueue, init},
    shared::{Queues, RetriesGuard, Svm, SvmPin, MAX_GPUS},
    window::UnmapTrigger,
};
