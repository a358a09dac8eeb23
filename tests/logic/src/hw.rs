// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/hw`: the page table formats, and the numbers of the generations.

pub(crate) mod gfx;
pub(crate) mod gfx12;
pub(crate) mod gfx9_4_3;
mod gmc;

#[cfg(test)]
pub(crate) use gmc::Mtype;
pub(crate) use gmc::{Level, PageFormat, PteAttrs};

/// The format of gfx9.
pub(crate) static GFX9: &dyn PageFormat = &gfx9_4_3::gmc::Gmc;
/// The format of gfx12.
pub(crate) static GFX12: &dyn PageFormat = &gfx12::gmc::Gmc;
