// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MUBUF addresses: buffer resource, bounds check and swizzle.

use super::{active, Addresses};
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

/// Returns the address of each lane and the mask of lanes in bounds.
pub(super) fn addresses(w: &Wave, i: &Vmem, offen: bool, idxen: bool) -> (Addresses, u64) {
    let resource = Resource::read(w, i.saddr.unwrap_or_default());
    let soffset = u64::from(w.scalar(i.soffset));
    let bytes = match i.access {
        Access::Load { bytes, .. }
        | Access::Store { bytes, .. }
        | Access::LoadLds { bytes, .. } => u64::from(bytes),
        Access::Atomic { size, .. } => u64::from(size),
    };
    let first = usize::from(i.addr.unwrap_or_default());
    let mut out = [0; LANES];
    let mut inside = 0;
    for l in active(w.exec()) {
        let index = if idxen { u64::from(w.v[first][l]) } else { 0 };
        let index = index + if resource.add_tid { l as u64 } else { 0 };
        let vector = if offen {
            u64::from(w.v[first + usize::from(idxen)][l])
        } else {
            0
        };
        let offset = vector + i64::from(i.offset) as u64;
        if let Some(at) = resource.offset(index, offset, soffset, bytes) {
            out[l] = resource.base.wrapping_add(at);
            inside |= 1 << l;
        }
    }
    (out, inside)
}
