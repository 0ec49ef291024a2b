//! Scenarios of RocksDB's suites of transactions, told anew: `docs/transaction-scenarios.md` lists
//! them by their names there.

mod iteration;
mod locking;
mod snapshots;
mod two_phase;
mod writes;

use std::path::{Path, PathBuf};

use koeldb::{
    Db, Env, ErrorDetail, ErrorKind, LockMode, Options, Result, StringAppend, Transaction,
    TransactionDbOptions, TransactionOptions, WriteOptions,
};

use crate::prelude::in_memory;

fn options(is_pessimistic: bool) -> Options {
    let mut options = in_memory();
    options.set_merge_operator(StringAppend::default());
    if is_pessimistic {
        // No write and no transaction waits for a lock, unless a test asks for it.
        let mut locks = TransactionDbOptions::new();
        locks
            .set_transaction_lock_timeout(0)
            .set_default_lock_timeout(0);
        options.set_transactions(&locks);
    }
    options
}

fn open(is_pessimistic: bool) -> Db {
    Db::open(&options(is_pessimistic), "/scenarios").unwrap()
}

fn begin(db: &Db, has_snapshot: bool) -> Transaction {
    let mut options = TransactionOptions::new();
    options.set_snapshot(has_snapshot);
    db.transaction_opt(&WriteOptions::new(), &options).unwrap()
}

/// The value of a key, as a text.
fn value(db: &Db, key: &str) -> Option<String> {
    text(db.get(key).unwrap().as_deref())
}

fn text(value: Option<&[u8]>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// The value that a transaction reads.
fn seen(transaction: &Transaction, key: &str) -> Option<String> {
    text(transaction.get(key).unwrap().as_deref())
}

fn is_busy<T: std::fmt::Debug>(done: Result<T>) -> bool {
    matches!(done, Err(error) if error.detail() == Some(ErrorDetail::WriteConflict))
}

/// Whether another transaction could not write the key now.
fn is_locked(db: &Db, key: &str) -> bool {
    match begin(db, false).put(key, "probe") {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.detail(), Some(ErrorDetail::LockTimeout), "{error}");
            true
        }
    }
}

/// The keys among `keys` that are locked.
fn locked(db: &Db, keys: &str) -> String {
    let keys = keys.chars().map(String::from);
    keys.filter(|key| is_locked(db, key)).collect()
}

fn lock(transaction: &mut Transaction, key: &str, mode: LockMode) -> Result<()> {
    let family = transaction.db().default_cf().clone();
    transaction.lock(&family, key, mode)
}

fn undo(transaction: &mut Transaction, keys: &str) {
    let family = transaction.db().default_cf().clone();
    for key in keys.chars() {
        transaction.undo_get_for_update(&family, key.to_string());
    }
}

fn kind<T: std::fmt::Debug>(done: Result<T>) -> ErrorKind {
    done.unwrap_err().kind()
}

/// The Rust files below a directory.
fn sources(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => sources(&path, found),
            Some(extension) if extension == "rs" => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn the_page_of_scenarios_names_tests_that_exist() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(here.join("../../docs/transaction-scenarios.md")).unwrap();
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        sources(&here.join(folder), &mut files);
    }
    let texts: Vec<String> = files
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let named = page.split('`').skip(1).step_by(2);
    let names: Vec<&str> = named
        .filter_map(|name| name.rsplit_once("::"))
        .map(|(_, name)| name)
        .collect();
    for name in &names {
        let function = format!("fn {name}(");
        // The others are names of the library.
        let is_test = name.len() > 20;
        assert!(
            !is_test || texts.iter().any(|text| text.contains(&function)),
            "{name}"
        );
    }
    assert!(names.len() > 50, "{}", names.len());
}
