//! Types cross threads and `catch_unwind` as those of every release of the original since 0.19.

use std::panic::{RefUnwindSafe, UnwindSafe};

use rocksdb::backup::{BackupEngine, BackupEngineInfo, BackupEngineOptions, RestoreOptions};
use rocksdb::checkpoint::{Checkpoint, TransactionDBCheckpoint};
use rocksdb::compaction_filter::Decision;
use rocksdb::compaction_filter_factory::CompactionFilterContext;
use rocksdb::merge_operator::MergeOperandsIter;
use rocksdb::perf::{MemoryUsage, MemoryUsageBuilder, MemoryUsageStats};
use rocksdb::properties::{PropName, PropertyName};
use rocksdb::statistics::{Histogram, HistogramData, NameParseError, StatsLevel, Ticker};
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, BlockBasedTablePinningTier, BottommostLevelCompaction,
    BoundColumnFamily, Cache, ChecksumType, ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyTtl,
    CompactOptions, CompactionPri, CuckooTableOptions, DB, DBCompactionStyle, DBCompressionType,
    DBIterator, DBIteratorWithThreadMode, DBPath, DBPinnableSlice, DBRawIterator,
    DBRawIteratorWithThreadMode, DBRecoveryMode, DBWALIterator, DataBlockIndexType, Direction, Env,
    Error, ErrorKind, FifoCompactOptions, FlushOptions, IngestExternalFileOptions, IteratorMode,
    KeyEncodingType, LiveFile, LogLevel, LruCacheOptions, MemtableFactory, MergeOperands,
    MultiThreaded, OptimisticTransactionDB, OptimisticTransactionOptions, Options, PerfContext,
    PerfMetric, PerfStatsLevel, PlainTableFactoryOptions, PrefixRange, Range, ReadOptions,
    ReadTier, SingleThreaded, SliceTransform, Snapshot, SnapshotWithThreadMode, SstFileWriter,
    Transaction, TransactionDB, TransactionDBOptions, TransactionOptions, UniversalCompactOptions,
    UniversalCompactionStopStyle, WaitForCompactOptions, WriteBatch, WriteBatchWithTransaction,
    WriteBufferManager, WriteOptions,
};

type InTransaction<'a> = Transaction<'a, TransactionDB>;

fn are_shared<T: ?Sized + Send + Sync>() {}
fn are_sent<T: ?Sized + Send>() {}
fn unwind<T: ?Sized + UnwindSafe + RefUnwindSafe>() {}

#[test]
fn types_that_threads_share() {
    are_shared::<BlockBasedIndexType>();
    are_shared::<BlockBasedOptions>();
    are_shared::<BlockBasedTablePinningTier>();
    are_shared::<BottommostLevelCompaction>();
    are_shared::<BoundColumnFamily<'_>>();
    are_shared::<Cache>();
    are_shared::<ChecksumType>();
    are_shared::<ColumnFamily>();
    are_shared::<ColumnFamilyDescriptor>();
    are_shared::<ColumnFamilyTtl>();
    are_shared::<CompactOptions>();
    are_shared::<CompactionPri>();
    are_shared::<CuckooTableOptions>();
    are_shared::<DB>();
    are_shared::<OptimisticTransactionDB>();
    are_shared::<DBCompactionStyle>();
    are_shared::<DBCompressionType>();
    are_shared::<DBIterator<'_>>();
    are_shared::<DBIteratorWithThreadMode<'_, InTransaction<'_>>>();
    are_shared::<DBPinnableSlice<'_>>();
    are_shared::<DBRawIterator<'_>>();
    are_shared::<DBRawIteratorWithThreadMode<'_, InTransaction<'_>>>();
    are_shared::<DBRecoveryMode>();
    are_shared::<DataBlockIndexType>();
    are_shared::<Direction>();
    are_shared::<Env>();
    are_shared::<Error>();
    are_shared::<ErrorKind>();
    are_shared::<FlushOptions>();
    are_shared::<IngestExternalFileOptions>();
    are_shared::<IteratorMode<'_>>();
    are_shared::<KeyEncodingType>();
    are_shared::<LiveFile>();
    are_shared::<LogLevel>();
    are_shared::<LruCacheOptions>();
    are_shared::<MemtableFactory>();
    are_shared::<MultiThreaded>();
    are_shared::<OptimisticTransactionOptions>();
    are_shared::<Options>();
    are_shared::<PerfMetric>();
    are_shared::<PerfStatsLevel>();
    are_shared::<PlainTableFactoryOptions>();
    are_shared::<PrefixRange<&[u8]>>();
    are_shared::<Range<'_>>();
    are_shared::<ReadOptions>();
    are_shared::<ReadTier>();
    are_shared::<SingleThreaded>();
    are_shared::<Snapshot<'_>>();
    are_shared::<SnapshotWithThreadMode<'_, InTransaction<'_>>>();
    are_shared::<SstFileWriter<'_>>();
    are_shared::<TransactionDB<SingleThreaded>>();
    are_shared::<TransactionDB<MultiThreaded>>();
    are_shared::<TransactionDBOptions>();
    are_shared::<TransactionOptions>();
    are_shared::<UniversalCompactionStopStyle>();
    are_shared::<WriteBufferManager>();
    are_shared::<WriteOptions>();
    are_shared::<BackupEngineInfo>();
    are_shared::<Decision>();
    are_shared::<CompactionFilterContext>();
    are_shared::<MemoryUsageStats>();
    are_shared::<PropName>();
    are_shared::<PropertyName>();
    are_shared::<Histogram>();
    are_shared::<NameParseError>();
    are_shared::<StatsLevel>();
    are_shared::<Ticker>();
}

#[test]
fn types_that_move_to_other_threads() {
    are_sent::<InTransaction<'_>>();
    are_sent::<WriteBatch>();
    are_sent::<WriteBatchWithTransaction<true>>();
    are_sent::<BackupEngine>();
}

#[test]
fn types_that_cross_a_caught_panic() {
    unwind::<BlockBasedIndexType>();
    unwind::<BlockBasedOptions>();
    unwind::<BlockBasedTablePinningTier>();
    unwind::<BottommostLevelCompaction>();
    unwind::<BoundColumnFamily<'_>>();
    unwind::<Cache>();
    unwind::<ChecksumType>();
    unwind::<ColumnFamily>();
    unwind::<ColumnFamilyDescriptor>();
    unwind::<ColumnFamilyTtl>();
    unwind::<CompactOptions>();
    unwind::<CompactionPri>();
    unwind::<CuckooTableOptions>();
    unwind::<DB>();
    unwind::<OptimisticTransactionDB>();
    unwind::<DBCompactionStyle>();
    unwind::<DBCompressionType>();
    unwind::<DBIterator<'_>>();
    unwind::<DBIteratorWithThreadMode<'_, InTransaction<'_>>>();
    unwind::<DBPath>();
    unwind::<DBPinnableSlice<'_>>();
    unwind::<DBRawIterator<'_>>();
    unwind::<DBRawIteratorWithThreadMode<'_, InTransaction<'_>>>();
    unwind::<DBRecoveryMode>();
    unwind::<DBWALIterator>();
    unwind::<DataBlockIndexType>();
    unwind::<Direction>();
    unwind::<Env>();
    unwind::<Error>();
    unwind::<ErrorKind>();
    unwind::<FifoCompactOptions>();
    unwind::<FlushOptions>();
    unwind::<IngestExternalFileOptions>();
    unwind::<IteratorMode<'_>>();
    unwind::<KeyEncodingType>();
    unwind::<LiveFile>();
    unwind::<LogLevel>();
    unwind::<LruCacheOptions>();
    unwind::<MemtableFactory>();
    unwind::<MergeOperands>();
    unwind::<MultiThreaded>();
    unwind::<OptimisticTransactionOptions>();
    unwind::<Options>();
    unwind::<PerfContext>();
    unwind::<PerfMetric>();
    unwind::<PerfStatsLevel>();
    unwind::<PlainTableFactoryOptions>();
    unwind::<PrefixRange<&[u8]>>();
    unwind::<Range<'_>>();
    unwind::<ReadOptions>();
    unwind::<ReadTier>();
    unwind::<SingleThreaded>();
    unwind::<SliceTransform>();
    unwind::<Snapshot<'_>>();
    unwind::<SnapshotWithThreadMode<'_, InTransaction<'_>>>();
    unwind::<SstFileWriter<'_>>();
    unwind::<InTransaction<'_>>();
    unwind::<TransactionDB<SingleThreaded>>();
    unwind::<TransactionDB<MultiThreaded>>();
    unwind::<TransactionDBOptions>();
    unwind::<TransactionOptions>();
    unwind::<UniversalCompactOptions>();
    unwind::<UniversalCompactionStopStyle>();
    unwind::<WaitForCompactOptions>();
    unwind::<WriteBatch>();
    unwind::<WriteBatchWithTransaction<true>>();
    unwind::<WriteBufferManager>();
    unwind::<WriteOptions>();
    unwind::<BackupEngine>();
    unwind::<BackupEngineInfo>();
    unwind::<BackupEngineOptions>();
    unwind::<RestoreOptions>();
    unwind::<Checkpoint<'_>>();
    unwind::<TransactionDBCheckpoint<'_>>();
    unwind::<Decision>();
    unwind::<CompactionFilterContext>();
    unwind::<MergeOperandsIter<'_>>();
    unwind::<MemoryUsage>();
    unwind::<MemoryUsageBuilder<'_>>();
    unwind::<MemoryUsageStats>();
    unwind::<PropName>();
    unwind::<PropertyName>();
    unwind::<Histogram>();
    unwind::<HistogramData>();
    unwind::<NameParseError>();
    unwind::<StatsLevel>();
    unwind::<Ticker>();
}
