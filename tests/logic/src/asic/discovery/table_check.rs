// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the parser of the discovery table: with the tables of the model's chips, with each kind
//! of defect, with random damage, and with failing allocations.

use gpu_model::{
    chips::{Chip, Generation},
    discovery::{binary, identity},
    engines::memory::MemoryPartitions,
    regs::Ip,
};
use kernel::{
    alloc::{failing, Fail},
    prelude::*,
};
use rkfd_abi::discovery::{
    binary_header, binary_header_v2, die_header, die_info, gc_info_v1, gc_info_v2, gpu_info_header,
    harvest_table, hwid, ip_discovery_header, ip_v3, nps_info, table, table_info, BINARY_SIGNATURE,
    DISCOVERY_TABLE_SIGNATURE, GC_TABLE_ID, HARVEST_TABLE_SIGNATURE, NPS_INFO_TABLE_ID, TMR_SIZE,
};

use super::table::{Bad, Discovery, MemoryTable};
use crate::{
    asic::{
        caps::Caps,
        config::Caches,
        instance::{Version, MAX_SEGMENTS},
    },
    hw::{gfx12, gfx9_4_3},
    random::Random,
};

const VRAM: u64 = 8 << 30;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn put16(bytes: &mut [u8], at: usize, value: usize) {
    put(bytes, at, &(value as u16).to_le_bytes());
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, &value.to_le_bytes());
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes([bytes[at], bytes[at + 1]]).into()
}

fn sum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, b| sum.wrapping_add((*b).into()))
}

/// An entry of the IP table.
#[derive(Clone)]
struct Entry {
    hw_id: u16,
    inst: u8,
    bases: usize,
}

const GC: Entry = Entry {
    hw_id: hwid::GC,
    inst: 0,
    bases: 3,
};

/// Tables from which a binary is made.
#[derive(Clone)]
struct Tables {
    /// Major version of the header.
    major: usize,
    /// Version of the IP table.
    version: usize,
    /// Base addresses have 64 bits.
    wide: bool,
    dies: Vec<Vec<Entry>>,
    /// The other tables, by index; those before the IP table, and those after it.
    before: Vec<(usize, Vec<u8>)>,
    after: Vec<(usize, Vec<u8>)>,
}

/// Base address `n` of an entry, with the bits that are not part of it if it has 64.
const fn base(entry: &Entry, n: usize) -> u32 {
    0x10_0000 * entry.inst as u32 + 0x100 * entry.hw_id as u32 + n as u32
}

impl Tables {
    fn new() -> Self {
        Self {
            major: 1,
            version: 4,
            wide: false,
            dies: vec![vec![GC]],
            before: vec![(table::GC, gc_v2())],
            after: Vec::new(),
        }
    }

    fn of(dies: Vec<Vec<Entry>>) -> Self {
        Self {
            dies,
            ..Self::new()
        }
    }

    /// Returns the IP table at an offset.
    fn ips(&self, at: usize) -> Vec<u8> {
        let mut t = vec![0; ip_discovery_header::SIZE];
        put32(
            &mut t,
            ip_discovery_header::SIGNATURE,
            DISCOVERY_TABLE_SIGNATURE,
        );
        put16(&mut t, ip_discovery_header::VERSION, self.version);
        put16(&mut t, ip_discovery_header::NUM_DIES, self.dies.len());
        for (n, die) in self.dies.iter().enumerate() {
            // The list of 16 dies ends before the flags.
            let info = ip_discovery_header::DIE_INFO + n * die_info::SIZE;
            let offset = at + t.len();
            put16(&mut t, info + die_info::DIE_ID, n);
            put16(&mut t, info + die_info::DIE_OFFSET, offset);
            t.extend((n as u16).to_le_bytes());
            t.extend((die.len() as u16).to_le_bytes());
            for entry in die {
                t.extend(entry.hw_id.to_le_bytes());
                t.extend([entry.inst, entry.bases as u8, 9, 4, entry.inst, 0]);
                for n in 0..entry.bases {
                    match self.wide {
                        false => t.extend(base(entry, n).to_le_bytes()),
                        true => t.extend((u64::from(base(entry, n)) | 7 << 30).to_le_bytes()),
                    }
                }
            }
        }
        if self.wide {
            t[ip_discovery_header::FLAGS] = ip_discovery_header::FLAG_BASE_ADDR_64_BIT;
        }
        t
    }

    fn list(&self) -> usize {
        match self.major {
            2 => binary_header_v2::TABLE_LIST,
            _ => binary_header::TABLE_LIST,
        }
    }

    fn build(&self) -> Vec<u8> {
        let list = self.list();
        let mut b = vec![0; list + table::TOTAL * table_info::SIZE];
        put32(&mut b, binary_header::SIGNATURE, BINARY_SIGNATURE);
        put16(&mut b, binary_header::VERSION_MAJOR, self.major);
        if self.major == 2 {
            put16(&mut b, binary_header_v2::NUM_TABLES, table::TOTAL);
        }
        let ips = [(table::IP_DISCOVERY, Vec::new())];
        for (index, content) in self.before.iter().chain(&ips).chain(&self.after) {
            let at = b.len();
            match *index {
                table::IP_DISCOVERY => b.extend(self.ips(at)),
                _ => b.extend(content),
            }
            let size = b.len() - at;
            let info = list + index * table_info::SIZE;
            put16(&mut b, info + table_info::OFFSET, at);
            put16(&mut b, info + table_info::TABLE_SIZE, size);
        }
        close(&mut b);
        b
    }
}

/// Sets the size of a binary to that of `b`, and the checksums of the tables that lie inside.
fn close(b: &mut [u8]) {
    let size = b.len();
    put16(b, binary_header::BINARY_SIZE, size);
    checksums(b);
}

/// Sets the checksums of a binary and of the tables that lie inside.
fn checksums(b: &mut [u8]) {
    let list = match u16_at(b, binary_header::VERSION_MAJOR) {
        2 => binary_header_v2::TABLE_LIST,
        _ => binary_header::TABLE_LIST,
    };
    // A table may contain the list: those at the end of the binary count.
    for index in 0..table::TOTAL {
        let info = list + index * table_info::SIZE;
        if info + table_info::SIZE > b.len() {
            break;
        }
        let at = u16_at(b, info + table_info::OFFSET);
        let end = at + u16_at(b, info + table_info::TABLE_SIZE);
        if let Some(content) = b.get(at..end) {
            let sum = sum(content);
            put16(b, info + table_info::CHECKSUM, sum.into());
        }
    }
    let size = u16_at(b, binary_header::BINARY_SIZE);
    if let Some(content) = b.get(binary_header::BINARY_SIZE..size) {
        let sum = sum(content);
        put16(b, binary_header::BINARY_CHECKSUM, sum.into());
    }
}

/// Returns offset and size of a table.
fn place(b: &[u8], index: usize) -> (usize, usize) {
    let info = binary_header::TABLE_LIST + index * table_info::SIZE;
    (
        u16_at(b, info + table_info::OFFSET),
        u16_at(b, info + table_info::TABLE_SIZE),
    )
}

fn gc_table(major: usize, minor: usize, size: usize, values: &[(usize, u32)]) -> Vec<u8> {
    let mut t = vec![0; size];
    put32(&mut t, gpu_info_header::TABLE_ID, GC_TABLE_ID);
    put16(&mut t, gpu_info_header::VERSION_MAJOR, major);
    put16(&mut t, gpu_info_header::VERSION_MINOR, minor);
    put32(&mut t, gpu_info_header::TABLE_SIZE, size as u32);
    for (at, value) in values {
        put32(&mut t, *at, *value);
    }
    t
}

fn gc_v2() -> Vec<u8> {
    let values = [
        (gc_info_v2::NUM_SE, 4),
        (gc_info_v2::NUM_CU_PER_SH, 10),
        (gc_info_v2::NUM_SH_PER_SE, 1),
    ];
    gc_table(2, 1, gc_info_v2::SIZE_V2_1, &values)
}

fn gc_v1() -> Vec<u8> {
    let values = [
        (gc_info_v1::NUM_SE, 4),
        (gc_info_v1::NUM_WGP0_PER_SA, 3),
        (gc_info_v1::NUM_WGP1_PER_SA, 1),
        (gc_info_v1::NUM_SA_PER_SE, 2),
    ];
    gc_table(1, 3, gc_info_v1::SIZE_V1_3, &values)
}

/// Returns a harvest table of these entries.
fn harvest(entries: &[(u16, u8)]) -> Vec<u8> {
    let mut t = vec![0; harvest_table::SIZE];
    put32(&mut t, harvest_table::SIGNATURE, HARVEST_TABLE_SIGNATURE);
    for (n, (hw_id, inst)) in entries.iter().enumerate() {
        let at = harvest_table::LIST + n * harvest_table::ENTRY_SIZE;
        put16(&mut t, at, (*hw_id).into());
        t[at + 2] = *inst;
    }
    t
}

/// Returns a table of `count` memory partitions of 1 GiB, with as many entries as it can have.
fn nps(count: u32) -> Vec<u8> {
    let mut t = vec![0; nps_info::SIZE];
    put32(&mut t, nps_info::TABLE_ID, NPS_INFO_TABLE_ID);
    put16(&mut t, nps_info::VERSION_MAJOR, 1);
    put32(&mut t, nps_info::NPS_TYPE, count);
    put32(&mut t, nps_info::COUNT, count);
    for n in 0..nps_info::MAX_INSTANCES {
        let at = nps_info::INSTANCE_INFO + n * nps_info::range::SIZE;
        let first = (n as u64) << 30;
        put(
            &mut t,
            at + nps_info::range::BASE_ADDRESS,
            &first.to_le_bytes(),
        );
        let last = first + (1 << 30) - 1;
        put(
            &mut t,
            at + nps_info::range::LIMIT_ADDRESS,
            &last.to_le_bytes(),
        );
    }
    t
}

fn parse(b: &[u8]) -> Result<Discovery, Bad> {
    Discovery::parse(b, VRAM)
}

fn error(b: &[u8]) -> Option<Bad> {
    parse(b).err()
}

fn memory_error(b: &[u8]) -> Option<Bad> {
    MemoryTable::parse(b).err()
}

fn caps(generation: Generation) -> &'static Caps {
    match generation {
        Generation::Gfx9 => gfx9_4_3::CAPS,
        Generation::Gfx12 => gfx12::CAPS,
    }
}

fn version([major, minor, rev]: [u8; 3]) -> Version {
    Version::new(major, minor, rev)
}

/// Returns the caches of a chip that the driver finds in the table.
fn caches(chip: &Chip) -> Caches {
    let gc = &chip.gc;
    let common = Caches {
        tcp_kib: gc.tcp_kib,
        sqc_inst_kib: gc.sqc_inst_kib,
        sqc_data_kib: gc.sqc_data_kib,
        gl1_kib: gc.gl1_kib,
        cu_per_sqc: gc.cu_per_sqc,
        tcc_kib: gc.tcc_kib,
        tcc_channels: gc.tccs,
        ..Caches::default()
    };
    match chip.generation {
        Generation::Gfx9 => common,
        Generation::Gfx12 => Caches {
            sqc_per_wgp: gc.cus_per_unit / gc.cu_per_sqc,
            tcp_line: 128,
            tcc_line: 256,
            sqc_inst_line: 128,
            sqc_data_line: 64,
            ..common
        },
    }
}

fn check_chip(chip: &Chip, found: &Discovery) {
    let expected = chip.ips.iter().filter_map(|ip| {
        let (hw_id, inst) = identity(chip, ip.ip, ip.instance)?;
        Some((hw_id, inst, ip, !chip.has(ip.ip, ip.instance)))
    });
    let expected: Vec<_> = expected.collect();
    assert_eq!(found.listed.len(), expected.len());
    let mut working = Vec::new();
    for (listed, (hw_id, inst, ip, harvested)) in found.listed.iter().zip(expected) {
        let i = &listed.instance;
        assert_eq!(
            (i.hw_id, i.inst, listed.harvested),
            (hw_id, inst, harvested)
        );
        assert_eq!((listed.die, i.version), (0, version(ip.version)));
        assert_eq!(usize::from(i.num_bases), ip.bases.len());
        assert_eq!(i.bases[..ip.bases.len()], *ip.bases);
        assert_eq!(
            i.bases[ip.bases.len()..],
            [0; MAX_SEGMENTS][ip.bases.len()..]
        );
        if !harvested {
            working.push((hw_id, inst));
        }
    }
    let instances = found.instances().expect("memory");
    let instances: Vec<_> = instances.iter().map(|i| (i.hw_id, i.inst)).collect();
    assert_eq!(instances, working);
    assert_eq!((found.gc0.hw_id, found.gc0.inst), (hwid::GC, 0));
    assert_eq!(found.gc0.bases[0], chip.base(Ip::Gc, 0, 0).expect("a base"));
    assert_eq!(found.vram_size, VRAM);

    let first = |ip: Ip| chip.ips.iter().find(|i| i.ip == ip).expect("one").version;
    let caps = caps(chip.generation);
    let config = found.config(caps);
    assert_eq!(found.gc_version(), Some(version(first(Ip::Gc))));
    assert_eq!(config.gc, version(first(Ip::Gc)));
    assert_eq!(config.sdma, version(first(Ip::Sdma)));
    let gc = &chip.gc;
    assert_eq!(
        [config.num_se, config.sh_per_se, config.cu_per_sh],
        [gc.num_se, gc.sh_per_se, gc.cu_per_sh]
    );
    assert_eq!(
        [config.wave_size, config.waves_per_simd, config.vgprs],
        [gc.wave_size, gc.waves_per_simd, gc.gprs]
    );
    assert_eq!(config.scratch_slots_per_cu, gc.scratch_slots_per_cu);
    assert_eq!(config.lds_bytes, gc.lds_kib << 10);
    let engines = chip.instances(Ip::Sdma).count() as u32;
    assert_eq!([config.num_sdma, config.num_vcn], [engines, 0]);
    assert_eq!(
        format!("{:?}", config.caches),
        format!("{:?}", caches(chip))
    );
}

#[test]
fn tables_of_the_model() {
    for chip in Chip::all() {
        let plain = binary(chip, None, false);
        check_chip(chip, &parse(&plain).expect("valid"));
        assert!(MemoryTable::parse(&plain).expect("valid").is_none());
        assert!(matches!(
            error(&binary(chip, None, true)),
            Some(Bad::Checksum("the table", ..))
        ));
        for mode in [1, 2, 4, 8] {
            let memory = MemoryPartitions {
                mode,
                start: 3 << 30,
                vram: VRAM,
            };
            let mut b = binary(chip, Some(&memory), false);
            // The driver reads what follows the binary, too.
            b.resize(TMR_SIZE, 0xa5);
            check_chip(chip, &parse(&b).expect("valid"));
            let found = MemoryTable::parse(&b).expect("valid").expect("a table");
            let ranges = memory.ranges().map(|range| (range.start, range.end - 1));
            assert_eq!(found.mode, mode);
            assert_eq!(found.ranges[..], ranges.collect::<Vec<_>>());
        }
    }
}

fn check_tables(tables: &Tables) {
    let found = parse(&tables.build()).expect("valid");
    let dies = (0..).zip(&tables.dies);
    let expected = dies.flat_map(|(n, die)| die.iter().map(move |entry| (n, entry)));
    let expected: Vec<(u16, &Entry)> = expected.collect();
    assert_eq!(found.listed.len(), expected.len());
    for (listed, (die, entry)) in found.listed.iter().zip(expected) {
        let i = &listed.instance;
        assert_eq!(
            (listed.die, i.hw_id, i.inst),
            (die, entry.hw_id, entry.inst)
        );
        assert_eq!(i.version, Version::new(9, 4, entry.inst));
        assert_eq!(usize::from(i.num_bases), entry.bases);
        let expected = (0..entry.bases).map(|n| base(entry, n));
        assert_eq!(i.bases[..entry.bases], expected.collect::<Vec<_>>());
    }
}

/// What no chip of the model has: the limits, several dies, older and newer tables.
#[test]
fn other_valid_tables() {
    let entry = |n: usize| Entry {
        hw_id: 12 + (n % 200) as u16,
        inst: n as u8,
        bases: n % (MAX_SEGMENTS + 1),
    };
    let several = vec![vec![GC, entry(1)], vec![entry(16), entry(0), entry(3)]];
    for (version, wide) in [(3, false), (4, false), (4, true)] {
        let tables = Tables {
            version,
            wide,
            ..Tables::of(several.clone())
        };
        check_tables(&tables);
        check_tables(&Tables { major: 2, ..tables });
    }
    // 16 dies: the last of the list overlaps the flags, of which it clears that of 64 bits.
    let mut dies = vec![vec![entry(2)]; ip_discovery_header::MAX_DIES];
    dies[15].push(GC);
    let mut tables = Tables::of(dies);
    tables.version = 3;
    check_tables(&tables);
    // 512 instances.
    let mut many = vec![Entry { bases: 0, ..GC }; 512];
    many[0] = GC;
    check_tables(&Tables::of(vec![many]));
    // Each version of the GC table.
    for (major, minor, size) in [
        (1, 0, gc_info_v1::SIZE_V1_0),
        (1, 1, gc_info_v1::SIZE_V1_1),
        (1, 2, gc_info_v1::SIZE_V1_2),
        (1, 3, gc_info_v1::SIZE_V1_3),
        (2, 0, gc_info_v2::SIZE_V2_0),
        (2, 1, gc_info_v2::SIZE_V2_1),
    ] {
        let mut gc = if major == 1 { gc_v1() } else { gc_v2() };
        put16(&mut gc, gpu_info_header::VERSION_MINOR, minor);
        gc.truncate(size);
        let cus = if major == 1 { 8 } else { 10 };
        let tables = Tables {
            before: vec![(table::GC, gc)],
            ..Tables::new()
        };
        let found = parse(&tables.build()).expect("valid");
        let config = found.config(gfx9_4_3::CAPS);
        assert_eq!([config.num_se, config.cu_per_sh], [4, cus]);
    }
    for count in 0..=8 {
        let tables = Tables {
            after: vec![(table::NPS_INFO, nps(count))],
            ..Tables::new()
        };
        let found = MemoryTable::parse(&tables.build()).expect("valid");
        assert_eq!(found.expect("a table").ranges.len(), count as usize);
    }
}

/// Every length of a binary, with its header as it is, and with a header for that length.
#[test]
fn truncated_binaries() {
    for chip in Chip::all() {
        let whole = binary(chip, None, false);
        for len in 0..whole.len() {
            let mut b = whole[..len].to_vec();
            let expected = if len < binary_header::BINARY_SIZE + 2 {
                "header"
            } else {
                "end"
            };
            assert_eq!(error(&b), Some(Bad::Bounds(expected)), "{len}");
            if len >= binary_header::SIZE {
                close(&mut b);
                assert!(matches!(error(&b), Some(Bad::Bounds(_))), "{len}");
            } else if len >= binary_header::BINARY_SIZE + 2 {
                put16(&mut b, binary_header::BINARY_SIZE, len);
                let sum = sum(&b[binary_header::BINARY_SIZE..]);
                put16(&mut b, binary_header::BINARY_CHECKSUM, sum.into());
                assert!(error(&b).is_some(), "{len}");
            }
        }
    }
}

/// Every length of each table, with checksums for it. A table is not used beyond its end, even if
/// others follow.
#[test]
fn truncated_tables() {
    // Dies and IP entries, which may lie anywhere in the binary.
    let others = [Entry { bases: 0, ..GC }, Entry { bases: 16, ..GC }];
    for entry in others {
        for (version, wide) in [(3, false), (4, false), (4, true)] {
            let tables = Tables {
                version,
                wide,
                ..Tables::of(vec![vec![GC], vec![entry.clone()]])
            };
            let whole = tables.build();
            let info = binary_header::TABLE_LIST + table_info::TABLE_SIZE;
            let (at, size) = place(&whole, table::IP_DISCOVERY);
            assert!(parse(&whole).is_ok());
            for len in 0..size {
                let mut b = whole[..at + len].to_vec();
                put16(&mut b, info, len);
                close(&mut b);
                assert!(matches!(error(&b), Some(Bad::Bounds(_))), "{len}");
            }
        }
    }
    let full = harvest(&[(hwid::VCN, 1); harvest_table::ENTRIES]);
    for (index, content, needed) in [
        (table::GC, gc_v1(), gc_info_v1::SIZE_V1_3),
        (table::GC, gc_v2(), gc_info_v2::SIZE_V2_1),
        (table::HARVEST_INFO, full, harvest_table::SIZE),
    ] {
        for len in 0..=content.len() {
            let mut tables = Tables::new();
            tables.before.retain(|(other, _)| *other != index);
            tables.after = vec![(index, content[..len].to_vec()), (table::NPS_INFO, nps(8))];
            let found = error(&tables.build());
            if len < needed {
                assert!(matches!(found, Some(Bad::Bounds(_))), "{index}: {len}");
            } else {
                assert_eq!(found, None, "{index}: {len}");
            }
        }
    }
    let needed = nps_info::INSTANCE_INFO + 8 * nps_info::range::SIZE;
    for len in 0..=nps_info::SIZE {
        let mut tables = Tables::new();
        tables.after = vec![
            (table::NPS_INFO, nps(8)[..len].to_vec()),
            (table::HARVEST_INFO, harvest(&[])),
        ];
        let b = tables.build();
        assert!(parse(&b).is_ok());
        let expected = (len < needed).then_some(Bad::Bounds("NPS table"));
        assert_eq!(memory_error(&b), expected, "{len}");
    }
}

/// A change of a binary, and the error that it causes.
type Defect<'a> = (&'a dyn Fn(&mut Vec<u8>), Bad);

#[test]
fn defects_of_the_header() {
    let info = |index: usize| binary_header::TABLE_LIST + index * table_info::SIZE;
    let whole = Tables {
        after: vec![(table::HARVEST_INFO, harvest(&[]))],
        ..Tables::new()
    }
    .build();
    assert_eq!(error(&whole), None);
    let list: [Defect<'_>; 14] = [
        (
            &|b| put32(b, binary_header::SIGNATURE, 7),
            Bad::Signature("the table", 7),
        ),
        (
            &|b| put16(b, binary_header::VERSION_MAJOR, 0),
            Bad::Version("binary", 0, 0),
        ),
        (
            &|b| {
                put16(b, binary_header::VERSION_MAJOR, 3);
                put16(b, binary_header::VERSION_MINOR, 1);
            },
            Bad::Version("binary", 3, 1),
        ),
        (
            &|b| {
                let size = b.len() + 1;
                put16(b, binary_header::BINARY_SIZE, size);
            },
            Bad::Bounds("end"),
        ),
        (
            &|b| put16(b, binary_header::BINARY_SIZE, 0),
            Bad::Bounds("header"),
        ),
        (
            &|b| {
                put16(
                    b,
                    binary_header::BINARY_SIZE,
                    binary_header::BINARY_SIZE - 1,
                )
            },
            Bad::Bounds("header"),
        ),
        (
            &|b| put16(b, info(table::IP_DISCOVERY), 0),
            Bad::Missing("IP table"),
        ),
        (&|b| put16(b, info(table::GC), 0), Bad::Missing("GC table")),
        (
            &|b| put16(b, info(table::GC), 0xffff),
            Bad::Bounds("GC table"),
        ),
        (
            &|b| {
                let end = b.len();
                put16(b, info(table::GC), end);
            },
            Bad::Bounds("GC table"),
        ),
        (
            &|b| put16(b, info(table::GC) + table_info::TABLE_SIZE, 0xffff),
            Bad::Bounds("GC table"),
        ),
        (
            &|b| {
                put16(
                    b,
                    info(table::HARVEST_INFO) + table_info::TABLE_SIZE,
                    0xffff,
                )
            },
            Bad::Bounds("harvest table"),
        ),
        (
            &|b| {
                let (at, _) = place(b, table::HARVEST_INFO);
                put32(b, at, 7);
            },
            Bad::Signature("the harvest table", 7),
        ),
        (
            &|b| {
                let (at, _) = place(b, table::GC);
                put32(b, at, 7);
            },
            Bad::Signature("the GC table", 7),
        ),
    ];
    for (change, expected) in list {
        let mut b = whole.clone();
        change(&mut b);
        checksums(&mut b);
        assert_eq!(error(&b), Some(expected));
        assert_eq!(expected.errno(), EINVAL);
        assert!(!expected.to_string().is_empty());
    }
    // A header of version 2 that lists fewer tables.
    for count in 0..table::TOTAL {
        let mut tables = Tables {
            after: vec![(table::NPS_INFO, nps(1))],
            ..Tables::new()
        };
        tables.major = 2;
        let mut b = tables.build();
        put16(&mut b, binary_header_v2::NUM_TABLES, count);
        checksums(&mut b);
        let expected = match count {
            0 => Some(Bad::Missing("IP table")),
            1 => Some(Bad::Missing("GC table")),
            _ => None,
        };
        assert_eq!(error(&b), expected);
        assert!(MemoryTable::parse(&b).expect("valid").is_none());
    }
}

/// Each bit of a binary is part of a checksum, but those of the signature and of its version.
#[test]
fn each_wrong_bit() {
    let whole = Tables {
        after: vec![
            (table::HARVEST_INFO, harvest(&[(hwid::GC, 0)])),
            (table::NPS_INFO, nps(4)),
        ],
        ..Tables::new()
    }
    .build();
    let (nps_at, nps_size) = place(&whole, table::NPS_INFO);
    for bit in 0..whole.len() * 8 {
        let at = bit / 8;
        let mut b = whole.clone();
        b[at] ^= 1 << (bit % 8);
        let minor = (binary_header::VERSION_MINOR..binary_header::BINARY_CHECKSUM).contains(&at);
        let version = (binary_header::VERSION_MAJOR..binary_header::VERSION_MINOR).contains(&at);
        match error(&b) {
            None => assert!(minor, "bit {bit}"),
            Some(Bad::Checksum("the table", expected, found)) => assert_ne!(expected, found),
            Some(Bad::Signature("the table", _)) => assert!(at < 4, "bit {bit}"),
            // Of version 2, or unknown.
            Some(Bad::Version("binary", ..) | Bad::Bounds(_)) if version => {}
            Some(Bad::Bounds("end" | "header")) => {}
            Some(other) => panic!("bit {bit}: {other:?}"),
        }
        if (nps_at..nps_at + nps_size).contains(&at) {
            assert!(matches!(
                memory_error(&b),
                Some(Bad::Checksum("NPS table", ..))
            ));
        }
    }
}

#[test]
fn defects_of_the_ip_table() {
    let whole = Tables::new().build();
    let (ips, _) = place(&whole, table::IP_DISCOVERY);
    let info = ips + ip_discovery_header::DIE_INFO;
    let die = ips + ip_discovery_header::SIZE;
    let entry = die + die_header::SIZE;
    let list: [Defect<'_>; 13] = [
        (
            &|b| put32(b, ips + ip_discovery_header::SIGNATURE, 7),
            Bad::Signature("the IP table", 7),
        ),
        (
            &|b| put16(b, ips + ip_discovery_header::VERSION, 2),
            Bad::Version("the IP table", 2, 0),
        ),
        (
            &|b| put16(b, ips + ip_discovery_header::VERSION, 5),
            Bad::Version("the IP table", 5, 0),
        ),
        (
            &|b| put16(b, ips + ip_discovery_header::NUM_DIES, 0),
            Bad::Value("the number of dies", 0),
        ),
        (
            &|b| put16(b, ips + ip_discovery_header::NUM_DIES, 17),
            Bad::Value("the number of dies", 17),
        ),
        (
            &|b| put16(b, info + die_info::DIE_OFFSET, 0xffff),
            Bad::Bounds("die"),
        ),
        (
            // Only the id of the die fits.
            &|b| {
                let end = b.len();
                put16(b, end - 2, 0);
                put16(b, info + die_info::DIE_OFFSET, end - 2);
            },
            Bad::Bounds("die"),
        ),
        (
            &|b| put16(b, die + die_header::DIE_ID, 1),
            Bad::Value("the id of a die", 1),
        ),
        (
            // The list of instances goes on after the binary.
            &|b| put16(b, die + die_header::NUM_IPS, 2),
            Bad::Bounds("IP entry"),
        ),
        (
            &|b| put16(b, die + die_header::NUM_IPS, 0),
            Bad::Missing("GC instance 0"),
        ),
        (
            &|b| b[entry + ip_v3::INSTANCE_NUMBER] = 1,
            Bad::Missing("GC instance 0"),
        ),
        (
            &|b| put16(b, entry + ip_v3::HW_ID, hwid::VCN.into()),
            Bad::Missing("GC instance 0"),
        ),
        (
            &|b| b[entry + ip_v3::NUM_BASE_ADDRESS] = 17,
            Bad::Value("the number of base addresses", 17),
        ),
    ];
    for (change, expected) in list {
        let mut b = whole.clone();
        change(&mut b);
        checksums(&mut b);
        assert_eq!(error(&b), Some(expected));
    }
    for count in [513, 600] {
        let many = Tables::of(vec![vec![Entry { bases: 0, ..GC }; count]]).build();
        let expected = Bad::Value("the number of instances", 512);
        assert_eq!(error(&many), Some(expected));
    }
    // In several dies, which may be the same bytes.
    let half = vec![Entry { bases: 0, ..GC }; 257];
    let two = Tables::of(vec![half.clone(), half]).build();
    let expected = Bad::Value("the number of instances", 512);
    assert_eq!(error(&two), Some(expected));
}

#[test]
fn defects_of_the_gc_table() {
    use gc_info_v1 as v1;
    use gc_info_v2 as v2;
    let engines = "the number of shader engines";
    let arrays = "the number of shader arrays";
    let cus = "the number of CUs of a shader array";
    let lds = "the size of LDS in KiB";
    let waves = "the number of waves of a SIMD";
    let check = |mut gc: Vec<u8>, values: &[(usize, u32)], expected| {
        for (at, value) in values {
            put32(&mut gc, *at, *value);
        }
        let tables = Tables {
            before: vec![(table::GC, gc)],
            ..Tables::new()
        };
        let found = parse(&tables.build()).map(|found| {
            // What is accepted can be used.
            found.config(gfx9_4_3::CAPS);
            found.config(gfx12::CAPS);
        });
        assert_eq!(found.err(), expected, "{values:?}");
    };
    let version = |major: u32, minor: u32| (gpu_info_header::VERSION_MAJOR, minor << 16 | major);
    for major in [0, 3, 0xffff] {
        let expected = Bad::Version("the GC table", major, 1);
        check(gc_v2(), &[version(major.into(), 1)], Some(expected));
    }
    // A later minor version only adds to the table.
    check(gc_v2(), &[version(2, 9)], None);
    check(gc_v1(), &[version(1, 9)], None);
    for (at, what, max) in [
        (v2::NUM_SE, engines, 4),
        (v2::NUM_SH_PER_SE, arrays, 4),
        (v2::NUM_CU_PER_SH, cus, 16),
    ] {
        check(gc_v2(), &[(at, max)], None);
        for value in [0, max + 1, u32::MAX] {
            check(gc_v2(), &[(at, value)], Some(Bad::Value(what, value)));
        }
    }
    for (at, what, max) in [(v1::NUM_SE, engines, 4), (v1::NUM_SA_PER_SE, arrays, 4)] {
        check(gc_v1(), &[(at, max)], None);
        for value in [0, max + 1, u32::MAX] {
            check(gc_v1(), &[(at, value)], Some(Bad::Value(what, value)));
        }
    }
    let wgps = |a, b| [(v1::NUM_WGP0_PER_SA, a), (v1::NUM_WGP1_PER_SA, b)];
    check(gc_v1(), &wgps(5, 3), None);
    for (a, b, value) in [
        (0, 0, 0),
        (5, 4, 18),
        (1 << 31, 1 << 31, u32::MAX),
        (1 << 31, 0, u32::MAX),
    ] {
        check(gc_v1(), &wgps(a, b), Some(Bad::Value(cus, value)));
    }
    // KiB that are more than 32 bits of bytes.
    for (gc, at) in [(gc_v2(), v2::LDS_SIZE), (gc_v1(), v1::LDS_SIZE)] {
        let most = u32::MAX >> 10;
        check(gc.clone(), &[(at, 0)], None);
        check(gc.clone(), &[(at, most)], None);
        for value in [most + 1, u32::MAX] {
            check(gc.clone(), &[(at, value)], Some(Bad::Value(lds, value)));
        }
    }
    for (gc, at) in [
        (gc_v2(), v2::MAX_WAVES_PER_SIMD),
        (gc_v1(), v1::MAX_WAVES_PER_SIMD),
    ] {
        check(gc.clone(), &[(at, 64)], None);
        for value in [65, u32::MAX] {
            check(gc.clone(), &[(at, value)], Some(Bad::Value(waves, value)));
        }
    }
    // Products of two fields.
    check(
        gc_v1(),
        &[
            (v1::NUM_SQC_PER_WGP, u32::MAX),
            (v1::GL1C_PER_SA, u32::MAX),
            (v1::GL1C_SIZE_PER_INSTANCE, u32::MAX),
        ],
        None,
    );
}

#[test]
fn harvested_instances() {
    let entry = |hw_id, inst| Entry {
        hw_id,
        inst,
        bases: 1,
    };
    let dies = vec![
        vec![GC, entry(hwid::SDMA0, 0), entry(hwid::GC, 1)],
        vec![entry(hwid::SDMA0, 0), entry(hwid::VCN, 1)],
    ];
    let found = |harvested: &[(u16, u8)]| {
        let tables = Tables {
            after: vec![(table::HARVEST_INFO, harvest(harvested))],
            ..Tables::of(dies.clone())
        };
        parse(&tables.build()).expect("valid")
    };
    let marks = |harvested: &[(u16, u8)]| -> Vec<bool> {
        let found = found(harvested);
        found.listed.iter().map(|ip| ip.harvested).collect()
    };
    let none = [false; 5];
    assert_eq!(marks(&[]), none);
    // Absent instances, also of blocks that exist.
    assert_eq!(
        marks(&[(hwid::GC, 2), (hwid::SDMA1, 0), (0xffff, 0xff)]),
        none
    );
    // The list ends at the first entry without a block.
    assert_eq!(marks(&[(hwid::GC, 2), (0, 0), (hwid::GC, 1)]), none);
    assert_eq!(marks(&[(hwid::GC, 1)]), [false, false, true, false, false]);
    // An instance with the same number on each die.
    let both = [false, true, false, true, false];
    assert_eq!(marks(&[(hwid::SDMA0, 0), (hwid::SDMA0, 0)]), both);
    let mut full = [(0x777, 0); harvest_table::ENTRIES];
    full[31] = (hwid::VCN, 1);
    assert_eq!(marks(&full), [false, false, false, false, true]);

    // GC instance 0 gives the addresses for user space, even if it is harvested.
    let found = found(&[(hwid::GC, 0), (hwid::GC, 1), (hwid::SDMA0, 0)]);
    assert_eq!((found.gc0.hw_id, found.gc0.inst), (hwid::GC, 0));
    assert_eq!(found.gc_version(), None);
    let config = found.config(gfx9_4_3::CAPS);
    assert_eq!([config.num_sdma, config.num_vcn], [0, 1]);
}

#[test]
fn defects_of_the_memory_table() {
    let check = |values: &[(usize, u32)], expected| {
        let mut nps = nps(4);
        for (at, value) in values {
            put32(&mut nps, *at, *value);
        }
        let tables = Tables {
            after: vec![(table::NPS_INFO, nps)],
            ..Tables::new()
        };
        assert_eq!(memory_error(&tables.build()), expected);
    };
    check(&[], None);
    check(
        &[(nps_info::TABLE_ID, 7)],
        Some(Bad::Signature("the NPS table", 7)),
    );
    for major in [0, 2, 0xffff] {
        let expected = Bad::Version("the NPS table", major, 5);
        let value = 5 << 16 | u32::from(major);
        check(&[(nps_info::VERSION_MAJOR, value)], Some(expected));
    }
    check(&[(nps_info::VERSION_MAJOR, 7 << 16 | 1)], None);
    for count in [9, 12, u32::MAX] {
        let expected = Bad::Value("the number of memory partitions", count);
        check(&[(nps_info::COUNT, count)], Some(expected));
    }
    // What the driver reads after a reset may be anything.
    assert_eq!(memory_error(&[]), Some(Bad::Bounds("version")));
    assert_eq!(
        memory_error(&[0; TMR_SIZE]),
        Some(Bad::Version("binary", 0, 0))
    );
    assert_eq!(
        memory_error(&[0xff; TMR_SIZE]),
        Some(Bad::Version("binary", 0xffff, 0xffff))
    );
    let whole = Tables {
        after: vec![(table::NPS_INFO, nps(4))],
        ..Tables::new()
    }
    .build();
    let info = binary_header::TABLE_LIST + table::NPS_INFO * table_info::SIZE;
    for (at, value) in [
        (info + table_info::OFFSET, 0xffff),
        (info + table_info::OFFSET, whole.len()),
        (info + table_info::TABLE_SIZE, 0xffff),
        (info + table_info::TABLE_SIZE, nps_info::SIZE + 1),
    ] {
        let mut b = whole.clone();
        put16(&mut b, at, value);
        assert_eq!(memory_error(&b), Some(Bad::Bounds("NPS table")));
    }
    for len in 0..whole.len() {
        assert!(memory_error(&whole[..len]).is_some(), "{len}");
    }
}

/// Uses all that a parser returns, within its limits.
fn examine(b: &[u8]) -> bool {
    let memory = MemoryTable::parse(b);
    if let Ok(Some(memory)) = &memory {
        assert!(memory.ranges.len() <= 8 && memory.ranges.capacity() <= 8);
    }
    let found = parse(b);
    match &found {
        Ok(found) => {
            assert!(found.listed.len() <= 512 && found.listed.capacity() <= 512);
            let working = found.instances().expect("memory");
            assert!(working.len() <= found.listed.len());
            for caps in [gfx9_4_3::CAPS, gfx12::CAPS] {
                let config = found.config(caps);
                let cus = config.num_se * config.sh_per_se * config.cu_per_sh;
                assert!((1..=256).contains(&cus));
                assert!(config.num_sdma <= 512);
                // Within 32 bits, as `dqm/occupancy.rs` computes.
                assert!(config
                    .simd_per_cu
                    .checked_mul(config.waves_per_simd)
                    .is_some());
            }
        }
        Err(bad) => {
            assert_eq!(bad.errno(), EINVAL);
            assert!(!bad.to_string().is_empty());
        }
    }
    if let Err(bad) = &memory {
        assert_eq!(bad.errno(), EINVAL);
    }
    found.is_ok()
}

/// Random damage with valid checksums.
#[test]
fn random_damage() {
    let mut random = Random::new();
    let memory = MemoryPartitions {
        mode: 4,
        start: 0,
        vram: VRAM,
    };
    let mut all: Vec<Vec<u8>> = Chip::all()
        .iter()
        .map(|chip| binary(chip, Some(&memory), false))
        .collect();
    for (major, wide, gc) in [(1, false, gc_v1()), (1, true, gc_v2()), (2, true, gc_v2())] {
        let tables = Tables {
            major,
            wide,
            before: vec![(table::GC, gc)],
            after: vec![
                (table::HARVEST_INFO, harvest(&[(hwid::SDMA0, 3)])),
                (table::NPS_INFO, nps(8)),
            ],
            ..Tables::of(vec![vec![GC; 40], vec![GC; 100]])
        };
        all.push(tables.build());
    }
    let (mut good, mut bad) = (0, 0);
    for _ in 0..60_000 {
        let which = random.below(all.len() as u64) as usize;
        let mut b = all[which].clone();
        let len = b.len() as u64;
        for _ in 0..1 + random.below(4) {
            // The headers and the small tables are few of the bytes.
            let end = random.pick(&[len, len, 160, 80]).min(len);
            let at = random.below(end - 3) as usize;
            match random.below(4) {
                0 => b[at] = random.word() as u8,
                1 => b[at] ^= 1 << random.below(8),
                2 => {
                    let value = random.pick(&[0, 1, 0x7fff, 0xffff, len as usize]);
                    put16(&mut b, at, value);
                }
                _ => {
                    let word = random.word() as u32;
                    let value = random.pick(&[0, 1 << 31, u32::MAX, word]);
                    put32(&mut b, at, value);
                }
            }
        }
        if random.below(8) == 0 {
            b.truncate(random.below(len) as usize);
            if b.len() >= binary_header::SIZE {
                close(&mut b);
            }
        }
        if b.len() >= binary_header::SIZE {
            checksums(&mut b);
        }
        match examine(&b) {
            true => good += 1,
            false => bad += 1,
        }
    }
    assert!(good > 1000 && bad > 1000, "{good} valid, {bad} not");
}

#[test]
fn failing_allocations() {
    let entry = |n: usize| Entry {
        hw_id: hwid::GC,
        inst: n as u8,
        bases: 1,
    };
    let tables = Tables {
        after: vec![(table::NPS_INFO, nps(8))],
        ..Tables::of(vec![(0..100).map(entry).collect()])
    };
    let b = tables.build();
    let whole = parse(&b).expect("valid");
    // Runs with each allocation failed; returns how many there are.
    let each = |f: &dyn Fn() -> Result<(), Error>| {
        for which in [Fail::Once as fn(u64) -> Fail, Fail::From] {
            let mut n = 0;
            loop {
                let (result, failed) = failing(which(n), f);
                assert_eq!(result, if failed { Err(ENOMEM) } else { Ok(()) });
                if !failed {
                    break;
                }
                n += 1;
            }
            assert!(n > 0);
        }
    };
    each(&|| parse(&b).map(|_| ()).map_err(|bad| bad.errno()));
    each(&|| {
        MemoryTable::parse(&b)
            .map(|_| ())
            .map_err(|bad| bad.errno())
    });
    each(&|| whole.instances().map(|_| ()));
    assert_eq!(failing(Fail::Once(0), || error(&b)).0, Some(Bad::Memory));
}
