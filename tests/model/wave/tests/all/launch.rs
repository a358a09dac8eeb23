// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Launch ABI, initial wave state, interruption, threads, messages, invalid dispatches.

use crate::common;
use crate::common::place::{CODE, DATA, KERNARG, PACKET, QUEUE, SCRATCH};
use crate::common::{llvm, Machine, Ram, Recorder};
use gpu_wave::abi::{AbiError, KernelDescriptor, Launch};
use gpu_wave::{run_workgroup, Dispatch, Host, Isa, Message, Scratch, Stop, Workgroup};
use std::sync::atomic::Ordering;

/// Returns memory with code at its start.
fn ram(asm: &str) -> Ram {
    let ram = Ram::new(CODE, 0x100_0000);
    ram.put_u32(CODE, &llvm::assemble(asm));
    ram
}

/// One workgroup of 64, 24 VGPRs, 32 SGPRs, no user SGPRs.
fn dispatch() -> Dispatch {
    Dispatch {
        grid: [64, 1, 1],
        workgroup: [64, 1, 1],
        entry: CODE,
        rsrc1: 2 | 2 << 6,
        rsrc3: 5,
        ..Dispatch::default()
    }
}

fn run(ram: &Ram, d: &Dispatch) -> Result<(), Stop> {
    run_workgroup(ram, &Recorder::default(), d, [0, 0, 0])
}

/// Writes a kernel descriptor at the start of the data, with its code at `CODE`.
fn descriptor(rsrc2: u32, properties: u16, preload: u16) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[16..24].copy_from_slice(&(CODE as i64 - DATA as i64).to_le_bytes());
    bytes[44..48].copy_from_slice(&5u32.to_le_bytes());
    bytes[48..52].copy_from_slice(&(2u32 | 2 << 6).to_le_bytes());
    bytes[52..56].copy_from_slice(&rsrc2.to_le_bytes());
    bytes[56..58].copy_from_slice(&properties.to_le_bytes());
    bytes[58..60].copy_from_slice(&preload.to_le_bytes());
    bytes
}

fn launch() -> Launch {
    Launch {
        kernel_object: DATA,
        grid: [100, 6, 2],
        workgroup: [40, 3, 1],
        group_segment_size: 100,
        private_segment_size: 40,
        kernarg: KERNARG,
        packet: PACKET,
        queue: QUEUE,
        dispatch_id: 0x1_0000_0007,
        scratch_descriptor: [1, 2, 3, 4],
        scratch: Scratch {
            base: SCRATCH,
            wave_stride: 3072,
            slots: 4,
        },
        ..Launch::default()
    }
}

#[test]
fn user_sgprs_in_abi_order() {
    let memory = Ram::new(CODE, 0x100_0000);
    memory.put_u32(KERNARG, &[10, 11, 12, 13, 14]);
    // All of them: buffer, dispatch, queue, kernarg, id, private size = 13, and 3 preloaded.
    let kd = KernelDescriptor::parse(&descriptor(16 << 1, 0x5f, 3 | 1 << 7)).unwrap();
    let d = launch().dispatch(&kd, &memory).unwrap();
    let low_high = |v: u64| [v as u32, (v >> 32) as u32];
    let mut want = vec![1, 2, 3, 4];
    for pointer in [PACKET, QUEUE, KERNARG, 0x1_0000_0007] {
        want.extend(low_high(pointer));
    }
    want.extend([40, 11, 12, 13]);
    assert_eq!(d.user_sgprs, want);
    assert_eq!(d.entry, CODE + 256, "kernarg preload prologue not skipped");
    assert_eq!(d.lds_bytes, 512);
    assert_eq!(d.workgroups(), [3, 2, 2]);
    assert_eq!(d.workgroup_extent([2, 1, 0]).unwrap(), [20, 3, 1]);
}

#[test]
fn invalid_launches_are_refused() {
    let memory = Ram::new(CODE, 0x100_0000);
    let kd = |rsrc2, properties| KernelDescriptor::parse(&descriptor(rsrc2, properties, 0));
    let good = kd(2 << 1, 8).unwrap();
    assert!(launch().dispatch(&good, &memory).is_ok());
    let refused =
        |launch: Launch, kd: &KernelDescriptor, what: &str| match launch.dispatch(kd, &memory) {
            Err(AbiError::Invalid(reason)) => {
                assert!(reason.to_string().contains(what), "{reason}");
            }
            other => panic!("{what}: {other:?}"),
        };
    refused(
        Launch {
            workgroup: [0, 1, 1],
            ..launch()
        },
        &good,
        "workgroup",
    );
    refused(
        Launch {
            workgroup: [512, 3, 1],
            ..launch()
        },
        &good,
        "workgroup",
    );
    refused(
        Launch {
            grid: [1, 0, 1],
            ..launch()
        },
        &good,
        "grid",
    );
    refused(
        Launch {
            group_segment_size: 70_000,
            ..launch()
        },
        &good,
        "group segment",
    );
    refused(
        Launch {
            private_segment_size: 400,
            ..launch()
        },
        &good,
        "scratch",
    );
    refused(
        Launch {
            kernel_object: DATA + 8,
            ..launch()
        },
        &good,
        "aligned",
    );
    refused(launch(), &kd(3 << 1, 8).unwrap(), "user SGPRs");
    refused(launch(), &kd(2 << 1, 0x20).unwrap(), "FLAT_SCRATCH_INIT");
    refused(launch(), &kd(2 << 1, 1 << 10).unwrap(), "properties 0x400");
    let rdna = |rsrc2, properties, preload, text: &str| {
        let kd = KernelDescriptor::parse(&descriptor(rsrc2, properties, preload)).unwrap();
        let isa = Isa::Gfx1201;
        refused(Launch { isa, ..launch() }, &kd, text);
    };
    rdna(6 << 1, 1, 0, "properties 0x1 on gfx1201");
    rdna(2 << 1 | 1 << 10, 8, 0, "workgroup info");
    rdna(3 << 1, 8, 1, "preloaded");
    let unreadable = Launch {
        kernarg: 0x1000,
        ..launch()
    };
    let preload = KernelDescriptor::parse(&descriptor(3 << 1, 8, 1)).unwrap();
    assert!(matches!(
        unreadable.dispatch(&preload, &memory),
        Err(AbiError::Fault(_))
    ));
}

#[test]
fn initial_workgroup_and_work_item_ids() {
    // Stores v0, s[0:3] and exec of each wave to its own slot.
    let asm = "v_mov_b32 v1, v0\n s_mov_b64 s[8:9], exec\n s_mov_b64 exec, -1\n\
        v_mbcnt_lo_u32_b32 v2, -1, 0\n v_mbcnt_hi_u32_b32 v2, -1, v2\n\
        s_and_b32 s10, s3, 63\n v_readfirstlane_b32 s11, v0\n\
        v_mov_b32 v3, v2\n v_lshlrev_b32 v3, 2, v3\n\
        s_mov_b32 s12, DATA_LO\n s_mov_b32 s13, DATA_HI\n\
        s_lshr_b32 s14, s3, 31\n s_xor_b32 s14, s14, 1\n s_lshl_b32 s14, s14, 9\n\
        v_add_u32 v3, s14, v3\n global_store_dword v3, v1, s[12:13]\n\
        v_mov_b32 v4, s8\n v_mov_b32 v5, s9\n v_mov_b32 v6, s10\n v_mov_b32 v7, s0\n\
        v_mov_b32 v3, s14\n global_store_dwordx4 v3, v[4:7], s[12:13] offset:256\n\
        v_mov_b32 v4, s1\n v_mov_b32 v5, s2\n\
        global_store_dwordx2 v3, v[4:5], s[12:13] offset:272\n s_endpgm\n"
        .replace("DATA_LO", &format!("{:#x}", DATA as u32))
        .replace("DATA_HI", &format!("{:#x}", DATA >> 32));
    let ram = ram(&asm);
    let mut d = dispatch();
    d.grid = [19, 5, 7];
    d.workgroup = [6, 5, 4];
    // Workgroup ids, workgroup info, all three work-item ids.
    d.rsrc2 = 0xf << 7 | 2 << 11;
    // Last workgroup in x and z: 1 x 5 x 3 work-items.
    run_workgroup(&ram, &Recorder::default(), &d, [3, 0, 1]).unwrap();
    let ids = ram.get_u32(DATA, 15);
    for (n, id) in (0u32..).zip(ids) {
        assert_eq!(id, n % 5 << 10 | n / 5 << 20, "work-item {n}");
    }
    assert_eq!(ram.get_u32(DATA + 256, 6), [0x7fff, 0, 1, 3, 0, 1]);
    // A full workgroup: 120 work-items in two waves.
    run_workgroup(&ram, &Recorder::default(), &d, [0, 0, 0]).unwrap();
    for (n, id) in (0u32..).zip(ram.get_u32(DATA, 64)) {
        assert_eq!(id, n % 6 | n / 6 % 5 << 10 | n / 30 << 20, "work-item {n}");
    }
    for (n, id) in (64u32..).zip(ram.get_u32(DATA + 512, 56)) {
        assert_eq!(id, n % 6 | n / 6 % 5 << 10 | n / 30 << 20, "work-item {n}");
    }
    assert_eq!(
        ram.get_u32(DATA + 512 + 256, 4),
        [u32::MAX, 0xff_ffff, 2, 0]
    );
}

/// Polls until the dword at DATA is 1.
fn waiting() -> String {
    format!(
        "s_mov_b32 s0, {:#x}\n s_mov_b32 s1, {:#x}\n s_load_dword s2, s[0:1], 0\n\
         s_waitcnt lgkmcnt(0)\n s_cmp_lg_u32 s2, 1\n s_cbranch_scc1 -5\n s_endpgm\n",
        DATA as u32,
        DATA >> 32
    )
}

#[test]
fn interrupted_workgroup_resumes() {
    let ram = ram(&waiting());
    let d = dispatch();
    let mut workgroup = Workgroup::new(&d, [0, 0, 0]).unwrap();
    let host = Recorder::default();
    for _ in 0..3 {
        host.patience.store(4, Ordering::Relaxed);
        assert_eq!(workgroup.run(&ram, &host), Err(Stop::Interrupted));
    }
    let before = workgroup.executed();
    assert!(before > 10_000);
    ram.put_u32(DATA, &[1]);
    assert_eq!(workgroup.run(&ram, &host), Ok(()));
    assert!(workgroup.executed() > before);
}

#[test]
fn workgroups_run_on_threads() {
    let source = include_str!("../kernels/basic.cl");
    let m = Machine::compile("basic", source, &["-O2"]);
    let data: Vec<u32> = (0..64 * 1024)
        .map(|n: u32| n.wrapping_mul(0x9e37_79b9))
        .collect();
    m.ram.put_u32(DATA, &data);
    let out = DATA + 0x100_0000;
    let args = common::Args::new().u64(DATA).u64(out);
    let d = m.dispatch("reduce", [64 * 256, 1, 1], [256, 1, 1], &args.bytes, 0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (m, d) = (&m, &d);
            scope.spawn(move || {
                for x in (thread..64).step_by(4) {
                    run_workgroup(&m.ram, &m.host, d, [x, 0, 0]).unwrap();
                }
            });
        }
    });
    let want: Vec<u32> = data
        .chunks(1024)
        .map(|c| c.iter().fold(0, |s: u32, v| s.wrapping_add(*v)))
        .collect();
    assert_eq!(m.ram.get_u32(out, 64), want);
}

#[test]
fn waves_communicate_through_lds_without_barrier() {
    // Wave 1 polls LDS until wave 0, which runs later, writes.
    let asm = "v_lshrrev_b32 v1, 6, v0\n v_readfirstlane_b32 s0, v1\n v_mov_b32 v2, 0\n\
        s_cmp_eq_u32 s0, 0\n s_cbranch_scc1 9\n\
        ds_read_b32 v3, v2\n s_waitcnt lgkmcnt(0)\n v_readfirstlane_b32 s1, v3\n\
        s_cmp_lg_u32 s1, 7\n s_cbranch_scc1 -6\n s_endpgm\n s_nop 0\n s_nop 0\n\
        s_sleep 1\n s_sleep 1\n s_sleep 1\n v_mov_b32 v4, 7\n ds_write_b32 v2, v4\n s_endpgm\n";
    let ram = ram(asm);
    let mut d = dispatch();
    d.grid = [128, 1, 1];
    d.workgroup = [128, 1, 1];
    d.lds_bytes = 512;
    run(&ram, &d).unwrap();
}

#[test]
fn barrier_ignores_ended_waves() {
    let asm = "v_lshrrev_b32 v1, 6, v0\n v_readfirstlane_b32 s0, v1\n s_cmp_eq_u32 s0, 0\n\
        s_cbranch_scc1 1\n s_endpgm\n s_barrier\n s_barrier\n s_endpgm\n";
    let ram = ram(asm);
    let mut d = dispatch();
    d.grid = [256, 1, 1];
    d.workgroup = [256, 1, 1];
    run(&ram, &d).unwrap();
}

#[test]
fn code_may_change_between_dispatches() {
    let program = |value: u32| {
        format!(
            "v_mov_b32 v1, {value}\n v_mov_b32 v2, 0\n s_mov_b32 s0, {:#x}\n s_mov_b32 s1, {:#x}\n\
             global_store_dword v2, v1, s[0:1]\n s_endpgm\n",
            DATA as u32,
            DATA >> 32
        )
    };
    let ram = ram(&program(5));
    run(&ram, &dispatch()).unwrap();
    assert_eq!(ram.get_u32(DATA, 1), [5]);
    ram.put_u32(CODE, &llvm::assemble(&program(6)));
    run(&ram, &dispatch()).unwrap();
    assert_eq!(ram.get_u32(DATA, 1), [6]);
}

/// A host that supports no message.
struct NoMessages;

impl Host for NoMessages {
    fn message(&self, _: &Message) -> bool {
        false
    }

    fn realtime(&self) -> u64 {
        0
    }

    fn shader_clock(&self) -> u64 {
        0
    }
}

#[test]
fn messages() {
    let ram = ram("s_mov_b32 m0, 0x77\n s_nop 0\n s_sendmsg sendmsg(MSG_INTERRUPT)\n s_endpgm\n");
    let host = Recorder::default();
    run_workgroup(&ram, &host, &dispatch(), [0, 0, 0]).unwrap();
    let sent = host.messages.lock().unwrap().clone();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].id, sent[0].m0, sent[0].pc), (1, 0x77, CODE + 12));
    match run_workgroup(&ram, &NoMessages, &dispatch(), [0, 0, 0]) {
        Err(Stop::Message(message)) => assert_eq!(message.m0, 0x77),
        other => panic!("{other:?}"),
    }
}

#[test]
fn stops_name_the_instruction() {
    let memory = ram("s_nop 0\n s_trap 2\n s_endpgm\n");
    match run(&memory, &dispatch()) {
        Err(Stop::Trap { id: 2, at }) => assert_eq!(at.pc, CODE + 4),
        other => panic!("{other:?}"),
    }
    memory.put_u32(CODE, &[0xbf80_0000, 0xffff_ffff, 0]);
    match run(&memory, &dispatch()) {
        Err(stop @ Stop::IllegalInstruction { at, words, .. }) => {
            assert_eq!((at.pc, words[0]), (CODE + 4, 0xffff_ffff));
            assert!(
                stop.to_string().contains("illegal instruction ffffffff"),
                "{stop}"
            );
        }
        other => panic!("{other:?}"),
    }
    // Past the end of memory.
    let memory = Ram::new(CODE, 256);
    memory.put_u32(CODE, &[0xbf80_0000; 64]);
    match run(&memory, &dispatch()) {
        Err(Stop::Fault { fault, at, .. }) => {
            assert_eq!((fault.va, at.pc), (CODE + 256, CODE + 256))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn invalid_dispatches_are_refused() {
    let ram = ram("s_endpgm\n");
    let refused = |change: &dyn Fn(&mut Dispatch)| {
        let mut d = dispatch();
        change(&mut d);
        assert!(matches!(run(&ram, &d), Err(Stop::BadDispatch(_))), "{d:?}");
    };
    refused(&|d| d.workgroup = [0, 1, 1]);
    refused(&|d| (d.grid, d.workgroup) = ([2048, 1, 1], [1025, 1, 1]));
    refused(&|d| d.lds_bytes = 65 << 10);
    refused(&|d| d.entry += 4);
    refused(&|d| d.user_sgprs = vec![1]);
    let d = dispatch();
    let outside = run_workgroup(&ram, &Recorder::default(), &d, [1, 0, 0]);
    assert!(matches!(outside, Err(Stop::BadDispatch(_))));
}
