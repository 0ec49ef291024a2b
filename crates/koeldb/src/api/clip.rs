//! The clip of a column family to a range of keys (RocksDB: `ClipColumnFamily`).
//!
//! One write deletes all keys outside of the range: no reader, crash, checkpoint or secondary sees
//! a part of it. A flush and compactions then remove the deleted keys and their tombstones from the
//! tables, which no reader notices. RocksDB first drops whole tables, also those that a snapshot
//! reads, and deletes the rest by up to three writes.

use std::sync::Arc;

use koeldb_base::cursor::{Blocking, Cursor, Fault};
use koeldb_base::key::user_key;
use koeldb_base::{Error, KeyOrder, Result};
use koeldb_memtable::Memtable;

use crate::api::column_family::ColumnFamily;
use crate::batch::WriteBatch;
use crate::commit::protocol::CommitPipeline;
use crate::options::{FlushOptions, WriteOptions};
use crate::read::ReadOptions;
use crate::state::column_family_data::ColumnFamilyData;

impl ColumnFamily {
    /// Removes all keys outside of `from..to` (RocksDB's `ClipColumnFamily`).
    ///
    /// Tables that reach outside of the range are compacted until none does.
    ///
    /// One write deletes all of the keys; it locks no keys and conflicts with no transaction. Each
    /// write by another thread or a transaction is either before it, and its keys outside of the
    /// range go, or after it, and they stay. A caller that needs an empty outside stops such writes
    /// first.
    ///
    /// A snapshot keeps what it shows. While one is older than the removal, tables may still reach
    /// outside; another call after its release compacts them. They also do under FIFO compaction,
    /// which rewrites no tables.
    ///
    /// # Errors
    /// `InvalidArgument` if `from` is after `to`; errors of writes and compactions. If the
    /// compaction failed or manual compactions are disabled (`Incomplete`), the keys are removed,
    /// and another call compacts the tables.
    pub fn clip(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let family = self.data();
        if family.has_timestamps {
            return Err(Error::not_supported(format!(
                "clip: column family {:?} has user-defined timestamps",
                family.name
            )));
        }
        if family.order.compare(from, to).is_gt() {
            return Err(Error::invalid_argument(
                "clip: the range ends before it starts",
            ));
        }
        let inner = self.inner();
        if self.shows_key_outside(from, to) {
            // Only then: a needless tombstone would stay for snapshots newer than the last key.
            inner.commit.delete_outside(family, from, to)?;
        }
        let mut flush = FlushOptions::new();
        flush.set_allow_write_stall(true);
        inner
            .commit
            .flush_first(std::slice::from_ref(family), &flush)?;
        inner.background.compact_outside(family, from, to)
    }

    /// Whether seeks in the latest state find a key outside of `from..to`; `true` if they fail.
    fn shows_key_outside(&self, from: &[u8], to: &[u8]) -> bool {
        let order = &self.data().order;
        let mut options = ReadOptions::new();
        options.set_total_order_seek(true);
        let mut cursor = self.cursor_opt(&options);
        let mut is_found = || -> Result<bool> {
            let is_before = cursor.seek_to_first()?
                && cursor
                    .key()
                    .is_some_and(|first| order.compare(first, from).is_lt());
            Ok(is_before || cursor.seek(to)?)
        };
        // A key with a merge that fails is found; an unreadable table fails the compaction.
        is_found().unwrap_or(true)
    }
}

impl CommitPipeline {
    /// Deletes all keys of a column family that are outside of `from..to`, by one write batch.
    fn delete_outside(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        from: &[u8],
        to: &[u8],
    ) -> Result<()> {
        let id = family.id;
        // Stands for the batch in the checks: its keys are known when no other write runs.
        let mut empty = WriteBatch::new();
        empty.delete_range_id(id, from, from);
        let mode = self.check_write(&empty, &WriteOptions::new())?;
        let written = self.queue.write_made(self, mode, || {
            let mut batch = WriteBatch::new();
            if let Some((first, last)) = family_bounds(family)? {
                if family.order.compare(&first, from).is_lt() {
                    batch.delete_range_id(id, &first, from);
                }
                if family.order.compare(&last, to).is_ge() {
                    // The end of a range deletion is not part of it.
                    batch.delete_range_id(id, to, &last);
                    batch.delete_id(id, &last);
                }
            }
            Ok(batch)
        });
        if written.is_err() {
            self.health.report_failures();
        }
        written
    }
}

/// Returns the smallest and largest user key in the memtables and tables of a column family.
///
/// They include the ends of range tombstones. The caller leads the write queue.
fn family_bounds(family: &ColumnFamilyData) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let (memtables, version) = family.read(|state| {
        let logged = state.sealed.iter().chain([&state.active]);
        let memtables: Vec<_> = logged.map(|logged| Arc::clone(&logged.memtable)).collect();
        (memtables, Arc::clone(&state.version))
    });
    let mut bounds = WidestBounds {
        order: &family.order,
        found: None,
    };
    for (_, file) in version.files() {
        bounds.include(file.smallest_user_key());
        bounds.include(file.largest_user_key());
    }
    for memtable in &memtables {
        bounds.include_memtable(memtable)?;
    }
    Ok(bounds.found)
}

/// The range from the smallest to the largest of the user keys that were included in it.
struct WidestBounds<'a> {
    order: &'a KeyOrder,
    found: Option<(Vec<u8>, Vec<u8>)>,
}

impl WidestBounds<'_> {
    /// Extends the bounds to `key`.
    fn include(&mut self, key: &[u8]) {
        match &mut self.found {
            None => self.found = Some((key.to_vec(), key.to_vec())),
            Some((first, _)) if self.order.compare(key, first).is_lt() => *first = key.to_vec(),
            Some((_, last)) if self.order.compare(key, last).is_gt() => *last = key.to_vec(),
            Some(_) => {}
        }
    }

    /// Extends the bounds to the entries and range tombstones of a memtable.
    fn include_memtable(&mut self, memtable: &Arc<Memtable>) -> Result<(), Fault<Blocking>> {
        let mut cursor = memtable.cursor();
        cursor.seek_to_first()?;
        if cursor.valid() {
            self.include(user_key(cursor.key()));
            cursor.seek_to_last()?;
            self.include(user_key(cursor.key()));
        }
        for list in memtable.tombstone_lists() {
            for fragment in list.fragments() {
                self.include(&fragment.start);
                self.include(&fragment.end);
            }
        }
        Ok(())
    }
}
