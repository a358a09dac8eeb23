// SPDX-License-Identifier: GPL-2.0

//! The partition of an open file, and the SDMA engines on which its jobs run.
//!
//! As in the C driver (`amdgpu_xcp.c`) a file keeps its partition when the mode is switched; if
//! the new mode has fewer partitions, no ring can be used for the first time
//! (`amdgpu_xcp_select_scheds`).

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

use super::userq_fence::FencePool;
use crate::{
    asic::partition::MAX_PARTITIONS,
    dqm::SdmaEngines,
    gpu::Gpu,
    node::{Node, NodeSet},
};

/// The partitions of a device, with the number of scheduler entities of each.
pub(super) struct Partitions {
    nodes: Arc<NodeSet>,
    fences: Arc<FencePool>,
    entities: [Atomic<u32>; MAX_PARTITIONS as usize],
}

impl Partitions {
    /// Returns the partitions of the device of `nodes`. `ENOMEM` without memory.
    pub(super) fn new(nodes: &Arc<NodeSet>) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                nodes: nodes.clone(),
                fences: FencePool::new()?,
                entities: [const { Atomic::new(0) }; MAX_PARTITIONS as usize],
            },
            GFP_KERNEL,
        )?)
    }

    /// Returns whether the current mode has a partition.
    pub(super) fn has(&self, index: u32) -> bool {
        index < self.nodes.partitions()
    }

    /// Returns the partition of the current mode with the fewest entities, the first of several.
    fn least_used(&self) -> u32 {
        (0..)
            .zip(&self.entities)
            .take_while(|(index, _)| self.has(*index))
            .min_by_key(|(_, entities)| entities.load(Relaxed))
            .map_or(0, |(index, _)| index)
    }
}

/// Counts an entity for its partition until dropped.
pub(super) struct EntityCount {
    partitions: Arc<Partitions>,
    index: u32,
}

impl EntityCount {
    fn new(partitions: &Arc<Partitions>, index: u32) -> Self {
        let this = Self {
            partitions: partitions.clone(),
            index,
        };
        if let Some(entities) = this.counter() {
            entities.fetch_add(1, Relaxed);
        }
        this
    }

    fn counter(&self) -> Option<&Atomic<u32>> {
        self.partitions.entities.get(self.index as usize)
    }
}

impl Drop for EntityCount {
    fn drop(&mut self) {
        if let Some(entities) = self.counter() {
            entities.fetch_sub(1, Relaxed);
        }
    }
}

/// The partition of an open file.
#[pin_data]
pub(super) struct FilePartition {
    partitions: Arc<Partitions>,
    /// `None` for a file of a primary node before its first job.
    #[pin]
    index: Mutex<Option<u32>>,
}

impl FilePartition {
    /// Returns the partition of a new file. `ENOMEM` without memory.
    pub(super) fn new(partitions: &Arc<Partitions>, index: Option<u32>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                partitions: partitions.clone(),
                index <- new_mutex!(index),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the device.
    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        self.partitions.nodes.gpu()
    }

    /// Returns the fences of user queues of the device.
    pub(super) fn fences(&self) -> &Arc<FencePool> {
        &self.partitions.fences
    }

    /// Returns the index, also if the current mode does not have this partition; `None` if the file
    /// has no partition.
    pub(super) fn index(&self) -> Option<u32> {
        *self.index.lock()
    }

    /// Returns the node. That of a file without a partition is the first. `None` if the current
    /// mode does not have the partition.
    pub(super) fn node(&self) -> Option<Arc<Node>> {
        self.partitions.nodes.get(self.index().unwrap_or(0))
    }

    /// Returns the memory partition; `None` if the file has no partition, or one that the current
    /// mode does not have.
    pub(super) fn memory(&self) -> Option<u32> {
        let nodes = &self.partitions.nodes;
        Some(nodes.memory(self.index()?)?.index())
    }

    /// Returns the numbers of XCCs and of SDMA engines of the partition; `None` if the file has
    /// none, or one that the current mode does not have.
    pub(super) fn instances(&self) -> Option<(u32, u32)> {
        let nodes = &self.partitions.nodes;
        let sdma = nodes.sdma((*self.index.lock())?)?;
        let xccs = nodes.gpu().xccs().count() / nodes.partitions();
        Some((xccs, sdma.count))
    }

    /// Returns the SDMA engines for a new entity. A file without a partition gets one. `ENODEV` if
    /// the current mode does not have the partition.
    pub(super) fn select(&self) -> Result<(SdmaEngines, EntityCount)> {
        let mut index = self.index.lock();
        let index = *index.get_or_insert_with(|| self.partitions.least_used());
        let engines = self.partitions.nodes.sdma(index).ok_or(ENODEV)?;
        Ok((engines, EntityCount::new(&self.partitions, index)))
    }
}
