// SPDX-License-Identifier: GPL-2.0

//! Where in a process's address space the GPU sees LDS, scratch and memory.

use crate::hw::Caps;

/// Bits by which the first two apertures are told apart from memory; each is 4 GiB long.
const LDS_BASE: u64 = 1 << 48;
const SCRATCH_BASE: u64 = 2 << 48;
const APERTURE_LAST: u64 = u32::MAX as u64;
/// User mappings start above the pages that a null pointer with an offset may hit.
const GPUVM_BASE: u64 = 1 << 16;
/// Above this, addresses are sign-extended: the hole of a 48-bit address space starts here.
const HOLE_START: u64 = 1 << 47;

/// The apertures of a process on a GPU; limits are the last byte.
#[derive(Clone, Copy)]
pub(crate) struct Apertures {
    pub(crate) lds_base: u64,
    pub(crate) lds_limit: u64,
    pub(crate) scratch_base: u64,
    pub(crate) scratch_limit: u64,
    pub(crate) gpuvm_base: u64,
    pub(crate) gpuvm_limit: u64,
}

impl Apertures {
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
