//! The API of the crate `rocksdb` 0.25, on KoelDB.
//!
//! A program switches by one line of its `Cargo.toml`; its directories need no conversion, in
//! either direction:
//!
//! ```toml
//! [dependencies]
//! rocksdb = { package = "koeldb-rocksdb", version = "0.1" }
//! ```
//!
//! ```
//! use rocksdb::{DB, IteratorMode, Options};
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! # fn run(path: &std::path::Path) -> Result<(), rocksdb::Error> {
//! let mut options = Options::default();
//! options.create_if_missing(true);
//! let db = DB::open(&options, path)?;
//! db.put(b"koel", b"Eudynamys")?;
//! assert_eq!(db.get(b"koel")?.as_deref(), Some(&b"Eudynamys"[..]));
//! for item in db.iterator(IteratorMode::Start) {
//!     let (key, value) = item?;
//!     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
//! }
//! # Ok(())
//! # }
//! # run(&path).unwrap();
//! ```
//!
//! This crate converts arguments, names and errors; all behavior is the engine's
//! ([`koeldb`](https://docs.rs/koeldb)). A request that the engine cannot serve fails with
//! [`ErrorKind::NotSupported`] and names the option or method. A setting that could only cost
//! speed, space or statistics is accepted, and LOG lists it at open. `docs/coming-from-rocksdb.md`
//! has both lists, and the differences.
//!
//! # Errors
//!
//! Every [`Error`] is a text that begins with the words of its kind, as in RocksDB. The methods
//! return the errors of the engine's methods of the same name, rendered in RocksDB's form.
//!
//! # Modules
//!
//! `db` has databases, `access` and `methods` the reads and writes that all share, `options` the
//! settings, `transactions` both kinds of transactions. The other modules have one type each.

#![expect(
    clippy::missing_errors_doc,
    reason = "the section `Errors` above describes the errors of all methods"
)]
#![expect(
    clippy::needless_pass_by_value,
    reason = "the signatures are those of the crate rocksdb"
)]

mod access;
pub mod backup;
mod c_str;
pub mod checkpoint;
mod column_family;
pub mod compaction_filter;
pub mod compaction_filter_factory;
mod comparator;
mod cursor;
mod db;
mod env;
mod error;
mod histogram;
mod iter_range;
mod iterator;
pub mod merge_operator;
mod methods;
mod mirrors;
mod names;
mod options;
pub mod perf;
mod pinnable_slice;
mod prop_name;
pub mod properties;
#[cfg(all(feature = "raw-ptr", not(before_0_25)))]
mod raw_ptr;
mod releases;
mod slice_transform;
mod snapshot;
mod sst_file_writer;
#[cfg(not(before_0_22))]
pub mod statistics;
#[cfg(before_0_22)]
mod statistics;
mod ticker;
mod transactions;
mod unwind;
mod updates;
mod write_batch;

pub use access::DBAccess;
pub use c_str::{CSlice, CStrLike};
pub use column_family::{
    AsColumnFamilyRef, BoundColumnFamily, ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyRef,
    DEFAULT_COLUMN_FAMILY_NAME, MultiThreaded, SingleThreaded, ThreadMode,
};
pub use compaction_filter::Decision as CompactionDecision;
pub use db::{
    ColumnFamilyMetaData, DB, DBCommon, DBIterator, DBRawIterator, DBWithThreadMode, LiveFile,
    Snapshot,
};
pub use env::Env;
pub use error::{Error, ErrorKind};
pub use iter_range::{IterateBounds, PrefixRange};
pub use iterator::{
    DBIteratorWithThreadMode, DBRawIteratorWithThreadMode, Direction, IteratorMode, KVBytes,
};
pub use merge_operator::MergeOperands;
pub use options::{
    BlockBasedIndexType, BlockBasedOptions, BottommostLevelCompaction, Cache, CompactOptions,
    CuckooTableOptions, DBCompactionStyle, DBCompressionType, DBPath, DBRecoveryMode,
    DataBlockIndexType, FifoCompactOptions, FlushOptions, IngestExternalFileOptions, LogLevel,
    MemtableFactory, Options, PlainTableFactoryOptions, ReadOptions, UniversalCompactOptions,
    UniversalCompactionStopStyle, WriteOptions,
};
pub use perf::{PerfContext, PerfMetric, PerfStatsLevel};
pub use pinnable_slice::DBPinnableSlice;
#[cfg(all(feature = "raw-ptr", not(before_0_25)))]
pub use raw_ptr::AsRawPtr;
pub use slice_transform::SliceTransform;
pub use snapshot::SnapshotWithThreadMode;
pub use sst_file_writer::SstFileWriter;
pub use transactions::{
    OptimisticTransactionDB, OptimisticTransactionOptions, Transaction, TransactionDB,
    TransactionDBOptions, TransactionOptions,
};
pub use updates::DBWALIterator;
pub use write_batch::{WriteBatch, WriteBatchIterator, WriteBatchWithTransaction};

/// Exports names that a release of the original added; in shims of earlier ones they are private.
macro_rules! since {
    ($($cfg:ident: $($module:ident::{$($Name:ident),+}),+;)*) => {$($(
        #[cfg(not($cfg))]
        pub use $module::{$($Name),+};
        #[cfg($cfg)]
        #[allow(unused_imports, reason = "some are used by their own module only")]
        pub(crate) use $module::{$($Name),+};
    )+)*};
}

since! {
    before_0_21: options::{ChecksumType};
    before_0_22: options::{KeyEncodingType, ReadTier, WaitForCompactOptions, WriteBufferManager};
    before_0_23: column_family::{ColumnFamilyTtl}, options::{CompactionPri, LruCacheOptions};
    before_0_24: db::{Range}, options::{BlockBasedTablePinningTier},
        write_batch::{WriteBatchIteratorCf};
    before_0_25: options::{InfoLogger};
}

/// A holder of tests that code which the `rocksdb` crate rejects fails to compile here too.
///
/// A snapshot, an iterator, a checkpoint or a transaction does not outlive its database:
///
/// ```compile_fail,E0597
/// let _snapshot = {
///     let db = rocksdb::DB::open_default("x").unwrap();
///     db.snapshot()
/// };
/// ```
///
/// ```compile_fail,E0597
/// let _iterator = {
///     let db = rocksdb::DB::open_default("x").unwrap();
///     db.iterator(rocksdb::IteratorMode::Start)
/// };
/// ```
///
/// ```compile_fail,E0597
/// let _value = {
///     let db = rocksdb::DB::open_default("x").unwrap();
///     db.get_pinned("key")
/// };
/// ```
///
/// ```compile_fail,E0597
/// let _checkpoint = {
///     let db = rocksdb::DB::open_default("x").unwrap();
///     rocksdb::checkpoint::Checkpoint::new(&db)
/// };
/// ```
///
/// ```compile_fail,E0597
/// use rocksdb::{SingleThreaded, TransactionDB};
/// let _transaction = {
///     let db = TransactionDB::<SingleThreaded>::open_default("x").unwrap();
///     db.transaction()
/// };
/// ```
///
/// ```compile_fail,E0597
/// use rocksdb::{SingleThreaded, TransactionDB};
/// let db = TransactionDB::<SingleThreaded>::open_default("x").unwrap();
/// let _snapshot = {
///     let transaction = db.transaction();
///     transaction.snapshot()
/// };
/// ```
///
/// A column family of a single-threaded database is created and dropped through `&mut`:
///
/// ```compile_fail,E0596
/// use rocksdb::{DBWithThreadMode, Options, SingleThreaded};
/// let db = DBWithThreadMode::<SingleThreaded>::open_default("x").unwrap();
/// db.create_cf("cf", &Options::default()).unwrap();
/// ```
///
/// ```compile_fail,E0502
/// use rocksdb::{DBWithThreadMode, SingleThreaded};
/// let mut db = DBWithThreadMode::<SingleThreaded>::open_default("x").unwrap();
/// let family = db.cf_handle("cf").unwrap();
/// db.drop_cf("cf").unwrap();
/// db.get_cf(family, "key").unwrap();
/// ```
#[cfg(doctest)]
struct Misuse;

/// The README, whose program is compiled as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
