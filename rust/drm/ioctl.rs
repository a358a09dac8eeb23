// SPDX-License-Identifier: GPL-2.0

//! The table of the render node's ioctls.

use super::file::Render;
use crate::{
    kapi::drm::{ioctl_table, Ioctl},
    uapi,
};

mod bo_list;
mod cs;
mod ctx;
mod gem;
mod info;
mod userq;
mod userq_sync;
mod va;
mod wait;

/// One entry for each ioctl number up to the highest of amdgpu.
const NUM_IOCTLS: usize = uapi::DRM_AMDGPU_PROC_OPTIONS as usize + 1;

/// All ioctls by number.
pub(super) static IOCTLS: [Ioctl<Render>; NUM_IOCTLS] = ioctl_table([
    Ioctl::new::<Render, info::Info>(),
    Ioctl::new::<Render, bo_list::BoListOp>(),
    Ioctl::new::<Render, ctx::CtxOp>(),
    Ioctl::new::<Render, cs::Submit>(),
    Ioctl::new::<Render, wait::WaitCs>(),
    Ioctl::new::<Render, wait::WaitFences>(),
    Ioctl::new::<Render, wait::FenceToHandle>(),
    Ioctl::new::<Render, gem::Create>(),
    Ioctl::new::<Render, gem::Mmap>(),
    Ioctl::new::<Render, gem::Metadata>(),
    Ioctl::new::<Render, gem::WaitIdle>(),
    Ioctl::new::<Render, va::Va>(),
    Ioctl::new::<Render, gem::Op>(),
    Ioctl::new::<Render, userq::UserQueueOp>(),
    Ioctl::new::<Render, userq_sync::Signal>(),
    Ioctl::new::<Render, userq_sync::Wait>(),
]);
