//! What replay does about damage and gaps in the logs, and where it stopped.

use koeldb_base::file_name::FileNumber;
use koeldb_log::RecoveryMode;

/// An irregularity in the logs that replay found.
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

/// The reaction of replay to an irregularity.
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
    /// Returns the reaction to an irregularity in a recovery mode (`WALRecoveryMode`).
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

/// The position in the logs where replay stopped.
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
    /// The log at which replay stopped.
    pub(super) fn log(self) -> FileNumber {
        match self {
            Stop::Damage { log } | Stop::Remains { log } => log,
            Stop::Gap { before, .. } => before,
        }
    }
}
