// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the errors of the parser of the discovery table: of each kind of defect.

use gpu_model::{chips::Chip, discovery::binary};
use kernel::prelude::*;
use rkfd_abi::discovery::{
    binary_header, binary_header_v2, die_header, die_info, gc_info_v1, gc_info_v2, gpu_info_header,
    harvest_table, hwid, ip_discovery_header, ip_v3, mall_info, nps_info, table, table_info,
    TMR_SIZE,
};

use super::table::{Bad, MemoryTable};
use super::tables::*;
use crate::hw::{gfx12, gfx9_4_3};

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
                // The MALL table is the last one, not needed, and ends with reserved bytes.
                let bad = parse(&b).map_or_else(Some, |found| found.mall_error());
                let reserved = len >= place(&whole, table::MALL_INFO).0 + mall_info::M_S_PRESENT;
                assert!(reserved || matches!(bad, Some(Bad::Bounds(_))), "{len}");
            } else if len >= binary_header::BINARY_SIZE + 2 {
                put16(&mut b, binary_header::BINARY_SIZE, len);
                let sum = sum(&b[binary_header::BINARY_SIZE..]);
                put16(&mut b, binary_header::BINARY_CHECKSUM, sum.into());
                assert!(error(&b).is_some(), "{len}");
            }
        }
    }
}

/// Every length of each table at the end of the binary, with checksums for it.
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
            let (at, size) = place(&whole, table::IP_DISCOVERY);
            assert!(parse(&whole).is_ok());
            for len in 0..size {
                let mut b = whole[..at + len].to_vec();
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
            tables.after = vec![(table::NPS_INFO, nps(8)), (index, content[..len].to_vec())];
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
            (table::HARVEST_INFO, harvest(&[])),
            (table::NPS_INFO, nps(8)[..len].to_vec()),
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
    let list: [Defect<'_>; 13] = [
        (
            &|b| put32(b, binary_header::SIGNATURE, 7),
            Bad::Signature("the table", 7),
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
            &|b| {
                let (at, _) = place(b, table::GC);
                put16(b, at + gpu_info_header::TABLE_SIZE, 0xffff);
            },
            Bad::Bounds("GC table"),
        ),
        (
            &|b| {
                let end = b.len();
                put16(b, info(table::HARVEST_INFO), end - harvest_table::SIZE + 1);
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
        // Major version 0 is that of 1.
        let zero = bit == binary_header::VERSION_MAJOR * 8;
        match error(&b) {
            None => assert!(minor || zero, "bit {bit}"),
            Some(Bad::Checksum("the table", expected, found)) => assert_ne!(expected, found),
            Some(Bad::Signature("the table", _)) => assert!(at < 4, "bit {bit}"),
            // Of version 2, or unknown.
            Some(Bad::Version("binary", ..) | Bad::Bounds(_)) if version => {}
            Some(Bad::Bounds("end" | "header")) => {}
            Some(other) => panic!("bit {bit}: {other:?}"),
        }
        if (nps_at..nps_at + nps_size).contains(&at) {
            let is_size = (nps_info::SIZE_BYTES..nps_info::NPS_TYPE).contains(&(at - nps_at));
            match memory_error(&b) {
                Some(Bad::Checksum("NPS table", ..)) => {}
                Some(Bad::Bounds("NPS table")) if is_size => {}
                other => panic!("bit {bit}: {other:?}"),
            }
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
            Bad::Bounds("IP entry"),
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
        (v2::NUM_SH_PER_SE, arrays, 2),
        (v2::NUM_CU_PER_SH, cus, 16),
    ] {
        check(gc_v2(), &[(at, max)], None);
        for value in [0, max + 1, u32::MAX] {
            check(gc_v2(), &[(at, value)], Some(Bad::Value(what, value)));
        }
    }
    for (at, what, max) in [(v1::NUM_SE, engines, 4), (v1::NUM_SA_PER_SE, arrays, 2)] {
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
    assert_eq!(memory_error(&[0; TMR_SIZE]), None);
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
    let (at, _) = place(&whole, table::NPS_INFO);
    for (at, value) in [
        (info + table_info::OFFSET, 0xffff),
        (info + table_info::OFFSET, whole.len()),
        (at + nps_info::SIZE_BYTES, 0xffff),
        (at + nps_info::SIZE_BYTES, nps_info::SIZE + 1),
        (at + nps_info::SIZE_BYTES + 2, 0xffff),
    ] {
        let mut b = whole.clone();
        put16(&mut b, at, value);
        assert_eq!(memory_error(&b), Some(Bad::Bounds("NPS table")));
    }
    for len in 0..whole.len() {
        assert!(memory_error(&whole[..len]).is_some(), "{len}");
    }
}
