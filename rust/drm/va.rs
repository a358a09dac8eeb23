// SPDX-License-Identifier: GPL-2.0

//! `GEM_VA`: buffers in the file's address space, besides those that `/dev/kfd` maps there.
//!
//! A mapping made here ends with an unmap, with the handle of its buffer, or with the file.

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

use super::{gem::lookup, info, FileData, Render};
use crate::{
    kapi::drm::{Device, File, Handler},
    mmu::{gem::Object, Vm},
    uapi,
};

/// A mapping that was made here.
struct Mapping {
    va: u64,
    len: u64,
    object: ARef<Object>,
}

/// The mappings that were made here.
pub(super) struct Mappings(KVec<Mapping>);

impl Mappings {
    pub(super) const fn new() -> Self {
        Self(KVec::new())
    }

    fn map(&mut self, vm: &Arc<Vm>, object: ARef<Object>, asked: &Asked) -> Result {
        self.0.reserve(1, GFP_KERNEL)?;
        vm.map(asked.va, object.bo(), asked.offset, asked.len)?;
        let mapping = Mapping {
            va: asked.va,
            len: asked.len,
            object,
        };
        // There is room: it was reserved above.
        self.0.push_within_capacity(mapping)?;
        Ok(())
    }

    /// Ends the mapping at index `at`.
    fn end(&mut self, vm: &Arc<Vm>, at: usize) -> Result {
        let mapping = self.0.get(at).ok_or(ENOENT)?;
        vm.unmap(mapping.va, mapping.len)?;
        self.0.remove(at).map_err(|_| ENOENT)?;
        Ok(())
    }

    /// Ends the mapping of `object` that starts at `va`.
    fn unmap(&mut self, vm: &Arc<Vm>, object: &Object, va: u64) -> Result {
        let at = self
            .0
            .iter()
            .position(|m| m.va == va && m.object.key() == object.key())
            .ok_or(ENOENT)?;
        self.end(vm, at)
    }

    /// Ends all mappings in a range; `EINVAL`, with nothing ended, if one is only partly inside.
    fn clear(&mut self, vm: &Arc<Vm>, va: u64, end: u64) -> Result {
        let inside = |m: &Mapping| m.va >= va && m.va + m.len <= end;
        let touches = |m: &Mapping| m.va < end && va < m.va + m.len;
        if self.0.iter().any(|m| touches(m) && !inside(m)) {
            return Err(EINVAL);
        }
        while let Some(at) = self.0.iter().position(inside) {
            self.end(vm, at)?;
        }
        Ok(())
    }

    /// Ends all mappings of an object that the file has no handle of any more.
    pub(super) fn forget(&mut self, vm: &Arc<Vm>, object: usize) {
        while let Some(at) = self.0.iter().position(|m| m.object.key() == object) {
            if let Err(e) = self.end(vm, at) {
                // A queue still uses it: it stays until the address space goes.
                pr_debug!("mapping of a closed buffer stays: {e:?}\n");
                if self.0.remove(at).is_err() {
                    return;
                }
            }
        }
    }
}

/// What the ioctl asks for, checked.
struct Asked {
    va: u64,
    len: u64,
    offset: u64,
}

/// What a mapping may do. Page tables give each buffer what it was made for, so that less cannot be asked for.
const ALL_ACCESS: u32 = uapi::AMDGPU_VM_PAGE_READABLE
    | uapi::AMDGPU_VM_PAGE_WRITEABLE
    | uapi::AMDGPU_VM_PAGE_EXECUTABLE;

/// `GEM_VA`.
pub(super) struct Va;

impl Handler<Render> for Va {
    type Arg = uapi::drm_amdgpu_gem_va;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_GEM_VA;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result<i32> {
        let data: &Arc<FileData> = file.data();
        let (first, top) = info::va_range(data.gpu()?);
        let end = arg.va_address.checked_add(arg.map_size).ok_or(EINVAL)?;
        if arg.va_address < first || end > top {
            return Err(EINVAL);
        }
        // Fences come and go with command submission, which is not there.
        if arg.num_syncobj_handles != 0 || arg.vm_timeline_syncobj_out != 0 {
            return Err(EINVAL);
        }
        let asked = Asked {
            va: arg.va_address,
            len: arg.map_size,
            offset: arg.offset_in_bo,
        };
        let flags = arg.flags & !uapi::AMDGPU_VM_DELAY_UPDATE;
        match arg.operation {
            uapi::AMDGPU_VA_OP_MAP if flags == ALL_ACCESS => {
                let object = lookup(file, arg.handle)?;
                let vm = data.vm()?;
                data.mappings.lock().map(&vm, object, &asked)?;
            }
            uapi::AMDGPU_VA_OP_UNMAP => {
                let object = lookup(file, arg.handle)?;
                let vm = data.vm()?;
                data.mappings.lock().unmap(&vm, &object, asked.va)?;
            }
            uapi::AMDGPU_VA_OP_CLEAR => {
                let vm = data.vm()?;
                data.mappings.lock().clear(&vm, asked.va, end)?;
            }
            _ => return Err(EINVAL),
        }
        Ok(0)
    }
}
