// SPDX-License-Identifier: GPL-2.0 OR MIT

//! VFLAT, VGLOBAL and VSCRATCH of gfx1201.

use super::super::{illegal, Decoded, Limits, WORDS};

pub(super) fn flat([word, ..]: [u32; WORDS], _limits: &Limits) -> Decoded {
    illegal(format!("VFLAT {word:#x}"))
}

pub(super) fn global([word, ..]: [u32; WORDS], _limits: &Limits) -> Decoded {
    illegal(format!("VGLOBAL {word:#x}"))
}

pub(super) fn scratch([word, ..]: [u32; WORDS], _limits: &Limits) -> Decoded {
    illegal(format!("VSCRATCH {word:#x}"))
}
