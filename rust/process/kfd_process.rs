// SPDX-License-Identifier: GPL-2.0

//! The process object: its GPUs, queues, events and user memory, and their release.

use kernel::{
    fs::File,
    impl_has_work,
    mm::MmWithUser,
    new_condvar, new_mutex, new_work,
    num::casts::arch::u64_as_usize,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        lock::mutex::MutexGuard,
        Arc, CondVar, Mutex,
    },
    task::{Pid, Task},
    workqueue::Work,
};

use super::{
    buffer::BufferSlots,
    debug_state::DebugState,
    events::{Events, HwException},
    handles::split_handle,
    memory,
    pdd::{FileVm, ProcessDevice},
    places::Place,
    smi,
    svm::{Moves, SvmQueues},
    sysfs::ProcessFolder,
    userptr::UserMemory,
};
use crate::{
    gpu::Gpu,
    kapi::{
        handle_table::HandleTable,
        sched_mm::{self, NoReclaim},
        task::{self, Pids},
        workqueue::Delayed,
    },
    node,
    queue::QueueTable,
    svm::{RetriesGuard, Svm, MAX_GPUS},
    trace,
};

/// Number of the work item that delivers exceptions.
pub(super) const EXCEPTION_WORK: u64 = 1;
/// Number of the work item that handles VM faults.
pub(super) const FAULT_WORK: u64 = 2;
/// Number of the work item that notifies the debugger.
pub(super) const NOTIFY_WORK: u64 = 3;
/// Number of the work item that handles retry faults.
pub(super) const RETRY_WORK: u64 = 4;
/// Number of the work item that unmaps queues with invalid packets.
pub(super) const PACKET_WORK: u64 = 5;

/// Number of secondary processes that a primary one can have (C: `KFD_CONTEXT_ID_PRIMARY`).
const MAX_SECONDARY: u32 = 0xffff;

/// Number of the last primary process; the first one has 1.
static LAST_SERIAL: Atomic<u64> = Atomic::new(0);

/// State under the process lock.
pub(crate) struct ProcessState {
    /// The queues.
    pub(crate) queues: QueueTable,
    /// The address space was released.
    exited: bool,
}

/// The primary process of an address space, or a secondary one, which a file created.
pub(super) enum Rank {
    /// Has the numbers of the secondary ones.
    Primary(Pin<KBox<Mutex<HandleTable<()>>>>),
    /// A number of `primary`.
    Secondary { primary: Arc<Process>, id: u32 },
}

impl Rank {
    /// Returns the rank of a new primary process.
    pub(super) fn primary() -> Result<Self> {
        let ids = new_mutex!(HandleTable::new(0), "rkfd_contexts");
        Ok(Self::Primary(KBox::pin_init(ids, GFP_KERNEL)?))
    }

    /// Returns that of a secondary one, with the lowest free number. `EINVAL` if `primary` is
    /// not, `ENOSPC` if all numbers are taken.
    pub(super) fn secondary(primary: &Arc<Process>) -> Result<Self> {
        let Self::Primary(ids) = &primary.rank else {
            return Err(EINVAL);
        };
        let mut ids = ids.lock();
        // The lock is taken with the last reference, which the interrupt thread may have.
        let _no_reclaim = NoReclaim::new();
        let id = ids.insert(())?;
        if id >= MAX_SECONDARY {
            ids.remove(id);
            return Err(ENOSPC);
        }
        Ok(Self::Secondary {
            primary: primary.clone(),
            id,
        })
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let Self::Secondary { primary, id } = self else {
            return;
        };
        if let Self::Primary(ids) = &primary.rank {
            ids.lock().remove(*id);
        }
    }
}

/// A process.
#[pin_data]
pub(crate) struct Process {
    pids: Pids,
    leader: ARef<Task>,
    /// Identifies the address space; only compared.
    mm: usize,
    rank: Rank,
    /// It consumed poison.
    poisoned: Atomic<bool>,
    /// The GPUs that were present when it was created.
    devices: KVec<Arc<ProcessDevice>>,
    #[pin]
    state: Mutex<ProcessState>,
    user: Arc<Delayed<UserMemory>>,
    svm: Arc<Delayed<Svm>>,
    svm_queues: Arc<SvmQueues>,
    #[pin]
    events: Events,
    /// Held while exceptions are delivered to the runtime; outside the process lock.
    #[pin]
    delivering: Mutex<()>,
    #[pin]
    debug: Mutex<DebugState>,
    /// The debugger has replied, or its session has ended.
    #[pin]
    debugger_replied: CondVar,
    /// The debugger has resumed queues.
    #[pin]
    queues_resumed: CondVar,
    /// Delivers exceptions to the runtime.
    #[pin]
    exception_work: Work<Process, EXCEPTION_WORK>,
    /// Handles VM faults.
    #[pin]
    fault_work: Work<Process, FAULT_WORK>,
    /// Notifies the debugger.
    #[pin]
    notify_work: Work<Process, NOTIFY_WORK>,
    /// Handles retry faults.
    #[pin]
    retry_work: Work<Process, RETRY_WORK>,
    /// Unmaps queues with invalid packets.
    #[pin]
    packet_work: Work<Process, PACKET_WORK>,
    /// A worker writes to the memory of the process. A leaf.
    #[pin]
    writing: Mutex<bool>,
    #[pin]
    written: CondVar,
    #[pin]
    folder: Mutex<Option<ProcessFolder>>,
    // Last: work queues end when no process has a place.
    place: Place,
}

impl_has_work! {
    impl HasWork<Self, EXCEPTION_WORK> for Process { self.exception_work }
    impl HasWork<Self, FAULT_WORK> for Process { self.fault_work }
    impl HasWork<Self, NOTIFY_WORK> for Process { self.notify_work }
    impl HasWork<Self, RETRY_WORK> for Process { self.retry_work }
    impl HasWork<Self, PACKET_WORK> for Process { self.packet_work }
}

/// Returns whether a GPU has retry faults.
fn has_retries(device: &Arc<ProcessDevice>) -> bool {
    device.gpu().generation().caps.retries
}

impl Process {
    /// Creates the process of the address space `mm`, which need not be the current task's, with
    /// the nodes that this task may use. `EINVAL` without any, `ENOMEM` with more than an address
    /// space can have (`kfd_create_process_device_data`).
    pub(super) fn new(leader: ARef<Task>, mm: &MmWithUser, rank: Rank) -> Result<Arc<Self>> {
        let mut devices = KVec::new();
        for node in node::list()? {
            if node.check_permission().is_err() {
                continue;
            }
            if devices.len() == MAX_GPUS {
                return Err(ENOMEM);
            }
            devices.push(ProcessDevice::new(node)?, GFP_KERNEL)?;
        }
        if devices.is_empty() {
            return Err(EINVAL);
        }
        let debug = DebugState::new(devices.len())?;
        let svm_queues = SvmQueues::new(devices.len())?;
        let mut counters = KVec::with_capacity(devices.len(), GFP_KERNEL)?;
        for device in &devices {
            counters.push_within_capacity((device.id(), device.counters().clone()))?;
        }
        let serial = match &rank {
            Rank::Primary(_) => LAST_SERIAL.fetch_add(1, Relaxed) + 1,
            Rank::Secondary { primary, .. } => primary.pids.serial,
        };
        let pids = Pids::of(&leader, serial);
        let moves = Moves::new(pids, counters)?;
        // `kfd_process_xnack_mode`.
        let retries =
            crate::module_parameters::noretry.value() == 0 && devices.iter().all(has_retries);
        let svm = Svm::new(mm, devices.len(), retries, svm_queues.clone(), moves)?;
        Arc::pin_init(
            pin_init!(Self {
                pids,
                leader,
                mm: sched_mm::mm_key(mm),
                rank,
                poisoned: Atomic::new(false),
                devices,
                user: UserMemory::new()?,
                svm,
                svm_queues,
                state <- new_mutex!(
                    ProcessState {
                        queues: QueueTable::new()?,
                        exited: false,
                    },
                    "rkfd_process"
                ),
                events <- Events::new()?,
                delivering <- new_mutex!((), "rkfd_delivering"),
                debug <- new_mutex!(debug, "rkfd_debug"),
                debugger_replied <- new_condvar!("rkfd_debugger_replied"),
                queues_resumed <- new_condvar!("rkfd_queues_resumed"),
                exception_work <- new_work!("rkfd_exceptions"),
                fault_work <- new_work!("rkfd_faults"),
                notify_work <- new_work!("rkfd_debugger"),
                retry_work <- new_work!("rkfd_retry"),
                packet_work <- new_work!("rkfd_packets"),
                writing <- new_mutex!(false, "rkfd_writing"),
                written <- new_condvar!("rkfd_written"),
                folder <- new_mutex!(None),
                place: Place::new()?,
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Returns whether it is the primary process of its address space.
    pub(crate) fn is_primary(&self) -> bool {
        matches!(self.rank, Rank::Primary(_))
    }

    /// Returns the number of a secondary process.
    pub(crate) fn context(&self) -> Option<u32> {
        match &self.rank {
            Rank::Primary(_) => None,
            Rank::Secondary { id, .. } => Some(*id),
        }
    }

    /// Returns its rank.
    pub(super) fn rank(&self) -> &Rank {
        &self.rank
    }

    /// Returns the id of the thread group in the initial PID namespace.
    pub(crate) fn pid(&self) -> Pid {
        self.pids.global
    }

    /// Returns the ids of the thread group, and the number of the address space.
    pub(crate) fn pids(&self) -> Pids {
        self.pids
    }

    /// Records that the process consumed poison. Returns false if it was known.
    pub(super) fn set_poisoned(&self) -> bool {
        self.poisoned.cmpxchg(false, true, Relaxed).is_ok()
    }

    /// Returns the thread group leader.
    pub(super) fn leader(&self) -> &Task {
        &self.leader
    }

    /// Returns its place on a work queue, for items that wait for user space.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the lock of the flag that is set while a worker writes to the memory of the process.
    pub(super) fn writing(&self) -> &Mutex<bool> {
        &self.writing
    }

    /// Notified when such a worker has ended.
    pub(super) fn written(&self) -> &CondVar {
        &self.written
    }

    /// Returns the key of the address space, see [`sched_mm::current_mm_key`].
    pub(super) fn mm(&self) -> usize {
        self.mm
    }

    /// Returns the process on each GPU.
    pub(crate) fn devices(&self) -> &[Arc<ProcessDevice>] {
        &self.devices
    }

    /// Returns the process on the GPU with this id. `EINVAL` if there is none, `ENODEV` once the
    /// process is detached from it.
    pub(crate) fn device(&self, gpu_id: u32) -> Result<&Arc<ProcessDevice>> {
        let device = self
            .devices
            .iter()
            .find(|d| d.id() == gpu_id)
            .ok_or(EINVAL)?;
        if device.is_detached() {
            return Err(ENODEV);
        }
        Ok(device)
    }

    /// Splits a buffer handle into the process on the buffer's GPU and the handle there. Errors
    /// as [`Self::device`].
    pub(crate) fn device_of_handle(&self, handle: u64) -> Result<(&Arc<ProcessDevice>, u32)> {
        let (gpu_id, id) = split_handle(handle);
        Ok((self.device(gpu_id)?, id))
    }

    /// Returns the userptr buffers.
    pub(crate) fn user_memory(&self) -> &Arc<Delayed<UserMemory>> {
        &self.user
    }

    /// Returns the memory shared with the GPUs.
    pub(crate) fn svm(&self) -> &Arc<Delayed<Svm>> {
        &self.svm
    }

    /// Returns the index of a GPU among [`Self::devices`]. `EINVAL` if there is none.
    pub(crate) fn gpu_index(&self, gpu_id: u32) -> Result<usize> {
        let mut devices = self.devices.iter();
        devices.position(|d| d.id() == gpu_id).ok_or(EINVAL)
    }

    /// Returns the bit of a GPU in the masks of [`Self::svm`]. `EINVAL` if there is none.
    pub(crate) fn gpu_bit(&self, gpu_id: u32) -> Result<u64> {
        let index = u32::try_from(self.gpu_index(gpu_id)?)?;
        1u64.checked_shl(index).ok_or(EINVAL)
    }

    /// Sets whether waves of the process wait for pages (XNACK). `EPERM` if a GPU has no retry
    /// faults, `ENOMEM` if memory exceeds a limit. The process has no queues.
    pub(crate) fn set_xnack(&self, retries: &mut RetriesGuard<'_>, xnack: bool) -> Result {
        if self.svm.retries() == xnack {
            return Ok(());
        }
        if xnack && !self.devices.iter().all(has_retries) {
            return Err(EPERM);
        }
        retries.set(xnack)?;
        for device in &self.devices {
            device.set_xnack(xnack);
        }
        Ok(())
    }

    /// Makes the address space of a render node file that of the process on a GPU, see
    /// [`ProcessDevice::acquire_vm`]. The caller lists its PASID.
    pub(super) fn acquire_vm(
        &self,
        gpu_id: u32,
        file: ARef<File>,
        open: impl FnOnce(&File) -> Result<FileVm>,
    ) -> Result {
        let device = self.device(gpu_id)?;
        let index = self.gpu_index(gpu_id)?;
        device.acquire_vm(self.pids, &self.user, self.svm.retries(), file, open)?;
        if self.svm.has(index) {
            return Ok(());
        }
        self.svm_queues
            .join(index, device.node(), &device.slot()?)?;
        let node = device.node();
        let vram = (node.id(), node.memory());
        Svm::join(&self.svm, index, vram, &device.vm()?)
    }

    /// Returns the events.
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// Takes the process lock; `EBADF` after [`Self::release`].
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, ProcessState>> {
        let state = self.state.lock();
        if state.exited {
            return Err(EBADF);
        }
        Ok(state)
    }

    /// Takes the process lock to read the state, also after [`Self::release`].
    pub(crate) fn inspect(&self) -> MutexGuard<'_, ProcessState> {
        self.state.lock()
    }

    /// Returns `EBADF` unless the caller is the process itself: a file cannot be used by a forked
    /// child, by a process that received it, or after execve().
    pub(crate) fn check_caller(&self) -> Result {
        if task::is_current_leader(&self.leader) && sched_mm::current_mm_key() == Some(self.mm) {
            Ok(())
        } else {
            Err(EBADF)
        }
    }

    /// Makes the buffer under `handle` the signal page. `EINVAL` if there is one already, without
    /// such a buffer, or if it is too small or the CPU cannot access it; `ENODEV` before
    /// `ACQUIRE_VM`.
    pub(crate) fn set_event_page(&self, handle: u64) -> Result {
        let _state = self.lock()?;
        if self.events.has_page() {
            return Err(EINVAL);
        }
        let (device, id) = self.device_of_handle(handle)?;
        device.vm()?;
        let bo = device.bo(id).ok_or(EINVAL)?;
        let size = u64_as_usize(bo.size());
        let slots = KBox::new(BufferSlots::new(bo)?, GFP_KERNEL)?;
        self.events.set_page(slots, size, handle)
    }

    /// Returns the state for debuggers.
    pub(super) fn debug(&self) -> &Mutex<DebugState> {
        &self.debug
    }

    /// Returns the condition that the debugger has replied, or its session has ended.
    pub(super) fn debugger_replied(&self) -> &CondVar {
        &self.debugger_replied
    }

    /// Returns the condition, with the process lock, that suspended queues were resumed.
    pub(crate) fn queues_resumed(&self) -> &CondVar {
        &self.queues_resumed
    }

    /// Returns the lock that is held while exceptions are delivered.
    pub(super) fn delivering(&self) -> &Mutex<()> {
        &self.delivering
    }

    /// Returns the folder of the process in sysfs, locked.
    pub(super) fn folder(&self) -> MutexGuard<'_, Option<ProcessFolder>> {
        self.folder.lock()
    }

    /// Removes the folder of the process from sysfs. Waits for readers of the files: the caller
    /// holds no lock that they take. A concurrent caller waits, too: the name is free then.
    pub(super) fn remove_folder(&self) {
        *self.folder.lock() = None;
    }

    /// Adds a queue of `size` bytes to sysfs. A failure is logged only: the queue works without.
    pub(crate) fn show_queue(&self, id: u32, gpu_id: u32, kind: u32, size: u64) {
        if let Some(folder) = &mut *self.folder.lock() {
            if let Err(e) = folder.add_queue(id, gpu_id, kind, size) {
                pr_warn!(
                    "process {}: queue {id} is not in sysfs: {e:?}\n",
                    self.pid()
                );
            }
        }
    }

    /// Changes the size of a queue in sysfs.
    pub(crate) fn resize_queue(&self, id: u32, size: u64) {
        if let Some(folder) = &mut *self.folder.lock() {
            folder.resize_queue(id, size);
        }
    }

    /// Removes a queue from sysfs.
    pub(crate) fn hide_queue(&self, id: u32) {
        if let Some(folder) = &mut *self.folder.lock() {
            folder.retain_queues(|other| other != id);
        }
    }

    /// Removes the queues of the process on a GPU. Also works if the GPU does not respond.
    fn detach_queues(&self, state: &mut ProcessState, index: usize, device: &ProcessDevice) {
        device.set_detached();
        if let Ok(slot) = device.slot() {
            state.queues.remove_all(device.node(), &slot);
            if let Some(folder) = &mut *self.folder.lock() {
                folder.retain_queues(|id| state.queues.get(id).is_some());
            }
            // DESTROY_QUEUE may wait for one of them.
            self.queues_resumed.notify_all();
            self.user.part(&slot);
        }
        self.svm_queues.part(index);
    }

    /// Releases all other resources of the process on a GPU, after [`Self::detach_queues`].
    fn detach_memory(&self, index: usize, device: &ProcessDevice) {
        self.svm.leave(index);
        device.end_evictions();
        memory::release(&self.devices, device);
        if device.slot().is_ok() {
            smi::process(device.id(), self.pids, &self.leader, false);
        }
        self.unlist_pasid(device);
        device.release();
    }

    /// Releases all resources when the address space is released, or the file of a secondary
    /// process is closed. Idempotent; a concurrent caller waits until the process is detached from
    /// all GPUs.
    pub(super) fn release(&self) {
        let mut state = self.state.lock();
        if state.exited {
            return;
        }
        state.exited = true;
        // Queues of one GPU pin buffers of another.
        for (index, device) in self.devices.iter().enumerate() {
            self.detach_queues(&mut state, index, device);
        }
        for (index, device) in self.devices.iter().enumerate() {
            self.detach_memory(index, device);
        }
        self.end_profile(None);
        self.detach_debugger(&state);
        drop(state);
        if self.is_primary() {
            self.detach_from_debugged();
        }
        self.svm.release();
        self.remove_folder();
        self.events.clear();
        trace::process(self.pid(), 0, c"released");
    }

    /// Releases all resources of the process on a GPU that is being unplugged, and signals its
    /// events.
    pub(super) fn detach_gpu(&self, gpu: &Gpu) {
        let mut lost = false;
        let devices = self.devices.iter().enumerate();
        for (index, device) in devices.filter(|(_, d)| d.node().is_of(gpu)) {
            let mut state = self.state.lock();
            if device.is_detached() {
                continue;
            }
            self.detach_queues(&mut state, index, device);
            self.detach_memory(index, device);
            drop(state);
            self.events
                .hw_exception(&HwException::gpu_lost(device.id()));
            lost = true;
        }
        if lost {
            self.end_profile(Some(gpu));
            self.events.terminate();
            trace::process(self.pid(), 0, c"lost GPU");
        }
    }
}
