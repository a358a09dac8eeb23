// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the ranges of memory partitions.

use std::ops::Range;

use kernel::{
    alloc::{failing, Fail},
    prelude::*,
};

use super::ranges::{check, divide, Bad};
use crate::asic::discovery::MemoryTable;

const PAGE: u64 = 4096;
/// Offset of VRAM in the frame buffer.
const OFFSET: u64 = 3 << 30;

/// Returns a table of ranges, given by their first and last byte in VRAM.
fn table(mode: u32, listed: &[(u64, u64)]) -> MemoryTable {
    let mut ranges = KVec::new();
    for (first, last) in listed {
        let range = (first.wrapping_add(OFFSET), last.wrapping_add(OFFSET));
        ranges.push(range, GFP_KERNEL).expect("memory");
    }
    MemoryTable { mode, ranges }
}

fn checked(listed: &[(u64, u64)], vram: u64) -> Result<Vec<Range<u64>>, Bad> {
    let table = table(listed.len() as u32, listed);
    Ok(check(&table, None, OFFSET, vram)?.into_iter().collect())
}

/// All pairs of ranges in four pages, with their ends at, before and behind the ends of pages.
#[test]
fn accepted_partitions_have_pages_of_their_own() {
    const PAGES: u64 = 4;
    let places = (0..=PAGES).flat_map(|n| [n * PAGE, n * PAGE + 1, n * PAGE + 0xfff]);
    let places: Vec<u64> = places.collect();
    let pairs = || {
        let pair = |first: &u64| {
            places
                .iter()
                .map(|last| (*first, *last))
                .collect::<Vec<_>>()
        };
        places.iter().flat_map(pair).collect::<Vec<_>>()
    };
    let mut accepted = 0;
    for one in pairs() {
        for other in pairs() {
            let listed = [one, other];
            let Ok(ranges) = checked(&listed, PAGES * PAGE) else {
                continue;
            };
            accepted += 1;
            for (range, (first, last)) in ranges.iter().zip(listed) {
                assert!(range.end - range.start >= PAGE, "{listed:x?}: {ranges:x?}");
                assert_eq!([range.start % PAGE, range.end % PAGE], [0, 0]);
                assert_eq!(range.start, first);
                if last == one.1.max(other.1) {
                    assert_eq!(range.end, PAGES * PAGE);
                } else {
                    assert!(range.end <= last + 1);
                }
            }
            let [a, b] = &ranges[..] else {
                panic!("{ranges:x?}");
            };
            assert!(a.end <= b.start || b.end <= a.start, "{ranges:x?}");
        }
    }
    assert!(accepted > 50, "{accepted}");
}

#[test]
fn defects_of_a_table() {
    let short = |first: u64, last: u64| Err(Bad::Short(OFFSET + first, OFFSET + last));
    let place = |first: u64, last: u64| Err(Bad::Place(first + OFFSET, last + OFFSET));
    let vram = 16 * PAGE;
    for last in [PAGE, PAGE + 1, PAGE + 0x7ff, PAGE + 0xffe] {
        let higher = (2 * PAGE, 3 * PAGE - 1);
        let both = [(PAGE, last), higher];
        assert_eq!(checked(&both, vram), short(PAGE, last));
        // Between others.
        let all = [(0, PAGE - 1), higher, (PAGE, last)];
        assert_eq!(checked(&all, vram), short(PAGE, last));
    }
    assert_eq!(checked(&[(PAGE, PAGE - 1)], vram), place(PAGE, PAGE - 1));
    assert_eq!(checked(&[(1, 2 * PAGE)], vram), place(1, 2 * PAGE));
    // One that is not the last, and one that begins there.
    let behind = [(PAGE, vram), (vram + PAGE, vram + 2 * PAGE)];
    assert_eq!(checked(&behind, vram), place(PAGE, vram));
    assert_eq!(checked(&[(vram, 2 * vram)], vram), place(vram, 2 * vram));
    assert_eq!(checked(&[(2 * PAGE, 1)], vram), place(2 * PAGE, 1));
    let twice = [(0, 2 * PAGE - 1), (PAGE, 3 * PAGE - 1)];
    assert_eq!(checked(&twice, vram), place(PAGE, 3 * PAGE - 1));
    let bad = Bad::Count {
        listed: 0,
        mode: 0,
        expected: None,
    };
    assert_eq!(checked(&[], vram), Err(bad));
    // Below VRAM.
    let mut below = table(1, &[]);
    below
        .ranges
        .push((0, PAGE - 1), GFP_KERNEL)
        .expect("memory");
    assert!(matches!(
        check(&below, None, OFFSET, vram),
        Err(Bad::Place(0, 4095))
    ));
    let one = table(1, &[(0, vram - 1)]);
    assert!(check(&one, Some(1), OFFSET, vram).is_ok());
    let expected = Some(4);
    assert!(matches!(
        check(&one, expected, OFFSET, vram),
        Err(Bad::Count {
            listed: 1,
            mode: 1,
            expected: Some(4)
        })
    ));
    let (found, failed) = failing(Fail::Once(0), || check(&one, None, OFFSET, vram));
    assert!(failed && matches!(found, Err(Bad::Memory)));
}

#[test]
fn the_last_range_ends_with_vram() {
    let vram = 16 * PAGE;
    for last in [PAGE, 8 * PAGE - 1, vram - 1, vram, vram + (16 << 20) - 1] {
        let one = checked(&[(PAGE, last)], vram).expect("valid");
        assert_eq!(&one[..], std::slice::from_ref(&(PAGE..vram)), "{last:#x}");
    }
    // In any order.
    let end = vram + (16 << 20) - 1;
    let two = checked(&[(8 * PAGE, end), (0, 8 * PAGE - 1)], vram).expect("valid");
    assert_eq!(two, [8 * PAGE..vram, 0..8 * PAGE]);
}

#[test]
fn messages_have_the_addresses() {
    let listed = [(PAGE, PAGE + 0x7ff), (2 * PAGE, 3 * PAGE)];
    let bad = checked(&listed, 16 * PAGE).expect_err("too short");
    let text = "memory partition 0xc0001000 to 0xc00017ff of the NPS table is shorter than a page";
    assert_eq!(bad.to_string(), text);
}

#[test]
fn parts_are_equal() {
    const GIB: u64 = 1 << 30;
    for count in [1, 2, 4, 8] {
        let parts = divide(4 * GIB, count).expect("memory");
        let size = (4 * GIB + (16 << 20)) / u64::from(count);
        for (n, part) in (0..).zip(&parts) {
            assert_eq!(*part, n * size..((n + 1) * size).min(4 * GIB));
        }
        assert_eq!(parts.len(), count as usize);
    }
}

/// VRAM that is too small for the mode has no part that is empty, or ends before its start.
#[test]
fn parts_have_vram() {
    for count in [1, 2, 4, 8] {
        for mib in 1..=128 {
            match divide(mib << 20, count) {
                Ok(parts) => assert!(parts.iter().all(|part| part.start < part.end), "{mib}"),
                Err(e) => assert!(e == ENOSPC && count > 1, "{e:?}"),
            }
        }
    }
}
