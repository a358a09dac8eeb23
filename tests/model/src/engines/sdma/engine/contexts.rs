// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Contexts of an engine: started and stopped by their registers, dequeued by the scheduler.

use gpu_regs::sdma_4_4_2 as regs;

use super::Engine;
use crate::engines::sdma::bank::{Bank, ContextId};
use crate::engines::sdma::context::{Context, Halt};
use crate::{event, strict};

impl Engine<'_> {
    /// Starts and stops contexts by their registers, and reads write pointers.
    pub(super) fn follow_registers(&mut self) {
        let mut bank = self.bank();
        let mut left = false;
        for id in self.layout.contexts() {
            let at = usize::from(id.0);
            let start = bank.start_of(id);
            if bank.is_leaving(id) && self.hung != Some(id) {
                let context = self.contexts[at].take();
                self.leave(&mut bank, id, context);
                left = true;
                continue;
            }
            if self.contexts[at].as_ref().is_some_and(|c| c.start != start) {
                let context = self.contexts[at].take();
                self.stop(&mut bank, id, context);
            }
            if !bank.enabled(id) {
                continue;
            }
            match &mut self.contexts[at] {
                Some(context) => {
                    if context.wptr != bank.wptr(id) {
                        context.wptr = bank.wptr(id);
                        self.check_pointers(at);
                    }
                }
                None if self.refused[at] == Some(start) => {}
                None => self.start(&bank, id),
            }
        }
        drop(bank);
        if left {
            self.gpu.rescan();
        }
    }

    /// Starts a ring that was enabled.
    fn start(&mut self, bank: &Bank, id: ContextId) {
        let n = self.n;
        let pasid = bank.pasid(id);
        match Context::new(id, bank, pasid, self.hub()) {
            Ok(context) => {
                let c = &context.config;
                event!(
                    self.gpu.trace,
                    "sdma",
                    "queue_start",
                    "engine={n} queue={id} vmid={} pasid={pasid} base={:#x} bytes={:#x} rptr={:#x} \
                     wptr={:#x} doorbell={:#x} inside={}",
                    c.vmid,
                    c.base,
                    c.size,
                    context.rptr,
                    context.wptr,
                    bank.doorbell(id),
                    u8::from(context.is_inside())
                );
                let needs = self.layout.control_for_users;
                if !id.is_kernel() && bank.get(regs::regSDMA_CNTL) & needs != needs {
                    strict!(
                        self.gpu.strict,
                        "sdma",
                        "engine {n}: queue {id} starts, but SDMA_CNTL.AUTO_CTXSW_ENABLE is 0"
                    );
                }
                if id.is_kernel() && c.vmid != 0 {
                    strict!(
                        self.gpu.strict,
                        "sdma",
                        "engine {n}: queue {id} with VMID {}",
                        c.vmid
                    );
                }
                self.contexts[usize::from(id.0)] = Some(context);
                self.check_pointers(usize::from(id.0));
            }
            Err(error) => {
                self.refused[usize::from(id.0)] = Some(bank.start_of(id));
                strict!(
                    self.gpu.strict,
                    "sdma",
                    "engine {n}: queue {id} cannot start: {error}"
                );
            }
        }
    }

    /// Stops a ring that was disabled.
    fn stop(&self, bank: &mut Bank, id: ContextId, context: Option<Context>) {
        let Some(context) = context else { return };
        event!(
            self.gpu.trace,
            "sdma",
            "queue_stop",
            "engine={} queue={id} rptr={:#x} wptr={:#x} inside={}",
            self.n,
            context.rptr,
            context.wptr,
            u8::from(context.is_inside())
        );
        // The driver may have set the read pointer for the next start already.
        let rptr = bank.rptr(id);
        bank.publish(id, rptr, false, false);
    }

    /// Completes a dequeue request of the scheduler.
    fn leave(&self, bank: &mut Bank, id: ContextId, context: Option<Context>) {
        if let Some(context) = context {
            event!(
                self.gpu.trace,
                "sdma",
                "queue_end",
                "engine={} queue={id} pasid={} rptr={:#x} wptr={:#x} inside={}",
                self.n,
                context.pasid,
                context.rptr,
                context.wptr,
                u8::from(context.is_inside())
            );
            context.save(bank);
        }
        let control = bank.of(id, regs::regSDMA_GFX_RB_CNTL);
        let enable = regs::SDMA_GFX_RB_CNTL__RB_ENABLE.mask;
        bank.put(id, regs::regSDMA_GFX_RB_CNTL, control & !enable);
        let doorbell = bank.of(id, regs::regSDMA_GFX_DOORBELL);
        let listen = regs::SDMA_GFX_DOORBELL__ENABLE.mask;
        bank.put(id, regs::regSDMA_GFX_DOORBELL, doorbell & !listen);
        bank.set_leaving(id, false);
    }

    /// Validates a changed write pointer.
    pub(super) fn check_pointers(&mut self, at: usize) {
        let n = self.n;
        let Some(context) = &mut self.contexts[at] else {
            return;
        };
        let filled = context.wptr.wrapping_sub(context.rptr);
        let ok = filled <= context.config.size && context.wptr % 4 == 0 && context.rptr % 4 == 0;
        if ok && context.halt == Halt::Pointers {
            context.halt = Halt::No;
        }
        if !ok {
            context.halt = Halt::Pointers;
            strict!(
                self.gpu.strict,
                "sdma",
                "engine {n}: queue {}: write pointer {:#x}, read pointer {:#x}, ring of {:#x} bytes",
                context.id,
                context.wptr,
                context.rptr,
                context.config.size
            );
        }
    }
}
