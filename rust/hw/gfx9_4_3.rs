// SPDX-License-Identifier: GPL-2.0

//! GC 9.4.3 (gfx942: MI300X, MI308X, MI325X): runlist scheduling, 48-bit address spaces.

use super::{generation::Generation, sched::SchedKind};
use crate::asic::mmio::Version;

mod caps;
mod features;
mod format;
mod gfx;
mod gmc;
mod ih;
mod kiq;
mod mqd;
mod nbio;
mod psp;
mod queue_reset;
mod ras;
mod sdma;
mod sdma_queue;
mod smu;
mod trap;
mod user_metrics;

static GENERATION: Generation = Generation {
    name: "gfx942",
    caps: &caps::CAPS,
    sched: SchedKind::Runlist,
    mqd: &mqd::Mqd,
    sdma_queue: &sdma_queue::SdmaQueue,
    gmc: &gmc::Gmc,
    ih: &ih::Ih,
    gfx: &gfx::Gfx,
    sdma: &sdma::Sdma,
    nbio: &nbio::Nbio,
    df: None,
    psp: &psp::Psp,
    smu: Some(&smu::Smu),
    ras: Some(&ras::Ras),
    kiq: Some(&kiq::Kiq),
    mes: None,
};

/// Supported GC versions.
pub(super) static GENERATIONS: &[(Version, &Generation)] = &[(Version::new(9, 4, 3), &GENERATION)];

/// Firmware files, for MODULE_FIRMWARE.
pub(super) const FIRMWARE: &[&str] = &psp::PATHS;
