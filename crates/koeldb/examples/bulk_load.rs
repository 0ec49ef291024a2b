//! A bulk load from sorted files and from unsorted input: tables are written outside of the database,
//! by several threads if need be, and become part of it in one step.
//!
//! `cargo run --example bulk_load`

use koeldb::{Db, IngestExternalFileOptions, Options, Result, SstFileSorter, SstFileWriter};

fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("koeldb-bulk-load-{}", std::process::id()));
    let mut options = Options::new();
    options.create_if_missing(true);
    let db = Db::open(&options, directory.join("db"))?;

    // Keys ascend within a file, and the files do not overlap: all go to the last level.
    let mut files = Vec::new();
    for part in 0..4 {
        let path = directory.join(format!("part{part}.sst"));
        let mut writer = SstFileWriter::create(&db.default_cf().options(), &path)?;
        for number in part * 25_000..(part + 1) * 25_000 {
            writer.put(format!("{number:08}"), "loaded")?;
        }
        files.push(writer.finish()?.path);
    }

    // The originals are linked into the database and removed afterwards.
    let mut how = IngestExternalFileOptions::new();
    how.set_move_files(true)
        .set_fail_if_not_bottommost_level(true);
    db.default_cf().ingest_external_file_opt(&files, &how)?;

    // Entries in any order are sorted first, in bounded memory.
    let mut sorter = SstFileSorter::create(&db.default_cf().options(), directory.join("sorted"))?;
    for number in (100_000..120_000).rev() {
        sorter.put(format!("{number:08}"), "sorted")?;
    }
    let sorted: Vec<_> = sorter.finish()?.into_iter().map(|file| file.path).collect();
    db.default_cf().ingest_external_file_opt(&sorted, &how)?;

    println!(
        "{} entries in {} tables",
        db.range(..).count(),
        db.live_files().len()
    );
    assert_eq!(db.get("00099999")?.as_deref(), Some(&b"loaded"[..]));
    assert_eq!(db.get("00110000")?.as_deref(), Some(&b"sorted"[..]));
    drop(db);
    remove(&directory);
    Ok(())
}

fn remove(directory: &std::path::Path) {
    let _ = std::fs::remove_dir_all(directory);
}
