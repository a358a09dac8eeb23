// SPDX-License-Identifier: GPL-2.0

//! `CREATE_QUEUE`, `DESTROY_QUEUE`, `UPDATE_QUEUE`, `SET_CU_MASK`, `GET_QUEUE_WAVE_STATE`.

use kernel::{error::Error, prelude::*, sync::Arc};

use super::user;
use crate::{
    dqm::SdmaWanted,
    hw::{QueueFormat, QueueSpec},
    process::{mmap, Process},
    queue::{self, Change, Engine, Kind, Place, Properties},
    trace::Steps,
    uapi::*,
};

/// Most compute units that a mask may name; what is beyond is ignored.
const MAX_CUS: u32 = 1024;
/// The errno that the C driver gives for an unknown type; user space sees it as number 524.
const ENOTSUPP: Error = kernel::error::code::ENOTSUPP;

/// Share and XCC come in one word.
fn share(word: u32) -> (u32, u8) {
    (word & 0xff, (word >> 8 & 0xff) as u8)
}

/// What creating and updating have in common; returns the ring's size.
fn check_ring(ring_va: u64, ring_size: u32, percentage: u32, priority: u32) -> Result<u32> {
    if share(percentage).0 > KFD_MAX_QUEUE_PERCENTAGE || priority > KFD_MAX_QUEUE_PRIORITY {
        return Err(EINVAL);
    }
    if ring_va != 0 {
        user::access_ok(ring_va, 8)?;
    }
    if ring_size != 0 && !ring_size.is_power_of_two() {
        return Err(EINVAL);
    }
    Ok(ring_size.max(KFD_MIN_QUEUE_RING_SIZE))
}

fn engine(args: &kfd_ioctl_create_queue_args) -> Result<Engine> {
    Ok(match args.queue_type {
        KFD_IOC_QUEUE_TYPE_COMPUTE | KFD_IOC_QUEUE_TYPE_COMPUTE_AQL => Engine::Compute,
        KFD_IOC_QUEUE_TYPE_SDMA => Engine::Sdma(SdmaWanted::Pcie),
        KFD_IOC_QUEUE_TYPE_SDMA_XGMI => Engine::Sdma(SdmaWanted::Xgmi),
        KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID => Engine::Sdma(SdmaWanted::Engine(args.sdma_engine_id)),
        _ => return Err(ENOTSUPP),
    })
}

/// What sysfs calls a kind of queue.
fn shown_kind(kind: Kind) -> u32 {
    // The C driver's own numbers, which are not those of CREATE_QUEUE.
    match kind {
        Kind::Compute => 0,
        Kind::Sdma => 1,
        Kind::SdmaXgmi => 3,
    }
}

/// Checks what needs no look at the process.
fn properties(args: &mut kfd_ioctl_create_queue_args) -> Result<Properties> {
    let ring_size = check_ring(
        args.ring_base_address,
        args.ring_size,
        args.queue_percentage,
        args.queue_priority,
    )?;
    args.ring_size = ring_size;
    if args.metadata_ring_size != 0 && !args.metadata_ring_size.is_power_of_two() {
        return Err(EINVAL);
    }
    user::access_ok(args.read_pointer_address, 4)?;
    user::access_ok(args.write_pointer_address, 4)?;
    for optional in [args.eop_buffer_address, args.ctx_save_restore_address] {
        if optional != 0 {
            user::access_ok(optional, 4)?;
        }
    }
    let engine = engine(args)?;
    let (percent, pm4_target_xcc) = share(args.queue_percentage);
    let is_aql = args.queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
    Ok(Properties {
        engine,
        spec: QueueSpec {
            format: if is_aql {
                QueueFormat::Aql
            } else {
                QueueFormat::Pm4
            },
            sdma: None,
            ring_va: args.ring_base_address,
            ring_size,
            rptr_va: args.read_pointer_address,
            wptr_va: args.write_pointer_address,
            wptr_kernel: 0,
            eop_va: args.eop_buffer_address,
            // The C driver keeps 32 bits of it, too.
            eop_size: args.eop_buffer_size as u32,
            cwsr_va: args.ctx_save_restore_address,
            cwsr_size: args.ctx_save_restore_size,
            ctl_stack_size: args.ctl_stack_size,
            tba: 0,
            priority: args.queue_priority as u8,
            percent: percent as u8,
            doorbell: 0,
            gws: false,
            pm4_target_xcc,
        },
        metadata_size: if is_aql { args.metadata_ring_size } else { 0 },
    })
}

pub(super) fn create(process: &Arc<Process>, args: &mut kfd_ioctl_create_queue_args) -> Result {
    let mut steps = Steps::start(process.pid());
    let mut properties = properties(args)?;
    steps.mark(queue::NO_ID, c"validate");

    let mut state = process.lock()?;
    let device = process.device(args.gpu_id)?;
    let gpu = device.gpu();
    let (vm, slot) = (device.vm(), device.slot());
    let (vm, slot) = (vm.map_err(|_| ESRCH)?, slot.map_err(|_| ESRCH)?);
    if let Engine::Sdma(SdmaWanted::Engine(engine)) = properties.engine {
        if engine >= gpu.config().num_sdma {
            return Err(EINVAL);
        }
    }
    properties.spec.tba = slot.trap_handler();
    steps.mark(queue::NO_ID, c"bind");

    let place = Place {
        gpu: gpu.clone(),
        vm,
        doorbells: device.doorbells()?,
        slot,
    };
    let shown_size = u64::from(args.ring_size);
    let created = queue::create(&mut state.queues, place, properties, &mut steps)?;
    process.show_queue(
        created.id,
        args.gpu_id,
        shown_kind(created.kind),
        shown_size,
    );
    drop(state);
    args.queue_id = created.id;
    args.doorbell_offset =
        mmap::TYPE_DOORBELL | mmap::gpu_id(args.gpu_id) | created.doorbell as u64;
    Ok(())
}

pub(super) fn destroy(process: &Arc<Process>, args: &mut kfd_ioctl_destroy_queue_args) -> Result {
    let mut steps = Steps::start(process.pid());
    // What they are written to may be freed when this returns.
    let _held = process.hold_exceptions()?;
    let mut state = process.lock()?;
    let result = state.queues.destroy(args.queue_id);
    if state.queues.get(args.queue_id).is_none() {
        process.hide_queue(args.queue_id);
    }
    drop(state);
    steps.mark(args.queue_id, c"destroy");
    result
}

pub(super) fn update(process: &Arc<Process>, args: &mut kfd_ioctl_update_queue_args) -> Result {
    let ring_size = check_ring(
        args.ring_base_address,
        args.ring_size,
        args.queue_percentage,
        args.queue_priority,
    )?;
    args.ring_size = ring_size;
    let (percent, pm4_target_xcc) = share(args.queue_percentage);
    let mut steps = Steps::start(process.pid());
    let mut state = process.lock()?;
    let queue = state.queues.get_mut(args.queue_id).ok_or(EFAULT)?;
    queue.update(&Change {
        ring_va: args.ring_base_address,
        ring_size,
        percent: percent as u8,
        priority: args.queue_priority as u8,
        pm4_target_xcc,
    })?;
    steps.mark(args.queue_id, c"update");
    Ok(())
}

pub(super) fn set_cu_mask(process: &Arc<Process>, args: &mut kfd_ioctl_set_cu_mask_args) -> Result {
    if args.num_cu_mask % u32::BITS != 0 || args.num_cu_mask == 0 {
        return Err(EINVAL);
    }
    let words = args.num_cu_mask.min(MAX_CUS) / u32::BITS;
    let mask = user::read_u32s(args.cu_mask_ptr, words as usize)?;
    let mut state = process.lock()?;
    let queue = state.queues.get_mut(args.queue_id).ok_or(EFAULT)?;
    queue.set_cu_mask(&mask)
}

pub(super) fn alloc_gws(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_alloc_queue_gws_args,
) -> Result {
    let mut state = process.lock()?;
    queue::set_gws(&mut state.queues, args.queue_id, args.num_gws != 0)?;
    args.first_gws = 0;
    Ok(())
}

/// Only a queue that was preempted into its context save area has a state to show, and without a
/// trap handler that saves none ever is.
pub(super) fn get_wave_state(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_get_queue_wave_state_args,
) -> Result {
    let state = process.lock()?;
    state.queues.get(args.queue_id).ok_or(EFAULT)?;
    Err(EINVAL)
}
