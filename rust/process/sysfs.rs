// SPDX-License-Identifier: GPL-2.0

//! Processes in sysfs: `proc/<pid>/` below the device, with statistics of GPUs and queues. That of
//! a secondary process is `proc/<pid>/context_<id>/`.
//!
//! The files take no lock that is held while a directory is removed, as that waits for its readers.

use core::fmt::Write;

use kernel::{
    device, kvec,
    prelude::*,
    str::CString,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
    task::Pid,
};

use super::{pdd::ProcessDevice, svm::Counters};
use crate::kapi::{
    global::global_mutex,
    kobject::{Dir, File, Parent, Text},
};

global_mutex! {
    /// The directory `proc`; set while the device exists.
    ROOT: Option<Arc<Dir>> = None;
    init init
}

/// Owns the directory `proc` below a device. All processes have ended when it is dropped.
pub(crate) struct Root(());

impl Root {
    /// Creates the directory. Processes appear in it from now on.
    pub(crate) fn new(dev: &device::Device) -> Result<Self> {
        let dir = Dir::new(&Parent::Device(dev), c"proc", KVec::new())?;
        *ROOT.lock() = Some(Arc::new(dir, GFP_KERNEL)?);
        Ok(Self(()))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let root = ROOT.lock().take();
        drop(root);
    }
}

/// The directory of a queue.
struct QueueFolder {
    id: u32,
    /// Size of the ring in bytes.
    size: Arc<Atomic<u64>>,
    _dir: Dir,
}

/// The directory of a process.
pub(super) struct ProcessFolder {
    // Field order: children first.
    each_queue: KVec<QueueFolder>,
    queues: Dir,
    _stats: KVec<Dir>,
    top: Dir,
}

/// Returns a file that shows a number without the end of a line.
fn value(name: &'static CStr, value: impl Fn() -> u64 + Send + Sync + 'static) -> Result<File> {
    File::constant(name, move |out: &mut Text<'_>| {
        Ok(write!(out, "{}", value())?)
    })
}

/// Returns a file that shows a number.
fn number(name: &CStr, value: impl Fn() -> u64 + Send + Sync + 'static) -> Result<File> {
    File::new(name, move |out: &mut Text<'_>| {
        Ok(writeln!(out, "{}", value())?)
    })
}

/// Creates the directory `stats_<gpu_id>`.
fn stats(top: &Dir, device: &Arc<ProcessDevice>) -> Result<Dir> {
    let name = CString::try_from_fmt(fmt!("stats_{}", device.id()))?;
    let device = device.clone();
    let occupied = device.clone();
    let files = kvec![
        number(c"evicted_ms", move || device.evicted_ms())?,
        File::new(c"cu_occupancy", move |out: &mut Text<'_>| {
            Ok(writeln!(out, "{}", occupied.cu_occupancy()?)?)
        })?,
    ]?;
    Dir::new(&Parent::Dir(top), &name, files)
}

/// Creates the directory `counters_<gpu_id>`.
fn counters(top: &Dir, device: &Arc<ProcessDevice>) -> Result<Dir> {
    let name = CString::try_from_fmt(fmt!("counters_{}", device.id()))?;
    let file = |name: &CStr, counter: fn(&Counters) -> &Atomic<u64>| {
        let counters = device.counters().clone();
        number(name, move || counter(&counters).load(Relaxed))
    };
    let files = kvec![
        file(c"faults", |counters| &counters.faults)?,
        file(c"page_in", |counters| &counters.page_in)?,
        file(c"page_out", |counters| &counters.page_out)?,
    ]?;
    Dir::new(&Parent::Dir(top), &name, files)
}

impl ProcessFolder {
    /// Creates the directory of a process; `None` before the device is registered.
    pub(super) fn of_process(pid: Pid, devices: &[Arc<ProcessDevice>]) -> Result<Option<Self>> {
        let root = ROOT.lock().clone();
        let name = CString::try_from_fmt(fmt!("{pid}"))?;
        root.map(|root| Self::new(&root, &name, devices))
            .transpose()
    }

    /// Creates the directory of the secondary process with this number, in that of the primary one.
    pub(super) fn of_secondary(&self, id: u32, devices: &[Arc<ProcessDevice>]) -> Result<Self> {
        let name = CString::try_from_fmt(fmt!("context_{id}"))?;
        Self::new(&self.top, &name, devices)
    }

    fn new(parent: &Dir, name: &CStr, devices: &[Arc<ProcessDevice>]) -> Result<Self> {
        let mut files = KVec::new();
        // PASIDs are per GPU; the file shows 0, as in the C driver.
        files.push(number(c"pasid", || 0)?, GFP_KERNEL)?;
        for device in devices {
            let name = CString::try_from_fmt(fmt!("vram_{}", device.id()))?;
            let shown = device.clone();
            files.push(number(&name, move || shown.vram_usage())?, GFP_KERNEL)?;
            // Activity of SDMA queues in us. Counted by scheduler firmware from version 194 on,
            // which is not relied on; the C driver shows 0 with older firmware, too.
            let name = CString::try_from_fmt(fmt!("sdma_{}", device.id()))?;
            files.push(number(&name, || 0)?, GFP_KERNEL)?;
        }
        let top = Dir::new(&Parent::Dir(parent), name, files)?;
        let queues = Dir::new(&Parent::Dir(&top), c"queues", KVec::new())?;
        let mut all = KVec::new();
        for device in devices {
            all.push(stats(&top, device)?, GFP_KERNEL)?;
            all.push(counters(&top, device)?, GFP_KERNEL)?;
        }
        Ok(Self {
            each_queue: KVec::new(),
            queues,
            _stats: all,
            top,
        })
    }

    /// Adds a queue of `size` bytes; `kind` is a number of `enum kfd_queue_type`.
    pub(super) fn add_queue(&mut self, id: u32, gpu_id: u32, kind: u32, size: u64) -> Result {
        let size = Arc::new(Atomic::new(size), GFP_KERNEL)?;
        let shown = size.clone();
        let files = kvec![
            value(c"gpuid", move || gpu_id.into())?,
            value(c"size", move || shown.load(Relaxed))?,
            value(c"type", move || kind.into())?,
        ]?;
        let name = CString::try_from_fmt(fmt!("{id}"))?;
        let dir = Dir::new(&Parent::Dir(&self.queues), &name, files)?;
        let folder = QueueFolder {
            id,
            size,
            _dir: dir,
        };
        Ok(self.each_queue.push(folder, GFP_KERNEL)?)
    }

    /// Changes the size of a queue.
    pub(super) fn resize_queue(&mut self, id: u32, size: u64) {
        if let Some(folder) = self.each_queue.iter().find(|folder| folder.id == id) {
            folder.size.store(size, Relaxed);
        }
    }

    /// Removes all queues but those that `keep` selects.
    pub(super) fn retain_queues(&mut self, keep: impl Fn(u32) -> bool) {
        self.each_queue.retain(|folder| keep(folder.id));
    }
}
