//! Secondary databases: read-only views of a primary that another handle or process writes.
//!
//! A secondary reads CURRENT, the MANIFEST and the logs of its primary, and writes nothing there.
//! Each catch-up ([`Db::try_catch_up_with_primary`]) moves its view forward as a whole:
//!
//! 1. `ManifestTail` applies the new edits of the MANIFEST.
//! 2. All tables of the resulting versions are opened, and linked into the directory of the
//!    secondary ([`links`]), so that the primary can remove them.
//! 3. The logs that these versions need are opened. Steps 1 to 3 are repeated until the MANIFEST
//!    did not change meanwhile: the primary had then removed nothing that the versions need.
//! 4. The batches of the logs are inserted into memtables ([`logs`]), one memtable a log.
//! 5. Versions and memtables are installed with the sequence number that they end at.
//!
//! The primary does not know the snapshots and readers of a secondary, so a later version may lack
//! entries that an earlier sequence number sees. Each super-version therefore has its own sequence
//! number, and a snapshot pins the super-versions of all column families.

mod catch_up;
mod checkpoint;
mod links;
mod logs;
mod options;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_lsm::Version;
use koeldb_lsm::version::ManifestTail;

use crate::column_family_data::ColumnFamilyData;
use crate::db::Db;
use crate::inner::DbInner;
use crate::options::{ColumnFamilyOptions, Options};
use crate::super_version::SuperVersion;

pub(crate) use links::{Links, can_link};
use logs::LogTail;
pub use options::{CatchUpReport, KeepTables, SecondaryOptions};

/// The part of a secondary database that follows its primary.
pub(crate) struct Secondary {
    pub(crate) options: SecondaryOptions,
    /// `None` if open files alone keep the tables.
    pub(crate) links: Option<Arc<Links>>,
    /// The options of column families that were named when the database was opened.
    pub(crate) named: BTreeMap<String, ColumnFamilyOptions>,
    /// The options of all others; `None` ignores them.
    pub(crate) others: Option<ColumnFamilyOptions>,
    state: Mutex<State>,
    /// Held while a view is installed or pinned.
    view: Mutex<()>,
}

/// The place in the files of the primary; locked during a catch-up.
pub(crate) struct State {
    tail: ManifestTail,
    logs: LogTail,
    /// Column families that are not installed yet.
    fresh: BTreeMap<u32, Arc<ColumnFamilyData>>,
    /// The versions whose tables are all open, by column family.
    opened: BTreeMap<u32, Arc<Version>>,
    is_installed: bool,
}

/// The states of all column families at one sequence number.
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
                is_installed: false,
            }),
            view: Mutex::new(()),
        }
    }

    /// Removes the links; tables that are still open stay readable.
    pub(crate) fn close(&self) {
        if let Some(links) = &self.links {
            links.remove_all();
        }
    }

    /// Pins the current view, as a snapshot.
    pub(crate) fn pin_view(&self, inner: &DbInner) -> View {
        let _view = lock(&self.view);
        let families = inner.families.all();
        View {
            seqno: inner.visibility.take_snapshot(),
            families: families
                .into_iter()
                .map(|family| (family.id, family.super_version.load()))
                .collect(),
        }
    }
}

impl Db {
    /// Opens a read-only view of the database at `primary_path`, which another process may write.
    ///
    /// The view is that of the last call of [`Db::try_catch_up_with_primary`], or of this one. Only
    /// the default column family is opened; [`Db::builder`] opens others. `secondary_path` is a
    /// directory of the secondary alone, for its LOG, its LOCK and links to tables. (RocksDB's
    /// `DB::OpenAsSecondary`.)
    ///
    /// # Errors
    /// `InvalidArgument` if there is no database, or `secondary_path` is one; `Busy` if another
    /// secondary uses it; otherwise see [`Db::try_catch_up_with_primary`].
    pub fn open_as_secondary(
        options: &Options,
        primary_path: impl AsRef<Path>,
        secondary_path: impl Into<PathBuf>,
    ) -> Result<Db> {
        Db::builder(options)
            .secondary(secondary_path)
            .open(primary_path)
    }

    /// Opens a view of the tables of the database at `leader_path`, refreshed in the background.
    ///
    /// A follower reads no logs, so it shows what the leader has flushed. It catches up every
    /// `follower_refresh_catchup_period_ms`. `path` is its own directory. (RocksDB's
    /// `DB::OpenAsFollower`.)
    ///
    /// # Errors
    /// See [`Db::open_as_secondary`]; `NotSupported` if the file system cannot link files of the
    /// leader into `path`.
    pub fn open_as_follower(
        options: &Options,
        path: impl Into<PathBuf>,
        leader_path: impl AsRef<Path>,
    ) -> Result<Db> {
        Db::builder(options).follower(path).open(leader_path)
    }

    /// Moves the view of a secondary forward to the present state of its primary.
    ///
    /// Running reads, cursors and snapshots keep their view. New column families are opened if the
    /// builder was given options for others; dropped ones stay readable through their handles.
    ///
    /// # Errors
    /// All of these leave the view as it was. `NotSupported` if the database is no secondary;
    /// `TryAgain` if the primary removes files faster than they can be opened; `Aborted` if another
    /// database, or an earlier state, is at the path of the primary now: open the secondary again;
    /// `Corruption` for damaged files; errors of the file system.
    pub fn try_catch_up_with_primary(&self) -> Result<CatchUpReport> {
        self.inner().catch_up()
    }
}

impl DbInner {
    pub(crate) fn catch_up(&self) -> Result<CatchUpReport> {
        self.health.check_open()?;
        let _foreground = self.slots.enter()?;
        let Some(secondary) = &self.secondary else {
            return Err(Error::not_supported(
                "the database is not a secondary: it has no primary to catch up with",
            ));
        };
        secondary.catch_up(self)
    }

    /// Refreshes the view periodically, if asked for, until the database is closed.
    pub(crate) fn begin_following(self: &Arc<Self>) {
        let Some(period) =
            (self.secondary.as_ref()).and_then(|secondary| secondary.options.refresh)
        else {
            return;
        };
        let inner = Arc::clone(self);
        self.context.env.pool.submit_waiting(move || {
            while inner.background.pause(period) {
                match inner.catch_up() {
                    Err(error) if error.kind() != ErrorKind::ShutdownInProgress => {
                        inner
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
