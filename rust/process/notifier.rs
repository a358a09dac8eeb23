// SPDX-License-Identifier: GPL-2.0

//! From an address space to its process, and the end of both.

use kernel::{prelude::*, sync::Arc};

use super::{debugfs, sysfs, table, Process};
use crate::kapi::{global::global_mutex, mmu_notifier, task};

global_mutex! {
    /// Held while a process is looked for and made, so that two threads do not make two.
    CREATE: () = ();
    init init
}

/// The subscription of a process to the end of its address space.
pub(super) struct MmExit;

pub(super) type Registration = mmu_notifier::Registration<MmExit>;

impl mmu_notifier::Exit for MmExit {
    fn mm_exit(mm_key: usize) {
        if let Some(process) = table::find(mm_key) {
            end(&process);
        }
    }
}

/// The process of the current address space.
pub(super) fn find_or_create() -> Result<Arc<Process>> {
    let mm = task::current_mm_key().ok_or(EINVAL)?;
    let _create = CREATE.lock();
    if let Some(process) = table::find(mm) {
        return Ok(process);
    }
    let leader = kernel::current!().group_leader().into();
    let process = Process::new(leader, mm)?;
    // From here on the end is announced; it cannot come before this thread is out of here.
    let registration = Registration::new()?;
    table::insert(process.clone())?;
    *process.registration.lock() = Some(registration);
    match sysfs::View::new(&process) {
        Ok(view) => *process.view.lock() = view,
        Err(e) => pr_warn!("process {} is not in sysfs: {e:?}\n", process.pid()),
    }
    match debugfs::Folder::new(&process) {
        Ok(folder) => *process.folder.lock() = folder,
        Err(e) => pr_warn!("process {} is not in debugfs: {e:?}\n", process.pid()),
    }
    Ok(process)
}

/// All processes, also one that is being made by another thread right now.
pub(super) fn snapshot_all() -> Result<KVec<Arc<Process>>> {
    let _create = CREATE.lock();
    table::snapshot()
}

/// Ends a process: its resources, then its place in the list. Idempotent; when it returns, no GPU
/// touches the address space any more.
fn end(process: &Process) {
    process.release();
    let listed = table::remove(process);
    // Until here the subscription kept the name of the address space from being used again.
    let registration = process.registration.lock().take();
    drop(registration);
    drop(listed);
}

/// Ends all processes; called at module unload, when no file is open any more.
pub(super) fn shutdown() {
    match table::snapshot() {
        Ok(processes) => processes.iter().for_each(|p| end(p)),
        Err(e) => pr_err!("cannot end the processes that are left: {e:?}\n"),
    }
    // Twice: a callback that still runs may queue its own end, for which the first wait is too early.
    mmu_notifier::synchronize();
    mmu_notifier::synchronize();
}
