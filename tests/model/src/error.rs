// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Declaration of error enums with the text of each variant.

/// Declares an error enum; the text after `=>` is the variant's `Display` and may name its fields.
#[macro_export]
macro_rules! errors {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident $({ $($field:ident: $ty:ty),+ $(,)? })? => $text:literal),+
        $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(missing_docs)] // The fields; variants are documented.
        $vis enum $name {
            $($(#[$doc])* $variant $({ $($field: $ty),+ })?),+
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant $({ $($field),+ })? => write!(f, $text)),+
                }
            }
        }

        impl std::error::Error for $name {}
    };
}
