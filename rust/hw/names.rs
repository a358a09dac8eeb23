// SPDX-License-Identifier: GPL-2.0

//! Registers, fields and words that a block has under the same names in all its versions, each
//! version at its own places.

/// Declares a struct with a member for each of these names, and a macro that fills it in with what
/// a module of `abi` has under them. The macro takes what the version puts in front of the names,
/// if anything.
macro_rules! names {
    ($d:tt
        $(#[$meta:meta])*
        struct $name:ident, $fill:ident {
            $(regs { $($reg:ident,)* })?
            $(fields { $($field:ident,)* })?
            $(words { $($word:ident,)* })?
        }
    ) => {
        $(#[$meta])*
        #[allow(non_snake_case)]
        pub(in crate::hw) struct $name {
            $($(pub(in crate::hw) $reg: rkfd_abi::regs::Reg,)*)?
            $($(pub(in crate::hw) $field: rkfd_abi::regs::Field,)*)?
            $($(pub(in crate::hw) $word: usize,)*)?
        }

        macro_rules! $fill {
            ($d module:ident $d(, $d prefix:ident)?) => {
                kernel::macros::paste! {
                    $name {
                        $($($reg: $d module::[<reg $d($d prefix)? $reg>],)*)?
                        $($($field: $d module::[<$d($d prefix)? $field>],)*)?
                        $($($word: $d module::$word,)*)?
                    }
                }
            };
        }
        pub(in crate::hw) use $fill;
    };
}

pub(super) use names;
