// SPDX-License-Identifier: GPL-2.0

//! What may be mapped through `/dev/kfd`, and how its offsets are made.

use kernel::{page::PAGE_SIZE, prelude::*};

use super::Process;

/// Bits 63:62 of an offset say what is meant, bits 61:46 on which GPU.
const TYPE_MASK: u64 = 3 << 62;
pub(crate) const TYPE_DOORBELL: u64 = 3 << 62;
/// Only in answers: the page is the caller's own buffer.
pub(crate) const TYPE_EVENTS: u64 = 2 << 62;
pub(crate) const TYPE_MMIO: u64 = 0;
const GPU_SHIFT: u32 = 46;
const GPU_MASK: u64 = 0xffff;

/// The part of an offset that names a GPU.
pub(crate) const fn gpu_id(id: u32) -> u64 {
    (id as u64 & GPU_MASK) << GPU_SHIFT
}

/// Registers that may be mapped, uncached.
pub(crate) struct Target {
    /// Where they are.
    pub(crate) phys: u64,
    /// Of which GPU.
    pub(crate) gpu_id: u32,
    /// The process's doorbells; else the page with the HDP flush registers.
    pub(crate) is_doorbell: bool,
}

impl Process {
    /// What `len` bytes at `offset` of the file are.
    pub(crate) fn mmap_target(&self, offset: u64, len: usize) -> Result<Target> {
        self.check_caller()?;
        let gpu_id = (offset >> GPU_SHIFT & GPU_MASK) as u32;
        let device = self.device(gpu_id).map_err(|_| ENODEV);
        match offset & TYPE_MASK {
            TYPE_DOORBELL => {
                let device = device?;
                if len != device.gpu().generation().caps.doorbell_slice as usize {
                    return Err(EINVAL);
                }
                Ok(Target {
                    phys: device.doorbells()?.phys(),
                    gpu_id,
                    is_doorbell: true,
                })
            }
            TYPE_MMIO => {
                let device = device?;
                if len != PAGE_SIZE {
                    return Err(EINVAL);
                }
                Ok(Target {
                    phys: device.gpu().hdp_remap_phys(),
                    gpu_id,
                    is_doorbell: false,
                })
            }
            _ => Err(EINVAL),
        }
    }
}
