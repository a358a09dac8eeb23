// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tests of the caches of the CUs.

use super::super::tlb::Mtype;
use super::*;

/// Address of the first byte of a line.
const AT: u64 = 0x4000;

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
fn load(cus: &CuCaches, space: (u8, u8), cache: Cache, at: u64, value: u8) -> u8 {
    let mut byte = [0];
    let fill = |_: Pa, line: &mut [u8]| {
        line.fill(value);
        Ok(())
    };
    cus.read(space, cache, pa(at, Mtype::Uc), &mut byte, fill)
        .unwrap();
    byte[0]
}

/// Loads from a line that has 1, when memory has 2, until the adversary drops it. Returns how often
/// it was stale.
fn stale(cus: &CuCaches, space: (u8, u8), cache: Cache) -> usize {
    let all = (0..1000).map(|_| load(cus, space, cache, AT, 2));
    all.take_while(|value| *value == 1).count()
}

#[test]
fn lines_are_stale_until_the_adversary_drops_them() {
    for cache in Cache::ALL {
        let cus = bench();
        let count: usize = (0..100)
            .map(|_| {
                cus.discard();
                assert_eq!(load(&cus, (0, 8), cache, AT, 1), 1);
                stale(&cus, (0, 8), cache)
            })
            .sum();
        assert!((400..4000).contains(&count), "{count}");
    }
}

fn filled(cache: Cache) -> CuCaches {
    let cus = bench();
    assert_eq!(load(&cus, (0, 8), cache, AT, 1), 1);
    cus
}

#[test]
fn invalidations_drop_the_lines_of_a_kind_and_an_xcc() {
    for (cache, other) in [(Cache::Scalar, Cache::Code), (Cache::Code, Cache::Scalar)] {
        for (xcc, kinds, expected) in [
            (0, &[cache][..], 2),
            (0, &Cache::ALL, 2),
            (0, &[other], 1),
            (0, &[], 1),
            (1, &Cache::ALL, 1),
        ] {
            let cus = filled(cache);
            cus.invalidate(xcc, kinds);
            let seen = load(&cus, (0, 8), cache, AT, 2);
            assert_eq!(seen, expected, "{cache:?} {xcc} {kinds:?}");
        }
    }
}

#[test]
fn a_packet_without_a_fence_may_invalidate() {
    let cus = bench();
    let fresh = (0..100).filter(|_| {
        cus.discard();
        load(&cus, (0, 8), Cache::Scalar, AT, 1);
        cus.may_invalidate(0, &Cache::ALL);
        load(&cus, (0, 8), Cache::Scalar, AT, 2) == 2
    });
    assert!((20..80).contains(&fresh.count()));
}

#[test]
fn lines_belong_to_a_vmid_and_an_address() {
    let cus = filled(Cache::Scalar);
    assert_eq!(load(&cus, (0, 9), Cache::Scalar, AT, 3), 3);
    assert_eq!(load(&cus, (1, 8), Cache::Scalar, AT, 4), 4);
    assert_eq!(load(&cus, (0, 8), Cache::Scalar, AT + LINE as u64, 5), 5);
    assert_eq!(load(&cus, (0, 8), Cache::Code, AT, 6), 6);
    assert_eq!(
        load(&cus, (0, 8), Cache::Scalar, AT + LINE as u64 - 1, 7),
        1
    );
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
    cus.read((0, 8), Cache::Scalar, from, &mut buf, fill)
        .unwrap();
    let expected: Vec<u8> = (5..5 + buf.len()).map(|n| n as u8).collect();
    assert_eq!(buf[..], expected);
}

#[test]
fn a_line_without_memory_is_not_kept() {
    let cus = bench();
    let from = pa(AT, Mtype::Nc);
    for _ in 0..2 {
        let result = cus.read((0, 8), Cache::Code, from, &mut [0], |_, _| Err(NoMemory));
        assert_eq!(result, Err(NoMemory));
    }
}
