// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Structures in memory: MQDs, discovery table, CWSR area, page-table entries.

use rkfd_abi::{cwsr, discovery as d, mqd, pte};
use rkfd_abi_oracle::csource::{block, defines, members};
use rkfd_abi_oracle::{amd_text, fact, kernel_source, mask64, same, Fact, Program};

/// Compares every named dword of an MQD in both directions. Returns the number of facts.
fn mqd_facts(c_struct: &str, names: &[(&str, usize)], dwords: usize, aliases: &[&str]) -> usize {
    let generation = c_struct.split_once('_').map_or(c_struct, |(g, _)| g);
    let header = format!("include/{generation}_structs.h");
    let mut facts = vec![fact(
        "size",
        4 * dwords,
        format!("sizeof(struct {c_struct})"),
    )];
    for (name, index) in names
        .iter()
        .filter(|(name, _)| !name.starts_with("reserved"))
    {
        let expr = format!("offsetof(struct {c_struct}, {name}) / 4");
        facts.push(fact(*name, *index, expr));
    }
    for member in members(&amd_text(&header), c_struct) {
        let name = member.name.as_str();
        let known = name.starts_with("reserved")
            || aliases.contains(&name)
            || names.iter().any(|(ours, _)| *ours == name);
        assert!(known, "{c_struct}.{name} is not in rkfd_abi");
    }
    Program::new().include(&header).facts(facts).check()
}

#[test]
fn v12_mqd() {
    use mqd::v12::{dw, Mqd};
    assert!(mqd_facts("v12_compute_mqd", dw::NAMES, Mqd::DWORDS, &[]) > 200);
    let manager = amd_text("amdkfd/kfd_mqd_manager_v12.c");
    for line in [
        format!("->header = {:#X};", mqd::v12::HEADER).replace("0X", "0x"),
        format!(
            "cp_hqd_hq_status0 = 1 << {};",
            mqd::v12::HQ_STATUS0_DISPATCH_PTR.trailing_zeros()
        ),
        format!(
            "cp_hqd_hq_status0 |= 1 << {};",
            mqd::v12::HQ_STATUS0_PCIE_ATOMICS.trailing_zeros()
        ),
    ] {
        assert!(manager.contains(&line), "{line}");
    }
}

#[test]
fn v9_mqd() {
    use mqd::v9::{dw, Mqd};
    let others = [
        "compute_static_thread_mgmt_se4",
        "compute_static_thread_mgmt_se5",
        "compute_static_thread_mgmt_se6",
        "compute_static_thread_mgmt_se7",
    ];
    assert!(mqd_facts("v9_mqd", dw::NAMES, Mqd::DWORDS, &others) > 200);
    let manager = amd_text("amdkfd/kfd_mqd_manager_v9.c");
    let header = format!("->header = {:#X};", mqd::v9::HEADER).replace("0X", "0x");
    assert!(manager.contains(&header), "MQD header");
    let alias = mqd::v9::compute_static_thread_mgmt_se4;
    Program::new()
        .include("include/v9_structs.h")
        .facts([
            fact("se4", alias, "offsetof(struct v9_mqd, compute_static_thread_mgmt_se4) / 4"),
            fact(
                "failed doorbells",
                mqd::v9::HIQ_FAILED_DOORBELLS_LEN,
                "(offsetof(struct v9_mqd, queue_doorbell_id15) - offsetof(struct v9_mqd, queue_doorbell_id0)) / 4 + 1",
            ),
        ])
        .check();
}

#[test]
fn v9_sdma_mqd() {
    use mqd::v9_sdma::{dw, SdmaMqd};
    assert!(mqd_facts("v9_sdma_mqd", dw::NAMES, SdmaMqd::DWORDS, &[]) > 40);
}

#[test]
fn v12_sdma_mqd() {
    use gpu_regs::{gc_12_0_0 as gc, RegInfo};
    use mqd::v12_sdma::{dw, SdmaMqd, REGISTERS};
    assert!(mqd_facts("v12_sdma_mqd", dw::NAMES, SdmaMqd::DWORDS, &[]) > 40);
    // The descriptor is the range of queue registers; the two firmware debug registers have no
    // name.
    let first = gc::regSDMA0_QUEUE0_RB_CNTL.off;
    for (name, index) in dw::NAMES.iter().filter(|(_, n)| *n < REGISTERS) {
        let stem = name.trim_start_matches("sdmax_rlcx_").to_uppercase();
        let stem = stem.replace("SCHED_CNTL", "SCHEDULE_CNTL");
        let full = format!("regSDMA0_QUEUE0_{stem}");
        let found = gc::ALL.iter().find(|RegInfo { reg, .. }| reg.name == full);
        match found {
            Some(info) => assert_eq!(info.reg.off - first, *index as u32, "{full}"),
            None => assert!(stem.starts_with("MCU_DBG"), "{full}"),
        }
    }
}

/// Returns a fact for the offset of a member of a C struct.
fn offset(c_struct: &str, member: &str, ours: usize) -> Fact {
    let expr = format!("offsetof({c_struct}, {member})");
    fact(format!("{c_struct}.{member}"), ours, expr)
}

/// Returns a fact for the size of a C struct.
fn size(c_struct: &str, ours: usize) -> Fact {
    fact(
        format!("sizeof {c_struct}"),
        ours,
        format!("sizeof({c_struct})"),
    )
}

#[test]
fn discovery_headers() {
    let (b, b2, h, i) = (
        "binary_header",
        "binary_header_v2",
        "ip_discovery_header",
        "ip_v3",
    );
    let mut program = Program::new()
        .include("include/discovery.h")
        .text(&defines(&amd_text("amdgpu/amdgpu_discovery.h"), |n| n.starts_with("DISCOVERY_TMR")))
        .facts([
            same("BINARY_SIGNATURE", d::BINARY_SIGNATURE),
            same("DISCOVERY_TABLE_SIGNATURE", d::DISCOVERY_TABLE_SIGNATURE),
            same("GC_TABLE_ID", d::GC_TABLE_ID),
            same("HARVEST_TABLE_SIGNATURE", d::HARVEST_TABLE_SIGNATURE),
            same("VCN_INFO_TABLE_ID", d::VCN_INFO_TABLE_ID),
            same("MALL_INFO_TABLE_ID", d::MALL_INFO_TABLE_ID),
            same("NPS_INFO_TABLE_ID", d::NPS_INFO_TABLE_ID),
            same("DISCOVERY_TMR_SIZE", d::TMR_SIZE),
            same("DISCOVERY_TMR_OFFSET", d::TMR_OFFSET),
            same("IP_DISCOVERY", d::table::IP_DISCOVERY),
            same("GC", d::table::GC),
            same("HARVEST_INFO", d::table::HARVEST_INFO),
            same("VCN_INFO", d::table::VCN_INFO),
            same("MALL_INFO", d::table::MALL_INFO),
            same("NPS_INFO", d::table::NPS_INFO),
            same("TOTAL_TABLES", d::table::TOTAL),
            offset(b, "binary_signature", d::binary_header::SIGNATURE),
            offset(b, "version_major", d::binary_header::VERSION_MAJOR),
            offset(b, "version_minor", d::binary_header::VERSION_MINOR),
            offset(b, "binary_checksum", d::binary_header::BINARY_CHECKSUM),
            offset(b, "binary_size", d::binary_header::BINARY_SIZE),
            offset(b, "table_list", d::binary_header::TABLE_LIST),
            size(b, d::binary_header::SIZE),
            offset(b2, "num_tables", d::binary_header_v2::NUM_TABLES),
            offset(b2, "table_list", d::binary_header_v2::TABLE_LIST),
            offset("table_info", "offset", d::table_info::OFFSET),
            offset("table_info", "checksum", d::table_info::CHECKSUM),
            offset("table_info", "size", d::table_info::TABLE_SIZE),
            size("table_info", d::table_info::SIZE),
            offset(h, "signature", d::ip_discovery_header::SIGNATURE),
            offset(h, "version", d::ip_discovery_header::VERSION),
            offset(h, "size", d::ip_discovery_header::TABLE_SIZE),
            offset(h, "id", d::ip_discovery_header::ID),
            offset(h, "num_dies", d::ip_discovery_header::NUM_DIES),
            offset(h, "die_info", d::ip_discovery_header::DIE_INFO),
            size(h, d::ip_discovery_header::SIZE),
            offset("die_info", "die_id", d::die_info::DIE_ID),
            offset("die_info", "die_offset", d::die_info::DIE_OFFSET),
            size("die_info", d::die_info::SIZE),
            offset("die_header", "die_id", d::die_header::DIE_ID),
            offset("die_header", "num_ips", d::die_header::NUM_IPS),
            size("die_header", d::die_header::SIZE),
        ])
        .block(
            "max dies",
            d::ip_discovery_header::MAX_DIES as u64,
            "ip_discovery_header h; v = sizeof h.die_info / sizeof h.die_info[0]",
        )
        .block(
            "64-bit flag",
            ((d::ip_discovery_header::FLAGS as u64) << 8)
                | u64::from(d::ip_discovery_header::FLAG_BASE_ADDR_64_BIT),
            "ip_discovery_header h; uint8_t *p = (uint8_t *)&h; memset(&h, 0, sizeof h); \
             h.base_addr_64_bit = 1; for (size_t n = 0; n < sizeof h; n++) if (p[n]) v = n << 8 | p[n]",
        );
    for ip in [i, "ip_v4"] {
        program = program
            .facts([
                offset(ip, "hw_id", d::ip_v3::HW_ID),
                offset(ip, "instance_number", d::ip_v3::INSTANCE_NUMBER),
                offset(ip, "num_base_address", d::ip_v3::NUM_BASE_ADDRESS),
                offset(ip, "major", d::ip_v3::MAJOR),
                offset(ip, "minor", d::ip_v3::MINOR),
                offset(ip, "revision", d::ip_v3::REVISION),
                offset(ip, "base_address", d::ip_v3::BASE_ADDRESS),
                size(ip, d::ip_v3::SIZE),
            ])
            .block(
                &format!("{ip} sub-revision"),
                ((d::ip_v3::SUB_REVISION as u64) << 8) | 0x0f,
                &format!(
                    "{ip} h; uint8_t *p = (uint8_t *)&h; memset(&h, 0, sizeof h); h.sub_revision = ~0; \
                     for (size_t n = 0; n < sizeof h; n++) if (p[n]) v = n << 8 | p[n]"
                ),
            );
    }
    program.check();
}

#[test]
fn discovery_gc_info_v1() {
    use d::gc_info_v1 as g;
    let gc = "struct gc_info_v1_3";
    let named = [
        ("num_se", g::NUM_SE),
        ("num_wgp0_per_sa", g::NUM_WGP0_PER_SA),
        ("num_wgp1_per_sa", g::NUM_WGP1_PER_SA),
        ("num_rb_per_se", g::NUM_RB_PER_SE),
        ("num_gl2c", g::NUM_GL2C),
        ("num_gprs", g::NUM_GPRS),
        ("num_max_gs_thds", g::NUM_MAX_GS_THDS),
        ("gs_table_depth", g::GS_TABLE_DEPTH),
        ("gsprim_buff_depth", g::GSPRIM_BUFF_DEPTH),
        ("parameter_cache_depth", g::PARAMETER_CACHE_DEPTH),
        ("double_offchip_lds_buffer", g::DOUBLE_OFFCHIP_LDS_BUFFER),
        ("wave_size", g::WAVE_SIZE),
        ("max_waves_per_simd", g::MAX_WAVES_PER_SIMD),
        ("max_scratch_slots_per_cu", g::MAX_SCRATCH_SLOTS_PER_CU),
        ("lds_size", g::LDS_SIZE),
        ("num_sc_per_se", g::NUM_SC_PER_SE),
        ("num_sa_per_se", g::NUM_SA_PER_SE),
        ("num_packer_per_sc", g::NUM_PACKER_PER_SC),
        ("num_gl2a", g::NUM_GL2A),
        ("num_tcp_per_sa", g::NUM_TCP_PER_SA),
        ("num_sdp_interface", g::NUM_SDP_INTERFACE),
        ("num_tcps", g::NUM_TCPS),
        ("num_tcp_per_wpg", g::NUM_TCP_PER_WPG),
        ("tcp_l1_size", g::TCP_L1_SIZE),
        ("num_sqc_per_wgp", g::NUM_SQC_PER_WGP),
        (
            "l1_instruction_cache_size_per_sqc",
            g::L1_INSTRUCTION_CACHE_SIZE_PER_SQC,
        ),
        ("l1_data_cache_size_per_sqc", g::L1_DATA_CACHE_SIZE_PER_SQC),
        ("gl1c_per_sa", g::GL1C_PER_SA),
        ("gl1c_size_per_instance", g::GL1C_SIZE_PER_INSTANCE),
        ("gl2c_per_gpu", g::GL2C_PER_GPU),
        ("tcp_size_per_cu", g::TCP_SIZE_PER_CU),
        ("tcp_cache_line_size", g::TCP_CACHE_LINE_SIZE),
        (
            "instruction_cache_size_per_sqc",
            g::INSTRUCTION_CACHE_SIZE_PER_SQC,
        ),
        (
            "instruction_cache_line_size",
            g::INSTRUCTION_CACHE_LINE_SIZE,
        ),
        (
            "scalar_data_cache_size_per_sqc",
            g::SCALAR_DATA_CACHE_SIZE_PER_SQC,
        ),
        (
            "scalar_data_cache_line_size",
            g::SCALAR_DATA_CACHE_LINE_SIZE,
        ),
        ("tcc_size", g::TCC_SIZE),
        ("tcc_cache_line_size", g::TCC_CACHE_LINE_SIZE),
    ];
    for member in members(&amd_text("include/discovery.h"), "gc_info_v1_3") {
        let known = member.name == "header"
            || named
                .iter()
                .any(|(name, _)| member.name == format!("gc_{name}"));
        assert!(known, "gc_info_v1_3.{} is not in rkfd_abi", member.name);
    }
    Program::new()
        .include("include/discovery.h")
        .facts(named.map(|(name, ours)| offset(gc, &format!("gc_{name}"), ours)))
        .facts([
            size("struct gc_info_v1_0", g::SIZE_V1_0),
            size("struct gc_info_v1_1", g::SIZE_V1_1),
            size("struct gc_info_v1_2", g::SIZE_V1_2),
            size(gc, g::SIZE_V1_3),
        ])
        .check();
}

#[test]
fn discovery_tables() {
    use d::gc_info_v2 as g;
    let (gh, gc, ht) = (
        "struct gpu_info_header",
        "struct gc_info_v2_1",
        "harvest_table",
    );
    let (nps, range) = ("struct nps_info_v1_0", "struct nps_instance_info_v1_0");
    let mut facts = vec![
        offset(gh, "table_id", d::gpu_info_header::TABLE_ID),
        offset(gh, "version_major", d::gpu_info_header::VERSION_MAJOR),
        offset(gh, "version_minor", d::gpu_info_header::VERSION_MINOR),
        offset(gh, "size", d::gpu_info_header::TABLE_SIZE),
        size(gh, d::gpu_info_header::SIZE),
        size("struct gc_info_v2_0", g::SIZE_V2_0),
        size(gc, g::SIZE_V2_1),
        offset(ht, "header.signature", d::harvest_table::SIGNATURE),
        offset(ht, "header.version", d::harvest_table::VERSION),
        offset(ht, "list", d::harvest_table::LIST),
        size("harvest_info", d::harvest_table::ENTRY_SIZE),
        size(ht, d::harvest_table::SIZE),
        offset(nps, "header.table_id", d::nps_info::TABLE_ID),
        offset(nps, "header.version_major", d::nps_info::VERSION_MAJOR),
        offset(nps, "header.version_minor", d::nps_info::VERSION_MINOR),
        offset(nps, "header.size_bytes", d::nps_info::SIZE_BYTES),
        offset(nps, "nps_type", d::nps_info::NPS_TYPE),
        offset(nps, "count", d::nps_info::COUNT),
        offset(nps, "instance_info", d::nps_info::INSTANCE_INFO),
        size(nps, d::nps_info::SIZE),
        offset(range, "base_address", d::nps_info::range::BASE_ADDRESS),
        offset(range, "limit_address", d::nps_info::range::LIMIT_ADDRESS),
        size(range, d::nps_info::range::SIZE),
    ];
    let named = [
        ("gc_num_se", g::NUM_SE),
        ("gc_num_cu_per_sh", g::NUM_CU_PER_SH),
        ("gc_num_sh_per_se", g::NUM_SH_PER_SE),
        ("gc_num_rb_per_se", g::NUM_RB_PER_SE),
        ("gc_num_tccs", g::NUM_TCCS),
        ("gc_num_gprs", g::NUM_GPRS),
        ("gc_num_max_gs_thds", g::NUM_MAX_GS_THDS),
        ("gc_gs_table_depth", g::GS_TABLE_DEPTH),
        ("gc_gsprim_buff_depth", g::GSPRIM_BUFF_DEPTH),
        ("gc_parameter_cache_depth", g::PARAMETER_CACHE_DEPTH),
        ("gc_double_offchip_lds_buffer", g::DOUBLE_OFFCHIP_LDS_BUFFER),
        ("gc_wave_size", g::WAVE_SIZE),
        ("gc_max_waves_per_simd", g::MAX_WAVES_PER_SIMD),
        ("gc_max_scratch_slots_per_cu", g::MAX_SCRATCH_SLOTS_PER_CU),
        ("gc_lds_size", g::LDS_SIZE),
        ("gc_num_sc_per_se", g::NUM_SC_PER_SE),
        ("gc_num_packer_per_sc", g::NUM_PACKER_PER_SC),
        ("gc_num_tcp_per_sh", g::NUM_TCP_PER_SH),
        ("gc_tcp_size_per_cu", g::TCP_SIZE_PER_CU),
        ("gc_num_sdp_interface", g::NUM_SDP_INTERFACE),
        ("gc_num_cu_per_sqc", g::NUM_CU_PER_SQC),
        (
            "gc_instruction_cache_size_per_sqc",
            g::INSTRUCTION_CACHE_SIZE_PER_SQC,
        ),
        (
            "gc_scalar_data_cache_size_per_sqc",
            g::SCALAR_DATA_CACHE_SIZE_PER_SQC,
        ),
        ("gc_tcc_size", g::TCC_SIZE),
    ];
    for member in members(&amd_text("include/discovery.h"), "gc_info_v2_1") {
        let known = member.name == "header" || named.iter().any(|(name, _)| *name == member.name);
        assert!(known, "gc_info_v2_1.{} is not in rkfd_abi", member.name);
    }
    facts.extend(named.map(|(name, ours)| offset(gc, name, ours)));
    Program::new()
        .include("include/discovery.h")
        .facts(facts)
        .block(
            "harvest entries",
            d::harvest_table::ENTRIES as u64,
            "harvest_table t; v = sizeof t.list / sizeof t.list[0]",
        )
        .check();
}

#[test]
fn hardware_ids() {
    use d::hwid::*;
    let ids = [
        ("MP1", MP1),
        ("THM", THM),
        ("SMUIO", SMUIO),
        ("FUSE", FUSE),
        ("CLKA", CLKA),
        ("GC", GC),
        ("VCN", VCN),
        ("MMHUB", MMHUB),
        ("ATHUB", ATHUB),
        ("OSSSYS", OSSSYS),
        ("HDP", HDP),
        ("SDMA0", SDMA0),
        ("SDMA1", SDMA1),
        ("DF", DF),
        ("SDMA2", SDMA2),
        ("SDMA3", SDMA3),
        ("PCIE", PCIE),
        ("LSDMA", LSDMA),
        ("NBIF", NBIF),
        ("UMC", UMC),
        ("XGMI", XGMI),
        ("MP0", MP0),
    ];
    let facts = ids.map(|(name, ours)| same(&format!("{name}_HWID"), ours));
    Program::new()
        .include("include/soc15_hw_ip.h")
        .facts(facts)
        .check();
}

#[test]
fn page_table_entries() {
    let wanted = |n: &str| n.starts_with("AMDGPU_P") || n.starts_with("AMDGPU_VM_NORETRY");
    Program::new()
        .text(&defines(&amd_text("amdgpu/amdgpu_vm.h"), wanted))
        .text(&defines(&amd_text("amdgpu/amdgpu_gmc.h"), |n| {
            n.starts_with("AMDGPU_GMC_HOLE")
        }))
        .text(&defines(&amd_text("amdgpu/amdgpu_gart.h"), |n| {
            n.starts_with("AMDGPU_GPU_PAGE")
        }))
        .text("struct { struct { int max_level; } vm_manager; } gfx9 = { { 3 } }, *adev = &gfx9;")
        .include("include/vega10_enum.h")
        .facts([
            same("AMDGPU_PTE_VALID", pte::VALID),
            same("AMDGPU_PTE_SYSTEM", pte::SYSTEM),
            same("AMDGPU_PTE_SNOOPED", pte::SNOOPED),
            same("AMDGPU_PTE_TMZ", pte::TMZ),
            same("AMDGPU_PTE_EXECUTABLE", pte::EXECUTABLE),
            same("AMDGPU_PTE_READABLE", pte::READABLE),
            same("AMDGPU_PTE_WRITEABLE", pte::WRITEABLE),
            mask64("AMDGPU_PTE_FRAG", pte::FRAG, "AMDGPU_PTE_FRAG(~0ull)"),
            same("AMDGPU_PTE_PRT", pte::PRT),
            same("AMDGPU_PDE_PTE", pte::PDE_PTE),
            same("AMDGPU_PTE_PRT_GFX12", pte::gfx12::PRT),
            same("AMDGPU_PTE_DCC", pte::gfx12::DCC),
            same("AMDGPU_PTE_NOALLOC", pte::gfx12::DCC),
            same("AMDGPU_PTE_IS_PTE", pte::gfx12::IS_PTE),
            same("AMDGPU_PDE_PTE_GFX12", pte::gfx12::IS_PTE),
            mask64(
                "AMDGPU_PTE_MTYPE_GFX12_MASK",
                pte::gfx12::MTYPE,
                "AMDGPU_PTE_MTYPE_GFX12_MASK",
            ),
            mask64(
                "AMDGPU_PDE_BFS_GFX12",
                pte::gfx12::PDE_BFS,
                "AMDGPU_PDE_BFS_GFX12(0x1full)",
            ),
            same("AMDGPU_PTE_LOG", pte::LOG),
            same("AMDGPU_PTE_TF", pte::TF),
            mask64("AMDGPU_PDE_BFS", pte::PDE_BFS, "AMDGPU_PDE_BFS(0x1full)"),
            mask64(
                "AMDGPU_PTE_MTYPE_VG10_MASK",
                pte::MTYPE,
                "AMDGPU_PTE_MTYPE_VG10_MASK",
            ),
            same("MTYPE_NC", pte::MTYPE_NC),
            same("MTYPE_RW", pte::MTYPE_RW),
            same("MTYPE_CC", pte::MTYPE_CC),
            same("MTYPE_UC", pte::MTYPE_UC),
            same("AMDGPU_GMC_HOLE_START", pte::HOLE_START),
            same("AMDGPU_GMC_HOLE_END", pte::HOLE_END),
            same("AMDGPU_GPU_PAGE_SIZE", pte::PAGE_SIZE),
            same("AMDGPU_GPU_PAGE_SHIFT", pte::PAGE_SHIFT),
        ])
        .check();
}

#[test]
fn save_area() {
    let queue = amd_text("amdkfd/kfd_queue.c");
    let uapi = kernel_source().join("include/uapi/linux/kfd_ioctl.h");
    let uapi = std::fs::read_to_string(&uapi).unwrap_or_else(|e| panic!("{uapi:?}: {e}"));
    let wanted = |n: &str| {
        n.starts_with("DEBUGGER_BYTES")
            || n.starts_with("CNTL_STACK_BYTES")
            || n.starts_with("SIZEOF_HSA_USER_CONTEXT")
            || n.starts_with("WG_CONTEXT_DATA")
    };
    let function = |name: &str| block(&queue, &format!("static u32 {name}("), "}");
    let header = "struct kfd_context_save_area_header";
    let per_cu = cwsr::VGPR_SIZE_PER_CU_GFX942
        + cwsr::SGPR_SIZE_PER_CU
        + cwsr::LDS_SIZE_PER_CU
        + cwsr::HWREG_SIZE_PER_CU;
    Program::new()
        .text("struct kfd_node_properties { u32 lds_size_in_kb, simd_arrays_per_engine, array_count; } props = { 64, 1, 4 };")
        .text(&defines(&queue, wanted))
        .text(&function("kfd_get_vgpr_size_per_cu"))
        .text(&function("kfd_get_sgpr_size_per_cu"))
        .text(&function("kfd_get_hwreg_size_per_cu"))
        .text(&function("kfd_get_lds_size_per_cu"))
        .text(&block(&uapi, "struct kfd_context_save_area_header {", "};"))
        .text(&defines(&amd_text("amdkfd/kfd_priv.h"), |n| n.starts_with("KFD_CWSR_T")))
        .text(&defines(&amd_text("amdgpu/amdgpu_gart.h"), |n| n == "AMDGPU_GPU_PAGE_SIZE"))
        .facts([
            fact("vgpr", cwsr::VGPR_SIZE_PER_CU_GFX942, "kfd_get_vgpr_size_per_cu(90402)"),
            fact("sgpr", cwsr::SGPR_SIZE_PER_CU, "kfd_get_sgpr_size_per_cu(90402)"),
            fact("hwreg", cwsr::HWREG_SIZE_PER_CU, "kfd_get_hwreg_size_per_cu(90402)"),
            fact("lds", cwsr::LDS_SIZE_PER_CU, "kfd_get_lds_size_per_cu(90402, &props)"),
            fact("per cu", per_cu, "WG_CONTEXT_DATA_SIZE_PER_CU(90402, &props)"),
            fact("gfx9", cwsr::CNTL_STACK_BYTES_PER_WAVE_GFX9, "CNTL_STACK_BYTES_PER_WAVE(90402)"),
            fact("gfx10", cwsr::CNTL_STACK_BYTES_PER_WAVE_GFX10, "CNTL_STACK_BYTES_PER_WAVE(120000)"),
            same("SIZEOF_HSA_USER_CONTEXT_SAVE_AREA_HEADER", cwsr::HEADER_SIZE),
            same("DEBUGGER_BYTES_PER_WAVE", cwsr::DEBUGGER_BYTES_PER_WAVE),
            same("DEBUGGER_BYTES_ALIGN", cwsr::DEBUGGER_ALIGN),
            same("KFD_CWSR_TBA_TMA_SIZE", cwsr::TBA_TMA_SIZE),
            same("KFD_CWSR_TMA_OFFSET", cwsr::TMA_OFFSET),
            size(header, cwsr::HEADER_SIZE as usize),
            offset(header, "wave_state.control_stack_offset", cwsr::CONTROL_STACK_OFFSET),
            offset(header, "wave_state.control_stack_size", cwsr::CONTROL_STACK_SIZE),
            offset(header, "wave_state.wave_state_offset", cwsr::WAVE_STATE_OFFSET),
            offset(header, "wave_state.wave_state_size", cwsr::WAVE_STATE_SIZE),
            offset(header, "debug_offset", cwsr::DEBUG_OFFSET),
            offset(header, "debug_size", cwsr::DEBUG_SIZE),
            offset(header, "err_payload_addr", cwsr::ERR_PAYLOAD_ADDR),
            offset(header, "err_event_id", cwsr::ERR_EVENT_ID),
        ])
        .check();
}
