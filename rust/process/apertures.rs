// SPDX-License-Identifier: GPL-2.0

//! GPU virtual addresses of the LDS, scratch and memory apertures of a process.

use rkfd_abi::pte::HOLE_START;

use crate::hw::Caps;

/// LDS and scratch apertures lie above the address space of memory; each is 4 GiB long
/// (`kfd_init_apertures_v9()`).
const LDS_BASE: u64 = 1 << 48;
const SCRATCH_BASE: u64 = 2 << 48;
const APERTURE_LAST: u64 = (1 << 32) - 1;
/// Start of user mappings: a null pointer with a small offset faults.
const GPUVM_BASE: u64 = 1 << 16;

/// The apertures of a process on a GPU; limits are the last byte.
#[derive(Clone, Copy)]
pub(crate) struct Apertures {
    /// First byte of LDS.
    pub(crate) lds_base: u64,
    /// Last byte of LDS.
    pub(crate) lds_limit: u64,
    /// First byte of scratch.
    pub(crate) scratch_base: u64,
    /// Last byte of scratch.
    pub(crate) scratch_limit: u64,
    /// First byte of memory.
    pub(crate) gpuvm_base: u64,
    /// Last byte of memory.
    pub(crate) gpuvm_limit: u64,
}

impl Apertures {
    /// Returns the apertures on a GPU of a generation.
    pub(crate) fn new(caps: &Caps) -> Self {
        Self {
            lds_base: LDS_BASE,
            lds_limit: LDS_BASE | APERTURE_LAST,
            scratch_base: SCRATCH_BASE,
            scratch_limit: SCRATCH_BASE | APERTURE_LAST,
            gpuvm_base: GPUVM_BASE,
            gpuvm_limit: (1u64 << caps.va_bits).min(HOLE_START) - 1,
        }
    }
}
