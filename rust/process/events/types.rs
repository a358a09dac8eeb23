// SPDX-License-Identifier: GPL-2.0

//! Types and limits of events.

use kernel::num::casts::u32_as_usize;

use crate::uapi;

/// Slots of the signal page, and one more than the highest id of a signal event.
pub(crate) const SIGNAL_LIMIT: u32 = uapi::KFD_SIGNAL_EVENT_LIMIT;
/// Minimum size of the signal page in bytes.
pub(super) const PAGE_SIZE_MIN: usize = u32_as_usize(SIGNAL_LIMIT) * size_of::<u64>();
/// First id of an event without slot (`KFD_FIRST_NONSIGNAL_EVENT_ID`).
// CAST: Positive.
pub(super) const FIRST_OTHER_ID: u32 = (i32::MAX as u32 >> 1) + 1;
/// Value of a slot that is not signalled (`UNSIGNALED_EVENT_SLOT`).
pub(crate) const UNSIGNALED: u64 = u64::MAX;

/// Kernel access to the signal page, which the GPU writes event ids into.
pub(crate) trait SignalPage: Send {
    /// Reads a slot, once.
    fn load(&self, slot: u32) -> u64;
    /// Writes a slot, once.
    fn store(&self, slot: u32, value: u64);
}

/// Event type, `KFD_IOC_EVENT_*`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventKind(pub(crate) u32);

impl EventKind {
    /// Signalled by the GPU through a slot, or by the CPU.
    pub(crate) const SIGNAL: Self = Self(uapi::KFD_IOC_EVENT_SIGNAL);
    /// Reset or loss of a GPU.
    pub(crate) const HW_EXCEPTION: Self = Self(uapi::KFD_IOC_EVENT_HW_EXCEPTION);
    /// For debuggers; has a slot.
    pub(crate) const DEBUG: Self = Self(uapi::KFD_IOC_EVENT_DEBUG_EVENT);
    /// VM fault of the process.
    pub(crate) const MEMORY: Self = Self(uapi::KFD_IOC_EVENT_MEMORY);

    /// Returns whether the event has a slot in the signal page and may be signalled by the GPU.
    pub(super) fn has_slot(self) -> bool {
        self == Self::SIGNAL || self == Self::DEBUG
    }

    /// Returns whether `SET_EVENT` and `RESET_EVENT` accept the event.
    pub(super) fn is_cpu_signaled(self) -> bool {
        self == Self::SIGNAL
    }
}

/// Data of a memory exception event.
#[derive(Clone, Copy, Default)]
pub(crate) struct MemoryException {
    /// Nothing is mapped at `va`.
    pub(crate) not_present: bool,
    /// Write to a read-only mapping.
    pub(crate) read_only: bool,
    /// Execution in a mapping that is not executable.
    pub(crate) no_execute: bool,
    /// The GPU virtual address.
    pub(crate) va: u64,
    /// The GPU.
    pub(crate) gpu_id: u32,
    /// The address is not known.
    pub(crate) imprecise: bool,
    /// `KFD_MEM_ERR_*`: an uncorrectable error of memory.
    pub(crate) error: u32,
}

impl MemoryException {
    /// Returns the data for an uncorrectable error of memory, `KFD_MEM_ERR_*`.
    pub(crate) fn memory_error(gpu_id: u32, error: u32) -> Self {
        Self {
            gpu_id,
            imprecise: true,
            error,
            ..Self::default()
        }
    }
}

/// Data of a hardware exception event.
#[derive(Clone, Copy, Default)]
pub(crate) struct HwException {
    /// `KFD_HW_EXCEPTION_*`.
    pub(crate) cause: u32,
    /// The content of VRAM is lost.
    pub(crate) memory_lost: bool,
    /// The GPU.
    pub(crate) gpu_id: u32,
}

impl HwException {
    /// Returns the data for a GPU that hangs or was removed, or a queue that was reset.
    pub(crate) fn gpu_lost(gpu_id: u32) -> Self {
        Self {
            cause: uapi::KFD_HW_EXCEPTION_GPU_HANG,
            memory_lost: true,
            gpu_id,
        }
    }

    /// Returns the data for an uncorrectable error of memory.
    pub(crate) fn memory_error(gpu_id: u32) -> Self {
        Self {
            cause: uapi::KFD_HW_EXCEPTION_ECC,
            ..Self::gpu_lost(gpu_id)
        }
    }
}

/// Result of [`super::table::Events::create`].
pub(crate) struct CreatedEvent {
    /// The event id.
    pub(crate) id: u32,
    /// The event has a slot in the signal page, with the id as index.
    pub(crate) has_slot: bool,
}

/// Data that an activated event returns to its waiter.
#[derive(Clone, Copy)]
pub(crate) enum EventPayload {
    /// Nothing is written.
    None,
    /// The age of a signal event.
    Age(u64),
    /// Of a memory exception event.
    Memory(MemoryException),
    /// Of a hardware exception event.
    Hw(HwException),
}
