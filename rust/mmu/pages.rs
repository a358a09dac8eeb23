// SPDX-License-Identifier: GPL-2.0

//! Blocks of 2 MiB of mirrored user memory, and sets of their pages.

use kernel::{page::PAGE_SIZE, prelude::*};

use crate::gpu::Gpu;

/// Pages of a block.
pub(crate) const BLOCK_PAGES: usize = 512;
/// Bytes of a block.
pub(crate) const BLOCK_BYTES: u64 = (BLOCK_PAGES * PAGE_SIZE) as u64;
/// A set of pages of a block.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pages([u64; BLOCK_PAGES / 64]);

impl Pages {
    /// No page.
    pub(crate) const NONE: Self = Self([0; BLOCK_PAGES / 64]);

    /// All pages.
    pub(crate) const ALL: Self = Self([u64::MAX; BLOCK_PAGES / 64]);

    /// Returns the pages from `first` to below `end`.
    pub(crate) fn range(first: usize, end: usize) -> Self {
        let mut pages = Self::NONE;
        pages.add_range(first, end);
        pages
    }

    /// Adds the pages from `first` to below `end`.
    pub(crate) fn add_range(&mut self, first: usize, end: usize) {
        let mut at = first;
        while at < end {
            let Some(word) = self.0.get_mut(at / 64) else {
                return;
            };
            let next = end.min((at / 64 + 1) * 64);
            *word |= (u64::MAX >> (64 - (next - at))) << (at % 64);
            at = next;
        }
    }

    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let mut all = self;
        for (a, b) in all.0.iter_mut().zip(other.0) {
            *a = f(*a, b);
        }
        all
    }

    /// Returns the pages in either set.
    pub(crate) fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    /// Returns the pages in both sets.
    pub(crate) fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    /// Returns the pages that are not in `other`.
    pub(crate) fn without(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    /// Returns whether the set is empty.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Returns whether a page is in the set.
    pub(crate) fn has(self, page: usize) -> bool {
        self.0
            .get(page / 64)
            .is_some_and(|word| word >> (page % 64) & 1 != 0)
    }

    /// Adds a page.
    pub(crate) fn add(&mut self, page: usize) {
        if let Some(word) = self.0.get_mut(page / 64) {
            *word |= 1 << (page % 64);
        }
    }

    /// Returns the number of pages.
    pub(crate) fn count(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns page `bit` of the first word in `words` that has pages, of which the first word has
    /// those of `mask` only.
    fn find<'a>(
        words: impl Iterator<Item = (usize, &'a u64)>,
        mut mask: u64,
        bit: impl Fn(u64) -> u32,
    ) -> Option<usize> {
        words
            .map(|(i, word)| (i, word & core::mem::replace(&mut mask, u64::MAX)))
            .find(|(_, word)| *word != 0)
            .map(|(i, word)| i * 64 + bit(word) as usize)
    }

    /// Returns the first page of the set from `from` on.
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        let words = self.0.iter().enumerate().skip(from / 64);
        Self::find(words, u64::MAX << (from % 64), u64::trailing_zeros)
    }

    /// Returns the last page of the set up to `to`, which is below [`BLOCK_PAGES`].
    pub(crate) fn last(&self, to: usize) -> Option<usize> {
        let words = self.0.iter().enumerate().take(to / 64 + 1).rev();
        Self::find(words, u64::MAX >> (63 - to % 64), u64::ilog2)
    }

    /// Returns the first page of the set and the end of the last one; `(0, 0)` for the empty set.
    pub(crate) fn bounds(&self) -> (usize, usize) {
        let last = self.last(BLOCK_PAGES - 1);
        (self.next(0).unwrap_or(0), last.map_or(0, |page| page + 1))
    }

    /// Calls `f` with the first page and the end of each run of pages.
    pub(crate) fn runs(self, mut f: impl FnMut(usize, usize) -> Result) -> Result {
        let others = Self::ALL.without(self);
        let mut page = 0;
        while let Some(first) = self.next(page) {
            page = others.next(first).unwrap_or(BLOCK_PAGES);
            f(first, page)?;
        }
        Ok(())
    }
}

/// A block with a pinned page table.
pub(super) struct Mirrored {
    /// Pages that BOs must not be mapped at.
    pub(super) owned: Pages,
}

/// Informed about an address space whose page tables were lost in a reset of the card.
pub(crate) trait MirrorOwner: Send + Sync {
    /// All PTEs of the mirrors on `gpu` are invalid now. Called with the lock of the page tables
    /// held.
    fn lost(&self, gpu: &Gpu);

    /// PTEs of the mirrors on `gpu` that were zapped may be valid again, those of pages that belong
    /// to the owner: VRAM was restored from a copy. TLBs are empty.
    fn restored(&self, gpu: &Gpu);
}
