// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SMU (system management unit): mailbox of firmware 13.0.6 (MP1); [`v14`] is that of 14.0.2.
//!
//! Sources: `pm/swsmu/inc/pmfw_if/smu_v13_0_6_ppsmc.h` (messages, responses),
//! `smu_v13_0_6_pmfw.h` (metrics table, clocks),
//! `pm/swsmu/smu13/smu_v13_0.c` (registers). The driver clears [`RESPONSE`], writes [`ARGUMENT`],
//! then [`MESSAGE`]. The message is complete when [`RESPONSE`] is nonzero; [`ARGUMENT`] then holds
//! its return value, if any.

use crate::regs::{mp_13_0_6 as regs, name, Reg};

pub mod v14;

/// Message register; a write starts the message.
pub const MESSAGE: Reg<name::MP1_SMN_C2PMSG_66> = regs::regMP1_SMN_C2PMSG_66;
/// Register of the argument and the return value.
pub const ARGUMENT: Reg<name::MP1_SMN_C2PMSG_82> = regs::regMP1_SMN_C2PMSG_82;
/// Response register.
pub const RESPONSE: Reg<name::MP1_SMN_C2PMSG_90> = regs::regMP1_SMN_C2PMSG_90;

numbers! {
    /// Messages (`PPSMC_MSG_*`).
    msg: u32 {
        /// Returns the argument + 1.
        TEST_MESSAGE "TestMessage" = 0x1,
        /// Returns the firmware version.
        GET_SMU_VERSION "GetSmuVersion" = 0x2,
        /// Resets the GPU; the argument is the reset mode.
        GFX_DRIVER_RESET "GfxDriverReset" = 0x3,
        /// Returns the driver interface version.
        GET_DRIVER_IF_VERSION "GetDriverIfVersion" = 0x4,
        /// Enables all features; the device is managed by a driver from now on.
        ENABLE_ALL_SMU_FEATURES "EnableAllSmuFeatures" = 0x5,
        /// Disables all features.
        DISABLE_ALL_SMU_FEATURES "DisableAllSmuFeatures" = 0x6,
        /// Executes the I2C transaction in the driver's table.
        REQUEST_I2C_TRANSACTION "RequestI2cTransaction" = 0x7,
        /// Returns the version of the metrics table.
        GET_METRICS_VERSION "GetMetricsVersion" = 0x8,
        /// Writes [`metrics`](super::metrics) to the driver's table.
        GET_METRICS_TABLE "GetMetricsTable" = 0x9,
        /// Returns enabled features 0 to 31.
        GET_ENABLED_SMU_FEATURES_LOW "GetEnabledSmuFeaturesLow" = 0xb,
        /// Returns enabled features 32 to 63.
        GET_ENABLED_SMU_FEATURES_HIGH "GetEnabledSmuFeaturesHigh" = 0xc,
        /// Sets bits 32 to 63 of the GPU address of the driver's table.
        SET_DRIVER_DRAM_ADDR_HIGH "SetDriverDramAddrHigh" = 0xd,
        /// Sets bits 0 to 31 of the GPU address of the driver's table.
        SET_DRIVER_DRAM_ADDR_LOW "SetDriverDramAddrLow" = 0xe,
        /// Sets bits 32 to 63 of the GPU address of the tools' table.
        SET_TOOLS_DRAM_ADDR_HIGH "SetToolsDramAddrHigh" = 0xf,
        /// Sets bits 0 to 31 of the GPU address of the tools' table.
        SET_TOOLS_DRAM_ADDR_LOW "SetToolsDramAddrLow" = 0x10,
        /// Sets the lower limit of a clock: [`clock`](super::clock) in bits 16 to 31, MHz in 0 to
        /// 15.
        SET_SOFT_MIN_BY_FREQ "SetSoftMinByFreq" = 0x13,
        /// Sets the upper limit of a clock: the argument is that of `SET_SOFT_MIN_BY_FREQ`.
        SET_SOFT_MAX_BY_FREQ "SetSoftMaxByFreq" = 0x14,
        /// Returns the lowest frequency of a clock in MHz; the clock is in bits 16 to 31.
        GET_MIN_DPM_FREQ "GetMinDpmFreq" = 0x15,
        /// Returns the highest frequency of a clock in MHz.
        GET_MAX_DPM_FREQ "GetMaxDpmFreq" = 0x16,
        /// Returns the frequency of a level in MHz, or of level 0xff the index of the last one.
        GET_DPM_FREQ_BY_INDEX "GetDpmFreqByIndex" = 0x17,
        /// Sets the power limit of the socket in W.
        SET_PPT_LIMIT "SetPptLimit" = 0x18,
        /// Returns the power limit of the socket in W.
        GET_PPT_LIMIT "GetPptLimit" = 0x19,
        /// Sets the number of records of bad pages, for other readers on the SMU's bus.
        SET_NUM_BAD_HBM_PAGES_RETIRED "SetNumBadHbmPagesRetired" = 0x1f,
        /// Forbids (0) or allows (1) power-down of single xGMI links.
        GMI_PWR_DN_CONTROL "GmiPwrDnControl" = 0x23,
        /// Enables determinism: keeps the shader clock at or below the argument in MHz, so that
        /// runs are repeatable.
        ENABLE_DETERMINISM "EnableDeterminism" = 0x26,
        /// Disables determinism.
        DISABLE_DETERMINISM "DisableDeterminism" = 0x27,
        /// Sets the lower limit of the shader clock in MHz.
        SET_SOFT_MIN_GFX_CLK "SetSoftMinGfxClk" = 0x30,
        /// Sets the upper limit of the shader clock in MHz.
        SET_SOFT_MAX_GFX_CLK "SetSoftMaxGfxClk" = 0x31,
        /// Returns the lowest frequency of the shader clock in MHz.
        GET_MIN_GFX_DPM_FREQ "GetMinGfxDpmFreq" = 0x32,
        /// Returns the highest frequency of the shader clock in MHz.
        GET_MAX_GFX_DPM_FREQ "GetMaxGfxDpmFreq" = 0x33,
        /// Announces the unload of the driver: no driver manages the device.
        PREPARE_FOR_DRIVER_UNLOAD "PrepareForDriverUnload" = 0x34,
        /// Returns the temperature in degrees Celsius at which a [`throttled`](super::throttled)
        /// part is throttled.
        READ_THROTTLER_LIMIT "ReadThrottlerLimit" = 0x35,
        /// Returns the number of uncorrected errors in the error banks.
        QUERY_VALID_MCA_COUNT "QueryValidMcaCount" = 0x36,
        /// Returns the critical temperature of a [`part`](super::part) in degrees Celsius.
        GET_CTF_LIMIT "GetCTFLimit" = 0x38,
        /// Sets which error banks a read clears: 1 uncorrected errors, 2 corrected ones.
        CLEAR_MCA_ON_READ "ClearMcaOnRead" = 0x39,
        /// Returns the number of corrected and deferred errors in the error banks.
        QUERY_VALID_MCA_CE_COUNT "QueryValidMcaCeCount" = 0x3a,
        /// Selects the power-down mode of xGMI links, one of [`plpd`](super::plpd).
        SELECT_PLPD_MODE "SelectPLPDMode" = 0x40,
        /// Selects the policy of SOC power states.
        SET_THROTTLING_POLICY "SetThrottlingPolicy" = 0x44,
        /// Resets SDMA engines; bit n of the argument is physical engine n of the package.
        RESET_SDMA "ResetSDMA" = 0x4d,
    }
}

numbers! {
    /// Power-down modes of single xGMI links (`PPSMC_PLPD_MODE_*`).
    plpd: u32 {
        /// The default of the firmware.
        DEFAULT = 1,
        /// The mode that saves more power.
        OPTIMIZED = 2,
    }
}

numbers! {
    /// Clocks of messages (`PPCLK_e`).
    clock: u32 {
        /// Video decoder.
        VCLK = 0,
        /// Video decoder.
        DCLK = 1,
        /// SOC.
        SOCCLK = 2,
        /// Memory.
        UCLK = 3,
        /// Data fabric.
        FCLK = 4,
        /// PCIe.
        LCLK = 5,
    }
}

numbers! {
    /// Parts that are throttled (`PPSMC_THROTTLING_LIMIT_TYPE_*`).
    throttled: u32 {
        /// Socket.
        SOCKET = 1,
        /// Memory.
        HBM = 2,
    }
}

numbers! {
    /// Parts with a critical temperature (`PPSMC_*_THM_TYPE`).
    part: u32 {
        /// I/O die.
        AID = 1,
        /// Compute die.
        XCD = 3,
        /// Memory.
        HBM = 4,
    }
}

/// Interrupts of the firmware: client MP1, source [`crate::ih::source::SMU_TO_DRIVER`].
pub mod interrupt {
    /// Context word 0: the firmware throttles; word 1 has the reasons
    /// (`IH_INTERRUPT_CONTEXT_ID_THERMAL_THROTTLING`).
    pub const THROTTLING: u32 = 7;
    /// Reasons (`THROTTLER_*_BIT`): PROCHOT, power, temperature of the socket, of the voltage
    /// regulators, of the memory.
    pub const REASONS: u32 = 5;
    /// Bit of each reason on all ASICs (`SMU_THROTTLER_*_BIT`, `amdgpu_smu.h`;
    /// `smu_v13_0_6_throttler_map`).
    pub const COMMON_BITS: [u32; REASONS as usize] = [47, 0, 32, 38, 34];
}

/// I2C transaction in the driver's table (`SwI2cRequest_t`): offsets in bytes. A command is a byte
/// of data, written or read, and its flags.
pub mod i2c {
    /// Bytes.
    pub const SIZE: usize = COMMANDS + 2 * COMMANDS_MAX;
    /// Controller.
    pub const PORT: usize = 0;
    /// Speed.
    pub const SPEED: usize = 1;
    /// Address of the device: bits 1 to 7.
    pub const ADDRESS: usize = 2;
    /// Number of commands.
    pub const COUNT: usize = 3;
    /// Commands.
    pub const COMMANDS: usize = 4;
    /// Most commands (`MAX_SW_I2C_COMMANDS`).
    pub const COMMANDS_MAX: usize = 24;
    /// Speed of 400 kbit/s (`I2C_SPEED_FAST_400K`).
    pub const FAST_400K: u8 = 2;
    /// Flag: STOP follows (`CMDCONFIG_STOP_MASK`).
    pub const STOP: u8 = 1;
    /// Flag: a repeated START precedes (`CMDCONFIG_RESTART_MASK`).
    pub const RESTART: u8 = 2;
    /// Flag: a write (`CMDCONFIG_READWRITE_MASK`).
    pub const WRITE: u8 = 4;
}

/// Number of features (`NUM_FEATURES`, `FEATURE_LIST_e`).
pub const FEATURES: u32 = 46;

numbers! {
    /// Features, most of which change a clock (`FEATURE_LIST_e`).
    feature: u32 {
        /// Fabric clock.
        DPM_FCLK = 2,
        /// Shader clock.
        DPM_GFXCLK = 3,
        /// SOC clock.
        DPM_SOCCLK = 5,
        /// Memory clock.
        DPM_UCLK = 6,
        /// Clocks of the video decoder.
        DPM_VCN = 7,
        /// Power-down of single xGMI links; changes no clock.
        XGMI_PER_LINK_PWR_DOWN = 40,
    }
}

numbers! {
    /// Metrics table (`MetricsTableV0_t`, packed): offsets in bytes. Frequencies (MHz), power (W)
    /// and temperatures (degrees Celsius) have 10 fractional bits.
    metrics: usize {
        /// Number of samples; zero before the first one.
        ACCUMULATION_COUNTER "AccumulationCounter" = 0x0,
        /// Temperature of the socket.
        MAX_SOCKET_TEMPERATURE "MaxSocketTemperature" = 0x4,
        /// Temperature of the voltage regulators.
        MAX_VR_TEMPERATURE "MaxVrTemperature" = 0x8,
        /// Temperature of the memory.
        MAX_HBM_TEMPERATURE "MaxHbmTemperature" = 0xc,
        /// Power limit.
        SOCKET_POWER_LIMIT "SocketPowerLimit" = 0x28,
        /// Maximum of the power limit.
        MAX_SOCKET_POWER_LIMIT "MaxSocketPowerLimit" = 0x2c,
        /// Power.
        SOCKET_POWER "SocketPower" = 0x30,
        /// Time of the sample in 10 ns, 64 bits.
        TIMESTAMP "Timestamp" = 0x34,
        /// Energy of the socket in 2^-16 J, 64 bits.
        SOCKET_ENERGY_ACC "SocketEnergyAcc" = 0x3c,
        /// Upper limit of the shader clock.
        GFXCLK_FREQUENCY_LIMIT "GfxclkFrequencyLimit" = 0x68,
        /// Fabric clock.
        FCLK_FREQUENCY "FclkFrequency" = 0x6c,
        /// Memory clock.
        UCLK_FREQUENCY "UclkFrequency" = 0x70,
        /// SOC clock of each AID.
        SOCCLK_FREQUENCY "SocclkFrequency" = 0x74,
        /// Video clock of each AID.
        VCLK_FREQUENCY "VclkFrequency" = 0x84,
        /// Video clock of each AID.
        DCLK_FREQUENCY "DclkFrequency" = 0x94,
        /// PCIe clock of each AID.
        LCLK_FREQUENCY "LclkFrequency" = 0xa4,
        /// Highest shader clock.
        MAX_GFXCLK_FREQUENCY "MaxGfxclkFrequency" = 0x3fc,
        /// Lowest shader clock.
        MIN_GFXCLK_FREQUENCY "MinGfxclkFrequency" = 0x400,
        /// Levels of the fabric clock.
        FCLK_FREQUENCY_TABLE "FclkFrequencyTable" = 0x404,
        /// Levels of the memory clock.
        UCLK_FREQUENCY_TABLE "UclkFrequencyTable" = 0x414,
        /// Levels of the SOC clock.
        SOCCLK_FREQUENCY_TABLE "SocclkFrequencyTable" = 0x424,
        /// Levels of the video clock.
        VCLK_FREQUENCY_TABLE "VclkFrequencyTable" = 0x434,
        /// Levels of the video clock.
        DCLK_FREQUENCY_TABLE "DclkFrequencyTable" = 0x444,
        /// Levels of the PCIe clock.
        LCLK_FREQUENCY_TABLE "LclkFrequencyTable" = 0x454,
        /// Lanes of an xGMI link.
        XGMI_WIDTH "XgmiWidth" = 0x46c,
        /// Gbit/s of a lane.
        XGMI_BITRATE "XgmiBitrate" = 0x470,
        /// Percentage of time in which the graphics cores were busy.
        SOCKET_GFX_BUSY "SocketGfxBusy" = 0x4f8,
        /// Percentage of the memory bandwidth in use.
        DRAM_BANDWIDTH_UTILIZATION "DramBandwidthUtilization" = 0x4fc,
        /// Sum of `SocketGfxBusy` over all samples, 64 bits.
        SOCKET_GFX_BUSY_ACC "SocketGfxBusyAcc" = 0x508,
        /// Memory bandwidth in GB/s.
        MAX_DRAM_BANDWIDTH "MaxDramBandwidth" = 0x518,
        /// Sum of `DramBandwidthUtilization` over all samples, 64 bits.
        DRAM_BANDWIDTH_UTILIZATION_ACC "DramBandwidthUtilizationAcc" = 0x51c,
        /// PCIe bandwidth of each AID, sum over all samples, 64 bits.
        PCIE_BANDWIDTH_ACC "PcieBandwidthAcc" = 0x524,
        /// Samples in which the card was throttled: by PROCHOT,
        PROCHOT_RESIDENCY_ACC "ProchotResidencyAcc" = 0x544,
        /// by power,
        PPT_RESIDENCY_ACC "PptResidencyAcc" = 0x548,
        /// by the temperature of the socket,
        SOCKET_THM_RESIDENCY_ACC "SocketThmResidencyAcc" = 0x54c,
        /// of the voltage regulators,
        VR_THM_RESIDENCY_ACC "VrThmResidencyAcc" = 0x550,
        /// of the memory.
        HBM_THM_RESIDENCY_ACC "HbmThmResidencyAcc" = 0x554,
        /// XCDs with a locked shader clock, one bit each.
        GFX_LOCK_XCD_MASK "GfxLockXCDMak" = 0x558,
        /// Shader clock of each XCD.
        GFXCLK_FREQUENCY "GfxclkFrequency" = 0x55c,
        /// Serial number of each AID, 64 bits.
        PUBLIC_SERIAL_NUMBER_AID "PublicSerialNumber_AID" = 0x57c,
        /// Serial number of each XCD, 64 bits.
        PUBLIC_SERIAL_NUMBER_XCD "PublicSerialNumber_XCD" = 0x59c,
        /// PCIe bandwidth of each AID.
        PCIE_BANDWIDTH "PcieBandwidth" = 0x6bc,
        /// Transitions of the PCIe link from L0 to recovery.
        PCIE_L0_TO_RECOVERY_COUNT_ACC "PCIeL0ToRecoveryCountAcc" = 0x6cc,
        /// Replays.
        PCIE_REPLAY_ACC "PCIenReplayAAcc" = 0x6d0,
        /// Rollovers of the number of replays.
        PCIE_REPLAY_ROLLOVER_COUNT_ACC "PCIenReplayARolloverCountAcc" = 0x6d4,
        /// NAKs sent.
        PCIE_NAK_SENT_COUNT_ACC "PCIeNAKSentCountAcc" = 0x6d8,
        /// NAKs received.
        PCIE_NAK_RECEIVED_COUNT_ACC "PCIeNAKReceivedCountAcc" = 0x6dc,
        /// Generation of the PCIe link.
        PCIE_LINK_SPEED "PCIeLinkSpeed" = 0x770,
        /// Lanes of the PCIe link.
        PCIE_LINK_WIDTH "PCIeLinkWidth" = 0x774,
        /// Percentage of time in which each XCD was busy.
        GFX_BUSY "GfxBusy" = 0x778,
        /// Sum of these over all samples, 64 bits.
        GFX_BUSY_ACC "GfxBusyAcc" = 0x798,
        /// Recoveries that the other end of the PCIe link initiated.
        PCIE_OTHER_END_RECOVERY_ACC "PCIeOtherEndRecoveryAcc" = 0x7d8,
        /// Samples in which each XCD was below the host's clock limit, 64 bits: by power,
        GFXCLK_BELOW_HOST_LIMIT_PPT_ACC "GfxclkBelowHostLimitPptAcc" = 0x7dc,
        /// by temperature,
        GFXCLK_BELOW_HOST_LIMIT_THM_ACC "GfxclkBelowHostLimitThmAcc" = 0x81c,
        /// by any reason,
        GFXCLK_BELOW_HOST_LIMIT_TOTAL_ACC "GfxclkBelowHostLimitTotalAcc" = 0x85c,
        /// by low utilization.
        GFXCLK_LOW_UTILIZATION_ACC "GfxclkLowUtilizationAcc" = 0x89c,
        => values {
            /// Version in the `SMU_METRICS_TABLE_VERSION` of the header.
            pub const VERSION: u32 = 0x11;
            /// Size of the table.
            pub const SIZE: usize = 2268;
        }
    }
}

numbers! {
    /// Responses (`PPSMC_Result_*`). Zero while the message is in progress.
    response: u32 {
        /// Success.
        OK = 0x1,
        /// Failure.
        FAILED "Failed" = 0xff,
        /// Unknown message.
        UNKNOWN_CMD "UnknownCmd" = 0xfe,
        /// Rejected: prerequisite missing.
        REJECTED_PREREQ "CmdRejectedPrereq" = 0xfd,
        /// Rejected: another message is in progress.
        REJECTED_BUSY "CmdRejectedBusy" = 0xfc,
    }
}
