//! Changes of an open database: creating and dropping column families, and setting options.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koeldb_base::{Error, ErrorKind, Result};

use crate::column_family_data::ColumnFamilyData;
use crate::listener::Event;
use crate::memtables::write_buffer_bytes;
use crate::options::{ColumnFamilyOptions, log_lines, mutable, sanitize};
use crate::tree::add_family;
use crate::ttl;
use crate::write::commit::ColumnFamilyMemtable;
use crate::write::commit::CommitPipeline;

impl CommitPipeline {
    pub(crate) fn create_family(
        &self,
        name: &str,
        options: &ColumnFamilyOptions,
        ttl: Duration,
    ) -> Result<Arc<ColumnFamilyData>> {
        self.health.check_writable()?;
        let _foreground = self.slots.enter()?;
        let mut options = options.clone();
        {
            let mut db = self.context.db_options.clone();
            let context = sanitize::OpenContext {
                path: Some(&self.context.path),
                ..sanitize::OpenContext::default()
            };
            sanitize::sanitize(&mut db, &mut [(name, &mut options)], &context)?;
        }
        if self.context.table_files.ttl.is_some() {
            ttl::check_family(name, &options)?;
        }
        let family = {
            // No write runs now, so that the column family starts with the current log.
            let mut leadership = self.queue.lead();
            let log = leadership.commit.wal()?.number;
            let added = add_family(
                &mut self.tree.versions(),
                &self.context.table_files,
                name,
                options,
                log,
                self.context.table_files.ttl.as_ref().map(|_| ttl),
            );
            let family = match added {
                Ok(family) => family,
                Err(error) => {
                    let error = self.health.manifest_failed(error);
                    drop(leadership);
                    self.health.report_failures();
                    return Err(error);
                }
            };
            let families = Arc::make_mut(&mut leadership.commit.families);
            families.push(ColumnFamilyMemtable::of(&family));
            families.sort_by_key(|active| active.family.id);
            leadership.commit.wal_check_bytes = 0;
            self.families.insert(&family);
            family
        };
        self.context.info_log.info(format_args!(
            "created column family {:?} with id {}",
            family.name, family.id
        ));
        for line in log_lines::of_family(name, &family.options()) {
            self.context.info_log.info(format_args!("{line}"));
        }
        for setting in family.options().settings_without_effect(name) {
            self.context
                .info_log
                .warn(format_args!("setting without effect: {setting}"));
        }
        self.tree.write_options_file()?;
        Ok(family)
    }

    pub(crate) fn drop_family(&self, family: &Arc<ColumnFamilyData>) -> Result<()> {
        self.health.check_writable()?;
        let _foreground = self.slots.enter()?;
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
        {
            let mut leadership = self.queue.lead();
            if let Err(error) = self.tree.drop_family(family) {
                drop(leadership);
                self.health.report_failures();
                return Err(error);
            }
            family.dropped.store(true, Ordering::Release);
            family.forget_successor();
            Arc::make_mut(&mut leadership.commit.families)
                .retain(|active| active.family.id != family.id);
            self.families.remove(family.id);
        }
        self.tree
            .retire(family.version().files().map(|(_, file)| file));
        self.context
            .info_log
            .info(format_args!("dropped column family {:?}", family.name));
        self.context
            .notify(&Event::ColumnFamilyDropped(&family.name));
        self.tree.remove_obsolete_files();
        self.tree.write_options_file()
    }

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
            family.update_and_install(self.context.delayed_write_rate(), |state| {
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
            family.update_and_install(self.context.delayed_write_rate(), |_| ());
        }
        self.background.schedule();
        self.tree.write_options_file()
    }
}
