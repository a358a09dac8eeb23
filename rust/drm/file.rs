// SPDX-License-Identifier: GPL-2.0

//! An open file of a render node: its partition, contexts, BO lists, address space and mappings.

use kernel::{
    fs, new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
    time::{Instant, Monotonic},
};

use super::{
    bo_list::BoList,
    ctx::Ctx,
    ctx_entity::{CtxEntity, Spent},
    mappings::{self, Mappings},
    partition::{FilePartition, Partitions},
    userq::UserQueues,
};
use crate::{
    gpu::Gpu,
    kapi::{
        capability::{capable, Capability},
        drm,
        fence::Timeout,
        handle_table::HandleTable,
        task,
    },
    mmu::Vm,
    process::FileVm,
};

/// The DRM driver; [`super::device`] implements its operations.
pub(super) struct Render;

/// Returns whether contexts and queues of a file may have a high priority: its task has
/// `CAP_SYS_NICE`, or it is the DRM master (`amdgpu_ctx_priority_permit`).
pub(super) fn may_be_urgent(file: &drm::File<Render>) -> bool {
    capable(Capability::SysNice) || file.is_master()
}

/// Driver data of an open file.
#[pin_data]
pub(super) struct FileData {
    // Field order: jobs and queues are dropped before the buffers and the address space that they
    // use.
    #[pin]
    pub(super) contexts: Mutex<HandleTable<Arc<Ctx>>>,
    #[pin]
    pub(super) bo_lists: Mutex<HandleTable<Arc<BoList>>>,
    /// Client id of the file, and owner of its fences, see [`crate::kapi::fence::Fence::owner`].
    pub(super) owner: usize,
    /// Time of jobs that no entity keeps any more.
    pub(super) spent: Arc<Spent>,
    /// Taken after `mappings`, before the lock of the address space and those of the queue manager.
    #[pin]
    pub(super) queues: Mutex<UserQueues>,
    pub(super) partition: Arc<FilePartition>,
    /// Created on first use: most files only query the device.
    #[pin]
    vm: Mutex<Option<Arc<Vm>>>,
    /// Taken before the lock of the address space.
    #[pin]
    pub(super) mappings: Mutex<Mappings>,
}

/// Time that closing a descriptor waits for all jobs of the file, in milliseconds
/// (`MAX_WAIT_SCHED_ENTITY_Q_EMPTY`, `gpu_scheduler.h`).
const FLUSH_MS: u32 = 1000;

/// A point in time up to which several waits may take.
struct Deadline {
    start: Instant<Monotonic>,
    ms: u32,
}

impl Deadline {
    /// Returns the point `ms` milliseconds from now.
    fn after_ms(ms: u32) -> Self {
        let start = Instant::now();
        Self { start, ms }
    }

    /// Returns the time that is left.
    fn remaining(&self) -> Timeout {
        let elapsed = u32::try_from(self.start.elapsed().as_millis()).unwrap_or(u32::MAX);
        Timeout::from_ms(self.ms.saturating_sub(elapsed))
    }
}

impl FileData {
    /// Returns the data of the new file `client_id` of a partition, `None` for that of a primary
    /// node. `ENOMEM` without memory.
    pub(super) fn new(
        partitions: &Arc<Partitions>,
        index: Option<u32>,
        client_id: u64,
    ) -> Result<Arc<Self>> {
        let partition = FilePartition::new(partitions, index)?;
        let spent = Arc::new(Spent::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                contexts <- new_mutex!(HandleTable::new(1)),
                bo_lists <- new_mutex!(HandleTable::new(1)),
                owner: client_id as usize,
                spent,
                queues <- new_mutex!(UserQueues::new(), "rkfd_userqs"),
                partition,
                vm <- new_mutex!(None),
                mappings <- new_mutex!(Mappings::new()),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the GPU, or `ENODEV` once it is unplugged.
    pub(super) fn gpu(&self) -> Result<&Arc<Gpu>> {
        let gpu = self.partition.gpu();
        if gpu.is_unplugged() {
            return Err(ENODEV);
        }
        Ok(gpu)
    }

    /// Returns the address space, which the first call creates. `ENODEV` if the GPU is unplugged.
    pub(super) fn vm(&self) -> Result<Arc<Vm>> {
        let mut vm = self.vm.lock();
        if let Some(vm) = &*vm {
            return Ok(vm.clone());
        }
        let new = Vm::new(self.gpu()?, self.partition.memory())?;
        *vm = Some(new.clone());
        Ok(new)
    }

    /// Returns the address space if there is one.
    pub(super) fn existing_vm(&self) -> Option<Arc<Vm>> {
        self.vm.lock().clone()
    }

    /// Returns the time of the file's jobs on SDMA rings, in nanoseconds, that of a running job up
    /// to now. Incomplete once `SIGKILL` is pending.
    pub(super) fn dma_ns(&self) -> u64 {
        let mut ns = self.spent.ns();
        self.for_each_entity(|entity| ns += entity.ns());
        ns
    }

    /// Returns the context `handle`, or `EINVAL`.
    pub(super) fn ctx(&self, handle: u32) -> Result<Arc<Ctx>> {
        self.contexts.lock().get(handle).cloned().ok_or(EINVAL)
    }

    /// Waits for the jobs of the file: first until they are scheduled, then until they are
    /// finished (`amdgpu_flush`). Stops when the process is killed.
    pub(super) fn flush(&self) {
        let deadline = Deadline::after_ms(FLUSH_MS);
        self.for_each_entity(|entity| entity.flush(deadline.remaining()));
        let deadline = Deadline::after_ms(FLUSH_MS);
        self.for_each_entity(|entity| entity.wait_idle(deadline.remaining()));
    }

    /// Calls `f` for the entities of all contexts, until `SIGKILL` is pending. Without the lock of
    /// the contexts.
    fn for_each_entity(&self, mut f: impl FnMut(&CtxEntity)) {
        let mut from = 0;
        while !task::fatal_signal_pending() {
            let next = self
                .contexts
                .lock()
                .next(from)
                .map(|(h, ctx)| (h, ctx.clone()));
            let Some((handle, ctx)) = next else {
                return;
            };
            ctx.for_each_entity(&mut f);
            from = handle + 1;
        }
    }

    /// Removes the mappings of a GEM object whose last handle in this file is closed, unless it
    /// `has_handle` again.
    pub(super) fn unmap_closed(&self, object: usize, has_handle: impl FnOnce() -> bool) {
        let Some(vm) = self.existing_vm() else {
            return;
        };
        let mapped = self.mappings.lock().find(object);
        if let Some(mapped) = mapped {
            // Not interruptible: the mapping must not go before the jobs that use it.
            let _ = mappings::wait_for_jobs(&mapped, false);
            let mut mappings = self.mappings.lock();
            if !has_handle() {
                mappings.remove_object(&vm, &self.queues, object);
            }
        }
    }
}

/// Returns the address space of an open file; `EINVAL` if it is no file of `gpu`, `ENODEV` if the
/// GPU is unplugged. As in the C driver, files of all partitions are accepted.
pub(crate) fn vm_of_file(file: &fs::File, gpu: &Gpu) -> Result<FileVm> {
    let file = drm::File::<Render>::of(file).ok_or(EINVAL)?;
    let data = file.data();
    if !core::ptr::eq(&**data.partition.gpu(), gpu) {
        return Err(EINVAL);
    }
    Ok(FileVm {
        vm: data.vm()?,
        memory: data.partition.node().map(|node| node.memory().clone()),
        partition: data.partition.index(),
    })
}
