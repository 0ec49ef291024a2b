//! RocksDB's names of the tickers and histograms that the engine counts.
//!
//! A name of RocksDB that nothing counts here is not declared: a counter that stays at zero would
//! say that nothing happened.

/// Declares an enum of tickers or histograms; the doc comment of a variant is its RocksDB name.
macro_rules! names {
    ($(#[$doc:meta])* pub enum $type:ident { $($variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $type {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl $type {
            const ALL: &[$type] = &[$($type::$variant,)*];

            /// The number of variants.
            pub(super) const COUNT: usize = Self::ALL.len();

            /// All variants, in the order of RocksDB's dump.
            pub fn all() -> impl ExactSizeIterator<Item = $type> {
                Self::ALL.iter().copied()
            }

            /// The name, as RocksDB prints it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }

            /// The variant with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<$type> {
                Self::all().find(|item| item.name() == name)
            }

            /// Returns the position of the variant, in the order of [`Self::all`].
            pub(super) const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

names! {
    /// A monotonic counter (RocksDB: `Tickers`).
    pub enum Ticker {
        BlockCacheMiss = "rocksdb.block.cache.miss",
        BlockCacheHit = "rocksdb.block.cache.hit",
        BlockCacheAdd = "rocksdb.block.cache.add",
        BlockCacheAddFailures = "rocksdb.block.cache.add.failures",
        BlockCacheIndexMiss = "rocksdb.block.cache.index.miss",
        BlockCacheIndexHit = "rocksdb.block.cache.index.hit",
        BlockCacheIndexAdd = "rocksdb.block.cache.index.add",
        BlockCacheIndexBytesInsert = "rocksdb.block.cache.index.bytes.insert",
        BlockCacheFilterMiss = "rocksdb.block.cache.filter.miss",
        BlockCacheFilterHit = "rocksdb.block.cache.filter.hit",
        BlockCacheFilterAdd = "rocksdb.block.cache.filter.add",
        BlockCacheFilterBytesInsert = "rocksdb.block.cache.filter.bytes.insert",
        BlockCacheDataMiss = "rocksdb.block.cache.data.miss",
        BlockCacheDataHit = "rocksdb.block.cache.data.hit",
        BlockCacheDataAdd = "rocksdb.block.cache.data.add",
        BlockCacheDataBytesInsert = "rocksdb.block.cache.data.bytes.insert",
        BlockCacheBytesRead = "rocksdb.block.cache.bytes.read",
        BlockCacheBytesWrite = "rocksdb.block.cache.bytes.write",
        BlockCacheCompressionDictMiss = "rocksdb.block.cache.compression.dict.miss",
        BlockCacheCompressionDictHit = "rocksdb.block.cache.compression.dict.hit",
        BlockCacheCompressionDictAdd = "rocksdb.block.cache.compression.dict.add",
        BlockCacheCompressionDictBytesInsert = "rocksdb.block.cache.compression.dict.bytes.insert",
        BloomFilterUseful = "rocksdb.bloom.filter.useful",
        BloomFilterFullPositive = "rocksdb.bloom.filter.full.positive",
        BloomFilterFullTruePositive = "rocksdb.bloom.filter.full.true.positive",
        BloomFilterPrefixChecked = "rocksdb.bloom.filter.prefix.checked",
        BloomFilterPrefixUseful = "rocksdb.bloom.filter.prefix.useful",
        MemtableHit = "rocksdb.memtable.hit",
        MemtableMiss = "rocksdb.memtable.miss",
        GetHitL0 = "rocksdb.l0.hit",
        GetHitL1 = "rocksdb.l1.hit",
        GetHitL2AndUp = "rocksdb.l2andup.hit",
        CompactionKeyDropNewerEntry = "rocksdb.compaction.key.drop.new",
        CompactionKeyDropObsolete = "rocksdb.compaction.key.drop.obsolete",
        CompactionKeyDropRangeDel = "rocksdb.compaction.key.drop.range_del",
        CompactionKeyDropUser = "rocksdb.compaction.key.drop.user",
        CompactionRangeDelDropObsolete = "rocksdb.compaction.range_del.drop.obsolete",
        CompactionCancelled = "rocksdb.compaction.cancelled",
        NumberKeysWritten = "rocksdb.number.keys.written",
        NumberKeysRead = "rocksdb.number.keys.read",
        BytesWritten = "rocksdb.bytes.written",
        BytesRead = "rocksdb.bytes.read",
        NumberDbSeek = "rocksdb.number.db.seek",
        NumberDbNext = "rocksdb.number.db.next",
        NumberDbPrev = "rocksdb.number.db.prev",
        NumberDbSeekFound = "rocksdb.number.db.seek.found",
        NumberDbNextFound = "rocksdb.number.db.next.found",
        NumberDbPrevFound = "rocksdb.number.db.prev.found",
        IterBytesRead = "rocksdb.db.iter.bytes.read",
        NumberIterSkip = "rocksdb.number.iter.skip",
        NumberOfReseeksInIteration = "rocksdb.number.reseeks.iteration",
        NoIteratorCreated = "rocksdb.num.iterator.created",
        NoIteratorDeleted = "rocksdb.num.iterator.deleted",
        NoFileOpens = "rocksdb.no.file.opens",
        NoFileErrors = "rocksdb.no.file.errors",
        StallMicros = "rocksdb.stall.micros",
        NumberMultigetCalls = "rocksdb.number.multiget.get",
        NumberMultigetKeysRead = "rocksdb.number.multiget.keys.read",
        NumberMultigetBytesRead = "rocksdb.number.multiget.bytes.read",
        NumberMultigetKeysFound = "rocksdb.number.multiget.keys.found",
        NumberMergeFailures = "rocksdb.number.merge.failures",
        GetUpdatesSinceCalls = "rocksdb.getupdatessince.calls",
        WalFileSynced = "rocksdb.wal.synced",
        WalFileBytes = "rocksdb.wal.bytes",
        WriteDoneBySelf = "rocksdb.write.self",
        WriteDoneByOther = "rocksdb.write.other",
        WriteWithWal = "rocksdb.write.wal",
        CompactReadBytes = "rocksdb.compact.read.bytes",
        CompactWriteBytes = "rocksdb.compact.write.bytes",
        FlushWriteBytes = "rocksdb.flush.write.bytes",
        CompactReadBytesMarked = "rocksdb.compact.read.marked.bytes",
        CompactReadBytesPeriodic = "rocksdb.compact.read.periodic.bytes",
        CompactReadBytesTtl = "rocksdb.compact.read.ttl.bytes",
        CompactWriteBytesMarked = "rocksdb.compact.write.marked.bytes",
        CompactWriteBytesPeriodic = "rocksdb.compact.write.periodic.bytes",
        CompactWriteBytesTtl = "rocksdb.compact.write.ttl.bytes",
        NumberBlockCompressed = "rocksdb.number.block.compressed",
        NumberBlockDecompressed = "rocksdb.number.block.decompressed",
        BytesCompressedFrom = "rocksdb.bytes.compressed.from",
        BytesCompressedTo = "rocksdb.bytes.compressed.to",
        BytesCompressionRejected = "rocksdb.bytes.compression.rejected",
        NumberBlockCompressionRejected = "rocksdb.number.block_compression_rejected",
        BytesDecompressedFrom = "rocksdb.bytes.decompressed.from",
        BytesDecompressedTo = "rocksdb.bytes.decompressed.to",
        MergeOperationTotalTime = "rocksdb.merge.operation.time.nanos",
        CompactionCpuTotalTime = "rocksdb.compaction.total.time.cpu_micros",
        NumberRateLimiterDrains = "rocksdb.number.rate_limiter.drains",
        RateLimiterBytesRead = "rocksdb.rate.limiter.bytes.read",
        RateLimiterBytesWrite = "rocksdb.rate.limiter.bytes.write",
        RateLimiterRequestsRead = "rocksdb.rate.limiter.requests.read",
        RateLimiterRequestsWrite = "rocksdb.rate.limiter.requests.write",
        RateLimiterDelayedRequestsRead = "rocksdb.rate.limiter.delayed.requests.read",
        RateLimiterDelayedRequestsWrite = "rocksdb.rate.limiter.delayed.requests.write",
        RateLimiterTotalWaitMicrosRead = "rocksdb.rate.limiter.total.wait.micros.read",
        RateLimiterTotalWaitMicrosWrite = "rocksdb.rate.limiter.total.wait.micros.write",
        BlobDbBlobFileBytesWritten = "rocksdb.blobdb.blob.file.bytes.written",
        BlobDbBlobFileSynced = "rocksdb.blobdb.blob.file.synced",
        BlobDbGcNumKeysRelocated = "rocksdb.blobdb.gc.num.keys.relocated",
        BlobDbGcBytesRelocated = "rocksdb.blobdb.gc.bytes.relocated",
        FilesMarkedTrash = "rocksdb.files.marked.trash",
        FilesDeletedFromTrashQueue = "rocksdb.files.marked.trash.deleted",
        FilesDeletedImmediately = "rocksdb.files.deleted.immediately",
        ErrorHandlerBgErrorCount = "rocksdb.error.handler.bg.error.count",
        ErrorHandlerAutoresumeCount = "rocksdb.error.handler.autoresume.count",
        ErrorHandlerAutoresumeRetryTotalCount = "rocksdb.error.handler.autoresume.retry.total.count",
        ErrorHandlerAutoresumeSuccessCount = "rocksdb.error.handler.autoresume.success.count",
        VerifyChecksumReadBytes = "rocksdb.verify_checksum.read.bytes",
        BackupReadBytes = "rocksdb.backup.read.bytes",
        BackupWriteBytes = "rocksdb.backup.write.bytes",
        RemoteCompactReadBytes = "rocksdb.remote.compact.read.bytes",
        RemoteCompactWriteBytes = "rocksdb.remote.compact.write.bytes",
        LastLevelReadBytes = "rocksdb.last.level.read.bytes",
        LastLevelReadCount = "rocksdb.last.level.read.count",
        NonLastLevelReadBytes = "rocksdb.non.last.level.read.bytes",
        NonLastLevelReadCount = "rocksdb.non.last.level.read.count",
        BlockChecksumComputeCount = "rocksdb.block.checksum.compute.count",
        BlockChecksumMismatchCount = "rocksdb.block.checksum.mismatch.count",
        BlobDbBlobFileBytesRead = "rocksdb.blobdb.blob.file.bytes.read",
        BlobDbCacheMiss = "rocksdb.blobdb.cache.miss",
        BlobDbCacheHit = "rocksdb.blobdb.cache.hit",
        BlobDbCacheAdd = "rocksdb.blobdb.cache.add",
        BlobDbCacheAddFailures = "rocksdb.blobdb.cache.add.failures",
        BlobDbCacheBytesRead = "rocksdb.blobdb.cache.bytes.read",
        BlobDbCacheBytesWrite = "rocksdb.blobdb.cache.bytes.write",
        ReadAsyncMicros = "rocksdb.read.async.micros",
        AsyncReadErrorCount = "rocksdb.async.read.error.count",
        FifoMaxSizeCompactions = "rocksdb.fifo.max.size.compactions",
        FifoTtlCompactions = "rocksdb.fifo.ttl.compactions",
        FifoChangeTemperatureCompactions = "rocksdb.fifo.change_temperature.compactions",
        PrefetchBytes = "rocksdb.prefetch.bytes",
        PrefetchBytesUseful = "rocksdb.prefetch.bytes.useful",
        PrefetchHits = "rocksdb.prefetch.hits",
        FlushReasonWriteBufferFull = "rocksdb.flush.reason.write_buffer_full",
        FlushReasonWriteBufferManager = "rocksdb.flush.reason.write_buffer_manager",
        CheckpointReadBytes = "rocksdb.checkpoint.read.bytes",
        CheckpointWriteBytes = "rocksdb.checkpoint.write.bytes",
    }
}

impl HistogramKind {
    /// Whether the values are times.
    #[must_use]
    pub fn is_time(self) -> bool {
        let name = self.name();
        name.contains("micros") || name.contains("nanos") || self == HistogramKind::WriteStall
    }
}

names! {
    /// A histogram, in microseconds unless the name says otherwise (RocksDB: `Histograms`).
    pub enum HistogramKind {
        DbGet = "rocksdb.db.get.micros",
        DbWrite = "rocksdb.db.write.micros",
        CompactionTime = "rocksdb.compaction.times.micros",
        CompactionCpuTime = "rocksdb.compaction.times.cpu_micros",
        TableSyncMicros = "rocksdb.table.sync.micros",
        CompactionOutfileSyncMicros = "rocksdb.compaction.outfile.sync.micros",
        WalFileSyncMicros = "rocksdb.wal.file.sync.micros",
        ManifestFileSyncMicros = "rocksdb.manifest.file.sync.micros",
        TableOpenIoMicros = "rocksdb.table.open.io.micros",
        DbMultiget = "rocksdb.db.multiget.micros",
        NumFilesInSingleCompaction = "rocksdb.numfiles.in.singlecompaction",
        DbSeek = "rocksdb.db.seek.micros",
        WriteStall = "rocksdb.db.write.stall",
        SstReadMicros = "rocksdb.sst.read.micros",
        NumSubcompactionsScheduled = "rocksdb.num.subcompactions.scheduled",
        BytesPerRead = "rocksdb.bytes.per.read",
        BytesPerWrite = "rocksdb.bytes.per.write",
        BytesPerMultiget = "rocksdb.bytes.per.multiget",
        ReadNumMergeOperands = "rocksdb.read.num.merge_operands",
        BlobDbBlobFileReadMicros = "rocksdb.blobdb.blob.file.read.micros",
        BlobDbDecompressionMicros = "rocksdb.blobdb.decompression.micros",
        FlushTime = "rocksdb.db.flush.micros",
        SstBatchSize = "rocksdb.sst.batch.size",
        MultigetIoBatchSize = "rocksdb.multiget.io.batch.size",
        NumLevelReadPerMultiget = "rocksdb.num.level.read.per.multiget",
        AsyncReadBytes = "rocksdb.async.read.bytes",
        PrefetchedBytesDiscarded = "rocksdb.prefetched.bytes.discarded",
        IngestExternalFilePrepareTime = "rocksdb.ingest.external.file.prepare.micros",
        IngestExternalFileRunTime = "rocksdb.ingest.external.file.run.micros",
        RateLimiterWaitMicrosRead = "rocksdb.rate.limiter.wait.micros.read",
        RateLimiterWaitMicrosWrite = "rocksdb.rate.limiter.wait.micros.write",
        FlushMemtableTotalDataSize = "rocksdb.flush.memtable.total.data.size.bytes",
        NumOpPerTransaction = "rocksdb.num.op.per.transaction",
        MultigetDeviceRounds = "koeldb.multiget.device.rounds",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again() {
        for (index, ticker) in Ticker::all().enumerate() {
            assert_eq!(Ticker::from_name(ticker.name()), Some(ticker));
            assert_eq!(ticker.index(), index);
        }
        for (index, kind) in HistogramKind::all().enumerate() {
            assert_eq!(HistogramKind::from_name(kind.name()), Some(kind));
            assert_eq!(kind.index(), index);
        }
        assert_eq!(Ticker::from_name("rocksdb.db.get.micros"), None);
    }
}
