// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Inline constants of operands that are not plain numbers: packed, mixed and matrix operands.

use super::small::wide;
use crate::common::bench::{case, check, check_12, check_on, d, f, q, w, Case, Fill};
use crate::common::llvm::Target;

const HALVES: [Fill; 2] = [Fill::Halves; 2];

fn bf16(bits: u32) -> f32 {
    f32::from_bits(bits << 16)
}

fn f16(bits: u32) -> f32 {
    wide(bits) as f32
}

/// A dword of a packed operand is an f32, also of a move.
#[test]
fn packed_dwords() {
    let both = |v: u32| u64::from(v) | u64::from(v) << 32;
    check(
        &[Fill::Floats; 2],
        &[
            q(
                "v_pk_mov_b32 v[10:11], 1.0, 1.0 op_sel_hi:[0,0]",
                move |_| both(0x3f80_0000),
            ),
            q("v_pk_mov_b32 v[10:11], -2.0, v[2:3]", |l| {
                0xc000_0000 | u64::from(l.u(2)) << 32
            }),
            q("v_pk_mov_b32 v[10:11], -1, 7 op_sel_hi:[0,0]", |_| {
                0xffff_ffff | 7 << 32
            }),
            q("v_mov_b64 v[10:11], 1.0", |_| 1f64.to_bits()),
        ],
    );
}

/// `op_sel_hi` makes the constant an f16, in the low half.
#[test]
fn mixed_operands() {
    check(
        &HALVES,
        &[
            f("v_fma_mix_f32 v10, v1, 2.0, v3 op_sel_hi:[1,1,1]", |l| {
                f16(l.lo(1)).mul_add(2.0, f16(l.lo(3)))
            }),
            f("v_fma_mix_f32 v10, v1, 2.0, v3 op_sel_hi:[1,0,1]", |l| {
                f16(l.lo(1)).mul_add(2.0, f16(l.lo(3)))
            }),
            f("v_fma_mix_f32 v10, v1, -v3, -4.0 op_sel_hi:[1,1,1]", |l| {
                f16(l.lo(1)).mul_add(-f16(l.lo(3)), -4.0)
            }),
            f(
                "v_fma_mix_f32 v10, v1, 2.0, v3 op_sel:[0,1,0] op_sel_hi:[1,1,1]",
                |l| f16(l.lo(1)).mul_add(0.0, f16(l.lo(3))),
            ),
            // The integer 0x3c is an f16 denormal.
            f("v_fma_mix_f32 v10, v1, 60, v3 op_sel_hi:[1,1,1]", |l| {
                f16(l.lo(1)).mul_add(f16(60), f16(l.lo(3)))
            }),
        ],
    );
}

/// Sources of `v_dot2_f16_f16` and `v_dot2_bf16_bf16` hold a constant in both halves, those of
/// other dot products in the low one.
#[test]
fn dot_products() {
    let low = |want: u32, got: u32| (want ^ got) & 0xffff == 0;
    let bf = move |asm: &'static str, x: fn(u32) -> f32| -> Case {
        case(asm, move |before, after| {
            for n in 0..after.lanes {
                let want = x(before.lane(n).u(1)).to_bits() >> 16;
                let got = after.v[10][n];
                let nan = |v: u32| bf16(v & 0xffff).is_nan();
                if !(low(want, got) || nan(want) && nan(got)) {
                    return Err(format!("lane {n}: got {got:x}, expected {want:x}"));
                }
            }
            Ok(())
        })
    };
    // Sums of two and one operand are exact for these.
    let small = |text: &str| -> &'static str {
        format!("v_and_b32 v1, 0x3fc03fc0, v1\n v_or_b32 v1, 0x3f803f80, v1\n {text}").leak()
    };
    check_12(
        &[Fill::Bits; 2],
        &[
            bf(small("v_dot2_bf16_bf16 v10, v1, 2.0, 0"), |v| {
                2.0 * (bf16(v & 0x3fc0 | 0x3f80) + bf16(v >> 16 & 0x3fc0 | 0x3f80))
            }),
            bf(small("v_dot2_bf16_bf16 v10, v1, 0, 1.0"), |_| 1.0),
            f(small("v_dot2_f32_bf16 v10, v1, 2.0, 1.0"), |l| {
                2.0 * bf16(l.u(1) & 0x3fc0 | 0x3f80) + 1.0
            }),
            f(
                small("v_dot2_f32_bf16 v10, v1, 2.0, 1.0 op_sel_hi:[1,0,1]"),
                |l| {
                    let v = l.u(1);
                    2.0 * (bf16(v & 0x3fc0 | 0x3f80) + bf16(v >> 16 & 0x3fc0 | 0x3f80)) + 1.0
                },
            ),
        ],
    );
    let small = |text: &str| -> &'static str {
        format!("v_and_b32 v1, 0x3f003f00, v1\n v_or_b32 v1, 0x3c003c00, v1\n {text}").leak()
    };
    let part = |v: u32| wide(v & 0x3f00 | 0x3c00);
    check_12(
        &[Fill::Bits; 2],
        &[
            w(small("v_dot2_f16_f16 v10, v1, 2.0, 0"), move |l| {
                let sum = 2.0 * (part(l.u(1)) + part(l.u(1) >> 16));
                super::small::half(sum) | l.rest()
            }),
            w(small("v_dot2_f16_f16 v10, v1, 0, 1.0"), |l| {
                0x3c00 | l.rest()
            }),
            f(small("v_dot2_f32_f16 v10, v1, 2.0, 0"), move |l| {
                2.0 * part(l.u(1)) as f32
            }),
        ],
    );
}

/// gfx1201 has the constant of `v_pk_fmac_f16` in both halves, gfx942 in the low one.
#[test]
fn packed_accumulation() {
    let cases = |high: u32| {
        [w(
            "v_mov_b32 v10, 0\n v_mov_b32 v1, 0x3c003c00\n v_pk_fmac_f16 v10, 2.0, v1",
            move |_| 0x4000 | high,
        )]
    };
    check_on(Target::Gfx942, &HALVES, &cases(0));
    check_12(&HALVES, &cases(0x4000_0000));
}

/// C of a matrix instruction has the type of D.
#[test]
fn matrix_addends() {
    let zero = "v_mov_b32 v2, 0\n v_mov_b32 v3, 0\n v_mov_b32 v4, 0\n v_mov_b32 v5, 0\n";
    let wmma = |text: &str| -> &'static str { format!("{zero} {text}").leak() };
    check_on(
        Target::Wave32,
        &HALVES,
        &[
            w(
                wmma("v_wmma_f16_16x16x16_f16 v[10:13], v[2:5], v[2:5], 1.0"),
                |_| 0x3c00_3c00,
            ),
            w(
                wmma("v_wmma_bf16_16x16x16_bf16 v[10:13], v[2:5], v[2:5], 1.0"),
                |_| 0x3f80_3f80,
            ),
            w(
                wmma("v_wmma_f16_16x16x16_f16 v[10:13], v[2:5], v[2:5], 7"),
                |_| 0x7_0007,
            ),
            f(
                wmma("v_wmma_f32_16x16x16_f16 v[6:13], v[2:5], v[2:5], 1.0"),
                |_| 1.0,
            ),
        ],
    );
    check(
        &HALVES,
        &[
            d(
                wmma("v_mfma_f64_4x4x4f64 v[10:11], v[2:3], v[2:3], -4.0"),
                |_| -4.0,
            ),
            d(
                wmma("v_mfma_f64_4x4x4f64 v[10:11], v[2:3], v[2:3], 7"),
                |_| f64::from_bits(7),
            ),
        ],
    );
}
