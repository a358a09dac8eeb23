// SPDX-License-Identifier: GPL-2.0

//! `EXPORT_DMABUF`, `IMPORT_DMABUF`, `GET_DMABUF_INFO`.

use kernel::{
    prelude::*,
    sync::Arc,
    transmute::AsBytes,
    uaccess::{UserPtr, UserSlice},
};

use super::process::device_of_handle;
use crate::{
    process::{share::Shared, Process},
    uapi::*,
};

pub(super) fn export(process: &Arc<Process>, args: &mut kfd_ioctl_export_dmabuf_args) -> Result {
    let state = process.lock()?;
    let (device, id) = device_of_handle(process, args.handle)?;
    let buf = device.export(id)?;
    drop(state);
    args.dmabuf_fd = buf.into_fd(args.flags)?;
    Ok(())
}

pub(super) fn import(process: &Arc<Process>, args: &mut kfd_ioctl_import_dmabuf_args) -> Result {
    let _state = process.lock()?;
    let device = process.device(args.gpu_id)?;
    device.vm()?;
    let id = device.import(args.dmabuf_fd, args.va_addr)?;
    args.handle = u64::from(args.gpu_id) << 32 | u64::from(id);
    Ok(())
}

/// The size of the metadata is told also when the caller has too little room for them.
pub(super) fn get_info(_: &Arc<Process>, args: &mut kfd_ioctl_get_dmabuf_info_args) -> Result {
    let shared = Shared::from_fd(args.dmabuf_fd)?;
    args.size = shared.size();
    let metadata = shared.metadata();
    let room = core::mem::replace(&mut args.metadata_size, metadata.bytes);
    if metadata.bytes > room {
        return Err(EINVAL);
    }
    args.gpu_id = shared.gpu().id();
    args.flags = shared.flags()?;
    if args.metadata_ptr == 0 {
        return Ok(());
    }
    let bytes = AsBytes::as_bytes(&metadata.data[..])
        .get(..metadata.bytes as usize)
        .ok_or(EINVAL)?;
    UserSlice::new(UserPtr::from_addr(args.metadata_ptr as usize), bytes.len())
        .writer()
        .write_slice(bytes)
}
