// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Doorbells that the GPU itself writes: its writes to the bus address of its own doorbell BAR.
//!
//! They are posted: an engine does not wait for them, and they arrive at NBIO on a thread of its
//! own, because the engine that writes may be the one whose doorbell it is. They arrive before a
//! queue of the CP that wrote them is unmapped ([`SelfRing::settle`]). Reads and atomics of
//! doorbells by the GPU are not modelled: no memory is at that address.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gpu_regs::nbio_7_9_0 as nbio;

use super::stored;
use crate::event;
use crate::gpu::{Gpu, DOORBELL_BAR};
use crate::mailbox::{Mailbox, Recv};
use crate::strict;

/// A posted write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Posted {
    addr: u64,
    value: u64,
    width: u8,
}

/// The doorbell BAR as a target of writes of the GPU itself.
#[derive(Default)]
pub struct SelfRing {
    bar: AtomicU64,
    mail: Mailbox<Posted>,
    /// Writes that were posted, and those that have arrived.
    posted: AtomicU64,
    arrived: AtomicU64,
}

/// How long [`SelfRing::settle`] waits for the thread of a busy host: less than a reset waits for
/// engines.
const SETTLE: Duration = Duration::from_secs(1);

impl SelfRing {
    /// Sets the bus address of the doorbell BAR; 0: not assigned.
    pub fn set_bar(&self, addr: u64) {
        self.bar.store(addr, Ordering::Release);
    }

    /// Returns the bus address of the doorbell BAR.
    pub fn bar(&self) -> u64 {
        self.bar.load(Ordering::Acquire)
    }

    /// Returns whether a bus address is in the doorbell BAR.
    pub fn contains(&self, addr: u64) -> bool {
        let bar = self.bar();
        bar != 0 && addr.checked_sub(bar).is_some_and(|at| at < DOORBELL_BAR)
    }

    /// Posts a write of the GPU to the doorbell BAR: one write per aligned qword, then per dword.
    pub fn post(&self, mut addr: u64, mut data: &[u8]) {
        while !data.is_empty() {
            let width = [8, 4]
                .into_iter()
                .find(|&width| addr % width as u64 == 0 && data.len() >= width)
                .unwrap_or(1);
            let (piece, rest) = data.split_at(width);
            let mut value = [0; 8];
            value[..width].copy_from_slice(piece);
            self.posted.fetch_add(1, Ordering::AcqRel);
            self.mail.send(Posted {
                addr,
                value: u64::from_le_bytes(value),
                width: width as u8,
            });
            (addr, data) = (addr + width as u64, rest);
        }
    }

    /// Drops the writes that have not arrived.
    pub fn reset(&self) {
        while let Recv::Message(_) = self.mail.recv(Some(Duration::ZERO)) {
            self.arrived.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Waits until the writes posted before have arrived. Returns false if they do not.
    pub fn settle(&self) -> bool {
        let posted = self.posted.load(Ordering::Acquire);
        let start = Instant::now();
        while self.arrived.load(Ordering::Acquire) < posted {
            if start.elapsed() >= SETTLE {
                return false;
            }
            thread::sleep(Duration::from_micros(50));
        }
        true
    }

    /// Runs the thread that the writes arrive on; returns after [`stop`](Self::stop).
    pub fn run(&self, gpu: &Gpu) {
        while let Recv::Message(posted) = self.mail.recv(None) {
            self.arrive(gpu, posted);
            self.arrived.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Ends [`run`](Self::run) after the writes posted before.
    pub fn stop(&self) {
        self.mail.close();
    }

    /// Routes a write to the doorbell logic if the self-ring aperture is at the doorbell BAR.
    /// Without it the write goes to the root complex, which does not route it back.
    fn arrive(&self, gpu: &Gpu, posted: Posted) {
        let Posted { addr, value, width } = posted;
        let bar = self.bar();
        let offset = addr.wrapping_sub(bar);
        event!(
            gpu.trace,
            "nbio",
            "selfring",
            "addr={addr:#x} value={value:#x} width={width}"
        );
        let lost = |why: &str| {
            strict!(
                gpu.strict,
                "nbio",
                "GPU write of {value:#x} ({width} bytes) to doorbell {:#x} at {addr:#x} is lost: {why}",
                offset / 4
            );
        };
        let control = stored(gpu, nbio::regBIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_CNTL);
        let enabled =
            nbio::BIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_CNTL__DOORBELL_SELFRING_GPA_APER_EN;
        let low = stored(gpu, nbio::regBIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_BASE_LOW);
        let high = stored(
            gpu,
            nbio::regBIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_BASE_HIGH,
        );
        let base = rkfd_abi::bits::join(low, high);
        if !enabled.is_set(control) {
            lost("the self-ring aperture is not enabled");
        } else if control != CONTROL {
            lost(&format!(
                "mode and size of the self-ring aperture ({control:#x}) are not modelled"
            ));
        } else if base != bar {
            lost(&format!(
                "the self-ring aperture is at {base:#x}, the doorbell BAR at {bar:#x}"
            ));
        } else if width == 1 {
            lost("not an aligned dword or qword");
        } else {
            gpu.doorbell(offset, value, width);
        }
    }
}

/// `DOORBELL_SELFRING_GPA_APER_CNTL` of an enabled aperture: EN, MODE 1 and SIZE 0, the only
/// setting of the C driver. The unit of SIZE is not documented; 0 covers the doorbells.
const CONTROL: u32 = 0x3;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn settle_waits_for_posted_writes() {
        let ring = Arc::new(SelfRing::default());
        assert!(ring.settle());
        ring.post(0x1000, &[0; 16]);
        let waiting = {
            let ring = ring.clone();
            thread::spawn(move || ring.settle())
        };
        thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        ring.reset();
        assert!(waiting.join().unwrap());
        ring.post(0x1000, &[0; 8]);
        assert!(!ring.settle());
    }
}
