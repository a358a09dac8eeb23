// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Random numbers of a test.

/// A generator (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    /// Returns one seeded by `RKFD_SEED`, else by the clock, and prints the seed: cargo shows it if
    /// the test fails.
    pub(crate) fn new() -> Self {
        let seed = match std::env::var("RKFD_SEED") {
            Ok(text) => text.parse().expect("RKFD_SEED is a number"),
            Err(_) => std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |time| time.as_nanos() as u64),
        };
        println!("RKFD_SEED={seed}");
        Self(seed)
    }

    /// Returns a word.
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }

    /// Returns one of `list`.
    pub(crate) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}
