// SPDX-License-Identifier: GPL-2.0

//! The queues of a process: ids, creation, destruction.

use kernel::{
    id_pool::IdPool,
    num::casts::u32_as_usize,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::Arc,
};
use rkfd_abi::doorbell::PER_PROCESS;

use super::{
    buffers::QueueBuffers,
    request::{QueueKind, QueueRequest},
    user_queue::{Queue, QueueTarget},
};
use crate::{
    dqm::{DqmProcess, DqmQueue},
    node::Node,
    trace::Steps,
};

/// Id in trace events of steps that precede the allocation of the queue id.
pub(crate) const NO_ID: u32 = u32::MAX;

/// The queues of a process, by id.
pub(crate) struct QueueTable {
    ids: IdPool,
    queues: RBTree<u32, KBox<Queue>>,
}

/// Result of [`QueueTable::create`].
pub(crate) struct CreatedQueue {
    /// The queue id.
    pub(crate) id: u32,
    /// The type of the queue.
    pub(crate) kind: QueueKind,
    /// Byte offset of the doorbell within the slice of the process.
    pub(crate) doorbell: usize,
}

impl QueueTable {
    /// Returns an empty table.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            ids: IdPool::with_capacity(PER_PROCESS, GFP_KERNEL)?,
            queues: RBTree::new(),
        })
    }

    /// Creates a queue under the lowest free id and maps it if it is runnable.
    ///
    /// `EINVAL` if a buffer is not mapped as required, `ENOSPC` if the process has too many queues
    /// on the GPU, `ENOMEM` if it has too many in all, otherwise as [`Queue::new`] and
    /// [`Queue::start`]. Nothing has changed after an error.
    pub(crate) fn create(
        &mut self,
        target: QueueTarget,
        request: &QueueRequest,
        steps: &mut Steps,
    ) -> Result<CreatedQueue> {
        let buffers = QueueBuffers::acquire(&target.node, &target.vm, &target.shared, request)?;
        steps.mark(NO_ID, c"buffers");

        let siblings = self.on_node(&target.node).count();
        if siblings >= target.node.gpu().generation().caps.process_queues {
            return Err(ENOSPC);
        }
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let unused = self.ids.find_unused_id(0).ok_or(ENOMEM)?;
        let id = unused.as_u32();
        steps.mark(id, c"id");

        let queue = Queue::new(id, target, buffers, request, steps)?;
        queue.start()?;
        steps.mark(id, c"map");

        let created = CreatedQueue {
            id,
            kind: queue.kind(),
            doorbell: queue.doorbell_offset(),
        };
        unused.acquire();
        self.queues.insert(node.into_node(id, queue));
        Ok(created)
    }

    /// Returns the queue with this id.
    pub(crate) fn get(&self, id: u32) -> Option<&Queue> {
        self.queues.get(&id).map(|queue| &**queue)
    }

    /// Returns the queue with this id.
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Queue> {
        self.queues.get_mut(&id).map(|queue| &mut **queue)
    }

    /// Returns whether the process has no queue.
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Iterates over all queues in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Queue)> {
        self.queues.iter().map(|(id, queue)| (*id, &**queue))
    }

    /// Iterates over the suspended queues on a node.
    pub(crate) fn suspended_on<'a>(
        &'a self,
        node: &'a Node,
    ) -> impl Iterator<Item = &'a Arc<DqmQueue>> {
        let queues = self.on_node(node).map(|(_, queue)| queue.hw());
        queues.filter(|queue| queue.is_suspended())
    }

    /// Returns the queue on a node with this doorbell of the process.
    pub(crate) fn by_doorbell<'a>(&'a self, node: &'a Node, doorbell: u32) -> Option<&'a Queue> {
        let mut queues = self.on_node(node).map(|(_, queue)| queue);
        queues.find(|queue| queue.doorbell_id() == doorbell)
    }

    /// Iterates over the queues on a node.
    fn on_node<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = (u32, &'a Queue)> {
        self.iter().filter(|(_, q)| q.node().id() == node.id())
    }

    /// Removes a queue that is off the hardware and frees its id.
    fn remove(&mut self, id: u32) {
        // The buffers are unpinned and the MQD is freed here.
        let queue = self.queues.remove(&id);
        drop(queue);
        self.ids.release_id(u32_as_usize(id));
    }

    /// Assigns the global wave sync of its GPU to queue `id`, or removes it.
    ///
    /// `EINVAL` without such a queue, if it is an SDMA queue, or if GWS is to be removed and not
    /// assigned to it; `ENODEV` if the GPU has no GWS; `EBUSY` if a queue of the process has it.
    pub(crate) fn set_gws(&mut self, id: u32, gws: bool) -> Result {
        let node = self.get(id).ok_or(EINVAL)?.node();
        if node.gpu().config().num_gws == 0 {
            return Err(ENODEV);
        }
        let owner = self
            .on_node(node)
            .find(|(_, q)| q.spec().gws)
            .map(|(owner, _)| owner);
        match owner {
            Some(_) if gws => return Err(EBUSY),
            owner if !gws && owner != Some(id) => return Err(EINVAL),
            _ => {}
        }
        self.get(id).ok_or(EINVAL)?.set_gws(gws)
    }

    /// Destroys a queue; `EINVAL` if there is none with this id.
    ///
    /// The queue is destroyed also with any other error, which means that the hardware did not
    /// confirm it.
    pub(crate) fn destroy(&mut self, id: u32) -> Result {
        let stopped = self.get(id).ok_or(EINVAL)?.stop();
        self.remove(id);
        stopped
    }

    /// Removes a process from a GPU and destroys its queues there, also if the GPU does not
    /// respond.
    pub(crate) fn remove_all(&mut self, node: &Node, slot: &Arc<DqmProcess>) {
        let dqm = node.dqm();
        if let Err(e) = dqm.unregister(slot).and(dqm.release_process(slot)) {
            dev_err!(
                node.gpu().dev(),
                "process {} was not removed from GPU {:#x}: {e:?}\n",
                slot.pid(),
                node.id()
            );
        }
        loop {
            let id = self.on_node(node).next().map(|(id, _)| id);
            let Some(id) = id else { break };
            self.remove(id);
        }
    }
}
