// SPDX-License-Identifier: GPL-2.0

//! All processes that use GPUs, found by address space, by PASID, or one after the other.

use kernel::{prelude::*, sync::Arc, task::Pid};

use super::{Device, Process};
use crate::{
    gpu::Gpu,
    kapi::{global::global_mutex, task::NoReclaim},
};

global_mutex! {
    LIST: KVec<Arc<Process>> = KVec::new();
    init init
}

/// The process of an address space.
pub(super) fn find(mm: usize) -> Option<Arc<Process>> {
    LIST.lock().iter().find(|p| p.mm == mm).cloned()
}

/// The process and its data of the GPU to which a PASID of that GPU belongs.
pub(crate) fn by_pasid(gpu: &Gpu, pasid: u32) -> Option<(Arc<Process>, Arc<Device>)> {
    if pasid == 0 {
        return None;
    }
    LIST.lock().iter().find_map(|process| {
        let device = process
            .devices
            .iter()
            .find(|d| d.pasid() == pasid && d.gpu().id() == gpu.id())?;
        Some((process.clone(), device.clone()))
    })
}

/// The process of a thread group, by the id that it has for the caller.
pub(crate) fn by_user_pid(pid: Pid) -> Result<Option<Arc<Process>>> {
    let found = snapshot()?
        .into_iter()
        .find(|p| p.leader.tgid_nr_ns(None) == pid);
    Ok(found)
}

/// All processes of this moment.
///
/// The list is not locked while the caller looks at them.
pub(crate) fn snapshot() -> Result<KVec<Arc<Process>>> {
    let mut out: KVec<Arc<Process>> = KVec::new();
    loop {
        let list = LIST.lock();
        if out.capacity() >= list.len() {
            for process in list.iter() {
                out.push_within_capacity(process.clone())?;
            }
            return Ok(out);
        }
        let len = list.len();
        drop(list);
        out.reserve(len, GFP_KERNEL)?;
    }
}

/// Calls `f` on every process.
pub(crate) fn for_each(f: impl FnMut(&Arc<Process>)) -> Result {
    snapshot()?.iter().for_each(f);
    Ok(())
}

pub(super) fn insert(process: Arc<Process>) -> Result {
    let mut list = LIST.lock();
    // Whoever tells processes of a GPU that hangs may have been called because memory is short.
    let _no_reclaim = NoReclaim::new();
    list.push(process, GFP_KERNEL)?;
    Ok(())
}

/// Takes a process off the list; nobody finds it any more.
pub(super) fn remove(process: &Process) -> Option<Arc<Process>> {
    let mut list = LIST.lock();
    let at = list.iter().position(|p| core::ptr::eq(&**p, process))?;
    list.remove(at).ok()
}
