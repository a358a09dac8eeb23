// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Interface of the scheduler firmware to user queues: mapping one from its MQD, requesting a
//! dequeue, and reading the saved state.

use gpu_regs::sdma_4_4_2 as regs;

use super::bank::ContextId;
use super::layout::Layout;
use super::{Sdma, Wake};
use crate::engines::gmc::VmFault;

/// Parameters of mapping a queue.
#[derive(Debug, Clone, Copy)]
pub struct RlcMap<'a> {
    /// Engine.
    pub engine: u8,
    /// Context.
    pub rlc: u8,
    /// The MQD.
    pub image: &'a [u32],
    /// Address space.
    pub vmid: u8,
    /// PASID.
    pub pasid: u16,
    /// Dword index on the doorbell BAR.
    pub doorbell: u32,
}

/// Operations of the scheduler firmware on the engines.
pub trait UserQueues: Sync {
    /// Returns the layout of the engines' version.
    fn layout(&self) -> &'static Layout;
    /// Announces that doorbells of this index belong to a queue.
    fn expect_doorbell(&self, index: u32);
    /// Returns whether an engine's context has no queue.
    fn is_free(&self, engine: u8, rlc: u8) -> bool;
    /// Returns whether a doorbell is routed to an engine.
    fn is_routed(&self, engine: u8, doorbell: u32) -> bool;
    /// Maps a queue to its engine. `wptr` reads its write pointer, in bytes, and is called after
    /// the doorbell is enabled: an earlier value is in memory only.
    fn map(&self, map: &RlcMap<'_>, wptr: &dyn Fn() -> Result<u64, VmFault>)
        -> Result<(), VmFault>;
    /// Requests a dequeue. The command processor is woken on completion.
    fn unmap(&self, engine: u8, rlc: u8);
    /// Cancels a dequeue request.
    fn cancel_unmap(&self, engine: u8, rlc: u8);
    /// Returns the MQD update of a dequeued queue: dword, value. `None`: it is still mapped.
    fn dequeued_image(&self, engine: u8, rlc: u8) -> Option<Vec<(usize, u32)>>;
}

impl UserQueues for Sdma {
    fn layout(&self) -> &'static Layout {
        self.layout
    }

    fn expect_doorbell(&self, index: u32) {
        self.doorbells.expect(index);
    }

    fn is_free(&self, engine: u8, rlc: u8) -> bool {
        let id = ContextId::rlc(rlc);
        self.engines
            .get(usize::from(engine))
            .is_some_and(|e| self.layout.has_rlc(rlc) && !e.bank().enabled(id))
    }

    fn is_routed(&self, engine: u8, doorbell: u32) -> bool {
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
                // The value of a doorbell rung meanwhile is newer.
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
        engine.mail.send(Wake::Rescan);
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
            engine.mail.send(Wake::Rescan);
        }
    }

    fn cancel_unmap(&self, engine: u8, rlc: u8) {
        if let Some(engine) = self.engines.get(usize::from(engine)) {
            engine.bank().set_leaving(ContextId::rlc(rlc), false);
        }
    }

    fn dequeued_image(&self, engine: u8, rlc: u8) -> Option<Vec<(usize, u32)>> {
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
        Sdma::new(Chip::by_name("mi300x-1xcc").unwrap(), Boot::Warm)
    }

    /// Returns the write pointer of a queue that is mapped while its owner moves it to 64, given
    /// the value in memory when the scheduler reads it, and whether the doorbell is rung then.
    fn mapped(in_memory: u64, rings: bool) -> u64 {
        let sdma = sdma();
        let id = ContextId::rlc(QUEUE.rlc);
        let ring = || sdma.engines[0].bank().ring(DOORBELL, 64);
        assert_eq!(ring(), Rung::NoQueue);
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
    fn doorbell_during_map_is_not_lost() {
        assert_eq!(mapped(0, false), 0);
        // The doorbell was rung before the mapping.
        assert_eq!(mapped(64, false), 64);
        // The doorbell is rung after the read of memory.
        assert_eq!(mapped(0, true), 64);
        assert_eq!(mapped(64, true), 64);
    }

    #[test]
    fn unreadable_wptr_prevents_map() {
        let sdma = sdma();
        let fault = VmFault {
            hub: Hub::Gfx(0),
            vmid: 8,
            va: 0x1000,
            access: Access::Read,
            kind: FaultKind::NotPresent,
            retry: false,
        };
        assert_eq!(sdma.map(&QUEUE, &|| Err(fault)), Err(fault));
        assert!(sdma.is_free(QUEUE.engine, QUEUE.rlc));
        assert_eq!(sdma.engines[0].bank().ring(DOORBELL, 64), Rung::NoQueue);
    }
}
