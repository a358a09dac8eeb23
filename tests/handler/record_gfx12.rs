// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Compares the records of the trap handlers of gfx12 with the state of the waves.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::common::llvm::{self, Target};
use super::common::place::CODE;
use super::common::{Ram, Recorder};
use super::gfx12::handler;
use super::record::{
    lds, loops, save, sgpr, ttmp, vgpr, AREAS, AREA_BYTES, BLANK, EXEC, SECOND, VCC,
};
use super::save::{stock_handler, Area, AREA, HANDLER, LATE, TMA};
use gpu_wave::{Dispatch, Isa, SavedWave, Scratch, Stop, Trap, Workgroup};

/// Values in registers of the kernel.
const M0: u32 = 0xabcd_9003;
const MODE: u32 = 0xa5;
/// Exceptions 0, 2 and 4; 1, 3 and 5 are enabled.
const EXCP_FLAG_USER: u32 = 0x15;
const TRAP_CTRL: u32 = 0x2a;
/// Watchpoints, which are not enabled.
const EXCP_FLAG_PRIV: u32 = 5;
const SCHED_MODE: u32 = 2;
const TTMP13: u32 = 0x34_5678;
const SCRATCH: Scratch = Scratch {
    base: 0x7000_0020_0000,
    wave_stride: 1024,
    slots: 4,
};

/// STATE_PRIV.
const SCC: u32 = 1 << 9;
const SYS_PRIO: u32 = 1 << 10;
const USER_PRIO: u32 = 2 << 12;
const HALT: u32 = 1 << 14;
const COND_DBG_USER: u32 = 1 << 16;
const SCRATCH_EN: u32 = 1 << 18;

/// A workgroup and what happens to it.
#[derive(Clone, Copy)]
struct Case {
    target: Target,
    vgprs: usize,
    lds: usize,
    waves: usize,
    /// A wave that ends before the save.
    ended: Option<usize>,
    /// Bits that the second-level handler sets in STATE_PRIV.
    state: u32,
}

const SMALL: Case = Case {
    target: Target::Wave32,
    vgprs: 8,
    lds: 512,
    waves: 1,
    ended: None,
    state: SYS_PRIO | COND_DBG_USER,
};

const CASES: [Case; 5] = [
    SMALL,
    Case {
        target: Target::Wave64,
        vgprs: 4,
        lds: 0,
        waves: 2,
        ..SMALL
    },
    Case {
        vgprs: 24,
        lds: 1536,
        waves: 4,
        ..SMALL
    },
    Case {
        vgprs: 256,
        lds: 0x1_0000,
        waves: 2,
        ..SMALL
    },
    Case {
        target: Target::Wave64,
        vgprs: 256,
        lds: 0x8000,
        waves: 4,
        ..SMALL
    },
];

impl Case {
    fn lanes(&self) -> usize {
        self.target.lanes()
    }

    fn dispatch(&self) -> Dispatch {
        let items = self.waves * self.lanes();
        let block = 256 / self.lanes();
        Dispatch {
            isa: Isa::Gfx1201,
            wave32: self.target == Target::Wave32,
            grid: [items as u32, 1, 1],
            workgroup: [items as u16, 1, 1],
            entry: CODE,
            rsrc1: (self.vgprs / block - 1) as u32,
            lds_bytes: self.lds as u32,
            scratch: SCRATCH,
            trap: Some(Trap {
                tba: HANDLER,
                tma: TMA,
            }),
            ..Dispatch::default()
        }
    }

    /// Returns a kernel that fills all registers and LDS, enters the second-level handler, and
    /// loops in one instruction. Its first wave has signalled the barrier.
    fn kernel(&self) -> Vec<u32> {
        let mut text = String::new();
        let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").unwrap();
        line(format_args!("v_lshlrev_b32 v1, 2, v0"));
        for offset in (0..self.lds).step_by(self.waves * self.lanes() * 4) {
            line(format_args!("v_add_nc_u32 v2, {:#x}, v0", lds(offset, 0)));
            line(format_args!("ds_store_b32 v1, v2 offset:{offset}"));
        }
        line(format_args!(
            "s_wait_dscnt 0x0\n s_barrier_signal -1\n s_barrier_wait -1"
        ));
        line(format_args!("v_readfirstlane_b32 s0, v0"));
        if let Some(wave) = self.ended {
            line(format_args!("s_cmp_eq_u32 s0, {}", wave * self.lanes()));
            line(format_args!("s_cbranch_scc1 end"));
        }
        line(format_args!(
            "s_cmp_eq_u32 s0, {}",
            self.first() * self.lanes()
        ));
        line(format_args!(
            "s_cbranch_scc0 other\n s_barrier_signal -1\n other:"
        ));
        for n in (0..self.vgprs).rev() {
            line(format_args!("v_add_nc_u32 v{n}, {:#x}, v0", vgpr(n, 0)));
        }
        for n in 0..106 {
            line(format_args!("s_mov_b32 s{n}, {:#x}", sgpr(n)));
        }
        for (register, value) in [("vcc", VCC), ("exec", EXEC)] {
            line(format_args!("s_mov_b32 {register}_lo, {:#x}", value as u32));
            line(format_args!("s_mov_b32 {register}_hi, {:#x}", value >> 32));
        }
        line(format_args!(
            "s_mov_b32 m0, {M0:#x}
            s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 8), {MODE:#x}
            s_setreg_imm32_b32 hwreg(HW_REG_EXCP_FLAG_USER, 0, 7), {EXCP_FLAG_USER:#x}
            s_setreg_imm32_b32 hwreg(26, 0, 2), {SCHED_MODE}
            s_setprio 2
            s_cmp_eq_u32 0, 0
            s_trap 3
            spin:
            s_branch spin
            end:
            s_endpgm"
        ));
        llvm::assemble_for(self.target, &text)
    }

    /// Returns the second-level handler, which sets trap temporaries and privileged registers.
    fn second(&self) -> Vec<u32> {
        let mut text = String::new();
        for n in 4..12 {
            writeln!(text, "s_mov_b32 ttmp{n}, {:#x}", ttmp(n)).unwrap();
        }
        let state = self.state;
        writeln!(
            text,
            "s_mov_b32 ttmp13, {TTMP13:#x}
            s_setreg_imm32_b32 hwreg(HW_REG_EXCP_FLAG_PRIV, 0, 4), {EXCP_FLAG_PRIV}
            s_setreg_imm32_b32 hwreg(HW_REG_TRAP_CTRL, 0, 10), {TRAP_CTRL:#x}
            s_or_b32 ttmp12, ttmp12, {state:#x}
            s_add_co_u32 ttmp0, ttmp0, 4
            s_add_co_ci_u32 ttmp1, ttmp1, 0
            s_setreg_imm32_b32 hwreg(26, 0, 2), {SCHED_MODE}
            s_setreg_b32 hwreg(HW_REG_STATE_PRIV), ttmp12
            s_rfe_b64 ttmp[0:1]"
        )
        .unwrap();
        llvm::assemble_for(self.target, &text)
    }

    /// Returns the waves that have not ended.
    fn left(&self) -> Vec<usize> {
        (0..self.waves).filter(|&n| Some(n) != self.ended).collect()
    }

    /// Returns the first of them.
    fn first(&self) -> usize {
        self.left()[0]
    }

    /// Returns the record of a wave that is saved at `pc`: `None` for what is not defined.
    fn record(&self, wave: usize, pc: u64) -> Vec<Option<u32>> {
        let items = wave * self.lanes()..(wave + 1) * self.lanes();
        let mut record: Vec<Option<u32>> = (0..self.vgprs)
            .flat_map(|n| items.clone().map(move |item| Some(vgpr(n, item))))
            .collect();
        let words = |value: u64| [Some(value as u32), Some((value >> 32) as u32)];

        let sgprs = record.len();
        record.extend((0..106).map(|n| Some(sgpr(n))));
        record.extend(words(VCC));
        record.resize(sgprs + 128, None);

        let group = self.waves > 1;
        let hwregs = record.len();
        record.push(Some(M0));
        record.extend(words(pc));
        record.extend(words(EXEC));
        let state = SCC | USER_PRIO | SCRATCH_EN | self.state & !SYS_PRIO;
        record.extend([state, EXCP_FLAG_PRIV, 0, MODE].map(Some));
        record.extend(words(SCRATCH.base + SCRATCH.wave_stride * wave as u64));
        // PRIV, TRAP_EN, IN_WG, VALID, WAVE64.
        let wide = u32::from(self.target == Target::Wave64);
        let status = 3 << 5 | u32::from(group) << 11 | 1 << 16 | wide << 29;
        // A wave, the first, has signalled.
        let barrier = (self.left().len() as u32) << 4 | u32::from(group) * 0x1_0001;
        record.extend([EXCP_FLAG_USER, TRAP_CTRL, status, barrier].map(Some));
        record.resize(hwregs + 16, None);

        let ttmps = record.len();
        record.resize(ttmps + 4, None);
        record.extend((4..11).map(|n| Some(ttmp(n))));
        record.push(Some(ttmp(11) | SCHED_MODE << 26));
        record.extend([None, Some(TTMP13)]);
        record.resize(ttmps + 16, None);

        if wave == self.first() {
            let part = self.waves * self.lanes();
            let dword = |n: usize| Some(lds(n / part * part * 4, n % part));
            record.extend((0..self.lds / 4).map(dword));
        }
        record
    }

    /// Compares the records of a save area with the state of the waves.
    fn check(&self, ram: &Ram, saved: &[SavedWave], pc: u64) {
        let left = self.left();
        assert_eq!(saved.len(), left.len());
        for (wave, saved) in left.into_iter().zip(saved) {
            assert_eq!(saved.index as usize, wave);
            let expected = self.record(wave, pc);
            let dwords = ram.get_u32(saved.record & !(1 << 58), expected.len());
            for (at, (ours, expected)) in dwords.iter().zip(&expected).enumerate() {
                if let Some(expected) = expected {
                    assert!(
                        ours == expected,
                        "{} VGPRs, wave {wave}, {}: {ours:#x} instead of {expected:#x}",
                        self.vgprs,
                        self.field(at)
                    );
                }
            }
        }
    }

    /// Returns the name of a dword of a record.
    fn field(&self, at: usize) -> String {
        let sgprs = self.vgprs * self.lanes();
        match at {
            _ if at < sgprs => format!("VGPR {} lane {}", at / self.lanes(), at % self.lanes()),
            _ if at < sgprs + 128 => format!("SGPR {}", at - sgprs),
            _ if at < sgprs + 144 => format!("hardware register {}", at - sgprs - 128),
            _ if at < sgprs + 160 => format!("ttmp{}", at - sgprs - 144),
            _ => format!("LDS dword {}", at - sgprs - 160),
        }
    }

    /// Returns memory with the kernel, the handlers and blank save areas.
    fn ram(&self, handler: &[u32]) -> Ram {
        let ram = Ram::new(CODE, (AREA - CODE) as usize + 2 * AREA_BYTES);
        ram.put_u32(CODE, &self.kernel());
        ram.put_u32(HANDLER, handler);
        ram.put_u32(SECOND, &self.second());
        ram.put(TMA, &SECOND.to_le_bytes());
        for area in AREAS {
            ram.put_u32(area, &vec![BLANK; AREA_BYTES / 4]);
        }
        ram
    }

    /// Saves the waves when they loop, restores them, and saves them again while they are still in
    /// the restore routine, after `rounds` turns of one instruction each.
    fn save_twice(&self, handler: &[u32], rounds: u64) {
        for late in LATE {
            self.save_twice_with(handler, rounds, late);
        }
    }

    fn save_twice_with(&self, handler: &[u32], rounds: u64, late: Option<u64>) {
        let (ram, d) = (self.ram(handler), self.dispatch());
        let host = |start| Area {
            recorder: Recorder::late(late),
            start,
            sizes: (d.record_bytes(), d.lds_bytes.into()),
            ..Area::default()
        };
        let halted = self.state & HALT != 0;
        // The branch is followed by s_endpgm.
        let pc = CODE + 4 * self.kernel().len() as u64 - 8;
        let first = host(AREAS[0]);
        let mut group = Workgroup::new(&d, [0; 3]).unwrap();
        loops(&mut group, &ram, &first, halted, pc);
        let saved = save(&mut group, &ram, &first, "first");
        self.check(&ram, &saved, pc);

        let again = host(AREAS[1]);
        let mut group = Workgroup::restore(&d, [0; 3], &saved).unwrap();
        group.set_slice(1);
        again.recorder.patience.store(rounds, Ordering::Relaxed);
        assert_eq!(group.run(&ram, &again), Err(Stop::Interrupted));
        group.set_slice(4096);
        let saved = save(&mut group, &ram, &again, "again");
        self.check(&ram, &saved, pc);

        // In the end the waves are where they were.
        let mut group = Workgroup::restore(&d, [0; 3], &saved).unwrap();
        loops(&mut group, &ram, &again, halted, pc);
    }
}

#[test]
fn record_has_the_state_of_the_wave() {
    for case in CASES {
        for rounds in [1, 40, 200] {
            case.save_twice(handler(), rounds);
        }
    }
}

#[test]
fn stock_record_has_the_same_state() {
    let stock = stock_handler(Isa::Gfx1201);
    for case in CASES {
        case.save_twice(&stock, 40);
    }
}

#[test]
fn halted_wave_stays_halted() {
    for case in CASES {
        let state = case.state | HALT;
        Case { state, ..case }.save_twice(handler(), 1);
    }
}

#[test]
fn other_waves_have_ended() {
    let case = CASES[2];
    for ended in 0..case.waves {
        let ended = Some(ended);
        Case { ended, ..case }.save_twice(handler(), 1);
    }
}
