// SPDX-License-Identifier: GPL-2.0

//! `CTX`: creates, destroys and queries contexts.

use kernel::prelude::*;

use crate::{
    drm::{
        ctx::{valid_priority, Ctx},
        file::{may_be_urgent, Render},
    },
    kapi::drm::{Device, File, Handler},
    uapi,
};

/// `CTX`: creates, destroys or queries a context.
pub(super) struct CtxOp;

impl Handler<Render> for CtxOp {
    type Arg = uapi::drm_amdgpu_ctx;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_CTX;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let data = file.data();
        data.gpu()?;
        let input = uapi::ctx_in(arg);
        let flags = match input.op {
            uapi::AMDGPU_CTX_OP_SET_STABLE_PSTATE => uapi::AMDGPU_CTX_STABLE_PSTATE_FLAGS_MASK,
            _ => 0,
        };
        if input.flags & !flags != 0 {
            return Err(EINVAL);
        }
        match input.op {
            uapi::AMDGPU_CTX_OP_ALLOC_CTX => {
                let priority = valid_priority(input.priority);
                if priority > uapi::AMDGPU_CTX_PRIORITY_NORMAL as i32 && !may_be_urgent(file) {
                    return Err(EACCES);
                }
                let ctx = Ctx::new(&data.partition, data.owner, &data.spent, priority)?;
                *arg = uapi::ctx_alloc_out(data.contexts.lock().insert(ctx)?);
            }
            uapi::AMDGPU_CTX_OP_FREE_CTX => {
                let ctx = data.contexts.lock().remove(input.ctx_id);
                // Dropped without the lock: this may wait until its jobs are scheduled.
                drop(ctx.ok_or(EINVAL)?);
            }
            uapi::AMDGPU_CTX_OP_QUERY_STATE => *arg = data.ctx(input.ctx_id)?.state(),
            uapi::AMDGPU_CTX_OP_QUERY_STATE2 => *arg = data.ctx(input.ctx_id)?.state2(),
            uapi::AMDGPU_CTX_OP_GET_STABLE_PSTATE => {
                data.ctx(input.ctx_id)?;
                *arg = uapi::ctx_pstate_out(uapi::AMDGPU_CTX_STABLE_PSTATE_NONE);
            }
            // The firmware of this hardware supports no stable power states.
            uapi::AMDGPU_CTX_OP_SET_STABLE_PSTATE => {
                data.ctx(input.ctx_id)?;
                if input.flags != uapi::AMDGPU_CTX_STABLE_PSTATE_NONE {
                    return Err(EINVAL);
                }
            }
            _ => return Err(EINVAL),
        }
        Ok(())
    }
}
