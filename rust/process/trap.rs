// SPDX-License-Identifier: GPL-2.0

//! First-level trap handler of a process on a GPU (CWSR handler in the C driver).
//!
//! A page at a fixed address above all user mappings holds the code and, in its second half, the
//! handler's memory (TMA). The handler saves and restores waves, and jumps to the second-level
//! handler of `SET_TRAP_HANDLER`, if there is one, for traps and exceptions.

use kernel::{num::casts::usize_as_u64, page::PAGE_SIZE, prelude::*, sync::Arc};

use crate::{
    gpu::Gpu,
    hw::Mtype,
    mmu::{Access, Bo, BoFlags, Vm},
};

/// Byte offset of the TMA in the page: TBA and TMA of the second-level handler, and whether a
/// debugger is attached.
const TMA_OFFSET: usize = PAGE_SIZE / 2;

/// The handler. It stays mapped as long as the address space exists.
pub(super) struct TrapHandler {
    bo: Bo,
    va: u64,
}

impl TrapHandler {
    /// Returns a handler in memory. It is mapped nowhere yet.
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        let caps = gpu.generation().caps;
        let size = usize_as_u64(PAGE_SIZE);
        let flags = BoFlags {
            uncached: true,
            coherent: true,
            ..BoFlags::default()
        };
        let bo = Bo::gtt(gpu, size, flags, None)?;
        if caps.trap_handler.len() * 4 > TMA_OFFSET {
            return Err(ENOSPC);
        }
        for (i, pair) in caps.trap_handler.chunks(2).enumerate() {
            let high = pair.get(1).copied().unwrap_or(0);
            bo.write64(i * 8, u64::from(high) << 32 | u64::from(pair[0]))?;
        }
        // The last page below the hole, which mmap() never returns.
        let va = (1 << (caps.va_bits - 1)) - size;
        Ok(Self { bo, va })
    }

    /// Maps the handler in an address space. `EINVAL` if its address is taken.
    pub(super) fn map(&self, vm: &Vm) -> Result {
        let access = Access {
            read: true,
            write: false,
            exec: true,
            mtype: Mtype::NonCoherent,
        };
        vm.map(self.va, &self.bo, 0, self.bo.size(), access)
    }

    /// Undoes [`Self::map`].
    pub(super) fn unmap(&self, vm: &Vm) {
        let unmap = || vm.unmap(self.va, self.bo.size());
        // A flush of the TLBs that fails wedges the card, which is not flushed after that.
        if let Err(e) = unmap().or_else(|_| unmap()) {
            dev_err!(
                self.bo.gpu().dev(),
                "trap handler of PASID {} was not unmapped: {e:?}\n",
                vm.pasid()
            );
        }
    }

    /// Returns the GPU address of the code (TBA).
    pub(super) fn tba(&self) -> u64 {
        self.va
    }

    /// Returns the GPU address of its memory (TMA).
    pub(super) fn tma(&self) -> u64 {
        self.va + usize_as_u64(TMA_OFFSET)
    }

    /// Sets TBA, 0 for none, and TMA of the second-level handler.
    pub(super) fn set_second_level(&self, tba: u64, tma: u64) -> Result {
        // No jump to the new handler with the old TMA.
        self.bo.write64(TMA_OFFSET, 0)?;
        self.bo.write64(TMA_OFFSET + 8, tma)?;
        self.bo.write64(TMA_OFFSET, tba)
    }

    /// Sets whether a debugger is attached. The handler passes the flag to the second-level
    /// handler, which then leaves exceptions to the debugger.
    pub(super) fn set_debugged(&self, debugged: bool) -> Result {
        self.bo.write64(TMA_OFFSET + 16, debugged.into())
    }
}
