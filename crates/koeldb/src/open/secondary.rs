//! The open of a secondary: its own directory, and its position in the files of the primary.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::file_name;
use koeldb_base::{Error, Result};
use koeldb_fs::FileLock;
use koeldb_fs::directory_lock::lock_directory;
use koeldb_fs::small_file::create_dir_durably;
use koeldb_lsm::version::{ColumnFamilySpecs, ManifestTail, VersionSet};

use super::Opening;
use super::replay::Recovered;
use crate::api::db::Db;
use crate::engine::secondary::{
    KeepTables, Links, Secondary, SecondaryOptions, can_link, check_own, mark_own,
};
use crate::open::staging::refuse_inside;
use crate::options::Options;
use crate::tree::descriptor;

/// The directory and options of a secondary that is to be opened.
#[derive(Clone, Debug)]
pub(super) struct SecondaryToOpen {
    pub(super) own: PathBuf,
    pub(super) options: SecondaryOptions,
}

impl Opening {
    /// Creates, checks, locks and marks the secondary's own directory `own`.
    pub(super) fn prepare_own_directory(&self, own: &Path) -> Result<Box<dyn FileLock>> {
        if !self.has_database()? {
            return Err(self.no_database());
        }
        refuse_inside(&*self.fs, own, &self.path)?;
        for directory in self.table_directories() {
            refuse_inside(&*self.fs, own, &directory)?;
        }
        create_dir_durably(&*self.fs, own)?;
        if self.fs.exists(&file_name::current(own))? {
            let error = Error::invalid_argument("a secondary needs a directory of its own");
            return Err(error.in_file(own, None, "open"));
        }
        check_own(&*self.fs, own)?;
        let locked = lock_directory(&*self.fs, own)?;
        mark_own(&*self.fs, &self.path, own)?;
        Ok(locked)
    }

    /// Opens a reader that follows the primary's MANIFEST.
    pub(super) fn tail(&self) -> Result<ManifestTail> {
        let others = self.others.as_ref();
        let specs = ColumnFamilySpecs::new(&self.descriptors())
            .with_others(others.map(|options| descriptor("", options, &self.db)));
        ManifestTail::open(Arc::clone(&self.fs), &self.path, specs)
    }

    /// Creates the set of hard links to the primary's tables; `None` if open files keep the tables.
    pub(super) fn links(&self, secondary: &SecondaryToOpen) -> Result<Option<Arc<Links>>> {
        let own = &secondary.own;
        let links = Links::new(&self.fs, own, &self.env.pool)?;
        match (secondary.options.keep, self.can_link_into(own)) {
            (KeepTables::Descriptors, _) | (KeepTables::Auto, Err(_)) => {
                if self.db.max_open_files != -1 {
                    return Err(Error::invalid_argument(
                        "a secondary whose tables are kept by open files needs max_open_files=-1: \
                         a table that the primary removed cannot be opened again",
                    ));
                }
                Ok(None)
            }
            (_, Ok(())) => Ok(Some(links)),
            (KeepTables::Links, Err(error)) => Err(Error::not_supported(format!(
                "files of {} cannot be linked into {}: {error}",
                self.path.display(),
                own.display()
            ))),
        }
    }

    /// Checks that files in each directory of the primary can be hard-linked into `own`.
    ///
    /// Of a directory without tables it is not known.
    fn can_link_into(&self, own: &Path) -> Result<()> {
        can_link(&*self.fs, &file_name::current(&self.path), own)?;
        for directory in self.table_directories() {
            let table = match self.fs.exists(&directory)? {
                true => self.first_table(&directory)?,
                false => None,
            };
            match table.map(|table| can_link(&*self.fs, &directory.join(table), own)) {
                // The primary has removed it meanwhile.
                Some(Err(error)) if !error.is_path_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Creates the catch-up component of a secondary, which starts at `tail` in the MANIFEST.
    pub(super) fn secondary(
        &self,
        secondary: &SecondaryToOpen,
        links: Option<Arc<Links>>,
        tail: ManifestTail,
    ) -> Secondary {
        let named = self.families.iter().cloned().collect();
        Secondary::new(
            secondary.options.clone(),
            links,
            named,
            self.others.clone(),
            tail,
        )
    }
}

impl Recovered {
    /// Returns an empty replay result: for a secondary, whose first catch-up reads the logs, and
    /// for an open without logs.
    pub(super) fn before_logs(versions: &VersionSet) -> Self {
        Recovered {
            last_seqno: 0,
            next_seqno: versions.last_seqno() + 1,
            ..Recovered::default()
        }
    }
}

impl Db {
    /// Opens a read-only secondary instance of the database at `primary_path`.
    ///
    /// Another process may write the primary.
    ///
    /// The view is that of the last call of [`Db::try_catch_up_with_primary`], or of this one. Only
    /// the default column family is opened; [`Db::builder`] opens others. `secondary_path` is a
    /// directory of the secondary alone, for its LOG, its LOCK, links to tables, and a file `PRIMARY`
    /// that marks it. (RocksDB's `DB::OpenAsSecondary`.)
    ///
    /// ```
    /// use koeldb::{Db, Env, Options};
    ///
    /// # fn main() -> koeldb::Result<()> {
    /// let mut options = Options::new();
    /// options.create_if_missing(true).set_env(&Env::mem_env());
    /// let primary = Db::open(&options, "/db")?;
    /// let secondary = Db::open_as_secondary(&options, "/db", "/secondary")?;
    /// primary.put("koel", "Eudynamys")?;
    /// secondary.try_catch_up_with_primary()?;
    /// assert_eq!(secondary.get("koel")?.as_deref(), Some(&b"Eudynamys"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if there is no database, or `secondary_path` is one or has tables that no
    /// secondary linked there; `Busy` if another
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

    /// Opens a follower of the database at `leader_path`, which catches up in the background.
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
}
