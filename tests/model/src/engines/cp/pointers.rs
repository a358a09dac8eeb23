// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Read and write pointers of queues, and their doorbells.

use gpu_regs::gc_9_4_3 as gc;
use rkfd_abi::doorbell::{DWORDS, MIRROR};

use super::engine::Engine;
use super::env::client;
use super::graphics::is_graphics;
use super::queue::{Format, Halt, Queue};
use super::slot::Slot;
use crate::chips::Generation;
use crate::{event, strict};

impl Engine<'_> {
    /// Reports the read pointer to memory and to the register.
    pub(super) fn report_rptr(&mut self, queue: &mut Queue) {
        let register = queue.config.narrow_rptr(queue.rptr);
        self.banks()
            .slot_mut(queue.slot)
            .set(gc::regCP_HQD_PQ_RPTR, register);
        if self.report_hiq(queue) {
            return;
        }
        let (vmid, to) = (queue.config.vmid, queue.config.rptr_report);
        if to == 0 {
            return;
        }
        let written = match queue.config.format {
            Format::Pm4 => self.env.write32(vmid, to, register),
            Format::Aql => self.env.write64(vmid, to, queue.rptr),
        };
        if let Err(fault) = written {
            self.fault(queue, &fault, client::CPC);
        }
    }

    pub(super) fn doorbell(&mut self, index: u32, value: u64, width: u8) {
        let slot = self.banks().find_doorbell(index);
        if index / DWORDS < MIRROR && !self.is_in_range(index, slot) {
            return;
        }
        let Some(slot) = slot else {
            if self.mes_doorbell(index, value) {
                return;
            }
            self.env.doorbells().unmapped(index, value);
            event!(
                self.env.trace(),
                "cp",
                "doorbell_unmapped",
                "xcc={} index={index:#x} value={value:#x}",
                self.env.xcc()
            );
            return;
        };
        {
            let mut banks = self.banks();
            let bank = banks.slot_mut(slot);
            let control = bank.get(gc::regCP_HQD_PQ_DOORBELL_CONTROL);
            let hit = gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_HIT.mask;
            bank.set(gc::regCP_HQD_PQ_DOORBELL_CONTROL, control | hit);
        }
        let Some(mut queue) = self.queues[usize::from(slot.0)].take() else {
            return;
        };
        match (queue.config.format, width) {
            _ if queue.is_secondary() => {}
            (Format::Pm4, 8) => self.set_wptr(&mut queue, value),
            (Format::Pm4, _) => {
                let high = queue.wptr & !0xffff_ffff;
                let low = value & 0xffff_ffff;
                let carry = u64::from(low < queue.wptr & 0xffff_ffff) << 32;
                self.set_wptr(&mut queue, high + carry + low);
            }
            (Format::Aql, _) => {
                queue.stalled = queue.pasid != 0 && self.env.knobs().cp_stall.shift();
                self.read_wptr(&mut queue);
                if value > queue.wptr && queue.halt == Halt::No {
                    strict!(
                        self.env.strict(),
                        "cp",
                        "queue {slot}: doorbell {value:#x}, but the write index in memory is {:#x}",
                        queue.wptr
                    );
                }
            }
        }
        self.queues[usize::from(slot.0)] = Some(queue);
    }

    /// Returns whether the doorbell of a kernel queue reaches its processor: that of the graphics
    /// pipe is in the range of the pipe, no other is (gfx12).
    fn is_in_range(&self, index: u32, slot: Option<Slot>) -> bool {
        if self.generation() == Generation::Gfx9 {
            return true;
        }
        let (overlap, is_graphics_doorbell) = {
            let banks = self.banks();
            (
                banks.overlapping_ranges(),
                banks.is_graphics_doorbell(index),
            )
        };
        if let Some([graphics, mec]) = overlap {
            strict!(
                self.env.strict(),
                "cp",
                "doorbell {index:#x}: CP_RB_DOORBELL_RANGE {graphics:x?} overlaps \
                 CP_MEC_DOORBELL_RANGE {mec:x?}"
            );
        }
        let fits = slot.is_none_or(|slot| is_graphics(slot) == is_graphics_doorbell);
        if !fits {
            strict!(
                self.env.strict(),
                "cp",
                "doorbell {index:#x} of queue {} does not reach it by the range of graphics rings",
                slot.map_or(String::new(), |slot| slot.to_string())
            );
        }
        fits
    }

    /// Sets the write pointer, if it is valid.
    fn set_wptr(&mut self, queue: &mut Queue, wptr: u64) {
        let behind = queue.wptr.wrapping_sub(wptr);
        if queue.config.format == Format::Pm4 && (1..=queue.config.capacity()).contains(&behind) {
            // The doorbell was rung before the queue was mapped, and mapping read a later value.
            return;
        }
        let filled = wptr.wrapping_sub(queue.rptr);
        let most = match queue.config.format {
            Format::Pm4 => queue.config.capacity(),
            // Producers reserve an index first and wait for its slot to be free afterwards.
            Format::Aql => 1 << 28,
        };
        if filled > most {
            strict!(
                self.env.strict(),
                "cp",
                "queue {}: write pointer {wptr:#x}, read pointer {:#x}, ring of {:#x}",
                queue.slot,
                queue.rptr,
                queue.config.capacity()
            );
            return;
        }
        queue.wptr = wptr;
        let scale = if queue.config.format == Format::Aql {
            16
        } else {
            1
        };
        self.banks()
            .slot_mut(queue.slot)
            .set64(gc::regCP_HQD_PQ_WPTR_LO, wptr.wrapping_mul(scale));
    }

    /// Reads the write pointer from memory.
    pub(super) fn read_wptr(&mut self, queue: &mut Queue) {
        let (vmid, at) = (queue.config.vmid, queue.config.wptr_poll);
        match self.env.read64(vmid, at) {
            Ok(wptr) => self.set_wptr(queue, wptr),
            Err(fault) => self.fault(queue, &fault, client::CPF),
        }
    }

    pub(super) fn poll_wptr(&mut self, slot: Slot) {
        if let Some(mut queue) = self.queues[usize::from(slot.0)].take() {
            self.banks().take_poll_once(slot);
            self.read_wptr(&mut queue);
            self.queues[usize::from(slot.0)] = Some(queue);
        }
    }

    pub(super) fn wptr_by_register(&mut self, slot: Slot) {
        let wptr = self.banks().slot(slot).get64(gc::regCP_HQD_PQ_WPTR_LO);
        if let Some(mut queue) = self.queues[usize::from(slot.0)].take() {
            match queue.config.format {
                Format::Pm4 => self.set_wptr(&mut queue, wptr),
                Format::Aql => self.set_wptr(&mut queue, wptr / 16),
            }
            self.queues[usize::from(slot.0)] = Some(queue);
        }
    }
}
