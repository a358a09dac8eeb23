// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Formats of buffer elements: components in memory, and their conversion to and from registers.

use crate::float::{self, round};

/// Numeric format of the components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Unorm,
    Snorm,
    Uscaled,
    Sscaled,
    Uint,
    Sint,
    Float,
}

/// Numeric formats by `NUM_FORMAT` of gfx942; 6 is reserved.
const NUMBERS: [Option<Number>; 8] = [
    Some(Number::Unorm),
    Some(Number::Snorm),
    Some(Number::Uscaled),
    Some(Number::Sscaled),
    Some(Number::Uint),
    Some(Number::Sint),
    None,
    Some(Number::Float),
];

/// Bits of the components by `DATA_FORMAT` of gfx942, x first, which is in the lowest bits. Names
/// have them in the opposite order: 10_11_11 has 11 bits of x.
const WIDTHS: [[u8; 4]; 15] = [
    [0; 4],
    [8, 0, 0, 0],
    [16, 0, 0, 0],
    [8, 8, 0, 0],
    [32, 0, 0, 0],
    [16, 16, 0, 0],
    [11, 11, 10, 0],
    [10, 11, 11, 0],
    [2, 10, 10, 10],
    [10, 10, 10, 2],
    [8; 4],
    [32, 32, 0, 0],
    [16; 4],
    [32, 32, 32, 0],
    [32; 4],
];

/// Formats of gfx1201 in the order of their numbers, from 1 on: index in [`WIDTHS`] and numeric
/// formats as bits by index in [`NUMBERS`].
const UNIFIED: [(usize, u8); 14] = [
    (1, 0b0011_1111),
    (2, 0b1011_1111),
    (3, 0b0011_1111),
    (4, 0b1011_0000),
    (5, 0b1011_1111),
    (6, 0b1000_0000),
    (7, 0b1000_0000),
    (8, 0b0011_0011),
    (9, 0b0011_1111),
    (10, 0b0011_1111),
    (11, 0b1011_0000),
    (12, 0b1011_1111),
    (13, 0b1011_0000),
    (14, 0b1011_0000),
];

/// Format of a buffer element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Bits of the components, x first; 0 for none.
    widths: [u8; 4],
    number: Number,
}

/// Returns the highest unsigned value.
fn max(width: u8) -> u32 {
    u32::MAX >> (32 - width)
}

impl Format {
    /// INVALID: no resource is bound.
    const UNBOUND: Format = Format {
        widths: [0; 4],
        number: Number::Unorm,
    };

    /// Returns the format of `DATA_FORMAT` and `NUM_FORMAT`, `None` for a reserved one.
    pub(crate) fn gfx942(data: u32, number: u32) -> Option<Self> {
        if data == 0 {
            return Some(Self::UNBOUND);
        }
        let widths = *WIDTHS.get(data as usize)?;
        let number = (*NUMBERS.get(number as usize)?)?;
        // There are floats of 10, 11, 16 and 32 bits.
        let float = widths[0] > 8 && widths[3] != 2 && widths[0] != 2;
        (number != Number::Float || float).then_some(Format {
            // Components of 32 bits are not converted.
            number: if widths[0] == 32 && number != Number::Float && number != Number::Sint {
                Number::Uint
            } else {
                number
            },
            widths,
        })
    }

    /// Returns the format of `FORMAT`, `None` for a reserved one.
    pub(crate) fn gfx1201(format: u32) -> Option<Self> {
        if format == 0 {
            return Some(Self::UNBOUND);
        }
        let mut left = format - 1;
        for (data, numbers) in UNIFIED {
            if left < numbers.count_ones() {
                let number = (0..8)
                    .filter(|n| numbers >> n & 1 != 0)
                    .nth(left as usize)?;
                return Self::gfx942(data as u32, number);
            }
            left -= numbers.count_ones();
        }
        None
    }

    /// Returns the size of an element in bytes.
    pub(crate) fn size(self) -> usize {
        self.widths
            .iter()
            .map(|&width| usize::from(width))
            .sum::<usize>()
            / 8
    }

    /// Returns the required alignment in bytes.
    pub(crate) fn alignment(self) -> u64 {
        self.size().clamp(1, 4) as u64
    }

    /// Returns one in a register: what a component select of 1 loads.
    pub(crate) fn one(self, half: bool) -> u32 {
        match (self.number, half) {
            (Number::Uint | Number::Sint, _) => 1,
            (_, false) => 1f32.to_bits(),
            (_, true) => 0x3c00,
        }
    }

    /// Iterates over index, lowest bit and width of the components.
    fn components(self) -> impl Iterator<Item = (usize, u32, u8)> {
        let mut at = 0;
        let part = move |(n, width): (usize, u8)| {
            at += u32::from(width);
            (n, at - u32::from(width), width)
        };
        let present = self.widths.into_iter().take_while(|&width| width > 0);
        present.enumerate().map(part)
    }

    /// Returns the components of an element as 32-bit or, if `half`, 16-bit values; 0 for those it
    /// does not have.
    pub(crate) fn load(self, element: &[u8], half: bool) -> [u32; 4] {
        let bits = element
            .iter()
            .rev()
            .fold(0u128, |v, &b| v << 8 | u128::from(b));
        let mut values = [0; 4];
        for (n, at, width) in self.components() {
            let raw = (bits >> at) as u32 & max(width);
            values[n] = if half {
                self.decode_half(raw, width).into()
            } else {
                self.decode(raw, width)
            };
        }
        values
    }

    /// Writes the components, 32-bit or, if `half`, 16-bit values, to an element.
    pub(crate) fn store(self, values: [u32; 4], half: bool, element: &mut [u8]) {
        let mut bits = 0u128;
        for (n, at, width) in self.components() {
            let raw = match (half, self.number) {
                (false, _) => self.encode(values[n], width),
                (true, Number::Float) if width == 16 => values[n],
                (true, _) => self.encode(self.widen(values[n] as u16), width),
            };
            bits |= u128::from(raw & max(width)) << at;
        }
        let bytes = bits.to_le_bytes();
        element.copy_from_slice(&bytes[..element.len()]);
    }

    /// Returns the 32-bit value of a component.
    fn decode(self, raw: u32, width: u8) -> u32 {
        let signed = ((raw << (32 - width)) as i32) >> (32 - width);
        match self.number {
            Number::Uint => raw,
            Number::Sint => signed as u32,
            Number::Unorm => (raw as f32 / max(width) as f32).to_bits(),
            Number::Snorm => (signed as f32 / max(width - 1) as f32).max(-1.0).to_bits(),
            Number::Uscaled => (raw as f32).to_bits(),
            Number::Sscaled => (signed as f32).to_bits(),
            Number::Float if width == 32 => raw,
            Number::Float => float::from_f16(narrow(raw, width)).to_bits(),
        }
    }

    /// Returns the 16-bit value of a component: f32 is truncated, all other formats are rounded to
    /// nearest even.
    fn decode_half(self, raw: u32, width: u8) -> u16 {
        let signed = ((raw << (32 - width)) as i32) >> (32 - width);
        let x = match self.number {
            Number::Uint => return raw as u16,
            Number::Sint => return signed as u16,
            Number::Float if width == 32 => {
                return float::f32_to_f16(f32::from_bits(raw), round::ZERO);
            }
            Number::Float => return narrow(raw, width),
            Number::Unorm => f64::from(raw) / f64::from(max(width)),
            Number::Snorm => (f64::from(signed) / f64::from(max(width - 1))).max(-1.0),
            Number::Uscaled => f64::from(raw),
            Number::Sscaled => f64::from(signed),
        };
        float::to_f16(x, round::NEAREST)
    }

    /// Returns a 16-bit value from a register as a 32-bit one.
    fn widen(self, value: u16) -> u32 {
        match self.number {
            Number::Uint => value.into(),
            Number::Sint => i32::from(value as i16) as u32,
            _ => float::from_f16(value).to_bits(),
        }
    }

    /// Returns the component for a 32-bit value. Integers are clamped to the range of the
    /// component; normalized values are rounded to the nearest; floats are truncated, without
    /// overflow to infinity.
    fn encode(self, value: u32, width: u8) -> u32 {
        let x = f32::from_bits(value);
        let top = f64::from(max(width - 1));
        match self.number {
            Number::Uint => value.min(max(width)),
            Number::Sint => clamp(value.into(), width),
            Number::Unorm if x > 0.0 => {
                let scaled = f64::from(x.min(1.0)) * f64::from(max(width));
                scaled.round_ties_even() as u32
            }
            Number::Unorm => 0,
            Number::Snorm if x.is_nan() => 0,
            Number::Snorm => {
                let scaled = f64::from(x.clamp(-1.0, 1.0)) * top;
                scaled.round_ties_even() as i32 as u32
            }
            // Conversions saturate; NaN becomes 0.
            Number::Uscaled => (x as u32).min(max(width)),
            Number::Sscaled => clamp(i64::from(x as i32) as u64, width),
            Number::Float if width == 32 => value,
            Number::Float if width == 16 => float::f32_to_f16(x, round::ZERO).into(),
            // No sign.
            Number::Float if x < 0.0 => 0,
            Number::Float => {
                let half = float::f32_to_f16(x, round::ZERO) & 0x7fff;
                u32::from(half) >> (15 - width)
            }
        }
    }
}

/// Clamps the low half, signed, to `width` bits.
fn clamp(value: u64, width: u8) -> u32 {
    let top = max(width - 1) as i32;
    (value as u32 as i32).clamp(-top - 1, top) as u32
}

/// Returns a float of 10 or 11 bits, which has no sign, or an f16 as f16.
fn narrow(raw: u32, width: u8) -> u16 {
    match width {
        16 => raw as u16,
        _ => (raw << (15 - width)) as u16,
    }
}
