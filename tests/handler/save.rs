// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Saves waves by a trap handler, and restores them from memory.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use super::common::llvm::{self, Target};
use super::common::place::{CODE, DATA};
use super::common::{Ram, Recorder};
use super::{gfx12, module};
use gpu_wave::{
    Dispatch, Fault, FaultKind, Host, Isa, Memory, Message, SavedWave, Scratch, Stop, Trap,
    WaveStart, Workgroup,
};

pub(super) const HANDLER: u64 = CODE + 0x1_0000;
pub(super) const TMA: u64 = CODE + 0x1_8000;
pub(super) const AREA: u64 = DATA + 0x10_0000;
/// Results come at once, and late with this seed.
pub(super) const LATE: [Option<u64>; 2] = [None, Some(1)];
/// Bytes that the kernel writes.
const RESULT: usize = 0x8000;

/// Kernel of four waves of gfx942 that uses all kinds of state: VGPRs, accumulators, SGPRs, VCC,
/// SCC, M0, EXEC, MODE, index mode, LDS and barriers.
const KERNEL: &str = "
    v_and_b32 v1, 0x3ff, v0
    v_lshlrev_b32 v2, 2, v1
    v_mul_u32_u24 v3, v1, v1
    ds_write_b32 v2, v3
    v_accvgpr_write_b32 a0, v3
    v_accvgpr_write_b32 a7, v1
    v_mov_b32 v4, 0
    v_mov_b32 v5, 0x11111111
    v_mov_b32 v11, 0x22222222
    s_movk_i32 s4, 5
    s_mov_b32 s20, 0x1234
    s_mov_b32 s41, 0x77
    s_mov_b32 m0, 0xabcd
    s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 10
    s_waitcnt lgkmcnt(0)
    s_barrier
loop:
    v_xor_b32 v6, 0x100, v2
    ds_read_b32 v7, v6
    s_waitcnt lgkmcnt(0)
    s_barrier
    v_cmp_gt_u32 vcc, v1, v4
    s_and_saveexec_b64 s[8:9], vcc
    v_add_u32 v3, v3, v7
    v_add_u32 v4, 77, v4
    s_mov_b64 exec, s[8:9]
    ds_write_b32 v2, v3
    s_set_gpr_idx_on s4, 9
    v_mov_b32 v5, v5
    s_set_gpr_idx_off
    v_accvgpr_read_b32 v8, a0
    v_add_u32 v8, v8, v3
    v_accvgpr_write_b32 a0, v8
    s_waitcnt lgkmcnt(0)
    s_barrier
    s_add_u32 s20, s20, s41
    s_sub_u32 s4, s4, 1
    s_cmp_lg_u32 s4, 0
    s_cbranch_scc1 loop
    v_accvgpr_read_b32 v9, a7
    v_add_u32 v9, v9, v8
    v_lshlrev_b32 v2, 5, v1
    v_mov_b32 v10, s20
    global_store_dwordx2 v2, v[10:11], s[0:1]
    global_store_dwordx2 v2, v[8:9], s[0:1] offset:8
    global_store_dwordx2 v2, v[4:5], s[0:1] offset:16
    v_mov_b32 v10, m0
    s_getreg_b32 s6, hwreg(HW_REG_MODE)
    v_mov_b32 v11, s6
    v_add_u32 v11, vcc_lo, v11
    global_store_dwordx2 v2, v[10:11], s[0:1] offset:24
    s_endpgm
";

/// Scratch memory of gfx12, of which only the address is used.
const SCRATCH: Scratch = Scratch {
    base: 0x7000_0020_0000,
    wave_stride: 1024,
    slots: 4,
};

/// Returns a kernel of four waves of gfx12 that uses all kinds of state: VGPRs, SGPRs, VCC, SCC,
/// M0, EXEC, MODE, SCHED_MODE, SCRATCH_BASE, LDS, and a barrier with work between signal and wait.
fn kernel_gfx12(target: Target) -> String {
    let (wide, b, low) = match target {
        Target::Wave32 => ("_lo", "b32", "s8"),
        _ => ("", "b64", "s[8:9]"),
    };
    format!(
        "
    v_and_b32 v1, 0x3ff, v0
    v_lshlrev_b32 v2, 2, v1
    v_mul_u32_u24 v3, v1, v1
    ds_store_b32 v2, v3
    v_mov_b32 v30, v3
    v_mov_b32 v4, 0
    v_mov_b32 v5, 0x11111111
    v_mov_b32 v11, 0x22222222
    s_movk_i32 s4, 5
    s_mov_b32 s20, 0x1234
    s_mov_b32 s104, 0x77
    s_mov_b32 m0, 0xabcd
    s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 10
    s_setreg_imm32_b32 hwreg(26, 0, 2), 2
    s_wait_dscnt 0x0
    s_barrier_signal -1
    s_barrier_wait -1
loop:
    v_xor_b32 v6, 0x80, v2
    ds_load_b32 v7, v6
    s_wait_dscnt 0x0
    s_barrier_signal -1
    v_cmp_gt_u32 vcc{wide}, v1, v4
    s_and_saveexec_{b} {low}, vcc{wide}
    v_add_nc_u32 v3, v3, v7
    s_barrier_wait -1
    v_add_nc_u32 v4, 77, v4
    s_mov_{b} exec{wide}, {low}
    ds_store_b32 v2, v3
    v_add_nc_u32 v31, v5, v4
    v_add_nc_u32 v8, v30, v3
    v_mov_b32 v30, v8
    s_wait_dscnt 0x0
    s_barrier_signal -1
    s_add_co_u32 s20, s20, s104
    s_barrier_wait -1
    s_sub_co_u32 s4, s4, 1
    s_cmp_lg_u32 s4, 0
    s_cbranch_scc1 loop
    v_lshlrev_b32 v2, 5, v1
    v_mov_b32 v10, s20
    v_add_nc_u32 v9, vcc_lo, v31
    global_store_b64 v2, v[10:11], s[0:1]
    global_store_b64 v2, v[8:9], s[0:1] offset:8
    global_store_b64 v2, v[4:5], s[0:1] offset:16
    s_getreg_b32 s6, hwreg(HW_REG_MODE)
    s_getreg_b32 s7, hwreg(26)
    s_add_co_u32 s6, s6, s7
    s_add_co_u32 s6, s6, m0
    v_mov_b32 v10, s6
    s_getreg_b32 s6, hwreg(HW_REG_SCRATCH_BASE_LO)
    s_getreg_b32 s7, hwreg(HW_REG_SCRATCH_BASE_HI)
    s_add_co_u32 s6, s6, s7
    s_add_co_u32 s6, s6, ttmp9
    s_add_co_u32 s6, s6, ttmp8
    v_mov_b32 v11, s6
    global_store_b64 v2, v[10:11], s[0:1] offset:24
    s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)
    s_nop 0
    s_endpgm
"
    )
}

/// A save area: records from its start on.
#[derive(Default)]
pub(super) struct Area {
    pub(super) recorder: Recorder,
    pub(super) start: u64,
    /// Bytes of a record and of LDS.
    pub(super) sizes: (u64, u64),
    /// Scratch memory, and the number of the first wave there.
    pub(super) scratch: Scratch,
    pub(super) first: u64,
    pub(super) saved: Mutex<Vec<SavedWave>>,
}

impl Host for Area {
    fn message(&self, message: &Message) -> bool {
        self.recorder.message(message)
    }

    fn save_waves(&self, _: [u32; 3], waves: &[u32]) -> Option<Vec<u64>> {
        let mut at = self.start;
        let (record, lds) = self.sizes;
        let mut addresses = Vec::new();
        for n in 0..waves.len() {
            addresses.push(at);
            at += record + if n == 0 { lds } else { 0 };
        }
        let saved = waves.iter().zip(&addresses).enumerate();
        *self.saved.lock().unwrap() = saved
            .map(|(n, (&index, &address))| SavedWave {
                index,
                record: address | if n == 0 { 1 << 58 } else { 0 },
                scratch_slot: self.scratch.slot(self.first + u64::from(index)),
            })
            .collect();
        Some(addresses)
    }

    fn wave_start(&self) -> WaveStart {
        self.recorder.wave_start()
    }

    fn late(&self) -> Option<u64> {
        self.recorder.late()
    }

    fn realtime(&self) -> u64 {
        self.recorder.realtime()
    }

    fn shader_clock(&self) -> u64 {
        self.recorder.shader_clock()
    }

    fn poll(&self) -> bool {
        self.recorder.poll()
    }
}

/// A kernel, and the target of the handler that saves it.
#[derive(Clone, Copy)]
struct Program(Target);

impl Program {
    fn dispatch(self) -> Dispatch {
        let items = 4 * self.0.lanes() as u32;
        let dispatch = Dispatch {
            isa: self.0.isa(),
            wave32: self.0.lanes() == 32,
            grid: [items, 1, 1],
            workgroup: [items as u16, 1, 1],
            entry: CODE,
            // 32 VGPRs, of which 16 are architectural on gfx942, and 48 SGPRs there.
            rsrc1: 3 | 5 << 6,
            rsrc2: 2 << 1,
            rsrc3: 3,
            user_sgprs: vec![DATA as u32, (DATA >> 32) as u32],
            lds_bytes: 1024,
            trap: Some(Trap {
                tba: HANDLER,
                tma: TMA,
            }),
            ..Dispatch::default()
        };
        match self.0.isa() {
            Isa::Gfx942 => dispatch,
            // VGPRs are in units of 4 for wave64.
            Isa::Gfx1201 => Dispatch {
                rsrc1: if dispatch.wave32 { 3 } else { 7 },
                scratch: SCRATCH,
                ..dispatch
            },
        }
    }

    fn code(self) -> Vec<u32> {
        match self.0 {
            Target::Gfx942 => llvm::assemble(KERNEL),
            target => llvm::assemble_for(target, &kernel_gfx12(target)),
        }
    }

    fn ram(self, handler: &[u32]) -> Ram {
        let ram = Ram::new(CODE, (AREA - CODE) as usize + 0x10_0000);
        ram.put_u32(CODE, &self.code());
        ram.put_u32(HANDLER, handler);
        ram
    }
}

/// Runs the kernel, and saves and restores its waves after `rounds` turns of one instruction each,
/// 0 for never; with results that come late if there is a seed. Returns the result, and whether the
/// waves were saved.
fn run(program: Program, handler: &[u32], rounds: u64, late: Option<u64>) -> (Vec<u32>, bool) {
    run_recorded(program, handler, rounds, Recorder::late(late))
}

/// The same with a recorder of waves.
fn run_recorded(
    program: Program,
    handler: &[u32],
    rounds: u64,
    recorder: Recorder,
) -> (Vec<u32>, bool) {
    let (ram, d) = (program.ram(handler), program.dispatch());
    let host = Area {
        recorder,
        start: AREA,
        sizes: (d.record_bytes(), d.lds_bytes.into()),
        ..Area::default()
    };
    let mut group = Workgroup::new(&d, [0; 3]).unwrap();
    host.recorder.patience.store(rounds, Ordering::Relaxed);
    group.set_slice(1);
    let mut was_saved = false;
    let mut result = group.run(&ram, &host);
    if result == Err(Stop::Interrupted) {
        group.save();
        result = group.run(&ram, &host);
        if result == Err(Stop::Saved) {
            was_saved = true;
            let saved = std::mem::take(&mut *host.saved.lock().unwrap());
            result = Workgroup::restore(&d, [0; 3], &saved)
                .unwrap()
                .run(&ram, &host);
        }
    }
    result.unwrap();
    (ram.get_u32(DATA, RESULT / 4), was_saved)
}

/// Saves and restores at each instruction boundary.
fn at_each_instruction(target: Target, handler: &[u32]) {
    for late in LATE {
        at_each_instruction_of(target, handler, late);
    }
}

fn at_each_instruction_of(target: Target, handler: &[u32], late: Option<u64>) {
    let program = Program(target);
    let (expected, _) = run(program, handler, 0, None);
    for rounds in 1.. {
        let late = late.map(|seed| seed + rounds);
        let (result, was_saved) = run(program, handler, rounds, late);
        for (n, (ours, theirs)) in result.iter().zip(&expected).enumerate() {
            assert_eq!(
                ours,
                theirs,
                "save after {rounds} instructions, late {late:?}: dword {} of item {}",
                n % 8,
                n / 8
            );
        }
        if !was_saved {
            assert!(rounds > 200);
            break;
        }
    }
}

/// Returns the handler of the C driver.
pub(super) fn stock_handler(isa: Isa) -> Vec<u32> {
    let text = rkfd_abi_oracle::amd_text("amdkfd/cwsr_trap_handler.h");
    let name = match isa {
        Isa::Gfx942 => "cwsr_trap_gfx9_4_3_hex",
        Isa::Gfx1201 => "cwsr_trap_gfx12_hex",
    };
    let array = text.split(&format!("{name}[] = {{")).nth(1);
    let words = array.and_then(|rest| rest.split('}').next());
    let words = words.expect(name).split(',');
    let words = words.filter_map(|word| word.trim().strip_prefix("0x"));
    words
        .map(|word| u32::from_str_radix(word, 16).expect("a dword"))
        .collect()
}

#[test]
fn stock_handler_saves_at_each_instruction() {
    at_each_instruction(Target::Gfx942, &stock_handler(Isa::Gfx942));
}

#[test]
fn module_handler_saves_at_each_instruction() {
    at_each_instruction(Target::Gfx942, &module::FIRST_LEVEL);
}

/// Waves that are halted at the start are saved, and again before they have returned to their halt.
fn halted_waves(target: Target, handler: &[u32]) {
    let program = Program(target);
    let (ram, d) = (program.ram(handler), program.dispatch());
    let mut host = Area {
        start: AREA,
        sizes: (d.record_bytes(), d.lds_bytes.into()),
        ..Area::default()
    };
    host.recorder.start.halted = true;
    let mut group = Workgroup::new(&d, [0; 3]).unwrap();
    assert!(matches!(group.run(&ram, &host), Err(Stop::Halted { .. })));
    for _ in 0..3 {
        group.save();
        assert_eq!(group.run(&ram, &host), Err(Stop::Saved));
        let saved = std::mem::take(&mut *host.saved.lock().unwrap());
        assert_eq!(saved.len(), 4);
        group = Workgroup::restore(&d, [0; 3], &saved).unwrap();
    }
    assert!(matches!(group.run(&ram, &host), Err(Stop::Halted { .. })));
}

#[test]
fn stock_handler_saves_halted_waves() {
    halted_waves(Target::Gfx942, &stock_handler(Isa::Gfx942));
}

#[test]
fn module_handler_saves_halted_waves() {
    halted_waves(Target::Gfx942, &module::FIRST_LEVEL);
}

/// Waves whose memory had an uncorrectable error are saved completely.
fn waves_with_ecc_error(handler: &[u32]) {
    let program = Program(Target::Gfx942);
    let (expected, _) = run(program, handler, 0, None);
    for late in LATE {
        let mut recorder = Recorder::late(late);
        recorder.start.ecc_error = true;
        let (result, was_saved) = run_recorded(program, handler, 60, recorder);
        assert!(was_saved);
        assert!(result == expected, "late {late:?}");
    }
}

#[test]
fn stock_handler_saves_waves_with_ecc_error() {
    waves_with_ecc_error(&stock_handler(Isa::Gfx942));
}

#[test]
fn module_handler_saves_waves_with_ecc_error() {
    waves_with_ecc_error(&module::FIRST_LEVEL);
}

/// Kernel of four waves with cells on four pages each: two atomics for each item.
const COUNTERS: &str = "
    v_and_b32 v1, 0x3ff, v0
    v_lshlrev_b32 v2, 8, v1
    v_mov_b32 v3, 1
    global_atomic_add v4, v2, v3, s[0:1] sc0
    s_waitcnt vmcnt(0)
    global_atomic_add v5, v2, v3, s[0:1] sc0
    s_waitcnt vmcnt(0)
    v_lshl_or_b32 v4, v5, 16, v4
    global_store_dword v2, v4, s[0:1] offset:4
    s_endpgm
";

/// Memory and host of waves that wait for pages.
struct Waiting<'a> {
    ram: &'a Ram,
    area: Area,
    absent: Mutex<BTreeSet<u64>>,
    nacked: AtomicBool,
}

impl Waiting<'_> {
    fn check(&self, va: u64, len: usize) -> Result<(), Fault> {
        let absent = self.absent.lock().unwrap();
        let mut pages = va >> 12..=(va + len as u64 - 1) >> 12;
        pages
            .find(|page| absent.contains(page))
            .map_or(Ok(()), |page| {
                Err(Fault {
                    va: va.max(page << 12),
                    kind: FaultKind::NotPresent,
                    retry: true,
                })
            })
    }
}

impl Memory for Waiting<'_> {
    fn read(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.check(va, buf.len())?;
        self.ram.read(va, buf)
    }

    fn write(&self, va: u64, data: &[u8]) -> Result<(), Fault> {
        self.check(va, data.len())?;
        self.ram.write(va, data)
    }

    fn fetch(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.ram.fetch(va, buf)
    }

    fn atomic(&self, va: u64, size: u8, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault> {
        self.check(va, size.into())?;
        self.ram.atomic(va, size, f)
    }
}

impl Host for Waiting<'_> {
    fn message(&self, message: &Message) -> bool {
        self.area.message(message)
    }

    fn save_waves(&self, workgroup: [u32; 3], waves: &[u32]) -> Option<Vec<u64>> {
        self.area.save_waves(workgroup, waves)
    }

    fn nack(&self, _: &Fault, _: bool) {
        self.nacked.store(true, Ordering::Relaxed);
    }

    fn realtime(&self) -> u64 {
        self.area.realtime()
    }

    fn shader_clock(&self) -> u64 {
        self.area.shader_clock()
    }

    fn poll(&self) -> bool {
        self.nacked.swap(false, Ordering::Relaxed)
    }
}

/// Waves that wait for a page are saved; after each restore one more page is there.
fn waves_that_wait_for_pages(handler: &[u32]) {
    let program = Program(Target::Gfx942);
    let (ram, d) = (program.ram(handler), program.dispatch());
    ram.put_u32(CODE, &llvm::assemble(COUNTERS));
    let host = Waiting {
        ram: &ram,
        area: Area {
            start: AREA,
            sizes: (d.record_bytes(), d.lds_bytes.into()),
            ..Area::default()
        },
        absent: Mutex::new((0..16).map(|n| (DATA >> 12) + n).collect()),
        nacked: AtomicBool::new(false),
    };
    let mut group = Workgroup::new(&d, [0; 3]).unwrap();
    let mut saves = 0;
    while group.run(&host, &host) == Err(Stop::Interrupted) {
        group.save();
        assert_eq!(group.run(&host, &host), Err(Stop::Saved));
        let saved = std::mem::take(&mut *host.area.saved.lock().unwrap());
        group = Workgroup::restore(&d, [0; 3], &saved).unwrap();
        host.absent.lock().unwrap().pop_first();
        saves += 1;
    }
    assert_eq!(saves, 16);
    for item in 0..256 {
        assert_eq!(
            ram.get_u32(DATA + item * 256, 2),
            [2, 1 << 16],
            "item {item}"
        );
    }
}

#[test]
fn stock_handler_saves_waves_that_wait_for_pages() {
    waves_that_wait_for_pages(&stock_handler(Isa::Gfx942));
}

#[test]
fn module_handler_saves_waves_that_wait_for_pages() {
    waves_that_wait_for_pages(&module::FIRST_LEVEL);
}

const GFX12: [Target; 2] = [Target::Wave32, Target::Wave64];

#[test]
fn stock_handler_of_gfx12_saves_at_each_instruction() {
    for target in GFX12 {
        at_each_instruction(target, &stock_handler(Isa::Gfx1201));
    }
}

#[test]
fn module_handler_of_gfx12_saves_at_each_instruction() {
    for target in GFX12 {
        at_each_instruction(target, gfx12::handler());
    }
}

#[test]
fn stock_handler_of_gfx12_saves_halted_waves() {
    for target in GFX12 {
        halted_waves(target, &stock_handler(Isa::Gfx1201));
    }
}

#[test]
fn module_handler_of_gfx12_saves_halted_waves() {
    for target in GFX12 {
        halted_waves(target, gfx12::handler());
    }
}
