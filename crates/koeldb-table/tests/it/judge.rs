//! Checks that hold for every table, from any writer.
//!
//! Scans, seeks and lookups must agree with each other and with the entries, for every block
//! source.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::key::{InternalKey, MAX_SEQNO, ValueType, encode, footer_of};
use koeldb_base::merge_operator::{FetchBlob, Merger, StringAppend};
use koeldb_base::{Blocking, Cursor, Fault, KeyOrder, Lookup, PinnedSlice, Result};
use koeldb_fs::RandomAccessFile;
use koeldb_table::block_based::cursor::CursorSource;
use koeldb_table::block_based::format::BlockHandle;
use koeldb_table::reader::{TableCursorOptions, TableReader};
use koeldb_table::source::{BlockKind, BlockSource, BlockingSource, CachedBlock, TableFile};

pub(crate) type Entry = (Vec<u8>, Vec<u8>);

/// A file whose bytes are in memory.
pub(crate) struct FileBytes {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl FileBytes {
    pub(crate) fn new(path: &Path, bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(FileBytes {
            path: path.to_owned(),
            bytes,
        })
    }
}

impl fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}", self.bytes.len(), self.path.display())
    }
}

impl RandomAccessFile for FileBytes {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let from = self.bytes.len().min(usize::try_from(offset).unwrap());
        let count = buffer.len().min(self.bytes.len() - from);
        buffer[..count].copy_from_slice(&self.bytes[from..from + count]);
        Ok(count)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// A source that suspends for every block except the last few.
///
/// It resembles one that keeps the blocks of the current call.
struct SuspendingSource {
    inner: BlockingSource,
    arrived: VecDeque<(u64, Arc<CachedBlock>)>,
    kept: usize,
}

impl SuspendingSource {
    fn keeping(kept: usize) -> Self {
        SuspendingSource {
            inner: BlockingSource::default(),
            arrived: VecDeque::new(),
            kept,
        }
    }
}

/// The suspension type of that source.
#[derive(Debug)]
struct Wanted;

impl BlockSource for SuspendingSource {
    type Suspend = Wanted;

    fn block(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<Wanted>> {
        if let Some((_, block)) = self.arrived.iter().find(|(at, _)| *at == handle.offset) {
            return Ok(Arc::clone(block));
        }
        let block = self.inner.block(file, handle, kind).map_err(Fault::widen)?;
        if self.arrived.len() == self.kept {
            self.arrived.pop_front();
        }
        self.arrived.push_back((handle.offset, block));
        Err(Fault::Suspend(Wanted))
    }
}

impl CursorSource for SuspendingSource {}

/// Repeats a call until it does not suspend.
fn insist<T, S>(mut call: impl FnMut() -> Result<T, Fault<S>>) -> Result<T> {
    for _ in 0..1000 {
        match call() {
            Ok(value) => return Ok(value),
            Err(Fault::Error(error)) => return Err(error),
            Err(Fault::Suspend(_)) => {}
        }
    }
    panic!("a read that suspends for ever");
}

pub(crate) fn blocking<T>(result: Result<T, Fault<Blocking>>) -> Result<T> {
    result.map_err(Into::into)
}

/// All entries of a forward scan.
pub(crate) fn scan(table: &Arc<TableReader>) -> Result<Vec<Entry>> {
    let mut cursor = table.cursor(BlockingSource::default(), &TableCursorOptions::default());
    let mut entries = Vec::new();
    blocking(cursor.seek_to_first())?;
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
        blocking(cursor.next())?;
    }
    Ok(entries)
}

/// All entries of a backward scan, in key order.
pub(crate) fn scan_backward(table: &Arc<TableReader>) -> Result<Vec<Entry>> {
    let mut cursor = table.cursor(BlockingSource::default(), &TableCursorOptions::default());
    let mut entries = Vec::new();
    blocking(cursor.seek_to_last())?;
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.pinned_value().to_vec()));
        blocking(cursor.prev())?;
    }
    entries.reverse();
    Ok(entries)
}

/// The result of a lookup in the table alone.
pub(crate) fn find(
    table: &TableReader,
    key: &[u8],
    snapshot: u64,
) -> Result<(bool, Option<PinnedSlice>)> {
    let mut lookup = Lookup::new(key, snapshot);
    blocking(table.search(&mut lookup, &mut BlockingSource::default()))?;
    conclude(lookup)
}

/// Takes references to blob files, which no table resolves, for the values.
struct References;

impl FetchBlob for References {
    fn fetch(&self, _: &[u8], reference: &[u8]) -> Result<PinnedSlice> {
        Ok(PinnedSlice::copy_of(reference))
    }
}

fn conclude(lookup: Lookup) -> Result<(bool, Option<PinnedSlice>)> {
    let settled = lookup.is_settled();
    let append = StringAppend::default();
    let merger = Merger::new(Some(&append), "default").with_blobs(&References);
    Ok((settled, lookup.finish(|| merger)?))
}

/// The expected result of a lookup, from all entries.
fn expected(
    table: &TableReader,
    order: &KeyOrder,
    entries: &[Entry],
    key: &[u8],
    snapshot: u64,
) -> (bool, Option<PinnedSlice>) {
    let mut lookup = Lookup::new(key, snapshot);
    if let Some(tombstones) = table.tombstones() {
        lookup.cover(tombstones.covering_seqno(key, snapshot));
    }
    let from =
        entries.partition_point(|(k, _)| order.compare_internal(k, lookup.seek_key()).is_lt());
    for (stored, value) in &entries[from..] {
        let parsed = InternalKey::parse(stored).unwrap();
        if parsed.user_key != key {
            break;
        }
        let pin = || PinnedSlice::copy_of(value);
        if lookup.offer(parsed.seqno, parsed.value_type, pin).unwrap() {
            break;
        }
    }
    conclude(lookup).unwrap()
}

/// A sample of `0..count` with about `most` elements.
fn sample(count: usize, most: usize) -> impl Iterator<Item = usize> {
    (0..count).step_by(count / most + 1)
}

/// Judges a table in `order` and returns its entries.
pub(crate) fn judge(table: &Arc<TableReader>, order: &KeyOrder, most: usize) -> Vec<Entry> {
    let entries = scan(table).unwrap();
    let in_order = |pair: &[Entry]| order.compare_internal(&pair[0].0, &pair[1].0).is_lt();
    assert!(entries.windows(2).all(in_order), "keys ascend");
    assert_eq!(scan_backward(table).unwrap(), entries, "backward");
    let properties = table.properties();
    assert_eq!(
        entries.len() as u64,
        properties.entry_count - properties.range_deletion_count
    );
    judge_lookups(table, order, &entries, most);
    judge_seeks(table, order, &entries, most);
    let mut bytes = 0;
    table.verify_checksums(&mut |block| bytes += block).unwrap();
    assert!(bytes > 0);
    judge_offsets(table, order, &entries);
    entries
}

fn judge_lookups(table: &Arc<TableReader>, order: &KeyOrder, entries: &[Entry], most: usize) {
    let mut suspending = SuspendingSource::keeping(6);
    let mut keys: Vec<(Vec<u8>, u64)> = Vec::new();
    for index in sample(entries.len(), most) {
        let key = InternalKey::parse(&entries[index].0).unwrap();
        let absent = [key.user_key, b"\0"].concat();
        let shorter = key.user_key[..key.user_key.len().saturating_sub(1)].to_vec();
        for snapshot in [key.seqno, key.seqno.saturating_sub(1), MAX_SEQNO] {
            keys.push((key.user_key.to_vec(), snapshot));
        }
        keys.push((absent, MAX_SEQNO));
        keys.push((shorter, MAX_SEQNO));
        assert!(blocking(table.may_contain(key.user_key, &mut BlockingSource::default())).unwrap());
    }
    keys.push((Vec::new(), MAX_SEQNO));
    keys.push((vec![0xff; 300], MAX_SEQNO));
    for (key, snapshot) in &keys {
        let wanted = expected(table, order, entries, key, *snapshot);
        assert_eq!(
            find(table, key, *snapshot).unwrap(),
            wanted,
            "{key:?} at {snapshot}"
        );
        let mut lookup = Lookup::new(key, *snapshot);
        insist(|| {
            lookup.rewind();
            table.search(&mut lookup, &mut suspending)
        })
        .unwrap();
        assert_eq!(conclude(lookup).unwrap(), wanted, "suspended, {key:?}");
    }
    judge_batches(table, order, entries, keys);
}

fn judge_batches(
    table: &Arc<TableReader>,
    order: &KeyOrder,
    entries: &[Entry],
    mut keys: Vec<(Vec<u8>, u64)>,
) {
    keys.sort_by(|a, b| order.compare(&a.0, &b.0).then(b.1.cmp(&a.1)));
    for batch in keys.chunks(32) {
        let mut lookups: Vec<Lookup> = batch.iter().map(|(k, s)| Lookup::new(k, *s)).collect();
        let mut references: Vec<&mut Lookup> = lookups.iter_mut().collect();
        let mut outcomes = vec![0; batch.len()];
        let mut source = BlockingSource::default();
        table.search_batch(&mut references, &mut source, |index, outcome| {
            outcomes[index] += 1;
            blocking(outcome).unwrap();
        });
        assert!(outcomes.iter().all(|&count| count == 1), "{outcomes:?}");
        let mut suspended: Vec<Lookup> = batch.iter().map(|(k, s)| Lookup::new(k, *s)).collect();
        search_suspended(table, &mut suspended);
        for ((lookup, suspended), (key, snapshot)) in lookups.into_iter().zip(suspended).zip(batch)
        {
            let wanted = expected(table, order, entries, key, *snapshot);
            assert_eq!(conclude(lookup).unwrap(), wanted, "in a batch, {key:?}");
            assert_eq!(conclude(suspended).unwrap(), wanted, "suspended, {key:?}");
        }
    }
}

/// Searches a batch, repeating suspended lookups until none is left.
fn search_suspended(table: &Arc<TableReader>, lookups: &mut [Lookup]) {
    let mut source = SuspendingSource::keeping(200);
    let mut pending: Vec<&mut Lookup> = lookups.iter_mut().collect();
    for _ in 0..1000 {
        let mut waits = vec![false; pending.len()];
        table.search_batch(&mut pending, &mut source, |index, outcome| match outcome {
            Ok(()) => {}
            Err(Fault::Suspend(_)) => waits[index] = true,
            Err(Fault::Error(error)) => panic!("{error}"),
        });
        let mut waits = waits.into_iter();
        pending.retain(|_| waits.next() == Some(true));
        if pending.is_empty() {
            return;
        }
        for lookup in &mut pending {
            lookup.rewind();
        }
    }
    panic!("a batch that suspends for ever");
}

fn judge_seeks(table: &Arc<TableReader>, order: &KeyOrder, entries: &[Entry], most: usize) {
    let options = TableCursorOptions::default();
    let mut cursor = table.cursor(BlockingSource::default(), &options);
    let mut suspending = table.cursor(SuspendingSource::keeping(6), &options);
    for index in sample(entries.len(), most) {
        let (user, footer) = footer_of(&entries[index].0);
        let just_before = encode(user, (footer >> 8) + 1, ValueType::FOR_SEEK);
        let behind = encode(&[user, b"\0"].concat(), MAX_SEQNO, ValueType::FOR_SEEK);
        for target in [&entries[index].0, &just_before, &behind] {
            let at =
                entries.partition_point(|(key, _)| order.compare_internal(key, target).is_lt());
            blocking(cursor.seek(target)).unwrap();
            insist(|| suspending.seek(target)).unwrap();
            let wanted = entries.get(at).cloned();
            assert_eq!(current(&cursor), wanted, "seek");
            assert_eq!(current(&suspending), wanted, "suspended seek");
            // Takes a few steps from here, in both directions.
            for step in 1..4 {
                if !cursor.valid() {
                    break;
                }
                blocking(cursor.next()).unwrap();
                insist(|| suspending.next()).unwrap();
                let wanted = entries.get(at + step).cloned();
                assert_eq!(current(&cursor), wanted, "next");
                assert_eq!(current(&suspending), wanted, "suspended next");
            }
            let behind =
                entries.partition_point(|(key, _)| order.compare_internal(key, target).is_le());
            blocking(cursor.seek_for_prev(target)).unwrap();
            insist(|| suspending.seek_for_prev(target)).unwrap();
            for step in 1..5 {
                let wanted = behind.checked_sub(step).map(|at| entries[at].clone());
                assert_eq!(current(&cursor), wanted, "backward");
                assert_eq!(current(&suspending), wanted, "suspended backward");
                if wanted.is_none() {
                    break;
                }
                blocking(cursor.prev()).unwrap();
                insist(|| suspending.prev()).unwrap();
            }
        }
    }
    blocking(cursor.seek(&encode(&[0xff; 300], 0, ValueType::Value))).unwrap();
    blocking(cursor.seek_to_last()).unwrap();
    assert_eq!(current(&cursor).as_ref(), entries.last());
    blocking(cursor.seek_to_first()).unwrap();
    assert_eq!(current(&cursor).as_ref(), entries.first());
    let mut whole = Vec::new();
    insist(|| suspending.seek_to_first()).unwrap();
    while suspending.valid() {
        whole.push((suspending.key().to_vec(), suspending.value().to_vec()));
        insist(|| suspending.next()).unwrap();
    }
    assert_eq!(whole, entries, "suspended scan");
}

pub(crate) fn current<C: Cursor>(cursor: &C) -> Option<Entry> {
    cursor
        .valid()
        .then(|| (cursor.key().to_vec(), cursor.value().to_vec()))
}

fn judge_offsets(table: &Arc<TableReader>, order: &KeyOrder, entries: &[Entry]) {
    let mut last = 0;
    for index in sample(entries.len(), 50) {
        let offset = table.approximate_offset(&entries[index].0).unwrap();
        assert!(offset >= last, "offsets ascend");
        last = offset;
    }
    let end = encode(&[0xff; 300], 0, ValueType::Value);
    if order.is_bytewise() {
        assert!(table.approximate_offset(&end).unwrap() >= last);
    }
}
