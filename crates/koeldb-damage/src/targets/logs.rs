//! Logs and their records: batches, edits, MANIFESTs.

use std::path::Path;
use std::sync::Arc;

use koeldb::WriteBatch;
use koeldb_base::file_name;
use koeldb_fs::MemoryFileSystem;
use koeldb_log::{RecordReader, RecoveryMode, WalCompression};
use koeldb_lsm::current::write_current;
use koeldb_lsm::version::{ColumnFamilySpec, VersionEdit, VersionSet, VersionSetOptions};

use super::{Target, join, judge, parts};
use crate::bytes_file::{BytesFile, put_file};
use crate::seeds;

const MODES: [RecoveryMode; 4] = [
    RecoveryMode::TolerateCorruptedTailRecords,
    RecoveryMode::AbsoluteConsistency,
    RecoveryMode::PointInTime,
    RecoveryMode::SkipAnyCorruptedRecords,
];

/// Whether a file name is that of a write-ahead log.
fn is_log(name: &str) -> bool {
    name.ends_with(".log")
}

/// Whether a file name is that of a MANIFEST.
fn is_manifest(name: &str) -> bool {
    name.starts_with("MANIFEST-")
}

/// Returns the records of golden files, at most `most` per file.
fn golden_records(wanted: impl Fn(&str) -> bool, most: usize) -> Vec<Vec<Vec<u8>>> {
    let files = seeds::golden_files(256 << 10, wanted);
    let records_of = |(path, bytes): (_, Vec<u8>)| {
        let mut reader = RecordReader::new(
            BytesFile::new(path, bytes),
            9,
            RecoveryMode::SkipAnyCorruptedRecords,
        );
        let mut records = Vec::new();
        while let Ok(Some(record)) = reader.next_record() {
            records.push(record.to_vec());
            if records.len() == most {
                break;
            }
        }
        records
    };
    files.into_iter().map(records_of).collect()
}

pub(super) const BATCH: Target = Target {
    name: "batch",
    run: batch_run,
    seeds: || {
        let mut batch = WriteBatch::new();
        batch
            .put("key", "value")
            .delete("other")
            .merge("key", "operand");
        batch
            .delete_range("a", "b")
            .single_delete("c")
            .put_log_data("note");
        let mut seeds = vec![batch.into_data()];
        seeds.extend(golden_records(is_log, 4).into_iter().flatten());
        seeds.retain(|seed| seed.len() < 4096);
        seeds
    },
};

/// Runs the fuzz target `batch`: decodes a write batch, and checks its count and its encoding.
fn batch_run(data: &[u8]) {
    match WriteBatch::from_data(data) {
        Ok(batch) => {
            let counted = batch
                .iter()
                .map(|entry| entry.expect("a batch that was checked is read"))
                .filter(|entry| !matches!(entry, koeldb::BatchEntry::LogData { .. }))
                .count();
            assert_eq!(counted, batch.len(), "the count rule");
            let mut other = WriteBatch::new();
            other.append(&batch);
            assert_eq!(other.len(), batch.len());
            assert_eq!(batch.into_data(), data);
        }
        Err(error) => judge(&error),
    }
}

/// The result of reading a log: its records, the problems found, and the bytes dropped.
#[derive(Debug, PartialEq)]
struct Reading {
    records: Vec<Vec<u8>>,
    problem_count: u64,
    dropped_bytes: u64,
    failed: bool,
}

impl Reading {
    /// Whether the reading failed, found a problem, or dropped bytes.
    fn has_problem(&self) -> bool {
        self.failed || self.problem_count > 0 || self.dropped_bytes > 0
    }
}

/// Reads all records of a log in a recovery mode, and judges an error.
fn read(data: &[u8], mode: RecoveryMode) -> Reading {
    let mut reader = RecordReader::new(BytesFile::new("/000009.log", data), 9, mode);
    let mut records = Vec::new();
    let mut failed = false;
    loop {
        match reader.next_record() {
            Ok(Some(record)) => records.push(record.to_vec()),
            Ok(None) => break,
            Err(error) => {
                judge(&error);
                failed = true;
                break;
            }
        }
        while let Some(problem) = reader.take_problem() {
            assert!(problem.offset <= data.len() as u64);
        }
        // A record has at least a header.
        assert!(records.len() <= data.len() / 7 + 1);
    }
    Reading {
        records,
        problem_count: reader.problem_count(),
        dropped_bytes: reader.dropped_bytes(),
        failed,
    }
}

pub(super) const LOG_READER: Target = Target {
    name: "log_reader",
    run: |data| {
        let absolute = read(data, RecoveryMode::AbsoluteConsistency);
        for mode in MODES {
            let found = read(data, mode);
            // If the strictest mode finds no problem, the others read the same, up to an earlier
            // use of the file.
            let same = found.records.starts_with(&absolute.records);
            assert!(absolute.has_problem() || same, "{mode:?}");
        }
    },
    seeds: || {
        let records = [
            b"first".to_vec(),
            vec![7; 300],
            Vec::new(),
            b"last".to_vec(),
        ];
        let mut seeds = vec![seeds::log(&records, WalCompression::None).expect("a log")];
        seeds.extend(seeds::log(&records, WalCompression::Zstd));
        let long = [vec![1; 33_000], b"next".to_vec()];
        seeds.extend(seeds::log(&long, WalCompression::None));
        for (_, bytes) in seeds::golden_files(256 << 10, is_log) {
            seeds.push(bytes[..bytes.len().min(3000)].to_vec());
        }
        seeds
    },
};

pub(super) const LOG_ROUND_TRIP: Target = Target {
    name: "log_round_trip",
    run: |data| {
        let records: Vec<Vec<u8>> = parts(data).into_iter().map(<[u8]>::to_vec).collect();
        for compression in [WalCompression::None, WalCompression::Zstd] {
            let Ok(log) = seeds::log(&records, compression) else {
                continue;
            };
            for mode in MODES {
                let found = read(&log, mode);
                assert!(!found.has_problem(), "{found:?}");
                assert_eq!(found.records, records);
            }
        }
    },
    seeds: || {
        vec![
            join([&b"a"[..], b"", &[3; 5000]]),
            join([vec![1; 32_768 - 14], vec![2; 10], vec![3; 40_000]]),
        ]
    },
};

pub(super) const EDIT: Target = Target {
    name: "edit",
    run: |data| match VersionEdit::decode(data) {
        Ok(edit) => {
            let encoded = edit.to_vec();
            let again = VersionEdit::decode(&encoded).expect("what was encoded is decoded");
            assert_eq!(again.to_vec(), encoded);
        }
        Err(error) => judge(&error),
    },
    seeds: || {
        let records = golden_records(is_manifest, 40);
        let mut seeds: Vec<_> = records.into_iter().flatten().collect();
        seeds.sort();
        seeds.dedup();
        seeds
    },
};

pub(super) const MANIFEST: Target = Target {
    name: "manifest",
    run: manifest_run,
    seeds: || {
        golden_records(is_manifest, 20)
            .into_iter()
            .map(join)
            .collect()
    },
};

/// Runs the fuzz target `manifest`: recovers a version set from a MANIFEST with given records.
fn manifest_run(data: &[u8]) {
    let records: Vec<Vec<u8>> = parts(data).into_iter().map(<[u8]>::to_vec).collect();
    let log = seeds::log(&records, WalCompression::None).expect("a log in memory is written");
    let fs = MemoryFileSystem::new();
    let directory = Path::new("/");
    let put = put_file(&fs, &file_name::manifest(directory, 4), &log);
    put.expect("a file in memory is written");
    write_current(&fs, directory, 4).expect("CURRENT is written");
    let names = match VersionSet::list_families(&fs, directory) {
        Ok(names) => names,
        Err(error) => return judge(&error),
    };
    let families: Vec<_> = names.into_iter().map(ColumnFamilySpec::new).collect();
    let fs = Arc::new(fs);
    match VersionSet::recover(fs, directory, &families, VersionSetOptions::default()) {
        Ok((mut set, _)) => {
            for family in set.families() {
                let version = family.current();
                for level in version.levels.iter().skip(1) {
                    let files = &level.files;
                    let apart = |pair: &[Arc<koeldb_lsm::FileMeta>]| {
                        pair[0].largest_user_key() <= pair[1].smallest_user_key()
                    };
                    assert!(files.windows(2).all(apart), "tables of a level overlap");
                }
            }
            let next = set.file_numbers().next();
            assert!(set.live_files().tables.iter().all(|&number| number < next));
            let edit = VersionEdit::of(0);
            if let Err(error) = set.log_and_apply(vec![edit]) {
                judge(&error);
            }
        }
        Err(error) => judge(&error),
    }
}
