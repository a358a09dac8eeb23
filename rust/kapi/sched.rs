// SPDX-License-Identifier: GPL-2.0

//! DRM GPU scheduler: jobs are pushed to entities, wait for their dependencies, and run on the
//! hardware queue of a scheduler.
//!
//! Ownership: a job and its entity hold all schedulers of the entity. A scheduler is therefore
//! dropped without jobs and without entities. The payload of a job is dropped on the work queue of
//! [`WorkqueueGuard`], never by the scheduler's worker: its `Drop` may take any lock and may sleep.
//!
//! [`JobOps`] is shaped like the job trait of the abstractions proposed for `kernel::drm::sched`
//! (`prepare`, `run`, `timed_out`), so that a driver can move over to them.
//!
//! C header: [`include/drm/gpu_scheduler.h`](srctree/include/drm/gpu_scheduler.h)
//!
//! # Examples
//!
//! ```ignore
//! struct Copy { packets: KVec<u32> }
//!
//! #[vtable]
//! impl sched::JobOps for Copy {
//!     type Queue = Ring;
//!
//!     fn run(&mut self, ring: &Ring) -> Result<ARef<Fence>> {
//!         ring.submit(&self.packets)
//!     }
//!
//!     fn timed_out(&mut self, ring: &Ring) {
//!         ring.reset();
//!     }
//! }
//!
//! let scheduler = Scheduler::new(c"sdma0", 64, Timeout::from_ms(10_000), dev, ring)?;
//! let entity = Entity::new(Priority::Normal, &[scheduler], 0)?;
//! let mut job = Job::new(&entity, 1, Copy { packets })?;
//! job.add_dependency(fence)?;
//! let done = job.arm().push();
//! done.wait();
//! ```

mod entity;
mod held;
mod job;
mod reaper;
mod scheduler;

pub(super) use self::reaper::Reaper;
pub(crate) use self::{
    entity::{Entity, Priority},
    held::Holder,
    job::Job,
    reaper::WorkqueueGuard,
    scheduler::{JobOps, Prepare, Scheduler},
};

use crate::bindings as ours;

// bindgen replaces unions of types that it does not follow: the sizes must be those of C.
const _: () = {
    assert!(size_of::<ours::drm_sched_entity>() == ours::SIZEOF_DRM_SCHED_ENTITY as usize);
    assert!(size_of::<ours::drm_sched_fence>() == ours::SIZEOF_DRM_SCHED_FENCE as usize);
    assert!(size_of::<ours::drm_sched_job>() == ours::SIZEOF_DRM_SCHED_JOB as usize);
    assert!(size_of::<ours::drm_gpu_scheduler>() == ours::SIZEOF_DRM_GPU_SCHEDULER as usize);
};
