//! Options that become a part of those of a database: table formats, styles of compaction.

use std::ffi::c_char;

use koeldb::{
    BlockBasedOptions, Cache, CuckooTableOptions, FifoCompactionOptions, UniversalCompactionOptions,
};

use crate::settings::option_text::{Named, Refusals, Value};
use crate::settings::options::Options;

/// A group of options; a value that was refused fails the open of a database that uses it.
#[derive(Clone)]
pub(crate) struct Part<T> {
    pub(crate) inner: T,
    refusals: Refusals,
}

impl<T> Part<T> {
    fn new(inner: T) -> Self {
        Part {
            inner,
            refusals: Refusals::default(),
        }
    }

    /// Hands refused values over to the options that the group joins.
    fn join(&self, options: &mut Options) {
        let group = std::any::type_name::<T>();
        options.refusals.join(group, &self.refusals);
    }
}

macro_rules! named {
    ($($Type:ty),*) => {$(
        impl Named for Part<$Type> {
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
    )*};
}

named!(
    BlockBasedOptions,
    CuckooTableOptions,
    FifoCompactionOptions,
    UniversalCompactionOptions
);

macro_rules! defaults {
    ($($Type:ty),*) => {$(
        impl Default for Part<$Type> {
            fn default() -> Self {
                Part::new(<$Type>::default())
            }
        }
    )*};
}

defaults!(
    CuckooTableOptions,
    FifoCompactionOptions,
    UniversalCompactionOptions
);

impl Default for Part<BlockBasedOptions> {
    fn default() -> Self {
        let mut tables = BlockBasedOptions::new();
        // As RocksDB writes today.
        tables.set_format_version(7);
        Part::new(tables)
    }
}

/// Sets the checksum of blocks.
pub(crate) fn set_checksum(tables: &mut Part<BlockBasedOptions>, checksum: c_char) {
    tables.set_text("checksum", &i32::from(checksum).text("checksum"));
}

/// Sets the cache of blocks.
pub(crate) fn set_block_cache(tables: &mut Part<BlockBasedOptions>, cache: Option<&Cache>) {
    if let Some(cache) = cache {
        tables.inner.set_block_cache(cache);
    }
}

/// Writes block-based tables.
pub(crate) fn use_block_based(options: &mut Options, tables: Option<&Part<BlockBasedOptions>>) {
    if let Some(tables) = tables {
        tables.join(options);
        options.inner.set_block_based_table_factory(&tables.inner);
    }
}

/// Writes cuckoo tables.
pub(crate) fn use_cuckoo(options: &mut Options, tables: Option<&Part<CuckooTableOptions>>) {
    if let Some(tables) = tables {
        tables.join(options);
        options.inner.set_cuckoo_table_factory(&tables.inner);
    }
}

/// Sets the options of universal compactions.
pub(crate) fn use_universal(options: &mut Options, part: &mut Part<UniversalCompactionOptions>) {
    part.join(options);
    options.inner.set_universal_compaction_options(&part.inner);
}

/// Sets the options of FIFO compactions.
pub(crate) fn use_fifo(options: &mut Options, part: &mut Part<FifoCompactionOptions>) {
    part.join(options);
    options.inner.set_fifo_compaction_options(&part.inner);
}
