// SPDX-License-Identifier: GPL-2.0

//! Nodes: the partitions of a device that user space addresses, each with its XCCs and its queue
//! manager, and the list of all nodes.
//!
//! A node is one entry of the KFD topology and has one gpu_id. A device has one (SPX), or one for
//! each compute partition. Per-process data, queues and SMI events belong to a node; memory, BOs
//! and reset belong to the card.

use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};
use rkfd_abi::bits::{hi32, lo32};

use crate::{
    asic::{
        config::{Config, CwsrSizes},
        partition::ComputePartition,
        xcc::XccList,
    },
    card::{
        account::{self, Share},
        memory::MemoryPartition,
        vram::Vram,
    },
    dqm::{Dqm, NodeResources, SdmaEngines, Vmids},
    gpu::Gpu,
    kapi::{drm, global::global_mutex, room::lock_with_room},
};

/// A node.
pub(crate) struct Node {
    gpu: Arc<Gpu>,
    /// Number of nodes of the device.
    count: u32,
    resources: NodeResources,
    /// Share of VRAM.
    memory: Arc<Share>,
    dqm: Arc<Dqm>,
    /// Minor number of the render node; [`NO_MINOR`] until it is known.
    render_minor: Atomic<u32>,
}

/// Number of no device: a device cgroup that denies any devices by default denies it, too.
const NO_MINOR: u32 = u32::MAX;

impl Node {
    /// Returns node `index` of a device in a compute partition mode and starts its scheduler.
    /// `siblings` are the nodes of the device so far. Errors as [`Dqm::start`], `EINVAL` when the
    /// device has no such node.
    fn start(
        gpu: &Arc<Gpu>,
        mode: ComputePartition,
        index: u32,
        siblings: &[Arc<Self>],
    ) -> Result<Arc<Self>> {
        let caps = gpu.generation().caps;
        let count = mode.partitions(gpu.xccs().count());
        let xccs = gpu.xccs().partition(index, count)?;
        let vram = gpu.vram();
        let resources = NodeResources {
            id: make_id(
                gpu.config(),
                &xccs,
                vram_share(vram, index, count),
                siblings,
            ),
            index,
            xccs,
            vmids: if mode == ComputePartition::Cpx && count > 1 {
                Vmids::half(caps, index)
            } else {
                Vmids::all(caps)
            },
            sdma: sdma_share(gpu, index, count),
        };
        let memory = partition_memory(vram, index, count).ok_or(EINVAL)?;
        let memory = Share::new(vram_share(vram, index, count), memory)?;
        let dqm = Dqm::start(gpu, &resources)?;
        let node = Arc::new(
            Self {
                gpu: gpu.clone(),
                count,
                resources,
                memory,
                dqm: dqm.clone(),
                render_minor: Atomic::new(NO_MINOR),
            },
            GFP_KERNEL,
        );
        Ok(node.inspect_err(|_| {
            // Reported by the queue manager.
            let _ = dqm.end();
        })?)
    }

    /// Sets the minor number of the render node, before [`add`].
    pub(crate) fn set_render_minor(&self, minor: u32) {
        self.render_minor.store(minor, Relaxed);
    }

    /// Checks that the current task may use the node: `EPERM` if its device cgroup denies the
    /// render node (`kfd_devcgroup_check_permission`).
    pub(crate) fn check_permission(&self) -> Result {
        drm::check_render_node(self.render_minor.load(Relaxed))
    }

    /// Returns the device.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Returns whether this is a node of a device.
    pub(crate) fn is_of(&self, gpu: &Gpu) -> bool {
        core::ptr::eq(&*self.gpu, gpu)
    }

    /// Returns the index in the device.
    pub(crate) fn index(&self) -> u32 {
        self.resources.index
    }

    /// Returns the number of nodes of the device.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the XCCs.
    pub(crate) fn xccs(&self) -> &XccList {
        &self.resources.xccs
    }

    /// Returns the SDMA engines.
    pub(crate) fn sdma(&self) -> SdmaEngines {
        self.resources.sdma
    }

    /// Returns the number of CUs: as in the C driver the average, also if the XCCs of nodes are
    /// harvested differently.
    pub(crate) fn cu_count(&self) -> u32 {
        self.gpu.config().core().cu_total / self.count
    }

    /// Returns the number of SIMDs.
    pub(crate) fn simd_count(&self) -> u32 {
        self.cu_count() * self.gpu.config().simd_per_cu
    }

    /// Returns the share of VRAM.
    pub(crate) fn memory(&self) -> &Arc<Share> {
        &self.memory
    }

    /// Returns whether interrupts with a node id and a VMID are those of this node
    /// (`kfd_irq_is_from_node`).
    pub(crate) fn takes(&self, ih_node: u32, vmid: u32) -> bool {
        let nodes = self.gpu.generation().ih.nodes(self.xccs());
        let is_ours = |mask: u32| mask.checked_shr(ih_node).is_some_and(|m| m & 1 != 0);
        self.resources.vmids.contains(vmid) && nodes.is_none_or(is_ours)
    }

    /// Returns the CWSR sizes of a queue, for one XCC. `EINVAL` when a size exceeds 32 bits.
    pub(crate) fn cwsr(&self) -> Result<CwsrSizes> {
        let caps = self.gpu.generation().caps;
        self.gpu.config().cwsr(caps, self.gpu.xccs().count())
    }

    /// Returns the queue manager.
    pub(crate) fn dqm(&self) -> &Arc<Dqm> {
        &self.dqm
    }

    /// Returns the gpu_id.
    pub(crate) fn id(&self) -> u32 {
        self.resources.id
    }
}

/// Returns the number of nodes per memory partition, of `count` nodes.
fn nodes_per_memory(vram: &Vram, count: u32) -> u32 {
    (count / vram.partitions().len() as u32).max(1)
}

/// Returns the memory partition of node `index` of `count` nodes
/// (`__aqua_vanjaram_get_xcp_mem_id`).
fn partition_memory(vram: &Vram, index: u32, count: u32) -> Option<&Arc<MemoryPartition>> {
    let memory = index / nodes_per_memory(vram, count);
    vram.partitions().get(memory as usize)
}

/// Returns the VRAM of node `index` of `count` nodes of a card, in bytes
/// (`amdgpu_amdkfd_xcp_memory_size`).
fn vram_share(vram: &Vram, index: u32, count: u32) -> u64 {
    let all = partition_memory(vram, index, count).map_or(0, |memory| memory.size());
    let page = PAGE_SIZE as u64;
    all / u64::from(nodes_per_memory(vram, count)) / page * page
}

/// Returns the SDMA engines of partition `index` of `count`.
fn sdma_share(gpu: &Gpu, index: u32, count: u32) -> SdmaEngines {
    let engines = gpu.config().num_sdma / count;
    SdmaEngines {
        first: index * engines,
        count: engines,
        pcie: engines.min(gpu.generation().caps.sdma_pcie_engines),
    }
}

/// The nodes of a device, one for each compute partition. Its lock is taken before those of queue
/// managers.
#[pin_data]
pub(crate) struct NodeSet {
    gpu: Arc<Gpu>,
    /// Number of partitions of the mode that was started last.
    partitions: Atomic<u32>,
    #[pin]
    nodes: Mutex<KVec<Arc<Node>>>,
}

impl NodeSet {
    /// Returns the set of a device, without nodes.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                gpu: gpu.clone(),
                partitions: Atomic::new(1),
                nodes <- new_mutex!(KVec::new(), "rkfd_nodes"),
            }),
            GFP_KERNEL,
        )
    }

    /// Starts the nodes of a mode, into which the device is divided. There are none after an
    /// error, as of [`Dqm::start`].
    pub(crate) fn start(&self, mode: ComputePartition) -> Result {
        let count = mode.partitions(self.gpu.xccs().count());
        let started = {
            let mut nodes = self.nodes.lock();
            (0..count).try_for_each(|index| {
                nodes.reserve(1, GFP_KERNEL)?;
                let node = Node::start(&self.gpu, mode, index, &nodes)?;
                Ok(nodes.push_within_capacity(node)?)
            })
        };
        match started {
            Ok(()) => self.partitions.store(count, Relaxed),
            // The message is printed; the error of the start is returned.
            Err(_) => drop(self.end()),
        }
        started
    }

    /// Stops the schedulers of all nodes permanently. Returns the first error of a scheduler, which
    /// may be running.
    pub(crate) fn end_queues(&self) -> Result {
        self.stop_each(Dqm::end)
    }

    /// Drops the nodes after [`Self::end_queues`].
    pub(crate) fn drop_nodes(&self) {
        let nodes = core::mem::take(&mut *self.nodes.lock());
        drop(nodes);
    }

    /// Both, with the error of the first.
    pub(crate) fn end(&self) -> Result {
        let ended = self.end_queues();
        self.drop_nodes();
        ended
    }

    /// Returns the number of partitions. Unlike that of nodes it is never 0: a device without nodes
    /// still has the partitions of the last mode that was started.
    pub(crate) fn partitions(&self) -> u32 {
        self.partitions.load(Relaxed)
    }

    /// Returns the SDMA engines of a partition; `None` if there is no such partition.
    pub(crate) fn sdma(&self, index: u32) -> Option<SdmaEngines> {
        let count = self.partitions();
        (index < count).then(|| sdma_share(&self.gpu, index, count))
    }

    /// Returns the memory partition of a partition; `None` if there is no such partition.
    pub(crate) fn memory(&self, index: u32) -> Option<Arc<MemoryPartition>> {
        let count = self.partitions();
        let memory = partition_memory(self.gpu.vram(), index, count).cloned();
        memory.filter(|_| index < count)
    }

    /// Returns the node of a partition, if there is one.
    pub(crate) fn get(&self, index: u32) -> Option<Arc<Node>> {
        let nodes = self.nodes.lock();
        nodes.iter().find(|node| node.index() == index).cloned()
    }

    /// Returns whether there are no nodes.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.lock().is_empty()
    }

    /// Returns the device.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Returns all nodes. `ENOMEM` without memory.
    pub(crate) fn list(&self) -> Result<KVVec<Arc<Node>>> {
        // The reset of the card takes the lock: nothing is allocated under it.
        let (nodes, mut out) = lock_with_room(|| self.nodes.lock(), |nodes| nodes.len())?;
        for node in nodes.iter() {
            out.push_within_capacity(node.clone())?;
        }
        Ok(out)
    }

    /// Calls `f` with the queue manager of each node. Returns the first error, after all calls.
    fn for_each(&self, f: impl Fn(&Dqm) -> Result) -> Result {
        let mut result = Ok(());
        for node in self.nodes.lock().iter() {
            result = result.and(f(node.dqm()));
        }
        result
    }

    /// The same, with a message for an error.
    fn stop_each(&self, f: impl Fn(&Dqm) -> Result) -> Result {
        self.for_each(f)
            .inspect_err(|e| dev_err!(self.gpu.dev(), "queues did not stop: {e:?}\n"))
    }

    /// Unmaps the queues of all nodes and stops their schedulers, see [`Dqm::stop`].
    pub(crate) fn stop(&self) -> Result {
        self.for_each(Dqm::stop)
    }

    /// Starts the schedulers of all nodes again, see [`Dqm::restart`].
    pub(crate) fn restart(&self) -> Result {
        self.for_each(Dqm::restart)
    }

    /// Marks all queues as lost, before a card reset, and stops the schedulers.
    pub(crate) fn abandon_queues(&self) {
        // The card is reset next.
        let _ = self.stop_each(|dqm| {
            dqm.abandon_queues();
            dqm.stop()
        });
    }
}

global_mutex! {
    LIST: KVec<Arc<Node>> = KVec::new();
    init init
}

/// Frees the list; called at module unload, when it is empty.
pub(crate) fn exit() {
    let list = core::mem::take(&mut *LIST.lock());
    drop(list);
}

/// Returns all nodes of bound devices in the order of their probe. `ENOMEM` without memory.
pub(crate) fn list() -> Result<KVec<Arc<Node>>> {
    let nodes = LIST.lock();
    let mut out = KVec::with_capacity(nodes.len(), GFP_KERNEL)?;
    for node in nodes.iter() {
        out.push_within_capacity(node.clone())?;
    }
    Ok(out)
}

/// Returns node `index` of a device; `None` if it does not have it at present.
pub(crate) fn of(gpu: &Gpu, index: u32) -> Option<Arc<Node>> {
    let list = LIST.lock();
    let mut nodes = list.iter();
    nodes
        .find(|node| node.is_of(gpu) && node.index() == index)
        .cloned()
}

/// Returns whether there is a node that the current task may use.
pub(crate) fn any_permitted() -> bool {
    let list = LIST.lock();
    list.iter().any(|node| node.check_permission().is_ok())
}

/// Adds a node that is ready for use. `EEXIST` if its gpu_id is in use, `ENOMEM` without memory.
pub(crate) fn add(node: &Arc<Node>) -> Result {
    let mut list = LIST.lock();
    if list.iter().any(|n| n.id() == node.id()) {
        return Err(EEXIST);
    }
    list.push(node.clone(), GFP_KERNEL)?;
    account::vram_added(node.memory().size());
    Ok(())
}

/// Removes the nodes of a device, as far as they were added. Each is freed with the last process
/// that uses it.
pub(crate) fn remove_all(gpu: &Gpu) {
    let remove_last = || {
        let mut list = LIST.lock();
        let i = list.iter().rposition(|node| node.is_of(gpu))?;
        list.remove(i).ok()
    };
    while let Some(removed) = remove_last() {
        account::vram_removed(removed.memory().size());
    }
}

/// CRC-16 (polynomial 0x8005, reflected), as the kernel's `crc16()`.
fn crc16(mut crc: u16, data: &[u8]) -> u16 {
    for byte in data {
        crc ^= u16::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 != 0 {
                (crc >> 1) ^ 0xa001
            } else {
                crc >> 1
            };
        }
    }
    crc
}

/// Returns the gpu_id of a card's only node, that of all its XCCs.
pub(crate) fn make_card_id(config: &Config, xccs: &XccList) -> u32 {
    make_id(config, xccs, config.vram_size, &[])
}

/// Returns the gpu_id of a node with `xccs` and `vram` bytes of VRAM: a hash of its identity, not 0
/// and not in use, neither by another card nor by `siblings`.
///
/// User space stores it, so it is computed as the C driver does (`kfd_generate_gpu_id()`).
fn make_id(config: &Config, xccs: &XccList, vram: u64, siblings: &[Arc<Node>]) -> u32 {
    let pci = &config.pci;
    let subsystem = u32::from(pci.subsystem) << 16 | u32::from(pci.subsystem_vendor);
    let words: [u32; 8] = [
        u32::from(pci.bdf & 0xff),
        subsystem,
        pci.domain,
        u32::from(pci.device),
        u32::from(pci.bdf >> 8),
        lo32(vram),
        hi32(vram),
        u32::from(xccs.first().logical) | xccs.count() << 16,
    ];
    let mut crc = 0;
    for word in words {
        crc = crc16(crc, &word.to_ne_bytes());
    }
    let list = LIST.lock();
    let mut id = u32::from(crc);
    // Terminates: there are fewer nodes than ids.
    while id == 0
        || [&list[..], siblings]
            .iter()
            .any(|l| l.iter().any(|n| n.id() == id))
    {
        id = (id + 1) & 0xffff;
    }
    id
}
