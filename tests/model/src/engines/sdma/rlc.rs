// SPDX-License-Identifier: GPL-2.0 OR MIT

//! User queues of the engines, as the scheduler firmware handles them: loading one from its MQD,
//! asking it to leave, and reading what it left behind.

use rkfd_abi::regs::sdma_4_4_2 as regs;

use super::bank::ContextId;
use super::layout::Layout;
use super::{lock, Sdma, Wake};

/// A queue to be put on an engine.
#[derive(Debug, Clone, Copy)]
pub struct RlcMap<'a> {
    /// Engine.
    pub engine: u8,
    /// Its context.
    pub rlc: u8,
    /// The MQD.
    pub image: &'a [u32],
    /// Address space.
    pub vmid: u8,
    /// Process.
    pub pasid: u16,
    /// Dword index on the doorbell BAR.
    pub doorbell: u32,
    /// Write pointer in bytes.
    pub wptr: u64,
}

/// What the scheduler firmware does with the engines.
pub trait UserQueues: Sync {
    /// What the engines' version decides.
    fn layout(&self) -> &'static Layout;
    /// Doorbells of this index will have a queue.
    fn expect_doorbell(&self, index: u32);
    /// Whether an engine's context has no queue.
    fn is_free(&self, engine: u8, rlc: u8) -> bool;
    /// Whether the bus delivers a doorbell to an engine.
    fn reaches(&self, engine: u8, doorbell: u32) -> bool;
    /// Puts a queue on its engine.
    fn map(&self, map: &RlcMap<'_>);
    /// Asks a queue to leave its engine. The command processor is woken when it has.
    fn unmap(&self, engine: u8, rlc: u8);
    /// Takes back the wish that a queue leaves.
    fn keep(&self, engine: u8, rlc: u8);
    /// What a queue that has left its engine leaves in its MQD: dword, value. `None`: it is still
    /// there.
    fn left_behind(&self, engine: u8, rlc: u8) -> Option<Vec<(usize, u32)>>;
}

impl UserQueues for Sdma {
    fn layout(&self) -> &'static Layout {
        self.layout
    }

    fn expect_doorbell(&self, index: u32) {
        lock(&self.doorbells).known.insert(index);
    }

    fn is_free(&self, engine: u8, rlc: u8) -> bool {
        let id = ContextId::rlc(rlc);
        self.engines
            .get(usize::from(engine))
            .is_some_and(|e| self.layout.has_rlc(rlc) && !e.bank().enabled(id))
    }

    fn reaches(&self, engine: u8, doorbell: u32) -> bool {
        self.engine_of(doorbell) == Some(usize::from(engine))
    }

    fn map(&self, map: &RlcMap<'_>) {
        let Some(engine) = self.engines.get(usize::from(map.engine)) else {
            return;
        };
        let id = ContextId::rlc(map.rlc);
        {
            let mut bank = engine.bank();
            for &(n, reg) in self.layout.image {
                if reg != regs::regSDMA_GFX_RB_CNTL {
                    bank.put(id, reg, map.image[n]);
                }
            }
            let offset = regs::SDMA_GFX_DOORBELL_OFFSET__OFFSET.put(map.doorbell);
            bank.put(id, regs::regSDMA_GFX_DOORBELL_OFFSET, offset);
            let listen = regs::SDMA_GFX_DOORBELL__ENABLE.mask;
            bank.put(id, regs::regSDMA_GFX_DOORBELL, listen);
            bank.set_wptr(id, map.wptr);
            bank.set_pasid(id, map.pasid);
            bank.set_leaving(id, false);
            let control = regs::SDMA_GFX_RB_CNTL__RB_VMID
                .set(map.image[self.layout.mqd.rb_cntl], map.vmid.into());
            let enable = regs::SDMA_GFX_RB_CNTL__RB_ENABLE.mask;
            bank.put(id, regs::regSDMA_GFX_RB_CNTL, control | enable);
        }
        self.expect_doorbell(map.doorbell);
        engine.mail.send(Wake::Look);
    }

    fn unmap(&self, engine: u8, rlc: u8) {
        let id = ContextId::rlc(rlc);
        if let Some(engine) = self.engines.get(usize::from(engine)) {
            let mut bank = engine.bank();
            if bank.enabled(id) {
                bank.set_leaving(id, true);
            }
            drop(bank);
            engine.mail.send(Wake::Look);
        }
    }

    fn keep(&self, engine: u8, rlc: u8) {
        if let Some(engine) = self.engines.get(usize::from(engine)) {
            engine.bank().set_leaving(ContextId::rlc(rlc), false);
        }
    }

    fn left_behind(&self, engine: u8, rlc: u8) -> Option<Vec<(usize, u32)>> {
        let id = ContextId::rlc(rlc);
        let bank = self.engines.get(usize::from(engine))?.bank();
        if bank.enabled(id) || bank.is_leaving(id) || !bank.is_idle(id) {
            return None;
        }
        let vmid = regs::SDMA_GFX_RB_CNTL__RB_VMID.mask;
        let image = self.layout.image.iter().map(|&(n, reg)| match reg {
            regs::regSDMA_GFX_RB_CNTL => (n, bank.of(id, reg) & !vmid),
            regs::regSDMA_GFX_CONTEXT_STATUS => (n, bank.status(id)),
            _ => (n, bank.of(id, reg)),
        });
        Some(image.collect())
    }
}
