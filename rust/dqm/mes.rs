// SPDX-License-Identifier: GPL-2.0

//! Scheduling by MES: the driver adds each active queue, and MES assigns a queue slot and a VMID
//! when its doorbell is rung. A change takes one frame per affected queue, regardless of the number
//! of other queues.

use kernel::prelude::*;
use rkfd_abi::{mes as abi, pte::PAGE_SHIFT};

mod hung;

use super::{
    queues::{DqmProcess, DqmQueue, Queues},
    sched::{Needs, SchedOps, Scope},
};
use crate::{
    gpu::Gpu,
    hw::{FlushType, QueueFormat, QueueSpec, WaveDebug},
    mmu::{tlb::flush_pasid, QueueOwner},
    ring::mes::{
        frame::{AddQueue, SetShaderDebugger},
        Failure,
    },
    trace,
};

/// The MES scheduler.
pub(super) struct Mes {
    /// The MES rings run.
    running: bool,
    /// Number of starts of the firmware at [`SchedOps::start`]; each clears the process contexts.
    starts: u32,
}

/// Returns the MES priority of a queue. The C driver passes user space's priority on unchanged,
/// although the encodings differ; values unknown to MES mean normal.
fn priority(spec: &QueueSpec) -> u8 {
    match spec.priority {
        p @ abi::priority::LOW..=abi::priority::REALTIME => p,
        _ => abi::priority::NORMAL,
    }
}

/// Returns the ADD_QUEUE frame of a queue.
fn add_frame(gpu: &Gpu, queue: &DqmQueue) -> Result<AddQueue> {
    let g = gpu.generation();
    let (map, runtime) = {
        let state = queue.slot().state.lock();
        (state.map, state.runtime)
    };
    let spec = queue.spec();
    Ok(AddQueue {
        queue_type: hung::queue_type(&spec),
        pasid: map.pasid,
        root: map.root,
        last_page: (1 << (g.caps.va_bits - PAGE_SHIFT)) - 1,
        vm_context_control: g.need_mes()?.vm_context_control(),
        tba: map.tba,
        tma: map.tma,
        skip_process_ctx_clear: runtime,
        process_context: queue.slot().context(),
        gang_context: queue.context(),
        priority: priority(&spec),
        level: spec
            .render
            .map_or(abi::priority::NORMAL, |render| render.level),
        kfd: queue.slot().owner() == QueueOwner::Process,
        doorbell: spec.doorbell,
        mqd: queue.mqd().gpu_addr(),
        wptr: spec.wptr_kernel,
        ring_dwords: spec.ring_size / 4,
        aql: spec.format == QueueFormat::Aql,
    })
}

impl Mes {
    /// Returns a scheduler that is not started.
    pub(super) fn new() -> Self {
        Self {
            running: false,
            starts: 0,
        }
    }

    /// Returns whether MES has state of a process.
    fn has_state_of(&self, process: &DqmProcess) -> bool {
        process.state.lock().in_scheduler == self.starts
    }

    /// Sends SET_SHADER_DEBUGGER, which initializes the context of a process.
    fn init_context(&self, gpu: &Gpu, process: &DqmProcess) -> Result {
        let (debug, before) = {
            let mut state = process.state.lock();
            let before = core::mem::replace(&mut state.in_scheduler, self.starts);
            (state.map.debug, before)
        };
        let frame = SetShaderDebugger {
            process_context: process.context(),
            flush: false,
            spi_gdbg: gpu.generation().gfx.wave_debug(&debug).raw(),
            debug,
        };
        let sent = gpu.mes()?.submit(gpu, &frame);
        if matches!(sent, Err(Failure::Status(_))) {
            // It was not executed.
            process.state.lock().in_scheduler = before;
        }
        Ok(sent?)
    }

    /// Sends ADD_QUEUE for an active queue, unless it is mapped. `ETIMEDOUT` for an error status,
    /// or when MES did not write one; the queue is removed then.
    fn add(&self, gpu: &Gpu, queue: &DqmQueue) -> Result {
        {
            let state = queue.state.lock();
            if !state.active || state.mapped {
                return Ok(());
            }
        }
        let frame = add_frame(gpu, queue)?;
        if frame.skip_process_ctx_clear && !self.has_state_of(queue.slot()) {
            // It was restarted since RUNTIME_ENABLE.
            self.init_context(gpu, queue.slot())?;
        }
        queue.slot().state.lock().in_scheduler = self.starts;
        let doorbell = frame.doorbell;
        match gpu.mes()?.submit(gpu, &frame) {
            Ok(()) => {}
            Err(Failure::NoStatus) => {
                // The queue may have been added.
                hung::reset_by_mes(gpu, queue, Failure::NoStatus)?;
                return Err(ETIMEDOUT);
            }
            Err(failure) => return Err(failure.into()),
        }
        queue.state.lock().mapped = true;
        trace::queue_map(gpu.id(), queue.slot().pid(), queue.qid(), doorbell, true);
        Ok(())
    }

    /// Sends REMOVE_QUEUE for a mapped queue. If that fails, hung queues are reset and lost, see
    /// [`hung::remove`]; if that fails too, the card is wedged.
    fn remove(&self, gpu: &Gpu, queues: &mut Queues, queue: &DqmQueue) -> Result {
        if !queue.state.lock().mapped {
            return Ok(());
        }
        let frame = hung::remove_frame(queue);
        match gpu.mes()?.submit(gpu, &frame) {
            Ok(()) => {
                hung::set_unmapped(gpu, queue);
                Ok(())
            }
            Err(Failure::NotCompleted(e)) => Err(e),
            Err(failure) => {
                dev_err!(
                    gpu.dev(),
                    "queue with doorbell {:#x} was not removed\n",
                    frame.doorbell
                );
                let why = "a queue was not removed from MES";
                self.record_coredump(gpu, queues, why, Some(queue));
                hung::remove(gpu, queues, queue, failure)
            }
        }
    }

    /// Adds an active queue as [`Self::add`]. One that MES rejects is marked as lost: others are to
    /// be added.
    fn add_or_lose(&self, gpu: &Gpu, queues: &mut Queues, queue: &DqmQueue) -> Result {
        match self.add(gpu, queue) {
            Err(e) if e == ETIMEDOUT && !gpu.is_hung() => {
                queues.mark_lost(gpu, queue);
                Ok(())
            }
            result => result,
        }
    }
}

impl DqmProcess {
    /// Calls `f` with each queue, until it fails.
    fn for_each_queue(&self, mut f: impl FnMut(&DqmQueue) -> Result) -> Result {
        let queue = |at: usize| self.state.lock().queues.get(at).cloned();
        let mut at = 0;
        while let Some(queue) = queue(at) {
            f(&queue)?;
            at += 1;
        }
        Ok(())
    }
}

impl SchedOps for Mes {
    fn start(&mut self, gpu: &Gpu, queues: &Queues) -> Result {
        let mes = gpu.mes()?;
        self.running = true;
        self.starts = mes.starts();
        if queues.single_process {
            // It was brought up again.
            mes.limit_processes(gpu, true)?;
        }
        Ok(())
    }

    fn set_single_process(&mut self, gpu: &Gpu, single: bool) -> Result {
        if !self.running {
            return Ok(());
        }
        gpu.mes()?.limit_processes(gpu, single)
    }

    fn stop(&mut self, gpu: &Gpu, queues: &mut Queues) -> Result {
        // The engines of a hung GPU are halted: nothing to remove.
        let removed = if gpu.is_hung() {
            Ok(())
        } else {
            self.unmap(gpu, queues, Scope::All)
        };
        self.running = false;
        removed
    }

    fn needs(&self) -> Needs {
        Needs {
            process: abi::PROCESS_CONTEXT_SIZE,
            queue: abi::GANG_CONTEXT_SIZE,
            wptr: true,
            undo: true,
        }
    }

    fn unmap(&mut self, gpu: &Gpu, queues: &mut Queues, scope: Scope<'_>) -> Result {
        if !self.running {
            return Ok(());
        }
        match scope {
            Scope::Queue(queue) => self.remove(gpu, queues, queue),
            Scope::Queues(some) => {
                for queue in some {
                    self.remove(gpu, queues, queue)?;
                }
                // The save areas are read, and the waves changed, by the CPU.
                some.first().map_or(Ok(()), |queue| {
                    flush_pasid(gpu, queue.slot().pasid(), FlushType::Heavyweight)
                })
            }
            Scope::Process(process) => {
                process.for_each_queue(|queue| self.remove(gpu, queues, queue))?;
                // MES does not invalidate TLBs, and the memory is about to be freed.
                flush_pasid(gpu, process.pasid(), FlushType::Heavyweight)
            }
            Scope::All => queues.for_each_process(|queues, process| {
                process.for_each_queue(|queue| self.remove(gpu, queues, queue))
            }),
        }
    }

    fn remove_invalid(&mut self, gpu: &Gpu, queues: &mut Queues, queue: &DqmQueue) -> Result {
        queue.state.lock().invalid = true;
        queues.deactivate(queue);
        if !self.running || !queue.state.lock().mapped {
            return Ok(());
        }
        if !gpu.mes()?.has_hung_queues() {
            return self.remove(gpu, queues, queue);
        }
        hung::remove_invalid(gpu, queues, queue)
    }

    fn map(&mut self, gpu: &Gpu, queues: &mut Queues, scope: Scope<'_>) -> Result {
        if !self.running {
            return Ok(());
        }
        match scope {
            Scope::Queue(queue) => self.add(gpu, queue),
            Scope::Queues(some) => some
                .iter()
                .try_for_each(|queue| self.add_or_lose(gpu, queues, queue)),
            Scope::Process(process) => {
                process.for_each_queue(|queue| self.add_or_lose(gpu, queues, queue))
            }
            Scope::All => queues.for_each_process(|queues, process| {
                process.for_each_queue(|queue| self.add_or_lose(gpu, queues, queue))
            }),
        }
    }

    fn set_runtime(&mut self, gpu: &Gpu, process: &DqmProcess) -> Result {
        self.init_context(gpu, process)
    }

    /// MES programs the VMIDs of the process.
    fn set_debug(&mut self, gpu: &Gpu, _: &mut Queues, process: &DqmProcess) -> Result {
        self.init_context(gpu, process)
    }

    fn release_process(&mut self, gpu: &Gpu, process: &DqmProcess) -> Result {
        if !self.has_state_of(process) {
            return Ok(());
        }
        process.state.lock().in_scheduler = 0;
        // The memory of the process context may be reused by another process.
        let frame = SetShaderDebugger {
            process_context: process.context(),
            flush: true,
            spi_gdbg: 0,
            debug: WaveDebug::default(),
        };
        Ok(gpu.mes()?.submit_again(gpu, &frame)?)
    }

    fn record_coredump(&self, gpu: &Gpu, queues: &Queues, why: &str, queue: Option<&DqmQueue>) {
        queues.record_coredump((gpu, gpu.id()), why, queue, &[], |f| match gpu.mes() {
            Ok(mes) => mes.show(gpu, f),
            Err(e) => writeln!(f, "  unavailable: {e:?}"),
        });
    }

    fn scheduler_ring(&self) -> &'static str {
        "MES"
    }

    fn scheduler_mqd(&self, gpu: &Gpu, index: usize) -> Result<KVec<u32>> {
        match index {
            0 => gpu.mes()?.mqd_words(gpu),
            _ => Err(EINVAL),
        }
    }
}
