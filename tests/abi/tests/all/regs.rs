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
    smuio_14_0_2 in "smuio", at least 4;
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
