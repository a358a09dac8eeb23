// SPDX-License-Identifier: GPL-2.0 OR MIT

//! PM4 packets of all queues: memory, registers, waits, events, dispatch.

use std::time::Duration;

use rkfd_abi::bits::DwField;
use rkfd_abi::ih::{client, source};
use rkfd_abi::mqd::v12;
use rkfd_abi::pm4::{self, gfx12, op};

use super::atomic;
use super::engine::{Engine, Outcome};
use super::error::PacketError;
use super::graphics::is_graphics;
use super::pm4::{Packet, Stream};
use super::queue::{Class, Pm4, Queue, Work};
use crate::chips::Generation;
use crate::engines::gmc::{Rmw, VmFault};
use crate::engines::ih::{xcc_node, Entry};
use crate::regs::PACKET_ADDRESS;
use crate::{event, strict};

/// Poll interval of memory or a register that a packet waits for.
pub const POLL: Duration = Duration::from_micros(100);

/// Bytes of DMA_DATA that are copied at a time.
const DMA_CHUNK: usize = 4096;

/// First and last dword address of the `COMPUTE_*` registers, which belong to the queue.
pub const COMPUTE: std::ops::Range<u32> = 0x2e00..0x2e80;

/// Returns the PM4 state of a PM4 queue.
pub fn pm4_state(queue: &mut Queue) -> Option<&mut Pm4> {
    match &mut queue.work {
        Work::Pm4(pm4) => Some(pm4),
        Work::Aql(aql) => Some(&mut aql.pm4),
    }
}

/// Register addresses of packets.
const REGISTERS: [DwField; 4] = [
    pm4::write_data::DST_MMREG_ADDR,
    pm4::wait_reg_mem::REG_POLL_ADDR,
    pm4::wait_reg_mem::REG_WRITE_ADDR1,
    pm4::wait_reg_mem::REG_WRITE_ADDR2,
];

/// Fields of which hardware has fewer bits than the packet: `CP_COHER_SIZE_HI` has 8. Programs set
/// all bits to name the whole address space.
const CUT: [DwField; 2] = [
    pm4::acquire_mem::COHER_SIZE_HI,
    gfx12::acquire_mem::COHER_SIZE_HI,
];

/// Returns a register address of a packet.
fn register(p: &Packet, field: DwField) -> u32 {
    p.words
        .get(field.dw)
        .map_or(0, |word| word & PACKET_ADDRESS)
}

impl Engine<'_> {
    /// Executes a packet that is not a scheduler packet.
    pub(super) fn execute(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        match p.opcode {
            op::NOP | op::CONTEXT_CONTROL | op::CLEAR_STATE => Ok(Outcome::Next),
            op::WRITE_DATA => self.write_data(queue, p),
            op::COPY_DATA => self.copy_data(queue, p),
            op::WAIT_REG_MEM => self.wait_reg_mem(queue, p),
            op::RELEASE_MEM => self.release_mem(queue, p),
            op::ACQUIRE_MEM => {
                let shape = match self.generation() {
                    Generation::Gfx9 => &pm4::acquire_mem::PACKET,
                    Generation::Gfx12 => &gfx12::acquire_mem::PACKET,
                };
                self.check(queue, p, shape, shape.fields);
                self.acquire_actions(queue, p);
                Ok(Outcome::Next)
            }
            op::EVENT_WRITE => self.event_write(queue, p),
            op::INDIRECT_BUFFER => self.indirect_buffer(queue, p),
            op::DMA_DATA => self.dma_data(queue, p),
            op::ATOMIC_MEM => self.atomic_mem(queue, p),
            op::COND_EXEC => self.cond_exec(queue, p),
            op::PRED_EXEC => Ok(self.pred_exec(queue, p)),
            op::SET_SH_REG => self.set_regs(queue, p, pm4::set_sh_reg::START),
            op::SET_CONFIG_REG => self.set_regs(queue, p, pm4::set_config_reg::START),
            op::SET_UCONFIG_REG => self.set_regs(queue, p, pm4::set_uconfig_reg::START),
            op::DISPATCH_DIRECT => Ok(self.dispatch_direct(queue, p)),
            op::DISPATCH_INDIRECT => self.dispatch_indirect(queue, p),
            gfx12::protected_fence_signal::OPCODE if self.generation() == Generation::Gfx12 => {
                self.protected_fence_signal(queue, p)
            }
            _ => Ok(Outcome::Bad(PacketError::Opcode)),
        }
    }

    /// Reports reserved bits; hardware ignores them.
    pub(super) fn check(&self, queue: &Queue, p: &Packet, shape: &pm4::Packet, form: &[DwField]) {
        if let Some((dw, bits)) = p.reserved_bits(shape, form, &REGISTERS, &CUT) {
            strict!(
                self.env.strict(),
                "cp",
                "queue {}: {}: reserved bits {bits:#x} of dword {dw} are set ({:x?})",
                queue.slot,
                shape.name,
                p.words
            );
        }
    }

    fn may_access(&self, queue: &Queue, reg: u32) -> bool {
        let ok = queue.config.privileged;
        if !ok {
            strict!(
                self.env.strict(),
                "cp",
                "queue {} pasid {}: register {reg:#x} needs a privileged queue",
                queue.slot,
                queue.pasid
            );
            self.post(
                queue,
                source::CP_PRIV_REG_FAULT,
                [queue.config.doorbell_id(), 0],
            );
        }
        ok
    }

    /// Posts an interrupt of the command processor for a queue, if its pipe has it enabled.
    pub(super) fn post(&self, queue: &Queue, source: u32, ctx: [u32; 2]) {
        let enabled = self.banks().raises(queue.slot, source);
        self.post_if(enabled, queue, source, ctx);
    }

    fn post_if(&self, enabled: bool, queue: &Queue, source: u32, ctx: [u32; 2]) {
        if !enabled {
            event!(
                self.env.trace(),
                "cp",
                "interrupt_disabled",
                "xcc={} queue={} source={source}",
                self.env.xcc(),
                queue.slot
            );
            return;
        }
        self.env.interrupt(Entry {
            client_id: client::GRBM_CP as u8,
            source_id: source as u8,
            ring_id: queue.slot.ring_id(),
            vmid: queue.config.vmid,
            mm_hub: false,
            node_id: self.node_id(),
            ctx: [ctx[0], ctx[1], 0, 0],
        });
    }

    /// Returns the `NODE_ID` of interrupts of the graphics core.
    pub(super) fn node_id(&self) -> u8 {
        self.node_of(self.env.xcc())
    }

    /// Returns the `NODE_ID` of interrupts of an XCC.
    pub(super) fn node_of(&self, xcc: u8) -> u8 {
        match self.generation() {
            Generation::Gfx9 => xcc_node(xcc),
            Generation::Gfx12 => 0,
        }
    }

    fn write_data(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::write_data as wd;
        let dst = p.get(wd::DST_SEL);
        let one = p.has(wd::ADDR_INCR);
        let data = p.payload(4);
        match dst {
            wd::DST_SEL_REGISTER => {
                self.check(queue, p, &wd::PACKET, wd::FORM_REGISTER);
                for (i, &value) in data.iter().enumerate() {
                    let reg = register(p, wd::DST_MMREG_ADDR) + if one { 0 } else { i as u32 };
                    if !self.write_reg(queue, reg, value) {
                        return Ok(Outcome::Bad(PacketError::PrivilegedRegister));
                    }
                }
            }
            wd::DST_SEL_MEMORY | wd::DST_SEL_TC_L2 => {
                self.check(queue, p, &wd::PACKET, wd::FORM_MEMORY);
                let va = p.address(wd::DST_MEM_ADDR_LO, wd::DST_MEM_ADDR_HI);
                let vmid = queue.config.vmid;
                event!(
                    self.env.trace(),
                    "cp",
                    "write_data",
                    "xcc={} queue={} va={va:#x} data={data:x?}",
                    self.env.xcc(),
                    queue.slot
                );
                if let (&[lo, hi], false, true) = (data, one, va % 8 == 0) {
                    self.env.write64(vmid, va, rkfd_abi::bits::join(lo, hi))?;
                    return Ok(Outcome::Next);
                }
                for (i, &value) in data.iter().enumerate() {
                    let at = va.wrapping_add(if one { 0 } else { i as u64 * 4 });
                    self.env.write32(vmid, at, value)?;
                }
            }
            _ => return Ok(Outcome::Bad(PacketError::WriteDataDestination)),
        }
        Ok(Outcome::Next)
    }

    /// Writes a register: the queue's own compute state, or a register of the chip.
    fn write_reg(&mut self, queue: &mut Queue, reg: u32, value: u32) -> bool {
        if COMPUTE.contains(&reg) {
            if let Some(pm4) = pm4_state(queue) {
                pm4.compute.resize(COMPUTE.len(), 0);
                pm4.compute[(reg - COMPUTE.start) as usize] = value;
            }
            return true;
        }
        if !self.may_access(queue, reg) {
            return false;
        }
        self.write_chip_reg(queue, reg, value);
        true
    }

    /// Writes a register of the chip.
    fn write_chip_reg(&self, queue: &Queue, reg: u32, value: u32) {
        event!(
            self.env.trace(),
            "cp",
            "write_reg",
            "xcc={} queue={} reg={reg:#x} value={value:#x}",
            self.env.xcc(),
            queue.slot
        );
        self.env.reg_write(reg, value);
    }

    fn set_regs(&mut self, queue: &mut Queue, p: &Packet, start: u32) -> Result<Outcome, VmFault> {
        let (shape, offset, end) = match p.opcode {
            op::SET_SH_REG => (
                &pm4::set_sh_reg::PACKET,
                pm4::set_sh_reg::REG_OFFSET,
                pm4::set_sh_reg::END,
            ),
            op::SET_CONFIG_REG => (
                &pm4::set_config_reg::PACKET,
                pm4::set_config_reg::REG_OFFSET,
                pm4::set_config_reg::END,
            ),
            _ => (
                &pm4::set_uconfig_reg::PACKET,
                pm4::set_uconfig_reg::REG_OFFSET,
                pm4::set_uconfig_reg::END,
            ),
        };
        self.check(queue, p, shape, shape.fields);
        let first = start + p.get(offset);
        for (reg, &value) in (first..).zip(p.payload(2)) {
            if reg >= end {
                strict!(
                    self.env.strict(),
                    "cp",
                    "queue {}: {} of register {reg:#x}, the range ends at {end:#x}",
                    queue.slot,
                    shape.name
                );
                return Ok(Outcome::Bad(PacketError::RegisterRange));
            }
            if !self.write_reg(queue, reg, value) {
                return Ok(Outcome::Bad(PacketError::PrivilegedRegister));
            }
        }
        Ok(Outcome::Next)
    }

    fn copy_data(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::copy_data as cd;
        self.check(queue, p, &cd::PACKET, cd::FIELDS);
        let vmid = queue.config.vmid;
        let wide = p.has(cd::COUNT_SEL);
        let (src, dst) = (p.get(cd::SRC_SEL), p.get(cd::DST_SEL));
        let lo = |at: usize| {
            if wide {
                p.words[at] & !7
            } else {
                p.words[at] & !3
            }
        };
        let from = rkfd_abi::bits::join(lo(2), p.words[3]);
        let value = match src {
            cd::SRC_SEL_REGISTER => {
                let reg = p.get(cd::SRC_REG_OFFSET);
                if !self.may_access(queue, reg) {
                    return Ok(Outcome::Bad(PacketError::PrivilegedRegister));
                }
                let low = u64::from(self.env.reg_read(reg));
                let high = if wide { self.env.reg_read(reg + 1) } else { 0 };
                u64::from(high) << 32 | low
            }
            cd::SRC_SEL_MEMORY | cd::SRC_SEL_TC_L2 if wide => self.env.read64(vmid, from)?,
            cd::SRC_SEL_MEMORY | cd::SRC_SEL_TC_L2 => self.env.read32(vmid, from)?.into(),
            cd::SRC_SEL_IMMEDIATE => p.join(cd::IMM_DATA, cd::SRC_IMM_DATA),
            cd::SRC_SEL_ATOMIC_RETURN => pm4_state(queue).map_or(0, |s| s.atomic_return),
            cd::SRC_SEL_GPU_CLOCK_COUNT => self.env.clock(),
            gfx12::COPY_DATA_SRC_SEL_SYSTEM_CLOCK_COUNT
                if self.generation() == Generation::Gfx12 =>
            {
                self.env.clock()
            }
            _ => return Ok(Outcome::Bad(PacketError::CopyDataSource)),
        };
        let to = rkfd_abi::bits::join(lo(4), p.words[5]);
        match dst {
            cd::DST_SEL_REGISTER => {
                let reg = p.get(cd::DST_REG_OFFSET);
                let ok = self.write_reg(queue, reg, value as u32)
                    && (!wide || self.write_reg(queue, reg + 1, (value >> 32) as u32));
                if !ok {
                    return Ok(Outcome::Bad(PacketError::PrivilegedRegister));
                }
            }
            cd::DST_SEL_MEMORY | cd::DST_SEL_TC_L2 if wide => self.env.write64(vmid, to, value)?,
            cd::DST_SEL_MEMORY | cd::DST_SEL_TC_L2 => {
                self.env.write32(vmid, to, value as u32)?;
            }
            _ => return Ok(Outcome::Bad(PacketError::CopyDataDestination)),
        }
        event!(
            self.env.trace(),
            "cp",
            "copy_data",
            "xcc={} queue={} src={src} dst={dst} value={value:#x} to={to:#x}",
            self.env.xcc(),
            queue.slot
        );
        Ok(Outcome::Next)
    }

    fn wait_reg_mem(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::wait_reg_mem as w;
        let operation = p.get(w::OPERATION);
        let reference = p.get(w::REFERENCE);
        let value = match (p.get(w::MEM_SPACE), operation) {
            (w::MEM_SPACE_MEMORY, w::OPERATION_WAIT | w::OPERATION_WAIT_PREEMPTABLE) => {
                self.check(queue, p, &w::PACKET, w::FORM_MEMORY);
                let va = p.address(w::MEM_POLL_ADDR_LO, w::MEM_POLL_ADDR_HI);
                self.env.read32(queue.config.vmid, va)?
            }
            (w::MEM_SPACE_REGISTER, w::OPERATION_WAIT) => {
                self.check(queue, p, &w::PACKET, w::FORM_REGISTER);
                let reg = register(p, w::REG_POLL_ADDR);
                if !self.may_access(queue, reg) {
                    return Ok(Outcome::Bad(PacketError::PrivilegedRegister));
                }
                self.env.reg_read(reg)
            }
            (w::MEM_SPACE_REGISTER, w::OPERATION_WRITE_WAIT) => {
                self.check(queue, p, &w::PACKET, w::FORM_WRITE_WAIT);
                let first = register(p, w::REG_WRITE_ADDR1);
                let second = register(p, w::REG_WRITE_ADDR2);
                // Neither register is privileged (`IsPrivilegedConfigReg` of AMD's aqlprofile):
                // tinygrad's user queues flush the HDP in this way before each launch.
                let flush = self.env.is_hdp_flush(first, second);
                if !flush && !self.may_access(queue, second) {
                    return Ok(Outcome::Bad(PacketError::PrivilegedRegister));
                }
                let done = pm4_state(queue).is_some_and(|s| std::mem::replace(&mut s.wrote, true));
                if !done && flush {
                    self.write_chip_reg(queue, first, reference);
                } else if !done && !self.write_reg(queue, first, reference) {
                    return Ok(Outcome::Bad(PacketError::PrivilegedRegister));
                }
                self.env.reg_read(second)
            }
            _ => return Ok(Outcome::Bad(PacketError::WaitRegMemOperation)),
        };
        let value = value & p.get(w::MASK);
        let met = match p.get(w::FUNCTION) {
            w::FUNCTION_ALWAYS => true,
            w::FUNCTION_LESS => value < reference,
            w::FUNCTION_LESS_EQUAL => value <= reference,
            w::FUNCTION_EQUAL => value == reference,
            w::FUNCTION_NOT_EQUAL => value != reference,
            w::FUNCTION_GREATER_EQUAL => value >= reference,
            w::FUNCTION_GREATER => value > reference,
            _ => return Ok(Outcome::Bad(PacketError::WaitRegMemFunction)),
        };
        if !met {
            return Ok(Outcome::Wait(POLL));
        }
        if let Some(state) = pm4_state(queue) {
            state.wrote = false;
        }
        Ok(Outcome::Next)
    }

    /// Returns whether all dispatches of the queue's PM4 packets are complete.
    fn drained(queue: &mut Queue) -> bool {
        pm4_state(queue).is_none_or(|s| s.jobs.is_empty())
    }

    /// Reports an event whose index does not match its type.
    fn wrong_event(&self, queue: &Queue, p: &Packet, event: DwField, index: DwField) {
        strict!(
            self.env.strict(),
            "cp",
            "queue {}: event {:#x} with index {} ({:x?})",
            queue.slot,
            p.get(event),
            p.get(index),
            p.words
        );
    }

    fn event_write(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::event_write as ew;
        if p.words.len() != ew::DWORDS {
            return Ok(Outcome::Bad(PacketError::EventWriteMemory));
        }
        self.check(queue, p, &ew::PACKET, ew::FIELDS);
        let flush = p.get(ew::EVENT_TYPE) == ew::EVENT_TYPE_CS_PARTIAL_FLUSH;
        if flush != (p.get(ew::EVENT_INDEX) == ew::EVENT_INDEX_CS_PARTIAL_FLUSH) {
            self.wrong_event(queue, p, ew::EVENT_TYPE, ew::EVENT_INDEX);
        }
        if flush && !Self::drained(queue) {
            return Ok(Outcome::Idle);
        }
        Ok(Outcome::Next)
    }

    fn release_mem(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::release_mem as rm;
        let generation = self.generation();
        // The fields used below are at the same position in both.
        let shape = match generation {
            Generation::Gfx9 => &rm::PACKET,
            Generation::Gfx12 => &gfx12::release_mem::PACKET,
        };
        if !Self::drained(queue) {
            return Ok(Outcome::Idle);
        }
        self.check(queue, p, shape, shape.fields);
        match (p.get(rm::EVENT_INDEX), p.get(rm::EVENT_TYPE)) {
            (
                rm::EVENT_INDEX_END_OF_PIPE,
                rm::EVENT_TYPE_CACHE_FLUSH_TS
                | rm::EVENT_TYPE_CACHE_FLUSH_AND_INV_TS
                | rm::EVENT_TYPE_BOTTOM_OF_PIPE_TS,
            )
            | (rm::EVENT_INDEX_SHADER_DONE, rm::EVENT_TYPE_CS_DONE) => {}
            _ => self.wrong_event(queue, p, rm::EVENT_TYPE, rm::EVENT_INDEX),
        }
        self.release_actions(queue, p);
        let vmid = queue.config.vmid;
        let data = p.join(rm::DATA_LO, rm::DATA_HI);
        let narrow = p.address(rm::ADDRESS_LO_32B, rm::ADDRESS_HI);
        let wide = p.address(rm::ADDRESS_LO_64B, rm::ADDRESS_HI);
        let (data_sel, int_sel) = (p.get(rm::DATA_SEL), p.get(rm::INT_SEL));
        event!(
            self.env.trace(),
            "cp",
            "release_mem",
            "xcc={} queue={} va={narrow:#x} data={data:#x} data_sel={data_sel} int_sel={int_sel} \
             ctx={:#x}",
            self.env.xcc(),
            queue.slot,
            p.get(rm::INT_CTXID)
        );
        if queue.class != Class::Normal && self.env.knobs().hws_fence_never.on() {
            self.env.knobs().hws_fence_never.hit();
            return Ok(Outcome::Next);
        }
        if p.get(rm::DST_SEL) > rm::DST_SEL_TC_L2 {
            return Ok(Outcome::Bad(PacketError::ReleaseMemDestination));
        }
        if int_sel == rm::INT_SEL_INTERRUPT_ONLY && data_sel != rm::DATA_SEL_NONE {
            strict!(
                self.env.strict(),
                "cp",
                "queue {}: RELEASE_MEM with an interrupt without data and data {data_sel}",
                queue.slot
            );
        }
        if data_sel != rm::DATA_SEL_NONE && data_sel != rm::DATA_SEL_32_BIT_LOW && narrow % 8 != 0 {
            strict!(
                self.env.strict(),
                "cp",
                "queue {}: RELEASE_MEM of 64 bits to {narrow:#x}",
                queue.slot
            );
        }
        if let Some(eop) = queue.config.eop {
            // The contents are the firmware's.
            let at = eop.base.wrapping_add(queue.eop % eop.bytes());
            self.env.write64(vmid, at, queue.rptr)?;
            queue.eop += 8;
        }
        match data_sel {
            rm::DATA_SEL_NONE => {}
            rm::DATA_SEL_32_BIT_LOW => self.env.write32(vmid, narrow, data as u32)?,
            rm::DATA_SEL_64_BIT => self.env.write64(vmid, wide, data)?,
            rm::DATA_SEL_GPU_CLOCK_COUNTER => self.env.write64(vmid, wide, self.env.clock())?,
            gfx12::release_mem::DATA_SEL_SYSTEM_CLOCK_COUNTER
                if generation == Generation::Gfx12 =>
            {
                self.env.write64(vmid, wide, self.env.clock())?;
            }
            _ => return Ok(Outcome::Bad(PacketError::ReleaseMemData)),
        }
        match int_sel {
            rm::INT_SEL_NONE | rm::INT_SEL_DATA_AFTER_WRITE_CONFIRM => {}
            rm::INT_SEL_INTERRUPT_ONLY
            | rm::INT_SEL_INTERRUPT_AFTER_WRITE_CONFIRM
            | rm::INT_SEL_INT_CTXID => {
                self.post(queue, source::CP_END_OF_PIPE, [p.get(rm::INT_CTXID), 0]);
            }
            _ => return Ok(Outcome::Bad(PacketError::ReleaseMemInterrupt)),
        }
        Ok(Outcome::Next)
    }

    /// Executes PROTECTED_FENCE_SIGNAL. The fence is that of the MQD, an address of VMID 0.
    fn protected_fence_signal(
        &mut self,
        queue: &mut Queue,
        p: &Packet,
    ) -> Result<Outcome, VmFault> {
        if p.words.len() != gfx12::protected_fence_signal::DWORDS {
            return Ok(Outcome::Bad(PacketError::Length));
        }
        if !Self::drained(queue) {
            return Ok(Outcome::Idle);
        }
        if pm4_state(queue).is_some_and(|s| !s.ibs.is_empty()) {
            return Ok(Outcome::Bad(PacketError::FenceInIb));
        }
        let at = queue.config.mqd + v12::dw::fence_address_lo as u64 * 4;
        let words = self.env.read_dwords(0, at, 2)?;
        let fence = rkfd_abi::bits::join(words[0], words[1]);
        let Some(doorbell) = queue.config.doorbell.filter(|_| fence != 0) else {
            return Ok(Outcome::Bad(PacketError::NoFence));
        };
        let value = queue.rptr + p.len();
        event!(
            self.env.trace(),
            "cp",
            "protected_fence",
            "queue={} fence={fence:#x} value={value:#x} doorbell={doorbell:#x}",
            queue.slot
        );
        self.env.write64(0, fence, value)?;
        let enabled = self.banks().raises_fence(queue.slot);
        self.post_if(enabled, queue, source::CP_END_OF_PIPE, [doorbell, 0]);
        Ok(Outcome::Next)
    }

    fn indirect_buffer(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::indirect_buffer as ib;
        self.check(queue, p, &ib::PACKET, ib::FIELDS);
        let size = u64::from(p.get(ib::IB_SIZE));
        let base = p.address(ib::IB_BASE_LO, ib::IB_BASE_HI);
        if p.has(ib::PRIV) && !queue.config.privileged {
            return Ok(Outcome::Bad(PacketError::PrivilegedIb));
        }
        // A kernel ring runs the IB in the VMID that the packet names, a user queue in its own.
        let vmid = match queue.config.vmid {
            0 => p.get(ib::VMID) as u8,
            own => own,
        };
        event!(
            self.env.trace(),
            "cp",
            "indirect_buffer",
            "xcc={} queue={} vmid={vmid} va={base:#x} dwords={size} chain={}",
            self.env.xcc(),
            queue.slot,
            p.get(ib::CHAIN)
        );
        // Only the MEC has the bit (`gfx_v12_0_ring_emit_ib_gfx` does not set it).
        let valid = p.has(ib::VALID) || is_graphics(queue.slot);
        if !valid || size == 0 {
            strict!(
                self.env.strict(),
                "cp",
                "queue {}: IB at {base:#x} of {size} dwords, valid {}",
                queue.slot,
                p.get(ib::VALID)
            );
            return Ok(Outcome::Next);
        }
        let stream = Stream {
            vmid,
            base,
            wrap: None,
            pos: 0,
            end: size,
        };
        Ok(Outcome::Enter(stream, p.has(ib::CHAIN)))
    }

    fn cond_exec(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::cond_exec as ce;
        self.check(queue, p, &ce::PACKET, ce::FIELDS);
        let va = p.address(ce::ADDR_LO, ce::ADDR_HI);
        match self.env.read32(queue.config.vmid, va)? {
            0 => Ok(Outcome::Skip(p.get(ce::EXEC_COUNT).into())),
            _ => Ok(Outcome::Next),
        }
    }

    fn pred_exec(&mut self, queue: &mut Queue, p: &Packet) -> Outcome {
        use pm4::pred_exec as pe;
        self.check(queue, p, &pe::PACKET, pe::FIELDS);
        let own = match queue.spread() {
            // This XCC also executes the packets of the other XCCs.
            Some(_) => (1 << self.sched.members.len()) - 1,
            None => 1 << self.position(),
        };
        match p.get(pe::VIRTUAL_XCC_ID_SELECT) & own {
            0 => Outcome::Skip(p.get(pe::EXEC_COUNT).into()),
            _ => Outcome::Next,
        }
    }

    /// Copies or fills memory. Complete when the packet is, so CP_SYNC and RAW_WAIT have no effect.
    fn dma_data(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::dma_data as dd;
        self.check(queue, p, &dd::PACKET, dd::FIELDS);
        let fill = match p.get(dd::SRC_SEL) {
            dd::SRC_SEL_DATA => true,
            dd::SRC_SEL_ADDRESS | dd::SRC_SEL_L2 if !p.has(dd::SAS) && !p.has(dd::SAIC) => false,
            _ => return Ok(Outcome::Bad(PacketError::DmaDataSource)),
        };
        match p.get(dd::DST_SEL) {
            dd::DST_SEL_ADDRESS | dd::DST_SEL_L2 if !p.has(dd::DAS) && !p.has(dd::DAIC) => {}
            _ => return Ok(Outcome::Bad(PacketError::DmaDataDestination)),
        }
        let src = p.join(dd::SRC_ADDR_LO, dd::SRC_ADDR_HI);
        let dst = p.join(dd::DST_ADDR_LO, dd::DST_ADDR_HI);
        let bytes = u64::from(p.get(dd::BYTE_COUNT));
        event!(
            self.env.trace(),
            "cp",
            "dma_data",
            "xcc={} queue={} src={src:#x} dst={dst:#x} bytes={bytes} fill={}",
            self.env.xcc(),
            queue.slot,
            u8::from(fill)
        );
        let unaligned = fill && (dst | bytes) % 4 != 0;
        if p.has(dd::ENGINE) || bytes == 0 || unaligned || (fill && p.has(dd::SRC_ADDR_HI)) {
            strict!(
                self.env.strict(),
                "cp",
                "queue {}: DMA_DATA of {bytes} bytes to {dst:#x} ({:x?})",
                queue.slot,
                p.words
            );
        }
        let vmid = queue.config.vmid;
        let mut buffer = p.get(dd::SRC_ADDR_LO).to_le_bytes().repeat(DMA_CHUNK / 4);
        for at in (0..bytes).step_by(DMA_CHUNK) {
            let chunk = &mut buffer[..DMA_CHUNK.min((bytes - at) as usize)];
            if !fill {
                self.env.read(vmid, src.wrapping_add(at), chunk)?;
            }
            self.env.write(vmid, dst.wrapping_add(at), chunk)?;
        }
        Ok(Outcome::Next)
    }

    fn atomic_mem(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::atomic_mem as am;
        let (shape, field) = match self.generation() {
            Generation::Gfx9 => (&am::PACKET, am::ATOMIC),
            Generation::Gfx12 => (&gfx12::atomic_mem::PACKET, gfx12::atomic_mem::ATOMIC),
        };
        self.check(queue, p, shape, shape.fields);
        let code = p.get(field);
        let (src, cmp) = (
            p.join(am::SRC_DATA_LO, am::SRC_DATA_HI),
            p.join(am::CMP_DATA_LO, am::CMP_DATA_HI),
        );
        let Some((size, operation)) = atomic::operation(code) else {
            return Ok(Outcome::Bad(PacketError::AtomicMemOperation));
        };
        let va = p.join(am::ADDR_LO, am::ADDR_HI);
        let mask = if size == 4 {
            u64::from(u32::MAX)
        } else {
            u64::MAX
        };
        let (src, cmp) = (src & mask, cmp & mask);
        let change = &mut |old| operation(old, src, cmp) & mask;
        let old = self
            .env
            .atomic(queue.config.vmid, va, size, Rmw::Request, change)?;
        if let Some(state) = pm4_state(queue) {
            state.atomic_return = old;
        }
        let looping = p.get(am::COMMAND) == am::COMMAND_LOOP_UNTIL_COMPARE_SATISFIED;
        if looping && old != cmp {
            return Ok(Outcome::Wait(POLL));
        }
        Ok(Outcome::Next)
    }
}
