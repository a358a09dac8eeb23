// SPDX-License-Identifier: GPL-2.0

//! The DMA engines: what the driver wants of them, and what all versions of them do.

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo},
    discovery::hwid,
    regs::{
        name::{sdma, sdma_queue},
        Field, Reg, Untyped, Value,
    },
};

use super::{
    dma::{DmaPacketHal, HdpFlush, RegValue},
    gfx::HqdDump,
    gmc::{FlushType, HubNames},
    names::names,
    nbio::{self, NbioNames},
};
use crate::asic::mmio::{Block, InstanceMap, Mmio};

/// Where the kernel's ring of an SDMA engine is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SdmaRing {
    /// Address of the ring for the engine (VMID 0).
    pub(crate) base: u64,
    /// Bytes of the ring, a power of two.
    pub(crate) size: u32,
    /// Where the engine reports its read pointer.
    pub(crate) rptr: u64,
    /// Where the driver keeps the write pointer.
    pub(crate) wptr: u64,
    /// The doorbell: index of the 32-bit word in the doorbell BAR.
    pub(crate) doorbell: u32,
}

/// What a DMA engine does to run in an address space of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VmSwitch {
    /// Registers to write, in this order: page table root, PASID for interrupts, and last the
    /// request to drop the VMID's translations.
    pub(crate) writes: [RegValue; 4],
    /// The register whose bits say that they are dropped.
    pub(crate) done: RegValue,
}

/// The DMA engines.
pub(crate) trait SdmaHal: Sync {
    /// Starts the kernel's ring of an engine, empty, with its pointers at 0.
    fn start(&self, mmio: &Mmio, engine: u32, ring: &SdmaRing) -> Result;

    /// Takes the kernel's ring off the engine. What it executes at the moment goes on.
    fn stop(&self, mmio: &Mmio, engine: u32) -> Result;

    /// The engine is at work on the kernel's ring.
    fn is_selected(&self, mmio: &Mmio, engine: u32) -> Result<bool>;

    /// The engine has nothing to do.
    fn is_idle(&self, mmio: &Mmio, engine: u32) -> Result<bool>;

    /// Resets an engine through the management firmware and waits until it runs again. Its
    /// queues are gone then.
    fn reset(&self, mmio: &Mmio, engine: u32) -> Result;

    /// What an engine has to do before it may use a VMID.
    fn vm_switch(
        &self,
        mmio: &Mmio,
        engine: u32,
        vmid: u32,
        root: u64,
        pasid: u32,
    ) -> Result<VmSwitch>;

    /// How an engine flushes what the CPU wrote to VRAM.
    fn hdp_flush(&self, mmio: &Mmio, engine: u32) -> Result<HdpFlush>;

    /// The engine whose access the fault status of a memory hub reports, if it was one.
    fn fault_engine(&self, mmio: &Mmio, status: u32, node: u32) -> Option<u32>;

    /// The packets that the engines know.
    fn packets(&self) -> &'static dyn DmaPacketHal;

    /// Registers of an engine, for debugfs.
    fn dump(&self, mmio: &Mmio, engine: u32) -> Result<HqdDump>;
}

names! { $
    /// What all versions have of an engine.
    struct EngineNames, engine_names of sdma {
        regs {
            CNTL { TRAP_ENABLE, },
            STATUS_REG { IDLE, },
        }
    }
}

names! { $
    /// What all versions have of each ring of an engine.
    struct RingNames, ring_names of sdma_queue {
        regs {
            RB_CNTL { RB_ENABLE, RB_SIZE, RPTR_WRITEBACK_ENABLE, RPTR_WRITEBACK_TIMER, },
            RB_BASE,
            RB_BASE_HI,
            RB_RPTR,
            RB_RPTR_HI,
            RB_WPTR,
            RB_WPTR_HI,
            RB_RPTR_ADDR_HI,
            RB_RPTR_ADDR_LO,
            RB_WPTR_POLL_ADDR_HI,
            RB_WPTR_POLL_ADDR_LO,
            IB_CNTL { IB_ENABLE, SWITCH_INSIDE_IB, },
            CONTEXT_STATUS { SELECTED, },
            DOORBELL { ENABLE, },
            DOORBELL_OFFSET { OFFSET, },
            MINOR_PTR_UPDATE,
        }
    }
}

/// A version of the engines.
pub(super) trait SdmaVersion: Sync {
    /// Where the registers of an engine are.
    const ENGINE: &'static EngineNames;
    /// Where those of the kernel's ring are.
    const RING: &'static RingNames;
    /// Where those of the bus interface are.
    const BUS: &'static NbioNames;
    /// Where those of the hub are that it uses.
    const HUB: &'static HubNames;
    /// The PASID that interrupts of this hub have for VMID 0.
    const PASIDS: Reg<Untyped>;
    /// What a dump shows.
    const DUMPED: &'static [Reg<Untyped>];
    /// The packets that the engines know.
    const PACKETS: &'static dyn DmaPacketHal;

    /// An engine's registers.
    fn engine(mmio: &Mmio, engine: u32) -> Result<Engine<'_>>;

    /// The hub that an engine uses, and which of its invalidation engines.
    fn hub(mmio: &Mmio, engine: u32) -> Result<(Block<'_>, u32)>;

    /// See [`SdmaHal::start`].
    fn start(e: Engine<'_>, ring: &SdmaRing) -> Result;

    /// What is switched off besides the ring.
    fn stopped(e: Engine<'_>) -> Result {
        let _ = e;
        Ok(())
    }

    /// See [`SdmaHal::reset`].
    fn reset(mmio: &Mmio, engine: u32) -> Result;

    /// See [`SdmaHal::fault_engine`].
    fn fault_engine(map: &InstanceMap, status: u32, node: u32) -> Option<u32>;
}

/// The registers of an engine: those of a block, moved.
#[derive(Clone, Copy)]
pub(super) struct Engine<'a> {
    /// The block.
    pub(super) block: Block<'a>,
    engine: u32,
    stride: fn(Reg<Untyped>) -> u32,
}

impl<'a> Engine<'a> {
    /// An engine with a block of its own.
    pub(super) fn alone(block: Block<'a>) -> Self {
        Self::among(block, 0, |_| 0)
    }

    /// An engine of several in a block; `stride` says how far each register is from the next
    /// engine's.
    pub(super) fn among(block: Block<'a>, engine: u32, stride: fn(Reg<Untyped>) -> u32) -> Self {
        Self {
            block,
            engine,
            stride,
        }
    }

    /// How far the engine's register is from the block's.
    pub(super) fn index<R>(self, reg: Reg<R>) -> u32 {
        self.engine * (self.stride)(reg.untyped())
    }

    /// Reads a register.
    pub(super) fn rd<R>(self, reg: Reg<R>) -> Result<Value<R>> {
        self.rd_at(reg, 0)
    }

    /// Reads the register `index` dwords behind `reg`.
    pub(super) fn rd_at<R>(self, reg: Reg<R>, index: u32) -> Result<Value<R>> {
        self.block.rd_at(reg, self.index(reg) + index)
    }

    /// Writes a register.
    pub(super) fn wr<R>(self, reg: Reg<R>, value: impl Into<Value<R>>) -> Result {
        self.block.wr_at(reg, self.index(reg), value)
    }

    /// Reads, changes the given fields and writes back.
    pub(super) fn set<R>(self, reg: Reg<R>, fields: &[(Field<R>, u32)]) -> Result {
        self.wr(reg, self.rd(reg)?.with(fields))
    }

    /// Reads all of these, moved by `index`.
    pub(super) fn dump(self, regs: &[Reg<Untyped>], index: u32) -> Result<HqdDump> {
        let mut dump = HqdDump::with_capacity(regs.len(), GFP_KERNEL)?;
        for reg in regs {
            let name = reg.name.strip_prefix("reg").unwrap_or(reg.name);
            dump.push((name, self.rd_at(*reg, index)?.raw()), GFP_KERNEL)?;
        }
        Ok(dump)
    }
}

impl RingNames {
    /// Where the ring is, and where the engine reports its read pointer.
    pub(super) fn place(&self, e: Engine<'_>, ring: &SdmaRing) -> Result {
        e.wr(self.RB_RPTR_ADDR_HI, hi(ring.rptr))?;
        e.wr(self.RB_RPTR_ADDR_LO, lo(ring.rptr) & !3)?;
        e.wr(self.RB_BASE, lo(ring.base >> 8))?;
        e.wr(self.RB_BASE_HI, lo(ring.base >> 40))
    }

    /// Where the driver keeps the write pointer.
    pub(super) fn poll_wptr(&self, e: Engine<'_>, ring: &SdmaRing) -> Result {
        e.wr(self.RB_WPTR_POLL_ADDR_LO, lo(ring.wptr))?;
        e.wr(self.RB_WPTR_POLL_ADDR_HI, hi(ring.wptr))
    }

    /// The ring is empty.
    pub(super) fn clear(&self, e: Engine<'_>) -> Result {
        e.wr(self.RB_RPTR, 0)?;
        e.wr(self.RB_RPTR_HI, 0)?;
        e.wr(self.RB_WPTR, 0)?;
        e.wr(self.RB_WPTR_HI, 0)
    }

    /// Lets the doorbell through, or no longer.
    pub(super) fn ring_by(&self, e: Engine<'_>, doorbell: Option<u32>) -> Result {
        let enable = self.DOORBELL__ENABLE;
        e.set(self.DOORBELL, &[(enable, doorbell.is_some().into())])?;
        let offset = self.DOORBELL_OFFSET__OFFSET;
        e.set(
            self.DOORBELL_OFFSET,
            &[(offset, doorbell.unwrap_or_default())],
        )
    }
}

/// A register of a block and its value, for a packet.
fn at<R>(
    block: Block<'_>,
    reg: Reg<R>,
    index: u32,
    value: impl Into<Value<R>>,
) -> Result<RegValue> {
    Ok(RegValue {
        reg: block.address(reg, index)?,
        value: value.into().raw(),
    })
}

impl<T: SdmaVersion> SdmaHal for T {
    fn start(&self, mmio: &Mmio, engine: u32, ring: &SdmaRing) -> Result {
        T::start(T::engine(mmio, engine)?, ring)
    }

    fn stop(&self, mmio: &Mmio, engine: u32) -> Result {
        let (e, n) = (T::engine(mmio, engine)?, T::RING);
        e.set(n.RB_CNTL, &[(n.RB_CNTL__RB_ENABLE, 0)])?;
        e.set(n.IB_CNTL, &[(n.IB_CNTL__IB_ENABLE, 0)])?;
        T::stopped(e)?;
        n.ring_by(e, None)
    }

    fn is_selected(&self, mmio: &Mmio, engine: u32) -> Result<bool> {
        let status = T::engine(mmio, engine)?.rd(T::RING.CONTEXT_STATUS)?;
        Ok(T::RING.CONTEXT_STATUS__SELECTED.is_set(status))
    }

    fn is_idle(&self, mmio: &Mmio, engine: u32) -> Result<bool> {
        let status = T::engine(mmio, engine)?.rd(T::ENGINE.STATUS_REG)?;
        Ok(T::ENGINE.STATUS_REG__IDLE.is_set(status))
    }

    fn reset(&self, mmio: &Mmio, engine: u32) -> Result {
        T::reset(mmio, engine)
    }

    fn vm_switch(
        &self,
        mmio: &Mmio,
        engine: u32,
        vmid: u32,
        root: u64,
        pasid: u32,
    ) -> Result<VmSwitch> {
        let (hub, inv) = T::hub(mmio, engine)?;
        let ih = mmio.block(hwid::OSSSYS, 0)?;
        let n = T::HUB;
        let root_of = n.VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32;
        let context = vmid * (n.VM_CONTEXT1_PAGE_TABLE_BASE_ADDR_LO32.off - root_of.off);
        let request = n.invalidate_request(vmid, FlushType::Legacy);
        Ok(VmSwitch {
            writes: [
                at(hub, root_of, context, lo(root))?,
                at(hub, root_of, context + 1, hi(root))?,
                at(ih, T::PASIDS, vmid, pasid)?,
                at(hub, n.VM_INVALIDATE_ENG0_REQ, inv, request)?,
            ],
            done: at(hub, n.VM_INVALIDATE_ENG0_ACK, inv, 1 << vmid)?,
        })
    }

    fn hdp_flush(&self, mmio: &Mmio, engine: u32) -> Result<HdpFlush> {
        let b = nbio::block(mmio)?;
        let (_, inv) = T::hub(mmio, engine)?;
        Ok(HdpFlush {
            request: b.address(T::BUS.BIF_BX_PF0_GPU_HDP_FLUSH_REQ, 0)?,
            done: b.address(T::BUS.BIF_BX_PF0_GPU_HDP_FLUSH_DONE, 0)?,
            mask: T::BUS.BIF_BX_PF0_GPU_HDP_FLUSH_REQ__SDMA0.mask() << inv,
        })
    }

    fn fault_engine(&self, mmio: &Mmio, status: u32, node: u32) -> Option<u32> {
        T::fault_engine(mmio.instances(), status, node)
    }

    fn packets(&self) -> &'static dyn DmaPacketHal {
        T::PACKETS
    }

    fn dump(&self, mmio: &Mmio, engine: u32) -> Result<HqdDump> {
        T::engine(mmio, engine)?.dump(T::DUMPED, 0)
    }
}
