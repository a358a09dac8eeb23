// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The register map: existing registers, reset values, writable bits, and the unit that handles
//! each.
//!
//! A register that is not declared does not exist: it reads 0, with a strict line.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use gpu_regs::Reg;

use crate::chips::Chip;

pub mod declare;
pub mod late;

/// IP blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ip {
    /// Graphics and compute (one XCC).
    Gc,
    /// Memory hub outside the XCC.
    Mmhub,
    /// Address translation hub (VMID to PASID).
    Athub,
    /// Interrupt handler.
    Osssys,
    /// Host data path.
    Hdp,
    /// Bus interface.
    Nbif,
    /// Security processor.
    Mp0,
    /// Power management processor.
    Mp1,
    /// Thermal sensors.
    Thm,
    /// Package and reset straps.
    Smuio,
    /// DMA engine.
    Sdma,
    /// Memory controller.
    Umc,
    /// Data fabric.
    Df,
    /// System management network: absolute addresses, accessed by index and data.
    Smn,
}

/// Position of a register in its IP block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegId {
    /// Segment, an index into the block's base addresses.
    pub seg: u8,
    /// Offset in dwords.
    pub off: u32,
}

impl RegId {
    /// Returns the register at `off` of segment `seg`.
    pub const fn new(seg: u8, off: u32) -> Self {
        Self { seg, off }
    }
}

impl From<Reg> for RegId {
    fn from(reg: Reg) -> Self {
        Self::new(reg.seg, reg.off)
    }
}

/// Selection of a copy of a banked GC register (`GRBM_GFX_CNTL`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Selector {
    /// Micro engine: 1 and 2 are the compute MECs.
    pub me: u8,
    /// Pipe of the engine.
    pub pipe: u8,
    /// Queue of the pipe.
    pub queue: u8,
    /// VMID, for `SH_MEM_*`.
    pub vmid: u8,
}

/// The unit that handles accesses to a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// None: plain storage.
    Store,
    /// Command processor, banked by me, pipe and queue.
    Cp,
    /// GRBM, SH_MEM, shader array straps, RLC.
    Gc,
    /// Translation of the graphics hub.
    GfxHub,
    /// Translation of the memory hub.
    MmHub,
    /// Bus interface.
    Nbio,
    /// Host data path.
    Hdp,
    /// Interrupt ring.
    Ih,
    /// VMID to PASID.
    Athub,
    /// Mailboxes of PSP and SMU.
    Mp,
    /// SDMA engines.
    Sdma,
    /// Data fabric.
    Df,
    /// The pipes of MES, banked by pipe.
    Mes,
    /// The board's ROM.
    Rom,
}

/// Declaration of one register, or of an array of identical ones.
#[derive(Debug, Clone, Copy)]
pub struct Decl {
    /// AMD's name.
    pub name: &'static str,
    /// Block.
    pub ip: Ip,
    /// Instance of the block.
    pub instance: u8,
    /// Position.
    pub id: RegId,
    /// Number of copies, `stride` dwords apart.
    pub count: u32,
    /// Distance of copies in dwords.
    pub stride: u32,
    /// Value after reset.
    pub reset: u32,
    /// Writable bits.
    pub mask: u32,
    /// Unit that handles it.
    pub unit: Unit,
}

impl Decl {
    /// Returns a plain register of instance 0: reset 0, all bits writable, stored only.
    pub const fn new(name: &'static str, ip: Ip, id: RegId) -> Self {
        Self {
            name,
            ip,
            instance: 0,
            id,
            count: 1,
            stride: 1,
            reset: 0,
            mask: !0,
            unit: Unit::Store,
        }
    }

    /// Sets the unit.
    pub const fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Sets the reset value.
    pub const fn reset(mut self, reset: u32) -> Self {
        self.reset = reset;
        self
    }

    /// Sets the writable bits.
    pub const fn mask(mut self, mask: u32) -> Self {
        self.mask = mask;
        self
    }

    /// Sets the instance of the block.
    pub const fn instance(mut self, instance: u8) -> Self {
        self.instance = instance;
        self
    }

    /// Returns whether `id` is this register or one of its copies.
    pub fn covers(&self, id: RegId) -> bool {
        let within = id.off.wrapping_sub(self.id.off);
        id.seg == self.id.seg && within % self.stride == 0 && within / self.stride < self.count
    }

    /// Declares `count` copies, `stride` dwords apart.
    pub const fn array(mut self, count: u32, stride: u32) -> Self {
        self.count = count;
        self.stride = stride;
        self
    }
}

/// One register of the map.
#[derive(Debug)]
pub struct Slot {
    /// AMD's name (of the first of an array).
    pub name: &'static str,
    /// Block.
    pub ip: Ip,
    /// Instance of the block.
    pub instance: u8,
    /// Position inside the block.
    pub id: RegId,
    /// Unit that handles it.
    pub unit: Unit,
    /// Writable bits.
    pub mask: u32,
    reset: u32,
    value: AtomicU32,
}

impl Slot {
    /// Returns the name in traces: for a bank of registers with different names, `regCP_HQD_*`,
    /// with the register's offset in AMD's headers.
    pub fn label(&self) -> Cow<'static, str> {
        match self.name.ends_with('*') {
            true => format!("{}[{:#x}]", self.name, self.id.off).into(),
            false => self.name.into(),
        }
    }

    /// Returns the stored value.
    pub fn get(&self) -> u32 {
        self.value.load(Ordering::Acquire)
    }

    /// Stores a value, ignoring the write mask (update by the chip itself).
    pub fn set(&self, value: u32) {
        self.value.store(value, Ordering::Release);
    }

    /// Stores the writable bits of `value`; returns the read-only bits that differ.
    pub fn write(&self, value: u32) -> u32 {
        let old = self.get();
        self.set((old & !self.mask) | (value & self.mask));
        (old ^ value) & !self.mask
    }
}

crate::errors! {
    /// Inconsistent declarations.
    pub enum MapError {
        /// The chip has no such block, or the block no such segment.
        NoSegment { name: &'static str, chip: &'static str, ip: Ip } =>
            "{name}: {chip} has no {ip:?} segment",
        /// Two declarations of one address.
        Shared { first: &'static str, second: &'static str, addr: u32 } =>
            "{first} and {second} share address {addr:#x}",
    }
}

/// Dword address of a register in packets. Their descriptions have 18 bits of it; the C driver
/// writes addresses of all AIDs, of 19 bits, to the same dwords (`gfx_v9_4_3_write_data_to_reg`,
/// `sdma_v4_4_2_ring_emit_wreg`).
pub const PACKET_ADDRESS: u32 = 0x7_ffff;

/// Returns the position of a register: its dword address, and above it the die. Only NBIO has the
/// same addresses on several dies.
fn position(die: u8, addr: u32) -> u64 {
    u64::from(die) << 32 | u64::from(addr)
}

/// All registers of the card by position.
pub struct RegisterMap {
    slots: HashMap<u64, Slot>,
}

impl RegisterMap {
    /// Builds the map of `chip` from declarations. Two declarations of one address are an error.
    pub fn build<'a>(
        chip: &Chip,
        decls: impl IntoIterator<Item = &'a Decl>,
    ) -> Result<Self, MapError> {
        let mut slots = HashMap::new();
        for d in decls {
            let base = match d.ip {
                Ip::Smn => Some(0),
                ip => chip.base(ip, d.instance, d.id.seg),
            };
            let Some(base) = base else {
                return Err(MapError::NoSegment {
                    name: d.name,
                    chip: chip.name,
                    ip: d.ip,
                });
            };
            let die = if d.ip == Ip::Nbif { d.instance } else { 0 };
            for i in 0..d.count {
                let id = RegId::new(d.id.seg, d.id.off + i * d.stride);
                let slot = Slot {
                    name: d.name,
                    ip: d.ip,
                    instance: d.instance,
                    id,
                    unit: d.unit,
                    mask: d.mask,
                    reset: d.reset,
                    value: AtomicU32::new(d.reset),
                };
                if let Some(old) = slots.insert(position(die, base + id.off), slot) {
                    return Err(MapError::Shared {
                        first: old.name,
                        second: d.name,
                        addr: base + id.off,
                    });
                }
            }
        }
        Ok(Self { slots })
    }

    /// Returns the register at dword address `addr`.
    pub fn get(&self, addr: u32) -> Option<&Slot> {
        self.on_die(0, addr)
    }

    /// Returns the register at dword address `addr` of a die, which is an AID.
    pub fn on_die(&self, die: u8, addr: u32) -> Option<&Slot> {
        self.slots.get(&position(die, addr))
    }

    /// Returns the register `reg` of instance 0 of `ip`, for accesses by the chip itself.
    pub fn by_id(&self, chip: &Chip, ip: Ip, reg: Reg) -> Option<&Slot> {
        self.of(chip, ip, 0, reg)
    }

    /// Returns the register `reg` of an instance of `ip`, for accesses by the chip itself.
    pub fn of(&self, chip: &Chip, ip: Ip, instance: u8, reg: Reg) -> Option<&Slot> {
        let die = if ip == Ip::Nbif { instance } else { 0 };
        self.on_die(die, chip.base(ip, instance, reg.seg)? + reg.off)
    }

    /// Returns the map as text, one register per line, by address.
    pub fn listing(&self) -> String {
        let mut slots: Vec<_> = self.slots.iter().collect();
        slots.sort_by_key(|(addr, _)| **addr);
        let mut text = String::new();
        for (addr, s) in slots {
            text += &format!(
                "{addr:#09x} {:?}{} {} reset={:#x} writable={:#x} unit={:?}\n",
                s.ip, s.instance, s.name, s.reset, s.mask, s.unit
            );
        }
        text
    }

    /// Returns the number of registers.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Sets every register to its reset value.
    pub fn reset(&self) {
        for slot in self.slots.values() {
            slot.set(slot.reset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chips::mi300x::ONE_XCC;

    #[test]
    fn masks_resets_and_clashes() {
        let reg = |off| {
            Decl::new("R", Ip::Hdp, RegId::new(0, off))
                .mask(0xff)
                .reset(0x1_0001)
        };
        let map = RegisterMap::build(&ONE_XCC, &[reg(1).array(2, 4)]).unwrap();
        let slot = map.get(0xf20 + 5).unwrap();
        assert_eq!(slot.get(), 0x1_0001);
        assert_eq!(slot.write(0x1_0077), 0, "read-only bits kept as they are");
        assert_eq!(slot.write(0x78), 0x1_0000);
        assert_eq!(slot.get(), 0x1_0078);
        map.reset();
        assert_eq!(slot.get(), 0x1_0001);
        assert!(map.get(0xf20 + 2).is_none());
        assert!(RegisterMap::build(&ONE_XCC, &[reg(1), reg(1)]).is_err());
        let nowhere = Decl::new("N", Ip::Hdp, RegId::new(3, 0));
        assert!(RegisterMap::build(&ONE_XCC, &[nowhere]).is_err());
    }
}
