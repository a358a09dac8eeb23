// SPDX-License-Identifier: GPL-2.0

//! The properties of the nodes in debugfs: `topology/nodes/<n>/properties`.
//!
//! Nodes are immutable; readers take no lock.

use kernel::{fmt, prelude::*, str::CString, sync::Arc};

use super::node::Node;
use crate::kapi::debugfs::{Dir, File};

/// The directory `topology/nodes`.
pub(super) struct DebugfsTree {
    nodes: KVec<File<Arc<Node>>>,
    dir: Dir,
}

impl DebugfsTree {
    /// Creates the directory without nodes. `ENOMEM` without memory.
    pub(super) fn new(parent: &Dir) -> Result<Self> {
        Ok(Self {
            nodes: KVec::new(),
            dir: parent.subdir(c"topology")?.subdir(c"nodes")?,
        })
    }

    /// Replaces all nodes by `nodes`. `ENOMEM` leaves a part of them.
    pub(super) fn replace(&mut self, nodes: &[Arc<Node>]) -> Result {
        self.nodes.clear();
        for (index, node) in nodes.iter().enumerate() {
            let dir = self.dir.subdir(&CString::try_from_fmt(fmt!("{index}"))?)?;
            let file = dir.file(c"properties", node.clone(), properties)?;
            self.nodes.push(file, GFP_KERNEL)?;
        }
        Ok(())
    }
}

fn properties(node: &Arc<Node>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{}", node.properties())
}
