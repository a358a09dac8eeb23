// SPDX-License-Identifier: GPL-2.0

//! GPU reset: mode-1 reset after a hang, and recovery after a reset of the function or of its link
//! by the PCI core.
//!
//! All queues and the contents of VRAM are lost. Page tables are rewritten, so that a process
//! without queues continues after the notification (its hardware exception event) that memory was
//! lost. Pending jobs of the render node fail.

use kernel::{
    device::Core,
    new_mutex,
    pci::Device,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{AtomicFlag, Relaxed},
        Arc, Mutex,
    },
    time::Delta,
    workqueue::new_delayed_work,
};

use crate::{
    gpu::{Gpu, ResetHandler},
    kapi::{
        drm::{self, wedged::Wedged},
        pci::{self, SavedConfig},
        sched_mm::NoReclaim,
        workqueue::{Builder, Delayed, DelayedItem, OwnedQueue},
    },
    node::NodeSet,
};

/// Interval of the attempts to take the lock of the device.
const RETRY: Delta = Delta::from_millis(10);

struct State {
    /// The DRM device while it is registered, which reports resets to user space.
    drm: Option<ARef<drm::Device>>,
    /// The driver is being unbound: no more resets.
    ended: bool,
    /// The PCI core resets the card, or it is suspended: resets are deferred.
    held: bool,
    /// The link to the card does not work: the card is not accessed.
    frozen: bool,
}

impl State {
    /// Reports the end of a reset to user space.
    fn report(&self, wedged: Wedged) {
        if let Some(drm) = &self.drm {
            drm.report_wedged(wedged);
        }
    }
}

/// Reset of one device. Its locks are taken after the device lock and that of
/// [`Partitions`](crate::partition::Partitions), before all others.
#[pin_data]
pub(crate) struct Recovery {
    nodes: Arc<NodeSet>,
    /// Configuration space of the device when it is up.
    config: SavedConfig,
    /// Held across a reset.
    #[pin]
    state: Mutex<State>,
    /// A queue was reset, which is not reported yet.
    queue_was_reset: AtomicFlag,
    /// Workqueue of resets after a hang, and of reports. Leaf lock.
    #[pin]
    queue: Mutex<Option<OwnedQueue>>,
}

/// Schedules a reset of the device of a [`Recovery`].
struct Handler(Arc<Delayed<Recovery>>);

impl ResetHandler for Handler {
    fn schedule_reset(&self) {
        Recovery::schedule(&self.0, Delta::ZERO);
    }

    fn report_queue_reset(&self) {
        self.0.queue_was_reset.store(true, Relaxed);
        Recovery::schedule(&self.0, Delta::ZERO);
    }
}

impl Recovery {
    /// Enables resets of the device of `nodes`, which is up, when it hangs, until
    /// [`Recovery::end`]. `pdev` is its PCI device. `ENOMEM` without memory.
    pub(crate) fn start(
        pdev: &Device<Core<'_>>,
        nodes: &Arc<NodeSet>,
    ) -> Result<Arc<Delayed<Self>>> {
        let config = SavedConfig::new(pdev)?;
        let queue = Builder::ordered().mem_reclaim().build(c"rkfd_recovery")?;
        let recovery = pin_init!(Self {
            nodes: nodes.clone(),
            config,
            state <- new_mutex!(State {
                drm: None,
                ended: false,
                held: false,
                frozen: false,
            }, "rkfd_recovery"),
            queue_was_reset: AtomicFlag::new(false),
            queue <- new_mutex!(Some(queue), "rkfd_recovery_queue"),
        });
        let this = Arc::pin_init(
            Delayed::new(new_delayed_work!("rkfd_recovery"), recovery),
            GFP_KERNEL,
        )?;
        let handler = Arc::new(Handler(this.clone()), GFP_KERNEL)?;
        nodes.gpu().set_reset_handler(Some(handler));
        Ok(this)
    }

    /// Sets the DRM device, which is registered until [`Recovery::end`].
    pub(crate) fn set_drm_device(&self, drm: ARef<drm::Device>) {
        self.state.lock().drm = Some(drm);
    }

    /// Disables resets, before an unbind. Waits for a reset in progress.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        let drm = state.drm.take();
        drop(state);
        drop(drm);
        self.gpu().set_reset_handler(None);
        let queue = self.queue.lock().take();
        // Waits for queued work.
        drop(queue);
    }

    /// Prepares for a reset by the PCI core. The device is not used until [`Recovery::done`].
    pub(crate) fn prepare(&self) {
        let mut state = self.state.lock();
        state.held = true;
        // Unmaps queues, unless the card is hung.
        if let Err(e) = self.nodes.stop() {
            dev_err!(self.gpu().dev(), "queues did not stop: {e:?}\n");
        }
        self.await_reset("bus reset");
    }

    /// Brings the device up after a reset by the PCI core.
    pub(crate) fn done(&self, pdev: &Device<Core<'_>>) {
        let mut state = self.state.lock();
        state.held = false;
        state.frozen = false;
        if !state.ended {
            self.gpu().hub().thaw();
            self.reset_and_restart(&state, |gpu| gpu.reset_firmware(pdev, &self.config));
        }
    }

    /// Handles a fatal error of the link to the device, which is not accessed until
    /// [`Recovery::link_reset`].
    pub(crate) fn link_failed(&self) {
        // Before the lock: a change of the partition mode, which holds it, ends.
        self.gpu().hub().freeze();
        let mut state = self.state.lock();
        state.frozen = true;
        self.await_reset("error of the PCIe link");
    }

    /// Brings the device up after a reset of its link, which may not have been announced.
    /// During a suspend that is left to [`Recovery::wake`]. `EIO` if it does not work.
    pub(crate) fn link_reset(&self, pdev: &Device<Core<'_>>) -> Result {
        self.gpu().hub().freeze();
        let mut state = self.state.lock();
        state.frozen = true;
        self.await_reset("reset of the PCIe link");
        if state.held {
            self.gpu().restore_config(pdev, &self.config)?;
            state.frozen = false;
            self.gpu().hub().thaw();
            return Ok(());
        }
        if !state.ended {
            state.frozen = false;
            self.gpu().hub().thaw();
            self.reset_and_restart(&state, |gpu| gpu.restore_link(pdev, &self.config));
            if self.gpu().check_usable().is_err() {
                // It is not accessed until it is lost, or reset by the PCI core.
                self.gpu().hub().freeze();
                state.frozen = true;
            }
        }
        self.gpu().check_usable()
    }

    /// Handles the end of a recovery of the link that failed. The device is given up: it is not
    /// accessed, unless the PCI core resets it.
    ///
    /// The PCI core does not recover a port at all if a function below has no handler of errors, as
    /// the audio function of a board has none. After an error that is not fatal the link works
    /// nevertheless: then the device is used as before, as by the C driver
    /// (`amdgpu_pci_error_detected`).
    pub(crate) fn recovery_failed(&self) {
        if self.gpu().answers() {
            dev_info!(self.gpu().dev(), "the PCIe link works without recovery\n");
            return;
        }
        self.gpu().hub().freeze();
        let mut state = self.state.lock();
        state.frozen = true;
        let is_new = !self.gpu().health().is_dead();
        self.gpu().lose("its PCIe link is lost");
        self.abandon_queues();
        // Allocations do not wait for a reset.
        self.gpu().vram().end_loss();
        if is_new {
            state.report(Wedged::Lost);
        }
    }

    /// Prepares for suspend: waits for a reset in progress and defers the next one until
    /// [`Recovery::wake`].
    pub(crate) fn sleep(&self) {
        self.state.lock().held = true;
    }

    /// Undoes [`Recovery::sleep`]. Schedules a reset if the device is hung.
    pub(crate) fn wake(this: &Arc<Delayed<Self>>) {
        let mut state = this.state.lock();
        state.held = false;
        drop(state);
        if this.gpu().is_hung() {
            Self::schedule(this, Delta::ZERO);
        }
    }

    /// Calls `f` while the device is not reset, suspended or unbound. `EPERM` while it is or hangs,
    /// otherwise the error of `f`.
    pub(crate) fn while_up(&self, f: impl FnOnce() -> Result) -> Result {
        let state = self.state.try_lock().ok_or(EPERM)?;
        if state.ended || state.held || state.frozen || self.gpu().check_usable().is_err() {
            return Err(EPERM);
        }
        f()
    }

    fn gpu(&self) -> &Arc<Gpu> {
        self.nodes.gpu()
    }

    fn schedule(this: &Arc<Delayed<Self>>, delay: Delta) {
        if let Some(queue) = &*this.queue.lock() {
            // Fails if the work is already queued.
            let _ = queue.enqueue_delayed(this.clone(), delay);
        }
    }

    /// Marks the device as hung because of `why`, which the PCI core resets next.
    fn await_reset(&self, why: &str) {
        self.gpu().wedge(why);
        self.gpu().health().expect_reset();
        self.abandon_queues();
    }

    /// Marks all queues as lost and closes the card, which is hung.
    fn abandon_queues(&self) {
        self.nodes.abandon_queues();
        self.gpu().close();
    }

    fn reset_and_restart(&self, state: &State, reset: impl FnOnce(&Gpu) -> Result) {
        let gpu = self.gpu();
        // No reclaim: it would call MMU notifiers, which use rings that do not run yet. The device
        // belongs to this task.
        let no_reclaim = NoReclaim::new();
        gpu.begin_reset();
        let back = reset(gpu)
            .and_then(|()| gpu.bring_up())
            .and_then(|()| gpu.rewrite_page_tables())
            .and_then(|()| self.nodes.restart());
        let wedged = match back {
            Ok(()) => Wedged::Recovered,
            Err(_) => Wedged::Lost,
        };
        gpu.end_reset(back);
        drop(no_reclaim);
        self.report_queue_reset(state);
        state.report(wedged);
    }

    /// Reports the reset of a queue, unless that was done.
    fn report_queue_reset(&self, state: &State) {
        if self.queue_was_reset.xchg(false, Relaxed) {
            state.report(Wedged::Recovered);
        }
    }
}

impl DelayedItem for Recovery {
    fn run(this: Arc<Delayed<Self>>) {
        let state = this.state.lock();
        let gpu = this.gpu();
        if state.ended || state.held || state.frozen || !gpu.is_hung() {
            this.report_queue_reset(&state);
            return;
        }
        // Before a report, as fences depend on it: a uevent allocates memory.
        let reset = pci::try_locked(gpu.pdev(), |pdev| {
            this.abandon_queues();
            this.reset_and_restart(&state, |gpu| gpu.mode1_reset(pdev));
        });
        if reset.is_none() {
            // The holder of the device lock may wait for `state`, or for this work.
            drop(state);
            Self::schedule(&this, RETRY);
        }
    }
}
