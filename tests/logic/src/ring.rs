// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/ring`.

pub(crate) mod sdma;
