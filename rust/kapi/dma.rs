// SPDX-License-Identifier: GPL-2.0

//! DMA: coherent memory, system pages that are mapped for one or several devices, registers.
//!
//! Unlike with `kernel::dma::Coherent`, memory may be allocated outside of probe, and its owner may
//! outlive the binding of the driver. The DMA API must not be used after an unbind: a [`Device`]
//! has a list of all allocations and mappings, which are freed and unmapped then.
//!
//! C header: [`include/linux/dma-mapping.h`](srctree/include/linux/dma-mapping.h)
//!
//! # Examples
//!
//! ```ignore
//! let dma = dma::Device::new(pdev, 48)?;
//! let ring = dma::Coherent::new(&dma, 4096)?;
//! ring.write32(0, header)?;
//! device.set_ring_base(ring.dma_address());
//! ```

mod coherent;
mod device;
mod mapping;
mod pages;
mod registers;
mod runs;

pub(crate) use coherent::{Access, Coherent};
pub(crate) use device::Device;
pub(super) use mapping::Mapping;
pub(crate) use mapping::PeerMapping;
pub(crate) use pages::{Contents, Pages};
pub(crate) use registers::Registers;
pub(super) use runs::Run;
pub(crate) use runs::{DmaRuns, Runs};
