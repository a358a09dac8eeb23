// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the facts of `rkfd_abi` against AMD's headers, and parsers of the module that need no
//! kernel.

mod aql;
mod eeprom;
mod fru;
mod ids;
mod layouts;
mod mes;
mod pm4;
mod psp;
mod regs;
mod sdma;
mod selfcheck;
