// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Encodings of gfx942: for each opcode words with operands of several shapes, of which LLVM
//! accepts at least one if the opcode exists.

use super::{class, Class, NOP};

/// DPP word: v6, quad_perm:[0,1,2,3].
const QUAD_PERM: u32 = 6 | 0xe4 << 8 | 0xff << 24;
/// DPP word: v6, row_newbcast:0, the only control of 64-bit operands.
const NEW_BROADCAST: u32 = 6 | 0x150 << 8 | 0xff << 24;
/// SDWA word: v6, whole dwords. VOP1 has no selection of source 1.
const SDWA_ONE: u32 = 6 | 6 << 8 | 6 << 16;
const SDWA: u32 = SDWA_ONE | 6 << 24;
/// The same for comparisons, with destination VCC.
const SDWA_COMPARE: u32 = 6 | 6 << 16 | 6 << 24;

fn vop1(op: u32, src0: u32) -> u32 {
    0x7e00_0000 | 2 << 17 | op << 9 | src0
}

fn vop2(op: u32, src0: u32) -> u32 {
    op << 25 | 2 << 17 | 4 << 9 | src0
}

fn vopc(op: u32, src0: u32) -> u32 {
    0x7c00_0000 | op << 17 | 2 << 9 | src0
}

fn flat(word: u32, op: u32) -> Vec<[u32; 3]> {
    let word = word | op << 18;
    let off = 2 | 0x7f << 16;
    let all = off | 4 << 8 | 6 << 24;
    vec![
        [word, all, NOP],
        [word, off | 4 << 8, NOP],
        [word, off | 6 << 24, NOP],
        // With sc0: atomics return the old value.
        [word | 1 << 16, all, NOP],
        // SCRATCH with a vector address.
        [word | 1 << 13, all, NOP],
        [word, 0, NOP],
    ]
}

/// Returns the encodings. The number behind the name is that of the opcodes, the last that of those
/// known to LLVM.
pub(super) fn classes() -> Vec<Class> {
    vec![
        class("SOP2", 0x60, 53, |op| {
            vec![[0x8000_0000 | op << 23 | 4 << 16 | 2 << 8 | 6, NOP, NOP]]
        }),
        class("SOPK", 0x1c, 21, |op| {
            vec![[0xb000_0000 | op << 23 | 4 << 16 | 1, 1, NOP]]
        }),
        class("SOP1", 0x100, 54, |op| {
            vec![[0xbe80_0000 | 4 << 16 | op << 8 | 2, NOP, NOP]]
        }),
        class("SOPC", 0x7d, 20, |op| {
            vec![[0xbf00_0000 | op << 16 | 2 << 8 | 4, NOP, NOP]]
        }),
        class("SOPP", 0x80, 31, |op| {
            vec![
                [0xbf80_0000 | op << 16 | 1, NOP, NOP],
                [0xbf80_0000 | op << 16, NOP, NOP],
            ]
        }),
        class("SMEM", 0x100, 84, |op| {
            let word = 0xc000_0000 | op << 18;
            vec![
                [word | 1 << 17 | 4 << 6 | 2, 16, NOP],
                [word, 0, NOP],
                // With glc: atomics return the old value.
                [word | 1 << 17 | 1 << 16 | 4 << 6 | 2, 16, NOP],
            ]
        }),
        class("VOP2", 62, 61, |op| vec![[vop2(op, 0x106), 0x1234, NOP]]),
        class("VOP1", 0x100, 84, |op| {
            vec![
                [vop1(op, 0x104), NOP, NOP],
                [0x7e00_0000 | op << 9, NOP, NOP],
            ]
        }),
        class("VOPC", 0x100, 198, |op| vec![[vopc(op, 0x104), NOP, NOP]]),
        class("VOP2 DPP", 62, 56, |op| {
            [QUAD_PERM, NEW_BROADCAST]
                .map(|dpp| [vop2(op, 250), dpp, NOP])
                .to_vec()
        }),
        class("VOP1 DPP", 0x100, 79, |op| {
            [QUAD_PERM, NEW_BROADCAST]
                .map(|dpp| [vop1(op, 250), dpp, NOP])
                .to_vec()
        }),
        class("VOPC DPP", 0x100, 0, |op| {
            vec![[vopc(op, 250), QUAD_PERM, NOP]]
        }),
        class("VOP2 SDWA", 62, 49, |op| vec![[vop2(op, 249), SDWA, NOP]]),
        class("VOP1 SDWA", 0x100, 62, |op| {
            vec![[vop1(op, 249), SDWA_ONE, NOP]]
        }),
        class("VOPC SDWA", 0x100, 132, |op| {
            vec![[vopc(op, 249), SDWA_COMPARE, NOP]]
        }),
        class("VOP3", 0x380, 442, |op| {
            let word = 0xd000_0000 | op << 16 | 2;
            let (a, b, c) = (0x102, 0x104 << 9, 0x106 << 18);
            vec![
                [word, a | b | c, NOP],
                [word, a | b, NOP],
                [word, a, NOP],
                [word, a | 4 << 9, NOP],
                [word & !2, 0, NOP],
                // With a carry or scale flag in vcc.
                [word | 106 << 8, a | b | c, NOP],
                [word | 106 << 8, a | b, NOP],
            ]
        }),
        class("VOP3P", 0x80, 81, |op| {
            let word = 0xd380_0000 | op << 16 | 2 | 4 << 12;
            let (a, b, c) = (0x1800_0102, 0x104 << 9, 0x106 << 18);
            vec![
                [word, a | b | c, NOP],
                [word & !(4 << 12), a | b, NOP],
                [word, a, NOP],
            ]
        }),
        class("DS", 0x100, 128, |op| {
            let seconds = [
                2 | 4 << 8 | 6 << 16 | 8 << 24,
                2 | 4 << 8,
                2 | 4 << 8 | 6 << 16,
                2 | 8 << 24,
                2 | 4 << 8 | 8 << 24,
                8 << 24,
                4 << 8,
                2,
                0,
            ];
            // With an offset and without one. Only GWS has the GDS bit: there is no GDS.
            let gds = u32::from((0x98..=0x9d).contains(&op)) << 16;
            let words = [16, 0].map(|low| 0xd800_0000 | op << 17 | gds | low);
            let pair = |word| seconds.map(|second| [word, second, NOP]);
            words.into_iter().flat_map(pair).collect()
        }),
        class("FLAT", 0x80, 54, |op| flat(0xdc00_0000, op)),
        class("GLOBAL", 0x80, 59, |op| flat(0xdc00_8000, op)),
        class("SCRATCH", 0x80, 27, |op| flat(0xdc00_4000, op)),
        class("FLAT segment 3", 0x80, 0, |op| flat(0xdc00_c000, op)),
        class("MUBUF", 0x80, 76, |op| {
            let word = 0xe000_0000 | op << 18;
            let second = 2 | 4 << 8 | 1 << 16 | 5 << 24;
            vec![
                [word | 1 << 13 | 16, second, NOP],
                [word, 0, NOP],
                // With sc0; loads to LDS.
                [word | 1 << 14, second, NOP],
                [word | 1 << 16, second, NOP],
            ]
        }),
        class("MTBUF", 0x10, 16, |op| {
            let word = 0xe800_0000 | op << 15 | 4 << 19 | 7 << 23;
            vec![
                [word | 1 << 13 | 16, 2 | 4 << 8 | 1 << 16 | 5 << 24, NOP],
                [word, 4 << 8 | 1 << 16 | 5 << 24, NOP],
            ]
        }),
    ]
}
