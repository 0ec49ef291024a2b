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
Flags may stand before or behind the command.

Examples:
  ldb --db=/var/lib/app/db scan --from=user: --to=user; --max_keys=10
  ldb --db=/var/lib/app/db --key_hex get 0x6B31
  ldb --db=/tmp/new --create_if_missing put koel Eudynamys
  ldb --db=/var/lib/app/db manifest_dump --verbose";

/// What all commands understand.
#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct Global {
    /// Directory of the database.
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(super) db: Option<PathBuf>,

    /// Keys and values in hexadecimal, with 0x before them, going in and coming out.
    #[arg(long, global = true)]
    pub(super) hex: bool,

    /// Keys in hexadecimal.
    #[arg(long, global = true)]
    pub(super) key_hex: bool,

    /// Values in hexadecimal.
    #[arg(long, global = true)]
    pub(super) value_hex: bool,

    /// Column family to work on.
    #[arg(long, global = true, default_value = "default", value_name = "NAME")]
    pub(super) column_family: String,

    /// Makes the database if there is none.
    #[arg(long, global = true)]
    pub(super) create_if_missing: bool,

    /// Opens with the options of the newest OPTIONS file; the default if there is one.
    #[arg(
        long,
        global = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub(super) try_load_options: Option<bool>,

    /// Passes over options in the OPTIONS file that are not known here.
    #[arg(long, global = true)]
    pub(super) ignore_unknown_options: bool,

    /// Options to set on top, as a=1;b=2.
    #[arg(long, global = true, value_name = "STRING")]
    pub(super) options: Option<String>,

    /// Sets force_consistency_checks = false.
    #[arg(long, global = true)]
    pub(super) disable_consistency_checks: bool,

    /// Bits per key of Bloom filters.
    #[arg(long, global = true, value_name = "BITS")]
    pub(super) bloom_bits: Option<u32>,

    /// Bytes of a data block.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) block_size: Option<u64>,

    /// Codec: no, snappy, zlib, bzip2, lz4, lz4hc or zstd.
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) compression_type: Option<String>,

    /// Length of prefixes: sets prefix_extractor = fixed:N.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) fix_prefix_len: Option<u32>,

    /// Bytes of a memtable.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) write_buffer_size: Option<u64>,

    /// Bytes of all memtables.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) db_write_buffer_size: Option<u64>,

    /// Bytes of a table file.
    #[arg(long, global = true, value_name = "BYTES")]
    pub(super) file_size: Option<u64>,

    /// Whether compactions run by themselves.
    #[arg(long, global = true, value_name = "BOOL")]
    pub(super) auto_compaction: Option<bool>,

    /// Prints JSON, one object per line; keys and values in hexadecimal.
    #[arg(long, global = true)]
    pub(super) json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(super) enum Command {
    /// Gives a key a value.
    Put { key: String, value: String },
    /// Gives several keys values, together.
    Batchput {
        /// A key, its value, the next key, …
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
    /// Deletes a key.
    Delete { key: String },
    /// Deletes a key that was written once.
    Singledelete { key: String },
    /// Deletes the keys from one up to, but without, another.
    Deleterange { from: String, to: String },
    /// Prints keys and values in order.
    Scan(Scan),
    /// Prints keys and values, and counts them.
    Dump(Dump),
    /// Reads lines `key ==> value`, as dump prints them, and writes them.
    Load(Load),
    /// Prints about how many bytes of tables a range of keys takes.
    Approxsize(KeyRange),
    /// Prints all internal keys: every version of every key, deletions too.
    Idump(Idump),
    /// Prints what a MANIFEST records.
    ManifestDump {
        /// The MANIFEST, if it is not the one that CURRENT names.
        #[arg(long, value_name = "FILE")]
        path: Option<PathBuf>,
        /// Prints every edit too.
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
    /// Compacts a range of keys, or all.
    Compact(KeyRange),
    /// Prints a property.
    GetProperty { name: String },
    /// Compares the table files with what is recorded of them.
    Checkconsistency,
    /// Prints the table files by column family and level.
    ListLiveFilesMetadata,
    /// Makes a new MANIFEST from the tables and logs that can be read.
    Repair {
        /// Prints what was used and what was set aside.
        #[arg(long)]
        verbose: bool,
    },
}

/// A range of keys.
#[derive(Args, Clone, Debug, Default)]
#[command(rename_all = "snake_case")]
pub(super) struct KeyRange {
    /// First key.
    #[arg(long, value_name = "KEY")]
    pub(super) from: Option<String>,
    /// First key that is left out.
    #[arg(long, value_name = "KEY")]
    pub(super) to: Option<String>,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct Scan {
    #[command(flatten)]
    pub(super) range: KeyRange,
    /// Prints so many at most.
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
    /// Prints so many at most.
    #[arg(long, value_name = "COUNT")]
    pub(super) max_keys: Option<u64>,
    /// Counts only, and shows how long values are.
    #[arg(long)]
    pub(super) count_only: bool,
    /// Prints the property rocksdb.stats first.
    #[arg(long)]
    pub(super) stats: bool,
    /// Dumps this table, log or MANIFEST instead of a database.
    #[arg(long, value_name = "FILE")]
    pub(super) path: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct Idump {
    #[command(flatten)]
    pub(super) range: KeyRange,
    /// Takes --from and --to in hexadecimal.
    #[arg(long)]
    pub(super) input_key_hex: bool,
    /// Prints so many at most.
    #[arg(long, value_name = "COUNT")]
    pub(super) max_keys: Option<u64>,
    /// Counts only.
    #[arg(long)]
    pub(super) count_only: bool,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct Load {
    /// Writes no log.
    #[arg(long)]
    pub(super) disable_wal: bool,
    /// Accepted: loads are batched in any case.
    #[arg(long)]
    pub(super) bulk_load: bool,
    /// Compacts everything afterwards.
    #[arg(long)]
    pub(super) compact: bool,
}

#[derive(Args, Debug)]
#[command(rename_all = "snake_case")]
pub(super) struct DumpWal {
    /// The log, or a directory that holds some.
    #[arg(long, value_name = "FILE_OR_DIRECTORY")]
    pub(super) walfile: PathBuf,
    /// Prints a heading.
    #[arg(long)]
    pub(super) header: bool,
    /// Prints values too.
    #[arg(long)]
    pub(super) print_value: bool,
    /// Accepted for old command lines.
    #[arg(long, value_name = "BOOL")]
    pub(super) write_committed: Option<bool>,
}
