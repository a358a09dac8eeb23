// SPDX-License-Identifier: GPL-2.0

//! Records of the SMBIOS table, in which the firmware describes the machine.
//!
//! C header: [`include/linux/dmi.h`](srctree/include/linux/dmi.h)

use kernel::prelude::*;

use crate::bindings as ours;

/// Calls `f` with each record of the table, without its strings: type, length, handle, then the
/// fields of the type. Calls it never without a table, or without memory to map it. May sleep.
pub(crate) fn for_each<F: FnMut(&[u8])>(mut f: F) {
    // SAFETY: `visit` is called during the call only, with the pointer, which is valid and not used
    // otherwise meanwhile.
    unsafe { ours::rkfd_helper_dmi_walk(Some(visit::<F>), (&raw mut f).cast()) };
}

/// # Safety
///
/// `record` has `length` bytes that do not change during the call, `f` is a valid pointer to an `F`
/// that nothing else uses.
unsafe extern "C" fn visit<F: FnMut(&[u8])>(record: *const u8, length: u8, f: *mut c_void) {
    // SAFETY: The pointer is that of `length` bytes, which do not change while `record` exists, by
    // the safety requirement.
    let record = unsafe { core::slice::from_raw_parts(record, length.into()) };
    // SAFETY: The pointer is valid, and this is the only reference, by the safety requirement.
    let f = unsafe { &mut *f.cast::<F>() };
    f(record);
}
