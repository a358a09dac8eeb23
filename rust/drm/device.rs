// SPDX-License-Identifier: GPL-2.0

//! The DRM driver and the registration of its render nodes.
//!
//! A card with compute partitions has a render node for each partition that a mode can have, from
//! probe to unbind. That of the first partition belongs to the PCI device, the others to platform
//! devices with the names of the C driver (`amdgpu_xcp_drv.c`). All are nodes of one DRM device.

use kernel::{
    device,
    prelude::*,
    str::CString,
    sync::{aref::ARef, Arc},
};

use super::{
    fdinfo,
    file::{FileData, Render},
    ioctl,
    partition::Partitions,
};
use crate::{
    asic::partition::MAX_PARTITIONS,
    kapi::{
        drm::{self, Fdinfo, Ioctl, Minor},
        global::global_mutex,
        platform,
    },
    node::NodeSet,
};

#[vtable]
impl drm::Driver for Render {
    type Data = Partitions;
    type File = FileData;
    const NAME: &'static CStr = c"amdgpu";
    const DESC: &'static CStr = c"AMD GPU";
    const VERSION: (i32, i32, i32) = (3, 64, 0);
    const IOCTLS: &'static [Ioctl<Self>] = &ioctl::IOCTLS;

    /// `ENOENT` for the render node of a partition that the current mode does not have.
    fn open(partitions: &Arc<Partitions>, minor: Minor, client_id: u64) -> Result<Arc<FileData>> {
        let index = match minor {
            Minor::Primary => None,
            Minor::Render(index) => {
                let index = u32::try_from(index)?;
                if !partitions.has(index) {
                    return Err(ENOENT);
                }
                Some(index)
            }
        };
        FileData::new(partitions, index, client_id)
    }

    fn flush(file: &drm::File<Self>) {
        file.data().flush();
    }

    fn release(file: &drm::File<Self>) {
        file.data().queues.lock().close();
    }

    fn handle_closed(file: &drm::File<Self>, object: usize) {
        file.data().unmap_closed(object, || file.has_handle(object));
    }

    fn show_fdinfo(file: &drm::File<Self>, out: &mut Fdinfo<'_>) -> Result {
        fdinfo::show(file, out)
    }
}

global_mutex! {
    /// The numbers of platform devices in use, as bits (`MAX_XCP_PLATFORM_DEVICE`: 64 at most).
    NUMBERS: u64 = 0;
    init init
}

/// The number of a platform device. Dropping it frees the number.
struct Number(u32);

impl Number {
    /// Returns the lowest free number; `ENODEV` if all are in use.
    fn new() -> Result<Self> {
        let mut used = NUMBERS.lock();
        let number = used.trailing_ones();
        *used |= 1u64.checked_shl(number).ok_or(ENODEV)?;
        Ok(Self(number))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        *NUMBERS.lock() &= !(1 << self.0);
    }
}

/// The platform device of a partition other than the first.
struct PartitionDevice {
    // Field order: the number is free when the device is unregistered.
    device: platform::Device,
    _number: Number,
}

impl PartitionDevice {
    /// Registers the device with the lowest free number. `ENODEV` without a number, `ENOMEM`
    /// without memory.
    fn new() -> Result<Self> {
        let number = Number::new()?;
        let name = CString::try_from_fmt(fmt!("amdgpu_xcp_{}", number.0))?;
        Ok(Self {
            device: platform::Device::new(&name)?,
            _number: number,
        })
    }
}

/// A render node.
pub(crate) struct RenderNode {
    /// Minor number.
    pub(crate) minor: u32,
    /// The device to which it belongs.
    pub(crate) parent: ARef<device::Device>,
}

/// The render nodes of a GPU. Dropping it unplugs the nodes: open files stay, and their ioctls fail
/// with `ENODEV`.
pub(crate) struct RenderNodes {
    // Field order: the nodes are unplugged before their parents are unregistered.
    registration: Option<drm::Registration>,
    dev: ARef<drm::Device>,
    _parents: KVec<PartitionDevice>,
}

impl RenderNodes {
    /// Allocates the render nodes of a GPU. `ENODEV` if there are too many cards with partitions,
    /// `ENOMEM` without memory.
    pub(crate) fn new(nodes: &Arc<NodeSet>) -> Result<Self> {
        let gpu = nodes.gpu();
        let mut parents = KVec::new();
        if gpu.nps().is_some() {
            for _ in 1..MAX_PARTITIONS {
                parents.push(PartitionDevice::new()?, GFP_KERNEL)?;
            }
        }
        let mut aliases = KVec::with_capacity(parents.len(), GFP_KERNEL)?;
        for parent in &parents {
            aliases.push_within_capacity(parent.device.as_dev())?;
        }
        let dev = drm::Device::new::<Render>(gpu.dev(), Partitions::new(nodes)?, &aliases)?;
        drop(aliases);
        Ok(Self {
            registration: None,
            dev,
            _parents: parents,
        })
    }

    /// Registers them, which sends their uevents. `EBUSY` if they were registered before, `ENOMEM`
    /// without memory.
    pub(crate) fn register(&mut self) -> Result {
        self.registration = Some(drm::Registration::new(self.dev.clone())?);
        Ok(())
    }

    /// Returns the DRM device.
    pub(crate) fn device(&self) -> ARef<drm::Device> {
        self.dev.clone()
    }

    /// Returns the nodes by partition. `ENOMEM` without memory.
    pub(crate) fn list(&self) -> Result<KVec<RenderNode>> {
        let mut nodes = KVec::new();
        for (minor, parent) in self.dev.render_nodes() {
            let parent = parent.into();
            nodes.push(RenderNode { minor, parent }, GFP_KERNEL)?;
        }
        Ok(nodes)
    }
}
