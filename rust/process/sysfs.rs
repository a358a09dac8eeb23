// SPDX-License-Identifier: GPL-2.0

//! Processes as folders below the device: `proc/<pid>/` with what each GPU and queue is used for.
//!
//! The files show numbers that are kept anyway and take no lock, as removing a folder waits for
//! its readers.

use core::fmt::Write;

use kernel::{device, prelude::*, str::CString, sync::Arc};

use super::{Device, Process};
use crate::kapi::{
    global::global_mutex,
    kobject::{Dir, File, Parent, Text},
};

global_mutex! {
    /// The folder `proc`, while the device exists.
    ROOT: Option<Arc<Dir>> = None;
    init init
}

/// Shows processes below a device as long as it exists. All processes have ended when it goes.
pub(crate) struct Root(());

impl Root {
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

/// The folder of a process.
pub(super) struct View {
    // Field order: children first.
    each_queue: KVec<(u32, Dir)>,
    queues: Dir,
    _stats: KVec<Dir>,
    _top: Dir,
}

fn number(name: &CStr, value: impl Fn() -> u64 + Send + Sync + 'static) -> Result<File> {
    File::new(name, move |out: &mut Text<'_>| {
        writeln!(out, "{}", value())?;
        Ok(())
    })
}

/// The folder of a GPU's statistics.
fn stats(top: &Dir, device: &Arc<Device>) -> Result<Dir> {
    let name = CString::try_from_fmt(fmt!("stats_{}", device.id()))?;
    let device = device.clone();
    let mut files = KVec::with_capacity(1, GFP_KERNEL)?;
    files.push(
        number(c"evicted_ms", move || device.evicted_ms())?,
        GFP_KERNEL,
    )?;
    Dir::new(&Parent::Dir(top), &name, files)
}

impl View {
    /// Makes the folder of a process; `None` while there is no device for it to be below of.
    pub(super) fn new(process: &Process) -> Result<Option<Self>> {
        let Some(root) = ROOT.lock().clone() else {
            return Ok(None);
        };
        let mut files = KVec::new();
        // Each GPU has its own; the file tells none, as in the C driver.
        files.push(number(c"pasid", || 0)?, GFP_KERNEL)?;
        for device in process.devices() {
            let name = CString::try_from_fmt(fmt!("vram_{}", device.id()))?;
            let shown = device.clone();
            files.push(number(&name, move || shown.vram_usage())?, GFP_KERNEL)?;
            // Microseconds of work of SDMA queues. Only scheduler firmware from version 194 on
            // counts them, and none is known to be there: 0, as the C driver then says.
            let name = CString::try_from_fmt(fmt!("sdma_{}", device.id()))?;
            files.push(number(&name, || 0)?, GFP_KERNEL)?;
        }
        let name = CString::try_from_fmt(fmt!("{}", process.pid()))?;
        let top = Dir::new(&Parent::Dir(&root), &name, files)?;
        let queues = Dir::new(&Parent::Dir(&top), c"queues", KVec::new())?;
        let mut all = KVec::new();
        for device in process.devices() {
            all.push(stats(&top, device)?, GFP_KERNEL)?;
        }
        Ok(Some(Self {
            each_queue: KVec::new(),
            queues,
            _stats: all,
            _top: top,
        }))
    }

    /// Shows a queue.
    pub(super) fn add_queue(&mut self, id: u32, gpu_id: u32, kind: u32, size: u64) -> Result {
        let mut files = KVec::with_capacity(3, GFP_KERNEL)?;
        let facts = [
            (c"gpuid", u64::from(gpu_id)),
            (c"size", size),
            (c"type", u64::from(kind)),
        ];
        for (name, value) in facts {
            let file = File::new(name, move |out: &mut Text<'_>| {
                write!(out, "{value}")?;
                Ok(())
            })?;
            files.push(file, GFP_KERNEL)?;
        }
        let name = CString::try_from_fmt(fmt!("{id}"))?;
        let dir = Dir::new(&Parent::Dir(&self.queues), &name, files)?;
        self.each_queue.push((id, dir), GFP_KERNEL)?;
        Ok(())
    }

    /// Hides a queue.
    pub(super) fn remove_queue(&mut self, id: u32) {
        if let Some(at) = self.each_queue.iter().position(|(q, _)| *q == id) {
            drop(self.each_queue.remove(at));
        }
    }
}
