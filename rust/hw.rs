// SPDX-License-Identifier: GPL-2.0

//! Hardware generations: one descriptor each, selected by the GC version of IP discovery.
//!
//! Each block has a module with the trait that the driver uses (`*Hal`), the trait that a version
//! implements (`*Version`), and the code shared by all versions, which implements the first by the
//! second. Differences in numbers are in [`crate::asic::caps::Caps`] or constants of the version.
//! No other folder besides `abi/` names a generation.
//!
//! This file only declares and re-exports; modules below it import each other directly.

mod df;
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
pub(crate) mod ras;
mod sched;
mod sdma;
mod sdma_queue;
mod select;
pub(crate) mod smu;

pub(crate) use crate::asic::caps::{Caps, VMIDS};
pub(crate) use dma::{DmaPacket, DmaPacketHal, HdpFlush, DMA_PACKET_DWORDS};
pub(crate) use generation::Generation;
pub(crate) use gfx::{write_registers, HqdSlot, RegisterDump, WaveDebug, TRAPS, WATCHPOINTS};
pub(crate) use gmc::{FlushType, HubSetup, Hubs, Level, McLayout, Mtype, PteAttrs};
pub(crate) use ih::{
    AccessKind, IhEntry, IhEvent, IhSetup, SqSender, VmFault, IH_ENTRY_BYTES, IH_ENTRY_DWORDS,
};
pub(crate) use mqd::{
    MqdContext,
    MqdKind,
    QueueFormat,
    QueueSpec,
    RenderQueue,
    SaveState,
    SdmaQueueId,
    Words, //
    KIQ_DYNAMIC_MASKS,
};
pub(crate) use sched::{MapProcess, MesPipe, MesResources, MesVersion, SchedKind, MES_PRIORITIES};
pub(crate) use sdma::{SdmaRing, VmSwitch};
pub(crate) use select::select;

/// MODULE_FIRMWARE entries.
pub(crate) struct ModInfo<const N: usize>;

impl<const N: usize> ModInfo<N> {
    /// Builds the modinfo entries of all firmware files.
    pub(crate) const fn create(
        module: &'static kernel::str::CStr,
    ) -> kernel::firmware::ModInfoBuilder<N> {
        let mut builder = kernel::firmware::ModInfoBuilder::new(module);
        let all = [gfx9_4_3::FIRMWARE, gfx12::FIRMWARE];
        let mut chip = 0;
        while chip < all.len() {
            let mut i = 0;
            while i < all[chip].len() {
                builder = builder.new_entry().push(all[chip][i]);
                i += 1;
            }
            chip += 1;
        }
        builder
    }
}
