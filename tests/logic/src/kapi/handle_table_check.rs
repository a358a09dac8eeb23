// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks tables of handles against a map.

use std::collections::BTreeMap;

use kernel::{
    alloc::{failing, Fail},
    prelude::*, //
};

use super::handle_table::HandleTable;
use crate::random::Random;

/// A table, and what it should have.
struct Pair {
    /// The lowest handle.
    first: u32,
    table: HandleTable<u64>,
    model: BTreeMap<u32, u64>,
    next: u64,
}

impl Pair {
    fn new(first: u32) -> Self {
        Self {
            first,
            table: HandleTable::new(first),
            model: BTreeMap::new(),
            next: 0,
        }
    }

    fn lowest(&self) -> u32 {
        let mut handles = self.first..;
        handles
            .find(|handle| !self.model.contains_key(handle))
            .expect("a handle")
    }

    fn add(&mut self) {
        self.next += 1;
        let lowest = self.lowest();
        assert_eq!(self.table.next_handle(), lowest);
        assert_eq!(self.table.insert(self.next), Ok(lowest));
        self.model.insert(lowest, self.next);
    }

    fn remove(&mut self, handle: u32) {
        assert_eq!(self.table.remove(handle), self.model.remove(&handle));
    }

    fn pop(&mut self) {
        let count = self.model.len();
        let popped = self.table.pop();
        self.model.retain(|_, value| Some(*value) != popped);
        assert_eq!(self.model.len() + usize::from(popped.is_some()), count);
        assert_eq!(popped.is_some(), count != 0);
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
            let value = self.table.get_mut(handle).map(|value| *value);
            assert_eq!(value, self.model.get(&handle).copied());
            let next = self.model.range(handle..).next().map(|(h, v)| (*h, *v));
            assert_eq!(self.table.next(handle).map(|(h, v)| (h, *v)), next);
        }
        assert_eq!(self.table.next_handle(), self.lowest());
        assert!(self.table.values().eq(self.model.values()));
        let values = self.table.values_mut().map(|value| *value);
        assert!(values.eq(self.model.values().copied()));
    }
}

/// All sequences of seven operations on four handles.
#[test]
fn short_sequences() {
    // Handles 0 to 3: removal; 4: addition; 5: replacement of handle 2; 6: removal of any.
    for first in [0, 1] {
        for mut code in 0..7u32.pow(7) {
            let mut pair = Pair::new(first);
            for _ in 0..7 {
                match code % 7 {
                    4 => pair.add(),
                    5 => pair.replace(2),
                    6 => pair.pop(),
                    handle => pair.remove(handle),
                }
                code /= 7;
            }
            pair.check(10);
        }
    }
}

/// More handles, and failing allocations, which change nothing.
#[test]
fn random_operations() {
    let mut random = Random::new();
    for round in 0..20 {
        let mut pair = Pair::new(round % 2);
        // Grows, then shrinks.
        for (adds, steps) in [(6, 600), (2, 600)] {
            for _ in 0..steps {
                let handle = random.below(pair.model.len() as u64 + 3) as u32;
                match random.below(10) {
                    n if n < adds => {
                        let n = random.below(3);
                        let which = random.pick(&[Fail::Once(n), Fail::From(n)]);
                        let before = pair.lowest();
                        pair.next += 1;
                        let value = pair.next;
                        let (result, failed) = failing(which, || pair.table.insert(value));
                        match result {
                            Ok(handle) => {
                                assert_eq!(handle, before);
                                pair.model.insert(handle, value);
                            }
                            Err(e) => {
                                assert!(failed && e == ENOMEM, "{e:?}");
                                pair.add();
                            }
                        }
                    }
                    8 => pair.pop(),
                    9 => pair.replace(handle),
                    _ => pair.remove(handle),
                }
            }
            pair.check(pair.model.len() as u32 + 70);
        }
    }
}
