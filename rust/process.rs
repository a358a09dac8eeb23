// SPDX-License-Identifier: GPL-2.0

//! Processes that use GPUs.
//!
//! A [`Process`] stands for an address space: all opens of `/dev/kfd` by it share one. It is
//! created by the first open and ends with the address space, which may be later than the last
//! close, as queues run without a file, or earlier, if another process inherited the file. At the
//! end all queues are unmapped before the pages of the address space are freed, and all resources
//! are released even if a file is still open.
//!
//! CREATE_PROCESS gives a file a secondary process of the address space, besides this primary one.
//! It ends with the file, and not later than the address space.
//!
//! A [`ProcessDevice`] (pdd) is a process on one GPU.
//!
//! Locks, outer to inner: the list of processes, the process lock, the locks of [`ProcessDevice`].
//! Events have a leaf lock of their own. User memory is not accessed under the process lock.

pub(crate) mod apertures;
mod buffer;
pub(crate) mod debug;
mod debug_state;
pub(crate) mod debugfs;
pub(crate) mod events;
mod evict;
mod exceptions;
mod gpu_queues;
mod handles;
mod interrupts;
mod invalid_packets;
mod kfd_file;
mod kfd_process;
mod lifecycle;
pub(crate) mod memory;
pub(crate) mod mmap;
mod pdd;
mod places;
mod profiler;
mod remote;
mod retry;
pub(crate) mod share;
pub(crate) mod smi;
mod svm;
pub(crate) mod sysfs;
pub(crate) mod table;
mod trap;
pub(crate) mod userptr;
mod vm_fault;

pub(crate) use self::{
    buffer::AllocFlags,
    evict::{Evictor, Quiesce, VmEvictor},
    handles::make_handle,
    interrupts::SINK,
    kfd_file::KfdFile,
    kfd_process::{Process, ProcessState},
    lifecycle::{detach_gpu, init, Workqueues},
    pdd::{FileVm, ProcessDevice},
};
