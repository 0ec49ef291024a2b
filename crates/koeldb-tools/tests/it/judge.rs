//! The output of `ldb` beside that of RocksDB's, if that is installed (Debian: `rocksdb-tools`).

use std::path::{Path, PathBuf};
use std::process::Command;

use koeldb_base::codec::Compression;

use super::{Scratch, succeed};

/// The path of RocksDB's `ldb`; with `CI=true` in the environment a missing program is a failure.
fn rocksdb_ldb() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&paths)
        .map(|directory| directory.join("ldb"))
        .find(|path| path.is_file());
    if program.is_none() {
        let is_required = std::env::var("CI").as_deref() == Ok("true");
        assert!(!is_required, "ldb is not installed (Debian: rocksdb-tools)");
        eprintln!("notice: ldb is not installed; nothing is checked against RocksDB");
    }
    program
}

/// Runs RocksDB's `ldb`, which must succeed, and returns its standard output.
fn theirs(program: &Path, words: &[&str]) -> String {
    let output = Command::new(program)
        .args(words)
        .output()
        .expect("ldb starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// Fills a database with values in tables and in blob files, and with range deletions.
fn fill(directory: &Path, codec: Compression) -> koeldb::Result<()> {
    let mut options = koeldb::Options::new();
    let mut tables = koeldb::BlockBasedOptions::default();
    // RocksDB 7 reads no later version.
    tables.set_format_version(5);
    options
        .set_block_based_table_factory(&tables)
        .create_if_missing(true)
        .set_disable_auto_compactions(true)
        .set_enable_blob_files(true)
        .set_min_blob_size(20)
        .set_blob_compression_type(codec);
    let db = koeldb::Db::open(&options, directory)?;
    for round in 0..3 {
        db.put("big", format!("value {round} ").repeat(10))?;
        db.put(format!("big {round}"), "value ".repeat(10))?;
        db.put(format!("small {round}"), "value")?;
        db.delete_range(format!("t{round}"), "u")?;
        db.flush()?;
    }
    db.close()?;
    // Another release may not know all of the options.
    for entry in std::fs::read_dir(directory).expect("the database") {
        let path = entry.expect("an entry").path();
        if path.to_string_lossy().contains("OPTIONS-") {
            std::fs::remove_file(path).expect("a file of the database");
        }
    }
    Ok(())
}

/// The lines of a text, sorted.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn contents_of_files_are_printed_as_by_rocksdb() {
    let Some(program) = rocksdb_ldb() else {
        return;
    };
    let scratch = Scratch::new();
    let mut compared = 0;
    for codec in [Compression::None, Compression::Zstd] {
        let directory = scratch.0.join(codec.name());
        fill(&directory, codec).unwrap();
        let db = format!("--db={}", directory.display());
        for words in [
            &["idump", "--hex"][..],
            &["idump", "--hex", "--decode_blob_index"],
            &["idump", "--decode_blob_index", "--count_only"],
            &["list_file_range_deletes"],
            &["list_file_range_deletes", "--max_keys=1"],
        ] {
            let words = [&[db.as_str()][..], words].concat();
            assert_eq!(
                succeed("ldb", &words),
                theirs(&program, &words),
                "{words:?}"
            );
        }
        for hex in [&["--hex"][..], &[]] {
            let words = [&[db.as_str(), "file_checksum_dump"][..], hex].concat();
            let (ours, expected) = (succeed("ldb", &words), theirs(&program, &words));
            assert_eq!(sorted(&ours), sorted(&expected), "{words:?}");
        }
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            let file = format!("--path={}", path.display());
            let words = ["dump", &*file, "--hex", "--decode_blob_index"];
            let blobs = ["dump", &*file, "--hex", "--dump_uncompressed_blobs"];
            match extension {
                Some("sst") => {
                    // Releases differ in their properties.
                    let entries = |text: String| {
                        let (entries, _) = text.split_once("\nTable Properties:\n").unwrap();
                        entries.to_owned()
                    };
                    let expected = entries(theirs(&program, &words));
                    assert_eq!(entries(succeed("ldb", &words)), expected);
                }
                Some("blob") => {
                    assert_eq!(succeed("ldb", &words), theirs(&program, &words));
                    // RocksDB prints an empty value if there is nothing to uncompress.
                    if codec != Compression::None {
                        assert_eq!(succeed("ldb", &blobs), theirs(&program, &blobs));
                    }
                }
                _ => continue,
            }
            compared += 1;
        }
    }
    assert!(compared > 5, "{compared}");
}
