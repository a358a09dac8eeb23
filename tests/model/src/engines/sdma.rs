// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The SDMA engines. Each has its own thread ([`engine`]), which owns the execution state; its
//! registers ([`bank`]) are shared with the thread that serves the guest and with the scheduler
//! firmware, which maps and unmaps user queues ([`rlc`]). Doorbells and register writes change
//! registers and wake the thread without waiting for it.
//!
//! | module | is responsible for |
//! |---|---|
//! | [`bank`] | registers, doorbells, status registers |
//! | [`context`] | an enabled ring: pointers, fetching, saving |
//! | [`engine`] | the thread: arbitration, interrupts, faults |
//! | [`exec`], [`transfer`] | packets; bulk transfers |
//! | [`v7`] | packets that only SDMA 7 has |
//! | [`layout`] | differences between the versions of the engines |
//! | [`rlc`] | mapping and unmapping of user queues |
//!
//! Not modelled: tiled and byte-swapped copies, semaphores, AQL rings, the packets that `exec` does
//! not list (they stop their queue), the context-empty interrupt, queue priorities and phase
//! quanta: queues are served round-robin.

pub mod bank;
mod context;
mod engine;
mod error;
mod exec;
pub mod layout;
pub mod rlc;
mod transfer;
mod v7;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use gpu_regs::{gc_12_0_0 as gc12, sdma_4_4_2 as regs};
use rkfd_abi::doorbell::{DWORDS, MIRROR};

use crate::chips::Chip;
use crate::engines::doorbells::Doorbells;
use crate::engines::firmware::{Fw, Port};
use crate::engines::gc::in_safe_mode;
use crate::gpu::{Boot, Gpu};
use crate::mailbox::Mailbox;
use crate::regs::{Ip, RegId, Slot};
use crate::{event, strict};
use bank::{Bank, ContextId, Rung};
use engine::Engine;
use layout::{Layout, Version};

/// Timeout of a reset for the engines to stop.
const RESET_TIMEOUT: Duration = Duration::from_secs(2);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// A reset of several engines, and the action after the last one is reset.
struct Resets {
    left: AtomicUsize,
    done: Mutex<bool>,
    changed: Condvar,
    then: fn(&Gpu),
}

impl Resets {
    fn new(engines: usize, then: fn(&Gpu)) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(engines),
            done: Mutex::new(false),
            changed: Condvar::new(),
            then,
        })
    }

    /// Records the reset of one engine.
    fn one(&self, gpu: &Gpu) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            (self.then)(gpu);
            *lock(&self.done) = true;
            self.changed.notify_all();
        }
    }

    /// Requests a reset of `engines`, whose threads run or are going to run.
    fn request(engines: &[&Shared], then: fn(&Gpu)) -> Arc<Self> {
        let resets = Self::new(engines.len(), then);
        for engine in engines {
            engine.mail.send(Wake::Reset(resets.clone()));
        }
        resets
    }

    fn wait(&self, timeout: Duration) {
        let _guard = self
            .changed
            .wait_timeout_while(lock(&self.done), timeout, |done| !*done)
            .unwrap_or_else(|e| e.into_inner());
    }
}

/// A message to an engine's thread.
enum Wake {
    /// Registers changed.
    Rescan,
    /// Resets to power-on state.
    Reset(Arc<Resets>),
    /// Drops a queue, whatever its state.
    ResetQueue(ContextId),
}

/// State shared with an engine's thread.
struct Shared {
    mail: Mailbox<Wake>,
    bank: Mutex<Bank>,
    running: Mutex<bool>,
}

impl Shared {
    fn new(layout: &'static Layout, boot: Boot) -> Self {
        Self {
            mail: Mailbox::default(),
            bank: Mutex::new(Bank::new(layout, boot)),
            running: Mutex::default(),
        }
    }

    fn bank(&self) -> MutexGuard<'_, Bank> {
        lock(&self.bank)
    }
}

/// All SDMA engines of the card.
pub struct Sdma {
    layout: &'static Layout,
    /// By physical instance, those that are fused off included.
    engines: Vec<Shared>,
    /// Physical instances by logical number.
    instances: Vec<u8>,
    doorbells: Doorbells,
    /// Number of traps after jobs, for fault injection.
    traps: AtomicU64,
}

impl Sdma {
    /// Returns the engines of `chip` in power-on state.
    pub fn new(chip: &Chip, boot: Boot) -> Self {
        let engines: Vec<_> = chip.ips.iter().filter(|ip| ip.ip == Ip::Sdma).collect();
        let layout = Layout::of(engines.first().map_or([0; 3], |ip| ip.version));
        Self {
            layout,
            engines: engines.iter().map(|_| Shared::new(layout, boot)).collect(),
            instances: chip.instances(Ip::Sdma).collect(),
            doorbells: Doorbells::new("sdma", 1),
            traps: AtomicU64::new(0),
        }
    }

    /// Returns the layout of the engines' version.
    pub fn layout(&self) -> &'static Layout {
        self.layout
    }

    /// Returns the physical instances of the engines by logical number.
    pub fn instances(&self) -> &[u8] {
        &self.instances
    }

    /// Returns one more than the highest instance of an engine.
    pub fn count(&self) -> usize {
        self.engines.len()
    }

    /// Runs an engine's thread; returns after [`stop`](Self::stop).
    pub fn run(&self, gpu: &Gpu, n: usize) {
        let shared = &self.engines[n];
        *lock(&shared.running) = true;
        Engine::new(gpu, n as u8, shared).run();
        *lock(&shared.running) = false;
    }

    /// Ends [`run`](Self::run).
    pub fn stop(&self) {
        self.engines.iter().for_each(|e| e.mail.close());
    }

    /// Handles a register read.
    pub fn reg_read(&self, slot: &Slot) -> u32 {
        match self.engines.get(usize::from(slot.instance)) {
            Some(engine) => engine
                .bank()
                .read(self.layout.local(slot.instance, slot.id)),
            None => 0,
        }
    }

    /// Handles a register write.
    pub fn reg_write(&self, gpu: &Gpu, slot: &Slot, value: u32) {
        let Some(engine) = self.engines.get(usize::from(slot.instance)) else {
            return;
        };
        let local = self.layout.local(slot.instance, slot.id);
        if self.layout.port_address == Some(local) {
            engine.bank().write(local, value);
            return gpu.firmware.port_address(gpu, Port::Sdma(slot.instance));
        }
        if self.layout.port_data == Some(local) {
            return gpu.firmware.port_data(gpu, Port::Sdma(slot.instance));
        }
        if self.layout.of_engine(regs::regSDMA_F32_CNTL) == Some(local as usize) {
            self.start_engine(gpu, slot.instance, value);
        }
        if self.layout.version == Version::V7 {
            Self::check_queue_reset(gpu, slot, value);
        }
        let (refused, runs) = {
            let mut bank = engine.bank();
            let old = bank.read(local);
            let enable = regs::SDMA_GFX_RB_CNTL__RB_ENABLE.mask;
            let stays = gpu.knobs.sdma_no_stop.on()
                && old & !value & enable != 0
                && self.layout.context_of(local).is_some_and(|(id, reg)| {
                    let is_control = reg == Some(regs::regSDMA_GFX_RB_CNTL.off);
                    is_control && id.is_kernel() && !bank.is_idle(id)
                });
            let value = match stays {
                true => value | enable,
                false => value,
            };
            if stays {
                gpu.knobs.sdma_no_stop.hit();
            }
            let runs = self
                .layout
                .context_of(local)
                .filter(|(id, reg)| bank.enabled(*id) && reg.is_some_and(is_fixed) && old != value);
            bank.write(local, (old & !slot.mask) | (value & slot.mask));
            ((old ^ value) & !slot.mask, runs)
        };
        if refused != 0 {
            strict!(
                gpu.strict,
                "sdma",
                "engine {}: {}: {value:#x} changes read-only bits {refused:#x}",
                slot.instance,
                slot.name
            );
        }
        if let Some((id, _)) = runs {
            strict!(
                gpu.strict,
                "sdma",
                "engine {}: {} = {value:#x} while the ring of queue {id} is enabled",
                slot.instance,
                slot.name
            );
        }
        engine.mail.send(Wake::Rescan);
    }

    /// Reports a reset of queues outside RLC safe mode, where a gated clock may stop it
    /// (`mes_v12_0_reset_queue_mmio`).
    fn check_queue_reset(gpu: &Gpu, slot: &Slot, value: u32) {
        let requests = [
            gc12::regSDMA0_QUEUE_RESET_REQ,
            gc12::regSDMA1_QUEUE_RESET_REQ,
        ];
        let is_request = requests.iter().any(|reg| RegId::from(*reg) == slot.id);
        if is_request && value != 0 && !in_safe_mode(gpu, 0) {
            strict!(
                gpu.strict,
                "sdma",
                "engine {}: {} = {value:#x} outside RLC safe mode",
                slot.instance,
                slot.name
            );
        }
    }

    /// Handles a write of `value` to `SDMA_F32_CNTL`: an unhalted processor needs firmware. Without
    /// it stalls until it is halted again.
    fn start_engine(&self, gpu: &Gpu, n: u8, value: u32) {
        let starts = value & self.layout.halts == 0;
        let stalled = starts && !gpu.firmware.loaded(Fw::Sdma(n));
        if stalled {
            strict!(
                gpu.strict,
                "sdma",
                "engine {n}: SDMA_F32_CNTL {value:#x} starts it, but its firmware is not loaded"
            );
        }
        if let Some(engine) = self.engines.get(usize::from(n)) {
            engine.bank().set_stalled(stalled);
        }
    }

    /// Starts an engine whose firmware the PSP has loaded: drivers that load through the PSP do not
    /// write SDMA_F32_CNTL (sdma_v4_4_2_inst_enable).
    pub fn start_loaded(&self, n: u8) {
        if let Some(engine) = self.engines.get(usize::from(n)) {
            engine.bank().start();
            engine.mail.send(Wake::Rescan);
        }
    }

    /// Returns whether an engine is not halted.
    pub fn runs(&self, n: u8) -> bool {
        self.engines
            .get(usize::from(n))
            .is_some_and(|engine| !engine.bank().halted())
    }

    /// Handles a doorbell in the non-CP window: dword index on the BAR. Returns whether it belongs
    /// to an engine.
    pub fn doorbell(&self, gpu: &Gpu, index: u32, value: u64, width: u8) -> bool {
        let Some(n) = self.engine_of(index) else {
            return false;
        };
        let engine = &self.engines[n];
        if width != 8 {
            strict!(
                gpu.strict,
                "sdma",
                "engine {n}: doorbell {index:#x} = {value:#x} of {width} bytes"
            );
            let control = engine.bank().get(regs::regSDMA_CNTL);
            let enable = self.layout.control_doorbell;
            if control & enable == enable {
                let source = self.layout.sources.doorbell_invalid;
                let entry = self.layout.entry(n as u8, ContextId::GFX, 0, source, 0);
                gpu.ih.post(entry);
            }
            return true;
        }
        let rung = engine.bank().ring(index, value);
        event!(
            gpu.trace,
            "sdma",
            "doorbell",
            "engine={n} index={index:#x} value={value:#x} {}",
            match rung {
                Rung::Moved(id) => format!("queue={id}"),
                Rung::Behind(id) => format!("queue={id} behind=1"),
                Rung::NoQueue => "queue=none".into(),
            }
        );
        match rung {
            Rung::NoQueue => self.doorbells.unmapped(index, value),
            _ => self.doorbells.expect(index),
        }
        self.doorbells.report(&gpu.strict);
        engine.mail.send(Wake::Rescan);
        true
    }

    /// Returns the engine that a doorbell belongs to: their order is that of logical numbers
    /// (`aqua_vanjaram_doorbell_index_init`).
    pub fn engine_of(&self, index: u32) -> Option<usize> {
        if index % DWORDS != 0 {
            return None;
        }
        let n = self.layout.engine_of(index / DWORDS % MIRROR)?;
        self.instances.get(n).map(|n| usize::from(*n))
    }

    /// Returns the engines of `mask`.
    fn selected(&self, mask: u32) -> Vec<&Shared> {
        let engines = self.engines.iter().enumerate();
        let selected = engines.filter(|(n, _)| mask >> n & 1 != 0);
        selected.map(|(_, engine)| engine).collect()
    }

    /// Requests a reset of the engines of `mask`, after which `then` is called. Returns false if an
    /// engine does not exist.
    pub fn request_reset(&self, mask: u32, then: fn(&Gpu)) -> bool {
        let all = self.instances.iter().fold(0, |all, n| all | 1 << n);
        if mask == 0 || mask & !all != 0 {
            return false;
        }
        Resets::request(&self.selected(mask), then);
        true
    }

    /// Drops a queue, also if the engine hangs in it. Queue 0 is the kernel's.
    pub fn reset_queue(&self, engine: u8, queue: u8) {
        let id = match queue {
            0 => ContextId::GFX,
            n => ContextId::rlc(n),
        };
        if let Some(engine) = self.engines.get(usize::from(engine)) {
            engine.mail.send(Wake::ResetQueue(id));
        }
    }

    /// Resets to power-on state. Returns once nothing of the old state runs any more.
    pub fn reset(&self, gpu: &Gpu) {
        let boot = match gpu.is_warm() {
            true => Boot::Warm,
            false => Boot::Cold,
        };
        for engine in &self.engines {
            engine.bank().set_boot(boot);
        }
        self.doorbells.reset();
        Self::reset_now(self.engines.iter().collect());
    }

    /// Resets engines of `mask` by GRBM_SOFT_RESET. The reset is over when the register is written:
    /// the driver programs the engine right after it. Before, it sets HALT and RESET of MCU_CNTL
    /// (`sdma_v7_0_soft_reset`).
    pub fn soft_reset(&self, gpu: &Gpu, mask: u32) {
        let engines = self.selected(mask);
        if engines.iter().any(|engine| !engine.bank().held()) {
            strict!(
                gpu.strict,
                "sdma",
                "soft reset without HALT and RESET, mask {mask:#x}"
            );
        }
        Self::reset_now(engines);
    }

    /// Resets engines and waits until they are reset.
    fn reset_now(engines: Vec<&Shared>) {
        let (running, idle): (Vec<_>, Vec<_>) =
            engines.into_iter().partition(|e| *lock(&e.running));
        for engine in idle {
            engine.bank().reset();
        }
        if !running.is_empty() {
            Resets::request(&running, |_| {}).wait(RESET_TIMEOUT);
        }
    }
}

/// Returns whether a register must not change while its ring is enabled.
fn is_fixed(off: u32) -> bool {
    [
        regs::regSDMA_GFX_RB_BASE,
        regs::regSDMA_GFX_RB_BASE_HI,
        regs::regSDMA_GFX_RB_RPTR,
        regs::regSDMA_GFX_RB_RPTR_HI,
        regs::regSDMA_GFX_RB_RPTR_ADDR_LO,
        regs::regSDMA_GFX_RB_RPTR_ADDR_HI,
    ]
    .iter()
    .any(|reg| reg.off == off)
}
