//! A limit on the space of tables, and on the rate at which obsolete ones are deleted.
//!
//! The manager keeps no list of files: it asks its databases for the tables of their trees, and so
//! never differs from them. Only running compactions and files in the trash are counted here.
//! Source: RocksDB's `file/sst_file_manager_impl.cc` and `file/delete_scheduler.cc`.

mod trash;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use koeldb_base::error::{ErrorDetail, Severity};
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind};

use trash::Trash;
pub(crate) use trash::{ObsoleteFile, Removal};

/// A limiter of table space and of the deletion rate of obsolete files (RocksDB: `SstFileManager`).
///
/// Clones share one state; several databases can use it.
///
/// With [`Options::set_sst_file_manager`](crate::Options::set_sst_file_manager), all databases that
/// share a manager count towards its limits.
///
/// ```
/// use koeldb::{Options, SstFileManager};
///
/// let manager = SstFileManager::builder()
///     .delete_rate_bytes_per_second(64 << 20)
///     .max_allowed_space_usage(10 << 30)
///     .build();
/// let mut options = Options::new();
/// options.set_sst_file_manager(&manager);
/// assert_eq!(manager.get_total_size(), 0);
/// ```
#[derive(Clone)]
pub struct SstFileManager {
    shared: Arc<Shared>,
}

/// A builder for an [`SstFileManager`].
#[derive(Clone, Debug)]
pub struct SstFileManagerBuilder {
    delete_rate: u64,
    max_trash_db_ratio: f64,
    bytes_max_delete_chunk: u64,
    max_space: u64,
    compaction_buffer: u64,
}

impl Default for SstFileManagerBuilder {
    fn default() -> Self {
        SstFileManagerBuilder {
            delete_rate: 0,
            max_trash_db_ratio: 0.25,
            bytes_max_delete_chunk: 64 << 20,
            max_space: 0,
            compaction_buffer: 0,
        }
    }
}

impl SstFileManagerBuilder {
    /// Sets the deletion rate in bytes per second; 0, the default, deletes files immediately.
    #[must_use]
    pub fn delete_rate_bytes_per_second(mut self, bytes: u64) -> Self {
        self.delete_rate = bytes;
        self
    }

    /// Sets the ratio of trash to total size above which files are deleted immediately.
    ///
    /// The default is 0.25.
    #[must_use]
    pub fn max_trash_db_ratio(mut self, ratio: f64) -> Self {
        self.max_trash_db_ratio = ratio;
        self
    }

    /// Sets the bytes by which a large trash file is truncated at a time; 0 deletes whole files.
    ///
    /// The default is 64 MiB.
    ///
    /// A file with several links is deleted as a whole, and so are all files of a database with
    /// `allow_mmap_reads`.
    #[must_use]
    pub fn bytes_max_delete_chunk(mut self, bytes: u64) -> Self {
        self.bytes_max_delete_chunk = bytes;
        self
    }

    /// Sets the limit of total table size; see [`SstFileManager::set_max_allowed_space_usage`].
    #[must_use]
    pub fn max_allowed_space_usage(mut self, bytes: u64) -> Self {
        self.max_space = bytes;
        self
    }

    /// Sets the bytes reserved for flushes; see [`SstFileManager::set_compaction_buffer_size`].
    #[must_use]
    pub fn compaction_buffer_size(mut self, bytes: u64) -> Self {
        self.compaction_buffer = bytes;
        self
    }

    /// Creates the [`SstFileManager`] with these settings.
    #[must_use]
    pub fn build(self) -> SstFileManager {
        SstFileManager {
            shared: Arc::new(Shared {
                max_space: AtomicU64::new(self.max_space),
                compaction_buffer: AtomicU64::new(self.compaction_buffer),
                reserved: Mutex::new(0),
                databases: Mutex::default(),
                trash: Trash::new(
                    self.delete_rate,
                    self.max_trash_db_ratio,
                    self.bytes_max_delete_chunk,
                ),
            }),
        }
    }
}

/// A database whose tables an [`SstFileManager`] tracks.
pub(crate) trait TrackedDatabase: Send + Sync + 'static {
    /// Returns the bytes of all tables, obsolete ones that are still read included.
    fn table_bytes(&self) -> u64;

    /// Returns the paths and sizes of all tables, obsolete ones that are still read included.
    fn tables(&self) -> Vec<(PathBuf, u64)>;

    /// Is called when space may have been freed: resumes compactions and writes that wait for it.
    fn space_changed(self: Arc<Self>);
}

/// The state that the clones of an [`SstFileManager`] share.
struct Shared {
    max_space: AtomicU64,
    compaction_buffer: AtomicU64,
    /// The bytes that running compactions may write.
    reserved: Mutex<u64>,
    databases: Mutex<Vec<Weak<dyn TrackedDatabase>>>,
    trash: Trash,
}

impl Shared {
    /// Returns the tracked databases that are still open, and deregisters closed ones.
    fn databases(&self) -> Vec<Arc<dyn TrackedDatabase>> {
        let mut databases = lock(&self.databases);
        databases.retain(|database| database.strong_count() > 0);
        databases.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the size of all tables and of the trash, in bytes.
    fn total_bytes(&self) -> u64 {
        let databases = self.databases();
        let tables = databases.iter().map(|database| database.table_bytes());
        tables.sum::<u64>() + self.trash.bytes()
    }

    /// Notifies all tracked databases that space may have been freed, so that blocked work resumes.
    fn space_changed(&self) {
        for database in self.databases() {
            database.space_changed();
        }
    }

    /// Returns the maximum allowed space in bytes; `None` if there is no limit.
    fn max_space(&self) -> Option<u64> {
        let max = self.max_space.load(Ordering::Relaxed);
        (max > 0).then_some(max)
    }
}

impl Default for SstFileManager {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl SstFileManager {
    /// Returns a builder, which by default limits neither space nor deletion rate.
    #[must_use]
    pub fn builder() -> SstFileManagerBuilder {
        SstFileManagerBuilder::default()
    }

    /// Sets the limit on the total size of tables in bytes; 0, the default, for none.
    ///
    /// A compaction that could pass the limit is not begun before there is space. A flush that
    /// reaches the limit stops writes: they resume when the limit is raised, or tables are removed.
    pub fn set_max_allowed_space_usage(&self, bytes: u64) {
        self.shared.max_space.store(bytes, Ordering::Relaxed);
        self.shared.space_changed();
    }

    /// Sets the bytes below the limit that compactions leave for flushes; 0 by default.
    pub fn set_compaction_buffer_size(&self, bytes: u64) {
        self.shared
            .compaction_buffer
            .store(bytes, Ordering::Relaxed);
        self.shared.space_changed();
    }

    /// Whether the total size of tables and trash has reached `max_allowed_space_usage`.
    #[must_use]
    pub fn is_max_allowed_space_reached(&self) -> bool {
        let max = self.shared.max_space();
        max.is_some_and(|max| self.shared.total_bytes() >= max)
    }

    /// Whether the total size plus the reservations of running compactions have reached the limit.
    #[must_use]
    pub fn is_max_allowed_space_reached_including_compactions(&self) -> bool {
        let reserved = *lock(&self.shared.reserved);
        let max = self.shared.max_space();
        max.is_some_and(|max| self.shared.total_bytes().saturating_add(reserved) >= max)
    }

    /// Returns the bytes of all tracked tables, with obsolete ones that are not deleted yet.
    #[must_use]
    pub fn get_total_size(&self) -> u64 {
        self.shared.total_bytes()
    }

    /// Returns the paths and sizes of all tracked tables, without those in the trash.
    #[must_use]
    pub fn get_tracked_files(&self) -> BTreeMap<PathBuf, u64> {
        let databases = self.shared.databases();
        databases.iter().flat_map(|db| db.tables()).collect()
    }

    /// Returns the deletion rate in bytes per second; 0 if files are deleted immediately.
    #[must_use]
    pub fn get_delete_rate_bytes_per_second(&self) -> u64 {
        self.shared.trash.rate()
    }

    /// Sets the deletion rate in bytes per second; 0 deletes files immediately.
    pub fn set_delete_rate_bytes_per_second(&self, bytes: u64) {
        self.shared.trash.set_rate(bytes);
    }

    /// Returns the ratio of trash to total size above which files are deleted immediately.
    #[must_use]
    pub fn get_max_trash_db_ratio(&self) -> f64 {
        self.shared.trash.max_ratio()
    }

    /// Sets the ratio of trash to total size above which files are deleted immediately.
    pub fn set_max_trash_db_ratio(&self, ratio: f64) {
        self.shared.trash.set_max_ratio(ratio);
    }

    /// Returns the bytes of trash files that wait for their deletion.
    #[must_use]
    pub fn get_total_trash_size(&self) -> u64 {
        self.shared.trash.bytes()
    }

    /// Starts tracking the tables of `database`, until it is closed.
    pub(crate) fn register(&self, database: &Arc<impl TrackedDatabase>) {
        let database: Weak<dyn TrackedDatabase> =
            Arc::downgrade(&(Arc::clone(database) as Arc<dyn TrackedDatabase>));
        lock(&self.shared.databases).push(database);
    }

    /// Reserves the output space of a compaction; an error if that could pass the space limit.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<Reservation, Error> {
        let mut reserved = lock(&self.shared.reserved);
        let buffer = self.shared.compaction_buffer.load(Ordering::Relaxed);
        if let Some(max) = self.shared.max_space() {
            let needed = (self.shared.total_bytes())
                .saturating_add(*reserved)
                .saturating_add(bytes)
                .saturating_add(buffer);
            if needed > max {
                return Err(Error::with_kind(
                    ErrorKind::Incomplete,
                    format!("a compaction of {bytes} bytes could pass max_allowed_space_usage"),
                )
                .with_detail(ErrorDetail::SpaceLimit)
                .with_advice(RAISE));
            }
        }
        *reserved += bytes;
        Ok(Reservation {
            shared: Arc::clone(&self.shared),
            bytes,
        })
    }

    /// Is called after a database removed tables: resumes work that waits for space, if limited.
    pub(crate) fn tables_removed(&self) {
        if self.shared.max_space().is_some() {
            self.shared.space_changed();
        }
    }

    /// Deletes an obsolete file immediately, or marks it as trash for deletion at the limited rate.
    pub(crate) fn remove(&self, file: ObsoleteFile<'_>) -> koeldb_base::Result<Removal> {
        trash::remove(&self.shared, file)
    }

    /// Schedules the deletion of a `*.trash` file that an earlier open left behind.
    pub(crate) fn adopt_trash(&self, file: ObsoleteFile<'_>) {
        trash::adopt(&self.shared, file);
    }
}

/// The advice for a limit of space that is reached.
const RAISE: &str = "delete data, or raise the limit with \
                     SstFileManager::set_max_allowed_space_usage";

/// Returns the error that stops writes when `max_allowed_space_usage` is reached.
pub(crate) fn space_limit_reached() -> Error {
    Error::with_kind(ErrorKind::IoError, "max_allowed_space_usage is reached")
        .with_detail(ErrorDetail::SpaceLimit)
        .with_advice(RAISE)
        .with_severity(Severity::Hard)
}

/// The space reserved for a running compaction's output, released on drop.
pub(crate) struct Reservation {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        *lock(&self.shared.reserved) -= self.bytes;
        if self.shared.max_space().is_some() {
            self.shared.space_changed();
        }
    }
}

impl fmt::Debug for SstFileManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SstFileManager")
            .field("max_space", &self.shared.max_space)
            .field("delete_rate", &self.shared.trash.rate())
            .field("trash_bytes", &self.shared.trash.bytes())
            .finish_non_exhaustive()
    }
}
