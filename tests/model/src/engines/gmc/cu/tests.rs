// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tests of the caches of the CUs.

use super::super::tlb::Mtype;
use super::*;

/// Address of the first byte of a line.
const AT: u64 = 0x4000;

/// The vector cache of a CU.
const CU: Via = Via::Vector(CuNumber(3));
/// One of each kind.
const VIAS: [Via; 3] = [Via::Scalar, Via::Code, CU];

fn pa(at: u64, mtype: Mtype) -> Pa {
    Pa {
        target: Target::Vram(at),
        mtype,
        snooped: true,
        left: 0x1000,
    }
}

fn bench() -> CuCaches {
    CuCaches::new(Arc::new(Adversary::new(1)), 2)
}

/// Loads a byte; memory has `value` everywhere.
fn load(cus: &CuCaches, space: (u8, u8), via: Via, at: u64, value: u8) -> u8 {
    let mut byte = [0];
    let fill = |_: Pa, line: &mut [u8]| {
        line.fill(value);
        Ok(())
    };
    cus.read(space, via, pa(at, Mtype::Uc), &mut byte, fill)
        .unwrap();
    byte[0]
}

/// Loads from a line that has 1, when memory has 2, until the adversary drops it. Returns how often
/// it was stale.
fn stale(cus: &CuCaches, space: (u8, u8), via: Via) -> usize {
    let all = (0..1000).map(|_| load(cus, space, via, AT, 2));
    all.take_while(|value| *value == 1).count()
}

#[test]
fn lines_are_stale_until_the_adversary_drops_them() {
    for via in VIAS {
        let cus = bench();
        let count: usize = (0..100)
            .map(|_| {
                cus.discard();
                assert_eq!(load(&cus, (0, 8), via, AT, 1), 1);
                stale(&cus, (0, 8), via)
            })
            .sum();
        assert!((400..4000).contains(&count), "{count}");
    }
}

fn filled(via: Via) -> CuCaches {
    let cus = bench();
    assert_eq!(load(&cus, (0, 8), via, AT, 1), 1);
    cus
}

#[test]
fn invalidations_drop_the_lines_of_a_kind_and_an_xcc() {
    for (via, other) in [
        (Via::Scalar, Cache::Code),
        (Via::Code, Cache::Vector),
        (CU, Cache::Scalar),
    ] {
        let (cache, _) = via.place();
        for (xcc, kinds, expected) in [
            (0, &[cache][..], 2),
            (0, &Cache::ALL, 2),
            (0, &[other], 1),
            (0, &[], 1),
            (1, &Cache::ALL, 1),
        ] {
            let cus = filled(via);
            cus.invalidate(xcc, kinds);
            let seen = load(&cus, (0, 8), via, AT, 2);
            assert_eq!(seen, expected, "{cache:?} {xcc} {kinds:?}");
        }
    }
}

#[test]
fn a_packet_without_a_fence_may_invalidate() {
    let cus = bench();
    let fresh = (0..100).filter(|_| {
        cus.discard();
        load(&cus, (0, 8), Via::Scalar, AT, 1);
        cus.may_invalidate(0, &Cache::ALL);
        load(&cus, (0, 8), Via::Scalar, AT, 2) == 2
    });
    assert!((20..80).contains(&fresh.count()));
}

#[test]
fn lines_belong_to_a_vmid_and_an_address() {
    let cus = filled(Via::Scalar);
    assert_eq!(load(&cus, (0, 9), Via::Scalar, AT, 3), 3);
    assert_eq!(load(&cus, (1, 8), Via::Scalar, AT, 4), 4);
    assert_eq!(load(&cus, (0, 8), Via::Scalar, AT + LINE as u64, 5), 5);
    assert_eq!(load(&cus, (0, 8), Via::Code, AT, 6), 6);
    assert_eq!(load(&cus, (0, 8), Via::Scalar, AT + LINE as u64 - 1, 7), 1);
}

#[test]
fn loads_cross_lines() {
    let cus = bench();
    let mut buf = [0; 2 * LINE];
    let fill = |pa: Pa, line: &mut [u8]| {
        let Target::Vram(at) = pa.target else {
            return Err(NoMemory);
        };
        assert_eq!((at % LINE as u64, line.len()), (0, LINE));
        for (n, byte) in line.iter_mut().enumerate() {
            *byte = (at as usize + n) as u8;
        }
        Ok(())
    };
    let from = pa(AT + 5, Mtype::Nc);
    cus.read((0, 8), Via::Scalar, from, &mut buf, fill).unwrap();
    let expected: Vec<u8> = (5..5 + buf.len()).map(|n| n as u8).collect();
    assert_eq!(buf[..], expected);
}

#[test]
fn a_line_without_memory_is_not_kept() {
    let cus = bench();
    let from = pa(AT, Mtype::Nc);
    for _ in 0..2 {
        let result = cus.read((0, 8), Via::Code, from, &mut [0], |_, _| Err(NoMemory));
        assert_eq!(result, Err(NoMemory));
    }
}

#[test]
fn each_cu_has_a_vector_cache() {
    let cus = filled(CU);
    assert_eq!(load(&cus, (0, 8), Via::Vector(CuNumber(4)), AT, 2), 2);
    cus.invalidate_cu(0, CuNumber(4));
    assert_eq!(load(&cus, (0, 8), CU, AT, 3), 1);
    cus.invalidate_cu(0, CuNumber(3));
    assert_eq!(load(&cus, (0, 8), CU, AT, 3), 3);
}

#[test]
fn lines_of_a_range_are_forgotten() {
    for (vmid, at, len, expected) in [
        (8, AT, 1, 2),
        (8, AT - 1, 2, 2),
        (8, AT + LINE as u64, 1, 1),
        (9, AT, 1, 1),
        (8, AT, 0, 1),
    ] {
        let cus = filled(CU);
        cus.forget((0, vmid), CU, Target::Vram(at), len);
        assert_eq!(
            load(&cus, (0, 8), CU, AT, 2),
            expected,
            "{vmid} {at:#x} {len}"
        );
    }
}

#[test]
fn vector_caches_have_no_lines_of_coherent_pages() {
    for (mtype, cached) in [
        (Mtype::Nc, true),
        (Mtype::Rw, true),
        (Mtype::Cc, false),
        (Mtype::Uc, false),
    ] {
        assert_eq!(CU.caches(pa(AT, mtype)), cached);
        assert!(Via::Scalar.caches(pa(AT, mtype)) && Via::Code.caches(pa(AT, mtype)));
    }
}

#[test]
fn cus_have_numbers() {
    let slots = |se, sh, cu| WaveSlots {
        se,
        sh,
        cu,
        ..WaveSlots::default()
    };
    let cu = |s: &WaveSlots| CuNumber::of(s, Isa::Gfx942);
    let all = [
        slots(0, 0, 0),
        slots(0, 0, 1),
        slots(0, 1, 0),
        slots(1, 0, 0),
        slots(3, 1, 9),
    ];
    for (n, a) in all.iter().enumerate() {
        for (m, b) in all.iter().enumerate() {
            assert_eq!(cu(a) == cu(b), n == m);
        }
    }
    let wgp = |cu| CuNumber::of(&slots(2, 1, cu), Isa::Gfx1201);
    assert!(wgp(4) == wgp(5) && wgp(5) != wgp(6));
}
