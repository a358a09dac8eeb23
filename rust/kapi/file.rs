// SPDX-License-Identifier: GPL-2.0

//! Anonymous inode files: descriptors that a process reads, writes and polls. Files of a process
//! that the kernel notifies of events.
//!
//! C headers: [`include/linux/anon_inodes.h`](srctree/include/linux/anon_inodes.h),
//! [`include/linux/fs.h`](srctree/include/linux/fs.h)
//!
//! # Examples
//!
//! ```ignore
//! #[vtable]
//! impl file::Stream for Client {
//!     const NAME: &'static CStr = c"smi-event";
//!
//!     fn read(&self, to: UserSliceWriter) -> Result<usize> {
//!         self.fifo.lock().copy_to(to)
//!     }
//!     // ...
//! }
//!
//! let fd = file::open(client)?;
//! ```

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{
    bindings,
    error::from_err_ptr,
    fs::{
        file::{FileDescriptorReservation, LocalFile},
        File,
    },
    prelude::*,
    sync::{aref::ARef, poll::PollTable, Arc},
    types::ForeignOwnable,
    uaccess::{UserPtr, UserSlice, UserSliceReader, UserSliceWriter},
};

use crate::bindings as ours;

/// Operations of such a file (`struct file_operations`).
#[vtable]
pub(crate) trait Stream: Send + Sync + 'static {
    /// Name in the links of `/proc/<pid>/fd`.
    const NAME: &'static CStr;

    /// Reads at most as many bytes as `to` has room for; returns their number.
    fn read(&self, to: UserSliceWriter) -> Result<usize>;

    /// Writes; returns the number of bytes consumed.
    fn write(&self, from: UserSliceReader) -> Result<usize>;

    /// Returns whether a read would not block, and registers `table` to be woken when that changes.
    fn poll(&self, file: &File, table: &PollTable<'_>) -> bool;

    /// Called when the last descriptor is closed.
    fn closed(this: &Arc<Self>);
}

struct Table<T: Stream>(PhantomData<T>);

impl<T: Stream> Table<T> {
    const FOPS: bindings::file_operations = bindings::file_operations {
        owner: super::this_module(),
        read: Some(Self::read),
        write: Some(Self::write),
        poll: Some(Self::poll),
        release: Some(Self::release),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `file` was made by `open` and was not released.
    unsafe fn stream<'a>(file: *mut bindings::file) -> <Arc<T> as ForeignOwnable>::Borrowed<'a> {
        // SAFETY: `open` stored an `Arc<T>` as private data, which is owned until `release`.
        unsafe { Arc::<T>::borrow((*file).private_data) }
    }

    /// # Safety
    ///
    /// Called by the kernel for a file made by `open`.
    unsafe extern "C" fn read(
        file: *mut bindings::file,
        to: *mut c_char,
        len: usize,
        _at: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: The file was made by `open`, and is not released before the call returns.
        let stream = unsafe { Self::stream(file) };
        let room = UserSlice::new(UserPtr::from_addr(to as usize), len);
        stream
            .read(room.writer())
            .map_or_else(|e| e.to_errno() as isize, |n| n as isize)
    }

    /// # Safety
    ///
    /// Called by the kernel for a file made by `open`.
    unsafe extern "C" fn write(
        file: *mut bindings::file,
        from: *const c_char,
        len: usize,
        _at: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: The file was made by `open`, and is not released before the call returns.
        let stream = unsafe { Self::stream(file) };
        let given = UserSlice::new(UserPtr::from_addr(from as usize), len);
        stream
            .write(given.reader())
            .map_or_else(|e| e.to_errno() as isize, |n| n as isize)
    }

    /// # Safety
    ///
    /// Called by the kernel for a file made by `open`.
    unsafe extern "C" fn poll(
        file: *mut bindings::file,
        table: *mut bindings::poll_table_struct,
    ) -> bindings::__poll_t {
        // SAFETY: The file was made by `open` and is not released before the call returns. File and
        // table live during the call; the file is in use, so it has no active `fdget_pos()` that
        // is not locked.
        let (stream, file, table) = unsafe {
            (
                Self::stream(file),
                File::from_raw_file(file),
                PollTable::from_raw(table),
            )
        };
        if stream.poll(file, &table) {
            bindings::POLLIN | bindings::POLLRDNORM
        } else {
            0
        }
    }

    /// # Safety
    ///
    /// Called by the kernel once for a file made by `open`, when its last user has gone.
    unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: `open` stored an `Arc<T>` as private data; this is the last use of the file.
        let stream = unsafe { Arc::<T>::from_foreign((*file).private_data) };
        T::closed(&stream);
        0
    }
}

/// A file of a process, to notify of events.
pub(crate) struct Notified(ARef<File>);

impl Notified {
    /// Returns the file behind a descriptor of the current process. `EBADF` if there is none.
    pub(crate) fn from_fd(fd: u32) -> Result<Self> {
        let file = LocalFile::fget(fd)?;
        // SAFETY: The current thread is in an ioctl, hence in no `fdget_pos()` section.
        Ok(Self(unsafe { LocalFile::assume_no_fdget_pos(file) }))
    }

    /// Writes a byte, which makes the file readable, unless that would block: then there are bytes
    /// to read already. Errors are those of the owner of the file, and are ignored.
    pub(crate) fn notify(&self) {
        let byte = b'.';
        // SAFETY: The file is valid by its type, `byte` during the call.
        unsafe {
            ours::rkfd_helper_write_nowait(self.0.as_ptr().cast(), (&raw const byte).cast(), 1)
        };
    }
}

impl Clone for Notified {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Creates a file, for reading and writing, and returns its descriptor in the current process.
/// `EMFILE` without a free one, `ENOMEM` without memory; [`Stream::closed`] is not called then.
pub(crate) fn open<T: Stream>(stream: Arc<T>) -> Result<u32> {
    let place = FileDescriptorReservation::get_unused_fd_flags(0)?;
    let private = stream.into_foreign();
    // SAFETY: Name and operations are static. On success the file owns the reference of `private`,
    // until `release`.
    let raw = from_err_ptr(unsafe {
        ours::anon_inode_getfile(
            T::NAME.as_char_ptr(),
            const { &Table::<T>::FOPS },
            private,
            bindings::O_RDWR as c_int,
        )
    })
    .and_then(|file| NonNull::new(file).ok_or(ENOMEM))
    .inspect_err(|_| {
        // SAFETY: No file was created, so the reference is still owned by this function.
        drop(unsafe { Arc::<T>::from_foreign(private) });
    })?;
    // SAFETY: A new file, the only reference to which is handed over. It is in no descriptor table,
    // so that no `fdget_pos()` of it is active.
    let file = unsafe { ARef::from_raw(raw.cast::<File>()) };
    let fd = place.reserved_fd();
    place.fd_install(file);
    Ok(fd)
}
