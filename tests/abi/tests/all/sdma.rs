// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SDMA packets and the SMU mailbox.

use std::collections::BTreeSet;

use rkfd_abi::bits::DwField;
use rkfd_abi::sdma::*;
use rkfd_abi::smu;
use rkfd_abi_oracle::csource::{block, defines, macros};
use rkfd_abi_oracle::{amd_text, fact, place, same, Fact, Program};

const PACKETS_H: &str = "amdgpu/vega10_sdma_pkt_open.h";
const ENGINE_C: &str = "amdgpu/sdma_v4_4_2.c";
/// Header included by the SDMA 7 driver.
const V7_PACKETS_H: &str = "amdgpu/sdma_v6_0_0_pkt_open.h";
const V7_ENGINE_C: &str = "amdgpu/sdma_v7_0.c";

/// Packet names in the headers that start with the name of one of ours but are other packets.
const OTHERS: &[&str] = &[
    "ATOMIC_ADD",
    "COPY_LINEAR_BC",
    "COPY_LINEAR_SUBWIN_BC",
    "COPY_LINEAR_SUBWIN_LARGE",
    "FENCE_CONDITIONAL",
];

#[test]
fn opcodes() {
    compare_opcodes(PACKETS_H, op::ALL, sub_op::ALL);
}

#[test]
fn v7_opcodes() {
    compare_opcodes(V7_PACKETS_H, v7::op::ALL, v7::sub_op::ALL);
}

fn compare_opcodes(header: &str, ops: &[(&str, u8)], sub_ops: &[(&str, u8)]) {
    let mut facts = Vec::new();
    for (name, value) in ops {
        facts.push(same(&format!("SDMA_OP_{name}"), *value));
    }
    for (name, value) in sub_ops {
        facts.push(same(&format!("SDMA_SUBOP_{name}"), *value));
    }
    let named: BTreeSet<&str> = facts.iter().map(|f| f.name.as_str()).collect();
    for (name, _) in macros(&amd_text(header)) {
        let code = name.starts_with("SDMA_OP_") || name.starts_with("SDMA_SUBOP_");
        let aql = name.contains("_AQL_");
        assert!(!code || aql || named.contains(name.as_str()), "{name}");
    }
    facts.extend([
        fact(
            "op",
            HEADER_OP.mask,
            "(uint32_t)SDMA_PKT_NOP_HEADER_OP(~0u)",
        ),
        fact(
            "sub_op",
            HEADER_SUB_OP.mask,
            "(uint32_t)SDMA_PKT_NOP_HEADER_SUB_OP(~0u)",
        ),
    ]);
    Program::new().include(header).facts(facts).check();
}

#[test]
fn packet_fields() {
    assert!(compare_packets(PACKETS_H, PACKETS) > 90);
}

#[test]
fn v7_packet_fields() {
    assert!(compare_packets(V7_PACKETS_H, v7::PACKETS) > 150);
}

/// Compares the fields of every packet with the header's, in both directions.
fn compare_packets(header: &str, packets: &[Packet]) -> usize {
    let text = amd_text(header);
    let names: Vec<String> = macros(&text).into_iter().map(|m| m.0).collect();
    let mut program = Program::new().include(header);
    let mut compared = 0;
    // The CPV form has the header's fields and one more dword: see [`v7_limits`]. The sub-window
    // copy of gfx12 is not in a header of the kernel.
    let elsewhere = [v7::copy_linear_cpv::PACKET, v7::copy_subwin::PACKET];
    for packet in packets.iter().filter(|p| !elsewhere.contains(p)) {
        let prefix = format!("SDMA_PKT_{}_", packet.name);
        let mut ours: BTreeSet<&str> = packet.fields.iter().map(|f| f.name).collect();
        for name in &names {
            let Some(rest) = name.strip_prefix(&prefix) else {
                continue;
            };
            let Some(rest) = rest.strip_suffix("_offset") else {
                continue;
            };
            // `COUNT_count`: the word in capitals, then the field. For a packet with a longer name,
            // the first word belongs to that packet.
            let at = rest.find(|c: char| c.is_ascii_lowercase()).expect("field");
            let (word, field) = rest.split_at(at);
            if longer_name(packets, packet.name, word) {
                continue;
            }
            if matches!(field, "op" | "sub_op") {
                let shift = if field == "op" { 0 } else { 8 };
                program = program.facts([
                    fact(
                        format!("{name} shift"),
                        shift as u32,
                        format!("{prefix}{rest}_shift"),
                    ),
                    fact(
                        format!("{name} mask"),
                        0xffu32,
                        format!("{prefix}{rest}_mask"),
                    ),
                ]);
                continue;
            }
            let field_name = our_name(word, field);
            if packet.payload.is_some() && field.starts_with("data") {
                continue;
            }
            let found = packet.fields.iter().find(|f| f.name == field_name);
            let found = *found.unwrap_or_else(|| panic!("{} has no {field_name}", packet.name));
            ours.remove(found.name);
            compared += 1;
            let theirs = format!("{prefix}{rest}");
            let expr = format!(
                "(uint64_t){theirs}_offset << 32 | (uint32_t)({theirs}_mask << {theirs}_shift)"
            );
            program = program.facts([fact(
                name.clone(),
                place(as_in_header(header, packet, found)),
                expr,
            )]);
        }
        assert!(
            ours.is_empty(),
            "the header's {} has no {ours:?}",
            packet.name
        );
    }
    program.check();
    compared
}

/// Returns whether `word` shows that the macro belongs to a packet with a longer name.
fn longer_name(packets: &[Packet], packet: &str, word: &str) -> bool {
    let whole = format!("{packet}_{word}");
    let longer =
        |other: &str| other.len() > packet.len() && whole.starts_with(&format!("{other}_"));
    OTHERS.iter().any(|other| longer(other)) || packets.iter().any(|other| longer(other.name))
}

/// Maps `addr_31_0` to ADDR_LO, `addr_63_32` to ADDR_HI; others to capitals.
fn our_name(word: &str, field: &str) -> String {
    for (bits, half) in [("_31_0", "_LO"), ("_31_3", "_LO"), ("_63_32", "_HI")] {
        if let Some(stem) = field.strip_suffix(bits) {
            let alone = stem == "src_data" && word == "DATA_";
            return stem.to_uppercase() + if alone { "" } else { half };
        }
    }
    field.to_uppercase()
}

/// Byte counts have 22 bits in the older header and 30 on 4.4.x: see [`limits`].
fn as_in_header(header: &str, packet: &Packet, field: DwField) -> DwField {
    let bytes = header == PACKETS_H
        && matches!(
            packet.name,
            "COPY_LINEAR" | "COPY_BROADCAST_LINEAR" | "CONSTANT_FILL"
        );
    if bytes && field.name == "COUNT" {
        DwField::new("COUNT", field.dw, 21, 0)
    } else {
        field
    }
}

/// Counts and alignment, matched in the text of `sdma_v4_4_2.c`.
#[test]
fn limits() {
    let text = amd_text(ENGINE_C);
    let funcs = block(&text, "static const struct amdgpu_buffer_funcs ", "};");
    assert_eq!(MAX_BYTES, 1 << 30);
    for line in [
        ".copy_max_bytes = 1 << 30,".to_string(),
        ".fill_max_bytes = 1 << 30,".to_string(),
        format!(".copy_num_dw = {},", copy_linear::DWORDS),
        format!(".fill_num_dw = {},", const_fill::DWORDS),
    ] {
        assert!(funcs.contains(&line), "{line}");
    }
    let emit_ib = block(&text, "static void sdma_v4_4_2_ring_emit_ib(", "}");
    let align = format!("& {:#x})", !(IB_ALIGN as u32 - 1));
    assert!(emit_ib.contains(&align), "{align}");
    let mask = INDIRECT_END_ALIGN_DW - 1;
    assert_eq!(INDIRECT_END_ALIGN_DW, 8);
    assert!(emit_ib.contains(&format!("& {mask}")), "& {mask}");
    let wait = block(&text, "static void sdma_v4_4_2_wait_reg_mem(", "}");
    let func = poll_regmem::FUNC_EQUAL;
    assert!(wait.contains(&format!("HEADER_FUNC({func})); /* == */")));
    let retry = poll_regmem::RETRY_FOR_EVER;
    assert!(wait.contains(&format!("RETRY_COUNT({retry:#x})")));
    let kfd = amd_text("amdkfd/kfd_device.c");
    assert!(kfd.contains(&format!("num_sdma_queues_per_engine = {RLC_QUEUES};")));
}

/// Counts and alignment, matched in the text of `sdma_v7_0.c`.
#[test]
fn v7_limits() {
    let text = amd_text(V7_ENGINE_C);
    assert!(text.contains("#include \"sdma_v6_0_0_pkt_open.h\""));
    let funcs = block(&text, "static const struct amdgpu_buffer_funcs ", "};");
    for line in [
        ".copy_max_bytes = 1 << 30,".to_string(),
        ".fill_max_bytes = 1 << 30,".to_string(),
        format!(".copy_num_dw = {},", v7::copy_linear_cpv::DWORDS),
        format!(".fill_num_dw = {},", v7::const_fill::DWORDS),
    ] {
        assert!(funcs.contains(&line), "{line}");
    }
    let emit_ib = block(&text, "static void sdma_v7_0_ring_emit_ib(", "}");
    let align = format!("& {:#x})", !(IB_ALIGN as u32 - 1));
    assert!(emit_ib.contains(&align), "{align}");
    let mask = INDIRECT_END_ALIGN_DW - 1;
    assert!(emit_ib.contains(&format!("& {mask}")), "& {mask}");
    let fence = block(&text, "static void sdma_v7_0_ring_emit_fence(", "}");
    let uncached = format!("HEADER_MTYPE({:#x})", v7::fence::MTYPE_UC);
    assert!(fence.contains(&uncached), "{uncached}");
    let write = block(&text, "static void sdma_v7_0_ring_emit_wreg(", "}");
    assert!(
        write.contains("reg << 2"),
        "register address is not in bytes"
    );
    let trap = block(&text, "static int sdma_v7_0_process_trap_irq(", "}");
    for (name, field) in [
        ("queue", v7::RING_ID_QUEUE),
        ("instances", v7::RING_ID_ENGINE),
    ] {
        let line = format!("{name} = ");
        assert!(
            trap.contains(&line) && trap.contains(&format!("{:#x}", field.mask)),
            "{name}"
        );
    }
    let kfd = amd_text("amdkfd/kfd_device.c");
    assert!(kfd.contains(&format!("num_sdma_queues_per_engine = {};", v7::QUEUES)));
    let compress = v7::const_fill::COMPRESS;
    let mut facts = vec![
        same("SDMA1_REG_OFFSET", v7::ENGINE_REG_STRIDE),
        same("SDMA0_HYP_DEC_REG_START", *v7::HYP_REGS.start()),
        same("SDMA0_HYP_DEC_REG_END", *v7::HYP_REGS.end()),
        same("SDMA1_HYP_DEC_REG_OFFSET", v7::HYP_REG_STRIDE),
        same("SDMA7_CSA_SIZE", v7::CSA_SIZE),
        fact(
            "compress",
            compress.mask,
            "SDMA_PKT_CONSTANT_FILL_HEADER_compress_mask << SDMA_PKT_CONSTANT_FILL_HEADER_compress_shift",
        ),
    ];
    for (name, field) in v7::gcr::ALL {
        let value = match field.width() {
            1 => format!("SDMA_GCR_{name}"),
            _ => format!("SDMA_GCR_{name}(~0u)"),
        };
        facts.push(fact(*name, field.mask, format!("(uint32_t){value}")));
    }
    use v7::copy_linear_cpv as c;
    let common = v7::copy_linear::FIELDS;
    assert_eq!(&c::FIELDS[..common.len()], common);
    for (name, field) in [
        ("DATA_FORMAT", c::DCC_DATA_FORMAT),
        ("NUM_TYPE", c::DCC_NUM_TYPE),
        ("READ_CM", c::DCC_READ_CM),
        ("WRITE_CM", c::DCC_WRITE_CM),
        ("MAX_COM", c::DCC_MAX_COM),
        ("MAX_UCOM", c::DCC_MAX_UCOM),
    ] {
        assert_eq!(field.dw, c::DWORDS - 1);
        let value = format!("(uint32_t)SDMA_DCC_{name}(~0u)");
        facts.push(fact(name, field.field.mask, value));
    }
    Program::new()
        .include(V7_PACKETS_H)
        .text(&defines(&text, |n| {
            n.starts_with("SDMA1_")
                || n.starts_with("SDMA0_")
                || n.starts_with("SDMA7_")
                || n.contains("_compress_")
        }))
        .facts(facts)
        .check();
}

/// gfx12 has the same operations under other names.
#[test]
fn v7_atomic_operations() {
    let facts: Vec<_> = atomic_op::ALL
        .iter()
        .flat_map(|(name, number)| {
            [
                (format!("GL2_OP_ATOMIC_{name}_RTN_32"), *number),
                (
                    format!("GL2_OP_ATOMIC_{name}_64"),
                    number | atomic_op::QUADWORD | atomic_op::NO_RETURN,
                ),
            ]
        })
        .map(|(name, value)| same(&name, value))
        .collect();
    let text = amd_text("include/soc24_enum.h");
    let at = text.find("typedef enum GL2_OP {").expect("enum GL2_OP");
    let end = text[at..].find('}').expect("end of the enum");
    Program::new()
        .text(&format!("{} GL2_OP;", &text[at..=at + end]))
        .facts(facts)
        .check();
}

#[test]
fn atomic_operations() {
    let mut facts = Vec::new();
    for (name, number) in atomic_op::ALL {
        assert_eq!(number & !atomic_op::NUMBER_MASK, 0);
        for (suffix, flags) in [
            ("RTN_32", 0),
            ("RTN_64", atomic_op::QUADWORD),
            ("32", atomic_op::NO_RETURN),
            ("64", atomic_op::QUADWORD | atomic_op::NO_RETURN),
        ] {
            facts.push(same(
                &format!("TC_OP_ATOMIC_{name}_{suffix}"),
                number | flags,
            ));
        }
    }
    let text = amd_text("include/vega10_enum.h");
    let at = text.find("typedef enum TC_OP {").expect("enum TC_OP");
    let end = text[at..].find('}').expect("end of the enum");
    Program::new()
        .text(&format!("{} TC_OP;", &text[at..=at + end]))
        .facts(facts)
        .check();
}

/// Returns the facts of an I2C transaction.
fn i2c_facts() -> [Fact; 11] {
    use smu::i2c;
    let place = |name: &str| format!("offsetof(SwI2cRequest_t, {name})");
    [
        fact("I2C", i2c::SIZE, "sizeof(SwI2cRequest_t)"),
        fact("I2C port", i2c::PORT, place("I2CcontrollerPort")),
        fact("I2C speed", i2c::SPEED, place("I2CSpeed")),
        fact("I2C address", i2c::ADDRESS, place("SlaveAddress")),
        fact("I2C count", i2c::COUNT, place("NumCmds")),
        fact("I2C commands", i2c::COMMANDS, place("SwI2cCmds")),
        same("MAX_SW_I2C_COMMANDS", i2c::COMMANDS_MAX),
        same("I2C_SPEED_FAST_400K", i2c::FAST_400K),
        same("CMDCONFIG_STOP_MASK", i2c::STOP),
        same("CMDCONFIG_RESTART_MASK", i2c::RESTART),
        same("CMDCONFIG_READWRITE_MASK", i2c::WRITE),
    ]
}

#[test]
fn mailbox() {
    let text = amd_text("pm/swsmu/smu13/smu_v13_0.c");
    let mut facts = Vec::new();
    for (name, message) in smu::msg::ALL {
        facts.push(same(&format!("PPSMC_MSG_{name}"), *message));
    }
    for (name, response) in smu::response::ALL {
        facts.push(same(&format!("PPSMC_Result_{name}"), *response));
    }
    for (name, clock) in smu::clock::ALL {
        facts.push(same(&format!("PPCLK_{name}"), *clock));
    }
    for (name, mode) in smu::plpd::ALL {
        facts.push(same(&format!("PPSMC_PLPD_MODE_{name}"), *mode));
    }
    facts.push(same(
        "FEATURE_XGMI_PER_LINK_PWR_DOWN",
        smu::feature::XGMI_PER_LINK_PWR_DOWN,
    ));
    for (name, offset) in smu::metrics::ALL {
        let expr = format!("offsetof(MetricsTableV0_t, {name})");
        facts.push(fact(*name, *offset, expr));
    }
    facts.push(fact("size", smu::metrics::SIZE, "sizeof(MetricsTableV0_t)"));
    facts.push(fact(
        "version",
        smu::metrics::VERSION,
        "SMU_METRICS_TABLE_VERSION",
    ));
    facts.push(fact("features", smu::FEATURES, "NUM_FEATURES"));
    facts.extend(i2c_facts());
    for (use_of, register) in [
        ("msg_reg", gpu_regs::smu::MESSAGE),
        ("arg_regs[0]", gpu_regs::smu::ARGUMENT),
        ("resp_reg", gpu_regs::smu::RESPONSE),
    ] {
        let name = register.name.replacen("reg", "mm", 1);
        let line = format!("{use_of} = SOC15_REG_OFFSET(MP1, 0, {name});");
        assert!(text.contains(&line), "{line}");
        facts.push(same(&name, register.off));
        facts.push(same(&format!("{name}_BASE_IDX"), register.seg));
    }
    Program::new()
        .include("pm/swsmu/inc/pmfw_if/smu_v13_0_6_ppsmc.h")
        .include("pm/swsmu/inc/pmfw_if/smu_v13_0_6_pmfw.h")
        .include("pm/swsmu/inc/pmfw_if/smu13_driver_if_v13_0_6.h")
        .text(&defines(&text, |n| n.starts_with("mmMP1_SMN_C2PMSG_")))
        .facts(facts)
        .check();
}

#[test]
fn mailbox_14() {
    use smu::v14::{clock, metrics, msg, pptable, table};
    const TABLE: &str = "struct smu_14_0_2_powerplay_table";
    let driver = amd_text("pm/swsmu/smu14/smu_v14_0_2_ppt.c");
    let mut facts = Vec::new();
    for (name, message) in msg::ALL {
        facts.push(same(&format!("PPSMC_MSG_{name}"), *message));
    }
    for (name, response) in smu::response::ALL {
        facts.push(same(&format!("PPSMC_Result_{name}"), *response));
    }
    for (name, clock) in clock::ALL {
        facts.push(same(&format!("PPCLK_{name}"), *clock));
    }
    for (name, table) in table::ALL {
        facts.push(same(&format!("TABLE_{name}"), *table));
    }
    for (name, offset) in metrics::ALL {
        let expr = format!("offsetof(SmuMetricsExternal_t, SmuMetrics.{name})");
        facts.push(fact(*name, *offset, expr));
    }
    for (name, offset) in pptable::ALL {
        let expr = format!("offsetof({TABLE}, {name})");
        facts.push(fact(*name, *offset, expr));
    }
    for (name, size, of) in [
        ("metrics", metrics::SIZE, "SmuMetricsExternal_t"),
        ("pptable", pptable::SIZE, TABLE),
        ("pmfw pptable", pptable::PMFW_SIZE, "PPTable_t"),
        (
            "workload",
            smu::v14::WORKLOAD_SIZE,
            "DpmActivityMonitorCoeffIntExternal_t",
        ),
        (
            "overdrive",
            smu::v14::OVERDRIVE_SIZE,
            "OverDriveTableExternal_t",
        ),
    ] {
        facts.push(fact(name, size, format!("sizeof({of})")));
    }
    facts.extend([
        same("PPCLK_COUNT", clock::COUNT),
        same("WORKLOAD_PPLIB_COUNT", smu::v14::WORKLOADS),
        fact(
            "features",
            smu::v14::FEATURES,
            "FEATURE_CLOCK_STRETCH_COMPENSATOR + 1",
        ),
        same("SMU_14_0_2_TABLE_FORMAT_REVISION", pptable::REVISION),
        same(
            "SMU14_DRIVER_IF_VERSION_SMU_V14_0_2",
            smu::v14::DRIVER_IF_VERSION,
        ),
        same("DEBUGSMC_MSG_Mode1Reset", smu::v14::DEBUG_MODE_1_RESET),
        fact(
            "flags",
            smu::v14::FLAGS_SMN,
            "MP1_Public | smnMP1_FIRMWARE_FLAGS",
        ),
    ]);
    for (use_of, number) in [
        ("msg_reg", 66),
        ("arg_regs[0]", 82),
        ("resp_reg", 90),
        ("debug_param_reg", 53),
        ("debug_msg_reg", 75),
        ("debug_resp_reg", 54),
    ] {
        let line = format!("{use_of} = SOC15_REG_OFFSET(MP1, 0, regMP1_SMN_C2PMSG_{number});");
        assert!(driver.contains(&line), "{line}");
    }
    let header = amd_text("pm/swsmu/inc/smu_v14_0.h");
    Program::new()
        .include("pm/swsmu/inc/pmfw_if/smu_v14_0_2_ppsmc.h")
        .include("pm/swsmu/inc/pmfw_if/smu14_driver_if_v14_0.h")
        .text("struct atom_common_table_header { uint16_t structuresize; uint8_t format_revision, content_revision; };")
        .include("pm/swsmu/inc/smu_v14_0_2_pptable.h")
        .text(&defines(&driver, |n| {
            n.starts_with("SMU14_DRIVER_IF_VERSION") || n == "DEBUGSMC_MSG_Mode1Reset"
        }))
        .text(&defines(&header, |n| {
            n == "MP1_Public" || n == "smnMP1_FIRMWARE_FLAGS"
        }))
        .facts(facts)
        .check();
}
