// SPDX-License-Identifier: GPL-2.0

//! Metrics of a partition in the format of user space (`smu_v13_0_6_partition_metrics`): values of
//! the firmware's metrics table, each preceded by its description.
//!
//! The video decoders and their clocks have no values, as on a card without decoders.

use kernel::prelude::*;
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
    TenNanoseconds = 5,
    Percent = 10,
}

/// Where a value is in the metrics table.
#[derive(Clone, Copy)]
enum Source {
    Nowhere,
    /// At an offset.
    Card(usize),
    /// At this offset plus the physical number of the XCC times the bytes of a value there.
    Xcc(usize, Firmware),
}

/// Firmware that has a value of each XCC (`smu_v13_0_6_init_caps`).
#[derive(Clone, Copy)]
enum Firmware {
    /// `PER_INST_METRICS`.
    PerXcc,
    /// `HST_LIMIT_METRICS`.
    HostLimit,
}

impl Firmware {
    fn is(self, version: u32) -> bool {
        match self {
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
        Self {
            id,
            unit,
            kind: Type::U16,
            count,
            source: Source::Nowhere,
            wide: false,
            fraction: false,
        }
    }

    /// A clock of the card.
    const fn clock(id: u32, at: usize) -> Self {
        Self {
            id,
            unit: Unit::Mhz,
            kind: Type::U16,
            count: 1,
            source: Source::Card(at),
            wide: false,
            fraction: true,
        }
    }

    /// A property of the sample.
    const fn sample(id: u32, unit: Unit, at: usize, wide: bool) -> Self {
        Self {
            id,
            unit,
            kind: Type::U64,
            count: 1,
            source: Source::Card(at),
            wide,
            fraction: false,
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
        let at = match self.source {
            Source::Nowhere => return Ok(None),
            Source::Card(at) => at,
            Source::Xcc(at, firmware) => match xccs.get(n) {
                Some(xcc) if firmware.is(version) => {
                    at + usize::from(xcc.physical) * if self.wide { 8 } else { 4 }
                }
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

/// The values, in order (`SMU_13_0_6_PARTITION_METRICS_FIELDS`, `smu_v13_0_6_ppt.h`).
const FIELDS: [Field; 15] = {
    use Firmware::PerXcc;
    use Type::{U16, U32, U64};
    [
        // Shader clock.
        Field::xcc(33, Unit::Mhz, U16, metrics::GFXCLK_FREQUENCY, PerXcc),
        // Clocks of decoders and of their AIDs.
        Field::absent(34, Unit::Mhz, 4),
        Field::absent(35, Unit::Mhz, 4),
        Field::absent(36, Unit::Mhz, 4),
        // Memory clock.
        Field::clock(37, metrics::UCLK_FREQUENCY),
        // Activity of XCCs and decoders.
        Field::xcc(40, Unit::Percent, U32, metrics::GFX_BUSY, PerXcc),
        Field::absent(41, Unit::Percent, 40),
        Field::absent(42, Unit::Percent, 4),
        Field::xcc(43, Unit::None, U64, metrics::GFX_BUSY_ACC, PerXcc),
        Field::limit(44, metrics::GFXCLK_BELOW_HOST_LIMIT_PPT_ACC),
        Field::limit(45, metrics::GFXCLK_BELOW_HOST_LIMIT_THM_ACC),
        Field::limit(46, metrics::GFXCLK_LOW_UTILIZATION_ACC),
        Field::limit(47, metrics::GFXCLK_BELOW_HOST_LIMIT_TOTAL_ACC),
        // Number of the sample, and its time.
        Field::sample(9, Unit::None, metrics::ACCUMULATION_COUNTER, false),
        Field::sample(32, Unit::TenNanoseconds, metrics::TIMESTAMP, true),
    ]
};

/// Returns a value with 10 fractional bits as an integer (`SMUQ10_ROUND`).
pub(super) fn round(value: u64) -> u64 {
    (value >> 10) + (value >> 9 & 1)
}

/// Writes the metrics of a partition with these XCCs to the spare capacity of `out`, from the table
/// of firmware of a version, of which `read` returns the dword at a byte offset. `ENOSPC` if there
/// is not enough.
pub(super) fn write(
    version: u32,
    xccs: &[Xcc],
    read: &dyn Fn(usize) -> Result<u32>,
    out: &mut KVec<u8>,
) -> Result {
    /// Size, revisions and number of fields (`metrics_table_header`, `attr_count`).
    const HEADER: usize = 8;
    const REVISION: [u8; 2] = [1, 1];
    let bytes = |field: &Field| size_of::<u64>() + field.count * field.kind.bytes();
    let size = HEADER + FIELDS.iter().map(bytes).sum::<usize>();
    if out.spare_capacity_mut().len() < size {
        return Err(ENOSPC);
    }
    let mut put = |bytes: &[u8]| out.extend_from_slice(bytes, GFP_KERNEL);
    put(&u16::try_from(size)?.to_le_bytes())?;
    put(&REVISION)?;
    put(&(FIELDS.len() as u32).to_le_bytes())?;
    for field in &FIELDS {
        put(&field.description().to_le_bytes())?;
        for n in 0..field.count {
            let value = field.value(n, version, xccs, read)?.unwrap_or(u64::MAX);
            put(&value.to_le_bytes()[..field.kind.bytes()])?;
        }
    }
    Ok(())
}
