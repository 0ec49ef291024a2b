use std::collections::HashSet;

use std::path::Path;
use std::sync::Arc;

use koeldb_base::key::encode;
use koeldb_base::{KeyOrder, ValueType};
use koeldb_fs::{
    Failure, FaultAction, FaultFileSystem, FaultRule, MemoryFileSystem, PosixFileSystem, Purpose,
    SurvivalPolicy,
};

use super::*;
use crate::current::write_current;
use crate::file_meta::FileMeta;
use crate::manifest::ManifestReader;
use crate::manifest::ManifestSnapshot;
use crate::version::edit::WalAddition;

const DIRECTORY: &str = "/db";

impl VersionSet {
    /// Creates a family, and returns its id.
    fn add_family(&mut self, spec: &ColumnFamilySpec, log_number: FileNumber) -> Result<u32> {
        let ids = self.add_families(std::slice::from_ref(spec), log_number)?;
        Ok(ids[0])
    }
}

fn directory() -> &'static Path {
    Path::new(DIRECTORY)
}

fn specs(names: &[&str]) -> Vec<ColumnFamilySpec> {
    names
        .iter()
        .map(|&name| ColumnFamilySpec::new(name))
        .collect()
}

fn created() -> Arc<MemoryFileSystem> {
    let fs = MemoryFileSystem::new();
    fs.create_dir_all(directory()).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    VersionSet::create(&fs, directory(), Some("the-id")).unwrap();
    Arc::new(fs)
}

fn recover(fs: Arc<dyn FileSystem>, names: &[&str]) -> Result<VersionSet> {
    let options = VersionSetOptions::default();
    VersionSet::recover(fs, directory(), &specs(names), options).map(|(set, _)| set)
}

/// A table of a family whose only key is `key`.
fn table(set: &VersionSet, family: u32, key: &str) -> Arc<FileMeta> {
    let number = set.file_numbers().next();
    let bound = encode(key.as_bytes(), number, ValueType::Value);
    let mut file = FileMeta::new(number, 1000 + number, bound.clone(), bound);
    file.smallest_seqno = number;
    file.largest_seqno = number;
    file.epoch = set.family(family).unwrap().epochs().next();
    Arc::new(file)
}

/// An edit that adds a table on level 0, like a flush.
fn flush(set: &VersionSet, family: u32, key: &str) -> VersionEdit {
    VersionEdit {
        added_files: vec![(0, table(set, family, key))],
        log_number: Some(set.file_numbers().next()),
        ..VersionEdit::of(family)
    }
}

/// All state of a set that must survive, as text.
fn state(set: &VersionSet) -> String {
    let mut text = format!(
        "id {:?}, max family {}\n",
        set.db_id(),
        set.max_column_family()
    );
    for family in set.families() {
        let files: Vec<String> = family
            .current()
            .files()
            .map(|(level, file)| {
                let epoch = file.epoch;
                format!("{level}:{}:{}:{epoch}", file.number, file.bytes)
            })
            .collect();
        text += &format!("{} {} {}\n", family.id(), family.name(), files.join(" "));
    }
    text
}

#[test]
fn a_new_database_opens_empty_and_its_files_have_rocksdbs_bytes() {
    let fs = created();
    let current = fs
        .read_all(&directory().join("CURRENT"), 100, Purpose::Other)
        .unwrap();
    assert_eq!(current, b"MANIFEST-000001\n");
    let manifest = fs
        .read_all(&directory().join("MANIFEST-000001"), 100, Purpose::Other)
        .unwrap();
    assert_eq!(
        &manifest[7..],
        b"\x81\x40\x06the-id\x02\x00\x03\x02\x04\x00"
    );

    let set = recover(fs.clone(), &["default"]).unwrap();
    assert_eq!(set.db_id(), Some("the-id"));
    assert_eq!(set.last_seqno(), 0);
    assert_eq!(set.file_numbers().peek(), 3);
    assert_eq!(set.family(0).unwrap().name(), "default");
    assert_eq!(
        fs.list(directory()).unwrap().len(),
        2,
        "nothing was written"
    );

    let again = VersionSet::create(&*fs, directory(), None);
    assert!(again.is_ok(), "only a lone MANIFEST-000001 is overwritten");
    fs.remove_file(&directory().join("CURRENT")).unwrap();
    let remains = fs.create(
        &directory().join("000007.sst"),
        &koeldb_fs::WriteOptions::default(),
    );
    remains.unwrap().close().unwrap();
    let error = VersionSet::create(&*fs, directory(), None).unwrap_err();
    assert!(error.to_string().contains("1 table (open"), "{error}");
}

#[test]
fn what_was_committed_is_there_after_reopening() {
    let fs = created();
    let mut set = recover(fs.clone(), &["default"]).unwrap();
    let alpha = set.add_family(&ColumnFamilySpec::new("alpha"), 3).unwrap();
    let beta = set.add_family(&ColumnFamilySpec::new("beta"), 3).unwrap();
    assert_eq!((alpha, beta), (1, 2));
    let both = vec![flush(&set, 0, "a"), flush(&set, alpha, "b")];
    let installed = set.log_and_apply(both).unwrap();
    assert_eq!(installed.len(), 2);
    assert!(Arc::ptr_eq(
        &installed[0].1,
        set.family(0).unwrap().current()
    ));
    set.drop_families(&[beta]).unwrap();
    let moved = {
        let (_, file) = set.family(0).unwrap().current().files().next().unwrap();
        VersionEdit {
            deleted_files: vec![(0, file.number)],
            added_files: vec![(6, Arc::clone(file))],
            ..VersionEdit::default()
        }
    };
    set.log_and_apply(vec![moved]).unwrap();
    set.raise_last_seqno(1000);
    set.log_and_apply(vec![VersionEdit::default()]).unwrap();
    let expected = state(&set);
    assert!(expected.contains("0 default 6:"), "{expected}");

    for _ in 0..2 {
        let mut set = recover(fs.clone(), &["alpha", "default"]).unwrap();
        assert_eq!(state(&set), expected);
        assert_eq!(set.last_seqno(), 1000);
        set.log_and_apply(vec![VersionEdit::default()]).unwrap();
    }
    assert_eq!(
        VersionSet::list_families(&*fs, directory()).unwrap(),
        ["default", "alpha"]
    );
    let mut set = recover(fs, &["default", "alpha"]).unwrap();
    let gamma = set.add_family(&ColumnFamilySpec::new("gamma"), 3).unwrap();
    assert_eq!(gamma, 3, "ids are never used again");
}

#[test]
fn families_are_created_and_dropped_together_by_separate_records() {
    let fs = created();
    let mut set = recover(fs.clone(), &["default"]).unwrap();
    let spec = |name: &str| ColumnFamilySpec::new(name);
    assert!(set.add_families(&[spec("a"), spec("a")], 3).is_err());
    assert!(set.add_families(&[spec("a"), spec("default")], 3).is_err());
    let ids = set.add_families(&[spec("a"), spec("b"), spec("c")], 3);
    let ids = ids.unwrap();
    assert_eq!(ids, [1, 2, 3]);
    assert!(set.drop_families(&[1, 1]).is_err());
    assert!(set.drop_families(&[1, 0]).is_err());
    assert!(set.add_families(&[], 3).unwrap().is_empty());
    set.drop_families(&[]).unwrap();
    set.drop_families(&[3, 1]).unwrap();
    let mut reader = ManifestReader::open(&*fs, directory(), set.manifest_number()).unwrap();
    while let Some(edits) = reader.next_edits().unwrap() {
        for edit in edits {
            assert_eq!(edit.remaining_in_group, None);
        }
    }
    drop(set);
    assert_eq!(
        VersionSet::list_families(&*fs, directory()).unwrap(),
        ["default", "b"]
    );
}

#[test]
fn families_must_be_the_ones_that_exist() {
    let fs = created();
    let mut set = recover(fs.clone(), &["default"]).unwrap();
    set.add_family(&ColumnFamilySpec::new("a"), 3).unwrap();
    let reverse = ColumnFamilySpec {
        order: KeyOrder::ReverseBytewise,
        ..ColumnFamilySpec::new("b")
    };
    set.add_family(&reverse, 3).unwrap();
    let error = set.add_family(&reverse, 3).unwrap_err();
    assert!(error.message().contains("already exists"), "{error}");
    assert!(set.add_family(&ColumnFamilySpec::new(""), 3).is_err());
    assert!(set.drop_families(&[0]).is_err());
    let error = set.drop_families(&[9]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ColumnFamilyDropped);
    drop(set);

    let error = recover(fs.clone(), &["default"]).unwrap_err();
    assert_eq!(error.message(), "Column families not opened: a, b");
    let hint = "DbBuilder::other_column_families";
    assert!(error.advice().unwrap().contains(hint), "{error}");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let error = recover(fs.clone(), &["a", "b"]).unwrap_err();
    assert_eq!(error.message(), "Default column family not specified");
    let error = recover(fs.clone(), &["default", "a", "b"]).unwrap_err();
    assert!(
        error.message().contains(
            "leveldb.BytewiseComparator: does not match existing comparator rocksdb.ReverseBytewiseComparator"
        ),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);

    let options = VersionSetOptions {
        read_only: true,
        ..VersionSetOptions::default()
    };
    let (mut set, report) =
        VersionSet::recover(fs, directory(), &specs(&["default"]), options).unwrap();
    assert_eq!(report.families_not_opened, ["a", "b"]);
    assert_eq!(set.families().count(), 1);
    let error = set.log_and_apply(vec![VersionEdit::default()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
}

/// A table whose bounds are ordered only in bytewise order.
fn ascending_table(set: &VersionSet) -> Arc<FileMeta> {
    let bound = |key: &[u8]| encode(key, 1, ValueType::Value);
    let number = set.file_numbers().next();
    let file = FileMeta::new(number, 1000, bound(b"a"), bound(b"z"));
    Arc::new(file.with_epoch(number))
}

fn reversed(name: &str) -> ColumnFamilySpec {
    ColumnFamilySpec {
        order: KeyOrder::ReverseBytewise,
        ..ColumnFamilySpec::new(name)
    }
}

#[test]
fn a_name_used_again_with_another_comparator_begins_a_manifest_that_rocksdb_reads() {
    let fs = created();
    let mut set = recover(fs.clone(), &["default"]).unwrap();
    let first = set.add_family(&ColumnFamilySpec::new("a"), 3).unwrap();
    set.drop_families(&[first]).unwrap();
    let number = set.manifest_number();
    let second = set.add_family(&ColumnFamilySpec::new("a"), 3).unwrap();
    set.drop_families(&[second]).unwrap();
    assert_eq!(set.manifest_number(), number, "the same comparator");
    set.add_family(&reversed("a"), 3).unwrap();
    let mut reader = ManifestReader::open(&*fs, directory(), set.manifest_number()).unwrap();
    let mut comparators = Vec::new();
    while let Some(edits) = reader.next_edits().unwrap() {
        let recorded = edits.into_iter().filter(|edit| edit.family > 0);
        comparators.extend(recorded.filter_map(|edit| edit.comparator));
    }
    assert_eq!(comparators, [KeyOrder::ReverseBytewise.name()]);
    let families = [ColumnFamilySpec::new("default"), reversed("a")];
    VersionSet::recover(fs, directory(), &families, VersionSetOptions::default()).unwrap();
}

#[test]
fn comparators_are_compared_for_the_families_that_survive() {
    let fs = created();
    let set = recover(fs.clone(), &["default"]).unwrap();
    let add = |id, order: KeyOrder| VersionEdit {
        family_change: Some(ColumnFamilyChange::Add("a".to_owned())),
        comparator: Some(order.name().to_owned()),
        ..VersionEdit::of(id)
    };
    let edits = [
        add(1, KeyOrder::Bytewise),
        VersionEdit {
            added_files: vec![(0, ascending_table(&set))],
            ..VersionEdit::of(1)
        },
        VersionEdit {
            family_change: Some(ColumnFamilyChange::Drop),
            ..VersionEdit::of(1)
        },
        add(2, KeyOrder::ReverseBytewise),
        VersionEdit {
            log_number: Some(0),
            next_file_number: Some(30),
            last_seqno: Some(0),
            ..VersionEdit::default()
        },
    ];
    let number = set.file_numbers().next();
    let snapshot = ManifestSnapshot::default();
    let file_options = koeldb_fs::WriteOptions::default();
    manifest::write(&*fs, directory(), number, &file_options, &snapshot, &edits).unwrap();
    write_current(&*fs, directory(), number).unwrap();
    let families = [ColumnFamilySpec::new("default"), reversed("a")];
    let options = VersionSetOptions::default();
    let (set, _) = VersionSet::recover(fs.clone(), directory(), &families, options).unwrap();
    assert_eq!(set.family_named("a").unwrap().id(), 2);
    let error = recover(fs, &["default", "a"]).unwrap_err();
    assert!(error.message().contains("does not match"), "{error}");
}

#[test]
fn a_blob_file_is_kept_while_a_table_refers_to_it() {
    let fs = created();
    let mut set = recover(fs.clone(), &["default"]).unwrap();
    let large = set.add_family(&ColumnFamilySpec::new("large"), 3).unwrap();
    let mut file = table(&set, large, "a").with_epoch(1);
    file.oldest_blob_file = 12;
    let blob_file = crate::version::BlobFileMeta {
        number: 12,
        count: 5,
        bytes: 500,
        checksum_name: Vec::new(),
        checksum: Vec::new(),
        garbage_count: 0,
        garbage_bytes: 0,
        reader: Default::default(),
    };
    let number = file.number;
    let edit = VersionEdit {
        added_blob_files: vec![blob_file],
        added_files: vec![(0, Arc::new(file))],
        ..VersionEdit::of(large)
    };
    set.log_and_apply(vec![edit]).unwrap();
    let open = || recover(fs.clone(), &["default", "large"]).unwrap();
    let blob_files = |set: &mut VersionSet| set.live_files().blob_files;
    let mut set = open();
    assert_eq!(blob_files(&mut set).into_iter().collect::<Vec<_>>(), [12]);
    let edit = VersionEdit {
        deleted_files: vec![(0, number)],
        ..VersionEdit::of(large)
    };
    set.log_and_apply(vec![edit]).unwrap();
    assert!(blob_files(&mut set).is_empty());
    assert!(blob_files(&mut open()).is_empty());
}

#[test]
fn a_bad_edit_changes_nothing() {
    let fs = created();
    let mut set = recover(fs, &["default"]).unwrap();
    let first = flush(&set, 0, "a");
    set.log_and_apply(vec![first]).unwrap();
    let (before, bytes) = (state(&set), set.manifest_bytes());
    let bad = VersionEdit {
        deleted_files: vec![(0, 999)],
        ..flush(&set, 0, "b")
    };
    let error = set.log_and_apply(vec![bad]).unwrap_err();
    assert!(error.is_corruption());
    let gone = VersionEdit::of(77);
    let error = set.log_and_apply(vec![gone]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ColumnFamilyDropped);
    assert_eq!((state(&set), set.manifest_bytes()), (before, bytes));
    assert!(!set.is_uncertain());
}

#[test]
fn logs_are_needed_until_every_family_is_past_them() {
    let fs = created();
    let mut set = recover(fs.clone(), &["default"]).unwrap();
    let alpha = set.add_family(&ColumnFamilySpec::new("alpha"), 4).unwrap();
    let past = |family, log_number| VersionEdit {
        log_number: Some(log_number),
        ..VersionEdit::of(family)
    };
    set.log_and_apply(vec![past(0, 20)]).unwrap();
    assert_eq!(set.min_log_number_to_keep(), 4);
    set.log_and_apply(vec![past(alpha, 10)]).unwrap();
    assert_eq!(set.min_log_number_to_keep(), 10);
    set.set_needed_from(alpha, 15);
    assert_eq!(set.min_log_number_to_keep(), 10);
    assert_eq!(set.family(alpha).unwrap().log_number(), 10);
    set.log_and_apply(vec![past(0, 21)]).unwrap();
    assert_eq!(set.min_log_number_to_keep(), 15);
    set.drop_families(&[alpha]).unwrap();
    assert_eq!(set.min_log_number_to_keep(), 21);
    let set = recover(fs, &["default"]).unwrap();
    assert_eq!(set.min_log_number_to_keep(), 21);
    assert_eq!(set.family(0).unwrap().log_number(), 21);
}

#[test]
fn tracked_logs_come_and_go() {
    let fs = created();
    let mut set = recover(fs.clone(), &["default"]).unwrap();
    let track = |number, synced_bytes| VersionEdit {
        wal_additions: vec![WalAddition {
            number,
            synced_bytes,
        }],
        ..VersionEdit::default()
    };
    for edit in [
        track(5, None),
        track(6, Some(10)),
        track(6, Some(7)),
        track(5, Some(3)),
    ] {
        set.log_and_apply(vec![edit]).unwrap();
    }
    let expected = BTreeMap::from([(5, Some(3)), (6, Some(10))]);
    assert_eq!(set.tracked_wals(), &expected);
    let mut set = recover(fs.clone(), &["default"]).unwrap();
    assert_eq!(set.tracked_wals(), &expected);
    let past = VersionEdit {
        log_number: Some(6),
        ..VersionEdit::default()
    };
    set.log_and_apply(vec![past]).unwrap();
    assert_eq!(set.tracked_wals(), &BTreeMap::from([(6, Some(10))]));
    let set = recover(fs, &["default"]).unwrap();
    assert_eq!(set.tracked_wals(), &BTreeMap::from([(6, Some(10))]));
}

/// RocksDB takes an edit that deletes logs for that alone.
#[test]
fn the_deletion_of_tracked_logs_is_an_edit_of_its_own() {
    let fs = created();
    let mut set = recover(fs.clone(), &["default"]).unwrap();
    let alpha = set.add_family(&ColumnFamilySpec::new("alpha"), 4).unwrap();
    let past = |family, log_number| VersionEdit {
        log_number: Some(log_number),
        ..flush(&set, family, "a")
    };
    let track = |number| VersionEdit {
        wal_additions: vec![WalAddition {
            number,
            synced_bytes: None,
        }],
        ..VersionEdit::default()
    };
    let edits = [
        vec![track(5)],
        vec![past(0, 8), past(alpha, 8)],
        vec![track(9)],
        vec![past(alpha, 11)],
        vec![past(0, 10)],
    ];
    for edits in edits {
        set.log_and_apply(edits).unwrap();
    }
    set.drop_families(&[alpha]).unwrap();
    assert!(set.tracked_wals().is_empty());
    let mut reader = ManifestReader::open(&*fs, directory(), set.manifest_number()).unwrap();
    let mut deletions = Vec::new();
    while let Some(edits) = reader.next_edits().unwrap() {
        for edit in edits {
            if let Some(below) = edit.wal_deletion {
                let alone = VersionEdit {
                    wal_deletion: Some(below),
                    ..VersionEdit::default()
                };
                assert_eq!(format!("{edit:?}"), format!("{alone:?}"));
                deletions.push(below);
            }
        }
    }
    assert_eq!(deletions, [8, 10]);
}

#[test]
fn files_live_as_long_as_a_version_that_has_them() {
    let fs = created();
    let mut set = recover(fs, &["default"]).unwrap();
    let edit = flush(&set, 0, "a");
    let number = edit.added_files[0].1.number;
    set.log_and_apply(vec![edit]).unwrap();
    let reader = Arc::clone(set.family(0).unwrap().current());
    let removal = VersionEdit {
        deleted_files: vec![(0, number)],
        ..VersionEdit::default()
    };
    set.log_and_apply(vec![removal]).unwrap();
    assert!(set.live_files().tables.contains(&number));
    drop(reader);
    assert!(set.live_files().tables.is_empty());
}

#[test]
fn a_large_manifest_is_followed_by_a_new_one() {
    let fs = created();
    let options = VersionSetOptions {
        manifest_bytes_max: 1000,
        manifest_space_amp_percent: 100,
        ..VersionSetOptions::default()
    };
    let (mut set, _) =
        VersionSet::recover(fs.clone(), directory(), &specs(&["default"]), options).unwrap();
    let mut numbers = HashSet::new();
    for index in 0..60 {
        let edit = flush(&set, 0, &format!("key {index}"));
        set.log_and_apply(vec![edit]).unwrap();
        numbers.insert(set.manifest_number());
    }
    assert!((3..=6).contains(&numbers.len()), "{numbers:?}");
    let expected = state(&set);
    assert_eq!(state(&recover(fs, &["default"]).unwrap()), expected);
}

#[test]
fn a_manifest_may_grow_by_the_permitted_share() {
    let rolls = |percent: u32| {
        let options = VersionSetOptions {
            manifest_bytes_max: 1,
            manifest_space_amp_percent: percent,
            ..VersionSetOptions::default()
        };
        let (mut set, _) =
            VersionSet::recover(created(), directory(), &specs(&["default"]), options).unwrap();
        let mut numbers = HashSet::new();
        for index in 0..60 {
            let edit = flush(&set, 0, &format!("key {index}"));
            set.log_and_apply(vec![edit]).unwrap();
            numbers.insert(set.manifest_number());
        }
        numbers.len()
    };
    assert_eq!(rolls(0), 60);
    let (some, few) = (rolls(100), rolls(500));
    assert!(few < some && some < 20, "{some} {few}");
}

#[test]
fn numbers_found_in_directories_are_not_handed_out() {
    let fs = created();
    let wals = Path::new("/wals");
    fs.create_dir_all(wals).unwrap();
    let options = koeldb_fs::WriteOptions::default();
    fs.create(&wals.join("000500.log"), &options).unwrap();
    fs.create(&directory().join("000300.sst"), &options)
        .unwrap();
    let options = VersionSetOptions {
        other_directories: vec![wals.to_owned()],
        ..VersionSetOptions::default()
    };
    let families = specs(&["default"]);
    let (set, _) =
        VersionSet::recover(fs.clone(), directory(), &families, options.clone()).unwrap();
    assert_eq!(set.file_numbers().next(), 501);

    let absurd = format!("{}.sst", u64::MAX);
    let file_options = koeldb_fs::WriteOptions::default();
    fs.create(&directory().join(absurd), &file_options).unwrap();
    assert!(VersionSet::recover(fs, directory(), &families, options).is_err());
}

#[test]
fn a_wrong_current_is_named() {
    let rewrite = |fs: &MemoryFileSystem, content: &[u8]| {
        let path = directory().join("CURRENT");
        fs.remove_file(&path).unwrap();
        let mut file = fs
            .create(&path, &koeldb_fs::WriteOptions::default())
            .unwrap();
        file.append(content).unwrap();
        file.close().unwrap();
    };
    let fs = created();
    for (content, message) in [
        (&b""[..], "newline"),
        (b"MANIFEST-000001", "newline"),
        (b"nonsense\n", "does not name a MANIFEST"),
        (b"MANIFEST-000077\n", "does not exist"),
        (&[b'x'; 100], "100 bytes"),
    ] {
        rewrite(&fs, content);
        let error = recover(fs.clone(), &["default"]).unwrap_err();
        assert!(error.is_corruption(), "{error}");
        assert!(error.to_string().contains(message), "{error}");
        assert!(error.file().is_some(), "{error}");
    }
    fs.remove_file(&directory().join("CURRENT")).unwrap();
    let error = recover(fs, &["default"]).unwrap_err();
    assert!(error.is_path_not_found(), "{error}");
}

/// A step of a scripted run; `false` once the file system fails.
fn step(set: &mut VersionSet, index: u32) -> bool {
    let alpha = set
        .family_named("alpha")
        .map_or(1, ColumnFamilyVersions::id);
    let beta = set.family_named("beta").map_or(2, ColumnFamilyVersions::id);
    let done = match index {
        0 => set.add_family(&ColumnFamilySpec::new("alpha"), 3).map(drop),
        1 | 4 => {
            let edits = vec![flush(set, 0, "a"), flush(set, alpha, &"long ".repeat(300))];
            set.log_and_apply(edits).map(drop)
        }
        3 => set.add_family(&ColumnFamilySpec::new("beta"), 3).map(drop),
        5 => set.drop_families(&[beta]),
        _ => {
            let edit = flush(set, 0, &format!("key {index}"));
            set.log_and_apply(vec![edit]).map(drop)
        }
    };
    done.is_ok()
}

const STEPS: u32 = 8;

fn small() -> VersionSetOptions {
    VersionSetOptions {
        manifest_bytes_max: 500,
        manifest_space_amp_percent: 100,
        ..VersionSetOptions::default()
    }
}

/// The states after each step of an undisturbed run.
fn states() -> Vec<String> {
    let fs = created();
    let families = specs(&["default"]);
    let (mut set, _) = VersionSet::recover(fs, directory(), &families, small()).unwrap();
    let mut states = vec![state(&set)];
    for index in 0..STEPS {
        assert!(step(&mut set, index));
        states.push(state(&set));
    }
    states
}

/// Opens all existing families.
fn recover_all(fs: Arc<dyn FileSystem>) -> Result<VersionSet> {
    let names = VersionSet::list_families(&*fs, directory())?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    recover(fs, &names)
}

/// The number of files and families: the common part of runs with different file numbers.
///
/// It grows with every step except the drop.
fn outline(state: &str) -> String {
    let word = |word: &str| word.split(':').next().unwrap_or_default().to_owned();
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    state.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_crash_at_any_operation_leaves_the_last_commit_or_the_one_under_way() {
    let expected: Vec<String> = states().iter().map(|state| outline(state)).collect();
    let mut operation = 0;
    loop {
        operation += 1;
        let fs = created();
        let begin = fs.operation_count();
        fs.arm_crash(begin + operation);
        let families = specs(&["default"]);
        let (mut set, _) =
            VersionSet::recover(fs.clone(), directory(), &families, small()).unwrap();
        let done = (0..STEPS)
            .take_while(|&index| step(&mut set, index))
            .count();
        if done == STEPS as usize {
            break;
        }
        for policy in SurvivalPolicy::ALL {
            let seeds = if policy.is_seeded() { 6 } else { 1 };
            for seed in 0..seeds {
                let place = format!("operation {operation}, {policy:?}, seed {seed}");
                let image = Arc::new(fs.crash_image(policy, seed));
                let mut set = recover_all(image.clone()).expect(&place);
                let found = outline(&state(&set));
                assert!(
                    found == expected[done] || found == expected[done + 1],
                    "{place}: {found}\nafter {done} steps"
                );
                let edit = flush(&set, 0, "after");
                set.log_and_apply(vec![edit]).expect(&place);
                let after = state(&set);
                let image = Arc::new(image.crash_image(SurvivalPolicy::Strict, seed));
                assert_eq!(state(&recover_all(image).expect(&place)), after, "{place}");
            }
        }
    }
    assert!(operation > 30, "{operation} operations");
}

fn file_count(set: &VersionSet) -> usize {
    let families = set.families();
    families
        .map(|family| family.current().files().count())
        .sum()
}

/// Opens a database whose MANIFEST ends about `left` bytes before the end of its first block.
fn filled_to_border(fs: Arc<MemoryFileSystem>, left: u64) -> VersionSet {
    let families = specs(&["default"]);
    let options = VersionSetOptions::default();
    let (mut set, _) = VersionSet::recover(fs, directory(), &families, options).unwrap();
    for length in [1, (32_768 - left) / 2 - 200] {
        let key = "k".repeat(usize::try_from(length).unwrap());
        let edit = flush(&set, 0, &key);
        set.log_and_apply(vec![edit]).unwrap();
    }
    assert!(set.manifest_bytes() < 32_768);
    set
}

#[test]
fn a_crash_while_edits_cross_a_block_of_the_manifest_leaves_all_of_them_or_none() {
    // The lengths of the keys of the edits that are written together.
    let groups: [&[usize]; 3] = [&[600], &[1, 1, 1], &[1, 20_000, 20_000]];
    for (left, lengths) in [20, 400, 700, 4500]
        .into_iter()
        .flat_map(|left| groups.map(|lengths| (left, lengths)))
    {
        let mut operation = 0;
        loop {
            operation += 1;
            let fs = created();
            let mut set = filled_to_border(fs.clone(), left);
            let before = file_count(&set);
            let edits: Vec<VersionEdit> = lengths
                .iter()
                .map(|length| flush(&set, 0, &"e".repeat(*length)))
                .collect();
            fs.arm_crash(fs.operation_count() + operation);
            let is_done = set.log_and_apply(edits).is_ok();
            for policy in SurvivalPolicy::ALL {
                let seeds = if policy.is_seeded() { 6 } else { 1 };
                for seed in 0..seeds {
                    let place =
                        format!("{left}, {lengths:?}, operation {operation}, {policy:?} {seed}");
                    let image = Arc::new(fs.crash_image(policy, seed));
                    let found = file_count(&recover_all(image).expect(&place));
                    assert!(
                        found == before + lengths.len() || !is_done && found == before,
                        "{place}: {found} files where it was {before}"
                    );
                }
            }
            if is_done {
                break;
            }
        }
    }
}

#[test]
fn after_a_failure_at_any_operation_the_next_edit_succeeds() {
    for action in [
        FaultAction::Fail(Failure::Device),
        FaultAction::FailAfter(Failure::Device),
        FaultAction::TornWrite(Failure::NoSpace),
    ] {
        let mut nth = 0;
        loop {
            nth += 1;
            let memory = created();
            let faulty = Arc::new(FaultFileSystem::new(memory.clone(), nth));
            let rule = FaultRule::new(action.clone()).on_mutations().nth(nth);
            faulty.add_rule(rule);
            let families = specs(&["default"]);
            let (mut set, _) =
                VersionSet::recover(faulty.clone(), directory(), &families, small()).unwrap();
            for index in 0..STEPS {
                let before = state(&set);
                let live = set.live_files();
                if step(&mut set, index) {
                    continue;
                }
                let families = |state: &str| state.lines().skip(1).collect::<Vec<_>>().join("\n");
                assert_eq!(
                    families(&state(&set)),
                    families(&before),
                    "nothing is installed"
                );
                let uncertain = set.live_files();
                assert!(uncertain.tables.is_superset(&live.tables));

                // The files of every possible crash image are still live.
                let image = Arc::new(memory.crash_image(SurvivalPolicy::Generous, 0));
                let mut found = recover_all(image).unwrap();
                assert!(uncertain.tables.is_superset(&found.live_files().tables));
                assert!(found.manifest_number() >= set.oldest_manifest());

                // A family unknown to the set may be on disk; the retry takes another id.
                assert!(
                    step(&mut set, index),
                    "{action:?} {nth}: the retry of {index}"
                );
                assert!(!set.is_uncertain());
                assert!(set.manifest_number() > 1);
            }
            let expected = state(&set);
            drop(set);
            let image = Arc::new(memory.crash_image(SurvivalPolicy::Strict, 0));
            assert_eq!(state(&recover_all(image).unwrap()), expected);
            if faulty.injection_count() == 0 {
                break;
            }
        }
        assert!(nth > 20, "{nth} operations");
    }
}

/// A MANIFEST of several records: its file system, path and bytes.
fn sample() -> (Arc<MemoryFileSystem>, PathBuf, Vec<u8>) {
    let fs = created();
    let mut set = recover(fs.clone(), &["default"]).unwrap();
    for index in 0..6 {
        assert!(step(&mut set, index));
    }
    let path = file_name::manifest(directory(), set.manifest_number());
    let bytes = fs.read_all(&path, 1 << 20, Purpose::Other).unwrap();
    (fs, path, bytes)
}

fn with_manifest(path: &Path, number: FileNumber, bytes: &[u8]) -> Arc<MemoryFileSystem> {
    let fs = MemoryFileSystem::new();
    fs.create_dir_all(directory()).unwrap();
    let mut file = fs
        .create(path, &koeldb_fs::WriteOptions::default())
        .unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
    write_current(&fs, directory(), number).unwrap();
    Arc::new(fs)
}

#[test]
fn a_cut_manifest_is_a_state_from_before_whole_groups_only() {
    let (_, path, bytes) = sample();
    let number = 3;
    let mut seen = Vec::new();
    for len in (0..=bytes.len()).rev().step_by(3) {
        let path = path.with_file_name("MANIFEST-000003");
        let Ok(set) = recover_all(with_manifest(&path, number, &bytes[..len])) else {
            continue;
        };
        let found = outline(&state(&set));
        if seen.last() != Some(&found) {
            seen.push(found);
        }
    }
    let mut expected: Vec<String> = states().iter().map(|state| outline(state)).collect();
    expected.truncate(7);
    expected.reverse();
    expected.truncate(seen.len());
    assert_eq!(seen, expected);
    assert!(seen.len() > 5);
}

/// Flips every bit of the last `count` bytes of a MANIFEST: each must be an error.
fn assert_every_flip_is_found(bytes: &[u8], count: usize, what: &str) {
    let path = file_name::manifest(directory(), 3);
    let families = stored_families(&*with_manifest(&path, 3, bytes), directory());
    let open = |bytes: &[u8]| {
        let options = VersionSetOptions::default();
        VersionSet::recover(
            with_manifest(&path, 3, bytes),
            directory(),
            &families,
            options,
        )
    };
    open(bytes).unwrap();
    let end = 8 * bytes.len();
    for bit in end.saturating_sub(8 * count)..end {
        let mut damaged = bytes.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = open(&damaged).map(|(set, _)| state(&set)).unwrap_err();
        assert!(error.is_corruption(), "{what}, bit {bit}: {error}");
        assert!(error.file().is_some(), "{what}, bit {bit}: {error}");
    }
}

#[test]
fn a_flipped_bit_is_an_error_wherever_it_is() {
    let (_, _, bytes) = sample();
    assert_every_flip_is_found(&bytes, 400, "several records");
    // The last records, an atomic group, at other positions in their sectors.
    for length in (1..512).step_by(73) {
        let fs = created();
        let mut set = recover(fs.clone(), &["default"]).unwrap();
        let alpha = set.add_family(&ColumnFamilySpec::new("alpha"), 3).unwrap();
        let first = flush(&set, 0, &"k".repeat(length));
        set.log_and_apply(vec![first]).unwrap();
        let group = vec![flush(&set, 0, "a"), flush(&set, alpha, "b")];
        set.log_and_apply(group).unwrap();
        let path = file_name::manifest(directory(), set.manifest_number());
        let bytes = fs.read_all(&path, 1 << 20, Purpose::Other).unwrap();
        assert_every_flip_is_found(&bytes, 100, &format!("a key of {length} bytes"));
    }
}

#[test]
fn a_flipped_bit_in_rocksdbs_manifests_is_an_error() {
    let golden = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden"));
    let posix = PosixFileSystem::new();
    for name in [
        "block-v6",
        "column-families",
        "deletes-ranges-single",
        "leveled-many-files",
        "universal",
        "wal-only",
        "wal-recycled",
    ] {
        let source = golden.join(name);
        let number = read_current(&posix, &source).unwrap();
        let path = file_name::manifest(&source, number);
        let bytes = posix.read_all(&path, 1 << 20, Purpose::Other).unwrap();
        assert_every_flip_is_found(&bytes, 200, name);
    }
}

#[test]
fn what_a_manifest_must_say_is_missed() {
    let manifest = |edits: &[VersionEdit]| {
        let fs = MemoryFileSystem::new();
        fs.create_dir_all(directory()).unwrap();
        let path = file_name::manifest(directory(), 3);
        let file = fs
            .create(&path, &koeldb_fs::WriteOptions::default())
            .unwrap();
        let mut records =
            RecordWriter::new(file, koeldb_log::RecordWriterOptions::default()).unwrap();
        for edit in edits {
            manifest::append(&mut records, edit, &mut Vec::new()).unwrap();
        }
        records.close().unwrap();
        write_current(&fs, directory(), 3).unwrap();
        recover_all(Arc::new(fs)).map(|set| state(&set))
    };
    let counters = VersionEdit {
        log_number: Some(2),
        next_file_number: Some(10),
        last_seqno: Some(5),
        ..VersionEdit::default()
    };
    let group = |remaining| VersionEdit {
        remaining_in_group: Some(remaining),
        ..VersionEdit::default()
    };
    let change = |id, change| VersionEdit {
        family_change: Some(change),
        ..VersionEdit::of(id)
    };
    let add = |id, name: &str| change(id, ColumnFamilyChange::Add(name.to_owned()));
    let file = FileMeta::new(
        10,
        1,
        encode(b"a", 1, ValueType::Value),
        encode(b"a", 1, ValueType::Value),
    );
    let from_the_future = VersionEdit {
        added_files: vec![(0, Arc::new(file))],
        ..VersionEdit::default()
    };
    assert!(manifest(std::slice::from_ref(&counters)).is_ok());
    for (edits, message) in [
        (
            vec![],
            "no log_file_number, next_file_number, last_sequence entry",
        ),
        (
            vec![VersionEdit {
                next_file_number: Some(10),
                ..VersionEdit::default()
            }],
            "no log_file_number, last_sequence entry in MANIFEST",
        ),
        (
            vec![group(1), VersionEdit::default()],
            "corrupted atomic group",
        ),
        (vec![group(2), group(0)], "corrupted atomic group"),
        (vec![VersionEdit::of(5)], "unknown column family 5"),
        (vec![add(1, "a"), add(1, "b")], "a second time"),
        (vec![add(1, "a"), add(2, "a")], "a second time"),
        (
            vec![change(1, ColumnFamilyChange::Drop)],
            "drops column family 1",
        ),
        (
            vec![change(0, ColumnFamilyChange::Drop)],
            "drops column family 0",
        ),
        (
            vec![counters.clone(), from_the_future],
            "next file number is 10",
        ),
        (
            vec![VersionEdit {
                next_file_number: Some(FILE_NUMBER_MAX),
                ..counters.clone()
            }],
            "at most",
        ),
    ] {
        let error = manifest(&edits).unwrap_err();
        assert!(error.is_corruption(), "{error}");
        assert!(error.message().contains(message), "{error}");
    }
    let unfinished = manifest(&[counters, group(1)]);
    assert!(
        unfinished.is_ok(),
        "a group that the end cuts off is ignored"
    );
}

/// RocksDB's `ldb`, if it is installed; with `CI=true` in the environment it must be.
fn ldb() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths)
        .map(|directory| directory.join("ldb"))
        .find(|path| path.is_file());
    if found.is_none() {
        let required = std::env::var("CI").as_deref() == Ok("true");
        assert!(!required, "ldb is not installed (Debian: rocksdb-tools)");
        eprintln!("notice: ldb is not installed; nothing is checked against RocksDB");
    }
    found
}

#[test]
fn rocksdbs_tool_reads_what_is_written() {
    let Some(ldb) = ldb() else { return };
    let name = format!("koeldb-lsm-manifest-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let fs: Arc<dyn FileSystem> = Arc::new(PosixFileSystem::new());
    fs.create_dir_all(&directory).unwrap();
    VersionSet::create(&*fs, &directory, Some("the-id")).unwrap();
    let dump = |number| {
        let path = file_name::manifest(&directory, number);
        let output = std::process::Command::new(&ldb)
            .arg("manifest_dump")
            .arg("--verbose")
            .arg(format!("--path={}", path.display()))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success() && errors.is_empty(),
            "{text}{errors}"
        );
        text
    };
    dump(1);
    let families = specs(&["default"]);
    let (mut set, _) =
        VersionSet::recover(Arc::clone(&fs), &directory, &families, small()).unwrap();
    for index in 0..STEPS {
        assert!(step(&mut set, index));
    }
    let text = dump(set.manifest_number());
    for family in set.families() {
        let name = format!("Column family \"{}\"", family.name());
        assert!(text.contains(&name), "{text}");
        for (_, file) in family.current().files() {
            assert!(
                text.contains(&format!("{}:{}[", file.number, file.bytes)),
                "{text}"
            );
        }
    }
    let counters = format!(
        "next_file_number {} last_sequence {}  prev_log_number 0 max_column_family 2 min_log_number_to_keep {}",
        set.file_numbers().peek() + 1,
        set.last_seqno(),
        set.min_log_number_to_keep()
    );
    assert!(text.contains(&counters), "{counters}\n{text}");
    std::fs::remove_dir_all(directory).unwrap();
}

/// The families of a RocksDB database, with the comparators that its MANIFEST records.
fn stored_families(fs: &dyn FileSystem, directory: &Path) -> Vec<ColumnFamilySpec> {
    let mut families = BTreeMap::from([(0, ColumnFamilySpec::new("default"))]);
    let number = read_current(fs, directory).unwrap();
    let mut reader = ManifestReader::open(fs, directory, number).unwrap();
    while let Some(edits) = reader.next_edits().unwrap() {
        for edit in edits {
            match edit.family_change {
                Some(ColumnFamilyChange::Add(name)) => {
                    families.insert(edit.family, ColumnFamilySpec::new(name));
                }
                Some(ColumnFamilyChange::Drop) => {
                    families.remove(&edit.family);
                }
                None => {}
            }
            if let Some(comparator) = edit.comparator {
                families.get_mut(&edit.family).unwrap().order =
                    KeyOrder::from_name(&comparator).unwrap();
            }
        }
    }
    families.into_values().collect()
}

#[test]
fn rocksdbs_manifests_are_read_and_written_anew_without_loss() {
    let golden = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden"));
    let posix = PosixFileSystem::new();
    let mut count = 0;
    for entry in posix.list(golden).unwrap() {
        let source = golden.join(&entry.name);
        if entry.kind != koeldb_fs::EntryKind::Directory {
            continue;
        }
        count += 1;
        let fs = MemoryFileSystem::new();
        fs.create_dir_all(directory()).unwrap();
        // One has its tables in several directories; here they lie in one.
        let mut sources = vec![source];
        while let Some(source) = sources.pop() {
            for file in posix.list(&source).unwrap() {
                let from = source.join(&file.name);
                if file.kind == koeldb_fs::EntryKind::Directory {
                    sources.push(from);
                    continue;
                }
                let bytes = posix.read_all(&from, 1 << 30, Purpose::Other).unwrap();
                let path = directory().join(&file.name);
                let mut copy = fs
                    .create(&path, &koeldb_fs::WriteOptions::default())
                    .unwrap();
                copy.append(&bytes).unwrap();
                copy.close().unwrap();
            }
        }
        let fs: Arc<dyn FileSystem> = Arc::new(fs);
        let families = stored_families(&*fs, directory());
        let open = || {
            let options = VersionSetOptions::default();
            VersionSet::recover(Arc::clone(&fs), directory(), &families, options)
                .unwrap_or_else(|error| panic!("{}: {error}", entry.name))
        };
        let (mut set, report) = open();
        assert_eq!(report.dropped_tail, None);
        for number in set.live_files().tables {
            let path = file_name::table(directory(), number);
            let bytes = fs.metadata(&path).unwrap().len;
            let all = set.families().flat_map(|family| family.current().files());
            let recorded = all.map(|(_, file)| (file.number, file.bytes));
            assert!(recorded.into_iter().any(|file| file == (number, bytes)));
        }
        let expected = state(&set);
        set.log_and_apply(vec![VersionEdit::default()]).unwrap();
        let (again, _) = open();
        assert_eq!(state(&again), expected, "{}", entry.name);
        for (family, found) in set.families().zip(again.families()) {
            let debug = |family: &ColumnFamilyVersions| format!("{:?}", family.current());
            assert_eq!(debug(found), debug(family), "{}", entry.name);
        }
    }
    assert!(count >= 25, "{count} databases");
}
