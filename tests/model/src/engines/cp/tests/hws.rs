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
