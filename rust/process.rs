// SPDX-License-Identifier: GPL-2.0

//! Processes that use GPUs.
//!
//! A [`Process`] stands for an address space: every open of `/dev/kfd` by it gives the same one.
//! It comes with the first open and ends with the address space, which may be later than the last
//! close, as queues run without a file; and earlier, if somebody else inherited the file. At the
//! end all queues are off the hardware before the address space's pages go, and everything that
//! the process had is given back, whoever still holds the file.
//!
//! Locks, outer to inner: the list of processes, the process lock, those of [`Device`]. Events
//! have a lock of their own, which never waits for the others. User memory is not touched under
//! the process lock.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{aref::ARef, lock::mutex::MutexGuard, Arc, Mutex},
    task::{Pid, Task},
};

use crate::{
    gpu::{irq, registry, Gpu},
    kapi::task,
    queue, trace, uapi,
};

pub(crate) mod apertures;
pub(crate) mod debugfs;
pub(crate) mod device;
pub(crate) mod events;
mod evict;
mod exceptions;
mod handles;
pub(crate) mod interrupts;
pub(crate) mod memory;
pub(crate) mod mmap;
mod notifier;
pub(crate) mod share;
pub(crate) mod smi;
pub(crate) mod sysfs;
pub(crate) mod table;
mod trap;
pub(crate) mod userptr;

pub(crate) use self::device::Device;

use self::{
    events::{Events, HwException},
    userptr::UserMemory,
};

/// What the process lock guards.
pub(crate) struct State {
    pub(crate) queues: queue::QueueTable,
    /// `RUNTIME_ENABLE` was called: the runtime wants to hear of its queues' exceptions. What the call says
    /// beyond that is for debuggers.
    pub(crate) runtime_enabled: bool,
    /// The address space is gone.
    exited: bool,
}

/// A process.
#[pin_data]
pub(crate) struct Process {
    pid: Pid,
    leader: ARef<Task>,
    /// Which address space; only compared.
    mm: usize,
    /// One for each GPU that was there at the first open.
    devices: KVec<Arc<Device>>,
    #[pin]
    state: Mutex<State>,
    /// The memory of the process that GPUs see.
    user: Arc<UserMemory>,
    #[pin]
    events: Events,
    /// Held while exceptions are passed on to the runtime; the process lock is inside.
    #[pin]
    delivering: Mutex<()>,
    #[pin]
    registration: Mutex<Option<notifier::Registration>>,
    #[pin]
    view: Mutex<Option<sysfs::View>>,
    #[pin]
    folder: Mutex<Option<debugfs::Folder>>,
}

impl Process {
    fn new(leader: ARef<Task>, mm: usize) -> Result<Arc<Self>> {
        let mut devices = KVec::new();
        for gpu in registry::list() {
            devices.push(Device::new(gpu)?, GFP_KERNEL)?;
        }
        if devices.is_empty() {
            return Err(EINVAL);
        }
        Arc::pin_init(
            pin_init!(Self {
                pid: leader.pid(),
                leader,
                mm,
                devices,
                user: UserMemory::new()?,
                state <- new_mutex!(
                    State {
                        queues: queue::QueueTable::new()?,
                        runtime_enabled: false,
                        exited: false,
                    },
                    "rkfd_process"
                ),
                events <- Events::new(),
                delivering <- new_mutex!((), "rkfd_delivering"),
                registration <- new_mutex!(None),
                view <- new_mutex!(None),
                folder <- new_mutex!(None),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// The id of the thread group.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// The GPUs of the process.
    pub(crate) fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// The process on the GPU with this id: `EINVAL` if there is none, `ENODEV` if it was taken
    /// away.
    pub(crate) fn device(&self, gpu_id: u32) -> Result<&Arc<Device>> {
        let device = self
            .devices
            .iter()
            .find(|d| d.id() == gpu_id)
            .ok_or(EINVAL)?;
        if device.is_gone() {
            return Err(ENODEV);
        }
        Ok(device)
    }

    /// The memory of the process that GPUs see.
    pub(crate) fn user_memory(&self) -> &Arc<UserMemory> {
        &self.user
    }

    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// Takes the process lock; `EBADF` after the end.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        if state.exited {
            return Err(EBADF);
        }
        Ok(state)
    }

    /// Takes the process lock for somebody who only looks, also after the end.
    pub(crate) fn inspect(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Files are no use to a forked child, nor to whoever was handed one, nor after an execve():
    /// `EBADF`.
    pub(crate) fn check_caller(&self) -> Result {
        if task::is_current_leader(&self.leader) && task::current_mm_key() == Some(self.mm) {
            Ok(())
        } else {
            Err(EBADF)
        }
    }

    /// Makes the buffer under `handle` the page of signal slots.
    pub(crate) fn set_event_page(&self, handle: u64) -> Result {
        let _state = self.lock()?;
        if self.events.has_page() {
            return Err(EINVAL);
        }
        let device = self.device((handle >> 32) as u32)?;
        device.vm()?;
        let bo = device.bo(handle as u32).ok_or(EINVAL)?;
        let size = usize::try_from(bo.size())?;
        let slots = KBox::new(memory::Slots::new(bo)?, GFP_KERNEL)?;
        self.events.set_page(slots, size, handle)
    }

    /// Shows a new queue in sysfs. That it is not shown is no reason to refuse it.
    pub(crate) fn show_queue(&self, id: u32, gpu_id: u32, kind: u32, size: u64) {
        if let Some(view) = &mut *self.view.lock() {
            if let Err(e) = view.add_queue(id, gpu_id, kind, size) {
                pr_warn!("queue {id} of {} is not in sysfs: {e:?}\n", self.pid);
            }
        }
    }

    /// Hides a queue again.
    pub(crate) fn hide_queue(&self, id: u32) {
        if let Some(view) = &mut *self.view.lock() {
            view.remove_queue(id);
        }
    }

    /// Takes the process off a GPU: queues first, then what they used.
    ///
    /// Returns with everything given back, also when the hardware does not answer.
    fn leave(&self, state: &mut State, device: &Device) {
        device.mark_gone();
        if let Ok(slot) = device.slot() {
            state.queues.remove_all(device.gpu(), &slot);
            self.user.part(&slot);
        }
        self.release_memory(device);
        if device.slot().is_ok() {
            smi::process(device.gpu(), &self.leader, false);
        }
        device.release();
    }

    /// The address space goes away: ends everything that works for it. Idempotent; whoever comes
    /// second waits for the first.
    fn release(&self) {
        let mut state = self.state.lock();
        if state.exited {
            return;
        }
        state.exited = true;
        for device in &self.devices {
            self.leave(&mut state, device);
        }
        state.runtime_enabled = false;
        drop(state);
        // Waits for who reads the files, which take no lock but the one just left.
        let view = self.view.lock().take();
        drop(view);
        let folder = self.folder.lock().take();
        drop(folder);
        self.events.clear();
        trace::process(self.pid, 0, c"released");
    }
}

/// Makes the locks of this floor usable; called once, at module load.
pub(crate) fn init() {
    table::init();
    notifier::init();
    sysfs::init();
    debugfs::init();
    interrupts::init();
    evict::init();
    exceptions::init();
    smi::init();
    userptr::init();
}

/// Processes may come while this exists; dropping it ends those that are left.
pub(crate) struct Running {
    _faults: interrupts::FaultQueue,
    _exceptions: exceptions::ExceptionQueue,
    _restores: evict::RestoreQueue,
    _refreshes: userptr::RefreshQueue,
}

impl Running {
    /// Starts to listen to the GPUs, of which none is there yet.
    pub(crate) fn new() -> Result<Self> {
        irq::set_sink(&interrupts::SINK);
        Ok(Self {
            _faults: interrupts::FaultQueue::new()?,
            _exceptions: exceptions::ExceptionQueue::new()?,
            _restores: evict::RestoreQueue::new()?,
            _refreshes: userptr::RefreshQueue::new()?,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        notifier::shutdown();
    }
}

/// The process of the calling thread's address space, made if this is its first open.
///
/// Fails with `EINVAL` if there is no GPU.
pub(crate) fn open_current() -> Result<Arc<Process>> {
    if registry::count() == 0 {
        return Err(EINVAL);
    }
    let process = notifier::find_or_create()?;
    trace::process(process.pid, 0, c"opened");
    Ok(process)
}

/// A GPU is being unbound: takes all processes off it and tells them that it is lost.
///
/// Called while the hardware still answers. The processes live on; what they ask of this GPU from
/// now on fails with `ENODEV`.
pub(crate) fn gpu_gone(gpu: &Gpu) {
    // A process that is being made while the GPU is withdrawn may have it: wait for that one.
    let visited = notifier::snapshot_all().map(|all| all.iter().for_each(|p| lose(p, gpu)));
    if let Err(e) = visited {
        pr_err!("cannot tell processes of the end of a GPU: {e:?}\n");
    }
}

/// Takes a GPU from a process.
fn lose(process: &Process, gpu: &Gpu) {
    let Some(device) = process.devices.iter().find(|d| d.id() == gpu.id()) else {
        return;
    };
    let mut state = process.state.lock();
    if device.is_gone() {
        return;
    }
    process.leave(&mut state, device);
    drop(state);
    process.events.hw_exception(&lost(gpu));
    process.events.terminate();
    trace::process(process.pid, 0, c"lost GPU");
}

/// What hardware exception events say when a GPU hung or went.
fn lost(gpu: &Gpu) -> HwException {
    HwException {
        cause: uapi::KFD_HW_EXCEPTION_GPU_HANG,
        memory_lost: true,
        gpu_id: gpu.id(),
    }
}
