// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Firmware load state of the engines, and microcode ports.
//!
//! The firmware is not executed; only its presence matters: an engine without firmware does
//! nothing. The PSP reports the firmware that it has loaded ([`Firmware::put`]); where an engine
//! has a microcode port, a driver may write it there. On a warm card everything is loaded.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gpu_regs::gc_9_4_3 as gc;

use super::gmc::Hub;
use super::sdma::layout::PER_AID;
use crate::chips::Chip;
use crate::gpu::Gpu;
use crate::regs::Ip;
use crate::{event, strict};

/// A piece of firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fw {
    /// RLC of XCC n.
    Rlc(u8),
    /// Both compute MEs of XCC n.
    Mec1(u8),
    /// Their jump table.
    Mec1Jt(u8),
    /// SDMA engine n.
    Sdma(u8),
    /// Prefetch parser of the graphics pipe.
    Pfp,
    /// Micro engine of the graphics pipe.
    Me,
    /// Pipe n of MES.
    Mes(u8),
    /// Its data.
    MesData(u8),
}

impl Fw {
    fn bit(self) -> u64 {
        let (first, n) = match self {
            Self::Rlc(n) => (0, n),
            Self::Mec1(n) => (8, n),
            Self::Mec1Jt(n) => (16, n),
            Self::Pfp => (24, 0),
            Self::Me => (25, 0),
            Self::Mes(n) => (28, n),
            Self::MesData(n) => (30, n),
            Self::Sdma(n) => (32, n),
        };
        1u64.checked_shl(first + u32::from(n)).unwrap_or(0)
    }

    /// Returns the same piece on engines that the PSP loads together with this one: those of all
    /// XCCs, or at the same place on all AIDs.
    pub fn everywhere(self, chip: &Chip) -> Vec<Self> {
        let on_xccs = |fw: fn(u8) -> Self| (0..chip.span(Ip::Gc)).map(fw).collect();
        match self {
            Self::Rlc(_) => on_xccs(Self::Rlc),
            Self::Mec1(_) => on_xccs(Self::Mec1),
            Self::Mec1Jt(_) => on_xccs(Self::Mec1Jt),
            Self::Sdma(n) => (n..chip.span(Ip::Sdma))
                .step_by(PER_AID.into())
                .map(Self::Sdma)
                .collect(),
            other => vec![other],
        }
    }
}

/// Load state of all firmware.
#[derive(Default)]
pub struct Firmware {
    loaded: AtomicU64,
    /// Dwords written to a port since its address was last written.
    written: [AtomicU32; PORTS],
}

/// A microcode port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// `RLC_GPM_UCODE_*` of XCC n.
    Rlc(u8),
    /// `CP_MEC_ME1_UCODE_*` of XCC n: the jump table; the code itself is fetched from
    /// `CP_CPC_IC_BASE`.
    Mec1(u8),
    /// `SDMA_UCODE_*` of engine n.
    Sdma(u8),
}

/// Ports of 8 XCCs, and of 16 SDMA engines.
const PORTS: usize = 2 * 8 + 16;

impl Port {
    /// Returns the same port of another XCC.
    pub fn on(self, xcc: u8) -> Self {
        match self {
            Self::Rlc(_) => Self::Rlc(xcc),
            Self::Mec1(_) => Self::Mec1(xcc),
            Self::Sdma(n) => Self::Sdma(n),
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Rlc(n) => usize::from(n) % 8,
            Self::Mec1(n) => 8 + usize::from(n) % 8,
            Self::Sdma(n) => 16 + usize::from(n) % 16,
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
            Port::Rlc(n) => self.put(Fw::Rlc(n)),
            Port::Sdma(n) => self.put(Fw::Sdma(n)),
            Port::Mec1(n) => {
                self.put(Fw::Mec1Jt(n));
                if code_in_memory(gpu, n) {
                    self.put(Fw::Mec1(n));
                }
            }
        }
    }
}

/// Returns whether `CP_CPC_IC_BASE` of an XCC points to memory that the MEs can fetch from.
fn code_in_memory(gpu: &Gpu, xcc: u8) -> bool {
    let get = |reg| {
        let slot = gpu.regs.of(gpu.chip, Ip::Gc, xcc, reg);
        slot.map_or(0, |slot| slot.get())
    };
    let lo = get(gc::regCP_CPC_IC_BASE_LO) & gc::CP_CPC_IC_BASE_LO__IC_BASE_LO.mask;
    let hi = gc::CP_CPC_IC_BASE_HI__IC_BASE_HI.get(get(gc::regCP_CPC_IC_BASE_HI));
    let vmid = gc::CP_CPC_IC_BASE_CNTL__VMID.get(get(gc::regCP_CPC_IC_BASE_CNTL)) as u8;
    let base = rkfd_abi::bits::join(lo, hi);
    let mut page = [0; 0x1000];
    match gpu.gmc.vm_read(Hub::Gfx(xcc), vmid, base, &mut page) {
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
        Port::Rlc(n) => gpu.rlc_runs(n),
        Port::Mec1(n) => gpu.xcc(n).is_some_and(|xcc| xcc.cp.mec_runs()),
        Port::Sdma(n) => gpu.sdma.runs(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_identified() {
        let firmware = Firmware::default();
        let of_xcc = [0, 7].map(|n| [Fw::Rlc(n), Fw::Mec1(n), Fw::Mec1Jt(n)]);
        let sdma = [Fw::Sdma(0), Fw::Sdma(15)];
        let all: Vec<_> = of_xcc.concat().into_iter().chain(sdma).collect();
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
