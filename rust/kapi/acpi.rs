// SPDX-License-Identifier: GPL-2.0

//! ACPI tables.
//!
//! C header: [`include/acpi/acpixf.h`](srctree/include/acpi/acpixf.h)

use kernel::{bindings, prelude::*};

/// The OEM of the platform, from the header of the DSDT; zeroes if there is none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Oem {
    /// OEM id, its 6 bytes as a little-endian number.
    pub(crate) id: u64,
    /// OEM table id, its 8 bytes as a little-endian number.
    pub(crate) table_id: u64,
    /// Revision of the table.
    pub(crate) revision: u8,
}

/// Reads the OEM.
pub(crate) fn oem() -> Oem {
    let mut table: *mut bindings::acpi_table_header = core::ptr::null_mut();
    // SAFETY: The signature has four characters and is not written to; the result is a local.
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
    // SAFETY: On success the table is mapped until it is put; its header may be unaligned.
    let header = unsafe { core::ptr::read_unaligned(table) };
    // SAFETY: The reference of `acpi_get_table()` is given up; the header was copied.
    unsafe { bindings::acpi_put_table(table) };
    let (id, table_id) = (header.oem_id, header.oem_table_id);
    Oem {
        id: number(&id),
        table_id: number(&table_id),
        revision: header.revision,
    }
}
