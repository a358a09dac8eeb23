// SPDX-License-Identifier: GPL-2.0

//! rkfd: AMD's compute interface `/dev/kfd` for Instinct GPUs, without the C amdgpu driver.
//!
//! This file is the list of rooms and the module's birth and death; `Documentation/architecture.rst` is
//! the map. Lower rooms never name higher ones:
//! `kapi` < `hw`, `gpu`, `mmu`, `ring`, `doorbell` < `mqd` < `dqm` < `queue` < `process` < `ioctl`,
//! `chardev`, `drm`, `topology`, `debugfs` < `driver`.

use kernel::prelude::*;

mod bindings;
mod doorbell;
mod dqm;
mod driver;
mod drm;
mod gpu;
mod hw;
mod kapi;
mod mmu;
mod mqd;
mod ring;
mod topology;
mod trace;
mod uapi;

/// The module: everything it registered, in the order in which it goes away.
#[pin_data(PinnedDrop)]
struct Rkfd {
    #[pin]
    _pci: kernel::driver::Registration<kernel::pci::Adapter<driver::Driver>>,
}

impl kernel::InPlaceModule for Rkfd {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        gpu::registry::init();
        mmu::pasid::init();
        topology::init();
        try_pin_init!(Self {
            _pci <- kernel::driver::Registration::new(<LocalModule as kernel::ModuleMetadata>::NAME, module),
        })
    }
}

#[pinned_drop]
impl PinnedDrop for Rkfd {
    fn drop(self: Pin<&mut Self>) {
        mmu::pasid::exit();
    }
}

module! {
    type: Rkfd,
    name: "rkfd",
    authors: ["rkfd contributors"],
    description: "AMD kernel fusion driver in Rust",
    license: "GPL",
}
