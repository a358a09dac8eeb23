// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/card/memory.rs`.

#[allow(clippy::all)]
#[path = "../../../../rust/card/memory/ranges.rs"]
mod ranges;
#[cfg(test)]
mod ranges_check;
