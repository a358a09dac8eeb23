// SPDX-License-Identifier: GPL-2.0

//! `EXPORT_DMABUF`, `IMPORT_DMABUF`, `GET_DMABUF_INFO`.

use kernel::{num::casts::u32_as_usize, prelude::*, sync::Arc, transmute::AsBytes};

use crate::{
    kapi::uaccess,
    node,
    process::{make_handle, share::SharedBuffer, Process},
    uapi::*,
};

/// `EXPORT_DMABUF`. `EINVAL` without such a GPU or buffer, `ENODEV` if the GPU is unplugged.
pub(super) fn export(process: &Arc<Process>, args: &mut kfd_ioctl_export_dmabuf_args) -> Result {
    let state = process.lock()?;
    let (device, id) = process.device_of_handle(args.handle)?;
    let buf = device.export(id)?;
    drop(state);
    args.dmabuf_fd = buf.into_fd(args.flags)?;
    Ok(())
}

/// `IMPORT_DMABUF`. `EINVAL` without such a GPU or if the dma-buf cannot be imported, `ENODEV`
/// before `ACQUIRE_VM`, `EBADF` without such a descriptor.
pub(super) fn import(process: &Arc<Process>, args: &mut kfd_ioctl_import_dmabuf_args) -> Result {
    let _state = process.lock()?;
    let device = process.device(args.gpu_id)?;
    device.vm()?;
    let id = device.import(args.dmabuf_fd, args.va_addr)?;
    args.handle = make_handle(args.gpu_id, id);
    Ok(())
}

/// `GET_DMABUF_INFO`. `EINVAL` if the metadata does not fit the caller's buffer, whose required
/// size is returned nevertheless, or if the partition of the buffer does not exist any more;
/// otherwise as [`SharedBuffer::from_fd`].
pub(super) fn get_info(_: &Arc<Process>, args: &mut kfd_ioctl_get_dmabuf_info_args) -> Result {
    let shared = SharedBuffer::from_fd(args.dmabuf_fd)?;
    args.size = shared.size();
    let metadata = shared.metadata();
    let available = core::mem::replace(&mut args.metadata_size, metadata.bytes);
    if metadata.bytes > available {
        return Err(EINVAL);
    }
    let index = shared.partition().unwrap_or(0);
    args.gpu_id = node::of(shared.gpu(), index).ok_or(EINVAL)?.id();
    args.flags = shared.flags()?;
    if args.metadata_ptr == 0 {
        return Ok(());
    }
    let bytes = AsBytes::as_bytes(&metadata.data[..])
        .get(..u32_as_usize(metadata.bytes))
        .ok_or(EINVAL)?;
    uaccess::write(args.metadata_ptr, bytes)
}
