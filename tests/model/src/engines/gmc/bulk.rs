// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Copies and fills of many pages: physically contiguous ranges are accessed at once.

use super::{Access, Gmc, Hub, Pa, Target, VmFault};
use crate::dma::Ranges;
use crate::mem::Block;

/// Maximum number of bytes per access, for which TLB invalidation has to wait.
const RUN: u64 = 256 << 10;

/// Maximum number of bytes per access to doorbells.
const DOORBELL: usize = 8;

impl Gmc {
    /// Returns the location of `va` and the number of physically contiguous bytes there, at most
    /// `most`. For callers inside [`super::tlb::Tlb::enter`].
    fn run(&self, hub: Hub, vmid: u8, va: u64, most: u64, access: Access) -> Result<Pa, VmFault> {
        let mut run = self.lookup(hub, vmid, va, access)?;
        while run.left < most {
            // A fault is reported at the start of the next run.
            let Ok(next) = self.lookup(hub, vmid, va.wrapping_add(run.left), access) else {
                break;
            };
            let contiguous = match (run.target, next.target) {
                (Target::Vram(at), Target::Vram(next)) => at + run.left == next,
                (Target::System(at), Target::System(next)) => at + run.left == next,
                _ => false,
            };
            if !contiguous {
                break;
            }
            run.left += next.left;
        }
        run.left = run.left.min(most);
        Ok(run)
    }

    fn block<'a>(
        &'a self,
        ranges: &'a Ranges<'_>,
        run: Pa,
        write: bool,
    ) -> Option<(&'a Block, u64, u64)> {
        match run.target {
            Target::Vram(at) if at < self.vram.len() => {
                Some((&self.vram, at, run.left.min(self.vram.len() - at)))
            }
            Target::Vram(_) => None,
            Target::System(addr) => {
                let (block, at, left) = ranges.find(addr, write)?;
                Some((block, at, left.min(run.left)))
            }
        }
    }

    /// Returns the bus address if a location is in the doorbell BAR.
    fn doorbell(&self, at: Pa) -> Option<u64> {
        match at.target {
            Target::System(addr) if self.selfring.contains(addr) => Some(addr),
            _ => None,
        }
    }

    /// Copies the first part of `len` bytes; returns its length.
    pub fn vm_copy_some(
        &self,
        hub: Hub,
        vmid: u8,
        src: u64,
        dst: u64,
        len: u64,
    ) -> Result<u64, VmFault> {
        let _guard = self.enter(self.hub(hub));
        let from = self.run(hub, vmid, src, len.min(RUN), Access::Read)?;
        let to = self.run(hub, vmid, dst, from.left, Access::Write)?;
        self.before_access(hub, from, from.left as usize);
        self.before_access(hub, to, to.left as usize);
        let ranges = self.dma.enter();
        let bus_error = |va, access, run| self.bus_fault(hub, vmid, va, access, run);
        let (source, at, left) = self
            .block(&ranges, from, false)
            .ok_or_else(|| bus_error(src, Access::Read, from))?;
        if let Some(addr) = self.doorbell(to) {
            let mut data = [0; DOORBELL];
            let data = &mut data[..left.min(to.left).min(DOORBELL as u64) as usize];
            source
                .read(at, data)
                .map_err(|_| bus_error(src, Access::Read, from))?;
            self.selfring.post(addr, data);
            return Ok(data.len() as u64);
        }
        let (target, into, room) = self
            .block(&ranges, to, true)
            .ok_or_else(|| bus_error(dst, Access::Write, to))?;
        let count = left.min(room);
        source
            .copy(at, target, into, count as usize)
            .map_err(|_| bus_error(dst, Access::Write, to))?;
        drop(ranges);
        self.after_write(hub, to, count);
        Ok(count)
    }

    /// Fills the first part of `len` bytes with repetitions of `word`; returns its length: a
    /// multiple of four, so that the next part starts with the first byte of the word again, unless
    /// the address is misaligned for it.
    pub fn vm_fill_some(
        &self,
        hub: Hub,
        vmid: u8,
        dst: u64,
        len: u64,
        word: [u8; 4],
    ) -> Result<u64, VmFault> {
        let _guard = self.enter(self.hub(hub));
        let to = self.run(hub, vmid, dst, len.min(RUN), Access::Write)?;
        if let Some(addr) = self.doorbell(to) {
            let count = to.left.min(DOORBELL as u64);
            self.selfring
                .post(addr, &[word; DOORBELL / 4].as_flattened()[..count as usize]);
            return Ok(count);
        }
        self.before_access(hub, to, to.left as usize);
        let ranges = self.dma.enter();
        let bus_error = || self.bus_fault(hub, vmid, dst, Access::Write, to);
        let (target, into, room) = self.block(&ranges, to, true).ok_or_else(bus_error)?;
        if let (Target::Vram(at), [0, 0, 0, 0]) = (to.target, word) {
            // Allocating host memory for pages that are zero anyway is the slowest part.
            let zero = self.vram.untouched(at, room);
            if zero != 0 {
                drop(ranges);
                self.after_write(hub, to, zero);
                return Ok(zero);
            }
        }
        target.fill(into, room, word).map_err(|_| bus_error())?;
        drop(ranges);
        self.after_write(hub, to, room);
        Ok(room)
    }
}
