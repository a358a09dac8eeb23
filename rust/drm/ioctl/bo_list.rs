// SPDX-License-Identifier: GPL-2.0

//! `BO_LIST`: creates, replaces and destroys BO lists.

use kernel::{prelude::*, sync::Arc};

use super::gem;
use crate::{
    drm::{
        bo_list::{BoList, Entry},
        file::Render,
        user,
    },
    kapi::drm::{Device, File, Handler},
    uapi,
};

/// Limit of entries of a list (`AMDGPU_BO_LIST_MAX_ENTRIES`, `amdgpu_bo_list.c`).
const MAX_ENTRIES: u32 = 128 * 1024;
/// Higher priorities count as this one (`AMDGPU_BO_LIST_MAX_PRIORITY`, `amdgpu_bo_list.c`).
const MAX_PRIORITY: u32 = 32;

/// Copies a list from user space. `EINVAL` for more than [`MAX_ENTRIES`] or another entry size,
/// `ENOENT` for an unknown handle.
pub(super) fn read(
    file: &File<Render>,
    input: &uapi::drm_amdgpu_bo_list_in,
) -> Result<Arc<BoList>> {
    if input.bo_number > MAX_ENTRIES
        || usize::try_from(input.bo_info_size)? != size_of::<uapi::drm_amdgpu_bo_list_entry>()
    {
        return Err(EINVAL);
    }
    let given: KVVec<uapi::drm_amdgpu_bo_list_entry> =
        user::read_array(input.bo_info_ptr, input.bo_number)?;
    let mut entries = KVVec::with_capacity(given.len(), user::sized())?;
    for entry in &given {
        let entry = Entry {
            bo: gem::lookup(file, entry.bo_handle)?.bo().clone(),
            priority: entry.bo_priority.min(MAX_PRIORITY),
        };
        entries.push(entry, GFP_KERNEL)?;
    }
    BoList::new(entries)
}

/// `BO_LIST`: creates, replaces or destroys a list.
pub(super) struct BoListOp;

impl Handler<Render> for BoListOp {
    type Arg = uapi::drm_amdgpu_bo_list;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_BO_LIST;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let input = uapi::bo_list_in(arg);
        let lists = &file.data().bo_lists;
        let handle = match input.operation {
            uapi::AMDGPU_BO_LIST_OP_CREATE => {
                let list = read(file, input)?;
                lists.lock().insert(list)?
            }
            uapi::AMDGPU_BO_LIST_OP_UPDATE => {
                let list = read(file, input)?;
                let old = lists.lock().replace(input.list_handle, list);
                // Dropped without the lock: it may hold the last reference to a buffer.
                if old.is_err() {
                    return Err(ENOENT);
                }
                input.list_handle
            }
            uapi::AMDGPU_BO_LIST_OP_DESTROY => {
                let old = lists.lock().remove(input.list_handle);
                drop(old);
                0
            }
            _ => return Err(EINVAL),
        };
        *arg = uapi::bo_list_out(handle);
        Ok(())
    }
}
