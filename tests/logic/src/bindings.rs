// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/bindings.rs`.
#![allow(non_camel_case_types)]

/// `rust/c/helpers.h`.
#[derive(Clone, Copy)]
pub(crate) struct rkfd_run {
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) addr: u64,
}
