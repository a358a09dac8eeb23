// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Facts about AMD silicon and firmware that the module and the GPU model share.
//!
//! Numbers, bit positions and memory layouts, without behaviour: emission order, initial values,
//! page-table walks and protocol state are implemented on either side independently, so that a
//! mistake in one does not hide in the other. Every module names the AMD header or document that
//! its facts come from; `tests/abi` compares them with those headers.
//!
//! The crate is `core` only. Kbuild compiles it as the second crate of `rkfd.ko`, cargo for the
//! model and the tests.
// Kbuild passes `no_std` on the command line.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![crate_name = "rkfd_abi"]
#![allow(non_upper_case_globals)]
#![warn(missing_docs, unreachable_pub)]

/// Defines a module of numbers: constants, the list `ALL` of them with AMD's names, and its look-up
/// `name`. A name is that of the constant unless a literal follows it. `=> values` holds items that
/// are not in the list.
macro_rules! numbers {
    (@name $name:ident) => { stringify!($name) };
    (@name $name:ident $amd:literal) => { $amd };
    (
        $(#[$meta:meta])* $module:ident: $type:ty {
            $($(#[$doc:meta])* $name:ident $($amd:literal)? = $value:expr,)*
            $(=> values { $($values:item)* })?
        }
    ) => {
        $(#[$meta])*
        pub mod $module {
            $($($values)*)?
            $($(#[$doc])* pub const $name: $type = $value;)*
            /// All numbers with AMD's names.
            pub const ALL: &[(&str, $type)] = &[$((numbers!(@name $name $($amd)?), $name),)*];

            /// Returns AMD's name of a number.
            pub fn name(value: $type) -> Option<&'static str> {
                ALL.iter().find(|(_, v)| *v == value).map(|(name, _)| *name)
            }
        }
    };
}

pub mod aql;
pub mod bits;
pub mod cwsr;
pub mod discovery;
pub mod doorbell;
pub mod eeprom;
pub mod firmware;
pub mod fru;
pub mod ih;
pub mod mes;
pub mod mmio;
pub mod mqd;
pub mod pm4;
pub mod psp;
pub mod pte;
pub mod regs;
pub mod sdma;
pub mod smu;
