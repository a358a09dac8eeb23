// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Decodes packets, MQDs and page-table entries to named values that can be compared.

use rkfd_abi::bits::DwField;
use rkfd_abi::mqd::{v12, v12_sdma, v9, v9_sdma};
use rkfd_abi::pm4::{self, op};
use rkfd_abi::pte;
use rkfd_abi::regs::gc_9_4_3 as gc;

use crate::trace::Frame;

/// Named value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its name.
    pub name: String,
    /// Value to compare.
    pub value: u64,
    /// Address or allocated number: only its presence is compared.
    pub place: bool,
}

/// Packet fields whose value is at the driver's discretion.
const PLACES: &[&str] = &[
    "ADDR",
    "IB_BASE",
    "PASID",
    "DOORBELL_OFFSET",
    "DATA_LO",
    "DATA_HI",
    "FENCE",
    "SHADER_TBA",
    "SHADER_TMA",
    "TABLE_BASE",
    "CONTEXT_ID",
];

fn is_place(name: &str) -> bool {
    PLACES.iter().any(|p| name.contains(p))
}

/// Returns the name of a packet.
pub fn packet_name(words: &[u32]) -> String {
    match pm4::parse(words.first().copied().unwrap_or(0)) {
        pm4::Header::Type3 { opcode, .. } => match pm4::opcode_name(opcode) {
            Some(name) => name.into(),
            None => format!("opcode {opcode:#x}"),
        },
        other => format!("{other:?}"),
    }
}

/// Returns the fields of a packet.
pub fn packet(words: &[u32], from_runlist: bool) -> Vec<Item> {
    let pm4::Header::Type3 { opcode, .. } = pm4::parse(words.first().copied().unwrap_or(0)) else {
        return Vec::new();
    };
    let fields: &[DwField] = match opcode {
        op::MAP_QUEUES if from_runlist => pm4::map_queues::FORM_HWS,
        op::MAP_QUEUES => pm4::map_queues::FORM_KIQ,
        _ => pm4::PACKETS
            .iter()
            .filter(|p| p.opcode == opcode && words.len() >= p.dwords)
            .max_by_key(|p| p.dwords)
            .map_or(&[], |p| p.fields),
    };
    let mut items = vec![Item {
        name: "header".into(),
        value: words[0].into(),
        place: false,
    }];
    items.extend(fields.iter().filter(|f| f.dw < words.len()).map(|f| Item {
        name: f.name.into(),
        value: f.get(words).into(),
        place: is_place(f.name),
    }));
    items
}

/// Frame fields whose value is at the driver's discretion; whether it is 0 is compared.
const FRAME_PLACES: &[&str] = &[
    "_addr",
    "_ptr",
    "doorbell_offset",
    "process_id",
    "trap_handler_",
    "tma_",
    "inv_sel_id",
];

/// Returns the fields of a frame, and those that another one has.
pub fn frame(frame: &Frame, other: &Frame) -> Vec<Item> {
    let names = frame.fields.iter().chain(&other.fields).map(|(n, _)| n);
    let names: std::collections::BTreeSet<&String> = names.collect();
    let item = |name: &String| {
        let place = FRAME_PLACES.iter().any(|p| name.contains(p));
        let value = frame.get(name);
        Item {
            name: name.clone(),
            value: if place { u64::from(value != 0) } else { value },
            place: false,
        }
    };
    names.into_iter().map(item).collect()
}

/// MQD dwords that hold addresses chosen by the driver.
const MQD_PLACES: &[&str] = &[
    "cp_mqd_base_addr_lo",
    "cp_mqd_base_addr_hi",
    "cp_hqd_eop_base_addr_lo",
    "cp_hqd_eop_base_addr_hi",
    "dynamic_cu_mask_addr_lo",
    "dynamic_cu_mask_addr_hi",
];

/// Additional such dwords of the HIQ, all of whose memory belongs to the driver.
const HIQ_PLACES: &[&str] = &[
    "cp_hqd_pq_base_lo",
    "cp_hqd_pq_base_hi",
    "cp_hqd_pq_rptr_report_addr_lo",
    "cp_hqd_pq_rptr_report_addr_hi",
    "cp_hqd_pq_wptr_poll_addr_lo",
    "cp_hqd_pq_wptr_poll_addr_hi",
];

fn named(words: &[u32], names: &[(&str, usize)], places: &[&[&str]]) -> Vec<Item> {
    words
        .iter()
        .enumerate()
        .map(|(n, &word)| {
            // A reserved name covers the dwords up to the next name; of two names the last counts.
            let (name, at) = names
                .iter()
                .rev()
                .filter(|(_, at)| *at <= n)
                .max_by_key(|(_, at)| *at)
                .copied()
                .unwrap_or(("dword", 0));
            let place = places.iter().any(|list| list.contains(&name));
            // Of the doorbell only the offset is chosen by the driver.
            let kept = match name {
                "cp_hqd_pq_doorbell_control" => {
                    !gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET.mask()
                }
                _ => !0,
            };
            Item {
                name: match n - at {
                    0 => name.into(),
                    _ => format!("reserved_{n}"),
                },
                value: (word & kept).into(),
                place,
            }
        })
        .collect()
}

/// Additional such dwords of gfx12: MES polls the write pointer at an address of the driver.
const GFX12_PLACES: &[&str] = &["cp_hqd_pq_wptr_poll_addr_lo", "cp_hqd_pq_wptr_poll_addr_hi"];

/// Returns the dwords of a compute MQD.
pub fn mqd(words: &[u32], gfx12: bool) -> Vec<Item> {
    match gfx12 {
        true => named(words, v12::dw::NAMES, &[MQD_PLACES, GFX12_PLACES]),
        false => named(words, v9::dw::NAMES, &[MQD_PLACES]),
    }
}

/// Returns the dwords of the HIQ's MQD.
pub fn hiq_mqd(words: &[u32]) -> Vec<Item> {
    named(words, v9::dw::NAMES, &[MQD_PLACES, HIQ_PLACES])
}

/// Returns the dwords of an SDMA MQD.
pub fn sdma_mqd(words: &[u32], gfx12: bool) -> Vec<Item> {
    let places: &[&str] = &["sdmax_rlcx_doorbell_offset"];
    match gfx12 {
        true => named(words, v12_sdma::dw::NAMES, &[places]),
        false => named(words, v9_sdma::dw::NAMES, &[places]),
    }
}

/// Returns the entries of a page-table walk: leaf and directories, as flags without addresses.
pub fn entries(entries: &[u64]) -> Vec<Item> {
    let levels = entries.len().saturating_sub(1);
    let mut items = vec![Item {
        name: "levels".into(),
        value: levels as u64,
        place: false,
    }];
    for (level, &entry) in entries.iter().enumerate().skip(1) {
        let leaf = level == levels;
        let address = if leaf { pte::PTE_ADDR } else { pte::PDE_ADDR };
        items.push(Item {
            name: match leaf {
                true => "pte".into(),
                false => format!("pde{}", levels - 1 - level),
            },
            value: entry & !address,
            place: false,
        });
    }
    items
}

/// Bits of a node's `capability` (`HSA_CAP_*` of `linux/kfd_sysfs.h`): a capability of card and
/// driver, or a number.
const CAPABILITIES: &[(&str, u32)] = &[
    ("HOT_PLUGGABLE", 1 << 0),
    ("ATS_PRESENT", 1 << 1),
    ("SHARED_WITH_GRAPHICS", 1 << 2),
    ("QUEUE_SIZE_POW2", 1 << 3),
    ("QUEUE_SIZE_32BIT", 1 << 4),
    ("QUEUE_IDLE_EVENT", 1 << 5),
    ("VA_LIMIT", 1 << 6),
    ("WATCH_POINTS_SUPPORTED", 1 << 7),
    ("WATCH_POINTS_TOTALBITS", 0xf << 8),
    ("DOORBELL_TYPE", 3 << 12),
    ("AQL_QUEUE_DOUBLE_MAP", 1 << 14),
    ("TRAP_DEBUG_SUPPORT", 1 << 15),
    ("TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE", 1 << 16),
    ("TRAP_DEBUG_WAVE_LAUNCH_MODE", 1 << 17),
    ("TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS", 1 << 18),
    ("MEM_EDCSUPPORTED", 1 << 20),
    ("RASEVENTNOTIFY", 1 << 21),
    ("ASIC_REVISION", 0xf << 22),
    ("SRAM_EDCSUPPORTED", 1 << 26),
    ("SVMAPI_SUPPORTED", 1 << 27),
    ("FLAGS_COHERENTHOSTACCESS", 1 << 28),
    ("TRAP_DEBUG_FIRMWARE_SUPPORTED", 1 << 29),
    ("TRAP_DEBUG_PRECISE_ALU_OPERATIONS", 1 << 30),
    ("PER_QUEUE_RESET_SUPPORTED", 1 << 31),
];

/// Returns the fields of a node's `capability`; unnamed bits are one field.
pub fn capability(value: u32) -> Vec<(&'static str, u32)> {
    let rest = CAPABILITIES.iter().fold(value, |v, (_, mask)| v & !mask);
    CAPABILITIES
        .iter()
        .map(|&(name, mask)| (name, (value & mask) >> mask.trailing_zeros()))
        .chain([("other bits", rest)])
        .collect()
}

/// Returns the names of an entry's flags.
pub fn flags(entry: u64, leaf: bool, gfx12: bool) -> String {
    if gfx12 {
        return flags_12(entry, leaf);
    }
    let bits = [
        (pte::VALID, "V"),
        (pte::SYSTEM, "S"),
        (pte::SNOOPED, "C"),
        (pte::TMZ, "Z"),
        (pte::EXECUTABLE, "X"),
        (pte::READABLE, "R"),
        (pte::WRITEABLE, "W"),
        (pte::PRT, "PRT"),
        (pte::PDE_PTE, "P"),
        (pte::LOG, "LOG"),
        (pte::TF, "TF"),
    ];
    // Bits 4 to 11 of a PDE belong to the address, which is 64-byte aligned.
    let mut words = names(entry, &bits, |bit| leaf || bit & pte::PDE_ADDR == 0);
    if leaf {
        words.push(format!("frag={}", pte::FRAG.get(entry)));
        let mtype = ["NC", "RW", "CC", "UC"][pte::MTYPE.get(entry) as usize & 3];
        words.push(format!("mtype={mtype}"));
    } else {
        words.push(format!("bfs={}", pte::PDE_BFS.get(entry)));
    }
    words.join(" ")
}

/// Returns the names of the bits of an entry that are flags there.
fn names(entry: u64, bits: &[(u64, &str)], is_flag: impl Fn(u64) -> bool) -> Vec<String> {
    bits.iter()
        .filter(|(bit, _)| entry & bit != 0 && is_flag(*bit))
        .map(|(_, name)| (*name).into())
        .collect()
}

fn flags_12(entry: u64, leaf: bool) -> String {
    let bits = [
        (pte::VALID, "V"),
        (pte::SYSTEM, "S"),
        (pte::SNOOPED, "C"),
        (pte::TMZ, "Z"),
        (pte::EXECUTABLE, "X"),
        (pte::READABLE, "R"),
        (pte::WRITEABLE, "W"),
        (pte::gfx12::PRT, "PRT"),
        (pte::gfx12::DCC, "DCC"),
        (pte::gfx12::IS_PTE, "P"),
    ];
    // Bit 58 of a PDE belongs to the block fragment size.
    let mut words = names(entry, &bits, |bit| {
        leaf || bit & (pte::PDE_ADDR | pte::gfx12::DCC) == 0
    });
    if leaf {
        words.push(format!("frag={}", pte::FRAG.get(entry)));
    } else {
        words.push(format!("bfs={}", pte::gfx12::PDE_BFS.get(entry)));
    }
    let mtype = ["NC", "RW", "CC", "UC"][pte::gfx12::MTYPE.get(entry) as usize & 3];
    words.push(format!("mtype={mtype}"));
    words.push(format!("sw={}", pte::gfx12::SOFTWARE.get(entry)));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_fields_are_named() {
        let words = [pm4::run_list::PACKET.header(), 0x1000, 0x12, 0x80_0020];
        assert_eq!(packet_name(&words), "RUN_LIST");
        let items = packet(&words, false);
        let base = items.iter().find(|i| i.name == "IB_BASE_LO").unwrap();
        assert!(base.place && base.value == 0x400);
        let valid = items.iter().find(|i| i.name == "VALID").unwrap();
        assert!(!valid.place && valid.value == 1);
    }

    #[test]
    fn mqd_dwords_are_named_and_places_exist() {
        let items = hiq_mqd(&[0; v9::Mqd::DWORDS]);
        for name in MQD_PLACES.iter().chain(HIQ_PLACES) {
            assert!(items.iter().any(|i| i.name == *name && i.place), "{name}");
        }
        assert_eq!(items[0].name, "header");
        for (words, gfx12) in [
            (v9_sdma::SdmaMqd::DWORDS, false),
            (v12_sdma::SdmaMqd::DWORDS, true),
        ] {
            let items = sdma_mqd(&vec![0; words], gfx12);
            assert!(items.iter().any(|i| i.place));
        }
        let items = mqd(&[0; v12::Mqd::DWORDS], true);
        for name in GFX12_PLACES {
            assert!(items.iter().any(|i| i.name == *name && i.place), "{name}");
        }
    }

    #[test]
    fn capability_covers_all_bits() {
        let list = capability(0x2040_2000);
        let of = |name| list.iter().find(|(n, _)| *n == name).unwrap().1;
        assert_eq!((of("DOORBELL_TYPE"), of("ASIC_REVISION")), (2, 1));
        assert_eq!(
            (of("TRAP_DEBUG_FIRMWARE_SUPPORTED"), of("other bits")),
            (1, 0)
        );
        assert!(capability(1 << 19).contains(&("other bits", 1 << 19)));
        let all = CAPABILITIES
            .iter()
            .fold(0u64, |sum, (_, m)| sum + u64::from(*m));
        assert_eq!(all, u64::from(!(1u32 << 19)), "no two names share a bit");
    }

    #[test]
    fn entries_keep_flags_only() {
        let pte = 0x1234_5000 | pte::VALID | pte::READABLE | pte::FRAG.put(9);
        let items = entries(&[1, 0x8000_0041, pte]);
        assert_eq!(items[0].value, 2);
        assert_eq!((items[1].name.as_str(), items[1].value), ("pde0", 1));
        assert_eq!(items[2].value, pte & 0xfff);
        assert_eq!(flags(pte, true, false), "V R frag=9 mtype=NC");
        assert_eq!(flags(0x8000_0041, false, false), "V bfs=0");
        let pte = pte::VALID | pte::gfx12::IS_PTE | pte::gfx12::MTYPE.put(3) | pte::FRAG.put(2);
        assert_eq!(flags(pte, true, true), "V P frag=2 mtype=UC sw=0");
        assert_eq!(flags(0x8000_0041, false, true), "V bfs=0 mtype=NC sw=0");
    }

    #[test]
    fn frames_compare_presence_of_places() {
        let of = |fields: &[(&str, u64)]| Frame {
            pipe: 0,
            op: "ADD_QUEUE".into(),
            fields: fields.iter().map(|(n, v)| (n.to_string(), *v)).collect(),
        };
        let one = of(&[("mqd_addr", 0x500), ("gang_quantum", 1)]);
        let two = of(&[("mqd_addr", 0x600), ("gang_quantum", 2)]);
        let (a, b) = (frame(&one, &two), frame(&two, &one));
        assert_eq!(a[1], b[1]);
        assert_ne!(a[0], b[0]);
        let none = of(&[]);
        assert_ne!(frame(&one, &none), frame(&none, &one));
    }
}
