//! The power is cut at every operation of an export and of an import.

use std::path::Path;

use koeldb::fs::{FileSystem, MemoryFileSystem};
use koeldb::{ExportedColumnFamily, ImportColumnFamilyOptions};

use crate::pairs::{Contents, PairImage, SOURCE, Steps, contents, fill, open, sweep};

const EXPORT: &str = "/exports/koel";
const TARGET: &str = "/target";

/// Imports the export into a fresh database, and returns the entries.
fn import_anew(
    fs: &MemoryFileSystem,
) -> koeldb::Result<std::collections::BTreeMap<Vec<u8>, Vec<u8>>> {
    let db = open(fs, "/fresh")?;
    let export = ExportedColumnFamily::read(&db, EXPORT)?;
    let options = db.default_cf().options();
    let how = ImportColumnFamilyOptions::new();
    db.create_column_family_with_import("koel", &options, &[export], &how)?;
    let mut found = contents(&db)?;
    Ok(found.remove("koel").unwrap_or_default())
}

#[test]
fn a_crash_during_an_export_or_an_import_loses_nothing() {
    for moves in [false, true] {
        let run = |fs: &MemoryFileSystem, steps: &Steps| {
            let db = open(fs, SOURCE).unwrap();
            let koel = db.create_cf("koel", &db.default_cf().options()).unwrap();
            fill(&db, 0, 30);
            db.flush().unwrap();
            fill(&db, 20, 30);
            let expected = contents(&db).unwrap();
            let export = koel.export(EXPORT).unwrap();
            steps.done();
            fill(&db, 60, 5);
            db.close().unwrap();
            let target = open(fs, TARGET).unwrap();
            fill(&target, 0, 10);
            target.flush_wal(true).unwrap();
            let before = contents(&target).unwrap();
            steps.done();
            let mut how = ImportColumnFamilyOptions::new();
            how.set_move_files(moves);
            let options = target.default_cf().options();
            let imported = target
                .create_column_family_with_import("imported", &options, &[export], &how)
                .unwrap();
            steps.done();
            imported.put("later", "value").unwrap();
            target.close().unwrap();
            (expected, before)
        };
        let check = |image: &PairImage, (expected, before): &(Contents, Contents)| {
            let exported = &expected["koel"];
            let is_exported = image.fs.exists(Path::new(EXPORT)).unwrap();
            if image.done == 0 && !is_exported {
                return Ok(());
            }
            let mut is_imported = false;
            if image.done >= 2 {
                let target = open(&image.fs, TARGET).map_err(|error| error.to_string())?;
                let mut found = contents(&target).map_err(|error| error.to_string())?;
                let mut imported = found.remove("imported").unwrap_or_default();
                imported.remove(&b"later"[..]);
                is_imported = &imported == exported;
                if !is_imported && !imported.is_empty() {
                    return Err(format!("{} imported entries", imported.len()));
                }
                if &found != before {
                    return Err("the import changed another column family".to_owned());
                }
            }
            if image.done >= 3 && !is_imported {
                return Err("the imported column family is gone".to_owned());
            }
            if is_imported && moves {
                return Ok(());
            }
            match import_anew(&image.fs) {
                Ok(found) if &found == exported => Ok(()),
                Ok(found) => Err(format!("the export has {} entries", found.len())),
                Err(error) => Err(format!("the export: {error}")),
            }
        };
        sweep(&format!("export, moved: {moves}"), run, check);
    }
}
