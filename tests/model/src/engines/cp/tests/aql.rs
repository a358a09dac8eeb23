// SPDX-License-Identifier: GPL-2.0 OR MIT

//! AQL queues: dispatches, barriers, signals, errors.

use super::*;

const KERNARG: u64 = 0x7_0000;
const GATE_OPEN: u64 = KERNARG + 0x1000;

fn start(card: &mut Card<'_>) -> User {
    card.start();
    let user = card.put_queue(0);
    card.run_list(&[(7, &[user])], false);
    card.settle();
    card.assert_clean();
    assert!(card.queue_of(user).is_some());
    user
}

#[test]
fn a_kernel_runs_and_signals() {
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
