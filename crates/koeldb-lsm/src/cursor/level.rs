//! A cursor over one level of disjoint tables, which opens only the table at its position.
//!
//! A scan that crosses into the neighbouring table takes its block source along, including its
//! readahead state; a seek into another table begins with a fresh source.

use std::sync::Arc;

use koeldb_base::key::user_key;
use koeldb_base::timestamp::split;
use koeldb_base::{ArcRef, Cursor, Fault, PinnedSlice, Result};
use koeldb_table::block_based::cursor::{CursorSource, TableLevel};
use koeldb_table::block_based::reader::BlockBasedReader;
use koeldb_table::reader::{TableCursor, TableCursorOptions, TableReader};
use koeldb_table::source::Direction;

use crate::table_opener::TableOpener;
use crate::version::{FileMeta, Level, Version};

/// The tables that a level cursor reads: those of one level of a version, or a selection of them.
struct Files<'v> {
    version: ArcRef<'v, Version>,
    level: usize,
    tables: ArcRef<'v, TableOpener>,
    /// The files that are read, if they are not all of the level. Boxed, because that is rare and
    /// cursors are moved while they are created.
    selected: Option<Box<Level>>,
}

impl<'v> Files<'v> {
    /// Returns the files that the cursor reads: the selected ones, or the whole level.
    fn level(&self) -> &Level {
        match &self.selected {
            None => &self.version.levels[self.level],
            Some(selected) => selected,
        }
    }

    /// The files that the cursor reads, in key order.
    fn all(&self) -> &[Arc<FileMeta>] {
        &self.level().files
    }

    /// Opens the table of file `index` with a new cursor; `None` past the last file.
    ///
    /// A cursor in a borrowed version borrows the reader that the version keeps open.
    fn cursor<S: CursorSource>(
        &self,
        index: usize,
        source: S,
        options: &TableCursorOptions,
    ) -> Result<Option<TableCursor<'v, S>>> {
        if let (ArcRef::Borrowed(version), None) = (&self.version, &self.selected) {
            let Some(file) = version.levels[self.level].files.get(index) else {
                return Ok(None);
            };
            let cursor = match self.tables.reader(file, self.level)? {
                ArcRef::Borrowed(reader) => reader.borrowing_cursor(source, options),
                ArcRef::Counted(reader) => reader.cursor(source, options),
            };
            return Ok(Some(cursor));
        }
        let Some(file) = self.all().get(index) else {
            return Ok(None);
        };
        let reader = self.tables.reader(file, self.level)?;
        Ok(Some(reader.cursor(source, options)))
    }

    /// Returns the same files with reference counts instead of borrows.
    fn detached(&self) -> Files<'static> {
        Files {
            version: self.version.detached(),
            level: self.level,
            tables: self.tables.detached(),
            selected: self.selected.clone(),
        }
    }
}

impl TableLevel for Files<'_> {
    fn neighbour(
        &self,
        number: u64,
        direction: Direction,
    ) -> Result<Option<(Arc<BlockBasedReader>, Vec<u8>)>> {
        let at = self.all().iter().position(|file| file.number == number);
        let next = match direction {
            Direction::Forward => at.and_then(|at| at.checked_add(1)),
            Direction::Backward => at.and_then(|at| at.checked_sub(1)),
        };
        let Some(file) = next.and_then(|next| self.all().get(next)) else {
            return Ok(None);
        };
        let edge = match direction {
            Direction::Forward => &file.smallest,
            Direction::Backward => &file.largest,
        };
        Ok(match &**self.tables.reader(file, self.level)? {
            TableReader::BlockBased(reader) => Some((Arc::clone(reader), user_key(edge).to_vec())),
            TableReader::Undated(table) => {
                let edge = split(user_key(edge)).0.to_vec();
                Some((Arc::clone(table.stored()), edge))
            }
            TableReader::Embedded(table) => {
                Some((Arc::clone(table.stored()), user_key(edge).to_vec()))
            }
            TableReader::Cuckoo(_) | TableReader::Plain(_) => None,
        })
    }
}

/// A cursor over the sorted, disjoint tables of one level below 0 (RocksDB: `LevelIterator`).
///
/// It borrows the version for `'v` or keeps it alive.
pub struct LevelCursor<'v, S: CursorSource> {
    files: Files<'v>,
    source: S,
    options: TableCursorOptions,
    index: usize,
    table: Option<TableCursor<'v, S>>,
    /// Whether the step into the current table was suspended.
    arriving: bool,
    /// The user key last sought, if only keys with its prefix matter.
    sought: Vec<u8>,
}

impl<'v, S: CursorSource + Clone> LevelCursor<'v, S> {
    /// Creates an unpositioned cursor over `level` of `version`.
    #[must_use]
    pub fn new(
        version: impl Into<ArcRef<'v, Version>>,
        level: usize,
        tables: impl Into<ArcRef<'v, TableOpener>>,
        source: S,
        options: TableCursorOptions,
    ) -> Self {
        let files = Files {
            version: version.into(),
            level,
            tables: tables.into(),
            selected: None,
        };
        Self::of(files, source, options)
    }

    /// Creates an unpositioned cursor over `files`, which a source that reads ahead also gets.
    fn of(files: Files<'v>, mut source: S, options: TableCursorOptions) -> Self {
        if source.reads_levels() {
            source.set_level(Arc::new(files.detached()));
        }
        LevelCursor {
            files,
            source,
            options,
            index: usize::MAX,
            table: None,
            arriving: false,
            sought: Vec::new(),
        }
    }

    /// Returns an unpositioned cursor over those tables of the level that `admits` accepts.
    ///
    /// It opens every table. (RocksDB: `table_filter`.)
    ///
    /// # Errors
    /// If a table cannot be opened.
    pub fn restricted(self, admits: impl Fn(&TableReader) -> bool) -> Result<Self> {
        let mut selected = Level::default();
        for file in self.files.all() {
            if admits(&*self.files.tables.reader(file, self.files.level)?) {
                selected.files.push(Arc::clone(file));
            }
        }
        let files = Files {
            selected: Some(Box::new(selected)),
            ..self.files
        };
        Ok(Self::of(files, self.source, self.options))
    }

    /// The index of the first file whose largest key is at or after the internal key `target`.
    fn find(&self, target: &[u8]) -> usize {
        self.files.level().find(&self.files.version.order, target)
    }

    /// Makes file `index` the current one; `None` past the last file, which invalidates the cursor.
    ///
    /// `crosses` marks a step from a neighbouring table, whose block source is then reused.
    fn enter(
        &mut self,
        index: usize,
        crosses: bool,
    ) -> Result<Option<&mut TableCursor<'v, S>>, Fault<S::Suspend>> {
        if index >= self.files.all().len() {
            self.end();
            return Ok(None);
        }
        if self.index != index || self.table.is_none() {
            let left = self.table.take().filter(|_| crosses);
            let source = left.and_then(TableCursor::into_source);
            let source = source.unwrap_or_else(|| self.source.clone());
            self.table = self.files.cursor(index, source, &self.options)?;
            self.index = index;
        }
        Ok(self.table.as_mut())
    }

    /// Records the user key of a seek if the cursor only needs to return keys with its prefix.
    fn begin_seek(&mut self, target: &[u8]) {
        self.arriving = false;
        if self.options.prefix_extractor.is_some() {
            self.sought.clear();
            self.sought.extend_from_slice(user_key(target));
        }
    }

    /// Whether a prefix scan must go on into file `index`: it may hold keys with the prefix sought.
    ///
    /// `edge` returns the key of the file that is nearest to the current one. Without a prefix
    /// extractor the result is true.
    ///
    /// The order keeps the keys of a prefix together.
    fn continues(&self, edge: impl FnOnce(&FileMeta) -> &[u8], index: usize) -> bool {
        let extractor = self.options.prefix_extractor.as_ref();
        match (extractor, self.files.all().get(index)) {
            (Some(extractor), Some(file)) => {
                extractor.prefix(user_key(edge(file))) == extractor.prefix(&self.sought)
            }
            _ => true,
        }
    }

    /// Invalidates the cursor and releases its table.
    fn end(&mut self) {
        self.table = None;
        self.index = usize::MAX;
    }

    /// Steps into the following tables until the cursor is on an entry or at the end.
    fn skip_forward(&mut self) -> Result<(), Fault<S::Suspend>> {
        while let Some(table) = &mut self.table
            && !table.valid()
        {
            if std::mem::take(&mut self.arriving) {
                let arrived = table.seek_to_first();
                self.arriving = matches!(arrived, Err(Fault::Suspend(_)));
                arrived?;
            } else if self.continues(|file| &file.smallest, self.index + 1) {
                self.arriving = self.enter(self.index + 1, true)?.is_some();
            } else {
                self.end();
            }
        }
        Ok(())
    }

    /// Steps back into the preceding tables until the cursor is on an entry or at the start.
    fn skip_backward(&mut self) -> Result<(), Fault<S::Suspend>> {
        while let Some(table) = &mut self.table
            && !table.valid()
        {
            if std::mem::take(&mut self.arriving) {
                let arrived = table.seek_to_last();
                self.arriving = matches!(arrived, Err(Fault::Suspend(_)));
                arrived?;
            } else {
                match self.index.checked_sub(1) {
                    Some(previous) if self.continues(|file| &file.largest, previous) => {
                        self.arriving = self.enter(previous, true)?.is_some();
                    }
                    _ => self.end(),
                }
            }
        }
        Ok(())
    }

    /// Returns the cursor of the current table.
    fn current(&self) -> &TableCursor<'v, S> {
        self.table.as_ref().expect("the cursor is valid")
    }
}

impl<S: CursorSource + Clone> Cursor for LevelCursor<'_, S> {
    type Suspend = S::Suspend;

    #[inline]
    fn valid(&self) -> bool {
        self.table.as_ref().is_some_and(TableCursor::valid)
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.arriving = false;
        if let Some(table) = self.enter(0, false)? {
            table.seek_to_first()?;
        }
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.arriving = false;
        if let Some(last) = self.files.all().len().checked_sub(1)
            && let Some(table) = self.enter(last, false)?
        {
            table.seek_to_last()?;
        }
        self.skip_backward()
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        self.begin_seek(target);
        let index = self.find(target);
        if let Some(table) = self.enter(index, false)? {
            table.seek(target)?;
        }
        self.skip_forward()
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        self.begin_seek(target);
        let index = self
            .find(target)
            .min(self.files.all().len().saturating_sub(1));
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
