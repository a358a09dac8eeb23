// SPDX-License-Identifier: GPL-2.0

//! The directory `topology` in sysfs: a directory for each node, with its properties, memory banks,
//! caches and links.
//!
//! Nodes are immutable; readers take no lock.

use core::fmt::{self, Display, Write};

use kernel::{device, kvec, prelude::*, str::CString, sync::Arc};

use super::node::Node;
use crate::kapi::{
    acpi,
    kobject::{Dir, File, Parent, Text},
};

/// The whole directory.
pub(super) struct SysfsTree {
    // Field order: children are removed before parents.
    nodes: KVec<NodeDirs>,
    nodes_dir: Dir,
    _root: Dir,
}

/// The directories of a node.
struct NodeDirs {
    _leaves: KVec<Dir>,
    _groups: KVec<Dir>,
    _node: Dir,
}

/// Writes `what`; `EFBIG` if it does not fit.
fn put(out: &mut Text<'_>, what: fmt::Arguments<'_>) -> Result {
    out.write_fmt(what).map_err(|_| EFBIG)
}

/// Returns a file of a node, which `show` prints; reading fails with `EPERM` if the task may not
/// use the node.
fn file(
    name: &CStr,
    node: &Arc<Node>,
    show: impl Fn(&Node, &mut Text<'_>) -> Result + Send + Sync + 'static,
) -> Result<File> {
    let node = node.clone();
    File::new(name, move |out: &mut Text<'_>| {
        node.check_permission()?;
        show(&node, out)
    })
}

/// Returns a directory name.
fn number(n: usize) -> Result<CString> {
    CString::try_from_fmt(fmt!("{n}"))
}

impl SysfsTree {
    /// Creates the directory without nodes below `parent`.
    pub(super) fn new(parent: &device::Device, generation: fn() -> u32) -> Result<Self> {
        let oem = acpi::oem();
        let files = kvec![
            File::new(c"generation_id", move |out: &mut Text<'_>| {
                put(out, format_args!("{}\n", generation()))
            })?,
            File::new(c"system_properties", move |out: &mut Text<'_>| {
                put(
                    out,
                    format_args!(
                        "platform_oem {}\nplatform_id {}\nplatform_rev {}\n",
                        oem.table_id, oem.id, oem.revision
                    ),
                )
            })?,
        ]?;
        let root = Dir::new(&Parent::Device(parent), c"topology", files)?;
        let nodes_dir = Dir::new(&Parent::Dir(&root), c"nodes", KVec::new())?;
        Ok(Self {
            nodes: KVec::new(),
            nodes_dir,
            _root: root,
        })
    }

    /// Replaces all nodes by `nodes`. An error leaves a part of them.
    pub(super) fn replace(&mut self, nodes: &[Arc<Node>]) -> Result {
        self.nodes.clear();
        self.nodes.reserve(nodes.len(), GFP_KERNEL)?;
        for (index, node) in nodes.iter().enumerate() {
            let dirs = NodeDirs::new(&self.nodes_dir, index, node)?;
            self.nodes.push(dirs, GFP_KERNEL)?;
        }
        Ok(())
    }
}

impl NodeDirs {
    fn new(parent: &Dir, index: usize, node: &Arc<Node>) -> Result<Self> {
        let dir = Dir::new(&Parent::Dir(parent), &number(index)?, node_files(node)?)?;
        let mut groups = KVec::with_capacity(5, GFP_KERNEL)?;
        for name in [c"mem_banks", c"caches", c"io_links", c"p2p_links", c"perf"] {
            groups.push(Dir::new(&Parent::Dir(&dir), name, KVec::new())?, GFP_KERNEL)?;
        }
        let mut leaves = KVec::new();
        add_leaves(&mut leaves, &groups[0], node, |n| &n.banks[..])?;
        add_leaves(&mut leaves, &groups[1], node, |n| &n.caches[..])?;
        add_leaves(&mut leaves, &groups[2], node, |n| &n.io_links[..])?;
        add_leaves(&mut leaves, &groups[3], node, |n| &n.p2p_links[..])?;
        Ok(Self {
            _leaves: leaves,
            _groups: groups,
            _node: dir,
        })
    }
}

/// Appends a directory below `group` for each element of a list of the node, with a file that
/// prints the element.
fn add_leaves<T: Display + 'static>(
    leaves: &mut KVec<Dir>,
    group: &Dir,
    node: &Arc<Node>,
    list: fn(&Node) -> &[T],
) -> Result {
    for i in 0..list(node).len() {
        let files = kvec![file(c"properties", node, move |node, out| {
            let element = list(node).get(i).ok_or(ENODEV)?;
            put(out, format_args!("{element}"))
        })?]?;
        let leaf = Dir::new(&Parent::Dir(group), &number(i)?, files)?;
        leaves.push(leaf, GFP_KERNEL)?;
    }
    Ok(())
}

/// Returns the files of every node.
fn node_files(node: &Arc<Node>) -> Result<KVec<File>> {
    Ok(kvec![
        file(c"gpu_id", node, |node, out| {
            put(out, format_args!("{}\n", node.gpu_id))
        })?,
        file(c"name", node, |node, out| {
            put(out, format_args!("{}\n", node.name))
        })?,
        file(c"properties", node, |node, out| {
            put(out, format_args!("{}", node.properties()))
        })?,
    ]?)
}
