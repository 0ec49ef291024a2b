//! A point read through the tables of a version: level 0 newest first, then one table a level.
//!
//! Each table of level 0 and each deeper level is one run. A run that suspends is searched again from its start;
//! runs searched whole are skipped then, by the count the look-up keeps.

use std::cmp::Ordering;
use std::sync::Arc;

use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::{Fault, Lookup, Result};
use koeldb_table::source::BlockSource;

use super::version::{FileMeta, Version};
use crate::table_cache::TableCache;

impl Version {
    /// Whether the user key lies within the bounds of `file`.
    #[inline]
    fn covers(&self, file: &FileMeta, user_key: &[u8]) -> bool {
        if self.order.compare(user_key, file.smallest_user_key()) == Ordering::Less {
            return false;
        }
        match self.order.compare(user_key, file.largest_user_key()) {
            Ordering::Less => true,
            Ordering::Equal => !file.largest_is_exclusive(),
            Ordering::Greater => false,
        }
    }

    /// Searches the runs of this version until `lookup` is settled; `run` is the number of runs that were above it.
    ///
    /// # Errors
    /// What a table failed with; or the suspension of a block source that does not wait.
    #[inline]
    pub fn search<S: BlockSource>(
        &self,
        tables: &TableCache,
        lookup: &mut Lookup,
        source: &mut S,
        mut run: usize,
    ) -> Result<(), Fault<S::Suspend>> {
        for (level, files) in self.levels.iter().enumerate() {
            if files.files.is_empty() {
                continue;
            }
            if level == 0 {
                for file in &files.files {
                    if run >= lookup.runs_searched() {
                        if self.covers(file, lookup.user_key()) {
                            tables.reader(file, 0)?.search(lookup, source)?;
                        }
                        lookup.checkpoint();
                        if lookup.is_settled() {
                            return Ok(());
                        }
                    }
                    run += 1;
                }
                continue;
            }
            if run >= lookup.runs_searched() {
                let index = files.find(&self.order, lookup.seek_key());
                if let Some(file) = files.files.get(index)
                    && self.covers(file, lookup.user_key())
                {
                    tables.reader(file, level)?.search(lookup, source)?;
                }
                lookup.checkpoint();
                if lookup.is_settled() {
                    return Ok(());
                }
            }
            run += 1;
        }
        Ok(())
    }

    /// The range tombstones of all tables that have some; every table is opened for it once.
    ///
    /// # Errors
    /// If a table cannot be opened.
    pub fn tombstones(&self, tables: &TableCache) -> Result<&[Arc<FragmentedTombstones>]> {
        if let Some(known) = self.tombstones.get() {
            return Ok(known);
        }
        let mut found = Vec::new();
        for (level, file) in self.files() {
            if let Some(tombstones) = tables.reader(file, level)?.tombstones() {
                found.push(Arc::clone(tombstones));
            }
        }
        Ok(self.tombstones.get_or_init(|| found))
    }
}
