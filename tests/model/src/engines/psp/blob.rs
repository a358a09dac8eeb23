// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Firmware containers that the PSP loads: a header, the firmware, its signature.
//!
//! The signature cannot be verified without the keys that are fused into the chip. Driver errors
//! are detected all the same: wrong address or size, wrong container, incomplete copy. The hash in
//! the header covers firmware that is not encrypted.

use rkfd_abi::firmware::signed;

use super::sha256;
use super::CLIENT;
use crate::engines::gmc::Hub;
use crate::gpu::Gpu;

/// Nonzero if the firmware is encrypted: the hash is of the decrypted firmware.
const ENCRYPTED: usize = 0x18;
/// Offset of the UUID of a trusted application.
const UUID: usize = 0x38;
/// Offset of the hash.
const HASH: usize = 0xd0;
/// Header format in the upper half of [`signed::ID_AT`], with which [`signed::TOTAL_BYTES`]
/// includes the signature.
const FORMATS: [u16; 2] = [0x8101, 0x0100];
/// The format of most files of gfx12: [`signed::TOTAL_BYTES`] is not the size of the container, in
/// some 0. A signature of this size follows the firmware, and the hash is not in the header.
const UNSIZED: (u16, u32) = (0x8202, 0x100);

/// Header of a firmware container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blob {
    /// Kind of firmware.
    pub kind: u16,
    /// Its version.
    pub version: u32,
    /// Size of the container in bytes.
    pub total: u32,
    /// UUID of a trusted application.
    pub uuid: [u32; 4],
}

crate::errors! {
    /// An invalid firmware container.
    pub enum BlobError {
        /// No room for a header.
        NoHeader { room: u32 } => "{room:#x} bytes hold no header",
        /// It cannot be read.
        Fault { va: u64 } => "not readable at {va:#x}",
        /// Wrong magic.
        Magic { magic: [u8; 4] } => "no $PS1 in its header but {magic:02x?}",
        /// Inconsistent sizes.
        Size { body: u32, total: u32, room: u32 } =>
            "{body:#x} bytes of firmware in a container of {total:#x}, and there are {room:#x}",
        /// Wrong hash.
        Hash => "the firmware is not what its header has the hash of",
        /// An empty signature.
        NoSignature => "the signature is missing",
        /// A container of another kind than the command requires.
        Kind { kind: u16, required: u16 } => "container of kind {kind:#x}, {required:#x} required",
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Parses the header at the start of `bytes`, for a container of at most `room` bytes.
fn header(bytes: &[u8; signed::SIZE], room: u32) -> Result<(Blob, usize), BlobError> {
    let mut magic = [0; 4];
    magic.copy_from_slice(&bytes[signed::MAGIC_AT..][..4]);
    if magic != signed::MAGIC {
        return Err(BlobError::Magic { magic });
    }
    let id = word(bytes, signed::ID_AT);
    let body = word(bytes, signed::BODY_BYTES);
    let least = body.checked_add(signed::SIZE as u32);
    let total = match (id >> 16) as u16 == UNSIZED.0 {
        true => least.map_or(!0, |least| least.saturating_add(UNSIZED.1)),
        false => word(bytes, signed::TOTAL_BYTES),
    };
    if body == 0 || least.is_none_or(|least| least > total) || total > room {
        return Err(BlobError::Size { body, total, room });
    }
    let blob = Blob {
        kind: id as u16,
        version: word(bytes, signed::VERSION),
        total,
        uuid: [0, 4, 8, 12].map(|at| word(bytes, UUID + at)),
    };
    Ok((blob, body as usize))
}

/// Reads a container of at most `room` bytes at an address of VMID 0, and validates it.
pub fn read(gpu: &Gpu, addr: u64, room: u32) -> Result<Blob, BlobError> {
    let fetch = |at: u64, buf: &mut [u8]| {
        gpu.gmc.vm_read(Hub::MM, 0, at, buf).map_err(|fault| {
            gpu.raise_fault(&fault, CLIENT);
            BlobError::Fault { va: fault.va }
        })
    };
    if room < signed::SIZE as u32 {
        return Err(BlobError::NoHeader { room });
    }
    let mut head = [0; signed::SIZE];
    fetch(addr, &mut head)?;
    let (blob, body) = header(&head, room)?;
    let mut rest = vec![0; blob.total as usize - signed::SIZE];
    fetch(addr + signed::SIZE as u64, &mut rest)?;
    let (body, signature) = rest.split_at(body);
    let format = (word(&head, signed::ID_AT) >> 16) as u16;
    let hashed = word(&head, ENCRYPTED) == 0 && format != UNSIZED.0;
    if hashed && sha256::digest(body) != head[HASH..HASH + 32] {
        return Err(BlobError::Hash);
    }
    let signed = FORMATS.contains(&format) || format == UNSIZED.0;
    if signed && signature.iter().all(|byte| *byte == 0) {
        return Err(BlobError::NoSignature);
    }
    Ok(blob)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inconsistent_sizes_are_refused() {
        let mut bytes = [0; signed::SIZE];
        bytes[signed::MAGIC_AT..][..4].copy_from_slice(&signed::MAGIC);
        let mut put =
            |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        put(signed::BODY_BYTES, 0x180);
        put(signed::TOTAL_BYTES, 0x480);
        put(signed::ID_AT, 0x8101_2005);
        let (blob, body) = header(&bytes, 0x480).unwrap();
        assert_eq!((blob.kind, blob.total, body), (0x2005, 0x480, 0x180));
        assert!(header(&bytes, 0x47f).is_err());
        for (at, value) in [
            (signed::BODY_BYTES, 0),
            (signed::BODY_BYTES, 0x381),
            (signed::BODY_BYTES, !0),
            (signed::MAGIC_AT, 0),
        ] {
            let mut bad = bytes;
            bad[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            assert!(header(&bad, 0x480).is_err(), "{at:#x}");
        }
    }

    #[test]
    fn size_of_a_container_without_it() {
        let mut bytes = [0; signed::SIZE];
        bytes[signed::MAGIC_AT..][..4].copy_from_slice(&signed::MAGIC);
        let mut put =
            |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        put(signed::BODY_BYTES, 0x6000);
        put(signed::ID_AT, 0x8202_2009);
        let (blob, body) = header(&bytes, 0x6200).unwrap();
        assert_eq!((blob.kind, blob.total, body), (0x2009, 0x6200, 0x6000));
        assert!(header(&bytes, 0x61ff).is_err());
    }
}
