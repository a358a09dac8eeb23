// SPDX-License-Identifier: GPL-2.0

//! The trusted application for xGMI hives: load, unload, and the query of the hive id.

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32, lo32},
    psp::{
        cmd, invoke, load_ta, status, unload_ta,
        xgmi::{shared, ta_cmd, ta_status, SHARED_SIZE},
    },
};

use super::{Psp, PspContext, State, Status, APPLICATION};

impl Psp {
    /// Loads the application and returns the id of the hive (`amdgpu_xgmi_add_device`). `ENOENT`
    /// when the firmware file has none, `EIO` when the PSP or the application rejects a command.
    pub(super) fn start_xgmi(&self, cx: &PspContext<'_>, state: &mut State) -> Result<u64> {
        let part = self.plan.xgmi.as_ref().ok_or(ENOENT)?;
        let memory = application_memory(state)?;
        let response = self.send(cx, state, part, cmd::LOAD_TA, |at| {
            [
                (load_ta::APP_ADDR_LO, lo32(at)),
                (load_ta::APP_ADDR_HI, hi32(at)),
                (load_ta::APP_LEN, part.len as u32),
                (load_ta::CMD_BUF_ADDR_LO, lo32(memory)),
                (load_ta::CMD_BUF_ADDR_HI, hi32(memory)),
                (load_ta::CMD_BUF_LEN, SHARED_SIZE as u32),
            ]
        })?;
        if response.status != status::SUCCESS {
            self.warn_if_refused(cx, part, response.status);
            return Err(EIO);
        }
        state.xgmi = Some(response.session);
        self.run_xgmi(cx, state, ta_cmd::INITIALIZE)?;
        self.run_xgmi(cx, state, ta_cmd::GET_HIVE_ID)
    }

    /// Unloads the application, if it is loaded.
    pub(super) fn stop_xgmi(&self, cx: &PspContext<'_>, state: &mut State) -> Result {
        let Some(session) = state.xgmi.take() else {
            return Ok(());
        };
        let arguments = [(unload_ta::SESSION_ID, session)];
        self.send_command(cx, state, cmd::UNLOAD_TA, &arguments)
    }

    /// Executes a command without input; returns the first qword of its output.
    fn run_xgmi(&self, cx: &PspContext<'_>, state: &mut State, command: u32) -> Result<u64> {
        let session = state.xgmi.ok_or(ENODEV)?;
        let memory = &state.buffers()?.shared;
        memory.access()?.fill32(APPLICATION, shared::SIZE / 4, 0)?;
        memory.write32(APPLICATION + shared::CMD_ID, command)?;
        let arguments = [(invoke::SESSION_ID, session), (invoke::TA_CMD_ID, command)];
        let response = self.submit(cx, state, cmd::INVOKE_CMD, &arguments)?;
        let memory = &state.buffers()?.shared;
        let code = memory.read32(APPLICATION + shared::STATUS)?;
        if response.status != status::SUCCESS || code != ta_status::SUCCESS {
            dev_err!(
                cx.dev,
                "the xGMI firmware rejects {}: {}, {code:#x}\n",
                ta_cmd::name(command).unwrap_or("a command"),
                Status(response.status)
            );
            return Err(EIO);
        }
        memory.read64(APPLICATION + shared::OUT)
    }
}

/// Returns the address of the memory that is shared with the application.
fn application_memory(state: &State) -> Result<u64> {
    let shared = &state.buffers()?.shared;
    Ok(shared.gpu_addr() + APPLICATION as u64)
}
