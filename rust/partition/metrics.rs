// SPDX-License-Identifier: GPL-2.0

//! `xcp/xcp_metrics` in sysfs, of the device of each partition that the mode has: clocks and
//! activity of its XCCs (`amdgpu_xcp.c`).

use kernel::{device, prelude::*};

use crate::{
    kapi::kobject::{Dir, File, Parent, Text},
    node::Node,
};

/// Creates the directory below `dev`, the device of a node's render node. `ENOMEM` without memory.
pub(super) fn folder(dev: &device::Device, node: &Node) -> Result<Dir> {
    let (gpu, xccs) = (node.gpu().clone(), *node.xccs());
    let show = move |out: &mut Text<'_>| {
        gpu.check_usable().map_err(|_| ENODEV)?;
        let smu = gpu.smu().ok_or(EOPNOTSUPP)?;
        let metrics = gpu
            .mmio()
            .and_then(|mmio| smu.user_metrics(mmio, Some(&xccs)));
        // A reset that begins meanwhile makes all accesses fail.
        let metrics = metrics.map_err(|e| gpu.check_usable().map_or(ENODEV, |()| e))?;
        out.push_bytes(&metrics)
    };
    let mut files = KVec::with_capacity(1, GFP_KERNEL)?;
    files.push(File::new(c"xcp_metrics", show)?, GFP_KERNEL)?;
    Dir::new(&Parent::Device(dev), c"xcp", files)
}
