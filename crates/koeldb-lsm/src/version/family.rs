//! A column family as a version set keeps it, and the counters it shares with all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::KeyOrder;
use koeldb_base::file_name::FileNumber;

use super::version::Version;

/// The name of the family that always exists.
pub const DEFAULT_FAMILY: &str = "default";

/// A family as a user opens it.
#[derive(Clone, Debug)]
pub struct FamilyDescriptor {
    /// Its name.
    pub name: String,
    /// The order of its keys.
    pub order: KeyOrder,
    /// The number of levels.
    pub level_count: usize,
}

impl FamilyDescriptor {
    /// A family in bytewise order with seven levels.
    pub fn new(name: impl Into<String>) -> Self {
        FamilyDescriptor {
            name: name.into(),
            order: KeyOrder::Bytewise,
            level_count: 7,
        }
    }
}

/// A family that is open.
#[derive(Debug)]
pub struct Family {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) log_number: FileNumber,
    pub(super) epochs: Epochs,
    pub(super) current: Arc<Version>,
}

impl Family {
    pub(super) fn new(id: u32, name: String, log_number: FileNumber, current: Version) -> Self {
        Family {
            id,
            name,
            log_number,
            epochs: Epochs::behind(&current),
            current: Arc::new(current),
        }
    }

    /// Its id, never used again.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Logs with smaller numbers hold nothing of it that is not in its tables.
    #[must_use]
    pub fn log_number(&self) -> FileNumber {
        self.log_number
    }

    /// The epochs of its tables to come.
    #[must_use]
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Its newest version.
    #[must_use]
    pub fn current(&self) -> &Arc<Version> {
        &self.current
    }
}

/// Hands out file numbers, to any thread.
#[derive(Clone, Debug)]
pub struct FileNumbers(Arc<AtomicU64>);

impl FileNumbers {
    pub(super) fn starting_at(next: FileNumber) -> Self {
        FileNumbers(Arc::new(AtomicU64::new(next)))
    }

    /// A number that no file has.
    #[must_use]
    pub fn next(&self) -> FileNumber {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// The number that will be handed out next.
    #[must_use]
    pub fn peek(&self) -> FileNumber {
        self.0.load(Ordering::Relaxed)
    }

    /// Makes all numbers handed out from now on larger than `number`.
    pub fn skip(&self, number: FileNumber) {
        self.0
            .fetch_max(number.saturating_add(1), Ordering::Relaxed);
    }
}

/// Hands out the epochs of a family's tables, to any thread: a flush takes one for each table it writes.
#[derive(Clone, Debug)]
pub struct Epochs(Arc<AtomicU64>);

impl Epochs {
    fn behind(version: &Version) -> Self {
        let largest = version.files().map(|(_, file)| file.epoch).max();
        Epochs(Arc::new(AtomicU64::new(largest.unwrap_or(0) + 1)))
    }

    /// An epoch newer than all before.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}
