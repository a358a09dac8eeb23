// SPDX-License-Identifier: GPL-2.0

//! The topology: NUMA nodes and GPUs, numbered without gaps, for user space in sysfs.
//!
//! The parts, each of which uses only those before it:
//!
//! | file | part |
//! |---|---|
//! | `cache`, `node` | a node and its properties |
//! | `nodes` | builds all nodes from NUMA nodes and GPUs |
//! | `sysfs`, `debugfs` | show nodes |
//! | `registry` | the GPUs of the topology, and its sysfs and debugfs directories |

mod cache;
mod debugfs;
mod node;
mod nodes;
mod registry;
mod sysfs;

pub(crate) use {
    node::Node,
    registry::{
        add_gpus, count, exit, init, nodes, remove_gpus, DebugfsRegistration, SysfsRegistration,
    },
};
