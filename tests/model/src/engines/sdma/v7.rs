// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Packets that exist on SDMA 7 only, or differ from SDMA 4.4.2.

use gpu_regs::gc_12_0_0 as gc;
use rkfd_abi::sdma::v7::{self, gcr, op, sub_op};
use rkfd_abi::sdma::Packet;

use super::context::{Context, Stale};
use super::engine::{Engine, Outcome};
use super::error::PacketError;
use super::exec::address;
use crate::engines::gmc::cu::Cache;
use crate::engines::gmc::{Hub, Rmw, VmFault};
use crate::regs::Unit;

impl Engine<'_> {
    /// Executes a packet of SDMA 7; `None`: it is the same as in SDMA 4.4.2.
    pub(super) fn execute_v7(
        &mut self,
        context: &mut Context,
        shape: &Packet,
        words: &[u32],
    ) -> Option<Result<Outcome, VmFault>> {
        Some(match (shape.op, shape.sub_op) {
            (op::GCR_REQ, _) => Ok(self.caches(context, words)),
            (op::GPUVM_INV, _) => Ok(self.invalidate(context, words)),
            (op::POLL_REGMEM, sub_op::VM_INVALIDATION) => {
                Ok(Outcome::Bad(PacketError::PollRegmemInvalidate))
            }
            (op::ATOMIC, sub_op::MEM_INCR) => self.increment(context, words),
            (op::SRBM_WRITE, _) => Ok(self.register_write(context, words)),
            (op::INDIRECT, _) if v7::indirect::PRIV.get(words) != 0 && !context.id.is_kernel() => {
                Ok(Outcome::Bad(PacketError::PrivilegedIb))
            }
            _ => return None,
        })
    }

    /// Executes GCR_REQ: its actions on the L2 and on the caches of the CUs, all of them, whatever
    /// the range is.
    fn caches(&mut self, context: &Context, words: &[u32]) -> Outcome {
        use v7::gcr_req as p;
        let low = p::GCR_CONTROL_15_0.get(words);
        let control = low | p::GCR_CONTROL_18_16.get(words) << p::GCR_CONTROL_15_0.field.width();
        let ranged = gcr::GL1_RANGE.get(control) | gcr::GL2_RANGE.get(control) != 0;
        let join = |lo: u32, hi: u32| u64::from(hi) << 32 | u64::from(lo) << 7;
        let base = join(p::BASE_VA_31_7.get(words), p::BASE_VA_47_32.get(words));
        let limit = join(p::LIMIT_VA_31_7.get(words), p::LIMIT_VA_47_32.get(words));
        if ranged && limit < base {
            self.complain(context, words, "GCR_REQ range ends before it begins");
        }
        let vmid = p::VMID.get(words);
        if vmid != 0 && !context.privileged() {
            self.complain(context, words, "GCR_REQ of a user queue names a VMID");
        }
        if let (Some(l2), Hub::Gfx(xcc)) = (self.gpu.gmc.l2(), self.hub()) {
            if gcr::GL2_WB.get(control) != 0 {
                l2.write_back(xcc);
            }
            if gcr::GL2_INV.get(control) != 0 {
                l2.invalidate(xcc);
            }
        }
        if let (Some(cus), Hub::Gfx(xcc)) = (self.gpu.gmc.cus(), self.hub()) {
            if gcr::GLK_INV.get(control) != 0 {
                cus.invalidate(xcc, &[Cache::Scalar]);
            }
            if gcr::GLV_INV.get(control) != 0 {
                cus.invalidate(xcc, &[Cache::Vector]);
            }
            if gcr::GLI_INV.get(control) != 0 {
                cus.invalidate(xcc, &[Cache::Code]);
            }
        }
        Outcome::Next(p::DWORDS as u64)
    }

    /// Executes GPUVM_INV: invalidates translations of the graphics hub.
    fn invalidate(&mut self, context: &mut Context, words: &[u32]) -> Outcome {
        use v7::gpuvm_inv as p;
        let done = Outcome::Next(p::DWORDS as u64);
        if !context.privileged() {
            self.protected(context, words);
            return done;
        }
        let vmids = p::PER_VMID_INV_REQ.get(words);
        let request = gc::GCVM_INVALIDATE_ENG0_REQ__PER_VMID_INVALIDATE_REQ.put(vmids)
            | gc::GCVM_INVALIDATE_ENG0_REQ__FLUSH_TYPE.put(p::FLUSH_TYPE.get(words));
        self.gpu.gmc.invalidate(self.hub(), request);
        done
    }

    fn increment(&mut self, context: &mut Context, words: &[u32]) -> Result<Outcome, VmFault> {
        use v7::mem_incr as p;
        let at = address(words, p::ADDR_LO, p::ADDR_HI);
        let at = self.aligned(context, words, at, 8);
        let more = &mut |old: u64| old.wrapping_add(1);
        self.gpu
            .gmc
            .vm_atomic(self.hub(), context.vmid(), at, 8, Rmw::Request, more)?;
        Ok(Outcome::Next(p::DWORDS as u64))
    }

    /// Executes SRBM_WRITE of SDMA 7: all bytes of a register, by byte address.
    fn register_write(&mut self, context: &mut Context, words: &[u32]) -> Outcome {
        use v7::register_write as p;
        let done = Outcome::Next(p::DWORDS as u64);
        if !context.privileged() {
            self.protected(context, words);
            return done;
        }
        let at = p::ADDR.get(words);
        if at % 4 != 0 || p::APERTUREID.get(words) != 0 {
            self.complain(context, words, "SRBM_WRITE of no register");
        }
        let stale = self.acknowledged(at / 4);
        self.gpu.reg_write(at / 4, p::DATA.get(words));
        context.stale = stale;
        done
    }

    /// Returns the present ACK of the invalidation engine that the register at dword address `at`
    /// requests.
    fn acknowledged(&self, at: u32) -> Option<Stale> {
        let slot = self.gpu.regs.on_die(0, at)?;
        let hub = match slot.unit {
            Unit::GfxHub => Hub::Gfx(slot.instance),
            Unit::MmHub => Hub::Mm(slot.instance),
            _ => return None,
        };
        let ack = self.gpu.gmc.ack_of(hub, slot.id)?;
        Some(Stale {
            ack: at + ack.off - slot.id.off,
            value: self.gpu.gmc.reg_read(hub, ack),
        })
    }

    /// Reads a register for POLL_REGMEM. A request to an invalidation engine clears its ACK one
    /// register access later (`sdma_v7_0_ring_emit_reg_write_reg_wait`).
    pub(super) fn polled_register(&self, context: &mut Context, words: &[u32], at: u32) -> u32 {
        match context.stale.take() {
            Some(stale) if stale.ack == at => {
                self.complain(
                    context,
                    words,
                    "POLL_REGMEM of an invalidation ACK directly behind the request: it may be \
                     that of the request before",
                );
                stale.value
            }
            _ => self.gpu.reg_read(at),
        }
    }
}
