// SPDX-License-Identifier: GPL-2.0

//! rkfd: AMD's compute interface `/dev/kfd` for Instinct GPUs, without the C amdgpu driver.
//!
//! Crate root: modules, init, exit. `ORDER` lists all files, lower layers first;
//! `Documentation/architecture.rst` explains them.

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
mod monitor;
mod mqd;
mod node;
mod partition;
mod process;
mod queue;
mod recovery;
mod ring;
mod svm;
mod topology;
mod trace;
mod uapi;

/// The module: its registrations, in the order in which they are removed.
#[pin_data]
struct Rkfd {
    _debugfs: debugfs::Root,
    // Devices first, then the remaining processes, then the parents of their files.
    #[pin]
    _pci: kernel::driver::Registration<kapi::pci_driver::Adapter<driver::Driver>>,
    _processes: process::Workqueues,
    _kfd: chardev::Device,
    _compat: compat::Registration,
    _jobs: kapi::sched::WorkqueueGuard,
    _statics: Statics,
}

/// Statics that need initialization.
struct Statics;

impl Statics {
    fn new() -> Self {
        node::init();
        card::account::init();
        mmu::pasid::init();
        process::init();
        topology::init();
        drm::init();
        Self
    }
}

impl Drop for Statics {
    fn drop(&mut self) {
        topology::exit();
        process::exit();
        node::exit();
        mmu::pasid::exit();
    }
}

impl kernel::InPlaceModule for Rkfd {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // The PCI driver last: probe needs everything else.
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
