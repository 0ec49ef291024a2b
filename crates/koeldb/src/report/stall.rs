//! The stall condition of a column family, as events report it.

/// The reason for a write stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCause {
    /// Too many memtables wait for a flush.
    MemtableLimit,
    /// Too many files are on level 0.
    Level0FileLimit,
    /// Too many bytes wait for compaction.
    PendingCompactionBytes,
}

/// The stall condition of a column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCondition {
    /// Writes are not limited.
    Normal,
    /// Writes are limited to a rate.
    Delayed {
        /// The cause of the delay.
        cause: StallCause,
        /// The permitted rate.
        bytes_per_second: u64,
    },
    /// Writes are stopped.
    Stopped(
        /// The cause of the stop.
        StallCause,
    ),
}

impl StallCondition {
    /// Returns the cause, and whether writes are stopped; `None` without a stall.
    pub(crate) fn cause(self) -> Option<(StallCause, bool)> {
        match self {
            StallCondition::Normal => None,
            StallCondition::Delayed { cause, .. } => Some((cause, false)),
            StallCondition::Stopped(cause) => Some((cause, true)),
        }
    }
}
