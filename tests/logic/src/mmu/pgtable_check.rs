// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks page tables: what the page-table walker of the GPU model finds, against a map of pages.
//!
//! [`World`] calls the tree as `rust/mmu/space.rs` and `rust/mmu/mirror.rs` do, and VRAM
//! (`card::vram`) checks each PDE, also whether its table is flushed, and each free. The addresses
//! are around 512 GiB, so that neighbouring blocks have no table but the root in common.

use gpu_model::chips::Generation;
use kernel::{
    alloc::{failing, Fail},
    prelude::*,
};

use crate::random::Random;

mod memory;
mod world;

use memory::Memory;
use world::{Op, World};

const PAGE: u64 = 4096;
const BLOCK: u64 = 512 * PAGE;
/// Blocks that the tests use.
const BLOCKS: u64 = 12;
/// The first of them: half are below 512 GiB.
const BASE: u64 = (512 << 30) - BLOCKS / 2 * BLOCK;

/// The operations on two neighbouring blocks that are enumerated.
fn operations() -> Vec<Op> {
    let below = BASE + (BLOCKS / 2 - 1) * BLOCK;
    let odd = below + 3 * PAGE;
    let mut all = vec![
        Op::Map(below, BLOCK, Memory::Vram, false),
        Op::Map(below, 2 * BLOCK, Memory::Vram, true),
        Op::Map(odd, BLOCK, Memory::System, true),
        Op::Map(below, BLOCK, Memory::HugeSystem, false),
        Op::Map(below + BLOCK, 3 * PAGE, Memory::OddVram, false),
        Op::MapUser(below, BLOCK, Memory::HugeSystem),
        Op::MapUser(odd, 64 * PAGE, Memory::System),
        Op::Pin(below),
        Op::Mirror(below + PAGE),
        Op::Unpin(below),
        Op::Refuse(below + 2 * PAGE),
        Op::Reset,
    ];
    for va in [below, odd, below + BLOCK] {
        all.extend([
            Op::Zap(va),
            Op::Refresh(va, Memory::System),
            Op::Refresh(va, Memory::HugeSystem),
            Op::Unmap(va, false),
            Op::Unmap(va, true),
        ]);
        for memory in [
            Memory::Vram,
            Memory::OddVram,
            Memory::System,
            Memory::HugeSystem,
        ] {
            all.extend([Op::Move(va, memory, false), Op::Move(va, memory, true)]);
        }
    }
    all
}

/// Whether the error of an operation that no allocation failed is one that it may have.
fn may_fail(world: &World, op: Op, error: Error) -> bool {
    let (Op::Pin(va) | Op::Refuse(va)) = op else {
        return false;
    };
    let block = va / BLOCK * BLOCK;
    let mapping = world.mapping(block);
    let whole = mapping.is_some_and(|(first, m)| first + m.len >= block + BLOCK);
    error == EADDRINUSE && whole
}

fn run(world: &mut World, op: Op) {
    if let Err(e) = world.apply(op) {
        assert!(may_fail(world, op, e), "{op:?}: {e:?}");
    }
}

/// Calls `f` with each sequence of `length` operations that the driver would do, on a world with no
/// mapping.
fn sequences(world: &mut World, length: usize, f: &mut impl FnMut(&mut World, &[Op])) {
    fn extend(
        world: &mut World,
        list: &mut Vec<Op>,
        length: usize,
        f: &mut impl FnMut(&mut World, &[Op]),
    ) {
        if list.len() == length {
            return f(world, list);
        }
        for op in operations() {
            world.replay(list);
            if world.accepts(op) {
                list.push(op);
                extend(world, list, length, f);
                list.pop();
            }
        }
    }
    extend(world, &mut Vec::new(), length, f);
}

impl World {
    /// Starts again and does these operations.
    fn replay(&mut self, list: &[Op]) {
        self.close();
        self.open();
        list.iter().for_each(|op| run(self, *op));
        self.history = format!("{list:x?}");
    }

    /// Removes all mappings. Only the root and a kept table of each other level are left.
    fn unmap_all(&mut self) {
        let mapped: Vec<u64> = self.mappings.keys().copied().collect();
        mapped
            .into_iter()
            .for_each(|va| run(self, Op::Unmap(va, false)));
        let pinned: Vec<u64> = self.pinned.keys().copied().collect();
        pinned
            .into_iter()
            .for_each(|block| run(self, Op::Unpin(block)));
        // As does a BO that is mapped there. Also for pages that a reset has made invalid.
        self.refused.clear();
        self.clear(BASE, BLOCKS * BLOCK, 0);
        self.check(false);
        assert_eq!(
            self.gpu.vram().reached().len(),
            1,
            "empty tables are attached"
        );
        assert!(
            self.gpu.vram().tables() <= 4,
            "more than one table of a level is kept"
        );
    }
}

fn short_sequences(generation: Generation) {
    let mut world = World::new(generation);
    let mut count = 0;
    sequences(&mut world, 4, &mut |world, list| {
        world.replay(list);
        world.check(false);
        world.unmap_all();
        count += 1;
    });
    println!("{count} sequences");
    assert!(count > 1000, "{count} sequences");
    world.close();
}

/// Each allocation of the last operation of each sequence fails, alone or with all after it.
fn failing_allocations(generation: Generation) {
    let mut world = World::new(generation);
    let mut count = 0;
    sequences(&mut world, 3, &mut |world, list| {
        let (op, before) = list.split_last().expect("an operation");
        for which in [Fail::Once, Fail::From] {
            for n in 0.. {
                world.replay(before);
                world.history += &format!(", {op:x?} with {:?}", which(n));
                let (result, failed) = failing(which(n), || world.apply(*op));
                count += 1;
                if !failed {
                    break;
                }
                if let Err(e) = result {
                    assert!(e == ENOMEM || may_fail(world, *op, e), "{op:?}: {e:?}");
                }
                if *op == Op::Reset {
                    // A card whose reset fails is not used any more.
                    let users = world.mappings.values().any(|m| m.user);
                    assert!(result.is_ok() || users, "a reset allocates for a BO");
                    if result.is_err() {
                        continue;
                    }
                }
                world.check(false);
                // With memory it works.
                if result.is_err() && world.accepts(*op) {
                    run(world, *op);
                    world.check(false);
                }
                world.unmap_all();
            }
        }
    });
    println!("{count} runs");
    assert!(count > 1000, "{count} runs");
    world.close();
}

/// A map that lacks tables is repeated each time that there is room for one more, as when BOs are
/// evicted: it allocates each table once.
fn repeated_map(generation: Generation) {
    let mut world = World::new(generation);
    let len = BLOCKS * BLOCK;
    for op in [
        Op::Map(BASE, len, Memory::System, false),
        Op::Map(BASE, len, Memory::System, true),
        Op::MapUser(BASE, len, Memory::System),
    ] {
        let (before, used) = (world.gpu.vram().allocations(), world.gpu.vram().tables());
        let mut room = used;
        world.gpu.vram().set_room(room);
        while world.apply(op).is_err() {
            room += 1;
            world.gpu.vram().set_room(room);
            assert!(room < used + 100, "{op:?} does not end");
        }
        let allocated = world.gpu.vram().allocations() - before;
        assert!(allocated >= BLOCKS, "{op:?}: {allocated} tables");
        assert_eq!(allocated, (room - used) as u64, "tables of {op:?}");
        world.gpu.vram().set_room(usize::MAX);
        world.check(false);
        world.unmap_all();
        world.close();
        world.open();
    }
    world.close();
}

/// A card reset between a map that lacks tables and its repetition loses the contents of those that
/// it had.
fn reset_before_the_repetition(generation: Generation) {
    let mut world = World::new(generation);
    for op in [
        Op::Map(BASE, BLOCKS * BLOCK, Memory::System, false),
        Op::MapUser(BASE, BLOCKS * BLOCK, Memory::System),
    ] {
        for room in 0..12 {
            let used = world.gpu.vram().tables();
            world.gpu.vram().set_room(used + room);
            assert_eq!(world.apply(op), Err(ENOMEM), "{op:?}");
            world.gpu.vram().set_room(usize::MAX);
            run(&mut world, Op::Reset);
            run(&mut world, op);
            world.check(false);
            world.unmap_all();
            world.close();
            world.open();
        }
    }
    world.close();
}

/// Random operations on all blocks, one of four with a failing allocation.
fn random_operations(generation: Generation) {
    let mut random = Random::new();
    let mut world = World::new(generation);
    for round in 0..20_000 {
        let va = BASE + random.below(BLOCKS * 512) * PAGE;
        let block = va / BLOCK * BLOCK;
        let known: Vec<u64> = world.mappings.keys().copied().collect();
        let one = random.pick(if known.is_empty() { &[BASE] } else { &known });
        let left = BASE + BLOCKS * BLOCK - va;
        let most = random.pick(&[1, 8, 600, 3000]);
        let pages = 1 + random.below(most);
        let len = left.min(pages * PAGE);
        let blocks = (BLOCK * (1 + random.below(8))).min(BASE + BLOCKS * BLOCK - block);
        let memory = random.pick(&[
            Memory::Vram,
            Memory::OddVram,
            Memory::System,
            Memory::HugeSystem,
        ]);
        let pages = random.pick(&[Memory::System, Memory::HugeSystem]);
        let by_dma = random.below(2) == 0;
        let op = match random.below(24) {
            0..3 => Op::Map(va, len, memory, by_dma),
            3..6 => Op::Map(block, blocks, memory, by_dma),
            6 => Op::MapUser(va, len, pages),
            7 => Op::MapUser(block, blocks, pages),
            8 => Op::Zap(one),
            9 => Op::Refresh(one, pages),
            10..14 => Op::Unmap(one, by_dma),
            14..18 => Op::Move(one, memory, by_dma),
            18 => Op::Pin(block),
            19 => Op::Mirror(va),
            20 => Op::Unpin(block),
            21 => Op::Refuse(va),
            22 if round % 16 == 0 => Op::Reset,
            _ => continue,
        };
        if !world.accepts(op) {
            continue;
        }
        if op == Op::Reset || random.below(4) > 0 {
            run(&mut world, op);
        } else {
            let n = random.below(20);
            let which = random.pick(&[Fail::Once(n), Fail::From(n)]);
            let (result, _) = failing(which, || world.apply(op));
            if let Err(e) = result {
                assert!(e == ENOMEM || may_fail(&world, op, e), "{op:?}: {e:?}");
            }
        }
        world.check(round % 32 == 0);
    }
    world.check(true);
    world.unmap_all();
    world.close();
}

#[test]
fn short_sequences_gfx9() {
    short_sequences(Generation::Gfx9);
}

#[test]
fn short_sequences_gfx12() {
    short_sequences(Generation::Gfx12);
}

#[test]
fn failing_allocations_gfx9() {
    failing_allocations(Generation::Gfx9);
}

#[test]
fn failing_allocations_gfx12() {
    failing_allocations(Generation::Gfx12);
}

#[test]
fn repeated_map_gfx9() {
    repeated_map(Generation::Gfx9);
}

#[test]
fn repeated_map_gfx12() {
    repeated_map(Generation::Gfx12);
}

#[test]
fn reset_before_the_repetition_gfx9() {
    reset_before_the_repetition(Generation::Gfx9);
}

#[test]
fn reset_before_the_repetition_gfx12() {
    reset_before_the_repetition(Generation::Gfx12);
}

#[test]
fn random_operations_gfx9() {
    random_operations(Generation::Gfx9);
}

#[test]
fn random_operations_gfx12() {
    random_operations(Generation::Gfx12);
}
