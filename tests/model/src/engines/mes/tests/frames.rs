// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Single frames: status and rejection.

use rkfd_abi::mes::{error_category, misc_op, op};

use super::super::code;
use super::*;
use crate::engines::cp::env::Hubs;
use crate::engines::cp::testing::Act;

#[test]
fn bring_up_sequence() {
    let mut bench = Bench::off();
    use mes::add_queue as aq;
    assert_eq!(bench.send(1, &set_hw_rsrc(1)), 1);
    assert_eq!(bench.send(1, &set_hw_rsrc_1()), 1);
    let ring = frame(&aq::FRAME, |w| {
        aq::MAP_LEGACY_KQ.set(w, 1);
        aq::QUEUE_TYPE.set(w, mes::queue_type::SCHQ.into());
        aq::DOORBELL_OFFSET.set(w, 0xb << 1);
        aq::MQD_ADDR.set(w, QUEUES);
        aq::WPTR_ADDR.set(w, SCRATCH);
    });
    assert_eq!(bench.send(1, &ring), 1);
    assert!(bench.hw.is_mapped(Slot::new(2, 0, 0)));
    assert_eq!(bench.fails_on(1, &ring), code::EXISTS);
    assert_eq!(bench.send(0, &set_hw_rsrc(0)), 1);
    let query = frame(&mes::query_scheduler_status::FRAME, |_| {});
    assert_eq!(bench.send(0, &query), 1);
    use mes::remove_queue as rq;
    let unmap = frame(&rq::FRAME, |w| {
        rq::UNMAP_LEGACY_QUEUE.set(w, 1);
        rq::QUEUE_TYPE.set(w, mes::queue_type::SCHQ.into());
        rq::DOORBELL_OFFSET.set(w, 0xb << 1);
    });
    assert_eq!(bench.send(1, &unmap), 1);
    assert!(!bench.hw.is_mapped(Slot::new(2, 0, 0)));
    assert_eq!(bench.fails_on(1, &unmap), code::NOT_FOUND);
    assert_eq!(bench.strict(), 2);
}

#[test]
fn stopped_pipe_loses_state() {
    let mut bench = Bench::ready();
    bench.add(1, 0);
    let (strict, sel) = (
        bench.hw.env.strict(),
        Selector {
            me: 3,
            ..Selector::default()
        },
    );
    let cntl = gc::regCP_MES_CNTL.into();
    bench
        .hw
        .env
        .mes()
        .reg_write(strict, sel, cntl, gc::CP_MES_CNTL__MES_HALT.mask);
    assert_eq!(bench.send(0, &remove_queue(0)), 0);
    assert_eq!(bench.strict(), 1, "a queue was on the hardware");
    bench.ring.rptr = bench.ring.wptr;
    let active = gc::CP_MES_CNTL__MES_PIPE0_ACTIVE.mask;
    bench
        .hw
        .env
        .mes()
        .reg_write(bench.hw.env.strict(), sel, cntl, active);
    assert_eq!(bench.fails(&remove_queue(0)), code::STATE);
}

#[test]
fn invalid_frames_are_refused() {
    use mes::add_queue as aq;
    let mut early = Bench::off();
    assert_eq!(early.fails(&add_queue(1, 0)), code::STATE);
    let mut bench = Bench::ready();
    bench.mqd(0);
    let good = add_queue(1, 0);
    let mut with = |code: u8, change: &dyn Fn(&mut Words)| {
        let mut words = good;
        change(&mut words);
        assert_eq!(bench.fails(&words), code);
        assert_eq!(bench.hw.user(), 0);
    };
    with(code::SIZE, &|w| w[0] = mes::HEADER_DWSIZE.set(w[0], 63));
    with(code::FIELD, &|w| w[0] = mes::HEADER_TYPE.set(w[0], 2));
    with(code::FIELD, &|w| w[0] |= 1 << 31);
    with(code::FIELD, &|w| w[63] = 1);
    with(code::FIELD, &|w| w[37] |= 1 << 17);
    with(code::FIELD, &|w| aq::PROCESS_ID.set(w, 0));
    with(code::FIELD, &|w| aq::PAGE_TABLE_BASE_ADDR.set(w, 0x1000));
    with(code::FIELD, &|w| aq::QUEUE_TYPE.set(w, 0));
    with(code::FIELD, &|w| aq::DOORBELL_OFFSET.set(w, 0x2001));
    with(code::FIELD, &|w| aq::DOORBELL_OFFSET.set(w, 0x2000 + 0x200));
    with(code::FIELD, &|w| aq::PROCESS_QUANTUM.set(w, 0));
    with(code::FIELD, &|w| aq::GANG_GLOBAL_PRIORITY_LEVEL.set(w, 5));
    with(code::FIELD, &|w| aq::GANG_CONTEXT_ADDR.set(w, 0x1_1008));
    with(code::FIELD, &|w| aq::VM_CONTEXT_CNTL.set(w, 0));
    with(code::FIELD, &|w| aq::PROCESS_VA_END.set(w, 1 << 40));
    // An address of the process, not of VMID 0.
    with(code::MEMORY, &|w| aq::WPTR_ADDR.set(w, 0x7fff_dead_b038));
    with(code::MEMORY, &|w| aq::MQD_ADDR.set(w, 0x7fff_dead_b000));
    with(code::MEMORY, &|w| {
        aq::PROCESS_CONTEXT_ADDR.set(w, 0x7fff_dead_b000)
    });
    with(code::MQD, &|w| aq::GDS_SIZE.set(w, 2048));
    with(code::MQD, &|w| aq::IS_AQL_QUEUE.set(w, 0));
    with(code::MQD, &|w| aq::WPTR_ADDR.set(w, mqd_at(0) + 0x2040));
    with(code::UNSUPPORTED, &|w| aq::IS_TMZ_QUEUE.set(w, 1));
    assert_eq!(bench.strict(), 22);
    // The address of the status of an unknown frame is unknown.
    let mut unknown = good;
    unknown[0] = mes::header(12);
    assert_eq!(bench.send(0, &unknown), 0);
    assert_eq!(bench.send(0, &good), 1, "and the next one is read");
    assert_eq!(bench.fails(&good), code::EXISTS);
    let mut other = add_queue(2, 0);
    bench.mqd(1);
    aq::MQD_ADDR.set(&mut other, mqd_at(1));
    assert_eq!(
        bench.fails(&other),
        code::EXISTS,
        "gang and doorbell are taken"
    );
    let mut thief = add_queue(2, 1);
    aq::PROCESS_CONTEXT_ADDR.set(&mut thief, PROCESSES + 0x1000);
    assert_eq!(
        bench.fails(&thief),
        code::EXISTS,
        "context of another process"
    );
    assert_eq!(
        bench.fails_on(1, &add_queue(1, 1)),
        code::STATE,
        "the wrong pipe"
    );
}

#[test]
fn add_and_remove_queue() {
    let mut bench = Bench::ready();
    bench.add(1, 0);
    assert_eq!(bench.hw.user(), 1);
    let mapped = bench.hw.mapped.values().next().unwrap();
    let (vmid, load) = (mapped.load.vmid, mapped.load);
    assert_eq!(bench.hw.claims, [(vmid, 0x8001, 1 << 20 | 1)]);
    assert_eq!((load.mqd, load.wptr), (mqd_at(0), mqd_at(0) + 0x2038));
    let env = &bench.hw.env;
    assert_eq!(env.vmid_reg(vmid, gc::regSQ_SHADER_TBA_LO), 0xff00_0000);
    assert_eq!(env.vmid_reg(vmid, gc::regSQ_SHADER_TMA_LO), 0xff00_0010);
    let trap = gc::SPI_GDBG_PER_VMID_CNTL__TRAP_EN;
    assert!(trap.is_set(env.vmid_reg(vmid, gc::regSPI_GDBG_PER_VMID_CNTL)));
    let cntl = gc::regGCVM_CONTEXT1_CNTL.at(u32::from(vmid) - 1);
    assert_eq!(
        env.reg(0x1000 + cntl.off),
        1,
        "at the base that SET_HW_RSRC gave"
    );
    let mut wrong = remove_queue(0);
    mes::remove_queue::GANG_CONTEXT_ADDR.set(&mut wrong, SCRATCH);
    assert_eq!(bench.fails(&wrong), code::FIELD);
    assert_eq!(bench.strict(), 1);
    assert_eq!(bench.send(0, &remove_queue(0)), 1);
    assert_eq!(bench.hw.user(), 0);
    assert_eq!(
        bench.fails(&remove_queue(0)),
        code::NOT_FOUND,
        "removed twice"
    );
    assert_eq!(bench.strict(), 2);
    // Again, in the same contexts.
    bench.add(1, 0);
    assert_eq!(bench.send(0, &remove_queue(0)), 1);
    // A context that is reused while in use is detected.
    bench.add(1, 0);
    bench.hw.env.put64(mqd_at(0) + 0x1000, 0);
    bench.hw.env.put64(PROCESSES + 0x1000, 0);
    bench.add(1, 1);
    assert_eq!(bench.strict(), 3);
    assert_eq!(bench.send(0, &remove_queue(0)), 1);
    assert_eq!(bench.strict(), 4);
}

#[test]
fn sdma_slot_is_that_of_the_mqd() {
    use mes::add_queue as aq;
    let mut bench = Bench::ready();
    let place = |bench: &mut Bench, engine: u32, queue: u32| {
        use v12_sdma::dw;
        let at = mqd_at(0);
        bench
            .hw
            .env
            .put32(at + dw::sdma_engine_id as u64 * 4, engine);
        bench.hw.env.put32(at + dw::sdma_queue_id as u64 * 4, queue);
    };
    let mut words = add_queue(1, 0);
    aq::QUEUE_TYPE.set(&mut words, mes::queue_type::SDMA.into());
    aq::IS_AQL_QUEUE.set(&mut words, 0);
    aq::DOORBELL_OFFSET.set(&mut words, 0x2000 + (0x100 + 10) * 2);
    place(&mut bench, 1, 1);
    assert_eq!(bench.fails(&words), code::MQD, "queue 1 is the kernel's");
    place(&mut bench, 1, 3);
    assert_eq!(bench.send(0, &words), 1);
    assert!(bench.hw.is_mapped(Slot::rlc(1, 3)));
    let mut remove = remove_queue(0);
    mes::remove_queue::DOORBELL_OFFSET.set(&mut remove, 0x2000 + (0x100 + 10) * 2);
    assert_eq!(bench.fails(&remove), code::FIELD, "not a compute queue");
    mes::remove_queue::QUEUE_TYPE.set(&mut remove, mes::queue_type::SDMA.into());
    assert_eq!(bench.send(0, &remove), 1);
}

#[test]
fn registers_and_translations() {
    let mut bench = Bench::ready();
    use mes::{inv_tlbs as it, misc_read_reg as rr, misc_wait_reg_mem as wr, misc_write_reg as ww};
    let write = frame(&ww::FRAME, |w| {
        ww::REG_OFFSET.set(w, 0x1234);
        ww::REG_VALUE.set(w, 0xdead_beef);
    });
    assert_eq!(bench.send(1, &write), 1);
    assert_eq!(bench.hw.env.reg(0x1234), 0xdead_beef);
    let read = frame(&rr::FRAME, |w| {
        rr::REG_OFFSET.set(w, 0x1234);
        rr::BUFFER_ADDR.set(w, SCRATCH + 0x100);
    });
    assert_eq!(bench.send(1, &read), 1);
    assert_eq!(bench.hw.env.get32(SCRATCH + 0x100), 0xdead_beef);
    let wait = |first: u32, op: u8, reference: u32| {
        frame(&wr::FRAME, |w| {
            wr::OP.set(w, op.into());
            wr::REFERENCE.set(w, reference);
            wr::MASK.set(w, 0xffff);
            wr::REG_OFFSET1.set(w, first);
            wr::REG_OFFSET2.set(w, 0x1235);
        })
    };
    assert_eq!(
        bench.send(1, &wait(0x1234, mes::wait_op::WAIT_REG_MEM, 0xbeef)),
        1
    );
    bench.hw.env.set_reg(0x1235, 7);
    assert_eq!(
        bench.send(1, &wait(0x1236, mes::wait_op::WR_WAIT_WR_REG, 7)),
        1
    );
    assert_eq!(bench.hw.env.reg(0x1236), 7);
    bench.add(1, 0);
    let vmid = bench.hw.claims[0].0;
    bench.hw.env.acts();
    bench.hw.env.add_l2();
    let mut inv = |hub: u32, flush_type: u32| {
        let inv = frame(&it::FRAME, |w| {
            it::INV_SEL.set(w, mes::INV_SEL_PASID);
            it::INV_SEL_ID.set(w, 0x8001);
            it::FLUSH_TYPE.set(w, flush_type);
            it::HUB_ID.set(w, hub);
        });
        assert_eq!(bench.send(1, &inv), 1);
        flushes(&bench)
    };
    let act = |hubs| Act::Invalidate(vmid, hubs);
    assert_eq!(inv(mes::HUB_MM, 2), [act(Hubs::Memory)]);
    assert_eq!(inv(mes::HUB_GC, 0), [act(Hubs::Graphics)]);
    assert_eq!(inv(mes::HUB_GC, 2), [act(Hubs::Graphics), Act::FlushL2]);
    assert_eq!(bench.strict(), 0);
}

/// Takes the invalidations, and the writes of the status.
fn flushes(bench: &Bench) -> Vec<Act> {
    let is = |act: &Act| {
        matches!(
            act,
            Act::Invalidate(..) | Act::FlushL2 | Act::Write(FENCE, _)
        )
    };
    bench.hw.env.acts().into_iter().filter(is).collect()
}

#[test]
fn translations_are_used_until_the_invalidation_completes() {
    use mes::inv_tlbs as it;
    let mut bench = Bench::ready();
    bench.add(1, 0);
    let vmid = bench.hw.claims[0].0;
    bench.hw.env.acts();
    bench
        .hw
        .env
        .set_response_time(std::time::Duration::from_millis(20));
    let mut inv = frame(&it::FRAME, |w| {
        it::INV_SEL.set(w, mes::INV_SEL_PASID);
        it::INV_SEL_ID.set(w, 0x8001);
        it::HUB_ID.set(w, mes::HUB_GC);
    });
    it::FRAME.fence_addr().set(&mut inv, FENCE);
    bench.put(&inv);
    let step = bench.mes.step(&mut bench.hw, 1, &mut bench.ring);
    assert!(matches!(step, Step::Poll(_)));
    bench.turn();
    assert_eq!(flushes(&bench), []);
    while bench.ring.rptr != bench.ring.wptr {
        bench.mes.step(&mut bench.hw, 1, &mut bench.ring);
    }
    while bench.hw.env.get64(FENCE) == 0 {
        bench.turn();
    }
    let status = Act::Write(FENCE, 1u64.to_le_bytes().to_vec());
    assert_eq!(
        flushes(&bench),
        [Act::Invalidate(vmid, Hubs::Graphics), status]
    );
    assert_eq!(bench.strict(), 0);
}

#[test]
fn skip_process_ctx_clear_keeps_debugger() {
    use mes::{add_queue as aq, misc_set_shader_debugger as sd};
    let mut bench = Bench::ready();
    let gdbg = |bench: &Bench| {
        let vmid = bench.hw.claims.last().unwrap().0;
        bench.hw.env.vmid_reg(vmid, gc::regSPI_GDBG_PER_VMID_CNTL)
    };
    let debugger = |spi: u32, flags: u32| {
        frame(&sd::FRAME, |w| {
            sd::PROCESS_CONTEXT_ADDR.set(w, PROCESSES + 0x1000);
            sd::SPI_GDBG_PER_VMID_CNTL.set(w, spi);
            w[sd::SINGLE_MEMOP.dw] = flags;
        })
    };
    let trap = gc::SPI_GDBG_PER_VMID_CNTL__TRAP_EN.mask;
    bench.mqd(0);
    let mut keep = add_queue(1, 0);
    aq::SKIP_PROCESS_CTX_CLEAR.set(&mut keep, 1);
    assert_eq!(bench.send(0, &keep), 1);
    assert_eq!(bench.strict(), 1, "the context was never set up");
    assert_eq!(bench.send(0, &remove_queue(0)), 1);
    assert_eq!(bench.send(0, &debugger(0x4000, 1)), 1);
    assert_eq!(bench.send(0, &keep), 1);
    assert_eq!(gdbg(&bench), 0x4000 | trap);
    assert_eq!(bench.send(0, &debugger(0x8000, 0)), 1);
    assert_eq!(gdbg(&bench), 0x8000 | trap, "while it runs");
    assert_eq!(bench.send(0, &debugger(0x8000, 1 << 31)), 1);
    assert_eq!(gdbg(&bench), trap, "flushed");
    assert_eq!(bench.send(0, &debugger(0x8000, 0)), 1);
    assert_eq!(bench.send(0, &remove_queue(0)), 1);
    assert_eq!(bench.send(0, &add_queue(1, 0)), 1);
    assert_eq!(gdbg(&bench), trap, "not kept");
    assert_eq!(bench.strict(), 1);
}

fn query_status() -> Words {
    frame(&mes::query_scheduler_status::FRAME, |w| {
        mes::query_scheduler_status::FRAME
            .fence_addr()
            .set(w, FENCE);
    })
}

#[test]
fn knobs_inject_faults() {
    let mut bench = Bench::ready();
    bench.hw.env.knobs().set("mes.error", 2);
    bench.add(1, 0);
    let error = ErrorWord::decode(bench.send(0, &remove_queue(0))).unwrap();
    assert_eq!(
        (error.code, error.category),
        (code::INJECTED, error_category::UNKNOWN)
    );
    assert_eq!(bench.hw.user(), 1, "it was not executed");
    bench.hw.env.knobs().set("mes.no_status", 1);
    assert_eq!(bench.send(0, &remove_queue(0)), 0);
    assert_eq!(bench.hw.user(), 0, "it was executed");
    let query = query_status();
    assert_eq!(bench.send(0, &query), 1);
    bench.hw.env.knobs().set("mes.late", 20);
    assert_eq!(bench.send(0, &add_queue(1, 0)), 0);
    let put = |bench: &Bench| bench.hw.env.get64(STATUS);
    bench.turn();
    assert_eq!(put(&bench), 0);
    std::thread::sleep(std::time::Duration::from_millis(25));
    bench.turn();
    assert_eq!(put(&bench), 1, "delayed, but written");
    bench.hw.env.knobs().set("mes.late", 0);
    bench.hw.env.knobs().set("mes.hang", 1);
    assert_eq!(bench.send(0, &remove_queue(0)), 0);
    assert_eq!(bench.send(0, &query), 0, "no further status is written");
    assert_eq!(bench.strict(), 0);
}

#[test]
fn a_knob_selects_the_frames_that_fail() {
    use mes::misc_set_shader_debugger as sd;
    let mut bench = Bench::ready();
    let debugger = frame(&sd::FRAME, |w| {
        sd::PROCESS_CONTEXT_ADDR.set(w, PROCESSES + 0x1000)
    });
    let debug = 0x100 | u64::from(misc_op::SET_SHADER_DEBUGGER);
    bench.hw.env.knobs().set("mes.op", debug);
    bench.hw.env.knobs().set("mes.error", 2);
    bench.add(1, 0);
    assert_eq!(bench.send(0, &debugger), 1);
    assert_eq!(bench.send(0, &remove_queue(0)), 1);
    let status = bench.send(0, &debugger);
    let error = ErrorWord::decode(status).unwrap();
    assert_eq!(
        (error.code, error.opcode, error.misc),
        (code::INJECTED, op::MISC, misc_op::SET_SHADER_DEBUGGER)
    );
    bench.hw.env.knobs().set("mes.op", op::ADD_QUEUE.into());
    bench.hw.env.knobs().set("mes.no_status", 1);
    assert_eq!(bench.send(0, &debugger), 1);
    assert_eq!(bench.send(0, &add_queue(1, 0)), 0);
    assert_eq!(bench.hw.env.knobs().hits("mes.op"), Some(6));
    // SET_HW_RSRC, whose opcode is 0.
    bench.hw.env.knobs().set("mes.op", 512);
    bench.hw.env.knobs().set("mes.error", 1);
    assert_eq!(bench.send(0, &query_status()), 1);
    let error = ErrorWord::decode(bench.send(1, &set_hw_rsrc(1))).unwrap();
    assert_eq!(
        (error.code, error.opcode),
        (code::INJECTED, op::SET_HW_RSRC)
    );
    assert_eq!(bench.strict(), 0);
}
