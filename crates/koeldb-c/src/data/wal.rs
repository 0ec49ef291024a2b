//! The write-ahead log: its updates and its files.

#![expect(unsafe_code, reason = "an object that another one has")]

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;

use koeldb::{Db, Error, ErrorKind, LogFile, TailOptions, UpdateBatch, UpdateIterator, WriteBatch};

use crate::boundary::Failure;
use crate::data::call_options::LogReadOptions;
use crate::handle::{self, Handle};
use crate::memory::Out;

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
    pub(crate) fn batch(&self, sequence_number: Out<'_, u64>) -> WriteBatch {
        let first = self.current.as_ref();
        if let Some(out) = sequence_number {
            out.write(first.map_or(0, |batch| batch.sequence_number));
        }
        let batch = self.current.as_ref().map(|current| current.batch.clone());
        batch.unwrap_or_default()
    }
}

/// A file of the log (`rocksdb_wal_file_t`).
pub(crate) struct WalFile {
    log: LogFile,
    /// The sequence number of its first batch; 0 without one.
    first_seqno: u64,
    /// The path below the directory of the logs, with a slash before it.
    path_name: CString,
}

impl WalFile {
    fn new(db: &Db, log: LogFile) -> koeldb::Result<Self> {
        let mut path = match log.is_archived {
            true => b"/archive/".to_vec(),
            false => b"/".to_vec(),
        };
        let name = log.path.file_name().unwrap_or_default();
        path.extend_from_slice(name.as_bytes());
        Ok(WalFile {
            first_seqno: db.first_seqno_of_log(&log)?.unwrap_or_default(),
            log,
            path_name: CString::new(path).unwrap_or_default(),
        })
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

    /// Returns the sequence number of the first batch; 0 without one.
    pub(crate) fn first_seqno(&self) -> u64 {
        self.first_seqno
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
    let mut files = Vec::new();
    for log in db.log_files()? {
        match WalFile::new(db, log) {
            Ok(file) => files.push(Handle::new(file)),
            // It was removed from the archive meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(WalFiles(files))
}

/// Returns the file that the log is written to.
pub(crate) fn current_file(db: &Db) -> Result<WalFile, Failure> {
    let live = db.log_files()?.into_iter().rfind(|log| !log.is_archived);
    let missing = || Failure::Text("NotFound: the database has no write-ahead log".to_owned());
    Ok(WalFile::new(db, live.ok_or_else(missing)?)?)
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
