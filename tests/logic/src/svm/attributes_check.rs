// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the attributes of ranges of user memory against a map of pages.

use std::collections::BTreeMap;

use kernel::{
    alloc::{failing, Fail},
    page::PAGE_SHIFT,
    prelude::*,
};

use super::attributes::{AttributeMap, AttributeRange, Attributes, Change, Summary, UNDEFINED};
use crate::{
    mmu::{Pages, BLOCK_PAGES},
    random::Random,
};

type Model = BTreeMap<u64, Attributes>;

/// Returns the ranges of a model: pages in a row with equal attributes.
fn ranges(model: &Model) -> Vec<(u64, u64, Attributes)> {
    let mut list: Vec<(u64, u64, Attributes)> = Vec::new();
    for (page, attributes) in model {
        match list.last_mut() {
            Some((_, end, last)) if end == page && last == attributes => *end += 1,
            _ => list.push((*page, page + 1, *attributes)),
        }
    }
    list
}

fn listed(ranges: impl Iterator<Item = AttributeRange>) -> Vec<(u64, u64, Attributes)> {
    ranges.map(|r| (r.first, r.end, r.attributes)).collect()
}

#[derive(Clone, Debug)]
enum Op {
    Change(u64, u64, Vec<Change>),
    Remove(u64, u64),
}

fn apply(map: &mut AttributeMap, op: &Op) -> Result {
    match op {
        Op::Change(first, end, changes) => map.change(*first, *end, &Attributes::new(1), changes),
        Op::Remove(first, end) => map.remove(*first, *end),
    }
}

/// Changes one attribute as the ioctl describes it.
fn changed(mut old: Attributes, change: &Change) -> Attributes {
    match *change {
        Change::Preferred(location) => old.preferred = location,
        Change::Prefetch(location) => old.prefetch = location,
        Change::Access(gpu) => (old.access, old.in_place) = (old.access | gpu, old.in_place & !gpu),
        Change::InPlace(gpu) => {
            (old.access, old.in_place) = (old.access & !gpu, old.in_place | gpu);
        }
        Change::NoAccess(gpu) => {
            (old.access, old.in_place) = (old.access & !gpu, old.in_place & !gpu);
        }
        Change::SetFlags(flags) => old.flags |= flags,
        Change::ClearFlags(flags) => old.flags &= !flags,
        Change::Granularity(pages) => old.granularity = pages.min(63),
    }
    old
}

fn expect(model: &mut Model, op: &Op) {
    match op {
        Op::Change(first, end, changes) => {
            for page in *first..*end {
                let old = model
                    .get(&page)
                    .copied()
                    .unwrap_or_else(|| Attributes::new(1));
                model.insert(page, changes.iter().fold(old, changed));
            }
        }
        Op::Remove(first, end) => model.retain(|page, _| !(*first..*end).contains(page)),
    }
}

fn check(map: &AttributeMap, model: &Model, pages: u64) {
    let all = ranges(model);
    assert_eq!(listed(map.all()), all);
    assert_eq!(map.bytes(), (model.len() as u64) << PAGE_SHIFT);
    for page in 0..pages {
        let found = map.get(page).map(|range| range.attributes);
        assert_eq!(found, model.get(&page).copied(), "page {page}");
    }
}

/// Compares what is found in a range of pages.
fn check_range(map: &AttributeMap, model: &Model, first: u64, end: u64) {
    let inside = || model.range(first..end).map(|(_, attributes)| attributes);
    assert_eq!(map.pages(first, end), inside().count() as u64);
    let mut overlap = ranges(model);
    overlap.retain(|(from, to, _)| *from < end && first < *to);
    assert_eq!(listed(map.overlapping(first, end)), overlap);

    let default = Attributes::new(2);
    let summary = Summary::new(map.overlapping(first, end), &default);
    let all = || inside().chain(inside().next().is_none().then_some(&default));
    let common = |of: fn(&Attributes) -> u32| {
        let locations: std::collections::BTreeSet<u32> = all().map(of).collect();
        match locations.len() {
            1 => locations.first().copied(),
            _ => None,
        }
    };
    // Undefined if they differ, but also if there are none.
    let located = |of: fn(&Attributes) -> u32| match inside().next() {
        Some(_) => common(of).unwrap_or(UNDEFINED),
        None => UNDEFINED,
    };
    assert_eq!(summary.preferred, located(|a| a.preferred));
    assert_eq!(summary.prefetch, located(|a| a.prefetch));
    assert_eq!(
        summary.access,
        all().fold(u64::MAX, |sum, a| sum & a.access)
    );
    assert_eq!(
        summary.in_place,
        all().fold(u64::MAX, |sum, a| sum & a.in_place)
    );
    assert_eq!(
        summary.flags_all,
        all().fold(u32::MAX, |sum, a| sum & a.flags)
    );
    assert_eq!(summary.flags_any, all().fold(0, |sum, a| sum | a.flags));
    assert_eq!(
        summary.granularity,
        all().map(|a| a.granularity).min().expect("one")
    );
}

/// All sequences of three operations on five pages.
#[test]
fn short_sequences() {
    const PAGES: u64 = 5;
    let mut ops = Vec::new();
    for first in 0..PAGES {
        for end in first + 1..=PAGES {
            ops.extend([
                Op::Change(first, end, vec![Change::Preferred(0)]),
                Op::Change(first, end, vec![Change::InPlace(1)]),
                Op::Remove(first, end),
            ]);
        }
    }
    for a in &ops {
        for b in &ops {
            for c in &ops {
                let (mut map, mut model) = (AttributeMap::new(), Model::new());
                for op in [a, b, c] {
                    assert_eq!(apply(&mut map, op), Ok(()));
                    expect(&mut model, op);
                }
                check(&map, &model, PAGES);
            }
        }
    }
}

/// Larger ranges, every attribute, and failing allocations, which change nothing.
#[test]
fn random_operations() {
    const PAGES: u64 = 1200;
    let mut random = Random::new();
    let (mut map, mut model) = (AttributeMap::new(), Model::new());
    for round in 0..1500 {
        let first = random.below(PAGES);
        let end = first + 1 + random.below((PAGES - first).min(200));
        let op = if random.below(3) == 0 {
            Op::Remove(first, end)
        } else {
            let gpu = 1 << random.below(3);
            let flag = 1 << random.below(5);
            let changes = [
                Change::Preferred(random.below(2) as u32),
                Change::Prefetch(random.below(2) as u32),
                Change::Access(gpu),
                Change::InPlace(gpu),
                Change::NoAccess(gpu),
                Change::SetFlags(flag),
                Change::ClearFlags(flag),
                Change::Granularity(random.below(100) as u32),
            ];
            let count = 1 + random.below(3);
            Op::Change(
                first,
                end,
                (0..count).map(|_| random.pick(&changes)).collect(),
            )
        };
        let mut complete = false;
        for allocation in 0.. {
            let (result, failed) = failing(Fail::Once(allocation), || apply(&mut map, &op));
            complete = !failed;
            if complete {
                assert_eq!(result, Ok(()));
                break;
            }
            assert_eq!(result, Err(ENOMEM));
            check(&map, &model, 0);
        }
        assert!(complete);
        expect(&mut model, &op);
        check(&map, &model, if round % 64 == 0 { PAGES } else { 0 });
        let first = random.below(PAGES);
        check_range(&map, &model, first, first + 1 + random.below(300));
        let base = first / BLOCK_PAGES as u64 * BLOCK_PAGES as u64;
        let pages = map.in_block(base);
        let expected = model.range(base..base + BLOCK_PAGES as u64);
        let mut bits = Pages::NONE;
        expected.for_each(|(page, _)| bits.add((page - base) as usize));
        assert!(pages == bits, "pages of the block at {base}");
    }
}
