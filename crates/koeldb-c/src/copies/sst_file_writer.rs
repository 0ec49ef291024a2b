//! Writers of external table files.

use std::ffi::CStr;

use koeldb::SstFileWriterOptions;

use crate::boundary::Failure;
use crate::copies::env_options::EnvOptions;
use crate::data::timestamps;
use crate::memory::{Out, path};
use crate::plugins::comparator::Comparator;
use crate::settings::options::Options;

/// A writer of one external table file after another (`rocksdb_sstfilewriter_t`).
pub(crate) struct SstFileWriter {
    options: Options,
    /// The open file.
    file: Option<koeldb::SstFileWriter>,
    /// The length of the last finished file.
    finished_size: u64,
}

/// Creates a writer without an open file.
pub(crate) fn create(_: Option<&EnvOptions>, options: &Options) -> SstFileWriter {
    SstFileWriter {
        options: options.clone(),
        file: None,
        finished_size: 0,
    }
}

/// Creates a writer. The comparator is that of the options, as in RocksDB.
pub(crate) fn create_with_comparator(
    env: Option<&EnvOptions>,
    options: &Options,
    _: Option<&Comparator>,
) -> SstFileWriter {
    create(env, options)
}

impl SstFileWriter {
    /// Begins the file `name`, and replaces what is there.
    pub(crate) fn open(&mut self, name: &CStr) -> Result<(), Failure> {
        // An unfinished file is removed, which may have the same name.
        self.file = None;
        self.finished_size = 0;
        let options = self.options.checked()?;
        let env = options.get_env();
        let fs = env.file_system();
        if fs.exists(path(name))? {
            fs.remove_file(path(name))?;
        }
        let mut how = SstFileWriterOptions::new();
        how.set_env(env);
        let file = koeldb::SstFileWriter::create_opt(options.cf_options(), path(name), &how)?;
        self.file = Some(file);
        Ok(())
    }

    fn file(&mut self) -> Result<&mut koeldb::SstFileWriter, Failure> {
        let file = self.file.as_mut();
        file.ok_or_else(|| Failure::argument("the file is not opened"))
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.file()?.put(key, value)?)
    }

    pub(crate) fn put_with_ts(
        &mut self,
        key: &[u8],
        ts: &[u8],
        value: &[u8],
    ) -> Result<(), Failure> {
        let ts = timestamps::of(ts)?;
        Ok(self.file()?.put_with_ts(key, ts, value)?)
    }

    pub(crate) fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<(), Failure> {
        Ok(self.file()?.merge(key, operand)?)
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<(), Failure> {
        Ok(self.file()?.delete(key)?)
    }

    pub(crate) fn delete_with_ts(&mut self, key: &[u8], ts: &[u8]) -> Result<(), Failure> {
        let ts = timestamps::of(ts)?;
        Ok(self.file()?.delete_with_ts(key, ts)?)
    }

    pub(crate) fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<(), Failure> {
        Ok(self.file()?.delete_range(begin, end)?)
    }

    /// Completes the file. Another one may be opened then.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.file()?;
        if let Some(file) = self.file.take() {
            self.finished_size = file.finish()?.file_size;
        }
        Ok(())
    }

    /// Writes the length of the file so far, or of the finished one, into `size`.
    pub(crate) fn file_size(&mut self, size: Out<'_, u64>) {
        let current = self.file.as_ref().map(koeldb::SstFileWriter::file_size);
        if let Some(size) = size {
            size.write(current.unwrap_or(self.finished_size));
        }
    }
}
