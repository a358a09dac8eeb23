// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Compares the records of the first-level trap handler of gfx942 with the state of the waves.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::common::place::CODE;
use super::common::{llvm, Ram, Recorder};
use super::module;
use super::save::{Area, AREA, HANDLER, LATE, TMA};
use gpu_wave::{Dispatch, SavedWave, Scratch, Stop, Trap, Workgroup};

pub(super) const SECOND: u64 = HANDLER + 0x4000;
pub(super) const AREAS: [u64; 2] = [AREA, AREA + 0x8_0000];
pub(super) const AREA_BYTES: usize = 0x8_0000;
/// Contents of the save areas before a save.
pub(super) const BLANK: u32 = 0x5c5c_5c5c;
/// Limit of turns: a wave that loops in the handler is a failure.
const PATIENCE: u64 = 100_000;

/// Values in registers of the kernel.
pub(super) const EXEC: u64 = 0x8123_4567_fedc_ba98;
pub(super) const VCC: u64 = 0x1357_9bdf_0246_8ace;
const XNACK_MASK: u64 = 0x0f1e_2d3c_4b5a_6978;
/// Index 3 in index mode for source 0 and the destination.
const M0: u32 = 0xabcd_9003;
/// Exceptions 0, 2 and 4; 1, 3 and 5 are enabled.
const TRAPSTS: u32 = 0x15;
const XNACK_ERROR: u32 = 1 << 28;
/// FP_ROUND and FP_DENORM, EXCP_EN, GPR_IDX_EN, VSKIP.
const MODE: u32 = 0xa5 | 0x2a << 12 | 3 << 27;
const FLAT_SCRATCH: u64 = 0x7000_0020_0000;
const SCRATCH_STRIDE: u64 = 1024;
const REPLAY: u32 = 0x2b;
const TTMP13: u32 = 0x34_5678;

/// STATUS.
const HALT: u32 = 1 << 13;
const ALLOW_REPLAY: u32 = 1 << 22;
const COND_DBG_USER: u32 = 1 << 20;
const SPI_PRIO: u32 = 1 << 1;

pub(super) fn vgpr(n: usize, item: usize) -> u32 {
    (0x4000_0000 | n << 16 | item) as u32
}

pub(super) fn sgpr(n: usize) -> u32 {
    0x5000_0000 | n as u32
}

pub(super) fn ttmp(n: usize) -> u32 {
    0x6000_0000 | n as u32
}

pub(super) fn lds(offset: usize, item: usize) -> u32 {
    (0x7000_0000 | offset << 12 | item) as u32
}

/// A workgroup and what happens to it.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// Fields VGPRS and SGPRS of rsrc1, ACCUM_OFFSET of rsrc3.
    fields: (u32, u32, u32),
    /// Architectural VGPRs, accumulation VGPRs, SGPRs.
    counts: (usize, usize, usize),
    lds: usize,
    waves: usize,
    /// A wave that ends before the save.
    ended: Option<usize>,
    /// Bits that the second-level handler sets in STATUS.
    status: u32,
    trapsts: u32,
}

const SMALL: Case = Case {
    name: "4 VGPRs, 4 accumulators",
    fields: (0, 0, 0),
    counts: (4, 4, 16),
    lds: 512,
    waves: 1,
    ended: None,
    status: SPI_PRIO | COND_DBG_USER,
    trapsts: TRAPSTS,
};

const PLAIN: Case = Case {
    name: "no accumulators, no LDS",
    fields: (1, 5, 3),
    counts: (16, 0, 48),
    lds: 0,
    waves: 2,
    ..SMALL
};

const UNEVEN: Case = Case {
    name: "12 of 24 VGPRs, four waves",
    fields: (2, 8, 2),
    counts: (12, 12, 80),
    lds: 1536,
    waves: 4,
    ..SMALL
};

const LARGE: Case = Case {
    name: "all registers and LDS",
    fields: (63, 13, 63),
    counts: (256, 256, 112),
    lds: 0x1_0000,
    waves: 2,
    ..SMALL
};

impl Case {
    /// Returns the index of FLAT_SCRATCH, which is followed by XNACK_MASK and VCC.
    fn alias(&self) -> usize {
        self.counts.2.min(108) - 6
    }

    fn vgprs(&self) -> usize {
        self.counts.0 + self.counts.1
    }

    fn dispatch(&self) -> Dispatch {
        let (vgprs, sgprs, offset) = self.fields;
        let items = self.waves * 64;
        Dispatch {
            grid: [items as u32, 1, 1],
            workgroup: [items as u16, 1, 1],
            entry: CODE,
            rsrc1: vgprs | sgprs << 6,
            rsrc3: offset,
            lds_bytes: self.lds as u32,
            scratch: Scratch {
                base: FLAT_SCRATCH,
                wave_stride: SCRATCH_STRIDE,
                slots: 4,
            },
            trap: Some(Trap {
                tba: HANDLER,
                tma: TMA,
            }),
            ..Dispatch::default()
        }
    }

    /// Returns a kernel that fills all registers and LDS, enters the second-level handler, and
    /// loops in one instruction.
    fn kernel(&self) -> Vec<u32> {
        let mut text = String::new();
        let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").unwrap();
        line(format_args!("v_lshlrev_b32 v1, 2, v0"));
        for offset in (0..self.lds).step_by(self.waves * 256) {
            let value = lds(offset, 0);
            line(format_args!("v_add_u32 v2, {value:#x}, v0"));
            // The last part may be smaller.
            if offset + self.waves * 256 > self.lds {
                let rest = self.lds - offset;
                line(format_args!("v_cmp_gt_u32 vcc, {rest}, v1"));
                line(format_args!("s_mov_b64 exec, vcc"));
            }
            // The offset of the instruction has 16 bits.
            line(format_args!("ds_write_b32 v1, v2 offset:{offset}"));
            line(format_args!("s_mov_b64 exec, -1"));
        }
        line(format_args!("s_waitcnt lgkmcnt(0)"));
        line(format_args!("s_barrier"));
        if let Some(wave) = self.ended {
            line(format_args!("v_readfirstlane_b32 s0, v0"));
            line(format_args!("s_cmp_eq_u32 s0, {}", wave * 64));
            line(format_args!("s_cbranch_scc1 end"));
        }
        for n in 0..self.counts.1 {
            let value = vgpr(self.counts.0 + n, 0);
            line(format_args!("v_add_u32 v1, {value:#x}, v0"));
            line(format_args!("v_accvgpr_write_b32 a{n}, v1"));
        }
        for n in (0..self.counts.0).rev() {
            line(format_args!("v_add_u32 v{n}, {:#x}, v0", vgpr(n, 0)));
        }
        for n in 0..self.alias() {
            line(format_args!("s_mov_b32 s{n}, {:#x}", sgpr(n)));
        }
        for (register, value) in [("vcc", VCC), ("xnack_mask", XNACK_MASK), ("exec", EXEC)] {
            line(format_args!("s_mov_b32 {register}_lo, {:#x}", value as u32));
            line(format_args!("s_mov_b32 {register}_hi, {:#x}", value >> 32));
        }
        let trapsts = self.trapsts;
        line(format_args!(
            "s_mov_b32 m0, {:#x}
            s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS), {trapsts:#x}
            s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 8), {:#x}
            s_setreg_imm32_b32 hwreg(HW_REG_MODE, 12, 7), {:#x}
            s_set_gpr_idx_on s3, 9
            s_setvskip s1, 0
            s_setprio 2
            s_cmp_eq_u32 0, 0
            s_trap 3
            spin:
            s_branch spin
            end:
            s_endpgm",
            M0 & 0xffff_0000,
            MODE & 0xff,
            MODE >> 12 & 0x7f
        ));
        llvm::assemble(&text)
    }

    /// Returns the second-level handler, which sets trap temporaries and STATUS.
    fn second(&self) -> Vec<u32> {
        let mut text = String::new();
        for n in 4..12 {
            writeln!(text, "s_mov_b32 ttmp{n}, {:#x}", ttmp(n)).unwrap();
        }
        let status = self.status;
        writeln!(
            text,
            "s_mov_b32 ttmp13, {TTMP13:#x}
            s_setreg_imm32_b32 hwreg(HW_REG_IB_STS, 15, 6), {REPLAY:#x}
            s_or_b32 ttmp12, ttmp12, {status:#x}
            s_add_u32 ttmp0, ttmp0, 4
            s_addc_u32 ttmp1, ttmp1, 0
            s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
            s_rfe_b64 ttmp[0:1]"
        )
        .unwrap();
        llvm::assemble(&text)
    }

    /// Returns the record of a wave that is saved at `pc`: `None` for what is not defined.
    fn record(&self, wave: usize, with_lds: bool, pc: u64) -> Vec<Option<u32>> {
        let items = wave * 64..(wave + 1) * 64;
        let mut record: Vec<Option<u32>> = (0..self.vgprs())
            .flat_map(|n| items.clone().map(move |item| Some(vgpr(n, item))))
            .collect();
        let words = |value: u64| [Some(value as u32), Some((value >> 32) as u32)];

        let sgprs = record.len();
        record.extend((0..self.alias()).map(|n| Some(sgpr(n))));
        record.extend(words(FLAT_SCRATCH + SCRATCH_STRIDE * wave as u64));
        record.extend(words(XNACK_MASK));
        record.extend(words(VCC));
        record.resize(sgprs + self.counts.2, None);

        // SCC, USER_PRIO, PRIV, TRAP_EN, IN_TG, VALID.
        let group = if self.waves > 1 { 1 << 11 } else { 0 };
        let status = 1 | 2 << 3 | 3 << 5 | group | 1 << 16 | self.status & !SPI_PRIO;
        let hwregs = record.len();
        record.push(Some(M0));
        record.extend(words(pc));
        record.extend(words(EXEC));
        record.extend([Some(status), Some(self.trapsts)]);
        record.extend(words(XNACK_MASK));
        record.push(Some(MODE));
        record.resize(hwregs + 16, None);

        let ttmps = record.len();
        record.resize(ttmps + 4, None);
        record.extend((4..12).map(|n| Some(ttmp(n))));
        record.extend([None, Some(TTMP13 | REPLAY << 26)]);
        record.resize(ttmps + 16, None);

        if with_lds {
            let part = self.waves * 64;
            let dword = |n: usize| Some(lds(n / part * part * 4, n % part));
            record.extend((0..self.lds / 4).map(dword));
        }
        record
    }

    /// Compares the records of a save area with the state of the waves.
    fn check(&self, ram: &Ram, saved: &[SavedWave], pc: u64) {
        let left: Vec<usize> = (0..self.waves).filter(|&n| Some(n) != self.ended).collect();
        assert_eq!(saved.len(), left.len(), "{}", self.name);
        for (n, (wave, saved)) in left.into_iter().zip(saved).enumerate() {
            assert_eq!(saved.index as usize, wave, "{}", self.name);
            let expected = self.record(wave, n == 0, pc);
            let dwords = ram.get_u32(saved.record & !(1 << 58), expected.len());
            for (at, (ours, expected)) in dwords.iter().zip(&expected).enumerate() {
                if let Some(expected) = expected {
                    assert!(
                        ours == expected,
                        "{}: wave {wave}, {}: {ours:#x} instead of {expected:#x}",
                        self.name,
                        self.field(at)
                    );
                }
            }
        }
    }

    /// Returns the name of a dword of a record.
    fn field(&self, at: usize) -> String {
        let sgprs = self.vgprs() * 64;
        let hwregs = sgprs + self.counts.2;
        match at {
            _ if at < sgprs => format!("VGPR {} lane {}", at / 64, at % 64),
            _ if at < hwregs => format!("SGPR {}", at - sgprs),
            _ if at < hwregs + 16 => format!("hardware register {}", at - hwregs),
            _ if at < hwregs + 32 => format!("ttmp{}", at - hwregs - 16),
            _ => format!("LDS dword {}", at - hwregs - 32),
        }
    }

    /// Returns memory with the kernel, the handlers and blank save areas.
    fn ram(&self, handler: &[u32], second: &[u32]) -> Ram {
        let ram = Ram::new(CODE, (AREA - CODE) as usize + 2 * AREA_BYTES);
        ram.put_u32(CODE, &self.kernel());
        ram.put_u32(HANDLER, handler);
        ram.put_u32(SECOND, second);
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
        let (ram, d) = (self.ram(handler, &self.second()), self.dispatch());
        let host = |start| Area {
            recorder: Recorder::late(late),
            start,
            sizes: (d.record_bytes(), d.lds_bytes.into()),
            ..Area::default()
        };
        // The branch is followed by s_endpgm.
        let pc = CODE + 4 * self.kernel().len() as u64 - 8;
        let first = host(AREAS[0]);
        let mut group = Workgroup::new(&d, [0; 3]).unwrap();
        loops(&mut group, &ram, &first, self.status & HALT != 0, pc);
        let saved = save(&mut group, &ram, &first, self.name);
        self.check(&ram, &saved, pc);

        let again = host(AREAS[1]);
        let mut group = Workgroup::restore(&d, [0; 3], &saved).unwrap();
        group.set_slice(1);
        again.recorder.patience.store(rounds, Ordering::Relaxed);
        assert_eq!(group.run(&ram, &again), Err(Stop::Interrupted));
        group.set_slice(4096);
        let saved = save(&mut group, &ram, &again, self.name);
        self.check(&ram, &saved, pc);

        // In the end the waves are where they were.
        let mut group = Workgroup::restore(&d, [0; 3], &saved).unwrap();
        loops(&mut group, &ram, &again, self.status & HALT != 0, pc);
    }
}

/// Runs waves until they loop, or are halted, at `pc`.
pub(super) fn loops(
    group: &mut Workgroup<&Dispatch>,
    ram: &Ram,
    host: &Area,
    halted: bool,
    pc: u64,
) {
    host.recorder.patience.store(1000, Ordering::Relaxed);
    match group.run(ram, host) {
        Err(Stop::Halted { at }) if halted => assert_eq!(at.pc, pc),
        Err(Stop::Interrupted) if !halted => {}
        other => panic!("{other:?}"),
    }
}

/// Saves the waves.
pub(super) fn save(
    group: &mut Workgroup<&Dispatch>,
    ram: &Ram,
    host: &Area,
    name: &str,
) -> Vec<SavedWave> {
    host.recorder.patience.store(PATIENCE, Ordering::Relaxed);
    group.save();
    let mut result = group.run(ram, host);
    // The interpreter reports a halt before it enters the handler of that wave for SAVECTX.
    if matches!(result, Err(Stop::Halted { .. })) {
        result = group.run(ram, host);
    }
    assert_eq!(result, Err(Stop::Saved), "{name}");
    std::mem::take(&mut *host.saved.lock().unwrap())
}

/// Returns the handler with the vector stores replaced by `s_nop`.
fn without_vector_stores() -> Vec<u32> {
    let mut words = module::FIRST_LEVEL.to_vec();
    let mut count = 0;
    for n in 0..words.len() {
        if words[n] & 0xfffc_0000 == 0xe070_0000 {
            words[n..n + 2].fill(0xbf80_0000);
            count += 1;
        }
    }
    assert_eq!(count, 4);
    words
}

#[test]
fn record_has_the_state_of_the_wave() {
    for case in [SMALL, PLAIN, UNEVEN, LARGE] {
        for rounds in [1, 40, 200] {
            case.save_twice(&module::FIRST_LEVEL, rounds);
        }
    }
}

#[test]
fn halted_wave_stays_halted() {
    for case in [SMALL, PLAIN, UNEVEN] {
        let status = case.status | HALT;
        Case { status, ..case }.save_twice(&module::FIRST_LEVEL, 1);
    }
}

#[test]
fn other_waves_have_ended() {
    for ended in 0..UNEVEN.waves {
        let ended = Some(ended);
        Case { ended, ..UNEVEN }.save_twice(&module::FIRST_LEVEL, 1);
    }
}

/// A wrong ACCUM_OFFSET of a code object is no reason to store without end.
#[test]
fn accumulators_start_beyond_the_vgprs() {
    let case = Case {
        name: "ACCUM_OFFSET beyond the VGPRs",
        fields: (0, 5, 3),
        counts: (8, 0, 48),
        ..SMALL
    };
    case.save_twice(&module::FIRST_LEVEL, 1);
}

#[test]
fn stores_by_scalar_instructions_after_xnack_error() {
    let trapsts = TRAPSTS | XNACK_ERROR;
    for case in [SMALL, PLAIN, UNEVEN, LARGE] {
        let case = Case { trapsts, ..case };
        case.save_twice(&without_vector_stores(), 1);
        // With replay vector stores are used.
        let replayed = Case {
            status: case.status | ALLOW_REPLAY,
            ..case
        };
        replayed.save_twice(&module::FIRST_LEVEL, 1);
        let (ram, d) = (
            replayed.ram(&without_vector_stores(), &replayed.second()),
            replayed.dispatch(),
        );
        let host = Area {
            start: AREA,
            sizes: (d.record_bytes(), d.lds_bytes.into()),
            ..Area::default()
        };
        let pc = CODE + 4 * replayed.kernel().len() as u64 - 8;
        let mut group = Workgroup::new(&d, [0; 3]).unwrap();
        loops(&mut group, &ram, &host, false, pc);
        save(&mut group, &ram, &host, replayed.name);
        let vgprs = ram.get_u32(AREA, case.vgprs() * 64);
        assert!(vgprs.iter().all(|&dword| dword == BLANK), "{}", case.name);
    }
}

/// The second-level handler halts the wave: STATUS in the record tells whether it was entered.
#[test]
fn exceptions_come_before_the_save() {
    const EXCP_EN: u32 = 0x1ff << 12;
    const ADDR_WATCH: u32 = 1 << 19;
    let mut cases = vec![(0, EXCP_EN, false), (XNACK_ERROR, EXCP_EN, false)];
    for bit in [8, 11, 22, 23, 24, 25] {
        cases.push((1 << bit, 0, true));
    }
    for bit in 0..7 {
        cases.push((1 << bit, 1 << (12 + bit), true));
        cases.push((1 << bit, EXCP_EN & !(1 << (12 + bit)), false));
    }
    for bit in [7, 12, 13, 14] {
        cases.push((1 << bit, ADDR_WATCH, true));
        cases.push((1 << bit, EXCP_EN & !ADDR_WATCH, false));
    }
    let second = llvm::assemble(
        "s_bitset1_b32 ttmp12, 13
        s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
        s_rfe_b64 ttmp[0:1]",
    );
    for (trapsts, mode, entered) in cases {
        let (ram, d) = (SMALL.ram(&module::FIRST_LEVEL, &second), SMALL.dispatch());
        let kernel = llvm::assemble(&format!(
            "s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS), {trapsts:#x}
            s_setreg_imm32_b32 hwreg(HW_REG_MODE, 12, 9), {:#x}
            spin:
            s_branch spin",
            mode >> 12
        ));
        ram.put_u32(CODE, &kernel);
        let host = Area {
            start: AREA,
            sizes: (d.record_bytes(), d.lds_bytes.into()),
            ..Area::default()
        };
        let mut group = Workgroup::new(&d, [0; 3]).unwrap();
        loops(&mut group, &ram, &host, false, 0);
        save(&mut group, &ram, &host, "exception");
        let hwregs = AREA + 4 * (SMALL.vgprs() * 64 + SMALL.counts.2) as u64;
        let [status, saved] = ram.get_u32(hwregs + 0x14, 2)[..] else {
            unreachable!()
        };
        assert_eq!(
            (saved, status & HALT != 0),
            (trapsts, entered),
            "TRAPSTS {trapsts:#x} MODE {mode:#x}"
        );
    }
}
