// SPDX-License-Identifier: GPL-2.0

//! Files of a card that name the resets of hung queues (`amdgpu_show_reset_mask`): `queue` and
//! `pipe` are resets of a queue of a process and of the pipe that executes it, `full` is that of
//! the card. No job of the driver runs on compute queues: there is no `soft_recovery`.

use core::fmt::Write;

use kernel::prelude::*;

use super::file::Fact;
use crate::kapi::kobject::Text;

/// The files.
pub(super) const RESETS: [Fact; 2] = [
    (c"compute_reset_mask", |gpu, out| {
        let pipe = gpu.generation().caps.resets_pipe;
        show(true, pipe, out)
    }),
    (c"sdma_reset_mask", |gpu, out| {
        // By the SMU, or by MES.
        let queue = gpu.smu_resets_sdma_queues() || gpu.generation().mes.is_some();
        show(queue, false, out)
    }),
];

fn show(queue: bool, pipe: bool, out: &mut Text<'_>) -> Result {
    for (word, is_there) in [("queue", queue), ("pipe", pipe), ("full", true)] {
        if is_there {
            write!(out, "{word} ")?;
        }
    }
    Ok(writeln!(out)?)
}
