// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tests of the shader interpreter against Rust and llvm-mc. One program for all, since each links
//! the whole interpreter.

#[path = "../common/mod.rs"]
mod common;

mod decode;
mod decode_gfx1201;
mod gws;
mod kernels;
mod late;
mod launch;
mod launch_gfx1201;
mod matrix;
mod opcodes;
mod retry;
mod runs;
mod scope;
mod sweep;
mod trap;
mod wmma;
