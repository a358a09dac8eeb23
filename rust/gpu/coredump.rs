// SPDX-License-Identifier: GPL-2.0

//! Coredumps: the state of a device when a queue is reset, or before a hung device is halted.
//!
//! The text is written where the failure is found, with any locks held, into memory that was
//! allocated before. A worker passes it to the kernel, which shows it to user space. Failures until
//! then are not recorded: most of them are consequences of the first.

use core::fmt::Display;

use kernel::{
    alloc::flags::__GFP_NOWARN,
    device,
    fmt::{self, Write},
    new_mutex,
    prelude::*,
    sizes::*,
    sync::{aref::ARef, Arc, Mutex},
    time::Delta,
    workqueue::new_delayed_work,
};

use crate::kapi::{
    devcoredump,
    sched_mm::NoReclaim,
    workqueue::{Builder, Delayed, DelayedItem, OwnedQueue},
};

/// Maximum size of a dump in bytes; longer ones are truncated.
const SIZE: usize = SZ_512K;
/// Time until the worker tries again to allocate memory for the next dump.
const RETRY: Delta = Delta::from_millis(500);

/// The coredump of a device that is written next.
#[pin_data]
pub(crate) struct Coredump {
    dev: ARef<device::Device>,
    /// Empty until a failure is recorded; `None` while its text is handed over, and without memory
    /// for the next one. Held while the text is written.
    #[pin]
    text: Mutex<Option<VVec<u8>>>,
    /// Work queue of the worker, until the unbind. A leaf.
    #[pin]
    queue: Mutex<Option<OwnedQueue>>,
}

impl Coredump {
    /// Returns the coredump of a device. `ENOMEM` without memory.
    pub(super) fn new(dev: &device::Device) -> Result<Arc<Delayed<Self>>> {
        let text = VVec::with_capacity(SIZE, GFP_KERNEL)?;
        let queue = Builder::ordered().build(c"rkfd_coredump")?;
        let coredump = pin_init!(Self {
            dev: dev.into(),
            text <- new_mutex!(Some(text), "rkfd_coredump"),
            queue <- new_mutex!(Some(queue), "rkfd_coredump_queue"),
        });
        Arc::pin_init(
            Delayed::new(new_delayed_work!("rkfd_coredump"), coredump),
            GFP_KERNEL,
        )
    }

    /// Ends coredumps, before the device is unplugged. Waits for the worker.
    pub(super) fn end(&self) {
        let queue = self.queue.lock().take();
        drop(queue);
    }

    /// Writes the text of a dump and schedules the worker, unless a dump is pending.
    pub(super) fn record(this: &Arc<Delayed<Self>>, text: &dyn Display) {
        {
            // Any locks may be held here, and `text` takes some: it must not be waited for.
            let Some(mut held) = this.text.try_lock() else {
                return;
            };
            // Within locks that MMU notifiers take.
            let _no_reclaim = NoReclaim::new();
            let out = match &mut *held {
                Some(out) if out.is_empty() => out,
                _ => return,
            };
            if write!(Writer(out), "{text}").is_err() {
                cut_off(out);
            }
        }
        if let Some(queue) = &*this.queue.lock() {
            // Fails if the work is queued already.
            let _ = queue.enqueue(this.clone());
        }
    }
}

impl DelayedItem for Coredump {
    fn run(this: Arc<Delayed<Self>>) {
        let text = this.text.lock().take();
        if let Some(text) = text {
            devcoredump::submit(&this.dev, text);
        }
        match VVec::with_capacity(SIZE, GFP_KERNEL | __GFP_NOWARN) {
            Ok(next) => *this.text.lock() = Some(next),
            Err(_) => {
                if let Some(queue) = &*this.queue.lock() {
                    // Not queued already: nothing is recorded meanwhile.
                    let _ = queue.enqueue_delayed(this.clone(), RETRY);
                }
            }
        }
    }
}

/// Writes into the capacity of a vector; fails when it is full.
struct Writer<'a>(&'a mut VVec<u8>);

impl Write for Writer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0.push_within_capacity(byte).map_err(|_| fmt::Error)?;
        }
        Ok(())
    }
}

/// Replaces the end of a text that did not fit.
fn cut_off(text: &mut VVec<u8>) {
    const END: &str = "\n(cut off)\n";
    let at = text.len().saturating_sub(END.len());
    text.truncate(at);
    // Within the capacity: as many bytes were truncated.
    let _ = Writer(text).write_str(END);
}
