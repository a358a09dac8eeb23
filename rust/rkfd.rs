// SPDX-License-Identifier: GPL-2.0

//! rkfd: AMD's compute interface `/dev/kfd` for Instinct GPUs, without the C amdgpu driver.
//!
//! This file is the list of rooms and the module's birth and death; `Documentation/architecture.rst` is
//! the map. Lower rooms never name higher ones:
//! `kapi` < `hw`, `gpu`, `mmu`, `ring`, `doorbell` < `mqd` < `dqm` < `queue` < `process` < `ioctl`,
//! `chardev`, `drm`, `topology`, `debugfs` < `driver`.

use kernel::prelude::*;

mod bindings;
mod kapi;
mod trace;
mod uapi;

/// The module: everything it registered, in the order in which it goes away.
struct Rkfd {}

impl kernel::Module for Rkfd {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {})
    }
}

module! {
    type: Rkfd,
    name: "rkfd",
    authors: ["rkfd contributors"],
    description: "AMD kernel fusion driver in Rust",
    license: "GPL",
}
