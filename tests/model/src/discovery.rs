// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Builds the IP discovery binary that boot firmware places near the top of VRAM: IP blocks, their
//! register bases, shader core layout, harvesting.

use rkfd_abi::discovery::{
    binary_header, die_header, die_info, gc_info_v1, gc_info_v2, gpu_info_header, harvest_table,
    hwid, ip_discovery_header, ip_v3, mall_info, nps_info, table, table_info, BINARY_SIGNATURE,
    DISCOVERY_TABLE_SIGNATURE, GC_TABLE_ID, HARVEST_TABLE_SIGNATURE, MALL_INFO_TABLE_ID,
    NPS_INFO_TABLE_ID,
};

use crate::chips::{Chip, GcInfo, Generation, IpInstance};
use crate::engines::memory::MemoryPartitions;
use crate::regs::Ip;

/// Distance of the binary from the top of VRAM, in bytes.
pub use rkfd_abi::discovery::TMR_OFFSET;

fn hw_id(ip: Ip) -> Option<u16> {
    Some(match ip {
        Ip::Gc => hwid::GC,
        Ip::Mmhub => hwid::MMHUB,
        Ip::Athub => hwid::ATHUB,
        Ip::Osssys => hwid::OSSSYS,
        Ip::Hdp => hwid::HDP,
        Ip::Nbif => hwid::NBIF,
        Ip::Mp0 => hwid::MP0,
        Ip::Mp1 => hwid::MP1,
        Ip::Thm => hwid::THM,
        Ip::Smuio => hwid::SMUIO,
        Ip::Sdma => hwid::SDMA0,
        Ip::Umc => hwid::UMC,
        Ip::Df => hwid::DF,
        Ip::Smn => return None,
    })
}

/// Little-endian stores at fixed offsets.
struct Bytes(Vec<u8>);

impl Bytes {
    fn zeroed(len: usize) -> Self {
        Self(vec![0; len])
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.0[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn put64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    fn put(&mut self, at: usize, data: &[u8]) {
        self.0[at..at + data.len()].copy_from_slice(data);
    }
}

fn checksum(bytes: &[u8]) -> u16 {
    bytes
        .iter()
        .fold(0u16, |sum, b| sum.wrapping_add((*b).into()))
}

/// Returns the id and the instance number of a block in the table. The engines of gfx12 have ids of
/// their own, as those of Navi: the C driver takes the registers of the second from `SDMA1_HWIP`
/// (`amdgpu_amdkfd_gfx_v12.c`, `get_sdma_rlc_reg_offset`).
pub fn identity(chip: &Chip, ip: Ip, instance: u8) -> Option<(u16, u8)> {
    match (chip.generation, ip, instance) {
        (Generation::Gfx12, Ip::Sdma, 1) => Some((hwid::SDMA1, 0)),
        _ => Some((hw_id(ip)?, instance)),
    }
}

fn ip_entry(instance: &IpInstance, (id, number): (u16, u8)) -> Vec<u8> {
    let mut entry = Bytes::zeroed(ip_v3::SIZE + 4 * instance.bases.len());
    entry.put16(ip_v3::HW_ID, id);
    entry.0[ip_v3::INSTANCE_NUMBER] = number;
    entry.0[ip_v3::NUM_BASE_ADDRESS] = instance.bases.len() as u8;
    let [major, minor, revision] = instance.version;
    entry.0[ip_v3::MAJOR] = major;
    entry.0[ip_v3::MINOR] = minor;
    entry.0[ip_v3::REVISION] = revision;
    for (i, base) in instance.bases.iter().enumerate() {
        entry.put32(ip_v3::BASE_ADDRESS + 4 * i, *base);
    }
    entry.0
}

/// Builds the IP table. `at` is its offset in the binary; die offsets count from the start of the
/// binary. With `repeated` the last entry is there twice.
fn ip_table(chip: &Chip, at: usize, repeated: bool) -> Vec<u8> {
    let mut entries: Vec<Vec<u8>> = chip
        .ips
        .iter()
        .filter_map(|i| Some(ip_entry(i, identity(chip, i.ip, i.instance)?)))
        .collect();
    if repeated {
        entries.extend(entries.last().cloned());
    }
    let die = ip_discovery_header::SIZE;
    let size = die + die_header::SIZE + entries.iter().map(Vec::len).sum::<usize>();
    let mut t = Bytes::zeroed(size);
    t.put32(ip_discovery_header::SIGNATURE, DISCOVERY_TABLE_SIGNATURE);
    t.put16(ip_discovery_header::VERSION, 4);
    t.put16(ip_discovery_header::TABLE_SIZE, size as u16);
    t.put16(ip_discovery_header::NUM_DIES, 1);
    t.put16(ip_discovery_header::DIE_INFO + die_info::DIE_ID, 0);
    t.put16(
        ip_discovery_header::DIE_INFO + die_info::DIE_OFFSET,
        (at + die) as u16,
    );
    t.put16(die + die_header::DIE_ID, 0);
    t.put16(die + die_header::NUM_IPS, entries.len() as u16);
    let mut next = die + die_header::SIZE;
    for entry in entries {
        t.put(next, &entry);
        next += entry.len();
    }
    t.0
}

fn gc_table(chip: &Chip) -> Vec<u8> {
    match chip.generation {
        Generation::Gfx9 => table_of(2, 1, gc_info_v2::SIZE_V2_1, &gc_values_v2(&chip.gc)),
        Generation::Gfx12 => table_of(1, 3, gc_info_v1::SIZE_V1_3, &gc_values_v1(&chip.gc)),
    }
}

fn table_of(major: u16, minor: u16, size: usize, values: &[(usize, u32)]) -> Vec<u8> {
    let mut t = Bytes::zeroed(size);
    t.put32(gpu_info_header::TABLE_ID, GC_TABLE_ID);
    t.put16(gpu_info_header::VERSION_MAJOR, major);
    t.put16(gpu_info_header::VERSION_MINOR, minor);
    t.put32(gpu_info_header::TABLE_SIZE, size as u32);
    for (at, value) in values {
        t.put32(*at, *value);
    }
    t.0
}

fn gc_values_v2(info: &GcInfo) -> Vec<(usize, u32)> {
    use gc_info_v2 as gc;
    vec![
        (gc::NUM_SE, info.num_se),
        (gc::NUM_CU_PER_SH, info.cu_per_sh),
        (gc::NUM_SH_PER_SE, info.sh_per_se),
        (gc::NUM_RB_PER_SE, info.rb_per_se),
        (gc::NUM_TCCS, info.tccs),
        (gc::NUM_GPRS, info.gprs),
        (gc::WAVE_SIZE, info.wave_size),
        (gc::MAX_WAVES_PER_SIMD, info.waves_per_simd),
        (gc::MAX_SCRATCH_SLOTS_PER_CU, info.scratch_slots_per_cu),
        (gc::LDS_SIZE, info.lds_kib),
        (gc::NUM_SC_PER_SE, 1),
        (gc::NUM_PACKER_PER_SC, 2),
        (gc::NUM_TCP_PER_SH, info.cu_per_sh),
        (gc::TCP_SIZE_PER_CU, info.tcp_kib),
        (gc::NUM_SDP_INTERFACE, info.sdp_interfaces),
        (gc::NUM_CU_PER_SQC, info.cu_per_sqc),
        (gc::INSTRUCTION_CACHE_SIZE_PER_SQC, info.sqc_inst_kib),
        (gc::SCALAR_DATA_CACHE_SIZE_PER_SQC, info.sqc_data_kib),
        (gc::TCC_SIZE, info.tcc_kib),
    ]
}

fn gc_values_v1(info: &GcInfo) -> Vec<(usize, u32)> {
    use gc_info_v1 as gc;
    let wgps = info.cu_per_sh / info.cus_per_unit;
    vec![
        (gc::NUM_SE, info.num_se),
        (gc::NUM_WGP0_PER_SA, wgps),
        (gc::NUM_WGP1_PER_SA, 0),
        (gc::NUM_RB_PER_SE, info.rb_per_se),
        (gc::NUM_GL2C, info.tccs),
        (gc::NUM_GPRS, info.gprs),
        (gc::WAVE_SIZE, info.wave_size),
        (gc::MAX_WAVES_PER_SIMD, info.waves_per_simd),
        (gc::MAX_SCRATCH_SLOTS_PER_CU, info.scratch_slots_per_cu),
        (gc::LDS_SIZE, info.lds_kib),
        (gc::NUM_SC_PER_SE, info.sh_per_se),
        (gc::NUM_SA_PER_SE, info.sh_per_se),
        (gc::NUM_PACKER_PER_SC, 4),
        (gc::NUM_GL2A, 4),
        (gc::NUM_TCP_PER_SA, info.cu_per_sh),
        (gc::NUM_SDP_INTERFACE, info.sdp_interfaces),
        (gc::NUM_TCPS, info.num_se * info.sh_per_se * info.cu_per_sh),
        (gc::NUM_TCP_PER_WPG, info.cus_per_unit),
        (gc::TCP_L1_SIZE, info.tcp_kib),
        (gc::NUM_SQC_PER_WGP, info.cus_per_unit / info.cu_per_sqc),
        (gc::L1_INSTRUCTION_CACHE_SIZE_PER_SQC, info.sqc_inst_kib),
        (gc::L1_DATA_CACHE_SIZE_PER_SQC, info.sqc_data_kib),
        (gc::GL1C_PER_SA, u32::from(info.gl1_kib != 0)),
        (gc::GL1C_SIZE_PER_INSTANCE, info.gl1_kib),
        (gc::GL2C_PER_GPU, info.tcc_kib),
        (gc::TCP_SIZE_PER_CU, info.tcp_kib),
        (gc::TCP_CACHE_LINE_SIZE, 128),
        (gc::INSTRUCTION_CACHE_SIZE_PER_SQC, info.sqc_inst_kib),
        (gc::INSTRUCTION_CACHE_LINE_SIZE, 128),
        (gc::SCALAR_DATA_CACHE_SIZE_PER_SQC, info.sqc_data_kib),
        (gc::SCALAR_DATA_CACHE_LINE_SIZE, 64),
        (gc::TCC_SIZE, info.tcc_kib),
        (gc::TCC_CACHE_LINE_SIZE, 256),
    ]
}

/// Builds the table of harvested blocks. CUs are fused off in `CC_GC_SHADER_ARRAY_CONFIG` instead.
fn harvest(chip: &Chip) -> Vec<u8> {
    let mut t = Bytes::zeroed(harvest_table::SIZE);
    t.put32(harvest_table::SIGNATURE, HARVEST_TABLE_SIGNATURE);
    t.put32(harvest_table::VERSION, 1);
    let known = chip.harvested.iter();
    let ids = known.filter_map(|(ip, n)| identity(chip, *ip, *n));
    for (i, (id, instance)) in ids.take(harvest_table::ENTRIES).enumerate() {
        let at = harvest_table::LIST + i * harvest_table::ENTRY_SIZE;
        t.put16(at, id);
        t.0[at + 2] = instance;
    }
    t.0
}

/// Builds the table of the memory attached last level cache, in either version.
fn mall(chip: &Chip) -> Vec<u8> {
    let major = match chip.generation {
        Generation::Gfx9 => 2,
        Generation::Gfx12 => 1,
    };
    let mut t = Bytes::zeroed(mall_info::SIZE);
    t.put32(mall_info::TABLE_ID, MALL_INFO_TABLE_ID);
    t.put16(mall_info::VERSION_MAJOR, major);
    t.put32(mall_info::SIZE_BYTES, mall_info::SIZE as u32);
    t.put32(mall_info::SIZE_PER_UMC, chip.gc.mall_kib << 10);
    t.0
}

/// Builds the table of memory partitions.
fn nps(partitions: &MemoryPartitions) -> Vec<u8> {
    let mut t = Bytes::zeroed(nps_info::SIZE);
    t.put32(nps_info::TABLE_ID, NPS_INFO_TABLE_ID);
    t.put16(nps_info::VERSION_MAJOR, 1);
    t.put32(nps_info::SIZE_BYTES, nps_info::SIZE as u32);
    t.put32(nps_info::NPS_TYPE, partitions.mode);
    t.put32(nps_info::COUNT, partitions.mode);
    for (i, range) in partitions.ranges().enumerate() {
        let at = nps_info::INSTANCE_INFO + i * nps_info::range::SIZE;
        t.put64(at + nps_info::range::BASE_ADDRESS, range.start);
        t.put64(at + nps_info::range::LIMIT_ADDRESS, range.end - 1);
    }
    t.0
}

/// Defects of a binary.
#[derive(Clone, Copy, Default)]
pub struct Defects {
    /// Its checksum is wrong.
    pub checksum: bool,
    /// The last entry of the IP table is there twice.
    pub repeated: bool,
    /// The header has major version 0, and no sizes of tables.
    pub sizes: bool,
}

/// Returns the discovery binary of `chip`, with the table of memory partitions if it has several
/// modes of them. With `corrupt` its checksum is wrong.
pub fn binary(chip: &Chip, memory: Option<&MemoryPartitions>, corrupt: bool) -> Vec<u8> {
    let defects = Defects {
        checksum: corrupt,
        ..Defects::default()
    };
    defective(chip, memory, defects)
}

/// As [`binary`], with defects.
pub fn defective(chip: &Chip, memory: Option<&MemoryPartitions>, defects: Defects) -> Vec<u8> {
    let ip_at = binary_header::SIZE;
    let mut tables = vec![(table::IP_DISCOVERY, ip_table(chip, ip_at, defects.repeated))];
    tables.push((table::GC, gc_table(chip)));
    tables.push((table::HARVEST_INFO, harvest(chip)));
    tables.push((table::MALL_INFO, mall(chip)));
    tables.extend(memory.map(|partitions| (table::NPS_INFO, nps(partitions))));
    let mut b = Bytes::zeroed(binary_header::SIZE);
    b.put32(binary_header::SIGNATURE, BINARY_SIGNATURE);
    b.put16(binary_header::VERSION_MAJOR, u16::from(!defects.sizes));
    for (index, content) in tables {
        let offset = b.0.len();
        let info = binary_header::TABLE_LIST + index * table_info::SIZE;
        b.put16(info + table_info::OFFSET, offset as u16);
        b.put16(info + table_info::CHECKSUM, checksum(&content));
        let size = if defects.sizes { 0 } else { content.len() };
        b.put16(info + table_info::TABLE_SIZE, size as u16);
        b.0.extend_from_slice(&content);
        b.0.resize(b.0.len().next_multiple_of(4), 0);
    }
    let size = b.0.len();
    b.put16(binary_header::BINARY_SIZE, size as u16);
    let sum = checksum(&b.0[binary_header::BINARY_SIZE..]);
    let sum = if defects.checksum { sum ^ 1 } else { sum };
    b.put16(binary_header::BINARY_CHECKSUM, sum);
    b.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chips::mi300x::{CHIP, ONE_XCC};
    use crate::chips::rx9070;
    use rkfd_abi::discovery::TMR_SIZE;

    fn u16_at(b: &[u8], at: usize) -> usize {
        u16::from_le_bytes([b[at], b[at + 1]]).into()
    }

    fn u32_at(b: &[u8], at: usize) -> u32 {
        u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
    }

    /// Checks checksum and signature of a table by the rules of AMD's header (byte sums, sizes from
    /// the table itself) and returns its offset.
    fn checked_table(b: &[u8], index: usize, signature: u32, size: usize) -> usize {
        let info = 12 + 8 * index;
        let offset = u16_at(b, info);
        assert_ne!(offset, 0);
        assert_eq!(u32_at(b, offset), signature);
        let sum: u32 = b[offset..offset + size].iter().map(|x| u32::from(*x)).sum();
        assert_eq!(sum as u16, u16_at(b, info + 2) as u16, "table {index}");
        offset
    }

    #[test]
    fn table_parses_by_amd_rules() {
        let b = binary(&ONE_XCC, None, false);
        assert!(b.len() < TMR_SIZE);
        assert_eq!(u32_at(&b, 0), 0x2821_1407);
        let size = u16_at(&b, 10);
        assert_eq!(size, b.len());
        let sum: u32 = b[10..size].iter().map(|x| u32::from(*x)).sum();
        assert_eq!(sum as u16, u16_at(&b, 8) as u16);
        let ips = checked_table(&b, 0, 0x5344_5049, u16_at(&b, u16_at(&b, 12) + 6));
        assert_eq!(u16_at(&b, ips + 12), 1, "one die");
        assert_eq!(b[ips + 78] & 1, 0, "32-bit bases");
        let die = u16_at(&b, ips + 14 + 2);
        assert_eq!(u16_at(&b, die), 0);
        let mut at = die + 4;
        let mut seen = Vec::new();
        for _ in 0..u16_at(&b, die + 2) {
            let bases = usize::from(b[at + 3]);
            seen.push((u16_at(&b, at), b[at + 2], [b[at + 4], b[at + 5], b[at + 6]]));
            if u16_at(&b, at) == 11 {
                assert_eq!((u32_at(&b, at + 8), u32_at(&b, at + 12)), (0x2000, 0xa000));
            }
            if u16_at(&b, at) == 108 {
                assert_eq!((bases, u32_at(&b, at + 8 + 8)), (9, 0xd20));
            }
            at += 8 + 4 * bases;
        }
        assert_eq!(seen.len(), ONE_XCC.ips.len());
        assert!(seen.contains(&(11, 0, [9, 4, 3])));
        assert_eq!(seen.iter().filter(|(id, ..)| *id == 42).count(), 4);
        for needed in [34, 35, 40, 41, 108, 255, 1, 4] {
            assert!(
                seen.iter().any(|(id, ..)| *id == needed),
                "hardware id {needed}"
            );
        }
    }

    #[test]
    fn gc_and_harvest_tables() {
        let b = binary(&ONE_XCC, None, false);
        let gc = checked_table(&b, 1, 0x4347, u32_at(&b, u16_at(&b, 20) + 8) as usize);
        assert_eq!((u16_at(&b, gc + 4), u16_at(&b, gc + 6)), (2, 1));
        let cus = u32_at(&b, gc + 12) * u32_at(&b, gc + 16) * u32_at(&b, gc + 20);
        assert_eq!(cus, 40);
        assert_eq!(u32_at(&b, gc + 104), 4096, "L2 in KiB");
        let harvest = checked_table(&b, 2, 0x5652_4148, 8 + 32 * 4);
        assert_eq!(u16_at(&b, harvest + 8), 0);
        for absent in [3, 5] {
            assert_eq!(u16_at(&b, 12 + 8 * absent), 0);
        }
    }

    #[test]
    fn mall_tables() {
        for (chip, major, mib) in [(&CHIP, 2, 256), (&ONE_XCC, 2, 256), (&rx9070::CHIP, 1, 64)] {
            let b = binary(chip, None, false);
            let mall = checked_table(&b, 4, 0x4c4c_414d, 48);
            assert_eq!((u16_at(&b, mall + 4), u16_at(&b, mall + 6)), (major, 0));
            assert_eq!(u32_at(&b, mall + 8), 48);
            let umcs = chip.ips.iter().filter(|i| i.ip == Ip::Umc).count() as u32;
            assert_eq!(u32_at(&b, mall + 12) * umcs, mib << 20);
            assert_eq!([u32_at(&b, mall + 16), u32_at(&b, mall + 20)], [0, 0]);
        }
    }

    #[test]
    fn harvested_blocks_are_listed() {
        static CHIP_4XCC: Chip = Chip {
            harvested: &[(Ip::Gc, 1), (Ip::Gc, 7)],
            ..CHIP
        };
        let b = binary(&CHIP_4XCC, None, false);
        assert!(b.len() < TMR_SIZE);
        let harvest = checked_table(&b, 2, 0x5652_4148, 8 + 32 * 4);
        let entry = |n: usize| (u16_at(&b, harvest + 8 + 4 * n), b[harvest + 10 + 4 * n]);
        assert_eq!([entry(0), entry(1)], [(11, 1), (11, 7)]);
        assert_eq!(entry(2).0, 0);
        // They stay in the IP table.
        let die = u16_at(&b, u16_at(&b, 12) + 14 + 2);
        assert_eq!(u16_at(&b, die + 2), CHIP.ips.len());
    }

    #[test]
    fn memory_partitions() {
        let partitions = MemoryPartitions {
            mode: 4,
            start: 5 << 30,
            vram: 4 << 30,
        };
        let b = binary(&CHIP, Some(&partitions), false);
        assert!(b.len() < TMR_SIZE);
        let nps = checked_table(&b, 5, 0x53_504e, 212);
        assert_eq!((u16_at(&b, nps + 4), u16_at(&b, nps + 6)), (1, 0));
        assert_eq!(u32_at(&b, nps + 8), 212);
        assert_eq!([u32_at(&b, nps + 12), u32_at(&b, nps + 16)], [4, 4]);
        let u64_at = |at: usize| u64::from(u32_at(&b, at)) | u64::from(u32_at(&b, at + 4)) << 32;
        for n in 0..4 {
            let at = nps + 20 + 16 * n;
            assert_eq!(u64_at(at), (5 + n as u64) << 30);
            assert_eq!(u64_at(at + 8), ((6 + n as u64) << 30) - 1);
        }
    }

    #[test]
    fn wgp_counts() {
        let b = binary(&rx9070::CHIP, None, false);
        assert!(b.len() < TMR_SIZE);
        let gc = checked_table(&b, 1, 0x4347, u32_at(&b, u16_at(&b, 20) + 8) as usize);
        assert_eq!((u16_at(&b, gc + 4), u16_at(&b, gc + 6)), (1, 3));
        assert_eq!(u32_at(&b, gc + 8), 164);
        let wgps = u32_at(&b, gc + 16) + u32_at(&b, gc + 20);
        // By AMD's structure: shader engines, arrays per engine, two CUs per workgroup processor.
        assert_eq!(u32_at(&b, gc + 12) * u32_at(&b, gc + 76) * wgps * 2, 64);
        assert_eq!(u32_at(&b, gc + 56), 32, "lanes of a wave");
        assert_eq!(u32_at(&b, gc + 68), 64, "LDS in KiB");
        assert_eq!(u32_at(&b, gc + 156), 8192, "L2 in KiB");
        let die = u16_at(&b, u16_at(&b, 12) + 14 + 2);
        assert_eq!(u16_at(&b, die + 2), rx9070::CHIP.ips.len());
        let (mut at, mut sdma) = (die + 4, Vec::new());
        for _ in 0..u16_at(&b, die + 2) {
            sdma.extend(
                [42, 43]
                    .contains(&u16_at(&b, at))
                    .then(|| (u16_at(&b, at), b[at + 2])),
            );
            at += 8 + 4 * usize::from(b[at + 3]);
        }
        assert_eq!(sdma, [(42, 0), (43, 0)], "SDMA0_HWID, SDMA1_HWID");
    }

    #[test]
    fn corruption_is_detected() {
        assert_ne!(
            binary(&ONE_XCC, None, true)[8..10],
            binary(&ONE_XCC, None, false)[8..10]
        );
    }
}
