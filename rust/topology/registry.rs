// SPDX-License-Identifier: GPL-2.0

//! The state of the topology: its GPUs, the nodes built from them, and where they are shown.
//!
//! Each addition or removal of a GPU rebuilds all nodes and increments the generation, which user
//! space reads before and after everything else to detect a change.

use kernel::{
    device,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use super::{
    debugfs::DebugfsTree,
    node::Node,
    nodes::{self, TopologyGpu},
    sysfs::SysfsTree,
};
use crate::{kapi::global::global_mutex, node};

/// Count of changes. Read without a lock: removing a sysfs file waits for its readers.
static GENERATION: Atomic<u32> = Atomic::new(0);

struct TopologyState {
    gpus: KVec<TopologyGpu>,
    /// SIMD id base of the next GPU.
    next_cu: u32,
    /// The nodes of the last rebuild.
    nodes: KVec<Arc<Node>>,
    sysfs: Option<SysfsTree>,
    debugfs: Option<DebugfsTree>,
}

/// The first SIMD id: apart from the APIC ids of processors (`gpu_processor_id_low`, `kfd_crat.c`).
const FIRST_CU: u32 = 0x8000_1000;

global_mutex! {
    STATE: TopologyState = TopologyState {
        gpus: KVec::new(),
        next_cu: FIRST_CU,
        nodes: KVec::new(),
        sysfs: None,
        debugfs: None,
    };
    init init
}

impl TopologyState {
    /// Rebuilds all nodes and replaces those in sysfs and debugfs.
    fn rebuild(&mut self) -> Result {
        let nodes = nodes::build(&self.gpus)?;
        if let Some(tree) = &mut self.sysfs {
            tree.replace(&nodes)?;
        }
        if let Some(tree) = &mut self.debugfs {
            tree.replace(&nodes)?;
        }
        self.nodes = nodes;
        GENERATION.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// Frees the lists; called at module unload.
pub(crate) fn exit() {
    let (gpus, nodes) = {
        let mut state = STATE.lock();
        (
            core::mem::take(&mut state.gpus),
            core::mem::take(&mut state.nodes),
        )
    };
    drop(gpus);
    drop(nodes);
}

/// The topology in sysfs, below the device of `/dev/kfd`. Dropping it removes the files.
pub(crate) struct SysfsRegistration(());

impl SysfsRegistration {
    /// Creates `topology/` below `parent`.
    pub(crate) fn new(parent: &device::Device) -> Result<Self> {
        let tree = SysfsTree::new(parent, &GENERATION)?;
        let mut state = STATE.lock();
        state.sysfs = Some(tree);
        let registration = Self(());
        let result = state.rebuild();
        // Before `registration` is dropped, which takes the lock.
        drop(state);
        result.map(|()| registration)
    }
}

impl Drop for SysfsRegistration {
    fn drop(&mut self) {
        // Removed without the lock: this waits for readers.
        let tree = STATE.lock().sysfs.take();
        drop(tree);
    }
}

/// The topology in debugfs. Dropping it removes the files.
pub(crate) struct DebugfsRegistration(());

impl DebugfsRegistration {
    /// Creates `topology/nodes/` below `parent`. The next rebuild fills it.
    pub(crate) fn new(parent: &kernel::debugfs::Dir) -> Self {
        STATE.lock().debugfs = Some(DebugfsTree::new(parent));
        Self(())
    }
}

impl Drop for DebugfsRegistration {
    fn drop(&mut self) {
        // Removed without the lock: this waits for readers.
        let tree = STATE.lock().debugfs.take();
        drop(tree);
    }
}

/// Adds the GPU of a node, whose render node has the minor `render_minor`. On failure the GPU is
/// not listed.
pub(crate) fn add_gpu(node: &Arc<node::Node>, render_minor: u32) -> Result {
    let config = node.gpu().config();
    let arrays = config.num_se * config.sh_per_se;
    let mut state = STATE.lock();
    let first_cu = state.next_cu;
    state.gpus.push(
        TopologyGpu {
            node: node.clone(),
            render_minor,
            first_cu,
        },
        GFP_KERNEL,
    )?;
    // Each switch of the compute partition mode adds nodes.
    state.next_cu = first_cu.wrapping_add(arrays * config.cu_per_sh);
    let result = state.rebuild();
    if result.is_err() {
        state.gpus.pop();
    }
    result
}

/// Removes the GPU of a node, if it is listed.
pub(crate) fn remove_gpu(node: &Arc<node::Node>) {
    let mut state = STATE.lock();
    let Some(at) = state
        .gpus
        .iter()
        .position(|entry| Arc::ptr_eq(&entry.node, node))
    else {
        return;
    };
    let removed = state.gpus.remove(at);
    if let Err(e) = state.rebuild() {
        dev_err!(
            node.gpu().dev(),
            "topology not rebuilt after removal: {e:?}\n"
        );
    }
    drop(state);
    drop(removed);
}

/// Returns a snapshot of the nodes; `ENOMEM` if there is no memory for it.
pub(crate) fn nodes() -> Result<KVec<Arc<Node>>> {
    let state = STATE.lock();
    let mut out = KVec::with_capacity(state.nodes.len(), GFP_KERNEL)?;
    for node in &state.nodes {
        out.push(node.clone(), GFP_KERNEL)?;
    }
    Ok(out)
}
