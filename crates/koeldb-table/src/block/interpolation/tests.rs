//! Compares results with a linear scan, and counts decoded keys.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "the tests' own numbers are small"
)]

use std::cell::Cell;
use std::cmp::Ordering;

use koeldb_base::KeyOrder;
use koeldb_base::key::{MAX_SEQNO, ValueType, encode};
use proptest::prelude::*;

use super::*;

/// A name, keys, and the accepted range of the mean number of decodes.
pub(crate) type Case = (&'static str, Vec<Vec<u8>>, std::ops::Range<f64>);

fn user_keys(order: KeyOrder) -> KeyFormat {
    KeyFormat {
        order,
        user_keys: true,
        global_seqno: None,
        guess_in_data: false,
    }
}

/// The result of a search, and the number of keys it decodes.
fn probe(keys: &[Vec<u8>], format: &KeyFormat, target: &[u8]) -> (Start, usize) {
    let decodes = Cell::new(0);
    let key_at = |index: usize| {
        decodes.set(decodes.get() + 1);
        Ok(&keys[index][..])
    };
    let start = search(keys.len(), key_at, format, target).unwrap();
    (start, decodes.get())
}

pub(crate) fn bound(count: usize) -> usize {
    2 * usize::try_from(count.next_power_of_two().ilog2()).unwrap() + 2
}

/// The index of the first key at or after the target, from the result of a search.
pub(crate) fn first_at_or_behind(start: Start) -> usize {
    match start {
        Start::Found(index) => index,
        Start::Scan(index) => index + 1,
    }
}

fn internal_target(user_key: &[u8]) -> Vec<u8> {
    encode(user_key, MAX_SEQNO, ValueType::FOR_SEEK)
}

#[test]
fn an_even_key_is_guessed_at_once() {
    let keys: Vec<Vec<u8>> = (0..1024_u64).map(number_key).collect();
    let format = user_keys(KeyOrder::Bytewise);
    let target = internal_target(&number_key(900));
    let (start, decodes) = probe(&keys, &format, &target);
    assert_eq!(start, Start::Found(900));
    assert_eq!(decodes, 1 + 2, "one probe, and the two ends");
    let halvings = Cell::new(0);
    let key_at = |index: usize| {
        halvings.set(halvings.get() + 1);
        Ok(&keys[index][..])
    };
    halve(0..1024, key_at, |key| format.compare(key, &target)).unwrap();
    assert!((8..=11).contains(&halvings.get()), "{}", halvings.get());
}

pub(crate) fn number_key(number: u64) -> Vec<u8> {
    number.swap_bytes().to_le_bytes().to_vec()
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0.0..1.0`.
    fn unit(&mut self) -> f64 {
        let bits = u32::try_from(self.next() >> 32).unwrap();
        f64::from(bits) / f64::from(u32::MAX)
    }

    /// An approximately normal variate with mean 0 and deviation 1.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a key of about this size"
)]
pub(crate) fn rounded(number: f64) -> u64 {
    number as u64
}

/// The last key of each block of `per_block` keys, shortened as in shortening mode 1.
pub(crate) fn separators(mut keys: Vec<Vec<u8>>, per_block: usize) -> Vec<Vec<u8>> {
    keys.sort();
    keys.dedup();
    let ends = (per_block - 1..keys.len() - 1).step_by(per_block);
    let mut separators: Vec<Vec<u8>> = ends
        .map(|end| {
            let mut separator = keys[end].clone();
            let comparator = KeyOrder::Bytewise;
            comparator
                .comparator()
                .shorten_separator(&mut separator, &keys[end + 1]);
            separator
        })
        .collect();
    separators.extend(keys.pop());
    separators
}

/// Mean and largest number of decodes for targets spread over the keys; checks each search.
fn decodes(keys: &[Vec<u8>], order: &KeyOrder) -> (f64, usize) {
    let format = user_keys(order.clone());
    let mut random = Random(301);
    let (mut sum, mut largest, mut searches) = (0_u32, 0, 0_u32);
    for _ in 0..3000 {
        let at = usize::try_from(random.next() % keys.len() as u64).unwrap();
        let mut target = keys[at].clone();
        match random.next() % 8 {
            0 => target.truncate(4),
            1 => {}
            _ => target.extend_from_slice(b"\x01"),
        }
        let (start, decodes) = probe(keys, &format, &internal_target(&target));
        let wanted = keys.partition_point(|key| order.compare(key, &target) == Ordering::Less);
        assert_eq!(first_at_or_behind(start), wanted);
        assert!(
            decodes <= bound(keys.len()),
            "{decodes} of {} keys",
            keys.len()
        );
        sum += u32::try_from(decodes).unwrap();
        searches += 1;
        largest = largest.max(decodes);
    }
    (f64::from(sum) / f64::from(searches), largest)
}

/// The distributions of the published measurements, and some adversarial ones.
pub(crate) fn distributions() -> Vec<Case> {
    let mut random = Random(7);
    let mut keys = |count: u64, key: &mut dyn FnMut(u64, &mut Random) -> Vec<u8>| -> Vec<Vec<u8>> {
        (0..count).map(|n| key(n, &mut random)).collect()
    };
    let mut uniform = |count: u64, per_block| {
        separators(keys(count, &mut |_, r| number_key(r.next())), per_block)
    };
    let mut table: Vec<Case> = vec![
        ("uniform, 35 a block, 256", uniform(35 * 256, 35), 4.0..6.5),
        (
            "uniform, 35 a block, 4096",
            uniform(35 * 4096, 35),
            4.0..6.5,
        ),
        ("uniform, 10 a block", uniform(40_000, 10), 5.0..7.5),
        ("uniform, 1 a block", uniform(4000, 1), 7.0..9.5),
    ];
    let filled = keys(400_000, &mut |_, r| {
        let mut key = number_key(r.next() % 400_000);
        key.extend_from_slice(b"00000000");
        key
    });
    let filled = separators(filled, 34);
    let mut successor = filled.clone();
    successor.pop();
    successor.push(vec![1]);
    table.push(("filled at random", filled, 4.0..6.5));
    table.push(("and its last key shortened", successor, 5.0..12.0));
    let counted = keys(300_000, &mut |n, _| number_key(n));
    table.push(("a counter", separators(counted, 34), 3.5..5.5));
    let decimal = keys(300_000, &mut |n, _| format!("user{n:020}").into_bytes());
    table.push(("decimal text", separators(decimal, 34), 15.0..28.0));
    let hex = keys(100_000, &mut |_, r| {
        format!("{:016x}", r.next()).into_bytes()
    });
    table.push(("hexadecimal text", separators(hex, 10), 12.0..24.0));
    let tables = keys(100_000, &mut |_, r| {
        let id = [3, 9, 17, 40, 90, 1000, 70_000][usize::try_from(r.next() % 7).unwrap()];
        let mut key = u32::swap_bytes(id).to_le_bytes().to_vec();
        key.extend_from_slice(&r.next().to_le_bytes());
        key
    });
    table.push(("seven tables", separators(tables, 10), 8.0..18.0));
    let lognormal = keys(100_000, &mut |_, r| {
        number_key(rounded((r.normal() * 2.0).exp() * 1e12))
    });
    table.push(("lognormal", separators(lognormal, 10), 8.0..20.0));
    let clusters = keys(100_000, &mut |n, r| {
        number_key(((n % 2 * 0xf0_0000_0000 + 1) << 20) + r.next() % 1_000_000)
    });
    table.push(("two clusters", separators(clusters, 10), 6.0..18.0));
    let mut at = 0;
    let times = keys(100_000, &mut |n, r| {
        at += 1 + r.next() % [10, 3000, 1, 100_000][usize::try_from(n / 9000 % 4).unwrap()];
        number_key(at)
    });
    table.push(("times at changing rates", separators(times, 10), 6.0..18.0));
    let mut outlier = keys(200_000, &mut |n, _| number_key(n));
    outlier.push(number_key(u64::MAX));
    table.push(("dense and one far away", separators(outlier, 1), 4.0..12.0));
    table
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of thousands of keys, and no unsafe code")]
fn few_keys_are_decoded_whatever_their_distribution() {
    for (name, keys, expected) in distributions() {
        let (mean, largest) = decodes(&keys, &KeyOrder::Bytewise);
        println!(
            "{name}: {} keys, {mean:.1} decodes, at most {largest}",
            keys.len()
        );
        assert!(expected.contains(&mean), "{name}: {mean} decodes");
        let reversed: Vec<Vec<u8>> = keys.into_iter().rev().collect();
        let (mean_reversed, _) = decodes(&reversed, &KeyOrder::ReverseBytewise);
        assert!(
            mean_reversed < expected.end * 1.2,
            "{name}: {mean_reversed} in reverse"
        );
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of thousands of keys, and no unsafe code")]
fn keys_made_to_mislead_stay_within_the_bound() {
    let mut random = Random(11);
    for count in (1..40).chain([100, 1000, 5000]) {
        // Each gap is twice or half the preceding one; or the numbers are at their limits; or they
        // are equal.
        let doubling: Vec<u64> = (0..count).map(|n| 1 << (n % 64)).collect();
        let halving: Vec<u64> = doubling.iter().map(|n| !n).collect();
        let limits: Vec<u64> = (0..count)
            .map(|n| [0, 1, u64::MAX - 1, u64::MAX][usize::try_from(n % 4).unwrap()])
            .collect();
        let squares: Vec<u64> = (0..count).map(|n| (random.next() >> 32) * n).collect();
        for numbers in [doubling, halving, limits, squares] {
            let mut keys: Vec<Vec<u8>> = numbers
                .iter()
                .zip(0_u64..)
                .map(|(number, n)| [number_key(*number), number_key(n)].concat())
                .collect();
            keys.sort();
            let format = user_keys(KeyOrder::Bytewise);
            for key in &keys {
                for target in [key.clone(), [&key[..], b"!"].concat(), key[..8].to_vec()] {
                    let (start, decodes) = probe(&keys, &format, &internal_target(&target));
                    assert_eq!(
                        first_at_or_behind(start),
                        keys.partition_point(|key| *key < target)
                    );
                    assert!(decodes <= bound(keys.len()), "{decodes} of {count} keys");
                }
            }
        }
    }
}

pub(crate) fn any_keys(count: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    // Several times the limit of few keys.
    let count = if cfg!(miri) { count.min(30) } else { count };
    let alphabets = prop::sample::select(vec![
        vec![b'a'],
        vec![0, 0xff],
        vec![b'a', b'b', b'z'],
        (0..=255).collect(),
    ]);
    alphabets.prop_flat_map(move |alphabet| {
        let byte = prop::sample::select(alphabet);
        prop::collection::vec(prop::collection::vec(byte, 0..24), 0..count)
    })
}

/// Keys with a prefix as a block stores them: in order, with several versions or without footers.
pub(crate) fn versions_of(
    keys: &[Vec<u8>],
    prefix: &str,
    order: &KeyOrder,
    internal: bool,
    seqnos: &[u8],
) -> Vec<Vec<u8>> {
    let versions = if internal { seqnos } else { &seqnos[..1] };
    let mut stored: Vec<Vec<u8>> = keys
        .iter()
        .map(|key| [prefix.as_bytes(), key].concat())
        .flat_map(|key| {
            let version = move |seqno: &u8| encode(&key, u64::from(*seqno), ValueType::Value);
            versions.iter().map(version)
        })
        .collect();
    stored.sort_by(|a, b| order.compare_internal(a, b));
    if !internal {
        for key in &mut stored {
            key.truncate(key.len() - 8);
        }
    }
    stored.dedup();
    stored
}

proptest! {
    #[test]
    fn finds_what_a_linear_scan_finds(
        keys in any_keys(120),
        other in any_keys(120),
        prefix in prop::sample::select(vec!["", "p", "a long common prefix"]),
        order in prop::sample::select(vec![KeyOrder::Bytewise, KeyOrder::ReverseBytewise]),
        internal: bool,
        seqnos: [u8; 8],
    ) {
        let format = KeyFormat { user_keys: !internal, ..user_keys(order.clone()) };
        let stored = versions_of(&keys, prefix, &order, internal, &seqnos);
        let targets: Vec<Vec<u8>> = keys
            .iter()
            .flat_map(|key| [key.clone(), [&key[..], b"\0"].concat(), key[..key.len() / 2].to_vec()])
            .chain(other)
            .flat_map(|key| [[prefix.as_bytes(), &key].concat(), key])
            .map(|key| encode(&key, u64::from(seqnos[0]), ValueType::FOR_SEEK))
            .collect();
        for target in targets {
            let (start, decodes) = probe(&stored, &format, &target);
            let wanted = stored.iter().position(|key| format.compare(key, &target) != Ordering::Less);
            prop_assert_eq!(first_at_or_behind(start).min(stored.len()), wanted.unwrap_or(stored.len()));
            prop_assert!(decodes <= bound(stored.len().max(1)));
        }
    }
}
