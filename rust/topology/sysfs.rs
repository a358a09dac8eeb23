// SPDX-License-Identifier: GPL-2.0

//! The directory `topology` in sysfs: a directory for each node, with its properties, memory banks,
//! caches and links.
//!
//! Nodes are immutable; readers take no lock.

use core::fmt::{self, Display, Write};

use kernel::{
    device,
    prelude::*,
    str::CString,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

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

/// Returns a list of one file, which prints `part` of a node; reading fails with `EPERM` if the
/// task may not use the node, `ENODEV` if that has no such part.
fn text<T, F>(name: &CStr, node: &Arc<Node>, part: F) -> Result<KVec<File>>
where
    T: Display,
    F: Fn(&Node) -> Option<&T> + Send + Sync + 'static,
{
    let node = node.clone();
    one(File::new(name, move |out: &mut Text<'_>| {
        node.check_permission()?;
        let part = part(&node).ok_or(ENODEV)?;
        put(out, format_args!("{part}"))
    })?)
}

/// Returns a list of one file.
fn one(file: File) -> Result<KVec<File>> {
    let mut files = KVec::with_capacity(1, GFP_KERNEL)?;
    files.push(file, GFP_KERNEL)?;
    Ok(files)
}

/// Returns a directory name.
fn number(n: usize) -> Result<CString> {
    CString::try_from_fmt(fmt!("{n}"))
}

impl SysfsTree {
    /// Creates the directory without nodes below `parent`.
    pub(super) fn new(parent: &device::Device, generation: &'static Atomic<u32>) -> Result<Self> {
        let mut files = KVec::new();
        files.push(
            File::new(c"generation_id", move |out: &mut Text<'_>| {
                put(out, format_args!("{}\n", generation.load(Relaxed)))
            })?,
            GFP_KERNEL,
        )?;
        let oem = acpi::oem();
        files.push(
            File::new(c"system_properties", move |out: &mut Text<'_>| {
                put(
                    out,
                    format_args!(
                        "platform_oem {}\nplatform_id {}\nplatform_rev {}\n",
                        oem.table_id, oem.id, oem.revision
                    ),
                )
            })?,
            GFP_KERNEL,
        )?;
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
        for i in 0..node.banks.len() {
            let files = text(c"properties", node, move |n| n.banks.get(i))?;
            let leaf = Dir::new(&Parent::Dir(&groups[0]), &number(i)?, files)?;
            leaves.push(leaf, GFP_KERNEL)?;
        }
        for i in 0..node.caches.len() {
            let files = text(c"properties", node, move |n| n.caches.get(i))?;
            let leaf = Dir::new(&Parent::Dir(&groups[1]), &number(i)?, files)?;
            leaves.push(leaf, GFP_KERNEL)?;
        }
        for i in 0..node.io_links.len() {
            let files = text(c"properties", node, move |n| n.io_links.get(i))?;
            let leaf = Dir::new(&Parent::Dir(&groups[2]), &number(i)?, files)?;
            leaves.push(leaf, GFP_KERNEL)?;
        }
        for i in 0..node.p2p_links.len() {
            let files = text(c"properties", node, move |n| n.p2p_links.get(i))?;
            let leaf = Dir::new(&Parent::Dir(&groups[3]), &number(i)?, files)?;
            leaves.push(leaf, GFP_KERNEL)?;
        }
        Ok(Self {
            _leaves: leaves,
            _groups: groups,
            _node: dir,
        })
    }
}

/// Returns the files of every node; reading fails with `EPERM` if the task may not use it.
fn node_files(node: &Arc<Node>) -> Result<KVec<File>> {
    let mut files = KVec::with_capacity(3, GFP_KERNEL)?;
    let of = node.clone();
    files.push(
        File::new(c"gpu_id", move |out: &mut Text<'_>| {
            of.check_permission()?;
            put(out, format_args!("{}\n", of.gpu_id))
        })?,
        GFP_KERNEL,
    )?;
    let of = node.clone();
    files.push(
        File::new(c"name", move |out: &mut Text<'_>| {
            of.check_permission()?;
            put(out, format_args!("{}\n", of.name))
        })?,
        GFP_KERNEL,
    )?;
    let of = node.clone();
    files.push(
        File::new(c"properties", move |out: &mut Text<'_>| {
            of.check_permission()?;
            put(out, format_args!("{}", of.properties()))
        })?,
        GFP_KERNEL,
    )?;
    Ok(files)
}
