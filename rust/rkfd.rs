// SPDX-License-Identifier: GPL-2.0

//! rkfd: AMD's compute interface `/dev/kfd` for Instinct and Radeon GPUs, without amdgpu.
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
    /// `EINVAL` for an invalid module parameter.
    fn new() -> Result<Self> {
        check_parameters()?;
        node::init();
        card::account::init();
        mmu::pasid::init();
        process::init();
        topology::init();
        drm::init();
        compat::init();
        Ok(Self)
    }
}

impl Drop for Statics {
    fn drop(&mut self) {
        topology::exit();
        node::exit();
        mmu::pasid::exit();
    }
}

/// Checks the module parameters. `EINVAL` for a value beyond its range.
fn check_parameters() -> Result {
    /// Maximum of `max_num_of_queues_per_device`.
    const MAX_QUEUES: u32 = 4096;
    let queues = module_parameters::max_num_of_queues_per_device.value();
    if !(1..=MAX_QUEUES).contains(&queues) {
        pr_err!("max_num_of_queues_per_device is {queues}, not 1 to {MAX_QUEUES}\n");
        return Err(EINVAL);
    }
    if module_parameters::queue_preemption_timeout_ms.value() == 0 {
        pr_err!("queue_preemption_timeout_ms is 0\n");
        return Err(EINVAL);
    }
    check_policies()
}

/// Checks the parameters that select a policy. `EINVAL` for an unsupported value.
fn check_policies() -> Result {
    let policy = module_parameters::sched_policy.value();
    if !(0..=1).contains(&policy) {
        pr_err!("sched_policy is {policy}, not 0 or 1: queues are scheduled by firmware\n");
        return Err(EINVAL);
    }
    if module_parameters::cwsr_enable.value() == 0 {
        pr_err!("cwsr_enable is 0: queues are not preempted without CWSR\n");
        return Err(EINVAL);
    }
    let user_queue = module_parameters::user_queue.value();
    if !(-1..=1).contains(&user_queue) {
        pr_err!("user_queue is {user_queue}, not -1 to 1\n");
        return Err(EINVAL);
    }
    let noretry = module_parameters::noretry.value();
    if !(-1..=1).contains(&noretry) {
        pr_err!("noretry is {noretry}, not -1 to 1\n");
        return Err(EINVAL);
    }
    Ok(())
}

impl kernel::InPlaceModule for Rkfd {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // The PCI driver last: probe needs everything else.
        try_pin_init!(Self {
            _statics: Statics::new()?,
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
        lockup_timeout: i32 {
            default: 0,
            description: "Timeout in ms of SDMA jobs, after which the engine is reset, and of fences of user queues, after which the queue is stopped (0, default: 10000; negative: no limit)",
        },
        queue_preemption_timeout_ms: u32 {
            default: 9000,
            description: "Timeout in ms of the preemption of all queues, after which the card is reset (minimum 1, default 9000)",
        },
        hws_max_conc_proc: i32 {
            default: -1,
            description: "Maximum number of processes that the scheduler firmware runs at a time (0: no concurrency, -1, default: number of VMIDs)",
        },
        max_num_of_queues_per_device: u32 {
            default: 4096,
            description: "Queues of a GPU (1 to 4096, default 4096)",
        },
        sched_policy: i32 {
            default: 0,
            description: "Scheduling of queues by firmware (0: with oversubscription (default), 1: without)",
        },
        cwsr_enable: i32 {
            default: 1,
            description: "Waves are saved and restored at a preemption (default 1; 0 is not supported)",
        },
        noretry: i32 {
            default: -1,
            description: "Retry faults of new processes (0: enabled if all GPUs have them, 1: disabled, -1: disabled (default))",
        },
        user_queue: i32 {
            default: -1,
            description: "User queues of the render node (1: where GPU and firmware have them, 0, -1: none (default))",
        },
        no_system_mem_limit: bool {
            default: false,
            description: "Do not limit system memory of GPUs but GTT (default N)",
        },
    },
}

kernel::module_firmware!(hw::ModInfo);
