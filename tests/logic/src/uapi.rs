// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/uapi.rs`: constants, bound by the build script.

#![allow(non_camel_case_types, non_upper_case_globals)]

include!(concat!(env!("OUT_DIR"), "/uapi.rs"));
