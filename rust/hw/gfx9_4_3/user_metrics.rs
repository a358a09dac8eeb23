// SPDX-License-Identifier: GPL-2.0

//! Metrics of a card and of a partition in the format of user space (`smu_v13_0_6_gpu_metrics`,
//! `smu_v13_0_6_partition_metrics`): values of the firmware's metrics table, each preceded by its
//! description.
//!
//! The video decoders and their clocks have no values, as on a card without decoders.

use kernel::{
    prelude::*,
    time::{BootTime, ClockSource},
};
use rkfd_abi::{bits::join, smu::metrics};

use crate::asic::xcc::{Xcc, MAX_XCCS};

/// Bytes of a value, and its type (`amdgpu_metrics_attr_type`).
#[derive(Clone, Copy)]
enum Type {
    U16 = 2,
    U32 = 4,
    U64 = 6,
}

impl Type {
    const fn bytes(self) -> usize {
        match self {
            Self::U16 => 2,
            Self::U32 => 4,
            Self::U64 => 8,
        }
    }
}

/// Unit of a value (`amdgpu_metrics_attr_unit`).
#[derive(Clone, Copy)]
enum Unit {
    None = 0,
    Mhz = 1,
    Celsius = 2,
    Watt = 3,
    Nanosecond = 4,
    TenNanoseconds = 5,
    GbitPerSecond = 6,
    TenthGtPerSecond = 7,
    GbPerSecond = 8,
    Kilobyte = 9,
    Percent = 10,
}

/// Source of a value, as offsets in the metrics table.
#[derive(Clone, Copy)]
enum Source {
    Nowhere,
    /// At an offset, one after another.
    Card(usize, Firmware),
    /// The generation of the PCIe link, at an offset.
    LinkSpeed(usize),
    /// A bit for each physical XCC, at an offset.
    XccMask(usize),
    /// Not in the table: the kernel's time since boot.
    BootTime,
    /// At this offset plus the physical number of the XCC times the bytes of a value there.
    Xcc(usize, Firmware),
}

/// Firmware that has a value (`smu_v13_0_6_init_caps`).
#[derive(Clone, Copy)]
enum Firmware {
    Any,
    /// `PCIE_METRICS`.
    PcieLink,
    /// `OTHER_END_METRICS`.
    OtherEnd,
    /// `PER_INST_METRICS`.
    PerXcc,
    /// `HST_LIMIT_METRICS`.
    HostLimit,
}

impl Firmware {
    fn is(self, version: u32) -> bool {
        match self {
            Self::Any => true,
            Self::PcieLink => version >= 0x0055_6300,
            Self::OtherEnd => version >= 0x0055_7600,
            Self::PerXcc => version >= 0x0055_6f00,
            Self::HostLimit => match version >> 24 {
                0 => version >= 0x0055_7e00,
                7 => version >= 0x0755_0e00,
                _ => false,
            },
        }
    }
}

/// Values of one kind.
struct Field {
    /// Number (`amdgpu_metrics_attr_id`).
    id: u32,
    unit: Unit,
    kind: Type,
    count: usize,
    source: Source,
    /// The table has 64 bits.
    wide: bool,
    /// The table has 10 fractional bits.
    fraction: bool,
}

impl Field {
    /// Values that this driver does not have.
    const fn absent(id: u32, unit: Unit, count: usize) -> Self {
        Self::none(id, unit, Type::U16, count)
    }

    /// The same, of any type.
    const fn none(id: u32, unit: Unit, kind: Type, count: usize) -> Self {
        Self {
            id,
            unit,
            kind,
            count,
            source: Source::Nowhere,
            wide: false,
            fraction: false,
        }
    }

    /// A number without fraction, of 32 bits in the table.
    const fn number(id: u32, unit: Unit, kind: Type, source: Source) -> Self {
        Self {
            source,
            ..Self::none(id, unit, kind, 1)
        }
    }

    /// A measured value with a fraction, of 32 bits in the table.
    const fn measured(id: u32, unit: Unit, kind: Type, at: usize) -> Self {
        Self {
            fraction: true,
            ..Self::number(id, unit, kind, Source::Card(at, Firmware::Any))
        }
    }

    /// A sum of such values, of 64 bits in the table.
    const fn sum(id: u32, at: usize) -> Self {
        Self {
            wide: true,
            ..Self::measured(id, Unit::None, Type::U64, at)
        }
    }

    /// A clock of the card.
    const fn clock(id: u32, at: usize) -> Self {
        Self::measured(id, Unit::Mhz, Type::U16, at)
    }

    /// A count, of 32 bits in the table.
    const fn count(id: u32, at: usize) -> Self {
        Self::number(id, Unit::None, Type::U64, Source::Card(at, Firmware::Any))
    }

    /// A count, of 64 bits in the table.
    const fn wide(id: u32, unit: Unit, at: usize) -> Self {
        Self {
            unit,
            wide: true,
            ..Self::count(id, at)
        }
    }

    /// Values of the XCCs; those that count are of 64 bits.
    const fn xcc(id: u32, unit: Unit, kind: Type, at: usize, firmware: Firmware) -> Self {
        Self {
            id,
            unit,
            kind,
            count: MAX_XCCS,
            source: Source::Xcc(at, firmware),
            wide: matches!(kind, Type::U64),
            fraction: true,
        }
    }

    /// Samples in which the shader clock of each XCC was limited.
    const fn limit(id: u32, at: usize) -> Self {
        Self::xcc(id, Unit::None, Type::U64, at, Firmware::HostLimit)
    }

    /// Returns the description (`AMDGPU_METRICS_ENC_ATTR`).
    fn description(&self) -> u64 {
        u64::from((self.unit as u32) << 24 | (self.kind as u32) << 20 | self.id << 10)
            | self.count as u64
    }

    /// Returns value `n`; `None` if it is not known.
    fn value(
        &self,
        n: usize,
        version: u32,
        xccs: &[Xcc],
        read: &dyn Fn(usize) -> Result<u32>,
    ) -> Result<Option<u64>> {
        /// Speeds of the generations of PCIe in 0.1 GT/s (`link_speed`, `smu_cmn.c`).
        const LINK_SPEEDS: [u64; 6] = [25, 50, 80, 160, 320, 640];
        let bytes = if self.wide { 8 } else { 4 };
        let at = match self.source {
            Source::Nowhere => return Ok(None),
            Source::Card(at, firmware) if firmware.is(version) => at + n * bytes,
            Source::LinkSpeed(at) if Firmware::PcieLink.is(version) => {
                let generation = (read(at)? as usize).saturating_sub(1);
                return Ok(LINK_SPEEDS.get(generation).copied());
            }
            Source::Card(..) | Source::LinkSpeed(_) => return Ok(None),
            Source::XccMask(at) => {
                let first = xccs.first().map_or(0, |xcc| xcc.physical);
                return Ok(Some(u64::from(read(at)? >> first)));
            }
            Source::BootTime => {
                return Ok(Some(BootTime::ktime_get() as u64));
            }
            Source::Xcc(at, firmware) => match xccs.get(n) {
                Some(xcc) if firmware.is(version) => at + usize::from(xcc.physical) * bytes,
                _ => return Ok(None),
            },
        };
        let value = match self.wide {
            true => join(read(at)?, read(at + 4)?),
            false => read(at)?.into(),
        };
        Ok(Some(if self.fraction { round(value) } else { value }))
    }
}

/// Activity of XCCs and decoders.
const ACTIVITY: &[Field] = {
    use Firmware::PerXcc;
    use Type::{U32, U64};
    &[
        Field::xcc(40, Unit::Percent, U32, metrics::GFX_BUSY, PerXcc),
        Field::absent(41, Unit::Percent, 40),
        Field::absent(42, Unit::Percent, 4),
        Field::xcc(43, Unit::None, U64, metrics::GFX_BUSY_ACC, PerXcc),
        Field::limit(44, metrics::GFXCLK_BELOW_HOST_LIMIT_PPT_ACC),
        Field::limit(45, metrics::GFXCLK_BELOW_HOST_LIMIT_THM_ACC),
        Field::limit(46, metrics::GFXCLK_LOW_UTILIZATION_ACC),
        Field::limit(47, metrics::GFXCLK_BELOW_HOST_LIMIT_TOTAL_ACC),
    ]
};

/// The values of a partition, in order (`SMU_13_0_6_PARTITION_METRICS_FIELDS`,
/// `smu_v13_0_6_ppt.h`).
const PARTITION: &[&[Field]] = {
    use Firmware::PerXcc;
    use Type::U16;
    &[
        &[
            // Shader clock.
            Field::xcc(33, Unit::Mhz, U16, metrics::GFXCLK_FREQUENCY, PerXcc),
            // Clocks of decoders and of their AIDs.
            Field::absent(34, Unit::Mhz, 4),
            Field::absent(35, Unit::Mhz, 4),
            Field::absent(36, Unit::Mhz, 4),
            // Memory clock.
            Field::clock(37, metrics::UCLK_FREQUENCY),
        ],
        ACTIVITY,
        &[
            // Number of the sample, and its time.
            Field::count(9, metrics::ACCUMULATION_COUNTER),
            Field::wide(32, Unit::TenNanoseconds, metrics::TIMESTAMP),
        ],
    ]
};

/// The values of a card, in order (`SMU_13_0_6_METRICS_FIELDS`, `smu_v13_0_6_ppt.h`).
const CARD: &[&[Field]] = {
    use Firmware::{Any, OtherEnd, PcieLink};
    use Type::{U16, U32, U64};
    &[
        &[
            // Temperatures, power, activity.
            Field::measured(0, Unit::Celsius, U16, metrics::MAX_SOCKET_TEMPERATURE),
            Field::measured(1, Unit::Celsius, U16, metrics::MAX_HBM_TEMPERATURE),
            Field::measured(2, Unit::Celsius, U16, metrics::MAX_VR_TEMPERATURE),
            Field::measured(3, Unit::Watt, U16, metrics::SOCKET_POWER),
            Field::measured(4, Unit::Percent, U16, metrics::SOCKET_GFX_BUSY),
            Field::measured(5, Unit::Percent, U16, metrics::DRAM_BANDWIDTH_UTILIZATION),
            Field::measured(6, Unit::GbPerSecond, U64, metrics::MAX_DRAM_BANDWIDTH),
            Field::wide(7, Unit::None, metrics::SOCKET_ENERGY_ACC),
            Field::number(8, Unit::Nanosecond, U64, Source::BootTime),
            // Samples, and those with throttling.
            Field::count(9, metrics::ACCUMULATION_COUNTER),
            Field::count(10, metrics::PROCHOT_RESIDENCY_ACC),
            Field::count(11, metrics::PPT_RESIDENCY_ACC),
            Field::count(12, metrics::SOCKET_THM_RESIDENCY_ACC),
            Field::count(13, metrics::VR_THM_RESIDENCY_ACC),
            Field::count(14, metrics::HBM_THM_RESIDENCY_ACC),
            Field::number(
                15,
                Unit::None,
                U32,
                Source::XccMask(metrics::GFX_LOCK_XCD_MASK),
            ),
            // Links.
            Field::number(
                16,
                Unit::None,
                U16,
                Source::Card(metrics::PCIE_LINK_WIDTH, PcieLink),
            ),
            Field::number(
                17,
                Unit::TenthGtPerSecond,
                U16,
                Source::LinkSpeed(metrics::PCIE_LINK_SPEED),
            ),
            Field::number(18, Unit::None, U16, Source::Card(metrics::XGMI_WIDTH, Any)),
            Field::number(
                19,
                Unit::GbitPerSecond,
                U16,
                Source::Card(metrics::XGMI_BITRATE, Any),
            ),
            Field::sum(20, metrics::SOCKET_GFX_BUSY_ACC),
            Field::sum(21, metrics::DRAM_BANDWIDTH_UTILIZATION_ACC),
            Field::sum(22, metrics::PCIE_BANDWIDTH_ACC),
            Field::measured(23, Unit::GbPerSecond, U64, metrics::PCIE_BANDWIDTH),
            Field::count(24, metrics::PCIE_L0_TO_RECOVERY_COUNT_ACC),
            Field::count(25, metrics::PCIE_REPLAY_ACC),
            Field::count(26, metrics::PCIE_REPLAY_ROLLOVER_COUNT_ACC),
            Field::count(27, metrics::PCIE_NAK_SENT_COUNT_ACC),
            Field::count(28, metrics::PCIE_NAK_RECEIVED_COUNT_ACC),
            // xGMI links to other cards: data and state.
            Field::none(29, Unit::Kilobyte, U64, 8),
            Field::none(30, Unit::Kilobyte, U64, 8),
            Field::none(31, Unit::None, U16, 8),
            Field::wide(32, Unit::TenNanoseconds, metrics::TIMESTAMP),
            // Clocks.
            Field::xcc(33, Unit::Mhz, U16, metrics::GFXCLK_FREQUENCY, Any),
            Field {
                count: 4,
                ..Field::clock(34, metrics::SOCCLK_FREQUENCY)
            },
            Field::absent(35, Unit::Mhz, 4),
            Field::absent(36, Unit::Mhz, 4),
            Field::clock(37, metrics::UCLK_FREQUENCY),
            Field::number(
                39,
                Unit::None,
                U64,
                Source::Card(metrics::PCIE_OTHER_END_RECOVERY_ACC, OtherEnd),
            ),
        ],
        ACTIVITY,
        &[
            // Temperatures of memory stacks, AIDs and XCCs: firmware 13.0.12.
            Field::absent(48, Unit::Celsius, 8),
            Field::absent(50, Unit::Celsius, 4),
            Field::absent(51, Unit::Celsius, MAX_XCCS),
        ],
    ]
};

/// Returns a value with 10 fractional bits as an integer (`SMUQ10_ROUND`).
pub(super) fn round(value: u64) -> u64 {
    (value >> 10) + (value >> 9 & 1)
}

/// Scope of the metrics.
pub(super) enum Scope {
    Card,
    Partition,
}

/// Writes the metrics of a card or a partition with these XCCs to the spare capacity of `out`, from
/// the table of firmware of a version, of which `read` returns the dword at a byte offset. `ENOSPC`
/// if there is not enough.
pub(super) fn write(
    version: u32,
    scope: Scope,
    xccs: &[Xcc],
    read: &dyn Fn(usize) -> Result<u32>,
    out: &mut KVec<u8>,
) -> Result {
    /// Size, revisions and number of fields (`metrics_table_header`, `attr_count`).
    const HEADER: usize = 8;
    let (revision, groups) = match scope {
        Scope::Card => ([1, 9], CARD),
        Scope::Partition => ([1, 1], PARTITION),
    };
    let fields = || groups.iter().copied().flatten();
    let bytes = |field: &Field| size_of::<u64>() + field.count * field.kind.bytes();
    let size = HEADER + fields().map(bytes).sum::<usize>();
    if out.spare_capacity_mut().len() < size {
        return Err(ENOSPC);
    }
    let mut put = |bytes: &[u8]| out.extend_from_slice(bytes, GFP_KERNEL);
    put(&u16::try_from(size)?.to_le_bytes())?;
    put(&revision)?;
    put(&(fields().count() as u32).to_le_bytes())?;
    for field in fields() {
        put(&field.description().to_le_bytes())?;
        for n in 0..field.count {
            let value = field.value(n, version, xccs, read)?.unwrap_or(u64::MAX);
            put(&value.to_le_bytes()[..field.kind.bytes()])?;
        }
    }
    Ok(())
}
