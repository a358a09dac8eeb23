// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Compares the facts in rkfd_abi with the C headers of the Linux driver.
