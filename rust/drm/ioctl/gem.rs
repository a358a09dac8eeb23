// SPDX-License-Identifier: GPL-2.0

//! `GEM_*` except `GEM_VA`: create, map, wait for and describe buffers.

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{aref::ARef, Arc},
    transmute::AsBytes,
};

use crate::{
    doorbell::DoorbellPages,
    drm::{file::Render, userq},
    gpu::Gpu,
    kapi::{
        drm::{Device, File, Handler},
        fence::Timeout,
        gem::DriverObject,
        resv::Usage,
        uaccess,
    },
    mmu::{
        gem::{self, Object, METADATA_WORDS},
        Bo, BoFlags, BoKind, CpuAccess,
    },
    uapi,
};

/// Flags that user space may set at creation. As in the C driver, `VRAM_CONTIGUOUS` is not among
/// them (`AMDGPU_GEM_CREATE_SETTABLE_MASK`).
const CREATE_FLAGS: u64 = (uapi::AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED
    | uapi::AMDGPU_GEM_CREATE_NO_CPU_ACCESS
    | uapi::AMDGPU_GEM_CREATE_CPU_GTT_USWC
    | uapi::AMDGPU_GEM_CREATE_VRAM_CLEARED
    | uapi::AMDGPU_GEM_CREATE_EXPLICIT_SYNC
    | uapi::AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE
    | uapi::AMDGPU_GEM_CREATE_COHERENT
    | uapi::AMDGPU_GEM_CREATE_UNCACHED
    | uapi::AMDGPU_GEM_CREATE_EXT_COHERENT) as u64;

/// Returns the GEM object `handle`, or `ENOENT`.
pub(super) fn lookup(file: &File<Render>, handle: u32) -> Result<ARef<Object>> {
    Object::lookup(file, handle).ok_or(ENOENT)
}

/// `GEM_CREATE`: creates a zeroed buffer in VRAM or system memory.
pub(super) struct Create;

fn create(gpu: &Arc<Gpu>, memory: Option<u32>, size: u64, domains: u64, flags: u64) -> Result<Bo> {
    let has = |flag: u32| flags & u64::from(flag) != 0;
    let attrs = BoFlags {
        uncached: has(uapi::AMDGPU_GEM_CREATE_UNCACHED),
        coherent: has(uapi::AMDGPU_GEM_CREATE_COHERENT),
        ext_coherent: has(uapi::AMDGPU_GEM_CREATE_EXT_COHERENT),
        contiguous: false,
        memory,
        cpu_access: if has(uapi::AMDGPU_GEM_CREATE_NO_CPU_ACCESS) {
            CpuAccess::Never
        } else if has(uapi::AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED) {
            CpuAccess::Required
        } else {
            CpuAccess::Possible
        },
        explicit_sync: has(uapi::AMDGPU_GEM_CREATE_EXPLICIT_SYNC),
    };
    if domains == u64::from(uapi::AMDGPU_GEM_DOMAIN_DOORBELL) {
        let bytes = usize::try_from(size)?
            .checked_next_multiple_of(PAGE_SIZE)
            .ok_or(ENOMEM)?;
        let pages = DoorbellPages::new(gpu.card(), bytes)?;
        Bo::doorbell(gpu, &pages, attrs)
    } else if domains & u64::from(uapi::AMDGPU_GEM_DOMAIN_VRAM) != 0 {
        // Falls back to system memory if VRAM is full.
        Bo::prefer_vram(gpu, size, attrs)
    } else {
        Bo::gtt(gpu, size, attrs, None)
    }
}

impl Handler<Render> for Create {
    type Arg = uapi::drm_amdgpu_gem_create;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_GEM_CREATE;

    fn run(dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let input = uapi::gem_create_in(arg);
        let memory = uapi::AMDGPU_GEM_DOMAIN_CPU
            | uapi::AMDGPU_GEM_DOMAIN_GTT
            | uapi::AMDGPU_GEM_DOMAIN_VRAM;
        // Doorbells are of use for user queues only, and processes of KFD need theirs.
        let is_doorbell = input.domains == u64::from(uapi::AMDGPU_GEM_DOMAIN_DOORBELL)
            && userq::ip_mask(file.data().gpu()?) != 0;
        // `ENCRYPTED` and `VM_ALWAYS_VALID` are not supported.
        if input.domain_flags & !CREATE_FLAGS != 0
            || (input.domains & !u64::from(memory) != 0 && !is_doorbell)
            || input.bo_size == 0
        {
            return Err(EINVAL);
        }
        let bo = create(
            file.data().gpu()?,
            file.data().partition.memory(),
            input.bo_size,
            input.domains,
            input.domain_flags,
        )?;
        let object = gem::object(dev, bo, file.data().partition.index())?;
        let handle = object.create_handle(file)?;
        *arg = uapi::gem_create_out(handle);
        Ok(())
    }
}

/// `GEM_MMAP`: returns the mmap offset of a buffer.
pub(super) struct Mmap;

impl Handler<Render> for Mmap {
    type Arg = uapi::drm_amdgpu_gem_mmap;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_GEM_MMAP;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let object = lookup(file, uapi::gem_mmap_in(arg).handle)?;
        object.may_map()?;
        *arg = uapi::gem_mmap_out(object.mmap_offset());
        Ok(())
    }
}

/// `GEM_WAIT_IDLE`: waits for the jobs that read or write a buffer.
pub(super) struct WaitIdle;

impl Handler<Render> for WaitIdle {
    type Arg = uapi::drm_amdgpu_gem_wait_idle;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let input = uapi::gem_wait_idle_in(arg);
        let object = lookup(file, input.handle)?;
        let deadline = Timeout::until(input.timeout);
        let idle = object.bo().resv().wait(Usage::Read, true, deadline)?;
        *arg = uapi::gem_wait_idle_out(u32::from(!idle));
        Ok(())
    }
}

/// `GEM_METADATA`: stores or returns the metadata that exporters pass to importers.
pub(super) struct Metadata;

impl Handler<Render> for Metadata {
    type Arg = uapi::drm_amdgpu_gem_metadata;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_GEM_METADATA;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let object = lookup(file, arg.handle)?;
        match arg.op {
            uapi::AMDGPU_GEM_METADATA_OP_GET_METADATA => {
                let stored = object.metadata();
                arg.data.tiling_info = stored.tiling;
                arg.data.flags = stored.flags;
                arg.data.data_size_bytes = stored.bytes;
                // The rest is left as it is.
                let bytes = stored.bytes as usize;
                let all = stored.data.iter().zip(&mut arg.data.data).enumerate();
                for (word, (from, to)) in all.take(bytes.div_ceil(4)) {
                    let mask = u32::MAX >> (32 - (bytes - word * 4).min(4) * 8);
                    *to = *to & !mask | from & mask;
                }
            }
            uapi::AMDGPU_GEM_METADATA_OP_SET_METADATA => {
                let bytes = arg.data.data_size_bytes;
                if bytes as usize > METADATA_WORDS * 4 {
                    return Err(EINVAL);
                }
                object.change_metadata(|stored| {
                    stored.tiling = arg.data.tiling_info;
                    stored.bytes = bytes;
                    stored.data = [0; METADATA_WORDS];
                    let words = (bytes as usize).div_ceil(4);
                    stored.data[..words].copy_from_slice(&arg.data.data[..words]);
                    if bytes % 4 != 0 {
                        stored.data[words - 1] &= (1 << (bytes % 4 * 8)) - 1;
                    }
                    // Without bytes the flags stay (`amdgpu_bo_set_metadata`).
                    if bytes > 0 {
                        stored.flags = arg.data.flags;
                    }
                })?;
            }
            // The C driver ignores unknown operations.
            _ => {}
        }
        Ok(())
    }
}

/// `GEM_OP`: returns the creation parameters of a buffer.
pub(super) struct Op;

impl Handler<Render> for Op {
    type Arg = uapi::drm_amdgpu_gem_op;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_GEM_OP;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        if arg.padding != 0 {
            return Err(EINVAL);
        }
        let object = lookup(file, arg.handle)?;
        if arg.op != uapi::AMDGPU_GEM_OP_GET_GEM_CREATE_INFO {
            return Err(EINVAL);
        }
        let bo = object.bo();
        let domain = match bo.preferred() {
            BoKind::Vram => uapi::AMDGPU_GEM_DOMAIN_VRAM,
            BoKind::Gtt => uapi::AMDGPU_GEM_DOMAIN_GTT,
            BoKind::Doorbell => uapi::AMDGPU_GEM_DOMAIN_DOORBELL,
            // These have no GEM handles.
            BoKind::MmioRemap | BoKind::User => return Err(EINVAL),
        };
        let flags = bo.flags();
        // All memory is cleared when it is freed.
        let mut bits =
            uapi::AMDGPU_GEM_CREATE_VRAM_CLEARED | uapi::AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE;
        for (set, flag) in [
            (flags.contiguous, uapi::AMDGPU_GEM_CREATE_VRAM_CONTIGUOUS),
            (flags.coherent, uapi::AMDGPU_GEM_CREATE_COHERENT),
            (flags.ext_coherent, uapi::AMDGPU_GEM_CREATE_EXT_COHERENT),
            (flags.uncached, uapi::AMDGPU_GEM_CREATE_UNCACHED),
            (flags.explicit_sync, uapi::AMDGPU_GEM_CREATE_EXPLICIT_SYNC),
            (
                flags.cpu_access == CpuAccess::Never,
                uapi::AMDGPU_GEM_CREATE_NO_CPU_ACCESS,
            ),
            (
                flags.cpu_access == CpuAccess::Required,
                uapi::AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED,
            ),
        ] {
            if set {
                bits |= flag;
            }
        }
        let info = uapi::drm_amdgpu_gem_create_in {
            bo_size: bo.size(),
            alignment: PAGE_SIZE as u64,
            domains: domain.into(),
            domain_flags: bits.into(),
        };
        uaccess::write(arg.value, AsBytes::as_bytes(&info))
    }
}
