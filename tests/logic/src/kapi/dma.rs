// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/kapi/dma.rs`.

#[path = "../../../../rust/kapi/dma/runs.rs"]
mod runs;

pub(crate) use runs::{DmaRuns, Run};
