// SPDX-License-Identifier: GPL-2.0

//! What the kernel crate lacks: safe wrappers of kernel interfaces, of use to any driver.
//!
//! Everything `unsafe` that talks to C lives here, so that others need not.

pub(crate) mod chardev;
pub(crate) mod dma;
pub(crate) mod dmabuf;
pub(crate) mod drm;
pub(crate) mod fence;
pub(crate) mod file;
pub(crate) mod gem;
pub(crate) mod global;
pub(crate) mod hmm;
pub(crate) mod iomem;
pub(crate) mod irq;
pub(crate) mod kobject;
pub(crate) mod mmu_notifier;
pub(crate) mod numa;
pub(crate) mod pci;
pub(crate) mod pci_driver;
pub(crate) mod platform;
pub(crate) mod resv;
pub(crate) mod sched;
pub(crate) mod syncobj;
pub(crate) mod task;
pub(crate) mod vma;
pub(crate) mod workqueue;

/// The module that this code is part of, for the `owner` of operations.
const fn this_module() -> *mut kernel::bindings::module {
    <crate::LocalModule as kernel::ModuleMetadata>::THIS_MODULE.as_ptr()
}

/// The C side of a device.
fn raw_device(dev: &kernel::device::Device) -> *mut kernel::bindings::device {
    core::ptr::from_ref(dev).cast_mut().cast()
}
