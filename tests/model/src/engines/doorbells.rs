// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Doorbells that are in use, of all command processors or all SDMA engines. A doorbell reaches
//! every command processor, and the queue of a KIQ's doorbell is on one.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::log::Strict;
use crate::strict;

/// Longest time between a doorbell and the mapping of its queue.
const ORPHAN: Duration = Duration::from_secs(1);

/// A doorbell without a queue.
struct Orphan {
    index: u32,
    value: u64,
    /// Number of engines that received it.
    received: usize,
    /// Time when the last of them did.
    since: Instant,
}

#[derive(Default)]
struct State {
    known: HashSet<u32>,
    orphans: Vec<Orphan>,
}

/// See the module documentation.
pub struct Doorbells {
    /// Name of the engines in reports.
    name: &'static str,
    /// Number of engines that receive each doorbell.
    engines: usize,
    state: Mutex<State>,
}

impl Doorbells {
    /// Returns the state without doorbells, for engines with this name in reports, each of which
    /// receives all doorbells.
    pub fn new(name: &'static str, engines: usize) -> Self {
        Self {
            name,
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
        if known.contains(&index) {
            return;
        }
        let since = Instant::now();
        let same = |o: &&mut Orphan| (o.index, o.value) == (index, value);
        match orphans.iter_mut().find(same) {
            Some(orphan) => {
                orphan.received += 1;
                orphan.since = since;
            }
            None => orphans.push(Orphan {
                index,
                value,
                received: 1,
                since,
            }),
        }
    }

    /// Reports doorbells that still have no queue, [`ORPHAN`] after the last engine received them.
    /// Returns when to call it again.
    pub fn report(&self, strict: &Strict) -> Option<Duration> {
        self.report_at(strict, Instant::now())
    }

    fn report_at(&self, strict: &Strict, now: Instant) -> Option<Duration> {
        let State { known, orphans } = &mut *self.lock();
        orphans.retain(|orphan| {
            let Orphan { index, value, .. } = orphan;
            if known.contains(index) {
                return false;
            }
            let wait = orphan.received < self.engines || now.duration_since(orphan.since) < ORPHAN;
            if !wait {
                strict!(
                    strict,
                    self.name,
                    "doorbell {index:#x} value {value:#x} belongs to no queue"
                );
            }
            wait
        });
        (!orphans.is_empty()).then_some(ORPHAN)
    }

    /// Drops pending doorbells without a queue. Doorbells of queues that a reset of the card has
    /// removed stay registered: processes may ring them before they are notified.
    pub fn reset(&self) {
        self.lock().orphans.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_doorbells_of_no_queue_are_reported() {
        let (doorbells, strict) = (Doorbells::new("cp", 2), Strict::quiet());
        doorbells.unmapped(0x40, 1);
        doorbells.unmapped(0x42, 1);
        // Mapped by another XCC.
        doorbells.expect(0x40);
        let late = || Instant::now() + ORPHAN;
        assert!(doorbells.report_at(&strict, late()).is_some());
        assert_eq!(strict.unexpected(), 0, "the other XCC may have the queue");
        let before = Instant::now();
        doorbells.unmapped(0x42, 1);
        assert!(doorbells.report_at(&strict, before).is_some());
        assert_eq!(strict.unexpected(), 0);
        assert!(doorbells.report_at(&strict, late()).is_none());
        assert_eq!(strict.unexpected(), 1);
        doorbells.unmapped(0x40, 2);
        assert!(doorbells.report_at(&strict, late()).is_none());
    }
}
