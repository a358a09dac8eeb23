// SPDX-License-Identifier: GPL-2.0

//! Firmware files: request and header checks.
//!
//! An unusable file is reported in one line that names the package to install. `hw` interprets the
//! parts of a file.

use kernel::{
    alloc::AllocError,
    device,
    firmware::Firmware,
    prelude::*,
    str::CString, //
};

mod image;

pub(crate) use image::{Bad, FirmwareFile, Image, Why};

/// Reason for which the files of a card are not used.
pub(crate) enum Refusal {
    /// An unusable file.
    Bad(Bad),
    /// Another error.
    Kernel(Error),
}

impl From<Bad> for Refusal {
    fn from(bad: Bad) -> Self {
        Self::Bad(bad)
    }
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Self {
        Self::Kernel(e)
    }
}

impl From<AllocError> for Refusal {
    fn from(e: AllocError) -> Self {
        Self::Kernel(e.into())
    }
}

/// Debian package with the files.
const PACKAGE: &str = "firmware-amd-graphics";

/// All firmware files of a card.
pub(crate) struct Files {
    files: &'static [FirmwareFile],
    data: KVec<Firmware>,
}

impl Files {
    /// Reads the files; a file that is missing is reported.
    pub(crate) fn read(dev: &device::Device, files: &'static [FirmwareFile]) -> Result<Self> {
        let mut data = KVec::with_capacity(files.len(), GFP_KERNEL)?;
        for file in files {
            let name = CString::try_from_fmt(fmt!("{}", file.path))?;
            let read = Firmware::request_nowarn(&name, dev).inspect_err(|e| {
                if *e == ENOENT {
                    dev_err!(dev, "{} is missing: install {PACKAGE}\n", file.path);
                } else {
                    // request_firmware() returns EINVAL for an empty file, too.
                    dev_err!(
                        dev,
                        "{} cannot be read, or is empty ({e:?}): install {PACKAGE} again\n",
                        file.path
                    );
                }
            })?;
            data.push(read, GFP_KERNEL)?;
        }
        Ok(Self { files, data })
    }

    /// Calls `f` with the files' contents, in the order in which they are listed. A file that
    /// cannot be used is reported: `EINVAL`.
    pub(crate) fn with<R>(
        &self,
        dev: &device::Device,
        f: impl FnOnce(&[Image<'_>]) -> Result<R, Refusal>,
    ) -> Result<R> {
        let used = || -> Result<R, Refusal> {
            let mut images = KVec::with_capacity(self.data.len(), GFP_KERNEL)?;
            for (file, data) in self.files.iter().zip(&self.data) {
                images.push(Image::new(file, data.data())?, GFP_KERNEL)?;
            }
            f(&images)
        };
        used().map_err(|refusal| match refusal {
            Refusal::Bad(bad) => {
                dev_err!(dev, "{bad}: install {PACKAGE} again\n");
                EINVAL
            }
            Refusal::Kernel(e) => e,
        })
    }

    /// The name of a file.
    pub(crate) fn path(&self, file: usize) -> &'static str {
        self.files.get(file).map_or("firmware", |f| f.path)
    }

    /// Some bytes of a file.
    pub(crate) fn bytes(&self, file: usize, at: usize, len: usize) -> Result<&[u8]> {
        let data = self.data.get(file).ok_or(EINVAL)?.data();
        at.checked_add(len)
            .and_then(|end| data.get(at..end))
            .ok_or(EINVAL)
    }
}
