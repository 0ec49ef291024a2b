//! Descriptions of flushes, memtables, ingestions and stalls, for listeners.

#![expect(unsafe_code, reason = "lends parts of objects of the caller")]

use koeldb::{
    BlobFileAdditionInfo, BlobFileGarbageInfo, Compression, ExternalFileIngestionInfo,
    FlushJobInfo, FlushReason, MemtableInfo, StallCondition,
};

use crate::handle::Handle;
use crate::text::Text;

use super::table_properties::TableProperties;

/// Defines methods of a type that return a part of it.
macro_rules! getters {
    ($Of:ty { $($name:ident: $returns:ty = |$of:ident| $value:expr;)* }) => {
        impl $Of {
            $(pub(crate) fn $name(&self) -> $returns {
                let $of = self;
                $value
            })*
        }
    };
}

/// Defines unsafe functions that lend an object within another one; null if there is none.
macro_rules! lent {
    ($($name:ident($Of:ty $(, $at:ident: $At:ty)*) -> $Part:ty = |$of:ident| $value:expr;)*) => {$(
        /// Lends a part of an object.
        ///
        /// # Safety
        /// The pointer is null or that of an object of this type.
        pub(crate) unsafe fn $name(
            info: *const Handle<$Of> $(, $at: $At)*
        ) -> *const Handle<$Part> {
            // SAFETY: promised by the caller.
            let info = unsafe { crate::handle::optional(info) };
            let part: Option<&Handle<$Part>> = info.and_then(|$of| $value);
            part.map_or(std::ptr::null(), std::ptr::from_ref)
        }
    )*};
}

pub(super) use {getters, lent};

/// Returns the id of this thread, in which the job of an event runs.
pub(super) fn thread_id() -> u64 {
    // SAFETY: it has no preconditions.
    unsafe { libc::pthread_self() }
}

/// Returns the number of a job as C declares it.
pub(super) fn int(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Returns the number of a codec in C.
pub(super) fn codec(of: Compression) -> u32 {
    u32::from(of.to_byte())
}

/// A blob file that a job wrote (`rocksdb_blob_file_addition_info_t`).
pub(crate) struct BlobFile {
    info: BlobFileAdditionInfo,
    path: Text,
}

impl BlobFile {
    /// Describes a blob file.
    pub(super) fn handle(info: &BlobFileAdditionInfo) -> Handle<Self> {
        Handle::new(BlobFile {
            info: info.clone(),
            path: Text::of_path(&info.path),
        })
    }
}

getters!(BlobFile {
    path: &[u8] = |of| of.path.bytes();
    number: u64 = |of| of.info.file;
    count: u64 = |of| of.info.blob_count;
    bytes: u64 = |of| of.info.blob_bytes;
});

/// The garbage that a job left in a blob file (`rocksdb_blob_file_garbage_info_t`).
pub(crate) struct BlobGarbage {
    info: BlobFileGarbageInfo,
    path: Text,
}

impl BlobGarbage {
    /// Describes the garbage of a blob file.
    pub(super) fn handle(info: &BlobFileGarbageInfo) -> Handle<Self> {
        Handle::new(BlobGarbage {
            info: info.clone(),
            path: Text::of_path(&info.path),
        })
    }
}

getters!(BlobGarbage {
    path: &[u8] = |of| of.path.bytes();
    number: u64 = |of| of.info.file;
    count: u64 = |of| of.info.garbage_blob_count;
    bytes: u64 = |of| of.info.garbage_blob_bytes;
});

/// A flush (`rocksdb_flushjobinfo_t`).
pub(crate) struct FlushJob {
    info: FlushJobInfo,
    family: Text,
    /// The path of the table; empty before it is written.
    path: Text,
    properties: Option<Handle<TableProperties>>,
    blob_files: Vec<Handle<BlobFile>>,
}

impl From<&FlushJobInfo> for FlushJob {
    fn from(info: &FlushJobInfo) -> Self {
        let properties = info.properties.as_ref();
        FlushJob {
            info: info.clone(),
            family: Text::new(&info.column_family),
            path: info.path.as_deref().map(Text::of_path).unwrap_or_default(),
            properties: properties.map(|properties| Handle::new(properties.into())),
            blob_files: info.blob_files.iter().map(BlobFile::handle).collect(),
        }
    }
}

getters!(FlushJob {
    cf_id: u32 = |of| of.info.column_family_id;
    cf_name: &[u8] = |of| of.family.bytes();
    file_path: &[u8] = |of| of.path.bytes();
    file_number: u64 = |of| of.info.file.unwrap_or(0);
    oldest_blob_file: u64 = |of| of.info.oldest_blob_file;
    thread_id: u64 = |_of| thread_id();
    job_id: i32 = |of| int(of.info.job_id);
    triggered_writes_slowdown: bool = |of| of.info.triggered_writes_slowdown;
    triggered_writes_stop: bool = |of| of.info.triggered_writes_stop;
    smallest_seqno: u64 = |of| of.info.smallest_seqno;
    largest_seqno: u64 = |of| of.info.largest_seqno;
    reason: u32 = |of| flush_reason(of.info.reason);
    blob_compression: u32 = |of| codec(of.info.blob_compression);
    blob_file_count: usize = |of| of.blob_files.len();
});

lent!(
    flush_table_properties(FlushJob) -> TableProperties = |of| of.properties.as_ref();
    flush_blob_file_at(FlushJob, at: usize) -> BlobFile = |of| of.blob_files.get(at);
);

/// Returns the number of a reason in C.
fn flush_reason(reason: FlushReason) -> u32 {
    match reason {
        FlushReason::ShutDown => 2,
        FlushReason::ExternalFileIngestion => 3,
        FlushReason::WriteBufferManager => 5,
        FlushReason::WriteBufferFull => 6,
        FlushReason::ManualFlush => 10,
        FlushReason::ErrorRecovery => 11,
        FlushReason::WalFull => 13,
        _ => 0,
    }
}

/// A memtable that was sealed (`rocksdb_memtableinfo_t`).
pub(crate) struct Memtable {
    info: MemtableInfo,
    family: Text,
    newest_timestamp: Text,
}

impl From<&MemtableInfo> for Memtable {
    fn from(info: &MemtableInfo) -> Self {
        Memtable {
            info: info.clone(),
            family: Text::new(&info.column_family),
            newest_timestamp: info.newest_timestamp.map(Text::new).unwrap_or_default(),
        }
    }
}

getters!(Memtable {
    cf_name: &[u8] = |of| of.family.bytes();
    first_seqno: u64 = |of| of.info.first_seqno;
    earliest_seqno: u64 = |of| of.info.earliest_seqno;
    newest_timestamp: &[u8] = |of| of.newest_timestamp.bytes();
    num_entries: u64 = |of| of.info.num_entries;
    num_deletes: u64 = |of| of.info.num_deletes;
});

/// A file that was ingested (`rocksdb_externalfileingestioninfo_t`).
pub(crate) struct Ingestion {
    info: ExternalFileIngestionInfo,
    family: Text,
    external: Text,
    internal: Text,
    properties: Option<Handle<TableProperties>>,
}

impl From<&ExternalFileIngestionInfo> for Ingestion {
    fn from(info: &ExternalFileIngestionInfo) -> Self {
        Ingestion {
            info: info.clone(),
            family: Text::new(&info.column_family),
            external: Text::of_path(&info.external_file_path),
            internal: Text::of_path(&info.internal_file_path),
            properties: info.properties.as_ref().map(|of| Handle::new(of.into())),
        }
    }
}

getters!(Ingestion {
    cf_name: &[u8] = |of| of.family.bytes();
    external_file_path: &[u8] = |of| of.external.bytes();
    internal_file_path: &[u8] = |of| of.internal.bytes();
    global_seqno: u64 = |of| of.info.global_seqno;
});

lent!(
    ingestion_table_properties(Ingestion) -> TableProperties = |of| of.properties.as_ref();
);

/// A condition of writes (`rocksdb_writestallcondition_t`), by its number in C.
///
/// No function of C reads it.
#[expect(dead_code, reason = "no function of C reads it")]
pub(crate) struct Condition(i32);

impl From<StallCondition> for Condition {
    fn from(condition: StallCondition) -> Self {
        Condition(match condition {
            StallCondition::Delayed { .. } => 0,
            StallCondition::Stopped(_) => 1,
            _ => 2,
        })
    }
}

/// A change of the condition of writes (`rocksdb_writestallinfo_t`).
pub(crate) struct Stall {
    family: Text,
    current: Handle<Condition>,
    previous: Handle<Condition>,
}

impl Stall {
    pub(super) fn new(family: &str, current: StallCondition, previous: StallCondition) -> Self {
        Stall {
            family: Text::new(family),
            current: Handle::new(current.into()),
            previous: Handle::new(previous.into()),
        }
    }

    pub(crate) fn cf_name(&self) -> &[u8] {
        self.family.bytes()
    }
}

lent!(
    stall_current(Stall) -> Condition = |of| Some(&of.current);
    stall_previous(Stall) -> Condition = |of| Some(&of.previous);
);
