// SPDX-License-Identifier: GPL-2.0

//! Tables of the registers, fields and MQD words that all versions of a block have under the same
//! name, each version at its own address.

/// Declares a struct with one member per register, field and word, and a macro that fills it in
/// from a module of `rkfd_abi::regs` or `rkfd_abi::mqd`.
///
/// `of NAMES` names the module of [`rkfd_abi::regs::name`] that holds the registers' types. `regs`
/// lists registers with their fields, `fields` fields alone, `words` dwords of an MQD that hold a
/// register's value, `plain` other dwords. The filling macro takes the module, and the prefix that
/// this version has before the names, if any.
macro_rules! names {
    ($d:tt
        $(#[$meta:meta])*
        struct $name:ident, $fill:ident of $marks:ident {
            $(regs { $($reg:ident $({ $($rf:ident,)* })?,)* })?
            $(fields { $($freg:ident { $($ff:ident,)* },)* })?
            $(plain { $($plain:ident,)* })?
            $(words { $($word:ident: $wreg:ident,)* })?
        }
    ) => {
        kernel::macros::paste! {
            $(#[$meta])*
            #[allow(non_snake_case)]
            pub(crate) struct $name {
                $($(
                    pub(crate) $reg: rkfd_abi::regs::Reg<$marks::$reg>,
                    $($(
                        pub(crate) [<$reg __ $rf>]: rkfd_abi::regs::Field<$marks::$reg>,
                    )*)?
                )*)?
                $($($(
                    pub(crate) [<$freg __ $ff>]: rkfd_abi::regs::Field<$marks::$freg>,
                )*)*)?
                $($(pub(crate) $plain: usize,)*)?
                $($(pub(crate) $word: rkfd_abi::regs::Word<$marks::$wreg>,)*)?
            }
        }

        macro_rules! $fill {
            ($d module:ident $d(, $d prefix:ident)?) => {
                kernel::macros::paste! {
                    $name {
                        $($(
                            $reg: $d module::[<reg $d($d prefix)? $reg>],
                            $($([<$reg __ $rf>]: $d module::[<$d($d prefix)? $reg __ $rf>],)*)?
                        )*)?
                        $($($([<$freg __ $ff>]: $d module::[<$d($d prefix)? $freg __ $ff>],)*)*)?
                        $($($plain: $d module::$plain,)*)?
                        $($($word: rkfd_abi::regs::Word::new($d module::$word),)*)?
                    }
                }
            };
        }
        pub(crate) use $fill;
    };
}

pub(super) use names;
