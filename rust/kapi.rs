// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers of kernel interfaces that the kernel crate lacks; nothing here is specific to this
//! driver.
//!
//! Each file, or its parent, names the C headers that it wraps. `unsafe` code of the driver is
//! confined to these files, `uapi.rs`, `bindings.rs` and `trace.rs` (`scripts/check-layers.py`):
//! requirements on callers elsewhere are expressed by types, or checked at run time.

pub(crate) mod acpi;
pub(crate) mod bitmap;
pub(crate) mod capability;
pub(crate) mod chardev;
pub(crate) mod counted;
pub(crate) mod cpufeature;
pub(crate) mod cpufreq;
pub(crate) mod debugfs;
pub(crate) mod devcoredump;
pub(crate) mod device_file;
pub(crate) mod devmem;
pub(crate) mod dma;
pub(crate) mod dmabuf;
pub(crate) mod dmi;
pub(crate) mod drm;
pub(crate) mod fence;
pub(crate) mod file;
pub(crate) mod gem;
pub(crate) mod global;
pub(crate) mod handle_table;
pub(crate) mod hmm;
pub(crate) mod hwmon;
pub(crate) mod iomem;
pub(crate) mod irq;
pub(crate) mod kobject;
pub(crate) mod log_limit;
pub(crate) mod meminfo;
pub(crate) mod migrate;
pub(crate) mod mmu_notifier;
mod module_use;
pub(crate) mod numa;
pub(crate) mod pci;
pub(crate) mod pci_driver;
pub(crate) mod platform;
pub(crate) mod resv;
pub(crate) mod room;
pub(crate) mod sched;
pub(crate) mod sched_mm;
pub(crate) mod static_queue;
pub(crate) mod syncobj;
pub(crate) mod task;
pub(crate) mod timekeeping;
pub(crate) mod uaccess;
pub(crate) mod vma;
pub(crate) mod workqueue;

/// Returns this module, for the `owner` of operations.
const fn this_module() -> *mut kernel::bindings::module {
    <crate::LocalModule as kernel::ModuleMetadata>::THIS_MODULE.as_ptr()
}

/// Returns the C side of a device.
fn raw_device(dev: &kernel::device::Device) -> *mut kernel::bindings::device {
    core::ptr::from_ref(dev).cast_mut().cast()
}
