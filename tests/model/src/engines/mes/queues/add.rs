// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Validation of ADD_QUEUE: the queue, its MQD, its process.

use std::time::{Duration, Instant};

use gpu_regs::gc_12_0_0 as gc;
use rkfd_abi::bits::join;
use rkfd_abi::doorbell;
use rkfd_abi::mes::{self, queue_type};
use rkfd_abi::mqd::{v12, v12_sdma};
use rkfd_abi::pte;

use super::Words;
use crate::engines::cp::env::Env;
use crate::engines::cp::slot::Slot;
use crate::engines::mes::context::{self, Debugger};
use crate::engines::mes::error::FrameError;
use crate::engines::mes::frames::reachable;
use crate::engines::mes::schedule::{Process, UserQueue};
use crate::engines::mes::{Hardware, Mes};
use crate::strict;

impl Mes {
    /// Parses the queue of an ADD_QUEUE, and validates it.
    pub(super) fn read_queue(&self, env: &dyn Env, words: &Words) -> Result<UserQueue, FrameError> {
        use mes::add_queue as aq;
        let kind = aq::QUEUE_TYPE.get(words) as u8;
        if kind != queue_type::COMPUTE && kind != queue_type::SDMA {
            return Err(FrameError::QueueType { kind });
        }
        for quantum in [aq::PROCESS_QUANTUM, aq::GANG_QUANTUM] {
            if quantum.get(words) == 0 {
                return Err(FrameError::NoQuantum { name: quantum.name });
            }
        }
        let level = aq::GANG_GLOBAL_PRIORITY_LEVEL.get(words);
        let inner = aq::INPROCESS_GANG_PRIORITY.get(words);
        if level as usize >= mes::PRIORITY_LEVELS || inner as usize >= mes::PRIORITY_LEVELS {
            return Err(FrameError::Priority { level, inner });
        }
        let (process, gang) = (
            aq::PROCESS_CONTEXT_ADDR.get(words),
            aq::GANG_CONTEXT_ADDR.get(words),
        );
        if process == gang || process & 0xfff != 0 || gang & 0xfff != 0 {
            return Err(FrameError::Contexts { process, gang });
        }
        for (what, at) in [("process context", process), ("gang context", gang)] {
            if let Err(fault) = reachable(env, at) {
                return Err(FrameError::Memory { what, fault });
            }
        }
        if let Some(other) = self.queues.iter().find(|q| q.gang == gang) {
            return Err(FrameError::GangExists {
                gang,
                doorbell: other.doorbell,
            });
        }
        let doorbell = aq::DOORBELL_OFFSET.get(words);
        let known = self.queues.iter().any(|q| q.doorbell == doorbell)
            || self.legacy.iter().any(|l| l.doorbell == doorbell);
        if known {
            return Err(FrameError::DoorbellExists { doorbell });
        }
        let to_cp = doorbell::navi10_routes_to_cp(doorbell / doorbell::DWORDS);
        if doorbell % doorbell::DWORDS != 0 || to_cp != (kind == queue_type::COMPUTE) {
            return Err(FrameError::DoorbellRoute { doorbell, kind });
        }
        let mqd = aq::MQD_ADDR.get(words);
        if self.queues.iter().any(|q| q.mqd == mqd) {
            return Err(FrameError::MqdExists { mqd });
        }
        let wptr = aq::WPTR_ADDR.get(words);
        if wptr % 8 != 0 {
            return Err(FrameError::WptrAlignment { wptr });
        }
        // It has to be an address in VMID 0, not one of the process.
        if let Err(fault) = reachable(env, wptr) {
            return Err(FrameError::Memory {
                what: "write pointer",
                fault,
            });
        }
        let sdma = self.check_mqd(env, words, mqd, wptr)?;
        Ok(UserQueue {
            doorbell,
            aql: aq::IS_AQL_QUEUE.get(words) != 0,
            dwords: aq::GDS_SIZE.get(words).max(1),
            sdma,
            mqd,
            wptr,
            process,
            gang,
            level: level as usize,
            inner,
            slot: None,
            leaving: None,
            since: Instant::now(),
            ready: true,
            seen: 0,
            suspended: aq::IS_GANG_SUSPENDED.get(words) != 0,
            hung: false,
            parked: false,
        })
    }

    /// Compares an MQD with its frame. Returns the slot of an SDMA queue.
    fn check_mqd(
        &self,
        env: &dyn Env,
        words: &Words,
        mqd: u64,
        wptr: u64,
    ) -> Result<Option<Slot>, FrameError> {
        use mes::add_queue as aq;
        let compute = aq::QUEUE_TYPE.get(words) == u32::from(queue_type::COMPUTE);
        let dwords = if compute {
            v12::Mqd::DWORDS
        } else {
            v12_sdma::SdmaMqd::DWORDS
        };
        let image = match env.read_dwords(0, mqd, dwords) {
            Ok(image) => image,
            Err(fault) => return Err(FrameError::Memory { what: "MQD", fault }),
        };
        let size = aq::GDS_SIZE.get(words);
        if !compute {
            use v12_sdma::dw;
            let place = (image[dw::sdma_engine_id], image[dw::sdma_queue_id]);
            let slot = self
                .resources
                .sdma
                .iter()
                .find(|s| s.as_rlc().map(|(e, q)| (u32::from(e), u32::from(q))) == Some(place));
            let Some(slot) = slot else {
                return Err(FrameError::MqdSlot {
                    mqd,
                    queue: place.1,
                    engine: place.0,
                });
            };
            if let Some(other) = self.queues.iter().find(|q| q.sdma == Some(*slot)) {
                return Err(FrameError::SdmaSlotTaken {
                    slot: *slot,
                    doorbell: other.doorbell,
                });
            }
            return Ok(Some(*slot));
        }
        use v12::dw;
        let control = image[dw::cp_hqd_pq_control];
        let ring = 2u32 << gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE.get(control);
        if ring != size {
            return Err(FrameError::MqdRing { mqd, ring, size });
        }
        let aql = image[dw::cp_hqd_aql_control] & 1 != 0;
        if aql != (aq::IS_AQL_QUEUE.get(words) != 0) {
            return Err(FrameError::MqdAql { mqd, aql });
        }
        let poll = join(
            image[dw::cp_hqd_pq_wptr_poll_addr_lo],
            image[dw::cp_hqd_pq_wptr_poll_addr_hi],
        );
        if (poll ^ wptr) & 0xfff != 0 {
            return Err(FrameError::MqdWptr { mqd, poll, wptr });
        }
        let doorbell = gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET
            .get(image[dw::cp_hqd_pq_doorbell_control]);
        if doorbell != aq::DOORBELL_OFFSET.get(words) {
            return Err(FrameError::MqdDoorbell { mqd, doorbell });
        }
        Ok(None)
    }

    /// Registers the process of an ADD_QUEUE, or checks that it matches the known one.
    pub(super) fn join_process(
        &mut self,
        hw: &mut dyn Hardware,
        words: &Words,
    ) -> Result<(), FrameError> {
        use mes::add_queue as aq;
        let at = aq::PROCESS_CONTEXT_ADDR.get(words);
        let id = aq::PROCESS_ID.get(words);
        let root = aq::PAGE_TABLE_BASE_ADDR.get(words);
        let Some(pasid) = u16::try_from(id).ok().filter(|id| *id != 0) else {
            return Err(FrameError::Process { id });
        };
        if root & pte::VALID == 0 {
            return Err(FrameError::Root { root });
        }
        let (start, end) = (
            aq::PROCESS_VA_START.get(words),
            aq::PROCESS_VA_END.get(words),
        );
        if end <= start || end >= 1 << 36 {
            return Err(FrameError::VaRange { start, end });
        }
        let (tba, tma) = (aq::TRAP_HANDLER_ADDR.get(words), aq::TMA_ADDR.get(words));
        if tba & 0xff != 0 || tma & 0xff != 0 {
            return Err(FrameError::TrapHandler { tba, tma });
        }
        let cntl = aq::VM_CONTEXT_CNTL.get(words);
        if !gc::GCVM_CONTEXT1_CNTL__ENABLE_CONTEXT.is_set(cntl) {
            return Err(FrameError::VmContextCntl { cntl });
        }
        let live = self.queues.iter().any(|q| q.process == at);
        let kfd = aq::IS_KFD_PROCESS.get(words) != 0;
        // The queues of /dev/kfd and those of the render node may share a PASID.
        let other = |(p, v): (&u64, &Process)| {
            *p != at
                && (v.pasid, v.kfd) == (pasid, kfd)
                && self.queues.iter().any(|q| q.process == *p)
        };
        if self.processes.iter().any(other) {
            return Err(FrameError::ContextDiffers { pasid });
        }
        let mut process = Process {
            pasid,
            kfd,
            root,
            tba,
            tma,
            trap_en: aq::TRAP_EN.get(words) != 0,
            vm_context_cntl: cntl,
            sh_mem_config: aq::FULL_SH_MEM_CONFIG_DATA.get(words),
            debugger: Debugger::default(),
            quantum: Duration::from_nanos(aq::PROCESS_QUANTUM.get(words).saturating_mul(100)),
            vmid: None,
        };
        let env = hw.env();
        if live {
            let old = &self.processes[&at];
            if old.pasid != pasid {
                return Err(FrameError::ContextOwner {
                    at,
                    pasid: old.pasid,
                });
            }
            context::check_process(env, at, pasid);
            process.debugger = old.debugger;
            process.vmid = old.vmid;
            let changed = *old != process;
            let on = self
                .queues
                .iter()
                .any(|q| q.process == at && q.slot.is_some());
            if changed && on && old.root != root {
                return Err(FrameError::MappedRoot {
                    root,
                    mapped: old.root,
                });
            }
            if changed {
                if let Some(vmid) = process.vmid {
                    hw.claim(vmid, pasid, root);
                }
                process.program(hw.env());
            }
        } else {
            let keep = aq::SKIP_PROCESS_CTX_CLEAR.get(words) != 0;
            let notes = match context::read_process(env, at) {
                Ok(notes) => notes,
                Err(fault) => {
                    return Err(FrameError::Memory {
                        what: "process context",
                        fault,
                    })
                }
            };
            match notes {
                Some((owner, debugger)) if keep && (owner == pasid || owner == 0) => {
                    process.debugger = debugger;
                }
                _ if keep => strict!(
                    env.strict(),
                    "mes",
                    "process {pasid:#x} uses its context {at:#x}, which was never set up"
                ),
                _ => {}
            }
        }
        if let Err(fault) = context::write_process(hw.env(), at, pasid, &process.debugger) {
            return Err(FrameError::Memory {
                what: "process context",
                fault,
            });
        }
        self.processes.insert(at, process);
        Ok(())
    }
}
