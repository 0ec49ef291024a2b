//! A column family in a version set, and the counters it shares with all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::KeyOrder;
use koeldb_base::file_name::FileNumber;

use super::version::Version;

/// The name of the default family.
pub const DEFAULT_FAMILY: &str = "default";

/// The name, key order and level count with which a column family is opened.
#[derive(Clone, Debug)]
pub struct ColumnFamilySpec {
    /// The name of the column family.
    pub name: String,
    /// The key order.
    pub order: KeyOrder,
    /// The number of levels.
    pub level_count: usize,
    /// Whether tables may be ingested below all others.
    pub ingests_behind: bool,
    /// Whether tables have the timestamps of their keys (`persist_user_defined_timestamps`).
    pub persists_timestamps: bool,
}

impl ColumnFamilySpec {
    /// Creates a spec with bytewise key order and seven levels.
    pub fn new(name: impl Into<String>) -> Self {
        ColumnFamilySpec {
            name: name.into(),
            order: KeyOrder::Bytewise,
            level_count: 7,
            ingests_behind: false,
            persists_timestamps: true,
        }
    }

    /// Returns a version without files.
    pub(super) fn empty_version(&self) -> Version {
        let mut version = Version::empty(self.order.clone(), self.level_count);
        version.ingests_behind = self.ingests_behind;
        version.persists_timestamps = self.persists_timestamps;
        version
    }
}

/// A column family of a version set: current version, log number and epoch number allocator.
#[derive(Debug)]
pub struct ColumnFamilyVersions {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) log_number: FileNumber,
    /// The log number known in memory, at least `log_number`; the next edit that advances log
    /// numbers records it.
    pub(super) needed_from: FileNumber,
    pub(super) epochs: Epochs,
    pub(super) current: Arc<Version>,
}

impl ColumnFamilyVersions {
    pub(super) fn new(
        id: u32,
        name: String,
        log_number: FileNumber,
        current: Arc<Version>,
    ) -> Self {
        ColumnFamilyVersions {
            id,
            name,
            log_number,
            needed_from: log_number,
            epochs: Epochs::behind(&current),
            current,
        }
    }

    /// The id of the column family, which is never reused.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The name of the column family.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The recorded log number: all data of the column family in older WALs is in its tables.
    #[must_use]
    pub fn log_number(&self) -> FileNumber {
        self.log_number
    }

    /// The allocator of epoch numbers for new tables of the column family.
    #[must_use]
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// The newest version of the column family.
    #[must_use]
    pub fn current(&self) -> &Arc<Version> {
        &self.current
    }
}

/// A thread-safe, shared allocator of file numbers.
#[derive(Clone, Debug)]
pub struct FileNumbers(Arc<AtomicU64>);

impl FileNumbers {
    /// Creates an allocator whose first number is `next`.
    #[must_use]
    pub fn starting_at(next: FileNumber) -> Self {
        FileNumbers(Arc::new(AtomicU64::new(next)))
    }

    /// Allocates and returns the next file number.
    #[must_use]
    pub fn next(&self) -> FileNumber {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// The number that will be allocated next.
    #[must_use]
    pub fn peek(&self) -> FileNumber {
        self.0.load(Ordering::Relaxed)
    }

    /// Raises the next file number above `number`, which is in use (`MarkFileNumberUsed`).
    pub fn skip(&self, number: FileNumber) {
        self.0
            .fetch_max(number.saturating_add(1), Ordering::Relaxed);
    }
}

/// A thread-safe allocator of epoch numbers, which order level-0 tables by age.
///
/// Each column family has one.
#[derive(Clone, Debug)]
pub struct Epochs(Arc<AtomicU64>);

impl Epochs {
    /// Creates an allocator that continues after the largest epoch number in `version`.
    fn behind(version: &Version) -> Self {
        let largest = version.files().map(|(_, file)| file.epoch).max();
        Epochs(Arc::new(AtomicU64::new(largest.unwrap_or(0) + 1)))
    }

    /// Allocates and returns the next epoch number.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}
