//! Types: what generic code may assume.

use rocksdb::{
    AsColumnFamilyRef, DB, DBAccess, DBWithThreadMode, Direction, Error, IteratorMode,
    MergeOperands, MultiThreaded, Options, ReadOptions, SingleThreaded, SliceTransform, ThreadMode,
    TransactionDB, TransactionDBOptions,
};

/// Code that is generic over the kinds of databases compiles and works.
fn first_key<D: DBAccess>(raw: &mut rocksdb::DBRawIteratorWithThreadMode<'_, D>) -> Vec<u8> {
    raw.seek_to_first();
    raw.key().unwrap().to_vec()
}

fn value_through<D: DBAccess>(db: &D, cf: &impl AsColumnFamilyRef) -> Option<Vec<u8>> {
    db.get_cf_opt(cf, "key", &ReadOptions::default()).unwrap()
}

fn size_of_path<T: ThreadMode>(db: &DBWithThreadMode<T>) -> usize {
    db.path().as_os_str().len()
}

#[test]
fn generic_code_reads_every_kind_of_database() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    let db = DBWithThreadMode::<SingleThreaded>::open_cf(&options, dir.path(), ["a"]).unwrap();
    let cf = db.cf_handle("a").unwrap();
    db.put_cf(cf, "key", "value").unwrap();
    assert_eq!(value_through(&db, cf).unwrap(), b"value");
    assert_eq!(first_key(&mut db.raw_iterator_cf(cf)), b"key");
    assert!(size_of_path(&db) > 0);
    drop(db);
    let db = TransactionDB::<MultiThreaded>::open_cf(
        &options,
        &TransactionDBOptions::default(),
        dir.path(),
        ["a"],
    )
    .unwrap();
    let cf = db.cf_handle("a").unwrap();
    assert_eq!(value_through(&db, &cf).unwrap(), b"value");
    let transaction = db.transaction();
    transaction.put_cf(&cf, "key", "changed").unwrap();
    assert_eq!(value_through(&transaction, &cf).unwrap(), b"changed");
    assert_eq!(first_key(&mut transaction.raw_iterator_cf(&cf)), b"key");
    assert_eq!(value_through(&db, &cf).unwrap(), b"value");
}

#[test]
fn functions_serve_as_operators_and_extractors() {
    fn append(_: &[u8], old: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
        let mut all = old.unwrap_or_default().to_vec();
        all.extend(operands.into_iter().flatten());
        Some(all)
    }
    fn three(key: &[u8]) -> &[u8] {
        &key[..key.len().min(3)]
    }
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_merge_operator_associative("append", append);
    options.set_prefix_extractor(SliceTransform::create("three", three, None));
    let db = DB::open(&options, dir.path()).unwrap();
    for operand in ["a", "b", "c"] {
        db.merge("pre1", operand).unwrap();
    }
    db.put("prf1", "other").unwrap();
    let found: Result<Vec<_>, Error> = db.prefix_iterator("pre").collect();
    assert_eq!(found.unwrap(), [(b"pre1"[..].into(), b"abc"[..].into())]);
    let mode = IteratorMode::From(b"pr", Direction::Forward);
    assert_eq!(db.full_iterator(mode).count(), 2);
}
