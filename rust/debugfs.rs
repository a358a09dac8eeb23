// SPDX-License-Identifier: GPL-2.0

//! `kfd/` in debugfs: the state of queues, rings and memory.
//!
//! | file | contents |
//! |---|---|
//! | `hqds` | registers of the active HQDs of each GPU |
//! | `mqds` | MQDs of the queues of each process, and of the scheduler's queue |
//! | `rls` | the last runlist of each GPU |
//! | `rings` | use of the GART; the kernel's rings: pointers, jobs or MES frames, registers |
//! | `vram` | VRAM of each GPU by user, in bytes; `used` is what the render node reports |
//! | `mem_limit` | system memory that is used by buffers of processes, and its limit |
//! | `process/<pid>/pasid` | the PASID of the process on each GPU |
//! | `process/<pid>/queues` | its queues |
//! | `process/<pid>/svm` | its XNACK mode, pages mapped on each GPU, ranges of SVM |
//! | `topology/nodes/<n>/properties` | properties of a node as in sysfs |
//!
//! All files are read-only. Readers take the locks of the objects that they print.

use kernel::{
    debugfs::{Dir, File},
    fmt::{self, Write},
    prelude::*,
    sync::Arc,
};

use crate::{
    asic::xcc::Xcc,
    card::{account, gart::Gart},
    gpu::Gpu,
    hw::{HqdSlot, SdmaQueueId},
    node::{self, Node},
    process::{self, table},
    topology,
};

/// Dwords in a line of a dump.
const DWORDS_PER_LINE: usize = 8;

/// The directory. Dropping it removes all files.
pub(crate) struct Root {
    // Field order: children are removed first.
    _files: [Pin<KBox<File<()>>>; 6],
    _processes: process::debugfs::Root,
    _topology: topology::DebugfsRegistration,
}

/// Creates the directory. `ENOMEM` without memory; failures of debugfs itself are ignored.
pub(crate) fn new() -> Result<Root> {
    let dir = Dir::new(c"kfd");
    Ok(Root {
        _files: [
            KBox::pin_init(dir.read_callback_file(c"hqds", (), &hqds), GFP_KERNEL)?,
            KBox::pin_init(dir.read_callback_file(c"mqds", (), &mqds), GFP_KERNEL)?,
            KBox::pin_init(dir.read_callback_file(c"rls", (), &runlists), GFP_KERNEL)?,
            KBox::pin_init(dir.read_callback_file(c"rings", (), &rings), GFP_KERNEL)?,
            KBox::pin_init(dir.read_callback_file(c"vram", (), &vram), GFP_KERNEL)?,
            KBox::pin_init(
                dir.read_callback_file(c"mem_limit", (), &limits),
                GFP_KERNEL,
            )?,
        ],
        _processes: process::debugfs::Root::new(&dir),
        _topology: topology::DebugfsRegistration::new(&dir),
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

/// Prints dwords, each line with its offset in bytes.
fn dump(f: &mut fmt::Formatter<'_>, words: &[u32]) -> fmt::Result {
    for (line, chunk) in words.chunks(DWORDS_PER_LINE).enumerate() {
        write!(f, "    {:08x}:", line * DWORDS_PER_LINE * 4)?;
        for word in chunk {
            write!(f, " {word:08x}")?;
        }
        f.write_char('\n')?;
    }
    Ok(())
}

/// Prints dwords, or the error of reading them.
fn dump_or_error(f: &mut fmt::Formatter<'_>, words: Result<KVec<u32>>) -> fmt::Result {
    match words {
        Ok(words) => dump(f, &words),
        Err(e) => writeln!(f, "    unavailable: {e:?}"),
    }
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
        for xcc in node.xccs().iter() {
            compute_hqds(gpu, *xcc, f)?;
        }
        sdma_hqds(node, f)?;
    }
    Ok(())
}

/// Prints the active SDMA queues of a node.
fn sdma_hqds(node: &Node, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (gpu, engines) = (node.gpu(), node.sdma());
    let hal = gpu.generation().sdma_queue;
    for engine in 0..engines.count {
        for queue in 0..gpu.config().sdma_queues_per_engine {
            let place = SdmaQueueId {
                engine: engines.first + engine,
                queue,
            };
            match gpu.mmio().and_then(|mmio| hal.dump(mmio, place)) {
                Ok(Some(registers)) => {
                    writeln!(f, "  SDMA Engine {engine}, RLC {queue}")?;
                    for (name, value) in &registers {
                        writeln!(f, "    {name} {value:08x}")?;
                    }
                }
                Ok(None) => {}
                Err(e) => return writeln!(f, "  unavailable: {e:?}"),
            }
        }
    }
    Ok(())
}

/// Prints the active compute HQDs of an XCC.
fn compute_hqds(gpu: &Gpu, xcc: Xcc, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let caps = gpu.generation().caps;
    for pipe in 0..caps.pipes_per_mec {
        for queue in 0..caps.queues_per_pipe {
            let slot = HqdSlot { me: 1, pipe, queue };
            let registers = gpu
                .mmio()
                .and_then(|mmio| gpu.generation().gfx.dump_hqd(mmio, xcc, slot));
            match registers {
                // The first register is `CP_HQD_ACTIVE`.
                Ok(registers) if registers.first().is_some_and(|(_, active)| *active != 0) => {
                    writeln!(f, "  Inst {}, CP Pipe {pipe}, Queue {queue}", xcc.logical)?;
                    for (name, value) in &registers {
                        writeln!(f, "    {name} {value:08x}")?;
                    }
                }
                Ok(_) => {}
                Err(e) => return writeln!(f, "  unavailable: {e:?}"),
            }
        }
    }
    Ok(())
}

/// Prints `mqds`.
fn mqds(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for process in table::snapshot().map_err(|_| fmt::Error)? {
        writeln!(f, "Process {}:", process.pid())?;
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
                dump_or_error(f, queue.hw().mqd().words(xcc))?;
            }
        }
    }
    for node in &nodes() {
        let ring = node.dqm().scheduler_ring();
        writeln!(f, "{ring} on device {:x}", node.id())?;
        for xcc in 0..node.xccs().len() {
            writeln!(f, "   Inst {xcc}")?;
            dump_or_error(f, node.dqm().scheduler_mqd(xcc))?;
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
        dump_or_error(f, dqm.runlist_words())?;
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
