// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the parser of the discovery table: with the tables of the model's chips, with each kind
//! of defect, with random damage, and with failing allocations.

use gpu_model::{
    chips::{Chip, Generation},
    discovery::{binary, defective, identity, Defects},
    engines::memory::MemoryPartitions,
    regs::Ip,
};
use kernel::{
    alloc::{failing, Fail},
    prelude::*,
};
use rkfd_abi::discovery::{
    binary_header, gc_info_v1, gc_info_v2, gpu_info_header, harvest_table, hwid,
    ip_discovery_header, table, table_info, TMR_SIZE,
};

use super::table::{Bad, Discovery, MemoryTable};
use super::tables::*;
use crate::{
    asic::{
        caps::Caps,
        config::Caches,
        instance::{Version, MAX_SEGMENTS},
    },
    hw::{gfx12, gfx9_4_3},
    random::Random,
};

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
        mall_kib: chip.instances(Ip::Umc).count() as u32 * gc.mall_kib,
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

/// Entries of one die with the same id and number.
#[test]
fn repeated_entries() {
    let entry = |hw_id, inst| Entry {
        hw_id,
        inst,
        bases: 1,
    };
    let [one, two, three] = [entry(12, 0), entry(12, 1), entry(13, 0)];
    let repeated = |dies: Vec<Vec<Entry>>| -> Vec<bool> {
        let found = parse(&Tables::of(dies).build()).expect("valid");
        found.listed.iter().map(|ip| ip.repeated).collect()
    };
    let all = vec![GC, one.clone(), two.clone(), three.clone(), one.clone(), GC];
    let expected = [false, false, false, false, true, true];
    assert_eq!(repeated(vec![all]), expected);
    // Numbers count by die.
    let dies = vec![vec![GC, one.clone()], vec![one.clone(), one, two, three]];
    let expected = [false, false, false, true, false, false];
    assert_eq!(repeated(dies), expected);
    // The last entry counts, also on another die.
    let last = Entry { bases: 2, ..GC };
    for dies in [vec![vec![GC, last.clone()]], vec![vec![GC], vec![last]]] {
        let found = parse(&Tables::of(dies).build()).expect("valid");
        assert_eq!(found.gc0.num_bases, 2);
    }
    for chip in Chip::all() {
        let found = parse(&binary(chip, None, false)).expect("valid");
        assert!(found.listed.iter().all(|ip| !ip.repeated));
        let defects = Defects {
            repeated: true,
            ..Defects::default()
        };
        let found = parse(&defective(chip, None, defects)).expect("valid");
        let (last, others) = found.listed.split_last().expect("entries");
        assert!(last.repeated && others.iter().all(|ip| !ip.repeated));
    }
}

/// Masks of instances limit their numbers.
#[test]
fn numbers_of_instances() {
    for (hw_id, limit) in [(hwid::GC, 16), (hwid::SDMA0, 32)] {
        let with = |inst| {
            let entry = Entry {
                hw_id,
                inst,
                bases: 1,
            };
            parse(&Tables::of(vec![vec![GC, entry]]).build()).err()
        };
        assert_eq!(with(limit - 1), None);
        let bad = Bad::Value("the number of an instance", limit.into());
        assert_eq!(with(limit), Some(bad));
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
        for major in [0, 2] {
            check_tables(&Tables {
                major,
                ..tables.clone()
            });
        }
        // The sizes of tables in the header are not used.
        let mut b = tables.build();
        for index in 0..table::TOTAL {
            let info = binary_header::TABLE_LIST + index * table_info::SIZE;
            put16(&mut b, info + table_info::TABLE_SIZE, index);
        }
        checksums(&mut b);
        assert!(parse(&b).is_ok());
        // Nor is a table that follows the binary refused.
        let end = u16_at(&b, binary_header::BINARY_SIZE) - 4;
        put16(&mut b, binary_header::BINARY_SIZE, end);
        checksums(&mut b);
        assert!(parse(&b).is_ok());
    }
    // More base addresses than the driver stores.
    let many = Entry {
        bases: MAX_SEGMENTS + 9,
        ..entry(1)
    };
    let found = parse(&Tables::of(vec![vec![many, GC]]).build()).expect("valid");
    let first = &found.listed[0].instance;
    assert_eq!(usize::from(first.num_bases), MAX_SEGMENTS);
    assert_eq!(
        (found.gc0.hw_id, found.gc0.bases[0]),
        (hwid::GC, base(&GC, 0))
    );
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

/// Size of the memory attached last level cache: by UMCs of the IP table, without harvested ones.
#[test]
fn memory_attached_cache() {
    const MIB: u32 = 1 << 20;
    let umc = |n: usize| Entry {
        hw_id: hwid::UMC,
        inst: n as u8,
        bases: 1,
    };
    let tables = |umcs: usize, harvested: &[(u16, u8)], mall: Vec<u8>| {
        let mut die = vec![GC];
        die.extend((0..umcs).map(umc));
        Tables {
            after: vec![
                (table::HARVEST_INFO, harvest(harvested)),
                (table::MALL_INFO, mall),
            ],
            ..Tables::of(vec![die])
        }
    };
    let found = |tables: &Tables| {
        let found = parse(&tables.build()).expect("valid");
        let kib = found.config(gfx9_4_3::CAPS).caches.mall_kib;
        (kib, found.mall_error())
    };
    let kib = |umcs, harvested: &[(u16, u8)], mall| {
        let (kib, bad) = found(&tables(umcs, harvested, mall));
        assert_eq!(bad, None);
        kib
    };
    let v2 = || mall(2, 2 * MIB, u32::MAX, u32::MAX);
    assert_eq!(kib(128, &[], v2()), 256 << 10);
    assert_eq!(kib(0, &[], v2()), 0);
    let all: Vec<(u16, u8)> = (0..8).map(|n| (hwid::UMC, n)).collect();
    assert_eq!(kib(16, &all, v2()), 16 << 10);
    // As many harvested as there are, or others: not subtracted.
    assert_eq!(kib(8, &all, v2()), 16 << 10);
    assert_eq!(kib(16, &[(hwid::SDMA0, 0)], v2()), 32 << 10);
    // Of the entries those with a number below 32 count, even if the IP table does not list them.
    let listed = [(hwid::UMC, 31), (hwid::UMC, 32), (hwid::UMC, 31)];
    assert_eq!(kib(4, &listed, v2()), 4 << 10);
    assert_eq!(kib(4, &[], mall(1, 4 * MIB, 0b0011, 0b0110)), 22 << 10);
    // Masks have 32 bits.
    assert_eq!(kib(40, &[], mall(1, MIB, u32::MAX, 0)), 72 << 10);
    // Sizes that are too large.
    let most = mall(1, u32::MAX, u32::MAX, 0);
    assert_eq!(
        kib(32, &[], most),
        (32 * 2 * u64::from(u32::MAX) >> 10) as u32
    );
    assert_eq!(kib(500, &[], mall(2, u32::MAX, 0, 0)), 0x7cff_ffff);
    // Neither id nor checksum nor size of the table are verified.
    let mut tables = tables(4, &[], v2());
    tables.after[1].1[0] ^= 1;
    let mut b = tables.build();
    let info = binary_header::TABLE_LIST + table::MALL_INFO * table_info::SIZE;
    put16(&mut b, info + table_info::TABLE_SIZE, 0);
    close(&mut b);
    let caches = parse(&b).expect("valid").config(gfx9_4_3::CAPS).caches;
    assert_eq!(caches.mall_kib, 8 << 10);
    // Errors do not affect the rest of the table.
    for (mall, bad) in [
        (mall(0, MIB, 0, 0), Bad::Version("the MALL table", 0, 0)),
        (mall(3, MIB, 0, 0), Bad::Version("the MALL table", 3, 0)),
        (v2()[..15].to_vec(), Bad::Bounds("MALL table")),
        (mall(1, MIB, 0, 0)[..23].to_vec(), Bad::Bounds("MALL table")),
    ] {
        tables.after[1].1 = mall;
        assert_eq!(found(&tables), (0, Some(bad)));
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
                (table::MALL_INFO, mall(1, 1 << 21, 1, 2)),
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
        inst: n as u8 % 16,
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
