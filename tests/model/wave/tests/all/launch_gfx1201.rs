// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Initial state and barriers of gfx1201 waves; memory instruction decoder against LLVM's.

use crate::common::llvm::{self, Target};
use crate::common::place::{CODE, DATA};
use crate::common::{Ram, Recorder};
use gpu_wave::probe::{self, Probe};
use gpu_wave::{run_workgroup, Dispatch, Isa, Stop};

/// TGID_Y_EN and TGID_Z_EN.
const Y: u32 = 1 << 8;
const Z: u32 = 1 << 9;

/// Workgroups of `items`; s[0:1] is [`DATA`].
fn dispatch(items: u16) -> Dispatch {
    Dispatch {
        isa: Isa::Gfx1201,
        wave32: true,
        grid: [u32::from(items) * 3, 0x1_8000, 4],
        workgroup: [items, 1, 1],
        entry: CODE,
        rsrc1: 1,
        rsrc2: 2 << 1 | Y | Z,
        user_sgprs: vec![DATA as u32, (DATA >> 32) as u32],
        lds_bytes: 512,
        ..Dispatch::default()
    }
}

fn run(asm: &str, d: &Dispatch, group: [u32; 3]) -> (Ram, Result<(), Stop>) {
    let ram = Ram::new(CODE, (DATA - CODE) as usize + 0x1_0000);
    ram.put_u32(CODE, &llvm::assemble_for(Target::Wave32, asm));
    let result = run_workgroup(&ram, &Recorder::default(), d, group);
    (ram, result)
}

/// Stores s[2:5] at the slot of each wave and ends.
const STORE: &str =
    "s_bfe_u32 s6, ttmp8, 0x50019\n s_lshl_b32 s6, s6, 4\n v_mov_b32 v2, s2\n v_mov_b32 v3, s3\n\
    v_mov_b32 v4, s4\n v_mov_b32 v5, s5\n v_mov_b32 v1, s6\n s_mov_b32 exec_lo, 1\n\
    global_store_b128 v1, v[2:5], s[0:1]\n s_endpgm\n";

#[test]
fn workgroup_ids_and_wave_index() {
    let asm = format!(
        "s_mov_b32 s2, ttmp9\n s_mov_b32 s3, ttmp7\n s_mov_b32 s4, exec_lo\n\
         v_readfirstlane_b32 s5, v0\n {STORE}"
    );
    let (ram, result) = run(&asm, &dispatch(72), [2, 5, 3]);
    result.unwrap();
    let words = ram.get_u32(DATA, 12);
    assert_eq!(words[..4], [2, 3 << 16 | 5, u32::MAX, 0]);
    assert_eq!(words[4..8], [2, 3 << 16 | 5, u32::MAX, 32]);
    assert_eq!(words[8..], [2, 3 << 16 | 5, 0xff, 64]);
    // Without a third dimension the second can exceed 65536.
    let two = Dispatch {
        rsrc2: 2 << 1 | Y,
        ..dispatch(32)
    };
    let (ram, result) = run(&asm, &two, [1, 0x1_7fff, 0]);
    result.unwrap();
    assert_eq!(ram.get_u32(DATA, 2), [1, 0x1_7fff]);
}

#[test]
fn split_barrier() {
    // Each of four waves signals, works, waits, and reads what the next one wrote before its
    // signal.
    let asm = format!(
        "s_bfe_u32 s6, ttmp8, 0x50019\n v_mov_b32 v2, s6\n v_lshlrev_b32 v3, 2, v2\n v_add_nc_u32 v4, 100, v2\n\
         ds_store_b32 v3, v4\n s_wait_dscnt 0\n s_barrier_signal_isfirst -1\n s_cselect_b32 s2, 1, 0\n\
         s_get_barrier_state s3, -1\n s_wait_kmcnt 0\n s_barrier_wait -1\n s_add_co_i32 s7, s6, 1\n s_and_b32 s7, s7, 3\n\
         v_mov_b32 v2, s7\n v_lshlrev_b32 v3, 2, v2\n ds_load_b32 v4, v3\n s_wait_dscnt 0\n\
         v_readfirstlane_b32 s4, v4\n s_getreg_b32 s5, hwreg(HW_REG_STATE_PRIV, 2, 1)\n {STORE}"
    );
    let (ram, result) = run(&asm, &dispatch(128), [0, 0, 0]);
    result.unwrap();
    let words = ram.get_u32(DATA, 16);
    for (n, of) in words.chunks(4).enumerate() {
        assert_eq!(of[0], u32::from(n == 0), "first signal differs");
        // Number of signals so far, reset to zero by the last wave. Four members.
        let signals = (n as u32 + 1) % 4;
        assert_eq!(of[1], 1 | 4 << 4 | signals << 16, "wave {n}");
        assert_eq!(of[2], 100 + (n as u32 + 1) % 4, "wave {n}");
        assert_eq!(of[3], 0, "barrier still complete after the wait");
    }
}

#[test]
fn barrier_with_ended_unsignalled_or_single_waves() {
    // The second of two waves ends: the first does not wait for it.
    let ends = "s_bfe_u32 s6, ttmp8, 0x50019\n s_cmp_eq_u32 s6, 1\n s_cbranch_scc1 end\n\
         s_barrier_signal -1\n s_barrier_wait -1\n v_mov_b32 v1, 7\n v_mov_b32 v2, 0\n\
         global_store_b32 v2, v1, s[0:1]\n end:\n s_endpgm\n";
    let (ram, result) = run(ends, &dispatch(64), [0, 0, 0]);
    result.unwrap();
    assert_eq!(ram.get_u32(DATA, 1), [7]);
    // Both wait without signalling.
    let (_, result) = run("s_barrier_wait -1\n s_endpgm", &dispatch(64), [0, 0, 0]);
    assert!(matches!(result, Err(Stop::Violation { text, .. }) if text.contains("s_barrier_wait")));
    // A single wave has no barrier.
    let alone = format!(
        "s_barrier_signal -1\n s_barrier_wait -1\n s_get_barrier_state s2, -1\n s_wait_kmcnt 0\n s_mov_b32 s3, 0\n\
         s_mov_b32 s4, 0\n s_mov_b32 s5, 0\n s_mov_b32 s6, 0\n {STORE}"
    );
    let (ram, result) = run(&alone, &dispatch(32), [0, 0, 0]);
    result.unwrap();
    assert_eq!(ram.get_u32(DATA, 1)[0] & 1, 0, "valid barrier");
}

#[test]
fn released_vgprs_are_gone() {
    let code = |rest: &str| format!("s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)\n {rest}\n s_endpgm");
    run(&code("s_mov_b32 s2, 1"), &dispatch(32), [0, 0, 0])
        .1
        .unwrap();
    let (_, result) = run(&code("v_mov_b32 v0, 1"), &dispatch(32), [0, 0, 0]);
    assert!(matches!(result, Err(Stop::Violation { text, .. }) if text.contains("DEALLOC")));
}

/// Not supported: typed accesses, block loads and stores, transposing loads, ordered counts,
/// address probes.
fn left_out(name: &str) -> bool {
    ["_format", "_block", "_load_tr_", "_ordered_", "s_atc_probe"]
        .iter()
        .any(|part| name.contains(part))
}

#[test]
fn memory_opcodes_agree_with_llvm() {
    const NULL: u32 = 0x7c;
    // Several forms of each opcode: LLVM requires unused fields to be zero.
    let mut all: Vec<(String, Vec<u32>)> = Vec::new();
    for op in 0..64 {
        all.push((
            format!("SMEM {op:#x}"),
            vec![0x3d << 26 | op << 13 | 4 | 8 << 6, 0],
        ));
    }
    for op in 0..256 {
        for (segment, name) in [(0, "VFLAT"), (1, "VSCRATCH"), (2, "VGLOBAL")] {
            let word = 0x3b << 26 | segment << 24 | op << 14;
            for (saddr, addr) in [(NULL, 2), (6, 0)] {
                all.push((
                    format!("{name} {op:#x}"),
                    vec![word | saddr, 4 | 20 << 23, addr],
                ));
            }
        }
        all.push((
            format!("VBUFFER {op:#x}"),
            vec![0x31 << 26 | op << 14 | NULL, 4 | 8 << 9, 2],
        ));
        for fields in [0x2, 0x402, 0x0c00_0402, 0] {
            all.push((format!("VDS {op:#x}"), vec![0x36 << 26 | op << 18, fields]));
        }
    }
    let words: Vec<&[u32]> = all.iter().map(|(_, words)| &words[..]).collect();
    let names = llvm::disassemble_each_for(Target::Wave32, &words);
    let mut wrong = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    let mut ours = std::collections::BTreeSet::new();
    for ((what, words), name) in all.iter().zip(names) {
        let mut three = [0; 3];
        three[..words.len()].copy_from_slice(words);
        let found = probe::gfx1201(three, true);
        if let Probe::Instruction { bytes, .. } = &found {
            assert_eq!(*bytes, 4 * words.len(), "{what}");
            ours.insert(what.clone());
        }
        let Some(name) = name else { continue };
        known.insert(what.clone());
        if let (Probe::Illegal(text), false) = (&found, left_out(&name)) {
            wrong.push(format!("{what} {name}: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(known.len() > 300, "only {} opcodes", known.len());
    let more: Vec<_> = ours.difference(&known).collect();
    // `ds_bpermute_fi_b32`, which LLVM 19 lacks.
    assert_eq!(more, ["VDS 0xcd"], "unknown to LLVM");
}
