// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/svm`.

#[allow(clippy::all)]
#[path = "../../../rust/svm/attributes.rs"]
mod attributes;
#[cfg(test)]
mod attributes_check;
