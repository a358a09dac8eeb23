// SPDX-License-Identifier: GPL-2.0

//! The list of processes: creation at the first open and by CREATE_PROCESS, lookup, end with the
//! address space.

use kernel::{
    fs::File,
    prelude::*,
    rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation},
    sync::{aref::ARef, Arc},
    task::{Pid, Task},
};

use super::{
    debugfs,
    kfd_process::{Process, Rank},
    pdd::{FileVm, ProcessDevice},
    sysfs::ProcessFolder,
};
use crate::{
    gpu::{Gpu, Origin},
    kapi::{drm, global::global_mutex, log_limit::LogLimit, mmu_notifier, sched_mm, task},
    node, trace,
};

/// An entry of the list.
struct Entry {
    process: Arc<Process>,
    /// Keeps the key of the address space from being reused. That of a primary process, which
    /// ends after the secondary ones.
    registration: Option<mmu_notifier::Registration<MmExit>>,
}

/// Key of the address space, whether it is the primary process, and address of a process.
type Key = (usize, bool, usize);

fn key_of(process: &Process) -> Key {
    let address = core::ptr::from_ref(process).addr();
    (process.mm(), process.is_primary(), address)
}

/// A process with an address space of a GPU, and its pdd there.
type OnGpu = (Arc<Process>, Arc<ProcessDevice>);

/// The processes, and indices of them.
#[derive(Default)]
struct List {
    processes: RBTree<Key, Entry>,
    /// Those with an address space of a GPU, by its PASID, which is unique among all GPUs.
    pasids: RBTree<u32, OnGpu>,
    /// Those with a debugger session, by the key of the debugger's address space and their own
    /// address.
    debugged: RBTree<(usize, usize), Arc<Process>>,
    /// Key of the address space of the primary process whose folders have a PID as their name.
    pids: RBTree<Pid, usize>,
    /// Rate limit of warnings about folders that were not added.
    warnings: LogLimit,
}

impl List {
    /// Calls `f` with the list locked. Nothing is allocated under the lock, which is taken when a
    /// hang is reported, possibly from memory reclaim.
    fn with<T>(f: impl FnOnce(&mut Self) -> T) -> T {
        f(LIST.lock().get_or_insert_default())
    }
}

global_mutex! {
    /// `None` before the first process.
    LIST: Option<List> = None;
    init init_list
}

global_mutex! {
    /// Minors of the render nodes of devices whose nodes are being replaced, by the id of the
    /// device. Held across lookup and creation of a process: an address space has one primary
    /// process at most.
    CREATE: KVec<(u32, KVec<u32>)> = KVec::new();
    init init_create
}

/// Initializes the locks of this file; called once, at module load.
pub(super) fn init() {
    init_list();
    init_create();
}

/// The MMU notifier of an address space.
struct MmExit;

#[vtable]
impl mmu_notifier::Exit for MmExit {
    fn mm_exit(mm_key: usize) {
        for primary in [false, true] {
            while let Some(process) = find_ranked(mm_key, primary) {
                end(&process);
            }
        }
    }
}

/// Returns the primary process of an address space.
fn find(mm: usize) -> Option<Arc<Process>> {
    find_ranked(mm, true)
}

/// Returns the primary process of an address space, or a secondary one.
fn find_ranked(mm: usize, primary: bool) -> Option<Arc<Process>> {
    List::with(|list| {
        let cursor = list.processes.cursor_lower_bound(&(mm, primary, 0))?;
        let ((of, is_primary, _), entry) = cursor.current();
        (*of == mm && *is_primary == primary).then(|| entry.process.clone())
    })
}

/// Returns the primary process of the caller's address space; creates it at the first open.
/// `EINVAL` without a GPU that the caller may use, also if there is a process, while the nodes of
/// one that it may use are being replaced, or for a kernel thread.
pub(super) fn open_current() -> Result<Arc<Process>> {
    let current = kernel::current!();
    current.mm().ok_or(EINVAL)?;
    let process = open_for(current)?;
    trace::process(process.pid(), 0, c"opened");
    Ok(process)
}

/// Returns the primary process of a task's address space; `None` if it does not use GPUs.
pub(crate) fn by_task(task: &Task) -> Option<Arc<Process>> {
    find(sched_mm::mm_key(&*sched_mm::mm_of(task)?))
}

/// Calls `f` while no process uses a GPU, which has render nodes with these minors. No process that
/// may use it is created meanwhile: an open fails and does not wait, as in the C driver
/// (`kgd2kfd_check_and_lock_kfd`). `EBUSY` if a process uses the GPU, `ENOMEM` without memory, or
/// the error of `f`.
pub(crate) fn while_unused(gpu: &Gpu, minors: KVec<u32>, f: impl FnOnce() -> Result) -> Result {
    {
        let mut switching = CREATE.lock();
        let mut used = false;
        for_each(|process| used |= process.devices().iter().any(|d| d.node().is_of(gpu)));
        if used {
            return Err(EBUSY);
        }
        switching.push((gpu.id(), minors), GFP_KERNEL)?;
    }
    let result = f();
    CREATE.lock().retain(|(id, _)| *id != gpu.id());
    result
}

/// Returns whether the nodes of a device that the current task may use are being replaced.
fn is_switching(switching: &[(u32, KVec<u32>)]) -> bool {
    let mut minors = switching.iter().flat_map(|(_, minors)| minors.iter());
    minors.any(|minor| drm::check_render_node(*minor).is_ok())
}

/// As [`by_task`]; creates the process. `ESRCH` if the task has no address space, otherwise as
/// [`open_current`].
pub(crate) fn open_for(task: &Task) -> Result<Arc<Process>> {
    loop {
        let switching = CREATE.lock();
        // Under the lock: processes of programs that a task executes are created in the order of
        // these. The leader after the address space, because execve() changes it before.
        let mm = sched_mm::mm_of(task).ok_or(ESRCH)?;
        let leader = task::leader_of(task).ok_or(ESRCH)?;
        let (key, pid) = (sched_mm::mm_key(&mm), leader.pid());
        let last = List::with(|list| list.pids.get(&pid).copied());
        if let Some(old) = last.filter(|mm| *mm != key) {
            // Without the lock, as it waits for readers. Another program may be executed meanwhile.
            drop(switching);
            drop_folders(pid, old);
            continue;
        }
        if !node::any_permitted() || is_switching(&switching) {
            return Err(EINVAL);
        }
        if let Some(process) = find(key) {
            return Ok(process);
        }
        let process = Process::new(leader, &mm, Rank::primary()?)?;
        // The address space does not end while it is held here.
        let registration = mmu_notifier::Registration::new(&mm)?;
        insert(&process, Some(registration))?;
        return Ok(process);
    }
}

/// Creates a secondary process beside `primary`, whose address space is the caller's: `EBADF` if it
/// is not. `ENOSPC` if that has 65,535 of them, otherwise as [`open_current`].
pub(super) fn create_secondary(primary: &Arc<Process>) -> Result<Arc<Process>> {
    let switching = CREATE.lock();
    if is_switching(&switching) {
        return Err(EINVAL);
    }
    let current = kernel::current!();
    let mm = current
        .mm()
        .filter(|mm| sched_mm::mm_key(mm) == primary.mm());
    let rank = Rank::secondary(primary)?;
    let process = Process::new(primary.leader().into(), mm.ok_or(EBADF)?, rank)?;
    insert(&process, None)?;
    trace::process(process.pid(), 0, c"created");
    Ok(process)
}

/// Adds a new process to the list, to sysfs and to debugfs.
fn insert(
    process: &Arc<Process>,
    registration: Option<mmu_notifier::Registration<MmExit>>,
) -> Result {
    let entry = Entry {
        process: process.clone(),
        registration,
    };
    let node = RBTreeNode::new(key_of(process), entry, GFP_KERNEL)?;
    let primary = process.is_primary();
    let pid = primary.then(|| RBTreeNode::new(process.pid(), process.mm(), GFP_KERNEL));
    let pid = pid.transpose()?;
    let (replaced, old_pid) = List::with(|list| {
        let old_pid = pid.and_then(|node| list.pids.insert(node));
        (list.processes.insert(node), old_pid)
    });
    debug_assert!(replaced.is_none());
    drop(old_pid);
    add_folder(process).unwrap_or_else(|e| warn(process, "sysfs", e));
    debugfs::add(process).unwrap_or_else(|e| warn(process, "debugfs", e));
    Ok(())
}

/// Warns that a process is not in a file system, unless there were many such warnings.
fn warn(process: &Process, of: &str, e: Error) {
    if List::with(|list| list.warnings.allows()).is_some() {
        pr_warn!("process {} is not in {of}: {e:?}\n", process.pid());
    }
}

/// Removes the folders of the processes of an address space from sysfs and debugfs, as a new
/// process has their PID: a task has executed another program or ended, and another one keeps its
/// address space. Waits for readers of the files.
fn drop_folders(pid: Pid, mm: usize) {
    // Secondary processes precede the primary one, whose folder has theirs.
    for process in all().filter(|process| process.mm() == mm) {
        process.remove_folder();
        debugfs::remove(&process);
    }
    unlist_pid(pid, mm);
}

/// Removes a PID from the list, unless it is that of another address space.
fn unlist_pid(pid: Pid, mm: usize) {
    let removed = List::with(|list| {
        let listed = list.pids.get(&pid) == Some(&mm);
        listed.then(|| list.pids.remove_node(&pid))
    });
    drop(removed);
}

/// Adds a process to sysfs.
fn add_folder(process: &Process) -> Result {
    let devices = process.devices();
    let folder = match process.rank() {
        Rank::Primary(_) => ProcessFolder::of_process(process.pid(), devices)?,
        Rank::Secondary { primary, id } => {
            let primary = primary.folder();
            let folder = primary.as_ref().map(|f| f.of_secondary(*id, devices));
            folder.transpose()?
        }
    };
    *process.folder() = folder;
    Ok(())
}

/// Ends a process: releases its resources, then removes it from the list. Idempotent; no GPU
/// accesses the address space when this returns.
pub(super) fn end(process: &Process) {
    process.release();
    debugfs::remove(process);
    if process.is_primary() {
        unlist_pid(process.pid(), process.mm());
    }
    let removed = List::with(|list| list.processes.remove_node(&key_of(process)));
    if let Some(node) = removed {
        let (
            _,
            Entry {
                process,
                registration,
            },
        ) = node.to_key_value();
        drop(registration);
        drop(process);
    }
}

/// Ends all processes; called at module unload, when no file is open any more.
pub(super) fn shutdown() {
    all().for_each(|process| end(&process));
    // Twice: a running callback may drop its registration after the first wait has begun.
    mmu_notifier::synchronize();
    mmu_notifier::synchronize();
}

/// Returns the process with this PASID on a GPU, and its pdd there.
pub(super) fn by_pasid(gpu: &Gpu, pasid: u32) -> Option<(Arc<Process>, Arc<ProcessDevice>)> {
    if pasid == 0 {
        return None;
    }
    let found = List::with(|list| list.pasids.get(&pasid).cloned());
    // The list is not locked: the last references may be dropped.
    found.filter(|(_, device)| device.node().is_of(gpu))
}

/// Makes the address space of a render node file that of a process on a GPU, and lists the process
/// by its PASID, see [`ProcessDevice::acquire_vm`]. The process lock is held.
pub(crate) fn acquire_vm(
    process: &Arc<Process>,
    gpu_id: u32,
    file: ARef<File>,
    open: impl FnOnce(&File) -> Result<FileVm>,
) -> Result {
    let memory = RBTreeNodeReservation::new(GFP_KERNEL)?;
    let acquired = process.acquire_vm(gpu_id, file, open);
    let device = process.device(gpu_id)?;
    // Also after an error, if the process has the address space nevertheless.
    let pasid = device.pasid();
    if pasid != 0 {
        let node = memory.into_node(pasid, (process.clone(), device.clone()));
        let replaced = List::with(|list| list.pasids.insert(node));
        drop(replaced);
    }
    acquired
}

impl Process {
    /// Removes the PASID on a GPU from the list, if there is one.
    pub(super) fn unlist_pasid(&self, device: &ProcessDevice) {
        let removed = List::with(|list| list.pasids.remove_node(&device.pasid()));
        drop(removed);
    }
}

/// The process that an interrupt concerns.
pub(super) struct Interrupted {
    pub(super) process: Arc<Process>,
    /// Its pdd with the PASID of the interrupt.
    pub(super) device: Arc<ProcessDevice>,
    /// Its pdd on the node that takes the interrupt: the same, unless the entry has the PASID of
    /// another node.
    pub(super) on: Arc<ProcessDevice>,
}

/// Returns the process that an interrupt concerns; `None` if it is an interrupt of no node, or its
/// PASID that of no process.
pub(super) fn by_interrupt(gpu: &Gpu, origin: &Origin) -> Option<Interrupted> {
    let (process, device) = by_pasid(gpu, origin.pasid)?;
    // A process has a pdd for each node of a card that it may use.
    let on = process
        .devices()
        .iter()
        .find(|d| d.node().is_of(gpu) && d.node().takes(origin.ih_node, origin.vmid))?
        .clone();
    Some(Interrupted {
        process,
        device,
        on,
    })
}

/// Returns a process that the one with address space `debugger` debugs.
pub(super) fn debugged_by(debugger: usize) -> Option<Arc<Process>> {
    List::with(|list| {
        let cursor = list.debugged.cursor_lower_bound(&(debugger, 0))?;
        let ((by, _), process) = cursor.current();
        (*by == debugger).then(|| process.clone())
    })
}

/// Memory to list a process as debugged.
pub(super) struct DebuggedMemory(RBTreeNodeReservation<(usize, usize), Arc<Process>>);

impl DebuggedMemory {
    /// Allocates it. `ENOMEM` without memory.
    pub(super) fn new() -> Result<Self> {
        Ok(Self(RBTreeNodeReservation::new(GFP_KERNEL)?))
    }
}

fn debugged_key(debugger: usize, process: &Process) -> (usize, usize) {
    (debugger, core::ptr::from_ref(process).addr())
}

/// Lists a process as debugged by the one with address space `debugger`, until
/// [`unlist_debugged`].
pub(super) fn list_debugged(memory: DebuggedMemory, debugger: usize, process: &Arc<Process>) {
    let key = debugged_key(debugger, process);
    let node = memory.0.into_node(key, process.clone());
    let replaced = List::with(|list| list.debugged.insert(node));
    debug_assert!(replaced.is_none());
}

/// Undoes [`list_debugged`].
pub(super) fn unlist_debugged(debugger: usize, process: &Process) {
    let removed = List::with(|list| list.debugged.remove_node(&debugged_key(debugger, process)));
    drop(removed);
}

/// Calls `f` for all processes, with the list locked. Allocates no memory.
pub(super) fn for_each(mut f: impl FnMut(&Process)) {
    List::with(|list| {
        let entries = list.processes.values();
        entries.for_each(|entry| f(&entry.process));
    });
}

/// Iterates over all processes. The list is not locked in between: a process that is added or ends
/// meanwhile may be left out. Allocates no memory.
pub(crate) fn all() -> impl Iterator<Item = Arc<Process>> {
    let mut next: Key = (0, false, 0);
    core::iter::from_fn(move || {
        List::with(|list| {
            let cursor = list.processes.cursor_lower_bound(&next)?;
            let (&(mm, is_primary, address), entry) = cursor.current();
            next = (mm, is_primary, address + 1);
            Some(entry.process.clone())
        })
    })
}

/// As [`all`], after a creation in progress has completed.
pub(super) fn all_created() -> impl Iterator<Item = Arc<Process>> {
    drop(CREATE.lock());
    all()
}
