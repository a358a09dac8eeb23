// SPDX-License-Identifier: GPL-2.0 OR MIT

//! PM4: headers, opcodes, packet fields and field values.

use std::collections::BTreeSet;

use rkfd_abi::bits::DwField;
use rkfd_abi::pm4::{self, *};
use rkfd_abi_oracle::csource::{enumerators, macros, members};
use rkfd_abi_oracle::{amd_text, fact, place, same, Fact, Program};

const AI: &str = "amdkfd/kfd_pm4_headers_ai.h";
const ALDEBARAN: &str = "amdkfd/kfd_pm4_headers_aldebaran.h";
const SOC15D: &str = "amdgpu/soc15d.h";
const NVD: &str = "amdgpu/nvd.h";

#[test]
fn opcodes() {
    let soc15d: BTreeSet<String> = macros(&amd_text(SOC15D)).into_iter().map(|m| m.0).collect();
    let kfd = enumerators(&amd_text("amdkfd/kfd_pm4_opcodes.h"));
    let mut facts = Vec::new();
    for (name, value) in op::ALL {
        let (packet3, it) = (format!("PACKET3_{name}"), format!("IT_{name}"));
        let mut known = false;
        if soc15d.contains(&packet3) {
            facts.push(same(&packet3, *value));
            known = true;
        }
        if kfd.contains(&it) {
            facts.push(same(&it, *value));
            known = true;
        }
        assert!(known, "AMD's headers have no opcode {name}");
    }
    Program::new()
        .include(SOC15D)
        .include("amdkfd/kfd_pm4_opcodes.h")
        .facts(facts)
        .check();
}

#[test]
fn packet_header() {
    let mut facts = vec![
        same("PACKET_TYPE3", TYPE3),
        same("PACKET_TYPE2", TYPE2),
        same("PACKET_TYPE0", TYPE0),
        fact("filler", FILLER, "(uint32_t)CP_PACKET2"),
        fact("type", HEADER_TYPE.get(u32::MAX), "CP_PACKET_GET_TYPE(~0u)"),
        fact(
            "count",
            HEADER_COUNT.get(u32::MAX),
            "CP_PACKET_GET_COUNT(~0u)",
        ),
        fact(
            "opcode",
            HEADER_OPCODE.get(u32::MAX),
            "CP_PACKET3_GET_OPCODE(~0u)",
        ),
        fact("nop", NOP_SINGLE, "(uint32_t)PACKET3(PACKET3_NOP, 0x3fff)"),
        fact(
            "compute",
            HEADER_SHADER_TYPE.mask,
            "(uint32_t)(PACKET3_COMPUTE(0x10, 0) ^ PACKET3(0x10, 0))",
        ),
    ];
    for opcode in [0x10u8, 0xa5, 0xff] {
        for body in [1u32, 2, 20, 0x3ffe] {
            facts.push(fact(
                format!("header {opcode:#x} {body}"),
                header(opcode, body),
                format!("(uint32_t)PACKET3({opcode}, {body} - 1)"),
            ));
        }
    }
    Program::new().include(SOC15D).facts(facts).check();
}

/// Compares every member of a bit-field struct with the fields of the packet, in both directions.
///
/// `names` maps a member to the name of its field unless that is the name in capitals ("": not a
/// field here). `elsewhere` are fields that this struct does not have.
fn check_struct(
    header: &str,
    c_struct: &str,
    packet: &Packet,
    names: &[(&str, &str)],
    elsewhere: &[&str],
) {
    let mut program = Program::new().include(AI).include(ALDEBARAN).facts([fact(
        "dwords",
        packet.dwords,
        format!("sizeof(struct {c_struct}) / 4"),
    )]);
    let mut compared = BTreeSet::new();
    for member in members(&amd_text(header), c_struct) {
        let name = member.name.as_str();
        if name.starts_with("reserved")
            || name.starts_with("ordinal")
            || name == "header"
            || name == "u32All"
        {
            continue;
        }
        for element in 0..member.len.max(1) {
            let (path, upper) = if member.len == 0 {
                (member.path.clone(), name.to_uppercase())
            } else {
                let upper = format!("{}{element}", name.to_uppercase());
                (format!("{}[{element}]", member.path), upper)
            };
            let upper = match names.iter().find(|(member, _)| *member == name) {
                Some((_, "")) => continue,
                Some((_, renamed)) => renamed.to_string(),
                None => upper,
            };
            let field = field(packet, &upper);
            compared.insert(upper);
            program = program.block(
                &path.clone(),
                place(field),
                &format!(
                    "struct {c_struct} s; uint32_t *d = (uint32_t *)&s; memset(&s, 0, sizeof s); \
                     s.{path} = ~0; for (size_t n = 0; n < sizeof s / 4; n++) if (d[n]) v = (uint64_t)n << 32 | d[n]"
                ),
            );
        }
    }
    for field in packet.fields {
        assert!(
            compared.contains(field.name) || elsewhere.contains(&field.name),
            "{c_struct} has no {}",
            field.name
        );
    }
    program.check();
}

fn field(packet: &Packet, name: &str) -> DwField {
    let found = packet.fields.iter().find(|f| f.name == name);
    *found.unwrap_or_else(|| panic!("{} has no field {name}", packet.name))
}

#[test]
fn set_resources_fields() {
    check_struct(
        AI,
        "pm4_mes_set_resources",
        &set_resources::PACKET,
        &[],
        &[],
    );
}

#[test]
fn run_list_fields() {
    check_struct(AI, "pm4_mes_runlist", &run_list::PACKET, &[], &[]);
}

#[test]
fn map_process_fields() {
    check_struct(
        ALDEBARAN,
        "pm4_mes_map_process_aldebaran",
        &map_process::PACKET,
        &[],
        &[],
    );
    check_struct(AI, "pm4_mes_map_process", &map_process_v9::PACKET, &[], &[]);
}

#[test]
fn map_queues_fields() {
    let kiq = ["VMID", "QUEUE", "PIPE", "ME", "ALLOC_FORMAT"];
    check_struct(AI, "pm4_mes_map_queues", &map_queues::PACKET, &[], &kiq);
}

#[test]
fn unmap_queues_fields() {
    let kiq = ["FENCE_ADDR_LO", "FENCE_ADDR_HI", "FENCE_SEQ"];
    check_struct(AI, "pm4_mes_unmap_queues", &unmap_queues::PACKET, &[], &kiq);
}

#[test]
fn query_status_fields() {
    check_struct(AI, "pm4_mes_query_status", &query_status::PACKET, &[], &[]);
}

#[test]
fn release_mem_fields() {
    // Aliases of a dword that is compared under its first name.
    let names = [
        ("cmp_data_lo", ""),
        ("cmp_data_hi", ""),
        ("dw_offset", ""),
        ("num_dwords", ""),
    ];
    check_struct(
        AI,
        "pm4_mec_release_mem",
        &release_mem::PACKET,
        &names,
        &["EXECUTE"],
    );
}

#[test]
fn write_data_fields() {
    let elsewhere = [
        "ENGINE_SEL",
        "DST_GDS_ADDR",
        "DST_MEM_ADDR_LO",
        "DST_MEM_ADDR_HI",
    ];
    let names = [("data", "")];
    check_struct(
        AI,
        "pm4_mec_write_data_mmio",
        &write_data::PACKET,
        &names,
        &elsewhere,
    );
}

/// `PACKET3_X__FIELD(x)`: all such macros of soc15d.h for the packets of rkfd_abi.
#[test]
fn field_macros() {
    // Different name, or (empty) not of this generation.
    let special = [
        ("WRITE_DATA__RESUME_VF_MI300", "RESUME_VF"),
        ("ACQUIRE_MEM__COHER_SIZE_HI", ""),
        ("ACQUIRE_MEM__COHER_SIZE_HI_VG10", "COHER_SIZE_HI"),
        ("ACQUIRE_MEM__GCR_CNTL", ""),
        ("EVENT_WRITE__ADDRESS_LO", ""),
        ("EVENT_WRITE__ADDRESS_HI", ""),
    ];
    let mut facts = Vec::new();
    for (name, takes_value) in macros(&amd_text(SOC15D)) {
        let Some(rest) = name.strip_prefix("PACKET3_") else {
            continue;
        };
        let Some((packet_name, field_name)) = rest.split_once("__") else {
            continue;
        };
        if !takes_value || field_name.contains("__") {
            continue;
        }
        let packet = PACKETS.iter().find(|p| p.name == packet_name);
        let packet = packet.unwrap_or_else(|| panic!("no packet {packet_name}"));
        let field_name = match special.iter().find(|(special, _)| *special == rest) {
            Some((_, "")) => continue,
            Some((_, name)) => name,
            None => field_name,
        };
        let mask = field(packet, field_name).field.mask;
        facts.push(fact(name.clone(), mask, format!("(uint32_t){name}(~0u)")));
    }
    for (name, field) in [
        ("ADDRESS_LO", event_write_mem::ADDRESS_LO),
        ("ADDRESS_HI", event_write_mem::ADDRESS_HI),
        ("EVENT_TYPE ", event_write_mem::EVENT_TYPE),
        ("EVENT_INDEX ", event_write_mem::EVENT_INDEX),
        ("OFFLOAD_ENABLE ", event_write_mem::OFFLOAD_ENABLE),
        ("SAMP_PLST_CNTR_MODE ", event_write_mem::SAMP_PLST_CNTR_MODE),
    ] {
        let expr = format!("(uint32_t)PACKET3_EVENT_WRITE__{}(~0u)", name.trim());
        facts.push(fact(format!("with memory: {name}"), field.field.mask, expr));
    }
    assert!(facts.len() > 70, "only {}", facts.len());
    Program::new().include(SOC15D).facts(facts).check();
}

/// Packets of gfx12; all others have the gfx9 layout.
#[test]
fn gfx12() {
    use pm4::gfx12::{self, acquire_mem as am, release_mem as rm};
    // Different name, another generation sharing the header, or described by parts.
    let not_here = [
        // The header has 8 bits of the 24 that the driver sets.
        "ACQUIRE_MEM__COHER_SIZE_HI",
        "ACQUIRE_MEM__GCR_CNTL",
        "COPY_DATA__AID_ID",
        "COPY_DATA__MODE",
        "COPY_DATA__DST_REG_OFFSET_HI",
        "COPY_DATA__DST_REG_OFFSET_LO",
        "COPY_DATA__SRC_REG_OFFSET_HI",
        "COPY_DATA__SRC_REG_OFFSET_LO",
        "EVENT_WRITE__ADDRESS_HI",
        "EVENT_WRITE__ADDRESS_LO",
        // Bit 0 in this header, bit 31 in all others.
        "EVENT_WRITE__OFFLOAD_ENABLE",
        "WRITE_DATA__AID_ID",
        "WRITE_DATA__DST_MMREG_ADDR_HI",
        "WRITE_DATA__DST_MMREG_ADDR_LO",
        "WRITE_DATA__MODE",
        "WRITE_DATA__TEMPORAL",
    ];
    let mut facts = Vec::new();
    for (name, takes_value) in macros(&amd_text(NVD)) {
        let Some((packet_name, field_name)) = name
            .strip_prefix("PACKET3_")
            .and_then(|rest| rest.split_once("__"))
        else {
            continue;
        };
        let short = format!("{packet_name}__{field_name}");
        if !takes_value || field_name.contains("__") || not_here.contains(&short.as_str()) {
            continue;
        }
        let mut packets = gfx12::PACKETS.iter().chain(PACKETS);
        let packet = packets.find(|p| p.name == packet_name);
        let packet = packet.unwrap_or_else(|| panic!("no packet {packet_name}"));
        let field_name = field_name.replace("TEMPORAL", "CACHE_POLICY");
        let mask = field(packet, &field_name).field.mask;
        facts.push(fact(name.clone(), mask, format!("(uint32_t){name}(~0u)")));
    }
    assert!(facts.len() > 50, "only {}", facts.len());
    let set = format!(
        "{:#x});  /* CP_COHER_SIZE_HI */",
        am::COHER_SIZE_HI.field.mask
    );
    assert!(amd_text("amdgpu/gfx_v12_0.c").contains(&set), "{set}");
    let low = |f: DwField| 1u32 << f.field.shift;
    for field in am::FIELDS.iter().filter(|f| f.dw == 7) {
        let expr = match field.name {
            "GCR_RANGE_IS_PA" => "PACKET3_ACQUIRE_MEM_GCR_RANGE_IS_PA".into(),
            name => format!("(uint32_t)PACKET3_ACQUIRE_MEM_{name}(1u)"),
        };
        facts.push(fact(field.name, low(*field), expr));
    }
    let union = am::FIELDS.iter().filter(|f| f.dw == 7);
    assert_eq!(
        union.fold(0, |all, f| all | f.field.mask),
        am::GCR_CNTL_MASK
    );
    facts.push(fact(
        "GCR_CNTL",
        am::GCR_CNTL_MASK,
        "(uint32_t)PACKET3_ACQUIRE_MEM__GCR_CNTL(~0u)",
    ));
    for field in rm::FIELDS.iter().filter(|f| f.name.starts_with("GCR_")) {
        let expr = format!("(uint32_t)PACKET3_RELEASE_MEM_{}", field.name);
        facts.push(fact(
            format!("RELEASE_MEM {}", field.name),
            low(*field),
            expr,
        ));
    }
    for (name, field) in [
        ("EVENT_TYPE", rm::EVENT_TYPE),
        ("EVENT_INDEX", rm::EVENT_INDEX),
        ("CACHE_POLICY", rm::CACHE_POLICY),
        ("DATA_SEL", rm::DATA_SEL),
        ("INT_SEL", rm::INT_SEL),
        ("DST_SEL", rm::DST_SEL),
    ] {
        let expr = format!("(uint32_t)PACKET3_RELEASE_MEM_{name}(1u)");
        facts.push(fact(format!("RELEASE_MEM {name}"), low(field), expr));
    }
    facts.push(fact(
        "RELEASE_MEM EXECUTE",
        rm::EXECUTE.field.mask,
        "PACKET3_RELEASE_MEM_EXECUTE",
    ));
    facts.push(same(
        "PACKET3_COPY_DATA__SRC_SEL__SYSTEM_CLOCK_COUNT",
        gfx12::COPY_DATA_SRC_SEL_SYSTEM_CLOCK_COUNT,
    ));
    // Values of a packet with the gfx9 layout.
    for (name, value) in [
        (
            "PACKET3_WRITE_DATA__DST_SEL__MEMORY",
            write_data::DST_SEL_MEMORY,
        ),
        (
            "PACKET3_COPY_DATA__SRC_SEL__TC_L2",
            copy_data::SRC_SEL_TC_L2,
        ),
        ("PACKET3_SET_SH_REG_START", set_sh_reg::START),
        ("PACKET3_SET_UCONFIG_REG_START", set_uconfig_reg::START),
    ] {
        facts.push(same(name, value));
    }
    Program::new().include(NVD).facts(facts).check();
}

/// Macros that only shift: compared with the lowest bit of the field.
#[test]
fn shift_macros() {
    let low = |f: DwField| 1u32 << f.field.shift;
    let f = |name: &str, field: DwField| fact(name, low(field), format!("(uint32_t){name}(1u)"));
    let bit =
        |name: &str, field: DwField| fact(name, field.field.mask, format!("(uint32_t){name}"));
    use acquire_mem as am;
    let coher =
        |name: &str, field: DwField| f(&format!("PACKET3_ACQUIRE_MEM_CP_COHER_CNTL_{name}"), field);
    Program::new()
        .include(SOC15D)
        .facts([
            f("PACKET3_SET_RESOURCES_VMID_MASK", set_resources::VMID_MASK),
            f(
                "PACKET3_SET_RESOURCES_UNMAP_LATENTY",
                set_resources::UNMAP_LATENCY,
            ),
            f(
                "PACKET3_SET_RESOURCES_QUEUE_TYPE",
                set_resources::QUEUE_TYPE,
            ),
            f("PACKET3_MAP_QUEUES_QUEUE_SEL", map_queues::QUEUE_SEL),
            f("PACKET3_MAP_QUEUES_VMID", map_queues::VMID),
            f("PACKET3_MAP_QUEUES_QUEUE", map_queues::QUEUE),
            f("PACKET3_MAP_QUEUES_PIPE", map_queues::PIPE),
            f("PACKET3_MAP_QUEUES_ME", map_queues::ME),
            f("PACKET3_MAP_QUEUES_QUEUE_TYPE", map_queues::QUEUE_TYPE),
            f("PACKET3_MAP_QUEUES_ALLOC_FORMAT", map_queues::ALLOC_FORMAT),
            f("PACKET3_MAP_QUEUES_ENGINE_SEL", map_queues::ENGINE_SEL),
            f("PACKET3_MAP_QUEUES_NUM_QUEUES", map_queues::NUM_QUEUES),
            f(
                "PACKET3_MAP_QUEUES_CHECK_DISABLE",
                map_queues::CHECK_DISABLE,
            ),
            f(
                "PACKET3_MAP_QUEUES_DOORBELL_OFFSET",
                map_queues::DOORBELL_OFFSET,
            ),
            f("PACKET3_UNMAP_QUEUES_ACTION", unmap_queues::ACTION),
            f("PACKET3_UNMAP_QUEUES_QUEUE_SEL", unmap_queues::QUEUE_SEL),
            f("PACKET3_UNMAP_QUEUES_ENGINE_SEL", unmap_queues::ENGINE_SEL),
            f("PACKET3_UNMAP_QUEUES_NUM_QUEUES", unmap_queues::NUM_QUEUES),
            f("PACKET3_UNMAP_QUEUES_PASID", unmap_queues::PASID),
            f(
                "PACKET3_UNMAP_QUEUES_DOORBELL_OFFSET0",
                unmap_queues::DOORBELL_OFFSET0,
            ),
            f(
                "PACKET3_UNMAP_QUEUES_DOORBELL_OFFSET1",
                unmap_queues::DOORBELL_OFFSET1,
            ),
            f(
                "PACKET3_UNMAP_QUEUES_DOORBELL_OFFSET2",
                unmap_queues::DOORBELL_OFFSET2,
            ),
            f(
                "PACKET3_UNMAP_QUEUES_DOORBELL_OFFSET3",
                unmap_queues::DOORBELL_OFFSET3,
            ),
            f("PACKET3_QUERY_STATUS_CONTEXT_ID", query_status::CONTEXT_ID),
            f(
                "PACKET3_QUERY_STATUS_INTERRUPT_SEL",
                query_status::INTERRUPT_SEL,
            ),
            f("PACKET3_QUERY_STATUS_COMMAND", query_status::COMMAND),
            f("PACKET3_QUERY_STATUS_PASID", query_status::PASID),
            f(
                "PACKET3_QUERY_STATUS_DOORBELL_OFFSET",
                query_status::DOORBELL_OFFSET,
            ),
            f("PACKET3_INVALIDATE_TLBS_DST_SEL", invalidate_tlbs::DST_SEL),
            f("PACKET3_INVALIDATE_TLBS_ALL_HUB", invalidate_tlbs::ALL_HUB),
            f("PACKET3_INVALIDATE_TLBS_PASID", invalidate_tlbs::PASID),
            f(
                "PACKET3_INVALIDATE_TLBS_FLUSH_TYPE",
                invalidate_tlbs::FLUSH_TYPE,
            ),
            f("PACKET3_BASE_INDEX", set_base::BASE_INDEX),
            f("WAIT_REG_MEM_ENGINE", wait_reg_mem::ENGINE),
            f("WRITE_DATA_ENGINE_SEL", write_data::ENGINE_SEL),
            f("INDIRECT_BUFFER_PRE_RESUME", indirect_buffer::PRE_RESUME),
            f("DATA_SEL", release_mem::DATA_SEL),
            f("INT_SEL", release_mem::INT_SEL),
            f("DST_SEL", release_mem::DST_SEL),
            f("PACKET3_DMA_DATA_ENGINE", dma_data::ENGINE),
            f(
                "PACKET3_DMA_DATA_SRC_CACHE_POLICY",
                dma_data::SRC_CACHE_POLICY,
            ),
            f("PACKET3_DMA_DATA_DST_SEL", dma_data::DST_SEL),
            f(
                "PACKET3_DMA_DATA_DST_CACHE_POLICY",
                dma_data::DST_CACHE_POLICY,
            ),
            f("PACKET3_DMA_DATA_SRC_SEL", dma_data::SRC_SEL),
            bit("PACKET3_DMA_DATA_CP_SYNC", dma_data::CP_SYNC),
            bit("PACKET3_DMA_DATA_CMD_SAS", dma_data::SAS),
            bit("PACKET3_DMA_DATA_CMD_DAS", dma_data::DAS),
            bit("PACKET3_DMA_DATA_CMD_SAIC", dma_data::SAIC),
            bit("PACKET3_DMA_DATA_CMD_DAIC", dma_data::DAIC),
            bit("PACKET3_DMA_DATA_CMD_RAW_WAIT", dma_data::RAW_WAIT),
            bit("WR_ONE_ADDR", write_data::ADDR_INCR),
            bit("WR_CONFIRM", write_data::WR_CONFIRM),
            bit("INDIRECT_BUFFER_VALID", indirect_buffer::VALID),
            bit("EOP_TCL1_VOL_ACTION_EN", release_mem::TCL1_VOL_ACTION_ENA),
            bit("EOP_TC_VOL_ACTION_EN", release_mem::TC_VOL_ACTION_ENA),
            bit("EOP_TC_WB_ACTION_EN", release_mem::TC_WB_ACTION_ENA),
            bit("EOP_TCL1_ACTION_EN", release_mem::TCL1_ACTION_ENA),
            bit("EOP_TC_ACTION_EN", release_mem::TC_ACTION_ENA),
            bit("EOP_TC_NC_ACTION_EN", release_mem::TC_NC_ACTION_ENA),
            bit("EOP_TC_MD_ACTION_EN", release_mem::TC_MD_ACTION_ENA),
            bit("EOP_EXEC", release_mem::EXECUTE),
            coher("TC_NC_ACTION_ENA", am::TC_NC_ACTION_ENA),
            coher("TC_WC_ACTION_ENA", am::TC_WC_ACTION_ENA),
            coher("TC_INV_METADATA_ACTION_ENA", am::TC_INV_METADATA_ACTION_ENA),
            coher("TCL1_VOL_ACTION_ENA", am::TCL1_VOL_ACTION_ENA),
            coher("TC_WB_ACTION_ENA", am::TC_WB_ACTION_ENA),
            coher("TCL1_ACTION_ENA", am::TCL1_ACTION_ENA),
            coher("TC_ACTION_ENA", am::TC_ACTION_ENA),
            coher("CB_ACTION_ENA", am::CB_ACTION_ENA),
            coher("DB_ACTION_ENA", am::DB_ACTION_ENA),
            coher("SH_KCACHE_ACTION_ENA", am::SH_KCACHE_ACTION_ENA),
            coher("SH_KCACHE_VOL_ACTION_ENA", am::SH_KCACHE_VOL_ACTION_ENA),
            coher("SH_ICACHE_ACTION_ENA", am::SH_ICACHE_ACTION_ENA),
            coher("SH_KCACHE_WB_ACTION_ENA", am::SH_KCACHE_WB_ACTION_ENA),
            same("PACKET3_SET_CONFIG_REG_START", set_config_reg::START),
            same("PACKET3_SET_CONFIG_REG_END", set_config_reg::END),
            same("PACKET3_SET_SH_REG_START", set_sh_reg::START),
            same("PACKET3_SET_SH_REG_END", set_sh_reg::END),
            same("PACKET3_SET_UCONFIG_REG_START", set_uconfig_reg::START),
            same("PACKET3_SET_UCONFIG_REG_END", set_uconfig_reg::END),
        ])
        .check();
}

/// Returns facts for `prefix` + C name against values.
fn values(prefix: &str, list: &[(&str, u32)]) -> Vec<Fact> {
    list.iter()
        .map(|(name, ours)| same(&format!("{prefix}{name}"), *ours))
        .collect()
}

#[test]
fn scheduler_values() {
    use {map_queues as mq, query_status as qs, set_resources as sr, unmap_queues as uq};
    let program = Program::new().include(AI).facts(values(
        "queue_type__mes_set_resources__",
        &[
            ("kernel_interface_queue_kiq", sr::QUEUE_TYPE_KIQ),
            ("hsa_interface_queue_hiq", sr::QUEUE_TYPE_HIQ),
            ("hsa_debug_interface_queue", sr::QUEUE_TYPE_DIQ),
        ],
    ));
    let program = program
        .facts(values(
            "queue_sel__mes_map_queues__",
            &[
                ("map_to_specified_queue_slots_vi", mq::QUEUE_SEL_SPECIFIED),
                (
                    "map_to_hws_determined_queue_slots_vi",
                    mq::QUEUE_SEL_HWS_DETERMINED,
                ),
            ],
        ))
        .facts(values(
            "queue_type__mes_map_queues__",
            &[
                ("normal_compute_vi", mq::QUEUE_TYPE_NORMAL_COMPUTE),
                ("debug_interface_queue_vi", mq::QUEUE_TYPE_DEBUG_INTERFACE),
                (
                    "normal_latency_static_queue_vi",
                    mq::QUEUE_TYPE_NORMAL_LATENCY_STATIC,
                ),
                (
                    "low_latency_static_queue_vi",
                    mq::QUEUE_TYPE_LOW_LATENCY_STATIC,
                ),
            ],
        ))
        .facts(values(
            "engine_sel__mes_map_queues__",
            &[
                ("compute_vi", mq::ENGINE_SEL_COMPUTE),
                ("sdma0_vi", mq::ENGINE_SEL_SDMA0),
                ("sdma1_vi", mq::ENGINE_SEL_SDMA1),
            ],
        ))
        .facts(values(
            "extended_engine_sel__mes_map_queues__",
            &[
                ("legacy_engine_sel", mq::EXTENDED_ENGINE_SEL_LEGACY),
                ("sdma0_to_7_sel", mq::EXTENDED_ENGINE_SEL_SDMA0_TO_7),
                ("sdma8_to_15_sel", mq::EXTENDED_ENGINE_SEL_SDMA8_TO_15),
            ],
        ));
    program
        .facts(values(
            "action__mes_unmap_queues__",
            &[
                ("preempt_queues", uq::ACTION_PREEMPT),
                ("reset_queues", uq::ACTION_RESET),
                ("disable_process_queues", uq::ACTION_DISABLE_PROCESS),
                ("reserved", uq::ACTION_PREEMPT_NO_UNMAP),
            ],
        ))
        .facts(values(
            "queue_sel__mes_unmap_queues__",
            &[
                (
                    "perform_request_on_specified_queues",
                    uq::QUEUE_SEL_SPECIFIED,
                ),
                ("perform_request_on_pasid_queues", uq::QUEUE_SEL_PASID),
                ("unmap_all_queues", uq::QUEUE_SEL_ALL),
                ("unmap_all_non_static_queues", uq::QUEUE_SEL_ALL_NON_STATIC),
            ],
        ))
        .facts(values(
            "interrupt_sel__mes_query_status__",
            &[
                ("completion_status", qs::INTERRUPT_SEL_COMPLETION),
                ("process_status", qs::INTERRUPT_SEL_PROCESS),
                ("queue_status", qs::INTERRUPT_SEL_QUEUE),
            ],
        ))
        .facts(values(
            "command__mes_query_status__",
            &[
                ("interrupt_only", qs::COMMAND_INTERRUPT_ONLY),
                ("fence_only_immediate", qs::COMMAND_FENCE_ONLY_IMMEDIATE),
                (
                    "fence_only_after_write_ack",
                    qs::COMMAND_FENCE_ONLY_AFTER_WRITE_ACK,
                ),
                (
                    "fence_wait_for_write_ack_send_interrupt",
                    qs::COMMAND_FENCE_WAIT_FOR_WRITE_ACK_SEND_INTERRUPT,
                ),
            ],
        ))
        .check();
}

#[test]
fn execution_values() {
    use {
        atomic_mem as am, copy_data as cd, event_write as ew, wait_reg_mem as wm, write_data as wd,
    };
    Program::new()
        .include(SOC15D)
        .include("include/vega10_enum.h")
        .facts(values(
            "PACKET3_WRITE_DATA__DST_SEL__",
            &[
                ("MEM_MAPPED_REGISTER", wd::DST_SEL_REGISTER),
                ("TC_L2", wd::DST_SEL_TC_L2),
                ("GDS", wd::DST_SEL_GDS),
                ("MEMORY", wd::DST_SEL_MEMORY),
                (
                    "MEMORY_MAPPED_ADC_PERSISTENT_STATE",
                    wd::DST_SEL_ADC_PERSISTENT_STATE,
                ),
            ],
        ))
        .facts(values(
            "PACKET3_WAIT_REG_MEM__FUNCTION__",
            &[
                ("ALWAYS_PASS", wm::FUNCTION_ALWAYS),
                ("LESS_THAN_REF_VALUE", wm::FUNCTION_LESS),
                ("LESS_THAN_EQUAL_TO_THE_REF_VALUE", wm::FUNCTION_LESS_EQUAL),
                ("EQUAL_TO_THE_REFERENCE_VALUE", wm::FUNCTION_EQUAL),
                ("NOT_EQUAL_REFERENCE_VALUE", wm::FUNCTION_NOT_EQUAL),
                (
                    "GREATER_THAN_OR_EQUAL_REFERENCE_VALUE",
                    wm::FUNCTION_GREATER_EQUAL,
                ),
                ("GREATER_THAN_REFERENCE_VALUE", wm::FUNCTION_GREATER),
            ],
        ))
        .facts(values(
            "PACKET3_WAIT_REG_MEM__",
            &[
                ("MEM_SPACE__REGISTER_SPACE", wm::MEM_SPACE_REGISTER),
                ("MEM_SPACE__MEMORY_SPACE", wm::MEM_SPACE_MEMORY),
                ("OPERATION__WAIT_REG_MEM", wm::OPERATION_WAIT),
                ("OPERATION__WR_WAIT_WR_REG", wm::OPERATION_WRITE_WAIT),
                (
                    "OPERATION__WAIT_MEM_PREEMPTABLE",
                    wm::OPERATION_WAIT_PREEMPTABLE,
                ),
            ],
        ))
        .facts(values(
            "PACKET3_COPY_DATA__",
            &[
                ("SRC_SEL__MEM_MAPPED_REGISTER", cd::SRC_SEL_REGISTER),
                ("SRC_SEL__MEMORY", cd::SRC_SEL_MEMORY),
                ("SRC_SEL__TC_L2", cd::SRC_SEL_TC_L2),
                ("SRC_SEL__GDS", cd::SRC_SEL_GDS),
                ("SRC_SEL__PERFCOUNTERS", cd::SRC_SEL_PERFCOUNTERS),
                ("SRC_SEL__IMMEDIATE_DATA", cd::SRC_SEL_IMMEDIATE),
                ("SRC_SEL__ATOMIC_RETURN_DATA", cd::SRC_SEL_ATOMIC_RETURN),
                ("SRC_SEL__GPU_CLOCK_COUNT", cd::SRC_SEL_GPU_CLOCK_COUNT),
                ("DST_SEL__MEM_MAPPED_REGISTER", cd::DST_SEL_REGISTER),
                ("DST_SEL__TC_L2", cd::DST_SEL_TC_L2),
                ("DST_SEL__GDS", cd::DST_SEL_GDS),
                ("DST_SEL__PERFCOUNTERS", cd::DST_SEL_PERFCOUNTERS),
                ("DST_SEL__MEMORY", cd::DST_SEL_MEMORY),
            ],
        ))
        .facts(values(
            "PACKET3_EVENT_WRITE__EVENT_INDEX__",
            &[
                ("OTHER", ew::EVENT_INDEX_OTHER),
                ("SAMPLE_PIPELINESTATS", ew::EVENT_INDEX_SAMPLE_PIPELINESTATS),
                ("CS_PARTIAL_FLUSH", ew::EVENT_INDEX_CS_PARTIAL_FLUSH),
            ],
        ))
        .facts(values(
            "PACKET3_ATOMIC_MEM__COMMAND__",
            &[
                ("SINGLE_PASS_ATOMIC", am::COMMAND_SINGLE_PASS),
                (
                    "LOOP_UNTIL_COMPARE_SATISFIED",
                    am::COMMAND_LOOP_UNTIL_COMPARE_SATISFIED,
                ),
            ],
        ))
        .facts([same("CS_PARTIAL_FLUSH", ew::EVENT_TYPE_CS_PARTIAL_FLUSH)])
        .check();
}

#[test]
fn release_mem_values() {
    use pm4::release_mem as rm;
    let list = [
        (
            "event_index__mec_release_mem__end_of_pipe",
            rm::EVENT_INDEX_END_OF_PIPE,
        ),
        (
            "event_index__mec_release_mem__shader_done",
            rm::EVENT_INDEX_SHADER_DONE,
        ),
        (
            "dst_sel__mec_release_mem__memory_controller",
            rm::DST_SEL_MEMORY_CONTROLLER,
        ),
        ("dst_sel__mec_release_mem__tc_l2", rm::DST_SEL_TC_L2),
        (
            "dst_sel__mec_release_mem__queue_write_pointer_register",
            rm::DST_SEL_QUEUE_WRITE_POINTER,
        ),
        (
            "dst_sel__mec_release_mem__queue_write_pointer_poll_mask_bit",
            rm::DST_SEL_QUEUE_WRITE_POINTER_POLL_MASK,
        ),
        ("int_sel__mec_release_mem__none", rm::INT_SEL_NONE),
        (
            "int_sel__mec_release_mem__send_interrupt_only",
            rm::INT_SEL_INTERRUPT_ONLY,
        ),
        (
            "int_sel__mec_release_mem__send_interrupt_after_write_confirm",
            rm::INT_SEL_INTERRUPT_AFTER_WRITE_CONFIRM,
        ),
        (
            "int_sel__mec_release_mem__send_data_after_write_confirm",
            rm::INT_SEL_DATA_AFTER_WRITE_CONFIRM,
        ),
        (
            "int_sel__mec_release_mem__unconditionally_send_int_ctxid",
            rm::INT_SEL_INT_CTXID,
        ),
        (
            "int_sel__mec_release_mem__conditionally_send_int_ctxid_based_on_32_bit_compare",
            rm::INT_SEL_INT_CTXID_COMPARE_32,
        ),
        (
            "int_sel__mec_release_mem__conditionally_send_int_ctxid_based_on_64_bit_compare",
            rm::INT_SEL_INT_CTXID_COMPARE_64,
        ),
        ("data_sel__mec_release_mem__none", rm::DATA_SEL_NONE),
        (
            "data_sel__mec_release_mem__send_32_bit_low",
            rm::DATA_SEL_32_BIT_LOW,
        ),
        (
            "data_sel__mec_release_mem__send_64_bit_data",
            rm::DATA_SEL_64_BIT,
        ),
        (
            "data_sel__mec_release_mem__send_gpu_clock_counter",
            rm::DATA_SEL_GPU_CLOCK_COUNTER,
        ),
        (
            "data_sel__mec_release_mem__send_cp_perfcounter_hi_lo",
            rm::DATA_SEL_CP_PERFCOUNTER,
        ),
        (
            "data_sel__mec_release_mem__store_gds_data_to_memory",
            rm::DATA_SEL_GDS,
        ),
        (
            "CACHE_FLUSH_AND_INV_TS_EVENT",
            rm::EVENT_TYPE_CACHE_FLUSH_AND_INV_TS,
        ),
    ];
    Program::new().include(AI).facts(values("", &list)).check();
}
