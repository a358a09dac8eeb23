// SPDX-License-Identifier: GPL-2.0

//! Queues that MES does not remove (`reset_queues_mes()`, `amdgpu_gfx_reset_mes_compute()`).
//!
//! MES suspends all compute queues. If it cannot preempt some, it lists them, and each is reset by
//! registers and lost. Then the queue is removed again, and the others are resumed. Each queue that
//! is neither preempted nor listed, such as one of an SDMA engine, is reset by MES.

use kernel::prelude::*;
use rkfd_abi::mes as abi;

use crate::{
    dqm::queues::{DqmQueue, Queues},
    gpu::Gpu,
    hw::QueueSpec,
    ring::mes::{
        frame::{QueueType, RemoveQueue, ResetQueue, ResumeAll, SuspendAll},
        Failure,
    },
    trace,
};

/// Returns the type of a queue.
pub(super) fn queue_type(spec: &QueueSpec) -> QueueType {
    match spec.sdma {
        Some(_) => QueueType::Sdma,
        None => QueueType::Compute,
    }
}

/// Returns the REMOVE_QUEUE frame of a queue.
pub(super) fn remove_frame(queue: &DqmQueue) -> RemoveQueue {
    let state = queue.state.lock();
    RemoveQueue {
        queue_type: queue_type(&state.spec),
        doorbell: state.spec.doorbell,
        gang_context: queue.context(),
        after_reset: false,
    }
}

/// Records that MES does not have the queue any more.
pub(super) fn set_unmapped(gpu: &Gpu, queue: &DqmQueue) {
    let doorbell = {
        let mut state = queue.state.lock();
        state.mapped = false;
        state.spec.doorbell
    };
    trace::queue_map(gpu.id(), queue.slot().pid(), queue.qid(), doorbell, false);
}

/// Returns whether a frame failed because MES does not have its queue: `before` is the failure of
/// the frame before it, if there was one. Without a status that may have been executed.
fn is_gone(failure: Failure, before: Option<Failure>) -> bool {
    match failure {
        Failure::Status(e) => {
            before == Some(Failure::NoStatus) && e.category == abi::error_category::API
        }
        _ => false,
    }
}

/// Removes a queue whose REMOVE_QUEUE failed with `failure`. Queues that hang, perhaps others than
/// this one, are reset and marked as lost. Wedges the card when a step fails.
pub(super) fn remove(gpu: &Gpu, queues: &mut Queues, queue: &DqmQueue, failure: Failure) -> Result {
    let removed = if gpu.mes()?.has_hung_queues() {
        remove_suspended(gpu, queues, queue, Some(failure))
    } else {
        reset_and_lose(gpu, queues, queue, failure)
    };
    if removed.is_err() {
        gpu.wedge_by_scheduler("a queue was not removed");
    }
    removed
}

/// Removes a queue with an invalid packet (`kfd_dqm_suspend_bad_queue_mes()`). It is lost, with
/// others that hang, only if MES cannot preempt it. Wedges the card when a step fails.
pub(super) fn remove_invalid(gpu: &Gpu, queues: &mut Queues, queue: &DqmQueue) -> Result {
    let removed = remove_suspended(gpu, queues, queue, None);
    if removed.is_err() {
        gpu.wedge_by_scheduler("a queue with an invalid packet was not removed");
    }
    removed
}

/// Removes a queue while all are suspended. `before` is the failure of the last frame about it.
fn remove_suspended(
    gpu: &Gpu,
    queues: &mut Queues,
    queue: &DqmQueue,
    before: Option<Failure>,
) -> Result {
    let mes = gpu.mes()?;
    let removed = match mes.submit(gpu, &SuspendAll) {
        Ok(()) => Ok(()),
        Err(Failure::NotCompleted(e)) => return Err(e),
        // Queues hang.
        Err(_) => reset_hung(gpu, queues),
    }
    .and_then(|()| {
        // One of those.
        if !queue.state.lock().mapped {
            return Ok(());
        }
        match mes.submit(gpu, &remove_frame(queue)) {
            Ok(()) => {}
            Err(again) if is_gone(again, before) => {}
            Err(Failure::NotCompleted(e)) => return Err(e),
            Err(again) => return reset_and_lose(gpu, queues, queue, again),
        }
        set_unmapped(gpu, queue);
        Ok(())
    });
    // Idempotent: without a status it may have been executed.
    let resumed = mes.submit_again(gpu, &ResumeAll);
    removed.and(resumed.map_err(Error::from))
}

/// Resets the compute queues that were not preempted, by registers, and marks them as lost. MES
/// does not use their slots meanwhile.
fn reset_hung(gpu: &Gpu, queues: &mut Queues) -> Result {
    let mes = gpu.mes()?;
    let hqds = mes.find_hung_queues(gpu)?;
    for n in 0..hqds {
        let Some(hung) = mes.hung_queue(hqds, n)? else {
            continue;
        };
        let queue = queues.find_doorbell(hung.doorbell);
        let Some(queue) = queue.filter(|queue| queue.state.lock().spec.sdma.is_none()) else {
            dev_err!(gpu.dev(), "{hung:?} is not a compute queue of a process\n");
            continue;
        };
        let hal = gpu.generation().need_mes()?;
        hal.reset_queue(gpu.mmio()?, hung.pipe, hung.queue)?;
        remove_reset(gpu, &queue)?;
        set_unmapped(gpu, &queue);
        lose(gpu, queues, &queue);
    }
    Ok(())
}

/// Counts the reset of a queue, and marks it as lost, which ends its fences.
fn lose(gpu: &Gpu, queues: &mut Queues, queue: &DqmQueue) {
    gpu.queue_was_reset();
    queues.mark_lost(gpu, queue);
}

/// Removes a queue that was reset; sends REMOVE_QUEUE once more if it fails.
fn remove_reset(gpu: &Gpu, queue: &DqmQueue) -> Result<(), Failure> {
    let mes = gpu.mes()?;
    let frame = RemoveQueue {
        after_reset: mes.has_remove_after_reset(),
        ..remove_frame(queue)
    };
    match mes.submit(gpu, &frame) {
        Err(first @ (Failure::Status(_) | Failure::NoStatus)) => match mes.submit(gpu, &frame) {
            Err(e) if is_gone(e, Some(first)) => Ok(()),
            done => done,
        },
        done => done,
    }
}

fn reset_and_lose(gpu: &Gpu, queues: &mut Queues, queue: &DqmQueue, failure: Failure) -> Result {
    reset_by_mes(gpu, queue, failure)?;
    set_unmapped(gpu, queue);
    lose(gpu, queues, queue);
    Ok(())
}

/// Has MES reset and remove a queue, behind a frame that failed with `failure`. Wedges the card if
/// that fails.
pub(super) fn reset_by_mes(gpu: &Gpu, queue: &DqmQueue, failure: Failure) -> Result {
    let mes = gpu.mes()?;
    let frame = remove_frame(queue);
    let reset = ResetQueue {
        queue_type: frame.queue_type,
        doorbell: frame.doorbell,
    };
    let done = mes
        .submit(gpu, &reset)
        .and_then(|()| remove_reset(gpu, queue));
    match done {
        Ok(()) => Ok(()),
        Err(e) if is_gone(e, Some(failure)) => Ok(()),
        Err(e) => {
            gpu.wedge_by_scheduler("a queue was not reset");
            Err(e.into())
        }
    }
}
