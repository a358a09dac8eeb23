// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tests of the model through its bus interface, driver interface and command line. One program for
//! all, since each links the whole model.

mod common;

mod adversary;
mod firmware;
mod fuzz;
mod gfx12;
mod gfx12_boot;
mod gfx12_launch;
mod gfx12_sdma;
mod gmc;
mod ih;
mod l2;
mod launch;
mod partition;
mod program;
mod psp;
mod registers;
mod saver;
mod sdma;
mod sdma_user;
mod selfring;
mod server;
mod smu;
mod smu14;
mod xcc;
