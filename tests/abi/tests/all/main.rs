// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the facts of `rkfd_abi` against AMD's headers.

mod aql;
mod eeprom;
mod ids;
mod layouts;
mod mes;
mod pm4;
mod psp;
mod regs;
mod sdma;
mod selfcheck;
