// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Global wave sync.

use super::hws::kernarg;
use super::*;

/// One wave initialises resource 0 for `n` workgroups.
const fn gws_init(n: u32) -> [u32; 6] {
    [
        // v_mov_b32 v1, n - 1
        0x7e02_0280 + n - 1,
        // s_mov_b32 m0, 0
        0xbefc_0080,
        // ds_gws_init v1 gds
        0xd933_0000,
        0x0000_0001,
        // s_waitcnt 0
        0xbf8c_0000,
        ENDPGM,
    ]
}

/// Counts at `s[0:1]`, waits at the barrier, and stores the count read afterwards.
const fn gws_barrier(n: u32) -> [u32; 21] {
    [
        // v_mov_b32 v0, 0; v_mov_b32 v1, 1; s_mov_b64 exec, 1
        0x7e00_0280,
        0x7e02_0281,
        0xbefe_0181,
        // global_atomic_add v0, v1, s[0:1]
        0xdd08_8000,
        0x0000_0100,
        // s_mov_b32 m0, 0; v_mov_b32 v3, n - 1
        0xbefc_0080,
        0x7e06_0280 + n - 1,
        // ds_gws_barrier v3 gds; s_waitcnt 0
        0xd93b_0000,
        0x0000_0003,
        0xbf8c_0000,
        // s_load_dword s3, s[0:1], 0x0; s_waitcnt lgkmcnt(0)
        0xc002_00c0,
        0x0000_0000,
        0xbf8c_c07f,
        // s_lshl_b32 s2, s2, 2; s_add_u32 s2, s2, 64
        0x8e02_8202,
        0x8002_c002,
        // v_mov_b32 v2, s2; v_mov_b32 v1, s3
        0x7e04_0202,
        0x7e02_0203,
        // global_store_dword v2, v1, s[0:1]
        0xdc70_8000,
        0x0000_0102,
        ENDPGM,
        ENDPGM,
    ]
}

#[test]
fn gws_barrier_across_workgroups() {
    const N: u32 = 40;
    with_card(|card| {
        card.start();
        let users = [card.put_queue(0), card.put_queue(1)];
        // Two processes use the resources, one after the other.
        let list: [(u16, &[User]); 2] = [(7, &users[..1]), (8, &users[1..])];
        card.run_list_with(&list, true, &users);
        card.settle();
        let (_, mapped) = card.engine.sched.counts();
        assert_eq!(mapped, 1);
        let (init, meet) = (
            card.kernel(0, &gws_init(N)),
            card.kernel(1, &gws_barrier(N)),
        );
        let signals = [card.signal(0, 0), card.signal(1, 0)];
        for (n, user) in users.into_iter().enumerate() {
            card.submit(user, &dispatch(init, 0, 1, 0, true));
            let arguments = kernarg(n as u64);
            card.submit(user, &dispatch(meet, arguments, N, signals[n], true));
        }
        card.until("both", |c| signals.iter().all(|s| c.signal_value(*s) == 0));
        for n in 0..2 {
            for group in 0..u64::from(N) {
                assert_eq!(card.mock().get32(kernarg(n) + 64 + 4 * group), N);
            }
        }
        card.assert_clean();
        // Without an allocation a wave stops.
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        card.without_handler(users[0]);
        card.run_list(&list, true);
        let inactive = card.signal(2, 0);
        set_inactive_signal(card, users[0], inactive);
        card.submit(users[0], &dispatch(init, 0, 1, 0, true));
        card.until("error", |c| c.signal_value(inactive) == 0x2000_0000);
    });
}

fn set_inactive_signal(card: &Card<'_>, user: User, signal: u64) {
    let at = user.amd_queue() + amd_queue::QUEUE_INACTIVE_SIGNAL as u64;
    card.mock().put64(at, signal);
}

#[test]
fn waves_with_gws_must_not_share_a_simd() {
    with_card(|card| {
        card.start();
        let users = [card.put_queue(0)];
        card.run_list_with(&[(7, &users)], false, &users);
        card.settle();
        card.assert_clean();
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        card.mark_gws(users[0], 0);
        card.run_list_as(&[(7, &users)], false, &users);
        card.settle();
        let lines = card.mock().strict().lines();
        assert!(
            lines[0].contains("has GWS") && lines.len() == 1,
            "{lines:?}"
        );
    });
}

#[test]
fn preemption_at_a_barrier() {
    const N: u32 = 40;
    with_card(|card| {
        card.start();
        let users = [card.put_queue(0)];
        let list: [(u16, &[User]); 1] = [(7, &users)];
        card.run_list_with(&list, false, &users);
        let (init, meet) = (
            card.kernel(0, &gws_init(N)),
            card.kernel(1, &gws_barrier(N)),
        );
        let signal = card.signal(0, 0);
        card.submit(users[0], &dispatch(init, 0, 1, signal, true));
        card.until("set up", |c| c.signal_value(signal) == 0);
        card.mock().put64(signal + 8, 1);
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        card.submit(users[0], &dispatch(meet, kernarg(0), N, signal, true));
        for turn in 0..10 {
            card.run_list_with(&list, false, &users);
            card.until("mapped", |c| c.queue_of(users[0]).is_some());
            for _ in 0..turn * 3 {
                card.pump();
            }
            card.unmap_all();
            card.until("fence", Card::fence_is_written);
        }
        card.run_list_with(&list, false, &users);
        card.until("the end", |c| c.signal_value(signal) == 0);
        for group in 0..u64::from(N) {
            assert_eq!(card.mock().get32(kernarg(0) + 64 + 4 * group), N);
        }
        card.assert_clean();
    });
}
