// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The bus interface: indirect register access, VRAM window, HDP flush, doorbell apertures.
//!
//! NBIF 6.3.1 has these registers at the same positions as NBIO 7.9.0, and another index/data pair.

pub mod requests;
pub mod selfring;

use gpu_regs::{hdp_4_4_2 as hdp, nbif_6_3_1 as nbif, nbio_7_9_0 as nbio};
use rkfd_abi::doorbell::{DWORDS, MIRROR};
use rkfd_abi::mmio::REMAP_SIZE;

use crate::chips::Generation;
use crate::engines::sdma::layout::PER_AID;
use crate::event;
use crate::gpu::Gpu;
use crate::regs::{Ip, RegId, Slot, Unit};
use crate::strict;

const MM_INDEX: RegId = RegId::new(0, nbio::regBIF_BX_PF0_MM_INDEX.off);
const MM_DATA: RegId = RegId::new(0, nbio::regBIF_BX_PF0_MM_DATA.off);
const PCIE_DATA: RegId = RegId::new(0, nbio::regBIF_BX0_PCIE_DATA.off);
const PCIE_DATA2: RegId = RegId::new(0, nbio::regBIF_BX0_PCIE_DATA2.off);
/// NBIF 6.3.1 only.
const RSMU_DATA: RegId = RegId::new(1, nbif::regBIF_BX_PF0_RSMU_DATA.off);
const HDP_FLUSH_REQ: RegId = RegId::new(2, nbio::regBIF_BX_PF0_GPU_HDP_FLUSH_REQ.off);
const HDP_FLUSH_DONE: RegId = RegId::new(2, nbio::regBIF_BX_PF0_GPU_HDP_FLUSH_DONE.off);
const HDP_MEM_FLUSH: RegId = RegId::new(2, nbio::regBIF_BX_PF0_HDP_MEM_COHERENCY_FLUSH_CNTL.off);
const HDP_REG_FLUSH: RegId = RegId::new(2, nbio::regBIF_BX_PF0_HDP_REG_COHERENCY_FLUSH_CNTL.off);
/// NBIO 7.9 only; `nbio.baco` is the only cause of its bits.
const BACO_CNTL: RegId = RegId::new(2, nbio::regBIF_BX0_BACO_CNTL.off);
const BACO: u32 =
    nbio::BIF_BX0_BACO_CNTL__BACO_EN.mask | nbio::BIF_BX0_BACO_CNTL__BACO_DUMMY_EN.mask;

/// High half of an SMN address: AID, and whether the address has one.
const AID: u32 = 3;
const EXTENDED: u32 = 4;

/// `HDP_MISC_CNTL.FLUSH_INVALIDATE_CACHE`, which the header of HDP 4.0 declares only.
const FLUSH_INVALIDATE_CACHE: u64 = 1;

/// Returns the stored value of a register of this block.
fn stored(gpu: &Gpu, reg: gpu_regs::Reg) -> u32 {
    gpu.regs.by_id(gpu.chip, Ip::Nbif, reg).map_or(0, Slot::get)
}

/// Target of an indirect access.
enum Indirect {
    Vram(u64),
    /// Die and dword address.
    Register(u8, u32),
    Nothing,
}

fn mm_target(gpu: &Gpu) -> Indirect {
    let index = stored(gpu, nbio::regBIF_BX_PF0_MM_INDEX);
    let high = u64::from(stored(gpu, nbio::regBIF_BX_PF0_MM_INDEX_HI));
    if index & 1 << 31 != 0 {
        return Indirect::Vram(high << 31 | u64::from(index & 0x7fff_ffff));
    }
    if index % 4 != 0 || high != 0 {
        strict!(
            gpu.strict,
            "nbio",
            "MM_INDEX {index:#x} with MM_INDEX_HI {high:#x}"
        );
        return Indirect::Nothing;
    }
    Indirect::Register(0, index / 4)
}

/// Returns the target of the index/data pair whose data register is `id`. On NBIF 6.3.1 the driver
/// may use the RSMU's only (`nbif_v6_3_1_get_pcie_index_offset`).
fn smn_target(gpu: &Gpu, id: RegId) -> Indirect {
    if gpu.chip.generation == Generation::Gfx12 && id != RSMU_DATA {
        strict!(
            gpu.strict,
            "nbio",
            "access by a PCIE index/data pair: registers beyond the BAR are behind RSMU_INDEX"
        );
    }
    let (index, high) = match id {
        PCIE_DATA => (stored(gpu, nbio::regBIF_BX0_PCIE_INDEX), 0),
        RSMU_DATA => (stored(gpu, nbif::regBIF_BX_PF0_RSMU_INDEX), 0),
        _ => (
            stored(gpu, nbio::regBIF_BX0_PCIE_INDEX2),
            stored(gpu, nbio::regBIF_BX0_PCIE_INDEX2_HI),
        ),
    };
    // Bits 33:32 of an address are the AID if bit 34 is set (`amdgpu_reg_smn_v1_0_get_base`).
    let aid = match high & EXTENDED != 0 {
        true => (high & !EXTENDED) as u8,
        false => 0,
    };
    let known = high & !(EXTENDED | AID) == 0 && (high & EXTENDED != 0 || high == 0);
    if index % 4 != 0 || !known || !gpu.chip.has_aid(aid) {
        strict!(
            gpu.strict,
            "nbio",
            "SMN address {high:#x}_{index:08x}: no such register"
        );
        return Indirect::Nothing;
    }
    Indirect::Register(aid, index / 4)
}

fn indirect_read(gpu: &Gpu, target: Indirect) -> u32 {
    match target {
        Indirect::Vram(offset) => {
            let mut bytes = [0; 4];
            if offset % 4 != 0 || gpu.hdp.read(offset, &mut bytes).is_err() {
                strict!(gpu.strict, "nbio", "MM_DATA read of VRAM at {offset:#x}");
            }
            u32::from_le_bytes(bytes)
        }
        // Indirect access to an index/data register would recurse.
        Indirect::Register(_, addr) if addr <= 0x15 => 0,
        Indirect::Register(die, addr) => gpu.reg_read_on(die, addr),
        Indirect::Nothing => 0,
    }
}

fn indirect_write(gpu: &Gpu, target: Indirect, value: u32) {
    match target {
        Indirect::Vram(offset) => {
            if offset % 4 != 0 || gpu.hdp.write(offset, &value.to_le_bytes()).is_err() {
                strict!(gpu.strict, "nbio", "MM_DATA write of VRAM at {offset:#x}");
            }
        }
        Indirect::Register(_, addr) if addr <= 0x15 => {
            strict!(
                gpu.strict,
                "nbio",
                "indirect write to index register {addr:#x}"
            );
        }
        Indirect::Register(die, addr) => gpu.reg_write_on(die, addr, value),
        Indirect::Nothing => {}
    }
}

/// Handles a register read.
pub fn reg_read(gpu: &Gpu, slot: &Slot) -> u32 {
    match slot.id {
        MM_DATA => indirect_read(gpu, mm_target(gpu)),
        PCIE_DATA | PCIE_DATA2 | RSMU_DATA => indirect_read(gpu, smn_target(gpu, slot.id)),
        HDP_FLUSH_DONE => {
            settle(gpu);
            gpu.hdp_requests.done()
        }
        HDP_MEM_FLUSH | HDP_REG_FLUSH => 0,
        BACO_CNTL if in_baco(gpu) => slot.get() | BACO,
        id if gpu.knobs.nbio_a0.on()
            && id == RegId::from(nbio::regRCC_STRAP0_RCC_DEV0_EPF0_STRAP0) =>
        {
            gpu.knobs.nbio_a0.hit();
            slot.get() & !nbio::RCC_STRAP0_RCC_DEV0_EPF0_STRAP0__STRAP_ATI_REV_ID_DEV0_F0.mask
        }
        _ => slot.get(),
    }
}

/// Returns whether the card has come up with the power of the graphics core off, and no driver has
/// switched it on (`nbio_v7_9_init_registers`).
pub fn in_baco(gpu: &Gpu) -> bool {
    gpu.chip.generation == Generation::Gfx9 && gpu.knobs.nbio_baco.on()
}

/// Handles a register write.
pub fn reg_write(gpu: &Gpu, slot: &Slot, value: u32) {
    match slot.id {
        MM_DATA => indirect_write(gpu, mm_target(gpu), value),
        PCIE_DATA | PCIE_DATA2 | RSMU_DATA => indirect_write(gpu, smn_target(gpu, slot.id), value),
        HDP_MEM_FLUSH => flush(gpu, "mem"),
        HDP_REG_FLUSH => flush(gpu, "reg"),
        HDP_FLUSH_REQ => {
            gpu.hdp_requests.add(value);
            settle(gpu);
            slot.set(value);
        }
        HDP_FLUSH_DONE => {
            strict!(gpu.strict, "nbio", "write of {value:#x} to {}", slot.name);
        }
        BACO_CNTL if in_baco(gpu) && value & BACO == 0 => {
            gpu.knobs.nbio_baco.reach();
            slot.set(value);
        }
        MM_INDEX => slot.set(value),
        _ => gpu.store(slot, value),
    }
}

/// Returns whether two registers are the pair that requests an HDP flush and shows its end.
pub fn is_hdp_flush(gpu: &Gpu, request: u32, done: u32) -> bool {
    let is = |addr, id| {
        let slot = gpu.regs.on_die(0, addr);
        slot.is_some_and(|slot| slot.unit == Unit::Nbio && slot.id == id)
    };
    is(request, HDP_FLUSH_REQ) && is(done, HDP_FLUSH_DONE)
}

/// Makes the HDP flushes that engines have requested and that are due.
fn settle(gpu: &Gpu) {
    if gpu.hdp_requests.settle() {
        flush(gpu, "req");
    }
}

/// Returns the bit of an SDMA engine in the registers of an HDP flush: that of its number on its
/// AID (`sdma_v4_4_2_ring_emit_hdp_flush`, `sdma_v7_0_ring_emit_hdp_flush`).
pub fn hdp_flush_of_sdma(engine: u8) -> u32 {
    nbio::BIF_BX_PF0_GPU_HDP_FLUSH_REQ__SDMA0.mask << (engine % PER_AID)
}

/// Handles an HDP flush, and checks the set-up of the HDP, without which accesses of the BAR would
/// not have reached VRAM.
fn flush(gpu: &Gpu, path: &str) {
    let lines = gpu.hdp.flush();
    event!(gpu.trace, "hdp", "flush", "path={path} lines={lines}");
    if gpu.chip.generation == Generation::Gfx9 {
        check_hdp(gpu);
    }
}

/// Checks registers of HDP 4.4.2 (`hdp_v4_0_init_registers`; HDP 7 has no such set-up).
fn check_hdp(gpu: &Gpu) {
    let get = |reg| u64::from(gpu.regs.by_id(gpu.chip, Ip::Hdp, reg).map_or(0, Slot::get));
    let base = get(hdp::regHDP_NONSURFACE_BASE) << 8 | get(hdp::regHDP_NONSURFACE_BASE_HI) << 40;
    let vram = gpu.placement.start();
    if base != vram {
        strict!(
            gpu.strict,
            "hdp",
            "flush with NONSURFACE_BASE at {base:#x}: the BAR does not reach VRAM at {vram:#x}"
        );
    }
    if get(hdp::regHDP_MISC_CNTL) & FLUSH_INVALIDATE_CACHE == 0 {
        strict!(
            gpu.strict,
            "hdp",
            "flush without FLUSH_INVALIDATE_CACHE: reads by the BAR may be stale"
        );
    }
}

/// A register of the page that is remapped for user space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remapped {
    /// A flush register: writing it flushes.
    Flush(&'static str),
    /// A hole. User space can access it, so it is not a driver bug: reads 0.
    Hole,
}

/// Returns the register if `addr` (dword address in the register BAR) is in the page that the HDP
/// flush registers were remapped to.
pub fn remapped(gpu: &Gpu, addr: u32) -> Option<Remapped> {
    let mem = stored(gpu, nbio::regBIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL);
    let reg = stored(gpu, nbio::regBIF_BX0_REMAP_HDP_REG_FLUSH_CNTL);
    for (byte, path) in [(mem, "mem"), (reg, "reg")] {
        if byte != 0 && byte / 4 == addr {
            return Some(Remapped::Flush(path));
        }
    }
    (mem != 0 && mem / REMAP_SIZE == addr / (REMAP_SIZE / 4)).then_some(Remapped::Hole)
}

/// Handles a write to the remapped page.
pub fn remapped_write(gpu: &Gpu, what: Remapped) {
    match what {
        Remapped::Flush(path) => flush(gpu, path),
        Remapped::Hole => event!(gpu.trace, "hdp", "hole_write"),
    }
}

/// Returns whether the doorbell aperture is enabled.
pub fn doorbells_enabled(gpu: &Gpu) -> bool {
    let value = stored(gpu, nbio::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN);
    nbio::RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN__BIF_DOORBELL_APER_EN.is_set(value)
}

/// Ports of the SDMA engines of an AID, counted from `S2A_DOORBELL_ENTRY_1_CTRL`.
const SDMA_PORTS: [u32; PER_AID as usize] = [0, 1, 4, 5];
/// The port of the interrupt handler of AID 0, counted in the same way.
const IH_PORT: u32 = 2;
/// Ports of NBIF 6.3.1, counted from `GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL`: the interrupt handler
/// and all SDMA engines.
const GFX12_IH_PORT: u32 = 1;
const GFX12_SDMA_PORT: u32 = 2;

/// The ports of the command processors (`nbif_v6_3_1_gc_doorbell_init`), with their AWID.
const GFX12_CP_PORTS: [(u32, u32); 2] = [(0, 3), (3, 6)];

/// Returns whether the ports for doorbells of the command processors are open. On NBIO 7.9 they
/// need no port.
pub fn opens_cp_ports(gpu: &Gpu) -> bool {
    use nbif::{
        GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_AWADDR_31_28_VALUE as ADDRESS,
        GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_AWID as AWID,
        GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_ENABLE as ENABLE,
    };
    const TO_CP: u32 = 3;
    let is_set = |(port, id)| {
        let control = stored(gpu, nbif::regGDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL.at(port));
        ENABLE.is_set(control) && AWID.get(control) == id && ADDRESS.get(control) == TO_CP
    };
    gpu.chip.generation == Generation::Gfx9 || GFX12_CP_PORTS.into_iter().all(is_set)
}

/// Reports doorbells of the command processors that XCCs do not get, or that others are waited for:
/// AID 0 has the mask of those that do not exist, the other AIDs are slaves
/// (`nbio_v7_9_init_registers`).
pub fn check_fences(gpu: &Gpu) {
    if gpu.chip.generation != Generation::Gfx9 {
        return;
    }
    let xccs = gpu.chip.instances(Ip::Gc).fold(0, |mask, n| mask | 1 << n);
    let slave = nbio::XCC_DOORBELL_FENCE__SHUB_SLV_MODE.mask;
    for aid in (0..4).filter(|aid| gpu.chip.has_aid(*aid)) {
        let fence = gpu
            .regs
            .of(gpu.chip, Ip::Nbif, aid, nbio::regXCC_DOORBELL_FENCE);
        let fence = fence.map_or(0, Slot::get);
        let expected = if aid == 0 { 0xff & !xccs } else { slave };
        if fence != expected {
            strict!(
                gpu.strict,
                "nbio",
                "doorbell with XCC_DOORBELL_FENCE {fence:#x} of AID {aid}, not {expected:#x}"
            );
        }
    }
}

/// Returns whether doorbell `index` is in a range of NBIO 7.9.
fn is_in_range(gpu: &Gpu, entry: u32, index: u32) -> bool {
    let range = stored(gpu, nbio::regDOORBELL0_CTRL_ENTRY_0.at(entry));
    let first = nbio::DOORBELL0_CTRL_ENTRY_0__BIF_DOORBELL0_RANGE_OFFSET_ENTRY.get(range);
    let size = nbio::DOORBELL0_CTRL_ENTRY_0__BIF_DOORBELL0_RANGE_SIZE_ENTRY.get(range);
    (first..first + size).contains(&(index % (MIRROR * DWORDS)))
}

/// Returns whether a port of an AID is enabled.
fn is_port_enabled(gpu: &Gpu, aid: u8, port: u32) -> bool {
    let port = nbio::regS2A_DOORBELL_ENTRY_1_CTRL.at(port);
    let port = gpu.regs.of(gpu.chip, Ip::Nbif, aid, port);
    port.is_some_and(|p| nbio::S2A_DOORBELL_ENTRY_1_CTRL__S2A_DOORBELL_PORT1_ENABLE.is_set(p.get()))
}

/// Returns whether a port of NBIF 6.3.1 is enabled with a range that has doorbell `index`.
fn is_in_port(gpu: &Gpu, port: u32, index: u32) -> bool {
    use nbif::{
        GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_ENABLE as ENABLE,
        GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_RANGE_OFFSET as OFFSET,
        GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_RANGE_SIZE as SIZE,
    };
    let control = stored(gpu, nbif::regGDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL.at(port));
    let first = OFFSET.get(control);
    let range = first..first + SIZE.get(control);
    ENABLE.is_set(control) && range.contains(&(index % (MIRROR * DWORDS)))
}

/// Returns whether doorbell `index` (dwords on the BAR) is routed to the interrupt handler
/// (`nbio_v7_9_ih_doorbell_range`, `nbif_v6_3_1_ih_doorbell_range`).
pub fn routes_to_ih(gpu: &Gpu, index: u32) -> bool {
    match gpu.chip.generation {
        Generation::Gfx9 => is_port_enabled(gpu, 0, IH_PORT) && is_in_range(gpu, 0, index),
        Generation::Gfx12 => is_in_port(gpu, GFX12_IH_PORT, index),
    }
}

/// Returns whether doorbell `index` (dwords on the BAR) is routed to SDMA engine `n`: AID 0 has the
/// ranges of all engines, each AID the ports of its own (`nbio_v7_9_sdma_doorbell_range`). On gfx12
/// there is one range for all (`nbif_v6_3_1_sdma_doorbell_range`).
pub fn routes_to_sdma(gpu: &Gpu, n: u8, index: u32) -> bool {
    match gpu.chip.generation {
        Generation::Gfx9 => {
            let port = SDMA_PORTS[usize::from(n % PER_AID)];
            is_port_enabled(gpu, n / PER_AID, port) && is_in_range(gpu, 1 + u32::from(n), index)
        }
        Generation::Gfx12 => is_in_port(gpu, GFX12_SDMA_PORT, index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_match_on_both_generations() {
        for (ours, theirs) in [
            (nbio::regBIF_BX_PF0_MM_INDEX, nbif::regBIF_BX_PF0_MM_INDEX),
            (nbio::regBIF_BX_PF0_MM_DATA, nbif::regBIF_BX_PF0_MM_DATA),
            (
                nbio::regBIF_BX_PF0_MM_INDEX_HI,
                nbif::regBIF_BX_PF0_MM_INDEX_HI,
            ),
            (nbio::regBIF_BX0_PCIE_INDEX, nbif::regBIF_BX0_PCIE_INDEX),
            (nbio::regBIF_BX0_PCIE_DATA, nbif::regBIF_BX0_PCIE_DATA),
            (nbio::regBIF_BX0_PCIE_INDEX2, nbif::regBIF_BX0_PCIE_INDEX2),
            (nbio::regBIF_BX0_PCIE_DATA2, nbif::regBIF_BX0_PCIE_DATA2),
            (
                nbio::regBIF_BX_PF0_GPU_HDP_FLUSH_REQ,
                nbif::regBIF_BX_PF0_GPU_HDP_FLUSH_REQ,
            ),
            (
                nbio::regBIF_BX_PF0_GPU_HDP_FLUSH_DONE,
                nbif::regBIF_BX_PF0_GPU_HDP_FLUSH_DONE,
            ),
            (
                nbio::regBIF_BX_PF0_HDP_MEM_COHERENCY_FLUSH_CNTL,
                nbif::regBIF_BX_PF0_HDP_MEM_COHERENCY_FLUSH_CNTL,
            ),
            (
                nbio::regBIF_BX_PF0_HDP_REG_COHERENCY_FLUSH_CNTL,
                nbif::regBIF_BX_PF0_HDP_REG_COHERENCY_FLUSH_CNTL,
            ),
            (
                nbio::regBIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL,
                nbif::regBIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL,
            ),
            (
                nbio::regBIF_BX0_REMAP_HDP_REG_FLUSH_CNTL,
                nbif::regBIF_BX0_REMAP_HDP_REG_FLUSH_CNTL,
            ),
            (
                nbio::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN,
                nbif::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN,
            ),
            (
                nbio::regBIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_BASE_LOW,
                nbif::regBIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_BASE_LOW,
            ),
            (
                nbio::regBIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_BASE_HIGH,
                nbif::regBIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_BASE_HIGH,
            ),
            (
                nbio::regBIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_CNTL,
                nbif::regBIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_CNTL,
            ),
        ] {
            assert_eq!(ours, theirs);
        }
    }
}
