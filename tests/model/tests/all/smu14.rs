// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SMU 14.0.3: features, tables, limits, mode-1 reset by the debug mailbox.

use std::sync::Arc;

use crate::common::{booted, wait_for_mode1, FB, VRAM};
use crate::smu::Mailbox;
use gpu_model::chips::rx9070::CHIP;
use gpu_model::gpu::{Boot, Gpu, Reset};
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{mmhub_4_1_0 as mm, mp_14_0_2 as mp, Reg};
use rkfd_abi::smu::response;
use rkfd_abi::smu::v14::{
    clock, metrics, msg, pptable, table, DEBUG_MODE_1_RESET, DRIVER_IF_VERSION, FEATURES,
    FLAGS_SMN, WORKLOAD_SIZE,
};

/// The driver's table, in VRAM.
const TABLE: u64 = 16 << 20;
const ALL: u64 = (1 << FEATURES) - 1;
/// Feature of the deep sleep of the shader clock (`FEATURE_DS_GFXCLK_BIT`).
const DS_GFXCLK: u32 = 1 << 10;

struct Card(Arc<Gpu>);

impl Mailbox for Card {
    fn send(&self, message: u32, argument: u32) -> (u32, u32) {
        self.write(Ip::Mp1, mp::regMP1_SMN_C2PMSG_90, 0);
        self.write(Ip::Mp1, mp::regMP1_SMN_C2PMSG_82, argument);
        self.write(Ip::Mp1, mp::regMP1_SMN_C2PMSG_66, message);
        (
            self.read(Ip::Mp1, mp::regMP1_SMN_C2PMSG_90),
            self.read(Ip::Mp1, mp::regMP1_SMN_C2PMSG_82),
        )
    }
}

impl Card {
    fn new() -> Self {
        let card = Self(booted(&CHIP, Knobs::default(), Boot::Cold));
        let low = mm::regMMMC_VM_SYSTEM_APERTURE_LOW_ADDR;
        let high = mm::regMMMC_VM_SYSTEM_APERTURE_HIGH_ADDR;
        card.write(Ip::Mmhub, low, (FB >> 18) as u32);
        card.write(Ip::Mmhub, high, (FB + VRAM - 1 >> 18) as u32);
        let translation = 1 | 3 << 3 | 1 << 6;
        card.write(Ip::Mmhub, mm::regMMMC_VM_MX_L1_TLB_CNTL, translation);
        card
    }

    fn at(ip: Ip, reg: Reg) -> u32 {
        CHIP.base(ip, 0, reg.seg).unwrap() + reg.off
    }

    fn write(&self, ip: Ip, reg: Reg, value: u32) {
        self.0.reg_write(Self::at(ip, reg), value);
    }

    fn read(&self, ip: Ip, reg: Reg) -> u32 {
        self.0.reg_read(Self::at(ip, reg))
    }

    fn features(&self) -> u64 {
        let high = self.ask(msg::GET_RUNNING_SMU_FEATURES_HIGH, 0);
        let low = self.ask(msg::GET_RUNNING_SMU_FEATURES_LOW, 0);
        u64::from(high) << 32 | u64::from(low)
    }

    fn set_table(&self, at: u64) {
        self.ask(msg::SET_DRIVER_DRAM_ADDR_HIGH, (at >> 32) as u32);
        self.ask(msg::SET_DRIVER_DRAM_ADDR_LOW, at as u32);
    }

    /// Returns `size` bytes of a table.
    fn table(&self, number: u32, size: usize) -> Vec<u8> {
        self.set_table(FB + TABLE);
        self.ask(msg::TRANSFER_TABLE_SMU_2_DRAM, number);
        let mut table = vec![0; size];
        self.0.vram.read(TABLE, &mut table).unwrap();
        table
    }

    fn violations(&self) -> u64 {
        self.0.strict.unexpected()
    }
}

fn half(table: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(table[at..at + 2].try_into().unwrap())
}

#[test]
fn firmware_runs_and_has_the_version_of_the_driver() {
    let card = Card::new();
    assert_eq!(card.0.reg_read(FLAGS_SMN / 4), 1);
    assert_eq!(card.ask(msg::TEST_MESSAGE, 41), 42);
    assert_eq!(card.ask(msg::GET_DRIVER_IF_VERSION, 0), DRIVER_IF_VERSION);
    assert_eq!(card.violations(), 0);
}

#[test]
fn only_allowed_features_are_enabled() {
    let card = Card::new();
    assert_eq!(card.features(), 0);
    card.ask(msg::SET_ALLOWED_FEATURES_MASK_HIGH, !0);
    card.ask(msg::SET_ALLOWED_FEATURES_MASK_LOW, !DS_GFXCLK);
    card.ask(msg::ENABLE_ALL_SMU_FEATURES, 0);
    assert_eq!(card.features(), ALL & !u64::from(DS_GFXCLK));
    card.ask(msg::ENABLE_SMU_FEATURES_LOW, DS_GFXCLK);
    assert_eq!(card.features(), ALL & !u64::from(DS_GFXCLK));
    card.ask(msg::DISABLE_SMU_FEATURES_LOW, 1);
    card.ask(msg::DISABLE_SMU_FEATURES_HIGH, 1);
    let left = ALL & !u64::from(DS_GFXCLK) & !1 & !(1 << 32);
    assert_eq!(card.features(), left);
    card.ask(msg::ENABLE_SMU_FEATURES_HIGH, 1);
    assert_eq!(card.features(), left | 1 << 32);
    assert_eq!(card.violations(), 0);
}

#[test]
fn driver_announces_its_unload() {
    let card = Card::new();
    for _ in 0..2 {
        card.ask(msg::ENABLE_ALL_SMU_FEATURES, 0);
        card.ask(msg::PREPARE_MP1_FOR_UNLOAD, 0);
    }
    card.ask(msg::ENABLE_ALL_SMU_FEATURES, 0);
    card.0.reset(Reset::Flr);
    card.ask(msg::ENABLE_ALL_SMU_FEATURES, 0);
    assert_eq!(card.violations(), 0);
    card.ask(msg::ENABLE_ALL_SMU_FEATURES, 0);
    assert_eq!(card.violations(), 1);
}

#[test]
fn tables_are_in_the_memory_of_the_driver() {
    let card = Card::new();
    let board = card.table(table::COMBO_PPTABLE, pptable::SIZE);
    assert_eq!(usize::from(half(&board, 0)), pptable::SIZE);
    assert_eq!(half(&board, pptable::SOCKET_POWER_LIMIT_AC), 220);
    let measured = card.table(table::SMU_METRICS, metrics::SIZE);
    assert_eq!(measured[metrics::METRICS_COUNTER], 1);
    assert_eq!(half(&measured, metrics::AVERAGE_GFX_ACTIVITY), 0);
    card.ask(msg::SET_SOFT_MIN_BY_FREQ, clock::GFXCLK << 16 | 1500);
    let measured = card.table(table::SMU_METRICS, metrics::SIZE);
    assert_eq!(half(&measured, metrics::CURR_CLOCK), 1500);

    // Coefficients of workload 5 are those that the driver sent; of 4, none.
    let ours = [0x5a; WORKLOAD_SIZE];
    card.0.vram.write(TABLE, &ours).unwrap();
    let fifth = table::ACTIVITY_MONITOR_COEFF | 5 << 16;
    card.ask(msg::TRANSFER_TABLE_DRAM_2_SMU, fifth);
    let fourth = table::ACTIVITY_MONITOR_COEFF | 4 << 16;
    assert_eq!(card.table(fourth, WORKLOAD_SIZE), [0; WORKLOAD_SIZE]);
    assert_eq!(card.table(fifth, WORKLOAD_SIZE), ours);

    // No device on the I2C buses acknowledges.
    let sent = card.send(msg::TRANSFER_TABLE_DRAM_2_SMU, table::I2C_COMMANDS);
    assert_eq!(sent.0, response::FAILED);
    assert_eq!(card.violations(), 0);
}

#[test]
fn tables_need_an_address_and_a_number() {
    let card = Card::new();
    let sent = card.send(msg::TRANSFER_TABLE_SMU_2_DRAM, table::SMU_METRICS);
    assert_eq!(sent.0, response::REJECTED_PREREQ);
    card.set_table(FB + TABLE);
    let sent = card.send(msg::TRANSFER_TABLE_SMU_2_DRAM, 0xff);
    assert_eq!(sent.0, response::UNKNOWN_CMD);
    card.set_table(FB - 0x10_0000);
    let sent = card.send(msg::TRANSFER_TABLE_SMU_2_DRAM, table::SMU_METRICS);
    assert_eq!(sent.0, response::FAILED);
    // It is not in VRAM either.
    assert_eq!(card.violations(), 4);
}

#[test]
fn clocks_have_levels() {
    let card = Card::new();
    for (_, id) in clock::ALL {
        let count = card.ask(msg::GET_DPM_FREQ_BY_INDEX, id << 16 | 0xff);
        assert_eq!(count >> 31 != 0, *id == clock::GFXCLK);
        let level = |n| card.ask(msg::GET_DPM_FREQ_BY_INDEX, id << 16 | n);
        assert_eq!(level(0), card.ask(msg::GET_MIN_DPM_FREQ, id << 16));
        let last = (count & !(1 << 31)) - 1;
        assert_eq!(level(last), card.ask(msg::GET_MAX_DPM_FREQ, id << 16));
    }
    assert_eq!(card.violations(), 0);
    for (message, argument) in [
        (msg::GET_DPM_FREQ_BY_INDEX, 9),
        (msg::GET_MIN_DPM_FREQ, 11 << 16),
        (msg::SET_WORKLOAD_MASK, 0),
        (msg::SET_WORKLOAD_MASK, 1 << 10),
        (msg::SET_PPT_LIMIT, 221),
        (msg::OVERRIDE_PCIE_PARAMETERS, 3 << 16 | 0x406),
        (0x59, 0),
    ] {
        assert_ne!(card.send(message, argument).0, response::OK, "{message:#x}");
    }
    assert_eq!(card.violations(), 7);
}

#[test]
fn a_message_waits_for_the_last_response() {
    let card = Card::new();
    card.ask(msg::TEST_MESSAGE, 0);
    card.write(Ip::Mp1, mp::regMP1_SMN_C2PMSG_66, msg::TEST_MESSAGE);
    assert_eq!(card.violations(), 1);
}

#[test]
fn debug_mailbox_resets_the_card() {
    let card = Card::new();
    card.ask(msg::ENABLE_ALL_SMU_FEATURES, 0);
    card.write(Ip::Mmhub, mm::regMMMC_VM_AGP_BASE, 0x5a5a);
    card.write(Ip::Mp1, mp::regMP1_SMN_C2PMSG_53, 0);
    card.0.dma.set_master(false);
    card.write(Ip::Mp1, mp::regMP1_SMN_C2PMSG_75, DEBUG_MODE_1_RESET);
    card.write(Ip::Mp1, mp::regMP1_SMN_C2PMSG_54, 0);
    wait_for_mode1(CHIP.generation);
    assert_eq!(card.read(Ip::Mmhub, mm::regMMMC_VM_AGP_BASE), 0);
    assert_eq!(card.features(), 0);
    assert_eq!(card.violations(), 0);
    card.write(Ip::Mp1, mp::regMP1_SMN_C2PMSG_53, 0);
    card.write(Ip::Mp1, mp::regMP1_SMN_C2PMSG_75, 7);
    assert_eq!(card.violations(), 1);
    // Without an argument.
    card.write(Ip::Mp1, mp::regMP1_SMN_C2PMSG_75, DEBUG_MODE_1_RESET);
    assert_eq!(card.violations(), 2);
}
