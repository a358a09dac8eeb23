// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/asic`.

#[allow(clippy::all)]
#[path = "../../../rust/asic/bytes.rs"]
pub(crate) mod bytes;
#[allow(clippy::all)]
#[path = "../../../rust/asic/caps.rs"]
pub(crate) mod caps;
#[allow(clippy::all)]
#[path = "../../../rust/asic/config.rs"]
pub(crate) mod config;
pub(crate) mod discovery;
mod firmware;
#[allow(clippy::all)]
#[path = "../../../rust/asic/fru.rs"]
mod fru;
#[cfg(test)]
mod fru_check;
#[allow(clippy::all)]
#[path = "../../../rust/asic/instance.rs"]
pub(crate) mod instance;
mod vbios;
#[allow(clippy::all)]
#[path = "../../../rust/asic/xcc.rs"]
pub(crate) mod xcc;
