//! Benchmarks each memtable representation: inserts, lookups, and scans beside a writer, relative
//! to the skip list.
//!
//! `cargo bench -p koeldb-memtable --bench reps [-- [value bytes,…] [rounds] [representation,…]]`
//!
//! A memtable is filled with 64 MiB of values under random keys of 16 bytes. Each round runs all
//! representations in turn, and the median of each figure is printed with its ratio to the skip
//! list. Times are thread CPU times, which other work on the machine disturbs less. As in a
//! database, memory is reused from round to round and a background thread sorts; the first round,
//! which has no memory to reuse, is not counted.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark has no interface, measures with the system's clock, and may panic"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use koeldb_base::key::{MAX_SEQNO, encode};
use koeldb_base::merge_operator::Merger;
use koeldb_base::prefix::FixedPrefix;
use koeldb_base::{Cursor, KeyOrder, Lookup, ValueType};
use koeldb_memtable::{BatchEntry, Memtable, MemtableOptions, Recycler, RepKind, SortTask, Sorter};

/// The part of each entry that a scan reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Keys,
    Values,
}

const BUFFER_BYTES: usize = 64 << 20;

fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A key of 16 bytes, as in db_bench: a number, most significant byte first, then zeros.
fn key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&mix(number).swap_bytes().to_le_bytes());
    key
}

/// The CPU time of this thread in nanoseconds.
fn running() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// Nanoseconds per call, over `count` calls.
fn time(count: u64, mut call: impl FnMut(u64)) -> f64 {
    let before = running();
    for number in 0..count {
        call(number);
    }
    (running() - before) as f64 / count as f64
}

/// Starts a thread that runs sort tasks, like the pool of a database.
fn background() -> Sorter {
    let (offer, offered) = mpsc::channel::<SortTask>();
    thread::spawn(move || offered.into_iter().for_each(SortTask::run));
    Arc::new(move |task| drop(offer.send(task)))
}

struct Bench {
    name: &'static str,
    options: MemtableOptions,
    value: Vec<u8>,
    entries: u64,
    /// A memtable that is kept filled, as a database would: without one the recycler keeps no
    /// memory.
    active: Option<Arc<Memtable>>,
    /// The figures of each round, with their names.
    rounds: Vec<Vec<(&'static str, f64)>>,
}

impl Bench {
    fn new(name: &'static str, rep: RepKind, value_bytes: usize) -> Self {
        Bench {
            name,
            options: MemtableOptions {
                rep,
                write_buffer_bytes: BUFFER_BYTES,
                prefixes: Some(Arc::new(FixedPrefix::new(2))),
                recycler: Some(Recycler::new(2 * BUFFER_BYTES)),
                sorter: Some(background()),
                ..MemtableOptions::default()
            },
            value: vec![b'v'; value_bytes],
            entries: (BUFFER_BYTES / value_bytes) as u64,
            active: None,
            rounds: Vec::new(),
        }
    }

    fn scans_well(&self) -> bool {
        matches!(
            self.options.rep,
            RepKind::SkipList { .. } | RepKind::SortedHash { .. }
        )
    }

    fn insert(&self, memtable: &Memtable, number: u64) {
        memtable
            .insert(number + 1, ValueType::Value, &key(number), &self.value)
            .unwrap();
    }

    fn filled(&self, entries: u64) -> Arc<Memtable> {
        let memtable = self.empty();
        for number in 0..entries {
            self.insert(&memtable, number);
        }
        memtable
    }

    /// Creates an empty memtable as the successor of one of the same kind.
    fn empty(&self) -> Arc<Memtable> {
        let before = Memtable::new(KeyOrder::Bytewise, &self.options);
        for number in 0..1000 {
            self.insert(&before, number);
        }
        before.successor(&self.options)
    }

    fn round(&mut self) {
        let mut figures = Vec::new();
        if self.active.is_none() {
            self.active = Some(self.filled(self.entries / 2));
        }
        let memtable = self.empty();
        figures.push((
            "insert",
            time(self.entries, |number| self.insert(&memtable, number)),
        ));
        if self.scans_well() {
            figures.push((
                "first seek, us",
                time(1, |_| memtable.cursor().seek_to_first().unwrap()) / 1e3,
            ));
            figures.push(("seek + 10 next", self.scans(&memtable, Taken::Keys)));
            let copied = self.scans(&memtable, Taken::Values);
            figures.push(("seek + 10, values", copied));
        }
        memtable.seal();
        memtable.finalise();
        self.look_ups(&memtable, &mut figures);
        if self.scans_well() {
            figures.push(("finalised: seek + 10", self.scans(&memtable, Taken::Keys)));
        }
        let mut cursor = memtable.cursor();
        cursor.seek_to_first().unwrap();
        let mut copy = Vec::with_capacity(self.value.len());
        figures.push((
            "copy all, an entry",
            time(self.entries, |_| {
                copy.clear();
                copy.extend_from_slice(cursor.value());
                cursor.next().unwrap();
            }),
        ));
        let bytes = memtable.memory_bytes() as f64 / self.entries as f64;
        figures.push(("bytes an entry", bytes));
        drop(cursor);
        drop(memtable);
        figures.push(("insert by 32", self.batches()));
        if self.scans_well() {
            let paced = self.scans_beside_writer(true, Taken::Keys);
            figures.push(("seek + 10, 1 write each", paced));
            let free = self.scans_beside_writer(false, Taken::Keys);
            figures.push(("seek + 10, free writer", free));
            let copied = self.scans_beside_writer(false, Taken::Values);
            figures.push(("the same, values", copied));
        }
        self.rounds.push(figures);
    }

    fn batches(&self) -> f64 {
        let memtable = self.empty();
        time(self.entries / 32, |batch| {
            let keys: Vec<[u8; 16]> = (batch * 32..batch * 32 + 32).map(key).collect();
            let entries: Vec<BatchEntry<'_>> = keys
                .iter()
                .zip(batch * 32..)
                .map(|(key, seqno)| BatchEntry {
                    seqno,
                    value_type: ValueType::Value,
                    key,
                    value: &self.value,
                })
                .collect();
            memtable.insert_batch(&entries).unwrap();
        }) / 32.0
    }

    fn look_ups(&self, memtable: &Memtable, figures: &mut Vec<(&'static str, f64)>) {
        let count = self.entries.min(200_000);
        let get = |number| {
            let mut lookup = Lookup::new(&key(number), MAX_SEQNO);
            memtable.search(&mut lookup).unwrap();
            lookup.finish(Merger::default).unwrap().is_some()
        };
        figures.push((
            "get",
            time(count, |at| assert!(get(mix(at) % self.entries))),
        ));
        figures.push((
            "get, not there",
            time(count, |at| assert!(!get(self.entries + at))),
        ));
        figures.push((
            "get by 32",
            time(count / 32, |batch| {
                let mut lookups: Vec<Lookup> = (0..32)
                    .map(|at| Lookup::new(&key(mix(batch * 32 + at) % self.entries), MAX_SEQNO))
                    .collect();
                memtable.search_batch(&mut lookups, |_, error| panic!("{error}"));
                for lookup in lookups {
                    assert!(lookup.finish(Merger::default).unwrap().is_some());
                }
            }) / 32.0,
        ));
    }

    fn scan(&self, memtable: &Arc<Memtable>, number: u64, taken: Taken, copy: &mut Vec<u8>) {
        let mut cursor = memtable.cursor();
        let target = encode(&key(mix(number)), MAX_SEQNO, ValueType::FOR_SEEK);
        cursor.seek(&target).unwrap();
        for _ in 0..10 {
            if cursor.valid() {
                assert!(cursor.key().len() >= 24);
                if taken == Taken::Values {
                    copy.clear();
                    copy.extend_from_slice(cursor.value());
                }
                cursor.next().unwrap();
            }
        }
    }

    fn scans(&self, memtable: &Arc<Memtable>, taken: Taken) -> f64 {
        let mut copy = Vec::new();
        time(50_000, |number| {
            self.scan(memtable, number, taken, &mut copy)
        })
    }

    /// Scans a memtable that a writer fills from half to full.
    ///
    /// The writer inserts one entry per scan if `paced`, otherwise as fast as it can.
    fn scans_beside_writer(&self, paced: bool, taken: Taken) -> f64 {
        let memtable = self.filled(self.entries / 2);
        let mut copy = Vec::new();
        // The cost of the first seek is reported separately.
        self.scan(&memtable, 0, taken, &mut copy);
        let scanned = AtomicU64::new(0);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for written in 0..self.entries / 2 {
                    while paced && scanned.load(Ordering::Relaxed) < written {
                        std::hint::spin_loop();
                    }
                    self.insert(&memtable, self.entries / 2 + written);
                }
                done.store(true, Ordering::Relaxed);
            });
            let before = running();
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                self.scan(&memtable, count, taken, &mut copy);
                count += 1;
                scanned.store(count, Ordering::Relaxed);
            }
            (running() - before) as f64 / count as f64
        })
    }

    fn median(&self, figure: &str) -> Option<f64> {
        let of_round = |round: &Vec<(&str, f64)>| {
            let found = round.iter().find(|(name, _)| *name == figure);
            found.map(|&(_, value)| value)
        };
        let mut values: Vec<f64> = self.rounds.iter().skip(1).filter_map(of_round).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|a| !a.starts_with('-'));
    let value_bytes = arguments.next().unwrap_or("1000,100".into());
    let rounds: u64 = arguments.next().map_or(3, |rounds| rounds.parse().unwrap());
    let wanted = arguments.next();
    for value_bytes in value_bytes.split(',').map(|bytes| bytes.parse().unwrap()) {
        let hash = |bucket_count| RepKind::SortedHash {
            bucket_count,
            sorted_vector_limit: RepKind::SORTED_VECTOR_LIMIT,
        };
        let all = [
            ("skip_list", RepKind::default()),
            ("sorted_hash", hash(0)),
            ("sorted_hash:1000000", hash(RepKind::SORTED_HASH_BUCKETS)),
            ("vector", RepKind::Vector { reserved: 0 }),
            (
                "prefix_hash",
                RepKind::HashSkipList {
                    bucket_count: RepKind::HASH_SKIP_LIST_BUCKETS,
                },
            ),
            (
                "hash_linkedlist",
                RepKind::HashLinkList {
                    bucket_count: RepKind::HASH_LINK_LIST_BUCKETS,
                    skip_list_threshold: RepKind::SKIP_LIST_THRESHOLD,
                },
            ),
        ];
        let is_wanted = |name: &str| {
            name == "skip_list"
                || wanted
                    .as_ref()
                    .is_none_or(|wanted| wanted.split(',').any(|one| one == name))
        };
        let mut benches: Vec<Bench> = all
            .into_iter()
            .filter(|(name, _)| is_wanted(name))
            .map(|(name, rep)| Bench::new(name, rep, value_bytes))
            .collect();
        let started = Instant::now();
        for _ in 0..=rounds {
            for bench in &mut benches {
                bench.round();
            }
        }
        println!(
            "\nvalues of {value_bytes} bytes, {rounds} rounds in {:?}; nanoseconds, and ratio to the skip list",
            started.elapsed()
        );
        let (list, others) = benches.split_first().unwrap();
        let figures: Vec<&str> = list.rounds[0].iter().map(|&(name, _)| name).collect();
        for figure in figures {
            let base = list.median(figure).unwrap();
            print!("{figure:24} {base:9.1}");
            for other in others {
                match other.median(figure) {
                    Some(value) => print!("  {value:9.1} {:5.2}x", base / value),
                    None => print!("  {:>16}", "-"),
                }
            }
            println!();
        }
        let names: Vec<&str> = benches.iter().map(|bench| bench.name).collect();
        println!("({})", names.join(", "));
    }
}
