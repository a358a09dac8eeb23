// SPDX-License-Identifier: GPL-2.0

//! The security processor (PSP) of a card: starts its secure OS, which loads the firmware of all
//! engines.
//!
//! Its buffers are in system memory mapped by the GART: a transfer buffer, the ring, one command
//! buffer, a fence, and memory shared with a trusted application. Commands are submitted one by
//! one; the lock of the ring is held until the fence of a command signals.

mod xgmi;

use core::ops::Range;

use kernel::{
    device, fmt,
    io::poll::read_poll_timeout,
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sizes::SZ_1M,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
    time::Delta,
};
use rkfd_abi::{
    bits::{hi32, join, lo32},
    psp::{
        self, cmd, cmd_buf, frame, fw_reserve, load_ip_fw, load_ta, load_toc, resp, setup_tmr,
        status,
    },
};

use super::gart::{Buffer, Gart};
use crate::{
    asic::{config::EntryPoints, firmware::Files, mmio::Mmio, partition::NpsMode},
    hw::psp::{FirmwarePlan, FirmwareVersions, MailboxResult, Part, PspHal},
};

/// Timeout of a command. That of the C driver is 1.2 to 2 s.
const TIMEOUT: Delta = Delta::from_millis(5_000);

// The shared buffer.
const RING: usize = 0;
const COMMAND: usize = PAGE_SIZE;
const FENCE: usize = 2 * PAGE_SIZE;
const APPLICATION: usize = 3 * PAGE_SIZE;
const SHARED: usize = APPLICATION + psp::xgmi::SHARED_SIZE;

/// The security processor.
#[pin_data]
pub(crate) struct Psp {
    hal: &'static dyn PspHal,
    files: Files,
    plan: FirmwarePlan,
    /// Version of the secure OS: the running one where a register shows it, else that of the file.
    os: Atomic<u32>,
    #[pin]
    state: Mutex<State>,
}

/// State under the lock of the ring.
struct State {
    /// From the first start on.
    buffers: Option<Buffers>,
    /// The ring was created.
    ring: bool,
    /// The trusted memory region was set.
    region: bool,
    /// The session of the driver of trusted applications.
    session: Option<u32>,
    /// The session of the application for xGMI hives.
    xgmi: Option<u32>,
    /// The id of the hive, 0 without one.
    hive_id: u64,
    /// The ranges of VRAM that firmware uses, from the first start on.
    memory: Option<[Range<u64>; 2]>,
    /// The last fence.
    fence: u32,
}

impl State {
    /// Returns the buffers. `ENODEV` before the first start.
    fn buffers(&self) -> Result<&Buffers> {
        self.buffers.as_ref().ok_or(ENODEV)
    }

    /// Records that the PSP has no ring, region and session of the driver.
    fn clear_state(&mut self) {
        self.ring = false;
        self.region = false;
        self.session = None;
        self.xgmi = None;
    }
}

struct Buffers {
    /// Firmware to load.
    transfer: Buffer,
    /// Ring, command, fence.
    shared: Buffer,
}

/// Resources of the card that the PSP uses.
pub(crate) struct PspContext<'a> {
    /// The device, for messages and DMA.
    pub(crate) dev: &'a device::Device,
    /// Registers.
    pub(crate) mmio: &'a Mmio,
    /// Maps the buffers.
    pub(crate) gart: &'a Arc<Gart>,
    /// The card is a GPU of an xGMI hive.
    pub(crate) in_hive: bool,
}

impl PspContext<'_> {
    fn buffer(&self, size: usize, align: usize) -> Result<Buffer> {
        Buffer::system(self.gart, size, align)
    }
}

/// Response to a command (`psp_gfx_resp`).
struct Response {
    status: u32,
    session: u32,
}

/// A status with its name, for the log.
struct Status(u32);

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.0 {
            status::UNKNOWN_COMMAND => "unknown command",
            status::CANCEL => "cancelled",
            status::NOT_SUPPORTED => "not supported",
            status::tee::GENERIC => "failed",
            status::tee::ACCESS_DENIED => "access denied",
            status::tee::BAD_FORMAT => "bad format",
            status::tee::BAD_PARAMETERS => "bad parameters",
            status::tee::BAD_STATE => "bad state",
            status::tee::ITEM_NOT_FOUND => "item not found",
            status::tee::OUT_OF_MEMORY => "out of memory",
            status::tee::SECURITY => "bad signature",
            _ => "error",
        };
        f.write_fmt(fmt!("{words} ({:#x})", self.0))
    }
}

impl Psp {
    /// Reads and checks the firmware of a card with `sdma` DMA engines and the PCI device id
    /// `device`. Errors in a file are logged.
    pub(crate) fn new(
        dev: &device::Device,
        hal: &'static dyn PspHal,
        mmio: &Mmio,
        sdma: u32,
        device: u16,
    ) -> Result<Pin<KBox<Self>>> {
        let files = Files::read(dev, hal.files())?;
        let plan = files.with(dev, |images| hal.plan(mmio, images, sdma, device))?;
        let os = Atomic::new(plan.versions.os);
        KBox::pin_init(
            try_pin_init!(Self {
                hal,
                files,
                plan,
                os,
                state <- new_mutex!(State {
                    buffers: None,
                    ring: false,
                    region: false,
                    session: None,
                    xgmi: None,
                    hive_id: 0,
                    memory: None,
                    fence: 0,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Versions of the firmware that is loaded.
    pub(crate) fn versions(&self) -> FirmwareVersions {
        FirmwareVersions {
            os: self.os.load(Relaxed),
            ..self.plan.versions
        }
    }

    /// Returns the entry points of the firmware that is loaded.
    pub(crate) fn entries(&self) -> EntryPoints {
        self.plan.entries
    }

    /// Returns whether the card has to be reset before [`Psp::start`]: firmware runs that it would
    /// not load again, or a secure OS of another version than that of the file.
    pub(crate) fn needs_reset(&self, mmio: &Mmio) -> Result<bool> {
        if !self.hal.is_alive(mmio)? {
            return Ok(false);
        }
        if self.hal.autoloads() {
            return Ok(true);
        }
        Ok(self.hal.replaces() && self.hal.os_version(mmio)? != self.plan.versions.os)
    }

    /// Returns whether the secure OS runs.
    pub(crate) fn is_alive(&self, mmio: &Mmio) -> Result<bool> {
        self.hal.is_alive(mmio)
    }

    /// Returns the id of the xGMI hive, 0 without one.
    pub(crate) fn hive_id(&self) -> u64 {
        self.state.lock().hive_id
    }

    /// Boots the secure OS, unless it runs, and loads all firmware. Memory hubs and GART have to
    /// work. Does not rely on the state of an earlier start.
    pub(crate) fn start(&self, cx: &PspContext<'_>) -> Result {
        let mut state = self.state.lock();
        state.clear_state();
        if state.buffers.is_none() {
            state.buffers = Some(Buffers {
                transfer: cx.buffer(psp::TRANSFER_SIZE as usize, psp::TRANSFER_SIZE as usize)?,
                shared: cx.buffer(SHARED, 1)?,
            });
        }
        if !self.hal.is_alive(cx.mmio)? {
            self.boot(cx, &state)?;
        } else if self.hal.autoloads() {
            dev_err!(cx.dev, "the secure OS still runs after the reset\n");
            return Err(EBUSY);
        }
        if self.hal.replaces() {
            self.os.store(self.hal.os_version(cx.mmio)?, Relaxed);
        }
        self.create_ring(cx, &mut state)?;
        if state.memory.is_none() {
            state.memory = Some(self.firmware_memory(cx, &mut state)?);
        }
        if let Some(part) = &self.plan.list {
            self.load_list(cx, &mut state, part)?;
        }
        let autoload = self.hal.autoloads();
        if !autoload {
            self.set_region(cx, &mut state)?;
        }
        for part in &self.plan.engines {
            self.load(cx, &mut state, part)?;
        }
        if autoload {
            self.send_command(cx, &mut state, cmd::AUTOLOAD_RLC, &[])?;
        }
        if let Some(part) = &self.plan.driver {
            self.load_driver(cx, &mut state, part)?;
        }
        for part in &self.plan.late {
            self.load(cx, &mut state, part)?;
        }
        if cx.in_hive {
            // As in the C driver, a GPU whose hive is unknown is used without a hive.
            state.hive_id = self.start_xgmi(cx, &mut state).unwrap_or_else(|e| {
                dev_err!(cx.dev, "the xGMI hive id was not read: {e:?}\n");
                0
            });
        }
        let v = self.versions();
        dev_dbg!(
            cx.dev,
            "firmware: secure OS {:#x}, RLC {}, MEC {}, SDMA {}\n",
            v.os,
            v.rlc.version,
            v.mec.version,
            v.sdma.version
        );
        Ok(())
    }

    /// Undoes [`Psp::start`], as far as it got: unloads trusted applications, destroys TMR and
    /// ring. Loaded firmware keeps running.
    pub(crate) fn stop(&self, cx: &PspContext<'_>) -> Result {
        let mut state = self.state.lock();
        if !core::mem::take(&mut state.ring) {
            return Ok(());
        }
        let mut result = self.stop_xgmi(cx, &mut state);
        if let Some(session) = state.session.take() {
            let arguments = [(psp::unload_ta::SESSION_ID, session)];
            let done = self.send_command(cx, &mut state, cmd::UNLOAD_TA, &arguments);
            result = result.and(done);
        }
        // A command after one without a response would time out, too.
        if core::mem::take(&mut state.region) && result != Err(ETIMEDOUT) {
            let done = self.send_command(cx, &mut state, cmd::DESTROY_TMR, &[]);
            result = result.and(done);
        }
        let done = self.hal.destroy_ring(cx.mmio)?;
        result.and(self.mailbox(cx, "destroy its ring", done))
    }

    /// Divides the card into so many partitions, unless the PSP refuses it, which the registers of
    /// the XCCs show. Its compute dies are idle.
    pub(crate) fn set_partitions(&self, cx: &PspContext<'_>, partitions: u32) -> Result {
        let mut state = self.state.lock();
        let arguments = [(psp::spatial_part::MODE, partitions)];
        self.send_command(cx, &mut state, cmd::SRIOV_SPATIAL_PART, &arguments)
    }

    /// Requests a memory partition mode, which the next reset of the card sets.
    pub(crate) fn request_nps_mode(&self, cx: &PspContext<'_>, mode: NpsMode) -> Result {
        let mut state = self.state.lock();
        let arguments = [(psp::memory_part::MODE, mode.number())];
        self.send_command(cx, &mut state, cmd::FB_NPS_MODE, &arguments)
    }

    /// Resets the card, see [`PspHal::mode1_reset`].
    pub(crate) fn mode1_reset(&self, mmio: &Mmio) -> Result {
        self.clear_state();
        self.hal.mode1_reset(mmio)
    }

    /// Waits for the boot loader after a reset.
    pub(crate) fn wait_for_reset(&self, mmio: &Mmio) -> Result {
        self.hal.wait_bootloader(mmio)
    }

    /// Records that the PSP has no ring, region and session of the driver: no command can be sent
    /// until [`Psp::start`].
    pub(crate) fn clear_state(&self) {
        self.state.lock().clear_state();
    }

    fn boot(&self, cx: &PspContext<'_>, state: &State) -> Result {
        let buffer = &state.buffers()?.transfer;
        for (i, part) in self.plan.boot.iter().enumerate() {
            self.copy(buffer, part)?;
            let response = if i + 1 == self.plan.boot.len() {
                self.hal.boot_os(cx.mmio, part.code, buffer.gpu_addr())
            } else {
                self.hal.boot(cx.mmio, part.code, buffer.gpu_addr())
            };
            match response {
                Ok(Ok(())) => {}
                Ok(Err(status)) => {
                    dev_err!(
                        cx.dev,
                        "the PSP's boot loader rejects the {} of {}: status {status:#x}\n",
                        part.name,
                        self.files.path(part.file)
                    );
                    return Err(EIO);
                }
                Err(e) => {
                    dev_err!(
                        cx.dev,
                        "the PSP does not load the {} of {} ({e:?}): power-cycle the machine\n",
                        part.name,
                        self.files.path(part.file)
                    );
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    fn mailbox(&self, cx: &PspContext<'_>, what: &str, response: MailboxResult) -> Result {
        response.map_err(|status| {
            dev_err!(cx.dev, "the PSP does not {what}: status {status:#x}\n");
            EIO
        })
    }

    fn create_ring(&self, cx: &PspContext<'_>, state: &mut State) -> Result {
        let shared = &state.buffers()?.shared;
        shared.write32(FENCE, state.fence)?;
        shared.publish()?;
        let address = shared.gpu_addr() + RING as u64;
        let create = || {
            self.hal
                .create_ring(cx.mmio, address, psp::RING_BYTES)
                .inspect_err(|e| {
                    dev_err!(cx.dev, "the PSP does not respond: {e:?}\n");
                })
        };
        let mut response = create()?;
        if response.is_err() {
            // A previous driver may have left a ring.
            let _ = self.hal.destroy_ring(cx.mmio)?;
            response = create()?;
        }
        self.mailbox(cx, "create a ring", response)?;
        state.ring = true;
        Ok(())
    }

    /// Queries the ranges of VRAM that firmware uses; empty if the secure OS does not report them
    /// (`psp_get_fw_reservation_info`).
    fn firmware_memory(&self, cx: &PspContext<'_>, state: &mut State) -> Result<[Range<u64>; 2]> {
        let mut ranges = [0..0, 0..0];
        let since = self.hal.reports_memory_since();
        if since.is_none_or(|since| self.plan.versions.os < since) {
            return Ok(ranges);
        }
        let commands = [cmd::FB_FW_RESERV_ADDR, cmd::FB_FW_RESERV_EXT_ADDR];
        for (range, command) in ranges.iter_mut().zip(commands) {
            match self.submit(cx, state, command, &[])?.status {
                status::SUCCESS => {
                    let shared = &state.buffers()?.shared;
                    let word = |at| shared.read32(COMMAND + cmd_buf::RESP + resp::URESP + at);
                    let start = join(word(fw_reserve::BASE_LO)?, word(fw_reserve::BASE_HI)?);
                    let bytes = u64::from(word(fw_reserve::SIZE)?);
                    let end = start.checked_add(bytes.next_multiple_of(SZ_1M as u64));
                    *range = start..end.ok_or(EINVAL)?;
                }
                status::UNKNOWN_COMMAND => {}
                status => {
                    dev_warn!(
                        cx.dev,
                        "the PSP did not report the firmware reservation: {}\n",
                        Status(status)
                    );
                }
            }
        }
        Ok(ranges)
    }

    /// Returns the ranges of VRAM that firmware uses; empty if it does not report them, `None`
    /// before [`Psp::start`].
    pub(crate) fn memory(&self) -> Option<[Range<u64>; 2]> {
        self.state.lock().memory.clone()
    }

    /// Sends SETUP_TMR with address and size zero: selects the TMR that the boot firmware has
    /// reserved.
    fn set_region(&self, cx: &PspContext<'_>, state: &mut State) -> Result {
        let arguments = [
            (setup_tmr::BUF_ADDR_LO, 0),
            (setup_tmr::BUF_ADDR_HI, 0),
            (setup_tmr::BUF_SIZE, 0),
            (setup_tmr::FLAGS, setup_tmr::FLAG_VIRT_PHY_ADDR.put(1)),
        ];
        self.send_command(cx, state, cmd::SETUP_TMR, &arguments)?;
        state.region = true;
        Ok(())
    }

    /// Copies a part of a file to the transfer buffer.
    fn copy(&self, buffer: &Buffer, part: &Part) -> Result {
        let bytes = self.files.bytes(part.file, part.at, part.len)?;
        buffer.write_bytes(0, bytes)?;
        let at = bytes.len().next_multiple_of(4);
        let rest = bytes.len().next_multiple_of(PAGE_SIZE) - at;
        buffer.access()?.fill32(at, rest / 4, 0)?;
        buffer.publish()
    }

    /// Copies a part to the transfer buffer and sends the command that loads it.
    fn send<const N: usize>(
        &self,
        cx: &PspContext<'_>,
        state: &mut State,
        part: &Part,
        command: u32,
        arguments: impl FnOnce(u64) -> [(usize, u32); N],
    ) -> Result<Response> {
        let buffer = &state.buffers()?.transfer;
        self.copy(buffer, part)?;
        let arguments = arguments(buffer.gpu_addr());
        self.submit(cx, state, command, &arguments)
    }

    /// Loads the list of firmware (TOC), by which the PSP divides the TMR.
    fn load_list(&self, cx: &PspContext<'_>, state: &mut State, part: &Part) -> Result {
        let response = self.send(cx, state, part, cmd::LOAD_TOC, |at| {
            [
                (load_toc::TOC_ADDR_LO, lo32(at)),
                (load_toc::TOC_ADDR_HI, hi32(at)),
                (load_toc::TOC_SIZE, part.len as u32),
            ]
        })?;
        self.warn_if_refused(cx, part, response.status);
        Ok(())
    }

    fn load(&self, cx: &PspContext<'_>, state: &mut State, part: &Part) -> Result {
        let response = self.send(cx, state, part, cmd::LOAD_IP_FW, |at| {
            [
                (load_ip_fw::FW_ADDR_LO, lo32(at)),
                (load_ip_fw::FW_ADDR_HI, hi32(at)),
                (load_ip_fw::FW_SIZE, part.len as u32),
                (load_ip_fw::FW_TYPE, part.code),
            ]
        })?;
        // Cancelled: it is loaded already.
        if response.status != status::CANCEL {
            self.warn_if_refused(cx, part, response.status);
        }
        Ok(())
    }

    fn load_driver(&self, cx: &PspContext<'_>, state: &mut State, part: &Part) -> Result {
        let response = self.send(cx, state, part, cmd::LOAD_ASD, |at| {
            [
                (load_ta::APP_ADDR_LO, lo32(at)),
                (load_ta::APP_ADDR_HI, hi32(at)),
                (load_ta::APP_LEN, part.len as u32),
            ]
        })?;
        self.warn_if_refused(cx, part, response.status);
        if response.status == status::SUCCESS {
            state.session = Some(response.session);
        }
        Ok(())
    }

    /// Logs that a part was not loaded if the status is not that of success. It is no error: the
    /// status is not reliable (`psp_cmd_submit_buf`, `amdgpu_psp.c`), and an engine without
    /// firmware does not start.
    fn warn_if_refused(&self, cx: &PspContext<'_>, part: &Part, status: u32) {
        if status == status::SUCCESS {
            return;
        }
        let (name, path, status) = (part.name, self.files.path(part.file), Status(status));
        if part.needed {
            dev_warn!(
                cx.dev,
                "the PSP rejects the {name} firmware of {path}: {status}; if the card does not work, install another version of firmware-amd-graphics\n"
            );
        } else {
            dev_warn!(cx.dev, "the PSP rejects the {name} of {path}: {status}\n");
        }
    }

    /// Sends a command and logs a status other than that of success, which is no error, see
    /// [`Psp::warn_if_refused`]. `ETIMEDOUT` without a response.
    fn send_command(
        &self,
        cx: &PspContext<'_>,
        state: &mut State,
        command: u32,
        arguments: &[(usize, u32)],
    ) -> Result {
        let response = self.submit(cx, state, command, arguments)?;
        if response.status != status::SUCCESS {
            dev_warn!(
                cx.dev,
                "the PSP rejects {}: {}\n",
                cmd::name(command).unwrap_or("a command"),
                Status(response.status)
            );
        }
        Ok(())
    }

    /// Sends a command and polls its fence. `ETIMEDOUT` when the PSP does not respond.
    fn submit(
        &self,
        cx: &PspContext<'_>,
        state: &mut State,
        command: u32,
        arguments: &[(usize, u32)],
    ) -> Result<Response> {
        state.fence = state.fence.wrapping_add(1).max(1);
        let value = state.fence;
        let shared = &state.buffers()?.shared;
        shared.access()?.fill32(COMMAND, cmd_buf::SIZE / 4, 0)?;
        shared.write32(COMMAND + cmd_buf::CMD_ID, command)?;
        for (at, word) in arguments {
            shared.write32(COMMAND + cmd_buf::CMD + at, *word)?;
        }

        let words = psp::RING_BYTES / 4;
        let wptr = self.hal.wptr(cx.mmio)? % words;
        let at = RING + wptr as usize * 4;
        if at % frame::SIZE != 0 {
            dev_err!(cx.dev, "the PSP's ring is at {wptr:#x}, inside a frame\n");
            return Err(EIO);
        }
        shared.access()?.fill32(at, frame::SIZE / 4, 0)?;
        let base = shared.gpu_addr();
        let (buffer, fence) = (base + COMMAND as u64, base + FENCE as u64);
        shared.write32(at + frame::CMD_BUF_ADDR_LO, lo32(buffer))?;
        shared.write32(at + frame::CMD_BUF_ADDR_HI, hi32(buffer))?;
        shared.write32(at + frame::FENCE_ADDR_LO, lo32(fence))?;
        shared.write32(at + frame::FENCE_ADDR_HI, hi32(fence))?;
        shared.write32(at + frame::FENCE_VALUE, value)?;
        shared.publish()?;
        let next = (wptr + (frame::SIZE / 4) as u32) % words;
        self.hal.set_wptr(cx.mmio, next)?;

        read_poll_timeout(
            || shared.read32(FENCE),
            |v| *v == value,
            Delta::from_micros(100),
            TIMEOUT,
        )
        .inspect_err(|_| {
            dev_err!(
                cx.dev,
                "the PSP does not respond to {}\n",
                cmd::name(command).unwrap_or("a command")
            );
        })?;
        let word = |at| shared.read32(COMMAND + cmd_buf::RESP + at);
        Ok(Response {
            status: word(resp::STATUS)?,
            session: word(resp::SESSION_ID)?,
        })
    }
}
