// SPDX-License-Identifier: GPL-2.0

//! rkfd: AMD's compute interface `/dev/kfd` for Instinct GPUs, without the C amdgpu driver.
//!
//! This file is the list of rooms and the module's birth and death; `Documentation/architecture.rst` is
//! the map. Lower rooms never name higher ones:
//! `kapi` < `asic` < `hw`, `gpu`, `mmu`, `ring`, `doorbell` < `mqd` < `dqm` < `queue` < `process` < `ioctl`,
//! `chardev`, `drm`, `topology`, `debugfs`, `compat`, `recovery` < `driver`.

use kernel::prelude::*;

mod asic;
mod bindings;
mod card;
mod chardev;
mod compat;
mod debugfs;
mod doorbell;
mod dqm;
mod driver;
mod drm;
mod gpu;
mod hw;
mod ioctl;
mod kapi;
mod mmu;
mod mqd;
mod node;
mod process;
mod queue;
mod recovery;
mod ring;
mod topology;
mod trace;
mod uapi;

/// The module: everything it registered, in the order in which it goes away.
#[pin_data]
struct Rkfd {
    _debugfs: debugfs::Root,
    // GPUs go first, then what is left of processes, then what these are shown below of.
    #[pin]
    _pci: kernel::driver::Registration<kapi::pci_driver::Adapter<driver::Driver>>,
    _processes: process::Workqueues,
    _kfd: chardev::Device,
    _compat: compat::Registration,
    _jobs: kapi::sched::WorkqueueGuard,
    _statics: Statics,
}

/// What lives in statics of the rooms.
struct Statics;

impl Statics {
    fn new() -> Self {
        node::init();
        card::account::init();
        mmu::pasid::init();
        process::init();
        topology::init();
        Self
    }
}

impl Drop for Statics {
    fn drop(&mut self) {
        mmu::pasid::exit();
    }
}

impl kernel::InPlaceModule for Rkfd {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // GPUs come when all that shows them is there.
        try_pin_init!(Self {
            _statics: Statics::new(),
            _jobs: kapi::sched::WorkqueueGuard::new()?,
            _compat: compat::Registration::new()?,
            _debugfs: debugfs::new()?,
            _kfd: chardev::Device::new()?,
            _processes: process::Workqueues::new()?,
            _pci <- kernel::driver::Registration::new(<LocalModule as kernel::ModuleMetadata>::NAME, module),
        })
    }
}

module! {
    type: Rkfd,
    name: "rkfd",
    authors: ["rkfd contributors"],
    description: "AMD kernel fusion driver in Rust",
    license: "GPL",
    imports_ns: ["DMA_BUF"],
    params: {
        lockup_timeout: u32 {
            default: 10000,
            description: "Time in ms that a job of a DMA engine may take before the engine is reset (default 10000)",
        },
    },
}

kernel::module_firmware!(hw::ModInfo);
