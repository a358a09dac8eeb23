// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the bitmap of VRAM pages against a set of pages.

use std::{collections::BTreeSet, ops::Range};

use kernel::{
    alloc::{failing, Fail},
    init::build,
    model,
    prelude::*,
    sync::{Arc, Mutex},
};
use rkfd_abi::pte::PAGE_SIZE;

use super::page_map::PageMap;
use crate::random::Random;

/// Pages of the maps: several words, and not a multiple of their bits.
const PAGES: u64 = 278;

fn map(pages: u64) -> PageMap {
    build(PageMap::new(pages * PAGE_SIZE).expect("memory")).expect("memory")
}

fn bytes(pages: &Range<u64>) -> (u64, u64) {
    (
        pages.start * PAGE_SIZE,
        (pages.end - pages.start) * PAGE_SIZE,
    )
}

/// Returns offset and bytes of each run of pages.
fn runs(pages: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some((start, len)) if *start + *len == page * PAGE_SIZE => *len += PAGE_SIZE,
            _ => runs.push((page * PAGE_SIZE, PAGE_SIZE)),
        }
    }
    runs
}

fn pieces(map: &PageMap) -> Vec<(u64, u64)> {
    map.pieces().expect("memory").into_iter().collect()
}

/// Takes pieces and returns those that were missing. The call of `missing` with number `fail`
/// fails.
fn take(map: &PageMap, pieces: &[(u64, u64)], fail: usize) -> Result<Vec<(u64, u64)>> {
    let mut missing = Vec::new();
    map.take(pieces, &mut |start, len| {
        if missing.len() == fail {
            return Err(EIO);
        }
        missing.push((start, len));
        Ok(())
    })?;
    Ok(missing)
}

/// All contents of ten pages at the end of a word, and all ranges of them.
#[test]
fn take_of_each_range() {
    const FIRST: u64 = 59;
    const COUNT: u64 = 10;
    for bits in 0..1u64 << COUNT {
        let set = |page: u64| page >= FIRST && bits >> (page - FIRST) & 1 != 0;
        let held = runs((FIRST..FIRST + COUNT).filter(|page| set(*page)));
        for start in FIRST..FIRST + COUNT {
            for end in start + 1..=FIRST + COUNT {
                let all = map(PAGES);
                all.set(&held);
                assert_eq!(pieces(&all), held);
                let expected = runs((start..end).filter(|page| !set(*page)));
                for fail in 0..expected.len() {
                    // An error changes nothing.
                    assert_eq!(take(&all, &[bytes(&(start..end))], fail), Err(EIO));
                    assert_eq!(pieces(&all), held);
                }
                let missing = take(&all, &[bytes(&(start..end))], usize::MAX);
                assert_eq!(missing, Ok(expected), "{bits:#b} from {start} to {end}");
                let left = (FIRST..FIRST + COUNT).filter(|p| set(*p) && !(start..end).contains(p));
                assert_eq!(pieces(&all), runs(left), "{bits:#b} from {start} to {end}");
            }
        }
    }
}

#[test]
fn random_operations() {
    let mut random = Random::new();
    let map = map(PAGES);
    let mut model = BTreeSet::new();
    let mut epochs = vec![map.epoch()];
    for _ in 0..20_000 {
        // Pieces in any order, as the buddy allocator returns them, without overlap.
        let mut list: Vec<Range<u64>> = Vec::new();
        for _ in 0..1 + random.below(3) {
            let start = match random.below(4) {
                0 => random.below(PAGES.div_ceil(64)) * 64,
                _ => random.below(PAGES),
            };
            let most = if random.below(2) == 0 { 80 } else { PAGES };
            let end = start + 1 + random.below((PAGES - start).min(most));
            if list
                .iter()
                .all(|other| end <= other.start || other.end <= start)
            {
                list.push(start..end);
            }
        }
        let all: Vec<_> = list.iter().map(bytes).collect();
        match random.below(16) {
            0..4 => {
                map.set(&all);
                model.extend(list.iter().cloned().flatten());
            }
            4..8 => {
                let epoch = random.pick(&epochs);
                map.set_since(epoch, &all);
                if epoch == *epochs.last().expect("an epoch") {
                    model.extend(list.iter().cloned().flatten());
                }
            }
            8..11 => {
                map.unset(&all);
                model.retain(|page| !list.iter().any(|piece| piece.contains(page)));
            }
            11 => {
                map.unset_all();
                model.clear();
                assert!(!epochs.contains(&map.epoch()), "an epoch comes again");
                epochs.push(map.epoch());
            }
            12 => {
                let (result, failed) = failing(Fail::Once(0), || map.pieces().map(|_| ()));
                let expected = if failed { Err(ENOMEM) } else { Ok(()) };
                assert_eq!(result, expected);
            }
            _ => {
                let clear = |piece: &Range<u64>| runs(piece.clone().filter(|p| !model.contains(p)));
                let expected: Vec<_> = list.iter().flat_map(clear).collect();
                assert_eq!(take(&map, &all, usize::MAX), Ok(expected));
                model.retain(|page| !list.iter().any(|piece| piece.contains(page)));
            }
        }
        assert_eq!(pieces(&map), runs(model.iter().copied()));
    }
}

/// As `rust/card/clear.rs` zeroes pages while a reset of the card loses them: a page that counts as
/// clean is zero, in every order of the two.
#[test]
fn clean_pages_are_zero_after_a_reset() {
    model::explore(|| {
        let map = Arc::new(map(1));
        let zero = Arc::new(Mutex::of(false));
        let worker = {
            let (map, zero) = (map.clone(), zero.clone());
            model::thread::spawn(move || {
                let epoch = map.epoch();
                *zero.lock() = true;
                map.set_since(epoch, &[(0, PAGE_SIZE)]);
            })
        };
        map.unset_all();
        *zero.lock() = false;
        map.unset_all();
        worker.join().expect("the worker");
        assert!(
            pieces(&map).is_empty() || *zero.lock(),
            "a dirty page counts as clean"
        );
    });
}
