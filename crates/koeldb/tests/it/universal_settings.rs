//! Options of universal compaction that change which tables are compressed and merged.

use koeldb::{ConfigOptions, Db, Options};

use crate::scratch::ScratchDir;

fn open(directory: &ScratchDir, text: &str) -> Db {
    let mut options = Options::new();
    options.create_if_missing(true);
    let text = format!(
        "compaction_style=kCompactionStyleUniversal;compression=kZlibCompression;num_levels=3;{text}"
    );
    options.apply_str(&text, &ConfigOptions::new()).unwrap();
    Db::open(&options, directory.path()).unwrap()
}

fn write_run(db: &Db, keys: u32) {
    for key in 0..keys {
        db.put(format!("key {key:04}"), format!("{key:>100}"))
            .unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compact(None).unwrap();
}

/// The level of each table, and whether the table is compressed, which its size shows.
fn tables(db: &Db) -> Vec<(usize, bool)> {
    let table = |file: &koeldb::LiveFile| (file.level, file.bytes < file.entries * 80);
    let mut tables: Vec<_> = db.live_files().iter().map(table).collect();
    tables.sort_unstable();
    tables
}

#[test]
fn only_the_oldest_share_of_the_data_is_compressed() {
    let run = |percent: &str| {
        let directory = ScratchDir::new();
        let text = format!(
            "compaction_options_universal={{compression_size_percent={percent};\
             max_size_amplification_percent=100000;size_ratio=10}};\
             level0_file_num_compaction_trigger=3"
        );
        let db = open(&directory, &text);
        write_run(&db, 5000);
        let flushed = tables(&db);
        db.compact_all(&koeldb::CompactRangeOptions::new()).unwrap();
        assert_eq!(tables(&db), [(2, true)]);
        write_run(&db, 60);
        write_run(&db, 60);
        db.wait_for_compact(None).unwrap();
        (flushed, tables(&db))
    };
    assert_eq!(run("-1"), (vec![(0, true)], vec![(1, true), (2, true)]));
    assert_eq!(run("0"), (vec![(0, false)], vec![(1, false), (2, true)]));
    assert_eq!(run("100"), (vec![(0, false)], vec![(1, true), (2, true)]));
}

#[test]
fn runs_are_merged_by_number_only_above_the_limit() {
    let runs = |limit: i32, stop: u32| {
        let directory = ScratchDir::new();
        let text = format!(
            "compaction_options_universal={{max_read_amp={limit};\
             max_size_amplification_percent=100000;size_ratio=0}};\
             level0_file_num_compaction_trigger=2;\
             level0_slowdown_writes_trigger={stop};level0_stop_writes_trigger={stop}"
        );
        let db = open(&directory, &text);
        // Each run is smaller than those before it, so that no sizes are similar.
        for run in 0..6 {
            write_run(&db, 3200 >> run);
        }
        db.live_files().len()
    };
    assert_eq!(runs(-1, 36), 2);
    assert_eq!(runs(4, 36), 4);
    assert_eq!(runs(6, 36), 6);
    // All runs are smaller than a memtable.
    assert_eq!(runs(0, 36), 1);
    // Writes must not stop for ever.
    assert_eq!(runs(100, 5), 4);
}

#[test]
fn no_setting_stops_or_slows_writes_that_no_compaction_would_let_go_on() {
    for (universal, trigger, stop) in [
        // Merges wider than the excess.
        ("max_read_amp=5;min_merge_width=4", 2, 5),
        ("min_merge_width=100", 2, 5),
        // Merges of less than two runs.
        ("max_merge_width=1", 2, 5),
        (
            "max_merge_width=0;min_merge_width=0;stop_style=kCompactionStopStyleSimilarSize",
            2,
            5,
        ),
        // A stop at the trigger.
        ("max_read_amp=-1", 3, 3),
        // A stop at a number of runs that cannot become smaller.
        ("max_read_amp=-1", 1, 1),
    ] {
        let directory = ScratchDir::new();
        let text = format!(
            "compaction_options_universal={{max_size_amplification_percent=100000;size_ratio=0;\
             {universal}}};level0_file_num_compaction_trigger={trigger};\
             level0_slowdown_writes_trigger={stop};level0_stop_writes_trigger={stop}"
        );
        let db = open(&directory, &text);
        for run in 0..7 {
            write_run(&db, 320 >> run);
            for stall in ["is-write-stopped", "actual-delayed-write-rate"] {
                let value = db.property_int_value(&format!("rocksdb.{stall}"));
                assert_eq!(value.unwrap(), Some(0), "{stall}: {text}, run {run}");
            }
        }
    }
}
