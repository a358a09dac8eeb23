// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Addresses of MUBUF instructions: the buffer resource, its bounds and its swizzle.

use super::{active, Addresses};
use crate::inst::{Access, Vmem};
use crate::wave::{Wave, LANES};

/// A buffer resource of gfx9.
struct Resource {
    base: u64,
    stride: u64,
    swizzle: bool,
    records: u64,
    index_stride: u64,
    add_tid: bool,
}

/// Bytes of a swizzle element.
const ELEMENT: u64 = 4;

impl Resource {
    fn read(w: &Wave, first: u8) -> Self {
        let at = usize::from(first);
        let word = |n: usize| w.s[at + n];
        Resource {
            base: u64::from(word(0)) | u64::from(word(1) & 0xffff) << 32,
            stride: u64::from(word(1) >> 16 & 0x3fff),
            swizzle: word(1) >> 31 != 0,
            records: u64::from(word(2)),
            index_stride: 8 << (word(3) >> 21 & 3),
            add_tid: word(3) >> 23 & 1 != 0,
        }
    }

    /// Offset from the base; `None` if out of range.
    fn offset(&self, index: u64, offset: u64, soffset: u64, bytes: u64) -> Option<u64> {
        if self.stride == 0 {
            let end = offset + soffset + bytes;
            return (end <= self.records).then_some(offset + soffset);
        }
        if index >= self.records || (self.swizzle && offset >= self.stride) {
            return None;
        }
        if !self.swizzle {
            return Some(self.stride * index + offset + soffset);
        }
        let (index_high, index_low) = (index / self.index_stride, index % self.index_stride);
        let (offset_high, offset_low) = (offset / ELEMENT, offset % ELEMENT);
        let block = index_high * self.stride + offset_high * ELEMENT;
        Some(block * self.index_stride + index_low * ELEMENT + offset_low + soffset)
    }
}

/// The address of each lane, and which of the lanes are inside of the buffer.
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
