// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Results that come late: what a wait guarantees, and what it does not. Each case runs with many
//! seeds; the results that occur are its set of outcomes.

use crate::common::llvm::{self, Target};
use crate::common::place::{CODE, DATA};
use crate::common::{one_wave, Ram, Recorder};
use gpu_wave::{run_workgroup, Dispatch, Trap};
use std::collections::BTreeSet;

/// Contents of the destination registers before.
const OLD: u32 = 7;
/// The lane that is looked at, and what it loads from memory and from LDS.
const LANE: u32 = 5;
const MEMORY: u32 = 105;
const LDS: u32 = 205;
const SEEDS: u64 = 400;
const HANDLER: u64 = CODE + 0x1_0000;

/// v2: offset of the lane; v\[6:7\], v\[8:9\]: its flat address in memory and LDS; v1, v4 and v10
/// to v29, s8 to s11: old contents.
fn prelude(target: Target) -> String {
    let (store, wait) = match target {
        Target::Gfx942 => ("ds_write_b32", "s_waitcnt lgkmcnt(0)"),
        _ => ("ds_store_b32", "s_wait_dscnt 0"),
    };
    let mut text = format!(
        "v_lshlrev_b32 v2, 2, v0\n s_mov_b64 s[4:5], src_shared_base\n v_mov_b32 v9, s5\n\
         v_mov_b32 v8, v2\n v_mov_b32 v7, s1\n v_mov_b32 v6, s0\n v_add_u32 v6, v6, v2\n\
         v_add_u32 v3, 200, v0\n {store} v2, v3\n {wait}\n v_mov_b32 v1, {OLD}\n\
         v_mov_b32 v4, {OLD}\n s_mov_b32 m0, 0\n"
    );
    for n in 10..30 {
        text += &format!("v_mov_b32 v{n}, {OLD}\n");
    }
    for n in 8..12 {
        text += &format!("s_mov_b32 s{n}, {OLD}\n");
    }
    text
}

/// Assembles code that leaves its result in v3.
fn assemble(target: Target, code: &str) -> Vec<u32> {
    let text = prelude(target) + code + "\n";
    match target {
        Target::Gfx942 => {
            let end = "s_waitcnt vmcnt(0) lgkmcnt(0)\n global_store_dword v2, v3, s[0:1]\n";
            llvm::assemble(&(text + end + "s_endpgm"))
        }
        _ => {
            let end = "s_wait_loadcnt_dscnt 0\n s_wait_kmcnt 0\n global_store_b32 v2, v3, s[0:1]\n";
            let text = text.replace("v_add_u32", "v_add_nc_u32");
            llvm::assemble_for(target, &(text + end + "s_endpgm"))
        }
    }
}

/// Returns the result in a lane; with a handler at [`HANDLER`] if it is not empty.
fn run(target: Target, code: &[u32], handler: &[u32], late: Option<u64>) -> u32 {
    let ram = Ram::new(CODE, (DATA - CODE) as usize + 0x1_0000);
    ram.put_u32(CODE, code);
    ram.put_u32(HANDLER, handler);
    ram.put_u32(DATA + 256, &(100..164).collect::<Vec<u32>>());
    let trap = Trap {
        tba: HANDLER,
        tma: DATA,
    };
    let dispatch = Dispatch {
        isa: target.isa(),
        trap: (!handler.is_empty()).then_some(trap),
        // 32 VGPRs and SGPRs.
        rsrc1: 3 | 2 << 6,
        rsrc3: 7,
        ..one_wave()
    };
    let dispatch = match target {
        Target::Wave32 => Dispatch {
            wave32: true,
            grid: [32, 1, 1],
            workgroup: [32, 1, 1],
            ..dispatch
        },
        _ => dispatch,
    };
    let host = Recorder::late(late);
    run_workgroup(&ram, &host, &dispatch, [0; 3]).unwrap();
    ram.get_u32(DATA + 4 * u64::from(LANE), 1)[0]
}

fn outcomes_with(target: Target, code: &str, handler: &[u32]) -> Vec<u32> {
    let code = assemble(target, code);
    // All results are there at once otherwise.
    let now = run(target, &code, handler, None);
    let late = |seed| run(target, &code, handler, Some(seed));
    let outcomes: BTreeSet<u32> = (0..SEEDS).map(late).collect();
    assert!(outcomes.contains(&now), "{outcomes:?} without {now}");
    outcomes.into_iter().collect()
}

#[track_caller]
fn expect(target: Target, code: &str, outcomes: &[u32]) {
    assert_eq!(outcomes_with(target, code, &[]), outcomes, "{code}");
}

#[track_caller]
fn gfx9(code: &str, outcomes: &[u32]) {
    expect(Target::Gfx942, code, outcomes);
}

#[track_caller]
fn gfx12(code: &str, outcomes: &[u32]) {
    expect(Target::Wave32, code, outcomes);
}

const LOAD: &str = "global_load_dword v1, v2, s[0:1] offset:256\n";
const SCALAR: &str = "s_load_dword s8, s[0:1], 0x114\n";
const LOCAL: &str = "ds_read_b32 v1, v2\n";
const LOAD_12: &str = "global_load_b32 v1, v2, s[0:1] offset:256\n";
const SCALAR_12: &str = "s_load_b32 s8, s[0:1], 0x114\n";
const LOCAL_12: &str = "ds_load_b32 v1, v2\n";
const USE: &str = "v_mov_b32 v3, v1";
const USE_SCALAR: &str = "v_mov_b32 v3, s8";

#[test]
fn loads_need_a_wait() {
    gfx9(&format!("{LOAD} {USE}"), &[OLD, MEMORY]);
    gfx9(
        &format!("{LOAD} s_waitcnt lgkmcnt(0)\n {USE}"),
        &[OLD, MEMORY],
    );
    gfx9(&format!("{LOAD} s_waitcnt vmcnt(0)\n {USE}"), &[MEMORY]);
    gfx9(&format!("{SCALAR} {USE_SCALAR}"), &[OLD, MEMORY]);
    gfx9(
        &format!("{SCALAR} s_waitcnt vmcnt(0)\n {USE_SCALAR}"),
        &[OLD, MEMORY],
    );
    gfx9(
        &format!("{SCALAR} s_waitcnt lgkmcnt(0)\n {USE_SCALAR}"),
        &[MEMORY],
    );
    gfx9(&format!("{LOCAL} {USE}"), &[OLD, LDS]);
    gfx9(&format!("{LOCAL} s_waitcnt vmcnt(0)\n {USE}"), &[OLD, LDS]);
    gfx9(&format!("{LOCAL} s_waitcnt lgkmcnt(0)\n {USE}"), &[LDS]);
    // Time does not help, nor does a barrier.
    gfx9(
        &format!("{LOAD} s_nop 7\n s_sleep 100\n s_barrier\n {USE}"),
        &[OLD, MEMORY],
    );
}

#[test]
fn counters_of_gfx12() {
    let waits = ["s_wait_loadcnt", "s_wait_dscnt", "s_wait_kmcnt"];
    let loads = [
        (LOAD_12, USE, MEMORY),
        (LOCAL_12, USE, LDS),
        (SCALAR_12, USE_SCALAR, MEMORY),
    ];
    for (n, (load, using, new)) in loads.into_iter().enumerate() {
        gfx12(&format!("{load} {using}"), &[OLD, new]);
        for (k, wait) in waits.into_iter().enumerate() {
            let outcomes = if n == k { vec![new] } else { vec![OLD, new] };
            gfx12(&format!("{load} {wait} 0\n {using}"), &outcomes);
        }
        for wait in ["s_wait_storecnt 0", "s_wait_samplecnt 0", "s_wait_alu 0"] {
            gfx12(&format!("{load} {wait}\n {using}"), &[OLD, new]);
        }
        gfx12(&format!("{load} s_wait_idle\n {using}"), &[new]);
        let both = format!("{load} s_wait_loadcnt_dscnt 0\n {using}");
        gfx12(
            &both,
            if n < 2 {
                &[LDS, MEMORY][1 - n..2 - n]
            } else {
                &[OLD, MEMORY]
            },
        );
    }
    // Each half of the combined wait.
    let combined = |load: &str, imm: u32| format!("{load} s_wait_loadcnt_dscnt {imm:#x}\n {USE}");
    gfx12(&combined(LOAD_12, 0x3f), &[MEMORY]);
    gfx12(&combined(LOAD_12, 0x3f00), &[OLD, MEMORY]);
    gfx12(&combined(LOCAL_12, 0x3f), &[OLD, LDS]);
    gfx12(&combined(LOCAL_12, 0x3f00), &[LDS]);
    let store = |imm: u32| format!("{LOCAL_12} s_wait_storecnt_dscnt {imm:#x}\n {USE}");
    gfx12(&store(0x3f00), &[LDS]);
    gfx12(&store(0x3f), &[OLD, LDS]);
}

#[test]
fn vector_memory_returns_in_order() {
    let another = "global_load_dword v4, v2, s[0:1] offset:256\n";
    gfx9(
        &format!("{LOAD} {another} s_waitcnt vmcnt(1)\n {USE}"),
        &[MEMORY],
    );
    gfx9(
        &format!("{another} {LOAD} s_waitcnt vmcnt(1)\n {USE}"),
        &[OLD, MEMORY],
    );
    // Stores count on gfx942 only.
    let store = "global_store_dword v2, v2, s[0:1] offset:1024\n";
    gfx9(
        &format!("{LOAD} {store} s_waitcnt vmcnt(1)\n {USE}"),
        &[MEMORY],
    );
    let store = "global_store_b32 v2, v2, s[0:1] offset:1024\n";
    gfx12(
        &format!("{LOAD_12} {store} s_wait_loadcnt 1\n {USE}"),
        &[OLD, MEMORY],
    );
    // The upper bits of the field.
    let mut many = LOAD.to_owned();
    (0..16).for_each(|_| many += another);
    gfx9(&format!("{many} s_waitcnt vmcnt(16)\n {USE}"), &[MEMORY]);
    gfx9(
        &format!("{many} s_waitcnt vmcnt(17)\n {USE}"),
        &[OLD, MEMORY],
    );
}

#[test]
fn scalar_memory_returns_in_any_order() {
    let another = "s_load_dword s9, s[0:1], 0x114\n";
    let first = format!("{SCALAR} {another} s_waitcnt lgkmcnt(1)\n {USE_SCALAR}");
    gfx9(&first, &[OLD, MEMORY]);
    let mixed = format!("{LOCAL} {SCALAR} s_waitcnt lgkmcnt(1)\n {USE}");
    gfx9(&mixed, &[OLD, LDS]);
    let mixed = format!("{SCALAR} {LOCAL} s_waitcnt lgkmcnt(1)\n {USE_SCALAR}");
    gfx9(&mixed, &[OLD, MEMORY]);
    let another = "s_load_b32 s9, s[0:1], 0x114\n";
    let first = format!("{SCALAR_12} {another} s_wait_kmcnt 1\n {USE_SCALAR}");
    gfx12(&first, &[OLD, MEMORY]);
    // In LDS in order.
    let another = "ds_read_b32 v4, v2\n";
    gfx9(
        &format!("{LOCAL} {another} s_waitcnt lgkmcnt(1)\n {USE}"),
        &[LDS],
    );
    let store = "ds_write_b32 v2, v2 offset:256\n";
    gfx9(
        &format!("{LOCAL} {store} s_waitcnt lgkmcnt(1)\n {USE}"),
        &[LDS],
    );
}

#[test]
fn flat_accesses_count_twice() {
    let memory = "flat_load_dword v1, v[6:7] offset:256\n";
    let local = "flat_load_dword v1, v[8:9]\n";
    gfx9(&format!("{memory} s_waitcnt vmcnt(0)\n {USE}"), &[MEMORY]);
    gfx9(
        &format!("{memory} s_waitcnt lgkmcnt(0)\n {USE}"),
        &[OLD, MEMORY],
    );
    gfx9(&format!("{local} s_waitcnt vmcnt(0)\n {USE}"), &[OLD, LDS]);
    gfx9(&format!("{local} s_waitcnt lgkmcnt(0)\n {USE}"), &[LDS]);
    // On gfx942 one that accesses LDS overtakes others.
    let later = "flat_load_dword v4, v[8:9]\n";
    gfx9(
        &format!("{LOAD} {later} s_waitcnt vmcnt(1)\n {USE}"),
        &[OLD, MEMORY],
    );
    let later = "flat_load_b32 v4, v[8:9]\n";
    gfx12(
        &format!("{LOCAL_12} {later} s_wait_dscnt 1\n {USE}"),
        &[LDS],
    );
    // Lanes from 5 on are in LDS, the others in memory.
    let mixed = "v_cmp_lt_u32 vcc, 4, v0\n v_add_u32 v6, 0x100, v6\n\
                 v_cndmask_b32 v6, v6, v8, vcc\n v_cndmask_b32 v7, v7, v9, vcc\n\
                 flat_load_dword v1, v[6:7]\n";
    let from_memory = "s_nop 1\n v_mov_b32_dpp v1, v1 row_shr:1 row_mask:0xf bank_mask:0xf\n";
    gfx9(&format!("{mixed} s_waitcnt vmcnt(0)\n {USE}"), &[OLD, LDS]);
    gfx9(&format!("{mixed} s_waitcnt lgkmcnt(0)\n {USE}"), &[LDS]);
    let lane_4 = format!("{mixed} s_waitcnt vmcnt(0)\n {from_memory} {USE}");
    gfx9(&lane_4, &[MEMORY - 1]);
    let lane_4 = format!("{mixed} s_waitcnt lgkmcnt(0)\n {from_memory} {USE}");
    gfx9(&lane_4, &[OLD, MEMORY - 1]);
}

#[test]
fn instructions_of_each_kind() {
    // Wide loads, atomics, and the lanes at the issue.
    let wide = "global_load_dwordx2 v[10:11], v2, s[0:1] offset:252\n v_mov_b32 v3, v11";
    gfx9(wide, &[OLD, MEMORY]);
    let atomic = "global_atomic_add v1, v2, v4, s[0:1] offset:256 sc0\n";
    gfx9(&format!("{atomic} {USE}"), &[OLD, MEMORY]);
    gfx9(&format!("{atomic} s_waitcnt vmcnt(0)\n {USE}"), &[MEMORY]);
    let lanes = format!("{LOAD} s_mov_b64 exec, 0\n s_waitcnt vmcnt(0)\n s_mov_b64 exec, -1\n");
    gfx9(&format!("{lanes} {USE}"), &[MEMORY]);
    let inactive = format!("s_mov_b64 exec, 1\n {LOAD} s_mov_b64 exec, -1\n");
    gfx9(&format!("{inactive} s_waitcnt vmcnt(0)\n {USE}"), &[OLD]);
    // What the program writes meanwhile is lost.
    gfx9(
        &format!("{LOAD} v_mov_b32 v1, 9\n s_waitcnt vmcnt(0)\n {USE}"),
        &[9, MEMORY],
    );
    // LDS and the lane crossbar.
    let pair = "ds_read2_b32 v[10:11], v2 offset1:0\n v_mov_b32 v3, v11";
    gfx9(pair, &[OLD, LDS]);
    let permuted = "ds_bpermute_b32 v1, v2, v0\n";
    gfx9(&format!("{permuted} {USE}"), &[LANE, OLD]);
    let added = "ds_add_rtn_u32 v1, v2, v4\n";
    gfx9(&format!("{added} {USE}"), &[OLD, LDS]);
    // Both halves of a register, without a wait between.
    let halves = "v_mov_b32 v1, 0x70007\n global_load_d16_b16 v1, v2, s[0:1] offset:256\n\
                  global_load_d16_hi_b16 v1, v2, s[0:1] offset:256\n s_wait_loadcnt 0\n";
    gfx12(&format!("{halves} {USE}"), &[MEMORY << 16 | MEMORY]);
    let halves = halves.replace("s_wait_loadcnt 0", "s_wait_loadcnt 1");
    let late = [OLD << 16 | MEMORY, MEMORY << 16 | MEMORY];
    gfx12(&format!("{halves} {USE}"), &late);
    let halves = "v_mov_b32 v1, 0x70007\n global_load_short_d16 v1, v2, s[0:1] offset:256\n\
                  global_load_short_d16_hi v1, v2, s[0:1] offset:256\n s_waitcnt vmcnt(1)\n";
    gfx9(&format!("{halves} {USE}"), &late);
    // Replies to messages.
    let reply = "s_sendmsg_rtn_b32 s8, sendmsg(MSG_RTN_GET_SE_AID_ID)\n";
    gfx12(&format!("{reply} {USE_SCALAR}"), &[0, OLD]);
    gfx12(&format!("{reply} s_wait_kmcnt 0\n {USE_SCALAR}"), &[0]);
}

#[test]
fn loads_to_lds_need_a_wait() {
    let load = "global_load_lds_dword v2, s[0:1] offset:256\n";
    let read = "s_mov_b32 m0, 0\n ds_read_b32 v1, v2 offset:256\n s_waitcnt lgkmcnt(0)\n";
    // The offset of the instruction applies to both.
    let old = "v_mov_b32 v3, 7\n ds_write_b32 v2, v3 offset:256\n s_waitcnt lgkmcnt(0)\n";
    gfx9(&format!("{old} {load} {read} {USE}"), &[OLD, MEMORY]);
    gfx9(
        &format!("{old} {load} s_waitcnt vmcnt(0)\n {read} {USE}"),
        &[MEMORY],
    );
}

#[test]
fn full_counters_stall() {
    let mut code = LOCAL.to_owned();
    (10..24).for_each(|n| code += &format!("ds_read_b32 v{n}, v2\n"));
    gfx9(&format!("{code} {USE}"), &[OLD, LDS]);
    gfx9(&format!("{code} ds_read_b32 v24, v2\n {USE}"), &[LDS]);
}

#[test]
fn hardware_registers_count() {
    let count = |text: &str| {
        let outcomes = outcomes_with(Target::Gfx942, text, &[]);
        *outcomes.last().expect("an outcome")
    };
    let counters = "s_getreg_b32 s8, hwreg(HW_REG_IB_STS)\n v_mov_b32 v3, s8";
    assert_eq!(count(counters), 0);
    assert_eq!(count(&format!("{LOAD} {LOAD} {LOCAL} {counters}")), 0x102);
    let counters = "s_getreg_b32 s8, hwreg(HW_REG_IB_STS)\n v_mov_b32 v3, s8";
    let code = format!("{LOAD_12} {LOAD_12} {LOCAL_12} {counters}");
    let outcomes = outcomes_with(Target::Wave32, &code, &[]);
    assert_eq!(outcomes.last(), Some(&(2 << 9 | 1 << 3)));
}

/// All results are there when a handler starts; its own loads come late.
#[test]
fn traps_wait() {
    let trap = format!("{LOAD} s_trap 1\n {USE}");
    let back = "s_add_u32 ttmp0, ttmp0, 4\n s_addc_u32 ttmp1, ttmp1, 0\n s_rfe_b64 ttmp[0:1]\n";
    let handler = llvm::assemble(&format!("v_mov_b32 v4, v1\n {back}"));
    let code = format!("{LOAD} s_trap 1\n v_mov_b32 v3, v4");
    assert_eq!(outcomes_with(Target::Gfx942, &code, &handler), [MEMORY]);
    assert_eq!(outcomes_with(Target::Gfx942, &trap, &handler), [MEMORY]);
    let handler = llvm::assemble(&format!("{LOAD} v_mov_b32 v4, v1\n {back}"));
    let code = "s_trap 1\n v_mov_b32 v3, v4";
    assert_eq!(outcomes_with(Target::Gfx942, code, &handler), [OLD, MEMORY]);
}
