// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SMEM of gfx1201.

use super::super::{illegal, Decoded, Limits};

pub(super) fn smem(word: u32, _second: u32, _limits: &Limits) -> Decoded {
    illegal(format!("SMEM {word:#x}"))
}
