// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Parses the output of `compare` in the guest.

use std::collections::BTreeMap;

/// Cost and result of one kind of call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// Return value.
    pub ret: i64,
    /// Work of the calling thread: median and minimum.
    pub own: (u64, u64),
    /// Elapsed: median and minimum.
    pub elapsed: (u64, u64),
}

/// Mapping used by the GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Its name.
    pub name: String,
    /// Start address.
    pub va: u64,
    /// Size, in bytes.
    pub size: u64,
    /// Return value of the calls that created it.
    pub ret: i64,
}

/// Output of the guest.
#[derive(Debug, Default)]
pub struct Guest {
    /// Lines per topology file.
    pub topology: BTreeMap<String, Vec<String>>,
    /// Type and permissions, and lines, per file of sysfs.
    pub sysfs: BTreeMap<String, Vec<String>>,
    /// Calls in the order of the first round.
    pub calls: Vec<Call>,
    /// Values by query.
    pub values: BTreeMap<String, String>,
    /// Mappings in order.
    pub mappings: Vec<Mapping>,
    /// Memory in bytes: of the guest, of the GPU, and of the guest for the GPU.
    pub memory: Vec<(String, [i64; 3])>,
    /// Step that follows each mark.
    pub marks: BTreeMap<u32, String>,
    /// Reason for a premature end.
    pub failed: Option<String>,
    /// The program completed.
    pub done: bool,
}

/// Returns the value of the first `key=value` word.
pub fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split_whitespace()
        .filter_map(|word| word.split_once('='))
        .find(|(k, _)| *k == key)
        .map(|(_, v)| v)
}

/// Parses a number, decimal or with 0x.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Adds a line of a file, or the words that follow its name.
fn add_line(files: &mut BTreeMap<String, Vec<String>>, rest: &str) {
    let (file, line) = match rest.split_once(": ") {
        Some(pair) => pair,
        None => rest.split_once(' ').unwrap_or((rest, "")),
    };
    let lines = files.entry(file.trim_end_matches(':').into());
    lines.or_default().push(line.into());
}

impl Guest {
    /// Parses the output of a boot; ignores lines of other programs.
    pub fn parse(text: &str) -> Self {
        let mut guest = Self::default();
        for line in text.lines() {
            let Some((kind, rest)) = line
                .trim_end()
                .strip_prefix("cmp ")
                .map(|l| l.split_once(' ').unwrap_or((l, "")))
            else {
                continue;
            };
            guest.line(kind, rest);
        }
        guest
    }

    fn line(&mut self, kind: &str, rest: &str) {
        let get = |key| value(rest, key).and_then(number).unwrap_or(0);
        let signed = |key| value(rest, key).and_then(|v| v.parse().ok()).unwrap_or(0);
        let name = rest.split(' ').next().unwrap_or("").to_string();
        match kind {
            "topology" => add_line(&mut self.topology, rest),
            "sysfs" => add_line(&mut self.sysfs, rest),
            "call" => self.calls.push(Call {
                name,
                ret: signed("ret"),
                own: (get("own"), get("own_min")),
                elapsed: (get("elapsed"), get("elapsed_min")),
            }),
            "value" => {
                let value = rest.split(' ').nth(1).unwrap_or("");
                self.values.insert(name, value.into());
            }
            "map" => self.mappings.push(Mapping {
                name,
                va: get("va"),
                size: get("size"),
                ret: signed("ret"),
            }),
            "memory" => {
                let bytes = [signed("guest"), signed("vram"), signed("gtt")];
                self.memory.push((name, bytes));
            }
            "mark" => {
                if let (Ok(n), Some((_, what))) = (name.parse(), rest.split_once(' ')) {
                    self.marks.insert(n, what.into());
                }
            }
            "failed" => self.failed = Some(rest.into()),
            "done" => self.done = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_all_line_kinds() {
        let guest = Guest::parse(
            "KTAP\ncmp sysfs device/a file 444\ncmp sysfs device/a: 0: 1\n\
             cmp topology nodes/1/properties mode 444\ncmp topology nodes/1/properties: a 1\n\
             cmp call GET ret=-22 rounds=7 own=5 own_min=4 elapsed=9 elapsed_min=8\r\n\
             cmp value base 0x10\ncmp map gtt va=0x1000 size=0x2000 ret=0\n\
             cmp memory process guest=-4096 vram=8 gtt=0\ncmp mark 3 kind aql\ncmp done\n",
        );
        assert_eq!(guest.topology["nodes/1/properties"], ["mode 444", "a 1"]);
        assert_eq!(guest.sysfs["device/a"], ["file 444", "0: 1"]);
        assert_eq!((guest.calls[0].ret, guest.calls[0].own), (-22, (5, 4)));
        assert_eq!(guest.values["base"], "0x10");
        assert_eq!(
            (guest.mappings[0].va, guest.mappings[0].size),
            (0x1000, 0x2000)
        );
        assert_eq!(guest.memory[0], ("process".into(), [-4096, 8, 0]));
        assert_eq!(guest.marks[&3], "kind aql");
        assert!(guest.done);
    }
}
