// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SMU: mailbox of firmware 14.0.2 and 14.0.3 (MP1).
//!
//! Sources: `pm/swsmu/inc/pmfw_if/smu_v14_0_2_ppsmc.h` (messages), `smu14_driver_if_v14_0.h`
//! (tables, clocks), `pm/swsmu/inc/smu_v14_0_2_pptable.h`. The protocol, the numbers of the
//! mailbox's registers and the [responses](super::response) are those of 13.0.6; a second mailbox
//! takes debug messages and does not respond.

/// System management network address of the firmware flags; bit 0: interrupts are enabled, the
/// firmware runs.
pub const FLAGS_SMN: u32 = 0x03b1_0024;
/// Version of this interface (`SMU14_DRIVER_IF_VERSION_SMU_V14_0_2`).
pub const DRIVER_IF_VERSION: u32 = 0x2e;
/// Debug message: mode-1 reset (`DEBUGSMC_MSG_Mode1Reset`).
pub const DEBUG_MODE_1_RESET: u32 = 2;
/// Number of workloads (`WORKLOAD_PPLIB_COUNT`).
pub const WORKLOADS: u32 = 10;

numbers! {
    /// Messages (`PPSMC_MSG_*`).
    msg: u32 {
        /// Returns the argument + 1.
        TEST_MESSAGE "TestMessage" = 0x1,
        /// Returns the firmware version.
        GET_SMU_VERSION "GetSmuVersion" = 0x2,
        /// Returns the driver interface version.
        GET_DRIVER_IF_VERSION "GetDriverIfVersion" = 0x3,
        /// Sets the features 0 to 31 that may be enabled.
        SET_ALLOWED_FEATURES_MASK_LOW "SetAllowedFeaturesMaskLow" = 0x4,
        /// Sets the features 32 to 63 that may be enabled.
        SET_ALLOWED_FEATURES_MASK_HIGH "SetAllowedFeaturesMaskHigh" = 0x5,
        /// Enables all allowed features; the device is managed by a driver from now on.
        ENABLE_ALL_SMU_FEATURES "EnableAllSmuFeatures" = 0x6,
        /// Disables all features.
        DISABLE_ALL_SMU_FEATURES "DisableAllSmuFeatures" = 0x7,
        /// Enables features 0 to 31 by mask.
        ENABLE_SMU_FEATURES_LOW "EnableSmuFeaturesLow" = 0x8,
        /// Enables features 32 to 63 by mask.
        ENABLE_SMU_FEATURES_HIGH "EnableSmuFeaturesHigh" = 0x9,
        /// Disables features 0 to 31 by mask.
        DISABLE_SMU_FEATURES_LOW "DisableSmuFeaturesLow" = 0xa,
        /// Disables features 32 to 63 by mask.
        DISABLE_SMU_FEATURES_HIGH "DisableSmuFeaturesHigh" = 0xb,
        /// Returns enabled features 0 to 31.
        GET_RUNNING_SMU_FEATURES_LOW "GetRunningSmuFeaturesLow" = 0xc,
        /// Returns enabled features 32 to 63.
        GET_RUNNING_SMU_FEATURES_HIGH "GetRunningSmuFeaturesHigh" = 0xd,
        /// Sets bits 32 to 63 of the GPU address of the driver's table.
        SET_DRIVER_DRAM_ADDR_HIGH "SetDriverDramAddrHigh" = 0xe,
        /// Sets bits 0 to 31 of the GPU address of the driver's table.
        SET_DRIVER_DRAM_ADDR_LOW "SetDriverDramAddrLow" = 0xf,
        /// Sets bits 32 to 63 of the GPU address of the tools' table.
        SET_TOOLS_DRAM_ADDR_HIGH "SetToolsDramAddrHigh" = 0x10,
        /// Sets bits 0 to 31 of the GPU address of the tools' table.
        SET_TOOLS_DRAM_ADDR_LOW "SetToolsDramAddrLow" = 0x11,
        /// Writes a [table](super::table) to the driver's: its number in bits 0 to 15, an argument
        /// in 16 to 31.
        TRANSFER_TABLE_SMU_2_DRAM "TransferTableSmu2Dram" = 0x12,
        /// Reads a table from the driver's.
        TRANSFER_TABLE_DRAM_2_SMU "TransferTableDram2Smu" = 0x13,
        /// Sets the lower limit of a clock: [`clock`](super::clock) in bits 16 to 31, MHz in 0 to
        /// 15.
        SET_SOFT_MIN_BY_FREQ "SetSoftMinByFreq" = 0x19,
        /// Sets the upper limit of a clock; 0xffff is none.
        SET_SOFT_MAX_BY_FREQ "SetSoftMaxByFreq" = 0x1a,
        /// Returns the lowest frequency of a clock in MHz; the clock is in bits 16 to 31.
        GET_MIN_DPM_FREQ "GetMinDpmFreq" = 0x1d,
        /// Returns the highest frequency of a clock in MHz.
        GET_MAX_DPM_FREQ "GetMaxDpmFreq" = 0x1e,
        /// Returns the frequency of a level in MHz, or of level 0xff the number of levels, with bit
        /// 31 set if the frequencies between them are possible.
        GET_DPM_FREQ_BY_INDEX "GetDpmFreqByIndex" = 0x1f,
        /// Changes a level of the link: its number in bits 16 to 31, speed in 8 to 15, width in 0
        /// to 7.
        OVERRIDE_PCIE_PARAMETERS "OverridePcieParameters" = 0x20,
        /// Selects workloads by mask.
        SET_WORKLOAD_MASK "SetWorkloadMask" = 0x24,
        /// Returns the highest frequency of a clock in MHz on battery.
        GET_DC_MODE_MAX_DPM_FREQ "GetDcModeMaxDpmFreq" = 0x27,
        /// Allows the graphics core to be powered down while it is idle.
        ALLOW_GFX_OFF "AllowGfxOff" = 0x28,
        /// Powers the graphics core up, until it is allowed to be powered down again.
        DISALLOW_GFX_OFF "DisallowGfxOff" = 0x29,
        /// Announces the unload of the driver: no driver manages the device.
        PREPARE_MP1_FOR_UNLOAD "PrepareMp1ForUnload" = 0x2e,
        /// Sets the power limit in W.
        SET_PPT_LIMIT "SetPptLimit" = 0x32,
        /// Returns the power limit in W; the power source is in bits 16 to 31.
        GET_PPT_LIMIT "GetPptLimit" = 0x33,
        /// Sets the power source: 0 mains, 1 battery.
        NOTIFY_POWER_SOURCE "NotifyPowerSource" = 0x35,
        /// Calibrates the voltages at boot.
        RUN_DC_BTC "RunDcBtc" = 0x36,
        /// Allows power states of the data fabric, which the argument enables.
        SET_EXTERNAL_CLIENT_DF_CSTATE_ALLOW "SetExternalClientDfCstateAllow" = 0x3b,
        /// Allows interrupts.
        ALLOW_IH_HOST_INTERRUPT "AllowIHHostInterrupt" = 0x4d,
    }
}

numbers! {
    /// Clocks of messages (`PPCLK_e`).
    clock: u32 {
        /// Shaders.
        GFXCLK = 0,
        /// SOC.
        SOCCLK = 1,
        /// Memory.
        UCLK = 2,
        /// Data fabric.
        FCLK = 3,
        /// Video decoder.
        DCLK_0 = 4,
        /// Video decoder.
        VCLK_0 = 5,
        /// Display.
        DCFCLK = 9,
        => values {
            /// Number of clocks.
            pub const COUNT: usize = 11;
        }
    }
}

numbers! {
    /// Tables that the firmware transfers (`TABLE_*`).
    table: u32 {
        /// Limits and properties of the board.
        COMBO_PPTABLE = 1,
        /// Measurements.
        SMU_METRICS = 5,
        /// Coefficients of a workload, which is the argument.
        ACTIVITY_MONITOR_COEFF = 7,
        /// Changed limits.
        OVERDRIVE = 8,
        /// An I2C transaction.
        I2C_COMMANDS = 9,
    }
}

/// Number of features in use (`FEATURE_*_BIT` up to `FEATURE_CLOCK_STRETCH_COMPENSATOR`).
pub const FEATURES: u32 = 59;

/// Bytes of the coefficients of a workload (`DpmActivityMonitorCoeffIntExternal_t`).
pub const WORKLOAD_SIZE: usize = 0x8c;
/// Bytes of the table of changed limits (`OverDriveTableExternal_t`).
pub const OVERDRIVE_SIZE: usize = 0x9c;

numbers! {
    /// Table of the board (`struct smu_14_0_2_powerplay_table`): offsets in bytes.
    pptable: usize {
        /// Bytes of the table, 16 bits.
        STRUCTURE_SIZE "header.structuresize" = 0x0,
        /// Version of the format, a byte.
        FORMAT_REVISION "header.format_revision" = 0x2,
        /// Offset and size of the firmware's part, 16 bits each.
        PMFW_START "pmfw_pptable_start_offset" = 0x6,
        /// Temperature at which the driver powers the machine off, 16 bits.
        SOFTWARE_SHUTDOWN_TEMP "software_shutdown_temp" = 0x2b,
        /// The firmware's part.
        PMFW "smc_pptable" = 0x540,
        /// Mask of features, 64 bits.
        FEATURES_TO_RUN "smc_pptable.PFE_Settings.FeaturesToRun" = 0x544,
        /// Speed of each level of the link: 0 to 4 for generation 1 to 5, a byte each.
        PCIE_GEN_SPEED "smc_pptable.SkuTable.PcieGenSpeed" = 0x9b0,
        /// Width of each level of the link: 1 to 7 for 1 to 32 lanes, a byte each.
        PCIE_LANE_COUNT "smc_pptable.SkuTable.PcieLaneCount" = 0x9b3,
        /// Frequency of each level of the link in MHz, 16 bits each.
        LCLK_FREQ "smc_pptable.SkuTable.LclkFreq" = 0x9b6,
        /// Guaranteed shader clock in MHz, 16 bits.
        BASE_CLOCK "smc_pptable.SkuTable.DriverReportedClocks.BaseClockAc" = 0xf6c,
        /// Shader clock in games in MHz, 16 bits.
        GAME_CLOCK "smc_pptable.SkuTable.DriverReportedClocks.GameClockAc" = 0xf6e,
        /// Highest power limits by throttler and source in W, 16 bits each.
        POWER "smc_pptable.SkuTable.MsgLimits.Power" = 0xf88,
        /// Power limits on mains by throttler in W, 16 bits each.
        SOCKET_POWER_LIMIT_AC "smc_pptable.CustomSkuTable.SocketPowerLimitAc" = 0x133c,
        /// Limits of temperatures in degrees Celsius, 16 bits each.
        TEMPERATURE_LIMIT "smc_pptable.CustomSkuTable.TemperatureLimit" = 0x1350,
        => values {
            /// Value of the version (`SMU_14_0_2_TABLE_FORMAT_REVISION`).
            pub const REVISION: u8 = 23;
            /// Size of the table.
            pub const SIZE: usize = 0x16b4;
            /// Size of the firmware's part.
            pub const PMFW_SIZE: usize = 0x1174;
        }
    }
}

numbers! {
    /// Metrics table (`SmuMetricsExternal_t`): offsets in bytes. Frequencies are in MHz.
    metrics: usize {
        /// Each clock, 32 bits.
        CURR_CLOCK "CurrClock" = 0x0,
        /// Average shader clock before deep sleep, 16 bits.
        AVERAGE_GFXCLK_PRE_DS "AverageGfxclkFrequencyPreDs" = 0x2e,
        /// Average shader clock, 16 bits.
        AVERAGE_GFXCLK_POST_DS "AverageGfxclkFrequencyPostDs" = 0x30,
        /// Average memory clock before deep sleep, 16 bits.
        AVERAGE_MEMCLK_PRE_DS "AverageMemclkFrequencyPreDs" = 0x36,
        /// Average memory clock, 16 bits.
        AVERAGE_MEMCLK_POST_DS "AverageMemclkFrequencyPostDs" = 0x38,
        /// Number of samples.
        METRICS_COUNTER "MetricsCounter" = 0x68,
        /// Percentage of time in which the graphics core was busy, 16 bits.
        AVERAGE_GFX_ACTIVITY "AverageGfxActivity" = 0x7c,
        /// Power in W, 16 bits.
        AVERAGE_SOCKET_POWER "AverageSocketPower" = 0x88,
        /// Temperatures in degrees Celsius, 16 bits each.
        AVG_TEMPERATURE "AvgTemperature" = 0x8c,
        /// Speed of the link, a byte.
        PCIE_RATE "PcieRate" = 0xa6,
        /// Width of the link, a byte.
        PCIE_WIDTH "PcieWidth" = 0xa7,
        /// Serial number, 64 bits.
        PUBLIC_SERIAL_NUMBER "PublicSerialNumberLower" = 0xfc,
        => values {
            /// Size of the table.
            pub const SIZE: usize = 0x19c;
        }
    }
}
