//! The operations of a batch on one column family, in the order of keys.
//!
//! They are in a memtable that the batch shares with its cursors: the batch inserts later
//! operations, which a cursor meets if they are ahead of its position. (RocksDB keeps the index of
//! a batch in a skip list: `WBWIIteratorImpl`.) The number of an operation in the batch is its
//! sequence number, so that the operations of a key are sorted newest first.
//!
//! A memtable cannot lose entries: a rollback to a save point replaces it. Cursors notice this by
//! the generation, and seek again.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::key::{self, MAX_SEQNO, encode_into, user_key};
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Cursor, KeyOrder, PinnedSlice, Result, SeqNo, ValueType};
use koeldb_memtable::{Memtable, MemtableCursor, MemtableOptions, RepKind};

use super::effect::{Effect, bare_key, effect};
use crate::api::column_family::ColumnFamily;
use crate::batch::BatchEntry;
use crate::state::key_bounds::KeyBounds;

/// The operations of a batch on one column family, sorted by key and newest first.
pub(super) struct Delta {
    cf: u32,
    /// The order of keys without user-defined timestamps.
    order: KeyOrder,
    /// Whether the keys of the batch end with user-defined timestamps, which are left out here.
    has_timestamps: bool,
    memtable: Mutex<Arc<Memtable>>,
    /// The number of times that the memtable was replaced.
    generation: AtomicU64,
    /// The number of operations added so far.
    additions: AtomicU64,
}

impl Delta {
    /// Creates the operations on `family`, none so far.
    pub(super) fn new(family: &ColumnFamily) -> Self {
        let order = family.data().user_order.clone();
        Delta {
            cf: family.id(),
            memtable: Mutex::new(empty(&order)),
            order,
            has_timestamps: family.data().has_timestamps,
            generation: AtomicU64::new(0),
            additions: AtomicU64::new(0),
        }
    }

    /// Adds an operation, which must be newer than all others, unless it has no key.
    pub(super) fn add(&self, number: SeqNo, entry: &BatchEntry<'_>) {
        let (value_type, value) = match *entry {
            BatchEntry::Put { value, .. } => (ValueType::Value, value),
            BatchEntry::PutEntity { entity, .. } => (ValueType::WideColumnEntity, entity),
            BatchEntry::Merge { operand, .. } => (ValueType::Merge, operand),
            BatchEntry::Delete { .. } => (ValueType::Deletion, &[][..]),
            BatchEntry::SingleDelete { .. } => (ValueType::SingleDeletion, &[][..]),
            _ => return,
        };
        let key = bare_key(entry, self.has_timestamps);
        let added = lock(&self.memtable).insert(number, value_type, key, value);
        debug_assert!(added.is_ok(), "{added:?}");
        self.additions.fetch_add(1, Ordering::Release);
    }

    /// Removes all operations.
    pub(super) fn clear(&self) {
        *lock(&self.memtable) = empty(&self.order);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Calls `visit` with all operations, and with whether each is the newest of its key.
    pub(super) fn for_each(&self, mut visit: impl FnMut(BatchEntry<'_>, bool)) -> Result<()> {
        let memtable = Arc::clone(&lock(&self.memtable));
        let mut cursor = memtable.borrowing_cursor();
        cursor.seek_to_first()?;
        let mut last: Option<Vec<u8>> = None;
        while cursor.valid() {
            let own = user_key(cursor.key());
            let is_newest = last
                .as_deref()
                .is_none_or(|last| !self.order.equal(last, own));
            if is_newest {
                last = Some(own.to_vec());
            }
            visit(
                operation(self.cf, type_of(cursor.key()), own, cursor.value()),
                is_newest,
            );
            cursor.next()?;
        }
        Ok(())
    }
}

/// Creates an empty memtable for the operations of a batch.
fn empty(order: &KeyOrder) -> Arc<Memtable> {
    let options = MemtableOptions {
        // Others do not show later operations.
        rep: RepKind::SkipList { lookahead: 0 },
        // Memory in blocks of a few KiB first, none of them huge pages.
        write_buffer_bytes: 0,
        ..MemtableOptions::default()
    };
    Memtable::new(order.clone(), &options)
}

/// Returns the type of an operation from its internal key.
fn type_of(internal: &[u8]) -> ValueType {
    let (_, footer) = key::footer_of(internal);
    let byte = u8::try_from(footer & 0xff).ok();
    byte.and_then(ValueType::from_byte)
        .unwrap_or(ValueType::Deletion)
}

/// Returns an operation as an entry of a batch.
fn operation<'a>(cf: u32, value_type: ValueType, key: &'a [u8], value: &'a [u8]) -> BatchEntry<'a> {
    match value_type {
        ValueType::Value => BatchEntry::Put { cf, key, value },
        ValueType::WideColumnEntity => BatchEntry::PutEntity {
            cf,
            key,
            entity: value,
        },
        ValueType::Merge => BatchEntry::Merge {
            cf,
            key,
            operand: value,
        },
        ValueType::SingleDeletion => BatchEntry::SingleDelete { cf, key },
        _ => BatchEntry::Delete { cf, key },
    }
}

/// A position among the keys of a [`Delta`], within bounds.
///
/// It is at a key, or invalid. An invalid position stays invalid until a seek.
pub(super) struct DeltaCursor {
    delta: Arc<Delta>,
    /// Stands at an operation on `key`, if the position is valid.
    cursor: MemtableCursor<'static>,
    generation: u64,
    bounds: KeyBounds,
    is_valid: bool,
    key: Vec<u8>,
    /// The operations on `key` that decide its value, newest first, as of `read_at`.
    operations: Vec<(ValueType, PinnedSlice)>,
    /// The number of additions before which `operations` were read; `None` after a move.
    read_at: Option<u64>,
    /// The key sought, encoded.
    sought: Vec<u8>,
}

impl DeltaCursor {
    pub(super) fn new(delta: Arc<Delta>, bounds: KeyBounds) -> Self {
        let generation = delta.generation.load(Ordering::Acquire);
        let cursor = lock(&delta.memtable).cursor();
        DeltaCursor {
            cursor,
            delta,
            generation,
            bounds,
            is_valid: false,
            key: Vec::new(),
            operations: Vec::new(),
            read_at: None,
            sought: Vec::new(),
        }
    }

    /// Loses the position if operations were removed from the batch; `true` if so.
    pub(super) fn renew(&mut self) -> bool {
        let generation = self.delta.generation.load(Ordering::Acquire);
        if generation == self.generation {
            return false;
        }
        self.generation = generation;
        self.cursor = lock(&self.delta.memtable).cursor();
        (self.is_valid, self.read_at) = (false, None);
        true
    }

    /// Whether the position is at a key.
    pub(super) fn valid(&self) -> bool {
        self.is_valid
    }

    /// The key at the position, as of the last move or [`DeltaCursor::read`].
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Moves to the first operation on `key` or a later key.
    fn find_newest(&mut self, key: &[u8]) -> Result<()> {
        self.sought.clear();
        encode_into(&mut self.sought, key, MAX_SEQNO, ValueType::FOR_SEEK);
        Ok(self.cursor.seek(&self.sought)?)
    }

    /// Moves to the last operation before those on `key`.
    fn find_before(&mut self, key: &[u8]) -> Result<()> {
        self.sought.clear();
        encode_into(&mut self.sought, key, MAX_SEQNO, ValueType::FOR_SEEK);
        Ok(self.cursor.seek_for_prev(&self.sought)?)
    }

    /// Moves to the last operation on `key` or an earlier key.
    fn find_oldest(&mut self, key: &[u8]) -> Result<()> {
        self.sought.clear();
        encode_into(&mut self.sought, key, 0, ValueType::Deletion);
        Ok(self.cursor.seek_for_prev(&self.sought)?)
    }

    /// Takes the key that the cursor has reached as the position, if it is within the bounds.
    fn arrive(&mut self) {
        self.read_at = None;
        self.is_valid = self.cursor.valid();
        if self.is_valid {
            let key = user_key(self.cursor.key());
            let order = &self.delta.order;
            self.is_valid =
                !self.bounds.is_before(order, key) && !self.bounds.is_behind(order, key);
            self.key.clear();
            self.key.extend_from_slice(key);
        }
    }

    pub(super) fn seek_to_first(&mut self) -> Result<()> {
        match self.bounds.lower.clone() {
            Bound::Unbounded => self.cursor.seek_to_first()?,
            Bound::Included(lower) => self.find_newest(&lower)?,
            Bound::Excluded(lower) => {
                self.find_newest(&lower)?;
                self.pass(&lower)?;
            }
        }
        self.arrive();
        Ok(())
    }

    pub(super) fn seek_to_last(&mut self) -> Result<()> {
        match self.bounds.upper.clone() {
            Bound::Unbounded => self.cursor.seek_to_last()?,
            Bound::Included(upper) => self.find_oldest(&upper)?,
            Bound::Excluded(upper) => self.find_before(&upper)?,
        }
        self.arrive();
        Ok(())
    }

    pub(super) fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.bounds.is_before(&self.delta.order, key) {
            return self.seek_to_first();
        }
        self.find_newest(key)?;
        self.arrive();
        Ok(())
    }

    pub(super) fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        if self.bounds.is_behind(&self.delta.order, key) {
            return self.seek_to_last();
        }
        self.find_oldest(key)?;
        self.arrive();
        Ok(())
    }

    /// Moves past the operations on `key`, at one of which the cursor stands.
    fn pass(&mut self, key: &[u8]) -> Result<()> {
        while self.cursor.valid() && self.delta.order.equal(user_key(self.cursor.key()), key) {
            self.cursor.next()?;
        }
        Ok(())
    }

    /// Moves to the next key.
    pub(super) fn next(&mut self) -> Result<()> {
        if self.is_valid {
            let key = std::mem::take(&mut self.key);
            let passed = self.pass(&key);
            self.key = key;
            passed?;
            self.arrive();
        }
        Ok(())
    }

    /// Moves to the previous key.
    pub(super) fn prev(&mut self) -> Result<()> {
        if self.is_valid {
            let key = std::mem::take(&mut self.key);
            let found = self.find_before(&key);
            self.key = key;
            found?;
            self.arrive();
        }
        Ok(())
    }

    /// Reads the operations that decide the value of the key, among them those added meanwhile.
    ///
    /// Returns whether there is a key.
    pub(super) fn read(&mut self) -> Result<bool> {
        let additions = self.delta.additions.load(Ordering::Acquire);
        if !self.is_valid || self.read_at == Some(additions) {
            return Ok(self.is_valid);
        }
        let key = std::mem::take(&mut self.key);
        let read = self.collect(&key);
        self.key = key;
        read?;
        self.read_at = Some(additions);
        Ok(true)
    }

    /// Collects the operations on `key` down to one that is not a merge operand.
    ///
    /// The cursor stays at one of them: keys that are added right behind them are then ahead of it.
    fn collect(&mut self, key: &[u8]) -> Result<()> {
        self.operations.clear();
        self.find_newest(key)?;
        while self.cursor.valid() && self.delta.order.equal(user_key(self.cursor.key()), key) {
            let value_type = type_of(self.cursor.key());
            self.operations
                .push((value_type, self.cursor.pinned_value()));
            if value_type != ValueType::Merge {
                return Ok(());
            }
            self.cursor.next()?;
        }
        self.find_newest(key)
    }

    /// The combined effect of the operations that were read.
    pub(super) fn effect(&self) -> Effect<'_> {
        let cf = self.delta.cf;
        let operations = self.operations.iter();
        effect(operations.map(|(value_type, value)| operation(cf, *value_type, &self.key, value)))
    }
}
