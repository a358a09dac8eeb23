// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages of SMU 14.0.3: features, tables, clock and power limits, workloads, GFXOFF.
//!
//! Limits and features are stored and have no effect on speed and power. The board has no BACO,
//! hence no runtime power management of the driver, and no overdrive.

use std::sync::{Mutex, MutexGuard};

use gpu_regs::{mp_14_0_2 as mp, Reg};
use rkfd_abi::bits::{hi32, join, lo32};
use rkfd_abi::smu::response;
use rkfd_abi::smu::v14::{
    clock, metrics, msg, pptable, table, DEBUG_MODE_1_RESET, DRIVER_IF_VERSION, FEATURES,
    OVERDRIVE_SIZE, WORKLOADS, WORKLOAD_SIZE,
};

use crate::engines::gmc::Hub;
use crate::gpu::{Gpu, Reset};
use crate::regs::{Ip, RegId, Slot};
use crate::{event, strict};

use super::mailbox::{self, driver_table, refused, write_table, Mailbox};

const MESSAGE: RegId = id(mp::regMP1_SMN_C2PMSG_66);
const MAILBOX: Mailbox = Mailbox {
    ip: Ip::Mp1,
    argument: mp::regMP1_SMN_C2PMSG_82,
    response: mp::regMP1_SMN_C2PMSG_90,
};
const DEBUG_MESSAGE: RegId = id(mp::regMP1_SMN_C2PMSG_75);
const DEBUG_ARGUMENT: RegId = id(mp::regMP1_SMN_C2PMSG_53);
const INTERRUPT_CONTROL: RegId = id(mp::regMP1_SMN_IH_SW_INT_CTRL);

const fn id(reg: Reg) -> RegId {
    RegId::new(reg.seg, reg.off)
}

/// Version in the header of Debian's `smu_14_0_3.bin`.
const SMU_VERSION: u32 = 0x0068_5000;
/// Features that the firmware implements.
const ALL: u64 = (1 << FEATURES) - 1;
/// Board power of the card in W, from AMD's specification.
const POWER: u16 = 220;
/// Power of an idle card in W.
const IDLE: u16 = 20;
/// Shader clock in games in MHz, from AMD's specification; the guaranteed one is chosen.
const GAME_CLOCK: u16 = 2070;
const BASE_CLOCK: u16 = 1330;
/// Temperatures in degrees Celsius: now, limit, and that of the driver's shutdown.
const TEMPERATURE: u16 = 40;
const LIMIT: u16 = 110;
const SHUTDOWN: u16 = 118;
/// Speed and width of the link: generation 5, 16 lanes.
const PCIE: [u8; 2] = [4, 6];
const LCLK: u16 = 1000;
/// Serial number, chosen.
const SERIAL: u64 = 0x2b7c_09e1_5a43_d861;

/// State of the firmware.
#[derive(Debug, Clone)]
struct State {
    /// GPU address of the driver's table: high, low.
    driver_table: [u32; 2],
    /// Features that the driver allows.
    allowed: u64,
    /// Enabled features.
    features: u64,
    /// A driver has enabled the features and not announced its unload.
    managed: bool,
    /// Limits of the clocks in MHz.
    soft: [[u32; 2]; clock::COUNT],
    /// Power limit in W.
    power: u32,
    /// The graphics core may be powered down.
    gfx_off: bool,
    /// Coefficients of each workload.
    workloads: Vec<[u8; WORKLOAD_SIZE]>,
    samples: u32,
    /// Argument of the next debug message.
    debug_argument: Option<u32>,
}

impl Default for State {
    fn default() -> Self {
        let mut soft = [[0; 2]; clock::COUNT];
        for (clock, limits) in soft.iter_mut().enumerate() {
            if let Some(levels) = levels(clock as u32) {
                *limits = [levels[0], levels[levels.len() - 1]];
            }
        }
        Self {
            driver_table: [0; 2],
            allowed: ALL,
            features: 0,
            managed: false,
            soft,
            power: POWER.into(),
            gfx_off: false,
            workloads: vec![[0; WORKLOAD_SIZE]; WORKLOADS as usize],
            samples: 0,
            debug_argument: None,
        }
    }
}

/// The power firmware.
#[derive(Default)]
pub struct Firmware(Mutex<State>);

impl Firmware {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Resets the firmware. A function-level reset ends the management by a driver.
    pub fn reset(&self, kind: Reset) {
        let mut state = self.lock();
        match kind {
            Reset::Flr => state.managed = false,
            Reset::PowerOn | Reset::Mode1 => *state = State::default(),
        }
    }
}

/// Returns the levels of a clock in MHz, lowest first; `None` if there is no such clock. The lowest
/// and highest of shaders and memory are those of AMD's specification, the others are chosen.
fn levels(id: u32) -> Option<&'static [u32]> {
    Some(match id {
        clock::GFXCLK => &[500, 2520],
        clock::SOCCLK => &[500, 700, 900, 1200],
        clock::UCLK => &[96, 456, 772, 1258],
        clock::FCLK => &[600, 1000, 1500, 2000],
        clock::DCLK_0 => &[800, 1200],
        clock::VCLK_0 => &[900, 1500],
        clock::DCFCLK => &[500, 1000],
        // Clocks of the display: not queried by drivers of a card without one.
        _ => return None,
    })
}

/// Handles a write to a mailbox register; returns false for other registers.
pub fn reg_write(gpu: &Gpu, slot: &Slot, value: u32) -> bool {
    if slot.ip != Ip::Mp1 {
        return false;
    }
    match slot.id {
        MESSAGE => {
            slot.set(value);
            message(gpu, value);
        }
        DEBUG_ARGUMENT => {
            slot.set(value);
            gpu.smu.v14.lock().debug_argument = Some(value);
        }
        DEBUG_MESSAGE => {
            slot.set(value);
            debug_message(gpu, value);
        }
        INTERRUPT_CONTROL => {
            slot.set(value & !mp::MP1_SMN_IH_SW_INT_CTRL__INT_ACK.mask);
        }
        _ => return false,
    }
    true
}

fn debug_message(gpu: &Gpu, message: u32) {
    let argument = gpu.smu.v14.lock().debug_argument.take();
    event!(
        gpu.trace,
        "smu",
        "debug_message",
        "message={message:#x} argument={argument:x?}"
    );
    if argument != Some(0) {
        strict!(
            gpu.strict,
            "smu",
            "debug message {message:#x} with the argument {argument:x?} instead of 0"
        );
    }
    if message == DEBUG_MODE_1_RESET {
        gpu.mode1_reset();
    } else {
        strict!(
            gpu.strict,
            "smu",
            "debug message {message:#x} is not modelled"
        );
    }
}

fn message(gpu: &Gpu, message: u32) {
    let argument = MAILBOX.receive(gpu, message);
    let result = run(gpu, &mut gpu.smu.v14.lock(), message, argument);
    MAILBOX.answer(gpu, result);
}

/// Executes a message. Returns the new value of the argument register, or the response of a
/// failure.
fn run(gpu: &Gpu, state: &mut State, message: u32, argument: u32) -> Result<u32, u32> {
    let (high, low) = (argument >> 16, argument & 0xffff);
    let set_low = |all: u64, low: u32| join(low, hi32(all));
    let set_high = |all: u64, high: u32| join(lo32(all), high);
    let mut returned = argument;
    match message {
        msg::TEST_MESSAGE => returned = argument.wrapping_add(1),
        msg::GET_SMU_VERSION => returned = SMU_VERSION,
        msg::GET_DRIVER_IF_VERSION => returned = DRIVER_IF_VERSION,
        msg::SET_ALLOWED_FEATURES_MASK_LOW => state.allowed = set_low(state.allowed, argument),
        msg::SET_ALLOWED_FEATURES_MASK_HIGH => state.allowed = set_high(state.allowed, argument),
        msg::ENABLE_ALL_SMU_FEATURES => {
            if state.managed {
                strict!(
                    gpu.strict,
                    "smu",
                    "EnableAllSmuFeatures after a driver that did not send PrepareMp1ForUnload"
                );
            }
            state.features = ALL & state.allowed;
            state.managed = true;
        }
        msg::DISABLE_ALL_SMU_FEATURES => state.features = 0,
        msg::ENABLE_SMU_FEATURES_LOW => {
            state.features |= ALL & state.allowed & join(argument, 0);
        }
        msg::ENABLE_SMU_FEATURES_HIGH => {
            state.features |= ALL & state.allowed & join(0, argument);
        }
        msg::DISABLE_SMU_FEATURES_LOW => state.features &= !join(argument, 0),
        msg::DISABLE_SMU_FEATURES_HIGH => state.features &= !join(0, argument),
        msg::PREPARE_MP1_FOR_UNLOAD => state.managed = false,
        msg::GET_RUNNING_SMU_FEATURES_LOW => returned = lo32(state.features),
        msg::GET_RUNNING_SMU_FEATURES_HIGH => returned = hi32(state.features),
        msg::SET_DRIVER_DRAM_ADDR_HIGH => state.driver_table[0] = argument,
        msg::SET_DRIVER_DRAM_ADDR_LOW => state.driver_table[1] = argument,
        // No message that is modelled uses this table.
        msg::SET_TOOLS_DRAM_ADDR_HIGH | msg::SET_TOOLS_DRAM_ADDR_LOW => {}
        msg::TRANSFER_TABLE_SMU_2_DRAM => export(gpu, state, low, high)?,
        msg::TRANSFER_TABLE_DRAM_2_SMU => import(gpu, state, low, high)?,
        msg::SET_SOFT_MIN_BY_FREQ => soft(gpu, state, high)?[0] = low,
        msg::SET_SOFT_MAX_BY_FREQ => soft(gpu, state, high)?[1] = low,
        msg::GET_MIN_DPM_FREQ => returned = known(gpu, high)?[0],
        msg::GET_MAX_DPM_FREQ | msg::GET_DC_MODE_MAX_DPM_FREQ => {
            let levels = known(gpu, high)?;
            returned = levels[levels.len() - 1];
        }
        msg::GET_DPM_FREQ_BY_INDEX => {
            const FINE_GRAINED: u32 = 1 << 31;
            let levels = known(gpu, high)?;
            let fine = if high == clock::GFXCLK {
                FINE_GRAINED
            } else {
                0
            };
            returned = match low {
                0xff => levels.len() as u32 | fine,
                n => *levels
                    .get(n as usize)
                    .ok_or_else(|| refused(gpu, message, argument))?,
            };
        }
        // Of a level: 3 of them, generation 1 to 5, 1 to 32 lanes.
        msg::OVERRIDE_PCIE_PARAMETERS
            if high < 3 && low >> 8 <= 4 && (1..=7).contains(&(low & 0xff)) => {}
        msg::SET_WORKLOAD_MASK if argument != 0 && argument >> WORKLOADS == 0 => {}
        msg::ALLOW_GFX_OFF | msg::DISALLOW_GFX_OFF => {
            state.gfx_off = message == msg::ALLOW_GFX_OFF;
        }
        msg::GET_PPT_LIMIT if low == 0 && high <= 1 => returned = state.power,
        msg::SET_PPT_LIMIT if (1..=u32::from(POWER)).contains(&argument) => state.power = argument,
        msg::NOTIFY_POWER_SOURCE if argument <= 1 => {}
        msg::SET_EXTERNAL_CLIENT_DF_CSTATE_ALLOW if argument <= 1 => {}
        msg::RUN_DC_BTC | msg::ALLOW_IH_HOST_INTERRUPT => {}
        _ => return Err(refused(gpu, message, argument)),
    }
    Ok(returned)
}

/// Returns the levels of a clock in MHz.
fn known(gpu: &Gpu, clock: u32) -> Result<&'static [u32], u32> {
    mailbox::known(gpu, clock, levels(clock))
}

/// Returns the limits of a clock in MHz.
fn soft<'a>(gpu: &Gpu, state: &'a mut State, clock: u32) -> Result<&'a mut [u32; 2], u32> {
    known(gpu, clock)?;
    state.soft.get_mut(clock as usize).ok_or(response::FAILED)
}

/// Returns the coefficients of a workload.
fn workload<'a>(
    gpu: &Gpu,
    state: &'a mut State,
    number: u32,
) -> Result<&'a mut [u8; WORKLOAD_SIZE], u32> {
    state.workloads.get_mut(number as usize).ok_or_else(|| {
        strict!(gpu.strict, "smu", "there is no workload {number}");
        response::FAILED
    })
}

/// Writes a table to the driver's.
fn export(gpu: &Gpu, state: &mut State, number: u32, argument: u32) -> Result<(), u32> {
    let to = driver_table(gpu, state.driver_table, msg::TRANSFER_TABLE_SMU_2_DRAM)?;
    let bytes = match (number, argument) {
        (table::COMBO_PPTABLE, 0) => board(),
        (table::SMU_METRICS, 0) => {
            state.samples += 1;
            measurements(gpu, state)
        }
        (table::ACTIVITY_MONITOR_COEFF, n) => workload(gpu, state, n)?.to_vec(),
        (table::OVERDRIVE, 0) => vec![0; OVERDRIVE_SIZE],
        _ => return Err(refused(gpu, msg::TRANSFER_TABLE_SMU_2_DRAM, number)),
    };
    write_table(gpu, to, &bytes)
}

/// Reads a table from the driver's.
fn import(gpu: &Gpu, state: &mut State, number: u32, argument: u32) -> Result<(), u32> {
    let from = driver_table(gpu, state.driver_table, msg::TRANSFER_TABLE_DRAM_2_SMU)?;
    match number {
        // No device on the board's I2C buses acknowledges: it has no EEPROM.
        table::I2C_COMMANDS => Err(response::FAILED),
        table::ACTIVITY_MONITOR_COEFF => {
            let to = workload(gpu, state, argument)?;
            gpu.gmc.vm_read(Hub::MM, 0, from, to).map_err(|fault| {
                strict!(
                    gpu.strict,
                    "smu",
                    "the driver's table at {from:#x} is not readable: {fault:?}"
                );
                response::FAILED
            })
        }
        _ => Err(refused(gpu, msg::TRANSFER_TABLE_DRAM_2_SMU, number)),
    }
}

/// A table under construction.
struct Bytes(Vec<u8>);

impl Bytes {
    fn put(&mut self, at: usize, value: &[u8]) {
        self.0[at..at + value.len()].copy_from_slice(value);
    }

    fn half(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }
}

/// Returns the table of the board.
fn board() -> Vec<u8> {
    let mut table = Bytes(vec![0; pptable::SIZE]);
    table.half(pptable::STRUCTURE_SIZE, pptable::SIZE as u16);
    table.put(pptable::FORMAT_REVISION, &[pptable::REVISION]);
    table.half(pptable::PMFW_START, pptable::PMFW as u16);
    table.half(pptable::PMFW_START + 2, pptable::PMFW_SIZE as u16);
    table.half(pptable::SOFTWARE_SHUTDOWN_TEMP, SHUTDOWN);
    table.put(pptable::FEATURES_TO_RUN, &ALL.to_le_bytes());
    for level in 0..3 {
        table.put(pptable::PCIE_GEN_SPEED + level, &PCIE[..1]);
        table.put(pptable::PCIE_LANE_COUNT + level, &PCIE[1..]);
        table.half(pptable::LCLK_FREQ + 2 * level, LCLK);
    }
    table.half(pptable::BASE_CLOCK, BASE_CLOCK);
    table.half(pptable::GAME_CLOCK, GAME_CLOCK);
    // On mains and on battery.
    table.half(pptable::POWER, POWER);
    table.half(pptable::POWER + 2, POWER);
    table.half(pptable::SOCKET_POWER_LIMIT_AC, POWER);
    for sensor in 0..12 {
        table.half(pptable::TEMPERATURE_LIMIT + 2 * sensor, LIMIT);
    }
    table.0
}

/// Returns the metrics table. While a wave runs, load and power are at their maximum.
fn measurements(gpu: &Gpu, state: &State) -> Vec<u8> {
    let mut table = Bytes(vec![0; metrics::SIZE]);
    for (n, [lowest, highest]) in state.soft.iter().enumerate() {
        // 0xffff is no limit.
        let levels = levels(n as u32).unwrap_or(&[0]);
        let now = (*lowest).max(levels[0]).min(*highest);
        table.put(metrics::CURR_CLOCK + 4 * n, &now.to_le_bytes());
        for at in match n as u32 {
            clock::GFXCLK => [
                metrics::AVERAGE_GFXCLK_PRE_DS,
                metrics::AVERAGE_GFXCLK_POST_DS,
            ],
            clock::UCLK => [
                metrics::AVERAGE_MEMCLK_PRE_DS,
                metrics::AVERAGE_MEMCLK_POST_DS,
            ],
            _ => continue,
        } {
            table.half(at, now as u16);
        }
    }
    table.put(metrics::METRICS_COUNTER, &state.samples.to_le_bytes());
    let busy = gpu.xccs.iter().any(|xcc| xcc.cp.is_busy());
    table.half(metrics::AVERAGE_GFX_ACTIVITY, if busy { 100 } else { 0 });
    let power = if busy { state.power as u16 } else { IDLE };
    table.half(metrics::AVERAGE_SOCKET_POWER, power);
    for sensor in 0..12 {
        table.half(metrics::AVG_TEMPERATURE + 2 * sensor, TEMPERATURE);
    }
    table.put(metrics::PCIE_RATE, &PCIE);
    table.put(metrics::PUBLIC_SERIAL_NUMBER, &SERIAL.to_le_bytes());
    table.0
}
