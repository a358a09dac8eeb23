// SPDX-License-Identifier: GPL-2.0

//! What PCI devices say of themselves and the kernel crate does not pass on.

use kernel::{bindings, pci};

/// The number of the domain that a device's bus belongs to.
pub(crate) fn domain(pdev: &pci::Device) -> u32 {
    let raw: *mut bindings::pci_dev = core::ptr::from_ref(pdev).cast_mut().cast();
    // SAFETY: A device has a bus for as long as it exists.
    let domain = unsafe { crate::bindings::rkfd_helper_pci_domain_nr((*raw).bus) };
    domain as u32
}
