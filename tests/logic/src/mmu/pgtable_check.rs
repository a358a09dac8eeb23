// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks page tables: what the page-table walker of the GPU model finds, against a map of pages.
//!
//! [`World`] calls the tree as `rust/mmu/space.rs` and `rust/mmu/mirror.rs` do, and VRAM
//! (`card::vram`) checks each PDE and each free. The addresses are around 512 GiB, so that
//! neighbouring blocks have no table but the root in common.

use std::collections::{BTreeMap, BTreeSet};

use gpu_model::{
    chips::Generation,
    dma::GuestMemory,
    engines::gmc::{
        walk::{walk, Context, Format, Path, TableMemory},
        FaultKind,
    },
    log::Strict,
};
use kernel::{
    alloc::{failing, Fail},
    prelude::*,
    sync::Arc,
};
use rkfd_abi::pte;

use super::{
    pgtable::{Span, Spare, Target, Tree, Update},
    placement::Placement,
};
use crate::{
    card::vram::{PA, TABLES},
    gpu::Gpu,
    hw::{PteAttrs, GFX12, GFX9},
    random::Random,
};

const PAGE: u64 = 4096;
const BLOCK: u64 = 512 * PAGE;
/// Blocks that the tests use.
const BLOCKS: u64 = 12;
/// The first of them: half are below 512 GiB.
const BASE: u64 = (512 << 30) - BLOCKS / 2 * BLOCK;
/// Bytes of an update from which on SDMA writes it.
const BY_DMA: u64 = 16 << 20;

/// Memory that BOs have, by address in PTEs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Memory {
    /// VRAM, in one piece that is aligned to 2 MiB.
    Vram,
    /// VRAM behind an odd page.
    OddVram,
    /// System memory, in pieces of two pages.
    System,
    /// System memory in one piece that is aligned to 2 MiB.
    HugeSystem,
}

impl Memory {
    fn placement(self, len: u64) -> Placement {
        match self {
            Self::Vram => Placement(vec![(PA + TABLES + BLOCK, len)]),
            Self::OddVram => Placement(vec![(PA + TABLES + 8 * BLOCK + 3 * PAGE, len)]),
            Self::HugeSystem => Placement(vec![(0x4_0000_0000, len)]),
            Self::System => {
                let pieces = (0..len).step_by(2 * PAGE as usize);
                Placement(
                    pieces
                        .map(|at| (0x1_2345_6000 + 2 * at, (len - at).min(2 * PAGE)))
                        .collect(),
                )
            }
        }
    }

    fn is_system(self) -> bool {
        matches!(self, Self::System | Self::HugeSystem)
    }

    fn attrs(self) -> PteAttrs {
        PteAttrs {
            system: self.is_system(),
            local: !self.is_system(),
            read: true,
            write: self != Self::OddVram,
            exec: self == Self::Vram,
            ..PteAttrs::default()
        }
    }

    /// Returns what the page at byte `at` of a BO translates to.
    fn page(self, at: u64, len: u64) -> Found {
        let mut first = 0;
        for (address, bytes) in self.placement(len).0 {
            if at < first + bytes {
                let base = if self.is_system() { 0 } else { PA };
                let attrs = self.attrs();
                return Found::Page {
                    address: address + at - first - base,
                    system: attrs.system,
                    write: attrs.write,
                    execute: attrs.exec,
                };
            }
            first += bytes;
        }
        panic!("no byte {at:#x} in a BO of {len:#x}");
    }
}

/// Result of a page-table walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Nothing,
    NoRetry,
    Page {
        address: u64,
        system: bool,
        write: bool,
        execute: bool,
    },
}

struct Mapping {
    len: u64,
    memory: Memory,
    /// Of a userptr BO.
    user: bool,
    /// Its PTEs that are valid, of a userptr BO.
    spans: Option<KVVec<Span>>,
}

/// An address space, and what it should map.
struct World {
    gpu: Arc<Gpu>,
    generation: Generation,
    strict: Strict,
    dma: GuestMemory,
    tree: Option<Tree>,
    mappings: BTreeMap<u64, Mapping>,
    /// Offset in VRAM of each pinned table, and the pages that it maps, by block.
    pinned: BTreeMap<u64, (u64, BTreeMap<u64, Found>)>,
    /// Pages at which accesses are refused.
    refused: BTreeSet<u64>,
    /// The operations, for messages.
    history: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// Maps a BO; `true`: by SDMA.
    Map(u64, u64, Memory, bool),
    /// Maps a userptr BO.
    MapUser(u64, u64, Memory),
    /// The MMU notifier zaps its PTEs.
    Zap(u64),
    /// Finds these pages there.
    Refresh(u64, Memory),
    Unmap(u64, bool),
    /// Moves a BO.
    Move(u64, Memory, bool),
    Pin(u64),
    /// Writes a page of a pinned table.
    Mirror(u64),
    Unpin(u64),
    Refuse(u64),
    /// Resets the card.
    Reset,
}

const MEMORY: u32 = 3;

impl World {
    fn new(generation: Generation) -> Self {
        let gpu = Gpu::new(match generation {
            Generation::Gfx9 => GFX9,
            Generation::Gfx12 => GFX12,
        });
        gpu.vram().expect_memory(Some(MEMORY));
        let mut world = Self {
            gpu,
            generation,
            strict: Strict::new(Vec::new()),
            dma: GuestMemory::default(),
            tree: None,
            mappings: BTreeMap::new(),
            pinned: BTreeMap::new(),
            refused: BTreeSet::new(),
            history: String::new(),
        };
        world.open();
        world
    }

    /// Makes page tables.
    fn open(&mut self) {
        let tree = Tree::new(&self.gpu, Some(MEMORY)).expect("memory for a root");
        self.gpu.vram().set_root(Some(tree.root_pa(&self.gpu) - PA));
        self.tree = Some(tree);
    }

    /// Frees page tables with all that they map. None is left.
    fn close(&mut self) {
        self.gpu.vram().set_root(None);
        self.tree = None;
        self.mappings.clear();
        self.pinned.clear();
        self.refused.clear();
        assert_eq!(self.gpu.vram().tables(), 0, "tables are left over");
    }

    fn tree(&mut self) -> &mut Tree {
        self.tree.as_mut().expect("page tables")
    }

    /// Returns the mapping of an address.
    fn mapping(&self, va: u64) -> Option<(u64, &Mapping)> {
        let (first, mapping) = self.mappings.range(..=va).next_back()?;
        (va < first + mapping.len).then_some((*first, mapping))
    }

    /// Returns whether a BO may be mapped: no other is, nor a page of a mirror.
    fn is_free(&self, va: u64, len: u64) -> bool {
        let end = va + len;
        let before = self.mappings.range(..end).next_back();
        before.is_none_or(|(first, mapping)| first + mapping.len <= va)
            && self
                .pinned
                .values()
                .all(|(_, pages)| pages.range(va..end).next().is_none())
    }

    /// As `Space::finish()`.
    fn finish(&mut self, mut update: Update<'_>, valid: bool) {
        update.write_out().expect("a card");
        if valid || update.has_garbage() {
            self.gpu.vram().flush();
        }
        self.tree().end(update);
    }

    /// As `Space::write()`.
    fn write(&mut self, va: u64, len: u64, memory: Memory, bytes: u64) -> Result {
        let gpu = self.gpu.clone();
        let placement = memory.placement(len);
        let mut update = Update::new(&gpu, bytes);
        let target = target(&placement, memory);
        if let Err(e) = self.tree().map(&mut update, va, len, &target) {
            update.discard_deferred();
            self.tree()
                .unmap(&mut update, va, len)
                .expect("no part of a 2 MiB page");
            self.finish(update, true);
            return Err(e);
        }
        self.finish(update, false);
        Ok(())
    }

    /// As `Space::clear()`.
    fn clear(&mut self, va: u64, len: u64, bytes: u64) {
        let gpu = self.gpu.clone();
        let mut update = Update::new(&gpu, bytes);
        self.tree()
            .unmap(&mut update, va, len)
            .expect("no part of a 2 MiB page");
        self.finish(update, true);
    }

    /// As `Space::zap_mapped()`.
    fn zap(&mut self, va: u64) -> bool {
        let gpu = self.gpu.clone();
        let spans = self.mappings.get_mut(&va).and_then(|m| m.spans.take());
        for span in spans.iter().flatten() {
            span.clear(&gpu).expect("a card");
        }
        spans.is_some()
    }

    /// As `Space::write_user()`, with current pages.
    fn write_user(&mut self, va: u64, len: u64, memory: Memory) -> Result {
        let valid = self.zap(va);
        let gpu = self.gpu.clone();
        let placement = memory.placement(len);
        let target = target(&placement, memory);
        let mut update = Update::deferred(&gpu);
        let mapped = self.tree().map(&mut update, va, len, &target);
        match mapped.and_then(|()| update.spans()) {
            Ok(spans) => {
                update.write_all().expect("a card");
                self.finish(update, valid);
                let mapping = self.mappings.entry(va).or_insert(Mapping {
                    len,
                    memory,
                    user: true,
                    spans: None,
                });
                mapping.memory = memory;
                mapping.spans = Some(spans);
                Ok(())
            }
            Err(e) => {
                self.clear(va, len, 0);
                Err(e)
            }
        }
    }

    /// Returns whether an operation is one that the driver would do.
    fn accepts(&self, op: Op) -> bool {
        let mapping = |va: u64| self.mappings.get(&va);
        let block = |va: u64| va / BLOCK * BLOCK;
        match op {
            Op::Map(va, len, ..) | Op::MapUser(va, len, _) => self.is_free(va, len),
            Op::Zap(va) => mapping(va).is_some_and(|m| m.spans.is_some()),
            Op::Refresh(va, _) => mapping(va).is_some_and(|m| m.user && m.spans.is_none()),
            Op::Unmap(va, _) => mapping(va).is_some(),
            Op::Move(va, to, _) => {
                mapping(va).is_some_and(|m| !m.user && m.memory.is_system() != to.is_system())
            }
            Op::Pin(block) => !self.pinned.contains_key(&block),
            Op::Mirror(va) => {
                self.pinned.contains_key(&block(va))
                    && self.mapping(va).is_none()
                    && !self.refused.contains(&va)
            }
            Op::Unpin(block) => self.pinned.contains_key(&block),
            Op::Refuse(va) => {
                let pinned = self.pinned.get(&block(va));
                self.mapping(va).is_none() && pinned.is_none_or(|(_, all)| !all.contains_key(&va))
            }
            Op::Reset => true,
        }
    }

    /// Applies an operation. After an error the translations are those before, or for
    /// [`Op::Refresh`] none.
    fn apply(&mut self, op: Op) -> Result {
        let gpu = self.gpu.clone();
        match op {
            Op::Map(va, len, memory, by_dma) => {
                // Refused pages lose that, also if it fails.
                self.refused.retain(|page| !(va..va + len).contains(page));
                self.write(va, len, memory, bytes(by_dma))?;
                let (user, spans) = (false, None);
                self.mappings.insert(
                    va,
                    Mapping {
                        len,
                        memory,
                        user,
                        spans,
                    },
                );
            }
            Op::MapUser(va, len, memory) => {
                self.refused.retain(|page| !(va..va + len).contains(page));
                self.write_user(va, len, memory)?;
            }
            Op::Zap(va) => {
                self.zap(va);
                gpu.vram().flush();
            }
            Op::Refresh(va, memory) => self.write_user(va, self.mappings[&va].len, memory)?,
            Op::Unmap(va, by_dma) => {
                let len = self.mappings[&va].len;
                self.zap(va);
                self.clear(va, len, bytes(by_dma));
                self.mappings.remove(&va);
            }
            Op::Move(va, memory, by_dma) => {
                let len = self.mappings[&va].len;
                // As `Space::prepare_update()` and `Space::update()`: once the memory is prepared
                // it must not fail.
                let placement = memory.placement(len);
                let target = target(&placement, memory);
                let tables = self
                    .tree()
                    .splits(&gpu, va, len, (&placement, target.offset))?;
                let spare = Spare::new(&gpu, Some(MEMORY), tables)?;
                let prepared = gpu.vram().allocations();
                let mut update = Update::with_spare(&gpu, bytes(by_dma), spare);
                if let Err(e) = self.tree().map(&mut update, va, len, &target) {
                    panic!("a move after {}: {e:?}", self.history);
                }
                self.finish(update, true);
                assert_eq!(gpu.vram().allocations(), prepared, "tables of an update");
                self.mappings.get_mut(&va).expect("a mapping").memory = memory;
            }
            Op::Pin(block) => {
                let mut update = Update::by_cpu(&gpu);
                let result = self.tree().pin(&mut update, block);
                // `Mirror::new()` drops the update of a call that failed.
                let table = result?;
                self.finish(update, false);
                self.pinned.insert(block, (table, BTreeMap::new()));
            }
            Op::Mirror(va) => {
                let gmc = gpu.generation().gmc;
                let block = va / BLOCK * BLOCK;
                let (table, pages) = self.pinned.get_mut(&block).expect("a pinned table");
                let flags = gmc.pte_flags(Memory::System.attrs());
                let entry = gmc.leaf(0, 0x7_7777_7000, flags, 0);
                gpu.vram().store(*table + (va - block) / PAGE * 8, entry);
                pages.insert(
                    va,
                    Found::Page {
                        address: 0x7_7777_7000,
                        system: true,
                        write: true,
                        execute: false,
                    },
                );
            }
            Op::Unpin(block) => {
                let (table, pages) = self.pinned.remove(&block).expect("a pinned table");
                for va in pages.keys() {
                    let empty = gpu.generation().gmc.empty(0);
                    gpu.vram().store(table + (va - block) / PAGE * 8, empty);
                }
                gpu.vram().flush();
                let mut update = Update::by_cpu(&gpu);
                self.tree()
                    .unpin(&mut update, block)
                    .expect("a pinned table");
                self.finish(update, false);
            }
            Op::Refuse(va) => {
                let mut update = Update::by_cpu(&gpu);
                self.tree().refuse(&mut update, va)?;
                self.finish(update, true);
                self.refused.insert(va);
            }
            Op::Reset => {
                gpu.vram().lose();
                // Nothing walks page tables meanwhile.
                self.gpu.vram().set_root(None);
                self.tree().rewrite(&gpu)?;
                let root = self.tree().root_pa(&gpu) - PA;
                let all: Vec<_> = self.mappings.iter().map(|(va, m)| (*va, m.len)).collect();
                for (va, len) in all {
                    let mapping = &self.mappings[&va];
                    if mapping.spans.is_some() {
                        self.write_user(va, len, mapping.memory)?;
                    } else if !mapping.user {
                        let placement = mapping.memory.placement(len);
                        let target = target(&placement, mapping.memory);
                        let mut update = Update::by_cpu(&gpu);
                        self.tree().map(&mut update, va, len, &target)?;
                    }
                }
                self.pinned
                    .values_mut()
                    .for_each(|(_, pages)| pages.clear());
                self.refused.clear();
                self.gpu.vram().set_root(Some(root));
            }
        }
        Ok(())
    }

    /// Returns what a page should translate to.
    fn expected(&self, va: u64) -> Found {
        if let Some((first, mapping)) = self.mapping(va) {
            if mapping.user && mapping.spans.is_none() {
                return Found::Nothing;
            }
            return mapping.memory.page(va - first, mapping.len);
        }
        if self.refused.contains(&va) {
            return Found::NoRetry;
        }
        let pinned = self.pinned.get(&(va / BLOCK * BLOCK));
        let page = pinned.and_then(|(_, pages)| pages.get(&va));
        page.copied().unwrap_or(Found::Nothing)
    }

    /// Walks the tables for a page.
    fn found(&mut self, va: u64) -> Found {
        let (depth, block_size) = match self.generation {
            Generation::Gfx9 => (pte::LEVELS - 2, pte::LEVEL_BITS),
            Generation::Gfx12 => (pte::LEVELS - 1, 0),
        };
        let gpu = self.gpu.clone();
        let root = self.tree().root_pa(&gpu);
        let context = Context {
            format: Format::of(self.generation),
            enabled: true,
            depth: depth as u8,
            block_size: block_size as u8,
            root: gpu.generation().gmc.root(root),
            first_page: 0,
            last_page: u64::MAX >> 12,
        };
        let memory = TableMemory {
            vram: gpu.vram().bytes(),
            dma: &self.dma,
            vram_base: PA,
            cache: None,
        };
        match walk(&memory, &context, va, &mut Path::default(), &self.strict) {
            Ok(entry) => Found::Page {
                address: entry.page,
                system: entry.system,
                write: entry.write,
                execute: entry.execute,
            },
            Err(FaultKind::NoRetry) => Found::NoRetry,
            Err(FaultKind::NotPresent | FaultKind::Pde(_)) => Found::Nothing,
            Err(other) => panic!("{va:#x}: {other:?}"),
        }
    }

    /// Compares the translations of all pages, or of those at the ends of mappings.
    fn check(&mut self, all: bool) {
        self.gpu.vram().reached();
        let pages: Vec<u64> = if all {
            (BASE..BASE + BLOCKS * BLOCK)
                .step_by(PAGE as usize)
                .collect()
        } else {
            let mut ends = Vec::new();
            for (va, mapping) in &self.mappings {
                ends.extend([
                    *va,
                    va + mapping.len,
                    va + BLOCK,
                    va + mapping.len / 2 / PAGE * PAGE,
                ]);
            }
            ends.extend(self.pinned.keys());
            ends.extend(&self.refused);
            ends.extend((0..BLOCKS).map(|n| BASE + n * BLOCK));
            let near = ends.iter().flat_map(|end| [end - PAGE, *end, end + PAGE]);
            near.collect()
        };
        for va in pages {
            let (expected, found) = (self.expected(va), self.found(va));
            assert_eq!(
                found, expected,
                "translation of {va:#x} after {}",
                self.history
            );
        }
        assert_eq!(self.strict.unexpected(), 0, "violations of the GPU");
    }
}

/// Returns the size of an update that SDMA writes, or the CPU.
fn bytes(by_dma: bool) -> u64 {
    if by_dma {
        BY_DMA
    } else {
        0
    }
}

fn target(placement: &Placement, memory: Memory) -> Target<'_> {
    Target {
        placement,
        peer: None,
        attrs: memory.attrs(),
        offset: 0,
    }
}

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
fn random_operations_gfx9() {
    random_operations(Generation::Gfx9);
}

#[test]
fn random_operations_gfx12() {
    random_operations(Generation::Gfx12);
}
