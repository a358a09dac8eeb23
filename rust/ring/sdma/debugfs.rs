// SPDX-License-Identifier: GPL-2.0

//! debugfs output of the kernel's SDMA rings.

use kernel::fmt;

use super::Sdma;
use crate::{card::Card, hw::write_registers};

impl Sdma {
    /// Prints the rings: pointers in bytes, job counts, pending jobs, and the registers of the
    /// engines.
    pub(crate) fn show(&self, card: &Card, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resets = self.rings.iter().map(|ring| ring.resets()).sum::<u32>();
        writeln!(f, "  {resets} resets")?;
        for ring in &self.rings {
            let name = ring.name().to_str().unwrap_or("sdma");
            let Ok(s) = ring.snapshot() else {
                writeln!(f, "  {name}: unavailable")?;
                continue;
            };
            let state = if s.running { "running" } else { "stopped" };
            writeln!(
                f,
                "  {name}: type SDMA, {state}, rptr {:#x}, wptr {:#x}, emitted {}, signaled {}, in memory {}, {} lost interrupts",
                s.rptr, s.wptr, s.emitted, s.signaled, s.in_memory, s.lost
            )?;
            for (seq, vmid) in s.pending.iter().flatten() {
                writeln!(f, "    job {seq} in VMID {vmid}")?;
            }
            match self.dump(card, ring.engine()) {
                Ok(registers) => write_registers(f, &registers)?,
                Err(e) => writeln!(f, "    registers unavailable: {e:?}")?,
            }
        }
        Ok(())
    }
}
