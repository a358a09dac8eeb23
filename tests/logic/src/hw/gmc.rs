// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/hw/gmc.rs`.

#[allow(clippy::all)]
#[path = "../../../../rust/hw/gmc/format.rs"]
mod format;

pub(super) use format::FormatVersion;
pub(crate) use format::{Level, Mtype, PageFormat, PteAttrs};
