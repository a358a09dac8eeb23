// SPDX-License-Identifier: GPL-2.0

//! Processes as folders of debugfs: `process/<pid>/` with the PASID on each GPU and the queues.
//!
//! Removing a folder waits for its readers, who take the process's lock: whoever removes one holds none.

use kernel::{
    debugfs::{Dir, File},
    fmt,
    prelude::*,
    str::CString,
    sync::Arc,
    task::Pid,
};

use super::{table, Process};
use crate::{
    hw::{QueueFormat, QueueSpec},
    kapi::global::global_mutex,
};

global_mutex! {
    /// The folder `process`, while the module is there.
    ROOT: Option<Dir> = None;
    init init
}

/// Shows processes below a folder as long as it exists.
pub(crate) struct Root(());

impl Root {
    pub(crate) fn new(parent: &Dir) -> Self {
        *ROOT.lock() = Some(parent.subdir(c"process"));
        Self(())
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let root = ROOT.lock().take();
        drop(root);
    }
}

type Shown = Pin<KBox<File<Pid>>>;

/// The folder of a process.
pub(super) struct Folder {
    // Field order: children first.
    _files: [Shown; 2],
    _dir: Dir,
}

impl Folder {
    /// Makes the folder of a process; `None` while there is nothing for it to be below of.
    pub(super) fn new(process: &Process) -> Result<Option<Self>> {
        let Some(root) = ROOT.lock().clone() else {
            return Ok(None);
        };
        let dir = root.subdir(&CString::try_from_fmt(fmt!("{}", process.pid()))?);
        let pasid = dir.read_callback_file(c"pasid", process.pid(), &pasid_of);
        let queues = dir.read_callback_file(c"queues", process.pid(), &queues_of);
        Ok(Some(Self {
            _files: [
                KBox::pin_init(pasid, GFP_KERNEL)?,
                KBox::pin_init(queues, GFP_KERNEL)?,
            ],
            _dir: dir,
        }))
    }
}

/// The process with this id, if it is still there.
fn find(pid: Pid) -> Result<Option<Arc<Process>>, fmt::Error> {
    let all = table::snapshot().map_err(|_| fmt::Error)?;
    Ok(all.into_iter().find(|process| process.pid() == pid))
}

fn pasid_of(pid: &Pid, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(process) = find(*pid)? {
        for device in process.devices() {
            writeln!(f, "{}", device.pasid())?;
        }
    }
    Ok(())
}

fn queues_of(pid: &Pid, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    find(*pid)?.map_or(Ok(()), |process| queues(&process, f))
}

/// What the ring of a queue holds.
fn format_of(spec: &QueueSpec) -> &'static str {
    match (spec.sdma, spec.format) {
        (Some(_), _) => "Sdma",
        (None, QueueFormat::Pm4) => "Pm4",
        (None, QueueFormat::Aql) => "Aql",
    }
}

/// One line for each queue of a process.
pub(crate) fn queues(process: &Process, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (id, queue) in process.inspect().queues.iter() {
        let spec = queue.spec();
        writeln!(
            f,
            "queue {id}: gpu_id {:x}, {}, ring {:#x}+{:#x}, doorbell {:#x}, priority {}, {}%",
            queue.gpu().id(),
            format_of(spec),
            spec.ring_va,
            spec.ring_size,
            spec.doorbell,
            spec.priority,
            spec.percent
        )?;
    }
    Ok(())
}
