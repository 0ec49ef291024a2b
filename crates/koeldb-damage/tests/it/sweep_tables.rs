//! Corruption of tables: every bit, every length, sectors and blocks, in every setting.
//!
//! Each outcome must be *detected*, an error, or *harmless*, with all results unchanged. Any other
//! fails the test.

use std::sync::{Arc, Mutex};

use koeldb_base::Result;
use koeldb_base::key::user_key;
use koeldb_damage::reseal::SealedTable;
use koeldb_damage::seeds::{self, TableSeed};
use koeldb_damage::targets::table::{Entries, find, open, scan, scan_backward};
use koeldb_table::TableReader;
use koeldb_testkit::{Floors, Random, Summary};

use crate::watch::watched;

const SECTOR_BYTES: usize = 512;

/// The results of all read operations on a table.
#[derive(Debug, PartialEq)]
struct Sight {
    entries: Entries,
    backward: Entries,
    tombstones: String,
    found: Vec<Option<Vec<u8>>>,
}

fn look(bytes: &[u8], keys: &[Vec<u8>]) -> Result<Sight> {
    let table: Arc<TableReader> = open(bytes, &seeds::read_context())?;
    let found = keys
        .iter()
        .map(|key| Ok(find(&table, key)?.map(|value| value.to_vec())));
    Ok(Sight {
        found: found.collect::<Result<_>>()?,
        entries: scan(&table)?,
        backward: scan_backward(&table)?,
        tombstones: format!("{:?}", table.tombstones()),
    })
}

/// Keys that are in the table, and absent ones.
fn keys_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let table = open(bytes, &seeds::read_context()).unwrap();
    let entries = scan(&table).unwrap();
    let mut keys = vec![b"aak9999".to_vec(), b"zzk00".to_vec()];
    keys.extend(
        entries
            .iter()
            .step_by(7)
            .map(|(key, _)| user_key(key).to_vec()),
    );
    keys
}

#[derive(Default)]
struct Tally {
    flips: u64,
    others: u64,
    detected: u64,
    harmless: u64,
}

/// A table, its results when intact, and the tally of outcomes.
struct Sweep<'t> {
    seed: &'t TableSeed,
    keys: Vec<Vec<u8>>,
    whole: Sight,
    tally: Tally,
}

impl<'t> Sweep<'t> {
    fn new(seed: &'t TableSeed) -> Self {
        let keys = keys_of(&seed.bytes);
        let whole = look(&seed.bytes, &keys).unwrap();
        assert_eq!(whole.entries.len(), 40);
        Sweep {
            seed,
            keys,
            whole,
            tally: Tally::default(),
        }
    }

    /// Reads a damaged form of the table and judges the outcome.
    fn judge(&mut self, damage: &dyn Fn() -> String, bytes: &[u8]) {
        let what = || format!("{}: {}", self.seed.name, damage());
        let mut sight = None;
        watched(bytes.len(), &what, || sight = Some(look(bytes, &self.keys)));
        match sight.unwrap() {
            Err(error) => {
                koeldb_damage::targets::judge(&error);
                self.tally.detected += 1;
            }
            Ok(sight) => {
                // Without checksums a result may be wrong; but it was returned safely.
                assert!(
                    !self.seed.checksummed || sight == self.whole,
                    "another answer: {}",
                    what()
                );
                self.tally.harmless += 1;
            }
        }
    }

    fn flip(&mut self, bits: &[usize]) {
        let mut bytes = self.seed.bytes.clone();
        for bit in bits {
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        self.judge(&|| format!("bits {bits:?} flipped"), &bytes);
        self.tally.flips += 1;
    }

    fn cut(&mut self, len: usize) {
        let bytes = self.seed.bytes[..len].to_vec();
        let detected = self.tally.detected;
        self.judge(&|| format!("cut to {len}"), &bytes);
        assert!(
            self.tally.detected > detected,
            "{}: cut to {len}",
            self.seed.name
        );
        self.tally.others += 1;
    }

    fn sectors(&mut self) {
        let whole = &self.seed.bytes;
        for start in (0..whole.len()).step_by(SECTOR_BYTES) {
            let here = start..whole.len().min(start + SECTOR_BYTES);
            let mut zeroed = whole.clone();
            zeroed[here.clone()].fill(0);
            self.judge(&|| format!("sector at {start} zeroed"), &zeroed);
            let mut doubled = whole.clone();
            let before = start.saturating_sub(SECTOR_BYTES);
            doubled.copy_within(before..before + here.len(), start);
            self.judge(&|| format!("sector at {start} is the one before"), &doubled);
            self.tally.others += 2;
        }
        for more in [1, 5, 100] {
            let longer = [&whole[..], &vec![0; more]].concat();
            self.judge(&|| format!("{more} bytes more"), &longer);
            self.tally.others += 1;
        }
    }

    /// Swaps blocks of equal length. From format version 6 on a checksum depends on the position.
    fn swapped_blocks(&mut self) {
        let sealed = SealedTable::new(self.seed.bytes.clone(), &seeds::read_context()).unwrap();
        if sealed.footer().format_version < 6 {
            return;
        }
        let blocks = sealed.blocks();
        for (index, a) in blocks.iter().enumerate() {
            for b in blocks[index + 1..].iter().filter(|b| b.size == a.size) {
                let mut bytes = self.seed.bytes.clone();
                let stored = usize::try_from(a.size).unwrap() + 5;
                let (a, b) = (
                    usize::try_from(a.offset).unwrap(),
                    usize::try_from(b.offset).unwrap(),
                );
                bytes[a..a + stored].copy_from_slice(&self.seed.bytes[b..b + stored]);
                bytes[b..b + stored].copy_from_slice(&self.seed.bytes[a..a + stored]);
                if bytes != self.seed.bytes {
                    self.judge(&|| format!("blocks at {a} and {b} swapped"), &bytes);
                    self.tally.others += 1;
                }
            }
        }
    }
}

/// `count` numbers below `below` in the short setting, otherwise all of them.
fn chosen(below: usize, count: u64, seed: u64) -> Vec<usize> {
    if Floors::chosen() != Floors::Short {
        return (0..below).collect();
    }
    let mut random = Random::new(seed);
    (0..count)
        .map(|_| usize::try_from(random.below(below as u64)).unwrap())
        .collect()
}

#[test]
fn damaged_tables_answer_truly_or_not_at_all() {
    let begun = crate::seconds();
    let floors = Floors::chosen();
    let sum: Mutex<Tally> = Mutex::default();
    let tables = seeds::tables();
    crate::two_at_a_time(&tables, |number, seed| {
        let mut sweep = Sweep::new(seed);
        let random = crate::seed().wrapping_mul(1000) + number as u64;
        for bit in chosen(seed.bytes.len() * 8, 500, random) {
            sweep.flip(&[bit]);
        }
        // Also flips a second bit, near or far.
        let mut other = Random::new(random);
        for round in 0..floors.of(0, 2, 20) {
            let below = [4096, seed.bytes.len() as u64 * 8][round % 2];
            for bit in 0..seed.bytes.len() * 8 {
                let distance = usize::try_from(1 + other.below(below - 1)).unwrap();
                sweep.flip(&[bit, (bit + distance) % (seed.bytes.len() * 8)]);
            }
        }
        // In the footer every bit matters, and old ones have no checksum.
        for bit in (seed.bytes.len() - 53) * 8..seed.bytes.len() * 8 {
            if floors == Floors::Short && bit % 3 == usize::from(number % 3 == 0) {
                sweep.flip(&[bit]);
            }
        }
        for len in chosen(seed.bytes.len(), 40, random) {
            sweep.cut(len);
        }
        sweep.sectors();
        sweep.swapped_blocks();
        let mut sum = sum.lock().unwrap();
        sum.flips += sweep.tally.flips;
        sum.others += sweep.tally.others;
        sum.detected += sweep.tally.detected;
        sum.harmless += sweep.tally.harmless;
    });
    let tally = sum.into_inner().unwrap();
    Summary {
        suite: "corruption-tables",
        seed: crate::seed(),
        figures: vec![
            ("settings", tables.len() as u64),
            ("flips", tally.flips),
            ("others", tally.others),
            ("detected", tally.detected),
            ("harmless", tally.harmless),
            ("wrong", 0),
        ],
        seconds: crate::seconds() - begun,
        failures: 0,
    }
    .finish("flips", floors.of(24_000, 1_500_000, 10_000_000));
}
