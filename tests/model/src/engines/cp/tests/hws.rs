// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The scheduler: runlists, unmapping, time slices, preemption.

use super::*;

#[test]
fn a_runlist_maps_its_queues_and_unmapping_saves_them() {
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

fn kernarg(n: u64) -> u64 {
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
            !jobs.is_empty() && !jobs[0].is_quiet()
        })
    });
    (user, signal)
}

#[test]
fn a_running_dispatch_is_preempted_and_goes_on_elsewhere() {
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
            // A new place: other queues first, another VMID.
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
fn an_overwritten_save_area_is_noticed() {
    with_card(|card| {
        let (user, _) = waiting_kernel(card);
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        card.assert_clean();
        card.mock().put64(user.save() + 0x1000, 0);
        card.run_list(&[(7, &[user])], false);
        card.until("mapped", |c| c.queue_of(user).is_some());
        assert!(card.mock().strict().lines()[0].contains("save area"));
    });
}

#[test]
fn a_reset_throws_the_work_away() {
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

#[test]
fn thirty_queues_share_twenty_four_slots() {
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
        // And they come off again, in the middle of a slice.
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        assert_eq!(card.engine.queues.iter().flatten().count(), 2);
        card.assert_clean();
    });
}

#[test]
fn more_processes_than_vmids_take_turns() {
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
fn a_list_that_does_not_fit_must_be_chained() {
    with_card(|card| {
        card.start();
        let users: Vec<User> = (0..25).map(|n| card.put_queue(n)).collect();
        card.run_list(&[(7, &users)], false);
        card.settle();
        assert!(card.mock().strict().lines()[0].contains("not chained"));
    });
}

#[test]
fn wrong_lists_stop_the_hiq() {
    type Spoil = fn(&Card<'_>);
    let cases: &[Spoil] = &[
        // A queue that was not promised.
        |c| c.mock().put32(LIST + 13 * 4, 0),
        // A page-table root that is not valid.
        |c| c.mock().put32(LIST + 2 * 4, 0x8000_7000),
        // PASID 0.
        |c| c.mock().put32(LIST + 4, 1 << 25),
        // The short MAP_PROCESS of older chips.
        |c| c.mock().put32(LIST, pm4::map_process_v9::PACKET.header()),
        // A packet that has no place in a list.
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
fn wrong_mqds_are_not_mapped_or_at_least_reported() {
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
fn firmware_that_gives_up_names_the_queue() {
    with_card(|card| {
        let (user, signal) = waiting_kernel(card);
        card.mock().knobs().set("hws.no_preempt", 2);
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        assert_eq!(card.mqd(HIQ_MQD, dw::queue_doorbell_id0), user.doorbell());
        let slot = card.queue_of(user).unwrap().slot;
        // It still runs; then the driver resets it.
        assert_eq!(card.bank(slot, gc::regCP_HQD_ACTIVE), 1);
        let at = (slot.me() as u8, slot.pipe() as u8, slot.queue() as u8);
        card.write_reg(at, gc::regSPI_COMPUTE_QUEUE_RESET, 1);
        card.until("reset", |c| c.bank(slot, gc::regCP_HQD_ACTIVE) == 0);
        assert_eq!(card.signal_value(signal), 1);
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
            // The hardware itself still obeys: a driver can start over.
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
fn a_queue_without_a_save_area_drains() {
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
            c.queue_of(user).is_some_and(|q| !q.is_quiet())
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
fn the_kiq_invalidates_by_process_and_takes_the_hiq_away() {
    with_card(|card| {
        card.start();
        let user = card.put_queue(0);
        card.run_list(&[(7, &[user])], false);
        card.settle();
        card.mock().acts();
        card.kiq(&[pm4::header(op::INVALIDATE_TLBS, 1), 1 | 1 << 4 | 7 << 5]);
        card.settle();
        assert!(card.mock().acts().contains(&Act::Invalidate(3, true)));
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
fn an_endless_kernel_stops_nobody_else() {
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
