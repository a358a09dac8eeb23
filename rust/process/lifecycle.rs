// SPDX-License-Identifier: GPL-2.0

//! Module load and unload, removal of GPUs.

use kernel::prelude::*;

use super::{
    debugfs, evict, invalid_packets, places, retry::worker, smi, sysfs, table, userptr, vm_fault,
};
use crate::{gpu::Gpu, kapi::static_queue::Installed, svm};

/// Initializes the static locks of `process`; called once, at module load.
pub(crate) fn init() {
    table::init();
    sysfs::init();
    debugfs::init();
    vm_fault::init();
    worker::init();
    evict::init();
    invalid_packets::init();
    places::init();
    smi::init();
    userptr::init();
    svm::init();
}

/// The work queues of `process`. Processes may exist while this does; dropping it ends those that
/// are left.
pub(crate) struct Workqueues {
    _faults: Installed,
    _packets: Installed,
    _restores: Installed,
    _refreshes: Installed,
    _svm: Installed,
    _retries: Installed,
    // Last: items of the others have references to processes.
    _places: places::Queues,
}

impl Workqueues {
    /// Creates the work queues, before there is a GPU. `ENOMEM` without memory.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            _faults: vm_fault::create_workqueue()?,
            _packets: invalid_packets::create_workqueue()?,
            _restores: evict::create_workqueue()?,
            _refreshes: userptr::create_workqueue()?,
            _svm: svm::create_workqueue()?,
            _retries: worker::create_workqueue()?,
            _places: places::Queues::new(),
        })
    }
}

impl Drop for Workqueues {
    fn drop(&mut self) {
        table::shutdown();
    }
}

/// Detaches all processes from a GPU that is being unplugged and signals their events.
///
/// Called while the hardware is still accessible. Further ioctls for this GPU fail with `ENODEV`.
pub(crate) fn detach_gpu(gpu: &Gpu) {
    // Includes a process that is being created, as it may have the GPU in its list.
    table::all_created().for_each(|process| process.detach_gpu(gpu));
}
