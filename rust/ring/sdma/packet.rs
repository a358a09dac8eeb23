// SPDX-License-Identifier: GPL-2.0

//! The packets that the kernel gives to a DMA engine, written behind each other into a list of
//! words: a frame on the ring, or an indirect buffer. Layouts come from `abi`.

use core::ops::Deref;

use kernel::prelude::*;
use rkfd_abi::{
    bits::DwField,
    sdma::{self, IB_ALIGN, INDIRECT_END_ALIGN_DW},
};

use crate::hw::{HdpFlush, RegValue, VmSwitch};

/// Words of the longest packet without payload.
const MAX_PACKET: usize = 16;
/// Time between two reads of a register or of memory.
const POLL_INTERVAL: u32 = 10;

const fn lo(value: u64) -> u32 {
    value as u32
}

const fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

/// Packets in a row. The first word has to come to lie at a multiple of 8 words of its ring.
pub(super) struct Words(KVec<u32>);

impl Deref for Words {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.0
    }
}

impl Words {
    /// An empty list.
    pub(super) fn new() -> Self {
        Self(KVec::new())
    }

    /// An empty list with room for `count` words.
    pub(super) fn with_capacity(count: usize) -> Result<Self> {
        Ok(Self(KVec::with_capacity(count, GFP_KERNEL)?))
    }

    /// Words of COPY.
    pub(super) const COPY: usize = sdma::copy_linear::DWORDS;
    /// Words of CONST_FILL.
    pub(super) const FILL: usize = sdma::const_fill::DWORDS;
    /// Words of PTEPDE.
    pub(super) const PTES: usize = sdma::ptepde_gen::DWORDS;

    fn packet(&mut self, shape: &sdma::Packet, fields: &[(DwField, u32)]) -> Result {
        let mut words = [0u32; MAX_PACKET];
        let words = words.get_mut(..shape.dwords).ok_or(EINVAL)?;
        words[0] = shape.header();
        for (field, value) in fields {
            field.set(words, *value);
        }
        self.0.extend_from_slice(words, GFP_KERNEL)?;
        Ok(())
    }

    /// NOPs until a packet of `len` words ends at a multiple of `align` words.
    pub(super) fn pad(&mut self, len: usize, align: usize) -> Result {
        while (self.0.len() + len) % align != 0 {
            self.0.push(sdma::NOP_SINGLE, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// One word to memory.
    pub(super) fn write(&mut self, addr: u64, value: u32) -> Result {
        use sdma::write as p;
        self.packet(
            &p::PACKET,
            &[
                (p::DST_ADDR_LO, lo(addr)),
                (p::DST_ADDR_HI, hi(addr)),
                (p::COUNT, 0),
            ],
        )?;
        *self.0.last_mut().ok_or(EINVAL)? = value;
        Ok(())
    }

    /// One word to memory when everything before is done.
    pub(super) fn fence(&mut self, addr: u64, value: u32) -> Result {
        use sdma::fence as p;
        self.packet(
            &p::PACKET,
            &[
                (p::ADDR_LO, lo(addr)),
                (p::ADDR_HI, hi(addr)),
                (p::DATA, value),
            ],
        )
    }

    /// An interrupt.
    pub(super) fn trap(&mut self, context: u32) -> Result {
        use sdma::trap as p;
        self.packet(&p::PACKET, &[(p::INT_CONTEXT, context)])
    }

    fn register(&mut self, r: RegValue) -> Result {
        use sdma::srbm_write as p;
        let all_bytes = p::BYTE_EN.field.max();
        self.packet(
            &p::PACKET,
            &[
                (p::BYTE_EN, all_bytes),
                (p::ADDR, r.reg),
                (p::DATA, r.value),
            ],
        )
    }

    /// Prepares a VMID.
    pub(super) fn vm_switch(&mut self, switch: &VmSwitch) -> Result {
        use sdma::poll_regmem as p;
        for write in switch.writes {
            self.register(write)?;
        }
        self.packet(
            &p::PACKET,
            &[
                (p::FUNC, p::FUNC_EQUAL),
                (p::ADDR_LO, switch.done.reg << 2),
                (p::VALUE, switch.done.value),
                (p::MASK, switch.done.value),
                (p::INTERVAL, POLL_INTERVAL),
                (p::RETRY_COUNT, p::RETRY_FOR_EVER),
            ],
        )
    }

    /// Makes what the CPU wrote to VRAM visible.
    pub(super) fn hdp_flush(&mut self, flush: &HdpFlush) -> Result {
        use sdma::poll_regmem as p;
        self.packet(
            &p::PACKET,
            &[
                (p::HDP_FLUSH, 1),
                (p::FUNC, p::FUNC_EQUAL),
                (p::ADDR_LO, flush.done << 2),
                (p::ADDR_HI, flush.request << 2),
                (p::VALUE, flush.mask),
                (p::MASK, flush.mask),
                (p::INTERVAL, POLL_INTERVAL),
                (p::RETRY_COUNT, p::RETRY_FOR_EVER),
            ],
        )
    }

    /// Calls an indirect buffer. The low bits of its address do not count.
    pub(super) fn indirect(&mut self, vmid: u32, addr: u64, dwords: u32) -> Result {
        use sdma::indirect as p;
        self.pad(p::DWORDS, INDIRECT_END_ALIGN_DW)?;
        let addr = addr & !(IB_ALIGN - 1);
        self.packet(
            &p::PACKET,
            &[
                (p::VMID, vmid),
                (p::IB_BASE_LO, lo(addr)),
                (p::IB_BASE_HI, hi(addr)),
                (p::IB_SIZE, dwords),
            ],
        )
    }

    /// Fills `len` bytes with a word.
    pub(super) fn fill(&mut self, dst: u64, len: u32, value: u32) -> Result {
        use sdma::const_fill as p;
        self.packet(
            &p::PACKET,
            &[
                (p::FILLSIZE, p::FILLSIZE_DWORD),
                (p::DST_ADDR_LO, lo(dst)),
                (p::DST_ADDR_HI, hi(dst)),
                (p::SRC_DATA, value),
                (p::COUNT, len - 1),
            ],
        )
    }

    /// Copies `len` bytes.
    pub(super) fn copy(&mut self, src: u64, dst: u64, len: u32) -> Result {
        use sdma::copy_linear as p;
        self.packet(
            &p::PACKET,
            &[
                (p::COUNT, len - 1),
                (p::SRC_ADDR_LO, lo(src)),
                (p::SRC_ADDR_HI, hi(src)),
                (p::DST_ADDR_LO, lo(dst)),
                (p::DST_ADDR_HI, hi(dst)),
            ],
        )
    }

    /// Most entries of one PTEPDE.
    pub(super) const MAX_PTES: u32 = sdma::ptepde_gen::COUNT.field.max() + 1;

    /// Writes `count` page table entries at `pe`: `flags`, and an address from `addr` on in
    /// steps of `incr`.
    pub(super) fn ptes(&mut self, pe: u64, addr: u64, flags: u64, incr: u64, count: u32) -> Result {
        use sdma::ptepde_gen as p;
        self.packet(
            &p::PACKET,
            &[
                (p::DST_ADDR_LO, lo(pe)),
                (p::DST_ADDR_HI, hi(pe)),
                (p::MASK_DW0, lo(flags)),
                (p::MASK_DW1, hi(flags)),
                (p::INIT_DW0, lo(addr)),
                (p::INIT_DW1, hi(addr)),
                (p::INCR_DW0, lo(incr)),
                (p::INCR_DW1, hi(incr)),
                (p::COUNT, count - 1),
            ],
        )
    }
}
