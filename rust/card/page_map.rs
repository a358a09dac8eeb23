// SPDX-License-Identifier: GPL-2.0

//! Bitmaps over the pages of VRAM.

use core::{iter, ops::Range};

use kernel::{new_mutex, prelude::*, sync::Mutex};
use rkfd_abi::pte::PAGE_SIZE;

/// Returns first bit and length of each run of set bits.
fn runs(mut word: u64) -> impl Iterator<Item = (u32, u32)> {
    iter::from_fn(move || {
        if word == 0 {
            return None;
        }
        let bit = word.trailing_zeros();
        let count = (word >> bit).trailing_ones();
        word &= !((!0u64 >> (64 - count)) << bit);
        Some((bit, count))
    })
}

/// A bitmap with one bit per page of VRAM.
#[pin_data]
pub(super) struct PageMap {
    #[pin]
    inner: Mutex<Bits>,
}

struct Bits {
    words: KVVec<u64>,
    /// Incremented by each [`PageMap::unset_all`].
    epoch: u64,
}

impl PageMap {
    /// Returns a map of `bytes` of VRAM with all bits clear. `ENOMEM` without memory.
    pub(super) fn new(bytes: u64) -> Result<impl PinInit<Self, Error>> {
        let pages = usize::try_from(bytes / PAGE_SIZE)?;
        let words = KVVec::<u64>::zeroed(pages.div_ceil(64), GFP_KERNEL)?;
        Ok(try_pin_init!(Self {
            inner <- new_mutex!(Bits { words, epoch: 0 }, "rkfd_pages"),
        }))
    }

    /// Sets the bits of `pieces` (offset and length in bytes).
    pub(super) fn set(&self, pieces: &[(u64, u64)]) {
        self.inner.lock().set(pieces);
    }

    /// Sets the bits of `pieces` unless [`PageMap::unset_all`] ran since [`PageMap::epoch`]
    /// returned `epoch`.
    pub(super) fn set_since(&self, epoch: u64, pieces: &[(u64, u64)]) {
        let mut inner = self.inner.lock();
        if inner.epoch == epoch {
            inner.set(pieces);
        }
    }

    /// Clears the bits of `pieces`.
    pub(super) fn unset(&self, pieces: &[(u64, u64)]) {
        self.inner.lock().unset(pieces);
    }

    /// Clears all bits.
    pub(super) fn unset_all(&self) {
        let mut inner = self.inner.lock();
        inner.words.fill(0);
        inner.epoch += 1;
    }

    /// Returns a number that changes with each [`PageMap::unset_all`].
    pub(super) fn epoch(&self) -> u64 {
        self.inner.lock().epoch
    }

    /// Returns offset and length in bytes of each run of set bits. `ENOMEM` without memory.
    pub(super) fn pieces(&self) -> Result<KVVec<(u64, u64)>> {
        let mut pieces: KVVec<(u64, u64)> = KVVec::new();
        let inner = self.inner.lock();
        for (i, word) in inner.words.iter().enumerate() {
            for (bit, count) in runs(*word) {
                let start = (i as u64 * 64 + u64::from(bit)) * PAGE_SIZE;
                let len = u64::from(count) * PAGE_SIZE;
                match pieces.last_mut() {
                    Some((s, l)) if *s + *l == start => *l += len,
                    _ => pieces.push((start, len), GFP_KERNEL)?,
                }
            }
        }
        Ok(pieces)
    }

    /// Clears the bits of `pieces` and calls `missing` with offset and length of each run whose
    /// bits were clear before. Returns the first error of `missing`.
    pub(super) fn take(
        &self,
        pieces: &[(u64, u64)],
        missing: &mut impl FnMut(u64, u64) -> Result,
    ) -> Result {
        let mut inner = self.inner.lock();
        for (start, len) in pieces {
            if inner.all_set(*start, *len) {
                continue;
            }
            // End of the last run of set bits.
            let mut from = *start;
            let mut result = Ok(());
            for_words(*start, *len, |words, mask| {
                for i in words {
                    let word_at = i as u64 * 64 * PAGE_SIZE;
                    for (bit, count) in runs(inner.words[i] & mask) {
                        let first = word_at + u64::from(bit) * PAGE_SIZE;
                        if from < first && result.is_ok() {
                            result = missing(from, first - from);
                        }
                        from = first + u64::from(count) * PAGE_SIZE;
                    }
                }
            });
            result?;
            if from < start + len {
                missing(from, start + len - from)?;
            }
        }
        inner.unset(pieces);
        Ok(())
    }
}

impl Bits {
    fn set(&mut self, pieces: &[(u64, u64)]) {
        for (start, len) in pieces {
            for_words(*start, *len, |words, mask| match mask {
                u64::MAX => self.words[words].fill(mask),
                _ => self.words[words].iter_mut().for_each(|word| *word |= mask),
            });
        }
    }

    fn unset(&mut self, pieces: &[(u64, u64)]) {
        for (start, len) in pieces {
            for_words(*start, *len, |words, mask| match mask {
                u64::MAX => self.words[words].fill(0),
                _ => self.words[words].iter_mut().for_each(|word| *word &= !mask),
            });
        }
    }

    /// Returns whether the bits of `len` bytes from `start` on are all set.
    fn all_set(&self, start: u64, len: u64) -> bool {
        let mut all = true;
        for_words(start, len, |words, mask| {
            // Without an early exit, which costs more than the words that it saves.
            let both = self.words[words].iter().fold(!0, |both, word| both & word);
            all &= both & mask == mask;
        });
        all
    }
}

/// Calls `f` with the indices of 64-bit words that hold bits of the given bytes, and the mask of
/// these bits: once for the words that hold nothing else, and before and after them for a word that
/// holds other bits, too.
fn for_words(start: u64, len: u64, mut f: impl FnMut(Range<usize>, u64)) {
    let end = (start + len) / PAGE_SIZE;
    let mut page = start / PAGE_SIZE;
    while page < end {
        let (word, bit) = ((page / 64) as usize, page % 64);
        let words = match bit {
            0 => ((end - page) / 64).max(1),
            _ => 1,
        };
        let bits = (words * 64 - bit).min(end - page);
        let mask = match words {
            1 => (!0 >> (64 - bits)) << bit,
            _ => !0,
        };
        f(word..word + words as usize, mask);
        page += bits;
    }
}
