// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A card with 8 XCCs on 4 AIDs: which instance an access belongs to.

use std::sync::Arc;

use gpu_model::chips::mi300x::CHIP;
use gpu_model::chips::{mi308x, Chip};
use gpu_model::engines::gmc::{Access, Hub};
use gpu_model::gpu::{fault_entry, Gpu};
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{gc_9_4_3 as gc, nbio_7_9_0 as nbio, osssys_4_4_2 as osssys, Reg};
use rkfd_abi::ih::node;

use crate::common::sdma::Card;
use crate::common::{addr_of, card, enable_context, hub_read};

/// The same card with four XCCs.
static CHIP_4XCC: Chip = Chip {
    name: "mi300x-4xcc",
    harvested: &[(Ip::Gc, 0), (Ip::Gc, 1), (Ip::Gc, 3), (Ip::Gc, 6)],
    ..CHIP
};

fn whole() -> Arc<Gpu> {
    card(&CHIP, Knobs::default())
}

/// Writes a register of the SMN by a 64-bit byte address.
fn smn_write(gpu: &Gpu, address: u64, value: u32) {
    let write = |reg, value| gpu.reg_write(addr_of(Ip::Nbif, 0, reg), value);
    write(nbio::regBIF_BX0_PCIE_INDEX2, address as u32);
    write(nbio::regBIF_BX0_PCIE_INDEX2_HI, (address >> 32) as u32);
    write(nbio::regBIF_BX0_PCIE_DATA2, value);
    write(nbio::regBIF_BX0_PCIE_INDEX2_HI, 0);
}

/// Returns the PASID of a VMID that the interrupt handler has for a node.
fn lut(gpu: &Gpu, node: u32, first: Reg, vmid: u32) -> u32 {
    gpu.reg_write(addr_of(Ip::Osssys, 0, osssys::regIH_VMID_LUT_INDEX), node);
    gpu.reg_read(addr_of(Ip::Osssys, 0, first.at(vmid)))
}

#[test]
fn xccs_have_their_own_registers() {
    let gpu = whole();
    let select = |xcc, vmid| {
        let reg = addr_of(Ip::Gc, xcc, gc::regGRBM_GFX_CNTL);
        gpu.reg_write(reg, gc::GRBM_GFX_CNTL__VMID.put(vmid));
    };
    select(2, 8);
    select(3, 9);
    for xcc in [2, 3] {
        gpu.reg_write(
            addr_of(Ip::Gc, xcc, gc::regSH_MEM_BASES),
            0x100 + u32::from(xcc),
        );
    }
    let bases = |xcc: u8, vmid| {
        gpu.xccs[usize::from(xcc)]
            .gc
            .vmid_reg(vmid, gc::regSH_MEM_BASES)
    };
    assert_eq!((bases(2, 8), bases(2, 9)), (0x102, 0));
    assert_eq!((bases(3, 8), bases(3, 9)), (0, 0x103));
    // An engine of XCC 3 reaches them at the addresses of XCC 0.
    let first = addr_of(Ip::Gc, 0, gc::regSH_MEM_BASES);
    assert_eq!(gpu.local(3, first), addr_of(Ip::Gc, 3, gc::regSH_MEM_BASES));
    assert_eq!(gpu.local(0, first), first);
    let hdp = addr_of(Ip::Nbif, 0, nbio::regBIF_BX_PF0_GPU_HDP_FLUSH_REQ);
    assert_eq!(gpu.local(3, hdp), hdp);
    assert_eq!(gpu.strict.unexpected(), 0);
}

#[test]
fn hubs_have_their_own_contexts_and_faults() {
    let gpu = whole();
    let root = 0x10_0001;
    for (hub, node_id) in [
        (Hub::Gfx(0), node::XCD0),
        (Hub::Gfx(3), node::PER_AID + node::XCD1),
        (Hub::Gfx(6), 3 * node::PER_AID + node::XCD0),
        (Hub::Mm(2), 2 * node::PER_AID + node::AID),
    ] {
        enable_context(&gpu, hub, 5, 1, 0, root);
        let fault = gpu.gmc.translate(hub, 5, 0x1000, Access::Read).unwrap_err();
        assert_eq!(fault.hub, hub);
        gpu.raise_fault(&fault, 8);
        let status = hub_read(&gpu, hub, gc::regVM_L2_PROTECTION_FAULT_STATUS);
        assert_eq!(gc::VM_L2_PROTECTION_FAULT_STATUS__VMID.get(status), 5);
        let entry = fault_entry(gpu.chip.generation, &fault, 0);
        assert_eq!(u32::from(entry.node_id), node_id);
    }
    for hub in [Hub::Gfx(1), Hub::Gfx(7), Hub::Mm(0), Hub::Mm(3)] {
        assert_eq!(gpu.gmc.root(hub, 5), 0);
        let status = hub_read(&gpu, hub, gc::regVM_L2_PROTECTION_FAULT_STATUS);
        assert_eq!(status, 0);
    }
}

#[test]
fn first_xcc_of_an_aid_programs_it() {
    let gpu = whole();
    gpu.map_vmid(2, 8, 0x8002, 0x2001);
    gpu.map_vmid(3, 8, 0x8003, 0x3001);
    assert_eq!(gpu.gmc.root(Hub::Gfx(2), 8), 0x2001);
    assert_eq!(gpu.gmc.root(Hub::Gfx(3), 8), 0x3001);
    assert_eq!(gpu.gmc.root(Hub::Mm(1), 8), 0x2001);
    assert_eq!(gpu.gmc.root(Hub::Mm(0), 8), 0);
    let (gfx, mm) = (osssys::regIH_VMID_0_LUT, osssys::regIH_VMID_0_LUT_MM);
    let aid = node::PER_AID;
    assert_eq!(lut(&gpu, aid + node::XCD0, gfx, 8), 0x8002);
    assert_eq!(lut(&gpu, aid + node::XCD1, gfx, 8), 0x8003);
    assert_eq!(lut(&gpu, aid + node::AID, mm, 8), 0x8002);
    assert_eq!(lut(&gpu, node::XCD0, gfx, 8), 0);
}

#[test]
fn partitions_follow_cp_hyp_xcp_ctl() {
    let gpu = whole();
    let members = |xcc| -> Vec<u8> { gpu.partition(xcc).iter().map(|x| x.instance).collect() };
    assert_eq!(members(5), (0..8).collect::<Vec<_>>());
    let split = |each: u32| {
        for xcc in 0..8 {
            let value = gc::CP_HYP_XCP_CTL__NUM_XCC_IN_XCP.put(each)
                | gc::CP_HYP_XCP_CTL__VIRTUAL_XCC_ID.put(u32::from(xcc) % each);
            gpu.reg_write(addr_of(Ip::Gc, xcc, gc::regCP_HYP_XCP_CTL), value);
        }
    };
    split(4);
    assert_eq!(members(5), [4, 5, 6, 7]);
    assert_eq!(members(0), [0, 1, 2, 3]);
    assert!(gpu.serves(4, 2) && !gpu.serves(5, 2) && !gpu.serves(0, 2));
    // Both XCCs of an AID have a partition each.
    split(1);
    assert_eq!(members(5), [5]);
    assert!(gpu.serves(4, 2) && gpu.serves(5, 2));
}

#[test]
fn fused_off_xccs_do_not_exist() {
    let gpu = card(&CHIP_4XCC, Knobs::default());
    let present: Vec<u8> = gpu.xccs.iter().map(|xcc| xcc.instance).collect();
    assert_eq!(present, [2, 4, 5, 7]);
    let members: Vec<u8> = gpu.partition(5).iter().map(|xcc| xcc.instance).collect();
    assert_eq!(members, present);
    // AID 0 has no XCC.
    assert_eq!(gpu.served(2).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(gpu.served(4).collect::<Vec<_>>(), [2]);
    let reg = gc::regGRBM_GFX_CNTL;
    assert!(gpu.regs.of(gpu.chip, Ip::Gc, 3, reg).is_none());
    assert_eq!(
        gpu.local(7, addr_of(Ip::Gc, 0, reg)),
        addr_of(Ip::Gc, 7, reg)
    );
    let virtual_id = |xcc| {
        let slot = gpu.regs.of(gpu.chip, Ip::Gc, xcc, gc::regCP_HYP_XCP_CTL);
        gc::CP_HYP_XCP_CTL__VIRTUAL_XCC_ID.get(slot.unwrap().get())
    };
    assert_eq!(
        present.iter().map(|n| virtual_id(*n)).collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
}

/// Ranges are on AID 0, ports on the AID of the engine.
#[test]
fn sdma_doorbells_need_a_range_and_a_port() {
    use gpu_model::engines::nbio::routes_to_sdma;
    use nbio::{
        regDOORBELL0_CTRL_ENTRY_0, regS2A_DOORBELL_ENTRY_1_CTRL,
        DOORBELL0_CTRL_ENTRY_0__BIF_DOORBELL0_RANGE_OFFSET_ENTRY as OFFSET,
        DOORBELL0_CTRL_ENTRY_0__BIF_DOORBELL0_RANGE_SIZE_ENTRY as SIZE,
        S2A_DOORBELL_ENTRY_1_CTRL__S2A_DOORBELL_PORT1_ENABLE as ENABLE,
    };
    let gpu = whole();
    let (engine, aid) = (14, 3);
    let index = 2 * (0x100 + 10 * u32::from(engine));
    assert!(!routes_to_sdma(&gpu, engine, index));
    let range = addr_of(
        Ip::Nbif,
        0,
        regDOORBELL0_CTRL_ENTRY_0.at(1 + u32::from(engine)),
    );
    smn_write(&gpu, u64::from(range) * 4, OFFSET.put(index) | SIZE.put(20));
    assert!(!routes_to_sdma(&gpu, engine, index));
    let port = u64::from(addr_of(Ip::Nbif, aid, regS2A_DOORBELL_ENTRY_1_CTRL.at(4))) * 4;
    smn_write(&gpu, port, ENABLE.mask);
    assert!(!routes_to_sdma(&gpu, engine, index));
    smn_write(&gpu, port | 1 << 34 | u64::from(aid) << 32, ENABLE.mask);
    assert!(routes_to_sdma(&gpu, engine, index));
    // The same in the next page, but not beyond the range.
    assert!(routes_to_sdma(&gpu, engine, index + 1024 + 19));
    assert!(!routes_to_sdma(&gpu, engine, index + 20));
    gpu.reg_write(
        addr_of(Ip::Nbif, 0, nbio::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN),
        1,
    );
    gpu.doorbell(u64::from(index) * 4, 4, 8);
    assert_eq!(gpu.strict.unexpected(), 0);
    gpu.doorbell(u64::from(index + 20) * 4, 4, 8);
    assert_eq!(gpu.strict.unexpected(), 1);
}

#[test]
fn smn_addresses_select_the_aid() {
    let gpu = whole();
    let reg = nbio::regXCC_DOORBELL_FENCE;
    let byte = u64::from(addr_of(Ip::Nbif, 2, reg)) * 4;
    smn_write(&gpu, byte | 1 << 34 | 2 << 32, 0x1_0001);
    let fence = |aid| gpu.regs.of(gpu.chip, Ip::Nbif, aid, reg).unwrap().get();
    assert_eq!([0, 1, 2, 3].map(fence), [0, 0x1_0000, 0x1_0001, 0x1_0000]);
    assert_eq!(gpu.strict.unexpected(), 0);
    // The die without the bit for extended addresses.
    smn_write(&gpu, byte | 2 << 32, 1);
    assert_eq!(gpu.strict.unexpected(), 1);
    let one = card(&gpu_model::chips::mi300x::ONE_XCC, Knobs::default());
    smn_write(&one, byte | 1 << 34 | 2 << 32, 1);
    assert_eq!(one.strict.unexpected(), 1);
}

#[test]
fn sdma_engines_have_logical_numbers() {
    let gpu = card(&mi308x::CHIP, Knobs::default());
    let engines = [0, 1, 6, 7, 8, 9, 14, 15];
    let by_doorbell = |n| gpu.sdma.engine_of(Card::doorbell(n));
    let in_partition = |xcc, n: u8| gpu.sdma_engine(xcc, n);
    for (n, engine) in engines.into_iter().enumerate() {
        assert_eq!(by_doorbell(n), Some(engine));
        assert_eq!(in_partition(6, n as u8), Some(engine as u8));
    }
    assert_eq!((by_doorbell(8), in_partition(6, 8)), (None, None));
    assert!(!gpu.sdma.request_reset(1 << 2, |_| {}), "harvested");
    // CPX: two engines for each of the XCCs 1, 2, 5 and 6.
    for xcc in [1, 2, 5, 6] {
        let value = gc::CP_HYP_XCP_CTL__NUM_XCC_IN_XCP.put(1);
        gpu.reg_write(addr_of(Ip::Gc, xcc, gc::regCP_HYP_XCP_CTL), value);
    }
    let own = [0, 1, 2].map(|n| in_partition(5, n));
    assert_eq!(own, [Some(8), Some(9), None]);
}

#[test]
fn cus_are_harvested_by_xcc() {
    let gpu = card(&mi308x::CHIP, Knobs::default());
    let inactive = |xcc, se| {
        let select = gc::GRBM_GFX_INDEX__SE_INDEX.put(se);
        gpu.reg_write(addr_of(Ip::Gc, xcc, gc::regGRBM_GFX_INDEX), select);
        let fuses = addr_of(Ip::Gc, xcc, gc::regCC_GC_SHADER_ARRAY_CONFIG);
        gc::CC_GC_SHADER_ARRAY_CONFIG__INACTIVE_CUS.get(gpu.reg_read(fuses))
    };
    assert_eq!([inactive(1, 0), inactive(1, 1)], [0x3e0, 0x1f]);
    assert_eq!([inactive(2, 0), inactive(2, 1)], [0x1f, 0x3e0]);
    assert_eq!(gpu.strict.unexpected(), 0);
}

/// With five CUs in each shader engine workgroups are distributed as on whole engines.
#[test]
fn mecs_start_with_settings_for_their_cus() {
    let starts = |chip, xcc, debug, safe_mode| {
        let gpu = card(chip, Knobs::default());
        let write = |reg, value| gpu.reg_write(addr_of(Ip::Gc, xcc, reg), value);
        write(gc::regCP_CPC_DEBUG, debug);
        write(gc::regRLC_SAFE_MODE, safe_mode);
        let halted = gc::CP_MEC_CNTL__MEC_ME1_HALT.mask | gc::CP_MEC_CNTL__MEC_ME2_HALT.mask;
        write(gc::regCP_MEC_CNTL, halted);
        write(gc::regCP_MEC_CNTL, 0);
        gpu.strict.unexpected()
    };
    let both = gc::CP_CPC_DEBUG__CPC_HARVESTING_RELAUNCH_DISABLE.mask
        | gc::CP_CPC_DEBUG__CPC_HARVESTING_DISPATCH_DISABLE.mask;
    let one = gc::CP_CPC_DEBUG__CPC_HARVESTING_RELAUNCH_DISABLE.mask;
    assert_eq!(starts(&mi308x::CHIP, 5, both | 1, 1), 0);
    assert_eq!(starts(&mi308x::CHIP, 5, one, 1), 1);
    assert_eq!(starts(&mi308x::CHIP, 5, 0, 1), 1);
    assert_eq!(starts(&CHIP, 5, 0, 1), 0);
    assert_eq!(starts(&CHIP, 5, both, 1), 1);
    // Message 1 is the request of safe mode.
    assert_eq!(starts(&CHIP, 5, 0, 3), 1);
}

#[test]
fn rlc_that_does_not_respond() {
    let knobs = Knobs::default();
    assert!(knobs.set("rlc.silent", 1));
    let gpu = card(&CHIP, knobs);
    let reg = addr_of(Ip::Gc, 2, gc::regRLC_SAFE_MODE);
    let pending = |value| {
        gpu.reg_write(reg, value);
        gc::RLC_SAFE_MODE__CMD.is_set(gpu.reg_read(reg))
    };
    assert_eq!([3, 1, 3, 1].map(pending), [true, false, false, false]);
    assert_eq!(gpu.strict.unexpected(), 0);
}
