// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/drm`.

#[allow(clippy::all)]
#[path = "../../../rust/drm/handle_table.rs"]
mod handle_table;
#[cfg(test)]
mod handle_table_check;
