// SPDX-License-Identifier: GPL-2.0

//! Ranges of bits, which `kernel::bitmap` lacks.
//!
//! C header: [`include/linux/bitmap.h`](srctree/include/linux/bitmap.h)
//!
//! # Examples
//!
//! ```ignore
//! let mut map = BitmapVec::new(1024, GFP_KERNEL)?;
//! let at = map.find_zero_area(16, Alignment::new::<16>()).ok_or(ENOSPC)?;
//! map.set_range(at, 16);
//! map.clear_range(at, 16);
//! ```

use kernel::{bindings, bitmap::Bitmap, ptr::Alignment};

/// Operations on ranges of a [`Bitmap`].
pub(crate) trait BitmapRanges {
    /// Returns the lowest multiple of `align` from which on `count` bits are zero; `None` if there
    /// is none (`bitmap_find_next_zero_area()`).
    fn find_zero_area(&self, count: usize, align: Alignment) -> Option<usize>;

    /// Sets `count` bits from `start` on (`bitmap_set()`). Not atomic. Without effect if the range
    /// does not lie within the bitmap.
    fn set_range(&mut self, start: usize, count: usize);

    /// Clears `count` bits from `start` on (`bitmap_clear()`), as [`Self::set_range`].
    fn clear_range(&mut self, start: usize, count: usize);
}

/// Returns the range as the C functions take it, if it lies within `map`.
fn range(map: &Bitmap, start: usize, count: usize) -> Option<(u32, i32)> {
    if start.checked_add(count)? > map.len() {
        return None;
    }
    Some((start.try_into().ok()?, count.try_into().ok()?))
}

impl BitmapRanges for Bitmap {
    fn find_zero_area(&self, count: usize, align: Alignment) -> Option<usize> {
        let (_, len) = range(self, 0, count)?;
        let mask = align.as_usize() - 1;
        // SAFETY: The bitmap has `self.len()` bits and is only read. `mask` is a power of two less
        // one. Indices and `len` are at most `i32::MAX`, so that neither rounding up by the mask
        // nor adding `len` overflows.
        let at = unsafe {
            bindings::bitmap_find_next_zero_area_off(
                self.as_ptr().cast_mut(),
                self.len(),
                0,
                len.unsigned_abs(),
                mask,
                0,
            )
        };
        range(self, at, count).map(|_| at)
    }

    fn set_range(&mut self, start: usize, count: usize) {
        if let Some((start, count)) = range(self, start, count) {
            // SAFETY: The range lies within the bitmap, which is borrowed exclusively.
            unsafe { bindings::__bitmap_set(self.as_mut_ptr(), start, count) };
        }
    }

    fn clear_range(&mut self, start: usize, count: usize) {
        if let Some((start, count)) = range(self, start, count) {
            // SAFETY: The range lies within the bitmap, which is borrowed exclusively.
            unsafe { bindings::__bitmap_clear(self.as_mut_ptr(), start, count) };
        }
    }
}
