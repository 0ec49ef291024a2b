//! The random numbers of `db_bench`, bit for bit those of RocksDB's program.
//!
//! - [`Mersenne64`], the 64-bit Mersenne Twister (Matsumoto and Nishimura): keys, one generator per
//!   thread.
//! - [`Mersenne32`] and [`shuffle`]: the permutation of unique fills, that of libstdc++'s
//!   `std::shuffle`.
//! - [`ParkMiller`], the minimal standard generator: values.

/// The 64-bit Mersenne Twister random number generator (`std::mt19937_64`).
///
/// A benchmark draws two numbers for every read. Numbers are therefore generated a block at a time,
/// in loops that the compiler vectorizes.
#[derive(Clone, Debug)]
pub(crate) struct Mersenne64 {
    state: Box<[u64; Mersenne64::WORDS]>,
    /// The output numbers of the state.
    numbers: Box<[u64; Mersenne64::WORDS]>,
    next: usize,
}

impl Mersenne64 {
    const WORDS: usize = 312;
    const MIDDLE: usize = 156;

    pub(crate) fn new(seed: u64) -> Self {
        let mut state = Box::new([0; Self::WORDS]);
        let mut word = seed;
        for (index, place) in (0u64..).zip(state.iter_mut()) {
            if index > 0 {
                word = Self::next_word(word, index);
            }
            *place = word;
        }
        Mersenne64 {
            state,
            numbers: Box::new([0; Self::WORDS]),
            next: Self::WORDS,
        }
    }

    /// Returns the first number of the generator with this seed, without computing its full state.
    pub(crate) fn first(seed: u64) -> u64 {
        let (mut word, mut first_two) = (seed, [seed, 0]);
        for (index, _) in (0u64..).zip(0..=Self::MIDDLE).skip(1) {
            word = Self::next_word(word, index);
            if index == 1 {
                first_two[1] = word;
            }
        }
        Self::temper(word ^ Self::twist(first_two[0], first_two[1]))
    }

    /// Computes the initial state word with this index from the word before it.
    fn next_word(word: u64, index: u64) -> u64 {
        (word ^ (word >> 62))
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(index)
    }

    /// Combines two adjacent state words: the twist step of the Mersenne Twister.
    #[inline]
    fn twist(high: u64, low: u64) -> u64 {
        const LOW: u64 = 0x7fff_ffff;
        let x = (high & !LOW) | (low & LOW);
        (x >> 1) ^ ((x & 1).wrapping_neg() & 0xb502_6f5a_a966_19e9)
    }

    /// Applies the output transformation (tempering) of the Mersenne Twister to a state word.
    #[inline]
    fn temper(word: u64) -> u64 {
        let mut x = word;
        x ^= (x >> 29) & 0x5555_5555_5555_5555;
        x ^= (x << 17) & 0x71d6_7fff_eda6_0000;
        x ^= (x << 37) & 0xfff7_eee0_0000_0000;
        x ^ (x >> 43)
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub(crate) fn draw(&mut self) -> u64 {
        match self.numbers.get(self.next) {
            Some(&number) => {
                self.next += 1;
                number
            }
            None => self.refill(),
        }
    }

    /// Returns a random number below `limit`: one draw modulo `limit`, as in RocksDB.
    ///
    /// `limit` must be at least 1.
    #[inline]
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }

    /// Generates the next block of random numbers and returns its first.
    #[cold]
    fn refill(&mut self) -> u64 {
        let twist = Self::twist;
        let state = &mut *self.state;
        for i in 0..Self::MIDDLE {
            state[i] = state[i + Self::MIDDLE] ^ twist(state[i], state[i + 1]);
        }
        for i in Self::MIDDLE..Self::WORDS - 1 {
            state[i] = state[i - Self::MIDDLE] ^ twist(state[i], state[i + 1]);
        }
        let last = Self::WORDS - 1;
        state[last] = state[last - Self::MIDDLE] ^ twist(state[last], state[0]);
        for (number, word) in self.numbers.iter_mut().zip(state.iter()) {
            *number = Self::temper(*word);
        }
        self.next = 1;
        self.numbers[0]
    }
}

/// A precomputed divisor: computes remainders by multiplication, about 2 ns faster than `%`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Modulus {
    divisor: u64,
    /// 2^64 / divisor, rounded down from a numerator that is smaller by one.
    reciprocal: u64,
}

impl Modulus {
    /// Prepares a divisor, which must be at least 1.
    pub(crate) fn new(divisor: u64) -> Self {
        Modulus {
            divisor,
            reciprocal: u64::MAX / divisor.max(1),
        }
    }

    /// Returns `number` modulo the divisor, without a division.
    #[inline]
    pub(crate) fn remainder(self, number: u64) -> u64 {
        // The reciprocal is too small by at most 1, so the quotient is exact or too small by one.
        let quotient = upper_half(u128::from(number) * u128::from(self.reciprocal));
        let rest = number.wrapping_sub(quotient.wrapping_mul(self.divisor));
        // The branch would be unpredictable. Below the divisor the difference wraps and is the
        // larger.
        rest.min(rest.wrapping_sub(self.divisor))
    }
}

/// Returns the upper 64 bits of a 128-bit integer.
#[inline]
fn upper_half(x: u128) -> u64 {
    (x >> 64) as u64
}

/// The 32-bit Mersenne Twister random number generator (`std::mt19937`).
pub(crate) struct Mersenne32 {
    state: Box<[u32; Mersenne32::WORDS]>,
    next: usize,
}

impl Mersenne32 {
    const WORDS: usize = 624;
    const MIDDLE: usize = 397;

    pub(crate) fn new(seed: u32) -> Self {
        let mut state = Box::new([0; Self::WORDS]);
        let mut word = seed;
        for (index, place) in (0u32..).zip(state.iter_mut()) {
            if index > 0 {
                word = (word ^ (word >> 30))
                    .wrapping_mul(1_812_433_253)
                    .wrapping_add(index);
            }
            *place = word;
        }
        Mersenne32 {
            state,
            next: Self::WORDS,
        }
    }

    /// Returns the next random number.
    fn draw(&mut self) -> u32 {
        if self.next == Self::WORDS {
            self.refill();
        }
        let mut x = self.state[self.next];
        self.next += 1;
        x ^= x >> 11;
        x ^= (x << 7) & 0x9d2c_5680;
        x ^= (x << 15) & 0xefc6_0000;
        x ^ (x >> 18)
    }

    /// Generates the next block of state words in place.
    fn refill(&mut self) {
        const LOW: u32 = 0x7fff_ffff;
        let state = &mut *self.state;
        for i in 0..Self::WORDS {
            let x = (state[i] & !LOW) | (state[(i + 1) % Self::WORDS] & LOW);
            let far = state[(i + Self::MIDDLE) % Self::WORDS];
            state[i] = far ^ (x >> 1) ^ ((x & 1) * 0x9908_b0df);
        }
        self.next = 0;
    }

    /// Returns a uniform random number below `range` (Lemire's method, as in libstdc++).
    fn uniform(&mut self, range: u32) -> u32 {
        let mut product = u64::from(self.draw()) * u64::from(range);
        if low_half(product) < range {
            let threshold = range.wrapping_neg() % range;
            while low_half(product) < threshold {
                product = u64::from(self.draw()) * u64::from(range);
            }
        }
        high_half(product)
    }
}

/// Returns the lower 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the low half is asked for")]
fn low_half(x: u64) -> u32 {
    x as u32
}

/// Returns the upper 32 bits.
fn high_half(x: u64) -> u32 {
    low_half(x >> 32)
}

/// Shuffles like libstdc++'s `std::shuffle` with an `mt19937` seeded by the low half of `seed`.
///
/// Slices of fewer than 65,536 elements take two positions from one draw, longer ones use a draw
/// for each. Slices must have fewer than 2^32 elements.
pub(crate) fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut random = Mersenne32::new(low_half(seed));
    let Ok(count) = u32::try_from(items.len()) else {
        return;
    };
    let index = |x: u32| koeldb_base::coding::to_usize(u64::from(x));
    if count < 2 {
        return;
    }
    if u32::MAX / count < count {
        for i in 1..count {
            items.swap(index(i), index(random.uniform(i + 1)));
        }
        return;
    }
    let mut i = 1;
    if count.is_multiple_of(2) {
        items.swap(1, index(random.uniform(2)));
        i = 2;
    }
    while i < count {
        let range = i + 1;
        let pair = random.uniform(range * (range + 1));
        items.swap(index(i), index(pair / (range + 1)));
        items.swap(index(i + 1), index(pair % (range + 1)));
        i += 2;
    }
}

/// The Park-Miller random number generator of LevelDB: x * 16807 mod 2^31 - 1.
#[derive(Clone, Debug)]
pub(crate) struct ParkMiller(u32);

impl ParkMiller {
    const MODULUS: u32 = 0x7fff_ffff;

    /// Creates a generator; `seed` is brought into range as in LevelDB's generator.
    pub(crate) fn new(seed: u32) -> Self {
        match seed & Self::MODULUS {
            0 | Self::MODULUS => ParkMiller(1),
            seed => ParkMiller(seed),
        }
    }

    /// Returns the next random number, in 1..2^31 - 1.
    #[inline]
    pub(crate) fn draw(&mut self) -> u32 {
        let product = u64::from(self.0) * 16_807;
        self.0 = low_half(product % u64::from(Self::MODULUS));
        self.0
    }

    /// Returns a random number below `limit`.
    #[inline]
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.draw() % limit
    }

    /// Returns a uniform random number in 0..1, as `std::generate_canonical` with 53 bits does.
    fn unit(&mut self) -> f64 {
        // Two draws make 53 random bits; the smallest output of the generator is 1.
        const RANGE: f64 = 2_147_483_646.0;
        let low = f64::from(self.draw() - 1);
        let high = f64::from(self.draw() - 1);
        (low + high * RANGE) / (RANGE * RANGE)
    }
}

/// A generator of normally distributed numbers, libstdc++'s `std::normal_distribution`.
#[derive(Clone, Debug)]
pub(crate) struct Normal {
    random: ParkMiller,
    mean: f64,
    deviation: f64,
    /// The second of the two numbers that the polar method makes.
    spare: Option<f64>,
}

impl Normal {
    pub(crate) fn new(mean: f64, deviation: f64) -> Self {
        Normal {
            random: ParkMiller(1),
            mean,
            deviation,
            spare: None,
        }
    }

    /// Draws a number by the polar method, which produces two numbers at a time.
    fn draw(&mut self) -> f64 {
        let standard = self.spare.take().unwrap_or_else(|| {
            loop {
                let x = 2.0 * self.random.unit() - 1.0;
                let y = 2.0 * self.random.unit() - 1.0;
                let square = x * x + y * y;
                if square > 0.0 && square <= 1.0 {
                    let scale = (-2.0 * square.ln() / square).sqrt();
                    self.spare = Some(x * scale);
                    return y * scale;
                }
            }
        });
        standard * self.deviation + self.mean
    }

    /// Draws a whole number clamped to 0..`limit`; `limit` must be at least 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "fractions are cut, and numbers outside the range saturate"
    )]
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.draw() as u64).min(limit - 1)
    }
}

/// A generator of random booleans that are `true` with a fixed probability.
///
/// The sequence is that of `std::bernoulli_distribution` on `std::minstd_rand0`.
#[derive(Clone, Debug)]
pub(crate) struct Bernoulli {
    random: ParkMiller,
    probability: f64,
}

impl Bernoulli {
    pub(crate) fn new(probability: f64, seed: u64) -> Self {
        // Unlike `ParkMiller::new`, the standard library reduces the seed by a remainder.
        let seed = match low_half(seed) % ParkMiller::MODULUS {
            0 => 1,
            seed => seed,
        };
        Bernoulli {
            random: ParkMiller(seed),
            probability,
        }
    }

    /// Draws `true` with the fixed probability.
    pub(crate) fn draw(&mut self) -> bool {
        self.random.unit() < self.probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_thread_of_seed_42_draws_what_rocksdb_draws() {
        let mut random = Mersenne64::new(43);
        let draws: Vec<u64> = (0..4).map(|_| random.draw()).collect();
        assert_eq!(
            draws,
            [
                517_903_087_452_778_646,
                5_503_290_952_634_489_979,
                581_382_956_510_732_038,
                7_698_380_982_261_852_713
            ]
        );
    }

    #[test]
    fn the_first_number_is_that_of_the_whole_generator() {
        for seed in [0, 1, 43, u64::MAX] {
            assert_eq!(Mersenne64::first(seed), Mersenne64::new(seed).draw());
        }
    }

    #[test]
    fn normal_numbers_are_around_the_mean_and_in_range() {
        let mut normal = Normal::new(500.0, 100.0);
        let numbers: Vec<u64> = (0..1000).map(|_| normal.below(600)).collect();
        let near = numbers
            .iter()
            .filter(|&&number| (400..=600).contains(&number));
        assert!(near.count() > 700 && numbers.iter().all(|&number| number < 600));
    }

    #[test]
    fn the_ten_thousandth_draws_are_those_of_the_cpp_standard() {
        let mut random = Mersenne64::new(5489);
        assert_eq!(
            (0..10_000).map(|_| random.draw()).last(),
            Some(9_981_545_732_273_789_042)
        );
        let mut random = Mersenne32::new(5489);
        assert_eq!(
            (0..10_000).map(|_| random.draw()).last(),
            Some(4_123_659_995)
        );
        let mut random = ParkMiller::new(1);
        assert_eq!(
            (0..10_000).map(|_| random.draw()).last(),
            Some(1_043_618_065)
        );
    }

    #[test]
    fn remainders_are_those_of_division() {
        let mut random = Mersenne64::new(5);
        let edges = [1, 2, 3, 1000, 20_000_000, 1 << 32, u64::MAX - 1, u64::MAX];
        for _ in 0..2000 {
            let (a, b) = (random.draw(), random.draw() >> (random.draw() % 64));
            for divisor in edges.into_iter().chain([b.max(1)]) {
                for number in [0, 1, a, b, divisor - 1, divisor, u64::MAX] {
                    assert_eq!(Modulus::new(divisor).remainder(number), number % divisor);
                }
            }
        }
    }

    #[test]
    fn shuffles_are_those_of_libstdcpp() {
        let mut even: Vec<u64> = (0..10).collect();
        shuffle(&mut even, 42);
        assert_eq!(even, [1, 6, 7, 0, 5, 9, 8, 2, 3, 4]);
        let mut odd: Vec<u64> = (0..11).collect();
        shuffle(&mut odd, 42);
        assert_eq!(odd, [4, 7, 2, 10, 8, 5, 1, 9, 6, 0, 3]);
    }

    #[test]
    fn a_long_shuffle_is_a_permutation() {
        let mut items: Vec<u64> = (0..70_000).collect();
        shuffle(&mut items, 7);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.iter().copied().eq(0..70_000));
    }
}
