// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory for measurements.

use super::place::CODE;
use gpu_wave::{Fault, Memory};
use std::sync::atomic::{AtomicU32, Ordering};

/// Lock-free memory of dwords, like a model with mapped memory.
pub struct Flat(Vec<AtomicU32>);

impl Flat {
    /// Returns memory from [`CODE`] on. Each dword has its own index.
    pub fn new(bytes: u32) -> Self {
        Flat((0..bytes / 4).map(AtomicU32::new).collect())
    }

    fn cell(&self, va: u64) -> &AtomicU32 {
        &self.0[((va - CODE) / 4) as usize]
    }
}

impl Memory for Flat {
    fn read(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        if (va | buf.len() as u64) % 4 != 0 {
            for (n, byte) in buf.iter_mut().enumerate() {
                let va = va + n as u64;
                *byte = self.cell(va).load(Ordering::Relaxed).to_le_bytes()[va as usize % 4];
            }
            return Ok(());
        }
        let first = ((va - CODE) / 4) as usize;
        for (to, from) in buf.chunks_exact_mut(4).zip(&self.0[first..]) {
            to.copy_from_slice(&from.load(Ordering::Relaxed).to_le_bytes());
        }
        Ok(())
    }

    fn write(&self, va: u64, data: &[u8]) -> Result<(), Fault> {
        if (va | data.len() as u64) % 4 != 0 {
            for (n, &byte) in data.iter().enumerate() {
                let va = va + n as u64;
                let shift = va % 4 * 8;
                let cell = self.cell(va);
                let old = cell.load(Ordering::Relaxed) & !(0xff << shift);
                cell.store(old | u32::from(byte) << shift, Ordering::Relaxed);
            }
            return Ok(());
        }
        let first = ((va - CODE) / 4) as usize;
        for (from, to) in data.chunks_exact(4).zip(&self.0[first..]) {
            to.store(
                u32::from_le_bytes(from.try_into().unwrap()),
                Ordering::Relaxed,
            );
        }
        Ok(())
    }

    fn fetch(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.read(va, buf)
    }

    fn atomic(&self, va: u64, _: u8, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault> {
        let cell = self.cell(va);
        let old = cell.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |v| {
            Some(f(v.into()) as u32)
        });
        Ok(old.expect("always some").into())
    }
}
