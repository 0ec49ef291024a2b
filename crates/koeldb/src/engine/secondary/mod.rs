//! Secondary databases: read-only views of a primary that another handle or process writes.
//!
//! A secondary reads CURRENT, the MANIFEST and the logs of its primary, and writes nothing there.
//! Each catch-up ([`crate::Db::try_catch_up_with_primary`]) moves its view forward as a whole:
//!
//! 1. `ManifestTail` applies the new edits of the MANIFEST.
//! 2. All tables of the resulting versions are opened, and linked into the directory of the
//!    secondary ([`links`]), so that the primary can remove them.
//! 3. The logs that these versions need are opened. Steps 1 to 3 are repeated until the MANIFEST
//!    did not change meanwhile: the primary had then removed nothing that the versions need.
//! 4. The batches of the logs are inserted into memtables ([`logs`]), one memtable a log. If one
//!    was removed meanwhile, it may have been recycled while it was read, and all steps are
//!    repeated. A log that seems damaged also repeats them: the primary may write or truncate it
//!    while it is read, and a recycled one has other records behind. Damage stays through all
//!    repetitions.
//! 5. Versions and memtables are installed with the sequence number that they end at, and the
//!    undecided prepared transactions of the logs.
//!
//! The primary does not know the snapshots and readers of a secondary, so a later version may lack
//! entries that an earlier sequence number sees. Each super-version therefore has its own sequence
//! number, and a snapshot pins the super-versions of all column families.

mod catch_up;
mod links;
mod logs;
mod options;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use koeldb_base::file_name::FileNumber;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_lsm::Version;
use koeldb_lsm::version::ManifestTail;

use crate::commit::prepared::PreparedTransactions;
use crate::commit::protocol::CommitPipeline;
use crate::options::ColumnFamilyOptions;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::column_family_set::ColumnFamilySet;
use crate::state::super_version::SuperVersion;
use crate::state::visibility::{SnapshotPurpose, Visibility};

pub(crate) use links::{Links, can_link, check_own, mark_own};
use logs::LogTail;
pub use options::{CatchUpReport, KeepTables, SecondaryOptions};

/// The component of a secondary or follower database that catches up with its primary.
pub(crate) struct Secondary {
    pub(crate) options: SecondaryOptions,
    /// The hard links that keep tables; `None` if open files alone keep them.
    pub(crate) links: Option<Arc<Links>>,
    /// The options of column families that were named when the database was opened.
    pub(crate) named: BTreeMap<String, ColumnFamilyOptions>,
    /// The options of column families that were not named; `None` ignores these.
    pub(crate) others: Option<ColumnFamilyOptions>,
    state: Mutex<State>,
    /// The lock held while a view is installed or pinned.
    view: Mutex<()>,
}

/// The progress of a secondary in the MANIFEST and logs of its primary; locked during a catch-up.
pub(crate) struct State {
    tail: ManifestTail,
    logs: LogTail,
    /// Column families that are not installed yet.
    fresh: BTreeMap<u32, Arc<ColumnFamilyData>>,
    /// The versions whose tables are all open, by column family.
    opened: BTreeMap<u32, Arc<Version>>,
    /// The position in the MANIFEST and the logs that the installed view reflects.
    installed: Option<Position>,
    /// The error of every catch-up since the primary was replaced.
    replaced: Option<Error>,
}

/// A position in the primary's MANIFEST and logs, compared to see whether anything was read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Position {
    manifest: FileNumber,
    /// The number of edits in the MANIFEST.
    edits: u64,
    /// The number of batches applied since the secondary was opened.
    batches: u64,
}

impl State {
    /// Returns the position up to which the primary's MANIFEST and logs were read.
    fn position(&self) -> Position {
        Position {
            manifest: self.tail.manifest_number(),
            edits: self.tail.edit_count(),
            batches: self.logs.batches,
        }
    }
}

/// A view of a secondary: the super versions of all column families, and one sequence number.
pub(crate) struct View {
    pub(crate) seqno: SeqNo,
    pub(crate) families: BTreeMap<u32, Arc<SuperVersion>>,
}

impl Secondary {
    pub(crate) fn new(
        options: SecondaryOptions,
        links: Option<Arc<Links>>,
        named: BTreeMap<String, ColumnFamilyOptions>,
        others: Option<ColumnFamilyOptions>,
        tail: ManifestTail,
    ) -> Self {
        Secondary {
            options,
            links,
            named,
            others,
            state: Mutex::new(State {
                tail,
                logs: LogTail::default(),
                fresh: BTreeMap::new(),
                opened: BTreeMap::new(),
                installed: None,
                replaced: None,
            }),
            view: Mutex::new(()),
        }
    }

    /// Removes the hard links to the primary's tables; open tables stay readable.
    pub(crate) fn close(&self) {
        if let Some(links) = &self.links {
            links.remove_all();
        }
    }

    /// Locks the secondary's view against catch-ups, for copies of it, until the guard is dropped.
    ///
    /// # Errors
    /// `TryAgain` if the last catch-up failed halfway; `NotSupported` if prepared transactions are
    /// undecided, which only the logs of the primary have.
    pub(crate) fn hold_view(&self, visibility: &Visibility) -> Result<impl Sized + '_> {
        let state = lock(&self.state);
        if state.logs.last_seqno > visibility.seqno() {
            return Err(Error::with_kind(
                ErrorKind::TryAgain,
                "the last catch-up failed halfway: call try_catch_up_with_primary first",
            ));
        }
        if state.logs.undecided().first_prepared().is_some() {
            return Err(Error::not_supported(
                "a copy of a secondary while prepared transactions are undecided: copy the primary",
            ));
        }
        Ok(state)
    }

    /// Takes a snapshot that pins the super versions of all column families of the secondary.
    pub(crate) fn pin_view(
        &self,
        purpose: SnapshotPurpose,
        families: &ColumnFamilySet,
        visibility: &Visibility,
    ) -> View {
        let _view = lock(&self.view);
        View {
            seqno: visibility.take_snapshot(purpose, families.unix_secs()),
            families: families
                .all()
                .into_iter()
                .map(|family| (family.id, family.super_version.load()))
                .collect(),
        }
    }
}

impl Secondary {
    /// Catches up with the primary, for [`crate::Db::try_catch_up_with_primary`].
    pub(crate) fn catch_up(
        &self,
        commit: &CommitPipeline,
        prepared: &PreparedTransactions,
    ) -> Result<CatchUpReport> {
        commit.health.check_open()?;
        let _foreground = commit.slots.enter()?;
        self.follow(commit, prepared)
    }

    /// Starts the background job that catches up every `refresh` period, if one is set.
    pub(crate) fn begin_following(
        self: &Arc<Self>,
        commit: &Arc<CommitPipeline>,
        prepared: &Arc<PreparedTransactions>,
    ) {
        let Some(period) = self.options.refresh else {
            return;
        };
        let (secondary, owners) = (Arc::clone(self), Arc::clone(commit));
        let prepared = Arc::clone(prepared);
        commit.context.env.pool.submit_waiting(move || {
            while owners.background.pause(period) {
                match secondary.catch_up(&owners, &prepared) {
                    Err(error) if error.kind() != ErrorKind::ShutdownInProgress => {
                        owners
                            .context
                            .info_log
                            .warn(format_args!("catch-up: {error}"));
                    }
                    _ => {}
                }
            }
        });
    }
}
