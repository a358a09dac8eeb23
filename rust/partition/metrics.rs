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
        let metrics = gpu.while_usable(ENODEV, || {
            let smu = gpu.smu().ok_or(EOPNOTSUPP)?;
            smu.user_metrics(gpu.mmio()?, Some(&xccs))
        })?;
        out.push_bytes(&metrics)
    };
    let mut files = KVec::with_capacity(1, GFP_KERNEL)?;
    files.push(File::new(c"xcp_metrics", show)?, GFP_KERNEL)?;
    Dir::new(&Parent::Device(dev), c"xcp", files)
}
