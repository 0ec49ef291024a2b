//! The write-ahead log: its updates and its files.

#![expect(unsafe_code, reason = "an object that another one has")]

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;

use koeldb::{Db, Error, ErrorKind, LogFile, TailOptions, UpdateBatch, UpdateIterator, WriteBatch};

use crate::boundary::Failure;
use crate::data::call_options::LogReadOptions;
use crate::handle::{self, Handle};

/// An iterator over the batches of the log (`rocksdb_wal_iterator_t`).
///
/// A failure ends it.
pub(crate) struct Updates {
    inner: UpdateIterator,
    current: Option<UpdateBatch>,
    failure: Option<Error>,
}

/// Returns the batches from a sequence number on; the iterator is at the first.
///
/// COMPAT: it begins with the oldest log that is left if that of the number was removed.
pub(crate) fn updates_since(
    db: &Db,
    sequence_number: u64,
    _: Option<&LogReadOptions>,
) -> Result<Updates, Failure> {
    if sequence_number > db.latest_sequence_number() {
        let text = "NotFound: Requested sequence not yet written in the db";
        return Err(Failure::Text(text.to_owned()));
    }
    let mut options = TailOptions::new();
    options.set_begins_later(true);
    let mut updates = Updates {
        inner: db.get_updates_since_opt(sequence_number, &options)?,
        current: None,
        failure: None,
    };
    updates.next();
    Ok(updates)
}

impl Updates {
    /// Moves to the next batch.
    pub(crate) fn next(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let (current, failure) = match self.inner.next().transpose() {
            Ok(current) => (current, None),
            Err(error) => (None, Some(error)),
        };
        self.current = current;
        self.failure = failure;
    }

    /// Whether there is a batch.
    pub(crate) fn valid(&self) -> bool {
        self.current.is_some()
    }

    /// Returns the error that ended the iterator.
    pub(crate) fn status(&self) -> Result<(), Failure> {
        match &self.failure {
            Some(error) if error.kind() == ErrorKind::Incomplete => Err(Failure::Text(
                "NotFound: Gap in sequence numbers".to_owned(),
            )),
            Some(error) => Err(error.clone().into()),
            None => Ok(()),
        }
    }

    /// Returns the batch and its first sequence number; an empty one if there is none.
    pub(crate) fn batch(&self, sequence_number: Option<&mut u64>) -> WriteBatch {
        if let Some(out) = sequence_number {
            *out = self
                .current
                .as_ref()
                .map_or(0, |batch| batch.sequence_number);
        }
        let batch = self.current.as_ref().map(|current| current.batch.clone());
        batch.unwrap_or_default()
    }
}

/// A file of the log (`rocksdb_wal_file_t`).
pub(crate) struct WalFile {
    log: LogFile,
    /// The path below the directory of the logs, with a slash before it.
    path_name: CString,
}

impl From<LogFile> for WalFile {
    fn from(log: LogFile) -> Self {
        let mut path = match log.is_archived {
            true => b"/archive/".to_vec(),
            false => b"/".to_vec(),
        };
        let name = log.path.file_name().unwrap_or_default();
        path.extend_from_slice(name.as_bytes());
        WalFile {
            log,
            path_name: CString::new(path).unwrap_or_default(),
        }
    }
}

impl WalFile {
    /// Returns the path below the directory of the logs.
    pub(crate) fn path_name(&self) -> &CStr {
        &self.path_name
    }

    /// Returns the number of the file.
    pub(crate) fn number(&self) -> u64 {
        self.log.number
    }

    /// Returns 0 for archived logs, 1 for live ones.
    pub(crate) fn kind(&self) -> i32 {
        i32::from(!self.log.is_archived)
    }

    /// Returns the size of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.log.bytes
    }
}

/// The files of the log, oldest first (`rocksdb_wal_files_t`).
pub(crate) struct WalFiles(Vec<Handle<WalFile>>);

/// Returns the files of the log, oldest first.
pub(crate) fn files(db: &Db) -> koeldb::Result<WalFiles> {
    let files = db.log_files()?.into_iter();
    Ok(WalFiles(
        files.map(|log| Handle::new(WalFile::from(log))).collect(),
    ))
}

/// Returns the file that the log is written to.
pub(crate) fn current_file(db: &Db) -> Result<WalFile, Failure> {
    let live = db.log_files()?.into_iter().rfind(|log| !log.is_archived);
    let missing = || Failure::Text("NotFound: the database has no write-ahead log".to_owned());
    live.map(WalFile::from).ok_or_else(missing)
}

/// Returns the number of files.
pub(crate) fn count(files: &WalFiles) -> usize {
    files.0.len()
}

/// Lends a file; null if there are not so many.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn file(files: *const Handle<WalFiles>, index: usize) -> *const Handle<WalFile> {
    // SAFETY: promised by the caller.
    let files = unsafe { handle::optional(files) };
    let file = files.and_then(|files| files.0.get(index));
    file.map_or(std::ptr::null(), std::ptr::from_ref)
}
