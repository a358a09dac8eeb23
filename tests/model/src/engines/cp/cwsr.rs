// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Context save area of gfx9: records of waves, and the control stack that describes them.
//!
//! The trap handler stores a wave in its record; this module chooses the addresses, and writes and
//! reads the control stack, which is behind the MQD. The stack grows down from
//! `cp_hqd_cntl_stack_size`, the records grow up from that offset in the save area. A restore pops
//! the stack: the last record comes first, and in a workgroup the wave that has LDS in
//! its record.
//!
//! Each dword of the stack is a write to COMPUTE_RELAUNCH: bit 31 set, the resources of the waves
//! that follow; bits 31 and 30 clear, a wave; bit 30 set, an event. AMD's debugger library reads
//! the fields of the first two and skips events. What the events contain is the model's: the
//! dispatch, the workgroup, and the state of the queue that silicon keeps elsewhere.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use gpu_wave::{Dispatch, SavedWave};
use rkfd_abi::cwsr;

use super::queue::SaveArea;
use super::shared::Waves;

/// The two dwords in front of the writes: SET_SH_REG with the register's offset.
const LEADER: [u32; 2] = [0xc000_7600, 0x022b];
/// Events: kind in bits 29:28 and value below.
const EVENT: u32 = 1 << 30;
const KIND_SHIFT: u32 = 28;
const VALUE: u32 = (1 << KIND_SHIFT) - 1;
/// Event: state of the queue.
const TOKEN: u32 = 0;
/// Event: dispatch of the workgroups that follow.
const JOB: u32 = 1;
/// Events: low and high part of a workgroup's index.
const INDEX: u32 = 2;
const INDEX_HIGH: u32 = 3;

/// Resources of the waves that follow.
mod state {
    pub(super) const STATE: u32 = 1 << 31;
    pub(super) const SGPRS_SHIFT: u32 = 6;
    pub(super) const LDS_SHIFT: u32 = 9;
    pub(super) const ACCUM_OFFSET_SHIFT: u32 = 24;
}

/// A wave.
mod wave {
    pub(super) const SCOREBOARD: u32 = 0x1ff;
    /// Of the model: bits 12:11 of the scratch slot.
    pub(super) const SLOT_HIGH_SHIFT: u32 = 9;
    pub(super) const SE_SHIFT: u32 = 11;
    pub(super) const SCRATCH_EN: u32 = 1 << 15;
    pub(super) const LAST: u32 = 1 << 16;
    pub(super) const FIRST: u32 = 1 << 17;
    /// Of the model: index of the wave in its workgroup.
    pub(super) const INDEX_SHIFT: u32 = 18;
}

/// Bit of EXEC in the wave that restores LDS.
const FIRST_WAVE: u64 = 1 << 58;

fn event(kind: u32, value: u64) -> u32 {
    EVENT | kind << KIND_SHIFT | value as u32 & VALUE
}

/// What an XCC saves.
#[derive(Default)]
struct Place {
    area: Option<SaveArea>,
    /// Workgroups that have neither ended nor are ready to be saved.
    awaited: HashSet<(u64, u64)>,
    /// Bytes of records.
    used: u64,
    count: u64,
    /// Dwords of each workgroup, in the order in which they are pushed.
    groups: Vec<Vec<u32>>,
    dwords: usize,
    /// A workgroup did not fit.
    full: bool,
}

/// Save of a queue's waves in progress, by XCC in the order in which workgroups are distributed.
pub struct Saving(Vec<Mutex<Place>>);

/// A workgroup to restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedGroup {
    /// Low bits of the dispatch's number, see [`job_number`].
    pub job: u64,
    /// Index of the workgroup.
    pub index: u64,
    /// Its waves.
    pub waves: Vec<SavedWave>,
}

crate::errors! {
    /// A control stack that cannot be restored.
    pub enum StackError {
        /// Wrong first dwords.
        Leader { leader: [u32; 2] } => "it begins with {leader:x?}",
        /// No state of the queue.
        Token => "it has no state of the queue",
        /// A wave without resources, dispatch or workgroup.
        Wave { dword: usize } => "dword {dword} is a wave without resources or workgroup",
        /// A workgroup that does not begin with its first wave, or does not end.
        Group { dword: usize } => "the workgroup at dword {dword} lacks its first or last wave",
        /// Records that do not end at the start of the wave area.
        Bottom { at: u64, bottom: u64 } => "the records end at {at:#x}, not at {bottom:#x}",
    }
}

/// Returns the part of a dispatch's number that the control stack contains.
pub fn job_number(id: u64) -> u64 {
    id & u64::from(VALUE)
}

impl Saving {
    /// Returns a save to the areas of the XCCs.
    pub fn new(areas: impl Iterator<Item = Option<SaveArea>>) -> Self {
        let place = |area| {
            Mutex::new(Place {
                area,
                ..Place::default()
            })
        };
        Self(areas.map(place).collect())
    }

    fn place(&self, place: usize) -> Option<MutexGuard<'_, Place>> {
        let place = self.0.get(place)?;
        Some(place.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// Adds a workgroup, a dispatch and an index, to those that are saved or end.
    pub fn expect(&self, place: usize, group: (u64, u64)) {
        if let Some(mut place) = self.place(place) {
            place.awaited.insert(group);
        }
    }

    /// Removes a workgroup that has ended.
    pub fn ended(&self, place: usize, group: (u64, u64)) {
        if let Some(mut place) = self.place(place) {
            place.awaited.remove(&group);
        }
    }

    /// Returns the addresses of the records of `waves`, and pushes them on the control stack.
    /// `None` if there is no room, or not all waves of the XCC are ready: a record may be that of a
    /// wave that still restores itself.
    pub fn push(
        &self,
        place: usize,
        d: &Dispatch,
        (job, index): (u64, u64),
        waves: &[u32],
    ) -> Option<Vec<u64>> {
        let mut place = self.place(place)?;
        place.awaited.remove(&(job, index));
        if !place.awaited.is_empty() {
            return None;
        }
        let area = place.area?;
        let mut dwords = vec![event(JOB, job), event(INDEX, index)];
        if index >> KIND_SHIFT != 0 {
            dwords.push(event(INDEX_HIGH, index >> KIND_SHIFT));
        }
        dwords.push(resources(d));
        let last = waves.len().saturating_sub(1);
        for (n, &number) in waves.iter().enumerate() {
            let slot = d.scratch.slot(d.wave_number(index, number)) as u32;
            let bit = |on: bool, bit: u32| if on { bit } else { 0 };
            dwords.push(
                slot >> 2 & wave::SCOREBOARD
                    | (slot >> 11 & 3) << wave::SLOT_HIGH_SHIFT
                    | (slot & 3) << wave::SE_SHIFT
                    | bit(d.scratch.slots != 0, wave::SCRATCH_EN)
                    | bit(n == last, wave::LAST)
                    | bit(n == 0, wave::FIRST)
                    | number << wave::INDEX_SHIFT,
            );
        }
        let record = d.record_bytes();
        let bytes = record * waves.len() as u64 + u64::from(d.lds_bytes);
        let room = u64::from(area.size.saturating_sub(area.stack));
        let stack_room = area.stack.saturating_sub(cwsr::HEADER_SIZE) as usize / 4;
        // The leader, and the state of the queue.
        let stack = place.dwords + dwords.len() + LEADER.len() + 1;
        if place.used + bytes > room || stack > stack_room {
            place.full = true;
            return None;
        }
        let base = area.base + u64::from(area.stack) + place.used;
        place.used += bytes;
        place.count += waves.len() as u64;
        place.dwords += dwords.len();
        place.groups.push(dwords);
        let above = |n: usize| (waves.len() - 1 - n) as u64;
        Some((0..waves.len()).map(|n| base + above(n) * record).collect())
    }

    /// Returns what an XCC has saved.
    pub fn waves(&self, place: usize) -> Waves {
        let Some(place) = self.place(place) else {
            return Waves::default();
        };
        Waves {
            count: place.count,
            bytes: place.used,
            stack: place.groups.iter().rev().flatten().copied().collect(),
        }
    }

    /// Returns the area that was too small for the waves of an XCC.
    pub fn overflow(&self) -> Option<SaveArea> {
        let mut places = (0..self.0.len()).filter_map(|n| self.place(n));
        places.find(|place| place.full)?.area
    }
}

fn resources(d: &Dispatch) -> u32 {
    // With the trap temporaries.
    let sgprs = (d.rsrc1 >> 7 & 7) + 1;
    state::STATE
        | d.rsrc1 & 0x3f
        | sgprs << state::SGPRS_SHIFT
        | d.lds_bytes.div_ceil(512) << state::LDS_SHIFT
        | (d.rsrc3 & 0x3f) << state::ACCUM_OFFSET_SHIFT
}

/// Returns bytes of a record and of LDS.
fn sizes(resources: u32) -> (u64, u64) {
    let vgprs = (u64::from(resources & 0x3f) + 1) * 8;
    let sgprs = u64::from(resources >> state::SGPRS_SHIFT & 7) + 1;
    let lds = u64::from(resources >> state::LDS_SHIFT & 0xff) * 512;
    (vgprs * 256 + sgprs * 64 + 128, lds)
}

/// Returns the control stack with what [`Saving::waves`] returned.
pub fn control_stack(token: u64, dwords: &[u32]) -> Vec<u32> {
    let mut stack = LEADER.to_vec();
    stack.push(event(TOKEN, token));
    stack.extend_from_slice(dwords);
    stack
}

/// Reads a control stack, whose records are between `bottom` and `top`. Returns the state of the
/// queue and the workgroups.
pub fn parse(dwords: &[u32], bottom: u64, top: u64) -> Result<(u64, Vec<SavedGroup>), StackError> {
    let leader = [0, 1].map(|n| dwords.get(n).copied().unwrap_or(0));
    if leader != LEADER {
        return Err(StackError::Leader { leader });
    }
    let (mut token, mut job, mut index, mut resources) = (None, None, None, None);
    let mut groups: Vec<SavedGroup> = Vec::new();
    let (mut at, mut open) = (top, false);
    for (dword, &word) in dwords.iter().enumerate().skip(LEADER.len()) {
        if word & EVENT != 0 {
            let value = u64::from(word & VALUE);
            match word >> KIND_SHIFT & 3 {
                TOKEN => token = Some(value),
                JOB => job = Some(value),
                INDEX => index = Some(value),
                _ => index = index.map(|low: u64| low | value << KIND_SHIFT),
            }
            continue;
        }
        if word & state::STATE != 0 {
            resources = Some(word);
            continue;
        }
        let (Some(job), Some(index), Some(resources)) = (job, index, resources) else {
            return Err(StackError::Wave { dword });
        };
        let first = word & wave::FIRST != 0;
        if first == open {
            return Err(StackError::Group { dword });
        }
        let (record, lds) = sizes(resources);
        at = at.wrapping_sub(record + if first { lds } else { 0 });
        if first {
            groups.push(SavedGroup {
                job,
                index,
                waves: Vec::new(),
            });
        }
        let slot = (word & wave::SCOREBOARD) << 2
            | word >> wave::SE_SHIFT & 3
            | (word >> wave::SLOT_HIGH_SHIFT & 3) << 11;
        if let Some(group) = groups.last_mut() {
            group.waves.push(SavedWave {
                index: word >> wave::INDEX_SHIFT & 0x3f,
                record: at & (1 << 48) - 1 | if first { FIRST_WAVE } else { 0 },
                scratch_slot: slot.into(),
            });
        }
        open = word & wave::LAST == 0;
    }
    if open {
        let dword = dwords.len();
        return Err(StackError::Group { dword });
    }
    if at != bottom {
        return Err(StackError::Bottom { at, bottom });
    }
    Ok((token.ok_or(StackError::Token)?, groups))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_come_back_from_the_stack() {
        let area = SaveArea {
            base: 0x10_0000,
            stack: 0x1000,
            size: 0x10_0000,
        };
        let d = Dispatch {
            workgroup: [192, 1, 1],
            grid: [1920, 1, 1],
            rsrc1: 3 | 5 << 6,
            rsrc3: 3,
            lds_bytes: 1024,
            ..Dispatch::default()
        };
        let saving = Saving::new([None, Some(area)].into_iter());
        assert_eq!(saving.push(0, &d, (1, 0), &[0]), None);
        let one = saving.push(1, &d, (7, 3), &[0, 1, 2]).unwrap();
        let two = saving.push(1, &d, (8, 1 << 40), &[2]).unwrap();
        let waves = saving.waves(1);
        assert_eq!(waves.count, 4);
        let stack = control_stack(99, &waves.stack);
        let (bottom, top) = (0x10_1000, 0x10_1000 + waves.bytes);
        let (token, groups) = parse(&stack, bottom, top).unwrap();
        assert_eq!(token, 99);
        let of = |n: usize| (groups[n].job, groups[n].index, groups[n].waves.len());
        assert_eq!([of(0), of(1)], [(8, 1 << 40, 1), (7, 3, 3)]);
        let records = |n: usize| groups[n].waves.iter().map(|w| w.record & !FIRST_WAVE);
        assert!(records(0).eq(two));
        assert!(records(1).eq(one));
        assert_eq!(groups[1].waves.iter().map(|w| w.index).max(), Some(2));
        let first = |w: &&SavedWave| w.record & FIRST_WAVE != 0;
        assert_eq!(groups[1].waves.iter().filter(first).count(), 1);
        assert!(parse(&stack, bottom, top + 64).is_err());
        assert!(parse(&stack[..stack.len() - 1], bottom, top).is_err());
        let full = (0..100).all(|n| saving.push(1, &d, (9, n), &[0, 1, 2]).is_some());
        assert!(!full);
        assert_eq!(saving.overflow(), Some(area));
    }
}
