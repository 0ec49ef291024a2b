//! The power is cut at every operation of a database with tables in several directories.

use koeldb::fs::MemoryFileSystem;
use koeldb::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions, Db, DbPath, Options,
};

use crate::pairs::{Contents, PairImage, SOURCE, Steps, contents, fill, options, sweep};

/// Options with a directory for level 0 and one for the others.
fn with_paths(fs: &MemoryFileSystem) -> Options {
    let mut options = options(fs);
    options
        .create_missing_column_families(true)
        .set_level_zero_file_num_compaction_trigger(2)
        .set_db_paths([DbPath::new("/fast", 300 << 20), DbPath::new("/slow", 0)]);
    options
}

fn open(fs: &MemoryFileSystem) -> koeldb::Result<Db> {
    let options = with_paths(fs);
    let mut own = ColumnFamilyOptions::from(&options);
    own.set_cf_paths([DbPath::new("/own/a", 1), DbPath::new("/own/b", 0)]);
    let mut builder = Db::builder(&options);
    builder.column_family(ColumnFamilyDescriptor::new("own", own));
    builder.open(SOURCE)
}

#[test]
fn a_crash_loses_no_table_of_any_directory() {
    let run = |fs: &MemoryFileSystem, steps: &Steps| {
        let db = open(fs).unwrap();
        let mut expected: Vec<Contents> = vec![contents(&db).unwrap()];
        for round in 0..4 {
            fill(&db, round * 10, 15);
            db.flush_wal(true).unwrap();
            expected.push(contents(&db).unwrap());
            steps.done();
            for family in db.cf_handles() {
                family.flush().unwrap();
            }
            db.wait_for_compact(None).unwrap();
        }
        let mut how = CompactRangeOptions::new();
        how.set_target_path_id(1);
        for family in db.cf_handles() {
            family.compact_range_opt(.., &how).unwrap();
        }
        db.close().unwrap();
        expected
    };
    let check = |image: &PairImage, expected: &Vec<Contents>| {
        let db = open(&image.fs).map_err(|error| error.to_string())?;
        let found = contents(&db).map_err(|error| error.to_string())?;
        db.verify_checksums().map_err(|error| error.to_string())?;
        let done = usize::try_from(image.done).unwrap();
        // Of the writes after the last sync, any first part may be there.
        let is_within = found.iter().all(|(name, entries)| {
            let owed = expected[done].get(name);
            let last = expected.last().and_then(|last| last.get(name));
            let is_known = entries
                .iter()
                .all(|(key, value)| last.is_some_and(|last| last.get(key) == Some(value)));
            is_known && owed.is_none_or(|owed| owed.keys().all(|key| entries.contains_key(key)))
        });
        match is_within {
            true => Ok(()),
            false => Err(format!("after {done} steps there is {found:?}")),
        }
    };
    sweep("paths", run, check);
}
