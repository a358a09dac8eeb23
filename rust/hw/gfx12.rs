// SPDX-License-Identifier: GPL-2.0

//! GC 12.0.1 (gfx1201: Radeon RX 9070): queues by MES, 48-bit address spaces, waves of 32 lanes.

use super::{generation::Generation, sched::SchedKind};
use crate::asic::mmio::Version;

mod caps;
mod df;
mod dma_packet;
mod format;
mod gfx;
mod gmc;
mod ih;
mod mes;
mod mqd;
mod nbio;
mod psp;
mod sdma;
mod sdma_queue;
mod smu;
mod trap;

static GENERATION: Generation = Generation {
    name: "gfx1201",
    caps: &caps::CAPS,
    sched: SchedKind::Mes,
    mqd: &mqd::Mqd,
    sdma_queue: &sdma_queue::SdmaQueue,
    gmc: &gmc::Gmc,
    ih: &ih::Ih,
    gfx: &gfx::Gfx,
    sdma: &sdma::Sdma,
    nbio: &nbio::Nbio,
    df: Some(&df::Df),
    psp: &psp::Psp,
    smu: None,
    ras: None,
    kiq: None,
    mes: Some(&mes::Mes),
};

/// Supported GC versions.
pub(super) static GENERATIONS: &[(Version, &Generation)] = &[(Version::new(12, 0, 1), &GENERATION)];

/// Firmware files, for MODULE_FIRMWARE.
pub(super) const FIRMWARE: &[&str] = &psp::PATHS;
