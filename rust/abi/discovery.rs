// SPDX-License-Identifier: GPL-2.0 OR MIT

//! IP discovery: the table in VRAM that lists the IP blocks of a card and their register bases.
//!
//! Sources: `include/discovery.h` (layout), `include/soc15_hw_ip.h` (hardware ids),
//! `amdgpu/amdgpu_discovery.h` (location). All structures are packed and little endian. Offsets of
//! fields are in bytes from the start of the named structure; offsets stored *in* the table are
//! from the start of the table.

/// Bytes from the end of VRAM back to the table (`DISCOVERY_TMR_OFFSET`).
pub const TMR_OFFSET: u64 = 64 << 10;
/// Bytes read from there (`DISCOVERY_TMR_SIZE`).
pub const TMR_SIZE: usize = 10 << 10;

/// `binary_header.binary_signature` (`BINARY_SIGNATURE`).
pub const BINARY_SIGNATURE: u32 = 0x2821_1407;
/// Signature of the IP table.
pub const DISCOVERY_TABLE_SIGNATURE: u32 = 0x5344_5049;
/// Id of the GC table.
pub const GC_TABLE_ID: u32 = 0x4347;
/// Signature of the harvest table.
pub const HARVEST_TABLE_SIGNATURE: u32 = 0x5652_4148;
/// Id of the VCN table.
pub const VCN_INFO_TABLE_ID: u32 = 0x004e_4356;
/// Id of the MALL table.
pub const MALL_INFO_TABLE_ID: u32 = 0x4c4c_414d;
/// Id of the NPS table.
pub const NPS_INFO_TABLE_ID: u32 = 0x0053_504e;

/// Index in `binary_header.table_list`.
pub mod table {
    #![allow(missing_docs)]
    pub const IP_DISCOVERY: usize = 0;
    pub const GC: usize = 1;
    pub const HARVEST_INFO: usize = 2;
    pub const VCN_INFO: usize = 3;
    pub const MALL_INFO: usize = 4;
    pub const NPS_INFO: usize = 5;
    pub const TOTAL: usize = 6;
}

/// `struct binary_header`.
pub mod binary_header {
    /// u32.
    pub const SIGNATURE: usize = 0;
    /// u16.
    pub const VERSION_MAJOR: usize = 4;
    /// u16.
    pub const VERSION_MINOR: usize = 6;
    /// u16: byte sum of everything from [`BINARY_SIZE`] to the end.
    pub const BINARY_CHECKSUM: usize = 8;
    /// u16: bytes of the whole binary.
    pub const BINARY_SIZE: usize = 10;
    /// `table_info[6]`.
    pub const TABLE_LIST: usize = 12;
    /// Bytes of the header.
    pub const SIZE: usize = 60;
}

/// `struct nps_info_v1_0`: the memory partitions.
pub mod nps_info {
    /// u32: [`super::NPS_INFO_TABLE_ID`].
    pub const TABLE_ID: usize = 0;
    /// u16.
    pub const VERSION_MAJOR: usize = 4;
    /// u16.
    pub const VERSION_MINOR: usize = 6;
    /// u32: bytes of the table.
    pub const SIZE_BYTES: usize = 8;
    /// u32: NPS mode.
    pub const NPS_TYPE: usize = 12;
    /// u32: number of partitions.
    pub const COUNT: usize = 16;
    /// [`range`] of each partition.
    pub const INSTANCE_INFO: usize = 20;
    /// Entries of `INSTANCE_INFO` (`NPS_INFO_TABLE_MAX_NUM_INSTANCES`).
    pub const MAX_INSTANCES: usize = 12;
    /// Bytes of the structure.
    pub const SIZE: usize = INSTANCE_INFO + MAX_INSTANCES * range::SIZE;

    /// `struct nps_instance_info_v1_0`.
    pub mod range {
        /// u64: address of the first byte, with the offset of VRAM in the frame buffer.
        pub const BASE_ADDRESS: usize = 0;
        /// u64: address of the last byte.
        pub const LIMIT_ADDRESS: usize = 8;
        /// Bytes of the structure.
        pub const SIZE: usize = 16;
    }
}

/// `struct mall_info_v1_0` and `struct mall_info_v2_0`: the memory attached last level cache.
pub mod mall_info {
    /// u32: [`super::MALL_INFO_TABLE_ID`].
    pub const TABLE_ID: usize = 0;
    /// u16.
    pub const VERSION_MAJOR: usize = 4;
    /// u16.
    pub const VERSION_MINOR: usize = 6;
    /// u32: bytes of the table.
    pub const SIZE_BYTES: usize = 8;
    /// u32: bytes of the cache of a UMC (`mall_size_per_m`, `mall_size_per_umc`).
    pub const SIZE_PER_UMC: usize = 12;
    /// u32, version 1 only: UMCs with twice as much, a bit each.
    pub const M_S_PRESENT: usize = 16;
    /// u32, version 1 only: UMCs with half as much, a bit each.
    pub const M_HALF_USE: usize = 20;
    /// Bytes of the structure of either version.
    pub const SIZE: usize = 48;
}

/// `struct binary_header_v2`, for `VERSION_MAJOR` 2.
pub mod binary_header_v2 {
    /// u16: number of tables.
    pub const NUM_TABLES: usize = 12;
    /// `table_info[NUM_TABLES]`.
    pub const TABLE_LIST: usize = 16;
}

/// `struct table_info`.
pub mod table_info {
    /// u16: bytes from the start of the binary; 0 = absent.
    pub const OFFSET: usize = 0;
    /// u16: byte sum of the table.
    pub const CHECKSUM: usize = 2;
    /// u16: bytes of the table.
    pub const TABLE_SIZE: usize = 4;
    /// Bytes of the structure.
    pub const SIZE: usize = 8;
}

/// `struct ip_discovery_header`.
pub mod ip_discovery_header {
    /// u32: signature.
    pub const SIGNATURE: usize = 0;
    /// u16: 1 to 4; from version 3 on the entries are [`super::ip_v3`], with 4 [`super::ip_v4`].
    pub const VERSION: usize = 4;
    /// u16: bytes of the table.
    pub const TABLE_SIZE: usize = 6;
    /// u32: table id.
    pub const ID: usize = 8;
    /// u16: number of dies.
    pub const NUM_DIES: usize = 12;
    /// `die_info[16]`.
    pub const DIE_INFO: usize = 14;
    /// Entries of `DIE_INFO`.
    pub const MAX_DIES: usize = 16;
    /// u8, version 4 only: flags.
    pub const FLAGS: usize = 78;
    /// Flag: base addresses are 64 bits.
    pub const FLAG_BASE_ADDR_64_BIT: u8 = 1;
    /// Bytes of the header.
    pub const SIZE: usize = 80;
}

/// `struct die_info`.
pub mod die_info {
    /// u16: die id.
    pub const DIE_ID: usize = 0;
    /// u16: bytes from the start of the binary to the die's [`super::die_header`].
    pub const DIE_OFFSET: usize = 2;
    /// Bytes of the structure.
    pub const SIZE: usize = 4;
}

/// `struct die_header`.
pub mod die_header {
    /// u16: die id; equals the index in the list.
    pub const DIE_ID: usize = 0;
    /// u16: number of IP entries.
    pub const NUM_IPS: usize = 2;
    /// Bytes of the structure; the IP entries follow.
    pub const SIZE: usize = 4;
}

/// `struct ip_v3`: one instance of an IP block; the base addresses follow.
pub mod ip_v3 {
    /// u16: one of [`super::hwid`].
    pub const HW_ID: usize = 0;
    /// u8: instance number.
    pub const INSTANCE_NUMBER: usize = 2;
    /// u8: number of base addresses.
    pub const NUM_BASE_ADDRESS: usize = 3;
    /// u8: major version.
    pub const MAJOR: usize = 4;
    /// u8: minor version.
    pub const MINOR: usize = 5;
    /// u8: revision.
    pub const REVISION: usize = 6;
    /// u8: sub-revision in bits 3:0, variant in bits 7:4.
    pub const SUB_REVISION: usize = 7;
    /// `u32[NUM_BASE_ADDRESS]`: register segment bases, in dwords.
    pub const BASE_ADDRESS: usize = 8;
    /// Bytes without the base addresses.
    pub const SIZE: usize = 8;
}

/// `struct ip_v4`: as [`ip_v3`]; the base addresses are `u64[NUM_BASE_ADDRESS]` if the table's
/// header has [`FLAG_BASE_ADDR_64_BIT`](ip_discovery_header::FLAG_BASE_ADDR_64_BIT).
pub mod ip_v4 {
    pub use super::ip_v3::{
        BASE_ADDRESS, HW_ID, INSTANCE_NUMBER, MAJOR, MINOR, NUM_BASE_ADDRESS, REVISION, SIZE,
        SUB_REVISION,
    };
}

/// `struct gpu_info_header`: start of the GC table.
pub mod gpu_info_header {
    /// u32: [`super::GC_TABLE_ID`].
    pub const TABLE_ID: usize = 0;
    /// u16: major version.
    pub const VERSION_MAJOR: usize = 4;
    /// u16: minor version.
    pub const VERSION_MINOR: usize = 6;
    /// u32: bytes of header and data.
    pub const TABLE_SIZE: usize = 8;
    /// Bytes of the header.
    pub const SIZE: usize = 12;
}

/// `struct gc_info_v2_1`: geometry and caches of a gfx9 chip, all u32. `gc_info_v2_0` ends before
/// [`NUM_TCP_PER_SH`](gc_info_v2::NUM_TCP_PER_SH).
pub mod gc_info_v2 {
    #![allow(missing_docs)]
    pub const NUM_SE: usize = 12;
    pub const NUM_CU_PER_SH: usize = 16;
    pub const NUM_SH_PER_SE: usize = 20;
    pub const NUM_RB_PER_SE: usize = 24;
    pub const NUM_TCCS: usize = 28;
    pub const NUM_GPRS: usize = 32;
    pub const NUM_MAX_GS_THDS: usize = 36;
    pub const GS_TABLE_DEPTH: usize = 40;
    pub const GSPRIM_BUFF_DEPTH: usize = 44;
    pub const PARAMETER_CACHE_DEPTH: usize = 48;
    pub const DOUBLE_OFFCHIP_LDS_BUFFER: usize = 52;
    pub const WAVE_SIZE: usize = 56;
    pub const MAX_WAVES_PER_SIMD: usize = 60;
    pub const MAX_SCRATCH_SLOTS_PER_CU: usize = 64;
    pub const LDS_SIZE: usize = 68;
    pub const NUM_SC_PER_SE: usize = 72;
    pub const NUM_PACKER_PER_SC: usize = 76;
    /// Bytes of `gc_info_v2_0`.
    pub const SIZE_V2_0: usize = 80;
    pub const NUM_TCP_PER_SH: usize = 80;
    pub const TCP_SIZE_PER_CU: usize = 84;
    pub const NUM_SDP_INTERFACE: usize = 88;
    pub const NUM_CU_PER_SQC: usize = 92;
    pub const INSTRUCTION_CACHE_SIZE_PER_SQC: usize = 96;
    pub const SCALAR_DATA_CACHE_SIZE_PER_SQC: usize = 100;
    pub const TCC_SIZE: usize = 104;
    /// Bytes of `gc_info_v2_1`.
    pub const SIZE_V2_1: usize = 108;
}

/// `struct gc_info_v1_3`: geometry and caches of a chip from gfx10 on, all u32. Earlier minor
/// versions end at `SIZE_V1_*`.
pub mod gc_info_v1 {
    #![allow(missing_docs)]
    pub const NUM_SE: usize = 12;
    pub const NUM_WGP0_PER_SA: usize = 16;
    pub const NUM_WGP1_PER_SA: usize = 20;
    pub const NUM_RB_PER_SE: usize = 24;
    pub const NUM_GL2C: usize = 28;
    pub const NUM_GPRS: usize = 32;
    pub const NUM_MAX_GS_THDS: usize = 36;
    pub const GS_TABLE_DEPTH: usize = 40;
    pub const GSPRIM_BUFF_DEPTH: usize = 44;
    pub const PARAMETER_CACHE_DEPTH: usize = 48;
    pub const DOUBLE_OFFCHIP_LDS_BUFFER: usize = 52;
    pub const WAVE_SIZE: usize = 56;
    pub const MAX_WAVES_PER_SIMD: usize = 60;
    pub const MAX_SCRATCH_SLOTS_PER_CU: usize = 64;
    pub const LDS_SIZE: usize = 68;
    pub const NUM_SC_PER_SE: usize = 72;
    pub const NUM_SA_PER_SE: usize = 76;
    pub const NUM_PACKER_PER_SC: usize = 80;
    pub const NUM_GL2A: usize = 84;
    /// Bytes of `gc_info_v1_0`.
    pub const SIZE_V1_0: usize = 88;
    pub const NUM_TCP_PER_SA: usize = 88;
    pub const NUM_SDP_INTERFACE: usize = 92;
    pub const NUM_TCPS: usize = 96;
    /// Bytes of `gc_info_v1_1`.
    pub const SIZE_V1_1: usize = 100;
    pub const NUM_TCP_PER_WPG: usize = 100;
    pub const TCP_L1_SIZE: usize = 104;
    pub const NUM_SQC_PER_WGP: usize = 108;
    pub const L1_INSTRUCTION_CACHE_SIZE_PER_SQC: usize = 112;
    pub const L1_DATA_CACHE_SIZE_PER_SQC: usize = 116;
    pub const GL1C_PER_SA: usize = 120;
    pub const GL1C_SIZE_PER_INSTANCE: usize = 124;
    pub const GL2C_PER_GPU: usize = 128;
    /// Bytes of `gc_info_v1_2`.
    pub const SIZE_V1_2: usize = 132;
    pub const TCP_SIZE_PER_CU: usize = 132;
    pub const TCP_CACHE_LINE_SIZE: usize = 136;
    pub const INSTRUCTION_CACHE_SIZE_PER_SQC: usize = 140;
    pub const INSTRUCTION_CACHE_LINE_SIZE: usize = 144;
    pub const SCALAR_DATA_CACHE_SIZE_PER_SQC: usize = 148;
    pub const SCALAR_DATA_CACHE_LINE_SIZE: usize = 152;
    pub const TCC_SIZE: usize = 156;
    pub const TCC_CACHE_LINE_SIZE: usize = 160;
    /// Bytes of `gc_info_v1_3`.
    pub const SIZE_V1_3: usize = 164;
}

/// `struct harvest_table`.
pub mod harvest_table {
    /// u32: [`super::HARVEST_TABLE_SIGNATURE`].
    pub const SIGNATURE: usize = 0;
    /// u32: version.
    pub const VERSION: usize = 4;
    /// `harvest_info[32]`: hw_id u16, instance u8, reserved u8.
    pub const LIST: usize = 8;
    /// Bytes of an entry.
    pub const ENTRY_SIZE: usize = 4;
    /// Number of entries.
    pub const ENTRIES: usize = 32;
    /// Bytes of the table.
    pub const SIZE: usize = 136;
}

/// Hardware ids (`*_HWID`).
pub mod hwid {
    #![allow(missing_docs)]
    pub const MP1: u16 = 1;
    pub const THM: u16 = 3;
    pub const SMUIO: u16 = 4;
    pub const FUSE: u16 = 5;
    pub const CLKA: u16 = 6;
    pub const GC: u16 = 11;
    pub const VCN: u16 = 12;
    pub const MMHUB: u16 = 34;
    pub const ATHUB: u16 = 35;
    pub const OSSSYS: u16 = 40;
    pub const HDP: u16 = 41;
    pub const SDMA0: u16 = 42;
    pub const SDMA1: u16 = 43;
    pub const DF: u16 = 46;
    pub const SDMA2: u16 = 68;
    pub const SDMA3: u16 = 69;
    pub const PCIE: u16 = 70;
    pub const LSDMA: u16 = 91;
    pub const NBIF: u16 = 108;
    pub const UMC: u16 = 150;
    pub const XGMI: u16 = 200;
    pub const MP0: u16 = 255;
    /// Names by id (`hw_id_names`, `amdgpu_discovery.c`).
    pub const NAMES: [(u16, &core::ffi::CStr); 80] = [
        (1, c"MP1"),
        (2, c"MP2"),
        (3, c"THM"),
        (4, c"SMUIO"),
        (5, c"FUSE"),
        (6, c"CLKA"),
        (10, c"PWR"),
        (11, c"GC"),
        (12, c"UVD"),
        (13, c"AUDIO_AZ"),
        (14, c"ACP"),
        (15, c"DCI"),
        (16, c"DCO"),
        (17, c"XDMA"),
        (18, c"DCEAZ"),
        (19, c"SDPMUX"),
        (20, c"NTB"),
        (21, c"VPE"),
        (22, c"UMSCH"),
        (24, c"IOHC"),
        (28, c"L2IMU"),
        (32, c"VCE"),
        (34, c"MMHUB"),
        (35, c"ATHUB"),
        (36, c"DBGU_NBIO"),
        (37, c"DFX"),
        (38, c"DBGU0"),
        (39, c"DBGU1"),
        (40, c"OSSSYS"),
        (41, c"HDP"),
        (42, c"SDMA0"),
        (43, c"SDMA1"),
        (44, c"ISP"),
        (45, c"DBGU_IO"),
        (46, c"DF"),
        (47, c"CLKB"),
        (48, c"FCH"),
        (49, c"DFX_DAP"),
        (50, c"L1IMU_PCIE"),
        (51, c"L1IMU_NBIF"),
        (52, c"L1IMU_IOAGR"),
        (53, c"L1IMU3"),
        (54, c"L1IMU4"),
        (55, c"L1IMU5"),
        (56, c"L1IMU6"),
        (57, c"L1IMU7"),
        (58, c"L1IMU8"),
        (59, c"L1IMU9"),
        (60, c"L1IMU10"),
        (61, c"L1IMU11"),
        (62, c"L1IMU12"),
        (63, c"L1IMU13"),
        (64, c"L1IMU14"),
        (65, c"L1IMU15"),
        (66, c"WAFLC"),
        (67, c"FCH_USB_PD"),
        (68, c"SDMA2"),
        (69, c"SDMA3"),
        (70, c"PCIE"),
        (80, c"PCS"),
        (89, c"DDCL"),
        (90, c"SST"),
        (91, c"LSDMA"),
        (100, c"IOAGR"),
        (108, c"NBIF"),
        (124, c"IOAPIC"),
        (128, c"SYSTEMHUB"),
        (144, c"NTBCCP"),
        (150, c"UMC"),
        (168, c"SATA"),
        (170, c"USB"),
        (176, c"CCXSEC"),
        (200, c"XGMI"),
        (216, c"XGBE"),
        (255, c"MP0"),
        (271, c"DMU"),
        (272, c"DIO"),
        (274, c"DAZ"),
        (294, c"ATU"),
        (295, c"AIGC"),
    ];
}
