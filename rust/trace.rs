// SPDX-License-Identifier: GPL-2.0

//! Trace events of the module (`/sys/kernel/tracing/events/rkfd`).
//!
//! A disabled event costs a branch that is patched out (static key).
//!
//! C header: `rust/c/trace.h`

use core::ops::Range;

use kernel::{page::PAGE_SHIFT, prelude::*, task::Pid};

/// Defines the functions that record the events of `c/trace.h`.
macro_rules! events {
    ($(
        $(#[$attr:meta])*
        fn $name:ident => $event:ident($($arg:ident: $ty:ty => $raw:expr),* $(,)?);
    )*) => {
        kernel::macros::paste! {$(
            $(#[$attr])*
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            pub(crate) fn $name($($arg: $ty),*) {
                if enabled!($event) {
                    // SAFETY: `c/trace.c` defines the event with these arguments: numbers, and
                    // NUL-terminated strings and arrays that are valid for the call, which copies
                    // what it records.
                    unsafe { crate::bindings::[<rust_do_trace_ $event>]($($raw),*) };
                }
            }
        )*}
    };
}

/// Returns whether an event is enabled.
macro_rules! enabled {
    ($event:ident) => {
        kernel::macros::paste! {{
            // SAFETY: The key is that of a static tracepoint, which `c/trace.c` defines.
            unsafe {
                kernel::jump_label::static_branch_unlikely!(
                    crate::bindings::[<__tracepoint_ $event>],
                    kernel::bindings::tracepoint,
                    key
                )
            }
        }}
    };
}

events! {
    /// A process is created, opened or released, its queues are evicted or restored, it is debugged
    /// or not any more, or gets an exception (`what`).
    fn process => rkfd_process(
        pid: Pid => pid, pasid: u32 => pasid, what: &CStr => what.as_char_ptr()
    );

    /// An ioctl has returned `ret` after `ns` nanoseconds.
    fn ioctl => rkfd_ioctl(pid: Pid => pid, nr: u32 => nr, ret: i64 => ret, ns: u64 => ns);

    /// A step of creating, updating or destroying a queue took `ns` nanoseconds.
    fn queue_step => rkfd_queue_step(
        pid: Pid => pid, qid: u32 => qid, step: &CStr => step.as_char_ptr(), ns: u64 => ns
    );

    /// A runlist was submitted to the scheduler firmware.
    fn runlist => rkfd_runlist(
        gpu_id: u32 => gpu_id, ib: u64 => ib, dwords: u32 => dwords, processes: u32 => processes,
        queues: u32 => queues, oversubscribed: bool => oversubscribed
    );

    /// A packet was committed to a kernel-owned ring.
    fn packet => rkfd_packet(
        gpu_id: u32 => gpu_id, ring: &CStr => ring.as_char_ptr(),
        packet: &CStr => packet.as_char_ptr(),
        dwords: u32 => dwords, wptr: u64 => wptr
    );

    /// An interrupt entry was read from the ring. `node` is the physical IH node: AID and XCC.
    fn ih => rkfd_ih(
        gpu_id: u32 => gpu_id, node: u32 => node, client: u32 => client, source: u32 => source,
        ring: u32 => ring, vmid: u32 => vmid, pasid: u32 => pasid, ctx0: u32 => ctx0
    );

    /// A queue is stalled: the packet at `packet` is ready and is not executed.
    fn queue_stalled => rkfd_queue_stalled(
        gpu_id: u32 => gpu_id, pid: Pid => pid, pasid: u32 => pasid, qid: u32 => qid,
        doorbell: u32 => doorbell, packet: u64 => packet, wptr: u64 => wptr
    );

    /// A GPU hang was detected.
    fn gpu_hang => rkfd_gpu_hang(gpu_id: u32 => gpu_id);

    /// An event of a process (`what`: `create`, `destroy`, `set`, `reset`, `interrupt`, `wake`).
    fn event => rkfd_event(
        pid: Pid => pid, event_id: u32 => event_id, what: &CStr => what.as_char_ptr()
    );

    /// The doorbells of a process were mapped at user address `va`.
    fn doorbell_map => rkfd_doorbell_map(
        pid: Pid => pid, gpu_id: u32 => gpu_id, phys: u64 => phys, va: u64 => va
    );

    /// GPU page tables changed.
    fn vm_map => rkfd_vm_map(
        gpu_id: u32 => gpu_id, pasid: u32 => pasid, va: u64 => va, bytes: u64 => bytes,
        flags: u64 => flags, map: bool => map
    );

    /// A job was submitted to an SDMA engine.
    fn sdma_job => rkfd_sdma_job(
        gpu_id: u32 => gpu_id, engine: u32 => engine, vmid: u32 => vmid, seq: u64 => seq,
        ibs: u32 => ibs
    );

    /// An SDMA engine is reset while it executes the job with seqno `seq`.
    fn sdma_reset => rkfd_sdma_reset(gpu_id: u32 => gpu_id, engine: u32 => engine, seq: u64 => seq);

    /// A packet is submitted to a MES ring.
    fn mes_submit => rkfd_mes_submit(
        gpu_id: u32 => gpu_id, ring: u32 => ring, op: &CStr => op.as_char_ptr(),
        doorbell: u32 => doorbell,
        seq: u32 => seq, words: &[u32; 64] => words.as_ptr()
    );

    /// MES completed a packet, or timed out.
    fn mes_done => rkfd_mes_done(
        gpu_id: u32 => gpu_id, ring: u32 => ring, op: &CStr => op.as_char_ptr(), seq: u32 => seq,
        ret: i32 => ret, ns: u64 => ns
    );

    /// A queue was added to (`map`), or removed from, a scheduler with a packet per queue (MES).
    fn queue_map => rkfd_queue_map(
        gpu_id: u32 => gpu_id, pid: Pid => pid, qid: u32 => qid, doorbell: u32 => doorbell,
        map: bool => map
    );

    /// A buffer moves (`from`, `to`: VRAM, GTT).
    fn bo_move => rkfd_bo_move(
        gpu_id: u32 => gpu_id, from: &CStr => from.as_char_ptr(), to: &CStr => to.as_char_ptr(),
        bytes: u64 => bytes
    );

    /// Shared virtual memory of a process on a GPU (`what`: `fault`, `migrate_to_vram`,
    /// `migrate_to_system`, `migrated`, `mapped`, `unmapped`, `acknowledged`).
    fn svm => rkfd_svm(
        pid: Pid => pid, gpu_id: u32 => gpu_id, what: &CStr => what.as_char_ptr(), va: u64 => va,
        bytes: u64 => bytes
    );
}

/// Records [`svm()`] for pages.
#[inline(always)]
pub(crate) fn svm_pages(pid: Pid, gpu_id: u32, what: &CStr, pages: &Range<u64>) {
    let count = pages.end - pages.start;
    svm(
        pid,
        gpu_id,
        what,
        pages.start << PAGE_SHIFT,
        count << PAGE_SHIFT,
    );
}

/// Returns whether [`svm()`] is recorded.
#[inline(always)]
pub(crate) fn svm_is_enabled() -> bool {
    enabled!(rkfd_svm)
}

/// Measures the steps of one operation on a queue; reads no clock while the event is disabled.
pub(crate) struct Steps {
    pid: Pid,
    last: Option<u64>,
}

impl Steps {
    /// Starts measuring.
    pub(crate) fn start(pid: Pid) -> Self {
        Self {
            pid,
            last: enabled!(rkfd_queue_step).then(now),
        }
    }

    /// Records the end of `step` of queue `qid`.
    pub(crate) fn mark(&mut self, qid: u32, step: &CStr) {
        if let Some(last) = self.last {
            let now = now();
            queue_step(self.pid, qid, step, now - last);
            self.last = Some(now);
        }
    }
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
fn now() -> u64 {
    // SAFETY: The clock can be read in any context.
    unsafe { kernel::bindings::ktime_get() as u64 }
}

/// Measures a MES packet; `None` while the event is disabled.
pub(crate) struct MesTimer(Option<u64>);

impl MesTimer {
    /// Starts measuring.
    pub(crate) fn start() -> Self {
        Self(enabled!(rkfd_mes_done).then(now))
    }

    /// Records the result of the packet with seqno `seq`.
    pub(crate) fn end(self, gpu_id: u32, ring: u32, op: &CStr, seq: u32, result: Result) {
        if let Some(start) = self.0 {
            let ret = result.map_or_else(Error::to_errno, |()| 0);
            mes_done(gpu_id, ring, op, seq, ret, now() - start);
        }
    }
}

/// Measures an ioctl; `None` while the event is disabled.
pub(crate) struct IoctlTimer(Option<u64>);

impl IoctlTimer {
    /// Starts measuring.
    pub(crate) fn start() -> Self {
        Self(enabled!(rkfd_ioctl).then(now))
    }

    /// Records the end of ioctl `nr` of process `pid`.
    pub(crate) fn end(self, pid: Pid, nr: u32, ret: i64) {
        if let Some(start) = self.0 {
            ioctl(pid, nr, ret, now() - start);
        }
    }
}
