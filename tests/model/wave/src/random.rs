// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SplitMix64, a generator of choices: the same seed gives the same numbers.

/// Increment of the state for each number.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the number of a state.
pub fn number(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Returns a number as one below `bound`, which is not 0.
pub fn below(number: u64, bound: u64) -> u64 {
    (u128::from(number) * u128::from(bound) >> 64) as u64
}
