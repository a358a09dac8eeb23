// SPDX-License-Identifier: GPL-2.0

//! [`UserQueues`] of a node: suspend and resume around SDMA engine resets, isolation of processes.

use kernel::prelude::*;

use super::{sched::Scope, Dqm};
use crate::gpu::{Isolation, UserQueues};

impl Dqm {
    /// Returns whether the processes of this node are to be isolated.
    pub(super) fn isolates(&self) -> bool {
        self.gpu.isolation(self.node.index) == Isolation::Processes
    }
}

impl UserQueues for Dqm {
    fn isolate(&self) -> Result {
        let mut inner = self.lock();
        // Read with the lock held: of two writers both set the later value.
        let single = self.isolates();
        if inner.queues.single_process == single {
            return Ok(());
        }
        self.unmap(&mut inner, Scope::All)?;
        let set = inner.sched.set_single_process(&self.gpu, single);
        if set.is_ok() {
            inner.queues.single_process = single;
        }
        // Also after an error: the queues are mapped as before.
        set.and(self.map(&mut inner, Scope::All))
    }

    fn suspend(&self) -> Result {
        let mut inner = self.lock();
        inner.suspended += 1;
        self.unmap(&mut inner, Scope::All)
    }

    fn resume(&self) -> Result {
        let mut inner = self.lock();
        inner.suspended = inner.suspended.saturating_sub(1);
        if inner.suspended > 0 || !inner.running {
            return Ok(());
        }
        self.gpu.check_usable()?;
        if inner.queues.sdma.find_held(&self.gpu, 0)?.is_some() {
            self.gpu
                .wedge_by_scheduler("an SDMA queue is still mapped after an engine reset");
            return Err(EIO);
        }
        self.map(&mut inner, Scope::All)
    }
}
