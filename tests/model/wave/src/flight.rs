// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory instructions in flight, if the host asks for it ([`Host::late`](crate::Host::late)): a
//! result is in its registers when the program has waited for it, and from some time before that.
//! Without it all results are there before the next instruction, and waits have no effect.
//!
//! An instruction accesses memory when it is issued, and then counts. Its registers keep their old
//! contents until it completes:
//!
//! * when a wait for its counter (`s_waitcnt`; `s_wait_loadcnt`, `s_wait_dscnt`, `s_wait_kmcnt` and
//!   the combined ones of gfx1201, `s_wait_idle`) leaves no other choice;
//! * when the counter is at its limit, at the issue of the next one;
//! * at the entry of the trap handler: all instructions complete before it, according to AMD's ISA
//!   documents of CDNA3 and RDNA4 ("S_TRAP", which exceptions and host traps generate, too). The
//!   stock driver's handler of gfx942 relies on it: it stores VGPRs without a wait. A handler has
//!   to wait for its own loads;
//! * at once, for one instruction in four, chosen by a generator.
//!
//! Those of a counter complete in the order of issue, except that
//!
//! * scalar memory instructions and messages, which have a counter of their own on gfx1201 only,
//!   complete at any time before or after others: only a wait for 0 is enough;
//! * FLAT instructions that access LDS count twice, and on gfx942 "the only sensible" wait for one
//!   is that for 0 of both (the ISA document). One without lanes in LDS is a vector memory
//!   instruction: LLVM does not wait for LGKM_CNT if it knows the address space.
//!
//! Milder than silicon may be:
//!
//! * memory is read at the issue, not later;
//! * stores are in memory at the issue. On gfx942 they count in VM_CNT; on gfx1201 they have their
//!   counter, which is not modelled, as that of exports is not;
//! * the doorbell id and the reply to MSG_SAVEWAVE do not come late;
//! * an instruction that has to be repeated for some lanes (XNACK) completes at once for the
//!   others.

use crate::exec::{self, Ctx};
use crate::inst::{Access, Body, Components, Half, Inst, Lds, LdsOp, Salu, Segment, Typed, Vmem};
use crate::op::Op;
use crate::random;
use crate::wave::{Lanes, Step, Wave, LANES};
use crate::Isa;

/// One in so many instructions completes at once.
const EARLY: u64 = 4;

/// A counter of instructions in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    /// VM_CNT; LOAD_CNT of gfx1201.
    Load,
    /// LGKM_CNT; DS_CNT of gfx1201.
    Ds,
    /// KM_CNT of gfx1201.
    Km,
}

impl Counter {
    const ALL: [Self; 3] = [Self::Load, Self::Ds, Self::Km];

    /// Returns the limit of the counter, which a wait cannot name: it waits for nothing.
    fn limit(self, isa: Isa) -> usize {
        match (self, isa) {
            (Self::Load, _) | (Self::Ds, Isa::Gfx1201) => 63,
            (Self::Ds, Isa::Gfx942) => 15,
            (Self::Km, _) => 31,
        }
    }
}

/// Returns the dword of a lane in LDS, if it lies inside of the allocation.
fn dword(lds: &mut [u8], at: u64, lane: usize) -> Option<&mut [u8; 4]> {
    let cell = exec::cell(lds, at.wrapping_add(4 * lane as u64), 4)?;
    cell.try_into().ok()
}

/// What an instruction in flight changes when it completes.
#[derive(Debug)]
enum Change {
    /// Lanes and bits of a vector register.
    Vector {
        register: usize,
        mask: u64,
        bits: u32,
        lanes: Box<Lanes>,
    },
    /// A scalar register.
    Scalar { register: usize, value: u32 },
    /// A dword of LDS for each lane, from an address on.
    Lds {
        at: u64,
        mask: u64,
        lanes: Box<Lanes>,
    },
}

impl Change {
    /// Returns the change of vector registers from `first` on, the last with these bits.
    fn vectors(first: u16, count: usize, last: u32, mask: u64) -> impl Iterator<Item = Self> {
        (0..count).map(move |n| Self::Vector {
            register: usize::from(first) + n,
            mask,
            bits: if n + 1 == count { last } else { u32::MAX },
            lanes: Box::new([0; LANES]),
        })
    }

    fn scalars(first: u8, count: usize) -> Vec<Self> {
        let change = |n| Self::Scalar {
            register: usize::from(first) + n,
            value: 0,
        };
        (0..count).map(change).collect()
    }

    /// Notes the contents of the destination.
    fn note(&mut self, w: &Wave, lds: &mut [u8]) {
        match self {
            Self::Vector {
                register, lanes, ..
            } => **lanes = w.v[*register],
            Self::Scalar { register, value } => *value = w.s[*register],
            Self::Lds { at, lanes, .. } => {
                for (l, lane) in lanes.iter_mut().enumerate() {
                    *lane = dword(lds, *at, l).map_or(0, |cell| u32::from_le_bytes(*cell));
                }
            }
        }
    }

    /// Exchanges the contents of the destination with those that the change has: between the old
    /// ones and the result.
    fn exchange(&mut self, w: &mut Wave, lds: &mut [u8]) {
        match self {
            Self::Vector {
                register,
                mask,
                bits,
                lanes,
            } => {
                let to = &mut w.v[*register];
                for l in exec::active(*mask) {
                    let (new, old) = (lanes[l], to[l]);
                    to[l] = old & !*bits | new & *bits;
                    lanes[l] = old;
                }
            }
            Self::Scalar { register, value } => std::mem::swap(&mut w.s[*register], value),
            Self::Lds { at, mask, lanes } => {
                for l in exec::active(*mask) {
                    if let Some(cell) = dword(lds, *at, l) {
                        let old = u32::from_le_bytes(*cell);
                        *cell = lanes[l].to_le_bytes();
                        lanes[l] = old;
                    }
                }
            }
        }
    }
}

/// An instruction in flight, or the part of one that counts in this counter.
#[derive(Debug)]
struct Operation {
    counter: Counter,
    /// Completes in order.
    ordered: bool,
    changes: Vec<Change>,
}

/// Instructions in flight of a wave, in the order of issue.
#[derive(Debug)]
pub(crate) struct Flight {
    random: u64,
    operations: Vec<Operation>,
}

impl Flight {
    /// Returns the state of wave `index` of a workgroup; `seed` is that of the workgroup.
    pub(crate) fn new(seed: u64, index: u32) -> Self {
        Self {
            random: seed ^ u64::from(index) << 32,
            operations: Vec::new(),
        }
    }

    /// Returns a number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(random::STEP);
        random::below(random::number(self.random), bound)
    }

    fn count(&self, counter: Counter) -> usize {
        let counts = |o: &&Operation| o.counter == counter;
        self.operations.iter().filter(counts).count()
    }

    /// Removes an operation that completes next in a counter: the oldest one in order, or any
    /// other. `None`: there is none.
    fn next(&mut self, counter: Counter) -> Option<Operation> {
        let mut ordered = false;
        let mut choices = Vec::new();
        for (n, operation) in self.operations.iter().enumerate() {
            if operation.counter != counter || operation.ordered && ordered {
                continue;
            }
            ordered |= operation.ordered;
            choices.push(n);
        }
        if choices.is_empty() {
            return None;
        }
        let choice = self.below(choices.len() as u64) as usize;
        Some(self.operations.remove(choices[choice]))
    }
}

impl Wave {
    /// Returns the number of instructions in flight.
    pub(crate) fn in_flight(&self, counter: Counter) -> u32 {
        let flight = self.flight.as_ref();
        flight.map_or(0, |flight| flight.count(counter) as u32)
    }

    fn complete(&mut self, lds: &mut [u8], mut operation: Operation) {
        for change in &mut operation.changes {
            change.exchange(self, lds);
        }
    }

    /// Waits until a counter is at most `most`.
    fn wait(&mut self, lds: &mut [u8], counter: Counter, most: usize) {
        while let Some(flight) = self.flight.as_mut() {
            if flight.count(counter) <= most {
                return;
            }
            if let Some(operation) = flight.next(counter) {
                self.complete(lds, operation);
            }
        }
    }

    /// Waits for the instruction issued last.
    fn wait_for_last(&mut self, lds: &mut [u8]) {
        while let Some(flight) = self.flight.as_mut() {
            let operations = &mut flight.operations;
            let Some(last) = operations.last() else {
                return;
            };
            let before = |o: &Operation| o.ordered && o.counter == last.counter;
            let (counts, end) = (operations.len(), operations.len() - 1);
            let next = match last.ordered {
                true => operations.iter().position(before).unwrap_or(end),
                false => end,
            };
            let operation = operations.remove(next);
            self.complete(lds, operation);
            if next + 1 == counts {
                return;
            }
        }
    }

    /// Waits for all instructions.
    #[cold]
    pub(crate) fn wait_idle(&mut self, lds: &mut [u8]) {
        if self.flight.is_some() {
            for counter in Counter::ALL {
                self.wait(lds, counter, 0);
            }
        }
    }
}

/// Executes an instruction of a wave whose results come late.
#[inline(never)]
pub(crate) fn step(w: &mut Wave, ctx: &mut Ctx<'_>, inst: &Inst) -> Step {
    let body = &inst.body;
    if let Body::Salu(i) = body {
        for (counter, most) in waits(w.isa, i) {
            w.wait(ctx.lds, counter, most);
        }
    }
    let mut operations = operations(w, body);
    for operation in &operations {
        let limit = operation.counter.limit(w.isa);
        w.wait(ctx.lds, operation.counter, limit - 1);
    }
    // The old contents, which the wait may have changed.
    let all = operations.iter_mut().flat_map(|o| &mut o.changes);
    all.for_each(|change| change.note(w, ctx.lds));
    exec::execute(w, ctx, inst.bytes, body)?;
    for operation in &mut operations {
        for change in &mut operation.changes {
            change.exchange(w, ctx.lds);
        }
    }
    for operation in operations {
        let Some(flight) = w.flight.as_mut() else {
            break;
        };
        flight.operations.push(operation);
        if flight.below(EARLY) == 0 {
            w.wait_for_last(ctx.lds);
        }
    }
    Ok(())
}

/// Returns the counters that an instruction waits for, and what is left in flight at most.
fn waits(isa: Isa, i: &Salu) -> Vec<(Counter, usize)> {
    use Op::*;
    let imm = i.imm as usize & 0xffff;
    let field = |shift: u32, bits: u32| imm >> shift & ((1 << bits) - 1);
    let (load, ds, km) = (Counter::Load, Counter::Ds, Counter::Km);
    match (isa, i.op) {
        (Isa::Gfx942, s_waitcnt) => {
            vec![(load, field(0, 4) | field(14, 2) << 4), (ds, field(8, 4))]
        }
        (Isa::Gfx1201, s_wait_loadcnt) => vec![(load, field(0, 6))],
        (Isa::Gfx1201, s_wait_dscnt | s_wait_storecnt_dscnt) => vec![(ds, field(0, 6))],
        (Isa::Gfx1201, s_wait_kmcnt) => vec![(km, field(0, 5))],
        (Isa::Gfx1201, s_wait_loadcnt_dscnt) => vec![(load, field(8, 6)), (ds, field(0, 6))],
        (Isa::Gfx1201, s_wait_idle) => Counter::ALL.map(|counter| (counter, 0)).to_vec(),
        _ => Vec::new(),
    }
}

/// Returns what an instruction adds to the instructions in flight.
fn operations(w: &Wave, body: &Body) -> Vec<Operation> {
    let one = |counter, ordered, changes| {
        vec![Operation {
            counter,
            ordered,
            changes,
        }]
    };
    let gfx9 = w.isa == Isa::Gfx942;
    // The counter of scalar memory and of messages.
    let scalar = if gfx9 { Counter::Ds } else { Counter::Km };
    match body {
        Body::Salu(i) => match reply(w, i) {
            Some(registers) => one(scalar, false, Change::scalars(i.dst, registers)),
            None => Vec::new(),
        },
        Body::Smem(i) => {
            let registers = if exec::stores(i.op) { 0 } else { i.dwords };
            one(scalar, false, Change::scalars(i.data, registers.into()))
        }
        Body::ScalarLoad(i) => {
            let registers = usize::from(i.bytes).div_ceil(4);
            one(scalar, false, Change::scalars(i.data, registers))
        }
        Body::ScalarAtomic(i) => {
            let registers = if i.returns { i.size / 4 } else { 0 };
            one(scalar, false, Change::scalars(i.data, registers.into()))
        }
        Body::Lds(i) => match i.op {
            LdsOp::Nop => Vec::new(),
            // In no order with accesses to LDS.
            LdsOp::Gws(_) => one(Counter::Ds, false, Vec::new()),
            _ => {
                let (registers, bits) = lds_registers(i);
                let changes = Change::vectors(i.dst, registers, bits, w.exec());
                one(Counter::Ds, true, changes.collect())
            }
        },
        Body::Vmem(i) => vector_memory(w, i),
        // Writes back count as stores.
        Body::L2 { invalidate, .. } if gfx9 || *invalidate => one(Counter::Load, true, Vec::new()),
        Body::L2 { .. }
        | Body::Valu(_)
        | Body::Dual(_)
        | Body::ScalarInvalidate
        | Body::CacheControl => Vec::new(),
    }
}

/// Returns the number of scalar registers that the reply to a message changes. `None`: it is no
/// message.
fn reply(w: &Wave, i: &Salu) -> Option<usize> {
    match i.op {
        Op::s_sendmsg => Some(0),
        // The wave waits for it.
        Op::s_sendmsg_rtn_b64 if exec::is_save_wave(w, i) => None,
        Op::s_sendmsg_rtn_b32 | Op::s_get_barrier_state => Some(1),
        Op::s_sendmsg_rtn_b64 => Some(2),
        _ => None,
    }
}

/// Returns the bits that a load changes in its last register.
fn bits_of(half: Half) -> u32 {
    match half {
        Half::Whole => u32::MAX,
        Half::Low => 0xffff,
        Half::High => 0xffff_0000,
    }
}

/// Returns the number of registers that a DS instruction changes, and the bits in the last.
fn lds_registers(i: &Lds) -> (usize, u32) {
    let (bytes, bits) = match i.op {
        LdsOp::Access(Access::Load { bytes, half, .. }) => (bytes.into(), bits_of(half)),
        LdsOp::Access(Access::Atomic { size, .. }) if i.returns => (size.into(), u32::MAX),
        LdsOp::Read2 { bytes, .. } | LdsOp::Exchange2 { bytes, .. } => {
            (2 * usize::from(bytes), u32::MAX)
        }
        LdsOp::Access(_) | LdsOp::Write2 { .. } | LdsOp::WriteAddTid => (0, u32::MAX),
        LdsOp::Gws(_) | LdsOp::Nop => (0, u32::MAX),
        LdsOp::Swizzle | LdsOp::Permute | LdsOp::BPermute { .. } => (4, u32::MAX),
        LdsOp::Append | LdsOp::Consume | LdsOp::ReadAddTid => (4, u32::MAX),
    };
    (bytes.div_ceil(4), bits)
}

/// Returns what a vector memory instruction adds.
fn vector_memory(w: &Wave, i: &Vmem) -> Vec<Operation> {
    let exec = w.replayed();
    let local = match i.segment {
        Segment::Flat => exec::lanes_in_lds(w, i, exec),
        _ => 0,
    };
    // FLAT instructions that access LDS and others overtake each other on gfx942.
    let ordered = local == 0 || w.isa == Isa::Gfx1201;
    let part = |counter, mask| Operation {
        counter,
        ordered,
        changes: vector_changes(w, i, mask),
    };
    let mut parts = Vec::new();
    let load = part(Counter::Load, exec & !local);
    if !load.changes.is_empty() || w.isa == Isa::Gfx942 {
        parts.push(load);
    }
    if local != 0 {
        parts.push(part(Counter::Ds, local));
    }
    parts
}

/// Returns what a vector memory instruction changes for these lanes.
fn vector_changes(w: &Wave, i: &Vmem, mask: u64) -> Vec<Change> {
    let vectors = |count, bits| Change::vectors(i.dst, count, bits, mask).collect();
    match i.access {
        Access::Load { bytes, half, .. } => vectors(usize::from(bytes).div_ceil(4), bits_of(half)),
        Access::Atomic { size, .. } if i.returns => vectors(usize::from(size) / 4, u32::MAX),
        Access::Typed(typed) if typed.registers == Components::Lds => lds_change(w, i, mask),
        Access::Typed(typed) if !typed.store => vectors(typed.count().into(), typed_bits(typed)),
        Access::LoadLds { .. } => lds_change(w, i, mask),
        // 256 elements.
        Access::LoadTranspose { element } => {
            vectors(usize::from(element) * LANES / w.lanes(), u32::MAX)
        }
        Access::Block { store: false } => {
            let selected = (0..32).filter(|n| w.m0() >> n & 1 != 0);
            let inside = selected.filter(|n| usize::from(i.dst + n) < w.v.len());
            let one = |n| Change::vectors(i.dst + n, 1, u32::MAX, mask);
            inside.flat_map(one).collect()
        }
        Access::Store { .. } | Access::Atomic { .. } | Access::Typed(_) | Access::Block { .. } => {
            Vec::new()
        }
    }
}

/// Returns the bits that a typed load changes in its last register.
fn typed_bits(typed: Typed) -> u32 {
    match typed.registers {
        Components::Halves if typed.components % 2 != 0 => 0xffff,
        Components::HighHalf => 0xffff_0000,
        _ => u32::MAX,
    }
}

/// Returns the change of a load to LDS.
fn lds_change(w: &Wave, i: &Vmem, mask: u64) -> Vec<Change> {
    vec![Change::Lds {
        at: exec::lds_address(w, i),
        mask,
        lanes: Box::new([0; LANES]),
    }]
}
