// SPDX-License-Identifier: GPL-2.0

//! The user queues of a process on a GPU, as MMU notifiers evict them.

use kernel::{prelude::*, sync::Arc};

use super::smi::{self, EvictionTrigger};
use crate::{dqm::DqmProcess, kapi::task::Pids, node::Node, trace};

/// A GPU on which the process may have queues.
pub(super) struct GpuQueues {
    node: Arc<Node>,
    process: Arc<DqmProcess>,
    trigger: EvictionTrigger,
    /// The queues are evicted here.
    evicted: bool,
    /// The queues are evicted permanently: [`Self::stop`] was called.
    stopped: bool,
    /// The last eviction failed, which was logged.
    failed: bool,
}

impl GpuQueues {
    /// Returns the queues of a process on a GPU.
    pub(super) fn new(
        node: &Arc<Node>,
        process: &Arc<DqmProcess>,
        trigger: EvictionTrigger,
    ) -> Self {
        Self {
            node: node.clone(),
            process: process.clone(),
            trigger,
            evicted: false,
            stopped: false,
            failed: false,
        }
    }

    /// Returns whether they are those of this process on its GPU.
    pub(super) fn is_of(&self, process: &Arc<DqmProcess>) -> bool {
        Arc::ptr_eq(&self.process, process)
    }

    /// Returns the id of the GPU.
    pub(super) fn gpu_id(&self) -> u32 {
        self.node.id()
    }

    /// Returns the ids of the process.
    pub(super) fn pids(&self) -> Pids {
        self.process.pids()
    }

    /// Reports that the restore is tried again later.
    pub(super) fn postponed(&self) {
        smi::restored(self.node.id(), self.process.pids(), true);
    }

    /// Evicts the queues permanently.
    pub(super) fn stop(&mut self) {
        if self.stopped {
            return;
        }
        self.stopped = true;
        // One more than `restore` undoes.
        self.evicted = false;
        self.evict();
        self.evicted = false;
    }

    /// Evicts the queues. A GPU that does not unmap them in time is reset or cut off from memory.
    pub(super) fn evict(&mut self) {
        if self.evicted {
            return;
        }
        self.evicted = true;
        smi::evicted(self.node.id(), self.process.pids(), self.trigger);
        let evicted = self.node.dqm().evict(&self.process);
        if let (Err(e), false) = (&evicted, self.failed) {
            dev_err!(
                self.process.gpu().dev(),
                "process {}: queues were not evicted on GPU {:#x}: {e:?}\n",
                self.process.pid(),
                self.node.id()
            );
        }
        self.failed = evicted.is_err();
        trace::process(
            self.process.pid(),
            self.process.pasid(),
            self.trigger.name_of(true),
        );
    }

    /// Restores the queues. `ENOMEM` if that has to be tried again.
    pub(super) fn restore(&mut self) -> Result {
        if !self.evicted {
            return Ok(());
        }
        self.node.dqm().restore(&self.process)?;
        self.evicted = false;
        smi::restored(self.node.id(), self.process.pids(), false);
        trace::process(
            self.process.pid(),
            self.process.pasid(),
            self.trigger.name_of(false),
        );
        Ok(())
    }
}
