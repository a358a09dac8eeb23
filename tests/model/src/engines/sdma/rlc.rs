// SPDX-License-Identifier: GPL-2.0 OR MIT

//! User queues of the engines, as the scheduler firmware handles them: loading one from its MQD,
//! asking it to leave, and reading what it left behind.

use gpu_regs::sdma_4_4_2 as regs;

use super::bank::ContextId;
use super::layout::Layout;
use super::{lock, Sdma, Wake};
use crate::engines::gmc::VmFault;

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
    /// Puts a queue on its engine. `wptr` reads its write pointer, in bytes, which is asked for
    /// when doorbells are heard already: what rang before has left it in memory only.
    fn map(&self, map: &RlcMap<'_>, wptr: &dyn Fn() -> Result<u64, VmFault>)
        -> Result<(), VmFault>;
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

    fn map(
        &self,
        map: &RlcMap<'_>,
        wptr: &dyn Fn() -> Result<u64, VmFault>,
    ) -> Result<(), VmFault> {
        let Some(engine) = self.engines.get(usize::from(map.engine)) else {
            return Ok(());
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
            let rptr = bank.rptr(id);
            bank.set_wptr(id, rptr);
        }
        let wptr = wptr();
        {
            let mut bank = engine.bank();
            match wptr {
                // A doorbell that was heard meanwhile is newer.
                Ok(wptr) if wptr <= bank.wptr(id) => {}
                Ok(wptr) => bank.set_wptr(id, wptr),
                Err(fault) => {
                    bank.put(id, regs::regSDMA_GFX_DOORBELL, 0);
                    return Err(fault);
                }
            }
            bank.set_pasid(id, map.pasid);
            bank.set_leaving(id, false);
            let control = regs::SDMA_GFX_RB_CNTL__RB_VMID
                .set(map.image[self.layout.mqd.rb_cntl], map.vmid.into());
            let enable = regs::SDMA_GFX_RB_CNTL__RB_ENABLE.mask;
            bank.put(id, regs::regSDMA_GFX_RB_CNTL, control | enable);
        }
        self.expect_doorbell(map.doorbell);
        engine.mail.send(Wake::Look);
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chips::Chip;
    use crate::engines::gmc::{Access, FaultKind, Hub};
    use crate::engines::sdma::bank::Rung;
    use crate::gpu::Boot;

    const DOORBELL: u32 = 0x200;
    const QUEUE: RlcMap<'_> = RlcMap {
        engine: 0,
        rlc: 1,
        image: &[0; 128],
        vmid: 8,
        pasid: 7,
        doorbell: DOORBELL,
    };

    fn sdma() -> Sdma {
        Sdma::new(Chip::by_name("mi300x").unwrap(), Boot::Warm)
    }

    /// The write pointer of a queue that is mapped while its owner moves it to 64: what is in
    /// memory when the scheduler looks, and whether the owner rings then.
    fn mapped(in_memory: u64, rings: bool) -> u64 {
        let sdma = sdma();
        let id = ContextId::rlc(QUEUE.rlc);
        let ring = || sdma.engines[0].bank().ring(DOORBELL, 64);
        assert_eq!(ring(), Rung::Nobody);
        sdma.map(&QUEUE, &|| {
            if rings {
                assert_eq!(ring(), Rung::Moved(id));
            }
            Ok(in_memory)
        })
        .unwrap();
        let bank = sdma.engines[0].bank();
        assert!(bank.enabled(id));
        bank.wptr(id)
    }

    #[test]
    fn no_doorbell_is_lost_while_a_queue_is_mapped() {
        assert_eq!(mapped(0, false), 0);
        // It rang before, to deaf ears.
        assert_eq!(mapped(64, false), 64);
        // It rings when memory has been read.
        assert_eq!(mapped(0, true), 64);
        assert_eq!(mapped(64, true), 64);
    }

    #[test]
    fn a_queue_whose_write_pointer_cannot_be_read_is_not_mapped() {
        let sdma = sdma();
        let fault = VmFault {
            hub: Hub::Gfx,
            vmid: 8,
            va: 0x1000,
            access: Access::Read,
            kind: FaultKind::NotPresent,
        };
        assert_eq!(sdma.map(&QUEUE, &|| Err(fault)), Err(fault));
        assert!(sdma.is_free(QUEUE.engine, QUEUE.rlc));
        assert_eq!(sdma.engines[0].bank().ring(DOORBELL, 64), Rung::Nobody);
    }
}
