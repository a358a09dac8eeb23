// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A software model of an AMD Instinct GPU, served to QEMU over vfio-user.
//!
//! The model plays the card at the level a driver sees it: PCI config space, BARs, registers,
//! packets, page tables, interrupts. It is strict: what the silicon would not accept is reported
//! by [`log::Strict`] and makes the run fail. [`gpu::Gpu`] is the card; start reading there.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod chips;
pub mod control;
pub mod discovery;
pub mod dma;
pub mod engines;
pub mod gpu;
pub mod knobs;
pub mod log;
pub mod mailbox;
pub mod mem;
pub mod pci;
pub mod regs;
pub mod server;
pub mod shards;
pub mod trace;
pub mod vram;
