// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A line of a buffer or cache: bytes, and which of them were stored and are not in memory yet.

use std::ops::Range;

/// A line of `N` bytes, a power of two of at most 128.
pub struct Masked<const N: usize> {
    bytes: [u8; N],
    stored: u128,
}

impl<const N: usize> Default for Masked<N> {
    fn default() -> Self {
        Self {
            bytes: [0; N],
            stored: 0,
        }
    }
}

/// Returns the mask of `len` bytes from `at` on.
fn mask(at: usize, len: usize) -> u128 {
    match len {
        0 => 0,
        len => u128::MAX >> (128 - len) << at,
    }
}

impl<const N: usize> Masked<N> {
    /// Returns whether no byte is stored.
    pub fn is_clean(&self) -> bool {
        self.stored == 0
    }

    /// Returns whether these bytes are stored.
    pub fn covers(&self, at: usize, len: usize) -> bool {
        mask(at, len) & !self.stored == 0
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> &[u8; N] {
        &self.bytes
    }

    /// Stores bytes from `at` on.
    pub fn store(&mut self, at: usize, data: &[u8]) {
        self.bytes[at..at + data.len()].copy_from_slice(data);
        self.stored |= mask(at, data.len());
    }

    /// Copies those of the bytes from `at` on that are stored.
    pub fn overlay(&self, at: usize, to: &mut [u8]) {
        for (i, (to, from)) in to.iter_mut().zip(&self.bytes[at..]).enumerate() {
            if self.stored >> (at + i) & 1 != 0 {
                *to = *from;
            }
        }
    }

    /// Sets the bytes that are not stored.
    pub fn fill(&mut self, bytes: &[u8; N]) {
        for (i, (to, from)) in self.bytes.iter_mut().zip(bytes).enumerate() {
            if self.stored >> i & 1 == 0 {
                *to = *from;
            }
        }
    }

    /// Passes the stored bytes to `write`, with their position: whole words of 8 bytes, or single
    /// bytes. No byte is stored afterwards.
    pub fn write_back<E>(
        &mut self,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let stored = std::mem::take(&mut self.stored);
        for (n, word) in self.bytes.chunks_exact(8).enumerate() {
            let at = 8 * n as u64;
            match (stored >> at) as u8 {
                0 => {}
                0xff => write(at, word)?,
                bits => {
                    for (i, byte) in word.iter().enumerate().filter(|(i, _)| bits >> i & 1 != 0) {
                        write(at + i as u64, &[*byte])?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Calls `f` for the piece of each line of `N` bytes in `offset..offset + len`: line, start in the
/// line, range of the data.
pub fn pieces<const N: usize>(
    offset: u64,
    len: usize,
    mut f: impl FnMut(u64, usize, Range<usize>),
) {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let start = (at % N as u64) as usize;
        let piece = (len - done).min(N - start);
        f(at - start as u64, start, done..done + piece);
        done += piece;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_are_written_at_once() {
        let mut line = Masked::<128>::default();
        line.store(0, &[1; 8]);
        line.store(14, &[2; 3]);
        line.store(120, &[3; 8]);
        assert!(line.covers(15, 2) && !line.covers(15, 3) && line.covers(128, 0));
        let mut writes = Vec::new();
        line.write_back(|at, data| {
            writes.push((at, data.len(), data[0]));
            Ok::<(), ()>(())
        })
        .unwrap();
        let expected = [(0, 8, 1), (14, 1, 2), (15, 1, 2), (16, 1, 2), (120, 8, 3)];
        assert_eq!(writes, expected);
        assert!(line.is_clean());
    }

    #[test]
    fn stored_bytes_survive_a_fill() {
        let mut line = Masked::<64>::default();
        line.store(62, &[7, 8]);
        line.fill(&[1; 64]);
        assert_eq!(line.bytes()[60..], [1, 1, 7, 8]);
    }
}
