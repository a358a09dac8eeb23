// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The HWS: runlists, unmapping, quanta, preemption.

use super::super::env::Hubs;
use super::*;

#[test]
fn runlist_maps_and_unmap_saves_queues() {
    with_card(|card| {
        card.start();
        let users = [card.put_queue(0), card.put_queue(1)];
        card.mock().acts();
        card.run_list(&[(7, &users[..1]), (8, &users[1..])], false);
        card.settle();
        card.assert_clean();
        let maps: Vec<Act> = card
            .mock()
            .acts()
            .into_iter()
            .filter(|a| matches!(a, Act::MapVmid(..)))
            .collect();
        assert_eq!(
            maps,
            [
                Act::MapVmid(3, 7, 0x8000_7001),
                Act::MapVmid(4, 8, 0x8000_8001)
            ]
        );
        assert_eq!(card.mock().vmid_reg(3, gc::regSH_MEM_BASES), 0x0001_0002);
        let slot = card.queue_of(users[0]).unwrap().slot;
        assert_ne!(HWS_MASK >> slot.0 & 1, 0);
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        assert!(card.queue_of(users[0]).is_none());
        assert_eq!(card.bank(slot, gc::regCP_HQD_ACTIVE), 0);
        assert_eq!(
            card.mqd(users[0].mqd(), dw::cp_hqd_cntl_stack_offset),
            0x1000
        );
        card.assert_clean();
    });
}

const KERNARG: u64 = 0x7_0000;

pub(super) fn kernarg(n: u64) -> u64 {
    KERNARG + n * 0x2000
}

fn gate(n: u64) -> u64 {
    kernarg(n) + 0x1000
}

/// Maps one queue and starts a kernel of four workgroups that waits for its gate.
fn waiting_kernel(card: &mut Card<'_>) -> (User, u64) {
    card.start();
    let user = card.put_queue(0);
    card.run_list(&[(7, &[user])], false);
    let kernel = card.kernel(0, &GATE);
    let signal = card.signal(0, 3);
    card.submit(user, &dispatch(kernel, kernarg(0), 4, signal, true));
    card.until("the kernel runs", |c| {
        c.queue_of(user).is_some_and(|q| {
            let jobs = q.work.jobs();
            !jobs.is_empty() && !jobs[0].is_stopped()
        })
    });
    (user, signal)
}

#[test]
fn preempted_dispatch_resumes_on_another_hqd() {
    with_card(|card| {
        let (user, signal) = waiting_kernel(card);
        let other = card.put_queue(1);
        for round in 0..5 {
            card.unmap_all();
            card.until("fence", Card::fence_is_written);
            assert!(card.queue_of(user).is_none());
            assert_eq!(card.mqd(user.mqd(), dw::compute_wave_restore_control), 1);
            let stack = card.mqd(user.mqd(), dw::cp_hqd_cntl_stack_offset);
            let state = card.mqd(user.mqd(), dw::cp_hqd_wg_state_offset);
            assert!(stack < 0x1000 && state > 0x1000, "{stack:#x} {state:#x}");
            assert_eq!(card.signal_value(signal), 1);
            // Another position in the list, and another VMID.
            card.run_list(&[(9 + round, &[other]), (7, &[user])], false);
            card.until("mapped", |c| c.queue_of(user).is_some());
        }
        card.mock().put32(gate(0), 1);
        card.until("signal", |c| c.signal_value(signal) == 0);
        for group in 0..4 {
            assert_eq!(card.mock().get32(kernarg(0) + 4 * group), 1);
        }
        card.settle();
        assert_eq!(card.signal_value(signal), 0);
        assert!(card.engine.saves.is_empty());
        card.assert_clean();
    });
}

#[test]
fn overwritten_save_area_is_detected() {
    with_card(|card| {
        let (user, _) = waiting_kernel(card);
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        card.assert_clean();
        let stack = card.mqd(user.mqd(), dw::cp_hqd_cntl_stack_offset);
        card.mock().put64(user.mqd() + 0x1000 + u64::from(stack), 0);
        card.run_list(&[(7, &[user])], false);
        card.until("mapped", |c| c.queue_of(user).is_some());
        assert!(card.mock().strict().lines()[0].contains("overwritten"));
    });
}

#[test]
fn reset_drops_work() {
    with_card(|card| {
        let (user, signal) = waiting_kernel(card);
        card.mock().put64(FENCE, 0);
        card.hiq(&[
            pm4::unmap_queues::PACKET.header(),
            1 | 1 << 4,
            7,
            0,
            0,
            0,
            pm4::query_status::PACKET.header(),
            2 << 30,
            0,
            FENCE as u32,
            0,
            100,
            0,
        ]);
        card.until("fence", Card::fence_is_written);
        assert!(card.queue_of(user).is_none());
        assert_eq!(card.mqd(user.mqd(), dw::compute_wave_restore_control), 0);
        assert!(card.engine.saves.is_empty());
        card.mock().put32(gate(0), 1);
        card.settle();
        assert_eq!(card.signal_value(signal), 1);
        card.assert_clean();
    });
}

/// A pipe reset unmaps the queues of the pipe.
#[test]
fn reset_of_a_pipe_writes_no_mqd() {
    with_card(|card| {
        let (user, _) = waiting_kernel(card);
        let slot = card.queue_of(user).unwrap().slot;
        card.mock()
            .put32(user.mqd() + 4 * dw::cp_hqd_active as u64, 7);
        for pipe in 0..4 {
            card.rig.mail.send(Wake::ResetPipe(0, pipe));
        }
        card.until("reset", |c| c.queue_of(user).is_none());
        assert_eq!(card.bank(slot, gc::regCP_HQD_ACTIVE), 0);
        assert_eq!(card.mqd(user.mqd(), dw::cp_hqd_active), 7);
        card.assert_clean();
    });
}

#[test]
fn thirty_queues_on_24_hqds() {
    with_card(|card| {
        card.start();
        let users: Vec<User> = (0..30).map(|n| card.put_queue(n)).collect();
        let kernel = card.kernel(0, &GATE);
        // All wait for one gate: every queue is busy all the time.
        card.run_list(&[(7, &users[..10]), (8, &users[10..])], true);
        let signals: Vec<u64> = (0..30).map(|n| card.signal(n, 0)).collect();
        for (user, signal) in users.iter().zip(&signals) {
            card.submit(*user, &dispatch(kernel, kernarg(0), 1, *signal, true));
        }
        let mut seen = [false; 30];
        card.until("every queue was on the hardware", |c| {
            for (n, user) in users.iter().enumerate() {
                seen[n] |= c.queue_of(*user).is_some();
            }
            let (all, mapped) = c.engine.sched.counts();
            assert!(all == 30 && mapped <= 24);
            seen.iter().all(|s| *s)
        });
        card.mock().put32(gate(0), 1);
        card.until("signals", |c| {
            signals.iter().all(|s| c.signal_value(*s) == 0)
        });
        // Unmap in the middle of a quantum.
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        assert_eq!(card.engine.queues.iter().flatten().count(), 2);
        card.assert_clean();
    });
}

/// User space may ring the doorbell of a queue before its first window of the runlist.
#[test]
fn doorbells_of_later_windows_are_known() {
    with_card(|card| {
        card.start();
        let users: Vec<User> = (0..30).map(|n| card.put_queue(n)).collect();
        card.run_list(&[(7, &users)], true);
        card.until("runlist", |c| c.engine.sched.counts().0 == 30);
        let late = users.iter().find(|user| card.queue_of(**user).is_none());
        let env = card.engine.env;
        env.doorbells().unmapped(late.unwrap().doorbell(), 1);
        assert_eq!(env.doorbells().report(env.strict()), None);
    });
}

#[test]
fn more_processes_than_vmids() {
    with_card(|card| {
        card.start();
        let users: Vec<User> = (0..16).map(|n| card.put_queue(n)).collect();
        let processes: Vec<(u16, &[User])> = users
            .iter()
            .enumerate()
            .map(|(n, user)| (n as u16 + 20, std::slice::from_ref(user)))
            .collect();
        let kernel = card.kernel(0, &[ENDPGM]);
        card.run_list(&processes, true);
        let signals: Vec<u64> = (0..16).map(|n| card.signal(n, 0)).collect();
        for (user, signal) in users.iter().zip(&signals) {
            card.submit(*user, &dispatch(kernel, 0, 1, *signal, true));
        }
        card.until("signals", |c| {
            signals.iter().all(|s| c.signal_value(*s) == 0)
        });
        card.assert_clean();
    });
}

#[test]
fn oversubscribed_runlist_must_be_chained() {
    with_card(|card| {
        card.start();
        let users: Vec<User> = (0..25).map(|n| card.put_queue(n)).collect();
        card.run_list(&[(7, &users)], false);
        card.settle();
        assert!(card.mock().strict().lines()[0].contains("not chained"));
    });
}

#[test]
fn invalid_runlist_stops_hiq() {
    type Spoil = fn(&Card<'_>);
    let cases: &[Spoil] = &[
        // A queue that MAP_PROCESS does not announce.
        |c| c.mock().put32(LIST + 13 * 4, 0),
        // An invalid page-table root.
        |c| c.mock().put32(LIST + 2 * 4, 0x8000_7000),
        // PASID 0.
        |c| c.mock().put32(LIST + 4, 1 << 25),
        // The short MAP_PROCESS of older chips.
        |c| c.mock().put32(LIST, pm4::map_process_v9::PACKET.header()),
        // A packet that is not allowed in a runlist.
        |c| {
            c.mock()
                .put32(LIST + 21 * 4, pm4::header(op::WRITE_DATA, 6))
        },
    ];
    for spoil in cases {
        with_card(|card| {
            card.start();
            let user = card.put_queue(0);
            card.run_list(&[(7, &[user])], false);
            spoil(card);
            card.settle();
            assert!(card.queue_of(user).is_none());
            assert_eq!(card.mock().interrupts()[0].source_id, 183);
            card.unmap_all();
            card.settle();
            assert!(!card.fence_is_written());
        });
    }
}

#[test]
fn invalid_mqds_are_refused_or_reported() {
    let cases: &[(usize, u32, bool)] = &[
        (dw::header, 0, false),
        (dw::cp_hqd_pq_base_lo, 0, false),
        (dw::cp_hqd_aql_control, 0, false),
        (dw::cp_mqd_base_addr_lo, 0x1000, true),
        (dw::cp_hqd_pq_doorbell_control, 0x4444, true),
        (dw::compute_static_thread_mgmt_se0, 0, true),
    ];
    for &(n, value, mapped) in cases {
        with_card(|card| {
            card.start();
            let user = card.put_queue(0);
            card.mock().put32(user.mqd() + n as u64 * 4, value);
            card.run_list(&[(7, &[user])], false);
            card.settle();
            assert_eq!(card.queue_of(user).is_some(), mapped, "dword {n}");
            assert_eq!(card.mock().strict().unexpected(), 1, "dword {n}");
        });
    }
}

#[test]
fn preemption_timeout_reports_queue() {
    with_card(|card| {
        let (user, signal) = waiting_kernel(card);
        card.mock().knobs().set("hws.no_preempt", 2);
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        assert_eq!(card.mqd(HIQ_MQD, dw::queue_doorbell_id0), user.doorbell());
        let slot = card.queue_of(user).unwrap().slot;
        // It keeps running; then the driver resets it.
        assert_eq!(card.bank(slot, gc::regCP_HQD_ACTIVE), 1);
        let at = (slot.me() as u8, slot.pipe() as u8, slot.queue() as u8);
        card.write_reg(at, gc::regSPI_COMPUTE_QUEUE_RESET, 1);
        card.until("reset", |c| c.bank(slot, gc::regCP_HQD_ACTIVE) == 0);
        assert_eq!(card.signal_value(signal), 1);
        card.assert_clean();
    });
}

#[test]
fn knob_leaves_the_reset_of_the_pipe_only() {
    with_card(|card| {
        let (user, _) = waiting_kernel(card);
        card.mock().knobs().set("cp.pipe_reset", 1);
        let slot = card.queue_of(user).unwrap().slot;
        let at = (slot.me() as u8, slot.pipe() as u8, slot.queue() as u8);
        card.write_reg(at, gc::regCP_HQD_DEQUEUE_REQUEST, 2);
        card.write_reg(at, gc::regSPI_COMPUTE_QUEUE_RESET, 1);
        card.settle();
        assert_eq!(card.bank(slot, gc::regCP_HQD_ACTIVE), 1);
        assert_eq!(card.mock().knobs().hits("cp.pipe_reset"), Some(2));
        let pipe = u32::from(gc::CP_MEC_CNTL__MEC_ME1_PIPE0_RESET.shift) + slot.pipe();
        card.write_reg((0, 0, 0), gc::regCP_MEC_CNTL, 1 << pipe);
        card.until("reset", |c| c.bank(slot, gc::regCP_HQD_ACTIVE) == 0);
        card.assert_clean();
    });
}

#[test]
fn hung_firmware_writes_no_fence() {
    for knob in ["hws.no_preempt", "hws.fence_never"] {
        with_card(|card| {
            let (_, _) = waiting_kernel(card);
            card.mock().knobs().set(knob, 1);
            card.unmap_all();
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(300) {
                card.pump();
            }
            assert!(!card.fence_is_written(), "{knob}");
            // Register resets still work: a driver can start over.
            for pipe in 0..6 {
                card.write_reg((0, 0, 0), gc::regCP_MEC_CNTL, 1 << (16 + pipe));
            }
            card.write_reg((0, 0, 0), gc::regCP_MEC_CNTL, 0);
            card.until("reset", |c| c.engine.queues.iter().flatten().count() == 0);
            card.mock().knobs().set(knob, 0);
            (card.kiq_wptr, card.hiq_wptr) = (0, 0);
            card.mock().put64(HIQ_WPTR, 0);
            card.start_kiq();
            card.start_hiq();
            let user = card.put_queue(1);
            card.run_list(&[(8, &[user])], false);
            card.until("mapped", |c| c.queue_of(user).is_some());
            card.unmap_all();
            card.until("fence", Card::fence_is_written);
            card.assert_clean();
        });
    }
}

#[test]
fn queue_without_save_area_drains() {
    with_card(|card| {
        card.start();
        let user = card.put_queue(0);
        card.mock()
            .put32(user.mqd() + dw::cp_hqd_persistent_state as u64 * 4, 0);
        card.run_list(&[(7, &[user])], false);
        let kernel = card.kernel(0, &GATE);
        let signal = card.signal(0, 0);
        card.submit(user, &dispatch(kernel, kernarg(0), 4, signal, true));
        card.until("the kernel runs", |c| {
            c.queue_of(user).is_some_and(|q| !q.is_stopped())
        });
        card.unmap_all();
        card.pump();
        card.mock().put32(gate(0), 1);
        card.until("fence", Card::fence_is_written);
        assert_eq!(card.signal_value(signal), 0);
        card.assert_clean();
    });
}

#[test]
fn kiq_invalidates_by_pasid_and_unmaps_hiq() {
    with_card(|card| {
        card.start();
        let user = card.put_queue(0);
        card.run_list(&[(7, &[user])], false);
        card.settle();
        card.mock().acts();
        let flush = |kind: u32| {
            let header = pm4::header(op::INVALIDATE_TLBS, 1);
            [header, 1 | 1 << 4 | 7 << 5 | kind << 29]
        };
        let act = Act::Invalidate(3, Hubs::All);
        // Only the flush that follows a heavyweight one is complete.
        card.kiq(&flush(0));
        card.kiq(&flush(2));
        card.settle();
        assert!(!card.mock().acts().contains(&act));
        card.kiq(&flush(0));
        card.settle();
        assert!(card.mock().acts().contains(&act));
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        card.kiq(&[
            pm4::unmap_queues::PACKET.header(),
            1 | 1 << 29,
            HIQ_DOORBELL << 2,
            0,
            0,
            0,
        ]);
        card.until("HIQ is gone", |c| {
            c.engine.queues.iter().flatten().count() == 1
        });
        card.assert_clean();
    });
}

#[test]
fn translations_are_used_until_the_invalidation_completes() {
    const SEQUENCE: u64 = 0x2_5000;
    with_card(|card| {
        card.start();
        let user = card.put_queue(0);
        card.run_list(&[(7, &[user])], false);
        card.settle();
        card.mock().add_l2();
        card.mock().acts();
        // The first of two.
        card.kiq(&[pm4::header(op::INVALIDATE_TLBS, 1), 1 | 7 << 5 | 2 << 29]);
        card.settle();
        assert!(card.mock().acts().contains(&Act::FlushL2));
        card.mock().set_response_time(Duration::from_millis(100));
        // With the fence of `gfx_v9_4_3_ring_emit_fence_kiq`.
        card.kiq(&[
            pm4::header(op::INVALIDATE_TLBS, 1),
            1 | 7 << 5 | 2 << 29,
            pm4::header(op::WRITE_DATA, 4),
            5 << 8 | 1 << 20,
            SEQUENCE as u32,
            0,
            9,
        ]);
        let is_late = |act: &Act| {
            matches!(
                act,
                Act::Invalidate(..) | Act::FlushL2 | Act::Write(SEQUENCE, _)
            )
        };
        let late = |acts: Vec<Act>| acts.into_iter().filter(is_late).collect::<Vec<_>>();
        card.settle();
        assert_eq!(late(card.mock().acts()), []);
        card.until("fence", |c| c.mock().get32(SEQUENCE) == 9);
        assert_eq!(
            late(card.mock().acts()),
            [
                Act::Invalidate(3, Hubs::Graphics),
                Act::FlushL2,
                Act::Write(SEQUENCE, vec![9, 0, 0, 0])
            ]
        );
        card.assert_clean();
    });
}

#[test]
fn endless_kernel_does_not_block_other_queues() {
    with_card(|card| {
        card.start();
        let (a, b) = (card.put_queue(0), card.put_queue(1));
        card.run_list(&[(7, &[a]), (8, &[b])], false);
        let endless = card.kernel(0, &GATE);
        let short = card.kernel(1, &[ENDPGM]);
        card.submit(a, &dispatch(endless, kernarg(0), 1000, 0, false));
        for n in 0..20 {
            let signal = card.signal(n, 0);
            card.submit(b, &dispatch(short, 0, 3, signal, true));
            card.until("short kernel", |c| c.signal_value(signal) == 0);
        }
        let since = Instant::now();
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        assert!(since.elapsed() < Duration::from_secs(1));
        card.assert_clean();
    });
}

/// Preempts packets in every state: each dispatch counts, each barrier
/// waits for the last dispatch, vendor packets write memory.
#[test]
fn preemption_at_random_points_loses_nothing() {
    // Counts at s[0:1].
    const COUNT: [u32; 8] = [
        // v_mov_b32 v0, 0
        0x7e00_0280,
        // v_mov_b32 v1, 1
        0x7e02_0281,
        // s_mov_b64 exec, 1
        0xbefe_0181,
        // global_atomic_add v0, v1, s[0:1]
        0xdd08_8000,
        0x0000_0100,
        ENDPGM,
        ENDPGM,
        ENDPGM,
    ];
    const ROUNDS: u64 = 150;
    with_card(|card| {
        card.start();
        let users = [card.put_queue(0), card.put_queue(1)];
        let counter = |n: u64| KERNARG + n * 64;
        let kernel = card.kernel(0, &COUNT);
        let written = KERNARG + 0x1000;
        let mut seed = 3u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (seed >> 33) % n
        };
        let signals = [card.signal(0, 0), card.signal(1, 0)];
        let mut groups = [0u64; 2];
        let put = |p: &mut [u8; 64], at: usize, value: u32| {
            p[at..at + 4].copy_from_slice(&value.to_le_bytes());
        };
        for round in 0..ROUNDS {
            for (n, user) in users.into_iter().enumerate() {
                card.mock().put64(signals[n] + 8, 1);
                let count = 1 + next(6) as u32;
                groups[n] += u64::from(count);
                let arguments = counter(n as u64);
                let barrier_bit = next(2) == 0;
                card.push(
                    user,
                    &dispatch(kernel, arguments, count, signals[n], barrier_bit),
                );
                let mut barrier = [0u8; 64];
                put(&mut barrier, 0, header::TYPE_BARRIER_AND);
                put(
                    &mut barrier,
                    abi_aql::barrier::DEP_SIGNAL,
                    signals[n] as u32,
                );
                card.push(user, &barrier);
                let ib = KERNARG + 0x2000 + n as u64 * 64;
                let at = written + n as u64 * 8;
                let words = [
                    pm4::header(op::WRITE_DATA, 4),
                    5 << 8,
                    at as u32,
                    0,
                    round as u32 + 1,
                ];
                for (i, word) in words.iter().enumerate() {
                    card.mock().put32(ib + 4 * i as u64, *word);
                }
                let mut vendor = [0u8; 64];
                put(&mut vendor, 0, 1 << 16 | 1 << 8);
                put(&mut vendor, 4, pm4::header(op::INDIRECT_BUFFER, 3));
                put(&mut vendor, 8, ib as u32);
                put(&mut vendor, 16, words.len() as u32 | 1 << 23);
                put(&mut vendor, 20, 10);
                let last = card.push(user, &vendor);
                card.ring_doorbell(user, last);
            }
            card.run_list(&[(7, &users)], false);
            for _ in 0..next(40) {
                card.pump();
            }
            card.unmap_all();
            card.until("fence", Card::fence_is_written);
            if next(3) == 0 {
                // The next round reuses the signals: complete this one first.
                continue_until_done(card, &users);
            } else {
                card.run_list(&[(7, &users)], false);
                for _ in 0..next(20) {
                    card.pump();
                }
                card.unmap_all();
                card.until("fence", Card::fence_is_written);
                continue_until_done(card, &users);
            }
            for n in 0..2u64 {
                let all = card.mock().get32(counter(n));
                assert_eq!(u64::from(all), groups[n as usize], "round {round}");
                assert_eq!(card.mock().get64(signals[n as usize] + 8), 0);
                assert_eq!(card.mock().get32(written + n * 8), round as u32 + 1);
            }
            card.unmap_all();
            card.until("fence", Card::fence_is_written);
        }
        assert!(card.engine.saves.is_empty());
        card.assert_clean();
    });
}

pub(super) fn continue_until_done(card: &mut Card<'_>, users: &[User]) {
    card.run_list(&[(7, users)], false);
    card.until("the end", |c| {
        let done = |u: &User| c.mock().get64(u.rptr()) == c.mock().get64(u.wptr());
        users.iter().all(done)
    });
}
