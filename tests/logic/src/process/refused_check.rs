// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks which refused faults are those of accesses.

use kernel::alloc::{failing, Fail};

use super::refused::Refusals;

/// Faults that can be pending.
const PENDING: usize = 1024;

fn none() -> Refusals {
    Refusals::new(PENDING).expect("memory")
}

/// The second fault of a page, unless the memory has changed or the fault was handled.
#[test]
fn repeated_faults() {
    let mut refusals = none();
    assert!(!refusals.refuse(7, 0));
    assert!(refusals.refuse(7, 0));
    assert!(!refusals.refuse(7, 1));
    refusals.forget(7);
    assert!(!refusals.refuse(7, 1));
    refusals.forget(8);
    assert!(refusals.refuse(7, 1));
}

/// Faults of as many pages as can be pending, at any distance, do not displace each other.
#[test]
fn faults_in_turns() {
    for stride in [1, 512, 1024, 4096] {
        for count in [2, 3, PENDING as u64] {
            let mut refusals = none();
            for n in 0..count {
                assert!(!refusals.refuse(n * stride, 5), "page {n} of {count}");
            }
            // The oldest and the newest ones go.
            for n in [0, count - 1] {
                refusals.forget(n * stride);
            }
            for n in 0..count {
                let refused = n != 0 && n != count - 1;
                assert_eq!(
                    refusals.refuse(n * stride, 5),
                    refused,
                    "page {n} of {count}"
                );
            }
        }
    }
}

/// More faults in a row than can be pending are not all stale, whichever their pages are.
#[test]
fn more_than_can_be_pending() {
    let mut refusals = none();
    for round in 0..3u64 {
        for n in 0..PENDING as u64 {
            assert!(
                !refusals.refuse(round * 10_000 + n, 3),
                "round {round}, page {n}"
            );
        }
        match round {
            // A fault was handled.
            0 => refusals.forget(99_999),
            // The memory has changed.
            1 => assert!(!refusals.refuse(99_998, 4)),
            _ => {}
        }
        if round == 1 {
            refusals.forget(99_998);
        }
    }
    assert!(refusals.refuse(88_888, 3));
}

/// A GPU without retry faults.
#[test]
fn no_faults() {
    let mut refusals = Refusals::new(0).expect("memory");
    refusals.forget(1);
    assert!(refusals.refuse(1, 0));
    assert!(refusals.refuse(2, 0));
}

#[test]
fn failing_allocation() {
    let (result, failed) = failing(Fail::Once(0), || Refusals::new(PENDING).is_err());
    assert!(result && failed);
}
