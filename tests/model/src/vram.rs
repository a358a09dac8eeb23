// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Video memory: a sparse memfd that the guest also maps through BAR0.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use crate::mem::{sparse_file, Block};

/// Video memory, addressed from 0.
pub struct Vram {
    file: File,
    block: Block,
}

impl std::ops::Deref for Vram {
    type Target = Block;

    fn deref(&self) -> &Block {
        &self.block
    }
}

impl Vram {
    /// Returns `size` bytes, all zero, without allocated storage.
    pub fn new(size: u64) -> io::Result<Self> {
        let file = sparse_file("rkfd-vram", size)?;
        let block = Block::map(file.try_clone()?, 0, size)?;
        Ok(Self { file, block })
    }

    /// Returns the descriptor for the client, which maps it into the guest.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Returns the number of bytes from `offset` on, at most `len`, without allocated storage: they
    /// are zero.
    pub fn untouched(&self, offset: u64, len: u64) -> u64 {
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(offset)) {
            Ok(data) => data.saturating_sub(offset).min(len),
            // A hole up to the end.
            Err(rustix::io::Errno::NXIO) => len,
            Err(_) => 0,
        }
    }

    /// Clears the content, as a power cycle does.
    pub fn clear(&self) -> io::Result<()> {
        rustix::fs::fallocate(
            &self.file,
            rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE,
            0,
            self.block.len(),
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untouched_ranges_are_reported() {
        let vram = Vram::new(1 << 20).unwrap();
        assert_eq!(vram.untouched(0x1000, 0x8000), 0x8000);
        vram.write(0x5800, &[1]).unwrap();
        assert_eq!(vram.untouched(0x1000, 0x8000), 0x4000);
        assert_eq!(vram.untouched(0x5100, 0x8000), 0);
        assert_eq!(vram.untouched(0x6000, 0x8000), 0x8000);
        vram.clear().unwrap();
        assert_eq!(vram.untouched(0, 1 << 20), 1 << 20);
    }
}
