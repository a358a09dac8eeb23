// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A software model of AMD GPUs, served to QEMU over vfio-user.
//!
//! The model emulates the card at the level of its driver interface: PCI configuration space, BARs,
//! registers, packets, page tables, interrupts. It is strict: anything that silicon does not accept
//! is reported by [`log::Strict`] and fails the run. [`gpu::Gpu`] is the card; start reading there.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod adversary;
pub mod chips;
pub mod control;
pub mod discovery;
pub mod dma;
pub mod engines;
pub mod error;
pub mod gpu;
pub mod knobs;
pub mod log;
pub mod mailbox;
pub mod masked;
pub mod mem;
pub mod pci;
pub mod posted;
pub mod regs;
pub mod relay;
pub mod server;
pub mod shards;
pub mod trace;
pub mod vram;
