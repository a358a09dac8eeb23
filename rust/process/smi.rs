// SPDX-License-Identifier: GPL-2.0

//! SMI events: a file per client and GPU, a line of text per event.
//!
//! Events are dropped when the FIFO of a client is full. A client receives the events of the
//! address space that opened it, a privileged client (`CAP_SYS_ADMIN`) those of all processes. It
//! may outlive its process, whose ids are then reused: they do not select events. Lines have the id
//! of the process in its own PID namespace, those of start, end and VM faults in the initial one.

use core::{
    fmt::Write,
    ops::{Range, RangeInclusive},
};

use kernel::{
    fs::File,
    new_poll_condvar, new_spinlock,
    num::casts::u32_as_usize,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{
        atomic::{Atomic, Relaxed},
        poll::{PollCondVar, PollTable},
        Arc, SpinLock,
    },
    task::Task,
    time::{BootTime, ClockSource},
    uaccess::{UserSliceReader, UserSliceWriter},
};

use crate::{
    card::health::Cause,
    gpu::{
        migrated::{MoveInfo, MoveTrigger},
        Gpu,
    },
    kapi::{
        capability::{self, Capability},
        file,
        global::global_spinlock,
        task::{self, Pids},
    },
    node::Node,
    svm::UnmapTrigger,
    uapi,
};

/// Size of the FIFO of a client in bytes.
const FIFO_SIZE: usize = 8192;
/// Maximum size of a line in bytes, including a final zero that is not sent.
const LINE: usize = u32_as_usize(uapi::KFD_SMI_EVENT_MSG_SIZE);

/// Trigger of a queue eviction, as in the event.
#[derive(Clone, Copy)]
pub(super) enum EvictionTrigger {
    /// Invalidation of a userptr.
    Userptr,
    /// Eviction of a buffer from VRAM.
    Ttm,
    /// Invalidation of a range of shared virtual memory.
    Svm,
}

impl EvictionTrigger {
    /// Returns the number in `enum KFD_QUEUE_EVICTION_TRIGGERS`.
    fn number(self) -> u32 {
        match self {
            Self::Userptr => uapi::KFD_QUEUE_EVICTION_TRIGGERS_KFD_QUEUE_EVICTION_TRIGGER_USERPTR,
            Self::Ttm => uapi::KFD_QUEUE_EVICTION_TRIGGERS_KFD_QUEUE_EVICTION_TRIGGER_TTM,
            Self::Svm => uapi::KFD_QUEUE_EVICTION_TRIGGERS_KFD_QUEUE_EVICTION_TRIGGER_SVM,
        }
    }

    /// Returns the name of the eviction, or of the restore after it, for trace events.
    pub(super) fn name_of(self, evicted: bool) -> &'static CStr {
        match (self, evicted) {
            (Self::Userptr, true) => c"userptr invalidated",
            (Self::Userptr, false) => c"userptr restored",
            (Self::Ttm, true) => c"evicted",
            (Self::Ttm, false) => c"restored",
            (Self::Svm, true) => c"SVM invalidated",
            (Self::Svm, false) => c"SVM restored",
        }
    }
}

/// Ring buffer of bytes for a client.
struct Fifo {
    bytes: KVec<u8>,
    first: usize,
    count: usize,
}

impl Fifo {
    /// Appends a line. Returns false if it does not fit.
    fn put(&mut self, line: &[u8]) -> bool {
        if FIFO_SIZE - self.count < line.len() {
            return false;
        }
        for byte in line {
            let at = (self.first + self.count) % FIFO_SIZE;
            if let Some(to) = self.bytes.get_mut(at) {
                *to = *byte;
            }
            self.count += 1;
        }
        true
    }

    /// Removes bytes into `out`. Returns how many.
    fn take(&mut self, out: &mut [u8]) -> usize {
        let n = out.len().min(self.count);
        for to in out.iter_mut().take(n) {
            *to = self.bytes.get(self.first).copied().unwrap_or_default();
            self.first = (self.first + 1) % FIFO_SIZE;
        }
        self.count -= n;
        n
    }
}

/// A client of `SMI_EVENTS`.
#[pin_data]
pub(crate) struct SmiClient {
    gpu_id: u32,
    /// Id of the device of the GPU, which is one of its nodes.
    device_id: u32,
    /// Whether the GPU is the first node of the device.
    first: bool,
    /// Number of the address space that opened the file ([`Pids::serial`]); [`EVERY`] if that is
    /// privileged.
    of: u64,
    /// Enabled events: bit n - 1 for event n. Changed under the lock of [`CLIENTS`].
    mask: Atomic<u64>,
    #[pin]
    fifo: SpinLock<Fifo>,
    #[pin]
    waiting: PollCondVar,
}

/// In place of an address space: a client receives the events of all of them.
const EVERY: u64 = 0;

/// GPU, address space and address of a client.
type Key = (u32, u64, usize);

global_spinlock! {
    /// All clients; `None` before the first one. Nothing is allocated under the lock, as events are
    /// raised by the MMU notifier.
    CLIENTS: Option<RBTree<Key, Arc<SmiClient>>> = None;
    init init_lock
}

/// Number of clients that have enabled each event: entry n - 1 for event n. Changed under the lock
/// of [`CLIENTS`].
static ENABLED: [Atomic<u32>; u64::BITS as usize] = [const { Atomic::new(0) }; u64::BITS as usize];

/// Makes the lock of this file usable; called once, at module load.
pub(super) fn init() {
    init_lock();
}

impl SmiClient {
    /// Creates a client of a GPU for the current process, which has these ids. Returns the file
    /// descriptor; `ENOMEM` without memory, `EMFILE` without a free descriptor.
    pub(crate) fn open(node: &Node, pids: Pids) -> Result<u32> {
        let mut bytes = KVec::new();
        bytes.resize(FIFO_SIZE, 0, GFP_KERNEL)?;
        let fifo = Fifo {
            bytes,
            first: 0,
            count: 0,
        };
        let of = if capability::capable(Capability::SysAdmin) {
            EVERY
        } else {
            pids.serial
        };
        let client = Arc::pin_init(
            pin_init!(Self {
                gpu_id: node.id(),
                device_id: node.gpu().id(),
                first: node.index() == 0,
                of,
                mask: Atomic::new(0),
                fifo <- new_spinlock!(fifo),
                waiting <- new_poll_condvar!(),
            }),
            GFP_KERNEL,
        )?;
        let entry = RBTreeNode::new(client.key(), client.clone(), GFP_KERNEL)?;
        let replaced = CLIENTS.lock().get_or_insert_with(RBTree::new).insert(entry);
        debug_assert!(replaced.is_none());
        file::open(client.clone()).inspect_err(|_| file::Stream::closed(&client))
    }

    fn key(&self) -> Key {
        (self.gpu_id, self.of, core::ptr::from_ref(self).addr())
    }

    /// Returns whether the client has enabled an event.
    fn enabled(&self, event: u32) -> bool {
        self.mask.load(Relaxed) & 1 << (event - 1) != 0
    }

    /// Sets the enabled events. The lock of [`CLIENTS`] is held.
    fn enable(&self, mask: u64) {
        let changed = self.mask.xchg(mask, Relaxed) ^ mask;
        for (bit, count) in ENABLED.iter().enumerate() {
            if changed >> bit & 1 == 0 {
                continue;
            }
            if mask >> bit & 1 != 0 {
                count.fetch_add(1, Relaxed);
            } else {
                count.fetch_sub(1, Relaxed);
            }
        }
    }

    /// Adds a line to the FIFO, if it fits, and wakes the readers.
    fn put(&self, line: &[u8]) {
        if self.fifo.lock().put(line) {
            self.waiting.notify_all();
        }
    }
}

#[vtable]
impl file::Stream for SmiClient {
    const NAME: &'static CStr = c"kfd_smi_ev";

    /// Does not block: `EAGAIN` if there is no event.
    fn read(&self, mut to: UserSliceWriter) -> Result<usize> {
        let mut bytes = KVec::new();
        bytes.resize(to.len().min(FIFO_SIZE), 0, GFP_KERNEL)?;
        let n = self.fifo.lock().take(&mut bytes);
        if n == 0 {
            return Err(EAGAIN);
        }
        to.write_slice(bytes.get(..n).ok_or(EINVAL)?)?;
        Ok(n)
    }

    /// Sets the 8 bytes of the event mask. `EFAULT` for fewer bytes.
    fn write(&self, mut from: UserSliceReader) -> Result<usize> {
        if from.len() < size_of::<u64>() {
            return Err(EFAULT);
        }
        let mask = from.read()?;
        let clients = CLIENTS.lock();
        self.enable(mask);
        drop(clients);
        Ok(size_of::<u64>())
    }

    fn poll(&self, file: &File, table: &PollTable<'_>) -> bool {
        table.register_wait(file, &self.waiting);
        self.fifo.lock().count > 0
    }

    fn closed(this: &Arc<Self>) {
        let mut clients = CLIENTS.lock();
        this.enable(0);
        let removed = clients
            .as_mut()
            .and_then(|clients| clients.remove_node(&this.key()));
        drop(clients);
        drop(removed);
    }
}

/// A line, truncated to [`LINE`].
struct Line {
    bytes: [u8; LINE],
    len: usize,
}

impl Line {
    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().take(LINE - 1 - self.len) {
            self.bytes[self.len] = *byte;
            self.len += 1;
        }
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// The clients that an event is sent to.
enum To<'a> {
    /// Those of a node, for the event of the process with this number of its address space.
    Process(u32, u64),
    /// All of the first node of a device.
    FirstNode(&'a Gpu),
    /// All of all nodes of a device.
    Device(&'a Gpu),
}

impl To<'_> {
    /// Calls `f` for each of those that have enabled the event, until it returns true. Returns
    /// whether it has.
    fn any(&self, event: u32, mut f: impl FnMut(&SmiClient) -> bool) -> bool {
        let mut clients = CLIENTS.lock();
        let Some(clients) = &mut *clients else {
            return false;
        };
        let mut f = |client: &SmiClient| client.enabled(event) && f(client);
        match *self {
            Self::Process(gpu_id, serial) => [EVERY, serial].iter().any(|of| {
                let keys = (gpu_id, *of, 0)..=(gpu_id, *of, usize::MAX);
                any_between(clients, &keys, &mut f)
            }),
            Self::FirstNode(gpu) => clients
                .values()
                .any(|client| client.first && client.device_id == gpu.id() && f(client)),
            Self::Device(gpu) => clients
                .values()
                .any(|client| client.device_id == gpu.id() && f(client)),
        }
    }
}

/// Calls `f` for the clients with these keys until it returns true. Returns whether it has.
fn any_between(
    clients: &mut RBTree<Key, Arc<SmiClient>>,
    keys: &RangeInclusive<Key>,
    f: &mut impl FnMut(&SmiClient) -> bool,
) -> bool {
    let mut next = clients.cursor_lower_bound_mut(keys.start());
    while let Some(cursor) = next {
        let (key, client) = cursor.current();
        if key > keys.end() {
            break;
        }
        if f(client) {
            return true;
        }
        next = cursor.move_next();
    }
    false
}

/// Sends an event of a process on a GPU to the clients. Does not allocate or sleep.
fn send(gpu_id: u32, event: u32, of: Pids, what: core::fmt::Arguments<'_>) {
    send_to(&To::Process(gpu_id, of.serial), event, what, b"");
}

/// Sends an event of a process that ends with its name, see [`send`].
fn send_name(gpu_id: u32, event: u32, of: Pids, leader: &Task, what: core::fmt::Arguments<'_>) {
    let name = task::Name::of(leader);
    let to = To::Process(gpu_id, of.serial);
    send_to(&to, event, what, name.bytes());
}

/// Sends an event of a device to the clients of all its nodes. Does not allocate or sleep.
fn send_all(gpu: &Gpu, event: u32, what: core::fmt::Arguments<'_>) {
    send_to(&To::Device(gpu), event, what, b"");
}

/// Sends a line that consists of `what` and `name` to those clients that have enabled the event.
fn send_to(to: &To<'_>, event: u32, what: core::fmt::Arguments<'_>, name: &[u8]) {
    // Most events have no client.
    let enabled = ENABLED.get(u32_as_usize(event - 1));
    if enabled.is_none_or(|count| count.load(Relaxed) == 0) || !to.any(event, |_| true) {
        return;
    }
    let mut line = Line {
        bytes: [0; LINE],
        len: 0,
    };
    // `Line` does not return errors.
    let _ = write!(line, "{event:x} ");
    let _ = line.write_fmt(what);
    line.push(name);
    line.push(b"\n");
    let text = line.bytes.get(..line.len).unwrap_or_default();
    to.any(event, |client| {
        client.put(text);
        false
    });
}

/// Sends the start (`ACQUIRE_VM`) or end of a process on a GPU.
pub(super) fn process(gpu_id: u32, pids: Pids, leader: &Task, starts: bool) {
    let event = if starts {
        uapi::kfd_smi_event_KFD_SMI_EVENT_PROCESS_START
    } else {
        uapi::kfd_smi_event_KFD_SMI_EVENT_PROCESS_END
    };
    send_name(
        gpu_id,
        event,
        pids,
        leader,
        format_args!("{:x} ", pids.global),
    );
}

/// Sends a VM fault of a process.
pub(super) fn vm_fault(gpu_id: u32, pids: Pids, leader: &Task) {
    let event = uapi::kfd_smi_event_KFD_SMI_EVENT_VMFAULT;
    send_name(
        gpu_id,
        event,
        pids,
        leader,
        format_args!("{:x}:", pids.global),
    );
}

/// Sends the eviction of the queues of a process.
pub(super) fn evicted(id: u32, pids: Pids, trigger: EvictionTrigger) {
    let now = BootTime::ktime_get();
    send(
        id,
        uapi::kfd_smi_event_KFD_SMI_EVENT_QUEUE_EVICTION,
        pids,
        format_args!("{now} -{} {id:x} {}", pids.own, trigger.number()),
    );
}

/// Sends the restore of the queues of a process; `again` if it failed and is tried again.
pub(super) fn restored(id: u32, pids: Pids, again: bool) {
    let now = BootTime::ktime_get();
    send(
        id,
        uapi::kfd_smi_event_KFD_SMI_EVENT_QUEUE_RESTORE,
        pids,
        format_args!(
            "{now} -{} {id:x} {}",
            pids.own,
            if again { 'R' } else { '0' }
        ),
    );
}

/// Sends that pages of shared virtual memory were unmapped from a GPU.
pub(super) fn unmapped(id: u32, pids: Pids, pages: &Range<u64>, why: UnmapTrigger) {
    let now = BootTime::ktime_get();
    let (first, count) = (pages.start, pages.end - pages.start);
    let why = match why {
        UnmapTrigger::Notifier => uapi::KFD_SVM_UNMAP_TRIGGERS_KFD_SVM_UNMAP_TRIGGER_MMU_NOTIFY,
        UnmapTrigger::Migration => {
            uapi::KFD_SVM_UNMAP_TRIGGERS_KFD_SVM_UNMAP_TRIGGER_MMU_NOTIFY_MIGRATE
        }
        UnmapTrigger::Cpu => uapi::KFD_SVM_UNMAP_TRIGGERS_KFD_SVM_UNMAP_TRIGGER_UNMAP_FROM_CPU,
    };
    send(
        id,
        uapi::kfd_smi_event_KFD_SMI_EVENT_UNMAP_FROM_GPU,
        pids,
        format_args!("{now} -{} @{first:x}({count:x}) {id:x} {why}", pids.own),
    );
}

/// Sends that a retry fault is being handled.
pub(super) fn page_fault_start(id: u32, pids: Pids, page: u64, write: bool) {
    let now = BootTime::ktime_get();
    let access = if write { 'W' } else { 'R' };
    send(
        id,
        uapi::kfd_smi_event_KFD_SMI_EVENT_PAGE_FAULT_START,
        pids,
        format_args!("{now} -{} @{page:x}({id:x}) {access}", pids.own),
    );
}

/// Sends that the handling of a retry fault has ended, with a migration if `moved`.
pub(super) fn page_fault_end(id: u32, pids: Pids, page: u64, moved: bool) {
    let now = BootTime::ktime_get();
    let how = if moved { 'M' } else { 'U' };
    send(
        id,
        uapi::kfd_smi_event_KFD_SMI_EVENT_PAGE_FAULT_END,
        pids,
        format_args!("{now} -{} @{page:x}({id:x}) {how}", pids.own),
    );
}

/// Returns pages, source, destination and trigger of a migration, as in the events.
fn migration(info: &MoveInfo) -> (u64, u64, u32, u32, u32) {
    let (from, to) = if info.to_vram {
        (0, info.gpu)
    } else {
        (info.gpu, 0)
    };
    let trigger = match info.trigger {
        MoveTrigger::Prefetch => uapi::KFD_MIGRATE_TRIGGERS_KFD_MIGRATE_TRIGGER_PREFETCH,
        MoveTrigger::GpuFault => uapi::KFD_MIGRATE_TRIGGERS_KFD_MIGRATE_TRIGGER_PAGEFAULT_GPU,
        MoveTrigger::CpuFault => uapi::KFD_MIGRATE_TRIGGERS_KFD_MIGRATE_TRIGGER_PAGEFAULT_CPU,
        MoveTrigger::Eviction => uapi::KFD_MIGRATE_TRIGGERS_KFD_MIGRATE_TRIGGER_TTM_EVICTION,
    };
    let count = info.pages.end - info.pages.start;
    (info.pages.start, count, from, to, trigger)
}

/// Sends that a migration starts.
pub(super) fn migration_start(pids: Pids, info: &MoveInfo) {
    let now = BootTime::ktime_get();
    let (first, count, from, to, trigger) = migration(info);
    let (prefetch, preferred) = (info.prefetch, info.preferred);
    send(
        info.gpu,
        uapi::kfd_smi_event_KFD_SMI_EVENT_MIGRATE_START,
        pids,
        format_args!(
            "{now} -{} @{first:x}({count:x}) {from:x}->{to:x} {prefetch:x}:{preferred:x} {trigger}",
            pids.own
        ),
    );
}

/// Sends that a migration has ended.
pub(super) fn migration_end(pids: Pids, info: &MoveInfo, result: Result) {
    let now = BootTime::ktime_get();
    let (first, count, from, to, trigger) = migration(info);
    let error = result.map_or_else(|e| e.to_errno(), |()| 0);
    send(
        info.gpu,
        uapi::kfd_smi_event_KFD_SMI_EVENT_MIGRATE_END,
        pids,
        format_args!(
            "{now} -{} @{first:x}({count:x}) {from:x}->{to:x} {trigger} {error}",
            pids.own
        ),
    );
}

/// Sends that a GPU hangs. [`gpu_back`] follows if it can be reset.
pub(super) fn gpu_lost(gpu: &Gpu) {
    // `amdgpu_reset_get_desc`.
    let why = match gpu.health().cause() {
        Cause::Memory => "RAS error",
        Cause::Scheduler if gpu.generation().need_mes().is_ok() => "MES hang",
        Cause::Scheduler => "HWS hang",
        Cause::Unknown => "unknown",
    };
    send_all(
        gpu,
        uapi::kfd_smi_event_KFD_SMI_EVENT_GPU_PRE_RESET,
        format_args!("{:x} {why}", gpu.health().resets().wrapping_add(1)),
    );
}

/// Sends that the card of a GPU is throttled, to clients of its first node. Called by the interrupt
/// handler, on which fences depend: does not look into the list of nodes, under whose lock memory
/// is allocated.
pub(super) fn throttled(gpu: &Gpu, reasons: u64, count: u64) {
    send_to(
        &To::FirstNode(gpu),
        uapi::kfd_smi_event_KFD_SMI_EVENT_THERMAL_THROTTLE,
        format_args!("{reasons:x}:{count:x}"),
        b"",
    );
}

/// Sends that a GPU was reset.
pub(super) fn gpu_back(gpu: &Gpu) {
    send_all(
        gpu,
        uapi::kfd_smi_event_KFD_SMI_EVENT_GPU_POST_RESET,
        // Without a cause.
        format_args!("{:x} ", gpu.health().resets()),
    );
}
