// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Trap handlers: entry, state on entry, and return.

use crate::common::place::{CODE, DATA};
use crate::common::{llvm, one_wave, Ram, Recorder};
use gpu_wave::{run_workgroup, Dispatch, Fault, Memory, Stop, Trap, WaveStart};
use std::sync::atomic::{AtomicU32, Ordering};

const HANDLER: u64 = CODE + 0x1_0000;
/// Memory of the handler: see [`Notes`].
const TMA: u64 = DATA + 0x1000;
const DOORBELL: u32 = 0x155;

const ILLEGAL: u32 = 1 << 11;
const MEMORY: u32 = 1 << 8;

/// Stores the state on entry, reads the doorbell id, and returns past an `s_trap`; for other causes
/// it halts the wave.
const SOURCE: &str = "
    s_getreg_b32 ttmp12, hwreg(HW_REG_STATUS)
    s_getreg_b32 ttmp14, hwreg(18)
    s_getreg_b32 ttmp15, hwreg(19)
    s_lshl_b64 ttmp[14:15], ttmp[14:15], 8
    s_getreg_b32 ttmp2, hwreg(HW_REG_TRAPSTS)
    s_store_dwordx2 ttmp[0:1], ttmp[14:15], 0x0
    s_store_dword ttmp2, ttmp[14:15], 0x8
    s_store_dword ttmp12, ttmp[14:15], 0xc
    s_store_dwordx4 ttmp[8:11], ttmp[14:15], 0x10
    s_mov_b64 ttmp[4:5], exec
    s_mov_b32 exec_lo, 0x80000000
    s_sendmsg sendmsg(MSG_GET_DOORBELL)
wait:
    s_bitcmp0_b32 exec_lo, 31
    s_cbranch_scc0 wait
    s_and_b32 ttmp3, exec_lo, 0x3ff
    s_mov_b64 exec, ttmp[4:5]
    s_mov_b32 ttmp6, m0
    s_mov_b32 m0, ttmp3
    s_nop 0
    s_sendmsg sendmsg(MSG_INTERRUPT)
    s_mov_b32 m0, ttmp6
    s_bfe_u32 ttmp7, ttmp1, 0x80010
    s_cbranch_scc0 stop
    s_add_u32 ttmp0, ttmp0, 4
    s_addc_u32 ttmp1, ttmp1, 0
    s_branch back
stop:
    s_bitset1_b32 ttmp12, 13
back:
    s_and_b32 ttmp1, ttmp1, 0xffff
    s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
    s_rfe_b64 ttmp[0:1]
";

/// State stored by the handler.
struct Notes {
    pc: u64,
    id: u32,
    trapsts: u32,
    status: u32,
    /// ttmp8 to ttmp11.
    place: Vec<u32>,
}

struct Bench {
    ram: Ram,
    host: Recorder,
    dispatch: Dispatch,
}

impl Bench {
    fn new(code: &[u32]) -> Self {
        let ram = Ram::new(CODE, (DATA - CODE) as usize + 0x1_0000);
        ram.put_u32(CODE, code);
        ram.put_u32(HANDLER, &llvm::assemble(SOURCE));
        Bench {
            ram,
            host: Recorder::default(),
            dispatch: Dispatch {
                trap: Some(Trap {
                    tba: HANDLER,
                    tma: TMA,
                }),
                doorbell_id: DOORBELL,
                ..one_wave()
            },
        }
    }

    fn run(&self) -> Result<(), Stop> {
        run_workgroup(&self.ram, &self.host, &self.dispatch, [0, 0, 0])
    }

    fn notes(&self) -> Notes {
        let words = self.ram.get_u32(TMA, 8);
        Notes {
            pc: u64::from(words[0]) | u64::from(words[1] & 0xffff) << 32,
            id: words[1] >> 16 & 0xff,
            trapsts: words[2],
            status: words[3],
            place: words[4..].to_vec(),
        }
    }
}

/// Runs until the handler halts the wave, and returns its notes.
fn halts(code: &[u32], at: u64) -> Notes {
    let bench = Bench::new(code);
    match bench.run() {
        Err(Stop::Halted { at: place }) => assert_eq!(place.pc, CODE + at),
        other => panic!("{other:?}"),
    }
    bench.notes()
}

#[test]
fn s_trap_returns_past_the_instruction() {
    let bench = Bench::new(&llvm::assemble(
        "s_cmp_eq_u32 0, 0\n s_mov_b32 m0, 0x12345\n s_trap 7\n s_cselect_b32 s4, m0, 0\n\
         v_mov_b32 v1, s4\n v_mov_b32 v2, 0\n global_store_dword v2, v1, s[0:1]\n s_endpgm\n",
    ));
    bench.run().unwrap();
    let notes = bench.notes();
    assert_eq!((notes.pc, notes.id, notes.trapsts), (CODE + 12, 7, 0));
    // PRIV, TRAP_EN, VALID and the program's SCC.
    assert_eq!(notes.status & 0x1_0061, 0x1_0061);
    assert_eq!(notes.place, [0, 0, 0, 0]);
    let messages = bench.host.messages.lock().unwrap().clone();
    assert_eq!(messages.len(), 1);
    let message = &messages[0];
    assert_eq!(
        (message.id, message.m0, message.privileged),
        (1, DOORBELL, true)
    );
    assert_eq!(bench.ram.get_u32(DATA, 1), [0x12345]);
}

#[test]
fn illegal_instruction_traps() {
    let notes = halts(&[0xbf80_0000, 0xffff_ffff], 4);
    assert_eq!((notes.pc, notes.id, notes.trapsts), (CODE + 4, 0, ILLEGAL));
    // A register of the handler, and one outside of the allocation.
    for asm in [
        "s_mov_b32 s4, ttmp8",
        "v_mov_b32 v24, 0",
        "s_rfe_b64 s[0:1]",
    ] {
        assert_eq!(halts(&llvm::assemble(asm), 0).trapsts, ILLEGAL, "{asm}");
    }
}

#[test]
fn memory_violation_traps() {
    for asm in [
        "ds_add_u32 v0, v0 offset:2",
        "global_atomic_add v0, v0, s[0:1] offset:2",
        "scratch_store_dword off, v0, off",
    ] {
        assert_eq!(halts(&llvm::assemble(asm), 0).trapsts, MEMORY, "{asm}");
    }
}

#[test]
fn page_fault_stops_workgroup() {
    let code = llvm::assemble("s_mov_b64 s[4:5], 0\n s_load_dword s6, s[4:5], 0\n s_endpgm\n");
    assert!(matches!(
        Bench::new(&code).run(),
        Err(Stop::Fault { at, .. }) if at.pc == CODE + 4
    ));
}

#[test]
fn other_waves_continue_when_one_halts() {
    // Each of four waves writes its own dword, but the second one halts before that.
    let code = llvm::assemble(
        "v_readfirstlane_b32 s4, v0\n v_lshlrev_b32 v2, 2, v0\n s_cmp_eq_u32 s4, 64\n s_cbranch_scc0 write\n\
         ds_add_u32 v0, v0 offset:2\n write:\n v_mov_b32 v1, 1\n\
         global_store_dword v2, v1, s[0:1]\n s_barrier\n global_store_dword v2, v0, s[0:1]\n\
         s_endpgm\n",
    );
    let mut bench = Bench::new(&code);
    bench.dispatch.grid = [256, 1, 1];
    bench.dispatch.workgroup = [256, 1, 1];
    match bench.run() {
        Err(Stop::Halted { at }) => assert_eq!(at.wave, 1),
        other => panic!("{other:?}"),
    }
    // The others wait for it at the barrier.
    let first = |wave: u64| bench.ram.get_u32(DATA + 256 * wave, 1)[0];
    assert_eq!([0, 1, 2, 3].map(first), [1, 0, 1, 1]);
    assert_eq!(bench.notes().place, [0, 0, 0, 1]);
}

#[test]
fn no_traps_inside_handler() {
    for (asm, expected) in [("s_trap 3", "s_trap 3"), ("v_mov_b32 v24, 0", "v24")] {
        let bench = Bench::new(&llvm::assemble("s_trap 1\n s_endpgm\n"));
        bench.ram.put_u32(HANDLER, &llvm::assemble(asm));
        let stop = bench.run().expect_err("the handler cannot go on");
        assert!(stop.to_string().contains(expected), "{stop}");
    }
}

#[test]
fn halted_wave_stays_halted() {
    let code = llvm::assemble("s_sethalt 1\n s_endpgm\n");
    match Bench::new(&code).run() {
        Err(Stop::Halted { at }) => assert_eq!(at.pc, CODE + 4),
        other => panic!("{other:?}"),
    }
    // A halt set in the handler takes effect at the return.
    let bench = Bench::new(&llvm::assemble("s_trap 1\n s_endpgm\n"));
    bench.ram.put_u32(
        HANDLER,
        &llvm::assemble("s_sethalt 1\n s_add_u32 ttmp0, ttmp0, 4\n s_rfe_b64 ttmp[0:1]\n"),
    );
    match bench.run() {
        Err(Stop::Halted { at }) => assert_eq!(at.pc, CODE + 4),
        other => panic!("{other:?}"),
    }
}

const WATCH0: u32 = 1 << 7;
const WATCH2: u32 = 1 << 13;
const WAVE_START: u32 = 1 << 23;
const AFTER_INST: u32 = 1 << 25;
/// Number of the address watch exception.
const ADDR_WATCH: u32 = 7;

/// Runs waves that start as a debugger demands until the handler halts them, and returns its notes.
fn launched(code: &str, start: WaveStart, at: u64) -> Notes {
    let mut bench = Bench::new(&llvm::assemble(code));
    bench.host.start = start;
    match bench.run() {
        Err(Stop::Halted { at: place }) => assert_eq!(place.pc, CODE + at),
        other => panic!("{other:?}"),
    }
    bench.notes()
}

#[test]
fn waves_start_halted() {
    let start = WaveStart {
        halted: true,
        ..WaveStart::default()
    };
    let notes = launched("s_trap 1\n s_endpgm\n", start, 0);
    assert_eq!(notes.pc, 0, "the handler was not entered");
}

#[test]
fn trap_on_start_precedes_the_first_instruction() {
    let start = WaveStart {
        trap_on_start: true,
        ..WaveStart::default()
    };
    let notes = launched("s_trap 1\n s_endpgm\n", start, 0);
    assert_eq!((notes.pc, notes.id, notes.trapsts), (CODE, 0, WAVE_START));
}

#[test]
fn single_step_follows_each_instruction() {
    let start = WaveStart {
        single_step: true,
        ..WaveStart::default()
    };
    let notes = launched("s_nop 0\n s_nop 0\n s_endpgm\n", start, 4);
    assert_eq!((notes.pc, notes.trapsts), (CODE + 4, AFTER_INST));
    // Not the last one.
    let mut bench = Bench::new(&llvm::assemble("s_endpgm\n"));
    bench.host.start = start;
    bench.run().unwrap();
}

/// Memory with a watchpoint for all accesses to one address.
struct Watching<'a> {
    ram: &'a Ram,
    va: u64,
    hits: AtomicU32,
}

impl Watching<'_> {
    fn note(&self, va: u64) {
        if va == self.va {
            self.hits.store(0b101, Ordering::Relaxed);
        }
    }
}

impl Memory for Watching<'_> {
    fn read(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.note(va);
        self.ram.read(va, buf)
    }

    fn write(&self, va: u64, data: &[u8]) -> Result<(), Fault> {
        self.note(va);
        self.ram.write(va, data)
    }

    fn fetch(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.ram.fetch(va, buf)
    }

    fn atomic(&self, va: u64, size: u8, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault> {
        self.note(va);
        self.ram.atomic(va, size, f)
    }

    fn take_watched(&self) -> u32 {
        self.hits.swap(0, Ordering::Relaxed)
    }
}

#[test]
fn watchpoints_trap_after_the_access() {
    let code = llvm::assemble(
        "s_load_dword s4, s[0:1], 0x40\n v_mov_b32 v2, 0\n s_mov_b64 exec, 1\n\
         global_load_dword v3, v2, s[0:1] offset:64\n s_waitcnt 0\n s_endpgm\n",
    );
    let run = |exceptions| {
        let mut bench = Bench::new(&code);
        bench.host.start.exceptions = exceptions;
        let memory = Watching {
            ram: &bench.ram,
            va: DATA + 0x40,
            hits: AtomicU32::new(0),
        };
        let result = run_workgroup(&memory, &bench.host, &bench.dispatch, [0, 0, 0]);
        (result, bench.notes())
    };
    let (result, notes) = run(1 << ADDR_WATCH);
    // Behind the vector load: the scalar one does not count.
    let behind = CODE + 8 + 4 + 4 + 8;
    match result {
        Err(Stop::Halted { at }) => assert_eq!(at.pc, behind),
        other => panic!("{other:?}"),
    }
    assert_eq!((notes.pc, notes.trapsts), (behind, WATCH0 | WATCH2));
    // Not enabled.
    assert_eq!(run(0).0, Ok(()));
}

#[test]
fn single_step_is_enabled_by_the_handler_only() {
    // MODE.DEBUG_EN.
    let code = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 11, 1), 1\n s_nop 0\n s_trap 1\n s_nop 0\n s_endpgm\n";
    let bench = Bench::new(&llvm::assemble(code));
    bench.ram.put_u32(
        HANDLER,
        &llvm::assemble(
            "s_getreg_b32 ttmp2, hwreg(HW_REG_TRAPSTS)\n s_cmp_lg_u32 ttmp2, 0\n s_cbranch_scc1 1\n\
             s_branch 2\n s_sethalt 1\n s_rfe_b64 ttmp[0:1]\n s_add_u32 ttmp0, ttmp0, 4\n\
             s_setreg_imm32_b32 hwreg(HW_REG_MODE, 11, 1), 1\n s_rfe_b64 ttmp[0:1]\n",
        ),
    );
    // Behind the s_nop that follows s_trap.
    match bench.run() {
        Err(Stop::Halted { at }) => assert_eq!(at.pc, CODE + 8 + 4 + 4 + 4),
        other => panic!("{other:?}"),
    }
}
