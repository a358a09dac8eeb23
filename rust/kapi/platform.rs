// SPDX-License-Identifier: GPL-2.0

//! What the machine says about itself: its maker, its processor clock, its PCI Express links.

use kernel::{bindings, pci, prelude::*};

use super::numa;
use crate::bindings as ours;

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

/// Is the machine a virtual one?
pub(crate) fn in_guest() -> bool {
    // SAFETY: Looks at what was found at boot.
    unsafe { ours::rkfd_helper_in_guest() }
}

/// The link between a card and the platform, as both ends could have it at best.
pub(crate) struct PcieLink {
    /// Generation of PCI Express that both have.
    pub(crate) generation: u32,
    /// Lanes that both have.
    pub(crate) lanes: u32,
    /// What the platform's end could pass in MB/s: lanes times transfer rate, without what the encoding
    /// takes.
    pub(crate) mbytes: u32,
}

/// The link of a card. Bridges of the card itself are no link. Where no link tells, what the C driver
/// assumes then.
pub(crate) fn link(pdev: &pci::Device) -> PcieLink {
    /// `PCIE_LNK_WIDTH_UNKNOWN`.
    const UNKNOWN_WIDTH: u32 = 0xff;
    const ASSUMED_LANES: u32 = 16;
    /// Of the platform, and of a card.
    const ASSUMED: (u32, u32) = (2, 3);
    /// Mbit/s of a lane of each generation.
    const RATES: [u32; 6] = [2500, 5000, 8000, 16000, 32000, 64000];

    let ends = ends(pdev);
    let (mut speed, mut width) = (bindings::pci_bus_speed_PCI_SPEED_UNKNOWN, UNKNOWN_WIDTH);
    if !numa::is_amd() {
        // These platforms do not change the speed of a link while it runs: it is what it is.
        let null = core::ptr::null_mut();
        // SAFETY: The device is valid, and so are the two places; who limits is not asked.
        unsafe { bindings::pcie_bandwidth_available(raw(pdev), null, &mut speed, &mut width) };
    } else if let Some(port) = ends.platform {
        (speed, width) = best(port);
    }
    let generation = |speed, assumed| match speed {
        bindings::pci_bus_speed_PCIE_SPEED_2_5GT => 1,
        bindings::pci_bus_speed_PCIE_SPEED_5_0GT => 2,
        bindings::pci_bus_speed_PCIE_SPEED_8_0GT => 3,
        bindings::pci_bus_speed_PCIE_SPEED_16_0GT => 4,
        bindings::pci_bus_speed_PCIE_SPEED_32_0GT => 5,
        bindings::pci_bus_speed_PCIE_SPEED_64_0GT => 6,
        _ => assumed,
    };
    let lanes = |width| match width {
        UNKNOWN_WIDTH | 0 => ASSUMED_LANES,
        lanes => lanes,
    };
    let card = best(ends.card);
    let platform = (generation(speed, ASSUMED.0), lanes(width));
    PcieLink {
        generation: platform.0.min(generation(card.0, ASSUMED.1)),
        lanes: platform.1.min(lanes(card.1)),
        mbytes: platform.1 * RATES[platform.0 as usize - 1] / 8,
    }
}

/// Who is at the two ends of a card's link.
struct Ends {
    /// The card, or its outermost bridge.
    card: *mut bindings::pci_dev,
    /// The platform's port; a card on a root bus has none.
    platform: Option<*mut bindings::pci_dev>,
}

fn ends(pdev: &pci::Device) -> Ends {
    let mut card = raw(pdev);
    loop {
        // SAFETY: A device has a bus for as long as it exists, and a bus below a bridge has that
        // bridge as long; a root bus has none.
        let bridge = unsafe { (*(*card).bus).self_ };
        // SAFETY: As above.
        if bridge.is_null() || unsafe { (*bridge).vendor } != pdev.vendor_id().as_raw() {
            return Ends {
                card,
                platform: (!bridge.is_null()).then_some(bridge),
            };
        }
        card = bridge;
    }
}

/// The best that an end could do.
fn best(end: *mut bindings::pci_dev) -> (bindings::pci_bus_speed, bindings::pcie_link_width) {
    // SAFETY: From `ends`: a device, or a bridge above it, both valid; only their configuration is read.
    unsafe {
        (
            bindings::pcie_get_speed_cap(end),
            bindings::pcie_get_width_cap(end),
        )
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
