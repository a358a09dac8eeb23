// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Scratch memory of AQL queues: requests, reclaim, the alternate buffer.

use rkfd_abi::aql::queue::v2;

use super::aql::{set_signal, start, GATE_OPEN, KERNARG};
use super::*;

#[test]
fn queue_waits_for_scratch() {
    with_card(|card| {
        let user = start(card);
        let inactive = inactive_signal(card, user);
        let queue = user.amd_queue();
        let put32 = |at: usize, value: u32| card.mock().put32(queue + at as u64, value);
        let kernel = card.kernel(0, &[ENDPGM]);
        let signal = card.signal(0, 0);
        let packet = scratch_dispatch(kernel, 0, 4, signal);
        put32(amd_queue::SCRATCH_WAVE64_LANE_BYTE_SIZE, 32);
        card.submit(user, &packet);
        card.until("request", |c| c.signal_value(inactive) == 1);
        card.settle();
        assert_eq!(card.signal_value(signal), 1);
        // As the runtime does: buffer, sizes, then the signal to 0.
        assign_scratch(card, user, 64, 8, 4);
        set_signal(card, inactive, 0);
        card.until("signal", |c| c.signal_value(signal) == 0);
        card.assert_clean();
    });
}

/// Returns a dispatch that needs 64 bytes of scratch per lane.
fn scratch_dispatch(kernel: u64, kernarg: u64, groups: u32, signal: u64) -> [u8; 64] {
    let mut packet = dispatch(kernel, kernarg, groups, signal, true);
    packet[kd::PRIVATE_SEGMENT_SIZE] = 64;
    packet
}

/// Returns the signal of scratch requests of a queue.
fn inactive_signal(card: &Card<'_>, user: User) -> u64 {
    let signal = card.signal(1, 4);
    set_signal(card, signal, 0);
    let at = user.amd_queue() + amd_queue::QUEUE_INACTIVE_SIGNAL as u64;
    card.mock().put64(at, signal);
    signal
}

/// Assigns scratch memory as a runtime does: bytes per lane, waves, KiB per wave.
fn assign_scratch(card: &Card<'_>, user: User, lane: u32, waves: u32, wave_kib: u32) {
    let put32 = |at: usize, value: u32| card.mock().put32(user.amd_queue() + at as u64, value);
    put32(amd_queue::SCRATCH_WAVE64_LANE_BYTE_SIZE, lane);
    put32(amd_queue::COMPUTE_TMPRING_SIZE, waves | wave_kib << 12);
    put32(amd_queue::SCRATCH_BACKING_MEMORY_LOCATION, 0x30_0000);
}

#[test]
fn alternate_scratch_serves_small_grids() {
    with_card(|card| {
        let user = start(card);
        let at = user.amd_queue() + amd_queue::CAPS as u64;
        let caps = card.mock().get32(at);
        assert!(amd_queue::CAPS_CP_ASYNC_RECLAIM.is_set(caps));
        // The runtime may announce support after it has created the queue.
        card.mock()
            .put32(at, caps | amd_queue::CAPS_SW_ASYNC_RECLAIM.mask);
        let inactive = inactive_signal(card, user);
        let queue = user.amd_queue();
        let put32 = |at: usize, value: u32| card.mock().put32(queue + at as u64, value);
        put32(v2::ALT_SCRATCH_WAVE64_LANE_BYTE_SIZE, 64);
        put32(v2::ALT_COMPUTE_TMPRING_SIZE, 8 | 4 << 12);
        put32(v2::ALT_SCRATCH_BACKING_MEMORY_LOCATION, 0x30_0000);
        for n in 0..3 {
            put32(v2::ALT_SCRATCH_DISPATCH_LIMIT + 4 * n, 256);
        }
        let last = queue + v2::ALT_SCRATCH_MAX_USE_INDEX as u64;
        card.mock().put64(last, u64::MAX);
        let used = queue + v2::SCRATCH_LAST_USED_INDEX as u64 + 8;
        card.mock().put64(used, 7);
        let kernel = card.kernel(0, &[ENDPGM]);
        let signals = [card.signal(0, 0), card.signal(2, 0)];
        let packet = scratch_dispatch(kernel, 0, 4, signals[0]);
        card.submit(user, &packet);
        card.until("signal", |c| c.signal_value(signals[0]) == 0);
        assert_eq!(card.mock().get64(used), 0);
        // A larger grid has to request scratch.
        let packet = scratch_dispatch(kernel, 0, 5, signals[1]);
        card.submit(user, &packet);
        card.until("request", |c| c.signal_value(inactive) == 1);
        card.settle();
        assert_eq!(card.signal_value(signals[1]), 1);
    });
}

#[test]
fn scratch_is_reclaimed() {
    with_card(|card| {
        let user = start(card);
        let inactive = inactive_signal(card, user);
        let queue = user.amd_queue();
        assign_scratch(card, user, 64, 8, 4);
        let properties = queue + amd_queue::QUEUE_PROPERTIES as u64;
        card.mock().put32(properties, 1 << 4);
        let kernel = card.kernel(0, &[ENDPGM]);
        let signals = [card.signal(0, 0), card.signal(2, 0)];
        for signal in signals {
            card.submit(user, &scratch_dispatch(kernel, 0, 4, signal));
        }
        card.until("return", |c| c.signal_value(inactive) == 512);
        assert_eq!(card.signal_value(signals[0]), 0);
        card.settle();
        assert_eq!(card.signal_value(signals[1]), 1, "the queue stands still");
        // The runtime reclaims it, and the next dispatch has to request it.
        assign_scratch(card, user, 0, 0, 0);
        card.mock().put32(properties, 0);
        set_signal(card, inactive, 0);
        card.until("request", |c| c.signal_value(inactive) == 1);
        assign_scratch(card, user, 64, 8, 4);
        set_signal(card, inactive, 0);
        card.until("signal", |c| c.signal_value(signals[1]) == 0);
        card.assert_clean();
    });
}

#[test]
fn preemption_while_waiting_for_scratch() {
    with_card(|card| {
        let user = start(card);
        let inactive = inactive_signal(card, user);
        let kernel = card.kernel(0, &[ENDPGM]);
        let signal = card.signal(0, 0);
        let packet = scratch_dispatch(kernel, 0, 4, signal);
        card.submit(user, &packet);
        card.until("request", |c| c.signal_value(inactive) == 1);
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        // The request is granted while the queue is unmapped; it is not repeated.
        assign_scratch(card, user, 64, 8, 4);
        set_signal(card, inactive, 0);
        card.run_list(&[(7, &[user])], false);
        card.until("signal", |c| c.signal_value(signal) == 0);
        assert_eq!(card.signal_value(inactive), 0);
        card.assert_clean();
    });
}

#[test]
fn scratch_below_one_workgroup_is_refused() {
    with_card(|card| {
        let user = start(card);
        let inactive = inactive_signal(card, user);
        assign_scratch(card, user, 64, 1, 4);
        let kernel = card.kernel(0, &[ENDPGM]);
        let signal = card.signal(0, 0);
        let mut packet = scratch_dispatch(kernel, 0, 4, signal);
        packet[kd::WORKGROUP_SIZE_X] = 128;
        card.submit(user, &packet);
        card.until("request", |c| c.signal_value(inactive) == 1);
        assign_scratch(card, user, 64, 2, 4);
        set_signal(card, inactive, 0);
        card.until("signal", |c| c.signal_value(signal) == 0);
        card.assert_clean();
    });
}

#[test]
fn concurrent_workgroups_have_separate_scratch() {
    with_card(|card| {
        let user = start(card);
        // Scratch for two waves: the third workgroup waits for the first.
        assign_scratch(card, user, 64, 2, 4);
        let kernel = card.kernel(0, &GATE);
        let signal = card.signal(0, 0);
        let packet = scratch_dispatch(kernel, KERNARG, 10, signal);
        card.submit(user, &packet);
        card.until("start", |c| {
            c.queue_of(user).is_some_and(|q| !q.is_stopped())
        });
        // Longer than a time slice.
        std::thread::sleep(Duration::from_millis(60));
        let job = card.queue_of(user).unwrap().work.jobs()[0].clone();
        assert_eq!(job.in_flight(), 2);
        card.mock().put32(GATE_OPEN, 1);
        card.until("signal", |c| c.signal_value(signal) == 0);
        for group in 0..10 {
            assert_eq!(card.mock().get32(KERNARG + 4 * group), 1);
        }
        card.assert_clean();
    });
}
