// SPDX-License-Identifier: GPL-2.0

//! `GEM_VA`: maps and unmaps buffers in the file's address space, apart from those that `/dev/kfd`
//! maps there.
//!
//! A mapping ends with an unmap, with the last handle of its buffer, or with the file. Page tables
//! are up to date when the ioctl returns: an unmap waits for submitted jobs that use the buffer.

use core::ops::Range;

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

use super::gem::lookup;
use crate::{
    drm::{
        file::{FileData, Render},
        mappings::{wait_for_jobs, Mapping},
        syncobj_signal::SyncobjSignal,
        user,
    },
    hw::Mtype,
    kapi::{
        drm::{Device, File, Handler},
        fence::{Fence, Timeout},
        syncobj,
    },
    mmu::{addresses, gem::Object, Access},
    uapi,
};

/// The checked arguments of the ioctl: addresses and sizes in bytes.
struct VaArgs {
    va: u64,
    len: u64,
    offset: u64,
    access: Access,
}

impl VaArgs {
    fn range(&self) -> Range<u64> {
        self.va..self.va + self.len
    }

    fn mapping(&self, object: ARef<Object>) -> Mapping {
        Mapping {
            va: self.va,
            len: self.len,
            offset: self.offset,
            access: self.access,
            object,
        }
    }
}

/// Flags that are accepted. Caching follows from the buffer, but for `MTYPE_UC`; `NOALLOC` has no
/// effect.
const FLAGS: u32 = uapi::AMDGPU_VM_DELAY_UPDATE
    | uapi::AMDGPU_VM_PAGE_READABLE
    | uapi::AMDGPU_VM_PAGE_WRITEABLE
    | uapi::AMDGPU_VM_PAGE_EXECUTABLE
    | uapi::AMDGPU_VM_MTYPE_MASK
    | uapi::AMDGPU_VM_PAGE_NOALLOC;

/// Waits for the input fences. `EINVAL` for handle 0, `ERESTARTSYS` if a signal arrives.
fn wait_for_input(file: &File<Render>, arg: &uapi::drm_amdgpu_gem_va) -> Result {
    if arg.num_syncobj_handles == 0 {
        return Ok(());
    }
    let handles: KVec<u32> =
        user::read_array(arg.input_fence_syncobj_handles, arg.num_syncobj_handles)?;
    for handle in handles {
        if handle == 0 {
            return Err(EINVAL);
        }
        syncobj::find_fence(file, handle, 0, 0)?.wait_interruptible(Timeout::FOREVER)?;
    }
    Ok(())
}

/// Returns `ENOENT` if the handle of an object was closed meanwhile. With the lock of the mappings
/// held: a later close removes them.
fn check_handle(file: &File<Render>, handle: u32, object: &Object) -> Result {
    if lookup(file, handle)?.key() != object.key() {
        return Err(ENOENT);
    }
    Ok(())
}

/// Does the operation on the object of a handle. `EINVAL` if its arguments are malformed, `ENOENT`
/// for a mapping that does not exist.
fn apply(
    file: &File<Render>,
    operation: u32,
    handle: u32,
    object: Option<ARef<Object>>,
    input: &VaArgs,
) -> Result {
    let data: &Arc<FileData> = file.data();
    let vm = data.vm()?;
    match (operation, object) {
        (uapi::AMDGPU_VA_OP_MAP, Some(object)) => {
            let mut mappings = data.mappings.lock();
            check_handle(file, handle, &object)?;
            mappings.map(&vm, input.mapping(object))
        }
        (uapi::AMDGPU_VA_OP_UNMAP, Some(object)) => {
            wait_for_jobs(&object, true)?;
            data.mappings
                .lock()
                .unmap(&vm, &data.queues, &object, input.va)
        }
        (uapi::AMDGPU_VA_OP_CLEAR | uapi::AMDGPU_VA_OP_REPLACE, object) => {
            let page = kernel::page::PAGE_SIZE as u64;
            let range = input.range();
            if input.len == 0 || range.start % page != 0 || range.end % page != 0 {
                return Err(EINVAL);
            }
            if let Some(object) = &object {
                let end = input.offset.checked_add(input.len).ok_or(EINVAL)?;
                if input.offset % page != 0 || end > object.bo().size() {
                    return Err(EINVAL);
                }
            }
            let objects = data.mappings.lock().objects(&range)?;
            for object in objects {
                wait_for_jobs(&object, true)?;
            }
            let mut mappings = data.mappings.lock();
            if let Some(object) = &object {
                check_handle(file, handle, object)?;
            }
            match object {
                Some(object) => mappings.replace(&vm, &data.queues, input.mapping(object)),
                None => mappings.clear(&vm, &data.queues, &range),
            }
        }
        _ => Err(EINVAL),
    }
}

/// `GEM_VA`.
pub(super) struct Va;

impl Handler<Render> for Va {
    type Arg = uapi::drm_amdgpu_gem_va;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_GEM_VA;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let range = addresses::checked(arg.va_address, arg.map_size)?;
        let delayed = arg.flags & uapi::AMDGPU_VM_DELAY_UPDATE != 0;
        if arg.flags & !FLAGS != 0
            || !(uapi::AMDGPU_VA_OP_MAP..=uapi::AMDGPU_VA_OP_REPLACE).contains(&arg.operation)
            || (delayed && arg.vm_timeline_syncobj_out != 0)
        {
            return Err(EINVAL);
        }
        let object = match arg.operation {
            uapi::AMDGPU_VA_OP_CLEAR => None,
            _ => Some(lookup(file, arg.handle)?),
        };
        wait_for_input(file, arg)?;
        let signal = match arg.vm_timeline_syncobj_out {
            0 => None,
            handle => Some(SyncobjSignal::new(
                file,
                handle,
                arg.vm_timeline_point,
                ENOENT,
            )?),
        };
        let has = |flag| arg.flags & flag != 0;
        let input = VaArgs {
            va: range.start,
            len: arg.map_size,
            offset: arg.offset_in_bo,
            access: Access {
                read: has(uapi::AMDGPU_VM_PAGE_READABLE),
                write: has(uapi::AMDGPU_VM_PAGE_WRITEABLE),
                exec: has(uapi::AMDGPU_VM_PAGE_EXECUTABLE),
                mtype: match arg.flags & uapi::AMDGPU_VM_MTYPE_MASK {
                    uapi::AMDGPU_VM_MTYPE_RW | uapi::AMDGPU_VM_MTYPE_WC => Mtype::ReadWrite,
                    uapi::AMDGPU_VM_MTYPE_CC => Mtype::Coherent,
                    uapi::AMDGPU_VM_MTYPE_UC => Mtype::Uncached,
                    _ => Mtype::NonCoherent,
                },
            },
        };
        apply(file, arg.operation, arg.handle, object, &input)?;
        // Page tables are updated already: a signaled fence.
        if let Some(signal) = signal {
            signal.signal_with(&Fence::stub());
        }
        Ok(())
    }
}
