//! Deliberate bugs, by which the tests are tested.
//!
//! In a build with `--cfg koeldb_sabotage`, the environment variable `KOELDB_SABOTAGE` names a switch, and the engine has that
//! bug. In every other build all switches are off by the time the code is compiled, and nothing of them is left in it.
//! `.ci/sabotage` builds once, runs the suites with each switch, and says which were caught.

macro_rules! switches {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A bug that can be had on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Sabotage {
            $($(#[$doc])* $name,)*
        }

        impl Sabotage {
            /// All of them.
            pub const ALL: &'static [Sabotage] = &[$(Sabotage::$name,)*];
        }
    };
}

switches! {
    // What is made durable, and in which order.

    /// The rename of a small file is not made durable.
    UnsyncedDirectoryOfCurrent,
    /// New tables are synced, their names are not.
    UnsyncedDirectoryOfTables,
    /// A new MANIFEST is synced, its name is not.
    UnsyncedDirectoryOfManifest,
    /// A new log is synced, its name is not.
    UnsyncedDirectoryOfLog,
    /// Tables are not synced.
    UnsyncedTable,
    /// Edits are appended to the MANIFEST and not synced.
    UnsyncedManifest,
    /// A write that asked for a sync is acknowledged without one.
    UnsyncedLog,
    /// CURRENT names a new MANIFEST before that is written.
    CurrentBeforeManifest,
    /// A failed sync of a log or MANIFEST counts as done.
    IgnoredSyncError,
    /// A failed append to a log or MANIFEST counts as done.
    IgnoredAppendError,
    /// A younger log is synced while older ones are not.
    YoungerLogFirst,
    /// A flush is recorded while the logs behind it may be lost for other families.
    FlushAheadOfLogs,
    /// A log that is closed while those before it are synced counts as behind the flush.
    FlushAheadOfClosedLog,
    /// A close leaves the end of the log unsynced.
    CloseWithoutSync,

    // Files that go or come at the wrong time.

    /// A log is removed when one family does not need it.
    LogRemovedEarly,
    /// A family's recorded log number is past what it has not flushed.
    LogNumberAhead,
    /// The inputs of a compaction are removed before its edit is durable.
    InputsRemovedBeforeEdit,
    /// After a failed change of the MANIFEST files are removed as if its outcome were known.
    ForgottenUncertainty,
    /// Recovery removes the old logs before it has recorded what was in them.
    LogsRemovedBeforeRecoveryEdit,
    /// Files in the directory do not keep their numbers from being used again.
    FileNumberReused,
    /// A damaged log is not kept.
    DamagedLogNotArchived,

    // Recovery.

    /// Sequence numbers begin again below what was recovered.
    SeqnoReused,
    /// A log is replayed though the end of the one before is missing.
    HoleAccepted,
    /// A family with tables from behind the damage is opened with others from before it.
    InconsistencyAccepted,
    /// After a stop nothing says in the new log that it continues.
    NoMarkAfterDamage,
    /// One entry in seven is not replayed.
    EntryNotReplayed,
    /// Checksums of log records are not compared.
    LogChecksumSkipped,

    // Errors and visibility.

    /// Members of a group are told of success though the log failed.
    FollowersNotTold,
    /// Writes become visible before they are in the memtables.
    PublishedEarly,
    /// A resume takes writes again without flushing past the log that failed.
    ResumeWithoutFlush,
    /// A background job that failed tells nobody.
    BackgroundErrorSwallowed,
    /// The lock on the directory excludes nobody.
    LockExcludesNobody,
    /// The lock on the directory is of a kind that RocksDB does not see.
    LockUnknownToRocksDb,
    /// A read-only open removes what looks like orphans.
    ReadOnlyRemoves,

    // Wrong answers.

    /// Compactions do not know of snapshots.
    SnapshotUnknown,
    /// The boundary between what a snapshot sees and what not is off by one.
    SnapshotOffByOne,
    /// A deletion is dropped though the key exists further down.
    LostTombstone,
    /// A range deletion is dropped though its keys exist further down.
    LostRangeTombstone,
    /// A single deletion is dropped where a newer entry hides it.
    LostSingleDeletion,
    /// Sequence numbers become zero above the last level.
    SeqnoZeroedEarly,
    /// Operands are folded as if nothing were below them.
    MergeWithoutBase,
    /// Checksums of blocks are not compared.
    BlockChecksumSkipped,
    /// A filter denies one key in sixteen that it has.
    FilterDenies,
}

/// Whether the engine is to have the bug.
#[cfg(not(koeldb_sabotage))]
#[inline(always)]
#[must_use]
pub const fn is_on(_: Sabotage) -> bool {
    false
}

/// Whether the engine is to have the bug.
///
/// # Panics
/// If the environment names no switch of these.
#[cfg(koeldb_sabotage)]
#[must_use]
pub fn is_on(which: Sabotage) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<Sabotage>> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = std::env::var("KOELDB_SABOTAGE").ok()?;
        if name.is_empty() {
            return None;
        }
        let known = Sabotage::ALL
            .iter()
            .find(|switch| format!("{switch:?}") == name);
        Some(*known.unwrap_or_else(|| panic!("KOELDB_SABOTAGE={name}: there is no such switch")))
    }) == Some(which)
}
