// SPDX-License-Identifier: GPL-2.0

//! Open files.

use kernel::{
    fs::{File, LocalFile},
    sync::aref::ARef,
};

/// The file behind a descriptor of the current process.
///
/// To be called from ioctls: those hold no other file by `fdget_pos()`.
pub(crate) fn fget(fd: u32) -> Option<ARef<File>> {
    let local = LocalFile::fget(fd).ok()?;
    // SAFETY: The caller is an ioctl; these use no file position.
    Some(unsafe { LocalFile::assume_no_fdget_pos(local) })
}
