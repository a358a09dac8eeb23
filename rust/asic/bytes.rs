// SPDX-License-Identifier: GPL-2.0

//! Access to tables that are not trusted.

/// Returns `N` bytes of a table from byte `at` on, `None` beyond its end.
pub(crate) fn array_at<const N: usize>(table: &[u8], at: usize) -> Option<[u8; N]> {
    table.get(at..at.checked_add(N)?)?.try_into().ok()
}
