// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Fences of packets: actions on the caches of the XCCs that execute a queue, the L2s and those of
//! the CUs. Without caches (see [`l2`](crate::engines::gmc::l2), [`cu`](crate::engines::gmc::cu))
//! they have no effect.

use gpu_wave::Scope;
use rkfd_abi::aql::header;
use rkfd_abi::pm4::{self, gfx12};

use super::engine::Engine;
use super::env::Env;
use super::pm4::Packet;
use super::queue::Queue;
use crate::chips::Generation;
use crate::engines::gmc::cu::Cache;

/// Returns the scope of a fence in an AQL header.
fn scope(fence: u32) -> Scope {
    match fence {
        header::SCOPE_NONE => Scope::Wave,
        header::SCOPE_AGENT => Scope::Agent,
        _ => Scope::System,
    }
}

/// Returns the release scope of an AQL header.
pub(super) fn release_scope(head: u32) -> Scope {
    scope(header::RELEASE_FENCE_SCOPE.get(head))
}

impl Engine<'_> {
    /// Calls `f` for each XCC that executes a queue, if there are caches and the fence has a scope.
    fn on_l2s(&self, queue: &Queue, scope: Scope, f: impl Fn(&dyn Env)) {
        if scope != Scope::Wave {
            self.on_xccs(queue, f);
        }
    }

    /// Calls `f` for each XCC that executes a queue, if there are caches.
    fn on_xccs(&self, queue: &Queue, f: impl Fn(&dyn Env)) {
        if !self.env.has_l2() {
            return;
        }
        for site in self.sites(queue) {
            match site.space.xcc == self.env.xcc() {
                true => f(self.env),
                false => self
                    .env
                    .peer(site.space.xcc)
                    .iter()
                    .for_each(|env| f(&**env)),
            }
        }
    }

    /// Executes the acquire fence of an AQL packet.
    pub(super) fn acquire(&self, queue: &Queue, head: u32) {
        let scope = scope(header::ACQUIRE_FENCE_SCOPE.get(head));
        self.on_xccs(queue, |env| match scope {
            Scope::Wave => env.may_invalidate_cus(),
            _ => {
                env.invalidate_l2(scope);
                env.invalidate_cus(&Cache::ALL);
            }
        });
    }

    /// Executes a release fence.
    pub(super) fn release(&self, queue: &Queue, scope: Scope) {
        self.on_l2s(queue, scope, |env| env.write_back(scope));
    }

    /// Executes the cache actions of ACQUIRE_MEM.
    pub(super) fn acquire_actions(&self, queue: &Queue, p: &Packet) {
        use gfx12::acquire_mem as am12;
        use pm4::acquire_mem as am;
        match self.generation() {
            Generation::Gfx9 => {
                if p.has(am::SH_KCACHE_WB_ACTION_ENA) {
                    self.on_xccs(queue, |env| env.write_back_scalar());
                }
                self.actions(queue, p.has(am::TC_ACTION_ENA), p.has(am::TC_WB_ACTION_ENA));
                let scalar = p.has(am::SH_KCACHE_ACTION_ENA) || p.has(am::SH_KCACHE_VOL_ACTION_ENA);
                let vector = p.has(am::TCL1_ACTION_ENA) || p.has(am::TCL1_VOL_ACTION_ENA);
                let code = p.has(am::SH_ICACHE_ACTION_ENA);
                self.invalidate_cus(queue, [scalar, code, vector]);
            }
            Generation::Gfx12 => {
                self.rinse(
                    queue,
                    p.has(am12::GCR_CNTL_GL2_INV),
                    p.has(am12::GCR_CNTL_GL2_WB),
                );
                let code = p.get(am12::GCR_CNTL_GLI_INV) != 0;
                let [scalar, vector] =
                    [am12::GCR_CNTL_GLK_INV, am12::GCR_CNTL_GLV_INV].map(|bit| p.has(bit));
                self.invalidate_cus(queue, [scalar, code, vector]);
            }
        }
    }

    /// Executes the cache actions of RELEASE_MEM.
    pub(super) fn release_actions(&self, queue: &Queue, p: &Packet) {
        use gfx12::release_mem as rm12;
        use pm4::release_mem as rm;
        match self.generation() {
            Generation::Gfx9 => {
                self.actions(queue, p.has(rm::TC_ACTION_ENA), p.has(rm::TC_WB_ACTION_ENA));
                let vector = p.has(rm::TCL1_ACTION_ENA) || p.has(rm::TCL1_VOL_ACTION_ENA);
                self.invalidate_cus(queue, [false, false, vector]);
            }
            Generation::Gfx12 => {
                self.rinse(queue, p.has(rm12::GCR_GL2_INV), p.has(rm12::GCR_GL2_WB));
                self.invalidate_cus(queue, [false, false, p.has(rm12::GCR_GLV_INV)]);
            }
        }
    }

    /// Invalidates the caches of the CUs that are selected: scalar, instructions, vector.
    fn invalidate_cus(&self, queue: &Queue, selected: [bool; Cache::ALL.len()]) {
        for (cache, _) in Cache::ALL.into_iter().zip(selected).filter(|(_, on)| *on) {
            self.on_xccs(queue, |env| env.invalidate_cus(&[cache]));
        }
    }

    /// Executes the actions of a GCR request on the whole L2, whatever its range is.
    fn rinse(&self, queue: &Queue, invalidate: bool, write_back: bool) {
        if write_back {
            self.release(queue, Scope::System);
        }
        if invalidate {
            self.on_l2s(queue, Scope::System, |env| env.invalidate_l2(Scope::System));
        }
    }

    /// Writes back, or writes back and invalidates. TC_NC selects the lines with MTYPE NC and RW:
    /// there are no others.
    fn actions(&self, queue: &Queue, invalidate: bool, write_back: bool) {
        if invalidate {
            self.on_l2s(queue, Scope::System, |env| env.flush_l2());
        } else if write_back {
            self.release(queue, Scope::System);
        }
    }
}
