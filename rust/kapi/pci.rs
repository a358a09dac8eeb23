// SPDX-License-Identifier: GPL-2.0

//! What PCI devices say of themselves and the kernel crate does not pass on.

use kernel::{bindings, error::to_result, pci, prelude::*};

/// Keeps a device from reaching memory by itself, interrupts included.
pub(crate) fn clear_master(pdev: &pci::Device) {
    let raw: *mut bindings::pci_dev = core::ptr::from_ref(pdev).cast_mut().cast();
    // SAFETY: The device is valid; only its command register is changed.
    unsafe { bindings::pci_clear_master(raw) };
}

/// Lets a device reach memory by itself.
pub(crate) fn set_master(pdev: &pci::Device) {
    let raw: *mut bindings::pci_dev = core::ptr::from_ref(pdev).cast_mut().cast();
    // SAFETY: The device is valid; only its command register is changed.
    unsafe { bindings::pci_set_master(raw) };
}

/// Remembers the configuration of a device, interrupts included.
pub(crate) fn save_state(pdev: &pci::Device) -> Result {
    let raw: *mut bindings::pci_dev = core::ptr::from_ref(pdev).cast_mut().cast();
    // SAFETY: The device is valid, and bound to the driver that calls this.
    to_result(unsafe { bindings::pci_save_state(raw) })
}

/// Writes back what [`save_state`] has remembered.
pub(crate) fn restore_state(pdev: &pci::Device) {
    let raw: *mut bindings::pci_dev = core::ptr::from_ref(pdev).cast_mut().cast();
    // SAFETY: As above.
    unsafe { bindings::pci_restore_state(raw) };
}

/// The number of the domain that a device's bus belongs to.
pub(crate) fn domain(pdev: &pci::Device) -> u32 {
    let raw: *mut bindings::pci_dev = core::ptr::from_ref(pdev).cast_mut().cast();
    // SAFETY: A device has a bus for as long as it exists.
    let domain = unsafe { crate::bindings::rkfd_helper_pci_domain_nr((*raw).bus) };
    domain as u32
}
