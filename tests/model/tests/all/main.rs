// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The model from outside: as a bus, a driver, or a shell sees it. One program
//! for all of it, as each is linked with the whole model.

mod common;

mod firmware;
mod fuzz;
mod gfx12;
mod gfx12_launch;
mod gfx12_sdma;
mod gmc;
mod ih;
mod launch;
mod program;
mod psp;
mod registers;
mod sdma;
mod sdma_user;
mod server;
