// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Where the MES takes part in the work of the command processor: its rings, and doorbells that
//! no mapped queue listens to.

use super::engine::Engine;
use super::queue::{Halt, Queue, Step};
use crate::strict;

impl Engine<'_> {
    /// Looks at a ring of the MES.
    pub(super) fn step_mes(&mut self, queue: &mut Queue) -> Step {
        if queue.rptr != queue.wptr {
            strict!(
                self.env.strict(),
                "mes",
                "ring {}: no firmware looks at it",
                queue.slot
            );
            queue.halt = Halt::Error;
        }
        Step::Idle
    }

    /// A doorbell of no mapped queue. True if somebody knows whose it is.
    pub(super) fn mes_doorbell(&mut self, _index: u32, _value: u64) -> bool {
        false
    }
}
