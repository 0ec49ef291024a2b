use koeldb_base::file_name;
use koeldb_fs::{FileSystem, MemoryFileSystem, Purpose, SurvivalPolicy, SystemClock, WriteOptions};
use koeldb_log::{RecordWriter, RecordWriterOptions, WalCompression};

use super::*;
use crate::batch::WriteBatch;
use crate::{Db, Env, Options};

const DIRECTORY: &str = "/db";

fn options(fs: &MemoryFileSystem, mode: RecoveryMode) -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_wal_recovery_mode(mode)
        .set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
    options
}

fn open(fs: &MemoryFileSystem, mode: RecoveryMode) -> Result<Db> {
    Db::open(&options(fs, mode), DIRECTORY)
}

/// Returns the crash image of a database with key "a", and the last of its logs.
fn with_one_key(is_flushed: bool) -> (MemoryFileSystem, FileNumber) {
    let fs = MemoryFileSystem::new();
    let db = open(&fs, RecoveryMode::PointInTime).unwrap();
    db.put("a", "value").unwrap();
    if is_flushed {
        db.flush().unwrap();
    }
    let left = fs.crash_image(SurvivalPolicy::Generous, 0);
    let logs = koeldb_log::wal::list(&left, Path::new(DIRECTORY)).unwrap();
    (left, *logs.last().unwrap())
}

fn write_log(
    fs: &MemoryFileSystem,
    number: FileNumber,
    compression: WalCompression,
    records: &[Vec<u8>],
) {
    let path = file_name::wal(Path::new(DIRECTORY), number);
    let file = fs.create(&path, &WriteOptions::new(Purpose::Wal)).unwrap();
    let mut writer = RecordWriter::new(file, RecordWriterOptions { compression }).unwrap();
    for record in records {
        writer.add_record(record).unwrap();
    }
    writer.close().unwrap();
}

/// The batch with sequence number 2 that puts "b", behind a link.
fn second_key(before: FileNumber, kind: LinkKind) -> Vec<Vec<u8>> {
    let mut batch = WriteBatch::new().put("b", "value").clone().into_data();
    batch[0] = 2;
    vec![Link { before, kind }.encode(2), batch]
}

fn has(db: &Db, key: &str) -> bool {
    db.get(key).unwrap().is_some()
}

#[cfg(feature = "zstd")]
#[test]
fn a_link_of_an_early_version_to_a_log_without_batches_is_no_gap() {
    for is_flushed in [false, true] {
        let (fs, last) = with_one_key(is_flushed);
        let announcing = if is_flushed { last } else { last + 10 };
        let path = file_name::wal(Path::new(DIRECTORY), announcing);
        let _ = fs.remove_file(&path);
        write_log(&fs, announcing, WalCompression::Zstd, &[]);
        let records = second_key(announcing, LinkKind::Early);
        write_log(&fs, last + 20, WalCompression::None, &records);
        let db = open(&fs, RecoveryMode::PointInTime).unwrap();
        let report = db.recovery_report();
        assert!(has(&db, "a") && has(&db, "b"), "{is_flushed}: {report}");
    }
}

#[test]
fn a_link_of_an_early_version_to_a_log_that_it_removed_is_no_gap() {
    let (fs, last) = with_one_key(true);
    let path = file_name::wal(Path::new(DIRECTORY), last);
    fs.remove_file(&path).unwrap();
    let records = second_key(last, LinkKind::Early);
    write_log(&fs, last + 20, WalCompression::None, &records);
    let db = open(&fs, RecoveryMode::PointInTime).unwrap();
    assert!(has(&db, "a") && has(&db, "b"), "{}", db.recovery_report());
}

#[test]
fn a_gap_is_an_error_only_in_front_of_logs_that_were_synced() {
    let (fs, last) = with_one_key(true);
    let path = file_name::wal(Path::new(DIRECTORY), last);
    fs.remove_file(&path).unwrap();
    // The log that goes on behind the gap is not the one with the synced batches.
    let lost = fs.crash_image(SurvivalPolicy::Generous, 0);
    write_log(
        &lost,
        last + 20,
        WalCompression::None,
        &second_key(last, LinkKind::Follows),
    );
    let synced = lost.crash_image(SurvivalPolicy::Generous, 0);
    let (before, kind) = (last + 20, LinkKind::Follows);
    let confirmed = Link {
        before,
        kind: LinkKind::Durable,
    };
    let records = [Link { before, kind }.encode(3), confirmed.encode(3)];
    write_log(&synced, last + 30, WalCompression::None, &records);

    let db = open(&lost, RecoveryMode::PointInTime).unwrap();
    assert!(has(&db, "a") && !has(&db, "b"));
    let error = open(&synced, RecoveryMode::PointInTime).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    for number in [last, last + 20] {
        let name = file_name::wal(Path::new(DIRECTORY), number);
        let name = name.display().to_string();
        assert!(error.to_string().contains(&name), "{name}: {error}");
    }
    let db = open(&synced, RecoveryMode::SkipAnyCorruptedRecords).unwrap();
    assert!(has(&db, "a") && has(&db, "b"));
}

#[test]
fn a_gap_that_replay_continues_behind_stays_in_the_report() {
    let (fs, last) = with_one_key(true);
    let path = file_name::wal(Path::new(DIRECTORY), last);
    fs.remove_file(&path).unwrap();
    let mut records = second_key(last, LinkKind::Follows);
    let mut batch = WriteBatch::new().put("c", "value").clone().into_data();
    batch[0] = 3;
    records.push(batch);
    write_log(&fs, last + 20, WalCompression::None, &records);
    for mode in [
        RecoveryMode::TolerateCorruptedTailRecords,
        RecoveryMode::SkipAnyCorruptedRecords,
    ] {
        let fs = fs.crash_image(SurvivalPolicy::Generous, 0);
        let db = open(&fs, mode).unwrap();
        let report = db.recovery_report();
        assert!(has(&db, "b") && has(&db, "c"), "{report}");
        let problem = report.logs[0].problem.as_deref().unwrap_or_default();
        assert!(problem.contains("is missing"), "{mode:?}: {report}");
    }
}

/// Flips a bit in the first record of a log.
fn damage_first_record(fs: &MemoryFileSystem, number: FileNumber) {
    let path = file_name::wal(Path::new(DIRECTORY), number);
    let mut bytes = fs.read_all(&path, u64::MAX, Purpose::Other).unwrap();
    bytes[15] ^= 1;
    fs.remove_file(&path).unwrap();
    let mut file = fs.create(&path, &WriteOptions::new(Purpose::Wal)).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
}

#[test]
fn damage_in_a_later_log_does_not_move_the_stop() {
    let fs = MemoryFileSystem::new();
    let db = open(&fs, RecoveryMode::PointInTime).unwrap();
    let other = db.create_cf("other", &db.default_cf().options()).unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "value").unwrap();
        other.put(key, "value").unwrap();
    }
    other.flush().unwrap();
    for key in ["d", "e"] {
        db.put(key, "value").unwrap();
    }
    let left = fs.crash_image(SurvivalPolicy::Generous, 0);
    let logs = koeldb_log::wal::list(&left, Path::new(DIRECTORY)).unwrap();
    assert_eq!(logs.len(), 2, "{logs:?}");
    for number in logs {
        damage_first_record(&left, number);
        let image = left.crash_image(SurvivalPolicy::Generous, 0);
        let options = options(&image, RecoveryMode::PointInTime);
        let mut builder = Db::builder(&options);
        builder.column_families(["default", "other"]);
        let error = builder.open(DIRECTORY).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("Column family inconsistency"), "{text}");
    }
}

#[test]
fn damage_behind_a_gap_does_not_hide_it() {
    let (fs, last) = with_one_key(true);
    let path = file_name::wal(Path::new(DIRECTORY), last);
    fs.remove_file(&path).unwrap();
    let follows = second_key(last, LinkKind::Follows);
    write_log(&fs, last + 20, WalCompression::None, &follows);
    write_log(&fs, last + 25, WalCompression::None, &follows);
    damage_first_record(&fs, last + 25);
    let before = last + 25;
    let links = [LinkKind::Follows, LinkKind::Durable];
    let records = links.map(|kind| Link { before, kind }.encode(3));
    write_log(&fs, last + 30, WalCompression::None, &records);
    let error = open(&fs, RecoveryMode::PointInTime).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("is missing or ends early"), "{text}");
}
