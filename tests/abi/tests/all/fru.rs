// SPDX-License-Identifier: GPL-2.0 OR MIT

//! FRU EEPROM: its address, and the module's parser of its contents, which are not trusted.

use rkfd_abi::fru::{header, product, FRU_AT, LENGTH_MASK, UNIT, VERSION};
use rkfd_abi_oracle::csource::{block, defines};
use rkfd_abi_oracle::{amd_text, fact, same, Program};

#[path = "../../../../rust/asic/fru.rs"]
mod module;

use module::{area_bytes, product_area, Malformed, Product, AREA_HEADER};

const PACKAGE: u64 = 0x5fd0_3a7c_91e2_4000;

#[test]
fn eeprom_with_product_data() {
    let code = amd_text("amdgpu/amdgpu_fru_eeprom.c");
    let header = amd_text("amdgpu/amdgpu_fru_eeprom.h");
    let length = |name: &str, line: usize, field: usize| {
        let size = format!("sizeof(((struct amdgpu_fru_info *)0)->{name}) - 1");
        fact(name, kept(line, field), size)
    };
    Program::new()
        .text(&defines(&code, |n| n.starts_with("FRU_")))
        .text(&defines(&header, |n| n == "AMDGPU_PRODUCT_NAME_LEN"))
        .text(&block(&header, "struct amdgpu_fru_info {", "};"))
        .facts([
            same("FRU_EEPROM_MADDR_8", FRU_AT),
            length("manufacturer_name", 0, 0),
            length("product_name", 1, 1),
            length("product_number", 2, 2),
            length("serial", 3, 4),
            length("fru_id", 4, 6),
        ])
        .check();
}

/// Returns how many characters of a field the module keeps.
fn kept(line: usize, field: usize) -> usize {
    let mut texts = [""; 7];
    let long = "x".repeat(63);
    texts[field] = &long;
    lines(&read(&area(&texts)).unwrap())[line].len()
}

/// Returns manufacturer, name, number, serial number and file id.
fn lines(product: &Product) -> [&[u8]; 5] {
    [
        product.manufacturer(),
        product.name(),
        product.number(),
        product.serial(),
        product.id(),
    ]
}

fn read(area: &[u8]) -> Result<Product, Malformed> {
    let mut product = Product::unknown(PACKAGE);
    product.read(area).map(|()| product)
}

/// Makes the bytes add up to 0 by the last one.
fn close(bytes: &mut [u8]) {
    let (last, others) = bytes.split_last_mut().unwrap();
    *last = others.iter().fold(0u8, |sum, b| sum.wrapping_sub(*b));
}

fn area(texts: &[&str]) -> Vec<u8> {
    let mut bytes = vec![VERSION, 0, 0];
    for text in texts {
        bytes.push(0xc0 | text.len() as u8);
        bytes.extend(text.as_bytes());
    }
    bytes.push(0xc1);
    bytes.resize((bytes.len() + 1).next_multiple_of(UNIT), 0);
    bytes[product::LENGTH] = (bytes.len() / UNIT) as u8;
    close(&mut bytes);
    bytes
}

#[test]
fn fields_of_a_valid_area() {
    let texts = ["AMD", "A card", "102-X", "V1", "12345", "", "113-X"];
    let bytes = area(&texts);
    let start: [u8; AREA_HEADER] = bytes[..AREA_HEADER].try_into().unwrap();
    assert_eq!(area_bytes(&start), Ok(bytes.len()));
    let product = read(&bytes).unwrap();
    let wanted = ["AMD", "A card", "102-X", "12345", "113-X"];
    assert_eq!(lines(&product), wanted.map(str::as_bytes));
    // A text ends at a NUL.
    let product = read(&area(&["AM\0D", "", "", "", "", "", ""])).unwrap();
    assert_eq!(lines(&product), [&b"AM"[..], b"", b"", b"", b""]);
}

#[test]
fn package_number_without_a_serial_number() {
    let number = |package| Product::unknown(package).serial().to_vec();
    for package in [0, 1, 0xf, 0x10, PACKAGE, u64::MAX] {
        assert_eq!(number(package), format!("{package:x}").into_bytes());
    }
    assert_eq!(
        read(&[]).unwrap().serial(),
        format!("{PACKAGE:x}").as_bytes()
    );
}

#[test]
fn header_that_is_not_valid() {
    let mut head = [1u8, 0, 0, 1, 12, 0, 0, 0];
    close(&mut head);
    assert_eq!(product_area(&head), Ok(Some(12 * UNIT as u32)));
    for bit in 0..header::SIZE * 8 {
        let mut other = head;
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(product_area(&other).is_err(), "bit {bit}");
    }
    head[header::PRODUCT] = 0;
    close(&mut head);
    assert_eq!(product_area(&head), Ok(None));
    assert_eq!(product_area(&[0xff; 8]), Err(Malformed::Version(0xff)));
    assert_eq!(area_bytes(&[2, 8, 0]), Err(Malformed::Version(2)));
    assert_eq!(area_bytes(&[1, 255, 0]), Ok(2040));
}

#[test]
fn area_that_ends_early() {
    let whole = area(&["AMD", "A card", "102-X", "V1", "12345", "tag", "113-X"]);
    for len in 1..whole.len() {
        let mut bytes = whole[..len].to_vec();
        close(&mut bytes);
        let product = read(&bytes).unwrap();
        // The last byte is a checksum in place of a character, or of a length.
        let text = &bytes[..len];
        for line in lines(&product) {
            let package = line == format!("{PACKAGE:x}").as_bytes();
            let inside = line.is_empty() || text.windows(line.len()).any(|part| part == line);
            assert!(package || inside, "{len}: {line:?}");
        }
        let serial = product.serial() == format!("{PACKAGE:x}").as_bytes();
        // Of the serial number the length and one byte.
        assert_eq!(serial, len < 3 + 4 + 7 + 6 + 3 + 2, "{len}");
    }
}

/// Reads a field as `amdgpu_fru_get_product_info` walks: the offset of the length, then that of the
/// text, each below the end.
fn walk(bytes: &[u8], field: usize) -> Option<Vec<u8>> {
    let mut at = product::FIELDS;
    for _ in 0..field {
        at += 1 + usize::from(*bytes.get(at)? & LENGTH_MASK);
    }
    bytes.get(at + 1)?;
    let end = bytes
        .len()
        .min(at + 1 + usize::from(bytes[at] & LENGTH_MASK));
    let text = bytes[at + 1..end].iter().copied();
    Some(text.take_while(|byte| *byte != 0).collect())
}

#[test]
fn random_contents() {
    let mut state = 1u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize
    };
    for _ in 0..50_000 {
        let mut bytes = vec![0u8; random() % 160 + 1];
        // Short fields, so that several fit.
        let mask = [0xff, 0x1f, 0x07][random() % 3];
        bytes.fill_with(|| (random() & mask) as u8);
        assert_eq!(
            read(&bytes).is_ok(),
            bytes.iter().fold(0u8, |sum, b| sum.wrapping_add(*b)) == 0
        );
        close(&mut bytes);
        let product = read(&bytes).unwrap();
        let kept = [(0, 31), (1, 63), (2, 19), (4, 19), (6, 49)];
        for (line, (field, kept)) in lines(&product).into_iter().zip(kept) {
            let unknown = if field == 4 {
                format!("{PACKAGE:x}")
            } else {
                String::new()
            };
            let mut wanted = walk(&bytes, field).unwrap_or(unknown.into_bytes());
            wanted.truncate(kept);
            assert_eq!(line, wanted, "field {field} of {bytes:x?}");
        }
    }
}
