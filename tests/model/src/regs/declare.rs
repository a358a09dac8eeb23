// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Which registers a chip has: the tables generated from AMD's headers for each of its IP
//! blocks, who handles them, and what they read after reset.

use rkfd_abi::regs::{
    athub_1_8_0 as athub, gc_9_4_3 as gc, hdp_4_4_2 as hdp, mmhub_1_8_0 as mmhub, mp_13_0_6 as mp,
    nbio_7_9_0 as nbio, osssys_4_4_2 as osssys, sdma_4_4_2 as sdma, smuio_13_0_3 as smuio, Reg,
    RegInfo,
};

use super::{Decl, Ip, RegId, Unit};
use crate::chips::Chip;
use crate::engines::gmc::hub::HubRegs;
use crate::engines::gmc::Hub;
use crate::engines::{cp, gc as gc_engine};

/// Registers that are only reached through the index/data pair, by byte address.
const SMN: &[(&str, u32, u32)] = &[
    // MP1_FIRMWARE_FLAGS: interrupts enabled, the power firmware runs.
    ("MP1_FIRMWARE_FLAGS", 0x3b1_0028, 1),
    // MP1_PUB_SCRATCH0: version of the power firmware.
    ("MP1_PUB_SCRATCH0", 0x3b1_0090, 0x0055_7b00),
];

/// `IP_DISCOVERY_VERSION`, a dword address that no header gives a segment.
const IP_DISCOVERY_VERSION: u32 = 0x16a00;

/// Everything that `chip` with `vram` bytes declares.
pub fn all(chip: &Chip, vram: u64) -> Vec<Decl> {
    let mut decls: Vec<Decl> = cp::registers(chip.generation);
    for instance in chip.ips {
        let table: &[RegInfo] = match instance.ip {
            Ip::Gc => gc::ALL,
            Ip::Mmhub => mmhub::ALL,
            Ip::Athub => athub::ALL,
            Ip::Osssys => osssys::ALL,
            Ip::Hdp => hdp::ALL,
            Ip::Nbif => nbio::ALL,
            // One header holds both processors; MP1 shares MP0's base.
            Ip::Mp0 => mp::ALL,
            Ip::Smuio => smuio::ALL,
            Ip::Sdma => sdma::ALL,
            Ip::Mp1 | Ip::Umc | Ip::Smn => &[],
        };
        for info in table {
            let id = RegId::from(info.reg);
            let known =
                |d: &Decl| d.ip == instance.ip && d.instance == instance.instance && d.covers(id);
            // A virtual function's alias of a register, or one that an engine declares itself.
            if decls.iter().any(known) {
                continue;
            }
            decls.push(
                Decl::new(info.reg.name, instance.ip, id)
                    .instance(instance.instance)
                    .mask(if info.mask == 0 { !0 } else { info.mask })
                    .unit(unit(instance.ip, info.reg)),
            );
        }
    }
    for &(name, addr, reset) in SMN {
        decls.push(
            Decl::new(name, Ip::Smn, RegId::new(0, addr / 4))
                .reset(reset)
                .mask(0),
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
    for d in decls.iter_mut().filter(|d| d.ip == Ip::Sdma) {
        if d.name.ends_with("_CONTEXT_STATUS") {
            d.reset = sdma::SDMA_GFX_CONTEXT_STATUS__IDLE.mask;
            d.mask = 0;
        }
    }
    decls
}

fn unit(ip: Ip, reg: Reg) -> Unit {
    match ip {
        Ip::Gc if HubRegs::normalise(Hub::Gfx, reg.into()).is_some() => Unit::GfxHub,
        Ip::Mmhub if HubRegs::normalise(Hub::Mm, reg.into()).is_some() => Unit::MmHub,
        Ip::Gc if gc_engine::handles(reg.into()) => Unit::Gc,
        Ip::Nbif => Unit::Nbio,
        Ip::Hdp => Unit::Hdp,
        Ip::Osssys => Unit::Ih,
        Ip::Athub => Unit::Athub,
        Ip::Mp0 => Unit::Mp,
        Ip::Sdma => Unit::Sdma,
        _ => Unit::Store,
    }
}

/// Registers that do not read 0 after power-on: value, and whether writes change nothing.
fn power_on(chip: &Chip, vram: u64) -> Vec<(Ip, Reg, u32, bool)> {
    let strap = nbio::RCC_STRAP0_RCC_DEV0_EPF0_STRAP0__STRAP_ATI_REV_ID_DEV0_F0
        .put(chip.rev_id.into())
        | u32::from(chip.pci_ids[1]);
    let nps1 = nbio::BIF_BX_PF0_PARTITION_MEM_STATUS__NPS_MODE.put(1);
    vec![
        (
            Ip::Nbif,
            nbio::regRCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE,
            (vram >> 20) as u32,
            true,
        ),
        (
            Ip::Nbif,
            nbio::regRCC_STRAP0_RCC_DEV0_EPF0_STRAP0,
            strap,
            true,
        ),
        (
            Ip::Nbif,
            nbio::regRCC_DEV0_EPF0_RCC_IOV_FUNC_IDENTIFIER,
            0,
            true,
        ),
        // One XCC in one partition (SPX), one memory partition.
        (Ip::Nbif, nbio::regBIF_BX_PF0_PARTITION_COMPUTE_CAP, 1, true),
        (Ip::Nbif, nbio::regBIF_BX_PF0_PARTITION_MEM_CAP, 1, true),
        (
            Ip::Nbif,
            nbio::regBIF_BX_PF0_PARTITION_COMPUTE_STATUS,
            0,
            true,
        ),
        (
            Ip::Nbif,
            nbio::regBIF_BX_PF0_PARTITION_MEM_STATUS,
            nps1,
            true,
        ),
        (Ip::Gc, gc::regGRBM_GFX_INDEX, 0xe000_0000, false),
        // Idle: no unit busy, the always-set bits of an idle chip.
        (Ip::Gc, gc::regGRBM_STATUS, 0x3028, true),
        (Ip::Gc, gc::regGRBM_STATUS2, 0x8, true),
        (Ip::Gc, gc::regGB_ADDR_CONFIG, 0x2a11_4042, false),
        (
            Ip::Gc,
            gc::regRLC_CNTL,
            gc::RLC_CNTL__RLC_ENABLE_F32.mask,
            false,
        ),
        (
            Ip::Gc,
            gc::regCP_HYP_XCP_CTL,
            gc::CP_HYP_XCP_CTL__NUM_XCC_IN_XCP.put(1),
            false,
        ),
        (Ip::Sdma, sdma::regSDMA_STATUS_REG, 0x46de_e557, true),
        // Package type OAM.
        (
            Ip::Smuio,
            smuio::regSMUIO_MCM_CONFIG,
            smuio::SMUIO_MCM_CONFIG__PKG_TYPE.put(1),
            true,
        ),
        // The security processor has booted its secure OS; its mailbox is ready.
        (Ip::Mp0, mp::regMP0_SMN_C2PMSG_33, 0x8000_0000, true),
        (Ip::Mp0, mp::regMP0_SMN_C2PMSG_35, 0x8000_0000, false),
        (Ip::Mp0, mp::regMP0_SMN_C2PMSG_58, 0x0036_0068, true),
        (Ip::Mp0, mp::regMP0_SMN_C2PMSG_64, 0x8000_0000, false),
        (Ip::Mp0, mp::regMP0_SMN_C2PMSG_81, 0x0036_0068, true),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chips::mi300x::CHIP;
    use crate::regs::RegisterMap;

    #[test]
    fn the_map_has_the_addresses_that_drivers_use_before_discovery() {
        let map = RegisterMap::build(&CHIP, &all(&CHIP, 8 << 30)).unwrap();
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
    fn reset_values_name_registers_that_exist() {
        let decls = all(&CHIP, 8 << 30);
        for (ip, reg, ..) in power_on(&CHIP, 8 << 30) {
            assert!(
                decls.iter().any(|d| d.ip == ip && d.id == reg.into()),
                "{}",
                reg.name
            );
        }
    }

    #[test]
    fn sdma_engines_have_their_own_registers() {
        let map = RegisterMap::build(&CHIP, &all(&CHIP, 8 << 30)).unwrap();
        for base in [0x1260, 0x1860, 0x19400, 0x19800] {
            let slot = map.get(base + 0x91).unwrap();
            assert_eq!((slot.name, slot.get()), ("regSDMA_GFX_CONTEXT_STATUS", 4));
        }
    }
}
