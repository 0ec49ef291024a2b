//! Sorts entries in any order into table files to ingest, in bounded memory.
//!
//! Entries are buffered; a full buffer is sorted and written to a *run*, a temporary table file. At
//! the end the runs are merged. Of several entries of a key, the last one that was added remains.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;
use std::path::{Path, PathBuf};

use koeldb_base::{Error, KeyOrder, Result};

use crate::api::column_family::ColumnFamily;
use crate::commit::protocol::check_entry;
use crate::copies::sst_file_reader::{SstEntries, SstEntry, SstEntryKind, SstFileReader};
use crate::copies::sst_file_writer::{ExternalSstFileInfo, SstFileWriter, SstFileWriterOptions};
use crate::env::Env;
use crate::options::{BlockBasedOptions, ColumnFamilyOptions, Compression};

/// The number of runs at which all are merged into one.
const RUNS_MAX: usize = 128;

/// Options of an [`SstFileSorter`].
#[derive(Clone, Debug)]
pub struct SstFileSorterOptions {
    env: Env,
    writer: SstFileWriterOptions,
    memory_bytes: usize,
    target_file_bytes: Option<u64>,
}

impl Default for SstFileSorterOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl SstFileSorterOptions {
    /// Creates the defaults: 64 MiB of memory, files of `target_file_size_base` bytes.
    #[must_use]
    pub fn new() -> Self {
        SstFileSorterOptions {
            env: Env::default(),
            writer: SstFileWriterOptions::new(),
            memory_bytes: 64 << 20,
            target_file_bytes: None,
        }
    }

    /// Creates the files in the file system of `env`.
    ///
    /// Default: the environment of the process, with the file system of the machine.
    pub fn set_env(&mut self, env: &Env) -> &mut Self {
        self.env = env.clone();
        self.writer.set_env(env);
        self
    }

    /// Records the column family of the files: see [`SstFileWriterOptions::set_column_family`].
    ///
    /// Default: none, so that any column family may ingest them.
    pub fn set_column_family(&mut self, family: &ColumnFamily) -> &mut Self {
        self.writer.set_column_family(family);
        self
    }

    /// Sets the memory for entries that are not in a sorted run yet; at least 64 KiB.
    ///
    /// Merging takes a block of each run, of which there are up to 128, in addition.
    ///
    /// Default: 64 MiB.
    pub fn set_memory_bytes(&mut self, bytes: usize) -> &mut Self {
        self.memory_bytes = bytes.max(64 << 10);
        self
    }

    /// Sets the bytes at which a new output file begins; by default `target_file_size_base`.
    pub fn set_target_file_bytes(&mut self, bytes: u64) -> &mut Self {
        self.target_file_bytes = Some(bytes.max(1));
        self
    }
}

/// A buffered entry: where its key and value are in the buffer.
#[derive(Clone, Copy)]
struct Buffered {
    start: usize,
    key_bytes: usize,
    value_bytes: usize,
    is_deletion: bool,
}

/// An external sorter of entries, whose output is table files that are ready to ingest.
///
/// Entries are added in any order; the files do not overlap.
///
/// Runs and outputs are in one directory. A sorter that is dropped unfinished removes its files.
///
/// # Examples
///
/// ```
/// use koeldb::{Db, Options, SstFileSorter};
///
/// # fn main() -> koeldb::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("koeldb-sort-{}", std::process::id()));
/// let mut options = Options::new();
/// options.create_if_missing(true);
/// let db = Db::open(&options, dir.join("db"))?;
/// let mut sorter = SstFileSorter::create(&db.default_cf().options(), dir.join("sorted"))?;
/// sorter.put("koel", "Eudynamys")?;
/// sorter.put("finch", "Fringilla")?;
/// let files: Vec<_> = sorter.finish()?.into_iter().map(|file| file.path).collect();
/// db.default_cf().ingest_external_file(&files)?;
/// assert_eq!(db.get("finch")?.as_deref(), Some(&b"Fringilla"[..]));
/// # drop(db);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok(())
/// # }
/// ```
pub struct SstFileSorter {
    options: ColumnFamilyOptions,
    how: SstFileSorterOptions,
    order: KeyOrder,
    directory: PathBuf,
    bytes: Vec<u8>,
    entries: Vec<Buffered>,
    /// The sorted runs, oldest first.
    runs: Vec<PathBuf>,
    next_run: u64,
    outputs: Vec<ExternalSstFileInfo>,
    is_finished: bool,
}

impl SstFileSorter {
    /// Creates a sorter whose files are in `directory`, which is created if it is missing.
    ///
    /// # Errors
    /// `InvalidArgument` if an option is invalid; errors of the file system.
    pub fn create(options: &ColumnFamilyOptions, directory: impl AsRef<Path>) -> Result<Self> {
        Self::create_opt(options, directory, &SstFileSorterOptions::new())
    }

    /// Like [`SstFileSorter::create`], with settings of the sorter.
    ///
    /// # Errors
    /// See [`SstFileSorter::create`].
    pub fn create_opt(
        options: &ColumnFamilyOptions,
        directory: impl AsRef<Path>,
        how: &SstFileSorterOptions,
    ) -> Result<Self> {
        if options.comparator.has_timestamps() {
            return Err(Error::not_supported(
                "SstFileSorter does not support keys with user-defined timestamps: sort them, and \
                 use SstFileWriter",
            ));
        }
        let directory = how.env.fs.absolute(directory.as_ref())?;
        how.env.fs.create_dir_all(&directory)?;
        Ok(SstFileSorter {
            order: options.comparator.clone(),
            options: options.clone(),
            how: how.clone(),
            directory,
            bytes: Vec::new(),
            entries: Vec::new(),
            runs: Vec::new(),
            next_run: 1,
            outputs: Vec::new(),
            is_finished: false,
        })
    }

    /// Adds a value, in place of an earlier entry of the key.
    ///
    /// # Errors
    /// `InvalidArgument` if the key or value is too long; errors of the file system.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), value.as_ref(), false)
    }

    /// Adds a deletion, in place of an earlier entry of the key. It hides values in the database.
    ///
    /// # Errors
    /// See [`SstFileSorter::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), &[], true)
    }

    /// Buffers an entry; writes the buffer to a temporary sorted run when it is full.
    fn add(&mut self, key: &[u8], value: &[u8], is_deletion: bool) -> Result<()> {
        check_entry(&self.order, key, value)?;
        let used = self.bytes.len() + self.entries.len() * size_of::<Buffered>();
        if !self.entries.is_empty() && used + key.len() + value.len() > self.how.memory_bytes {
            self.spill()?;
        }
        self.entries.push(Buffered {
            start: self.bytes.len(),
            key_bytes: key.len(),
            value_bytes: value.len(),
            is_deletion,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        Ok(())
    }

    /// Writes the output files and makes them durable, except their directory entries.
    ///
    /// Their keys ascend from file to file. Without any entry there is no file.
    ///
    /// # Errors
    /// Errors of the file system, after which all files are removed.
    pub fn finish(mut self) -> Result<Vec<ExternalSstFileInfo>> {
        if self.runs.is_empty() {
            self.sort();
            let entries = std::mem::take(&mut self.entries);
            let bytes = std::mem::take(&mut self.bytes);
            let mut output = Output::new(&self);
            for entry in &entries {
                let (key, value) = parts(&bytes, entry);
                output.add(key, value, entry.is_deletion)?;
            }
            self.outputs = output.finish()?;
        } else {
            self.spill()?;
            let mut output = Output::new(&self);
            self.merge(|key, value, is_deletion| output.add(key, value, is_deletion))?;
            self.outputs = output.finish()?;
            self.remove_runs();
        }
        self.is_finished = true;
        Ok(std::mem::take(&mut self.outputs))
    }

    /// Sorts the buffer by key, and keeps the last entry of each key.
    fn sort(&mut self) {
        let (order, bytes) = (&self.order, &self.bytes);
        let key = |entry: &Buffered| parts(bytes, entry).0;
        self.entries.sort_by(|a, b| order.compare(key(a), key(b)));
        self.entries.dedup_by(|later, kept| {
            let is_same = order.compare(key(later), key(kept)).is_eq();
            if is_same {
                *kept = *later;
            }
            is_same
        });
    }

    /// Writes the buffer to a new temporary sorted run; merges the runs if there are too many.
    fn spill(&mut self) -> Result<()> {
        self.sort();
        let mut run = self.begin_run()?;
        for entry in &self.entries {
            let (key, value) = parts(&self.bytes, entry);
            add_to(&mut run, key, value, entry.is_deletion)?;
        }
        run.finish()?;
        self.entries.clear();
        self.bytes.clear();
        if self.runs.len() >= RUNS_MAX {
            self.merge_runs()?;
        }
        Ok(())
    }

    /// Merges all temporary sorted runs into one.
    fn merge_runs(&mut self) -> Result<()> {
        let merged = self.runs.clone();
        let mut run = self.begin_run()?;
        let runs = std::mem::replace(&mut self.runs, merged);
        let outcome =
            self.merge(|key, value, is_deletion| add_to(&mut run, key, value, is_deletion));
        let outcome = outcome.and_then(|()| run.finish());
        self.remove_runs();
        self.runs = runs.into_iter().last().into_iter().collect();
        outcome.map(|_| ())
    }

    /// Creates the uncompressed table file of the next temporary sorted run.
    fn begin_run(&mut self) -> Result<SstFileWriter> {
        let path = self.directory.join(format!("{:06}.run", self.next_run));
        self.next_run += 1;
        let mut options = self.options.clone();
        options
            .set_block_based_table_factory(&BlockBasedOptions::new())
            .set_compression_type(Compression::None)
            .set_bottommost_compression_type(Compression::None)
            .set_compression_per_level(&[]);
        let run = SstFileWriter::create_opt(&options, &path, &self.how.writer)?;
        self.runs.push(path);
        Ok(run)
    }

    /// Merges the sorted runs: passes the newest entry of each key to `add`, in key order.
    fn merge(&self, mut add: impl FnMut(&[u8], &[u8], bool) -> Result<()>) -> Result<()> {
        let mut heap = BinaryHeap::new();
        for (age, path) in self.runs.iter().enumerate() {
            let reader = SstFileReader::open_in(&self.options, path, &self.how.env)?;
            push_next(&mut heap, reader.entries()?, age, &self.order)?;
        }
        let mut last: Option<Vec<u8>> = None;
        while let Some(Head {
            entry, rest, age, ..
        }) = heap.pop()
        {
            let is_older = |last: &Vec<u8>| self.order.compare(last, &entry.key).is_eq();
            if !last.as_ref().is_some_and(is_older) {
                let is_deletion = entry.kind == SstEntryKind::Deletion;
                add(&entry.key, &entry.value, is_deletion)?;
                last = Some(entry.key);
            }
            push_next(&mut heap, rest, age, &self.order)?;
        }
        Ok(())
    }

    /// Deletes the files of the temporary sorted runs.
    fn remove_runs(&mut self) {
        for run in self.runs.drain(..) {
            // What stays is in a directory of the caller.
            let _ = self.how.env.fs.remove_file(&run);
        }
    }
}

/// Returns the key and the value of a buffered entry.
fn parts<'b>(bytes: &'b [u8], entry: &Buffered) -> (&'b [u8], &'b [u8]) {
    bytes[entry.start..][..entry.key_bytes + entry.value_bytes].split_at(entry.key_bytes)
}

/// Adds a put or a deletion to a table file.
fn add_to(table: &mut SstFileWriter, key: &[u8], value: &[u8], is_deletion: bool) -> Result<()> {
    match is_deletion {
        true => table.delete(key),
        false => table.put(key, value),
    }
}

/// The writer of a sorter's output: successive table files of the target size.
struct Output<'s> {
    options: &'s ColumnFamilyOptions,
    how: &'s SstFileSorterOptions,
    directory: &'s Path,
    target_bytes: u64,
    table: Option<SstFileWriter>,
    finished: Vec<ExternalSstFileInfo>,
}

impl<'s> Output<'s> {
    fn new(sorter: &'s SstFileSorter) -> Self {
        let target = sorter.how.target_file_bytes;
        Output {
            options: &sorter.options,
            how: &sorter.how,
            directory: &sorter.directory,
            target_bytes: target.unwrap_or(sorter.options.target_file_size_base),
            table: None,
            finished: Vec::new(),
        }
    }

    /// Adds an entry; begins another table file when the current one has its target size.
    fn add(&mut self, key: &[u8], value: &[u8], is_deletion: bool) -> Result<()> {
        let full = |table: &mut SstFileWriter| table.file_size() >= self.target_bytes;
        if let Some(table) = self.table.take_if(full) {
            self.finished.push(table.finish()?);
        }
        let table = match &mut self.table {
            Some(table) => table,
            None => {
                let name = format!("{:06}.sst", self.finished.len() + 1);
                let path = self.directory.join(name);
                let table = SstFileWriter::create_opt(self.options, path, &self.how.writer)?;
                self.table.insert(table)
            }
        };
        add_to(table, key, value, is_deletion)
    }

    /// Finishes the last table file; returns the descriptions of all.
    fn finish(mut self) -> Result<Vec<ExternalSstFileInfo>> {
        if let Some(table) = self.table.take() {
            self.finished.push(table.finish()?);
        }
        Ok(std::mem::take(&mut self.finished))
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        for file in &self.finished {
            let _ = self.how.env.fs.remove_file(&file.path);
        }
    }
}

/// The next entry of a sorted run in the merge heap, whose maximum has the smallest key.
///
/// The newest run comes first among equal keys.
struct Head<'o> {
    entry: SstEntry,
    rest: SstEntries,
    age: usize,
    order: &'o KeyOrder,
}

/// Pushes the next entry of a run, if any, onto the merge heap.
fn push_next<'o>(
    heap: &mut BinaryHeap<Head<'o>>,
    mut rest: SstEntries,
    age: usize,
    order: &'o KeyOrder,
) -> Result<()> {
    if let Some(entry) = rest.next() {
        let entry = entry?;
        heap.push(Head {
            entry,
            rest,
            age,
            order,
        });
    }
    Ok(())
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_key = self.order.compare(&other.entry.key, &self.entry.key);
        by_key.then(self.age.cmp(&other.age))
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head<'_> {}

impl Drop for SstFileSorter {
    fn drop(&mut self) {
        self.remove_runs();
        if !self.is_finished {
            for file in &self.outputs {
                let _ = self.how.env.fs.remove_file(&file.path);
            }
        }
    }
}

impl fmt::Debug for SstFileSorter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SstFileSorter")
            .field("directory", &self.directory)
            .field("runs", &self.runs.len())
            .finish_non_exhaustive()
    }
}
