// SPDX-License-Identifier: GPL-2.0

//! An open file of `/dev/kfd`: its process.

use kernel::{
    prelude::*,
    sync::{Arc, SetOnce},
};

use super::{kfd_process::Process, table};

/// An open file of `/dev/kfd`.
pub(crate) struct KfdFile {
    primary: Arc<Process>,
    /// A secondary process, which ends with the file.
    secondary: SetOnce<Arc<Process>>,
}

impl KfdFile {
    /// Opens the device for the primary process of the caller, see [`table::open_current`].
    pub(crate) fn open() -> Result<KBox<Self>> {
        let file = Self {
            primary: table::open_current()?,
            secondary: SetOnce::new(),
        };
        Ok(KBox::new(file, GFP_KERNEL)?)
    }

    /// Returns the process.
    pub(crate) fn process(&self) -> &Arc<Process> {
        self.secondary.as_ref().unwrap_or(&self.primary)
    }

    /// Makes a new secondary process that of the file. `EINVAL` if it has one, otherwise as
    /// [`table::create_secondary`].
    pub(crate) fn create_process(&self) -> Result {
        if self.secondary.as_ref().is_some() {
            return Err(EINVAL);
        }
        let process = table::create_secondary(&self.primary)?;
        if !self.secondary.populate(process.clone()) {
            // By another thread.
            table::end(&process);
            return Err(EINVAL);
        }
        Ok(())
    }
}

impl Drop for KfdFile {
    fn drop(&mut self) {
        if let Some(process) = self.secondary.as_ref() {
            table::end(process);
        }
    }
}
