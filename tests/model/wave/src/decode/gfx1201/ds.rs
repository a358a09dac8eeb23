// SPDX-License-Identifier: GPL-2.0 OR MIT

//! VDS of gfx1201.

use super::super::{illegal, Decoded, Limits};

pub(super) fn ds(word: u32, _second: u32, _limits: &Limits) -> Decoded {
    illegal(format!("VDS {word:#x}"))
}
