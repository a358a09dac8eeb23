// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MUBUF addresses: buffer resource, bounds check and swizzle.

use super::{active, Addresses, MAX_BYTES};
use crate::inst::{Access, Vmem};
use crate::wave::{Wave, LANES};
use crate::Isa;

/// Out-of-bounds check.
enum Bounds {
    /// gfx9: depends on the stride.
    Stride,
    /// gfx10 and later: index beyond the records or offset beyond the stride.
    Structured,
    /// Index beyond the records.
    Index,
    /// All accesses if there are no records.
    Empty,
    /// Offset beyond the records, in bytes; if swizzled, also beyond the stride.
    Raw,
}

/// Buffer resource.
struct Resource {
    base: u64,
    stride: u64,
    swizzle: bool,
    /// Swizzle element size, in bytes.
    element: u64,
    records: u64,
    index_stride: u64,
    add_tid: bool,
    bounds: Bounds,
}

impl Resource {
    fn read(w: &Wave, first: u8) -> Self {
        let at = usize::from(first);
        let word = |n: usize| w.s[at + n];
        let (swizzle, element, bounds) = match w.isa {
            Isa::Gfx942 => (word(1) >> 31 != 0, 4, Bounds::Stride),
            Isa::Gfx1201 => {
                let swizzle = word(1) >> 30;
                let bounds = match word(3) >> 28 & 3 {
                    0 => Bounds::Structured,
                    1 => Bounds::Index,
                    2 => Bounds::Empty,
                    _ => Bounds::Raw,
                };
                (swizzle != 0, if swizzle == 3 { 16 } else { 4 }, bounds)
            }
        };
        Resource {
            base: u64::from(word(0)) | u64::from(word(1) & 0xffff) << 32,
            stride: u64::from(word(1) >> 16 & 0x3fff),
            swizzle,
            element,
            records: u64::from(word(2)),
            index_stride: 8 << (word(3) >> 21 & 3),
            add_tid: word(3) >> 23 & 1 != 0,
            bounds,
        }
    }

    /// Returns whether the bounds are those of bytes. The dwords of a load or store are checked one
    /// by one then, else the access is checked as a whole.
    fn is_raw(&self) -> bool {
        match self.bounds {
            Bounds::Stride => self.stride == 0,
            Bounds::Raw => !self.swizzle,
            _ => false,
        }
    }

    /// Returns whether the access is in bounds.
    fn inside(&self, index: u64, offset: u64, soffset: u64, bytes: u64) -> bool {
        let raw = offset + soffset + bytes <= self.records;
        match self.bounds {
            Bounds::Stride if self.stride == 0 => raw,
            Bounds::Stride => index < self.records && !(self.swizzle && offset >= self.stride),
            Bounds::Structured => index < self.records && offset + bytes <= self.stride,
            Bounds::Index => index < self.records,
            Bounds::Empty => self.records != 0,
            Bounds::Raw if self.swizzle => {
                offset < self.stride && index * self.stride + offset + soffset < self.records
            }
            Bounds::Raw => index * self.stride + offset + soffset + bytes <= self.records,
        }
    }

    /// Returns the offset from the base, or `None` if out of bounds.
    fn offset(&self, index: u64, offset: u64, soffset: u64, bytes: u64) -> Option<u64> {
        if !self.inside(index, offset, soffset, bytes) {
            return None;
        }
        if !self.swizzle || self.stride == 0 {
            return Some(self.stride * index + offset + soffset);
        }
        let (index_high, index_low) = (index / self.index_stride, index % self.index_stride);
        let (offset_high, offset_low) = (offset / self.element, offset % self.element);
        let block = index_high * self.stride + offset_high * self.element;
        Some(block * self.index_stride + index_low * self.element + offset_low + soffset)
    }
}

/// Addresses of an access.
pub(super) struct Cells {
    /// Address of each lane.
    pub(super) addresses: Addresses,
    /// The lanes that are in bounds, of each dword.
    pub(super) inside: [u64; MAX_BYTES / 4],
}

/// Returns the addresses of an access.
pub(super) fn cells(w: &Wave, i: &Vmem, offen: bool, idxen: bool) -> Cells {
    let resource = Resource::read(w, i.saddr.unwrap_or_default());
    let soffset = u64::from(w.scalar(i.soffset));
    // Atomics are in bounds as a whole.
    let (bytes, part) = match i.access {
        Access::Load { bytes, .. } | Access::Store { bytes, .. } if resource.is_raw() => {
            (u64::from(bytes), u64::from(bytes.min(4)))
        }
        Access::Load { bytes, .. }
        | Access::Store { bytes, .. }
        | Access::LoadLds { bytes, .. } => (u64::from(bytes), u64::from(bytes)),
        Access::Atomic { size, .. } => (u64::from(size), u64::from(size)),
    };
    let first = usize::from(i.addr.unwrap_or_default());
    let mut addresses = [0; LANES];
    let mut inside = [0; MAX_BYTES / 4];
    for l in active(w.exec()) {
        let index = if idxen { u64::from(w.v[first][l]) } else { 0 };
        let index = index + if resource.add_tid { l as u64 } else { 0 };
        let vector = if offen {
            u64::from(w.v[first + usize::from(idxen)][l])
        } else {
            0
        };
        let offset = vector + i64::from(i.offset) as u64;
        let parts = usize::try_from(bytes / part).unwrap_or(1);
        for (n, lanes) in inside[..parts].iter_mut().enumerate() {
            let skip = n as u64 * part;
            if let Some(at) = resource.offset(index, offset + skip, soffset, part) {
                addresses[l] = resource.base.wrapping_add(at - skip);
                *lanes |= 1 << l;
            }
        }
        for n in parts..bytes.div_ceil(4) as usize {
            inside[n] |= inside[0] & 1 << l;
        }
    }
    Cells { addresses, inside }
}
