// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Generates the register modules from AMD's `asic_reg` headers in the kernel source tree that
//! `RKFD_KERNEL_SRC` names, for the registers that `registers.list` selects.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// The list of modules and registers, relative to this crate.
const LIST: &str = "registers.list";
/// The headers, relative to the kernel source tree.
const ASIC_REG: &str = "drivers/gpu/drm/amd/include/asic_reg";

/// One module: its source headers and the patterns that select registers.
#[derive(Default)]
struct Module {
    name: String,
    /// Folder and name of the headers, without `_offset.h` and `_sh_mask.h`.
    stem: String,
    about: String,
    want: Vec<String>,
    /// Patterns of registers without field constants.
    bare: Vec<String>,
    drop: Vec<String>,
    /// `REGISTER.FIELD` of fields that the header gives no mask.
    maskless: Vec<String>,
}

/// Shift and in-place mask of a field, as far as the header has them.
#[derive(Clone, Copy, Default)]
struct Bits {
    shift: Option<u32>,
    mask: Option<u32>,
}

/// The contents of a module's two headers.
#[derive(Default)]
struct Headers {
    /// Dword offsets, in the header's order.
    offsets: Vec<(String, u32)>,
    /// Base address indices.
    segs: HashMap<String, u32>,
    /// Fields by register and field name.
    fields: HashMap<String, BTreeMap<String, Bits>>,
}

fn fail(text: &str) -> ! {
    println!("cargo::error={text}");
    process::exit(1);
}

fn read(path: &Path) -> String {
    match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) => fail(&format!("{}: {e}", path.display())),
    }
}

/// Returns whether the shell pattern `glob` (`*`, `?`, `[set]`) matches all of `name`.
fn matches(glob: &[u8], name: &[u8]) -> bool {
    match (glob.first(), name.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            matches(&glob[1..], name) || !name.is_empty() && matches(glob, &name[1..])
        }
        (Some(b'?'), Some(_)) => matches(&glob[1..], &name[1..]),
        (Some(b'['), Some(c)) => {
            let Some(end) = glob.iter().position(|b| *b == b']') else {
                return false;
            };
            in_set(&glob[1..end], *c) && matches(&glob[end + 1..], &name[1..])
        }
        (Some(g), Some(c)) => g == c && matches(&glob[1..], &name[1..]),
        _ => false,
    }
}

/// Returns whether `c` is in the set `abc` or the range `a-c`, the forms that the list uses.
fn in_set(set: &[u8], c: u8) -> bool {
    match set {
        [from, b'-', to] => (*from..=*to).contains(&c),
        _ => set.contains(&c),
    }
}

fn any(globs: &[String], name: &str) -> bool {
    globs.iter().any(|g| matches(g.as_bytes(), name.as_bytes()))
}

fn parse_list(text: &str) -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let bad = |what: &str| -> ! { fail(&format!("{LIST}:{}: {what}", number + 1)) };
        let line = line.split('#').next().unwrap_or("").trim();
        if line.starts_with('[') && line.ends_with(']') && line.contains(' ') {
            let mut words = line[1..line.len() - 1].split_whitespace();
            let (Some(name), Some(stem)) = (words.next(), words.next()) else {
                bad("bad section head");
            };
            modules.push(Module {
                name: name.into(),
                stem: stem.into(),
                about: words.collect::<Vec<_>>().join(" "),
                ..Module::default()
            });
            continue;
        }
        for word in line.split_whitespace() {
            let Some(module) = modules.last_mut() else {
                bad("pattern before the first section");
            };
            let (to, pattern) = match word.as_bytes()[0] {
                b'!' => (&mut module.drop, &word[1..]),
                b'@' => (&mut module.bare, &word[1..]),
                b'~' => (&mut module.maskless, &word[1..]),
                _ => (&mut module.want, word),
            };
            to.push(pattern.into());
        }
    }
    modules
}

fn number(text: &str) -> Option<u32> {
    let text = text.trim_end_matches(['U', 'L']);
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Name and value of every `#define NAME NUMBER` in a header.
fn defines(text: &str) -> impl Iterator<Item = (&str, u32)> {
    text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("#define")?.split_whitespace();
        Some((words.next()?, number(words.next()?)?))
    })
}

impl Headers {
    fn read(asic_reg: &Path, stem: &str) -> Self {
        let mut headers = Self::default();
        for (name, value) in defines(&read(&asic_reg.join(format!("{stem}_offset.h")))) {
            let Some(name) = name.strip_prefix("reg") else {
                continue;
            };
            match name.strip_suffix("_BASE_IDX") {
                Some(name) => drop(headers.segs.insert(name.into(), value)),
                None => headers.offsets.push((name.into(), value)),
            }
        }
        for (name, value) in defines(&read(&asic_reg.join(format!("{stem}_sh_mask.h")))) {
            let Some((reg, field)) = name.split_once("__") else {
                continue;
            };
            let fields = headers.fields.entry(reg.into()).or_default();
            if let Some(field) = field.strip_suffix("__SHIFT") {
                fields.entry(field.into()).or_default().shift = Some(value);
            } else if let Some(field) = field.strip_suffix("_MASK") {
                fields.entry(field.into()).or_default().mask = Some(value);
            }
        }
        headers
    }
}

/// The selected registers of `module`, each with whether its field constants are wanted.
fn select<'a>(module: &Module, headers: &'a Headers) -> Vec<(&'a str, u32, bool)> {
    for pattern in [&module.want, &module.bare, &module.drop]
        .into_iter()
        .flatten()
    {
        let hit = |name: &str| matches(pattern.as_bytes(), name.as_bytes());
        if !headers.offsets.iter().any(|(name, _)| hit(name)) {
            fail(&format!("[{}] {pattern} matches no register", module.name));
        }
    }
    let mut chosen: Vec<(&str, u32, bool)> = headers
        .offsets
        .iter()
        .filter(|(name, _)| !any(&module.drop, name))
        .filter(|(name, _)| any(&module.want, name) || any(&module.bare, name))
        .map(|(name, off)| (name.as_str(), *off, any(&module.want, name)))
        .collect();
    chosen.sort_by_key(|(name, off, _)| (headers.segs.get(*name).copied(), *off, *name));
    chosen
}

/// The fields of `reg` with shift and mask, sorted by shift.
fn fields<'a>(module: &Module, headers: &'a Headers, reg: &str) -> Vec<(&'a str, u32, u32)> {
    let mut list = Vec::new();
    for (field, bits) in headers.fields.get(reg).into_iter().flatten() {
        let Some(shift) = bits.shift else { continue };
        let full = format!("{reg}.{field}");
        if module.maskless.contains(&full) {
            if bits.mask.is_some() {
                fail(&format!("[{}] {full} has a mask", module.name));
            }
            continue;
        }
        match bits.mask {
            Some(mask) if mask != 0 && mask.trailing_zeros() == shift => {
                list.push((field.as_str(), shift, mask));
            }
            Some(mask) => fail(&format!(
                "{full}: shift {shift} does not fit mask {mask:#x}"
            )),
            None => fail(&format!("{full} has a shift but no mask")),
        }
    }
    list.sort_by_key(|(_, shift, _)| *shift);
    list
}

/// Appends the module to `out`.
fn emit(out: &mut String, module: &Module, headers: &Headers) -> std::fmt::Result {
    let (mut all, mut named) = (String::new(), String::new());
    writeln!(out, "/// Registers of the {}.", module.about)?;
    writeln!(out, "#[allow(missing_docs, non_upper_case_globals)]")?;
    writeln!(out, "pub mod {} {{", module.name)?;
    writeln!(out, "use super::{{Field, Reg, RegInfo}};")?;
    for (name, off, with_fields) in select(module, headers) {
        let Some(seg) = headers.segs.get(name) else {
            fail(&format!("[{}] {name} has no base index", module.name));
        };
        writeln!(
            out,
            "pub const reg{name}: Reg = Reg {{ name: \"reg{name}\", seg: {seg}, off: {off:#06x} }};"
        )?;
        let mut union = 0;
        for (field, shift, mask) in fields(module, headers, name) {
            union |= mask;
            if with_fields {
                writeln!(
                    out,
                    "pub const {name}__{field}: Field = Field::new({shift}, {mask:#010x});"
                )?;
                writeln!(named, "(\"{name}__{field}\", {name}__{field}),")?;
            }
        }
        writeln!(all, "RegInfo {{ reg: reg{name}, mask: {union:#010x} }},")?;
    }
    writeln!(out, "/// Every register of the module, sorted by address.")?;
    writeln!(out, "pub static ALL: &[RegInfo] = &[\n{all}];")?;
    writeln!(out, "/// Every field constant of the module by name.")?;
    writeln!(
        out,
        "pub static FIELDS: &[(&str, Field)] = &[\n{named}];\n}}"
    )
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={LIST}");
    println!("cargo::rerun-if-env-changed=RKFD_KERNEL_SRC");
    let Some(source) = env::var_os("RKFD_KERNEL_SRC") else {
        fail("RKFD_KERNEL_SRC is not set: run cargo through scripts/in-root, or name a kernel source tree");
    };
    let asic_reg = Path::new(&source).join(ASIC_REG);
    if !asic_reg.is_dir() {
        fail(&format!(
            "RKFD_KERNEL_SRC={}: no {ASIC_REG} in it",
            source.to_string_lossy()
        ));
    }
    let mut out = String::new();
    for module in parse_list(&read(Path::new(LIST))) {
        let headers = Headers::read(&asic_reg, &module.stem);
        for kind in ["offset", "sh_mask"] {
            let path = asic_reg.join(format!("{}_{kind}.h", module.stem));
            println!("cargo::rerun-if-changed={}", path.display());
        }
        if emit(&mut out, &module, &headers).is_err() {
            fail("out of memory");
        }
    }
    let to = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("regs.rs");
    if let Err(e) = fs::write(&to, out) {
        fail(&format!("{}: {e}", to.display()));
    }
}
