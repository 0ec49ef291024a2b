//! Clips of column families: the keys that go, the tables that stay, and what others see meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use koeldb::fs::layer::{Call, Layer, Layered};
use koeldb::fs::{FileSystem, MemoryFileSystem, SurvivalPolicy};
use koeldb::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, CompactionStyle, Db, ErrorKind,
    ImportColumnFamilyOptions, ReadOptions, Result, ReverseBytewiseComparator, StringAppend,
    TransactionDbOptions,
};
use koeldb_testkit::random::mix;

use crate::export::{Entries, entries};
use crate::storage::{HERE, Storage, over};

fn key(number: u64) -> String {
    format!("key{number:05}")
}

/// The tables of `family` that reach outside of `from..to`, in the bytewise order.
fn reaching_outside(db: &Db, family: &ColumnFamily, from: &str, to: &str) -> Vec<String> {
    let mut files = db.live_files();
    files.retain(|file| {
        let (first, last) = (&file.smallest_key[..], &file.largest_key[..]);
        file.column_family == family.name() && (first < from.as_bytes() || last > to.as_bytes())
    });
    let described = files.iter().map(|file| {
        let (first, last) = (
            file.smallest_key.escape_ascii(),
            file.largest_key.escape_ascii(),
        );
        format!("L{} {first}..{last}", file.level)
    });
    described.collect()
}

/// How a history removes the keys outside of the range before the clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removal {
    None,
    OneByOne,
    ByRange,
    ByWiderRange,
}

/// Fills a column family over several levels with random steps.
fn fill(family: &ColumnFamily, seed: u64, removal: Removal) {
    let settle = |step: u64| match mix(seed ^ step) % 4 {
        0 => family.flush().unwrap(),
        1 => family.compact_range(..).unwrap(),
        2 => family.compact_range("key00000"..="key00040").unwrap(),
        _ => {}
    };
    for round in 0..4 {
        for number in 0..100 {
            if mix(seed ^ (round << 8) ^ number).is_multiple_of(3) {
                family.put(key(number), format!("{round}")).unwrap();
            }
            if mix(seed ^ (round << 8) ^ number).is_multiple_of(7) {
                family.merge(key(number), "more").unwrap();
            }
        }
        settle(round);
    }
    match removal {
        Removal::None => {}
        Removal::OneByOne => {
            for number in (0..30).chain(60..100) {
                family.delete(key(number)).unwrap();
            }
        }
        Removal::ByRange => {
            family.delete_range("a", key(30)).unwrap();
            family.delete_range(key(60), "z").unwrap();
        }
        Removal::ByWiderRange => {
            family.delete_range("a", key(35)).unwrap();
            family.delete_range(key(50), "z").unwrap();
        }
    }
    settle(9);
}

fn clipped_is_exact(style: CompactionStyle, removal: Removal, seed: u64, with_locks: bool) {
    let what = format!("{style:?} {removal:?} seed {seed}");
    let storage = Storage::new();
    let mut options = storage.options();
    if with_locks {
        options.set_transactions(&TransactionDbOptions::new());
    }
    options
        .set_compaction_style(style)
        .set_disable_auto_compactions(seed.is_multiple_of(2))
        .set_level_compaction_dynamic_level_bytes(!seed.is_multiple_of(3))
        .set_target_file_size_base(1 << 10)
        .set_merge_operator(StringAppend::new(","));
    let db = Db::open(&options, HERE).unwrap();
    let koel = db.create_cf("koel", &db.default_cf().options()).unwrap();
    if with_locks {
        // Only transactions and single keys are written then.
        fill(&koel, seed, Removal::OneByOne);
        koel.put("a", "1").unwrap();
        koel.put("z", "1").unwrap();
    } else {
        fill(&koel, seed, removal);
    }
    let mut expected = entries(&koel);
    expected.retain(|(found, _)| (key(30).as_bytes()..key(60).as_bytes()).contains(&&found[..]));
    koel.clip(key(30), key(60)).unwrap();
    assert_eq!(entries(&koel), expected, "{what}");
    let outside = reaching_outside(&db, &koel, &key(30), &key(60));
    assert!(outside.is_empty(), "{what}: {outside:?}");
    // A neighbour that begins where the range ends can be imported beside it.
    let neighbour = db
        .create_cf("neighbour", &db.default_cf().options())
        .unwrap();
    neighbour.put(key(60), "first").unwrap();
    neighbour.put("zz", "last").unwrap();
    let exports = [
        koel.export("/out/koel").unwrap(),
        neighbour.export("/out/neighbour").unwrap(),
    ];
    let how = ImportColumnFamilyOptions::new();
    let joined = db
        .create_column_family_with_import("joined", &koel.options(), &exports, &how)
        .unwrap();
    assert_eq!(entries(&joined).len(), expected.len() + 2, "{what}");
    // Without keys outside, a clip changes nothing.
    koel.clip("a", "zz").unwrap();
    assert_eq!(entries(&koel), expected, "{what}");
}

#[test]
fn after_a_clip_no_key_and_no_table_is_outside_of_the_range() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        for removal in [
            Removal::None,
            Removal::OneByOne,
            Removal::ByRange,
            Removal::ByWiderRange,
        ] {
            for seed in 0..12 {
                clipped_is_exact(style, removal, seed, false);
            }
        }
    }
}

#[test]
fn a_database_with_transactions_is_clipped() {
    for seed in 0..6 {
        clipped_is_exact(CompactionStyle::Level, Removal::None, seed, true);
    }
}

#[test]
fn an_empty_range_removes_all_and_a_range_that_ends_before_it_starts_is_refused() {
    let storage = Storage::new();
    let mut options = storage.options();
    options.set_merge_operator(StringAppend::new(","));
    let db = Db::open(&options, HERE).unwrap();
    let family = db.default_cf();
    family.clip("a", "z").unwrap();
    fill(family, 1, Removal::None);
    let error = family.clip("b", "a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(!entries(family).is_empty());
    family.clip("x", "x").unwrap();
    assert!(entries(family).is_empty());
    assert!(db.live_files().is_empty(), "{:?}", db.live_files());
}

#[test]
fn a_range_is_clipped_in_the_order_of_the_comparator() {
    let storage = Storage::new();
    let mut options = storage.options();
    options
        .set_comparator(ReverseBytewiseComparator)
        .set_merge_operator(StringAppend::new(","));
    let db = Db::open(&options, HERE).unwrap();
    let family = db.default_cf();
    fill(family, 2, Removal::None);
    let mut expected = entries(family);
    family.clip(key(60), key(30)).unwrap();
    expected
        .retain(|(found, _)| &found[..] <= key(60).as_bytes() && &found[..] > key(30).as_bytes());
    assert_eq!(entries(family), expected);
    for file in db.live_files() {
        assert!(&file.smallest_key[..] <= key(60).as_bytes());
        assert!(&file.largest_key[..] >= key(30).as_bytes());
    }
}

#[test]
fn a_snapshot_keeps_what_a_clip_removes_until_it_is_released() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        let storage = Storage::new();
        let mut options = storage.options();
        options
            .set_compaction_style(style)
            .set_merge_operator(StringAppend::new(","));
        let db = Db::open(&options, HERE).unwrap();
        let koel = db.create_cf("koel", &db.default_cf().options()).unwrap();
        fill(&koel, 3, Removal::None);
        let before = entries(&koel);
        let snapshot = db.snapshot();
        koel.clip(key(30), key(60)).unwrap();
        let shown = snapshot.range_cf(&koel, ..).map(Result::unwrap);
        let shown: Entries = shown
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        assert_eq!(shown, before);
        let mut expected = before;
        expected.retain(|(key, _)| (&b"key00030"[..]..b"key00060").contains(&&**key));
        assert_eq!(entries(&koel), expected);
        drop(snapshot);
        // A snapshot that does not show the removed keys does not keep them.
        let later = db.snapshot();
        koel.clip(key(30), key(60)).unwrap();
        let outside = reaching_outside(&db, &koel, &key(30), &key(60));
        assert!(outside.is_empty(), "{style:?}: {outside:?}");
        assert_eq!(entries(&koel), expected);
        drop(later);
    }
}

#[test]
fn the_outside_is_searched_whole_in_a_family_with_prefixes() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    let mut options = ColumnFamilyOptions::new();
    options.set_prefix_extractor(koeldb::FixedPrefix::new(4));
    let family = db.create_cf("prefixes", &options).unwrap();
    for prefix in ["aaaa", "bbbb", "cccc", "dddd"] {
        family.put(format!("{prefix}1"), "value").unwrap();
        family.flush().unwrap();
    }
    family.clip("bbb", "bbbc").unwrap();
    let mut total = ReadOptions::new();
    total.set_total_order_seek(true);
    let found = family.range_opt(.., &total).map(Result::unwrap);
    let found: Vec<_> = found.map(|(key, _)| key.to_vec()).collect();
    assert_eq!(found, [b"bbbb1"]);
}

#[test]
fn writers_beside_a_clip_lose_their_earlier_keys_and_none_of_the_later_ones() {
    let storage = Storage::new();
    let mut options = storage.options();
    options.set_write_buffer_size(64 << 10);
    let db = Db::open(&options, HERE).unwrap();
    let family = db.default_cf();
    for clips in 1..=5_u32 {
        let written = [const { AtomicU32::new(0) }; 3];
        let is_done = AtomicBool::new(false);
        let name = |writer: usize, number: u32| {
            // Before and behind the range, and beyond all keys so far.
            let side = if number.is_multiple_of(2) { "a" } else { "z" };
            format!("{side}{clips}/{writer}/{number:07}")
        };
        let before = std::thread::scope(|scope| {
            for (writer, written) in written.iter().enumerate() {
                let (is_done, name) = (&is_done, &name);
                scope.spawn(move || {
                    let mut number = 0;
                    while !is_done.load(Ordering::SeqCst) || number < 50 {
                        family.put(name(writer, number), [b'v'; 100]).unwrap();
                        number += 1;
                        written.store(number, Ordering::SeqCst);
                    }
                });
            }
            while written
                .iter()
                .any(|count| count.load(Ordering::SeqCst) < 20)
            {
                std::thread::yield_now();
            }
            let before = written.each_ref().map(|count| count.load(Ordering::SeqCst));
            family.clip("k", "l").unwrap();
            is_done.store(true, Ordering::SeqCst);
            before
        });
        for (writer, written) in written.iter().enumerate() {
            let all = 0..written.load(Ordering::SeqCst);
            let kept: Vec<u32> = all
                .clone()
                .filter(|&number| family.get(name(writer, number)).unwrap().is_some())
                .collect();
            let first = kept.first().copied().unwrap_or(all.end);
            assert!(first >= before[writer], "an earlier key stayed");
            assert_eq!(kept, (first..all.end).collect::<Vec<_>>());
        }
        family.clip("k", "l").unwrap();
        assert!(entries(family).is_empty());
        assert!(db.live_files().is_empty());
    }
}

#[test]
fn a_clip_whose_compaction_was_refused_is_completed_by_the_next() {
    let storage = Storage::new();
    let mut options = storage.options();
    options.set_merge_operator(StringAppend::new(","));
    let db = Db::open(&options, HERE).unwrap();
    let family = db.default_cf();
    fill(family, 4, Removal::None);
    family
        .compact_range_opt(.., &CompactRangeOptions::new())
        .unwrap();
    db.disable_manual_compaction();
    let error = family.clip(key(30), key(60)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete);
    let inside = entries(family);
    assert!(
        inside
            .iter()
            .all(|(found, _)| &found[..] >= key(30).as_bytes())
    );
    assert!(
        inside
            .iter()
            .all(|(found, _)| &found[..] < key(60).as_bytes())
    );
    assert!(!reaching_outside(&db, family, &key(30), &key(60)).is_empty());
    db.enable_manual_compaction();
    family.clip(key(30), key(60)).unwrap();
    assert!(reaching_outside(&db, family, &key(30), &key(60)).is_empty());
    assert_eq!(entries(family), inside);
}

/// Keeps what a crash would leave before each change of a file.
#[derive(Debug)]
struct Crashes {
    memory: MemoryFileSystem,
    is_armed: AtomicBool,
    images: Mutex<Vec<MemoryFileSystem>>,
}

impl Layer for Crashes {
    fn around<T>(&self, call: &Call<'_>, proceed: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.is_armed.load(Ordering::SeqCst) && call.operation.is_mutating() {
            let mut images = self.images.lock().unwrap();
            for survival in [SurvivalPolicy::Generous, SurvivalPolicy::Strict] {
                images.push(self.memory.crash_image(survival, 0));
            }
        }
        proceed()
    }
}

#[test]
fn a_crash_within_a_clip_leaves_all_keys_or_those_of_the_range() {
    for removal in [Removal::None, Removal::ByWiderRange] {
        let memory = MemoryFileSystem::new();
        let layer = Crashes {
            memory: memory.clone(),
            is_armed: AtomicBool::new(false),
            images: Mutex::default(),
        };
        let fs = Layered::with_layer(Arc::new(memory), layer);
        let mut options = over(Arc::new(fs.clone()));
        options
            .set_disable_auto_compactions(true)
            .set_target_file_size_base(1 << 10)
            .set_merge_operator(StringAppend::new(","));
        let db = Db::open(&options, HERE).unwrap();
        fill(db.default_cf(), 5, removal);
        // A key behind the range, if a history removed them all.
        db.put("z", "1").unwrap();
        db.flush_wal(true).unwrap();
        let before = entries(db.default_cf());
        fs.layer().is_armed.store(true, Ordering::SeqCst);
        db.default_cf().clip(key(30), key(60)).unwrap();
        fs.layer().is_armed.store(false, Ordering::SeqCst);
        let after = entries(db.default_cf());
        let mut seen = [0, 0];
        for image in fs.layer().images.lock().unwrap().drain(..) {
            let fs: Arc<dyn FileSystem> = Arc::new(image);
            let mut options = over(fs);
            options.set_merge_operator(StringAppend::new(","));
            let secondary = Db::open_as_secondary(&options, HERE, "/own").unwrap();
            let shown = entries(secondary.default_cf());
            drop(secondary);
            let db = Db::open(&options, HERE).unwrap();
            assert_eq!(entries(db.default_cf()), shown);
            assert!(shown == before || shown == after, "{removal:?}: {shown:?}");
            seen[usize::from(shown == after)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
    }
}

#[test]
fn readers_secondaries_and_checkpoints_beside_a_clip_have_all_keys_or_those_of_the_range() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    let family = db.default_cf();
    let secondary = Db::open_as_secondary(&storage.options(), HERE, "/own").unwrap();
    let count = |family: &ColumnFamily| entries(family).len();
    for round in 0..6 {
        for number in 0..100 {
            family.put(key(number), "value").unwrap();
        }
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watch = |watched: &dyn Fn(u32) -> usize| {
                for step in 0.. {
                    let is_last = is_done.load(Ordering::SeqCst);
                    let found = watched(step);
                    assert!(found == 100 || found == 30, "{found} keys");
                    if is_last {
                        assert_eq!(found, 30);
                        break;
                    }
                }
            };
            let (db, secondary, storage) = (&db, &secondary, &storage);
            secondary.try_catch_up_with_primary().unwrap();
            scope.spawn(move || watch(&|_| count(family)));
            scope.spawn(move || {
                watch(&|_| {
                    secondary.try_catch_up_with_primary().unwrap();
                    count(secondary.default_cf())
                });
            });
            scope.spawn(move || {
                watch(&|step| {
                    let path = format!("/checkpoint{round}/{step}");
                    db.create_checkpoint(&path).unwrap();
                    let mut options = storage.options();
                    options.create_if_missing(false);
                    count(Db::open(&options, &path).unwrap().default_cf())
                });
            });
            family.clip(key(30), key(60)).unwrap();
            is_done.store(true, Ordering::SeqCst);
        });
    }
}
