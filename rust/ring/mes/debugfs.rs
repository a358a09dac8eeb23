// SPDX-License-Identifier: GPL-2.0

//! debugfs output of the MES rings.

use kernel::{fmt, prelude::*};

use super::{pipe::op_name, Mes};
use crate::{
    card::Card,
    hw::{write_registers, MesPipe},
};

const PIPES: [(MesPipe, &str); 2] = [
    (MesPipe::Scheduler, "mes_3.0.0"),
    (MesPipe::Kiq, "mes_3.1.0"),
];

impl Mes {
    /// Prints the firmware version and, per ring, its pointers, frames submitted, failures and
    /// registers.
    pub(crate) fn show(&self, card: &Card, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.version;
        writeln!(
            f,
            "  MES firmware {:#x}, interface {:#x}, features {:#x}",
            v.scheduler, v.api, v.feature
        )?;
        for (pipe, name) in PIPES {
            let s = self.ring(pipe).lock().state();
            let state = if s.hung { "hung" } else { "running" };
            writeln!(
                f,
                "  {name}: type MES, {state}, doorbell {:#x}, wptr {:#x}, emitted {}, signaled {}",
                s.doorbell, s.wptr, s.emitted, s.signaled
            )?;
            for (op, count) in s.submitted.iter().enumerate().filter(|(_, n)| **n > 0) {
                writeln!(f, "    {} {count}", op_name(op as u8))?;
            }
            match s.last {
                Some(word) => writeln!(f, "    {} failures, last {word:?}", s.failures)?,
                None => writeln!(f, "    {} failures", s.failures)?,
            }
            let registers = card
                .mmio()
                .and_then(|mmio| card.generation().need_mes()?.dump(mmio, pipe));
            match registers {
                Ok(registers) => write_registers(f, &registers)?,
                Err(e) => writeln!(f, "    registers unavailable: {e:?}")?,
            }
        }
        Ok(())
    }

    /// Returns a copy of the MQD of the scheduler ring. `ENOMEM` without memory.
    pub(crate) fn mqd_words(&self, card: &Card) -> Result<KVec<u32>> {
        self.ring(MesPipe::Scheduler).lock().mqd_words(card)
    }
}
