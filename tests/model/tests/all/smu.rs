// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SMU: features, metrics, limits.

use std::sync::Arc;

use crate::common::{addr, booted, open_aperture, FB};
use gpu_model::chips::mi300x::{CHIP, ONE_XCC};
use gpu_model::chips::Chip;
use gpu_model::engines::smu::throttle;
use gpu_model::gpu::{Boot, Gpu, Reset};
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{mp_13_0_6 as mp, smu as mailbox};
use rkfd_abi::ih::source;
use rkfd_abi::smu::{clock, metrics, msg, response, FEATURES};

/// The driver's table, in VRAM.
const TABLE: u64 = 16 << 20;

/// A card with an SMU.
pub trait Mailbox {
    /// Sends a message; returns response and value.
    fn send(&self, message: u32, argument: u32) -> (u32, u32);

    /// Returns the value of a message that succeeds.
    fn ask(&self, message: u32, argument: u32) -> u32 {
        let (response, value) = self.send(message, argument);
        assert_eq!(response, response::OK, "message {message:#x} {argument:#x}");
        value
    }
}

struct Card(Arc<Gpu>);

impl Mailbox for Card {
    fn send(&self, message: u32, argument: u32) -> (u32, u32) {
        let mp = |reg| addr(Ip::Mp0, reg);
        self.0.reg_write(mp(mailbox::RESPONSE), 0);
        self.0.reg_write(mp(mailbox::ARGUMENT), argument);
        self.0.reg_write(mp(mailbox::MESSAGE), message);
        (
            self.0.reg_read(mp(mailbox::RESPONSE)),
            self.0.reg_read(mp(mailbox::ARGUMENT)),
        )
    }
}

impl Card {
    fn new(chip: &'static Chip) -> Self {
        let gpu = booted(chip, Knobs::default(), Boot::Cold);
        open_aperture(&gpu);
        Self(gpu)
    }

    fn features(&self) -> u64 {
        let high = self.ask(msg::GET_ENABLED_SMU_FEATURES_HIGH, 0);
        let low = self.ask(msg::GET_ENABLED_SMU_FEATURES_LOW, 0);
        u64::from(high) << 32 | u64::from(low)
    }

    fn set_table(&self, at: u64) {
        self.ask(msg::SET_DRIVER_DRAM_ADDR_HIGH, (at >> 32) as u32);
        self.ask(msg::SET_DRIVER_DRAM_ADDR_LOW, at as u32);
    }

    /// Returns the metrics.
    fn metrics(&self) -> Vec<u8> {
        self.set_table(FB + TABLE);
        self.ask(msg::GET_METRICS_TABLE, 0);
        let mut table = vec![0; metrics::SIZE];
        self.0.vram.read(TABLE, &mut table).unwrap();
        table
    }

    fn violations(&self) -> u64 {
        self.0.strict.unexpected()
    }
}

fn word(table: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(table[at..at + 4].try_into().unwrap())
}

fn long(table: &[u8], at: usize) -> u64 {
    u64::from(word(table, at)) | u64::from(word(table, at + 4)) << 32
}

#[test]
fn driver_announces_its_unload() {
    let card = Card::new(&ONE_XCC);
    assert_eq!(card.features(), 0);
    for _ in 0..2 {
        card.ask(msg::ENABLE_ALL_SMU_FEATURES, 0);
        assert_eq!(card.features(), (1 << FEATURES) - 1);
        card.ask(msg::PREPARE_FOR_DRIVER_UNLOAD, 0);
    }
    card.ask(msg::ENABLE_ALL_SMU_FEATURES, 0);
    card.0.reset(Reset::Flr);
    card.ask(msg::ENABLE_ALL_SMU_FEATURES, 0);
    assert_eq!(card.violations(), 0);
    card.ask(msg::ENABLE_ALL_SMU_FEATURES, 0);
    assert_eq!(card.violations(), 1);
    card.0.reset(Reset::Mode1);
    assert_eq!(card.features(), 0);
}

#[test]
fn metrics_have_a_serial_number_per_die() {
    for chip in [&ONE_XCC, &CHIP] {
        let card = Card::new(chip);
        let table = card.metrics();
        assert_ne!(word(&table, metrics::ACCUMULATION_COUNTER), 0);
        assert_eq!(word(&table, metrics::MAX_GFXCLK_FREQUENCY), 2100 << 10);
        assert_eq!(word(&table, metrics::UCLK_FREQUENCY_TABLE + 12), 1300 << 10);
        let aids = chip.instances(Ip::Mmhub).count();
        let xccs = chip.instances(Ip::Gc).count();
        let aid = |n| long(&table, metrics::PUBLIC_SERIAL_NUMBER_AID + 8 * n);
        let xcd = |n| long(&table, metrics::PUBLIC_SERIAL_NUMBER_XCD + 8 * n);
        let serials: std::collections::HashSet<u64> =
            (0..aids).map(aid).chain((0..xccs).map(xcd)).collect();
        assert_eq!(serials.len(), aids + xccs);
        assert!(!serials.contains(&0));
        assert_eq!(card.violations(), 0);
    }
}

#[test]
fn metrics_need_a_table_that_is_mapped() {
    let card = Card::new(&ONE_XCC);
    let export = || card.send(msg::GET_METRICS_TABLE, 0).0;
    assert_eq!(export(), response::REJECTED_PREREQ);
    card.set_table(1 << 44);
    assert_eq!(export(), response::FAILED);
    // It is not in VRAM either.
    assert_eq!(card.violations(), 3);
}

#[test]
fn limits_are_stored() {
    let card = Card::new(&ONE_XCC);
    assert_eq!(card.ask(msg::GET_PPT_LIMIT, 0), 750);
    card.ask(msg::SET_PPT_LIMIT, 500);
    assert_eq!(card.ask(msg::GET_PPT_LIMIT, 0), 500);
    card.ask(msg::SET_SOFT_MAX_GFX_CLK, 1500);
    let table = card.metrics();
    assert_eq!(word(&table, metrics::SOCKET_POWER_LIMIT), 500 << 10);
    assert_eq!(word(&table, metrics::GFXCLK_FREQUENCY_LIMIT), 1500 << 10);
    let uclk = clock::UCLK << 16;
    assert_eq!(card.ask(msg::GET_DPM_FREQ_BY_INDEX, uclk | 0xff), 3);
    assert_eq!(card.ask(msg::GET_DPM_FREQ_BY_INDEX, uclk | 3), 1300);
    assert_eq!(card.ask(msg::GET_MIN_DPM_FREQ, uclk), 900);
    card.ask(msg::SET_SOFT_MIN_BY_FREQ, uclk | 1100);
    assert_eq!(word(&card.metrics(), metrics::UCLK_FREQUENCY), 1100 << 10);
    assert_eq!(card.violations(), 0);
    assert_ne!(
        card.send(msg::GET_DPM_FREQ_BY_INDEX, uclk | 4).0,
        response::OK
    );
    assert_ne!(card.send(msg::SET_PPT_LIMIT, 751).0, response::OK);
    assert_ne!(card.send(msg::GET_MAX_DPM_FREQ, 6 << 16).0, response::OK);
    assert_eq!(card.violations(), 3);
}

#[test]
fn interrupts_have_to_be_acknowledged() {
    let card = Card::new(&ONE_XCC);
    let write = |reg, value| card.0.reg_write(addr(Ip::Mp0, reg), value);
    let old = std::time::Duration::from_millis(500);
    // A reset clears the registers.
    let raise = || {
        write(
            mp::regMP1_SMN_IH_SW_INT,
            mp::MP1_SMN_IH_SW_INT__ID.put(source::SMU_TO_DRIVER),
        );
        write(mp::regMP1_SMN_IH_SW_INT_CTRL, 0);
        throttle(&card.0);
    };
    raise();
    write(
        mp::regMP1_SMN_IH_SW_INT_CTRL,
        mp::MP1_SMN_IH_SW_INT_CTRL__INT_ACK.put(1),
    );
    std::thread::sleep(old);
    card.0.reset(Reset::Flr);
    assert_eq!(card.violations(), 0);
    raise();
    card.0.reset(Reset::Flr);
    assert_eq!(card.violations(), 0);
    raise();
    std::thread::sleep(old);
    card.0.reset(Reset::Flr);
    assert_eq!(card.violations(), 1);
}
