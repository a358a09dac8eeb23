// SPDX-License-Identifier: GPL-2.0

//! User queues of files of the render node: the DQM handles a file as a process.

use kernel::{prelude::*, sync::Arc};

use super::{
    queues::{DqmProcess, DqmQueue},
    sched::Scope,
    Dqm,
};
use crate::{
    hw::MapProcess,
    kapi::task::Pids,
    mmu::{QueueOwner, Vm},
};

impl Dqm {
    /// As [`Dqm::new_process`] for a file of the render node with an address space.
    pub(crate) fn new_file(&self, pids: Pids, vm: &Vm) -> Result<Arc<DqmProcess>> {
        let map = MapProcess {
            pasid: vm.pasid(),
            root: vm.root(),
            ..MapProcess::default()
        };
        DqmProcess::new(
            &self.gpu,
            pids,
            QueueOwner::File,
            map,
            false,
            self.needs.process,
        )
    }

    /// Unmaps a queue permanently; it stays registered. Returns whether it was active and unmapped
    /// without being lost. Errors as [`Dqm::remove`].
    pub(crate) fn stop_queue(&self, queue: &Arc<DqmQueue>) -> Result<bool> {
        let mut inner = self.lock();
        queue.state.lock().spec.percent = 0;
        if !inner.queues.deactivate(queue) {
            return Ok(false);
        }
        self.execute(&mut inner, Scope::Queue(queue))?;
        Ok(!queue.is_lost())
    }
}
