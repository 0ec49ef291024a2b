//! Options of reads.

/// The options of a read (`rocksdb_readoptions_t`).
#[derive(Clone, Default)]
pub(crate) struct ReadOptions {
    pub(crate) inner: koeldb::ReadOptions,
}
