// SPDX-License-Identifier: GPL-2.0 OR MIT

//! AQL packets: fields, validation, errors.

use gpu_wave::abi::{AbiError, KernelDescriptor};
use rkfd_abi::aql::{self, kernel_dispatch as kd};

use crate::engines::cp::dispatch::LDS;
use crate::engines::cp::scratch::Need;
use crate::engines::cp::signal::inactive;

/// A packet's bytes.
pub(super) struct Bytes(pub [u8; aql::PACKET_SIZE]);

impl Bytes {
    /// Returns the 16-bit field at byte `at`.
    pub fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    /// Returns the 32-bit field at byte `at`.
    pub fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) | u32::from(self.u16(at + 2)) << 16
    }

    /// Returns the 64-bit field at byte `at`.
    pub fn u64(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) | u64::from(self.u32(at + 4)) << 32
    }

    /// Returns the header.
    pub fn header(&self) -> u32 {
        self.u16(aql::HEADER).into()
    }

    /// Returns the address of the completion signal.
    pub fn signal(&self) -> u64 {
        self.u64(aql::COMPLETION_SIGNAL)
    }
}

crate::errors! {
    /// An error that stops an AQL queue.
    pub(super) enum AqlError {
        /// Reserved bits or fence scopes.
        Header { head: u32 } => "header {head:#x}",
        /// Unknown packet type.
        Type { kind: u32 } => "packet type {kind}",
        /// Reserved fields of a dispatch packet.
        DispatchReserved => "reserved fields of a dispatch packet are set",
        /// Reserved fields of a barrier packet.
        BarrierReserved => "reserved fields of a barrier packet are set",
        /// Not one to three dimensions, or an empty grid.
        Dimensions { dims: usize, grid: [u32; 3] } => "{dims} dimensions, grid {grid:?}",
        /// A size other than 1 in an unused dimension.
        Size { dims: usize, grid: [u32; 3], size: [u16; 3] } =>
            "{dims} dimensions, grid {grid:?}, workgroup {size:?}",
        /// Invalid workgroup size.
        Workgroup { size: [u16; 3] } => "workgroup of {size:?} work-items",
        /// More LDS than there is, or less than the kernel needs.
        GroupSegment { size: u32 } => "group segment of {size} bytes",
        /// Invalid address of a kernel descriptor.
        Object { object: u64 } => "kernel object {object:#x}",
        /// Invalid kernel descriptor.
        Kernel { error: AbiError } => "{error}",
        /// Not enough registers for a workgroup.
        Vgprs { waves: u32, vgprs: usize } => "{waves} waves of {vgprs} VGPRs in a workgroup",
        /// Not enough scratch memory, and no way to request it.
        Scratch { private: u32 } =>
            "{private} bytes of scratch, but the queue has no inactive signal",
        /// Invalid PM4 vendor packet.
        Pm4Ib { header: u32, remain: u32 } =>
            "PM4 packet {header:#x}, {remain} dwords remain",
        /// Unknown condition of a barrier-value packet.
        BarrierCondition { condition: u32 } => "barrier condition {condition}",
        /// Unknown vendor packet.
        VendorFormat { format: u8 } => "vendor packet format {format}",
    }
}

impl AqlError {
    /// Returns the code in the inactive signal.
    pub fn code(&self) -> u64 {
        match self {
            Self::Header { .. }
            | Self::Type { .. }
            | Self::DispatchReserved
            | Self::BarrierReserved
            | Self::Scratch { .. } => inactive::FORMAT,
            Self::Dimensions { .. } | Self::Size { .. } => inactive::DIMENSIONS,
            Self::Workgroup { .. } => inactive::WORKGROUP,
            Self::GroupSegment { .. } => inactive::GROUP_SEGMENT,
            Self::Object { .. } | Self::Kernel { .. } => inactive::CODE,
            Self::Vgprs { .. } => inactive::VGPRS,
            Self::Pm4Ib { .. } | Self::BarrierCondition { .. } | Self::VendorFormat { .. } => {
                inactive::VENDOR
            }
        }
    }
}

impl Need {
    /// Returns the scratch that a dispatch packet needs.
    pub(super) fn of(p: &Bytes, kernel: &KernelDescriptor) -> Self {
        let size = [0, 1, 2].map(|n| u64::from(p.u16(kd::WORKGROUP_SIZE_X + 2 * n)));
        let lanes = if kernel.wave32() { 32 } else { 64 };
        Self {
            private: p.u32(kd::PRIVATE_SEGMENT_SIZE),
            waves: size.iter().product::<u64>().div_ceil(lanes),
            grid: [0, 1, 2].map(|n| p.u32(kd::GRID_SIZE_X + 4 * n)),
        }
    }
}

/// Checks a dispatch packet on its own. The packet processor ignores the last reserved field, in
/// which profilers store an id.
pub(super) fn check_dispatch(p: &Bytes) -> Result<(), AqlError> {
    // The packet processor takes the reserved bits for a number of dimensions that is too large.
    let dims = usize::from(p.u16(kd::SETUP));
    let size = [0, 1, 2].map(|n| p.u16(kd::WORKGROUP_SIZE_X + 2 * n));
    let grid = [0, 1, 2].map(|n| p.u32(kd::GRID_SIZE_X + 4 * n));
    if p.u16(kd::RESERVED0) != 0 {
        return Err(AqlError::DispatchReserved);
    }
    if !(1..=3).contains(&dims) || grid.contains(&0) {
        return Err(AqlError::Dimensions { dims, grid });
    }
    if (dims..3).any(|n| grid[n] != 1 || size[n] != 1) {
        return Err(AqlError::Size { dims, grid, size });
    }
    let items: u64 = size.iter().map(|&n| u64::from(n)).product();
    if items == 0 || items > 1024 {
        return Err(AqlError::Workgroup { size });
    }
    let lds = p.u32(kd::GROUP_SEGMENT_SIZE);
    if lds > LDS {
        return Err(AqlError::GroupSegment { size: lds });
    }
    let object = p.u64(kd::KERNEL_OBJECT);
    if object == 0 || object % 64 != 0 {
        return Err(AqlError::Object { object });
    }
    Ok(())
}
