// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/card`.

mod memory;
#[allow(clippy::all)]
#[path = "../../../rust/card/page_map.rs"]
mod page_map;
#[cfg(test)]
mod page_map_check;
pub(crate) mod vram;
