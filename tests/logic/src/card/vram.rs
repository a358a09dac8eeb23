// SPDX-License-Identifier: GPL-2.0 OR MIT

//! VRAM with page tables: memory of the model, and an allocator that checks each free.
//!
//! Page tables are in the first bytes of VRAM, where no other memory is: a valid entry with an
//! address there is a PDE, whatever its format.
//!
//! Stores of the CPU are visible at once, but a PDE is checked as if they were not before a flush
//! of the HDP.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard},
};

use kernel::{
    alloc::allocate,
    prelude::*,
    sync::Arc, //
};
use rkfd_abi::pte;

/// Bytes of VRAM for page tables.
pub(crate) const TABLES: u64 = 2 << 20;
/// Bytes of VRAM.
pub(crate) const SIZE: u64 = 1 << 30;
/// Physical address of VRAM.
pub(crate) const PA: u64 = 0x60_0000_0000;
/// MC address of VRAM.
pub(crate) const MC: u64 = 0x80_0000_0000;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// What VRAM holds where no table is: a valid entry outside of all memory.
const POISON: u64 = 0x0000_dead_beef_f001;

struct State {
    /// Which frames are in use.
    used: [bool; (TABLES / PAGE) as usize],
    /// Frames that were freed last are allocated first.
    freed: Vec<u64>,
    /// Frames never allocated begin here.
    fresh: u64,
    /// The root of page tables that the GPU uses.
    root: Option<u64>,
    /// Tables that the GPU may have found since its caches were flushed.
    seen: BTreeSet<u64>,
    /// Tables that the GPU may find with what VRAM held before.
    stale: BTreeSet<u64>,
    /// Tables that the CPU stored to since the last flush of the HDP.
    stored: BTreeSet<u64>,
    /// Tables that were allocated so far.
    allocations: u64,
    /// How many tables there may be.
    room: usize,
    /// The memory partition that tables have to be in.
    memory: Option<u32>,
}

impl State {
    fn is_used(&self, table: u64) -> bool {
        self.used[(table / PAGE) as usize]
    }

    fn set_used(&mut self, table: u64, used: bool) {
        self.used[(table / PAGE) as usize] = used;
    }

    fn tables(&self) -> impl Iterator<Item = u64> + '_ {
        (0..TABLES)
            .step_by(PAGE as usize)
            .filter(|table| self.is_used(*table))
    }
}

/// VRAM of a card.
pub(crate) struct Vram {
    bytes: gpu_model::vram::Vram,
    state: Mutex<State>,
}

/// The frame buffer BAR.
pub(crate) struct Bar<'a>(&'a Vram);

/// A page table.
pub(crate) struct VramRange {
    vram: Arc<Vram>,
    start: u64,
}

impl VramRange {
    /// Returns the offset in VRAM.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }
}

impl Vram {
    pub(crate) fn new() -> Arc<Self> {
        let bytes = gpu_model::vram::Vram::new(SIZE).expect("memory for VRAM");
        Arc::new(Self {
            bytes,
            state: Mutex::new(State {
                used: [false; (TABLES / PAGE) as usize],
                freed: Vec::new(),
                fresh: 0,
                root: None,
                seen: BTreeSet::new(),
                stale: BTreeSet::new(),
                stored: BTreeSet::new(),
                allocations: 0,
                room: usize::MAX,
                memory: None,
            }),
        })
    }

    /// Returns the memory.
    pub(crate) fn bytes(&self) -> &gpu_model::vram::Vram {
        &self.bytes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the BAR.
    pub(crate) fn bar(&self) -> Bar<'_> {
        Bar(self)
    }

    /// Limits the number of tables.
    pub(crate) fn set_room(&self, tables: usize) {
        self.state().room = tables;
    }

    /// Allocates a table.
    pub(crate) fn alloc_table(
        self: &Arc<Self>,
        size: u64,
        memory: Option<u32>,
    ) -> Result<VramRange> {
        assert_eq!(size, PAGE);
        allocate(GFP_KERNEL)?;
        let mut state = self.state();
        assert_eq!(memory, state.memory, "memory partition of a table");
        if state.tables().count() >= state.room {
            return Err(ENOMEM);
        }
        let start = state.freed.pop().unwrap_or_else(|| {
            state.fresh += PAGE;
            state.fresh - PAGE
        });
        assert!(start < TABLES, "more tables than the test has memory for");
        state.set_used(start, true);
        state.stale.insert(start);
        state.allocations += 1;
        drop(state);
        self.fill(start, POISON);
        Ok(VramRange {
            vram: self.clone(),
            start,
        })
    }

    fn put(&self, at: u64, word: u64) {
        self.bytes.write(at, &word.to_le_bytes()).expect("VRAM");
    }

    fn fill(&self, start: u64, value: u64) {
        for at in (start..start + PAGE).step_by(8) {
            self.put(at, value);
        }
    }

    /// Nothing was freed that is in use or being cleared.
    pub(crate) fn wait_for_freed(&self) -> Result<bool> {
        Ok(false)
    }

    /// Writes an entry of a table in use, which the GPU may read at once.
    pub(crate) fn store(&self, offset: u64, entry: u64) {
        let mut state = self.state();
        let table = offset / PAGE * PAGE;
        assert!(
            table < TABLES,
            "an entry {entry:#x} is written to {offset:#x}"
        );
        assert!(
            state.is_used(table),
            "an entry {entry:#x} is written to {offset:#x}, where no table is"
        );
        if let Some(child) = table_of(entry) {
            assert!(
                state.is_used(child),
                "a PDE for {child:#x}, where no table is"
            );
            // Without a root nothing walks page tables.
            if state.root.is_some() {
                state.seen.insert(child);
            }
        }
        drop(state);
        if let Some(child) = table_of(entry) {
            self.check_link(offset, child);
        }
        self.put(offset, entry);
    }

    /// Checks that walks which find a PDE, to be written to `offset`, may use its table.
    fn check_link(&self, offset: u64, child: u64) {
        let old = self.bytes.load64(offset).expect("a table");
        let is_page = old & pte::VALID != 0 && table_of(old).is_none();
        let state = self.state();
        let (is_stale, is_stored) = (state.stale.contains(&child), state.stored.contains(&child));
        drop(state);
        if !(is_stale || is_page) || !self.reached().contains(&(offset / PAGE * PAGE)) {
            return;
        }
        assert!(!is_stale, "a PDE for {child:#x}, which is not flushed");
        if is_page {
            assert!(
                !is_stored,
                "a PDE for {child:#x} replaces a page, and its PTEs are not flushed"
            );
            let mut entries = (child..child + PAGE).step_by(8);
            assert!(
                entries.any(|at| self.bytes.load64(at).expect("a table") & pte::VALID != 0),
                "a PDE for {child:#x}, which is empty, replaces a page"
            );
        }
    }

    /// Flushes the HDP.
    pub(crate) fn hdp_flush(&self) {
        let mut state = self.state();
        let stored = std::mem::take(&mut state.stored);
        state.stale.retain(|table| !stored.contains(table));
    }

    /// Returns the tables that the GPU reaches from the root. Panics at a PDE of a table that is
    /// not in use, or that another PDE has.
    pub(crate) fn reached(&self) -> BTreeSet<u64> {
        let state = self.state();
        let mut found = BTreeSet::new();
        let mut todo = Vec::from_iter(state.root);
        while let Some(table) = todo.pop() {
            assert!(
                state.is_used(table),
                "a PDE points to {table:#x}, which is not in use"
            );
            assert!(found.insert(table), "two PDEs point to {table:#x}");
            for at in (table..table + PAGE).step_by(8) {
                let entry = self.bytes.load64(at).expect("a table");
                todo.extend(table_of(entry));
            }
        }
        found
    }

    /// Makes the GPU use page tables from this root on, or none.
    pub(crate) fn set_root(&self, root: Option<u64>) {
        self.state().root = root;
        self.flush();
    }

    /// Flushes all caches of the GPU.
    pub(crate) fn flush(&self) {
        let reached = self.reached();
        self.state().seen = reached;
    }

    /// Overwrites all tables, as a reset of the card does.
    pub(crate) fn lose(&self) {
        self.state()
            .tables()
            .for_each(|table| self.fill(table, POISON));
    }

    /// Returns the number of tables in use.
    pub(crate) fn tables(&self) -> usize {
        self.state().tables().count()
    }

    /// Returns the number of tables that were allocated.
    pub(crate) fn allocations(&self) -> u64 {
        self.state().allocations
    }

    /// Expects tables in a memory partition.
    pub(crate) fn expect_memory(&self, memory: Option<u32>) {
        self.state().memory = memory;
    }
}

/// Returns the table that an entry points to.
fn table_of(entry: u64) -> Option<u64> {
    let table = (entry & pte::PDE_ADDR).checked_sub(PA)?;
    (entry & pte::VALID != 0 && entry & pte::SYSTEM == 0 && table < TABLES).then_some(table)
}

impl Drop for VramRange {
    fn drop(&mut self) {
        let start = self.start;
        // A test that has failed already.
        if std::thread::panicking() {
            return;
        }
        let reached = self.vram.reached();
        assert!(
            !reached.contains(&start),
            "table {start:#x} is freed, and a PDE points to it"
        );
        let mut state = self.vram.state();
        assert!(
            !state.seen.contains(&start),
            "table {start:#x} is freed before the flush"
        );
        state.set_used(start, false);
        state.stale.remove(&start);
        state.stored.remove(&start);
        state.freed.push(start);
        drop(state);
        self.vram.fill(start, POISON);
    }
}

impl Bar<'_> {
    /// Writes words from `at` on.
    pub(crate) fn write64s(&self, at: usize, words: &[u64]) -> Result {
        self.store_all(at, words.iter().copied());
        Ok(())
    }

    /// Writes a word `count` times from `at` on.
    pub(crate) fn fill64(&self, at: usize, count: usize, word: u64) -> Result {
        self.store_all(at, std::iter::repeat_n(word, count));
        Ok(())
    }

    fn store_all(&self, at: usize, words: impl Iterator<Item = u64>) {
        let table = at as u64 / PAGE * PAGE;
        for (at, word) in (at as u64..).step_by(8).zip(words) {
            self.0.store(at, word);
        }
        self.0.state().stored.insert(table);
    }
}
