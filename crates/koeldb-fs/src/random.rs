//! A seeded pseudo-random number generator.

/// A seeded pseudorandom number generator: SplitMix64.
///
/// See Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// Returns the next random number (SplitMix64).
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, or 0 if that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// Returns true with probability `parts` / `whole`.
    pub(crate) fn chance(&mut self, parts: u64, whole: u64) -> bool {
        self.below(whole) < parts
    }
}
