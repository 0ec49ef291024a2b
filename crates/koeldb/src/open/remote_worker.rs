//! The worker of a remote compaction: opens the files of another process's database as a secondary
//! and runs one of its compactions.

use std::path::Path;
use std::sync::Arc;

use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::{Error, Result};
use koeldb_lsm::job::{LiveSnapshots, PartRange};
use koeldb_lsm::pick;

use crate::api::column_family::ColumnFamilyDescriptor;
use crate::api::db::Db;
use crate::background::WorkerJob;
use crate::background::remote::format::{
    JobFigures, JobInput, JobResult, OutputTable, table_name, table_number,
};
use crate::engine::secondary::{KeepTables, SecondaryOptions};
use crate::open::DEFAULT_FAMILY;
use crate::options::object::Description;
use crate::options::{ColumnFamilyOptions, ConfigOptions, IgnoredOption, Options, pick_settings};

/// The objects that decide which entries a compaction keeps, and their order.
const OBJECTS: [&str; 6] = [
    "comparator",
    "merge_operator",
    "compaction_filter",
    "compaction_filter_factory",
    "prefix_extractor",
    "table_factory",
];

impl Db {
    /// Runs a remote compaction job of the primary at `path` in this process; returns its result.
    ///
    /// `input` is the message that the primary gave to its
    /// [`CompactionService`](crate::CompactionService), of KoelDB or of RocksDB 9.8 or newer. The new
    /// tables are written to `output_directory`, which must be empty or missing. They are durable
    /// when this returns the message for the primary. Nothing changes in `path`. (RocksDB's
    /// `DB::OpenAndCompact`.)
    ///
    /// The settings come from the OPTIONS file that `input` names. From `overrides` come the
    /// environment, listeners, `db_paths` and `cf_paths`, and the objects that the file can only
    /// name: comparator, merge operator, compaction filter, prefix extractor.
    ///
    /// # Errors
    /// `NotSupported` if the file names an object that `overrides` lacks; `InvalidArgument` if an
    /// input table is not part of the database, or the output directory has files; errors of
    /// [`Db::open_as_secondary`] and of the compaction. [`compaction_failure_result`] makes a message
    /// of an error.
    pub fn open_and_compact(
        overrides: &Options,
        path: impl AsRef<Path>,
        output_directory: impl AsRef<Path>,
        input: &[u8],
    ) -> Result<Vec<u8>> {
        let (path, directory) = (path.as_ref(), output_directory.as_ref());
        let input = JobInput::decode(input)?;
        let fs = Arc::clone(overrides.plugins.env.file_system());
        if fs.exists(directory)? && !fs.list(directory)?.is_empty() {
            let error = Error::invalid_argument("the output directory of a compaction has files");
            return Err(error.in_file(directory, None, "compact"));
        }
        let (options, families) = load_options(overrides, path, &input)?;
        let mut secondary = SecondaryOptions::new();
        secondary.set_logs(false).set_keep(KeepTables::Descriptors);
        let db = Db::builder(&options)
            .column_families(families)
            .secondary_opt(directory, &secondary)
            .open(path)?;
        let result = db.compact_for_primary(&input, directory);
        let closed = db.close();
        let result = result?;
        closed.map(|()| result.encode())
    }

    /// Runs the compaction that `input` describes and writes its tables into `directory`.
    fn compact_for_primary(&self, input: &JobInput, directory: &Path) -> Result<JobResult> {
        let inner = self.inner();
        let family = self.cf_handle(&input.family).ok_or_else(|| {
            Error::invalid_argument(format!("there is no column family '{}'", input.family))
        })?;
        let family = family.data();
        let numbers = input.files.iter().map(|name| table_number(name));
        let numbers: Vec<FileNumber> = numbers.collect::<Result<_>>()?;
        let settings = pick_settings(&family.options());
        let level = input.output_level as usize;
        let plan = pick::manual::plan_files(&family.version(), &settings, &numbers, level)
            .map_err(Error::invalid_argument)?;
        let job = WorkerJob {
            db_id: input.db_id.clone(),
            directory: directory.to_owned(),
            // The message does not tell which are of transactions.
            snapshots: LiveSnapshots::of_any_owner(input.snapshots.clone()),
            range: PartRange {
                from: input.begin.clone(),
                to: input.end.clone(),
            },
        };
        let (output, outcome) = inner.background.run_worker_job(family, &plan, &job)?;
        let there = plan.inputs.iter().filter(|input| input.level == level);
        let totals = &outcome.totals;
        let micros =
            |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let files = output.files.iter().zip(&output.properties);
        Ok(JobResult {
            error: None,
            output_level: input.output_level,
            directory: directory.to_string_lossy().into_owned(),
            figures: JobFigures {
                elapsed_micros: micros(totals.elapsed),
                cpu_micros: micros(totals.cpu),
                input_files: plan.files().count() as u64,
                input_files_there: there.flat_map(|input| &input.files).count() as u64,
                input_bytes: plan.input_bytes(),
                input_entries: totals.keys_in,
                output_files: output.files.len() as u64,
                output_bytes: totals.written,
                output_entries: output.properties.iter().map(|of| of.entry_count).sum(),
                is_manual: false,
            },
            files: files
                .map(|(file, properties)| OutputTable {
                    name: table_name(file.number),
                    bytes: file.bytes,
                    smallest_seqno: file.smallest_seqno,
                    largest_seqno: file.largest_seqno,
                    smallest: file.smallest.clone(),
                    largest: file.largest.clone(),
                    oldest_ancestor_time: file.oldest_ancestor_time,
                    creation_time: file.creation_time,
                    epoch: file.epoch,
                    checksum: file.checksum.clone(),
                    checksum_name: file.checksum_name.clone(),
                    marked_for_compaction: file.marked_for_compaction,
                    unique_id: file.unique_id,
                    is_proximal: false,
                    properties: properties.clone(),
                })
                .collect(),
        })
    }
}

/// Encodes the result message that tells the primary that its compaction job failed with `error`.
#[must_use]
pub fn compaction_failure_result(error: &Error) -> Vec<u8> {
    JobResult {
        error: Some(error.clone()),
        ..JobResult::default()
    }
    .encode()
}

/// Loads the primary's OPTIONS file, and adds the objects of `overrides`, such as the comparator.
///
/// Also returns the column families to open: the default one, and the one that is compacted.
fn load_options(
    overrides: &Options,
    path: &Path,
    input: &JobInput,
) -> Result<(Options, Vec<ColumnFamilyDescriptor>)> {
    let mut how = ConfigOptions::new();
    how.set_ignore_unknown_options(true)
        .set_ignore_unsupported_options(true);
    let file = file_name::options(path, input.options_file);
    let mut loaded = Options::load_file_in(&overrides.plugins.env, file, &how)?;
    let mut families = Vec::new();
    for (name, mut family) in loaded.column_families {
        if name == input.family {
            override_objects(&mut family, &overrides.cf, &loaded.ignored)?;
        } else if name != DEFAULT_FAMILY {
            continue;
        }
        families.push(ColumnFamilyDescriptor::new(name, family));
    }
    let options = &mut loaded.options;
    options.plugins.env = overrides.plugins.env.clone();
    options
        .plugins
        .listeners
        .clone_from(&overrides.plugins.listeners);
    options.plugins.logger.clone_from(&overrides.plugins.logger);
    options.db.statistics.clone_from(&overrides.db.statistics);
    // No OPTIONS file has them.
    options.db.db_paths.clone_from(&overrides.db.db_paths);
    // Open tables stay readable when the primary removes them.
    options.db.max_open_files = -1;
    options.db.db_log_dir.clear();
    options.db.wal_dir.clear();
    Ok((loaded.options, families))
}

/// Sets the user-defined objects that an OPTIONS file only names, and checks that the names match.
fn override_objects(
    family: &mut ColumnFamilyOptions,
    overrides: &ColumnFamilyOptions,
    ignored: &[IgnoredOption],
) -> Result<()> {
    family.cf_paths.clone_from(&overrides.cf_paths);
    if overrides.merge_operator.is_some() {
        family.merge_operator.clone_from(&overrides.merge_operator);
    }
    if overrides.compaction_filter_factory.is_some() {
        let factory = &overrides.compaction_filter_factory;
        family.compaction_filter_factory.clone_from(factory);
    }
    if overrides.prefix_extractor.is_some() {
        family
            .prefix_extractor
            .clone_from(&overrides.prefix_extractor);
    }
    for option in ignored {
        let name = option.name.as_str();
        if !OBJECTS.contains(&name) {
            continue;
        }
        if name == "comparator" {
            family.comparator = overrides.comparator.clone();
        }
        let given = match name {
            "comparator" => Some(family.comparator.comparator().name().to_owned()),
            "merge_operator" => family
                .merge_operator
                .as_ref()
                .map(|it| it.name().to_owned()),
            "prefix_extractor" => family
                .prefix_extractor
                .as_ref()
                .map(|it| it.name().to_owned()),
            "compaction_filter_factory" => {
                let factory = family.compaction_filter_factory.as_ref();
                factory.map(|it| it.name().to_owned())
            }
            _ => None,
        };
        let wanted = Description::parse(name, &option.value)?;
        let wanted = wanted.map_or("nullptr", |wanted| wanted.id);
        if given.as_deref() != Some(wanted) {
            return Err(Error::not_supported(format!(
                "the primary compacts with the {name} '{wanted}', which this worker lacks"
            )));
        }
    }
    Ok(())
}
