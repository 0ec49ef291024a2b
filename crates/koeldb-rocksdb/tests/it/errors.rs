//! Error texts, word for word where programs match them.

use rocksdb::{
    ColumnFamilyDescriptor, DB, Error, ErrorKind, OptimisticTransactionDB, Options, ReadOptions,
    SingleThreaded, TransactionDB, TransactionDBOptions, TransactionOptions, WriteOptions,
};

fn created() -> (tempfile::TempDir, Options) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    drop(DB::open(&options, dir.path()).unwrap());
    (dir, options)
}

fn assert_text(error: &Error, kind: ErrorKind, text: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().starts_with(text), "{error}");
}

#[test]
fn an_open_database_is_locked() {
    let (dir, options) = created();
    let _db = DB::open(&options, dir.path()).unwrap();
    let error = DB::open(&options, dir.path()).unwrap_err();
    assert_text(
        &error,
        ErrorKind::IOError,
        "IO error: lock hold by current process",
    );
    let lock = format!("{}/LOCK: No locks available", dir.path().display());
    assert!(error.to_string().ends_with(&lock), "{error}");
    let error = DB::destroy(&options, dir.path()).unwrap_err();
    assert_text(
        &error,
        ErrorKind::IOError,
        "IO error: lock hold by current process",
    );
}

#[test]
fn missing_and_existing_databases_are_named() {
    let (dir, mut options) = created();
    let path = dir.path().display();
    options.set_error_if_exists(true);
    let error = DB::open(&options, dir.path()).unwrap_err();
    let text = format!("Invalid argument: {path}: exists (error_if_exists is true)");
    assert_eq!(error.to_string(), text);
    let missing = dir.path().join("missing");
    let error = DB::open(&Options::default(), &missing).unwrap_err();
    let missing = missing.display();
    let text = format!("Invalid argument: {missing}: does not exist (create_if_missing is false)");
    assert_eq!(error.to_string(), text);
}

#[test]
fn column_families_left_out_and_unknown_are_named() {
    let (dir, mut options) = created();
    let error = DB::open_cf(&options, dir.path(), ["x"]).unwrap_err();
    let text = "Invalid argument: Column family not found: x";
    assert_eq!(error.to_string(), text);
    options.create_missing_column_families(true);
    drop(DB::open_cf(&options, dir.path(), ["a", "b"]).unwrap());
    let error = DB::open(&options, dir.path()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Invalid argument: Column families not opened: a, b"
    );
}

#[test]
fn files_that_are_missing_are_io_errors_with_the_systems_text() {
    let (dir, options) = created();
    let error = DB::list_cf(&options, dir.path().join("nowhere")).unwrap_err();
    assert_text(
        &error,
        ErrorKind::IOError,
        "IO error: No such file or directory: While ",
    );
    assert!(
        error
            .to_string()
            .ends_with("CURRENT: No such file or directory"),
        "{error}"
    );
}

#[test]
fn conflicts_and_locks_have_the_kinds_that_programs_retry() {
    let (dir, options) = created();
    let db = OptimisticTransactionDB::<SingleThreaded>::open(&options, dir.path()).unwrap();
    let transaction = db.transaction();
    transaction.get_for_update("key", true).unwrap();
    db.put("key", "other").unwrap();
    transaction.put("key", "mine").unwrap();
    assert_text(
        &transaction.commit().unwrap_err(),
        ErrorKind::Busy,
        "Resource busy: ",
    );
    drop(db);

    let locks = TransactionDBOptions::default();
    let db = TransactionDB::<SingleThreaded>::open(&options, &locks, dir.path()).unwrap();
    let holder = db.transaction();
    holder.put("key", "held").unwrap();
    let mut impatient = TransactionOptions::default();
    impatient.set_lock_timeout(1);
    let waiter = db.transaction_opt(&WriteOptions::default(), &impatient);
    let error = waiter.put("key", "waits").unwrap_err();
    assert_text(
        &error,
        ErrorKind::TimedOut,
        "Operation timed out: Timeout waiting to lock key",
    );
}

#[test]
fn refusals_name_what_they_refuse() {
    let (dir, options) = created();
    let refused = |error: Error, name: &str| {
        assert_text(&error, ErrorKind::NotSupported, "Not implemented: ");
        assert!(error.to_string().contains(name), "{error}");
    };
    let mut elsewhere = options.clone();
    let path = |name: &str| rocksdb::DBPath::new(dir.path().join(name), 0).unwrap();
    elsewhere.set_db_paths(&["1", "2", "3", "4", "5"].map(path));
    let opened = DB::open(&elsewhere, dir.path());
    refused(opened.unwrap_err(), "db_paths");
    let db = DB::open(&options, dir.path()).unwrap();
    let invalid = |error: Error| {
        assert_text(&error, ErrorKind::InvalidArgument, "Invalid argument: ");
        assert!(
            error.to_string().to_lowercase().contains("timestamp"),
            "{error}"
        );
    };
    invalid(db.put_with_ts("k", "short", "v").unwrap_err());
    invalid(db.put_with_ts("k", 1_u64.to_le_bytes(), "v").unwrap_err());
    for timestamp in [&b"short"[..], &1_u64.to_le_bytes()] {
        let mut read = ReadOptions::default();
        read.set_timestamp(timestamp);
        invalid(db.get_opt("k", &read).unwrap_err());
        let mut iterator = db.raw_iterator_opt(read);
        iterator.seek_to_first();
        assert!(!iterator.valid());
        invalid(iterator.status().unwrap_err());
    }
}

/// Setters cannot fail; the open names the option.
#[test]
fn the_first_rejected_value_fails_the_open_and_names_its_option() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_max_open_files(100);
    options.set_allow_mmap_writes(true);
    options.set_inplace_update_support(true);
    let error = DB::open(&options, dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    assert!(
        error.to_string().contains("inplace_update_support"),
        "{error}"
    );
    let mut family = Options::default();
    family.set_comparator_with_ts(
        "c",
        4,
        Box::new(<[u8]>::cmp),
        Box::new(<[u8]>::cmp),
        Box::new(|a, _, b, _| a.cmp(b)),
    );
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    let families = [ColumnFamilyDescriptor::new("cf", family)];
    let error = DB::open_cf_descriptors(&options, dir.path(), families).unwrap_err();
    assert!(
        error.to_string().contains("timestamps of 8 bytes"),
        "{error}"
    );
}
