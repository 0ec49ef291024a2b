//! Options of databases and column families.

use crate::boundary::Failure;
use crate::settings::option_text::Named;

/// The options of a database and of a column family (`rocksdb_options_t`).
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) inner: koeldb::Options,
    /// The first value that was refused.
    failure: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        let mut tables = koeldb::BlockBasedOptions::new();
        // As RocksDB writes today.
        tables.set_format_version(7);
        let mut inner = koeldb::Options::new();
        inner.set_block_based_table_factory(&tables);
        Options {
            inner,
            failure: None,
        }
    }
}

impl Named for Options {
    fn set_text(&mut self, name: &str, value: &str) {
        if let Err(error) = self.inner.set_by_name(name, value) {
            self.fail(error.status_text());
        }
    }

    fn text(&self, name: &str) -> koeldb::Result<String> {
        self.inner.get_by_name(name)
    }
}

impl Options {
    /// Keeps the error of a setter, which cannot return it, for the open.
    pub(crate) fn fail(&mut self, text: String) {
        self.failure.get_or_insert(text);
    }

    /// Returns the engine's options, or the error of the first setter that failed.
    pub(crate) fn checked(&self) -> Result<&koeldb::Options, Failure> {
        match &self.failure {
            None => Ok(&self.inner),
            Some(text) => Err(Failure::Text(text.clone())),
        }
    }
}

/// Sets the number of background threads from a number of cores.
pub(crate) fn increase_parallelism(options: &mut Options, total_threads: i32) {
    let threads = u32::try_from(total_threads).unwrap_or(1);
    options.inner.increase_parallelism(threads);
}
