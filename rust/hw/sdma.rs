// SPDX-License-Identifier: GPL-2.0

//! SDMA engines: HAL trait and code shared by all versions.

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
    gfx::RegisterDump,
    gmc::{FlushType, HubNames},
    names::names,
    nbio::{self, NbioNames},
};
use crate::asic::mmio::{Block, InstanceMap, Mmio};

/// The kernel ring of an SDMA engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SdmaRing {
    /// Address of the ring in VMID 0.
    pub(crate) base: u64,
    /// Bytes of the ring, a power of two.
    pub(crate) size: u32,
    /// Address of the read pointer report.
    pub(crate) rptr: u64,
    /// Address of the write pointer for polling.
    pub(crate) wptr: u64,
    /// Doorbell: dword index in the doorbell BAR.
    pub(crate) doorbell: u32,
}

/// Register writes by which an SDMA engine switches a VMID to another page table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VmSwitch {
    /// Writes in this order: page table root, PASID for interrupts, invalidation request.
    pub(crate) writes: [RegValue; 4],
    /// Request to read back before the ACK, if that is not cleared at once.
    pub(crate) readback: Option<RegValue>,
    /// Invalidation ACK to wait for.
    pub(crate) done: RegValue,
}

/// SDMA engines, by logical number. Register accesses return `ENODEV` after unbind or for a missing
/// engine.
pub(crate) trait SdmaHal: Sync {
    /// Starts the kernel ring of an engine, empty, with its pointers at 0. `EIO` when firmware does
    /// not run.
    fn start(&self, mmio: &Mmio, engine: u32, ring: &SdmaRing) -> Result;

    /// Disables the kernel ring of an engine. A running command continues.
    fn stop(&self, mmio: &Mmio, engine: u32) -> Result;

    /// Returns whether the engine has the kernel ring selected.
    fn is_selected(&self, mmio: &Mmio, engine: u32) -> Result<bool>;

    /// Returns whether the engine is idle.
    fn is_idle(&self, mmio: &Mmio, engine: u32) -> Result<bool>;

    /// Resets an engine and waits until it runs again. Its queues are lost. `ETIMEDOUT` when it
    /// stays halted, or errors of the SMU.
    fn reset(&self, mmio: &Mmio, engine: u32) -> Result;

    /// Returns the number of the hub whose VMIDs an engine uses; each hub has its own.
    fn hub_number(&self, mmio: &Mmio, engine: u32) -> Result<u32>;

    /// Returns the register writes before an engine uses a VMID with this page table root and
    /// PASID.
    fn vm_switch(
        &self,
        mmio: &Mmio,
        engine: u32,
        vmid: u32,
        root: u64,
        pasid: u32,
    ) -> Result<VmSwitch>;

    /// Returns the HDP flush of an engine.
    fn hdp_flush(&self, mmio: &Mmio, engine: u32) -> Result<HdpFlush>;

    /// Returns the engines, a bit for each logical number, that may have caused a fault in the hub
    /// of IH node `node`: the one that the fault status names, or all of the hub if it names none.
    fn fault_engines(&self, mmio: &Mmio, status: u32, node: u32) -> u32;

    /// The packet encoding.
    fn packets(&self) -> &'static dyn DmaPacketHal;

    /// Dumps the registers of an engine, for debugfs. `ENOMEM` for the list.
    fn dump(&self, mmio: &Mmio, engine: u32) -> Result<RegisterDump>;
}

names! { $
    /// Engine registers and fields of all versions.
    struct EngineNames, engine_names of sdma {
        regs {
            CNTL { TRAP_ENABLE, },
            STATUS_REG { IDLE, },
        }
    }
}

names! { $
    /// Queue registers and fields of all versions.
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

/// A version of the SDMA engines.
pub(super) trait SdmaVersion: Sync {
    /// Engine registers.
    const ENGINE: &'static EngineNames;
    /// Registers of the kernel ring.
    const RING: &'static RingNames;
    /// NBIO registers.
    const BUS: &'static NbioNames;
    /// Registers of the engine's hub.
    const HUB: &'static HubNames;
    /// IH_VMID_0_LUT of the hub: PASID of VMID 0 in IH entries.
    const PASIDS: Reg<Untyped>;
    /// Dumped registers.
    const DUMPED: &'static [Reg<Untyped>];
    /// The packet encoding.
    const PACKETS: &'static dyn DmaPacketHal;

    /// Returns the registers of an engine. `EINVAL` or `ENODEV` when it does not exist.
    fn engine(mmio: &Mmio, engine: u32) -> Result<Engine<'_>>;

    /// Returns the number of the hub of an engine.
    fn hub_number(mmio: &Mmio, engine: u32) -> Result<u32>;

    /// Invalidation engines of the rings of a hub, by the number of the SDMA engine there. Others
    /// belong to the firmware (`AMDGPU_VMHUB_INV_ENG_BITMAP`).
    const INVALIDATION_ENGINES: &'static [u32];

    /// Whether an invalidation request clears its ACK one register access later
    /// (`sdma_v7_0_ring_emit_reg_write_reg_wait`).
    const ACK_IS_LATE: bool;

    /// Returns the hub of an engine and the number of the engine there.
    fn hub(mmio: &Mmio, engine: u32) -> Result<(Block<'_>, u32)>;

    /// See [`SdmaHal::start`].
    fn start(e: Engine<'_>, ring: &SdmaRing) -> Result;

    /// Disables further parts of the engine. Not its translation: user queues of an engine that is
    /// about to be reset continue, and their addresses must stay virtual.
    fn stopped(e: Engine<'_>) -> Result {
        let _ = e;
        Ok(())
    }

    /// See [`SdmaHal::reset`].
    fn reset(mmio: &Mmio, engine: u32) -> Result;

    /// See [`SdmaHal::fault_engines`].
    fn fault_engines(map: &InstanceMap, status: u32, node: u32) -> u32;
}

/// Registers of an engine: those of a block at an offset.
#[derive(Clone, Copy)]
pub(super) struct Engine<'a> {
    /// Register block.
    pub(super) block: Block<'a>,
    engine: u32,
    stride: fn(Reg<Untyped>) -> u32,
}

impl<'a> Engine<'a> {
    /// Returns an engine with its own block.
    pub(super) fn alone(block: Block<'a>) -> Self {
        Self::among(block, 0, |_| 0)
    }

    /// Returns an engine of several in a block; `stride` returns the distance of a register to the
    /// next engine's, in dwords.
    pub(super) fn among(block: Block<'a>, engine: u32, stride: fn(Reg<Untyped>) -> u32) -> Self {
        Self {
            block,
            engine,
            stride,
        }
    }

    /// Returns the offset of the engine's register, in dwords.
    pub(super) fn index<R>(self, reg: Reg<R>) -> u32 {
        self.engine * (self.stride)(reg.untyped())
    }

    /// Reads a register. Errors as [`Block::rd`].
    pub(super) fn rd<R>(self, reg: Reg<R>) -> Result<Value<R>> {
        self.rd_at(reg, 0)
    }

    /// Reads the register `index` dwords after `reg`. Errors as [`Block::rd`].
    pub(super) fn rd_at<R>(self, reg: Reg<R>, index: u32) -> Result<Value<R>> {
        self.block.rd_at(reg, self.index(reg) + index)
    }

    /// Writes a register. Errors as [`Block::rd`].
    pub(super) fn wr<R>(self, reg: Reg<R>, value: impl Into<Value<R>>) -> Result {
        self.block.wr_at(reg, self.index(reg), value)
    }

    /// Reads a register, replaces fields, writes it back. Errors as [`Block::rd`].
    pub(super) fn set<R>(self, reg: Reg<R>, fields: &[(Field<R>, u32)]) -> Result {
        self.wr(reg, self.rd(reg)?.with(fields))
    }

    /// Reads these registers, `index` dwords further on. `ENOMEM` for the list.
    pub(super) fn dump(self, regs: &[Reg<Untyped>], index: u32) -> Result<RegisterDump> {
        let mut dump = RegisterDump::with_capacity(regs.len(), GFP_KERNEL)?;
        for reg in regs {
            let name = reg.name.strip_prefix("reg").unwrap_or(reg.name);
            dump.push((name, self.rd_at(*reg, index)?.raw()), GFP_KERNEL)?;
        }
        Ok(dump)
    }
}

impl RingNames {
    /// Programs ring base and read pointer report.
    pub(super) fn place(&self, e: Engine<'_>, ring: &SdmaRing) -> Result {
        e.wr(self.RB_RPTR_ADDR_HI, hi(ring.rptr))?;
        e.wr(self.RB_RPTR_ADDR_LO, lo(ring.rptr) & !3)?;
        e.wr(self.RB_BASE, lo(ring.base >> 8))?;
        e.wr(self.RB_BASE_HI, lo(ring.base >> 40))
    }

    /// Programs the write pointer poll address.
    pub(super) fn poll_wptr(&self, e: Engine<'_>, ring: &SdmaRing) -> Result {
        e.wr(self.RB_WPTR_POLL_ADDR_LO, lo(ring.wptr))?;
        e.wr(self.RB_WPTR_POLL_ADDR_HI, hi(ring.wptr))
    }

    /// Clears read and write pointer.
    pub(super) fn clear(&self, e: Engine<'_>) -> Result {
        e.wr(self.RB_RPTR, 0)?;
        e.wr(self.RB_RPTR_HI, 0)?;
        e.wr(self.RB_WPTR, 0)?;
        e.wr(self.RB_WPTR_HI, 0)
    }

    /// Enables the doorbell, or disables it for `None`.
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

/// Returns the packet form of a register write.
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

    fn hub_number(&self, mmio: &Mmio, engine: u32) -> Result<u32> {
        T::hub_number(mmio, engine)
    }

    fn vm_switch(
        &self,
        mmio: &Mmio,
        engine: u32,
        vmid: u32,
        root: u64,
        pasid: u32,
    ) -> Result<VmSwitch> {
        let (hub, number) = T::hub(mmio, engine)?;
        let inv = T::INVALIDATION_ENGINES.get(number as usize);
        let inv = *inv.ok_or(EINVAL)?;
        let ih = mmio.block(hwid::OSSSYS, 0)?;
        let n = T::HUB;
        let root_of = n.VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32;
        let context = vmid * (n.VM_CONTEXT1_PAGE_TABLE_BASE_ADDR_LO32.off - root_of.off);
        let request = n.invalidate_request(vmid, FlushType::Legacy);
        // Any value will do: no bits to wait for.
        let readback = at(hub, n.VM_INVALIDATE_ENG0_REQ, inv, 0)?;
        Ok(VmSwitch {
            writes: [
                at(hub, root_of, context, lo(root))?,
                at(hub, root_of, context + 1, hi(root))?,
                at(ih, T::PASIDS, vmid, pasid)?,
                at(hub, n.VM_INVALIDATE_ENG0_REQ, inv, request)?,
            ],
            readback: T::ACK_IS_LATE.then_some(readback),
            done: at(hub, n.VM_INVALIDATE_ENG0_ACK, inv, 1 << vmid)?,
        })
    }

    fn hdp_flush(&self, mmio: &Mmio, engine: u32) -> Result<HdpFlush> {
        let b = nbio::block(mmio)?;
        let (_, number) = T::hub(mmio, engine)?;
        Ok(HdpFlush {
            request: b.address(T::BUS.BIF_BX_PF0_GPU_HDP_FLUSH_REQ, 0)?,
            done: b.address(T::BUS.BIF_BX_PF0_GPU_HDP_FLUSH_DONE, 0)?,
            mask: T::BUS.BIF_BX_PF0_GPU_HDP_FLUSH_REQ__SDMA0.mask() << number,
        })
    }

    fn fault_engines(&self, mmio: &Mmio, status: u32, node: u32) -> u32 {
        T::fault_engines(mmio.instances(), status, node)
    }

    fn packets(&self) -> &'static dyn DmaPacketHal {
        T::PACKETS
    }

    fn dump(&self, mmio: &Mmio, engine: u32) -> Result<RegisterDump> {
        T::engine(mmio, engine)?.dump(T::DUMPED, 0)
    }
}
