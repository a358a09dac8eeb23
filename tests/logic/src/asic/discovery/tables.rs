// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Binaries with discovery tables of any contents, for the checks of the parser.

use kernel::prelude::*;
use rkfd_abi::discovery::{
    binary_header, binary_header_v2, die_info, gc_info_v1, gc_info_v2, gpu_info_header,
    harvest_table, hwid, ip_discovery_header, mall_info, nps_info, table, table_info,
    BINARY_SIGNATURE, DISCOVERY_TABLE_SIGNATURE, GC_TABLE_ID, HARVEST_TABLE_SIGNATURE,
    MALL_INFO_TABLE_ID, NPS_INFO_TABLE_ID,
};

use super::table::{Bad, Discovery, MemoryTable};

pub(super) const VRAM: u64 = 8 << 30;

pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

pub(super) fn put16(bytes: &mut [u8], at: usize, value: usize) {
    put(bytes, at, &(value as u16).to_le_bytes());
}

pub(super) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, &value.to_le_bytes());
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes([bytes[at], bytes[at + 1]]).into()
}

pub(super) fn sum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, b| sum.wrapping_add((*b).into()))
}

/// An entry of the IP table.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) hw_id: u16,
    pub(super) inst: u8,
    pub(super) bases: usize,
}

pub(super) const GC: Entry = Entry {
    hw_id: hwid::GC,
    inst: 0,
    bases: 3,
};

/// Tables from which a binary is made.
#[derive(Clone)]
pub(super) struct Tables {
    /// Major version of the header.
    pub(super) major: usize,
    /// Version of the IP table.
    pub(super) version: usize,
    /// Base addresses have 64 bits.
    pub(super) wide: bool,
    pub(super) dies: Vec<Vec<Entry>>,
    /// The other tables, by index; those before the IP table, and those after it.
    pub(super) before: Vec<(usize, Vec<u8>)>,
    pub(super) after: Vec<(usize, Vec<u8>)>,
}

/// Base address `n` of an entry, with the bits that are not part of it if it has 64.
pub(super) const fn base(entry: &Entry, n: usize) -> u32 {
    0x10_0000 * entry.inst as u32 + 0x100 * entry.hw_id as u32 + n as u32
}

impl Tables {
    pub(super) fn new() -> Self {
        Self {
            major: 1,
            version: 4,
            wide: false,
            dies: vec![vec![GC]],
            before: vec![(table::GC, gc_v2())],
            after: Vec::new(),
        }
    }

    pub(super) fn of(dies: Vec<Vec<Entry>>) -> Self {
        Self {
            dies,
            ..Self::new()
        }
    }

    /// Returns the IP table at an offset.
    pub(super) fn ips(&self, at: usize) -> Vec<u8> {
        let mut t = vec![0; ip_discovery_header::SIZE];
        put32(
            &mut t,
            ip_discovery_header::SIGNATURE,
            DISCOVERY_TABLE_SIGNATURE,
        );
        put16(&mut t, ip_discovery_header::VERSION, self.version);
        put16(&mut t, ip_discovery_header::NUM_DIES, self.dies.len());
        for (n, die) in self.dies.iter().enumerate() {
            // The list of 16 dies ends before the flags.
            let info = ip_discovery_header::DIE_INFO + n * die_info::SIZE;
            let offset = at + t.len();
            put16(&mut t, info + die_info::DIE_ID, n);
            put16(&mut t, info + die_info::DIE_OFFSET, offset);
            t.extend((n as u16).to_le_bytes());
            t.extend((die.len() as u16).to_le_bytes());
            for entry in die {
                t.extend(entry.hw_id.to_le_bytes());
                t.extend([entry.inst, entry.bases as u8, 9, 4, entry.inst, 0]);
                for n in 0..entry.bases {
                    match self.wide {
                        false => t.extend(base(entry, n).to_le_bytes()),
                        true => t.extend((u64::from(base(entry, n)) | 7 << 30).to_le_bytes()),
                    }
                }
            }
        }
        if self.wide {
            t[ip_discovery_header::FLAGS] = ip_discovery_header::FLAG_BASE_ADDR_64_BIT;
        }
        t
    }

    pub(super) fn list(&self) -> usize {
        match self.major {
            2 => binary_header_v2::TABLE_LIST,
            _ => binary_header::TABLE_LIST,
        }
    }

    pub(super) fn build(&self) -> Vec<u8> {
        let list = self.list();
        let mut b = vec![0; list + table::TOTAL * table_info::SIZE];
        put32(&mut b, binary_header::SIGNATURE, BINARY_SIGNATURE);
        put16(&mut b, binary_header::VERSION_MAJOR, self.major);
        if self.major == 2 {
            put16(&mut b, binary_header_v2::NUM_TABLES, table::TOTAL);
        }
        let ips = [(table::IP_DISCOVERY, Vec::new())];
        for (index, content) in self.before.iter().chain(&ips).chain(&self.after) {
            let at = b.len();
            match *index {
                table::IP_DISCOVERY => b.extend(self.ips(at)),
                _ => b.extend(content),
            }
            let size = b.len() - at;
            set_size(&mut b[at..], *index);
            let info = list + index * table_info::SIZE;
            put16(&mut b, info + table_info::OFFSET, at);
            put16(&mut b, info + table_info::TABLE_SIZE, size);
        }
        close(&mut b);
        b
    }
}

/// Place of the size in a table; the harvest table has none.
fn size_place(index: usize) -> Option<usize> {
    match index {
        table::IP_DISCOVERY => Some(ip_discovery_header::TABLE_SIZE),
        table::GC => Some(gpu_info_header::TABLE_SIZE),
        table::MALL_INFO => Some(mall_info::SIZE_BYTES),
        table::NPS_INFO => Some(nps_info::SIZE_BYTES),
        _ => None,
    }
}

/// Sets the size in a table that it has room for to that of the table.
fn set_size(content: &mut [u8], index: usize) {
    let size = content.len();
    if let Some(at) = size_place(index).filter(|at| at + 2 <= size) {
        put16(content, at, size);
    }
}

/// Returns the size of a table by its content: 0 if that is cut off.
fn own_size(b: &[u8], index: usize, at: usize) -> usize {
    let Some(place) = size_place(index) else {
        return harvest_table::SIZE;
    };
    let wide = index == table::NPS_INFO;
    match b.get(at + place..at + place + if wide { 4 } else { 2 }) {
        Some(&[a, b]) => u16::from_le_bytes([a, b]).into(),
        Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]) as usize,
        _ => 0,
    }
}

/// Sets the size of a binary to that of `b`, and the checksums of the tables that lie inside.
pub(super) fn close(b: &mut [u8]) {
    let size = b.len();
    put16(b, binary_header::BINARY_SIZE, size);
    checksums(b);
}

/// Sets the checksums of a binary and of the tables that lie inside.
pub(super) fn checksums(b: &mut [u8]) {
    let list = match u16_at(b, binary_header::VERSION_MAJOR) {
        2 => binary_header_v2::TABLE_LIST,
        _ => binary_header::TABLE_LIST,
    };
    // A table may contain the list: those at the end of the binary count.
    for index in 0..table::TOTAL {
        let info = list + index * table_info::SIZE;
        if info + table_info::SIZE > b.len() {
            break;
        }
        let at = u16_at(b, info + table_info::OFFSET);
        let end = at + own_size(b, index, at);
        if let Some(content) = b.get(at..end) {
            let sum = sum(content);
            put16(b, info + table_info::CHECKSUM, sum.into());
        }
    }
    let size = u16_at(b, binary_header::BINARY_SIZE);
    if let Some(content) = b.get(binary_header::BINARY_SIZE..size) {
        let sum = sum(content);
        put16(b, binary_header::BINARY_CHECKSUM, sum.into());
    }
}

/// Returns offset and size of a table.
pub(super) fn place(b: &[u8], index: usize) -> (usize, usize) {
    let info = binary_header::TABLE_LIST + index * table_info::SIZE;
    (
        u16_at(b, info + table_info::OFFSET),
        u16_at(b, info + table_info::TABLE_SIZE),
    )
}

pub(super) fn gc_table(
    major: usize,
    minor: usize,
    size: usize,
    values: &[(usize, u32)],
) -> Vec<u8> {
    let mut t = vec![0; size];
    put32(&mut t, gpu_info_header::TABLE_ID, GC_TABLE_ID);
    put16(&mut t, gpu_info_header::VERSION_MAJOR, major);
    put16(&mut t, gpu_info_header::VERSION_MINOR, minor);
    put32(&mut t, gpu_info_header::TABLE_SIZE, size as u32);
    for (at, value) in values {
        put32(&mut t, *at, *value);
    }
    t
}

pub(super) fn gc_v2() -> Vec<u8> {
    let values = [
        (gc_info_v2::NUM_SE, 4),
        (gc_info_v2::NUM_CU_PER_SH, 10),
        (gc_info_v2::NUM_SH_PER_SE, 1),
    ];
    gc_table(2, 1, gc_info_v2::SIZE_V2_1, &values)
}

pub(super) fn gc_v1() -> Vec<u8> {
    let values = [
        (gc_info_v1::NUM_SE, 4),
        (gc_info_v1::NUM_WGP0_PER_SA, 3),
        (gc_info_v1::NUM_WGP1_PER_SA, 1),
        (gc_info_v1::NUM_SA_PER_SE, 2),
    ];
    gc_table(1, 3, gc_info_v1::SIZE_V1_3, &values)
}

/// Returns a harvest table of these entries.
pub(super) fn harvest(entries: &[(u16, u8)]) -> Vec<u8> {
    let mut t = vec![0; harvest_table::SIZE];
    put32(&mut t, harvest_table::SIGNATURE, HARVEST_TABLE_SIGNATURE);
    for (n, (hw_id, inst)) in entries.iter().enumerate() {
        let at = harvest_table::LIST + n * harvest_table::ENTRY_SIZE;
        put16(&mut t, at, (*hw_id).into());
        t[at + 2] = *inst;
    }
    t
}

/// Returns a MALL table of a version: bytes of a UMC, and masks of those with twice and half of it.
pub(super) fn mall(major: usize, each: u32, double: u32, half: u32) -> Vec<u8> {
    let mut t = vec![0; mall_info::SIZE];
    put32(&mut t, mall_info::TABLE_ID, MALL_INFO_TABLE_ID);
    put16(&mut t, mall_info::VERSION_MAJOR, major);
    put32(&mut t, mall_info::SIZE_BYTES, mall_info::SIZE as u32);
    put32(&mut t, mall_info::SIZE_PER_UMC, each);
    put32(&mut t, mall_info::M_S_PRESENT, double);
    put32(&mut t, mall_info::M_HALF_USE, half);
    t
}

/// Returns a table of `count` memory partitions of 1 GiB, with as many entries as it can have.
pub(super) fn nps(count: u32) -> Vec<u8> {
    let mut t = vec![0; nps_info::SIZE];
    put32(&mut t, nps_info::TABLE_ID, NPS_INFO_TABLE_ID);
    put16(&mut t, nps_info::VERSION_MAJOR, 1);
    put32(&mut t, nps_info::NPS_TYPE, count);
    put32(&mut t, nps_info::COUNT, count);
    for n in 0..nps_info::MAX_INSTANCES {
        let at = nps_info::INSTANCE_INFO + n * nps_info::range::SIZE;
        let first = (n as u64) << 30;
        put(
            &mut t,
            at + nps_info::range::BASE_ADDRESS,
            &first.to_le_bytes(),
        );
        let last = first + (1 << 30) - 1;
        put(
            &mut t,
            at + nps_info::range::LIMIT_ADDRESS,
            &last.to_le_bytes(),
        );
    }
    t
}

pub(super) fn parse(b: &[u8]) -> Result<Discovery, Bad> {
    Discovery::parse(b, VRAM)
}

pub(super) fn error(b: &[u8]) -> Option<Bad> {
    parse(b).err()
}

pub(super) fn memory_error(b: &[u8]) -> Option<Bad> {
    MemoryTable::parse(b).err()
}
