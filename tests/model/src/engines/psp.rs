// SPDX-License-Identifier: GPL-2.0 OR MIT

//! PSP (MP0) 13.0.6 and 14.0.3: boot loader, secure OS, the kernel's ring.
//!
//! After power-on the boot loader waits for the components of the secure OS ([`boot`]). The secure
//! OS accepts a ring, and commands through it ([`commands`]). On a warm card the secure OS runs,
//! without a ring. Mailbox commands take time: a driver that does not wait for the response finds
//! the mailbox busy.

pub mod blob;
pub mod boot;
pub mod commands;
mod sha256;
pub mod targets;
mod xgmi;

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gpu_regs::{mp_13_0_6 as mp, psp as mailbox, Reg};
use rkfd_abi::bits::join;
use rkfd_abi::psp::{self as abi, cmd_buf, control, frame, status, ADDRESS, ADDRESS_ALIGN, READY};

use self::boot::{Outcome, Progress};
use self::commands::{Command, Os, Reply};
use crate::chips::Generation;
use crate::engines::gmc::{Hub, VmFault};
use crate::gpu::{Gpu, Reset};
use crate::mailbox::{Mailbox, Recv};
use crate::regs::{Ip, RegId, Slot};
use crate::{event, strict};

/// Client id in the memory hub's fault status (`mmhub_client_ids_aldebaran`).
pub const CLIENT: u16 = 3;

const MAILBOX: RegId = RegId::new(0, mailbox::MAILBOX.off);
const BOOTLOADER: RegId = RegId::new(0, mailbox::BOOTLOADER.off);
const BOOTLOADER_ADDRESS: RegId = RegId::new(0, mailbox::BOOTLOADER_ADDRESS.off);
const COMMAND: RegId = RegId::new(0, mailbox::COMMAND.off);
const RING_WPTR: RegId = RegId::new(0, mailbox::RING_WPTR.off);
const SIGN_OF_LIFE: RegId = RegId::new(0, mailbox::SIGN_OF_LIFE.off);
/// Read pointer of the kernel's ring, in dwords (`psp_gfx_ctrl`).
const RING_RPTR: Reg = mp::regMP0_SMN_C2PMSG_68;

/// Time for loading a component, starting the secure OS, creating a ring, and for the boot loader
/// after a reset.
const LOAD_TIME: Duration = Duration::from_micros(500);
const START_TIME: Duration = Duration::from_millis(2);
/// Timeout until the driver first reads the secure OS state, see [`Then::Start`]: 20 ms of a guest
/// whose clock counts instructions were 2.5 s on a busy host.
const FIRST_READ_TIMEOUT: Duration = Duration::from_secs(30);
const RING_TIME: Duration = Duration::from_micros(100);
const RESET_TIME: Duration = Duration::from_millis(20);

/// Returns the version of the secure OS on a warm card.
fn warm_version(generation: Generation) -> u32 {
    match generation {
        Generation::Gfx9 => 0x0036_0260,
        Generation::Gfx12 => 0x003a_0068,
    }
}

/// Maximum size of a ring, in bytes.
const MAX_RING: u32 = 1 << 20;
/// Dwords of a frame.
const FRAME_DWORDS: u32 = (frame::SIZE / 4) as u32;

/// State of the processor.
#[derive(Debug)]
enum Phase {
    Boot(Progress),
    Os { version: u32, os: Os },
}

/// State change that becomes visible to the driver after a delay.
#[derive(Debug, Clone, Copy)]
enum Then {
    /// The boot loader is ready so long after the first read of its registers.
    Boot(Duration),
    /// The boot loader is ready.
    Listen,
    /// Response of the boot loader: status in the low byte.
    Answer(u32),
    /// The secure OS starts. On silicon this takes longer than the 20 ms after which the stock
    /// driver reads C2PMSG_81 to wait for a different value (`psp_v13_0_bootloader_load_sos`). The
    /// host time of these 20 ms is unknown, so the state changes after the first read.
    Start(u32),
    /// The secure OS runs.
    Alive(u32),
    /// Response of the secure OS: its status.
    Control(u32),
}

#[derive(Debug)]
struct Ring {
    base: u64,
    dwords: u32,
    rptr: u32,
    wptr: u32,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    ring: Option<Ring>,
    busy: Option<(Instant, Then)>,
    /// The boot loader does not respond.
    dead: bool,
    /// Bits of C2PMSG_33 besides bit 31.
    flags: u32,
}

/// The security processor.
pub struct Psp {
    state: Mutex<State>,
    mail: Mailbox<()>,
}

impl Default for Psp {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::Boot(Progress::default()),
                ring: None,
                busy: None,
                dead: false,
                flags: 0,
            }),
            mail: Mailbox::default(),
        }
    }
}

/// Sets a mailbox register.
fn put(gpu: &Gpu, reg: Reg, value: u32) {
    if let Some(slot) = gpu.regs.by_id(gpu.chip, Ip::Mp0, reg) {
        slot.set(value);
    }
}

fn get(gpu: &Gpu, reg: Reg) -> u32 {
    gpu.regs.by_id(gpu.chip, Ip::Mp0, reg).map_or(0, Slot::get)
}

impl Psp {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Stops processing frames. Returns when no frame is in progress.
    pub fn quiesce(&self) {
        self.lock().ring = None;
    }

    /// Returns whether the boot loader is not ready yet.
    pub fn is_booting(&self) -> bool {
        let busy = self.lock().busy;
        matches!(busy, Some((_, Then::Boot(_) | Then::Listen)))
    }

    /// Sets the state after a reset of the card, whose registers are at their power-on values.
    pub fn reset(&self, gpu: &Gpu, kind: Reset) {
        let mut state = self.lock();
        let state = &mut *state;
        state.ring = None;
        let mut busy = None;
        match kind {
            Reset::PowerOn if gpu.is_warm() => {
                let other = u32::from(gpu.knobs.psp_other_os.on());
                if other != 0 {
                    gpu.knobs.psp_other_os.hit();
                }
                state.phase = Phase::Os {
                    version: warm_version(gpu.chip.generation) - other,
                    os: Os::started(gpu),
                };
            }
            // The PSP is not part of the function: it keeps running, and only the function driver's
            // setup is lost (see `Reset::Flr`).
            Reset::Flr => {
                let boots =
                    |(_, then): &(Instant, Then)| matches!(then, Then::Boot(_) | Then::Listen);
                busy = state.busy.filter(boots);
                if let Phase::Os { os, .. } = &mut state.phase {
                    *os = Os::started(gpu);
                }
            }
            // After mode 1 drivers wait for the boot loader (amdgpu_psp_wait_for_bootloader), and
            // reload the secure OS if it is not alive.
            Reset::Mode1 => {
                state.phase = Phase::Boot(Progress::default());
                busy = Some((Instant::now() + RESET_TIME, Then::Listen));
            }
            Reset::PowerOn => state.phase = Phase::Boot(Progress::default()),
        }
        let boot = Duration::from_millis(gpu.knobs.psp_boot_ms.get());
        if kind != Reset::Flr {
            state.dead = false;
            if !boot.is_zero() && matches!(state.phase, Phase::Boot(_)) {
                gpu.knobs.psp_boot_ms.hit();
                busy = Some((Instant::now(), Then::Boot(boot)));
            }
        }
        let ready = if busy.is_some() { 0 } else { READY };
        state.busy = busy;
        match kind {
            Reset::PowerOn | Reset::Mode1 => {
                state.flags = gpu.knobs.psp_flags.get() as u32;
                if state.flags != 0 {
                    gpu.knobs.psp_flags.hit();
                }
            }
            Reset::Flr => {}
        }
        put(gpu, mailbox::MAILBOX, ready | state.flags);
        put(gpu, mailbox::BOOTLOADER, ready);
        let version = match state.phase {
            Phase::Os { version, .. } => version,
            Phase::Boot(_) => 0,
        };
        publish_os(gpu, version);
        if gpu.chip.generation == Generation::Gfx12 && gpu.is_warm() {
            commands::booted(gpu);
        }
    }

    /// Applies a pending state change when it is due.
    fn settle(&self, gpu: &Gpu, state: &mut State) {
        let Some((when, then)) = state.busy else {
            return;
        };
        if Instant::now() < when || matches!(then, Then::Boot(_)) {
            return;
        }
        state.busy = None;
        match then {
            Then::Boot(_) => {}
            Then::Listen => {
                gpu.gmc.restore_fb_location();
                put(gpu, mailbox::MAILBOX, READY | state.flags);
                put(gpu, mailbox::BOOTLOADER, READY);
            }
            Then::Answer(code) => put(gpu, mailbox::BOOTLOADER, READY | code),
            Then::Start(version) | Then::Alive(version) => {
                put(gpu, mailbox::BOOTLOADER, READY);
                publish_os(gpu, version);
            }
            Then::Control(code) => put(gpu, mailbox::COMMAND, READY | code),
        }
    }

    /// Handles a register read.
    pub fn reg_read(&self, gpu: &Gpu, slot: &Slot) -> u32 {
        let mut state = self.lock();
        self.settle(gpu, &mut state);
        match (slot.id, state.busy) {
            (SIGN_OF_LIFE, Some((_, Then::Start(version)))) => {
                state.busy = Some((Instant::now() + START_TIME, Then::Alive(version)));
            }
            (MAILBOX | BOOTLOADER, Some((_, Then::Boot(time)))) => {
                state.busy = Some((Instant::now() + time, Then::Listen));
            }
            _ => {}
        }
        slot.get()
    }

    /// Handles a register write.
    pub fn reg_write(&self, gpu: &Gpu, slot: &Slot, value: u32) {
        let mut state = self.lock();
        self.settle(gpu, &mut state);
        let watched = [BOOTLOADER, BOOTLOADER_ADDRESS, COMMAND, RING_WPTR];
        if watched.contains(&slot.id) && state.busy.is_some() {
            strict!(
                gpu.strict,
                "psp",
                "{value:#x} in {} while the PSP works on a command",
                slot.name
            );
            return;
        }
        match slot.id {
            BOOTLOADER => self.boot(gpu, &mut state, value),
            COMMAND => self.control(gpu, &mut state, value),
            RING_WPTR => {
                slot.set(value);
                self.advance(gpu, &mut state, value);
            }
            _ => gpu.store(slot, value),
        }
    }

    fn boot(&self, gpu: &Gpu, state: &mut State, command: u32) {
        let Phase::Boot(progress) = &mut state.phase else {
            strict!(
                gpu.strict,
                "psp",
                "boot loader: command {command:#x}, but the secure OS runs"
            );
            return;
        };
        put(gpu, mailbox::BOOTLOADER, command & !READY);
        state.dead |= gpu.knobs.psp_dead.on();
        if state.dead {
            gpu.knobs.psp_dead.hit();
            event!(gpu.trace, "psp", "dead", "command={command:#x}");
            return;
        }
        let address = get(gpu, mailbox::BOOTLOADER_ADDRESS);
        let (time, then) = match boot::command(gpu, progress, command, address) {
            Outcome::Loaded => (LOAD_TIME, Then::Answer(0)),
            Outcome::Failed(code) => (LOAD_TIME, Then::Answer(code)),
            Outcome::Started(version) => {
                let os = Os::started(gpu);
                state.phase = Phase::Os { version, os };
                (FIRST_READ_TIMEOUT, Then::Start(version))
            }
        };
        state.busy = Some((Instant::now() + time, then));
    }

    fn control(&self, gpu: &Gpu, state: &mut State, command: u32) {
        if !matches!(state.phase, Phase::Os { .. }) {
            strict!(
                gpu.strict,
                "psp",
                "command {command:#x} in C2PMSG_64: the secure OS does not run"
            );
            return;
        }
        put(gpu, mailbox::COMMAND, command & !READY);
        event!(gpu.trace, "psp", "control", "command={command:#x}");
        let code = match command {
            control::INIT_GPCOM_RING => create(gpu, state),
            control::DESTROY_RINGS => {
                state.ring = None;
                0
            }
            control::CAN_INIT_RINGS => 0,
            _ => {
                strict!(
                    gpu.strict,
                    "psp",
                    "command {command:#x} in C2PMSG_64 is not one of this chip"
                );
                status::UNKNOWN_COMMAND
            }
        };
        state.busy = Some((Instant::now() + RING_TIME, Then::Control(code)));
    }

    /// Handles a new write pointer of the ring.
    fn advance(&self, gpu: &Gpu, state: &mut State, wptr: u32) {
        let Some(ring) = &mut state.ring else {
            strict!(gpu.strict, "psp", "write pointer {wptr:#x}, but no ring");
            return;
        };
        if wptr % FRAME_DWORDS != 0 || wptr >= ring.dwords {
            strict!(
                gpu.strict,
                "psp",
                "write pointer {wptr:#x} of a ring of {:#x} dwords: not at a frame",
                ring.dwords
            );
            return;
        }
        ring.wptr = wptr;
        self.mail.send(());
    }

    /// Runs the processor's thread; returns after [`stop`](Self::stop).
    pub fn run(&self, gpu: &Gpu) {
        while self.mail.recv(None) == Recv::Message(()) {
            while self.step(gpu) {}
        }
    }

    /// Ends [`run`](Self::run).
    pub fn stop(&self) {
        self.mail.close();
    }

    /// Processes one frame of the ring; returns false if there is none.
    pub fn step(&self, gpu: &Gpu) -> bool {
        let mut state = self.lock();
        let state = &mut *state;
        let (Some(ring), Phase::Os { os, .. }) = (&mut state.ring, &mut state.phase) else {
            return false;
        };
        if ring.rptr == ring.wptr {
            return false;
        }
        let addr = ring.base + u64::from(ring.rptr) * 4;
        ring.rptr = (ring.rptr + FRAME_DWORDS) % ring.dwords;
        put(gpu, RING_RPTR, ring.rptr);
        if let Err(fault) = frame_at(gpu, os, addr) {
            gpu.raise_fault(&fault, CLIENT);
        }
        true
    }
}

/// Sets the registers that show the version of the running secure OS; 0: it does not run.
fn publish_os(gpu: &Gpu, version: u32) {
    put(gpu, mailbox::VERSION, version);
    put(gpu, mailbox::SIGN_OF_LIFE, version);
    put(gpu, mailbox::COMMAND, if version == 0 { 0 } else { READY });
}

/// Creates the ring that the registers describe; returns the status.
fn create(gpu: &Gpu, state: &mut State) -> u32 {
    let base = join(
        get(gpu, mailbox::RING_ADDRESS_LO),
        get(gpu, mailbox::RING_ADDRESS_HI),
    );
    let size = get(gpu, mailbox::RING_SIZE);
    let why = if state.ring.is_some() {
        "there is one already"
    } else if base % ADDRESS_ALIGN != 0 || base & !ADDRESS.mask != 0 {
        "its address is not page aligned"
    } else if size == 0 || size % frame::SIZE as u32 != 0 || size > MAX_RING {
        "its size is not a multiple of a frame"
    } else {
        put(gpu, mailbox::RING_WPTR, 0);
        put(gpu, RING_RPTR, 0);
        state.ring = Some(Ring {
            base,
            dwords: size / 4,
            rptr: 0,
            wptr: 0,
        });
        return 0;
    };
    strict!(
        gpu.strict,
        "psp",
        "kernel ring of {size:#x} bytes at {base:#x}: {why}"
    );
    status::tee::BAD_PARAMETERS & abi::STATUS.mask
}

fn dword(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Executes the frame at `addr`: command buffer, response, fence.
fn frame_at(gpu: &Gpu, os: &mut Os, addr: u64) -> Result<(), VmFault> {
    let mut bytes = [0; frame::SIZE];
    gpu.gmc.vm_read(Hub::MM, 0, addr, &mut bytes)?;
    let buffer = join(
        dword(&bytes, frame::CMD_BUF_ADDR_LO),
        dword(&bytes, frame::CMD_BUF_ADDR_HI),
    );
    let fence = join(
        dword(&bytes, frame::FENCE_ADDR_LO),
        dword(&bytes, frame::FENCE_ADDR_HI),
    );
    let size = dword(&bytes, frame::CMD_BUF_SIZE);
    let rest = &bytes[frame::SID_LO..];
    // psp_ring_cmd_submit leaves the size zero.
    let sized = size == 0 || size == cmd_buf::SIZE as u32;
    if !sized || buffer % ADDRESS_ALIGN != 0 || fence % 4 != 0 || rest.iter().any(|b| *b != 0) {
        strict!(
            gpu.strict,
            "psp",
            "frame at {addr:#x}: command buffer {buffer:#x} of {size:#x} bytes, fence {fence:#x}, or \
             nonzero fields that are reserved on the kernel's ring"
        );
        return Ok(());
    }
    let mut command = Command([0; cmd_buf::SIZE]);
    gpu.gmc.vm_read(Hub::MM, 0, buffer, &mut command.0)?;
    let mut reply = match gpu.knobs.psp_error.reach() {
        true => Reply::status(status::tee::GENERIC),
        false => answer(gpu, os, &command),
    };
    if gpu.knobs.psp_status.reach() {
        reply.status = status::tee::GENERIC;
    }
    gpu.gmc
        .vm_write(Hub::MM, 0, buffer + cmd_buf::RESP as u64, &reply.bytes())?;
    if gpu.knobs.psp_no_fence.reach() {
        return Ok(());
    }
    gpu.gmc
        .write32(Hub::MM, 0, fence, dword(&bytes, frame::FENCE_VALUE))
}

/// Validates the fields common to all commands, and executes the command.
fn answer(gpu: &Gpu, os: &mut Os, command: &Command) -> Reply {
    let size = command.word(cmd_buf::BUF_SIZE);
    let version = command.word(cmd_buf::BUF_VERSION);
    let unused = &command.0[cmd_buf::RESP_BUF_ADDR_LO..cmd_buf::CMD];
    // acquire_psp_cmd_buf leaves size and version zero.
    let sized = size == 0 || size == cmd_buf::SIZE as u32;
    if !sized || !matches!(version, 0 | abi::BUFFER_VERSION) || unused.iter().any(|b| *b != 0) {
        strict!(
            gpu.strict,
            "psp",
            "command buffer of {size:#x} bytes, version {version:#x}, or with a place for the \
             response of a user ring"
        );
        return Reply::status(status::tee::BAD_FORMAT);
    }
    commands::run(gpu, os, command)
}
