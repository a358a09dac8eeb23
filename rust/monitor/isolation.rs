// SPDX-License-Identifier: GPL-2.0

//! `enforce_isolation` of a card: whether its processes have queues on the hardware at the same
//! time, by partition (`amdgpu_gfx.c`).

use core::fmt::Write;

use kernel::prelude::*;

use super::file::{Action, Fact};
use crate::{
    asic::xcc::MAX_XCCS,
    gpu::{Gpu, Isolation},
    kapi::kobject::Text,
};

/// The file, and the effect of a write.
pub(super) const ISOLATION: (Fact, Action) = ((c"enforce_isolation", show), store);

/// By number.
const VALUES: [Isolation; 4] = [
    Isolation::None,
    Isolation::Processes,
    Isolation::Jobs,
    Isolation::JobsUncleaned,
];

fn show(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    for partition in 0..gpu.partitions() {
        let gap = if partition == 0 { "" } else { " " };
        write!(out, "{gap}{}", gpu.isolation(partition) as u32)?;
    }
    Ok(writeln!(out)?)
}

/// Sets the isolation of all partitions; more numbers are ignored. `EINVAL` if there are fewer, and
/// for another number than that of a value.
fn store(gpu: &Gpu, text: &[u8]) -> Result {
    let mut new = [Isolation::None; MAX_XCCS];
    let mut words = text
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let count = gpu.partitions() as usize;
    for to in new.iter_mut().take(count) {
        let value = match words.next() {
            Some([digit @ b'0'..=b'3']) => usize::from(digit - b'0'),
            _ => return Err(EINVAL),
        };
        *to = VALUES[value];
    }
    gpu.isolate(&new[..count.min(MAX_XCCS)])
}
