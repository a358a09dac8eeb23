// SPDX-License-Identifier: GPL-2.0

//! Compute partitions of a device: their nodes in the list of all and in the topology, the switch
//! of the mode, and the modes in sysfs.
//!
//! A card with compute partitions has the files `current_compute_partition`,
//! `available_compute_partition`, `compute_partition_mem_alloc_mode` and
//! `current_memory_partition`, with texts and errnos of the C driver (`amdgpu_gfx.c`,
//! `amdgpu_gmc.c`), and the directory `compute_partition_config`; each partition of the mode has
//! `xcp/xcp_metrics`. With several memory partition modes there is also
//! `available_memory_partition`, and the current mode can be written: the driver requests it at its
//! unbind, and resets the card at the next probe, which switches the mode.

use core::fmt::Write;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

use crate::{
    asic::partition::{ComputePartition, NpsMode},
    drm::RenderNode,
    gpu::Gpu,
    kapi::{
        device_file::DeviceFile,
        kobject::{Dir, Store, Text},
        workqueue::Delayed,
    },
    node::{self, Node, NodeSet},
    process,
    recovery::Recovery,
    topology,
};

mod config;
mod metrics;

use config::{show_modes, Folder};

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
    /// Memory partition mode to be requested.
    memory: Option<NpsMode>,
    /// Each node may use all of its memory partition.
    uncapped: bool,
    /// Render nodes by partition; empty before [`Partitions::publish`].
    render: KVec<RenderNode>,
    /// The metrics of each partition of the mode.
    metrics: KVec<Dir>,
}

impl Partitions {
    /// Returns the partitions of a device, which was started in `mode`. `ENOMEM` without memory.
    pub(crate) fn new(
        nodes: &Arc<NodeSet>,
        mode: ComputePartition,
        recovery: &Arc<Delayed<Recovery>>,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                nodes: nodes.clone(),
                recovery: recovery.clone(),
                state <- new_mutex!(State {
                    mode,
                    memory: None,
                    uncapped: false,
                    render: KVec::new(),
                    metrics: KVec::new(),
                }, "rkfd_partition"),
            }),
            GFP_KERNEL,
        )
    }

    /// Shows the nodes, with the render nodes by partition. Errors as [`show`].
    pub(crate) fn publish(&self, render: KVec<RenderNode>) -> Result {
        let mut state = self.state.lock();
        state.render = render;
        state.metrics = show(&self.nodes.list()?, &state.render)?;
        Ok(())
    }

    fn gpu(&self) -> &Arc<Gpu> {
        self.nodes.gpu()
    }

    /// Removes the nodes from topology and list, as far as they are in them.
    fn hide(&self) {
        topology::remove_gpus(self.gpu());
        node::remove_all(self.gpu());
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
        if xccs.len() % 2 != 0 || !new.is_available(xccs, nps(self.gpu())) {
            return Err(EINVAL);
        }
        let mut state = self.state.lock();
        self.recovery.while_up(|| {
            // There are no nodes after a failed switch.
            if state.mode == new && !self.nodes.is_empty() {
                return Ok(());
            }
            if state.render.is_empty() {
                return Err(EPERM);
            }
            let mut minors = KVec::with_capacity(state.render.len(), GFP_KERNEL)?;
            for render in &state.render {
                minors.push_within_capacity(render.minor)?;
            }
            process::table::while_unused(self.gpu(), minors, || {
                // Waits for readers.
                state.metrics = KVec::new();
                self.hide();
                self.end()?;
                state.uncapped = false;
                let error = match self.begin(new, &state.render) {
                    Ok(metrics) => {
                        (state.mode, state.metrics) = (new, metrics);
                        return Ok(());
                    }
                    Err(e) => e,
                };
                dev_err!(
                    self.gpu().dev(),
                    "failed to switch to compute partition mode {}: {error:?}\n",
                    new.name()
                );
                self.hide();
                self.end()?;
                match self.begin(state.mode, &state.render) {
                    Ok(metrics) => state.metrics = metrics,
                    Err(e) => dev_err!(
                        self.gpu().dev(),
                        "the former compute partition mode was not restored, no nodes are left: {e:?}\n"
                    ),
                }
                Err(error)
            })
        })
    }

    /// Sets whether each node may use all of its memory partition, until the mode is switched;
    /// `text` starts with a name. `EINVAL` for an unknown one, `ENOMEM` without memory.
    fn store_alloc_mode(&self, text: &[u8]) -> Result {
        let uncapped = ALLOC_MODES
            .into_iter()
            .find(|(_, name)| {
                text.get(..name.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
            })
            .map(|(uncapped, _)| uncapped)
            .ok_or(EINVAL)?;
        let mut state = self.state.lock();
        for node in self.nodes.list()?.iter() {
            node.memory().set_uncapped(uncapped);
        }
        state.uncapped = uncapped;
        Ok(())
    }

    /// Notes a memory partition mode; `text` starts with its name. `EINVAL` for one that the card
    /// does not have.
    fn store_memory(&self, text: &[u8]) -> Result {
        let gpu = self.gpu();
        let modes = gpu.nps().ok_or(EINVAL)?;
        let mode = NpsMode::parse(text)
            .filter(|mode| modes.supports(*mode))
            .ok_or(EINVAL)?;
        if gpu.nps_mode()? == Some(mode) {
            dev_info!(
                gpu.dev(),
                "NPS{} is the memory partition mode already\n",
                mode.number()
            );
            return Ok(());
        }
        self.state.lock().memory = Some(mode);
        dev_info!(
            gpu.dev(),
            "memory partition mode NPS{}: bind the driver again to switch to it\n",
            mode.number()
        );
        Ok(())
    }

    /// Requests the memory partition mode that was written, if there is one. Called at the unbind,
    /// which an error does not end.
    pub(crate) fn request_memory_mode(&self) {
        let gpu = self.gpu();
        let Some(mode) = self.state.lock().memory else {
            return;
        };
        match gpu.check_usable().and_then(|()| gpu.request_nps_mode(mode)) {
            Ok(()) => dev_info!(
                gpu.dev(),
                "requested NPS{}, switched at the next probe\n",
                mode.number()
            ),
            Err(e) => dev_err!(
                gpu.dev(),
                "memory partition mode NPS{} is not requested: {e:?}\n",
                mode.number()
            ),
        }
    }

    /// Stops the schedulers and drops the nodes. If a scheduler does not stop, the device is marked
    /// as hung, and reset.
    fn end(&self) -> Result {
        self.nodes
            .end()
            .inspect_err(|_| self.gpu().wedge("a scheduler did not stop"))
    }

    /// Divides the XCCs by a mode, and starts and shows the nodes. Returns their metrics.
    fn begin(&self, mode: ComputePartition, render: &[RenderNode]) -> Result<KVec<Dir>> {
        let gpu = self.gpu();
        gpu.partition(mode.partitions(gpu.xccs().count()))?;
        self.nodes.start(mode)?;
        show(&self.nodes.list()?, render)
    }
}

#[pinned_drop]
impl PinnedDrop for Partitions {
    fn drop(self: Pin<&mut Self>) {
        self.hide();
    }
}

/// Adds nodes to the list of all and to the topology, each with the render node of its partition,
/// and returns the metrics of those of a card with compute partitions. `EINVAL` if one has none,
/// `EEXIST` if a gpu_id is in use, `ENOMEM` without memory.
fn show(nodes: &[Arc<Node>], render: &[RenderNode]) -> Result<KVec<Dir>> {
    let mut gpus = KVec::with_capacity(nodes.len(), GFP_KERNEL)?;
    let mut folders = KVec::with_capacity(nodes.len(), GFP_KERNEL)?;
    for node in nodes {
        let render = render.get(node.index() as usize).ok_or(EINVAL)?;
        node.set_render_minor(render.minor);
        gpus.push_within_capacity((node.clone(), render.minor))?;
        if node.gpu().nps().is_some() {
            folders.push_within_capacity(metrics::folder(&render.parent, node)?)?;
        }
    }
    nodes.iter().try_for_each(node::add)?;
    topology::add_gpus(&gpus)?;
    Ok(folders)
}

/// Whether each node may use all of its memory partition, and the name of that mode.
const ALLOC_MODES: [(bool, &str); 2] = [(false, "CAPPING"), (true, "ALL")];

/// The files of a device. Dropping them removes them and waits for their users.
pub(crate) struct Files {
    _files: KVec<DeviceFile>,
    _config: Option<Folder>,
}

impl Files {
    /// Creates the files of a device; none for a card without compute partitions. `ENOMEM` without
    /// memory.
    pub(crate) fn new(partitions: &Arc<Partitions>) -> Result<Self> {
        let mut files = KVec::new();
        let gpu = partitions.gpu();
        let Some(modes) = gpu.nps() else {
            return Ok(Self {
                _files: files,
                _config: None,
            });
        };
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
        files.push(
            read_only(gpu, c"available_compute_partition", show_available)?,
            GFP_KERNEL,
        )?;
        let (reader, writer) = (partitions.clone(), partitions.clone());
        let store: KBox<dyn Store> =
            KBox::new(move |text: &[u8]| writer.store_alloc_mode(text), GFP_KERNEL)?;
        files.push(
            DeviceFile::new(
                dev,
                c"compute_partition_mem_alloc_mode",
                move |out: &mut Text<'_>| {
                    let uncapped = reader.state.lock().uncapped;
                    let mut modes = ALLOC_MODES.into_iter();
                    let (_, name) = modes.find(|mode| mode.0 == uncapped).ok_or(EINVAL)?;
                    Ok(writeln!(out, "{name}")?)
                },
                Some(store),
            )?,
            GFP_KERNEL,
        )?;
        let store: Option<KBox<dyn Store>> = if modes.count() > 1 {
            files.push(
                read_only(gpu, c"available_memory_partition", show_memory_modes)?,
                GFP_KERNEL,
            )?;
            let writer = partitions.clone();
            Some(KBox::new(
                move |text: &[u8]| writer.store_memory(text),
                GFP_KERNEL,
            )?)
        } else {
            None
        };
        let reader = gpu.clone();
        files.push(
            DeviceFile::new(
                dev,
                c"current_memory_partition",
                move |out: &mut Text<'_>| show_memory(&reader, out),
                store,
            )?,
            GFP_KERNEL,
        )?;
        let mode = partitions.state.lock().mode;
        Ok(Self {
            _files: files,
            _config: Some(Folder::new(gpu, *modes, mode)?),
        })
    }
}

/// Creates a file that cannot be written. `ENOMEM` without memory.
fn read_only(gpu: &Arc<Gpu>, name: &CStr, show: ShowCard) -> Result<DeviceFile> {
    let reader = gpu.clone();
    let show = move |out: &mut Text<'_>| show(&reader, out);
    DeviceFile::new(gpu.dev(), name, show, None)
}

/// A file that shows a fact about the card.
type ShowCard = fn(&Gpu, &mut Text<'_>) -> Result;

/// Returns the memory partition mode.
fn nps(gpu: &Gpu) -> Option<NpsMode> {
    match gpu.nps() {
        Some(modes) => modes.current,
        None => Some(NpsMode::ONE),
    }
}

/// Returns `EPERM` for a device that hangs or is being reset.
fn check_reset(gpu: &Gpu) -> Result {
    gpu.check_usable().map_err(|_| EPERM)
}

/// Prints the modes of the card.
fn show_available(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    show_modes(out, |mode| mode.is_available(gpu.xccs(), nps(gpu)))
}

/// Prints the memory partition modes of the card.
fn show_memory_modes(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    let mut separator = "";
    for mode in NpsMode::ALL {
        if gpu.nps().is_some_and(|modes| modes.supports(mode)) {
            write!(out, "{separator}NPS{}", mode.number())?;
            separator = ", ";
        }
    }
    Ok(writeln!(out)?)
}

/// Prints the mode of the memory.
fn show_memory(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    check_reset(gpu)?;
    match gpu.nps_mode()? {
        Some(mode) => writeln!(out, "NPS{}", mode.number())?,
        None => writeln!(out, "UNKNOWN")?,
    }
    Ok(())
}
