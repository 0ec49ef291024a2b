//! Compares point lookups through the whole engine with a bare loop over the same bytes.
//!
//! A database of cuckoo tables is filled with `--n` keys of 8 bytes and values of 4 bytes,
//! compacted into `--files` files, and read with keys drawn uniformly from the existing ones. The
//! raw rows read the same open files with only hashing and comparing; the engine rows are compared
//! with them:
//!
//! | row | |
//! |---|---|
//! | R0, R0d | hash and load 8 bytes; d: the next key depends on the loaded data |
//! | R1, R1d | the lookup itself, all windows, with the value copied |
//! | RB(b) | the same in batches: hash all, prefetch all, compare all |
//! | E1, E1c, E1d | `get`, `get_into`, `get` with dependent keys |
//! | E2(b) | `multi_get_into` |
//!
//! ```sh
//! cargo bench -p koeldb --bench point_limit -- --n=10000000 --files=1 --passes=7
//! ```
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and makes its own directory"
)]
#![expect(clippy::unwrap_used, reason = "what fails ends the benchmark")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use koeldb::{
    BottommostLevelCompaction, CompactRangeOptions, CuckooResidency, CuckooTableOptions, Db,
    Options, PinnedSlices, ReadOptions, Uint64Comparator, WriteBatch, WriteOptions,
};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::resident::resident_copy;
use koeldb_fs::{FileSystem, MappedPages, OpenOptions};
use koeldb_table::TableReader;
use koeldb_table::cuckoo::hash::{HashFamily, SlotHash};
use koeldb_table::reader::TableReadContext;

const SLOT: usize = 12;

#[derive(Debug)]
struct Args {
    n: u64,
    files: u64,
    reads: usize,
    passes: usize,
    residency: CuckooResidency,
    dir: PathBuf,
}

impl Args {
    fn parse() -> Self {
        let mut args = Args {
            n: 2_000_000,
            files: 1,
            reads: 1_000_000,
            passes: 7,
            residency: CuckooResidency::MappedHuge,
            dir: std::env::temp_dir().join(format!("koeldb-point-limit-{}", std::process::id())),
        };
        for word in std::env::args().skip(1) {
            let Some((name, value)) = word.split_once('=') else {
                continue;
            };
            match name {
                "--n" => args.n = value.parse().unwrap(),
                "--files" => args.files = value.parse().unwrap(),
                "--reads" => args.reads = value.parse().unwrap(),
                "--passes" => args.passes = value.parse().unwrap(),
                "--residency" => args.residency = residency(value),
                "--dir" => args.dir = value.into(),
                _ => panic!("{name} is no option; n, files, reads, passes, residency, dir are"),
            }
        }
        args
    }
}

fn residency(name: &str) -> CuckooResidency {
    match name {
        "mmap" => CuckooResidency::Mapped,
        "huge" => CuckooResidency::MappedHuge,
        "copy" => CuckooResidency::Copied,
        _ => panic!("{name} is no residency; mmap, huge, copy are"),
    }
}

/// A bijection whose values look random.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn key_of(number: u64) -> u64 {
    mixed(number) >> 1
}

fn value_of(key: u64) -> [u8; 4] {
    let [a, b, c, d, ..] = key.to_le_bytes();
    [a, b, c, d]
}

fn options(args: &Args) -> Options {
    let mut options = Options::new();
    let mut table = CuckooTableOptions::new();
    table.set_residency(args.residency);
    options
        .create_if_missing(true)
        .set_comparator(Uint64Comparator)
        .set_allow_mmap_reads(true)
        .set_cuckoo_table_factory(&table)
        .set_write_buffer_size(1 << 30)
        .set_disable_auto_compactions(true)
        .set_target_file_size_base(args.n * 40 / 3 / args.files + 1000);
    options
}

fn fill(args: &Args) -> Db {
    let db = Db::open(&options(args), &args.dir).unwrap();
    let mut unlogged = WriteOptions::new();
    unlogged.disable_wal(true);
    let mut batch = WriteBatch::new();
    for from in (0..args.n).step_by(1000) {
        batch.clear();
        for number in from..args.n.min(from + 1000) {
            let key = key_of(number);
            batch.put(key.to_le_bytes(), value_of(key));
        }
        db.write_opt(&batch, &unlogged).unwrap();
    }
    // Includes tables that could be moved: keys of the last level need no sequence numbers.
    let mut whole = CompactRangeOptions::new();
    whole.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    db.compact_all(&whole).unwrap();
    db.close().unwrap();
    drop(db);
    Db::open(&options(args), &args.dir).unwrap()
}

/// One file, as accessed by the raw loops.
struct RawTable {
    /// The file mapping, which is never unmapped.
    slots: &'static [[u8; SLOT]],
    smallest: u64,
    hash: SlotHash,
    functions: u32,
    window: usize,
    empty: u64,
}

fn word(slot: &[u8; SLOT]) -> u64 {
    slot.first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word))
}

impl RawTable {
    fn open(path: &Path, residency: CuckooResidency) -> Self {
        let options = OpenOptions {
            mmap: true,
            ..OpenOptions::default()
        };
        let file = PosixFileSystem::new().open(path, &options).unwrap();
        let context = TableReadContext {
            order: koeldb::KeyOrder::Uint64,
            ..TableReadContext::default()
        };
        let table = TableReader::open(Arc::clone(&file), &context).unwrap();
        let TableReader::Cuckoo(reader) = &*table else {
            panic!("{} is no cuckoo table", path.display());
        };
        let layout = reader.layout();
        assert_eq!(layout.slot_bytes(), SLOT);
        let buffer = if residency == CuckooResidency::Copied {
            Arc::new(resident_copy(&*file, layout.data_bytes()).unwrap())
        } else {
            let pages = match residency {
                CuckooResidency::Mapped => MappedPages::Small,
                _ => MappedPages::Huge,
            };
            file.arrange_mapping(pages).unwrap();
            Arc::clone(file.mapped().unwrap())
        };
        let bytes =
            Box::leak(Box::new(buffer)).slice(0, u32::try_from(layout.data_bytes()).unwrap());
        let empty = layout.empty_user_key.as_slice();
        let mut raw = RawTable {
            slots: bytes.as_chunks().0,
            smallest: 0,
            hash: SlotHash::new(
                HashFamily::Murmur64A,
                layout.identity_first,
                layout.use_module,
                layout.table_size,
            ),
            functions: layout.function_count,
            window: layout.window_slots as usize,
            empty: u64::from_le_bytes(empty.try_into().unwrap()),
        };
        let used = raw.slots.iter().map(word).filter(|&key| key != raw.empty);
        raw.smallest = used.min().unwrap_or(0);
        raw
    }

    fn window(&self, function: u32, key: u64) -> &[[u8; SLOT]] {
        let at = usize::try_from(self.hash.slot(function, &key.to_le_bytes())).unwrap();
        &self.slots[at..at + self.window]
    }

    /// Returns the value, or whether to continue with the next window.
    #[inline]
    fn scan(&self, window: &[[u8; SLOT]], key: u64) -> Result<[u8; 4], bool> {
        for slot in window {
            let found = word(slot);
            if found == key {
                return Ok(*slot.last_chunk().unwrap());
            }
            if found == self.empty {
                return Err(false);
            }
        }
        Err(true)
    }

    #[inline]
    fn get(&self, key: u64) -> Option<[u8; 4]> {
        for function in 0..self.functions {
            match self.scan(self.window(function, key), key) {
                Ok(value) => return Some(value),
                Err(false) => return None,
                Err(true) => {}
            }
        }
        None
    }
}

/// All files, sorted by their smallest keys.
struct Raw {
    tables: Vec<RawTable>,
    bounds: Vec<u64>,
}

impl Raw {
    fn open(dir: &Path, residency: CuckooResidency) -> Self {
        let mut tables: Vec<RawTable> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|name| name == "sst"))
            .map(|path| RawTable::open(&path, residency))
            .collect();
        tables.sort_by_key(|table| table.smallest);
        let bounds = tables.iter().skip(1).map(|table| table.smallest).collect();
        Raw { tables, bounds }
    }

    #[inline]
    fn table(&self, key: u64) -> &RawTable {
        let index = self.bounds.iter().filter(|&&bound| bound <= key).count();
        &self.tables[index]
    }

    fn batch(&self, keys: &[u64], out: &mut [[u8; 4]], waiting: &mut Vec<(usize, u32)>) -> usize {
        waiting.clear();
        for (index, &key) in keys.iter().enumerate() {
            fetch(self.table(key).window(0, key));
            waiting.push((index, 0));
        }
        let mut found = 0;
        while !waiting.is_empty() {
            waiting.retain_mut(|(index, function)| {
                let key = keys[*index];
                let table = self.table(key);
                match table.scan(table.window(*function, key), key) {
                    Ok(value) => {
                        out[*index] = value;
                        found += 1;
                        false
                    }
                    Err(true) if *function + 1 < table.functions => {
                        *function += 1;
                        fetch(table.window(*function, key));
                        true
                    }
                    Err(_) => false,
                }
            });
        }
        found
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "a prefetch has no safe form")]
#[inline]
fn fetch(window: &[[u8; SLOT]]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for slot in [window.first(), window.last()].into_iter().flatten() {
        // SAFETY: a prefetch reads nothing and faults at no address; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(slot.as_ptr().cast()) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn fetch(_window: &[[u8; SLOT]]) {}

/// Returns `key`, with a data dependency on the last result.
///
/// `wrong` is 0 for a correct result. A processor that speculates on another result continues with
/// another key and prefetches nothing useful.
#[inline]
fn depending(key: u64, wrong: u32) -> u64 {
    key ^ (u64::from(wrong) << 20)
}

/// Returns the difference between the value of a key and the expected one; 0 if equal.
#[inline]
fn difference(value: [u8; 4], key: u64) -> u32 {
    u32::from_le_bytes(value) ^ u32::from_le_bytes(value_of(key))
}

/// The median time of a read in nanoseconds, and the interquartile range in percent of it.
struct Row {
    nanos: f64,
    spread: f64,
}

fn measure(args: &Args, reads: usize, mut pass: impl FnMut() -> usize) -> Row {
    let mut times = Vec::new();
    for number in 0..=args.passes {
        let begun = Instant::now();
        let found = pass();
        let nanos = begun.elapsed().as_secs_f64() * 1e9;
        assert_eq!(found, reads, "every key is found");
        // The first pass warms up.
        if number > 0 {
            times.push(nanos / f64::from(u32::try_from(reads).unwrap()));
        }
    }
    times.sort_by(f64::total_cmp);
    let at = |quarter: usize| times[(times.len() - 1) * quarter / 4];
    Row {
        nanos: at(2),
        spread: 100.0 * (at(3) - at(1)) / at(2),
    }
}

fn main() {
    let args = Args::parse();
    let db = fill(&args);
    let raw = Raw::open(&args.dir, args.residency);
    println!(
        "{} keys in {} files, {:?}, {} reads, median of {} passes",
        args.n,
        raw.tables.len(),
        args.residency,
        args.reads,
        args.passes
    );
    let keys: Vec<u64> = (0..args.reads as u64)
        .map(|number| key_of(mixed(!number) % args.n))
        .collect();
    let zero = black_box(0_u64);
    let show = |name: &str, row: &Row, against: Option<&Row>| {
        let ratio = against.map_or(String::new(), |raw| {
            format!("{:6.2} x", row.nanos / raw.nanos)
        });
        println!(
            "{name:<8} {:8.1} ns  +-{:4.1} % {ratio}",
            row.nanos, row.spread
        );
    };

    let r0 = measure(&args, keys.len(), || {
        let sum = keys
            .iter()
            .fold(0, |sum, &key| sum ^ word(&raw.table(key).window(0, key)[0]));
        black_box(sum);
        keys.len()
    });
    let r0d = measure(&args, keys.len(), || {
        let mut last = 0;
        for &key in &keys {
            let key = key ^ (last & zero);
            last = word(&raw.table(key).window(0, key)[0]);
        }
        black_box(last);
        keys.len()
    });
    let mut out = vec![[0; 4]; keys.len()];
    let r1 = measure(&args, keys.len(), || {
        let mut found = 0;
        for (&key, out) in keys.iter().zip(&mut out) {
            if let Some(value) = raw.table(key).get(key) {
                *out = value;
                found += 1;
            }
        }
        black_box(&out);
        found
    });
    let r1d = measure(&args, keys.len(), || {
        let (mut found, mut wrong) = (0, 0);
        for &key in &keys {
            let key = depending(key, wrong);
            if let Some(value) = raw.table(key).get(key) {
                wrong = difference(value, key);
                found += 1;
            } else {
                wrong = 1;
            }
        }
        black_box(wrong);
        found
    });
    show("R0", &r0, None);
    show("R0d", &r0d, None);
    show("R1", &r1, None);
    show("R1d", &r1d, None);

    let e1 = measure(&args, keys.len(), || {
        let mut found = 0;
        for key in &keys {
            let value = db.get(key.to_le_bytes()).unwrap();
            found += usize::from(value.is_some());
            black_box(&value);
        }
        found
    });
    let mut value = Vec::new();
    let read = ReadOptions::new();
    let e1c = measure(&args, keys.len(), || {
        let mut found = 0;
        for key in &keys {
            found += usize::from(db.get_into(key.to_le_bytes(), &read, &mut value).unwrap());
            black_box(&value);
        }
        found
    });
    let e1d = measure(&args, keys.len(), || {
        let (mut found, mut wrong) = (0, 0);
        for &key in &keys {
            let key = depending(key, wrong);
            if let Some(value) = db.get(key.to_le_bytes()).unwrap() {
                let value = value.first_chunk().copied().unwrap_or_default();
                wrong = difference(value, key);
                found += 1;
            } else {
                wrong = 1;
            }
        }
        black_box(wrong);
        found
    });
    show("E1", &e1, Some(&r1));
    show("E1c", &e1c, Some(&r1));
    show("E1d", &e1d, Some(&r1d));

    for batch in [10, 25, 50, 100] {
        let mut waiting = Vec::with_capacity(batch);
        let rb = measure(&args, keys.len(), || {
            let batches = keys.chunks(batch).zip(out.chunks_mut(batch));
            let found = batches
                .map(|(keys, out)| raw.batch(keys, out, &mut waiting))
                .sum();
            black_box(&out);
            found
        });
        let mut values = PinnedSlices::with_capacity(batch);
        let mut words: Vec<[u8; 8]> = Vec::with_capacity(batch);
        let e2 = measure(&args, keys.len(), || {
            let mut found = 0;
            for keys in keys.chunks(batch) {
                words.clear();
                words.extend(keys.iter().map(|key| key.to_le_bytes()));
                db.multi_get_into(&words, &read, &mut values);
                found += values
                    .iter()
                    .filter(|value| matches!(value, Ok(Some(_))))
                    .count();
            }
            found
        });
        show(&format!("RB({batch})"), &rb, None);
        show(&format!("E2({batch})"), &e2, Some(&rb));
    }
    print!(
        "{}",
        (db.property_value("koeldb.cuckoo-residency").unwrap()).unwrap_or_default()
    );
    drop(db);
    std::fs::remove_dir_all(&args.dir).unwrap();
}
