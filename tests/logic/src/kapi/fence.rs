// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/kapi/fence.rs`: fences that a test signals.

use kernel::sync::{
    aref::ARef,
    atomic::{Acquire, Atomic, Release},
};

/// A DMA fence.
pub(crate) struct Fence {
    signaled: Atomic<bool>,
}

impl Fence {
    /// Returns one that is not signaled.
    pub(crate) fn new() -> ARef<Self> {
        ARef::from(Self {
            signaled: Atomic::new(false),
        })
    }

    /// Returns whether it has signaled.
    pub(crate) fn is_signaled(&self) -> bool {
        self.signaled.load(Acquire)
    }

    /// Signals it.
    pub(crate) fn signal(&self) {
        self.signaled.store(true, Release);
    }
}
