// SPDX-License-Identifier: GPL-2.0

//! PSP: HAL trait, and the mailboxes of boot loader and secure OS, which all versions share.

use kernel::{
    io::poll::read_poll_timeout,
    prelude::*,
    time::{delay::fsleep, Delta},
};
use rkfd_abi::{
    bits::{hi32, lo32},
    discovery::hwid,
    psp::{self, control},
    regs::{Reg, Value},
};

use crate::asic::{
    config::EntryPoints,
    firmware::{FirmwareFile, Image, Refusal},
    mmio::{Block, Mmio},
};

pub(super) mod parts;

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
    /// The card does not work without it.
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
    /// The second MEC; none on cards where one firmware is loaded for both.
    pub(crate) mec2: Release,
    /// PFP.
    pub(crate) pfp: Release,
    /// ME.
    pub(crate) me: Release,
    /// IMU.
    pub(crate) imu: u32,
    /// SDMA.
    pub(crate) sdma: Release,
    /// TA driver (ASD).
    pub(crate) ta_driver: u32,
    /// TA for xGMI hives.
    pub(crate) ta_xgmi: u32,
}

/// Firmware to load, each list in load order.
#[derive(Default)]
pub(crate) struct FirmwarePlan {
    /// By the boot loader; the last part starts the secure OS.
    pub(crate) boot: KVec<Part>,
    /// List of firmware (TOC), by LOAD_TOC.
    pub(crate) list: Option<Part>,
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
    /// Entry points of engines that the driver starts.
    pub(crate) entries: EntryPoints,
}

/// Result of a mailbox command: `Err` holds a nonzero status.
pub(crate) type MailboxResult = Result<(), u32>;

/// PSP. Mailbox methods return `ETIMEDOUT` when PSP does not respond, `ENODEV` after unbind.
pub(crate) trait PspHal: Sync {
    /// Returns the required files.
    fn files(&self) -> &'static [FirmwareFile];

    /// Returns whether the RLC loads the firmware of the graphics core's engines, after
    /// AUTOLOAD_RLC. The core has no power before, the TMR is that of the boot firmware, and
    /// firmware can be loaded once after a reset.
    fn autoloads(&self) -> bool;

    /// Returns whether the version of the running secure OS is in a register, and a secure OS of
    /// another version than that of the file is replaced by a reset of the card.
    fn replaces(&self) -> bool;

    /// Returns the first version of the secure OS that reports the VRAM which firmware uses
    /// (FB_FW_RESERV_ADDR); `None` if none does.
    fn reports_memory_since(&self) -> Option<u32>;

    /// Returns the firmware to load from the files, for a card with `sdma` SDMA engines and the PCI
    /// device id `device`. `ENOMEM` without memory for the lists.
    fn plan(
        &self,
        mmio: &Mmio,
        images: &[Image<'_>],
        sdma: u32,
        device: u16,
    ) -> Result<FirmwarePlan, Refusal>;

    /// Returns whether the secure OS runs; not while all registers read as ones.
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

/// A version of the PSP.
pub(super) trait PspVersion: Sync {
    /// See [`PspHal::files`].
    const FILES: &'static [FirmwareFile];
    /// See [`PspHal::autoloads`].
    const AUTOLOAD: bool = false;
    /// See [`PspHal::replaces`].
    const REPLACES: bool = false;
    /// See [`PspHal::reports_memory_since`].
    const MEMORY_SINCE: Option<u32> = None;
    /// Bits of the register of the boot loader that are its status, with [`psp::READY`].
    const BOOTLOADER_MASK: u32;
    /// Timeout of the boot loader in s, per wait.
    const BOOT_TIMEOUT_S: i64;

    /// See [`PspHal::plan`].
    fn plan(
        mmio: &Mmio,
        images: &[Image<'_>],
        sdma: u32,
        device: u16,
    ) -> Result<FirmwarePlan, Refusal>;

    /// Waits until the boot loader takes commands, after power-on or reset.
    fn wait_bootloader(b: Block<'_>) -> Result;

    /// See [`PspHal::mode1_reset`].
    fn mode1_reset(mmio: &Mmio) -> Result;
}

/// Seconds between messages about a boot loader that is not ready.
const BOOT_MESSAGE_S: i64 = 10;
/// Timeout of the secure OS mailbox.
const MAILBOX_TIMEOUT: Delta = Delta::from_millis(2_000);
/// Delay between a command and polling its mailbox (`mdelay(20)`, `psp_v13_0.c`).
const SETTLE: Delta = Delta::from_millis(20);

fn block(mmio: &Mmio) -> Result<Block<'_>> {
    mmio.block(hwid::MP0, 0)
}

/// Polls a mailbox register.
fn wait<R>(b: Block<'_>, reg: Reg<R>, timeout: Delta, done: impl Fn(u32) -> bool) -> Result<u32> {
    read_poll_timeout(
        || b.rd(reg).map(Value::raw),
        |v| done(*v),
        Delta::from_micros(100),
        timeout,
    )
}

/// Waits for the secure OS mailbox and returns its status. `ETIMEDOUT` when it does not respond.
fn response(b: Block<'_>) -> Result<MailboxResult> {
    fsleep(SETTLE);
    let value = wait(b, psp::COMMAND, MAILBOX_TIMEOUT, |v| {
        v & psp::READY != 0 && v != u32::MAX
    })?;
    Ok(match psp::STATUS.get(value) {
        0 => Ok(()),
        status => Err(status),
    })
}

/// Polls a register of the boot loader, with a message every [`BOOT_MESSAGE_S`].
fn poll_bootloader<T: PspVersion, R>(
    b: Block<'_>,
    reg: Reg<R>,
    done: impl Fn(u32) -> bool,
) -> Result<u32> {
    let mut left = T::BOOT_TIMEOUT_S;
    loop {
        let step = left.min(BOOT_MESSAGE_S);
        let result = wait(b, reg, Delta::from_millis(step * 1000), &done);
        left -= step;
        if left == 0 || result != Err(ETIMEDOUT) {
            return result;
        }
        pr_info!(
            "the boot loader of the PSP is not ready, {left} s left to wait: {} = {:#x}\n",
            reg.name,
            b.rd(reg)?.raw()
        );
    }
}

/// Waits until a register of the boot loader reads [`psp::READY`] in the bits of `mask`.
pub(super) fn wait_ready<T: PspVersion, R>(b: Block<'_>, reg: Reg<R>, mask: u32) -> Result {
    poll_bootloader::<T, R>(b, reg, |v| v & mask == psp::READY && v != u32::MAX).map(drop)
}

/// Sends a boot loader command. `EINVAL` for a misaligned address, `ETIMEDOUT` when the boot loader
/// is not ready.
fn boot_command<T: PspVersion>(b: Block<'_>, command: u32, address: u64) -> Result {
    let units = u32::try_from(address >> psp::BOOTLOADER_ADDRESS_SHIFT)?;
    if u64::from(units) << psp::BOOTLOADER_ADDRESS_SHIFT != address {
        return Err(EINVAL);
    }
    wait_ready::<T, _>(b, psp::BOOTLOADER, T::BOOTLOADER_MASK)?;
    b.wr(psp::BOOTLOADER_ADDRESS, units)?;
    b.wr(psp::BOOTLOADER, command)
}

impl<T: PspVersion> PspHal for T {
    fn files(&self) -> &'static [FirmwareFile] {
        T::FILES
    }

    fn autoloads(&self) -> bool {
        T::AUTOLOAD
    }

    fn replaces(&self) -> bool {
        T::REPLACES
    }

    fn reports_memory_since(&self) -> Option<u32> {
        T::MEMORY_SINCE
    }

    fn plan(
        &self,
        mmio: &Mmio,
        images: &[Image<'_>],
        sdma: u32,
        device: u16,
    ) -> Result<FirmwarePlan, Refusal> {
        T::plan(mmio, images, sdma, device)
    }

    fn is_alive(&self, mmio: &Mmio) -> Result<bool> {
        let sign = block(mmio)?.rd(psp::SIGN_OF_LIFE)?.raw();
        Ok(sign != 0 && sign != u32::MAX)
    }

    fn os_version(&self, mmio: &Mmio) -> Result<u32> {
        block(mmio)?.rd(psp::VERSION).map(Value::raw)
    }

    fn wait_bootloader(&self, mmio: &Mmio) -> Result {
        T::wait_bootloader(block(mmio)?)
    }

    fn boot(&self, mmio: &Mmio, command: u32, address: u64) -> Result<MailboxResult> {
        let b = block(mmio)?;
        boot_command::<T>(b, command, address)?;
        let value =
            poll_bootloader::<T, _>(b, psp::BOOTLOADER, |v| v & psp::READY != 0 && v != u32::MAX)?;
        Ok(match value & T::BOOTLOADER_MASK & !psp::READY {
            0 => Ok(()),
            status => Err(status),
        })
    }

    fn boot_os(&self, mmio: &Mmio, command: u32, address: u64) -> Result<MailboxResult> {
        let b = block(mmio)?;
        boot_command::<T>(b, command, address)?;
        fsleep(SETTLE);
        let alive = wait(b, psp::SIGN_OF_LIFE, MAILBOX_TIMEOUT, |v| {
            v != 0 && v != u32::MAX
        });
        match alive {
            Ok(_) => Ok(Ok(())),
            Err(e) if e == ETIMEDOUT => match b.rd(psp::BOOTLOADER)?.raw() & !psp::READY {
                0 => Err(ETIMEDOUT),
                status => Ok(Err(status)),
            },
            Err(e) => Err(e),
        }
    }

    fn create_ring(&self, mmio: &Mmio, address: u64, bytes: u32) -> Result<MailboxResult> {
        let b = block(mmio)?;
        wait(b, psp::COMMAND, MAILBOX_TIMEOUT, |v| {
            v & psp::READY != 0 && v != u32::MAX
        })?;
        b.wr(psp::RING_ADDRESS_LO, lo32(address))?;
        b.wr(psp::RING_ADDRESS_HI, hi32(address))?;
        b.wr(psp::RING_SIZE, bytes)?;
        b.wr(psp::COMMAND, control::INIT_GPCOM_RING)?;
        response(b)
    }

    fn destroy_ring(&self, mmio: &Mmio) -> Result<MailboxResult> {
        let b = block(mmio)?;
        b.wr(psp::COMMAND, control::DESTROY_RINGS)?;
        response(b)
    }

    fn wptr(&self, mmio: &Mmio) -> Result<u32> {
        block(mmio)?.rd(psp::RING_WPTR).map(Value::raw)
    }

    fn set_wptr(&self, mmio: &Mmio, wptr: u32) -> Result {
        block(mmio)?.wr(psp::RING_WPTR, wptr)
    }

    fn mode1_reset(&self, mmio: &Mmio) -> Result {
        T::mode1_reset(mmio)
    }
}
