#![expect(
    clippy::arithmetic_side_effects,
    reason = "tests check results, not overflow"
)]

use std::path::{Path, PathBuf};

use koeldb_base::checksum::{crc32c, mask};
use koeldb_fs::{FileSystem, Purpose, WriteOptions};
use proptest::prelude::*;

use super::RecoveryMode::{
    AbsoluteConsistency, PointInTime, SkipAnyCorruptedRecords, TolerateCorruptedTailRecords,
};
use super::*;
use crate::format::BLOCK_BYTES;
use crate::testing::{Source, log_of, reader};
use crate::{RecordWriter, RecordWriterOptions, WalCompression};

const MODES: [RecoveryMode; 4] = [
    TolerateCorruptedTailRecords,
    AbsoluteConsistency,
    PointInTime,
    SkipAnyCorruptedRecords,
];

const ZSTD_RECORDS: RecordWriterOptions = RecordWriterOptions {
    compression: WalCompression::Zstd,
    recyclable: None,
};

/// Encodes one physical record; types with a recyclable header get `log_number`.
fn physical(type_byte: u8, log_number: u32, payload: &[u8]) -> Vec<u8> {
    let mut covered = vec![type_byte];
    if format::is_recyclable(type_byte) {
        covered.extend_from_slice(&log_number.to_le_bytes());
    }
    covered.extend_from_slice(payload);
    let mut record = mask(crc32c(&covered)).to_le_bytes().to_vec();
    record.extend_from_slice(&u16::try_from(payload.len()).unwrap().to_le_bytes());
    record.extend_from_slice(&covered);
    record
}

/// The payload of record `index`: 30 bytes.
fn payload(index: usize) -> Vec<u8> {
    format!("record {index:023}").into_bytes()
}

fn records(count: usize) -> Vec<u8> {
    log_of((0..count).map(payload), RecordWriterOptions::default())
}

fn recycled_records(count: usize, log_number: u32) -> Vec<u8> {
    (0..count)
        .flat_map(|index| physical(5, log_number, &payload(index)))
        .collect()
}

/// The number of records a mode returns, and the first problem, which makes modes 0 and 1 fail.
fn read(bytes: &[u8], mode: RecoveryMode) -> (usize, Option<ProblemKind>) {
    let mut reader = reader(bytes, mode);
    let mut count = 0;
    while reader.next_record().unwrap().is_some() {
        count += 1;
    }
    assert!(
        reader.next_record().unwrap().is_none(),
        "the end stays the end"
    );
    (count, reader.take_problem().map(|problem| problem.kind))
}

/// Checks a row of the table of damage: the results of the four modes for `bytes`.
fn expect(name: &str, bytes: &[u8], expected: [(usize, Option<ProblemKind>); 4]) {
    for (mode, expected) in MODES.into_iter().zip(expected) {
        assert_eq!(read(bytes, mode), expected, "{name}, {mode:?}");
    }
}

fn replaced(mut bytes: Vec<u8>, offset: usize, by: u8) -> Vec<u8> {
    bytes[offset] = by;
    bytes
}

const RECORD: usize = HEADER_BYTES + 30;
const RECYCLED: usize = RECYCLABLE_HEADER_BYTES + 30;

#[test]
fn worked_records_read_as_described() {
    let abc = [
        0xf2, 0x70, 0xe8, 0x9d, 3, 0, 1, b'a', b'b', b'c', //
    ];
    assert_eq!(physical(1, 0, b"abc"), abc);
    let recyclable = [
        0xe8, 0x12, 0xb0, 0xa3, 3, 0, 5, 9, 0, 0, 0, b'a', b'b', b'c', //
    ];
    assert_eq!(physical(5, 9, b"abc"), recyclable);
    let predecessor = [
        0xa0, 0xe6, 0xb7, 0x35, 0x18, 0, 0x82, 9, 0, 0, 0, 0, 0, 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0,
        4, 0, 0, 0, 0, 0, 0, 0,
    ];
    let timestamps = [0x53, 4, 0x1c, 0x30, 6, 0, 0x0a, 3, 0, 0, 0, 8, 0];
    let log = [&predecessor[..], &timestamps, &abc].concat();
    let mut reader = reader(&log, AbsoluteConsistency);
    assert_eq!(reader.next_record().unwrap(), Some(&b"abc"[..]));
    assert_eq!(reader.next_record().unwrap(), None);
    assert_eq!(reader.take_problem(), None);
    assert_eq!(
        reader.predecessor(),
        Some(PredecessorInfo {
            log_number: 9,
            bytes: 0x30,
            last_seqno: 4
        })
    );
    assert_eq!(reader.timestamp_sizes(), [(3, 8)]);
    assert_eq!(reader.last_record(), 44..54);
    for mode in MODES {
        assert_eq!(read(&recyclable, mode), (1, None));
    }
}

#[test]
fn an_intact_log_and_zeros_behind_it_are_no_problem() {
    let none = [(10, None), (10, None), (10, None), (10, None)];
    expect("none", &records(10), none.clone());
    for zeros in [3, 1000, 100_000] {
        let bytes = [records(10), vec![0; zeros]].concat();
        expect("zeros", &bytes, none.clone());
    }
}

#[test]
fn an_incomplete_record_at_the_end_is_dropped_or_reported() {
    let all = records(10);
    let modes = |kind: ProblemKind| {
        [
            (9, None),
            (9, Some(kind.clone())),
            (9, Some(kind)),
            (9, None),
        ]
    };
    let body = &all[..all.len() - 5];
    expect("body", body, modes(ProblemKind::TruncatedBody));
    let header = &all[..9 * RECORD + 4];
    expect("header", header, modes(ProblemKind::TruncatedHeader));
    let long = replaced(all.clone(), 9 * RECORD + 5, 9);
    let long = &long[..long.len() - 1];
    expect("long", long, modes(ProblemKind::TruncatedBody));
    let garbage = [&all[..], &[0xa5; 500]].concat();
    let ten = modes(ProblemKind::TruncatedBody).map(|(_, kind)| (10, kind));
    expect("garbage", &garbage, ten);

    let mut tolerant = reader(body, TolerateCorruptedTailRecords);
    while tolerant.next_record().unwrap().is_some() {}
    let tail = tolerant.tolerated_tail().unwrap();
    assert_eq!(
        (tail.offset, tail.dropped_bytes),
        (9 * RECORD as u64, RECORD as u64 - 5)
    );
}

#[test]
fn a_wrong_checksum_ends_the_log_or_loses_the_block() {
    let modes = |before: usize, after: usize, kind: ProblemKind| {
        [
            (before, Some(kind.clone())),
            (before, Some(kind.clone())),
            (before, Some(kind.clone())),
            (after, Some(kind)),
        ]
    };
    let last = replaced(records(10), 9 * RECORD, 0);
    expect("last", &last, modes(9, 9, ProblemKind::ChecksumMismatch));
    let sixth = replaced(records(10), 5 * RECORD, 0);
    expect("sixth", &sixth, modes(5, 5, ProblemKind::ChecksumMismatch));

    if cfg!(miri) {
        // Thousands of records.
        return;
    }
    // 32768 = 885 whole records and the first part of one more, which is lost too.
    let many = replaced(records(2000), 5 * RECORD, 0);
    let kept = 5 + 2000 - 886;
    expect("many", &many, modes(5, kept, ProblemKind::ChecksumMismatch));
    let long = replaced(records(2000), 5 * RECORD + 5, 0xff);
    expect("long", &long, modes(5, kept, ProblemKind::BadLength));
}

#[test]
fn fragments_out_of_place_are_reported() {
    let first = physical(2, 0, &[1; 20]);
    let middle = physical(3, 0, &[1; 20]);
    let ten = records(10);
    expect(
        "ends behind FIRST",
        &[ten.clone(), first.clone()].concat(),
        [
            (10, None),
            (10, Some(ProblemKind::TruncatedRecord)),
            (10, Some(ProblemKind::TruncatedRecord)),
            (10, None),
        ],
    );
    let at_ten = |kind: ProblemKind| {
        [
            (10, Some(kind.clone())),
            (10, Some(kind.clone())),
            (10, Some(kind.clone())),
            (12, Some(kind)),
        ]
    };
    expect(
        "FIRST, then FULL",
        &[ten.clone(), first, records(2)].concat(),
        at_ten(ProblemKind::MissingEnd),
    );
    expect(
        "MIDDLE without FIRST",
        &[ten.clone(), middle, records(2)].concat(),
        at_ten(ProblemKind::MissingStart),
    );
    expect(
        "type 20",
        &[ten.clone(), physical(20, 0, b"?"), records(2)].concat(),
        at_ten(ProblemKind::UnknownType(20)),
    );
    expect(
        "type 148",
        &[ten, physical(148, 0, b"?"), records(2)].concat(),
        [(12, None), (12, None), (12, None), (12, None)],
    );
}

#[test]
fn an_empty_first_before_a_full_is_an_old_writers_habit() {
    let bytes = [physical(2, 0, b""), physical(1, 0, b"x")].concat();
    expect(
        "empty FIRST",
        &bytes,
        [(1, None), (1, None), (1, None), (1, None)],
    );
}

#[test]
fn a_recycled_log_ends_where_its_earlier_life_shows() {
    let stale = recycled_records(20, 4)[10 * RECYCLED..].to_vec();
    let new = recycled_records(10, 9);
    expect(
        "aligned",
        &[new.clone(), stale.clone()].concat(),
        [
            (10, None),
            (10, None),
            (10, Some(ProblemKind::OldRecord)),
            (10, None),
        ],
    );
    expect(
        "misaligned",
        &[&new[..], b"junk\x05\x00\x01", &stale].concat(),
        [
            (10, None),
            (10, Some(ProblemKind::ChecksumMismatch)),
            (10, Some(ProblemKind::ChecksumMismatch)),
            (10, Some(ProblemKind::ChecksumMismatch)),
        ],
    );
    let damaged = replaced(new.clone(), 5 * RECYCLED, 0);
    expect(
        "damaged",
        &damaged,
        [
            (5, None),
            (5, Some(ProblemKind::ChecksumMismatch)),
            (5, Some(ProblemKind::ChecksumMismatch)),
            (5, Some(ProblemKind::ChecksumMismatch)),
        ],
    );
    expect(
        "foreign from the start",
        &recycled_records(10, 4),
        [
            (0, None),
            (0, None),
            (0, Some(ProblemKind::OldRecord)),
            (0, None),
        ],
    );
    let open = [new, physical(6, 9, b"begun"), stale].concat();
    expect(
        "open fragment",
        &open,
        [
            (10, None),
            (10, Some(ProblemKind::TruncatedRecord)),
            (10, Some(ProblemKind::TruncatedRecord)),
            (10, Some(ProblemKind::Interrupted)),
        ],
    );
}

/// Writes records of these sizes as log 9 over log 4, which had 40 KB more, and returns the bytes of
/// the file before it is closed, and after.
fn written_over(sizes: &[usize], compression: WalCompression) -> [Vec<u8>; 2] {
    let fs = koeldb_fs::MemoryFileSystem::new();
    let (former, path) = (Path::new("/4.log"), Path::new("/9.log"));
    let file_options = WriteOptions::new(Purpose::Wal);
    let options = |number| RecordWriterOptions {
        compression,
        recyclable: Some(number),
    };
    let file = fs.create(former, &file_options).unwrap();
    let mut log = RecordWriter::new(file, options(4)).unwrap();
    let bytes_min = sizes.iter().sum::<usize>() as u64 + 40_000;
    for index in 0.. {
        if log.len() > bytes_min {
            break;
        }
        log.add_record(&payload(index)).unwrap();
    }
    log.close().unwrap();
    let file = fs.reuse(former, path, &file_options).unwrap();
    let mut log = RecordWriter::new(file, options(9)).unwrap();
    for (index, size) in sizes.iter().enumerate() {
        log.add_record(&vec![u8::try_from(index).unwrap(); *size])
            .unwrap();
        log.flush().unwrap();
    }
    assert!(log.has_remains());
    let read = || fs.read_all(path, u64::MAX, Purpose::Read).unwrap();
    let open = read();
    log.sync_at_end().unwrap();
    assert!(!log.has_remains());
    log.close().unwrap();
    [open, read()]
}

/// Checks that a log written over another one has exactly its own records, in every mode.
fn expect_written_over(sizes: &[usize], compression: WalCompression) {
    for (bytes, is_cut) in written_over(sizes, compression).iter().zip([false, true]) {
        for mode in MODES {
            let case = format!("{sizes:?}, {compression:?}, {mode:?}, cut: {is_cut}");
            let mut reader = reader(bytes, mode);
            let mut count = 0;
            while let Some(record) = reader.next_record().unwrap() {
                assert_eq!(record.len(), sizes[count], "{case}");
                count += 1;
            }
            assert_eq!(count, sizes.len(), "{case}");
            let problem = reader.take_problem();
            let is_remains = problem.as_ref().is_some_and(|problem| {
                problem.kind == ProblemKind::OldRecord && mode == PointInTime && !is_cut
            });
            assert!(problem.is_none() || is_remains, "{case}: {problem:?}");
            assert_eq!(reader.tolerated_tail(), None, "{case}");
            assert_eq!(reader.dropped_bytes(), 0, "{case}");
        }
    }
}

#[test]
fn a_log_written_over_another_one_ends_with_its_own_records_wherever_they_end() {
    expect_written_over(&[], WalCompression::None);
    for left in 0..=2 * RECYCLABLE_HEADER_BYTES {
        let fills = BLOCK_BYTES - RECYCLABLE_HEADER_BYTES - left;
        expect_written_over(&[fills], WalCompression::None);
        expect_written_over(
            &[10, fills - 10 - RECYCLABLE_HEADER_BYTES],
            WalCompression::None,
        );
        expect_written_over(&[fills, 0], WalCompression::None);
        expect_written_over(&[fills, 100], WalCompression::None);
        expect_written_over(&[BLOCK_BYTES + fills, 1], WalCompression::None);
    }
    if cfg!(feature = "zstd") {
        expect_written_over(&[], WalCompression::Zstd);
    }
}

#[test]
fn a_log_that_is_cut_while_it_is_read_ends_with_its_own_records() {
    let fs = koeldb_fs::MemoryFileSystem::new();
    let (former, path) = (Path::new("/4.log"), Path::new("/9.log"));
    let file_options = WriteOptions::new(Purpose::Wal);
    let mut file = fs.create(former, &file_options).unwrap();
    file.append(&recycled_records(100_000, 4)).unwrap();
    file.close().unwrap();
    let file = fs.reuse(former, path, &file_options).unwrap();
    let options = RecordWriterOptions {
        recyclable: Some(9),
        ..RecordWriterOptions::default()
    };
    let mut log = RecordWriter::new(file, options).unwrap();
    for index in 0..50_000 {
        log.add_record(&payload(index)).unwrap();
    }
    log.flush().unwrap();
    let open = || {
        let options = koeldb_fs::OpenOptions::default();
        let file = fs.open(path, &options).unwrap();
        RecordReader::new(file, 9, TolerateCorruptedTailRecords)
    };
    let mut readers = [open(), open()];
    readers[1].next_record().unwrap().unwrap();
    log.sync_at_end().unwrap();
    for (mut reader, seen) in readers.into_iter().zip([0, 1]) {
        let mut count = seen;
        while reader.next_record().unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, 50_000);
        assert_eq!(reader.take_problem(), None);
        assert_eq!(reader.tolerated_tail(), None);
    }
}

#[test]
fn a_flipped_type_does_not_pass_for_an_earlier_life() {
    let flipped = replaced(records(10), 6, 5);
    for mode in [TolerateCorruptedTailRecords, AbsoluteConsistency] {
        assert_eq!(
            read(&flipped, mode),
            (0, Some(ProblemKind::ChecksumMismatch))
        );
    }
}

/// A log with recyclable records, of 2000 records in three blocks.
fn recyclable_log() -> Vec<u8> {
    let options = RecordWriterOptions {
        recyclable: Some(9),
        ..RecordWriterOptions::default()
    };
    log_of((0..2000).map(payload), options)
}

#[test]
fn a_flipped_log_number_does_not_pass_for_an_earlier_life() {
    let mut bytes = recyclable_log();
    bytes[5 * RECYCLED + HEADER_BYTES + 2] ^= 1 << 5;
    for mode in MODES {
        let (count, problem) = read(&bytes, mode);
        assert_eq!(problem, Some(ProblemKind::ChecksumMismatch), "{mode:?}");
        match mode {
            SkipAnyCorruptedRecords => assert!(count > 1000, "{count}"),
            _ => assert_eq!(count, 5),
        }
    }
}

#[test]
fn a_hole_in_a_recycled_log_is_not_its_end() {
    for zeros in [HEADER_BYTES, 64, 512] {
        let mut bytes = recyclable_log();
        bytes[5 * RECYCLED..5 * RECYCLED + zeros].fill(0);
        for mode in MODES {
            let (count, problem) = read(&bytes, mode);
            let case = format!("{zeros}, {mode:?}");
            assert_eq!(problem, Some(ProblemKind::ZerosBeforeRecords), "{case}");
            match mode {
                SkipAnyCorruptedRecords => assert!(count > 1000, "{case}: {count}"),
                _ => assert_eq!(count, 5, "{case}"),
            }
        }
    }
}

#[test]
fn a_recyclable_record_in_a_legacy_log_ends_it() {
    let bytes = [records(3), recycled_records(3, 9), records(3)].concat();
    for mode in MODES {
        assert_eq!(read(&bytes, mode), (3, Some(ProblemKind::MixedHeaders)));
    }
}

#[test]
fn zeros_with_records_behind_them_are_a_hole() {
    let mut bytes = records(2000);
    bytes[5 * RECORD..BLOCK_BYTES].fill(0);
    for mode in [
        TolerateCorruptedTailRecords,
        AbsoluteConsistency,
        PointInTime,
    ] {
        let problem = Some(ProblemKind::ZerosBeforeRecords);
        assert_eq!(read(&bytes, mode), (5, problem));
    }
    assert_eq!(read(&bytes, SkipAnyCorruptedRecords).0, 5 + 2000 - 886);
    let inside = [records(5), vec![0; 2 * RECORD], records(3)].concat();
    let problem = Some(ProblemKind::ZerosBeforeRecords);
    let reported = std::array::from_fn(|_| (5, problem.clone()));
    expect("zeros that are no sectors", &inside, reported);

    // A record that must not be fragmented leaves zeros at the end of one block, as the format
    // prescribes.
    let mut moved = physical(1, 0, &vec![7; BLOCK_BYTES - 2 * HEADER_BYTES - 3]);
    moved.resize(BLOCK_BYTES, 0);
    moved.extend_from_slice(&physical(10, 0, &[3, 0, 0, 0, 8, 0]));
    moved.extend_from_slice(&records(2));
    for mode in MODES {
        assert_eq!(read(&moved, mode), (3, None));
    }
}

#[test]
fn an_end_that_a_crash_tore_is_an_incomplete_end() {
    let synced = records(10);
    let whole = log_of(
        (0..10).map(payload).chain([vec![7; 100_000]]),
        RecordWriterOptions::default(),
    );
    let tail = |lost: std::ops::Range<usize>| {
        let mut bytes = whole.clone();
        bytes[lost].fill(0);
        bytes
    };
    let start = synced.len();
    let torn = [
        tail(start..512),
        tail(start..BLOCK_BYTES),
        tail(start..2 * BLOCK_BYTES),
        tail(512..1024),
        tail(1024..40_960),
        tail(BLOCK_BYTES..BLOCK_BYTES + 512),
        tail(BLOCK_BYTES..whole.len()),
        tail(BLOCK_BYTES + 4096..BLOCK_BYTES + 8192),
        tail(99_840..100_352),
    ];
    for (index, bytes) in torn.iter().enumerate() {
        let mut tolerant = reader(bytes, TolerateCorruptedTailRecords);
        for record in 0..10 {
            let expected = payload(record);
            assert_eq!(tolerant.next_record().unwrap(), Some(expected.as_slice()));
        }
        assert_eq!(tolerant.next_record().unwrap(), None, "{index}");
        assert_eq!(tolerant.take_problem(), None, "{index}");
        let dropped = tolerant.tolerated_tail().unwrap();
        assert_eq!(dropped.offset, start as u64, "{index}");
        for mode in [AbsoluteConsistency, PointInTime] {
            let (count, problem) = read(bytes, mode);
            assert_eq!((count, problem.is_some()), (10, true), "{index}");
        }
    }
    let mut followed = tail(1024..2048);
    followed.extend_from_slice(&physical(1, 0, b"a record behind it"));
    assert_eq!(
        read(&followed, TolerateCorruptedTailRecords),
        (10, Some(ProblemKind::ChecksumMismatch))
    );
}

/// Whether the sector of the byte at `at` is all zeros in a record from `start` on.
///
/// A crash may have left it so.
fn may_be_lost(bytes: &[u8], start: usize, at: usize) -> bool {
    let sector = at - at % 512;
    let end = bytes.len().min(sector + 512);
    bytes[sector.max(start)..end].iter().all(|&byte| byte == 0)
}

#[test]
fn no_flipped_bit_of_the_last_record_passes_for_a_torn_end() {
    let zeros_around = |middle: &[u8], zeros: usize| {
        let zeros = vec![0; zeros];
        [&zeros, middle, &zeros].concat()
    };
    let lasts = [
        payload(10),
        Vec::new(),
        vec![0; 9],
        zeros_around(b"middle", 7),
        zeros_around(b"middle", 700),
    ];
    for (which, last) in lasts.iter().enumerate() {
        // The position in a sector at which the record begins, and at which it ends.
        let step = 3 + last.len() / 2;
        for padding in (0..512).step_by(step) {
            let mut whole = physical(1, 0, &vec![b'p'; padding]);
            let start = whole.len();
            whole.extend_from_slice(&physical(1, 0, last));
            for bit in 0..8 * (whole.len() - start) {
                let at = start + bit / 8;
                let flipped = replaced(whole.clone(), at, whole[at] ^ 1 << (bit % 8));
                let (count, problem) = read(&flipped, TolerateCorruptedTailRecords);
                let explained = may_be_lost(&flipped, start, at);
                assert!(
                    count == 1 && (problem.is_some() || explained),
                    "last record {which} behind {start} bytes, bit {bit}: {count}, {problem:?}"
                );
            }
        }
    }
}

#[test]
fn a_length_that_is_not_the_one_of_the_checksum_is_damage() {
    let all = records(10);
    let one_bit_off = (0..16).map(|bit| 30 ^ 1 << bit);
    let lengths = one_bit_off.chain((31..=u16::MAX).step_by(97));
    for length in lengths.chain(0..30) {
        for record in [0, 5, 9] {
            let mut bytes = all.clone();
            bytes[record * RECORD + 4..][..2].copy_from_slice(&length.to_le_bytes());
            for mode in MODES {
                let (count, problem) = read(&bytes, mode);
                let is_damage = matches!(
                    problem,
                    Some(ProblemKind::BadLength | ProblemKind::ChecksumMismatch)
                );
                assert!(is_damage, "{record}, {length}, {mode:?}: {problem:?}");
                assert_eq!(count, record);
            }
        }
    }
}

#[cfg(feature = "zstd")]
#[test]
fn compression_is_announced_once_and_first() {
    let options = ZSTD_RECORDS;
    let compressed = log_of((0..10).map(payload), options);
    assert_eq!(
        &compressed[..11],
        [0xe1, 0x2c, 8, 0xf8, 4, 0, 9, 7, 0, 0, 0]
    );
    assert_eq!(&compressed[18..22], [0x28, 0xb5, 0x2f, 0xfd]);
    for mode in MODES {
        assert_eq!(read(&compressed, mode), (10, None));
    }
    let late = [records(1), compressed.clone()].concat();
    assert_eq!(
        read(&late, PointInTime).1,
        Some(ProblemKind::BadMetadata("compression record after data"))
    );
    let unknown = physical(9, 0, &[4, 0, 0, 0]);
    let error = reader(&unknown, SkipAnyCorruptedRecords)
        .next_record()
        .unwrap_err();
    assert_eq!(error.kind(), koeldb_base::ErrorKind::NotSupported);

    let broken = [&compressed[..11], &physical(1, 0, b"no frame")].concat();
    assert_eq!(
        read(&broken, AbsoluteConsistency),
        (0, Some(ProblemKind::BadCompression))
    );
}

#[cfg(feature = "zstd")]
#[test]
fn a_damaged_compression_record_loses_only_its_block() {
    let compressed = log_of((0..2_000).map(payload), ZSTD_RECORDS);
    let in_first_block = BLOCK_BYTES / 30;
    for at in 0..11 {
        let mut bytes = compressed.clone();
        bytes[at] ^= 1;
        let (count, problem) = read(&bytes, SkipAnyCorruptedRecords);
        assert!((2_000 - in_first_block..2_000).contains(&count), "{count}");
        assert!(problem.is_some());
        let mut reader = reader(&bytes, SkipAnyCorruptedRecords);
        let mut last = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            last = record.to_vec();
        }
        assert_eq!(last, payload(1_999), "byte {at}");
    }
}

#[cfg(feature = "zstd")]
#[test]
fn what_decompresses_beyond_the_limit_is_refused() {
    let bomb = log_of([vec![0; 1 << 20]], ZSTD_RECORDS);
    let mut limited = reader(&bomb, PointInTime);
    limited.set_record_bytes_max(1 << 16);
    assert_eq!(limited.next_record().unwrap(), None);
    assert_eq!(
        limited.take_problem().unwrap().kind,
        ProblemKind::BadCompression
    );
    let long = log_of([vec![0; 1 << 20]], RecordWriterOptions::default());
    let mut limited = reader(&long, PointInTime);
    limited.set_record_bytes_max(1 << 16);
    assert_eq!(limited.next_record().unwrap(), None);
    assert_eq!(limited.take_problem().unwrap().kind, ProblemKind::TooLarge);
}

#[test]
fn an_unreadable_block_fails_or_is_stepped_over() {
    let source = || Source {
        bytes: records(2000),
        unreadable: 40_000..40_001,
        path: PathBuf::from("000009.log"),
    };
    let mut strict = RecordReader::new(Arc::new(source()), 9, PointInTime);
    assert!(strict.next_record().is_err());
    let mut lenient = RecordReader::new(Arc::new(source()), 9, SkipAnyCorruptedRecords);
    let mut count = 0;
    while lenient.next_record().unwrap().is_some() {
        count += 1;
    }
    assert!(count > 1000, "{count} records");
    assert!(matches!(
        lenient.take_problem().unwrap().kind,
        ProblemKind::Unreadable(_)
    ));
}

#[test]
fn problems_beyond_a_thousand_are_counted() {
    let crowded = physical(3, 0, b"").repeat(4000);
    let mut reader = reader(&crowded, SkipAnyCorruptedRecords);
    assert_eq!(reader.next_record().unwrap(), None);
    assert_eq!(reader.problem_count(), 4000);
    assert_eq!(
        std::iter::from_fn(|| reader.take_problem()).count(),
        PROBLEMS_MAX
    );
}

#[test]
fn golden_logs_are_read_whole() {
    let golden = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden"));
    let fs = koeldb_fs::PosixFileSystem::new();
    for (name, batches) in [("wal-only", 701), ("wal-zstd", 700), ("wal-recycled", 500)] {
        if name == "wal-zstd" && !cfg!(feature = "zstd") {
            continue;
        }
        let directory = golden.join(name);
        let mut found = 0;
        for number in crate::wal::list(&fs, &directory).unwrap() {
            let mut reader =
                crate::wal::open(&fs, &directory, number, AbsoluteConsistency).unwrap();
            while let Some(record) = reader.next_record().unwrap() {
                assert!(record.len() >= 12, "a batch has a header");
                found += 1;
            }
            assert_eq!(reader.take_problem(), None, "{name}");
        }
        assert_eq!(found, batches, "{name}");
    }
}

/// A write batch with one put.
fn batch(seqno: u64, key: &str, value: &[u8]) -> Vec<u8> {
    let mut batch = seqno.to_le_bytes().to_vec();
    batch.extend_from_slice(&1_u32.to_le_bytes());
    batch.push(1);
    for part in [key.as_bytes(), value] {
        koeldb_base::coding::put_length_prefixed(&mut batch, part);
    }
    batch
}

#[test]
fn rocksdbs_tool_reads_what_is_written() {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let ldb = std::env::split_paths(&paths)
        .map(|directory| directory.join("ldb"))
        .find(|path| path.is_file());
    let Some(ldb) = ldb else {
        let required = std::env::var("CI").as_deref() == Ok("true");
        assert!(!required, "ldb is not installed (Debian: rocksdb-tools)");
        eprintln!("notice: ldb is not installed; nothing is checked against RocksDB");
        return;
    };
    let compressions = [
        WalCompression::None,
        #[cfg(feature = "zstd")]
        WalCompression::Zstd,
    ];
    let directory = std::env::temp_dir().join(format!("koeldb-log-{}", std::process::id()));
    let fs: Arc<dyn FileSystem> = Arc::new(koeldb_fs::PosixFileSystem::new());
    fs.create_dir_all(&directory).unwrap();
    // The last log of each compression is written over the one before, and shorter.
    let kinds = [(false, 300), (true, 300), (true, 200)];
    let logs = compressions.into_iter().flat_map(|compression| {
        kinds.map(|(is_recyclable, records)| (compression, is_recyclable, records))
    });
    for (number, (compression, is_recyclable, records)) in (1..).zip(logs) {
        let options = RecordWriterOptions {
            compression,
            recyclable: is_recyclable.then_some(number),
        };
        let file_options = WriteOptions::new(Purpose::Wal);
        let path = koeldb_base::file_name::wal(&directory, number);
        let file = match records {
            200 => {
                let former = koeldb_base::file_name::wal(&directory, number - 1);
                fs.reuse(&former, &path, &file_options)
            }
            _ => fs.create(&path, &file_options),
        };
        let mut log = RecordWriter::new(file.unwrap(), options).unwrap();
        let mut expected = String::new();
        for seqno in 1..=records {
            let size = usize::try_from(seqno * seqno).unwrap();
            let noise = (0..size).map(|at| u8::try_from(at * at % 251).unwrap());
            let key = format!("key{seqno}");
            log.add_record(&batch(seqno, &key, &noise.collect::<Vec<_>>()))
                .unwrap();
            let hex: String = key.bytes().map(|byte| format!("{byte:02X}")).collect();
            expected += &format!("{seqno},1,PUT(0) : 0x{hex}\n");
        }
        log.sync().unwrap();
        assert_eq!(log.has_remains(), records == 200);
        let output = std::process::Command::new(&ldb)
            .arg("dump_wal")
            .arg(format!("--walfile={}", path.display()))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let found: String = text
            .lines()
            .map(|line| {
                let mut fields = line.split(',');
                let (seqno, count) = (fields.next().unwrap(), fields.next().unwrap());
                let operation = line.split("PUT").nth(1).unwrap().trim_end();
                format!("{seqno},{count},PUT{operation}\n")
            })
            .collect();
        assert_eq!(found, expected, "{options:?}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_in_every_mode(
        sizes in prop::collection::vec(prop_oneof![0..100_usize, 32_700..32_800_usize, 0..100_000_usize], 1..12),
        zstd: bool,
    ) {
        let records: Vec<Vec<u8>> = sizes
            .iter()
            .enumerate()
            .map(|(index, &size)| {
                (0..size).map(|at| u8::try_from((at * 31 + index) % 251).unwrap()).collect()
            })
            .collect();
        let options = if zstd && cfg!(feature = "zstd") { ZSTD_RECORDS } else { RecordWriterOptions::default() };
        let bytes = log_of(&records, options);
        for mode in MODES {
            let mut reader = reader(&bytes, mode);
            for record in &records {
                prop_assert_eq!(reader.next_record().unwrap(), Some(record.as_slice()));
            }
            prop_assert_eq!(reader.next_record().unwrap(), None);
            prop_assert_eq!(reader.take_problem(), None);
        }
    }

    #[test]
    fn any_bytes_are_read_to_an_end(mut bytes: Vec<u8>, mode in 0..4_usize, repeat in 1..2000_usize) {
        bytes = bytes.repeat(repeat);
        let mut reader = reader(&bytes, MODES[mode]);
        while let Ok(Some(_)) = reader.next_record() {}
    }

    #[test]
    fn a_log_written_over_another_one_has_its_own_records(
        sizes in prop_oneof![
            prop::collection::vec(0..40_usize, 1..40),
            prop::collection::vec(0..2_000_usize, 1..40),
            prop::collection::vec(0..70_000_usize, 1..8),
        ],
        compressed: bool,
    ) {
        let compression = match compressed && cfg!(feature = "zstd") {
            true => WalCompression::Zstd,
            false => WalCompression::None,
        };
        expect_written_over(&sizes, compression);
    }

    #[test]
    fn damage_never_invents_a_record(
        flips in prop::collection::vec((prop_oneof![0..30_usize, 0..100_000_usize], 0..8_u32), 1..4),
        mode in 0..4_usize,
        kind in 0..3,
        count in prop_oneof![Just(100_usize), Just(1_500)],
    ) {
        let mut bytes = match kind {
            0 => records(count),
            1 => recycled_records(count, 9),
            _ if cfg!(feature = "zstd") => log_of((0..count).map(payload), ZSTD_RECORDS),
            _ => records(count),
        };
        for (at, bit) in flips {
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
        }
        let mut reader = reader(&bytes, MODES[mode]);
        let mut next = 0;
        while let Some(record) = reader.next_record().unwrap() {
            let index = (next..count).find(|&index| record == payload(index));
            prop_assert!(index.is_some(), "a record that was never written");
            next = index.unwrap() + 1;
        }
    }
}
