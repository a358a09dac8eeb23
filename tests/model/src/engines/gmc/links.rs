// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Directory entries that the host stores, in adversarial mode: a table must be in VRAM before a
//! directory points to it, as walks find whatever VRAM holds there. `amdgpu_vm_pt_clear` flushes
//! the HDP, and `amdgpu_vm_update_pdes` follows.

use std::collections::HashSet;

use rkfd_abi::pte::{ENTRIES, ENTRY_SIZE, SYSTEM, VALID};

use super::walk::Context;
use super::{Gmc, Hub, HubState};
use crate::engines::hdp::Hdp;
use crate::strict;

const PAGE: u64 = 4096;

/// Tables of a VMID.
struct Tree<'a> {
    hdp: &'a Hdp,
    context: Context,
    vram_base: u64,
    seen: HashSet<u64>,
}

impl Tree<'_> {
    /// Returns whether `page` is the directory that `pde` points to, or one that this reaches:
    /// `level` directories are below it.
    fn reaches(&mut self, pde: u64, level: Option<u8>, page: u64) -> bool {
        let format = self.context.format;
        let table = format
            .table(pde)
            .and_then(|pa| pa.checked_sub(self.vram_base));
        let Some(table) = table else { return false };
        if level.is_none() && !format.translates_further(pde) || !self.seen.insert(table) {
            return false;
        }
        if table == page {
            return true;
        }
        let Some(level) = level else { return false };
        let entries = (0..ENTRIES).map(|i| table + (i * ENTRY_SIZE) as u64);
        let entries: Vec<u64> = entries.flat_map(|at| self.hdp.peek(at)).collect();
        entries
            .into_iter()
            .any(|entry| self.reaches(entry, level.checked_sub(1), page))
    }
}

impl Gmc {
    /// Checks a word that the host has stored to VRAM at `offset`. `vmids` returns those with
    /// queues on an XCC: the roots of others may be those of processes that have ended.
    pub fn check_link(&self, hdp: &Hdp, offset: u64, word: u64, vmids: impl Fn(u8) -> u16) {
        let page = offset & !(PAGE - 1);
        for state in &self.gfx {
            let Hub::Gfx(xcc) = state.hub else { continue };
            let table = state.regs.format().table(word);
            let table = table.and_then(|pa| pa.checked_sub(state.regs.fb_offset()));
            let Some(table) = table.filter(|table| hdp.is_new(table & !(PAGE - 1))) else {
                continue;
            };
            // Nothing walks a directory that is new itself: it would have been reported before.
            if hdp.is_new(page) {
                continue;
            }
            if let Some(vmid) = directory_of(state, hdp, page, vmids(xcc)) {
                strict!(
                    self.strict,
                    "gmc",
                    "{:?} hub vmid {vmid} entry {word:#x} at {offset:#x} of VRAM points to a table \
                     at {table:#x} that is not flushed from the HDP",
                    state.hub
                );
                return;
            }
        }
    }
}

/// Returns the VMID, one of `vmids`, whose directories `page` is one of.
fn directory_of(state: &HubState, hdp: &Hdp, page: u64, vmids: u16) -> Option<u8> {
    (0..16).filter(|vmid| vmids >> vmid & 1 != 0).find(|vmid| {
        let context = state.regs.context(*vmid);
        let is_used = context.enabled && context.root & (VALID | SYSTEM) == VALID;
        let top = context.depth.checked_sub(1);
        let mut tree = Tree {
            hdp,
            context,
            vram_base: state.regs.fb_offset(),
            seen: HashSet::new(),
        };
        is_used && top.is_some() && tree.reaches(context.root, top, page)
    })
}
