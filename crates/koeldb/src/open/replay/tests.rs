use koeldb_base::ErrorKind;
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
    let options = RecordWriterOptions {
        compression,
        recyclable: None,
    };
    let mut writer = RecordWriter::new(file, options).unwrap();
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

/// Everything in the directory, with LOG, which each open writes, left out.
fn files_of(fs: &MemoryFileSystem) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for entry in fs.list(Path::new(DIRECTORY)).unwrap() {
        let path = Path::new(DIRECTORY).join(&entry.name);
        if !entry.name.starts_with("LOG")
            && let Ok(bytes) = fs.read_all(&path, u64::MAX, Purpose::Other)
        {
            files.push((entry.name, bytes));
        }
    }
    files.sort();
    files
}

/// A batch with sequence number `first` and these records.
fn batch(first: u8, count: u8, records: &[u8]) -> Vec<u8> {
    [&[first, 0, 0, 0, 0, 0, 0, 0, count, 0, 0, 0], records].concat()
}

const PUT_B: &[u8] = b"\x01\x01b\x011";
const PUT_C: &[u8] = b"\x01\x01c\x012";

const MODES: [RecoveryMode; 4] = [
    RecoveryMode::TolerateCorruptedTailRecords,
    RecoveryMode::AbsoluteConsistency,
    RecoveryMode::PointInTime,
    RecoveryMode::SkipAnyCorruptedRecords,
];

/// Checks that a log with these records is refused in every mode, and nothing is changed.
fn is_refused(records: &[Vec<u8>], word: &str) {
    let (fs, last) = with_one_key(true);
    write_log(&fs, last + 20, WalCompression::None, records);
    is_left_alone(&fs, word);
}

fn is_left_alone(fs: &MemoryFileSystem, word: &str) {
    for mode in MODES {
        for is_read_only in [false, true] {
            let fs = fs.crash_image(SurvivalPolicy::Generous, 0);
            let before = files_of(&fs);
            // A memtable of this size is flushed during the replay.
            let mut options = options(&fs, mode);
            options.set_write_buffer_size(64 << 10);
            let mut builder = Db::builder(&options);
            if is_read_only {
                builder.read_only();
            }
            let error = builder.open(DIRECTORY).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{mode:?}: {error}");
            let text = error.to_string();
            assert!(text.contains(word), "{mode:?}: {word}: {text}");
            assert!(text.contains(".log"), "{text}");
            assert!(files_of(&fs) == before, "{mode:?}, {word}: changed");
        }
    }
}

#[test]
fn an_intact_record_that_cannot_be_replayed_is_refused_in_every_mode_and_nothing_changes() {
    let good = batch(2, 1, PUT_B);
    for (record, word) in [
        (batch(1, 1, PUT_C), "goes back"),
        (batch(3, 1, b"\x7f"), "unknown WriteBatch tag"),
        (batch(3, 1, b"\x18\x01c\x012"), "tag 0x18"),
        (batch(3, 1, b"\x15\x01t\x01x"), "timestamp"),
        (batch(3, 2, PUT_C), "wrong count"),
        (batch(3, 1, b"\x01\x01c"), "truncated"),
        (batch(3, 1, b"\x09\x01\x01c\x012"), "end mark"),
        (vec![3, 0, 0], "shorter than its header"),
        (
            [&[0xff; 8][..], &batch(0, 1, PUT_C)[8..]].concat(),
            "invalid sequence",
        ),
    ] {
        is_refused(&[good.clone(), record.clone()], word);
        let behind = batch(9, 1, b"\x01\x01d\x013");
        is_refused(&[good.clone(), record, behind], word);
    }
}

#[test]
fn tables_written_before_a_refused_record_are_removed() {
    let mut records = Vec::new();
    for first in 2..60 {
        let value = [&b"\x01\x01k\x80\x20"[..], &[7; 4096]].concat();
        records.push(batch(first, 1, &value));
    }
    records.push(batch(7, 1, PUT_C));
    is_refused(&records, "goes back");
}

#[test]
fn a_record_of_an_unknown_type_is_refused_in_every_mode() {
    let (fs, last) = with_one_key(true);
    write_log(&fs, last + 20, WalCompression::None, &[batch(2, 1, PUT_B)]);
    let path = file_name::wal(Path::new(DIRECTORY), last + 20);
    let mut file = fs.append(&path, &WriteOptions::new(Purpose::Wal)).unwrap();
    let body = b"\x1fbody";
    let checksum = koeldb_base::checksum::mask(koeldb_base::checksum::crc32c(body));
    file.append(&[&checksum.to_le_bytes()[..], &4_u16.to_le_bytes(), body].concat())
        .unwrap();
    file.close().unwrap();
    is_left_alone(&fs, "unknown record type 31");
}

#[test]
fn records_with_one_number_a_batch_are_read_in_every_mode() {
    let records = [
        batch(2, 3, b"\x01\x01b\x010\x01\x01c\x010\x01\x01d\x010\x0d"),
        // A transaction is prepared, others are written, it is committed.
        batch(3, 2, b"\x12\x01\x01b\x011\x00\x01c\x0a\x02t1"),
        batch(4, 2, b"\x01\x01d\x011\x01\x01e\x011\x0d"),
        batch(5, 0, b"\x0b\x02t1"),
        // A key twice takes two numbers; an unprepared one, its rollback with a former value.
        batch(6, 2, b"\x01\x01e\x012\x01\x01e\x013\x0d"),
        batch(8, 1, b"\x13\x01\x01e\x014\x0a\x02t2"),
        batch(9, 2, b"\x01\x01g\x015\x01\x01f\x015\x0d"),
        batch(10, 1, b"\x01\x01e\x013\x0c\x02t2"),
        batch(11, 1, b"\x01\x01h\x016\x0d"),
    ];
    for mode in MODES {
        for is_read_only in [false, true] {
            let (fs, last) = with_one_key(true);
            write_log(&fs, last + 20, WalCompression::None, &records);
            let options = options(&fs, mode);
            let mut builder = Db::builder(&options);
            if is_read_only {
                builder.read_only();
            }
            let db = builder.open(DIRECTORY).unwrap();
            let found: Vec<(Vec<u8>, Vec<u8>)> = db
                .range("b"..)
                .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
                .collect::<Result<_>>()
                .unwrap();
            let expected = ["b1", "d1", "e3", "f5", "g5", "h6"]
                .map(|text| (text[..1].into(), text[1..].into()));
            assert_eq!(found, expected, "{mode:?}, read-only: {is_read_only}");
            assert_eq!(db.recovery_report().last_seqno, 11);
            drop(db);
            if !is_read_only {
                let db = Db::open(&options, DIRECTORY).unwrap();
                db.put("z", "1").unwrap();
                assert_eq!(db.range("b"..).count(), expected.len() + 1);
            }
        }
    }
}

#[test]
fn a_transaction_that_took_effect_undecided_is_refused_by_its_name() {
    for begin in [b"\x12", b"\x13"] {
        let records = [&begin[..], PUT_B, PUT_C, b"\x0a\x02t1"].concat();
        is_refused(
            &[batch(2, 2, &records), batch(3, 1, b"\x01\x01d\x013\x0d")],
            "'t1'",
        );
    }
}
