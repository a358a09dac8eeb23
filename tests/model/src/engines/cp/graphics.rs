// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The kernel queue of the graphics pipe of gfx12, which MES maps (`gfx_v12_0_kgq_init_queue`). It
//! executes the packets that the other PM4 queues have; there is nothing that draws.
//!
//! Its registers `CP_GFX_HQD_*` are not banked with those of the compute queues. The configuration
//! is kept in a bank of its own all the same, under the names of the compute registers.

use gpu_regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc};
use rkfd_abi::bits::join;

use super::engine::Engine;
use super::queue::{Class, Queue};
use super::save::LoadError;
use super::slot::Slot;
use crate::engines::gmc::VmFault;
use crate::engines::mes::Load;
use crate::strict;

/// Dwords of the MQD (`struct v12_gfx_mqd`) that are used here.
mod dw {
    pub const MQD_BASE: usize = 128;
    pub const ACTIVE: usize = 130;
    pub const VMID: usize = 131;
    pub const BASE: usize = 136;
    pub const RPTR: usize = 138;
    pub const RPTR_ADDR: usize = 139;
    pub const WPTR_POLL: usize = 141;
    pub const DOORBELL_CONTROL: usize = 143;
    pub const CNTL: usize = 145;
    pub const WPTR: usize = 149;
    pub const CONTROL: usize = 162;
    /// Dwords up to the last of these.
    pub const COUNT: usize = 163;
}

impl Engine<'_> {
    /// Loads the queue of the graphics pipe from its MQD and activates it.
    pub(super) fn map_graphics(&mut self, load: &Load) -> Result<(), LoadError> {
        let mqd = self.env.read_dwords(0, load.mqd, dw::COUNT)?;
        let own = join(mqd[dw::MQD_BASE], mqd[dw::MQD_BASE + 1]);
        let doorbell = gc12::CP_RB_DOORBELL_CONTROL__DOORBELL_OFFSET.get(mqd[dw::DOORBELL_CONTROL]);
        let wptr = join(mqd[dw::WPTR_POLL], mqd[dw::WPTR_POLL + 1]);
        let privileged = gc12::CP_GFX_MQD_CONTROL__PRIV_STATE.is_set(mqd[dw::CONTROL]);
        let vmids = mqd[dw::VMID] & 15 | gc12::CP_GFX_MQD_CONTROL__VMID.get(mqd[dw::CONTROL]);
        let fits = own == load.mqd && doorbell == load.doorbell && wptr == load.wptr;
        if !fits || vmids != 0 || mqd[dw::ACTIVE] & 1 == 0 {
            strict!(
                self.env.strict(),
                "cp",
                "graphics MQD {:#x} with address {own:#x}, doorbell {doorbell:#x}, write pointer at \
                 {wptr:#x}, VMID {vmids}, active {}: mapped with {load:x?}",
                load.mqd,
                mqd[dw::ACTIVE]
            );
            return Err(LoadError::Invalid);
        }
        {
            let mut banks = self.banks();
            let bank = banks.slot_mut(load.slot);
            bank.set64(gc::regCP_MQD_BASE_ADDR, own);
            bank.set64(
                gc::regCP_HQD_PQ_BASE,
                join(mqd[dw::BASE], mqd[dw::BASE + 1]),
            );
            let size = gc12::CP_GFX_HQD_CNTL__RB_BUFSZ.get(mqd[dw::CNTL]);
            let state = match privileged {
                true => gc::CP_HQD_PQ_CONTROL__PRIV_STATE.mask,
                false => 0,
            };
            let control = gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE.put(size) | state;
            bank.set(gc::regCP_HQD_PQ_CONTROL, control);
            bank.set64(
                gc::regCP_HQD_PQ_RPTR_REPORT_ADDR,
                join(mqd[dw::RPTR_ADDR], mqd[dw::RPTR_ADDR + 1]),
            );
            bank.set64(gc::regCP_HQD_PQ_WPTR_POLL_ADDR, wptr);
            let control = gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_EN.mask
                | gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET.put(doorbell);
            bank.set(gc::regCP_HQD_PQ_DOORBELL_CONTROL, control);
            bank.set(gc::regCP_HQD_VMID, 0);
            bank.set(gc::regCP_HQD_PQ_RPTR, mqd[dw::RPTR]);
            bank.set64(
                gc::regCP_HQD_PQ_WPTR_LO,
                join(mqd[dw::WPTR], mqd[dw::WPTR + 1]),
            );
            bank.set(gc::regCP_HQD_DEQUEUE_REQUEST, 0);
            bank.set(gc::regCP_HQD_ACTIVE, 1);
        }
        if !self.activate(load.slot, Class::Normal, load.pasid, true) {
            self.banks()
                .slot_mut(load.slot)
                .set(gc::regCP_HQD_ACTIVE, 0);
            return Err(LoadError::Invalid);
        }
        if let Some(mut queue) = self.queues[usize::from(load.slot.0)].take() {
            self.read_wptr(&mut queue);
            self.queues[usize::from(load.slot.0)] = Some(queue);
        }
        Ok(())
    }

    /// Writes the pointers of the graphics queue to its MQD when it is unmapped.
    pub(super) fn save_graphics(&self, queue: &Queue) -> Result<(), VmFault> {
        let mqd = queue.config.mqd;
        let rptr = queue.config.narrow_rptr(queue.rptr);
        for (n, value) in [
            (dw::RPTR, rptr),
            (dw::WPTR, queue.wptr as u32),
            (dw::WPTR + 1, (queue.wptr >> 32) as u32),
            (dw::ACTIVE, 0),
        ] {
            self.env.write32(0, mqd.wrapping_add(n as u64 * 4), value)?;
        }
        Ok(())
    }
}

/// Returns whether a queue is that of the graphics pipe.
pub fn is_graphics(slot: Slot) -> bool {
    slot == Slot::GRAPHICS
}
