//! Changes of an open database: creating and dropping column families, and setting options.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koeldb_base::file_name::{self, FileKind};
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::small_file::create_dir_durably;

use crate::commit::protocol::ColumnFamilyMemtable;
use crate::commit::protocol::CommitPipeline;
use crate::options::{ColumnFamilyOptions, log_lines, mutable, sanitize};
use crate::report::listener::Event;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::memtables::write_buffer_bytes;
use crate::state::ttl;
use crate::tree::{NewFamily, add_families};

impl CommitPipeline {
    /// Creates column families atomically: all of them, or none on an error.
    ///
    /// If only the OPTIONS file cannot be written, all are created although an error is returned.
    pub(crate) fn create_families(
        &self,
        families: Vec<(String, ColumnFamilyOptions)>,
        ttl: Duration,
    ) -> Result<Vec<Arc<ColumnFamilyData>>> {
        self.health.check_writable()?;
        let _foreground = self.slots.enter()?;
        if families.is_empty() {
            return Ok(Vec::new());
        }
        let new = self.sanitized_families(families, ttl)?;
        for family in &new {
            self.prepare_table_directories(&family.options)?;
        }
        let added = {
            // No write is logged now, so that the column families start with the current log.
            let mut leadership = self.queue.lead();
            let log = leadership.commit.wal()?.number;
            let tables = &self.context.table_files;
            let added = match add_families(&mut self.tree.versions(), tables, log, new) {
                Ok(added) => added,
                Err(error) => {
                    let error = self.health.manifest_failed(error);
                    drop(leadership);
                    self.health.report_failures();
                    return Err(error);
                }
            };
            let last_seqno = leadership.commit.last_seqno;
            let families = Arc::make_mut(&mut leadership.commit.families);
            let memtable = |family| ColumnFamilyMemtable::of(family, last_seqno);
            families.extend(added.iter().map(memtable));
            families.sort_by_key(|active| active.family.id);
            leadership.commit.wal_check_bytes = 0;
            for family in &added {
                self.families.insert(family);
            }
            added
        };
        self.log_created_families(&added);
        self.tree.write_options_file()?;
        Ok(added)
    }

    /// Creates the directories of the tables of a new column family, if they are missing.
    ///
    /// Numbers of files that are there already are not used again.
    fn prepare_table_directories(&self, options: &ColumnFamilyOptions) -> Result<()> {
        let context = &self.context;
        let paths = context.table_files.paths_of(options);
        for directory in paths.directories().filter(|it| **it != *context.path) {
            create_dir_durably(&*context.fs, directory)?;
            for entry in context.fs.list(directory)? {
                if let Some(number) = file_name::parse(&entry.name).and_then(FileKind::number) {
                    context.table_files.numbers.skip(number);
                }
            }
        }
        Ok(())
    }

    /// Validates and sanitizes the options of new column families (RocksDB: `SanitizeCfOptions`).
    fn sanitized_families(
        &self,
        families: Vec<(String, ColumnFamilyOptions)>,
        ttl: Duration,
    ) -> Result<Vec<NewFamily>> {
        let ttl = self.context.table_files.ttl.as_ref().map(|_| ttl);
        let mut new = Vec::with_capacity(families.len());
        for (name, mut options) in families {
            let mut db = self.context.db_options.clone();
            let context = sanitize::OpenContext {
                path: Some(&self.context.path),
                ..sanitize::OpenContext::default()
            };
            sanitize::sanitize(&mut db, &mut [(&name, &mut options)], &context)?;
            if ttl.is_some() {
                ttl::check_family(&name, &options)?;
            }
            new.push(NewFamily { name, options, ttl });
        }
        Ok(new)
    }

    /// Reports new column families in LOG, with the options of the first few of the database.
    fn log_created_families(&self, added: &[Arc<ColumnFamilyData>]) {
        let info_log = &self.context.info_log;
        let older = self.families.by_id().len().saturating_sub(added.len());
        for (index, family) in added.iter().enumerate() {
            info_log.info(format_args!(
                "created column family {:?} with id {}",
                family.name, family.id
            ));
            if older.saturating_add(index) < log_lines::FAMILIES_MAX {
                for line in log_lines::of_family(&family.name, &family.options()) {
                    info_log.info(format_args!("{line}"));
                }
            }
            for setting in family.options().settings_without_effect(&family.name) {
                info_log.warn(format_args!("setting without effect: {setting}"));
            }
        }
    }

    /// Drops column families atomically: all of them, or none on an error.
    ///
    /// If only the OPTIONS file cannot be written, all are dropped although an error is returned.
    pub(crate) fn drop_families(&self, dropped: &[Arc<ColumnFamilyData>]) -> Result<()> {
        self.health.check_writable()?;
        let _foreground = self.slots.enter()?;
        if dropped.is_empty() {
            return Ok(());
        }
        {
            let mut leadership = self.queue.lead();
            for family in dropped {
                if family.id == 0 {
                    return Err(Error::invalid_argument(
                        "the default column family cannot be dropped",
                    ));
                }
                if family.is_dropped() {
                    return Err(Error::with_kind(
                        ErrorKind::ColumnFamilyDropped,
                        format!("column family {:?} was dropped already", family.name),
                    ));
                }
            }
            if let Err(error) = self.tree.drop_families(dropped) {
                drop(leadership);
                self.health.report_failures();
                return Err(error);
            }
            for family in dropped {
                family.dropped.store(true, Ordering::Release);
                family.forget_successor();
                self.families.remove(family.id);
            }
            Arc::make_mut(&mut leadership.commit.families)
                .retain(|active| !active.family.is_dropped());
        }
        for family in dropped {
            self.tree
                .retire(family, family.version().files().map(|(_, file)| file));
            self.tree.retire_blob_files(family);
            self.context
                .info_log
                .info(format_args!("dropped column family {:?}", family.name));
            self.context
                .notify(&Event::ColumnFamilyDropped(&family.name));
        }
        self.tree.remove_obsolete_files();
        self.tree.write_options_file()
    }

    /// Changes options of a column family (`SetOptions`) and writes a new OPTIONS file.
    pub(crate) fn set_options<K: AsRef<str>, V: AsRef<str>>(
        &self,
        family: &Arc<ColumnFamilyData>,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        self.health.check_writable()?;
        let _foreground = self.slots.enter()?;
        {
            // No other change runs now, so that none is lost.
            let mut leadership = self.queue.lead();
            let db = self.context.mutable_options().clone();
            let current = family.options();
            let changed = Arc::new(mutable::changed_family(&family.name, &current, &db, pairs)?);
            family.update_and_install(self.context.stall(), |state| {
                state.options = Arc::clone(&changed);
            });
            if let Some(index) = leadership.commit.position_of(family.id) {
                let active = &mut Arc::make_mut(&mut leadership.commit.families)[index];
                active.write_buffer_bytes = write_buffer_bytes(&changed);
                active.range_deletions_max = u64::from(changed.memtable_max_range_deletions);
                // Memtables may be full under the new options.
                self.check_memtables_soon();
            }
        }
        self.background.schedule();
        self.tree.write_options_file()
    }

    /// Changes options of the database (`SetDBOptions`) and writes a new OPTIONS file.
    pub(crate) fn set_db_options<K: AsRef<str>, V: AsRef<str>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        self.health.check_writable()?;
        let _foreground = self.slots.enter()?;
        {
            // Locked first, so that concurrent changes reach the version set in their order.
            let mut versions = self.tree.versions();
            let mut current = self
                .context
                .mutable
                .write()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            *current = mutable::changed_db(&current, pairs)?;
            let open_tables = &self.context.table_files.open_tables;
            open_tables.set_limit(current.open_tables_max());
            versions.set_manifest_options(
                current.max_manifest_file_size,
                current.manifest_space_amp_percent(),
                current.manifest_file(),
            );
        }
        self.context.report_soon();
        // The next write compares the logs with the new limit.
        self.check_memtables_soon();
        for family in self.families.all() {
            family.update_and_install(self.context.stall(), |_| ());
        }
        self.background.schedule();
        self.tree.write_options_file()
    }
}
