// SPDX-License-Identifier: GPL-2.0

//! Assembles SDMA packets into a list of dwords: a frame on the ring, or an IB. The encoding is
//! that of the generation.

use core::ops::Deref;

use kernel::{
    alloc::{flags::GFP_NOWAIT, Flags},
    prelude::*,
};

use crate::hw::{DmaPacket, DmaPacketHal, HdpFlush, VmSwitch, DMA_PACKET_DWORDS};

/// Consecutive SDMA packets. The first dword has to be placed at a multiple of 8 dwords in the
/// ring.
pub(super) struct Words {
    hal: &'static dyn DmaPacketHal,
    words: KVec<u32>,
    /// How the list grows.
    grow: Flags,
}

impl Deref for Words {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.words
    }
}

impl Words {
    /// Returns an empty list.
    pub(super) fn new(hal: &'static dyn DmaPacketHal) -> Self {
        Self {
            hal,
            words: KVec::new(),
            grow: GFP_KERNEL,
        }
    }

    /// Returns a list that continues `words` and uses its spare capacity. Never waits for memory:
    /// for the fence signalling path.
    pub(super) fn in_memory(hal: &'static dyn DmaPacketHal, words: KVec<u32>) -> Self {
        Self {
            hal,
            words,
            grow: GFP_NOWAIT,
        }
    }

    /// Returns the encoded packet and its length in dwords.
    fn packet(&self, packet: &DmaPacket) -> Result<([u32; DMA_PACKET_DWORDS], usize)> {
        let mut out = [0; DMA_PACKET_DWORDS];
        let len = self.hal.emit(packet, &mut out)?;
        Ok((out, len))
    }

    fn append(&mut self, words: &[u32]) -> Result {
        self.words.extend_from_slice(words, self.grow)?;
        Ok(())
    }

    fn push(&mut self, packet: DmaPacket) -> Result {
        let (words, len) = self.packet(&packet)?;
        self.append(words.get(..len).ok_or(EINVAL)?)
    }

    /// Appends a packet if the list stays within `max` dwords. Returns whether it does. `ENOMEM`
    /// without memory.
    pub(super) fn push_within(&mut self, packet: &DmaPacket, max: usize) -> Result<bool> {
        let (words, len) = self.packet(packet)?;
        let fits = self.words.len() + len <= max;
        if fits {
            self.append(words.get(..len).ok_or(EINVAL)?)?;
        }
        Ok(fits)
    }

    /// Appends NOPs until a packet of `len` dwords would end at a multiple of `align` dwords.
    /// `ENOMEM` without memory.
    pub(super) fn pad(&mut self, len: usize, align: usize) -> Result {
        while (self.words.len() + len) % align != 0 {
            self.words.push(self.hal.nop(), self.grow)?;
        }
        Ok(())
    }

    /// Appends the write of a dword to memory.
    pub(super) fn write(&mut self, addr: u64, value: u32) -> Result {
        self.push(DmaPacket::Write { addr, value })
    }

    /// Appends a fence: writes a dword when all earlier packets have completed.
    pub(super) fn fence(&mut self, addr: u64, value: u32) -> Result {
        self.push(DmaPacket::Fence { addr, value })
    }

    /// Appends a wait until a dword in memory is `value`.
    pub(super) fn wait_mem(&mut self, addr: u64, value: u32) -> Result {
        self.push(DmaPacket::WaitMem { addr, value })
    }

    /// Appends a write back and invalidation of the caches that SDMA uses, if there are any.
    pub(super) fn mem_sync(&mut self) -> Result {
        self.push(DmaPacket::MemSync)
    }

    /// Appends an interrupt.
    pub(super) fn trap(&mut self, context: u32) -> Result {
        self.push(DmaPacket::Trap { context })
    }

    /// Appends the switch of a VMID to an address space.
    pub(super) fn vm_switch(&mut self, switch: &VmSwitch) -> Result {
        for write in switch.writes {
            self.push(DmaPacket::WriteReg(write))?;
        }
        if let Some(readback) = switch.readback {
            self.push(DmaPacket::WaitReg(readback))?;
        }
        self.push(DmaPacket::WaitReg(switch.done))
    }

    /// Appends an HDP flush: makes CPU writes to VRAM visible to the engine.
    pub(super) fn hdp_flush(&mut self, flush: &HdpFlush) -> Result {
        self.push(DmaPacket::HdpFlush(*flush))
    }

    /// Appends an INDIRECT packet for an IB. The low 5 bits of its address are ignored.
    pub(super) fn indirect(&mut self, vmid: u32, addr: u64, dwords: u32) -> Result {
        let (words, len) = self.packet(&DmaPacket::Indirect { vmid, addr, dwords })?;
        self.pad(len, self.hal.indirect_end_align())?;
        self.append(words.get(..len).ok_or(EINVAL)?)
    }
}
