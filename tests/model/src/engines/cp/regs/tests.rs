// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tests of the registers of queues.

use super::*;

fn sel(me: u8, pipe: u8, queue: u8) -> Selector {
    Selector {
        me,
        pipe,
        queue,
        vmid: 0,
    }
}

#[test]
fn banks_are_separate_and_me0_has_none() {
    let mut banks = Banks::new(Generation::Gfx9, Boot::Warm);
    let mut wakes = Vec::new();
    let reg = id(gc::regCP_HQD_PQ_BASE);
    banks.write(sel(1, 2, 3), reg, 5, &mut wakes).unwrap();
    banks.write(sel(2, 2, 3), reg, 6, &mut wakes).unwrap();
    assert_eq!(banks.read(sel(1, 2, 3), reg), Ok(5));
    assert_eq!(banks.read(sel(2, 2, 3), reg), Ok(6));
    assert_eq!(banks.read(sel(1, 2, 4), reg), Ok(0));
    assert_eq!(banks.read(sel(0, 0, 0), reg), Err(NoBank));
    assert!(wakes.is_empty());
}

#[test]
fn slot_that_was_left_active_is_not_dequeued() {
    let mut banks = Banks::new(Generation::Gfx9, Boot::Warm);
    let mut wakes = Vec::new();
    let (slot, s) = (Slot::new(1, 1, 0), sel(2, 1, 0));
    let active = id(gc::regCP_HQD_ACTIVE);
    let mut write = |banks: &mut Banks, reg, value| {
        wakes.clear();
        banks.write(s, reg, value, &mut wakes).unwrap();
        wakes.len()
    };
    // Inactive in between or not.
    for first in [0, 1] {
        banks.leave_active(slot);
        assert_eq!(banks.read(s, active), Ok(1));
        assert_ne!(banks.read(s, id(gc::regCP_HQD_PQ_RPTR)), Ok(0));
        for reg in [gc::regCP_HQD_DEQUEUE_REQUEST, gc::regCP_HQD_PQ_WPTR_LO] {
            assert_eq!(write(&mut banks, id(reg), 1), 0);
        }
        assert_eq!(write(&mut banks, active, first), first as usize);
        assert_eq!(write(&mut banks, active, 1), 1 - first as usize);
        assert_eq!(write(&mut banks, active, 0), 1);
    }
}

#[test]
fn activation_and_dequeue_signal_the_engine() {
    let mut banks = Banks::new(Generation::Gfx9, Boot::Warm);
    let mut wakes = Vec::new();
    let slot = Slot::new(1, 1, 0);
    let s = sel(2, 1, 0);
    let dequeue = id(gc::regCP_HQD_DEQUEUE_REQUEST);
    banks.write(s, dequeue, 1, &mut wakes).unwrap();
    assert!(wakes.is_empty(), "not active");
    banks
        .write(s, id(gc::regCP_HQD_ACTIVE), 1, &mut wakes)
        .unwrap();
    banks.write(s, dequeue, 1, &mut wakes).unwrap();
    assert_eq!(wakes, [Wake::Activate(slot), Wake::Dequeue(slot, 1)]);
    assert_eq!(slot.ring_id(), 2 << 2 | 1);
    banks
        .write(
            s,
            id(gc::regRLC_CP_SCHEDULERS),
            0x80 | 2 << 5 | 1 << 3,
            &mut wakes,
        )
        .unwrap();
    assert!(banks.is_kiq(slot));
}

#[test]
fn interrupts_need_their_enable_bits() {
    use source::{CP_BAD_OPCODE, CP_END_OF_PIPE, CP_PRIV_REG_FAULT};
    for (ours, theirs) in [
        (
            gc::CP_ME1_PIPE0_INT_CNTL__PRIV_REG_INT_ENABLE,
            gc12::CP_ME1_PIPE0_INT_CNTL__PRIV_REG_INT_ENABLE,
        ),
        (
            gc::CP_ME1_PIPE0_INT_CNTL__OPCODE_ERROR_INT_ENABLE,
            gc12::CPC_INT_CNTL__OPCODE_ERROR_INT_ENABLE,
        ),
        (
            gc::CP_ME1_PIPE0_INT_CNTL__TIME_STAMP_INT_ENABLE,
            gc12::CPC_INT_CNTL__TIME_STAMP_INT_ENABLE,
        ),
    ] {
        assert_eq!(ours, theirs);
    }
    for (generation, all, pipe1) in [
        (
            Generation::Gfx9,
            gc::regCPC_INT_CNTL,
            gc::regCP_ME1_PIPE1_INT_CNTL,
        ),
        (
            Generation::Gfx12,
            gc12::regCPC_INT_CNTL,
            gc12::regCP_ME1_PIPE1_INT_CNTL,
        ),
    ] {
        let mut banks = Banks::new(generation, Boot::Warm);
        let mut wakes = Vec::new();
        let slots = [Slot::new(0, 0, 2), Slot::new(0, 1, 2)];
        assert!(!slots.iter().any(|s| banks.raises(*s, CP_BAD_OPCODE)));
        banks
            .write(sel(1, 0, 0), id(all), 1 << 24 | 1 << 26, &mut wakes)
            .unwrap();
        banks
            .write(sel(0, 0, 0), id(pipe1), 1 << 23, &mut wakes)
            .unwrap();
        assert_eq!(banks.read(sel(1, 0, 3), id(all)), Ok(1 << 24 | 1 << 26));
        assert_eq!(banks.read(sel(1, 1, 0), id(all)), Ok(0));
        for (source, on) in [
            (CP_BAD_OPCODE, [true, false]),
            (CP_END_OF_PIPE, [true, false]),
            (CP_PRIV_REG_FAULT, [false, true]),
        ] {
            assert_eq!(slots.map(|s| banks.raises(s, source)), on);
        }
    }
}

#[test]
fn gfx12_has_one_mec_and_a_mes() {
    let generation = Generation::Gfx12;
    let mut banks = Banks::new(generation, Boot::Warm);
    let mut wakes = Vec::new();
    let base = id(gc12::regCP_HQD_PQ_BASE);
    let active = id(gc12::regCP_HQD_ACTIVE);
    banks.write(sel(1, 1, 3), base, 5, &mut wakes).unwrap();
    banks.write(sel(3, 1, 0), base, 6, &mut wakes).unwrap();
    banks.write(sel(3, 1, 0), active, 1, &mut wakes).unwrap();
    let (mec, mes) = (Slot::new(0, 1, 3), Slot::new(2, 1, 0));
    assert_eq!(banks.slot(mec).get(gc::regCP_HQD_PQ_BASE), 5);
    assert_eq!(banks.slot(mes).get(gc::regCP_HQD_PQ_BASE), 6);
    assert_eq!(wakes, [Wake::Activate(mes)]);
    assert_eq!((mes.me(), mes.pipe(), mes.queue()), (3, 1, 0));
    for (me, pipe, queue) in [
        (1, 2, 0),
        (1, 0, 4),
        (2, 0, 0),
        (3, 2, 0),
        (3, 0, 1),
        (0, 0, 0),
    ] {
        assert_eq!(banks.read(sel(me, pipe, queue), base), Err(NoBank));
    }
    assert_eq!(
        (0..SLOTS as u8)
            .filter(|n| Slot(*n).exists(generation))
            .count(),
        10
    );
    assert_eq!(
        (0..=255)
            .filter(|n| Slot(*n).exists(Generation::Gfx9))
            .count(),
        MEC_SLOTS
    );
    // Doorbell settings of the graphics pipe.
    let graphics = id(gc12::regCP_HQD_GFX_CONTROL);
    banks.write(sel(0, 0, 0), graphics, 7, &mut wakes).unwrap();
    assert_eq!(banks.read(sel(0, 0, 0), graphics), Ok(7));
    assert_eq!(banks.read(sel(3, 1, 0), graphics), Ok(0));
    // Every register of the bank keeps its own value.
    let s = sel(1, 0, 0);
    let bank: Vec<Decl> = registers(generation);
    let bank: Vec<RegId> = bank
        .iter()
        .filter(|d| d.count > 1 && d.name != COUNTS)
        .flat_map(|d| (0..d.count).map(|n| RegId::new(d.id.seg, d.id.off + n)))
        .collect();
    for (n, reg) in bank.iter().enumerate() {
        banks.write(s, *reg, n as u32 + 2, &mut wakes).unwrap();
    }
    for (n, reg) in bank.iter().enumerate() {
        assert_eq!(banks.read(s, *reg), Ok(n as u32 + 2));
    }
}

#[test]
fn gfx12_mec_starts_halted() {
    let mut banks = Banks::new(Generation::Gfx12, Boot::Warm);
    let mut wakes = Vec::new();
    let slot = Slot::new(0, 1, 0);
    let reg = id(gc12::regCP_MEC_RS64_CNTL);
    assert!(banks.halted(slot));
    let pipe0 = gc12::CP_MEC_RS64_CNTL__MEC_PIPE0_ACTIVE.mask;
    banks.write(sel(0, 0, 0), reg, pipe0, &mut wakes).unwrap();
    assert!(banks.halted(slot) && !banks.halted(Slot::new(0, 0, 0)));
    banks
        .write(sel(0, 0, 0), reg, pipe0 * 3, &mut wakes)
        .unwrap();
    assert!(!banks.halted(slot) && !banks.halted(Slot::new(2, 0, 0)));
    wakes.clear();
    let reset = gc12::CP_MEC_RS64_CNTL__MEC_PIPE1_RESET.mask;
    banks.write(sel(0, 0, 0), reg, reset, &mut wakes).unwrap();
    assert_eq!(wakes, [Wake::ResetPipe(0, 1), Wake::Rescan]);
}

#[test]
fn mecs_continue_with_queues_that_were_active() {
    let mut banks = Banks::new(Generation::Gfx9, Boot::Warm);
    let mut wakes = Vec::new();
    let slot = Slot::new(1, 1, 2);
    let cntl = id(gc::regCP_MEC_CNTL);
    let pause = gc::CP_MEC_CNTL__MEC_ME2_HALT.mask;
    let halt = pause | gc::CP_MEC_CNTL__MEC_INVALIDATE_ICACHE.mask;
    let active = id(gc::regCP_HQD_ACTIVE);
    let mut write = |banks: &mut Banks, writes: &[(RegId, u32)]| {
        for (reg, value) in writes {
            let selected = sel(2, 1, 2);
            banks.write(selected, *reg, *value, &mut wakes).unwrap();
        }
        banks.take_continued()
    };
    // Activated while the MEC is halted, as the KIQ is.
    let writes = [(cntl, halt), (active, 1), (cntl, 0)];
    assert_eq!(write(&mut banks, &writes), None);
    assert_eq!(write(&mut banks, &[(cntl, pause), (cntl, 0)]), None);
    assert_eq!(write(&mut banks, &[(cntl, halt), (cntl, 0)]), Some(slot));
    let writes = [(cntl, halt), (active, 0), (active, 1), (cntl, 0)];
    assert_eq!(write(&mut banks, &writes), None);
    let writes = [(cntl, halt), (active, 0), (cntl, 0)];
    assert_eq!(write(&mut banks, &writes), None);
}

#[test]
fn pipes_of_gfx12_continue_with_queues_after_a_reset() {
    let mut banks = Banks::new(Generation::Gfx12, Boot::Warm);
    let mut wakes = Vec::new();
    let slot = Slot::new(0, 1, 3);
    let cntl = id(gc12::regCP_MEC_RS64_CNTL);
    let reset = gc12::CP_MEC_RS64_CNTL__MEC_PIPE1_RESET.mask;
    let run = gc12::CP_MEC_RS64_CNTL__MEC_PIPE1_ACTIVE.mask;
    let request = id(gc12::regCP_HQD_DEQUEUE_REQUEST);
    let active = id(gc12::regCP_HQD_ACTIVE);
    let mut write = |banks: &mut Banks, reg, value| {
        banks.write(sel(1, 1, 3), reg, value, &mut wakes).unwrap();
        banks.take_continued()
    };
    write(&mut banks, cntl, run);
    write(&mut banks, active, 1);
    write(&mut banks, request, 2);
    assert_eq!(write(&mut banks, cntl, run | reset), None);
    write(&mut banks, active, 0);
    assert_eq!(write(&mut banks, cntl, run), Some(slot));
    assert_eq!(write(&mut banks, cntl, run | reset), None);
    write(&mut banks, request, 0);
    assert_eq!(write(&mut banks, cntl, run), None);
}

#[test]
fn doorbells_match_only_active_and_enabled_queues() {
    let mut banks = Banks::new(Generation::Gfx9, Boot::Warm);
    let slot = Slot::new(0, 3, 7);
    let bank = banks.slot_mut(slot);
    bank.set(gc::regCP_HQD_PQ_DOORBELL_CONTROL, 0x1000 << 2);
    assert_eq!(bank.doorbell(), None);
    bank.set(gc::regCP_HQD_ACTIVE, 1);
    assert_eq!(bank.doorbell(), None);
    bank.set(gc::regCP_HQD_PQ_DOORBELL_CONTROL, 1 << 30 | 0x1000 << 2);
    assert_eq!(banks.find_doorbell(0x1000), Some(slot));
    assert_eq!(banks.find_doorbell(0x1001), None);
}
