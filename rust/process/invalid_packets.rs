// SPDX-License-Identifier: GPL-2.0

//! Invalid packets: the queue is unmapped by a worker (`kfd_dqm_suspend_bad_queue_mes()`), if MES
//! has it. The CP stops such a queue, which MES would leave in its slot.

use kernel::{prelude::*, sync::Arc, workqueue::WorkItem};

use super::{
    kfd_process::{Process, PACKET_WORK},
    pdd::ProcessDevice,
};
use crate::{
    dqm::DqmQueue,
    hw::SchedKind,
    kapi::{
        global::global_mutex,
        static_queue::Installed,
        workqueue::{Builder, OwnedQueue},
    },
    queue::{ExceptionTable, Exceptions},
    trace,
};

global_mutex! {
    /// Work queue of the workers, which do not wait for user space.
    QUEUE: Option<OwnedQueue> = None;
    init init
}

/// Creates the work queue.
pub(super) fn create_workqueue() -> Result<Installed> {
    Ok(QUEUE.install(Builder::unbound().build(c"rkfd_packets")?))
}

/// Schedules unmapping the queue with a doorbell. Called by the interrupt thread: allocates
/// nothing.
pub(super) fn schedule(
    process: &Arc<Process>,
    device: &ProcessDevice,
    doorbell: u32,
    exceptions: Exceptions,
) {
    if device.gpu().generation().sched != SchedKind::Mes {
        return;
    }
    let table = device.exceptions();
    if table.is_some_and(|table| table.set_invalid(doorbell, exceptions)) {
        QUEUE.enqueue::<_, PACKET_WORK>(process.clone());
    }
}

impl WorkItem<PACKET_WORK> for Process {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        for device in this.devices() {
            let Some(table) = device.exceptions() else {
                continue;
            };
            for doorbell in table.invalid() {
                if let Some(queue) = take(&this, device, table, doorbell) {
                    stop(&this, device, &queue);
                }
            }
        }
    }
}

/// Returns the queue with a doorbell, if it has an invalid packet. `None` when the process has
/// ended.
fn take(
    process: &Process,
    device: &ProcessDevice,
    table: &ExceptionTable,
    doorbell: u32,
) -> Option<Arc<DqmQueue>> {
    // The queue is not destroyed meanwhile.
    let state = process.lock().ok()?;
    if !table.take_invalid(doorbell) {
        return None;
    }
    let queue = state.queues.by_doorbell(device.node(), doorbell)?;
    Some(queue.hw().clone())
}

fn stop(process: &Process, device: &ProcessDevice, queue: &Arc<DqmQueue>) {
    trace::process(process.pid(), device.pasid(), c"invalid packet");
    if let Err(e) = device.node().dqm().stop_invalid(queue) {
        dev_err!(
            device.gpu().dev(),
            "process {}: queue {} with an invalid packet was not unmapped: {e:?}\n",
            process.pid(),
            queue.qid()
        );
    }
}
