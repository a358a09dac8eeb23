// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Files of the module that decide without hardware, compiled for the host and checked there.
//!
//! The modules have the names of the crate of the driver, so that its files find each other. What
//! belongs to a file that is not compiled here is replaced by what the compiled ones use of it.
#![forbid(unsafe_code)]
// The module uses what the checks do not. Its files are linted with the module.
#![allow(dead_code)]

mod asic;
mod bindings;
mod card;
mod gpu;
mod hw;
mod kapi;
mod mmu;
mod process;
mod ring;
mod svm;
mod uapi;

#[cfg(test)]
mod random;
