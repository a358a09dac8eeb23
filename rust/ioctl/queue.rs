// SPDX-License-Identifier: GPL-2.0

//! `CREATE_QUEUE`, `DESTROY_QUEUE`, `UPDATE_QUEUE`, `SET_CU_MASK`, `GET_QUEUE_WAVE_STATE`.

use kernel::{
    error::Error,
    num::casts::{u32_as_usize, usize_as_u64},
    prelude::*,
    sync::Arc,
};

use super::user;
use crate::{
    dqm::SdmaEngineChoice,
    hw::QueueFormat,
    process::{mmap, Process},
    queue::{
        self, Exceptions, QueueEngine, QueueKind, QueueRequest, QueueTarget, QueueUpdate,
        SharedMemory,
    },
    trace::Steps,
    uapi::*,
};

/// Bits of a CU mask that are used; the rest is ignored (`max_num_cus` in the C driver).
const MAX_CUS: u32 = 1024;
/// Errno of the C driver for an unknown queue type. Not an errno of user space, which gets 524.
const ENOTSUPP: Error = kernel::error::code::ENOTSUPP;

/// Share, target XCC and priority of CREATE_QUEUE and UPDATE_QUEUE.
struct Share {
    percent: u8,
    pm4_target_xcc: u8,
    priority: u8,
}

impl Share {
    /// Decodes `queue_percentage` (share in bits 7:0, XCC in bits 15:8) and the priority. `EINVAL`
    /// above 100 % or priority 15.
    fn new(percentage: u32, priority: u32) -> Result<Self> {
        let [percent, pm4_target_xcc, ..] = percentage.to_le_bytes();
        if u32::from(percent) > KFD_MAX_QUEUE_PERCENTAGE || priority > KFD_MAX_QUEUE_PRIORITY {
            return Err(EINVAL);
        }
        Ok(Self {
            percent,
            pm4_target_xcc,
            priority: u8::try_from(priority)?,
        })
    }
}

/// Returns the size of the ring in bytes, at least `KFD_MIN_QUEUE_RING_SIZE`. `EFAULT` if the
/// address is no user address, `EINVAL` if the size is no power of two.
fn check_ring(ring_va: u64, ring_size: u32) -> Result<u32> {
    if ring_va != 0 {
        user::access_ok(ring_va, 8)?;
    }
    if ring_size != 0 && !ring_size.is_power_of_two() {
        return Err(EINVAL);
    }
    Ok(ring_size.max(KFD_MIN_QUEUE_RING_SIZE))
}

/// Returns the requested engine type; `ENOTSUPP` for an unknown queue type.
fn engine(args: &kfd_ioctl_create_queue_args) -> Result<QueueEngine> {
    Ok(match args.queue_type {
        KFD_IOC_QUEUE_TYPE_COMPUTE | KFD_IOC_QUEUE_TYPE_COMPUTE_AQL => QueueEngine::Compute,
        KFD_IOC_QUEUE_TYPE_SDMA => QueueEngine::Sdma(SdmaEngineChoice::Pcie),
        KFD_IOC_QUEUE_TYPE_SDMA_XGMI => QueueEngine::Sdma(SdmaEngineChoice::Xgmi),
        KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID => {
            QueueEngine::Sdma(SdmaEngineChoice::Engine(args.sdma_engine_id))
        }
        _ => return Err(ENOTSUPP),
    })
}

/// Returns the queue type in sysfs: `enum kfd_queue_type`, which differs from
/// `KFD_IOC_QUEUE_TYPE_*`.
fn sysfs_type(kind: QueueKind) -> u32 {
    match kind {
        QueueKind::Compute => 0,
        QueueKind::Sdma => 1,
        QueueKind::SdmaXgmi => 3,
    }
}

/// Checks the arguments of CREATE_QUEUE as far as they do not depend on the process
/// (`set_queue_properties_from_user()`), and rounds up the ring size in them.
fn queue_request(args: &mut kfd_ioctl_create_queue_args) -> Result<QueueRequest> {
    let share = Share::new(args.queue_percentage, args.queue_priority)?;
    args.ring_size = check_ring(args.ring_base_address, args.ring_size)?;
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
    let is_aql = args.queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
    Ok(QueueRequest {
        engine,
        format: if is_aql {
            QueueFormat::Aql
        } else {
            QueueFormat::Pm4
        },
        ring_va: args.ring_base_address,
        ring_size: args.ring_size,
        metadata_size: if is_aql { args.metadata_ring_size } else { 0 },
        rptr_va: args.read_pointer_address,
        wptr_va: args.write_pointer_address,
        eop_va: args.eop_buffer_address,
        // CAST: Truncated as `queue_properties.eop_ring_buffer_size` of the C driver.
        eop_size: args.eop_buffer_size as u32,
        cwsr_va: args.ctx_save_restore_address,
        cwsr_size: args.ctx_save_restore_size,
        ctl_stack_size: args.ctl_stack_size,
        priority: share.priority,
        percent: share.percent,
        pm4_target_xcc: share.pm4_target_xcc,
    })
}

/// `CREATE_QUEUE`.
///
/// `EINVAL` for invalid arguments or buffers, `EFAULT` for addresses outside of user space,
/// `ENOTSUPP` for an unknown queue type, `ESRCH` before `ACQUIRE_VM`, otherwise as
/// [`queue::QueueTable::create`].
pub(super) fn create(process: &Arc<Process>, args: &mut kfd_ioctl_create_queue_args) -> Result {
    let mut steps = Steps::start(process.pid());
    let request = queue_request(args)?;
    steps.mark(queue::NO_ID, c"validate");

    let mut state = process.lock()?;
    let device = process.device(args.gpu_id)?;
    let (vm, slot) = (device.vm(), device.slot());
    let (vm, slot) = (vm.map_err(|_| ESRCH)?, slot.map_err(|_| ESRCH)?);
    if let QueueEngine::Sdma(SdmaEngineChoice::Engine(engine)) = request.engine {
        if engine >= device.node().sdma().count {
            return Err(EINVAL);
        }
    }
    steps.mark(queue::NO_ID, c"bind");

    let target = QueueTarget {
        node: device.node().clone(),
        vm,
        doorbells: device.doorbells()?,
        slot,
        exceptions: device.exceptions().ok_or(ESRCH)?.clone(),
        shared: SharedMemory {
            svm: process.svm().clone(),
            gpu: process.gpu_index(args.gpu_id)?,
        },
    };
    let created = state.queues.create(target, &request, &mut steps)?;
    process.show_queue(
        created.id,
        args.gpu_id,
        sysfs_type(created.kind),
        u64::from(request.ring_size),
    );
    if let Some(queue) = state.queues.get(created.id) {
        process.raise_of_queue(device, queue.doorbell_id(), Exceptions::QUEUE_NEW);
    }
    drop(state);
    args.queue_id = created.id;
    args.doorbell_offset =
        mmap::TYPE_DOORBELL | mmap::gpu_id(args.gpu_id) | usize_as_u64(created.doorbell);
    Ok(())
}

/// `DESTROY_QUEUE`. Waits while a debugger suspends the queue. `EINVAL` without such a queue,
/// `EBUSY` if another thread waits for it or has done so, `ERESTARTSYS` after a signal; any other
/// error means that the queue is destroyed and the hardware did not confirm it.
pub(super) fn destroy(process: &Arc<Process>, args: &mut kfd_ioctl_destroy_queue_args) -> Result {
    let mut steps = Steps::start(process.pid());
    let id = args.queue_id;
    let mut waited_for = None;
    let (_held, mut state) = loop {
        // User space may free the exception payload of the queue when this returns.
        let held = process.hold_exceptions();
        let mut state = process.lock()?;
        let queue = state.queues.get_mut(id).ok_or(EINVAL)?;
        match &waited_for {
            None if queue.is_destroying() => return Err(EBUSY),
            // Another queue has the id.
            Some(hw) if !Arc::ptr_eq(hw, queue.hw()) => return Err(EINVAL),
            _ => {}
        }
        let held = held.inspect_err(|_| queue.set_destroying(false))?;
        if !queue.hw().is_suspended() {
            break (held, state);
        }
        drop(held);
        // Until it is destroyed: it is not suspended again.
        queue.set_destroying(true);
        let hw = queue.hw().clone();
        let interrupted = process.queues_resumed().wait_interruptible(&mut state);
        if interrupted {
            let queue = state.queues.get_mut(id);
            if let Some(queue) = queue.filter(|queue| Arc::ptr_eq(&hw, queue.hw())) {
                queue.set_destroying(false);
            }
            return Err(ERESTARTSYS);
        }
        waited_for = Some(hw);
    };
    drop(waited_for);
    let gpu_id = state.queues.get(id).map(|queue| queue.node().id());
    let result = state.queues.destroy(id);
    if state.queues.get(id).is_none() {
        process.hide_queue(id);
    }
    drop(state);
    if let Some(device) = gpu_id.and_then(|id| process.device(id).ok()) {
        process.raise_of_device(device, Exceptions::QUEUE_DELETE);
    }
    steps.mark(id, c"destroy");
    result
}

/// `UPDATE_QUEUE`. `EFAULT` without such a queue, otherwise as [`queue::QueueUpdate`] is applied.
pub(super) fn update(process: &Arc<Process>, args: &mut kfd_ioctl_update_queue_args) -> Result {
    let share = Share::new(args.queue_percentage, args.queue_priority)?;
    args.ring_size = check_ring(args.ring_base_address, args.ring_size)?;
    let mut steps = Steps::start(process.pid());
    let mut state = process.lock()?;
    let queue = state.queues.get_mut(args.queue_id).ok_or(EFAULT)?;
    queue.update(&QueueUpdate {
        ring_va: args.ring_base_address,
        ring_size: args.ring_size,
        percent: share.percent,
        priority: share.priority,
        pm4_target_xcc: share.pm4_target_xcc,
    })?;
    process.resize_queue(args.queue_id, queue.spec().ring_size.into());
    steps.mark(args.queue_id, c"update");
    Ok(())
}

/// `SET_CU_MASK`. `EINVAL` if the number of bits is 0 or no multiple of 32, or the mask splits a
/// WGP; `EFAULT` without such a queue or if the mask cannot be read.
pub(super) fn set_cu_mask(process: &Arc<Process>, args: &mut kfd_ioctl_set_cu_mask_args) -> Result {
    if args.num_cu_mask % u32::BITS != 0 || args.num_cu_mask == 0 {
        return Err(EINVAL);
    }
    let words = args.num_cu_mask.min(MAX_CUS) / u32::BITS;
    let mask = user::read_u32s(args.cu_mask_ptr, u32_as_usize(words))?;
    let mut state = process.lock()?;
    let queue = state.queues.get_mut(args.queue_id).ok_or(EFAULT)?;
    queue.set_cu_mask(&mask)
}

/// `ALLOC_QUEUE_GWS`, see [`queue::QueueTable::set_gws`].
pub(super) fn alloc_gws(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_alloc_queue_gws_args,
) -> Result {
    let mut state = process.lock()?;
    state.queues.set_gws(args.queue_id, args.num_gws != 0)?;
    args.first_gws = 0;
    Ok(())
}

/// `GET_QUEUE_WAVE_STATE`. Writes a header per XCC, and the control stack if the hardware has it
/// elsewhere. `EFAULT` without such a queue or if they cannot be written, `EINVAL` for an SDMA
/// queue or if the queue is active.
pub(super) fn get_wave_state(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_get_queue_wave_state_args,
) -> Result {
    let waves = {
        let state = process.lock()?;
        let queue = state.queues.get(args.queue_id).ok_or(EFAULT)?;
        queue.wave_state(args.ctl_stack_address)?
    };
    for saved in &waves.words {
        user::write_u32s(saved.at, &saved.words)?;
    }
    args.ctl_stack_used_size = waves.stack_used;
    args.save_area_used_size = waves.state_used;
    Ok(())
}
