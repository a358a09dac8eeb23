// SPDX-License-Identifier: GPL-2.0

//! The packets that the kernel gives to a DMA engine, written behind each other into a list of
//! words: a frame on the ring, or an indirect buffer. What they look like knows the generation.

use core::ops::Deref;

use kernel::prelude::*;

use crate::hw::{DmaPacket, DmaPacketHal, HdpFlush, VmSwitch, DMA_PACKET_DWORDS};

/// Packets in a row. The first word has to come to lie at a multiple of 8 words of its ring.
pub(super) struct Words {
    hal: &'static dyn DmaPacketHal,
    words: KVec<u32>,
}

impl Deref for Words {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.words
    }
}

impl Words {
    /// An empty list.
    pub(super) fn new(hal: &'static dyn DmaPacketHal) -> Self {
        Self::in_memory(hal, KVec::new())
    }

    /// A list behind what is in `words`, with the memory that is there.
    pub(super) fn in_memory(hal: &'static dyn DmaPacketHal, words: KVec<u32>) -> Self {
        Self { hal, words }
    }

    /// A packet, and its length.
    fn packet(&self, packet: &DmaPacket) -> Result<([u32; DMA_PACKET_DWORDS], usize)> {
        let mut out = [0; DMA_PACKET_DWORDS];
        let len = self.hal.emit(packet, &mut out)?;
        Ok((out, len))
    }

    fn append(&mut self, words: &[u32]) -> Result {
        self.words.extend_from_slice(words, GFP_KERNEL)?;
        Ok(())
    }

    fn push(&mut self, packet: DmaPacket) -> Result {
        let (words, len) = self.packet(&packet)?;
        self.append(words.get(..len).ok_or(EINVAL)?)
    }

    /// Appends a packet if the list stays within `max` words; says whether it does.
    pub(super) fn push_within(&mut self, packet: &DmaPacket, max: usize) -> Result<bool> {
        let (words, len) = self.packet(packet)?;
        let fits = self.words.len() + len <= max;
        if fits {
            self.append(words.get(..len).ok_or(EINVAL)?)?;
        }
        Ok(fits)
    }

    /// NOPs until a packet of `len` words ends at a multiple of `align` words.
    pub(super) fn pad(&mut self, len: usize, align: usize) -> Result {
        while (self.words.len() + len) % align != 0 {
            self.words.push(self.hal.nop(), GFP_KERNEL)?;
        }
        Ok(())
    }

    /// One word to memory.
    pub(super) fn write(&mut self, addr: u64, value: u32) -> Result {
        self.push(DmaPacket::Write { addr, value })
    }

    /// One word to memory when everything before is done.
    pub(super) fn fence(&mut self, addr: u64, value: u32) -> Result {
        self.push(DmaPacket::Fence { addr, value })
    }

    /// An interrupt.
    pub(super) fn trap(&mut self, context: u32) -> Result {
        self.push(DmaPacket::Trap { context })
    }

    /// Prepares a VMID.
    pub(super) fn vm_switch(&mut self, switch: &VmSwitch) -> Result {
        for write in switch.writes {
            self.push(DmaPacket::WriteReg(write))?;
        }
        self.push(DmaPacket::WaitReg(switch.done))
    }

    /// Makes what the CPU wrote to VRAM visible.
    pub(super) fn hdp_flush(&mut self, flush: &HdpFlush) -> Result {
        self.push(DmaPacket::HdpFlush(*flush))
    }

    /// Calls an indirect buffer. The low bits of its address do not count.
    pub(super) fn indirect(&mut self, vmid: u32, addr: u64, dwords: u32) -> Result {
        let (words, len) = self.packet(&DmaPacket::Indirect { vmid, addr, dwords })?;
        self.pad(len, self.hal.indirect_end_align())?;
        self.append(words.get(..len).ok_or(EINVAL)?)
    }
}
