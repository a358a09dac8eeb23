// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Parses the GPU model's event log and splits it into sections at the workload's marks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rkfd_abi::pte;

use crate::guest::{number, value};

/// High half of a fence value that is a mark.
const MARK: u32 = 0xc0de_0000;

/// Owner of a doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// KIQ.
    Kiq,
    /// HIQ.
    Hiq,
    /// Kernel ring.
    Kernel,
    /// User process.
    User,
}

/// Act of the driver, as seen by the GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Register write: name, value, address.
    Register(String, u32, u32),
    /// Kernel doorbell ring.
    Doorbell(Owner),
    /// HDP flush.
    HdpFlush,
    /// TLB flush.
    Invalidate(String),
    /// Packet of the KIQ or the HIQ.
    Packet(Owner, Vec<u32>),
    /// Runlist packet.
    Listed(Vec<u32>),
    /// Load of a compute MQD.
    Mqd(u64, Vec<u32>),
    /// Load of the HIQ's MQD.
    HiqMqd(Vec<u32>),
    /// Load of an SDMA MQD.
    SdmaMqd(u64, Vec<u32>),
    /// Packet of a kernel SDMA ring.
    KernelCopy(String),
    /// Frame of a ring of MES.
    Frame(Frame),
}

/// Frame of a ring of MES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Pipe of the ring.
    pub pipe: u64,
    /// Opcode, of MISC frames the sub-opcode.
    pub op: String,
    /// Fields that are not 0.
    pub fields: Vec<(String, u64)>,
}

impl Frame {
    /// Returns the value of a field.
    pub fn get(&self, name: &str) -> u64 {
        let field = self.fields.iter().find(|(n, _)| n == name);
        field.map_or(0, |(_, value)| *value)
    }
}

/// Page-table walk for a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// Page address.
    pub va: u64,
    /// Entries, root first.
    pub entries: Vec<u64>,
}

/// Log between two marks.
#[derive(Debug, Default, Clone)]
pub struct Section {
    /// Name from the first of the two marks, with the kind of queue.
    pub name: String,
    /// Acts, in order; of XCCs and hubs those of the first.
    pub acts: Vec<Act>,
    /// Acts of each further XCC, in order.
    pub others: BTreeMap<u64, Vec<Act>>,
    /// Page-table walks of processes.
    pub walks: Vec<Walk>,
    /// Addresses of MQDs loaded before this section.
    pub before: HashSet<u64>,
    /// Number of interrupts raised.
    pub interrupts: u64,
    /// Number of register reads.
    pub reads: u64,
}

/// Event log.
#[derive(Debug, Default)]
pub struct Trace {
    /// Before the first mark: bring-up and first processes.
    pub bring_up: Section,
    /// One section per mark.
    pub sections: Vec<Section>,
    /// MES schedules: the GPU is a gfx12.
    pub gfx12: bool,
    /// Entries of the GART that were walked, without addresses, and without SNOOPED, which depends
    /// on how the CPU caches the buffer.
    pub gart: BTreeSet<u64>,
}

struct Reader {
    sections: Vec<Section>,
    owners: HashMap<u64, Owner>,
    queues: HashMap<String, Owner>,
    loaded: HashSet<u64>,
    /// Section of the runlist or ADD_QUEUE whose MQDs are being loaded: a mark may overtake them.
    list: usize,
    /// The sections of all runlists, and the number of those that each other XCC has executed.
    lists: Vec<usize>,
    executed: HashMap<u64, usize>,
    /// MQDs of queues on other XCCs, with the number of the runlist: an XCC may be ahead of XCC 0.
    mqds_of_others: Vec<(u64, usize, Act)>,
    /// MQDs by doorbell of the queues that MES has.
    added: HashMap<u64, u64>,
    /// There is an MES.
    mes: bool,
    /// See [`Trace::gart`].
    gart: BTreeSet<u64>,
    /// Numbers of the XCCs, without harvested ones.
    xccs: BTreeSet<u64>,
}

impl Trace {
    /// Parses a log; `marks` are the names of the marks.
    pub fn parse(text: &str, marks: &BTreeMap<u32, String>) -> Self {
        let mut kind = String::new();
        let mut reader = Reader {
            sections: vec![Section::default()],
            owners: HashMap::new(),
            queues: HashMap::new(),
            loaded: HashSet::new(),
            list: 0,
            lists: Vec::new(),
            executed: HashMap::new(),
            mqds_of_others: Vec::new(),
            added: HashMap::new(),
            mes: false,
            gart: BTreeSet::new(),
            xccs: text
                .lines()
                .filter(|line| line.contains(" cp queue_start "))
                .filter_map(|line| value(line, "xcc").and_then(number))
                .collect(),
        };
        for line in text.lines() {
            let mut parts = line.splitn(4, ' ');
            let (Some(_), Some(layer), Some(event)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let rest = parts.next().unwrap_or("");
            let Some(mark) = mark_of(layer, event, rest) else {
                reader.event(layer, event, rest);
                continue;
            };
            let name = marks.get(&mark).map_or("", String::as_str);
            let name = match name.strip_prefix("kind ") {
                Some(new) => {
                    kind = new.into();
                    String::new()
                }
                None if name.is_empty() || name == "between" => String::new(),
                None => format!("{kind} {name}"),
            };
            reader.sections.push(Section {
                name,
                before: reader.loaded.clone(),
                ..Section::default()
            });
        }
        for (xcc, list, act) in std::mem::take(&mut reader.mqds_of_others) {
            if let Some(&section) = reader.lists.get(list) {
                let others = &mut reader.sections[section].others;
                others.entry(xcc).or_default().push(act);
            }
        }
        let sections = reader.sections.split_off(1);
        Self {
            bring_up: reader.sections.pop().unwrap_or_default(),
            sections,
            gfx12: reader.mes,
            gart: reader.gart,
        }
    }

    /// Returns the number of XCCs.
    pub fn xccs(&self) -> u64 {
        let last = self.bring_up.others.keys().next_back();
        last.map_or(1, |xcc| xcc + 1)
    }

    /// Returns the packets that the scheduler of an XCC executed, runlists included.
    fn scheduled(&self, xcc: u64) -> Vec<&[u32]> {
        let sections = std::iter::once(&self.bring_up).chain(&self.sections);
        Self::scheduled_in(sections, xcc)
    }

    /// The same in some sections. A packet that waits may be repeated in the next section.
    fn scheduled_in<'a>(sections: impl Iterator<Item = &'a Section>, xcc: u64) -> Vec<&'a [u32]> {
        let acts = sections.filter_map(|section| match xcc {
            0 => Some(&section.acts),
            _ => section.others.get(&xcc),
        });
        let mut last = None;
        let mut packets = Vec::new();
        for act in acts.flatten() {
            match act {
                Act::Packet(Owner::Hiq, words) if last != Some(words) => {
                    last = Some(words);
                    packets.push(words.as_slice());
                }
                Act::Listed(words) => packets.push(words.as_slice()),
                _ => {}
            }
        }
        packets
    }

    /// Returns whether an XCC executed the packets of XCC 0 that follow the bring-up. It may have
    /// executed the first of them before the first mark, or the last of the bring-up after it.
    pub fn follows(&self, xcc: u64) -> bool {
        let (ours, first) = (self.scheduled(xcc), self.scheduled(0));
        let skip = Self::scheduled_in(std::iter::once(&self.bring_up), 0).len();
        ours.len() == first.len() && ours[skip..] == first[skip..]
    }

    /// Returns the section with that name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|s| s.name == name)
    }
}

/// Returns the name of a queue of the whole card.
fn queue_of(rest: &str) -> String {
    let get = |key| value(rest, key).unwrap_or("");
    format!("{} {}", get("xcc"), get("queue"))
}

fn mark_of(layer: &str, event: &str, rest: &str) -> Option<u32> {
    if (layer, event) != ("sdma", "packet") || value(rest, "op") != Some("FENCE") {
        return None;
    }
    let word = *words(rest).last()?;
    (word & 0xffff_0000 == MARK).then_some(word & 0xffff)
}

/// Returns the hexadecimal words in brackets at the end of an event.
fn words(rest: &str) -> Vec<u32> {
    long_words(rest).into_iter().map(|w| w as u32).collect()
}

fn long_words(rest: &str) -> Vec<u64> {
    let Some((_, list)) = rest.split_once('[') else {
        return Vec::new();
    };
    let list = list.split(']').next().unwrap_or("");
    list.split(", ")
        .filter_map(|w| u64::from_str_radix(w, 16).ok())
        .collect()
}

impl Reader {
    fn event(&mut self, layer: &str, event: &str, rest: &str) {
        let get = |key| value(rest, key).and_then(number).unwrap_or(0);
        let xcc = self.xccs.range(..get("xcc")).count() as u64;
        match (layer, event) {
            ("reg", "write") => {
                if let Some((name, value)) = rest.split(' ').next().and_then(|w| w.split_once('='))
                {
                    let value = number(value).unwrap_or(0) as u32;
                    self.act(Act::Register(name.into(), value, get("addr") as u32));
                }
            }
            ("reg", "read") => self.section().reads += 1,
            ("cp", "queue_start") => {
                let owner = match value(rest, "class") {
                    Some("Kiq") => Owner::Kiq,
                    Some("Hiq") => Owner::Hiq,
                    _ if get("vmid") == 0 => Owner::Kernel,
                    _ => Owner::User,
                };
                self.owners.insert(get("doorbell"), owner);
                self.queues.insert(queue_of(rest), owner);
            }
            ("sdma", "queue_start") => {
                let user = value(rest, "pasid").is_some_and(|p| p != "0");
                let owner = if user { Owner::User } else { Owner::Kernel };
                self.owners.insert(get("doorbell"), owner);
            }
            ("nbio", "doorbell") => match self.owners.get(&get("index")) {
                Some(Owner::User) | None => {}
                Some(&owner) => self.act(Act::Doorbell(owner)),
            },
            ("hdp", "flush") => self.act(Act::HdpFlush),
            ("gmc", "invalidate") => {
                let hub = value(rest, "hub").unwrap_or("?");
                // The hubs of the others are flushed by their XCCs, in parallel.
                if !hub.ends_with(|c: char| c.is_ascii_digit()) {
                    self.act(Act::Invalidate(hub.into()));
                }
            }
            ("gmc", "walk") if get("vmid") != 0 => self.section().walks.push(Walk {
                va: get("va"),
                entries: long_words(rest),
            }),
            ("gmc", "walk") => {
                let entry = long_words(rest).pop().filter(|e| e & pte::VALID != 0);
                self.gart
                    .extend(entry.map(|e| e & !(pte::PTE_ADDR | pte::SNOOPED)));
            }
            ("cp", "packet") => {
                let owner = self.queues.get(&queue_of(rest)).copied();
                let act = Act::Packet(owner.unwrap_or(Owner::Kernel), words(rest));
                self.act_of(xcc, act);
            }
            ("hws", "runlist_packet") => self.act_of(xcc, Act::Listed(words(rest))),
            ("hws", "run_list") if xcc == 0 => {
                self.loaded.clear();
                self.list = self.sections.len() - 1;
                self.lists.push(self.list);
            }
            ("hws", "run_list") => *self.executed.entry(xcc).or_default() += 1,
            ("cp", "mqd") => {
                let mqd = get("mqd");
                match value(rest, "class") {
                    Some("Hiq") => self.act_of(xcc, Act::HiqMqd(words(rest))),
                    Some("Normal") if value(rest, "pasid") != Some("0") => {
                        let act = Act::Mqd(mqd, words(rest));
                        if xcc == 0 {
                            self.loaded.insert(mqd);
                            self.sections[self.list].acts.push(act);
                        } else if let Some(list) = self.executed.get(&xcc) {
                            self.mqds_of_others.push((xcc, list - 1, act));
                        }
                    }
                    _ => {}
                }
            }
            ("hws", "sdma_mqd") if xcc == 0 => {
                self.loaded.insert(get("mqd"));
                let act = Act::SdmaMqd(get("mqd"), words(rest));
                self.sections[self.list].acts.push(act);
            }
            ("sdma", "packet") if get("vmid") == 0 => {
                let op = value(rest, "op").unwrap_or("?");
                self.act(Act::KernelCopy(op.into()));
            }
            ("mes", "frame") => self.frame(rest),
            ("ih", "msi") => self.section().interrupts += 1,
            _ => {}
        }
    }

    /// A frame of MES. The queries of the status that follow each frame are left out.
    fn frame(&mut self, rest: &str) {
        self.mes = true;
        let words = rest.split_whitespace().filter_map(|w| w.split_once('='));
        let mut frame = Frame {
            pipe: 0,
            op: String::new(),
            fields: Vec::new(),
        };
        for (name, value) in words {
            match (name, frame.op.is_empty()) {
                ("pipe", true) => frame.pipe = number(value).unwrap_or(0),
                ("op", true) => frame.op = value.into(),
                _ => {
                    let value = number(value).unwrap_or(0);
                    frame.fields.push((name.into(), value));
                }
            }
        }
        let doorbell = frame.get("doorbell_offset");
        match frame.op.as_str() {
            "QUERY_SCHEDULER_STATUS" => return,
            "ADD_QUEUE" if frame.get("map_legacy_kq") == 0 => {
                self.list = self.sections.len() - 1;
                self.added.insert(doorbell, frame.get("mqd_addr"));
            }
            "REMOVE_QUEUE" => {
                if let Some(mqd) = self.added.remove(&doorbell) {
                    self.loaded.remove(&mqd);
                }
            }
            _ => {}
        }
        self.act(Act::Frame(frame));
    }

    fn section(&mut self) -> &mut Section {
        let last = self.sections.len() - 1;
        &mut self.sections[last]
    }

    fn act(&mut self, act: Act) {
        self.act_of(0, act);
    }

    fn act_of(&mut self, xcc: u64, act: Act) {
        // A packet that waits is executed repeatedly.
        let again = matches!(act, Act::Packet(..));
        let section = self.section();
        let acts = match xcc {
            0 => &mut section.acts,
            _ => section.others.entry(xcc).or_default(),
        };
        let last = acts.iter().rev().find(|a| matches!(a, Act::Packet(..)));
        if !(again && last == Some(&act)) {
            acts.push(act);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_split_the_log() {
        let marks = [(1, "kind aql"), (2, "CREATE_QUEUE"), (3, "between")];
        let marks = marks.map(|(n, name)| (n, name.to_string())).into();
        let log = "1 cp queue_start xcc=2 queue=1.0.0 class=Hiq vmid=0 doorbell=0x8\n\
                   1 cp queue_start xcc=5 queue=1.0.0 class=Hiq vmid=0 doorbell=0x8\n\
                   2 reg write GRBM=0x1 addr=0x2\n\
                   3 sdma packet engine=0 queue=rlc0 vmid=8 ib=0 op=FENCE words=[5, 1, 0, c0de0001]\n\
                   4 sdma packet engine=0 queue=rlc0 vmid=8 ib=0 op=FENCE words=[5, 1, 0, c0de0002]\n\
                   5 nbio doorbell index=0x8 value=0x4 width=8\n\
                   6 cp packet xcc=2 queue=1.0.0 op=0xa5 words=[c002a500, 10, 0, 800011]\n\
                   7 gmc walk hub=Mm vmid=8 va=0x1000 entries=[1, c000000000000021, 5]\n\
                   7 gmc walk hub=Mm vmid=0 va=0x1000 entries=[1, 80c000010a501077]\n\
                   7 gmc walk hub=Mm vmid=0 va=0x2000 entries=[1, 80c000010a502077]\n\
                   7 gmc walk hub=Mm vmid=0 va=0x3000 entries=[1, 0]\n\
                   8 sdma packet engine=0 queue=rlc0 vmid=8 ib=0 op=FENCE words=[5, 1, 0, c0de0003]\n";
        let log = log.to_string()
            + "9 cp packet xcc=5 queue=1.0.0 op=0xa5 words=[c002a500, 10, 0, 800011]\n\
               9 hws runlist_packet xcc=5 op=0xa2 words=[c005a200]\n";
        let trace = Trace::parse(&log, &marks);
        assert_eq!(trace.bring_up.acts, [Act::Register("GRBM".into(), 1, 2)]);
        let section = trace.section("aql CREATE_QUEUE").unwrap();
        let packet = vec![0xc002_a500, 0x10, 0, 0x80_0011];
        let acts = [Act::Doorbell(Owner::Hiq), Act::Packet(Owner::Hiq, packet)];
        assert_eq!(section.acts, acts);
        assert_eq!(section.walks[0].entries[1], 0xc000_0000_0000_0021);
        assert_eq!(trace.gart, [0x80c0_0000_0000_0073].into());
        assert_eq!(trace.scheduled(0), [[0xc002_a500, 0x10, 0, 0x80_0011]]);
        let listed = [0xc005_a200];
        assert_eq!(trace.scheduled(1)[1], listed);
        assert!(!trace.gfx12);
    }

    #[test]
    fn an_xcc_may_be_late() {
        let log = "1 cp queue_start xcc=0 queue=1.0.0 class=Hiq vmid=0 doorbell=0x8\n\
                   1 cp queue_start xcc=1 queue=1.0.0 class=Hiq vmid=0 doorbell=0x8\n\
                   2 cp packet xcc=0 queue=1.0.0 op=0xa0 words=[c006a000, 30]\n\
                   3 cp packet xcc=0 queue=1.0.0 op=0xa5 words=[c002a500, 10]\n\
                   3 cp packet xcc=1 queue=1.0.0 op=0xa0 words=[c006a000, 31]\n\
                   4 sdma packet engine=0 queue=rlc0 vmid=8 ib=0 op=FENCE words=[5, 1, 0, c0de0001]\n\
                   5 cp packet xcc=1 queue=1.0.0 op=0xa5 words=[c002a500, 10]\n\
                   6 cp packet xcc=0 queue=1.0.0 op=0xa5 words=[c002a500, 11]\n\
                   6 cp packet xcc=0 queue=1.0.0 op=0xa5 words=[c002a500, 11]\n";
        let marks = [(1, "CREATE_QUEUE".to_string())].into();
        assert!(!Trace::parse(log, &marks).follows(1));
        let last = |word: u32| {
            let packet = "7 cp packet xcc=1 queue=1.0.0 op=0xa5";
            let text = format!("{log}{packet} words=[c002a500, {word}]\n");
            Trace::parse(&text, &marks).follows(1)
        };
        assert!(last(11));
        assert!(!last(12));
    }

    #[test]
    fn frames_of_mes() {
        let log = "1 mes frame pipe=1 op=WAIT_REG_MEM misc_opcode=0x4 op=0x1 mask=0x1\n\
                   2 mes frame pipe=1 op=QUERY_SCHEDULER_STATUS\n\
                   3 mes frame pipe=0 op=ADD_QUEUE doorbell_offset=0x10 mqd_addr=0x500\n\
                   4 cp mqd xcc=0 class=Normal pasid=5 mqd=0x500 words=[1, 2]\n\
                   5 sdma packet engine=0 queue=rlc0 vmid=8 ib=0 op=FENCE words=[5, 1, 0, c0de0001]\n\
                   6 mes frame pipe=0 op=REMOVE_QUEUE doorbell_offset=0x10\n\
                   7 sdma packet engine=0 queue=rlc0 vmid=8 ib=0 op=FENCE words=[5, 1, 0, c0de0002]\n";
        let trace = Trace::parse(log, &BTreeMap::new());
        assert!(trace.gfx12);
        let [Act::Frame(wait), Act::Frame(add), Act::Mqd(0x500, _)] = &trace.bring_up.acts[..]
        else {
            panic!("{:?}", trace.bring_up.acts);
        };
        assert_eq!((wait.pipe, wait.op.as_str()), (1, "WAIT_REG_MEM"));
        assert_eq!((wait.get("op"), wait.get("reference")), (1, 0));
        assert_eq!(add.get("mqd_addr"), 0x500);
        assert!(trace.sections[0].before.contains(&0x500));
        assert!(!trace.sections[1].before.contains(&0x500));
    }
}
