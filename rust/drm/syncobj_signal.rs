// SPDX-License-Identifier: GPL-2.0

//! Syncobjs that receive the fence of the operation of an ioctl.

use kernel::{prelude::*, sync::aref::ARef};

use super::file::Render;
use crate::kapi::{
    drm::File,
    fence::Fence,
    syncobj::{Link, Syncobj},
};

/// A syncobj, or a point of its timeline, that receives a fence.
pub(super) struct SyncobjSignal {
    syncobj: ARef<Syncobj>,
    /// A point of the timeline and the memory for it; `None` replaces the fence of the syncobj.
    point: Option<(u64, Link)>,
}

impl SyncobjSignal {
    /// Returns the syncobj `handle`, with a point of its timeline unless that is 0. Error `missing`
    /// for an unknown handle, `ENOMEM` without memory.
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

    /// Attaches the fence. Cannot fail.
    pub(super) fn signal_with(self, fence: &ARef<Fence>) {
        match self.point {
            Some((point, link)) => self.syncobj.add_point(link, fence, point),
            None => self.syncobj.replace(Some(fence)),
        }
    }
}
