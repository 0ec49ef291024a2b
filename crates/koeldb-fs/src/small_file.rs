//! Atomic replacement of small files, durable creation of directories, and removal of trees.

use std::path::{Path, PathBuf};

use koeldb_base::coding::to_usize;
use koeldb_base::{Error, Result};

use crate::file::{EntryKind, FileSystem, OpenOptions, Purpose, WriteOptions};

/// Replaces the file `target` atomically: after a crash it is the old or the new file, complete.
///
/// A `temporary` left by an earlier crash is removed first; both must be in one file system. When
/// this returns, the new file is durable under its name (rule O15 of `docs/reliability.md`).
///
/// # Errors
/// If the system fails. Which of the two files `target` is then stays unknown until the directory
/// is synced.
pub fn write_atomically(
    fs: &dyn FileSystem,
    temporary: &Path,
    target: &Path,
    bytes: &[u8],
    purpose: Purpose,
) -> Result<()> {
    remove_if_exists(fs, temporary)?;
    let written =
        write_new(fs, temporary, bytes, purpose).and_then(|()| fs.rename(temporary, target));
    if let Err(error) = written {
        // Frees the name for the next attempt; if this fails, that attempt will report why.
        let _ = fs.remove_file(temporary);
        return Err(error);
    }
    fs.sync_dir(parent(target))
}

/// Creates a directory and its missing parents, each durable in its own parent.
///
/// This is rule O16 of `docs/reliability.md`. An existing directory is left as it is.
///
/// # Errors
/// If something else has the name, or the system fails.
pub fn create_dir_durably(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    let mut missing = Vec::new();
    let mut at = Some(path);
    while let Some(directory) = at.filter(|directory| !directory.as_os_str().is_empty()) {
        if fs.exists(directory)? {
            break;
        }
        missing.push(directory);
        at = directory.parent();
    }
    fs.create_dir_all(path)?;
    let synced = missing
        .iter()
        .rev()
        .try_for_each(|directory| fs.sync_dir(parent(directory)));
    if synced.is_err() {
        // The next attempt must not find them and take them for durable.
        for directory in missing {
            let _ = fs.remove_dir(directory);
        }
    }
    synced
}

/// Removes a directory and its contents, if it exists.
///
/// The removal is not durable: after a crash any part of the directory may be left.
///
/// # Errors
/// If the system fails.
pub fn remove_dir_all(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    let entries = match fs.list(path) {
        Err(error) if error.is_path_not_found() => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = path.join(&entry.name);
        match entry.kind {
            EntryKind::Directory => remove_dir_all(fs, &path)?,
            EntryKind::File | EntryKind::Other => fs.remove_file(&path)?,
        }
    }
    fs.remove_dir(path)
}

/// Chooses a path in `directory` for a link to `file`; returns whether that link exists already.
///
/// It is the file's own name, with a count appended if the name belongs to another file.
///
/// # Errors
/// If `file` has no name or does not exist, or the system fails.
pub fn second_name(fs: &dyn FileSystem, file: &Path, directory: &Path) -> Result<(PathBuf, bool)> {
    let Some(name) = file.file_name() else {
        return Err(Error::invalid_argument("a file without name").in_file(file, None, "link"));
    };
    let identity = fs.metadata(file)?.identity;
    let mut target = directory.join(name);
    let mut count = 0_u32;
    loop {
        match fs.metadata(&target) {
            Err(error) if error.is_path_not_found() => return Ok((target, false)),
            Err(error) => return Err(error),
            Ok(existing) if existing.identity == identity => return Ok((target, true)),
            Ok(_) => {}
        }
        count += 1;
        let mut counted = name.to_owned();
        counted.push(format!(".{count}"));
        target = directory.join(counted);
    }
}

/// Copies a file to a new name and syncs its bytes, but not the directory of the name.
///
/// # Errors
/// If the system fails; a part of the copy may then exist.
pub fn copy(fs: &dyn FileSystem, from: &Path, to: &Path, purpose: Purpose) -> Result<()> {
    let options = OpenOptions {
        purpose,
        ..OpenOptions::default()
    };
    let source = fs.open(from, &options)?;
    let mut target = fs.create(to, &WriteOptions::new(purpose))?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < source.len() {
        let part = to_usize((source.len() - at).min(1 << 20));
        source.read_exact_at(at, &mut buffer[..part])?;
        target.append(&buffer[..part])?;
        at += part as u64;
    }
    target.sync_all()?;
    target.close()
}

/// Returns the directory of a path's last component; the current directory for a bare name.
#[must_use]
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Removes a file; a missing one is no error.
fn remove_if_exists(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    match fs.remove_file(path) {
        Err(error) if error.is_path_not_found() => Ok(()),
        result => result,
    }
}

/// Creates a file with the given content, and syncs it.
fn write_new(fs: &dyn FileSystem, path: &Path, bytes: &[u8], purpose: Purpose) -> Result<()> {
    let mut file = fs.create(path, &WriteOptions::new(purpose))?;
    file.append(bytes)?;
    file.sync_all()?;
    file.close()
}
