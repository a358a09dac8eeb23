// SPDX-License-Identifier: GPL-2.0 OR MIT

//! First-level trap handler of gfx12.

#[path = "../../rust/hw/gfx12/trap.rs"]
mod module;

use std::sync::atomic::Ordering;

use crate::common::llvm::{self, Target};
use crate::common::place::{CODE, DATA};
use crate::common::{Ram, Recorder};
use crate::save::stock_handler;
use crate::{FIRST, FIRST_TMA, SECOND, SECOND_TMA, UNKNOWN};
use gpu_wave::{run_workgroup, Dispatch, Isa, Stop, Trap, WaveStart};

const MODULE_SOURCE: &str = include_str!("../../rust/hw/gfx12/trap.s");

/// EXCP_FLAG_PRIV.MEMVIOL, ILLEGAL_INST, WAVE_START and TRAP_AFTER_INST.
const MEMORY: u32 = 1 << 4;
const ILLEGAL: u32 = 1 << 6;
const WAVE_START: u32 = 1 << 8;
const AFTER_INST: u32 = 1 << 11;

/// Returns the module's handler.
pub(super) fn handler() -> &'static [u32] {
    &module::FIRST_LEVEL
}

/// Second-level handler: stores through v[10:11] to the memory in ttmp[14:15] the state it was
/// entered with (ttmp0, 1, EXCP_FLAG_PRIV, ttmp12, ttmp11, SCHED_MODE) and returns past an
/// `s_trap`; for other causes it halts the wave.
const SECOND_SOURCE: &str = "
    s_mov_b64 ttmp[4:5], exec
    s_mov_b64 exec, 1
    s_getreg_b32 ttmp2, hwreg(HW_REG_EXCP_FLAG_PRIV)
    s_getreg_b32 ttmp3, hwreg(26)
    v_mov_b32 v4, 0
    v_mov_b32 v5, ttmp0
    v_mov_b32 v6, ttmp1
    v_mov_b32 v7, ttmp2
    v_mov_b32 v8, ttmp12
    global_store_b128 v4, v[5:8], ttmp[14:15]
    v_mov_b32 v5, ttmp11
    v_mov_b32 v6, ttmp3
    v_mov_b32 v7, ttmp9
    v_mov_b32 v8, ttmp8
    global_store_b128 v4, v[5:8], ttmp[14:15] offset:16
    s_mov_b64 exec, ttmp[4:5]
    s_bfe_u32 ttmp2, ttmp1, 0x4001c
    s_cbranch_scc0 stop
    s_add_co_u32 ttmp0, ttmp0, 4
    s_add_co_ci_u32 ttmp1, ttmp1, 0
    s_branch back
stop:
    s_bitset1_b32 ttmp12, 14
back:
    s_setreg_b32 hwreg(HW_REG_STATE_PRIV, 0, 2), ttmp12
    s_lshr_b32 ttmp12, ttmp12, 3
    s_setreg_b32 hwreg(HW_REG_STATE_PRIV, 3, 29), ttmp12
    s_rfe_b64 ttmp[0:1]
";

/// Sets another scheduling mode, which the trap must preserve without a second level.
const AROUND_A_TRAP: &str =
    "s_setreg_imm32_b32 hwreg(26, 0, 2), 2\n s_cmp_eq_u32 0, 0\n s_trap 2\n\
     s_cselect_b32 s4, 5, 6\n s_getreg_b32 s5, hwreg(26)\n v_mov_b32 v1, s4\n v_mov_b32 v2, s5\n\
     v_mov_b32 v3, 0\n global_store_b64 v3, v[1:2], s[0:1]\n s_endpgm\n";

/// Runs a wave with the module's trap handler and a second level at `second` (0 for none).
fn run(code: &str, second: u64, debugger: u32) -> (Ram, Result<(), Stop>) {
    run_on(code, second, debugger, &Recorder::default())
}

/// As [`run`], on a host.
fn run_on(code: &str, second: u64, debugger: u32, host: &Recorder) -> (Ram, Result<(), Stop>) {
    run_handler(&module::FIRST_LEVEL, code, second, debugger, host)
}

/// The same with another handler.
fn run_handler(
    handler: &[u32],
    code: &str,
    second: u64,
    debugger: u32,
    host: &Recorder,
) -> (Ram, Result<(), Stop>) {
    let assemble = |text| llvm::assemble_for(Target::Wave32, text);
    let ram = Ram::new(CODE, (DATA - CODE) as usize + 0x1_0000);
    ram.put_u32(CODE, &assemble(code));
    ram.put_u32(FIRST, handler);
    ram.put_u32(SECOND, &assemble(SECOND_SOURCE));
    ram.put(FIRST_TMA, &second.to_le_bytes());
    ram.put(FIRST_TMA + 8, &SECOND_TMA.to_le_bytes());
    ram.put_u32(FIRST_TMA + 16, &[debugger]);
    let dispatch = Dispatch {
        isa: Isa::Gfx1201,
        wave32: true,
        trap: Some(Trap {
            tba: FIRST,
            tma: FIRST_TMA,
        }),
        grid: [32, 4, 1],
        workgroup: [32, 1, 1],
        entry: CODE,
        rsrc1: 1,
        rsrc2: 2 << 1,
        user_sgprs: vec![DATA as u32, (DATA >> 32) as u32],
        lds_bytes: 512,
        ..Dispatch::default()
    };
    let result = run_workgroup(&ram, host, &dispatch, [0, 3, 0]);
    (ram, result)
}

#[test]
fn machine_code_matches_source() {
    let words = llvm::assemble_for(Target::Wave32, MODULE_SOURCE);
    assert_eq!(module::FIRST_LEVEL[..], words);
}

#[test]
fn enters_second_level_handler() {
    for n in 0..16 {
        let (debugger, late) = (n % 2, (n > 1).then_some(n.into()));
        let (ram, result) = run_on(AROUND_A_TRAP, SECOND, debugger, &Recorder::late(late));
        result.unwrap();
        let notes = ram.get_u32(SECOND_TMA, 8);
        let pc = u64::from(notes[0]) | u64::from(notes[1] & 0xffff) << 32;
        // Past two instructions of three words; trap id and scheduling mode.
        assert_eq!((pc, notes[1] >> 28, notes[1] >> 26 & 3), (CODE + 12, 2, 2));
        // SCC in STATE_PRIV; neither the handler's priority nor HALT.
        assert_eq!((notes[2], notes[3] & 0x4e00), (0, 0x200));
        assert_eq!((notes[4], notes[5]), (debugger << 23 | 2 << 26, 0));
        assert_eq!((notes[6], notes[7]), (0, 0), "wave index registers differ");
        // SCC is restored and the trap is over.
        assert_eq!(ram.get_u32(DATA, 1), [5]);
    }
    let (ram, result) = run("ds_add_u32 v0, v0 offset:2", SECOND, 0);
    assert!(matches!(result, Err(Stop::Halted { at }) if at.pc == CODE));
    assert_eq!(ram.get_u32(SECOND_TMA + 8, 1), [MEMORY]);
    let (ram, result) = run("s_nop 0\n s_code_end", SECOND, 0);
    assert!(matches!(result, Err(Stop::Halted { at }) if at.pc == CODE + 4));
    assert_eq!(ram.get_u32(SECOND_TMA + 8, 1), [ILLEGAL]);
}

#[test]
fn debugger_stops_waves_at_the_start_and_after_instructions() {
    let start = WaveStart::default();
    let first = WaveStart {
        trap_on_start: true,
        ..start
    };
    let steps = WaveStart {
        single_step: true,
        ..start
    };
    for (start, pc, flags) in [(first, CODE, WAVE_START), (steps, CODE + 4, AFTER_INST)] {
        let host = Recorder::started(start);
        let (ram, result) = run_on("s_nop 0\n s_nop 0\n s_endpgm", SECOND, 1, &host);
        assert!(matches!(result, Err(Stop::Halted { at }) if at.pc == pc));
        assert_eq!(ram.get_u32(SECOND_TMA + 8, 1), [flags]);
    }
}

#[test]
fn works_without_second_level_handler() {
    let (ram, result) = run(AROUND_A_TRAP, 0, 0);
    result.unwrap();
    assert_eq!(
        ram.get_u32(DATA, 2),
        [5, 2],
        "SCC or scheduling mode not restored"
    );
    // The program counter is 8 bytes back: a wave halted at s_endpgm could not be saved.
    let (_, result) = run("s_nop 0\n s_mov_b32 s4, ttmp6\n s_endpgm", 0, 0);
    assert!(matches!(result, Err(Stop::Halted { at }) if at.pc == CODE - 4));
}

/// As [`crate::halts_at_an_unknown_cause`].
fn halts_at_an_unknown_cause(handler: &[u32]) {
    let host = Recorder::default();
    host.patience.store(1000, Ordering::Relaxed);
    let (ram, result) = run_handler(handler, UNKNOWN, SECOND, 0, &host);
    assert!(
        matches!(result, Err(Stop::Halted { at }) if at.pc == CODE + 4),
        "{result:?}"
    );
    let notes = ram.get_u32(SECOND_TMA, 3);
    assert_eq!(
        (notes[0], notes[1] >> 28, notes[2]),
        (CODE as u32 + 4, 0, 0)
    );
    let (_, result) = run_handler(handler, UNKNOWN, 0, 0, &host);
    assert!(
        matches!(result, Err(Stop::Halted { at }) if at.pc == CODE - 4),
        "{result:?}"
    );
}

#[test]
fn stock_handler_halts_at_an_unknown_cause() {
    halts_at_an_unknown_cause(&stock_handler(Isa::Gfx1201));
}

#[test]
fn module_handler_halts_at_an_unknown_cause() {
    halts_at_an_unknown_cause(&module::FIRST_LEVEL);
}
