// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MQDs (memory queue descriptors): the memory image of a queue, loaded and saved by firmware.
//!
//! Sources: `include/v9_structs.h`, `include/v12_structs.h`. Indices and sizes are in dwords,
//! little endian.

/// Declares an MQD: the struct, and module `dw` with the index of every named dword.
macro_rules! mqd {
    (
        $(#[$meta:meta])*
        $name:ident, $dwords:literal;
        $($field:ident $(: [$n:literal])?),* $(,)?
    ) => {
        $(#[$meta])*
        #[allow(missing_docs)]
        #[derive(
            Clone, Copy, zerocopy_derive::FromBytes, zerocopy_derive::IntoBytes,
            zerocopy_derive::Immutable, zerocopy_derive::KnownLayout,
        )]
        #[repr(C)]
        pub struct $name {
            $(pub $field: mqd!(@type $($n)?)),*
        }

        impl $name {
            /// Size of the descriptor, in dwords.
            pub const DWORDS: usize = $dwords;

            /// Returns a descriptor of zeros.
            pub const fn zeroed() -> Self {
                Self { $($field: mqd!(@zero $($n)?)),* }
            }

            /// Returns the descriptor as dwords.
            pub fn dwords(&self) -> &[u32; $dwords] {
                zerocopy::transmute_ref!(self)
            }

            /// Returns the descriptor as mutable dwords.
            pub fn dwords_mut(&mut self) -> &mut [u32; $dwords] {
                zerocopy::transmute_mut!(self)
            }
        }

        const _: () = assert!(core::mem::size_of::<$name>() == 4 * $dwords);

        /// Index of every named dword.
        #[allow(missing_docs)]
        pub mod dw {
            $(pub const $field: usize = core::mem::offset_of!(super::$name, $field) / 4;)*
            /// All names with their index; a `reserved_` entry covers the dwords up to the next
            /// entry.
            pub const NAMES: &[(&str, usize)] = &[$((stringify!($field), $field)),*];
        }
    };
    (@type) => { u32 };
    (@type $n:literal) => { [u32; $n] };
    (@zero) => { 0 };
    (@zero $n:literal) => { [0; $n] };
}

pub mod v12;
pub mod v12_sdma;
pub mod v9;
pub mod v9_sdma;
