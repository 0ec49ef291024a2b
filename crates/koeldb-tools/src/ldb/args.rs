//! The command line of `ldb`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Reads, writes and inspects databases of KoelDB and RocksDB.
#[derive(Debug, Parser)]
#[command(
    name = "ldb",
    version,
    rename_all = "snake_case",
    arg_required_else_help = true,
    after_help = EXAMPLES
)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

const EXAMPLES: &str = "\
Flags may stand before or after the command.

Examples:
  ldb --db=/var/lib/app/db scan --from=user: --to=user; --max_keys=10
  ldb --db=/var/lib/app/db --key_hex get 0x6B31
  ldb --db=/tmp/new --create_if_missing put koel Eudynamys
  ldb --db=/var/lib/app/db manifest_dump --verbose
  ldb --db=/var/lib/app/db doctor
  ldb --db=/var/lib/app/db explain-get user:17
  ldb --db=/var/lib/app/db lsm --out=levels.svg

Commands of RocksDB's ldb that do not exist here:
  change_compaction_style                    open with the new options, then run compact
  compaction_progress_dump                   an interrupted compaction starts over; there is no progress file
  update_manifest                            it records temperatures, which have no effect here
  query                                      each of its commands is a command of ldb";

/// Moves flags from before the command to behind it: clap accepts those of a command only there.
///
/// Flags that stand before the command have the form `--flag` or `--flag=value`.
pub(super) fn with_command_first(words: &[String]) -> Vec<String> {
    let flags = words.iter().take_while(|word| word.starts_with("--"));
    let count = flags.count();
    let mut moved = words.to_vec();
    if count < moved.len() {
        moved[..=count].rotate_right(1);
    }
    moved
}

impl Command {
    /// Whether the command takes `--create_if_missing`.
    pub(super) fn may_create(&self) -> bool {
        matches!(
            self,
            Command::Put { .. }
                | Command::Batchput { .. }
                | Command::PutEntity { .. }
                | Command::Load(_)
                | Command::WriteExternSst { .. }
                | Command::IngestExternSst(_)
        )
    }
}

/// Flags of all commands.
#[derive(Args, Clone, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct Global {
    /// Directory of the database.
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(super) db: Option<PathBuf>,

    /// Opens a secondary of the database, which keeps its own files in this directory.
    #[arg(
        long,
        global = true,
        value_name = "DIRECTORY",
        conflicts_with = "leader_path"
    )]
    pub(super) secondary_path: Option<PathBuf>,

    /// Opens a follower, in --db, of the database in this directory.
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(super) leader_path: Option<PathBuf>,

    /// The database is a TTL database: values end with the time at which they were written.
    #[arg(long, global = true)]
    pub(super) ttl: bool,

    /// Keys and values are hexadecimal with a 0x prefix, in input and output.
    #[arg(long, global = true)]
    pub(super) hex: bool,

    /// Keys are hexadecimal.
    #[arg(long, global = true)]
    pub(super) key_hex: bool,

    /// Values are hexadecimal.
    #[arg(long, global = true)]
    pub(super) value_hex: bool,

    /// Column family to work on.
    #[arg(long, global = true, default_value = "default", value_name = "NAME")]
    pub(super) column_family: String,

    /// Opens the database for transactions; only for commands that write.
    #[arg(
        long,
        global = true,
        conflicts_with_all = ["ttl", "secondary_path", "leader_path"]
    )]
    pub(super) use_txn: bool,

    /// Write policy of transactions, 0 to 2, which differ in nothing that a command writes.
    #[arg(long, global = true, value_name = "POLICY")]
    pub(super) txn_write_policy: Option<i32>,

    /// Creates the database if it is missing; for put, put_entity, batchput, load and the commands on external tables.
    #[arg(long, global = true)]
    pub(super) create_if_missing: bool,

    /// Uses the options of the newest OPTIONS file; the default if there is one.
    #[arg(
        long,
        global = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub(super) try_load_options: Option<bool>,

    /// Ignores unknown options in the OPTIONS file.
    #[arg(long, global = true)]
    pub(super) ignore_unknown_options: bool,

    /// Options to set in addition, as a=1;b=2.
    #[arg(long, global = true, value_name = "STRING")]
    pub(super) options: Option<String>,

    /// Sets force_consistency_checks = false.
    #[arg(long, global = true)]
    pub(super) disable_consistency_checks: bool,

    /// Bits per key of Bloom filters.
    #[arg(long, global = true, value_name = "BITS")]
    pub(super) bloom_bits: Option<u32>,

    /// Size of a data block.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) block_size: Option<u64>,

    /// Codec: no, snappy, zlib, bzip2, lz4, lz4hc or zstd.
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) compression_type: Option<String>,

    /// Length of prefixes: sets prefix_extractor = fixed:N.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) fix_prefix_len: Option<u32>,

    /// Size of a memtable.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) write_buffer_size: Option<u64>,

    /// Total size of all memtables.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) db_write_buffer_size: Option<u64>,

    /// Size of a table file.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) file_size: Option<u64>,

    #[command(flatten)]
    pub(super) blob: BlobFlags,

    /// Enables or disables automatic compactions.
    #[arg(long, global = true, value_name = "BOOL")]
    pub(super) auto_compaction: Option<bool>,

    /// Prints JSON, one object per line; keys and values in hexadecimal.
    #[arg(long, global = true)]
    pub(super) json: bool,
}

/// Flags that set the options of blob files, named like these.
#[derive(Args, Clone, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct BlobFlags {
    /// Keeps large values in blob files.
    #[arg(long, global = true)]
    pub(super) enable_blob_files: bool,

    /// Size from which values are large.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) min_blob_size: Option<u64>,

    /// Size of a blob file.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) blob_file_size: Option<u64>,

    /// Codec of blob files, as in --compression_type.
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) blob_compression_type: Option<String>,

    /// Moves values out of old blob files in compactions.
    #[arg(long, global = true)]
    pub(super) enable_blob_garbage_collection: bool,

    /// Part of the blob files that is old, 0 to 1.
    #[arg(long, global = true, value_name = "RATIO")]
    pub(super) blob_garbage_collection_age_cutoff: Option<f64>,

    /// Garbage in the oldest blob files that makes compactions of its own, 0 to 1.
    #[arg(long, global = true, value_name = "RATIO")]
    pub(super) blob_garbage_collection_force_threshold: Option<f64>,

    /// Readahead of compactions in blob files.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) blob_compaction_readahead_size: Option<u64>,

    /// First level whose values go to blob files.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(super) blob_file_starting_level: Option<u32>,

    /// Whether written values enter the blob cache: 0 or 1 (by flushes).
    #[arg(long, global = true, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    pub(super) prepopulate_blob_cache: Option<u8>,
}

/// The command.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(super) enum Command {
    /// Sets the value of a key.
    Put { key: String, value: String },
    /// Sets the values of several keys in one batch.
    Batchput {
        /// Alternating keys and values.
        #[arg(required = true)]
        pairs: Vec<String>,
    },
    /// Prints the value of a key.
    Get { key: String },
    /// Prints the values of several keys.
    MultiGet {
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Writes a key with wide columns; the default column has the empty name.
    PutEntity {
        key: String,
        /// A name, a colon and a value.
        #[arg(required = true, value_name = "NAME:VALUE")]
        columns: Vec<String>,
    },
    /// Prints the columns of a key.
    GetEntity { key: String },
    /// Prints the columns of several keys.
    MultiGetEntity {
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Deletes a key.
    Delete { key: String },
    /// Deletes a key that was written only once.
    Singledelete { key: String },
    /// Deletes a range of keys; the end is not included.
    Deleterange { from: String, to: String },
    /// Prints keys and values in order.
    Scan(Scan),
    /// Prints keys and values, and counts them.
    Dump(Dump),
    /// Reads lines `key ==> value`, as dump prints them, and writes them.
    Load(Load),
    /// Prints the estimated size of a key range in table files.
    Approxsize(KeyRange),
    /// Prints all internal keys: every version of every key, including deletions.
    Idump(Idump),
    /// Prints the contents of a MANIFEST.
    ManifestDump {
        /// MANIFEST file; the current one by default.
        #[arg(long, value_name = "FILE")]
        path: Option<PathBuf>,
        /// Prints every edit as well.
        #[arg(long)]
        verbose: bool,
    },
    /// Prints the batches in a log.
    DumpWal(DumpWal),
    /// Prints the names of the column families.
    ListColumnFamilies,
    /// Creates a column family.
    CreateColumnFamily { name: String },
    /// Drops a column family.
    DropColumnFamily { name: String },
    /// Compacts a range of keys, or the whole column family.
    Compact(KeyRange),
    /// Prints a property.
    GetProperty { name: String },
    /// Compares the table files with the MANIFEST.
    Checkconsistency,
    /// Prints the table and blob files by column family and level.
    ListLiveFilesMetadata {
        /// Sorts the files by name instead of by column family and level.
        #[arg(long)]
        sort_by_filename: bool,
    },
    /// Prints the MANIFEST, the entries and properties of all table and blob files, and the logs.
    DumpLiveFiles(FileContents),
    /// Prints the header, the footer and the records of a blob file, without opening the database.
    ///
    /// Each value is live or dead according to the tables in the directory of the file. Fails if the
    /// file is damaged.
    BlobDump {
        /// The blob file, in the directory of its database.
        #[arg(long, value_name = "FILE")]
        path: PathBuf,
        /// Prints the values as they are stored, compressed or not.
        #[arg(long)]
        show_values: bool,
    },
    /// Prints the range deletions of each table file of the column family.
    ListFileRangeDeletes {
        /// Prints at most this many.
        #[arg(long, default_value_t = 1000, value_name = "COUNT")]
        max_keys: usize,
    },
    /// Creates a database with the same contents, which shares the table files.
    Checkpoint {
        /// Directory to create.
        #[arg(long, value_name = "DIRECTORY")]
        checkpoint_dir: PathBuf,
    },
    /// Adds a backup to a directory of backups.
    Backup(Backups),
    /// Restores the latest backup of a directory of backups.
    Restore(Backups),
    /// Writes lines `key ==> value` of standard input, in key order, to a table file.
    WriteExternSst { path: PathBuf },
    /// Makes table files part of the column family.
    IngestExternSst(Ingestion),
    /// Prints the recorded checksum of each table and blob file, raw or with --hex.
    FileChecksumDump,
    /// Examines a directory of KoelDB or RocksDB, and says what to do; the database is not opened.
    ///
    /// Checks that tables and blob files exist, have their checksums and do not overlap, reads the logs, and looks
    /// for many deletions, space amplification and options that disappoint. Fails if data is damaged.
    Doctor(Doctor),
    /// Explains which memtables, tables, filters and blocks a read of a key consults, and why.
    #[command(name = "explain-get", alias = "explain_get")]
    ExplainGet { key: String },
    /// Draws the levels of the column family by key range, as SVG.
    Lsm {
        /// File to write; standard output by default.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Prints figures of a running database at an interval, seen through a secondary of it.
    Top(Top),
    /// Compacts a column family so that it can be opened with fewer levels.
    ReduceLevels {
        /// The number of levels, at least 2.
        #[arg(long, value_name = "COUNT")]
        new_levels: usize,
        /// Prints the number of levels in use before.
        #[arg(long)]
        print_old_levels: bool,
    },
    /// Compacts the column family by a job in a directory, which remote_compaction_worker runs.
    ///
    /// Fails if no worker answers within two minutes.
    RemoteCompactionPrimary(JobDirectory),
    /// Waits for the job of remote_compaction_primary in a directory, and runs it.
    ///
    /// The tables are written to the directory `output` in it. Nothing changes in the database.
    RemoteCompactionWorker(JobDirectory),
    /// Removes a table from the tree: its entries are lost, and older ones of their keys reappear.
    UnsafeRemoveSstFile {
        /// The number of the table.
        #[arg(value_name = "SST FILE NUMBER")]
        number: u64,
    },
    /// Rebuilds the MANIFEST from the readable tables and logs.
    Repair {
        /// Prints the used and the archived files.
        #[arg(long)]
        verbose: bool,
    },
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct Doctor {
    /// Does not read the blocks of tables and the records of blob files to verify their checksums.
    #[arg(long)]
    pub(super) skip_checksums: bool,
    /// The directories of tables and blob files, in order, if the database has several.
    #[arg(long, value_name = "DIRECTORY,...", value_delimiter = ',')]
    pub(super) db_paths: Vec<PathBuf>,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct Top {
    /// Time between two lines.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    pub(super) interval_seconds: f64,
    /// Lines to print; endless by default.
    #[arg(long, value_name = "COUNT")]
    pub(super) count: Option<u64>,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct Backups {
    /// Directory of backups.
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) backup_dir: PathBuf,
    /// Threads that copy.
    #[arg(long, value_name = "COUNT")]
    pub(super) num_threads: Option<usize>,
}

/// The place of a remote compaction.
#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct JobDirectory {
    /// Directory of the job, which primary and worker share.
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) job_dir: PathBuf,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct Ingestion {
    #[arg(required = true)]
    pub(super) files: Vec<PathBuf>,
    /// Links the files, and removes the originals.
    #[arg(long)]
    pub(super) move_files: bool,
    /// Hides the files from snapshots that exist.
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    pub(super) snapshot_consistency: bool,
    /// Gives files a sequence number if they need one.
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    pub(super) allow_global_seqno: bool,
    /// Flushes memtables that overlap a file.
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    pub(super) allow_blocking_flush: bool,
}

/// A range of keys.
#[derive(Args, Clone, Debug, Default)]
#[command(rename_all = "snake_case")]
pub(super) struct KeyRange {
    /// First key.
    #[arg(long, value_name = "KEY")]
    pub(super) from: Option<String>,
    /// End of the range, exclusive.
    #[arg(long, value_name = "KEY")]
    pub(super) to: Option<String>,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct Scan {
    #[command(flatten)]
    pub(super) range: KeyRange,
    /// Prints at most this many.
    #[arg(long, value_name = "COUNT")]
    pub(super) max_keys: Option<u64>,
    /// Prints the keys only.
    #[arg(long)]
    pub(super) no_value: bool,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct Dump {
    #[command(flatten)]
    pub(super) range: KeyRange,
    /// Prints at most this many.
    #[arg(long, value_name = "COUNT")]
    pub(super) max_keys: Option<u64>,
    /// Prints only counts, and a histogram of value lengths.
    #[arg(long)]
    pub(super) count_only: bool,
    /// Counts entries by the part of the key before this character.
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ".",
        value_name = "CHARACTER"
    )]
    pub(super) count_delim: Option<String>,
    /// Prints the property rocksdb.stats first.
    #[arg(long)]
    pub(super) stats: bool,
    /// Dumps this table, blob file, log or MANIFEST instead of a database.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["count_only", "count_delim", "stats"])]
    pub(super) path: Option<PathBuf>,
    #[command(flatten)]
    pub(super) contents: FileContents,
}

/// What is printed of the contents of files.
#[derive(Args, Clone, Copy, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct FileContents {
    /// Prints the fields of references to blob files.
    #[arg(long)]
    pub(super) decode_blob_index: bool,
    /// Prints the values of blob files uncompressed.
    #[arg(long)]
    pub(super) dump_uncompressed_blobs: bool,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct Idump {
    #[command(flatten)]
    pub(super) range: KeyRange,
    /// --from and --to are hexadecimal.
    #[arg(long)]
    pub(super) input_key_hex: bool,
    /// Prints at most this many.
    #[arg(long, value_name = "COUNT")]
    pub(super) max_keys: Option<u64>,
    /// Prints the property rocksdb.stats first.
    #[arg(long)]
    pub(super) stats: bool,
    /// Prints the fields of references to blob files.
    #[arg(long)]
    pub(super) decode_blob_index: bool,
    /// Prints only the count.
    #[arg(long)]
    pub(super) count_only: bool,
    /// Counts entries by the part of the key before this character.
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ".",
        value_name = "CHARACTER"
    )]
    pub(super) count_delim: Option<String>,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct Load {
    /// Writes without log.
    #[arg(long)]
    pub(super) disable_wal: bool,
    /// Accepted without effect: loads are always batched.
    #[arg(long)]
    pub(super) bulk_load: bool,
    /// Compacts the column family afterwards.
    #[arg(long)]
    pub(super) compact: bool,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct DumpWal {
    /// Log file, or a directory of log files.
    #[arg(long, value_name = "FILE_OR_DIRECTORY")]
    pub(super) walfile: PathBuf,
    /// Prints a heading.
    #[arg(long)]
    pub(super) header: bool,
    /// Prints values as well.
    #[arg(long)]
    pub(super) print_value: bool,
    /// Accepted for compatibility.
    #[arg(long, value_name = "BOOL")]
    pub(super) write_committed: Option<bool>,
}
