// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Engines of a cold card do not run before firmware is loaded; every reset restores that state.

use crate::common::{addr, cold, gpu, open_aperture, FB};
use gpu_model::engines::firmware::Fw;
use gpu_model::gpu::{Gpu, Reset};
use gpu_model::regs::Ip;
use gpu_regs::{gc_9_4_3 as gc, sdma_4_4_2 as sdma, Reg};

const CODE: u64 = 0x10_0000;

fn write(gpu: &Gpu, reg: Reg, value: u32) {
    gpu.reg_write(addr(Ip::Gc, reg), value);
}

fn read(gpu: &Gpu, reg: Reg) -> u32 {
    gpu.reg_read(addr(Ip::Gc, reg))
}

fn load(gpu: &Gpu, address: u32, data: u32, version: u32) {
    gpu.reg_write(address, 0);
    for n in 0..16 {
        gpu.reg_write(data, n);
    }
    gpu.reg_write(address, version);
}

fn load_rlc(gpu: &Gpu) {
    write(gpu, gc::regRLC_CNTL, 0);
    let port = [gc::regRLC_GPM_UCODE_ADDR, gc::regRLC_GPM_UCODE_DATA];
    let [address, data] = port.map(|reg| addr(Ip::Gc, reg));
    load(gpu, address, data, 0x21);
    write(gpu, gc::regRLC_CNTL, 1);
}

fn safe_mode(gpu: &Gpu) -> bool {
    write(gpu, gc::regRLC_SAFE_MODE, 3);
    let entered = gc::RLC_SAFE_MODE__CMD.get(read(gpu, gc::regRLC_SAFE_MODE)) == 0;
    if entered {
        write(gpu, gc::regRLC_SAFE_MODE, 1);
    }
    entered
}

#[test]
fn cold_card_is_halted_without_firmware() {
    let gpu = cold();
    assert_eq!(read(&gpu, gc::regCP_MEC_CNTL), 0x5000_0000);
    assert_eq!(gpu.reg_read(addr(Ip::Sdma, sdma::regSDMA_F32_CNTL)), 1);
    assert!(!gpu.firmware.loaded(Fw::Rlc(0)) && !gpu.firmware.loaded(Fw::Sdma(3)));
    assert!(!gpu.xccs[0].cp.mec_runs() && !gpu.sdma.runs(0) && !gpu.rlc_runs(0));
    assert_eq!(gpu.strict.lines(), [""; 0]);
}

#[test]
fn engines_do_not_run_without_firmware() {
    let gpu = cold();
    assert!(!safe_mode(&gpu));
    assert!(gpu.strict.lines()[0].contains("does not respond"));
    write(&gpu, gc::regCP_MEC_CNTL, 0);
    assert!(!gpu.xccs[0].cp.mec_runs());
    assert!(gpu.strict.lines()[1].contains("firmware is not loaded"));
    gpu.reg_write(addr(Ip::Sdma, sdma::regSDMA_F32_CNTL), 0);
    assert!(!gpu.sdma.runs(0));
    assert!(gpu.strict.lines()[2].contains("firmware is not loaded"));
    // Too late: the engines have to be restarted.
    for fw in [Fw::Rlc(0), Fw::Mec1(0), Fw::Mec1Jt(0), Fw::Sdma(0)] {
        gpu.firmware.put(fw);
    }
    write(&gpu, gc::regRLC_SAFE_MODE, 1);
    assert!(!gpu.xccs[0].cp.mec_runs() && !gpu.sdma.runs(0));
    write(&gpu, gc::regCP_MEC_CNTL, 0x5000_0000);
    write(&gpu, gc::regCP_MEC_CNTL, 0);
    gpu.reg_write(addr(Ip::Sdma, sdma::regSDMA_F32_CNTL), 1);
    gpu.reg_write(addr(Ip::Sdma, sdma::regSDMA_F32_CNTL), 0);
    assert!(gpu.xccs[0].cp.mec_runs() && gpu.sdma.runs(0) && !gpu.sdma.runs(1));
    assert!(safe_mode(&gpu));
    assert_eq!(gpu.strict.unexpected(), 3);
}

#[test]
fn ucode_ports_load_firmware() {
    let gpu = cold();
    load_rlc(&gpu);
    assert!(safe_mode(&gpu));
    open_aperture(&gpu);
    let base = FB + CODE;
    write(&gpu, gc::regCP_CPC_IC_BASE_LO, base as u32);
    write(&gpu, gc::regCP_CPC_IC_BASE_HI, (base >> 32) as u32);
    gpu.vram.write(CODE, &[1; 64]).unwrap();
    let port = [gc::regCP_MEC_ME1_UCODE_ADDR, gc::regCP_MEC_ME1_UCODE_DATA];
    let [address, data] = port.map(|reg| addr(Ip::Gc, reg));
    load(&gpu, address, data, 0xbb);
    write(&gpu, gc::regCP_MEC_CNTL, 0);
    assert!(gpu.xccs[0].cp.mec_runs());
    assert_eq!(gpu.reg_read(address), 0xbb);
    let [address, data, control] = [
        sdma::regSDMA_UCODE_ADDR,
        sdma::regSDMA_UCODE_DATA,
        sdma::regSDMA_F32_CNTL,
    ]
    .map(|reg| addr(Ip::Sdma, reg));
    load(&gpu, address, data, 0x17);
    gpu.reg_write(control, 0);
    assert!(gpu.sdma.runs(0));
    assert_eq!(gpu.strict.lines(), [""; 0]);
    // Not while the engine runs.
    load(&gpu, address, data, 0x17);
    assert!(gpu.strict.lines()[0].contains("while that engine runs"));
}

#[test]
fn code_must_be_at_its_base_address() {
    let gpu = cold();
    load_rlc(&gpu);
    open_aperture(&gpu);
    write(&gpu, gc::regCP_CPC_IC_BASE_LO, (FB + CODE) as u32);
    write(&gpu, gc::regCP_CPC_IC_BASE_HI, (FB >> 32) as u32);
    let port = [gc::regCP_MEC_ME1_UCODE_ADDR, gc::regCP_MEC_ME1_UCODE_DATA];
    let [address, data] = port.map(|reg| addr(Ip::Gc, reg));
    load(&gpu, address, data, 0xbb);
    assert!(gpu.strict.lines()[0].contains("no code there"));
    assert!(!gpu.firmware.loaded(Fw::Mec1(0)) && gpu.firmware.loaded(Fw::Mec1Jt(0)));
}

#[test]
fn resets_drop_firmware_and_state() {
    let gpu = cold();
    let scratch = gc::regSCRATCH_REG0;
    let prepare = || {
        gpu.firmware.put(Fw::Mec1(0));
        gpu.vram.write(0x1000, &[7; 4]).unwrap();
        write(&gpu, scratch, 1);
    };
    for (kind, kept) in [
        (Reset::Flr, 0x0707_0707),
        (Reset::Mode1, 0),
        (Reset::PowerOn, 0),
    ] {
        prepare();
        gpu.reset(kind);
        assert_eq!(read(&gpu, scratch), 0, "{kind:?}");
        assert_eq!(gpu.vram.load32(0x1000), Ok(kept), "{kind:?}");
        assert!(!gpu.firmware.loaded(Fw::Mec1(0)), "{kind:?}");
        assert_eq!(read(&gpu, gc::regCP_MEC_CNTL), 0x5000_0000);
        assert_eq!(gpu.take_config_lost(), kind == Reset::Mode1);
    }
    assert_eq!(gpu.strict.lines(), [""; 0]);
}

#[test]
fn mode_1_makes_warm_card_cold() {
    let gpu = gpu();
    assert!(gpu.xccs[0].cp.mec_runs() && gpu.sdma.runs(3) && safe_mode(&gpu));
    gpu.reset(Reset::Flr);
    assert!(gpu.is_warm() && gpu.xccs[0].cp.mec_runs() && gpu.sdma.runs(3));
    gpu.reset(Reset::Mode1);
    assert!(!gpu.is_warm() && !gpu.xccs[0].cp.mec_runs() && !gpu.sdma.runs(3));
    gpu.reset(Reset::Flr);
    assert!(!gpu.is_warm());
    gpu.reset(Reset::PowerOn);
    assert!(gpu.is_warm() && gpu.xccs[0].cp.mec_runs());
}
