// SPDX-License-Identifier: GPL-2.0

//! The state of the topology: its GPUs, the nodes built from them, and their sysfs and debugfs
//! directories.
//!
//! Each addition or removal of the GPUs of a device rebuilds all nodes and increments the
//! generation, which user space reads before and after everything else to detect a change.

use kernel::{
    device,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Full, Relaxed, Release},
        barrier::smp_mb,
        Arc,
    },
    time::{delay::fsleep, Delta},
};

use super::{
    debugfs::DebugfsTree,
    node::Node,
    nodes::{self, TopologyGpu},
    sysfs::SysfsTree,
};
use crate::{
    gpu::Gpu,
    kapi::{debugfs::Dir, global::global_mutex},
    node,
};

/// Count of changes. Read without a lock: removing a sysfs file waits for its readers.
static GENERATION: Atomic<u32> = Atomic::new(0);
/// Whether nodes are being replaced.
static IS_CHANGING: Atomic<bool> = Atomic::new(false);

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
    /// Rebuilds all nodes and replaces those in sysfs and debugfs. Errors as [`Self::show`].
    fn rebuild(&mut self) -> Result {
        self.nodes = nodes::build(&self.gpus)?;
        IS_CHANGING.store(true, Relaxed);
        // Before the first node is removed.
        smp_mb(Full);
        let shown = self.show();
        // Also if a part was replaced only.
        GENERATION.fetch_add(1, Full);
        IS_CHANGING.store(false, Release);
        shown
    }

    /// Replaces the nodes in sysfs and debugfs. An error leaves a part of them.
    fn show(&mut self) -> Result {
        if let Some(tree) = &mut self.sysfs {
            tree.replace(&self.nodes)?;
        }
        if let Some(tree) = &mut self.debugfs {
            tree.replace(&self.nodes)?;
        }
        Ok(())
    }

    /// Rebuilds all nodes after a removal, which cannot fail: repeated without memory.
    fn restore(&mut self) {
        /// Attempts, and the pause between two.
        const ATTEMPTS: u32 = 10;
        const PAUSE: Delta = Delta::from_millis(20);
        let mut result = self.rebuild();
        for _ in 1..ATTEMPTS {
            if result.is_err() {
                fsleep(PAUSE);
                result = self.rebuild();
            }
        }
        if let Err(e) = result {
            pr_err!("topology not rebuilt, nodes are missing until it changes again: {e:?}\n");
        }
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

/// Returns the generation: twice the same if no node was replaced in between. While nodes are being
/// replaced, each call returns another one.
fn generation() -> u32 {
    if IS_CHANGING.load(Acquire) {
        GENERATION.fetch_add(1, Full).wrapping_add(1)
    } else {
        GENERATION.load(Acquire)
    }
}

/// The topology in sysfs, below the device of `/dev/kfd`. Dropping it removes the files.
pub(crate) struct SysfsRegistration(());

impl SysfsRegistration {
    /// Creates `topology/` below `parent`.
    pub(crate) fn new(parent: &device::Device) -> Result<Self> {
        let tree = SysfsTree::new(parent, generation)?;
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
    /// Creates `topology/nodes/` below `parent`. The next rebuild fills it. `ENOMEM` without
    /// memory.
    pub(crate) fn new(parent: &Dir) -> Result<Self> {
        let tree = DebugfsTree::new(parent)?;
        STATE.lock().debugfs = Some(tree);
        Ok(Self(()))
    }
}

impl Drop for DebugfsRegistration {
    fn drop(&mut self) {
        // Removed without the lock: this waits for readers.
        let tree = STATE.lock().debugfs.take();
        drop(tree);
    }
}

/// Adds the GPUs of nodes, each with the minor number of its render node, by one rebuild. On
/// failure none of them is listed, and the others are again.
pub(crate) fn add_gpus(gpus: &[(Arc<node::Node>, u32)]) -> Result {
    let mut state = STATE.lock();
    let listed = state.gpus.len();
    state.gpus.reserve(gpus.len(), GFP_KERNEL)?;
    for (node, render_minor) in gpus {
        let config = node.gpu().config();
        let arrays = config.num_se * config.sh_per_se;
        let first_cu = state.next_cu;
        state.gpus.push_within_capacity(TopologyGpu {
            node: node.clone(),
            render_minor: *render_minor,
            first_cu,
        })?;
        // Each switch of the compute partition mode adds nodes.
        state.next_cu = first_cu.wrapping_add(arrays * config.cu_per_sh);
    }
    let result = state.rebuild();
    if result.is_err() {
        state.gpus.truncate(listed);
        state.restore();
    }
    result
}

/// Removes the nodes of a device, as far as they are listed, by one rebuild.
pub(crate) fn remove_gpus(gpu: &Gpu) {
    let mut state = STATE.lock();
    let listed = state.gpus.len();
    // `NodeSet` has references, so that no node is dropped with the lock held.
    state.gpus.retain(|entry| !entry.node.is_of(gpu));
    if state.gpus.len() != listed {
        state.restore();
    }
}

/// Returns the number of nodes.
pub(crate) fn count() -> usize {
    STATE.lock().nodes.len()
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
