// SPDX-License-Identifier: GPL-2.0

//! `kfd/` in debugfs: the state of queues, rings and memory.
//!
//! | file | contents |
//! |---|---|
//! | `hqds` | registers of the active HQDs and of the SDMA user queues of each node |
//! | `mqds` | MQDs of the queues of each process, and of the HIQ or MES ring of each node |
//! | `rls` | the last runlist of each node, and counts of processes, queues and runlists |
//! | `rings` | use of the GART; the kernel's rings: pointers, jobs or MES frames, registers |
//! | `vram` | VRAM of each GPU by user, in bytes; `used` is what the render node reports |
//! | `mem_limit` | system memory that is used by buffers of processes, and its limit |
//! | `resources` | processes, PASIDs, doorbell slices and queues in use |
//! | `process/<pid>/pasid` | the PASID of the process on each GPU |
//! | `process/<pid>/queues` | its queues |
//! | `process/<pid>/resources` | the number of its queues, events, ranges of SVM and buffers |
//! | `process/<pid>/svm` | its XNACK mode, pages mapped on each GPU, ranges of SVM |
//! | `process/<pid>/context_<id>/` | the same files for a secondary process |
//! | `topology/nodes/<n>/properties` | properties of a node as in sysfs |
//!
//! All files are read-only. Readers take the locks of the objects that they print.

use kernel::{fmt, prelude::*, sync::Arc};

use crate::{
    card::{account, gart::Gart},
    gpu::dump,
    hw::SdmaQueueId,
    kapi::debugfs::{Dir, File},
    mmu::pasid,
    node::{self, Node},
    process::{self, table},
    topology,
};

/// The directory. Dropping it removes all files.
pub(crate) struct Root {
    // Field order: children are removed first.
    _files: [File<()>; 7],
    _processes: process::debugfs::Root,
    _topology: topology::DebugfsRegistration,
}

/// Creates the directory. `ENOMEM` without memory; failures of debugfs itself are ignored.
pub(crate) fn new() -> Result<Root> {
    let dir = Dir::new(c"kfd")?;
    Ok(Root {
        _files: [
            dir.file(c"hqds", (), hqds)?,
            dir.file(c"mqds", (), mqds)?,
            dir.file(c"rls", (), runlists)?,
            dir.file(c"rings", (), rings)?,
            dir.file(c"vram", (), vram)?,
            dir.file(c"mem_limit", (), limits)?,
            dir.file(c"resources", (), resources)?,
        ],
        _processes: process::debugfs::Root::new(&dir)?,
        _topology: topology::DebugfsRegistration::new(&dir)?,
    })
}

/// Prints `mem_limit`, in MiB.
fn limits(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [all, gtt] = account::system();
    for (what, (used, limit)) in [("System", all), ("TTM", gtt)] {
        writeln!(f, "{what} mem used {}M out of {}M", used >> 20, limit >> 20)?;
    }
    Ok(())
}

/// Prints `resources`. Cards with several nodes have the doorbell slices at their first one.
fn resources(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "processes {}", table::all().count())?;
    writeln!(f, "pasids {}", pasid::in_use())?;
    for node in &nodes() {
        heading(node, f)?;
        if node.index() == 0 {
            let slices = node.gpu().card().doorbells().slices_in_use();
            writeln!(f, "  doorbell_slices {slices}")?;
        }
        let counts = node.dqm().counts();
        writeln!(f, "  scheduled_processes {}", counts.processes)?;
        writeln!(f, "  queues {}", counts.queues)?;
        writeln!(f, "  active_queues {}", counts.active)?;
    }
    Ok(())
}

/// Prints `vram`. Cards with several nodes have the section of their first one only.
fn vram(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for node in nodes().iter().filter(|node| node.index() == 0) {
        heading(node, f)?;
        let vram = node.gpu().vram();
        for (name, bytes) in vram.ledger() {
            writeln!(f, "  {name} {bytes}")?;
        }
        writeln!(f, "  used {}", vram.used() + vram.reserved())?;
        writeln!(f, "  uncleared {}", vram.uncleared())?;
        writeln!(f, "  size {}", vram.size())?;
    }
    Ok(())
}

/// Returns all nodes; none without memory for the list.
fn nodes() -> KVec<Arc<Node>> {
    node::list().unwrap_or_default()
}

/// Prints the line above the output for a node.
fn heading(node: &Node, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let bdf = node.gpu().config().pci.bdf;
    writeln!(f, "Node {bdf}, gpu_id {:x}:", node.id())
}

/// Prints `hqds`.
fn hqds(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for node in &nodes() {
        let gpu = node.gpu();
        heading(node, f)?;
        dump::compute_hqds(gpu, node.xccs(), f)?;
        let engines = node.sdma();
        dump::sdma_queues(gpu, engines.first..engines.first + engines.count, f)?;
    }
    Ok(())
}

/// Prints `mqds`.
fn mqds(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for process in table::all() {
        match process.context() {
            None => writeln!(f, "Process {}:", process.pid())?,
            Some(id) => writeln!(f, "Process {}, context {id}:", process.pid())?,
        }
        for (id, queue) in process.inspect().queues.iter() {
            let state = if queue.hw().is_active() {
                "active"
            } else {
                "inactive"
            };
            let device = queue.node().id();
            match queue.spec().sdma {
                None => writeln!(f, "  Queue {id} on device {device:x}, {state}")?,
                Some(SdmaQueueId { engine, queue }) => writeln!(
                    f,
                    "  SDMA queue {id} on device {device:x}, engine {engine}, RLC {queue}, {state}"
                )?,
            }
            for xcc in 0..queue.hw().mqd().count() {
                writeln!(f, "   Inst {xcc}")?;
                dump::dwords_or_error(f, queue.hw().mqd().words(xcc))?;
            }
        }
    }
    for node in &nodes() {
        let ring = node.dqm().scheduler_ring();
        writeln!(f, "{ring} on device {:x}", node.id())?;
        for xcc in 0..node.xccs().len() {
            writeln!(f, "   Inst {xcc}")?;
            dump::dwords_or_error(f, node.dqm().scheduler_mqd(xcc))?;
        }
    }
    Ok(())
}

/// Prints `rls`.
fn runlists(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for node in &nodes() {
        heading(node, f)?;
        let dqm = node.dqm();
        let counts = dqm.counts();
        writeln!(
            f,
            "  {} processes, {} queues, {} active, {} runlists sent",
            counts.processes, counts.queues, counts.active, counts.runlists
        )?;
        dump::dwords_or_error(f, dqm.runlist_words())?;
    }
    Ok(())
}

/// Prints `rings`.
fn rings(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for node in &nodes() {
        let gpu = node.gpu();
        heading(node, f)?;
        writeln!(
            f,
            "  GART: {} of {} pages",
            gpu.gart().used_pages(),
            Gart::PAGES
        )?;
        gpu.kiqs().show(f)?;
        node.dqm().show_ring(f)?;
        if let Ok(mes) = gpu.mes() {
            mes.show(gpu, f)?;
        }
        match gpu.sdma() {
            Ok(sdma) => sdma.show(gpu, f)?,
            Err(e) => writeln!(f, "  unavailable: {e:?}")?,
        }
    }
    Ok(())
}
