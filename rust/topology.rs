// SPDX-License-Identifier: GPL-2.0

//! The topology: NUMA nodes and GPUs, numbered without gaps, as user space reads them in sysfs.
//!
//! The list changes when a GPU comes or goes. The generation tells user space, which reads it before and
//! after everything else.

use kernel::{
    device,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use crate::{
    gpu::Gpu,
    kapi::{global::global_mutex, numa},
};

mod build;
mod cache;
mod debugfs;
mod node;
mod sysfs;

pub(crate) use node::Node;

/// How often the topology has changed. Read without a lock: a change waits for readers of sysfs.
static GENERATION: Atomic<u32> = Atomic::new(0);

/// A GPU of the topology.
struct Listed {
    gpu: Arc<Gpu>,
    render_minor: u32,
    /// Number of its first compute unit, counted over all GPUs that ever were.
    first_cu: u32,
}

struct State {
    gpus: KVec<Listed>,
    next_cu: u32,
    /// The nodes as they were built last.
    nodes: KVec<Arc<Node>>,
    tree: Option<sysfs::Tree>,
    mirror: Option<debugfs::Tree>,
}

/// The first compute unit's number, which the C driver chose apart from those of processors.
const FIRST_CU: u32 = 0x8000_1000;

global_mutex! {
    STATE: State = State {
        gpus: KVec::new(),
        next_cu: FIRST_CU,
        nodes: KVec::new(),
        tree: None,
        mirror: None,
    };
    init init
}

impl State {
    /// Builds all nodes anew and shows them.
    fn rebuild(&mut self) -> Result {
        let nodes = build::all(&self.gpus)?;
        if let Some(tree) = &mut self.tree {
            tree.replace(&nodes)?;
        }
        if let Some(mirror) = &mut self.mirror {
            mirror.replace(&nodes)?;
        }
        self.nodes = nodes;
        GENERATION.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// The topology in sysfs, below the device of `/dev/kfd`. Dropping it takes it away.
pub(crate) struct Shown(());

impl Shown {
    /// Shows the topology below `parent`.
    pub(crate) fn new(parent: &device::Device) -> Result<Self> {
        let tree = sysfs::Tree::new(parent, &GENERATION)?;
        let mut state = STATE.lock();
        state.tree = Some(tree);
        let shown = Self(());
        let result = state.rebuild();
        drop(state);
        result.map(|()| shown)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // Waits for readers, who take no lock.
        let tree = STATE.lock().tree.take();
        drop(tree);
    }
}

/// The topology in debugfs. Dropping it takes it away.
pub(crate) struct Mirror(());

impl Mirror {
    /// Shows the topology below `parent` as well, from the next change on.
    pub(crate) fn new(parent: &kernel::debugfs::Dir) -> Self {
        STATE.lock().mirror = Some(debugfs::Tree::new(parent));
        Self(())
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        let mirror = STATE.lock().mirror.take();
        drop(mirror);
    }
}

/// A GPU has come, with render node `render_minor`.
pub(crate) fn add_gpu(gpu: &Arc<Gpu>, render_minor: u32) -> Result {
    let config = gpu.config();
    let arrays = config.num_se * config.sh_per_se;
    let mut state = STATE.lock();
    let first_cu = state.next_cu;
    state.gpus.push(
        Listed {
            gpu: gpu.clone(),
            render_minor,
            first_cu,
        },
        GFP_KERNEL,
    )?;
    state.next_cu += arrays * config.cu_per_sh;
    let result = state.rebuild();
    if result.is_err() {
        state.gpus.pop();
    }
    result
}

/// A GPU goes.
pub(crate) fn remove_gpu(gpu: &Gpu) {
    let mut state = STATE.lock();
    let Some(at) = state.gpus.iter().position(|l| core::ptr::eq(&*l.gpu, gpu)) else {
        return;
    };
    let removed = state.gpus.remove(at);
    if let Err(e) = state.rebuild() {
        pr_err!("topology is out of date: {e:?}\n");
    }
    drop(state);
    drop(removed);
}

/// The nodes of this moment, for those who look at them.
pub(crate) fn nodes() -> Result<KVec<Arc<Node>>> {
    let state = STATE.lock();
    let mut out = KVec::with_capacity(state.nodes.len(), GFP_KERNEL)?;
    for node in &state.nodes {
        out.push(node.clone(), GFP_KERNEL)?;
    }
    Ok(out)
}

/// The NUMA nodes that have processors, which are the first nodes of the topology.
fn cpu_nodes() -> impl Iterator<Item = numa::Node> {
    numa::nodes().filter(|n| n.cpus() > 0)
}
