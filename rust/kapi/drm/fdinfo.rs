// SPDX-License-Identifier: GPL-2.0

//! Lines of a DRM file in `/proc/PID/fdinfo`: memory by region, and those of the driver.
//!
//! The format: [`Documentation/gpu/drm-usage-stats.rst`](srctree/Documentation/gpu).

use kernel::{bindings, fmt, prelude::*, str::CString};

use crate::bindings as ours;

/// The text of a file, in the order of the calls.
pub(crate) struct Fdinfo<'a>(&'a mut bindings::drm_printer);

/// Bytes of the memory of a file in one region (`struct drm_memory_stats`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryStats {
    /// Of BOs that belong here, and that no other file has.
    pub(crate) private: u64,
    /// Of BOs that belong here, and that other files have, too.
    pub(crate) shared: u64,
    /// Of BOs that are here.
    pub(crate) resident: u64,
}

impl MemoryStats {
    /// Returns the bytes of the BOs that belong here.
    pub(crate) fn total(&self) -> u64 {
        self.private + self.shared
    }
}

impl<'a> Fdinfo<'a> {
    /// # Safety
    ///
    /// `raw` is an initialized printer, which nothing else uses for the lifetime of the result.
    pub(super) unsafe fn from_raw(raw: *mut bindings::drm_printer) -> Self {
        // SAFETY: By the safety requirement.
        Self(unsafe { &mut *raw })
    }

    /// Prints one line. `ENOMEM` without memory.
    pub(crate) fn line(&mut self, key: &str, value: fmt::Arguments<'_>) -> Result {
        let line = CString::try_from_fmt(fmt!("{key}:\t{value}\n"))?;
        // SAFETY: The printer is initialized; the text ends with a NUL.
        unsafe { ours::drm_puts(self.0, line.as_char_ptr()) };
        Ok(())
    }

    /// Prints the lines of a region.
    pub(crate) fn memory(&mut self, region: &CStr, stats: &MemoryStats) {
        let stats = bindings::drm_memory_stats {
            shared: stats.shared,
            private: stats.private,
            resident: stats.resident,
            ..pin_init::zeroed()
        };
        let status = bindings::drm_gem_object_status_DRM_GEM_OBJECT_RESIDENT
            | bindings::drm_gem_object_status_DRM_GEM_OBJECT_PURGEABLE;
        // SAFETY: The printer is initialized, and the function only reads the other arguments.
        unsafe { bindings::drm_print_memory_stats(self.0, &stats, status, region.as_char_ptr()) };
    }
}
