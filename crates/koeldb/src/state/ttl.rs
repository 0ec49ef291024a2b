//! TTL databases in RocksDB's form: every value ends with the time at which it was written.
//!
//! ```text
//! value | seconds since 1970, fixed32, little-endian
//! ```
//!
//! A write appends the time, reads cut it off, and compactions remove values that are older than the
//! time to live of their column family. The directory does not tell a TTL database from others: it
//! must always be opened as one. (RocksDB 11.9: `utilities/ttl/db_ttl_impl.cc`.)

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koeldb_base::error::BoxError;
use koeldb_base::merge_operator::{MergeOperands, MergeOperator};
use koeldb_base::{Error, PinnedSlice, Result};
use koeldb_fs::Clock;
use koeldb_lsm::job::{
    CompactionFilter, CompactionFilterContext, CompactionFilterFactory, Decision,
};

use crate::batch::{BatchEntry, WriteBatch};
use crate::options::{ColumnFamilyOptions, Options, TableFormat};

/// The size of the time appended to a value.
pub(crate) const TIME_BYTES: usize = 4;

/// The oldest valid time: the release of RocksDB's TTL databases.
const OLDEST_TIME: u32 = 1_368_146_402;

/// The name of the merge operator of a TTL database, as in RocksDB.
const MERGE_OPERATOR: &str = "TtlMergeOperator";
/// The name of the compaction filter factory of a TTL database, as in RocksDB.
const FILTER_FACTORY: &str = "TtlCompactionFilterFactory";

/// The time to live of each column family of a TTL database (RocksDB: `DBWithTTL`).
#[derive(Clone, Debug, Default)]
pub(crate) struct TtlOptions {
    pub(crate) default: Duration,
    pub(crate) by_name: BTreeMap<String, Duration>,
}

impl TtlOptions {
    /// Returns the time to live of the column family `name`.
    pub(crate) fn of(&self, name: &str) -> Duration {
        self.by_name.get(name).copied().unwrap_or(self.default)
    }
}

/// The time to live of a column family, shared with its compactions.
#[derive(Clone)]
pub(crate) struct Ttl {
    clock: Arc<dyn Clock>,
    /// The time to live in seconds; 0 for ever.
    secs: Arc<AtomicU64>,
}

impl Ttl {
    /// Creates the TTL of a column family, and wraps its merge operator and compaction filter.
    pub(crate) fn new(
        ttl: Duration,
        clock: &Arc<dyn Clock>,
        options: &mut ColumnFamilyOptions,
    ) -> Self {
        let ttl = Ttl {
            clock: Arc::clone(clock),
            secs: Arc::new(AtomicU64::new(ttl.as_secs())),
        };
        if let Some(operator) = &mut options.merge_operator {
            *operator = Arc::new(TtlMerge {
                ttl: ttl.clone(),
                operator: Arc::clone(operator),
            });
        }
        let users = options.clone();
        options.compaction_filter = None;
        options.compaction_filter_factory = Some(Arc::new(TtlFilters {
            ttl: ttl.clone(),
            users,
        }));
        ttl
    }

    /// The time to live; zero for ever.
    pub(crate) fn get(&self) -> Duration {
        Duration::from_secs(self.secs.load(Ordering::Relaxed))
    }

    /// Changes the time to live, for compactions that run from now on.
    pub(crate) fn set(&self, ttl: Duration) {
        self.secs.store(ttl.as_secs(), Ordering::Relaxed);
    }

    /// Returns the current time in seconds since the epoch.
    fn now(&self) -> u32 {
        now(&*self.clock)
    }

    /// Whether a stored value has expired by its timestamp.
    fn is_stale(&self, value: &[u8]) -> bool {
        let secs = self.secs.load(Ordering::Relaxed);
        match split(value) {
            // Another value was not written to a TTL database: it is damaged, not old.
            Some((_, time)) if secs > 0 && time >= OLDEST_TIME => {
                u64::from(time).saturating_add(secs) < u64::from(self.now())
            }
            _ => false,
        }
    }
}

/// The present time in seconds, as values carry it.
pub(crate) fn now(clock: &dyn Clock) -> u32 {
    u32::try_from(clock.unix_micros() / 1_000_000).unwrap_or(u32::MAX)
}

/// Splits a stored value into the user's value and its timestamp; `None` if it is too short.
fn split(stored: &[u8]) -> Option<(&[u8], u32)> {
    let (value, time) = stored.split_last_chunk::<TIME_BYTES>()?;
    Some((value, u32::from_le_bytes(*time)))
}

/// Removes the timestamp from a value that was read.
///
/// # Errors
/// `Corruption` if the value has no valid time: it was not written to a TTL database.
pub(crate) fn strip(found: Result<Option<PinnedSlice>>) -> Result<Option<PinnedSlice>> {
    let Some(stored) = found? else {
        return Ok(None);
    };
    let bytes = shown(&stored)?.len();
    Ok(Some(stored.subslice(0..bytes)))
}

/// Returns the user's part of a stored value, without its timestamp.
///
/// # Errors
/// See [`strip`].
pub(crate) fn shown(stored: &[u8]) -> Result<&[u8]> {
    match split(stored) {
        Some((value, time)) if time >= OLDEST_TIME => Ok(value),
        _ => Err(Error::corruption(
            "a value of a TTL database is too short to end with the time at which it was written",
        )),
    }
}

/// Appends the current timestamp to each value and merge operand of a batch.
pub(crate) fn stamp(batch: &WriteBatch, clock: &dyn Clock) -> Result<WriteBatch> {
    let time = now(clock).to_le_bytes();
    let mut stamped = WriteBatch::new();
    let add_time = |value: &[u8]| [value, &time].concat();
    for entry in batch {
        match entry? {
            BatchEntry::Put { cf, key, value } => stamped.put_id(cf, key, &add_time(value)),
            BatchEntry::Merge { cf, key, operand } => stamped.merge_id(cf, key, &add_time(operand)),
            BatchEntry::Delete { cf, key } => stamped.delete_id(cf, key),
            BatchEntry::SingleDelete { cf, key } => stamped.single_delete_id(cf, key),
            BatchEntry::DeleteRange { cf, from, to } => stamped.delete_range_id(cf, from, to),
            BatchEntry::LogData(data) => stamped.put_log_data(data),
            BatchEntry::PutEntity { .. } => {
                return Err(Error::not_supported("a TTL database has no wide columns"));
            }
        };
    }
    Ok(stamped)
}

/// The merge operator of a TTL database, which applies the user's to values without timestamps.
struct TtlMerge {
    ttl: Ttl,
    operator: Arc<dyn MergeOperator>,
}

impl TtlMerge {
    /// Calls `merge` with the operands without their timestamps.
    fn merge<R>(
        &self,
        operands: MergeOperands<'_>,
        merge: impl FnOnce(MergeOperands<'_>) -> Result<R, BoxError>,
    ) -> Result<R, BoxError> {
        let mut newest_first = Vec::with_capacity(operands.len());
        for operand in operands.iter().rev() {
            newest_first.push(shown(operand)?);
        }
        merge(MergeOperands::from_newest_first(&newest_first))
    }
}

impl MergeOperator for TtlMerge {
    fn name(&self) -> &str {
        MERGE_OPERATOR
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        let existing = existing.map(shown).transpose()?;
        self.merge(operands, |operands| {
            self.operator.full_merge(key, existing, operands, result)
        })?;
        result.extend_from_slice(&self.ttl.now().to_le_bytes());
        Ok(())
    }

    fn partial_merge(
        &self,
        key: &[u8],
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        let merged = self.merge(operands, |operands| {
            self.operator.partial_merge(key, operands, result)
        })?;
        if merged {
            result.extend_from_slice(&self.ttl.now().to_le_bytes());
        }
        Ok(merged)
    }
}

/// The compaction filter factory of a TTL database, which wraps the filter of the user.
struct TtlFilters {
    ttl: Ttl,
    users: ColumnFamilyOptions,
}

/// A compaction filter that drops expired entries before it calls the user's filter.
struct TtlFilter {
    ttl: Ttl,
    user: Option<Box<dyn CompactionFilter>>,
}

impl CompactionFilterFactory for TtlFilters {
    fn name(&self) -> &str {
        FILTER_FACTORY
    }

    fn create(&self, context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>> {
        Some(Box::new(TtlFilter {
            ttl: self.ttl.clone(),
            user: self.users.new_compaction_filter(context),
        }))
    }
}

impl CompactionFilter for TtlFilter {
    fn filter(&mut self, level: u32, key: &[u8], stored: &[u8]) -> Decision {
        if self.ttl.is_stale(stored) {
            return Decision::Remove;
        }
        let (Some(user), Some((value, time))) = (&mut self.user, split(stored)) else {
            return Decision::Keep;
        };
        if time < OLDEST_TIME {
            return Decision::Keep;
        }
        match user.filter(level, key, value) {
            Decision::Change(mut value) => {
                value.extend_from_slice(&time.to_le_bytes());
                Decision::Change(value)
            }
            // A TTL database has no wide columns.
            Decision::ChangeEntity(_) => Decision::Keep,
            decision => decision,
        }
    }
}

/// Returns a `NotSupported` error if the options have transactions, which a TTL database lacks.
pub(crate) fn check_options(options: &Options) -> Result<()> {
    if options.plugins.transactions.is_some() {
        return Err(Error::not_supported("a TTL database has no transactions"));
    }
    Ok(())
}

/// Returns a `NotSupported` error if the family has what a TTL database lacks: cuckoo tables, or
/// user-defined timestamps.
pub(crate) fn check_family(name: &str, options: &ColumnFamilyOptions) -> Result<()> {
    if matches!(options.table_factory, TableFormat::Cuckoo(_)) {
        return Err(Error::not_supported(format!(
            "column family {name:?}: a TTL database has no cuckoo tables"
        )));
    }
    if options.comparator.has_timestamps() {
        return Err(Error::not_supported(format!(
            "column family {name:?}: a TTL database has no user-defined timestamps"
        )));
    }
    Ok(())
}
