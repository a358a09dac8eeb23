// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Packets: length and execution. Bulk transfers are in [`transfer`](super::transfer).

use std::sync::atomic::Ordering;
use std::time::Duration;

use gpu_regs::sdma_4_4_2 as regs;
use rkfd_abi::bits::{join, DwField};
use rkfd_abi::ih::source;
use rkfd_abi::sdma::{self, op, sub_op, v7, HEADER_OP, HEADER_SUB_OP};

use super::context::{Context, Ib};
use super::engine::{Engine, Outcome};
use super::error::PacketError;
use super::layout::Version;
use crate::engines::cp::atomic::operation;
use crate::engines::gmc::{Rmw, VmFault};
use crate::engines::nbio;
use crate::regs::PACKET_ADDRESS;
use crate::{event, strict};

pub(super) fn address(words: &[u32], lo: DwField, hi: DwField) -> u64 {
    // Low fields without the alignment bits still hold an address.
    join(words[lo.dw] & lo.field.mask, words[hi.dw])
}

impl Engine<'_> {
    /// Returns the packet's shape; `None` for an unknown packet.
    fn shape(&self, header: u32) -> Option<&'static sdma::Packet> {
        let (op, sub_op) = (HEADER_OP.get(header) as u8, HEADER_SUB_OP.get(header) as u8);
        if op == op::SEM {
            return None;
        }
        let v7 = self.layout.version == Version::V7;
        if (op, sub_op) == (op::COPY, sub_op::COPY_LINEAR) {
            if sdma::copy_linear::BROADCAST.field.is_set(header) {
                return Some(match v7 {
                    true => &v7::copy_broadcast::PACKET,
                    false => &sdma::copy_broadcast::PACKET,
                });
            }
            if v7 && v7::copy_linear::CPV.field.is_set(header) {
                return Some(&v7::copy_linear_cpv::PACKET);
            }
        }
        // GCR_REQ of a user differs from the kernel's in nothing else.
        let sub_op = match v7 && (op, sub_op) == (v7::op::GCR_REQ, v7::sub_op::USER_GCR) {
            true => 0,
            false => sub_op,
        };
        self.layout
            .packets
            .iter()
            .find(|p| p.op == op && p.sub_op == sub_op)
    }

    /// Returns the length in dwords of the packet that starts with `words`, as far as known.
    pub(super) fn length(&self, words: &[u32]) -> u64 {
        let Some(&header) = words.first() else {
            return 1;
        };
        match self.shape(header) {
            None => 1,
            Some(p) if p.op == op::NOP => 1 + u64::from(sdma::nop::COUNT.field.get(header)),
            Some(p) if p.op == op::WRITE && words.len() >= p.dwords => {
                4 + u64::from(sdma::write::COUNT.get(words)) + 1
            }
            Some(p) => p.dwords as u64,
        }
    }

    /// Executes the packet in `words`. Fails if an access of the packet faults.
    pub(super) fn execute(
        &mut self,
        context: &mut Context,
        words: &[u32],
    ) -> Result<Outcome, VmFault> {
        let Some(shape) = self.shape(words[0]) else {
            return Ok(Outcome::Bad(PacketError::Unknown));
        };
        if context.progress == 0 && context.looks == 0 {
            self.check_reserved(context, shape, words);
        }
        if self.layout.version == Version::V7 {
            if let Some(outcome) = self.execute_v7(context, shape, words) {
                return outcome;
            }
        }
        match (shape.op, shape.sub_op) {
            (op::NOP, _) => Ok(Outcome::Next(self.length(words))),
            (op::COPY, sub_op::COPY_LINEAR) => self.copy(context, words),
            (op::COPY, _) => self.copy_window(context, words),
            (op::WRITE, _) => self.write(context, words),
            (op::CONST_FILL, _) => self.fill(context, words),
            (op::PTEPDE, _) => self.generate_entries(context, words),
            (op::INDIRECT, _) => Ok(self.indirect(context, words)),
            (op::FENCE, _) => self.fence(context, words),
            (op::TRAP, _) => Ok(self.trap(context, words)),
            (op::POLL_REGMEM, _) => self.poll(context, words),
            (op::COND_EXE, _) => self.cond_exe(context, words),
            (op::ATOMIC, _) => self.atomic(context, words),
            (op::TIMESTAMP, _) => self.timestamp(context, words),
            (op::SRBM_WRITE, _) => Ok(self.srbm_write(context, words)),
            _ => Ok(Outcome::Bad(PacketError::Unknown)),
        }
    }

    /// Reports reserved bits; hardware ignores them.
    fn check_reserved(&self, context: &Context, shape: &sdma::Packet, words: &[u32]) {
        for (dw, &word) in words.iter().enumerate().take(shape.dwords) {
            let bits = match shape.name {
                "SRBM_WRITE" if dw == 1 => word & !PACKET_ADDRESS,
                _ => word & shape.reserved_mask(dw),
            };
            if bits != 0 {
                self.complain(
                    context,
                    words,
                    &format!("{}: reserved bits {bits:#x} of dword {dw}", shape.name),
                );
            }
        }
    }

    pub(super) fn complain(&self, context: &Context, words: &[u32], what: &str) {
        strict!(
            self.gpu.strict,
            "sdma",
            "engine {}: queue {} pasid {}: {what} ({words:x?})",
            self.n,
            context.id,
            context.pasid
        );
    }

    /// Returns the address, which hardware rounds down to a multiple of `align`.
    pub(super) fn aligned(&self, context: &Context, words: &[u32], at: u64, align: u64) -> u64 {
        if at % align != 0 {
            let what = format!("address {at:#x} is not a multiple of {align}");
            self.complain(context, words, &what);
        }
        at & !(align - 1)
    }

    /// Returns whether the current packet belongs to a job that fault injection counts.
    pub(super) fn in_job(context: &Context) -> bool {
        context.id.is_kernel() && context.ib.is_some_and(|ib| ib.vmid != 0)
    }

    /// Returns whether the ring continues after such a job.
    fn behind_job(context: &Context) -> bool {
        context.id.is_kernel() && context.ib.is_none() && context.job != 0
    }

    fn indirect(&mut self, context: &mut Context, words: &[u32]) -> Outcome {
        use sdma::indirect as p;
        if context.ib.is_some() {
            return Outcome::Bad(PacketError::NestedIb);
        }
        let enable = self.bank().of(context.id, regs::regSDMA_GFX_IB_CNTL);
        if context.id.is_kernel() && !regs::SDMA_GFX_IB_CNTL__IB_ENABLE.is_set(enable) {
            return Outcome::Bad(PacketError::IbDisabled);
        }
        let end = context.rptr / 4 + p::DWORDS as u64;
        if end % sdma::INDIRECT_END_ALIGN_DW as u64 != 0 {
            let what = format!("INDIRECT ends at dword {end:#x} of its ring");
            self.complain(context, words, &what);
        }
        let named = p::VMID.get(words) as u8;
        // Only the kernel's rings may select a VMID.
        let vmid = match context.id.is_kernel() {
            true => named,
            false => context.config.vmid,
        };
        if named != vmid && named != 0 {
            self.complain(context, words, "INDIRECT of a user queue names a VMID");
        }
        let base = address(words, p::IB_BASE_LO, p::IB_BASE_HI);
        let base = self.aligned(context, words, base, sdma::IB_ALIGN);
        let size = u64::from(p::IB_SIZE.get(words));
        // An empty IB is allowed for a user's job; the kernel itself has no reason to submit one.
        if size == 0 && vmid == 0 {
            self.complain(context, words, "empty IB");
        }
        if context.id.is_kernel() && vmid != 0 {
            if self.gpu.knobs.sdma_hang.reach() {
                return Outcome::Hang;
            }
            context.job = vmid;
        }
        context.advance(p::DWORDS as u64);
        if size != 0 {
            context.ib = Some(Ib {
                base,
                size,
                pos: 0,
                vmid,
            });
        }
        Outcome::Entered
    }

    fn fence(&mut self, context: &mut Context, words: &[u32]) -> Result<Outcome, VmFault> {
        use sdma::fence as p;
        let at = address(words, p::ADDR_LO, p::ADDR_HI);
        let at = self.aligned(context, words, at, 4);
        let data = p::DATA.get(words);
        let late = self.gpu.knobs.sdma_late_fence.get();
        if late != 0 && context.id.is_kernel() && context.ib.is_none() {
            self.gpu.knobs.sdma_late_fence.hit();
            self.fence_later(Duration::from_millis(late), context.vmid(), at, data);
        } else {
            self.gpu.gmc.write32(self.hub(), context.vmid(), at, data)?;
        }
        Ok(Outcome::Next(p::DWORDS as u64))
    }

    fn trap(&mut self, context: &mut Context, words: &[u32]) -> Outcome {
        use sdma::trap as p;
        let mut lost = false;
        if Self::behind_job(context) {
            context.job = 0;
            let every = self.gpu.knobs.sdma_lose_trap.get();
            if every != 0 {
                let count = self.gpu.sdma.traps.fetch_add(1, Ordering::Relaxed) + 1;
                lost = count % every == 0;
            }
        }
        if lost {
            self.gpu.knobs.sdma_lose_trap.hit();
            event!(
                self.gpu.trace,
                "sdma",
                "trap_lost",
                "engine={} queue={}",
                self.n,
                context.id
            );
        } else {
            let enable = regs::SDMA_CNTL__TRAP_ENABLE.mask;
            let ctx = p::INT_CONTEXT.get(words);
            self.post(context, self.layout.sources.trap, enable, ctx);
        }
        Outcome::Next(p::DWORDS as u64)
    }

    /// Reports that data with an uncorrectable error was read (SDMA 4).
    pub(super) fn poison(&self, context: &Context) {
        self.post(context, source::SDMA_ECC, 0, 0);
    }

    /// Reports a register access without privilege.
    pub(super) fn protected(&self, context: &Context, words: &[u32]) {
        self.complain(context, words, "a register in an unprivileged buffer");
        let enable = self.layout.control_register;
        self.post(context, self.layout.sources.register, enable, 0);
    }

    fn srbm_write(&mut self, context: &mut Context, words: &[u32]) -> Outcome {
        use sdma::srbm_write as p;
        let done = Outcome::Next(p::DWORDS as u64);
        if !context.privileged() {
            self.protected(context, words);
            return done;
        }
        let reg = words[1] & PACKET_ADDRESS;
        let mut mask = 0;
        for byte in (0..4).filter(|n| p::BYTE_EN.get(words) >> n & 1 != 0) {
            mask |= 0xff << (8 * byte);
        }
        let mut value = p::DATA.get(words);
        if mask != u32::MAX {
            self.complain(context, words, "SRBM_WRITE of part of a register");
            value = value & mask | self.gpu.reg_read(reg) & !mask;
        }
        self.gpu.reg_write(reg, value);
        done
    }

    fn poll(&mut self, context: &mut Context, words: &[u32]) -> Result<Outcome, VmFault> {
        use sdma::poll_regmem as p;
        let done = Outcome::Next(p::DWORDS as u64);
        let function = p::FUNC.get(words);
        let reference = p::VALUE.get(words);
        let flush = p::HDP_FLUSH.get(words) != 0;
        let memory = p::MEM_POLL.get(words) != 0;
        if function == p::FUNC_ALWAYS && !flush {
            return Ok(done);
        }
        let at = address(words, p::ADDR_LO, p::ADDR_HI);
        let value = if memory && !flush {
            let at = at & !3;
            self.gpu.gmc.read32(self.hub(), context.vmid(), at)?
        } else {
            if !context.privileged() {
                self.protected(context, words);
                return Ok(done);
            }
            if context.looks == 0 && flush {
                self.check_flush(context, words);
                self.gpu.reg_write(p::ADDR_HI.get(words) / 4, reference);
                context.stale = None;
            }
            self.polled_register(context, words, p::ADDR_LO.get(words) / 4)
        };
        if context.looks == 0 && p::ADDR_LO.get(words) % 4 != 0 {
            self.complain(context, words, "POLL_REGMEM of a misaligned address");
        }
        let value = value & p::MASK.get(words);
        let met = match function {
            p::FUNC_ALWAYS => true,
            p::FUNC_LESS => value < reference,
            p::FUNC_LESS_EQUAL => value <= reference,
            p::FUNC_EQUAL => value == reference,
            p::FUNC_NOT_EQUAL => value != reference,
            p::FUNC_GREATER_EQUAL => value >= reference,
            p::FUNC_GREATER => value > reference,
            _ => return Ok(Outcome::Bad(PacketError::PollRegmemFunction)),
        };
        if met {
            return Ok(done);
        }
        let retries = p::RETRY_COUNT.get(words);
        if retries != p::RETRY_FOR_EVER && context.looks >= retries {
            self.post(context, self.layout.sources.poll_timeout, 0, 0);
            return Ok(done);
        }
        Ok(Outcome::Wait)
    }

    /// Reports an HDP flush by other registers or bits than those of the engine: it would not wait
    /// for its own flush.
    fn check_flush(&self, context: &Context, words: &[u32]) {
        use sdma::poll_regmem as p;
        let registers = [p::ADDR_HI, p::ADDR_LO].map(|field| field.get(words) / 4);
        let bit = nbio::hdp_flush_of_sdma(self.n);
        let is_own = [p::VALUE, p::MASK]
            .iter()
            .all(|field| field.get(words) == bit);
        let waits = p::FUNC.get(words) == p::FUNC_EQUAL;
        if !nbio::is_hdp_flush(self.gpu, registers[0], registers[1]) || !is_own || !waits {
            let what = format!("HDP flush that does not wait for bit {bit:#x} of the engine");
            self.complain(context, words, &what);
        }
    }

    fn cond_exe(&mut self, context: &mut Context, words: &[u32]) -> Result<Outcome, VmFault> {
        use sdma::cond_exe as p;
        let at = address(words, p::ADDR_LO, p::ADDR_HI);
        let at = self.aligned(context, words, at, 4);
        let value = self.gpu.gmc.read32(self.hub(), context.vmid(), at)?;
        let skip = match value == p::REFERENCE.get(words) {
            true => 0,
            false => u64::from(p::EXEC_COUNT.get(words)),
        };
        let length = p::DWORDS as u64 + skip;
        if length > context.available() {
            self.complain(context, words, "COND_EXE skips more than is available");
        }
        Ok(Outcome::Next(length))
    }

    fn atomic(&mut self, context: &mut Context, words: &[u32]) -> Result<Outcome, VmFault> {
        use sdma::atomic as p;
        use sdma::atomic_op;
        let code = p::ATOMIC_OP.get(words) & !atomic_op::NO_RETURN;
        let Some((size, operation)) = operation(code) else {
            return Ok(Outcome::Bad(PacketError::AtomicOperation));
        };
        let mask = if size == 4 { 0xffff_ffff } else { u64::MAX };
        let src = join(p::SRC_DATA_LO.get(words), p::SRC_DATA_HI.get(words)) & mask;
        let cmp = join(p::CMP_DATA_LO.get(words), p::CMP_DATA_HI.get(words)) & mask;
        let at = address(words, p::ADDR_LO, p::ADDR_HI);
        let change = &mut |old| operation(old, src, cmp);
        let old =
            self.gpu
                .gmc
                .vm_atomic(self.hub(), context.vmid(), at, size, Rmw::Request, change)?;
        let swaps = code & atomic_op::NUMBER_MASK == atomic_op::CMPSWAP;
        if p::LOOP.get(words) != 0 && swaps && old != cmp {
            return Ok(Outcome::Wait);
        }
        Ok(Outcome::Next(p::DWORDS as u64))
    }

    fn timestamp(&mut self, context: &mut Context, words: &[u32]) -> Result<Outcome, VmFault> {
        let clock = self.gpu.clock();
        let value = match HEADER_SUB_OP.get(words[0]) as u8 {
            sub_op::TIMESTAMP_SET => {
                use sdma::timestamp_set as p;
                let start = join(p::INIT_DATA_LO.get(words), p::INIT_DATA_HI.get(words));
                self.clock_offset = start.wrapping_sub(clock);
                return Ok(Outcome::Next(p::DWORDS as u64));
            }
            sub_op::TIMESTAMP_GET => clock.wrapping_add(self.clock_offset),
            _ => clock,
        };
        use sdma::timestamp_get as p;
        let at = address(words, p::WRITE_ADDR_LO, p::WRITE_ADDR_HI);
        self.gpu
            .gmc
            .write64(self.hub(), context.vmid(), at, value)?;
        Ok(Outcome::Next(p::DWORDS as u64))
    }
}
