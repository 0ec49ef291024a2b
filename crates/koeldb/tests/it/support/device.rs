//! Databases in memory on a simulated device.
//!
//! The device completes reads in an order determined by a seed, and damages chosen parts of files.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use koeldb::fs::layer::{Call, Layer, Layered, Operation};
use koeldb::fs::read_driver::SimReads;
use koeldb::fs::{FileSystem, MemoryFileSystem, RandomAccessFile, SystemClock};
use koeldb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, CompactRangeOptions, Compression, Db, Env,
    Error, ErrorKind, IndexType, Options, ReadOptions, StringAppend,
};

pub(crate) const PATH: &str = "/async";

/// A small generator, so that a printed seed replays a run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    pub(crate) fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap()
    }
}

/// The fault of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wrong {
    /// Reads of it fail.
    Unreadable,
    /// The next read of it fails.
    UnreadableOnce,
    /// Its first byte is another.
    Flipped,
    /// Its first byte is another the next time it is read.
    FlippedOnce,
}

/// Damages parts of files, and lists the reads that were made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Damage(Arc<Mutex<DamageState>>);

#[derive(Debug, Default)]
struct DamageState {
    wrong: Vec<(PathBuf, Range<u64>, Wrong)>,
    unopenable: bool,
    reads: Vec<(PathBuf, Range<u64>)>,
}

impl Damage {
    pub(crate) fn spoil(&self, part: &(PathBuf, Range<u64>), wrong: Wrong) {
        let mut state = self.0.lock().unwrap();
        state.wrong.push((part.0.clone(), part.1.clone(), wrong));
    }

    pub(crate) fn heal(&self) {
        let mut state = self.0.lock().unwrap();
        state.wrong.clear();
        state.unopenable = false;
    }

    pub(crate) fn refuse_opening(&self) {
        self.0.lock().unwrap().unopenable = true;
    }

    /// The reads of tables since this was asked last.
    pub(crate) fn take_reads(&self) -> Vec<(PathBuf, Range<u64>)> {
        std::mem::take(&mut self.0.lock().unwrap().reads)
    }
}

fn device_error(path: &Path) -> Error {
    Error::io(std::io::Error::from_raw_os_error(5), "read", path)
}

impl Layer for Damage {
    fn around<T>(
        &self,
        call: &Call<'_>,
        proceed: impl FnOnce() -> koeldb::Result<T>,
    ) -> koeldb::Result<T> {
        let is_table = call.path.extension().is_some_and(|name| name == "sst");
        if is_table && call.operation == Operation::Open && self.0.lock().unwrap().unopenable {
            return Err(device_error(call.path));
        }
        proceed()
    }

    fn read(
        &self,
        call: &Call<'_>,
        buffer: &mut [u8],
        below: &dyn RandomAccessFile,
    ) -> koeldb::Result<usize> {
        let read = below.read_at(call.offset, buffer)?;
        let mut state = self.0.lock().unwrap();
        let whole = call.offset..call.offset + call.len;
        if call.path.extension().is_some_and(|name| name == "sst") {
            state.reads.push((call.path.to_owned(), whole.clone()));
        }
        let mut result = Ok(read);
        state.wrong.retain(|(path, part, wrong)| {
            if path != call.path || part.end <= whole.start || whole.end <= part.start {
                return true;
            }
            if matches!(wrong, Wrong::Unreadable | Wrong::UnreadableOnce) {
                result = Err(device_error(call.path));
            } else if whole.contains(&part.start) {
                buffer[usize::try_from(part.start - whole.start).unwrap()] ^= 0x10;
            }
            matches!(wrong, Wrong::Unreadable | Wrong::Flipped)
        });
        result
    }
}

/// A device that holds a database.
pub(crate) struct Device {
    pub(crate) memory: Arc<MemoryFileSystem>,
    pub(crate) damage: Damage,
    pub(crate) sim: SimReads,
}

impl Device {
    pub(crate) fn new(seed: u64) -> Self {
        Device {
            memory: Arc::new(MemoryFileSystem::new()),
            damage: Damage::default(),
            sim: SimReads::new(seed),
        }
    }

    /// Opens the database for writing, past all that is between.
    pub(crate) fn open_plainly(&self, options: &Options) -> Db {
        let mut options = options.clone();
        let fs: Arc<dyn FileSystem> = self.memory.clone();
        options
            .create_if_missing(true)
            .set_disable_auto_compactions(true)
            .set_env(&Env::new(fs, Arc::new(SystemClock)));
        Db::open(&options, PATH).unwrap()
    }

    pub(crate) fn open(&self, options: &Options) -> Db {
        let mut options = options.clone();
        let ordered = Layered::with_layer(self.memory.clone(), self.sim.clone());
        let damaged = Layered::with_layer(Arc::new(ordered), self.damage.clone());
        let env = Env::new(Arc::new(damaged), Arc::new(self.sim.clock().clone()));
        options.set_disable_auto_compactions(true).set_env(&env);
        Db::open(&options, PATH).unwrap()
    }

    /// Like [`open`](Device::open), with all tables open and all blocks uncached.
    ///
    /// The tables have `count` entries.
    pub(crate) fn open_cold(&self, options: &Options, count: usize) -> Db {
        let db = self.open(options);
        let read = uncached().set_async_io(false).clone();
        assert_eq!(db.range_opt(.., &read).count(), count);
        self.damage.take_reads();
        db
    }
}

/// Read options that do not fill the cache.
pub(crate) fn uncached() -> ReadOptions {
    let mut read = ReadOptions::new();
    read.fill_cache(false);
    read
}

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// Writes runs of random operations: some level-0 tables over one or two deeper levels.
pub(crate) fn fill(db: &Db, random: &mut Random, key_count: u64, runs: u64) -> Model {
    let mut model = Model::new();
    for run in 0..runs {
        for step in 0..key_count {
            let key = key(random.below(key_count));
            match random.below(100) {
                0..70 => {
                    let fill = ["compressible", "x"][random.index(2)].repeat(random.index(12));
                    let value = format!("{run}.{step}-{fill}").into_bytes();
                    db.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
                70..80 => {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                }
                80..99 => {
                    let operand = format!("m{run}.{step}");
                    db.merge(&key, &operand).unwrap();
                    let value = model.entry(key).or_default();
                    if !value.is_empty() {
                        value.push(b',');
                    }
                    value.extend_from_slice(operand.as_bytes());
                }
                _ => {
                    let end = [&key[..], b"~"].concat();
                    let end = if random.below(2) == 0 {
                        end
                    } else {
                        self::key(random.below(key_count))
                    };
                    if key < end {
                        db.delete_range(&key, &end).unwrap();
                        model.retain(|other, _| *other < key || *other >= end);
                    }
                }
            }
        }
        db.flush().unwrap();
        if run == 0 || random.below(4) == 0 {
            let mut whole = CompactRangeOptions::new();
            whole.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
            db.default_cf().compact_range_opt(.., &whole).unwrap();
        }
    }
    model
}

pub(crate) fn table_of(random: &mut Random) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::new();
    table.set_block_size([128, 512, 4096][random.index(3)]);
    if random.below(3) > 0 {
        table.set_bloom_filter(10.0);
    }
    match random.below(4) {
        0 => {
            table
                .set_index_type(IndexType::TwoLevel)
                .set_partition_filters(random.below(2) == 0)
                .set_metadata_block_size(128)
                .set_pin_top_level_index_and_filter(random.below(2) == 0);
        }
        1 => {
            table.set_index_type(IndexType::BinarySearchWithFirstKey);
        }
        _ => {}
    }
    table.set_cache_index_and_filter_blocks(random.below(2) == 0);
    match random.below(3) {
        0 => table.set_block_cache(&Cache::new_lru_cache(0)),
        1 => table.set_block_cache(&Cache::new_lru_cache(6 << 10)),
        _ => table.set_block_cache(&Cache::new_clock_cache(1 << 20)),
    };
    table
}

pub(crate) fn options_with(random: &mut Random, table: &BlockBasedOptions) -> Options {
    let mut options = Options::new();
    options
        .set_compression_type([Compression::None, Compression::Snappy][random.index(2)])
        .set_target_file_size_base([2 << 10, 64 << 20][random.index(2)])
        .set_merge_operator(StringAppend::default())
        .set_block_based_table_factory(table);
    options
}

/// Three modes of a multi-get: waiting for each read, one level at a time, all levels concurrently.
pub(crate) fn modes(read: &ReadOptions) -> [ReadOptions; 3] {
    let mut modes = [read.clone(), read.clone(), read.clone()];
    modes[0].set_async_io(false);
    modes[1]
        .set_async_io(true)
        .set_optimize_multiget_for_io(false);
    modes[2].set_async_io(true);
    modes
}

pub(crate) fn batch(random: &mut Random, key_count: u64) -> Vec<Vec<u8>> {
    let count = [1, 2, 8, 8, 40, 300][random.index(6)];
    let mut keys: Vec<Vec<u8>> = (0..count)
        .map(|_| key(random.below(key_count + key_count / 10)))
        .collect();
    if count > 2 {
        keys[count - 1] = keys[0].clone();
    }
    if random.below(2) == 0 {
        keys.sort();
    }
    keys
}

/// Checks damage and scans of tables that are read in pieces.
///
/// A damaged piece is detected and fails the key that needs it, and scans load the tables.
pub(crate) fn check_damage_and_scans(device: &Device, db: &Db, model: &Model, wanted: &[u8]) {
    let cold = uncached();
    device.damage.take_reads();
    db.get_opt(wanted, &cold).unwrap();
    let part = device.damage.take_reads().remove(0);
    device.damage.spoil(&part, Wrong::Flipped);
    for mode in modes(&cold) {
        let found = db.multi_get_opt(&[wanted], &mode);
        assert_eq!(found.get(0).unwrap_err().kind(), ErrorKind::Corruption);
    }
    device.damage.heal();
    let scanned: Vec<_> = db
        .range_opt(.., &cold)
        .map(|entry| entry.unwrap().0.to_vec())
        .collect();
    assert!(scanned.iter().eq(model.keys()), "scans load the table");
    db.verify_checksums().unwrap();
}
