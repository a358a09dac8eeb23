// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Saves waves of gfx942 by a trap handler, and restores them from memory.

use std::sync::atomic::Ordering;
use std::sync::Mutex;

use super::common::place::{CODE, DATA};
use super::common::{llvm, Ram, Recorder};
use super::module;
use gpu_wave::{Dispatch, Host, Message, SavedWave, Stop, Trap, WaveStart, Workgroup};

pub(super) const HANDLER: u64 = CODE + 0x1_0000;
pub(super) const TMA: u64 = CODE + 0x1_8000;
pub(super) const AREA: u64 = DATA + 0x10_0000;
/// Bytes that the kernel writes.
const RESULT: usize = 0x8000;

/// Kernel of four waves that uses all kinds of state: VGPRs, accumulators, SGPRs, VCC, SCC, M0,
/// EXEC, MODE, index mode, LDS and barriers.
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

/// A save area: records from its start on.
#[derive(Default)]
pub(super) struct Area {
    pub(super) recorder: Recorder,
    pub(super) start: u64,
    /// Bytes of a record and of LDS.
    pub(super) sizes: (u64, u64),
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
                scratch_slot: 0,
            })
            .collect();
        Some(addresses)
    }

    fn wave_start(&self) -> WaveStart {
        self.recorder.wave_start()
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

fn dispatch() -> Dispatch {
    Dispatch {
        grid: [256, 1, 1],
        workgroup: [256, 1, 1],
        entry: CODE,
        // 32 VGPRs, of which 16 are architectural, and 48 SGPRs.
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
    }
}

fn ram(handler: &[u32]) -> Ram {
    let ram = Ram::new(CODE, (AREA - CODE) as usize + 0x10_0000);
    ram.put_u32(CODE, &llvm::assemble(KERNEL));
    ram.put_u32(HANDLER, handler);
    ram
}

/// Runs the kernel, and saves and restores its waves after `rounds` turns of one instruction each,
/// 0 for never. Returns the result, and whether the waves were saved.
fn run(handler: &[u32], rounds: u64) -> (Vec<u32>, bool) {
    let (ram, d) = (ram(handler), dispatch());
    let host = Area {
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
fn at_each_instruction(handler: &[u32]) {
    let (expected, _) = run(handler, 0);
    for rounds in 1.. {
        let (result, was_saved) = run(handler, rounds);
        for (n, (ours, theirs)) in result.iter().zip(&expected).enumerate() {
            assert_eq!(
                ours,
                theirs,
                "save after {rounds} instructions: dword {} of item {}",
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
fn stock_handler() -> Vec<u32> {
    let text = rkfd_abi_oracle::amd_text("amdkfd/cwsr_trap_handler.h");
    let array = text.split("cwsr_trap_gfx9_4_3_hex[] = {").nth(1);
    let words = array.and_then(|rest| rest.split('}').next());
    let words = words.expect("the handler of gfx942").split(',');
    let words = words.filter_map(|word| word.trim().strip_prefix("0x"));
    words
        .map(|word| u32::from_str_radix(word, 16).expect("a dword"))
        .collect()
}

#[test]
fn stock_handler_saves_at_each_instruction() {
    at_each_instruction(&stock_handler());
}

#[test]
fn module_handler_saves_at_each_instruction() {
    at_each_instruction(&module::FIRST_LEVEL);
}

/// Waves that are halted at the start are saved, and again before they have returned to their halt.
fn halted_waves(handler: &[u32]) {
    let (ram, d) = (ram(handler), dispatch());
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
    halted_waves(&stock_handler());
}

#[test]
fn module_handler_saves_halted_waves() {
    halted_waves(&module::FIRST_LEVEL);
}
