// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The report: differences, with reasons where known, and tables.
//!
//! With one driver it lists what would be compared.

mod life;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use rkfd_abi::pm4;

use crate::decode::{self, Item};
use crate::guest::{Guest, Mapping};
use crate::intended::Intended;
use crate::trace::{Act, Frame, Section, Walk};
use crate::{tables, Run};

/// Steps of a queue whose acts are compared.
const STEPS: &[&str] = &[
    "aql CREATE_QUEUE",
    "aql UPDATE_QUEUE",
    "aql SET_CU_MASK",
    "aql UPDATE_QUEUE.inactive",
    "aql DESTROY_QUEUE",
    "pm4 CREATE_QUEUE",
    "pm4 DESTROY_QUEUE",
    "sdma CREATE_QUEUE",
    "sdma DESTROY_QUEUE",
    "map UNMAP_MEMORY.vram_4K",
    "map UNMAP_MEMORY.gtt_4K",
    "map UNMAP_MEMORY.userptr_64K",
];

/// Report under construction.
pub struct Report<'a> {
    runs: &'a [Run],
    intended: Intended,
    /// Start of the keys that are compared.
    kind: &'static str,
    out: String,
    unexplained: u32,
    explained: u32,
    reasons: BTreeMap<String, u32>,
    seen: BTreeSet<String>,
}

impl<'a> Report<'a> {
    fn empty(runs: &'a [Run], intended: Intended) -> Self {
        Self {
            runs,
            intended,
            kind: "",
            out: String::new(),
            unexplained: 0,
            explained: 0,
            reasons: BTreeMap::new(),
            seen: BTreeSet::new(),
        }
    }

    /// Returns a report about the files in sysfs of one or two runs.
    pub fn of_sysfs(runs: &'a [Run], intended: Intended) -> Self {
        let mut report = Self::empty(runs, intended);
        report.kind = "sysfs/";
        report.part("Files in sysfs", Self::sysfs);
        report
    }

    /// Returns a report about one or two runs.
    pub fn new(runs: &'a [Run], intended: Intended) -> Self {
        let mut report = Self::empty(runs, intended);
        report.part("Topology", Self::topology);
        report.part("Files in sysfs", Self::sysfs);
        report.part("Results of ioctls", Self::results);
        report.part("Queues: accesses to the GPU", Self::steps);
        report.part("Schedulers of the XCCs", Self::xccs);
        report.part("Packets of the bring-up", Self::set_up_packets);
        report.part("Frames of MES", Self::frames);
        report.part("Descriptors (MQDs)", Self::descriptors);
        report.part("Page-table entries of the same mapping", Self::mappings);
        report.part("Registers of the bring-up", Self::registers);
        report.part("Resets, debugger, unbind", Self::life);
        for (title, text) in [
            ("Steps in numbers", tables::sections(runs)),
            ("Cost of calls", tables::calls(runs)),
            ("Memory", tables::memory(runs)),
            ("Accesses of the bring-up", tables::bring_up(runs)),
        ] {
            report.heading(title);
            report.out += &text;
        }
        report
    }

    fn heading(&mut self, title: &str) {
        let _ = write!(self.out, "\n== {title}\n\n");
    }

    fn part(&mut self, title: &str, f: fn(&mut Self)) {
        self.heading(title);
        let before = (self.unexplained, self.explained);
        f(self);
        if self.runs.len() == 2 && before == (self.unexplained, self.explained) {
            self.out += "no difference\n";
        }
    }

    /// Adds a difference; each key once.
    fn differs(&mut self, key: &str, a: &str, b: &str) {
        if !self.seen.insert(key.into()) {
            return;
        }
        let [one, two] = self.runs else { return };
        let verdict = match self.intended.reason(key) {
            Some(reason) => {
                self.explained += 1;
                let reason = reason.to_string();
                *self.reasons.entry(reason).or_default() += 1;
                "intended"
            }
            None => {
                self.unexplained += 1;
                "NOT EXPLAINED"
            }
        };
        let _ = writeln!(self.out, "{verdict:<14} {key}");
        let _ = writeln!(self.out, "    {:<8} {a}\n    {:<8} {b}", one.name, two.name);
    }

    /// Adds an equal value worth showing.
    fn same(&mut self, key: &str, text: &str) {
        if self.seen.insert(key.into()) {
            let _ = writeln!(self.out, "{:<14} {key}\n    {:<8} {text}", "same", "both");
        }
    }

    fn compare(&mut self, key: &str, a: &str, b: &str) {
        if a != b {
            self.differs(key, a, b);
        }
    }

    fn topology(&mut self) {
        self.files("topology", |guest| &guest.topology, properties);
    }

    fn sysfs(&mut self) {
        self.files("sysfs", |guest| &guest.sysfs, numbered);
    }

    /// Compares files: which there are, and what `split` makes of their lines.
    fn files(
        &mut self,
        kind: &str,
        of: fn(&Guest) -> &BTreeMap<String, Vec<String>>,
        split: fn(&[String]) -> BTreeMap<String, String>,
    ) {
        let [a, b] = self.runs else {
            let files = of(&self.runs[0].guest);
            let lines: usize = files.values().map(Vec::len).sum();
            let _ = writeln!(self.out, "{} files, {lines} lines", files.len());
            return;
        };
        let (a, b) = (of(&a.guest), of(&b.guest));
        let files: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        for file in files {
            let (Some(a), Some(b)) = (a.get(file), b.get(file)) else {
                let presence = |present: bool| if present { "present" } else { "absent" };
                // Listed folders stand for what is in them.
                let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
                if a.contains_key(folder) != b.contains_key(folder) {
                    continue;
                }
                let key = format!("{kind}/{file}");
                self.differs(
                    &key,
                    presence(a.contains_key(file)),
                    presence(b.contains_key(file)),
                );
                continue;
            };
            let (a, b) = (split(a), split(b));
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in keys {
                let get = |map: &BTreeMap<String, String>| {
                    map.get(name).cloned().unwrap_or("absent".into())
                };
                self.compare(&format!("{kind}/{file}:{name}"), &get(&a), &get(&b));
            }
        }
    }

    fn results(&mut self) {
        let [a, b] = self.runs else {
            for (name, value) in &self.runs[0].guest.values {
                let _ = writeln!(self.out, "{name:<28} {value}");
            }
            return;
        };
        let names: BTreeSet<&String> = a.guest.values.keys().chain(b.guest.values.keys()).collect();
        for name in names {
            let of = |run: &Run| {
                run.guest
                    .values
                    .get(name)
                    .map_or("not queried".into(), String::clone)
            };
            self.compare(&format!("value/{name}"), &of(a), &of(b));
        }
        let names = a.guest.calls.iter().chain(&b.guest.calls);
        for name in names.map(|c| &c.name) {
            let of = |run: &Run| {
                let call = run.guest.calls.iter().find(|c| c.name == *name);
                call.map_or("not called".into(), |c| c.ret.to_string())
            };
            self.compare(&format!("errno/{name}"), &of(a), &of(b));
        }
    }

    fn steps(&mut self) {
        for name in STEPS {
            let sections: Vec<_> = self.runs.iter().map(|r| r.trace.section(name)).collect();
            match sections[..] {
                [Some(a), Some(b)] => self.step(name, a, b),
                [Some(a)] => {
                    let _ = writeln!(self.out, "{name}:\n    {}", sequence(a).join("\n    "));
                }
                _ => {
                    let presence = |s: Option<&&Section>| match s {
                        Some(_) => "present",
                        None => "no such step",
                    };
                    let of = |n: usize| presence(sections.get(n).and_then(Option::as_ref));
                    self.differs(&format!("step/{name}"), of(0), of(1));
                }
            }
        }
    }

    fn step(&mut self, name: &str, a: &Section, b: &Section) {
        let (ours, theirs) = (sequence(a).join(", "), sequence(b).join(", "));
        let key = format!("step/{name}");
        if ours == theirs {
            self.same(&key, &ours);
        } else {
            self.differs(&key, &ours, &theirs);
        }
        let packets = |s: &Section, listed: bool| -> Vec<Vec<u32>> {
            let take = |act: &Act| match act {
                Act::Packet(_, words) if !listed => Some(words.clone()),
                Act::Listed(words) if listed => Some(words.clone()),
                _ => None,
            };
            s.acts.iter().filter_map(take).collect()
        };
        for listed in [false, true] {
            let mut rest = packets(b, listed);
            for ours in packets(a, listed) {
                let op = decode::packet_name(&ours);
                let kind = |w: &[u32]| (decode::packet_name(w), engine_of(w, listed));
                let Some(at) = rest.iter().position(|w| kind(w) == kind(&ours)) else {
                    continue;
                };
                let theirs = rest.remove(at);
                let items = decode::packet(&ours, listed);
                if self.seen.insert(format!("compared {op}")) {
                    let dwords = ours.len();
                    let _ = writeln!(
                        self.out,
                        "compared       packet/{op}: {dwords} dwords, field by field in every step"
                    );
                }
                self.items(
                    &format!("packet/{op}"),
                    &items,
                    &decode::packet(&theirs, listed),
                );
            }
        }
    }

    /// Compares the packets that configure the schedulers: SET_RESOURCES of KIQ and HIQ, and the
    /// KIQ's MAP_QUEUES of the HIQ.
    fn set_up_packets(&mut self) {
        let [a, b] = self.runs else {
            return;
        };
        let (ours, theirs) = (set_up_packets(a), set_up_packets(b));
        for (key, words) in &ours {
            match theirs.get(key) {
                Some(other) => {
                    let prefix = format!("bring-up/{key}");
                    let _ = writeln!(self.out, "compared       {prefix}: {} dwords", words.len());
                    let items = decode::packet(words, false);
                    self.items(&prefix, &items, &decode::packet(other, false));
                }
                None => self.differs(&format!("bring-up/{key}"), "sent", "not sent"),
            }
        }
        for key in theirs.keys().filter(|key| !ours.contains_key(*key)) {
            self.differs(&format!("bring-up/{key}"), "not sent", "sent");
        }
    }

    /// Compares the frames of MES, one by one of each kind: those of the bring-up, then those of
    /// each step that both drivers have.
    fn frames(&mut self) {
        let [a, b] = self.runs else {
            return;
        };
        let (ours, theirs) = (frames(&a.trace.bring_up), frames(&b.trace.bring_up));
        let setup: Vec<_> = [&ours, &theirs].map(|list| set_up(list)).into();
        self.pairs("frame/bring-up", &setup[0], &setup[1]);
        for section in &a.trace.sections {
            let Some(other) = b.trace.section(&section.name) else {
                continue;
            };
            if !section.name.is_empty() && !life::STEPS.contains(&section.name.as_str()) {
                self.pairs("frame", &frames(section), &frames(other));
            }
        }
    }

    /// Compares frames of the same kind in their order.
    fn pairs(&mut self, prefix: &str, ours: &[&Frame], theirs: &[&Frame]) {
        let mut rest = theirs.to_vec();
        for a in ours {
            let Some(at) = rest.iter().position(|b| kind(b) == kind(a)) else {
                self.differs(&format!("{prefix}/{}", kind(a)), "sent", "not sent");
                continue;
            };
            let b = rest.remove(at);
            let key = format!("{prefix}/{}", kind(a));
            if self.seen.insert(format!("compared {key}")) {
                let fields = a.fields.len();
                let _ = writeln!(
                    self.out,
                    "compared       {key}: {fields} fields that are not 0"
                );
            }
            self.items(&key, &decode::frame(a, b), &decode::frame(b, a));
        }
        for b in rest {
            self.differs(&format!("{prefix}/{}", kind(b)), "not sent", "sent");
        }
    }

    /// Compares the packets of the schedulers with those of XCC 0, and the MQDs of their HIQs and
    /// of an AQL queue. The XCCs do not execute a packet at the same time, so that single steps are
    /// those of XCC 0.
    fn xccs(&mut self) {
        let [a, b] = self.runs else {
            return;
        };
        for xcc in 1..a.trace.xccs().max(b.trace.xccs()) {
            let of = |run: &Run| match run.trace.follows(xcc) {
                true => "those of XCC 0".to_string(),
                false => format!("other ones than XCC 0, in {}", run.name),
            };
            let (ours, theirs) = (of(a), of(b));
            let key = format!("xcc/{xcc}:packets");
            if ours == theirs {
                self.same(&key, &ours);
            } else {
                self.differs(&key, &ours, &theirs);
            }
            if let (Some(ours), Some(theirs)) = (hiq(a, xcc), hiq(b, xcc)) {
                self.items("mqd/hiq", &ours, &theirs);
            }
            for step in AQL_STEPS {
                match (compute(a, xcc, step), compute(b, xcc, step)) {
                    (Some(ours), Some(theirs)) => {
                        let _ = writeln!(self.out, "compared       mqd/xcc{xcc}: {step}");
                        self.items(&format!("mqd/xcc{xcc}"), &ours, &theirs);
                    }
                    (ours, theirs) => {
                        let of = |image: Option<_>| image.map_or("not loaded", |_| "loaded");
                        self.compare(&format!("mqd/xcc{xcc}:{step}"), of(ours), of(theirs));
                    }
                }
            }
        }
    }

    /// Compares named values; of places only the presence.
    fn items(&mut self, prefix: &str, a: &[Item], b: &[Item]) {
        for (a, b) in a.iter().zip(b) {
            let seen = |item: &Item| match (item.place, item.value) {
                // The low half of an address is arbitrary.
                (true, _) => String::new(),
                (false, value) => format!("{value:#x}"),
            };
            self.compare(&format!("{prefix}:{}", a.name), &seen(a), &seen(b));
        }
        if a.len() != b.len() {
            let key = format!("{prefix}:length");
            self.differs(&key, &a.len().to_string(), &b.len().to_string());
        }
    }

    fn descriptors(&mut self) {
        type Pick = fn(&Run) -> Option<Vec<Item>>;
        let picks: [(&str, Pick); 6] = [
            ("hiq", |r| hiq(r, 0)),
            ("aql", |r| compute(r, 0, AQL_STEPS[0])),
            ("aql.updated", |r| compute(r, 0, AQL_STEPS[1])),
            ("aql.masked", |r| compute(r, 0, AQL_STEPS[2])),
            ("pm4", |r| compute(r, 0, "pm4 CREATE_QUEUE")),
            ("sdma", |r| sdma(r, "sdma CREATE_QUEUE")),
        ];
        for (name, pick) in picks {
            let images: Vec<_> = self.runs.iter().map(pick).collect();
            match &images[..] {
                [Some(a), Some(b)] => {
                    let written = |list: &[Item]| list.iter().filter(|i| i.value != 0).count();
                    let _ = writeln!(
                        self.out,
                        "compared       mqd/{name}: {} dwords, of which {} and {} are not 0",
                        a.len(),
                        written(a),
                        written(b)
                    );
                    self.items(&format!("mqd/{name}"), a, b);
                }
                [Some(a)] => {
                    let _ = writeln!(self.out, "{name}:");
                    for item in a.iter().filter(|i| i.value != 0) {
                        let _ = writeln!(self.out, "    {:<40} {:#x}", item.name, item.value);
                    }
                }
                [None] | [None, None] => {
                    let _ = writeln!(self.out, "{name}: none was loaded");
                }
                _ => {
                    let of =
                        |i: &Option<Vec<Item>>| if i.is_some() { "loaded" } else { "not loaded" };
                    self.differs(&format!("mqd/{name}"), of(&images[0]), of(&images[1]));
                }
            }
        }
    }

    fn mappings(&mut self) {
        let mut walks_compared = 0;
        let gfx12 = self.runs[0].trace.gfx12;
        let walk_text = |walk: &Walk| walk_text(walk, gfx12);
        for mapping in &self.runs[0].guest.mappings {
            let all: Vec<Option<&Mapping>> = self
                .runs
                .iter()
                .map(|r| r.guest.mappings.iter().find(|m| m.name == mapping.name))
                .collect();
            let rets: Vec<String> = all
                .iter()
                .map(|m| m.map_or("not tried".into(), |m| m.ret.to_string()))
                .collect();
            if let [a, b] = &rets[..] {
                self.compare(&format!("pte/{}:errno", mapping.name), a, b);
            }
            for last in [false, true] {
                let walks: Vec<Option<&Walk>> = self
                    .runs
                    .iter()
                    .zip(&all)
                    .map(|(run, m)| m.and_then(|m| walk_of(run, m, last)))
                    .collect();
                let place = if last { "last" } else { "first" };
                let name = format!("{}.{place}", mapping.name);
                match walks[..] {
                    [Some(walk)] => {
                        let _ = writeln!(self.out, "{name:<26} {}", walk_text(walk));
                    }
                    [Some(a), Some(b)] => {
                        walks_compared += 1;
                        if decode::entries(&a.entries) != decode::entries(&b.entries) {
                            self.differs(&format!("pte/{name}"), &walk_text(a), &walk_text(b));
                        } else if !last {
                            self.same(&format!("pte/{name}"), &walk_text(a));
                        }
                    }
                    [None, None] | [None] | [] => {}
                    _ => {
                        let of = |w: Option<&Walk>| w.map_or("not walked".into(), walk_text);
                        self.differs(&format!("pte/{name}"), &of(walks[0]), &of(walks[1]));
                    }
                }
            }
        }
        if let [a, b] = self.runs {
            let [a, b] = [a, b].map(|run| {
                let flags = run.trace.gart.iter();
                let flags: Vec<String> = flags.map(|e| decode::flags(*e, true, gfx12)).collect();
                flags.join(" | ")
            });
            self.compare("pte/gart", &a, &b);
            let _ = writeln!(
                self.out,
                "compared       {walks_compared} walks of {} mappings; addresses are those of the first driver, and are not compared",
                self.runs[0].guest.mappings.len()
            );
        }
    }

    /// Returns the text and the number of unexplained differences.
    pub fn finish(self) -> (String, u32) {
        let names: Vec<&str> = self.runs.iter().map(|r| r.name.as_str()).collect();
        let mut text = format!(
            "{} on the same GPU model, the same workload\n",
            names.join(" and ")
        );
        if self.runs.len() == 2 {
            let _ = writeln!(
                text,
                "{} differences are intended, {} are not explained (NOT EXPLAINED below)",
                self.explained, self.unexplained
            );
            for (reason, count) in &self.reasons {
                let _ = writeln!(text, "  {count:>4}  {reason}");
            }
            let of_kind = |patterns: &&[String]| patterns.iter().any(|p| p.starts_with(self.kind));
            for patterns in self.intended.unused().filter(of_kind) {
                let _ = writeln!(text, "  no difference matches {}", patterns.join(", "));
            }
        } else {
            text += "(one driver only: what there is to compare)\n";
        }
        (text + &self.out, self.unexplained)
    }
}

/// Returns `name value` lines as a map; other lines by line number. Bit fields are split, so that
/// each bit can have its own reason.
fn properties(lines: &[String]) -> BTreeMap<String, String> {
    let mut map = BTreeMap::new();
    for (n, line) in lines.iter().enumerate() {
        if let Some(Ok(bits)) = line.strip_prefix("capability ").map(|v| v.trim().parse()) {
            for (name, value) in decode::capability(bits) {
                map.insert(format!("capability.{name}"), value.to_string());
            }
            continue;
        }
        match line.split_once(' ') {
            Some((name, value)) => map.insert(name.to_string(), value.trim().to_string()),
            None => map.insert(format!("line{n}"), line.clone()),
        };
    }
    map
}

/// Returns type and permissions, and the lines by number from 1 on.
fn numbered(lines: &[String]) -> BTreeMap<String, String> {
    let name = |n: usize| match n {
        0 => "type".to_string(),
        _ => format!("line{n}"),
    };
    lines
        .iter()
        .enumerate()
        .map(|(n, line)| (name(n), line.clone()))
        .collect()
}

/// Returns the first packet of each kind that configures the schedulers of the first XCC.
fn set_up_packets(run: &Run) -> BTreeMap<String, &[u32]> {
    let mut packets = BTreeMap::new();
    for act in &run.trace.bring_up.acts {
        let Act::Packet(owner, words) = act else {
            continue;
        };
        let name = decode::packet_name(words);
        let hiq = u64::from(pm4::map_queues::ENGINE_SEL_HIQ);
        if name == "SET_RESOURCES" || name == "MAP_QUEUES" && engine_of(words, false) == hiq {
            let key = format!("{owner:?}.{name}").to_lowercase();
            packets.entry(key).or_insert(words.as_slice());
        }
    }
    packets
}

/// Returns the frames of a section.
fn frames(section: &Section) -> Vec<&Frame> {
    let acts = section.acts.iter();
    acts.filter_map(|act| match act {
        Act::Frame(frame) => Some(frame),
        _ => None,
    })
    .collect()
}

/// Returns the frames that configure MES and map the rings of the kernel.
fn set_up<'a>(frames: &[&'a Frame]) -> Vec<&'a Frame> {
    let of_setup = |f: &&&Frame| {
        f.op.starts_with("SET_HW_RSRC")
            || f.op == "CHANGE_CONFIG"
            || f.op == "ADD_QUEUE" && f.get("map_legacy_kq") != 0
    };
    frames.iter().filter(of_setup).copied().collect()
}

/// Returns what identifies the kind of a frame: pipe, opcode, type of the queue; flushes of a
/// process context have no other fields.
fn kind(frame: &Frame) -> String {
    let flush = match frame.get("process_ctx_flush") {
        0 => "",
        _ => ".flush",
    };
    let ring = match frame.get("map_legacy_kq") | frame.get("unmap_legacy_queue") {
        0 => "",
        _ => ".ring",
    };
    let queue = match frame.op.ends_with("_QUEUE") {
        true => format!(".{}{ring}", frame.get("queue_type")),
        false => String::new(),
    };
    format!("pipe{}.{}{queue}{flush}", frame.pipe, frame.op)
}

/// Returns the engine of a MAP_QUEUES, to pair queues of the same kind.
fn engine_of(words: &[u32], listed: bool) -> u64 {
    decode::packet(words, listed)
        .iter()
        .find(|i| i.name == "ENGINE_SEL")
        .map_or(0, |i| i.value)
}

/// Steps after which the MQD of an AQL queue is compared.
const AQL_STEPS: [&str; 3] = ["aql CREATE_QUEUE", "aql UPDATE_QUEUE", "aql SET_CU_MASK"];

/// Registers of interrupts and polls, written asynchronously.
const ASYNCHRONOUS: &[&str] = &["IH_RB_RPTR", "IH_RB_CNTL", "IH_DOORBELL_RPTR"];

/// Register used by an SDMA job for its HDP flush. Kernel jobs clear unused memory asynchronously.
const FLUSH_OF_A_JOB: &str = "GPU_HDP_FLUSH_REQ";

/// Returns the acts of a section as text, repetitions merged.
fn sequence(section: &Section) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    let mut of_a_job = false;
    for act in &section.acts {
        let text = match act {
            Act::Register(name, ..) if ASYNCHRONOUS.iter().any(|a| name.contains(a)) => continue,
            Act::Register(name, ..) if name.contains(FLUSH_OF_A_JOB) => {
                of_a_job = true;
                continue;
            }
            Act::HdpFlush if std::mem::take(&mut of_a_job) => continue,
            Act::Register(name, value, _) => format!("{name}={value:#x}"),
            // Their order relative to packets is not deterministic.
            Act::Doorbell(_) => continue,
            Act::HdpFlush => "HDP flush".into(),
            Act::Invalidate(hub) => format!("invalidate {hub}"),
            Act::Packet(owner, words) => format!("{owner:?}: {}", decode::packet_name(words)),
            Act::Listed(words) => format!("runlist: {}", decode::packet_name(words)),
            Act::Frame(frame) => format!("MES: {}", kind(frame)),
            Act::Mqd(..) | Act::SdmaMqd(..) | Act::HiqMqd(_) | Act::KernelCopy(_) => continue,
        };
        if list.last() != Some(&text) {
            list.push(text);
        }
    }
    list
}

/// Returns the MQD of the HIQ on an XCC.
fn hiq(run: &Run, xcc: u64) -> Option<Vec<Item>> {
    let acts = match xcc {
        0 => &run.trace.bring_up.acts,
        _ => run.trace.bring_up.others.get(&xcc)?,
    };
    acts.iter().find_map(|act| match act {
        Act::HiqMqd(words) => Some(decode::hiq_mqd(words)),
        _ => None,
    })
}

/// Returns the compute MQD that an XCC loaded last in a step: there is one compute queue at that
/// time.
fn compute(run: &Run, xcc: u64, step: &str) -> Option<Vec<Item>> {
    let section = run.trace.section(step)?;
    let acts = match xcc {
        0 => &section.acts,
        _ => section.others.get(&xcc)?,
    };
    acts.iter().rev().find_map(|act| match act {
        Act::Mqd(_, words) => Some(decode::mqd(words, run.trace.gfx12)),
        _ => None,
    })
}

/// Returns the SDMA MQD first loaded in a step: the other one belongs to the marks.
fn sdma(run: &Run, step: &str) -> Option<Vec<Item>> {
    let section = run.trace.section(step)?;
    section.acts.iter().find_map(|act| match act {
        Act::SdmaMqd(at, words) if !section.before.contains(at) => {
            Some(decode::sdma_mqd(words, run.trace.gfx12))
        }
        _ => None,
    })
}

/// Returns the page-table walk of the first or last page of a mapping.
fn walk_of<'a>(run: &'a Run, mapping: &Mapping, last: bool) -> Option<&'a Walk> {
    let page = match last {
        false => mapping.va,
        true => (mapping.va + mapping.size - 1) & !0xfff,
    };
    let ours = |s: &&Section| s.name.ends_with(&format!(" {}", mapping.name)) || s.name.is_empty();
    let walks = run
        .trace
        .sections
        .iter()
        .filter(ours)
        .flat_map(|s| &s.walks);
    walks.filter(|w| w.va == page).last()
}

fn walk_text(walk: &Walk, gfx12: bool) -> String {
    let levels = walk.entries.len().saturating_sub(1);
    let entry = |(n, &entry): (usize, &u64)| {
        let leaf = n == levels;
        format!("[{entry:#x}: {}]", decode::flags(entry, leaf, gfx12))
    };
    let list: Vec<String> = walk.entries.iter().enumerate().skip(1).map(entry).collect();
    list.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Trace;

    fn run(name: &str, out: &str) -> Run {
        let guest = Guest::parse(out);
        let trace = Trace::parse("", &guest.marks);
        Run {
            name: name.into(),
            guest,
            trace,
        }
    }

    #[test]
    fn absent_folder_stands_for_its_files() {
        let one = "cmp sysfs a folder 755\ncmp sysfs a/b file 444\ncmp sysfs a/b: 1\n";
        let two = "cmp sysfs c file 444\ncmp sysfs c: 2\n";
        let runs = [
            run("x", &format!("{one}{two}")),
            run("y", "cmp sysfs c file 644\n"),
        ];
        let (text, unexplained) = Report::of_sysfs(&runs, Intended::default()).finish();
        assert_eq!(unexplained, 3, "{text}");
        for key in ["sysfs/a\n", "sysfs/c:type\n", "sysfs/c:line1\n"] {
            assert!(text.contains(key), "{key} in {text}");
        }
    }

    #[test]
    fn difference_without_reason_is_unexplained() {
        let runs = [
            run(
                "a",
                "cmp topology nodes/1/properties: num_gws 64\ncmp value base 0x1\n",
            ),
            run(
                "b",
                "cmp topology nodes/1/properties: num_gws 0\ncmp value base 0x1\ncmp value more 0x2\n",
            ),
        ];
        let (text, unexplained) = Report::new(&runs, Intended::default()).finish();
        let key = "topology/nodes/1/properties:num_gws";
        assert!(text.contains(&format!("NOT EXPLAINED  {key}")), "{text}");
        assert!(!text.contains("value/base"));
        assert!(
            text.contains("value/more"),
            "a value of the second run only counts, too"
        );
        let intended = Intended::parse("``topology/*:num_gws``\n    Why not.\n");
        let (text, left) = Report::new(&runs, intended).finish();
        assert_eq!(left + 1, unexplained);
        assert!(text.contains("   1  Why not."), "{text}");
    }

    #[test]
    fn hdp_flushes_of_clearing_jobs_are_ignored() {
        let write = |name: &str| Act::Register(name.into(), 0x400, 0xe26);
        let job = write("regBIF_BX_PF0_GPU_HDP_FLUSH_REQ");
        let acts = vec![Act::HdpFlush, job, Act::HdpFlush, write("regX")];
        let section = Section {
            acts,
            ..Section::default()
        };
        assert_eq!(sequence(&section), ["HDP flush", "regX=0x400"]);
    }

    #[test]
    fn places_compare_presence_only() {
        let runs = [run("a", ""), run("b", "")];
        let mut report = Report::new(&runs, Intended::default());
        let item = |place, value| Item {
            name: "ADDR".into(),
            value,
            place,
        };
        let before = report.unexplained;
        report.items("x", &[item(true, 1)], &[item(true, 2)]);
        assert_eq!(report.unexplained, before);
        report.items("x", &[item(false, 1)], &[item(false, 2)]);
        assert_eq!(report.unexplained, before + 1);
        // Reported only once.
        report.items("x", &[item(false, 1)], &[item(false, 3)]);
        assert_eq!(report.unexplained, before + 1);
    }
}
