//! The metadata of a table file: its record in the MANIFEST, and its state while it is live.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use koeldb_base::file_name::FileNumber;
use koeldb_base::key::{RANGE_DELETION_SENTINEL, footer_of, user_key};
use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::timestamp::{
    MAX_TIMESTAMP, MIN_TIMESTAMP, strip_internal_into, with_timestamp_into,
};
use koeldb_base::{SeqNo, Timestamp};
use koeldb_table::memory_filter::MemoryFilter;
use koeldb_table::properties::names;
use koeldb_table::{TableProperties, TableReader};

use crate::blob_space::TableReferences;
use crate::open_tables::ReaderSlot;

/// The weight of a deletion among the bytes that decide on compactions (RocksDB:
/// `kDeletionWeightOnCompaction`).
const DELETION_WEIGHT: u64 = 2;

/// The tag of the smallest user-defined timestamp of a table in the MANIFEST.
pub(crate) const MIN_TIMESTAMP_TAG: u32 = 10;

/// The tag of the largest user-defined timestamp of a table in the MANIFEST.
pub(crate) const MAX_TIMESTAMP_TAG: u32 = 11;

/// The tag of the mark of undated tables in the MANIFEST (`kUserDefinedTimestampsPersisted`).
pub(crate) const UNDATED_TAG: u32 = 16;

/// The metadata of a table file: its MANIFEST fields and its state while it is live.
///
/// (RocksDB: `FileMetaData`.)
#[derive(Debug)]
pub struct FileMeta {
    /// The number in the name of the table file.
    pub number: FileNumber,
    /// The index of the table's directory among those of its column family
    /// ([`DataPaths`](crate::DataPaths)).
    pub path_id: u8,
    /// The length of the table file in bytes.
    pub bytes: u64,
    /// The smallest internal key, including range tombstones.
    pub smallest: Vec<u8>,
    /// The largest internal key; with the range-tombstone sentinel as footer its user key is
    /// excluded.
    pub largest: Vec<u8>,
    /// The smallest sequence number in the table.
    pub smallest_seqno: SeqNo,
    /// The largest sequence number in the table.
    pub largest_seqno: SeqNo,
    /// The age of the table among those of level 0: larger is newer. 0 if the writer recorded none.
    pub epoch: u64,
    /// The creation time of the oldest ancestor file, in seconds since 1970; 0 unknown.
    pub oldest_ancestor_time: u64,
    /// The creation time of this file, in seconds since 1970; 0 unknown.
    pub creation_time: u64,
    /// The internal unique id; `[0, 0]` for none.
    pub unique_id: [u64; 2],
    /// The name of the checksum function for the whole file, empty for none.
    pub checksum_name: Vec<u8>,
    /// The whole-file checksum.
    pub checksum: Vec<u8>,
    /// The size of the file after the data blocks; 0 unknown.
    pub tail_bytes: u64,
    /// The estimated bytes that the table's range tombstones free; 0 unknown.
    pub compensated_range_deletion_bytes: u64,
    /// Whether the table is marked for compaction in the MANIFEST.
    pub marked_for_compaction: bool,
    /// The oldest blob file to which the table refers; 0 for none.
    pub oldest_blob_file: FileNumber,
    /// The recorded temperature byte.
    pub temperature: u8,
    /// Whether the table stores keys without their timestamps, which the bounds here have.
    ///
    /// The bounds in the MANIFEST have none either.
    pub undated: bool,
    /// Other fields in the MANIFEST, as tag and bytes: kept for RocksDB, unused here.
    pub other_fields: Vec<(u32, Vec<u8>)>,
    /// The filter of the table's keys that is not in its file, of a table written by this process.
    pub memory_filter: Option<MemoryFilter>,
    /// The open reader, created on first use.
    pub reader: OnceLock<Arc<TableReader>>,
    /// The holder of the reader in place of `reader`, while the number of open tables is bounded.
    pub slot: OnceLock<Arc<ReaderSlot>>,
    /// The range tombstones, known once the table was opened.
    pub tombstones: OnceLock<Option<Arc<FragmentedTombstones>>>,
    /// Whether a running compaction has this file among its inputs.
    pub being_compacted: AtomicBool,
    /// Whether a compaction of the table was suggested since the database was opened.
    pub suggested: AtomicBool,
    /// Whether the table is to leave level 0 because the database is at rest.
    pub leaves_level0: AtomicBool,
    /// Entry statistics, known once the table was written or opened.
    pub entry_stats: EntryStats,
    /// The references to blob files, known once the table was written or opened: 24 bytes for each
    /// file.
    pub blob_references: OnceLock<TableReferences>,
    /// The size with the weight of its deletions ([`Version::compensate`](crate::Version::compensate)); 0 until it is known.
    pub compensated: AtomicU64,
    /// A hook for the moment when no reader can access the file through this metadata any more.
    pub drop_hook: DropHook,
}

/// A hook that runs when the last reference to a file's metadata is dropped.
#[derive(Default)]
pub struct DropHook(OnceLock<Arc<dyn Fn() + Send + Sync>>);

impl DropHook {
    /// Whether a hook function has been set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Sets the hook function; only the first call of `set` has an effect.
    ///
    /// The function runs in any thread and under any lock, so it must not wait.
    pub fn set(&self, hook: Arc<dyn Fn() + Send + Sync>) {
        let _ = self.0.set(hook);
    }
}

impl Drop for DropHook {
    fn drop(&mut self) {
        if let Some(hook) = self.0.take() {
            hook();
        }
    }
}

impl fmt::Debug for DropHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DropHook({})", self.0.get().is_some())
    }
}

/// Entry statistics from a table's properties; zero until it was written or opened.
#[derive(Debug, Default)]
pub struct EntryStats {
    /// The number of entries.
    pub entries: AtomicU64,
    /// The number of deletions, including range tombstones.
    pub deletions: AtomicU64,
    /// The number of range tombstones.
    pub range_deletions: AtomicU64,
    /// The number of entries with a newer entry of their key in the table; 0 also if unknown.
    pub older_versions: AtomicU64,
    /// The total size of keys.
    pub key_bytes: AtomicU64,
    /// The total size of values.
    pub value_bytes: AtomicU64,
    /// The creation time of the oldest file among its ancestors, in seconds since 1970; 0 unknown.
    pub ancestor_time: AtomicU64,
    /// The time when the table's oldest entry was written, in seconds since 1970; 0 unknown.
    pub oldest_key_time: AtomicU64,
    /// The time when the table's newest entry was written, in seconds since 1970; 0 unknown.
    pub newest_key_time: AtomicU64,
    /// Whether no snapshot needed the table's deletions and old versions when it was written.
    ///
    /// Another rewrite would then remove nothing.
    pub is_settled: AtomicBool,
}

impl EntryStats {
    /// Sets the statistics from the properties of the table.
    pub(crate) fn record(&self, properties: &TableProperties) {
        for (counter, value) in [
            (&self.entries, properties.entry_count),
            (&self.deletions, properties.deletion_count),
            (&self.range_deletions, properties.range_deletion_count),
            (&self.older_versions, properties.older_version_count),
            (&self.key_bytes, properties.raw_key_bytes),
            (&self.value_bytes, properties.raw_value_bytes),
            (&self.ancestor_time, properties.creation_time),
            (&self.oldest_key_time, properties.oldest_key_time),
            (&self.newest_key_time, properties.newest_key_time),
        ] {
            counter.store(value, Relaxed);
        }
        // The table of a worker does not record it.
        if properties.user_flag(names::SETTLED) == Some(true) {
            self.is_settled.store(true, Relaxed);
        }
    }

    /// Copies the statistics of other metadata of the same table.
    pub(crate) fn copy_from(&self, other: &EntryStats) {
        for (to, from) in [
            (&self.entries, &other.entries),
            (&self.deletions, &other.deletions),
            (&self.range_deletions, &other.range_deletions),
            (&self.older_versions, &other.older_versions),
            (&self.key_bytes, &other.key_bytes),
            (&self.value_bytes, &other.value_bytes),
            (&self.ancestor_time, &other.ancestor_time),
            (&self.oldest_key_time, &other.oldest_key_time),
            (&self.newest_key_time, &other.newest_key_time),
        ] {
            to.store(from.load(Relaxed), Relaxed);
        }
        let is_settled = other.is_settled.load(Relaxed);
        self.is_settled.store(is_settled, Relaxed);
    }
}

impl FileMeta {
    /// Returns the cached table reader; `None` if the table is not open.
    #[must_use]
    pub fn open_reader(&self) -> Option<Arc<TableReader>> {
        let kept = self.reader.get().cloned();
        kept.or_else(|| self.slot.get()?.get())
    }

    /// Whether the table was opened at least once.
    #[must_use]
    pub fn was_opened(&self) -> bool {
        self.tombstones.get().is_some()
    }

    /// Creates metadata with only number, size and bounds set.
    #[must_use]
    pub fn new(number: FileNumber, bytes: u64, smallest: Vec<u8>, largest: Vec<u8>) -> Self {
        FileMeta {
            number,
            path_id: 0,
            bytes,
            smallest,
            largest,
            smallest_seqno: 0,
            largest_seqno: 0,
            epoch: 0,
            oldest_ancestor_time: 0,
            creation_time: 0,
            unique_id: [0; 2],
            checksum_name: Vec::new(),
            checksum: Vec::new(),
            tail_bytes: 0,
            compensated_range_deletion_bytes: 0,
            marked_for_compaction: false,
            oldest_blob_file: 0,
            temperature: 0,
            undated: false,
            other_fields: Vec::new(),
            memory_filter: None,
            reader: OnceLock::new(),
            slot: OnceLock::new(),
            tombstones: OnceLock::new(),
            being_compacted: AtomicBool::new(false),
            suggested: AtomicBool::new(false),
            leaves_level0: AtomicBool::new(false),
            entry_stats: EntryStats::default(),
            blob_references: OnceLock::new(),
            compensated: AtomicU64::new(0),
            drop_hook: DropHook::default(),
        }
    }

    /// Sets the range of user-defined timestamps to that in the properties of the table, if any.
    pub fn record_timestamps(&mut self, properties: &TableProperties) {
        if let Some((least, most)) = properties.timestamps() {
            self.set_timestamps(&least, &most);
        }
    }

    /// Sets the range of user-defined timestamps.
    pub fn set_timestamps(&mut self, least: &Timestamp, most: &Timestamp) {
        let is_range = |tag: u32| tag == MIN_TIMESTAMP_TAG || tag == MAX_TIMESTAMP_TAG;
        self.other_fields.retain(|(tag, _)| !is_range(*tag));
        self.other_fields.push((MIN_TIMESTAMP_TAG, least.to_vec()));
        self.other_fields.push((MAX_TIMESTAMP_TAG, most.to_vec()));
    }

    /// The newest user-defined timestamp of the table; `None` if the MANIFEST does not state it.
    #[must_use]
    pub fn newest_timestamp(&self) -> Option<Timestamp> {
        let mut fields = self.other_fields.iter();
        let (_, value) = fields.find(|(tag, _)| *tag == MAX_TIMESTAMP_TAG)?;
        Timestamp::try_from(&value[..]).ok()
    }

    /// Returns a copy of the MANIFEST fields with another epoch number, without runtime state.
    #[must_use]
    pub fn with_epoch(&self, epoch: u64) -> Self {
        FileMeta {
            path_id: self.path_id,
            smallest_seqno: self.smallest_seqno,
            largest_seqno: self.largest_seqno,
            epoch,
            oldest_ancestor_time: self.oldest_ancestor_time,
            creation_time: self.creation_time,
            unique_id: self.unique_id,
            checksum_name: self.checksum_name.clone(),
            checksum: self.checksum.clone(),
            tail_bytes: self.tail_bytes,
            compensated_range_deletion_bytes: self.compensated_range_deletion_bytes,
            marked_for_compaction: self.marked_for_compaction,
            oldest_blob_file: self.oldest_blob_file,
            temperature: self.temperature,
            undated: self.undated,
            other_fields: self.other_fields.clone(),
            ..FileMeta::new(
                self.number,
                self.bytes,
                self.smallest.clone(),
                self.largest.clone(),
            )
        }
    }

    /// Returns a copy of the MANIFEST fields as those of an undated table, whose recorded bounds
    /// have no timestamps.
    ///
    /// All keys of the table have the smallest timestamp. A range tombstone ends before all
    /// versions of its end.
    #[must_use]
    pub fn as_undated(&self) -> Self {
        let mut file = self.with_epoch(self.epoch);
        with_timestamp_into(&mut file.smallest, &self.smallest, &MIN_TIMESTAMP);
        let largest = match self.largest_is_exclusive() {
            true => &MAX_TIMESTAMP,
            false => &MIN_TIMESTAMP,
        };
        with_timestamp_into(&mut file.largest, &self.largest, largest);
        file.other_fields.retain(|(tag, _)| *tag != UNDATED_TAG);
        file.undated = true;
        file
    }

    /// Returns a copy of the MANIFEST fields of an undated table as those of one in a column family
    /// without timestamps.
    #[must_use]
    pub fn without_timestamps(&self) -> Self {
        let mut file = self.with_epoch(self.epoch);
        strip_internal_into(&mut file.smallest, &self.smallest);
        strip_internal_into(&mut file.largest, &self.largest);
        file.undated = false;
        file
    }

    /// Whether the MANIFEST records that the table stores keys without timestamps.
    #[must_use]
    pub fn is_recorded_undated(&self) -> bool {
        let mut fields = self.other_fields.iter();
        fields.any(|(tag, value)| *tag == UNDATED_TAG && value[..] != [1])
    }

    /// Returns a copy of the MANIFEST fields for the table in the first of its directories.
    #[must_use]
    pub fn in_first_path(&self) -> Self {
        FileMeta {
            path_id: 0,
            ..self.with_epoch(self.epoch)
        }
    }

    /// The file size plus the data that its deletions should free (`compensated_file_size`).
    ///
    /// Point deletions count once [`Version::compensate`](crate::Version::compensate) has weighed them.
    #[must_use]
    pub fn compensated_bytes(&self) -> u64 {
        match self.compensated.load(Relaxed) {
            0 => self
                .bytes
                .saturating_add(self.compensated_range_deletion_bytes),
            known => known,
        }
    }

    /// Computes the compensated file size, given the average size `value_bytes` of a stored value.
    ///
    /// Point deletions count if they are at least as many as the other entries: in a steady state
    /// they are fewer, and the tree must keep its shape.
    pub(crate) fn compensate(&self, value_bytes: u64) {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        let stats = &self.entry_stats;
        let (entries, deletions) = (of(&stats.entries), of(&stats.deletions));
        let points = deletions.saturating_sub(of(&stats.range_deletions));
        let excess = points.saturating_mul(2).saturating_sub(entries);
        let freed = excess
            .saturating_mul(value_bytes)
            .saturating_mul(DELETION_WEIGHT);
        let bytes = self.bytes.saturating_add(freed);
        let bytes = bytes.saturating_add(self.compensated_range_deletion_bytes);
        self.compensated.store(bytes, Relaxed);
    }

    /// The first user key.
    #[must_use]
    pub fn smallest_user_key(&self) -> &[u8] {
        user_key(&self.smallest)
    }

    /// The user key of the upper bound; excluded if [`FileMeta::largest_is_exclusive`].
    #[must_use]
    pub fn largest_user_key(&self) -> &[u8] {
        user_key(&self.largest)
    }

    /// Whether the upper bound is the exclusive end of a range tombstone, so not in the file.
    #[must_use]
    pub fn largest_is_exclusive(&self) -> bool {
        footer_of(&self.largest).1 == RANGE_DELETION_SENTINEL
    }

    /// The creation time of the oldest ancestor file (`oldest_ancester_time`); 0 if unknown.
    ///
    /// It is from the MANIFEST, or else from the table, once that was opened; if neither has it, it is the creation
    /// time of the file.
    #[must_use]
    pub fn ancestor_time(&self) -> u64 {
        let times = [
            self.oldest_ancestor_time,
            self.entry_stats.ancestor_time.load(Relaxed),
            self.creation_time,
        ];
        times.into_iter().find(|&time| time > 0).unwrap_or(0)
    }

    /// The time when the table's oldest entry was written, in seconds since 1970; 0 if unknown.
    #[must_use]
    pub fn oldest_key_time(&self) -> u64 {
        self.entry_stats.oldest_key_time.load(Relaxed)
    }

    /// The time when the table's newest entry was written, in seconds since 1970; 0 if unknown.
    ///
    /// If the table does not have it, or was not opened yet, it is the creation time of the file.
    #[must_use]
    pub fn newest_key_time(&self) -> u64 {
        match self.entry_stats.newest_key_time.load(Relaxed) {
            0 => self.creation_time,
            time => time,
        }
    }

    /// Whether a running compaction reads this file.
    #[must_use]
    pub fn is_being_compacted(&self) -> bool {
        self.being_compacted
            .load(std::sync::atomic::Ordering::Relaxed)
    }
}
