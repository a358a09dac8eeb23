// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the header checks of firmware files: with each kind of defect, and with random damage.

use rkfd_abi::firmware::{common, signed};

use super::image::{Bad, FirmwareFile, Image, Why};
use crate::random::Random;

const FILE: FirmwareFile = FirmwareFile::new("amdgpu/x.bin", 2, 1..=3, (9, 4));
const VERSION: u32 = 0x1234_5678;
/// Bytes of the header and of the payload, which is a signed container.
const HEADER: usize = 48;
const BODY: usize = 64;
const PAYLOAD: usize = signed::SIZE + BODY;

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Returns the word of two halves.
fn halves(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

fn whole() -> Vec<u8> {
    let mut bytes = vec![0; HEADER + PAYLOAD];
    let len = bytes.len() as u32;
    for (at, value) in [
        (common::SIZE_BYTES, len),
        (common::HEADER_SIZE_BYTES, HEADER as u32),
        (common::HEADER_VERSION_MAJOR, halves(2, 1)),
        (common::IP_VERSION_MAJOR, halves(9, 4)),
        (common::UCODE_VERSION, VERSION),
        (common::UCODE_ARRAY_OFFSET_BYTES, HEADER as u32),
        (common::UCODE_SIZE_BYTES, PAYLOAD as u32),
        (HEADER + signed::BODY_BYTES, BODY as u32),
    ] {
        put32(&mut bytes, at, value);
    }
    let magic = HEADER + signed::MAGIC_AT;
    bytes[magic..magic + 4].copy_from_slice(&signed::MAGIC);
    bytes
}

/// Returns the message about a file; empty if it is valid.
fn message(bytes: &[u8]) -> String {
    let text = |bad: Bad| bad.to_string();
    Image::new(&FILE, bytes).err().map_or(String::new(), text)
}

fn short(have: usize, want: usize) -> String {
    format!("amdgpu/x.bin is truncated ({have} bytes, {want} are needed)")
}

#[test]
fn valid_file() {
    let bytes = whole();
    let Ok(image) = Image::new(&FILE, &bytes) else {
        panic!("{}", message(&bytes));
    };
    assert_eq!(image.version().ok(), Some(VERSION));
    assert_eq!(image.payload().ok(), Some((HEADER, PAYLOAD)));
    assert!(image.check_signed("part", HEADER, PAYLOAD).is_ok());
    assert_eq!(image.slice(HEADER, 4).ok(), Some(&bytes[HEADER..][..4]));
    // Each supported version of the header; an empty payload at the end.
    for minor in 1..=3 {
        let mut bytes = bytes.clone();
        put32(&mut bytes, common::HEADER_VERSION_MAJOR, halves(2, minor));
        let len = bytes.len() as u32;
        put32(&mut bytes, common::UCODE_ARRAY_OFFSET_BYTES, len);
        put32(&mut bytes, common::UCODE_SIZE_BYTES, 0);
        assert_eq!(message(&bytes), "");
    }
}

/// Every length, with the size in the header as it is, and with that of the file.
#[test]
fn truncated_files() {
    let whole = whole();
    for len in 0..whole.len() {
        let mut bytes = whole[..len].to_vec();
        if len < common::SIZE {
            assert_eq!(message(&bytes), short(len, common::SIZE));
            continue;
        }
        let declared = whole.len();
        let expected = format!(
            "amdgpu/x.bin is truncated or damaged ({len} bytes, its header declares {declared})"
        );
        assert_eq!(message(&bytes), expected);
        put32(&mut bytes, common::SIZE_BYTES, len as u32);
        let want = if len < HEADER { HEADER } else { whole.len() };
        assert_eq!(message(&bytes), short(len, want));
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(message(&longer).contains("truncated or damaged"));
}

#[test]
fn defects_of_the_header() {
    let whole = whole();
    let len = whole.len();
    let with = |values: &[(usize, u32)]| {
        let mut bytes = whole.clone();
        for (at, value) in values {
            put32(&mut bytes, *at, *value);
        }
        message(&bytes)
    };
    for (major, minor) in [(1, 1), (3, 1), (2, 0), (2, 4), (0xffff, 0xffff)] {
        assert_eq!(
            with(&[(common::HEADER_VERSION_MAJOR, halves(major, minor))]),
            format!("amdgpu/x.bin is of the wrong version (header {major}.{minor} is unknown)")
        );
    }
    for (major, minor) in [(9, 5), (8, 4), (0, 0), (4, 9)] {
        assert_eq!(
            with(&[(common::IP_VERSION_MAJOR, halves(major, minor))]),
            format!(
                "amdgpu/x.bin is the wrong firmware (for version {major}.{minor} of its block)"
            )
        );
    }
    let past = len + 1;
    let huge = u32::MAX as usize;
    assert_eq!(
        with(&[(common::HEADER_SIZE_BYTES, past as u32)]),
        short(len, past)
    );
    assert_eq!(
        with(&[(common::HEADER_SIZE_BYTES, u32::MAX)]),
        short(len, huge)
    );
    assert_eq!(
        with(&[(common::UCODE_SIZE_BYTES, PAYLOAD as u32 + 1)]),
        short(len, past)
    );
    assert_eq!(
        with(&[(common::UCODE_ARRAY_OFFSET_BYTES, HEADER as u32 + 1)]),
        short(len, past)
    );
    // A sum that does not fit in 32 bits.
    assert_eq!(
        with(&[
            (common::UCODE_ARRAY_OFFSET_BYTES, u32::MAX),
            (common::UCODE_SIZE_BYTES, u32::MAX),
        ]),
        short(len, 2 * huge)
    );
}

#[test]
fn defects_of_a_signed_part() {
    let whole = whole();
    let check = |bytes: &[u8], at, len| {
        let image = Image::new(&FILE, bytes).ok().expect("valid");
        let found = image.check_signed("part", at, len);
        found.err().map_or(String::new(), |bad| bad.to_string())
    };
    let unsigned = "amdgpu/x.bin is damaged (its part has no signature)";
    // Every length of the part.
    for len in 0..=PAYLOAD {
        let expected = if len < PAYLOAD { unsigned } else { "" };
        assert_eq!(check(&whole, HEADER, len), expected, "{len}");
    }
    for bit in 0..32 {
        let mut bytes = whole.clone();
        bytes[HEADER + signed::MAGIC_AT + bit / 8] ^= 1 << (bit % 8);
        assert_eq!(check(&bytes, HEADER, PAYLOAD), unsigned);
    }
    for body in [BODY as u32 + 1, u32::MAX] {
        let mut bytes = whole.clone();
        put32(&mut bytes, HEADER + signed::BODY_BYTES, body);
        assert_eq!(check(&bytes, HEADER, PAYLOAD), unsigned);
    }
    let len = whole.len();
    for (at, part) in [
        (HEADER, PAYLOAD + 1),
        (len, 1),
        (usize::MAX, 1),
        (usize::MAX, usize::MAX),
        (1, usize::MAX),
    ] {
        assert_eq!(check(&whole, at, part), short(len, at.saturating_add(part)));
    }
    let image = Image::new(&FILE, &whole).ok().expect("valid");
    for at in [len - 3, len, usize::MAX] {
        let bad = image.word(at).expect_err("beyond the end");
        assert_eq!(bad.to_string(), short(len, at.saturating_add(4)));
    }
    let bad = image.bad(Why::NoPart("list"));
    assert_eq!(bad.to_string(), "amdgpu/x.bin is damaged (it has no list)");
}

/// A file with random damage that is accepted has a payload inside of it.
#[test]
fn random_damage() {
    let mut random = Random::new();
    let whole = whole();
    let mut good = 0;
    for _ in 0..100_000 {
        let mut bytes = whole.clone();
        for _ in 0..1 + random.below(3) {
            let at = random.pick(&[0, 4, 8, 12, 20, 24, HEADER + signed::BODY_BYTES]);
            let small = random.below(whole.len() as u64 + 8) as u32;
            let large = random.word() as u32;
            let old = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
            let value = random.pick(&[small, large, old ^ 1, old.wrapping_add(1), u32::MAX]);
            put32(&mut bytes, at, value);
        }
        if random.below(2) == 0 {
            let len = bytes.len() as u32;
            put32(&mut bytes, common::SIZE_BYTES, len);
        }
        let Ok(image) = Image::new(&FILE, &bytes) else {
            assert!(message(&bytes).starts_with("amdgpu/x.bin is "));
            continue;
        };
        good += 1;
        let (at, len) = image.payload().ok().expect("words");
        assert_eq!(image.slice(at, len).ok(), Some(&bytes[at..at + len]));
        if image.check_signed("part", at, len).is_ok() {
            let body = image.word(at + signed::BODY_BYTES).ok().expect("a word");
            assert!(signed::SIZE + body <= len);
        }
    }
    assert!(good > 1000, "{good} valid");
}
