// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Register addresses and fields that the driver uses, one module per IP block and version.
//!
//! An address has three parts: the instance's base addresses (from IP discovery, in dwords), the
//! index `seg` into them (`..._BASE_IDX` in AMD's headers) and the dword offset `off`.
//! `scripts/gen-regs.py` writes the modules for the registers and fields that the driver names;
//! `scripts/gen-regs.list` lists the headers. Names are AMD's: `regCP_HQD_ACTIVE`,
//! `CP_HQD_ACTIVE__ACTIVE`.
//!
//! Registers, their fields and their values carry the register's name as a type of [`name`], so
//! that a field of another register does not compile. Registers of the same name and layout in
//! several versions or instances of a block share the type, without the prefix of the instance
//! (`GCVM_`, `MMVM_`: `VM_`).

use core::marker::PhantomData;
use core::ops::{BitOr, BitOrAssign};

use crate::bits;

pub mod df_4_15;
pub mod gc_12_0_0;
pub mod gc_9_4_3;
pub mod hdp_4_4_2;
pub mod mmhub_1_8_0;
pub mod mmhub_4_1_0;
pub mod mp_13_0_6;
pub mod mp_14_0_2;
pub mod name;
pub mod nbif_6_3_1;
pub mod nbio_7_9_0;
pub mod osssys_4_4_2;
pub mod osssys_7_0_0;
pub mod sdma_4_4_2;
pub mod smuio_13_0_3;
pub mod smuio_14_0_2;

/// The name of a register whose name does not matter, see [`Reg::untyped`].
pub enum Untyped {}

/// A register of an IP block.
pub struct Reg<R> {
    /// The header's name, with its `reg` prefix.
    pub name: &'static str,
    /// Index into the instance's base addresses.
    pub seg: u8,
    /// Dword offset from that base address.
    pub off: u32,
    of: PhantomData<fn() -> R>,
}

/// A field of a register.
///
/// ```
/// use rkfd_abi::regs::gc_9_4_3 as gc;
/// assert_eq!(gc::CP_HQD_ACTIVE__ACTIVE.put(1).get(gc::CP_HQD_ACTIVE__ACTIVE), 1);
/// ```
///
/// A field of another register does not compile:
///
/// ```compile_fail,E0308
/// use rkfd_abi::regs::gc_9_4_3 as gc;
/// assert_eq!(gc::CP_HQD_ACTIVE__ACTIVE.put(1).get(gc::SH_MEM_BASES__PRIVATE_BASE), 1);
/// ```
pub struct Field<R> {
    bits: bits::Field,
    of: PhantomData<fn() -> R>,
}

/// The value of a register.
pub struct Value<R> {
    raw: u32,
    of: PhantomData<fn() -> R>,
}

/// The place of a register's value in an array of dwords, for example in an MQD.
pub struct Word<R> {
    index: usize,
    of: PhantomData<fn() -> R>,
}

// Derived impls would require the same of `R`.
macro_rules! copy {
    ($($name:ident)*) => {
        $(
            impl<R> Clone for $name<R> {
                fn clone(&self) -> Self {
                    *self
                }
            }
            impl<R> Copy for $name<R> {}
        )*
    };
}
copy! { Reg Field Value Word }

impl<R> Reg<R> {
    /// Returns the register at dword `off` of segment `seg`.
    pub const fn new(name: &'static str, seg: u8, off: u32) -> Self {
        Self {
            name,
            seg,
            off,
            of: PhantomData,
        }
    }

    /// Returns the absolute dword address for an instance with these base addresses; `None` when
    /// the instance lists too few of them.
    pub const fn dword(self, bases: &[u32]) -> Option<u32> {
        if (self.seg as usize) < bases.len() {
            bases[self.seg as usize].checked_add(self.off)
        } else {
            None
        }
    }

    /// Returns the register without its type, for lists of different registers.
    pub const fn untyped(self) -> Reg<Untyped> {
        Reg::new(self.name, self.seg, self.off)
    }

    /// Returns the register together with the place of its value in an array of dwords.
    pub const fn from_word(self, word: Word<R>) -> (Reg<Untyped>, usize) {
        (self.untyped(), word.index)
    }
}

impl<R> Field<R> {
    /// Returns the field with this shift and in-place mask.
    pub const fn new(shift: u8, mask: u32) -> Self {
        Self {
            bits: bits::Field::new(shift, mask),
            of: PhantomData,
        }
    }

    /// Returns the field from its highest and lowest bit.
    pub const fn span(high: u8, low: u8) -> Self {
        Self {
            bits: bits::Field::span(high, low),
            of: PhantomData,
        }
    }

    /// Returns the field's bits, in place.
    pub const fn mask(self) -> u32 {
        self.bits.mask
    }

    /// Returns the largest value that fits.
    pub const fn max(self) -> u32 {
        self.bits.max()
    }

    /// Returns the field's value in `value`.
    pub const fn get(self, value: Value<R>) -> u32 {
        self.bits.get(value.raw)
    }

    /// Returns whether any bit of the field is set in `value`.
    pub const fn is_set(self, value: Value<R>) -> bool {
        self.bits.is_set(value.raw)
    }

    /// Returns a value with the field set to `to`, other bits zero.
    pub const fn put(self, to: u32) -> Value<R> {
        Value::new(self.bits.put(to))
    }

    /// Returns `value` with the field replaced by `to`.
    pub const fn set(self, value: Value<R>, to: u32) -> Value<R> {
        Value::new(self.bits.set(value.raw, to))
    }
}

impl<R> Value<R> {
    /// All bits zero.
    pub const ZERO: Self = Self::new(0);

    /// Returns the value with these bits.
    pub const fn new(raw: u32) -> Self {
        Self {
            raw,
            of: PhantomData,
        }
    }

    /// Returns the value with these fields, other bits zero.
    pub const fn of(fields: &[(Field<R>, u32)]) -> Self {
        Self::ZERO.with(fields)
    }

    /// Returns all bits.
    pub const fn raw(self) -> u32 {
        self.raw
    }

    /// Returns the value of a field.
    pub const fn get(self, field: Field<R>) -> u32 {
        field.get(self)
    }

    /// Returns whether any bit of a field is set.
    pub const fn is_set(self, field: Field<R>) -> bool {
        field.is_set(self)
    }

    /// Returns the value with a field replaced.
    pub const fn set(self, field: Field<R>, to: u32) -> Self {
        field.set(self, to)
    }

    /// Returns the value with these fields replaced.
    pub const fn with(self, fields: &[(Field<R>, u32)]) -> Self {
        let mut value = self;
        let mut i = 0;
        while i < fields.len() {
            value = value.set(fields[i].0, fields[i].1);
            i += 1;
        }
        value
    }
}

impl<R> Default for Value<R> {
    fn default() -> Self {
        Self::ZERO
    }
}

impl<R> core::fmt::Debug for Value<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::LowerHex::fmt(&self.raw, f)
    }
}

impl<R> PartialEq for Value<R> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl<R> From<u32> for Value<R> {
    fn from(raw: u32) -> Self {
        Self::new(raw)
    }
}

impl<R> BitOr for Value<R> {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self::new(self.raw | other.raw)
    }
}

impl<R> BitOrAssign for Value<R> {
    fn bitor_assign(&mut self, other: Self) {
        self.raw |= other.raw;
    }
}

impl<R> Word<R> {
    /// Returns the place at dword `index`.
    pub const fn new(index: usize) -> Self {
        Self {
            index,
            of: PhantomData,
        }
    }

    /// Returns the index of the dword.
    pub const fn index(self) -> usize {
        self.index
    }

    /// Returns the value at this place; `words` must be long enough.
    pub const fn get(self, words: &[u32]) -> Value<R> {
        Value::new(words[self.index])
    }

    /// Sets the value at this place; `words` must be long enough.
    pub fn set(self, words: &mut [u32], value: impl Into<Value<R>>) {
        words[self.index] = value.into().raw;
    }

    /// Sets the bits of `value` at this place; `words` must be long enough.
    pub fn or(self, words: &mut [u32], value: Value<R>) {
        words[self.index] |= value.raw;
    }
}

/// GC registers inside PM4 packets are local to the XCC that runs the packet: dword addresses of
/// that window, independent of the XCC's own base (`gfx_v9_4_3_normalize_xcc_reg_offset`,
/// `amdgpu/gfx_v9_4_3.c`).
pub const XCC_REG_WINDOW_LOW: core::ops::Range<u32> = 0x2000..0x3400;
/// The second such window.
pub const XCC_REG_WINDOW_HIGH: core::ops::Range<u32> = 0xa000..0x10000;

#[cfg(test)]
mod tests {
    use super::*;

    enum Control {}
    const ENABLE: Field<Control> = Field::new(0, 1);
    const SIZE: Field<Control> = Field::new(4, 0xf0);

    #[test]
    fn values_are_built_from_fields() {
        const BOTH: Value<Control> = Value::of(&[(ENABLE, 1), (SIZE, 3)]);
        assert_eq!(BOTH.raw(), 0x31);
        assert_eq!(BOTH, ENABLE.put(1) | SIZE.put(3));
        assert_eq!(BOTH.get(SIZE), 3);
        assert_eq!(BOTH.set(SIZE, 0xf).raw(), 0xf1);
        assert!(!BOTH.set(ENABLE, 0).is_set(ENABLE));
    }

    #[test]
    fn words_hold_values() {
        const WORD: Word<Control> = Word::new(1);
        let mut words = [0; 2];
        WORD.set(&mut words, ENABLE.put(1));
        WORD.or(&mut words, SIZE.put(2));
        assert_eq!(words, [0, 0x21]);
        assert_eq!(WORD.get(&words).get(SIZE), 2);
    }

    #[test]
    fn addresses_need_their_segment() {
        let reg: Reg<Control> = Reg::new("regX", 1, 0x40);
        assert_eq!(reg.dword(&[0x2000, 0xa000]), Some(0xa040));
        assert_eq!(reg.dword(&[0x2000]), None);
    }
}
