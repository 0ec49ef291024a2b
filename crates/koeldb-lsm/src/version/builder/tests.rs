use koeldb_base::ValueType;
use koeldb_base::key::{MAX_SEQNO, encode};

use super::*;
use crate::version::edit::VersionEdit;

/// A file with the user keys `from` to `to`, sequence numbers around `seqno`, and an epoch.
fn file(number: FileNumber, from: &str, to: &str, seqno: u64, epoch: u64) -> Arc<FileMeta> {
    let mut file = FileMeta::new(
        number,
        100,
        encode(from.as_bytes(), seqno, ValueType::Value),
        encode(to.as_bytes(), seqno, ValueType::Value),
    );
    file.smallest_seqno = seqno;
    file.largest_seqno = seqno;
    file.epoch = epoch;
    Arc::new(file)
}

fn adding(files: &[(usize, Arc<FileMeta>)]) -> VersionEdit {
    VersionEdit {
        added_files: files.to_vec(),
        ..VersionEdit::default()
    }
}

fn deleting(files: &[(usize, FileNumber)]) -> VersionEdit {
    VersionEdit {
        deleted_files: files.to_vec(),
        ..VersionEdit::default()
    }
}

fn apply(base: &Arc<Version>, edits: &[VersionEdit]) -> Result<Arc<Version>> {
    let mut builder = VersionBuilder::new(Arc::clone(base));
    for edit in edits {
        builder.apply(edit)?;
    }
    builder.finish(MissingEpochs::Assign).map(Arc::new)
}

fn empty() -> Arc<Version> {
    Arc::new(Version::empty(KeyOrder::Bytewise, 4))
}

/// The numbers of the files of each level.
fn shape(version: &Version) -> Vec<Vec<FileNumber>> {
    let numbers = |level: &Level| level.files.iter().map(|file| file.number).collect();
    version.levels.iter().map(numbers).collect()
}

fn error(base: &Arc<Version>, edits: &[VersionEdit]) -> String {
    apply(base, edits).unwrap_err().to_string()
}

#[test]
fn files_find_their_order_and_their_level() {
    let version = apply(
        &empty(),
        &[
            adding(&[
                (0, file(1, "a", "z", 10, 1)),
                (0, file(2, "a", "z", 30, 3)),
                (0, file(3, "a", "z", 20, 2)),
                (1, file(4, "m", "p", 5, 1)),
                (1, file(5, "a", "c", 5, 1)),
            ]),
            adding(&[(1, file(6, "d", "l", 5, 1))]),
        ],
    )
    .unwrap();
    assert_eq!(
        shape(&version),
        [vec![2, 3, 1], vec![5, 6, 4], vec![], vec![]]
    );

    let moved = apply(
        &version,
        &[VersionEdit {
            deleted_files: vec![(0, 1), (1, 4)],
            added_files: vec![(2, file(4, "m", "p", 5, 1)), (1, file(7, "q", "r", 5, 1))],
            ..VersionEdit::default()
        }],
    )
    .unwrap();
    assert_eq!(shape(&moved), [vec![2, 3], vec![5, 6, 7], vec![4], vec![]]);
    assert!(Arc::ptr_eq(
        &version.levels[0].files[0],
        &moved.levels[0].files[0]
    ));
    assert_eq!(
        shape(&version),
        [vec![2, 3, 1], vec![5, 6, 4], vec![], vec![]]
    );
}

#[test]
fn a_file_may_leave_and_return_while_edits_are_collected() {
    let base = apply(&empty(), &[adding(&[(1, file(1, "a", "b", 5, 1))])]).unwrap();
    let marked = file(1, "a", "b", 5, 7);
    let version = apply(
        &base,
        &[
            deleting(&[(1, 1)]),
            adding(&[(2, file(1, "a", "b", 5, 1))]),
            deleting(&[(2, 1)]),
            adding(&[(1, Arc::clone(&marked))]),
            adding(&[(3, file(2, "a", "b", 5, 1))]),
            deleting(&[(3, 2)]),
            adding(&[(3, file(2, "a", "b", 5, 1))]),
        ],
    )
    .unwrap();
    assert_eq!(shape(&version), [vec![], vec![1], vec![], vec![2]]);
    assert!(Arc::ptr_eq(&version.levels[1].files[0], &marked));
}

#[test]
fn edits_that_contradict_the_tree_are_refused() {
    let base = apply(&empty(), &[adding(&[(1, file(7, "a", "c", 5, 1))])]).unwrap();
    for (edit, message) in [
        (
            deleting(&[(1, 8)]),
            "Cannot delete table file #8 from level 1",
        ),
        (deleting(&[(2, 7)]), "it is on 1"),
        (deleting(&[(1, 7), (1, 7)]), "Cannot delete table file #7"),
        (
            adding(&[(2, file(7, "a", "c", 5, 1))]),
            "Cannot add table file #7 to level 2",
        ),
        (adding(&[(1, file(8, "z", "a", 5, 1))]), "#8 has bounds"),
        (adding(&[(1, file(8, "c", "d", 5, 1))]), "#7 and #8"),
        (adding(&[(1, file(8, "b", "b", 5, 1))]), "#7 and #8"),
    ] {
        let error = error(&base, &[edit]);
        assert!(error.contains(message), "{error}");
        assert!(error.starts_with("Corruption"), "{error}");
    }
    let deep = adding(&[(4, file(8, "x", "y", 5, 1))]);
    let error = error(&base, std::slice::from_ref(&deep));
    assert!(
        error.starts_with("Invalid argument: table file #8 is on level 4"),
        "{error}"
    );
    assert!(apply(&base, &[deep, deleting(&[(4, 8)])]).is_ok());
}

#[test]
fn neighbours_may_share_a_user_key_in_the_right_order() {
    let mut left = FileMeta::new(
        1,
        100,
        encode(b"a", 9, ValueType::Value),
        encode(b"m", 8, ValueType::Value),
    );
    left.epoch = 1;
    let right = file(2, "m", "z", 7, 1);
    let edit = adding(&[(1, Arc::new(left.with_epoch(1))), (1, Arc::clone(&right))]);
    assert!(apply(&empty(), &[edit]).is_ok());

    left.largest = encode(b"m", 7, ValueType::Value);
    let edit = adding(&[(1, Arc::new(left.with_epoch(1))), (1, Arc::clone(&right))]);
    assert!(error(&empty(), &[edit]).contains("overlapping"));

    left.largest = encode(b"m", MAX_SEQNO, ValueType::RangeDeletion);
    let edit = adding(&[(1, Arc::new(left.with_epoch(1))), (1, right)]);
    assert!(apply(&empty(), &[edit]).is_ok());
}

#[test]
fn level_0_files_of_one_epoch_must_not_overlap() {
    let apart = adding(&[(0, file(1, "a", "c", 5, 4)), (0, file(2, "d", "f", 6, 4))]);
    assert!(apply(&empty(), &[apart]).is_ok());
    let overlapping = adding(&[(0, file(1, "a", "d", 5, 4)), (0, file(2, "d", "f", 6, 4))]);
    let error = error(&empty(), &[overlapping]);
    assert!(error.contains("same epoch number"), "{error}");
}

#[test]
fn missing_epochs_are_assigned_to_the_whole_tree() {
    let edit = adding(&[
        (0, file(1, "a", "z", 50, 9)),
        (0, file(2, "a", "z", 60, 0)),
        (1, file(3, "a", "z", 40, 8)),
        (3, file(4, "a", "c", 10, 7)),
        (3, file(5, "d", "f", 10, 6)),
    ]);
    let version = apply(&empty(), std::slice::from_ref(&edit)).unwrap();
    let epochs: Vec<(FileNumber, u64)> = version
        .files()
        .map(|(_, file)| (file.number, file.epoch))
        .collect();
    assert_eq!(epochs, [(2, 4), (1, 3), (3, 2), (4, 1), (5, 1)]);

    let mut builder = VersionBuilder::new(empty());
    builder.apply(&edit).unwrap();
    assert!(builder.finish(MissingEpochs::Refuse).is_err());
}

#[test]
fn blob_files_live_as_long_as_tables_may_refer_to_them() {
    let blob_file = |number| BlobFileMeta {
        number,
        count: 10,
        bytes: 1000,
        checksum_name: Vec::new(),
        checksum: Vec::new(),
        garbage_count: 0,
        garbage_bytes: 0,
        reader: Default::default(),
    };
    let garbage = |number, count, bytes| VersionEdit {
        blob_garbage: vec![BlobGarbage {
            number,
            count,
            bytes,
        }],
        ..VersionEdit::default()
    };
    let referring = |number, from: &str, blob| {
        let mut meta = file(number, from, from, 5, 1).with_epoch(1);
        meta.oldest_blob_file = blob;
        (1, Arc::new(meta))
    };
    let base = apply(
        &empty(),
        &[VersionEdit {
            added_blob_files: vec![blob_file(10), blob_file(11), blob_file(12)],
            added_files: vec![referring(1, "a", 10), referring(2, "b", 12)],
            ..VersionEdit::default()
        }],
    )
    .unwrap();
    let kept = |version: &Version| version.blob_files.keys().copied().collect::<Vec<_>>();
    assert_eq!(kept(&base), [10, 11, 12]);
    let version = apply(&base, &[garbage(11, 4, 100), garbage(11, 6, 900)]).unwrap();
    assert_eq!(kept(&version), [10, 12], "all garbage");
    let version = apply(&base, &[deleting(&[(1, 1)])]).unwrap();
    assert_eq!(kept(&version), [12], "no table is so old");
    let version = apply(&base, &[deleting(&[(1, 1), (1, 2)])]).unwrap();
    assert_eq!(kept(&version), []);

    assert!(error(&base, &[garbage(11, 11, 0)]).contains("more garbage"));
    assert!(error(&base, &[garbage(13, 1, 1)]).contains("does not exist"));
    assert!(error(&base, &[garbage(10, 10, 1000)]).contains("entirely of garbage"));
    let dangling = adding(&[referring(3, "c", 20)]);
    assert!(error(&base, &[dangling]).contains("refers to blob file #20"));
}
