//! Copies of tables without some of their entries.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use koeldb_base::cursor::{Blocking, Cursor, Fault};
use koeldb_base::file_name::FileNumber;
use koeldb_base::key::InternalKey;
use koeldb_base::merge_operator::Merger;
use koeldb_base::range_del::union_of;
use koeldb_base::{PinnedSlice, Result, SeqNo};
use koeldb_fs::Purpose;
use koeldb_fs::rate_limit::{IoKind, IoPriority};
use koeldb_lsm::FileMeta;
use koeldb_lsm::job::{BlobSpec, FlushJob, LiveSnapshots, OutputSpec};
use koeldb_lsm::version::VersionBlobs;
use koeldb_table::blob::BlobReadahead;
use koeldb_table::builder::TableReason;
use koeldb_table::reader::TableCursorOptions;
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use super::{TableDestination, TableFiles, TableReporter};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::info_log::RECOVERY_JOB;

/// Entries of a column family: user keys with sequence numbers.
pub(crate) type Entries = BTreeSet<(Vec<u8>, SeqNo)>;

impl TableFiles {
    /// Writes a copy of a table without `entries`; `None` if it has none of them.
    ///
    /// The copy is `None` if no other entry remains. There must be no snapshots: entries that only
    /// they see are left out as well.
    pub(crate) fn write_without(
        &self,
        family: &ColumnFamilyData,
        (level, file): (usize, &FileMeta),
        entries: &Entries,
    ) -> Result<Option<Option<Arc<FileMeta>>>> {
        let options = family.options();
        let table = family.tables.reader(file, level)?;
        let source = BlockingSource::new(BlockReadOptions {
            fill_cache: false,
            ..BlockReadOptions::default()
        });
        let count = Cell::new(0);
        let cursor = LeavingOut {
            inner: table.cursor(source, &TableCursorOptions::default()),
            entries,
            count: &count,
        };
        let place = TableDestination {
            level: u32::try_from(level).unwrap_or(u32::MAX),
            base_level: u32::from(level > 0),
            bottommost: false,
            reason: TableReason::Recovery,
            target_file_bytes: 0,
        };
        let tombstones: Vec<_> = table.tombstones().into_iter().cloned().collect();
        let place_of_copy = (file.path_id, TableReason::Recovery);
        let reporter = TableReporter::new(self, RECOVERY_JOB, family, place_of_copy);
        let version = family.version();
        let blobs = VersionBlobs::new(&version, &family.tables, true, BlobReadahead::BYTES_MAX);
        let next_file_number = || -> FileNumber { reporter.begin() };
        let snapshots = LiveSnapshots::default();
        let job = FlushJob {
            order: family.order.clone(),
            memtables: vec![cursor],
            tombstones: union_of(&family.order, &tombstones),
            snapshots: snapshots.clone(),
            merger: Merger::new(options.merge_operator.as_deref(), &family.name).with_blobs(&blobs),
            entry_count: None,
            output: OutputSpec {
                fs: &*self.fs,
                directory: family.tables.paths().directory(file.path_id),
                path_id: file.path_id,
                write_options: koeldb_fs::WriteOptions {
                    temperature: file.temperature,
                    ..self.write_options(Purpose::Flush, file.bytes)
                },
                charge: self.charge(IoPriority::High, IoKind::Write),
                context: self.build_context(family, &options, place),
                next_file_number: &next_file_number,
                target_file_bytes: u64::MAX,
                file_bytes_max: u64::MAX,
                target_is_upper_bound: false,
                grandparents: &[],
                max_grandparent_bytes: u64::MAX,
                snapshots: &snapshots.all,
                bottommost: false,
                hidden: None,
                epoch: file.epoch,
                file_checksums: self.file_checksums,
                partition_bytes: None,
                deletion_triggers: &options.deletion_triggers(),
                hash_entries: false,
                history_low: version.history_low(),
                blobs: BlobSpec::unchanged(),
            },
        };
        let written = reporter.check(job.run())?;
        if let (Some(file), Some(properties)) = (&written.file, &written.properties) {
            reporter.created(file, properties);
        }
        let copy = written.file.map(|mut copy| {
            copy.oldest_ancestor_time = file.oldest_ancestor_time;
            copy.temperature = file.temperature;
            copy.marked_for_compaction = file.marked_for_compaction;
            Arc::new(copy)
        });
        if count.get() == 0 {
            copy.iter().for_each(|copy| self.remove(family, copy));
            return Ok(None);
        }
        Ok(Some(copy))
    }

    /// Removes a table that is not part of a version; one that remains is removed by the next open.
    pub(crate) fn remove(&self, family: &ColumnFamilyData, table: &FileMeta) {
        let path = family.tables.paths().of_table(table);
        let _ = self.fs.remove_file(&path);
    }
}

/// A cursor that passes over some entries, and counts them.
struct LeavingOut<'e, C> {
    inner: C,
    entries: &'e Entries,
    count: &'e Cell<u64>,
}

impl<C: Cursor<Suspend = Blocking>> LeavingOut<'_, C> {
    /// Whether the current entry is one of those to pass over.
    fn is_left_out(&self) -> Result<bool> {
        if !self.inner.valid() {
            return Ok(false);
        }
        let key = InternalKey::parse(self.inner.key())?;
        Ok(self.entries.contains(&(key.user_key.to_vec(), key.seqno)))
    }

    /// Moves on from entries that are passed over, by `step`.
    fn pass(
        &mut self,
        step: impl Fn(&mut C) -> Result<(), Fault<Blocking>>,
    ) -> Result<(), Fault<Blocking>> {
        while self.is_left_out()? {
            self.count.set(self.count.get() + 1);
            step(&mut self.inner)?;
        }
        Ok(())
    }
}

impl<C: Cursor<Suspend = Blocking>> Cursor for LeavingOut<'_, C> {
    type Suspend = Blocking;

    fn valid(&self) -> bool {
        self.inner.valid()
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<Blocking>> {
        self.inner.seek_to_first()?;
        self.pass(C::next)
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<Blocking>> {
        self.inner.seek_to_last()?;
        self.pass(C::prev)
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        self.inner.seek(target)?;
        self.pass(C::next)
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        self.inner.seek_for_prev(target)?;
        self.pass(C::prev)
    }

    fn next(&mut self) -> Result<(), Fault<Blocking>> {
        self.inner.next()?;
        self.pass(C::next)
    }

    fn prev(&mut self) -> Result<(), Fault<Blocking>> {
        self.inner.prev()?;
        self.pass(C::prev)
    }

    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    fn value(&self) -> &[u8] {
        self.inner.value()
    }

    fn pinned_value(&self) -> PinnedSlice {
        self.inner.pinned_value()
    }
}
