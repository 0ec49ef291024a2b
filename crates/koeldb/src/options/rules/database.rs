//! Rules for the options of a database.

use koeldb_lsm::DATA_PATHS_MAX;

use super::{Rule, rule};
use crate::options::column_family::{ColumnFamilyOptions, CompactionStyle};
use crate::options::db::DbOptions;
use crate::options::db_path::PathList;

/// The rules for every database.
pub(crate) static ALWAYS: &[Rule<DbOptions>] = &[
    rule!(Invalid allow_mmap_reads,
        |db, ()| db.allow_mmap_reads && db.use_direct_reads,
        "not together with use_direct_reads; set one of them to false"),
    rule!(Invalid allow_mmap_writes,
        |db, ()| db.allow_mmap_writes && db.use_direct_io_for_flush_and_compaction,
        "not together with use_direct_io_for_flush_and_compaction; set one of them to false"),
    rule!(Invalid keep_log_file_num = 1,
        |db, ()| db.keep_log_file_num == 0,
        "at least 1"),
    rule!(Invalid unordered_write,
        |db, ()| db.unordered_write && !db.allow_concurrent_memtable_write,
        "needs allow_concurrent_memtable_write=true"),
    rule!(Invalid unordered_write,
        |db, ()| db.unordered_write && db.enable_pipelined_write,
        "not together with enable_pipelined_write; set one of them to false"),
    rule!(Invalid atomic_flush,
        |db, ()| db.atomic_flush && db.enable_pipelined_write,
        "not together with enable_pipelined_write; set one of them to false"),
    rule!(Invalid writable_file_max_buffer_size = 1 << 20,
        |db, ()| db.use_direct_io_for_flush_and_compaction && db.writable_file_max_buffer_size == 0,
        "must be above 0 with use_direct_io_for_flush_and_compaction"),
    rule!(Invalid daily_offpeak_time_utc = String::new(),
        |db, ()| {
            let text = &db.daily_offpeak_time_utc;
            !text.is_empty() && minutes_of_window(text).is_none()
        },
        "must be HH:mm-HH:mm with different ends, or empty"),
    rule!(Invalid write_identity_file,
        |db, ()| !db.write_dbid_to_manifest && !db.write_identity_file,
        "write_dbid_to_manifest or write_identity_file must be true, or the database has no identity"),
    rule!(Invalid read_io_executor_threads = 1,
        |db, ()| db.read_io_executor_threads <= 0,
        "at least 1"),
    Rule {
        detail: Some(|db, ()| format!("at most 4 directories, not {}", db.db_paths.0.len())),
        ..rule!(Unsupported db_paths,
            |db, ()| db.db_paths.0.len() > DATA_PATHS_MAX,
            "at most 4 directories")
    },
    rule!(Invalid db_paths,
        |db, ()| has_empty_path(&db.db_paths),
        "a directory must have a path"),
    rule!(Invalid open_files_async = false,
        |db, ()| db.open_files_async && !db.skip_stats_update_on_db_open,
        "needs skip_stats_update_on_db_open=true"),
];

/// The rules for a database with pessimistic transactions.
pub(crate) static WITH_TRANSACTIONS: &[Rule<DbOptions>] = &[rule!(Unsupported unordered_write,
        |db, ()| db.unordered_write,
        "not together with set_transactions: transactions need writes that are visible as a whole")];

/// The rules that a database keeps with each of its column families.
pub(crate) static WITH_FAMILY: &[Rule<DbOptions, ColumnFamilyOptions>] = &[
    Rule {
        detail: Some(|_, cf| {
            format!(
                "must be -1 with FIFO compaction and ttl={}, or ttl must be 0",
                cf.ttl
            )
        }),
        ..rule!(Unsupported max_open_files = -1,
            |db, cf| is_fifo(cf) && cf.ttl > 0 && db.max_open_files != -1,
            "must be -1 with FIFO compaction and a ttl")
    },
    rule!(Unsupported open_files_async = false,
        |db, cf| is_fifo(cf) && db.open_files_async,
        "not with FIFO compaction"),
];

/// Whether the compaction style chooses the directory of its output among several.
pub(super) fn chooses_paths(cf: &ColumnFamilyOptions) -> bool {
    matches!(
        cf.compaction_style,
        CompactionStyle::Level | CompactionStyle::Universal
    )
}

/// Whether a directory has no path.
pub(super) fn has_empty_path(paths: &PathList) -> bool {
    let mut paths = paths.0.iter();
    paths.any(|it| it.path.as_os_str().is_empty())
}

pub(super) fn is_fifo(cf: &ColumnFamilyOptions) -> bool {
    cf.compaction_style == CompactionStyle::Fifo
}

/// Returns the first and the last minute of the day in `HH:mm-HH:mm`; `None` if they are equal.
pub(in crate::options) fn minutes_of_window(text: &str) -> Option<(u32, u32)> {
    /// Parses `HH:mm` as minutes since midnight.
    fn minutes(text: &str) -> Option<u32> {
        let (hours, minutes) = text.split_once(':')?;
        let number = |text: &str, max: u32| {
            let is_two_digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            is_two_digits
                .then(|| text.parse::<u32>().ok())
                .flatten()
                .filter(|number| *number <= max)
        };
        Some(number(hours, 23)? * 60 + number(minutes, 59)?)
    }
    let (begin, end) = text.split_once('-')?;
    let window = (minutes(begin)?, minutes(end)?);
    (window.0 != window.1).then_some(window)
}
