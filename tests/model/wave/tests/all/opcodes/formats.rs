// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Buffer accesses with conversion (`buffer_*_format_*`, `tbuffer_*`) on both chips. The assembler
//! maps format names to numbers; the expectations follow from the names. s[12:13] is the address of
//! memory for the case; each lane has 16 bytes.

use crate::common::bench::{case, check, check_12, state, Bench, Case, Fill, State};
use crate::common::llvm::Target;
use gpu_wave::Stop;

const FILLS: [Fill; 3] = [Fill::Bits, Fill::Floats, Fill::Halves];
const BOTH: [bool; 2] = [false, true];

/// Data formats, with the numeric formats that both chips have; then those of gfx942 only.
const FORMATS: [(&str, &str, &str); 14] = [
    ("8", "UNORM SNORM USCALED SSCALED UINT SINT", ""),
    ("16", "UNORM SNORM USCALED SSCALED UINT SINT FLOAT", ""),
    ("8_8", "UNORM SNORM USCALED SSCALED UINT SINT", ""),
    ("32", "UINT SINT FLOAT", ""),
    ("16_16", "UNORM SNORM USCALED SSCALED UINT SINT FLOAT", ""),
    ("10_11_11", "FLOAT", "UNORM SNORM USCALED SSCALED UINT SINT"),
    ("11_11_10", "FLOAT", "UNORM SNORM USCALED SSCALED UINT SINT"),
    ("10_10_10_2", "UNORM SNORM UINT SINT", "USCALED SSCALED"),
    ("2_10_10_10", "UNORM SNORM USCALED SSCALED UINT SINT", ""),
    ("8_8_8_8", "UNORM SNORM USCALED SSCALED UINT SINT", ""),
    ("32_32", "UINT SINT FLOAT", ""),
    (
        "16_16_16_16",
        "UNORM SNORM USCALED SSCALED UINT SINT FLOAT",
        "",
    ),
    ("32_32_32", "UINT SINT FLOAT", ""),
    ("32_32_32_32", "UINT SINT FLOAT", ""),
];

/// Format, by its name.
#[derive(Clone)]
struct Named {
    /// Widths of x, y, z, w: the last in the name is x.
    widths: Vec<u32>,
    number: &'static str,
    /// Operand of the assembler.
    operand: String,
}

impl Named {
    fn bytes(&self) -> usize {
        self.widths.iter().sum::<u32>() as usize / 8
    }
}

fn formats(gfx12: bool) -> Vec<Named> {
    let mut all = Vec::new();
    for (data, numbers, more) in FORMATS {
        let widths: Vec<u32> = data.split('_').rev().map(|w| w.parse().unwrap()).collect();
        let more = if gfx12 { "" } else { more };
        for number in numbers.split_whitespace().chain(more.split_whitespace()) {
            let operand = if gfx12 {
                format!("format:[BUF_FMT_{data}_{number}]")
            } else {
                format!("format:[BUF_DATA_FORMAT_{data},BUF_NUM_FORMAT_{number}]")
            };
            all.push(Named {
                widths: widths.clone(),
                number,
                operand,
            });
        }
    }
    all
}

/// v12: offset of the lane's 16 bytes. s[20:23]: a raw buffer of `records` bytes; `word3` are bits
/// of its last word.
fn buffer(gfx12: bool, records: u32, word3: u32, text: &str) -> &'static str {
    let raw = if gfx12 { 3 << 28 } else { 0 };
    let done = if gfx12 {
        "s_wait_loadcnt_dscnt 0\n s_wait_storecnt 0"
    } else {
        "s_waitcnt vmcnt(0) lgkmcnt(0)"
    };
    format!(
        "v_mbcnt_lo_u32_b32 v12, -1, 0\n v_mbcnt_hi_u32_b32 v12, -1, v12\n \
         v_lshlrev_b32 v12, 4, v12\n s_mov_b32 s20, s12\n s_mov_b32 s21, s13\n \
         s_movk_i32 s22, {records:#x}\n s_mov_b32 s23, {:#x}\n {text}\n {done}",
        word3 | raw
    )
    .leak()
}

/// The scalar offset operand for none.
fn none(gfx12: bool) -> &'static str {
    if gfx12 {
        "null"
    } else {
        "0"
    }
}

/// Bits of the word 3 of a resource: identity of the components, 32_32_32_32 with this number.
const IDENTITY: u32 = 4 | 5 << 3 | 6 << 6 | 7 << 9;

fn resource(gfx12: bool, number: &str) -> u32 {
    match (gfx12, number) {
        (true, "UINT") => 61 << 12,
        (true, _) => 63 << 12,
        (false, "UINT") => 14 << 15 | 4 << 12,
        (false, _) => 14 << 15 | 7 << 12,
    }
}

fn run(gfx12: bool, cases: &[Case]) {
    if gfx12 {
        check_12(&FILLS, cases);
    } else {
        check(&FILLS, cases);
    }
}

/// Returns the components of the element of a lane, as in memory.
fn raw(format: &Named, st: &State, lane: usize) -> Vec<u32> {
    let bytes = &st.space[16 * lane..16 * lane + format.bytes()];
    let mut bits: Vec<bool> = Vec::new();
    for byte in bytes {
        bits.extend((0..8).map(|n| byte >> n & 1 != 0));
    }
    let mut parts = Vec::new();
    for &width in &format.widths {
        let rest = bits.split_off(width as usize);
        parts.push(bits.iter().rev().fold(0, |v, &b| v << 1 | u32::from(b)));
        bits = rest;
    }
    parts
}

/// Returns the value of a small float without sign: 5 bits of exponent, the rest mantissa.
fn small(bits: u32, width: u32) -> f64 {
    let mantissa_bits = width as i32 - 5;
    let (exponent, mantissa) = (
        (bits >> mantissa_bits) as i32,
        bits & ((1 << mantissa_bits) - 1),
    );
    let fraction = f64::from(mantissa) / 2f64.powi(mantissa_bits);
    match exponent {
        0 => fraction * 2f64.powi(-14),
        31 if mantissa == 0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
    }
}

/// Returns the largest finite small float that is not above `x`.
fn below(x: f64, width: u32) -> u32 {
    let (mut low, mut high) = (0, 31 << (width - 5));
    while high - low > 1 {
        let middle = (low + high) / 2;
        match small(middle, width) <= x {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

fn signed(bits: u32, width: u32) -> i64 {
    let half = 1i64 << (width - 1);
    (i64::from(bits) ^ half) - half
}

/// Returns a component in memory as a number.
fn number(format: &Named, bits: u32, width: u32) -> f64 {
    let steps = |bits: u32| 2f64.powi(bits as i32) - 1.0;
    match format.number {
        "UNORM" => f64::from(bits) / steps(width),
        "SNORM" => (signed(bits, width) as f64 / steps(width - 1)).max(-1.0),
        "USCALED" => f64::from(bits),
        "SSCALED" => signed(bits, width) as f64,
        _ if width == 16 && bits & 0x8000 != 0 => -small(bits & 0x7fff, 15),
        _ if width == 16 => small(bits, 15),
        _ => small(bits, width),
    }
}

/// Returns the register for a component in memory.
fn loaded(format: &Named, bits: u32, width: u32) -> u32 {
    match format.number {
        "UINT" => bits,
        "SINT" => signed(bits, width) as u32,
        "FLOAT" if width == 32 => bits,
        "FLOAT" if number(format, bits, width).is_nan() => {
            // The payload moves to the top of the field.
            let sign = if width == 16 { bits >> 15 } else { 0 };
            let mantissa_bits = if width == 16 { 10 } else { width - 5 };
            let payload = bits & ((1 << mantissa_bits) - 1);
            sign << 31 | 0x7f80_0000 | payload << (23 - mantissa_bits)
        }
        _ => (number(format, bits, width) as f32).to_bits(),
    }
}

/// Compares v[2:5] after a load of the own element.
fn expect_loaded(after: &State, lane: usize, want: [u32; 4]) -> Result<(), String> {
    let got = [2, 3, 4, 5].map(|n| after.v[n][lane]);
    match got == want {
        true => Ok(()),
        false => Err(format!("lane {lane}: {got:x?}, expected {want:x?}")),
    }
}

#[test]
fn typed_loads_of_every_format() {
    for gfx12 in BOTH {
        let load = |format: Named| {
            let text = format!(
                "tbuffer_load_format_xyzw v[2:5], v12, s[20:23], {} {} offen",
                none(gfx12),
                format.operand
            );
            // Half of the lanes are out of bounds.
            case(
                buffer(gfx12, 16 * 20, IDENTITY, &text),
                move |before, after| {
                    (0..after.lanes).try_for_each(|lane| {
                        let mut want = [0; 4];
                        let parts = raw(&format, before, lane);
                        for (n, (bits, &width)) in parts.iter().zip(&format.widths).enumerate() {
                            if lane < 20 {
                                want[n] = loaded(&format, *bits, width);
                            }
                        }
                        expect_loaded(after, lane, want)
                    })
                },
            )
        };
        let cases: Vec<_> = formats(gfx12).into_iter().map(load).collect();
        assert_eq!(cases.len(), if gfx12 { 63 } else { 77 });
        run(gfx12, &cases);
    }
}

/// Returns the component in memory for a stored register, of a format other than 32 bits wide.
fn stored(format: &Named, value: u32, width: u32) -> u32 {
    let x = f64::from(f32::from_bits(value));
    let mask = (1u64 << width) - 1;
    let top = (1i64 << (width - 1)) - 1;
    let scaled = |x: f64, lowest: i64, most: i64| {
        let x = if x.is_nan() { 0.0 } else { x };
        (x.max(lowest as f64).min(most as f64) as i64) as u32 & mask as u32
    };
    match format.number {
        "UINT" => value.min(mask as u32),
        "SINT" => i64::from(value as i32).clamp(-top - 1, top) as u32 & mask as u32,
        "UNORM" => scaled(
            (x.clamp(0.0, 1.0) * mask as f64 + 0.5).floor(),
            0,
            mask as i64,
        ),
        "SNORM" => scaled(
            (x.clamp(-1.0, 1.0) * top as f64).round_ties_even(),
            -top,
            top,
        ),
        "USCALED" => scaled(x.trunc(), 0, mask as i64),
        "SSCALED" => scaled(x.trunc(), -top - 1, top),
        _ => {
            // The float next to zero from the value on.
            let (sign, width) = match width {
                16 => (u32::from(x.is_sign_negative()) << 15, 15),
                _ => (0, width),
            };
            let inverse = (x.is_sign_negative() && width != 15) || x == 0.0;
            let infinity = 31 << (width - 5);
            match x.is_infinite() {
                _ if inverse => sign,
                true => sign | infinity,
                false => sign | below(x.abs(), width),
            }
        }
    }
}

#[test]
fn typed_stores_of_every_format() {
    for gfx12 in BOTH {
        let store = |format: Named| {
            let text = format!(
                "tbuffer_store_format_xyzw v[2:5], v12, s[20:23], {} {} offen",
                none(gfx12),
                format.operand
            );
            case(
                buffer(gfx12, 16 * 20, IDENTITY, &text),
                move |before, after| {
                    for lane in 0..after.lanes {
                        let parts = raw(&format, after, lane);
                        let old = raw(&format, before, lane);
                        for (n, &width) in format.widths.iter().enumerate() {
                            let value = before.v[2 + n][lane];
                            let nan = f32::from_bits(value).is_nan() && format.number == "FLOAT";
                            let want = match width {
                                _ if lane >= 20 => old[n],
                                32 => value,
                                _ if nan => {
                                    let is_nan = number(&format, parts[n], width).is_nan();
                                    if is_nan {
                                        parts[n]
                                    } else {
                                        !0
                                    }
                                }
                                _ => stored(&format, value, width),
                            };
                            if parts[n] != want {
                                let got = parts[n];
                                return Err(format!(
                                    "lane {lane} {n}: {value:x} stored as {got:x}, not {want:x}"
                                ));
                            }
                        }
                        // Nothing else is written.
                        let rest = 16 * lane + format.bytes()..16 * lane + 16;
                        if before.space[rest.clone()] != after.space[rest] {
                            return Err(format!("lane {lane}: more bytes written"));
                        }
                    }
                    Ok(())
                },
            )
        };
        run(
            gfx12,
            &formats(gfx12).into_iter().map(store).collect::<Vec<_>>(),
        );
    }
}

/// Returns the f16 with the value nearest to `x`, of two the even one; or, `truncate`, the next to
/// zero.
fn half(x: f64, truncate: bool) -> u32 {
    let sign = u32::from(x.is_sign_negative()) << 15;
    let below = below(x.abs(), 15);
    let (low, high) = (small(below, 15), small(below + 1, 15));
    // Infinity is where the next f16 would be.
    let high = if high.is_infinite() { 65536.0 } else { high };
    let up = match (x.abs() - low).total_cmp(&(high - x.abs())) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => below & 1 != 0,
        std::cmp::Ordering::Greater => true,
    };
    sign | below + u32::from(up && !truncate)
}

fn d16(gfx12: bool, store: bool, components: &str) -> String {
    let access = if store { "store" } else { "load" };
    match gfx12 {
        true => format!("tbuffer_{access}_d16_format_{components}"),
        false => format!("tbuffer_{access}_format_d16_{components}"),
    }
}

#[test]
fn typed_d16_loads() {
    for gfx12 in BOTH {
        let load = |format: Named| {
            let text = format!(
                "{} v[2:3], v12, s[20:23], {} {} offen",
                d16(gfx12, false, "xyzw"),
                none(gfx12),
                format.operand
            );
            case(
                buffer(gfx12, 0x400, IDENTITY, &text),
                move |before, after| {
                    for lane in 0..after.lanes {
                        let mut want = [0; 4];
                        let parts = raw(&format, before, lane);
                        for (n, (&bits, &width)) in parts.iter().zip(&format.widths).enumerate() {
                            let x = f64::from(f32::from_bits(bits));
                            want[n] = match format.number {
                                "UINT" => bits & 0xffff,
                                "SINT" => signed(bits, width) as u32 & 0xffff,
                                "FLOAT" if width == 16 => bits,
                                "FLOAT" if width < 16 => bits << (15 - width),
                                "FLOAT" if x.is_nan() => continue,
                                "FLOAT" if x.is_infinite() => (bits >> 31) << 15 | 0x7c00,
                                "FLOAT" => half(x, true),
                                _ => half(number(&format, bits, width), false),
                            };
                        }
                        for (n, want) in want.into_iter().enumerate() {
                            let got = after.v[2 + n / 2][lane] >> (16 * (n % 2)) & 0xffff;
                            // The sign of zero and the payload of an f32 NaN are not compared.
                            let nan = format.number == "FLOAT" && got & 0x7fff > 0x7c00;
                            if got != want && !nan {
                                return Err(format!("lane {lane} {n}: {got:x}, not {want:x}"));
                            }
                        }
                    }
                    Ok(())
                },
            )
        };
        run(
            gfx12,
            &formats(gfx12).into_iter().map(load).collect::<Vec<_>>(),
        );
    }
}

/// The other half of a register is preserved.
#[test]
fn halves_of_registers() {
    for gfx12 in BOTH {
        let operand = match gfx12 {
            true => "format:[BUF_FMT_8_8_8_8_UINT]",
            false => "format:[BUF_DATA_FORMAT_8_8_8_8,BUF_NUM_FORMAT_UINT]",
        };
        let soffset = none(gfx12);
        let byte = |st: &State, lane: usize, n: usize| u32::from(st.space[16 * lane + n]);
        let expect = |name: &str, operand: &str, word3, want: fn(u32, u32, u32) -> [u32; 2]| {
            let text = format!("{name}, v12, s[20:23], {soffset} {operand} offen");
            // The register with a half that is not loaded, and this half.
            let (n, mask) = match name.split_once(' ') {
                Some((_, "v[2:3]")) => (1, 0xffff_0000),
                _ if name.contains("hi") => (0, 0xffff),
                _ => (0, 0xffff_0000),
            };
            case(buffer(gfx12, 0x400, word3, &text), move |before, after| {
                (0..after.lanes).try_for_each(|lane| {
                    let part = |n| byte(before, lane, n);
                    let mut want = want(part(0), part(1), part(2));
                    want[n] |= before.v[2 + n][lane] & mask;
                    let got = [after.v[2][lane], after.v[3][lane]];
                    match got[..=n] == want[..=n] {
                        true => Ok(()),
                        false => Err(format!("lane {lane}: {got:x?}, not {want:x?}")),
                    }
                })
            })
        };
        // 8_8_8_8_UINT in the resource.
        let word3 = IDENTITY | if gfx12 { 46 << 12 } else { 10 << 15 | 4 << 12 };
        let hi = match gfx12 {
            true => "buffer_load_d16_hi_format_x v2",
            false => "buffer_load_format_d16_hi_x v2",
        };
        let x = format!("{} v2", d16(gfx12, false, "x"));
        let xyz = format!("{} v[2:3]", d16(gfx12, false, "xyz"));
        run(
            gfx12,
            &[
                expect(&x, operand, 0, |x, _, _| [x, 0]),
                expect(&xyz, operand, 0, |x, y, z| [x | y << 16, z]),
                expect(hi, "", word3, |x, _, _| [x << 16, 0]),
            ],
        );
    }
}

#[test]
fn d16_stores() {
    for gfx12 in BOTH {
        let soffset = none(gfx12);
        let operand = match gfx12 {
            true => "format:[BUF_FMT_16_16_16_16_FLOAT]",
            false => "format:[BUF_DATA_FORMAT_16_16_16_16,BUF_NUM_FORMAT_FLOAT]",
        };
        let name = d16(gfx12, true, "xyzw");
        let text = format!("{name} v[2:3], v12, s[20:23], {soffset} {operand} offen");
        let same = case(buffer(gfx12, 0x400, IDENTITY, &text), |before, after| {
            for lane in 0..after.lanes {
                let want = [2, 3].map(|n| before.v[n][lane].to_le_bytes()).concat();
                if after.space[16 * lane..16 * lane + 8] != want {
                    return Err(format!("lane {lane}"));
                }
            }
            Ok(())
        });
        // 8_UINT in the resource: the upper half, clamped.
        let word3 = IDENTITY | if gfx12 { 5 << 12 } else { 1 << 15 | 4 << 12 };
        let hi = match gfx12 {
            true => "buffer_store_d16_hi_format_x v2",
            false => "buffer_store_format_d16_hi_x v2",
        };
        let text = format!("{hi}, v12, s[20:23], {soffset} offen");
        let high = case(buffer(gfx12, 0x400, word3, &text), |before, after| {
            for lane in 0..after.lanes {
                let value = before.v[2][lane] >> 16;
                let want = if value > 255 { 255 } else { value as u8 };
                if after.space[16 * lane] != want {
                    return Err(format!(
                        "lane {lane}: {value:x} as {:x}",
                        after.space[16 * lane]
                    ));
                }
            }
            Ok(())
        });
        run(gfx12, &[same, high]);
    }
}

/// Format and component selects of the resource; an element is in bounds as a whole.
#[test]
fn resources() {
    for gfx12 in BOTH {
        let soffset = none(gfx12);
        let load = format!("buffer_load_format_xyzw v[2:5], v12, s[20:23], {soffset} offen");
        let dword = |st: &State, lane: usize, n: usize| {
            let at = 16 * lane + 4 * n;
            u32::from_le_bytes(st.space[at..at + 4].try_into().unwrap())
        };
        // w, one, zero, x. 508 bytes: the last dword of lane 31 is beyond them.
        let selects = 7 | 1 << 3 | 4 << 9;
        let selected = |number: &str, one: u32| {
            let word3 = selects | resource(gfx12, number);
            case(buffer(gfx12, 508, word3, &load), move |before, after| {
                (0..after.lanes).try_for_each(|lane| {
                    let inside = |n: usize| if lane < 31 { dword(before, lane, n) } else { 0 };
                    expect_loaded(after, lane, [inside(3), one, 0, inside(0)])
                })
            })
        };
        let none_bound = case(buffer(gfx12, 508, 0, &load), |_, after| {
            (0..after.lanes).try_for_each(|lane| expect_loaded(after, lane, [0; 4]))
        });
        let store = |components: &str, regs: &str| {
            format!("buffer_store_format_{components} {regs}, v12, s[20:23], {soffset} offen")
        };
        let kept = case(
            buffer(gfx12, 508, 0, &store("x", "v2")),
            |before, after| match before.space == after.space {
                true => Ok(()),
                false => Err("memory differs".into()),
            },
        );
        // Only x and y: the rest is x on gfx1201, zero on gfx942.
        let word3 = IDENTITY | resource(gfx12, "UINT");
        let partial = case(
            buffer(gfx12, 508, word3, &store("xy", "v[2:3]")),
            move |before, after| {
                (0..after.lanes).try_for_each(|lane| {
                    let (x, y) = (before.v[2][lane], before.v[3][lane]);
                    let rest = if gfx12 { x } else { 0 };
                    let want = match lane {
                        0..=30 => [x, y, rest, rest],
                        _ => [0, 1, 2, 3].map(|n| dword(before, lane, n)),
                    };
                    let got = [0, 1, 2, 3].map(|n| dword(after, lane, n));
                    match got == want {
                        true => Ok(()),
                        false => Err(format!("lane {lane}: {got:x?}, not {want:x?}")),
                    }
                })
            },
        );
        // z, y, x, w, as in a surface with blue first.
        let word3 = 6 | 5 << 3 | 4 << 6 | 7 << 9 | resource(gfx12, "UINT");
        let swapped = case(
            buffer(gfx12, 0x400, word3, &store("xyzw", "v[2:5]")),
            move |before, after| {
                (0..after.lanes).try_for_each(|lane| {
                    let want = [4, 3, 2, 5].map(|n| before.v[n][lane]);
                    match want == [0, 1, 2, 3].map(|n| dword(after, lane, n)) {
                        true => Ok(()),
                        false => Err(format!("lane {lane}")),
                    }
                })
            },
        );
        let cases = [
            selected("UINT", 1),
            selected("FLOAT", 0x3f80_0000),
            none_bound,
            kept,
            partial,
            swapped,
        ];
        run(gfx12, &cases);
    }
}

#[test]
fn load_to_lds() {
    // 8_8_8_8_UNORM: x to the dword of the lane.
    let word3 = IDENTITY | 10 << 15;
    let text = "v_lshrrev_b32 v13, 2, v12\n s_mov_b32 m0, 0\n ds_write_b32 v13, v1\n \
                s_waitcnt lgkmcnt(0)\n buffer_load_format_x v12, s[20:23], 0 offen lds\n \
                s_waitcnt vmcnt(0)\n ds_read_b32 v10, v13";
    let lds = case(buffer(false, 16 * 20, word3, text), |before, after| {
        (0..after.lanes).try_for_each(|lane| {
            let x = f64::from(before.space[16 * lane]) / 255.0;
            let want = if lane < 20 { (x as f32).to_bits() } else { 0 };
            match after.v[10][lane] == want {
                true => Ok(()),
                false => Err(format!(
                    "lane {lane}: {:x}, not {want:x}",
                    after.v[10][lane]
                )),
            }
        })
    });
    run(false, &[lds]);
}

#[test]
fn refused() {
    for gfx12 in BOTH {
        let target = if gfx12 {
            Target::Wave32
        } else {
            Target::Gfx942
        };
        let stop = |records, word3, text: &str| {
            let asm = buffer(gfx12, records, word3, text);
            let bench = Bench::on(target, [asm].into_iter());
            let stop = bench.run(0, &state(1, Fill::Bits), 0).err();
            stop.unwrap_or_else(|| panic!("{text}: no stop"))
        };
        let soffset = none(gfx12);
        let load = format!("buffer_load_format_x v2, v12, s[20:23], {soffset} offen");
        // A reserved number: 8_FLOAT on gfx942; component select 2.
        if !gfx12 {
            let word3 = IDENTITY | 1 << 15 | 7 << 12;
            assert!(matches!(stop(64, word3, &load), Stop::Violation { .. }));
        }
        let word3 = IDENTITY & !7 | 2 | resource(gfx12, "UINT");
        assert!(matches!(stop(64, word3, &load), Stop::Violation { .. }));
        // An element of 4 bytes and more at an odd address.
        let word3 = IDENTITY | resource(gfx12, "UINT");
        let odd = format!("{load} offset:2");
        assert!(matches!(stop(64, word3, &odd), Stop::Violation { .. }));
        // In bounds of the buffer, but not of memory.
        let far = format!("s_add_u32 s21, s21, 1\n {load}");
        let far = if gfx12 {
            far.replace("s_add_u32", "s_add_co_u32")
        } else {
            far
        };
        assert!(matches!(stop(64, word3, &far), Stop::Fault { .. }));
    }
}
