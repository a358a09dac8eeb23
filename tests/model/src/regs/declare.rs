// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Register declarations of a chip: the tables generated from AMD's headers for each of its IP
//! blocks, with units and reset values.

mod gfx12;
mod gfx9;

use gpu_regs::{Reg, RegInfo};
use rkfd_abi::smu;

use super::{Decl, Ip, RegId, Unit};
use crate::chips::{Chip, Generation};
use crate::engines::gmc::hub::layout::Layout;
use crate::engines::gmc::Hub;
use crate::engines::{cp, gc as gc_engine, rom};

/// Registers that are only accessible through the index/data pair, by byte address.
const SMN: &[(&str, u32, u32)] = &[
    // MP1_FIRMWARE_FLAGS: interrupts enabled, the power firmware runs.
    ("MP1_FIRMWARE_FLAGS", 0x3b1_0028, 1),
    // MP1_PUB_SCRATCH0: version of the power firmware.
    ("MP1_PUB_SCRATCH0", 0x3b1_0090, 0x0055_7b00),
];

/// The same of cards with SMU 14.
const SMN_14: &[(&str, u32, u32)] = &[("MP1_FIRMWARE_FLAGS", smu::v14::FLAGS_SMN, 1)];

/// `IP_DISCOVERY_VERSION`, a dword address without a segment in the headers.
const IP_DISCOVERY_VERSION: u32 = 0x16a00;

/// A register that does not read 0 after power-on: value, and whether it is read-only.
type PowerOn = (Ip, Reg, u32, bool);

/// Registers of one block, or of one instance of it, from a generated table.
struct Block {
    ip: Ip,
    instance: Option<u8>,
    table: &'static [RegInfo],
    only: &'static str,
    without: &'static [&'static str],
}

impl Block {
    const fn new(ip: Ip, table: &'static [RegInfo]) -> Self {
        Self {
            ip,
            instance: None,
            table,
            only: "",
            without: &[],
        }
    }

    /// Restricts the block to names with this prefix; instance 0 unless set otherwise.
    const fn only(mut self, prefix: &'static str) -> Self {
        self.only = prefix;
        self.instance(0)
    }

    /// Excludes names with these prefixes.
    const fn without(mut self, prefixes: &'static [&'static str]) -> Self {
        self.without = prefixes;
        self
    }

    /// Restricts the block to that instance.
    const fn instance(mut self, instance: u8) -> Self {
        self.instance = Some(instance);
        self
    }

    fn registers(&self) -> impl Iterator<Item = &'static RegInfo> + '_ {
        self.table.iter().filter(|info| {
            let name = info.reg.name;
            name.starts_with(self.only) && !self.without.iter().any(|p| name.starts_with(p))
        })
    }
}

/// Returns all declarations of `chip` with `vram` bytes; `ras` has the blocks with RAS.
pub fn all(chip: &Chip, vram: u64, ras: u32) -> Vec<Decl> {
    let mut decls: Vec<Decl> = Vec::new();
    let engine = cp::registers(chip.generation);
    let blocks = match chip.generation {
        Generation::Gfx9 => gfx9::blocks(),
        Generation::Gfx12 => gfx12::blocks(),
    };
    for instance in chip.ips.iter().filter(|i| chip.has(i.ip, i.instance)) {
        let here = |b: &&Block| {
            b.ip == instance.ip && b.instance.unwrap_or(instance.instance) == instance.instance
        };
        let same = |d: &&Decl| d.ip == instance.ip;
        let mut own: Vec<Decl> = engine.iter().filter(same).copied().collect();
        own.iter_mut().for_each(|d| d.instance = instance.instance);
        for info in blocks.iter().filter(here).flat_map(Block::registers) {
            let id = RegId::from(info.reg);
            // An alias for virtual functions, or a register that an engine declares itself.
            if own.iter().any(|d| d.covers(id)) {
                continue;
            }
            own.push(
                Decl::new(info.reg.name, instance.ip, id)
                    .instance(instance.instance)
                    .mask(if info.mask == 0 { !0 } else { info.mask })
                    .unit(unit(chip.generation, instance.ip, info.reg)),
            );
        }
        decls.extend(own);
    }
    let smn = match chip.generation {
        Generation::Gfx9 => SMN,
        Generation::Gfx12 => SMN_14,
    };
    for &(name, addr, reset) in smn {
        decls.push(
            Decl::new(name, Ip::Smn, RegId::new(0, addr / 4))
                .reset(reset)
                .mask(0),
        );
    }
    if chip.generation == Generation::Gfx9 {
        // Words of ATHUB without a name in its header. The stock driver reads the PASIDs of the
        // VMIDs 3 to 15 here: at the position in ATHUB 1.0, which does not apply to 1.8
        // (`kgd_gfx_v9_get_atc_vmid_pasid_mapping_info`). No VMID appears mapped then.
        decls.push(
            Decl::new("ATHUB_UNNAMED", Ip::Athub, RegId::new(0, 0xf))
                .array(13, 1)
                .mask(0),
        );
        let capability = gpu_regs::psp::RAS_CAPABILITY;
        decls.push(
            Decl::new(capability.name, Ip::Mp0, capability.into())
                .unit(Unit::Mp)
                .reset(rkfd_abi::psp::RAS_BLOCKS.put(ras)),
        );
    }
    decls.push(
        Decl::new(
            "IP_DISCOVERY_VERSION",
            Ip::Smn,
            RegId::new(0, IP_DISCOVERY_VERSION),
        )
        .reset(4)
        .mask(0),
    );
    for (ip, reg, value, read_only) in power_on(chip, vram) {
        let id = RegId::from(reg);
        for d in decls.iter_mut().filter(|d| d.ip == ip && d.id == id) {
            d.reset = value;
            if read_only {
                d.mask = 0;
            }
        }
    }
    match chip.generation {
        Generation::Gfx9 => gfx9::finish(chip, &mut decls),
        Generation::Gfx12 => gfx12::finish(&mut decls),
    }
    decls
}

fn power_on(chip: &Chip, vram: u64) -> Vec<PowerOn> {
    match chip.generation {
        Generation::Gfx9 => gfx9::power_on(chip, vram),
        Generation::Gfx12 => gfx12::power_on(chip, vram),
    }
}

fn unit(generation: Generation, ip: Ip, reg: Reg) -> Unit {
    let hub = |hub| Layout::of(generation, hub).covers(reg.into());
    match ip {
        Ip::Gc if hub(Hub::Gfx(0)) => Unit::GfxHub,
        Ip::Mmhub if hub(Hub::Mm(0)) => Unit::MmHub,
        Ip::Gc | Ip::Smuio if gc_engine::handles(generation, ip, reg.into()) => Unit::Gc,
        Ip::Smuio if rom::handles(generation, reg.into()) => Unit::Rom,
        Ip::Nbif => Unit::Nbio,
        Ip::Hdp => Unit::Hdp,
        Ip::Osssys => Unit::Ih,
        Ip::Athub if generation == Generation::Gfx9 => Unit::Athub,
        Ip::Mp0 | Ip::Mp1 => Unit::Mp,
        Ip::Sdma => Unit::Sdma,
        Ip::Df => Unit::Df,
        _ => Unit::Store,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chips::mi300x::ONE_XCC;
    use crate::chips::rx9070::CHIP as RX9070;
    use crate::regs::RegisterMap;

    #[test]
    fn addresses_used_before_discovery() {
        let map = RegisterMap::build(&ONE_XCC, &all(&ONE_XCC, 8 << 30, 0)).unwrap();
        assert_eq!(map.get(0xde3).unwrap().get(), 8192);
        assert_eq!(map.get(0x16061).unwrap().get(), 0x8000_0000);
        assert_eq!(map.get(0xde5).unwrap().get(), 0);
        assert_eq!(map.get(0xd36).unwrap().get() >> 24 & 15, 1);
        assert_eq!(map.get(0x3a0c / 4).unwrap().get() >> 4 & 15, 0);
        assert_eq!(map.get(0x3a10 / 4).unwrap().get(), 0x10);
        assert_eq!(map.get(0x94).unwrap().name, "regBIF_BX0_DRIVER_SCRATCH_0");
        assert_eq!(map.get(0x3b1_0028 / 4).unwrap().get(), 1);
        assert!(map.len() > 2000);
    }

    #[test]
    fn reset_values_name_existing_registers() {
        for chip in Chip::all() {
            let decls = all(chip, 8 << 30, 0);
            for (ip, reg, ..) in power_on(chip, 8 << 30) {
                assert!(
                    decls.iter().any(|d| d.ip == ip && d.id == reg.into()),
                    "{}",
                    reg.name
                );
            }
        }
    }

    #[test]
    fn gfx12_addresses_used_before_discovery() {
        let map = RegisterMap::build(&RX9070, &all(&RX9070, 8 << 30, 0)).unwrap();
        assert_eq!(map.get(0xde3).unwrap().get(), 8192);
        assert_eq!(map.get(0x16061).unwrap().get(), 0x8000_0000);
        assert_eq!(map.get(0xde5).unwrap().get(), 0);
        assert_eq!(map.get(0x94).unwrap().name, "regBIF_BX0_DRIVER_SCRATCH_0");
        // Byte addresses of address blocks in AMD's header.
        for (byte, name) in [
            (0x8000, "regGRBM_CNTL"),
            (0x2a400, "regGRBM_GFX_CNTL"),
            (0x3b000, "regRLC_CNTL"),
            (0x69390, "regMMVM_L2_CNTL"),
            (0x4280, "regIH_VMID_0_LUT"),
        ] {
            assert_eq!(map.get(byte / 4).unwrap().name, name);
        }
        // All registers that a driver writes at run time are in the register BAR.
        for addr in [0x1a000 + 0x6ff, 0xa000 + 0x5fff] {
            assert!(addr * 4 < RX9070.register_bar);
        }
        assert!(map.len() > 1500);
    }

    #[test]
    fn gfx12_sdma_registers_are_per_engine() {
        let map = RegisterMap::build(&RX9070, &all(&RX9070, 8 << 30, 0)).unwrap();
        for (n, base) in [(0, 0x1260), (1, 0x1860)] {
            let slot = map.get(base + 0x80).unwrap();
            assert_eq!((slot.ip, slot.instance), (Ip::Sdma, n));
            assert!(slot.name.ends_with("_QUEUE0_RB_CNTL"), "{}", slot.name);
        }
    }

    #[test]
    fn sdma_engines_have_their_own_registers() {
        let map = RegisterMap::build(&ONE_XCC, &all(&ONE_XCC, 8 << 30, 0)).unwrap();
        for base in [0x1260, 0x1860, 0x19400, 0x19800] {
            let slot = map.get(base + 0x91).unwrap();
            assert_eq!((slot.name, slot.get()), ("regSDMA_GFX_CONTEXT_STATUS", 4));
        }
    }
}
