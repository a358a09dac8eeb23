// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Doorbells that the GPU itself writes.

use std::sync::Arc;

use crate::common::{addr, enable_context, gpu};
use gpu_model::engines::gmc::Hub;
use gpu_model::gpu::Gpu;
use gpu_model::regs::Ip;
use gpu_regs::{gc_9_4_3 as gc, nbio_7_9_0 as nbio};

const BAR: u64 = 0x38_0020_0000;
/// Page tables in VRAM: one directory, one table for the first 2 MiB.
const DIRECTORY: u64 = 0x10_0000;
const TABLE: u64 = 0x10_1000;
const VMID: u8 = 5;
/// Mapped to doorbells, and to memory.
const DOORBELLS: u64 = 0x3000;
const MEMORY: u64 = 0x5000;

/// Returns a card whose doorbell BAR has an address, with one page of doorbells mapped.
fn card() -> Arc<Gpu> {
    let gpu = gpu();
    gpu.selfring.set_bar(BAR);
    gpu.reg_write(
        addr(Ip::Nbif, nbio::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN),
        1,
    );
    gpu.reg_write(addr(Ip::Gc, gc::regCP_PQ_STATUS), 2);
    let put = |at: u64, entry: u64| gpu.vram.write(at, &entry.to_le_bytes()).unwrap();
    put(DIRECTORY, TABLE | 1);
    // Valid, system, readable, writeable.
    put(TABLE + (DOORBELLS >> 12) * 8, (BAR + 0x1000) | 0x63);
    put(TABLE + (MEMORY >> 12) * 8, 0x8000 | 0x63);
    enable_context(&gpu, Hub::Gfx(0), VMID.into(), 1, 0, DIRECTORY | 1);
    gpu
}

/// Sets up the self-ring aperture at `base` as the C driver.
fn open(gpu: &Gpu, base: u64) {
    for (reg, value) in [
        (
            nbio::regBIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_BASE_LOW,
            base as u32,
        ),
        (
            nbio::regBIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_BASE_HIGH,
            (base >> 32) as u32,
        ),
        (nbio::regBIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_CNTL, 3),
    ] {
        gpu.reg_write(addr(Ip::Nbif, reg), value);
    }
}

/// Delivers all posted writes; returns the number of doorbells and of reports.
fn arrived(gpu: &Gpu) -> (usize, u64) {
    gpu.selfring.stop();
    gpu.selfring.run(gpu);
    let stats = gpu.stats();
    let (_, rest) = stats.split_once("doorbells=").unwrap();
    let count = rest.split(' ').next().unwrap().parse().unwrap();
    (count, gpu.strict.unexpected())
}

#[test]
fn gpu_writes_arrive_as_doorbells() {
    let gpu = card();
    open(&gpu, BAR);
    let gmc = &gpu.gmc;
    gmc.write64(Hub::Gfx(0), VMID, DOORBELLS + 0x40, 7).unwrap();
    gmc.write32(Hub::Gfx(0), VMID, DOORBELLS + 0x84, 8).unwrap();
    gmc.write64(Hub::Gfx(0), VMID, MEMORY, 9).unwrap();
    let copied = gmc.vm_copy_some(Hub::Gfx(0), VMID, MEMORY, DOORBELLS + 0x48, 8);
    assert_eq!(copied, Ok(8));
    let filled = gmc.vm_fill_some(Hub::Gfx(0), VMID, DOORBELLS + 0x50, 16, [1; 4]);
    assert_eq!(filled, Ok(8));
    assert_eq!(arrived(&gpu), (4, 0), "{:?}", gpu.strict.lines());
}

#[test]
fn gpu_write_without_selfring_aperture_is_lost() {
    let set_ups = [
        (None, None, "is not enabled"),
        (Some(BAR + 0x20_0000), None, "is at 0x3800400000"),
        (Some(BAR), Some(0x103), "are not modelled"),
    ];
    for (base, control, report) in set_ups {
        let gpu = card();
        if let Some(base) = base {
            open(&gpu, base);
        }
        if let Some(control) = control {
            let reg = nbio::regBIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_CNTL;
            gpu.reg_write(addr(Ip::Nbif, reg), control);
        }
        let written = gpu.gmc.write64(Hub::Gfx(0), VMID, DOORBELLS, 7);
        assert_eq!(written, Ok(()), "the write is posted");
        assert_eq!(arrived(&gpu), (0, 1));
        let lines = gpu.strict.lines();
        assert!(lines[0].contains(report), "{lines:?}");
    }
}

#[test]
fn odd_writes_and_reads_of_doorbells_are_reported() {
    let gpu = card();
    open(&gpu, BAR);
    gpu.gmc
        .vm_write(Hub::Gfx(0), VMID, DOORBELLS + 1, &[1])
        .unwrap();
    assert!(gpu.gmc.read32(Hub::Gfx(0), VMID, DOORBELLS).is_err());
    assert_eq!(arrived(&gpu), (0, 2), "{:?}", gpu.strict.lines());
}

#[test]
fn reset_drops_posted_writes() {
    let gpu = card();
    open(&gpu, BAR);
    gpu.gmc.write64(Hub::Gfx(0), VMID, DOORBELLS, 7).unwrap();
    gpu.reset(gpu_model::gpu::Reset::Flr);
    assert_eq!(arrived(&gpu), (0, 0));
    assert_eq!(gpu.selfring.bar(), BAR);
}
