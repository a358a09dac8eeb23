// SPDX-License-Identifier: GPL-2.0

//! NUMA nodes: their CPUs, memory and distances.
//!
//! C headers: [`include/linux/nodemask.h`](srctree/include/linux/nodemask.h),
//! [`include/linux/topology.h`](srctree/include/linux/topology.h)
//!
//! # Examples
//!
//! ```ignore
//! for node in numa::nodes().filter(|n| n.cpus() > 0) {
//!     pr_info!("node {}: {} MiB\n", node.id(), node.bytes() >> 20);
//! }
//! ```

use crate::bindings as ours;

/// A NUMA node that was online when it was looked up.
///
/// # Invariants
///
/// The number of a node that has been online: such a node keeps its `pg_data_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(i32);

/// Returns all online nodes in ascending order.
pub(crate) fn nodes() -> impl Iterator<Item = Node> {
    let next = |after: i32| {
        // SAFETY: The argument is -1 or a node number, from which the node map is searched.
        let node = unsafe { ours::rkfd_helper_next_online_node(after) };
        // INVARIANT: The node is online.
        (node >= 0).then_some(Node(node))
    };
    core::iter::successors(next(-1), move |node| next(node.0))
}

impl Node {
    /// Returns the number of the node.
    pub(crate) fn id(self) -> i32 {
        self.0
    }

    /// Returns the number of online CPUs of the node.
    pub(crate) fn cpus(self) -> u32 {
        // SAFETY: By the type invariant the number is below `MAX_NUMNODES`.
        unsafe { ours::rkfd_helper_cpus_of_node(self.0) }
    }

    /// Returns the APIC id of the first online CPU of the node; `None` if it has none. May sleep.
    pub(crate) fn first_apic_id(self) -> Option<u32> {
        // SAFETY: By the type invariant the number is below `MAX_NUMNODES`. No lock is held that a
        // CPU going online or offline waits for.
        u32::try_from(unsafe { ours::rkfd_helper_first_apicid_of_node(self.0) }).ok()
    }

    /// Returns the memory of the node that the kernel manages, in bytes.
    pub(crate) fn bytes(self) -> u64 {
        // SAFETY: By the type invariant the node has a `pg_data_t`.
        unsafe { ours::rkfd_helper_node_bytes(self.0) }
    }

    /// Returns the distance to another node (SLIT): 10 to itself.
    pub(crate) fn distance(self, to: Self) -> u32 {
        // SAFETY: Both numbers are below `MAX_NUMNODES` by the type invariant.
        unsafe { ours::rkfd_helper_node_distance(self.0, to.0) as u32 }
    }
}

/// Returns the node of a device; `None` if the firmware does not name one that is online.
pub(crate) fn of_device(dev: &kernel::device::Device) -> Option<Node> {
    // SAFETY: The device is valid by its type; a word is read that user space may overwrite
    // (sysfs `numa_node`), with any value.
    let node = unsafe { (*super::raw_device(dev)).numa_node };
    nodes().find(|n| n.id() == node)
}
