//! Untrusted directories: opened read-only, with limits, validated, and unchanged.
//!
//! `golden` opens directories written by RocksDB in this way; `koeldb-damage` has tables with valid
//! checksums and keys out of order.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use koeldb::fs::{FileSystem, MemoryFileSystem, Purpose, SystemClock, WriteOptions};
use koeldb::{ConfigOptions, Db, Env, ErrorKind, Options};
use koeldb_log::{RecordWriter, RecordWriterOptions};
use koeldb_lsm::version::VersionEdit;
use koeldb_lsm::version::edit::ColumnFamilyChange;

use crate::scratch::ScratchDir;

fn creating() -> Options {
    let mut options = Options::new();
    options.create_if_missing(true);
    options
}

/// A database with a table and something in its log.
fn written(dir: &Path) {
    let db = Db::open(&creating(), dir).unwrap();
    db.put("a", "in a table").unwrap();
    db.flush().unwrap();
    db.put("b", "in the log").unwrap();
    // Without a regular close, which would empty the log.
    db.flush_wal(true).unwrap();
    std::mem::forget(db);
}

#[test]
fn it_is_read_only_unless_asked() {
    let dir = ScratchDir::new();
    written(dir.path());
    let copy = ScratchDir::copy_of(dir.path());
    let options = Options::new();
    let db = Db::builder(&options).untrusted().open(copy.path()).unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"in a table"[..]));
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"in the log"[..]));
    let refused = db.put("c", "c").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported, "{refused}");
    drop(db);
    let mut builder = Db::builder(&options);
    let db = builder.untrusted().writable().open(copy.path()).unwrap();
    db.put("c", "c").unwrap();
    db.flush().unwrap();
    assert_eq!(db.range(..).count(), 3);
    db.close().unwrap();
}

#[test]
fn a_link_out_of_the_directory_is_refused() {
    let dir = ScratchDir::new();
    written(dir.path());
    let copy = ScratchDir::copy_of(dir.path());
    let table = copy.only("sst");
    std::fs::remove_file(&table).unwrap();
    symlink(dir.only("sst"), &table).unwrap();
    let options = Options::new();
    let opened = Db::builder(&options).read_only().open(copy.path());
    assert!(opened.is_ok(), "one's own links may be followed");
    let refused = Db::builder(&options).untrusted().open(copy.path());
    let error = refused.map(|_| ()).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

/// Many column families take linear time, and more than the limit are rejected.
#[test]
fn families_are_bounded_and_read_in_linear_time() {
    let fs = MemoryFileSystem::new();
    let mut options = creating();
    options.set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
    drop(Db::open(&options, "/db").unwrap());
    let manifest = |number: u64| format!("/db/MANIFEST-{number:06}");
    let path = (1..100)
        .map(manifest)
        .rfind(|path| fs.exists(Path::new(path)).unwrap())
        .unwrap();
    let edits = {
        let directory = Path::new("/db");
        let number = path.rsplit('-').next().unwrap().parse().unwrap();
        let mut reader =
            koeldb_lsm::manifest::ManifestReader::open(&fs, directory, number).unwrap();
        let mut edits = Vec::new();
        while let Some(more) = reader.next_edits().unwrap() {
            edits.extend(more);
        }
        edits
    };
    fs.remove_file(Path::new(&path)).unwrap();
    let file = fs
        .create(Path::new(&path), &WriteOptions::new(Purpose::Manifest))
        .unwrap();
    let mut writer = RecordWriter::new(file, RecordWriterOptions::default()).unwrap();
    let mut record = |edit: &VersionEdit| {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        writer.add_record(&bytes).unwrap();
    };
    for edit in &edits {
        record(edit);
    }
    for id in 1..=1_u32 << 16 {
        let mut edit = VersionEdit::of(id);
        edit.family_change = Some(ColumnFamilyChange::Add(format!("family {id}")));
        record(&edit);
    }
    writer.sync().unwrap();
    assert_eq!(Db::list_cf(&options, "/db").unwrap().len(), (1 << 16) + 1);
    let trusted = Db::builder(&options).read_only().open("/db");
    assert!(trusted.is_ok());
    let refused = Db::builder(&options).untrusted().open("/db");
    let error = refused.map(|_| ()).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(error.to_string().contains("column families"), "{error}");
}

#[test]
fn an_options_file_is_bounded() {
    let dir = ScratchDir::new();
    written(dir.path());
    let path = dir.all("OPTIONS").pop().unwrap();
    let mut text = std::fs::read_to_string(&path).unwrap();
    while text.len() <= 4 << 20 {
        text.push_str("# nothing but a comment, again and again and again\n");
    }
    std::fs::write(&path, text).unwrap();
    let mut how = ConfigOptions::new();
    assert!(Options::load_file(&path, &how).is_ok());
    how.set_untrusted(true);
    let error = Options::load_file(&path, &how).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("bytes"), "{error}");
}
