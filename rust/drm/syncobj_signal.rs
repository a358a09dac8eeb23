// SPDX-License-Identifier: GPL-2.0

//! Syncobjs that get the fence of what an ioctl does, when that is done.

use kernel::{prelude::*, sync::aref::ARef};

use super::file::Render;
use crate::kapi::{
    drm::File,
    fence::Fence,
    syncobj::{Link, Syncobj},
};

/// Where a fence goes.
pub(super) struct SyncobjSignal {
    syncobj: ARef<Syncobj>,
    /// A point of its time line, with memory for it; without one its fence is replaced.
    point: Option<(u64, Link)>,
}

impl SyncobjSignal {
    /// The syncobj with a handle, and a point of its time line unless that is 0. Fails with `missing` if there is none.
    pub(super) fn new(
        file: &File<Render>,
        handle: u32,
        point: u64,
        missing: Error,
    ) -> Result<Self> {
        let syncobj = Syncobj::lookup(file, handle).ok_or(missing)?;
        let point = match point {
            0 => None,
            point => Some((point, Link::new()?)),
        };
        Ok(Self { syncobj, point })
    }

    /// Hands over the fence.
    pub(super) fn signal_with(self, fence: &ARef<Fence>) {
        match self.point {
            Some((point, link)) => self.syncobj.add_point(link, fence, point),
            None => self.syncobj.replace(Some(fence)),
        }
    }
}
