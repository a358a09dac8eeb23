// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Executes single instructions with known registers: each case is wrapped in code that loads the
//! registers from memory before it and stores them after it.

use super::llvm::{self, Target};
use super::place::{CODE, DATA};
use super::{shared, Ram, Recorder, Rng};
use gpu_wave::{run_workgroup, Dispatch, Memory, Scratch, Stop};
use std::sync::atomic::Ordering;

/// v1..v13 and s16..s31 are loaded and stored.
pub const VECTORS: usize = 13;
pub const SCALARS: usize = 16;
const IN: u64 = DATA;
const OUT: u64 = DATA + 0x1_0000;
/// Memory for a case; its address is in s[12:13].
pub const SPACE: u64 = DATA + 0x2_0000;
const SPACE_BYTES: usize = 0x4000;
const SCRATCH: u64 = DATA + 0x4_0000;
/// LDS of the workgroup, in bytes.
pub const LDS: u32 = 8192;
/// Scratch of a lane, in bytes.
pub const PRIVATE: u64 = 256;
/// Separates cases in assembler output: `s_nop 0xabc`.
const MARK: u32 = 0xbf80_0abc;

/// Registers before or after a case.
#[derive(Clone)]
pub struct State {
    /// Number of lanes; values beyond are ignored.
    pub lanes: usize,
    /// 16-bit results preserve the other half of the register.
    pub keeps: bool,
    /// By register number; 0 is unused.
    pub v: [[u32; 64]; VECTORS + 1],
    /// By register number; below 16 unused.
    pub s: [u32; 32],
    pub vcc: u64,
    pub exec: u64,
    pub scc: bool,
    /// Memory at [`SPACE`].
    pub space: Vec<u8>,
}

impl State {
    pub fn s64(&self, n: usize) -> u64 {
        u64::from(self.s[n]) | u64::from(self.s[n + 1]) << 32
    }

    pub fn lane(&self, lane: usize) -> Lane<'_> {
        Lane { state: self, lane }
    }
}

/// Registers of one lane.
#[derive(Clone, Copy)]
pub struct Lane<'a> {
    pub state: &'a State,
    pub lane: usize,
}

impl Lane<'_> {
    pub fn u(&self, n: usize) -> u32 {
        self.state.v[n][self.lane]
    }

    pub fn i(&self, n: usize) -> i32 {
        self.u(n) as i32
    }

    pub fn f(&self, n: usize) -> f32 {
        f32::from_bits(self.u(n))
    }

    pub fn q(&self, n: usize) -> u64 {
        u64::from(self.u(n)) | u64::from(self.u(n + 1)) << 32
    }

    pub fn d(&self, n: usize) -> f64 {
        f64::from_bits(self.q(n))
    }

    pub fn lo(&self, n: usize) -> u32 {
        self.u(n) & 0xffff
    }

    /// Returns the upper half of v10 after a 16-bit result in the lower half.
    pub fn rest(&self) -> u32 {
        if self.state.keeps {
            self.u(10) & 0xffff_0000
        } else {
            0
        }
    }

    pub fn hi(&self, n: usize) -> u32 {
        self.u(n) >> 16
    }

    pub fn vcc(&self) -> bool {
        self.state.vcc >> self.lane & 1 != 0
    }

    pub fn active(&self) -> bool {
        self.state.exec >> self.lane & 1 != 0
    }
}

/// Initial register contents for a table of cases.
#[derive(Clone, Copy)]
pub enum Fill {
    /// Random bits, many of them extreme.
    Bits,
    /// Floats: moderate, zeros, infinities, NaN, denormals.
    Floats,
    /// As `Floats`, in register pairs.
    Doubles,
    /// As `Floats`, in register halves.
    Halves,
}

const BITS: [u32; 12] = [
    0,
    1,
    2,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff,
    0x8000,
    0xffff,
    0xff,
    0x80,
    0x8000_8000,
];
const FLOATS: [u32; 14] = [
    0,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x7f80_0001,
    0x0000_0001,
    0x807f_ffff,
    0x7f7f_ffff,
    0x0080_0000,
    0x3f00_0000,
    0x4f00_0000,
];
const HALVES: [u32; 12] = [
    0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0x0001, 0x83ff, 0x7bff, 0x3800,
];

fn half(rng: &mut Rng) -> u32 {
    match rng.u32() % 3 {
        0 => HALVES[rng.u32() as usize % HALVES.len()],
        _ => rng.u32() & 0x83ff | (8 + rng.u32() % 14) << 10,
    }
}

fn value(rng: &mut Rng, fill: Fill) -> u32 {
    match fill {
        Fill::Bits if rng.u32() % 3 == 0 => BITS[rng.u32() as usize % BITS.len()],
        Fill::Bits => rng.u32(),
        Fill::Floats if rng.u32() % 3 == 0 => FLOATS[rng.u32() as usize % FLOATS.len()],
        Fill::Floats => rng.f32().to_bits(),
        Fill::Doubles => rng.u32(),
        Fill::Halves => half(rng) | half(rng) << 16,
    }
}

fn double(rng: &mut Rng) -> u64 {
    match rng.u32() % 3 {
        0 => {
            let x = f32::from_bits(FLOATS[rng.u32() as usize % FLOATS.len()]);
            match rng.u32() % 4 {
                0 => 1,
                1 => f64::MAX.to_bits(),
                _ => f64::from(x).to_bits(),
            }
        }
        _ => rng.u64() & 0x800f_ffff_ffff_ffff | (1023 - 40 + rng.u64() % 80) << 52,
    }
}

/// Returns random registers of a kind.
pub fn state(seed: u64, fill: Fill) -> State {
    let mut rng = Rng(seed);
    let mut v = [[0; 64]; VECTORS + 1];
    for reg in v.iter_mut().skip(1) {
        reg.iter_mut().for_each(|v| *v = value(&mut rng, fill));
    }
    if let Fill::Doubles = fill {
        for n in (2..VECTORS).step_by(2) {
            for l in 0..64 {
                let bits = double(&mut rng);
                v[n][l] = bits as u32;
                v[n + 1][l] = (bits >> 32) as u32;
            }
        }
    }
    let mut s = [0; 32];
    s.iter_mut()
        .skip(16)
        .for_each(|s| *s = value(&mut rng, fill));
    let vcc = rng.u64();
    let space = (0..SPACE_BYTES).map(|_| rng.u32() as u8).collect();
    State {
        lanes: 64,
        keeps: false,
        v,
        s,
        vcc,
        exec: u64::MAX,
        scc: false,
        space,
    }
}

fn prologue(target: Target) -> String {
    if target != Target::Gfx942 {
        return prologue_12();
    }
    let mut text = String::from(
        "s_load_dwordx4 s[4:7], s[0:1], 0\n s_load_dwordx2 s[12:13], s[0:1], 16\n\
         v_lshlrev_b32 v40, 2, v0\n s_waitcnt lgkmcnt(0)\n",
    );
    for n in 0..VECTORS {
        text += &format!(
            "global_load_dword v{}, v40, s[4:5] offset:{}\n",
            n + 1,
            n * 256
        );
    }
    text += "s_load_dwordx16 s[16:31], s[4:5], 0x1000\n s_load_dwordx2 vcc, s[4:5], 0x1040\n\
             s_mov_b64 s[8:9], 0\n s_mov_b32 s10, 0\n s_waitcnt vmcnt(0) lgkmcnt(0)\n";
    text
}

fn prologue_12() -> String {
    let mut text = String::from(
        "s_load_b128 s[4:7], s[0:1], 0\n s_load_b64 s[12:13], s[0:1], 16\n\
         v_lshlrev_b32 v40, 2, v0\n s_wait_kmcnt 0\n",
    );
    for n in 0..VECTORS {
        text += &format!(
            "global_load_b32 v{}, v40, s[4:5] offset:{}\n",
            n + 1,
            n * 256
        );
    }
    text += "s_load_b512 s[16:31], s[4:5], 0x1000\n s_load_b64 vcc, s[4:5], 0x1040\n\
             s_mov_b64 s[8:9], 0\n s_mov_b32 s10, 0\n s_wait_loadcnt 0\n s_wait_kmcnt 0\n";
    text
}

fn epilogue_12() -> String {
    let mut text = String::from(
        "s_mov_b64 s[32:33], exec\n s_mov_b64 s[34:35], vcc\n s_cselect_b32 s36, 1, 0\n\
         s_mov_b64 exec, -1\n s_wait_loadcnt 0\n s_wait_kmcnt 0\n",
    );
    for n in 0..VECTORS {
        text += &format!(
            "global_store_b32 v40, v{}, s[6:7] offset:{}\n",
            n + 1,
            n * 256
        );
    }
    text += "s_add_nc_u64 s[6:7], s[6:7], 0x1000\n v_mov_b32 v42, 0\n";
    for (at, reg) in (16..=36).enumerate() {
        text += &format!(
            "v_mov_b32 v41, s{reg}\n global_store_b32 v42, v41, s[6:7] offset:{}\n",
            at * 4
        );
    }
    text + "s_endpgm\n"
}

fn epilogue(target: Target) -> String {
    if target != Target::Gfx942 {
        return epilogue_12();
    }
    let mut text = String::from(
        "s_mov_b64 s[32:33], exec\n s_mov_b64 s[34:35], vcc\n s_cselect_b32 s36, 1, 0\n\
         s_mov_b64 exec, -1\n s_waitcnt vmcnt(0) lgkmcnt(0)\n",
    );
    for n in 0..VECTORS {
        text += &format!(
            "global_store_dword v40, v{}, s[6:7] offset:{}\n",
            n + 1,
            n * 256
        );
    }
    text += "s_add_u32 s6, s6, 0x1000\n s_addc_u32 s7, s7, 0\n v_mov_b32 v42, 0\n";
    for (at, reg) in (16..=36).enumerate() {
        text += &format!(
            "v_mov_b32 v41, s{reg}\n global_store_dword v42, v41, s[6:7] offset:{}\n",
            at * 4
        );
    }
    text + "s_endpgm\n"
}

/// Code around the cases of a table, assembled once.
pub struct Bench {
    target: Target,
    prologue: Vec<u32>,
    epilogue: Vec<u32>,
    pub cases: Vec<Vec<u32>>,
}

impl Bench {
    /// Assembles for gfx942.
    pub fn new<'a>(cases: impl Iterator<Item = &'a str>) -> Self {
        Self::on(Target::Gfx942, cases)
    }

    pub fn on<'a>(target: Target, cases: impl Iterator<Item = &'a str>) -> Self {
        let mark = "s_nop 0xabc\n";
        let mut text = prologue(target) + mark + &epilogue(target) + mark;
        for case in cases {
            text += case;
            text += "\n";
            text += mark;
        }
        let words = llvm::assemble_for(target, &text);
        let mut parts = words.split(|&w| w == MARK).map(<[u32]>::to_vec);
        let mut part = || parts.next().expect("prologue and epilogue");
        let (prologue, epilogue) = (part(), part());
        let mut cases: Vec<_> = parts.collect();
        cases.pop();
        Bench {
            target,
            prologue,
            epilogue,
            cases,
        }
    }

    /// Runs one case from `before`; with 48 VGPRs, 16 accumulators, scratch and LDS.
    pub fn run(&self, case: usize, before: &State, rsrc1: u32) -> Result<State, Stop> {
        self.run_code(&self.cases[case], before, rsrc1)
    }

    /// Runs instruction words from `before`.
    pub fn run_words(&self, words: &[u32], before: &State) -> Result<State, Stop> {
        self.run_code(words, before, 0)
    }

    fn run_code(&self, words: &[u32], before: &State, rsrc1: u32) -> Result<State, Stop> {
        let ram = Ram::new(CODE, (DATA - CODE) as usize + 0x8_0000);
        let mut code = self.prologue.clone();
        code.extend(words);
        code.extend(&self.epilogue);
        ram.put_u32(CODE, &code);
        for n in 0..VECTORS {
            ram.put_u32(IN + 256 * n as u64, &before.v[n + 1]);
        }
        ram.put_u32(IN + 0x1000, &before.s[16..]);
        ram.put(IN + 0x1040, &before.vcc.to_le_bytes());
        ram.put(SPACE, &before.space);
        let kernarg = DATA + 0x3_0000;
        ram.put(kernarg, &IN.to_le_bytes());
        ram.put(kernarg + 8, &OUT.to_le_bytes());
        ram.put(kernarg + 16, &SPACE.to_le_bytes());
        let lanes = self.target.lanes();
        // 64 VGPRs, 48 SGPRs, denormals enabled, DX10_CLAMP and IEEE as set by clang.
        let registers = match self.target {
            Target::Gfx942 => 7 | 4 << 6 | 1 << 21 | 1 << 23,
            Target::Wave32 => 7,
            Target::Wave64 => 15,
        };
        let dispatch = Dispatch {
            isa: self.target.isa(),
            wave32: self.target == Target::Wave32,
            grid: [lanes as u32, 1, 1],
            workgroup: [lanes as u16, 1, 1],
            entry: CODE,
            rsrc1: registers | 0xf << 16 | rsrc1,
            rsrc2: 2 << 1,
            // 48 of the VGPRs are architectural.
            rsrc3: 11,
            user_sgprs: vec![kernarg as u32, (kernarg >> 32) as u32],
            lds_bytes: LDS,
            scratch: Scratch {
                base: SCRATCH,
                wave_stride: 64 * PRIVATE,
                slots: 1,
            },
            ..Dispatch::default()
        };
        // No case runs for long.
        let host = Recorder::default();
        host.patience.store(1000, Ordering::Relaxed);
        run_workgroup(&ram, &host, &dispatch, [0, 0, 0])?;
        let mut after = before.clone();
        for n in 0..VECTORS {
            after.v[n + 1].copy_from_slice(&ram.get_u32(OUT + 256 * n as u64, 64));
        }
        let scalars = ram.get_u32(OUT + 0x1000, SCALARS + 5);
        after.s[16..].copy_from_slice(&scalars[..SCALARS]);
        let pair = |n: usize| u64::from(scalars[n]) | u64::from(scalars[n + 1]) << 32;
        let mask = u64::MAX >> (64 - lanes);
        after.lanes = lanes;
        after.exec = pair(SCALARS) & mask;
        after.vcc = pair(SCALARS + 2) & mask;
        after.scc = scalars[SCALARS + 4] != 0;
        ram.read(SPACE, &mut after.space).expect("in memory");
        Ok(after)
    }
}

type Check = Box<dyn Fn(&State, &State) -> Result<(), String>>;
/// Computes a value of a lane. Boxed, so that the code around hundreds of cases is compiled once.
type Of<T> = Box<dyn Fn(Lane<'_>) -> T>;

/// One or a few instructions and their expected effect.
pub struct Case {
    pub asm: &'static str,
    check: Check,
}

/// Returns a case with a custom check.
pub fn case(
    asm: &'static str,
    check: impl Fn(&State, &State) -> Result<(), String> + 'static,
) -> Case {
    Case {
        asm,
        check: Box::new(check),
    }
}

/// Returns a case that compares registers v10 and following of each lane.
fn lanes(asm: &'static str, expected: Of<Vec<u32>>, same: fn(&[u32], &[u32]) -> bool) -> Case {
    let check = move |before: &State, after: &State| {
        for n in 0..after.lanes {
            let lane = before.lane(n);
            let mut want = expected(lane);
            if after.exec >> n & 1 == 0 {
                // Inactive lanes are preserved.
                (0..want.len()).for_each(|k| want[k] = lane.u(10 + k));
            }
            let got: Vec<u32> = (0..want.len()).map(|k| after.v[10 + k][n]).collect();
            if !same(&want, &got) {
                let inputs: Vec<String> = (1..=10).map(|k| format!("{:x}", lane.u(k))).collect();
                let inputs = inputs.join(" ");
                return Err(format!(
                    "lane {n}: got {got:x?}, expected {want:x?}; v1..10 {inputs}"
                ));
            }
        }
        Ok(())
    };
    Case {
        asm,
        check: Box::new(check),
    }
}

fn boxed<T>(f: impl Fn(Lane<'_>) -> T + 'static) -> Of<T> {
    Box::new(f)
}

/// Expects `f` in v10.
pub fn w(asm: &'static str, f: impl Fn(Lane<'_>) -> u32 + 'static) -> Case {
    w_of(asm, boxed(f))
}

fn w_of(asm: &'static str, f: Of<u32>) -> Case {
    lanes(asm, Box::new(move |l| vec![f(l)]), |a, b| a == b)
}

/// Expects `f` in v[10:11].
pub fn q(asm: &'static str, f: impl Fn(Lane<'_>) -> u64 + 'static) -> Case {
    q_of(asm, boxed(f))
}

fn q_of(asm: &'static str, f: Of<u64>) -> Case {
    let words = move |l: Lane<'_>| {
        let v = f(l);
        vec![v as u32, (v >> 32) as u32]
    };
    lanes(asm, Box::new(words), |a, b| a == b)
}

fn same_f32(a: u32, b: u32) -> bool {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    a == b || (x.is_nan() && y.is_nan() && b & 0x40_0000 != 0)
}

/// Expects the f32 `f` in v10; any quiet NaN for a NaN.
pub fn f(asm: &'static str, f: impl Fn(Lane<'_>) -> f32 + 'static) -> Case {
    f_of(asm, boxed(f))
}

fn f_of(asm: &'static str, f: Of<f32>) -> Case {
    lanes(asm, Box::new(move |l| vec![f(l).to_bits()]), |a, b| {
        same_f32(a[0], b[0])
    })
}

/// Expects `f` in v10 within one unit in the last place; denormals count as zero.
pub fn near(asm: &'static str, f: impl Fn(Lane<'_>) -> f64 + 'static) -> Case {
    near_of(asm, boxed(f))
}

fn near_of(asm: &'static str, f: Of<f64>) -> Case {
    let flush = |bits: u32| {
        if bits & 0x7f80_0000 == 0 {
            bits & 0x8000_0000
        } else {
            bits
        }
    };
    lanes(
        asm,
        Box::new(move |l| vec![flush((f(l) as f32).to_bits())]),
        |a, b| same_f32(a[0], b[0]) || a[0].abs_diff(b[0]) <= 1,
    )
}

fn pair(words: &[u32]) -> u64 {
    u64::from(words[0]) | u64::from(words[1]) << 32
}

/// Expects the f64 `f` in v[10:11].
pub fn d(asm: &'static str, f: impl Fn(Lane<'_>) -> f64 + 'static) -> Case {
    d_of(asm, boxed(f))
}

fn d_of(asm: &'static str, f: Of<f64>) -> Case {
    let words = move |l: Lane<'_>| {
        let bits = f(l).to_bits();
        vec![bits as u32, (bits >> 32) as u32]
    };
    lanes(asm, Box::new(words), |a, b| {
        let (a, b) = (pair(a), pair(b));
        a == b || (f64::from_bits(a).is_nan() && f64::from_bits(b).is_nan() && b >> 51 & 1 != 0)
    })
}

/// Expects `f` in VCC, zero for inactive lanes.
pub fn vcc(asm: &'static str, f: impl Fn(Lane<'_>) -> bool + 'static) -> Case {
    vcc_of(asm, boxed(f))
}

fn vcc_of(asm: &'static str, f: Of<bool>) -> Case {
    case(asm, move |before, after| {
        for n in 0..after.lanes {
            let lane = before.lane(n);
            let want = f(lane) && after.exec >> n & 1 != 0;
            if want != (after.vcc >> n & 1 != 0) {
                let inputs: Vec<String> = (1..=7).map(|k| format!("{:x}", lane.u(k))).collect();
                let inputs = inputs.join(" ");
                return Err(format!("lane {n}: got {}; v1..7 {inputs}", !want));
            }
        }
        Ok(())
    })
}

/// Computes a scalar result, and SCC if it changes.
type Scalar<T> = Box<dyn Fn(&State) -> (T, Option<bool>)>;

/// Expects a result in s24, and SCC if it changes.
pub fn s(asm: &'static str, f: impl Fn(&State) -> (u32, Option<bool>) + 'static) -> Case {
    s_of(asm, Box::new(f))
}

fn s_of(asm: &'static str, f: Scalar<u32>) -> Case {
    case(asm, move |before, after| {
        let (value, scc) = f(before);
        let scc = scc.unwrap_or(after.scc);
        if (after.s[24], after.scc) != (value, scc) {
            return Err(format!(
                "got {:x} scc {}, expected {value:x} scc {scc}; s16 {:x} s17 {:x} s24 {:x}",
                after.s[24], after.scc, before.s[16], before.s[17], before.s[24]
            ));
        }
        Ok(())
    })
}

/// Expects a result in s[24:25], and SCC if it changes.
pub fn s64(asm: &'static str, f: impl Fn(&State) -> (u64, Option<bool>) + 'static) -> Case {
    s64_of(asm, Box::new(f))
}

fn s64_of(asm: &'static str, f: Scalar<u64>) -> Case {
    case(asm, move |before, after| {
        let (value, scc) = f(before);
        let scc = scc.unwrap_or(after.scc);
        let (got, a, b) = (after.s64(24), before.s64(16), before.s64(18));
        if (got, after.scc) != (value, scc) {
            return Err(format!(
                "got {got:x} scc {}, expected {value:x} scc {scc}; s[16:17] {a:x} s[18:19] {b:x}",
                after.scc
            ));
        }
        Ok(())
    })
}

/// Runs a table: each case on several register fills. Panics with a list of failures.
pub fn check(fills: &[Fill], cases: &[Case]) {
    check_with(fills, 0, cases);
}

/// [`check`] with additional bits in rsrc1.
pub fn check_with(fills: &[Fill], rsrc1: u32, cases: &[Case]) {
    let cases: Vec<_> = cases.iter().collect();
    let texts: Vec<_> = cases.iter().map(|case| case.asm.to_owned()).collect();
    run(Target::Gfx942, fills, rsrc1, &cases, &texts);
    // Cases shared with gfx1201: in wave64, which the expectations assume.
    let shared: Vec<_> = cases
        .into_iter()
        .filter(|case| shared::has(case.asm))
        .collect();
    let texts: Vec<_> = shared
        .iter()
        .map(|case| shared::translate(case.asm))
        .collect();
    run(Target::Wave64, fills, rsrc1, &shared, &texts);
}

/// Runs a table on gfx1201 only, in wave32 and wave64.
pub fn check_12(fills: &[Fill], cases: &[Case]) {
    for target in [Target::Wave32, Target::Wave64] {
        check_on(target, fills, cases);
    }
}

/// Runs a table on one target.
pub fn check_on(target: Target, fills: &[Fill], cases: &[Case]) {
    let texts: Vec<_> = cases.iter().map(|case| case.asm.to_owned()).collect();
    run(target, fills, 0, &cases.iter().collect::<Vec<_>>(), &texts);
}

fn run(target: Target, fills: &[Fill], rsrc1: u32, cases: &[&Case], texts: &[String]) {
    let bench = Bench::on(target, texts.iter().map(String::as_str));
    assert_eq!(bench.cases.len(), cases.len(), "not every case assembled");
    let mut wrong = Vec::new();
    for (n, case) in cases.iter().enumerate() {
        for (seed, &fill) in fills.iter().enumerate() {
            let mut before = state(1000 * seed as u64 + n as u64, fill);
            before.keeps = target != Target::Gfx942;
            let result = match bench.run(n, &before, rsrc1) {
                Ok(after) => (case.check)(&before, &after),
                Err(stop) => Err(stop.to_string()),
            };
            if let Err(text) = result {
                wrong.push(format!("{target:?} {}: {text}", texts[n]));
                break;
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} wrong:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}
