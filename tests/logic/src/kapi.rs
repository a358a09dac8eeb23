// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/kapi`.

pub(crate) mod dma;
pub(crate) mod fence;
#[allow(clippy::all)]
#[path = "../../../rust/kapi/handle_table.rs"]
mod handle_table;
#[cfg(test)]
mod handle_table_check;
#[path = "../../../rust/kapi/log_limit.rs"]
pub(crate) mod log_limit;
#[path = "../../../rust/kapi/room.rs"]
pub(crate) mod room;

#[cfg(test)]
mod log_limit_check;
