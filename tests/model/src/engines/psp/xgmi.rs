// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The trusted application for xGMI hives, of a board with 8 GPUs of which each has one link to
//! each other.
//!
//! Results are in the memory shared with the driver. The driver of Linux does not check the status
//! there: the model reports commands that fail.

use rkfd_abi::psp::status;
use rkfd_abi::psp::xgmi::{
    link_info, list, node_info, shared, ta_cmd, ta_status, EXTENDED_LINKS, MAX_NODES, NO_ENGINE,
    RESPONSE,
};

use super::CLIENT;
use crate::engines::gmc::placement::HIVE_GPUS;
use crate::engines::gmc::Hub;
use crate::gpu::Gpu;
use crate::{event, strict};

/// UUID in the firmware file.
pub const UUID: [u32; 4] = [0x94f4_7da7, 0x5645_43a7, 0x4658_1d90, 0x1a1e_7c20];

/// Id of the board; that of a GPU is this plus 1 plus its position.
pub const HIVE_ID: u64 = 0x0d2f_47c1_93a8_6e00;

/// A session of the application.
#[derive(Debug)]
pub struct Xgmi {
    shared: u64,
    size: u32,
    initialized: bool,
    /// GPUs that share memory, by position.
    sharing: u8,
}

/// The shared memory.
struct Memory([u8; shared::SIZE]);

impl Memory {
    fn word(&self, at: usize) -> u32 {
        let b = &self.0[at..at + 4];
        u32::from_le_bytes([b[0], b[1], b[2], b[3]])
    }

    fn qword(&self, at: usize) -> u64 {
        u64::from(self.word(at)) | u64::from(self.word(at + 4)) << 32
    }

    fn put(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn put_qword(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Returns the positions of the GPUs in a list with entries of `size` bytes at `at`.
    fn nodes(&self, at: usize, size: usize) -> Result<Vec<u8>, u32> {
        let count = self.word(at + list::NUM_NODES) as usize;
        if count == 0 || count > MAX_NODES {
            return Err(ta_status::INVALID_NODE_NUM);
        }
        (0..count)
            .map(|n| {
                let id = self.qword(at + list::NODES + n * size);
                (0..HIVE_GPUS)
                    .find(|position| node_id(*position) == id)
                    .ok_or(ta_status::INVALID_NODE_ID)
            })
            .collect()
    }
}

fn node_id(position: u8) -> u64 {
    HIVE_ID + 1 + u64::from(position)
}

/// Returns the port of the GPU at a position for the link to another.
fn port(of: u8, to: u8) -> u8 {
    if to < of {
        to
    } else {
        to - 1
    }
}

impl Xgmi {
    /// Returns a session with `size` bytes of shared memory.
    pub fn new(shared: u64, size: u32) -> Self {
        Self {
            shared,
            size,
            initialized: false,
            sharing: 0,
        }
    }

    /// Executes a command. Returns the status of INVOKE_CMD.
    pub fn run(&mut self, gpu: &Gpu, command: u32) -> Result<(), u32> {
        let mut memory = Memory([0; shared::SIZE]);
        if (self.size as usize) < shared::SIZE {
            strict!(
                gpu.strict,
                "psp",
                "xGMI: {:#x} bytes of shared memory",
                self.size
            );
            return Err(status::tee::BAD_PARAMETERS);
        }
        let fault = |fault| {
            gpu.raise_fault(&fault, CLIENT);
            status::tee::ACCESS_DENIED
        };
        gpu.gmc
            .vm_read(Hub::MM, 0, self.shared, &mut memory.0)
            .map_err(fault)?;
        let result = match memory.word(shared::CMD_ID) == command {
            true => self.execute(gpu, command, &mut memory),
            false => Err(ta_status::INVALID_PARAMETER),
        };
        let code = result.err().unwrap_or(ta_status::SUCCESS);
        if code != ta_status::SUCCESS {
            strict!(
                gpu.strict,
                "psp",
                "xGMI command {command:#x} ({}): {}",
                ta_cmd::name(command).unwrap_or("?"),
                ta_status::name(code).unwrap_or("?")
            );
        }
        memory.put(shared::RESP_ID, command | RESPONSE);
        memory.put(shared::STATUS, code);
        event!(
            gpu.trace,
            "psp",
            "xgmi",
            "command={} status={code:#x}",
            ta_cmd::name(command).unwrap_or("?")
        );
        gpu.gmc
            .vm_write(Hub::MM, 0, self.shared, &memory.0)
            .map_err(fault)
    }

    fn execute(&mut self, gpu: &Gpu, command: u32, memory: &mut Memory) -> Result<(), u32> {
        // A card alone is in no hive.
        let own = gpu.placement.hive_node();
        let own = own.ok_or(ta_status::GENERIC_FAILURE)?;
        if command == ta_cmd::INITIALIZE {
            memory.0[shared::CAPS_FLAG] = EXTENDED_LINKS;
            self.initialized = true;
            return Ok(());
        }
        if !self.initialized {
            return Err(ta_status::NOT_INITIALIZED);
        }
        match command {
            ta_cmd::GET_NODE_ID => memory.put_qword(shared::OUT, node_id(own)),
            ta_cmd::GET_HIVE_ID => memory.put_qword(shared::OUT, HIVE_ID),
            ta_cmd::GET_TOPOLOGY_INFO => {
                let nodes = memory.nodes(shared::IN, node_info::SIZE)?;
                memory.put(shared::OUT + list::NUM_NODES, nodes.len() as u32);
                for (n, node) in nodes.into_iter().enumerate() {
                    let at = shared::OUT + list::NODES + n * node_info::SIZE;
                    memory.put_qword(at + node_info::NODE_ID, node_id(node));
                    memory.0[at + node_info::NUM_HOPS] = u8::from(node != own);
                    memory.0[at + node_info::IS_SHARING_ENABLED] = self.sharing >> node & 1;
                    memory.put(at + node_info::SDMA_ENGINE, NO_ENGINE);
                }
            }
            ta_cmd::SET_TOPOLOGY_INFO => {
                self.sharing = 0;
                let nodes = memory.nodes(shared::IN, node_info::SIZE)?;
                for (n, node) in nodes.into_iter().enumerate() {
                    let at = shared::IN + list::NODES + n * node_info::SIZE;
                    let shares = memory.0[at + node_info::IS_SHARING_ENABLED] != 0;
                    self.sharing |= u8::from(shares) << node;
                }
            }
            ta_cmd::GET_PEER_LINKS | ta_cmd::GET_EXTEND_PEER_LINKS => {
                // The list is in the output.
                let extended = command == ta_cmd::GET_EXTEND_PEER_LINKS;
                let size = match extended {
                    true => link_info::EXTENDED_SIZE,
                    false => link_info::SIZE,
                };
                for (n, node) in memory.nodes(shared::OUT, size)?.into_iter().enumerate() {
                    let at = shared::OUT + list::NODES + n * size;
                    memory.0[at + link_info::NUM_LINKS] = u8::from(node != own);
                    if extended && node != own {
                        let ports = [port(node, own), port(own, node)];
                        memory.0[at + link_info::PORT_NUM..][..2].copy_from_slice(&ports);
                    }
                }
            }
            _ => return Err(ta_status::INVALID_PARAMETER),
        }
        Ok(())
    }
}
