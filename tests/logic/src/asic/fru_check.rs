// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the parser of the FRU EEPROM with the contents of the model's, and with each byte of it
//! damaged. `tests/abi` checks the parser by itself.

use gpu_model::{chips::Chip, engines::smu::fru as model};
use rkfd_abi::fru::{header, product, UNIT, VERSION};

use super::fru::{area_bytes, product_area, Malformed, Product, AREA_HEADER};

/// Number of the package, in hexadecimal digits.
const PACKAGE: (u64, &[u8]) = (0xabc_0123, b"abc0123");

/// Reads the contents of an EEPROM as `gpu/product.rs` does. What follows the contents is read as
/// ones.
fn read(bytes: &[u8], product: &mut Product) -> Result<(), Malformed> {
    let at = |from: usize, len: usize| -> Vec<u8> {
        let byte = |n| bytes.get(n).copied().unwrap_or(0xff);
        (from..from + len).map(byte).collect()
    };
    let head = at(0, header::SIZE).try_into().expect("its size");
    let Some(offset) = product_area(&head)? else {
        return product.read(&[]);
    };
    let start: [u8; AREA_HEADER] = at(offset as usize, AREA_HEADER)
        .try_into()
        .expect("its size");
    product.read(&at(offset as usize, area_bytes(&start)?))
}

/// Returns manufacturer, name, number, serial number and id.
fn texts(product: &Product) -> [&[u8]; 5] {
    [
        product.manufacturer(),
        product.name(),
        product.number(),
        product.serial(),
        product.id(),
    ]
}

const NONE: [&[u8]; 5] = [b"", b"", b"", PACKAGE.1, b""];

#[test]
fn contents_of_the_model() {
    let names = Chip::all().iter().filter_map(|chip| chip.product);
    for name in names.chain(["", &"n".repeat(63)]) {
        let (bytes, _) = model::Product::new(name).image();
        let mut product = Product::unknown(PACKAGE.0);
        assert_eq!(read(&bytes, &mut product), Ok(()));
        let expected: [&[u8]; 5] = [
            b"AMD",
            name.as_bytes(),
            b"102-G30211-0C",
            b"692251001124",
            b"113-AMDG302110D03",
        ];
        assert_eq!(texts(&product), expected);
    }
}

/// Each bit of the header and of the product area, and every length of the contents. Data that are
/// not valid change nothing.
#[test]
fn damaged_contents() {
    let (whole, last) = model::Product::new("A card").image();
    let area = usize::from(whole[header::PRODUCT]) * UNIT;
    let bits = (0..header::SIZE * 8).chain(area * 8..(last + 1) * 8);
    for bit in bits {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let mut product = Product::unknown(PACKAGE.0);
        let found = read(&bytes, &mut product);
        match bit / 8 {
            at if at == header::VERSION || at == area + product::VERSION => {
                assert_eq!(found, Err(Malformed::Version(bytes[at])));
            }
            at => {
                let Err(Malformed::Checksum(sum)) = found else {
                    panic!("byte {at}: {found:?}");
                };
                // Another length is that of other bytes.
                if at != area + product::LENGTH {
                    let by = bytes[at].wrapping_sub(whole[at]);
                    assert_eq!(sum, by, "byte {at}");
                }
            }
        }
        assert_eq!(texts(&product), NONE);
    }
    for len in 0..=last {
        let mut product = Product::unknown(PACKAGE.0);
        let found = read(&whole[..len], &mut product);
        if len <= area + product::LENGTH {
            assert!(found.is_err(), "{len}");
            assert_eq!(texts(&product), NONE);
            continue;
        }
        // The ones at the end add up to the bytes that they replace, or do not.
        let lost = &whole[len..=last];
        let by = lost.iter().fold(0u8, |sum, b| sum.wrapping_add(!b));
        let expected = if by == 0 {
            Ok(())
        } else {
            Err(Malformed::Checksum(by))
        };
        assert_eq!(found, expected, "{len}");
        if found.is_err() {
            assert_eq!(texts(&product), NONE);
        }
    }
}

/// Areas that end before the serial number.
#[test]
fn areas_without_fields() {
    for area in [&[][..], &[0; 2], &[VERSION, 0, 0xff], &[0; 8]] {
        let mut product = Product::unknown(PACKAGE.0);
        assert_eq!(product.read(area), Ok(()));
        assert_eq!(texts(&product), NONE);
    }
}
