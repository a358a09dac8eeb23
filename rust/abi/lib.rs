// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Facts about AMD silicon and firmware that the module and the GPU model share.
#![cfg_attr(not(test), no_std)]
#![crate_name = "rkfd_abi"]
