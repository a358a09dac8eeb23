// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/asic/discovery.rs`.

#[allow(clippy::all)]
#[path = "../../../../rust/asic/discovery/table.rs"]
mod table;
#[cfg(test)]
mod table_check;
#[cfg(test)]
mod table_defects;
#[cfg(test)]
mod tables;

pub(crate) use table::MemoryTable;
