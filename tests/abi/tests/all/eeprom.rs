// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Table of bad pages in the EEPROM, and the blocks with RAS.

use rkfd_abi::eeprom as e;
use rkfd_abi::psp::ras_block;
use rkfd_abi_oracle::csource::{block, defines};
use rkfd_abi_oracle::{amd_text, fact, same, Program};

#[test]
fn table_of_bad_pages() {
    let header = amd_text("ras/core/eeprom.h");
    let code = amd_text("ras/core/eeprom.c");
    let i2c = amd_text("ras/ras_mgr/amdgpu_ras_eeprom_i2c.c");
    let place = |name: &str| format!("offsetof(struct ras_eeprom_table_header, {name})");
    Program::new()
        .text(&defines(&header, |n| {
            n.starts_with("RAS_TABLE_VER_") || n.starts_with("EEPROM_RECORD_UMC_")
        }))
        .text(&block(&header, "enum ras_eeprom_err_type {", "};"))
        .text(&block(
            &header,
            "struct ras_eeprom_table_header {",
            "} __packed;",
        ))
        .text(&defines(&code, |n| {
            n.starts_with("RAS_TABLE_") || n == "RAS_TBL_SIZE_BYTES"
        }))
        .text(&defines(&i2c, |n| n == "EEPROM_I2C_MADDR_4"))
        .facts([
            same("EEPROM_I2C_MADDR_4", e::TABLE_AT),
            same("RAS_TBL_SIZE_BYTES", e::SIZE),
            same("RAS_TABLE_VER_V1", e::VERSION_1),
            same("RAS_TABLE_VER_V2_1", e::VERSION_2_1),
            same("RAS_TABLE_VER_V3", e::VERSION_3),
            same("RAS_TABLE_HEADER_SIZE", e::header::SIZE),
            same("RAS_TABLE_HDR_VAL", e::header::GOOD),
            same("RAS_TABLE_HDR_BAD", e::header::BAD),
            same("RAS_TABLE_V2_1_INFO_SIZE", e::info::SIZE),
            same("RAS_TABLE_RECORD_SIZE", e::record::SIZE),
            same("RAS_EEPROM_ERR_NON_RECOVERABLE", e::record::NON_RECOVERABLE),
            same("EEPROM_RECORD_UMC_ADDR_MASK", e::PFN),
            same("EEPROM_RECORD_UMC_NPS_SHIFT", e::NPS_SHIFT),
            fact("signature", e::header::SIGNATURE, place("header")),
            fact("version", e::header::VERSION, place("version")),
            fact(
                "first record",
                e::header::FIRST_RECORD,
                place("first_rec_offset"),
            ),
            fact(
                "size of the table",
                e::header::TABLE_SIZE,
                place("tbl_size"),
            ),
            fact("checksum", e::CHECKSUM, place("checksum")),
            // The last field of a record has 6 bytes.
            fact("page", e::record::PAGE, "RAS_TABLE_RECORD_SIZE - 6"),
        ])
        .check();
    let decode = block(&code, "__decode_table_record_from_buf(", "}");
    let first = decode.find("record->err_type = buf[i++]").expect("type");
    let last = decode.find("record->retired_row_pfn").expect("page");
    assert!(first < decode.find("record->bank").expect("bank"));
    assert!(last > decode.find("record->mcumc_id").expect("UMC"));
}

#[test]
fn blocks_with_ras() {
    let header = amd_text("amdgpu/amdgpu_ras.h");
    Program::new()
        .text(&block(&header, "enum amdgpu_ras_block {", "};"))
        .facts([
            same("AMDGPU_RAS_BLOCK__UMC", ras_block::UMC),
            same("AMDGPU_RAS_BLOCK__GFX", ras_block::GFX),
        ])
        .check();
}
