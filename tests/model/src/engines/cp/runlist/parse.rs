// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Parser of runlists.

use std::time::{Duration, Instant};

use gpu_regs::gc_9_4_3 as gc;
use rkfd_abi::pm4::{self, op};

use super::{Entry, Process, Runlist};
use crate::engines::cp::engine::Engine;
use crate::engines::cp::pm4::{Fetched, Packet, Stream};
use crate::engines::cp::queue::Queue;
use crate::engines::gmc::VmFault;
use crate::event;

crate::errors! {
    /// An invalid runlist.
    pub(super) enum RunlistError {
        /// It cannot be read.
        Fault { fault: VmFault } => "{fault}",
        /// Not a type 3 packet, or a truncated one.
        Packet { dword: u64, fetched: Fetched } => "dword {dword}: {fetched:x?}",
        /// Unexpected opcode.
        Opcode { opcode: u8 } => "opcode {opcode:#x}",
        /// Wrong length of a packet.
        Length { name: &'static str, dwords: usize } => "{name} of {dwords} dwords",
        /// More MAP_QUEUES than MAP_PROCESS announces.
        NotAnnounced => "MAP_QUEUES without MAP_PROCESS",
        /// It is chained to something other than itself.
        Chain { target: u64, words: Vec<u32> } => "chained to {target:#x}: {words:x?}",
        /// A process without PASID.
        NoPasid => "MAP_PROCESS of PASID 0",
        /// Invalid page-table root.
        Root { root: u64, pasid: u16 } => "page-table root {root:#x} of PASID {pasid} is not valid",
        /// More GWS resources than SET_RESOURCES provides.
        Gws { num_gws: u32, all_gws: u32, pasid: u16 } =>
            "{num_gws} of {all_gws} GWS for PASID {pasid}",
        /// Unknown engine.
        Engine { engine: u32, extended: u32 } =>
            "MAP_QUEUES for engine {engine} (extended {extended})",
        /// More than one queue in a packet.
        Count { count: u32 } => "MAP_QUEUES of {count} queues",
        /// Unsupported queue selection.
        Select { select: u32 } => "MAP_QUEUES with queue_sel {select}",
    }
}

impl From<VmFault> for RunlistError {
    fn from(fault: VmFault) -> Self {
        Self::Fault { fault }
    }
}

impl Engine<'_> {
    /// Parses a runlist. `until` is set if it is chained to itself.
    pub(super) fn read_list(
        &mut self,
        queue: &Queue,
        base: u64,
        size: u32,
    ) -> Result<Runlist, RunlistError> {
        let mut stream = Stream {
            vmid: 0,
            base,
            wrap: None,
            pos: 0,
            end: size.into(),
        };
        let mut list = Runlist::default();
        // Fewer may follow than MAP_PROCESS announces: the stock driver counts inactive queues
        // (`pm_map_process_v9` sends `queue_count`) and lists only active ones.
        let mut expected = 0;
        loop {
            let p = match stream.fetch(self.env)? {
                Fetched::End => break,
                Fetched::Filler => {
                    stream.pos += 1;
                    continue;
                }
                Fetched::Packet(p) => p,
                fetched => {
                    let dword = stream.pos;
                    return Err(RunlistError::Packet { dword, fetched });
                }
            };
            event!(
                self.env.trace(),
                "hws",
                "runlist_packet",
                "xcc={} op={:#x} words={:x?}",
                self.env.xcc(),
                p.opcode,
                p.words
            );
            match p.opcode {
                op::NOP => {}
                op::MAP_PROCESS => {
                    let (process, queues) = self.map_process(queue, &p)?;
                    expected = queues;
                    list.processes.push(process);
                }
                op::MAP_QUEUES => {
                    if expected == 0 {
                        return Err(RunlistError::NotAnnounced);
                    }
                    expected -= 1;
                    let process = list.processes.len() - 1;
                    list.entries.push(self.map_entry(queue, &p, process)?);
                }
                op::RUN_LIST => {
                    use pm4::run_list as rl;
                    self.check(queue, &p, &rl::PACKET, rl::FIELDS);
                    let target = p.address(rl::IB_BASE_LO, rl::IB_BASE_HI);
                    if !p.has(rl::CHAIN) || target != base || p.get(rl::IB_SIZE) > size {
                        let words = p.words;
                        return Err(RunlistError::Chain { target, words });
                    }
                    list.until = Some(Instant::now());
                }
                opcode => return Err(RunlistError::Opcode { opcode }),
            }
            stream.pos += p.len();
        }
        Ok(list)
    }

    /// Parses MAP_PROCESS. Returns the process and its announced number of queues.
    fn map_process(&self, queue: &Queue, p: &Packet) -> Result<(Process, u32), RunlistError> {
        use pm4::map_process as mp;
        if p.words.len() != mp::DWORDS {
            let (name, dwords) = ("MAP_PROCESS", p.words.len());
            return Err(RunlistError::Length { name, dwords });
        }
        self.check(queue, p, &mp::PACKET, mp::FIELDS);
        let pasid = p.get(mp::PASID) as u16;
        let root = p.join(
            mp::VM_CONTEXT_PAGE_TABLE_BASE_ADDR_LO32,
            mp::VM_CONTEXT_PAGE_TABLE_BASE_ADDR_HI32,
        );
        if pasid == 0 {
            return Err(RunlistError::NoPasid);
        }
        if root & rkfd_abi::pte::VALID == 0 {
            return Err(RunlistError::Root { root, pasid });
        }
        // The packet has the trap handler's address >> 8, as the registers do.
        let regs = vec![
            (gc::regSH_MEM_BASES, p.get(mp::SH_MEM_BASES)),
            (gc::regSH_MEM_CONFIG, p.get(mp::SH_MEM_CONFIG)),
            (gc::regSQ_SHADER_TBA_LO, p.get(mp::SQ_SHADER_TBA_LO)),
            (gc::regSQ_SHADER_TBA_HI, p.get(mp::SQ_SHADER_TBA_HI)),
            (gc::regSQ_SHADER_TMA_LO, p.get(mp::SQ_SHADER_TMA_LO)),
            (gc::regSQ_SHADER_TMA_HI, p.get(mp::SQ_SHADER_TMA_HI)),
            (
                gc::regSPI_GDBG_PER_VMID_CNTL,
                p.get(mp::SPI_GDBG_PER_VMID_CNTL),
            ),
            (gc::regTCP_WATCH0_CNTL, p.get(mp::TCP_WATCH_CNTL0)),
            (gc::regTCP_WATCH1_CNTL, p.get(mp::TCP_WATCH_CNTL1)),
            (gc::regTCP_WATCH2_CNTL, p.get(mp::TCP_WATCH_CNTL2)),
            (gc::regTCP_WATCH3_CNTL, p.get(mp::TCP_WATCH_CNTL3)),
        ];
        let queues = p.get(mp::NUM_QUEUES);
        let quantum = p.get(mp::PROCESS_QUANTUM);
        let num_gws = p.get(mp::NUM_GWS);
        let all_gws = self.sched.resources.map_or(0, |r| r.num_gws);
        if num_gws > all_gws {
            return Err(RunlistError::Gws {
                num_gws,
                all_gws,
                pasid,
            });
        }
        event!(
            self.env.trace(),
            "hws",
            "map_process",
            "xcc={} pasid={pasid} root={root:#x} queues={queues} quantum={quantum} \
             sh_mem_bases={:#x} sh_mem_config={:#x} tba={:#x} gws={num_gws}",
            self.env.xcc(),
            p.get(mp::SH_MEM_BASES),
            p.get(mp::SH_MEM_CONFIG),
            p.join(mp::SQ_SHADER_TBA_LO, mp::SQ_SHADER_TBA_HI) << 8
        );
        let process = Process {
            pasid,
            root,
            regs,
            quantum: Duration::from_millis(quantum.max(1).into()),
            num_gws,
        };
        Ok((process, queues))
    }

    /// Parses MAP_QUEUES.
    fn map_entry(&self, queue: &Queue, p: &Packet, process: usize) -> Result<Entry, RunlistError> {
        use pm4::map_queues as mq;
        if p.words.len() != mq::DWORDS {
            let (name, dwords) = ("MAP_QUEUES", p.words.len());
            return Err(RunlistError::Length { name, dwords });
        }
        self.check(queue, p, &mq::PACKET, mq::FORM_HWS);
        let engine = p.get(mq::ENGINE_SEL);
        let extended = p.get(mq::EXTENDED_ENGINE_SEL);
        let sdma = match (extended, engine) {
            (mq::EXTENDED_ENGINE_SEL_LEGACY, mq::ENGINE_SEL_COMPUTE) => None,
            (mq::EXTENDED_ENGINE_SEL_LEGACY, mq::ENGINE_SEL_SDMA0) => Some(0),
            (mq::EXTENDED_ENGINE_SEL_LEGACY, mq::ENGINE_SEL_SDMA1) => Some(1),
            (mq::EXTENDED_ENGINE_SEL_SDMA0_TO_7, n) => Some(n as u8),
            (mq::EXTENDED_ENGINE_SEL_SDMA8_TO_15, n) => Some(n as u8 + 8),
            _ => return Err(RunlistError::Engine { engine, extended }),
        };
        let entry = Entry {
            sdma,
            process,
            mqd: p.join(mq::MQD_ADDR_LO, mq::MQD_ADDR_HI),
            wptr: p.join(mq::WPTR_ADDR_LO, mq::WPTR_ADDR_HI),
            doorbell: p.get(mq::DOORBELL_OFFSET),
            is_static: p.get(mq::QUEUE_TYPE) >= mq::QUEUE_TYPE_NORMAL_LATENCY_STATIC,
            gws: p.has(mq::GWS_CONTROL_QUEUE),
        };
        event!(
            self.env.trace(),
            "hws",
            "map_queues",
            "xcc={} mqd={:#x} wptr={:#x} doorbell={:#x} engine={engine} extended={extended} \
             type={} gws={}",
            self.env.xcc(),
            entry.mqd,
            entry.wptr,
            entry.doorbell,
            p.get(mq::QUEUE_TYPE),
            u8::from(entry.gws)
        );
        if p.get(mq::NUM_QUEUES) != 1 {
            let count = p.get(mq::NUM_QUEUES);
            return Err(RunlistError::Count { count });
        }
        if p.get(mq::QUEUE_SEL) != mq::QUEUE_SEL_HWS_DETERMINED {
            let select = p.get(mq::QUEUE_SEL);
            return Err(RunlistError::Select { select });
        }
        if sdma.is_some() {
            // The process may ring it before the queue is mapped.
            self.env.sdma().expect_doorbell(entry.doorbell);
        }
        Ok(entry)
    }
}
