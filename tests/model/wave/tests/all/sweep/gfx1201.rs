// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Encodings of gfx1201: for each opcode words with operands of several shapes, of which LLVM
//! accepts at least one if the opcode exists.

use super::{class, Class, NOP};

/// Operand codes of source 0, and the words that follow.
const DPP16: (u32, u32) = (250, 6 | 0xe4 << 8 | 0xff << 24);
const DPP8: (u32, u32) = (233, 6 | 0x0005_3977 << 8);
const DPP8_FI: (u32, u32) = (234, 6 | 0x0005_3977 << 8);
/// Source 0 is v6; no word follows.
const PLAIN: (u32, u32) = (0x106, NOP);
/// Scalar address or offset: none.
const NULL: u32 = 124;

fn vop1(op: u32, (src0, last): (u32, u32)) -> Vec<[u32; 3]> {
    vec![[0x7e00_0000 | 2 << 17 | op << 9 | src0, last, NOP]]
}

fn vop2(op: u32, (src0, last): (u32, u32)) -> Vec<[u32; 3]> {
    vec![[op << 25 | 2 << 17 | 4 << 9 | src0, last, NOP]]
}

fn vopc(op: u32, (src0, last): (u32, u32)) -> Vec<[u32; 3]> {
    vec![[0x7c00_0000 | op << 17 | 2 << 9 | src0, last, NOP]]
}

fn vop3(op: u32, (a, last): (u32, u32)) -> Vec<[u32; 3]> {
    let word = 0xd400_0000 | op << 16 | 2;
    let (b, c) = (0x104 << 9, 0x106 << 18);
    let mut all = vec![
        [word, a | b | c, last],
        [word, a | b, last],
        [word, a, last],
        // v_cmpx writes EXEC.
        [word & !2 | 0x7e, a | b, last],
        // With a carry or scale flag in vcc, a carry in s6.
        [word | 106 << 8, a | b | c, last],
        [word | 106 << 8, a | b | 6 << 18, last],
        [word | 106 << 8, a | b, last],
        [word, a | b | 6 << 18, last],
    ];
    if last == NOP {
        all.extend([
            [word, a | 4 << 9, NOP],
            [word, a | 4 << 9 | 6 << 18, NOP],
            [word, 4, NOP],
            [word & !2, 0, NOP],
        ]);
    }
    all
}

fn vop3p(op: u32, (a, last): (u32, u32)) -> Vec<[u32; 3]> {
    let word = 0xcc00_0000 | op << 16 | 2 | 1 << 14;
    let (a, b, c) = (0x1800_0000 | a, 0x104 << 9, 0x106 << 18);
    vec![
        [word, a | b | c, last],
        [word & !(1 << 14), a | b, last],
        [word, a, last],
    ]
}

fn flat(top: u32, op: u32) -> Vec<[u32; 3]> {
    let word = top << 24 | op << 14;
    let data = 4 << 23;
    vec![
        [word | NULL, 8 | data, 2],
        [word | NULL, data, 2],
        [word | NULL, 8, 2],
        [word | NULL, 0, 0],
        // Atomics return the old value.
        [word | NULL, 1 << 20 | 8 | data, 2],
        // With a scalar address.
        [word | 4, 8 | data, 2],
        [word | 4, 8, 0],
        [word | 4, data, 0],
        // SCRATCH with a vector address.
        [word | NULL, 1 << 17 | 8, 2],
        [word | NULL, 1 << 17 | data, 2],
    ]
}

/// Returns the encodings. The number behind the name is that of the opcodes, the last that of those
/// known to LLVM in wave32.
pub(super) fn classes() -> Vec<Class> {
    vec![
        class("SOP2", 0x60, 74, |op| {
            vec![[0x8000_0000 | op << 23 | 4 << 16 | 8 << 8 | 6, NOP, NOP]]
        }),
        class("SOPK", 0x1c, 9, |op| {
            vec![[0xb000_0000 | op << 23 | 4 << 16 | 1, NOP, NOP]]
        }),
        class("SOP1", 0x100, 87, |op| {
            let word = 0xbe80_0000 | op << 8;
            vec![
                [word | 4 << 16 | 2, NOP, NOP],
                [word | 2, NOP, NOP],
                [word | 4 << 16 | 128, NOP, NOP],
                [word | 0xc1, NOP, NOP],
            ]
        }),
        class("SOPC", 0x7d, 46, |op| {
            vec![[0xbf00_0000 | op << 16 | 8 << 8 | 4, NOP, NOP]]
        }),
        class("SOPP", 0x80, 44, |op| {
            vec![
                [0xbf80_0000 | op << 16 | 1, NOP, NOP],
                [0xbf80_0000 | op << 16, NOP, NOP],
            ]
        }),
        class("SMEM", 0x40, 28, |op| {
            let word = 0xf400_0000 | op << 13;
            vec![
                [word | 4 << 6 | 2, NULL << 25 | 16, NOP],
                [word | 2, NULL << 25 | 16, NOP],
                [word, NULL << 25, NOP],
                [word, 0, NOP],
                [word | 4 << 6 | 2, 4 << 25 | 16, NOP],
            ]
        }),
        class("VOP2", 62, 49, |op| vop2(op, PLAIN)),
        class("VOP2 DPP16", 62, 40, |op| vop2(op, DPP16)),
        class("VOP2 DPP8", 62, 40, |op| vop2(op, DPP8)),
        class("VOP2 DPP8 FI", 62, 40, |op| vop2(op, DPP8_FI)),
        class("VOP1", 0x100, 89, |op| {
            let mut all = vop1(op, PLAIN);
            all.push([0x7e00_0000 | op << 9, NOP, NOP]);
            all
        }),
        class("VOP1 DPP16", 0x100, 65, |op| vop1(op, DPP16)),
        class("VOP1 DPP8", 0x100, 65, |op| vop1(op, DPP8)),
        class("VOP1 DPP8 FI", 0x100, 65, |op| vop1(op, DPP8_FI)),
        class("VOPC", 0x100, 162, |op| vopc(op, PLAIN)),
        class("VOPC DPP16", 0x100, 108, |op| vopc(op, DPP16)),
        class("VOPC DPP8", 0x100, 108, |op| vopc(op, DPP8)),
        class("VOPC DPP8 FI", 0x100, 108, |op| vopc(op, DPP8_FI)),
        class("VOP3", 0x400, 442, |op| vop3(op, PLAIN)),
        class("VOP3 DPP16", 0x400, 325, |op| vop3(op, DPP16)),
        class("VOP3 DPP8", 0x400, 325, |op| vop3(op, DPP8)),
        class("VOP3P", 0x80, 56, |op| vop3p(op, PLAIN)),
        class("VOP3P DPP16", 0x80, 8, |op| vop3p(op, DPP16)),
        class("VOP3P DPP8", 0x80, 8, |op| vop3p(op, DPP8)),
        // The opcodes of X and Y.
        class("VOPD", 0x200, 180, |op| {
            let (x, y) = (op & 15, op >> 4);
            let word = 0xc800_0000 | x << 22 | y << 17 | 0x104;
            let second = 6 << 24 | 4 << 17 | 0x107;
            vec![
                [word | 5 << 9, second | 8 << 9, 0x1234],
                [word, second | 8 << 9, 0x1234],
                [word | 5 << 9, second, 0x1234],
                [word, second, 0x1234],
                [word | 5 << 9, second | 8 << 9, NOP],
                [word, second | 8 << 9, NOP],
                [word | 5 << 9, second, NOP],
                [word, second, NOP],
            ]
        }),
        class("VDS", 0x100, 119, |op| {
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
            // With an offset and without one.
            let words = [16, 0].map(|low| 0xd800_0000 | op << 18 | low);
            let pair = |word| seconds.map(|second| [word, second, NOP]);
            words.into_iter().flat_map(pair).collect()
        }),
        class("VFLAT", 0x100, 55, |op| flat(0xec, op)),
        class("VSCRATCH", 0x100, 24, |op| flat(0xed, op)),
        class("VGLOBAL", 0x100, 65, |op| flat(0xee, op)),
        class("VBUFFER", 0x100, 89, |op| {
            let word = 0xc400_0000 | op << 14;
            let second = 4 | 8 << 9 | 22 << 23;
            vec![
                [word | NULL, second | 1 << 31, 2],
                [word | NULL, second, 2],
                [word | 4, second | 3 << 30, 2 | 16 << 8],
                // Atomics return the old value.
                [word | NULL, second | 1 << 20 | 1 << 30, 2],
            ]
        }),
        class("VINTERP", 0x80, 24, |op| {
            let sources = 0x102 | 0x104 << 9 | 0x106 << 18;
            vec![[0xcd00_0000 | op << 16 | 2, sources, NOP]]
        }),
        class("VDSDIR", 4, 2, |op| {
            vec![[0xce00_0000 | op << 20 | 1 << 16 | 2, NOP, NOP]]
        }),
        class("VIMAGE", 0x100, 29, |op| {
            let word = 0xd000_0000 | op << 14;
            let image = |dim| [word | dim | 15 << 22, 8 << 9 | 4, 0x0504_0302];
            let mut all: Vec<_> = (0..8).map(image).collect();
            all.push([word | 1 << 22, 8 << 9 | 4, 0x0504_0302]);
            all
        }),
        class("VSAMPLE", 0x100, 51, |op| {
            let word = 0xe400_0000 | op << 14;
            [1 << 22, 1 | 15 << 22, 1 | 1 << 22, 2 | 15 << 22]
                .map(|low| [word | low, 12 << 23 | 8 << 9 | 4, 0x0504_0302])
                .to_vec()
        }),
        class("VEXPORT", 1, 1, |_| vec![[0xf800_000f, 0x0504_0302, NOP]]),
    ]
}
