//! One state of one column family's tree: which tables lie on which level.
//!
//! A [`Version`] never changes; an edit makes the next one, and readers keep the one they began with. Level 0
//! holds runs that may overlap, newest first; every deeper level is one run of disjoint tables in key order.
//! The open reader of a table hangs off its [`FileMeta`], so that a read does no table-cache look-up.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use koeldb_base::file_name::FileNumber;
use koeldb_base::key::{RANGE_DELETION_SENTINEL, footer_of, user_key};
use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::{KeyOrder, SeqNo};
use koeldb_table::TableReader;
use koeldb_table::cuckoo::level::CuckooLevel;

/// What the MANIFEST records of a table, and what hangs off it while it is live.
#[derive(Debug)]
pub struct FileMeta {
    /// The number in its name.
    pub number: FileNumber,
    /// Its length in bytes.
    pub bytes: u64,
    /// The first internal key, range tombstones included.
    pub smallest: Vec<u8>,
    /// The last internal key; with the range-tombstone sentinel as footer its user key is excluded.
    pub largest: Vec<u8>,
    /// The smallest sequence number inside.
    pub smallest_seqno: SeqNo,
    /// The largest sequence number inside.
    pub largest_seqno: SeqNo,
    /// Orders the tables of level 0: larger is newer. 0 where the writer recorded none.
    pub epoch: u64,
    /// When the oldest entry's file was made, in seconds since 1970; 0 unknown.
    pub oldest_ancestor_time: u64,
    /// When this file was made, in seconds since 1970; 0 unknown.
    pub creation_time: u64,
    /// The internal unique id; `[0, 0]` for none.
    pub unique_id: [u64; 2],
    /// The name of the whole-file checksum's function, empty for none.
    pub checksum_name: Vec<u8>,
    /// The whole-file checksum.
    pub checksum: Vec<u8>,
    /// Bytes behind the data blocks; 0 unknown.
    pub tail_bytes: u64,
    /// Bytes that its range tombstones are estimated to free; 0 unknown.
    pub compensated_range_deletion_bytes: u64,
    /// The user asked for this file to be compacted.
    pub marked_for_compaction: bool,
    /// The oldest blob file that it refers to; 0 for none.
    pub oldest_blob_file: FileNumber,
    /// The temperature byte recorded.
    pub temperature: u8,
    /// What else the MANIFEST says of it, as tag and bytes: kept for RocksDB, without meaning here.
    pub other_fields: Vec<(u32, Vec<u8>)>,
    /// The open reader, once it was needed.
    pub reader: OnceLock<Arc<TableReader>>,
    /// Whether a running compaction has this file among its inputs.
    pub being_compacted: AtomicBool,
    /// Point entries and deletions inside, known once the table was opened: `entries << 1 | known`.
    pub entry_stats: EntryStats,
}

/// What the properties of a table say of its entries; zero until it was opened.
#[derive(Debug, Default)]
pub struct EntryStats {
    /// All entries.
    pub entries: AtomicU64,
    /// Deletions among them.
    pub deletions: AtomicU64,
    /// Sum of key bytes.
    pub key_bytes: AtomicU64,
    /// Sum of value bytes.
    pub value_bytes: AtomicU64,
}

impl FileMeta {
    /// A table with nothing but its identity and bounds set.
    #[must_use]
    pub fn new(number: FileNumber, bytes: u64, smallest: Vec<u8>, largest: Vec<u8>) -> Self {
        FileMeta {
            number,
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
            other_fields: Vec::new(),
            reader: OnceLock::new(),
            being_compacted: AtomicBool::new(false),
            entry_stats: EntryStats::default(),
        }
    }

    /// The same file under another epoch, not yet opened.
    #[must_use]
    pub fn with_epoch(&self, epoch: u64) -> Self {
        FileMeta {
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
            other_fields: self.other_fields.clone(),
            ..FileMeta::new(
                self.number,
                self.bytes,
                self.smallest.clone(),
                self.largest.clone(),
            )
        }
    }

    /// The first user key.
    #[must_use]
    pub fn smallest_user_key(&self) -> &[u8] {
        user_key(&self.smallest)
    }

    /// The last user key, or the first one behind the file if [`FileMeta::largest_is_exclusive`].
    #[must_use]
    pub fn largest_user_key(&self) -> &[u8] {
        user_key(&self.largest)
    }

    /// Whether the largest user key is the end of a range tombstone and not in the file.
    #[must_use]
    pub fn largest_is_exclusive(&self) -> bool {
        footer_of(&self.largest).1 == RANGE_DELETION_SENTINEL
    }

    /// Whether a running compaction reads this file.
    #[must_use]
    pub fn is_being_compacted(&self) -> bool {
        self.being_compacted
            .load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// The tables of one level.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// Level 0: newest first. Deeper: in key order, disjoint.
    pub files: Vec<Arc<FileMeta>>,
}

impl Level {
    /// The bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// For a level of disjoint files: the index of the first file whose largest key is at or behind the internal
    /// key `target`; the number of files if there is none.
    #[inline]
    #[must_use]
    pub fn find(&self, order: &KeyOrder, target: &[u8]) -> usize {
        self.files
            .partition_point(|file| order.compare_internal(&file.largest, target) == Ordering::Less)
    }
}

/// What the MANIFEST records of a blob file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobFile {
    /// The number in its name.
    pub number: FileNumber,
    /// The blobs in it.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The name of the checksum's function, empty for none.
    pub checksum_name: Vec<u8>,
    /// The checksum of the file.
    pub checksum: Vec<u8>,
    /// The blobs that nothing refers to.
    pub garbage_count: u64,
    /// Their bytes.
    pub garbage_bytes: u64,
}

/// One state of the tree of one column family.
#[derive(Debug)]
pub struct Version {
    /// The order of user keys.
    pub order: KeyOrder,
    /// All levels, the configured number of them.
    pub levels: Vec<Level>,
    /// The blob files that tables may refer to.
    pub blob_files: BTreeMap<FileNumber, BlobFile>,
    /// The range tombstones of all tables, once they were asked for.
    pub(crate) tombstones: OnceLock<Vec<Arc<FragmentedTombstones>>>,
    /// All tables, once they were asked for, if they are cuckoo tables of one level behind level 0.
    pub(crate) cuckoo: OnceLock<Option<CuckooLevel>>,
}

impl Version {
    /// An empty tree.
    #[must_use]
    pub fn empty(order: KeyOrder, level_count: usize) -> Self {
        Self::new(order, vec![Level::default(); level_count])
    }

    /// A tree of these levels.
    #[must_use]
    pub fn new(order: KeyOrder, levels: Vec<Level>) -> Self {
        Version {
            order,
            levels,
            blob_files: BTreeMap::new(),
            tombstones: OnceLock::new(),
            cuckoo: OnceLock::new(),
        }
    }

    /// All files with their levels.
    pub fn files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, files)| files.files.iter().map(move |file| (level, file)))
    }

    /// The files of `level` that hold keys in the closed range of user keys; an absent bound is open.
    #[must_use]
    pub fn overlapping(
        &self,
        level: usize,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Vec<Arc<FileMeta>> {
        self.levels[level]
            .files
            .iter()
            .filter(|file| self.overlaps(file, from, to))
            .cloned()
            .collect()
    }

    /// Whether `file` holds keys in the closed range of user keys.
    #[must_use]
    pub fn overlaps(&self, file: &FileMeta, from: Option<&[u8]>, to: Option<&[u8]>) -> bool {
        let behind_from =
            from.is_none_or(
                |from| match self.order.compare(file.largest_user_key(), from) {
                    Ordering::Less => false,
                    Ordering::Equal => !file.largest_is_exclusive(),
                    Ordering::Greater => true,
                },
            );
        behind_from
            && to.is_none_or(|to| {
                self.order.compare(file.smallest_user_key(), to) != Ordering::Greater
            })
    }

    /// The bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.levels.iter().map(Level::bytes).sum()
    }

    /// The deepest level that has files; 0 for an empty tree.
    #[must_use]
    pub fn deepest_level(&self) -> usize {
        self.levels
            .iter()
            .rposition(|level| !level.files.is_empty())
            .unwrap_or(0)
    }
}
