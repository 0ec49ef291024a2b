//! Options of databases and column families.

use std::collections::BTreeMap;

use crate::boundary::Failure;
use crate::plugins::attached::Attached;
use crate::settings::option_text::{Named, Refusals};
use crate::settings::sets::Sets;

/// The options of a database and of a column family (`rocksdb_options_t`).
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) inner: koeldb::Options,
    pub(crate) refusals: Refusals,
    /// The texts of options that C has read, by option.
    lent: BTreeMap<&'static str, String>,
    pub(crate) sets: Sets,
    /// The plug-ins that callbacks made.
    pub(crate) attached: Attached,
}

impl Default for Options {
    fn default() -> Self {
        let mut tables = koeldb::BlockBasedOptions::new();
        // As RocksDB writes today.
        tables.set_format_version(7);
        let mut inner = koeldb::Options::new();
        inner.set_block_based_table_factory(&tables);
        Options::from(inner)
    }
}

impl From<koeldb::Options> for Options {
    fn from(mut inner: koeldb::Options) -> Self {
        inner.set_creates_beside_files(true);
        Options {
            inner,
            refusals: Refusals::default(),
            lent: BTreeMap::new(),
            sets: Sets::default(),
            attached: Attached::default(),
        }
    }
}

impl Named for Options {
    fn set_text(&mut self, name: &str, value: &str) {
        let error = self.inner.set_by_name(name, value).err();
        let error = error.map(|error| error.status_text());
        self.refusals.note(name, value, error);
    }

    fn text(&self, name: &str) -> koeldb::Result<String> {
        match self.refusals.value(name) {
            Some(refused) => Ok(refused.to_owned()),
            None => self.inner.get_by_name(name),
        }
    }
}

impl Options {
    /// Keeps the error of a setter, which cannot return it, for the open.
    pub(crate) fn fail(&mut self, name: &str, text: String) {
        self.refusals.note(name, "", Some(text));
    }

    /// Lends the text of an option.
    fn lend(&mut self, name: &'static str) -> Option<&[u8]> {
        let text = self.inner.get_by_name(name).ok()?;
        self.lent.insert(name, text);
        self.lent.get(name).map(String::as_bytes)
    }

    /// Returns the engine's options, or the error of the first setter that failed.
    pub(crate) fn checked(&self) -> Result<&koeldb::Options, Failure> {
        match self.refusals.error() {
            None => Ok(&self.inner),
            Some(text) => Err(Failure::Text(text.to_owned())),
        }
    }
}

/// Sets the number of background threads from a number of cores.
pub(crate) fn increase_parallelism(options: &mut Options, total_threads: i32) {
    let threads = u32::try_from(total_threads).unwrap_or(1);
    options.inner.increase_parallelism(threads);
}

/// Copies options, with the objects that they share.
pub(crate) fn copy(options: &mut Options) -> Options {
    options.clone()
}

/// Prepares for lookups of single keys.
pub(crate) fn optimize_for_point_lookup(options: &mut Options, cache_megabytes: u64) {
    options.inner.optimize_for_point_lookup(cache_megabytes);
}

/// Prepares for leveled compaction.
pub(crate) fn optimize_level_style(options: &mut Options, memtable_bytes: u64) {
    options
        .inner
        .optimize_level_style_compaction(memtable_bytes);
}

/// Prepares for universal compaction.
pub(crate) fn optimize_universal_style(options: &mut Options, memtable_bytes: u64) {
    options
        .inner
        .optimize_universal_style_compaction(memtable_bytes);
}

/// Prepares for a bulk load.
pub(crate) fn prepare_for_bulk_load(options: &mut Options) {
    options.inner.prepare_for_bulk_load();
}

/// Returns the directory of the LOG.
pub(crate) fn db_log_dir(options: &mut Options) -> Option<&[u8]> {
    options.lend("db_log_dir")
}

/// Returns the directory of the write-ahead log.
pub(crate) fn wal_dir(options: &mut Options) -> Option<&[u8]> {
    options.lend("wal_dir")
}

/// Returns the name of the host in files.
pub(crate) fn db_host_id(options: &mut Options) -> Option<&[u8]> {
    options.lend("db_host_id")
}

/// Returns the off-peak hours of a day.
pub(crate) fn daily_offpeak_time(options: &mut Options) -> Option<&[u8]> {
    options.lend("daily_offpeak_time_utc")
}

/// Copies options and changes those of a text.
pub(crate) fn apply_text(
    base: &Options,
    text: &std::ffi::CStr,
    changed: &mut Options,
) -> Result<(), Failure> {
    let mut options = base.clone();
    let how = koeldb::ConfigOptions::new();
    options.inner.apply_str(crate::memory::name(text)?, &how)?;
    *changed = options;
    Ok(())
}
