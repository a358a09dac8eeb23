// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Guest memory, accessed over the bus: maps bus addresses to mappings of guest RAM files.
//!
//! The client maps and unmaps DMA ranges at any time; an unmap waits for the accesses in flight.
//! Without an IOMMU there is a range for each piece of the guest's RAM; behind an IOMMU one for
//! each page, or large page, of the device's domain, thousands of them.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLockReadGuard};

use crate::mem::{Block, OutOfBlock};
use crate::relay::Bus;
use crate::shards::Shards;

/// An access to a bus address that no guest memory backs, or that the card may not access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusError {
    /// First byte of the access.
    pub addr: u64,
    /// Length of the access in bytes.
    pub len: usize,
}

#[derive(Clone)]
struct Range {
    size: u64,
    read: bool,
    write: bool,
    /// The file and the offset in it. `None`: the client has something there that cannot be mapped
    /// (another device's BAR).
    memory: Option<(Arc<Block>, u64)>,
}

/// Ranges by their first address.
type Map = BTreeMap<u64, Range>;

/// Returns the range that contains `addr`, and the offset in it.
fn range_at(ranges: &Map, addr: u64) -> Option<(&Range, u64)> {
    let (base, range) = ranges.range(..=addr).next_back()?;
    let within = addr - base;
    (within < range.size).then_some((range, within))
}

/// Read guard on the DMA ranges.
pub struct Ranges<'a> {
    map: RwLockReadGuard<'a, Map>,
    isolated: bool,
}

impl Ranges<'_> {
    /// Returns the block behind a bus address, the offset in it, and the number of bytes that
    /// follow in the range.
    pub fn find(&self, addr: u64, write: bool) -> Option<(&Block, u64, u64)> {
        let (range, within) = range_at(&self.map, addr)?;
        let allowed = !self.isolated && if write { range.write } else { range.read };
        let (block, offset) = range.memory.as_ref().filter(|_| allowed)?;
        Some((block, offset + within, range.size - within))
    }
}

/// The files of guest memory, each mapped once, by device and inode.
type Files = HashMap<(u64, u64), Arc<Block>>;

/// All DMA ranges that the client mapped.
#[derive(Default)]
pub struct GuestMemory {
    ranges: Shards<Map>,
    files: Mutex<Files>,
    atomics: AtomicBool,
    isolated: AtomicBool,
    /// Target of writes to other addresses.
    pub bus: Bus,
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

    /// Sets whether the card may access the bus (Bus Master Enable), as it may by default. Waits
    /// for the accesses in flight; later ones fail while it may not, and writes to other devices
    /// are lost.
    pub fn set_master(&self, on: bool) {
        if self.is_master() != on {
            let store = || self.isolated.store(!on, Ordering::Release);
            self.ranges.exclude(store);
        }
    }

    /// Returns whether the card may access the bus.
    pub fn is_master(&self) -> bool {
        !self.isolated.load(Ordering::Acquire)
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
        let memory = match file {
            Some((file, offset)) => Some((self.block(file, offset, size)?, offset)),
            None => None,
        };
        let range = Range {
            size,
            read,
            write,
            memory,
        };
        self.ranges.update(|ranges| {
            let before = ranges.range(..end).next_back();
            if before.is_some_and(|(at, r)| at + r.size > base) {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    format!("DMA range {base:#x}+{size:#x} overlaps a mapped one"),
                ));
            }
            ranges.insert(base, range.clone());
            Ok(())
        })
    }

    /// Returns the mapping of a whole file that has `size` bytes from `offset` on.
    fn block(&self, file: File, offset: u64, size: u64) -> io::Result<Arc<Block>> {
        let facts = file.metadata()?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let known = files.get(&(facts.dev(), facts.ino()));
        let fits = |block: &&Arc<Block>| offset.checked_add(size).is_some_and(|e| e <= block.len());
        if let Some(block) = known.filter(fits) {
            return Ok(block.clone());
        }
        let end = offset.checked_add(size).filter(|end| *end <= facts.len());
        end.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{offset:#x}+{size:#x} is beyond the end of the file"),
            )
        })?;
        let block = Arc::new(Block::map(file, 0, facts.len())?);
        files.insert((facts.dev(), facts.ino()), block.clone());
        Ok(block)
    }

    /// Unmaps every range inside `base..base+size`; returns their number.
    pub fn unmap(&self, base: u64, size: u64) -> usize {
        let end = base.saturating_add(size);
        self.ranges.update(|ranges| {
            let inside: Vec<u64> = ranges
                .range(base..end)
                .filter(|(at, r)| *at + r.size <= end)
                .map(|(at, _)| *at)
                .collect();
            inside.iter().for_each(|at| {
                ranges.remove(at);
            });
            inside.len()
        })
    }

    /// Unmaps all ranges.
    pub fn unmap_all(&self) {
        self.ranges.update(BTreeMap::clear);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.clear();
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
        let (range, within) = range_at(&ranges, addr).ok_or(fail)?;
        if len as u64 > range.size - within || !ok(range) || !self.is_master() {
            return Err(fail);
        }
        let (block, offset) = range.memory.as_ref().ok_or(fail)?;
        f(block, offset + within).map_err(|_| fail)
    }

    /// Takes the read guard, for accesses to more than one range at once. A thread that holds it
    /// must not call the other functions: they take it too, and `unmap` may be waiting between the
    /// two.
    pub fn enter(&self) -> Ranges<'_> {
        let map = self.ranges.read();
        Ranges {
            map,
            isolated: !self.is_master(),
        }
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
        mem.set_master(false);
        assert!(mem.write(0x1ffc, &[5]).is_err(), "no bus master");
        assert!(mem.load32(0x1ffc).is_err() && mem.enter().find(0x1ffc, false).is_none());
        mem.set_master(true);
        assert_eq!(mem.load32(0x1ffc), Ok(0));
        assert_eq!(mem.unmap(0x1000, 0x3000), 2);
        assert_eq!(
            mem.load32(0x1000),
            Err(BusError {
                addr: 0x1000,
                len: 4
            })
        );
    }

    #[test]
    fn pages_of_a_domain_share_the_mapping_of_their_file() {
        let mem = GuestMemory::default();
        let file = sparse_file("t", 64 << 12).unwrap();
        // Page n of the file at bus address (63 - n) << 12, as an IOMMU may map it.
        for n in 0..64 {
            let file = file.try_clone().unwrap();
            mem.map((63 - n) << 12, 0x1000, Some((file, n << 12)), true, true)
                .unwrap();
        }
        for n in 0..64u64 {
            mem.write((n << 12) + 8, &n.to_le_bytes()).unwrap();
        }
        {
            let ranges = mem.enter();
            let (first, at, left) = ranges.find(0x10, true).unwrap();
            assert_eq!((at, left), ((63 << 12) + 0x10, 0xff0));
            let (last, at, _) = ranges.find(63 << 12, true).unwrap();
            assert_eq!(at, 0);
            assert!(std::ptr::eq(first, last));
            assert_eq!(last.load64((63 << 12) + 8), Ok(0));
            assert_eq!(last.load64(8), Ok(63));
        }
        assert_eq!(mem.unmap(0, 0x800), 0, "part of a range");
        assert_eq!(mem.unmap(4 << 12, 8 << 12), 8);
        assert!(mem.load32(4 << 12).is_err());
        assert!(mem.load32(3 << 12).is_ok());
        assert_eq!(mem.unmap(0, 1 << 47), 56);
        assert_eq!(mem.unmap(0, 1 << 47), 0);
        let beyond = mem.map(0, 0x2000, Some((file, 63 << 12)), true, true);
        assert!(beyond.is_err(), "beyond the end of the file");
    }
}
