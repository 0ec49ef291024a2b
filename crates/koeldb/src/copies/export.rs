//! Export and import of a column family: its tables and their places in the tree.
//!
//! An export is a directory of tables with a text file, `export.koeldb`, that describes them, so that
//! it can be sent. RocksDB's imports take the tables by name and ignore the text.
//!
//! ```text
//! koeldb export 1
//! comparator <name>
//! file <name> <level> <bytes> <smallest> <largest> <smallest seqno> <largest seqno> <epoch>
//! …
//! crc32c <of all bytes before, decimal>
//! ```
//!
//! Bounds are internal keys in hexadecimal.
//!
//! RocksDB has the description in memory only (`ExportImportFilesMetaData`), so that its exports come
//! without the text: the caller then makes an [`ExportedColumnFamily`] of what RocksDB returned.

mod check;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::checksum::crc32c;
use koeldb_base::file_name;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_fs::{Purpose, WriteOptions};
use koeldb_lsm::FileMeta;
use koeldb_lsm::version::VersionEdit;

use crate::api::column_family::ColumnFamily;
use crate::api::db::Db;
use crate::background::transfer::{Pace, Transfer, TransferFile};
use crate::commit::protocol::CommitPipeline;
use crate::copies::capture::FlushPolicy;
use crate::copies::checkpoint::refuse_own_directories;
use crate::open::staging::Staging;
use crate::options::ColumnFamilyOptions;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::context::Context;
use crate::state::hex::unhex;
use crate::state::table_files::FLUSH_PATH;

use check::{ImportFile, check_exports};

/// The name of the file that describes an export.
const DESCRIPTION: &str = "export.koeldb";

/// The maximum size of the description of an export, in bytes.
const DESCRIPTION_BYTES_MAX: u64 = 256 << 20;

const FIRST_LINE: &str = "koeldb export 1";

/// The metadata of a table in an exported column family (`LiveFileMetaData`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportedFile {
    /// The directory of the table (`db_path`).
    pub directory: PathBuf,
    /// The name of the table in the directory, with or without a leading slash.
    pub name: String,
    /// The level of the table.
    pub level: usize,
    /// The length of the table in bytes (`size`); 0 unknown.
    pub bytes: u64,
    /// The smallest internal key of the table; empty if it is to be read from the table.
    ///
    /// Of RocksDB's two keys it is `smallest`. The table alone does not tell whether range tombstones
    /// reach beyond what it serves, so a bound that the exporter knows must be set.
    pub smallest: Vec<u8>,
    /// The largest internal key of the table (`largest`); empty if `smallest` is.
    pub largest: Vec<u8>,
    /// The smallest sequence number in the table.
    pub smallest_seqno: SeqNo,
    /// The largest sequence number in the table.
    ///
    /// Of a table that was ingested it is also the number of all its entries.
    pub largest_seqno: SeqNo,
    /// The age of the table among those of level 0: larger is newer; 0 unknown.
    pub epoch: u64,
}

impl ExportedFile {
    /// Creates the description of a table from what every export tells; the rest can be set.
    ///
    /// Size, bounds and epoch are unknown.
    pub fn new(
        directory: impl Into<PathBuf>,
        name: impl Into<String>,
        level: usize,
        seqnos: std::ops::RangeInclusive<SeqNo>,
    ) -> Self {
        ExportedFile {
            directory: directory.into(),
            name: name.into(),
            level,
            bytes: 0,
            smallest: Vec::new(),
            largest: Vec::new(),
            smallest_seqno: *seqnos.start(),
            largest_seqno: *seqnos.end(),
            epoch: 0,
        }
    }

    /// The path of the table.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(self.bare_name())
    }

    /// The name without RocksDB's leading slash.
    fn bare_name(&self) -> &str {
        self.name.strip_prefix('/').unwrap_or(&self.name)
    }
}

/// The description of an exported column family (RocksDB: `ExportImportFilesMetaData`).
///
/// A description of an export that RocksDB made has the fields of its `ExportImportFilesMetaData`:
///
/// ```
/// use koeldb::{ExportedColumnFamily, ExportedFile};
///
/// // Of RocksDB's `files`: db_path, name, level, smallest_seqno, largest_seqno.
/// let mut file = ExportedFile::new("/exports/users", "/000012.sst", 6, 1..=42);
/// file.bytes = 1311; // size
/// file.epoch = 3; // epoch_number
/// let export = ExportedColumnFamily::new("leveldb.BytewiseComparator", [file]);
/// assert_eq!(export.files[0].path(), std::path::Path::new("/exports/users/000012.sst"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportedColumnFamily {
    /// The name of the comparator (`db_comparator_name`).
    pub comparator: String,
    /// The exported tables.
    pub files: Vec<ExportedFile>,
}

/// Options of an export.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportOptions {
    inline_blobs: bool,
}

impl ExportOptions {
    /// Creates the defaults: a column family with values in blob files is refused.
    #[must_use]
    pub const fn new() -> Self {
        ExportOptions {
            inline_blobs: false,
        }
    }

    /// Writes the tables that refer to blob files anew, with the values in them.
    ///
    /// An export has no blob files, as these name their column family. The import separates the
    /// values again as its options say, when compactions meet them. Other tables are linked or copied
    /// as ever. Default: `false`.
    pub fn set_inline_blobs(&mut self, inline_blobs: bool) -> &mut Self {
        self.inline_blobs = inline_blobs;
        self
    }
}

/// Options of an import.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportColumnFamilyOptions {
    move_files: bool,
}

impl ImportColumnFamilyOptions {
    /// Creates the defaults: tables are copied.
    #[must_use]
    pub const fn new() -> Self {
        ImportColumnFamilyOptions { move_files: false }
    }

    /// Links the tables where that is possible, and removes the originals afterwards.
    ///
    /// Default: `false`.
    pub fn set_move_files(&mut self, move_files: bool) -> &mut Self {
        self.move_files = move_files;
        self
    }
}

impl ExportedColumnFamily {
    /// Creates a description from the name of the comparator and those of the tables.
    pub fn new(
        comparator: impl Into<String>,
        files: impl IntoIterator<Item = ExportedFile>,
    ) -> Self {
        ExportedColumnFamily {
            comparator: comparator.into(),
            files: files.into_iter().collect(),
        }
    }

    /// Reads the description of an export from its directory.
    ///
    /// An export of RocksDB has none: make it with [`ExportedColumnFamily::new`].
    ///
    /// # Errors
    /// `Corruption` with the line that violates the format; errors of the file system.
    pub fn read(db: &Db, directory: impl AsRef<Path>) -> Result<Self> {
        let directory = db.inner().context.fs.absolute(directory.as_ref())?;
        let path = directory.join(DESCRIPTION);
        let fs = &db.inner().context.fs;
        let bytes = fs.read_all(&path, DESCRIPTION_BYTES_MAX, Purpose::Ingest)?;
        decode(&directory, &bytes).map_err(|error| error.in_file(&path, None, "read"))
    }
}

/// Encodes the description file of an export: a line for each fact, and a final crc32c.
fn encode(export: &ExportedColumnFamily) -> String {
    let mut text = format!("{FIRST_LINE}\ncomparator {}\n", export.comparator);
    for file in &export.files {
        // Writing to a string does not fail.
        let _ = write!(text, "file {} {} {} ", file.name, file.level, file.bytes);
        for bound in [&file.smallest, &file.largest] {
            for byte in bound {
                let _ = write!(text, "{byte:02x}");
            }
            text.push(' ');
        }
        let (smallest, largest) = (file.smallest_seqno, file.largest_seqno);
        let _ = writeln!(text, "{smallest} {largest} {}", file.epoch);
    }
    let sum = crc32c(text.as_bytes());
    let _ = writeln!(text, "crc32c {sum}");
    text
}

/// Decodes the description file of an export and verifies its checksum.
fn decode(directory: &Path, bytes: &[u8]) -> Result<ExportedColumnFamily> {
    let bad = |line: usize, what: &str| Error::corruption(format!("line {line}: {what}"));
    let text = str::from_utf8(bytes).map_err(|_| Error::corruption("not a text"))?;
    let body = text.strip_suffix('\n').unwrap_or(text);
    let (body, last) = body.rsplit_once('\n').unwrap_or(("", body));
    let stored = last
        .strip_prefix("crc32c ")
        .and_then(|sum| sum.parse().ok());
    if stored != Some(crc32c(format!("{body}\n").as_bytes())) {
        return Err(Error::corruption(
            "checksum mismatch in the description of the export",
        ));
    }
    let mut lines = body.lines().enumerate();
    if lines.next().map(|(_, line)| line) != Some(FIRST_LINE) {
        return Err(bad(1, "not a description of an export"));
    }
    let comparator = lines
        .next()
        .and_then(|(_, line)| line.strip_prefix("comparator "));
    let comparator = comparator.ok_or_else(|| bad(2, "no comparator"))?;
    let mut export = ExportedColumnFamily::new(comparator, []);
    for (index, line) in lines {
        let file = decode_file(directory, line).ok_or_else(|| bad(index + 1, "not a file"))?;
        export.files.push(file);
    }
    Ok(export)
}

/// Decodes the line of one file; `None` if it is malformed.
fn decode_file(directory: &Path, line: &str) -> Option<ExportedFile> {
    let words: Vec<&str> = line.split(' ').collect();
    let [
        "file",
        name,
        level,
        bytes,
        smallest,
        largest,
        first,
        last,
        epoch,
    ] = words[..]
    else {
        return None;
    };
    Some(ExportedFile {
        directory: directory.to_owned(),
        name: name.to_owned(),
        level: level.parse().ok()?,
        bytes: bytes.parse().ok()?,
        smallest: unhex(smallest)?,
        largest: unhex(largest)?,
        smallest_seqno: first.parse().ok()?,
        largest_seqno: last.parse().ok()?,
        epoch: epoch.parse().ok()?,
    })
}

impl ColumnFamily {
    /// Flushes the column family and links or copies its tables into a new directory at `path`.
    ///
    /// [`Db::create_column_family_with_import`] makes a column family of it, in this database or
    /// another.
    ///
    /// # Errors
    /// `ColumnFamilyDropped`; `NotSupported` if the column family has values in blob files: see
    /// [`ColumnFamily::export_opt`]; see [`Db::create_checkpoint`].
    pub fn export(&self, path: impl AsRef<Path>) -> Result<ExportedColumnFamily> {
        self.export_opt(path, &ExportOptions::new())
    }

    /// Exports the column family as [`ColumnFamily::export`] does, with options.
    ///
    /// # Errors
    /// `Corruption` for a damaged value in a blob file that is to be written into a table; those of
    /// [`ColumnFamily::export`].
    pub fn export_opt(
        &self,
        path: impl AsRef<Path>,
        options: &ExportOptions,
    ) -> Result<ExportedColumnFamily> {
        export_family(&self.inner().commit, self.data(), path.as_ref(), *options)
    }
}

impl Db {
    /// Creates a column family with the tables of exported ones, whose key ranges must not overlap.
    ///
    /// The exports may be KoelDB's or RocksDB's. All tables are read and compared with the
    /// descriptions.
    ///
    /// # Errors
    /// `InvalidArgument` if the name is taken, the comparator or the number of levels differs, or
    /// ranges overlap; `Aborted` if another thread wrote to the column family; `Corruption` for a
    /// description that contradicts its tables; errors of the file system. There is no new column
    /// family then; after a crash there may be an empty one.
    pub fn create_column_family_with_import(
        &self,
        name: &str,
        options: &ColumnFamilyOptions,
        exports: &[ExportedColumnFamily],
        how: &ImportColumnFamilyOptions,
    ) -> Result<ColumnFamily> {
        let inner = self.inner();
        let files = check_exports(&*inner.context.fs, options, exports)?;
        let family = self.create_cf(name, options)?;
        let imported = import(&inner.commit, family.data(), &files, *how);
        if let Err(error) = imported {
            // The error explains why; what is left is empty.
            let _ = self.drop_cf(&family);
            return Err(error);
        }
        Ok(family)
    }
}

/// Exports a column family to `target`: flushes it, then links or copies its tables.
fn export_family(
    commit: &CommitPipeline,
    family: &ColumnFamilyData,
    target: &Path,
    options: ExportOptions,
) -> Result<ExportedColumnFamily> {
    let context = &*commit.context;
    refuse_own_directories(commit, target)?;
    let staging = Staging::create(&context.fs, target, &[DESCRIPTION])?;
    let capture = commit.capture(FlushPolicy::Always)?;
    let mut captured = capture.state.families.iter();
    let Some(captured) = captured.find(|captured| captured.id == family.id) else {
        return Err(family.dropped_error());
    };
    let version = &captured.version;
    if !options.inline_blobs
        && let Some(number) = version.blob_files.keys().next()
    {
        return Err(Error::not_supported(format!(
            "column family {:?} has values in blob files ({number:06}.blob), which an export has not: \
             set_inline_blobs writes them into the tables; or create a checkpoint or a backup",
            family.name
        )));
    }
    let directory = context.fs.absolute(target)?;
    let mut export = ExportedColumnFamily::new(family.order.name(), []);
    let mut transfers = Vec::new();
    for captured in capture.tables(context)? {
        let Some(table) = captured.table.filter(|table| table.family == family.id) else {
            continue;
        };
        if table.meta.oldest_blob_file != 0 {
            let place = (table.level, &*table.meta);
            let files = &context.table_files;
            let copy = files.write_inlined(family, version, place, staging.path())?;
            let name = format!("{:06}.sst", copy.number);
            let described = exported(&directory, name, table.level, &copy);
            export.files.push(described);
            continue;
        }
        transfers.push(TransferFile {
            source: captured.source,
            target: staging.path().join(&captured.name),
            bytes: captured.bytes,
            may_link: true,
            expected_crc32c: None,
        });
        export.files.push(exported(
            &directory,
            captured.name,
            table.level,
            &table.meta,
        ));
    }
    transfer_all(context, &transfers, Purpose::Checkpoint)?;
    let path = staging.path().join(DESCRIPTION);
    let mut text = context
        .fs
        .create(&path, &WriteOptions::new(Purpose::Checkpoint))?;
    text.append(encode(&export).as_bytes())?;
    text.sync_all()?;
    text.close()?;
    staging.publish()?;
    Ok(export)
}

/// Links or copies all files.
fn transfer_all(context: &Context, files: &[TransferFile], purpose: Purpose) -> Result<()> {
    let transfer = Transfer {
        from: &*context.fs,
        to: &*context.fs,
        purpose,
        pace: &Pace::new(&context.clock, 0),
        threads: 4,
        must_link: false,
        stop: None,
        progress: &|_| (),
    };
    let outcomes = transfer.run(files)?;
    for (file, outcome) in files.iter().zip(outcomes) {
        // Whether the bytes of a linked file are durable is not known.
        if outcome.is_linked && purpose == Purpose::Ingest {
            let mut linked = context
                .fs
                .append(&file.target, &WriteOptions::new(purpose))?;
            linked.sync_all()?;
            linked.close()?;
        }
    }
    Ok(())
}

/// Links or copies the exported tables into the database, and adds them to an empty family.
fn import(
    commit: &CommitPipeline,
    family: &Arc<ColumnFamilyData>,
    files: &[ImportFile],
    how: ImportColumnFamilyOptions,
) -> Result<()> {
    let context = &*commit.context;
    let _foreground = commit.slots.enter()?;
    let directory = family.tables.paths().directory(FLUSH_PATH);
    let mut edit = VersionEdit::of(family.id);
    let mut transfers = Vec::new();
    for file in files {
        let ImportFile {
            source,
            file,
            timestamps,
        } = file;
        let number = context.new_file_number();
        transfers.push(TransferFile {
            source: source.clone(),
            target: file_name::table(directory, number),
            bytes: file.bytes,
            may_link: how.move_files,
            expected_crc32c: None,
        });
        let mut meta = imported(context, family, file, number);
        if let Some((least, most)) = timestamps {
            meta.set_timestamps(least, most);
        }
        edit.added_files.push((file.level, Arc::new(meta)));
    }
    let installed = transfer_all(context, &transfers, Purpose::Ingest)
        .and_then(|()| context.fs.sync_dir(directory))
        .and_then(|()| install_import(commit, family, edit));
    if let Err(error) = installed {
        if !commit.tree.versions().is_uncertain() {
            for transfer in &transfers {
                // A file that cannot be removed is an orphan, which the next open removes.
                let _ = context.fs.remove_file(&transfer.target);
            }
        }
        commit.health.report_failures();
        return Err(error);
    }
    if how.move_files {
        for ImportFile { source, .. } in files {
            if let Err(error) = context.fs.remove_file(source) {
                let path = source.display();
                let log = &context.info_log;
                log.warn(format_args!("removing {path}: {error}"));
            }
        }
    }
    commit.background.schedule();
    Ok(())
}

/// Returns the MANIFEST metadata of an imported table under its new file number.
fn imported(
    context: &Context,
    family: &ColumnFamilyData,
    file: &ExportedFile,
    number: u64,
) -> FileMeta {
    let now = context.table_files.unix_secs();
    let (smallest, largest) = (file.smallest.clone(), file.largest.clone());
    let mut meta = FileMeta::new(number, file.bytes, smallest, largest);
    meta.smallest_seqno = file.smallest_seqno;
    meta.largest_seqno = file.largest_seqno;
    meta.undated = family.has_undated_tables();
    meta.epoch = family.epochs.next();
    meta.oldest_ancestor_time = now;
    meta.creation_time = now;
    meta
}

/// Installs the tables of an import in the column family, with leadership of writes.
fn install_import(
    pipeline: &CommitPipeline,
    family: &Arc<ColumnFamilyData>,
    edit: VersionEdit,
) -> Result<()> {
    let mut leadership = pipeline.queue.lead();
    let commit = &mut *leadership.commit;
    pipeline.health.check_writable()?;
    pipeline.queue.pipeline.drain()?;
    // Memtables must hold newer entries than tables. An entry that another thread wrote since the
    // import began may have a smaller sequence number than the imported ones.
    let is_untouched =
        family.read(|state| !state.has_unflushed() && state.version.files().next().is_none());
    if !is_untouched {
        return Err(Error::with_kind(
            ErrorKind::Aborted,
            format!(
                "column family {:?} was written to during its import",
                family.name
            ),
        ));
    }
    pipeline.wals.sync(commit.wal()?)?;
    let files = edit.added_files.iter().map(|(_, file)| file.largest_seqno);
    let last_seqno = files.max().unwrap_or(0).max(commit.last_seqno);
    let mut versions = pipeline.tree.versions();
    versions.raise_last_seqno(last_seqno);
    let installed = match versions.log_and_apply(vec![edit]) {
        // The edit contradicts the tree, and nothing was written.
        Err(error) if error.is_corruption() && !versions.is_uncertain() => return Err(error),
        installed => installed.map_err(|error| pipeline.health.manifest_failed(error))?,
    };
    commit.last_seqno = last_seqno;
    if let Some((_, version)) = installed.into_iter().next() {
        family.update_and_install(pipeline.context.stall(), |state| {
            state.version = version;
        });
    }
    pipeline.visibility.publish(last_seqno);
    Ok(())
}

/// Returns the description of an exported table.
fn exported(directory: &Path, name: String, level: usize, meta: &FileMeta) -> ExportedFile {
    ExportedFile {
        directory: directory.to_owned(),
        name,
        level,
        bytes: meta.bytes,
        smallest: meta.smallest.clone(),
        largest: meta.largest.clone(),
        smallest_seqno: meta.smallest_seqno,
        largest_seqno: meta.largest_seqno,
        epoch: meta.epoch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_round_trips_and_notices_every_changed_byte() {
        let key =
            |key: &str| koeldb_base::key::encode(key.as_bytes(), 7, koeldb_base::ValueType::Value);
        let export = ExportedColumnFamily {
            comparator: "leveldb.BytewiseComparator".to_owned(),
            files: vec![ExportedFile {
                directory: PathBuf::from("/out"),
                name: "000007.sst".to_owned(),
                level: 3,
                bytes: 1234,
                smallest: key("a"),
                largest: key("z"),
                smallest_seqno: 5,
                largest_seqno: 7,
                epoch: 2,
            }],
        };
        let text = encode(&export).into_bytes();
        assert_eq!(decode(Path::new("/out"), &text).unwrap(), export);
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone();
            bytes[at] ^= 1;
            assert!(decode(Path::new("/out"), &bytes).is_err(), "byte {at}");
        }
    }
}
