//! Merges folded by writes: a key with many operands in the memtable gets its value instead of one
//! more operand, so that reads need not merge them all again.
//!
//! (RocksDB: `max_successive_merges`, in `db/write_batch.cc`.) The log keeps the operand. A value that
//! cannot be computed leaves the operand in the memtable, too: the answers of reads are the same.

use std::sync::Arc;

use koeldb_base::merge_operator::{BlobCacheUse, FetchOptions, merge_values};
use koeldb_base::{Lookup, SeqNo};
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use super::protocol::ColumnFamilyMemtable;
use crate::options::ColumnFamilyOptions;

/// The rule by which a write merges the operands of a key (RocksDB: `max_successive_merges`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergeFolding {
    /// The number of operands of a key in the memtable at which a write folds them.
    operands_max: usize,
    /// Whether the fold may read files.
    reads_files: bool,
}

impl MergeFolding {
    /// Returns the rule that `options` select; `None` if `max_successive_merges` is 0, or keys have
    /// user-defined timestamps.
    pub(crate) fn of(options: &ColumnFamilyOptions) -> Option<Self> {
        let operands_max = usize::try_from(options.max_successive_merges).unwrap_or(usize::MAX);
        let folds = operands_max > 0 && !options.comparator.has_timestamps();
        folds.then_some(MergeFolding {
            operands_max,
            reads_files: options.strict_max_successive_merges,
        })
    }
}

impl ColumnFamilyMemtable {
    /// Merges `operand` into the value of `key`; `None` if it must be inserted as an operand.
    ///
    /// All entries below `seqno`, the number of the operand, must be in the memtables.
    #[cold]
    pub(super) fn folded(
        &self,
        rule: MergeFolding,
        key: &[u8],
        operand: &[u8],
        seqno: SeqNo,
    ) -> Option<Vec<u8>> {
        // COMPAT: operands of a TTL database end in their times, which a fold would replace.
        if self.family.ttl.is_some() {
            return None;
        }
        self.family.super_version.with(|current| {
            if !Arc::ptr_eq(&current.memtable, &self.memtable) {
                return None;
            }
            let mut lookup = Lookup::new(key, seqno.checked_sub(1)?);
            self.memtable.search(&mut lookup).ok()?;
            if lookup.operand_count() < rule.operands_max {
                return None;
            }
            lookup.checkpoint();
            for sealed in &current.sealed {
                if lookup.is_settled() {
                    break;
                }
                sealed.search(&mut lookup).ok()?;
                lookup.checkpoint();
            }
            if !lookup.is_settled() {
                let mut source = BlockingSource::new(BlockReadOptions {
                    cache_only: !rule.reads_files,
                    ..BlockReadOptions::default()
                });
                let runs = current.runs_above()..usize::MAX;
                let (version, tables) = (&current.version, &current.tables);
                let searched = version.search(tables, &mut lookup, &mut source, runs, |_| {});
                searched.ok()?;
            }
            if lookup.is_of_entity() {
                return None;
            }
            let merger = current.merger(FetchOptions {
                verifies: true,
                cache: match rule.reads_files {
                    true => BlobCacheUse::Fill,
                    false => BlobCacheUse::Only,
                },
            });
            let existing = lookup.finish(|| merger).ok()??;
            merge_values(merger, key, Some(&existing), &[operand]).ok()
        })
    }
}
