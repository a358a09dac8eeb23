// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Decoded instruction cache of a dispatch.
//!
//! The cache belongs to the [`Dispatch`], so code modified between dispatches is decoded again.

use crate::decode::{self, Bad, Limits};
use crate::inst::Inst;
use crate::{Dispatch, Fault, Memory};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, RwLock};

/// Bytes of code per cache page.
const PAGE: u64 = 512;
const SLOTS: usize = (PAGE / 4) as usize;

/// A word that does not decode, or could not be fetched.
#[derive(Clone, Debug)]
pub(crate) enum BadCode {
    Fetch(Fault),
    Decode(Bad),
}

type Slot = OnceLock<Result<Inst, Box<BadCode>>>;

/// Decoded instructions of a [`PAGE`] of code.
pub(crate) struct Page {
    base: u64,
    slots: [Slot; SLOTS],
}

impl Page {
    /// Returns whether `pc` is on this page.
    pub(crate) fn holds(&self, pc: u64) -> bool {
        pc & !(PAGE - 1) == self.base
    }

    fn slot(&self, pc: u64) -> &Slot {
        &self.slots[((pc & (PAGE - 1)) / 4) as usize]
    }

    /// Returns the instruction at `pc`, which must be on this page.
    #[inline]
    pub(crate) fn get(&self, pc: u64, mem: &dyn Memory, limits: &Limits) -> Result<&Inst, BadCode> {
        match self.slot(pc).get() {
            Some(Ok(inst)) => Ok(inst),
            _ => self.decode(pc, mem, limits),
        }
    }

    /// Decodes the instruction at `pc`, unless it is known. Apart from [`Page::get`], which runs
    /// for each instruction.
    #[cold]
    fn decode(&self, pc: u64, mem: &dyn Memory, limits: &Limits) -> Result<&Inst, BadCode> {
        let slot = self.slot(pc);
        let result = match slot.get() {
            Some(result) => result,
            None => match load(pc, mem, limits) {
                // Not cached.
                Err(BadCode::Fetch(fault)) if fault.retry => return Err(BadCode::Fetch(fault)),
                result => slot.get_or_init(|| result.map_err(Box::new)),
            },
        };
        result.as_ref().map_err(|bad| (**bad).clone())
    }
}

fn load(pc: u64, mem: &dyn Memory, limits: &Limits) -> Result<Inst, BadCode> {
    let fetch = |pc: u64| {
        let mut word = [0; 4];
        mem.fetch(pc, &mut word).map_err(BadCode::Fetch)?;
        Ok(u32::from_le_bytes(word))
    };
    let mut words = [0; decode::WORDS];
    words[0] = fetch(pc)?;
    let mut have = 1;
    while decode::length(limits.isa, &words[..have]) > have {
        words[have] = fetch(pc.wrapping_add(4 * have as u64))?;
        have += 1;
    }
    decode::decode(words, limits).map_err(BadCode::Decode)
}

/// Decoded code of a dispatch.
#[derive(Default)]
pub struct CodeCache {
    pages: RwLock<HashMap<u64, Arc<Page>>>,
}

impl CodeCache {
    /// Drops all code.
    fn invalidate(&self) {
        let mut pages = self.pages.write().unwrap_or_else(|e| e.into_inner());
        pages.clear();
    }

    /// Returns the page of `pc`.
    pub(crate) fn page(&self, pc: u64) -> Arc<Page> {
        let base = pc & !(PAGE - 1);
        let found = match self.pages.read() {
            Ok(pages) => pages.get(&base).cloned(),
            Err(poisoned) => poisoned.into_inner().get(&base).cloned(),
        };
        if let Some(page) = found {
            return page;
        }
        let fresh = || {
            Arc::new(Page {
                base,
                slots: [const { OnceLock::new() }; SLOTS],
            })
        };
        match self.pages.write() {
            Ok(mut pages) => pages.entry(base).or_insert_with(fresh).clone(),
            Err(poisoned) => poisoned
                .into_inner()
                .entry(base)
                .or_insert_with(fresh)
                .clone(),
        }
    }
}

impl Dispatch {
    /// Invalidates the instruction cache, as hardware does when it maps a queue: a debugger may
    /// have changed the code of waves that were saved.
    pub fn invalidate_code(&self) {
        self.code.invalidate();
        self.trap_code.invalidate();
    }
}

impl fmt::Debug for CodeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodeCache")
    }
}
