// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tests of MES against mock hardware.

mod frames;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};

use gpu_regs::gc_12_0_0 as gc;
use rkfd_abi::mes::{self, ErrorWord, Frame, FRAME_BYTES, FRAME_DWORDS};
use rkfd_abi::mqd::{v12, v12_sdma};

use super::{Activity, Hardware, Load, Mes, Ring};
use crate::engines::cp::env::Env;
use crate::engines::cp::queue::Step;
use crate::engines::cp::save::LoadError;
use crate::engines::cp::slot::Slot;
use crate::engines::cp::testing::Mock;
use crate::regs::Selector;

type Words = [u32; FRAME_DWORDS];

const STATUS: u64 = 0x1000;
const FENCE: u64 = 0x1008;
const SCRATCH: u64 = 0x2000;
const RING: u64 = 0x4000;
const RING_DWORDS: u64 = 2048;
const HUNG: u64 = 0x8000;
/// Base of the pages of each queue.
const QUEUES: u64 = 0x4_0000;
const PROCESSES: u64 = 0x1_0000;
/// Only queues 0 and 1 of both pipes.
const FEW: u32 = 0x3;

/// A mapped queue.
struct Mapped {
    load: Load,
    leaving: bool,
}

/// Mock HQD slots, and queues with a given amount of work.
struct Slots {
    env: Mock,
    mapped: BTreeMap<Slot, Mapped>,
    /// Work left, by doorbell.
    work: BTreeMap<u32, u64>,
    /// Doorbells of queues that cannot be preempted.
    stuck: BTreeSet<u32>,
    /// Completed work, in order.
    done: Vec<u32>,
    claims: Vec<(u8, u16, u64)>,
    resets: Vec<u32>,
}

impl Hardware for Slots {
    fn env(&self) -> &dyn Env {
        &self.env
    }

    fn expect(&mut self, _: u32, _: bool) {}

    fn claim(&mut self, vmid: u8, pasid: u16, root: u64) {
        self.claims.push((vmid, pasid, root));
    }

    fn load(&mut self, load: &Load) -> Result<(), LoadError> {
        let mapped = Mapped {
            load: *load,
            leaving: false,
        };
        assert!(
            self.mapped.insert(load.slot, mapped).is_none(),
            "slot in use"
        );
        Ok(())
    }

    fn begin_unload(&mut self, slot: Slot, reset: bool) {
        let mapped = self.mapped.get_mut(&slot).unwrap();
        mapped.leaving = true;
        if reset {
            self.resets.push(mapped.load.doorbell);
            self.stuck.remove(&mapped.load.doorbell);
        }
    }

    fn is_mapped(&self, slot: Slot) -> bool {
        self.mapped.contains_key(&slot)
    }

    fn awaits_slice(&self, _: Slot) -> bool {
        false
    }

    fn activity(&self, slot: Slot) -> Activity {
        match self.work.get(&self.mapped[&slot].load.doorbell) {
            None | Some(0) => Activity::Idle,
            _ => Activity::Busy,
        }
    }
}

impl Slots {
    /// Completes unmaps, and executes work of mapped queues.
    fn run(&mut self) {
        let stuck = &self.stuck;
        self.mapped
            .retain(|_, m| !m.leaving || stuck.contains(&m.load.doorbell));
        for mapped in self.mapped.values() {
            if let Some(left) = self.work.get_mut(&mapped.load.doorbell) {
                if *left != 0 {
                    *left -= 1;
                    self.done.push(mapped.load.doorbell);
                }
            }
        }
    }

    /// Returns the number of user queues, without rings.
    fn user(&self) -> usize {
        self.mapped.values().filter(|m| m.load.vmid != 0).count()
    }
}

/// MES with mock hardware and one ring for both pipes.
struct Bench {
    mes: Mes,
    hw: Slots,
    ring: Ring,
}

fn frame(shape: &Frame, fill: impl FnOnce(&mut Words)) -> Words {
    let mut words = [0; FRAME_DWORDS];
    words[0] = shape.header();
    if let Some(misc) = shape.misc {
        words[1] = misc.into();
    }
    fill(&mut words);
    shape.fence_addr().set(&mut words, STATUS);
    shape.fence_value().set(&mut words, 1);
    words
}

fn set_hw_rsrc(pipe: u32) -> Words {
    use mes::set_hw_rsrc as rs;
    frame(&rs::FRAME, |w| {
        rs::G_SCH_CTX_GPU_MC_PTR.set(w, SCRATCH);
        rs::QUERY_STATUS_FENCE_GPU_MC_PTR.set(w, SCRATCH + 8);
        for n in 0..5 {
            rs::GC_BASE.set(w, n, 0x1000 * (n as u32 + 1));
            rs::MMHUB_BASE.set(w, n, 0x1000);
            rs::OSSSYS_BASE.set(w, n, 0x1000);
        }
        if pipe == mes::PIPE_SCHED {
            rs::VMID_MASK_GFXHUB.set(w, 0xff00);
            rs::VMID_MASK_MMHUB.set(w, 0xff00);
            rs::COMPUTE_HQD_MASK.set(w, 0, FEW);
            rs::COMPUTE_HQD_MASK.set(w, 1, FEW);
            rs::SDMA_HQD_MASK.set(w, 0, 0xfc);
            rs::SDMA_HQD_MASK.set(w, 1, 0xfc);
            for n in 0..mes::PRIORITY_LEVELS {
                rs::AGGREGATED_DOORBELLS.set(w, n, 0x400 + 2 * n as u32);
            }
        }
        rs::UNMAPPED_DOORBELL_HANDLING.set(w, 2);
    })
}

fn set_hw_rsrc_1() -> Words {
    use mes::set_hw_rsrc_1 as rs;
    frame(&rs::FRAME, |w| {
        rs::MES_KIQ_UNMAP_TIMEOUT.set(w, 1);
        rs::CLEANER_SHADER_FENCE_MC_ADDR.set(w, SCRATCH + 16);
    })
}

/// Returns the doorbell of queue `n`.
fn doorbell(n: u32) -> u32 {
    // Beyond the kernel's pages, outside the non-CP window.
    0x2000 + n / 64 * 0x400 + n % 64 * 2
}

fn mqd_at(n: u32) -> u64 {
    QUEUES + u64::from(n) * 0x3000
}

fn add_queue(p: u32, n: u32) -> Words {
    use mes::add_queue as aq;
    frame(&aq::FRAME, |w| {
        aq::PROCESS_ID.set(w, 0x8000 + p);
        aq::PAGE_TABLE_BASE_ADDR.set(w, u64::from(p) << 20 | 1);
        aq::PROCESS_VA_END.set(w, (1 << 36) - 1);
        aq::PROCESS_QUANTUM.set(w, 20_000);
        aq::GANG_QUANTUM.set(w, 10_000);
        aq::PROCESS_CONTEXT_ADDR.set(w, PROCESSES + u64::from(p) * 0x1000);
        aq::GANG_CONTEXT_ADDR.set(w, mqd_at(n) + 0x1000);
        aq::GANG_GLOBAL_PRIORITY_LEVEL.set(w, mes::priority::NORMAL.into());
        aq::INPROCESS_GANG_PRIORITY.set(w, mes::priority::NORMAL.into());
        aq::DOORBELL_OFFSET.set(w, doorbell(n));
        aq::MQD_ADDR.set(w, mqd_at(n));
        aq::WPTR_ADDR.set(w, mqd_at(n) + 0x2000 + 0x38);
        aq::QUEUE_TYPE.set(w, mes::queue_type::COMPUTE.into());
        aq::GDS_SIZE.set(w, 1024);
        aq::IS_KFD_PROCESS.set(w, 1);
        aq::IS_AQL_QUEUE.set(w, 1);
        aq::TRAP_EN.set(w, 1);
        aq::TRAP_HANDLER_ADDR.set(w, 0x7fff_0000_0000);
        aq::TMA_ADDR.set(w, 0x7fff_0000_1000);
        aq::VM_CONTEXT_CNTL.set(w, 1);
    })
}

fn remove_queue(n: u32) -> Words {
    use mes::remove_queue as rq;
    frame(&rq::FRAME, |w| {
        rq::DOORBELL_OFFSET.set(w, doorbell(n));
        rq::GANG_CONTEXT_ADDR.set(w, mqd_at(n) + 0x1000);
        rq::QUEUE_TYPE.set(w, mes::queue_type::COMPUTE.into());
    })
}

impl Bench {
    /// Returns a bench with both pipes running, before any frame.
    fn off() -> Self {
        let env = Mock::gfx12();
        let sel = Selector {
            me: 3,
            ..Selector::default()
        };
        let active =
            gc::CP_MES_CNTL__MES_PIPE0_ACTIVE.mask | gc::CP_MES_CNTL__MES_PIPE1_ACTIVE.mask;
        let pipes = env.mes();
        pipes.reg_write(env.strict(), sel, gc::regCP_MES_CNTL.into(), active);
        let unmapped =
            gc::CP_UNMAPPED_DOORBELL__ENABLE.mask | gc::CP_UNMAPPED_DOORBELL__PROC_LSB.put(13);
        pipes.reg_write(
            env.strict(),
            sel,
            gc::regCP_UNMAPPED_DOORBELL.into(),
            unmapped,
        );
        for vmid in 8..16 {
            env.set_vmid_reg(vmid, gc::regSH_MEM_CONFIG, 0xc);
        }
        Self {
            mes: Mes::default(),
            hw: Slots {
                env,
                mapped: BTreeMap::new(),
                work: BTreeMap::new(),
                stuck: BTreeSet::new(),
                done: Vec::new(),
                claims: Vec::new(),
                resets: Vec::new(),
            },
            ring: Ring {
                base: RING,
                size: RING_DWORDS,
                rptr: 0,
                wptr: 0,
            },
        }
    }

    /// Returns a bench that is ready for queues.
    fn ready() -> Self {
        let mut bench = Self::off();
        for pipe in [mes::PIPE_KIQ, mes::PIPE_SCHED] {
            assert_eq!(bench.send(pipe, &set_hw_rsrc(pipe)), 1);
            assert_eq!(bench.send(pipe, &set_hw_rsrc_1()), 1);
        }
        bench
    }

    fn put(&mut self, words: &Words) {
        let at = RING + self.ring.wptr % RING_DWORDS * 4;
        for (n, word) in words.iter().enumerate() {
            self.hw.env.put32(at + n as u64 * 4, *word);
        }
        self.ring.wptr += FRAME_DWORDS as u64;
        assert_eq!(FRAME_BYTES, 256);
    }

    /// Sends a frame and waits for its completion. Returns its status.
    fn send(&mut self, pipe: u32, words: &Words) -> u64 {
        self.hw.env.put64(STATUS, 0);
        self.put(words);
        for _ in 0..1000 {
            let step = self.mes.step(&mut self.hw, pipe, &mut self.ring);
            if self.ring.rptr == self.ring.wptr {
                return self.hw.env.get64(STATUS);
            }
            match step {
                Step::Busy => {}
                Step::Idle => return self.hw.env.get64(STATUS),
                Step::Poll(time) => {
                    self.turn();
                    std::thread::sleep(time);
                }
            }
        }
        panic!("the frame is never done");
    }

    /// Sends a frame that fails. Returns its error code.
    fn fails(&mut self, words: &Words) -> u8 {
        self.fails_on(mes::PIPE_SCHED, words)
    }

    fn fails_on(&mut self, pipe: u32, words: &Words) -> u8 {
        let status = self.send(pipe, words);
        let error = ErrorWord::decode(status).unwrap_or_else(|| panic!("status {status:#x}"));
        assert_eq!(u32::from(error.opcode), mes::HEADER_OPCODE.get(words[0]));
        error.code
    }

    fn turn(&mut self) {
        self.hw.run();
        self.mes.turn(&mut self.hw);
    }

    /// Writes an MQD for queue `n`.
    fn mqd(&mut self, n: u32) {
        use v12::dw;
        let at = mqd_at(n);
        let put = |index: usize, value: u32| self.hw.env.put32(at + index as u64 * 4, value);
        put(
            dw::cp_hqd_pq_control,
            gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE.put(9),
        );
        put(dw::cp_hqd_aql_control, 1);
        put(dw::cp_hqd_pq_wptr_poll_addr_lo, 0x7_1038);
        put(
            dw::cp_hqd_pq_doorbell_control,
            gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET.put(doorbell(n)),
        );
    }

    /// Adds queue `n` of process `p`.
    fn add(&mut self, p: u32, n: u32) {
        self.mqd(n);
        assert_eq!(self.send(mes::PIPE_SCHED, &add_queue(p, n)), 1);
    }

    fn strict(&self) -> u64 {
        self.hw.env.strict().unexpected()
    }
}
