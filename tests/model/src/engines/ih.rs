// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The interrupt handler: a ring of 32-byte entries in memory, write pointer writeback, MSI-X.

mod msix;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use gpu_regs::{osssys_4_4_2 as regs, osssys_7_0_0 as regs12};

use rkfd_abi::ih::node;

use crate::chips::{Generation, XCCS_PER_AID};
use crate::engines::gmc::{Gmc, Hub};
use crate::event;
use crate::knobs::Knobs;
use crate::log::Strict;
use crate::regs::RegId;
use crate::strict;
use crate::trace::Trace;

pub use msix::Msix;

/// Register positions and other differences between generations.
struct Ids {
    cntl: u32,
    base: u32,
    base_hi: u32,
    rptr: u32,
    wptr: u32,
    wptr_addr_hi: u32,
    wptr_addr_lo: u32,
    doorbell: u32,
    cntl_ring1: u32,
    base_ring1: u32,
    lut: u32,
    lut_mm: u32,
    last_lut: u32,
    /// Selects the XCC of the LUT registers; `None` on a chip with one XCC.
    lut_index: Option<u32>,
    /// `MC_SPACE` of a bus address.
    bus_space: u32,
}

macro_rules! ids {
    ($regs:ident, $lut_index:expr, $bus_space:literal) => {
        Ids {
            cntl: $regs::regIH_RB_CNTL.off,
            base: $regs::regIH_RB_BASE.off,
            base_hi: $regs::regIH_RB_BASE_HI.off,
            rptr: $regs::regIH_RB_RPTR.off,
            wptr: $regs::regIH_RB_WPTR.off,
            wptr_addr_hi: $regs::regIH_RB_WPTR_ADDR_HI.off,
            wptr_addr_lo: $regs::regIH_RB_WPTR_ADDR_LO.off,
            doorbell: $regs::regIH_DOORBELL_RPTR.off,
            cntl_ring1: $regs::regIH_RB_CNTL_RING1.off,
            base_ring1: $regs::regIH_RB_BASE_RING1.off,
            lut: $regs::regIH_VMID_0_LUT.off,
            lut_mm: $regs::regIH_VMID_0_LUT_MM.off,
            last_lut: $regs::regIH_VMID_15_LUT_MM.off,
            lut_index: $lut_index,
            bus_space: $bus_space,
        }
    };
}

static GFX9: Ids = ids!(regs, Some(regs::regIH_VMID_LUT_INDEX.off), 1);
static GFX12: Ids = ids!(regs12, None, 2);

const RB_ENABLE: u32 = regs::IH_RB_CNTL__RB_ENABLE.mask;
const WPTR_WRITEBACK_ENABLE: u32 = regs::IH_RB_CNTL__WPTR_WRITEBACK_ENABLE.mask;
const WPTR_OVERFLOW_ENABLE: u32 = regs::IH_RB_CNTL__WPTR_OVERFLOW_ENABLE.mask;
const ENABLE_INTR: u32 = regs::IH_RB_CNTL__ENABLE_INTR.mask;
const RPTR_REARM: u32 = regs::IH_RB_CNTL__RPTR_REARM.mask;
const WPTR_OVERFLOW_CLEAR: u32 = regs::IH_RB_CNTL__WPTR_OVERFLOW_CLEAR.mask;
const RB_OVERFLOW: u32 = regs::IH_RB_WPTR__RB_OVERFLOW.mask;

/// Bytes of an entry.
const ENTRY: u32 = rkfd_abi::ih::ENTRY_SIZE as u32;

/// First VMID whose entries knobs change: the firmware scheduler of no chip uses those below.
const FIRST_KNOB_VMID: u8 = 3;

/// Returns the node id of an AID.
pub fn aid_node(aid: u8) -> u8 {
    (node::PER_AID * u32::from(aid) + node::AID) as u8
}

/// Returns the node id of an XCC of gfx9.
pub fn xcc_node(xcc: u8) -> u8 {
    let within = if xcc % XCCS_PER_AID == 0 {
        node::XCD0
    } else {
        node::XCD1
    };
    aid_node(xcc / XCCS_PER_AID) + within as u8
}

/// An interrupt entry. Time stamp and PASID are added when it is posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry {
    /// Client id.
    pub client_id: u8,
    /// Source id of the client.
    pub source_id: u8,
    /// Ring id, or the permission bits of a fault.
    pub ring_id: u8,
    /// VMID.
    pub vmid: u8,
    /// Whether the VMID belongs to the memory hub.
    pub mm_hub: bool,
    /// Die and XCC: 4 * AID + 1 + XCC, or 4 * AID; 0 on gfx12.
    pub node_id: u8,
    /// Context words.
    pub ctx: [u32; 4],
}

struct State {
    ids: &'static Ids,
    regs: HashMap<u32, u32>,
    rptr: u32,
    wptr: u32,
    overflow: bool,
    /// An interrupt was sent, and the guest has not moved the read pointer since.
    waiting: bool,
    lut_index: u32,
    luts: HashMap<(u32, u32), u16>,
    entries: u64,
    messages: u64,
}

impl State {
    fn power_on(ids: &'static Ids) -> Self {
        Self {
            ids,
            regs: HashMap::new(),
            rptr: 0,
            wptr: 0,
            overflow: false,
            waiting: false,
            lut_index: 0,
            luts: HashMap::new(),
            entries: 0,
            messages: 0,
        }
    }

    fn reg(&self, off: u32) -> u32 {
        self.regs.get(&off).copied().unwrap_or(0)
    }

    fn cntl(&self) -> u32 {
        self.reg(self.ids.cntl)
    }

    fn ring_bytes(&self) -> u32 {
        4u32.checked_shl(regs::IH_RB_CNTL__RB_SIZE.get(self.cntl()))
            .unwrap_or(0)
    }

    fn wptr_reg(&self) -> u32 {
        self.wptr | if self.overflow { RB_OVERFLOW } else { 0 }
    }
}

/// The interrupt handler.
pub struct Ih {
    ids: &'static Ids,
    strict: Arc<Strict>,
    trace: Arc<Trace>,
    knobs: Arc<Knobs>,
    gmc: Arc<Gmc>,
    dma: Arc<crate::dma::GuestMemory>,
    msix: Arc<Msix>,
    state: Mutex<State>,
}

impl Ih {
    /// Returns an interrupt handler in power-on state.
    pub fn new(
        generation: Generation,
        strict: Arc<Strict>,
        trace: Arc<Trace>,
        knobs: Arc<Knobs>,
        gmc: Arc<Gmc>,
        dma: Arc<crate::dma::GuestMemory>,
        msix: Arc<Msix>,
    ) -> Self {
        let ids = match generation {
            Generation::Gfx9 => &GFX9,
            Generation::Gfx12 => &GFX12,
        };
        Self {
            ids,
            strict,
            trace,
            knobs,
            gmc,
            dma,
            msix,
            state: Mutex::new(State::power_on(ids)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Resets to power-on state.
    pub fn reset(&self) {
        *self.lock() = State::power_on(self.ids);
    }

    /// Returns the number of entries written and of messages sent since power-on.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        (state.entries, state.messages)
    }

    /// Sets the PASID of a VMID of a hub, as scheduler firmware does when it assigns the VMID to a
    /// process.
    pub fn map_pasid(&self, hub: Hub, vmid: u8, pasid: u16) {
        let ids = self.ids;
        let (node, lut) = match hub {
            Hub::Gfx(n) => (xcc_node(n), ids.lut),
            Hub::Mm(n) => (aid_node(n), ids.lut_mm),
        };
        // The LUTs of all nodes are selected by their ids.
        let index = ids.lut_index.map_or(0, |_| node.into());
        let reg = lut + u32::from(vmid);
        self.lock().luts.insert((index, reg), pasid);
    }

    /// Handles a register read.
    pub fn reg_read(&self, reg: RegId) -> u32 {
        let (ids, state) = (self.ids, self.lock());
        match reg.off {
            off if off == ids.rptr => state.rptr,
            off if off == ids.wptr => state.wptr_reg(),
            off if Some(off) == ids.lut_index => state.lut_index,
            off if (ids.lut..=ids.last_lut).contains(&off) => state
                .luts
                .get(&(state.lut_index, off))
                .copied()
                .unwrap_or(0)
                .into(),
            off => state.reg(off),
        }
    }

    /// Handles a register write.
    pub fn reg_write(&self, reg: RegId, value: u32) {
        let (ids, mut state) = (self.ids, self.lock());
        match reg.off {
            off if off == ids.rptr => self.set_rptr(&mut state, value),
            off if off == ids.wptr => {
                state.wptr = value & !0x1f;
                state.overflow = value & RB_OVERFLOW != 0;
            }
            off if off == ids.cntl => {
                if value & WPTR_OVERFLOW_CLEAR != 0 {
                    state.overflow = false;
                }
                state.regs.insert(off, value & !WPTR_OVERFLOW_CLEAR);
                if value & RB_ENABLE == 0 {
                    state.waiting = false;
                }
            }
            off if Some(off) == ids.lut_index => state.lut_index = value,
            off if (ids.lut..=ids.last_lut).contains(&off) => {
                let index = state.lut_index;
                state.luts.insert((index, off), value as u16);
            }
            off => {
                // Ring 1 receives the retry faults of the retry CAM, and sources that IH_CLIENT_CFG
                // redirects to it. Retry faults are not modelled, so it stays empty; the stock
                // driver enables it nevertheless (vega20_ih_irq_init).
                let base = state.regs.get(&ids.base_ring1).copied();
                if off == ids.cntl_ring1 && value & RB_ENABLE != 0 && base.unwrap_or(0) == 0 {
                    strict!(
                        self.strict,
                        "ih",
                        "ring 1 is enabled, but its base address is 0"
                    );
                }
                state.regs.insert(off, value);
            }
        }
    }

    /// Handles a doorbell in the non-CP window: dword index on BAR2. Returns whether it is the
    /// ring's doorbell.
    pub fn doorbell(&self, index: u32, value: u32) -> bool {
        let mut state = self.lock();
        let cntl = state.reg(self.ids.doorbell);
        let offset = regs::IH_DOORBELL_RPTR__OFFSET.get(cntl);
        if !regs::IH_DOORBELL_RPTR__ENABLE.is_set(cntl) || offset != index {
            return false;
        }
        self.set_rptr(&mut state, value);
        true
    }

    fn set_rptr(&self, state: &mut State, value: u32) {
        let size = state.ring_bytes();
        if value % ENTRY != 0 || (size != 0 && value >= size) {
            strict!(
                self.strict,
                "ih",
                "read pointer {value:#x} is not the offset of an entry in a ring of {size:#x} bytes"
            );
        }
        state.rptr = value & !0x1f & size.wrapping_sub(1);
        event!(
            self.trace,
            "ih",
            "rptr",
            "rptr={:#x} wptr={:#x}",
            state.rptr,
            state.wptr
        );
        state.waiting = false;
        if state.rptr != state.wptr {
            self.message(state);
        }
    }

    /// Sends an interrupt message unless one is pending.
    fn message(&self, state: &mut State) {
        let cntl = state.cntl();
        if cntl & ENABLE_INTR == 0 || state.waiting {
            return;
        }
        state.waiting = cntl & RPTR_REARM != 0;
        state.messages += 1;
        if self.knobs.ih_drop_msi.take() {
            event!(self.trace, "ih", "msi_dropped");
            return;
        }
        let sent = self.msix.send(0);
        event!(
            self.trace,
            "ih",
            "msi",
            "vector=0 delivered={}",
            u8::from(sent)
        );
    }

    /// Writes an entry to the ring and raises an interrupt.
    pub fn post(&self, entry: Entry) {
        let mut state = self.lock();
        let cntl = state.cntl();
        let (lut, base) = match entry.mm_hub {
            true => (u32::from(entry.node_id & !3), self.ids.lut_mm),
            false => (u32::from(entry.node_id), self.ids.lut),
        };
        let pasid = state
            .luts
            .get(&(lut, base + u32::from(entry.vmid)))
            .copied()
            .unwrap_or(0);
        let entry = self.falsified(entry);
        event!(
            self.trace,
            "ih",
            "entry",
            "client={:#x} source={} ring={:#x} vmid={} pasid={pasid} node={} ctx={:x?} wptr={:#x}",
            entry.client_id,
            entry.source_id,
            entry.ring_id,
            entry.vmid,
            entry.node_id,
            entry.ctx,
            state.wptr
        );
        let size = state.ring_bytes();
        if cntl & RB_ENABLE == 0 || size < 2 * ENTRY {
            event!(self.trace, "ih", "lost", "ring is off");
            return;
        }
        // The time stamp counts the 100 MHz reference clock.
        let time = self.trace.now() / 10;
        let words = [
            u32::from(entry.client_id)
                | u32::from(entry.source_id) << 8
                | u32::from(entry.ring_id) << 16
                | u32::from(entry.vmid & 15) << 24
                | u32::from(entry.mm_hub) << 31,
            time as u32,
            (time >> 32) as u32 & 0xffff,
            u32::from(pasid) | u32::from(entry.node_id) << 16,
            entry.ctx[0],
            entry.ctx[1],
            entry.ctx[2],
            entry.ctx[3],
        ];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let ring =
            u64::from(state.reg(self.ids.base)) << 8 | u64::from(state.reg(self.ids.base_hi)) << 40;
        let wptr = state.wptr & (size - 1);
        let next = (wptr + ENTRY) & (size - 1);
        if next == state.rptr && cntl & WPTR_OVERFLOW_ENABLE == 0 {
            strict!(
                self.strict,
                "ih",
                "ring is full and overflow is not enabled; entry lost"
            );
            return;
        }
        if !self.store(cntl, ring.wrapping_add(wptr.into()), &bytes) {
            return;
        }
        state.wptr = next;
        state.entries += 1;
        if next == state.rptr {
            state.overflow = true;
            event!(self.trace, "ih", "overflow", "wptr={next:#x}");
        }
        if cntl & WPTR_WRITEBACK_ENABLE != 0 {
            let shadow = u64::from(state.reg(self.ids.wptr_addr_lo) & !3)
                | u64::from(state.reg(self.ids.wptr_addr_hi) & 0xffff) << 32;
            self.store(cntl, shadow, &state.wptr_reg().to_le_bytes());
        }
        self.message(&mut state);
    }

    /// Returns the entry with the node id and the VMID that knobs set.
    fn falsified(&self, mut entry: Entry) -> Entry {
        if entry.vmid < FIRST_KNOB_VMID {
            return entry;
        }
        if self.knobs.ih_node.on() {
            entry.node_id = (self.knobs.ih_node.get() - 1) as u8;
            self.knobs.ih_node.hit();
        }
        if self.knobs.ih_vmid.on() {
            entry.vmid = self.knobs.ih_vmid.get() as u8;
            self.knobs.ih_vmid.hit();
        }
        entry
    }

    /// Writes to the ring or its write-back address, in the address space of `RB_CNTL.MC_SPACE`.
    fn store(&self, cntl: u32, addr: u64, data: &[u8]) -> bool {
        let ok = match regs::IH_RB_CNTL__MC_SPACE.get(cntl) {
            space if space == self.ids.bus_space => self.dma.write(addr, data).is_ok(),
            4 => self.gmc.vm_write(Hub::MM, 0, addr, data).is_ok(),
            space => {
                strict!(self.strict, "ih", "MC_SPACE {space} in RB_CNTL {cntl:#x}");
                return false;
            }
        };
        if !ok {
            strict!(
                self.strict,
                "ih",
                "ring or write-pointer writeback at {addr:#x}: no memory"
            );
        }
        ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks fields that are read with one generation's constants for both.
    #[test]
    fn ring_control_is_the_same_on_both_generations() {
        for (ours, theirs) in [
            (regs::IH_RB_CNTL__RB_ENABLE, regs12::IH_RB_CNTL__RB_ENABLE),
            (regs::IH_RB_CNTL__RB_SIZE, regs12::IH_RB_CNTL__RB_SIZE),
            (regs::IH_RB_CNTL__MC_SPACE, regs12::IH_RB_CNTL__MC_SPACE),
            (
                regs::IH_RB_CNTL__WPTR_WRITEBACK_ENABLE,
                regs12::IH_RB_CNTL__WPTR_WRITEBACK_ENABLE,
            ),
            (
                regs::IH_RB_CNTL__WPTR_OVERFLOW_ENABLE,
                regs12::IH_RB_CNTL__WPTR_OVERFLOW_ENABLE,
            ),
            (
                regs::IH_RB_CNTL__ENABLE_INTR,
                regs12::IH_RB_CNTL__ENABLE_INTR,
            ),
            (regs::IH_RB_CNTL__RPTR_REARM, regs12::IH_RB_CNTL__RPTR_REARM),
            (
                regs::IH_RB_CNTL__WPTR_OVERFLOW_CLEAR,
                regs12::IH_RB_CNTL__WPTR_OVERFLOW_CLEAR,
            ),
            (
                regs::IH_RB_WPTR__RB_OVERFLOW,
                regs12::IH_RB_WPTR__RB_OVERFLOW,
            ),
            (
                regs::IH_DOORBELL_RPTR__OFFSET,
                regs12::IH_DOORBELL_RPTR__OFFSET,
            ),
            (
                regs::IH_DOORBELL_RPTR__ENABLE,
                regs12::IH_DOORBELL_RPTR__ENABLE,
            ),
        ] {
            assert_eq!(ours, theirs);
        }
        assert_eq!(
            regs12::regIH_VMID_15_LUT_MM.off,
            regs12::regIH_VMID_0_LUT.off + 31
        );
    }
}
