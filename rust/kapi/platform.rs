// SPDX-License-Identifier: GPL-2.0

//! What the machine says about itself: its maker, its processor clock, its PCI Express links.

use kernel::{bindings, pci, prelude::*};

/// Who made the platform, from the header of the ACPI table DSDT; all zero if there is none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Oem {
    /// Id of the maker, as a number of its bytes.
    pub(crate) id: u64,
    /// Id of the table, likewise.
    pub(crate) table_id: u64,
    /// Revision of the table.
    pub(crate) revision: u8,
}

/// Reads the maker.
pub(crate) fn oem() -> Oem {
    let mut table: *mut bindings::acpi_table_header = core::ptr::null_mut();
    // SAFETY: The name is a string of four letters, the place for the result is valid.
    let status =
        unsafe { bindings::acpi_get_table(c"DSDT".as_char_ptr().cast_mut(), 0, &mut table) };
    if status != 0 || table.is_null() {
        return Oem::default();
    }
    let number = |bytes: &[u8]| {
        let mut le = [0; 8];
        le[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(le)
    };
    // SAFETY: ACPI gave us a reference to a valid table; the header is read by value.
    let header = unsafe { core::ptr::read_unaligned(table) };
    // SAFETY: The reference is ours to give back.
    unsafe { bindings::acpi_put_table(table) };
    let (id, table_id) = (header.oem_id, header.oem_table_id);
    Oem {
        id: number(&id),
        table_id: number(&table_id),
        revision: header.revision,
    }
}

/// The highest clock of the first processor in MHz, 0 when unknown.
pub(crate) fn cpu_max_mhz() -> u32 {
    // SAFETY: Takes any processor number.
    unsafe { bindings::cpufreq_quick_get_max(0) / 1000 }
}

fn raw(pdev: &pci::Device) -> *mut bindings::pci_dev {
    core::ptr::from_ref(pdev).cast_mut().cast()
}

/// What goes over the narrowest link between a device and the memory, in MB/s; 0 when unknown.
pub(crate) fn link_mbytes(pdev: &pci::Device) -> u32 {
    let null = core::ptr::null_mut();
    // SAFETY: The device is valid; the answers that are not asked for may be null.
    let mbits =
        unsafe { bindings::pcie_bandwidth_available(raw(pdev), null, null.cast(), null.cast()) };
    mbits / 8
}

fn capability(pdev: &pci::Device, at: u32) -> u32 {
    let mut value = 0;
    // SAFETY: The device is valid. On failure the value is 0.
    unsafe { bindings::pcie_capability_read_dword(raw(pdev), at as i32, &mut value) };
    value
}

/// May the device send atomic operations to memory?
pub(crate) fn sends_atomics(pdev: &pci::Device) -> bool {
    capability(pdev, bindings::PCI_EXP_DEVCTL2) & bindings::PCI_EXP_DEVCTL2_ATOMIC_REQ != 0
}

/// Does the device carry out atomic operations sent to it?
pub(crate) fn completes_atomics(pdev: &pci::Device) -> bool {
    let any = bindings::PCI_EXP_DEVCAP2_ATOMIC_COMP32 | bindings::PCI_EXP_DEVCAP2_ATOMIC_COMP64;
    capability(pdev, bindings::PCI_EXP_DEVCAP2) & any != 0
}
