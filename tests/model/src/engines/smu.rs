// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SMU (MP1) mailbox of 13.0.6: versions, features, clock and power limits, metrics, resets.
//! [`v14`] is that of 14.0.3.
//!
//! Its firmware runs in every state of the rest of the card. Limits are stored and have no effect
//! on the speed.

pub mod eeprom;
pub mod fru;
mod mailbox;
mod metrics;
pub mod v14;

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gpu_regs::{mp_13_0_6 as mp, smu as regs};
use rkfd_abi::ih::{client, source};
use rkfd_abi::smu::{i2c, interrupt, msg, plpd, response, FEATURES};

use crate::chips::Generation;
use crate::engines::ih::{aid_node, Entry};
use crate::gpu::{Gpu, Reset};
use crate::knobs::Knobs;
use crate::log::Strict;
use crate::regs::{Ip, RegId, Slot};
use crate::{event, strict};
use eeprom::Eeprom;
use fru::Product;
use mailbox::{driver_table, known, read_table, refused, write_table, Mailbox};

const MESSAGE: RegId = RegId::new(0, regs::MESSAGE.off);
const MAILBOX: Mailbox = Mailbox {
    ip: Ip::Mp0,
    argument: regs::ARGUMENT,
    response: regs::RESPONSE,
};
/// Mask and acknowledgement of interrupts.
const INTERRUPT_CONTROL: RegId = RegId::new(0, mp::regMP1_SMN_IH_SW_INT_CTRL.off);

/// Same as `MP1_PUB_SCRATCH0`.
const SMU_VERSION: u32 = 0x0055_7b00;
/// `SMU13_0_6_DRIVER_IF_VERSION`.
const DRIVER_IF_VERSION: u32 = 0x0804_2024;
/// `SMU_RESET_MODE_1`, in the low half of the argument of a reset.
const MODE_1: u32 = 1;

/// Age of an interrupt that counts as not acknowledged.
const FORGOTTEN: Duration = Duration::from_millis(400);

/// State of the power firmware.
#[derive(Debug, Clone)]
struct State {
    /// GPU address of the driver's table: high, low.
    driver_table: [u32; 2],
    /// Enabled features (`FEATURE_LIST_e`).
    features: u64,
    /// A driver has enabled the features and not announced its unload.
    managed: bool,
    /// Limits of the shader clock in MHz.
    gfxclk: [u32; 2],
    /// Limits of the other clocks in MHz.
    soft: [[u32; 2]; 6],
    /// Power limit in W.
    power: u32,
    /// Policy of SOC power states.
    policy: u32,
    /// Power-down mode of single xGMI links; 0: they do not power down.
    plpd: u32,
    /// Time of an interrupt that is not acknowledged.
    raised: Option<Instant>,
    /// Time at which the features were enabled.
    enabled: Option<Instant>,
    /// The last message, if it has no response.
    unanswered: Option<u32>,
}

impl Default for State {
    fn default() -> Self {
        let range = |id| metrics::levels(id).map_or([0; 2], |levels| [levels[0], levels[3]]);
        Self {
            driver_table: [0; 2],
            features: 0,
            managed: false,
            gfxclk: metrics::GFXCLK,
            soft: [0, 1, 2, 3, 4, 5].map(range),
            power: metrics::POWER,
            policy: 0,
            plpd: plpd::DEFAULT,
            raised: None,
            enabled: None,
            unanswered: None,
        }
    }
}

/// The power firmware.
#[derive(Default)]
pub struct Smu {
    v13: Mutex<State>,
    /// The EEPROM of a board with RAS.
    eeprom: Option<Mutex<Eeprom>>,
    /// The EEPROM with product data.
    fru: Option<Mutex<Eeprom>>,
    v14: v14::Firmware,
}

impl Smu {
    /// Returns the firmware of a board whose EEPROM, at address `at` of the bus, lists the rows of
    /// these addresses as bad, if there are any, and whose FRU EEPROM has this data; otherwise it
    /// has no such EEPROM.
    pub fn new(at: u32, bad_pages: &[u64], product: Option<&Product>, knobs: &Knobs) -> Self {
        let damaged = product.is_some() && knobs.fru_bad_checksum.on();
        if damaged {
            knobs.fru_bad_checksum.hit();
        }
        let pages = (!bad_pages.is_empty()).then(|| Eeprom::with_bad_pages(at, bad_pages));
        Self {
            eeprom: pages.map(Mutex::new),
            fru: product.map(|product| Mutex::new(Eeprom::with_product(product, damaged))),
            ..Self::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.v13.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Reports an interrupt that the driver has not acknowledged for some time.
    pub fn check(&self, strict: &Strict) {
        let raised = self.lock().raised.map(|since| since.elapsed());
        if let Some(age) = raised.filter(|age| *age >= FORGOTTEN) {
            strict!(
                strict,
                "smu",
                "the interrupt is not acknowledged for {} ms",
                age.as_millis()
            );
        }
    }

    /// Resets the firmware. A function-level reset ends the management by a driver: the C driver
    /// does not announce its unload before a reset (`smu_v13_0_6_notify_unload`).
    pub fn reset(&self, kind: Reset) {
        self.v14.reset(kind);
        let mut state = self.lock();
        match kind {
            Reset::Flr => {
                state.managed = false;
                state.raised = None;
                state.unanswered = None;
            }
            Reset::PowerOn | Reset::Mode1 => *state = State::default(),
        }
    }
}

/// Handles a write to a mailbox register; returns false for other registers.
pub fn reg_write(gpu: &Gpu, slot: &Slot, value: u32) -> bool {
    if gpu.chip.generation == Generation::Gfx12 {
        return v14::reg_write(gpu, slot, value);
    }
    match slot.id {
        MESSAGE => {
            slot.set(value);
            message(gpu, value);
        }
        INTERRUPT_CONTROL => {
            let ack = mp::MP1_SMN_IH_SW_INT_CTRL__INT_ACK;
            slot.set(value & !ack.mask);
            if ack.is_set(value) {
                gpu.smu.lock().raised = None;
            }
        }
        _ => return false,
    }
    true
}

/// Reports by an interrupt that the card is throttled, because of power and the temperature of the
/// memory. It is lost if the driver has masked it or not set its id, or has not acknowledged the
/// one before.
pub fn throttle(gpu: &Gpu) {
    const PPT: u32 = 1 << 1;
    const HBM: u32 = 1 << 4;
    let get = |reg| gpu.regs.by_id(gpu.chip, Ip::Mp0, reg).map_or(0, Slot::get);
    let masked = mp::MP1_SMN_IH_SW_INT_CTRL__INT_MASK.is_set(get(mp::regMP1_SMN_IH_SW_INT_CTRL));
    let id = mp::MP1_SMN_IH_SW_INT__ID.get(get(mp::regMP1_SMN_IH_SW_INT));
    let mut state = gpu.smu.lock();
    if masked || id != source::SMU_TO_DRIVER || state.raised.is_some() {
        event!(
            gpu.trace,
            "smu",
            "interrupt_lost",
            "masked={} id={id:#x}",
            u8::from(masked)
        );
        return;
    }
    state.raised = Some(Instant::now());
    gpu.ih.post(Entry {
        client_id: client::MP1 as u8,
        source_id: source::SMU_TO_DRIVER as u8,
        node_id: aid_node(0),
        ctx: [interrupt::THROTTLING, PPT | HBM, 0, 0],
        ..Entry::default()
    });
}

fn message(gpu: &Gpu, message: u32) {
    let argument = MAILBOX.receive(gpu, message);
    if message != msg::GFX_DRIVER_RESET {
        let mut state = gpu.smu.lock();
        if let Some(last) = state.unanswered {
            strict!(
                gpu.strict,
                "smu",
                "message {message:#x} while message {last:#x} has no response"
            );
        }
        state.unanswered = gpu.knobs.smu_silent.take().then_some(message);
        if state.unanswered.is_some() {
            return;
        }
    }
    match message {
        // The upper half contains whether a fatal error was the reason (smu_v13_0_6_mode1_reset).
        msg::GFX_DRIVER_RESET if argument & 0xffff == MODE_1 && argument >> 17 == 0 => {
            // The mailbox is not reset: the driver reads its response.
            gpu.mode1_reset();
            MAILBOX.respond(gpu, response::OK);
        }
        msg::RESET_SDMA if gpu.knobs.smu_no_sdma_reset.take() => {
            MAILBOX.respond(gpu, response::FAILED);
        }
        msg::RESET_SDMA => {
            // The response is written when the engines are reset.
            let then = |gpu: &Gpu| MAILBOX.respond(gpu, response::OK);
            if !gpu.sdma.request_reset(argument, then) {
                strict!(gpu.strict, "smu", "ResetSDMA of engines {argument:#x}");
                MAILBOX.respond(gpu, response::FAILED);
            }
        }
        _ => {
            let result = run(gpu, &mut gpu.smu.lock(), message, argument);
            MAILBOX.answer(gpu, result);
        }
    }
}

/// Executes a message that completes at once. Returns the new value of the argument register, or
/// the response of a failure.
fn run(gpu: &Gpu, state: &mut State, message: u32, argument: u32) -> Result<u32, u32> {
    let (high, low) = (argument >> 16, argument & 0xffff);
    let mut returned = argument;
    let limits = matches!(
        message,
        msg::SET_PPT_LIMIT
            | msg::SET_SOFT_MIN_GFX_CLK
            | msg::SET_SOFT_MAX_GFX_CLK
            | msg::SET_SOFT_MIN_BY_FREQ
            | msg::SET_SOFT_MAX_BY_FREQ
            | msg::ENABLE_DETERMINISM
    );
    if limits && gpu.knobs.smu_no_limit.take() {
        return Err(response::FAILED);
    }
    if message == msg::SET_SOFT_MAX_BY_FREQ && gpu.knobs.smu_no_highest.take() {
        return Err(response::FAILED);
    }
    if message == msg::GET_METRICS_TABLE && gpu.knobs.smu_no_metrics.take() {
        return Err(response::REJECTED_BUSY);
    }
    match message {
        msg::TEST_MESSAGE => returned = argument.wrapping_add(1),
        msg::GET_SMU_VERSION => returned = SMU_VERSION,
        msg::GET_DRIVER_IF_VERSION => returned = DRIVER_IF_VERSION,
        msg::ENABLE_ALL_SMU_FEATURES => {
            if state.managed {
                strict!(
                    gpu.strict,
                    "smu",
                    "EnableAllSmuFeatures after a driver that did not send PrepareForDriverUnload"
                );
            }
            state.features = (1 << FEATURES) - 1;
            state.managed = true;
            state.enabled = Some(Instant::now());
        }
        msg::DISABLE_ALL_SMU_FEATURES => state.features = 0,
        msg::PREPARE_FOR_DRIVER_UNLOAD => state.managed = false,
        msg::GET_ENABLED_SMU_FEATURES_LOW => returned = state.features as u32,
        msg::GET_ENABLED_SMU_FEATURES_HIGH => returned = (state.features >> 32) as u32,
        msg::SET_DRIVER_DRAM_ADDR_HIGH => state.driver_table[0] = argument,
        msg::SET_DRIVER_DRAM_ADDR_LOW => state.driver_table[1] = argument,
        // No message that is modelled uses this table.
        msg::SET_TOOLS_DRAM_ADDR_HIGH | msg::SET_TOOLS_DRAM_ADDR_LOW => {}
        msg::REQUEST_I2C_TRANSACTION => transfer(gpu, state)?,
        msg::GET_METRICS_VERSION => returned = rkfd_abi::smu::metrics::VERSION,
        msg::GET_METRICS_TABLE => export(gpu, state)?,
        msg::SET_SOFT_MIN_BY_FREQ => soft(gpu, state, high)?[0] = low,
        msg::SET_SOFT_MAX_BY_FREQ => soft(gpu, state, high)?[1] = low,
        msg::GET_MIN_DPM_FREQ => returned = levels(gpu, high)?[0],
        msg::GET_MAX_DPM_FREQ => returned = levels(gpu, high)?[3],
        msg::GET_DPM_FREQ_BY_INDEX => {
            let levels = levels(gpu, high)?;
            returned = match low {
                0xff => levels.len() as u32 - 1,
                n => *levels
                    .get(n as usize)
                    .ok_or_else(|| refused(gpu, message, argument))?,
            };
        }
        msg::GET_MIN_GFX_DPM_FREQ => returned = metrics::GFXCLK[0],
        msg::GET_MAX_GFX_DPM_FREQ => returned = metrics::GFXCLK[1],
        // There are no other readers, and no errors.
        msg::SET_NUM_BAD_HBM_PAGES_RETIRED if gpu.smu.eeprom.is_some() => {}
        msg::QUERY_VALID_MCA_COUNT | msg::QUERY_VALID_MCA_CE_COUNT if gpu.smu.eeprom.is_some() => {
            returned = 0;
        }
        msg::CLEAR_MCA_ON_READ if gpu.smu.eeprom.is_some() && argument <= 3 => {}
        msg::ENABLE_DETERMINISM
            if (metrics::GFXCLK[0]..=metrics::GFXCLK[1]).contains(&argument) =>
        {
            state.gfxclk[1] = argument;
        }
        msg::DISABLE_DETERMINISM => state.gfxclk[1] = metrics::GFXCLK[1],
        msg::SET_SOFT_MIN_GFX_CLK => state.gfxclk[0] = low,
        msg::SET_SOFT_MAX_GFX_CLK => state.gfxclk[1] = low,
        msg::GET_PPT_LIMIT => returned = state.power,
        msg::SET_PPT_LIMIT if (1..=metrics::POWER).contains(&argument) => state.power = argument,
        msg::READ_THROTTLER_LIMIT => {
            let limit = metrics::throttle_limit(argument);
            returned = limit.ok_or_else(|| refused(gpu, message, argument))?;
        }
        msg::GET_CTF_LIMIT => {
            let limit = metrics::critical_limit(argument);
            returned = limit.ok_or_else(|| refused(gpu, message, argument))?;
        }
        msg::SELECT_PLPD_MODE if matches!(argument, plpd::DEFAULT | plpd::OPTIMIZED) => {
            select(gpu, state, state.policy, argument)?;
        }
        msg::GMI_PWR_DN_CONTROL if argument <= 1 => {
            select(gpu, state, state.policy, argument * plpd::DEFAULT)?;
        }
        // 0 is that of the firmware.
        msg::SET_THROTTLING_POLICY if argument <= 3 => select(gpu, state, argument, state.plpd)?,
        _ => return Err(refused(gpu, message, argument)),
    }
    Ok(returned)
}

/// Sets the policy of SOC power states and the power-down mode of xGMI links.
fn select(gpu: &Gpu, state: &mut State, policy: u32, plpd: u32) -> Result<(), u32> {
    if gpu.knobs.smu_no_policy.take() {
        return Err(response::FAILED);
    }
    event!(
        gpu.trace,
        "smu",
        "policy",
        "soc={}:{policy} plpd={}:{plpd}",
        state.policy,
        state.plpd
    );
    (state.policy, state.plpd) = (policy, plpd);
    Ok(())
}

/// Returns the levels of a clock in MHz.
fn levels(gpu: &Gpu, clock: u32) -> Result<[u32; 4], u32> {
    known(gpu, clock, metrics::levels(clock))
}

/// Returns the limits of a clock in MHz.
fn soft<'a>(gpu: &Gpu, state: &'a mut State, clock: u32) -> Result<&'a mut [u32; 2], u32> {
    levels(gpu, clock)?;
    state.soft.get_mut(clock as usize).ok_or(response::FAILED)
}

/// Executes the I2C transaction in the driver's table. No devices but the EEPROMs acknowledge.
fn transfer(gpu: &Gpu, state: &State) -> Result<(), u32> {
    let table = driver_table(gpu, state.driver_table, msg::REQUEST_I2C_TRANSACTION)?;
    let mut request = [0; i2c::SIZE];
    read_table(gpu, table, &mut request)?;
    if gpu.knobs.smu_i2c_busy.take() {
        return Err(response::FAILED);
    }
    let eeproms = [&gpu.smu.eeprom, &gpu.smu.fru].into_iter().flatten();
    let mut eeproms = eeproms.map(|eeprom| eeprom.lock().unwrap_or_else(|e| e.into_inner()));
    let Some(mut eeprom) = eeproms.find(|eeprom| eeprom.is_addressed(&request)) else {
        return Err(response::FAILED);
    };
    eeprom.transfer(&mut request).map_err(|why| {
        strict!(gpu.strict, "smu", "I2C transaction: {why}");
        response::FAILED
    })?;
    write_table(gpu, table, &request)
}

/// Writes the metrics to the driver's table.
fn export(gpu: &Gpu, state: &State) -> Result<(), u32> {
    let table = driver_table(gpu, state.driver_table, msg::GET_METRICS_TABLE)?;
    write_table(gpu, table, &metrics::table(gpu, state))
}
