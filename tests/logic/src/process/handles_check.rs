// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the handles of the buffers of a process against a map.

use std::collections::BTreeMap;

use kernel::{
    alloc::{failing, Fail},
    prelude::*, //
};

use super::handles::{make_handle, split_handle, HandleTable};
use crate::random::Random;

fn check(table: &mut HandleTable<u64>, model: &BTreeMap<u32, u64>) {
    let end = model.keys().next_back().map_or(0, |last| *last) + 4;
    for handle in 0..end {
        assert_eq!(table.get(handle), model.get(&handle), "{handle}");
        assert_eq!(
            table.get_mut(handle).map(|v| *v),
            model.get(&handle).copied()
        );
    }
    assert!(table.values().eq(model.values()));
    assert!(table.values_mut().map(|v| *v).eq(model.values().copied()));
}

fn lowest(model: &BTreeMap<u32, u64>) -> u32 {
    (0..)
        .find(|handle| !model.contains_key(handle))
        .expect("a handle")
}

fn apply(table: &mut HandleTable<u64>, model: &mut BTreeMap<u32, u64>, op: u32, value: u64) {
    match op {
        4 => {
            let handle = lowest(model);
            assert_eq!(table.insert(value), Ok(handle));
            model.insert(handle, value);
        }
        5 => match table.pop() {
            Some(value) => {
                let before = model.len();
                model.retain(|_, other| *other != value);
                assert_eq!(model.len() + 1, before, "a value that was in the table");
            }
            None => assert!(model.is_empty()),
        },
        handle => assert_eq!(table.remove(handle), model.remove(&handle)),
    }
}

/// All sequences of eight operations on four handles.
#[test]
fn short_sequences() {
    for mut code in 0..6u32.pow(8) {
        let (mut table, mut model) = (HandleTable::new(), BTreeMap::new());
        for value in 0..8 {
            apply(&mut table, &mut model, code % 6, value);
            code /= 6;
        }
        check(&mut table, &model);
    }
}

/// More handles, and failing allocations, which change nothing.
#[test]
fn random_operations() {
    let mut random = Random::new();
    let (mut table, mut model) = (HandleTable::new(), BTreeMap::new());
    for value in 0..4000 {
        let handle = random.below(model.len() as u64 + 2) as u32;
        let adds = if value < 2000 { 6 } else { 3 };
        match random.below(10) {
            n if n < adds => {
                let (result, failed) = failing(Fail::Once(0), || table.insert(value));
                match result {
                    Ok(handle) => {
                        assert_eq!(handle, lowest(&model));
                        model.insert(handle, value);
                    }
                    Err(e) => {
                        assert!(failed && e == ENOMEM, "{e:?}");
                        apply(&mut table, &mut model, 4, value);
                    }
                }
            }
            9 => apply(&mut table, &mut model, 5, value),
            _ => assert_eq!(table.remove(handle), model.remove(&handle)),
        }
        if value % 32 == 0 {
            check(&mut table, &model);
        }
    }
    check(&mut table, &model);
}

#[test]
fn handles_have_both_ids() {
    for (gpu, id) in [
        (0, 0),
        (1, u32::MAX),
        (u32::MAX, 1),
        (0x8000_0000, 0x7fff_ffff),
    ] {
        assert_eq!(split_handle(make_handle(gpu, id)), (gpu, id));
    }
}
