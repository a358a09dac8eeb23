// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Buffer addresses: resource, bounds check and swizzle.

use super::{active, Addresses, MAX_BYTES};
use crate::inst::{Access, Segment, Vmem};
use crate::wave::{Wave, LANES};
use crate::Isa;

/// Out-of-bounds check.
enum Bounds {
    /// gfx9, private buffer (thread id without index): none.
    Unchecked,
    /// gfx9, raw buffer (no index or no stride): bytes beyond the records; without the scalar
    /// offset.
    Bytes,
    /// Index beyond the records: gfx9 with index and stride, and a mode of gfx12.
    Index,
    /// gfx12: index beyond the records or offset beyond the stride.
    Structured,
    /// gfx12: all accesses if there are no records.
    Empty,
    /// gfx12: bytes beyond the records; if swizzled, as `Structured`.
    Raw,
}

/// Buffer resource.
struct Resource {
    isa: Isa,
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
    fn read(w: &Wave, i: &Vmem, idxen: bool) -> Self {
        let at = usize::from(i.saddr.unwrap_or_default());
        let word = |n: usize| w.s[at + n];
        let add_tid = word(3) >> 23 & 1 != 0;
        let mut stride = u64::from(word(1) >> 16 & 0x3fff);
        let (swizzle, element, bounds) = match w.isa {
            Isa::Gfx942 => {
                // Four more bits of the stride are in place of the format.
                if add_tid && !matches!(i.access, Access::Typed(_)) {
                    stride |= u64::from(word(3) >> 15 & 0xf) << 14;
                }
                let bounds = match idxen {
                    false if add_tid => Bounds::Unchecked,
                    true if stride != 0 => Bounds::Index,
                    _ => Bounds::Bytes,
                };
                (word(1) >> 31 != 0, 4, bounds)
            }
            Isa::Gfx1201 => {
                stride *= [1, 4, 8, 32][(word(3) >> 18 & 3) as usize];
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
            isa: w.isa,
            base: u64::from(word(0)) | u64::from(word(1) & 0xffff) << 32,
            stride,
            swizzle: swizzle && stride != 0,
            element,
            records: u64::from(word(2)),
            index_stride: 8 << (word(3) >> 21 & 3),
            add_tid,
            bounds,
        }
    }

    /// Returns whether `bytes` bytes are in bounds.
    fn inside(&self, index: u64, offset: u64, soffset: u64, bytes: u64) -> bool {
        let structured = index < self.records && offset + bytes <= self.stride;
        match self.bounds {
            Bounds::Unchecked => true,
            Bounds::Bytes => offset + bytes <= self.records,
            Bounds::Index => index < self.records,
            Bounds::Structured => structured,
            Bounds::Empty => self.records != 0,
            Bounds::Raw if self.swizzle => structured,
            Bounds::Raw => offset + soffset + bytes <= self.records,
        }
    }

    /// Returns the address.
    fn address(&self, index: u64, offset: u64, soffset: u64) -> u64 {
        let at = match self.bounds {
            _ if self.swizzle => {
                // The scalar offset is swizzled, too, on gfx12.
                let (offset, rest) = match self.isa {
                    Isa::Gfx942 => (offset, soffset),
                    Isa::Gfx1201 => (offset + soffset & 0xffff_ffff, 0),
                };
                let (index_high, index_low) =
                    (index / self.index_stride, index % self.index_stride);
                let (offset_high, offset_low) = (offset / self.element, offset % self.element);
                let block = index_high * self.stride + offset_high * self.element;
                block * self.index_stride + index_low * self.element + offset_low + rest
            }
            // The stride is ignored.
            Bounds::Raw => offset + soffset,
            _ => self.stride * index + offset + soffset,
        };
        self.base.wrapping_add(at)
    }
}

/// Addresses of an access.
pub(super) struct Cells {
    /// Address of each lane.
    pub(super) addresses: Addresses,
    /// The lanes that are in bounds, of each part.
    pub(super) inside: [u64; MAX_BYTES / 4],
}

/// Returns the addresses of an access of `bytes` bytes, whose parts of `part` bytes are in bounds
/// or not one by one.
pub(super) fn cells(w: &Wave, i: &Vmem, bytes: u64, part: u64) -> Cells {
    let (offen, idxen) = match i.segment {
        Segment::Buffer { offen, idxen } => (offen, idxen),
        _ => (false, false),
    };
    let resource = Resource::read(w, i, idxen);
    let soffset = u64::from(w.scalar(i.soffset));
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
        addresses[l] = resource.address(index, offset, soffset);
        for (n, lanes) in (0..bytes / part).zip(&mut inside) {
            let at = offset + n * part;
            *lanes |= u64::from(resource.inside(index, at, soffset, part)) << l;
        }
    }
    Cells { addresses, inside }
}
