// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Runs the module's first-level trap handlers in the shader interpreter of the model, and compares
//! their machine code with their sources.
#![cfg(test)]

#[path = "../model/wave/tests/common/mod.rs"]
mod common;
mod gfx12;
mod hazards;
mod kernels;
#[path = "../../rust/hw/gfx9_4_3/trap.rs"]
mod module;
mod record;
mod record_gfx12;
mod save;

use std::sync::atomic::Ordering;

use common::place::{CODE, DATA};
use common::{llvm, one_wave, Ram, Recorder};
use gpu_wave::{run_workgroup, Dispatch, Isa, Stop, Trap};

const MODULE_SOURCE: &str = include_str!("../../rust/hw/gfx9_4_3/trap.s");

const FIRST: u64 = CODE + 0x1_0000;
const SECOND: u64 = FIRST + 0x4000;
/// Memory of the first-level handler: address and memory of the second level, debugger flag.
const FIRST_TMA: u64 = FIRST + 0x1800;
/// Memory of the second-level handler: ttmp0 and 1, TRAPSTS, ttmp12, ttmp8 to 11, ttmp13.
const SECOND_TMA: u64 = DATA + 0x1000;

/// TRAPSTS.MEM_VIOL.
const MEMORY: u32 = 1 << 8;

/// Second-level handler of a runtime: stores the state it was entered with and returns past an
/// `s_trap`; for other causes it halts the wave.
const SECOND_SOURCE: &str = "
    s_store_dwordx2 ttmp[0:1], ttmp[14:15], 0x0
    s_getreg_b32 ttmp2, hwreg(HW_REG_TRAPSTS)
    s_store_dword ttmp2, ttmp[14:15], 0x8
    s_store_dword ttmp12, ttmp[14:15], 0xc
    s_store_dwordx4 ttmp[8:11], ttmp[14:15], 0x10
    s_store_dword ttmp13, ttmp[14:15], 0x20
    s_bfe_u32 ttmp7, ttmp1, 0x80010
    s_cbranch_scc0 stop
    s_add_u32 ttmp0, ttmp0, 4
    s_addc_u32 ttmp1, ttmp1, 0
    s_branch back
stop:
    s_bitset1_b32 ttmp12, 13
back:
    s_lshr_b32 ttmp2, ttmp13, 11
    s_and_b32 ttmp2, ttmp2, 0x1f8000
    s_setreg_b32 hwreg(HW_REG_IB_STS), ttmp2
    s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
    s_rfe_b64 ttmp[0:1]
";

const AROUND_A_TRAP: &str = "s_cmp_eq_u32 0, 0\n s_trap 2\n s_cselect_b32 s4, 5, 6\n\
     v_mov_b32 v1, s4\n v_mov_b32 v2, 0\n global_store_dword v2, v1, s[0:1]\n s_endpgm\n";

/// Runs a wave with the module's trap handler and a second level at `second` (0 for none).
fn run(code: &str, second: u64, debugger: u32) -> (Ram, Result<(), Stop>) {
    run_late(code, second, debugger, None)
}

/// As [`run`], with results that come late if there is a seed.
fn run_late(code: &str, second: u64, debugger: u32, late: Option<u64>) -> (Ram, Result<(), Stop>) {
    run_on(&module::FIRST_LEVEL, code, second, debugger, late)
}

/// The same with another handler.
fn run_on(
    handler: &[u32],
    code: &str,
    second: u64,
    debugger: u32,
    late: Option<u64>,
) -> (Ram, Result<(), Stop>) {
    let ram = Ram::new(CODE, (DATA - CODE) as usize + 0x1_0000);
    ram.put_u32(CODE, &llvm::assemble(code));
    ram.put_u32(FIRST, handler);
    ram.put_u32(SECOND, &llvm::assemble(SECOND_SOURCE));
    ram.put(FIRST_TMA, &second.to_le_bytes());
    ram.put(FIRST_TMA + 8, &SECOND_TMA.to_le_bytes());
    ram.put_u32(FIRST_TMA + 16, &[debugger]);
    let dispatch = Dispatch {
        trap: Some(Trap {
            tba: FIRST,
            tma: FIRST_TMA,
        }),
        ..one_wave()
    };
    let host = Recorder::late(late);
    // A wave that traps again and again is a failure.
    host.patience.store(1000, Ordering::Relaxed);
    let result = run_workgroup(&ram, &host, &dispatch, [0, 0, 0]);
    (ram, result)
}

#[test]
fn machine_code_matches_source() {
    assert_eq!(module::FIRST_LEVEL[..], llvm::assemble(MODULE_SOURCE));
}

#[test]
fn enters_second_level_handler() {
    for n in 0..16 {
        let (debugger, late) = (n % 2, (n > 1).then_some(n.into()));
        let (ram, result) = run_late(AROUND_A_TRAP, SECOND, debugger, late);
        result.unwrap();
        let notes = ram.get_u32(SECOND_TMA, 9);
        let pc = u64::from(notes[0]) | u64::from(notes[1] & 0xffff) << 32;
        assert_eq!((pc, notes[1] >> 16 & 0xff), (CODE + 4, 2));
        assert_eq!(notes[3] & 0x1_2061, 0x1_0061);
        assert_eq!(notes[8], debugger << 23);
        // SCC is restored and the trap is over.
        assert_eq!(ram.get_u32(DATA, 1), [5]);
    }
    let (ram, result) = run("ds_add_u32 v0, v0 offset:2", SECOND, 0);
    assert!(matches!(result, Err(Stop::Halted { at }) if at.pc == CODE));
    assert_eq!(ram.get_u32(SECOND_TMA + 8, 1), [MEMORY]);
}

#[test]
fn works_without_second_level_handler() {
    let (ram, result) = run(AROUND_A_TRAP, 0, 0);
    result.unwrap();
    assert_eq!(ram.get_u32(DATA, 1), [5]);
    // The program counter is 8 bytes back: a wave halted at s_endpgm could not be saved.
    let (_, result) = run("s_nop 0\n s_mov_b32 s4, ttmp8\n s_endpgm", 0, 0);
    assert!(matches!(result, Err(Stop::Halted { at }) if at.pc == CODE - 4));
}

/// Trap id 0 stands for the causes that a handler does not know: a return would trap again.
const UNKNOWN: &str = "s_nop 0\n s_trap 0\n s_endpgm";

/// Runs waves that trap for an unknown reason: the second level halts them, and without one the
/// first.
fn halts_at_an_unknown_cause(handler: &[u32]) {
    let (ram, result) = run_on(handler, UNKNOWN, SECOND, 0, None);
    assert!(
        matches!(result, Err(Stop::Halted { at }) if at.pc == CODE + 4),
        "{result:?}"
    );
    assert_eq!(
        ram.get_u32(SECOND_TMA, 3),
        [CODE as u32 + 4, (CODE >> 32) as u32, 0]
    );
    let (_, result) = run_on(handler, UNKNOWN, 0, 0, None);
    assert!(
        matches!(result, Err(Stop::Halted { at }) if at.pc == CODE - 4),
        "{result:?}"
    );
}

#[test]
fn stock_handler_halts_at_an_unknown_cause() {
    halts_at_an_unknown_cause(&save::stock_handler(Isa::Gfx942));
}

#[test]
fn module_handler_halts_at_an_unknown_cause() {
    halts_at_an_unknown_cause(&module::FIRST_LEVEL);
}
