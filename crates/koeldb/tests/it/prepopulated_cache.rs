//! `prepopulate_block_cache` puts the blocks of new tables into the cache.

use koeldb::perf::{self, PerfLevel, PerfMetric};
use koeldb::{CompactRangeOptions, ConfigOptions, Db, Options};

use crate::scratch::ScratchDir;

/// The blocks that reads of all keys read from files.
fn blocks_read(db: &Db) -> u64 {
    let read_all = || {
        for at in 0..500 {
            assert!(db.get(format!("k{at:03}")).unwrap().is_some());
        }
    };
    let ((), done) = perf::measure(PerfLevel::EnableCount, read_all);
    done.get(PerfMetric::BlockReadCount)
}

fn fill(db: &Db) {
    for at in 0..500 {
        db.put(format!("k{at:03}"), [b'v'; 60]).unwrap();
    }
    db.flush().unwrap();
}

#[test]
fn blocks_of_flushes_and_of_compactions_are_cached_as_the_option_says() {
    for (value, after_flush, after_compaction) in [
        ("kDisable", false, false),
        ("kFlushOnly", true, false),
        ("kFlushAndCompaction", true, true),
    ] {
        let directory = ScratchDir::new();
        let mut options = Options::new();
        options.create_if_missing(true);
        let text = format!(
            "disable_auto_compactions=true;\
             table_factory={{id=BlockBasedTable;block_size=500;prepopulate_block_cache={value}}}"
        );
        options.apply_str(&text, &ConfigOptions::new()).unwrap();
        let db = Db::open(&options, directory.path()).unwrap();
        fill(&db);
        assert_eq!(blocks_read(&db) == 0, after_flush, "{value}");
        fill(&db);
        let mut whole = CompactRangeOptions::new();
        whole.set_bottommost_level_compaction(koeldb::BottommostLevelCompaction::Force);
        db.compact_range_opt(.., &whole).unwrap();
        assert_eq!(blocks_read(&db) == 0, after_compaction, "{value}");
    }
}
