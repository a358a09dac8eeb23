// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Runs the waves of one workgroup.

use crate::{Dispatch, Host, Memory, Stop, Where};

const S_ENDPGM: u32 = 0xbf81_0000;

/// Runs all waves of the workgroup `wg` to their end.
pub fn run_workgroup(
    mem: &dyn Memory,
    _host: &dyn Host,
    d: &Dispatch,
    wg: [u32; 3],
) -> Result<(), Stop> {
    d.workgroup_extent(wg)?;
    let at = Where {
        pc: d.entry,
        workgroup: wg,
        wave: 0,
    };
    let mut word = [0; 4];
    mem.fetch(d.entry, &mut word).map_err(|fault| Stop::Fault {
        fault,
        write: false,
        at,
    })?;
    match u32::from_le_bytes(word) {
        S_ENDPGM => Ok(()),
        word => Err(Stop::IllegalInstruction {
            at,
            words: [word, 0],
            text: "the interpreter knows only s_endpgm".into(),
        }),
    }
}
