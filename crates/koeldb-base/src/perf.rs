//! Perf context and I/O statistics: counts and times of the operations of one thread.
//!
//! The counts belong to the calling thread and cost nothing shared. While a thread's [`PerfLevel`]
//! is [`PerfLevel::Disable`], a place that counts loads one thread-local byte and reads no clock.
//!
//! The names are those of RocksDB's `PerfContext` and `IOStatsContext`
//! (`include/rocksdb/perf_context.h`, `iostats_context.h`, 11.9).

use std::cell::Cell;
use std::fmt;
use std::time::Instant;

/// The level of measurement of a thread; each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PerfLevel {
    /// No measurements.
    #[default]
    Disable = 1,
    /// Counts, without a clock.
    EnableCount = 2,
    /// Also times of waits: for locks of keys, for other writes and for stalls.
    EnableWait = 3,
    /// Also all other times. No mutex is timed, so that this equals [`PerfLevel::EnableTime`].
    EnableTimeExceptForMutex = 4,
    /// All measurements.
    EnableTime = 6,
}

/// The unit of a metric, which determines the lowest level that includes the metric.
#[derive(Clone, Copy)]
enum Kind {
    Count,
    Wait,
    Time,
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $kind:ident;)*) => {
        /// A count or time of a [`PerfContext`]. Times are in nanoseconds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum PerfMetric {
            $($(#[$doc])* $name,)*
        }

        impl PerfMetric {
            /// All metrics; those of I/O come last.
            pub const ALL: &'static [PerfMetric] = &[$(PerfMetric::$name,)*];

            /// Returns the name of the metric in RocksDB, such as `block_read_count`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(PerfMetric::$name => $text,)*
                }
            }

            /// Returns the unit of the metric.
            const fn kind(self) -> Kind {
                match self {
                    $(PerfMetric::$name => Kind::$kind,)*
                }
            }
        }
    };
}

metrics! {
    /// Blocks found in the block cache.
    BlockCacheHitCount = "block_cache_hit_count", Count;
    /// Index blocks found in the block cache.
    BlockCacheIndexHitCount = "block_cache_index_hit_count", Count;
    /// Filter blocks found in the block cache.
    BlockCacheFilterHitCount = "block_cache_filter_hit_count", Count;
    /// Blocks read from files.
    BlockReadCount = "block_read_count", Count;
    /// Stored bytes of the blocks read from files.
    BlockReadByte = "block_read_byte", Count;
    /// Index blocks read from files.
    IndexBlockReadCount = "index_block_read_count", Count;
    /// Filter blocks read from files.
    FilterBlockReadCount = "filter_block_read_count", Count;
    /// Compression dictionaries read from files.
    CompressionDictBlockReadCount = "compression_dict_block_read_count", Count;
    /// Time of blocking reads of blocks.
    BlockReadTime = "block_read_time", Time;
    /// Time of verifying checksums of blocks.
    BlockChecksumTime = "block_checksum_time", Time;
    /// Time of decompressing and parsing blocks.
    BlockDecompressTime = "block_decompress_time", Time;
    /// Values found in the blob cache.
    BlobCacheHitCount = "blob_cache_hit_count", Count;
    /// Bytes of the values found in the blob cache.
    BlobCacheReadByte = "blob_cache_read_byte", Count;
    /// Values read from blob files.
    BlobReadCount = "blob_read_count", Count;
    /// Bytes read from blob files.
    BlobReadByte = "blob_read_byte", Count;
    /// Time of blocking reads of blob files.
    BlobReadTime = "blob_read_time", Time;
    /// Time of verifying checksums of values of blob files.
    BlobChecksumTime = "blob_checksum_time", Time;
    /// Time of decompressing values of blob files.
    BlobDecompressTime = "blob_decompress_time", Time;
    /// Keys that a filter of a table denied.
    BloomSstMissCount = "bloom_sst_miss_count", Count;
    /// Keys that a filter of a table admitted.
    BloomSstHitCount = "bloom_sst_hit_count", Count;
    /// Bytes of values that point reads returned, except from cuckoo tables.
    GetReadBytes = "get_read_bytes", Count;
    /// Bytes of values that batches of point reads returned.
    MultigetReadBytes = "multiget_read_bytes", Count;
    /// Point reads that searched the memtables.
    GetFromMemtableCount = "get_from_memtable_count", Count;
    /// Time of searching memtables in point reads.
    GetFromMemtableTime = "get_from_memtable_time", Time;
    /// Time of searching tables in point reads.
    GetFromOutputFilesTime = "get_from_output_files_time", Time;
    /// Time of point reads after the search: merging operands.
    GetPostProcessTime = "get_post_process_time", Time;
    /// Seeks of cursors.
    IterSeekCount = "iter_seek_count", Count;
    /// Time of seeks of cursors.
    SeekInternalSeekTime = "seek_internal_seek_time", Time;
    /// Time of writing the log, with its syncs.
    WriteWalTime = "write_wal_time", Time;
    /// Time of inserting into memtables.
    WriteMemtableTime = "write_memtable_time", Time;
    /// Time of delays and stops of writes.
    WriteDelayTime = "write_delay_time", Wait;
    /// Time of waiting for the leader of a write group, or to become the leader.
    WriteThreadWaitNanos = "write_thread_wait_nanos", Wait;
    /// Waits for locks of keys.
    KeyLockWaitCount = "key_lock_wait_count", Count;
    /// Time of waits for locks of keys.
    KeyLockWaitTime = "key_lock_wait_time", Wait;
    /// I/O: bytes that system calls read.
    BytesRead = "bytes_read", Count;
    /// I/O: bytes that system calls wrote.
    BytesWritten = "bytes_written", Count;
    /// I/O: time of system calls that read.
    ReadNanos = "read_nanos", Time;
    /// I/O: time of system calls that wrote.
    WriteNanos = "write_nanos", Time;
    /// I/O: time of syncs of files and directories.
    FsyncNanos = "fsync_nanos", Time;
}

const METRICS: usize = PerfMetric::ALL.len();

impl PerfMetric {
    /// Whether the metric is one of RocksDB's `IOStatsContext`, not of its `PerfContext`.
    #[must_use]
    pub fn is_io(self) -> bool {
        self as usize >= PerfMetric::BytesRead as usize
    }

    /// The lowest level that includes the metric.
    const fn level(self) -> PerfLevel {
        match self.kind() {
            Kind::Count => PerfLevel::EnableCount,
            Kind::Wait => PerfLevel::EnableWait,
            Kind::Time => PerfLevel::EnableTimeExceptForMutex,
        }
    }
}

thread_local! {
    static LEVEL: Cell<PerfLevel> = const { Cell::new(PerfLevel::Disable) };
    static VALUES: [Cell<u64>; METRICS] = const { [const { Cell::new(0) }; METRICS] };
}

/// Whether the perf level of this thread is other than [`PerfLevel::Disable`].
#[inline]
#[must_use]
pub fn is_on() -> bool {
    LEVEL.get() != PerfLevel::Disable
}

/// Adds `amount` to a metric of this thread, if its perf level includes the metric.
#[inline]
pub fn count(metric: PerfMetric, amount: u64) {
    if is_on() {
        add(metric, amount);
    }
}

/// Adds `amount` to a metric if the perf level includes it: the slow path of [`count`].
#[cold]
fn add(metric: PerfMetric, amount: u64) {
    if LEVEL.get() >= metric.level() {
        VALUES.with(|values| {
            let value = &values[metric as usize];
            value.set(value.get().wrapping_add(amount));
        });
    }
}

/// Starts a timer that adds its lifetime to a metric of this thread, if the perf level includes it.
#[inline]
#[must_use]
pub fn timer(metric: PerfMetric) -> Timer {
    Timer(if is_on() { started(metric) } else { None })
}

/// Starts timing a metric; `None` if the perf level excludes it.
#[cold]
#[expect(
    clippy::disallowed_methods,
    reason = "the times are only reported, and no behaviour depends on them"
)]
fn started(metric: PerfMetric) -> Option<(PerfMetric, Instant)> {
    (LEVEL.get() >= metric.level()).then(|| (metric, Instant::now()))
}

/// A running timer; its drop adds the elapsed time to a metric.
#[derive(Debug)]
pub struct Timer(Option<(PerfMetric, Instant)>);

impl Drop for Timer {
    #[inline]
    fn drop(&mut self) {
        if let Some((metric, begun)) = self.0 {
            stopped(metric, begun);
        }
    }
}

/// Adds the time since `begun`, in nanoseconds, to a metric.
#[cold]
fn stopped(metric: PerfMetric, begun: Instant) {
    add(
        metric,
        u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
    );
}

/// Returns the perf level of this thread.
#[must_use]
pub fn level() -> PerfLevel {
    LEVEL.get()
}

/// Sets the perf level of this thread.
pub fn set_level(level: PerfLevel) {
    LEVEL.set(level);
}

/// Sets all metrics of this thread to zero.
pub fn reset() {
    VALUES.with(|values| values.iter().for_each(|value| value.set(0)));
}

/// Returns the metrics of this thread since it began, or since the last [`reset`].
#[must_use]
pub fn context() -> PerfContext {
    PerfContext {
        values: VALUES.with(|values| std::array::from_fn(|at| values[at].get())),
    }
}

/// Runs an operation at a perf level; returns its result and the metrics of this thread in it.
///
/// The values of [`context`] include it. The former level is restored, also if `run` panics. Work
/// that other threads do for the operation is not included: reads of an I/O engine, insertions by
/// other members of a write group, background jobs.
pub fn measure<R>(level: PerfLevel, run: impl FnOnce() -> R) -> (R, PerfContext) {
    struct Restore(PerfLevel);

    impl Drop for Restore {
        fn drop(&mut self) {
            LEVEL.set(self.0);
        }
    }

    let before = context();
    let restore = Restore(LEVEL.replace(level));
    let result = run();
    drop(restore);
    let mut done = context();
    for (value, before) in done.values.iter_mut().zip(before.values) {
        *value = value.wrapping_sub(before);
    }
    (result, done)
}

/// The metrics of a thread, or of one measured operation (RocksDB: `PerfContext`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfContext {
    values: [u64; METRICS],
}

impl PerfContext {
    /// The value of `metric`.
    #[must_use]
    pub fn get(&self, metric: PerfMetric) -> u64 {
        self.values[metric as usize]
    }

    /// The metrics and their values.
    pub fn iter(&self) -> impl Iterator<Item = (PerfMetric, u64)> + '_ {
        PerfMetric::ALL.iter().copied().zip(self.values)
    }
}

impl fmt::Display for PerfContext {
    /// Writes the values other than zero as `name = value`, separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (metric, value) in self.iter().filter(|(_, value)| *value != 0) {
            write!(f, "{separator}{} = {value}", metric.name())?;
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_includes_its_kinds_of_metrics_and_those_of_lower_levels() {
        let run = || {
            count(PerfMetric::BlockReadCount, 2);
            for metric in [PerfMetric::KeyLockWaitTime, PerfMetric::BlockReadTime] {
                let _timer = timer(metric);
                // Longer than a step of the clock of any machine.
                (0..1000).for_each(|_| std::thread::yield_now());
            }
        };
        let seen = |level| {
            let ((), done) = measure(level, run);
            done.iter().filter(|(_, value)| *value > 0).count()
        };
        assert_eq!(seen(PerfLevel::Disable), 0);
        assert_eq!(seen(PerfLevel::EnableCount), 1);
        assert_eq!(seen(PerfLevel::EnableWait), 2);
        assert_eq!(seen(PerfLevel::EnableTime), 3);
        assert_eq!(level(), PerfLevel::Disable);
        assert_eq!(context().get(PerfMetric::BlockReadCount), 6);
        reset();
        assert_eq!(context().to_string(), "");
    }
}
