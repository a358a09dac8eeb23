// SPDX-License-Identifier: GPL-2.0

//! Compute partitions of a device: their nodes in the list of all and in the topology, the switch
//! of the mode, and the modes in sysfs.
//!
//! A card with compute partitions has the files `current_compute_partition`,
//! `available_compute_partition` and `current_memory_partition`, with texts and errnos of the C
//! driver (`amdgpu_gfx.c`, `amdgpu_gmc.c`). One memory partition (NPS1) is supported: as in the C
//! driver, its file is then read-only, and there is no `available_memory_partition`.

use core::fmt::Write;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

use crate::{
    asic::partition::ComputePartition,
    gpu::Gpu,
    kapi::{
        device_file::{DeviceFile, Store},
        kobject::Text,
        workqueue::Delayed,
    },
    node::{self, Node, NodeSet},
    process,
    recovery::Recovery,
    topology,
};

/// The compute partitions of a device. Dropping it hides their nodes.
#[pin_data(PinnedDrop)]
pub(crate) struct Partitions {
    nodes: Arc<NodeSet>,
    recovery: Arc<Delayed<Recovery>>,
    /// Held across a switch, before all other locks.
    #[pin]
    state: Mutex<State>,
}

struct State {
    mode: ComputePartition,
    /// Minor numbers of the render nodes by partition; empty before [`Partitions::publish`].
    render_minors: KVec<u32>,
}

impl Partitions {
    /// Adds the nodes of a device in SPX mode to the list of all. `EEXIST` if a gpu_id is in use,
    /// `ENOMEM` without memory.
    pub(crate) fn new(
        nodes: &Arc<NodeSet>,
        recovery: &Arc<Delayed<Recovery>>,
    ) -> Result<Arc<Self>> {
        let this = Arc::pin_init(
            pin_init!(Self {
                nodes: nodes.clone(),
                recovery: recovery.clone(),
                state <- new_mutex!(State {
                    mode: ComputePartition::Spx,
                    render_minors: KVec::new(),
                }, "rkfd_partition"),
            }),
            GFP_KERNEL,
        )?;
        nodes.list()?.iter().try_for_each(node::add)?;
        Ok(this)
    }

    /// Adds the nodes to the topology. `render_minors` are the minor numbers of the render nodes by
    /// partition. `EINVAL` if a node has none, `ENOMEM` without memory.
    pub(crate) fn publish(&self, render_minors: KVec<u32>) -> Result {
        let mut state = self.state.lock();
        state.render_minors = render_minors;
        self.nodes
            .list()?
            .iter()
            .try_for_each(|node| show(node, &state.render_minors))
    }

    fn gpu(&self) -> &Arc<Gpu> {
        self.nodes.gpu()
    }

    /// Removes the nodes from topology and list, as far as they are in them.
    fn hide(&self) {
        match self.nodes.list() {
            Ok(nodes) => nodes.iter().rev().for_each(|node| {
                topology::remove_gpu(node);
                node::remove(node);
            }),
            Err(e) => dev_err!(self.gpu().dev(), "nodes are not removed: {e:?}\n"),
        }
    }

    /// Sets the mode; `text` starts with its name.
    ///
    /// `EINVAL` for an unknown mode or one that the card does not have, `EPERM` while the device
    /// hangs, is being reset or suspended, `EBUSY` while a process uses it. After another error,
    /// of the PSP or of the schedulers, the mode is the old one; the device has no nodes if that
    /// cannot be set again, until a mode is written.
    fn store(&self, text: &[u8]) -> Result {
        let xccs = self.gpu().xccs();
        let new = ComputePartition::parse(text).ok_or(EINVAL)?;
        if xccs.len() % 2 != 0 || !new.is_available(xccs) {
            return Err(EINVAL);
        }
        let mut state = self.state.lock();
        self.recovery.while_up(|| {
            // There are no nodes after a failed switch.
            if state.mode == new && !self.nodes.is_empty() {
                return Ok(());
            }
            if state.render_minors.is_empty() {
                return Err(EPERM);
            }
            process::table::while_unused(self.gpu(), || {
                self.hide();
                self.end()?;
                let switched = self.begin(new, &state.render_minors);
                if switched.is_ok() {
                    state.mode = new;
                    return switched;
                }
                dev_err!(
                    self.gpu().dev(),
                    "no switch to compute partition mode {}: {switched:?}\n",
                    new.name()
                );
                self.hide();
                self.end()?;
                if let Err(e) = self.begin(state.mode, &state.render_minors) {
                    dev_err!(self.gpu().dev(), "the GPU has no nodes any more: {e:?}\n");
                }
                switched
            })
        })
    }

    /// Stops the schedulers and drops the nodes. If a scheduler does not stop, the device is marked
    /// as hung, and reset.
    fn end(&self) -> Result {
        self.nodes
            .end()
            .inspect_err(|_| self.gpu().wedge("a scheduler did not stop"))
    }

    /// Divides the XCCs by a mode, and starts and shows the nodes.
    fn begin(&self, mode: ComputePartition, render_minors: &[u32]) -> Result {
        let gpu = self.gpu();
        gpu.partition(mode.partitions(gpu.xccs().count()))?;
        self.nodes.start(mode)?;
        self.nodes.list()?.iter().try_for_each(|node| {
            node::add(node)?;
            show(node, render_minors)
        })
    }
}

#[pinned_drop]
impl PinnedDrop for Partitions {
    fn drop(self: Pin<&mut Self>) {
        self.hide();
    }
}

/// Adds a node to the topology with the render node of its partition. `EINVAL` if there is none.
fn show(node: &Arc<Node>, render_minors: &[u32]) -> Result {
    let minor = render_minors.get(node.index() as usize).ok_or(EINVAL)?;
    topology::add_gpu(node, *minor)
}

/// The files of a device. Dropping them removes them and waits for their users.
pub(crate) struct Files {
    _files: KVec<DeviceFile>,
}

impl Files {
    /// Creates the files of a device; none for a card without compute partitions. `ENOMEM` without
    /// memory.
    pub(crate) fn new(partitions: &Arc<Partitions>) -> Result<Self> {
        let mut files = KVec::new();
        let gpu = partitions.gpu();
        if gpu.memory_partitions()?.is_none() {
            return Ok(Self { _files: files });
        }
        let dev = gpu.dev();
        let (reader, writer) = (partitions.clone(), partitions.clone());
        let store: KBox<dyn Store> = KBox::new(move |text: &[u8]| writer.store(text), GFP_KERNEL)?;
        files.push(
            DeviceFile::new(
                dev,
                c"current_compute_partition",
                move |out: &mut Text<'_>| {
                    check_reset(reader.gpu())?;
                    Ok(writeln!(out, "{}", reader.state.lock().mode.name())?)
                },
                Some(store),
            )?,
            GFP_KERNEL,
        )?;
        for (name, show) in READ_ONLY {
            let reader = gpu.clone();
            let show = move |out: &mut Text<'_>| show(&reader, out);
            files.push(DeviceFile::new(dev, name, show, None)?, GFP_KERNEL)?;
        }
        Ok(Self { _files: files })
    }
}

/// A file that shows a fact about the card.
type ShowCard = fn(&Gpu, &mut Text<'_>) -> Result;

/// The files that cannot be written.
const READ_ONLY: [(&CStr, ShowCard); 2] = [
    (c"available_compute_partition", show_available),
    (c"current_memory_partition", show_memory),
];

/// Returns `EPERM` for a device that hangs or is being reset.
fn check_reset(gpu: &Gpu) -> Result {
    gpu.check_usable().map_err(|_| EPERM)
}

/// Prints the modes of the card.
fn show_available(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    let mut separator = "";
    for mode in ComputePartition::ALL {
        if mode.is_available(gpu.xccs()) {
            write!(out, "{separator}{}", mode.name())?;
            separator = ", ";
        }
    }
    if separator.is_empty() {
        write!(out, "Not supported")?;
    }
    Ok(writeln!(out)?)
}

/// Prints the mode of the memory.
fn show_memory(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    check_reset(gpu)?;
    match gpu.memory_partitions()? {
        Some(number @ (1..=4 | 6 | 8)) => writeln!(out, "NPS{number}")?,
        _ => writeln!(out, "UNKNOWN")?,
    }
    Ok(())
}
