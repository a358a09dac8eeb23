// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SDMA engines through BARs and VRAM: kernel rings, all packets, faults, resets, knobs.

use std::time::{Duration, Instant};

use crate::common::sdma::{
    copy, hi, lo, poll, Card, GART, RING, TABLE, USER, USER_SIZE, VMID, WORK,
};
use crate::common::{addr, hub_write, init_hdp, FB};
use gpu_model::engines::gmc::Hub;
use gpu_model::gpu::Reset;
use gpu_model::regs::Ip;
use gpu_regs::{
    gc_9_4_3 as gc, mmhub_1_8_0 as mmhub, nbio_7_9_0 as nbio, sdma_4_4_2 as sdma,
    smu as smu_mailbox,
};
use rkfd_abi::{sdma as pkt, smu};

fn pattern(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn vram(card: &Card, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    card.gpu.vram.read(offset, &mut bytes).unwrap();
    bytes
}

#[test]
fn kernel_ring_runs_reports_and_interrupts() {
    let mut card = Card::new();
    for n in 0..4 {
        let to = FB + WORK + 8 * n as u64;
        card.run(n, &[pkt::write::HEADER, lo(to), hi(to), 0, 0xdead_beef]);
        assert_eq!(card.get32(WORK + 8 * n as u64), 0xdead_beef);
        assert_eq!(card.read(n, sdma::regSDMA_GFX_RB_RPTR), card.wptr[n] as u32);
        assert_eq!(card.read(n, sdma::regSDMA_GFX_CONTEXT_STATUS), 4);
    }
    let clients = [8, 9, 1, 4];
    for (found, client) in card.interrupts().iter().zip(clients) {
        assert_eq!(*found, [client, 224, 0, 0, 0]);
    }
    card.assert_clean();
}

#[test]
fn page_queue_is_a_separate_ring() {
    let mut card = Card::new();
    let page = sdma::regSDMA_PAGE_RB_CNTL.off - sdma::regSDMA_GFX_RB_CNTL.off;
    let set = |reg: gpu_regs::Reg, value| card.set(1, reg.at(page), value);
    let (ring, pointers) = (FB + WORK, FB + WORK + 0x8000);
    set(sdma::regSDMA_GFX_RB_BASE, lo(ring >> 8));
    set(sdma::regSDMA_GFX_RB_BASE_HI, hi(ring >> 8));
    set(sdma::regSDMA_GFX_RB_RPTR_ADDR_LO, lo(pointers));
    set(sdma::regSDMA_GFX_RB_RPTR_ADDR_HI, hi(pointers));
    // Its write pointer is polled in memory; it has a doorbell too.
    set(sdma::regSDMA_GFX_RB_WPTR_POLL_ADDR_LO, lo(pointers) + 8);
    set(sdma::regSDMA_GFX_RB_WPTR_POLL_ADDR_HI, hi(pointers));
    set(sdma::regSDMA_GFX_RB_WPTR_POLL_CNTL, 1 << 2);
    set(
        sdma::regSDMA_GFX_DOORBELL_OFFSET,
        (Card::doorbell(1) + 2) << 2,
    );
    set(sdma::regSDMA_GFX_DOORBELL, 1 << 28);
    set(sdma::regSDMA_GFX_RB_CNTL, 10 << 1 | 1 << 12 | 1);
    for (n, word) in [pkt::trap::HEADER, 0x123].iter().enumerate() {
        let at = WORK + n as u64 * 4;
        card.gpu.vram.write(at, &word.to_le_bytes()).unwrap();
        card.gpu.vram.write(at + 8, &word.to_le_bytes()).unwrap();
    }
    card.put64(WORK + 0x8008, 8);
    card.until("first trap", |c| c.get64(WORK + 0x8000) == 8);
    let offset = u64::from(Card::doorbell(1) + 2) * 4;
    card.gpu.doorbell(offset, 16, 8);
    card.until("second trap", |c| c.get64(WORK + 0x8000) == 16);
    assert_eq!(card.interrupts(), [[9, 224, 1, 0, 0x123]; 2]);
    card.finish(1);
    card.assert_clean();
}

#[test]
fn card_reset_stops_engines() {
    let mut card = Card::new();
    for n in 0..4 {
        card.submit(n, &copy(FB + WORK, FB + WORK + (64 << 20), 48 << 20));
        card.submit(n, &poll(FB + WORK, 1));
    }
    card.gpu.reset(Reset::Flr);
    for n in 0..4 {
        assert_eq!(card.read(n, sdma::regSDMA_GFX_RB_CNTL), 0);
        assert_eq!(card.read(n, sdma::regSDMA_GFX_CONTEXT_STATUS), 4);
    }
    card.assert_clean();
}

#[test]
fn packets_wrap_with_the_ring() {
    let mut card = Card::new();
    for round in 0..700u32 {
        let to = FB + WORK + u64::from(round % 64) * 4;
        card.submit(0, &[pkt::write::HEADER, lo(to), hi(to), 0, round]);
        if round % 50 == 49 {
            card.submit(0, &[pkt::nop::HEADER | pkt::nop::COUNT.put(3), 1, 2, 3]);
            card.finish(0);
            assert_eq!(card.get32(WORK + u64::from(round % 64) * 4), round);
        }
    }
    assert!(card.wptr[0] > 3 * RING);
    card.assert_clean();
}

#[test]
fn copies_between_vram_and_gart() {
    let mut card = Card::new();
    let data = pattern(3 << 20, 1);
    card.gpu.vram.write(WORK, &data).unwrap();
    // (source, destination, length): VRAM to GART, within the GART, back; unaligned addresses and
    // sizes.
    for (from, to, len) in [
        (FB + WORK, GART + 0x10_0000, 3 << 20),
        (GART + 0x10_0000, GART + 0x80_0000, 3 << 20),
        (GART + 0x80_0000, FB + WORK + 0x100_0000, 3 << 20),
        (FB + WORK + 0x100_0000 + 5, FB + WORK + 0x200_0003, 70_001),
    ] {
        card.run(1, &copy(from, to, len));
    }
    assert_eq!(vram(&card, WORK + 0x100_0000, data.len()), data);
    assert_eq!(vram(&card, WORK + 0x200_0003, 70_001), data[5..70_006]);
    let [one, two] = [FB + WORK + 0x300_0000, GART + 0x100_0001];
    let mut both = copy(FB + WORK, one, 12_345).to_vec();
    both[0] |= pkt::copy_broadcast::BROADCAST.put(1);
    both.extend([lo(two), hi(two)]);
    card.run(1, &both);
    card.run(1, &copy(two, FB + WORK + 0x310_0000, 12_345));
    assert_eq!(vram(&card, WORK + 0x300_0000, 12_345), data[..12_345]);
    assert_eq!(vram(&card, WORK + 0x310_0000, 12_345), data[..12_345]);
    card.assert_clean();
}

#[test]
fn sub_window_copy() {
    let mut card = Card::new();
    let data = pattern(64 * 64 * 4, 2);
    card.gpu.vram.write(WORK, &data).unwrap();
    use pkt::copy_subwin as p;
    let (src, dst) = (FB + WORK, FB + WORK + 0x10_0000);
    // 4-byte elements; slices of 16 rows of 64; 5 x 3 x 2 at (2, 4, 1) to (1, 0, 0), rows of 8,
    // slices of 4 rows.
    let words = [
        p::HEADER | p::ELEMENTSIZE.put(2),
        lo(src),
        hi(src),
        2 | p::SRC_Y.put(4),
        1 | p::SRC_PITCH.put(63),
        64 * 16 - 1,
        lo(dst),
        hi(dst),
        1,
        p::DST_PITCH.put(7),
        31,
        4 | p::RECT_Y.put(2),
        1,
    ];
    card.run(0, &words);
    for z in 0..2usize {
        for y in 0..3usize {
            let from = ((z + 1) * 1024 + (y + 4) * 64 + 2) * 4;
            let to = WORK + 0x10_0000 + (z as u64 * 32 + y as u64 * 8 + 1) * 4;
            assert_eq!(vram(&card, to, 20), data[from..from + 20]);
            assert_eq!(card.get32(to + 20), 0);
        }
    }
    card.assert_clean();
}

#[test]
fn const_fill_and_ptepde() {
    let mut card = Card::new();
    let to = FB + WORK;
    let dwords = pkt::const_fill::HEADER | pkt::const_fill::FILLSIZE.put(2);
    card.run(0, &[dwords, lo(to), hi(to), 0x1234_5678, (1 << 20) - 1]);
    // The low two bits of the count are ignored: drivers write both forms.
    card.run(0, &[dwords, lo(to + (2 << 20)), hi(to), 7, 16 - 4]);
    assert_eq!(card.get32(WORK), 0x1234_5678);
    assert_eq!(card.get32(WORK + (1 << 20) - 4), 0x1234_5678);
    assert_eq!(card.get32(WORK + (1 << 20)), 0);
    assert_eq!(card.get32(WORK + (2 << 20) + 12), 7);
    assert_eq!(card.get32(WORK + (2 << 20) + 16), 0);
    // Zeros over written and over untouched memory.
    let zeros = FB + WORK + (8 << 20);
    card.run(0, &[dwords, lo(zeros + 0x3000), hi(zeros), 5, 0x5000 - 1]);
    card.run(0, &[dwords, lo(zeros), hi(zeros), 0, 0xa000 - 1]);
    assert_eq!(vram(&card, WORK + (8 << 20), 0xa000), vec![0; 0xa000]);
    let bytes = pkt::const_fill::HEADER;
    card.run(0, &[bytes, lo(to + 1), hi(to), 0x99, 4]);
    assert_eq!(card.get32(WORK), 0x9999_9978);
    assert_eq!(card.get32(WORK + 4), 0x1234_9999);
    let at = FB + WORK + 0x40_0000;
    let (flags, first) = (0x0040_0000_0000_0071, 0x1_2345_6000);
    let words = [
        pkt::ptepde_gen::HEADER,
        lo(at),
        hi(at),
        lo(flags),
        hi(flags),
        lo(first),
        hi(first),
        0x1000,
        0,
        9999,
    ];
    card.run(0, &words);
    for n in [0, 1, 9999] {
        let entry = card.get64(WORK + 0x40_0000 + n * 8);
        assert_eq!(entry, (first + n * 0x1000) | flags);
    }
    assert_eq!(card.get64(WORK + 0x40_0000 + 80_000), 0);
    card.assert_clean();
}

#[test]
fn job_runs_in_its_vmid() {
    let mut card = Card::new();
    let buffer = WORK + 0x20_0000;
    let va = |offset: u64| USER + offset - WORK;
    let mut words = copy(va(WORK + 0x1000), va(WORK + 0x9000), 64).to_vec();
    words.resize(8, pkt::NOP_SINGLE);
    for (n, word) in words.iter().enumerate() {
        card.gpu
            .vram
            .write(buffer + n as u64 * 4, &word.to_le_bytes())
            .unwrap();
    }
    card.put64(WORK + 0x1000, 0x1122_3344_5566_7788);
    card.indirect(0, VMID, va(buffer), 8);
    card.finish(0);
    assert_eq!(card.get64(WORK + 0x9000), 0x1122_3344_5566_7788);
    card.assert_clean();
    // An unmapped address raises an interrupt; the engine continues.
    card.interrupts();
    let bad = copy(va(WORK + 0x1000), 0x30_0000_0000, 64);
    for (n, word) in bad.iter().enumerate() {
        card.gpu
            .vram
            .write(buffer + n as u64 * 4, &word.to_le_bytes())
            .unwrap();
    }
    card.indirect(0, VMID, va(buffer), 8);
    card.finish(0);
    let found = card.interrupts();
    assert_eq!(found[0], [0x12, 0, 0, VMID, 0x300_0000]);
    assert_eq!(found[1][..2], [8, 224]);
    // An unmapped IB reads as NOPs.
    card.indirect(0, VMID, 0x30_0000_0000, 8);
    card.finish(0);
    assert_eq!(card.interrupts()[0][3], VMID);
}

#[test]
fn ring_flushes_tlb_and_hdp() {
    let mut card = Card::new();
    init_hdp(&card.gpu);
    let buffer = WORK + 0x20_0000;
    let other = TABLE + 0x10_0000;
    let move_to = |card: &mut Card, root: u64, flush: bool| {
        let base = mmhub::regVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.at(2 * VMID);
        let mm = |reg| addr(Ip::Mmhub, reg);
        let srbm = |reg: u32, value: u32| [pkt::srbm_write::HEADER | 0xf << 28, reg, value];
        card.write(0, &srbm(mm(base), lo(root)));
        card.write(0, &srbm(mm(base.at(1)), hi(root)));
        if flush {
            let request = 1 << VMID | 0xf << 19;
            card.write(
                0,
                &srbm(mm(mmhub::regVM_INVALIDATE_ENG0_REQ.at(4)), request),
            );
            let ack = mm(mmhub::regVM_INVALIDATE_ENG0_ACK.at(4)) << 2;
            let head = pkt::poll_regmem::HEADER | 3 << 28;
            let bit = 1 << VMID;
            card.write(0, &[head, ack, 0, bit, bit, 0xfff << 16 | 10]);
        }
        card.indirect(0, VMID, USER + 0x20_0000, 8);
        card.finish(0);
    };
    // The second table is shifted by one page, so the IB is one page further.
    for n in 0..USER_SIZE >> 12 {
        card.put64(other + n * 8, (WORK + ((n + 1) << 12)) | 0x71);
    }
    for (page, value) in [(0, 1u32), (0x1000, 2)] {
        let to = USER + 0x3000;
        let words = [pkt::write::HEADER, lo(to), hi(to), 0, value, 0, 0, 0];
        for (n, word) in words.iter().enumerate() {
            let at = buffer + page + n as u64 * 4;
            card.gpu.vram.write(at, &word.to_le_bytes()).unwrap();
        }
    }
    move_to(&mut card, (TABLE + 0x4_0000) | 1, true);
    assert_eq!(card.get32(WORK + 0x3000), 1);
    move_to(&mut card, other | 1, true);
    assert_eq!(card.get32(WORK + 0x4000), 2);
    // HDP flush in the driver's form.
    let nbif = |reg| addr(Ip::Nbif, reg) << 2;
    let head = pkt::poll_regmem::HEADER | 3 << 28 | pkt::poll_regmem::HDP_FLUSH.put(1);
    let done = nbif(nbio::regBIF_BX_PF0_GPU_HDP_FLUSH_DONE);
    let request = nbif(nbio::regBIF_BX_PF0_GPU_HDP_FLUSH_REQ);
    let flush = |bit, mask| [head, done, request, bit, mask, 0xfff << 16 | 10];
    card.run(0, &flush(1 << 10, 1 << 10));
    card.run(1, &flush(1 << 11, 1 << 11));
    // HDP flush of user space: a condition that is always true.
    card.run(0, &[pkt::poll_regmem::HEADER, 0, 0x8000_0000, 0, 0, 0]);
    card.assert_clean();
    // One of another engine, and one that does not wait.
    card.run(0, &flush(1 << 11, 1 << 11));
    card.run(0, &flush(0, 0));
    assert_eq!(card.gpu.strict.unexpected(), 2);
}

#[test]
fn poll_blocks_only_its_ring() {
    let mut card = Card::new();
    card.submit(0, &poll(FB + WORK, 7));
    card.until("selected", |c| {
        c.read(0, sdma::regSDMA_GFX_CONTEXT_STATUS) == 1
    });
    assert_eq!(card.read(0, sdma::regSDMA_STATUS_REG) & 1, 0);
    card.finish(1);
    assert_eq!(card.get32(Card::fence_at(0)), 0);
    card.gpu.vram.write(WORK, &7u32.to_le_bytes()).unwrap();
    card.finish(0);
    // A poll with a retry limit times out with an interrupt.
    card.interrupts();
    let mut limited = poll(FB + WORK, 8);
    limited[5] = 5 << 16;
    card.run(0, &limited);
    assert_eq!(card.interrupts()[0][1], 246);
    card.assert_clean();
}

#[test]
fn cond_exe_atomics_and_timestamps() {
    let mut card = Card::new();
    let at = FB + WORK;
    let write = |to: u64, value| [pkt::write::HEADER, lo(to), hi(to), 0, value];
    card.write(0, &[pkt::cond_exe::HEADER, lo(at), hi(at), 1, 5]);
    card.write(0, &write(at + 8, 1));
    card.write(0, &[pkt::cond_exe::HEADER, lo(at), hi(at), 0, 5]);
    card.write(0, &write(at + 12, 2));
    card.finish(0);
    assert_eq!(card.get64(WORK + 8), 2 << 32);
    let atomic = |op: u32, src: u64, cmp: u64| {
        let head = pkt::atomic::HEADER | pkt::atomic::ATOMIC_OP.put(op);
        let to = at + 16;
        [head, lo(to), hi(to), lo(src), hi(src), lo(cmp), hi(cmp), 0]
    };
    use pkt::atomic_op as op;
    card.run(0, &atomic(op::ADD | op::QUADWORD, u64::MAX, 0));
    assert_eq!(card.get64(WORK + 16), u64::MAX);
    card.run(0, &atomic(op::ADD, 3, 0));
    assert_eq!(card.get64(WORK + 16), 0xffff_ffff_0000_0002);
    let mut swap = atomic(op::CMPSWAP | op::NO_RETURN, 9, 5);
    swap[0] |= pkt::atomic::LOOP.put(1);
    card.submit(0, &swap);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(card.get32(WORK + 16), 2);
    card.gpu.vram.write(WORK + 16, &5u32.to_le_bytes()).unwrap();
    card.finish(0);
    assert_eq!(card.get32(WORK + 16), 9);
    let to = at + 32;
    card.write(0, &[pkt::timestamp_get_global::HEADER, lo(to), hi(to)]);
    card.write(0, &[pkt::timestamp_set::HEADER, 0, 1]);
    card.write(0, &[pkt::timestamp_get::HEADER, lo(to + 8), hi(to)]);
    card.finish(0);
    assert!((1..1 << 32).contains(&card.get64(WORK + 32)));
    assert_eq!(card.get64(WORK + 40) >> 32, 1);
    card.assert_clean();
}

fn reset_engines(card: &Card, mask: u32) -> u32 {
    let mp = |reg| addr(Ip::Mp0, reg);
    card.gpu.reg_write(mp(smu_mailbox::RESPONSE), 0);
    card.gpu.reg_write(mp(smu_mailbox::ARGUMENT), mask);
    card.gpu
        .reg_write(mp(smu_mailbox::MESSAGE), smu::msg::RESET_SDMA);
    card.until("response", |c| {
        c.gpu.reg_read(mp(smu_mailbox::RESPONSE)) != 0
    });
    card.gpu.reg_read(mp(smu_mailbox::RESPONSE))
}

#[test]
fn bad_packet_stops_ring_until_engine_reset() {
    let mut card = Card::new();
    card.submit(2, &[0x55]);
    card.until("strict", |c| !c.gpu.strict.lines().is_empty());
    card.assert_strict(&["engine 2: queue gfx", "unknown packet"]);
    card.until("exception", |c| {
        c.read(2, sdma::regSDMA_GFX_CONTEXT_STATUS) == 0x11
    });
    card.finish(1);
    assert_eq!(reset_engines(&card, 1 << 2), smu::response::OK);
    assert_eq!(card.read(2, sdma::regSDMA_GFX_RB_CNTL), 0);
    assert_eq!(card.read(2, sdma::regSDMA_GFX_RB_WPTR), 0);
    assert_eq!(card.read(2, sdma::regSDMA_GFX_CONTEXT_STATUS), 4);
    assert_ne!(card.read(1, sdma::regSDMA_GFX_RB_CNTL), 0);
    let pointer = card.wptr[2];
    card.start_ring(2, pointer);
    card.finish(2);
    assert_eq!(reset_engines(&card, 1 << 4), smu::response::FAILED);
}

/// Submits an IB of NOPs in VMID 3.
fn empty_job(card: &mut Card, n: usize) {
    card.indirect(n, VMID, USER + 0x8000, 8);
}

#[test]
fn engine_reset_ends_hang() {
    let mut card = Card::new();
    card.gpu.knobs.sdma_hang.set(2);
    empty_job(&mut card, 0);
    card.finish(0);
    empty_job(&mut card, 0);
    let value = card.get32(Card::fence_at(0)) + 1;
    card.fence(0, value);
    card.until("hang", |c| {
        c.read(0, sdma::regSDMA_GFX_CONTEXT_STATUS) & 5 == 1
    });
    std::thread::sleep(Duration::from_millis(20));
    assert_ne!(card.get32(Card::fence_at(0)), value);
    assert_eq!(reset_engines(&card, 1), smu::response::OK);
    card.wptr[0] = 0;
    card.start_ring(0, 0);
    empty_job(&mut card, 0);
    card.finish(0);
    card.assert_clean();
}

#[test]
fn fault_injection_knobs() {
    let mut card = Card::new();
    card.gpu.knobs.sdma_lose_trap.set(3);
    for _ in 0..9 {
        empty_job(&mut card, 0);
        card.finish(0);
    }
    // Traps outside of jobs do not count.
    card.finish(0);
    assert_eq!(card.interrupts().len(), 7);
    card.gpu.knobs.sdma_lose_trap.set(0);
    card.gpu.knobs.sdma_late_fence.set(60);
    empty_job(&mut card, 0);
    let value = card.get32(Card::fence_at(0)) + 1;
    let start = Instant::now();
    card.fence(0, value);
    card.until("trap", |c| {
        c.get64(Card::report(0)) == c.wptr[0] && c.gpu.ih.counts().0 == 8
    });
    card.until("late fence", |c| c.get32(Card::fence_at(0)) == value);
    assert!(start.elapsed() >= Duration::from_millis(60));
    card.gpu.knobs.sdma_late_fence.set(0);
    card.assert_clean();
    card.interrupts();
    card.gpu.knobs.sdma_copy_fault.set(2);
    for (n, word) in copy(USER, USER + 0x1000, 8).iter().enumerate() {
        let at = WORK + 0x8000 + n as u64 * 4;
        card.gpu.vram.write(at, &word.to_le_bytes()).unwrap();
    }
    for value in 1..4 {
        card.put64(WORK, value);
        empty_job(&mut card, 0);
        card.finish(0);
        let copied = if value == 2 { 1 } else { value };
        assert_eq!(card.get64(WORK + 0x1000), copied);
    }
    let faults = |found: &[[u32; 5]]| found.iter().filter(|f| f[0] == 0x12).count();
    assert_eq!(faults(&card.interrupts()), 1);
}

#[test]
fn driver_errors_are_reported() {
    let mut card = Card::new();
    // An IB of a user that writes a register.
    let scratch = addr(Ip::Gc, gc::regSCRATCH_REG0);
    let words = [
        pkt::srbm_write::HEADER | 0xf << 28,
        scratch,
        1,
        0,
        0,
        0,
        0,
        0,
    ];
    for (n, word) in words.iter().enumerate() {
        let at = WORK + 0x8000 + n as u64 * 4;
        card.gpu.vram.write(at, &word.to_le_bytes()).unwrap();
    }
    empty_job(&mut card, 0);
    card.finish(0);
    assert_eq!(card.gpu.reg_read(scratch), 0);
    assert_eq!(card.interrupts()[0][..4], [8, 247, 0, VMID]);
    card.assert_strict(&["a register in an unprivileged buffer"]);
    // A misaligned INDIRECT, a 32-bit doorbell write, a pointer beyond the ring.
    let va = USER + 0x8000;
    card.write(1, &[pkt::NOP_SINGLE]);
    card.submit(1, &[4 | VMID << 16, lo(va), hi(va), 8, 0, 0]);
    card.finish(1);
    card.assert_strict(&["INDIRECT ends at dword"]);
    card.gpu.doorbell(u64::from(Card::doorbell(3)) * 4, 4, 4);
    card.assert_strict(&["of 4 bytes"]);
    card.gpu.doorbell(u64::from(Card::doorbell(3)) * 4, 5000, 8);
    card.until("pointer", |c| {
        c.gpu
            .strict
            .lines()
            .iter()
            .any(|l| l.contains("ring of 0x1000"))
    });
    hub_write(&card.gpu, Hub::Mm(0), gc::regVM_CONTEXT0_CNTL, 0);
    card.set(2, sdma::regSDMA_GFX_RB_BASE, 0);
    card.assert_strict(&["while the ring of queue gfx is enabled"]);
}

#[test]
fn random_packets_do_not_affect_other_rings() {
    let mut card = Card::new();
    let mut state = 7u64;
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % below
    };
    for _ in 0..300 {
        let words: Vec<u32> = (0..64)
            .map(|_| match next(4) {
                // A header, a reachable address, a small number, anything.
                0 => next(18) as u32 | (next(5) as u32) << 8 | (next(16) as u32) << 26,
                1 => USER as u32 + next(0x10_0000) as u32,
                2 => next(0x40) as u32,
                _ => next(1 << 32) as u32,
            })
            .collect();
        for (n, word) in words.iter().enumerate() {
            let at = WORK + 0x8000 + n as u64 * 4;
            card.gpu.vram.write(at, &word.to_le_bytes()).unwrap();
        }
        card.indirect(0, VMID, USER + 0x8000, 64);
        let value = card.get32(Card::fence_at(0)).wrapping_add(1);
        card.fence(0, value);
        let since = Instant::now();
        while card.get32(Card::fence_at(0)) != value {
            if since.elapsed() > Duration::from_millis(20) {
                assert_eq!(reset_engines(&card, 1), smu::response::OK);
                card.wptr[0] = 0;
                card.start_ring(0, 0);
                break;
            }
        }
        card.interrupts();
    }
    card.finish(0);
    card.finish(1);
}

#[test]
fn large_copy_and_fill_speed() {
    let mut card = Card::new();
    let len = 64u32 << 20;
    // The first copy makes the host allocate the pages.
    card.run(0, &copy(FB + WORK, FB + WORK + u64::from(len), len));
    let start = Instant::now();
    for _ in 0..8 {
        card.run(0, &copy(FB + WORK, FB + WORK + u64::from(len), len));
    }
    let copied = 8.0 * f64::from(len) / start.elapsed().as_secs_f64();
    let dwords = pkt::const_fill::HEADER | pkt::const_fill::FILLSIZE.put(2);
    let start = Instant::now();
    for _ in 0..8 {
        let to = FB + WORK;
        card.run(0, &[dwords, lo(to), hi(to), 1, len - 1]);
    }
    let filled = 8.0 * f64::from(len) / start.elapsed().as_secs_f64();
    println!(
        "copy {:.2} GB/s, fill {:.2} GB/s",
        copied / 1e9,
        filled / 1e9
    );
    card.assert_clean();
}
