// SPDX-License-Identifier: GPL-2.0

//! Text about registers and memory, for debugfs and coredumps, and the text of a coredump.

use core::{fmt::Display, ops::Range};

use kernel::{
    fmt::{self, Write},
    prelude::*,
};

use super::{coredump::Coredump, Gpu};
use crate::{
    asic::xcc::XccList,
    hw::{write_registers, HqdSlot, SdmaQueueId},
};

/// Dwords in a line.
const DWORDS_PER_LINE: usize = 8;

/// Prints dwords, each line with its offset in bytes.
pub(crate) fn dwords(f: &mut fmt::Formatter<'_>, words: &[u32]) -> fmt::Result {
    for (line, chunk) in words.chunks(DWORDS_PER_LINE).enumerate() {
        write!(f, "    {:08x}:", line * DWORDS_PER_LINE * 4)?;
        for word in chunk {
            write!(f, " {word:08x}")?;
        }
        f.write_char('\n')?;
    }
    Ok(())
}

/// Prints dwords, or the error of reading them.
pub(crate) fn dwords_or_error(f: &mut fmt::Formatter<'_>, words: Result<KVec<u32>>) -> fmt::Result {
    match words {
        Ok(words) => dwords(f, &words),
        Err(e) => writeln!(f, "    unavailable: {e:?}"),
    }
}

/// Returns whether the graphics core has no power, and prints so: its queues cannot be read then.
fn without_core(gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> Result<bool, fmt::Error> {
    let has_core = matches!(gpu.hub().core_mmio(), Ok(Some(_)));
    if !has_core {
        writeln!(f, "  unavailable: the graphics core has no power")?;
    }
    Ok(!has_core)
}

/// Prints the active compute HQDs of XCCs.
pub(crate) fn compute_hqds(gpu: &Gpu, xccs: &XccList, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if without_core(gpu, f)? {
        return Ok(());
    }
    let caps = gpu.generation().caps;
    for xcc in xccs.iter() {
        for pipe in 0..caps.pipes_per_mec {
            for queue in 0..caps.queues_per_pipe {
                let slot = HqdSlot { me: 1, pipe, queue };
                let read = gpu
                    .mmio()
                    .and_then(|mmio| gpu.generation().gfx.dump_hqd(mmio, *xcc, slot));
                match read {
                    // The first register is `CP_HQD_ACTIVE`.
                    Ok(read) if read.first().is_some_and(|(_, active)| *active != 0) => {
                        writeln!(f, "  Inst {}, CP Pipe {pipe}, Queue {queue}", xcc.logical)?;
                        write_registers(f, &read)?;
                    }
                    Ok(_) => {}
                    Err(e) => return writeln!(f, "  unavailable: {e:?}"),
                }
            }
        }
    }
    Ok(())
}

/// Prints the active queues of SDMA engines, which are numbered from the first of them on.
pub(crate) fn sdma_queues(
    gpu: &Gpu,
    engines: Range<u32>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if without_core(gpu, f)? {
        return Ok(());
    }
    let hal = gpu.generation().sdma_queue;
    for engine in engines.clone() {
        for queue in 0..gpu.config().sdma_queues_per_engine {
            let place = SdmaQueueId { engine, queue };
            match gpu.mmio().and_then(|mmio| hal.dump(mmio, place)) {
                Ok(Some(read)) => {
                    let index = engine - engines.start;
                    writeln!(f, "  SDMA Engine {index}, RLC {queue}")?;
                    write_registers(f, &read)?;
                }
                Ok(None) => {}
                Err(e) => return writeln!(f, "  unavailable: {e:?}"),
            }
        }
    }
    Ok(())
}

/// Implements [`Display`] by a function.
struct Printed<F>(F);

impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> Display for Printed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)(f)
    }
}

impl Gpu {
    /// Records a coredump: the reason `why`, the output of `failed`, the registers of all active
    /// queues, and the output of `more`, which may be cut off. Neither fails nor enters reclaim.
    /// The caller may hold any locks but those of the DMA rings.
    pub(crate) fn record_coredump(
        &self,
        why: &str,
        failed: impl Fn(&mut fmt::Formatter<'_>) -> fmt::Result,
        more: impl Fn(&mut fmt::Formatter<'_>) -> fmt::Result,
    ) {
        let text = Printed(|f: &mut fmt::Formatter<'_>| {
            let pci = &self.config().pci;
            writeln!(f, "**** rkfd device coredump ****")?;
            writeln!(f, "version: 1")?;
            writeln!(
                f,
                "device: {:04x}:{:02x}:{:02x}.{:x}, id {:04x}",
                pci.domain,
                pci.bdf >> 8,
                pci.bdf >> 3 & 0x1f,
                pci.bdf & 7,
                pci.device
            )?;
            writeln!(f, "resets before: {}", self.health().resets())?;
            writeln!(f, "reason: {why}")?;
            failed(f)?;
            writeln!(f, "\nCompute HQDs")?;
            compute_hqds(self, self.xccs(), f)?;
            writeln!(f, "\nUser queues of the SDMA engines")?;
            sdma_queues(self, 0..self.config().num_sdma, f)?;
            more(f)
        });
        Coredump::record(&self.coredump, &text);
    }
}
