// SPDX-License-Identifier: GPL-2.0

//! The DRM driver and the registration of its render nodes.

use kernel::{prelude::*, sync::Arc};

use super::{
    file::{FileData, Render},
    ioctl,
};
use crate::{
    gpu::Gpu,
    kapi::drm::{self, Ioctl},
    node,
};

#[vtable]
impl drm::Driver for Render {
    type File = FileData;
    const NAME: &'static CStr = c"amdgpu";
    const DESC: &'static CStr = c"AMD GPU";
    const VERSION: (i32, i32, i32) = (3, 64, 0);
    const IOCTLS: &'static [Ioctl<Self>] = &ioctl::IOCTLS;

    fn open(dev: &drm::Device) -> Result<Arc<FileData>> {
        let nodes = node::list()?;
        let node = nodes
            .iter()
            .find(|node| core::ptr::eq(node.gpu().dev(), dev.parent()))
            .ok_or(ENODEV)?;
        FileData::new(node.gpu().clone())
    }

    fn flush(file: &drm::File<Self>) {
        file.data().flush();
    }

    fn handle_closed(file: &drm::File<Self>, object: usize) {
        file.data().unmap_closed(object);
    }
}

/// The registered render node of a GPU. Dropping it unplugs the node: open files stay, and their
/// ioctls fail with `ENODEV`.
pub(crate) struct Node(drm::Registration);

impl Node {
    /// Registers the render node of a GPU, which is in [`node::list`] already.
    pub(crate) fn register(gpu: &Arc<Gpu>) -> Result<Self> {
        let dev = drm::Device::new::<Render>(gpu.dev())?;
        Ok(Self(drm::Registration::new(dev)?))
    }

    /// Returns the minor number.
    pub(crate) fn minor(&self) -> u32 {
        self.0.render_minor()
    }
}
