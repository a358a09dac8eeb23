// SPDX-License-Identifier: GPL-2.0

//! What the machine says about itself: its maker, its processor clock, its PCI Express links.

use kernel::{bindings, pci, prelude::*};

use super::numa;

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

/// What goes over the link between a card and the platform in MB/s, as the slot could do at best:
/// lanes times transfer rate, without what the encoding takes. Bridges of the card itself are no link.
/// Where no link tells, what the C driver assumes then.
pub(crate) fn link_mbytes(pdev: &pci::Device) -> u32 {
    /// `PCIE_LNK_WIDTH_UNKNOWN`.
    const UNKNOWN_WIDTH: u32 = 0xff;
    const ASSUMED_LANES: u32 = 16;
    /// One lane in Mbit/s.
    const ASSUMED_RATE: u32 = 5000;

    let (speed, width) = if numa::is_amd() {
        partner(pdev)
    } else {
        // These platforms do not change the speed of a link while it runs: it is what it is.
        let (mut speed, mut width) = (bindings::pci_bus_speed_PCI_SPEED_UNKNOWN, UNKNOWN_WIDTH);
        let null = core::ptr::null_mut();
        // SAFETY: The device is valid, and so are the two places; who limits is not asked.
        unsafe { bindings::pcie_bandwidth_available(raw(pdev), null, &mut speed, &mut width) };
        (speed, width)
    };
    let rate = match speed {
        bindings::pci_bus_speed_PCIE_SPEED_2_5GT => 2500,
        bindings::pci_bus_speed_PCIE_SPEED_8_0GT => 8000,
        bindings::pci_bus_speed_PCIE_SPEED_16_0GT => 16000,
        bindings::pci_bus_speed_PCIE_SPEED_32_0GT => 32000,
        bindings::pci_bus_speed_PCIE_SPEED_64_0GT => 64000,
        _ => ASSUMED_RATE,
    };
    let lanes = match width {
        UNKNOWN_WIDTH | 0 => ASSUMED_LANES,
        lanes => lanes,
    };
    lanes * rate / 8
}

/// Best speed and width of the platform's end of a card's link.
fn partner(pdev: &pci::Device) -> (bindings::pci_bus_speed, bindings::pcie_link_width) {
    let unknown = (
        bindings::pci_bus_speed_PCI_SPEED_UNKNOWN,
        bindings::pcie_link_width_PCIE_LNK_WIDTH_UNKNOWN,
    );
    let mut at = raw(pdev);
    loop {
        // SAFETY: A device has a bus for as long as it exists, and a bus below a bridge has that
        // bridge as long; a root bus has none.
        let bridge = unsafe { (*(*at).bus).self_ };
        if bridge.is_null() {
            return unknown;
        }
        // SAFETY: As above.
        if unsafe { (*bridge).vendor } != pdev.vendor_id().as_raw() {
            // SAFETY: As above; both only read the bridge's configuration.
            return unsafe {
                (
                    bindings::pcie_get_speed_cap(bridge),
                    bindings::pcie_get_width_cap(bridge),
                )
            };
        }
        at = bridge;
    }
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
