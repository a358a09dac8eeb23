// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A block of memory shared with another process: guest RAM or VRAM.
//!
//! Aligned 4- and 8-byte accesses are single atomic accesses, since the guest reads fences, ring
//! pointers and signals while the model writes them; the rest is a plain copy.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use vm_memory::volatile_memory::VolatileMemory;
use vm_memory::{FileOffset, MmapRegion};

/// A shared mapping of part of a file.
pub struct Block {
    map: MmapRegion,
}

/// An access outside the block, or misaligned for an atomic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfBlock;

impl Block {
    /// Maps `size` bytes of `file` from `offset`.
    pub fn map(file: File, offset: u64, size: u64) -> io::Result<Self> {
        // Accessing a mapping beyond the end of its file would kill the process.
        let end = offset
            .checked_add(size)
            .ok_or(io::ErrorKind::InvalidInput)?;
        if end > file.metadata()?.len() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{offset:#x}+{size:#x} is beyond the end of the file"),
            ));
        }
        let size = usize::try_from(size).map_err(|_| io::ErrorKind::InvalidInput)?;
        let map = MmapRegion::from_file(FileOffset::new(file, offset), size)
            .map_err(|e| io::Error::other(format!("mmap of {size:#x} bytes: {e}")))?;
        Ok(Self { map })
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> u64 {
        self.map.size() as u64
    }

    /// Returns whether the size is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies from the block.
    #[inline]
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), OutOfBlock> {
        match buf.len() {
            4 if offset % 4 == 0 => {
                buf.copy_from_slice(&self.load32(offset)?.to_le_bytes());
                Ok(())
            }
            8 if offset % 8 == 0 => {
                buf.copy_from_slice(&self.load64(offset)?.to_le_bytes());
                Ok(())
            }
            len => {
                let slice = self
                    .map
                    .get_slice(offset as usize, len)
                    .map_err(|_| OutOfBlock)?;
                slice.copy_to(buf);
                Ok(())
            }
        }
    }

    /// Copies into the block.
    #[inline]
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), OutOfBlock> {
        if let (Ok(b), 0) = (<[u8; 4]>::try_from(data), offset % 4) {
            self.atomic32(offset)?
                .store(u32::from_le_bytes(b).to_le(), Ordering::Release);
            return Ok(());
        }
        if let (Ok(b), 0) = (<[u8; 8]>::try_from(data), offset % 8) {
            self.atomic64(offset)?
                .store(u64::from_le_bytes(b).to_le(), Ordering::Release);
            return Ok(());
        }
        let slice = self
            .map
            .get_slice(offset as usize, data.len())
            .map_err(|_| OutOfBlock)?;
        slice.copy_from(data);
        Ok(())
    }

    /// Copies `len` bytes at `offset` to `to` in `target`, which may be this block.
    pub fn copy(&self, offset: u64, target: &Self, to: u64, len: usize) -> Result<(), OutOfBlock> {
        let from = self.map.get_slice(offset as usize, len);
        let into = target.map.get_slice(to as usize, len);
        from.map_err(|_| OutOfBlock)?
            .copy_to_volatile_slice(into.map_err(|_| OutOfBlock)?);
        Ok(())
    }

    /// Fills `len` bytes at `offset` with repetitions of `word`.
    pub fn fill(&self, offset: u64, len: u64, word: [u8; 4]) -> Result<(), OutOfBlock> {
        let page = [word; 1024];
        let page = page.as_flattened();
        let end = offset.checked_add(len).ok_or(OutOfBlock)?;
        for at in (offset..end).step_by(page.len()) {
            self.write(at, &page[..(end - at).min(page.len() as u64) as usize])?;
        }
        Ok(())
    }

    /// One aligned 32-bit load.
    #[inline]
    pub fn load32(&self, offset: u64) -> Result<u32, OutOfBlock> {
        Ok(u32::from_le(self.atomic32(offset)?.load(Ordering::Acquire)))
    }

    /// One aligned 64-bit load.
    #[inline]
    pub fn load64(&self, offset: u64) -> Result<u64, OutOfBlock> {
        Ok(u64::from_le(self.atomic64(offset)?.load(Ordering::Acquire)))
    }

    /// Replaces the aligned value of `size` (4 or 8) bytes at `offset` by `f(old)`, atomically with
    /// respect to the guest's own atomics. Returns the old value.
    pub fn atomic(
        &self,
        offset: u64,
        size: u8,
        f: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, OutOfBlock> {
        match size {
            4 => {
                let cell = self.atomic32(offset)?;
                let mut old = cell.load(Ordering::Acquire);
                loop {
                    let new = (f(u64::from(u32::from_le(old))) as u32).to_le();
                    match cell.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(old) => return Ok(u64::from(u32::from_le(old))),
                        Err(now) => old = now,
                    }
                }
            }
            8 => {
                let cell = self.atomic64(offset)?;
                let mut old = cell.load(Ordering::Acquire);
                loop {
                    let new = f(u64::from_le(old)).to_le();
                    match cell.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(old) => return Ok(u64::from_le(old)),
                        Err(now) => old = now,
                    }
                }
            }
            _ => Err(OutOfBlock),
        }
    }

    #[inline]
    fn atomic32(&self, offset: u64) -> Result<&AtomicU32, OutOfBlock> {
        self.map
            .get_atomic_ref(offset as usize)
            .map_err(|_| OutOfBlock)
    }

    #[inline]
    fn atomic64(&self, offset: u64) -> Result<&AtomicU64, OutOfBlock> {
        self.map
            .get_atomic_ref(offset as usize)
            .map_err(|_| OutOfBlock)
    }
}

/// Returns a new unnamed file of `size` bytes without allocated storage.
pub fn sparse_file(name: &str, size: u64) -> io::Result<File> {
    let fd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
    let file = File::from(fd);
    file.set_len(size)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_repeat_the_word() {
        let block = Block::map(sparse_file("t", 16384).unwrap(), 0, 16384).unwrap();
        block.fill(12, 4096 + 6, [1, 2, 3, 4]).unwrap();
        let mut buf = vec![0; 8192];
        block.read(0, &mut buf).unwrap();
        for (at, byte) in buf.iter().enumerate() {
            let filled = (12..12 + 4096 + 6).contains(&at);
            assert_eq!(*byte, if filled { (at % 4 + 1) as u8 } else { 0 }, "{at}");
        }
        assert_eq!(block.fill(16380, 8, [1; 4]), Err(OutOfBlock));
        assert_eq!(block.fill(u64::MAX, 8, [1; 4]), Err(OutOfBlock));
    }

    #[test]
    fn bounds_are_checked() {
        let block = Block::map(sparse_file("t", 8192).unwrap(), 4096, 4096).unwrap();
        block.write(4, &[1, 2, 3, 4]).unwrap();
        block.write(9, &[5, 6, 7]).unwrap();
        let mut buf = [0; 8];
        block.read(4, &mut buf).unwrap();
        assert_eq!(buf, [1, 2, 3, 4, 0, 5, 6, 7]);
        assert_eq!(block.load32(4), Ok(0x0403_0201));
        assert_eq!(block.load32(6), Err(OutOfBlock));
        assert_eq!(block.read(4090, &mut buf), Err(OutOfBlock));
        assert_eq!(block.write(u64::MAX - 3, &[0; 8]), Err(OutOfBlock));
        assert_eq!(block.atomic(16, 8, &mut |v| v.wrapping_sub(1)), Ok(0));
        assert_eq!(block.load64(16), Ok(u64::MAX));
        assert_eq!(block.atomic(16, 4, &mut |_| 7), Ok(0xffff_ffff));
        assert_eq!(block.load64(16), Ok(0xffff_ffff_0000_0007));
    }
}
