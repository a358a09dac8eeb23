// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/asic/vbios.rs`.

#[allow(clippy::all)]
#[path = "../../../../rust/asic/vbios/image.rs"]
mod image;
#[cfg(test)]
mod image_check;
