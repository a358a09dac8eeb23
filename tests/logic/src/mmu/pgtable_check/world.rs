// SPDX-License-Identifier: GPL-2.0 OR MIT

//! An address space with its page tables, and the map of pages that they are compared with.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use gpu_model::{
    chips::Generation,
    dma::GuestMemory,
    engines::gmc::{
        suspects::Suspects,
        walk::{walk, Context, Format, Path, TableMemory},
        FaultKind,
    },
    log::Strict,
};
use kernel::{prelude::*, sync::Arc};
use rkfd_abi::pte;

use super::super::{
    pgtable::{Spare, Tree, Update},
    placement::Placement,
    pte::Span,
    source::Target,
};
use super::memory::{Found, Memory};
use super::{BASE, BLOCK, BLOCKS, PAGE};
use crate::{
    card::vram::PA,
    gpu::Gpu,
    hw::{GFX12, GFX9},
};

/// Bytes of an update from which on SDMA writes it.
const BY_DMA: u64 = 16 << 20;

pub(super) struct Mapping {
    pub(super) len: u64,
    memory: Memory,
    /// Of a userptr BO.
    pub(super) user: bool,
    /// Its PTEs that are valid, of a userptr BO.
    spans: Option<KVVec<Span>>,
}

/// An address space, and what it should map.
pub(super) struct World {
    pub(super) gpu: Arc<Gpu>,
    generation: Generation,
    strict: Strict,
    suspects: Suspects,
    dma: GuestMemory,
    tree: Option<Tree>,
    pub(super) mappings: BTreeMap<u64, Mapping>,
    /// Offset in VRAM of each pinned table, and the pages that it maps, by block.
    pub(super) pinned: BTreeMap<u64, (u64, BTreeMap<u64, Found>)>,
    /// Pages at which accesses are refused.
    pub(super) refused: BTreeSet<u64>,
    /// Tables of a map that failed, for its repetition.
    spare: Spare,
    /// The operations, for messages.
    pub(super) history: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
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
    pub(super) fn new(generation: Generation) -> Self {
        let gpu = Gpu::new(match generation {
            Generation::Gfx9 => GFX9,
            Generation::Gfx12 => GFX12,
        });
        gpu.vram().expect_memory(Some(MEMORY));
        let mut world = Self {
            gpu,
            generation,
            strict: Strict::new(Vec::new()),
            suspects: Suspects::default(),
            dma: GuestMemory::default(),
            tree: None,
            mappings: BTreeMap::new(),
            pinned: BTreeMap::new(),
            refused: BTreeSet::new(),
            spare: Spare::default(),
            history: String::new(),
        };
        world.open();
        world
    }

    /// Makes page tables.
    pub(super) fn open(&mut self) {
        let tree = Tree::new(&self.gpu, Some(MEMORY)).expect("memory for a root");
        self.gpu.vram().set_root(Some(tree.root_pa(&self.gpu) - PA));
        self.tree = Some(tree);
    }

    /// Frees page tables with all that they map. None is left.
    pub(super) fn close(&mut self) {
        self.gpu.vram().set_root(None);
        self.tree = None;
        self.spare = Spare::default();
        self.mappings.clear();
        self.pinned.clear();
        self.refused.clear();
        assert_eq!(self.gpu.vram().tables(), 0, "tables are left over");
    }

    fn tree(&mut self) -> &mut Tree {
        self.tree.as_mut().expect("page tables")
    }

    /// Returns the mapping of an address.
    pub(super) fn mapping(&self, va: u64) -> Option<(u64, &Mapping)> {
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
    fn finish(&mut self, update: &mut Update<'_>, valid: bool) {
        self.tree().write_out(update).expect("a card");
        self.gpu.vram().hdp_flush();
        if valid || update.has_garbage() {
            self.gpu.vram().flush();
        }
        self.tree().end(update);
    }

    /// As `Space::write()`.
    fn write(&mut self, va: u64, len: u64, memory: Memory, bytes: u64) -> Result {
        let gpu = self.gpu.clone();
        let placement = memory.placement(len);
        let mut update = Update::with_spare(&gpu, bytes, mem::take(&mut self.spare));
        let target = target(&placement, memory);
        if let Err(e) = self.tree().map(&mut update, va, len, &target) {
            update.discard_rows();
            self.tree()
                .unmap(&mut update, va, len)
                .expect("no part of a 2 MiB page");
            self.finish(&mut update, true);
            self.spare = self.tree().spare_of(update);
            return Err(e);
        }
        self.finish(&mut update, false);
        Ok(())
    }

    /// As `Space::clear()`.
    pub(super) fn clear(&mut self, va: u64, len: u64, bytes: u64) -> Spare {
        let gpu = self.gpu.clone();
        let mut update = Update::new(&gpu, bytes);
        update.set_zapped(self.zap(va));
        self.tree()
            .unmap(&mut update, va, len)
            .expect("no part of a 2 MiB page");
        self.finish(&mut update, true);
        self.tree().spare_of(update)
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
        let mut update = Update::deferred(&gpu, mem::take(&mut self.spare));
        let mapped = self.tree().map(&mut update, va, len, &target);
        match mapped.and_then(|()| update.spans()) {
            Ok(spans) => {
                update.write_all().expect("a card");
                self.finish(&mut update, valid);
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
                self.spare = self.clear(va, len, 0);
                let left = self.tree().spare_of(update);
                self.spare.add(left);
                Err(e)
            }
        }
    }

    /// Returns whether an operation is one that the driver would do.
    pub(super) fn accepts(&self, op: Op) -> bool {
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
    pub(super) fn apply(&mut self, op: Op) -> Result {
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
                self.finish(&mut update, true);
                assert_eq!(gpu.vram().allocations(), prepared, "tables of an update");
                self.mappings.get_mut(&va).expect("a mapping").memory = memory;
            }
            Op::Pin(block) => {
                let mut update = Update::by_cpu(&gpu);
                let result = self.tree().pin(&mut update, block);
                // `Mirror::new()` drops the update of a call that failed.
                let table = result?;
                self.finish(&mut update, false);
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
                self.finish(&mut update, false);
            }
            Op::Refuse(va) => {
                let mut update = Update::by_cpu(&gpu);
                self.tree().refuse(&mut update, va)?;
                self.finish(&mut update, true);
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
                gpu.vram().hdp_flush();
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
            cached: true,
            cache: None,
            suspects: Some((&self.suspects, 1)),
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
    pub(super) fn check(&mut self, all: bool) {
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
        assert!(self.suspects.is_empty(), "fragments with other neighbours");
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
