// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Packed fields: a shift and a mask, in 32 or 64 bits, and a field of a dword array.
//!
//! All types here are plain facts with `const` accessors. A value that does not fit its field is
//! a bug of the caller: `put` panics on it at compile time when evaluated in a constant and in
//! builds with debug assertions; `try_put` is for values that come from outside.

/// The name beside `value` in a list of names and values.
pub const fn name_in(list: &[(&'static str, u8)], value: u8) -> Option<&'static str> {
    let mut i = 0;
    while i < list.len() {
        if list[i].1 == value {
            return Some(list[i].0);
        }
        i += 1;
    }
    None
}

macro_rules! field_type {
    ($(#[$meta:meta])* $name:ident, $word:ty, $bits:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            /// Position of the field's lowest bit.
            pub shift: u8,
            /// The field's bits, in place.
            pub mask: $word,
        }

        impl $name {
            /// A field from its shift and its in-place mask.
            pub const fn new(shift: u8, mask: $word) -> Self {
                assert!(mask != 0 && mask.trailing_zeros() == shift as u32);
                Self { shift, mask }
            }

            /// A field from its highest and lowest bit.
            pub const fn span(high: u8, low: u8) -> Self {
                assert!(high >= low && high < $bits);
                let width = high - low + 1;
                Self::new(low, (<$word>::MAX >> ($bits - width)) << low)
            }

            /// The largest value that fits.
            #[inline]
            pub const fn max(self) -> $word {
                self.mask >> self.shift
            }

            /// Number of bits.
            pub const fn width(self) -> u32 {
                self.mask.count_ones()
            }

            /// The field's value in `word`.
            #[inline]
            pub const fn get(self, word: $word) -> $word {
                (word & self.mask) >> self.shift
            }

            /// Whether any bit of the field is set in `word`.
            #[inline]
            pub const fn is_set(self, word: $word) -> bool {
                word & self.mask != 0
            }

            /// `value` shifted into place, other bits zero.
            #[inline]
            pub const fn put(self, value: $word) -> $word {
                debug_assert!(value <= self.max());
                (value << self.shift) & self.mask
            }

            /// `value` shifted into place, or nothing when it does not fit.
            #[inline]
            pub const fn try_put(self, value: $word) -> Option<$word> {
                if value <= self.max() {
                    Some(value << self.shift)
                } else {
                    None
                }
            }

            /// `word` with the field replaced by `value`.
            #[inline]
            pub const fn set(self, word: $word, value: $word) -> $word {
                (word & !self.mask) | self.put(value)
            }
        }
    };
}

field_type! {
    /// A field of a 32-bit word.
    Field, u32, 32
}
field_type! {
    /// A field of a 64-bit word.
    Field64, u64, 64
}

/// A field in an array of dwords: a packet, an interrupt entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DwField {
    /// The field's name, as AMD's headers spell it but in capitals.
    pub name: &'static str,
    /// Index of the dword that holds the field.
    pub dw: usize,
    /// The field of that dword.
    pub field: Field,
}

impl DwField {
    /// The field `high:low` of dword `dw`.
    pub const fn new(name: &'static str, dw: usize, high: u8, low: u8) -> Self {
        Self {
            name,
            dw,
            field: Field::span(high, low),
        }
    }

    /// The field's value; the caller has checked the length.
    #[inline]
    pub const fn get(self, words: &[u32]) -> u32 {
        self.field.get(words[self.dw])
    }

    /// `value` shifted into place, to be ored into dword `dw`.
    #[inline]
    pub const fn put(self, value: u32) -> u32 {
        self.field.put(value)
    }

    /// Replaces the field in `words`.
    #[inline]
    pub fn set(self, words: &mut [u32], value: u32) {
        words[self.dw] = self.field.set(words[self.dw], value);
    }
}

/// The bits of dword `dw` that no field of `fields` covers.
pub const fn uncovered(fields: &[DwField], dw: usize) -> u32 {
    let mut mask = 0;
    let mut i = 0;
    while i < fields.len() {
        if fields[i].dw == dw {
            mask |= fields[i].field.mask;
        }
        i += 1;
    }
    !mask
}

/// The low 32 bits of an address or a 64-bit value.
#[inline]
pub const fn lo32(value: u64) -> u32 {
    value as u32
}

/// The high 32 bits of an address or a 64-bit value.
#[inline]
pub const fn hi32(value: u64) -> u32 {
    (value >> 32) as u32
}

/// A 64-bit value from its two halves.
#[inline]
pub const fn join(lo: u32, hi: u32) -> u64 {
    ((hi as u64) << 32) | lo as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_and_new_agree() {
        for low in 0..32u8 {
            for high in low..32 {
                let f = Field::span(high, low);
                assert_eq!(f, Field::new(low, f.mask));
                assert_eq!(f.width(), u32::from(high - low) + 1);
                assert_eq!(f.get(f.mask), f.max());
                assert_eq!(f.put(f.max()), f.mask);
                assert_eq!(f.get(!f.mask), 0);
                assert_eq!(f.set(u32::MAX, 0), !f.mask);
                assert_eq!(f.set(0, f.max()), f.mask);
            }
        }
        for low in 0..64u8 {
            for high in low..64 {
                let f = Field64::span(high, low);
                assert_eq!(f.get(f.put(f.max())), f.max());
                assert_eq!(f.width(), u32::from(high - low) + 1);
            }
        }
    }

    #[test]
    fn try_put_refuses_what_does_not_fit() {
        let f = Field::span(7, 4);
        assert_eq!(f.try_put(15), Some(0xf0));
        assert_eq!(f.try_put(16), None);
        assert_eq!(Field::span(31, 0).try_put(u32::MAX), Some(u32::MAX));
    }

    #[test]
    #[should_panic]
    fn a_mask_that_misses_its_shift_is_refused() {
        let _ = Field::new(3, 0xf0);
    }

    #[test]
    fn uncovered_is_the_complement() {
        const FIELDS: &[DwField] = &[DwField::new("A", 1, 3, 0), DwField::new("B", 1, 31, 30)];
        assert_eq!(uncovered(FIELDS, 0), u32::MAX);
        assert_eq!(uncovered(FIELDS, 1), 0x3fff_fff0);
    }

    #[test]
    fn halves_join() {
        let v = 0x0123_4567_89ab_cdef;
        assert_eq!(join(lo32(v), hi32(v)), v);
    }
}
