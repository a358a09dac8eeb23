// SPDX-License-Identifier: GPL-2.0

//! `BO_LIST`: the buffers that a submission uses, named once for many submissions.

use kernel::{prelude::*, sync::Arc};

use super::{gem, user, Render};
use crate::{
    kapi::drm::{Device, File, Handler},
    mmu::BoRef,
    uapi,
};

/// Entries that a list may have.
const MAX_ENTRIES: u32 = 128 * 1024;
/// Higher priorities count as this one.
const MAX_PRIORITY: u32 = 32;

/// A buffer of a list.
struct Entry {
    bo: BoRef,
    priority: u32,
}

/// A list of buffers. It does not change: an update makes a new one.
pub(super) struct BoList {
    /// By priority, the lowest first.
    entries: KVVec<Entry>,
}

impl BoList {
    /// A list without buffers.
    pub(super) fn empty() -> Result<Arc<Self>> {
        let entries = KVVec::new();
        Ok(Arc::new(Self { entries }, GFP_KERNEL)?)
    }

    /// The list that user space describes.
    pub(super) fn read(
        file: &File<Render>,
        asked: &uapi::drm_amdgpu_bo_list_in,
    ) -> Result<Arc<Self>> {
        if asked.bo_number > MAX_ENTRIES
            || asked.bo_info_size as usize != size_of::<uapi::drm_amdgpu_bo_list_entry>()
        {
            return Err(EINVAL);
        }
        let count = asked.bo_number as usize;
        let given: KVVec<uapi::drm_amdgpu_bo_list_entry> =
            user::read_array(asked.bo_info_ptr, count)?;
        let mut entries = KVVec::with_capacity(count, user::sized())?;
        for entry in &given {
            let entry = Entry {
                bo: gem::lookup(file, entry.bo_handle)?.bo().clone(),
                priority: entry.bo_priority.min(MAX_PRIORITY),
            };
            entries.push(entry, GFP_KERNEL)?;
        }
        entries.sort_unstable_by_key(|entry| entry.priority);
        Ok(Arc::new(Self { entries }, GFP_KERNEL)?)
    }

    /// The buffers. One may be there more than once.
    pub(super) fn bos(&self) -> impl Iterator<Item = &BoRef> {
        self.entries.iter().map(|entry| &entry.bo)
    }
}

/// `BO_LIST`.
pub(super) struct Lists;

impl Handler<Render> for Lists {
    type Arg = uapi::drm_amdgpu_bo_list;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_BO_LIST;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result<i32> {
        let asked = uapi::bo_list_in(arg);
        let lists = &file.data().bo_lists;
        let handle = match asked.operation {
            uapi::AMDGPU_BO_LIST_OP_CREATE => {
                let list = BoList::read(file, asked)?;
                lists.lock().add(list)?
            }
            uapi::AMDGPU_BO_LIST_OP_UPDATE => {
                let list = BoList::read(file, asked)?;
                let old = lists.lock().replace(asked.list_handle, list);
                // Dropped without the lock: the last reference to a buffer may be among them.
                if old.is_err() {
                    return Err(ENOENT);
                }
                asked.list_handle
            }
            uapi::AMDGPU_BO_LIST_OP_DESTROY => {
                let old = lists.lock().remove(asked.list_handle);
                drop(old);
                0
            }
            _ => return Err(EINVAL),
        };
        *arg = uapi::bo_list_out(handle);
        Ok(0)
    }
}
