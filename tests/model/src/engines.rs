// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The engines of the card.

pub mod athub;
pub mod cp;
pub mod df;
pub mod doorbells;
pub mod firmware;
pub mod gc;
pub mod gmc;
pub mod hdp;
pub mod ih;
pub mod memory;
pub mod mes;
pub mod nbio;
pub mod psp;
pub mod rom;
pub mod sdma;
pub mod smu;
