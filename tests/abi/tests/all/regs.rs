// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The model's generated register modules against the headers they were generated from, read by a C
//! compiler instead of the generator's parser.

use std::collections::BTreeMap;

use gpu_regs::*;
use rkfd_abi_oracle::{fact, shift_mask, Fact, Program};

/// A generated module: its tables, its headers.
struct Module {
    all: &'static [RegInfo],
    fields: &'static [(&'static str, Field)],
    stem: &'static str,
}

macro_rules! module {
    ($name:ident, $folder:literal) => {
        Module {
            all: $name::ALL,
            fields: $name::FIELDS,
            stem: concat!($folder, "/", stringify!($name)),
        }
    };
}

fn check(module: &Module) -> usize {
    let mut facts: Vec<Fact> = Vec::new();
    for RegInfo { reg, .. } in module.all {
        facts.push(fact(reg.name, reg.off, reg.name));
        let idx = format!("{}_BASE_IDX", reg.name);
        facts.push(fact(idx.clone(), reg.seg, idx));
    }
    let mut union: BTreeMap<&str, u32> = BTreeMap::new();
    for (name, field) in module.fields {
        facts.extend(shift_mask(name, *field));
        let reg = module
            .all
            .iter()
            .map(|info| &info.reg.name[3..])
            .filter(|reg| name.starts_with(*reg) && name[reg.len()..].starts_with("__"))
            .max_by_key(|reg| reg.len())
            .unwrap_or_else(|| panic!("{name} belongs to no register"));
        *union.entry(reg).or_default() |= field.mask;
    }
    for info in module.all {
        if let Some(mask) = union.get(&info.reg.name[3..]) {
            assert_eq!(info.mask, *mask, "{}", info.reg.name);
        }
    }
    Program::new()
        .include(&format!("{}_offset.h", module.stem))
        .include(&format!("{}_sh_mask.h", module.stem))
        .facts(facts)
        .check()
}

macro_rules! tests {
    ($($name:ident in $folder:literal, at least $least:literal;)*) => {
        $(
            #[test]
            fn $name() {
                let facts = check(&module!($name, $folder));
                assert!(facts >= $least, "only {facts} facts were compared");
            }
        )*
    };
}

tests! {
    gc_9_4_3 in "gc", at least 3000;
    mmhub_1_8_0 in "mmhub", at least 500;
    nbio_7_9_0 in "nbio", at least 300;
    osssys_4_4_2 in "oss", at least 300;
    hdp_4_4_2 in "hdp", at least 50;
    athub_1_8_0 in "athub", at least 40;
    mp_13_0_6 in "mp", at least 300;
    sdma_4_4_2 in "sdma", at least 1500;
    smuio_13_0_3 in "smuio", at least 6;
    gc_12_0_0 in "gc", at least 5000;
    mmhub_4_1_0 in "mmhub", at least 500;
    nbif_6_3_1 in "nbif", at least 150;
    osssys_7_0_0 in "oss", at least 300;
    hdp_7_0_0 in "hdp", at least 40;
    mp_14_0_2 in "mp", at least 300;
    thm_14_0_2 in "thm", at least 2;
    smuio_14_0_2 in "smuio", at least 4;
    df_4_15 in "df", at least 4;
}

/// Registers whose fields are left out have no such check above: their masks are compared here.
#[test]
fn masks_of_arrays_are_those_of_their_first_element() {
    use gc_9_4_3 as gc;
    let mask = |all: &[RegInfo], name: &str| {
        let info = all.iter().find(|i| i.reg.name == name);
        info.unwrap_or_else(|| panic!("no {name}")).mask
    };
    for n in 2..16 {
        let name = format!("regVM_CONTEXT{n}_CNTL");
        assert_eq!(
            mask(gc::ALL, &name),
            mask(gc::ALL, "regVM_CONTEXT1_CNTL"),
            "{name}"
        );
        assert_eq!(
            mask(mmhub_1_8_0::ALL, &name),
            mask(gc::ALL, "regVM_CONTEXT1_CNTL"),
            "{name}"
        );
    }
    for n in 1..18 {
        let name = format!("regVM_INVALIDATE_ENG{n}_REQ");
        assert_eq!(
            mask(gc::ALL, &name),
            mask(gc::ALL, "regVM_INVALIDATE_ENG0_REQ"),
            "{name}"
        );
    }
}

#[test]
fn hqd_registers_follow_the_image_of_gfx9() {
    use gpu_regs::gc_9_4_3 as gc;
    use rkfd_abi::mqd::v9::{dw, HQD_FIRST};
    for (reg, dw) in [
        (gc::regCP_MQD_BASE_ADDR, dw::cp_mqd_base_addr_lo),
        (gc::regCP_HQD_ACTIVE, dw::cp_hqd_active),
        (gc::regCP_HQD_VMID, dw::cp_hqd_vmid),
        (gc::regCP_HQD_PQ_BASE, dw::cp_hqd_pq_base_lo),
        (
            gc::regCP_HQD_PQ_DOORBELL_CONTROL,
            dw::cp_hqd_pq_doorbell_control,
        ),
        (gc::regCP_HQD_PQ_CONTROL, dw::cp_hqd_pq_control),
        (gc::regCP_HQD_DEQUEUE_REQUEST, dw::cp_hqd_dequeue_request),
        (gc::regCP_MQD_CONTROL, dw::cp_mqd_control),
        (gc::regCP_HQD_EOP_BASE_ADDR, dw::cp_hqd_eop_base_addr_lo),
        (
            gc::regCP_HQD_CTX_SAVE_BASE_ADDR_LO,
            dw::cp_hqd_ctx_save_base_addr_lo,
        ),
        (gc::regCP_HQD_AQL_CONTROL, dw::cp_hqd_aql_control),
        (gc::regCP_HQD_PQ_WPTR_LO, dw::cp_hqd_pq_wptr_lo),
        (gc::regCP_HQD_PQ_WPTR_HI, dw::cp_hqd_pq_wptr_hi),
    ] {
        let n = reg.off - gc::regCP_MQD_BASE_ADDR.off;
        assert_eq!(HQD_FIRST + n as usize, dw, "{}", reg.name);
    }
}

#[test]
fn hqd_registers_follow_the_image_of_gfx12() {
    use gpu_regs::gc_12_0_0 as gc;
    use rkfd_abi::mqd::v12::{dw, HQD_FIRST};
    for (reg, dw) in [
        (gc::regCP_HQD_ACTIVE, dw::cp_hqd_active),
        (gc::regCP_HQD_VMID, dw::cp_hqd_vmid),
        (gc::regCP_HQD_PQ_BASE, dw::cp_hqd_pq_base_lo),
        (gc::regCP_HQD_PQ_CONTROL, dw::cp_hqd_pq_control),
        (gc::regCP_HQD_DEQUEUE_REQUEST, dw::cp_hqd_dequeue_request),
        (gc::regCP_MQD_CONTROL, dw::cp_mqd_control),
        (gc::regCP_HQD_EOP_BASE_ADDR, dw::cp_hqd_eop_base_addr_lo),
        (gc::regCP_HQD_PQ_WPTR_LO, dw::cp_hqd_pq_wptr_lo),
        (gc::regCP_HQD_PQ_WPTR_HI, dw::cp_hqd_pq_wptr_hi),
    ] {
        let n = reg.off - gc::regCP_MQD_BASE_ADDR.off;
        assert_eq!(HQD_FIRST + n as usize, dw, "{}", reg.name);
    }
}

#[test]
fn arrays_have_the_strides_that_drivers_count_on() {
    use gpu_regs::gc_9_4_3::*;
    assert_eq!(regVM_CONTEXT1_CNTL.at(14).off, regVM_CONTEXT15_CNTL.off);
    assert_eq!(
        regVM_CONTEXT1_PAGE_TABLE_BASE_ADDR_LO32.at(28).off,
        regVM_CONTEXT15_PAGE_TABLE_BASE_ADDR_LO32.off
    );
    assert_eq!(
        regVM_INVALIDATE_ENG0_REQ.at(17).off,
        regVM_INVALIDATE_ENG17_REQ.off
    );
    assert_eq!(
        regVM_INVALIDATE_ENG0_ADDR_RANGE_LO32.at(34).off,
        regVM_INVALIDATE_ENG17_ADDR_RANGE_LO32.off
    );
}

#[test]
fn sdma_queues_are_evenly_spaced() {
    use gpu_regs::{gc_12_0_0 as gc, sdma_4_4_2 as regs};
    use rkfd_abi::sdma::{v7, RLC_QUEUES, RLC_REG_STRIDE};
    let last = RLC_REG_STRIDE * (RLC_QUEUES as u32 - 1);
    let first = regs::regSDMA_RLC0_RB_CNTL.off;
    assert_eq!(regs::regSDMA_RLC7_RB_CNTL.off, first + last);
    let last = v7::QUEUE_REG_STRIDE * (v7::QUEUES as u32 - 1);
    let first = gc::regSDMA0_QUEUE0_RB_CNTL.off;
    assert_eq!(gc::regSDMA0_QUEUE7_RB_CNTL.off, first + last);
    assert_eq!(
        gc::regSDMA1_QUEUE7_RB_CNTL.off,
        first + last + v7::ENGINE_REG_STRIDE
    );
    assert!(v7::HYP_REGS.contains(&gc::regSDMA0_MCU_CNTL.off));
}

#[test]
fn addresses_before_discovery_are_those_of_the_registers() {
    use gpu_regs::{mp_13_0_6 as mp, nbio_7_9_0 as nbio};
    use rkfd_abi::mmio::*;
    /// Segments 0 to 2 of the NBIF instance and segment 0 of MP0, the same on every gfx9 card.
    const NBIF: [u32; 3] = [0x0, 0x14, 0xd20];
    const MP0: [u32; 1] = [0x16000];
    for (address, reg) in [
        (PCIE_INDEX2, nbio::regBIF_BX0_PCIE_INDEX2),
        (PCIE_DATA2, nbio::regBIF_BX0_PCIE_DATA2),
        (PCIE_INDEX2_HI, nbio::regBIF_BX0_PCIE_INDEX2_HI),
        (MM_INDEX, nbio::regBIF_BX_PF0_MM_INDEX),
        (MM_DATA, nbio::regBIF_BX_PF0_MM_DATA),
        (MM_INDEX_HI, nbio::regBIF_BX_PF0_MM_INDEX_HI),
        (DRIVER_SCRATCH[0], nbio::regBIF_BX0_DRIVER_SCRATCH_0),
        (DRIVER_SCRATCH[2], nbio::regBIF_BX0_DRIVER_SCRATCH_2),
        (
            RCC_CONFIG_MEMSIZE,
            nbio::regRCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE,
        ),
        (
            RCC_IOV_FUNC_IDENTIFIER,
            nbio::regRCC_DEV0_EPF0_RCC_IOV_FUNC_IDENTIFIER,
        ),
    ] {
        assert_eq!(reg.dword(&NBIF), Some(address), "{}", reg.name);
    }
    assert_eq!(mp::regMP0_SMN_C2PMSG_33.dword(&MP0), Some(MP0_C2PMSG_33));
}

/// The constants in a module of the driver's: name and the two numbers of each register and field.
fn constants(text: &str) -> Vec<(String, u32, u32)> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let numbers = |args: &str| {
        let numbers = args
            .split(',')
            .map(str::trim)
            .filter_map(|n| match n.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => n.parse().ok(),
            });
        numbers.collect::<Vec<u32>>()
    };
    text.split("pub const ")
        .skip(1)
        .map(|item| {
            let (name, rest) = item.split_once(':').expect("a type");
            let args = rest.split_once("::new(").expect("a value").1;
            let numbers = numbers(args.split_once(')').expect("an end").0);
            assert_eq!(numbers.len(), 2, "{name}");
            (name.to_string(), numbers[0], numbers[1])
        })
        .collect()
}

macro_rules! same_as_the_model {
    ($($name:ident)*) => {
        [$((
            include_str!(concat!("../../../../rust/abi/regs/", stringify!($name), ".rs")),
            gpu_regs::$name::ALL,
            gpu_regs::$name::FIELDS,
        )),*]
    };
}

/// The driver's registers equal those of the model, which the tests above compare with the headers.
#[test]
fn driver_and_model_have_the_same_registers() {
    let modules = same_as_the_model! {
        gc_9_4_3 mmhub_1_8_0 nbio_7_9_0 osssys_4_4_2 mp_13_0_6 sdma_4_4_2 smuio_13_0_3
        gc_12_0_0 mmhub_4_1_0 nbif_6_3_1 osssys_7_0_0 mp_14_0_2 smuio_14_0_2 df_4_15
    };
    let mut compared = 0;
    for (text, all, fields) in modules {
        for (name, first, second) in constants(text) {
            let model = if name.starts_with("reg") {
                let info = all.iter().find(|info| info.reg.name == name);
                info.map(|info| (u32::from(info.reg.seg), info.reg.off))
            } else {
                let field = fields.iter().find(|(other, _)| *other == name);
                field.map(|(_, field)| (u32::from(field.shift), field.mask))
            };
            assert_eq!(model, Some((first, second)), "{name}");
            compared += 1;
        }
    }
    assert!(compared > 900, "only {compared} constants were compared");
}
