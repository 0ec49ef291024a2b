//! Entries hidden by newer ones stay hidden, whatever is compacted.

use std::path::PathBuf;

use koeldb::{
    CompactRangeOptions, CompactionStyle, Compression, Db, FifoCompactionOptions, IteratorMode,
};

use crate::prelude::{creating, value, with_three_tables};
use crate::scratch::ScratchDir;

/// `compact_files` moved the newest table of level 0 below older ones, which then hid it.
#[test]
fn compacting_the_newest_table_alone_hides_nothing_of_it() {
    let dir = ScratchDir::new();
    let db = with_three_tables(&mut creating(), &dir);
    let files = db.live_files();
    let newest = files.iter().max_by_key(|file| file.largest_seqno).unwrap();
    db.default_cf()
        .compact_files(&[PathBuf::from(&newest.name)], 1)
        .unwrap();
    assert_eq!(value(&db, "key").as_deref(), Some("3"));
}

/// A deletion hidden by a cancelled pair was dropped, which exposed an older value.
#[test]
fn a_deletion_behind_a_pair_that_is_gone_stays() {
    for single_deletions in [1, 3] {
        let dir = ScratchDir::new();
        let mut options = creating();
        options.set_disable_auto_compactions(true);
        let db = Db::open(&options, dir.path()).unwrap();
        db.put("key", "1").unwrap();
        db.flush().unwrap();
        let files: Vec<PathBuf> = (db.live_files().into_iter())
            .map(|file| PathBuf::from(file.name))
            .collect();
        db.default_cf().compact_files(&files, 3).unwrap();
        db.delete("key").unwrap();
        db.put("key", "2").unwrap();
        for _ in 0..single_deletions {
            db.single_delete("key").unwrap();
        }
        db.flush().unwrap();
        assert_eq!(value(&db, "key"), None);
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(value(&db, "key"), None);
        assert_eq!(db.live_files().len(), 0);
    }
}

/// A single deletion hidden by a newer value was dropped, which exposed an older value.
///
/// The newer value was removed together with the next single deletion.
#[test]
fn a_single_deletion_stays_until_it_meets_its_own_value() {
    for is_flushed_between in [false, true] {
        let dir = ScratchDir::new();
        let mut options = creating();
        options.set_disable_auto_compactions(true);
        let db = Db::open(&options, dir.path()).unwrap();
        let compact = |output_level| {
            let files = db.live_files().into_iter();
            let newest = files.filter(|file| file.level == 0);
            let names: Vec<PathBuf> = newest.map(|file| PathBuf::from(file.name)).collect();
            db.default_cf().compact_files(&names, output_level).unwrap();
        };
        db.put("key", "1").unwrap();
        db.flush().unwrap();
        compact(3);
        db.single_delete("key").unwrap();
        db.put("key", "2").unwrap();
        if is_flushed_between {
            db.flush().unwrap();
        }
        db.single_delete("key").unwrap();
        db.flush().unwrap();
        assert_eq!(value(&db, "key"), None);
        compact(1);
        assert_eq!(value(&db, "key"), None);
        assert_eq!(db.iterator(IteratorMode::Start).count(), 0);
        // It is removed together with the value.
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(db.live_files().len(), 0);
    }
}

/// FIFO compaction considered only level 0.
///
/// A merge of its tables dropped deletions of deeper entries, and tables were dropped newest data
/// first.
#[test]
fn fifo_compaction_of_a_tree_with_deeper_levels_drops_the_oldest_and_no_deletion() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options
        .set_disable_auto_compactions(true)
        .set_compression_type(Compression::None);
    let db = Db::open(&options, dir.path()).unwrap();
    for key in ["deleted", "kept", "ranged"] {
        db.put(key, vec![b'o'; 100_000]).unwrap();
    }
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert!(db.live_files()[0].level > 0);
    db.close().unwrap();
    drop(db);

    let mut fifo = FifoCompactionOptions::default();
    fifo.set_allow_compaction(true);
    options
        .set_compaction_style(CompactionStyle::Fifo)
        .set_fifo_compaction_options(&fifo);
    let db = Db::open(&options, dir.path()).unwrap();
    db.delete("deleted").unwrap();
    db.flush().unwrap();
    db.delete_range("r", "s").unwrap();
    db.flush().unwrap();
    for key in ["new", "newer"] {
        db.put(key, vec![b'n'; 1000]).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(db.live_files().len(), 5);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(db.live_files().len(), 2, "four were joined");
    assert_eq!(value(&db, "deleted"), None);
    assert_eq!(value(&db, "ranged"), None);
    assert!(value(&db, "kept").is_some());
    db.close().unwrap();
    drop(db);

    fifo.set_max_table_files_size(50_000);
    options.set_fifo_compaction_options(&fifo);
    let db = Db::open(&options, dir.path()).unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    let levels: Vec<usize> = db.live_files().iter().map(|file| file.level).collect();
    assert_eq!(levels, [0]);
    assert!(value(&db, "new").is_some() && value(&db, "newer").is_some());
    assert_eq!(value(&db, "kept"), None);
}
