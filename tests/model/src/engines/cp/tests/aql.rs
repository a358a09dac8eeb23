// SPDX-License-Identifier: GPL-2.0 OR MIT

//! AQL queues: dispatches, barriers, signals, errors.

use super::super::dispatch::Progress;
use super::super::env::Env;
use super::super::queue::Halt;
use super::*;

pub(super) const KERNARG: u64 = 0x7_0000;
pub(super) const GATE_OPEN: u64 = KERNARG + 0x1000;

pub(super) fn start(card: &mut Card<'_>) -> User {
    card.start();
    let user = card.put_queue(0);
    card.run_list(&[(7, &[user])], false);
    card.settle();
    card.assert_clean();
    assert!(card.queue_of(user).is_some());
    user
}

#[test]
fn dispatch_and_completion_signal() {
    with_card(|card| {
        let user = start(card);
        let kernel = card.kernel(0, &GATE);
        card.mock().put32(GATE_OPEN, 1);
        let signal = card.signal(0, 5);
        card.mock().acts();
        card.submit(user, &dispatch(kernel, KERNARG, 10, signal, true));
        card.until("signal", |c| c.signal_value(signal) == 0);
        card.settle();
        card.assert_clean();
        for group in 0..10 {
            assert_eq!(card.mock().get32(KERNARG + 4 * group), 1);
        }
        assert_eq!(card.mock().get64(user.rptr()), 1);
        assert_eq!(card.mock().get32(user.aql_ring()) & 0xffff, 1);
        // Header, read index, signal, mailbox, interrupt: in that order.
        let acts = card.mock().acts();
        assert!(!acts.contains(&Act::Atomic(signal + 8)));
        let at = |va: u64| {
            acts.iter()
                .position(|a| matches!(a, Act::Write(to, _) if *to == va))
                .unwrap()
        };
        let interrupt = acts.iter().position(|a| matches!(a, Act::Interrupt(_)));
        let order = [
            at(user.aql_ring()),
            at(user.rptr()),
            at(signal + 8),
            at(SIGNALS + 0x8000 + 5 * 8),
            interrupt.unwrap(),
        ];
        assert!(order.is_sorted(), "{order:?}");
        let Act::Interrupt(entry) = &acts[order[4]] else {
            panic!();
        };
        assert_eq!((entry.source_id, entry.vmid, entry.ctx[0]), (181, 3, 5));
    });
}

#[test]
fn stalled_queue_continues_at_the_next_doorbell() {
    with_card(|card| {
        let user = start(card);
        let kernel = card.kernel(0, &GATE);
        let signal = card.signal(0, 0);
        card.mock().knobs().set("cp.stall", 1);
        card.submit(user, &dispatch(kernel, KERNARG, 1, signal, false));
        card.settle();
        // The doorbell arrived.
        let slot = card.queue_of(user).unwrap().slot;
        assert_eq!(card.bank(slot, gc::regCP_HQD_PQ_WPTR_LO), 16);
        assert_eq!(card.engine.banks().wave_queues(0, None), 0);
        card.ring_doorbell(user, 0);
        let own = 1 << slot.0;
        card.until("waves", |c| c.engine.banks().wave_queues(0, Some(0)) == own);
        assert_eq!(card.engine.banks().wave_count(slot.0.into(), 0, Some(0)), 1);
        assert_eq!(card.engine.banks().wave_queues(0, Some(1)), 0);
        assert_eq!(card.engine.banks().wave_queues(1, None), 0);
        card.mock().put32(GATE_OPEN, 1);
        card.until("signal", |c| c.signal_value(signal) == 0);
        card.settle();
        assert_eq!(card.engine.banks().wave_queues(0, None), 0);
        card.assert_clean();
    });
}

/// Returns a barrier packet that waits for `deps`.
fn barrier(kind: u32, deps: &[u64], signal: u64) -> [u8; 64] {
    let mut p = [0u8; 64];
    p[..2].copy_from_slice(&(kind as u16).to_le_bytes());
    for (n, dep) in deps.iter().enumerate() {
        p[abi_aql::barrier::DEP_SIGNAL + 8 * n..][..8].copy_from_slice(&dep.to_le_bytes());
    }
    p[abi_aql::COMPLETION_SIGNAL..][..8].copy_from_slice(&signal.to_le_bytes());
    p
}

pub(super) fn set_signal(card: &Card<'_>, at: u64, value: u64) {
    card.mock().put64(at + signal::VALUE as u64, value);
}

#[test]
fn barrier_bit_orders_packets() {
    with_card(|card| {
        let user = start(card);
        let slow = card.kernel(0, &GATE);
        let fast = card.kernel(1, &[ENDPGM]);
        let signals: Vec<u64> = (0..3).map(|n| card.signal(n, 0)).collect();
        card.submit(user, &dispatch(slow, KERNARG, 1, signals[0], false));
        card.submit(user, &dispatch(fast, 0, 1, signals[1], false));
        card.submit(user, &dispatch(fast, 0, 1, signals[2], true));
        card.until("overtaking", |c| c.signal_value(signals[1]) == 0);
        card.settle();
        assert_eq!(card.signal_value(signals[2]), 1);
        // Nothing is retired before the first.
        assert_eq!(card.mock().get64(user.rptr()), 0);
        card.mock().put32(GATE_OPEN, 1);
        card.until("all", |c| c.mock().get64(user.rptr()) == 3);
        assert_eq!(card.signal_value(signals[2]), 0);
        card.assert_clean();
    });
}

#[test]
fn barrier_and_or_packets() {
    with_card(|card| {
        let user = start(card);
        let deps: Vec<u64> = (0..5).map(|n| card.signal(n, 0)).collect();
        let done = [card.signal(10, 0), card.signal(11, 0)];
        card.submit(user, &barrier(header::TYPE_BARRIER_OR, &deps, done[0]));
        card.submit(user, &barrier(header::TYPE_BARRIER_AND, &deps, done[1]));
        card.settle();
        assert_eq!(card.signal_value(done[0]), 1);
        set_signal(card, deps[3], 0);
        card.until("or", |c| c.signal_value(done[0]) == 0);
        for dep in &deps {
            assert_eq!(card.signal_value(done[1]), 1);
            set_signal(card, *dep, 0);
            card.settle();
        }
        card.until("and", |c| c.signal_value(done[1]) == 0);
        card.assert_clean();
    });
}

#[test]
fn doorbell_order_does_not_reorder_packets() {
    with_card(|card| {
        let user = start(card);
        let kernel = card.kernel(0, &[ENDPGM]);
        let signal = card.signal(0, 0);
        set_signal(card, signal, 1000);
        let packet = dispatch(kernel, 0, 1, signal, true);
        let invalid = {
            let mut p = packet;
            p[0] = 1;
            p
        };
        // More packets than the ring has slots: it wraps many times.
        let mut seed = 7u64;
        let mut total = 0;
        for _ in 0..60 {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let count = seed >> 60;
            let first = card.push(user, &invalid);
            let mut last = first;
            for _ in 0..count {
                last = card.push(user, &packet);
            }
            card.ring_doorbell(user, last);
            card.settle();
            assert_eq!(
                card.mock().get64(user.rptr()),
                first,
                "the first is not there yet"
            );
            card.mock()
                .put(user.aql_ring() + first % 64 * 64, &packet[..2]);
            card.ring_doorbell(user, first);
            total += count + 1;
            card.until("taken", |c| c.mock().get64(user.rptr()) == total);
        }
        card.settle();
        assert_eq!(card.signal_value(signal), 1000 - total as i64);
        card.assert_clean();
    });
}

#[test]
fn timestamps_of_profiled_queues() {
    with_card(|card| {
        let user = start(card);
        let at = user.amd_queue() + amd_queue::QUEUE_PROPERTIES as u64;
        card.mock().put32(at, 1 << 3);
        let kernel = card.kernel(0, &[ENDPGM]);
        let signal = card.signal(0, 0);
        card.submit(user, &dispatch(kernel, 0, 8, signal, true));
        card.until("signal", |c| c.signal_value(signal) == 0);
        let start = card.mock().get64(signal + signal::START_TS as u64);
        let end = card.mock().get64(signal + signal::END_TS as u64);
        assert!(0 < start && start < end, "{start} {end}");
    });
}

#[test]
fn vendor_packet_runs_pm4_buffer() {
    with_card(|card| {
        let user = start(card);
        let ib = 0x6_0000u64;
        let words = [
            // The cache invalidation that ROCr sends after loading code.
            pm4::header(op::ACQUIRE_MEM, 6),
            0x2884_0000,
            !0,
            0xff,
            0,
            0,
            4,
            pm4::header(op::WRITE_DATA, 4),
            5 << 8,
            ib as u32 + 0x100,
            0,
            42,
        ];
        for (n, word) in words.iter().enumerate() {
            card.mock().put32(ib + 4 * n as u64, *word);
        }
        let signal = card.signal(0, 0);
        let mut p = [0u8; 64];
        let mut put = |at: usize, value: u32| p[at..at + 4].copy_from_slice(&value.to_le_bytes());
        put(0, 1 << 16 | 1 << 8);
        put(4, pm4::header(op::INDIRECT_BUFFER, 3));
        put(8, ib as u32);
        put(12, 0);
        put(16, words.len() as u32 | 1 << 23);
        put(20, 10);
        put(abi_aql::COMPLETION_SIGNAL, signal as u32);
        card.submit(user, &p);
        card.until("signal", |c| c.signal_value(signal) == 0);
        assert_eq!(card.mock().get32(ib + 0x100), 42);
        assert_eq!(card.mock().get64(user.rptr()), 1);
        card.assert_clean();
        // User queues must not write registers.
        card.mock().put32(ib + 8 * 4, 0);
        card.mock().put32(ib + 9 * 4, 0x3000);
        card.submit(user, &p);
        card.settle();
        let sources: Vec<u8> = card
            .mock()
            .interrupts()
            .iter()
            .map(|e| e.source_id)
            .collect();
        assert_eq!(sources, [184, 183]);
        assert_eq!(card.mock().reg(0x3000), 0);
    });
}

#[test]
fn error_codes_of_invalid_packets() {
    type Spoil = fn(&mut [u8; 64]);
    let cases: &[(u64, Spoil)] = &[
        (2, |p| p[kd::SETUP] = 0),
        (2, |p| p[kd::SETUP] = 4),
        (2, |p| p[kd::GRID_SIZE_X..][..4].fill(0)),
        (2, |p| p[kd::GRID_SIZE_Y] = 2),
        (4, |p| p[kd::GROUP_SEGMENT_SIZE + 2] = 2),
        (8, |p| p[kd::KERNEL_OBJECT..][..8].fill(0)),
        (8, |p| p[kd::KERNEL_OBJECT] += 4),
        (32, |p| p[0] = 4),
        (32, |p| p[0] = 9),
        (32, |p| p[1] |= 0x80),
        (32, |p| p[kd::RESERVED0] = 1),
        (2, |p| p[kd::SETUP + 1] = 1),
        (64, |p| p[kd::WORKGROUP_SIZE_X..][..2].fill(0)),
        (64, |p| p[kd::WORKGROUP_SIZE_X + 1] = 5),
        (256, |p| p[0] = 0),
    ];
    for (n, (code, spoil)) in cases.iter().enumerate() {
        with_card(|card| {
            let user = start(card);
            let inactive = card.signal(1, 4);
            set_signal(card, inactive, 0);
            let at = user.amd_queue() + amd_queue::QUEUE_INACTIVE_SIGNAL as u64;
            card.mock().put64(at, inactive);
            let kernel = card.kernel(0, &[ENDPGM]);
            let signal = card.signal(0, 0);
            let mut packet = dispatch(kernel, 0, 1, signal, true);
            spoil(&mut packet);
            card.submit(user, &packet);
            card.until("error", |c| c.signal_value(inactive) != 0);
            assert_eq!(card.signal_value(inactive), *code as i64, "case {n}");
            assert_eq!(card.signal_value(signal), 1);
            let sent = card.mock().interrupts();
            let of = |source| sent.iter().find(|e| e.source_id == source).unwrap().ctx[0];
            let exception = match code {
                2 => 16,
                4 => 17,
                8 => 18,
                64 => 21,
                256 => 23,
                _ => 20,
            };
            assert_eq!((sent.len(), of(181)), (2, 4));
            assert_eq!(of(183), user.doorbell() / 2 % 1024 | exception << 10);
            assert_eq!(card.mock().strict().unexpected(), 1);
            assert_eq!(card.queue_of(user).unwrap().halt, Halt::Error);
        });
    }
}

#[test]
fn kernel_exception_signals_inactive_queue() {
    // (code, inactive code): s_trap 3, an undecodable instruction.
    for (code, expected) in [(0xbf92_0003, 0x8000_0000u64), (0xffff_ffff, 0x4000_0000)] {
        with_card(|card| {
            card.start();
            let user = card.put_queue(0);
            card.without_handler(user);
            card.run_list(&[(7, &[user])], false);
            card.settle();
            let inactive = card.signal(1, 4);
            set_signal(card, inactive, 0);
            let at = user.amd_queue() + amd_queue::QUEUE_INACTIVE_SIGNAL as u64;
            card.mock().put64(at, inactive);
            let kernel = card.kernel(0, &[code, code, ENDPGM]);
            let signal = card.signal(0, 0);
            card.submit(user, &dispatch(kernel, 0, 1, signal, true));
            card.until("error", |c| c.signal_value(inactive) != 0);
            assert_eq!(card.signal_value(inactive) as u64, expected);
            assert_eq!(card.signal_value(signal), 1);
            card.unmap_all();
            card.until("fence", Card::fence_is_written);
        });
    }
}

#[test]
fn interrupt_before_end_of_wave_is_posted() {
    with_card(|card| {
        let user = start(card);
        let mut code = GATE.to_vec();
        assert_eq!(code.pop(), Some(ENDPGM));
        // s_sendmsg MSG_INTERRUPT
        code.extend([0xbf90_0001, ENDPGM]);
        let kernel = card.kernel(0, &code);
        let signal = card.signal(0, 3);
        card.submit(user, &dispatch(kernel, KERNARG, 1, signal, true));
        let job = |card: &Card<'_>| card.queue_of(user)?.work.jobs().pop();
        card.until("dispatch", |c| job(c).is_some());
        let job = job(card).unwrap();
        // The job completes before the engine reads its mailbox.
        card.mock().put32(GATE_OPEN, 1);
        while job.progress() != Progress::Done {
            std::thread::yield_now();
        }
        card.engine.turn();
        let sources = card.mock().interrupts();
        let sources: Vec<_> = sources.iter().map(|e| e.source_id).collect();
        assert_eq!(sources, [239, 181]);
        card.settle();
        assert_eq!(card.mock().interrupts().len(), 2);
        card.assert_clean();
    });
}

#[test]
fn trap_handler_receives_exception() {
    with_card(|card| {
        card.start();
        let user = card.put_queue(0);
        card.run_list(&[(7, &[user])], false);
        card.settle();
        let trapping = card.kernel(0, &[0xbf92_0003, ENDPGM]);
        let harmless = card.kernel(1, &[ENDPGM]);
        let signals = [card.signal(0, 0), card.signal(1, 0)];
        card.submit(user, &dispatch(trapping, 0, 1, signals[0], false));
        card.submit(user, &dispatch(harmless, 0, 1, signals[1], false));
        card.until("interrupt", |c| !c.mock().interrupts().is_empty());
        card.until("another dispatch", |c| c.signal_value(signals[1]) == 0);
        let entry = card.mock().interrupts()[0];
        assert_eq!(entry.source_id, 239);
        // PRIV, encoding INST, doorbell 0x800 of the slice modulo 1024, EC_QUEUE_WAVE_TRAP.
        let [ctx0, ctx1, ..] = entry.ctx;
        let data = ctx0 & 0xfff | ctx0 >> 16 & 0xf000 | ctx1 << 16 & 0xff_0000;
        assert_eq!((ctx0 >> 13 & 1, ctx0 >> 26 & 3), (1, 1));
        assert_eq!((data & 0x3ff, data >> 10), (user.doorbell() / 2 % 1024, 2));
        // The wave stays halted across unmaps.
        for _ in 0..2 {
            assert_eq!(card.queue_of(user).unwrap().halt, Halt::No);
            card.unmap_all();
            card.until("fence", Card::fence_is_written);
            card.run_list(&[(7, &[user])], false);
            card.until("mapped", |c| c.queue_of(user).is_some());
        }
        card.settle();
        assert_eq!(card.signal_value(signals[0]), 1);
        assert_eq!(card.mock().interrupts().len(), 1);
        card.assert_clean();
    });
}

/// Waves, and the CP at the descriptor of a kernel and at a signal, wait for pages.
#[test]
fn accesses_wait_for_their_pages() {
    with_card(|card| {
        let user = start(card);
        let kernel = card.kernel(0, &GATE);
        card.mock().put32(GATE_OPEN, 1);
        let signal = card.signal(0, 5);
        let pages = [kernel, GATE_OPEN, KERNARG, signal];
        pages.map(|va| card.mock().nack(va));
        card.submit(user, &dispatch(kernel, KERNARG, 10, signal, true));
        for va in pages {
            card.until("retry", |c| c.mock().is_retried(va));
            card.mock().map(va);
        }
        card.until("signal", |c| c.signal_value(signal) == 0);
        card.settle();
        card.assert_clean();
        assert_eq!(card.mock().faults(), [0; 0]);
        for group in 0..10 {
            assert_eq!(card.mock().get32(KERNARG + 4 * group), 1);
        }
        assert_eq!(card.mock().interrupts().len(), 1);
    });
}

#[test]
fn faulting_kernel_halts_until_unmap() {
    with_card(|card| {
        let user = start(card);
        let kernel = card.kernel(0, &GATE);
        card.mock().unmap(GATE_OPEN);
        let signal = card.signal(0, 0);
        card.submit(user, &dispatch(kernel, KERNARG, 2, signal, true));
        card.until("fault", |c| !c.mock().faults().is_empty());
        assert_eq!(card.mock().faults(), [GATE_OPEN]);
        card.settle();
        assert_eq!(card.mock().faults().len(), 1);
        assert_eq!(card.queue_of(user).unwrap().halt, Halt::Fault);
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        assert_eq!(card.signal_value(signal), 1);
        card.assert_clean();
    });
}

#[test]
fn interdependent_workgroups_complete() {
    // As many workgroups as fit wait for the last of them.
    const BARRIER: [u32; 14] = [
        // v_mov_b32 v0, 0
        0x7e00_0280,
        // v_mov_b32 v1, 1
        0x7e02_0281,
        // s_mov_b64 exec, 1
        0xbefe_0181,
        // global_atomic_add v0, v1, s[0:1]
        0xdd08_8000,
        0x0000_0100,
        // s_load_dword s3, s[0:1], 0x0
        0xc002_00c0,
        0x0000_0000,
        // s_load_dword s4, s[0:1], 0x1000
        0xc002_0100,
        0x0000_1000,
        // s_waitcnt lgkmcnt(0)
        0xbf8c_c07f,
        // s_cmp_lt_u32 s3, s4
        0xbf0a_0403,
        // s_cbranch_scc1 -7
        0xbf85_fff9,
        // s_nop 0
        0xbf80_0000,
        ENDPGM,
    ];
    with_card(|card| {
        let user = start(card);
        let kernel = card.kernel(0, &BARRIER);
        let signal = card.signal(0, 0);
        card.mock().put32(GATE_OPEN, 40);
        card.submit(user, &dispatch(kernel, KERNARG, 40, signal, true));
        card.until("signal", |c| c.signal_value(signal) == 0);
        assert_eq!(card.mock().get32(KERNARG), 40);
        card.assert_clean();
    });
}

#[test]
fn packets_in_flight_are_limited_by_wave_slots() {
    // The two CUs have 64 slots.
    for (groups, second_starts) in [(63, true), (64, false), (65, false)] {
        with_card(|card| {
            let user = start(card);
            let slow = card.kernel(0, &GATE);
            let fast = card.kernel(1, &[ENDPGM]);
            let signals: Vec<u64> = (0..2).map(|n| card.signal(n, 0)).collect();
            card.submit(user, &dispatch(slow, KERNARG, groups, signals[0], false));
            card.submit(user, &dispatch(fast, 0, 1, signals[1], false));
            match second_starts {
                true => card.until("second", |c| c.signal_value(signals[1]) == 0),
                false => card.settle(),
            }
            assert_eq!(
                card.signal_value(signals[1]),
                i64::from(!second_starts),
                "{groups}"
            );
            card.mock().put32(GATE_OPEN, 1);
            card.until("all", |c| c.mock().get64(user.rptr()) == 2);
            assert_eq!(card.signal_value(signals[1]), 0);
            card.assert_clean();
        });
    }
}

#[test]
fn twenty_packets_are_in_flight() {
    with_card(|card| {
        let user = start(card);
        let slow = card.kernel(0, &GATE);
        let fast = card.kernel(1, &[ENDPGM]);
        let signals: Vec<u64> = (0..2).map(|n| card.signal(n, 0)).collect();
        set_signal(card, signals[0], 20);
        for n in 0..20 {
            let packet = dispatch(slow, KERNARG + 4 * n, 1, signals[0], false);
            card.submit(user, &packet);
        }
        card.submit(user, &dispatch(fast, 0, 1, signals[1], false));
        card.until("the last", |c| c.signal_value(signals[1]) == 0);
        assert_eq!(card.signal_value(signals[0]), 20);
        for n in 0..20 {
            card.mock().put32(GATE_OPEN + 4 * n, 1);
        }
        card.until("all", |c| c.mock().get64(user.rptr()) == 21);
        card.assert_clean();
    });
}

#[test]
fn write_index_beyond_ring_size_reserves_only() {
    with_card(|card| {
        let user = start(card);
        let kernel = card.kernel(0, &GATE);
        let signal = card.signal(0, 0);
        set_signal(card, signal, 64);
        let packet = dispatch(kernel, KERNARG, 1, signal, true);
        for _ in 0..64 {
            card.push(user, &packet);
        }
        // Ten more indices are reserved; their slots are not free yet.
        card.mock().put64(user.wptr(), 74);
        card.ring_doorbell(user, 63);
        card.settle();
        card.mock().put32(GATE_OPEN, 1);
        card.until("all", |c| c.signal_value(signal) == 0);
        card.settle();
        assert_eq!(card.mock().get64(user.rptr()), 64);
        card.assert_clean();
    });
}
