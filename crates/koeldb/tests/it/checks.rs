//! Options that choose what is verified, and what errors and files tell about people's data.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb::fs::{FileSystem, MemoryFileSystem, Purpose, SystemClock, WriteOptions};
use koeldb::{Db, Env, ErrorKind, Options, TransactionDbOptions};

/// A database in memory.
struct Checked {
    fs: Arc<dyn FileSystem>,
    options: Options,
}

impl Checked {
    fn new() -> Self {
        let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_disable_auto_compactions(true)
            .set_env(&Env::new(Arc::clone(&fs), Arc::new(SystemClock)));
        Checked { fs, options }
    }

    fn open(&self) -> koeldb::Result<Db> {
        Db::open(&self.options, "/db")
    }

    /// Creates a database with one table for each key.
    fn create(&self, keys: &[&str]) {
        let db = self.open().unwrap();
        for key in keys {
            db.put(key, format!("value of {key}")).unwrap();
            // The tables overlap, so that a compaction reads them.
            db.put("in every table", key).unwrap();
            db.flush().unwrap();
        }
    }

    /// The tables, oldest first.
    fn tables(&self) -> Vec<PathBuf> {
        let entries = self.fs.list(Path::new("/db")).unwrap();
        let tables = entries.iter().filter(|entry| entry.name.ends_with(".sst"));
        let mut paths: Vec<PathBuf> = tables
            .map(|entry| Path::new("/db").join(&entry.name))
            .collect();
        paths.sort();
        paths
    }

    fn read(&self, path: &Path) -> Vec<u8> {
        self.fs.read_all(path, 1 << 20, Purpose::Read).unwrap()
    }

    fn replace(&self, path: &Path, bytes: &[u8]) {
        self.fs.remove_file(path).unwrap();
        let mut file = self.fs.create(path, &WriteOptions::default()).unwrap();
        file.append(bytes).unwrap();
        file.close().unwrap();
    }

    fn flip(&self, path: &Path, at: impl Fn(usize) -> usize) {
        let mut bytes = self.read(path);
        let at = at(bytes.len());
        bytes[at] ^= 1;
        self.replace(path, &bytes);
    }
}

#[test]
fn without_paranoid_checks_a_damaged_table_is_found_by_its_readers() {
    let mut checked = Checked::new();
    checked.create(&["a", "b"]);
    // A byte of the footer's magic number.
    checked.flip(&checked.tables()[0], |len| len - 1);
    assert_eq!(checked.open().unwrap_err().kind(), ErrorKind::Corruption);
    checked.options.set_paranoid_checks(false);
    let db = checked.open().unwrap();
    assert_eq!(db.get("a").unwrap_err().kind(), ErrorKind::Corruption);
    assert!(db.get("b").unwrap().is_some());
    db.put("c", "value").unwrap();
    db.flush().unwrap();
}

#[test]
fn without_paranoid_checks_damage_that_a_compaction_finds_stops_no_writes() {
    for paranoid in [true, false] {
        let mut checked = Checked::new();
        checked.create(&["a", "b"]);
        // A byte of the data block.
        checked.flip(&checked.tables()[0], |_| 3);
        checked.options.set_paranoid_checks(paranoid);
        let db = checked.open().unwrap();
        let error = db.compact_range(..).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!(db.put("c", "value").is_err(), paranoid);
        // Its inputs are still there.
        assert_eq!(checked.tables().len(), 2);
        assert!(db.get("b").unwrap().is_some());
    }
}

#[test]
fn a_table_of_another_database_is_recognized_by_its_unique_id() {
    let (mut checked, other) = (Checked::new(), Checked::new());
    checked.create(&["a"]);
    other.create(&["a"]);
    let path = &checked.tables()[0];
    let (own, foreign) = (checked.read(path), other.read(path));
    assert_eq!(own.len(), foreign.len());
    assert_ne!(own, foreign);
    checked.replace(path, &foreign);
    assert_eq!(checked.open().unwrap_err().kind(), ErrorKind::Corruption);
    checked.options.set_verify_sst_unique_id_in_manifest(false);
    assert!(checked.open().unwrap().get("a").unwrap().is_some());
}

#[test]
fn errors_show_keys_only_if_they_may() {
    for shows in [false, true] {
        let mut checked = Checked::new();
        checked.options.set_allow_data_in_errors(shows);
        let db = checked.open().unwrap();
        let mut transaction = db.transaction();
        transaction.get_for_update("secret").unwrap();
        db.put("secret", "other").unwrap();
        let conflict = transaction.commit().unwrap_err();
        assert_eq!(conflict.kind(), ErrorKind::Busy);
        assert_eq!(conflict.to_string().contains("secret"), shows, "{conflict}");
        drop(db);
        let mut locks = TransactionDbOptions::new();
        locks.set_transaction_lock_timeout(0);
        checked.options.set_transactions(&locks);
        let db = checked.open().unwrap();
        let (mut first, mut second) = (db.transaction(), db.transaction());
        first.put("secret", "1").unwrap();
        let timeout = second.put("secret", "2").unwrap_err();
        assert_eq!(timeout.kind(), ErrorKind::TimedOut);
        assert_eq!(timeout.to_string().contains("secret"), shows, "{timeout}");
    }
}

#[test]
fn tables_name_the_host_or_what_is_given_in_its_place() {
    let has = |checked: &Checked, name: &str| {
        let bytes = checked.read(&checked.tables()[0]);
        bytes
            .windows(name.len())
            .any(|window| window == name.as_bytes())
    };
    let mut checked = Checked::new();
    checked.options.set_db_host_id("a given host");
    checked.create(&["a"]);
    assert!(has(&checked, "a given host"));
    let checked = Checked::new();
    checked.create(&["a"]);
    assert!(has(&checked, &koeldb::fs::host_name()));
}
