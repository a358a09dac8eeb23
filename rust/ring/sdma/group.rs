// SPDX-License-Identifier: GPL-2.0

//! Jobs of one request of the driver: when one fails, later ones fail too.

use kernel::{
    error::Error,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, //
    },
};

/// The jobs of one request.
pub(super) struct Group(Atomic<i32>);

impl Group {
    /// Returns a group without a failure. `ENOMEM` without memory.
    pub(super) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(Atomic::new(0)), GFP_KERNEL)?)
    }

    /// Records the failure of a job.
    pub(super) fn fail(&self, error: Error) {
        self.0.store(error.to_errno(), Relaxed);
    }

    /// Returns the last recorded failure.
    pub(super) fn error(&self) -> Option<Error> {
        match self.0.load(Relaxed) {
            0 => None,
            e => Some(Error::from_errno(e)),
        }
    }
}
