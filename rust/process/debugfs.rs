// SPDX-License-Identifier: GPL-2.0

//! Processes in debugfs: `process/<pid>/` with the PASID on each GPU, the queues, shared
//! virtual memory, and the number of all objects. That of a secondary process is
//! `process/<pid>/context_<id>/`.
//!
//! Removing a directory waits for the readers of its files, which take the process lock.

use kernel::{
    fmt, new_mutex,
    page::PAGE_SHIFT,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    str::CString,
    sync::{Arc, Mutex},
};

use super::kfd_process::{Process, Rank};
use crate::{
    hw::{QueueFormat, QueueSpec},
    kapi::{
        debugfs::{Dir, File},
        global::global_mutex,
    },
};

/// The directory `process` with the directories in it, by the address of the process.
struct Tree {
    // Field order: children first.
    folders: RBTree<usize, Arc<Folder>>,
    dir: Dir,
}

global_mutex! {
    /// Set while the module's debugfs directory exists.
    TREE: Option<Tree> = None;
    init init
}

/// Owns the directory `process`.
pub(crate) struct Root(());

impl Root {
    /// Creates the directory. Processes appear in it from now on. `ENOMEM` without memory.
    pub(crate) fn new(parent: &Dir) -> Result<Self> {
        *TREE.lock() = Some(Tree {
            folders: RBTree::new(),
            dir: parent.subdir(c"process")?,
        });
        Ok(Self(()))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let tree = TREE.lock().take();
        drop(tree);
    }
}

/// The directory of a process.
#[pin_data]
struct Folder {
    /// `None` after its removal. Locked during it, so that others can wait for its end.
    #[pin]
    contents: Mutex<Option<Contents>>,
    process: Arc<Process>,
}

/// A directory with its files.
struct Contents {
    // Field order: children first.
    _files: [File<Arc<Process>>; 4],
    dir: Dir,
}

fn key_of(process: &Process) -> usize {
    core::ptr::from_ref(process).addr()
}

impl Tree {
    /// Creates the directory of a process; none for a secondary process if the primary one has
    /// none. `ENOMEM` without memory.
    fn subdir(&self, process: &Process) -> Result<Option<Dir>> {
        let Rank::Secondary { primary, id } = process.rank() else {
            let name = CString::try_from_fmt(fmt!("{}", process.pid()))?;
            return self.dir.subdir(&name).map(Some);
        };
        let folder = self.folders.get(&key_of(primary));
        let name = CString::try_from_fmt(fmt!("context_{id}"))?;
        // Locked: the directory is being removed.
        let contents = folder.and_then(|folder| folder.contents.try_lock());
        let contents = contents.as_ref().and_then(|contents| contents.as_ref());
        contents
            .map(|contents| contents.dir.subdir(&name))
            .transpose()
    }
}

/// Adds a process. Does nothing without a debugfs directory, of all processes or of its primary
/// one.
pub(super) fn add(process: &Arc<Process>) -> Result {
    let mut guard = TREE.lock();
    let Some(tree) = &mut *guard else {
        return Ok(());
    };
    let Some(dir) = tree.subdir(process)? else {
        return Ok(());
    };
    let contents = Contents {
        _files: [
            dir.file(c"pasid", process.clone(), pasids)?,
            dir.file(c"queues", process.clone(), queues)?,
            dir.file(c"resources", process.clone(), resources)?,
            dir.file(c"svm", process.clone(), svm)?,
        ],
        dir,
    };
    let folder = Arc::pin_init(
        pin_init!(Folder {
            contents <- new_mutex!(Some(contents), "rkfd_debugfs_process"),
            process: process.clone(),
        }),
        GFP_KERNEL,
    )?;
    let node = RBTreeNode::new(key_of(process), folder, GFP_KERNEL)?;
    let replaced = tree.folders.insert(node);
    debug_assert!(replaced.is_none());
    Ok(())
}

/// Removes a process. Waits for readers: the caller holds no lock that they take. A concurrent
/// caller waits, too: the directory of a primary process stays as long as one is left in it.
pub(super) fn remove(process: &Process) {
    let key = key_of(process);
    let guard = TREE.lock();
    let folder = guard
        .as_ref()
        .and_then(|tree| tree.folders.get(&key).cloned());
    drop(guard);
    let Some(folder) = folder else {
        return;
    };
    *folder.contents.lock() = None;
    let mut guard = TREE.lock();
    let listed = guard
        .as_mut()
        .and_then(|tree| tree.folders.remove_node(&key));
    drop(guard);
    // The last reference to the process may be one of these.
    drop((listed, folder));
}

/// Prints the PASID on each GPU, one per line.
fn pasids(process: &Arc<Process>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for device in process.devices() {
        writeln!(f, "{}", device.pasid())?;
    }
    Ok(())
}

/// Returns the name of a queue's ring format.
fn format_of(spec: &QueueSpec) -> &'static str {
    match (spec.sdma, spec.format) {
        (Some(_), _) => "Sdma",
        (None, QueueFormat::Pm4) => "Pm4",
        (None, QueueFormat::Aql) => "Aql",
    }
}

/// Prints one line for each queue of a process.
fn queues(process: &Arc<Process>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (id, queue) in process.inspect().queues.iter() {
        let spec = queue.spec();
        writeln!(
            f,
            "queue {id}: gpu_id {:x}, {}, ring {:#x}+{:#x}, doorbell {:#x}, priority {}, {}%",
            queue.node().id(),
            format_of(&spec),
            spec.ring_va,
            spec.ring_size,
            spec.doorbell,
            spec.priority,
            spec.percent
        )?;
    }
    Ok(())
}

/// Prints the number of queues, events and ranges of shared virtual memory, and of buffers on each
/// GPU.
fn resources(process: &Arc<Process>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut ranges = 0;
    process.svm().for_ranges(|_| ranges += 1);
    writeln!(f, "queues {}", process.inspect().queues.iter().count())?;
    writeln!(f, "events {}", process.events().count())?;
    writeln!(f, "ranges {ranges}")?;
    for device in process.devices() {
        let buffers = device.buffers().lock();
        let mapped = buffers.values().filter(|buffer| buffer.is_mapped()).count();
        let count = buffers.values().count();
        drop(buffers);
        writeln!(
            f,
            "gpu_id {:x}: {count} buffers, {mapped} mapped",
            device.id()
        )?;
    }
    Ok(())
}

/// Prints the mode, one line for each GPU, and one for each range of shared virtual memory.
fn svm(process: &Arc<Process>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let svm = process.svm();
    writeln!(f, "xnack {}", u32::from(svm.retries()))?;
    for (index, device) in process.devices().iter().enumerate() {
        let pages = svm.mapped_pages(index);
        writeln!(f, "gpu_id {:x}: {pages} pages mapped", device.id())?;
    }
    let mut result = Ok(());
    svm.for_ranges(|range| {
        let a = &range.attributes;
        let written = writeln!(
            f,
            "{:#x}-{:#x}: preferred {:x}, prefetch {:x}, access {:#x}, in place {:#x}, \
             flags {:#x}, granularity {}",
            range.first << PAGE_SHIFT,
            range.end << PAGE_SHIFT,
            a.preferred,
            a.prefetch,
            a.access,
            a.in_place,
            a.flags,
            a.granularity
        );
        result = result.and(written);
    });
    result
}
