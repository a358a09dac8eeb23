// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Doorbells that are in use, of all command processors or all SDMA engines. A doorbell reaches
//! every command processor, and the queue of a KIQ's doorbell is on one.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::log::Strict;
use crate::strict;

/// Longest time between a doorbell and the mapping of its queue.
const ORPHAN: Duration = Duration::from_millis(100);

#[derive(Default)]
struct State {
    known: HashSet<u32>,
    /// Others: index, value, time.
    orphans: Vec<(u32, u64, Instant)>,
}

/// See the module documentation.
pub struct Doorbells {
    /// Name of the engines in reports.
    engines: &'static str,
    state: Mutex<State>,
}

impl Doorbells {
    /// Returns the state without doorbells, for engines with this name in reports.
    pub fn new(engines: &'static str) -> Self {
        Self {
            engines,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Announces that doorbells of this index belong to a queue.
    pub fn expect(&self, index: u32) {
        self.lock().known.insert(index);
    }

    /// Records a doorbell without a mapped queue on one engine. It may precede the packet that maps
    /// its queue: mapping reads the write pointer from memory, so nothing is lost.
    pub fn unmapped(&self, index: u32, value: u64) {
        let State { known, orphans } = &mut *self.lock();
        let same = |(i, v, _): &(u32, u64, Instant)| (*i, *v) == (index, value);
        if !known.contains(&index) && !orphans.iter().any(same) {
            orphans.push((index, value, Instant::now()));
        }
    }

    /// Reports doorbells that still have no queue. Returns when to call it again.
    pub fn report(&self, strict: &Strict) -> Option<Duration> {
        let State { known, orphans } = &mut *self.lock();
        orphans.retain(|(index, value, since)| {
            if known.contains(index) {
                return false;
            }
            let wait = since.elapsed() < ORPHAN;
            if !wait {
                strict!(
                    strict,
                    self.engines,
                    "doorbell {index:#x} value {value:#x} belongs to no queue"
                );
            }
            wait
        });
        (!orphans.is_empty()).then_some(ORPHAN)
    }

    /// Removes all entries.
    pub fn reset(&self) {
        *self.lock() = State::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_doorbells_of_no_queue_are_reported() {
        let (doorbells, strict) = (Doorbells::new("cp"), Strict::quiet());
        doorbells.unmapped(0x40, 1);
        doorbells.unmapped(0x42, 1);
        // Mapped by another XCC.
        doorbells.expect(0x40);
        // Every XCC receives it.
        doorbells.unmapped(0x42, 1);
        assert!(doorbells.report(&strict).is_some());
        assert_eq!(strict.unexpected(), 0);
        std::thread::sleep(ORPHAN);
        assert!(doorbells.report(&strict).is_none());
        assert_eq!(strict.unexpected(), 1);
        doorbells.unmapped(0x40, 2);
        assert!(doorbells.report(&strict).is_none());
    }
}
