// SPDX-License-Identifier: GPL-2.0 OR MIT

//! PSP: boot loader chain, kernel ring, commands, resets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{addr, booted, open_aperture, placed, wait_for_mode1, FB, VRAM};
use gpu_model::chips::mi300x::{CHIP, ONE_XCC};
use gpu_model::engines::firmware::Fw;
use gpu_model::gpu::{Boot, Gpu, Reset};
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{gc_9_4_3 as gc, nbio_7_9_0 as nbio, psp as mailbox, smu as smu_mailbox, Reg};
use rkfd_abi::firmware::signed;
use rkfd_abi::psp::{
    self, bootloader, cmd, cmd_buf, control, frame, fw_type, load_ip_fw, load_ta, memory_part,
    resp, setup_tmr, spatial_part, status, unload_ta,
};
use rkfd_abi::smu;

/// Buffers of the tests, in VRAM.
const BLOB: u64 = 16 << 20;
const RING: u64 = 32 << 20;
const BUFFER: u64 = RING + 0x1000;
const FENCE: u64 = RING + 0x2000;

/// Boot loader commands with the container kinds they take, in order.
const CHAIN: &[(u32, u16)] = &[
    (bootloader::LOAD_KEY_DATABASE, 0x4f),
    (bootloader::LOAD_SYSDRV, 0x0a),
    (bootloader::LOAD_SOCDRV, 0x14a),
    (bootloader::LOAD_INTFDRV, 0x14c),
    (bootloader::LOAD_DBGDRV, 0x14b),
    (bootloader::LOAD_RASDRV, 0x152),
    (bootloader::LOAD_SOSDRV, 0x09),
];

/// Version of the secure OS.
const VERSION: u32 = 0x0036_1234;

/// Returns an encrypted container of `kind`, whose contents cannot be checked.
fn blob(kind: u16, body: usize) -> Vec<u8> {
    let mut bytes = vec![0x5a; signed::SIZE + body + 0x200];
    bytes[..signed::SIZE].fill(0);
    bytes[signed::MAGIC_AT..][..4].copy_from_slice(&signed::MAGIC);
    let mut put = |at: usize, v: u32| bytes[at..at + 4].copy_from_slice(&v.to_le_bytes());
    put(signed::BODY_BYTES, body as u32);
    put(0x18, 1);
    put(signed::ID_AT, 0x8101_0000 | u32::from(kind));
    put(signed::VERSION, VERSION);
    put(signed::TOTAL_BYTES, (signed::SIZE + body + 0x200) as u32);
    bytes
}

struct Card {
    gpu: Arc<Gpu>,
    wptr: u32,
    fence: u32,
}

impl Card {
    fn new(boot: Boot, knobs: &[(&str, u64)]) -> Self {
        let all = Knobs::default();
        for (name, value) in knobs {
            assert!(all.set(name, *value));
        }
        Self::of(booted(&ONE_XCC, all, boot))
    }

    fn of(gpu: Arc<Gpu>) -> Self {
        open_aperture(&gpu);
        Self {
            gpu,
            wptr: 0,
            fence: 0,
        }
    }

    /// Returns a cold card with secure OS, ring and TMR set up.
    fn up() -> Self {
        Self::up_at(None)
    }

    /// The same at a position in a hive.
    fn up_at(hive_node: Option<u8>) -> Self {
        let gpu = placed(&ONE_XCC, Knobs::default(), Boot::Cold, hive_node);
        let mut card = Self::of(gpu);
        card.chain();
        card.ring();
        assert_eq!(card.command(cmd::SETUP_TMR, &[(setup_tmr::FLAGS, 2)]), 0);
        card.load_p2s();
        card
    }

    fn read(&self, reg: Reg) -> u32 {
        self.gpu.reg_read(addr(Ip::Mp0, reg))
    }

    fn write(&self, reg: Reg, value: u32) {
        self.gpu.reg_write(addr(Ip::Mp0, reg), value);
    }

    /// Waits until a register has a value; returns false on timeout.
    fn wait(&self, reg: Reg, value: u32) -> bool {
        let start = Instant::now();
        while self.read(reg) != value {
            if start.elapsed() > Duration::from_millis(500) {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }

    /// Executes a boot loader command; returns the boot loader's status.
    fn load(&self, command: u32, bytes: &[u8]) -> u32 {
        self.gpu.vram.write(BLOB, bytes).unwrap();
        let at = (FB + BLOB) >> psp::BOOTLOADER_ADDRESS_SHIFT;
        self.write(mailbox::BOOTLOADER_ADDRESS, at as u32);
        self.write(mailbox::BOOTLOADER, command);
        std::thread::sleep(Duration::from_millis(3));
        self.read(mailbox::BOOTLOADER)
    }

    fn chain(&self) {
        for (command, kind) in CHAIN {
            assert_eq!(self.read(mailbox::SIGN_OF_LIFE), 0);
            let response = self.load(*command, &blob(*kind, 0x900));
            if *command != bootloader::LOAD_SOSDRV {
                assert_eq!(response, psp::READY);
            }
        }
        assert_eq!(
            self.read(mailbox::SIGN_OF_LIFE),
            0,
            "secure OS alive too early"
        );
        assert!(self.wait(mailbox::SIGN_OF_LIFE, VERSION));
        assert_eq!(self.read(mailbox::VERSION), VERSION);
        assert_eq!(self.read(mailbox::COMMAND), psp::READY);
    }

    fn control(&self, command: u32) -> u32 {
        self.write(mailbox::COMMAND, command);
        std::thread::sleep(Duration::from_millis(1));
        self.read(mailbox::COMMAND)
    }

    fn create(&self, base: u64, size: u32) -> u32 {
        self.write(mailbox::RING_ADDRESS_LO, base as u32);
        self.write(mailbox::RING_ADDRESS_HI, (base >> 32) as u32);
        self.write(mailbox::RING_SIZE, size);
        self.control(control::INIT_GPCOM_RING)
    }

    fn ring(&mut self) {
        assert_eq!(self.create(FB + RING, psp::RING_BYTES), psp::READY);
        self.wptr = self.read(mailbox::RING_WPTR);
    }

    /// Writes a command with dwords of its structure to the ring.
    fn submit(&mut self, id: u32, args: &[(usize, u32)]) {
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
        self.write(mailbox::RING_WPTR, self.wptr);
        while self.gpu.psp.step(&self.gpu) {}
    }

    fn response(&self, at: usize) -> u32 {
        self.gpu
            .vram
            .load32(BUFFER + (cmd_buf::RESP + at) as u64)
            .unwrap()
    }

    fn fenced(&self) -> bool {
        self.gpu.vram.load32(FENCE).unwrap() == self.fence
    }

    /// Executes a command; returns its status.
    fn command(&mut self, id: u32, args: &[(usize, u32)]) -> u32 {
        self.submit(id, args);
        assert!(self.fenced());
        self.response(resp::STATUS)
    }

    fn load_fw(&mut self, fw: u32, bytes: &[u8], size: u32) -> u32 {
        self.gpu.vram.write(BLOB, bytes).unwrap();
        let at = FB + BLOB;
        let args = [
            (load_ip_fw::FW_ADDR_LO, at as u32),
            (load_ip_fw::FW_ADDR_HI, (at >> 32) as u32),
            (load_ip_fw::FW_SIZE, size),
            (load_ip_fw::FW_TYPE, fw),
        ];
        self.command(cmd::LOAD_IP_FW, &args)
    }

    /// Loads the table that has to precede all engine firmware.
    fn load_p2s(&mut self) {
        let table = blob(0x1d2, 0x100);
        let size = table.len() as u32;
        assert_eq!(self.load_fw(fw_type::P2S_TABLE, &table, size), 0);
    }

    fn clean(&self) {
        assert_eq!(self.gpu.strict.lines(), Vec::<String>::new());
    }

    /// Asserts that there is exactly one strict line, and that it contains `what`.
    fn complained(&self, what: &str) {
        let lines = self.gpu.strict.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(what), "{lines:?}");
    }
}

#[test]
fn boot_chain_starts_secure_os() {
    let card = Card::new(Boot::Cold, &[]);
    assert_eq!(card.read(mailbox::MAILBOX), psp::READY);
    assert_eq!(card.read(mailbox::BOOTLOADER), psp::READY);
    assert_eq!(card.read(mailbox::COMMAND), 0);
    card.chain();
    card.clean();
}

#[test]
fn boot_loader_refuses_wrong_order_and_images() {
    for (command, bytes, what) in [
        (bootloader::LOAD_SOSDRV, blob(9, 16), "SOSDRV before KDB"),
        (bootloader::LOAD_KEY_DATABASE, blob(9, 16), "of kind 0x9"),
        (bootloader::LOAD_KEY_DATABASE, vec![0; 0x400], "no $PS1"),
        (0x30_0000, blob(9, 16), "not one of this chip"),
    ] {
        let card = Card::new(Boot::Cold, &[]);
        let response = card.load(command, &bytes);
        assert_ne!(response & 0xff, 0);
        assert_ne!(response & psp::READY, 0);
        card.complained(what);
    }
}

#[test]
fn damaged_image_fails_hash_check() {
    let card = Card::new(Boot::Cold, &[]);
    let mut bytes = blob(0x4f, 64);
    bytes[0x18] = 0;
    assert_ne!(card.load(bootloader::LOAD_KEY_DATABASE, &bytes), psp::READY);
    card.complained("the hash of");
}

#[test]
fn mailbox_refuses_overlapping_commands() {
    // On a loaded machine the first command may complete before the second is sent.
    let busy = (0..50).any(|_| {
        let card = Card::new(Boot::Cold, &[]);
        card.gpu.vram.write(BLOB, &blob(0x4f, 64)).unwrap();
        let at = (FB + BLOB) >> psp::BOOTLOADER_ADDRESS_SHIFT;
        card.write(mailbox::BOOTLOADER_ADDRESS, at as u32);
        card.write(mailbox::BOOTLOADER, bootloader::LOAD_KEY_DATABASE);
        card.write(mailbox::BOOTLOADER, bootloader::LOAD_SYSDRV);
        card.gpu.strict.lines()[0].contains("works on a command")
    });
    assert!(busy);
}

#[test]
fn load_ip_fw_by_type() {
    let mut card = Card::up();
    let pieces: &[(u32, u16, Option<Fw>)] = &[
        (fw_type::SDMA0, 0x2025, Some(Fw::Sdma(0))),
        (fw_type::SDMA3, 0x2025, Some(Fw::Sdma(3))),
        (fw_type::CP_MEC, 0x2004, Some(Fw::Mec1(0))),
        (fw_type::CP_MEC_ME1, 0x2005, Some(Fw::Mec1Jt(0))),
        (fw_type::RLC_RESTORE_LIST_SRM_CNTL, 0x200d, None),
        (fw_type::RLC_RESTORE_LIST_GPM_MEM, 0x200b, None),
        (fw_type::RLC_RESTORE_LIST_SRM_MEM, 0x200c, None),
        (fw_type::RLC_G, 0x2009, Some(Fw::Rlc(0))),
        (fw_type::REG_LIST, 0x135, None),
    ];
    let mut last = 0;
    for (fw, kind, piece) in pieces {
        assert!(piece.is_none_or(|p| !card.gpu.firmware.loaded(p)));
        let bytes = blob(*kind, 0x1000);
        assert_eq!(card.load_fw(*fw, &bytes, bytes.len() as u32), 0);
        assert!(piece.is_none_or(|p| card.gpu.firmware.loaded(p)));
        let at = u64::from(card.response(resp::FW_ADDR_HI)) << 32
            | u64::from(card.response(resp::FW_ADDR_LO));
        assert!(at > last && (FB..FB + VRAM).contains(&at));
        last = at;
    }
    assert!(!card.gpu.firmware.loaded(Fw::Sdma(1)));
    card.clean();
}

#[test]
fn load_ip_fw_refuses_wrong_kind_or_size() {
    let mec = blob(0x2004, 0x1000);
    let size = mec.len() as u32;
    for (fw, bytes, size, what) in [
        (fw_type::RLC_G, &mec, size, "of kind 0x2004"),
        (fw_type::CP_MEC, &mec, size - 1, "there are"),
        (fw_type::CP_MEC, &mec, size + 0x100, "are given"),
        (fw_type::CP_MEC, &vec![0; 0x1000], 0x1000, "no $PS1"),
        (fw_type::VCN, &mec, size, "this chip has none"),
        (fw_type::SDMA4, &mec, size, "this chip has none"),
    ] {
        let mut card = Card::up();
        assert_ne!(card.load_fw(fw, bytes, size), 0);
        assert!(!card.gpu.firmware.loaded(Fw::Mec1(0)));
        card.complained(what);
    }
}

#[test]
fn load_ip_fw_needs_tmr() {
    let mut card = Card::new(Boot::Warm, &[]);
    card.ring();
    let bytes = blob(0x2004, 0x1000);
    let response = card.load_fw(fw_type::CP_MEC, &bytes, bytes.len() as u32);
    assert_eq!(response, status::tee::BAD_STATE);
    card.complained("no trusted memory region");
    assert_eq!(card.command(cmd::SETUP_TMR, &[(setup_tmr::FLAGS, 2)]), 0);
    assert_eq!(card.command(cmd::DESTROY_TMR, &[]), 0);
    assert_eq!(card.command(cmd::DESTROY_TMR, &[]), status::tee::BAD_STATE);
}

#[test]
fn ring_wraps_and_can_be_recreated() {
    let mut card = Card::up();
    for _ in 0..100 {
        let args = [(spatial_part::MODE, 1)];
        assert_eq!(card.command(cmd::SRIOV_SPATIAL_PART, &args), 0);
    }
    assert_eq!(card.control(control::DESTROY_RINGS), psp::READY);
    card.ring();
    assert_eq!(card.wptr, 0);
    assert_eq!(card.command(cmd::DESTROY_TMR, &[]), 0);
    card.clean();
    assert_ne!(card.create(FB + RING, psp::RING_BYTES) & 0xffff, 0);
    card.complained("one already");
}

#[test]
fn ring_needs_secure_os() {
    let card = Card::new(Boot::Cold, &[]);
    card.write(mailbox::COMMAND, control::INIT_GPCOM_RING);
    assert!(!card.wait(mailbox::COMMAND, psp::READY));
    card.complained("does not run");
    let card = Card::new(Boot::Warm, &[]);
    card.write(mailbox::RING_WPTR, 16);
    card.complained("no ring");
}

#[test]
fn partition_modes_are_visible_in_registers() {
    let mut card = Card::up();
    let ctl = addr(Ip::Gc, gc::regCP_HYP_XCP_CTL);
    assert_eq!(
        card.command(cmd::SRIOV_SPATIAL_PART, &[(spatial_part::MODE, 1)]),
        0
    );
    let each = gc::CP_HYP_XCP_CTL__NUM_XCC_IN_XCP.get(card.gpu.reg_read(ctl));
    assert_eq!(each, 1);
    let mode = addr(Ip::Nbif, nbio::regBIF_BX_PF0_PARTITION_COMPUTE_STATUS);
    assert_eq!(card.gpu.reg_read(mode), 0);
    assert_ne!(
        card.command(cmd::SRIOV_SPATIAL_PART, &[(spatial_part::MODE, 2)]),
        0
    );
    card.complained("2 partitions of 1");
}

#[test]
fn memory_modes_are_set_by_a_reset() {
    let gpu = booted(&CHIP, Knobs::default(), Boot::Cold);
    let read = |reg| gpu.reg_read(addr(Ip::Nbif, reg));
    let status = || read(nbio::regBIF_BX_PF0_PARTITION_MEM_STATUS);
    assert_eq!(read(nbio::regBIF_BX_PF0_PARTITION_MEM_CAP), 0b1001);
    assert_eq!(status(), 0x10);
    for mode in [0, 2, 3, 5, 8, 33, u32::MAX] {
        assert!(!gpu.memory.request(&gpu, mode), "NPS{mode}");
    }
    // The mode that is set: no switch.
    assert!(gpu.memory.request(&gpu, 1));
    assert_eq!(status(), 0x10);
    assert!(gpu.memory.request(&gpu, 4));
    assert_eq!(status(), 0x18);
    gpu.reset(Reset::Flr);
    assert_eq!(status(), 0x18);
    gpu.vram.write(0, &[1]).unwrap();
    gpu.reset(Reset::Mode1);
    assert_eq!(status(), 0x80);
    let mut byte = [1];
    gpu.vram.read(0, &mut byte).unwrap();
    assert_eq!(byte, [0]);
    // It stays.
    gpu.reset(Reset::Mode1);
    assert_eq!(status(), 0x80);
    gpu.reset(Reset::PowerOn);
    assert_eq!(status(), 0x10);
}

#[test]
fn memory_modes_that_the_card_does_not_have_are_refused() {
    let mut card = Card::up();
    let mode = [(memory_part::MODE, 4)];
    assert_ne!(card.command(cmd::FB_NPS_MODE, &mode), 0);
    card.complained("FB_NPS_MODE 4");
    let cap = addr(Ip::Nbif, nbio::regBIF_BX_PF0_PARTITION_MEM_CAP);
    assert_eq!(card.gpu.reg_read(cap), 1);
}

#[test]
fn partitions_do_not_change_while_an_hiq_is_mapped() {
    let mut card = Card::up();
    let mode = [(spatial_part::MODE, 1)];
    card.gpu.shared.set_scheduler(0, 0xff00);
    let response = card.command(cmd::SRIOV_SPATIAL_PART, &mode);
    assert_eq!(response, status::tee::BAD_STATE);
    card.complained("while XCC 0 has an HIQ");
    card.gpu.shared.remove_scheduler(0);
    assert_eq!(card.command(cmd::SRIOV_SPATIAL_PART, &mode), 0);
}

#[test]
fn ta_load_invoke_unload() {
    let mut card = Card::up();
    let bytes = blob(0xf1b, 0x800);
    card.gpu.vram.write(BLOB, &bytes).unwrap();
    let load = [
        (load_ta::APP_ADDR_LO, (FB + BLOB) as u32),
        (load_ta::APP_ADDR_HI, ((FB + BLOB) >> 32) as u32),
        (load_ta::APP_LEN, bytes.len() as u32),
        (load_ta::CMD_BUF_ADDR_LO, (FB + (48 << 20)) as u32),
        (load_ta::CMD_BUF_ADDR_HI, ((FB + (48 << 20)) >> 32) as u32),
        (load_ta::CMD_BUF_LEN, 0x4000),
    ];
    assert_eq!(card.command(cmd::LOAD_TA, &load), 0);
    let session = card.response(resp::SESSION_ID);
    assert_ne!(session, 0);
    assert_eq!(card.command(cmd::LOAD_TA, &load), 0);
    assert_ne!(card.response(resp::SESSION_ID), session);
    let unload = [(unload_ta::SESSION_ID, session)];
    assert_eq!(card.command(cmd::UNLOAD_TA, &unload), 0);
    card.clean();
    assert_ne!(card.command(cmd::UNLOAD_TA, &unload), 0);
    card.complained("no session");
}

/// Returns a container with a UUID.
fn application(uuid: [u32; 4]) -> Vec<u8> {
    let mut bytes = blob(0, 0x800);
    for (at, word) in (0x38..).step_by(4).zip(uuid) {
        bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
    }
    bytes
}

#[test]
fn xgmi_application_knows_hive_and_links() {
    use psp::xgmi::{link_info, list, node_info, shared, ta_cmd, ta_status};
    const SHARED: u64 = 48 << 20;
    for hive_node in [None, Some(0)] {
        let mut card = Card::up_at(hive_node);
        let bytes = application([0x94f4_7da7, 0x5645_43a7, 0x4658_1d90, 0x1a1e_7c20]);
        card.gpu.vram.write(BLOB, &bytes).unwrap();
        let load = [
            (load_ta::APP_ADDR_LO, (FB + BLOB) as u32),
            (load_ta::APP_ADDR_HI, ((FB + BLOB) >> 32) as u32),
            (load_ta::APP_LEN, bytes.len() as u32),
            (load_ta::CMD_BUF_ADDR_LO, (FB + SHARED) as u32),
            (load_ta::CMD_BUF_ADDR_HI, ((FB + SHARED) >> 32) as u32),
            (load_ta::CMD_BUF_LEN, 0x4000),
        ];
        assert_eq!(card.command(cmd::LOAD_TA, &load), 0);
        let session = card.response(resp::SESSION_ID);
        let gpu = card.gpu.clone();
        let put = |at: usize, value: u64| {
            let bytes = value.to_le_bytes();
            gpu.vram.write(SHARED + at as u64, &bytes).unwrap();
        };
        let get = |at: usize| {
            let mut bytes = [0; 8];
            gpu.vram.read(SHARED + at as u64, &mut bytes).unwrap();
            u64::from_le_bytes(bytes)
        };
        let mut run = |command: u32| {
            put(shared::CMD_ID, command.into());
            let args = [
                (psp::invoke::SESSION_ID, session),
                (psp::invoke::TA_CMD_ID, command),
            ];
            assert_eq!(card.command(cmd::INVOKE_CMD, &args), 0);
            assert_eq!(get(shared::CMD_ID) >> 32, u64::from(command) | 1 << 31);
            get(shared::STATUS) as u32
        };
        if hive_node.is_none() {
            assert_eq!(run(ta_cmd::INITIALIZE), ta_status::GENERIC_FAILURE);
            card.complained("INITIALIZE");
            continue;
        }
        assert_eq!(run(ta_cmd::GET_HIVE_ID), ta_status::NOT_INITIALIZED);
        assert_eq!(run(ta_cmd::INITIALIZE), 0);
        assert_eq!(get(shared::CAPS_FLAG) as u8, 1);
        assert_eq!(run(ta_cmd::GET_HIVE_ID), 0);
        let hive = get(shared::OUT);
        assert_eq!(run(ta_cmd::GET_NODE_ID), 0);
        assert_eq!(get(shared::OUT), hive + 1);
        // The GPU itself and another one.
        put(shared::IN + list::NUM_NODES, 2);
        for (n, node) in [0, 5].into_iter().enumerate() {
            let at = shared::IN + list::NODES + n * node_info::SIZE;
            put(at + node_info::NODE_ID, hive + 1 + node);
            put(at + node_info::NUM_HOPS, 0x100);
        }
        assert_eq!(run(ta_cmd::SET_TOPOLOGY_INFO), 0);
        assert_eq!(run(ta_cmd::GET_TOPOLOGY_INFO), 0);
        let at = shared::OUT + list::NODES;
        assert_eq!(get(shared::OUT) as u32, 2);
        assert_eq!(get(at + node_info::NUM_HOPS) as u16, 0x100);
        let at = at + node_info::SIZE;
        assert_eq!(get(at + node_info::NUM_HOPS) as u16, 0x101);
        assert_eq!(get(at + node_info::SDMA_ENGINE) as u32, !0);
        // Links: the list is in the output.
        let at = shared::OUT + list::NODES;
        put(at + link_info::NODE_ID, hive + 1);
        let at = at + link_info::EXTENDED_SIZE;
        put(at + link_info::NODE_ID, hive + 6);
        assert_eq!(run(ta_cmd::GET_EXTEND_PEER_LINKS), 0);
        // One link, from port 0 of the other GPU to port 4.
        assert_eq!(get(at + link_info::NUM_LINKS) & 0xff_ffff, 0x04_0001);
        put(at + link_info::NODE_ID, hive + 9);
        let response = run(ta_cmd::GET_EXTEND_PEER_LINKS);
        assert_eq!(response, ta_status::INVALID_NODE_ID);
        assert_eq!(gpu.strict.lines().len(), 2);
    }
}

#[test]
fn unknown_command_status() {
    let mut card = Card::up();
    assert_eq!(card.command(0x7f, &[]), status::UNKNOWN_COMMAND);
    assert_eq!(card.command(cmd::PERF_HW, &[]), status::NOT_SUPPORTED);
    assert_eq!(card.gpu.strict.lines().len(), 2);
}

#[test]
fn unreadable_frame_faults() {
    let mut card = Card::new(Boot::Warm, &[]);
    assert_eq!(card.create(0x1000, psp::RING_BYTES), psp::READY);
    card.submit(cmd::DESTROY_TMR, &[]);
    assert!(!card.fenced());
    let lines = card.gpu.strict.lines();
    assert!(
        lines.iter().any(|l| l.contains("fault of client 3")),
        "{lines:?}"
    );
}

#[test]
fn fault_injection_knobs() {
    let mut card = Card::new(Boot::Warm, &[("psp.error", 2), ("psp.no_fence", 3)]);
    card.ring();
    assert_eq!(card.command(cmd::SETUP_TMR, &[(setup_tmr::FLAGS, 2)]), 0);
    assert_ne!(card.command(cmd::DESTROY_TMR, &[]), 0);
    card.submit(cmd::DESTROY_TMR, &[]);
    assert!(!card.fenced());
    assert_eq!(card.command(cmd::SETUP_TMR, &[(setup_tmr::FLAGS, 2)]), 0);
    card.clean();
    let card = Card::new(Boot::Cold, &[("psp.dead", 1)]);
    card.load(bootloader::LOAD_KEY_DATABASE, &blob(0x4f, 16));
    assert!(!card.wait(mailbox::BOOTLOADER, psp::READY));
    card.clean();
}

#[test]
fn boot_takes_time_from_the_first_read_on() {
    let card = Card::new(Boot::Cold, &[("psp.boot_ms", 300)]);
    std::thread::sleep(Duration::from_millis(400));
    let start = Instant::now();
    assert_eq!(card.read(mailbox::MAILBOX), 0);
    card.gpu.reset(Reset::Flr);
    assert!(card.wait(mailbox::BOOTLOADER, psp::READY));
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(card.read(mailbox::MAILBOX), psp::READY);
    card.clean();
}

#[test]
fn engine_firmware_needs_the_p2s_table_before() {
    let mut card = Card::new(Boot::Cold, &[]);
    card.chain();
    card.ring();
    assert_eq!(card.command(cmd::SETUP_TMR, &[(setup_tmr::FLAGS, 2)]), 0);
    let rlc = blob(0x2009, 0x100);
    assert_eq!(card.load_fw(fw_type::RLC_G, &rlc, rlc.len() as u32), 0);
    card.complained("LOAD_IP_FW RLC_G before the P2S table");
    card.load_p2s();
    assert_eq!(card.load_fw(fw_type::RLC_G, &rlc, rlc.len() as u32), 0);
    card.complained("before the P2S table");
}

#[test]
fn mode_1_drops_secure_os_and_firmware() {
    for boot in [Boot::Cold, Boot::Warm] {
        let mut card = match boot {
            Boot::Cold => Card::up(),
            Boot::Warm => Card::new(boot, &[]),
        };
        card.gpu.dma.set_master(false);
        card.write(smu_mailbox::RESPONSE, 0);
        card.write(smu_mailbox::ARGUMENT, 1);
        card.write(smu_mailbox::MESSAGE, smu::msg::GFX_DRIVER_RESET);
        assert_eq!(card.read(smu_mailbox::RESPONSE), smu::response::OK);
        wait_for_mode1(CHIP.generation);
        card.gpu.dma.set_master(true);
        assert_eq!(card.read(mailbox::SIGN_OF_LIFE), 0);
        assert!(card.wait(mailbox::MAILBOX, psp::READY));
        assert!(card.wait(mailbox::BOOTLOADER, psp::READY));
        assert!(!card.gpu.firmware.loaded(Fw::Rlc(0)));
        open_aperture(&card.gpu);
        card.chain();
        card.ring();
        assert_eq!(card.command(cmd::SETUP_TMR, &[(setup_tmr::FLAGS, 2)]), 0);
        card.clean();
    }
}

#[test]
fn flr_keeps_secure_os() {
    let mut card = Card::up();
    card.gpu.reset(Reset::Flr);
    assert_eq!(card.read(mailbox::VERSION), VERSION);
    assert_eq!(card.read(mailbox::COMMAND), psp::READY);
    assert!(!card.gpu.firmware.loaded(Fw::Rlc(0)));
    open_aperture(&card.gpu);
    card.ring();
    assert_eq!(card.command(cmd::SETUP_TMR, &[(setup_tmr::FLAGS, 2)]), 0);
    card.clean();
    card.gpu.reset(Reset::PowerOn);
    assert_eq!(card.read(mailbox::SIGN_OF_LIFE), 0);
}
