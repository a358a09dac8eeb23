// SPDX-License-Identifier: GPL-2.0

//! Files without a name: a process gets a descriptor of one, and passes it on as it likes.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{
    bindings,
    error::from_err_ptr,
    fs::{file::FileDescriptorReservation, File},
    prelude::*,
    sync::{aref::ARef, poll::PollTable, Arc},
    types::ForeignOwnable,
    uaccess::{UserPtr, UserSlice, UserSliceReader, UserSliceWriter},
};

use crate::bindings as ours;

/// What is read and written through such files.
pub(crate) trait Stream: Send + Sync + 'static {
    /// Name, as links in `/proc` show it.
    const NAME: &'static CStr;

    /// Somebody reads, at most as much as there is room. Returns how many bytes that were.
    fn read(&self, to: UserSliceWriter) -> Result<usize>;

    /// Somebody writes. Returns how many bytes were taken.
    fn write(&self, from: UserSliceReader) -> Result<usize>;

    /// Says whether there is something to read, and has `table` told when there is.
    fn poll(&self, file: &File, table: &PollTable<'_>) -> bool;

    /// The last descriptor was closed.
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
        // SAFETY: `open` stored the private data, which live until `release`.
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
        // SAFETY: By the safety requirement.
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
        // SAFETY: By the safety requirement.
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
        // SAFETY: By the safety requirement; file and table live during the call.
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
        // SAFETY: `open` stored the private data; nobody uses them any more.
        let stream = unsafe { Arc::<T>::from_foreign((*file).private_data) };
        T::closed(&stream);
        0
    }
}

/// Gives the current process a descriptor of a new file, for reading and writing. If there is none to
/// be had, nothing is closed either.
pub(crate) fn open<T: Stream>(stream: Arc<T>) -> Result<u32> {
    let place = FileDescriptorReservation::get_unused_fd_flags(0)?;
    let private = stream.into_foreign();
    // SAFETY: Name and operations are static. On success the file owns what `private` stands for.
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
        // SAFETY: There is no file that would own it.
        drop(unsafe { Arc::<T>::from_foreign(private) });
    })?;
    // SAFETY: A new file, whose reference is handed over. Its position is never used.
    let file = unsafe { ARef::from_raw(raw.cast::<File>()) };
    let fd = place.reserved_fd();
    place.fd_install(file);
    Ok(fd)
}
