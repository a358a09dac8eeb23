// SPDX-License-Identifier: GPL-2.0 OR MIT

//! RX 9070 from power-on: VBIOS, boot chain of the PSP, firmware by type, RLC autoload, and the
//! processors that need it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{booted, FB};
use gpu_model::chips::rx9070::CHIP;
use gpu_model::engines::{firmware::Fw, rom};
use gpu_model::gpu::{Boot, Gpu};
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{
    gc_12_0_0 as gc, mmhub_4_1_0 as mm, nbif_6_3_1 as nbif, psp as mailbox, smuio_14_0_2 as smuio,
    Reg,
};
use rkfd_abi::firmware::signed;
use rkfd_abi::psp::{
    self, bootloader, cmd, cmd_buf, control, frame, fw_reserve, fw_type as ty, load_ip_fw,
    load_toc, resp,
};

const VRAM: u64 = crate::common::VRAM;
/// Buffers of the tests, in VRAM.
const BLOB: u64 = 16 << 20;
const RING: u64 = 32 << 20;
const BUFFER: u64 = RING + 0x1000;
const FENCE: u64 = RING + 0x2000;

/// Boot loader commands with the container kinds they take, in order.
const CHAIN: &[(u32, u16)] = &[
    (bootloader::LOAD_KEY_DATABASE, 0x4f),
    (bootloader::LOAD_TOS_SPL_TABLE, 0x56),
    (bootloader::LOAD_SYSDRV, 0x0a),
    (bootloader::LOAD_SOCDRV, 0x14a),
    (bootloader::LOAD_INTFDRV, 0x14c),
    (bootloader::LOAD_DBGDRV, 0x14b),
    (bootloader::LOAD_RASDRV, 0x152),
    (bootloader::LOAD_IPKEYMGRDRV, 0x1e1),
    (bootloader::LOAD_SOSDRV, 0x09),
];

/// Types of firmware with the container kinds they take, in the order of the C driver.
const FIRMWARE: &[(u32, u16)] = &[
    (ty::SMU, 0x1001),
    (ty::SDMA_UCODE_TH0, 0x2025),
    (ty::RS64_PFP, 0x2044),
    (ty::RS64_ME, 0x2046),
    (ty::RS64_MEC, 0x2048),
    (ty::RS64_PFP_P0_STACK, 0x2045),
    (ty::RS64_ME_P0_STACK, 0x2047),
    (ty::RS64_MEC_P0_STACK, 0x2049),
    (ty::RS64_MEC_P1_STACK, 0x2049),
    (ty::CP_MES, 0x2007),
    (ty::MES_STACK, 0x2008),
    (ty::CP_MES_KIQ, 0x2007),
    (ty::MES_KIQ_STACK, 0x2008),
    (ty::IMU_I, 0x203b),
    (ty::IMU_D, 0x203c),
    (ty::RLC_RESTORE_LIST_GPM_MEM, 0x200b),
    (ty::RLC_RESTORE_LIST_SRM_MEM, 0x200c),
    (ty::RLC_IRAM, 0x2016),
    (ty::RLC_DRAM_BOOT, 0x2017),
    (ty::RLC_G, 0x2009),
];

const VERSION: u32 = 0x003a_1214;

/// Returns a container of `kind` in the format that does not state its size.
fn blob(kind: u16, body: usize) -> Vec<u8> {
    let mut bytes = vec![0x5a; signed::SIZE + body + 0x100];
    bytes[..signed::SIZE].fill(0);
    bytes[signed::MAGIC_AT..][..4].copy_from_slice(&signed::MAGIC);
    let mut put = |at: usize, v: u32| bytes[at..at + 4].copy_from_slice(&v.to_le_bytes());
    put(signed::BODY_BYTES, body as u32);
    put(signed::ID_AT, 0x8202_0000 | u32::from(kind));
    put(signed::VERSION, VERSION);
    bytes
}

struct Card {
    gpu: Arc<Gpu>,
    wptr: u32,
    fence: u32,
}

impl Card {
    fn new(boot: Boot) -> Self {
        let gpu = booted(&CHIP, Knobs::default(), boot);
        let card = Self {
            gpu,
            wptr: 0,
            fence: 0,
        };
        let top = FB + VRAM - 1;
        card.write(
            Ip::Mmhub,
            mm::regMMMC_VM_SYSTEM_APERTURE_LOW_ADDR,
            (FB >> 18) as u32,
        );
        card.write(
            Ip::Mmhub,
            mm::regMMMC_VM_SYSTEM_APERTURE_HIGH_ADDR,
            (top >> 18) as u32,
        );
        card.write(
            Ip::Mmhub,
            mm::regMMMC_VM_MX_L1_TLB_CNTL,
            1 | 3 << 3 | 1 << 6,
        );
        card
    }

    fn at(ip: Ip, reg: Reg) -> u32 {
        CHIP.base(ip, 0, reg.seg).unwrap() + reg.off
    }

    fn read(&self, ip: Ip, reg: Reg) -> u32 {
        self.gpu.reg_read(Self::at(ip, reg))
    }

    fn write(&self, ip: Ip, reg: Reg, value: u32) {
        self.gpu.reg_write(Self::at(ip, reg), value);
    }

    /// Waits until a register of the PSP has a value.
    fn wait(&self, reg: Reg, value: u32) {
        let start = Instant::now();
        while self.read(Ip::Mp0, reg) != value {
            assert!(start.elapsed() < Duration::from_secs(5), "{}", reg.name);
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Executes a boot loader command; returns the boot loader's status.
    fn load(&self, command: u32, bytes: &[u8]) -> u32 {
        self.gpu.vram.write(BLOB, bytes).unwrap();
        let at = (FB + BLOB) >> psp::BOOTLOADER_ADDRESS_SHIFT;
        self.write(Ip::Mp0, mailbox::BOOTLOADER_ADDRESS, at as u32);
        self.write(Ip::Mp0, mailbox::BOOTLOADER, command);
        std::thread::sleep(Duration::from_millis(3));
        self.read(Ip::Mp0, mailbox::BOOTLOADER)
    }

    /// Returns a card with secure OS and ring.
    fn up() -> Self {
        let mut card = Self::new(Boot::Cold);
        for (command, kind) in CHAIN {
            let response = card.load(*command, &blob(*kind, 0x900));
            assert!(*command == bootloader::LOAD_SOSDRV || response == psp::READY);
        }
        card.wait(mailbox::SIGN_OF_LIFE, 0);
        card.wait(mailbox::SIGN_OF_LIFE, VERSION);
        card.write(Ip::Mp0, mailbox::RING_ADDRESS_LO, (FB + RING) as u32);
        card.write(
            Ip::Mp0,
            mailbox::RING_ADDRESS_HI,
            ((FB + RING) >> 32) as u32,
        );
        card.write(Ip::Mp0, mailbox::RING_SIZE, psp::RING_BYTES);
        card.write(Ip::Mp0, mailbox::COMMAND, control::INIT_GPCOM_RING);
        card.wait(mailbox::COMMAND, psp::READY);
        card.wptr = card.read(Ip::Mp0, mailbox::RING_WPTR);
        card
    }

    /// Executes a command with dwords of its structure; returns its status.
    fn command(&mut self, id: u32, args: &[(usize, u32)]) -> u32 {
        let mut buffer = [0; cmd_buf::SIZE];
        let mut put = |at: usize, v: u32| buffer[at..at + 4].copy_from_slice(&v.to_le_bytes());
        put(cmd_buf::CMD_ID, id);
        for (at, value) in args {
            put(cmd_buf::CMD + at, *value);
        }
        self.gpu.vram.write(BUFFER, &buffer).unwrap();
        self.fence += 1;
        let mut entry = [0; frame::SIZE];
        let mut put = |at: usize, v: u32| entry[at..at + 4].copy_from_slice(&v.to_le_bytes());
        put(frame::CMD_BUF_ADDR_LO, (FB + BUFFER) as u32);
        put(frame::CMD_BUF_ADDR_HI, ((FB + BUFFER) >> 32) as u32);
        put(frame::FENCE_ADDR_LO, (FB + FENCE) as u32);
        put(frame::FENCE_ADDR_HI, ((FB + FENCE) >> 32) as u32);
        put(frame::FENCE_VALUE, self.fence);
        let at = RING + u64::from(self.wptr) * 4;
        self.gpu.vram.write(at, &entry).unwrap();
        self.wptr = (self.wptr + 16) % (psp::RING_BYTES / 4);
        self.write(Ip::Mp0, mailbox::RING_WPTR, self.wptr);
        while self.gpu.psp.step(&self.gpu) {}
        assert_eq!(self.gpu.vram.load32(FENCE).unwrap(), self.fence);
        self.response(resp::STATUS)
    }

    fn response(&self, at: usize) -> u32 {
        let at = BUFFER + (cmd_buf::RESP + at) as u64;
        self.gpu.vram.load32(at).unwrap()
    }

    fn load_fw(&mut self, fw: u32, kind: u16, padding: usize) -> u32 {
        let mut bytes = blob(kind, 0x1000);
        bytes.resize(bytes.len() + padding, 0);
        self.gpu.vram.write(BLOB, &bytes).unwrap();
        let at = FB + BLOB;
        let args = [
            (load_ip_fw::FW_ADDR_LO, at as u32),
            (load_ip_fw::FW_ADDR_HI, (at >> 32) as u32),
            (load_ip_fw::FW_SIZE, bytes.len() as u32),
            (load_ip_fw::FW_TYPE, fw),
        ];
        self.command(cmd::LOAD_IP_FW, &args)
    }

    fn booted(&self) -> bool {
        if !self.gpu.firmware.loaded(Fw::Rlc(0)) {
            return false;
        }
        let status = self.read(Ip::Gc, gc::regRLC_RLCS_BOOTLOAD_STATUS);
        assert!(gc::RLC_RLCS_BOOTLOAD_STATUS__BOOTLOAD_COMPLETE.is_set(status));
        true
    }

    fn clean(&self) {
        assert_eq!(self.gpu.strict.lines(), Vec::<String>::new());
    }

    /// Asserts that there is one strict line besides those about power, and that it contains
    /// `what`.
    fn complained(&self, what: &str) {
        let mut lines = self.gpu.strict.lines();
        lines.retain(|line| !line.contains("has no power"));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(what), "{lines:?}");
    }
}

#[test]
fn vbios_is_behind_the_index_register() {
    let card = Card::new(Boot::Cold);
    let image = rom::image(&CHIP, rom::reserved_by_firmware(VRAM));
    // Firmware of the PSP comes first (`amdgpu_soc15_read_bios_from_rom`).
    let offset = card.read(Ip::Nbif, nbif::regREGS_ROM_OFFSET_CTRL);
    assert_eq!(offset, rom::OFFSET);
    card.write(Ip::Smuio, smuio::regROM_INDEX, 0);
    assert_eq!(card.read(Ip::Smuio, smuio::regROM_DATA), 0);
    card.write(Ip::Smuio, smuio::regROM_INDEX, offset << 17);
    for word in image.chunks(4) {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        assert_eq!(card.read(Ip::Smuio, smuio::regROM_DATA), word);
    }
    let posted = card.read(Ip::Nbif, nbif::regBIF_BX0_BIOS_SCRATCH_7);
    assert_eq!(posted, rom::ASIC_INIT_COMPLETE);
    card.clean();
    assert_eq!(card.read(Ip::Smuio, smuio::regROM_DATA), !0);
    card.complained("rom: read at");
}

#[test]
fn firmware_is_started_by_the_autoload() {
    let mut card = Card::up();
    let at = FB + BLOB;
    card.gpu.vram.write(BLOB, &blob(0x200e, 0x700)).unwrap();
    let args = [
        (load_toc::TOC_ADDR_LO, at as u32),
        (load_toc::TOC_ADDR_HI, (at >> 32) as u32),
        (load_toc::TOC_SIZE, 0x900),
    ];
    assert_eq!(card.command(cmd::LOAD_TOC, &args), 0);
    for (fw, kind) in FIRMWARE {
        assert_eq!(card.load_fw(*fw, *kind, 0), 0, "{}", ty::name(*fw).unwrap());
        assert!(!card.booted());
    }
    assert_eq!(card.command(cmd::AUTOLOAD_RLC, &[]), 0);
    assert!(card.booted());
    let active = gc::CP_MES_CNTL__MES_PIPE0_ACTIVE.mask;
    card.write(Ip::Gc, gc::regCP_MES_CNTL, active);
    assert!(card.gpu.xccs[0].mes.runs(0));
    // MES reports the version of its container, and has enabled doorbells.
    card.write(
        Ip::Gc,
        gc::regGRBM_GFX_CNTL,
        3 << gc::GRBM_GFX_CNTL__MEID.shift,
    );
    let version = card.read(Ip::Gc, gc::regCP_MES_GP3_LO);
    assert_eq!(version & 0xfff, VERSION & 0xfff);
    let status = card.read(Ip::Gc, gc::regCP_PQ_STATUS);
    assert!(gc::CP_PQ_STATUS__DOORBELL_ENABLE.is_set(status));
    card.write(Ip::Gc, gc::regCP_MEC_RS64_CNTL, 0);
    card.write(Ip::Gc, gc::regCP_ME_CNTL, 0);
    card.clean();
}

#[test]
fn autoload_needs_all_images() {
    for (missing, _) in FIRMWARE {
        let mut card = Card::up();
        for (fw, kind) in FIRMWARE.iter().filter(|(fw, _)| fw != missing) {
            assert_eq!(card.load_fw(*fw, *kind, 0), 0);
        }
        let name = ty::name(*missing).unwrap();
        assert_ne!(card.command(cmd::AUTOLOAD_RLC, &[]), 0, "{name}");
        assert!(!card.booted(), "{name}");
    }
}

#[test]
fn only_data_may_be_padded() {
    let mut card = Card::up();
    assert_eq!(card.load_fw(ty::SMU, 0x1001, 0), 0);
    assert_eq!(card.load_fw(ty::RS64_MEC_P1_STACK, 0x2049, 0x2000), 0);
    card.clean();
    assert_ne!(card.load_fw(ty::RS64_MEC, 0x2048, 0x2000), 0);
    card.complained("are given");
}

#[test]
fn the_core_has_no_power_before_the_autoload() {
    let card = Card::new(Boot::Cold);
    card.write(Ip::Gc, gc::regRLC_SPM_MC_CNTL, 0xf);
    card.clean();
    card.read(Ip::Gc, gc::regGB_ADDR_CONFIG);
    assert_eq!(card.gpu.strict.lines().len(), 1);
    let card = Card::new(Boot::Warm);
    card.read(Ip::Gc, gc::regGB_ADDR_CONFIG);
    card.clean();
}

#[test]
fn processors_do_not_start_without_firmware() {
    let starts: &[(Reg, u32, &str)] = &[
        (
            gc::regCP_MES_CNTL,
            gc::CP_MES_CNTL__MES_PIPE1_ACTIVE.mask,
            "starts pipe 1",
        ),
        (gc::regCP_MEC_RS64_CNTL, 0, "regCP_MEC_RS64_CNTL 0x0 starts"),
        (gc::regCP_ME_CNTL, 0, "regCP_ME_CNTL 0x0 starts"),
    ];
    for (reg, value, what) in starts {
        let card = Card::new(Boot::Cold);
        card.write(Ip::Gc, *reg, *value);
        card.complained(what);
        assert!(!card.gpu.xccs[0].mes.runs(1));
        let card = Card::new(Boot::Warm);
        card.write(Ip::Gc, *reg, *value);
        card.clean();
    }
}

#[test]
fn reserved_memory_ends_video_memory() {
    let mut card = Card::up();
    assert_eq!(card.command(cmd::FB_FW_RESERV_ADDR, &[]), 0);
    let word = |at| u64::from(card.response(resp::URESP + at));
    let base = word(fw_reserve::BASE_HI) << 32 | word(fw_reserve::BASE_LO);
    assert_eq!(base + word(fw_reserve::SIZE), VRAM);
    // firmwareinfo of the VBIOS says the same.
    assert_eq!(word(fw_reserve::SIZE), rom::reserved_by_firmware(VRAM));
    assert_eq!(card.command(cmd::FB_FW_RESERV_EXT_ADDR, &[]), 0);
    assert_eq!(card.response(resp::URESP + fw_reserve::SIZE), 0);
    card.clean();
}
