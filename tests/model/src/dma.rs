// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Guest memory, accessed over the bus: maps bus addresses to mappings of guest RAM files.
//!
//! The client maps and unmaps DMA ranges at any time; an unmap waits for the accesses in flight.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLockReadGuard};

use crate::mem::{Block, OutOfBlock};
use crate::shards::Shards;

/// An access to a bus address that no guest memory backs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusError {
    /// First byte of the access.
    pub addr: u64,
    /// Length of the access in bytes.
    pub len: usize,
}

struct Range {
    base: u64,
    size: u64,
    read: bool,
    write: bool,
    /// `None`: the client has something there that cannot be mapped (another device's BAR).
    block: Option<Block>,
}

/// Read guard on the DMA ranges.
pub struct Ranges<'a>(RwLockReadGuard<'a, Vec<Arc<Range>>>);

impl Ranges<'_> {
    /// Returns the block behind a bus address, the offset in it, and the number of bytes that
    /// follow in the range.
    pub fn find(&self, addr: u64, write: bool) -> Option<(&Block, u64, u64)> {
        let at = self.0.partition_point(|r| r.base <= addr).checked_sub(1)?;
        let range = &self.0[at];
        let within = addr - range.base;
        let allowed = if write { range.write } else { range.read };
        if within >= range.size || !allowed {
            return None;
        }
        Some((range.block.as_ref()?, within, range.size - within))
    }
}

/// All DMA ranges that the client mapped.
#[derive(Default)]
pub struct GuestMemory {
    ranges: Shards<Vec<Arc<Range>>>,
    atomics: AtomicBool,
}

impl GuestMemory {
    /// Sets whether the card may send AtomicOp requests (AtomicOp Requester Enable).
    pub fn set_atomics(&self, on: bool) {
        self.atomics.store(on, Ordering::Release);
    }

    /// Returns whether the card may send AtomicOp requests.
    pub fn sends_atomics(&self) -> bool {
        self.atomics.load(Ordering::Acquire)
    }

    /// Maps `size` bytes at bus address `base`. Without `file` the range is known but not
    /// accessible.
    pub fn map(
        &self,
        base: u64,
        size: u64,
        file: Option<(File, u64)>,
        read: bool,
        write: bool,
    ) -> io::Result<()> {
        let end = base
            .checked_add(size)
            .filter(|_| size != 0)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let block = match file {
            Some((file, offset)) => Some(Block::map(file, offset, size)?),
            None => None,
        };
        let range = Arc::new(Range {
            base,
            size,
            read,
            write,
            block,
        });
        self.ranges.update(|ranges| {
            let at = ranges.partition_point(|r| r.base < base);
            let overlaps = ranges.get(at).is_some_and(|r| r.base < end)
                || at
                    .checked_sub(1)
                    .is_some_and(|i| ranges[i].base + ranges[i].size > base);
            if overlaps {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    format!("DMA range {base:#x}+{size:#x} overlaps a mapped one"),
                ));
            }
            ranges.insert(at, range);
            Ok(())
        })
    }

    /// Unmaps every range inside `base..base+size`; returns their number.
    pub fn unmap(&self, base: u64, size: u64) -> usize {
        let end = base.saturating_add(size);
        self.ranges.update(|ranges| {
            let before = ranges.len();
            ranges.retain(|r| !(r.base >= base && r.base + r.size <= end));
            before - ranges.len()
        })
    }

    /// Unmaps all ranges.
    pub fn unmap_all(&self) {
        self.ranges.update(Vec::clear);
    }

    fn with<R>(
        &self,
        addr: u64,
        len: usize,
        ok: impl Fn(&Range) -> bool,
        f: impl FnOnce(&Block, u64) -> Result<R, OutOfBlock>,
    ) -> Result<R, BusError> {
        let fail = BusError { addr, len };
        // The guard is held until the access is over: once `unmap` returns, nothing uses the range.
        let ranges = self.ranges.read();
        let at = ranges.partition_point(|r| r.base <= addr).checked_sub(1);
        let range = at.map(|at| &ranges[at]).ok_or(fail)?;
        let within = addr - range.base;
        if within >= range.size || len as u64 > range.size - within || !ok(range) {
            return Err(fail);
        }
        let block = range.block.as_ref().ok_or(fail)?;
        f(block, within).map_err(|_| fail)
    }

    /// Takes the read guard, for accesses to more than one range at once. A thread that holds it
    /// must not call the other functions: they take it too, and `unmap` may be waiting between the
    /// two.
    pub fn enter(&self) -> Ranges<'_> {
        Ranges(self.ranges.read())
    }

    /// Copies from guest memory.
    pub fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), BusError> {
        let len = buf.len();
        match self.with(addr, len, |r| r.read, |b, o| b.read(o, buf)) {
            Err(e) if len > 1 => self.read_pieces(addr, buf).map_err(|_| e),
            other => other,
        }
    }

    /// Copies into guest memory.
    pub fn write(&self, addr: u64, data: &[u8]) -> Result<(), BusError> {
        match self.with(addr, data.len(), |r| r.write, |b, o| b.write(o, data)) {
            Err(e) if data.len() > 1 => self.write_pieces(addr, data).map_err(|_| e),
            other => other,
        }
    }

    /// See [`Block::atomic`].
    pub fn atomic(
        &self,
        addr: u64,
        size: u8,
        f: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, BusError> {
        let rw = |r: &Range| r.read && r.write;
        self.with(addr, size.into(), rw, |b, o| b.atomic(o, size, f))
    }

    /// One aligned 32-bit load.
    pub fn load32(&self, addr: u64) -> Result<u32, BusError> {
        self.with(addr, 4, |r| r.read, |b, o| b.load32(o))
    }

    /// One aligned 64-bit load.
    pub fn load64(&self, addr: u64) -> Result<u64, BusError> {
        self.with(addr, 8, |r| r.read, |b, o| b.load64(o))
    }

    /// Reads across two ranges, page by page.
    fn read_pieces(&self, addr: u64, buf: &mut [u8]) -> Result<(), BusError> {
        for (at, len) in pages(addr, buf.len())? {
            let piece = &mut buf[(at - addr) as usize..][..len];
            self.with(at, len, |r| r.read, |b, o| b.read(o, piece))?;
        }
        Ok(())
    }

    fn write_pieces(&self, addr: u64, data: &[u8]) -> Result<(), BusError> {
        for (at, len) in pages(addr, data.len())? {
            let piece = &data[(at - addr) as usize..][..len];
            self.with(at, len, |r| r.write, |b, o| b.write(o, piece))?;
        }
        Ok(())
    }
}

/// Splits a byte range at 4 KiB boundaries. Fails if it lies in one page or wraps.
fn pages(addr: u64, len: usize) -> Result<Vec<(u64, usize)>, BusError> {
    let fail = BusError { addr, len };
    let end = addr.checked_add(len as u64).ok_or(fail)?;
    if (addr ^ (end - 1)) >> 12 == 0 {
        return Err(fail);
    }
    let mut out = Vec::new();
    let mut at = addr;
    while at < end {
        let next = (at | 0xfff).saturating_add(1).min(end);
        out.push((at, (next - at) as usize));
        at = next;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::sparse_file;

    #[test]
    fn lookup_and_crossing_of_ranges() {
        let mem = GuestMemory::default();
        let file = sparse_file("t", 0x4000).unwrap();
        mem.map(
            0x1000,
            0x1000,
            Some((file.try_clone().unwrap(), 0)),
            true,
            true,
        )
        .unwrap();
        mem.map(0x2000, 0x2000, Some((file, 0x2000)), true, false)
            .unwrap();
        mem.map(0x1_0000, 0x1000, None, true, true).unwrap();
        assert!(mem.map(0x1800, 0x1000, None, true, true).is_err());
        mem.write(0x1ffc, &[1, 2, 3, 4]).unwrap();
        let mut buf = [9; 8];
        mem.read(0x1ffc, &mut buf).unwrap();
        assert_eq!(buf, [1, 2, 3, 4, 0, 0, 0, 0]);
        assert_eq!(mem.atomic(0x1ff8, 8, &mut |v| v + 1), Ok(0x0403_0201 << 32));
        assert!(
            mem.write(0x1ffc, &[0; 8]).is_err(),
            "second range is read only"
        );
        assert!(mem.read(0x1_0000, &mut buf).is_err());
        assert!(mem.read(0x3ffc, &mut buf).is_err());
        assert_eq!(mem.unmap(0x1000, 0x3000), 2);
        assert_eq!(
            mem.load32(0x1000),
            Err(BusError {
                addr: 0x1000,
                len: 4
            })
        );
    }
}
