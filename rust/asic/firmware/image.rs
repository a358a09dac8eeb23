// SPDX-License-Identifier: GPL-2.0

//! Header checks of firmware files. They use no hardware: `tests/logic` checks them.

use core::ops::RangeInclusive;

use kernel::{fmt, prelude::*};
use rkfd_abi::firmware::{common, signed};

use crate::asic::bytes::array_at;

/// A required firmware file.
pub(crate) struct FirmwareFile {
    /// Path below the firmware directory.
    pub(crate) path: &'static str,
    /// Major version of its header.
    pub(crate) header_major: u16,
    /// Supported minor versions of its header.
    pub(crate) header_minor: RangeInclusive<u16>,
    /// Version of the IP block.
    pub(crate) ip: (u16, u16),
}

impl FirmwareFile {
    /// Returns the file `path` of an IP block, with header version `major` and one of `minor`.
    pub(crate) const fn new(
        path: &'static str,
        major: u16,
        minor: RangeInclusive<u16>,
        ip: (u16, u16),
    ) -> Self {
        Self {
            path,
            header_major: major,
            header_minor: minor,
            ip,
        }
    }
}

/// Error in a file.
pub(crate) enum Why {
    /// Shorter than this many bytes.
    Short(usize),
    /// Size differs from the header's.
    Size(usize),
    /// Unsupported header version.
    Header(u16, u16),
    /// For another version of the IP block.
    Block(u16, u16),
    /// Missing part.
    NoPart(&'static str),
    /// Part is not a signed container.
    NotSigned(&'static str),
}

/// An unusable file.
pub(crate) struct Bad {
    path: &'static str,
    bytes: usize,
    why: Why,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path;
        match self.why {
            Why::Short(want) => f.write_fmt(fmt!(
                "{path} is truncated ({} bytes, {want} are needed)",
                self.bytes
            )),
            Why::Size(declared) => f.write_fmt(fmt!(
                "{path} is truncated or damaged ({} bytes, its header declares {declared})",
                self.bytes
            )),
            Why::Header(major, minor) => f.write_fmt(fmt!(
                "{path} is of the wrong version (header {major}.{minor} is unknown)"
            )),
            Why::Block(major, minor) => f.write_fmt(fmt!(
                "{path} is the wrong firmware (for version {major}.{minor} of its block)"
            )),
            Why::NoPart(part) => f.write_fmt(fmt!("{path} is damaged (it has no {part})")),
            Why::NotSigned(part) => {
                f.write_fmt(fmt!("{path} is damaged (its {part} has no signature)"))
            }
        }
    }
}

/// A file with a verified header.
#[derive(Clone, Copy)]
pub(crate) struct Image<'a> {
    path: &'static str,
    data: &'a [u8],
}

impl<'a> Image<'a> {
    /// Returns the contents of a file if they fit to it.
    pub(super) fn new(file: &FirmwareFile, data: &'a [u8]) -> Result<Self, Bad> {
        let image = Self {
            path: file.path,
            data,
        };
        image.slice(0, common::SIZE)?;
        let declared = image.word(common::SIZE_BYTES)?;
        if declared != data.len() {
            return Err(image.bad(Why::Size(declared)));
        }
        let half = |at| Ok::<_, Bad>(image.word(at & !3)? >> (8 * (at & 2)) & 0xffff);
        let version = |major, minor| Ok::<_, Bad>((half(major)? as u16, half(minor)? as u16));
        let (major, minor) = version(common::HEADER_VERSION_MAJOR, common::HEADER_VERSION_MINOR)?;
        if major != file.header_major || !file.header_minor.contains(&minor) {
            return Err(image.bad(Why::Header(major, minor)));
        }
        let ip = version(common::IP_VERSION_MAJOR, common::IP_VERSION_MINOR)?;
        if ip != file.ip {
            return Err(image.bad(Why::Block(ip.0, ip.1)));
        }
        image.slice(0, image.word(common::HEADER_SIZE_BYTES)?)?;
        let (at, len) = image.payload()?;
        image.slice(at, len)?;
        Ok(image)
    }

    /// Returns an error about this file.
    pub(crate) fn bad(&self, why: Why) -> Bad {
        Bad {
            path: self.path,
            bytes: self.data.len(),
            why,
        }
    }

    /// Returns bytes of the file.
    pub(crate) fn slice(&self, at: usize, len: usize) -> Result<&'a [u8], Bad> {
        at.checked_add(len)
            .and_then(|end| self.data.get(at..end))
            .ok_or_else(|| self.bad(Why::Short(at.saturating_add(len))))
    }

    /// Returns the little-endian dword at byte `at`.
    pub(crate) fn word(&self, at: usize) -> Result<usize, Bad> {
        let bytes = array_at(self.data, at);
        let bytes = bytes.ok_or_else(|| self.bad(Why::Short(at.saturating_add(4))))?;
        Ok(u32::from_le_bytes(bytes) as usize)
    }

    /// Returns the firmware version.
    pub(crate) fn version(&self) -> Result<u32, Bad> {
        Ok(self.word(common::UCODE_VERSION)? as u32)
    }

    /// Returns byte offset and size of the payload.
    pub(crate) fn payload(&self) -> Result<(usize, usize), Bad> {
        Ok((
            self.word(common::UCODE_ARRAY_OFFSET_BYTES)?,
            self.word(common::UCODE_SIZE_BYTES)?,
        ))
    }

    /// Checks that `len` bytes at `at` are a signed container: PSP header, body and signature.
    pub(crate) fn check_signed(
        &self,
        what: &'static str,
        at: usize,
        len: usize,
    ) -> Result<(), Bad> {
        self.slice(at, len)?;
        let unsigned = || self.bad(Why::NotSigned(what));
        if len < signed::SIZE {
            return Err(unsigned());
        }
        if self.slice(at + signed::MAGIC_AT, signed::MAGIC.len())? != signed::MAGIC.as_slice() {
            return Err(unsigned());
        }
        if self.word(at + signed::BODY_BYTES)? > len - signed::SIZE {
            return Err(unsigned());
        }
        Ok(())
    }
}
