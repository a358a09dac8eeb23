// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the parser of the VBIOS: with the images of the model's cards, with each kind of defect,
//! with random damage, and with failing allocations.

use std::cell::Cell;

use gpu_model::{chips::Chip, engines::rom};
use kernel::{
    alloc::{failing, Fail},
    prelude::*,
};
use rkfd_abi::discovery::TMR_OFFSET;

use super::image::Vbios;
use crate::random::Random;

const RESERVED: u64 = 48 << 20;
/// Offsets of an image.
const LENGTH: usize = 2;
const STRING_COUNT: usize = 0x2f;
const MAGIC: usize = 0x30;
const MAGIC_END: usize = 0x3a;
const HEADER: usize = 0x48;
const STRINGS: usize = 0x6e;
/// Offsets of the ROM header.
const ATOM: usize = 4;
const CONFIG: usize = 0xc;
const DATA_TABLES: usize = 0x20;
/// Offset of the entry of `firmwareinfo` in the list of data tables.
const FIRMWARE_INFO: usize = 4 + 2 * 4;
const EEPROM_ADDRESS: usize = 0x33;
const RESERVED_KIB: usize = 0x54;
const UNKNOWN: &[u8] = b"--N/A--";

fn image() -> Vec<u8> {
    rom::image(Chip::all()[0], RESERVED)
}

fn put16(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes([bytes[at], bytes[at + 1]]).into()
}

/// Returns the offset of `firmwareinfo`.
fn firmware_info(image: &[u8]) -> usize {
    let list = u16_at(image, u16_at(image, HEADER) + DATA_TABLES);
    u16_at(image, list + FIRMWARE_INFO)
}

fn memory(bytes: &[u8]) -> KVVec<u8> {
    let mut vec = KVVec::with_capacity(bytes.len(), GFP_KERNEL).expect("memory");
    for byte in bytes {
        vec.push_within_capacity(*byte).expect("room");
    }
    vec
}

fn checked(bytes: &[u8]) -> Option<Vbios> {
    Vbios::checked(memory(bytes))
}

fn valid(bytes: &[u8]) -> Vbios {
    checked(bytes).expect("valid")
}

/// Reads an image as through registers: bytes beyond it are ones.
fn through_registers(bytes: &[u8]) -> Option<Vbios> {
    Vbios::read_by(|out| {
        for (n, byte) in out.iter_mut().enumerate() {
            *byte = bytes.get(n).copied().unwrap_or(0xff);
        }
        Ok(true)
    })
}

#[test]
fn images_of_the_model() {
    for chip in Chip::all() {
        let bytes = rom::image(chip, RESERVED);
        for vbios in [Some(valid(&bytes)), through_registers(&bytes)] {
            let vbios = vbios.expect("valid");
            assert_eq!(vbios.image(), bytes);
            assert_eq!(vbios.reserved(), RESERVED);
            assert!(!vbios.trains_memory());
            assert_eq!(vbios.bad_page_table(), Some(0));
            assert_eq!(vbios.part_number(), b"113-RKFD-MODEL");
            assert_eq!(vbios.build(), b"00000001");
            assert_eq!(vbios.name(), b"rkfd GPU model");
            assert_eq!(vbios.version(), b"000.000.000.000.000000");
            assert_eq!(&vbios.date(), b"2025/01/01 00:00");
            assert_eq!(vbios.revision(), 1);
        }
    }
}

/// One capability of many, in the revisions that have them.
#[test]
fn training_is_a_capability() {
    let mut bytes = image();
    let firmware = firmware_info(&bytes);
    for (format, content, capability, expected) in [
        (3, 1, 0x400u32, true),
        (3, 5, 0x4c3, true),
        (4, 0, u32::MAX, true),
        (3, 4, !0x400, false),
        (3, 0, 0x400, false),
        (2, 4, 0x400, false),
    ] {
        bytes[firmware + 2..firmware + 4].copy_from_slice(&[format, content]);
        bytes[firmware + 0x10..][..4].copy_from_slice(&capability.to_le_bytes());
        let trains = valid(&bytes).trains_memory();
        assert_eq!(trains, expected, "{format}.{content} {capability:#x}");
    }
    bytes.truncate(firmware + 0x12);
    assert!(
        !checked(&bytes).is_some_and(|vbios| vbios.trains_memory()),
        "truncated"
    );
}

/// The byte is ignored if it is 0, or the table is of a version without it.
#[test]
fn addresses_of_the_table_of_bad_pages() {
    let mut bytes = image();
    let firmware = firmware_info(&bytes);
    for (format, content, byte, expected) in [
        (3, 4, 0xa8, Some(0x4_0000)),
        (3, 5, 0xad, Some(0x6_0000)),
        (4, 0, 0xa4, Some(0x2_0000)),
        (3, 4, 0, None),
        (3, 3, 0xa8, None),
        (2, 4, 0xa8, None),
    ] {
        bytes[firmware + 2] = format;
        bytes[firmware + 3] = content;
        bytes[firmware + EEPROM_ADDRESS] = byte;
        assert_eq!(valid(&bytes).bad_page_table(), expected);
    }
    bytes.truncate(firmware + EEPROM_ADDRESS);
    assert_eq!(valid(&bytes).bad_page_table(), None);
}

/// A ROM that cannot be read, or has no image, has no VBIOS.
#[test]
fn roms_without_a_vbios() {
    let whole = image();
    assert!(Vbios::read_by(|_| Ok(false)).is_none());
    assert!(Vbios::read_by(|_| Err(EIO)).is_none());
    assert!(Vbios::read_by(|_| Ok(true)).is_none());
    assert!(through_registers(&[]).is_none());
    // An image of length 0, and the second read is one of 0 bytes.
    let mut bytes = whole.clone();
    bytes[LENGTH] = 0;
    assert!(through_registers(&bytes).is_none());
    // The second read fails, or returns something else.
    for second in [Ok(false), Err(EIO), Ok(true)] {
        let reads = Cell::new(0);
        let found = Vbios::read_by(|out| {
            reads.set(reads.get() + 1);
            if reads.get() == 2 {
                return second;
            }
            let len = out.len();
            out.copy_from_slice(&whole[..len]);
            Ok(true)
        });
        assert!(found.is_none());
        assert_eq!(reads.get(), 2);
    }
    for which in [Fail::Once as fn(u64) -> Fail, Fail::From] {
        for n in 0..2 {
            let (found, failed) = failing(which(n), || through_registers(&whole));
            assert!(failed && found.is_none());
        }
        let (found, failed) = failing(which(2), || through_registers(&whole));
        assert!(!failed && found.is_some());
    }
}

#[test]
fn wrong_signatures() {
    let whole = image();
    for at in (0..2).chain(MAGIC..MAGIC_END) {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            assert!(checked(&bytes).is_none(), "byte {at:#x}");
        }
    }
    for len in 0..MAGIC_END {
        assert!(checked(&whole[..len]).is_none(), "{len}");
    }
}

/// Calls all functions. What they return is within the limits, and texts are in the image.
fn examine(vbios: &Vbios) {
    let inside = |text: &[u8]| {
        let image = vbios.image();
        assert!(text.is_empty() || image.windows(text.len()).any(|part| part == text));
    };
    for (text, most) in [
        (vbios.part_number(), 43),
        (vbios.build(), 31),
        (vbios.version(), 32),
    ] {
        assert!(text.len() <= most && !text.contains(&0));
        inside(text);
    }
    let name = vbios.name();
    assert!(name.len() <= 63 && !name.contains(&0));
    if name != UNKNOWN {
        inside(name);
        assert_ne!(name.last(), Some(&b' '));
    }
    let printable = |byte: &u8| (b' '..=b'z').contains(byte);
    assert!(vbios.part_number().iter().all(printable));
    assert_eq!(&vbios.date()[..2], b"20");
    let reserved = vbios.reserved();
    assert!(reserved != 0 && reserved % 1024 == 0 && reserved >> 10 <= u32::MAX.into());
}

/// Every length of an image.
#[test]
fn truncated_images() {
    let whole = image();
    let info = firmware_info(&whole);
    for len in MAGIC_END..whole.len() {
        let vbios = valid(&whole[..len]);
        examine(&vbios);
        let expected = if len < info + RESERVED_KIB + 4 {
            TMR_OFFSET
        } else {
            RESERVED
        };
        assert_eq!(vbios.reserved(), expected, "{len}");
        assert_eq!(vbios.revision(), u32::from(len >= info + 8), "{len}");
        // Through registers the rest reads as ones.
        examine(&through_registers(&whole[..len]).expect("valid"));
    }
}

#[test]
fn defects_of_firmwareinfo() {
    let whole = image();
    let header = u16_at(&whole, HEADER);
    let list = u16_at(&whole, header + DATA_TABLES);
    let info = firmware_info(&whole);
    let found = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        let vbios = valid(&bytes);
        (vbios.reserved(), vbios.revision())
    };
    assert_eq!(found(&|_| {}), (RESERVED, 1));
    assert_eq!(found(&|b| b[info + 3] = 5), (RESERVED, 1));
    // The other revisions do not have the size.
    for (format, content) in [(3, 3), (3, 6), (2, 4), (4, 4)] {
        let with = found(&|b| b[info + 2..info + 4].copy_from_slice(&[format, content]));
        assert_eq!(with, (TMR_OFFSET, 1));
    }
    let kib = |b: &mut Vec<u8>, value: u32| {
        b[info + RESERVED_KIB..][..4].copy_from_slice(&value.to_le_bytes());
    };
    assert_eq!(found(&|b| kib(b, 0)), (TMR_OFFSET, 1));
    assert_eq!(found(&|b| kib(b, u32::MAX)), (0xffff_ffff << 10, 1));
    // No table, no list, no header.
    for at in [list + FIRMWARE_INFO, header + DATA_TABLES, HEADER] {
        for value in [0xffff, whole.len() - 1, whole.len()] {
            let with = found(&|b| put16(b, at, value));
            assert_eq!(with, (TMR_OFFSET, 0), "{at:#x}: {value:#x}");
        }
    }
    let none = (TMR_OFFSET, 0);
    // Offset 0 is no table, whatever is there.
    let with = found(&|b| {
        put16(b, list + FIRMWARE_INFO, 0);
        b[4] = 7;
    });
    assert_eq!(with, none);
    for at in ATOM..ATOM + 4 {
        assert_eq!(found(&|b| b[header + at] ^= 1), none);
    }
}

#[test]
fn texts_of_other_images() {
    let whole = image();
    let header = u16_at(&whole, HEADER);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        valid(&bytes)
    };
    // Without strings: a part number at a fixed place, or after its prefix.
    let vbios = with(&|b| {
        b[STRING_COUNT] = 0;
        b[0x80..0x8a].copy_from_slice(b"113-OTHER\0");
    });
    assert_eq!(vbios.part_number(), b"113-OTHER");
    assert_eq!(vbios.name(), UNKNOWN);
    let vbios = with(&|b| {
        b[STRING_COUNT] = 0;
        b[0x80] = 0;
    });
    assert!(vbios.part_number().starts_with(b"ATOMBIOSBK-AMD VER"));
    assert!(vbios.part_number().len() <= 43);
    // Strings that lie outside.
    for value in [0xffff, whole.len(), whole.len() - 1] {
        let vbios = with(&|b| put16(b, STRINGS, value));
        examine(&vbios);
        assert_eq!(vbios.name(), UNKNOWN);
    }
    // More strings than there are.
    let vbios = with(&|b| b[STRING_COUNT] = 255);
    examine(&vbios);
    // A part number ends at the first byte that is not printable, a name before its blanks.
    let strings = u16_at(&whole, STRINGS);
    assert_eq!(with(&|b| b[strings + 3] = 7).part_number(), b"113");
    assert_eq!(with(&|b| b[strings] = 0xff).part_number(), b"");
    let name = whole
        .windows(4)
        .position(|part| part == b"rkfd")
        .expect("a name");
    assert_eq!(
        with(&|b| b[name + 8..name + 14].fill(b' ')).name(),
        b"rkfd GPU"
    );
    assert_eq!(with(&|b| b[name..name + 14].fill(b' ')).name(), b"");
    // No version.
    let version = whole.windows(10).position(|part| part == b"ATOMBIOSBK");
    let version = version.expect("a version");
    assert_eq!(with(&|b| b[version] = 0).version(), b"");
    // A build number that does not end before the header.
    let config = u16_at(&whole, header + CONFIG) - 32;
    let vbios = with(&|b| {
        put16(b, header + CONFIG, config);
        b[config..header].fill(b'x');
        b[config + 1] = 0;
        b[config + 3] = 0;
    });
    assert_eq!(vbios.build(), [b'x'; 31]);
    // No build number: no header, or no configuration before it.
    assert_eq!(with(&|b| put16(b, HEADER, 0xffff)).build(), b"");
    for config in [0xffff, header, header - 1] {
        assert_eq!(with(&|b| put16(b, header + CONFIG, config)).build(), b"");
    }
}

#[test]
fn random_damage() {
    let mut random = Random::new();
    let whole = image();
    let len = whole.len() as u64;
    let header = u16_at(&whole, HEADER) as u64;
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..1 + random.below(6) {
            let start = random.pick(&[0, 0, 0x40, header, header]);
            let at = (start + random.below(0x60)).min(len - 2) as usize;
            let at = random.pick(&[at, at, at, random_place(at, len)]);
            let value = random.pick(&[0, 1, 0xffff, 0x8000, len as usize, header as usize]);
            match random.below(3) {
                0 => bytes[at] = value as u8,
                1 => put16(&mut bytes, at, value),
                _ => bytes[at] = at as u8,
            }
        }
        // Texts without an end.
        if random.below(4) == 0 {
            let at = random.below(len) as usize;
            bytes[at..].fill(b'x');
        }
        if random.below(4) == 0 {
            bytes.truncate(random.below(len) as usize);
        }
        if bytes.len() >= MAGIC_END {
            bytes[..2].copy_from_slice(&whole[..2]);
            bytes[MAGIC..MAGIC_END].copy_from_slice(&whole[MAGIC..MAGIC_END]);
            examine(&valid(&bytes));
        }
        if let Some(vbios) = through_registers(&bytes) {
            assert!(vbios.image().len() <= 255 * 512);
            examine(&vbios);
        }
    }
}

/// Returns another place, by that one.
fn random_place(at: usize, len: u64) -> usize {
    at.wrapping_mul(0x9e37_79b9) % (len as usize - 2)
}
