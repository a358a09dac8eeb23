// SPDX-License-Identifier: GPL-2.0

//! The machine's NUMA nodes: their processors and memory.

use kernel::bindings;

use crate::bindings as ours;

/// The machine's memory in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// What the kernel manages.
    pub(crate) total: u64,
    /// What nobody has at this moment.
    pub(crate) free: u64,
}

/// Looks at the machine's memory.
pub(crate) fn memory() -> Memory {
    let mut info = bindings::sysinfo::default();
    // SAFETY: Fills in what it is given.
    unsafe { bindings::si_meminfo(&raw mut info) };
    let unit = info.mem_unit as usize;
    Memory {
        total: (info.totalram * unit) as u64,
        free: (info.freeram * unit) as u64,
    }
}

/// Bytes of memory that can be had without swapping anything out.
pub(crate) fn available() -> u64 {
    // SAFETY: Reads counters.
    let pages = unsafe { bindings::si_mem_available() };
    u64::try_from(pages).unwrap_or(0) * kernel::page::PAGE_SIZE as u64
}

/// A NUMA node that is online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(i32);

/// All nodes that are online, in order.
pub(crate) fn nodes() -> impl Iterator<Item = Node> {
    let next = |after: i32| {
        // SAFETY: Looks at the map of nodes; any number may be asked for.
        let node = unsafe { ours::rkfd_helper_next_online_node(after) };
        (node >= 0).then_some(Node(node))
    };
    core::iter::successors(next(-1), move |node| next(node.0))
}

impl Node {
    /// The kernel's number of the node.
    pub(crate) fn id(self) -> i32 {
        self.0
    }

    /// How many processors it has.
    pub(crate) fn cpus(self) -> u32 {
        // SAFETY: The node is a valid one.
        unsafe { ours::rkfd_helper_cpus_of_node(self.0) }
    }

    /// The APIC id of its first processor, if it has one.
    pub(crate) fn first_apic_id(self) -> Option<u32> {
        if self.cpus() == 0 {
            return None;
        }
        // SAFETY: The node is a valid one.
        let cpu = unsafe { ours::rkfd_helper_first_cpu_of_node(self.0) };
        // SAFETY: The processor is one of the node's, so it exists.
        Some(unsafe { ours::rkfd_helper_apicid(cpu) })
    }

    /// Bytes of memory that the kernel manages on it.
    pub(crate) fn bytes(self) -> u64 {
        // SAFETY: The node is online, so that it has its data.
        unsafe { ours::rkfd_helper_node_bytes(self.0) }
    }

    /// The distance to another node, 10 for itself.
    pub(crate) fn distance(self, to: Self) -> u32 {
        // SAFETY: Both are valid nodes.
        unsafe { ours::rkfd_helper_node_distance(self.0, to.0) as u32 }
    }
}

/// Did AMD make the processors?
pub(crate) fn is_amd() -> bool {
    // SAFETY: Looks at what was found at boot.
    unsafe { ours::rkfd_helper_cpu_is_amd() }
}

/// The node that a device is close to, if the firmware says.
pub(crate) fn of_device(dev: &kernel::device::Device) -> Option<Node> {
    // SAFETY: The device is valid; the number is set before drivers see it.
    let node = unsafe { (*super::raw_device(dev)).numa_node };
    nodes().find(|n| n.id() == node)
}
