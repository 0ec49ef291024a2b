//! Statistics: every declared ticker and histogram counts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use koeldb::fs::{ManualClock, MemoryFileSystem};
use koeldb::statistics::{HistogramKind, Statistics, Ticker};
use koeldb::{
    BackupEngine, BackupEngineOptions, BlockBasedOptions, BoxError, Cache, ColumnFamilyOptions,
    CompactRangeOptions, CompactionStyle, Compression, Db, Decision, Env, FifoCompactionOptions,
    FileTemperatureAge, FixedPrefix, IteratorMode, MergeOperands, MergeOperator, Options,
    ReadOptions, SstFileWriter, StringAppend, Temperature, TransactionDbOptions, WriteOptions,
};

use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

fn sources(directory: &Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let is_declaration = path.ends_with("koeldb-base/src/stats");
        if path.is_dir() && !is_declaration {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_declared_name_is_counted_by_the_sources() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut text = String::new();
    for name in [
        "koeldb",
        "koeldb-base",
        "koeldb-lsm",
        "koeldb-table",
        "koeldb-fs",
        "koeldb-log",
    ] {
        sources(&crates.join(name).join("src"), &mut text);
    }
    let tickers = Ticker::all().map(|ticker| format!("Ticker::{ticker:?}"));
    let histograms = HistogramKind::all().map(|kind| format!("HistogramKind::{kind:?}"));
    for name in tickers.chain(histograms) {
        let is_counted = text.match_indices(&name).any(|(at, _)| {
            let after = text[at + name.len()..].chars().next();
            !after.is_some_and(|c| c.is_ascii_alphanumeric())
        });
        assert!(is_counted, "nothing counts {name}");
    }
}

/// What needs a fault, a limit or a device, and the tests of which count it.
const ELSEWHERE: &[&str] = &[
    // sst_file_manager
    "rocksdb.files.marked.trash",
    // rate_limit
    "rocksdb.number.rate_limiter.drains",
    "rocksdb.rate.limiter.",
    // a limit of space
    "rocksdb.compaction.cancelled",
    // workers: remote_compaction
    "rocksdb.remote.compact.",
    // faults: scrub, resume, async_reads
    "rocksdb.no.file.errors",
    "rocksdb.block.checksum.mismatch.count",
    "rocksdb.async.read.error.count",
    "rocksdb.error.handler.",
    // a full cache that refuses insertions
    "rocksdb.block.cache.add.failures",
    // dictionaries of zstd
    "rocksdb.block.cache.compression.dict.",
    // stalls, write_buffers
    "rocksdb.stall.micros",
    "rocksdb.db.write.stall",
    "rocksdb.flush.reason.write_buffer_manager",
    // a full blob cache
    "rocksdb.blobdb.cache.add.failures",
    // reads of a device that overlap: async_multi_get, async_scan
    "rocksdb.read.async.micros",
    "rocksdb.async.read.bytes",
    "rocksdb.multiget.io.batch.size",
    "rocksdb.num.level.read.per.multiget",
    "koeldb.multiget.device.rounds",
    "rocksdb.prefetched.bytes.discarded",
];

fn options(statistics: &Statistics, cache: &Cache) -> Options {
    let mut tables = BlockBasedOptions::default();
    tables
        .set_block_cache(cache)
        .set_bloom_filter(10.0)
        .set_cache_index_and_filter_blocks(true);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_statistics(statistics.clone())
        .set_block_based_table_factory(&tables)
        .set_prefix_extractor(FixedPrefix::new(2))
        .set_write_buffer_size(256 << 10)
        .set_max_sequential_skip_in_iterations(2)
        .set_disable_auto_compactions(true)
        .set_compaction_filter("removes x", |_, key, _| match key.starts_with(b"x") {
            true => Decision::Remove,
            false => Decision::Keep,
        });
    options
}

fn key(number: usize) -> String {
    format!("{:02}{number:08}", number % 7)
}

/// An operator that joins operands, and fails with one that is `bad`.
struct Appends;

impl MergeOperator for Appends {
    fn name(&self) -> &str {
        "Appends"
    }

    fn full_merge(
        &self,
        _: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        for value in existing.into_iter().chain(operands) {
            if value == b"bad" {
                return Err("a bad operand".into());
            }
            result.extend_from_slice(value);
        }
        Ok(())
    }
}

/// Merges, transactions, backups, checkpoints and verification.
fn merge_and_copy(statistics: &Statistics, dir: &ScratchDir) {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_statistics(statistics.clone())
        .set_merge_operator(Appends)
        .set_transactions(&TransactionDbOptions::new());
    let db = Db::open(&options, dir.join("merges")).unwrap();
    db.merge("list", "a").unwrap();
    db.merge("list", "b").unwrap();
    db.merge("broken", "bad").unwrap();
    assert_eq!(db.get("list").unwrap().as_deref(), Some(&b"ab"[..]));
    assert!(db.get("broken").is_err());
    let mut transaction = db.transaction();
    transaction.put("key", "value").unwrap();
    transaction.commit().unwrap();
    db.flush().unwrap();
    db.verify_checksums().unwrap();
    let backups = BackupEngine::open(dir.join("backups"), &BackupEngineOptions::new()).unwrap();
    backups.create_new_backup(&db).unwrap();
    db.put("key", "in the log").unwrap();
    db.create_checkpoint(dir.join("checkpoint")).unwrap();
}

/// Values in blob files, which a compaction moves.
fn read_blobs(statistics: &Statistics, dir: &ScratchDir) {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_statistics(statistics.clone())
        .set_enable_blob_files(true)
        .set_blob_compression_type(Compression::Lz4)
        .set_blob_cache(&Cache::new_lru_cache(1 << 20))
        .set_enable_blob_gc(true)
        .set_blob_gc_age_cutoff(1.0)
        .set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.join("blobs")).unwrap();
    for _ in 0..2 {
        for number in 0..100 {
            db.put(key(number), "x".repeat(1000)).unwrap();
        }
        db.flush().unwrap();
    }
    for _ in 0..2 {
        assert!(db.get(key(7)).unwrap().is_some());
    }
    db.compact_all(&CompactRangeOptions::new()).unwrap();
}

/// Compactions of old tables, in the two styles that have them.
fn age(statistics: &Statistics) {
    let clock = ManualClock::new();
    clock.set_unix_micros(1_700_000_000_000_000);
    let fill = |db: &Db, rounds: usize| {
        for _ in 0..rounds {
            for number in 0..50 {
                db.put(key(number), "value").unwrap();
            }
            db.flush().unwrap();
        }
    };
    let pass = |db: &Db, seconds: u64| {
        let now = koeldb::fs::Clock::unix_micros(&clock);
        clock.set_unix_micros(now + seconds * 1_000_000);
        db.wait_for_compact(Some(Duration::from_secs(60))).unwrap();
    };
    let memory = MemoryFileSystem::with_clock(Arc::new(clock.clone()));
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_statistics(statistics.clone())
        .set_level_compaction_dynamic_level_bytes(false)
        .set_num_levels(4)
        .set_ttl(Duration::ZERO)
        .set_env(&Env::stepped(Arc::new(memory), Arc::new(clock.clone()), 1));
    let open = |name: &str, change: &dyn Fn(&mut Options)| {
        let mut options = options.clone();
        change(&mut options);
        Db::open(&options, name).unwrap()
    };
    let db = open("/ttl", &|options| {
        options
            .set_ttl(Duration::from_secs(3600))
            .set_level_zero_file_num_compaction_trigger(2);
    });
    fill(&db, 1);
    let mut to_level_2 = CompactRangeOptions::new();
    to_level_2.set_change_level(true).set_target_level(2);
    db.compact_all(&to_level_2).unwrap();
    fill(&db, 2);
    pass(&db, 1);
    assert!(db.get(key(1)).unwrap().is_some());
    db.default_cf().suggest_compact_range(..).unwrap();
    pass(&db, 1);
    fill(&db, 2);
    pass(&db, 1);
    pass(&db, 10_000);
    let db = open("/periodic", &|options| {
        options.set_periodic_compaction_seconds(Duration::from_secs(3600));
    });
    fill(&db, 2);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    pass(&db, 10_000);
    let queue = |name: &str, change: &dyn Fn(&mut FifoCompactionOptions), ttl| {
        let mut fifo = FifoCompactionOptions::default();
        change(&mut fifo);
        let db = open(name, &|options| {
            options
                .set_compaction_style(CompactionStyle::Fifo)
                .set_num_levels(1)
                .set_ttl(ttl)
                .set_fifo_compaction_options(&fifo);
        });
        fill(&db, 4);
        pass(&db, 10_000);
    };
    let small = |fifo: &mut FifoCompactionOptions| {
        fifo.set_max_table_files_size(1000);
    };
    queue("/fifo size", &small, Duration::ZERO);
    queue("/fifo ttl", &|_| (), Duration::from_secs(3600));
    let mut warm = FileTemperatureAge::default();
    warm.set_age(Duration::from_secs(100))
        .set_temperature(Temperature::Warm);
    let ages = |fifo: &mut FifoCompactionOptions| {
        fifo.set_file_temperature_age_thresholds(vec![warm.clone()]);
    };
    queue("/fifo age", &ages, Duration::ZERO);
}

fn fill(db: &Db, dir: &ScratchDir) {
    let mut synced = WriteOptions::new();
    synced.set_sync(true);
    for number in 0..6000 {
        db.put(key(number), format!("{number:0200}")).unwrap();
    }
    for round in 0..8 {
        db.put_opt("00", format!("{round}"), &synced).unwrap();
    }
    db.put("x", "removed").unwrap();
    db.delete("none").unwrap();
    db.delete_range(key(7), key(70)).unwrap();
    db.flush().unwrap();
    let in_groups = |db: &Db| db.statistics().unwrap().ticker(Ticker::WriteDoneByOther);
    // With few processors and fast syncs, threads seldom meet in a group.
    for _ in 0..200 {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let synced = &synced;
                scope.spawn(move || {
                    for number in 0..50 {
                        db.put_opt(key(thread * 1000 + number), "again", synced)
                            .unwrap();
                    }
                });
            }
        });
        if in_groups(db) > 0 {
            break;
        }
    }
    db.flush().unwrap();
    let file = dir.join("table.sst");
    let mut writer = SstFileWriter::create(&ColumnFamilyOptions::default(), &file).unwrap();
    writer.put("zz", "ingested").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&[&file]).unwrap();
    // The logs of flushed writes may be gone; the call counts.
    let _ = db.get_updates_since(1);
}

fn read(db: &Db) {
    let snapshot = db.snapshot();
    for number in (0..6000).step_by(11) {
        db.get(key(number)).unwrap();
        db.get(format!("{:02}none{number}", number % 7)).unwrap();
    }
    assert!(db.get("00").unwrap().is_some());
    let keys: Vec<String> = (0..200).map(key).collect();
    assert!(db.multi_get(&keys).iter().all(|value| value.is_ok()));
    assert!(db.iterator(IteratorMode::Start).count() > 4000);
    let mut prefix = ReadOptions::new();
    prefix.set_prefix_same_as_start(true);
    let mut cursor = db.cursor_opt(&prefix);
    for absent in 0..50 {
        cursor.seek(format!("{absent:02}5")).unwrap();
    }
    drop(snapshot);
}

#[test]
fn a_workload_moves_every_declared_ticker_and_histogram() {
    let dir = ScratchDir::new();
    let statistics = Statistics::new();
    let cache = Cache::new_lru_cache(8 << 20);
    let path = dir.join("db");
    let db = Db::open(&options(&statistics, &cache), &path).unwrap();
    db.put("in a memtable", "value").unwrap();
    assert!(db.get("in a memtable").unwrap().is_some());
    fill(&db, &dir);
    read(&db);
    for round in 0..30 {
        db.put("00", format!("{round}")).unwrap();
    }
    let mut sweep = db.cursor();
    assert!(sweep.seek("00").unwrap());
    assert!(sweep.next().unwrap());
    assert!(sweep.prev().unwrap());
    drop(sweep);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    drop(db);
    // A cache that holds neither indexes nor filters for long.
    let small = Cache::new_lru_cache(16 << 10);
    let db = Db::open(&options(&statistics, &small), &path).unwrap();
    read(&db);
    merge_and_copy(&statistics, &dir);
    read_blobs(&statistics, &dir);
    age(&statistics);
    let unmoved_tickers = Ticker::all()
        .filter(|ticker| statistics.ticker(*ticker) == 0)
        .map(Ticker::name);
    let unmoved_histograms = HistogramKind::all()
        .filter(|kind| statistics.histogram(*kind).count == 0)
        .map(HistogramKind::name);
    let unmoved: Vec<&str> = unmoved_tickers
        .chain(unmoved_histograms)
        .filter(|name| !ELSEWHERE.iter().any(|known| name.starts_with(known)))
        .collect();
    assert!(unmoved.is_empty(), "{unmoved:#?}");
    drop(db);
    let plain = Db::open(&Options::new(), &path);
    assert!(plain.is_err() || plain.unwrap().statistics().is_none());
}

/// Writes tables on levels 2, 1 and 0, and a memtable, as `Counters.java` does.
fn write_levels(db: &Db) {
    let key = |number: u32| format!("key{number:04}");
    let put = |numbers: std::ops::Range<u32>, step| {
        for number in numbers.step_by(step) {
            db.put(key(number), format!("value {number}")).unwrap();
        }
    };
    for level in [2, 1] {
        put(100 * level..100 * level + 90, 1);
        db.flush().unwrap();
        let new = db.live_files().into_iter().filter(|file| file.level == 0);
        let new: Vec<_> = new.map(|file| file.directory.join(file.name)).collect();
        db.default_cf().compact_files(&new, level).unwrap();
    }
    put(0..150, 3);
    for number in (0..100).step_by(10) {
        db.delete(key(number + 100)).unwrap();
        db.merge(key(number + 200), "operand").unwrap();
    }
    db.flush().unwrap();
    put(0..50, 5);
    for number in (0..100).step_by(20) {
        db.merge(key(number + 200), "again").unwrap();
    }
}

/// Reads the database of [`write_levels`], as `Counters.java` does.
fn read_levels(db: &Db) {
    let key = |number: u32| format!("key{number:04}");
    for number in 0..310 {
        db.get(key(number)).unwrap();
    }
    let keys: Vec<_> = (0..310).step_by(10).map(key).collect();
    assert_eq!(db.multi_get(&keys).len(), keys.len());
    let mut cursor = db.cursor();
    let mut found = cursor.seek_to_first().unwrap();
    while found {
        found = cursor.next().unwrap();
    }
    found = cursor.seek_to_last().unwrap();
    while found {
        found = cursor.prev().unwrap();
    }
    for number in (0..310).step_by(31) {
        if cursor.seek(key(number)).unwrap() {
            cursor.next().unwrap();
        }
    }
    assert!(!cursor.seek(key(500)).unwrap());
}

#[test]
fn the_same_reads_have_the_counts_of_rocksdb() {
    let Some(java) = Java::find() else {
        return;
    };
    let dir = ScratchDir::new();
    let statistics = Statistics::new();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_statistics(statistics.clone())
        .set_level_compaction_dynamic_level_bytes(false)
        .set_disable_auto_compactions(true)
        .set_merge_operator(StringAppend::new(","));
    let db = Db::open(&options, dir.join("ours")).unwrap();
    write_levels(&db);
    statistics.reset();
    read_levels(&db);
    let (ours, theirs) = (statistics.to_string(), java.counters(&dir.join("theirs")));
    for name in [
        "rocksdb.memtable.hit",
        "rocksdb.memtable.miss",
        "rocksdb.l0.hit",
        "rocksdb.l1.hit",
        "rocksdb.l2andup.hit",
        "rocksdb.number.keys.read",
        "rocksdb.bytes.read",
        "rocksdb.number.db.seek",
        "rocksdb.number.db.next",
        "rocksdb.number.db.prev",
        "rocksdb.number.db.seek.found",
        "rocksdb.number.db.next.found",
        "rocksdb.number.db.prev.found",
        "rocksdb.db.iter.bytes.read",
        "rocksdb.num.iterator.created",
        "rocksdb.num.iterator.deleted",
        "rocksdb.number.multiget.get",
        "rocksdb.number.multiget.keys.read",
        "rocksdb.number.multiget.bytes.read",
        "rocksdb.number.multiget.keys.found",
        "rocksdb.bytes.per.read",
        "rocksdb.read.num.merge_operands",
        "rocksdb.sst.batch.size",
    ] {
        let line_of = |text: &str| {
            let is_named = |line: &&str| line.split(' ').next() == Some(name);
            text.lines().find(is_named).map(str::to_owned)
        };
        assert!(line_of(&ours).is_some(), "{name}");
        assert_eq!(line_of(&ours), line_of(&theirs), "{name}");
    }
}
