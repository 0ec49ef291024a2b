//! One level of disjoint tables as one run: the table under the cursor is open, the others are untouched.
//!
//! A scan that crosses into the neighbouring table takes the source of its blocks along, with what that has learnt; a
//! seek into another table begins with a fresh one.

use std::sync::Arc;

use koeldb_base::{Cursor, Fault, PinnedSlice};
use koeldb_table::reader::{TableCursor, TableCursorOptions};
use koeldb_table::source::BlockSource;

use crate::table_cache::TableCache;
use crate::version::{FileMeta, Version};

/// A cursor over one level below 0 of a version, which it keeps alive.
pub struct LevelCursor<S: BlockSource> {
    version: Arc<Version>,
    level: usize,
    tables: Arc<TableCache>,
    source: S,
    options: TableCursorOptions,
    index: usize,
    table: Option<TableCursor<S>>,
}

impl<S: BlockSource + Clone> LevelCursor<S> {
    /// A cursor over `level` of `version`, without position.
    #[must_use]
    pub fn new(
        version: Arc<Version>,
        level: usize,
        tables: Arc<TableCache>,
        source: S,
        options: TableCursorOptions,
    ) -> Self {
        LevelCursor {
            version,
            level,
            tables,
            source,
            options,
            index: usize::MAX,
            table: None,
        }
    }

    fn files(&self) -> &[Arc<FileMeta>] {
        &self.version.levels[self.level].files
    }

    /// Makes file `index` the one under the cursor; none if it does not exist. `crosses` says whether a step leads there.
    fn enter(
        &mut self,
        index: usize,
        crosses: bool,
    ) -> Result<Option<&mut TableCursor<S>>, Fault<S::Suspend>> {
        let Some(file) = self.version.levels[self.level].files.get(index) else {
            self.table = None;
            self.index = usize::MAX;
            return Ok(None);
        };
        if self.index != index || self.table.is_none() {
            let left = self.table.take().filter(|_| crosses);
            let reader = self.tables.reader(file, self.level)?;
            let source = left.and_then(TableCursor::into_source);
            let source = source.unwrap_or_else(|| self.source.clone());
            self.table = Some(reader.cursor(source, &self.options));
            self.index = index;
        }
        Ok(self.table.as_mut())
    }

    fn skip_forward(&mut self) -> Result<(), Fault<S::Suspend>> {
        while let Some(table) = &self.table
            && !table.valid()
        {
            if let Some(next) = self.enter(self.index + 1, true)? {
                next.seek_to_first()?;
            }
        }
        Ok(())
    }

    fn skip_backward(&mut self) -> Result<(), Fault<S::Suspend>> {
        while let Some(table) = &self.table
            && !table.valid()
        {
            match self.index.checked_sub(1) {
                Some(previous) => {
                    if let Some(table) = self.enter(previous, true)? {
                        table.seek_to_last()?;
                    }
                }
                None => self.table = None,
            }
        }
        Ok(())
    }

    fn current(&self) -> &TableCursor<S> {
        self.table.as_ref().expect("the cursor is valid")
    }
}

impl<S: BlockSource + Clone> Cursor for LevelCursor<S> {
    type Suspend = S::Suspend;

    #[inline]
    fn valid(&self) -> bool {
        self.table.as_ref().is_some_and(TableCursor::valid)
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<S::Suspend>> {
        if let Some(table) = self.enter(0, false)? {
            table.seek_to_first()?;
        }
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<S::Suspend>> {
        if let Some(last) = self.files().len().checked_sub(1)
            && let Some(table) = self.enter(last, false)?
        {
            table.seek_to_last()?;
        }
        self.skip_backward()
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        let index = self.version.levels[self.level].find(&self.version.order, target);
        if let Some(table) = self.enter(index, false)? {
            table.seek(target)?;
        }
        self.skip_forward()
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        let found = self.version.levels[self.level].find(&self.version.order, target);
        let index = found.min(self.files().len().saturating_sub(1));
        if let Some(table) = self.enter(index, false)? {
            table.seek_for_prev(target)?;
        }
        self.skip_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<(), Fault<S::Suspend>> {
        if let Some(table) = &mut self.table {
            table.next()?;
            if table.valid() {
                return Ok(());
            }
        }
        self.skip_forward()
    }

    #[inline]
    fn prev(&mut self) -> Result<(), Fault<S::Suspend>> {
        if let Some(table) = &mut self.table {
            table.prev()?;
            if table.valid() {
                return Ok(());
            }
        }
        self.skip_backward()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current().key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current().value()
    }

    fn pinned_value(&self) -> PinnedSlice {
        self.current().pinned_value()
    }
}
