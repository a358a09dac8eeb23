// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Opcodes, assembled by llvm-mc, executed, and compared with results computed in Rust.

#![allow(
    clippy::neg_cmp_op_on_partial_ord,
    clippy::double_comparisons,
    reason = "what unordered comparisons do is what is tested"
)]

mod constants;
mod cross;
mod double;
mod formats;
mod int;
mod lds;
mod memory;
mod modes;
mod packed;
mod rdna;
mod rdna_memory;
mod scalar;
mod single;
mod small;
