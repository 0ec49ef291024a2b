//! `explain_get`: the memtables, tables, filters and blocks that a point read consults, and why.

use std::path::Path;
use std::sync::Arc;

use koeldb::{BatchEntry, WriteBatch};
use koeldb_base::key::{InternalKey, MAX_SEQNO, SeqNo, ValueType, encode};
use koeldb_base::merge_operator::Merger;
use koeldb_base::{Blocking, Cursor, Error, Fault, Lookup, PinnedSlice};
use koeldb_lsm::version::FileMeta;
use koeldb_table::block_based::format::BlockHandle;
use koeldb_table::reader::{TableCursorOptions, TableReader};
use koeldb_table::source::{BlockKind, BlockSource, BlockingSource, CachedBlock, TableFile};

use super::args::Global;
use super::database::{Settings, directory, log_directory};
use super::output::Output;
use super::tree::Tree;
use super::{Outcome, wal};
use crate::json::{Json, JsonValue};
use crate::text::hex;

/// Runs `explain-get`: prints each step of a point lookup, with the filters and blocks it uses.
pub(super) fn get(global: &Global, key: &str, out: &mut Output) -> Outcome {
    let key = out.parse_key(key)?;
    let path = directory(global)?;
    let settings = Settings::load(global, &path)?;
    let tree = Tree::of(
        &path,
        &global.column_family,
        Some(settings.of_family(&global.column_family)),
    )?;
    let mut read = Read {
        lookup: Lookup::new(&key, MAX_SEQNO),
        steps: Vec::new(),
    };
    read.search_logs(&tree, log_directory(&settings.options, &path), &key)?;
    for level in 0..tree.version.levels.len() {
        read.search_level(&tree, level, &key)?;
    }
    read.print(&tree, &key, out)
}

/// A version of the key that the lookup found, in the memtables or in a table.
struct Found {
    seqno: SeqNo,
    kind: &'static str,
    bytes: usize,
}

/// A step of the lookup: what was searched (memtables, a level or a table), and why.
struct Step {
    place: String,
    /// What the search did there, and why.
    reason: String,
    /// The blocks that the read needs besides those that an open table holds.
    blocks: Vec<(BlockKind, BlockHandle)>,
    found: Vec<Found>,
}

/// A point lookup in progress, with the steps so far.
struct Read {
    lookup: Lookup,
    steps: Vec<Step>,
}

impl Read {
    /// Searches the unflushed entries in the WAL, which an open would replay into memtables.
    fn search_logs(&mut self, tree: &Tree, directory: &Path, key: &[u8]) -> Outcome {
        let mut entries: Vec<(SeqNo, ValueType, Vec<u8>)> = Vec::new();
        let mut tombstone = 0;
        let mut next = 0;
        let logs = wal::visit_batches(directory, tree.log_number, |batch| {
            collect(batch, tree, key, &mut next, &mut entries, &mut tombstone)
        })?;
        let logs: Vec<_> = logs.iter().map(|log| format!("{log:06}.log")).collect();
        entries.sort_by_key(|(seqno, ..)| std::cmp::Reverse(*seqno));
        if tombstone > 0 {
            self.lookup.cover(tombstone);
        }
        let mut found = Vec::new();
        for (seqno, value_type, value) in entries {
            found.push(Found {
                seqno,
                kind: kind_name(value_type),
                bytes: value.len(),
            });
            if !self.lookup.is_settled() {
                self.lookup
                    .offer(seqno, value_type, || PinnedSlice::from(value))?;
            }
        }
        let mut reason = match (found.is_empty(), logs.is_empty()) {
            (_, true) => "there are no logs with unflushed entries".to_owned(),
            (true, false) => format!("no entry of the key in {}", logs.join(", ")),
            (false, false) => format!("entries of the key in {}", logs.join(", ")),
        };
        if tombstone > 0 {
            reason.push_str(&format!("; a range deletion of seq {tombstone} covers it"));
        }
        self.steps.push(Step {
            place: "memtables".to_owned(),
            reason,
            blocks: Vec::new(),
            found,
        });
        Ok(())
    }

    /// Searches the tables of a level whose key range covers the key, and records each step.
    fn search_level(&mut self, tree: &Tree, level: usize, key: &[u8]) -> Outcome {
        let files = &tree.version.levels[level].files;
        if files.is_empty() {
            return Ok(());
        }
        let covering: Vec<_> = files
            .iter()
            .filter(|file| tree.version.overlaps(file, Some(key), Some(key)))
            .collect();
        let outside = files.len() - covering.len();
        if self.lookup.is_settled() {
            self.note(
                level,
                format!(
                    "not consulted: a newer entry decides ({} tables)",
                    files.len()
                ),
            );
            return Ok(());
        }
        if outside > 0 {
            self.note(
                level,
                format!("{outside} tables skipped: the key is outside of their ranges"),
            );
        }
        for file in covering {
            if self.lookup.is_settled() {
                self.note_table(
                    level,
                    file,
                    "not consulted: a newer entry decides".to_owned(),
                );
                continue;
            }
            self.search_table(tree, level, file, key)?;
            if level == 0 {
                self.lookup.checkpoint();
            }
        }
        if level > 0 {
            self.lookup.checkpoint();
        }
        Ok(())
    }

    /// Searches one table, and records the filter's answer, the blocks read and the entries.
    fn search_table(&mut self, tree: &Tree, level: usize, file: &FileMeta, key: &[u8]) -> Outcome {
        let table = tree.tables.reader(file, level)?;
        let denied = !table
            .may_contain(key, &mut BlockingSource::default())
            .map_err(Error::from)?;
        let mut source = Recorder::default();
        table
            .search(&mut self.lookup, &mut source)
            .map_err(Error::from)?;
        let found = entries_of(&table, key)?;
        let has_filter = table.properties().filter_bytes > 0;
        let mut reason = match (denied, has_filter, found.is_empty()) {
            (true, ..) => "its filter denies the key: no data block is read",
            (false, true, true) => "its filter admits the key, which is absent (a false positive)",
            (false, true, false) => "its filter admits the key, which is there",
            (false, false, true) => "it has no filter, and the key is absent",
            (false, false, false) => "it has no filter, and the key is there",
        }
        .to_owned();
        let tombstones = table.tombstones();
        let covering = tombstones.map_or(0, |all| all.covering_seqno(key, MAX_SEQNO));
        if covering > 0 {
            reason.push_str(&format!("; a range deletion of seq {covering} covers it"));
        }
        self.note_table(level, file, reason);
        if let Some(step) = self.steps.last_mut() {
            step.blocks = source.blocks;
            step.found = found;
        }
        Ok(())
    }

    /// Records a step about a level, without blocks and entries.
    fn note(&mut self, level: usize, reason: String) {
        self.steps.push(Step {
            place: format!("level {level}"),
            reason,
            blocks: Vec::new(),
            found: Vec::new(),
        });
    }

    /// Records a step about a table; the caller may add blocks and entries.
    fn note_table(&mut self, level: usize, file: &FileMeta, reason: String) {
        self.note(level, reason);
        if let Some(step) = self.steps.last_mut() {
            step.place = format!("level {level} {:06}.sst", file.number);
        }
    }

    /// Prints the steps, the tables and blocks read, and the result.
    fn print(self, tree: &Tree, key: &[u8], out: &mut Output) -> Outcome {
        let tables = self
            .steps
            .iter()
            .filter(|step| !step.blocks.is_empty())
            .count();
        let blocks: usize = self.steps.iter().map(|step| step.blocks.len()).sum();
        let is_settled = self.lookup.is_settled();
        let answer = match (self.lookup.finish(Merger::default), is_settled) {
            (Ok(Some(value)), _) => format!("found, {} bytes", value.len()),
            (Ok(None), true) => "not found: the newest entry is deleted".to_owned(),
            (Ok(None), false) => "not found: no run has an entry".to_owned(),
            (Err(_), _) => "found: merge operands, which the merge operator combines".to_owned(),
        };
        if out.json {
            let mut steps = Json::array();
            for step in &self.steps {
                steps.push(step.json());
            }
            let mut json = Json::object();
            json.set("key", JsonValue::Hex(key))
                .set("column_family", &tree.name)
                .set("answer", &answer)
                .set("tables_read", count(tables))
                .set("blocks_read", count(blocks))
                .set("steps", steps);
            return out.object(json);
        }
        out.line(&format!(
            "0x{} in column family \"{}\"",
            hex(key),
            tree.name
        ))?;
        for step in &self.steps {
            out.line(&format!("{}: {}", step.place, step.reason))?;
            for found in &step.found {
                out.line(&format!(
                    "  entry: seq {}, {}, {} bytes",
                    found.seqno, found.kind, found.bytes
                ))?;
            }
            for (kind, handle) in &step.blocks {
                let name = block_name(*kind);
                out.line(&format!(
                    "  read: {name} block at {}, {} bytes",
                    handle.offset, handle.size
                ))?;
            }
        }
        out.line(&format!("answer: {answer}"))?;
        out.line(&format!(
            "cost with an empty cache: {blocks} blocks of {tables} tables; open tables hold their indexes and filters"
        ))
    }
}

impl Step {
    fn json(&self) -> Json {
        let mut found = Json::array();
        for entry in &self.found {
            let mut json = Json::object();
            json.set("seq", entry.seqno)
                .set("type", entry.kind)
                .set("bytes", count(entry.bytes));
            found.push(json);
        }
        let mut blocks = Json::array();
        for (kind, handle) in &self.blocks {
            let mut json = Json::object();
            json.set("kind", block_name(*kind))
                .set("offset", handle.offset)
                .set("bytes", handle.size);
            blocks.push(json);
        }
        let mut json = Json::object();
        json.set("place", &self.place)
            .set("reason", &self.reason)
            .set("entries", found)
            .set("blocks", blocks);
        json
    }
}

/// Converts a `usize` to `u64`.
fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Returns the printed name of an entry type.
fn kind_name(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Value | ValueType::ValuePreferredSeqno => "put",
        ValueType::Merge => "merge",
        ValueType::WideColumnEntity => "entity",
        ValueType::BlobIndex => "blob reference",
        ValueType::Deletion | ValueType::DeletionWithTimestamp => "deletion",
        ValueType::SingleDeletion => "single deletion",
        ValueType::RangeDeletion => "range deletion",
    }
}

/// Returns the printed name of a block type.
fn block_name(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Data => "data",
        BlockKind::Index => "index",
        BlockKind::Filter => "filter",
        BlockKind::FilterIndex => "filter index",
        BlockKind::Dictionary => "dictionary",
        BlockKind::RangeDeletions => "range deletions",
        BlockKind::Properties => "properties",
        BlockKind::Metaindex => "metaindex",
        BlockKind::Span => "span",
    }
}

/// Collects a batch's entries for the key, and the newest range deletion that covers it.
fn collect(
    batch: &WriteBatch,
    tree: &Tree,
    wanted: &[u8],
    next: &mut SeqNo,
    entries: &mut Vec<(SeqNo, ValueType, Vec<u8>)>,
    tombstone: &mut SeqNo,
) -> Outcome {
    // A later batch is newer, also where the operations of the one before share a number.
    let first = wal::sequence(batch).max(*next);
    *next = wal::visit_entries(batch, first, |seqno, entry, point| match (entry, point) {
        (_, Some((cf, key, value_type, value)))
            if cf == tree.id && tree.order.compare(key, wanted).is_eq() =>
        {
            entries.push((seqno, value_type, value.to_vec()));
        }
        (BatchEntry::DeleteRange { cf, from, to }, _)
            if *cf == tree.id
                && tree.order.compare(from, wanted).is_le()
                && tree.order.compare(wanted, to).is_lt() =>
        {
            *tombstone = seqno.max(*tombstone);
        }
        _ => {}
    })?;
    Ok(())
}

/// Returns all versions of the key in a table, newest first.
fn entries_of(table: &Arc<TableReader>, key: &[u8]) -> Outcome<Vec<Found>> {
    let mut cursor = table.cursor(BlockingSource::default(), &TableCursorOptions::default());
    cursor
        .seek(&encode(key, MAX_SEQNO, ValueType::FOR_SEEK))
        .map_err(Error::from)?;
    let mut found = Vec::new();
    while cursor.valid() {
        let internal = InternalKey::parse(cursor.key())?;
        if internal.user_key != key {
            break;
        }
        found.push(Found {
            seqno: internal.seqno,
            kind: kind_name(internal.value_type),
            bytes: cursor.value().len(),
        });
        cursor.next().map_err(Error::from)?;
    }
    Ok(found)
}

/// A block source that records the type and the handle of each requested block.
#[derive(Default)]
struct Recorder {
    source: BlockingSource,
    blocks: Vec<(BlockKind, BlockHandle)>,
}

impl BlockSource for Recorder {
    type Suspend = Blocking;

    fn block(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<Blocking>> {
        self.blocks.push((kind, handle));
        self.source.block(file, handle, kind)
    }
}
