// SPDX-License-Identifier: GPL-2.0

//! Product data of a board, in the format of IPMI (`amdgpu_fru_get_product_info`).
//!
//! The contents of the EEPROM are not trusted. This file uses nothing of the kernel: `tests/abi`
//! and `tests/logic` test it.

use rkfd_abi::fru::{header, product, LENGTH_MASK, UNIT, VERSION};

/// Bytes of the start of the product area, which has its length.
pub(crate) const AREA_HEADER: usize = product::FIELDS;

/// Error in the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    Version(u8),
    Checksum(u8),
}

/// A text, cut to `N` characters.
#[derive(Clone, Copy)]
struct Line<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Line<N> {
    const EMPTY: Self = Self {
        bytes: [0; N],
        len: 0,
    };

    /// Replaces the text, which ends at the first NUL.
    fn set(&mut self, text: &[u8]) {
        self.len = 0;
        let text = text.iter().take_while(|byte| **byte != 0);
        for (to, byte) in self.bytes.iter_mut().zip(text) {
            *to = *byte;
            self.len += 1;
        }
    }

    fn get(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// The product data. Its lengths are those of `amdgpu_fru_info`, less a NUL.
pub(crate) struct Product {
    manufacturer: Line<31>,
    name: Line<63>,
    number: Line<19>,
    serial: Line<19>,
    id: Line<49>,
}

impl Product {
    /// Returns data of which only the serial number is known: that of the package.
    pub(crate) fn unknown(package: u64) -> Self {
        let mut serial = Line::EMPTY;
        let digits = package.max(1).ilog2() / 4 + 1;
        let mut text = [0u8; 16];
        for (to, n) in text.iter_mut().zip((0..digits).rev()) {
            *to = match ((package >> (4 * n)) & 0xf) as u8 {
                digit @ 0..=9 => b'0' + digit,
                digit => b'a' - 10 + digit,
            };
        }
        serial.set(&text);
        Self {
            manufacturer: Line::EMPTY,
            name: Line::EMPTY,
            number: Line::EMPTY,
            serial,
            id: Line::EMPTY,
        }
    }

    /// Replaces the fields that the product area has. Nothing changes if it is not valid.
    pub(crate) fn read(&mut self, area: &[u8]) -> Result<(), Malformed> {
        sum_is_0(area)?;
        let mut fields = Fields(area.get(product::FIELDS..).unwrap_or_default());
        // `None` at the end of the fields.
        let mut read = || {
            self.manufacturer.set(fields.next()?);
            self.name.set(fields.next()?);
            self.number.set(fields.next()?);
            let _version = fields.next()?;
            self.serial.set(fields.next()?);
            let _asset = fields.next()?;
            self.id.set(fields.next()?);
            Some(())
        };
        let _ = read();
        Ok(())
    }

    pub(crate) fn manufacturer(&self) -> &[u8] {
        self.manufacturer.get()
    }

    pub(crate) fn name(&self) -> &[u8] {
        self.name.get()
    }

    pub(crate) fn number(&self) -> &[u8] {
        self.number.get()
    }

    pub(crate) fn serial(&self) -> &[u8] {
        self.serial.get()
    }

    pub(crate) fn id(&self) -> &[u8] {
        self.id.get()
    }
}

/// The texts of the fields. As in the C driver the byte that IPMI has after the last field is the
/// length of a further one, and each type is text.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    /// Returns the next text, up to the end of the area; `None` if only its length would fit.
    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first()?;
        let length = usize::from(length & LENGTH_MASK);
        if rest.is_empty() {
            return None;
        }
        let (text, rest) = rest.split_at(length.min(rest.len()));
        self.0 = rest;
        Some(text)
    }
}

fn sum_is_0(bytes: &[u8]) -> Result<(), Malformed> {
    match bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) {
        0 => Ok(()),
        sum => Err(Malformed::Checksum(sum)),
    }
}

/// Returns the offset of the product area, `None` if there is none.
pub(crate) fn product_area(head: &[u8; header::SIZE]) -> Result<Option<u32>, Malformed> {
    if head[header::VERSION] != VERSION {
        return Err(Malformed::Version(head[header::VERSION]));
    }
    sum_is_0(head)?;
    let at = u32::from(head[header::PRODUCT]) * UNIT as u32;
    Ok((at != 0).then_some(at))
}

/// Returns the bytes of the product area.
pub(crate) fn area_bytes(start: &[u8; AREA_HEADER]) -> Result<usize, Malformed> {
    match start[product::VERSION] {
        VERSION => Ok(usize::from(start[product::LENGTH]) * UNIT),
        version => Err(Malformed::Version(version)),
    }
}
