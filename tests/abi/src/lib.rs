// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Compares the facts in rkfd_abi with the C headers of the Linux driver.
//!
//! A test collects [`Fact`]s: a name, the value in rkfd_abi, and a C expression. The expressions
//! are compiled into a small C program that includes AMD's headers and prints their values;
//! [`compare`] returns the differences. `RKFD_KERNEL_SRC` is the kernel source, `CC` the compiler
//! (default gcc). Tests fail without kernel source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fmt, fs, process};

use rkfd_abi::bits::{DwField, Field, Field64};

pub mod csource;

/// One comparison.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Unique name, used in reports.
    pub name: String,
    /// Value in rkfd_abi.
    pub ours: u64,
    /// C expression of integer type with AMD's value.
    pub expr: String,
}

/// Returns a fact.
pub fn fact(name: impl Into<String>, ours: impl TryInto<u64>, expr: impl Into<String>) -> Fact {
    let name = name.into();
    let ours = match ours.try_into() {
        Ok(value) => value,
        Err(_) => panic!("{name}: negative"),
    };
    Fact {
        name,
        ours,
        expr: expr.into(),
    }
}

/// Returns a fact whose C expression is its name.
pub fn same(name: &str, ours: impl TryInto<u64>) -> Fact {
    fact(name, ours, name)
}

/// Returns facts for shift and in-place mask of a field against `NAME__SHIFT` and `NAME_MASK`.
pub fn shift_mask(name: &str, field: Field) -> [Fact; 2] {
    [
        fact(
            format!("{name}__SHIFT"),
            field.shift,
            format!("{name}__SHIFT"),
        ),
        fact(format!("{name}_MASK"), field.mask, format!("{name}_MASK")),
    ]
}

/// Returns a fact for the mask of a 64-bit field against an expression.
pub fn mask64(name: &str, field: Field64, expr: &str) -> Fact {
    fact(name, field.mask, expr)
}

/// Returns the position of a packet field as one number: dword in the high half, mask in the low.
pub fn place(field: DwField) -> u64 {
    ((field.dw as u64) << 32) | u64::from(field.field.mask)
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The values differ.
    Value {
        /// Name of the fact.
        name: String,
        /// Value in rkfd_abi.
        ours: u64,
        /// Value in the C headers.
        theirs: u64,
    },
    /// The C program did not print the fact.
    Missing(String),
    /// The C program printed a name that is not a fact.
    Extra(String),
    /// Duplicate name; one of the facts would be lost.
    Twice(String),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { name, ours, theirs } => {
                write!(f, "{name}: rkfd_abi {ours:#x}, C {theirs:#x}")
            }
            Self::Missing(name) => write!(f, "{name}: not printed by the C program"),
            Self::Extra(name) => write!(f, "{name}: printed by the C program, but not a fact"),
            Self::Twice(name) => write!(f, "{name}: duplicate name"),
        }
    }
}

/// Compares facts with the output of the C program.
pub fn compare(facts: &[Fact], theirs: &BTreeMap<String, u64>) -> Vec<Mismatch> {
    let mut out = Vec::new();
    let mut rest = theirs.clone();
    let mut seen = std::collections::BTreeSet::new();
    for fact in facts {
        if !seen.insert(&fact.name) {
            out.push(Mismatch::Twice(fact.name.clone()));
            continue;
        }
        match rest.remove(&fact.name) {
            None => out.push(Mismatch::Missing(fact.name.clone())),
            Some(theirs) if theirs != fact.ours => out.push(Mismatch::Value {
                name: fact.name.clone(),
                ours: fact.ours,
                theirs,
            }),
            Some(_) => {}
        }
    }
    out.extend(rest.into_keys().map(Mismatch::Extra));
    out
}

/// Returns the kernel source tree.
///
/// # Panics
///
/// Panics without a kernel source, so that no comparison passes vacuously.
pub fn kernel_source() -> PathBuf {
    let Some(dir) = env::var_os("RKFD_KERNEL_SRC") else {
        panic!(
            "RKFD_KERNEL_SRC is not set: it has to name the linux-source tree whose \
             drivers/gpu/drm/amd headers rkfd_abi is compared with"
        );
    };
    let dir = PathBuf::from(dir);
    let amd = dir.join("drivers/gpu/drm/amd");
    assert!(
        amd.is_dir(),
        "RKFD_KERNEL_SRC={}: no drivers/gpu/drm/amd",
        dir.display()
    );
    dir
}

/// Returns the folder of AMD's drivers.
pub fn amd() -> PathBuf {
    kernel_source().join("drivers/gpu/drm/amd")
}

/// Returns the text of a file under [`amd`].
pub fn amd_text(path: &str) -> String {
    let path = amd().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// C program that prints the values of facts.
pub struct Program {
    prelude: String,
    facts: Vec<Fact>,
    body: String,
}

impl Default for Program {
    fn default() -> Self {
        Self::new()
    }
}

impl Program {
    /// Returns a program with the kernel macros that AMD's plain headers use.
    pub fn new() -> Self {
        Self {
            prelude: SHIM.to_string(),
            facts: Vec::new(),
            body: String::new(),
        }
    }

    /// Includes a header, by path relative to AMD's folder.
    pub fn include(mut self, path: &str) -> Self {
        self.prelude += &format!("#include \"{path}\"\n");
        self
    }

    /// Adds C text before `main`, usually extracted by [`csource`].
    pub fn text(mut self, text: &str) -> Self {
        self.prelude += text;
        self.prelude += "\n";
        self
    }

    /// Adds facts.
    pub fn facts(mut self, facts: impl IntoIterator<Item = Fact>) -> Self {
        self.facts.extend(facts);
        self
    }

    /// Adds a fact computed by statements that assign to `uint64_t v`.
    pub fn block(mut self, name: &str, ours: u64, statements: &str) -> Self {
        self.body += &format!("{{ uint64_t v = 0; {statements}; P(\"{name}\", v); }}\n");
        self.facts.push(Fact {
            name: name.to_string(),
            ours,
            expr: String::new(),
        });
        self
    }

    /// Returns the facts added so far.
    pub fn all(&self) -> &[Fact] {
        &self.facts
    }

    /// Returns the C source text.
    pub fn source(&self) -> String {
        let mut text = self.prelude.clone();
        text += "int main(void) {\n";
        for fact in self.facts.iter().filter(|f| !f.expr.is_empty()) {
            text += &format!("P(\"{}\", (uint64_t)({}));\n", fact.name, fact.expr);
        }
        text += &self.body;
        text += "return 0;\n}\n";
        text
    }

    /// Compiles and runs the program and returns the printed values.
    pub fn run(&self) -> BTreeMap<String, u64> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = env::temp_dir().join(format!("rkfd-abi-{}-{n}", process::id()));
        fs::create_dir_all(&dir).expect("temporary folder");
        let result = build_and_run(&dir, &self.source());
        fs::remove_dir_all(&dir).expect("temporary folder");
        parse(&result.unwrap_or_else(|e| panic!("{e}")))
    }

    /// Runs the program and compares. Returns the number of facts.
    ///
    /// # Panics
    ///
    /// Panics with all differences, if any.
    pub fn check(self) -> usize {
        let mismatches = compare(&self.facts, &self.run());
        if !mismatches.is_empty() {
            let lines: Vec<String> = mismatches.iter().map(|m| m.to_string()).collect();
            panic!(
                "{} of {} facts differ:\n{}",
                lines.len(),
                self.facts.len(),
                lines.join("\n")
            );
        }
        self.facts.len()
    }
}

fn build_and_run(dir: &Path, source: &str) -> Result<String, String> {
    let cc = env::var("CC").unwrap_or_else(|_| "gcc".to_string());
    let (c, bin) = (dir.join("facts.c"), dir.join("facts"));
    fs::write(&c, source).map_err(|e| format!("{}: {e}", c.display()))?;
    let built = Command::new(&cc)
        .args(["-std=gnu11", "-w", "-O0"])
        .arg("-I")
        .arg(amd())
        .arg("-I")
        .arg(amd().join("include"))
        .arg("-I")
        .arg(amd().join("include/asic_reg"))
        .arg("-o")
        .args([&bin, &c])
        .output()
        .map_err(|e| format!("{cc}: {e}"))?;
    if !built.status.success() {
        return Err(format!(
            "{cc} failed:\n{}",
            String::from_utf8_lossy(&built.stderr)
        ));
    }
    let ran = Command::new(&bin)
        .output()
        .map_err(|e| format!("{}: {e}", bin.display()))?;
    if !ran.status.success() {
        return Err(format!("the C program exited with {}", ran.status));
    }
    String::from_utf8(ran.stdout).map_err(|e| e.to_string())
}

fn parse(output: &str) -> BTreeMap<String, u64> {
    let mut map = BTreeMap::new();
    for line in output.lines() {
        let (name, value) = line
            .rsplit_once('=')
            .unwrap_or_else(|| panic!("bad line: {line}"));
        let value = u64::from_str_radix(value, 16).unwrap_or_else(|e| panic!("{line}: {e}"));
        map.insert(name.to_string(), value);
    }
    map
}

const SHIM: &str = r#"
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64;
typedef uint8_t __u8; typedef uint16_t __u16; typedef uint32_t __u32; typedef uint64_t __u64;
#define __packed __attribute__((packed))
#define __counted_by(x)
#define DECLARE_FLEX_ARRAY(t, n) struct { struct {} __empty_##n; t n[]; }
#define LITTLEENDIAN_CPU 1
#define le32_to_cpu(x) (x)
#define ALIGN(x, a) (((x) + ((a) - 1)) / (a) * (a))
#define P(name, value) printf("%s=%llx\n", name, (unsigned long long)(value))
"#;
