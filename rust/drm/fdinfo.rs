// SPDX-License-Identifier: GPL-2.0

//! `/proc/PID/fdinfo` of an open file: its memory, and the time of its jobs (`amdgpu_fdinfo.c`).

use kernel::prelude::*;

use super::file::Render;
use crate::{
    kapi::drm::{self, Fdinfo},
    mmu::usage::{Region, Usage},
};

/// Prints a line with a size.
fn size(out: &mut Fdinfo<'_>, key: &str, bytes: u64) -> Result {
    out.line(key, fmt!("{} KiB", bytes >> 10))
}

/// Prints all lines. `ENOMEM` without memory.
pub(super) fn show(file: &drm::File<Render>, out: &mut Fdinfo<'_>) -> Result {
    let data = file.data();
    let vm = data.existing_vm();
    let usage = Usage::of(file, vm.as_deref())?;
    let pasid = vm.as_ref().map_or(0, |vm| vm.pasid());
    out.line("pasid", fmt!("{pasid}"))?;
    for region in Region::ALL {
        out.memory(region.name(), usage.region(region));
    }
    let [cpu, gtt, vram] = [Region::Cpu, Region::Gtt, Region::Vram].map(|r| usage.region(r));
    size(out, "drm-memory-vram", vram.resident)?;
    size(out, "drm-memory-gtt", gtt.resident)?;
    size(out, "drm-memory-cpu", cpu.resident)?;
    size(out, "amd-evicted-vram", usage.evicted)?;
    size(out, "amd-requested-vram", vram.total())?;
    size(out, "amd-requested-gtt", gtt.total())?;
    match data.dma_ns() {
        0 => Ok(()),
        ns => out.line("drm-engine-dma", fmt!("{ns} ns")),
    }
}
