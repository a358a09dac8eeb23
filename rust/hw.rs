// SPDX-License-Identifier: GPL-2.0

//! Hardware generations: one descriptor each, made of small traits and plain data, chosen once
//! from what IP discovery reports.
//!
//! Each block of the GPU has a room with three things: the trait by which the driver uses it (`*Hal`),
//! what a version of it has to say (`*Version`), and what all versions do, which makes the one of the
//! other. Everything that differs by number is in [`crate::asic::caps::Caps`] or a constant of the version.
//! No other folder (besides `abi/`) names a generation.

mod dma;
mod generation;
mod gfx;
mod gfx12;
mod gfx9_4_3;
mod gmc;
mod ih;
mod mqd;
mod names;
mod nbio;
pub(crate) mod psp;
mod sched;
mod sdma;
mod sdma_queue;
mod select;

pub(crate) use crate::asic::caps::{Caps, VMIDS};
pub(crate) use dma::{DmaPacket, DmaPacketHal, HdpFlush, DMA_PACKET_DWORDS};
pub(crate) use generation::Generation;
pub(crate) use gfx::{HqdDump, HqdSlot};
pub(crate) use gmc::{FlushType, HubSetup, Level, McLayout, PteAttrs};
pub(crate) use ih::{IhEntry, IhEvent, IhSetup, SqSender, VmFault, IH_ENTRY_DWORDS};
pub(crate) use mqd::{MqdContext, MqdKind, QueueFormat, QueueSpec, SdmaPlace, Words};
pub(crate) use sched::{MapProcess, MesPipe, MesResources, MesVersion, SchedKind, MES_PRIORITIES};
pub(crate) use sdma::{SdmaRing, VmSwitch};
pub(crate) use select::select;

/// Says in the module's own header which firmware files it may ask for.
pub(crate) struct ModInfo<const N: usize>;

impl<const N: usize> ModInfo<N> {
    /// Makes the entries.
    pub(crate) const fn create(
        module: &'static kernel::str::CStr,
    ) -> kernel::firmware::ModInfoBuilder<N> {
        let mut builder = kernel::firmware::ModInfoBuilder::new(module);
        let mut i = 0;
        while i < gfx9_4_3::FIRMWARE.len() {
            builder = builder.new_entry().push(gfx9_4_3::FIRMWARE[i]);
            i += 1;
        }
        builder
    }
}
