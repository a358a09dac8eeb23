// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Accesses with respect to the L2s: through the line for shaders, past it for the others.

use gpu_wave::Scope;

use super::cu::stored::Line;
use super::cu::{CuCaches, CuNumber, Via};
use super::l2::{Caches, NoMemory};
use super::{Access, Gmc, Hub, Pa, Target, VmFault};
use crate::strict;

impl Gmc {
    /// Returns the L2s, which exist in adversarial mode.
    pub fn l2(&self) -> Option<&Caches> {
        self.l2.as_deref()
    }

    /// Returns the caches of the CUs, which exist in adversarial mode.
    pub fn cus(&self) -> Option<&CuCaches> {
        self.cus.as_ref()
    }

    /// Loads or fetches for a shader of an XCC, through a cache of the CUs if one may hit.
    pub fn shader_load(
        &self,
        (xcc, vmid): (u8, u8),
        va: u64,
        buf: &mut [u8],
        access: Access,
        (scope, via): (Scope, Option<Via>),
    ) -> Result<(), VmFault> {
        let hub = Hub::Gfx(xcc);
        let Some(l2) = &self.l2 else {
            return self.vm_load(hub, vmid, va, buf, access);
        };
        if via == Some(Via::Scalar) && scope > Scope::Wave {
            self.write_back_scalar(xcc);
        }
        let mut done = 0;
        while done < buf.len() {
            let at = va.wrapping_add(done as u64);
            let guard = self.enter(self.hub(hub));
            let pa = self.lookup(hub, vmid, at, access)?;
            let len = (buf.len() - done).min(pa.left as usize);
            let piece = &mut buf[done..done + len];
            let via = via.filter(|via| via.caches(pa));
            let hit = via.zip(self.cus()).is_some_and(|(via, cus)| {
                if scope > Scope::Wave {
                    cus.forget((xcc, vmid), via, pa.target, len);
                    return false;
                }
                let fill = |pa, line: &mut [u8]| l2.fill(xcc, pa, line);
                cus.read((xcc, vmid), via, pa, piece, fill).is_ok()
            });
            if hit {
                done += len;
                continue;
            }
            if Caches::caches(pa) {
                l2.read(xcc, pa, piece, scope)
                    .map_err(|NoMemory| self.bus_fault(hub, vmid, at, access, pa))?;
            } else {
                drop(guard);
                self.vm_load(hub, vmid, at, piece, access)?;
            }
            done += len;
        }
        Ok(())
    }

    /// Stores for a shader of an XCC, on a CU.
    pub fn shader_store(
        &self,
        (xcc, vmid): (u8, u8),
        va: u64,
        data: &[u8],
        (scope, cu): (Scope, Option<CuNumber>),
    ) -> Result<(), VmFault> {
        let hub = Hub::Gfx(xcc);
        let Some(l2) = &self.l2 else {
            return self.vm_write(hub, vmid, va, data);
        };
        let mut done = 0;
        while done < data.len() {
            let at = va.wrapping_add(done as u64);
            let guard = self.enter(self.hub(hub));
            let pa = self.lookup(hub, vmid, at, Access::Write)?;
            let len = (data.len() - done).min(pa.left as usize);
            let piece = &data[done..done + len];
            // Doorbells and the memory of other devices are never in a line.
            let stored = Caches::caches(pa) && l2.write(xcc, pa, piece, scope).is_ok();
            if !stored {
                drop(guard);
                self.vm_write(hub, vmid, at, piece)?;
            }
            if let (Some(cus), Some(cu)) = (self.cus(), cu) {
                cus.forget((xcc, vmid), Via::Vector(cu), pa.target, len);
            }
            done += len;
        }
        Ok(())
    }

    /// Stores for a scalar instruction on an XCC: the bytes stay in the scalar cache.
    pub fn scalar_store(&self, (xcc, vmid): (u8, u8), va: u64, data: &[u8]) -> Result<(), VmFault> {
        let Some(cus) = self.cus() else {
            return self.shader_store((xcc, vmid), va, data, (Scope::Wave, None));
        };
        let hub = Hub::Gfx(xcc);
        let mut done = 0;
        while done < data.len() {
            let at = va.wrapping_add(done as u64);
            let guard = self.enter(self.hub(hub));
            let pa = self.lookup(hub, vmid, at, Access::Write)?;
            let len = (data.len() - done).min(pa.left as usize);
            let piece = &data[done..done + len];
            // Doorbells and the memory of other devices are never in a line.
            let is_memory = match pa.target {
                Target::Vram(offset) => offset < self.vram.len(),
                Target::System(addr) => self.dma.enter().find(addr, true).is_some(),
            };
            if is_memory {
                let victims = cus.store((xcc, vmid), pa, piece);
                drop(guard);
                self.write_lines(xcc, victims);
            } else {
                drop(guard);
                self.vm_write(hub, vmid, at, piece)?;
            }
            done += len;
        }
        Ok(())
    }

    /// Writes the scalar cache of an XCC back.
    pub fn write_back_scalar(&self, xcc: u8) {
        if let Some(cus) = self.cus() {
            self.write_lines(xcc, cus.take_stored(xcc));
        }
    }

    /// Writes lines of the scalar cache of an XCC to its L2, or to memory.
    fn write_lines(&self, xcc: u8, lines: Vec<Line>) {
        for mut line in lines {
            let first = line.pa;
            let write = |at: u64, data: &[u8]| {
                let target = match first.target {
                    Target::Vram(offset) => Target::Vram(offset + at),
                    Target::System(addr) => Target::System(addr + at),
                };
                self.write_line(xcc, Pa { target, ..first }, data)
            };
            if line.data.write_back(write).is_err() && self.dma.is_master() {
                strict!(
                    self.strict,
                    "cu",
                    "write-back of scalar stores to {:x?}: no memory",
                    first.target
                );
            }
        }
    }

    fn write_line(&self, xcc: u8, pa: Pa, data: &[u8]) -> Result<(), NoMemory> {
        if let (Some(l2), true) = (&self.l2, Caches::caches(pa)) {
            return l2.write(xcc, pa, data, Scope::Wave);
        }
        let hub = Hub::Gfx(xcc);
        self.before_access(hub, pa, data.len());
        let written = match pa.target {
            Target::Vram(offset) => self.vram.write(offset, data).is_ok(),
            Target::System(addr) => self.write_system(addr, data),
        };
        self.after_write(hub, pa, data.len() as u64);
        written.then_some(()).ok_or(NoMemory)
    }

    /// Completes an atomic operation of a shader, which went past the vector cache of its CU.
    pub fn after_atomic(&self, (xcc, vmid): (u8, u8), va: u64, len: usize, cu: CuNumber) {
        let Some(cus) = self.cus() else {
            return;
        };
        if let Ok(pa) = self.translate(Hub::Gfx(xcc), vmid, va, Access::Atomic) {
            cus.forget((xcc, vmid), Via::Vector(cu), pa.target, len);
        }
    }

    /// Prepares an access of another client than a shader: writes back and invalidates the range in
    /// the L2 of its XCC.
    pub(super) fn before_access(&self, hub: Hub, pa: Pa, len: usize) {
        if let (Some(l2), Hub::Gfx(xcc)) = (&self.l2, hub) {
            l2.sync(xcc, pa.target, len);
        }
    }

    /// Completes a write of such a client: invalidates the lines of the range.
    pub(super) fn after_write(&self, hub: Hub, pa: Pa, len: u64) {
        let Some(l2) = &self.l2 else {
            return;
        };
        match hub {
            Hub::Gfx(xcc) => {
                // A load may have filled the line meanwhile.
                l2.sync(xcc, pa.target, len as usize);
                l2.probe(pa.target, len, Some(xcc));
            }
            Hub::Mm(n) if pa.snooped || l2.is_overridden(n) => l2.probe(pa.target, len, None),
            Hub::Mm(_) => {}
        }
    }
}
