// SPDX-License-Identifier: GPL-2.0

//! mmap() of `/dev/kfd`: encoding of offsets, doorbell and MMIO remap pages.

use kernel::{page::PAGE_SIZE, prelude::*};
use rkfd_abi::doorbell::PROCESS_SLICE;

use super::kfd_process::Process;

/// Bits 63:62 of an offset are the type, bits 61:46 the GPU id (`KFD_MMAP_TYPE_*`,
/// `KFD_MMAP_GPU_ID_SHIFT`).
const TYPE_MASK: u64 = 3 << 62;
/// Doorbells of the process on a GPU.
pub(crate) const TYPE_DOORBELL: u64 = 3 << 62;
/// Signal page. Returned by CREATE_EVENT only; user space maps the buffer that it has allocated.
pub(crate) const TYPE_EVENTS: u64 = 2 << 62;
/// HDP flush registers of a GPU.
pub(crate) const TYPE_MMIO: u64 = 0;
const GPU_SHIFT: u32 = 46;
const GPU_MASK: u64 = 0xffff;

/// Returns the bits of an offset for a GPU id.
pub(crate) fn gpu_id(id: u32) -> u64 {
    (u64::from(id) & GPU_MASK) << GPU_SHIFT
}

/// Registers to be mapped, uncached.
pub(crate) struct MmapTarget {
    /// CPU physical address.
    pub(crate) phys: u64,
    /// The GPU.
    pub(crate) gpu_id: u32,
    /// Doorbells of the process; otherwise the page of the HDP flush registers.
    pub(crate) is_doorbell: bool,
}

impl Process {
    /// Resolves a mapping of `len` bytes at `offset` of the file. `EBADF` for another caller than
    /// the process, `ENODEV` without such a GPU, `EINVAL` for another type or length.
    pub(crate) fn mmap_target(&self, offset: u64, len: usize) -> Result<MmapTarget> {
        self.check_caller()?;
        // CAST: 16 bits.
        let gpu_id = (offset >> GPU_SHIFT & GPU_MASK) as u32;
        let device = self.device(gpu_id).map_err(|_| ENODEV);
        match offset & TYPE_MASK {
            TYPE_DOORBELL => {
                let device = device?;
                if len != PROCESS_SLICE {
                    return Err(EINVAL);
                }
                Ok(MmapTarget {
                    phys: device.doorbells()?.pages().phys(),
                    gpu_id,
                    is_doorbell: true,
                })
            }
            TYPE_MMIO => {
                let device = device?;
                if len != PAGE_SIZE {
                    return Err(EINVAL);
                }
                Ok(MmapTarget {
                    phys: device.gpu().hdp_remap_phys(),
                    gpu_id,
                    is_doorbell: false,
                })
            }
            _ => Err(EINVAL),
        }
    }
}
