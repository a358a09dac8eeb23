// SPDX-License-Identifier: GPL-2.0 OR MIT

//! VBUFFER of gfx1201.

use super::super::{illegal, Decoded, Limits, WORDS};

pub(super) fn buffer([word, ..]: [u32; WORDS], _limits: &Limits) -> Decoded {
    illegal(format!("VBUFFER {word:#x}"))
}
