//! The writes of a database: checks before the queue, and the state of its leader.
//!
//! Only the leader accesses [`CommitState`]. A group becomes one log record; its entries get
//! consecutive sequence numbers; the last one is published when all entries are in the memtables,
//! so that no reader sees a part of a batch. A failed log is never used again: no write is
//! acknowledged from a later one until every column family was flushed past it
//! (`docs/reliability.md`, O20).

use std::cell::LazyCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use koeldb_base::coding::to_usize;
use koeldb_base::error::WriteOutcome;
use koeldb_base::limits::ENTRY_BYTES_MAX;
use koeldb_base::stats::HistogramKind;
use koeldb_base::timestamp::{TIMESTAMP_BYTES, split};
use koeldb_base::{Error, ErrorKind, KeyOrder, Result, SeqNo, ValueType};
use koeldb_fs::rate_limit::{IoCharge, IoKind, IoPriority};
use koeldb_memtable::Memtable;

use super::apply::position_of;
use super::fold::MergeFolding;
use super::group_wait::GroupWait;
use super::low_priority::LowPriorityWrites;
use super::queue::{Insertion, WriteQueue};
use super::recent_writes::RecentWrites;
use super::writer::{CommitMode, StallTimeout};
use crate::background::Background;
use crate::background::rest::Rest;
use crate::batch::{Operation, WriteBatch, sum_of, verify};
use crate::env::write_buffers::{Charge, WriteBufferManager};
use crate::options::WriteOptions;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::column_family_set::ColumnFamilySet;
use crate::state::context::Context;
use crate::state::counters::WriteCounters;
use crate::state::deleted_ranges::WatchedRanges;
use crate::state::health::Health;
use crate::state::job_slots::JobSlots;
use crate::state::memtables::write_buffer_bytes;
use crate::state::visibility::Visibility;
use crate::state::write_stall::WriteStall;
use crate::tree::{Tree, TreeParts};
use crate::wal::{Wal, WalSet};

/// The write path of a database: write queue, stalls, write-ahead log, and memtable switches.
///
/// It stands on all other parts that change a database: a step that excludes writes leads its queue.
pub(crate) struct CommitPipeline {
    pub(crate) context: Arc<Context>,
    pub(crate) health: Arc<Health>,
    pub(crate) slots: Arc<JobSlots>,
    pub(crate) families: Arc<ColumnFamilySet>,
    pub(crate) visibility: Arc<Visibility>,
    pub(crate) wals: Arc<WalSet>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) background: Arc<Background>,
    pub(crate) stall: Arc<WriteStall>,
    pub(crate) queue: WriteQueue,
    /// Whether a memtable has reached its check size, so that the next leader checks all of them.
    pub(crate) check_due: AtomicBool,
    pub(crate) low_priority: LowPriorityWrites,
    pub(crate) rest: Rest,
    pub(crate) write_buffers: Option<WriteBufferManager>,
    /// Whether a job is scheduled that seals a memtable to free memory for another database.
    pub(crate) is_relieving: AtomicBool,
    pub(crate) counters: Arc<WriteCounters>,
    /// The charge of log records to the rate limiter; `None` if they are not limited.
    log_charge: Option<Arc<IoCharge>>,
    /// The source of the records that each new log repeats.
    pub(crate) carried: Arc<dyn CarriedRecords>,
}

/// A source of records to repeat in each new log: the undecided prepared transactions.
pub(crate) trait CarriedRecords: Send + Sync {
    /// Returns the records to repeat in a new log, each with its number of operations.
    fn carried(&self) -> Vec<(Vec<u8>, u32)>;
}

/// The components from which a [`CommitPipeline`] is built, besides the [`TreeParts`].
pub(crate) struct WriteParts<'d> {
    pub(crate) tree: &'d Arc<Tree>,
    pub(crate) background: &'d Arc<Background>,
    pub(crate) stall: &'d Arc<WriteStall>,
    pub(crate) counters: &'d Arc<WriteCounters>,
    pub(crate) carried: Arc<dyn CarriedRecords>,
}

/// A column family with its active memtable, into which the members of a write group insert.
#[derive(Clone)]
pub(crate) struct ColumnFamilyMemtable {
    pub(crate) family: Arc<ColumnFamilyData>,
    pub(crate) memtable: Arc<Memtable>,
    /// The newest sequence number from when the memtable became the active one.
    pub(crate) earliest_seqno: SeqNo,
    pub(crate) charge: Option<Arc<Charge>>,
    pub(crate) write_buffer_bytes: usize,
    /// The number of range tombstones with which the memtable is sealed; 0 for any.
    pub(crate) range_deletions_max: u64,
    /// The deleted ranges that an inserted entry invalidates.
    pub(crate) watched: WatchedRanges,
    /// The rule for folding merge operands, if writes fold them.
    pub(crate) folding: Option<MergeFolding>,
}

impl ColumnFamilyMemtable {
    /// Returns the column family with its current memtable; `last_seqno` is the newest number.
    pub(crate) fn of(family: &Arc<ColumnFamilyData>, last_seqno: SeqNo) -> Self {
        family.read(|state| ColumnFamilyMemtable {
            family: Arc::clone(family),
            memtable: Arc::clone(&state.active.memtable),
            earliest_seqno: last_seqno,
            charge: state.active.charge.clone(),
            write_buffer_bytes: write_buffer_bytes(&state.options),
            range_deletions_max: u64::from(state.options.memtable_max_range_deletions),
            watched: WatchedRanges::default(),
            folding: MergeFolding::of(&state.options),
        })
    }

    /// Whether the memtable has `memtable_max_range_deletions`, so that it must be switched.
    #[inline]
    pub(super) fn has_many_range_deletions(&self) -> bool {
        self.range_deletions_max != 0
            && self.memtable.range_deletion_count() >= self.range_deletions_max
    }

    /// The bytes that a flush of the memtable would free; 0 if it is empty or has no memory charge.
    pub(super) fn freeable_bytes(&self) -> u64 {
        match &self.charge {
            Some(charge) if !self.memtable.is_empty() => charge.bytes(),
            _ => 0,
        }
    }
}

/// The log, last sequence number and memtables, which only the write leader accesses.
pub(crate) struct CommitState {
    pub(crate) wal: Option<Wal>,
    pub(crate) last_seqno: SeqNo,
    /// The length of the log at which the leader compares the logs with `max_total_wal_size`.
    pub(crate) wal_check_bytes: u64,
    /// The column families by ascending id; shared with the members of a group during insertion.
    pub(crate) families: Arc<Vec<ColumnFamilyMemtable>>,
    /// The keys of the latest writes, for the checks of optimistic commits.
    pub(crate) recent: RecentWrites,
    /// The last synced group, for the wait of the next leader.
    pub(crate) group_wait: GroupWait,
}

impl CommitState {
    /// Returns the position of column family `id`; `None` if it was dropped.
    pub(crate) fn position_of(&self, id: u32) -> Option<usize> {
        position_of(&self.families, id)
    }

    /// Whether the log has grown so far that the leader must check `max_total_wal_size`.
    #[inline]
    pub(super) fn is_wal_check_due(&self) -> bool {
        let wal = self.wal.as_ref();
        self.wal_check_bytes != u64::MAX
            && wal.is_some_and(|wal| wal.writer.len() >= self.wal_check_bytes)
    }

    /// Returns the log being written; `ShutdownInProgress` if the database is closed.
    pub(crate) fn wal(&mut self) -> Result<&mut Wal> {
        self.wal.as_mut().ok_or_else(|| {
            Error::with_kind(ErrorKind::ShutdownInProgress, "the database is closed")
        })
    }
}

impl CommitPipeline {
    pub(crate) fn new(commit: CommitState, write: WriteParts<'_>, parts: &TreeParts<'_>) -> Self {
        let options = &parts.context.db_options;
        let tables = &parts.context.table_files;
        let queue = WriteQueue::new(
            commit,
            Insertion::of(options),
            to_usize(options.max_write_batch_group_size_bytes),
        );
        CommitPipeline {
            context: Arc::clone(parts.context),
            health: Arc::clone(parts.health),
            slots: Arc::clone(parts.slots),
            families: Arc::clone(parts.families),
            visibility: Arc::clone(parts.visibility),
            wals: Arc::clone(parts.wals),
            tree: Arc::clone(write.tree),
            background: Arc::clone(write.background),
            stall: Arc::clone(write.stall),
            carried: write.carried,
            queue: match options.enable_write_thread_adaptive_yield {
                true => queue.spinning_for(options.write_thread_max_yield_usec),
                false => queue.without_spinning(),
            },
            check_due: AtomicBool::new(false),
            low_priority: LowPriorityWrites::default(),
            rest: Rest::default(),
            write_buffers: tables.memtables.write_buffers.clone(),
            is_relieving: AtomicBool::new(false),
            counters: Arc::clone(write.counters),
            log_charge: tables.user_charge(IoPriority::User, IoKind::Write),
        }
    }

    /// Makes the next write leader check all memtables and switch those that are full.
    pub(crate) fn check_memtables_soon(&self) {
        self.check_due.store(true, Ordering::Relaxed);
    }

    /// Writes a batch: validates it, and commits it alone or as a member of a write group.
    ///
    /// Its keys are locked, if transactions need that.
    #[inline]
    pub(crate) fn write(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<()> {
        batch.check_timestamps()?;
        let mode = self.check_write(batch, options)?;
        let begun = self.context.measures().then(|| self.context.clock.now());
        let written = self.queue.write(self, batch.records(), batch.count(), mode);
        if written.is_err() {
            self.health.report_failures();
        }
        written?;
        if let Some(begun) = begun {
            self.context.record_elapsed(HistogramKind::DbWrite, begun);
        }
        Ok(())
    }

    /// Validates a batch and its write options, and delays the write as stalls and limits require.
    ///
    /// It waits for the rate limiter, for compactions at low priority, and in a stall of its column
    /// families. Operations may still lack their timestamps: see [`WriteBatch::check_timestamps`].
    // Inlined, it makes `write` so large that its locks are called instead.
    #[inline(never)]
    pub(crate) fn check_write(
        &self,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<CommitMode> {
        if !batch.belongs_to(self.context.id) {
            return Err(Error::invalid_argument(
                "the batch names a column family of another database",
            )
            .with_outcome(WriteOutcome::NotApplied));
        }
        batch.check_size()?;
        if options.sync && options.disable_wal {
            return Err(
                Error::invalid_argument("sync and disable_wal exclude each other")
                    .with_outcome(WriteOutcome::NotApplied),
            );
        }
        let protection = match options.protection_bytes_per_key {
            0 => batch.protection(),
            8 => Some(
                batch
                    .protection()
                    .unwrap_or_else(|| sum_of(batch.records())),
            ),
            bytes => return Err(refused_protection(bytes)),
        };
        verify(batch.records(), batch.protection()).map_err(not_applied)?;
        self.check_batch(batch, options.ignore_missing_column_families)?;
        if let Some(priority) = options.rate_limiter_priority {
            self.pay_for_log(batch, options, priority)?;
        }
        let mode = CommitMode {
            sync: options.sync,
            disable_wal: options.disable_wal,
            no_slowdown: options.no_slowdown,
            protection,
            stall_timeout: options
                .stall_timeout
                .map(|limit| StallTimeout::new(limit, &*self.context.clock)),
        };
        if options.low_pri {
            self.yield_to_compactions(batch.records().len(), mode)?;
        }
        self.wait_out_stall(batch.records(), mode)?;
        Ok(mode)
    }

    /// Rejects or delays a write while the column families of its records are stalled.
    ///
    /// The write waits before it is queued: the leader would keep the writes of other column
    /// families waiting.
    #[inline]
    pub(crate) fn wait_out_stall(&self, records: &[u8], mode: CommitMode) -> Result<()> {
        match self.stall.is_normal() {
            true => Ok(()),
            false => self.wait_while_stalled(records, mode).map_err(not_applied),
        }
    }

    /// Charges the log record of a write to the rate limiter.
    ///
    /// The write waits before it is queued, so that no other write waits for its tokens.
    #[cold]
    fn pay_for_log(
        &self,
        batch: &WriteBatch,
        options: &WriteOptions,
        priority: IoPriority,
    ) -> Result<()> {
        let refused = match () {
            () if priority != IoPriority::User => "must be User for writes",
            () if options.disable_wal => "charges the log, which disable_wal skips",
            () if self.context.db_options.manual_wal_flush => "excludes manual_wal_flush",
            () => {
                if let Some(charge) = &self.log_charge {
                    charge.pay(batch.records().len() as u64);
                }
                return Ok(());
            }
        };
        Err(
            Error::invalid_argument(format!("rate_limiter_priority {refused}"))
                .with_outcome(WriteOutcome::NotApplied),
        )
    }

    /// Rejects a batch that names unknown column families, or has entries that no table can hold.
    ///
    /// The insertion skips the entries of families that do not exist, as does a recovery.
    fn check_batch(&self, batch: &WriteBatch, ignore_missing: bool) -> Result<()> {
        // Locked only for a family other than the default one.
        let families = LazyCell::new(|| self.families.by_id());
        let mut known: Option<&Arc<ColumnFamilyData>> = None;
        let mut operations = batch.iter();
        let names_timestamps = batch.has_dated();
        while let Some(operation) = operations.next_operation()? {
            let Operation {
                cf,
                value_type,
                key,
                value,
            } = operation;
            let family = match known {
                Some(family) if family.id == cf => family,
                _ => {
                    let found = match cf {
                        0 => Some(self.families.default_family()),
                        _ => families.get(&cf).filter(|family| !family.is_dropped()),
                    };
                    if found.is_none() && ignore_missing {
                        continue;
                    }
                    let family = found.ok_or_else(|| {
                        Error::with_kind(
                            ErrorKind::ColumnFamilyDropped,
                            format!("the batch names column family {cf}, which was dropped or never existed"),
                        )
                        .with_outcome(WriteOutcome::NotApplied)
                    })?;
                    if family.disallows_writes {
                        return Err(not_applied(Error::invalid_argument(format!(
                            "column family {cf} has disallow_memtable_writes: only ingestion fills it"
                        ))));
                    }
                    known = Some(family);
                    family
                }
            };
            if family.has_timestamps || names_timestamps {
                let is_dated = batch.is_dated(operations.records().len());
                check_dated(family, value_type, (key, value), is_dated).map_err(not_applied)?;
            }
            let is_range = value_type == ValueType::RangeDeletion;
            if is_range && family.order.compare_without_timestamps(key, value).is_gt() {
                return Err(Error::invalid_argument(
                    "delete_range: the end of the range comes before its start",
                )
                .with_outcome(WriteOutcome::NotApplied));
            }
            check_entry(&family.order, key, value)?;
        }
        Ok(())
    }
}

impl CommitPipeline {
    /// Returns how long a write may wait in a stall; fails by `no_slowdown` or `stall_timeout`.
    pub(super) fn remaining_of(
        &self,
        mode: CommitMode,
        is_stalled: impl Fn() -> bool,
    ) -> Result<Duration> {
        // Queued writers are not woken when a stall begins.
        const SLICE: Duration = Duration::from_millis(5);
        if mode.no_slowdown && is_stalled() {
            return Err(not_applied(Error::with_kind(
                ErrorKind::Incomplete,
                "writes are stalled, and no_slowdown is set",
            )));
        }
        let left = match mode.stall_timeout {
            Some(stall_timeout) => stall_timeout.left(&*self.context.clock),
            None => Duration::MAX,
        };
        if left.is_zero() && is_stalled() {
            return Err(not_applied(Error::with_kind(
                ErrorKind::TimedOut,
                "writes were stalled for longer than stall_timeout",
            )));
        }
        Ok(if left.is_zero() || mode.no_slowdown {
            SLICE
        } else {
            left
        })
    }
}

/// Returns the error of an unsupported `protection_bytes_per_key`.
#[cold]
fn refused_protection(bytes: u64) -> Error {
    not_applied(Error::invalid_argument(format!(
        "protection_bytes_per_key must be 0 or 8, but is {bytes}"
    )))
}

/// Adds to an error the outcome that the write was not applied.
pub(super) fn not_applied(error: Error) -> Error {
    error.with_outcome(WriteOutcome::NotApplied)
}

/// Rejects an operation without a timestamp where keys have them, and one with it where not.
///
/// `is_dated` is whether its keys end with a timestamp; `None` if that is unknown.
#[cold]
fn check_dated(
    family: &ColumnFamilyData,
    value_type: ValueType,
    (key, value): (&[u8], &[u8]),
    is_dated: Option<bool>,
) -> Result<()> {
    let name = &family.name;
    if !family.has_timestamps {
        return match is_dated {
            Some(true) => Err(Error::invalid_argument(format!(
                "the batch has a timestamp for column family {name:?}, which has no user-defined \
                 timestamps"
            ))),
            _ => Ok(()),
        };
    }
    let is_range = value_type == ValueType::RangeDeletion;
    let is_short = |key: &[u8]| key.len() < TIMESTAMP_BYTES;
    if is_dated == Some(false) || is_short(key) || is_range && is_short(value) {
        return Err(Error::invalid_argument(format!(
            "column family {name:?} has user-defined timestamps: write to it with one \
             (put_with_ts, WriteBatch::put_cf_with_ts)"
        )));
    }
    if is_range && split(key).1 != split(value).1 {
        return Err(Error::invalid_argument(
            "delete_range: start and end of the range have different timestamps",
        ));
    }
    match value_type {
        ValueType::WideColumnEntity => Err(Error::not_supported(format!(
            "wide columns are not supported in column family {name:?}, which has user-defined \
             timestamps"
        ))),
        _ => Ok(()),
    }
}

/// Rejects an entry that is too large, or whose key has a length the comparator does not take.
pub(crate) fn check_entry(order: &KeyOrder, key: &[u8], value: &[u8]) -> Result<()> {
    let bytes = key.len().saturating_add(value.len());
    if bytes > ENTRY_BYTES_MAX {
        return Err(not_applied(Error::invalid_argument(format!(
            "key and value are too large: {bytes} bytes, at most {ENTRY_BYTES_MAX}"
        ))));
    }
    if matches!(order, KeyOrder::Uint64) && key.len() != 8 {
        return Err(not_applied(Error::invalid_argument(format!(
            "rocksdb.Uint64Comparator needs keys of 8 bytes, but this one has {}",
            key.len()
        ))));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use koeldb_base::sync::SPINS;
    use koeldb_fs::{MemoryFileSystem, SystemClock};

    use crate::{Db, Env, Options};

    #[test]
    fn waiting_writers_spin_unless_the_option_forbids_it() {
        let spins = |on: bool, micros: u64| {
            let memory = Arc::new(MemoryFileSystem::new());
            let mut options = Options::new();
            options
                .create_if_missing(true)
                .set_enable_write_thread_adaptive_yield(on)
                .set_write_thread_max_yield_usec(Duration::from_micros(micros))
                .set_env(&Env::new(memory, Arc::new(SystemClock)));
            let db = Db::open(&options, "/db").unwrap();
            let queue = &db.inner().commit.queue;
            (queue.spinners_max, queue.spins_max)
        };
        let spinners = koeldb_base::sync::cores().saturating_sub(1);
        assert_eq!(spins(false, 100).0, 0);
        assert_eq!(spins(true, 0).0, 0);
        assert_eq!(spins(true, 100), (spinners, SPINS));
        assert_eq!(spins(true, 10), (spinners, SPINS / 10));
    }
}
