// SPDX-License-Identifier: GPL-2.0

//! Attributes of ranges of user memory. Pure data, without locks.
//!
//! Addresses are page numbers. GPUs are bits in the order of the devices of the process. Ranges
//! with equal attributes that touch each other are merged.

use kernel::{
    page::PAGE_SHIFT,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
};

use crate::{
    mmu::{Pages, BLOCK_PAGES},
    uapi,
};

/// Location of memory without a preference: `KFD_IOCTL_SVM_LOCATION_UNDEFINED`.
pub(crate) const UNDEFINED: u32 = uapi::kfd_ioctl_svm_location_KFD_IOCTL_SVM_LOCATION_UNDEFINED;
/// Location of system memory: `KFD_IOCTL_SVM_LOCATION_SYSMEM`.
pub(crate) const SYSTEM: u32 = uapi::kfd_ioctl_svm_location_KFD_IOCTL_SVM_LOCATION_SYSMEM;
/// Pages, in log2, that a fault migrates or maps (`amdgpu_svm_default_granularity`).
pub(super) const GRANULARITY: u32 = 9;
/// Maximum of that attribute; larger values are clamped.
const GRANULARITY_MAX: u32 = 0x3f;

/// The attributes of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Preferred location: the id of a GPU, 0 for system memory, or [`UNDEFINED`].
    pub(crate) preferred: u32,
    /// Location of the last prefetch.
    pub(crate) prefetch: u32,
    /// GPUs that may access the memory after a migration.
    pub(crate) access: u64,
    /// GPUs that may access the memory where it is.
    pub(crate) in_place: u64,
    /// `KFD_IOCTL_SVM_FLAG_*`.
    pub(crate) flags: u32,
    /// Pages of a migration, in log2.
    pub(crate) granularity: u32,
}

impl Attributes {
    /// Returns those of memory that was never registered, accessible for some GPUs.
    pub(super) fn new(access: u64) -> Self {
        Self {
            preferred: UNDEFINED,
            prefetch: UNDEFINED,
            access,
            in_place: 0,
            flags: uapi::KFD_IOCTL_SVM_FLAG_HOST_ACCESS | uapi::KFD_IOCTL_SVM_FLAG_COHERENT,
            granularity: GRANULARITY,
        }
    }

    /// Returns the GPUs with access.
    pub(super) fn gpus(&self) -> u64 {
        self.access | self.in_place
    }

    /// Returns whether a flag is set.
    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    fn apply(&mut self, change: &Change) {
        match *change {
            Change::Preferred(location) => self.preferred = location,
            Change::Prefetch(location) => self.prefetch = location,
            Change::Access(gpu) => {
                self.access |= gpu;
                self.in_place &= !gpu;
            }
            Change::InPlace(gpu) => {
                self.access &= !gpu;
                self.in_place |= gpu;
            }
            Change::NoAccess(gpu) => {
                self.access &= !gpu;
                self.in_place &= !gpu;
            }
            Change::SetFlags(flags) => self.flags |= flags,
            Change::ClearFlags(flags) => self.flags &= !flags,
            Change::Granularity(pages) => self.granularity = pages.min(GRANULARITY_MAX),
        }
    }
}

/// A change of one attribute. GPUs are bits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Sets the preferred location.
    Preferred(u32),
    /// Prefetches to a location.
    Prefetch(u32),
    /// Allows access of a GPU after a migration.
    Access(u64),
    /// Allows access of a GPU in place.
    InPlace(u64),
    /// Removes access of a GPU.
    NoAccess(u64),
    /// Sets flags.
    SetFlags(u32),
    /// Clears flags.
    ClearFlags(u32),
    /// Sets the granularity.
    Granularity(u32),
}

impl Change {
    /// Returns whether pages are to be mapped after the change. With retry faults a change of the
    /// access has an effect at the next one.
    pub(super) fn concerns_mapping(&self, retries: bool) -> bool {
        match self {
            Self::Access(_) | Self::InPlace(_) | Self::NoAccess(_) => !retries,
            Self::SetFlags(_) | Self::ClearFlags(_) => true,
            Self::Preferred(_) | Self::Prefetch(_) | Self::Granularity(_) => false,
        }
    }
}

/// Pages with the same attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttributeRange {
    /// First page.
    pub(crate) first: u64,
    /// End: the page after the last one.
    pub(crate) end: u64,
    /// The attributes.
    pub(crate) attributes: Attributes,
}

type Node = RBTreeNodeReservation<u64, AttributeRange>;

/// Registered ranges, without overlap.
pub(super) struct AttributeMap {
    /// By the page after the last one.
    ranges: RBTree<u64, AttributeRange>,
    /// Sum of their pages.
    pages: u64,
}

/// Ranges in the order of their addresses.
pub(super) struct Ranges<'a> {
    all: &'a RBTree<u64, AttributeRange>,
    first: u64,
    end: u64,
}

impl Iterator for Ranges<'_> {
    type Item = AttributeRange;

    fn next(&mut self) -> Option<AttributeRange> {
        let next = self.all.cursor_lower_bound(&self.first.checked_add(1)?)?;
        let range = *next.current().1;
        self.first = range.end;
        (range.first < self.end).then_some(range)
    }
}

/// Appends a range, or extends the last one.
fn push(list: &mut KVVec<AttributeRange>, range: AttributeRange) -> Result {
    if range.first >= range.end {
        return Ok(());
    }
    match list.last_mut() {
        Some(last) if last.end == range.first && last.attributes == range.attributes => {
            last.end = range.end;
            Ok(())
        }
        _ => Ok(list.push_within_capacity(range)?),
    }
}

impl AttributeMap {
    /// Returns a map without ranges.
    pub(super) fn new() -> Self {
        Self {
            ranges: RBTree::new(),
            pages: 0,
        }
    }

    /// Returns all ranges.
    pub(super) fn all(&self) -> Ranges<'_> {
        self.overlapping(0, u64::MAX)
    }

    /// Returns the ranges that overlap the pages from `first` to below `end`.
    pub(super) fn overlapping(&self, first: u64, end: u64) -> Ranges<'_> {
        Ranges {
            all: &self.ranges,
            first,
            end,
        }
    }

    /// Returns whether any of the pages from `first` to below `end` is registered.
    pub(super) fn has_any(&self, first: u64, end: u64) -> bool {
        self.overlapping(first, end).next().is_some()
    }

    /// Returns the range with a page.
    pub(super) fn get(&self, page: u64) -> Option<AttributeRange> {
        self.overlapping(page, page + 1).next()
    }

    /// Returns the registered pages of the block at page `base`.
    pub(super) fn in_block(&self, base: u64) -> Pages {
        let ranges = self.overlapping(base, base + BLOCK_PAGES as u64);
        ranges.fold(Pages::NONE, |sum, range| {
            let first = range.first.max(base) - base;
            let end = (range.end - base).min(BLOCK_PAGES as u64);
            sum.or(Pages::range(first as usize, end as usize))
        })
    }

    /// Returns the size of all ranges in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.pages << PAGE_SHIFT
    }

    /// Returns the registered pages from `first` to below `end`.
    pub(super) fn pages(&self, first: u64, end: u64) -> u64 {
        self.overlapping(first, end)
            .map(|range| range.end.min(end) - range.first.max(first))
            .sum()
    }

    /// Replaces the attributes of the ranges between `first` and `end`, and of the gaps between
    /// them (`None`), by the results of `f`; `None` removes a range. `ENOMEM` without memory, with
    /// nothing changed.
    fn replace(
        &mut self,
        first: u64,
        end: u64,
        mut f: impl FnMut(Option<&Attributes>) -> Option<Attributes>,
    ) -> Result {
        // With those that touch the pages: ranges with equal attributes are merged.
        let (from, to) = (first.saturating_sub(1), end.saturating_add(1));
        let count = self.overlapping(from, to).count();
        // Each range, the gap before it, one more gap, and two parts outside.
        let mut new = KVVec::with_capacity(2 * count + 3, GFP_KERNEL)?;
        let mut at = first;
        let mut fill = |new: &mut _, at: &mut u64, to: u64, old: Option<&Attributes>| {
            let (first, end) = (*at, to);
            *at = (*at).max(to);
            match f(old).filter(|_| first < end) {
                Some(attributes) => push(
                    new,
                    AttributeRange {
                        first,
                        end,
                        attributes,
                    },
                ),
                None => Ok(()),
            }
        };
        for range in self.overlapping(from, to) {
            if range.end <= first {
                push(&mut new, range)?;
                continue;
            }
            if range.first < first {
                let end = first;
                push(&mut new, AttributeRange { end, ..range })?;
            }
            if range.first < end {
                fill(&mut new, &mut at, range.first, None)?;
                fill(
                    &mut new,
                    &mut at,
                    range.end.min(end),
                    Some(&range.attributes),
                )?;
            }
            if range.end > end {
                fill(&mut new, &mut at, end, None)?;
                let first = range.first.max(end);
                push(&mut new, AttributeRange { first, ..range })?;
            }
        }
        fill(&mut new, &mut at, end, None)?;
        let mut nodes = KVVec::with_capacity(new.len(), GFP_KERNEL)?;
        for _ in count..new.len() {
            nodes.push_within_capacity(Node::new(GFP_KERNEL)?)?;
        }
        // Nothing fails from here on.
        while let Some(old) = self.overlapping(from, to).next() {
            let Some(node) = self.ranges.remove_node(&old.end) else {
                break;
            };
            self.pages -= old.end - old.first;
            // The memory of others is freed.
            let _ = nodes.push_within_capacity(node.into_reservation());
        }
        for (range, node) in new.into_iter().zip(nodes) {
            self.pages += range.end - range.first;
            self.ranges.insert(node.into_node(range.end, range));
        }
        Ok(())
    }

    /// Applies changes to the pages from `first` to below `end`; those that are not registered have
    /// `default` before. `ENOMEM` without memory, with nothing changed.
    pub(super) fn change(
        &mut self,
        first: u64,
        end: u64,
        default: &Attributes,
        changes: &[Change],
    ) -> Result {
        self.replace(first, end, |old| {
            let mut new = *old.unwrap_or(default);
            changes.iter().for_each(|change| new.apply(change));
            Some(new)
        })
    }

    /// Removes the pages from `first` to below `end`. `ENOMEM` without memory, with no change.
    pub(super) fn remove(&mut self, first: u64, end: u64) -> Result {
        if !self.has_any(first, end) {
            return Ok(());
        }
        self.replace(first, end, |_| None)
    }

    /// Removes all ranges.
    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }
}

/// Attributes of several ranges together, as GET_ATTR returns them.
pub(crate) struct Summary {
    /// Preferred location, if it is the same in all.
    pub(crate) preferred: u32,
    /// Prefetch location, if it is the same in all.
    pub(crate) prefetch: u32,
    /// GPUs with access in all.
    pub(crate) access: u64,
    /// GPUs with access in place in all.
    pub(crate) in_place: u64,
    /// Flags set in all.
    pub(crate) flags_all: u32,
    /// Flags set in one of them.
    pub(crate) flags_any: u32,
    /// The smallest granularity.
    pub(crate) granularity: u32,
}

impl Summary {
    /// Returns that of `ranges`; `default` if there are none.
    pub(super) fn new(
        mut ranges: impl Iterator<Item = AttributeRange>,
        default: &Attributes,
    ) -> Self {
        let first = ranges.next();
        // Unregistered memory has no location.
        let locations = first.map_or((UNDEFINED, UNDEFINED), |range| {
            (range.attributes.preferred, range.attributes.prefetch)
        });
        let first = first.map_or(*default, |range| range.attributes);
        let mut all = Self {
            preferred: locations.0,
            prefetch: locations.1,
            access: first.access,
            in_place: first.in_place,
            flags_all: first.flags,
            flags_any: first.flags,
            granularity: first.granularity,
        };
        ranges.for_each(|range| all.add(&range.attributes));
        all
    }

    fn add(&mut self, other: &Attributes) {
        if other.preferred != self.preferred {
            self.preferred = UNDEFINED;
        }
        if other.prefetch != self.prefetch {
            self.prefetch = UNDEFINED;
        }
        self.access &= other.access;
        self.in_place &= other.in_place;
        self.flags_all &= other.flags;
        self.flags_any |= other.flags;
        self.granularity = self.granularity.min(other.granularity);
    }
}
