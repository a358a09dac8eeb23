// SPDX-License-Identifier: GPL-2.0

//! The first trap handler of a process on a GPU: where waves go that trap or do what they cannot.
//!
//! A page of code, with the handler's memory in its second half, lies in each address space above
//! everything that user space can map to itself. The handler goes on to the one that `SET_TRAP_HANDLER` named, if
//! any.

use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

use crate::{
    gpu::Gpu,
    mmu::{Access, Bo, BoFlags, BoRef, Vm},
};

/// Where the memory of the handler is in the page: the addresses of the second handler and of its memory.
const MEMORY: usize = PAGE_SIZE / 2;

/// The handler. It stays mapped as long as the address space.
pub(super) struct TrapHandler {
    bo: BoRef,
    va: u64,
}

impl TrapHandler {
    /// Puts the handler into an address space that nobody uses yet.
    pub(super) fn new(gpu: &Arc<Gpu>, vm: &Vm) -> Result<Self> {
        let caps = gpu.generation().caps;
        let size = PAGE_SIZE as u64;
        let flags = BoFlags {
            uncached: true,
            coherent: true,
            ..BoFlags::default()
        };
        let bo: BoRef = Arc::new(Bo::gtt(gpu, size, flags, None)?, GFP_KERNEL)?;
        if caps.trap_handler.len() * 4 > MEMORY {
            return Err(ENOSPC);
        }
        for (i, pair) in caps.trap_handler.chunks(2).enumerate() {
            let high = pair.get(1).copied().unwrap_or(0);
            bo.write64(i * 8, u64::from(high) << 32 | u64::from(pair[0]))?;
        }
        // The last page below the hole: the kernel keeps it from user space.
        let va = (1 << (caps.va_bits - 1)) - size;
        let access = Access {
            read: true,
            write: false,
            exec: true,
        };
        vm.map(va, &bo, 0, size, access)?;
        Ok(Self { bo, va })
    }

    /// The address of the code.
    pub(super) fn tba(&self) -> u64 {
        self.va
    }

    /// The address of its memory.
    pub(super) fn tma(&self) -> u64 {
        self.va + MEMORY as u64
    }

    /// Names the second handler, 0 for none, and its memory.
    pub(super) fn set_second(&self, tba: u64, tma: u64) -> Result {
        // Not to go to the new handler with the old one's memory.
        self.bo.write64(MEMORY, 0)?;
        self.bo.write64(MEMORY + 8, tma)?;
        self.bo.write64(MEMORY, tba)
    }
}
