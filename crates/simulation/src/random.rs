//! Random choices that depend on the seed alone.
//!
//! Every step of a run has its own stream ([`Random::stream`]), so a run with fewer faults or nodes still makes the same
//! choices everywhere else. Shrinking depends on this.

/// A small generator (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of a seed for a purpose and a number, such as a step.
    pub(crate) fn stream(seed: u64, purpose: &str, number: usize) -> Self {
        let mut random = Self(seed);
        let mut mixed = random.next();
        for byte in purpose.bytes() {
            mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let mut random = Self(mixed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        Self(random.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end as u64)).unwrap_or(0)
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { Some(&items[self.below(items.len())]) }
    }

    /// A duration of up to this many seconds.
    pub(crate) fn seconds(&mut self, at_most: usize) -> jiff::SignedDuration {
        jiff::SignedDuration::from_millis(i64::try_from(self.below(at_most * 1000 + 1)).unwrap_or(0))
    }
}
