//! `prepopulate_block_cache` puts the blocks of new tables into the cache, and
//! `uncache_aggressiveness` removes those of replaced ones.

use koeldb::perf::{self, PerfLevel, PerfMetric};
use koeldb::{BlockBasedOptions, Cache, CompactRangeOptions, ConfigOptions, Db, Options};

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

#[test]
fn blocks_of_replaced_tables_leave_the_cache_as_the_option_says() {
    for effort in [0, 1000] {
        let directory = ScratchDir::new();
        let cache = Cache::new_lru_cache(64 << 20);
        let mut table = BlockBasedOptions::new();
        table.set_block_cache(&cache).set_block_size(500);
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_disable_auto_compactions(true)
            .set_block_based_table_factory(&table)
            .set_uncache_aggressiveness(effort);
        let db = Db::open(&options, directory.path()).unwrap();
        fill(&db);
        assert!(blocks_read(&db) > 0);
        let used = cache.get_usage();
        // A second table over the first, so that the compaction rewrites both.
        fill(&db);
        let mut whole = CompactRangeOptions::new();
        whole.set_bottommost_level_compaction(koeldb::BottommostLevelCompaction::Force);
        db.compact_range_opt(.., &whole).unwrap();
        let left = cache.get_usage();
        assert_eq!(left < used / 4, effort > 0, "{left} of {used}");
        assert!(blocks_read(&db) > 0);
    }
}
