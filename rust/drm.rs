// SPDX-License-Identifier: GPL-2.0

//! The render nodes, as far as compute user space needs them: device queries, GEM buffers, the
//! address space that `ACQUIRE_VM` shares with `/dev/kfd`, and command submission to the SDMA
//! engines.
//!
//! Name, version and ioctl numbers are those of amdgpu, which libdrm_amdgpu requires. Ioctls of
//! amdgpu that are missing here (userptr BOs, ...) fail with `EINVAL`, as the DRM
//! core does for an unknown ioctl.
//!
//! The parts, each of which uses only those before it:
//!
//! | file | part |
//! |---|---|
//! | `user`, `dependencies`, `syncobj_signal`, `userq_fence` | helpers |
//! | `partition`, `ctx_entity`, `ctx`, `bo_list`, `userq`, `mappings` | objects of an open file |
//! | `file`, `fdinfo` | the open file, and its `/proc/PID/fdinfo` |
//! | `ioctl` | one handler for each ioctl |
//! | `device` | driver table, registration |

mod bo_list;
mod ctx;
mod ctx_entity;
mod dependencies;
mod device;
mod fdinfo;
mod file;
mod ioctl;
mod mappings;
mod partition;
mod syncobj_signal;
mod user;
mod userq;
mod userq_fence;

pub(crate) use device::{init, RenderNode, RenderNodes};
pub(crate) use file::vm_of_file;
