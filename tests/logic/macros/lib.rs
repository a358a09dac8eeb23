// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Attribute macros of the kernel's prelude, as far as they matter on the host.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// `#[pin_data]`: the struct without the `#[pin]` of its fields. Nothing is pinned on the host.
#[proc_macro_attribute]
pub fn pin_data(_attributes: TokenStream, item: TokenStream) -> TokenStream {
    item.into_iter()
        .map(|tree| match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                TokenTree::Group(Group::new(Delimiter::Brace, unpinned(group.stream())))
            }
            other => other,
        })
        .collect()
}

/// Returns the fields without `#[pin]`.
fn unpinned(fields: TokenStream) -> TokenStream {
    let mut kept = Vec::new();
    for tree in fields {
        let is_pin = matches!(&tree, TokenTree::Group(group)
            if group.delimiter() == Delimiter::Bracket && group.stream().to_string() == "pin");
        if is_pin {
            // The `#` before it.
            kept.pop();
        } else {
            kept.push(tree);
        }
    }
    kept.into_iter().collect()
}
