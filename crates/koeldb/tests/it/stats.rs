//! The property `rocksdb.stats`, as RocksDB's `tools/benchmark.sh` reads it.

use koeldb::{CompactRangeOptions, Compression, Db, Options, WriteOptions};

use crate::scratch::ScratchDir;

/// The words of the last line that begins so, as `grep | tail -1 | awk` finds them.
fn words<'t>(text: &'t str, begin: &str) -> Vec<&'t str> {
    let mut lines = text.lines().filter(|line| line.starts_with(begin));
    let line = lines.next_back();
    line.unwrap_or_else(|| panic!("no {begin:?} in {text}"))
        .split_whitespace()
        .collect()
}

/// The number that a word begins with, as awk takes it.
fn number(word: &str) -> f64 {
    let end = word
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(word.len());
    word[..end].parse().unwrap_or_else(|_| panic!("{word}"))
}

#[test]
fn the_fields_that_the_benchmark_script_takes_are_there() {
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true)
        .set_compression_type(Compression::None);
    let db = Db::open(&options, dir.path()).unwrap();
    let value = vec![7; 4096];
    for round in 0..3 {
        for key in 0..1500 {
            db.put(format!("{key:08}"), &value).unwrap();
        }
        let mut synced = WriteOptions::new();
        synced.set_sync(true);
        db.put_opt(format!("synced {round}"), &value, &synced)
            .unwrap();
        db.flush().unwrap();
    }
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    let text = db.property_value("rocksdb.stats").unwrap().unwrap();

    let uptime = words(&text, "Uptime(secs");
    assert!(
        number(uptime[1]) > 0.0 && uptime[2] == "total,",
        "{uptime:?}"
    );
    let writes = words(&text, "Cumulative writes");
    assert_eq!(writes[2..6], ["4503", "writes,", "4503", "keys,"]);
    let ingest = writes.iter().position(|word| *word == "ingest:").unwrap();
    assert_eq!(writes[ingest + 1..ingest + 3], ["0.02", "GB,"]);
    assert_eq!(words(&text, "Cumulative WAL")[4..6], ["3", "syncs,"]);
    let stall = words(&text, "Cumulative stall");
    assert_eq!(stall[2..], ["00:00:0.000", "H:M:S,", "0.0", "percent"]);
    let flush = words(&text, "Flush(GB)");
    assert_eq!(flush[2], "0.017,");
    let compaction = words(&text, "Cumulative compaction");
    assert_eq!(compaction[2..5], ["0.02", "GB", "write,"]);
    assert!(number(compaction[5]) > 0.0);
    // 18 MB flushed, and compacted to 6 MB.
    let sum = words(&text, " Sum");
    assert_eq!(sum[1], "1/0");
    assert!(
        (5.5..6.5).contains(&number(sum[2])) && sum[3] == "MB",
        "{sum:?}"
    );
    assert_eq!(sum[12], "1.3", "write amplification: {text}");
    assert_eq!(sum[17], "4", "three flushes and one compaction: {text}");
    assert_eq!(sum[19..21], ["9006", "3000"], "keys in and dropped: {text}");
    assert_eq!(sum.len(), 23);
    let blobs = words(&text, "Blob file count:");
    assert_eq!(blobs[6..8], ["0.0", "GB,"]);
    assert_eq!(words(&text, "High")[17], "3");
    assert_eq!(words(&text, " Low")[17], "1");
    assert_eq!(words(&text, "Write Stall (count): cf")[4], "0,");

    // An interval begins at the previous report.
    let text = db.property_value("rocksdb.stats").unwrap().unwrap();
    assert_eq!(words(&text, "Interval writes")[2..4], ["0", "writes,"]);
    assert_eq!(words(&text, "Cumulative writes")[2], "4503");
    assert_eq!(words(&text, " Int")[17], "0");
    // The parts have names of their own.
    let family = db.property_value("rocksdb.cfstats").unwrap().unwrap();
    let database = db.property_value("rocksdb.dbstats").unwrap().unwrap();
    words(&family, "Cumulative compaction");
    words(&database, "Cumulative writes");
    assert!(!family.contains("DB Stats") && !database.contains("Compaction Stats"));
}
