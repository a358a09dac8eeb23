// SPDX-License-Identifier: GPL-2.0 OR MIT

//! HDP: the path of the host's accesses to VRAM.
//!
//! By default the guest maps VRAM itself, and there is nothing to flush. In adversarial mode all
//! accesses of the BAR arrive here, and stores stay in a write buffer, not visible to the engines
//! of the GPU, until an HDP flush, or until the buffer is full and a line, chosen by the adversary,
//! is written back. A load of the host writes the buffer back first: ROCr reads the last byte of
//! code that it has stored, and flushes nothing else (`GpuAgent::PcieWcFlush`). There is no read
//! cache: HDP 4.4.2 has none to be invalidated (`hdp_v4_0_invalidate_hdp`), HDP 7 neither.
//!
//! Neither the buffer nor write combining of the host keeps stores in order. Directory entries are
//! therefore checked when they are stored: see [`Hdp::is_new`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::adversary::Adversary;
use crate::engines::gmc::l2::Caches;
use crate::engines::gmc::Target;
use crate::masked::{pieces, Masked};
use crate::mem::OutOfBlock;
use crate::vram::Vram;

/// Bytes of a line of the write buffer.
const LINE: usize = 64;
/// Lines of the write buffer. The size in hardware is not documented; a large buffer detects more
/// missing flushes.
const LINES: usize = 4096;
/// Bytes of a page, which has 64 lines.
const PAGE: u64 = 4096;
/// The mask of all lines of a page.
const ALL: u64 = u64::MAX;

/// The host data path.
pub struct Hdp {
    vram: Arc<Vram>,
    buffer: Option<Mutex<Buffer>>,
}

struct Buffer {
    adversary: Arc<Adversary>,
    l2: Option<Arc<Caches>>,
    lines: HashMap<u64, Masked<LINE>>,
    /// The keys of `lines`.
    order: Vec<u64>,
    /// Masks of the lines that were stored as a whole, by page, until all of a page were, and are
    /// flushed.
    filled: HashMap<u64, u64>,
}

impl Buffer {
    /// Writes the stored bytes of a line to VRAM, past the L2s.
    fn write_back(
        &self,
        vram: &Vram,
        offset: u64,
        line: &mut Masked<LINE>,
    ) -> Result<(), OutOfBlock> {
        line.write_back(|at, data| vram.write(offset + at, data))?;
        if let Some(l2) = &self.l2 {
            l2.probe(Target::Vram(offset), LINE as u64, None);
        }
        Ok(())
    }

    fn line(&mut self, vram: &Vram, key: u64) -> Result<&mut Masked<LINE>, OutOfBlock> {
        if !self.lines.contains_key(&key) {
            if self.lines.len() == LINES {
                let victim = self.order.swap_remove(self.adversary.below(LINES));
                if let Some(mut line) = self.lines.remove(&victim) {
                    self.write_back(vram, victim, &mut line)?;
                }
            }
            self.order.push(key);
        }
        Ok(self.lines.entry(key).or_default())
    }
}

impl Hdp {
    /// Returns the path to `vram`, with a write buffer if there is an adversary. Its write-backs
    /// probe the L2s, if there are any.
    pub fn new(
        vram: Arc<Vram>,
        adversary: Option<&Arc<Adversary>>,
        l2: Option<&Arc<Caches>>,
    ) -> Self {
        let buffer = adversary.map(|adversary| {
            Mutex::new(Buffer {
                adversary: adversary.clone(),
                l2: l2.cloned(),
                lines: HashMap::new(),
                order: Vec::new(),
                filled: HashMap::new(),
            })
        });
        Self { vram, buffer }
    }

    /// Returns whether stores of the host are buffered, so that it must not map VRAM.
    pub fn is_buffered(&self) -> bool {
        self.buffer.is_some()
    }

    fn lock(&self) -> Option<MutexGuard<'_, Buffer>> {
        let buffer = self.buffer.as_ref()?;
        Some(buffer.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// Loads for the host.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), OutOfBlock> {
        self.flush();
        self.vram.read(offset, data)
    }

    /// Stores for the host.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), OutOfBlock> {
        let Some(mut buffer) = self.lock() else {
            return self.vram.write(offset, data);
        };
        let end = offset.checked_add(data.len() as u64).ok_or(OutOfBlock)?;
        if end > self.vram.len() {
            return Err(OutOfBlock);
        }
        let mut result = Ok(());
        pieces::<LINE>(offset, data.len(), |key, start, range| {
            match buffer.line(&self.vram, key) {
                Ok(line) => {
                    line.store(start, &data[range]);
                    if line.covers(0, LINE) {
                        let page = key & !(PAGE - 1);
                        *buffer.filled.entry(page).or_default() |=
                            1 << ((key - page) / LINE as u64);
                    }
                }
                Err(e) => result = Err(e),
            }
        });
        result
    }

    /// Writes all lines back. Returns the number of lines.
    pub fn flush(&self) -> usize {
        let Some(mut buffer) = self.lock() else {
            return 0;
        };
        let mut lines = std::mem::take(&mut buffer.lines);
        buffer.filled.retain(|_, lines| *lines != ALL);
        for key in std::mem::take(&mut buffer.order) {
            if let Some(line) = lines.get_mut(&key) {
                // Every line was checked to be inside when it was stored to.
                let _ = buffer.write_back(&self.vram, key, line);
            }
        }
        lines.len()
    }

    /// Drops all lines, as a power cycle does.
    pub fn discard(&self) {
        if let Some(mut buffer) = self.lock() {
            buffer.lines.clear();
            buffer.order.clear();
            buffer.filled.clear();
        }
    }

    /// Returns whether all of a page was stored, and not all of that is flushed: it has new
    /// contents, such as those of a page table, and the engines of the GPU may find others.
    pub fn is_new(&self, page: u64) -> bool {
        let Some(buffer) = self.lock() else {
            return false;
        };
        let mut keys = (page..page + PAGE).step_by(LINE);
        buffer.filled.get(&page) == Some(&ALL) && keys.any(|key| buffer.lines.contains_key(&key))
    }

    /// Loads a word as the last store of the host has left it, without an effect on the buffer.
    pub fn peek(&self, offset: u64) -> Result<u64, OutOfBlock> {
        let mut word = self.vram.load64(offset)?.to_le_bytes();
        if let Some(buffer) = self.lock() {
            let start = offset % LINE as u64;
            if let Some(line) = buffer.lines.get(&(offset - start)) {
                line.overlay(start as usize, &mut word);
            }
        }
        Ok(u64::from_le_bytes(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hdp() -> (Hdp, Arc<Vram>) {
        let vram = Arc::new(Vram::new(1 << 20).unwrap());
        let adversary = Arc::new(Adversary::new(1));
        (Hdp::new(vram.clone(), Some(&adversary), None), vram)
    }

    fn gpu(vram: &Vram, offset: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        vram.read(offset, &mut data).unwrap();
        data
    }

    #[test]
    fn stores_reach_vram_by_a_flush() {
        let (hdp, vram) = hdp();
        vram.write(0x100, &[9; 200]).unwrap();
        let data: Vec<u8> = (0..150).collect();
        hdp.write(0x113, &data).unwrap();
        assert_eq!(gpu(&vram, 0x100, 200), [9; 200]);
        assert_eq!(hdp.flush(), 3);
        assert_eq!(gpu(&vram, 0x113, 150), data);
        assert_eq!(gpu(&vram, 0x100, 0x13), [9; 0x13]);
        assert_eq!(gpu(&vram, 0x113 + 150, 31), [9; 31]);
        assert_eq!(hdp.flush(), 0);
    }

    #[test]
    fn a_load_of_the_host_writes_stores_back() {
        let (hdp, vram) = hdp();
        hdp.write(0x1000, &[1]).unwrap();
        hdp.write(0x113, &[2, 3]).unwrap();
        let mut last = [0];
        hdp.read(0x114, &mut last).unwrap();
        assert_eq!(last, [3]);
        assert_eq!(gpu(&vram, 0x113, 2), [2, 3]);
        assert_eq!(gpu(&vram, 0x1000, 1), [1]);
    }

    #[test]
    fn bytes_of_the_engines_survive_beside_those_of_the_host() {
        let (hdp, vram) = hdp();
        hdp.write(8, &[1, 2, 3]).unwrap();
        vram.write(8, &[7; 8]).unwrap();
        hdp.flush();
        assert_eq!(gpu(&vram, 8, 8), [1, 2, 3, 7, 7, 7, 7, 7]);
    }

    #[test]
    fn a_full_buffer_writes_lines_back() {
        let (hdp, vram) = hdp();
        for n in 0..LINES as u64 + 10 {
            hdp.write(n * LINE as u64, &[1]).unwrap();
        }
        let written = |n: &u64| gpu(&vram, n * LINE as u64, 1) == [1];
        assert_eq!((0..LINES as u64 + 10).filter(written).count(), 10);
        hdp.flush();
        assert_eq!((0..LINES as u64 + 10).filter(written).count(), LINES + 10);
    }

    #[test]
    fn a_page_is_new_until_a_flush() {
        let (hdp, vram) = hdp();
        let fill = |page: u64| hdp.write(page, &[3; PAGE as usize]).unwrap();
        hdp.write(PAGE, &[1; PAGE as usize - 1]).unwrap();
        assert!(!hdp.is_new(PAGE), "a byte is not stored");
        hdp.write(2 * PAGE - 1, &[2]).unwrap();
        assert!(hdp.is_new(PAGE) && !hdp.is_new(0) && !hdp.is_new(2 * PAGE));
        assert_eq!(hdp.peek(PAGE), Ok(0x0101_0101_0101_0101));
        assert_eq!(hdp.peek(2 * PAGE - 8), Ok(0x0201_0101_0101_0101));
        assert_eq!(gpu(&vram, PAGE, 1), [0]);
        hdp.flush();
        assert!(!hdp.is_new(PAGE));
        // A flush of a part leaves the rest.
        hdp.write(2 * PAGE, &[1; 1000]).unwrap();
        hdp.flush();
        hdp.write(2 * PAGE + 960, &[1; PAGE as usize - 960])
            .unwrap();
        assert!(hdp.is_new(2 * PAGE));
        hdp.flush();
        hdp.write(2 * PAGE, &[1]).unwrap();
        assert!(!hdp.is_new(2 * PAGE));
        // Written back in part, because the buffer is full.
        let pages = (LINES * LINE) as u64 / PAGE;
        (0..pages + 1).for_each(|n| fill(n * PAGE));
        assert!((0..pages + 1).all(|n| hdp.is_new(n * PAGE)));
        hdp.discard();
        assert!(!hdp.is_new(0));
    }

    #[test]
    fn accesses_outside_vram_and_power_cycles() {
        let (hdp, vram) = hdp();
        assert!(hdp.write((1 << 20) - 1, &[1, 2]).is_err());
        assert!(hdp.read(1 << 20, &mut [0]).is_err());
        hdp.write(0, &[1]).unwrap();
        hdp.discard();
        assert_eq!(hdp.flush(), 0);
        assert_eq!(gpu(&vram, 0, 1), [0]);
        let plain = Hdp::new(vram.clone(), None, None);
        plain.write(0, &[5]).unwrap();
        assert_eq!((gpu(&vram, 0, 1), plain.flush()), (vec![5], 0));
    }
}
