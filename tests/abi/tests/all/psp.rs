// SPDX-License-Identifier: GPL-2.0 OR MIT

//! PSP interface and headers of firmware files.

use rkfd_abi::{firmware as f, psp};
use rkfd_abi_oracle::csource::{block, defines, enumerators};
use rkfd_abi_oracle::{amd_text, fact, same, Fact, Program};

const INTERFACE: &str = "amdgpu/psp_gfx_if.h";

/// Returns facts for the offsets of members of a C struct.
fn offsets(c_struct: &str, base: usize, members: &[(&str, usize)]) -> Vec<Fact> {
    members
        .iter()
        .map(|(member, ours)| {
            let expr = format!("{base} + offsetof({c_struct}, {member})");
            fact(format!("{c_struct}.{member}"), *ours, expr)
        })
        .collect()
}

/// Returns a fact for the size of a C struct.
fn size(c_struct: &str, ours: usize) -> Fact {
    fact(
        format!("sizeof {c_struct}"),
        ours,
        format!("sizeof({c_struct})"),
    )
}

/// Returns facts for numbers against enumerators with a prefix.
fn prefixed(prefix: &str, list: &[(&str, u32)]) -> Vec<Fact> {
    list.iter()
        .map(|(name, ours)| same(&format!("{prefix}{name}"), *ours))
        .collect()
}

#[test]
fn commands_and_structures() {
    use psp::{cmd_buf, frame, invoke, load_ip_fw, load_ta, load_toc, resp, setup_tmr};
    let (b, fr, r) = (
        "struct psp_gfx_cmd_resp",
        "struct psp_gfx_rb_frame",
        "struct psp_gfx_resp",
    );
    let text = amd_text(INTERFACE);
    let names = enumerators(&block(&text, "enum psp_gfx_cmd_id", "};"));
    for name in &names {
        let known = psp::cmd::ALL
            .iter()
            .any(|(n, _)| *name == format!("GFX_CMD_ID_{n}"));
        assert!(known, "{name} is not in rkfd_abi");
    }
    assert_eq!(names.len(), psp::cmd::ALL.len());
    Program::new()
        .include(INTERFACE)
        .facts(prefixed("GFX_CMD_ID_", psp::cmd::ALL))
        .facts(prefixed("GFX_FW_TYPE_", psp::fw_type::ALL))
        .facts(prefixed("GFX_CTRL_CMD_ID_", psp::control::ALL))
        .facts(prefixed("", psp::status::ALL))
        .facts([
            same("PSP_GFX_CMD_BUF_VERSION", psp::BUFFER_VERSION),
            same("GFX_CMD_STATUS_MASK", psp::STATUS.mask),
            same("GFX_CMD_ID_MASK", psp::COMMAND_ID.mask),
            same("GFX_FLAG_RESPONSE", psp::READY),
            same("GFX_CMD_RESPONSE_MASK", psp::READY),
            size(b, cmd_buf::SIZE),
            size(fr, frame::SIZE),
            size(r, resp::SIZE),
        ])
        .facts(offsets(
            b,
            0,
            &[
                ("buf_size", cmd_buf::BUF_SIZE),
                ("buf_version", cmd_buf::BUF_VERSION),
                ("cmd_id", cmd_buf::CMD_ID),
                ("resp_buf_addr_lo", cmd_buf::RESP_BUF_ADDR_LO),
                ("cmd", cmd_buf::CMD),
                ("resp", cmd_buf::RESP),
            ],
        ))
        .facts(offsets(
            fr,
            0,
            &[
                ("cmd_buf_addr_lo", frame::CMD_BUF_ADDR_LO),
                ("cmd_buf_addr_hi", frame::CMD_BUF_ADDR_HI),
                ("cmd_buf_size", frame::CMD_BUF_SIZE),
                ("fence_addr_lo", frame::FENCE_ADDR_LO),
                ("fence_addr_hi", frame::FENCE_ADDR_HI),
                ("fence_value", frame::FENCE_VALUE),
                ("sid_lo", frame::SID_LO),
                ("sid_hi", frame::SID_HI),
                ("vmid", frame::VMID),
                ("frame_type", frame::FRAME_TYPE),
                ("reserved1", frame::RESERVED1),
                ("reserved2", frame::RESERVED2),
            ],
        ))
        .facts(offsets(
            r,
            0,
            &[
                ("status", resp::STATUS),
                ("session_id", resp::SESSION_ID),
                ("fw_addr_lo", resp::FW_ADDR_LO),
                ("fw_addr_hi", resp::FW_ADDR_HI),
                ("tmr_size", resp::TMR_SIZE),
                ("uresp", resp::URESP),
            ],
        ))
        .facts(offsets(
            "struct psp_gfx_cmd_load_ta",
            0,
            &[
                ("app_phy_addr_lo", load_ta::APP_ADDR_LO),
                ("app_phy_addr_hi", load_ta::APP_ADDR_HI),
                ("app_len", load_ta::APP_LEN),
                ("cmd_buf_phy_addr_lo", load_ta::CMD_BUF_ADDR_LO),
                ("cmd_buf_phy_addr_hi", load_ta::CMD_BUF_ADDR_HI),
                ("cmd_buf_len", load_ta::CMD_BUF_LEN),
            ],
        ))
        .facts(offsets(
            "struct psp_gfx_cmd_unload_ta",
            0,
            &[("session_id", psp::unload_ta::SESSION_ID)],
        ))
        .facts(offsets(
            "struct psp_gfx_cmd_invoke_cmd",
            0,
            &[
                ("session_id", invoke::SESSION_ID),
                ("ta_cmd_id", invoke::TA_CMD_ID),
            ],
        ))
        .facts(offsets(
            "struct psp_gfx_cmd_setup_tmr",
            0,
            &[
                ("buf_phy_addr_lo", setup_tmr::BUF_ADDR_LO),
                ("buf_phy_addr_hi", setup_tmr::BUF_ADDR_HI),
                ("buf_size", setup_tmr::BUF_SIZE),
                ("tmr_flags", setup_tmr::FLAGS),
                ("system_phy_addr_lo", setup_tmr::SYSTEM_ADDR_LO),
                ("system_phy_addr_hi", setup_tmr::SYSTEM_ADDR_HI),
            ],
        ))
        .facts(offsets(
            "struct psp_gfx_cmd_load_ip_fw",
            0,
            &[
                ("fw_phy_addr_lo", load_ip_fw::FW_ADDR_LO),
                ("fw_phy_addr_hi", load_ip_fw::FW_ADDR_HI),
                ("fw_size", load_ip_fw::FW_SIZE),
                ("fw_type", load_ip_fw::FW_TYPE),
            ],
        ))
        .facts(offsets(
            "struct psp_gfx_cmd_load_toc",
            0,
            &[
                ("toc_phy_addr_lo", load_toc::TOC_ADDR_LO),
                ("toc_phy_addr_hi", load_toc::TOC_ADDR_HI),
                ("toc_size", load_toc::TOC_SIZE),
            ],
        ))
        .facts(offsets(
            "struct psp_gfx_cmd_reg_prog",
            0,
            &[
                ("reg_value", psp::prog_reg::REG_VALUE),
                ("reg_id", psp::prog_reg::REG_ID),
            ],
        ))
        .facts(offsets(
            "struct psp_gfx_cmd_sriov_spatial_part",
            0,
            &[
                ("mode", psp::spatial_part::MODE),
                ("override_ips", psp::spatial_part::OVERRIDE_IPS),
                ("override_xcds_avail", psp::spatial_part::OVERRIDE_XCDS_AVAIL),
                ("override_this_aid", psp::spatial_part::OVERRIDE_THIS_AID),
            ],
        ))
        .facts(offsets(
            "struct psp_gfx_cmd_fb_memory_part",
            0,
            &[("mode", psp::memory_part::MODE)],
        ))
        .facts(offsets(
            "struct psp_gfx_cmd_req_perf_hw",
            0,
            &[("req", psp::perf_hw::REQ)],
        ))
        .block(
            "virt_phy_addr",
            u64::from(setup_tmr::FLAG_VIRT_PHY_ADDR.mask),
            "struct psp_gfx_cmd_setup_tmr t; memset(&t, 0, sizeof t); t.bitfield.virt_phy_addr = 1; v = t.tmr_flags",
        )
        .block(
            "sriov_enabled",
            u64::from(setup_tmr::FLAG_SRIOV.mask),
            "struct psp_gfx_cmd_setup_tmr t; memset(&t, 0, sizeof t); t.bitfield.sriov_enabled = 1; v = t.tmr_flags",
        )
        .check();
}

#[test]
fn boot_loader_and_sizes() {
    let header = amd_text("amdgpu/amdgpu_psp.h");
    let wanted = |n: &str| matches!(n, "PSP_1_MEG" | "PSP_TMR_ALIGNMENT" | "PSP_TMR_SIZE");
    Program::new()
        .text("struct device { int asic_type; }; enum { CHIP_ALDEBARAN = 1 };")
        .text(&defines(&header, wanted))
        .text(&block(&header, "enum psp_bootloader_cmd {", "};"))
        .text(&block(&header, "enum psp_ring_type {", "};"))
        .facts(prefixed("PSP_BL__", psp::bootloader::ALL))
        .facts([
            same("PSP_1_MEG", psp::TRANSFER_SIZE),
            same("PSP_TMR_ALIGNMENT", psp::TMR_ALIGN),
            fact(
                "TMR",
                psp::TMR_SIZE,
                "({ struct device d = { 0 }; PSP_TMR_SIZE((&d)); })",
            ),
            fact(
                "kernel ring",
                psp::control::INIT_GPCOM_RING,
                "PSP_RING_TYPE__KM << 16",
            ),
        ])
        .check();
    let common = amd_text("amdgpu/amdgpu_psp.c");
    let line = format!("ring->ring_size = {:#x};", psp::RING_BYTES);
    assert!(common.contains(&line), "{line}");
}

#[test]
fn mailbox_registers_match_driver_use() {
    let text = amd_text("amdgpu/psp_v13_0.c");
    let function = |name: &str| block(&text, name, "}");
    for (name, reg) in [
        (
            "static int psp_v13_0_wait_for_vmbx_ready(",
            gpu_regs::psp::MAILBOX,
        ),
        (
            "static int psp_v13_0_wait_for_bootloader(struct",
            gpu_regs::psp::BOOTLOADER,
        ),
        (
            "static int psp_v13_0_bootloader_load_component(",
            gpu_regs::psp::BOOTLOADER_ADDRESS,
        ),
        (
            "static inline void psp_v13_0_init_sos_version(",
            gpu_regs::psp::VERSION,
        ),
        ("static int psp_v13_0_ring_stop(", gpu_regs::psp::COMMAND),
        (
            "static uint32_t psp_v13_0_ring_get_wptr(",
            gpu_regs::psp::RING_WPTR,
        ),
        (
            "static int psp_v13_0_ring_create(",
            gpu_regs::psp::RING_ADDRESS_LO,
        ),
        (
            "static int psp_v13_0_ring_create(",
            gpu_regs::psp::RING_ADDRESS_HI,
        ),
        (
            "static int psp_v13_0_ring_create(",
            gpu_regs::psp::RING_SIZE,
        ),
        (
            "static bool psp_v13_0_is_sos_alive(",
            gpu_regs::psp::SIGN_OF_LIFE,
        ),
        (
            "static void psp_v13_0_bootloader_print_status(",
            gpu_regs::psp::BOOTLOADER_STATUS,
        ),
        (
            "static bool psp_v13_0_get_ras_capability(",
            gpu_regs::psp::RAS_CAPABILITY,
        ),
    ] {
        assert!(function(name).contains(reg.name), "{name} {}", reg.name);
    }
    let smu = amd_text("pm/swsmu/smu13/smu_v13_0_6_ppt.c");
    Program::new()
        .text(&defines(&text, |n| n == "regMP1_PUB_SCRATCH0"))
        .text(&defines(&smu, |n| {
            n == "smnMP1_FIRMWARE_FLAGS" || n == "MP1_Public"
        }))
        .include("include/asic_reg/mp/mp_13_0_2_offset.h")
        .facts([
            same("regMP1_PUB_SCRATCH0", psp::SMU_VERSION_SMN),
            same("MP1_Public | smnMP1_FIRMWARE_FLAGS", psp::SMU_FLAGS_SMN),
            same("regMP0_SMN_C2PMSG_127", gpu_regs::psp::RAS_CAPABILITY.off),
            same(
                "regMP0_SMN_C2PMSG_127_BASE_IDX",
                gpu_regs::psp::RAS_CAPABILITY.seg,
            ),
        ])
        .check();
    let aux = function("static bool psp_v13_0_is_aux_sos_load_required(");
    assert!(aux.contains(&format!("< {:#x}", psp::SMU_VERSION_NO_AUX)));
    assert!(text.contains(&format!(
        "fw_pri_mc_addr >> {}",
        psp::BOOTLOADER_ADDRESS_SHIFT
    )));
    // On this chip the SMU performs the mode-1 reset, not the PSP.
    assert!(!text.contains("GFX_CTRL_CMD_ID_MODE1_RST"));
}

#[test]
fn firmware_files() {
    let header = amd_text("amdgpu/amdgpu_ucode.h");
    let part = |from, to| {
        let rest = &header[header.find(from).expect("start")..];
        &rest[..rest.find(to).expect("end")]
    };
    let (c, g, s) = (
        "struct common_firmware_header",
        "struct gfx_firmware_header_v1_0",
        "struct sdma_firmware_header_v1_0",
    );
    let (smc, entry) = (
        "struct smc_firmware_header_v2_1",
        "struct smc_soft_pptable_entry",
    );
    let (rs64, mes, imu, s3) = (
        "struct gfx_firmware_header_v2_0",
        "struct mes_firmware_header_v1_0",
        "struct imu_firmware_header_v1_0",
        "struct sdma_firmware_header_v3_0",
    );
    let (r0, r1, r2) = (
        "struct rlc_firmware_header_v2_0",
        "struct rlc_firmware_header_v2_1",
        "struct rlc_firmware_header_v2_2",
    );
    Program::new()
        .text(part(
            "struct common_firmware_header {",
            "/* gpu info payload */",
        ))
        .text(part(
            "struct imu_firmware_header_v1_0 {",
            "/* header is fixed size */",
        ))
        .facts([
            size(c, f::common::SIZE),
            size(g, f::gfx_v1_0::SIZE),
            size(s, f::sdma_v1_0::SIZE),
            size(r0, f::rlc_v2_0::SIZE),
            size(r1, f::rlc_v2_1::SIZE),
            size(r2, f::rlc_v2_2::SIZE),
            size(rs64, f::gfx_v2_0::SIZE),
            size(mes, f::mes_v1_0::SIZE),
            size(imu, f::imu_v1_0::SIZE),
            size(s3, f::sdma_v3_0::SIZE),
            size("struct psp_fw_bin_desc", f::bin_desc::SIZE),
            size(smc, f::smc_v2_1::SIZE),
            size(entry, f::soft_pptable::SIZE),
        ])
        .facts(offsets(
            smc,
            0,
            &[
                ("pptable_count", f::smc_v2_1::PPTABLE_COUNT),
                ("pptable_entry_offset", f::smc_v2_1::PPTABLE_ENTRY_OFFSET),
            ],
        ))
        .facts(offsets(
            entry,
            0,
            &[
                ("id", f::soft_pptable::ID),
                ("ppt_offset_bytes", f::soft_pptable::PPT_OFFSET_BYTES),
                ("ppt_size_bytes", f::soft_pptable::PPT_SIZE_BYTES),
            ],
        ))
        .facts(offsets(
            c,
            0,
            &[
                ("size_bytes", f::common::SIZE_BYTES),
                ("header_size_bytes", f::common::HEADER_SIZE_BYTES),
                ("header_version_major", f::common::HEADER_VERSION_MAJOR),
                ("header_version_minor", f::common::HEADER_VERSION_MINOR),
                ("ip_version_major", f::common::IP_VERSION_MAJOR),
                ("ip_version_minor", f::common::IP_VERSION_MINOR),
                ("ucode_version", f::common::UCODE_VERSION),
                ("ucode_size_bytes", f::common::UCODE_SIZE_BYTES),
                (
                    "ucode_array_offset_bytes",
                    f::common::UCODE_ARRAY_OFFSET_BYTES,
                ),
                ("crc32", f::common::CRC32),
            ],
        ))
        .facts(offsets(
            g,
            0,
            &[
                ("ucode_feature_version", f::gfx_v1_0::UCODE_FEATURE_VERSION),
                ("jt_offset", f::gfx_v1_0::JT_OFFSET),
                ("jt_size", f::gfx_v1_0::JT_SIZE),
            ],
        ))
        .facts(offsets(
            s,
            0,
            &[
                ("ucode_feature_version", f::sdma_v1_0::UCODE_FEATURE_VERSION),
                ("ucode_change_version", f::sdma_v1_0::UCODE_CHANGE_VERSION),
                ("jt_offset", f::sdma_v1_0::JT_OFFSET),
                ("jt_size", f::sdma_v1_0::JT_SIZE),
            ],
        ))
        .facts(offsets(
            r0,
            0,
            &[
                ("ucode_feature_version", f::rlc_v2_0::UCODE_FEATURE_VERSION),
                ("jt_offset", f::rlc_v2_0::JT_OFFSET),
                ("jt_size", f::rlc_v2_0::JT_SIZE),
                (
                    "save_and_restore_offset",
                    f::rlc_v2_0::SAVE_AND_RESTORE_OFFSET,
                ),
                (
                    "clear_state_descriptor_offset",
                    f::rlc_v2_0::CLEAR_STATE_DESCRIPTOR_OFFSET,
                ),
                (
                    "avail_scratch_ram_locations",
                    f::rlc_v2_0::AVAIL_SCRATCH_RAM_LOCATIONS,
                ),
                ("reg_restore_list_size", f::rlc_v2_0::REG_RESTORE_LIST_SIZE),
                ("reg_list_format_start", f::rlc_v2_0::REG_LIST_FORMAT_START),
                (
                    "reg_list_format_separate_start",
                    f::rlc_v2_0::REG_LIST_FORMAT_SEPARATE_START,
                ),
                (
                    "starting_offsets_start",
                    f::rlc_v2_0::STARTING_OFFSETS_START,
                ),
                (
                    "reg_list_format_size_bytes",
                    f::rlc_v2_0::REG_LIST_FORMAT_SIZE_BYTES,
                ),
                (
                    "reg_list_format_array_offset_bytes",
                    f::rlc_v2_0::REG_LIST_FORMAT_ARRAY_OFFSET_BYTES,
                ),
                ("reg_list_size_bytes", f::rlc_v2_0::REG_LIST_SIZE_BYTES),
                (
                    "reg_list_array_offset_bytes",
                    f::rlc_v2_0::REG_LIST_ARRAY_OFFSET_BYTES,
                ),
            ],
        ))
        .facts(offsets(
            r1,
            0,
            &[
                (
                    "save_restore_list_cntl_ucode_ver",
                    f::rlc_v2_1::SAVE_RESTORE_LIST_CNTL_UCODE_VER,
                ),
                (
                    "save_restore_list_cntl_feature_ver",
                    f::rlc_v2_1::SAVE_RESTORE_LIST_CNTL_FEATURE_VER,
                ),
                (
                    "save_restore_list_cntl_size_bytes",
                    f::rlc_v2_1::SAVE_RESTORE_LIST_CNTL_SIZE_BYTES,
                ),
                (
                    "save_restore_list_cntl_offset_bytes",
                    f::rlc_v2_1::SAVE_RESTORE_LIST_CNTL_OFFSET_BYTES,
                ),
                (
                    "save_restore_list_gpm_ucode_ver",
                    f::rlc_v2_1::SAVE_RESTORE_LIST_GPM_UCODE_VER,
                ),
                (
                    "save_restore_list_gpm_feature_ver",
                    f::rlc_v2_1::SAVE_RESTORE_LIST_GPM_FEATURE_VER,
                ),
                (
                    "save_restore_list_gpm_size_bytes",
                    f::rlc_v2_1::SAVE_RESTORE_LIST_GPM_SIZE_BYTES,
                ),
                (
                    "save_restore_list_gpm_offset_bytes",
                    f::rlc_v2_1::SAVE_RESTORE_LIST_GPM_OFFSET_BYTES,
                ),
                (
                    "save_restore_list_srm_ucode_ver",
                    f::rlc_v2_1::SAVE_RESTORE_LIST_SRM_UCODE_VER,
                ),
                (
                    "save_restore_list_srm_feature_ver",
                    f::rlc_v2_1::SAVE_RESTORE_LIST_SRM_FEATURE_VER,
                ),
                (
                    "save_restore_list_srm_size_bytes",
                    f::rlc_v2_1::SAVE_RESTORE_LIST_SRM_SIZE_BYTES,
                ),
                (
                    "save_restore_list_srm_offset_bytes",
                    f::rlc_v2_1::SAVE_RESTORE_LIST_SRM_OFFSET_BYTES,
                ),
            ],
        ))
        .facts(offsets(
            r2,
            0,
            &[
                (
                    "rlc_iram_ucode_size_bytes",
                    f::rlc_v2_2::RLC_IRAM_UCODE_SIZE_BYTES,
                ),
                (
                    "rlc_iram_ucode_offset_bytes",
                    f::rlc_v2_2::RLC_IRAM_UCODE_OFFSET_BYTES,
                ),
                (
                    "rlc_dram_ucode_size_bytes",
                    f::rlc_v2_2::RLC_DRAM_UCODE_SIZE_BYTES,
                ),
                (
                    "rlc_dram_ucode_offset_bytes",
                    f::rlc_v2_2::RLC_DRAM_UCODE_OFFSET_BYTES,
                ),
            ],
        ))
        .facts(offsets(
            rs64,
            0,
            &[
                ("ucode_feature_version", f::gfx_v2_0::UCODE_FEATURE_VERSION),
                ("ucode_size_bytes", f::gfx_v2_0::UCODE_SIZE_BYTES),
                ("data_size_bytes", f::gfx_v2_0::DATA_SIZE_BYTES),
                ("data_offset_bytes", f::gfx_v2_0::DATA_OFFSET_BYTES),
                ("ucode_start_addr_lo", f::gfx_v2_0::UCODE_START_ADDR_LO),
                ("ucode_start_addr_hi", f::gfx_v2_0::UCODE_START_ADDR_HI),
            ],
        ))
        .facts(offsets(
            mes,
            0,
            &[
                ("mes_ucode_size_bytes", f::mes_v1_0::MES_UCODE_SIZE_BYTES),
                (
                    "mes_ucode_offset_bytes",
                    f::mes_v1_0::MES_UCODE_OFFSET_BYTES,
                ),
                (
                    "mes_ucode_data_size_bytes",
                    f::mes_v1_0::MES_UCODE_DATA_SIZE_BYTES,
                ),
                (
                    "mes_ucode_data_offset_bytes",
                    f::mes_v1_0::MES_UCODE_DATA_OFFSET_BYTES,
                ),
                ("mes_uc_start_addr_lo", f::mes_v1_0::MES_UC_START_ADDR_LO),
                ("mes_uc_start_addr_hi", f::mes_v1_0::MES_UC_START_ADDR_HI),
            ],
        ))
        .facts(offsets(
            imu,
            0,
            &[
                (
                    "imu_iram_ucode_size_bytes",
                    f::imu_v1_0::IMU_IRAM_UCODE_SIZE_BYTES,
                ),
                (
                    "imu_dram_ucode_size_bytes",
                    f::imu_v1_0::IMU_DRAM_UCODE_SIZE_BYTES,
                ),
            ],
        ))
        .facts(offsets(
            s3,
            0,
            &[
                ("ucode_feature_version", f::sdma_v3_0::UCODE_FEATURE_VERSION),
                ("ucode_size_bytes", f::sdma_v3_0::UCODE_SIZE_BYTES),
            ],
        ))
        .facts(offsets(
            "struct psp_fw_bin_desc",
            0,
            &[
                ("fw_type", f::bin_desc::FW_TYPE),
                ("fw_version", f::bin_desc::FW_VERSION),
                ("offset_bytes", f::bin_desc::OFFSET_BYTES),
                ("size_bytes", f::bin_desc::SIZE_BYTES),
            ],
        ))
        .facts(offsets(
            "struct psp_firmware_header_v2_0",
            0,
            &[
                ("psp_fw_bin_count", f::psp_v2_0::BIN_COUNT),
                ("psp_fw_bin", f::psp_v2_0::BINS),
            ],
        ))
        .facts(offsets(
            "struct psp_firmware_header_v2_1",
            0,
            &[
                ("psp_fw_bin_count", f::psp_v2_1::BIN_COUNT),
                ("psp_aux_fw_bin_index", f::psp_v2_1::AUX_BIN_INDEX),
                ("psp_fw_bin", f::psp_v2_1::BINS),
            ],
        ))
        .facts(offsets(
            "struct ta_firmware_header_v2_0",
            0,
            &[
                ("ta_fw_bin_count", f::ta_v2_0::BIN_COUNT),
                ("ta_fw_bin", f::ta_v2_0::BINS),
            ],
        ))
        .facts(prefixed("PSP_FW_TYPE_PSP_", f::psp_type::ALL))
        .facts(prefixed("TA_FW_TYPE_PSP_", f::ta_type::ALL))
        .check();
    // The union that contains this header has 0x100 bytes.
    let bytes = 0x100 - f::common::SIZE - 4;
    assert!(header.contains("uint8_t raw[0x100];"));
    assert_eq!(f::MAX_BINS, bytes / f::bin_desc::SIZE * 2);
}

#[test]
fn xgmi_application() {
    use psp::xgmi::{self, link_info, list, node_info, shared};
    let memory = "struct ta_xgmi_shared_memory";
    let (info, link) = ("struct ta_xgmi_node_info", "struct ta_xgmi_peer_link_info");
    let extended = "struct ta_xgmi_extend_peer_link_info";
    let topology = "struct ta_xgmi_cmd_get_topology_info_input";
    Program::new()
        .include("amdgpu/ta_xgmi_if.h")
        .facts(prefixed("TA_COMMAND_XGMI__", xgmi::ta_cmd::ALL))
        .facts(prefixed("TA_XGMI_STATUS__", xgmi::ta_status::ALL))
        .facts([
            same("RSP_ID_MASK", xgmi::RESPONSE),
            same("EXTEND_PEER_LINK_INFO_CMD_FLAG", xgmi::EXTENDED_LINKS),
            same("TA_XGMI__MAX_CONNECTED_NODES", xgmi::MAX_NODES as u32),
            same("TA_XGMI__MAX_PORT_NUM", xgmi::MAX_PORTS as u32),
            size(memory, shared::SIZE),
            size(info, node_info::SIZE),
            size(link, link_info::SIZE),
            size(extended, link_info::EXTENDED_SIZE),
        ])
        .facts(offsets(
            memory,
            0,
            &[
                ("cmd_id", shared::CMD_ID),
                ("resp_id", shared::RESP_ID),
                ("xgmi_status", shared::STATUS),
                ("flag_extend_link_record", shared::FLAG_EXTEND_LINK_RECORD),
                ("caps_flag", shared::CAPS_FLAG),
                ("xgmi_in_message", shared::IN),
                ("xgmi_out_message", shared::OUT),
            ],
        ))
        .facts(offsets(
            topology,
            0,
            &[("num_nodes", list::NUM_NODES), ("nodes", list::NODES)],
        ))
        .facts(offsets(
            info,
            0,
            &[
                ("node_id", node_info::NODE_ID),
                ("num_hops", node_info::NUM_HOPS),
                ("is_sharing_enabled", node_info::IS_SHARING_ENABLED),
                ("sdma_engine", node_info::SDMA_ENGINE),
            ],
        ))
        .facts(offsets(
            extended,
            0,
            &[
                ("node_id", link_info::NODE_ID),
                ("num_links", link_info::NUM_LINKS),
                ("port_num", link_info::PORT_NUM),
            ],
        ))
        .check();
}
