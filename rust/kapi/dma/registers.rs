// SPDX-License-Identifier: GPL-2.0

//! Registers of a PCI device that a device accesses by DMA, unmapped at unbind.

use kernel::{
    bindings,
    device,
    pci,
    prelude::*,
    sync::Arc, //
};

use super::device::{Device, Memory, Registered};
use crate::{
    bindings as ours,
    kapi::{pci::bar_contains, raw_device as raw},
};

/// Part of a memory BAR, mapped for a device in both directions.
pub(crate) struct Registers {
    _memory: Registered,
    dma: u64,
}

impl Registers {
    /// Maps `size` bytes of a BAR of `owner` at the physical address `phys`, both multiples of the
    /// page size. `EINVAL` if they are not in a memory BAR, `ENOMEM` without DMA addresses,
    /// `ENODEV` after the unbind.
    pub(crate) fn new(
        device: &Arc<Device>,
        owner: &pci::Device,
        phys: u64,
        size: usize,
    ) -> Result<Self> {
        if !bar_contains(owner, phys, size as u64) {
            return Err(EINVAL);
        }
        let mut dma = 0;
        let acquire = |dev: &device::Device| {
            // SAFETY: `Registered::new()` calls this before the unbind is over. The range is in a
            // BAR, and not RAM.
            dma = unsafe {
                bindings::dma_map_resource(
                    raw(dev),
                    phys,
                    size,
                    bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                    0,
                )
            };
            // SAFETY: The device is valid; `dma` is what was returned for it.
            if unsafe { ours::rkfd_helper_dma_mapping_error(raw(dev), dma) } {
                return Err(ENOMEM);
            }
            Ok(Memory::Registers { dma, size })
        };
        // SAFETY: `acquire` returns what it has mapped for its argument.
        let memory = unsafe { Registered::new(device, acquire)? };
        Ok(Self {
            _memory: memory,
            dma,
        })
    }

    /// Returns the DMA address, which is not valid after the unbind.
    pub(crate) fn dma_address(&self) -> u64 {
        self.dma
    }
}
