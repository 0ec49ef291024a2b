//! In-memory files for the tests of this crate.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use koeldb_base::{Error, Result};
use koeldb_fs::{RandomAccessFile, WritableFile};

use crate::{RecordReader, RecordWriter, RecordWriterOptions, RecoveryMode};

/// An in-memory writable file for tests, which can fail after a number of appends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sink {
    pub(crate) bytes: Arc<Mutex<Vec<u8>>>,
    pub(crate) appends: Arc<Mutex<usize>>,
    /// The number of appends after which further ones fail.
    pub(crate) appends_max: Option<usize>,
}

impl WritableFile for Sink {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut appends = self.appends.lock().unwrap();
        *appends += 1;
        if self.appends_max.is_some_and(|max| *appends > max) {
            return Err(Error::corruption("no more appends"));
        }
        self.bytes.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn sync_data(&mut self) -> Result<()> {
        Ok(())
    }

    fn sync_all(&mut self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// An in-memory readable file for tests, with an unreadable range of bytes.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) bytes: Vec<u8>,
    pub(crate) unreadable: std::ops::Range<u64>,
    pub(crate) path: PathBuf,
}

impl RandomAccessFile for Source {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let end = offset + buffer.len() as u64;
        if self.unreadable.start < end && offset < self.unreadable.end {
            let error = std::io::Error::other("bad sector");
            return Err(Error::io(error, "read", &self.path));
        }
        let start = usize::try_from(offset).unwrap().min(self.bytes.len());
        let count = buffer.len().min(self.bytes.len() - start);
        buffer[..count].copy_from_slice(&self.bytes[start..start + count]);
        Ok(count)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Creates a record reader over `bytes` as log number 9.
pub(crate) fn reader(bytes: &[u8], mode: RecoveryMode) -> RecordReader {
    let source = Source {
        bytes: bytes.to_vec(),
        unreadable: 0..0,
        path: PathBuf::from("000009.log"),
    };
    RecordReader::new(Arc::new(source), 9, mode)
}

/// Returns the bytes of a log file with these records.
pub(crate) fn log_of<P: AsRef<[u8]>>(
    records: impl IntoIterator<Item = P>,
    options: RecordWriterOptions,
) -> Vec<u8> {
    let sink = Sink::default();
    let mut writer = RecordWriter::new(Box::new(sink.clone()), options).unwrap();
    for record in records {
        writer.add_record(record.as_ref()).unwrap();
    }
    writer.close().unwrap();
    sink.bytes.lock().unwrap().clone()
}
