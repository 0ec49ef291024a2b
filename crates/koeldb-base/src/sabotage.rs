//! Deliberate bugs that check whether the tests catch them.
//!
//! In a build with `--cfg koeldb_sabotage`, the environment variable `KOELDB_SABOTAGE` names a
//! switch, and the engine has that bug. In every other build all switches are compile-time false
//! and leave no code behind. `.ci/sabotage` builds once, runs the suites with each switch, and
//! reports which were caught.

macro_rules! switches {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A deliberate bug that the environment can enable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Sabotage {
            $($(#[$doc])* $name,)*
        }

        impl Sabotage {
            /// All switches.
            pub const ALL: &'static [Sabotage] = &[$(Sabotage::$name,)*];
        }
    };
}

switches! {
    // Durability and its order.

    /// The rename of a small file is not made durable.
    UnsyncedDirectoryOfCurrent,
    /// New tables are synced, their directory entries are not.
    UnsyncedDirectoryOfTables,
    /// A new MANIFEST is synced, its directory entry is not.
    UnsyncedDirectoryOfManifest,
    /// A new log is synced, its directory entry is not.
    UnsyncedDirectoryOfLog,
    /// Tables are not synced.
    UnsyncedTable,
    /// Edits are appended to the MANIFEST but not synced.
    UnsyncedManifest,
    /// An edit follows unsynced ones of an earlier block of the MANIFEST.
    EditsAheadOfBlocks,
    /// A write with `sync` is acknowledged without one.
    UnsyncedLog,
    /// CURRENT names a new MANIFEST before the MANIFEST is written.
    CurrentBeforeManifest,
    /// A failed sync of a log or MANIFEST counts as done.
    IgnoredSyncError,
    /// A failed append to a log or MANIFEST counts as done.
    IgnoredAppendError,
    /// A newer log is synced before older ones.
    YoungerLogFirst,
    /// A flush is recorded while other families may still lose the logs after it.
    FlushAheadOfLogs,
    /// A log that is closed during the sync of older ones counts as newer than the flush.
    FlushAheadOfClosedLog,
    /// Closing leaves the end of the log unsynced.
    CloseWithoutSync,
    /// A log that only announces its compression counts as one with batches.
    AnnouncementCounted,

    // Files that are created or removed at the wrong time.

    /// A log is removed as soon as one family does not need it.
    LogRemovedEarly,
    /// Which logs may be removed follows from log numbers that a drop did not record.
    UnrecordedLogNumber,
    /// The deletion of tracked logs is recorded in the edit that adds a table.
    LogsDeletedWithTables,
    /// A family's recorded log number is past data that it has not flushed.
    LogNumberAhead,
    /// The inputs of a compaction are removed before its edit is durable.
    InputsRemovedBeforeEdit,
    /// After a MANIFEST write of unknown outcome, files are removed as if the outcome were known.
    ForgottenUncertainty,
    /// Recovery removes the old logs before it has recorded their contents.
    LogsRemovedBeforeRecoveryEdit,
    /// Numbers of files in the directory may be reused.
    FileNumberReused,
    /// A damaged log is not archived.
    DamagedLogNotArchived,

    // Files that leave or enter a database.

    /// Obsolete files are removed although deletions are disabled.
    HoldIgnored,
    /// The copies and the directory of a checkpoint are not synced before it gets its name.
    CheckpointUnsynced,
    /// The name of a checkpoint is not made durable in the directory above.
    CheckpointNameUnsynced,
    /// The remains of an interrupted checkpoint are removed together with unrelated files.
    StagingRemovedUnread,
    /// A capture passes although a failure discarded logs that were not durable.
    CapturedLogsDiscarded,
    /// A staging directory is not locked while it is used.
    StagingNotLocked,
    /// A checkpoint of some column families forgets the ids of the others.
    FamilyIdForgotten,
    /// The length of the open log is taken before its buffered records are handed over.
    LogLengthTakenEarly,
    /// A checkpoint may lie in the directory of its own database.
    CheckpointInsideSource,
    /// A checkpoint shares the log that is still written.
    OpenLogLinked,
    /// The meta file of a backup is made before the files that it names are durable.
    BackupMetaFirst,
    /// A backup shares a file of the right name with another length.
    BackupReuseUnchecked,
    /// A backup does not compare a table with the checksum in the MANIFEST.
    BackupChecksumIgnored,
    /// A meta file may name any path.
    BackupPathUnchecked,
    /// The files of a backup are removed before its meta file.
    BackupFilesBeforeMeta,
    /// Two engines may write to one directory of backups.
    BackupLockIgnored,
    /// A restoration keeps CURRENT until all files are there.
    RestoreKeepsCurrent,
    /// A restoration removes files that belong to no database.
    RestoreRemovesStrangers,
    /// A restoration does without the files that the backup leaves out.
    ExcludedForgotten,
    /// Ingested tables are not synced.
    IngestedFileUnsynced,
    /// Tables are ingested below memtables that overlap them.
    IngestOverMemtable,
    /// An ingestion is recorded before the log is durable up to it.
    IngestAheadOfLog,
    /// Ingested tables appear in snapshots that are older.
    IngestIntoSnapshot,
    /// Writes after an ingestion use its sequence number again.
    IngestedSeqnoNotRaised,
    /// A log is removed although a change feed needs it.
    PinnedLogRemoved,
    /// A change feed shows batches before readers can see them.
    UnpublishedUpdateShown,
    /// The change feed drops the sections of prepared transactions that are committed.
    CommittedSectionNotShown,
    /// An imported column family does not raise the last sequence number.
    ImportedSeqnoNotRaised,
    /// A failed import leaves its column family.
    FailedImportKept,

    // Recovery.

    /// Sequence numbers restart below the recovered ones.
    SeqnoReused,
    /// A log is replayed although the end of the preceding log is missing.
    HoleAccepted,
    /// A family with tables newer than the damage is opened beside families older than it.
    InconsistencyAccepted,
    /// After recovery stopped at damage, the new log has no mark that it continues.
    NoMarkAfterDamage,
    /// The comparators of dropped families are compared too.
    DroppedComparatorCompared,
    /// A database with blob files is opened for writing.
    BlobFilesForgotten,
    /// A bound of a file that lies between two versions of a key counts as damage.
    CutBoundRefused,
    /// Synced batches behind a gap that no crash explains are put into the archive.
    GapArchived,
    /// A log that is retained for a prepared transaction is passed over.
    PreparedDropped,
    /// One entry in seven is not replayed.
    EntryNotReplayed,
    /// Checksums of log records are not verified.
    LogChecksumSkipped,
    /// Damage of the last record of a log or MANIFEST passes for a torn write.
    DamageTakenForTear,

    // Errors and visibility.

    /// Members of a write group are told of success although the log write failed.
    FollowersNotTold,
    /// Writes become visible before they are in the memtables.
    PublishedEarly,
    /// A resume accepts writes without flushing past the failed log.
    ResumeWithoutFlush,
    /// A write that gives up during a slowdown leaves its debt to later writes.
    StallDebtKept,
    /// A log that cannot be created fails one write and stores no error.
    LogCreationErrorNotStored,
    /// The slots of ended threads stay until the next install of a super-version.
    SlotsOfEndedThreadsKept,
    /// A forked child unmaps the memory of a ring that its parent created.
    InheritedRingUnmapped,
    /// Values pinned in a memtable keep its memory without its charge.
    PinnedValuesNotCharged,
    /// Obsolete tables stay when their last reader goes.
    ObsoleteTablesKept,
    /// A batch of any length reaches the log.
    BatchesUnbounded,
    /// A merge may make a value of any length.
    MergedValuesUnbounded,
    /// A repair orders tables by their largest sequence number alone.
    RepairedTablesTangled,
    /// A job for which the system refuses a thread runs nowhere.
    JobsNotHelped,
    /// A failed background job is not reported.
    BackgroundErrorSwallowed,
    /// The directory lock excludes no other process.
    LockExcludesNobody,
    /// The directory lock is of a kind that RocksDB does not observe.
    LockUnknownToRocksDb,
    /// A thief of an expired transaction's locks does not stop its commit.
    CommitterRobbed,
    /// An optimistic commit checks its keys only before it has its turn.
    ValidatedTooEarly,
    /// The locks of a transaction are released before its commit is visible.
    LocksReleasedEarly,
    /// A new log lacks the sections of undecided transactions.
    SectionsNotMoved,
    /// The sections of undecided transactions in a new log are not synced.
    MovedSectionsUnsynced,
    /// A decision that failed is made again as if it had not reached the log.
    FailedDecisionForgotten,
    /// A read-only open removes apparently obsolete files.
    ReadOnlyRemoves,

    // Wrong answers.

    /// Compactions ignore snapshots.
    SnapshotUnknown,
    /// The visibility boundary of a snapshot is off by one.
    SnapshotOffByOne,
    /// A deletion is dropped although the key exists on a lower level.
    LostTombstone,
    /// A range deletion is dropped although its keys exist on a lower level.
    LostRangeTombstone,
    /// FIFO compaction decides as if there were no deeper levels.
    FifoForgetsDeeperLevels,
    /// The outputs of compactions have the age of their files, not of their entries.
    AgesForgotten,
    /// Range tombstones are not clipped to a file whose largest key is a point key.
    TombstonesPastFile,
    /// Keys are the same only if their bytes are, whatever the comparator says.
    KeysEqualByBytes,
    /// A merge onto a wide-column entity leaves its default column alone.
    MergeDropsColumns,
    /// A lookup that suspended searches finished runs again.
    RunSearchedAgain,
    /// An iterator leaves its range at the end opposite to its start.
    IteratorLeavesRange,
    /// A single deletion is dropped although a newer entry hides it.
    LostSingleDeletion,
    /// Sequence numbers are zeroed above the last level.
    SeqnoZeroedEarly,
    /// Operands are merged as if no older entry existed.
    MergeWithoutBase,
    /// Block checksums are not verified.
    BlockChecksumSkipped,
    /// A filter denies one in sixteen keys that it contains.
    FilterDenies,
    /// A flush that a drop overtakes takes the memtables from the family's handles.
    DroppedFamilyForgotten,

    // Options.

    /// Values that RocksDB wrote to an OPTIONS file are refused as if they were set in code.
    LoadedValuesRefused,
    /// Every family has the compaction filter of the database.
    FilterOfEveryFamily,
    /// An open without the directory of the logs finds no logs, and goes on.
    LogsElsewhereForgotten,
    /// The log directory is taken from OPTIONS even if another database uses it.
    LogsOfTheOriginalTaken,
    /// The recorded directory is used although it is the database's own before it was moved.
    OwnDirectoryTakenForLogs,
    /// LOG need not name the directory of the logs that is in OPTIONS.
    AnyLogFileBelieved,
}

/// Whether the bug is enabled.
#[cfg(not(koeldb_sabotage))]
#[inline(always)]
#[must_use]
pub const fn is_on(_: Sabotage) -> bool {
    false
}

/// Whether the bug is enabled.
///
/// # Panics
/// If the environment names an unknown switch.
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
