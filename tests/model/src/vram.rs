// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The card's own memory: a sparse memfd that the guest also maps through BAR0.

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
    /// `size` bytes, all zero, without storage behind them yet.
    pub fn new(size: u64) -> io::Result<Self> {
        let file = sparse_file("rkfd-vram", size)?;
        let block = Block::map(file.try_clone()?, 0, size)?;
        Ok(Self { file, block })
    }

    /// The descriptor to hand to the client, which maps it into the guest.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Forgets the content, as a power cycle does.
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
