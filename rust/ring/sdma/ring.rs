// SPDX-License-Identifier: GPL-2.0

//! The kernel's ring of one SDMA engine: job frames, fences and interrupts.
//!
//! A frame ends with a sequence number that is written to memory and an interrupt that carries the
//! number too. The interrupt thread completes jobs in the order of IH entries, so that a fault
//! entry is always handled before the faulting job completes. The watcher of [`Ring`] polls the
//! memory in case an interrupt is lost.

use core::{mem, ops::Range};

use kernel::{
    new_condvar, new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{aref::ARef, Arc, CondVar, Mutex},
    time::msecs_to_jiffies,
    workqueue::{impl_has_work, new_work, Work, WorkItem},
};
use rkfd_abi::bits::{hi32, lo32};

use super::{group::Group, host::SdmaHost, packet::Words};
use crate::{
    card::{ih::LogKind, Card},
    hw::{HdpFlush, SdmaRing, VmSwitch},
    kapi::{
        fence::{
            hw::{HwFence, Timeline, UnusedFence},
            Fence,
        },
        workqueue::{Builder, OwnedQueue},
    },
    ring::{
        wait,
        writer::{Format, Layout, Wrap, Writer},
    },
    trace, uapi,
};

/// Maximum number of IBs of a job (`amdgpu_ring_max_ibs()`).
pub(crate) const MAX_IBS: usize = 49;

/// Maximum number of jobs on a ring.
pub(super) const JOBS: u32 = 8;
/// Size of the ring in dwords.
const RING_DWORDS: usize = 8192;
/// Maximum dwords of a frame, so that all frames together take half the ring; the rest covers
/// packets that the engine has fetched but not yet reported as read.
const MAX_FRAME: usize = RING_DWORDS / 2 / JOBS as usize;
/// Frames end at a multiple of this many dwords, as required by INDIRECT packets.
const ALIGN: usize = 8;
/// Dwords of the IB of a kernel job.
pub(super) const IB_DWORDS: usize = 1024;

const RING: usize = 0;
const IBS: usize = RING_DWORDS * 4;
const POINTERS: usize = IBS + JOBS as usize * IB_DWORDS * 4;
const RPTR: usize = POINTERS;
const WPTR: usize = POINTERS + 64;
const FENCE: usize = POINTERS + 128;
const TEST: usize = POINTERS + 192;
const TOTAL: usize = POINTERS + PAGE_SIZE;

/// Values in memory before and after a ring test.
const TEST_BEFORE: u32 = 0xcafe_dead;
const TEST_AFTER: u32 = 0xdead_beef;
/// Timeout of a ring test.
const TEST_TIMEOUT_MS: i64 = 1000;
/// Time without progress after which the watcher checks for lost interrupts.
const FALLBACK_MS: u32 = 500;
/// Timeout for a stopped engine to become idle.
const IDLE_TIMEOUT_MS: i64 = 100;
/// Low bits of a sequence number that an interrupt carries.
const CONTEXT_MASK: u32 = 0x0fff_ffff;

/// Ring names: die and engine.
const NAMES: [&CStr; 16] = [
    c"sdma0.0", c"sdma0.1", c"sdma0.2", c"sdma0.3", c"sdma1.0", c"sdma1.1", c"sdma1.2", c"sdma1.3",
    c"sdma2.0", c"sdma2.1", c"sdma2.2", c"sdma2.3", c"sdma3.0", c"sdma3.1", c"sdma3.2", c"sdma3.3",
];

/// An IB in the address space of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ib {
    /// GPU virtual address; the low 5 bits are ignored.
    pub(crate) va: u64,
    /// Length in dwords.
    pub(crate) dwords: u32,
    /// `AMDGPU_IB_FLAG_*`; all are ignored but `EMIT_MEM_SYNC` of the first IB, and `SECURE`, which
    /// some engines refuse.
    pub(crate) flags: u32,
}

/// Contents of a job's frame on the ring.
pub(super) struct Frame<'a> {
    /// VMID that the job runs in.
    pub(super) vmid: u32,
    /// VMID switch that has to precede the job.
    pub(super) switch: Option<VmSwitch>,
    /// IBs in the address space of the VMID.
    pub(super) ibs: &'a [Ib],
    /// Packets of the kernel, which run in VMID 0.
    pub(super) packets: &'a [u32],
    /// Address (in VMID 0) and value of a user fence.
    pub(super) user_fence: Option<(u64, u64)>,
    /// Request that the job is part of.
    pub(super) group: Option<Arc<Group>>,
    /// Fence context of a job of user space: jobs of the same context are cancelled with an earlier
    /// one. 0 for a job of the driver.
    pub(super) context: u64,
}

/// Memory of a job on the ring, allocated in advance: `emit` must not wait for memory.
pub(super) struct Memory {
    fence: UnusedFence,
    words: KVec<u32>,
}

impl Memory {
    /// Allocates for a job with `ibs` IBs. `ENOMEM` without memory.
    pub(super) fn new(ibs: usize) -> Result<Self> {
        /// Dwords of all packets of a frame, with padding, except INDIRECT packets.
        const REST: usize = 80;
        Ok(Self {
            fence: UnusedFence::new()?,
            words: KVec::with_capacity(REST + ibs * ALIGN, GFP_KERNEL)?,
        })
    }
}

/// A job on the ring.
struct Pending {
    seq: u32,
    vmid: u32,
    fence: HwFence,
    /// Frame, for resubmission.
    words: Words,
    /// Range of the frame that is left out when the job is cancelled. The VMID switch before it may
    /// be needed by later jobs; the fences follow it.
    body: Range<usize>,
    context: u64,
    error: Option<Error>,
    group: Option<Arc<Group>>,
}

impl Pending {
    /// Returns whether a frame may start before the job has completed: a job of the same context
    /// without a VMID switch, as in the C driver (`amdgpu_ib_schedule`).
    fn precedes(&self, frame: &Frame<'_>) -> bool {
        frame.context != 0 && frame.context == self.context && frame.switch.is_none()
    }

    /// Signals the fence, with the error of the job or its group if there is one.
    fn end(self) {
        let error = match (&self.group, self.error) {
            (Some(group), Some(e)) => {
                group.fail(e);
                Some(e)
            }
            (Some(group), None) => group.error(),
            (None, error) => error,
        };
        match error {
            Some(e) => self.fence.fail(e),
            None => self.fence.signal(),
        };
    }
}

/// Resources of a ring until it is stopped.
struct Up {
    card: Arc<Card>,
    host: Arc<dyn SdmaHost>,
    writer: Writer,
    /// Packet of the ring test. In advance: a reset must not wait for memory.
    test: Words,
    hdp: HdpFlush,
    /// Runs the watcher.
    queue: OwnedQueue,
}

struct State {
    up: Option<Up>,
    /// After [`Ring::stop`], until [`Ring::free`].
    stopped: Option<Up>,
    /// Error of jobs while the ring does not run.
    down: Error,
    /// Whether the ring is mapped to its engine.
    running: bool,
    /// Sequence number of the last job emitted.
    emitted: u32,
    /// Sequence number of the last job completed.
    signaled: u32,
    /// Jobs between these, oldest first.
    pending: KVec<Pending>,
    /// Whether the watcher is queued or runs.
    watching: bool,
    /// Number of lost interrupts that the watcher found.
    lost: u32,
    /// Number of resets of the engine.
    resets: u32,
}

/// State of a ring, for debugfs. Pointers are in bytes.
pub(super) struct Snapshot {
    pub(super) running: bool,
    pub(super) emitted: u32,
    pub(super) signaled: u32,
    pub(super) in_memory: u32,
    pub(super) rptr: u64,
    pub(super) wptr: u64,
    pub(super) lost: u32,
    /// Sequence number and VMID of each pending job.
    pub(super) pending: [Option<(u32, u32)>; JOBS as usize],
}

/// The kernel's ring of an SDMA engine.
#[pin_data]
pub(crate) struct Ring {
    engine: u32,
    timeline: Timeline,
    #[pin]
    state: Mutex<State>,
    /// Notified when the ring is stopped.
    #[pin]
    wake: CondVar,
    #[pin]
    watcher: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Ring { self.watcher }
}

/// Returns whether a ring that has signaled sequence number `last` has passed `seq`.
fn seqno_passed(last: u32, seq: u32) -> bool {
    last.wrapping_sub(seq) as i32 >= 0
}

impl Up {
    fn layout(&self) -> SdmaRing {
        SdmaRing {
            base: self.writer.ring_addr(),
            size: self.writer.ring_bytes(),
            rptr: self.writer.rptr_addr(),
            wptr: self.writer.wptr_addr(),
            doorbell: self.writer.doorbell(),
        }
    }

    fn addr(&self, at: usize) -> u64 {
        self.writer.buffer().gpu_addr() + at as u64
    }

    /// Returns the fence in memory: the sequence number of the last job executed.
    fn read_fence(&self) -> Result<u32> {
        self.writer.buffer().read32(FENCE)
    }

    /// Starts the engine with the ring, empty, and runs a ring test. `ETIMEDOUT` when it does not
    /// execute packets.
    fn start(&mut self, engine: u32) -> Result {
        self.writer.reset()?;
        let hal = self.card.generation().sdma;
        hal.start(self.card.mmio()?, engine, &self.layout())?;
        self.test()
    }

    /// Resets the engine and starts it with the ring, empty.
    fn restart(&mut self, engine: u32) -> Result {
        let hal = self.card.generation().sdma;
        hal.stop(self.card.mmio()?, engine)?;
        hal.reset(self.card.mmio()?, engine)?;
        self.start(engine)
    }

    fn test(&mut self) -> Result {
        self.writer.buffer().write32(TEST, TEST_BEFORE)?;
        self.writer.buffer().publish()?;
        self.writer.send(&self.card, &self.test, c"ring test")?;
        wait(TEST_TIMEOUT_MS, || {
            let done = self.writer.buffer().read32(TEST)? == TEST_AFTER;
            if !done {
                self.card.check_usable()?;
            }
            Ok(done)
        })
    }

    /// Stops the engine and waits until it is idle; resets it after 100 ms. Nothing to do for an
    /// engine without power.
    fn stop(&self, engine: u32) -> Result {
        if !self.card.hub().has_core() {
            return Ok(());
        }
        let hal = self.card.generation().sdma;
        let mmio = self.card.mmio()?;
        hal.stop(mmio, engine)?;
        match wait(IDLE_TIMEOUT_MS, || hal.is_idle(mmio, engine)) {
            Err(e) if e == ETIMEDOUT => hal.reset(mmio, engine),
            result => result,
        }
    }
}

impl State {
    /// Completes jobs up to sequence number `upto`. Returns their number.
    fn complete(&mut self, upto: u32) -> usize {
        let mut count = 0;
        while self
            .pending
            .first()
            .is_some_and(|p| seqno_passed(upto, p.seq))
        {
            let Ok(job) = self.pending.remove(0) else {
                break;
            };
            self.signaled = job.seq;
            job.end();
            count += 1;
        }
        count
    }

    /// Ends all pending jobs while the ring does not run: those of user space with `ECANCELED`, the
    /// driver's with the error of [`Self::down`].
    fn fail_all(&mut self) {
        // In place: the list keeps its capacity, so that `emit` never allocates.
        while !self.pending.is_empty() {
            let Ok(mut job) = self.pending.remove(0) else {
                break;
            };
            self.signaled = job.seq;
            job.error.get_or_insert(match job.context {
                0 => self.down,
                _ => ECANCELED,
            });
            job.end();
        }
    }

    /// Returns the sequence number of the pending job with these low bits.
    fn full_seq(&self, context: u32) -> Option<u32> {
        let ahead = context.wrapping_sub(self.signaled) & CONTEXT_MASK;
        (ahead <= self.emitted.wrapping_sub(self.signaled))
            .then(|| self.signaled.wrapping_add(ahead))
    }
}

impl Ring {
    /// Allocates the ring of an engine, starts and tests it. `ETIMEDOUT` when it does not execute
    /// packets, `ENOMEM` without memory.
    pub(super) fn start(
        card: &Arc<Card>,
        host: &Arc<dyn SdmaHost>,
        engine: u32,
    ) -> Result<Arc<Self>> {
        let g = card.generation();
        let name = *NAMES.get(engine as usize).ok_or(EINVAL)?;
        let buffer = card.system_buffer(TOTAL)?;
        let doorbell = (g.caps.sdma_doorbell + engine * g.caps.sdma_doorbell_stride) * 2;
        let layout = Layout {
            ring: RING,
            dwords: RING_DWORDS,
            rptr: RPTR,
            wptr: WPTR,
        };
        let writer = Writer::new(
            name,
            buffer,
            layout,
            Format::SDMA,
            Wrap::Split,
            ALIGN,
            doorbell,
        )?;
        let mut test = Words::new(g.sdma.packets());
        test.write(writer.buffer().gpu_addr() + TEST as u64, TEST_AFTER)?;
        let up = Up {
            card: card.clone(),
            host: host.clone(),
            writer,
            test,
            hdp: g.sdma.hdp_flush(card.mmio()?, engine)?,
            queue: Builder::ordered().mem_reclaim().build(name)?,
        };
        let pending = KVec::with_capacity(JOBS as usize, GFP_KERNEL)?;
        let this = Arc::pin_init(
            pin_init!(Self {
                engine,
                timeline: Timeline::new(name),
                state <- new_mutex!(State {
                    up: Some(up),
                    stopped: None,
                    down: ENODEV,
                    running: false,
                    emitted: 0,
                    signaled: 0,
                    pending,
                    watching: false,
                    lost: 0,
                    resets: 0,
                }),
                wake <- new_condvar!(),
                watcher <- new_work!("Ring::watcher"),
            }),
            GFP_KERNEL,
        )?;
        // Nothing is allocated from here on: the engine uses the memory.
        let mut state = this.state.lock();
        let up = state.up.as_mut().ok_or(ENODEV)?;
        if let Err(e) = up.start(engine) {
            dev_err!(
                card.dev(),
                "{name} does not execute packets: {e:?}\n",
                name = name.to_str().unwrap_or("sdma")
            );
            // The engine must not use the memory after it is freed.
            if up.stop(engine).is_err() {
                card.wedge("an SDMA engine was not stopped");
            }
            return Err(e);
        }
        state.running = true;
        drop(state);
        Ok(this)
    }

    /// Returns the number of the engine.
    pub(super) fn engine(&self) -> u32 {
        self.engine
    }

    /// Returns the name of the ring.
    pub(super) fn name(&self) -> &'static CStr {
        NAMES[self.engine as usize % NAMES.len()]
    }

    /// Returns card and device while the ring runs; else the error that jobs fail with.
    pub(super) fn parents(&self) -> Result<(Arc<Card>, Arc<dyn SdmaHost>)> {
        let state = self.state.lock();
        let up = state.up.as_ref().ok_or(state.down)?;
        Ok((up.card.clone(), up.host.clone()))
    }

    /// Submits a job. All writes of the CPU to VRAM are visible to it: it begins with an HDP flush.
    /// Returns its hardware fence. `EBUSY` with 8 jobs on the ring, `E2BIG` for a frame that is too
    /// long, `EIO` when the card is hung, and the error of [`Ring::halt`].
    pub(super) fn emit(self: &Arc<Self>, frame: &Frame<'_>, memory: Memory) -> Result<ARef<Fence>> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(up) = state.up.as_mut().filter(|_| state.running) else {
            return Err(state.down);
        };
        up.card.check_usable()?;
        if state.pending.len() >= JOBS as usize {
            return Err(EBUSY);
        }
        let seq = state.emitted.wrapping_add(1);
        let Memory {
            fence: memory,
            words,
        } = memory;
        let mut words = Words::in_memory(up.card.generation().sdma.packets(), words);
        // The scheduler takes a dependency on the same ring for met once that job is on the ring
        // (`sdma_v4_4_2_ring_emit_pipeline_sync`).
        if let Some(before) = state.pending.last().filter(|b| !b.precedes(frame)) {
            words.wait_mem(up.addr(FENCE), before.seq)?;
            words.pad(0, ALIGN)?;
        }
        if let Some(switch) = &frame.switch {
            words.vm_switch(switch)?;
            words.pad(0, ALIGN)?;
        }
        let first = frame.ibs.first();
        if first.is_some_and(|ib| ib.flags & uapi::AMDGPU_IB_FLAG_EMIT_MEM_SYNC != 0) {
            words.mem_sync()?;
        }
        let body = words.len();
        words.hdp_flush(&up.hdp)?;
        if !frame.packets.is_empty() {
            let slot = IBS + seq as usize % JOBS as usize * IB_DWORDS * 4;
            if frame.packets.len() > IB_DWORDS {
                return Err(E2BIG);
            }
            up.writer.buffer().write_dwords(slot, frame.packets)?;
            words.indirect(0, up.addr(slot), frame.packets.len() as u32)?;
        }
        for ib in frame.ibs {
            words.indirect(frame.vmid, ib.va, ib.dwords)?;
        }
        let body = body..words.len();
        if let Some((addr, value)) = frame.user_fence {
            words.fence(addr, lo32(value))?;
            words.fence(addr + 4, hi32(value))?;
        }
        words.fence(up.addr(FENCE), seq)?;
        words.trap(seq & CONTEXT_MASK)?;
        if words.len() > MAX_FRAME {
            return Err(E2BIG);
        }
        up.writer.send(&up.card, &words, c"job")?;
        trace::sdma_job(
            up.card.id(),
            self.engine,
            frame.vmid,
            u64::from(seq),
            frame.ibs.len() as u32,
        );

        state.emitted = seq;
        let fence = self.timeline.emit(memory);
        let result = fence.fence().clone();
        // Within capacity, see `start`.
        let job = Pending {
            seq,
            vmid: frame.vmid,
            fence,
            words,
            body,
            context: frame.context,
            error: None,
            group: frame.group.clone(),
        };
        state.pending.push_within_capacity(job)?;
        if !state.watching {
            // Never queued twice: the watcher clears the flag when it returns.
            state.watching = up.queue.enqueue(self.clone()).is_ok();
        }
        Ok(result)
    }

    /// Handles the interrupt of the job with these low bits of its sequence number.
    pub(super) fn trap(&self, context: u32) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(Ok(done)) = state.up.as_ref().map(Up::read_fence) else {
            return;
        };
        // Later jobs are completed by their own interrupts.
        let upto = match state.full_seq(context) {
            Some(seq) if seqno_passed(done, seq) => seq,
            _ => done,
        };
        state.complete(upto);
    }

    /// Completes the jobs whose fence has been written, with or without an interrupt. Returns the
    /// number of jobs without one.
    pub(super) fn process_fences(&self) -> usize {
        let (card, host, done) = match &self.state.lock().up {
            Some(up) => match up.read_fence() {
                Ok(done) => (up.card.clone(), up.host.clone(), done),
                Err(_) => return 0,
            },
            None => return 0,
        };
        // Pending IH entries may report the fault of one of these jobs.
        if let Err(e) = host.drain_interrupts() {
            dev_dbg!(card.dev(), "IH ring was not drained: {e:?}\n");
        }
        self.state.lock().complete(done)
    }

    /// Marks the first job in `vmid`, if there is one, as failed with `EFAULT` after a VM fault.
    pub(super) fn fault(&self, vmid: u32) {
        let mut state = self.state.lock();
        if let Some(job) = state.pending.iter_mut().find(|job| job.vmid == vmid) {
            job.error = Some(EFAULT);
        }
    }

    /// Returns the sequence number of the oldest pending job.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.state.lock().pending.first().map(|job| job.seq)
    }

    /// Returns the number of calls of [`Self::reset`].
    pub(super) fn resets(&self) -> u32 {
        self.state.lock().resets
    }

    /// Resets the engine. The oldest job, if it has not completed and `guilty` returns true for its
    /// sequence number and whether the engine has the kernel ring selected, fails with `error`, and
    /// others of its context with `ECANCELED`: only their fences are resubmitted. All other jobs
    /// are resubmitted completely.
    pub(super) fn reset(&self, guilty: impl FnOnce(u32, bool) -> bool, error: Error) -> Result {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(up) = state.up.as_mut().filter(|_| state.running) else {
            return Err(state.down);
        };
        state.resets = state.resets.wrapping_add(1);
        let hal = up.card.generation().sdma;
        let selected = hal.is_selected(up.card.mmio()?, self.engine)?;
        let restarted = up.restart(self.engine);
        // Jobs that completed before the reset count as completed.
        let done = up.read_fence()?;
        state.complete(done);
        let context = match state.pending.first_mut() {
            Some(job) if guilty(job.seq, selected) => {
                job.error.get_or_insert(error);
                Some(job.context)
            }
            _ => None,
        };
        if let Some(context) = context.filter(|c| *c != 0) {
            for job in state.pending.iter_mut().filter(|j| j.context == context) {
                job.error.get_or_insert(ECANCELED);
            }
        }
        restarted?;

        let Some(up) = state.up.as_mut() else {
            return Err(state.down);
        };
        for (i, job) in state.pending.iter().enumerate() {
            let skip = match context {
                Some(context) => i == 0 || context != 0 && job.context == context,
                None => false,
            };
            if !skip {
                up.writer.send(&up.card, &job.words, c"job (again)")?;
                continue;
            }
            for words in [
                job.words.get(..job.body.start),
                job.words.get(job.body.end..),
            ] {
                up.writer
                    .send(&up.card, words.ok_or(EINVAL)?, c"job (left out)")?;
            }
        }
        Ok(())
    }

    /// Stops the engine. Pending jobs stay; later ones fail with `error`, until [`Ring::restart`].
    /// `ETIMEDOUT` or another error when the engine does not stop: memory of its jobs must not be
    /// freed before the card is cut off from it.
    pub(super) fn halt(&self, error: Error) -> Result {
        let mut state = self.state.lock();
        state.down = error;
        let running = mem::replace(&mut state.running, false);
        match &state.up {
            Some(up) if running => up.stop(self.engine),
            _ => Ok(()),
        }
    }

    /// Ends pending jobs after [`Ring::halt`] with its error, those of user space with `ECANCELED`.
    pub(super) fn end_jobs(&self) {
        self.state.lock().fail_all();
    }

    /// Ends the ring after [`Ring::halt`]: it cannot be restarted. Jobs end as in
    /// [`Ring::end_jobs`].
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = state.up.take();
        state.fail_all();
        drop(state);
        self.wake.notify_all();
    }

    /// Waits for the watcher and frees the memory of the ring after [`Ring::stop`]. Not under a
    /// lock that a timed-out job takes: the end of a work queue waits for the creation of others,
    /// whose allocations may wait for the job.
    pub(super) fn free(&self) {
        let stopped = self.state.lock().stopped.take();
        drop(stopped);
    }

    /// Starts the engine with the ring, empty. `ETIMEDOUT` when it does not execute packets.
    pub(super) fn restart(&self) -> Result {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let up = state.up.as_mut().ok_or(state.down)?;
        // Sequence numbers continue.
        up.writer.buffer().write32(FENCE, state.emitted)?;
        up.start(self.engine)?;
        state.running = true;
        Ok(())
    }

    /// Fails pending and later jobs with `EIO`, pending ones of user space with `ECANCELED`: the
    /// GPU is hung. The memory stays until [`Ring::free`], in case the engine still accesses it.
    pub(super) fn fail_all_jobs(&self) {
        let mut state = self.state.lock();
        state.down = EIO;
        state.running = false;
        if let Some(up) = state.up.as_ref().filter(|up| up.card.hub().has_core()) {
            let hal = up.card.generation().sdma;
            let stopped = up.card.mmio().and_then(|mmio| hal.stop(mmio, self.engine));
            if let Err(e) = stopped {
                dev_err!(up.card.dev(), "an SDMA engine was not stopped: {e:?}\n");
            }
        }
        state.fail_all();
    }

    /// Returns the state of the ring, for debugfs.
    pub(super) fn snapshot(&self) -> Result<Snapshot> {
        let state = self.state.lock();
        let mut pending = [None; JOBS as usize];
        for (to, job) in pending.iter_mut().zip(state.pending.iter()) {
            *to = Some((job.seq, job.vmid));
        }
        let (in_memory, rptr, wptr) = match &state.up {
            Some(up) => (up.read_fence()?, up.writer.rptr()?, up.writer.wptr()),
            None => (0, 0, 0),
        };
        Ok(Snapshot {
            running: state.running,
            emitted: state.emitted,
            signaled: state.signaled,
            in_memory,
            rptr,
            wptr,
            lost: state.lost,
            pending,
        })
    }
}

impl WorkItem for Ring {
    type Pointer = Arc<Self>;

    /// Watcher: checks for lost interrupts every 500 ms without progress, as long as jobs are
    /// pending.
    fn run(this: Arc<Self>) {
        let mut state = this.state.lock();
        loop {
            if state.up.is_none() || state.pending.is_empty() {
                state.watching = false;
                return;
            }
            let before = state.signaled;
            // No signals in a work item; the end of the ring is checked above.
            let _ = this
                .wake
                .wait_interruptible_timeout(&mut state, msecs_to_jiffies(FALLBACK_MS));
            if state.signaled != before || state.up.is_none() {
                continue;
            }
            drop(state);
            let found = this.process_fences();
            state = this.state.lock();
            if found > 0 {
                state.lost += found as u32;
                if let Some(up) = &state.up {
                    if up.card.ih().may_log(LogKind::Lost) {
                        dev_warn!(
                            up.card.dev(),
                            "{}: fence fallback timer expired, {found} interrupts lost\n",
                            this.name().to_str().unwrap_or("sdma")
                        );
                    }
                }
            }
        }
    }
}
