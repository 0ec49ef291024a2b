#![expect(
    clippy::arithmetic_side_effects,
    reason = "tests check results, not overflow"
)]

use koeldb_base::ValueType;
use koeldb_base::key::encode;
use proptest::prelude::*;

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap())
        .collect()
}

fn error_of(bytes: &[u8]) -> String {
    VersionEdit::decode(bytes).unwrap_err().to_string()
}

/// A file of level 0 with every written field set.
fn full_file() -> FileMeta {
    let mut file = FileMeta::new(
        11,
        1352,
        encode(b"k1", 3, ValueType::Deletion),
        encode(b"q", MAX_SEQNO, ValueType::RangeDeletion),
    );
    file.path_id = 2;
    file.smallest_seqno = 2;
    file.largest_seqno = 7;
    file.epoch = 1;
    file.oldest_ancestor_time = 1_700_000_000;
    file.creation_time = 1_700_000_001;
    file.unique_id = [0x0102_0304_0506_0708, 9];
    file.checksum_name = b"FileChecksumCrc32c".to_vec();
    file.checksum = vec![1, 2, 3, 4];
    file.tail_bytes = 500;
    file.compensated_range_deletion_bytes = 44;
    file.marked_for_compaction = true;
    file.oldest_blob_file = 5;
    file.temperature = 4;
    file.other_fields = vec![(16, vec![0]), (10, b"min".to_vec()), (17, b"meta".to_vec())];
    file
}

#[test]
fn bounds_of_undated_tables_are_without_their_timestamps() {
    let dated = |key: &str, time: u64, seqno, value_type| {
        let key = [key.as_bytes(), &time.to_le_bytes()].concat();
        encode(&key, seqno, value_type)
    };
    let mut file = FileMeta::new(
        11,
        1352,
        dated("a", 0, 3, ValueType::Value),
        dated("q", u64::MAX, MAX_SEQNO, ValueType::RangeDeletion),
    );
    file.largest_seqno = 7;
    file.undated = true;
    let edit = VersionEdit {
        added_files: vec![(0, Arc::new(file))],
        ..VersionEdit::default()
    };
    let mut decoded = VersionEdit::decode(&edit.to_vec()).unwrap();
    let stored = &decoded.added_files[0].1;
    assert_eq!(stored.smallest, encode(b"a", 3, ValueType::Value));
    let end = encode(b"q", MAX_SEQNO, ValueType::RangeDeletion);
    assert_eq!(stored.largest, end);
    assert!(stored.is_recorded_undated());
    // Without timestamps, the table stays marked.
    assert_eq!(decoded.to_vec(), edit.to_vec());
    decoded.date_bounds(false);
    let (file, again) = (&edit.added_files[0].1, &decoded.added_files[0].1);
    assert_eq!(again.smallest, file.smallest);
    assert_eq!(again.largest, file.largest);
    assert_eq!(decoded.to_vec(), edit.to_vec());
}

#[test]
fn the_first_record_of_the_recipe_has_its_bytes() {
    let edit = VersionEdit {
        comparator: Some("leveldb.BytewiseComparator".to_owned()),
        log_number: Some(9),
        prev_log_number: Some(0),
        next_file_number: Some(10),
        last_seqno: Some(200),
        ..VersionEdit::default()
    };
    let expected =
        hex("01 1a 6c6576656c64622e4279746577697365436f6d70617261746f72 02 09 09 00 03 0a 04 c801");
    assert_eq!(edit.to_vec(), expected);
    assert_eq!(VersionEdit::decode(&expected).unwrap().to_vec(), expected);
}

#[test]
fn every_field_survives_and_stands_in_rocksdbs_order() {
    let edit = VersionEdit {
        family: 3,
        db_id: Some(b"id".to_vec()),
        comparator: Some("c".to_owned()),
        log_number: Some(2),
        prev_log_number: Some(0),
        next_file_number: Some(12),
        max_column_family: Some(3),
        min_log_number_to_keep: Some(10),
        last_seqno: Some(7),
        compact_cursors: vec![(1, encode(b"c", 1, ValueType::Value))],
        deleted_files: vec![(6, 300)],
        added_files: vec![(0, Arc::new(full_file()))],
        added_blob_files: vec![BlobFileMeta {
            number: 5,
            count: 10,
            bytes: 1000,
            checksum_name: b"n".to_vec(),
            checksum: b"v".to_vec(),
            garbage_count: 0,
            garbage_bytes: 0,
            reader: Default::default(),
        }],
        blob_garbage: vec![BlobGarbage {
            number: 5,
            count: 1,
            bytes: 100,
        }],
        wal_additions: vec![WalAddition {
            number: 4,
            synced_bytes: Some(77),
        }],
        wal_deletion: Some(4),
        family_change: Some(ColumnFamilyChange::Add("name".to_owned())),
        remaining_in_group: Some(2),
        full_history_ts_low: Some(b"ts".to_vec()),
        persist_timestamps: Some(true),
        compacted_manifest_bytes: Some(4000),
    };
    let bytes = edit.to_vec();
    let expected = concat!(
        "8140 02 6964",                                              // db id
        "01 01 63",                                                  // comparator
        "02 02 09 00 03 0c",                                         // log, prev log, next file
        "cb01 03 0a 0a 04 07",           // max family, min log, last sequence
        "05 01 09 63 01 01000000000000", // compact cursor
        "06 06 ac02",                    // deleted file
        "67 00 0b c80a",                 // new file: level, number, bytes
        "0a 6b31 00 03000000000000",     // smallest
        "09 71 0f ffffffffffffff 02 07", // largest, sequence numbers
        "05 05 80e2cfaa06 06 05 81e2cfaa06 0d 01 01", // times, epoch
        "07 04 01020304 08 12 46696c65436865636b73756d437263333263", // checksum
        "41 01 02 09 01 04 02 01 01",    // path, temperature, marked
        "03 08 0a00000000000000",        // min log
        "04 01 05",                      // oldest blob file
        "0c 10 0807060504030201 0900000000000000", // unique id
        "0e 01 2c 0f 02 f403",           // range deletion bytes, tail
        "10 01 00 0a 03 6d696e 11 04 6d657461 01", // what is kept for RocksDB, end
        "9003 05 0a e807 01 6e 01 76 00", // blob file
        "9103 05 01 64 00",              // garbage
        "8740 04 04 02 4d 01",           // log
        "8840 01 04",                    // log deletion
        "c801 03 c901 04 6e616d65",      // family, its name
        "ac02 02",                       // group
        "8640 02 7473",                  // history
        "8940 01 01 8b40 02 a01f",       // timestamps, size
    );
    assert_eq!(bytes, hex(expected));
    assert_eq!(VersionEdit::decode(&bytes).unwrap().to_vec(), bytes);
}

#[test]
fn an_empty_record_changes_nothing() {
    let edit = VersionEdit::decode(b"").unwrap();
    assert!(!edit.changes_files());
    assert!(edit.to_vec().is_empty());
}

#[test]
fn older_forms_of_files_and_logs_are_read() {
    let keys = "09 61 01 0500000000000000 09 62 01 0900000000000000";
    let keys = keys.replace("0500000000000000", "05000000000000");
    let keys = keys.replace("0900000000000000", "09000000000000");
    for (form, seqnos, path_id) in [
        (format!("07 01 04 64 {keys}"), (0, 9), 0),
        (format!("64 01 04 64 {keys} 05 09"), (5, 9), 0),
        (format!("66 01 04 03 64 {keys} 05 09"), (5, 9), 3),
    ] {
        let edit = VersionEdit::decode(&hex(&form)).unwrap();
        let (level, file) = &edit.added_files[0];
        assert_eq!((*level, file.number, file.bytes), (1, 4, 100), "{form}");
        assert_eq!((file.smallest_seqno, file.largest_seqno), seqnos, "{form}");
        assert_eq!((file.epoch, file.path_id), (0, path_id));
    }
    let edit = VersionEdit::decode(&hex("8440 04 02 4d 01 8540 04")).unwrap();
    assert_eq!(edit.wal_additions[0].synced_bytes, Some(77));
    assert_eq!(edit.wal_deletion, Some(4));
    let edit = VersionEdit::decode(&hex("8240 05 0a 0a 00 00 00 8340 05 01 01 00")).unwrap();
    assert_eq!(edit.added_blob_files[0].count, 10);
    assert_eq!(edit.blob_garbage[0].number, 5);
}

#[test]
fn the_future_is_skipped_where_it_may_be() {
    let edit = VersionEdit::decode(&hex("8050 03 010203 02 09")).unwrap();
    assert_eq!(edit.log_number, Some(9));
    assert!(error_of(&hex("0b 00")).contains("unknown tag 11"));

    let file = "67 00 04 64 09 61 01 05000000000000 09 62 01 09000000000000 05 09";
    assert!(VersionEdit::decode(&hex(&format!("{file} 3f 02 0102 01"))).is_ok());
    let error = error_of(&hex(&format!("{file} 42 02 0102 01")));
    assert!(error.contains("not supported"), "{error}");
}

#[test]
fn bounds_may_be_the_place_in_front_of_a_version() {
    // `kTypeMaxValid`: RocksDB cut a range tombstone between two versions of a key.
    let cut = |key: &[u8], seqno: u64| [key, &(seqno << 8 | 0x1a).to_le_bytes()].concat();
    let mut file = FileMeta::new(7, 100, cut(b"k50", 9), cut(b"k90", 3));
    (file.smallest_seqno, file.largest_seqno) = (1, 9);
    file.epoch = 1;
    let edit = VersionEdit {
        compact_cursors: vec![(1, cut(b"k60", 4))],
        added_files: vec![(1, Arc::new(file))],
        ..VersionEdit::default()
    };
    let bytes = edit.to_vec();
    let decoded = VersionEdit::decode(&bytes).unwrap();
    assert_eq!(decoded.added_files[0].1.smallest, cut(b"k50", 9));
    assert_eq!(decoded.added_files[0].1.largest, cut(b"k90", 3));
    assert_eq!(decoded.to_vec(), bytes);
}

#[test]
fn numbers_out_of_range_are_corruption() {
    for (bytes, message) in [
        ("06 8002 04", "level 256"),
        ("06 01 00", "file number 0"),
        ("03 8080808080808080 40", "file number"),
        ("04 8080808080808080 02", "sequence number"),
        ("05 01 02 6161", "corrupted key"),
        ("67 00 04 64 09 61 7e 05000000000000", "unknown type"),
        (
            "67 00 04 64 09 61 01 05000000000000 09 62 01 09000000000000 09 05",
            "sequence numbers from 9 to 5",
        ),
        (
            "67 00 04 64 09 61 01 05000000000000 09 62 01 09000000000000 05 09 0f 02 ff01 01",
            "tail",
        ),
        (
            "67 00 04 64 09 61 01 05000000000000 09 62 01 09000000000000 05 09 41 01 04 01",
            "path id 4, at most 3",
        ),
        (
            "66 01 04 04 64 09 61 01 05000000000000 09 62 01 09000000000000 05 09",
            "path id 4, at most 3",
        ),
        ("c901 00", "name of 0 bytes"),
        ("c901 01 ff", "UTF-8"),
        ("8640 00", "empty"),
        ("8940 01 02", "timestamps"),
        ("01 05 61", "expected 5 bytes"),
        ("8440 04 03", "unknown"),
    ] {
        let error = error_of(&hex(bytes));
        assert!(error.contains(message), "{bytes}: {error}");
    }
}

#[test]
fn a_log_number_beside_a_file_is_bounded_too() {
    let file = FileMeta::new(
        7,
        1,
        encode(b"a", 1, ValueType::Value),
        encode(b"b", 1, ValueType::Value),
    );
    let mut edit = VersionEdit::of(0);
    edit.added_files.push((0, Arc::new(file)));
    edit.min_log_number_to_keep = Some(FILE_NUMBER_MAX);
    let bytes = edit.to_vec();
    assert!(VersionEdit::decode(&bytes).is_ok());
    // The last of its two occurrences is the fixed64 beside the file.
    let number = FILE_NUMBER_MAX.to_le_bytes();
    let at = bytes
        .windows(8)
        .rposition(|window| window == number)
        .unwrap();
    let mut beyond = bytes;
    beyond[at + 7] = 0xff;
    assert!(
        error_of(&beyond).contains("at most"),
        "{}",
        error_of(&beyond)
    );
}

proptest! {
    #[test]
    fn any_bytes_are_an_edit_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(edit) = VersionEdit::decode(&bytes) {
            let encoded = edit.to_vec();
            prop_assert_eq!(VersionEdit::decode(&encoded).unwrap().to_vec(), encoded);
        }
    }

    #[test]
    fn a_damaged_edit_is_an_edit_or_an_error(at in 0..300_usize, bit in 0..8_u32, cut in 0..300_usize) {
        let edit = VersionEdit {
            added_files: vec![(0, Arc::new(full_file())), (1, Arc::new(full_file()))],
            min_log_number_to_keep: Some(8),
            ..VersionEdit::of(7)
        };
        let mut bytes = edit.to_vec();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        bytes.truncate(bytes.len() - cut % 4);
        if let Ok(edit) = VersionEdit::decode(&bytes) {
            let encoded = edit.to_vec();
            prop_assert_eq!(VersionEdit::decode(&encoded).unwrap().to_vec(), encoded);
        }
    }

    #[test]
    fn files_round_trip(
        level in 0..=LEVEL_MAX,
        number in 1..=FILE_NUMBER_MAX,
        bytes: u64,
        user_keys: (Vec<u8>, Vec<u8>),
        seqnos in (0..=MAX_SEQNO, 0..=MAX_SEQNO),
        epoch: u64,
        times: (u64, u64),
        unique_id: [u64; 2],
        flags: (bool, u8),
        path_id in 0..4_u8,
    ) {
        let mut file = FileMeta::new(
            number,
            bytes,
            encode(&user_keys.0, seqnos.0, ValueType::Value),
            encode(&user_keys.1, seqnos.1, ValueType::Merge),
        );
        file.smallest_seqno = seqnos.0.min(seqnos.1);
        file.largest_seqno = seqnos.0.max(seqnos.1);
        (file.epoch, file.path_id) = (epoch, path_id);
        (file.oldest_ancestor_time, file.creation_time) = times;
        file.unique_id = unique_id;
        (file.marked_for_compaction, file.temperature) = flags;
        let edit = VersionEdit { added_files: vec![(level, Arc::new(file))], ..VersionEdit::of(1) };
        let decoded = VersionEdit::decode(&edit.to_vec()).unwrap();
        prop_assert_eq!(format!("{:?}", decoded), format!("{:?}", edit));
    }
}
