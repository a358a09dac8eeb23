// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Contents of the FRU EEPROM of a board: a board area and a product area in the format of IPMI.

use rkfd_abi::fru::{header, product, LENGTH_MASK, UNIT, VERSION};

/// Bytes of the EEPROM, all at one I2C address.
pub const SIZE: usize = 64 << 10;
/// Type of a field: 8-bit text.
const TEXT: u8 = 0xc0;
/// Byte after the last field.
const END: u8 = 0xc1;
/// Minutes since 1996 when the board was manufactured.
const MANUFACTURED: u32 = 14_200_000;

/// Texts of the product area.
#[derive(Clone, Debug)]
pub struct Product {
    /// Manufacturer, name, part number, version, serial number, asset tag, file id.
    fields: [String; 7],
}

/// Names of the fields on the command line.
const NAMES: [&str; 7] = [
    "manufacturer",
    "name",
    "number",
    "version",
    "serial",
    "asset",
    "id",
];

impl Product {
    /// Returns the data of a board with this product name.
    pub fn new(name: &str) -> Self {
        let fields = [
            "AMD",
            name,
            "102-G30211-0C",
            "V1.0",
            "692251001124",
            "",
            "113-AMDG302110D03",
        ];
        Self {
            fields: fields.map(String::from),
        }
    }

    /// Sets a field by `FIELD=TEXT`. Returns why it is not valid.
    pub fn set(&mut self, setting: &str) -> Result<(), &'static str> {
        let (name, text) = setting.split_once('=').ok_or("not FIELD=TEXT")?;
        let field = NAMES.iter().position(|known| *known == name);
        let field = field.ok_or("no such field")?;
        if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err("not a text");
        }
        // The byte before a text of one character would be that of the end.
        if text.len() == 1 || text.len() > usize::from(LENGTH_MASK) {
            return Err("not 0 or 2 to 63 characters");
        }
        self.fields[field] = text.into();
        Ok(())
    }

    /// Returns the contents of the EEPROM, and the offset of the checksum of the product area.
    pub fn image(&self) -> (Vec<u8>, usize) {
        let [maker, name, number, _, serial, _, id] = &self.fields;
        let board = area(
            &MANUFACTURED.to_le_bytes()[..3],
            &[maker, name, serial, number, id].map(String::as_str),
        );
        let fields: Vec<&str> = self.fields.iter().map(String::as_str).collect();
        let product = area(&[], &fields);
        let mut head = [0; header::SIZE];
        head[header::VERSION] = VERSION;
        head[header::BOARD] = (header::SIZE / UNIT) as u8;
        head[header::PRODUCT] = ((header::SIZE + board.len()) / UNIT) as u8;
        head[header::CHECKSUM] = negative_sum(&head);
        let mut bytes = [&head[..], &board, &product].concat();
        let end = bytes.len();
        bytes.resize(SIZE, 0xff);
        (bytes, end - 1)
    }
}

/// Returns an area: version, length, language (English), `more`, fields, checksum.
fn area(more: &[u8], fields: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0; product::FIELDS];
    bytes[product::VERSION] = VERSION;
    bytes.extend(more);
    for field in fields {
        bytes.push(TEXT | field.len() as u8);
        bytes.extend(field.as_bytes());
    }
    bytes.push(END);
    bytes.resize((bytes.len() + 1).next_multiple_of(UNIT) - 1, 0);
    bytes[product::LENGTH] = ((bytes.len() + 1) / UNIT) as u8;
    bytes.push(negative_sum(&bytes));
    bytes
}

/// Returns the byte that makes the sum 0.
fn negative_sum(bytes: &[u8]) -> u8 {
    bytes
        .iter()
        .fold(0u8, |sum, b| sum.wrapping_add(*b))
        .wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_follow_each_other_and_add_up_to_0() {
        let mut product = Product::new("A card");
        product.set("serial=123456789012345678901234").unwrap();
        let (bytes, end) = product.image();
        let sum = |range: std::ops::Range<usize>| {
            bytes[range].iter().fold(0u8, |sum, b| sum.wrapping_add(*b))
        };
        let at = usize::from(bytes[header::PRODUCT]) * UNIT;
        let board = usize::from(bytes[header::BOARD]) * UNIT;
        assert_eq!(board + usize::from(bytes[board + 1]) * UNIT, at);
        assert_eq!(at + usize::from(bytes[at + 1]) * UNIT, end + 1);
        assert_eq!([sum(0..board), sum(board..at), sum(at..end + 1)], [0; 3]);
        assert_eq!(&bytes[at + 3..at + 14], b"\xc3AMD\xc6A card");
    }

    #[test]
    fn settings_that_no_eeprom_holds_are_refused() {
        let mut product = Product::new("A card");
        let long = format!("name={}", "x".repeat(64));
        for setting in ["name", "colour=red", "name=x", "name=\u{e9}\u{e9}", &long] {
            assert!(product.set(setting).is_err(), "{setting}");
        }
        assert!(product.set(&long[..68]).is_ok() && product.set("asset=").is_ok());
    }
}
