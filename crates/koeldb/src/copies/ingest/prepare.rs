//! Preparation of an ingestion: checks of the files, and their transfer into the directory.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::key::{MAX_SEQNO, encode};
use koeldb_base::range_del::RangeTombstone;
use koeldb_base::stats::HistogramKind;
use koeldb_base::{Cursor, Error, InternalKey, KeyOrder, Result, Timestamp, ValueType};
use koeldb_fs::{Purpose, WriteOptions};
use koeldb_table::properties::UNKNOWN_COLUMN_FAMILY_ID;
use koeldb_table::reader::{TableReadContext, TableReader};

use super::options::{IngestExternalFileArg, IngestExternalFileOptions};
use super::place::overlaps;
use super::replace::contains;
use crate::api::column_family::ColumnFamily;
use crate::api::db::Db;
use crate::background::transfer::{Pace, Transfer, TransferFile};
use crate::commit::protocol::CommitPipeline;
use crate::copies::sst_file_reader::{open_table, point_cursor};
use crate::report::SstFileProperties;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::context::Context;
use crate::state::key_bounds::KeyBounds;
use crate::state::table_files::FLUSH_PATH;

/// The bounds of an external table: internal keys with sequence number 0.
#[derive(Clone, Debug)]
pub(super) struct TableBounds {
    pub(super) smallest: Vec<u8>,
    pub(super) largest: Vec<u8>,
}

/// A checked external table that has a file number in the database, but is in no version yet.
pub(super) struct PreparedFile {
    pub(super) source: PathBuf,
    pub(super) number: FileNumber,
    pub(super) bytes: u64,
    /// The number of entries.
    pub(super) entries: u64,
    pub(super) bounds: TableBounds,
    pub(super) unique_id: [u64; 2],
    /// The smallest and the largest user-defined timestamp, if keys have them.
    pub(super) timestamps: Option<(Timestamp, Timestamp)>,
    /// Whether the table has range tombstones and no other entries.
    pub(super) is_tombstones_only: bool,
    /// Whether readers apply the sequence number that the MANIFEST has for the table.
    pub(super) takes_seqno: bool,
    /// The CRC-32C of the table in the directory, if it is known.
    pub(super) crc32c: Option<u32>,
    /// The properties, if there are listeners.
    pub(super) properties: Option<SstFileProperties>,
}

/// The external tables to ingest into one column family.
pub(super) struct PreparedFamily {
    pub(super) family: Arc<ColumnFamilyData>,
    pub(super) files: Vec<PreparedFile>,
    /// The range whose entries the files replace.
    pub(super) replaced: Option<KeyBounds>,
}

impl PreparedFamily {
    /// The directory of the database to which the tables are transferred.
    fn directory(&self) -> &Path {
        self.family.tables.paths().directory(FLUSH_PATH)
    }

    /// The path that a table has in the database.
    pub(super) fn target(&self, file: &PreparedFile) -> PathBuf {
        file_name::table(self.directory(), file.number)
    }
}

/// Tables that were checked and transferred into the directory of a database, before their commit.
///
/// Dropping it removes the copies and links, or leaves them to the next open if the database was
/// closed; the original files stay.
#[must_use = "nothing is ingested before the commit"]
pub struct PreparedIngest {
    pub(super) commit: Arc<CommitPipeline>,
    pub(super) options: IngestExternalFileOptions,
    pub(super) families: Vec<PreparedFamily>,
    /// Whether the tables belong to the tree, or may after a failed commit.
    pub(super) is_taken: bool,
}

impl ColumnFamily {
    /// Ingests external table files into the column family, all or none of them.
    ///
    /// # Errors
    /// See [`Db::prepare_ingest`] and [`PreparedIngest::commit`].
    pub fn ingest_external_file<P: AsRef<Path>>(&self, files: &[P]) -> Result<()> {
        self.ingest_external_file_opt(files, &IngestExternalFileOptions::new())
    }

    /// Like [`ColumnFamily::ingest_external_file`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::ingest_external_file`].
    pub fn ingest_external_file_opt<P: AsRef<Path>>(
        &self,
        files: &[P],
        options: &IngestExternalFileOptions,
    ) -> Result<()> {
        let arg = IngestExternalFileArg::new(self, files.iter().map(AsRef::as_ref));
        prepare(&self.inner().commit, &[arg], options)?.commit()
    }
}

impl Db {
    /// Ingests external table files into the default column family, all or none of them.
    ///
    /// [`SstFileWriter`](crate::SstFileWriter) writes such files from sorted entries, and
    /// [`SstFileSorter`](crate::SstFileSorter) from unsorted ones; both have an example.
    ///
    /// # Errors
    /// See [`Db::prepare_ingest`] and [`PreparedIngest::commit`].
    pub fn ingest_external_file<P: AsRef<Path>>(&self, files: &[P]) -> Result<()> {
        self.default_cf().ingest_external_file(files)
    }

    /// Ingests files into several column families atomically.
    ///
    /// # Errors
    /// See [`Db::prepare_ingest`] and [`PreparedIngest::commit`].
    pub fn ingest_external_files(
        &self,
        args: &[IngestExternalFileArg],
        options: &IngestExternalFileOptions,
    ) -> Result<()> {
        self.prepare_ingest(args, options)?.commit()
    }

    /// Checks external files and links or copies them into the database, for a later commit.
    ///
    /// Readers and writers are not affected.
    ///
    /// # Errors
    /// `InvalidArgument` for a table that no [`SstFileWriter`](crate::SstFileWriter) wrote, that
    /// was written in another order or for another column family; `NotSupported` for one with
    /// blobs; `Corruption` for a damaged one, or one without the given checksum; errors of the file
    /// system.
    pub fn prepare_ingest(
        &self,
        args: &[IngestExternalFileArg],
        options: &IngestExternalFileOptions,
    ) -> Result<PreparedIngest> {
        prepare(&self.inner().commit, args, options)
    }
}

/// Checks the files of all column families, and links or copies them into the database.
fn prepare(
    commit: &Arc<CommitPipeline>,
    args: &[IngestExternalFileArg],
    options: &IngestExternalFileOptions,
) -> Result<PreparedIngest> {
    commit.health.check_writable()?;
    let _foreground = commit.slots.enter()?;
    let begun = commit.context.clock.now();
    if options.move_files && options.link_files {
        return Err(Error::invalid_argument(
            "files are either moved or linked: move_files and link_files exclude each other",
        ));
    }
    let mut prepared = PreparedIngest {
        commit: Arc::clone(commit),
        options: options.clone(),
        families: Vec::new(),
        is_taken: false,
    };
    for arg in args {
        check_argument(&commit.context, arg, options)?;
        let family = Arc::clone(arg.family.data());
        let is_twice = |known: &PreparedFamily| known.family.id == family.id;
        if prepared.families.iter().any(is_twice) {
            return Err(Error::invalid_argument(format!(
                "column family {:?} is named twice in one ingestion",
                family.name
            )));
        }
        let mut files = Vec::new();
        for (index, source) in arg.files.iter().enumerate() {
            let mut file = check_table(&commit.context, &family, source)?;
            file.crc32c = arg.crc32c.as_ref().and_then(|all| all.get(index).copied());
            if let Some(range) = &arg.replaced
                && !contains(range, &family.order, &file.bounds)
            {
                return Err(Error::invalid_argument(
                    "the file has keys outside of atomic_replace_range",
                )
                .in_file(source, None, "ingest"));
            }
            files.push(file);
        }
        if family.has_timestamps {
            check_disjoint(&files, &family.order)?;
        }
        prepared.families.push(PreparedFamily {
            family,
            files,
            replaced: arg.replaced.clone(),
        });
    }
    prepared.transfer()?;
    commit
        .context
        .record_elapsed(HistogramKind::IngestExternalFilePrepareTime, begun);
    Ok(prepared)
}

/// Fails if the key ranges of two files overlap, which user-defined timestamps exclude.
fn check_disjoint(files: &[PreparedFile], order: &KeyOrder) -> Result<()> {
    for (index, file) in files.iter().enumerate() {
        let mut others = files[index + 1..].iter();
        let is_overlapped = |other: &&PreparedFile| {
            let bounds = &other.bounds;
            overlaps(order, &file.bounds, &bounds.smallest, &bounds.largest)
        };
        if let Some(other) = others.find(is_overlapped) {
            return Err(Error::not_supported(format!(
                "the key range of {} overlaps that of another file to ingest, which is not \
                 supported in a column family with user-defined timestamps",
                other.source.display()
            ))
            .in_file(&file.source, None, "ingest"));
        }
    }
    Ok(())
}

/// Validates the argument of an ingestion for one column family against the options.
fn check_argument(
    context: &Context,
    arg: &IngestExternalFileArg,
    options: &IngestExternalFileOptions,
) -> Result<()> {
    if arg.replaced.is_some() && options.snapshot_consistency {
        return Err(Error::invalid_argument(
            "atomic_replace_range drops entries that snapshots see: it needs \
             snapshot_consistency to be off",
        ));
    }
    arg.family.check_database(context.id)?;
    if options.ingest_behind {
        let family = arg.family.data();
        if family.has_timestamps {
            return Err(Error::not_supported(format!(
                "ingest_behind is not supported in column family {:?}, which has user-defined \
                 timestamps",
                family.name
            )));
        }
        let version = family.version();
        if !version.ingests_behind || version.levels.len() < 2 {
            return Err(Error::invalid_argument(format!(
                "ingest_behind: column family {:?} reserves no level: it needs \
                 cf_allow_ingest_behind=true and two levels",
                family.name
            )));
        }
        if arg.replaced.is_some() {
            return Err(Error::invalid_argument(
                "atomic_replace_range and ingest_behind exclude each other",
            ));
        }
    }
    if arg.files.is_empty() {
        return Err(Error::invalid_argument("there is no file to ingest"));
    }
    if arg
        .crc32c
        .as_ref()
        .is_some_and(|all| all.len() != arg.files.len())
    {
        return Err(Error::invalid_argument(
            "there must be one checksum for each file to ingest",
        ));
    }
    Ok(())
}

/// Opens and validates an external table; returns its properties and key bounds.
fn check_table(
    context: &Context,
    family: &ColumnFamilyData,
    source: &Path,
) -> Result<PreparedFile> {
    let refused = |text: String| Error::invalid_argument(text).in_file(source, None, "ingest");
    let reader = open_table(&*context.fs, source, context_of(family))?;
    let properties = reader.properties();
    let version = properties.external_version()?;
    if !matches!(version, Some(1 | 2)) {
        return Err(refused(
            "the table was not written by an SstFileWriter, or by an unknown version of it"
                .to_owned(),
        ));
    }
    let id = properties.column_family_id;
    if id != UNKNOWN_COLUMN_FAMILY_ID && id != u64::from(family.id) {
        return Err(refused(format!(
            "the table was written for column family {id}, not for {} ({:?})",
            family.id, family.name
        )));
    }
    let bounds = bounds_of(&reader, &family.order);
    let bounds = bounds.map_err(|error| error.in_file(source, None, "ingest"))?;
    let bounds = bounds.ok_or_else(|| refused("the table has no entries".to_owned()))?;
    Ok(PreparedFile {
        source: context.fs.absolute(source)?,
        number: context.new_file_number(),
        bytes: context.fs.metadata(source)?.len,
        entries: properties.entry_count,
        bounds,
        unique_id: properties.unique_id().unwrap_or_default(),
        timestamps: properties.timestamps(),
        is_tombstones_only: is_tombstones_only(&reader),
        takes_seqno: version == Some(2)
            && !matches!(*reader, TableReader::Cuckoo(_) | TableReader::Plain(_)),
        crc32c: None,
        properties: match context.listeners.is_empty() {
            true => None,
            false => Some(SstFileProperties::of(properties)?),
        },
    })
}

/// Returns the context for reading an external table, without the block cache.
fn context_of(family: &ColumnFamilyData) -> TableReadContext {
    TableReadContext {
        cache: None,
        statistics: None,
        // The sequence number of an external table is that of the MANIFEST: none yet.
        largest_seqno: Some(0),
        undated: Some(family.has_undated_tables()),
        ..family.tables.context().clone()
    }
}

/// Whether all entries of a table are range tombstones.
fn is_tombstones_only(reader: &TableReader) -> bool {
    let properties = reader.properties();
    let tombstones = properties.range_deletion_count;
    tombstones > 0 && properties.entry_count == tombstones
}

/// The bounds of all entries and range tombstones; `None` if there are none.
fn bounds_of(reader: &Arc<TableReader>, order: &KeyOrder) -> Result<Option<TableBounds>> {
    let mut bounds: Option<TableBounds> = None;
    let mut take = |first: Vec<u8>, last: Vec<u8>| {
        let bounds = bounds.get_or_insert_with(|| TableBounds {
            smallest: first.clone(),
            largest: last.clone(),
        });
        if order.compare_internal(&first, &bounds.smallest).is_lt() {
            bounds.smallest = first;
        }
        if order.compare_internal(&last, &bounds.largest).is_gt() {
            bounds.largest = last;
        }
    };
    let mut cursor = point_cursor(reader);
    cursor.seek_to_first()?;
    if cursor.valid() {
        let first = external_key(cursor.key())?;
        cursor.seek_to_last()?;
        take(first, external_key(cursor.key())?);
    }
    for RangeTombstone { start, end, seqno } in
        reader.tombstones().iter().flat_map(|all| all.tombstones())
    {
        if seqno != 0 {
            return Err(has_seqno(seqno));
        }
        let first = encode(&start, 0, ValueType::RangeDeletion);
        let end = order.before_versions(&end);
        take(first, encode(&end, MAX_SEQNO, ValueType::RangeDeletion));
    }
    Ok(bounds)
}

/// Copies an internal key of an external table; fails unless its sequence number is 0.
fn external_key(key: &[u8]) -> Result<Vec<u8>> {
    match InternalKey::parse(key)?.seqno {
        0 => Ok(key.to_vec()),
        seqno => Err(has_seqno(seqno)),
    }
}

/// Returns the error of an external entry with a sequence number.
fn has_seqno(seqno: u64) -> Error {
    Error::invalid_argument(format!(
        "an entry of the table has sequence number {seqno}; external entries have 0"
    ))
}

impl PreparedIngest {
    /// Links or copies the external tables into the database directory, and makes them durable.
    fn transfer(&mut self) -> Result<()> {
        let context = Arc::clone(&self.commit.context);
        let may_link = self.options.move_files || self.options.link_files;
        let files = self.families.iter().flat_map(|family| {
            let files = family.files.iter();
            files.map(|file| (file, family.target(file)))
        });
        let transfers: Vec<TransferFile> = files
            .map(|(file, target)| TransferFile {
                source: file.source.clone(),
                target,
                bytes: file.bytes,
                may_link,
                expected_crc32c: file.crc32c,
            })
            .collect();
        let outcomes = Transfer {
            from: &*context.fs,
            to: &*context.fs,
            purpose: Purpose::Ingest,
            pace: &Pace::new(&context.clock, 0),
            threads: self.options.file_opening_threads,
            must_link: may_link && !self.options.failed_move_fall_back_to_copy,
            stop: None,
            progress: &|_| (),
        }
        .run(&transfers)?;
        let verifies = self.options.verify_checksums_before_ingest;
        let files = self.families.iter_mut().flat_map(|family| {
            let data = Arc::clone(&family.family);
            family
                .files
                .iter_mut()
                .map(move |file| (Arc::clone(&data), file))
        });
        for (((family, file), transfer), outcome) in files.zip(&transfers).zip(outcomes) {
            if outcome.is_linked {
                settle_link(&context, file, &transfer.target)?;
            } else {
                file.crc32c = outcome.crc32c;
            }
            if verifies {
                let reader = open_table(&*context.fs, &transfer.target, context_of(&family))?;
                reader.verify_checksums(&mut |_| ())?;
                reader.examine(&family.order)?;
            }
        }
        let families = self.families.iter();
        let directories: BTreeSet<&Path> = families.map(PreparedFamily::directory).collect();
        directories
            .into_iter()
            .try_for_each(|directory| context.fs.sync_dir(directory))
    }

    /// The paths that the external tables have in the database directory.
    pub(super) fn targets(&self) -> Vec<PathBuf> {
        let families = self.families.iter();
        families
            .flat_map(|family| family.files.iter().map(|file| family.target(file)))
            .collect()
    }
}

/// Syncs a linked file, and verifies or computes its checksum after the link.
///
/// The owner may have changed the file since it was checked: what counts is what is linked.
fn settle_link(context: &Context, file: &mut PreparedFile, target: &Path) -> Result<()> {
    let fs = &*context.fs;
    if fs.metadata(target)?.len != file.bytes {
        return Err(
            Error::corruption("the file has changed since it was checked").in_file(
                &file.source,
                None,
                "ingest",
            ),
        );
    }
    let mut linked = fs.append(target, &WriteOptions::new(Purpose::Ingest))?;
    linked.sync_all()?;
    linked.close()?;
    let needs_sum = file.crc32c.is_some() || context.table_files.file_checksums;
    if !needs_sum {
        return Ok(());
    }
    let transfer = Transfer {
        from: fs,
        to: fs,
        purpose: Purpose::Ingest,
        pace: &Pace::new(&context.clock, 0),
        threads: 1,
        must_link: false,
        stop: None,
        progress: &|_| (),
    };
    let computed = transfer.read(target, file.bytes, &mut Vec::new(), &mut |_| Ok(()))?;
    match file.crc32c.replace(computed) {
        Some(expected) if expected != computed => Err(Error::corruption(format!(
            "file checksum mismatch: given = {expected}, computed = {computed}"
        ))
        .in_file(&file.source, None, "ingest")),
        _ => Ok(()),
    }
}

impl Drop for PreparedIngest {
    fn drop(&mut self) {
        if self.is_taken || self.commit.context.is_forked() {
            return;
        }
        // After a close the directory may be that of another database, with tables of these names.
        let Ok(_foreground) = self.commit.slots.enter() else {
            return;
        };
        for target in self.targets() {
            // A file that cannot be removed is an orphan, which the next open removes.
            let _ = self.commit.context.fs.remove_file(&target);
        }
    }
}

impl fmt::Debug for PreparedIngest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PreparedIngest({:?})", self.targets())
    }
}
