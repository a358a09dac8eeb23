// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Hooks of MES in the command processor: its rings, doorbells of unmapped queues, and the HQD
//! slots that it maps queues to. The firmware itself is in [`crate::engines::mes`].

use std::time::Duration;

use gpu_regs::gc_9_4_3 as gc;

use super::engine::{Engine, Vmid};
use super::env::Env;
use super::graphics::is_graphics;
use super::queue::{Class, Halt, Queue, Step, Unmap};
use super::save::{LoadError, Map};
use super::sdma::SdmaMap;
use super::slot::Slot;
use crate::chips::Generation;
use crate::engines::mes::{Activity, Hardware, Load, Mes, Ring};
use crate::strict;

impl Engine<'_> {
    /// Passes the engine to the MES firmware.
    fn with_mes<T>(&mut self, f: impl FnOnce(&mut Mes, &mut Self) -> T) -> T {
        let mut mes = std::mem::take(&mut self.mes);
        let result = f(&mut mes, self);
        self.mes = mes;
        result
    }

    /// Steps a ring of MES.
    pub(super) fn step_mes(&mut self, queue: &mut Queue) -> Step {
        let mut ring = Ring {
            base: queue.config.base,
            size: queue.config.size,
            rptr: queue.rptr,
            wptr: queue.wptr,
        };
        let pipe = queue.slot.pipe();
        let step = self.with_mes(|mes, hw| mes.step(hw, pipe, &mut ring));
        if ring.rptr != queue.rptr {
            queue.rptr = ring.rptr;
            let quiet = {
                let mut banks = self.banks();
                let bank = banks.slot_mut(queue.slot);
                bank.set(gc::regCP_HQD_PQ_RPTR, queue.config.narrow_rptr(queue.rptr));
                let control = bank.get(gc::regCP_HQD_PQ_CONTROL);
                gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.is_set(control)
            };
            if !quiet {
                self.report_rptr(queue);
            }
        }
        step
    }

    /// Runs the scheduler of MES. Returns when to run it again.
    pub(super) fn turn_mes(&mut self) -> Option<Duration> {
        match self.generation() {
            Generation::Gfx9 => None,
            Generation::Gfx12 => self.with_mes(|mes, hw| mes.turn(hw)),
        }
    }

    /// Handles a doorbell of no mapped queue. Returns whether the queue was added to MES.
    pub(super) fn mes_doorbell(&mut self, index: u32, value: u64) -> bool {
        self.with_mes(|mes, hw| mes.doorbell(hw, index, value))
    }
}

impl Hardware for Engine<'_> {
    fn env(&self) -> &dyn Env {
        self.env
    }

    fn expect(&mut self, doorbell: u32, sdma: bool) {
        self.expect_doorbell(doorbell, sdma);
    }

    fn claim(&mut self, vmid: u8, pasid: u16, root: u64) {
        self.vmids[usize::from(vmid)] = Vmid { pasid, root };
        self.env.map_vmid(vmid, pasid, root);
    }

    fn load(&mut self, load: &Load) -> Result<(), LoadError> {
        if is_graphics(load.slot) {
            return self.map_graphics(load);
        }
        let Some((engine, rlc)) = load.slot.as_rlc() else {
            return self.map(&Map {
                slot: load.slot,
                mqd: load.mqd,
                wptr: load.wptr,
                doorbell: load.doorbell,
                vmid: load.vmid,
                pasid: load.pasid,
                class: if load.ring { Class::Mes } else { Class::Normal },
                is_static: load.vmid == 0,
                gws: 0,
                scheduled: false,
            });
        };
        let slot = self.map_sdma(&SdmaMap {
            engine,
            number: engine,
            rlc: Some(rlc),
            mqd: load.mqd,
            wptr: load.wptr,
            doorbell: load.doorbell,
            vmid: load.vmid,
            pasid: load.pasid,
            is_static: false,
        })?;
        if slot != load.slot {
            strict!(
                self.env.strict(),
                "mes",
                "doorbell {:#x}: {} is in use",
                load.doorbell,
                load.slot
            );
            return Err(LoadError::Invalid);
        }
        Ok(())
    }

    fn begin_unload(&mut self, slot: Slot, reset: bool) {
        match (reset, slot.as_rlc()) {
            (true, None) => self.force_off(slot, Unmap::Reset),
            (true, Some(_)) => self.start_unmap_any(slot, Unmap::Reset, false),
            (false, _) => self.start_unmap_any(slot, Unmap::Preempt, false),
        }
    }

    fn is_mapped(&self, slot: Slot) -> bool {
        Engine::is_mapped(self, slot)
    }

    fn awaits_slice(&self, slot: Slot) -> bool {
        Engine::awaits_slice(self, slot)
    }

    fn activity(&self, slot: Slot) -> Activity {
        let queue = self
            .queues
            .get(usize::from(slot.0))
            .and_then(Option::as_ref);
        match queue {
            // The progress is internal to the SDMA engine.
            None => Activity::Busy,
            Some(queue) if queue.halt != Halt::No => Activity::Halted,
            Some(queue) if queue.rptr == queue.wptr && !queue.work.in_flight() => Activity::Idle,
            Some(_) => Activity::Busy,
        }
    }
}
