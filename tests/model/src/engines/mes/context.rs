// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Process and gang contexts: pages that the driver provides for the firmware.
//!
//! The contents are verified when they are used, so a page that the driver freed, moved or
//! overwrote while it was in use is detected.

use crate::engines::cp::env::Env;
use crate::engines::gmc::VmFault;
use crate::strict;

/// First qword of a process context.
const PROCESS: u64 = 0x7865_746e_6f63_5050;
/// First qword of a gang context.
const GANG: u64 = 0x7865_746e_6f63_4750;

/// Debugger settings of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Debugger {
    /// `SPI_GDBG_PER_VMID_CNTL` of its VMID.
    pub spi_gdbg: u32,
    /// Flags of SET_SHADER_DEBUGGER.
    pub flags: u32,
    /// `TCP_WATCHn_CNTL`.
    pub watch: [u32; 4],
    /// Traps enabled by SET_SHADER_DEBUGGER.
    pub trap_en: u32,
}

/// Writes a process context.
pub fn write_process(
    env: &dyn Env,
    at: u64,
    pasid: u16,
    debugger: &Debugger,
) -> Result<(), VmFault> {
    let mut words = [0u32; 16];
    words[0] = PROCESS as u32;
    words[1] = (PROCESS >> 32) as u32;
    words[2] = pasid.into();
    words[4] = debugger.spi_gdbg;
    words[5] = debugger.flags;
    words[6..10].copy_from_slice(&debugger.watch);
    words[10] = debugger.trap_en;
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    env.write(0, at, &bytes)
}

/// Reads a process context, if there is one.
pub fn read_process(env: &dyn Env, at: u64) -> Result<Option<(u16, Debugger)>, VmFault> {
    let words = env.read_dwords(0, at, 16)?;
    if words[0] != PROCESS as u32 || words[1] != (PROCESS >> 32) as u32 {
        return Ok(None);
    }
    let debugger = Debugger {
        spi_gdbg: words[4],
        flags: words[5],
        watch: [words[6], words[7], words[8], words[9]],
        trap_en: words[10],
    };
    Ok(Some((words[2] as u16, debugger)))
}

/// Verifies a process context and reports a mismatch.
pub fn check_process(env: &dyn Env, at: u64, pasid: u16) {
    let found = read_process(env, at).ok().flatten().map(|(pasid, _)| pasid);
    if found != Some(pasid) {
        strict!(
            env.strict(),
            "mes",
            "the context {at:#x} of process {pasid:#x} was overwritten while it has queues"
        );
    }
}

/// Writes a gang context.
pub fn write_gang(env: &dyn Env, at: u64, pasid: u16, process: u64) -> Result<(), VmFault> {
    let bytes: Vec<u8> = [GANG, pasid.into(), process]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    env.write(0, at, &bytes)
}

/// Verifies a gang context and reports a mismatch.
pub fn check_gang(env: &dyn Env, at: u64, pasid: u16) {
    let fits = |at: u64| -> Result<bool, VmFault> {
        Ok(env.read64(0, at)? == GANG && env.read64(0, at + 8)? == u64::from(pasid))
    };
    if !fits(at).unwrap_or(false) {
        strict!(
            env.strict(),
            "mes",
            "the gang context {at:#x} of process {pasid:#x} was overwritten while it has queues"
        );
    }
}
