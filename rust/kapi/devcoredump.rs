// SPDX-License-Identifier: GPL-2.0

//! Device coredumps: text about a failure of a device, for user space to collect.
//!
//! C header: [`include/linux/devcoredump.h`](srctree/include/linux/devcoredump.h)

use kernel::{device::Device, prelude::*};

use crate::{bindings as ours, kapi::raw_device as raw};

/// Shows `text` as `/sys/class/devcoredump/devcd*/data` until user space writes to that file, or
/// for five minutes. Drops it if the device has a coredump already, or without memory.
pub(crate) fn submit(dev: &Device, text: VVec<u8>) {
    if text.is_empty() {
        return;
    }
    let (data, len, _) = text.into_raw_parts();
    // SAFETY: The device is valid, and the function takes a reference. The data was allocated by
    // `vmalloc()`, since the vector has elements; the function takes it over, and frees it by
    // `vfree()`. Without a module as owner the kernel's own functions read and free it.
    unsafe { ours::rkfd_helper_dev_coredump(raw(dev), data.cast(), len) };
}
