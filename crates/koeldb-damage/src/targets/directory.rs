//! Database directories: opened, read, verified, written to, repaired.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb::{CompactRangeOptions, Db, Env, IteratorMode, Options};
use koeldb_fs::{FileSystem, MemoryFileSystem, SystemClock};

use super::{Target, join, judge, parts};
use crate::bytes_file::put_file;
use crate::seeds;

/// The parts alternate between a file name and the file's content.
pub(super) const DIRECTORY: Target = Target {
    name: "directory",
    run: directory_run,
    seeds: || {
        let wanted = |name: &str| !name.starts_with("OPTIONS");
        let mut seeds: Vec<(PathBuf, Vec<Vec<u8>>)> = Vec::new();
        for (path, bytes) in seeds::golden_files(64 << 10, wanted) {
            let folder = path.parent().map(Path::to_owned).unwrap_or_default();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if seeds.last().is_none_or(|(last, _)| *last != folder) {
                seeds.push((folder, Vec::new()));
            }
            if let Some((_, parts)) = seeds.last_mut() {
                parts.extend([name.as_bytes().to_vec(), bytes]);
            }
        }
        seeds.into_iter().map(|(_, parts)| join(parts)).collect()
    },
};

/// Returns the options for opening directories with damaged or hostile files.
#[must_use]
pub fn options(fs: &MemoryFileSystem) -> Options {
    let mut options = Options::default();
    options.set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
    options.set_merge_operator(koeldb::StringAppend::default());
    options.set_disable_auto_compactions(true);
    options
}

/// Scans a database in both directions, reads keys, verifies checksums, and judges the errors.
pub fn use_up(db: &Db) {
    for (index, entry) in db.iterator(IteratorMode::Start).enumerate() {
        match entry {
            Ok((key, _)) if index % 16 == 0 => {
                if let Err(error) = db.get(&key) {
                    judge(&error);
                }
            }
            Ok(_) => {}
            Err(error) => {
                judge(&error);
                break;
            }
        }
    }
    for entry in db.iterator(IteratorMode::End).take(50) {
        if let Err(error) = entry {
            judge(&error);
            break;
        }
    }
    if let Err(error) = db.verify_checksums() {
        judge(&error);
    }
}

/// The mode in which a directory is opened.
#[derive(Clone, Copy, PartialEq)]
enum Access {
    Untrusted,
    ReadOnly,
    Writable,
}

/// Runs the fuzz target `directory`: opens, reads, writes and repairs a directory of given files.
fn directory_run(data: &[u8]) {
    let fs = MemoryFileSystem::new();
    let directory = Path::new("/db");
    fs.create_dir_all(directory).expect("a directory in memory");
    for pair in parts(data).chunks_exact(2).take(64) {
        let [name, content] = pair else { continue };
        let Ok(name) = str::from_utf8(name) else {
            continue;
        };
        let plain = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
        if plain && name.bytes().any(|byte| byte != b'.') {
            put_file(&fs, &directory.join(name), content).expect("a file in memory is written");
        }
    }
    let names = match Db::list_cf(&options(&fs), directory) {
        Ok(names) => names,
        Err(error) => {
            judge(&error);
            vec!["default".to_owned()]
        }
    };
    for access in [Access::Untrusted, Access::ReadOnly, Access::Writable] {
        let options = options(&fs);
        let mut builder = Db::builder(&options);
        for name in names.iter().filter(|name| *name != "default").take(20) {
            builder.column_family(name.as_str());
        }
        match access {
            Access::Untrusted => builder.untrusted(),
            Access::ReadOnly => builder.read_only(),
            Access::Writable => &mut builder,
        };
        match builder.open(directory) {
            Ok(db) => {
                use_up(&db);
                if access == Access::Writable {
                    let written = db.put("key", "value").and_then(|()| db.flush());
                    if let Err(error) = written {
                        judge(&error);
                    }
                    if let Err(error) = db.compact_all(&CompactRangeOptions::new()) {
                        judge(&error);
                    }
                }
                if let Err(error) = db.close() {
                    judge(&error);
                }
            }
            Err(error) => judge(&error),
        }
    }
    if let Err(error) = Db::repair(&options(&fs), directory) {
        judge(&error);
    }
}
