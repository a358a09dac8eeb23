// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The PSP's trusted application for xGMI hives: commands and the memory shared with it.
//!
//! Source: `amdgpu/ta_xgmi_if.h`. The driver fills the shared memory, invokes the command by
//! [`super::cmd::INVOKE_CMD`], and finds the results there.

numbers! {
    /// Commands (`enum ta_command_xgmi`).
    ta_cmd: u32 {
        /// Initializes the session.
        INITIALIZE = 0x0,
        /// Returns the id of this GPU.
        GET_NODE_ID = 0x1,
        /// Returns the id of the hive.
        GET_HIVE_ID = 0x2,
        /// Returns hops and sharing to each GPU of a list.
        GET_TOPOLOGY_INFO = 0x3,
        /// Sets the GPUs that share memory.
        SET_TOPOLOGY_INFO = 0x4,
        /// Returns the number of links to each GPU of a list.
        GET_PEER_LINKS = 0xb,
        /// Returns number and ports of the links to each GPU of a list.
        GET_EXTEND_PEER_LINKS = 0xc,
    }
}

numbers! {
    /// Result of a command (`enum ta_xgmi_status`).
    ta_status: u32 {
        /// Success.
        SUCCESS = 0x0,
        /// Generic failure.
        GENERIC_FAILURE = 0x1,
        /// Invalid parameter.
        INVALID_PARAMETER = 0x3,
        /// The session is not initialized.
        NOT_INITIALIZED = 0x4,
        /// Invalid number of GPUs.
        INVALID_NODE_NUM = 0x5,
        /// Invalid id of a GPU.
        INVALID_NODE_ID = 0x6,
    }
}

/// Bit of [`shared::RESP_ID`] besides the command (`RSP_ID_MASK`).
pub const RESPONSE: u32 = 1 << 31;
/// Bit of [`shared::CAPS_FLAG`]: there is [`ta_cmd::GET_EXTEND_PEER_LINKS`]
/// (`EXTEND_PEER_LINK_INFO_CMD_FLAG`).
pub const EXTENDED_LINKS: u8 = 1;
/// Number of GPUs in a list (`TA_XGMI__MAX_CONNECTED_NODES`).
pub const MAX_NODES: usize = 64;
/// Number of ports of a link (`TA_XGMI__MAX_PORT_NUM`).
pub const MAX_PORTS: usize = 8;
/// No SDMA engine is assigned (`TA_XGMI_ASSIGNED_SDMA_ENGINE__NOT_ASSIGNED`).
pub const NO_ENGINE: u32 = u32::MAX;
/// Size of the shared memory that the C driver allocates, in bytes (`PSP_XGMI_SHARED_MEM_SIZE`).
pub const SHARED_SIZE: usize = 0x4000;

/// Shared memory: byte offsets (`struct ta_xgmi_shared_memory`).
pub mod shared {
    /// Command, one of [`super::ta_cmd`].
    pub const CMD_ID: usize = 0;
    /// The command with [`super::RESPONSE`].
    pub const RESP_ID: usize = 4;
    /// One of [`super::ta_status`].
    pub const STATUS: usize = 8;
    /// Byte; 1: the second half of the links.
    pub const FLAG_EXTEND_LINK_RECORD: usize = 12;
    /// Byte: capabilities, a result of [`super::ta_cmd::INITIALIZE`].
    pub const CAPS_FLAG: usize = 13;
    /// Input: a [`super::list`].
    pub const IN: usize = 16;
    /// Output: a qword or a [`super::list`].
    pub const OUT: usize = 1048;
    /// Size in bytes.
    pub const SIZE: usize = 3104;
}

/// List of GPUs: byte offsets. Each command has its own entries.
pub mod list {
    /// Number of GPUs.
    pub const NUM_NODES: usize = 0;
    /// First entry.
    pub const NODES: usize = 8;
}

/// Entry of [`ta_cmd::GET_TOPOLOGY_INFO`] and [`ta_cmd::SET_TOPOLOGY_INFO`] (`struct
/// ta_xgmi_node_info`).
pub mod node_info {
    /// Id of the GPU.
    pub const NODE_ID: usize = 0;
    /// Byte: number of hops.
    pub const NUM_HOPS: usize = 8;
    /// Byte: the GPU shares memory.
    pub const IS_SHARING_ENABLED: usize = 9;
    /// SDMA engine for copies to it.
    pub const SDMA_ENGINE: usize = 12;
    /// Size in bytes.
    pub const SIZE: usize = 16;
}

/// Entry of [`ta_cmd::GET_PEER_LINKS`] (`struct ta_xgmi_peer_link_info`) and
/// [`ta_cmd::GET_EXTEND_PEER_LINKS`] (`struct ta_xgmi_extend_peer_link_info`).
pub mod link_info {
    /// Id of the GPU, an input.
    pub const NODE_ID: usize = 0;
    /// Byte: number of links.
    pub const NUM_LINKS: usize = 8;
    /// Two bytes for each link: port of the other GPU, own port.
    pub const PORT_NUM: usize = 9;
    /// Size without ports, in bytes.
    pub const SIZE: usize = 16;
    /// Size with ports, in bytes.
    pub const EXTENDED_SIZE: usize = 32;
}
