// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Registers through the BAR: indirect access, banks, mailboxes, clocks, remapped pages.

use crate::common::{addr, gpu, hub_write, init_hdp, open_apertures, open_invalidations, VRAM};
use gpu_model::engines::gmc::Hub;
use gpu_model::gpu::Reset;
use gpu_model::regs::Ip;
use gpu_regs::{athub_1_8_0 as athub, gc_9_4_3 as gc, mp_13_0_6 as mp, nbio_7_9_0 as nbio};

#[test]
fn undeclared_registers_read_zero_and_are_reported() {
    let gpu = gpu();
    assert_eq!(gpu.bar_reg_read(0x7_0000), 0);
    gpu.bar_reg_write(0x7_0000, 1);
    assert_eq!(gpu.strict.unexpected(), 2);
}

#[test]
fn smn_index_data_access() {
    let gpu = gpu();
    gpu.bar_reg_write(0x0e, 0x3b1_0028);
    assert_eq!(gpu.bar_reg_read(0x0f), 1);
    let fence = addr(Ip::Nbif, nbio::regXCC_DOORBELL_FENCE);
    assert!(u64::from(fence) * 4 > gpu_model::chips::mi300x::ONE_XCC.register_bar);
    gpu.bar_reg_write(0x0e, fence * 4);
    gpu.bar_reg_write(0x0f, 0xfe & nbio_mask(fence, &gpu));
    assert_eq!(gpu.bar_reg_read(0x0f), 0xfe & nbio_mask(fence, &gpu));
    assert_eq!(gpu.strict.lines(), [""; 0]);
    gpu.bar_reg_write(0x11, 1);
    assert_eq!(gpu.bar_reg_read(0x0f), 0, "more than one die");
    assert_eq!(gpu.strict.unexpected(), 1);
}

fn nbio_mask(addr: u32, gpu: &gpu_model::gpu::Gpu) -> u32 {
    gpu.regs.get(addr).unwrap().mask
}

#[test]
fn vram_mm_index_access() {
    let gpu = gpu();
    let at = VRAM - (64 << 10);
    gpu.bar_reg_write(0, 1 << 31 | at as u32);
    gpu.bar_reg_write(6, (at >> 31) as u32);
    assert_eq!(gpu.bar_reg_read(1), 0x2821_1407, "no discovery binary");
    gpu.bar_reg_write(0, 1 << 31 | 0x1000);
    gpu.bar_reg_write(1, 0xabcd);
    assert_eq!(gpu.vram.load32(0x1000), Ok(0xabcd));
    assert_eq!(gpu.strict.lines(), [""; 0]);
    gpu.bar_reg_write(6, 0x100);
    assert_eq!(gpu.bar_reg_read(1), 0);
    assert_eq!(gpu.strict.unexpected(), 1);
}

#[test]
fn banked_cu_straps_give_38_cus() {
    let gpu = gpu();
    let index = addr(Ip::Gc, gc::regGRBM_GFX_INDEX);
    let fused = addr(Ip::Gc, gc::regCC_GC_SHADER_ARRAY_CONFIG);
    let user = addr(Ip::Gc, gc::regGC_USER_SHADER_ARRAY_CONFIG);
    let mut active = 0;
    for se in 0..4u32 {
        gpu.reg_write(index, se << 16 | 1 << 30);
        let inactive = (gpu.reg_read(fused) | gpu.reg_read(user)) >> 16;
        active += (!inactive & 0x3ff).count_ones();
        gpu.reg_write(user, 1 << (16 + se));
    }
    assert_eq!(active, 38);
    gpu.reg_write(index, 2 << 16 | 1 << 30);
    assert_eq!(gpu.reg_read(user), 1 << 18);
    gpu.reg_write(index, 0xe000_0000);
    gpu.reg_write(user, 0);
    gpu.reg_write(index, 2 << 16);
    assert_eq!(gpu.reg_read(user), 0, "broadcast write missed an array");
    assert_eq!(gpu.strict.lines(), [""; 0]);
    gpu.reg_write(index, 4 << 16);
    gpu.reg_read(fused);
    assert!(gpu.strict.lines()[0].contains("no such array"));
}

#[test]
fn sh_mem_is_per_vmid() {
    let gpu = gpu();
    let select = addr(Ip::Gc, gc::regGRBM_GFX_CNTL);
    let bases = addr(Ip::Gc, gc::regSH_MEM_BASES);
    for vmid in 3..16 {
        gpu.reg_write(select, gc::GRBM_GFX_CNTL__VMID.put(vmid));
        gpu.reg_write(bases, 0x0001_0000 + vmid);
    }
    gpu.reg_write(select, gc::GRBM_GFX_CNTL__VMID.put(9));
    assert_eq!(gpu.reg_read(bases), 0x0001_0009);
    assert_eq!(
        gpu.xccs[0].gc.vmid_reg(15, gc::regSH_MEM_BASES),
        0x0001_000f
    );
    gpu.xccs[0]
        .gc
        .set_vmid_reg(9, gc::regSH_MEM_BASES, 0x0001_0002);
    assert_eq!(gpu.reg_read(bases), 0x0001_0002);
}

#[test]
fn rlc_handshake_and_clock() {
    let gpu = gpu();
    let safe = addr(Ip::Gc, gc::regRLC_SAFE_MODE);
    gpu.reg_write(safe, 3);
    assert_eq!(gpu.reg_read(safe) & 1, 0);
    let capture = || {
        gpu.reg_write(addr(Ip::Gc, gc::regRLC_CAPTURE_GPU_CLOCK_COUNT), 1);
        let low = gpu.reg_read(addr(Ip::Gc, gc::regRLC_GPU_CLOCK_COUNT_LSB));
        let high = gpu.reg_read(addr(Ip::Gc, gc::regRLC_GPU_CLOCK_COUNT_MSB));
        u64::from(high) << 32 | u64::from(low)
    };
    let first = capture();
    std::thread::sleep(std::time::Duration::from_millis(20));
    let ticks = capture() - first;
    assert!(
        (2_000_000..200_000_000).contains(&ticks),
        "{ticks} ticks of 10 ns in 20 ms or more"
    );
}

#[test]
fn hdp_flush_page_follows_remap() {
    let gpu = gpu();
    gpu.bar_reg_read(0x1a000 / 4);
    assert_eq!(
        gpu.strict.unexpected(),
        1,
        "flush before the remap not reported"
    );
    let remap = addr(Ip::Nbif, nbio::regBIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL);
    gpu.bar_reg_write(remap, 0x1a000);
    gpu.bar_reg_write(remap + 1, 0x1a004);
    init_hdp(&gpu);
    gpu.bar_reg_write(0x1a000 / 4, 0);
    assert_eq!(gpu.bar_reg_read(0x1a004 / 4), 0);
    // The rest of the page is empty, and accessible to user space.
    gpu.bar_reg_write(0x1affc / 4, 1);
    assert_eq!(gpu.bar_reg_read(0x1affc / 4), 0);
    assert_eq!(gpu.strict.unexpected(), 1);
    let request = addr(Ip::Nbif, nbio::regBIF_BX_PF0_GPU_HDP_FLUSH_REQ);
    assert_eq!(gpu.bar_reg_read(request + 1), 0);
    gpu.bar_reg_write(request, 4);
    gpu.bar_reg_write(request, 8);
    assert_eq!(gpu.bar_reg_read(request + 1), 12, "the bits requested");
}

#[test]
fn flush_needs_an_initialized_hdp() {
    let gpu = gpu();
    let request = addr(Ip::Nbif, nbio::regBIF_BX_PF0_GPU_HDP_FLUSH_REQ);
    gpu.reg_write(request, 4);
    assert_eq!(gpu.strict.unexpected(), 2, "base and flush not reported");
    init_hdp(&gpu);
    gpu.reg_write(request, 4);
    assert_eq!(gpu.strict.unexpected(), 2);
}

#[test]
fn invalidation_engines_of_the_firmware_are_reported() {
    let gpu = gpu();
    open_invalidations(&gpu, Hub::Gfx(0));
    for engine in 0..18 {
        hub_write(
            &gpu,
            Hub::Gfx(0),
            gc::regVM_INVALIDATE_ENG0_REQ.at(engine),
            1 << 3,
        );
    }
    assert_eq!(gpu.strict.unexpected(), 2);
}

#[test]
fn invalidations_of_some_addresses_are_reported() {
    let gpu = gpu();
    let range = gc::regVM_INVALIDATE_ENG0_ADDR_RANGE_LO32.at(2 * 17);
    let request = gc::regVM_INVALIDATE_ENG0_REQ.at(17);
    for hub in [Hub::Gfx(0), Hub::Mm(0)] {
        hub_write(&gpu, hub, request, 1 << 3);
        assert_eq!(
            gpu.strict.lines().len(),
            usize::from(hub != Hub::Gfx(0)) * 2
        );
        open_apertures(&gpu, [hub]);
        for (lo, hi, reports) in [(0, 0, 1), (!0, 0xf, 1), (!0, 0x1f, 0)] {
            let before = gpu.strict.unexpected();
            hub_write(&gpu, hub, range, lo);
            hub_write(&gpu, hub, range.at(1), hi);
            hub_write(&gpu, hub, request, 1 << 3);
            assert_eq!(gpu.strict.unexpected() - before, reports, "{hi:#x} {lo:#x}");
        }
    }
    assert!(gpu.strict.lines()[0].contains("of the address range 0x0"));
}

#[test]
fn vmid_pasid_update_status() {
    let gpu = gpu();
    let map = addr(Ip::Athub, athub::regATC_VMID0_PASID_MAPPING);
    let status = addr(Ip::Athub, athub::regATC_VMID_PASID_MAPPING_UPDATE_STATUS);
    gpu.reg_write(map + 8, 1 << 31 | 0x8001);
    assert_eq!(gpu.reg_read(status), 1 << 8);
    gpu.reg_write(status, 1 << 8);
    assert_eq!(gpu.reg_read(status), 0);
    gpu.map_vmid(0, 9, 0x8002, 1);
    assert_eq!(gpu.reg_read(map + 9), 1 << 31 | 0x8002);
}

#[test]
fn unmodelled_features_are_reported() {
    let gpu = gpu();
    gpu.reg_write(addr(Ip::Mp0, mp::regMP0_SMN_C2PMSG_64), 2 << 16);
    gpu.reg_write(addr(Ip::Mp0, mp::regMP1_SMN_C2PMSG_66), 0x55);
    assert_eq!(gpu.reg_read(addr(Ip::Mp0, mp::regMP1_SMN_C2PMSG_90)), 0xfe);
    assert_eq!(gpu.strict.unexpected(), 2);
    gpu.reg_write(addr(Ip::Nbif, nbio::regRCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE), 1);
    assert!(gpu.strict.lines()[2].contains("read-only"));
    gpu.doorbell(0xd00, 1, 4);
    assert!(gpu.strict.lines()[3].contains("aperture is not enabled"));
    // A process may ring its doorbells at any time.
    gpu.doorbell(0x2000, 1, 8);
    assert_eq!(gpu.strict.unexpected(), 4);
}

#[test]
fn reset_restores_registers_and_keeps_vram() {
    let gpu = gpu();
    gpu.vram.write(0x1000, &[7; 4]).unwrap();
    let at = VRAM - (64 << 10);
    gpu.vram.write(at, &[0; 4]).unwrap();
    let scratch = addr(Ip::Gc, gc::regSCRATCH_REG0);
    gpu.reg_write(scratch, 0xdead_beef);
    gpu.knobs.discovery_bad_checksum.set(1);
    gpu.reset(Reset::Flr);
    assert_eq!(gpu.reg_read(scratch), 0);
    assert_eq!(gpu.vram.load32(0x1000), Ok(0x0707_0707));
    assert_eq!(gpu.vram.load32(at), Ok(0x2821_1407));
    assert_eq!(gpu.strict.lines(), [""; 0]);
}
