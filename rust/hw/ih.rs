// SPDX-License-Identifier: GPL-2.0

//! Interrupt ring (IH): HAL trait and code shared by all versions.

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo},
    discovery::hwid,
    regs::{name, Value},
};

use super::{names::names, nbio::NbioNames};
use crate::asic::{
    mmio::{Block, InstanceMap, Mmio},
    xcc::Xcc,
};

mod entry;

pub(super) use entry::{page_fault, shader_message, RawEntry};
pub(crate) use entry::{
    AccessKind, IhEntry, IhEvent, SqSender, VmFault, IH_ENTRY_BYTES, IH_ENTRY_DWORDS,
};

/// Setup of the IH ring.
pub(crate) struct IhSetup {
    /// Address of the ring, see [`IhHal::in_gart`].
    pub(crate) ring: u64,
    /// Bytes of the ring, a power of two.
    pub(crate) size: u32,
    /// Address of the write pointer shadow, likewise.
    pub(crate) wptr: u64,
    /// Doorbell: dword index in the doorbell BAR.
    pub(crate) doorbell: u32,
    /// Bus address of the dummy read page.
    pub(crate) dummy_dma: u64,
    /// Bus address of ring 1, which takes retry faults.
    pub(crate) retry_ring: u64,
    /// Bytes of ring 1, a power of two.
    pub(crate) retry_size: u32,
    /// Doorbell of ring 1: dword index.
    pub(crate) retry_doorbell: u32,
    /// Doorbell of the retry CAM: dword index.
    pub(crate) cam_doorbell: u32,
}

/// Interrupt ring. Register accesses return `ENODEV` after unbind.
pub(crate) trait IhHal: Sync {
    /// Returns whether the ring has an address in the GART, otherwise a bus address.
    fn in_gart(&self) -> bool;

    /// Programs and enables the ring.
    fn start(&self, mmio: &Mmio, setup: &IhSetup) -> Result;

    /// Disables the ring.
    fn stop(&self, mmio: &Mmio) -> Result;

    /// Splits a write pointer (shadow or register) of a ring of `size` bytes, a power of two, into
    /// the byte offset of an entry and the overflow. Any value of the device is one of an entry.
    fn wptr(&self, raw: u32, size: u32) -> (u32, bool);

    /// Reads the write pointer register.
    fn read_wptr(&self, mmio: &Mmio) -> Result<u32>;

    /// Acknowledges an overflow.
    fn clear_overflow(&self, mmio: &Mmio) -> Result;

    /// Reads the write pointer register of ring 1. `EINVAL` without the ring.
    fn read_retry_wptr(&self, mmio: &Mmio) -> Result<u32>;

    /// Acknowledges an overflow of ring 1.
    fn clear_retry_overflow(&self, mmio: &Mmio) -> Result;

    /// Returns the mask of the IH node ids of a partition, which are those of its XCCs and of their
    /// AIDs; `None` if entries have no node id.
    fn nodes(&self, xccs: &[Xcc]) -> Option<u32>;

    /// Decodes an entry. Instance numbers in the result are logical.
    fn decode(&self, mmio: &Mmio, entry: &[u32; IH_ENTRY_DWORDS]) -> IhEntry;
}

names! { $
    /// Registers and fields of all versions.
    struct IhNames, ih_names of name {
        regs {
            IH_CHICKEN { MC_SPACE_GPA_ENABLE, },
            IH_RB_BASE,
            IH_RB_BASE_HI,
            IH_RB_CNTL {
                MC_SPACE,
                WPTR_OVERFLOW_CLEAR,
                WPTR_OVERFLOW_ENABLE,
                RB_SIZE,
                WPTR_WRITEBACK_ENABLE,
                MC_SNOOP,
                MC_RO,
                MC_VMID,
                RPTR_REARM,
            },
            IH_RB_WPTR_ADDR_LO,
            IH_RB_WPTR_ADDR_HI,
            IH_RB_RPTR,
            IH_RB_WPTR { RB_OVERFLOW, },
            IH_DOORBELL_RPTR { OFFSET, ENABLE, },
        }
    }
}

/// A version of the IH ring.
pub(super) trait IhVersion: Sync {
    /// Its registers.
    const NAMES: &'static IhNames;
    /// NBIO registers.
    const BUS: &'static NbioNames;
    /// IH_RB_CNTL.MC_SPACE: [`MC_SPACE_GART`], or that of bus addresses (`vega20_ih_rb_cntl`).
    const MC_SPACE: u32;

    /// Enables or disables the ring and its interrupts.
    fn switch(b: Block<'_>, on: bool) -> Result;

    /// Runs before the ring is enabled.
    fn prepare(b: Block<'_>) -> Result {
        let _ = b;
        Ok(())
    }

    /// Programs and enables ring 1 and the retry CAM, if the version has them.
    fn start_retry(b: Block<'_>, s: &IhSetup) -> Result {
        let _ = (b, s);
        Ok(())
    }

    /// Disables and empties ring 1. The retry CAM stays enabled.
    fn stop_retry(b: Block<'_>) -> Result {
        let _ = b;
        Ok(())
    }

    /// See [`IhHal::read_retry_wptr`].
    fn read_retry_wptr(b: Block<'_>) -> Result<u32> {
        let _ = b;
        Err(EINVAL)
    }

    /// See [`IhHal::clear_retry_overflow`].
    fn clear_retry_overflow(b: Block<'_>) -> Result {
        let _ = b;
        Err(EINVAL)
    }

    /// See [`IhHal::nodes`].
    fn nodes(xccs: &[Xcc]) -> Option<u32> {
        let _ = xccs;
        None
    }

    /// Decodes entries of clients other than the CP.
    fn event(map: &InstanceMap, entry: &RawEntry<'_>) -> IhEvent;
}

/// IH_RB_CNTL.MC_SPACE for addresses in VMID 0 (`ih_v7_0_rb_cntl`, `vega20_ih_rb_cntl`).
pub(super) const MC_SPACE_GART: u32 = 4;

fn block(mmio: &Mmio) -> Result<Block<'_>> {
    mmio.block(hwid::OSSSYS, 0)
}

/// Disables and empties the ring.
fn switch_off<T: IhVersion>(b: Block<'_>) -> Result {
    T::switch(b, false)?;
    b.wr(T::NAMES.IH_RB_RPTR, 0)?;
    b.wr(T::NAMES.IH_RB_WPTR, 0)
}

impl IhNames {
    /// WPTR_OVERFLOW_CLEAR acts on a rising edge.
    pub(super) fn clear_overflow(&self, b: Block<'_>) -> Result {
        let bit = self.IH_RB_CNTL__WPTR_OVERFLOW_CLEAR;
        b.set(self.IH_RB_CNTL, &[(bit, 1)])?;
        // Rearm at once for the next overflow.
        b.set(self.IH_RB_CNTL, &[(bit, 0)])
    }
}

impl<T: IhVersion> IhHal for T {
    fn in_gart(&self) -> bool {
        T::MC_SPACE == MC_SPACE_GART
    }

    fn start(&self, mmio: &Mmio, s: &IhSetup) -> Result {
        let (b, n) = (block(mmio)?, T::NAMES);
        switch_off::<T>(b)?;
        T::BUS.start_interrupts(mmio, s.dummy_dma)?;
        if !self.in_gart() {
            b.set(n.IH_CHICKEN, &[(n.IH_CHICKEN__MC_SPACE_GPA_ENABLE, 1)])?;
        }

        b.wr(n.IH_RB_BASE, lo(s.ring >> 8))?;
        b.wr(n.IH_RB_BASE_HI, lo(s.ring >> 40) & 0xff)?;
        b.set(
            n.IH_RB_CNTL,
            &[
                (n.IH_RB_CNTL__MC_SPACE, T::MC_SPACE),
                (n.IH_RB_CNTL__WPTR_OVERFLOW_CLEAR, 1),
                (n.IH_RB_CNTL__WPTR_OVERFLOW_ENABLE, 1),
                (n.IH_RB_CNTL__RB_SIZE, (s.size / 4).ilog2()),
                (n.IH_RB_CNTL__WPTR_WRITEBACK_ENABLE, 1),
                (n.IH_RB_CNTL__MC_SNOOP, 1),
                (n.IH_RB_CNTL__MC_RO, 0),
                (n.IH_RB_CNTL__MC_VMID, 0),
                (n.IH_RB_CNTL__RPTR_REARM, 1),
            ],
        )?;
        b.wr(n.IH_RB_WPTR_ADDR_LO, lo(s.wptr))?;
        b.wr(n.IH_RB_WPTR_ADDR_HI, hi(s.wptr) & 0xffff)?;
        b.wr(
            n.IH_DOORBELL_RPTR,
            n.IH_DOORBELL_RPTR__OFFSET.put(s.doorbell) | n.IH_DOORBELL_RPTR__ENABLE.put(1),
        )?;
        T::prepare(b)?;
        T::start_retry(b, s)?;
        T::switch(b, true)
    }

    fn stop(&self, mmio: &Mmio) -> Result {
        let b = block(mmio)?;
        switch_off::<T>(b)?;
        T::stop_retry(b)
    }

    fn wptr(&self, raw: u32, size: u32) -> (u32, bool) {
        let overflow = T::NAMES.IH_RB_WPTR__RB_OVERFLOW.is_set(Value::new(raw));
        (raw & (size - 1) & !(IH_ENTRY_BYTES - 1), overflow)
    }

    fn read_wptr(&self, mmio: &Mmio) -> Result<u32> {
        block(mmio)?.rd(T::NAMES.IH_RB_WPTR).map(Value::raw)
    }

    fn clear_overflow(&self, mmio: &Mmio) -> Result {
        T::NAMES.clear_overflow(block(mmio)?)
    }

    fn read_retry_wptr(&self, mmio: &Mmio) -> Result<u32> {
        T::read_retry_wptr(block(mmio)?)
    }

    fn clear_retry_overflow(&self, mmio: &Mmio) -> Result {
        T::clear_retry_overflow(block(mmio)?)
    }

    fn nodes(&self, xccs: &[Xcc]) -> Option<u32> {
        T::nodes(xccs)
    }

    fn decode(&self, mmio: &Mmio, words: &[u32; IH_ENTRY_DWORDS]) -> IhEntry {
        RawEntry::new(words).decode(|entry| T::event(mmio.instances(), entry))
    }
}
