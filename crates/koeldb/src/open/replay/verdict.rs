//! The reaction of log replay to damage and gaps, and the place where it stopped.

use koeldb_base::file_name::FileNumber;
use koeldb_log::RecoveryMode;

/// A kind of data loss that replay found in the logs: a damaged record, or a gap between logs.
///
/// A record with a matching checksum is not among them: if its content cannot be replayed, the open
/// fails.
#[derive(Clone, Copy, Debug)]
pub(super) enum Irregularity {
    /// A damaged record.
    Damage,
    /// A missing or short log without damage, found by the link of the next log.
    Gap,
}

/// The reaction of replay to damage or a gap: fail the open, stop, or continue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    /// The open fails.
    Fail,
    /// Replay stops, except for later logs that continue exactly there.
    Stop,
    /// Replay continues after the irregularity.
    Continue,
}

impl Verdict {
    /// Returns the reaction to damage or a gap in a recovery mode (RocksDB: `WALRecoveryMode`).
    pub(super) fn of(what: Irregularity, mode: RecoveryMode) -> Verdict {
        use Irregularity::{Damage, Gap};
        use RecoveryMode::{
            AbsoluteConsistency, PointInTime, SkipAnyCorruptedRecords, TolerateCorruptedTailRecords,
        };
        match (what, mode) {
            (Damage, TolerateCorruptedTailRecords) => Verdict::Fail,
            (Gap, TolerateCorruptedTailRecords) => Verdict::Continue,
            (Damage | Gap, AbsoluteConsistency) => Verdict::Fail,
            (Damage | Gap, PointInTime) => Verdict::Stop,
            (Damage | Gap, SkipAnyCorruptedRecords) => Verdict::Continue,
        }
    }
}

/// The log and the reason at which replay stopped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// At damage in this log.
    Damage { log: FileNumber },
    /// At the end of this recycled log, at the remains of the log that it overwrote.
    Remains { log: FileNumber },
    /// At a gap without damage: between the log that is missing or ends early, and the next one.
    Gap {
        before: FileNumber,
        after: FileNumber,
    },
}

impl Stop {
    /// Returns the number of the log in which replay stopped; at a gap, of the log before it.
    pub(super) fn log(self) -> FileNumber {
        match self {
            Stop::Damage { log } | Stop::Remains { log } => log,
            Stop::Gap { before, .. } => before,
        }
    }
}
