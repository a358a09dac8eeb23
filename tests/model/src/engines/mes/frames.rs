// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Frames that are not about queues: resources, registers, TLBs, the debugger.

use std::time::{Duration, Instant};

use gpu_regs::{gc_12_0_0 as gc, Reg};
use rkfd_abi::mes::{self, misc_op, op, Frame, FRAME_DWORDS};
use rkfd_abi::pte;

use super::context::{self, Debugger};
use super::error::FrameError;
use super::{FrameResult, Hardware, Mes, Progress, Resources, POLL};
use crate::engines::cp::env::{Env, Hubs};
use crate::engines::cp::slot::Slot;
use crate::engines::gmc::{VmFault, HEAVYWEIGHT};
use crate::event;

/// Timeout of waiting for a register.
const REGISTER: Duration = Duration::from_secs(1);

type Words = [u32; FRAME_DWORDS];

impl Mes {
    /// Executes a well-formed frame.
    pub(super) fn execute(
        &mut self,
        hw: &mut dyn Hardware,
        pipe: u32,
        shape: &Frame,
        words: &Words,
    ) -> FrameResult {
        let ready = self.pipes[pipe as usize].configured;
        if !ready && !matches!(shape.opcode, op::SET_HW_RSRC | op::QUERY_SCHEDULER_STATUS) {
            return Err(FrameError::NotConfigured);
        }
        match shape.opcode {
            op::SET_HW_RSRC => self.set_hw_rsrc(hw, pipe, words),
            op::SET_HW_RSRC_1 => self.set_hw_rsrc_1(hw, pipe, words),
            op::QUERY_SCHEDULER_STATUS => Ok(Progress::Done),
            op::ADD_QUEUE => self.add_queue(hw, pipe, words),
            op::REMOVE_QUEUE => self.remove_queue(hw, pipe, words),
            op::SUSPEND => self.suspend(hw, pipe, words),
            op::RESUME => self.resume(pipe, words),
            op::RESET => self.reset_queues(hw, pipe, words),
            op::INV_TLBS => self.inv_tlbs(hw.env(), pipe, words),
            op::UPDATE_ROOT_PAGE_TABLE => self.update_root(hw, pipe, words),
            _ => match shape.misc {
                Some(misc_op::WRITE_REG) => write_reg(hw.env(), words),
                Some(misc_op::READ_REG) => read_reg(hw.env(), words),
                Some(misc_op::WAIT_REG_MEM) => self.wait_reg(hw.env(), pipe, words),
                Some(misc_op::INV_GART) => {
                    if let Some(left) = self.later(hw.env(), pipe) {
                        return Ok(Progress::Wait(left));
                    }
                    hw.env().invalidate(0, Hubs::All);
                    Ok(Progress::Done)
                }
                Some(misc_op::SET_SHADER_DEBUGGER) => self.set_shader_debugger(hw, pipe, words),
                Some(misc_op::NOTIFY_WORK_ON_UNMAPPED_QUEUE) => {
                    let level = mes::misc_notify_work_on_unmapped_queue::QUEUE_SCH_LEVEL.get(words);
                    self.check_level(hw.env(), level as usize);
                    Ok(Progress::Done)
                }
                Some(misc_op::CHANGE_CONFIG) => self.change_config(pipe, words),
                _ => Err(FrameError::Unsupported { name: shape.name }),
            },
        }
    }

    fn set_hw_rsrc(&mut self, hw: &dyn Hardware, pipe: u32, words: &Words) -> FrameResult {
        use mes::set_hw_rsrc as rs;
        let env = hw.env();
        for at in [rs::G_SCH_CTX_GPU_MC_PTR, rs::QUERY_STATUS_FENCE_GPU_MC_PTR] {
            if let Err(fault) = reachable(env, at.get(words)) {
                return Err(FrameError::Memory {
                    what: at.name,
                    fault,
                });
            }
        }
        for field in [
            rs::LEGACY_SCH_MODE,
            rs::USE_RS64MEM_FOR_PROC_GANG_CTX,
            rs::ENABLE_MES_FENCE_INT,
            rs::SECOND_GFX_PIPE_ENABLED,
        ] {
            if field.get(words) != 0 {
                return Err(FrameError::Unsupported { name: field.name });
            }
        }
        if rs::ENABLE_MES_EVENT_INT_LOGGING.get(words) != 0 {
            let at = rs::EVENT_INTR_HISTORY_GPU_MC_PTR;
            if let Err(fault) = reachable(env, at.get(words)) {
                return Err(FrameError::Memory {
                    what: at.name,
                    fault,
                });
            }
        }
        let mut gc_base = [0; 8];
        for (n, base) in gc_base.iter_mut().enumerate() {
            *base = rs::GC_BASE.get(words, n);
        }
        let here = &mut self.pipes[pipe as usize];
        here.gc_base = gc_base;
        if gc_base[0] == 0
            || rs::MMHUB_BASE.get(words, 0) == 0
            || rs::OSSSYS_BASE.get(words, 0) == 0
        {
            return Err(FrameError::NoRegisterBases);
        }
        here.configured = true;
        if pipe != mes::PIPE_SCHED {
            let masks = [rs::VMID_MASK_GFXHUB, rs::VMID_MASK_MMHUB];
            if masks.iter().any(|m| m.get(words) != 0) {
                return Err(FrameError::VmidsOnOtherPipe);
            }
            return Ok(Progress::Done);
        }
        if !self.queues.is_empty() {
            return Err(FrameError::QueuesExist);
        }
        match resources(words) {
            Ok(resources) => self.resources = resources,
            Err(error) => {
                self.pipes[pipe as usize].configured = false;
                return Err(error);
            }
        }
        Ok(Progress::Done)
    }

    fn set_hw_rsrc_1(&mut self, hw: &dyn Hardware, pipe: u32, words: &Words) -> FrameResult {
        use mes::set_hw_rsrc_1 as rs;
        if rs::MES_COOP_MODE.get(words) != 0 || rs::ENABLE_MES_DEBUG_CTX.get(words) != 0 {
            return Err(FrameError::Unsupported {
                name: "address of a cooperation or debug context",
            });
        }
        let timeout = rs::MES_KIQ_UNMAP_TIMEOUT.get(words);
        if timeout == 0 {
            return Err(FrameError::NoUnmapTimeout);
        }
        let cleaner = rs::CLEANER_SHADER_FENCE_MC_ADDR.get(words);
        if let Err(fault) = reachable(hw.env(), cleaner) {
            return Err(FrameError::Memory {
                what: rs::CLEANER_SHADER_FENCE_MC_ADDR.name,
                fault,
            });
        }
        self.pipes[pipe as usize].unmap_timeout =
            Some(Duration::from_millis(100) * timeout.min(100));
        Ok(Progress::Done)
    }

    fn update_root(&mut self, hw: &mut dyn Hardware, pipe: u32, words: &Words) -> FrameResult {
        use mes::update_root_page_table as up;
        if pipe != mes::PIPE_SCHED {
            return Err(FrameError::WrongPipe);
        }
        let root = up::PAGE_TABLE_BASE_ADDR.get(words);
        if root & pte::VALID == 0 {
            return Err(FrameError::Root { root });
        }
        let Some(process) = self.processes.get_mut(&up::PROCESS_CONTEXT_ADDR.get(words)) else {
            return Err(FrameError::NoProcess);
        };
        process.root = root;
        if let Some(vmid) = process.vmid {
            hw.claim(vmid, process.pasid, root);
        }
        Ok(Progress::Done)
    }

    fn wait_reg(&mut self, env: &dyn Env, pipe: u32, words: &Words) -> FrameResult {
        use mes::misc_wait_reg_mem as wr;
        let since = self.pipes[pipe as usize].since;
        let waited = since.map_or(Duration::ZERO, |s| s.elapsed());
        let (reference, mask) = (wr::REFERENCE.get(words), wr::MASK.get(words));
        let (first, second) = (wr::REG_OFFSET1.get(words), wr::REG_OFFSET2.get(words));
        let reg = match wr::OP.get(words) as u8 {
            mes::wait_op::WAIT_REG_MEM => first,
            mes::wait_op::WR_WAIT_WR_REG => {
                if !std::mem::replace(&mut self.pipes[pipe as usize].wrote, true) {
                    env.reg_write(first, reference);
                }
                second
            }
            op => return Err(FrameError::WaitOperation { op }),
        };
        let value = env.reg_read(reg);
        if value & mask != reference & mask {
            if waited < REGISTER {
                return Ok(Progress::Wait(POLL));
            }
            self.pipes[pipe as usize].wrote = false;
            return Err(FrameError::Register { reg, value });
        }
        self.pipes[pipe as usize].wrote = false;
        Ok(Progress::Done)
    }

    fn set_shader_debugger(
        &mut self,
        hw: &mut dyn Hardware,
        pipe: u32,
        words: &Words,
    ) -> FrameResult {
        use mes::misc_set_shader_debugger as sd;
        if pipe != mes::PIPE_SCHED {
            return Err(FrameError::WrongPipe);
        }
        let at = sd::PROCESS_CONTEXT_ADDR.get(words);
        let flags = words[sd::SINGLE_MEMOP.dw];
        let mut watch = [0; 4];
        for (n, value) in watch.iter_mut().enumerate() {
            *value = sd::TCP_WATCH_CNTL.get(words, n);
        }
        let debugger = match sd::PROCESS_CTX_FLUSH.get(words) != 0 {
            true => Debugger::default(),
            false => Debugger {
                spi_gdbg: sd::SPI_GDBG_PER_VMID_CNTL.get(words),
                flags,
                watch,
                trap_en: sd::TRAP_EN.get(words),
            },
        };
        // Without queues the page may belong to another process by now.
        if !self.queues.iter().any(|q| q.process == at) {
            self.processes.remove(&at);
        }
        let pasid = self.processes.get(&at).map_or(0, |p| p.pasid);
        if let Err(fault) = context::write_process(hw.env(), at, pasid, &debugger) {
            return Err(FrameError::Memory {
                what: "process context",
                fault,
            });
        }
        if let Some(process) = self.processes.get_mut(&at) {
            process.debugger = debugger;
            let process = process.clone();
            process.program(hw.env());
        }
        Ok(Progress::Done)
    }

    fn change_config(&mut self, pipe: u32, words: &Words) -> FrameResult {
        use mes::misc_change_config as cc;
        if cc::CONFIG_OPCODE.get(words) != 0 {
            return Err(FrameError::Unsupported {
                name: "configuration option",
            });
        }
        // The driver sends it to the pipe that does not schedule: both pipes run one firmware.
        let _ = pipe;
        self.resources.single_process = cc::LIMIT_SINGLE_PROCESS.get(words) != 0;
        Ok(Progress::Done)
    }

    /// Returns how long the pending frame of a pipe is not executed yet.
    fn later(&mut self, env: &dyn Env, pipe: u32) -> Option<Duration> {
        let due = &mut self.pipes[pipe as usize].due;
        let now = Instant::now();
        let until = *due.get_or_insert_with(|| now + env.response_time());
        let left = until.saturating_duration_since(now);
        if left.is_zero() {
            *due = None;
            return None;
        }
        Some(left)
    }

    fn inv_tlbs(&mut self, env: &dyn Env, pipe: u32, words: &Words) -> FrameResult {
        use mes::inv_tlbs as it;
        let id = it::INV_SEL_ID.get(words);
        let hubs = match it::HUB_ID.get(words) {
            mes::HUB_GC => Hubs::Graphics,
            mes::HUB_MM => Hubs::Memory,
            hub => return Err(FrameError::Hub { hub }),
        };
        if it::FLUSH_TYPE.get(words) > 3 {
            return Err(FrameError::FlushType);
        }
        let by_vmid = match it::INV_SEL.get(words) {
            mes::INV_SEL_VMID if id < 16 => true,
            mes::INV_SEL_PASID => false,
            _ => return Err(FrameError::InvalidationId { id }),
        };
        // Until its completion the old translations are used.
        if let Some(left) = self.later(env, pipe) {
            return Ok(Progress::Wait(left));
        }
        let vmids: Vec<u8> = match by_vmid {
            true => vec![id as u8],
            false => {
                let processes = self.processes.values();
                let named = processes.filter(|p| u32::from(p.pasid) == id);
                named.filter_map(|p| p.vmid).collect()
            }
        };
        for vmid in vmids {
            env.invalidate(vmid, hubs);
            let heavy = it::FLUSH_TYPE.get(words) == HEAVYWEIGHT;
            if hubs == Hubs::Graphics && heavy && env.has_l2() {
                env.flush_l2();
            }
            event!(
                env.trace(),
                "mes",
                "invalidate",
                "vmid={vmid} hubs={hubs:?}"
            );
        }
        Ok(Progress::Done)
    }

    /// Returns the dword address of a register, by the bases of SET_HW_RSRC.
    pub(super) fn dword(&self, reg: Reg) -> u32 {
        let bases = &self.pipes[mes::PIPE_SCHED as usize].gc_base;
        reg.dword(bases).unwrap_or(0)
    }

    /// Returns the address of a VMID's CONTEXT_CNTL register.
    pub(super) fn context_cntl(&self, vmid: u8) -> u32 {
        self.dword(gc::regGCVM_CONTEXT1_CNTL.at(u32::from(vmid) - 1))
    }
}

/// Parses SET_HW_RSRC.
fn resources(words: &Words) -> Result<Resources, FrameError> {
    use mes::set_hw_rsrc as rs;
    let vmid_mask = rs::VMID_MASK_GFXHUB.get(words);
    if vmid_mask == 0 || vmid_mask & 1 != 0 || vmid_mask >> 16 != 0 {
        return Err(FrameError::VmidMask { mask: vmid_mask });
    }
    let mut compute = Vec::new();
    let mut hqds = 0;
    for pipe in 0..mes::COMPUTE_PIPES {
        let mask = rs::COMPUTE_HQD_MASK.get(words, pipe);
        hqds += mask.count_ones();
        for queue in (0..32).filter(|n| mask >> n & 1 != 0) {
            let slot = Slot::new(0, pipe as u32, queue);
            if pipe >= 4 || queue >= 8 || !slot.exists(crate::chips::Generation::Gfx12) {
                return Err(FrameError::ComputeQueue { pipe, queue });
            }
            compute.push(slot);
        }
    }
    let mut sdma = Vec::new();
    for engine in 0..mes::SDMA_PIPES {
        let mask = rs::SDMA_HQD_MASK.get(words, engine);
        hqds += mask.count_ones();
        for queue in (0..32).filter(|n| mask >> n & 1 != 0) {
            if queue >= 8 {
                return Err(FrameError::SdmaQueue { engine, queue });
            }
            sdma.push(Slot::rlc(engine as u8, queue));
        }
    }
    hqds += (0..mes::GFX_PIPES)
        .map(|n| rs::GFX_HQD_MASK.get(words, n).count_ones())
        .sum::<u32>();
    if compute.is_empty() {
        return Err(FrameError::NoComputeQueues);
    }
    let mut aggregated = [0; mes::PRIORITY_LEVELS];
    for (level, doorbell) in aggregated.iter_mut().enumerate() {
        *doorbell = rs::AGGREGATED_DOORBELLS.get(words, level);
    }
    Ok(Resources {
        vmid_mask: vmid_mask as u16,
        compute,
        sdma,
        hqds: hqds as usize,
        aggregated,
        doorbells: rs::UNMAPPED_DOORBELL_HANDLING.get(words) != 0,
        single_process: rs::LIMIT_SINGLE_PROCESS.get(words) != 0,
    })
}

/// Checks that the firmware can read an address.
pub(super) fn reachable(env: &dyn Env, at: u64) -> Result<(), VmFault> {
    env.read64(0, at).map(|_| ())
}

fn write_reg(env: &dyn Env, words: &Words) -> FrameResult {
    use mes::misc_write_reg as wr;
    if wr::RRMT_OPT.get(words) != 0 {
        return Err(FrameError::Rrmt);
    }
    env.reg_write(wr::REG_OFFSET.get(words), wr::REG_VALUE.get(words));
    Ok(Progress::Done)
}

fn read_reg(env: &dyn Env, words: &Words) -> FrameResult {
    use mes::misc_read_reg as rr;
    if rr::RRMT_OPT.get(words) != 0 {
        return Err(FrameError::Rrmt);
    }
    let (reg, to) = (rr::REG_OFFSET.get(words), rr::BUFFER_ADDR.get(words));
    let low = env.reg_read(reg);
    let written = match rr::READ64BITS.get(words) {
        0 => env.write32(0, to, low),
        _ => {
            let high = env.reg_read(reg + 1);
            env.write64(0, to, rkfd_abi::bits::join(low, high))
        }
    };
    match written {
        Ok(()) => Ok(Progress::Done),
        Err(fault) => Err(FrameError::Memory {
            what: "READ_REG buffer",
            fault,
        }),
    }
}
