// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Kernel rings: KIQ activation by registers, packets of each kind, and bad packets.

use super::*;

const MEM: u64 = 0x6_0000;
/// End of pipe event: CACHE_FLUSH_AND_INV_TS.
const EOP: u32 = 0x14 | 5 << 8;

#[test]
fn ring_test_writes_scratch_register() {
    with_card(|card| {
        card.start_kiq();
        let scratch = 0xa000 + gc::regSCRATCH_REG0.off;
        for value in [0xdead_beef, 0x1234] {
            card.kiq(&[
                pm4::header(op::SET_UCONFIG_REG, 2),
                scratch - pm4::set_uconfig_reg::START,
                value,
            ]);
            card.settle();
            assert_eq!(card.mock().reg(scratch), value);
        }
        card.assert_clean();
    });
}

#[test]
fn ring_wraps_at_every_offset() {
    with_card(|card| {
        card.start_kiq();
        for round in 0..400u32 {
            let filler = [pm4::NOP_SINGLE; 3];
            card.kiq(&filler[..round as usize % 4]);
            card.kiq(&[
                pm4::header(op::WRITE_DATA, 5),
                5 << 8 | 1 << 20,
                MEM as u32,
                0,
                round,
                !round,
            ]);
            card.settle();
            assert_eq!(card.mock().get32(MEM), round);
            assert_eq!(card.mock().get32(MEM + 4), !round);
            assert_eq!(u64::from(card.mock().get32(KIQ_RPTR)), card.kiq_wptr % 512);
        }
        card.assert_clean();
    });
}

#[test]
fn copies_between_memory_and_registers() {
    with_card(|card| {
        card.start_kiq();
        card.mock().set_reg(0x3000, 77);
        card.mock().put64(MEM + 8, 0x1_0000_0002);
        card.kiq(&[
            // Register to memory, as in KIQ register reads of a driver.
            pm4::header(op::COPY_DATA, 5),
            5 << 8 | 1 << 20,
            0x3000,
            0,
            MEM as u32,
            0,
            // 64 bits of memory to memory.
            pm4::header(op::COPY_DATA, 5),
            1 | 5 << 8 | 1 << 16,
            MEM as u32 + 8,
            0,
            MEM as u32 + 16,
            0,
            // Immediate to register.
            pm4::header(op::COPY_DATA, 5),
            5,
            99,
            0,
            0x3001,
            0,
            // 64-bit atomic add: TC_OP_ATOMIC_ADD_RTN_64.
            pm4::header(op::ATOMIC_MEM, 8),
            0x2f,
            MEM as u32 + 8,
            0,
            5,
            0,
            0,
            0,
            0,
            // Registers from WRITE_DATA, one after the other.
            pm4::header(op::WRITE_DATA, 5),
            0,
            0x3002,
            0,
            1,
            2,
            // All to the same register.
            pm4::header(op::WRITE_DATA, 5),
            1 << 16,
            0x3008,
            0,
            3,
            4,
        ]);
        card.settle();
        card.assert_clean();
        let mock = card.mock();
        assert_eq!((mock.get32(MEM), mock.reg(0x3001)), (77, 99));
        assert_eq!(mock.get64(MEM + 16), 0x1_0000_0002);
        assert_eq!(mock.get64(MEM + 8), 0x1_0000_0007);
        assert_eq!((mock.reg(0x3002), mock.reg(0x3003)), (1, 2));
        assert_eq!((mock.reg(0x3008), mock.reg(0x3009)), (4, 0));
    });
}

#[test]
fn waiting_queue_does_not_block_others() {
    with_card(|card| {
        card.start();
        card.kiq(&[
            pm4::header(op::WAIT_REG_MEM, 6),
            3 | 1 << 4,
            MEM as u32,
            0,
            5,
            0xff,
            0x20,
            pm4::header(op::WRITE_DATA, 4),
            5 << 8,
            MEM as u32 + 4,
            0,
            1,
        ]);
        card.hiq(&[pm4::header(op::WRITE_DATA, 4), 5 << 8, MEM as u32 + 8, 0, 1]);
        card.until("HIQ goes on", |c| c.mock().get32(MEM + 8) == 1);
        assert_eq!(card.mock().get32(MEM + 4), 0);
        card.mock().put32(MEM, 0xab05);
        card.until("KIQ goes on", |c| c.mock().get32(MEM + 4) == 1);
        card.assert_clean();
    });
}

#[test]
fn fence_is_written_before_interrupt() {
    with_card(|card| {
        card.start_kiq();
        card.mock().acts();
        card.kiq(&[
            pm4::header(op::RELEASE_MEM, 7),
            0x14 | 5 << 8,
            2 << 29 | 2 << 24,
            MEM as u32,
            0,
            0x55,
            0x66,
            9,
        ]);
        card.settle();
        let acts = card.mock().acts();
        let fence = acts
            .iter()
            .position(|a| matches!(a, Act::Write(MEM, data) if data.len() == 8));
        let interrupt = acts.iter().position(|a| matches!(a, Act::Interrupt(_)));
        assert!(fence.unwrap() < interrupt.unwrap());
        assert_eq!(card.mock().get64(MEM), 0x66_0000_0055);
        let Act::Interrupt(entry) = &acts[interrupt.unwrap()] else {
            panic!();
        };
        assert_eq!((entry.client_id, entry.source_id), (0x14, 181));
        assert_eq!((entry.ring_id, entry.ctx[0]), (2 << 2 | 1, 9));
        card.assert_clean();
    });
}

/// Address of the EOP buffer of the KIQ: a page.
const BUFFER: u64 = 0x1_9000;

/// Starts the KIQ with an EOP buffer of 2^(`size` + 1) dwords.
fn start_with_eop(card: &mut Card<'_>, base: u64, size: u32) {
    let put = |reg, value| card.write_reg(KIQ_SLOT, reg, value);
    put(gc::regCP_HQD_EOP_BASE_ADDR, (base >> 8) as u32);
    put(gc::regCP_HQD_EOP_CONTROL, size);
    card.start_kiq();
}

/// Returns RELEASE_MEM without data and interrupt.
fn end_of_pipe() -> [u32; 8] {
    [pm4::header(op::RELEASE_MEM, 7), EOP, 0, 0, 0, 0, 0, 0]
}

#[test]
fn kiq_needs_its_masks() {
    with_card(|card| {
        card.start_kiq();
        card.assert_clean();
    });
    with_card(|card| {
        card.put_kiq_mqd(!1);
        card.activate_kiq();
        let lines = card.mock().strict().lines();
        assert!(
            lines[0].contains("masks of CUs") && lines.len() == 1,
            "{lines:?}"
        );
    });
}

#[test]
fn release_mem_writes_the_eop_buffer() {
    with_card(|card| {
        // Four entries.
        start_with_eop(card, BUFFER, 2);
        card.mock().acts();
        for _ in 0..5 {
            card.kiq(&end_of_pipe());
        }
        card.settle();
        let entry = |act| match act {
            Act::Write(at, data) if at >> 12 == BUFFER >> 12 => Some((at - BUFFER, data.len())),
            _ => None,
        };
        let entries: Vec<_> = card.mock().acts().into_iter().filter_map(entry).collect();
        assert_eq!(entries, [(0, 8), (8, 8), (16, 8), (24, 8), (0, 8)]);
        card.assert_clean();
        card.mock().unmap(BUFFER);
        card.kiq(&end_of_pipe());
        card.settle();
        assert_eq!(card.mock().faults(), [BUFFER + 8]);
    });
}

#[test]
fn eop_buffers_are_mapped_and_of_limited_size() {
    for (base, size, text) in [
        (BUFFER, 9, None),
        (
            BUFFER - 0x100,
            9,
            Some("EOP buffer of 0x1000 bytes at 0x18f00"),
        ),
        (BUFFER - 0x2000, 0xb, Some("EOP_SIZE 0xb is above 0xa")),
    ] {
        with_card(|card| {
            card.mock().unmap(BUFFER + 0x1000);
            if base != BUFFER {
                card.mock().unmap(BUFFER);
            }
            start_with_eop(card, base, size);
            let lines = card.mock().strict().lines();
            match text {
                None => assert_eq!(lines, [""; 0]),
                Some(text) => assert!(lines[0].contains(text) && lines.len() == 1, "{lines:?}"),
            }
        });
    }
}

#[test]
fn release_mem_forms() {
    with_card(|card| {
        card.start_kiq();
        let forms = [
            // 32 bits after CS_DONE, the interrupt alone, 64 bits without interrupt, a timestamp.
            [0x2f | 6 << 8, 1 << 29, 0],
            [EOP, 1 << 24, 8],
            [EOP, 2 << 29 | 1 << 16, 0],
            [0x28 | 5 << 8, 3 << 29 | 2 << 24, 9],
        ];
        for (n, [event, sels, context]) in forms.into_iter().enumerate() {
            let at = MEM as u32 + 8 * n as u32;
            card.kiq(&[
                pm4::header(op::RELEASE_MEM, 7),
                event,
                sels,
                at,
                0,
                5,
                6,
                context,
            ]);
        }
        card.settle();
        let mock = card.mock();
        let data = [0, 1, 2].map(|n| mock.get64(MEM + 8 * n));
        assert_eq!(data, [5, 0, 0x6_0000_0005]);
        assert_ne!(mock.get64(MEM + 24), 0);
        let contexts: Vec<u32> = mock.interrupts().iter().map(|e| e.ctx[0]).collect();
        assert_eq!(contexts, [8, 9]);
        card.assert_clean();
    });
}

#[test]
fn events_with_a_wrong_index_are_reported() {
    let cases: [&[u32]; 4] = [
        &[
            pm4::header(op::RELEASE_MEM, 7),
            0x14 | 6 << 8,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
        &[
            pm4::header(op::RELEASE_MEM, 7),
            0x2f | 5 << 8,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
        &[pm4::header(op::EVENT_WRITE, 1), 7],
        &[pm4::header(op::EVENT_WRITE, 1), 4 << 8],
    ];
    for words in cases {
        with_card(|card| {
            card.start_kiq();
            card.kiq(words);
            card.settle();
            let lines = card.mock().strict().lines();
            assert!(
                lines.len() == 1 && lines[0].contains("with index"),
                "{lines:?}"
            );
        });
    }
}

#[test]
fn indirect_buffers_nest_and_chain() {
    with_card(|card| {
        card.start_kiq();
        let (a, b) = (MEM + 0x100, MEM + 0x200);
        let write = |at: u64| [pm4::header(op::WRITE_DATA, 4), 5 << 8, at as u32, 0, 1];
        let jump = |to: u64, size: u32, chain: u32| {
            let head = pm4::header(op::INDIRECT_BUFFER, 3);
            [head, to as u32, 0, size | chain << 20 | 1 << 23]
        };
        let mut words = write(MEM).to_vec();
        words.extend(jump(b, 5, 1));
        // Not reached: a chained IB does not return.
        words.extend(write(MEM + 4));
        for (n, word) in words.iter().enumerate() {
            card.mock().put32(a + n as u64 * 4, *word);
        }
        for (n, word) in write(MEM + 8).iter().enumerate() {
            card.mock().put32(b + n as u64 * 4, *word);
        }
        let mut ring = jump(a, 14, 0).to_vec();
        // The skipped packet of COND_EXEC, and an executed one.
        ring.extend([pm4::header(op::COND_EXEC, 4), MEM as u32 + 0x40, 0, 0, 5]);
        ring.extend(write(MEM + 12));
        ring.extend(write(MEM + 16));
        card.kiq(&ring);
        card.settle();
        card.assert_clean();
        let got: Vec<u32> = (0..5).map(|n| card.mock().get32(MEM + 4 * n)).collect();
        assert_eq!(got, [1, 0, 1, 0, 1]);
    });
}

#[test]
fn invalid_packet_stops_queue_with_bad_opcode() {
    let cases: &[&[u32]] = &[
        &[pm4::header(0xee, 2), 0, 0],
        &[0x0001_2345, 0, 0],
        &[pm4::header(op::RELEASE_MEM, 6), 0, 0, 0, 0, 0, 0],
        // Beyond the range of the packet.
        &[pm4::header(op::SET_UCONFIG_REG, 2), 0x400, 1],
        // To a write pointer, and with a comparison.
        &[
            pm4::header(op::RELEASE_MEM, 7),
            EOP,
            1 << 29 | 2 << 16,
            0,
            0,
            0,
            0,
            0,
        ],
        &[pm4::header(op::RELEASE_MEM, 7), EOP, 5 << 24, 0, 0, 0, 0, 0],
        // Pipeline statistics to memory.
        &[pm4::header(op::EVENT_WRITE, 3), 0x1e | 2 << 8, 0, 0],
        &[pm4::header(op::MAP_PROCESS, 15); 16],
        &[pm4::header(op::RUN_LIST, 3), 0, 0, 1 << 23 | 4],
        &[pm4::header(op::WRITE_DATA, 4), 3 << 8, 0, 0, 0],
    ];
    for words in cases {
        with_card(|card| {
            card.start_kiq();
            card.kiq(words);
            card.kiq(&[pm4::header(op::WRITE_DATA, 4), 5 << 8, MEM as u32, 0, 1]);
            card.settle();
            let entries = card.mock().interrupts();
            assert_eq!(entries.len(), 1, "{words:x?}");
            assert_eq!(entries[0].source_id, 183, "{words:x?}");
            assert_eq!(card.mock().get32(MEM), 0, "{words:x?}");
            assert_ne!(card.mock().strict().unexpected(), 0);
        });
    }
}

#[test]
fn reserved_bits_are_reported_and_ignored() {
    with_card(|card| {
        card.start_kiq();
        card.kiq(&[
            pm4::header(op::WRITE_DATA, 4),
            5 << 8 | 1 << 21,
            MEM as u32,
            0,
            1,
        ]);
        card.settle();
        assert_eq!(card.mock().get32(MEM), 1);
        let lines = card.mock().strict().lines();
        assert!(
            lines[0].contains("reserved bits 0x200000 of dword 1"),
            "{lines:?}"
        );
    });
}

#[test]
fn faulting_ring_stops_until_dequeue() {
    with_card(|card| {
        card.start_kiq();
        card.mock().unmap(KIQ_RING);
        card.kiq(&[pm4::NOP_SINGLE]);
        card.settle();
        assert_eq!(card.mock().faults(), [KIQ_RING]);
        card.write_reg(KIQ_SLOT, gc::regCP_HQD_DEQUEUE_REQUEST, 1);
        let slot = Slot::new(1, 1, 0);
        card.until("dequeue", |c| c.bank(slot, gc::regCP_HQD_ACTIVE) == 0);
        assert!(card.engine.queues.iter().flatten().next().is_none());
    });
}

#[test]
fn doorbells_without_a_queue_are_reported() {
    with_card(|card| {
        card.start_kiq();
        card.rig.mail.send(Wake::Doorbell(0x444, 1, 8));
        card.until("report", |c| c.mock().strict().unexpected() == 1);
        assert!(card.mock().strict().lines()[0].contains("doorbell 0x444"));
        // Beyond the ring.
        card.rig.mail.send(Wake::Doorbell(0, 1000, 8));
        card.settle();
        assert!(card.mock().strict().lines()[1].contains("write pointer"));
    });
}
