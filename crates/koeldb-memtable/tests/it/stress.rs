//! Concurrent writers and readers: every reader finds acknowledged writes from then on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use koeldb_base::key::{self, MAX_SEQNO};
use koeldb_base::merge_operator::Merger;
use koeldb_base::prefix::FixedPrefix;
use koeldb_base::{Cursor, KeyOrder, Lookup, PinnedSlice, SeqNo, ValueType};
use koeldb_memtable::{Memtable, MemtableOptions, Recycler, RepKind, SortTask};

const WRITERS: u64 = 3;
const READERS: u64 = 2;

fn per_writer() -> u64 {
    // Together they split a leaf of an index.
    if cfg!(miri) { 12 } else { 4000 }
}

/// Few buckets under Miri, which visits all of them whenever they are borrowed.
fn write_buffer_bytes() -> usize {
    if cfg!(miri) { 1 << 14 } else { 1 << 20 }
}

/// One round in the gate; with `KOELDB_FLOORS=long` each test takes about a minute.
fn rounds() -> u64 {
    if std::env::var("KOELDB_FLOORS").is_ok_and(|floors| floors == "long") {
        60
    } else {
        1
    }
}

fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The distribution of the keys of a run.
#[derive(Clone, Copy)]
enum Keys {
    Random,
    Ascending,
    Hot,
}

impl Keys {
    /// The key that is written with `seqno`.
    fn key(self, seqno: SeqNo) -> Vec<u8> {
        match self {
            Keys::Random => format!("key{:016x}", mix(seqno)).into_bytes(),
            Keys::Ascending => format!("{seqno:016}").into_bytes(),
            Keys::Hot => format!("hot{}", mix(seqno) % 3).into_bytes(),
        }
    }
}

fn value_of(seqno: SeqNo) -> Vec<u8> {
    let len = usize::try_from(mix(seqno) % 300).unwrap();
    [&seqno.to_le_bytes()[..], &vec![b'.'; len]].concat()
}

fn get(memtable: &Memtable, user_key: &[u8], snapshot: SeqNo) -> Option<PinnedSlice> {
    let mut lookup = Lookup::new(user_key, snapshot);
    memtable.search(&mut lookup).unwrap();
    lookup.finish(Merger::default).unwrap()
}

/// The acknowledged writes: writer `w` writes the sequence numbers `1 + w`, `1 + w + WRITERS`, ….
struct Progress {
    written: Vec<AtomicU64>,
    done: AtomicBool,
}

impl Progress {
    fn is_acknowledged(seqno: SeqNo, written: &[u64]) -> bool {
        let writer = usize::try_from((seqno - 1) % WRITERS).unwrap();
        (seqno - 1) / WRITERS < written[writer]
    }

    fn load(&self) -> Vec<u64> {
        self.written
            .iter()
            .map(|written| written.load(Ordering::Acquire))
            .collect()
    }
}

fn read_points(memtable: &Memtable, keys: Keys, progress: &Progress, reader: u64) {
    let mut found: Vec<SeqNo> = Vec::new();
    let mut draw = reader;
    while !progress.done.load(Ordering::Acquire) {
        let written = progress.load();
        for (writer, &written) in written
            .iter()
            .enumerate()
            .filter(|&(_, &written)| written > 0)
        {
            draw = mix(draw);
            let seqno = 1 + writer as u64 + WRITERS * (draw % written);
            let value =
                get(memtable, &keys.key(seqno), seqno).expect("acknowledged entries are found");
            assert_eq!(&value[..], value_of(seqno), "entry {seqno}");
            found.push(seqno);
        }
        if let Some(&seqno) = found.get(usize::try_from(draw).unwrap_or(0) % found.len().max(1)) {
            let value = get(memtable, &keys.key(seqno), seqno).expect("what was found stays");
            assert_eq!(&value[..], value_of(seqno));
        }
        thread::yield_now();
    }
}

fn read_scans(memtable: &Arc<Memtable>, progress: &Progress) {
    let mut forward = true;
    while !progress.done.load(Ordering::Acquire) {
        let written = progress.load();
        let expected: u64 = written.iter().sum();
        let mut cursor = memtable.cursor();
        if forward {
            cursor.seek_to_first().unwrap();
        } else {
            cursor.seek_to_last().unwrap();
        }
        let mut previous: Option<Vec<u8>> = None;
        let mut acknowledged = 0;
        while cursor.valid() {
            let internal = cursor.key().to_vec();
            let seqno = key::seqno(&internal);
            assert_eq!(cursor.value(), value_of(seqno));
            acknowledged += u64::from(Progress::is_acknowledged(seqno, &written));
            if let Some(previous) = &previous {
                let order = KeyOrder::Bytewise.compare_internal(previous, &internal);
                assert!(if forward {
                    order.is_lt()
                } else {
                    order.is_gt()
                });
            }
            previous = Some(internal);
            if forward {
                cursor.next().unwrap();
            } else {
                cursor.prev().unwrap();
            }
        }
        assert_eq!(
            acknowledged, expected,
            "a scan met every acknowledged entry"
        );
        forward = !forward;
        thread::yield_now();
    }
}

fn stress(rep: RepKind, keys: Keys) {
    let recycler = Recycler::new(1 << 20);
    for _ in 0..rounds() {
        stress_once(rep, keys, &recycler);
    }
}

fn stress_once(rep: RepKind, keys: Keys, recycler: &Arc<Recycler>) {
    let (tasks, offered) = mpsc::channel::<SortTask>();
    let options = MemtableOptions {
        rep,
        arena_block_bytes: 1 << 14,
        write_buffer_bytes: write_buffer_bytes(),
        prefixes: Some(Arc::new(FixedPrefix::new(4))),
        recycler: Some(Arc::clone(recycler)),
        sorter: Some(Arc::new(move |task| drop(tasks.send(task)))),
        ..MemtableOptions::default()
    };
    let memtable = Memtable::new(KeyOrder::Bytewise, &options);
    let progress = Progress {
        written: (0..WRITERS).map(|_| AtomicU64::new(0)).collect(),
        done: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let (memtable, progress) = (&memtable, &progress);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    for number in 0..per_writer() {
                        let seqno = 1 + writer + WRITERS * number;
                        let (key, value) = (keys.key(seqno), value_of(seqno));
                        memtable
                            .insert(seqno, ValueType::Value, &key, &value)
                            .unwrap();
                        progress.written[usize::try_from(writer).unwrap()]
                            .store(number + 1, Ordering::Release);
                    }
                })
            })
            .collect();
        for reader in 0..READERS {
            scope.spawn(move || read_points(memtable, keys, progress, reader));
        }
        scope.spawn(move || read_scans(memtable, progress));
        scope.spawn(move || {
            while !progress.done.load(Ordering::Acquire) {
                offered.try_iter().for_each(SortTask::run);
                thread::yield_now();
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        progress.done.store(true, Ordering::Release);
    });
    let total = WRITERS * per_writer();
    assert_eq!(memtable.entry_count(), total);
    assert_eq!(memtable.first_seqno(), Some(1));
    assert_eq!(memtable.largest_seqno(), total);
    memtable.seal();
    memtable.finalise();
    for seqno in 1..=total {
        let value = get(&memtable, &keys.key(seqno), seqno).unwrap();
        assert_eq!(&value[..], value_of(seqno));
    }
    let mut cursor = memtable.cursor();
    drop(memtable);
    cursor.seek_to_first().unwrap();
    let mut count = 0;
    while cursor.valid() {
        count += 1;
        cursor.next().unwrap();
    }
    assert_eq!(count, total, "what is flushed is what was inserted");
}

const fn sorted_hash(bucket_count: usize, sorted_vector_limit: usize) -> RepKind {
    RepKind::SortedHash {
        bucket_count,
        sorted_vector_limit,
    }
}

#[test]
fn a_sorted_hash_shows_what_was_acknowledged() {
    stress(sorted_hash(0, 500), Keys::Random);
}

#[test]
fn a_sorted_hash_of_one_bucket_shows_ascending_keys() {
    stress(sorted_hash(1 << 4, 10_000), Keys::Ascending);
}

#[test]
fn a_sorted_hash_shows_versions_that_arrive_out_of_order() {
    stress(sorted_hash(1, 64), Keys::Hot);
}

#[test]
fn lists_by_prefix_show_what_was_acknowledged() {
    stress(RepKind::HashSkipList { bucket_count: 64 }, Keys::Hot);
    let linked = RepKind::HashLinkList {
        bucket_count: 64,
        skip_list_threshold: 12,
    };
    stress(linked, Keys::Random);
}

#[test]
fn random_keys_are_found_once_acknowledged() {
    stress(RepKind::default(), Keys::Random);
}

#[test]
fn ascending_keys_are_found_once_acknowledged() {
    stress(RepKind::default(), Keys::Ascending);
}

#[test]
fn versions_that_arrive_out_of_order_are_found_once_acknowledged() {
    stress(RepKind::default(), Keys::Hot);
}

#[test]
fn a_vector_shows_what_was_acknowledged() {
    stress(RepKind::Vector { reserved: 0 }, Keys::Random);
}

#[test]
fn one_of_two_equal_entries_is_refused() {
    refuse_equal_entries(RepKind::default());
    refuse_equal_entries(sorted_hash(0, 100));
    refuse_equal_entries(RepKind::HashSkipList { bucket_count: 8 });
}

fn refuse_equal_entries(rep: RepKind) {
    let rounds = if cfg!(miri) { 10 } else { 2000 };
    let options = MemtableOptions {
        rep,
        write_buffer_bytes: write_buffer_bytes(),
        prefixes: Some(Arc::new(FixedPrefix::new(1))),
        ..MemtableOptions::default()
    };
    let memtable = Memtable::new(KeyOrder::Bytewise, &options);
    let accepted = AtomicU64::new(0);
    thread::scope(|scope| {
        for value_type in [ValueType::Value, ValueType::Merge, ValueType::Deletion] {
            let (memtable, accepted) = (&memtable, &accepted);
            scope.spawn(move || {
                for seqno in 0..rounds {
                    let key = mix(seqno).to_le_bytes();
                    if memtable.insert(seqno, value_type, &key, b"").is_ok() {
                        accepted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(accepted.load(Ordering::Relaxed), rounds);
    assert_eq!(memtable.entry_count(), rounds);
    let mut cursor = memtable.cursor();
    cursor.seek_to_first().unwrap();
    let mut count = 0;
    while cursor.valid() {
        count += 1;
        cursor.next().unwrap();
    }
    assert_eq!(count, rounds);
}

#[test]
fn published_tombstones_cover_every_later_read() {
    let count = if cfg!(miri) { 12 } else { 400 };
    let memtable = Memtable::new(KeyOrder::Bytewise, &MemtableOptions::default());
    memtable.insert(0, ValueType::Value, b"m", b"v").unwrap();
    let published = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for seqno in 1..=count {
                memtable
                    .insert(seqno, ValueType::RangeDeletion, b"a", b"z")
                    .unwrap();
                published.store(seqno, Ordering::Release);
            }
        });
        for _ in 0..READERS {
            scope.spawn(|| {
                loop {
                    let snapshot = published.load(Ordering::Acquire);
                    let fragments = memtable.tombstones();
                    let covering = fragments.map_or(0, |f| f.covering_seqno(b"m", MAX_SEQNO));
                    assert!(covering >= snapshot);
                    assert_eq!(get(&memtable, b"m", snapshot).is_none(), snapshot > 0);
                    if snapshot == count {
                        break;
                    }
                    thread::yield_now();
                }
            });
        }
    });
}
