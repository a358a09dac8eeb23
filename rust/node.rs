// SPDX-License-Identifier: GPL-2.0

//! Nodes: the partitions of a device that user space addresses, each with its XCCs and its queue
//! manager, and the list of all nodes.
//!
//! A node is one entry of the KFD topology and has one gpu_id. Per-process data, queues and SMI
//! events belong to a node; memory, BOs and reset belong to the card.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    asic::{
        config::{Config, CwsrSizes},
        xcc::XccList,
    },
    card::account,
    dqm::Dqm,
    gpu::Gpu,
    kapi::global::global_mutex, //
};

/// A node.
pub(crate) struct Node {
    gpu: Arc<Gpu>,
    xccs: XccList,
    dqm: Arc<Dqm>,
}

impl Node {
    /// Returns the node of all XCCs of a device (SPX) and starts its scheduler. Errors as
    /// [`Dqm::start`].
    pub(crate) fn start(gpu: &Arc<Gpu>) -> Result<Arc<Self>> {
        let xccs = *gpu.xccs();
        let dqm = Dqm::start(gpu, &xccs)?;
        let node = Arc::new(
            Self {
                gpu: gpu.clone(),
                xccs,
                dqm: dqm.clone(),
            },
            GFP_KERNEL,
        );
        Ok(node.inspect_err(|_| {
            // Reported by the queue manager.
            let _ = dqm.end();
        })?)
    }

    /// Returns the device.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Returns the XCCs.
    pub(crate) fn xccs(&self) -> &XccList {
        &self.xccs
    }

    /// Returns the CWSR sizes of a queue, for one XCC. `EINVAL` when a size exceeds 32 bits.
    pub(crate) fn cwsr(&self) -> Result<CwsrSizes> {
        let caps = self.gpu.generation().caps;
        self.gpu.config().cwsr(caps, self.xccs.count())
    }

    /// Returns the queue manager.
    pub(crate) fn dqm(&self) -> &Arc<Dqm> {
        &self.dqm
    }

    /// Returns the gpu_id.
    pub(crate) fn id(&self) -> u32 {
        self.gpu.id()
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
    let list = LIST.lock();
    let mut out = KVec::with_capacity(list.len(), GFP_KERNEL)?;
    for node in list.iter() {
        out.push_within_capacity(node.clone())?;
    }
    Ok(out)
}

/// Returns the number of nodes.
pub(crate) fn count() -> usize {
    LIST.lock().len()
}

/// Adds a node that is ready for use. `EEXIST` if its gpu_id is in use, `ENOMEM` without memory.
pub(crate) fn add(node: &Arc<Node>) -> Result {
    let mut list = LIST.lock();
    if list.iter().any(|n| n.id() == node.id()) {
        return Err(EEXIST);
    }
    list.push(node.clone(), GFP_KERNEL)?;
    account::vram_added(node.gpu().vram().size());
    Ok(())
}

/// Removes a node, if it was added. It is freed with the last process that uses it.
pub(crate) fn remove(node: &Arc<Node>) {
    let mut list = LIST.lock();
    if let Some(i) = list.iter().position(|n| Arc::ptr_eq(n, node)) {
        let removed = list.remove(i);
        account::vram_removed(node.gpu().vram().size());
        drop(list);
        drop(removed);
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

/// Returns the gpu_id of a card's first node, that of `xccs`: a hash of its identity, not 0 and not
/// in use.
///
/// User space stores it, so it is computed as the C driver does (`kfd_generate_gpu_id()`).
pub(crate) fn make_id(config: &Config, xccs: &XccList) -> u32 {
    let pci = &config.pci;
    let subsystem = u32::from(pci.subsystem) << 16 | u32::from(pci.subsystem_vendor);
    let words: [u32; 8] = [
        u32::from(pci.bdf & 0xff),
        subsystem,
        pci.domain,
        u32::from(pci.device),
        u32::from(pci.bdf >> 8),
        config.vram_size as u32,
        (config.vram_size >> 32) as u32,
        u32::from(xccs.first().logical) | xccs.count() << 16,
    ];
    let mut crc = 0;
    for word in words {
        crc = crc16(crc, &word.to_ne_bytes());
    }
    let list = LIST.lock();
    let mut id = u32::from(crc);
    // Terminates: there are fewer nodes than ids.
    while id == 0 || list.iter().any(|n| n.id() == id) {
        id = (id + 1) & 0xffff;
    }
    id
}
