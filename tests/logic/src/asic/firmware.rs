// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/asic/firmware.rs`.

#[allow(clippy::all)]
#[path = "../../../../rust/asic/firmware/image.rs"]
mod image;
#[cfg(test)]
mod image_check;
