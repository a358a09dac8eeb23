// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Registers, and the steps that stop engines, of which packets and frames are compared, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{kind, Report};
use crate::trace::{Act, Owner, Section};
use crate::{decode, tables, Run};

/// Steps that stop engines, or have a debugger.
pub(super) const STEPS: &[&str] = &["life stuck_queue", "life debug", "life unbind"];

impl Report<'_> {
    /// Compares the registers written by the bring-up and the first processes.
    pub(super) fn registers(&mut self) {
        if let [a, b] = self.runs {
            self.registers_of("", &a.trace.bring_up, &b.trace.bring_up);
        }
    }

    /// Compares registers, packets and frames of the steps that stop engines. Their order depends
    /// on the driver: of a field, all values are compared, and of frames the last one.
    pub(super) fn life(&mut self) {
        let [a, b] = self.runs else { return };
        for step in STEPS {
            let (Some(a), Some(b)) = (a.trace.section(step), b.trace.section(step)) else {
                let in_log = |run: &Run| match run.trace.section(step) {
                    Some(_) => "present",
                    None => "no such step",
                };
                self.compare(&format!("step/{step}"), in_log(a), in_log(b));
                continue;
            };
            let name = step.trim_start_matches("life ");
            self.registers_of(&format!("{name}/"), a, b);
            let (ours, theirs) = (values(a), values(b));
            for kind in ours.keys().chain(theirs.keys()) {
                let key = format!("packet/{name}/{kind}");
                let (Some(a), Some(b)) = (ours.get(kind), theirs.get(kind)) else {
                    let sent = |all: &BTreeMap<_, _>| match all.contains_key(kind) {
                        true => "sent",
                        false => "not sent",
                    };
                    self.differs(&key, sent(&ours), sent(&theirs));
                    continue;
                };
                let fields: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
                for field in fields {
                    let [a, b] = [a, b].map(|all| all.get(field).map(ToString::to_string));
                    let [a, b] = [a, b].map(Option::unwrap_or_default);
                    self.compare(&format!("{key}:{field}"), &a, &b);
                }
            }
        }
    }

    /// Compares the registers written in a section by name: how many of the name there are, the
    /// last values, all values, and their order.
    fn registers_of(&mut self, place: &str, a: &Section, b: &Section) {
        let (ours, theirs) = (tables::registers(a), tables::registers(b));
        let names: BTreeSet<&str> = ours.keys().chain(theirs.keys()).map(|key| key.0).collect();
        for name in names {
            let [a, b] = [&ours, &theirs].map(|all| {
                let of_name = all.iter().filter(|(key, _)| key.0 == name);
                of_name.map(|(_, values)| values).collect::<Vec<_>>()
            });
            let [one, two] = [&a, &b].map(|all| format!("{} registers", all.len()));
            self.compare(&format!("written/{place}{name}"), &one, &two);
            if a.is_empty() || b.is_empty() {
                continue;
            }
            let (one, two) = (sequences(&a), sequences(&b));
            if one == two {
                continue;
            }
            // The reason for other last values is one for other values, too, and so on.
            let kinds: &[&str] = if last_values(&a) != last_values(&b) {
                &["register"]
            } else if all_values(&a) != all_values(&b) {
                &["values", "register"]
            } else {
                &["order", "values", "register"]
            };
            let keys: Vec<String> = kinds
                .iter()
                .map(|kind| format!("{kind}/{place}{name}"))
                .collect();
            let explained = keys.iter().find(|key| self.intended.reason(key).is_some());
            self.differs(explained.unwrap_or(&keys[0]), &one, &two);
        }
    }
}

/// Values of a field of packets or frames.
#[derive(Default)]
struct Values {
    all: BTreeSet<u64>,
    /// That of the last frame.
    last: Option<u64>,
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.all.iter().map(|v| format!("{v:#x}")).collect();
        write!(f, "{}", all.join(" "))?;
        match self.last {
            Some(last) if !self.all.iter().eq([&last]) => write!(f, ", at last {last:#x}"),
            _ => Ok(()),
        }
    }
}

/// Values of the fields of packets or frames, by the name of the field.
type Fields = BTreeMap<String, Values>;

/// Returns the values of each field of the packets and frames of a section, by kind. Those of
/// addresses are 1 if they are not 0.
fn values(section: &Section) -> BTreeMap<String, Fields> {
    let mut all: BTreeMap<String, Fields> = BTreeMap::new();
    for act in &section.acts {
        let (kind, items) = match act {
            Act::Packet(owner @ (Owner::Kiq | Owner::Hiq), words) => {
                let owner = format!("{owner:?}").to_lowercase();
                let kind = format!("{owner}.{}", decode::packet_name(words));
                (kind, decode::packet(words, false))
            }
            Act::Listed(words) => {
                let kind = format!("runlist.{}", decode::packet_name(words));
                (kind, decode::packet(words, true))
            }
            Act::Frame(frame) => (kind(frame), decode::frame(frame, frame)),
            _ => continue,
        };
        let fields = all.entry(kind).or_default();
        let is_frame = matches!(act, Act::Frame(_));
        if is_frame {
            // Fields of a frame that are 0 are not in the log.
            for values in fields.values_mut() {
                values.last = Some(0);
            }
        }
        for item in items {
            let value = match item.place {
                true => (item.value != 0).into(),
                false => item.value,
            };
            let values = fields.entry(item.name).or_default();
            values.all.insert(value);
            values.last = is_frame.then_some(value);
        }
    }
    all
}

fn last_values(registers: &[&Vec<u32>]) -> BTreeSet<u32> {
    registers.iter().filter_map(|v| v.last().copied()).collect()
}

fn all_values(registers: &[&Vec<u32>]) -> BTreeSet<u32> {
    registers.iter().flat_map(|v| v.iter().copied()).collect()
}

/// Returns the different sequences of values of registers of a name.
fn sequences(registers: &[&Vec<u32>]) -> String {
    let different: BTreeSet<&Vec<u32>> = registers.iter().copied().collect();
    let text = |values: &Vec<u32>| {
        let values: Vec<String> = values.iter().map(|value| format!("{value:#x}")).collect();
        values.join(", ")
    };
    let all: Vec<String> = different.into_iter().map(text).collect();
    all.join(" | ")
}
