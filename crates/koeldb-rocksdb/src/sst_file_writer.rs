//! SST files made outside of databases, to be ingested.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::error::timestamp;
use crate::{Error, Options};

/// A writer of an SST file, whose keys must be added in ascending order.
pub struct SstFileWriter<'a> {
    options: Result<koeldb::ColumnFamilyOptions, Error>,
    env: koeldb::Env,
    state: Mutex<State>,
    label: PhantomData<&'a Options>,
}

/// The open table file of a writer, and the size of the last finished one.
#[derive(Default)]
struct State {
    writer: Option<koeldb::SstFileWriter>,
    /// The size of the table that was finished.
    finished_bytes: u64,
}

impl<'a> SstFileWriter<'a> {
    /// Creates a writer without an open file.
    #[must_use]
    pub fn create(opts: &'a Options) -> Self {
        SstFileWriter {
            options: opts.checked().map(|options| options.cf_options().clone()),
            env: opts.inner.get_env().clone(),
            state: Mutex::default(),
            label: PhantomData,
        }
    }

    /// Creates a table file and opens it for writing; replaces an existing file.
    pub fn open<P: AsRef<Path>>(&'a self, path: P) -> Result<(), Error> {
        let options = self.options.as_ref().map_err(Clone::clone)?;
        let mut how = koeldb::SstFileWriterOptions::new();
        how.set_env(&self.env);
        // The writer refuses to overwrite a file; if the removal fails, its own error says so.
        let _ = self.env.file_system().remove_file(path.as_ref());
        let writer = koeldb::SstFileWriter::create_opt(options, path, &how)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.writer = Some(writer);
        Ok(())
    }

    /// Returns the writer's state without locking.
    fn state(&mut self) -> &mut State {
        let state = self.state.get_mut();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the engine's writer of the open file; an error if no file is open.
    fn writer(&mut self) -> Result<&mut koeldb::SstFileWriter, Error> {
        let writer = self.state().writer.as_mut();
        writer.ok_or_else(|| Error::invalid("File is not opened"))
    }

    /// Finishes the table file and syncs it.
    pub fn finish(&mut self) -> Result<(), Error> {
        let writer = self.state().writer.take();
        let writer = writer.ok_or_else(|| Error::invalid("File is not opened"))?;
        self.state().finished_bytes = writer.finish()?.file_size;
        Ok(())
    }

    /// Returns the bytes written to the open file, or the size of the finished one.
    pub fn file_size(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.writer {
            Some(writer) => writer.file_size(),
            None => state.finished_bytes,
        }
    }

    /// Adds a key with a value; keys must be added in ascending order.
    pub fn put<K: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, key: K, value: V) -> Result<(), Error> {
        Ok(self.writer()?.put(key, value)?)
    }

    /// Adds a key with a value at a timestamp; versions of a key are added newest first.
    pub fn put_with_ts<K, V, S>(&mut self, key: K, ts: S, value: V) -> Result<(), Error>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
        S: AsRef<[u8]>,
    {
        Ok(self.writer()?.put_with_ts(key, timestamp(ts)?, value)?)
    }

    /// Adds a merge operand for a key.
    pub fn merge<K: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, key: K, value: V) -> Result<(), Error> {
        Ok(self.writer()?.merge(key, value)?)
    }

    /// Adds a deletion of a key.
    pub fn delete<K: AsRef<[u8]>>(&mut self, key: K) -> Result<(), Error> {
        Ok(self.writer()?.delete(key)?)
    }

    /// Adds a range deletion of `begin_key..end_key`; range deletions may come in any order.
    pub fn delete_range<K: AsRef<[u8]>>(&mut self, begin_key: K, end_key: K) -> Result<(), Error> {
        Ok(self.writer()?.delete_range(begin_key, end_key)?)
    }

    /// Adds a deletion of a key at a timestamp.
    pub fn delete_with_ts<K: AsRef<[u8]>, S: AsRef<[u8]>>(
        &mut self,
        key: K,
        ts: S,
    ) -> Result<(), Error> {
        Ok(self.writer()?.delete_with_ts(key, timestamp(ts)?)?)
    }
}
