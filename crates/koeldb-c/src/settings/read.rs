//! Options of reads.

use std::time::{Duration, Instant};

use koeldb::fs::{Clock, SystemClock};
use koeldb::{ReadTier, Snapshot, Switch};

use crate::settings::write::{number_of, priority_of};

/// The options of a read (`rocksdb_readoptions_t`).
#[derive(Clone, Default)]
pub(crate) struct ReadOptions {
    pub(crate) inner: koeldb::ReadOptions,
    /// The time of the deadline as it was set, in microseconds since 1970.
    deadline: u64,
    /// Kept without effect: obsolete files are always deleted in the background.
    background_purge: bool,
    /// Kept without effect: a snapshot keeps no files, so that its iterators need no refresh.
    auto_refresh: bool,
    merge_operand_threshold: Option<usize>,
    request_id: Option<Vec<u8>>,
    timestamp: Option<Vec<u8>>,
    iter_start_ts: Option<Vec<u8>>,
    /// Kept without effect; none is RocksDB's unknown activity.
    io_activity: Option<i32>,
}

/// The number of the activity of reads that name none.
pub(super) const UNKNOWN_ACTIVITY: i32 = 0xff;

macro_rules! forwarded {
    ($($set:ident, $get:ident: $type:ty = $engine_set:ident;)*) => {
        impl ReadOptions {$(
            pub(crate) fn $set(&mut self, value: $type) {
                self.inner.$engine_set(value);
            }

            pub(crate) fn $get(&self) -> $type {
                self.inner.$get()
            }
        )*}
    };
}

forwarded! {
    set_value_size_soft_limit, get_value_size_soft_limit: u64 = set_value_size_soft_limit;
    set_verify_checksums, get_verify_checksums: bool = set_verify_checksums;
    set_fill_cache, get_fill_cache: bool = fill_cache;
    set_ignore_range_deletions, get_ignore_range_deletions: bool = set_ignore_range_deletions;
    set_optimize_multiget_for_io, get_optimize_multiget_for_io: bool = set_optimize_multiget_for_io;
    set_max_skippable_internal_keys, get_max_skippable_internal_keys: u64 = set_max_skippable_internal_keys;
    set_tailing, get_tailing: bool = set_tailing;
    set_total_order_seek, get_total_order_seek: bool = set_total_order_seek;
    set_auto_prefix_mode, get_auto_prefix_mode: bool = set_auto_prefix_mode;
    set_prefix_same_as_start, get_prefix_same_as_start: bool = set_prefix_same_as_start;
    set_pin_data, get_pin_data: bool = set_pin_data;
    set_adaptive_readahead, get_adaptive_readahead: bool = set_adaptive_readahead;
    set_auto_readahead_size, get_auto_readahead_size: bool = set_auto_readahead_size;
    set_allow_unprepared_value, get_allow_unprepared_value: bool = set_allow_unprepared_value;
}

impl ReadOptions {
    /// Sets the deadline of reads, in microseconds since 1970; zero for none.
    #[expect(
        clippy::disallowed_methods,
        reason = "deadlines of the engine are instants"
    )]
    pub(crate) fn set_deadline(&mut self, micros: u64) {
        self.deadline = micros;
        let left = micros.saturating_sub(SystemClock.unix_micros());
        let at = Instant::now().checked_add(Duration::from_micros(left));
        self.inner.set_deadline(at.filter(|_| micros != 0));
    }

    pub(crate) fn get_deadline(&self) -> u64 {
        self.deadline
    }

    /// Sets the time limit of file reads, in microseconds; zero for none.
    pub(crate) fn set_io_timeout(&mut self, micros: u64) {
        let limit = (micros != 0).then(|| Duration::from_micros(micros));
        self.inner.set_io_timeout(limit);
    }

    pub(crate) fn get_io_timeout(&self) -> u64 {
        let limit = self.inner.get_io_timeout().unwrap_or_default();
        u64::try_from(limit.as_micros()).unwrap_or(u64::MAX)
    }

    /// Sets the read tier.
    pub(crate) fn set_read_tier(&mut self, tier: i32) {
        self.inner.set_read_tier(match tier {
            1 => ReadTier::BlockCache,
            2 => ReadTier::Persisted,
            3 => ReadTier::Memtable,
            _ => ReadTier::All,
        });
    }

    pub(crate) fn get_read_tier(&self) -> i32 {
        match self.inner.get_read_tier() {
            ReadTier::BlockCache => 1,
            ReadTier::Persisted => 2,
            ReadTier::Memtable => 3,
            _ => 0,
        }
    }

    pub(crate) fn set_priority(&mut self, priority: i32) {
        self.inner.set_rate_limiter_priority(priority_of(priority));
    }

    pub(crate) fn get_priority(&self) -> i32 {
        number_of(self.inner.get_rate_limiter_priority())
    }

    pub(crate) fn set_async_io(&mut self, on: bool) {
        self.inner.set_async_io(on);
    }

    pub(crate) fn get_async_io(&self) -> bool {
        self.inner.get_async_io() == Switch::On
    }

    pub(crate) fn set_readahead_size(&mut self, bytes: usize) {
        self.inner.set_readahead_size(bytes as u64);
    }

    pub(crate) fn get_readahead_size(&self) -> u64 {
        self.inner.get_readahead_size()
    }

    pub(crate) fn set_background_purge(&mut self, on: bool) {
        self.background_purge = on;
    }

    pub(crate) fn get_background_purge(&self) -> bool {
        self.background_purge
    }

    pub(crate) fn set_auto_refresh(&mut self, on: bool) {
        self.auto_refresh = on;
    }

    pub(crate) fn get_auto_refresh(&self) -> bool {
        self.auto_refresh
    }

    /// Sets the snapshot that is read, or none.
    pub(crate) fn set_snapshot(&mut self, snapshot: Option<&Snapshot>) {
        match snapshot {
            Some(snapshot) => self.inner.set_snapshot(snapshot),
            None => self.inner.clear_snapshot(),
        };
    }

    /// Sets the key that ends iterators, or none.
    pub(crate) fn set_upper_bound(&mut self, key: Option<&[u8]>) {
        self.inner.set_iterate_upper_bound(key.map(<[u8]>::to_vec));
    }

    /// Sets the first key of iterators, or none.
    pub(crate) fn set_lower_bound(&mut self, key: Option<&[u8]>) {
        self.inner.set_iterate_lower_bound(key.map(<[u8]>::to_vec));
    }

    /// Sets the timestamp of reads, or none.
    pub(crate) fn set_timestamp(&mut self, timestamp: Option<&[u8]>) {
        self.timestamp = timestamp.map(<[u8]>::to_vec);
        self.apply_timestamps();
    }

    /// Sets the timestamp of the oldest versions that iterators show, or none.
    pub(crate) fn set_iter_start_ts(&mut self, timestamp: Option<&[u8]>) {
        self.iter_start_ts = timestamp.map(<[u8]>::to_vec);
        self.apply_timestamps();
    }

    /// Passes both timestamps to the engine.
    ///
    /// If one has another size than 8 bytes, reads must fail: they get a start timestamp alone,
    /// which the engine refuses.
    fn apply_timestamps(&mut self) {
        let eight = |time: &Option<Vec<u8>>| {
            let time = time.as_deref().map(koeldb::Timestamp::try_from);
            time.transpose()
        };
        let (timestamp, start) = match (eight(&self.timestamp), eight(&self.iter_start_ts)) {
            (Ok(timestamp), Ok(start)) => (timestamp, start),
            _ => (None, Some(koeldb::Timestamp::default())),
        };
        self.inner.set_timestamp(timestamp);
        self.inner.set_iter_start_ts(start);
    }

    pub(crate) fn set_merge_threshold(&mut self, count: usize) {
        self.merge_operand_threshold = Some(count);
    }

    pub(crate) fn clear_merge_threshold(&mut self) {
        self.merge_operand_threshold = None;
    }

    pub(crate) fn has_merge_threshold(&self) -> bool {
        self.merge_operand_threshold.is_some()
    }

    pub(crate) fn get_merge_threshold(&self) -> usize {
        self.merge_operand_threshold.unwrap_or_default()
    }

    pub(crate) fn set_request_id(&mut self, id: Option<&[u8]>) {
        self.request_id = id.map(<[u8]>::to_vec);
    }

    pub(crate) fn clear_request_id(&mut self) {
        self.request_id = None;
    }

    pub(crate) fn set_io_activity(&mut self, activity: i32) {
        self.io_activity = Some(activity);
    }

    pub(crate) fn get_io_activity(&self) -> i32 {
        self.io_activity.unwrap_or(UNKNOWN_ACTIVITY)
    }

    pub(crate) fn get_request_id(&self) -> Option<&[u8]> {
        self.request_id.as_deref()
    }
}
