// SPDX-License-Identifier: GPL-2.0

//! bindgen output of `bindings_helper.h`. Raw items, used by `kapi`, `uapi` and `trace` only.

#![allow(
    clippy::all,
    clippy::ptr_as_ptr,
    clippy::ptr_cast_constness,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports
)]

include!(concat!(env!("RKFD_OBJ"), "/bindings_generated.rs"));
