// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queues over the 8 XCCs of a partition: a KIQ on each, one HIQ, runlists with an MQD per XCC.

mod bench;

use std::time::Duration;

use gpu_model::engines::gmc::Hub;
use gpu_model::gpu::Reset;
use gpu_model::knobs::Knobs;
use gpu_regs::{gc_9_4_3 as gc, Reg};
use rkfd_abi::aql::queue as amd_queue;
use rkfd_abi::mqd::v9::{dw, Mqd};
use rkfd_abi::mqd::v9_sdma::SdmaMqd;
use rkfd_abi::pm4::{self, op};

use self::bench::*;
use crate::common::process::{words, Process, CODE, DOORBELL, KERNARG, QUEUE, RING, RPTR, WPTR};

/// Returns the XCCs of workgroups that are distributed in chunks from XCC 6 on.
fn distributed(groups: u32, chunk: u32) -> Vec<u32> {
    (0..groups).map(|n| (n / chunk + 6) % 8).collect()
}

#[test]
fn workgroups_are_distributed_over_all_xccs() {
    with_hiq(|bench| {
        bench.run_list(false);
        bench.dispatch(20);
        bench.until("signal", |b| b.signal() != 1);
        assert_eq!(bench.xccs_of(20), distributed(20, 1));
        // One completion, one update of the read index.
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(bench.signal(), 0);
        bench.until("read index", |b| b.user64(RPTR) == 1);
        bench.unmap_all();
        for xcc in XCCS {
            assert_eq!(bench.mqd(MQD, xcc, dw::cp_hqd_pq_rptr), 16);
        }
        bench.put_aql(|_, mqd| {
            mqd.compute_tg_chunk_size = 3;
            (mqd.cp_hqd_pq_rptr, mqd.cp_hqd_pq_wptr_lo) = (16, 16);
        });
        bench.run_list(false);
        bench.dispatch(20);
        bench.until("signal", |b| b.signal() == 0);
        assert_eq!(bench.xccs_of(20), distributed(20, 3));
        bench.assert_clean();
    });
}

#[test]
fn vmids_of_a_process_differ_by_xcc() {
    with_hiq(|bench| {
        // Only XCC 0 maps queues of SDMA engine 0. The MQD has no ring: the VMID is assigned all
        // the same.
        let mut mqd = SdmaMqd::zeroed();
        mqd.sdmax_rlcx_doorbell_offset = SDMA_DOORBELL << 2;
        bench.put(SDMA_MQD, mqd.dwords());
        bench.run_list(true);
        bench.dispatch(16);
        bench.until("signal", |b| b.signal() == 0);
        assert_eq!(bench.xccs_of(16), distributed(16, 1));
        let root = |xcc, vmid| bench.gpu.gmc.root(Hub::Gfx(xcc), vmid);
        assert_eq!((root(0, 3), root(0, 4)), (OTHER_TABLES | 1, TABLES | 1));
        for xcc in 1..8 {
            assert_eq!((root(xcc, 3), root(xcc, 4)), (TABLES | 1, 0));
        }
        let lines = bench.gpu.strict.lines();
        assert!(lines.iter().all(|l| l.contains("SDMA MQD")), "{lines:#?}");
    });
}

#[test]
fn pm4_runs_on_its_target_only() {
    with_hiq(|bench| {
        const TARGET: u32 = 5;
        bench.put_queue(|_, mqd| {
            mqd.cp_hqd_pq_control = 8;
            mqd.pm4_target_xcc_in_xcp = TARGET;
        });
        let set = |reg: Reg, values: &[u32]| {
            let header = pm4::header(op::SET_SH_REG, 1 + values.len() as u32);
            let start = 0x2000 + reg.off - pm4::set_sh_reg::START;
            [&[header, start], values].concat()
        };
        let entry = words((CODE + 256) >> 8);
        let (counter, fence) = (words(COUNTER), words(USER_FENCE));
        let add = |value: u32| {
            let head = [pm4::header(op::ATOMIC_MEM, 8), 0x2f];
            [&head[..], &counter, &[value, 0, 0, 0, 0]].concat()
        };
        let pred_exec = |xccs: u32| {
            use pm4::pred_exec as pe;
            let select = pe::VIRTUAL_XCC_ID_SELECT.put(xccs & 0xff);
            let length = add(0).len() as u32;
            vec![pe::PACKET.header(), pe::EXEC_COUNT.put(length) | select]
        };
        let ring = [
            set(gc::regCOMPUTE_NUM_THREAD_X, &[64, 1, 1]),
            set(gc::regCOMPUTE_PGM_LO, &entry),
            set(gc::regCOMPUTE_PGM_RSRC1, &[1 | 2 << 6, 2 << 1 | 1 << 7]),
            set(gc::regCOMPUTE_PGM_RSRC3, &[3]),
            set(gc::regCOMPUTE_USER_DATA_0, &words(KERNARG)),
            vec![pm4::header(op::DISPATCH_DIRECT, 4), 10, 1, 1, 1],
            // Executed on all XCCs but the target, and on the target.
            pred_exec(!(1 << TARGET)),
            add(0x100),
            pred_exec(1 << TARGET),
            add(1),
            vec![
                pm4::header(op::RELEASE_MEM, 7),
                0x14 | 5 << 8,
                1 << 29,
                fence[0],
                fence[1],
                1,
                0,
                0,
            ],
        ]
        .concat();
        bench.user(RING, &ring);
        bench.user(WPTR, &[ring.len() as u32, 0]);
        bench.user(GATE, &[0]);
        bench.run_list(false);
        // The queue is mapped again while its workgroups wait.
        bench.until_started(10);
        bench.unmap_all();
        for xcc in XCCS {
            let saved = bench.mqd(MQD, xcc, dw::compute_wave_restore_control);
            assert_eq!(saved, u32::from(u32::from(xcc) == TARGET));
        }
        bench.run_list(false);
        bench.user(GATE, &[1]);
        bench.until("fence", |b| b.user64(USER_FENCE) == 1);
        assert_eq!(bench.xccs_of(10), [TARGET; 10]);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(bench.user64(COUNTER), 1);
        bench.assert_clean();
    });
}

#[test]
fn preempted_waves_are_saved_on_each_xcc() {
    with_hiq(|bench| {
        bench.run_waiting();
        bench.unmap_all();
        for xcc in XCCS {
            assert_eq!(bench.mqd(MQD, xcc, dw::cp_hqd_active), 0);
            assert_eq!(bench.mqd(MQD, xcc, dw::compute_wave_restore_control), 1);
            let stack = bench.mqd(MQD, xcc, dw::cp_hqd_cntl_stack_offset);
            assert!(u64::from(stack) < STACK, "XCC {xcc}: {stack:#x}");
            let record = SAVE + u64::from(xcc) * SAVE_SIZE + STACK;
            assert_ne!(bench.user64(record), 0);
        }
        // Nothing runs.
        bench.user(GATE, &[1]);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(bench.xccs_of(16), [!0; 16]);
        bench.run_list(false);
        bench.until("signal", |b| b.signal() == 0);
        assert_eq!(bench.xccs_of(16), distributed(16, 1));
        bench.unmap_all();
        for xcc in XCCS {
            assert_eq!(bench.mqd(MQD, xcc, dw::compute_wave_restore_control), 0);
        }
        bench.assert_clean();
    });
}

#[test]
fn each_xcc_checks_its_save_area() {
    with_hiq(|bench| {
        bench.run_waiting();
        bench.unmap_all();
        let stack = bench.mqd(MQD, 3, dw::cp_hqd_cntl_stack_offset);
        bench.put(MQD + 3 * PART + 0x1000 + u64::from(stack), &[0, 0]);
        bench.run_list(false);
        bench.until("report", |b| !b.gpu.strict.lines().is_empty());
        let line = bench.gpu.strict.lines()[0].clone();
        assert!(line.contains("was overwritten"), "{line}");
        bench.user(GATE, &[1]);
    });
}

#[test]
fn failed_preemption_is_in_each_hiq_mqd() {
    let knobs = Knobs::default();
    knobs.hws_no_preempt.set(2);
    with_bench(knobs, |bench| {
        bench.map_hiq(XCCS);
        bench.set_resources(1);
        bench.run_waiting();
        bench.unmap_all();
        for xcc in XCCS {
            let failed = bench.mqd(HIQ_MQD, xcc, dw::queue_doorbell_id0);
            assert_eq!(failed, DOORBELL);
        }
        // It runs on.
        bench.user(GATE, &[1]);
        bench.until("signal", |b| b.signal() == 0);
        bench.assert_clean();
    });
}

/// Only the XCC of the knob has waves that are not preempted. The queue leaves it by a reset, which
/// drops its waves there.
#[test]
fn stuck_waves_of_one_xcc_are_in_its_hiq_mqd() {
    // An XCC other than the first, and the first, which executes the packets.
    for stuck in [3, 0] {
        let knobs = Knobs::default();
        knobs.hws_stuck_xcc.set(stuck + 1);
        with_bench(knobs, |bench| {
            bench.map_hiq(XCCS);
            bench.set_resources(LATENCY);
            bench.run_waiting();
            bench.unmap_all();
            // Without the first XCC the others do not unmap the queue either.
            for xcc in XCCS {
                let held = stuck == 0 || stuck == u64::from(xcc);
                let failed = bench.mqd(HIQ_MQD, xcc, dw::queue_doorbell_id0);
                assert_eq!(failed, if held { DOORBELL } else { 0 }, "XCC {xcc}");
                bench.select_queue(xcc);
                assert_eq!(bench.active(xcc), u32::from(held), "XCC {xcc}");
                bench.reset_queue(xcc);
            }
            for xcc in XCCS {
                bench.until("reset", |b| b.active(xcc) == 0);
                let saved = bench.mqd(MQD, xcc, dw::compute_wave_restore_control);
                let kept = stuck != 0 && stuck != u64::from(xcc);
                assert_eq!(saved, u32::from(kept), "XCC {xcc}");
            }
            assert!(bench.gpu.knobs.hws_stuck_xcc.hits() > 0);
            bench.assert_clean();
        });
    }
}

/// A queue without waves on the XCC of the knob is preempted.
#[test]
fn queues_without_stuck_waves_are_preempted() {
    let knobs = Knobs::default();
    knobs.hws_stuck_xcc.set(4);
    with_bench(knobs, |bench| {
        bench.map_hiq(XCCS);
        bench.set_resources(PATIENT);
        bench.user(GATE, &[0]);
        bench.run_list(false);
        // On XCCs 6 to 2.
        bench.dispatch(5);
        bench.until_started(5);
        bench.unmap_all();
        assert_eq!(bench.gpu.knobs.hws_stuck_xcc.hits(), 0);
        bench.assert_clean();
    });
}

/// The fence of the other XCCs waits for the one that does not preempt.
#[test]
fn one_xcc_without_preemption_stops_the_hiq() {
    let knobs = Knobs::default();
    knobs.hws_hang_xcc.set(8);
    with_bench(knobs, |bench| {
        bench.map_hiq(XCCS);
        bench.set_resources(LATENCY);
        bench.run_list(false);
        bench.fence();
        bench.hiq(&[pm4::unmap_queues::PACKET.header(), 3 << 4, 0, 0, 0, 0]);
        bench.query(100);
        for xcc in 0..7 {
            bench.select_queue(xcc);
            bench.until("unmapped", |b| b.active(xcc) == 0);
        }
        // More than the unmap latency.
        std::thread::sleep(Duration::from_millis(5200));
        bench.select_queue(7);
        assert_eq!((bench.active(7), bench.fence_is(100)), (1, false));
        assert!(bench.gpu.knobs.hws_hang_xcc.hits() > 0);
        bench.assert_clean();
    });
}

/// A register write unmaps the queue on one XCC while its workgroups run on all.
#[test]
fn reset_of_one_xcc_stops_the_queue() {
    with_hiq(|bench| {
        bench.run_waiting();
        bench.select_queue(4);
        assert_eq!(bench.active(4), 1);
        bench.reset_queue(4);
        bench.until("reset", |b| b.active(4) == 0);
        bench.user(GATE, &[1]);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!((bench.signal(), bench.xccs_of(16)), (1, vec![!0; 16]));
        bench.unmap_all();
        // Waves of the other XCCs are not saved either: the dispatch starts again from its packet.
        for xcc in XCCS {
            assert_eq!(bench.mqd(MQD, xcc, dw::compute_wave_restore_control), 0);
        }
        bench.run_list(false);
        bench.until("signal", |b| b.signal() == 0);
        assert_eq!(bench.xccs_of(16), distributed(16, 1));
        bench.unmap_all();
        bench.assert_clean();
    });
}

/// The same while the first XCC waits for the end of the workgroups.
#[test]
fn reset_of_one_xcc_ends_a_drain() {
    with_hiq(|bench| {
        bench.run_waiting();
        bench.select_queue(0);
        bench.reg(0, gc::regCP_HQD_DEQUEUE_REQUEST, 1);
        bench.select_queue(4);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!((bench.active(0), bench.active(4)), (1, 1));
        bench.reset_queue(4);
        bench.until("reset", |b| b.active(4) == 0);
        bench.until("drained", |b| b.active(0) == 0);
        bench.user(GATE, &[1]);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!((bench.signal(), bench.xccs_of(16)), (1, vec![!0; 16]));
        bench.assert_clean();
    });
}

/// Waves use the registers of the VMID on their XCC.
#[test]
fn apertures_are_those_of_each_xcc() {
    with_hiq(|bench| {
        // s_mov_b64 s[8:9], src_shared_base; s_mov_b32 s3, s9
        bench.user(CODE + 256 + 8, &[0xbe88_01eb, 0xbe83_0009]);
        bench.run_list(false);
        bench.fence();
        for xcc in XCCS {
            bench.reg(xcc, gc::regGRBM_GFX_CNTL, gc::GRBM_GFX_CNTL__VMID.put(3));
            let shared = gc::SH_MEM_BASES__SHARED_BASE.put(0x100 + u32::from(xcc));
            bench.reg(xcc, gc::regSH_MEM_BASES, shared);
        }
        bench.dispatch(16);
        bench.until("signal", |b| b.signal() == 0);
        let apertures = distributed(16, 1).into_iter();
        let apertures = apertures.map(|xcc| ((0x100 + xcc) << 16) - 1);
        assert_eq!(bench.xccs_of(16), apertures.collect::<Vec<_>>());
        bench.assert_clean();
    });
}

const SCRATCH: u64 = SAVE + 8 * SAVE_SIZE;
/// Scratch of a wave in bytes.
const WAVE: u64 = 64 * 64;

/// Assigns scratch for `waves` waves on each XCC to the queue.
fn assign_scratch(bench: &Bench, waves: u64) {
    let field = |at: usize, value| bench.user(QUEUE + at as u64, &[value]);
    field(amd_queue::SCRATCH_WAVE64_LANE_BYTE_SIZE, 64);
    let size = waves as u32 | (WAVE as u32 >> 10) << 12;
    field(amd_queue::COMPUTE_TMPRING_SIZE, size);
    let at = amd_queue::SCRATCH_BACKING_MEMORY_LOCATION as u64;
    bench.user(QUEUE + at, &words(SCRATCH));
    bench.user(CODE + 4, &[64]);
    // SCRATCH_EN.
    bench.user(CODE + 13 * 4, &[1 | 2 << 1 | 1 << 7]);
}

/// Two waves run on each XCC, not two on all.
#[test]
fn scratch_limits_the_waves_of_each_xcc() {
    with_hiq(|bench| {
        assign_scratch(bench, 2);
        bench.user(GATE, &[0]);
        bench.run_list(false);
        bench.put_scratch_dispatch(0, 64, 24 * 64, 64);
        bench.until_started(16);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(bench.user64(STARTED + 16 * 4), 0);
        bench.user(GATE, &[1]);
        bench.until("signal", |b| b.signal() == 0);
        assert_eq!(bench.xccs_of(24), distributed(24, 1));
        bench.assert_clean();
    });
}

/// Each XCC has a part of a queue's scratch.
#[test]
fn scratch_of_each_xcc() {
    const WAVES: u64 = 4;
    with_hiq(|bench| {
        assign_scratch(bench, WAVES);
        // The last store: scratch_store_dword off, v1, off
        bench.user(CODE + 256 + 15 * 4, &[0xdc70_4000, 0x007f_0100]);
        bench.run_list(false);
        bench.put_scratch_dispatch(0, 64, 16 * 64, 64);
        bench.until("signal", |b| b.signal() == 0);
        for (wave, xcc) in (0..).zip(distributed(16, 1)) {
            let part = u64::from(xcc) * WAVES * WAVE;
            let found = bench.user64(SCRATCH + part + wave / 8 % WAVES * WAVE) as u32;
            assert_eq!(found, xcc + 1, "wave {wave}");
        }
        bench.assert_clean();
    });
}

#[test]
fn hiq_fence_follows_all_xccs() {
    with_hiq(|bench| {
        const SLOW: u8 = 3;
        bench.query(99);
        bench.until("fence", |b| b.fence_is(99));
        let halts = gc::CP_MEC_CNTL__MEC_ME1_HALT.mask | gc::CP_MEC_CNTL__MEC_ME2_HALT.mask;
        let mask = gc::RLC_CNTL__RLC_ENABLE_F32.mask;
        bench.reg(SLOW, gc::regRLC_CNTL, mask);
        bench.reg(SLOW, gc::regCP_MEC_CNTL, halts);
        bench.until("read pointer", |b| b.get(HIQ_RPTR) == b.hiq_wptr);
        let before = bench.hiq_wptr;
        bench.query(100);
        std::thread::sleep(Duration::from_millis(50));
        assert!(bench.fence_is(99));
        assert_eq!(bench.get(HIQ_RPTR), before);
        bench.reg(SLOW, gc::regCP_MEC_CNTL, 0);
        bench.gpu.rescan();
        bench.until("fence", |b| b.fence_is(100));
        bench.until("read pointer", |b| b.get(HIQ_RPTR) == b.hiq_wptr);
        bench.assert_clean();
    });
}

fn reports(bench: &Bench, text: &str) -> bool {
    bench.gpu.strict.lines().iter().any(|l| l.contains(text))
}

/// Changes of the MQDs that a driver must not make, and the report.
#[test]
fn mqds_that_disagree_are_reported() {
    type Change = fn(u8, &mut Mqd);
    let changes: [(Change, &str); 5] = [
        (
            |xcc, mqd| mqd.cp_hqd_pq_base_lo += u32::from(xcc == 2),
            "others CommonFields",
        ),
        (
            |_, mqd| mqd.compute_current_logic_xcc_id = 1,
            "XCC 1 of 8 does not exist or is taken",
        ),
        (
            |xcc, mqd| mqd.compute_current_logic_xcc_id += u32::from(xcc == 0) * 8,
            "XCC 10 of 8 does not exist or is taken",
        ),
        (
            |_, mqd| mqd.cp_hqd_pq_control &= !gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.mask,
            "MQD 0x8000152000 of XCC 1 of 8: NO_UPDATE_RPTR",
        ),
        (
            |_, mqd| mqd.compute_tg_chunk_size = 0,
            "compute_tg_chunk_size is 0",
        ),
    ];
    for (change, text) in changes {
        with_hiq(|bench| {
            bench.put_aql(change);
            bench.run_list(false);
            bench.until(text, |b| reports(b, text));
        });
    }
}

#[test]
fn hiq_on_some_xccs_is_reported() {
    with_bench(Knobs::default(), |bench| {
        bench.map_hiq(0..7);
        bench.set_resources(PATIENT);
        bench.query(100);
        bench.until("report", |b| reports(b, "not mapped on all"));
        bench.map_hiq(7..8);
        bench.until("fence", |b| b.fence_is(100));
        assert_eq!(bench.gpu.strict.unexpected(), 1);
    });
}

#[test]
fn hiqs_that_disagree_are_reported() {
    with_bench(Knobs::default(), |bench| {
        let keep = gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.mask;
        bench.put_hiq(|xcc, mqd| {
            if xcc == 4 {
                mqd.cp_hqd_pq_control &= !keep;
            }
            mqd.cp_mqd_stride_size += u32::from(xcc == 5);
        });
        bench.map_hiq(XCCS);
        let text = "of XCC 4 of 8: NO_UPDATE_RPTR";
        bench.until(text, |b| reports(b, text));
        // By XCC 5, or by the others if it was the first to map the HIQ.
        let text = "of 8: first MQD";
        bench.until(text, |b| reports(b, text));
    });
}

#[test]
fn partitions_that_disagree_are_reported() {
    with_bench(Knobs::default(), |bench| {
        let value =
            gc::CP_HYP_XCP_CTL__NUM_XCC_IN_XCP.put(8) | gc::CP_HYP_XCP_CTL__VIRTUAL_XCC_ID.put(1);
        bench.reg(2, gc::regCP_HYP_XCP_CTL, value);
        bench.map_hiq(0..1);
        let text = "CP_HYP_XCP_CTL of the XCCs disagree";
        bench.until(text, |b| reports(b, text));
    });
}

/// Sets `CP_HYP_XCP_CTL` of all XCCs to partitions of `size`, as the PSP does.
fn partition(bench: &Bench, size: u32) {
    for xcc in XCCS {
        let value = gc::CP_HYP_XCP_CTL__NUM_XCC_IN_XCP.put(size)
            | gc::CP_HYP_XCP_CTL__VIRTUAL_XCC_ID.put(u32::from(xcc) % size);
        bench.reg(xcc, gc::regCP_HYP_XCP_CTL, value);
    }
}

#[test]
fn partitions_without_the_psp_are_reported() {
    with_bench(Knobs::default(), |bench| {
        partition(bench, 2);
        bench.map_hiq(XCCS);
        let text = "or with the mode of the PSP";
        bench.until(text, |b| reports(b, text));
    });
}

#[test]
fn hiq_in_a_mode_that_spans_memory_partitions_is_reported() {
    with_bench(Knobs::default(), |bench| {
        assert!(bench.gpu.memory.request(&bench.gpu, 4));
        bench.gpu.memory.reset(&bench.gpu, Reset::Mode1);
        bench.map_hiq(XCCS);
        let text = "1 compute partitions in mode NPS4";
        bench.until(text, |b| reports(b, text));
    });
}

#[test]
fn runlist_in_another_partition_is_reported() {
    with_hiq(|bench| {
        bench.fence();
        partition(bench, 4);
        bench.run_list(false);
        let text = "mapped for XCCs [0, 1, 2, 3, 4, 5, 6, 7], in partition";
        bench.until(text, |b| reports(b, text));
    });
}

/// In mode CPX two partitions share the memory hub of an AID.
#[test]
fn vmids_of_two_partitions_on_an_aid_are_reported() {
    with_bench(Knobs::default(), |bench| {
        partition(bench, 1);
        bench.set_mode(4);
        // Packets of the one ring reach both.
        bench.map_hiq(1..3);
        bench.set_resources(PATIENT);
        bench.until("resources", |b| {
            b.gpu.shared.schedulers() == [(1, 0xfff8), (2, 0xfff8)]
        });
        bench.assert_clean();
        bench.map_hiq(3..4);
        let text = "VMID mask 0xfff8 of XCC 3, 0xfff8 of XCC 2 in another partition";
        bench.until(text, |b| reports(b, text));
    });
}

#[test]
fn hiq_is_known_until_it_is_unmapped() {
    use pm4::unmap_queues as uq;
    with_hiq(|bench| {
        bench.fence();
        let all: Vec<_> = XCCS.map(|xcc| (xcc, 0xfff8)).collect();
        assert_eq!(bench.gpu.shared.schedulers(), all);
        for xcc in XCCS {
            let what = uq::ACTION.put(uq::ACTION_RESET) | uq::NUM_QUEUES.put(1);
            let doorbell = uq::DOORBELL_OFFSET0.put(HIQ_DOORBELL);
            bench.kiq(xcc, &[uq::PACKET.header(), what, doorbell, 0, 0, 0]);
        }
        bench.until("unmapped", |b| b.gpu.shared.schedulers().is_empty());
        bench.assert_clean();
    });
}
