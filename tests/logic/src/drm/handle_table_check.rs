// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the handles of a file against a map.

use std::collections::BTreeMap;

use kernel::{
    alloc::{failing, Fail},
    prelude::*, //
};

use super::handle_table::HandleTable;
use crate::random::Random;

/// A table, and what it should have.
struct Pair {
    table: HandleTable<u64>,
    model: BTreeMap<u32, u64>,
    next: u64,
}

impl Pair {
    fn new() -> Self {
        Self {
            table: HandleTable::new(),
            model: BTreeMap::new(),
            next: 0,
        }
    }

    fn lowest(&self) -> u32 {
        let mut handles = 1..;
        handles
            .find(|handle| !self.model.contains_key(handle))
            .expect("a handle")
    }

    fn add(&mut self) {
        self.next += 1;
        let lowest = self.lowest();
        assert_eq!(self.table.next_handle(), lowest);
        assert_eq!(self.table.add(self.next), Ok(lowest));
        self.model.insert(lowest, self.next);
    }

    fn remove(&mut self, handle: u32) {
        assert_eq!(self.table.remove(handle), self.model.remove(&handle));
    }

    fn replace(&mut self, handle: u32) {
        self.next += 1;
        let expected = match self.model.get_mut(&handle) {
            Some(value) => Ok(std::mem::replace(value, self.next)),
            None => Err(self.next),
        };
        assert_eq!(self.table.replace(handle, self.next), expected);
    }

    fn check(&mut self, end: u32) {
        for handle in 0..end {
            assert_eq!(self.table.get(handle), self.model.get(&handle), "{handle}");
            let next = self.model.range(handle..).next().map(|(h, v)| (*h, *v));
            assert_eq!(self.table.next(handle).map(|(h, v)| (h, *v)), next);
            assert_eq!(self.table.next_mut(handle).map(|(h, v)| (h, *v)), next);
        }
        assert_eq!(self.table.next_handle(), self.lowest());
    }
}

/// All sequences of eight operations on four handles.
#[test]
fn short_sequences() {
    // Handles 0 to 3: removal; 4: addition; 5: replacement of handle 2.
    for mut code in 0..6u32.pow(8) {
        let mut pair = Pair::new();
        for _ in 0..8 {
            match code % 6 {
                4 => pair.add(),
                5 => pair.replace(2),
                handle => pair.remove(handle),
            }
            code /= 6;
        }
        pair.check(10);
    }
}

/// Handles beyond those of the first bitmap, and failing allocations, which change nothing.
#[test]
fn random_operations() {
    let mut random = Random::new();
    for _ in 0..20 {
        let mut pair = Pair::new();
        // Grows, then shrinks.
        for (adds, steps) in [(6, 600), (2, 600)] {
            for _ in 0..steps {
                let handle = random.below(pair.model.len() as u64 + 3) as u32;
                match random.below(10) {
                    n if n < adds => {
                        let n = random.below(3);
                        let which = random.pick(&[Fail::Once(n), Fail::From(n)]);
                        let before = pair.lowest();
                        let (result, failed) = failing(which, || pair.table.add(u64::MAX));
                        match result {
                            Ok(handle) => {
                                assert_eq!(handle, before);
                                pair.model.insert(handle, u64::MAX);
                            }
                            Err(e) => {
                                assert!(failed && e == ENOMEM, "{e:?}");
                                pair.add();
                            }
                        }
                    }
                    9 => pair.replace(handle),
                    _ => pair.remove(handle),
                }
            }
            pair.check(pair.model.len() as u32 + 70);
        }
    }
}
