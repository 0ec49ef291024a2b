//! The `mixgraph` workload: a mix of reads, writes and seeks with skewed keys and sizes.
//!
//! It models the traces of "Characterizing, Modeling, and Benchmarking RocksDB Key-Value Workloads
//! at Facebook" (FAST 2020). Lengths follow a generalized Pareto distribution. Keys are uniform,
//! or follow a power law over all keys, or a power law within ranges of keys whose popularity is a
//! sum of two exponentials.

use std::time::Duration;

use koeldb::ColumnFamily;
use koeldb_base::coding::to_usize;
use koeldb_fs::clock::{Clock, SystemClock};

use super::read::add_bytes;
use super::scan::iterator_error;
use crate::db_bench::flags::Flags;
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::random::Mersenne64;
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

/// A kind of query of `mixgraph`: get, put or seek, in the order of the ratio flags.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Query {
    Get,
    Put,
    Seek,
}

/// The proportions of gets, puts and seeks, from `mix_get_ratio` and its siblings.
struct Mix {
    bounds: [u64; 3],
    shares: [f64; 3],
}

impl Mix {
    /// Creates the proportions from the flags; fails if they are negative or sum to 0.
    fn new(flags: &Flags) -> Outcome<Self> {
        let ratios = [
            flags.mix_get_ratio,
            flags.mix_put_ratio,
            flags.mix_seek_ratio,
        ];
        let sum: f64 = ratios.iter().sum();
        if ratios.iter().any(|&ratio| ratio < 0.0) || sum <= 0.0 {
            return Err(Failure::new(
                "mix_get_ratio, mix_put_ratio and mix_seek_ratio must have a positive sum",
            ));
        }
        let shares = ratios.map(|ratio| ratio / sum);
        let mut bound = 0;
        let bounds = shares.map(|share| {
            bound += number((share * 1000.0).ceil());
            bound
        });
        Ok(Mix { bounds, shares })
    }

    /// Returns the kind of query that a random number selects by the proportions.
    fn query(&self, number: u64) -> Query {
        let position = number % self.bounds[2];
        match self.bounds.iter().position(|&bound| position < bound) {
            Some(1) => Query::Put,
            Some(2) => Query::Seek,
            _ => Query::Get,
        }
    }
}

/// Converts a nonnegative floating-point number to an integer; cuts fractions, saturates.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "fractions are cut, and large numbers saturate"
)]
fn number(x: f64) -> u64 {
    x as u64
}

/// Converts an integer to a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "a share is an approximation")]
fn real(x: u64) -> f64 {
    x as f64
}

/// A generalized Pareto distribution of value sizes or scan lengths.
#[derive(Clone, Copy)]
struct Pareto {
    theta: f64,
    k: f64,
    sigma: f64,
}

impl Pareto {
    /// Maps a uniform number `u` to a length by the inverse distribution; 0 if not finite.
    fn length(self, u: f64) -> u64 {
        let length = if self.k == 0.0 {
            self.theta - self.sigma * u.ln()
        } else {
            self.theta + self.sigma * (u.powf(-self.k) - 1.0) / self.k
        };
        if length.is_finite() {
            number(length.ceil())
        } else {
            0
        }
    }
}

/// Returns the seed whose first random number is the key, under the key power law `a x^b`.
fn power_seed(u: f64, a: f64, b: f64) -> u64 {
    number((u / a).powf(1.0 / b).ceil())
}

/// Key ranges with different hit probabilities (`keyrange_dist_a` to `_d`, a two-term exponential).
struct KeyRanges {
    /// The first random number of each range.
    starts: Vec<u64>,
    /// The numbers of all ranges.
    numbers: u64,
    keys_per_range: u64,
}

impl KeyRanges {
    /// Creates the key ranges; `None` if all distribution parameters are 0.
    fn new(flags: &Flags, key_count: u64) -> Outcome<Option<Self>> {
        let [a, b, c, d] = [
            flags.keyrange_dist_a,
            flags.keyrange_dist_b,
            flags.keyrange_dist_c,
            flags.keyrange_dist_d,
        ];
        if [a, b, c, d] == [0.0; 4] {
            return Ok(None);
        }
        let count = u64::try_from(flags.keyrange_num).unwrap_or(0).max(1);
        // The smallest probability gets one number.
        let mut scale = 0.0;
        let mut sizes: Vec<u64> = Vec::new();
        for range in (1..=count).rev() {
            let x = real(range);
            let share = a * (b * x).exp() + c * (d * x).exp();
            let share = if share < 1e-16 { 0.0 } else { share };
            if scale == 0.0 && share > 0.0 {
                scale = (1.0 / share).floor() + 1.0;
            }
            sizes.push(number((scale * share).floor()));
        }
        let numbers: u64 = sizes.iter().sum();
        let keys_per_range = key_count / count;
        if numbers == 0 || keys_per_range == 0 {
            return Err(Failure::new(
                "keyrange_dist_* or keyrange_num leave no keys for a range",
            ));
        }
        // Ranges are spread over the key space, the same way for the same parameters.
        let mut random = Mersenne64::new(numbers);
        for index in 0..sizes.len() {
            sizes.swap(index, to_usize(random.below(count)));
        }
        let mut next = 0;
        let starts = sizes.iter().map(|size| {
            let start = next;
            next += size;
            start
        });
        Ok(Some(KeyRanges {
            starts: starts.collect(),
            numbers,
            keys_per_range,
        }))
    }

    /// Returns the key number for a random number: chooses a range, then a key by a power law.
    fn key(&self, draw: u64, a: f64, b: f64) -> u64 {
        let number = draw % self.numbers;
        let after = self.starts.partition_point(|&start| start <= number);
        let range = u64::try_from(after.saturating_sub(1)).unwrap_or(0);
        let u = real(draw % self.keys_per_range) / real(self.keys_per_range);
        let offset = Mersenne64::first(power_seed(u, a, b)) % self.keys_per_range;
        self.keys_per_range * range + offset
    }
}

/// A query rate that follows a sine over time, with noise (`--sine_mix_rate`).
struct SineRate<'a> {
    flags: &'a Flags,
    begun: Duration,
    changed: Duration,
    interval: Duration,
    noise: Mersenne64,
}

impl<'a> SineRate<'a> {
    fn new(flags: &'a Flags, seed: u64) -> Option<Self> {
        let now = SystemClock.now();
        flags.sine_mix_rate.then(|| SineRate {
            flags,
            begun: now,
            changed: now,
            interval: Duration::from_millis(flags.sine_mix_rate_interval_milliseconds),
            noise: Mersenne64::new(seed),
        })
    }

    /// Updates the read and write rate limits from the sine, once per interval.
    fn adjust(&mut self, worker: &Worker<'_>, mix: &Mix) {
        let now = SystemClock.now();
        if now.saturating_sub(self.changed) <= self.interval {
            return;
        }
        self.changed = now;
        let x = now.saturating_sub(self.begun).as_secs_f64();
        let flags = self.flags;
        let rate = flags.sine_a * (flags.sine_b * x + flags.sine_c).sin() + flags.sine_d;
        let rate = self.with_noise(rate);
        let rates = [
            (&worker.shared.read_pacer, mix.shares[0] + mix.shares[2]),
            (&worker.shared.write_pacer, mix.shares[1]),
        ];
        for (pacer, share) in rates {
            if let Some(pacer) = pacer
                && rate * share >= 1.0
            {
                pacer.set_rate(number(rate * share));
            }
        }
    }

    /// Returns the rate plus random noise; the rate itself if the sum would be negative.
    fn with_noise(&mut self, rate: f64) -> f64 {
        let (ratio, band) = (self.flags.sine_mix_rate_noise, number(self.flags.sine_a));
        if !(0.0..=1.0).contains(&ratio) || band == 0 {
            return rate;
        }
        let noisy = rate + (real(self.noise.below(band)) - real(band / 2)) * ratio;
        if noisy < 0.0 { rate } else { noisy }
    }
}

/// The counts of queries, found keys and bytes of one thread.
#[derive(Default)]
struct Counts {
    gets: u64,
    puts: u64,
    seeks: u64,
    found: u64,
    bytes: u64,
    value_bytes: u64,
    scanned: u64,
}

/// The Pareto distributions of value sizes and scan lengths, with their maxima.
struct Lengths {
    value: Pareto,
    value_max: u64,
    scan: Pareto,
    scan_max: u64,
}

impl Lengths {
    fn new(flags: &Flags) -> Self {
        Lengths {
            value: Pareto {
                theta: flags.value_theta,
                k: flags.value_k,
                sigma: flags.value_sigma,
            },
            value_max: u64::try_from(flags.mix_max_value_size)
                .unwrap_or(0)
                .clamp(10, 1 << 20),
            scan: Pareto {
                theta: flags.iter_theta,
                k: flags.iter_k,
                sigma: flags.iter_sigma,
            },
            scan_max: u64::try_from(flags.mix_max_scan_len).unwrap_or(0).max(1),
        }
    }

    /// Returns the value size in bytes for a uniform random number `u` in 0..1.
    fn value(&self, u: f64) -> u64 {
        match self.value.length(u).max(10) {
            size if size > self.value_max => size % self.value_max,
            size => size,
        }
    }

    /// Returns the scan length in entries for a uniform random number `u` in 0..1.
    fn scan(&self, u: f64) -> u64 {
        self.scan.length(u) % self.scan_max
    }
}

/// Runs `mixgraph`: gets, puts and seeks with modelled key skew, value sizes and rates.
pub(crate) fn mix_graph(worker: &mut Worker<'_>) -> Outcome {
    let (plan, flags) = (worker.plan(), worker.flags());
    let mix = Mix::new(flags)?;
    let ranges = KeyRanges::new(flags, plan.key_count)?;
    let mut sine = SineRate::new(flags, plan.seed);
    let lengths = Lengths::new(flags);
    let (a, b) = (flags.key_dist_a, flags.key_dist_b);
    let numbers = plan.read_numbers();
    let mut key = plan.key_buffer();
    let mut values = plan.value_source();
    let mut counts = Counts::default();
    let mut limit = worker.limit(plan.duration, plan.reads);
    while !limit.done(1) {
        let database = worker.select();
        let draw = numbers.take(&mut worker.random);
        let u = real(draw) / real(plan.key_count);
        let key_number = match &ranges {
            _ if a == 0.0 || b == 0.0 => draw,
            Some(ranges) => ranges.key(draw, a, b),
            None => power_key(power_seed(u, a, b), plan.key_count),
        };
        let key_number = match plan.existing_keys {
            Some(_) => key_number % plan.key_count,
            None => key_number,
        };
        let key = key.key(key_number);
        if let Some(sine) = &mut sine {
            sine.adjust(worker, &mix);
        }
        match mix.query(draw) {
            Query::Get => get(worker, &mut counts, database.family(key_number), key)?,
            Query::Put => {
                let value = values.take_bytes(to_usize(lengths.value(u)));
                put(worker, &mut counts, database.default_family(), (key, value))?;
            }
            Query::Seek => {
                let family = database.default_family();
                scan(worker, &mut counts, family, (key, lengths.scan(u)))?;
            }
        }
    }
    report(worker, &counts);
    Ok(())
}

/// Gets a key and counts the query.
fn get(worker: &mut Worker<'_>, counts: &mut Counts, family: &ColumnFamily, key: &[u8]) -> Outcome {
    counts.gets += 1;
    let found = family.get_with(key, &worker.plan().read_options, <[u8]>::len);
    let found = found.map_err(|error| Failure::of("Get returned an error", &error))?;
    if let Some(value_bytes) = found {
        counts.found += 1;
        add_bytes(&mut counts.bytes, key.len(), value_bytes);
    }
    if let Some(pacer) = &worker.shared.read_pacer
        && (counts.gets + counts.seeks).is_multiple_of(100)
    {
        pacer.request(100);
    }
    worker.finished(1, OpKind::Read);
    Ok(())
}

/// Puts a key and counts the query.
fn put(
    worker: &mut Worker<'_>,
    counts: &mut Counts,
    family: &ColumnFamily,
    (key, value): (&[u8], &[u8]),
) -> Outcome {
    counts.puts += 1;
    counts.value_bytes += value.len() as u64;
    let put = family.put_opt(key, value, &worker.plan().write_options);
    put.map_err(|error| Failure::of("put error", &error))?;
    if let Some(pacer) = &worker.shared.write_pacer
        && counts.puts.is_multiple_of(100)
    {
        pacer.request(100);
    }
    worker.finished(1, OpKind::Write);
    Ok(())
}

/// Seeks to a key, scans up to `length` entries and counts the query.
fn scan(
    worker: &mut Worker<'_>,
    counts: &mut Counts,
    family: &ColumnFamily,
    (key, length): (&[u8], u64),
) -> Outcome {
    counts.seeks += 1;
    let mut cursor = family.cursor_opt(&worker.plan().read_options);
    cursor.seek(key).map_err(|error| iterator_error(&error))?;
    counts.found += u64::from(cursor.key() == Some(key));
    for _ in 0..length {
        let Some((key, value)) = cursor.entry() else {
            break;
        };
        add_bytes(&mut counts.bytes, key.len(), value.len());
        counts.scanned += 1;
        cursor.next().map_err(|error| iterator_error(&error))?;
    }
    worker.finished(1, OpKind::Seek);
    Ok(())
}

/// Returns the key number for a power law seed; half of them are outside the key space.
///
/// RocksDB's program takes the remainder of a signed number, so these are not found.
fn power_key(seed: u64, key_count: u64) -> u64 {
    let signed = Mersenne64::first(seed).cast_signed();
    let count = i64::try_from(key_count).unwrap_or(i64::MAX);
    (signed % count).cast_unsigned()
}

/// Adds the counts to the thread's result line and report.
fn report(worker: &mut Worker<'_>, counts: &Counts) {
    let mean = |sum: u64, count: u64| real(sum) / real(count.max(1));
    worker.tally.bytes += counts.bytes;
    let Counts {
        gets,
        puts,
        seeks,
        found,
        ..
    } = *counts;
    worker.tally.add_message(&format!(
        "( Gets:{gets} Puts:{puts} Seek:{seeks}, reads {found} in {} found, \
         avg size: {:.1} value, {:.1} scan)\n",
        gets + seeks,
        mean(counts.value_bytes, puts),
        mean(counts.scanned, seeks),
    ));
    let facts = [
        ("gets", gets),
        ("puts", puts),
        ("seeks", seeks),
        ("found", found),
    ];
    worker.tally.facts.extend(facts);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_thousandths_rounded_up() {
        let flags = Flags {
            mix_get_ratio: 0.85,
            mix_put_ratio: 0.14,
            mix_seek_ratio: 0.01,
            ..Flags::default()
        };
        let mix = Mix::new(&flags).expect("valid");
        assert_eq!(mix.bounds[0], 850);
        assert!(mix.query(849) == Query::Get && mix.query(850) == Query::Put);
        assert!(mix.query(mix.bounds[2] - 1) == Query::Seek);
        let none = Flags {
            mix_get_ratio: 0.0,
            ..Flags::default()
        };
        assert!(Mix::new(&none).is_err());
    }

    #[test]
    fn key_ranges_cover_the_key_space_and_some_are_hot() {
        let flags = Flags {
            keyrange_dist_a: 14.18,
            keyrange_dist_b: -2.917,
            keyrange_dist_c: 0.0164,
            keyrange_dist_d: -0.08082,
            keyrange_num: 30,
            ..Flags::default()
        };
        let ranges = KeyRanges::new(&flags, 30_000)
            .expect("valid")
            .expect("ranges");
        let mut random = Mersenne64::new(7);
        let mut hits = [0_u32; 30];
        for _ in 0..10_000 {
            let key = ranges.key(random.below(30_000), 0.002, 0.3);
            hits[to_usize(key / 1000)] += 1;
        }
        hits.sort_unstable();
        assert!(hits[29] > 3 * hits[15], "{hits:?}");
    }

    #[test]
    fn lengths_follow_the_pareto_distribution() {
        let sizes = Pareto {
            theta: 0.0,
            k: 0.2615,
            sigma: 25.45,
        };
        assert_eq!(sizes.length(0.0), 0);
        assert_eq!((sizes.length(1.0), sizes.length(0.5)), (0, 20));
    }
}
