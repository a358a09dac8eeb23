// SPDX-License-Identifier: GPL-2.0 OR MIT

//! LLVM tools, from the directory `RKFD_LLVM_BIN` (default: Debian's LLVM 19).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::{env, fs, io::Write, process};

use gpu_wave::Isa;

/// Compilation target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Gfx942,
    /// gfx1201 in wave32, the default of clang.
    Wave32,
    /// gfx1201 in wave64.
    Wave64,
}

pub const TARGETS: [Target; 3] = [Target::Gfx942, Target::Wave32, Target::Wave64];

impl Target {
    pub fn isa(self) -> Isa {
        match self {
            Target::Gfx942 => Isa::Gfx942,
            _ => Isa::Gfx1201,
        }
    }

    /// Returns the number of lanes of a wave.
    pub fn lanes(self) -> usize {
        match self {
            Target::Wave32 => 32,
            _ => 64,
        }
    }

    fn cpu(self) -> &'static str {
        match self {
            Target::Gfx942 => "-mcpu=gfx942",
            _ => "-mcpu=gfx1201",
        }
    }
}

fn tool(name: &str) -> PathBuf {
    let dir = env::var_os("RKFD_LLVM_BIN").map_or("/usr/lib/llvm-19/bin".into(), PathBuf::from);
    let path = dir.join(name);
    assert!(
        path.exists(),
        "{} not found: install clang-19, lld-19 and llvm-19, or set RKFD_LLVM_BIN",
        path.display()
    );
    path
}

/// Returns a unique file name.
fn temporary(suffix: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    env::temp_dir().join(format!("gpu-wave-{}-{n}{suffix}", process::id()))
}

/// Runs a tool with `input` and returns its standard output.
fn run(name: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
    run_both(name, args, input).0
}

/// Runs a tool with `input` and returns its standard output and error.
fn run_both(name: &str, args: &[&str], input: &[u8]) -> (Vec<u8>, String) {
    let mut child = Command::new(tool(name))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = child
        .wait_with_output()
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    feeder.join().expect("feeder").ok();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {args:?}:\n{errors}");
    (output.stdout, errors.into_owned())
}

/// Returns the output for `key`, which `make` produces at the first call: most tests run the same
/// code many times, and a tool takes longer than most runs.
fn cached(key: String, make: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    static DONE: Mutex<BTreeMap<String, Arc<OnceLock<Vec<u8>>>>> = Mutex::new(BTreeMap::new());
    let slot = DONE
        .lock()
        .expect("no panic while held")
        .entry(key)
        .or_default()
        .clone();
    slot.get_or_init(make).clone()
}

/// Compiles OpenCL C to a code object.
pub fn compile(target: Target, name: &str, source: &str, flags: &[&str]) -> Vec<u8> {
    cached(format!("{name} {target:?} {flags:?}"), || {
        compile_now(target, name, source, flags)
    })
}

fn compile_now(target: Target, name: &str, source: &str, flags: &[&str]) -> Vec<u8> {
    let out = temporary(&format!("-{name}.co"));
    let out_text = out.to_str().expect("a plain path");
    let mut args = vec!["--target=amdgcn-amd-amdhsa", target.cpu()];
    if target == Target::Wave64 {
        args.push("-mwavefrontsize64");
    }
    args.extend(["-x", "cl", "-cl-std=CL2.0", "-nogpulib", "-Werror"]);
    args.extend(flags);
    args.extend(["-o", out_text, "-"]);
    run("clang", &args, source.as_bytes());
    let image = fs::read(&out).expect("clang wrote its output");
    fs::remove_file(&out).ok();
    image
}

/// Assembles gfx942 instructions.
pub fn assemble(text: &str) -> Vec<u32> {
    assemble_for(Target::Gfx942, text)
}

/// Assembles instructions.
pub fn assemble_for(target: Target, text: &str) -> Vec<u32> {
    let code = cached(format!("{target:?} {text}"), || assemble_now(target, text));
    code.chunks_exact(4)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

fn assemble_now(target: Target, text: &str) -> Vec<u8> {
    let mut args = vec![
        "-triple=amdgcn-amd-amdhsa",
        target.cpu(),
        "-filetype=obj",
        "-",
    ];
    if target == Target::Wave64 {
        args.push("-mattr=+wavefrontsize64");
    }
    let object = run("llvm-mc", &args, text.as_bytes());
    super::elf::section(&object, ".text").to_vec()
}

/// Returns the mnemonic of each instruction, `None` if unknown to LLVM.
pub fn disassemble_each_for(target: Target, words: &[impl AsRef<[u32]>]) -> Vec<Option<String>> {
    // Each line is an instruction, followed by a mark.
    let mut text = String::new();
    let mut line = |words: &[u32]| {
        for byte in words.iter().flat_map(|w| w.to_le_bytes()) {
            text += &format!("{byte:#04x} ");
        }
        text += "\n";
    };
    for instruction in words {
        line(instruction.as_ref());
        line(&[0xbf80_0abc]);
    }
    let mut args = vec!["--disassemble", "-triple=amdgcn-amd-amdhsa", target.cpu()];
    if target == Target::Wave64 {
        args.push("-mattr=+wavefrontsize64");
    }
    let (output, warnings) = run_both("llvm-mc", &args, text.as_bytes());
    // "<stdin>:1:1: warning: invalid instruction encoding"
    let line_of = |text: &str| text.split(':').nth(1)?.parse::<usize>().ok();
    let invalid: Vec<usize> = warnings
        .lines()
        .filter(|l| l.contains("warning:"))
        .filter_map(line_of)
        .collect();
    let output = String::from_utf8(output).expect("text");
    let mut found = Vec::new();
    let mut current: Option<String> = None;
    let mark = "s_nop 0xabc";
    for text in output
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('.'))
    {
        if text.starts_with(mark) || text.starts_with("s_nop 2748") {
            found.push(current.take());
        } else if current.is_none() {
            current = text.split_whitespace().next().map(str::to_owned);
        }
    }
    assert_eq!(
        found.len(),
        words.len(),
        "number of disassembled instructions differs"
    );
    for line in invalid {
        found[line / 2] = None;
    }
    found
}

/// Line of a disassembly.
#[derive(Debug)]
pub struct Line {
    pub address: u64,
    pub bytes: usize,
    pub text: String,
}

/// Disassembles the code of an object file or code object.
pub fn disassemble(image: &[u8]) -> Vec<Line> {
    let path = temporary(".o");
    fs::write(&path, image).expect("a temporary file");
    let text = run(
        "llvm-objdump",
        &["-d", path.to_str().expect("a plain path")],
        b"",
    );
    fs::remove_file(&path).ok();
    let text = String::from_utf8(text).expect("text");
    // "	s_endpgm      // 000000001660: BF810000"
    let parse = |line: &str| {
        let (text, rest) = line.split_once("//")?;
        let (address, words) = rest.trim().split_once(':')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let words = words.split('<').next()?;
        let bytes = words.split_whitespace().count() * 4;
        Some(Line {
            address,
            bytes,
            text: text.trim().to_owned(),
        })
    };
    text.lines().filter_map(parse).collect()
}
