// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Context save area: records of waves, and the control stack that describes them.
//!
//! The trap handler stores a wave in its record; this module chooses the addresses, and writes and
//! reads the control stack, which on gfx9 is behind the MQD and on gfx12 in the save area. The
//! stack grows down from `cp_hqd_cntl_stack_size`, the records grow up from that offset in the save
//! area. A restore pops the stack: the last record comes first, and in a workgroup the wave that
//! has LDS in its record.
//!
//! Each dword of the stack is a write to COMPUTE_RELAUNCH: bit 31 set, the resources of the waves
//! that follow, on gfx12 with a second dword for COMPUTE_RELAUNCH2; bits 31 and 30 clear, a wave;
//! bit 30 set, an event. AMD's debugger library reads the fields of the first two and skips events.
//! The contents of events are specific to the model: the dispatch, the workgroup, and the state of
//! the queue that silicon keeps elsewhere.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use gpu_wave::{Dispatch, Isa, SavedWave};
use rkfd_abi::cwsr;

use super::queue::SaveArea;
use super::shared::Waves;

/// Header of the first of two dwords in front of the writes: SET_SH_REG. The second is the
/// register's offset.
const SET_SH_REG: u32 = 0xc000_7600;
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
const STATE: u32 = 1 << 31;

/// Bits of an unsigned field: shift and width.
#[derive(Clone, Copy)]
struct Bits(u32, u32);

impl Bits {
    fn put(self, value: u32) -> u32 {
        (value & ((1 << self.1) - 1)) << self.0
    }

    fn get(self, word: u32) -> u32 {
        word >> self.0 & ((1 << self.1) - 1)
    }
}

/// Fields of the words of a generation.
struct Format {
    /// Offset of COMPUTE_RELAUNCH.
    register: u32,
    /// Dwords of resources.
    states: usize,
    /// Low and high part of the scratch slot; the model's are the parts that the scoreboard and the
    /// shader engine do not hold.
    slot: &'static [Bits],
    scratch_en: Bits,
    first: Bits,
    last: Bits,
    /// Of the model: index of the wave in its workgroup.
    index: Bits,
}

/// Scoreboard id, shader engine, and two bits of the model.
static GFX9: Format = Format {
    register: 0x022b,
    states: 1,
    slot: &[Bits(11, 2), Bits(0, 9), Bits(9, 2)],
    scratch_en: Bits(15, 1),
    last: Bits(16, 1),
    first: Bits(17, 1),
    index: Bits(18, 6),
};

/// Scoreboard id and shader engine.
static GFX12: Format = Format {
    register: 0x0230,
    states: 2,
    slot: &[Bits(0, 10), Bits(24, 3)],
    scratch_en: Bits(11, 1),
    first: Bits(12, 1),
    last: Bits(29, 1),
    index: Bits(13, 6),
};

impl Format {
    fn of(isa: Isa) -> &'static Self {
        match isa {
            Isa::Gfx942 => &GFX9,
            Isa::Gfx1201 => &GFX12,
        }
    }

    fn leader(&self) -> [u32; 2] {
        [SET_SH_REG, self.register]
    }

    fn put_slot(&self, mut slot: u32) -> u32 {
        self.slot.iter().fold(0, |word, bits| {
            let part = bits.put(slot);
            slot >>= bits.1;
            word | part
        })
    }

    fn slot(&self, word: u32) -> u32 {
        let parts = self.slot.iter().rev();
        parts.fold(0, |slot, bits| slot << bits.1 | bits.get(word))
    }
}

/// Fields of resources.
mod state {
    use super::Bits;

    pub(super) const VGPRS: Bits = Bits(0, 6);
    pub(super) const SGPRS_GFX9: Bits = Bits(6, 3);
    pub(super) const LDS_GFX9: Bits = Bits(9, 8);
    pub(super) const ACCUM_OFFSET_GFX9: Bits = Bits(24, 6);
    pub(super) const LDS_GFX12: Bits = Bits(10, 8);
    pub(super) const W32_EN_GFX12: Bits = Bits(24, 1);
}

/// Bit of EXEC in the wave that restores LDS.
const FIRST_WAVE: u64 = 1 << 58;

fn event(kind: u32, value: u64) -> u32 {
    EVENT | kind << KIND_SHIFT | value as u32 & VALUE
}

/// A saved workgroup.
struct Pushed {
    job: u64,
    index: u64,
    resources: u32,
    waves: Vec<u32>,
}

impl Pushed {
    /// Returns the dwords; dispatch and resources only if they differ from those of the workgroup
    /// before.
    fn dwords(&self, before: Option<&Self>, format: &Format) -> Vec<u32> {
        let mut dwords = Vec::new();
        if before.is_none_or(|before| before.job != self.job) {
            dwords.push(event(JOB, self.job));
        }
        dwords.push(event(INDEX, self.index));
        if self.index >> KIND_SHIFT != 0 {
            dwords.push(event(INDEX_HIGH, self.index >> KIND_SHIFT));
        }
        if before.is_none_or(|before| before.resources != self.resources) {
            dwords.push(self.resources);
            dwords.resize(dwords.len() + format.states - 1, 0);
        }
        dwords.extend_from_slice(&self.waves);
        dwords
    }
}

/// Save state of an XCC.
#[derive(Default)]
struct Place {
    area: Option<SaveArea>,
    /// Workgroups that have neither ended nor are ready to be saved.
    awaited: HashSet<(u64, u64)>,
    /// Bytes of records.
    used: u64,
    count: u64,
    /// Workgroups in the order in which they are pushed.
    groups: Vec<Pushed>,
    dwords: usize,
    /// A workgroup did not fit.
    full: bool,
}

/// Save of a queue's waves in progress, by XCC in the order in which workgroups are distributed.
pub struct Saving {
    isa: Isa,
    places: Vec<Mutex<Place>>,
}

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
    pub fn new(isa: Isa, areas: impl Iterator<Item = Option<SaveArea>>) -> Self {
        let place = |area| {
            Mutex::new(Place {
                area,
                ..Place::default()
            })
        };
        Self {
            isa,
            places: areas.map(place).collect(),
        }
    }

    fn place(&self, place: usize) -> Option<MutexGuard<'_, Place>> {
        let place = self.places.get(place)?;
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
        let format = Format::of(self.isa);
        let last = waves.len().saturating_sub(1);
        let word = |(n, &number): (usize, &u32)| {
            let slot = d.scratch.slot(d.wave_number(index, number)) as u32;
            format.put_slot(slot)
                | format.scratch_en.put((d.scratch.slots != 0).into())
                | format.last.put((n == last).into())
                | format.first.put((n == 0).into())
                | format.index.put(number)
        };
        let group = Pushed {
            job: job_number(job),
            index,
            resources: resources(d),
            waves: waves.iter().enumerate().map(word).collect(),
        };
        // The group pushed last comes behind this one.
        let dwords = group.dwords(place.groups.last(), format).len();
        let record = d.record_bytes();
        let bytes = record * waves.len() as u64 + u64::from(d.lds_bytes);
        let room = u64::from(area.size.saturating_sub(area.stack));
        let stack_room = area.stack.saturating_sub(cwsr::HEADER_SIZE) as usize / 4;
        // The leader, and the state of the queue.
        let stack = place.dwords + dwords + format.leader().len() + 1;
        if place.used + bytes > room || stack > stack_room {
            place.full = true;
            return None;
        }
        let base = area.base + u64::from(area.stack) + place.used;
        place.used += bytes;
        place.count += waves.len() as u64;
        place.dwords += dwords;
        place.groups.push(group);
        let above = |n: usize| (waves.len() - 1 - n) as u64;
        Some((0..waves.len()).map(|n| base + above(n) * record).collect())
    }

    /// Returns the waves that an XCC has saved.
    pub fn waves(&self, place: usize) -> Waves {
        let Some(place) = self.place(place) else {
            return Waves::default();
        };
        let mut before = None;
        let mut stack = Vec::with_capacity(place.dwords);
        for group in place.groups.iter().rev() {
            stack.extend(group.dwords(before, Format::of(self.isa)));
            before = Some(group);
        }
        Waves {
            count: place.count,
            bytes: place.used,
            stack,
        }
    }

    /// Returns the area that was too small for the waves of an XCC.
    pub fn overflow(&self) -> Option<SaveArea> {
        let mut places = (0..self.places.len()).filter_map(|n| self.place(n));
        places.find(|place| place.full)?.area
    }
}

fn resources(d: &Dispatch) -> u32 {
    let lds = d.lds_bytes.div_ceil(512);
    let common = STATE | state::VGPRS.put(d.rsrc1);
    match d.isa {
        Isa::Gfx942 => {
            // With the trap temporaries.
            common
                | state::SGPRS_GFX9.put((d.rsrc1 >> 7 & 7) + 1)
                | state::LDS_GFX9.put(lds)
                | state::ACCUM_OFFSET_GFX9.put(d.rsrc3)
        }
        Isa::Gfx1201 => {
            common | state::LDS_GFX12.put(lds) | state::W32_EN_GFX12.put(d.wave32.into())
        }
    }
}

/// Returns bytes of a record and of LDS.
fn sizes(isa: Isa, resources: u32) -> (u64, u64) {
    let blocks = u64::from(state::VGPRS.get(resources)) + 1;
    let (vgprs, sgprs, lds) = match isa {
        Isa::Gfx942 => (
            blocks * 8 * 256,
            u64::from(state::SGPRS_GFX9.get(resources) + 1) * 64,
            state::LDS_GFX9.get(resources),
        ),
        // 8 VGPRs of 32 lanes, or 4 of 64.
        Isa::Gfx1201 => (blocks * 1024, 512, state::LDS_GFX12.get(resources)),
    };
    (vgprs + sgprs + 128, u64::from(lds) * 512)
}

/// Returns the control stack with the dwords of [`Saving::waves`].
pub fn control_stack(isa: Isa, token: u64, dwords: &[u32]) -> Vec<u32> {
    let mut stack = Format::of(isa).leader().to_vec();
    stack.push(event(TOKEN, token));
    stack.extend_from_slice(dwords);
    stack
}

/// Reads a control stack, whose records are between `bottom` and `top`. Returns the state of the
/// queue and the workgroups.
pub fn parse(
    isa: Isa,
    dwords: &[u32],
    bottom: u64,
    top: u64,
) -> Result<(u64, Vec<SavedGroup>), StackError> {
    let format = Format::of(isa);
    let leader = [0, 1].map(|n| dwords.get(n).copied().unwrap_or(0));
    if leader != format.leader() {
        return Err(StackError::Leader { leader });
    }
    let (mut token, mut job, mut index, mut resources) = (None, None, None, None);
    let mut groups: Vec<SavedGroup> = Vec::new();
    let (mut at, mut open) = (top, false);
    let mut words = dwords.iter().enumerate().skip(leader.len());
    while let Some((dword, &word)) = words.next() {
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
        if word & STATE != 0 {
            resources = Some(word);
            for _ in 1..format.states {
                words.next();
            }
            continue;
        }
        let (Some(job), Some(index), Some(resources)) = (job, index, resources) else {
            return Err(StackError::Wave { dword });
        };
        let first = format.first.get(word) != 0;
        if first == open {
            return Err(StackError::Group { dword });
        }
        let (record, lds) = sizes(isa, resources);
        at = at.wrapping_sub(record + if first { lds } else { 0 });
        if first {
            groups.push(SavedGroup {
                job,
                index,
                waves: Vec::new(),
            });
        }
        if let Some(group) = groups.last_mut() {
            group.waves.push(SavedWave {
                index: format.index.get(word),
                record: at & (1 << 48) - 1 | if first { FIRST_WAVE } else { 0 },
                scratch_slot: format.slot(word).into(),
            });
        }
        open = format.last.get(word) == 0;
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

    fn dispatches() -> [Dispatch; 3] {
        let gfx9 = Dispatch {
            workgroup: [192, 1, 1],
            grid: [1920, 1, 1],
            rsrc1: 3 | 5 << 6,
            rsrc3: 3,
            lds_bytes: 1024,
            ..Dispatch::default()
        };
        let gfx12 = |wave32, items| Dispatch {
            isa: Isa::Gfx1201,
            wave32,
            workgroup: [items, 1, 1],
            grid: [u32::from(items) * 10, 1, 1],
            rsrc1: 5,
            lds_bytes: 1024,
            ..Dispatch::default()
        };
        [gfx9, gfx12(true, 96), gfx12(false, 192)]
    }

    #[test]
    fn waves_come_back_from_the_stack() {
        let area = SaveArea {
            base: 0x10_0000,
            stack: 0x1000,
            size: 0x10_0000,
        };
        for d in dispatches() {
            let isa = d.isa;
            let saving = Saving::new(isa, [None, Some(area)].into_iter());
            assert_eq!(saving.push(0, &d, (1, 0), &[0]), None);
            let one = saving.push(1, &d, (7, 3), &[0, 1, 2]).unwrap();
            let two = saving.push(1, &d, (8, 1 << 40), &[2]).unwrap();
            let waves = saving.waves(1);
            assert_eq!(waves.count, 4);
            assert_eq!(waves.bytes, 4 * d.record_bytes() + 2 * 1024);
            let stack = control_stack(isa, 99, &waves.stack);
            let (bottom, top) = (0x10_1000, 0x10_1000 + waves.bytes);
            let (token, groups) = parse(isa, &stack, bottom, top).unwrap();
            assert_eq!(token, 99);
            let of = |n: usize| (groups[n].job, groups[n].index, groups[n].waves.len());
            assert_eq!([of(0), of(1)], [(8, 1 << 40, 1), (7, 3, 3)]);
            let records = |n: usize| groups[n].waves.iter().map(|w| w.record & !FIRST_WAVE);
            assert!(records(0).eq(two));
            assert!(records(1).eq(one));
            assert_eq!(groups[1].waves.iter().map(|w| w.index).max(), Some(2));
            let first = |w: &&SavedWave| w.record & FIRST_WAVE != 0;
            assert_eq!(groups[1].waves.iter().filter(first).count(), 1);
            assert!(parse(isa, &stack, bottom, top + 64).is_err());
            assert!(parse(isa, &stack[..stack.len() - 1], bottom, top).is_err());
            let full = (0..100).all(|n| saving.push(1, &d, (9, n), &[0, 1, 2]).is_some());
            assert!(!full);
            assert_eq!(saving.overflow(), Some(area));
        }
    }

    /// The driver's control stack has room for 8 and for 12 bytes per wave: workgroups of one wave
    /// fit in, too.
    #[test]
    fn single_waves_fit_in_the_stack() {
        let waves = 400;
        for (d, bytes) in dispatches().iter().zip([8, 12, 12]) {
            let area = SaveArea {
                base: 0x10_0000,
                stack: cwsr::HEADER_SIZE + cwsr::CNTL_STACK_TAIL + waves * bytes + 16,
                size: 0x100_0000,
            };
            let saving = Saving::new(d.isa, std::iter::once(Some(area)));
            for n in 0..waves {
                assert!(saving.push(0, d, (1, n.into()), &[0]).is_some(), "{n}");
            }
            let stack = control_stack(d.isa, 1, &saving.waves(0).stack);
            let top = area.base + u64::from(area.stack) + saving.waves(0).bytes;
            let bottom = area.base + u64::from(area.stack);
            assert_eq!(parse(d.isa, &stack, bottom, top).unwrap().1.len(), 400);
        }
    }

    #[test]
    fn slots_come_back() {
        for format in [&GFX9, &GFX12] {
            let count = 1 << format.slot.iter().map(|bits| bits.1).sum::<u32>();
            for slot in 0..count {
                assert_eq!(format.slot(format.put_slot(slot)), slot);
            }
        }
    }
}
