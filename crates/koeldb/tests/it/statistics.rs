//! Statistics: every declared ticker and histogram counts.

use std::path::Path;

use koeldb::statistics::{HistogramKind, Statistics, Ticker};
use koeldb::{
    BlockBasedOptions, Cache, ColumnFamilyOptions, CompactRangeOptions, Db, Decision, FixedPrefix,
    IteratorMode, Options, ReadOptions, SstFileWriter, WriteOptions,
};

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
    // faults: scrub, resume, async_reads
    "rocksdb.block.checksum.mismatch.count",
    "rocksdb.async.read.error.count",
    "rocksdb.error.handler.",
    // a full cache that refuses insertions
    "rocksdb.block.cache.add.failures",
    // dictionaries of zstd
    "rocksdb.block.cache.compression.dict.",
    // blob_collection
    "rocksdb.blobdb.",
    // stalls, write_buffers
    "rocksdb.stall.micros",
    "rocksdb.db.write.stall",
    "rocksdb.flush.reason.write_buffer_manager",
    // values in blob files: blob_reads
    "rocksdb.blobdb.",
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
    drop(sweep);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    drop(db);
    // A cache that holds neither indexes nor filters for long.
    let small = Cache::new_lru_cache(16 << 10);
    let db = Db::open(&options(&statistics, &small), &path).unwrap();
    read(&db);
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
