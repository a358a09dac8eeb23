// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SMU (system management unit): mailbox of firmware 13.0.6 (MP1).
//!
//! Sources: `pm/swsmu/inc/pmfw_if/smu_v13_0_6_ppsmc.h` (messages, responses),
//! `smu_v13_0_6_pmfw.h` (metrics table, clocks),
//! `pm/swsmu/smu13/smu_v13_0.c` (registers). The driver clears [`RESPONSE`], writes [`ARGUMENT`],
//! then [`MESSAGE`]. The message is complete when [`RESPONSE`] is nonzero; [`ARGUMENT`] then holds
//! its return value, if any.

use crate::regs::{mp_13_0_6 as regs, name, Reg};

/// Message register; a write starts the message.
pub const MESSAGE: Reg<name::MP1_SMN_C2PMSG_66> = regs::regMP1_SMN_C2PMSG_66;
/// Register of the argument and the return value.
pub const ARGUMENT: Reg<name::MP1_SMN_C2PMSG_82> = regs::regMP1_SMN_C2PMSG_82;
/// Response register.
pub const RESPONSE: Reg<name::MP1_SMN_C2PMSG_90> = regs::regMP1_SMN_C2PMSG_90;

/// Messages (`PPSMC_MSG_*`).
pub mod msg {
    /// Returns the argument + 1.
    pub const TEST_MESSAGE: u32 = 0x1;
    /// Returns the firmware version.
    pub const GET_SMU_VERSION: u32 = 0x2;
    /// Resets the GPU; the argument is the reset mode.
    pub const GFX_DRIVER_RESET: u32 = 0x3;
    /// Returns the driver interface version.
    pub const GET_DRIVER_IF_VERSION: u32 = 0x4;
    /// Enables all features; the device is managed by a driver from now on.
    pub const ENABLE_ALL_SMU_FEATURES: u32 = 0x5;
    /// Disables all features.
    pub const DISABLE_ALL_SMU_FEATURES: u32 = 0x6;
    /// Executes the I2C transaction in the driver's table.
    pub const REQUEST_I2C_TRANSACTION: u32 = 0x7;
    /// Returns the version of the metrics table.
    pub const GET_METRICS_VERSION: u32 = 0x8;
    /// Writes [`metrics`](super::metrics) to the driver's table.
    pub const GET_METRICS_TABLE: u32 = 0x9;
    /// Returns enabled features 0 to 31.
    pub const GET_ENABLED_SMU_FEATURES_LOW: u32 = 0xb;
    /// Returns enabled features 32 to 63.
    pub const GET_ENABLED_SMU_FEATURES_HIGH: u32 = 0xc;
    /// Sets bits 32 to 63 of the GPU address of the driver's table.
    pub const SET_DRIVER_DRAM_ADDR_HIGH: u32 = 0xd;
    /// Sets bits 0 to 31 of the GPU address of the driver's table.
    pub const SET_DRIVER_DRAM_ADDR_LOW: u32 = 0xe;
    /// Sets bits 32 to 63 of the GPU address of the tools' table.
    pub const SET_TOOLS_DRAM_ADDR_HIGH: u32 = 0xf;
    /// Sets bits 0 to 31 of the GPU address of the tools' table.
    pub const SET_TOOLS_DRAM_ADDR_LOW: u32 = 0x10;
    /// Sets the lower limit of a clock: [`clock`](super::clock) in bits 16 to 31, MHz in 0 to
    /// 15.
    pub const SET_SOFT_MIN_BY_FREQ: u32 = 0x13;
    /// Sets the upper limit of a clock; argument as above.
    pub const SET_SOFT_MAX_BY_FREQ: u32 = 0x14;
    /// Returns the lowest frequency of a clock in MHz; the clock is in bits 16 to 31.
    pub const GET_MIN_DPM_FREQ: u32 = 0x15;
    /// Returns the highest frequency of a clock in MHz.
    pub const GET_MAX_DPM_FREQ: u32 = 0x16;
    /// Returns the frequency of a level in MHz, or of level 0xff the index of the last one.
    pub const GET_DPM_FREQ_BY_INDEX: u32 = 0x17;
    /// Sets the power limit of the socket in W.
    pub const SET_PPT_LIMIT: u32 = 0x18;
    /// Returns the power limit of the socket in W.
    pub const GET_PPT_LIMIT: u32 = 0x19;
    /// Sets the lower limit of the shader clock in MHz.
    pub const SET_SOFT_MIN_GFX_CLK: u32 = 0x30;
    /// Sets the upper limit of the shader clock in MHz.
    pub const SET_SOFT_MAX_GFX_CLK: u32 = 0x31;
    /// Returns the lowest frequency of the shader clock in MHz.
    pub const GET_MIN_GFX_DPM_FREQ: u32 = 0x32;
    /// Returns the highest frequency of the shader clock in MHz.
    pub const GET_MAX_GFX_DPM_FREQ: u32 = 0x33;
    /// Tells the firmware that no driver manages the device any more.
    pub const PREPARE_FOR_DRIVER_UNLOAD: u32 = 0x34;
    /// Returns the temperature in degrees Celsius at which a part is throttled: 1 socket, 2
    /// HBM.
    pub const READ_THROTTLER_LIMIT: u32 = 0x35;
    /// Returns the critical temperature of a part in degrees Celsius: 1 AID, 3 XCD, 4 HBM.
    pub const GET_CTF_LIMIT: u32 = 0x38;
    /// Selects the power-down mode of xGMI links.
    pub const SELECT_PLPD_MODE: u32 = 0x40;
    /// Selects the policy of SOC power states.
    pub const SET_THROTTLING_POLICY: u32 = 0x44;
    /// Resets SDMA engines; bit n of the argument is physical engine n of the package.
    pub const RESET_SDMA: u32 = 0x4d;
    /// All messages with AMD's names.
    pub const ALL: &[(&str, u32)] = &[
        ("TestMessage", TEST_MESSAGE),
        ("GetSmuVersion", GET_SMU_VERSION),
        ("GfxDriverReset", GFX_DRIVER_RESET),
        ("GetDriverIfVersion", GET_DRIVER_IF_VERSION),
        ("EnableAllSmuFeatures", ENABLE_ALL_SMU_FEATURES),
        ("DisableAllSmuFeatures", DISABLE_ALL_SMU_FEATURES),
        ("RequestI2cTransaction", REQUEST_I2C_TRANSACTION),
        ("GetMetricsVersion", GET_METRICS_VERSION),
        ("GetMetricsTable", GET_METRICS_TABLE),
        ("GetEnabledSmuFeaturesLow", GET_ENABLED_SMU_FEATURES_LOW),
        ("GetEnabledSmuFeaturesHigh", GET_ENABLED_SMU_FEATURES_HIGH),
        ("SetDriverDramAddrHigh", SET_DRIVER_DRAM_ADDR_HIGH),
        ("SetDriverDramAddrLow", SET_DRIVER_DRAM_ADDR_LOW),
        ("SetToolsDramAddrHigh", SET_TOOLS_DRAM_ADDR_HIGH),
        ("SetToolsDramAddrLow", SET_TOOLS_DRAM_ADDR_LOW),
        ("SetSoftMinByFreq", SET_SOFT_MIN_BY_FREQ),
        ("SetSoftMaxByFreq", SET_SOFT_MAX_BY_FREQ),
        ("GetMinDpmFreq", GET_MIN_DPM_FREQ),
        ("GetMaxDpmFreq", GET_MAX_DPM_FREQ),
        ("GetDpmFreqByIndex", GET_DPM_FREQ_BY_INDEX),
        ("SetPptLimit", SET_PPT_LIMIT),
        ("GetPptLimit", GET_PPT_LIMIT),
        ("SetSoftMinGfxClk", SET_SOFT_MIN_GFX_CLK),
        ("SetSoftMaxGfxClk", SET_SOFT_MAX_GFX_CLK),
        ("GetMinGfxDpmFreq", GET_MIN_GFX_DPM_FREQ),
        ("GetMaxGfxDpmFreq", GET_MAX_GFX_DPM_FREQ),
        ("PrepareForDriverUnload", PREPARE_FOR_DRIVER_UNLOAD),
        ("ReadThrottlerLimit", READ_THROTTLER_LIMIT),
        ("GetCTFLimit", GET_CTF_LIMIT),
        ("SelectPLPDMode", SELECT_PLPD_MODE),
        ("SetThrottlingPolicy", SET_THROTTLING_POLICY),
        ("ResetSDMA", RESET_SDMA),
    ];
}

/// Clocks of messages (`PPCLK_e`).
pub mod clock {
    /// Video decoder.
    pub const VCLK: u32 = 0;
    /// Video decoder.
    pub const DCLK: u32 = 1;
    /// SOC.
    pub const SOCCLK: u32 = 2;
    /// Memory.
    pub const UCLK: u32 = 3;
    /// Data fabric.
    pub const FCLK: u32 = 4;
    /// PCIe.
    pub const LCLK: u32 = 5;
    /// All clocks with AMD's names.
    pub const ALL: &[(&str, u32)] = &[
        ("VCLK", VCLK),
        ("DCLK", DCLK),
        ("SOCCLK", SOCCLK),
        ("UCLK", UCLK),
        ("FCLK", FCLK),
        ("LCLK", LCLK),
    ];
}

/// Number of features (`NUM_FEATURES`, `FEATURE_LIST_e`).
pub const FEATURES: u32 = 46;

/// Metrics table (`MetricsTableV0_t`, packed): offsets in bytes. Frequencies (MHz), power (W) and
/// temperatures (degrees Celsius) have 10 fractional bits.
pub mod metrics {
    /// Version in the `SMU_METRICS_TABLE_VERSION` of the header.
    pub const VERSION: u32 = 0x11;
    /// Size of the table.
    pub const SIZE: usize = 2268;
    /// Number of samples; zero before the first one.
    pub const ACCUMULATION_COUNTER: usize = 0x0;
    /// Temperature of the socket.
    pub const MAX_SOCKET_TEMPERATURE: usize = 0x4;
    /// Temperature of the voltage regulators.
    pub const MAX_VR_TEMPERATURE: usize = 0x8;
    /// Temperature of the memory.
    pub const MAX_HBM_TEMPERATURE: usize = 0xc;
    /// Power limit.
    pub const SOCKET_POWER_LIMIT: usize = 0x28;
    /// Maximum of the power limit.
    pub const MAX_SOCKET_POWER_LIMIT: usize = 0x2c;
    /// Power.
    pub const SOCKET_POWER: usize = 0x30;
    /// Time of the sample in 10 ns, 64 bits.
    pub const TIMESTAMP: usize = 0x34;
    /// Upper limit of the shader clock.
    pub const GFXCLK_FREQUENCY_LIMIT: usize = 0x68;
    /// Fabric clock.
    pub const FCLK_FREQUENCY: usize = 0x6c;
    /// Memory clock.
    pub const UCLK_FREQUENCY: usize = 0x70;
    /// SOC clock of each AID.
    pub const SOCCLK_FREQUENCY: usize = 0x74;
    /// Video clock of each AID.
    pub const VCLK_FREQUENCY: usize = 0x84;
    /// Video clock of each AID.
    pub const DCLK_FREQUENCY: usize = 0x94;
    /// PCIe clock of each AID.
    pub const LCLK_FREQUENCY: usize = 0xa4;
    /// Highest shader clock.
    pub const MAX_GFXCLK_FREQUENCY: usize = 0x3fc;
    /// Lowest shader clock.
    pub const MIN_GFXCLK_FREQUENCY: usize = 0x400;
    /// Levels of the fabric clock.
    pub const FCLK_FREQUENCY_TABLE: usize = 0x404;
    /// Levels of the memory clock.
    pub const UCLK_FREQUENCY_TABLE: usize = 0x414;
    /// Levels of the SOC clock.
    pub const SOCCLK_FREQUENCY_TABLE: usize = 0x424;
    /// Levels of the video clock.
    pub const VCLK_FREQUENCY_TABLE: usize = 0x434;
    /// Levels of the video clock.
    pub const DCLK_FREQUENCY_TABLE: usize = 0x444;
    /// Levels of the PCIe clock.
    pub const LCLK_FREQUENCY_TABLE: usize = 0x454;
    /// Shader clock of each XCD.
    pub const GFXCLK_FREQUENCY: usize = 0x55c;
    /// Serial number of each AID, 64 bits.
    pub const PUBLIC_SERIAL_NUMBER_AID: usize = 0x57c;
    /// Serial number of each XCD, 64 bits.
    pub const PUBLIC_SERIAL_NUMBER_XCD: usize = 0x59c;
    /// All offsets with AMD's names.
    pub const ALL: &[(&str, usize)] = &[
        ("AccumulationCounter", ACCUMULATION_COUNTER),
        ("MaxSocketTemperature", MAX_SOCKET_TEMPERATURE),
        ("MaxVrTemperature", MAX_VR_TEMPERATURE),
        ("MaxHbmTemperature", MAX_HBM_TEMPERATURE),
        ("SocketPowerLimit", SOCKET_POWER_LIMIT),
        ("MaxSocketPowerLimit", MAX_SOCKET_POWER_LIMIT),
        ("SocketPower", SOCKET_POWER),
        ("Timestamp", TIMESTAMP),
        ("GfxclkFrequencyLimit", GFXCLK_FREQUENCY_LIMIT),
        ("FclkFrequency", FCLK_FREQUENCY),
        ("UclkFrequency", UCLK_FREQUENCY),
        ("SocclkFrequency", SOCCLK_FREQUENCY),
        ("VclkFrequency", VCLK_FREQUENCY),
        ("DclkFrequency", DCLK_FREQUENCY),
        ("LclkFrequency", LCLK_FREQUENCY),
        ("MaxGfxclkFrequency", MAX_GFXCLK_FREQUENCY),
        ("MinGfxclkFrequency", MIN_GFXCLK_FREQUENCY),
        ("FclkFrequencyTable", FCLK_FREQUENCY_TABLE),
        ("UclkFrequencyTable", UCLK_FREQUENCY_TABLE),
        ("SocclkFrequencyTable", SOCCLK_FREQUENCY_TABLE),
        ("VclkFrequencyTable", VCLK_FREQUENCY_TABLE),
        ("DclkFrequencyTable", DCLK_FREQUENCY_TABLE),
        ("LclkFrequencyTable", LCLK_FREQUENCY_TABLE),
        ("GfxclkFrequency", GFXCLK_FREQUENCY),
        ("PublicSerialNumber_AID", PUBLIC_SERIAL_NUMBER_AID),
        ("PublicSerialNumber_XCD", PUBLIC_SERIAL_NUMBER_XCD),
    ];
}

/// Responses (`PPSMC_Result_*`). Zero while the message is in progress.
pub mod response {
    /// Success.
    pub const OK: u32 = 0x1;
    /// Failure.
    pub const FAILED: u32 = 0xff;
    /// Unknown message.
    pub const UNKNOWN_CMD: u32 = 0xfe;
    /// Rejected: prerequisite missing.
    pub const REJECTED_PREREQ: u32 = 0xfd;
    /// Rejected: another message is in progress.
    pub const REJECTED_BUSY: u32 = 0xfc;
    /// All responses with AMD's names.
    pub const ALL: &[(&str, u32)] = &[
        ("OK", OK),
        ("Failed", FAILED),
        ("UnknownCmd", UNKNOWN_CMD),
        ("CmdRejectedPrereq", REJECTED_PREREQ),
        ("CmdRejectedBusy", REJECTED_BUSY),
    ];
}
