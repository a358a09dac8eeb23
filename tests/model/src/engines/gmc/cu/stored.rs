// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Dirty lines of scalar stores in the scalar cache of an XCC.

use std::ops::Range;

use super::{Cache, Key, LINE};
use crate::adversary::Adversary;
use crate::engines::gmc::Pa;
use crate::masked::Masked;

/// One in so many new lines has another one written back.
const EARLY: usize = 32;

/// Stored bytes of a line.
pub struct Line {
    /// Its first byte.
    pub pa: Pa,
    /// The bytes.
    pub data: Masked<LINE>,
}

/// The lines of an XCC with stored bytes.
#[derive(Default)]
pub struct Stored(Vec<(Key, Line)>);

impl Stored {
    fn position(&self, key: Key) -> Option<usize> {
        self.0.iter().position(|(k, _)| *k == key)
    }

    /// Stores bytes of a line. Returns a line that is to be written back: the cache is full, or the
    /// adversary has chosen it.
    pub fn store(
        &mut self,
        adversary: &Adversary,
        (key, pa): (Key, Pa),
        start: usize,
        data: &[u8],
    ) -> Option<Line> {
        let mut victim = None;
        let at = self.position(key).unwrap_or_else(|| {
            let count = self.0.len();
            if count == Cache::Scalar.lines() || count != 0 && adversary.below(EARLY) == 0 {
                victim = Some(self.0.swap_remove(adversary.below(count)).1);
            }
            let data = Masked::default();
            self.0.push((key, Line { pa, data }));
            self.0.len() - 1
        });
        let line = &mut self.0[at].1;
        line.pa = pa;
        line.data.store(start, data);
        victim
    }

    /// Replaces loaded bytes of a line by those that are stored.
    pub fn overlay(&self, key: Key, start: usize, range: Range<usize>, buf: &mut [u8]) {
        if let Some(at) = self.position(key) {
            self.0[at].1.data.overlay(start, &mut buf[range]);
        }
    }

    /// Takes all lines, which are to be written back.
    pub fn take(&mut self) -> Vec<Line> {
        self.0.drain(..).map(|(_, line)| line).collect()
    }

    /// Drops bytes that waves of a VMID have stored.
    pub fn forget(&mut self, vmid: u8) {
        self.0.retain(|((owner, _), _)| *owner != vmid);
    }
}
