// SPDX-License-Identifier: GPL-2.0

//! DMA fences, the producer's side: fences that the driver emits and signals.
//!
//! Shaped like the abstractions proposed upstream: a context ([`Timeline`]) turns memory that was
//! allocated before ([`UnusedFence`]) into the driver's end of a fence ([`HwFence`]); consumers get
//! a [`Fence`].
//!
//! C header: [`include/linux/dma-fence.h`](srctree/include/linux/dma-fence.h)
//!
//! # Examples
//!
//! ```ignore
//! let timeline = Timeline::new(c"sdma0");
//!
//! // May sleep and fail.
//! let memory = UnusedFence::new()?;
//! // In the signalling path: neither allocates nor fails.
//! let fence = timeline.emit(memory);
//! let done = fence.fence().clone();
//! ring.submit(packets, fence);
//!
//! // In the interrupt handler.
//! fence.signal();
//! ```

use kernel::{
    bindings,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
    },
    types::Opaque,
};

use crate::{
    bindings as ours,
    kapi::{fence::Fence, module_use::ModuleUse},
};

/// A fence context: its fences have ascending seqnos, and are to be signaled in that order.
pub(crate) struct Timeline {
    name: &'static CStr,
    context: u64,
    last: Atomic<u64>,
}

impl Timeline {
    /// Allocates a context. `name` is the timeline name in debugfs and trace events.
    pub(crate) fn new(name: &'static CStr) -> Self {
        Self {
            name,
            // SAFETY: The function adds to an atomic counter.
            context: unsafe { bindings::dma_fence_context_alloc(1) },
            last: Atomic::new(0),
        }
    }

    /// Returns the context of its fences, see [`Fence::context`].
    pub(crate) fn context(&self) -> u64 {
        self.context
    }

    /// Initializes the next fence of the context. Does not allocate.
    pub(crate) fn emit(&self, memory: UnusedFence) -> HwFence {
        let seqno = self.last.fetch_add(1, Relaxed).wrapping_add(1);
        self.emit_at(memory, seqno)
    }

    /// As [`Self::emit`] with a seqno of the caller, which is to use one of the two only.
    pub(crate) fn emit_at(&self, memory: UnusedFence, seqno: u64) -> HwFence {
        let raw: *mut Memory = KBox::into_raw(memory.memory);
        // SAFETY: The memory is owned by this function and not shared yet. The operations are
        // static. A NULL lock selects the one inside of the fence. The name, which the operations
        // read, is written first.
        unsafe {
            (*raw).name = self.name;
            bindings::dma_fence_init64(
                (*raw).fence.get(),
                &raw const OPS,
                core::ptr::null_mut(),
                self.context,
                seqno,
            );
        }
        // INVARIANT: Initialized above, not signaled, and owned by nobody else.
        HwFence {
            // SAFETY: The init leaves one reference, which is handed over. `dma_fence_free()` frees
            // the memory: the fence is its first field, and `KBox` memory is of kmalloc.
            fence: unsafe { Fence::from_raw(raw.cast()) },
            _use: memory.module_use,
        }
    }
}

/// The memory of a fence.
#[repr(C)]
struct Memory {
    /// First: the operations cast from it.
    fence: Opaque<bindings::dma_fence>,
    name: &'static CStr,
}

/// Memory for a fence, allocated outside of the signalling path.
pub(crate) struct UnusedFence {
    memory: KBox<Memory>,
    module_use: ModuleUse,
}

// SAFETY: The memory is uninitialized and owned; the token is a counter.
unsafe impl Send for UnusedFence {}
// SAFETY: There are no methods on shared references.
unsafe impl Sync for UnusedFence {}

impl UnusedFence {
    /// Allocates it. `ENOMEM` without memory, `ENODEV` when the module is about to exit.
    pub(crate) fn new() -> Result<Self> {
        let memory = Memory {
            fence: Opaque::zeroed(),
            name: c"",
        };
        Ok(Self {
            memory: KBox::new(memory, GFP_KERNEL)?,
            module_use: ModuleUse::new()?,
        })
    }
}

/// The driver's end of a fence. Dropping it without a signal signals it with `ECANCELED`.
///
/// # Invariants
///
/// A fence of [`Timeline::emit`], of which this is the only driver's end. Until it is signaled C
/// uses operations in the module, under the RCU read lock; afterwards it does not
/// (`dma_fence_signal_timestamp_locked()` clears `ops` of fences without release and wait
/// operations), and the unload of a module waits for RCU readers. `_use` defers the unload until
/// this object is dropped, which signals: forgetting it makes the unload wait forever.
pub(crate) struct HwFence {
    fence: ARef<Fence>,
    _use: ModuleUse,
}

impl HwFence {
    /// Returns the consumer's end.
    pub(crate) fn fence(&self) -> &ARef<Fence> {
        &self.fence
    }

    /// Signals success; `false` if the fence was signaled before. Callable from any context.
    pub(crate) fn signal(&self) -> bool {
        // SAFETY: The fence is initialized; error 0 is no error.
        unsafe { ours::rkfd_helper_dma_fence_end(self.fence.raw(), 0) }
    }

    /// Signals `error`; `false` if the fence was signaled before. Callable from any context.
    pub(crate) fn fail(&self, error: Error) -> bool {
        // SAFETY: The fence is initialized, and `to_errno` is in -4095..0, as
        // `dma_fence_set_error()` requires.
        unsafe { ours::rkfd_helper_dma_fence_end(self.fence.raw(), error.to_errno()) }
    }
}

impl Drop for HwFence {
    fn drop(&mut self) {
        if !self.fence.is_signaled() {
            self.fail(ECANCELED);
        }
    }
}

static OPS: bindings::dma_fence_ops = bindings::dma_fence_ops {
    get_driver_name: Some(driver_name),
    get_timeline_name: Some(timeline_name),
    ..pin_init::zeroed()
};

/// # Safety
///
/// No requirements.
unsafe extern "C" fn driver_name(_fence: *mut bindings::dma_fence) -> *const c_char {
    <crate::LocalModule as kernel::ModuleMetadata>::NAME.as_char_ptr()
}

/// # Safety
///
/// Called by C with a fence that was initialized with [`OPS`].
unsafe extern "C" fn timeline_name(fence: *mut bindings::dma_fence) -> *const c_char {
    // SAFETY: Only `emit` uses these operations: the fence is the first field of a `Memory`, whose
    // name was written before the init.
    unsafe { (*fence.cast::<Memory>()).name.as_char_ptr() }
}
