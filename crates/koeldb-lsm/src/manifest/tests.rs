use koeldb_base::key::encode;
use koeldb_base::{KeyOrder, ValueType};
use koeldb_fs::MemoryFileSystem;

use super::*;
use crate::version::builder::{MissingEpochs, VersionBuilder};
use crate::version::{BlobFileMeta, ColumnFamilySpec, FileMeta, VersionSet, VersionSetOptions};

fn directory() -> &'static Path {
    Path::new("/db")
}

/// A version of two tables, one of which refers to a blob file.
fn version(order: KeyOrder) -> Arc<Version> {
    let table = |number: FileNumber, key: &[u8], blob_file| {
        let bound = encode(key, number, ValueType::Value);
        let mut file = FileMeta::new(number, 100, bound.clone(), bound);
        file.largest_seqno = number;
        file.epoch = number;
        file.oldest_blob_file = blob_file;
        Arc::new(file)
    };
    let blob_file = BlobFileMeta {
        number: 9,
        count: 5,
        bytes: 500,
        checksum_name: Vec::new(),
        checksum: Vec::new(),
        garbage_count: 2,
        garbage_bytes: 200,
        reader: Default::default(),
    };
    let mut empty = Version::empty(order, 7);
    empty.blob_files.insert(9, blob_file);
    let mut builder = VersionBuilder::new(Arc::new(empty));
    let edit = VersionEdit {
        added_files: vec![(0, table(11, b"a", 0)), (6, table(10, b"b", 9))],
        ..VersionEdit::default()
    };
    builder.apply(&edit).unwrap();
    Arc::new(builder.finish(MissingEpochs::Refuse).unwrap())
}

fn snapshot() -> ManifestSnapshot {
    let family = |id, name: &str, order| ColumnFamilySnapshot {
        id,
        name: name.to_owned(),
        log_number: 20 + FileNumber::from(id),
        version: version(order),
    };
    ManifestSnapshot {
        db_id: Some("the-id".to_owned()),
        wals: vec![WalAddition {
            number: 21,
            synced_bytes: Some(5),
        }],
        min_log_number_to_keep: 20,
        max_column_family: 4,
        last_seqno: 77,
        families: vec![
            family(0, "default", KeyOrder::Bytewise),
            family(3, "other", KeyOrder::ReverseBytewise),
        ],
        in_one_directory: false,
    }
}

#[test]
fn a_snapshot_has_rocksdbs_records_in_its_order() {
    let fs = MemoryFileSystem::new();
    fs.create_dir_all(directory()).unwrap();
    install(&fs, directory(), 30, 31, &snapshot()).unwrap();
    let mut reader = ManifestReader::open(&fs, directory(), 30).unwrap();
    let mut edits = Vec::new();
    while let Some(group) = reader.next_edits().unwrap() {
        edits.extend(group);
    }
    let [
        id,
        wals,
        gone,
        name_0,
        files_0,
        name_3,
        files_3,
        size,
        counters,
    ] = edits.as_slice()
    else {
        panic!("{edits:?}");
    };
    assert_eq!(id.db_id.as_deref(), Some(&b"the-id"[..]));
    assert_eq!(wals.wal_additions[0].number, 21);
    assert_eq!(gone.wal_deletion, Some(20));
    assert_eq!((name_0.family, &name_0.family_change), (0, &None));
    assert_eq!(
        name_0.comparator.as_deref(),
        Some("leveldb.BytewiseComparator")
    );
    assert_eq!(name_0.persist_timestamps, Some(true));
    assert_eq!((files_0.family, files_0.added_files.len()), (0, 2));
    assert_eq!(files_0.log_number, Some(20));
    assert_eq!(files_0.min_log_number_to_keep, Some(20));
    assert_eq!(files_0.last_seqno, Some(77));
    assert_eq!(files_0.added_blob_files[0].garbage_count, 0);
    assert_eq!(files_0.blob_garbage[0].count, 2);
    let added = Some(ColumnFamilyChange::Add("other".to_owned()));
    assert_eq!((name_3.family, &name_3.family_change), (3, &added));
    assert_eq!((files_3.family, files_3.min_log_number_to_keep), (3, None));
    assert!(size.compacted_manifest_bytes > Some(300));
    assert_eq!(counters.next_file_number, Some(31));
    assert_eq!(counters.prev_log_number, Some(0));
    assert_eq!(counters.max_column_family, Some(4));
}

#[test]
fn an_installed_state_is_recovered() {
    let memory = MemoryFileSystem::new();
    memory.create_dir_all(directory()).unwrap();
    let snapshot = snapshot();
    install(&memory, directory(), 30, 31, &snapshot).unwrap();
    let families = [
        ColumnFamilySpec::new("default"),
        ColumnFamilySpec {
            order: KeyOrder::ReverseBytewise,
            ..ColumnFamilySpec::new("other")
        },
    ];
    // Blob files are not kept by a database that is written to.
    let options = VersionSetOptions {
        read_only: true,
        ..VersionSetOptions::default()
    };
    let fs = Arc::new(memory.crash_image(koeldb_fs::SurvivalPolicy::EntriesWithoutData, 0));
    let (set, report) = VersionSet::recover(fs, directory(), &families, options).unwrap();
    assert_eq!(report.manifest_number, 30);
    assert_eq!((set.last_seqno(), set.max_column_family()), (77, 4));
    assert_eq!(set.file_numbers().peek(), 32);
    for (family, expected) in set.families().zip(&snapshot.families) {
        assert_eq!(
            (family.id(), family.name()),
            (expected.id, expected.name.as_str())
        );
        assert_eq!(family.log_number(), expected.log_number);
        assert_eq!(
            format!("{:?}", family.current()),
            format!("{:?}", expected.version)
        );
        assert_eq!(family.epochs().next(), 12);
    }
}

#[test]
fn a_copy_in_one_directory_has_no_path_ids() {
    let path_ids = |in_one_directory| {
        let mut snapshot = ManifestSnapshot {
            in_one_directory,
            ..snapshot()
        };
        let family = &mut snapshot.families[0];
        let mut levels = family.version.levels.clone();
        for level in &mut levels {
            for file in &mut level.files {
                let mut moved = file.with_epoch(file.epoch);
                moved.path_id = 2;
                *file = Arc::new(moved);
            }
        }
        family.version = Arc::new(Version::new(KeyOrder::Bytewise, levels));
        let edits = snapshot.edits();
        let added = edits.into_iter().flat_map(|edit| edit.added_files);
        added.map(|(_, file)| file.path_id).collect::<Vec<u8>>()
    };
    assert_eq!(path_ids(false), [2, 2, 0, 0]);
    assert_eq!(path_ids(true), [0; 4]);
}
