// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Faults at packets of the HIQ (knobs `hws.op`, `hws.drop`, `hws.hang_op`).

use super::*;

#[test]
fn dropped_packet_has_no_effect() {
    for (opcode, is_unmapped) in [(op::UNMAP_QUEUES, false), (op::QUERY_STATUS, true)] {
        with_card(|card| {
            card.start();
            let user = card.put_queue(0);
            card.run_list(&[(7, &[user])], false);
            card.until("mapped", |c| c.queue_of(user).is_some());
            card.mock().knobs().set("hws.op", opcode.into());
            card.mock().knobs().set("hws.drop", 2);
            card.unmap_all();
            card.until("first", Card::fence_is_written);
            card.run_list(&[(7, &[user])], false);
            card.until("mapped", |c| c.queue_of(user).is_some());
            card.unmap_all();
            card.settle();
            // The ring continues after the packet.
            let end = (card.hiq_wptr & 511) as u32;
            card.until("consumed", |c| c.mock().get32(HIQ_RPTR) == end);
            assert_eq!(card.queue_of(user).is_none(), is_unmapped);
            assert_eq!(card.fence_is_written(), !is_unmapped);
            assert_eq!(card.mock().knobs().hits("hws.drop"), Some(1));
            assert_eq!(card.mock().knobs().hits("hws.op"), Some(2));
        });
    }
}

#[test]
fn ring_stops_at_a_packet() {
    with_card(|card| {
        card.start();
        let user = card.put_queue(0);
        card.mock().knobs().set("hws.op", op::RUN_LIST.into());
        card.mock().knobs().set("hws.hang_op", 1);
        let before = card.mock().get32(HIQ_RPTR);
        card.run_list(&[(7, &[user])], false);
        card.settle();
        card.unmap_all();
        card.settle();
        assert_eq!(card.mock().get32(HIQ_RPTR), before);
        assert!(card.queue_of(user).is_none() && !card.fence_is_written());
        assert_eq!(card.mock().knobs().hits("hws.hang_op"), Some(1));
        card.assert_clean();
    });
}
