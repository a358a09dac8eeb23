// SPDX-License-Identifier: GPL-2.0

//! Brings a GPU back: after a hang, by resetting the card, and after somebody else has reset it.
//!
//! All queues are lost then, and what was in VRAM. Page tables are written again, so that a process that
//! had no queues goes on, when it has been told (by its hardware exception event) that the memory is
//! lost. Jobs of the render node that were on their way have ended with an error.

use kernel::{
    impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{Arc, Mutex},
    workqueue::{Work, WorkItem},
};

use crate::{
    dqm,
    gpu::{reset::Rescuer, Gpu},
    kapi::workqueue::OrderedQueue,
    mmu,
};

struct State {
    /// The driver leaves the GPU: nothing is brought back any more.
    ended: bool,
    /// Somebody else is resetting it, or it sleeps: nobody may touch it.
    held: bool,
}

/// What happens to one GPU. Its locks are outside of all others but that of the device.
#[pin_data]
pub(crate) struct Recovery {
    gpu: Arc<Gpu>,
    /// Held while the GPU is brought back.
    #[pin]
    state: Mutex<State>,
    /// Where that is done after a hang; a leaf.
    #[pin]
    queue: Mutex<Option<OrderedQueue>>,
    #[pin]
    work: Work<Recovery>,
}

impl_has_work! {
    impl HasWork<Self> for Recovery { self.work }
}

/// What the GPU rings when it is found to hang.
struct Bell(Arc<Recovery>);

impl Rescuer for Bell {
    fn rescue(&self) {
        self.0.ask();
    }
}

impl Recovery {
    /// From now on the GPU, which is up, is brought back when it hangs.
    pub(crate) fn start(gpu: &Arc<Gpu>) -> Result<Arc<Self>> {
        let queue = OrderedQueue::new(c"rkfd_recovery")?;
        let this = Arc::pin_init(
            pin_init!(Self {
                gpu: gpu.clone(),
                state <- new_mutex!(State {
                    ended: false,
                    held: false,
                }, "rkfd_recovery"),
                queue <- new_mutex!(Some(queue), "rkfd_recovery_queue"),
                work <- new_work!("rkfd_recovery"),
            }),
            GFP_KERNEL,
        )?;
        let bell = KBox::new(Bell(this.clone()), GFP_KERNEL)?;
        gpu.set_rescuer(Some(bell));
        Ok(this)
    }

    /// The driver leaves the GPU. Waits for a reset that is under way.
    pub(crate) fn end(&self) {
        self.state.lock().ended = true;
        self.gpu.set_rescuer(None);
        let queue = self.queue.lock().take();
        // Waits for what was queued.
        drop(queue);
    }

    /// Somebody else is about to reset the GPU. Nobody uses it until [`Recovery::done`].
    pub(crate) fn prepare(&self) {
        let mut state = self.state.lock();
        state.held = true;
        // Unless it hangs already, queues leave in good order first.
        if let Err(e) = dqm::stop(&self.gpu) {
            dev_err!(self.gpu.dev(), "queues did not stop: {e:?}\n");
        }
        self.gpu.declare_hung("the bus resets it");
        self.let_go();
    }

    /// Somebody else has reset the GPU.
    pub(crate) fn done(&self) {
        let mut state = self.state.lock();
        state.held = false;
        if !state.ended {
            self.bring_back(|_| Ok(()));
        }
    }

    /// The machine is about to sleep: waits for a reset that is under way, and keeps the next one from
    /// beginning until [`Recovery::wake`].
    pub(crate) fn sleep(&self) {
        self.state.lock().held = true;
    }

    /// Undoes [`Recovery::sleep`]. If the GPU hangs by now it is brought back.
    pub(crate) fn wake(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.held = false;
        drop(state);
        if self.gpu.is_hung() {
            self.ask();
        }
    }

    fn ask(self: &Arc<Self>) {
        if let Some(queue) = &*self.queue.lock() {
            // Once is enough.
            let _ = queue.enqueue(self.clone());
        }
    }

    /// All queues are lost, and nobody talks to the card, which hangs.
    fn let_go(&self) {
        dqm::abandon(&self.gpu);
        if let Err(e) = dqm::stop(&self.gpu) {
            dev_err!(self.gpu.dev(), "the scheduler did not stop: {e:?}\n");
        }
        self.gpu.close();
    }

    fn bring_back(&self, reset: impl FnOnce(&Gpu) -> Result) {
        let gpu = &self.gpu;
        gpu.begin_reset();
        let back = reset(gpu)
            .and_then(|()| gpu.bring_up())
            .and_then(|()| mmu::rewrite_tables(gpu))
            .and_then(|()| dqm::restart(gpu));
        gpu.end_reset(back);
    }
}

impl WorkItem for Recovery {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let state = this.state.lock();
        if state.ended || state.held || !this.gpu.is_hung() || !this.gpu.can_reset() {
            return;
        }
        this.let_go();
        this.bring_back(Gpu::reset_card);
    }
}
