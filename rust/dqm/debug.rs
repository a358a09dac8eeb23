// SPDX-License-Identifier: GPL-2.0

//! Settings of debuggers: suspended queues, trap overrides, watchpoints.

use kernel::{num::casts::u32_as_usize, prelude::*, sync::Arc};

use super::{
    queues::{DqmProcess, DqmQueue},
    sched::Scope,
    Dqm, Inner,
};
use crate::hw::{WaveDebug, WATCHPOINTS};

/// A grace period that is the default one (`USE_DEFAULT_GRACE_PERIOD`).
const DEFAULT_GRACE: u32 = u32::MAX;

impl Dqm {
    /// Suspends queues of a process for a debugger, until [`Dqm::resume_queues`]: their waves are
    /// saved, after a grace period in units of 1024 clock cycles, or [`DEFAULT_GRACE`]. Suspended
    /// ones stay so. The queues are suspended despite an error: `ETIME` when the scheduler does not
    /// respond, `EIO` when the GPU is hung.
    pub(crate) fn suspend_queues(&self, queues: &[Arc<DqmQueue>], grace: u32) -> Result {
        let mut inner = self.lock();
        let mut ran = false;
        for queue in queues {
            queue.state.lock().suspended = true;
            ran |= inner.queues.deactivate(queue);
        }
        if !ran {
            return Ok(());
        }
        if grace == DEFAULT_GRACE {
            return self.execute(&mut inner, Scope::Queues(queues));
        }
        // The queues are unmapped despite an error: they count as suspended.
        let begun = self.set_grace(&mut inner, Some(grace));
        let suspended = self.execute(&mut inner, Scope::Queues(queues));
        let ended = self.set_grace(&mut inner, None);
        begun.and(suspended).and(ended)
    }

    fn set_grace(&self, inner: &mut Inner, grace: Option<u32>) -> Result {
        if !inner.running {
            return Ok(());
        }
        inner.sched.set_grace(&self.gpu, grace)
    }

    /// Undoes [`Dqm::suspend_queues`] for queues that are suspended. Needs no memory. Errors are
    /// the same; queues that MES rejects are lost.
    pub(crate) fn resume_queues(&self, queues: &[Arc<DqmQueue>]) -> Result {
        let mut inner = self.lock();
        let mut runs = false;
        for queue in queues {
            queue.state.lock().suspended = false;
            runs |= inner.queues.activate_if_runnable(queue);
        }
        if !runs {
            return Ok(());
        }
        self.execute(&mut inner, Scope::Queues(queues))
    }

    /// Sets how the waves of a process start, but for its watchpoints. `ETIME` when the scheduler
    /// does not respond, `EIO` when the GPU is hung or MES rejects it.
    pub(crate) fn set_wave_debug(&self, slot: &Arc<DqmProcess>, debug: WaveDebug) -> Result {
        let mut inner = self.lock();
        let watch = slot.state.lock().map.debug.watch;
        self.change_debug(&mut inner, slot, WaveDebug { watch, ..debug })
    }

    /// Passes settings to the scheduler, unless it has them. They are as before after an error,
    /// and the scheduler may have either: the next change is passed on in any case.
    fn change_debug(&self, inner: &mut Inner, slot: &DqmProcess, debug: WaveDebug) -> Result {
        let old = {
            let mut state = slot.state.lock();
            if !state.debug_failed && state.map.debug == debug {
                return Ok(());
            }
            core::mem::replace(&mut state.map.debug, debug)
        };
        let mut result = Ok(());
        if inner.running {
            let Inner { sched, queues, .. } = inner;
            result = self
                .gpu
                .check_usable()
                .and_then(|()| sched.set_debug(&self.gpu, queues, slot));
        }
        let mut state = slot.state.lock();
        state.debug_failed = result.is_err();
        if result.is_err() {
            state.map.debug = old;
        }
        result
    }

    /// Sets a watchpoint of a process, with mask and mode of TCP_WATCHn_CNTL, and returns its
    /// number. `ENOMEM` when all of the node are in use, otherwise as [`Self::set_wave_debug`].
    pub(crate) fn set_watchpoint(
        &self,
        slot: &Arc<DqmProcess>,
        va: u64,
        mask: u32,
        mode: u32,
    ) -> Result<u32> {
        let mut inner = self.lock();
        let id = u32_as_usize(inner.watchpoints.trailing_ones());
        if id >= WATCHPOINTS {
            return Err(ENOMEM);
        }
        self.set_watch_address(id, va)?;
        inner.watched[id] = va;
        let mut debug = {
            let mut state = slot.state.lock();
            state.watchpoints |= 1 << id;
            state.map.debug
        };
        inner.watchpoints |= 1 << id;
        debug.watch[id] = self.gpu.generation().gfx.watch_control(mask, mode);
        if let Err(e) = self.change_debug(&mut inner, slot, debug) {
            slot.state.lock().watchpoints &= !(1 << id);
            inner.watchpoints &= !(1 << id);
            return Err(e);
        }
        Ok(u32::try_from(id)?)
    }

    pub(super) fn set_watch_address(&self, id: usize, va: u64) -> Result {
        let gfx = self.gpu.generation().gfx;
        let mmio = self.gpu.mmio()?;
        let mut xccs = self.node.xccs.iter();
        xccs.try_for_each(|xcc| gfx.set_watch_address(mmio, *xcc, id, va))
    }

    /// Clears a watchpoint, which stays after an error. `EINVAL` if the process does not have it,
    /// otherwise as [`Self::set_wave_debug`].
    pub(crate) fn clear_watchpoint(&self, slot: &Arc<DqmProcess>, id: u32) -> Result {
        let mut inner = self.lock();
        let at = u32_as_usize(id);
        let mut debug = {
            let state = slot.state.lock();
            if at >= WATCHPOINTS || state.watchpoints & 1 << id == 0 {
                return Err(EINVAL);
            }
            state.map.debug
        };
        debug.watch[at] = 0;
        // Not effective any more before another process gets it.
        self.change_debug(&mut inner, slot, debug)?;
        slot.state.lock().watchpoints &= !(1 << id);
        inner.watchpoints &= !(1 << id);
        Ok(())
    }

    /// Clears all settings of a debugger. Errors as [`Self::set_wave_debug`].
    pub(crate) fn reset_wave_debug(&self, slot: &Arc<DqmProcess>) -> Result {
        let mut inner = self.lock();
        let owned = core::mem::take(&mut slot.state.lock().watchpoints);
        let result = self.change_debug(&mut inner, slot, WaveDebug::default());
        // No debugger repeats it after an error.
        slot.state.lock().map.debug = WaveDebug::default();
        inner.watchpoints &= !owned;
        result
    }
}
