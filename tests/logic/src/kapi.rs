// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/kapi`.

pub(crate) mod fence;
