// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Adversarial mode: a seeded generator makes choices that hardware does not document (delay of a
//! response, order of write-backs of a buffer). The same seed and the same accesses give the same
//! choices.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gpu_wave::random;

/// The generator. Shared by all blocks.
pub struct Adversary {
    state: AtomicU64,
}

impl Adversary {
    /// Longest response time. Drivers wait 100 ms for most responses (`AMDGPU_MAX_USEC_TIMEOUT`).
    pub const LONGEST: Duration = Duration::from_millis(4);

    /// Starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            state: AtomicU64::new(seed),
        }
    }

    /// Returns the next number.
    fn next(&self) -> u64 {
        let before = self.state.fetch_add(random::STEP, Ordering::Relaxed);
        random::number(before.wrapping_add(random::STEP))
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&self, bound: usize) -> usize {
        random::below(self.next(), bound as u64) as usize
    }

    /// Returns a seed for another generator.
    pub fn seed(&self) -> u64 {
        self.next()
    }

    /// Returns a response time: mostly short, one in eight up to [`LONGEST`](Self::LONGEST).
    pub fn response_time(&self) -> Duration {
        let range = match self.below(8) {
            0 => Self::LONGEST,
            _ => Self::LONGEST / 40,
        };
        // Never 0: a status that MES writes at once would overtake those that are delayed.
        Duration::from_nanos(1 + self.below(range.as_nanos() as usize) as u64)
    }

    /// Returns the response time of slow firmware: one to eight times [`LONGEST`](Self::LONGEST).
    pub fn slow_time(&self) -> Duration {
        let range = Self::LONGEST * 7;
        Self::LONGEST + Duration::from_nanos(self.below(range.as_nanos() as usize) as u64)
    }

    /// Returns the time until a posted write arrives: mostly short, one in 32 up to
    /// [`LONGEST`](Self::LONGEST) / 20.
    pub fn transit_time(&self) -> Duration {
        let range = match self.below(32) {
            0 => Self::LONGEST / 20,
            _ => Self::LONGEST / 2000,
        };
        Duration::from_nanos(self.below(range.as_nanos() as usize) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_follow_the_seed() {
        let choices = |seed| {
            let adversary = Adversary::new(seed);
            (0..100).map(|_| adversary.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(choices(1), choices(1));
        assert_ne!(choices(1), choices(2));
        assert!(choices(3).iter().all(|n| *n < 1000));
    }

    #[test]
    fn few_response_times_are_long() {
        let adversary = Adversary::new(7);
        let long = |t: &Duration| *t > Adversary::LONGEST / 40;
        let times: Vec<Duration> = (0..1000).map(|_| adversary.response_time()).collect();
        assert!(times.iter().all(|t| *t < Adversary::LONGEST));
        assert!((50..200).contains(&times.iter().filter(|t| long(t)).count()));
    }
}
