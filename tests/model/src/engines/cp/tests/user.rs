// SPDX-License-Identifier: GPL-2.0 OR MIT

//! PM4 user queues, and random packets.

use super::super::queue::Halt;
use super::super::testing::HDP_FLUSH;
use super::*;

const KERNARG: u64 = 0x7_0000;

/// Writes and maps a PM4 queue of 512 dwords in the place of AQL queue `n`.
fn start_pm4(card: &mut Card<'_>) -> User {
    card.start();
    let user = card.put_queue(0);
    let put = |n: usize, value: u32| card.mock().put32(user.mqd() + n as u64 * 4, value);
    put(dw::cp_hqd_pq_control, 8);
    put(dw::cp_hqd_aql_control, 0);
    for n in 0..512 {
        card.mock().put32(user.aql_ring() + n * 4, 0);
    }
    card.run_list(&[(7, &[user])], false);
    card.settle();
    card.assert_clean();
    user
}

fn submit_pm4(card: &mut Card<'_>, user: User, packets: &[u32]) {
    let wptr = card.mock().get64(user.wptr());
    let wptr = card.ring(user.aql_ring(), 512, wptr, packets);
    card.mock().put64(user.wptr(), wptr);
    card.ring_doorbell(user, wptr);
}

fn set_sh(reg: Reg, values: &[u32]) -> Vec<u32> {
    let mut packet = vec![
        pm4::header(op::SET_SH_REG, 1 + values.len() as u32),
        0x2000 + reg.off - pm4::set_sh_reg::START,
    ];
    packet.extend(values);
    packet
}

/// Returns the packets that launch `groups` workgroups of 64 and signal event 6.
fn launch(kernel: u64, groups: u32, fence: u64) -> Vec<u32> {
    let dispatch = [pm4::header(op::DISPATCH_DIRECT, 4), groups, 1, 1, 1];
    launch_by(kernel, &dispatch, fence)
}

fn launch_by(kernel: u64, dispatch: &[u32], fence: u64) -> Vec<u32> {
    let entry = kernel + 256;
    let mut words = set_sh(gc::regCOMPUTE_NUM_THREAD_X, &[64, 1, 1]);
    words.extend(set_sh(
        gc::regCOMPUTE_PGM_LO,
        &[(entry >> 8) as u32, (entry >> 40) as u32],
    ));
    words.extend(set_sh(
        gc::regCOMPUTE_PGM_RSRC1,
        &[1 | 2 << 6, 2 << 1 | 1 << 7],
    ));
    words.extend(set_sh(gc::regCOMPUTE_PGM_RSRC3, &[3]));
    words.extend(set_sh(gc::regCOMPUTE_USER_DATA_0, &[KERNARG as u32, 0]));
    words.extend(dispatch);
    words.extend([
        pm4::header(op::RELEASE_MEM, 7),
        0x14 | 5 << 8,
        1 << 29 | 2 << 24,
        fence as u32,
        0,
        1,
        0,
        6,
    ]);
    words
}

#[test]
fn pm4_queue_dispatches_and_signals() {
    with_card(|card| {
        let user = start_pm4(card);
        let kernel = card.kernel(0, &GATE);
        submit_pm4(card, user, &launch(kernel, 5, FENCE));
        card.settle();
        assert_eq!(card.mock().get32(FENCE), 0, "the kernel still runs");
        // Preempted in the middle, while the fence packet waits.
        card.mock().put64(HIQ_RPTR, 0);
        let marker = FENCE + 8;
        card.hiq(&[
            pm4::unmap_queues::PACKET.header(),
            3 << 4,
            0,
            0,
            0,
            0,
            pm4::query_status::PACKET.header(),
            2 << 30,
            0,
            marker as u32,
            0,
            100,
            0,
        ]);
        card.until("unmapped", |c| c.mock().get32(marker) == 100);
        assert!(card.queue_of(user).is_none());
        card.run_list(&[(7, &[user])], false);
        card.mock().put32(KERNARG + 0x1000, 1);
        card.until("fence", |c| c.mock().get32(FENCE) == 1);
        for group in 0..5 {
            assert_eq!(card.mock().get32(KERNARG + 4 * group), 1);
        }
        let entry = card.mock().interrupts()[0];
        assert_eq!((entry.source_id, entry.vmid, entry.ctx[0]), (181, 3, 6));
        let wptr = card.mock().get64(user.wptr()) % 512;
        assert_eq!(u64::from(card.mock().get32(user.rptr())), wptr);
        card.assert_clean();
    });
}

#[test]
fn unmapped_pm4_queue_keeps_its_compute_registers() {
    with_card(|card| {
        let user = start_pm4(card);
        let kernel = card.kernel(0, &GATE);
        card.mock().put32(KERNARG + 0x1000, 1);
        let marker = FENCE + 0x100;
        let dispatch = [pm4::header(op::DISPATCH_DIRECT, 4), 3, 1, 1, 1];
        let packets = launch_by(kernel, &dispatch, marker);
        submit_pm4(card, user, &packets);
        card.until("fence", |c| c.mock().get32(marker) == 1);
        card.unmap_all();
        card.until("unmapped", Card::fence_is_written);
        card.mock().put64(HIQ_RPTR, 0);
        for group in 0..3 {
            card.mock().put32(KERNARG + 4 * group, 0);
        }
        card.run_list(&[(7, &[user])], false);
        submit_pm4(card, user, &dispatch);
        card.until("second dispatch", |c| {
            (0..3).all(|group| c.mock().get32(KERNARG + 4 * group) == 1)
        });
        card.assert_clean();
    });
}

#[test]
fn cu_mask_of_the_mqd_selects_the_cus() {
    with_card(|card| {
        card.start();
        let user = card.put_queue(0);
        let mask = user.mqd() + dw::compute_static_thread_mgmt_se0 as u64 * 4;
        let bits = |card: &Card<'_>| {
            let cus = card.queue_of(user).map(|queue| queue.cus.clone());
            cus.map(|cus| cus.iter().map(|cu| cu.cu).collect::<Vec<_>>())
        };
        for (value, expected) in [(3, vec![0, 1]), (2, vec![1]), (1 << 16 | 1, vec![0])] {
            card.mock().put32(mask, value);
            card.run_list(&[(7, &[user])], false);
            card.settle();
            assert_eq!(bits(card), Some(expected));
            card.unmap_all();
            card.until("unmapped", Card::fence_is_written);
            card.mock().put64(HIQ_RPTR, 0);
        }
        card.assert_clean();
        // Bits without a CU.
        card.mock().put32(mask, 4);
        card.run_list(&[(7, &[user])], false);
        card.settle();
        assert_eq!(card.mock().strict().unexpected(), 1);
    });
}

#[test]
fn dispatch_indirect_reads_its_dimensions() {
    const DIMS: u64 = 0x6_0000;
    let packet = |at: u64| [pm4::header(op::DISPATCH_INDIRECT, 3), at as u32, 0, 1];
    with_card(|card| {
        let user = start_pm4(card);
        let kernel = card.kernel(0, &GATE);
        card.mock().put32(KERNARG + 0x1000, 1);
        // The dimensions are read when the packet is executed, not when it is written.
        let mut words = vec![
            pm4::header(op::WRITE_DATA, 6),
            5 << 8,
            DIMS as u32,
            0,
            3,
            1,
            1,
        ];
        words.extend(launch_by(kernel, &packet(DIMS), FENCE));
        submit_pm4(card, user, &words);
        card.until("fence", |c| c.mock().get32(FENCE) == 1);
        let ran = [0, 1, 2, 3].map(|group| card.mock().get32(KERNARG + 4 * group));
        assert_eq!(ran, [1, 1, 1, 0]);
        // Nothing to do.
        card.mock().put32(DIMS, 0);
        submit_pm4(card, user, &launch_by(kernel, &packet(DIMS), FENCE + 8));
        card.until("fence", |c| c.mock().get32(FENCE + 8) == 1);
        card.assert_clean();
        // A fault of the read stops the queue.
        card.mock().unmap(DIMS);
        submit_pm4(card, user, &packet(DIMS));
        card.settle();
        assert_eq!(card.mock().faults(), [DIMS]);
        assert_eq!(card.queue_of(user).unwrap().halt, Halt::Fault);
    });
}

/// Stores the number of the workgroup to dword 1 of its scratch, and from there to the kernarg.
const THROUGH_SCRATCH: [u32; 12] = [
    // v_mov_b32 v1, s2
    0x7e02_0202,
    // scratch_store_dword off, v1, off offset:4
    0xdc70_4004,
    0x007f_0100,
    // s_waitcnt vmcnt(0)
    0xbf8c_0f70,
    // scratch_load_dword v3, off, off offset:4
    0xdc50_4004,
    0x037f_0000,
    // s_waitcnt vmcnt(0)
    0xbf8c_0f70,
    // s_lshl_b32 s2, s2, 2
    0x8e02_8202,
    // v_mov_b32 v2, s2
    0x7e04_0202,
    // global_store_dword v2, v3, s[0:1]
    0xdc70_8000,
    0x0000_0302,
    ENDPGM,
];

/// Returns the packets of a dispatch with scratch: `waves` waves of `wave_kib` KiB each, followed
/// by the packets `dispatch`.
fn with_scratch(waves: u32, wave_kib: u32, dispatch: &[u32]) -> Vec<u32> {
    const SCRATCH: u64 = 0x30_0000;
    let mut words = set_sh(gc::regCOMPUTE_PGM_RSRC1.at(1), &[1 | 2 << 1 | 1 << 7]);
    words.extend(set_sh(
        gc::regCOMPUTE_TMPRING_SIZE,
        &[waves | wave_kib << 12],
    ));
    words.extend(set_sh(
        gc::regCOMPUTE_DISPATCH_SCRATCH_BASE_LO,
        &[(SCRATCH >> 8) as u32, 0],
    ));
    words.extend(dispatch);
    words
}

#[test]
fn dispatch_has_the_scratch_of_its_registers() {
    with_card(|card| {
        let user = start_pm4(card);
        let kernel = card.kernel(0, &THROUGH_SCRATCH);
        let dispatch = [pm4::header(op::DISPATCH_DIRECT, 4), 5, 1, 1, 1];
        let packets = launch_by(kernel, &with_scratch(8, 1, &dispatch), FENCE);
        submit_pm4(card, user, &packets);
        card.until("fence", |c| c.mock().get32(FENCE) == 1);
        for group in 0..5 {
            assert_eq!(card.mock().get32(KERNARG + 4 * group), group as u32);
            // 1 KiB of each wave, in which the lanes of dword 1 follow those of dword 0.
            let lanes = 0x30_0000 + 1024 * group + 256;
            assert!((0..64).all(|lane| card.mock().get32(lanes + 4 * lane) == group as u32));
        }
        card.assert_clean();
        // Without memory for a wave the dispatch cannot start.
        let packets = launch_by(kernel, &with_scratch(0, 1, &dispatch), FENCE);
        submit_pm4(card, user, &packets);
        card.settle();
        assert_eq!(card.queue_of(user).unwrap().halt, Halt::BadPacket);
    });
}

#[test]
fn dispatch_starts_at_the_first_workgroup() {
    with_card(|card| {
        let user = start_pm4(card);
        let kernel = card.kernel(0, &GATE);
        card.mock().put32(KERNARG + 0x1000, 1);
        let dispatch = |initiator: u32| {
            let mut words = set_sh(gc::regCOMPUTE_START_X, &[2, 0, 0]);
            words.extend([pm4::header(op::DISPATCH_DIRECT, 4), 5, 1, 1, initiator]);
            words
        };
        let ran = |card: &Card<'_>| {
            [0, 1, 2, 3, 4, 5].map(|group| {
                let at = KERNARG + 4 * group;
                let ran = card.mock().get32(at);
                card.mock().put32(at, 0);
                ran
            })
        };
        // The dimensions are the end of the grid.
        submit_pm4(card, user, &launch_by(kernel, &dispatch(1), FENCE));
        card.until("fence", |c| c.mock().get32(FENCE) == 1);
        assert_eq!(ran(card), [0, 0, 1, 1, 1, 0]);
        // FORCE_START_AT_000.
        submit_pm4(
            card,
            user,
            &launch_by(kernel, &dispatch(1 | 1 << 2), FENCE + 8),
        );
        card.until("fence", |c| c.mock().get32(FENCE + 8) == 1);
        assert_eq!(ran(card), [1, 1, 1, 1, 1, 0]);
        card.assert_clean();
    });
}

#[test]
fn dma_data_copies_and_fills() {
    const FROM: u64 = 0x20_0000;
    const TO: u64 = 0x21_0000;
    let dma = |sels: u32, from: u64, to: u64, command: u32| {
        let head = pm4::header(op::DMA_DATA, 6);
        [head, sels, from as u32, 0, to as u32, 0, command]
    };
    with_card(|card| {
        let user = start_pm4(card);
        let source: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
        card.mock().put(FROM, &source);
        let l2 = 3 << 29 | 3 << 20;
        // Odd addresses and an odd size, then a copy of that copy (RAW_WAIT), then data.
        submit_pm4(card, user, &dma(1 << 31, FROM + 1, TO + 3, 9_001));
        submit_pm4(card, user, &dma(l2, TO + 3, TO + 0x4000, 1 << 30 | 16));
        submit_pm4(card, user, &dma(2 << 29, 0x1234_5678, TO + 0x8000, 8_196));
        card.settle();
        card.assert_clean();
        let byte = |at: u64| card.mock().get32(at & !3).to_le_bytes()[at as usize & 3];
        for n in 0..9_001 {
            assert_eq!(byte(TO + 3 + n), source[n as usize + 1]);
        }
        assert_eq!((byte(TO + 2), byte(TO + 3 + 9_001)), (0, 0));
        assert!((0..16).all(|n| byte(TO + 0x4000 + n) == byte(TO + 3 + n)));
        let fill = |n: u64| card.mock().get32(TO + 0x8000 + 4 * n);
        assert!((0..2_049).all(|n| fill(n) == 0x1234_5678));
        assert_eq!(fill(2_049), 0);
        // Reported, and executed: PFP, no bytes, an unaligned fill.
        for packet in [
            dma(1, FROM, TO, 4),
            dma(0, FROM, TO, 0),
            dma(2 << 29, 1, TO + 2, 4),
        ] {
            let before = card.mock().strict().lines().len();
            submit_pm4(card, user, &packet);
            card.settle();
            let lines = card.mock().strict().lines();
            assert_eq!(lines.len(), before + 1, "{lines:?}");
        }
        // A fault in the middle.
        card.mock().unmap(TO + 0x2000);
        submit_pm4(card, user, &dma(0, FROM, TO, 9_000));
        card.settle();
        assert_eq!(card.mock().faults(), [TO + 0x2000]);
        assert_eq!(card.queue_of(user).unwrap().halt, Halt::Fault);
    });
    // GDS, registers, addresses that are not incremented.
    for (sels, command) in [
        (1 << 29, 4),
        (1 << 20, 4),
        (0, 1 << 26 | 4),
        (0, 1 << 27 | 4),
        (0, 1 << 28 | 4),
        (0, 1 << 29 | 4),
    ] {
        with_card(|card| {
            let user = start_pm4(card);
            submit_pm4(card, user, &dma(sels, FROM, TO, command));
            card.settle();
            assert_eq!(card.queue_of(user).unwrap().halt, Halt::BadPacket);
        });
    }
}

#[test]
fn user_queues_flush_the_hdp() {
    let (request, done) = HDP_FLUSH;
    let wait = |first, second, operation: u32| {
        let head = pm4::header(op::WAIT_REG_MEM, 6);
        [head, 5 | operation << 6, first, second, !0, !0, 4]
    };
    with_card(|card| {
        let user = start_pm4(card);
        card.mock().set_reg(done, !0);
        submit_pm4(card, user, &wait(request, done, 1));
        let head = pm4::header(op::WRITE_DATA, 4);
        submit_pm4(card, user, &[head, 5 << 8, FENCE as u32, 0, 1]);
        card.until("fence", |c| c.mock().get32(FENCE) == 1);
        assert_eq!(card.mock().reg(request), !0);
        card.assert_clean();
    });
    // Not the registers in other roles.
    for packet in [
        wait(request, 0x3000, 1),
        wait(0x3000, done, 1),
        wait(done, 0, 0),
    ] {
        with_card(|card| {
            let user = start_pm4(card);
            submit_pm4(card, user, &packet);
            card.settle();
            let queue = card.queue_of(user).unwrap();
            assert_eq!(queue.halt, Halt::BadPacket, "{packet:x?}");
            assert_eq!(card.mock().reg(request), 0);
        });
    }
}

#[test]
fn privileged_packets_are_refused() {
    let packets: [&[u32]; 10] = [
        &[pm4::header(op::SET_UCONFIG_REG, 2), 0x40, 1],
        &[pm4::header(op::SET_CONFIG_REG, 2), 0x40, 1],
        // From the last register of the queue into the next one.
        &[pm4::header(op::SET_SH_REG, 3), 0x2e7f - 0x2c00, 1, 1],
        &[pm4::header(op::COPY_DATA, 5), 5 << 8, 0x3000, 0, 0x9000, 0],
        &[pm4::header(op::COPY_DATA, 5), 5, 1, 0, 0x3000, 0],
        &[pm4::header(op::WRITE_DATA, 4), 0, 0x3000, 0, 1],
        &[pm4::header(op::WAIT_REG_MEM, 6), 3, 0x3000, 0, 0, !0, 4],
        // Writes a register of the queue, and polls another.
        &[
            pm4::header(op::WAIT_REG_MEM, 6),
            3 | 1 << 6,
            0x2e00,
            0x3000,
            0,
            !0,
            4,
        ],
        &[pm4::header(op::RUN_LIST, 3), 0, 0, 0],
        &[pm4::header(op::INVALIDATE_TLBS, 1), 1],
    ];
    for packet in packets {
        with_card(|card| {
            let user = start_pm4(card);
            submit_pm4(card, user, packet);
            card.settle();
            assert_eq!(
                card.queue_of(user).unwrap().halt,
                Halt::BadPacket,
                "{packet:x?}"
            );
            let entries = card.mock().interrupts();
            let registers = entries.iter().filter(|e| e.source_id == 184).count();
            let scheduler = [op::RUN_LIST, op::INVALIDATE_TLBS];
            let wanted = !scheduler.contains(&((packet[0] >> 8) as u8));
            assert_eq!(registers, usize::from(wanted), "{packet:x?}");
            assert_eq!(card.mock().reg(0x3000), 0);
            let last = *card.mock().interrupts().last().unwrap();
            assert_eq!((last.source_id, last.vmid), (183, 3));
            assert_eq!(last.ctx[0] & 0x3ff, user.doorbell() / 2 % 1024);
            card.unmap_all();
            card.until("fence", Card::fence_is_written);
        });
    }
}

#[test]
fn privileged_ib_is_refused() {
    with_card(|card| {
        let user = start_pm4(card);
        card.mock().put32(0x6_0000, pm4::NOP_SINGLE);
        let call = |privileged: u32| {
            let head = pm4::header(op::INDIRECT_BUFFER, 3);
            [head, 0x6_0000, 0, 1 | 1 << 23 | privileged << 31]
        };
        submit_pm4(card, user, &call(0));
        card.settle();
        card.assert_clean();
        submit_pm4(card, user, &call(1));
        card.settle();
        assert_eq!(card.queue_of(user).unwrap().halt, Halt::BadPacket);
    });
}

#[test]
fn recursive_indirect_buffer_is_stopped() {
    with_card(|card| {
        let user = start_pm4(card);
        let ib = 0x6_0000u64;
        let call = |chain: u32| {
            let head = pm4::header(op::INDIRECT_BUFFER, 3);
            [head, ib as u32, 0, 4 | chain << 20 | 1 << 23]
        };
        for (n, word) in call(0).iter().enumerate() {
            card.mock().put32(ib + n as u64 * 4, *word);
        }
        submit_pm4(card, user, &call(0));
        card.settle();
        assert_eq!(card.queue_of(user).unwrap().halt, Halt::BadPacket);
    });
    // An IB chained to itself is endless, but the queue can be unmapped.
    with_card(|card| {
        let user = start_pm4(card);
        let ib = 0x6_0000u64;
        let head = pm4::header(op::INDIRECT_BUFFER, 3);
        let call = [head, ib as u32, 0, 4 | 1 << 20 | 1 << 23];
        for (n, word) in call.iter().enumerate() {
            card.mock().put32(ib + n as u64 * 4, *word);
        }
        submit_pm4(card, user, &call);
        card.settle();
        card.unmap_all();
        card.until("fence", Card::fence_is_written);
        card.assert_clean();
    });
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns mostly small numbers, sometimes addresses, sometimes any number.
    fn word(&mut self) -> u32 {
        let n = self.next();
        match n >> 60 {
            0..=5 => (n & 0xff) as u32,
            6..=9 => (n & 0x3f_ffff) as u32,
            10 => 0,
            11 => !0,
            _ => n as u32,
        }
    }
}

#[test]
fn random_packets_do_not_stop_the_engine() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for round in 0..150u64 {
        with_card(|card| {
            let pm4_queue = round % 2 == 0;
            let user = match pm4_queue {
                true => start_pm4(card),
                false => {
                    card.start();
                    let user = card.put_queue(0);
                    card.run_list(&[(7, &[user])], false);
                    card.settle();
                    user
                }
            };
            for n in 0..64 {
                card.mock().put64(user.amd_queue() + n * 8, random.next());
            }
            card.mock().put64(user.wptr(), 0);
            for _ in 0..4 {
                if pm4_queue {
                    let shape = pm4::PACKETS[random.next() as usize % pm4::PACKETS.len()];
                    let body = shape.dwords.max(2) - 1;
                    let mut packet = vec![pm4::header(shape.opcode, body as u32)];
                    packet.extend((0..body).map(|_| random.word()));
                    submit_pm4(card, user, &packet);
                } else {
                    let mut packet = dispatch(CODE, random.next(), 1, random.next(), true);
                    for _ in 0..random.next() % 6 {
                        let at = (random.next() % 64) as usize;
                        packet[at] = random.next() as u8;
                    }
                    card.submit(user, &packet);
                }
                for _ in 0..20 {
                    card.pump();
                }
            }
            // Other queues still work.
            card.mock().put32(0x9000, 0);
            card.kiq(&[pm4::header(op::WRITE_DATA, 4), 5 << 8, 0x9000, 0, 77]);
            card.until("KIQ", |c| c.mock().get32(0x9000) == 77);
            card.unmap_all();
            card.until("fence", Card::fence_is_written);
        });
    }
}
