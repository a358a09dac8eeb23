// SPDX-License-Identifier: GPL-2.0

//! PSP: HAL trait for firmware selection and mailboxes.

use kernel::prelude::*;

use crate::asic::{
    firmware::{Bad, FirmwareFile, Image},
    mmio::Mmio, //
};

/// A part of a firmware file that PSP loads.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// Name for log messages.
    pub(crate) name: &'static str,
    /// Index of the file.
    pub(crate) file: usize,
    /// Byte offset in the file.
    pub(crate) at: usize,
    /// Bytes.
    pub(crate) len: usize,
    /// Boot loader command, or `GFX_FW_TYPE_*` of LOAD_IP_FW.
    pub(crate) code: u32,
    /// Failure to load it is fatal.
    pub(crate) needed: bool,
}

/// Version of a firmware, for AMDGPU_INFO_FW_VERSION.
#[derive(Clone, Copy, Default)]
pub(crate) struct Release {
    /// Version.
    pub(crate) version: u32,
    /// Feature version.
    pub(crate) feature: u32,
}

/// Firmware versions of the files.
#[derive(Clone, Copy, Default)]
pub(crate) struct FirmwareVersions {
    /// Secure OS (SOS).
    pub(crate) os: u32,
    /// RLC.
    pub(crate) rlc: Release,
    /// RLC save-restore lists: CNTL, GPM, SRM.
    pub(crate) rlc_lists: [Release; 3],
    /// MEC.
    pub(crate) mec: Release,
    /// SDMA.
    pub(crate) sdma: Release,
    /// TA driver.
    pub(crate) ta_driver: u32,
}

/// Firmware to load, each list in load order.
pub(crate) struct FirmwarePlan {
    /// By the boot loader; the last part starts the secure OS.
    pub(crate) boot: KVec<Part>,
    /// Engine firmware, by LOAD_IP_FW.
    pub(crate) engines: KVec<Part>,
    /// TA driver.
    pub(crate) driver: Option<Part>,
    /// TA for xGMI hives.
    pub(crate) xgmi: Option<Part>,
    /// Engine firmware that is loaded last.
    pub(crate) late: KVec<Part>,
    /// Versions.
    pub(crate) versions: FirmwareVersions,
}

/// Result of a mailbox command: `Err` holds a nonzero status.
pub(crate) type MailboxResult = Result<(), u32>;

/// PSP. Mailbox methods return `ETIMEDOUT` when PSP does not respond, `ENODEV` after unbind.
pub(crate) trait PspHal: Sync {
    /// Returns the required files.
    fn files(&self) -> &'static [FirmwareFile];

    /// Returns what to load from the files on this card with `sdma` SDMA engines and the PCI device
    /// id `device`. `ENOMEM` for the lists.
    fn plan(
        &self,
        mmio: &Mmio,
        images: &[Image<'_>],
        sdma: u32,
        device: u16,
    ) -> Result<Result<FirmwarePlan, Bad>>;

    /// Returns whether the secure OS runs.
    fn is_alive(&self, mmio: &Mmio) -> Result<bool>;

    /// Reads the version of the running secure OS.
    fn os_version(&self, mmio: &Mmio) -> Result<u32>;

    /// Waits for the boot loader, after power-on or reset.
    fn wait_bootloader(&self, mmio: &Mmio) -> Result;

    /// Makes the boot loader load the part at `address` and waits for it. `EINVAL` for an address
    /// that is not 1 MiB aligned.
    fn boot(&self, mmio: &Mmio, command: u32, address: u64) -> Result<MailboxResult>;

    /// Boots the secure OS at `address`. Errors as [`PspHal::boot`].
    fn boot_os(&self, mmio: &Mmio, command: u32, address: u64) -> Result<MailboxResult>;

    /// Creates the KM ring (GPCOM) of `bytes` bytes.
    fn create_ring(&self, mmio: &Mmio, address: u64, bytes: u32) -> Result<MailboxResult>;

    /// Destroys all rings.
    fn destroy_ring(&self, mmio: &Mmio) -> Result<MailboxResult>;

    /// Reads the ring's write pointer, in dwords.
    fn wptr(&self, mmio: &Mmio) -> Result<u32>;

    /// Sets the ring's write pointer, in dwords: submits the frames before it.
    fn set_wptr(&self, mmio: &Mmio, wptr: u32) -> Result;

    /// Mode-1 reset: resets the card except for its bus interface; only the boot loader runs then.
    /// DMA must have stopped. The caller restores PCI configuration space before any other access,
    /// [`PspHal::wait_bootloader`] included.
    fn mode1_reset(&self, mmio: &Mmio) -> Result;
}
