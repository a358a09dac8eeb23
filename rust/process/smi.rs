// SPDX-License-Identifier: GPL-2.0

//! Events of a GPU for who supervises it: a file for each listener, a line for each event.
//!
//! What a listener has no room for is lost. Listeners hear of the processes of the one that opened
//! the file, or of all if that was privileged.

use core::fmt::Write;

use kernel::{
    fs::File,
    new_poll_condvar, new_spinlock,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        poll::{PollCondVar, PollTable},
        Arc, SpinLock,
    },
    task::{Pid, Task},
    time::{BootTime, ClockSource},
    uaccess::{UserSliceReader, UserSliceWriter},
};

use crate::{
    gpu::Gpu,
    kapi::{
        file,
        global::global_spinlock,
        task::{self, Capability},
    },
    uapi,
};

/// Bytes that wait for a listener.
const ROOM: usize = 8192;
/// Bytes of a line, with a zero behind it that is not sent.
const LINE: usize = uapi::KFD_SMI_EVENT_MSG_SIZE as usize;

/// Why queues are taken off, as listeners are told.
#[derive(Clone, Copy)]
pub(super) enum Trigger {
    /// Memory of the process changes.
    Userptr = uapi::KFD_QUEUE_EVICTION_TRIGGERS_KFD_QUEUE_EVICTION_TRIGGER_USERPTR as isize,
    /// Buffers move.
    Move = uapi::KFD_QUEUE_EVICTION_TRIGGERS_KFD_QUEUE_EVICTION_TRIGGER_TTM as isize,
}

/// Bytes on their way, a ring.
struct Fifo {
    bytes: KVec<u8>,
    first: usize,
    count: usize,
}

impl Fifo {
    /// Puts a line in, or nothing of it.
    fn put(&mut self, line: &[u8]) -> bool {
        if ROOM - self.count < line.len() {
            return false;
        }
        for byte in line {
            let at = (self.first + self.count) % ROOM;
            if let Some(place) = self.bytes.get_mut(at) {
                *place = *byte;
            }
            self.count += 1;
        }
        true
    }

    /// Takes out as many bytes as there are and fit.
    fn take(&mut self, out: &mut [u8]) -> usize {
        let n = out.len().min(self.count);
        for to in out.iter_mut().take(n) {
            *to = self.bytes.get(self.first).copied().unwrap_or_default();
            self.first = (self.first + 1) % ROOM;
        }
        self.count -= n;
        n
    }
}

/// A listener.
#[pin_data]
pub(crate) struct Client {
    gpu_id: u32,
    /// Who opened the file.
    pid: Pid,
    hears_all: bool,
    /// Which events.
    mask: Atomic<u64>,
    #[pin]
    fifo: SpinLock<Fifo>,
    #[pin]
    waiting: PollCondVar,
}

global_spinlock! {
    /// All listeners. Nothing is allocated under the lock: events come from where memory may be
    /// waited for.
    CLIENTS: KVec<Arc<Client>> = KVec::new();
    init init_lock
}

/// Makes the lock of this file usable; called once, at module load.
pub(super) fn init() {
    init_lock();
}

impl Client {
    /// Listens to a GPU, for the current process. Gives its descriptor of the file.
    pub(crate) fn open(gpu: &Gpu) -> Result<u32> {
        let mut bytes = KVec::new();
        bytes.resize(ROOM, 0, GFP_KERNEL)?;
        let fifo = Fifo {
            bytes,
            first: 0,
            count: 0,
        };
        let client = Arc::pin_init(
            pin_init!(Self {
                gpu_id: gpu.id(),
                pid: kernel::current!().group_leader().pid(),
                hears_all: task::capable(Capability::SysAdmin),
                mask: Atomic::new(0),
                fifo <- new_spinlock!(fifo),
                waiting <- new_poll_condvar!(),
            }),
            GFP_KERNEL,
        )?;
        add(&client)?;
        file::open(client.clone()).inspect_err(|_| file::Stream::closed(&client))
    }

    fn wants(&self, event: u32, of: Option<Pid>) -> bool {
        let mask = self.mask.load(Relaxed);
        mask & 1 << (event - 1) != 0 && (self.hears_all || of.is_none_or(|pid| pid == self.pid))
    }
}

fn add(client: &Arc<Client>) -> Result {
    loop {
        let mut clients = CLIENTS.lock();
        if clients.push_within_capacity(client.clone()).is_ok() {
            return Ok(());
        }
        let count = clients.len();
        drop(clients);
        let mut more = KVec::with_capacity(count * 2 + 4, GFP_KERNEL)?;
        let mut clients = CLIENTS.lock();
        if more.capacity() < clients.len() {
            continue;
        }
        for client in clients.drain_all() {
            more.push_within_capacity(client)?;
        }
        core::mem::swap(&mut *clients, &mut more);
        drop(clients);
        drop(more);
    }
}

impl file::Stream for Client {
    const NAME: &'static CStr = c"kfd_smi_ev";

    /// Never waits: `EAGAIN` if there is nothing.
    fn read(&self, mut to: UserSliceWriter) -> Result<usize> {
        let mut bytes = KVec::new();
        bytes.resize(to.len().min(ROOM), 0, GFP_KERNEL)?;
        let n = self.fifo.lock().take(&mut bytes);
        if n == 0 {
            return Err(EAGAIN);
        }
        to.write_slice(bytes.get(..n).ok_or(EINVAL)?)?;
        Ok(n)
    }

    /// Eight bytes: a bit for each event that is wanted from now on.
    fn write(&self, mut from: UserSliceReader) -> Result<usize> {
        if from.len() < size_of::<u64>() {
            return Err(EFAULT);
        }
        self.mask.store(from.read::<u64>()?, Relaxed);
        Ok(size_of::<u64>())
    }

    fn poll(&self, file: &File, table: &PollTable<'_>) -> bool {
        table.register_wait(file, &self.waiting);
        self.fifo.lock().count > 0
    }

    fn closed(this: &Arc<Self>) {
        let mut clients = CLIENTS.lock();
        let at = clients.iter().position(|c| Arc::ptr_eq(c, this));
        let gone = at.and_then(|at| clients.remove(at).ok());
        // Nobody frees the room of a static when the module goes.
        let room = if clients.is_empty() {
            core::mem::replace(&mut *clients, KVec::new())
        } else {
            KVec::new()
        };
        drop(clients);
        drop((gone, room));
    }
}

/// A line that is being written. What does not fit is cut off.
struct Line {
    bytes: [u8; LINE],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.bytes().take(LINE - 1 - self.len) {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}

/// Tells who wants to know of an event, of a process or of the GPU as such. Allocates nothing and
/// does not sleep.
fn tell(gpu_id: u32, event: u32, of: Option<Pid>, what: core::fmt::Arguments<'_>) {
    let mut line = Line {
        bytes: [0; LINE],
        len: 0,
    };
    // Writing to a line does not fail.
    let _ = write!(line, "{event:x} ");
    let _ = line.write_fmt(what);
    let text = line.bytes.get(..line.len).unwrap_or_default();
    for client in CLIENTS.lock().iter() {
        if client.gpu_id == gpu_id && client.wants(event, of) && client.fifo.lock().put(text) {
            client.waiting.notify_all();
        }
    }
}

/// A process has acquired an address space on a GPU, or has left it.
pub(super) fn process(gpu: &Gpu, leader: &Task, starts: bool) {
    let event = if starts {
        uapi::kfd_smi_event_KFD_SMI_EVENT_PROCESS_START
    } else {
        uapi::kfd_smi_event_KFD_SMI_EVENT_PROCESS_END
    };
    let pid = leader.pid();
    tell(
        gpu.id(),
        event,
        Some(pid),
        format_args!("{pid:x} {}\n", task::Name::of(leader)),
    );
}

/// A process has touched what it must not.
pub(super) fn vm_fault(gpu: &Gpu, leader: &Task) {
    let pid = leader.pid();
    tell(
        gpu.id(),
        uapi::kfd_smi_event_KFD_SMI_EVENT_VMFAULT,
        Some(pid),
        format_args!("{pid:x}:{}\n", task::Name::of(leader)),
    );
}

/// The queues of a process are about to be taken off a GPU.
pub(super) fn evicted(gpu: &Gpu, pid: Pid, trigger: Trigger) {
    let (now, id) = (BootTime::ktime_get(), gpu.id());
    tell(
        id,
        uapi::kfd_smi_event_KFD_SMI_EVENT_QUEUE_EVICTION,
        Some(pid),
        format_args!("{now} -{pid} {id:x} {}\n", trigger as u32),
    );
}

/// They were put back, or that has to be tried again.
pub(super) fn restored(gpu: &Gpu, pid: Pid, again: bool) {
    let (now, id) = (BootTime::ktime_get(), gpu.id());
    tell(
        id,
        uapi::kfd_smi_event_KFD_SMI_EVENT_QUEUE_RESTORE,
        Some(pid),
        format_args!("{now} -{pid} {id:x} {}\n", if again { 'R' } else { '0' }),
    );
}

/// A GPU does not answer any more. If it can be reset [`gpu_back`] follows.
pub(super) fn gpu_lost(gpu: &Gpu) {
    tell(
        gpu.id(),
        uapi::kfd_smi_event_KFD_SMI_EVENT_GPU_PRE_RESET,
        None,
        format_args!("{:x} unknown\n", gpu.resets().wrapping_add(1)),
    );
}

/// A GPU was reset.
pub(super) fn gpu_back(gpu: &Gpu) {
    tell(
        gpu.id(),
        uapi::kfd_smi_event_KFD_SMI_EVENT_GPU_POST_RESET,
        None,
        format_args!("{:x}\n", gpu.resets()),
    );
}
