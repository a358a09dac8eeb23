// SPDX-License-Identifier: GPL-2.0

//! Directories and read-only files in debugfs.
//!
//! Unlike those of `kernel::debugfs`, an open file holds a reference to the module: its close uses
//! the file operations, which are part of the module, also after the removal of the file.
//!
//! C headers: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h),
//! [`include/linux/seq_file.h`](srctree/include/linux/seq_file.h)

use core::marker::PhantomData;

use kernel::{bindings, fmt, prelude::*, seq_file::SeqFile, seq_print, sync::Arc};

/// A directory or file. Failures of debugfs are ignored.
///
/// # Invariants
///
/// `dentry` is null, an error pointer, or an entry of debugfs that only `drop` removes.
struct Entry {
    dentry: *mut bindings::dentry,
    // Removed after this one: a removal removes what is left in it.
    _parent: Option<Arc<Entry>>,
}

// SAFETY: Entries may be used and removed by any task.
unsafe impl Send for Entry {}
// SAFETY: A shared reference only gives the pointer to debugfs, which locks the directories that it
// changes.
unsafe impl Sync for Entry {}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; null and errors are allowed.
        unsafe { bindings::debugfs_remove(self.dentry) };
    }
}

/// A directory. It is removed when neither it nor a directory or file in it is owned any more.
pub(crate) struct Dir(Arc<Entry>);

impl Dir {
    /// Creates a directory at the top. `ENOMEM` without memory.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        Self::create(name, None)
    }

    /// Creates a directory in this one. `ENOMEM` without memory.
    pub(crate) fn subdir(&self, name: &CStr) -> Result<Self> {
        Self::create(name, Some(self.0.clone()))
    }

    fn create(name: &CStr, parent: Option<Arc<Entry>>) -> Result<Self> {
        let at = parent
            .as_ref()
            .map_or(core::ptr::null_mut(), |parent| parent.dentry);
        // SAFETY: The parent is a directory that lives during the call; null is the top, and an
        // error is returned as it is.
        let dentry = unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), at) };
        // INVARIANT: The directory was made above.
        let entry = Entry {
            dentry,
            _parent: parent,
        };
        Ok(Self(Arc::new(entry, GFP_KERNEL)?))
    }

    /// Creates a file in this directory that root may read: `show` prints `data`. `ENOMEM` without
    /// memory.
    pub(crate) fn file<T: Send + Sync + 'static>(
        &self,
        name: &CStr,
        data: T,
        show: Show<T>,
    ) -> Result<File<T>> {
        let contents = KBox::new(Contents { data, show }, GFP_KERNEL)?;
        // SAFETY: The directory lives during the call, or is an error, which is returned. The
        // operations are static and expect a `Contents<T>`, which is dropped after the file.
        let dentry = unsafe {
            bindings::debugfs_create_file_full(
                name.as_char_ptr(),
                0o400,
                self.0.dentry,
                core::ptr::from_ref(&*contents).cast_mut().cast(),
                core::ptr::null(),
                const { &Table::<T>::FOPS },
            )
        };
        // INVARIANT: The file was made above.
        let entry = Entry {
            dentry,
            _parent: Some(self.0.clone()),
        };
        Ok(File {
            _entry: entry,
            _contents: contents,
        })
    }
}

/// Prints the contents of a file.
pub(crate) type Show<T> = fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result;

struct Contents<T> {
    data: T,
    show: Show<T>,
}

impl<T> fmt::Display for Contents<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.show)(&self.data, f)
    }
}

/// A file. Its drop waits for readers; later reads of open files are `EIO`.
pub(crate) struct File<T> {
    // Field order: no reader uses the contents of a file that was removed.
    _entry: Entry,
    _contents: KBox<Contents<T>>,
}

struct Table<T>(PhantomData<T>);

impl<T: Send + Sync + 'static> Table<T> {
    const FOPS: bindings::file_operations = bindings::file_operations {
        owner: super::this_module(),
        open: Some(Self::open),
        read: Some(bindings::seq_read),
        llseek: Some(bindings::seq_lseek),
        release: Some(bindings::single_release),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by debugfs for a file with `FOPS`, which is not removed during the call.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: The kernel passes an inode and a file that is being opened. `show` gets the
        // private data of the inode, a `Contents<T>`.
        unsafe { bindings::single_open(file, Some(Self::show), (*inode).i_private) }
    }

    /// # Safety
    ///
    /// Called by `seq_read()` for a file that `open` has opened and that is not removed during the
    /// call.
    unsafe extern "C" fn show(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
        // SAFETY: `open` has stored a `Contents<T>`, which lives as long as the file; it is only
        // borrowed shared.
        let contents = unsafe { &*(*seq).private.cast::<Contents<T>>() };
        // SAFETY: The file lives during the call.
        let seq = unsafe { SeqFile::from_raw(seq) };
        seq_print!(seq, "{contents}");
        0
    }
}
