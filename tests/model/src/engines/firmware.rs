// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Firmware load state of the engines, and microcode ports.
//!
//! The firmware is not executed; only its presence matters: an engine without firmware does
//! nothing. The PSP reports what it has loaded ([`Firmware::put`]); where an engine has a microcode
//! port, a driver may write it there. On a warm card everything is loaded.

use std::sync::atomic::{AtomicU32, Ordering};

use gpu_regs::gc_9_4_3 as gc;

use super::gmc::Hub;
use crate::gpu::Gpu;
use crate::regs::Ip;
use crate::{event, strict};

/// A piece of firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fw {
    /// RLC.
    Rlc,
    /// Both compute MEs.
    Mec1,
    /// Their jump table.
    Mec1Jt,
    /// SDMA engine n.
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

/// Load state of all firmware.
#[derive(Default)]
pub struct Firmware {
    loaded: AtomicU32,
    /// Dwords written to a port since its address was last written.
    written: [AtomicU32; PORTS],
}

/// A microcode port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// `RLC_GPM_UCODE_*`.
    Rlc,
    /// `CP_MEC_ME1_UCODE_*`: the jump table; the code itself is fetched from `CP_CPC_IC_BASE`.
    Mec1,
    /// `SDMA_UCODE_*` of engine n.
    Sdma(u8),
}

/// Ports of the graphics core, and of 16 SDMA engines.
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
    /// Returns whether a piece of firmware is loaded.
    pub fn loaded(&self, fw: Fw) -> bool {
        self.loaded.load(Ordering::Acquire) & fw.bit() != 0
    }

    /// Marks a piece of firmware as loaded.
    pub fn put(&self, fw: Fw) {
        self.loaded.fetch_or(fw.bit(), Ordering::AcqRel);
    }

    /// Marks all pieces as loaded (a warm card), or none.
    pub fn reset(&self, all: bool) {
        self.loaded
            .store(if all { !0 } else { 0 }, Ordering::Release);
        for written in &self.written {
            written.store(0, Ordering::Release);
        }
    }

    /// Handles a dword written to a port.
    pub fn port_data(&self, gpu: &Gpu, port: Port) {
        if self.written[port.index()].fetch_add(1, Ordering::AcqRel) == 0 && runs(gpu, port) {
            strict!(
                gpu.strict,
                "firmware",
                "write to the microcode port of {port:?} while that engine runs"
            );
        }
    }

    /// Handles a write to the address of a port. Drivers write it before the data, and afterwards
    /// with the version, for later reads of the register.
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

/// Returns whether `CP_CPC_IC_BASE` points to memory that the MEs can fetch from.
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

/// Returns whether the engine behind a port is not halted.
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
    fn parts_are_identified() {
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
