// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What waves do, compared with what Rust or llvm-mc say of it. One program for all of it, as each
//! one is linked with the whole interpreter.

#[path = "../common/mod.rs"]
mod common;

mod decode;
mod decode_gfx1201;
mod gws;
mod kernels;
mod launch;
mod launch_gfx1201;
mod matrix;
mod opcodes;
mod trap;
mod wmma;
