// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The working parts of the card.

pub mod cp;
pub mod gmc;
pub mod ih;
