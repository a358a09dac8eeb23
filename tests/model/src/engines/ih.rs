// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The interrupt handler: rings of 32-byte entries in memory, write pointer writeback, MSI-X.
//!
//! Retry faults pass the retry CAM. They go to ring 0, as the C driver assumes with the CAM: it
//! waits for ring 0 and its software ring when a process ends (`svm_range_drain_retry_fault`); or
//! by a knob to ring 1, whose write pointer ring 0 announces.

pub mod cam;
mod msix;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use gpu_regs::{osssys_4_4_2 as regs, osssys_7_0_0 as regs12};

use rkfd_abi::ih::{client, fault, node};

use crate::chips::{Generation, XCCS_PER_AID};
use crate::engines::gmc::{Gmc, Hub};
use crate::engines::nbio;
use crate::event;
use crate::gpu::Gpu;
use crate::knobs::Knobs;
use crate::log::Strict;
use crate::regs::RegId;
use crate::strict;
use crate::trace::Trace;

use cam::{Cam, Found};
pub use msix::Msix;

/// Register positions of a ring.
struct RingIds {
    cntl: u32,
    base: u32,
    base_hi: u32,
    rptr: u32,
    wptr: u32,
    doorbell: u32,
}

/// Register positions and other differences between generations.
struct Ids {
    rings: [RingIds; RINGS],
    wptr_addr_hi: u32,
    wptr_addr_lo: u32,
    doorbell_cam: u32,
    cam_cntl: u32,
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
            rings: [
                RingIds {
                    cntl: $regs::regIH_RB_CNTL.off,
                    base: $regs::regIH_RB_BASE.off,
                    base_hi: $regs::regIH_RB_BASE_HI.off,
                    rptr: $regs::regIH_RB_RPTR.off,
                    wptr: $regs::regIH_RB_WPTR.off,
                    doorbell: $regs::regIH_DOORBELL_RPTR.off,
                },
                RingIds {
                    cntl: $regs::regIH_RB_CNTL_RING1.off,
                    base: $regs::regIH_RB_BASE_RING1.off,
                    base_hi: $regs::regIH_RB_BASE_HI_RING1.off,
                    rptr: $regs::regIH_RB_RPTR_RING1.off,
                    wptr: $regs::regIH_RB_WPTR_RING1.off,
                    doorbell: $regs::regIH_DOORBELL_RPTR_RING1.off,
                },
            ],
            wptr_addr_hi: $regs::regIH_RB_WPTR_ADDR_HI.off,
            wptr_addr_lo: $regs::regIH_RB_WPTR_ADDR_LO.off,
            doorbell_cam: $regs::regIH_DOORBELL_RETRY_CAM.off,
            cam_cntl: $regs::regIH_RETRY_INT_CAM_CNTL.off,
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

/// Rings that the model writes to.
const RINGS: usize = 2;
/// Seconds after which an unread entry or an unacknowledged slot of the CAM is a violation.
const FORGOTTEN: u64 = 2;
/// Copies of an entry that the knob `ih.storm` repeats: more than fit in a ring.
const STORM: u32 = 10_000;
const CAM_ENABLE: u32 = regs::IH_RETRY_INT_CAM_CNTL__ENABLE.mask;
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

/// Pointers of a ring, in bytes.
#[derive(Clone, Copy, Default)]
struct Ring {
    rptr: u32,
    wptr: u32,
    overflow: bool,
}

impl Ring {
    fn wptr_reg(&self) -> u32 {
        self.wptr | if self.overflow { RB_OVERFLOW } else { 0 }
    }
}

struct State {
    ids: &'static Ids,
    regs: HashMap<u32, u32>,
    rings: [Ring; RINGS],
    cam: Cam,
    /// An interrupt was sent, and the guest has not moved the read pointer since.
    waiting: bool,
    lut_index: u32,
    luts: HashMap<(u32, u32), u16>,
    entries: u64,
    /// Number of entries when the last message was sent.
    announced: u64,
    messages: u64,
    retries: u64,
    /// Entries of ring 0 since the last that the knob `ih.storm` repeated.
    calm: u64,
}

impl State {
    fn power_on(ids: &'static Ids) -> Self {
        Self {
            ids,
            regs: HashMap::new(),
            rings: [Ring::default(); RINGS],
            cam: Cam::default(),
            waiting: false,
            lut_index: 0,
            luts: HashMap::new(),
            entries: 0,
            announced: 0,
            messages: 0,
            retries: 0,
            calm: 0,
        }
    }

    fn reg(&self, off: u32) -> u32 {
        self.regs.get(&off).copied().unwrap_or(0)
    }

    /// Returns whether the doorbell in a control register is enabled and this one.
    fn is_doorbell(&self, reg: u32, index: u32) -> bool {
        let control = self.reg(reg);
        regs::IH_DOORBELL_RPTR__ENABLE.is_set(control)
            && regs::IH_DOORBELL_RPTR__OFFSET.get(control) == index
    }

    fn cntl(&self, ring: usize) -> u32 {
        self.reg(self.ids.rings[ring].cntl)
    }

    fn ring_bytes(&self, ring: usize) -> u32 {
        4u32.checked_shl(regs::IH_RB_CNTL__RB_SIZE.get(self.cntl(ring)))
            .unwrap_or(0)
    }

    /// Returns the PASID of an entry's VMID.
    fn pasid(&self, entry: &Entry) -> u16 {
        let (lut, base) = match entry.mm_hub {
            true => (u32::from(entry.node_id & !3), self.ids.lut_mm),
            false => (u32::from(entry.node_id), self.ids.lut),
        };
        let reg = base + u32::from(entry.vmid);
        self.luts.get(&(lut, reg)).copied().unwrap_or(0)
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
    /// Messages may be late.
    adversarial: bool,
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
            adversarial: false,
            state: Mutex::new(State::power_on(ids)),
        }
    }

    /// Returns it with late messages, if `adversarial`.
    pub fn in_mode(self, adversarial: bool) -> Self {
        Self {
            adversarial,
            ..self
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Resets to power-on state.
    pub fn reset(&self) {
        *self.lock() = State::power_on(self.ids);
    }

    /// Returns the number of entries written, of messages sent, and of retry faults among the
    /// entries, since power-on.
    pub fn counts(&self) -> (u64, u64, u64) {
        let state = self.lock();
        (state.entries, state.messages, state.retries)
    }

    /// Reports entries and CAM slots that the driver has not read or acknowledged for some time.
    pub fn check(&self) {
        let state = self.lock();
        let old = state.cam.pending().filter(|(.., age)| *age >= FORGOTTEN);
        for (slot, vmid, page, age) in old {
            strict!(
                self.strict,
                "ih",
                "slot {slot} of the retry CAM, vmid {vmid} page {page:#x}: not acknowledged for \
                 {age} s"
            );
        }
        let Ring { rptr, wptr, .. } = state.rings[1];
        if rptr != wptr {
            strict!(
                self.strict,
                "ih",
                "ring 1 was not read: read pointer {rptr:#x}, write pointer {wptr:#x}"
            );
        }
    }

    /// Returns whether ring 0 is enabled.
    pub fn is_enabled(&self) -> bool {
        self.lock().cntl(0) & RB_ENABLE != 0
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
        for (ring, ids) in state.rings.iter().zip(&ids.rings) {
            match reg.off {
                off if off == ids.rptr => return ring.rptr,
                off if off == ids.wptr => return ring.wptr_reg(),
                _ => {}
            }
        }
        match reg.off {
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
        for (n, of_ring) in ids.rings.iter().enumerate() {
            match reg.off {
                off if off == of_ring.rptr => return self.set_rptr(&mut state, n, value),
                off if off == of_ring.wptr => {
                    state.rings[n].wptr = value & !0x1f;
                    state.rings[n].overflow = value & RB_OVERFLOW != 0;
                    return;
                }
                off if off == of_ring.cntl => return self.set_cntl(&mut state, n, value),
                _ => {}
            }
        }
        match reg.off {
            off if Some(off) == ids.lut_index => state.lut_index = value,
            off if (ids.lut..=ids.last_lut).contains(&off) => {
                let index = state.lut_index;
                state.luts.insert((index, off), value as u16);
            }
            off => {
                state.regs.insert(off, value);
            }
        }
    }

    /// Returns the doorbell of ring 0 if it is enabled and a register write enables the ring, or
    /// its interrupts.
    fn enables(&self, reg: RegId, value: u32) -> Option<u32> {
        let (ids, state) = (&self.ids.rings[0], self.lock());
        let doorbell = state.reg(ids.doorbell);
        let enabled = value & !state.cntl(0) & (RB_ENABLE | ENABLE_INTR) != 0;
        (ids.cntl == reg.off && enabled && regs::IH_DOORBELL_RPTR__ENABLE.is_set(doorbell))
            .then(|| regs::IH_DOORBELL_RPTR__OFFSET.get(doorbell))
    }

    fn set_cntl(&self, state: &mut State, ring: usize, value: u32) {
        let of_ring = &self.ids.rings[ring];
        // On a rising edge (`vega20_ih_toggle_ring_interrupts`).
        if value & !state.cntl(ring) & WPTR_OVERFLOW_CLEAR != 0 {
            state.rings[ring].overflow = false;
        }
        state.regs.insert(of_ring.cntl, value);
        if value & RB_ENABLE != 0 && !regs::IH_RB_CNTL__MC_SNOOP.is_set(value) {
            strict!(
                self.strict,
                "ih",
                "ring {ring} is enabled with RB_CNTL {value:#x}: MC_SNOOP is 0, the host would \
                 read stale entries"
            );
        }
        if ring == 0 {
            if value & RB_ENABLE == 0 {
                state.waiting = false;
            }
        } else if value & RB_ENABLE != 0 && state.reg(of_ring.base) == 0 {
            strict!(
                self.strict,
                "ih",
                "ring {ring} is enabled, but its base address is 0"
            );
        }
    }

    /// Returns whether a doorbell (dword index on the BAR) is that of a ring or of the retry CAM.
    pub fn owns(&self, index: u32) -> bool {
        let state = self.lock();
        let mut rings = self.ids.rings.iter().map(|ids| ids.doorbell);
        rings.any(|reg| state.is_doorbell(reg, index))
            || state.is_doorbell(self.ids.doorbell_cam, index)
    }

    /// Handles a doorbell of a ring or of the retry CAM.
    pub fn doorbell(&self, index: u32, value: u32) {
        let mut state = self.lock();
        for (n, ids) in self.ids.rings.iter().enumerate() {
            if state.is_doorbell(ids.doorbell, index) {
                self.set_rptr(&mut state, n, value);
                return;
            }
        }
        if !state.is_doorbell(self.ids.doorbell_cam, index) {
            return;
        }
        event!(self.trace, "ih", "retry_ack", "slot={value:#x}");
        if !state.cam.acknowledge(value) {
            strict!(
                self.strict,
                "ih",
                "acknowledgement of slot {value:#x} of the retry CAM, which is not in use"
            );
        }
    }

    fn set_rptr(&self, state: &mut State, ring: usize, value: u32) {
        let size = state.ring_bytes(ring);
        if value % ENTRY != 0 || (size != 0 && value >= size) {
            strict!(
                self.strict,
                "ih",
                "read pointer {value:#x} is not the offset of an entry in a ring of {size:#x} bytes"
            );
        }
        let Ring { rptr, wptr, .. } = &mut state.rings[ring];
        *rptr = value & !0x1f & size.wrapping_sub(1);
        event!(
            self.trace,
            "ih",
            "rptr",
            "ring={ring} rptr={rptr:#x} wptr={wptr:#x}"
        );
        let more = rptr != wptr;
        if ring == 0 && state.cntl(0) & RPTR_REARM != 0 {
            state.waiting = false;
            // A late message follows the read pointer: its entries may have been read before.
            if more || self.adversarial && state.announced != state.entries {
                self.message(state);
            }
        }
    }

    /// Sends an interrupt message unless one is pending. Without RPTR_REARM no further one is sent
    /// until the ring is disabled.
    fn message(&self, state: &mut State) {
        let cntl = state.cntl(0);
        if cntl & ENABLE_INTR == 0 || state.waiting {
            return;
        }
        state.waiting = true;
        state.messages += 1;
        state.announced = state.entries;
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

    /// Writes an entry to ring 0 and raises an interrupt.
    pub fn post(&self, entry: Entry) {
        self.put(&mut self.lock(), 0, entry);
    }

    /// Raises the interrupt of a retry fault, for each attempt of the access: through the retry CAM
    /// if the driver has enabled it.
    pub fn post_retry(&self, mut entry: Entry) {
        entry.ctx[1] |= fault::RETRY.field.mask;
        let mut state = self.lock();
        if state.reg(self.ids.cam_cntl) & CAM_ENABLE != 0 {
            match state.cam.look_up(&entry) {
                Found::New(slot) => entry.ctx[2] = fault::CAM_INDEX.field.put(slot as u32),
                Found::Known | Found::Full => return,
            }
        }
        state.retries += 1;
        if !self.knobs.ih_retry_ring.on() {
            self.put(&mut state, 0, entry);
            return;
        }
        self.knobs.ih_retry_ring.hit();
        self.put(&mut state, 1, entry);
        // The interrupt of the handler itself: the write pointer of ring 1 has changed.
        let announced = Entry {
            client_id: client::IH as u8,
            ring_id: 1,
            ctx: [state.rings[1].wptr, 0, 0, 0],
            ..Entry::default()
        };
        self.put(&mut state, 0, announced);
    }

    fn put(&self, state: &mut State, ring: usize, entry: Entry) {
        let pasid = state.pasid(&entry);
        let entry = self.falsified(entry);
        let storm = &self.knobs.ih_storm;
        state.calm += u64::from(ring == 0);
        let repeats = ring == 0 && storm.on() && state.calm >= storm.get();
        if repeats {
            state.calm = 0;
            storm.hit();
        }
        for _ in 0..if repeats { STORM } else { 1 } {
            self.write(state, ring, entry, pasid);
        }
    }

    fn write(&self, state: &mut State, ring: usize, entry: Entry, pasid: u16) {
        let cntl = state.cntl(ring);
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
            state.rings[ring].wptr
        );
        let size = state.ring_bytes(ring);
        if cntl & RB_ENABLE == 0 || size < 2 * ENTRY {
            event!(self.trace, "ih", "lost", "ring {ring} is off");
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
        let ids = &self.ids.rings[ring];
        let base = u64::from(state.reg(ids.base)) << 8 | u64::from(state.reg(ids.base_hi)) << 40;
        let wptr = state.rings[ring].wptr & (size - 1);
        let next = (wptr + ENTRY) & (size - 1);
        let is_full = next == state.rings[ring].rptr;
        if is_full && cntl & WPTR_OVERFLOW_ENABLE == 0 {
            strict!(
                self.strict,
                "ih",
                "ring {ring} is full and overflow is not enabled; entry lost"
            );
            return;
        }
        if !self.store(cntl, base.wrapping_add(wptr.into()), &bytes) {
            return;
        }
        state.rings[ring].wptr = next;
        state.entries += 1;
        if is_full {
            state.rings[ring].overflow = true;
            event!(self.trace, "ih", "overflow", "ring={ring} wptr={next:#x}");
        }
        // Only ring 0 has write-back and messages.
        if ring != 0 {
            return;
        }
        if cntl & WPTR_WRITEBACK_ENABLE != 0 {
            let shadow = u64::from(state.reg(self.ids.wptr_addr_lo) & !3)
                | u64::from(state.reg(self.ids.wptr_addr_hi) & 0xffff) << 32;
            let beyond = &self.knobs.ih_wptr_dwords;
            let wptr = state.rings[0].wptr_reg() + 4 * beyond.get() as u32;
            if beyond.on() {
                beyond.hit();
            }
            self.store(cntl, shadow, &wptr.to_le_bytes());
        }
        self.message(state);
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
        if !ok && self.dma.is_master() {
            strict!(
                self.strict,
                "ih",
                "ring or write-pointer writeback at {addr:#x}: no memory"
            );
        }
        ok
    }
}

/// Reports a register write that enables ring 0 before its doorbell is routed: the doorbell that
/// acknowledges an interrupt in between is lost (`vega20_ih_irq_init`, `ih_v7_0_irq_init`). The
/// range of NBIF 6.3.1 never has those of ring 1 (`nbif_v6_3_1_ih_doorbell_range`).
pub fn check_route(gpu: &Gpu, reg: RegId, value: u32) {
    let enabled = gpu.ih.enables(reg, value);
    if let Some(doorbell) = enabled.filter(|index| !nbio::routes_to_ih(gpu, *index)) {
        strict!(
            gpu.strict,
            "ih",
            "ring 0 is enabled before its doorbell {doorbell:#x} is routed"
        );
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
