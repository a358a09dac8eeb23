// SPDX-License-Identifier: GPL-2.0

//! The security processor: which firmware it wants, in which order, and its mailboxes.

use kernel::prelude::*;

use crate::asic::{
    firmware::{Bad, FirmwareFile, Image},
    mmio::Mmio, //
};

/// A piece of a file that the security processor gets.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// What it is.
    pub(crate) name: &'static str,
    /// Index of the file.
    pub(crate) file: usize,
    /// Where in the file.
    pub(crate) at: usize,
    /// Bytes.
    pub(crate) len: usize,
    /// The command that loads it, or the type by which a command calls it.
    pub(crate) code: u32,
    /// The card cannot be used without it.
    pub(crate) needed: bool,
}

/// A part of the firmware that user space may ask for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Release {
    /// Which one it is.
    pub(crate) version: u32,
    /// What it can do, as a number that its makers count up.
    pub(crate) feature: u32,
}

/// Versions of firmware, as files have them.
#[derive(Clone, Copy, Default)]
pub(crate) struct FirmwareVersions {
    /// The security processor's operating system.
    pub(crate) os: u32,
    /// The run list controller.
    pub(crate) rlc: Release,
    /// Its lists: control, code, memory.
    pub(crate) rlc_lists: [Release; 3],
    /// The compute engines.
    pub(crate) mec: Release,
    /// The DMA engines.
    pub(crate) sdma: Release,
    /// The driver of trusted applications.
    pub(crate) ta_driver: u32,
}

/// What is loaded, each list in its order.
pub(crate) struct FirmwarePlan {
    /// By the boot loader; the last starts the operating system.
    pub(crate) boot: KVec<Part>,
    /// Firmware of engines, by the operating system.
    pub(crate) engines: KVec<Part>,
    /// The driver of trusted applications.
    pub(crate) driver: Option<Part>,
    /// What comes last, of the same kind as `engines`.
    pub(crate) late: KVec<Part>,
    /// The versions.
    pub(crate) versions: FirmwareVersions,
}

/// What a mailbox said to a command: nothing, or a status that is not zero.
pub(crate) type Answer = Result<(), u32>;

/// The security processor.
pub(crate) trait PspHal: Sync {
    /// The files that are needed.
    fn files(&self) -> &'static [FirmwareFile];

    /// What is loaded from them on this card, which has so many DMA engines.
    fn plan(
        &self,
        mmio: &Mmio,
        images: &[Image<'_>],
        sdma: u32,
    ) -> Result<Result<FirmwarePlan, Bad>>;

    /// Its operating system runs.
    fn is_alive(&self, mmio: &Mmio) -> Result<bool>;

    /// The version of the operating system that runs.
    fn os_version(&self, mmio: &Mmio) -> Result<u32>;

    /// Waits until the boot loader takes a command: after power-on, after a reset.
    fn wait_bootloader(&self, mmio: &Mmio) -> Result;

    /// Lets the boot loader load what is at `address`, and waits until it has.
    fn boot(&self, mmio: &Mmio, command: u32, address: u64) -> Result<Answer>;

    /// The same with what starts the operating system.
    fn boot_os(&self, mmio: &Mmio, command: u32, address: u64) -> Result<Answer>;

    /// Creates the kernel's ring.
    fn create_ring(&self, mmio: &Mmio, address: u64, bytes: u32) -> Result<Answer>;

    /// Destroys all rings.
    fn destroy_ring(&self, mmio: &Mmio) -> Result<Answer>;

    /// The ring's write pointer in dwords.
    fn wptr(&self, mmio: &Mmio) -> Result<u32>;

    /// Moves it: what is before it is executed.
    fn set_wptr(&self, mmio: &Mmio, wptr: u32) -> Result;

    /// Resets the whole card but for its bus interface: nothing but what the boot loader does by itself
    /// runs then. The card must not be on its way to memory. Before anything else, and be it
    /// [`PspHal::wait_bootloader`], the caller has to restore its configuration space.
    fn mode1_reset(&self, mmio: &Mmio) -> Result;
}
