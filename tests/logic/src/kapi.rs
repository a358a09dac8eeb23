// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/kapi`.

pub(crate) mod dma;
pub(crate) mod fence;
#[path = "../../../rust/kapi/log_limit.rs"]
pub(crate) mod log_limit;

#[cfg(test)]
mod log_limit_check;
