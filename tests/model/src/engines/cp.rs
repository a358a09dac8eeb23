// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The command processor of an XCC: HQDs, their doorbells and packets.
//!
//! BAR accesses arrive on the thread that serves the guest and must return at once; their effects
//! are sent through a mailbox to [`Cp::run`], the engine thread, which owns all queue state
//! ([`engine::Engine`]). Workgroups run on worker threads ([`dispatch::Pool`]).
//!
//! | module | is responsible for |
//! |---|---|
//! | [`regs`], [`slot`] | register banks; numbering of HQDs |
//! | [`queue`], [`pointers`] | a mapped queue; its pointers and doorbell |
//! | [`lifecycle`], [`save`] | activation and dequeue; MQDs, preempted work |
//! | [`engine`] | the engine thread: messages, arbitration between queues |
//! | [`error`] | errors of PM4 packets |
//! | [`pm4`], [`exec`], [`atomic`], [`compute`] | PM4 packets; dispatches that they start |
//! | [`sched`], [`runlist`], [`unmap`] | KIQ and HIQ packets, runlists, quanta |
//! | [`sdma`] | SDMA user queues in runlists |
//! | [`shared`], `partition` | queues and HIQs that several XCCs execute; an XCC's part of it |
//! | `mes` | hooks for the MES of gfx12 |
//! | [`aql`], [`signal`] | AQL packets; signals, interrupts, errors |
//! | [`dispatch`], [`shader`] | workgroups on worker threads |
//!
//! Not modelled: a first XCC that changes from one dispatch to the next, GDS, the packets that
//! `exec` does not list (they raise the bad-opcode interrupt, as on silicon), doorbell ranges, the
//! contents of a wave in the save area (see [`save`]). Arithmetic exceptions do not enter the trap
//! handler; [`gpu_wave`] lists the events that do.

pub mod aql;
pub mod atomic;
pub mod compute;
pub mod cwsr;
pub mod dispatch;
pub mod engine;
pub mod env;
pub mod error;
pub mod exec;
pub mod fault;
mod fence;
mod graphics;
pub mod lifecycle;
mod mes;
mod partition;
pub mod pm4;
pub mod pointers;
pub mod queue;
pub mod regs;
pub mod runlist;
pub mod save;
pub mod sched;
mod scratch;
pub mod sdma;
pub mod shader;
pub mod shared;
pub mod signal;
pub mod slot;
pub mod unmap;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use gpu_regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc};

use crate::chips::Generation;
use crate::engines::firmware::Fw;
use crate::engines::gc::in_safe_mode;
use crate::engines::nbio;
use crate::gpu::{Boot, Gpu};
use crate::mailbox::Mailbox;
use crate::regs::{Ip, RegId, Selector};
use crate::strict;
use dispatch::Pool;
use engine::Engine;
use env::XccEnv;
use regs::Banks;
use shader::Interpreter;
use slot::Slot;

pub use regs::registers;

/// Maximum number of worker threads.
const WORKERS: usize = 2;
/// Timeout of a reset for the engine to stop.
const RESET_TIMEOUT: Duration = Duration::from_secs(2);

/// A message to the engine thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// A doorbell: dword index on BAR2, value, width in bytes (4 or 8).
    Doorbell(u32, u64, u8),
    /// `CP_HQD_ACTIVE` was set.
    Activate(Slot),
    /// `CP_HQD_ACTIVE` was cleared.
    Deactivate(Slot),
    /// `CP_HQD_DEQUEUE_REQUEST`: 1 drain, 2 reset, 3 save.
    Dequeue(Slot, u8),
    /// The write pointer registers of an active queue changed.
    Wptr(Slot),
    /// Reads the write pointers of these slots from memory.
    PollOnce(u64),
    /// `SPI_COMPUTE_QUEUE_RESET`.
    ResetQueue(Slot),
    /// A pipe reset of `CP_MEC_CNTL`: me (0: MEC1), pipe.
    ResetPipe(u32, u32),
    /// The driver raised the software interrupt.
    SoftwareInterrupt,
    /// The progress of a job changed.
    Job(u64),
    /// Rescans all queues.
    Rescan,
    /// Resets to power-on state.
    Reset,
}

#[derive(Default)]
struct Resets {
    running: bool,
    requested: u64,
    done: u64,
}

/// The command processor of one XCC.
pub struct Cp {
    xcc: u8,
    generation: Generation,
    mail: Mailbox<Wake>,
    banks: Mutex<Banks>,
    resets: Mutex<Resets>,
    reset_done: Condvar,
    /// Workers that run a workgroup.
    busy: Arc<AtomicUsize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// A register about waves, which `GRBM_GFX_INDEX` selects.
pub enum WaveReg {
    /// `SPI_CSQ_WF_ACTIVE_STATUS`.
    Status,
    /// `SPI_CSQ_WF_ACTIVE_COUNT_n`: of queue n of the selected pipe.
    Count(u8),
}

impl WaveReg {
    /// Returns the register at `reg`, if it is one.
    pub fn new(generation: Generation, reg: RegId) -> Option<Self> {
        let (status, first): (RegId, RegId) = match generation {
            Generation::Gfx9 => (
                gc::regSPI_CSQ_WF_ACTIVE_STATUS.into(),
                gc::regSPI_CSQ_WF_ACTIVE_COUNT_0.into(),
            ),
            Generation::Gfx12 => (
                gc12::regSPI_CSQ_WF_ACTIVE_STATUS.into(),
                gc12::regSPI_CSQ_WF_ACTIVE_COUNT_0.into(),
            ),
        };
        if reg == status {
            return Some(Self::Status);
        }
        let n = reg.off.checked_sub(first.off)?;
        (reg.seg == first.seg && n < 8).then_some(Self::Count(n as u8))
    }
}

impl Cp {
    /// Returns the command processor of `xcc` in power-on state.
    pub fn new(xcc: u8, generation: Generation, boot: Boot) -> Self {
        Self {
            xcc,
            generation,
            mail: Mailbox::default(),
            banks: Mutex::new(Banks::new(generation, boot)),
            resets: Mutex::default(),
            reset_done: Condvar::new(),
            busy: Arc::default(),
        }
    }

    /// Returns the number of the XCC.
    pub fn xcc(&self) -> u8 {
        self.xcc
    }

    /// Returns the slots whose queues execute their packets here and have waves on `xcc`, see
    /// [`Banks::wave_queues`].
    pub fn wave_queues(&self, xcc: u8, se: Option<u32>) -> u32 {
        lock(&self.banks).wave_queues(xcc, se)
    }

    /// Returns the mask of the VMIDs with active queues.
    pub fn vmids(&self) -> u16 {
        lock(&self.banks).vmids()
    }

    /// Returns the number of waves on `xcc` of a queue that executes its packets here, see
    /// [`Banks::wave_count`].
    pub fn wave_count(&self, sel: Selector, queue: u8, xcc: u8, se: Option<u32>) -> u32 {
        let slot = Slot::selected(self.generation, Selector { queue, ..sel });
        let banks = lock(&self.banks);
        slot.map_or(0, |slot| banks.wave_count(slot.0.into(), xcc, se))
    }

    /// Handles a register read through the bank that `sel` selects.
    pub fn reg_read(&self, gpu: &Gpu, sel: Selector, reg: RegId) -> u32 {
        lock(&self.banks).read(sel, reg).unwrap_or_else(|_| {
            strict!(
                gpu.strict,
                "cp",
                "read of {reg:x?} while GRBM_GFX_CNTL selects no compute queue ({sel:?})"
            );
            0
        })
    }

    /// Handles a register write through the bank that `sel` selects.
    pub fn reg_write(&self, gpu: &Gpu, sel: Selector, reg: RegId, value: u32) {
        if self.generation == Generation::Gfx9 && reg == gc::regCP_MEC_CNTL.into() {
            self.start_mecs(gpu, value);
        }
        if self.generation == Generation::Gfx12 {
            self.start_gfx12(gpu, reg, value);
        }
        self.check_reset(gpu, reg, value);
        let mut wakes = Vec::new();
        let (written, continued) = {
            let mut banks = lock(&self.banks);
            let written = banks.write(sel, reg, value, &mut wakes);
            (written, banks.take_continued())
        };
        if let Some(slot) = continued {
            strict!(
                gpu.strict,
                "cp",
                "the MEC of queue {slot} continues with CP_HQD_ACTIVE or CP_HQD_DEQUEUE_REQUEST: \
                 the queue was not reset"
            );
        }
        if written.is_err() {
            strict!(
                gpu.strict,
                "cp",
                "write of {value:#x} to {reg:x?} while GRBM_GFX_CNTL selects no compute queue ({sel:?})"
            );
        }
        for wake in wakes {
            self.mail.send(wake);
        }
    }

    /// Reports a reset of a queue or of the pipes of running MECs outside RLC safe mode, where a
    /// gated clock may stop it (`kgd_gfx_v9_hqd_reset`, `mes_v12_0_reset_queue_mmio`).
    fn check_reset(&self, gpu: &Gpu, reg: RegId, value: u32) {
        let resets = if reg == gc::regSPI_COMPUTE_QUEUE_RESET.into() {
            value & 1 != 0
        } else if reg == gc::regCP_MEC_CNTL.into() && self.generation == Generation::Gfx9 {
            let first = gc::CP_MEC_CNTL__MEC_ME1_PIPE0_RESET.shift;
            value >> first & 0x3f != 0 && !gc::CP_MEC_CNTL__MEC_ME1_HALT.is_set(value)
        } else if reg == gc12::regCP_MEC_RS64_CNTL.into() {
            let first = gc12::CP_MEC_RS64_CNTL__MEC_PIPE0_RESET.shift;
            value >> first & 0xf != 0 && !gc12::CP_MEC_RS64_CNTL__MEC_HALT.is_set(value)
        } else {
            false
        };
        if resets && !in_safe_mode(gpu, self.xcc) {
            strict!(
                gpu.strict,
                "cp",
                "XCC {}: {reg:x?} = {value:#x} resets outside RLC safe mode",
                self.xcc
            );
        }
    }

    /// Handles a write of `value` to `CP_MEC_CNTL`: an unhalted ME needs firmware, and so does the
    /// RLC. Without them it stalls until it is halted again.
    fn start_mecs(&self, gpu: &Gpu, value: u32) {
        use gc::{CP_MEC_CNTL__MEC_ME1_HALT as ME1, CP_MEC_CNTL__MEC_ME2_HALT as ME2};
        let starts = [ME1, ME2].map(|halt| !halt.is_set(value));
        let loaded = |fw: fn(u8) -> Fw| gpu.firmware.loaded(fw(self.xcc));
        let missing = if !loaded(Fw::Mec1) || !loaded(Fw::Mec1Jt) {
            Some("their firmware is not loaded")
        } else if !gpu.rlc_runs(self.xcc) {
            Some("the RLC does not run")
        } else if nbio::in_baco(gpu) {
            Some("BIF_BX0_BACO_CNTL has the core without power")
        } else {
            None
        };
        let stalled = match (missing, starts) {
            (Some(what), [true, _] | [_, true]) => {
                strict!(
                    gpu.strict,
                    "cp",
                    "CP_MEC_CNTL {value:#x} unhalts MECs, but {what}"
                );
                true
            }
            _ => false,
        };
        let before = lock(&self.banks).once(gc::regCP_MEC_CNTL);
        // The reset of a pipe writes the register, too.
        let started = [ME1, ME2].map(|halt| halt.is_set(before) && !halt.is_set(value));
        if started.contains(&true) && !stalled {
            self.check_start(gpu);
        }
        lock(&self.banks).set_stalled(stalled);
    }

    /// Reports settings of an XCC that a driver makes before it starts the MECs.
    fn check_start(&self, gpu: &Gpu) {
        let read = |reg: gpu_regs::Reg| {
            let slot = gpu.regs.of(gpu.chip, Ip::Gc, self.xcc, reg);
            slot.map_or(0, |slot| slot.get())
        };
        // As `gfx_v9_4_3_get_cu_info` sets it; no driver clears the fields.
        let inactive = gpu.chip.gc.inactive(self.xcc);
        let cus = |engine: &[u32]| engine.iter().map(|cus| cus.count_ones()).sum::<u32>();
        let engines = inactive.chunks(gpu.chip.gc.sh_per_se as usize).map(cus);
        let engines: Vec<u32> = engines.collect();
        let symmetric = engines.windows(2).all(|pair| pair[0] == pair[1]);
        let fields = [
            gc::CP_CPC_DEBUG__CPC_HARVESTING_RELAUNCH_DISABLE,
            gc::CP_CPC_DEBUG__CPC_HARVESTING_DISPATCH_DISABLE,
        ];
        let debug = read(gc::regCP_CPC_DEBUG);
        if fields.iter().any(|field| field.is_set(debug) != symmetric) {
            strict!(
                gpu.strict,
                "cp",
                "XCC {}: MECs start with CP_CPC_DEBUG {debug:#x}: shader engines lack {engines:?} CUs",
                self.xcc
            );
        }
        let safe_mode = read(gc::regRLC_SAFE_MODE);
        if gc::RLC_SAFE_MODE__MESSAGE.get(safe_mode) != 0 {
            strict!(
                gpu.strict,
                "cp",
                "XCC {}: MECs start in the safe mode of the RLC",
                self.xcc
            );
        }
    }

    /// The same for the processors of gfx12 and the register of each.
    fn start_gfx12(&self, gpu: &Gpu, reg: RegId, value: u32) {
        let (name, halts, pieces) = if reg == gc12::regCP_MEC_RS64_CNTL.into() {
            let halt = gc12::CP_MEC_RS64_CNTL__MEC_HALT.mask;
            let pieces = [Fw::Mec1(self.xcc), Fw::Mec1Jt(self.xcc)];
            (gc12::regCP_MEC_RS64_CNTL.name, halt, pieces)
        } else if reg == gc12::regCP_ME_CNTL.into() {
            let halts = gc12::CP_ME_CNTL__ME_HALT.mask | gc12::CP_ME_CNTL__PFP_HALT.mask;
            (gc12::regCP_ME_CNTL.name, halts, [Fw::Pfp, Fw::Me])
        } else {
            return;
        };
        let loaded = pieces.iter().all(|piece| gpu.firmware.loaded(*piece));
        let stalled = value & halts == 0 && !(loaded && gpu.rlc_runs(self.xcc));
        if stalled {
            strict!(
                gpu.strict,
                "cp",
                "{name} {value:#x} starts a processor without its firmware, or without the RLC"
            );
        }
        lock(&self.banks).set_stalled(stalled);
    }

    /// Returns whether one of the MECs is not halted.
    pub fn mec_runs(&self) -> bool {
        let banks = lock(&self.banks);
        [0, 1].iter().any(|me| !banks.halted(Slot::new(*me, 0, 0)))
    }

    /// Returns whether a wave runs.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) != 0
    }

    /// Enables doorbells, as the firmware of MES does when it starts: on gfx12 no driver does with
    /// MES as the KIQ (`mes_v12_0_queue_init_register`, unlike `gfx_v12_0_kiq_init_register`).
    pub fn enable_doorbells(&self) {
        lock(&self.banks).enable_doorbells();
    }

    /// Makes the engine thread rescan its queues.
    pub fn rescan(&self) {
        self.mail.send(Wake::Rescan);
    }

    /// Handles a doorbell outside the SDMA/IH/VCN window. Returns false if doorbells are disabled.
    pub fn doorbell(&self, index: u32, value: u64, width: u8) -> bool {
        let enabled = lock(&self.banks).doorbells_enabled();
        if enabled {
            self.mail.send(Wake::Doorbell(index, value, width));
        }
        enabled
    }

    /// Resets to power-on state. Returns once nothing of the old state runs any more.
    pub fn reset(&self, gpu: &Gpu) {
        let boot = match gpu.is_warm() {
            true => Boot::Warm,
            false => Boot::Cold,
        };
        *lock(&self.banks) = Banks::new(self.generation, boot);
        self.mail.send(Wake::Reset);
        let mut resets = lock(&self.resets);
        resets.requested += 1;
        let mine = resets.requested;
        let waiting = |r: &mut Resets| r.running && r.done < mine;
        // A reset does not wait for a stuck worker; its memory accesses then fault, since the
        // address space has no page table.
        let _guard = self
            .reset_done
            .wait_timeout_while(resets, RESET_TIMEOUT, waiting)
            .unwrap_or_else(|e| e.into_inner());
    }

    /// Leaves the slot of the KIQ as a driver that did not stop it, see [`Banks::leave_active`].
    pub fn leave_kiq_active(&self) {
        lock(&self.banks).leave_active(Slot::new(1, 1, 0));
    }

    /// Runs the engine thread; returns after [`stop`](Self::stop).
    pub fn run(&self, gpu: &Gpu) {
        let Some(xcc) = gpu.xcc(self.xcc) else {
            return;
        };
        let env = &XccEnv { gpu, xcc };
        let pool = Pool::new(self.busy.clone());
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        lock(&self.resets).running = true;
        std::thread::scope(|scope| {
            for _ in 0..cores.min(WORKERS) {
                scope.spawn(|| pool.work(env, &Interpreter, &self.mail));
            }
            let mut engine = Engine::new(env, &self.banks, &self.mail, &pool);
            engine.run(&|| {
                lock(&self.resets).done += 1;
                self.reset_done.notify_all();
            });
            pool.close();
        });
        lock(&self.resets).running = false;
    }

    /// Ends [`run`](Self::run).
    pub fn stop(&self) {
        self.mail.close();
    }
}
