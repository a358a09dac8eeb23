// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Which engines have their firmware, and what loading it through an engine's own registers takes.
//!
//! The content does not run here: what matters is that an engine without firmware does nothing.
//! The security processor says what it has loaded ([`Firmware::put`]); where an engine has a port
//! for its microcode, a driver may write it there. A warm card comes with everything loaded.

use std::sync::atomic::{AtomicU32, Ordering};

use gpu_regs::gc_9_4_3 as gc;

use super::gmc::Hub;
use crate::gpu::Gpu;
use crate::regs::Ip;
use crate::{event, strict};

/// A piece of firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fw {
    /// The run list controller's.
    Rlc,
    /// Both compute micro engines'.
    Mec1,
    /// Their jump table.
    Mec1Jt,
    /// That of DMA engine n.
    Sdma(u8),
}

impl Fw {
    fn bit(self) -> u32 {
        match self {
            Self::Rlc => 1,
            Self::Mec1 => 2,
            Self::Mec1Jt => 4,
            Self::Sdma(n) => 0x100u32.checked_shl(n.into()).unwrap_or(0),
        }
    }
}

/// See the module.
#[derive(Default)]
pub struct Firmware {
    loaded: AtomicU32,
    /// Dwords that came through a port since its address was last written.
    written: [AtomicU32; PORTS],
}

/// A port for microcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// `RLC_GPM_UCODE_*`.
    Rlc,
    /// `CP_MEC_ME1_UCODE_*`: the jump table; the code itself is fetched from `CP_CPC_IC_BASE`.
    Mec1,
    /// `SDMA_UCODE_*` of engine n.
    Sdma(u8),
}

/// Those of the graphics core, and of 16 DMA engines.
const PORTS: usize = 2 + 16;

impl Port {
    fn index(self) -> usize {
        match self {
            Self::Rlc => 0,
            Self::Mec1 => 1,
            Self::Sdma(n) => 2 + usize::from(n) % 16,
        }
    }
}

impl Firmware {
    /// Whether an engine has this piece.
    pub fn loaded(&self, fw: Fw) -> bool {
        self.loaded.load(Ordering::Acquire) & fw.bit() != 0
    }

    /// An engine has got this piece.
    pub fn put(&self, fw: Fw) {
        self.loaded.fetch_or(fw.bit(), Ordering::AcqRel);
    }

    /// All pieces are there (a warm card), or none.
    pub fn reset(&self, all: bool) {
        self.loaded
            .store(if all { !0 } else { 0 }, Ordering::Release);
        for written in &self.written {
            written.store(0, Ordering::Release);
        }
    }

    /// A dword came through a port.
    pub fn port_data(&self, gpu: &Gpu, port: Port) {
        if self.written[port.index()].fetch_add(1, Ordering::AcqRel) == 0 && runs(gpu, port) {
            strict!(
                gpu.strict,
                "firmware",
                "microcode is written to the port of {port:?} while that engine runs"
            );
        }
    }

    /// The address of a port was written. A driver does that before the data, and after it with
    /// the version, for those who look at the register later.
    pub fn port_address(&self, gpu: &Gpu, port: Port) {
        let dwords = self.written[port.index()].swap(0, Ordering::AcqRel);
        if dwords == 0 {
            return;
        }
        event!(
            gpu.trace,
            "firmware",
            "port",
            "port={port:?} dwords={dwords}"
        );
        match port {
            Port::Rlc => self.put(Fw::Rlc),
            Port::Sdma(n) => self.put(Fw::Sdma(n)),
            Port::Mec1 => {
                self.put(Fw::Mec1Jt);
                if code_in_memory(gpu) {
                    self.put(Fw::Mec1);
                }
            }
        }
    }
}

/// Whether `CP_CPC_IC_BASE` names memory that the micro engines can fetch from.
fn code_in_memory(gpu: &Gpu) -> bool {
    let get = |reg| {
        let slot = gpu.regs.by_id(gpu.chip, Ip::Gc, reg);
        slot.map_or(0, |slot| slot.get())
    };
    let lo = get(gc::regCP_CPC_IC_BASE_LO) & gc::CP_CPC_IC_BASE_LO__IC_BASE_LO.mask;
    let hi = gc::CP_CPC_IC_BASE_HI__IC_BASE_HI.get(get(gc::regCP_CPC_IC_BASE_HI));
    let vmid = gc::CP_CPC_IC_BASE_CNTL__VMID.get(get(gc::regCP_CPC_IC_BASE_CNTL)) as u8;
    let base = rkfd_abi::bits::join(lo, hi);
    let mut page = [0; 0x1000];
    match gpu.gmc.vm_read(Hub::Gfx, vmid, base, &mut page) {
        Ok(()) if page.iter().any(|byte| *byte != 0) => true,
        Ok(()) => {
            strict!(
                gpu.strict,
                "firmware",
                "CP_CPC_IC_BASE {base:#x}: no code there"
            );
            false
        }
        Err(fault) => {
            strict!(
                gpu.strict,
                "firmware",
                "CP_CPC_IC_BASE {base:#x} cannot be read: {fault}"
            );
            false
        }
    }
}

/// Whether the engine behind a port is not halted.
fn runs(gpu: &Gpu, port: Port) -> bool {
    match port {
        Port::Rlc => gpu.rlc_runs(),
        Port::Mec1 => gpu.cp.mec_runs(),
        Port::Sdma(n) => gpu.sdma.runs(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_told_apart() {
        let firmware = Firmware::default();
        let all = [Fw::Rlc, Fw::Mec1, Fw::Mec1Jt, Fw::Sdma(0), Fw::Sdma(15)];
        for (n, fw) in all.iter().enumerate() {
            assert!(!firmware.loaded(*fw));
            firmware.put(*fw);
            let there = all.iter().filter(|fw| firmware.loaded(**fw)).count();
            assert_eq!(there, n + 1);
        }
        firmware.reset(false);
        assert!(!all.iter().any(|fw| firmware.loaded(*fw)));
        firmware.reset(true);
        assert!(all.iter().all(|fw| firmware.loaded(*fw)));
    }
}
