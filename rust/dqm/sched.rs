// SPDX-License-Identifier: GPL-2.0

//! The interface between the device queue manager and its schedulers (CPSCH or MES).

use kernel::{fmt, prelude::*, sync::Arc};

use super::{
    queues::{DqmProcess, DqmQueue, Queues},
    sdma::SdmaEngines,
    slots::Vmids,
};
use crate::{asic::xcc::XccList, gpu::Gpu};

/// The hardware of a node, which its queue manager schedules.
#[derive(Clone, Copy)]
pub(crate) struct NodeResources {
    /// The gpu_id of the node, for trace events.
    pub(crate) id: u32,
    /// Index of the node in its device.
    pub(crate) index: u32,
    /// XCCs.
    pub(crate) xccs: XccList,
    /// VMIDs.
    pub(crate) vmids: Vmids,
    /// SDMA engines.
    pub(crate) sdma: SdmaEngines,
}

/// Resources that a scheduler needs; sizes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    /// Context per process.
    pub(super) process: usize,
    /// Context per queue.
    pub(super) queue: usize,
    /// Whether it reads write pointers, through a mapping in VMID 0.
    pub(super) wptr: bool,
    /// Whether it may reject a queue, whose change is undone then.
    pub(super) undo: bool,
}

/// Queues affected by a change.
#[derive(Clone, Copy)]
pub(super) enum Scope<'a> {
    /// All queues.
    All,
    /// Queues of a process.
    Process(&'a DqmProcess),
    /// One queue.
    Queue(&'a Arc<DqmQueue>),
    /// Some queues of a process, of which there is one at least.
    Queues(&'a [Arc<DqmQueue>]),
}

/// Operations of a scheduler. Called with the lock of the [`Dqm`](super::Dqm) held. The default of
/// those that have one is for a scheduler without such a thing.
pub(super) trait SchedOps: Send + Sync {
    /// Starts the scheduler. `ETIME` when it does not respond, `ENOMEM` without memory.
    fn start(&mut self, gpu: &Gpu, queues: &Queues) -> Result;

    /// Makes a change of [`Queues::single_process`] to `single` effective if the scheduler runs;
    /// no queue is mapped. `ETIMEDOUT` when firmware does not respond: nothing changes.
    fn set_single_process(&mut self, _gpu: &Gpu, _single: bool) -> Result {
        Ok(())
    }

    /// Unmaps all queues and stops the scheduler. `ETIME` when it does not respond.
    fn stop(&mut self, gpu: &Gpu, queues: &mut Queues) -> Result;

    /// Allocates the memory that [`SchedOps::map`] takes for `queues`. `ENOMEM` without memory;
    /// nothing has changed then.
    fn reserve(&mut self, _gpu: &Gpu, _queues: &Queues) -> Result {
        Ok(())
    }

    /// Returns what the scheduler needs.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Unmaps the queues in `scope`, and others if it cannot be avoided. Active ones are mapped by
    /// the next [`SchedOps::map`] of the same scope.
    ///
    /// A queue that an SDMA engine does not release is lost, and the engine is reset. `ETIME` when
    /// the scheduler does not respond; the card is wedged then.
    fn unmap(&mut self, gpu: &Gpu, queues: &mut Queues, scope: Scope<'_>) -> Result;

    /// Unmaps an active queue with an invalid packet, which is not mapped again. By default it
    /// stays mapped. Errors as [`SchedOps::set_runtime`].
    fn remove_invalid(&mut self, _gpu: &Gpu, _queues: &mut Queues, _queue: &DqmQueue) -> Result {
        Ok(())
    }

    /// Sets for how long a wave may run on before it is preempted, in units of 1024 clock cycles;
    /// `None` for the default. `ETIME` when the scheduler does not respond.
    fn set_grace(&mut self, _gpu: &Gpu, _grace: Option<u32>) -> Result {
        Ok(())
    }

    /// Maps the active queues in `scope`, and others that [`SchedOps::unmap`] unmapped. Uses only
    /// memory of a [`SchedOps::reserve`] for at least as many queues. `ETIME` when the scheduler
    /// does not respond, `ETIMEDOUT` when that is MES or it rejects the queue of a
    /// [`Scope::Queue`]. In the other scopes a rejected queue is lost.
    fn map(&mut self, gpu: &Gpu, queues: &mut Queues, scope: Scope<'_>) -> Result;

    /// Handles RUNTIME_ENABLE of a process, before its first queue. `ETIMEDOUT` when MES rejects it
    /// or does not respond.
    fn set_runtime(&mut self, _gpu: &Gpu, _process: &DqmProcess) -> Result {
        Ok(())
    }

    /// Makes new settings of a debugger effective, for waves that start from then on, also while
    /// no queue is mapped. Errors as [`SchedOps::set_runtime`].
    fn set_debug(&mut self, gpu: &Gpu, queues: &mut Queues, process: &DqmProcess) -> Result;

    /// Releases the scheduler's state of a process without queues. Errors as
    /// [`SchedOps::set_runtime`].
    fn release_process(&mut self, _gpu: &Gpu, _process: &DqmProcess) -> Result {
        Ok(())
    }

    /// Records a coredump, about a queue or about all.
    fn record_coredump(&self, gpu: &Gpu, queues: &Queues, why: &str, queue: Option<&DqmQueue>);

    /// Returns the number of runlists sent, for debugfs.
    fn runlists(&self) -> u64 {
        0
    }

    /// Returns the dwords of the current runlist, for debugfs. `ENOMEM` without memory.
    fn runlist_words(&self) -> Result<KVec<u32>> {
        Ok(KVec::new())
    }

    /// Returns the name of the scheduler's ring, for debugfs.
    fn scheduler_ring(&self) -> &'static str;

    /// Prints the scheduler's ring, unless the device prints it.
    fn show_ring(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    /// Returns the dwords of the scheduler's MQD on the XCC with this index in the node, for
    /// debugfs. `ENOMEM` without memory, `EINVAL` without such an XCC.
    fn scheduler_mqd(&self, gpu: &Gpu, index: usize) -> Result<KVec<u32>>;
}
